/*
 * tests/unit/mutant_cache_test.c - behaviours of the cache that no other test looked at closely enough: each was written for a bug of tests/mutants/LIST, named in
 * its comment.
 */
#include <stdlib.h>
#include <string.h>

#include "iocache/mapping_impl.h"
#include "tests/unit/write_path_harness.h"
#include "vfs/export.h"
#include "vfs/file.h"

enum { UNIT = 4096, LARGE = 65536 };

static const struct rig_config plain, slow = { .latency_ns_max = 10000000 };

static int write_mode(enum export_mode mode, uint64_t offset, uint32_t len, uint8_t value, enum vfs_stable stable)
{
	((struct export_view *)rig_call.view)->options.write_mode = mode;
	return rig_write(offset, len, value, stable);
}

/* ---- through the page cache ---- */

/* write-through-leaves-kept-edges: a WRITE that goes through the page cache takes the place of what is kept of its units. */
static void buffered_over_kept(void)
{
	cr_assert_eq(rig_write(0, 2 * UNIT, 1, VFS_FILE_SYNC), 0);
	cr_assert_eq(rig_write(UNIT + 100, 200, 2, VFS_FILE_SYNC), 0);
	cr_assert_gt(rig_in_hand(UNIT, 2 * UNIT), 0); /* kept for its partner */
	cr_assert_eq(write_mode(EXPORT_MODE_BUFFERED, UNIT - 100, 300, 3, VFS_UNSTABLE), 0);
	rig_expect_read(0, UNIT - 100, 1);
	rig_expect_read(UNIT - 100, 300, 3);
	rig_expect_read(UNIT + 200, 100, 2);
	rig_expect_read(UNIT + 300, UNIT - 300, 1);
}

Test(mutant_cache, a_buffered_write_replaces_what_is_kept) { rig_run(&plain, buffered_over_kept); }

/* write-through-without-writeout: ... and what is dirty of them goes to the disk before it. */
static void buffered_over_dirty(void)
{
	cr_assert_eq(rig_write(0, 4 * UNIT, 1, VFS_UNSTABLE), 0);
	cr_assert_eq(write_mode(EXPORT_MODE_BUFFERED, UNIT + 100, 200, 3, VFS_UNSTABLE), 0);
	rig_expect_read(0, UNIT + 100, 1);
	rig_expect_read(UNIT + 100, 200, 3);
	rig_expect_read(UNIT + 300, 3 * UNIT - 300, 1);
}

Test(mutant_cache, a_buffered_write_comes_after_what_is_dirty) { rig_run(&plain, buffered_over_dirty); }

/* write-through-short-is-whole: one that fails makes the file no longer. */
static void buffered_fails(void)
{
	cr_assert_eq(rig_write(0, UNIT, 1, VFS_FILE_SYNC), 0);
	fault_arm(FAULT_IO_WRITEV, ENOSPC, 0, 1);
	cr_assert_eq(write_mode(EXPORT_MODE_BUFFERED, 3 * UNIT, 100, 3, VFS_UNSTABLE), -ENOSPC);
	fault_disarm_all();
	cr_assert_eq(mapping_size(rig_mapping), UNIT);
}

Test(mutant_cache, a_buffered_write_that_fails_moves_no_size) { rig_run(&plain, buffered_fails); }

/* write-through-owes-no-sync, cut-owes-no-sync: COMMIT makes them durable, also when there is nothing else to sync. */
static void synced_by_commit(void)
{
	uint64_t before;

	cr_assert_eq(rig_write(0, 2 * UNIT, 1, VFS_FILE_SYNC), 0);
	cr_assert_eq(write_mode(EXPORT_MODE_BUFFERED, 0, 100, 3, VFS_UNSTABLE), 0);
	rig_settle();
	before = sim_stats().fsyncs;
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
	cr_assert_eq(sim_stats().fsyncs, before + 1);
	cr_assert_eq(mapping_truncate(rig_mapping, UNIT), 0);
	before = sim_stats().fsyncs;
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
	cr_assert_eq(sim_stats().fsyncs, before + 1);
}

