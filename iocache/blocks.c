/* iocache/blocks.c - see blocks.h. At most 128 blocks: loops over bits, no cleverness, except for the next one. */
#include "iocache/blocks.h"

#include <stdlib.h>

#include "runtime/fault.h"

noyield_fn struct blocks *blocks_alloc(uint32_t bytes, uint32_t count, bool uptodate, bool dirty)
{
	struct blocks *b;

	ASSERT(count > 0 && count <= BLOCKS_MAX);
	b = fault_hit(FAULT_FOLIO_ALLOC) ? NULL : calloc(1, sizeof *b);
	if (!b)
		return NULL;
	b->bytes = bytes;
	b->count = count;
	if (uptodate)
		bits_set(b->uptodate, 0, count);
	if (dirty)
		bits_set(b->dirty, 0, count);
	return b;
}

static void copy_bits(uint64_t *to, const uint64_t *from, uint32_t first, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (bits_all(from, first + i, first + i + 1))
			bits_set(to, i, i + 1);
}

noyield_fn struct blocks *blocks_slice(const struct blocks *b, uint32_t first, uint32_t count)
{
	struct blocks *slice = blocks_alloc(b->bytes, count, false, false);

	if (!slice)
		return NULL;
	copy_bits(slice->uptodate, b->uptodate, first, count);
	copy_bits(slice->dirty, b->dirty, first, count);
	copy_bits(slice->flight, b->flight, first, count);
	return slice;
}

noyield_fn void bits_set(uint64_t *bits, uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to; i++)
		bits[i / 64] |= 1ull << i % 64;
}

noyield_fn void bits_clear(uint64_t *bits, uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to; i++)
		bits[i / 64] &= ~(1ull << i % 64);
}

noyield_fn bool bits_all(const uint64_t *bits, uint32_t from, uint32_t to)
{
	return bits_next(bits, from, to, false) == to;
}

noyield_fn uint32_t bits_next(const uint64_t *bits, uint32_t from, uint32_t limit, bool set)
{
	while (from < limit) {
		uint64_t word = (set ? bits[from / 64] : ~bits[from / 64]) >> from % 64;

		if (word)
			return (uint32_t)min_u64(from + (uint32_t)__builtin_ctzll(word), limit);
		from = (from / 64 + 1) * 64;
	}
	return limit;
}

noyield_fn void bits_move(uint64_t *to, uint64_t *from)
{
	for (int i = 0; i < BLOCKS_WORDS; i++) {
		to[i] |= from[i];
		from[i] = 0;
	}
}
