/*
 * runtime/reactor.c - the loop, the inbox, and the start and end of everything.
 *
 * One turn: ready fibers (so many at most, lest two that wake each other starve the ring), batch-end hooks, backend->poll() (which alone may wait), timers,
 * inbox; then fibers that yielded are ready again, and those that yielded idle, if nothing else is. Only the home reactor touches a reactor, but
 * for its inbox: a stack of posts that any thread pushes to, taken whole and turned round. A thread that pushes looks at `sleeping` afterwards, a
 * reactor that is going to wait sets it and then looks at the inbox: one of them sees the other.
 *
 * The end: with runtime_stop() a reactor without fibers calls itself quiet. Who finds all reactors quiet and all inboxes empty, with nothing pushed
 * while it looked, declares the run finished. What is still in flight is then cancelled and waited for: the kernel may write into its memory.
 */
#include "runtime/reactor.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/backend.h"
#include "runtime/backend_real.h"
#include "runtime/clock.h"
#include "runtime/counter.h"
#include "runtime/fault.h"
#include "runtime/fiber.h"
#include "runtime/internal.h"
#include "runtime/io.h"
#include "runtime/log.h"
#include "runtime/pool.h"

enum {
	IDLE_TURNS_MAX = 32,
	REACTORS_MAX = 64,
	FIBERS_DEFAULT = 512,
	STACK_BYTES_DEFAULT = 128 << 10,
	RING_ENTRIES_DEFAULT = 1024,
	POOL_THREADS_DEFAULT = 8,
	POOL_QUEUE_MAX = 1024,
	TURN_SWITCHES_MAX = 256,
	LOOKS_PER_YIELD = 64,
	SHORT_WAITS_MIN = 4,
	DISK_LINGERS = 4,
};
static const uint64_t drain_period_ns = 50000000;

COUNTER_DEFINE(lingers_paid, "runtime.lingers.paid");
COUNTER_DEFINE(lingers_lost, "runtime.lingers.lost");

/* immutable between runtime_init() and runtime_fini() */
static struct reactor **reactors;
static unsigned reactors_count;
static struct reactor_config config;
static bool pool_is_ours;

/* of one runtime_run() */
static struct {
	void (*start)(void *arg, unsigned index);
	void *arg;
	pthread_barrier_t started;
	_Atomic int error;
} run;
static _Atomic bool stopping, finished;
static _Atomic uint64_t pushes; /* counted after each push: see all_quiet() */

const struct backend *backend = &backend_uring;
static const struct backend *backend_asked; /* what `backend` was before a fallback took its place */

/* Waking. */

static void wake(struct reactor *r)
{
	/* Partner of wait_for_work(): our store (inbox, stopping, finished) comes before this load, its store to `sleeping` before its loads. */
	if (r->sleeping && atomic_exchange(&r->sleeping, false))
		backend->nudge(r);
}

static void wake_all(void)
{
	for (unsigned i = 0; i < reactors_count; i++)
		wake(reactors[i]);
}

void reactor_push(struct reactor *r, struct reactor_post *post)
{
	struct reactor_post *head = atomic_load_explicit(&r->inbox, memory_order_relaxed);

	do
		post->next = head;
	while (!atomic_compare_exchange_weak(&r->inbox, &head, post));
	pushes++;
	wake(r);
}

void reactor_post(unsigned index, struct reactor_post *post)
{
	ASSERT(index < reactors_count);
	reactor_push(reactors[index], post);
}

struct reactor *reactor_by_index(unsigned index)
{
	return reactors[index];
}

/* A turn. */

static struct fiber *take_ready(struct reactor *r, unsigned n)
{
	struct fiber *f = TAILQ_FIRST(&r->ready);

	while (n--)
		f = TAILQ_NEXT(f, link);
	TAILQ_REMOVE(&r->ready, f, link);
	r->ready_count--;
	return f;
}

