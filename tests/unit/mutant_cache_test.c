/*
 * tests/unit/mutant_cache_test.c - behaviours of the cache that no other test looked at closely enough: each was written for a bug of tests/mutants/LIST, named in
 * its comment.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "iocache/mapping_impl.h"
#include "runtime/io.h"
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

/* What has been staged is under way to the disk; false: it is there already. */
static bool is_under_way(void)
{
	while (rig_mapping->dirty_bytes && !rig_mapping->runs_in_flight)
		fiber_sleep_ns(100);
	return rig_mapping->runs_in_flight;
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
	/* large-split-keeps-what-is-not-known: nor is a part of it kept that has such blocks. */
	cr_assert_eq(write_mode(EXPORT_MODE_DIRECT, 2 * LARGE + 8 * UNIT + 100, 100, 66, VFS_FILE_SYNC), 0);
	cr_assert_eq(rig_in_hand(2 * LARGE, 2 * LARGE + 8 * UNIT), 0);
	cr_assert_eq(rig_in_hand(2 * LARGE + 9 * UNIT, 3 * LARGE), 7 * UNIT);
}

Test(mutant_cache, blocks_that_failed_are_not_believed) { rig_run(&plain, failed_blocks); }

/* large-split-forgets-what-is-under-way: a folio that is split while it is on its way to the disk is still in hand, all of it. */
static void split_under_way(void)
{
	cr_assert_eq(rig_write(0, LARGE, 1, VFS_FILE_SYNC), 0);
	do { /* a run may take no time */
		cr_assert_eq(write_mode(EXPORT_MODE_DONTCACHE, 0, LARGE, 2, VFS_UNSTABLE), 0);
	} while (!is_under_way());
	cr_assert_eq(write_mode(EXPORT_MODE_DIRECT, 3 * UNIT + 100, 100, 3, VFS_UNSTABLE), 0);
	cr_assert_gt(rig_mapping->runs_in_flight, 0);
	cr_assert_eq(rig_in_hand(0, LARGE), LARGE);
	rig_expect_read(0, 3 * UNIT + 100, 2);
	rig_expect_read(3 * UNIT + 100, 100, 3);
	rig_expect_read(3 * UNIT + 200, LARGE - 3 * UNIT - 200, 2);
}

Test(mutant_cache, a_folio_split_under_way_stays_in_hand) { rig_run(&slow, split_under_way); }

/* large-cut-keeps-dirty-past-the-end: blocks of the last unit that a truncate has cut away are not dirty any more, and hold nothing up. */
static void cut_small_blocks(void)
{
	cr_assert_eq(write_mode(EXPORT_MODE_DONTCACHE, 0, LARGE, 1, VFS_UNSTABLE), 0);
	cr_assert_eq(mapping_truncate(rig_mapping, 3 * UNIT + 1000), 0);
	cr_assert_eq(rig_mapping->dirty_bytes, 0);
	rig_expect_disk(0, 3 * UNIT + 1000, 1);
}

Test(mutant_cache, blocks_past_a_cut_are_not_dirty) { rig_run(&(struct rig_config){ .block = 512 }, cut_small_blocks); }

/*
 * unit-of-large-forgets-what-is-under-way: an edge takes its unit out of a folio while that unit is under way, and both fail for lack of space: what was acknowledged
 * is still owed.
 */
static void edge_over_block_under_way(void)
{
	keep_third_piece();
	fault_arm(FAULT_IO_SHORT_WRITE, EIO, 0, 1);
	fault_arm(FAULT_IO_WRITEV, ENOSPC, 1, 1000);
	cr_assert_eq(write_mode(EXPORT_MODE_DONTCACHE, 2 * LARGE + UNIT, 2 * UNIT, 44, VFS_UNSTABLE), 0);
	cr_assert(is_under_way());
	cr_assert_eq(write_mode(EXPORT_MODE_DIRECT, 2 * LARGE + 2 * UNIT + 100, 100, 55, VFS_FILE_SYNC), -ENOSPC);
	fault_disarm_all();
	rig_commit(0, 0, NULL);
	fiber_sleep_ns(2000000000);
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
	cr_assert_eq(rig_lost, 0);
	rig_expect_disk(2 * LARGE + UNIT, UNIT + 100, 44);
	rig_expect_disk(2 * LARGE + 2 * UNIT + 200, UNIT - 200, 44);
}

Test(mutant_cache, without_space_a_unit_under_way_is_still_owed) { rig_run(&slow, edge_over_block_under_way); }

static uint8_t pattern(uint32_t i) { return (uint8_t)(1 + (i * 7 + i / 256) % 255); }

