/*
 * iocache/mapping_impl.h - struct mapping, for the files of iocache/ only.
 *
 * Who changes what: stage.c puts bytes in (under the writer's exclusive range lock), flusher.c and run.c take them to the device, read.c looks,
 * truncate.c cuts, budget.c ages. All index changes happen under `lock`, a leaf lock that is never held over a yield.
 *
 * Rounds. Every stage gets the next number of stage_seq. One flusher fiber at a time works in rounds: a round takes what was staged up to its target,
 * writes each dirty unit at most once, waits for the last write, syncs if somebody wants that, and only then reports. So a stable WRITE waits for the round
 * that covers its number, everything staged before shares the sync, and a fast writer cannot hold up a COMMIT. When staged bytes replace dirty ones that
 * are not under way yet, the new folio inherits their number: the round that owes the old bytes to somebody writes the new ones in their place.
 */
#ifndef IOCACHE_MAPPING_IMPL_H
#define IOCACHE_MAPPING_IMPL_H

#include "iocache/folio.h"
#include "iocache/mapping.h"

RB_HEAD(folio_tree, folio);
TAILQ_HEAD(folio_list, folio);

TAILQ_HEAD(mapping_waiter_list, mapping_waiter);

enum { READ_STREAMS = 8 };

/* One client's sequential way through the file. */
struct read_stream {
	uint64_t client;
	uint64_t next;     /* where its next READ is expected */
	uint64_t ahead;    /* up to here it has been read ahead */
	uint32_t window;   /* bytes; 0: the last READ was not sequential */
	uint64_t used;     /* streams_clock at its last READ; 0: free */
};

enum mapping_unsynced { SYNCED, UNSYNCED_TIMES, UNSYNCED_DATA };

struct mapping {
	/* immutable after creation */
	struct mapping_config config;
	uint32_t unit, read_unit;
	struct fiber_rangelock ranges;    /* has its own lock; always taken before `lock` */

	TAILQ_ENTRY(mapping) link;        /* protected by the cache's list lock, which is taken before `lock` */

	struct leaf_lock lock;
	/* protected by lock */
	struct folio_tree folios;         /* disjoint, by start */
	struct folio_list kept;           /* clean owned units, oldest first */
	uint64_t kept_bytes;
	uint64_t dirty_bytes;             /* memory that folios with dirty bytes or under way hold */
	uint64_t size;                    /* logical: what clients see */
	uint64_t disk_size;               /* i_size as far as our own writes and looks know */
	bool overlay;                     /* shown_* stand for the disk's times */
	struct timespec shown_mtime, shown_ctime;
	struct timespec disk_mtime, disk_ctime; /* as our last operation left it */
	uint64_t stage_seq;               /* number of the last stage */
	uint8_t payer;                    /* who pays for what it makes dirty */
	int growth_error;                 /* for lack of space the running round (or what it wrote early) could not make the file longer; 0: not so */
	uint64_t round_target;            /* the running or last round takes stages up to here */
	uint64_t next_run;
	bool walk_failed;                 /* a run of this round has failed */
	bool walk_partly;                 /* this round did not begin at the file's begin */
	uint64_t walk_cursor;             /* where the next unforced round begins: past the error that ended the last one, or 0 */
	unsigned runs_in_flight;
	uint64_t disk_changes;            /* begins and ends of our own changes, plus one: what mapping_look() gives */
	uint32_t dio_align, dio_read_align; /* as of the last statx that told */
	unsigned disk_busy;               /* our own changes of the file are under way, or not yet noted: its ctime says nothing */
	struct fiber_cond run_ended;      /* the flusher waits here */
	struct fiber_cond flusher_ended;
	struct fiber_cond writers_back;   /* the flusher gathers here, see flusher.c */
	unsigned waiting;                 /* length of `waiters` */
	unsigned expected;                /* stable WRITEs that the last round answered and that have not come again */
	uint64_t gather_until_ns;
	uint64_t round_ns;                /* how long the last round took */
	uint64_t early_at;                /* while it gathers: dirty bytes from which on it looks for something to write early; UINT64_MAX otherwise */
	uint64_t held_back_from;          /* the last round left out what lies from here on; UINT64_MAX: nothing */
	uint64_t held_since_ns, held_seq; /* ... since then; when stage_seq was this */
	unsigned hold_back_pause;         /* rounds until holding back is tried again, after it was of no use */
	unsigned hold_back_failures;      /* so often in a row */
	bool flusher_running;
	uint64_t flushed_seq;             /* stage_seq when the last round began */
	bool force;                       /* the next round writes half-written units too */
	bool held;                        /* config.hold() was called */
	enum mapping_unsynced unsynced;
	uint64_t deferred_since_ns;       /* a half-written dirty unit waits since; 0: none */
	bool progress;                    /* the running round has put something on the device */
	bool refused;                     /* ... and met an error that keeps data (ENOSPC ...), and kept some */
	uint64_t stuck_seq;               /* the last round did no more than that: stage_seq at its end; 0: not so */
	uint64_t requeued;                /* ... under so many new numbers */
	int refused_error;
	unsigned letting_go;              /* so many callers want what is refused to be given up now */
	uint64_t retry_ns;                /* such data (folio.refused_since_ns) is tried again then, if nothing new comes before; 0: there is none */
	bool unsynced_unstable;           /* what `unsynced` stands for was in part acknowledged before */
	int sticky_error;                 /* to be reported once; 0: none */
	struct mapping_waiter_list waiters;
	struct read_stream streams[READ_STREAMS];
	uint64_t streams_clock;
	unsigned readers;                 /* READs under way */
	uint64_t next_fill;
	unsigned readaheads;              /* fibers that read ahead */
	struct fiber_cond filled;         /* a READ waits here for bytes that are being read ahead */
};

