/* tests/model/explore.c - see explore.h. The set of hashes is open-addressed and grows; 64 bits are taken to tell states apart. */
#include "tests/model/explore.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"

struct choice {
	uint16_t taken, of;
};

static struct {
	const struct explore_program *program;
	struct explore_result *result;
	struct choice path[EXPLORE_DEPTH_MAX];
	unsigned len;      /* of the path to explore */
	unsigned depth;    /* in this execution */
	bool pruned, replaying;
} x;

static struct {
	uint64_t *slot;    /* 0: free */
	size_t size, used;
} seen;

static bool seen_insert(uint64_t hash)
{
	size_t i = hash & (seen.size - 1);

	while (seen.slot[i] && seen.slot[i] != hash)
		i = (i + 1) & (seen.size - 1);
	if (seen.slot[i])
		return false;
	seen.slot[i] = hash;
	seen.used++;
	return true;
}

static void seen_resize(size_t size)
{
	uint64_t *old = seen.slot;
	size_t old_size = seen.size;

	seen.slot = calloc(size, sizeof *seen.slot);
	ASSERT(seen.slot);
	seen.size = size;
	seen.used = 0;
	for (size_t i = 0; i < old_size; i++)
		if (old[i])
			seen_insert(old[i]);
	free(old);
}

static void seen_clear(void)
{
	if (!seen.slot || seen.size > 1 << 16) {
		free(seen.slot);
		seen.slot = NULL;
		seen.size = 0;
		seen_resize(1 << 12);
	}
	memset(seen.slot, 0, seen.size * sizeof *seen.slot);
	seen.used = 0;
}

/* The state is new, as far as anybody can tell. */
static bool is_new(void)
{
	if (!x.program->hash)
		return true;
	if (2 * seen.used >= seen.size)
		seen_resize(4 * seen.size);
	return seen_insert(x.program->hash() | 1);
}

static unsigned extend(unsigned n)
{
	if (!x.replaying && !is_new()) {
		x.pruned = true;
		return 0;
	}
	x.result->states++;
	ASSERT(x.depth < EXPLORE_DEPTH_MAX);
	x.path[x.depth] = (struct choice){ .taken = 0, .of = (uint16_t)n };
	x.len = ++x.depth;
	if (x.depth > x.result->depth_max)
		x.result->depth_max = x.depth;
	return 0;
}

unsigned explore_choose(unsigned n)
{
	bool is_known = x.depth < x.len;

	if (x.pruned)
		return 0;
	if (!is_known || x.replaying) {
		x.result->steps++;
		x.program->check();
	}
	if (n == 1)
		return 0;
	if (!is_known)
		return extend(n);
	if (x.replaying)
		x.path[x.depth].of = (uint16_t)n;
	ASSERT(x.path[x.depth].of == n); /* or the program has a freedom that nobody asked about */
	return x.path[x.depth++].taken;
}

bool explore_is_pruned(void)
{
	return x.pruned;
}

static void run_once(void)
{
	x.depth = 0;
	x.pruned = false;
	x.result->executions++;
	x.program->run();
}

/* The next path in order; false: there is none. */
static bool advance(void)
{
	while (x.len && x.path[x.len - 1].taken + 1 == x.path[x.len - 1].of)
		x.len--;
	if (!x.len)
		return false;
	x.path[x.len - 1].taken++;
	return true;
}

void explore(const struct explore_program *program, struct explore_result *result)
{
	*result = (struct explore_result){ 0 };
	x.program = program;
	x.result = result;
	x.len = 0;
	x.replaying = false;
	seen_clear();
	do {
		if (program->executions_max && result->executions == program->executions_max)
			return;
		run_once();
	} while (advance());
	result->complete = true;
}

const char *explore_path(void)
{
	static char text[EXPLORE_DEPTH_MAX * 4 + 1];
	size_t at = 0;

	for (unsigned i = 0; i < x.depth && at + 5 < sizeof text; i++)
		at += (size_t)snprintf(text + at, sizeof text - at, "%s%u", i ? "," : "", x.path[i].taken);
	text[at] = 0;
	return text;
}

void explore_replay(const struct explore_program *program, const char *path)
{
	static struct explore_result result;

	x.program = program;
	x.result = &result;
	x.replaying = true;
	x.len = 0;
	while (*path && x.len < EXPLORE_DEPTH_MAX) {
		char *end;

		x.path[x.len++].taken = (uint16_t)strtoul(path, &end, 10);
		path = *end == ',' ? end + 1 : end;
	}
	run_once();
}
