/*
 * tests/unit/guard.h - a copy of a message whose last byte is the last byte of a page before an inaccessible one: an over-read by one byte is a crash in
 * every build, not only under AddressSanitizer.
 *
 * The mapping is the test's until guard_free(); Criterion's fork takes what a failing test leaves.
 */
#ifndef TESTS_UNIT_GUARD_H
#define TESTS_UNIT_GUARD_H

#include <assert.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { GUARD_PAGE = 4096 };

struct guard {
	uint8_t *map;
	size_t map_len;
};

/* Where len bytes stand that end at the guard. */
static inline uint8_t *guard_bytes(struct guard *g, size_t len)
{
	size_t body = (len + GUARD_PAGE - 1) / GUARD_PAGE * GUARD_PAGE;

	g->map_len = body + GUARD_PAGE;
	g->map = mmap(NULL, g->map_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert(g->map != MAP_FAILED);
	assert(mprotect(g->map + body, GUARD_PAGE, PROT_NONE) == 0);
	return g->map + body - len;
}

static inline const uint8_t *guard_copy(struct guard *g, const void *src, size_t len)
{
	uint8_t *p = guard_bytes(g, len);

	if (len)
		memcpy(p, src, len);
	return p;
}

static inline void guard_free(struct guard *g) { assert(munmap(g->map, g->map_len) == 0); }

#endif
