/* sim_disk_test.c - what the simulated disk keeps over a power cut, rule by rule, each over many cuts. */
#include <criterion/criterion.h>
#include <string.h>

#include "runtime/sim.h"
#include "runtime/sim_disk.h"

enum { BLOCK = 512, CUTS = 1000 };

static struct disk disk;
static const struct timespec start = { .tv_sec = 1000 };

static struct disk_file *fresh(uint64_t seed)
{
	disk_init(&disk, BLOCK, 0, seed);
	return disk_open(&disk, 1, start);
}

static void finish(struct disk_file *f)
{
	disk_check(f);
	disk_put(f);
	disk_fini(&disk);
}

static void write_fill(struct disk_file *f, uint64_t offset, size_t len, int byte)
{
	static uint8_t mem[64 * BLOCK];

	memset(mem, byte, len);
	cr_assert_eq(disk_reserve(f, offset, len), len);
	disk_write(f, mem, len, offset);
}

static void sync_now(struct disk_file *f, enum disk_sync_result result)
{
	struct disk_sync s;

	disk_sync_begin(f, &s, 0, UINT64_MAX);
	disk_sync_end(f, &s, result);
}

static uint8_t byte_at(const struct disk_file *f, uint64_t offset)
{
	uint8_t byte = 0;
	bool device;

	cr_assert_eq(disk_read(f, &byte, 1, offset, &device), 1);
	return byte;
}

/* All bytes of the block are equal: that byte. */
static uint8_t block_byte(const struct disk_file *f, uint64_t index)
{
	uint8_t mem[BLOCK];
	bool device;

	cr_assert_eq(disk_read(f, mem, BLOCK, index * BLOCK, &device), BLOCK);
	cr_assert(memcmp(mem, mem + 1, BLOCK - 1) == 0, "torn inside a block");
	return mem[0];
}

Test(sim_disk, synced_data_and_size_survive_every_cut)
{
	for (unsigned seed = 0; seed < CUTS; seed++) {
		struct disk_file *f = fresh(seed);

		write_fill(f, 0, 8 * BLOCK, 'a');
		write_fill(f, 2 * BLOCK, BLOCK, 'b');
		sync_now(f, seed % 2 ? DISK_SYNC_DATA : DISK_SYNC_ALL);
		disk_cut(&disk);
		cr_assert_eq(f->size, 8 * BLOCK);
		for (unsigned i = 0; i < 8; i++)
			cr_assert_eq(block_byte(f, i), i == 2 ? 'b' : 'a');
		finish(f);
	}
}

Test(sim_disk, unsynced_overwrite_is_lost_torn_or_kept)
{
	unsigned lost = 0, torn = 0, kept = 0;

	for (unsigned seed = 0; seed < CUTS; seed++) {
		struct disk_file *f = fresh(seed);
		unsigned fresh_blocks = 0;

		write_fill(f, 0, 8 * BLOCK, 'a');
		sync_now(f, DISK_SYNC_ALL);
		write_fill(f, 0, 8 * BLOCK, 'b');
		disk_cut(&disk);
		cr_assert_eq(f->size, 8 * BLOCK);
		for (unsigned i = 0; i < 8; i++) {
			uint8_t byte = block_byte(f, i);

			cr_assert(byte == 'a' || byte == 'b');
			fresh_blocks += byte == 'b';
		}
		lost += fresh_blocks == 0;
		kept += fresh_blocks == 8;
		torn += fresh_blocks > 0 && fresh_blocks < 8;
		finish(f);
	}
	cr_assert(lost > 100 && torn > 100 && kept > 100, "lost %u torn %u kept %u", lost, torn, kept);
}

Test(sim_disk, writes_of_one_block_survive_in_any_order)
{
	bool seen[256] = { false };

	for (unsigned seed = 0; seed < CUTS; seed++) {
		struct disk_file *f = fresh(seed);

		write_fill(f, 0, BLOCK, 'a');
		sync_now(f, DISK_SYNC_DATA);
		write_fill(f, 0, BLOCK, 'b');
		write_fill(f, 0, BLOCK, 'c');
		disk_cut(&disk);
		seen[block_byte(f, 0)] = true;
		finish(f);
	}
	cr_assert(seen['a'] && seen['b'] && seen['c']);
}

