/*
 * tests/unit/write_path_blocks_test.c - folios of several blocks (WRITE_PATH, sections 3 and 4): their state, every block size, what is counted, kept and pruned; and
 * edges of blocks that are smaller than a unit.
 */
#include <stdlib.h>
#include <string.h>

#include "iocache/mapping_impl.h"
#include "tests/unit/write_path_harness.h"
#include "vfs/attr.h"
#include "vfs/export.h"

static const struct rig_config plain = { 0 }, small_blocks = { .block = 512 };

static struct export_options *options(void)
{
	return &((struct export_view *)rig_call.view)->options;
}

static int write_mode(enum export_mode mode, uint64_t offset, uint32_t len, uint8_t value, enum vfs_stable stable)
{
	options()->write_mode = mode;
	return rig_write(offset, len, value, stable);
}

static void fill_file(unsigned pieces)
{
	for (unsigned i = 0; i < pieces; i++)
		cr_assert_eq(write_mode(EXPORT_MODE_DIRECT, (uint64_t)i * LARGE_BYTES, LARGE_BYTES, (uint8_t)(1 + i), VFS_FILE_SYNC), 0);
	cr_assert_eq(rig_in_hand(0, (uint64_t)pieces * LARGE_BYTES), 0);
}

static void read_piece(unsigned i) { rig_expect_read(i * LARGE_BYTES, LARGE_BYTES, (uint8_t)(1 + i)); }

/* Pieces 2 and 3 have been read ahead, and nobody has read them. */
static void read_two(void)
{
	fill_file(8);
	read_piece(0);
	read_piece(1);
	fiber_sleep_ns(10000000);
	cr_assert_geq(rig_in_hand(2 * LARGE_BYTES, 4 * LARGE_BYTES), 2 * LARGE_BYTES);
}

/* ---- the bits ---- */

enum { BITS_ROUNDS = 20000 };

static uint32_t draw(uint32_t below)
{
	static uint64_t state = 88172645463325252u;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 20) % below;
}

static void compare_bits(const uint64_t *bits, const bool *model, uint32_t count)
{
	uint32_t from = draw(count), limit = from + draw(count - from + 1), set = from, clear = from;

	while (set < limit && !model[set])
		set++;
	while (clear < limit && model[clear])
		clear++;
	cr_assert_eq(bits_next(bits, from, limit, true), set);
	cr_assert_eq(bits_next(bits, from, limit, false), clear);
	cr_assert_eq(bits_all(bits, from, limit), clear == limit);
}

Test(write_path_blocks, bits_are_sets_of_blocks) /* 4.1 */
{
	static bool model[BLOCKS_MAX];

	for (uint32_t count = 1; count <= BLOCKS_MAX; count += 1 + draw(20)) {
		struct blocks *b = blocks_alloc(512, count, true, false), *part;

		cr_assert(bits_all(b->uptodate, 0, count) && !bits_any(b->dirty, count) && !bits_any(b->flight, count));
		memset(model, 0, sizeof(model));
		for (unsigned i = 0; i < BITS_ROUNDS / BLOCKS_MAX * 8; i++) {
			uint32_t from = draw(count), to = from + draw(count - from + 1);
			bool set = draw(2);

			(set ? bits_set : bits_clear)(b->dirty, from, to);
			for (uint32_t k = from; k < to; k++)
				model[k] = set;
			compare_bits(b->dirty, model, count);
		}
		uint32_t first = draw(count), n = 1 + draw(count - first);
		part = blocks_slice(b, first, n);
		cr_assert(part->count == n && part->bytes == 512 && bits_all(part->uptodate, 0, n));
		for (uint32_t k = 0; k < n; k++)
			cr_assert_eq(bits_all(part->dirty, k, k + 1), model[first + k]);
		bits_move(b->flight, b->dirty);
		cr_assert_not(bits_any(b->dirty, count));
		compare_bits(b->flight, model, count);
		free(part);
		free(b);
	}
}

/* ---- every pair of block and unit ---- */

enum { MODEL_BYTES = 512 << 10, MODEL_OPS = 300 };

