/*
 * tests/unit/write_path_split_test.c - a WRITE's way into the cache (WRITE_PATH, section 1): how it is split, atomicity, syncs, errors, sizes.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/io.h"
#include "tests/unit/write_path_harness.h"

static const struct rig_config plain = { 0 };

/* ---- how it is split ---- */

static uint32_t unit_wanted;

/* Two edges of one unit each, and whole units between them that nobody copies; the file is new, so nothing is read. */
static void split(void)
{
	const uint32_t u = rig_unit, head = 100, tail = 50;

	cr_assert_eq(u, unit_wanted);
	cr_assert_eq(rig_write(u - head, head + 3 * u + tail, 1, VFS_FILE_SYNC), 0);
	cr_assert_eq(counter_value("cache.middles.adopted"), 1);
	cr_assert_eq(counter_value("cache.middles.copied"), 0);
	cr_assert_eq(counter_value("cache.edges.claimed"), 2);
	cr_assert_eq(counter_value("write.run_bytes"), 4 * (int64_t)u); /* one edge, whole with its zeros, and the middle */
	cr_assert_eq(counter_value("write.runs"), 1);
	cr_assert_eq(counter_value("write.tails"), 1);
	cr_assert_eq(sim_stats().reads, 0);
	cr_assert_eq(sim_size(1), 4 * (uint64_t)u + tail);
	rig_expect_disk(0, u - head, 0);
	rig_expect_disk(u - head, head + 3 * u + tail, 1);
	rig_expect_read(u - head, head + 3 * u + tail, 1);
}

static void split_on(uint32_t block, uint32_t unit)
{
	unit_wanted = unit;
	rig_run(&(struct rig_config){ .block = block }, split);
}

Test(write_path_split, two_edges_and_a_middle_512) { split_on(512, 4096); }     /* 1.2, 2.1 */
Test(write_path_split, two_edges_and_a_middle_4096) { split_on(4096, 4096); }   /* 1.2, 2.1 */
Test(write_path_split, two_edges_and_a_middle_16384) { split_on(16384, 16384); } /* 1.2, 2.1 */
Test(write_path_split, two_edges_and_a_middle_65536) { split_on(65536, 65536); } /* 1.2, 2.1 */

static void no_middle(void)
{
	cr_assert_eq(rig_write(rig_unit + 100, 50, 1, VFS_FILE_SYNC), 0);        /* inside one unit */
	cr_assert_eq(counter_value("cache.edges.claimed"), 1);
	cr_assert_eq(rig_write(4 * rig_unit - 10, 20, 2, VFS_FILE_SYNC), 0);      /* over a joint */
	cr_assert_eq(counter_value("cache.edges.claimed"), 3);
	cr_assert_eq(rig_write(6 * rig_unit - 10, 10 + rig_unit, 3, VFS_FILE_SYNC), 0); /* up to a joint: one edge */
	cr_assert_eq(counter_value("cache.edges.claimed"), 4);
	cr_assert_eq(counter_value("cache.middles.adopted"), 1);
	rig_expect_disk(rig_unit + 100, 50, 1);
	rig_expect_disk(4 * rig_unit - 10, 20, 2);
	rig_expect_disk(6 * rig_unit - 10, 10 + rig_unit, 3);
	rig_expect_disk(4 * rig_unit + 10, 100, 0);
}

Test(write_path_split, a_write_without_whole_units_is_edges_only) { rig_run(&plain, no_middle); } /* 1.3 */

/* The file system has no direct I/O: everything goes through the page cache, counted, and nothing is in hand. */
static void without_direct_io(void)
{
	cr_assert_eq(rig_write(100, 3 * rig_unit, 1, VFS_FILE_SYNC), 0);
	cr_assert_eq(rig_write(50, rig_unit, 2, VFS_UNSTABLE), 0);
	cr_assert_eq(counter_value("write.buffered"), 2);
	cr_assert_eq(counter_value("mode.fallback"), 2);
	cr_assert_eq(counter_value("write.direct"), 0);
	cr_assert_eq(rig_in_hand(0, 4 * rig_unit), 0);
	rig_expect_read(50, rig_unit, 2);
	rig_expect_read(rig_unit + 50, 2 * rig_unit + 50, 1);
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
	cr_assert_eq(sim_stats().fsyncs, 2);
}

