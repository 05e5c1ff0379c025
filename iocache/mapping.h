/*
 * iocache/mapping.h - a file's uncached cache: what is in hand of it, on its way to the disk. The layer's public face.
 *
 * A mapping belongs to one open file, which outlives it: while there is anything to write, the mapping holds a reference to its owner through the
 * config's hold() and release(). Calls come from fibers of any reactor. Ranges are bytes of the file.
 *
 * A writer: mapping_write_begin(), then mapping_stage() once, then mapping_write_end(); if it must be stable, mapping_write_wait() after that. Nothing that
 * was staged is ever written from memory that changes: see iocache/folio.h.
 */
#ifndef IOCACHE_MAPPING_H
#define IOCACHE_MAPPING_H

#include <time.h>

#include "runtime/sync.h"

struct buf;
struct iovec;
struct mapping;
struct statx;

/* Process-wide bounds; 0 takes the default. */
struct cache_config {
	uint64_t dirty_bytes_max;      /* staged and not yet on the device, all files; default a quarter of 256 MiB */
	uint64_t file_dirty_bytes_max; /* the same of one file; default half of the above */
	uint64_t client_dirty_bytes_max; /* the same of one client; default three quarters of all files' */
	uint64_t kept_bytes_max;       /* clean half-written units kept for their partner; default 32 MiB */
	uint32_t kept_ms_max;          /* ... and for how long; default 5000 */
	uint32_t edge_wait_ms;         /* how long an UNSTABLE edge waits for its partner before it is filled and written; default 300 */
	uint32_t run_bytes_max;        /* one vectored write; default 8 MiB */
	uint32_t runs_in_flight_max;   /* inside the file; default 32 */
	uint32_t early_bytes;          /* a round that waits for writers does not wait with so much; default 512 KiB */
};

int cache_init(const struct cache_config *config);
void cache_fini(void);
/* Start the fiber that ages kept units and waiting edges, on the calling reactor; it ends when the runtime stops. */
noyield_fn int cache_start(void);

struct mapping_config {
	int direct_fd;            /* O_DIRECT; -1: the file has no direct I/O, only mapping_write_through() is used (block is 0 then) */
	int buffered_fd;          /* the same file through the kernel's page cache: for the open tail block */
	uint32_t block;           /* dio_offset_align, 512...65536 */
	uint32_t read_block;      /* dio_read_offset_align, if the kernel tells; 0: like block */
	uint64_t size;            /* i_size now */
	struct timespec mtime, ctime;
	uint64_t inode;           /* the file's name in the log */
	uint32_t dev_major, dev_minor;
	void *owner;
	void (*hold)(void *owner);    /* noyield_fn; may be NULL */
	void (*release)(void *owner); /* noyield_fn; may be the owner's last put */
	void (*data_lost)(void *owner); /* noyield_fn: acknowledged data may be lost: change the write verifier */
};

/* NULL: no memory. */
struct mapping *mapping_create(const struct mapping_config *config);
/* The mapping must be idle (mapping_is_idle()). */
void mapping_destroy(struct mapping *m);
/* Nothing dirty and nothing running: it may be destroyed. */
noyield_fn bool mapping_is_idle(struct mapping *m);
/* Something was written through it that no sync has covered: whoever closes the file syncs it, and changes the verifier if that fails. */
noyield_fn bool mapping_owes_sync(struct mapping *m);
noyield_fn uint32_t mapping_unit(const struct mapping *m);
/* At most a unit: what direct reads are multiples of. */
noyield_fn uint32_t mapping_read_unit(const struct mapping *m);
noyield_fn uint64_t mapping_size(struct mapping *m);

/* Attributes as clients see them (WRITE_PATH 1.12). */
struct mapping_attr {
	uint64_t size;
	struct timespec mtime, ctime;
};

enum mapping_sync_how {
	MAPPING_WRITTEN,          /* on the device, perhaps in its cache */
	MAPPING_SYNC_DATA,        /* fdatasync */
	MAPPING_SYNC_FILE,        /* fsync: timestamps too */
};

/* A fiber that waits until what was staged up to seq and touches [start, end) is where `how` says. Private to iocache. */
struct mapping_waiter {
	TAILQ_ENTRY(mapping_waiter) link;
	struct fiber *fiber;
	uint64_t start, end, seq;
	enum mapping_sync_how how;
	unsigned held_back; /* rounds that left it out */
	int error;
	bool done;
};

/* One WRITE on its way into the mapping; on the caller's stack. */
struct mapping_write {
	struct range_hold hold;
	uint64_t start, end;
	uint8_t payer;            /* the client's account of dirty bytes */
	uint64_t seq;             /* out: the number of the stage; 0: nothing was staged */
	struct mapping_waiter waiter; /* a stable WRITE's: known to the flusher from the moment its bytes are in the mapping */
	struct mapping_attr before, after; /* out: the attributes that the WRITE changed, taken atomically with it */
};

/*
 * Wait for room in the dirty bounds, of which `client` (any number that is the same for all of its calls) has a share, and lock the units that
 * [offset, offset+len) touches. 0; or -errno: earlier data of this file was lost or cannot be written
 * (the sticky error, reported once), and nothing is held.
 */
fiber_fn int mapping_write_begin(struct mapping *m, struct mapping_write *w, uint64_t client, uint64_t offset, uint32_t len);

struct mapping_payload {
	struct buf *buf;          /* data lies in it; the mapping takes its own references */
	uint8_t *data;
	uint32_t len;
	bool unstable;            /* it will be acknowledged before it is written; otherwise mapping_write_wait() follows, also for MAPPING_WRITTEN */
	enum mapping_sync_how how; /* ... and waits for this */
	bool copy;                /* the middle is copied into large folios of the cache's own (`dontcache` mode), not adopted */
	bool keep_edges;          /* edges that it completes are not marked: they stay, clean, as long as there is room and time */
};

