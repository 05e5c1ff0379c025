/*
 * tests/unit/write_path_writeback_test.c - the way to the disk (WRITE_PATH, section 5): what a run takes, who waits for what, classes of errors, truncate, bounds.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "iocache/mapping_impl.h"
#include "tests/unit/write_path_harness.h"
#include "vfs/export.h"

static const struct rig_config plain = { 0 }, slow = { .latency_ns_max = 2000000 }, one_at_a_time = { .cache = { .runs_in_flight_max = 1 } };

static int64_t runs_since, bytes_since;

static void mark_runs(void)
{
	runs_since = counter_value("write.runs");
	bytes_since = counter_value("write.run_bytes");
}

static int64_t runs(void) { return counter_value("write.runs") - runs_since; }
static int64_t run_bytes(void) { return counter_value("write.run_bytes") - bytes_since; }

/* WRITEs of one unit each, staged without a pause: nothing leaves between them. */
static void write_units(unsigned first, unsigned n)
{
	for (unsigned i = first; i < first + n; i++)
		cr_assert_eq(rig_write((uint64_t)i * rig_unit, rig_unit, (uint8_t)(1 + i % 200), VFS_UNSTABLE), 0);
}

static void expect_units(unsigned first, unsigned n)
{
	for (unsigned i = first; i < first + n; i++)
		rig_expect_disk((uint64_t)i * rig_unit, rig_unit, (uint8_t)(1 + i % 200));
}

/* ---- what a run takes ---- */

static void make_file(unsigned units)
{
	for (unsigned i = 0; i < units; i += 64)
		cr_assert_eq(rig_write((uint64_t)i * rig_unit, (units - i < 64 ? units - i : 64) * rig_unit, 9, VFS_FILE_SYNC), 0);
	mark_runs();
}

static void bytes_per_run(void)
{
	make_file(32);
	write_units(0, 16);
	rig_settle();
	cr_assert_eq(runs(), 4);
	cr_assert_eq(run_bytes(), 16 * rig_unit);                                    /* each unit once */
	expect_units(0, 16);
	cr_assert_eq(rig_write(100, 10 * rig_unit, 3, VFS_FILE_SYNC), 0);            /* a middle larger than a run goes all the same */
	rig_expect_disk(100, 10 * rig_unit, 3);
}

Test(write_path_writeback, a_run_has_a_limit_of_bytes) { rig_run(&(struct rig_config){ .cache = { .run_bytes_max = 4 * 4096 } }, bytes_per_run); } /* 5.1 */

/* More pieces than one vectored write can have. */
static void pieces_per_run(void)
{
	write_units(0, 1500);
	rig_settle();
	cr_assert_eq(runs(), 2);
	cr_assert_eq(run_bytes(), 1500 * rig_unit);
	expect_units(0, 1500);
}

Test(write_path_writeback, a_run_has_a_limit_of_pieces) { rig_run(&plain, pieces_per_run); } /* 5.1 */

/* A hole, a unit that is clean, one that is half-written, and the end of file end a run. */
static void where_runs_end(void)
{
	make_file(32);
	write_units(0, 3);
	write_units(4, 2);
	cr_assert_eq(rig_write(6 * rig_unit, 100, 1, VFS_UNSTABLE), 0);
	write_units(7, 2);
	rig_settle();
	cr_assert_eq(runs(), 3 + 1);                                                 /* the half-written one after its wait */
	cr_assert_eq(run_bytes(), 8 * rig_unit);
	expect_units(0, 3);
	rig_expect_disk(3 * rig_unit, rig_unit, 9);
	expect_units(4, 2);
	rig_expect_disk(6 * rig_unit, 100, 1);
	rig_expect_disk(6 * rig_unit + 100, rig_unit - 100, 9);
	mark_runs();
	write_units(30, 2);
	cr_assert_eq(rig_write(32 * rig_unit, 100, 1, VFS_UNSTABLE), 0);
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
	cr_assert_eq(run_bytes(), 2 * rig_unit);
	cr_assert_eq(sim_size(1), 32 * (uint64_t)rig_unit + 100);
}

Test(write_path_writeback, a_run_ends_at_what_cannot_go) { rig_run(&plain, where_runs_end); } /* 5.1 */

/* A unit that is on its way is not taken again by another run, but the new bytes in its place are. */
static void under_way(void)
{
	make_file(8);
	write_units(0, 8);
	while (!rig_mapping->runs_in_flight)
		fiber_yield();
	cr_assert_eq(rig_write(3 * rig_unit, rig_unit, 77, VFS_UNSTABLE), 0);
	rig_settle();
	cr_assert_eq(runs(), 2);
	cr_assert_eq(run_bytes(), 9 * rig_unit);
	rig_expect_disk(3 * rig_unit, rig_unit, 77);
	cr_assert_eq(rig_in_hand(0, 8 * rig_unit), 0);
}

Test(write_path_writeback, what_is_under_way_is_not_taken_again) { rig_run(&(struct rig_config){ .latency_ns_max = 10000000 }, under_way); } /* 5.1, 1b.6 */

/* ---- who waits for what ---- */

static int commit_error, truncate_error;
static bool commit_done, truncate_done;

static void committer(void *arg)
{
	commit_error = rig_commit(0, 0, NULL);
	commit_done = true;
}

static void truncater(void *arg)
{
	truncate_error = vfs_truncate(rig_file, 0);
	truncate_done = true;
}