static void run_ready(struct reactor *r)
{
	for (unsigned left = TURN_SWITCHES_MAX; r->ready_count && left && !r->abandoned; left--) {
		unsigned choice = backend->pick(r, r->ready_count); /* which may cut the power */

		if (!r->abandoned)
			fiber_run(r, take_ready(r, choice));
	}
}

static void run_hooks(struct reactor *r)
{
	struct reactor_hooks hooks = STAILQ_HEAD_INITIALIZER(hooks);
	struct reactor_hook *hook;

	STAILQ_CONCAT(&hooks, &r->hooks);
	while ((hook = STAILQ_FIRST(&hooks))) {
		STAILQ_REMOVE_HEAD(&hooks, link);
		hook->armed = false;
		hook->fn(hook);
	}
}

static unsigned fibers_live(const struct reactor *r)
{
	return r->fiber_count - r->free_count;
}

static uint64_t may_wait_ns(struct reactor *r)
{
	uint64_t now;

	if (r->ready_count || !TAILQ_EMPTY(&r->yielded) || !TAILQ_EMPTY(&r->idle) || !STAILQ_EMPTY(&r->hooks))
		return 0;
	if (!r->heap_len)
		return UINT64_MAX;
	now = clock_mono_ns();
	return r->heap[1]->expires_ns > now ? r->heap[1]->expires_ns - now : 0;
}

/* Lingering. */

#if defined(__x86_64__)
static void cpu_relax(void) { __builtin_ia32_pause(); }
#elif defined(__aarch64__)
static void cpu_relax(void) { __asm__ volatile("yield"); }
#else
static void cpu_relax(void) { atomic_signal_fence(memory_order_seq_cst); }
#endif

static bool has_work(struct reactor *r)
{
	return backend->look(r) || atomic_load_explicit(&r->inbox, memory_order_relaxed);
}

/* Look for work until then, but give way to whoever else wants this CPU: it may be the one that we wait for. */
static void linger(struct reactor *r, uint64_t until_ns)
{
	do {
		for (unsigned i = 0; i < LOOKS_PER_YIELD; i++) {
			if (has_work(r))
				return;
			cpu_relax();
		}
		sched_yield();
	} while (clock_mono_ns() < until_ns);
}

static void sleep_for_work(struct reactor *r, uint64_t timeout_ns)
{
	r->sleeping = true;
	if (r->inbox || finished || (stopping && !r->quiet && !fibers_live(r)))
		timeout_ns = 0;
	backend->poll(r, timeout_ns);
	atomic_store_explicit(&r->sleeping, false, memory_order_relaxed);
}

/*
 * A wait that somebody expects to be short. It is begun by looking if the last ones were short, slept through or not: one that was not is what
 * a wrong guess costs, and none is made again before as many were short as it takes to believe.
 */
static void wait_expecting(struct reactor *r, uint64_t timeout_ns, uint64_t most_ns, unsigned *short_waits)
{
	uint64_t began_ns = clock_mono_ns();

	if (*short_waits >= SHORT_WAITS_MIN) {
		linger(r, began_ns + min_u64(most_ns, timeout_ns));
		counter_add(has_work(r) ? &lingers_paid : &lingers_lost, 1);
	}
	sleep_for_work(r, has_work(r) ? 0 : timeout_ns);
	if (clock_mono_ns() - began_ns > most_ns)
		*short_waits = 0;
	else
		++*short_waits;
}

static void wait_for_work(struct reactor *r)
{
	uint64_t timeout_ns = may_wait_ns(r), linger_ns = config.linger_us * UINT64_C(1000);
	bool expecting = r->expecting && !r->files_in_flight;

	if (timeout_ns == 0) {
		backend->poll(r, 0);
		return;
	}
	r->expecting = false;
	if (!backend->look || !linger_ns || has_work(r))
		sleep_for_work(r, timeout_ns);
	else if (r->hurries)
		wait_expecting(r, timeout_ns, DISK_LINGERS * linger_ns, &r->short_disks);
	else if (expecting)
		wait_expecting(r, timeout_ns, linger_ns, &r->short_calls);
	else
		sleep_for_work(r, timeout_ns);
}

