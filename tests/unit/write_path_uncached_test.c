/*
 * tests/unit/write_path_uncached_test.c - what goes away when it has served (WRITE_PATH, section 3): drop, mark, kick, and memory that somebody still uses.
 */
#include <stdlib.h>
#include <string.h>

#include "iocache/mapping_impl.h"
#include "tests/unit/write_path_harness.h"

static const struct rig_config plain = { 0 }, slow = { .latency_ns_max = 10000000 };

static void make_file(unsigned units)
{
	cr_assert_eq(rig_write(0, units * rig_unit, 9, VFS_FILE_SYNC), 0);
}

static void wait_in_flight(void)
{
	while (!rig_mapping->runs_in_flight)
		fiber_yield();
}

static void wait_landed(void)
{
	while (rig_mapping->runs_in_flight)
		fiber_yield();
}

/* ---- drop ---- */

/* A run passes between units that others keep there: it takes its own with it, and those stay. */
static void others_stay(void)
{
	make_file(16);
	cr_assert_eq(rig_write(3 * rig_unit + 10, 10, 1, VFS_FILE_SYNC), 0);
	cr_assert_eq(rig_write(8 * rig_unit + 10, 10, 1, VFS_FILE_SYNC), 0);
	cr_assert_eq(rig_write(4 * rig_unit, 4 * rig_unit, 2, VFS_UNSTABLE), 0);
	rig_settle();
	cr_assert_eq(rig_in_hand(0, 16 * rig_unit), 2 * rig_unit);
	cr_assert_eq(rig_in_hand(3 * rig_unit, 4 * rig_unit), rig_unit);
	cr_assert_eq(rig_in_hand(8 * rig_unit, 9 * rig_unit), rig_unit);
}

Test(write_path_uncached, a_write_prunes_only_its_own) { rig_run(&plain, others_stay); } /* 3.1 */

/*
 * The unit is written to again while its writeback is under way, or has ended a moment ago: the end of that writeback does not take the newer bytes away,
 * and the one after takes all away.
 */
static void dirty_again(uint64_t offset, uint32_t len)
{
	const uint64_t after = offset + len;

	make_file(4);
	cr_assert_eq(rig_write(0, 3000, 1, VFS_UNSTABLE), 0);
	cr_assert_eq(rig_write(3000, rig_unit - 3000, 1, VFS_UNSTABLE), 0);          /* complete: it goes, marked */
	wait_in_flight();
	cr_assert_eq(rig_write(offset, len, 2, VFS_UNSTABLE), 0);
	while (counter_value("write.runs") < 2)                                      /* that of the file was the first */
		fiber_yield();
	rig_expect_read(offset, len, 2);
	rig_settle();
	rig_expect_disk(offset, len, 2);
	if (offset)
		rig_expect_disk(0, (uint32_t)offset, 1);
	if (after < rig_unit)
		rig_expect_disk(after, rig_unit - after, 1);
	cr_assert_eq(rig_in_hand(0, rig_unit), 0);                                   /* what follows may have been read ahead */
	cr_assert_eq(counter_value("cache.fills.read"), 0);
}

static void dirty_again_inside(void) { dirty_again(2000, 100); }
static void dirty_again_at_the_end(void) { dirty_again(4000, 96); }
static void dirty_again_whole(void) { dirty_again(0, 4096); }

Test(write_path_uncached, dirty_again_before_its_writeback_ends_inside) { rig_run(&slow, dirty_again_inside); }         /* 3.2 */
Test(write_path_uncached, dirty_again_before_its_writeback_ends_at_the_end) { rig_run(&slow, dirty_again_at_the_end); } /* 3.2 */
Test(write_path_uncached, dirty_again_before_its_writeback_ends_whole) { rig_run(&slow, dirty_again_whole); }           /* 3.2 */