/* middle-in-place-from-the-start: each byte of a WRITE whose middle goes into a folio in place, and whose first edge does not, is where it belongs. */
static void in_place_behind_an_edge(void)
{
	enum { FROM = 2 * LARGE + 100, LEN = 3 * UNIT - 100 };
	struct buf *b = buf_alloc(4 * UNIT);
	struct vfs_payload p = { .buf = b, .data = b->data + FROM % UNIT, .len = LEN };
	struct vfs_write_result result;
	static uint8_t got[LEN];

	keep_third_piece();
	((struct export_view *)rig_call.view)->options.write_mode = EXPORT_MODE_DONTCACHE;
	for (uint32_t i = 0; i < LEN; i++)
		p.data[i] = pattern(i);
	cr_assert_eq(vfs_write(&rig_call, rig_file, FROM, &p, VFS_FILE_SYNC, &result), 0);
	buf_put(b);
	cr_assert_eq(counter_value("cache.large.overwrites"), 1);
	cr_assert_eq(sim_peek(1, got, LEN, FROM), LEN);
	for (uint32_t i = 0; i < LEN; i++)
		cr_assert_eq(got[i], pattern(i));
}

Test(mutant_cache, a_middle_in_place_behind_an_edge) { rig_run(&plain, in_place_behind_an_edge); }

/* readahead-failed-is-zeros: what could not be read ahead is not in hand, and a READ asks the disk. */
static void readahead_fails(void)
{
	for (unsigned i = 0; i < 8; i++)
		cr_assert_eq(write_mode(EXPORT_MODE_DIRECT, (uint64_t)i * LARGE, LARGE, (uint8_t)(1 + i), VFS_FILE_SYNC), 0);
	rig_expect_read(0, LARGE, 1);
	fiber_sleep_ns(20000000);
	cr_assert_eq(rig_in_hand(LARGE, 2 * LARGE), LARGE);
	fault_arm(FAULT_IO_READV, EIO, 0, 1);
	rig_expect_read(LARGE, LARGE, 2);
	fiber_sleep_ns(20000000);
	fault_disarm_all();
	cr_assert_eq(rig_in_hand(3 * LARGE, 8 * LARGE), 0);
	for (unsigned i = 2; i < 8; i++)
		rig_expect_read(i * LARGE, LARGE, (uint8_t)(1 + i));
}

Test(mutant_cache, what_could_not_be_read_ahead_is_not_there) { rig_run(&plain, readahead_fails); }

/* Pieces 1 and 2 are being read ahead, for a READ of piece 0. */
static void begin_readahead(void)
{
	for (unsigned i = 0; i < 4; i++)
		cr_assert_eq(write_mode(EXPORT_MODE_DIRECT, (uint64_t)i * LARGE, LARGE, (uint8_t)(1 + i), VFS_FILE_SYNC), 0);
	mapping_readahead(rig_mapping, 5, 0, LARGE);
	while (!RB_MAX(folio_tree, &rig_mapping->folios))
		fiber_sleep_ns(100);
}

/* prune-what-is-being-read: a READ that has its bytes leaves alone what has been claimed for another meanwhile. */
static void prune_claimed(void)
{
	begin_readahead();
	cr_assert(readahead_is_filling_locked(rig_mapping, LARGE, 2 * LARGE));
	mapping_prune(rig_mapping, LARGE, 2 * LARGE, false);
	fiber_sleep_ns(50000000);
	cr_assert_eq(rig_in_hand(LARGE, 3 * LARGE), 2 * LARGE);
}

Test(mutant_cache, what_is_being_read_ahead_is_not_pruned) { rig_run(&slow, prune_claimed); }

/* prune-what-is-not-read-yet: a folio goes when it has been read to its end, not before. */
static void prune_half(void)
{
	begin_readahead();
	fiber_sleep_ns(50000000);
	cr_assert_eq(rig_in_hand(LARGE, 2 * LARGE), LARGE);
	rig_expect_read(LARGE, LARGE / 2, 2);
	cr_assert_eq(rig_in_hand(LARGE, 2 * LARGE), LARGE);
	rig_expect_read(LARGE + LARGE / 2, LARGE / 2, 2);
	cr_assert_eq(rig_in_hand(LARGE, 2 * LARGE), 0);
}

Test(mutant_cache, what_is_read_in_part_is_not_pruned) { rig_run(&plain, prune_half); }

/* ---- rounds ---- */

/*
 * punch-forgets-the-oldest, middle-owes-nothing-to-older-ones: what replaces a stable WRITE's bytes before they have gone goes with the round that owes them, and is on the
 * disk when that WRITE is answered.
 */
