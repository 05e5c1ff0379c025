/*
 * tests/unit/write_path_large_test.c - dontcache mode, large folios with a state by block, readahead: by what reaches the simulated disk. (WRITE_PATH 1.11, 2.7,
 * 3.1-3.3, 3.5, 3.7, section 4)
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/io.h"
#include "tests/unit/write_path_harness.h"
#include "vfs/attr.h"
#include "vfs/export.h"
#include "vfs/file.h"

enum { UNIT = 4096, LARGE = 65536 };

static void use_mode(enum export_mode mode)
{
	((struct export_view *)rig_call.view)->options.write_mode = mode;
}

static int write_mode(enum export_mode mode, uint64_t offset, uint32_t len, uint8_t value, enum vfs_stable stable)
{
	use_mode(mode);
	return rig_write(offset, len, value, stable);
}

/* A file of values 1 + i per large piece, on the disk and in nobody's memory. */
static void fill_file(unsigned pieces)
{
	for (unsigned i = 0; i < pieces; i++)
		cr_assert_eq(write_mode(EXPORT_MODE_DIRECT, (uint64_t)i * LARGE, LARGE, (uint8_t)(1 + i), VFS_FILE_SYNC), 0);
	cr_assert_eq(rig_in_hand(0, (uint64_t)pieces * LARGE), 0);
}

static void read_piece(unsigned i)
{
	rig_expect_read(i * LARGE, LARGE, (uint8_t)(1 + i));
}

/* 1.11, 2.1, 3.1: copied into folios of our own, edges in units apart; on the disk, and gone. */
static void copied(void)
{
	cr_assert_eq(write_mode(EXPORT_MODE_DONTCACHE, 100, 200000, 7, VFS_FILE_SYNC), 0);
	cr_assert_eq(counter_value("cache.middles.adopted"), 0);
	cr_assert_eq(counter_value("cache.middles.owned"), 1);
	cr_assert_eq(counter_value("write.dontcache"), 1);
	cr_assert_eq(sim_stats().writes, 2); /* one run, and the tail below the end of file */
	cr_assert_eq(sim_stats().edge_reads, 0);
	rig_expect_disk(100, 200000, 7);
	cr_assert_leq(rig_in_hand(0, 200100), 2 * UNIT);
	rig_expect_read(100, 200000, 7);
}

Test(write_path_large, dontcache_copies_writes_and_drops) { rig_run(&(struct rig_config){ 0 }, copied); } /* 1.11, 3.1 */

/* 6: neighbours complete each other's edges in this mode too. */
static void interleaved(void)
{
	struct rig_job job[32];

	use_mode(EXPORT_MODE_DONTCACHE);
	for (unsigned round = 0; round < 4; round++) {
		for (unsigned i = 0; i < 32; i++)
			job[i] = (struct rig_job){ .offset = (round * 32 + i) * 47008ull, .len = 47008, .value = (uint8_t)(1 + i), .stable = round % 2 ? VFS_FILE_SYNC : VFS_UNSTABLE };
		rig_jobs(job, 32);
	}
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
	cr_assert_eq(sim_stats().reads, 0);
	for (unsigned i = 0; i < 128; i++)
		rig_expect_disk(i * 47008ull, 47008, (uint8_t)(1 + i % 32));
	cr_assert_leq(rig_in_hand(0, 128 * 47008), UNIT);
}

Test(write_path_large, dontcache_edges_are_completed_without_reads) { rig_run(&(struct rig_config){ 0 }, interleaved); }

/* 3.5, 3.2: a sequential reader finds the next bytes in memory, and they are gone when it has read them. */
static void sequential(void)
{
	fill_file(32);
	for (unsigned i = 0; i < 32; i++) {
		read_piece(i);
		fiber_sleep_ns(1000000);
		cr_assert_eq(rig_in_hand(i * LARGE, (i + 1) * LARGE), 0, "piece %u is still there", i);
	}
	cr_assert_geq(counter_value("read.in_hand"), 30);
	cr_assert_leq(sim_stats().reads, 12, "%llu reads", (unsigned long long)sim_stats().reads); /* few and large */
	cr_assert_geq(counter_value("cache.pruned"), 30);
	cr_assert_eq(rig_in_hand(0, 32 * LARGE), 0);
}