static void wait_both(void)
{
	while (!commit_done || !truncate_done)
		fiber_sleep_ns(10000);
	cr_assert_eq(commit_error, 0);
	cr_assert_eq(truncate_error, 0);
	cr_assert_eq(sim_size(1), 0);
	cr_assert_eq(rig_mapping->dirty_bytes, 0);
	cr_assert_eq(rig_lost, 0);
}

/* What COMMIT was to write has gone by the time that the flusher comes to it, or goes while it writes: that is no error, and COMMIT ends. */
static void gone(void)
{
	write_units(0, 32);
	cr_assert_eq(fiber_spawn(truncater, NULL, "truncate"), 0);
	cr_assert_eq(fiber_spawn(committer, NULL, "commit"), 0);
	wait_both();
}

static void gone_under_way(void)
{
	make_file(64);
	write_units(0, 64);
	cr_assert_eq(fiber_spawn(committer, NULL, "commit"), 0);
	while (!rig_mapping->runs_in_flight)
		fiber_yield();
	cr_assert_eq(fiber_spawn(truncater, NULL, "truncate"), 0);
	wait_both();
}

static void discarded(void)
{
	write_units(0, 32);
	cr_assert_eq(fiber_spawn(committer, NULL, "commit"), 0);
	mapping_discard(rig_mapping);
	truncate_done = true;
	while (!commit_done)
		fiber_sleep_ns(10000);
	cr_assert_eq(commit_error, 0);
	cr_assert_eq(rig_mapping->dirty_bytes, 0);
}

Test(write_path_writeback, what_has_gone_before_its_turn_is_no_error) { rig_run(&plain, gone); }                                     /* 5.3 */
Test(write_path_writeback, what_goes_while_it_is_written_is_no_error) { rig_run(&(struct rig_config){ .cache = { .run_bytes_max = 4 * 4096 } }, gone_under_way); } /* 5.3, 5.9 */
Test(write_path_writeback, what_is_discarded_is_no_error) { rig_run(&plain, discarded); }                                            /* 5.3 */

static unsigned fast_writes;
static bool fast_stop;

static void fast_writer(void *arg)
{
	unsigned n = (unsigned)(uintptr_t)arg;

	for (unsigned i = 0; !fast_stop; i++, fast_writes++) {
		cr_assert_eq(rig_write((uint64_t)(i * 8 + n) % 4096 * rig_unit + 10, rig_unit, 5, VFS_UNSTABLE), 0);
		fiber_sleep_ns(2000);
	}
}

/* Writers that never pause do not keep a COMMIT: it waits for what was there when it began. */
static void fast_writers(void)
{
	for (uintptr_t i = 0; i < 4; i++)
		cr_assert_eq(fiber_spawn(fast_writer, (void *)i, "writer"), 0);
	fiber_sleep_ns(1000000);
	for (unsigned i = 0; i < 10; i++) {
		uint64_t begun = clock_mono_ns();

		cr_assert_eq(rig_commit(0, 0, NULL), 0);
		cr_assert_lt(clock_mono_ns() - begun, 30000000, "COMMIT %u took %llu us", i, (unsigned long long)(clock_mono_ns() - begun) / 1000);
	}
	fast_stop = true;
	cr_assert_gt(fast_writes, 100);
	fiber_sleep_ns(1000000);
}

Test(write_path_writeback, a_fast_writer_does_not_keep_a_commit) { rig_run(&plain, fast_writers); } /* 5.4 */

/* ---- partly known units ---- */

/* A local process has written into the block with the end of file in it; the server adds its bytes and leaves theirs. */
static void shared_tail(void)
{
	uint8_t theirs[50];

	memset(theirs, 7, sizeof(theirs));
	cr_assert_eq(rig_write(0, 100, 1, VFS_FILE_SYNC), 0);
	fiber_sleep_ns(10000000);
	cr_assert_eq(rig_write(200, 100, 2, VFS_UNSTABLE), 0);
	sim_poke(1, theirs, sizeof(theirs), 20);
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
	rig_expect_disk(0, 20, 1);
	rig_expect_disk(20, 50, 7);
	rig_expect_disk(70, 30, 1);
	rig_expect_disk(100, 100, 0);
	rig_expect_disk(200, 100, 2);
	cr_assert_eq(sim_size(1), 300);
}

Test(write_path_writeback, a_tail_is_written_by_its_dirty_bytes_only) { rig_run(&plain, shared_tail); } /* 5.7, 1.14 */

/* Gaps are zeros past the end of the file on disk, and the device's bytes before it, in one unit. */
static void two_kinds_of_gaps(void)
{
	cr_assert_eq(rig_write(0, 1000, 1, VFS_FILE_SYNC), 0);
	cr_assert_eq(rig_write(500, 100, 2, VFS_UNSTABLE), 0);
	cr_assert_eq(rig_write(2000, rig_unit, 3, VFS_UNSTABLE), 0);
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
	rig_expect_disk(0, 500, 1);
	rig_expect_disk(500, 100, 2);
	rig_expect_disk(600, 400, 1);
	rig_expect_disk(1000, 1000, 0);
	rig_expect_disk(2000, rig_unit, 3);
	cr_assert_eq(sim_size(1), 2000 + rig_unit);
}

Test(write_path_writeback, gaps_are_zeros_only_past_the_old_end) { rig_run(&plain, two_kinds_of_gaps); } /* 5.7 */

/* ---- errors ---- */

static int error_now;