static void replaced_before_it_goes(void)
{
	struct rig_job job[2] = { { .offset = 0, .len = UNIT, .value = 2, .stable = VFS_FILE_SYNC }, { .offset = 4 * UNIT, .len = UNIT, .value = 3, .stable = VFS_FILE_SYNC } };

	cr_assert_eq(rig_write(0, 16 * UNIT, 1, VFS_FILE_SYNC), 0);
	rig_start(job, 2);
	while (!rig_mapping->dirty_bytes)
		fiber_sleep_ns(100);
	cr_assert(is_under_way());
	cr_assert_eq(rig_mapping->round_target, rig_mapping->stage_seq); /* both are of this round, and one run goes at a time */
	cr_assert_eq(rig_write(4 * UNIT, UNIT, 4, VFS_UNSTABLE), 0);
	cr_assert(!job[0].done && !job[1].done);
	while (!job[1].done)
		fiber_sleep_ns(100);
	rig_expect_disk(4 * UNIT, UNIT, 4);
	rig_wait(job, 2);
	cr_assert(!job[0].error && !job[1].error);
}

Test(mutant_cache, what_replaces_owed_bytes_is_owed)
{
	rig_run(&(struct rig_config){ .latency_ns_max = 10000000, .cache = { .runs_in_flight_max = 1 } }, replaced_before_it_goes);
}

/* walk-goes-on-past-an-error: an unforced walk ends at its first error; what lies past it is the next round's. */
static void next_round_goes_on(void)
{
	struct rig_job job[3];
	int64_t rounds, runs;

	cr_assert_eq(rig_write(0, 16 * UNIT, 1, VFS_FILE_SYNC), 0);
	rig_settle();
	for (unsigned i = 0; i < 3; i++)
		job[i] = (struct rig_job){ .offset = 4 * i * UNIT, .len = UNIT, .value = (uint8_t)(2 + i), .stable = VFS_UNSTABLE };
	rounds = counter_value("cache.rounds");
	runs = counter_value("write.runs");
	fault_arm(FAULT_IO_WRITEV, EIO, 0, 1);
	rig_start(job, 3);
	while (!rig_mapping->dirty_bytes)
		fiber_sleep_ns(100);
	cr_assert(is_under_way());
	cr_assert_eq(rig_mapping->round_target, rig_mapping->stage_seq);
	while (counter_value("write.runs") < runs + 2)
		fiber_sleep_ns(100);
	cr_assert_eq(counter_value("cache.rounds"), rounds + 2);
	fault_disarm_all();
	rig_wait(job, 3);
	rig_settle();
	cr_assert_eq(rig_mapping->dirty_bytes, 0);
	cr_assert_eq(rig_commit(0, 0, NULL), -EIO);
}

Test(mutant_cache, an_unforced_walk_ends_at_an_error)
{
	rig_run(&(struct rig_config){ .latency_ns_max = 10000000, .cache = { .runs_in_flight_max = 1 } }, next_round_goes_on);
}

/* walk-for-integrity-from-the-cursor: a round that somebody waits for does not begin where an error ended the one before. */
static void below_the_cursor(void)
{
	struct rig_job job = { .offset = 0, .len = UNIT, .value = 3, .stable = VFS_FILE_SYNC };

	cr_assert_eq(rig_write(0, 16 * UNIT, 1, VFS_FILE_SYNC), 0);
	do { /* a run may take no time */
		rig_commit(0, 0, NULL);
		fault_arm(FAULT_IO_WRITEV, EIO, 0, 1);
		cr_assert_eq(rig_write(8 * UNIT, UNIT, 2, VFS_UNSTABLE), 0);
	} while (!is_under_way());
	rig_start(&job, 1);
	while (!job.done)
		fiber_sleep_ns(100);
	fault_disarm_all();
	cr_assert_eq(job.error, 0);
	rig_expect_disk(0, UNIT, 3);
	cr_assert_eq(rig_commit(0, 0, NULL), -EIO);
}

Test(mutant_cache, a_forced_walk_begins_at_the_files_begin) { rig_run(&slow, below_the_cursor); }

/* walk-leaves-stretches: all dirty stretches of a folio go in the round that takes the first, though nobody waits. */
static void stretches_unforced(void)
{
	struct rig_job job[2] = {
		{ .offset = 2 * LARGE + UNIT, .len = UNIT, .value = 44, .stable = VFS_UNSTABLE }, { .offset = 2 * LARGE + 3 * UNIT, .len = UNIT, .value = 55, .stable = VFS_UNSTABLE },
	};

	keep_third_piece();
	((struct export_view *)rig_call.view)->options.write_mode = EXPORT_MODE_DONTCACHE;
	rig_jobs(job, 2);
	fiber_sleep_ns(50000000); /* less than the wait for a partner, after which a round is forced */
	cr_assert_eq(rig_mapping->dirty_bytes, 0);
	rig_expect_disk(2 * LARGE + UNIT, UNIT, 44);
	rig_expect_disk(2 * LARGE + 3 * UNIT, UNIT, 55);
}