/* A sync covers what had completed when it was submitted, and promises nothing for what completed while it ran. */
Test(sim_disk, sync_covers_what_completed_before_its_submission)
{
	bool seen[256] = { false };

	for (unsigned seed = 0; seed < CUTS; seed++) {
		struct disk_file *f = fresh(seed);
		struct disk_sync s;

		write_fill(f, 0, BLOCK, 'a');
		disk_sync_begin(f, &s, 0, UINT64_MAX);
		write_fill(f, 0, 2 * BLOCK, 'b');
		disk_sync_end(f, &s, DISK_SYNC_ALL);
		disk_cut(&disk);
		cr_assert(f->size == BLOCK || f->size == 2 * BLOCK);
		cr_assert(block_byte(f, 0) == 'a' || block_byte(f, 0) == 'b');
		seen[block_byte(f, 0)] = true;
		finish(f);
	}
	cr_assert(seen['a'] && seen['b']);
}

/* Many rewrites while a sync runs: the version that the sync has to keep is not among those forgotten. */
Test(sim_disk, versions_are_not_forgotten_under_a_sync)
{
	for (unsigned seed = 0; seed < 200; seed++) {
		struct disk_file *f = fresh(seed);
		struct disk_sync s;

		for (unsigned i = 0; i < 100; i++)
			write_fill(f, 0, BLOCK, 'a');
		write_fill(f, 0, BLOCK, 'z');
		disk_sync_begin(f, &s, 0, UINT64_MAX);
		for (unsigned i = 0; i < 100; i++)
			write_fill(f, 0, BLOCK, 'z');
		disk_sync_end(f, &s, DISK_SYNC_DATA);
		disk_cut(&disk);
		cr_assert_eq(block_byte(f, 0), 'z');
		finish(f);
	}
}

Test(sim_disk, size_is_one_that_was_set_and_unwritten_reads_zero)
{
	unsigned sizes[4] = { 0 }, zeros = 0;

	for (unsigned seed = 0; seed < CUTS; seed++) {
		struct disk_file *f = fresh(seed);

		write_fill(f, 0, BLOCK, 'a');
		sync_now(f, DISK_SYNC_DATA);
		write_fill(f, BLOCK, BLOCK, 'b');
		write_fill(f, 2 * BLOCK, BLOCK, 'c');
		disk_cut(&disk);
		cr_assert(f->size >= BLOCK && f->size <= 3 * BLOCK && f->size % BLOCK == 0);
		sizes[f->size / BLOCK]++;
		cr_assert_eq(block_byte(f, 0), 'a');
		for (unsigned i = 1; i < f->size / BLOCK; i++) {
			uint8_t byte = block_byte(f, i);

			cr_assert(byte == 0 || byte == 'a' + i);
			zeros += byte == 0;
		}
		finish(f);
	}
	cr_assert(sizes[1] && sizes[2] && sizes[3] && zeros);
}

Test(sim_disk, bytes_past_the_surviving_size_never_come_back)
{
	for (unsigned seed = 0; seed < CUTS; seed++) {
		struct disk_file *f = fresh(seed);
		uint64_t size;

		write_fill(f, 0, 100, 'a');
		sync_now(f, DISK_SYNC_ALL);
		write_fill(f, 100, 4 * BLOCK, 'b');
		disk_cut(&disk);
		size = f->size;
		disk_truncate(f, 8 * BLOCK);
		for (uint64_t at = size; at < 8 * BLOCK; at++)
			cr_assert_eq(byte_at(f, at), 0);
		finish(f);
	}
}