static void keeps(void)
{
	uint64_t verf = vfs_verifier();

	fault_arm(FAULT_IO_WRITEV, error_now, 0, 1);
	cr_assert_eq(rig_write(0, 2 * rig_unit, 1, VFS_UNSTABLE), 0);
	cr_assert_eq(rig_commit(0, 0, NULL), -error_now, "error %d", error_now);
	rig_expect_read(0, 2 * rig_unit, 1);
	cr_assert_eq(rig_commit(0, 0, NULL), 0, "error %d", error_now);
	rig_expect_disk(0, 2 * rig_unit, 1);
	cr_assert_eq(vfs_verifier(), verf, "error %d", error_now);
	fault_arm(FAULT_IO_WRITEV, error_now, 0, 1);
	cr_assert_eq(rig_write(0, 2 * rig_unit, 2, VFS_FILE_SYNC), -error_now, "error %d", error_now);
	cr_assert_eq(rig_in_hand(0, 2 * rig_unit), 0, "error %d", error_now);        /* nobody was told that it is there */
	cr_assert_eq(rig_commit(0, 0, NULL), 0, "error %d", error_now);
}

static void drops(void)
{
	uint64_t verf = vfs_verifier();

	fault_arm(FAULT_IO_WRITEV, error_now, 0, 1);
	cr_assert_eq(rig_write(0, 2 * rig_unit, 1, VFS_UNSTABLE), 0);
	cr_assert_eq(rig_commit(0, 0, NULL), -error_now, "error %d", error_now);
	cr_assert_eq(rig_in_hand(0, 2 * rig_unit), 0, "error %d", error_now);
	cr_assert_neq(vfs_verifier(), verf, "error %d", error_now);
	cr_assert_eq(rig_commit(0, 0, NULL), 0, "error %d", error_now);
	cr_assert_eq(counter_value("write.runs_failed"), 1);                         /* and it was not tried again */
}

/* One run for each error, in a process of its own. */
static void for_each(const int *error, unsigned n, void (*test)(void))
{
	for (unsigned i = 0; i < n; i++) {
		pid_t pid = fork();
		int status;

		error_now = error[i];
		if (!pid) {
			rig_run(&plain, test);
			_exit(0);
		}
		cr_assert(waitpid(pid, &status, 0) == pid && status == 0, "error %d: status 0x%x", error_now, (unsigned)status);
	}
}

Test(write_path_writeback, errors_that_keep_the_data) /* 5.8 */
{
	static const int error[] = { EAGAIN, EINTR, ENOMEM, EACCES, EPERM, ENOKEY, EKEYEXPIRED, EKEYREVOKED, EKEYREJECTED, ENETRESET, ENOSPC, EDQUOT, EBADMSG, ETIMEDOUT };

	for_each(error, ARRAY_SIZE(error), keeps);
}

Test(write_path_writeback, errors_that_lose_the_data) /* 5.8 */
{
	static const int error[] = { EIO, EROFS, EFBIG, ENOENT, ENXIO, ENOMEDIUM, EREMOTEIO };

	for_each(error, ARRAY_SIZE(error), drops);
}

/*
 * The disk is full: what needs space is refused, what overwrites is not. That others of its file can be written all the time does not make it wait for longer than a
 * minute, with every other WRITE hearing of it.
 */
static void refused_beside_others(void)
{
	const uint64_t begun = clock_mono_ns();
	uint64_t verf = vfs_verifier(), now;

	make_file(16);
	cr_assert_eq(rig_write(20 * rig_unit, rig_unit, 2, VFS_UNSTABLE), 0);
	while (clock_mono_ns() - begun < 70000000000) {
		for (unsigned i = 0; rig_write(0, rig_unit, 3, VFS_UNSTABLE); i++)    /* hears of the other one: when that is refused first, and that it was given up */
			cr_assert_lt(i, 2);
		fiber_sleep_ns(500000000);
	}
	cr_assert_eq(rig_in_hand(20 * rig_unit, 21 * rig_unit), 0);
	cr_assert_eq(mapping_size(rig_mapping), 16 * rig_unit);
	rig_commit(0, 0, &now);
	cr_assert_neq(now, verf);
	cr_assert_eq(rig_write(0, rig_unit, 4, VFS_FILE_SYNC), 0);
	rig_settle();
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
	cr_assert_eq(rig_lost, 1);
}

/* It has been written at the second try: no later minute counts from its refusal, though something of the file has been dirty all the time. */
static void refused_once(void)
{
	const uint64_t begun = clock_mono_ns();

	make_file(512);
	for (unsigned i = 0; clock_mono_ns() - begun < 70000000000; i++) {
		if (i == 100)
			fault_arm(FAULT_IO_WRITEV, EDQUOT, 0, 1);
		rig_write(i % 256 * 2 * rig_unit, rig_unit, 1, VFS_UNSTABLE);            /* one of them hears of it */
		fiber_sleep_ns(500000);
		cr_assert(i < 100 || rig_mapping->dirty_bytes > 0);
	}
	cr_assert_eq(counter_value("write.runs_failed"), 1);
	cr_assert_eq(rig_lost, 0);
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
}

Test(write_path_writeback, what_was_refused_and_has_gone_is_not_given_up) { rig_run(&(struct rig_config){ .latency_ns_max = 40000000 }, refused_once); } /* 5.8 */
Test(write_path_writeback, what_is_refused_is_given_up_though_others_go) { rig_run(&(struct rig_config){ .disk_bytes = 16 * 4096 }, refused_beside_others); } /* 5.8 */

