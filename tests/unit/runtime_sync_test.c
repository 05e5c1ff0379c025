/*
 * Fiber locks: order, exclusion across reactors, and a model of the range lock. The stress tests run two reactors whose fibers yield and wait at
 * random inside and outside of the locks; plain variables guarded by the lock let ThreadSanitizer see a missing happens-before too.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/clock.h"
#include "runtime/sync.h"
#include "tests/unit/runtime_harness.h"

enum { REACTORS = 2, FIBERS = 24, ROUNDS = 300 };

static const struct reactor_config two = { .reactors = REACTORS, .fibers = 64 };

static char trail[64];

static void mark(char c)
{
	size_t len = strlen(trail);

	ASSERT(len < sizeof(trail) - 1);
	trail[len] = c;
	trail[len + 1] = '\0';
}

static void spawn(fiber_main *fn, void *arg)
{
	int err = fiber_spawn(fn, arg, "test");

	ASSERT(err == 0);
}

/* Ends the run when the last of all stress fibers is done. */
static _Atomic unsigned left;

static void one_done(void)
{
	if (atomic_fetch_sub(&left, 1) == 1)
		runtime_stop();
}

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void pause_randomly(uint64_t *state)
{
	switch (next_random(state) % 8) {
	case 0:
		fiber_sleep_ns(next_random(state) % 20000);
		break;
	case 1:
	case 2:
		fiber_yield();
		break;
	case 3:
		fiber_yield_idle();
		break;
	default:
		break;
	}
}

static void (*stress_fiber)(uint64_t *random);

static void stress_main(void *arg)
{
	uint64_t random = (uintptr_t)arg * 0x9e3779b97f4a7c15u + 1;

	for (unsigned i = 0; i < ROUNDS; i++)
		stress_fiber(&random);
	one_done();
}

static void stress_start(void *arg, unsigned index)
{
	for (unsigned i = 0; i < FIBERS; i++)
		spawn(stress_main, (void *)(uintptr_t)(index * FIBERS + i + 1));
}

static void stress(void (*fn)(uint64_t *random))
{
	stress_fiber = fn;
	left = REACTORS * FIBERS;
	harness_run(&two, stress_start, NULL);
}

/* Mutex. */

static struct fiber_mutex mutex;
static unsigned inside, total;

static void mutex_round(uint64_t *random)
{
	if (next_random(random) % 4 || !fiber_mutex_trylock(&mutex))
		fiber_mutex_lock(&mutex);
	ASSERT(inside++ == 0);
	pause_randomly(random);
	ASSERT(inside-- == 1);
	total++;
	fiber_mutex_unlock(&mutex);
	pause_randomly(random);
}

Test(mutex, excludes_across_reactors)
{
	fiber_mutex_init(&mutex);
	stress(mutex_round);
	fiber_mutex_fini(&mutex);
	cr_assert_eq(total, REACTORS * FIBERS * ROUNDS);
}

static void mutex_mark(void *arg)
{
	fiber_mutex_lock(&mutex);
	mark((char)(uintptr_t)arg);
	fiber_mutex_unlock(&mutex);
}

static void mutex_fifo(void)
{
	fiber_mutex_init(&mutex);
	fiber_mutex_lock(&mutex);
	for (char c = 'a'; c <= 'e'; c++)
		spawn(mutex_mark, (void *)(uintptr_t)c);
	fiber_yield();
	fiber_mutex_unlock(&mutex);
	ASSERT(!fiber_mutex_trylock(&mutex)); /* it is 'a's already */
	fiber_mutex_lock(&mutex);
	mark('!');
	fiber_mutex_unlock(&mutex);
	fiber_mutex_fini(&mutex);
}

Test(mutex, is_fair)
{
	harness_run_one(0, mutex_fifo);
	cr_assert_str_eq(trail, "abcde!");
}

/* Reader-writer lock. */

static struct fiber_rwlock rwlock;
static _Atomic int readers_inside, writers_inside;
static unsigned guarded;

