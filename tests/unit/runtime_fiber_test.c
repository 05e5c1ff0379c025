/* Fibers: order, parking, deadlines, bounds, and what must abort. */
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/clock.h"
#include "runtime/counter.h"
#include "runtime/fault.h"
#include "runtime/sync.h"
#include "tests/unit/runtime_harness.h"

#define LETTER(c) ((void *)(uintptr_t)(c))

static char trail[256];

static void mark(char c)
{
	size_t len = strlen(trail);

	ASSERT(len < sizeof(trail) - 1);
	trail[len] = c;
	trail[len + 1] = '\0';
}

static void mark_arg(void *arg)
{
	mark((char)(uintptr_t)arg);
}

static void mark_yield_mark(void *arg)
{
	mark((char)(uintptr_t)arg);
	fiber_yield();
	mark((char)(uintptr_t)arg);
}

static void spawn(fiber_main *fn, void *arg)
{
	int err = fiber_spawn(fn, arg, "test");

	ASSERT(err == 0);
}

static void spawn_order(void)
{
	spawn(mark_arg, LETTER('a'));
	spawn(mark_arg, LETTER('b'));
	spawn(mark_arg, LETTER('c'));
	mark('0');
}

Test(fiber, run_in_spawn_order_after_their_spawner)
{
	harness_run_one(0, spawn_order);
	cr_assert_str_eq(trail, "0abc");
}

static void yield_order(void)
{
	spawn(mark_yield_mark, LETTER('a'));
	spawn(mark_yield_mark, LETTER('b'));
	fiber_yield();
	mark('0');
	fiber_yield();
	mark('1');
}

Test(fiber, yield_lets_every_other_run_once)
{
	harness_run_one(0, yield_order);
	cr_assert_str_eq(trail, "ab0ab1");
}

static void yield_idle_marks(void *arg)
{
	fiber_yield_idle();
	mark((char)(uintptr_t)arg);
}

static void idle_order(void)
{
	spawn(yield_idle_marks, LETTER('I'));
	spawn(mark_yield_mark, LETTER('a'));
	fiber_yield();
	fiber_yield();
	mark('0');
	fiber_yield();
	mark('1');
	fiber_yield_idle();
	mark('2');
}

Test(fiber, yield_idle_waits_for_everybody)
{
	harness_run_one(0, idle_order);
	cr_assert_str_eq(trail, "aa01I2");
}

static struct fiber *parked;

static void park_marks(void *arg)
{
	parked = fiber_self();
	fiber_park("test", arg);
	mark((char)(uintptr_t)arg);
}

static void park_order(void)
{
	spawn(park_marks, LETTER('p'));
	fiber_yield();
	mark('0');
	fiber_unpark(parked);
	mark('1');
	fiber_yield();
	mark('2');
}

Test(fiber, unpark_appends_to_the_ready_queue)
{
	harness_run_one(0, park_order);
	cr_assert_str_eq(trail, "01p2");
}

static void deadline_passes(void)
{
	uint64_t began = clock_mono_ns();
	int result = fiber_park_until("test", NULL, began + 5000000);

	ASSERT(result == -ETIMEDOUT);
	ASSERT(clock_mono_ns() >= began + 5000000);
	fiber_sleep_ns(1000000);
	ASSERT(clock_mono_ns() >= began + 6000000);
	result = fiber_park_until("test", NULL, 0);
	ASSERT(result == -ETIMEDOUT);
}

Test(fiber, park_until_ends_at_its_deadline)
{
	harness_run_one(0, deadline_passes);
}

static void park_long(void *arg)
{
	parked = fiber_self();
	*(int *)arg = fiber_park_until("test", NULL, clock_mono_ns() + 3600ull * 1000000000);
}

static void unparked_in_time(void)
{
	int result = 1;

	spawn(park_long, &result);
	fiber_yield();
	fiber_unpark(parked);
	fiber_yield();
	ASSERT(result == 0);
}

Test(fiber, park_until_returns_0_if_unparked)
{
	harness_run_one(0, unparked_in_time);
}