Test(write_path_large, a_sequential_reader_finds_the_next_bytes_in_memory) { rig_run(&(struct rig_config){ 0 }, sequential); } /* 3.2, 3.5 */

/* 3.5: it collapses: scattered READs bring nothing that nobody asked for. */
static void scattered(void)
{
	static const unsigned order[] = { 7, 2, 12, 4, 14, 9, 1, 11 };

	fill_file(16);
	for (unsigned i = 0; i < ARRAY_SIZE(order); i++)
		read_piece(order[i]);
	fiber_sleep_ns(10000000);
	cr_assert_eq(counter_value("cache.readahead_bytes"), 0);
	cr_assert_eq(rig_in_hand(0, 16 * LARGE), 0);
}

Test(write_path_large, scattered_reads_read_nothing_ahead) { rig_run(&(struct rig_config){ 0 }, scattered); } /* 3.5 */

/* 3.5, 3.8: never beyond the bound for clean bytes, and what is not read ages. */
static void bounded(void)
{
	fill_file(64);
	for (unsigned i = 0; i < 40; i++) {
		read_piece(i);
		fiber_sleep_ns(1000000);
		cr_assert_leq(rig_in_hand(0, 64 * LARGE), 8 * LARGE);
	}
	fiber_sleep_ns(7000000000);
	cr_assert_eq(rig_in_hand(0, 64 * LARGE), 0);
}

Test(write_path_large, readahead_stays_inside_its_bound) /* 3.5, 3.8 */
{
	rig_run(&(struct rig_config){ .cache = { .kept_bytes_max = 8 * LARGE } }, bounded);
}

/* Let two READs pass, so that pieces 2 and 3 have been read ahead. */
static void read_two(void)
{
	fill_file(8);
	read_piece(0);
	read_piece(1);
	fiber_sleep_ns(10000000);
	cr_assert_geq(rig_in_hand(2 * LARGE, 4 * LARGE), 2 * LARGE);
}

/* 4.1, 4.2, 4.5: an overwrite of a part of a folio writes that part. */
static void amplification(void)
{
	read_two();
	int64_t before = counter_value("write.run_bytes");
	cr_assert_eq(write_mode(EXPORT_MODE_DONTCACHE, 2 * LARGE + 5 * UNIT, UNIT, 99, VFS_FILE_SYNC), 0);
	cr_assert_eq(counter_value("cache.large.overwrites"), 1);
	cr_assert_eq(counter_value("write.run_bytes"), before + UNIT);
	rig_expect_disk(2 * LARGE, 5 * UNIT, 3);
	rig_expect_disk(2 * LARGE + 5 * UNIT, UNIT, 99);
	rig_expect_disk(2 * LARGE + 6 * UNIT, 10 * UNIT, 3);
}

Test(write_path_large, an_overwrite_of_a_part_writes_that_part) { rig_run(&(struct rig_config){ 0 }, amplification); } /* 4.1, 4.2, 4.5 */

/* 4.5 as a figure: random overwrites with a sync each, on resident folios, write a byte for a byte. */
static void random_overwrites(void)
{
	uint64_t written;

	fill_file(8);
	((struct export_view *)rig_call.view)->options.keep_edges = true; /* so that the folios stay */
	for (unsigned i = 0; i < 8; i++)
		read_piece(i);
	fiber_sleep_ns(10000000);
	written = (uint64_t)counter_value("write.run_bytes");
	for (unsigned i = 0; i < 200; i++)
		cr_assert_eq(write_mode(EXPORT_MODE_DONTCACHE, sim_random(8 * LARGE / UNIT) * UNIT, UNIT, (uint8_t)(1 + i), VFS_FILE_SYNC), 0);
	cr_assert_geq(counter_value("cache.large.overwrites"), 100);
	cr_assert_leq((uint64_t)counter_value("write.run_bytes") - written, 200 * UNIT * 105 / 100);
}