static uint8_t bytes[MODEL_BYTES], got[MODEL_BYTES];
static uint64_t model_size;

static void model_write(void)
{
	static const enum export_mode modes[] = { EXPORT_MODE_DIRECT, EXPORT_MODE_DONTCACHE, EXPORT_MODE_DONTCACHE, EXPORT_MODE_BUFFERED };
	uint32_t len = 1 + draw(draw(3) ? 9000 : 200000);
	uint64_t offset = draw(MODEL_BYTES - len);
	uint8_t value = (uint8_t)(1 + draw(255));

	if (draw(2)) {
		offset = align_down(offset, 512);
		len = (uint32_t)align_up(len, 512);
		len = (uint32_t)min_u64(len, MODEL_BYTES - offset);
	}
	cr_assert_eq(write_mode(modes[draw(4)], offset, len, value, (enum vfs_stable)draw(3)), 0);
	memset(bytes + offset, value, len);
	model_size = max_u64(model_size, offset + len);
}

static void model_read(void)
{
	uint32_t len = 1 + draw(150000);
	uint64_t offset = draw(3) ? draw(MODEL_BYTES) : 0;
	int want = offset < model_size ? (int)min_u64(len, model_size - offset) : 0;

	for (unsigned i = 0; i < 1 + draw(4); i++, offset += len) { /* on and on, so that it is read ahead for */
		want = offset < model_size ? (int)min_u64(len, model_size - offset) : 0;
		cr_assert_eq(rig_read(offset, len, got), want);
		cr_assert_eq(memcmp(got, bytes + offset, (size_t)want), 0);
	}
}

static void model_truncate(void)
{
	uint64_t size = draw(MODEL_BYTES);

	cr_assert_eq(vfs_truncate(rig_file, size), 0);
	if (size < model_size)
		memset(bytes + size, 0, model_size - size);
	model_size = size;
}

static void model_ops(void)
{
	cr_assert_eq(rig_unit, max_u64(4096, rig_mapping->config.block));
	for (unsigned i = 0; i < MODEL_OPS; i++) {
		uint32_t what = draw(100);

		options()->keep_edges = draw(2);
		if (what < 55)
			model_write();
		else if (what < 85)
			model_read();
		else if (what < 90)
			cr_assert_eq(rig_commit(0, 0, NULL), 0);
		else if (what < 93)
			model_truncate();
		else
			fiber_sleep_ns(draw(2) ? draw(300000) : draw(500000000));
		leaf_lock(&rig_mapping->lock);
		mapping_check_locked(rig_mapping);
		leaf_unlock(&rig_mapping->lock);
	}
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
	cr_assert_eq(sim_size(1), model_size);
	cr_assert_eq(sim_peek(1, got, MODEL_BYTES, 0), (ssize_t)model_size);
	cr_assert_eq(memcmp(got, bytes, model_size), 0);
}

Test(write_path_blocks, every_block_size_512) { rig_run(&small_blocks, model_ops); } /* 4.1, 4.5 */
Test(write_path_blocks, every_block_size_4096) { rig_run(&plain, model_ops); }
Test(write_path_blocks, every_block_size_16384) { rig_run(&(struct rig_config){ .block = 16384 }, model_ops); } /* 4.1 */
Test(write_path_blocks, every_block_size_65536) { rig_run(&(struct rig_config){ .block = 65536 }, model_ops); } /* 4.1 */

/* ---- blocks smaller than the unit ---- */

/* Whole blocks can be written as they are: nothing is read for the rest of their unit, which stays the disk's. */
static void whole_blocks(void)
{
	fill_file(1);
	cr_assert_eq(write_mode(EXPORT_MODE_DIRECT, rig_unit + 512, 1536, 77, VFS_FILE_SYNC), 0);
	cr_assert_eq(write_mode(EXPORT_MODE_DIRECT, 3 * rig_unit - 512, rig_unit + 1024, 78, VFS_UNSTABLE), 0);
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
	cr_assert_eq(counter_value("cache.fills.read"), 0);
	rig_expect_disk(0, rig_unit + 512, 1);
	rig_expect_disk(rig_unit + 512, 1536, 77);
	rig_expect_disk(rig_unit + 2048, 2 * rig_unit - 512 - 2048, 1);
	rig_expect_disk(3 * rig_unit - 512, rig_unit + 1024, 78);
	rig_expect_disk(4 * rig_unit + 512, 10 * rig_unit, 1);
	rig_expect_read(rig_unit, 512, 1);
	rig_expect_read(rig_unit + 512, 1536, 77);
}