static void rwlock_round(uint64_t *random)
{
	if (next_random(random) % 4 == 0) {
		fiber_rwlock_wrlock(&rwlock);
		ASSERT(writers_inside++ == 0 && readers_inside == 0);
		guarded++;
		pause_randomly(random);
		writers_inside--;
	} else {
		fiber_rwlock_rdlock(&rwlock);
		readers_inside++;
		ASSERT(writers_inside == 0);
		total = guarded > total ? total : total;
		pause_randomly(random);
		readers_inside--;
	}
	fiber_rwlock_unlock(&rwlock);
}

Test(rwlock, excludes_across_reactors)
{
	fiber_rwlock_init(&rwlock);
	stress(rwlock_round);
	fiber_rwlock_fini(&rwlock);
	cr_assert_gt(guarded, 0);
}

static void read_mark(void *arg)
{
	fiber_rwlock_rdlock(&rwlock);
	mark((char)(uintptr_t)arg);
	fiber_yield();
	mark((char)(uintptr_t)arg);
	fiber_rwlock_unlock(&rwlock);
}

static void write_mark(void *arg)
{
	fiber_rwlock_wrlock(&rwlock);
	mark((char)(uintptr_t)arg);
	fiber_yield();
	mark((char)(uintptr_t)arg);
	fiber_rwlock_unlock(&rwlock);
}

static void rwlock_order(void)
{
	fiber_rwlock_init(&rwlock);
	fiber_rwlock_rdlock(&rwlock);
	spawn(read_mark, (void *)'a');
	spawn(write_mark, (void *)'W');
	spawn(read_mark, (void *)'b'); /* must not pass the writer */
	spawn(read_mark, (void *)'c');
	fiber_yield();
	fiber_rwlock_unlock(&rwlock);
	fiber_rwlock_wrlock(&rwlock);
	fiber_rwlock_unlock(&rwlock);
	fiber_rwlock_fini(&rwlock);
}

Test(rwlock, readers_share_and_nobody_passes_a_waiter)
{
	harness_run_one(0, rwlock_order);
	cr_assert_str_eq(trail, "aaWWbcbc");
}

/* Conditions. */

static struct leaf_lock leaf = LEAF_LOCK_INIT;
static struct fiber_cond cond = { .waiters = TAILQ_HEAD_INITIALIZER(cond.waiters) };
static unsigned tokens, made, taken;

/* Half of the fibers make tokens, half take them, some with a deadline so short that it crosses the signal. */
static void cond_round(uint64_t *random)
{
	leaf_lock(&leaf);
	if (made < REACTORS * FIBERS * ROUNDS / 2 && next_random(random) % 2) {
		made++;
		tokens++;
		fiber_cond_signal_locked(&cond);
	} else {
		uint64_t deadline = clock_mono_ns() + next_random(random) % 30000;
		int err = 0;

		while (!tokens && !err)
			err = fiber_cond_wait_until(&cond, &leaf, "token", deadline);
		if (tokens) {
			tokens--;
			taken++;
		}
	}
	leaf_unlock(&leaf);
	pause_randomly(random);
}

Test(cond, signals_and_deadlines_cross_reactors)
{
	stress(cond_round);
	cr_assert_eq(made, taken + tokens);
	cr_assert(TAILQ_EMPTY(&cond.waiters));
}

static void cond_mark(void *arg)
{
	leaf_lock(&leaf);
	fiber_cond_wait(&cond, &leaf, "test");
	leaf_unlock(&leaf);
	mark((char)(uintptr_t)arg);
}

static void cond_order(void)
{
	int err;

	for (char c = 'a'; c <= 'd'; c++)
		spawn(cond_mark, (void *)(uintptr_t)c);
	fiber_yield();
	leaf_lock(&leaf);
	fiber_cond_signal_locked(&cond);
	leaf_unlock(&leaf);
	fiber_yield();
	mark('!');
	leaf_lock(&leaf);
	fiber_cond_broadcast_locked(&cond);
	fiber_cond_signal_locked(&cond); /* nobody: lost */
	err = fiber_cond_wait_until(&cond, &leaf, "test", clock_mono_ns() + 1000000);
	leaf_unlock(&leaf);
	ASSERT(err == -ETIMEDOUT);
}

