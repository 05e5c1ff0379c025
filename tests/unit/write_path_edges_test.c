/*
 * tests/unit/write_path_edges_test.c - edges (WRITE_PATH, section 2): claimed, completed by bytes, filled only when they must, kept and dropped.
 */
#include <stdlib.h>
#include <string.h>

#include "iocache/mapping_impl.h"
#include "tests/unit/write_path_harness.h"

static const struct rig_config plain = { 0 };

static int64_t folios(void) { return counter_value("cache.folios"); }

/* The one unit there is of each edge, whatever the other end does. */
static unsigned owned_units(void)
{
	unsigned n = 0;
	struct folio *f;

	leaf_lock(&rig_mapping->lock);
	RB_FOREACH(f, folio_tree, &rig_mapping->folios) {
		if (f->adopted)
			continue;
		cr_assert_eq(f->len, rig_unit);
		n++;
	}
	leaf_unlock(&rig_mapping->lock);
	return n;
}

/* One end of a WRITE completes an edge, the other opens one. */
static void ends_apart(void)
{
	cr_assert_eq(rig_write(0, rig_unit + 100, 1, VFS_UNSTABLE), 0);
	cr_assert_eq(owned_units(), 1);
	cr_assert_eq(counter_value("cache.edges.claimed"), 1);
	cr_assert_eq(rig_write(rig_unit + 100, 2 * rig_unit, 2, VFS_UNSTABLE), 0);
	cr_assert_eq(owned_units(), 2);
	cr_assert_eq(counter_value("cache.edges.claimed"), 2);
	cr_assert_eq(counter_value("cache.edges.completed"), 1);
	rig_settle();
	cr_assert_leq(rig_in_hand(0, 4 * rig_unit), rig_unit);
	cr_assert_eq(owned_units(), 1);
}

Test(write_path_edges, each_end_is_judged_by_itself) { rig_run(&plain, ends_apart); } /* 2.1, 2.2 */
Test(write_path_edges, each_end_is_judged_by_itself_65536) { rig_run(&(struct rig_config){ .block = 65536 }, ends_apart); } /* 2.1, 2.2 */

/* The creator's write-back leaves the edge there, clean, for its partner and for READs; the one of who completes it takes it away. */
static void creator_and_completer(void)
{
	cr_assert_eq(rig_write(0, 4 * rig_unit, 9, VFS_FILE_SYNC), 0);
	cr_assert_eq(rig_write(rig_unit, 1000, 1, VFS_FILE_SYNC), 0);
	cr_assert_eq(rig_mapping->dirty_bytes, 0);
	cr_assert_eq(rig_mapping->kept_bytes, rig_unit);
	rig_expect_read(rig_unit + 1000, rig_unit - 1000, 9); /* in this order they are no sequence: nothing is read ahead */
	rig_expect_read(rig_unit, 1000, 1);
	cr_assert_eq(counter_value("read.in_hand"), 2);
	cr_assert_eq(rig_write(rig_unit + 1000, rig_unit - 1000, 2, VFS_UNSTABLE), 0);
	cr_assert_eq(counter_value("cache.edges.completed"), 1);
	rig_settle();
	cr_assert_eq(folios(), 0);
	cr_assert_eq(counter_value("cache.fills.read"), 1);
}

Test(write_path_edges, the_creator_leaves_it_the_completer_drops_it) { rig_run(&plain, creator_and_completer); } /* 2.2 */

/* The second edge cannot be claimed: the first one's claim goes too, and an empty unit is never taken for data. */
static void half_a_claim(void)
{
	cr_assert_eq(rig_write(0, 4 * rig_unit, 9, VFS_FILE_SYNC), 0);
	fault_arm(FAULT_FOLIO_ALLOC, ENOMEM, 1, 1);
	cr_assert_eq(rig_write(rig_unit + 100, rig_unit, 1, VFS_FILE_SYNC), 0);      /* written through */
	fault_disarm_all();
	cr_assert_eq(counter_value("cache.write_through"), 1);
	cr_assert_eq(folios(), 0);
	rig_expect_read(rig_unit, 100, 9);
	rig_expect_read(rig_unit + 100, rig_unit, 1);
	rig_expect_disk(2 * rig_unit + 100, rig_unit, 9);
}