/* A timer that expires before the fiber's and unparks it in the same turn, after the fiber's own deadline was seen, or before. */
static uint64_t cross_deadline_ns;
static struct timer cross_timer;

static void cross_fires(struct timer *t)
{
	fiber_unpark(parked);
}

static void cross_waits(void *arg)
{
	parked = fiber_self();
	*(int *)arg = fiber_park_until("test", NULL, cross_deadline_ns);
}

/* False: this machine was so slow that the deadline passed before the other timer was armed. */
static bool cross_once(int delta)
{
	int result = 1;

	cross_deadline_ns = clock_mono_ns() + 2000000;
	spawn(cross_waits, &result);
	fiber_yield();
	if (result != 1)
		return false;
	cross_timer.fn = cross_fires;
	timer_arm(&cross_timer, cross_deadline_ns + delta);
	while (clock_mono_ns() < cross_deadline_ns + 10)
		;
	fiber_yield();
	ASSERT(result == 0);
	return true;
}

static void unpark_crosses_deadline(void)
{
	for (int delta = -1; delta <= 1; delta++)
		while (!cross_once(delta))
			;
}

Test(fiber, unpark_in_the_turn_of_the_deadline_counts)
{
	harness_run_one(0, unpark_crosses_deadline);
}

static struct fiber *sleepers[64];
static unsigned sleepers_count;

static void sleeper(void *arg)
{
	sleepers[sleepers_count++] = fiber_self();
	fiber_park("test", NULL);
}

static void exhaust(void)
{
	unsigned started = 0;

	ASSERT(fiber_slots_free() == 63);
	while (fiber_spawn(sleeper, NULL, "sleeper") == 0)
		started++;
	ASSERT(started == 63);
	ASSERT(fiber_slots_free() == 0);
	ASSERT(counter_value("runtime.fibers.exhausted") == 1);
	fiber_yield();
	for (unsigned i = 0; i < sleepers_count; i++)
		fiber_unpark(sleepers[i]);
	fiber_yield();
	ASSERT(fiber_slots_free() == 63);
	spawn(mark_arg, LETTER('x'));
}

Test(fiber, spawn_fails_when_every_slot_is_taken)
{
	harness_run_one(0, exhaust);
	cr_assert_str_eq(trail, "x");
}

static void spawn_fault(void)
{
	fault_arm(FAULT_FIBER_SPAWN, EAGAIN, 1, 1);
	spawn(mark_arg, LETTER('a'));
	ASSERT(fiber_spawn(mark_arg, LETTER('b'), "test") == -EAGAIN);
	spawn(mark_arg, LETTER('c'));
}

Test(fiber, spawn_has_a_fault_point)
{
	harness_run_one(0, spawn_fault);
	cr_assert_str_eq(trail, "ac");
}

static void eat_stack(void *arg)
{
	volatile char frame[20000];

	memset((char *)frame, 1, sizeof(frame));
	mark(frame[777] ? 's' : '-');
}

static void measure_start(void *arg, unsigned index)
{
	size_t before = fiber_stack_high_water();

	ASSERT(before > 0 && before < 20000);
	spawn(eat_stack, NULL);
	fiber_yield();
	ASSERT(fiber_stack_high_water() >= 20000);
	runtime_stop();
}

Test(fiber, poisoned_stacks_tell_their_high_water)
{
	const struct reactor_config config = { .reactors = 1, .fibers = 8, .stack_poison = true };

	harness_run(&config, measure_start, NULL);
}

static void breathe_long(void)
{
	uint64_t began = clock_mono_ns();

	spawn(mark_arg, LETTER('o'));
	while (!trail[0]) {
		fiber_breathe();
		ASSERT(clock_mono_ns() < began + 10000000000);
	}
	ASSERT(counter_value("runtime.slices.long") >= 1);
}

Test(fiber, breathe_yields_after_a_long_slice)
{
	harness_run_one(0, breathe_long);
}