/* A unit that was refused for more than a minute has been written at last, in a round in which something else of the file stays dirty: that is not given up for it. */
static void written_at_last(void)
{
	uint64_t since;

	make_file(512);
	fault_arm(FAULT_IO_WRITEV, ENOSPC, 0, 0);
	cr_assert_eq(rig_write(0, rig_unit, 1, VFS_UNSTABLE), 0);
	while (!rig_mapping->retry_ns)
		fiber_sleep_ns(100000);
	since = mapping_find_locked(rig_mapping, 0)->refused_since_ns;
	while (rig_mapping->retry_ns < since + 60100000000 || rig_mapping->flusher_running)
		fiber_sleep_ns(1000000);
	fault_disarm_all();
	fiber_sleep_ns(since + 60010000000 - clock_mono_ns());
	cr_assert_eq(rig_write(100 * rig_unit, 100, 7, VFS_UNSTABLE), -ENOSPC);       /* what sticks */
	cr_assert_eq(rig_write(100 * rig_unit, 100, 7, VFS_UNSTABLE), 0);
	rig_settle();
	rig_expect_disk(0, rig_unit, 1);
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
	rig_expect_disk(100 * rig_unit, 100, 7);
	cr_assert_eq(rig_lost, 0);
	cr_assert_eq(rig_mapping->retry_ns, 0);
}

Test(write_path_writeback, what_was_never_refused_is_not_given_up) { rig_run(&plain, written_at_last); } /* 5.8 */

/* A WRITE that begins inside the file's last unit, and finds no space, leaves the file as it was: not as long as the gap before it. */
static void refused_tail(void)
{
	fault_arm(FAULT_IO_WRITEV, ENOSPC, 0, 1);
	cr_assert_eq(rig_write(100, 100, 1, VFS_FILE_SYNC), -ENOSPC);
	cr_assert(mapping_size(rig_mapping) == 0 && rig_mapping->disk_size == 0 && sim_size(1) == 0);
	fiber_sleep_ns(1100000000);
	cr_assert_eq(rig_write(0, 300, 2, VFS_UNSTABLE), 0);
	cr_assert_eq(rig_write(1000, 300, 2, VFS_UNSTABLE), 0);
	fault_arm(FAULT_IO_WRITEV, EIO, 1, 1);
	cr_assert_eq(rig_commit(0, 0, NULL), -EIO);
	cr_assert(mapping_size(rig_mapping) == 300 && sim_size(1) == 300);
}

Test(write_path_writeback, a_refused_tail_leaves_no_size) { rig_run(&plain, refused_tail); } /* 5.8, 1.14 */

/* What a run written early found no space for is written by the round itself: then nothing keeps the tail behind it back. */
static void early_then_tail(void)
{
	struct rig_job two[2] = { { .len = rig_unit, .value = 1, .stable = VFS_FILE_SYNC }, { .offset = rig_unit, .len = rig_unit, .value = 1, .stable = VFS_FILE_SYNC } };
	struct rig_job next[2] = {
		{ .offset = 2 * rig_unit, .len = rig_unit, .value = 2, .stable = VFS_UNSTABLE }, { .offset = 3 * rig_unit, .len = 100, .value = 3, .stable = VFS_FILE_SYNC },
	};

	rig_start(two, 2);
	while (!two[0].done || !two[1].done)
		fiber_yield();
	fault_arm(FAULT_IO_WRITEV, ENOSPC, 0, 1);
	rig_jobs(next, 2);
	cr_assert_eq(counter_value("cache.early_runs"), 1);
	cr_assert_eq(counter_value("write.runs_failed"), 1);
	cr_assert(!next[0].error && !next[1].error);
	rig_expect_disk(3 * rig_unit, 100, 3);
}

Test(write_path_writeback, a_tail_follows_what_went_at_the_second_try) /* 1b.8, 5.8 */
{
	rig_run(&(struct rig_config){ .latency_ns_max = 2000000, .cache = { .early_bytes = 4096 } }, early_then_tail);
}

/* Overwrites need no space: beside a unit that finds none they wait for room, as always, and are not refused. */
static void overwrites_beside(void)
{
	struct rig_job job[32];

	make_file(64);
	cr_assert_eq(rig_write(200 * rig_unit, rig_unit, 2, VFS_UNSTABLE), 0);
	while (!rig_mapping->retry_ns)
		fiber_sleep_ns(100000);
	cr_assert_eq(rig_write(0, rig_unit, 3, VFS_UNSTABLE), -ENOSPC);               /* what sticks */
	for (unsigned i = 0; i < 32; i++)
		job[i] = (struct rig_job){ .offset = i * rig_unit, .len = rig_unit, .value = 3, .stable = VFS_FILE_SYNC };
	rig_jobs(job, 32);
	for (unsigned i = 0; i < 32; i++)
		cr_assert_eq(job[i].error, 0);
	cr_assert_geq(counter_value("cache.dirty_waits"), 1);
	sim_set_faults(&(struct sim_config){ .disk_bytes = 1 << 30 });
	fiber_sleep_ns(3000000000);
	cr_assert_eq(rig_mapping->dirty_bytes, 0);
}

Test(write_path_writeback, overwrites_beside_what_is_refused_wait_for_room) /* 5.8, 5.10 */
{
	rig_run(&(struct rig_config){ .disk_bytes = 64 * 4096, .cache = { .file_dirty_bytes_max = 8 * 4096 } }, overwrites_beside);
}