Test(write_path_large, random_overwrites_write_a_byte_for_a_byte) { rig_run(&(struct rig_config){ 0 }, random_overwrites); } /* 4.5 */

/* 5.1, 5.7: several dirty stretches of one folio: each goes, what lies between does not. */
static void stretches(void)
{
	struct rig_job job[3];

	read_two();
	use_mode(EXPORT_MODE_DONTCACHE);
	int64_t before = counter_value("write.run_bytes");
	for (unsigned i = 0; i < 3; i++)
		job[i] = (struct rig_job){ .offset = 2 * LARGE + (1 + 4 * i) * UNIT, .len = UNIT, .value = (uint8_t)(90 + i), .stable = VFS_UNSTABLE };
	rig_jobs(job, 3);
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
	cr_assert_leq(counter_value("write.run_bytes"), before + 4 * UNIT); /* one may be written twice: overwritten while it was under way */
	for (unsigned i = 0; i < 3; i++) {
		rig_expect_disk(2 * LARGE + (1 + 4 * i) * UNIT, UNIT, (uint8_t)(90 + i));
		rig_expect_disk(2 * LARGE + (2 + 4 * i) * UNIT, UNIT, 3);
	}
	cr_assert_eq(rig_in_hand(2 * LARGE, 3 * LARGE), 0);
}

Test(write_path_large, stretches_of_one_folio_go_one_by_one) { rig_run(&(struct rig_config){ 0 }, stretches); } /* 4.5, 5.1 */

/* 2.7, 2.1: an edge inside what was read ahead takes its unit out: no read, and nothing else is written. */
static void edge_inside(void)
{
	uint64_t reads;

	read_two();
	reads = sim_stats().reads;
	cr_assert_eq(write_mode(EXPORT_MODE_DIRECT, 2 * LARGE + 100, 200, 77, VFS_FILE_SYNC), 0);
	cr_assert_eq(sim_stats().reads, reads);
	rig_expect_disk(2 * LARGE, 100, 3);
	rig_expect_disk(2 * LARGE + 100, 200, 77);
	rig_expect_disk(2 * LARGE + 300, LARGE - 300, 3);
}

Test(write_path_large, an_edge_inside_what_was_read_ahead_needs_no_read) { rig_run(&(struct rig_config){ 0 }, edge_inside); } /* 2.7 */

/* 1.6: a direct middle over a dirty large folio: its other blocks are not lost. */
static void middle_over_dirty(void)
{
	cr_assert_eq(write_mode(EXPORT_MODE_DONTCACHE, 0, LARGE, 1, VFS_UNSTABLE), 0);
	cr_assert_eq(write_mode(EXPORT_MODE_DIRECT, 4 * UNIT, 2 * UNIT, 2, VFS_UNSTABLE), 0);
	cr_assert_eq(write_mode(EXPORT_MODE_DONTCACHE, 8 * UNIT, UNIT, 3, VFS_UNSTABLE), 0);
	cr_assert_eq(write_mode(EXPORT_MODE_DIRECT, 10 * UNIT + 10, 100, 4, VFS_UNSTABLE), 0);
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
	rig_expect_disk(0, 4 * UNIT, 1);
	rig_expect_disk(4 * UNIT, 2 * UNIT, 2);
	rig_expect_disk(6 * UNIT, 2 * UNIT, 1);
	rig_expect_disk(8 * UNIT, UNIT, 3);
	rig_expect_disk(9 * UNIT, UNIT + 10, 1);
	rig_expect_disk(10 * UNIT + 10, 100, 4);
	rig_expect_disk(10 * UNIT + 110, 6 * UNIT - 110, 1);
}