Test(mutant_cache, commit_syncs_buffered_writes_and_truncates) { rig_run(&plain, synced_by_commit); }

/* ---- syncs ---- */

/* closed-without-sync: what was written and not synced is known when the file is closed. */
static void owes_sync(void)
{
	cr_assert_eq(rig_write(0, UNIT, 1, VFS_FILE_SYNC), 0);
	cr_assert_not(mapping_owes_sync(rig_mapping));
	cr_assert_eq(rig_write(0, UNIT, 2, VFS_UNSTABLE), 0);
	rig_settle();
	cr_assert_eq(rig_mapping->dirty_bytes, 0);
	cr_assert(mapping_owes_sync(rig_mapping));
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
	cr_assert_not(mapping_owes_sync(rig_mapping));
}

Test(mutant_cache, a_file_owes_a_sync_until_it_has_it) { rig_run(&plain, owes_sync); }

/* data-sync-covers-times: COMMIT after a DATA_SYNC WRITE still owes the times. */
static void times_after_data(void)
{
	cr_assert_eq(rig_write(0, UNIT, 1, VFS_DATA_SYNC), 0);
	cr_assert_eq(sim_stats().fsyncs, 1);
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
	cr_assert_eq(sim_stats().fsyncs, 2);
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
	cr_assert_eq(sim_stats().fsyncs, 2);
}

Test(mutant_cache, a_data_sync_is_no_file_sync) { rig_run(&plain, times_after_data); }

/* answered-with-a-weaker-sync: a COMMIT that comes while a DATA_SYNC WRITE is written gets a sync of its own. */
static void stronger_meanwhile(void)
{
	struct rig_job job = { .offset = 0, .len = UNIT, .value = 1, .stable = VFS_DATA_SYNC };

	cr_assert_eq(rig_write(0, UNIT, 1, VFS_FILE_SYNC), 0);
	rig_start(&job, 1);
	while (!rig_mapping->runs_in_flight)
		fiber_yield();
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
	cr_assert_eq(sim_stats().fsyncs, 3);
	rig_wait(&job, 1);
	cr_assert_eq(job.error, 0);
}

Test(mutant_cache, a_commit_beside_a_data_sync_has_its_own) { rig_run(&slow, stronger_meanwhile); }

/* commit-while-a-sync-runs: it is answered when that sync has ended, not when it has begun. */
static void during_a_sync(void)
{
	struct rig_job job = { .offset = 0, .len = UNIT, .value = 1, .stable = VFS_FILE_SYNC };
	uint64_t begun;

	rig_start(&job, 1);
	while (!sim_stats().writes) /* then it is synced */
		fiber_sleep_ns(1000);
	begun = clock_mono_ns();
	cr_assert_not(job.done);
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
	cr_assert_gt(clock_mono_ns(), begun + 10000);
	rig_wait(&job, 1);
	cr_assert_eq(job.error, 0);
}

Test(mutant_cache, a_commit_waits_for_the_sync_under_way) { rig_run(&slow, during_a_sync); }

/* run-of-unstable-data-forgotten: a sync that fails for one WRITE is told to those who had their answer before, too. */
static void sync_fails_for_others(void)
{
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
	cr_assert_eq(rig_write(0, UNIT, 1, VFS_UNSTABLE), 0);
	rig_settle();
	fault_arm(FAULT_IO_FSYNC, EIO, 0, 1);
	cr_assert_eq(rig_write(UNIT, UNIT, 2, VFS_FILE_SYNC), -EIO);
	fault_disarm_all();
	cr_assert_eq(rig_commit(0, 0, NULL), -EIO);
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
}

Test(mutant_cache, a_failed_sync_is_told_to_unstable_writers) { rig_run(&plain, sync_fails_for_others); }