int folio_compare(const struct folio *a, const struct folio *b);
RB_PROTOTYPE(folio_tree, folio, node, folio_compare)

/* mapping.c: index. The first folio that ends after `offset`, or NULL. */
noyield_fn struct folio *mapping_first_locked(struct mapping *m, uint64_t offset);
noyield_fn struct folio *mapping_next_locked(struct folio *f);
/* The folio over the unit at `start`, or NULL. */
noyield_fn struct folio *mapping_find_locked(struct mapping *m, uint64_t start);
noyield_fn void mapping_insert_locked(struct mapping *m, struct folio *f);
/* Out of the index, accounts settled, freed. */
noyield_fn void mapping_remove_locked(struct mapping *m, struct folio *f);
/* f, dirty or under way, ends at `end` now. */
noyield_fn void mapping_shorten_locked(struct mapping *m, struct folio *f, uint64_t end);
/* f holds bytes of stage `seq` that the device lacks; an older number that it carries already stays. */
noyield_fn void mapping_dirty_locked(struct mapping *m, struct folio *f, uint64_t seq, bool unstable);
/*
 * Writing f, which has acknowledged bytes, has failed in a way that keeps them, for a later round: this one has written what it could. The first time that sticks to
 * the file.
 */
noyield_fn void mapping_refuse_locked(struct mapping *m, struct folio *f, int error);
/* The dropbehind mark, and the account of uncached dirty bytes with it. */
noyield_fn void mapping_mark_locked(struct folio *f, bool mark);
/* f's written bytes have changed: count it among the open edges, or no longer. */
noyield_fn void mapping_count_open_locked(struct folio *f);
/* f's bytes are on the device: it goes if it is marked, and is kept for its partner otherwise. */
noyield_fn void mapping_clean_locked(struct mapping *m, struct folio *f);
/* f, in the index and clean, stays as long as there is room and time. False: there is no room, f is as it was. */
noyield_fn bool mapping_keep_locked(struct mapping *m, struct folio *f);
/* The same without another one having to go for it: for who holds pointers to those. */
noyield_fn bool mapping_keep_beside_locked(struct mapping *m, struct folio *f);
/* Drop clean units: all of them. */
noyield_fn void mapping_drop_kept_locked(struct mapping *m);
/* Abort unless the index is consistent. */
noyield_fn void mapping_check_locked(struct mapping *m);
/* Acknowledged data may be lost: the owner changes the write verifier. With or without the lock. */
noyield_fn void mapping_tell_lost(const struct mapping *m);
noyield_fn bool mapping_time_is_later(struct timespec a, struct timespec b);
/* Bracket our own changes of the file on the disk; the last end notes the ctime and size that they left. Caller holds no lock. */
noyield_fn void mapping_disk_begin(struct mapping *m);
noyield_fn void mapping_disk_begin_locked(struct mapping *m);
/* Look at the disk for changes that are not ours. */
noyield_fn void mapping_refresh(struct mapping *m);
noyield_fn void mapping_disk_end(struct mapping *m);
/* The same for who has kept disk_size up to date meanwhile: a size that differs from it is somebody else's change. */
noyield_fn void mapping_disk_end_written(struct mapping *m);
/* Move the shown times and, if larger, the size: a client's change. */
noyield_fn void mapping_touch_locked(struct mapping *m, uint64_t end);
/* Dirty bytes have gone unwritten: the size that only they made goes too. */
noyield_fn void mapping_shrink_locked(struct mapping *m);
/*
 * All that was staged is synced, or the size was set there: from now on the disk's own times are shown, unless they are earlier than those shown before. They are
 * durable, what local processes see, and stay when the file is closed.
 */
