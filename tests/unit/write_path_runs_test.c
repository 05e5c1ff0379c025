/*
 * tests/unit/write_path_runs_test.c - what is in hand together leaves together (WRITE_PATH, section 1b): runs, rounds, bounds, who hears of a failure.
 */
#include <stdlib.h>
#include <string.h>

#include "iocache/mapping_impl.h"
#include "tests/unit/write_path_harness.h"
#include "vfs/export.h"

static const struct rig_config plain = { 0 };

/* ---- staging ---- */

/* Nothing has left yet, and READ, overwrite and truncate all find what is there. */
static void one_index(void)
{
	uint8_t got[100];

	cr_assert_eq(rig_write(100, 6 * rig_unit, 1, VFS_UNSTABLE), 0);
	rig_expect_read(100, 6 * rig_unit, 1);
	cr_assert_eq(rig_write(2 * rig_unit + 10, 20, 2, VFS_UNSTABLE), 0);
	rig_expect_read(2 * rig_unit, 10, 1);
	rig_expect_read(2 * rig_unit + 10, 20, 2);
	rig_expect_read(2 * rig_unit + 30, 3 * rig_unit, 1);
	cr_assert_eq(counter_value("read.in_hand"), 4);
	cr_assert_eq(counter_value("write.runs"), 0);
	cr_assert_eq(vfs_truncate(rig_file, 3 * rig_unit + 50), 0);
	cr_assert_eq(rig_read(3 * rig_unit, 100, got), 50);
	cr_assert_eq(got[49], 1);
	cr_assert_leq(sim_stats().write_bytes, 4 * (uint64_t)rig_unit);
	rig_expect_disk(2 * rig_unit + 10, 20, 2);
}

Test(write_path_runs, what_is_staged_is_seen_by_all) { rig_run(&plain, one_index); } /* 1b.1 */

/* ---- runs ---- */

static void records(struct rig_job *job, unsigned n, uint64_t from, uint32_t len, enum vfs_stable stable)
{
	for (unsigned i = 0; i < n; i++)
		job[i] = (struct rig_job){ .offset = from + (uint64_t)i * len, .len = len, .value = (uint8_t)(1 + i), .stable = stable };
}

static void one_run(void)
{
	struct rig_job job[16];

	records(job, 16, 0, 5000, VFS_UNSTABLE);
	rig_jobs(job, 16);
	rig_settle();
	cr_assert_eq(counter_value("write.runs"), 1);
	cr_assert_eq(counter_value("write.run_bytes"), (int64_t)align_down(16 * 5000, rig_unit));
	cr_assert_eq(sim_stats().reads, 0);
	for (unsigned i = 0; i < 16; i++)
		rig_expect_disk(i * 5000, 5000, (uint8_t)(1 + i));
}

Test(write_path_runs, neighbours_leave_as_one_write) { rig_run(&plain, one_run); } /* 1b.2 */

/* An idle file's WRITE leaves at once; what comes while it is on its way leaves when that has ended, together. */
static void self_clocked(void)
{
	struct rig_job first, later[4];
	uint64_t begun = clock_mono_ns();

	records(&first, 1, 0, 2 * rig_unit, VFS_UNSTABLE);
	rig_start(&first, 1);
	while (!rig_mapping->runs_in_flight)
		fiber_yield();
	cr_assert_lt(clock_mono_ns() - begun, 1000000, "it waited for something");
	records(later, 4, 2 * rig_unit, rig_unit, VFS_UNSTABLE);
	rig_start(later, 4);
	rig_settle();
	cr_assert_eq(counter_value("write.runs"), 2);
	rig_expect_disk(0, 2 * rig_unit, 1);
	for (unsigned i = 0; i < 4; i++)
		rig_expect_disk((2 + i) * rig_unit, rig_unit, (uint8_t)(1 + i));
}

Test(write_path_runs, what_comes_during_a_write_is_the_next_run) { rig_run(&(struct rig_config){ .latency_ns_max = 10000000 }, self_clocked); } /* 1b.3 */

static unsigned most_in_flight(void)
{
	unsigned most = 0;

	for (uint64_t until = clock_mono_ns() + 50000000; clock_mono_ns() < until; fiber_sleep_ns(1000)) {
		leaf_lock(&rig_mapping->lock);
		most = rig_mapping->runs_in_flight > most ? rig_mapping->runs_in_flight : most;
		leaf_unlock(&rig_mapping->lock);
	}
	return most;
}