Test(write_path_blocks, whole_blocks_inside_an_edge_need_no_fill) { rig_run(&small_blocks, whole_blocks); } /* 1.2, 2.6 */

/* Blocks from one client, bytes from another: the edge is complete with the last of them, and goes. */
static void blocks_and_bytes(void)
{
	fill_file(1);
	cr_assert_eq(write_mode(EXPORT_MODE_DIRECT, 1024, 3072, 77, VFS_UNSTABLE), 0);
	cr_assert_eq(write_mode(EXPORT_MODE_DIRECT, 300, 724, 78, VFS_UNSTABLE), 0);
	cr_assert_eq(counter_value("cache.edges.completed"), 0);
	cr_assert_eq(write_mode(EXPORT_MODE_DIRECT, 0, 300, 79, VFS_UNSTABLE), 0);
	cr_assert_eq(counter_value("cache.edges.completed"), 1);
	rig_settle();
	cr_assert_eq(rig_in_hand(0, rig_unit), 0);
	cr_assert_eq(counter_value("cache.fills.read"), 0);
	rig_expect_disk(0, 300, 79);
	rig_expect_disk(300, 724, 78);
	rig_expect_disk(1024, 3072, 77);
}

Test(write_path_blocks, blocks_and_bytes_complete_an_edge_together) { rig_run(&small_blocks, blocks_and_bytes); } /* 2.6 */

/* ---- marks ---- */

/* Folios that a cached reader has made are not taken away by an uncached WRITE, but for what it replaces. */
static void reader_keeps(void)
{
	read_two();
	options()->keep_edges = true;
	read_piece(2);
	cr_assert_eq(rig_in_hand(2 * LARGE_BYTES, 3 * LARGE_BYTES), LARGE_BYTES);
	cr_assert_eq(write_mode(EXPORT_MODE_DIRECT, 2 * LARGE_BYTES + 5 * rig_unit, 2 * rig_unit, 99, VFS_UNSTABLE), 0);
	rig_settle();
	cr_assert_geq(rig_in_hand(2 * LARGE_BYTES, 3 * LARGE_BYTES), LARGE_BYTES - 2 * rig_unit);
	cr_assert_eq(write_mode(EXPORT_MODE_DIRECT, 2 * LARGE_BYTES + 9 * rig_unit + 10, 20, 98, VFS_FILE_SYNC), 0);
	cr_assert_geq(rig_in_hand(2 * LARGE_BYTES, 3 * LARGE_BYTES), LARGE_BYTES - 3 * rig_unit);
	cr_assert_eq(counter_value("cache.fills.read"), 0);
	rig_expect_read(2 * LARGE_BYTES, 5 * rig_unit, 3);
	rig_expect_read(2 * LARGE_BYTES + 5 * rig_unit, 2 * rig_unit, 99);
	rig_expect_read(2 * LARGE_BYTES + 9 * rig_unit + 10, 20, 98);
	rig_expect_read(2 * LARGE_BYTES + 10 * rig_unit, LARGE_BYTES - 10 * rig_unit, 3);
}

Test(write_path_blocks, what_a_reader_keeps_is_not_dropped_by_a_write) { rig_run(&plain, reader_keeps); } /* 2.7 */

