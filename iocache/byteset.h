/*
 * iocache/byteset.h - which bytes of a unit: a short sorted list of disjoint ranges. Pure values, no locks.
 *
 * Interleaved records leave one or two ranges in a unit; the list's length is bounded, and each operation says what it does at the bound.
 */
#ifndef IOCACHE_BYTESET_H
#define IOCACHE_BYTESET_H

#include "runtime/base.h"

enum { BYTESET_RANGES = 6 };

struct byteset {
	uint32_t count;
	struct byterange {
		uint32_t start, end; /* [start, end), start < end */
	} range[BYTESET_RANGES];
};

/* Add [start, end). False, and unchanged, if the list would grow beyond its bound. */
noyield_fn bool byteset_add(struct byteset *s, uint32_t start, uint32_t end);
/* Add [start, end); at the bound forget the smallest range instead: the set then claims less than was given, never more. */
noyield_fn void byteset_add_lossy(struct byteset *s, uint32_t start, uint32_t end);
noyield_fn void byteset_set(struct byteset *s, uint32_t start, uint32_t end); /* exactly [start, end); empty if equal */
noyield_fn bool byteset_covers(const struct byteset *s, uint32_t start, uint32_t end);
/* Remove everything at or after `end`. */
noyield_fn void byteset_clip(struct byteset *s, uint32_t end);
/* The first gap at or after `from` below `limit`; false if there is none. */
noyield_fn bool byteset_gap(const struct byteset *s, uint32_t from, uint32_t limit, struct byterange *gap);
/* Smallest range that holds the whole set; start == end: empty. */
noyield_fn struct byterange byteset_hull(const struct byteset *s);
noyield_fn void byteset_check(const struct byteset *s);

#endif