/* Where something found no space a moment ago an UNSTABLE WRITE is answered when it is written: who finds none hears of it, and nothing is kept. A second later it is not. */
static void short_of_space(void)
{
	uint64_t syncs;

	fault_arm(FAULT_IO_WRITEV, ENOSPC, 0, 3);
	cr_assert_eq(rig_write(0, rig_unit, 1, VFS_FILE_SYNC), -ENOSPC);
	syncs = sim_stats().fsyncs;
	cr_assert_eq(rig_write(0, rig_unit, 1, VFS_UNSTABLE), -ENOSPC);
	cr_assert_eq(rig_write(100, 100, 1, VFS_UNSTABLE), -ENOSPC);
	cr_assert(rig_mapping->dirty_bytes == 0 && mapping_size(rig_mapping) == 0);
	cr_assert_eq(rig_write(0, rig_unit, 2, VFS_UNSTABLE), 0);
	cr_assert_eq(rig_mapping->dirty_bytes, 0);
	rig_expect_disk(0, rig_unit, 2);
	cr_assert_eq(sim_stats().fsyncs, syncs);
	fault_arm(FAULT_IO_FSYNC, EIO, 0, 1);
	cr_assert_eq(rig_write(4 * rig_unit, rig_unit, 2, VFS_FILE_SYNC), -EIO);
	cr_assert_eq(rig_commit(0, rig_unit, NULL), -EIO);                            /* it was acknowledged, and that sync was its */
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
	fiber_sleep_ns(1100000000);
	cr_assert_eq(rig_write(0, rig_unit, 3, VFS_UNSTABLE), 0);
	cr_assert_eq(rig_mapping->dirty_bytes, rig_unit);
}

Test(write_path_writeback, unstable_waits_while_space_is_short) { rig_run(&plain, short_of_space); } /* 5.8, 1b.5 */

/* What was acknowledged on a full disk takes a quarter of what may be dirty and no more: beyond, it is given up at once, or it would keep the WRITEs to other disks waiting. */
static void refused_bound(void)
{
	fault_arm(FAULT_IO_WRITEV, EDQUOT, 0, 0);
	cr_assert_eq(rig_write(0, 15 * rig_unit, 1, VFS_UNSTABLE), 0);
	fiber_sleep_ns(100000000);
	cr_assert_eq(rig_mapping->dirty_bytes, 15 * rig_unit);
	cr_assert_eq(counter_value("cache.refused_bytes"), 15 * rig_unit);
	cr_assert_eq(rig_write(20 * rig_unit, 2 * rig_unit, 1, VFS_UNSTABLE), -EDQUOT); /* what sticks */
	cr_assert_eq(rig_write(20 * rig_unit, 2 * rig_unit, 1, VFS_UNSTABLE), 0);
	fiber_sleep_ns(100000000);
	cr_assert_eq(rig_mapping->dirty_bytes, 0);
	cr_assert_eq(counter_value("cache.refused_bytes"), 0);
	cr_assert_eq(rig_lost, 1);
	cr_assert_eq(rig_commit(0, 0, NULL), -EDQUOT);
}

Test(write_path_writeback, what_is_refused_has_its_own_bound) { rig_run(&(struct rig_config){ .cache = { .dirty_bytes_max = 64 * 4096 } }, refused_bound); } /* 5.8, 5.10 */

/* A file that has to be closed, since others need its place, keeps nothing. */
static void let_go(void)
{
	make_file(16);
	fault_arm(FAULT_IO_WRITEV, ENOSPC, 0, 0);
	cr_assert_eq(rig_write(0, rig_unit, 2, VFS_UNSTABLE), 0);
	fiber_sleep_ns(100000000);
	cr_assert_eq(rig_mapping->dirty_bytes, rig_unit);
	mapping_let_go(rig_mapping);
	cr_assert_eq(rig_mapping->dirty_bytes, 0);
	cr_assert_eq(rig_lost, 1);
}

Test(write_path_writeback, a_file_that_is_to_be_closed_keeps_nothing) { rig_run(&plain, let_go); } /* 5.8 */

/* Somebody else makes the file longer, or shorter, while a round of ours writes it: its ctime cannot tell, but its size does. */
static void other_size(void)
{
	uint8_t byte = 7;
	struct rig_job job = { .offset = 0, .len = rig_unit, .value = 2, .stable = VFS_FILE_SYNC };

	make_file(16);
	rig_start(&job, 1);
	while (!rig_mapping->runs_in_flight)
		fiber_yield();
	sim_poke(1, &byte, 1, 20 * rig_unit);
	rig_wait(&job, 1);
	fiber_sleep_ns(1000000);
	cr_assert_eq(mapping_size(rig_mapping), 20 * rig_unit + 1);
	rig_expect_read(20 * rig_unit, 1, 7);
}

Test(write_path_writeback, a_foreign_size_is_seen_at_the_end_of_a_round) { rig_run(&plain, other_size); } /* 2.8 */

/* What comes while a round is refused something goes with the next one, at once. */
static void came_meanwhile(void)
{
	make_file(16);
	fault_arm(FAULT_IO_WRITEV, ENOSPC, 0, 1);
	cr_assert_eq(rig_write(0, rig_unit, 2, VFS_UNSTABLE), 0);
	for (unsigned i = 0; !rig_mapping->runs_in_flight; i++) {
		cr_assert_lt(i, 1000);
		fiber_yield();
	}
	cr_assert_eq(rig_write(10 * rig_unit, rig_unit, 3, VFS_UNSTABLE), 0);
	fiber_sleep_ns(100000000);
	cr_assert_eq(counter_value("write.runs_failed"), 1);
	rig_expect_disk(10 * rig_unit, rig_unit, 3);
	fiber_sleep_ns(1100000000);
	rig_expect_disk(0, rig_unit, 2);
}

Test(write_path_writeback, what_comes_while_others_are_refused_does_not_wait) { rig_run(&plain, came_meanwhile); } /* 5.8 */