/* error-for-later-stages: whoever came after the bytes that failed does not hear of them. */
static void later_stage(void)
{
	struct rig_job job[2] = { { .offset = 0, .len = UNIT, .value = 1, .stable = VFS_FILE_SYNC }, { .offset = 0, .len = UNIT, .value = 2, .stable = VFS_FILE_SYNC } };

	cr_assert_eq(rig_write(0, UNIT, 3, VFS_FILE_SYNC), 0);
	fault_arm(FAULT_IO_WRITEV, EIO, 0, 1);
	rig_start(&job[0], 1);
	while (!rig_mapping->runs_in_flight)
		fiber_yield();
	rig_start(&job[1], 1);
	rig_wait(job, 2);
	fault_disarm_all();
	cr_assert_eq(job[0].error, -EIO);
	cr_assert_eq(job[1].error, 0);
	rig_expect_disk(0, UNIT, 2);
}

Test(mutant_cache, an_error_is_not_for_those_who_came_later) { rig_run(&slow, later_stage); }

/* ---- fills ---- */

/* A file of 5000 bytes, whose second unit is completed past its end: what the disk has of it must be read. */
static void beyond_the_end(enum vfs_stable stable, int error)
{
	cr_assert_eq(rig_write(0, 5000, 1, VFS_FILE_SYNC), 0);
	mapping_flush(rig_mapping); /* nothing of it is kept */
	fault_arm(FAULT_IO_READV, error, 0, 1);
	cr_assert_eq(rig_write(6000, 2 * UNIT - 6000, 2, stable), stable == VFS_UNSTABLE ? 0 : -error);
	rig_settle();
	fault_disarm_all();
}

/* fill-failed-size-stays: a WRITE that fails because its edge cannot be filled takes its size with it. */
static void size_of_a_failed_fill(void)
{
	beyond_the_end(VFS_FILE_SYNC, EIO);
	cr_assert_eq(mapping_size(rig_mapping), 5000);
	rig_expect_read(0, 5000, 1);
}

Test(mutant_cache, a_failed_fill_leaves_no_size) { rig_run(&plain, size_of_a_failed_fill); }

/* fill-failed-drops-unstable-data: if the error may pass, what was acknowledged stays, and goes later. */
static void fill_again(void)
{
	beyond_the_end(VFS_UNSTABLE, ENOMEM);
	rig_commit(0, 0, NULL);
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
	rig_expect_disk(0, 5000, 1);
	rig_expect_disk(5000, 1000, 0);
	rig_expect_disk(6000, 2 * UNIT - 6000, 2);
}

Test(mutant_cache, a_fill_that_fails_for_a_while_loses_nothing) { rig_run(&plain, fill_again); }

/* ---- truncate ---- */

/* large-cut-leaves-a-stale-tail: what is cut and cannot be written yet has zeros where the file grows again. */
static void cut_while_full(void)
{
	cr_assert_eq(rig_write(0, 100, 1, VFS_FILE_SYNC), 0);
	fault_arm(FAULT_IO_WRITEV, ENOSPC, 0, 1000);
	cr_assert_eq(write_mode(EXPORT_MODE_DONTCACHE, 0, LARGE, 9, VFS_UNSTABLE), 0);
	fiber_sleep_ns(5000000);
	cr_assert_eq(mapping_truncate(rig_mapping, 10000), 0);
	cr_assert_eq(mapping_truncate(rig_mapping, 50000), 0);
	rig_expect_read(0, 10000, 9);
	rig_expect_read(10000, 40000, 0);
	fault_disarm_all();
	rig_commit(0, 0, NULL);
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
	rig_expect_disk(0, 10000, 9);
	rig_expect_disk(10000, 40000, 0);
}

Test(mutant_cache, a_cut_folio_that_cannot_be_written_has_zeros) { rig_run(&plain, cut_while_full); }

/* cut-unit-stays-complete: of an edge that is cut and cannot be written yet nothing past the cut counts as written. */
static void cut_edge_while_full(void)
{
	fault_arm(FAULT_IO_WRITEV, ENOSPC, 0, 1000);
	cr_assert_eq(rig_write(0, UNIT, 1, VFS_UNSTABLE), 0);
	cr_assert_eq(mapping_truncate(rig_mapping, 1000), 0);
	rig_check();
	cr_assert_eq(mapping_truncate(rig_mapping, UNIT), 0);
	rig_check();
	rig_expect_read(1000, UNIT - 1000, 0);
	fault_disarm_all();
}