noyield_fn void mapping_show_disk_locked(struct mapping *m);
/* What clients see now, as of the last look at the disk. */
noyield_fn void mapping_attr_locked(const struct mapping *m, struct mapping_attr *attr);

/* stage.c */
/*
 * Clear [start, end) (unit aligned) of folios: what lies across is split, memory under way stays with its run. The oldest number of dirty bytes
 * that went and were not under way, or 0. -ENOMEM through *error: nothing changed.
 */
noyield_fn uint64_t mapping_punch_locked(struct mapping *m, uint64_t start, uint64_t end, bool *unstable, int *error);
/* The owned, private folio of the unit at `start`, made from what is there, or claimed. NULL: no memory. */
noyield_fn struct folio *mapping_own_unit_locked(struct mapping *m, uint64_t start);

/* large.c. Where a folio is not named, it is the large one over `start`. */
/* [start, end) lies in a large folio that is larger. */
noyield_fn bool large_covers_locked(struct mapping *m, uint64_t start, uint64_t end);
/* A round that is under way waits for its dirty blocks: more of them, with the number that all have, would keep it waiting for as long as somebody writes. */
noyield_fn bool large_is_owed_locked(struct mapping *m, uint64_t start);
/* Its memory and its state may be changed: 0 or -ENOMEM. */
noyield_fn int large_prepare_locked(struct mapping *m, uint64_t start);
/* Whole blocks into a prepared one. */
noyield_fn void large_write_locked(struct mapping *m, uint64_t start, uint64_t end, const uint8_t *from, uint64_t seq, bool unstable);
/* The first stretch of dirty blocks of f at or after `at` and wholly below the end of file. f has a state. */
noyield_fn bool large_stretch_locked(const struct mapping *m, const struct folio *f, uint64_t at, uint64_t *from, uint64_t *to);
/* Blocks are under way. */
noyield_fn void large_take_locked(struct folio *f, uint64_t from, uint64_t to);
/* What was under way of f, which has dirty blocks still, is lost: it is not up to date any more. */
noyield_fn void large_forget_flight_locked(struct folio *f);
/* The units of f, which has a state, that are under way become a folio of their own, if there is memory for that: the folio that has them then. f may be gone. */
noyield_fn struct folio *large_isolate_flight_locked(struct mapping *m, struct folio *f);
/* Make `at` a boundary, if it lies in a large folio. 0, or -ENOMEM and nothing changed. */
noyield_fn int large_split_locked(struct mapping *m, uint64_t at);
/* The file ends inside f now: zeros from there on, and no dirty blocks past it. f may go. 0 or -ENOMEM. */
noyield_fn int large_cut_locked(struct mapping *m, struct folio *f, uint64_t size);

/*
 * read.c: read all of iov, which is consumed, or to the end of the file: a direct read that is not whole blocks has met it, and going on from there would be
 * misaligned. Bytes, or -errno.
 */
fiber_fn ssize_t mapping_read_vector(int fd, uint32_t align, struct iovec *iov, unsigned iovcnt, uint64_t offset);

/* readahead.c: a read that a READ of [start, end) should wait for is under way */
noyield_fn bool readahead_is_filling_locked(struct mapping *m, uint64_t start, uint64_t end);
/* ... what it brings for f, which stays in the index, is not wanted any more: the disk has changed since. */
noyield_fn void readahead_forget_locked(struct mapping *m, struct folio *f);

/* fill.c: give the owned unit at `start` its missing bytes below the end of file: zeros past disk_size, the device's otherwise. 0 or -errno. */
fiber_fn int mapping_fill_unit(struct mapping *m, uint64_t start);
/* f cannot be written as it is. If it can: the bytes of it to write in *known, all of it, or the whole blocks that are dirty. */
noyield_fn bool fill_is_needed_locked(const struct mapping *m, const struct folio *f, struct byterange *known);
/* Fill all half-written dirty units staged up to target, below byte `limit`, side by side. True: there were any. */
fiber_fn bool fill_round(struct mapping *m, uint64_t target, uint64_t limit);