/* Looks of the server's own leave the mark; a READ of an export that keeps takes it away, one of an export that does not takes the folio. */
static void marks(void)
{
	struct vfs_attr attr;

	read_two();
	cr_assert_eq(vfs_getattr(rig_file, &attr), 0);
	cr_assert_eq(rig_in_hand(2 * LARGE_BYTES, 4 * LARGE_BYTES), 2 * LARGE_BYTES);
	read_piece(2);
	cr_assert_eq(rig_in_hand(2 * LARGE_BYTES, 3 * LARGE_BYTES), 0);
	options()->keep_edges = true;
	read_piece(3);
	cr_assert_eq(rig_in_hand(3 * LARGE_BYTES, 4 * LARGE_BYTES), LARGE_BYTES);
	options()->keep_edges = false;
	read_piece(3);
	cr_assert_eq(rig_in_hand(3 * LARGE_BYTES, 4 * LARGE_BYTES), LARGE_BYTES, "it was unmarked");
}

Test(write_path_blocks, a_cached_read_takes_the_mark_away_a_look_does_not) { rig_run(&plain, marks); } /* 3.3 */

static int64_t uncached_dirty(void) { return counter_value("cache.uncached_dirty_bytes"); }

/* The count of what is dirty and marked rises with WRITEs, falls when it is unmarked by a READ, is split, cut or written, and comes to nothing. */
static void count_of_marks(void)
{
	cr_assert_eq(write_mode(EXPORT_MODE_DONTCACHE, 0, 4 * LARGE_BYTES, 1, VFS_UNSTABLE), 0);
	cr_assert_eq(uncached_dirty(), 4 * LARGE_BYTES);
	cr_assert_eq(write_mode(EXPORT_MODE_DIRECT, LARGE_BYTES + 4 * rig_unit, 2 * rig_unit, 1, VFS_UNSTABLE), 0);
	cr_assert_eq(uncached_dirty(), 4 * LARGE_BYTES);
	cr_assert_eq(write_mode(EXPORT_MODE_DIRECT, 8 * LARGE_BYTES + 100, 3 * rig_unit, 1, VFS_UNSTABLE), 0);
	cr_assert_eq(uncached_dirty(), 4 * LARGE_BYTES + 2 * rig_unit);              /* its edges are not marked */
	options()->keep_edges = true;
	rig_expect_read(0, LARGE_BYTES, 1);
	cr_assert_eq(uncached_dirty(), 3 * LARGE_BYTES + 2 * rig_unit);
	cr_assert_geq(rig_mapping->dirty_bytes, 4 * LARGE_BYTES + 2 * rig_unit);
	options()->keep_edges = false;
	rig_settle();
	cr_assert_eq(uncached_dirty(), 0);
	cr_assert_eq(vfs_truncate(rig_file, 0), 0);
	cr_assert_eq(write_mode(EXPORT_MODE_DONTCACHE, 0, 2 * LARGE_BYTES, 1, VFS_UNSTABLE), 0);
	cr_assert_eq(vfs_truncate(rig_file, LARGE_BYTES + 100), 0);
	cr_assert_eq(uncached_dirty(), 0);
}

Test(write_path_blocks, what_is_uncached_and_dirty_is_counted_exactly) { rig_run(&plain, count_of_marks); } /* 3.6 */

/* ---- more than fits ---- */

enum { SET_BYTES = 20 << 20, BUDGET_BYTES = 1 << 20, QUARTERS = 4 };

static size_t most_in_use;

static void note_memory(void)
{
	most_in_use = buf_bytes_in_use() > most_in_use ? buf_bytes_in_use() : most_in_use;
}

/*
 * Twenty times the cache's bounds go through it, first written, then read: each quarter takes as long as the others, and memory stays inside. Before, as much is
 * written as the cache takes in.
 */