Test(mutant_cache, a_cut_edge_that_cannot_be_written_is_not_complete) { rig_run(&plain, cut_edge_while_full); }

/* refused-cut-in-silence: a truncate that is refused has cut what is not written yet: the verifier changes. */
static void refused(void)
{
	cr_assert_eq(rig_write(0, UNIT, 1, VFS_FILE_SYNC), 0);
	cr_assert_eq(rig_write(UNIT, 4 * UNIT, 2, VFS_UNSTABLE), 0);
	fault_arm(FAULT_IO_FTRUNCATE, EIO, 0, 1);
	cr_assert_eq(mapping_truncate(rig_mapping, 2 * UNIT), -EIO);
	fault_disarm_all();
	cr_assert_eq(rig_lost, 1);
}

Test(mutant_cache, a_refused_truncate_changes_the_verifier) { rig_run(&plain, refused); }

static bool cut_done;

static void cut_main(void *arg)
{
	cr_assert_eq(mapping_truncate(rig_mapping, 2 * UNIT), 0);
	cut_done = true;
}

/* cut-does-not-wait-for-those-before: a stable WRITE that came before a truncate is on the disk when it is answered, or the truncate is. */
static void write_then_cut(void)
{
	struct rig_job job = { .offset = 0, .len = 8 * UNIT, .value = 1, .stable = VFS_FILE_SYNC };

	rig_start(&job, 1);
	while (!rig_mapping->waiting)
		fiber_yield();
	cr_assert_eq(fiber_spawn(cut_main, NULL, "truncate"), 0);
	while (!job.done)
		fiber_sleep_ns(1000);
	cr_assert(cut_done || sim_size(1) == 8 * UNIT, "the disk has %llu bytes", (unsigned long long)sim_size(1));
	cr_assert_eq(job.error, 0);
	while (!cut_done)
		fiber_sleep_ns(1000);
	cr_assert_eq(sim_size(1), 2 * UNIT);
}

Test(mutant_cache, a_truncate_lets_stable_writes_before_it_have_their_bytes) { rig_run(&slow, write_then_cut); }

/* ---- no space ---- */

/*
 * An UNSTABLE WRITE of four units, and before it has gone a stable one of a part: there is no space for either, then there is. What was acknowledged is there.
 */
static void acknowledged_stays(enum export_mode mode, uint64_t offset, uint32_t len)
{
	fault_arm(FAULT_IO_WRITEV, ENOSPC, 0, 1000);
	cr_assert_eq(write_mode(mode, 0, 4 * UNIT, 1, VFS_UNSTABLE), 0);
	cr_assert_eq(write_mode(mode, offset, len, 2, VFS_FILE_SYNC), -ENOSPC);
	fault_disarm_all();
	cr_assert_eq(rig_commit(0, 0, NULL), -ENOSPC);
	fiber_sleep_ns(2000000000);
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
	cr_assert_eq(sim_size(1), 4 * UNIT);
	cr_assert_eq(rig_lost, 0);
	if (offset)
		rig_expect_disk(0, offset, 1);
	if (offset + len < 4 * UNIT)
		rig_expect_disk(offset + len, 4 * UNIT - offset - len, 1);
}

static void edge_over_adopted(void) { acknowledged_stays(EXPORT_MODE_DIRECT, UNIT + 100, 100); }
static void middle_over_adopted(void) { acknowledged_stays(EXPORT_MODE_DIRECT, UNIT, UNIT); }
static void all_over_adopted(void) { acknowledged_stays(EXPORT_MODE_DIRECT, 0, 4 * UNIT); }
static void edge_over_large(void) { acknowledged_stays(EXPORT_MODE_DONTCACHE, UNIT + 100, 100); }
static void middle_over_large(void) { acknowledged_stays(EXPORT_MODE_DONTCACHE, UNIT, UNIT); }