Test(write_path_split, without_direct_io_the_page_cache_serves) { rig_run(&(struct rig_config){ .no_direct = true }, without_direct_io); } /* 1.1, 1.3, 1.11 */

/* Direct reads may be finer than writes: a READ in the middle of a unit, and one over a joint, bring no more than the pages that they touch. The file's end too. */
static void fine_reads(void)
{
	const uint64_t end = 3 * rig_unit + 20000;

	cr_assert(rig_unit == 65536 && mapping_read_unit(rig_mapping) == 4096);
	cr_assert_eq(rig_write(0, (uint32_t)end, 5, VFS_FILE_SYNC), 0);
	rig_expect_read(100000, 100, 5);
	cr_assert_eq(sim_stats().read_bytes, 4096);
	rig_expect_read(2 * rig_unit - 50, 100, 5);
	cr_assert_eq(sim_stats().read_bytes, 3 * 4096);
	cr_assert_eq(rig_write(rig_unit + 5000, 100, 6, VFS_UNSTABLE), 0);
	rig_expect_read(rig_unit + 4950, 50, 5);
	rig_expect_read(rig_unit + 5000, 100, 6);
	rig_expect_read(rig_unit + 5100, 50, 5);
	fiber_sleep_ns(6000000000); /* nothing of the tail is in hand any more */
	rig_expect_read(end - 30, 30, 5);
}

Test(write_path_split, reads_are_as_fine_as_the_device_allows) { rig_run(&(struct rig_config){ .block = 65536, .read_block = 4096 }, fine_reads); } /* 1.1 */

/* What is staged of a middle is the memory that it was received in; from memory that lies wrong it is copied, and counted. */
static void adopted(void)
{
	struct buf *b = buf_alloc(6 * PAGE_BYTES);
	struct vfs_payload p = { .buf = b, .data = b->data + 100, .len = 3 * rig_unit };
	struct vfs_write_result result;
	struct mapping_piece piece[8];
	int n;

	memset(p.data, 1, p.len);
	cr_assert_eq(vfs_write(&rig_call, rig_file, 100, &p, VFS_UNSTABLE, &result), 0);
	n = mapping_read_pieces(rig_mapping, rig_unit, 3 * rig_unit, piece, ARRAY_SIZE(piece));
	cr_assert_eq(n, 1);
	cr_assert_eq(piece[0].data, p.data + rig_unit - 100);
	buf_put(piece[0].buf);
	buf_put(b);
	cr_assert_eq(counter_value("cache.middles.copied"), 0);
	cr_assert_eq(rig_write_skewed(8 * rig_unit + 100, 3 * rig_unit, 2, VFS_FILE_SYNC, 13), 0);
	cr_assert_eq(counter_value("cache.middles.copied"), 1);
	cr_assert_eq(counter_value("cache.middles.adopted"), 1);
	rig_expect_disk(100, 3 * rig_unit, 1);
	rig_expect_disk(8 * rig_unit + 100, 3 * rig_unit, 2);
}

Test(write_path_split, a_middle_is_the_memory_it_was_received_in) { rig_run(&plain, adopted); } /* 1.4, 1b.1 */

/* ---- one WRITE is one change ---- */

enum { ATOMIC_WRITERS = 6, ATOMIC_ROUNDS = 30, ATOMIC_START = 1000 };

static unsigned atomic_running;

static void atomic_writer(void *arg)
{
	uint8_t value = (uint8_t)(1 + (uintptr_t)arg);

	for (unsigned i = 0; i < ATOMIC_ROUNDS; i++) {
		cr_assert_eq(rig_write(ATOMIC_START, 5 * rig_unit, value, (i + value) % 3 ? VFS_UNSTABLE : VFS_FILE_SYNC), 0);
		if (value == 1 && i % 4 == 0)
			cr_assert_eq(vfs_truncate(rig_file, ATOMIC_START + (i % 5) * rig_unit), 0);
	}
	atomic_running--;
}

