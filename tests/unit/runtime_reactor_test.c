/* The loop: timers, hooks, posts, starting and stopping. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime/clock.h"
#include "runtime/counter.h"
#include "runtime/io.h"
#include "tests/unit/runtime_harness.h"

static void sleep_ms(unsigned ms)
{
	fiber_sleep_ns(ms * 1000000ull);
}

static void ignore_done(struct io_op *op)
{
}

/* Timers against a model: random arms, moves and disarms; each fires exactly if armed, never early, in order of expiry. */
enum { TIMERS = 200 };
static struct { struct timer t; uint64_t wanted; unsigned fired; } timers[TIMERS];
static uint64_t last_expiry;

static void timer_fires(struct timer *t)
{
	unsigned i = ((char *)t - (char *)timers) / sizeof(timers[0]);

	ASSERT(t->heap_index == 0);
	ASSERT(timers[i].wanted == t->expires_ns);
	ASSERT(clock_mono_ns() >= t->expires_ns);
	ASSERT(t->expires_ns >= last_expiry);
	last_expiry = t->expires_ns;
	timers[i].fired++;
}

static void timers_model(void)
{
	uint64_t base = clock_mono_ns() + 200000000;

	srandom(7);
	for (unsigned round = 0; round < 5000; round++) {
		unsigned i = random() % TIMERS;

		timers[i].t.fn = timer_fires;
		if (random() % 3 == 0) {
			timer_disarm(&timers[i].t);
			timers[i].wanted = 0;
		} else {
			timers[i].wanted = base + random() % 5000000;
			timer_arm(&timers[i].t, timers[i].wanted);
		}
	}
	ASSERT(clock_mono_ns() < base); /* or this machine is too slow for the test */
	sleep_ms(210);
	for (unsigned i = 0; i < TIMERS; i++)
		ASSERT(timers[i].fired == (timers[i].wanted != 0));
}

Test(timer, heap_matches_the_model)
{
	harness_run_one(0, timers_model);
}

Test(timer, works_without_a_ring)
{
	harness_run_one(RING_NO_URING, timers_model);
}

static unsigned rearms;

static void rearm(struct timer *t)
{
	if (++rearms < 100)
		timer_arm(t, 0);
}

static void timer_rearms(void)
{
	static struct timer t = { .fn = rearm };

	timer_arm(&t, 0);
	while (rearms < 100)
		fiber_yield();
}

Test(timer, may_arm_itself_again)
{
	harness_run_one(0, timer_rearms);
}

/* Hooks. */
static unsigned hook_runs;

static void hook_runs_once(struct reactor_hook *hook)
{
	hook_runs++;
}

static void hooks(void)
{
	static struct reactor_hook hook = { .fn = hook_runs_once };

	reactor_at_batch_end(&hook);
	reactor_at_batch_end(&hook);
	ASSERT(hook_runs == 0);
	fiber_yield();
	ASSERT(hook_runs == 1 && !hook.armed);
	fiber_yield();
	ASSERT(hook_runs == 1);
	reactor_at_batch_end(&hook);
	fiber_yield();
	ASSERT(hook_runs == 2);
}

Test(reactor, hooks_run_once_at_the_end_of_the_batch)
{
	harness_run_one(0, hooks);
}

/* Posts go round over both reactors, from a foreign thread too, in order. */
enum { HOPS = 1000, FOREIGN = 500 };

struct numbered_post {
	struct reactor_post post;
	unsigned number;
};

static struct numbered_post ball, foreign[FOREIGN];
static unsigned foreign_seen;
static _Atomic bool ball_home;

static void hop(struct reactor_post *post)
{
	struct numbered_post *p = (struct numbered_post *)post;

	ASSERT(reactor_index() == p->number % 2);
	ASSERT(!fiber_self());
	if (++p->number == HOPS)
		ball_home = true;
	else
		reactor_post(p->number % 2, post);
}

static void foreign_arrives(struct reactor_post *post)
{
	struct numbered_post *p = (struct numbered_post *)post;

	ASSERT(reactor_index() == 1);
	ASSERT(p->number == foreign_seen);
	foreign_seen++;
}

static void *foreign_thread(void *arg)
{
	for (unsigned i = 0; i < FOREIGN; i++) {
		foreign[i] = (struct numbered_post){ .post = { .fn = foreign_arrives }, .number = i };
		reactor_post(1, &foreign[i].post);
	}
	return NULL;
}

static void posts_start(void *arg, unsigned index)
{
	pthread_t thread;

	if (index == 0) {
		ball.post.fn = hop;
		reactor_post(0, &ball.post);
		while (!ball_home)
			sleep_ms(1);
		return;
	}
	ASSERT(pthread_create(&thread, NULL, foreign_thread, NULL) == 0);
	while (foreign_seen < FOREIGN || !ball_home)
		sleep_ms(1);
	pthread_join(thread, NULL);
	runtime_stop();
}

static void posts(unsigned no_features)
{
	const struct reactor_config config = { .reactors = 2, .fibers = 4, .no_features = no_features };

	harness_run(&config, posts_start, NULL);
}

Test(reactor, posts_arrive_in_order)
{
	posts(0);
}

Test(reactor, posts_arrive_without_deferred_task_work)
{
	posts(RING_NO_DEFER_TASKRUN);
}

Test(reactor, posts_arrive_without_a_ring)
{
	posts(RING_NO_URING);
}

/* Stopping: from a foreign thread, while the reactors wait; and fibers that outlive the stop are waited for. */
static _Atomic unsigned ended;

static void *stop_thread(void *arg)
{
	runtime_stop();
	return NULL;
}

