/*
 * runtime/counter.c - counters, one row per reactor.
 *
 * A reactor is the only writer of its row, so a relaxed load and store do; the last row is shared by all other threads and takes a real atomic
 * add. The list of counters is built by constructors, before there is a second thread, and never changes afterwards.
 */
#include "runtime/counter.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "runtime/reactor.h"

static struct counter *counters;

void counter_register(struct counter *c)
{
	struct counter **at = &counters;

	while (*at && strcmp((*at)->name, c->name) < 0)
		at = &(*at)->next;
	c->next = *at;
	*at = c;
}

void counter_add(struct counter *c, int64_t n)
{
	_Atomic int64_t *value;

	if (!reactor_self()) {
		atomic_fetch_add_explicit(&c->row[COUNTER_ROWS - 1].value, n, memory_order_relaxed);
		return;
	}
	value = &c->row[reactor_index()].value;
	atomic_store_explicit(value, atomic_load_explicit(value, memory_order_relaxed) + n, memory_order_relaxed);
}

int64_t counter_read(const struct counter *c)
{
	int64_t sum = 0;

	for (unsigned i = 0; i < COUNTER_ROWS; i++)
		sum += atomic_load_explicit(&c->row[i].value, memory_order_relaxed);
	return sum;
}

int64_t counter_value(const char *name)
{
	int64_t sum = 0;

	/* The same name may stand in several files. */
	for (struct counter *c = counters; c; c = c->next)
		if (strcmp(c->name, name) == 0)
			sum += counter_read(c);
	return sum;
}

void counter_dump(FILE *out)
{
	for (struct counter *c = counters; c; c = c->next)
		fprintf(out, "%s %" PRId64 "\n", c->name, counter_read(c));
}