Test(write_path_large, parts_of_a_dirty_folio_survive_their_neighbours) { rig_run(&(struct rig_config){ 0 }, middle_over_dirty); } /* 2.7, 4.2 */

/* 4.6: a truncate inside a dirty folio: zeros past the new end, and nothing of it written longer. */
static void cut(void)
{
	cr_assert_eq(write_mode(EXPORT_MODE_DONTCACHE, 0, LARGE, 1, VFS_UNSTABLE), 0);
	cr_assert_eq(vfs_truncate(rig_file, 3 * UNIT + 1000), 0);
	cr_assert_eq(sim_size(1), 3 * UNIT + 1000);
	rig_expect_disk(0, 3 * UNIT + 1000, 1);
	cr_assert_eq(vfs_truncate(rig_file, LARGE), 0);
	rig_expect_read(3 * UNIT + 1000, LARGE - 3 * UNIT - 1000, 0);
}

Test(write_path_large, a_truncate_inside_a_folio) { rig_run(&(struct rig_config){ 0 }, cut); } /* 4.6 */

/* 4.3, 4.4: while bytes are being read ahead, a WRITE of some of them wins, and the rest is the disk's. */
static void newer_wins(void)
{
	fill_file(8);
	read_piece(0);
	read_piece(1); /* pieces 2 and 3 are on their way */
	cr_assert_eq(write_mode(EXPORT_MODE_DONTCACHE, 2 * LARGE + 3 * UNIT, UNIT, 55, VFS_UNSTABLE), 0);
	rig_expect_read(2 * LARGE, 3 * UNIT, 3);
	rig_expect_read(2 * LARGE + 3 * UNIT, UNIT, 55);
	rig_expect_read(2 * LARGE + 4 * UNIT, LARGE - 4 * UNIT, 3);
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
	rig_expect_disk(2 * LARGE + 3 * UNIT, UNIT, 55);
	rig_expect_disk(2 * LARGE + 4 * UNIT, LARGE - 4 * UNIT, 3);
}

Test(write_path_large, a_fill_does_not_overwrite_newer_blocks) { rig_run(&(struct rig_config){ .latency_ns_max = 50000000 }, newer_wins); } /* 4.3, 4.4 */

/* 4.4: a fill that fails gives nothing, and the READ asks the disk itself. */
static void failed_fill(void)
{
	fill_file(8);
	read_piece(0);
	fault_arm(FAULT_IO_READV, EIO, 1, 1); /* the READ of piece 1 passes, the readahead behind it fails */
	read_piece(1);
	fiber_sleep_ns(10000000);
	fault_disarm_all();
	read_piece(2);
	read_piece(3);
}

Test(write_path_large, a_fill_that_fails_gives_nothing) { rig_run(&(struct rig_config){ 0 }, failed_fill); } /* 4.4 */

/* 2.8, 3.5: what was read ahead is not trusted after somebody else has changed the file. */
static void foreign(void)
{
	uint8_t byte = 200;

	read_two();
	fiber_sleep_ns(20000000);
	sim_poke(1, &byte, 1, 2 * LARGE);
	rig_expect_read(2 * LARGE, 1, 200);
	rig_expect_read(2 * LARGE + 1, LARGE - 1, 3);
}

Test(write_path_large, what_was_read_ahead_is_not_trusted_after_a_foreign_change) { rig_run(&(struct rig_config){ 0 }, foreign); } /* 3.5 */