/* Where the file grows one run after the other, ascending, so that a power cut leaves no size ahead of its data; inside it many at a time. */
static void in_flight(void)
{
	struct rig_job job[8];

	for (unsigned i = 0; i < 8; i++)
		job[i] = (struct rig_job){ .offset = (uint64_t)(2 * (7 - i) + 1) * rig_unit, .len = rig_unit, .value = 1, .stable = VFS_UNSTABLE };
	rig_start(job, 8);
	cr_assert_eq(most_in_flight(), 1);
	rig_settle();
	cr_assert_eq(counter_value("write.runs"), 8);
	rig_start(job, 8);
	cr_assert_geq(most_in_flight(), 4);
}

Test(write_path_runs, extensions_go_one_by_one_overwrites_side_by_side) { rig_run(&(struct rig_config){ .latency_ns_max = 2000000 }, in_flight); } /* 1b.3 */

/* What is staged while a sync runs is not answered by it. */
static void next_sync(void)
{
	struct rig_job job[2];

	records(job, 2, 0, rig_unit, VFS_FILE_SYNC);
	rig_start(&job[0], 1);
	while (!sim_stats().writes) /* then it is synced */
		fiber_yield();
	cr_assert_not(job[0].done);
	rig_start(&job[1], 1);
	rig_wait(job, 2);
	cr_assert_eq(sim_stats().fsyncs, 2);
	sim_power_cut();
}

static void both_there(void)
{
	rig_expect_disk(0, rig_unit, 1);
	rig_expect_disk(rig_unit, rig_unit, 2);
}

Test(write_path_runs, a_sync_answers_only_what_was_staged_before_it) /* 1b.4 */
{
	rig_run_cut(&(struct rig_config){ .latency_ns_max = 10000000 }, next_sync, both_there);
}

/* Two runs beside each other inside the file: the sync that follows them is an operation of its own, after both. */
static struct rig_job apart[2];

static void start_apart(enum vfs_stable stable)
{
	cr_assert_eq(rig_write(0, 40 * rig_unit, 9, VFS_FILE_SYNC), 0);
	for (unsigned i = 0; i < 2; i++)
		apart[i] = (struct rig_job){ .offset = 10 * (1 + i) * rig_unit, .len = rig_unit, .value = (uint8_t)(1 + i), .stable = stable };
	rig_start(apart, 2);
}

/* A COMMIT that finds nothing left to write waits for the sync that is under way. */
static void commit_meets_sync(void)
{
	start_apart(VFS_FILE_SYNC);
	while (sim_stats().writes < 3 || rig_mapping->dirty_bytes)
		fiber_yield();
	cr_assert_not(apart[0].done || apart[1].done);
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
	sim_power_cut();
}

static void both_apart(void)
{
	rig_expect_disk(10 * rig_unit, rig_unit, 1);
	rig_expect_disk(20 * rig_unit, rig_unit, 2);
}

Test(write_path_runs, a_commit_waits_for_the_sync_that_is_under_way) /* 1b.4, 1.10 */
{
	rig_run_cut(&(struct rig_config){ .latency_ns_max = 10000000 }, commit_meets_sync, both_apart);
}

static void times_owed(void)
{
	uint64_t before;

	start_apart(VFS_DATA_SYNC);
	rig_wait(apart, 2);
	before = sim_stats().fsyncs;
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
	cr_assert_eq(sim_stats().fsyncs, before + 1);
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
	cr_assert_eq(sim_stats().fsyncs, before + 1);
}

Test(write_path_runs, after_a_data_sync_of_several_runs_the_times_are_owed) { rig_run(&plain, times_owed); } /* 1.8 */

/* ---- bounds ---- */

enum { BOUND_UNITS = 8 };

/* A client has its share of the bound, and leaves the rest to the others: their WRITEs do not wait for its. */
static void client_bound(void)
{
	struct rig_job job[12];
	uint64_t begun;

	rig_call.client = 1;
	records(job, 12, 0, 2 * rig_unit, VFS_UNSTABLE);
	rig_start(job, 12);
	while (!counter_value("cache.dirty_waits"))
		fiber_yield();
	cr_assert_leq(rig_mapping->dirty_bytes, BOUND_UNITS * (uint64_t)rig_unit);
	rig_call.client = 2;
	begun = clock_mono_ns();
	cr_assert_eq(rig_write(100 * rig_unit, rig_unit, 99, VFS_UNSTABLE), 0);
	cr_assert_eq(clock_mono_ns(), begun);
	rig_wait(job, 12);
	rig_settle();
	for (unsigned i = 0; i < 12; i++)
		rig_expect_disk(i * 2 * rig_unit, 2 * rig_unit, (uint8_t)(1 + i));
}