Test(mutant_cache, stretches_go_in_one_round_though_nobody_waits) { rig_run(&plain, stretches_unforced); }

/*
 * held-back-for-ever: holes before a WRITE are filled one by one, a round for each: after four rounds it is held back no more. Units 0 and 1 come first, then one
 * after the other those that are missing; the others wait past these.
 */
static void held_back_long(void)
{
	struct rig_job ahead[6], first[2];

	for (unsigned i = 0; i < 6; i++)
		ahead[i] = (struct rig_job){ .offset = (3 + 2 * i) * UNIT, .len = UNIT, .value = 2, .stable = VFS_FILE_SYNC };
	for (unsigned i = 0; i < 2; i++)
		first[i] = (struct rig_job){ .offset = i * UNIT, .len = UNIT, .value = 1, .stable = VFS_FILE_SYNC };
	rig_start(first, 2);
	rig_start(ahead, 6);
	while (!first[0].done || !first[1].done)
		fiber_sleep_ns(100);
	for (unsigned i = 0; i < 4; i++) {
		cr_assert_eq(counter_value("cache.held_back"), 1 + i);
		cr_assert_not(ahead[5].done);
		cr_assert_eq(rig_write((2 + 2 * i) * UNIT, UNIT, 3, VFS_FILE_SYNC), 0);
	}
	cr_assert_eq(counter_value("cache.held_back"), 4);
	for (unsigned i = 0; i < 10; i++)
		fiber_yield();
	cr_assert(ahead[5].done);
	rig_wait(ahead, 6);
}

Test(mutant_cache, nobody_is_held_back_for_more_than_four_rounds) { rig_run(&slow, held_back_long); }

/* given-up-in-silence: who has staged something, and waits, when what the disk has no room for is given up, hears of it: it went too. */
static void given_up(void)
{
	struct rig_job job = { .offset = 0, .len = UNIT, .value = 1, .stable = VFS_FILE_SYNC };

	cr_assert_eq(rig_write(0, UNIT, 3, VFS_FILE_SYNC), 0);
	fault_arm(FAULT_IO_WRITEV, ENOSPC, 0, 0);
	cr_assert_eq(rig_write(10 * UNIT, UNIT, 2, VFS_UNSTABLE), 0);
	fiber_sleep_ns(58000000000);
	cr_assert_eq(rig_mapping->dirty_bytes, UNIT);
	while (!rig_mapping->runs_in_flight)
		fiber_sleep_ns(10000);
	mapping_find_locked(rig_mapping, 10 * UNIT)->refused_since_ns -= 2000000000; /* a minute ago: this is the last try */
	fault_disarm_all();
	cr_assert_eq(rig_write(0, UNIT, 4, VFS_FILE_SYNC), -ENOSPC); /* of the last try: it sticks to the file, and is told once */
	rig_jobs(&job, 1);
	cr_assert_eq(job.error, -ENOSPC);
	cr_assert_eq(rig_lost, 1);
	cr_assert_eq(rig_mapping->dirty_bytes, 0);
	cr_assert_eq(sim_size(1), UNIT);
	rig_expect_disk(0, UNIT, 3);
}

Test(mutant_cache, who_waits_hears_that_all_was_given_up) { rig_run(&slow, given_up); }

/* full-disk-never-tried-again: what there was no room for goes when there is some, also if nothing new comes. */
static void room_again(void)
{
	fault_arm(FAULT_IO_WRITEV, ENOSPC, 0, 0);
	cr_assert_eq(rig_write(0, UNIT, 1, VFS_UNSTABLE), 0);
	fiber_sleep_ns(3000000000);
	cr_assert_eq(rig_mapping->dirty_bytes, UNIT);
	fault_disarm_all();
	fiber_sleep_ns(2000000000);
	cr_assert_eq(rig_mapping->dirty_bytes, 0);
	rig_expect_disk(0, UNIT, 1);
}

Test(mutant_cache, a_full_disk_is_tried_again) { rig_run(&plain, room_again); }

/* run-past-what-is-held-back: what lies past a hole is not written with what lies before it, also where it touches that. */
static void past_a_hole(void)
{
	struct rig_job job[2] = {
		{ .offset = 0, .len = UNIT + 100, .value = 1, .stable = VFS_FILE_SYNC }, { .offset = UNIT + 200, .len = 2 * UNIT - 200, .value = 2, .stable = VFS_FILE_SYNC },
	};

	rig_start(job, 2);
	while (!job[0].done)
		fiber_sleep_ns(100);
	cr_assert_not(job[1].done);
	cr_assert_eq(sim_size(1), 2 * UNIT);
	rig_wait(job, 2);
	cr_assert(!job[0].error && !job[1].error);
	cr_assert_eq(sim_size(1), 3 * UNIT);
}