/* Whatever the others do, a READ sees one WRITE's bytes, or those that a truncate left of it. */
static void atomic_reader(void *arg)
{
	uint8_t *got = malloc(5 * rig_unit);

	while (atomic_running) {
		int n = rig_read(ATOMIC_START, 5 * rig_unit, got);

		cr_assert_geq(n, 0);
		cr_assert(n == 0 || got[0]);
		for (int i = 1; i < n; i++)
			cr_assert_eq(got[i], got[0], "byte %d is %u where the first is %u", i, got[i], got[0]);
		fiber_sleep_ns(20000);
	}
	free(got);
}

static void one_change(void)
{
	cr_assert_eq(rig_write(ATOMIC_START, 5 * rig_unit, 9, VFS_FILE_SYNC), 0);
	atomic_running = ATOMIC_WRITERS;
	for (uintptr_t i = 0; i < ATOMIC_WRITERS; i++)
		cr_assert_eq(fiber_spawn(atomic_writer, (void *)i, "writer"), 0);
	for (unsigned i = 0; i < 2; i++)
		cr_assert_eq(fiber_spawn(atomic_reader, NULL, "reader"), 0);
	while (atomic_running)
		fiber_sleep_ns(100000);
	fiber_sleep_ns(10000000);
}

Test(write_path_split, a_write_is_one_change_to_readers_writers_and_truncate) { rig_run(&plain, one_change); } /* 1.5 */

/* A middle comes over what is dirty in hand: half-written edges and another middle's inner units. None of the old bytes is seen or written again. */
static void replaced(void)
{
	cr_assert_eq(rig_write(0, 12 * rig_unit, 9, VFS_FILE_SYNC), 0);
	cr_assert_eq(rig_write(2 * rig_unit + 7, 100, 1, VFS_UNSTABLE), 0);          /* waits for its partner */
	cr_assert_eq(rig_write(4 * rig_unit, 4 * rig_unit, 2, VFS_UNSTABLE), 0);
	cr_assert_eq(rig_write(rig_unit, 5 * rig_unit, 3, VFS_UNSTABLE), 0);         /* nothing of them has left yet */
	rig_expect_read(0, rig_unit, 9);
	rig_expect_read(rig_unit, 5 * rig_unit, 3);
	rig_expect_read(6 * rig_unit, 2 * rig_unit, 2);
	rig_settle();
	cr_assert_eq(rig_in_hand(0, 12 * rig_unit), 0);
	rig_expect_disk(rig_unit, 5 * rig_unit, 3);
	rig_expect_disk(6 * rig_unit, 2 * rig_unit, 2);
	rig_expect_disk(8 * rig_unit, 4 * rig_unit, 9);
	cr_assert_eq(counter_value("cache.fills.read"), 0);                          /* the edge had nothing left to be filled for */
}

Test(write_path_split, a_middle_takes_the_place_of_dirty_units) { rig_run(&plain, replaced); } /* 1.6 */

/* ---- short writes, errors ---- */

static void short_writes(void)
{
	fault_arm(FAULT_IO_SHORT_WRITE, EIO, 0, 3);
	cr_assert_eq(rig_write(100, 8 * rig_unit, 1, VFS_FILE_SYNC), 0);
	fault_disarm_all();
	rig_expect_disk(100, 8 * rig_unit, 1);
	cr_assert_eq(sim_stats().fsyncs, 1);
	cr_assert_eq(rig_lost, 0);
}

Test(write_path_split, a_short_write_is_continued) { rig_run(&plain, short_writes); } /* 1.7 */