static struct reactor_post *turn_round(struct reactor_post *post)
{
	struct reactor_post *out = NULL, *next;

	for (; post; post = next) {
		next = post->next;
		post->next = out;
		out = post;
	}
	return out;
}

static void deliver_inbox(struct reactor *r)
{
	struct reactor_post *post, *next;

	if (!atomic_load_explicit(&r->inbox, memory_order_relaxed))
		return;
	r->quiet = false; /* before the inbox is seen empty: see all_quiet() */
	for (post = turn_round(atomic_exchange(&r->inbox, NULL)); post; post = next) {
		next = post->next; /* fn() may queue it again */
		post->fn(post);
	}
}

/* Those that yielded are ready again; those that yielded idle, if otherwise nobody is, or after IDLE_TURNS_MAX turns in which somebody was: busy is not for ever. */
static void refill_ready(struct reactor *r)
{
	struct fiber *f;

	while ((f = TAILQ_FIRST(&r->yielded))) {
		TAILQ_REMOVE(&r->yielded, f, link);
		fiber_make_ready(f);
	}
	if ((r->ready_count || !STAILQ_EMPTY(&r->hooks)) && r->idle_passed_over++ < IDLE_TURNS_MAX)
		return;
	r->idle_passed_over = 0;
	while ((f = TAILQ_FIRST(&r->idle))) {
		TAILQ_REMOVE(&r->idle, f, link);
		fiber_make_ready(f);
	}
}

static void turn(struct reactor *r)
{
	run_ready(r);
	if (r->abandoned)
		return;
	run_hooks(r);
	wait_for_work(r);
	if (r->abandoned)
		return;
	r->now_ns = clock_mono_ns();
	timers_expire(r);
	deliver_inbox(r);
	refill_ready(r);
}

/* The end of a run. */

static bool all_quiet(void)
{
	uint64_t before = pushes;

	for (unsigned i = 0; i < reactors_count; i++)
		if (reactors[i]->inbox || !reactors[i]->quiet)
			return false;
	return pushes == before;
}

static bool is_over(struct reactor *r)
{
	if (r->abandoned)
		return true;
	if (!stopping)
		return false;
	r->quiet = !fibers_live(r) && STAILQ_EMPTY(&r->hooks);
	if (!r->quiet)
		return false;
	if (!finished && !all_quiet())
		return false;
	finished = true;
	wake_all();
	return true;
}

/* Let everything in flight complete, cancelled or not. */
static void drain(struct reactor *r)
{
	while (r->in_flight && backend->cancel_all && !r->abandoned) {
		uint64_t again_ns = clock_mono_ns() + drain_period_ns;

		backend->cancel_all(r);
		for (uint64_t now = clock_mono_ns(); r->in_flight && now < again_ns && !r->abandoned; now = clock_mono_ns()) {
			r->sleeping = true;
			backend->poll(r, r->inbox ? 0 : again_ns - now);
			atomic_store_explicit(&r->sleeping, false, memory_order_relaxed);
			deliver_inbox(r);
			run_ready(r);
		}
	}
}

static void forget_everything(struct reactor *r)
{
	struct reactor_hook *hook;

	while ((hook = STAILQ_FIRST(&r->hooks))) {
		STAILQ_REMOVE_HEAD(&r->hooks, link);
		hook->armed = false;
	}
	fibers_abandon(r);
	timers_clear(r);
	r->inbox = NULL;
	r->in_flight = r->files_in_flight = 0;
	r->abandoned = false;
}

static void start_fiber(void *arg)
{
	run.start(run.arg, reactor_index());
}