Test(mutant_cache, a_run_ends_where_the_file_on_disk_has_a_hole) { rig_run(&slow, past_a_hole); }

/* failed-from-the-next-unit: a tail whose second piece fails is told to those who had their answer, at the next COMMIT. */
static void second_piece_fails(void)
{
	cr_assert_eq(rig_write(0, 10, 1, VFS_UNSTABLE), 0);
	cr_assert_eq(rig_write(400, 10, 2, VFS_UNSTABLE), 0);
	fault_arm(FAULT_IO_WRITEV, EIO, 1, 1);
	rig_settle();
	fault_disarm_all();
	cr_assert_eq(rig_mapping->dirty_bytes, 0);
	cr_assert_eq(rig_lost, 1);
	cr_assert_eq(rig_commit(0, 0, NULL), -EIO);
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
}

Test(mutant_cache, a_tail_that_fails_half_way_is_told) { rig_run(&plain, second_piece_fails); }

/* tail-past-the-end: a tail in more pieces than a set holds, filled up with zeros past the end of file, ends where the file does. */
static void filled_tail(void)
{
	for (unsigned i = 0; i < 9; i++)
		cr_assert_eq(rig_write(400 * i, 10, 2, VFS_UNSTABLE), 0);
	cr_assert_eq(mapping_size(rig_mapping), 3210);
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
	cr_assert_eq(sim_size(1), 3210);
	cr_assert_eq(mapping_size(rig_mapping), 3210);
}

Test(mutant_cache, a_filled_tail_ends_with_the_file) { rig_run(&plain, filled_tail); }

/* others-size-of-a-filled-tail: nor do the zeros make the file longer when somebody else has changed it ... */
static void filled_tail_and_others(void)
{
	uint8_t byte = 9;

	cr_assert_eq(rig_write(0, 10, 1, VFS_FILE_SYNC), 0);
	for (unsigned i = 1; i < 9; i++)
		cr_assert_eq(rig_write(400 * i, 10, 2, VFS_UNSTABLE), 0);
	fiber_sleep_ns(50000000); /* no round is under way, and none is forced yet */
	sim_poke(1, &byte, 1, 0);
	mapping_refresh(rig_mapping);
	cr_assert_eq(counter_value("cache.foreign_changes"), 1);
	cr_assert_eq(mapping_size(rig_mapping), 3210);
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
	cr_assert_eq(sim_size(1), 3210);
}

Test(mutant_cache, a_filled_tail_ends_with_the_file_after_a_foreign_change) { rig_run(&plain, filled_tail_and_others); }

/* refused-growth-shows-zeros: ... or when it cannot be made longer. */
static void filled_tail_and_refusal(void)
{
	fault_arm(FAULT_IO_WRITEV, ENOSPC, 0, 1000);
	fault_arm(FAULT_IO_FTRUNCATE, EIO, 0, 1);
	for (unsigned i = 0; i < 9; i++)
		cr_assert_eq(rig_write(400 * i, 10, 2, VFS_UNSTABLE), 0);
	cr_assert_eq(mapping_truncate(rig_mapping, 10000), -EIO);
	cr_assert_eq(mapping_size(rig_mapping), 3210);
	fault_disarm_all();
}

Test(mutant_cache, a_filled_tail_ends_with_the_file_after_a_refused_truncate) { rig_run(&plain, filled_tail_and_refusal); }

/* A WRITE is there to its last byte, in the tail, though an earlier one found no space: its own run makes the file longer, and the tail follows that without a gap. */
static void tail_behind_its_run(void)
{
	struct rig_job job[2] = {
		{ .offset = 0, .len = 4 * UNIT, .value = 1, .stable = VFS_FILE_SYNC }, { .offset = 4 * UNIT, .len = 4 * UNIT + 100, .value = 2, .stable = VFS_FILE_SYNC },
	};

	fault_arm(FAULT_IO_WRITEV, ENOSPC, 0, 1);
	rig_jobs(job, 2);
	fault_disarm_all();
	cr_assert_eq(job[0].error, -ENOSPC);
	cr_assert_eq(job[1].error, 0);
	cr_assert_eq(sim_size(1), 8 * UNIT + 100);
	rig_expect_disk(4 * UNIT, 4 * UNIT + 100, 2);
}

Test(mutant_cache, a_tail_follows_its_run_past_what_found_no_space)
{
	rig_run(&(struct rig_config){ .cache = { .run_bytes_max = 4 * UNIT } }, tail_behind_its_run);
}