/* The same with a writer that comes at every moment of many writebacks: at the end of each the last bytes are there, and nothing stays. */
static void dirty_again_always(void)
{
	make_file(8);
	for (unsigned i = 0; i < 200; i++) {
		uint8_t value = (uint8_t)(1 + i);

		cr_assert_eq(rig_write(rig_unit - 100, 3 * rig_unit + 200, value, i % 5 ? VFS_UNSTABLE : VFS_FILE_SYNC), 0);
		cr_assert_eq(rig_write(2 * rig_unit + i % 50, 30, 250, VFS_UNSTABLE), 0);
		fiber_sleep_ns(sim_random(150000));
		rig_expect_read(2 * rig_unit + i % 50, 30, 250);
		cr_assert_eq(rig_write(2 * rig_unit, rig_unit, value, VFS_UNSTABLE), 0);
		rig_expect_read(rig_unit - 100, 3 * rig_unit + 200, value);
	}
	rig_settle();
	rig_expect_disk(rig_unit - 100, 3 * rig_unit + 200, 200);
	cr_assert_leq(rig_in_hand(0, 8 * rig_unit), 2 * rig_unit);                   /* the two half-written ends */
	cr_assert_eq(rig_in_hand(rig_unit, 4 * rig_unit), 0);
}

Test(write_path_uncached, dirty_again_at_any_moment) { rig_run(&plain, dirty_again_always); } /* 3.2 */

/* What is left of a middle on both sides of bytes that replace its inside goes with its writeback like the whole would have. */
static void split_keeps_the_mark(uint64_t start, uint32_t len)
{
	make_file(16);
	cr_assert_eq(rig_write(0, 12 * rig_unit, 1, VFS_UNSTABLE), 0);
	cr_assert_eq(rig_write(start, len, 2, VFS_UNSTABLE), 0);
	rig_settle();
	cr_assert_eq(rig_in_hand(0, 16 * rig_unit), 0);
	rig_expect_disk(start, len, 2);
	if (start)
		rig_expect_disk(0, start, 1);
	rig_expect_disk(start + len, 12 * rig_unit - start - len, 1);
}

static void split_inside(void) { split_keeps_the_mark(4 * rig_unit, 2 * rig_unit); }
static void split_left(void) { split_keeps_the_mark(0, 2 * rig_unit); }
static void split_by_an_edge(void) { split_keeps_the_mark(5 * rig_unit + 100, 50); }

Test(write_path_uncached, what_a_split_leaves_keeps_the_mark_inside) { rig_run(&plain, split_inside); }         /* 3.1, 3.2 */
Test(write_path_uncached, what_a_split_leaves_keeps_the_mark_left) { rig_run(&plain, split_left); }             /* 3.1, 3.2 */
Test(write_path_uncached, what_a_split_leaves_keeps_the_mark_by_an_edge) { rig_run(&plain, split_by_an_edge); } /* 3.1, 3.2 */
Test(write_path_uncached, what_a_split_leaves_keeps_the_mark_under_way) { rig_run(&slow, split_inside); }       /* 3.1, 3.2 */

/* ---- kicks ---- */

/* An UNSTABLE WRITE starts the writeback of all that it wrote, up to its last unit; nobody else comes and asks for it. */
static void whole_range(void)
{
	static const uint32_t len[] = { 1, 4095, 4096, 4097, 8191, 8192, 8193, 3 * 4096 };

	make_file(64);
	for (unsigned i = 0; i < ARRAY_SIZE(len); i++)
		for (uint64_t at = 4096 * 8 - 1; at <= 4096 * 8 + 1; at++) {
			uint8_t value = (uint8_t)(1 + i * 3 + at % 3);

			cr_assert_eq(rig_write(at, len[i], value, VFS_UNSTABLE), 0);
			rig_settle();
			rig_expect_disk(at, len[i], value);
			cr_assert_eq(rig_mapping->dirty_bytes, 0);
		}
	cr_assert_eq(sim_stats().fsyncs, 1);
}

Test(write_path_uncached, a_kick_reaches_all_of_its_write) { rig_run(&plain, whole_range); } /* 3.4 */