Test(write_path_runs, a_client_has_its_share_of_dirty_bytes) /* 1b.5 */
{
	rig_run(&(struct rig_config){
		.latency_ns_max = 10000000,
		.cache = { .dirty_bytes_max = 4 * BOUND_UNITS * 4096, .file_dirty_bytes_max = 4 * BOUND_UNITS * 4096, .client_dirty_bytes_max = BOUND_UNITS * 4096 },
	}, client_bound);
}

/* All that is dirty is on the account of client 1. */
static void expect_paid(void)
{
	const uint64_t max = cache_limits.client_dirty_bytes_max;

	cr_assert_neq(cache_payer(1), 0);
	cache_limits.client_dirty_bytes_max = 1;
	cr_assert(cache_dirty_over(cache_payer(1)) && !cache_dirty_over(0));
	cache_limits.client_dirty_bytes_max = max;
}

/* The copy of a unit that is on its way, and is written to again, is on its client's account, not on another's. */
static void copy_is_paid_for(void)
{
	rig_call.client = 1;
	cr_assert_eq(rig_write(0, 4 * rig_unit, 1, VFS_UNSTABLE), 0);
	while (!rig_mapping->runs_in_flight)
		fiber_yield();
	cr_assert_eq(rig_write(rig_unit + 100, 100, 2, VFS_UNSTABLE), 0);
	expect_paid();
	rig_settle();
}

Test(write_path_runs, a_copied_unit_stays_on_its_clients_account) { rig_run(&(struct rig_config){ .latency_ns_max = 10000000 }, copy_is_paid_for); } /* 1b.5 */

/* So are the parts of a large folio that somebody writes into. */
static void slices_are_paid_for(void)
{
	struct export_options *options = &((struct export_view *)rig_call.view)->options;

	rig_call.client = 1;
	options->write_mode = EXPORT_MODE_DONTCACHE;
	cr_assert_eq(rig_write(0, LARGE_BYTES, 1, VFS_UNSTABLE), 0);
	options->write_mode = EXPORT_MODE_DIRECT;
	cr_assert_eq(rig_write(4 * rig_unit, rig_unit, 2, VFS_UNSTABLE), 0);
	expect_paid();
	rig_settle();
	rig_expect_disk(0, 4 * rig_unit, 1);
	rig_expect_disk(4 * rig_unit, rig_unit, 2);
}

Test(write_path_runs, parts_of_a_large_folio_stay_on_its_clients_account) { rig_run(&(struct rig_config){ .latency_ns_max = 10000000 }, slices_are_paid_for); } /* 1b.5 */

/* UNSTABLE WRITEs are answered without the disk, up to a file's share of what may be dirty; then they wait. */
static void file_bound(void)
{
	struct rig_job job[12];
	uint64_t begun = clock_mono_ns();

	cr_assert_eq(rig_write(0, 2 * rig_unit, 1, VFS_UNSTABLE), 0);
	cr_assert_eq(clock_mono_ns(), begun);
	records(job, 12, 0, 2 * rig_unit, VFS_UNSTABLE);
	rig_start(job, 12);
	for (unsigned i = 0; i < 12; fiber_sleep_ns(1000)) {
		cr_assert_leq(rig_mapping->dirty_bytes, BOUND_UNITS * (uint64_t)rig_unit);
		for (; i < 12 && job[i].done; i++)
			;
	}
	cr_assert_geq(counter_value("cache.dirty_waits"), 1);
	rig_settle();
	cr_assert_eq(rig_mapping->dirty_bytes, 0);
	for (unsigned i = 0; i < 12; i++)
		rig_expect_disk(i * 2 * rig_unit, 2 * rig_unit, (uint8_t)(1 + i));
}

Test(write_path_runs, a_file_has_its_share_of_dirty_bytes) /* 1b.5, 5.10 */
{
	rig_run(&(struct rig_config){ .cache = { .file_dirty_bytes_max = BOUND_UNITS * 4096 } }, file_bound);
}

/* Half-written edges alone fill the bound: they are filled and written for the sake of who waits, instead of waiting for partners that cannot come. */
static void edges_fill_the_bound(void)
{
	uint64_t begun = clock_mono_ns();

	for (unsigned i = 0; i < 3 * BOUND_UNITS; i++)
		cr_assert_eq(rig_write(2 * i * rig_unit + 100, 50, (uint8_t)(1 + i), VFS_UNSTABLE), 0);
	cr_assert_lt(clock_mono_ns() - begun, 200000000, "they waited for their partners");
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
	for (unsigned i = 0; i < 3 * BOUND_UNITS; i++)
		rig_expect_disk(2 * i * rig_unit + 100, 50, (uint8_t)(1 + i));
}