Test(cond, wakes_in_order)
{
	harness_run_one(0, cond_order);
	cr_assert_str_eq(trail, "a!bcd");
}

/* Range lock. The model: how many hold each of a few cells, shared or exclusive; an exclusive holder must be alone in all its cells. */

enum { CELLS = 16 };
static struct fiber_rangelock range;
static _Atomic int shared[CELLS], exclusive[CELLS];
static unsigned plain[CELLS]; /* written under exclusive locks only */

static void enter_cells(const struct range_hold *hold)
{
	for (uint64_t i = hold->start; i < hold->end; i++) {
		if (hold->exclusive) {
			ASSERT(exclusive[i]++ == 0 && shared[i] == 0);
			plain[i]++;
		} else {
			shared[i]++;
			ASSERT(exclusive[i] == 0);
			ASSERT(plain[i] < UINT32_MAX);
		}
	}
}

static void leave_cells(const struct range_hold *hold)
{
	for (uint64_t i = hold->start; i < hold->end; i++) {
		if (hold->exclusive)
			exclusive[i]--;
		else
			shared[i]--;
	}
}

static void range_round(uint64_t *random)
{
	uint64_t start = next_random(random) % CELLS;
	uint64_t end = start + next_random(random) % (CELLS - start + 1);
	enum range_mode mode = next_random(random) % 2 ? RANGE_EXCLUSIVE : RANGE_SHARED;
	struct range_hold hold;

	if (next_random(random) % 4 || !fiber_rangelock_trylock(&range, &hold, start, end, mode))
		fiber_rangelock_lock(&range, &hold, start, end, mode);
	enter_cells(&hold);
	pause_randomly(random);
	leave_cells(&hold);
	fiber_rangelock_unlock(&range, &hold);
}

Test(rangelock, matches_the_model_across_reactors)
{
	fiber_rangelock_init(&range);
	stress(range_round);
	fiber_rangelock_fini(&range);
}

struct range_want {
	char name;
	uint64_t start, end;
	enum range_mode mode;
};

static void range_mark(void *arg)
{
	const struct range_want *want = arg;
	struct range_hold hold;

	fiber_rangelock_lock(&range, &hold, want->start, want->end, want->mode);
	mark(want->name);
	fiber_yield();
	fiber_rangelock_unlock(&range, &hold);
}

static void range_order(void)
{
	static struct range_want wants[] = {
		{ 'a', 0, 10, RANGE_EXCLUSIVE },  /* waits for us */
		{ 'b', 20, 30, RANGE_EXCLUSIVE }, /* free: at once */
		{ 'c', 8, 9, RANGE_SHARED },      /* not held by anybody, but 'a' came before */
		{ 'd', 10, 11, RANGE_SHARED },    /* beside it: at once */
		{ 'e', 8, 9, RANGE_SHARED },      /* together with 'c' */
	};
	struct range_hold hold, tried;

	fiber_rangelock_init(&range);
	fiber_rangelock_lock(&range, &hold, 0, 5, RANGE_SHARED);
	for (unsigned i = 0; i < ARRAY_SIZE(wants); i++)
		spawn(range_mark, &wants[i]);
	fiber_yield();
	ASSERT(!fiber_rangelock_trylock(&range, &tried, 9, 10, RANGE_SHARED)); /* 'a' waits for it */
	ASSERT(fiber_rangelock_trylock(&range, &tried, 11, UINT64_MAX / 2, RANGE_SHARED) == false); /* 'b' holds a part */
	fiber_rangelock_unlock(&range, &hold);
	fiber_rangelock_lock(&range, &hold, 0, UINT64_MAX, RANGE_EXCLUSIVE);
	mark('!');
	fiber_rangelock_unlock(&range, &hold);
	fiber_rangelock_fini(&range);
}

Test(rangelock, is_fair_among_those_that_conflict)
{
	harness_run_one(0, range_order);
	cr_assert_str_eq(trail, "bdace!");
}