/* 2.8: the same where a part of the folio cannot be written for a while: that part is ours, the rest theirs. */
static void foreign_beside_dirty(void)
{
	uint8_t byte = 200;

	read_two();
	fiber_sleep_ns(20000000);
	fault_arm(FAULT_IO_WRITEV, ENOSPC, 0, 1);
	cr_assert_eq(write_mode(EXPORT_MODE_DONTCACHE, 2 * LARGE + UNIT, UNIT, 44, VFS_UNSTABLE), 0);
	fiber_sleep_ns(20000000);
	cr_assert_geq(rig_in_hand(2 * LARGE, 3 * LARGE), UNIT);
	sim_poke(1, &byte, 1, 2 * LARGE);
	rig_expect_read(2 * LARGE, 1, 200);
	rig_expect_read(2 * LARGE + 1, UNIT - 1, 3);
	rig_expect_read(2 * LARGE + UNIT, UNIT, 44);
	fault_disarm_all();
	rig_commit(0, 0, NULL);
	fiber_sleep_ns(2000000000);
	rig_expect_disk(2 * LARGE, 1, 200);
	rig_expect_disk(2 * LARGE + UNIT, UNIT, 44);
}

Test(write_path_large, the_rest_of_a_dirty_folio_is_not_trusted_after_a_foreign_change) { rig_run(&(struct rig_config){ 0 }, foreign_beside_dirty); } /* 2.8 */

/* Pieces 3 to 5 are on their way from the disk, where nothing can be written, and a block of piece 4 is newer. */
static void begin_filling(void)
{
	int64_t failed = counter_value("write.runs_failed");

	fault_disarm_all();
	vfs_truncate(rig_file, 0);
	rig_commit(0, 0, NULL); /* what could not be written is told once */
	fill_file(8);
	fiber_sleep_ns(1100000000); /* UNSTABLE WRITEs wait no more for what found no space before */
	fault_arm(FAULT_IO_WRITEV, ENOSPC, 0, 0);
	rig_call.client++; /* a stream of its own */
	read_piece(0);
	read_piece(1);
	fiber_sleep_ns(1000); /* they are claimed */
	cr_assert_eq(write_mode(EXPORT_MODE_DONTCACHE, 4 * LARGE + UNIT, UNIT, 44, VFS_UNSTABLE), 0);
	while (counter_value("write.runs_failed") == failed)
		fiber_sleep_ns(100000);
	fiber_sleep_ns(1000000); /* the round is over: what happens to the file now is not ours */
}

enum { TRIES = 40, FILL_NS_MAX = 50000000 };

/* 2.8, 4.4: bytes that were on their way from the disk when somebody else changed it are not what is there now. */
static void foreign_while_filling(void)
{
	unsigned seen = 0;
	uint8_t byte = 200;
	struct vfs_attr attr;

	for (unsigned i = 0; i < TRIES; i++) {
		begin_filling();
		int64_t changes = counter_value("cache.foreign_changes");
		fiber_sleep_ns(sim_random(FILL_NS_MAX / 2));
		sim_poke(1, &byte, 1, 4 * LARGE);
		cr_assert_eq(vfs_getattr(rig_file, &attr), 0);
		if (counter_value("cache.foreign_changes") == changes) /* a round of ours was trying again: it is taken for ours */
			continue;
		seen++;
		fiber_sleep_ns(2 * FILL_NS_MAX);
		rig_expect_read(4 * LARGE, 1, 200);
		rig_expect_read(4 * LARGE + UNIT, UNIT, 44);
	}
	cr_assert_geq(seen, TRIES / 2);
	fault_disarm_all();
	rig_commit(0, 0, NULL);
}

Test(write_path_large, a_fill_from_before_a_foreign_change_gives_nothing) /* 3.5 */
{
	rig_run(&(struct rig_config){ .latency_ns_max = FILL_NS_MAX }, foreign_while_filling);
}