static void stop_start(void *arg, unsigned index)
{
	pthread_t thread;

	if (index == 0) {
		ASSERT(pthread_create(&thread, NULL, stop_thread, NULL) == 0);
		pthread_join(thread, NULL);
	}
	while (!runtime_stopping())
		sleep_ms(1);
	sleep_ms(5 + 10 * index);
	ended++;
}

Test(reactor, run_ends_after_the_last_fiber)
{
	const struct reactor_config config = { .reactors = 3, .fibers = 4 };

	for (unsigned i = 1; i <= 20; i++) {
		harness_run(&config, stop_start, NULL);
		cr_assert_eq(ended, 3 * i);
	}
}

/* Lingering: each sleep here is a wait that was announced as short; its timer ends it. */
enum { LINGER_MS = 200, SHORT_NS = 200000 };

static void expect_and_sleep(unsigned times, uint64_t ns)
{
	while (times--) {
		reactor_expect();
		fiber_sleep_ns(ns);
	}
}

static int64_t lingers(void)
{
	return counter_value("runtime.lingers.paid") + counter_value("runtime.lingers.lost");
}

/* Sleep until it lingers, and say how often that was. */
static unsigned sleeps_until_linger(void)
{
	int64_t before = lingers();
	unsigned n = 0;

	while (lingers() == before) {
		expect_and_sleep(1, SHORT_NS);
		n++;
	}
	return n;
}

static void linger_after_short_waits(void)
{
	int64_t before;

	ASSERT(sleeps_until_linger() > 4); /* not before it is known to pay */
	before = lingers();
	fiber_sleep_ns(SHORT_NS);
	ASSERT(lingers() == before); /* nobody expected that one */
	expect_and_sleep(1, (LINGER_MS + 50) * 1000000ull);
	ASSERT(lingers() == before + 1);
	ASSERT(counter_value("runtime.lingers.lost") > 0);
	ASSERT(sleeps_until_linger() > 4); /* a wrong guess: it has to prove anew */
}

static void linger_never(void)
{
	expect_and_sleep(20, SHORT_NS);
	ASSERT(lingers() == 0);
}

static void linger_not_after_long_waits(void)
{
	expect_and_sleep(20, 2000000);
	ASSERT(lingers() == 0);
}

/* Nor while an operation on a file is in flight: a pipe stands for it, from which nobody can read yet. */
static void linger_not_beside_files(void)
{
	char byte = 0;
	struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
	int ends[2];
	struct io_op op = { .code = IO_READV, .iov = &iov, .iovcnt = 1, .done = ignore_done };

	ASSERT(pipe(ends) == 0);
	op.fd = ends[0];
	io_submit(&op);
	expect_and_sleep(20, SHORT_NS);
	ASSERT(lingers() == 0);
	ASSERT(write(ends[1], "x", 1) == 1);
	while (byte != 'x')
		sleep_ms(1);
	expect_and_sleep(20, SHORT_NS);
	ASSERT(lingers() > 0);
	close(ends[0]);
	close(ends[1]);
}

/* In a hurry it does, beside them too, and for waits four times as long; on a busy machine some of these are longer. */
static void linger_in_a_hurry(void)
{
	reactor_hurry();
	for (unsigned i = 0; i < 1000 && lingers() < 10; i++)
		fiber_sleep_ns(2000000);
	ASSERT(lingers() >= 10);
	reactor_hurry_over();
	int64_t before = lingers();
	fiber_sleep_ns(SHORT_NS);
	ASSERT(lingers() == before);
	reactor_hurry();
	for (unsigned i = 0; i < 20; i++)
		fiber_sleep_ns(20000000); /* longer: nothing to look for */
	reactor_hurry_over();
	ASSERT(lingers() <= before + 1);
}

static void linger_run(unsigned linger_us, unsigned no_features, void (*fn)(void))
{
	const struct reactor_config config = { .reactors = 1, .fibers = 4, .linger_us = linger_us, .no_features = no_features };

	harness_run(&config, harness_start, fn);
}

Test(reactor, lingers_if_it_lately_paid)
{
	linger_run(LINGER_MS * 1000, 0, linger_after_short_waits);
}

Test(reactor, lingers_without_deferred_task_work)
{
	linger_run(LINGER_MS * 1000, RING_NO_DEFER_TASKRUN, linger_after_short_waits);
}

Test(reactor, does_not_linger_without_a_ring)
{
	linger_run(LINGER_MS * 1000, RING_NO_URING, linger_never);
}

Test(reactor, does_not_linger_unless_configured)
{
	linger_run(0, 0, linger_never);
}

Test(reactor, does_not_linger_where_waits_are_long)
{
	linger_run(1000, 0, linger_not_after_long_waits);
}

Test(reactor, lingers_in_a_hurry)
{
	linger_run(2500, 0, linger_in_a_hurry);
}

Test(reactor, does_not_linger_beside_files)
{
	linger_run(LINGER_MS * 1000, 0, linger_not_beside_files);
}

static void nothing(void *arg, unsigned index)
{
}

Test(reactor, a_stop_before_the_run_counts)
{
	const struct reactor_config config = { .reactors = 2, .fibers = 4 };

	cr_assert_eq(runtime_init(&config), 0);
	runtime_stop();
	cr_assert_eq(runtime_run(nothing, NULL), 0);
	runtime_fini();
}

Test(reactor, wrong_environment_is_an_error)
{
	const struct reactor_config config = { .reactors = 1, .fibers = 4 };

	setenv("NFSDIRECT_FAULTS", "io.fsync=EIO@3x1,io.nonsense=EIO", 1);
	cr_assert_eq(runtime_init(&config), -EINVAL);
}

Test(reactor, too_many_reactors_are_refused)
{
	const struct reactor_config config = { .reactors = 65, .fibers = 4 };

	cr_assert_eq(runtime_init(&config), -EINVAL);
}