/* The same while a stable WRITE's round is under way, with something that found no space before. */
static void came_beside(void)
{
	struct rig_job job = { .offset = 4 * rig_unit, .len = rig_unit, .value = 2, .stable = VFS_FILE_SYNC };

	make_file(16);
	sim_set_faults(&(struct sim_config){ .disk_bytes = 16 * 4096, .quota = true });
	cr_assert_eq(rig_write(20 * rig_unit, rig_unit, 1, VFS_UNSTABLE), 0);
	while (!rig_mapping->retry_ns)
		fiber_sleep_ns(100000);
	cr_assert_eq(rig_write(8 * rig_unit, rig_unit, 3, VFS_UNSTABLE), -EDQUOT);    /* what sticks */
	rig_start(&job, 1);
	while (!rig_mapping->runs_in_flight)
		fiber_yield();
	cr_assert_eq(rig_write(8 * rig_unit, rig_unit, 3, VFS_UNSTABLE), 0);
	fiber_sleep_ns(100000000);
	cr_assert_eq(job.error, 0);
	rig_expect_disk(8 * rig_unit, rig_unit, 3);
	cr_assert_eq(rig_mapping->dirty_bytes, rig_unit);
	sim_set_faults(&(struct sim_config){ .disk_bytes = 1 << 20 });
	fiber_sleep_ns(1200000000);
}

Test(write_path_writeback, what_comes_beside_a_stable_write_does_not_wait_for_the_refused) { rig_run(&plain, came_beside); } /* 5.8 */

/* A half-written unit that found no space, and went at the second try, stays for its partner: as one that has space. */
static void refused_and_kept(void)
{
	make_file(16);
	fault_arm(FAULT_IO_WRITEV, EDQUOT, 0, 1);
	cr_assert_eq(rig_write(100, 50, 1, VFS_UNSTABLE), 0);
	while (!rig_mapping->retry_ns)
		fiber_sleep_ns(1000000);
	fiber_sleep_ns(1200000000);
	cr_assert(rig_mapping->dirty_bytes == 0 && rig_in_hand(0, rig_unit) == rig_unit);
	cr_assert_eq(rig_mapping->retry_ns, 0);
	cr_assert_eq(counter_value("cache.refused_bytes"), 0);
}

Test(write_path_writeback, what_was_refused_and_is_kept_is_refused_no_more) { rig_run(&plain, refused_and_kept); } /* 5.8, 2.8 */

/* With no room left for more, on a full disk, all who wait for room are told at once: not one after the other, by a try of the disk for each. */
static void told_at_once(void)
{
	struct rig_job job[16];
	uint64_t begun;

	make_file(1);
	fault_arm(FAULT_IO_WRITEV, ENOSPC, 0, 0);
	cr_assert_eq(rig_write(10 * rig_unit, 4 * rig_unit, 2, VFS_UNSTABLE), 0);
	while (!rig_mapping->retry_ns)
		fiber_sleep_ns(100000);
	begun = clock_mono_ns();
	for (unsigned i = 0; i < 16; i++)
		job[i] = (struct rig_job){ .offset = (20 + i) * rig_unit, .len = rig_unit, .value = 1, .stable = VFS_UNSTABLE };
	rig_jobs(job, 16);
	for (unsigned i = 0; i < 16; i++)
		cr_assert_eq(job[i].error, -ENOSPC);
	cr_assert_lt(clock_mono_ns() - begun, 1000000);
	fault_disarm_all();
	fiber_sleep_ns(2000000000);
	cr_assert_eq(rig_mapping->dirty_bytes, 0);
}

Test(write_path_writeback, a_full_disk_is_told_to_all_who_wait_for_room) /* 5.8, 5.10 */
{
	rig_run(&(struct rig_config){ .cache = { .file_dirty_bytes_max = 4 * 4096 } }, told_at_once);
}

/* A sync that failed is not made up for by the next one: who waited is told, the verifier changes, and nothing pretends to be written again. */
static void failed_sync(void)
{
	uint64_t verf = vfs_verifier(), again;

	cr_assert_eq(rig_write(0, 2 * rig_unit, 1, VFS_UNSTABLE), 0);
	fault_arm(FAULT_IO_FSYNC, EIO, 0, 1);
	cr_assert_eq(rig_commit(0, 0, NULL), -EIO);
	mark_runs();
	cr_assert_eq(rig_commit(0, 0, &again), 0);
	cr_assert_neq(again, verf);
	cr_assert_eq(runs(), 0);
	cr_assert_eq(rig_write(0, 2 * rig_unit, 1, VFS_FILE_SYNC), 0);               /* the client sends it again */
	sim_power_cut();
}

static void sent_again(void) { rig_expect_disk(0, 8192, 1); }

Test(write_path_writeback, a_failed_sync_is_not_tried_again_in_silence) { rig_run_cut(&plain, failed_sync, sent_again); } /* 5.8 */

/* COMMIT writes everything that it can, and reports the error that came first. */
static void first_error(void)
{
	make_file(64);
	for (unsigned i = 0; i < 4; i++)
		write_units(10 * i, 2);
	fault_arm(FAULT_IO_WRITEV, EIO, 1, 1);
	cr_assert_eq(rig_commit(0, 0, NULL), -EIO);
	cr_assert_eq(runs(), 4);
	cr_assert_eq(counter_value("write.runs_failed"), 1);
	expect_units(0, 2);
	expect_units(20, 2);
	expect_units(30, 2);
	cr_assert_eq(rig_mapping->dirty_bytes, 0);
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
}