Test(write_path_runs, half_written_edges_do_not_block_the_bound) /* 1b.5, 5.10 */
{
	rig_run(&(struct rig_config){ .cache = { .file_dirty_bytes_max = BOUND_UNITS * 4096 } }, edges_fill_the_bound);
}

/* ---- memory in flight ---- */

/* An edge that is complete and on its way is written to again, twice: the simulated disk panics if memory under way changes. */
static void edge_in_flight(void)
{
	struct rig_job half[2] = {
		{ .offset = 0, .len = 3000, .value = 1, .stable = VFS_UNSTABLE },
		{ .offset = 3000, .len = rig_unit - 3000, .value = 2, .stable = VFS_UNSTABLE },
	};

	rig_start(half, 2);
	while (!rig_mapping->runs_in_flight)
		fiber_yield();
	cr_assert_eq(rig_write(2000, 2000, 3, VFS_UNSTABLE), 0);
	cr_assert_eq(rig_write(10, 10, 4, VFS_FILE_SYNC), 0);
	rig_wait(half, 2);
	rig_expect_disk(0, 10, 1);
	rig_expect_disk(10, 10, 4);
	rig_expect_disk(20, 1980, 1);
	rig_expect_disk(2000, 2000, 3);
	rig_expect_disk(4000, rig_unit - 4000, 2);
	cr_assert_eq(sim_stats().reads, 0);
}

Test(write_path_runs, an_edge_on_its_way_is_written_to_in_new_memory) { rig_run(&(struct rig_config){ .latency_ns_max = 10000000 }, edge_in_flight); } /* 1b.6 */

/* Appending: of what was written before only the unit with the end in it goes again. */
static void appends(void)
{
	enum { APPENDS = 20 };
	const uint32_t len = 3 * rig_unit + 700;

	for (unsigned i = 0; i < APPENDS; i++)
		cr_assert_eq(rig_write((uint64_t)i * len, len, (uint8_t)(1 + i), VFS_FILE_SYNC), 0);
	cr_assert_leq(sim_stats().write_bytes, (uint64_t)APPENDS * (len + rig_unit));
	cr_assert_eq(sim_stats().reads, 0);
	for (unsigned i = 0; i < APPENDS; i++)
		rig_expect_disk((uint64_t)i * len, len, (uint8_t)(1 + i));
}

Test(write_path_runs, only_the_tail_is_written_again) { rig_run(&plain, appends); } /* 1b.7 */

/* ---- failures ---- */

static void who_hears(void)
{
	struct rig_job job[3] = {
		{ .offset = 0, .len = 2 * rig_unit + 100, .value = 1, .stable = VFS_FILE_SYNC },
		{ .offset = 2 * rig_unit + 100, .len = 2 * rig_unit, .value = 2, .stable = VFS_FILE_SYNC },
		{ .offset = 20 * rig_unit, .len = 2 * rig_unit, .value = 3, .stable = VFS_FILE_SYNC },
	};

	cr_assert_eq(rig_write(0, 40 * rig_unit, 9, VFS_FILE_SYNC), 0);
	cr_assert_eq(rig_write(4 * rig_unit + 100, rig_unit - 100, 4, VFS_UNSTABLE), 0);
	fault_arm(FAULT_IO_WRITEV, EIO, 0, 1);                                       /* the first run: it has bytes of the first two and the UNSTABLE one */
	rig_jobs(job, 3);
	cr_assert_eq(job[0].error, -EIO);
	cr_assert_eq(job[1].error, -EIO);
	cr_assert_eq(job[2].error, 0);
	rig_expect_disk(20 * rig_unit, 2 * rig_unit, 3);
	cr_assert_eq(rig_lost, 1);
	cr_assert_eq(rig_commit(0, 0, NULL), -EIO);                                  /* it sticks for who was answered before */
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
}

Test(write_path_runs, a_failed_run_fails_each_write_in_it) { rig_run(&plain, who_hears); } /* 1b.8 */

/* Two runs of a round find no space. The tail behind them would make the file longer by bytes that nobody wrote: it is refused with them, and its writer hears of it. */
static void tail_after_failures(void)
{
	struct rig_job job[3] = {
		{ .offset = 0, .len = 2 * rig_unit, .value = 1, .stable = VFS_FILE_SYNC },
		{ .offset = 2 * rig_unit, .len = 2 * rig_unit, .value = 2, .stable = VFS_FILE_SYNC },
		{ .offset = 4 * rig_unit, .len = 100, .value = 3, .stable = VFS_FILE_SYNC },
	};

	fault_arm(FAULT_IO_WRITEV, ENOSPC, 0, 2);
	rig_jobs(job, 3);
	cr_assert(job[0].error == -ENOSPC && job[1].error == -ENOSPC);
	cr_assert_eq(job[2].error, -ENOSPC);
	rig_settle();
	cr_assert_eq(sim_size(1), 0);
	cr_assert_eq(rig_mapping->dirty_bytes, 0);
}