Test(write_path_edges, a_claim_without_bytes_is_never_seen) { rig_run(&plain, half_a_claim); } /* 2.3, 2.9 */

/* ---- completion ---- */

enum { PAIRS = 24, FIRST = 32768, SECOND = 14240 };

/* Records that come as two WRITEs together, over existing data: each joint is completed by bytes, whoever came first. */
static void pairs(enum vfs_stable stable)
{
	static struct rig_job job[2 * PAIRS];

	for (unsigned i = 0; i < 2; i++)
		cr_assert_eq(rig_write(i << 20, 1 << 20, 9, VFS_FILE_SYNC), 0);
	for (unsigned i = 0; i < PAIRS; i++) {
		uint64_t at = (uint64_t)i * (FIRST + SECOND);
		unsigned k = 2 * ((i * 7) % PAIRS);

		job[k + i % 2] = (struct rig_job){ .offset = at, .len = FIRST, .value = (uint8_t)(1 + i), .stable = stable };
		job[k + 1 - i % 2] = (struct rig_job){ .offset = at + FIRST, .len = SECOND, .value = (uint8_t)(101 + i), .stable = stable };
	}
	rig_jobs(job, 2 * PAIRS);
	rig_settle();
	cr_assert_eq(counter_value("cache.fills.read"), 1);                           /* the last one's end lies inside old data */
	cr_assert_leq(rig_in_hand(0, 2 << 20), rig_unit);
	for (unsigned i = 0; i < PAIRS; i++) {
		rig_expect_disk((uint64_t)i * (FIRST + SECOND), FIRST, (uint8_t)(1 + i));
		rig_expect_disk((uint64_t)i * (FIRST + SECOND) + FIRST, SECOND, (uint8_t)(101 + i));
	}
}

static void pairs_stable(void) { pairs(VFS_FILE_SYNC); }
static void pairs_unstable(void) { pairs(VFS_UNSTABLE); }

Test(write_path_edges, pairs_that_come_together_leave_nothing_stable) { rig_run(&plain, pairs_stable); }     /* 2.4 */
Test(write_path_edges, pairs_that_come_together_leave_nothing_unstable) { rig_run(&plain, pairs_unstable); } /* 2.4 */

/* More pieces than an edge can keep account of, in no order: filled when that is so, complete and right at the end. */
static void many_pieces(void)
{
	enum { PIECE = 64 };
	const unsigned n = rig_unit / PIECE;

	cr_assert_eq(rig_write(0, 2 * rig_unit, 9, VFS_FILE_SYNC), 0);
	for (unsigned i = 0; i < n; i++) {
		unsigned k = i * 37 % n;

		cr_assert_eq(rig_write(k * PIECE, PIECE, (uint8_t)(1 + k), VFS_UNSTABLE), 0);
	}
	for (unsigned k = 0; k < n; k++)
		rig_expect_read(k * PIECE, PIECE, (uint8_t)(1 + k));
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
	for (unsigned k = 0; k < n; k++)
		rig_expect_disk(k * PIECE, PIECE, (uint8_t)(1 + k));
	rig_expect_disk(rig_unit, rig_unit, 9);
	cr_assert_leq(counter_value("cache.fills.read"), 2);
}

Test(write_path_edges, an_edge_in_many_pieces) { rig_run(&plain, many_pieces); } /* 2.4, 2.5 */

/* ---- fills ---- */