/* Metadata goes through a journal in order: a size that was set after a truncate brings the truncate with it. */
Test(sim_disk, truncated_bytes_do_not_return_under_a_later_size)
{
	unsigned old_sizes = 0, new_sizes = 0;

	for (unsigned seed = 0; seed < CUTS; seed++) {
		struct disk_file *f = fresh(seed);

		write_fill(f, 0, 4 * BLOCK, 'a');
		sync_now(f, DISK_SYNC_ALL);
		disk_truncate(f, 100);
		write_fill(f, 3 * BLOCK, 3 * BLOCK, 'b');
		cr_assert_eq(byte_at(f, 99), 'a');
		cr_assert_eq(byte_at(f, 100), 0);
		cr_assert_eq(byte_at(f, 2 * BLOCK), 0);
		disk_cut(&disk);
		cr_assert(f->size == 4 * BLOCK || f->size == 100 || f->size == 6 * BLOCK);
		cr_assert_eq(byte_at(f, 99), 'a');
		if (f->size == 6 * BLOCK) {
			cr_assert_eq(byte_at(f, 100), 0);
			cr_assert_eq(block_byte(f, 1), 0);
			cr_assert(block_byte(f, 3) == 0 || block_byte(f, 3) == 'b');
		} else if (f->size == 4 * BLOCK) {
			cr_assert_eq(block_byte(f, 1), 'a');
			cr_assert_eq(block_byte(f, 3), 'a');
		}
		old_sizes += f->size == 4 * BLOCK;
		new_sizes += f->size == 6 * BLOCK;
		finish(f);
	}
	cr_assert(old_sizes && new_sizes);
}

Test(sim_disk, failed_sync_may_lose_for_good)
{
	unsigned lost = 0, kept = 0;

	for (unsigned seed = 0; seed < CUTS; seed++) {
		struct disk_file *f = fresh(seed);

		write_fill(f, 0, BLOCK, 'a');
		sync_now(f, DISK_SYNC_ALL);
		write_fill(f, 0, BLOCK, 'b');
		sync_now(f, DISK_SYNC_FAILED);
		cr_assert_eq(block_byte(f, 0), 'b');
		sync_now(f, DISK_SYNC_ALL);
		disk_cut(&disk);
		lost += block_byte(f, 0) == 'a';
		kept += block_byte(f, 0) == 'b';
		finish(f);
	}
	cr_assert(lost && kept);
}

/* The truncate is the journal's: the failed flush of data cannot undo it under a size that came later. */
Test(sim_disk, failed_sync_does_not_undo_a_truncate)
{
	for (unsigned seed = 0; seed < CUTS; seed++) {
		struct disk_file *f = fresh(seed);

		write_fill(f, 0, 2 * BLOCK, 'a');
		sync_now(f, DISK_SYNC_ALL);
		disk_truncate(f, 0);
		disk_truncate(f, 2 * BLOCK);
		sync_now(f, DISK_SYNC_FAILED);
		sync_now(f, DISK_SYNC_ALL);
		disk_cut(&disk);
		cr_assert_eq(f->size, 2 * BLOCK);
		cr_assert_eq(block_byte(f, 0), 0);
		cr_assert_eq(block_byte(f, 1), 0);
		finish(f);
	}
}

Test(sim_disk, times_need_a_full_sync)
{
	unsigned old = 0;

	for (unsigned seed = 0; seed < CUTS; seed++) {
		struct disk_file *f = fresh(seed);

		write_fill(f, 0, BLOCK, 'a');
		disk_set_times(f, (struct timespec){ .tv_sec = 2000 });
		sync_now(f, seed % 2 ? DISK_SYNC_ALL : DISK_SYNC_DATA);
		disk_cut(&disk);
		if (seed % 2)
			cr_assert_eq(f->times.mtime.tv_sec, 2000);
		old += f->times.mtime.tv_sec == 1000;
		finish(f);
	}
	cr_assert(old);
}

