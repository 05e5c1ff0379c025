/*
 * runtime/sim_disk.h - what the simulated disk holds now, and what it would hold after a power cut. Private to sim*.c and their test.
 *
 * A pure data structure: no time, no descriptors, no faults; see sim_file.c for these. All functions are noyield and belong to one thread.
 */
#ifndef RUNTIME_SIM_DISK_H
#define RUNTIME_SIM_DISK_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include <time.h>

#include "runtime/base.h"
#include "runtime/sim_random.h"

struct disk_block;
struct disk_size_change;
struct sim_survivor;

RB_HEAD(disk_blocks, disk_block);
STAILQ_HEAD(disk_size_changes, disk_size_change);

struct disk_times {
	struct timespec mtime, ctime;
};

struct disk_file {
	LIST_ENTRY(disk_file) link;
	struct disk *disk;
	uint64_t number;
	unsigned refs;     /* descriptors, operations in flight, and the disk's own while it has a name */
	bool unlinked;
	struct disk_blocks blocks;
	uint64_t allocated; /* blocks that take space */
	uint64_t size, durable_size;
	struct disk_size_changes size_changes; /* not durable, oldest first; the last one is `size` */
	unsigned size_changes_count;
	struct disk_times times, durable_times;
	struct timespec btime;
	unsigned syncs_in_flight; /* between disk_sync_begin() and _end(): no change may be forgotten */
};

LIST_HEAD(disk_files, disk_file);

struct disk {
	uint32_t block_bytes;
	uint64_t blocks_max;  /* 0: no limit */
	uint64_t allocated;   /* of all files */
	uint64_t others;      /* blocks that files of others take, of which nothing else is known */
	uint64_t seq;         /* of the last change */
	struct disk_files files;
	struct sim_random_state random; /* what a cut keeps */
};

/* block_bytes is a power of two; disk_bytes 0: endless. */
void disk_init(struct disk *d, uint32_t block_bytes, uint64_t disk_bytes, uint64_t seed);
void disk_fini(struct disk *d);

/* The file of that number with one reference; created empty if new (at once durable). */
struct disk_file *disk_open(struct disk *d, uint64_t number, struct timespec now);
/* NULL if there is none; no reference. */
struct disk_file *disk_find(struct disk *d, uint64_t number);
struct disk_file *disk_get(struct disk_file *f);
void disk_put(struct disk_file *f);
/* Take the name away (at once durable); the last reference frees the content. */
void disk_unlink(struct disk_file *f);

/* Bytes read: less than len only at the end of the file. *device: some of them had to come from written blocks. */
size_t disk_read(const struct disk_file *f, void *mem, size_t len, uint64_t offset, bool *device);
/* Take space for [offset, offset + len). Bytes from offset on that have it now: less than len only if the disk is full. */
uint64_t disk_reserve(struct disk_file *f, uint64_t offset, uint64_t len);
/* The same of an allocator of extents: a hole of the range gets all of its blocks or none, so where a large one finds no space a small one may. */
uint64_t disk_reserve_whole(struct disk_file *f, uint64_t offset, uint64_t len);
/* Blocks of the range that still need space, and blocks that the disk has left. */
uint64_t disk_missing(const struct disk_file *f, uint64_t offset, uint64_t len);
uint64_t disk_room(const struct disk *d);
/* Of the range, how much lies before its first block that needs space. */
uint64_t disk_allocated_up_to(const struct disk_file *f, uint64_t offset, uint64_t len);
/* Others fill or free the disk, until so many blocks are left; no more than there are. */
void disk_set_room(struct disk *d, uint64_t blocks);
/* One block's part of a write: bytes [offset, offset + len) lie in one block, which has space. Does not touch the size. */
void disk_write_part(struct disk_file *f, const void *mem, size_t len, uint64_t offset);
/* All parts of a write, and the size where it grows. The range has space. */
void disk_write(struct disk_file *f, const void *mem, size_t len, uint64_t offset);
void disk_grow(struct disk_file *f, uint64_t size); /* no-op unless larger */
void disk_truncate(struct disk_file *f, uint64_t size);
/* Zeros in [start, end). release: whole blocks give their space back (a punched hole), else keep it (ZERO_RANGE). The size stays. */
void disk_zero(struct disk_file *f, uint64_t start, uint64_t end, bool release);
void disk_set_times(struct disk_file *f, struct timespec now);

enum disk_sync_result { DISK_SYNC_ALL, DISK_SYNC_DATA, DISK_SYNC_FAILED };

/* A sync in flight: what had completed when it began. */
struct disk_sync {
	uint64_t seq;
	uint64_t start, end; /* bytes of the file that it covers */
	struct disk_times times;
};

void disk_sync_begin(struct disk_file *f, struct disk_sync *s, uint64_t start, uint64_t end);
/*
 * _ALL: data, size and times as they were at begin are durable. _DATA: all but the times. _FAILED: an arbitrary part of the blocks is durable, the
 * others read as before but are never written again (as pages that a failed fsync marked clean).
 */
void disk_sync_end(struct disk_file *f, const struct disk_sync *s, enum disk_sync_result result);

/* Cut the power: each file becomes something that a restart could find. Drops no references. */
void disk_cut(struct disk *d);
/* A copy that is on no disk's list: `d` becomes a disk of its own for it. Ends with disk_copy_fini(). */
struct disk_file *disk_copy(const struct disk_file *f, struct disk *d);
void disk_copy_fini(struct disk_file *f);
/* All that a cut may leave of f: see sim_survivors(). */
void disk_survivors(struct disk_file *f, void (*fn)(void *arg, const struct sim_survivor *s), void *arg);
/* Of all files, with what a cut chooses from. */
uint64_t disk_hash(const struct disk *d);
/* Abort if an invariant of f does not hold. */
void disk_check(const struct disk_file *f);

#endif
