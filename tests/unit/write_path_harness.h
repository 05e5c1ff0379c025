/*
 * tests/unit/write_path_harness.h - one file on the simulated disk, written and read as the server's procedures do, for the tests of WRITE_PATH's lines.
 *
 * rig_run() makes everything, runs the test on a fiber and takes it down; what the test then asserts on is what reached the disk, what is in hand, and the
 * counters, which count from the process's start: each test is a process. Bytes are single values, 1...255, 0 is "nobody wrote it".
 */
#ifndef TESTS_UNIT_WRITE_PATH_HARNESS_H
#define TESTS_UNIT_WRITE_PATH_HARNESS_H

#include <criterion/criterion.h>

#include "iocache/mapping.h"
#include "runtime/buf.h"
#include "runtime/clock.h"
#include "runtime/counter.h"
#include "runtime/fault.h"
#include "runtime/fiber.h"
#include "runtime/sim.h"
#include "vfs/data.h"

struct rig_config {
	uint32_t block;           /* dio_offset_align; 0: 4096 */
	uint32_t read_block;      /* dio_read_offset_align; 0: not told */
	bool no_direct;           /* the file has none */
	uint64_t latency_ns_max;  /* 0: 100 us */
	uint64_t disk_bytes;      /* 0: 64 MiB */
	struct cache_config cache;
};

/* Valid while a test runs. */
extern struct mapping *rig_mapping;
extern uint32_t rig_unit;
extern struct vfs_call rig_call;
extern struct vfs_file *rig_file;
extern unsigned rig_lost;         /* calls of data_lost() */

void rig_run(const struct rig_config *config, void (*test)(void));
/* The test must end in sim_power_cut(); after() then looks at what a restart finds, the file opened anew. */
void rig_run_cut(const struct rig_config *config, void (*test)(void), void (*after)(void));

/* One WRITE of one value. 0 or -errno. */
int rig_write(uint64_t offset, uint32_t len, uint8_t value, enum vfs_stable stable);
/* The same from memory that lies `skew` bytes beside the congruent place. */
int rig_write_skewed(uint64_t offset, uint32_t len, uint8_t value, enum vfs_stable stable, uint32_t skew);
/* COMMIT; its verifier in *verf unless NULL. */
int rig_commit(uint64_t offset, uint32_t count, uint64_t *verf);
/* READ whole into got, which has len bytes. Bytes, or -errno. */
int rig_read(uint64_t offset, uint32_t len, uint8_t *got);
/* Each byte of the range is this value, for a READ; for a local process. */
void rig_expect_read(uint64_t offset, uint32_t len, uint8_t value);
void rig_expect_disk(uint64_t offset, uint64_t len, uint8_t value);
/* Bytes of the range that are in hand. */
uint64_t rig_in_hand(uint64_t start, uint64_t end);
/* The index is consistent; all of the above look at that too. */
void rig_check(void);
/* Longer than all latencies and waits for a partner: what the server does by itself is done. Kept units are still there. */
void rig_settle(void);

/* WRITEs side by side, each on a fiber of its own. */
struct rig_job {
	uint64_t offset;
	uint32_t len;
	uint8_t value;
	enum vfs_stable stable;
	int error;
	bool done;
};

void rig_start(struct rig_job *job, unsigned n);
void rig_wait(struct rig_job *job, unsigned n);
void rig_jobs(struct rig_job *job, unsigned n);

#endif