/* last-tail-forgotten-after-a-failed-run: a tail inside the file goes also where the run that was to go with it has failed. */
static void tail_behind_failure(void)
{
	struct rig_job job[2] = { { .offset = 0, .len = UNIT, .value = 2, .stable = VFS_FILE_SYNC }, { .offset = UNIT, .len = 100, .value = 3, .stable = VFS_FILE_SYNC } };

	cr_assert_eq(rig_write(0, UNIT + 100, 1, VFS_FILE_SYNC), 0);
	fault_arm(FAULT_IO_WRITEV, EIO, 0, 1);
	rig_jobs(job, 2);
	fault_disarm_all();
	cr_assert_eq(job[0].error, -EIO);
	cr_assert_eq(job[1].error, 0);
	cr_assert_eq(rig_mapping->dirty_bytes, 0);
	rig_expect_disk(UNIT, 100, 3);
}

Test(mutant_cache, a_tail_goes_though_the_run_before_it_failed) { rig_run(&plain, tail_behind_failure); }

/* last-though-more-can-go: a round of several runs has one sync. */
static void one_sync(void)
{
	struct rig_job job[3];
	uint64_t before;

	cr_assert_eq(rig_write(0, 16 * UNIT, 1, VFS_FILE_SYNC), 0);
	before = sim_stats().fsyncs;
	for (unsigned i = 0; i < 3; i++)
		job[i] = (struct rig_job){ .offset = 4 * i * UNIT, .len = UNIT, .value = 2, .stable = VFS_FILE_SYNC };
	rig_jobs(job, 3);
	cr_assert_eq(sim_stats().fsyncs, before + 1);
}

Test(mutant_cache, several_runs_share_a_sync) { rig_run(&plain, one_sync); }

/* last-sync-not-tried-but-believed: a stable WRITE that fails, and so is not synced, leaves owed what was owed before. */
static void sync_still_owed(void)
{
	uint64_t before;

	cr_assert_eq(rig_commit(0, 0, NULL), 0);
	cr_assert_eq(rig_write(0, UNIT, 1, VFS_UNSTABLE), 0);
	rig_settle();
	before = sim_stats().fsyncs;
	fault_arm(FAULT_IO_WRITEV, EIO, 0, 1);
	cr_assert_eq(rig_write(UNIT, UNIT, 2, VFS_FILE_SYNC), -EIO);
	fault_disarm_all();
	rig_commit(0, 0, NULL);
	cr_assert_eq(sim_stats().fsyncs, before + 1);
	cr_assert_not(mapping_owes_sync(rig_mapping));
}

Test(mutant_cache, what_was_owed_before_a_failed_write_is_synced) { rig_run(&plain, sync_still_owed); }

/* fill-of-the-tail: the tail is written by its bytes, and needs no others. */
static void tail_alone(void)
{
	uint64_t reads;

	cr_assert_eq(rig_write(0, 5000, 1, VFS_FILE_SYNC), 0);
	mapping_flush(rig_mapping);
	reads = sim_stats().reads;
	cr_assert_eq(rig_write(UNIT + 100, 100, 2, VFS_FILE_SYNC), 0);
	cr_assert_eq(sim_stats().reads, reads);
	rig_expect_disk(UNIT, 100, 1);
	rig_expect_disk(UNIT + 100, 100, 2);
}

Test(mutant_cache, a_tail_is_not_filled) { rig_run(&plain, tail_alone); }

/*
 * file-sync-without-times, last-sync-without-times: after a COMMIT, or a FILE_SYNC WRITE, the times that it answered with survive a power cut. The cut may keep what was
 * not synced: so, several.
 */
enum { TIME_CUTS = 8 };

static struct timespec synced_ctime;
static unsigned cuts;

static struct timespec shown_ctime(void)
{
	struct mapping_attr attr;

	leaf_lock(&rig_mapping->lock);
	mapping_attr_locked(rig_mapping, &attr);
	leaf_unlock(&rig_mapping->lock);
	return attr.ctime;
}

static void cut_after_sync(void)
{
	const uint8_t bytes[TIME_CUTS] = { 1 };

	synced_ctime = shown_ctime();
	sim_poke(0, bytes, cuts, 0); /* another file, of which the cut keeps something or not: it decides differently each time */
	sim_power_cut();
}

static void times_written(void)
{
	fiber_sleep_ns(100000000);
	cr_assert_eq(rig_write(0, UNIT, 1, VFS_FILE_SYNC), 0);
	cut_after_sync();
}

