/*
 * iocache/blocks.h - the state of a folio larger than a unit, a bit per block: up to date, dirty, under way to the device. Pure values, no locks. (WRITE_PATH 4)
 *
 * A folio without it is whole: all of it is up to date, and all of it dirty if the folio is. The first write of a part attaches a state that says so.
 */
#ifndef IOCACHE_BLOCKS_H
#define IOCACHE_BLOCKS_H

#include "runtime/base.h"

enum { BLOCKS_MAX = 128, BLOCKS_WORDS = BLOCKS_MAX / 64 };

struct blocks {
	uint32_t bytes;  /* of a block */
	uint32_t count;
	uint64_t uptodate[BLOCKS_WORDS];
	uint64_t dirty[BLOCKS_WORDS];  /* not on the device and not under way; a subset of uptodate */
	uint64_t flight[BLOCKS_WORDS]; /* under way; neither dirty nor forgotten until the run has ended */
};

/* NULL: no memory. `uptodate` and `dirty` are of all blocks. */
noyield_fn struct blocks *blocks_alloc(uint32_t bytes, uint32_t count, bool uptodate, bool dirty);
/* The `count` blocks of b from `first` on become those of a state of its own. NULL: no memory. */
noyield_fn struct blocks *blocks_slice(const struct blocks *b, uint32_t first, uint32_t count);

noyield_fn void bits_set(uint64_t *bits, uint32_t from, uint32_t to);
noyield_fn void bits_clear(uint64_t *bits, uint32_t from, uint32_t to);
/* All of [from, to). */
noyield_fn bool bits_all(const uint64_t *bits, uint32_t from, uint32_t to);
/* The first at or after `from` below `limit` that is `set`; limit: none. */
noyield_fn uint32_t bits_next(const uint64_t *bits, uint32_t from, uint32_t limit, bool set);
static inline bool bits_any(const uint64_t *bits, uint32_t count) { return bits_next(bits, 0, count, true) < count; }
/* to |= from, from = 0 */
noyield_fn void bits_move(uint64_t *to, uint64_t *from);

#endif