Test(sim_disk, holes_and_the_end_need_no_device)
{
	struct disk_file *f = fresh(1);
	uint8_t mem[4 * BLOCK];
	bool device;

	write_fill(f, 8 * BLOCK, BLOCK, 'x');
	memset(mem, 0xff, sizeof(mem));
	cr_assert_eq(disk_read(f, mem, sizeof(mem), BLOCK, &device), sizeof(mem));
	cr_assert_not(device);
	for (size_t i = 0; i < sizeof(mem); i++)
		cr_assert_eq(mem[i], 0);
	cr_assert_eq(disk_read(f, mem, sizeof(mem), 9 * BLOCK, &device), 0);
	cr_assert_not(device);
	cr_assert_eq(disk_read(f, mem, sizeof(mem), 8 * BLOCK + 1, &device), BLOCK - 1);
	cr_assert(device);
	finish(f);
}

Test(sim_disk, space_is_counted)
{
	struct disk_file *f;

	disk_init(&disk, BLOCK, 4 * BLOCK, 1);
	f = disk_open(&disk, 1, start);
	cr_assert_eq(disk_reserve(f, 100, 10 * BLOCK), 4 * BLOCK - 100);
	cr_assert_eq(disk_room(&disk), 0);
	cr_assert_eq(disk_missing(f, 0, 6 * BLOCK), 2);
	cr_assert_eq(disk_reserve(f, 0, 4 * BLOCK), 4 * BLOCK);
	write_fill(f, 0, 4 * BLOCK, 'a');
	disk_zero(f, BLOCK, 3 * BLOCK, true);
	cr_assert_eq(disk_room(&disk), 2);
	cr_assert_eq(block_byte(f, 1), 0);
	cr_assert_eq(block_byte(f, 3), 'a');
	disk_truncate(f, 0);
	cr_assert_eq(disk_room(&disk), 4);
	finish(f);
}

Test(sim_disk, an_extent_gets_its_space_or_none)
{
	struct disk_file *f;

	disk_init(&disk, BLOCK, 6 * BLOCK, 1);
	f = disk_open(&disk, 1, start);
	write_fill(f, 0, BLOCK, 'a');
	write_fill(f, 3 * BLOCK, BLOCK, 'a');
	cr_assert_eq(disk_reserve_whole(f, 10, 9 * BLOCK), 4 * BLOCK - 10, "the first hole has two blocks, the second would need five");
	cr_assert_eq(disk_room(&disk), 2);
	cr_assert_eq(disk_reserve_whole(f, 4 * BLOCK, 3 * BLOCK), 0);
	cr_assert_eq(disk_reserve_whole(f, 8 * BLOCK, 2 * BLOCK), 2 * BLOCK, "a small one fits where the large one did not");
	cr_assert_eq(disk_allocated_up_to(f, 8 * BLOCK + 1, 4 * BLOCK), 2 * BLOCK - 1);
	cr_assert_eq(disk_allocated_up_to(f, 8 * BLOCK + 1, BLOCK), BLOCK);
	cr_assert_eq(disk_allocated_up_to(f, 5 * BLOCK, BLOCK), 0);
	finish(f);
}

Test(sim_disk, others_take_space_and_give_it_back)
{
	struct disk_file *f;

	disk_init(&disk, BLOCK, 8 * BLOCK, 1);
	f = disk_open(&disk, 1, start);
	write_fill(f, 0, 2 * BLOCK, 'a');
	disk_set_room(&disk, 1);
	cr_assert_eq(disk_reserve(f, 0, 4 * BLOCK), 3 * BLOCK);
	cr_assert_eq(disk_room(&disk), 0);
	disk_truncate(f, BLOCK);
	cr_assert_eq(disk_room(&disk), 2, "what we give back is ours again");
	disk_set_room(&disk, 100);
	cr_assert_eq(disk_room(&disk), 7, "no more than the disk has");
	finish(f);
}