/* 1.13, 4.4: nor is what was on its way when the file was cut there. */
static void cut_while_filling(void)
{
	uint64_t end;

	for (unsigned i = 0; i < TRIES; i++) {
		end = i % 2 ? 4 * LARGE + 2 * UNIT + 100 : 5 * LARGE - UNIT + 100; /* in the folio's last unit, nothing is split off */
		begin_filling();
		fiber_sleep_ns(sim_random(FILL_NS_MAX / 2));
		vfs_truncate(rig_file, end);
		fiber_sleep_ns(2 * FILL_NS_MAX);
		vfs_truncate(rig_file, 5 * LARGE);
		rig_expect_read(4 * LARGE + UNIT, UNIT, 44);
		rig_expect_read(end, (uint32_t)(5 * LARGE - end), 0);
	}
	fault_disarm_all();
	rig_commit(0, 0, NULL);
}

Test(write_path_large, a_fill_from_before_a_truncate_gives_nothing) /* 3.5 */
{
	rig_run(&(struct rig_config){ .latency_ns_max = FILL_NS_MAX }, cut_while_filling);
}

enum { BUSY_WRITES_MAX = 5000 };
static unsigned busy_writes;
static bool committed, busy_ended;

static void busy_writer(void *arg)
{
	for (; !committed && busy_writes < BUSY_WRITES_MAX; busy_writes++) {
		rig_write(2 * LARGE + sim_random(LARGE / UNIT / 2) * 2 * UNIT, UNIT, (uint8_t)(1 + busy_writes % 200), VFS_UNSTABLE); /* stretches of their own */
		fiber_sleep_ns(5000);
	}
	busy_ended = true;
}

/* 5.2: a COMMIT has its answer though somebody goes on writing into the folio whose blocks it waits for. */
static void commit_beside_writer(void)
{
	unsigned before;

	((struct export_view *)rig_call.view)->options.keep_edges = true; /* so that the folio stays */
	read_two();
	read_piece(2);
	use_mode(EXPORT_MODE_DONTCACHE);
	cr_assert_eq(fiber_spawn(busy_writer, NULL, "busy writer"), 0);
	while (busy_writes < 100)
		fiber_sleep_ns(10000);
	before = busy_writes;
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
	committed = true;
	cr_assert_leq(busy_writes - before, 1000);
	while (!busy_ended)
		fiber_sleep_ns(10000);
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
}

Test(write_path_large, a_busy_writer_does_not_hold_up_a_commit) { rig_run(&(struct rig_config){ 0 }, commit_beside_writer); } /* 5.2 */

/* 3.7: bytes that a reply still sends stay as they were; an overwrite goes to other memory. */
static void lent(void)
{
	struct vfs_read_result r;

	read_two();
	cr_assert_eq(vfs_read(&rig_call, rig_file, 2 * LARGE, UNIT, &r), 0);
	cr_assert_eq(write_mode(EXPORT_MODE_DONTCACHE, 2 * LARGE, UNIT, 66, VFS_UNSTABLE), 0);
	cr_assert_eq(*(uint8_t *)r.iov[0].iov_base, 3);
	rig_expect_read(2 * LARGE, UNIT, 66);
	vfs_read_put(&r);
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
	rig_expect_disk(2 * LARGE, UNIT, 66);
	rig_expect_disk(2 * LARGE + UNIT, LARGE - UNIT, 3);
}

Test(write_path_large, memory_that_a_reply_sends_does_not_change) { rig_run(&(struct rig_config){ 0 }, lent); } /* 3.7 */

/* 5.8: with no space, acknowledged blocks stay dirty and go later. */
static void no_space(void)
{
	read_two();
	fault_arm(FAULT_IO_WRITEV, ENOSPC, 0, 1);
	cr_assert_eq(write_mode(EXPORT_MODE_DONTCACHE, 2 * LARGE + UNIT, UNIT, 44, VFS_UNSTABLE), 0);
	fiber_sleep_ns(10000000);
	fault_disarm_all();
	rig_expect_read(2 * LARGE + UNIT, UNIT, 44);
	cr_assert_eq(rig_commit(0, 0, NULL), -ENOSPC); /* told once */
	fiber_sleep_ns(2000000000);
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
	rig_expect_disk(2 * LARGE + UNIT, UNIT, 44);
}