static void larger_than_the_cache(void)
{
	uint64_t took[2][QUARTERS];

	options()->write_mode = options()->read_mode = EXPORT_MODE_DONTCACHE;
	for (uint64_t at = SET_BYTES; at < SET_BYTES + 2 * BUDGET_BYTES; at += LARGE_BYTES)
		cr_assert_eq(rig_write(at, LARGE_BYTES, 1, VFS_UNSTABLE), 0);
	for (unsigned pass = 0; pass < 2; pass++)
		for (unsigned q = 0; q < QUARTERS; q++) {
			uint64_t begun = clock_mono_ns(), from = (uint64_t)q * SET_BYTES / QUARTERS;

			for (uint64_t at = from; at < from + SET_BYTES / QUARTERS; at += LARGE_BYTES, note_memory())
				if (pass)
					rig_expect_read(at, LARGE_BYTES, (uint8_t)(1 + q));
				else
					cr_assert_eq(rig_write(at, LARGE_BYTES, (uint8_t)(1 + q), VFS_UNSTABLE), 0);
			took[pass][q] = clock_mono_ns() - begun;
		}
	for (unsigned pass = 0; pass < 2; pass++)
		cr_assert_leq(took[pass][QUARTERS - 1] * 90, took[pass][0] * 100, "%s: %llu us at first, %llu at the end", pass ? "read" : "written",
			      (unsigned long long)took[pass][0] / 1000, (unsigned long long)took[pass][QUARTERS - 1] / 1000);
	cr_assert_leq(most_in_use, 2 * BUDGET_BYTES + 4 * LARGE_BYTES);              /* dirty, clean, and what is in somebody's hands */
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
}

Test(write_path_blocks, a_working_set_larger_than_the_cache_goes_at_one_speed) /* 3.8 */
{
	rig_run(&(struct rig_config){ .cache = { .dirty_bytes_max = BUDGET_BYTES, .file_dirty_bytes_max = BUDGET_BYTES, .kept_bytes_max = BUDGET_BYTES, .run_bytes_max = LARGE_BYTES } },
		larger_than_the_cache);
}

/* ---- state ---- */

static struct folio *folio_at(uint64_t at)
{
	leaf_lock(&rig_mapping->lock);
	struct folio *f = mapping_find_locked(rig_mapping, at);
	leaf_unlock(&rig_mapping->lock);
	cr_assert(f && f->large);
	return f;
}

/* A whole WRITE needs no state; the first part that is written attaches one, in which the other blocks are what the folio was: dirty, or up to date. */
static void inherits(void)
{
	struct blocks *b;

	cr_assert_eq(write_mode(EXPORT_MODE_DONTCACHE, 0, LARGE_BYTES, 1, VFS_UNSTABLE), 0);
	cr_assert_eq(folio_at(0)->blocks, NULL);
	cr_assert_eq(write_mode(EXPORT_MODE_DONTCACHE, 3 * rig_unit, rig_unit, 2, VFS_UNSTABLE), 0);
	b = folio_at(0)->blocks;
	cr_assert(b && bits_all(b->uptodate, 0, b->count) && bits_all(b->dirty, 0, b->count));
	rig_settle();
	rig_expect_disk(0, 3 * rig_unit, 1);
	rig_expect_disk(3 * rig_unit, rig_unit, 2);
	rig_expect_disk(4 * rig_unit, LARGE_BYTES - 4 * rig_unit, 1);
	read_two();
	cr_assert_eq(write_mode(EXPORT_MODE_DONTCACHE, 2 * LARGE_BYTES + 3 * rig_unit, rig_unit, 22, VFS_UNSTABLE), 0);
	b = folio_at(2 * LARGE_BYTES)->blocks;
	cr_assert(b && bits_all(b->uptodate, 0, b->count) && bits_all(b->dirty, 3, 4) && bits_next(b->dirty, 0, b->count, true) == 3 && bits_next(b->dirty, 4, b->count, true) == b->count);
}

Test(write_path_blocks, state_comes_with_the_first_part_and_inherits) { rig_run(&plain, inherits); } /* 4.2 */

/* A WRITE through the page cache that ends half way: the file is as long as what was written, and shows nothing else. */
static void cut_short(void)
{
	uint8_t byte;

	cr_assert_eq(rig_write(0, 1000, 1, VFS_FILE_SYNC), 0);
	fault_arm(FAULT_IO_SHORT_WRITE, EIO, 0, 1);
	fault_arm(FAULT_IO_WRITEV, EDQUOT, 1, 1);
	cr_assert_eq(rig_write(1000, 8 * rig_unit, 2, VFS_UNSTABLE), -EDQUOT);
	fault_disarm_all();
	cr_assert_eq(mapping_size(rig_mapping), sim_size(1));
	cr_assert_lt(sim_size(1), 1000 + 8 * (uint64_t)rig_unit);
	cr_assert_eq(rig_read(sim_size(1), 1, &byte), 0);
	rig_expect_read(0, 1000, 1);
}

