/*
 * tests/unit/write_path_walk_test.c - the walk over what is dirty: where an unforced one ends, where the next begins, and what a forced one does not care about.
 * And blocks that are smaller than the unit. (WRITE_PATH 1.2, 2.6, 5.2, 5.5, 5.6)
 */
#include <string.h>

#include "tests/unit/write_path_harness.h"

enum { UNIT = 4096 };

static void fill_file(unsigned units)
{
	cr_assert_eq(rig_write(0, units * UNIT, 9, VFS_FILE_SYNC), 0);
}

/* Three runs inside a file; the first to go fails. */
static void first_fails(enum vfs_stable stable, struct rig_job *job)
{
	fill_file(16);
	for (unsigned i = 0; i < 3; i++)
		job[i] = (struct rig_job){ .offset = 4 * i * UNIT, .len = UNIT, .value = (uint8_t)(1 + i), .stable = stable };
	fault_arm(FAULT_IO_WRITEV, EIO, 0, 1);
	rig_jobs(job, 3);
	rig_settle();
	fault_disarm_all();
}

/* 5.6: an unforced walk ends at its first error; the next goes on past it, and the rest is written. The error is told once. */
static void unforced(void)
{
	struct rig_job job[3];
	int64_t rounds = counter_value("cache.rounds");
	unsigned there = 0;

	first_fails(VFS_UNSTABLE, job);
	cr_assert_geq(counter_value("cache.rounds"), rounds + 2);
	for (unsigned i = 0; i < 3; i++) {
		uint8_t byte;

		cr_assert_eq(sim_peek(1, &byte, 1, 4 * i * UNIT), 1);
		there += byte == 1 + i;
	}
	cr_assert_geq(there, 2); /* all but the first to go, whichever that was; a write that fails may have reached the disk */
	cr_assert_eq(rig_commit(0, 0, NULL), -EIO);
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
}

Test(write_path_walk, an_unforced_walk_ends_at_an_error_and_the_next_goes_on_past_it) { rig_run(&(struct rig_config){ .cache = { .runs_in_flight_max = 1 } }, unforced); } /* 5.5, 5.6 */

/* 5.6: a forced one goes on; only the WRITE whose bytes failed hears of it. */
static void forced(void)
{
	struct rig_job job[3];

	first_fails(VFS_FILE_SYNC, job);
	cr_assert_eq(job[0].error, -EIO);
	cr_assert_eq(job[1].error, 0);
	cr_assert_eq(job[2].error, 0);
	rig_expect_disk(4 * UNIT, UNIT, 2);
	rig_expect_disk(8 * UNIT, UNIT, 3);
}

Test(write_path_walk, a_forced_walk_goes_on) { rig_run(&(struct rig_config){ .cache = { .runs_in_flight_max = 1 } }, forced); } /* 5.6 */

/* 1.2, 2.6: whole blocks inside an edge go by themselves: nothing is read for them, and their neighbours are not written. */
static void whole_blocks(void)
{
	fill_file(4);
	cr_assert_eq(rig_write(UNIT + 1024, 1536, 5, VFS_FILE_SYNC), 0);
	cr_assert_eq(counter_value("cache.fills.read"), 0);
	cr_assert_eq(sim_stats().reads, 0);
	cr_assert_eq(counter_value("write.run_bytes"), 4 * UNIT + 1536);
	rig_expect_disk(UNIT, 1024, 9);
	rig_expect_disk(UNIT + 1024, 1536, 5);
	rig_expect_disk(UNIT + 2560, UNIT - 2560, 9);
	/* the rest of the unit comes: it is complete, and goes */
	cr_assert_eq(rig_write(UNIT, 1024, 6, VFS_FILE_SYNC), 0);
	cr_assert_eq(rig_write(UNIT + 2560, UNIT - 2560, 7, VFS_FILE_SYNC), 0);
	cr_assert_eq(sim_stats().reads, 0);
	cr_assert_eq(rig_in_hand(UNIT, 2 * UNIT), 0);
	rig_expect_disk(UNIT, 1024, 6);
	rig_expect_disk(UNIT + 2560, UNIT - 2560, 7);
}

Test(write_path_walk, whole_blocks_of_an_edge_need_no_read) { rig_run(&(struct rig_config){ .block = 512 }, whole_blocks); } /* 1.2, 2.6 */

/* A block in part: that needs the rest of it. */
static void part_of_a_block(void)
{
	fill_file(4);
	cr_assert_eq(rig_write(UNIT + 1000, 1536, 5, VFS_FILE_SYNC), 0);
	cr_assert_eq(counter_value("cache.fills.read"), 1);
	rig_expect_disk(UNIT, 1000, 9);
	rig_expect_disk(UNIT + 1000, 1536, 5);
	rig_expect_disk(UNIT + 2536, UNIT - 2536, 9);
}

Test(write_path_walk, a_block_in_part_is_filled) { rig_run(&(struct rig_config){ .block = 512 }, part_of_a_block); } /* 2.6 */