static void loop(struct reactor *r)
{
	int err = fiber_spawn(start_fiber, r, "start");

	ASSERT(err == 0);
	while (!is_over(r))
		turn(r);
	drain(r);
	if (!r->abandoned)
		return;
	forget_everything(r);
	run.error = -EPIPE;
}

static void *reactor_main(void *arg)
{
	struct reactor *r = arg;
	int err;

	reactor_here = r;
	fibers_enter_thread(r);
	r->now_ns = clock_mono_ns();
	r->quiet = false;
	err = backend->start ? backend->start(r) : 0;
	if (err)
		run.error = err;
	pthread_barrier_wait(&run.started);
	if (!run.error)
		loop(r);
	if (!err && backend->stop)
		backend->stop(r);
	reactor_here = NULL;
	return NULL;
}

int runtime_run(void (*start)(void *arg, unsigned index), void *arg)
{
	pthread_t threads[REACTORS_MAX];

	run.start = start;
	run.arg = arg;
	run.error = 0;
	pthread_barrier_init(&run.started, NULL, reactors_count);
	for (unsigned i = 1; i < reactors_count; i++) {
		int err = pthread_create(&threads[i], NULL, reactor_main, reactors[i]);

		ASSERT(err == 0);
	}
	reactor_main(reactors[0]);
	for (unsigned i = 1; i < reactors_count; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&run.started);
	stopping = false;
	finished = false;
	return run.error;
}

void runtime_stop(void)
{
	stopping = true;
	wake_all();
}

bool runtime_stopping(void)
{
	return atomic_load_explicit(&stopping, memory_order_relaxed);
}

/* Start. */

static struct reactor *reactor_alloc(unsigned index)
{
	struct reactor *r = aligned_alloc(_Alignof(struct reactor), sizeof(*r));

	if (!r)
		return NULL;
	*r = (struct reactor){
		.index = index, .fiber_count = config.fibers, .stack_bytes = config.stack_bytes, .stack_poison = config.stack_poison,
	};
	STAILQ_INIT(&r->hooks);
	return r;
}

static int reactor_init(unsigned index)
{
	struct reactor *r = reactor_alloc(index);
	int err;

	if (!r)
		return -ENOMEM;
	err = fibers_init(r);
	if (err)
		goto free_reactor;
	err = backend->init(r, &config);
	if (err)
		goto fini_fibers;
	reactors[reactors_count++] = r;
	return 0;

fini_fibers:
	fibers_fini(r);
free_reactor:
	free(r);
	return err;
}

static void reactor_fini(struct reactor *r)
{
	backend->fini(r);
	io_closes_fini(r);
	fibers_fini(r);
	free(r->heap);
	free(r);
}

static int take_environment(void)
{
	const char *trace = getenv("NFSDIRECT_TRACE");
	const char *faults = getenv("NFSDIRECT_FAULTS");
	const char *bad;

	if (trace)
		trace_parse(trace);
	if (!faults || fault_parse(faults, &bad) == 0)
		return 0;
	log_write(LOG_LEVEL_ERROR, "NFSDIRECT_FAULTS: cannot read \"%s\"", bad);
	return -EINVAL;
}

static bool backend_has_threads(void)
{
	return backend->pool_submit == pool_submit_to_threads;
}

static unsigned default_reactors(void)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	return cpus < 1 ? 1 : cpus > REACTORS_MAX ? REACTORS_MAX : cpus;
}

static void set_defaults(const struct reactor_config *asked)
{
	config = *asked;
	if (!config.reactors)
		config.reactors = default_reactors();
	if (!config.fibers)
		config.fibers = FIBERS_DEFAULT;
	if (!config.stack_bytes)
		config.stack_bytes = STACK_BYTES_DEFAULT;
	config.stack_bytes = align_up(config.stack_bytes, PAGE_BYTES);
	if (!config.ring_entries)
		config.ring_entries = RING_ENTRIES_DEFAULT;
	if (!config.pool_threads)
		config.pool_threads = POOL_THREADS_DEFAULT;
	if (!backend_has_threads())
		config.reactors = 1;
}