/* It ends for good in the middle: the WRITE fails, and what lies after the end of what was written is neither in the file nor in its size. */
static void cut_short(void)
{
	uint64_t verf = vfs_verifier();

	cr_assert_eq(rig_write(0, rig_unit, 9, VFS_FILE_SYNC), 0);
	fault_arm(FAULT_IO_SHORT_WRITE, EIO, 0, 1);
	fault_arm(FAULT_IO_WRITEV, EIO, 1, 1);
	cr_assert_eq(rig_write(rig_unit, 8 * rig_unit, 1, VFS_FILE_SYNC), -EIO);
	cr_assert_eq(sim_size(1), mapping_size(rig_mapping));
	cr_assert_lt(sim_size(1), 9 * (uint64_t)rig_unit);
	rig_expect_disk(0, rig_unit, 9);
	if (sim_size(1) > rig_unit)
		rig_expect_disk(rig_unit, sim_size(1) - rig_unit, 1);               /* no gap in what is there */
	cr_assert_neq(vfs_verifier(), verf);
	fault_disarm_all();
	cr_assert_eq(rig_write(rig_unit, 8 * rig_unit, 2, VFS_FILE_SYNC), 0);
	rig_expect_disk(rig_unit, 8 * rig_unit, 2);
}

Test(write_path_split, a_write_that_ends_half_way_fails_and_leaves_no_gap) { rig_run(&plain, cut_short); } /* 1.7 */

/* ---- syncs ---- */

static void how_stable(void)
{
	cr_assert_eq(rig_write(0, 3 * rig_unit, 1, VFS_UNSTABLE), 0);
	rig_settle();
	cr_assert_eq(sim_stats().fsyncs, 0);
	cr_assert_eq(rig_write(100, 3 * rig_unit, 2, VFS_DATA_SYNC), 0);             /* two edges, a middle: one sync */
	cr_assert_eq(sim_stats().fsyncs, 1);
	cr_assert_eq(rig_commit(0, 0, NULL), 0);                                     /* the times are not there yet */
	cr_assert_eq(sim_stats().fsyncs, 2);
	cr_assert_eq(rig_write(100, 3 * rig_unit, 3, VFS_FILE_SYNC), 0);
	cr_assert_eq(sim_stats().fsyncs, 3);
	cr_assert_eq(rig_commit(0, 0, NULL), 0);                                     /* nothing left to do */
	cr_assert_eq(sim_stats().fsyncs, 3);
}

Test(write_path_split, each_stable_how_costs_its_own_sync) { rig_run(&plain, how_stable); } /* 1.8 */

static void group(void)
{
	struct rig_job job[16];

	for (unsigned i = 0; i < ARRAY_SIZE(job); i++)
		job[i] = (struct rig_job){ .offset = i * 5000, .len = 5000, .value = (uint8_t)(1 + i), .stable = i % 2 ? VFS_DATA_SYNC : VFS_FILE_SYNC };
	rig_jobs(job, ARRAY_SIZE(job));
	cr_assert_leq(sim_stats().fsyncs, 2);
	for (unsigned i = 0; i < ARRAY_SIZE(job); i++)
		rig_expect_disk(i * 5000, 5000, (uint8_t)(1 + i));
}

Test(write_path_split, stable_writes_share_a_sync) { rig_run(&plain, group); } /* 1.8, 1b.4 */

static struct timespec times_acknowledged;

static struct timespec disk_mtime(void)
{
	struct statx stx;

	cr_assert_eq(io_fstatx(sim_open(1, 0), STATX_BASIC_STATS, &stx), 0);
	return (struct timespec){ stx.stx_mtime.tv_sec, stx.stx_mtime.tv_nsec };
}

static void file_sync_then_cut(void)
{
	fiber_sleep_ns(50000000);                                                    /* later than the file was made */
	cr_assert_eq(rig_write(100, 3 * rig_unit, 1, VFS_FILE_SYNC), 0);
	times_acknowledged = disk_mtime();
	sim_power_cut();
}

static void all_is_there(void)
{
	struct timespec t = disk_mtime();

	cr_assert_eq(sim_size(1), 100 + 3 * (uint64_t)rig_unit);
	rig_expect_disk(100, 3 * rig_unit, 1);
	cr_assert(t.tv_sec == times_acknowledged.tv_sec && t.tv_nsec == times_acknowledged.tv_nsec);
}