Test(write_path_runs, a_tail_behind_failed_runs_is_refused_with_them) { rig_run(&(struct rig_config){ .cache = { .run_bytes_max = 2 * 4096 } }, tail_after_failures); } /* 1b.8, 5.8 */

/*
 * A stable WRITE replaces acknowledged bytes that are under way, and neither finds space. With it the last of those acknowledged bytes would go, and nobody would be told:
 * so its own are kept in their place, though it is refused.
 */
static void refused_over_under_way(void)
{
	struct rig_job first = { .offset = 0, .len = 2 * rig_unit, .value = 1, .stable = VFS_UNSTABLE };
	struct rig_job over = { .offset = 0, .len = 2 * rig_unit, .value = 2, .stable = VFS_FILE_SYNC };
	uint64_t verf, after;

	fault_arm(FAULT_IO_WRITEV, ENOSPC, 0, 2);
	rig_start(&first, 1);
	while (!rig_mapping->runs_in_flight)
		fiber_yield();
	cr_assert(first.done && !first.error);
	verf = vfs_verifier();
	rig_jobs(&over, 1);
	cr_assert_eq(over.error, -ENOSPC);
	cr_assert_eq(rig_mapping->dirty_bytes, 2 * (uint64_t)rig_unit);
	rig_expect_read(0, 2 * rig_unit, 2);
	cr_assert_eq(rig_commit(0, 0, NULL), -ENOSPC);
	cr_assert_eq(rig_commit(0, 0, &after), 0);
	cr_assert_eq(after, verf);
	rig_expect_disk(0, 2 * rig_unit, 2);
}

Test(write_path_runs, refused_over_acknowledged_bytes_under_way) { rig_run(&(struct rig_config){ .latency_ns_max = 10000000 }, refused_over_under_way); } /* 1b.8, 5.8 */

/* A WRITE whose whole units find no space leaves nothing of itself, though its tail would. */
static void all_of_it(void)
{
	fault_arm(FAULT_IO_WRITEV, ENOSPC, 0, 1);
	cr_assert_eq(rig_write(0, 2 * rig_unit + 100, 1, VFS_FILE_SYNC), -ENOSPC);
	cr_assert(sim_size(1) == 0 && mapping_size(rig_mapping) == 0);
}

Test(write_path_runs, a_tail_shares_the_fate_of_its_own_run) { rig_run(&plain, all_of_it); } /* 1b.8, 5.8 */

/* Half of it finds space: the file ends there, and its tail is not written past what is missing. */
static void half_of_it(void)
{
	fault_arm(FAULT_IO_SHORT_WRITE, EIO, 0, 1);
	fault_arm(FAULT_IO_WRITEV, ENOSPC, 1, 1);
	cr_assert_eq(rig_write(0, 8 * rig_unit + 100, 1, VFS_FILE_SYNC), -ENOSPC);
	cr_assert(sim_size(1) >= rig_unit && sim_size(1) < 8 * rig_unit && mapping_size(rig_mapping) == sim_size(1));
	rig_expect_disk(0, sim_size(1), 1);
}

Test(write_path_runs, a_tail_is_not_written_past_what_is_missing) { rig_run(&plain, half_of_it); } /* 1b.8, 1.7, 5.8 */

/* A run into a hole inside the file finds no space. That is nothing to the tail behind it: the file grows by no bytes that nobody wrote. */
static void tail_behind_a_hole(void)
{
	struct rig_job job[2] = {
		{ .offset = rig_unit, .len = rig_unit, .value = 1, .stable = VFS_FILE_SYNC },
		{ .offset = 4 * rig_unit + 50, .len = 100, .value = 2, .stable = VFS_FILE_SYNC },
	};

	cr_assert_eq(vfs_truncate(rig_file, 4 * rig_unit), 0);
	fault_arm(FAULT_IO_WRITEV, ENOSPC, 0, 1);
	rig_jobs(job, 2);
	cr_assert_eq(job[0].error, -ENOSPC);
	cr_assert_eq(job[1].error, 0);
	rig_expect_disk(4 * rig_unit + 50, 100, 2);
	rig_expect_disk(rig_unit, rig_unit, 0);
}

Test(write_path_runs, a_tail_behind_a_hole_that_found_no_space_goes) { rig_run(&plain, tail_behind_a_hole); } /* 1b.8, 5.8 */