Test(write_path_blocks, what_was_cut_short_is_not_published) { rig_run(&(struct rig_config){ .no_direct = true }, cut_short); } /* 4.3 */

static bool read_done;

static void reader_of_piece_1(void *arg)
{
	read_piece(1);
	read_done = true;
}

static bool is_being_filled(uint64_t at)
{
	leaf_lock(&rig_mapping->lock);
	struct folio *f = mapping_find_locked(rig_mapping, at);
	bool filling = f && f->fill;
	leaf_unlock(&rig_mapping->lock);
	return filling;
}

/* What is read ahead fails while a WRITE gives a part of it: that part is there, and the rest is not taken for read. */
static void failed_beside_dirty(void)
{
	const uint64_t at = 3 * LARGE_BYTES;

	fill_file(8);
	read_piece(0);
	fiber_sleep_ns(100000000);                                                   /* pieces 1 and 2 have come; the READ of piece 1 will ask for 3 */
	fault_arm(FAULT_IO_READV, EIO, 0, 1);
	cr_assert_eq(fiber_spawn(reader_of_piece_1, NULL, "reader"), 0);
	while (!is_being_filled(at))
		fiber_yield();
	fault_arm(FAULT_IO_WRITEV, ENOSPC, 0, 0);                                    /* so that it stays until the other has failed */
	cr_assert_eq(write_mode(EXPORT_MODE_DONTCACHE, at + 3 * rig_unit, rig_unit, 55, VFS_UNSTABLE), 0);
	cr_assert(is_being_filled(at), "it came too late");
	while (!read_done || is_being_filled(at))
		fiber_yield();
	rig_expect_read(at, 3 * rig_unit, 4);
	rig_expect_read(at + 3 * rig_unit, rig_unit, 55);
	rig_expect_read(at + 4 * rig_unit, LARGE_BYTES - 4 * rig_unit, 4);
	fault_disarm_all();
	cr_assert(rig_commit(0, 0, NULL) == -ENOSPC && rig_commit(0, 0, NULL) == 0);
	rig_expect_disk(at, 3 * rig_unit, 4);
	rig_expect_disk(at + 3 * rig_unit, rig_unit, 55);
	rig_expect_disk(at + 4 * rig_unit, LARGE_BYTES - 4 * rig_unit, 4);
}

Test(write_path_blocks, a_failed_fill_of_a_folio_that_was_written_to) { rig_run(&(struct rig_config){ .latency_ns_max = 20000000 }, failed_beside_dirty); } /* 4.3, 4.4 */

/* ---- truncate ---- */

static bool watching;

static void size_watcher(void *arg)
{
	while (watching) {
		cr_assert_leq(sim_size(1), mapping_size(rig_mapping), "the file is longer than anybody made it");
		fiber_yield();
	}
}

/* A cut through a folio that is dirty and has made the file longer: the block with the new end in it is not written beyond that end, not even for a moment. */
static void cut_while_growing(void)
{
	cr_assert_eq(write_mode(EXPORT_MODE_DONTCACHE, 0, 2 * LARGE_BYTES, 1, VFS_UNSTABLE), 0);
	watching = true;
	cr_assert_eq(fiber_spawn(size_watcher, NULL, "local process"), 0);
	cr_assert_eq(vfs_truncate(rig_file, LARGE_BYTES + 3 * rig_unit + 1000), 0);
	watching = false;
	fiber_yield();
	cr_assert_eq(sim_size(1), LARGE_BYTES + 3 * rig_unit + 1000);
	rig_expect_disk(0, LARGE_BYTES + 3 * rig_unit + 1000, 1);
}

Test(write_path_blocks, a_cut_folio_is_never_written_beyond_the_new_end) { rig_run(&plain, cut_while_growing); } /* 1.14, 4.5, 4.6 */

static struct run *collect(struct walk *walk)
{
	leaf_lock(&rig_mapping->lock);
	struct run *r = run_collect_locked(rig_mapping, walk);
	leaf_unlock(&rig_mapping->lock);
	return r;
}