Test(write_path_split, file_sync_makes_data_size_and_times_durable) { rig_run_cut(&plain, file_sync_then_cut, all_is_there); } /* 1.8 */

static void data_sync_then_cut(void)
{
	cr_assert_eq(rig_write(100, 3 * rig_unit, 1, VFS_DATA_SYNC), 0);
	sim_power_cut();
}

static void data_is_there(void)
{
	cr_assert_eq(sim_size(1), 100 + 3 * (uint64_t)rig_unit);
	rig_expect_disk(100, 3 * rig_unit, 1);
}

Test(write_path_split, data_sync_makes_data_and_size_durable) { rig_run_cut(&plain, data_sync_then_cut, data_is_there); } /* 1.8 */

/* Stable WRITEs that complete one another's edges wait for their sync; none of them starts a write-back that nobody waits for. */
static void stable_pairs(void)
{
	struct rig_job job[2] = {
		{ .offset = 0, .len = rig_unit + 1000, .value = 1, .stable = VFS_FILE_SYNC },
		{ .offset = rig_unit + 1000, .len = 2 * rig_unit, .value = 2, .stable = VFS_FILE_SYNC },
	};

	rig_jobs(job, 2);
	cr_assert_eq(rig_write(3 * rig_unit + 1000, rig_unit - 1000, 3, VFS_FILE_SYNC), 0);
	cr_assert_eq(counter_value("cache.edges.completed"), 2);
	cr_assert_eq(counter_value("cache.kicks"), 0);
	cr_assert_eq(counter_value("write.stable"), 3);
	cr_assert_eq(rig_in_hand(0, 8 * rig_unit), 0);
	cr_assert_eq(sim_stats().reads, 0);
}

Test(write_path_split, completed_edges_of_stable_writes_never_kick) { rig_run(&plain, stable_pairs); } /* 1.9 */

/* ---- COMMIT ---- */

static uint64_t commit_offset;
static uint32_t commit_count;

static void commit_then_cut(void)
{
	cr_assert_eq(rig_write(100, 3 * rig_unit, 1, VFS_UNSTABLE), 0);
	cr_assert_eq(rig_write(20 * rig_unit + 100, 3 * rig_unit, 2, VFS_UNSTABLE), 0);
	cr_assert_eq(rig_commit(commit_offset, commit_count, NULL), 0);
	sim_power_cut();
}

static void first_is_there(void) { rig_expect_disk(100, 3 * rig_unit, 1); }

static void both_are_there(void)
{
	first_is_there();
	rig_expect_disk(20 * rig_unit + 100, 3 * rig_unit, 2);
}

Test(write_path_split, commit_makes_its_range_durable) /* 1.10 */
{
	commit_offset = 100;
	commit_count = 3 * 4096;
	rig_run_cut(&plain, commit_then_cut, first_is_there);
}

Test(write_path_split, commit_of_no_length_goes_to_the_end) { rig_run_cut(&plain, commit_then_cut, both_are_there); } /* 1.10 */

/* One verifier for WRITE and COMMIT of all files while nothing is lost; another one from the moment something is, and then it stays. */
static void verifier(void)
{
	uint64_t verf[4];

	verf[0] = vfs_verifier();
	cr_assert_neq(verf[0], 0);
	cr_assert_eq(rig_write(100, rig_unit, 1, VFS_UNSTABLE), 0);
	cr_assert_eq(rig_commit(0, 0, &verf[1]), 0);
	cr_assert_eq(verf[1], verf[0]);
	cr_assert_eq(rig_write(100, rig_unit, 2, VFS_UNSTABLE), 0);
	fault_arm(FAULT_IO_FSYNC, EIO, 0, 1);
	cr_assert_eq(rig_commit(0, 0, &verf[2]), -EIO);
	cr_assert_neq(verf[2], verf[1]);
	cr_assert_eq(rig_commit(0, 0, &verf[3]), 0);                                 /* heard once */
	cr_assert_eq(verf[3], verf[2]);
}