Test(write_path_writeback, a_commit_goes_on_after_an_error) { rig_run(&plain, first_error); } /* 5.6 */

/* ---- the walk ---- */

enum { FOLIOS = 9, STRETCHES = 3 };

/* Large folios that a reader keeps, each with several dirty stretches: of each one can go at a time, the others are busy meanwhile. */
static void many_stretches(void)
{
	((struct export_view *)rig_call.view)->options.keep_edges = true;
	for (unsigned i = 0; i < FOLIOS + 4; i++)
		cr_assert_eq(rig_write(i * LARGE_BYTES, LARGE_BYTES, 9, VFS_FILE_SYNC), 0);
	for (unsigned i = 0; i < FOLIOS; i++)
		rig_expect_read(i * LARGE_BYTES, LARGE_BYTES, 9);
	fiber_sleep_ns(10000000);
	((struct export_view *)rig_call.view)->options.write_mode = EXPORT_MODE_DONTCACHE;
	mark_runs();
	for (unsigned i = 1; i < FOLIOS; i++)                                        /* the first piece came without being read ahead */
		for (unsigned k = 0; k < STRETCHES; k++)
			cr_assert_eq(rig_write(i * LARGE_BYTES + (1 + 4 * k) * rig_unit, rig_unit, (uint8_t)(1 + k), VFS_UNSTABLE), 0);
}

static void expect_stretches(void)
{
	for (unsigned i = 1; i < FOLIOS; i++)
		for (unsigned k = 0; k < STRETCHES; k++) {
			rig_expect_disk(i * LARGE_BYTES + (1 + 4 * k) * rig_unit, rig_unit, (uint8_t)(1 + k));
			rig_expect_disk(i * LARGE_BYTES + (2 + 4 * k) * rig_unit, 3 * rig_unit, 9);
		}
}

/* Progress skips a few that are busy, then stops there, and goes on from there: nobody asks for it again, and each block leaves once. */
static void skipped(void)
{
	many_stretches();
	rig_settle();
	cr_assert_eq(rig_mapping->dirty_bytes, 0);
	cr_assert_eq(run_bytes(), (FOLIOS - 1) * STRETCHES * rig_unit);
	expect_stretches();
	cr_assert_eq(sim_stats().fsyncs, FOLIOS + 4);
	cr_assert_geq(counter_value("cache.passes_ended_busy"), 1);
	cr_assert_geq(counter_value("cache.skipped"), 5 * counter_value("cache.passes_ended_busy"));
}

Test(write_path_writeback, progress_skips_what_is_busy_and_comes_back) { rig_run(&slow, skipped); } /* 5.2, 5.5 */

/* Integrity waits for all of them. */
static void waited_for(void)
{
	many_stretches();
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
	cr_assert_eq(run_bytes(), (FOLIOS - 1) * STRETCHES * rig_unit);
	sim_power_cut();
}

Test(write_path_writeback, integrity_waits_for_what_is_busy) { rig_run_cut(&slow, waited_for, expect_stretches); } /* 5.2 */

static uint8_t on_disk(unsigned unit)
{
	uint8_t byte;

	cr_assert_eq(sim_peek(1, &byte, 1, (uint64_t)unit * rig_unit), 1);
	return byte;
}

static void until_on_disk(unsigned unit)
{
	while (on_disk(unit) == 9)
		fiber_yield();
}

/* An error ends the round of a background writeback, the next one begins past it: what follows is written, ascending, and what failed is not tried again in this lap. */
static void error_in_the_background(int error)
{
	make_file(64);
	for (unsigned i = 0; i < 5; i++)
		write_units(10 * i, 2);
	fault_arm(FAULT_IO_WRITEV, error, 1, 1);
	for (unsigned i = 0; i < 5; i++) {
		if (i == 1)
			continue;
		until_on_disk(10 * i);
		for (unsigned k = i + 1; k < 5; k++)
			cr_assert_eq(on_disk(10 * k), 9, "%u before %u", 10 * k, 10 * i);
	}
}

static void lost_in_the_background(void)
{
	error_in_the_background(EIO);
	rig_settle();
	cr_assert_eq(runs(), 5);
	cr_assert_eq(counter_value("write.runs_failed"), 1);
	cr_assert_eq(rig_commit(0, 0, NULL), -EIO);
}

Test(write_path_writeback, background_writeback_goes_on_past_an_error) { rig_run(&one_at_a_time, lost_in_the_background); } /* 5.5, 5.6 */

/* What came meanwhile and lies before the error goes with the round after the next, which begins there again; it does not wait for anybody. */
static void before_the_error(void)
{
	make_file(64);
	fault_arm(FAULT_IO_WRITEV, EIO, 0, 1);
	write_units(10, 2);
	while (!rig_mapping->runs_in_flight)
		fiber_yield();
	cr_assert_eq(rig_write(0, rig_unit, 77, VFS_UNSTABLE), 0);
	fiber_sleep_ns(50000000);
	rig_expect_disk(0, rig_unit, 77);
	cr_assert_eq(rig_commit(0, 0, NULL), -EIO);
}

Test(write_path_writeback, what_lies_before_an_error_is_not_forgotten) { rig_run(&plain, before_the_error); } /* 5.5 */