Test(write_path_large, blocks_stay_dirty_while_there_is_no_space) { rig_run(&(struct rig_config){ 0 }, no_space); } /* 5.8 */

/* 5.8, 1.13: who empties a file on a full disk has the room: what could not be written concerns nobody any more. */
static void room_made(void)
{
	fault_arm(FAULT_IO_WRITEV, ENOSPC, 0, 0);
	cr_assert_eq(write_mode(EXPORT_MODE_DONTCACHE, 0, LARGE, 1, VFS_UNSTABLE), 0);
	fiber_sleep_ns(10000000);
	cr_assert_eq(rig_commit(0, 0, NULL), -ENOSPC);
	fiber_sleep_ns(2000000000); /* it was tried again */
	fault_disarm_all();
	cr_assert_eq(vfs_truncate(rig_file, 0), 0);
	cr_assert_eq(write_mode(EXPORT_MODE_DONTCACHE, 0, 5000, 2, VFS_FILE_SYNC), 0);
	rig_expect_disk(0, 5000, 2);
}

Test(write_path_large, an_emptied_file_has_no_errors_of_before) { rig_run(&(struct rig_config){ 0 }, room_made); }

/* A folio with a state, none of whose blocks is dirty any more, whose write fails for good: it goes, and nothing of it stays in the accounts. */
static void lost(void)
{
	fill_file(1);
	cr_assert_eq(write_mode(EXPORT_MODE_DONTCACHE, 0, LARGE, 7, VFS_UNSTABLE), 0);
	fault_arm(FAULT_IO_WRITEV, EIO, 0, 1);
	cr_assert_eq(write_mode(EXPORT_MODE_DONTCACHE, 3 * UNIT, UNIT, 8, VFS_FILE_SYNC), -EIO); /* in place: it gets a state */
	fault_disarm_all();
	rig_settle();
	rig_check();
	cr_assert_eq(counter_value("cache.dirty_bytes"), 0);
}

Test(write_path_large, a_lost_folio_leaves_no_account) { rig_run(&(struct rig_config){ 0 }, lost); } /* 5.8 */

/*
 * Of a large folio some dirty blocks find no space; a stable WRITE's others are written in the same round all the same, before it is answered, and the refused ones go
 * with a later one.
 */
static void beside_refused_blocks(void)
{
	struct rig_job job[2] = {
		{ .offset = 2 * LARGE + 2 * UNIT, .len = UNIT, .value = 44, .stable = VFS_UNSTABLE },
		{ .offset = 2 * LARGE + 6 * UNIT, .len = UNIT, .value = 55, .stable = VFS_FILE_SYNC },
	};

	read_two();
	((struct export_view *)rig_call.view)->options.write_mode = EXPORT_MODE_DONTCACHE;
	fault_arm(FAULT_IO_WRITEV, ENOSPC, 0, 1);
	rig_jobs(job, 2);
	cr_assert(!job[0].error && !job[1].error);
	cr_assert_eq(counter_value("write.runs_failed"), 1);
	rig_expect_disk(2 * LARGE + 6 * UNIT, UNIT, 55);
	fiber_sleep_ns(2000000000);
	rig_expect_disk(2 * LARGE + 2 * UNIT, UNIT, 44);
	cr_assert_eq(rig_commit(0, 0, NULL), -ENOSPC);                               /* what stuck to the file is told once */
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
	sim_power_cut();
}

static void both_blocks_there(void)
{
	rig_expect_disk(2 * LARGE + 2 * UNIT, UNIT, 44);
	rig_expect_disk(2 * LARGE + 6 * UNIT, UNIT, 55);
}

Test(write_path_large, a_stable_write_beside_refused_blocks_is_written) { rig_run_cut(&(struct rig_config){ 0 }, beside_refused_blocks, both_blocks_there); } /* 5.8 */