/* In a hole there is nothing to read. */
static void in_a_hole(void)
{
	cr_assert_eq(vfs_truncate(rig_file, 10 * rig_unit), 0);
	cr_assert_eq(rig_write(3 * rig_unit + 100, 200, 1, VFS_FILE_SYNC), 0);
	cr_assert_eq(sim_stats().reads, 0, "a device read for a hole");
	rig_expect_disk(3 * rig_unit, 100, 0);
	rig_expect_disk(3 * rig_unit + 100, 200, 1);
	rig_expect_disk(3 * rig_unit + 300, rig_unit - 300, 0);
	cr_assert_eq(sim_size(1), 10 * (uint64_t)rig_unit);
}

Test(write_path_edges, in_a_hole_the_fill_reads_nothing) { rig_run(&plain, in_a_hole); } /* 2.5 */

/* While the device is read for the missing bytes, others come and bring some of them: theirs stay. */
static void during_the_fill(void)
{
	struct rig_job job[2] = {
		{ .offset = 100, .len = 50, .value = 1, .stable = VFS_FILE_SYNC },
		{ .offset = 90, .len = 2000, .value = 2, .stable = VFS_UNSTABLE },
	};
	uint64_t reads;

	cr_assert_eq(rig_write(0, 2 * rig_unit, 9, VFS_FILE_SYNC), 0);
	reads = sim_stats().reads;
	rig_start(&job[0], 1);
	while (!rig_mapping->runs_in_flight)                                         /* a fill counts too */
		fiber_yield();
	cr_assert_eq(counter_value("cache.fills.read"), 0);
	rig_start(&job[1], 1);
	while (!job[1].done)
		fiber_yield();
	cr_assert_eq(counter_value("cache.fills.read"), 0, "the fill had ended already");
	rig_wait(job, 1);
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
	cr_assert_eq(sim_stats().reads, reads + 1);
	rig_expect_disk(0, 90, 9);
	rig_expect_disk(90, 2000, 2);
	rig_expect_disk(2090, 2 * rig_unit - 2090, 9);
}

Test(write_path_edges, a_fill_does_not_undo_what_came_meanwhile) { rig_run(&(struct rig_config){ .latency_ns_max = 20000000 }, during_the_fill); } /* 2.5 */

/* A READ of a half-written edge: what is missing from the device, what is there over it; the edge still waits for its partner. */
static void read_half(void)
{
	uint64_t writes;

	cr_assert_eq(rig_write(0, 4 * rig_unit, 9, VFS_FILE_SYNC), 0);
	writes = sim_stats().writes;
	cr_assert_eq(rig_write(rig_unit + 1000, 1000, 1, VFS_UNSTABLE), 0);
	rig_expect_read(rig_unit, 1000, 9);
	rig_expect_read(rig_unit + 1000, 1000, 1);
	rig_expect_read(rig_unit + 2000, 2 * rig_unit, 9);
	cr_assert_eq(sim_stats().writes, writes);
	cr_assert_eq(rig_write(rig_unit, 1000, 2, VFS_UNSTABLE), 0);
	cr_assert_eq(rig_write(rig_unit + 2000, rig_unit - 2000, 3, VFS_UNSTABLE), 0);
	rig_settle();
	cr_assert_eq(counter_value("cache.fills.read"), 0);
	cr_assert_eq(folios(), 0);
	rig_expect_disk(rig_unit, 1000, 2);
	rig_expect_disk(rig_unit + 1000, 1000, 1);
	rig_expect_disk(rig_unit + 2000, rig_unit - 2000, 3);
}

Test(write_path_edges, a_read_of_a_half_written_edge) { rig_run(&plain, read_half); } /* 2.5 */

/* A fill whose read comes in pieces is as good as one in one piece. */
static void short_reads(void)
{
	cr_assert_eq(rig_write(0, 2 * rig_unit, 9, VFS_FILE_SYNC), 0);
	fault_arm(FAULT_IO_SHORT_READ, EIO, 0, 2);
	cr_assert_eq(rig_write(rig_unit - 100, 50, 1, VFS_FILE_SYNC), 0);
	fault_disarm_all();
	rig_expect_disk(0, rig_unit - 100, 9);
	rig_expect_disk(rig_unit - 100, 50, 1);
	rig_expect_disk(rig_unit - 50, 50, 9);
}