static void times_committed(void)
{
	fiber_sleep_ns(100000000);
	cr_assert_eq(rig_write(0, UNIT, 1, VFS_UNSTABLE), 0);
	rig_settle();
	cr_assert_eq(rig_mapping->dirty_bytes, 0);
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
	cut_after_sync();
}

static void times_found(void)
{
	struct timespec found = shown_ctime();

	cr_assert(found.tv_sec == synced_ctime.tv_sec && found.tv_nsec == synced_ctime.tv_nsec);
}

static void cut_often(void (*test)(void))
{
	for (cuts = 0; cuts < TIME_CUTS; cuts++) {
		rig_run_cut(&plain, test, times_found);
		sim_fini();
	}
}

Test(mutant_cache, a_file_sync_covers_the_times) { cut_often(times_written); }
Test(mutant_cache, a_commit_covers_the_times) { cut_often(times_committed); }

/* ---- READs ---- */

static bool read_done;

static void reader_main(void *arg)
{
	rig_expect_read(0, 4 * UNIT, 1);
	read_done = true;
}

/* read-ahead-of-the-last-unit: a WRITE waits until a READ of its units has all of its bytes. */
static void write_beside_read(void)
{
	struct rig_job job = { .offset = UNIT, .len = UNIT, .value = 2, .stable = VFS_UNSTABLE };

	cr_assert_eq(rig_write(0, 4 * UNIT, 1, VFS_FILE_SYNC), 0);
	do { /* it may take no time */
		read_done = false;
		cr_assert_eq(fiber_spawn(reader_main, NULL, "reader"), 0);
		while (!rig_mapping->readers && !read_done)
			fiber_sleep_ns(100);
	} while (read_done);
	rig_start(&job, 1);
	while (!job.done)
		fiber_sleep_ns(100);
	cr_assert(read_done);
}

Test(mutant_cache, a_write_waits_for_a_read_of_its_units) { rig_run(&slow, write_beside_read); }

/* direct-read-past-the-end: past the end of the file on disk there is nothing to ask the disk for. */
static void read_past_the_disk(void)
{
	uint64_t begun;

	cr_assert_eq(rig_write(0, UNIT, 1, VFS_FILE_SYNC), 0);
	cr_assert_eq(rig_write(8 * UNIT, UNIT, 2, VFS_UNSTABLE), 0);
	begun = clock_mono_ns();
	for (unsigned i = 2; i < 8; i++)
		rig_expect_read(i * UNIT, UNIT, 0);
	cr_assert_eq(clock_mono_ns(), begun); /* a read of the disk takes time, but for a few */
	cr_assert_eq(sim_size(1), UNIT);
}

Test(mutant_cache, a_read_past_the_file_on_disk_reads_nothing) { rig_run(&slow, read_past_the_disk); }

/* ---- changes of others ---- */

static struct statx look_at_disk(void)
{
	struct statx stx;

	cr_assert_eq(io_fstatx(rig_mapping->config.buffered_fd, STATX_BASIC_STATS, &stx), 0);
	return stx;
}

/* our-change-taken-for-others: a look from before a WRITE of ours is no news after it. */
static void old_look(void)
{
	struct mapping_attr attr;
	uint64_t look = mapping_look(rig_mapping);
	struct statx stx = look_at_disk();

	fiber_sleep_ns(100000000);
	cr_assert_eq(rig_write(0, UNIT + 100, 1, VFS_FILE_SYNC), 0);
	mapping_attr(rig_mapping, look, &stx, &attr);
	cr_assert_eq(counter_value("cache.foreign_changes"), 0);
	cr_assert_eq(attr.size, UNIT + 100);
}

Test(mutant_cache, an_old_look_is_no_news) { rig_run(&plain, old_look); }

/* our-change-under-way-taken-for-others: nor is one from while ours is under way. */
static void look_meanwhile(void)
{
	struct iovec iov = { .iov_base = (char[]){ "ours" }, .iov_len = 4 };
	struct mapping_attr attr;
	int error = 0;

	fiber_sleep_ns(100000000);
	mapping_disk_begin(rig_mapping);
	cr_assert_eq(io_pwritev_all(rig_mapping->config.buffered_fd, &iov, 1, 0, 0, &error), 4);
	uint64_t look = mapping_look(rig_mapping);
	struct statx stx = look_at_disk();
	mapping_attr(rig_mapping, look, &stx, &attr);
	cr_assert_eq(counter_value("cache.foreign_changes"), 0);
	mapping_disk_end(rig_mapping);
	look = mapping_look(rig_mapping);
	stx = look_at_disk();
	mapping_attr(rig_mapping, look, &stx, &attr);
	cr_assert_eq(counter_value("cache.foreign_changes"), 0);
}

Test(mutant_cache, a_look_while_we_write_is_no_news) { rig_run(&plain, look_meanwhile); }

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