/* run.c */
struct run {
	struct mapping *mapping;
	uint64_t id, start, end;
	uint64_t seq;                     /* bytes of later stages are not in it */
	unsigned count;
	bool growing;                     /* ends past disk_size */
	bool leaves;                      /* a large folio in it has more dirty blocks: for another run, after this one */
	bool last;                        /* a sync follows, and when it was collected nothing else of its pass could go, nor was anything under way that need not end first */
	struct iovec *iov;
	struct buf **hold;
};

/* How a round ends: its last writes and its sync. */
struct run_end {
	uint64_t target;                  /* stages up to this one ... */
	bool tail;                        /* ... also of the unit with the end of file in it */
	enum mapping_sync_how how;        /* MAPPING_WRITTEN: no sync */
	bool synced;                      /* result: the sync was tried */
	int error;                        /* result: and failed; 0 or -errno */
};

/* f is whole, staged up to target, and not under way. */
noyield_fn bool run_can_take_locked(const struct mapping *m, const struct folio *f, uint64_t target);
/*
 * One pass over what is dirty, ascending. What cannot go because a run carries other blocks of it is busy: an impatient pass skips BUSY_MAX of these and ends at the
 * next one, its cursor there.
 */
struct walk {
	uint64_t cursor;   /* the next run begins here or later */
	uint64_t target;   /* units staged up to this number */
	uint64_t limit;    /* below this byte */
	bool impatient;
	bool syncs;        /* a sync follows: a run says whether it is the last */
	unsigned busy;     /* folios met that were */
};

enum { BUSY_MAX = 5 };

/* The next run; NULL: none. Moves the cursor. Marks its folios as under way. */
noyield_fn struct run *run_collect_locked(struct mapping *m, struct walk *walk);
/* Write, account, free. */
fiber_fn void run_write(struct run *r);
/*
 * The end of a round in one trip: r (or NULL) as run_write() does; the unit with the logical end of file in it, if dirty with a number up to the target, by its dirty bytes
 * through the page cache; then a sync, unless a write failed. True: it wrote something, or tried to.
 */
fiber_fn bool run_write_last(struct mapping *m, struct run *r, struct run_end *end);
/* Begin and end of a flusher's child (a run, a fill): the flusher waits until fewer than `below` are left. */
noyield_fn void run_ended(struct mapping *m);
fiber_fn void run_wait(struct mapping *m, unsigned below);

/* flusher.c */
/* Start the flusher unless it runs. Caller holds no lock and a reference to the owner. */
noyield_fn void mapping_kick(struct mapping *m);
/* The same for one who holds no reference: only while the mapping holds its own. */
noyield_fn void mapping_kick_held(struct mapping *m);
/* A write of [start, end) failed, with bytes of stages up to seq in it: tell those who wait for them. True: the error's class keeps what was acknowledged. */
noyield_fn bool mapping_fail_locked(struct mapping *m, uint64_t start, uint64_t end, uint64_t seq, int error);
/* p has just been staged as w->seq: if it is stable, the flusher owes it an answer from now on. */
noyield_fn void mapping_register_locked(struct mapping *m, struct mapping_write *w, const struct mapping_payload *p);

/* budget.c */
extern struct cache_config cache_limits;
noyield_fn void cache_add_mapping(struct mapping *m);
noyield_fn void cache_del_mapping(struct mapping *m);
/* The account of a client: clients that share one share its bound. */
noyield_fn uint8_t cache_payer(uint64_t client);
noyield_fn void cache_dirty_add(int64_t bytes, uint8_t payer);
/* No room in all, or none for this client. */
noyield_fn bool cache_dirty_over(uint8_t payer);
/* The account of what found no space and is kept. */
noyield_fn void cache_refused_add(int64_t bytes);
noyield_fn bool cache_refused_over(void);
/* Something found no space on m's file system. */
noyield_fn void cache_space_is_short(const struct mapping *m);
/* How often room was made: taken before one looks whether there is any. */
noyield_fn unsigned cache_room_made(void);
/* What is dirty is given up, and clients are told. At a round's end: what is under way would come back. */
noyield_fn void cache_give_up_locked(struct mapping *m);
/* Park until some dirty data has gone since `seen` was taken, or for a moment. */
fiber_fn void cache_dirty_wait(unsigned seen);
noyield_fn bool cache_kept_add(int64_t bytes);  /* false: over the bound (and nothing added) */
noyield_fn bool cache_kept_is_tight(void);      /* more than half of it is used */
noyield_fn void cache_kept_sub(int64_t bytes);

#endif