/* The same where the data is kept: that is tried again later, without anybody's asking. */
static void kept_in_the_background(void)
{
	make_file(64);
	for (unsigned i = 0; i < 3; i++)
		write_units(10 * i, 2);
	fault_arm(FAULT_IO_WRITEV, EDQUOT, 1, 1);
	until_on_disk(0);
	while (!counter_value("write.runs_failed"))
		fiber_yield();
	until_on_disk(20);
	cr_assert_eq(rig_in_hand(10 * rig_unit, 12 * rig_unit), 2 * rig_unit);
	cr_assert_eq(rig_write(40 * rig_unit, rig_unit, 41, VFS_UNSTABLE), -EDQUOT); /* who comes first hears of it */
	while (rig_in_hand(10 * rig_unit, 12 * rig_unit))
		fiber_sleep_ns(1000000);
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
	expect_units(10, 2);
	expect_units(20, 2);
}

Test(write_path_writeback, background_writeback_is_cyclic) { rig_run(&one_at_a_time, kept_in_the_background); } /* 5.5, 5.6 */

/* ---- truncate ---- */

/* A truncate meets runs on their way: it ends after them, and nothing of theirs is there past the cut, also when the file grows again. */
static void cut_under_way(void)
{
	cr_assert_eq(rig_write(0, 30 * rig_unit + 100, 1, VFS_UNSTABLE), 0);
	while (!rig_mapping->runs_in_flight)
		fiber_yield();
	cr_assert_eq(rig_write(100, 40 * rig_unit, 2, VFS_UNSTABLE), 0);
	cr_assert_eq(vfs_truncate(rig_file, 3 * rig_unit + 50), 0);
	cr_assert_eq(sim_size(1), 3 * (uint64_t)rig_unit + 50);
	rig_settle();
	cr_assert_eq(sim_size(1), 3 * (uint64_t)rig_unit + 50);
	cr_assert_eq(vfs_truncate(rig_file, 50 * rig_unit), 0);
	rig_expect_disk(100, 3 * rig_unit - 50, 2);
	rig_expect_disk(3 * rig_unit + 50, 46 * rig_unit, 0);
	rig_expect_read(3 * rig_unit + 50, 46 * rig_unit, 0);
}

Test(write_path_writeback, a_truncate_waits_for_what_is_under_way) { rig_run(&(struct rig_config){ .latency_ns_max = 10000000 }, cut_under_way); } /* 5.9 */

/* The cut lies inside a unit that is on its way: its bytes before the cut are the file's, and what the device has to have goes on. */
static void cut_a_unit_under_way(void)
{
	make_file(8);
	cr_assert_eq(rig_write(0, 3000, 1, VFS_UNSTABLE), 0);
	cr_assert_eq(rig_write(3000, 5 * rig_unit - 3000, 2, VFS_UNSTABLE), 0);
	while (!rig_mapping->runs_in_flight)
		fiber_yield();
	cr_assert_eq(vfs_truncate(rig_file, 2000), 0);
	rig_expect_disk(0, 2000, 1);
	cr_assert_eq(rig_in_hand(0, rig_unit), 0);
	cr_assert_eq(rig_mapping->dirty_bytes, 0);
	cr_assert_eq(vfs_truncate(rig_file, rig_unit), 0);
	rig_expect_read(2000, rig_unit - 2000, 0);
}

Test(write_path_writeback, a_truncate_inside_what_is_under_way) { rig_run(&(struct rig_config){ .latency_ns_max = 10000000 }, cut_a_unit_under_way); } /* 5.9 */

/* The unit that is cut has bytes past the cut in hand, dirty or kept: none of them comes back when the file grows again by truncate or by a WRITE. */
static void stale_tail(enum vfs_stable stable, bool by_write)
{
	const uint64_t cut = rig_unit + 1000, end = 3 * rig_unit;

	cr_assert_eq(rig_write(0, 2 * rig_unit, 1, stable), 0);
	cr_assert_eq(rig_write(rig_unit + 500, 2000, 2, stable), 0);
	cr_assert_eq(vfs_truncate(rig_file, cut), 0);
	if (by_write)
		cr_assert_eq(rig_write(end - 10, 10, 3, stable), 0);
	else
		cr_assert_eq(vfs_truncate(rig_file, end - 10), 0);
	rig_expect_read(rig_unit, 500, 1);
	rig_expect_read(rig_unit + 500, 500, 2);
	rig_expect_read(cut, (uint32_t)(end - 10 - cut), 0);
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
	rig_expect_disk(rig_unit + 500, 500, 2);
	rig_expect_disk(cut, end - 10 - cut, 0);
}

static void stale_tail_unstable(void) { stale_tail(VFS_UNSTABLE, false); }
static void stale_tail_kept(void) { stale_tail(VFS_FILE_SYNC, false); }
static void stale_tail_written(void) { stale_tail(VFS_UNSTABLE, true); }
static void stale_tail_kept_written(void) { stale_tail(VFS_FILE_SYNC, true); }

Test(write_path_writeback, no_stale_tail_of_dirty_bytes) { rig_run(&plain, stale_tail_unstable); }               /* 4.6, 5.9 */
Test(write_path_writeback, no_stale_tail_of_kept_bytes) { rig_run(&plain, stale_tail_kept); }                    /* 4.6, 5.9 */
Test(write_path_writeback, no_stale_tail_under_a_later_write) { rig_run(&plain, stale_tail_written); }           /* 4.6, 5.9 */
Test(write_path_writeback, no_stale_tail_of_kept_bytes_under_a_later_write) { rig_run(&plain, stale_tail_kept_written); } /* 4.6, 5.9 */
Test(write_path_writeback, no_stale_tail_in_large_blocks) { rig_run(&(struct rig_config){ .block = 65536 }, stale_tail_kept_written); } /* 4.6, 5.9 */
