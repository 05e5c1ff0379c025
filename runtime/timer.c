/*
 * runtime/timer.c - the reactor's timers: a binary heap of the callers' structs, from index 1, so that 0 can say "not armed".
 *
 * Home reactor only. The heap's array grows by doubling and never shrinks.
 */
#include <stdlib.h>

#include "runtime/internal.h"

enum { HEAP_FIRST = 64 };

static void place(struct reactor *r, unsigned i, struct timer *t)
{
	r->heap[i] = t;
	t->heap_index = i;
}

static void sift_up(struct reactor *r, unsigned i, struct timer *t)
{
	while (i > 1 && r->heap[i / 2]->expires_ns > t->expires_ns) {
		place(r, i, r->heap[i / 2]);
		i /= 2;
	}
	place(r, i, t);
}

static void sift_down(struct reactor *r, unsigned i, struct timer *t)
{
	while (2 * i <= r->heap_len) {
		unsigned child = 2 * i;

		if (child < r->heap_len && r->heap[child + 1]->expires_ns < r->heap[child]->expires_ns)
			child++;
		if (r->heap[child]->expires_ns >= t->expires_ns)
			break;
		place(r, i, r->heap[child]);
		i = child;
	}
	place(r, i, t);
}

static void grow(struct reactor *r)
{
	unsigned capacity = r->heap_capacity ? 2 * r->heap_capacity : HEAP_FIRST;
	struct timer **heap = realloc(r->heap, (capacity + 1) * sizeof(*heap));

	ASSERT(heap);
	r->heap = heap;
	r->heap_capacity = capacity;
}

void timer_arm(struct timer *t, uint64_t expires_ns)
{
	struct reactor *r = reactor_here;

	ASSERT(r);
	timer_disarm(t);
	if (r->heap_len == r->heap_capacity)
		grow(r);
	t->expires_ns = expires_ns;
	sift_up(r, ++r->heap_len, t);
}

void timer_disarm(struct timer *t)
{
	struct reactor *r = reactor_here;
	unsigned i = t->heap_index;
	struct timer *last;

	if (!i)
		return;
	ASSERT(r);
	ASSERT(i <= r->heap_len && r->heap[i] == t);
	t->heap_index = 0;
	last = r->heap[r->heap_len--];
	if (last == t)
		return;
	if (i > 1 && r->heap[i / 2]->expires_ns > last->expires_ns)
		sift_up(r, i, last);
	else
		sift_down(r, i, last);
}

/* What fn() arms anew for a time that has passed waits for the next turn: it must not hold up the loop. */
void timers_expire(struct reactor *r)
{
	unsigned most = r->heap_len;

	while (r->heap_len && most-- && r->heap[1]->expires_ns <= r->now_ns) {
		struct timer *t = r->heap[1];

		timer_disarm(t);
		t->fn(t);
	}
}

void timers_clear(struct reactor *r)
{
	for (unsigned i = 1; i <= r->heap_len; i++)
		r->heap[i]->heap_index = 0;
	r->heap_len = 0;
}
