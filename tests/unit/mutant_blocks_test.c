/*
 * tests/unit/mutant_blocks_test.c - bits and byte ranges by themselves, where nothing above them would notice a bug for long. Mutants of tests/mutants/LIST that only
 * these tests, or only many seeds of the simulation, see are named with each.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "iocache/blocks.h"
#include "iocache/byteset.h"

/* blocks-next-skips-the-second-words-start, blocks-next-beyond-its-limit: each start, each limit, over both words, against the plain loop. */
Test(mutant_blocks, next_is_the_next_over_words)
{
	uint64_t bits[BLOCKS_WORDS] = { 0 };

	for (unsigned i = 0; i < BLOCKS_MAX; i += 1 + i % 7)
		bits_set(bits, i, i + 1);
	for (unsigned from = 0; from <= BLOCKS_MAX; from++)
		for (unsigned limit = from; limit <= BLOCKS_MAX; limit++)
			for (unsigned set = 0; set < 2; set++) {
				unsigned want = from;

				while (want < limit && (bits[want / 64] >> want % 64 & 1) != set)
					want++;
				cr_assert_eq(bits_next(bits, from, limit, set), want, "from %u limit %u set %u", from, limit, set);
			}
	cr_assert_not(bits_all(bits, 0, 2 * 64));
	bits_set(bits, 60, 70);
	cr_assert(bits_all(bits, 60, 70));
	bits_clear(bits, 63, 65);
	cr_assert(bits_all(bits, 60, 63) && bits_all(bits, 65, 70) && !bits_all(bits, 62, 64) && !bits_all(bits, 64, 66));
}

/* blocks-slice-*: each kind of bit comes along, from its place. */
Test(mutant_blocks, a_slice_has_the_state_of_its_blocks)
{
	struct blocks *b = blocks_alloc(512, BLOCKS_MAX, true, false), *s;

	bits_clear(b->uptodate, 70, 72);
	bits_set(b->dirty, 66, 68);
	bits_set(b->flight, 72, 75);
	s = blocks_slice(b, 62, 20);
	cr_assert_eq(s->bytes, 512);
	cr_assert_eq(s->count, 20);
	for (unsigned i = 0; i < 20; i++) {
		cr_assert_eq(bits_all(s->uptodate, i, i + 1), i != 8 && i != 9);
		cr_assert_eq(bits_all(s->dirty, i, i + 1), i == 4 || i == 5);
		cr_assert_eq(bits_all(s->flight, i, i + 1), i >= 10 && i < 13);
	}
	cr_assert_eq(bits_next(s->uptodate, 20, BLOCKS_MAX, true), BLOCKS_MAX);
	free(s);
	free(b);
}

Test(mutant_blocks, bits_that_move_are_gone_where_they_were)
{
	uint64_t to[BLOCKS_WORDS] = { 1, 0 }, from[BLOCKS_WORDS] = { 2, 1ull << 63 };

	bits_move(to, from);
	cr_assert(to[0] == 3 && to[1] == 1ull << 63 && !from[0] && !from[1]);
}

/* byteset-gap-beyond-its-limit, byteset-clip-*, byteset-covers-*: against a map of bytes. */
Test(mutant_blocks, ranges_are_what_a_map_of_bytes_says)
{
	enum { BYTES = 64 };

	srand(1);
	for (unsigned round = 0; round < 2000; round++) {
		struct byteset s = { 0 };
		bool map[BYTES] = { false };

		for (unsigned k = 0; k < 6; k++) {
			uint32_t start = (uint32_t)rand() % BYTES, end = start + (uint32_t)rand() % (BYTES - start);

			if (!byteset_add(&s, start, end))
				continue;
			for (uint32_t i = start; i < end; i++)
				map[i] = true;
		}
		if (round % 2) {
			uint32_t cut = (uint32_t)rand() % BYTES;

			byteset_clip(&s, cut);
			memset(map + cut, 0, sizeof map - cut);
		}
		byteset_check(&s);
		for (uint32_t from = 0; from < BYTES; from++) {
			uint32_t limit = from + (uint32_t)rand() % (BYTES - from), at = from, end;
			struct byterange gap;

			while (at < limit && map[at])
				at++;
			for (end = at; end < limit && !map[end];)
				end++;
			cr_assert_eq(byteset_gap(&s, from, limit, &gap), at < limit);
			if (at < limit)
				cr_assert(gap.start == at && gap.end == end);
			cr_assert_eq(byteset_covers(&s, from, limit), at == limit);
		}
	}
}

/* byteset-forgets-the-largest: at its bound a set forgets the smallest range, or what is smaller still. */
Test(mutant_blocks, a_full_set_forgets_its_smallest_range)
{
	struct byteset s = { 0 };

	for (uint32_t i = 0; i < BYTESET_RANGES; i++)
		cr_assert(byteset_add(&s, i * 100, i * 100 + 50 - i)); /* the last is the smallest */
	byteset_add_lossy(&s, 900, 910);
	cr_assert(!byteset_covers(&s, 900, 901));
	byteset_add_lossy(&s, 900, 980);
	byteset_check(&s);
	cr_assert(byteset_covers(&s, 900, 980) && !byteset_covers(&s, 500, 501));
	for (uint32_t i = 0; i < BYTESET_RANGES - 1; i++)
		cr_assert(byteset_covers(&s, i * 100, i * 100 + 50 - i));
}