/* dirty-again-loses-unstable, split-loses-unstable, punch-forgets-unstable, stable-over-unstable-is-stable, large-split-loses-unstable */
Test(mutant_cache, without_space_what_was_acknowledged_stays_beside_an_edge) { rig_run(&plain, edge_over_adopted); }
Test(mutant_cache, without_space_what_was_acknowledged_stays_beside_a_middle) { rig_run(&plain, middle_over_adopted); }
Test(mutant_cache, without_space_what_was_acknowledged_stays_below_another) { rig_run(&plain, all_over_adopted); }
Test(mutant_cache, without_space_what_was_acknowledged_stays_in_a_large_folio) { rig_run(&plain, edge_over_large); }
Test(mutant_cache, without_space_what_was_acknowledged_stays_around_a_middle) { rig_run(&plain, middle_over_large); }

/* attach-forgets-what-is-under-way, large-overwrite-under-way-forgets-the-run: a part is written anew while the whole is under way, and that fails. */
static void part_anew_while_it_fails(void)
{
	cr_assert_eq(rig_write(0, LARGE, 1, VFS_FILE_SYNC), 0);
	fault_arm(FAULT_IO_SHORT_WRITE, EIO, 0, 1); /* its rest is what fails, later */
	fault_arm(FAULT_IO_WRITEV, ENOSPC, 1, 1);
	cr_assert_eq(write_mode(EXPORT_MODE_DONTCACHE, 0, LARGE, 2, VFS_UNSTABLE), 0);
	while (!rig_mapping->runs_in_flight)
		fiber_yield();
	cr_assert_eq(write_mode(EXPORT_MODE_DONTCACHE, 3 * UNIT, UNIT, 3, VFS_UNSTABLE), 0);
	rig_settle();
	fault_disarm_all();
	rig_commit(0, 0, NULL);
	fiber_sleep_ns(2000000000);
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
	cr_assert_eq(rig_lost, 0);
	rig_expect_disk(0, 3 * UNIT, 2);
	rig_expect_disk(3 * UNIT, UNIT, 3);
	rig_expect_disk(4 * UNIT, LARGE - 4 * UNIT, 2);
}

Test(mutant_cache, without_space_what_is_under_way_is_still_owed) { rig_run(&slow, part_anew_while_it_fails); }

/* ---- large folios ---- */

/* The third piece of a file of values 1...8, read ahead and there to stay. */
static void keep_third_piece(void)
{
	((struct export_view *)rig_call.view)->options.keep_edges = true;
	for (unsigned i = 0; i < 8; i++)
		cr_assert_eq(write_mode(EXPORT_MODE_DIRECT, (uint64_t)i * LARGE, LARGE, (uint8_t)(1 + i), VFS_FILE_SYNC), 0);
	for (unsigned i = 0; i < 3; i++)
		rig_expect_read(i * LARGE, LARGE, (uint8_t)(1 + i));
	fiber_sleep_ns(20000000);
	cr_assert_eq(rig_in_hand(2 * LARGE, 3 * LARGE), LARGE);
}

/* large-failed-blocks-stay-uptodate: of a folio that stays, blocks whose WRITE failed are not believed. */
static void failed_blocks(void)
{
	struct rig_job job[2] = {
		{ .offset = 2 * LARGE + UNIT, .len = UNIT, .value = 44, .stable = VFS_FILE_SYNC }, { .offset = 2 * LARGE + 3 * UNIT, .len = UNIT, .value = 55, .stable = VFS_FILE_SYNC },
	};

	keep_third_piece();
	((struct export_view *)rig_call.view)->options.write_mode = EXPORT_MODE_DONTCACHE;
	fault_arm(FAULT_IO_WRITEV, EIO, 0, 1);
	rig_jobs(job, 2);
	fault_disarm_all();
	cr_assert_eq(job[0].error, -EIO);
	cr_assert_eq(job[1].error, 0);
	cr_assert_eq(rig_in_hand(2 * LARGE, 3 * LARGE), LARGE - UNIT);
	cr_assert_eq(rig_in_hand(2 * LARGE + UNIT, 2 * LARGE + 2 * UNIT), 0); /* the disk may have them or not */
	rig_expect_read(2 * LARGE + 2 * UNIT, UNIT, 3);
	rig_expect_read(2 * LARGE + 3 * UNIT, UNIT, 55);
}