/* Random changes, syncs and cuts against the plainest model: per block a set of bytes that it may hold. */
Test(sim_disk, random_histories)
{
	for (unsigned seed = 0; seed < 300; seed++) {
		struct sim_random_state random = { seed };
		struct disk_file *f = fresh(seed);
		bool may[16][256] = { { false } };

		write_fill(f, 0, 16 * BLOCK, 1);
		sync_now(f, DISK_SYNC_ALL);
		for (unsigned i = 0; i < 16; i++)
			may[i][1] = true;
		for (unsigned round = 0; round < 60; round++) {
			unsigned at = sim_random_draw(&random, 16), n = 1 + sim_random_draw(&random, 16 - at);
			int byte = 1 + sim_random_draw(&random, 255);

			write_fill(f, at * BLOCK, n * BLOCK, byte);
			for (unsigned i = at; i < at + n; i++)
				may[i][byte] = true;
			if (sim_random_draw(&random, 8))
				continue;
			if (sim_random_draw(&random, 2))
				sync_now(f, DISK_SYNC_DATA);
			else
				disk_cut(&disk);
			for (unsigned i = 0; i < 16; i++) {
				uint8_t now = block_byte(f, i);

				cr_assert(may[i][now], "seed %u", seed);
				memset(may[i], 0, sizeof(may[i]));
				may[i][now] = true;
			}
		}
		finish(f);
	}
}

/* ---- what a cut may leave, listed ---- */

enum { SIZES_MAX = 64, BLOCKS = 4 };

static struct listed {
	uint64_t size[SIZES_MAX];
	bool may[SIZES_MAX][BLOCKS][256];
	unsigned sizes;
} listed;

static void list_survivor(void *arg, const struct sim_survivor *s)
{
	if (!listed.sizes || s->offset == 0) {
		unsigned same = listed.sizes && listed.size[listed.sizes - 1] == s->size;

		cr_assert_lt(listed.sizes, SIZES_MAX);
		listed.sizes += !same;
		listed.size[listed.sizes - 1] = s->size;
	}
	if (s->len)
		listed.may[listed.sizes - 1][s->offset / BLOCK][s->bytes ? s->bytes[0] : 0] = true;
}

static bool is_listed(const struct disk_file *f)
{
	for (unsigned i = 0; i < listed.sizes; i++) {
		bool fits = listed.size[i] == f->size;

		for (uint64_t at = 0; fits && at < f->size; at += BLOCK)
			fits = listed.may[i][at / BLOCK][byte_at(f, at)];
		if (fits)
			return true;
	}
	return false;
}

/* Random changes and syncs: whatever a cut then leaves was listed before it. */
Test(sim_disk, survivors_are_all_that_a_cut_leaves)
{
	for (uint64_t seed = 1; seed <= CUTS; seed++) {
		struct sim_random_state random = { seed };
		struct disk_file *f = fresh(seed);

		for (int i = 1; i <= 12; i++) {
			uint64_t what = sim_random_draw(&random, 8), block = sim_random_draw(&random, BLOCKS);

			if (what < 5)
				write_fill(f, block * BLOCK, (1 + sim_random_draw(&random, BLOCKS - block)) * BLOCK, i);
			else if (what < 7)
				disk_truncate(f, block * BLOCK);
			else
				sync_now(f, DISK_SYNC_ALL);
		}
		memset(&listed, 0, sizeof(listed));
		disk_survivors(f, list_survivor, NULL);
		disk_cut(&disk);
		cr_assert(is_listed(f), "seed %lu: a cut left what was not listed", (unsigned long)seed);
		finish(f);
	}
}

/* A copy takes changes without the original; equal states have equal hashes, and others not. */
Test(sim_disk, copy_and_hash)
{
	struct disk_file *f = fresh(1), *copy;
	struct disk other;
	uint64_t hash;

	write_fill(f, 0, 2 * BLOCK, 1);
	hash = disk_hash(&disk);
	copy = disk_copy(f, &other);
	write_fill(copy, 0, 3 * BLOCK, 2);
	disk_check(copy);
	cr_assert_eq(copy->size, 3 * BLOCK);
	disk_copy_fini(copy);
	cr_assert_eq(f->size, 2 * BLOCK);
	cr_assert_eq(block_byte(f, 0), 1);
	cr_assert_eq(disk_hash(&disk), hash);
	sync_now(f, DISK_SYNC_ALL);
	cr_assert_neq(disk_hash(&disk), hash, "durable or not is a difference");
	finish(f);
}