Test(write_path_edges, a_fill_read_in_pieces) { rig_run(&(struct rig_config){ .block = 512 }, short_reads); } /* 2.5, 4.4 */

/* The read fails: so does the WRITE, nothing is written around the hole in what is known, and the unit is not taken for whole. */
static void failed_fill(void)
{
	cr_assert_eq(rig_write(0, 2 * rig_unit, 9, VFS_FILE_SYNC), 0);
	fault_arm(FAULT_IO_READV, EIO, 0, 1);
	cr_assert_eq(rig_write(100, 50, 1, VFS_FILE_SYNC), -EIO);
	fault_disarm_all();
	cr_assert_eq(folios(), 0);
	rig_expect_disk(0, 2 * rig_unit, 9);
	rig_expect_read(0, 2 * rig_unit, 9);
}

Test(write_path_edges, a_failed_fill_fails_its_write_and_leaves_nothing) { rig_run(&plain, failed_fill); } /* 2.5, 2.9, 4.4 */

/* ---- kept edges ---- */

static void kept(void)
{
	cr_assert_eq(rig_write(0, 8 * rig_unit, 9, VFS_FILE_SYNC), 0);
	for (unsigned i = 0; i < 3; i++)
		cr_assert_eq(rig_write(2 * i * rig_unit + 5, 10, 1, VFS_FILE_SYNC), 0);
	cr_assert_eq(rig_mapping->kept_bytes, 3 * rig_unit);
	cr_assert_eq(counter_value("cache.edges.kept"), 3);
	cr_assert_eq(rig_write(0, 2 * rig_unit, 2, VFS_FILE_SYNC), 0);               /* a covering write */
	cr_assert_eq(rig_mapping->kept_bytes, 2 * rig_unit);
	cr_assert_eq(vfs_truncate(rig_file, 4 * rig_unit), 0);                       /* truncate */
	cr_assert_eq(rig_in_hand(4 * rig_unit, 8 * rig_unit), 0);
	cr_assert_eq(rig_write(2 * rig_unit + 5, 10, 3, VFS_FILE_SYNC), 0);
	cr_assert_geq(rig_mapping->kept_bytes, rig_unit);
	fiber_sleep_ns(6000000000);                                                  /* time */
	cr_assert_eq(folios(), 0);
	cr_assert_geq(counter_value("cache.edges.aged"), 1);
	rig_expect_disk(0, 2 * rig_unit, 2);
	rig_expect_disk(2 * rig_unit + 5, 10, 3);
}

Test(write_path_edges, kept_edges_go_with_truncate_covering_writes_and_time) { rig_run(&plain, kept); } /* 2.8 */

/*
 * A local process writes into a unit of which clean bytes are kept, after a WRITE has made a part of it dirty again and before that is written (the
 * flusher waits for another writer): what is written is ours over theirs, not over what was there before.
 */
static void changed_behind_our_back(void)
{
	struct rig_job others[2], job = { .offset = rig_unit + 100, .len = 100, .value = 2, .stable = VFS_FILE_SYNC };
	uint8_t theirs[100];

	memset(theirs, 7, sizeof(theirs));
	cr_assert_eq(rig_write(0, 8 * rig_unit, 9, VFS_FILE_SYNC), 0);
	cr_assert_eq(rig_write(rig_unit, 100, 1, VFS_FILE_SYNC), 0);                 /* kept, filled */
	for (unsigned i = 0; i < 2; i++)
		others[i] = (struct rig_job){ .offset = (4 + i) * rig_unit, .len = rig_unit, .value = 3, .stable = VFS_FILE_SYNC };
	rig_jobs(others, 2);                                                         /* both are expected to come again */
	rig_start(&job, 1);
	while (!rig_mapping->dirty_bytes)
		fiber_yield();
	sim_poke(1, theirs, sizeof(theirs), rig_unit + 500);
	rig_wait(&job, 1);
	cr_assert_geq(counter_value("cache.foreign_changes"), 1);
	rig_expect_disk(rig_unit + 100, 100, 2);
	rig_expect_disk(rig_unit + 500, 100, 7);
}