/* dirty-bound-of-all-ignored: a file has room for no more than there is for all. */
static void bound_of_all(void)
{
	for (unsigned i = 0; i < 64; i++) {
		cr_assert_eq(rig_write((uint64_t)i * UNIT, UNIT, 1, VFS_UNSTABLE), 0);
		cr_assert_leq(rig_mapping->dirty_bytes, 16 * UNIT);
	}
	cr_assert_gt(counter_value("cache.dirty_waits"), 0);
}

Test(mutant_cache, the_bound_of_all_files_is_a_bound_for_one)
{
	rig_run(&(struct rig_config){ .latency_ns_max = 10000000, .cache = { .dirty_bytes_max = 16 * UNIT, .file_dirty_bytes_max = 1 << 30 } }, bound_of_all);
}

/* kept-without-bound: where there is room for nothing, nothing is kept. */
static void no_room(void)
{
	cr_assert_eq(rig_write(100, 100, 1, VFS_FILE_SYNC), 0);
	cr_assert_eq(rig_in_hand(0, UNIT), 0);
	cr_assert_eq(rig_mapping->kept_bytes, 0);
}

Test(mutant_cache, nothing_is_kept_where_there_is_no_room) { rig_run(&(struct rig_config){ .cache = { .kept_bytes_max = UNIT - 1 } }, no_room); }

/* middle-joints-off-pages: a middle is adopted only where its memory lies on pages, also if the disk would take less. */
static void off_pages(void)
{
	cr_assert_eq(rig_write_skewed(100, 3 * UNIT, 7, VFS_FILE_SYNC, 512), 0);
	cr_assert_eq(counter_value("cache.middles.adopted"), 0);
	cr_assert_eq(counter_value("cache.middles.copied"), 1);
	rig_expect_disk(100, 3 * UNIT, 7);
}

Test(mutant_cache, a_middle_off_pages_is_copied) { rig_run(&plain, off_pages); }

/* cut-does-not-wait-for-those-before: what a truncate would take from somebody who waits for it is written first. So it is there if the truncate then fails. */
static void cut_after_those_before(void)
{
	struct rig_job job = { .offset = 0, .len = 4 * UNIT, .value = 1, .stable = VFS_FILE_SYNC };

	fault_arm(FAULT_IO_FTRUNCATE, EIO, 0, 1);
	rig_start(&job, 1);
	while (!rig_mapping->waiting)
		fiber_yield();
	cr_assert_eq(mapping_truncate(rig_mapping, 0), -EIO);
	rig_wait(&job, 1);
	cr_assert_eq(job.error, 0);
	rig_expect_disk(0, 4 * UNIT, 1);
}

Test(mutant_cache, a_truncate_lets_those_before_it_have_their_data) { rig_run(&slow, cut_after_those_before); }

/* dirty-ends-with-its-folio: somebody else makes the file shorter than the unit that has dirty bytes in it: it is as long as he made it, or as those bytes reach. */
static void shrunk_by_others(void)
{
	int fd = sim_open(1, 0);

	cr_assert_eq(rig_write(0, 3000, 1, VFS_FILE_SYNC), 0);
	cr_assert_eq(rig_write(0, 50, 2, VFS_UNSTABLE), 0);
	fiber_sleep_ns(50000000); /* no round is under way, and none is forced yet */
	cr_assert_gt(rig_mapping->dirty_bytes, 0);
	cr_assert_eq(io_ftruncate(fd, 100), 0);
	mapping_refresh(rig_mapping);
	cr_assert_eq(mapping_size(rig_mapping), 100);
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
	cr_assert_eq(sim_size(1), 100);
	rig_expect_disk(0, 50, 2);
	rig_expect_disk(50, 50, 1);
}

Test(mutant_cache, a_file_that_others_cut_is_no_longer_than_its_dirty_bytes) { rig_run(&plain, shrunk_by_others); }

/* fill-failed-does-not-stick: what was acknowledged and cannot be filled is lost, and the next COMMIT says so, once. */
static void fill_lost(void)
{
	cr_assert_eq(rig_write(0, 16 * UNIT, 9, VFS_FILE_SYNC), 0);
	fault_arm(FAULT_IO_READV, EIO, 0, 1);
	cr_assert_eq(rig_write(4 * UNIT + 100, 50, 1, VFS_UNSTABLE), 0);
	rig_settle();
	cr_assert_eq(rig_mapping->dirty_bytes, 0);
	cr_assert_eq(rig_lost, 1);
	cr_assert_eq(rig_commit(0, 0, NULL), -EIO);
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
}

Test(mutant_cache, what_could_not_be_filled_is_told) { rig_run(&plain, fill_lost); }