/*
 * Take in the payload: aligned middle adopted (if data is congruent to the offset modulo PAGE_BYTES, copied otherwise: counted), ends into edge units.
 * Size, times and change of the file move here. On success w->seq is set and the flusher is on its way. -errno: nothing was taken in.
 */
fiber_fn int mapping_stage(struct mapping *m, struct mapping_write *w, const struct mapping_payload *payload);
/* The same through the kernel's page cache: buffered mode. What is staged of the range goes to the disk first. On return the bytes are in the page cache. */
fiber_fn int mapping_write_through(struct mapping *m, struct mapping_write *w, const struct mapping_payload *payload);
noyield_fn void mapping_write_end(struct mapping *m, struct mapping_write *w);
/* After mapping_write_end() of a stable WRITE that was staged: wait until it is. The first error of its data, or 0. */
fiber_fn int mapping_write_wait(struct mapping *m, struct mapping_write *w);

/*
 * Wait until everything staged up to seq that touches [start, end) is where `how` says. The first error of that data, or 0.
 */
fiber_fn int mapping_sync(struct mapping *m, uint64_t start, uint64_t end, uint64_t seq, enum mapping_sync_how how);
/* The same for all that is staged now, and report (once) any error that sticks to the file: COMMIT. */
fiber_fn int mapping_commit(struct mapping *m, uint64_t start, uint64_t end);
/* Put everything staged on the device, unsynced: before the times are set by hand, so that no later flush moves them. */
fiber_fn int mapping_writeout(struct mapping *m);
/* The same before the file is closed because others need its place: what finds no space is given up now. */
fiber_fn void mapping_let_go(struct mapping *m);
/*
 * Something found no space on the file's file system a moment ago: an UNSTABLE WRITE had better be answered when it is written (MAPPING_WRITTEN), or acknowledged data
 * would be kept, and tried in vain, that its client could have been told of.
 */
noyield_fn bool mapping_space_is_short(const struct mapping *m);
/* Write back and sync everything, drop everything: at a clean stop. The mapping is idle afterwards unless -errno. An idle file is closed without it. */
fiber_fn int mapping_flush(struct mapping *m);
/* The file has no name left and nobody will read it: forget what is dirty. */
fiber_fn void mapping_discard(struct mapping *m);

/* Set the size; dirty data past it is never written. 0 or -errno. */
fiber_fn int mapping_truncate(struct mapping *m, uint64_t size);

/* A piece of a file in memory: bytes [start, end) at data, in a buf that the receiver puts. */
struct mapping_piece {
	uint64_t start, end;
	const uint8_t *data;
	struct buf *buf;
};

/*
 * READ: the newest bytes of [start, end) that are in hand, in ascending order, at most `max` pieces; more pieces than that: -E2BIG and none is held. The caller
 * holds the range shared (mapping_read_begin) from before until it has read the rest from the device.
 */
fiber_fn void mapping_read_begin(struct mapping *m, struct range_hold *hold, uint64_t start, uint64_t end);
noyield_fn int mapping_read_pieces(struct mapping *m, uint64_t start, uint64_t end, struct mapping_piece *piece, unsigned max);
noyield_fn void mapping_read_end(struct mapping *m, struct range_hold *hold);
/*
 * A READ of [start, end) by `client` (any number that is the same for all of its calls) has begun: what follows it is read ahead, if it seems to be one of a
 * sequence. For files with direct I/O.
 */
noyield_fn void mapping_readahead(struct mapping *m, uint64_t client, uint64_t start, uint64_t end);
/* A READ has its bytes: what was in hand only for it goes. keep: it stays, like what others read (misaligned_dontcache=no). */
noyield_fn void mapping_prune(struct mapping *m, uint64_t start, uint64_t end, bool keep);
/*
 * Bytes [start, end) as the device has them (direct: multiples of mapping_read_unit(), mem page-aligned), or the page cache; zeros past the end of the file there. 0 or -errno.
 */
fiber_fn int mapping_read_device(struct mapping *m, bool direct, void *mem, uint64_t start, uint64_t end);

/*
 * What statx says of the file now, corrected for what is staged or was flushed by us. `look` was taken by mapping_look() before that statx: only if we changed nothing
 * on the disk since, a difference is news: a change that was not ours. Then clean units are dropped and the disk's values taken over.
 */
noyield_fn uint64_t mapping_look(struct mapping *m);
noyield_fn void mapping_attr(struct mapping *m, uint64_t look, const struct statx *stx, struct mapping_attr *attr);
/*
 * The mtime that clients were shown, if the disk has another: whoever closes the file sets it, so that it does not change for them. False: the disk has it.
 */
noyield_fn bool mapping_shown_mtime(struct mapping *m, struct timespec *mtime);
/* Direct I/O of whole units is still legal: the file's alignment, as of the last statx with IO_STATX_ALIGN, has not outgrown the unit. */
noyield_fn bool mapping_can_direct(struct mapping *m);
/* The same of direct reads, in multiples of mapping_read_unit(): a reflink, which makes the file's blocks the granularity of its writes, leaves that of reads as it was. */
noyield_fn bool mapping_can_read_direct(struct mapping *m);

/* The granularity of direct reads: what statx says of it, or, where it does not tell, that of all direct I/O. A power of two if that is one. */
noyield_fn uint32_t mapping_statx_read_align(const struct statx *stx);

#endif