Test(write_path_edges, kept_bytes_do_not_undo_what_others_wrote) { rig_run(&(struct rig_config){ .latency_ns_max = 50000000 }, changed_behind_our_back); } /* 2.8 */

/* ---- errors ---- */

/* A WRITE that shares an edge with bytes that were acknowledged fails; those bytes are not lost with it where the error's class keeps data. */
static void neighbour(void)
{
	cr_assert_eq(rig_write(0, 4 * rig_unit, 9, VFS_FILE_SYNC), 0);
	cr_assert_eq(rig_write(rig_unit, 1000, 1, VFS_UNSTABLE), 0);
	fault_arm(FAULT_IO_WRITEV, ENOSPC, 0, 1);
	cr_assert_eq(rig_write(rig_unit + 1000, 2 * rig_unit, 2, VFS_FILE_SYNC), -ENOSPC);
	fault_disarm_all();
	rig_expect_read(rig_unit, 1000, 1);
	cr_assert(rig_commit(0, 0, NULL) == -ENOSPC && rig_commit(0, 0, NULL) == 0);
	rig_expect_disk(rig_unit, 1000, 1);
	cr_assert_eq(rig_lost, 0);
}

Test(write_path_edges, a_failing_write_leaves_its_neighbours_bytes) { rig_run(&plain, neighbour); } /* 2.9 */

/* Where it keeps none, their writer is told. */
static void neighbour_told(void)
{
	cr_assert_eq(rig_write(0, 4 * rig_unit, 9, VFS_FILE_SYNC), 0);
	cr_assert_eq(rig_write(rig_unit, 1000, 1, VFS_UNSTABLE), 0);
	fault_arm(FAULT_IO_WRITEV, EIO, 0, 1);
	cr_assert_eq(rig_write(rig_unit + 1000, 2 * rig_unit, 2, VFS_FILE_SYNC), -EIO);
	fault_disarm_all();
	cr_assert_eq(rig_lost, 1);
	cr_assert(rig_commit(0, 0, NULL) == -EIO && rig_commit(0, 0, NULL) == 0);
}

Test(write_path_edges, a_neighbours_lost_bytes_change_the_verifier) { rig_run(&plain, neighbour_told); } /* 2.9 */

/* Memory fails in the middle of things: each WRITE is written through, none fails, nothing of its neighbours is lost. */
static void no_memory_anywhere(void)
{
	cr_assert_eq(rig_write(0, 8 * rig_unit, 9, VFS_FILE_SYNC), 0);
	for (unsigned skip = 0; skip < 6; skip++) {
		cr_assert_eq(rig_write(2 * rig_unit + 200, 100, 1, VFS_UNSTABLE), 0);
		fault_arm(FAULT_FOLIO_ALLOC, ENOMEM, skip, 1);
		cr_assert_eq(rig_write(300, 2 * rig_unit, (uint8_t)(10 + skip), skip % 2 ? VFS_UNSTABLE : VFS_FILE_SYNC), 0);
		fault_disarm_all();
		rig_expect_read(300, 2 * rig_unit - 100, (uint8_t)(10 + skip));
		cr_assert_eq(rig_commit(0, 0, NULL), 0);
		rig_expect_disk(0, 300, 9);
		rig_expect_disk(300, 2 * rig_unit, (uint8_t)(10 + skip));
	}
	cr_assert_eq(rig_lost, 0);
}

Test(write_path_edges, without_memory_writes_go_through_and_none_fails) { rig_run(&plain, no_memory_anywhere); } /* 2.9 */
