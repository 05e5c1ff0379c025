/*
 * runtime/sim.h - control of the simulated backend: one seed, one schedule, one disk, one network, one clock.
 *
 * A test calls sim_init(seed), makes files, runs fibers through runtime_init()/runtime_run() (one reactor), cuts the power where it likes, and looks
 * at what the disk holds. Everything random comes from the seed; a failure prints it and replays.
 *
 * The disk: files of blocks with a size and times, by number. A write lands in the device's volatile cache; fsync (data, size, times) or
 * fdatasync (data, size) makes what completed before it durable. A power cut keeps what is durable and, block by block, an arbitrary subset of the rest
 * in arbitrary order, torn inside a write at any block boundary, the size change of a write with or without its data but never larger than the
 * largest size ever set. Buffered descriptors (sim_open without SIM_DIRECT) write through a simulated page cache that is coherent with direct I/O and
 * is lost likewise. A write that fails may have written some of its blocks inside the size; a sync that fails loses some of what it covered for good,
 * though reads still show it until the cut. That a file exists is durable at once. Direct I/O with misaligned offset, length or memory fails with
 * EINVAL, also at the end of file, where some kernels answer 0 first: so going on after a short read at the end is caught every time. All content that nobody wrote reads as zeros.
 *
 * Space is an account: a block that a write, buffered or direct, puts something into for the first time takes some, an overwrite takes none, a hole or truncate gives it
 * back, and others (sim_set_room()) take and give too. A write gets its space when it begins, as delayed allocation does, so it is write(2) that fails and no later sync:
 * where some of its blocks have space and others find none it is a short write, and what follows fails. So of one round some writes may fail and others not.
 */
#ifndef RUNTIME_SIM_H
#define RUNTIME_SIM_H

#include "runtime/base.h"

struct io_op;

struct sim_config {
	uint64_t seed;
	uint32_t block_bytes;      /* 512...65536: dio_offset_align of files; 0: files have no direct I/O */
	uint32_t read_block_bytes; /* dio_read_offset_align; 0: like block_bytes, and statx does not tell */
	uint32_t mem_align_bytes;  /* dio_mem_align */
	uint64_t disk_bytes;       /* ENOSPC beyond; 0: endless */
	uint64_t tick_ns;          /* granularity of file timestamps (jiffy); 0: 4 ms */
	/* probabilities in 1/65536 per operation */
	uint32_t short_write, short_read, write_error, read_error, fsync_error, nospc;
	uint32_t nospc_whole;      /* of direct writes into holes that do not fit: none of the hole gets space, instead of what there is */
	bool quota;                /* what is used up is somebody's quota: EDQUOT in place of ENOSPC */
	uint32_t net_drop, net_reset, net_split; /* see sim_net.c */
	uint64_t latency_ns_max;   /* each operation takes 0...this, drawn */
};

struct sim_stats {
	uint64_t reads, writes, fsyncs;          /* device operations */
	uint64_t read_bytes, write_bytes;
	uint64_t edge_reads;                     /* reads of at most one unit that reached the device (not holes, not past the end) */
};

void sim_init(const struct sim_config *config);  /* chooses the backend; resets disk, network, clock */
void sim_fini(void);                             /* after runtime_fini() */
const char *sim_seed_text(void);                 /* "seed 12345", for failure messages */
uint64_t sim_random(uint64_t bound);             /* 0...bound-1 from the seed's stream */

enum { SIM_DIRECT = 1, SIM_READ_ONLY = 2 };
/* A descriptor on file `number` (created empty if new). Works outside fibers too. Descriptors and sockets last until runtime_fini() or a cut. */
int sim_open(uint64_t number, unsigned flags);
void sim_close(int fd);
void sim_unlink(uint64_t number);
/* What a local process would do and see, immediately, coherent with everything: for oracles and for "somebody else changed the file". */
ssize_t sim_peek(uint64_t number, void *mem, size_t len, uint64_t offset);
void sim_poke(uint64_t number, const void *mem, size_t len, uint64_t offset);
uint64_t sim_size(uint64_t number);
void sim_set_faults(const struct sim_config *config); /* take over the probabilities, quota and disk_bytes only */
/* Others fill or free the disk, until so many bytes of its disk_bytes are left: what we write takes from them, what is cut gives back. */
void sim_set_room(uint64_t bytes);
struct sim_stats sim_stats(void);

/*
 * Cut the power: every operation in flight is lost or lands partly, every descriptor dies, fibers are abandoned where they stand (their memory is
 * reclaimed by the runtime), sockets vanish. Afterwards sim_open() shows the disk as a restart would find it. Called between runtime_run()s, or from
 * inside a run, which then returns -EPIPE to its caller at once. sim_cut_at_step(n) arms it for the n-th scheduling step from now.
 * On a fiber sim_power_cut() does not return.
 */
void sim_power_cut(void);
void sim_cut_at_step(uint64_t n);
uint64_t sim_steps(void);
unsigned sim_cuts(void);                         /* cuts since sim_init() */
/* A hash of all that happened since sim_init(): equal for equal seeds and programs, whatever the addresses. */
uint64_t sim_trace_hash(void);

/*
 * Exhaustive exploration instead of the seed, for a model checker: see sim_explore.c. From sim_explore() until sim_fini() operations take no time, a write lands as a
 * whole at its end, and whenever something could happen choose() says which of the n (>= 1) things does: fibers that are ready or have yielded idle, each operation's next
 * moment, the next timer. Called on the loop, between two of these; it may look at anything, and must not change it. No steps are counted.
 *
 * As long as there are refusals left, a write that needs space may end in two ways: with it, or without, one refusal less: as far as its blocks have space already.
 */
struct sim_explorer {
	unsigned (*choose)(unsigned n);
	void (*submitted)(const struct io_op *op); /* of a file, before anything of it is done; may be NULL */
	unsigned refusals;
};
void sim_explore(const struct sim_explorer *x);
unsigned sim_refused(void);  /* so many so far */
void sim_end_refusals(void); /* from now on there is space */

/* What a power cut now might leave of a file: `bytes` (NULL: zeros) at [offset, offset + len), len 0 where the file would be empty, with a size of `size`. */
struct sim_survivor {
	uint64_t size, offset;
	uint32_t len;
	const uint8_t *bytes;
};
/*
 * Everything that a power cut now might leave of file `number`: each size, and for it each content of each block below it by itself, for blocks choose apart. Changes nothing.
 */
void sim_survivors(uint64_t number, void (*fn)(void *arg, const struct sim_survivor *s), void *arg);
/* A hash of the disk with all that a cut may choose from, and of the operations in flight; equal for equal states, however they came about. */
uint64_t sim_state_hash(void);

/* Network: a connected pair of stream descriptors, subject to net_* faults; usable with IO_RECVMSG/IO_SENDMSG/IO_CLOSE; and a listener to IO_ACCEPT from. */
int sim_socketpair(int fd[2]);
int sim_listen(void);
int sim_connect(int listener);

#endif