Test(mutant_cache, blocks_that_failed_are_not_believed) { rig_run(&plain, failed_blocks); }

/* ---- what is written, and what is only known ---- */

/* filled-is-complete: bytes that came from the disk do not complete an edge: it stays for its partner. */
static void filled_edge(void)
{
	cr_assert_eq(rig_write(0, 4 * UNIT, 1, VFS_FILE_SYNC), 0);
	for (unsigned i = 0; i < 2; i++) {
		cr_assert_eq(rig_write(UNIT + 100 + 200 * i, 100, 2, VFS_FILE_SYNC), 0);
		cr_assert_eq(rig_in_hand(UNIT, 2 * UNIT), UNIT);
	}
}

Test(mutant_cache, a_filled_edge_waits_for_its_partner) { rig_run(&plain, filled_edge); }

/* unit-of-large-counts-read-as-written: nor do bytes that were read ahead. */
static void read_edge(void)
{
	keep_third_piece();
	((struct export_view *)rig_call.view)->options.keep_edges = false;
	cr_assert_eq(write_mode(EXPORT_MODE_DIRECT, 2 * LARGE + 100, 100, 9, VFS_FILE_SYNC), 0);
	cr_assert_eq(rig_in_hand(2 * LARGE, 2 * LARGE + UNIT), UNIT);
}

Test(mutant_cache, an_edge_that_was_read_ahead_waits_for_its_partner) { rig_run(&plain, read_edge); }

/* edge-dirty-pieces-forgotten: a tail that is known, with more pieces written anew than a set of ranges holds. */
static void tail_in_pieces(void)
{
	cr_assert_eq(rig_write(0, 4000, 1, VFS_FILE_SYNC), 0);
	for (unsigned i = 0; i < 9; i++)
		cr_assert_eq(rig_write(400 * i, 10, 2, VFS_UNSTABLE), 0);
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
	for (unsigned i = 0; i < 9; i++) {
		rig_expect_disk(400 * i, 10, 2);
		rig_expect_disk(400 * i + 10, 390, 1);
	}
}

Test(mutant_cache, a_tail_in_many_pieces) { rig_run(&plain, tail_in_pieces); }

/* ---- accounts ---- */

/* unmarked-dirty-still-counted: what is uncached and dirty is counted exactly, also when a unit gets its mark while dirty. */
static void uncached_dirty(void)
{
	cr_assert_eq(rig_write(0, UNIT + 100, 1, VFS_UNSTABLE), 0);
	cr_assert_eq(rig_write(UNIT + 100, UNIT, 1, VFS_UNSTABLE), 0);
	cr_assert_eq(counter_value("cache.uncached_dirty_bytes"), 2 * UNIT); /* the third unit is half written */
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
	cr_assert_eq(counter_value("cache.uncached_dirty_bytes"), 0);
}

Test(mutant_cache, uncached_dirty_bytes_are_exact) { rig_run(&plain, uncached_dirty); }

/* kept-bound-leaks: a bound that was reached again and again still has room for as much as it says. */
static void bound_is_used(void)
{
	for (unsigned i = 0; i < 40; i++)
		cr_assert_eq(rig_write(i * 2ull * UNIT + 10, 100, 1, VFS_FILE_SYNC), 0);
	cr_assert_eq(rig_mapping->kept_bytes, 4 * UNIT);
}

Test(mutant_cache, the_bound_of_what_is_kept_is_used) { rig_run(&(struct rig_config){ .cache = { .kept_bytes_max = 4 * UNIT } }, bound_is_used); }

/* middle-joints-off-pages: a middle is adopted only where its memory lies on pages, also if the disk would take less. */
static void off_pages(void)
{
	cr_assert_eq(rig_write_skewed(100, 3 * UNIT, 7, VFS_FILE_SYNC, 512), 0);
	cr_assert_eq(counter_value("cache.middles.adopted"), 0);
	cr_assert_eq(counter_value("cache.middles.copied"), 1);
	rig_expect_disk(100, 3 * UNIT, 7);
}

Test(mutant_cache, a_middle_off_pages_is_copied) { rig_run(&plain, off_pages); }