/* Where the ring is forbidden or missing, the way without it; never silently. */
static void choose_backend(const struct reactor_config *asked)
{
	int err;

	backend_asked = backend;
	if (backend != &backend_uring)
		return;
	if (asked->no_features & RING_NO_URING) {
		backend = &backend_poll;
		return;
	}
	err = backend_uring_probe();
	if (!err)
		return;
	log_write(LOG_LEVEL_WARNING, "no io_uring here (%s): using poll and threads, which is slow", strerrorname_np(-err));
	backend = &backend_poll;
}

static int start_pool(void)
{
	int err;

	if (!backend_has_threads())
		return 0;
	err = pool_init(config.pool_threads, POOL_QUEUE_MAX);
	pool_is_ours = err == 0;
	return err == -EALREADY ? 0 : err;
}

static void reactors_fini(void)
{
	while (reactors_count)
		reactor_fini(reactors[--reactors_count]);
	free(reactors);
	reactors = NULL;
}

static int reactors_init(void)
{
	int err = 0;

	reactors = calloc(config.reactors, sizeof(struct reactor *));
	if (!reactors)
		return -ENOMEM;
	for (unsigned i = 0; i < config.reactors && !err; i++)
		err = reactor_init(i);
	if (err)
		reactors_fini();
	return err;
}

int runtime_init(const struct reactor_config *asked)
{
	int err = take_environment();

	if (err)
		return err;
	if (asked->reactors > REACTORS_MAX)
		return -EINVAL;
	choose_backend(asked);
	set_defaults(asked);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a limit of file sizes (ulimit -f) is an error of the WRITE: EFBIG */
	err = fibers_check_limit(config.reactors * config.fibers);
	if (err)
		goto restore_backend;
	err = start_pool();
	if (err)
		goto restore_backend;
	err = reactors_init();
	if (err)
		goto stop_pool;
	return 0;

stop_pool:
	if (pool_is_ours)
		pool_fini();
	pool_is_ours = false;
restore_backend:
	backend = backend_asked;
	return err;
}

void runtime_fini(void)
{
	/* First the threads that might still push to a reactor. */
	if (pool_is_ours)
		pool_fini();
	else
		pool_settle();
	pool_is_ours = false;
	reactors_fini();
	backend = backend_asked;
}

/* What others may ask of the reactor they run on. */

struct reactor *reactor_self(void)
{
	return reactor_here;
}

unsigned reactor_index(void)
{
	ASSERT(reactor_here);
	return reactor_here->index;
}

unsigned reactor_count(void)
{
	return reactors_count;
}

void reactor_at_batch_end(struct reactor_hook *hook)
{
	ASSERT(reactor_here);
	if (hook->armed)
		return;
	hook->armed = true;
	STAILQ_INSERT_TAIL(&reactor_here->hooks, hook, link);
}

void reactor_expect(void)
{
	ASSERT(reactor_here);
	reactor_here->expecting = true;
}

void reactor_hurry(void)
{
	ASSERT(reactor_here);
	reactor_here->hurries++;
}

void reactor_hurry_over(void)
{
	ASSERT(reactor_here->hurries > 0);
	reactor_here->hurries--;
}

void reactor_complete(struct reactor *r, struct io_op *op)
{
	ASSERT(r->in_flight > 0);
	r->in_flight--;
	r->files_in_flight -= io_is_of_file(op);
	op->done(op);
}

void reactor_abandon(struct reactor *r)
{
	ASSERT(r == reactor_here);
	r->abandoned = true;
	if (r->current)
		fiber_vanish();
}

void *reactor_backend_data(struct reactor *r)
{
	return r->backend_data;
}

void reactor_set_backend_data(struct reactor *r, void *data)
{
	r->backend_data = data;
}
