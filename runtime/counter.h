/*
 * runtime/counter.h - counters: one row per reactor (and one for all other threads), added without atomics' cost, summed by the reader.
 *
 * A counter is a file-scope `struct counter`; COUNTER_DEFINE registers it by name ("write.syncs", "cache.edges.open") before main().
 */
#ifndef RUNTIME_COUNTER_H
#define RUNTIME_COUNTER_H

#include <stdio.h>

#include "runtime/base.h"

enum { COUNTER_ROWS = 65 }; /* reactors 0...63, everybody else */

struct counter {
	const char *name;
	struct counter *next;
	struct { _Atomic int64_t value; char pad[56]; } row[COUNTER_ROWS];
};

void counter_register(struct counter *c);
noyield_fn void counter_add(struct counter *c, int64_t n);
int64_t counter_read(const struct counter *c);
/* By name; 0 if there is none (tests). */
int64_t counter_value(const char *name);
void counter_dump(FILE *out);

#define COUNTER_DEFINE(var, text) \
	static struct counter var = { .name = (text) }; \
	__attribute__((constructor)) static void var##_register(void) { counter_register(&var); } \
	struct counter

#endif