/* It returns before anything of it is written; and what others left half-written elsewhere is not hurried by its kick. */
static void only_its_range(void)
{
	uint64_t begun = clock_mono_ns();

	make_file(64);
	cr_assert_eq(rig_write(40 * rig_unit + 10, 10, 1, VFS_UNSTABLE), 0);
	for (unsigned i = 0; i < 20; i++) {
		uint64_t writes = sim_stats().writes, now = clock_mono_ns();

		cr_assert_eq(rig_write(i * rig_unit, rig_unit, 2, VFS_UNSTABLE), 0);
		cr_assert_eq(clock_mono_ns(), now);
		cr_assert_eq(sim_stats().writes, writes);
		fiber_sleep_ns(10000000);
		rig_expect_disk(i * rig_unit, rig_unit, 2);
	}
	cr_assert_lt(clock_mono_ns() - begun, 300000000);
	rig_expect_disk(40 * rig_unit, rig_unit, 9);
	cr_assert_eq(counter_value("cache.fills.read"), 0);
	rig_settle();
	rig_expect_disk(40 * rig_unit + 10, 10, 1);
}

Test(write_path_uncached, a_kick_hurries_nothing_else) { rig_run(&plain, only_its_range); } /* 3.4 */

/* Many kicks while one round is under way make one more round, and all that they stand for leaves with it. */
static void kicks_coalesce(void)
{
	int64_t rounds;

	make_file(128);
	rounds = counter_value("cache.rounds");
	cr_assert_eq(rig_write(0, rig_unit, 1, VFS_UNSTABLE), 0);
	wait_in_flight();
	for (unsigned i = 1; i < 100; i++)
		cr_assert_eq(rig_write(i * rig_unit, rig_unit, 1, VFS_UNSTABLE), 0);
	cr_assert_eq(rig_mapping->dirty_bytes, 100 * rig_unit);
	wait_landed();
	rig_settle();
	cr_assert_eq(counter_value("cache.kicks"), 100);
	cr_assert_eq(counter_value("cache.rounds") - rounds, 2);
	cr_assert_eq(rig_mapping->dirty_bytes, 0);
	rig_expect_disk(0, 100 * rig_unit, 1);
}

Test(write_path_uncached, kicks_coalesce) { rig_run(&slow, kicks_coalesce); } /* 3.6 */

/* ---- memory that is still used ---- */

/* A reply is being sent from units that are overwritten, written out and dropped meanwhile: its bytes stay, and its memory goes with it. */
static void lent(void)
{
	struct vfs_read_result result;
	size_t in_use = buf_bytes_in_use();

	cr_assert_eq(rig_write(100, 8 * rig_unit, 1, VFS_UNSTABLE), 0);
	cr_assert_eq(vfs_read(&rig_call, rig_file, 100, 8 * rig_unit, &result), 0);
	cr_assert_eq(result.count, 8 * rig_unit);
	cr_assert_eq(rig_write(100, 8 * rig_unit, 2, VFS_UNSTABLE), 0);
	cr_assert_eq(rig_write(4 * rig_unit + 7, 10, 3, VFS_UNSTABLE), 0);
	cr_assert_eq(rig_write(150, 10, 4, VFS_UNSTABLE), 0);                        /* into the edge that was lent */
	rig_settle();
	cr_assert_eq(vfs_truncate(rig_file, 0), 0);
	cr_assert_eq(rig_in_hand(0, 16 * rig_unit), 0);
	for (unsigned i = 0; i < result.segments; i++)
		for (size_t k = 0; k < result.iov[i].iov_len; k++)
			cr_assert_eq(((uint8_t *)result.iov[i].iov_base)[k], 1);
	cr_assert_gt(buf_bytes_in_use(), in_use);
	vfs_read_put(&result);
	cr_assert_eq(buf_bytes_in_use(), in_use);
}

Test(write_path_uncached, a_reply_keeps_its_memory) { rig_run(&plain, lent); } /* 3.7 */