static void dump_names(void)
{
	char *text;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	spawn(park_marks, LETTER('d'));
	fiber_yield();
	fiber_set_tag(0xabcdef, "tagged");
	fiber_dump(out);
	fclose(out);
	ASSERT(strstr(text, "running 0000000000abcdef tagged"));
	ASSERT(strstr(text, "parked 0000000000000000 test \"test\""));
	free(text);
	fiber_unpark(parked);
}

Test(fiber, dump_says_who_waits_for_what)
{
	harness_run_one(0, dump_names);
}

/* Two runs after one init; and many spawns over few slots. */
static unsigned lives;

static void one_life(void *arg)
{
	lives++;
}

static void many_lives(void *arg, unsigned index)
{
	for (unsigned i = 0; i < 10000; i++) {
		while (fiber_spawn(one_life, NULL, "life"))
			fiber_yield();
	}
	runtime_stop();
}

Test(fiber, slots_are_reused_over_runs)
{
	const struct reactor_config config = { .reactors = 1, .fibers = 4 };

	cr_assert_eq(runtime_init(&config), 0);
	cr_assert_eq(runtime_run(many_lives, NULL), 0);
	cr_assert_eq(runtime_run(many_lives, NULL), 0);
	runtime_fini();
	cr_assert_eq(lives, 20000);
}

static struct leaf_lock leaf = LEAF_LOCK_INIT;

static void yield_with_leaf(void)
{
	leaf_lock(&leaf);
	fiber_yield();
}

Test(fiber, yield_aborts_while_a_leaf_lock_is_held, .signal = SIGABRT)
{
	harness_run_one(0, yield_with_leaf);
}

static struct fiber_mutex mutex;

static void end_with_mutex(void)
{
	fiber_mutex_init(&mutex);
	fiber_mutex_lock(&mutex);
}

Test(fiber, end_aborts_while_a_fiber_lock_is_held, .signal = SIGABRT)
{
	harness_run_one(0, end_with_mutex);
}

static void unpark_twice(void)
{
	spawn(park_marks, LETTER('p'));
	fiber_yield();
	fiber_unpark(parked);
	fiber_unpark(parked);
}

Test(fiber, second_unpark_aborts, .signal = SIGABRT)
{
	harness_run_one(0, unpark_twice);
}

static int deep(unsigned left)
{
	volatile char frame[1000];

	frame[left % sizeof(frame)] = left;
	return left ? deep(left - 1) + frame[left % sizeof(frame)] : 0;
}

static void overflow(void)
{
	deep(1000000);
}

/* In a child, for a sanitizer exits instead of dying of the signal. */
Test(fiber, overflow_hits_the_guard_page)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		close(STDERR_FILENO);
		harness_run_one(0, overflow);
		_exit(0);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFSIGNALED(status) ? WTERMSIG(status) == SIGSEGV : WEXITSTATUS(status) != 0, "status %#x", status);
}

Test(fiber, too_many_mappings_are_refused_at_start)
{
	const struct reactor_config config = { .reactors = 64, .fibers = 100000, .stack_bytes = 16384 };

	cr_assert_eq(runtime_init(&config), -ENOMEM);
}

static unsigned remote_seen;
static struct fiber *_Atomic remote_fiber;

static void remote_start(void *arg, unsigned index)
{
	if (index == 0) {
		for (unsigned i = 0; i < 1000; i++) {
			remote_fiber = fiber_self();
			fiber_park("remote", NULL);
			remote_seen++;
		}
		runtime_stop();
		return;
	}
	while (!runtime_stopping()) {
		struct fiber *f = atomic_exchange_explicit(&remote_fiber, NULL, memory_order_seq_cst);

		if (f)
			fiber_unpark(f);
		fiber_yield();
	}
}

Test(fiber, unpark_from_another_reactor_is_never_too_early)
{
	const struct reactor_config config = { .reactors = 2, .fibers = 8 };

	harness_run(&config, remote_start, NULL);
	cr_assert_eq(remote_seen, 1000);
}