Test(write_path_split, the_verifier_changes_exactly_when_something_is_lost) { rig_run(&plain, verifier); } /* 1.10 */

/* ---- sizes ---- */

static bool watching;
static uint64_t seen_sizes;

/* A local process that looks all the time: no size is ever there before its bytes, and the file is never longer than clients made it. */
static void watcher(void *arg)
{
	static uint8_t got[1 << 20];

	for (uint64_t last = 0; watching; fiber_sleep_ns(500)) {
		uint64_t size = sim_size(1);

		if (size == last)
			continue;
		seen_sizes++;
		cr_assert_leq(size, mapping_size(rig_mapping), "the file is longer than what was written");
		cr_assert_eq(sim_peek(1, got, size, 0), (ssize_t)size);
		for (uint64_t i = 0; i < size; i++)
			cr_assert_neq(got[i], 0, "size %llu, but byte %llu is not there", (unsigned long long)size, (unsigned long long)i);
		last = size;
	}
}

static void grow(enum vfs_stable stable, uint32_t record)
{
	struct rig_job job[12];

	watching = true;
	cr_assert_eq(fiber_spawn(watcher, NULL, "local process"), 0);
	for (unsigned round = 0; round < 5; round++) {
		for (unsigned i = 0; i < ARRAY_SIZE(job); i++)
			job[i] = (struct rig_job){ .offset = (uint64_t)(round * ARRAY_SIZE(job) + i) * record, .len = record, .value = 7, .stable = stable };
		rig_jobs(job, ARRAY_SIZE(job));
		fiber_sleep_ns(400000);
	}
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
	watching = false;
	fiber_sleep_ns(1000);
	cr_assert_gt(seen_sizes, 3);
	cr_assert_eq(sim_size(1), 5 * ARRAY_SIZE(job) * (uint64_t)record);
}

static void grow_stable(void) { grow(VFS_FILE_SYNC, 6001); }
static void grow_unstable(void) { grow(VFS_UNSTABLE, 6001); }
static void grow_by_little(void) { grow(VFS_FILE_SYNC, 333); }

Test(write_path_split, no_size_is_seen_before_its_bytes_stable) { rig_run(&plain, grow_stable); }          /* 1.13, 1.14 */
Test(write_path_split, no_size_is_seen_before_its_bytes_unstable) { rig_run(&plain, grow_unstable); }      /* 1.13, 1.14 */
Test(write_path_split, no_size_is_seen_before_its_bytes_in_large_blocks) { rig_run(&(struct rig_config){ .block = 65536 }, grow_by_little); } /* 1.13, 1.14 */

/* The end of file inside a block, which a READ and a local process must find where it is, whatever is flushed around it. */
static void odd_ends(void)
{
	for (uint32_t end = rig_unit - 3; end < rig_unit + 4; end++) {
		cr_assert_eq(vfs_truncate(rig_file, 0), 0);
		cr_assert_eq(rig_write(0, end, 1, VFS_UNSTABLE), 0);
		cr_assert_eq(mapping_size(rig_mapping), end);
		cr_assert_eq(rig_commit(0, 0, NULL), 0);
		cr_assert_eq(sim_size(1), end);
		cr_assert_eq(rig_write(end, 2, 2, VFS_FILE_SYNC), 0);
		cr_assert_eq(sim_size(1), end + 2);
		rig_expect_disk(0, end, 1);
		rig_expect_disk(end, 2, 2);
	}
}

Test(write_path_split, the_tail_block_is_never_longer_than_the_file_512) { rig_run(&(struct rig_config){ .block = 512 }, odd_ends); }     /* 1.14 */
Test(write_path_split, the_tail_block_is_never_longer_than_the_file_4096) { rig_run(&plain, odd_ends); }                                 /* 1.14 */
Test(write_path_split, the_tail_block_is_never_longer_than_the_file_65536) { rig_run(&(struct rig_config){ .block = 65536 }, odd_ends); } /* 1.14 */