/*
 * What was cut inside a unit has met a used up quota. Now its whole blocks are under way, up to the one with the end of file in it, when a WRITE takes that unit out and
 * completes it: the same pass must not write it beside the run that still carries its first blocks, whose older bytes might arrive last.
 */
static void taken_out_under_way(void)
{
	const uint32_t cut = 2 * rig_unit + 1808;
	struct walk walk = { .limit = UINT64_MAX };
	struct run *first, *second;

	fault_arm(FAULT_IO_WRITEV, EDQUOT, 0, 0);
	cr_assert_eq(write_mode(EXPORT_MODE_DONTCACHE, 0, LARGE_BYTES, 1, VFS_UNSTABLE), 0);
	fiber_sleep_ns(10000000);
	cr_assert_eq(mapping_truncate(rig_mapping, cut), 0);
	cr_assert_eq(rig_commit(0, 0, NULL), -EDQUOT);
	fault_disarm_all();
	while (rig_mapping->flusher_running)
		fiber_yield();
	rig_mapping->flusher_running = true;                                         /* it is us */
	walk.target = rig_mapping->stage_seq;
	first = collect(&walk);
	cr_assert(first && first->leaves && first->end < cut && first->end % rig_unit);
	cr_assert_eq(write_mode(EXPORT_MODE_DONTCACHE, 2 * rig_unit, 100, 2, VFS_UNSTABLE), 0);
	cr_assert_eq(write_mode(EXPORT_MODE_DONTCACHE, cut, rig_unit, 2, VFS_UNSTABLE), 0);
	second = collect(&walk);
	cr_assert(!second || second->start >= first->end, "[%llu, %llu) twice", (unsigned long long)second->start, (unsigned long long)first->end);
	run_write(first);
	if (second)
		run_write(second);
	rig_mapping->flusher_running = false;
	cr_assert_eq(rig_commit(0, 0, NULL), 0);
	rig_expect_disk(0, 2 * rig_unit, 1);
	rig_expect_disk(2 * rig_unit, 100, 2);
	rig_expect_disk(2 * rig_unit + 100, 1708, 1);
	rig_expect_disk(cut, rig_unit, 2);
}

Test(write_path_blocks, a_unit_taken_out_of_a_run_waits_for_its_end) { rig_run(&small_blocks, taken_out_under_way); } /* 1b.6 */

/* The cut goes through a folio that is dirty, through one that was read ahead, and through one that a reader keeps: zeros after it, for ever. */
static void stale_tail(bool dirty, bool keep)
{
	const uint64_t cut = 2 * LARGE_BYTES + 3 * rig_unit + 1000;

	read_two();
	options()->keep_edges = keep;
	if (keep)
		read_piece(2);
	if (dirty)
		cr_assert_eq(write_mode(EXPORT_MODE_DONTCACHE, 2 * LARGE_BYTES + rig_unit, 8 * rig_unit, 3, VFS_UNSTABLE), 0);
	cr_assert_eq(vfs_truncate(rig_file, cut), 0);
	cr_assert_eq(vfs_truncate(rig_file, 4 * LARGE_BYTES), 0);
	rig_expect_read(2 * LARGE_BYTES, 3 * rig_unit + 1000, 3);
	rig_expect_read(cut, (uint32_t)(4 * LARGE_BYTES - cut), 0);
	cr_assert_eq(write_mode(EXPORT_MODE_DONTCACHE, 3 * LARGE_BYTES, rig_unit, 5, VFS_FILE_SYNC), 0);
	rig_expect_disk(2 * LARGE_BYTES, 3 * rig_unit + 1000, 3);
	rig_expect_disk(cut, 3 * LARGE_BYTES - cut, 0);
}

static void stale_tails(void)
{
	stale_tail(false, false);
	stale_tail(true, false);
	stale_tail(false, true);
	stale_tail(true, true);
}

Test(write_path_blocks, no_stale_tail_of_a_large_folio) { rig_run(&plain, stale_tails); } /* 4.6 */
