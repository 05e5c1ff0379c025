/*
 * runtime/pool.c - the blocking pool.
 *
 * Jobs stand in one queue under one leaf lock; idle workers wait on a pthread condition. At most one worker is on its way from sleep to the queue: who gets
 * there and leaves something wakes the next, so short jobs are done by few awake ones, and long ones still find all. A worker remembers which identity it
 * has taken on and changes it only when a job wants another. Fibers count themselves in before they queue a job: beyond threads + queue_max they wait in
 * line. What backends queue by themselves (operations that the ring lacks) is not held up, it is bounded by the operations in flight.
 *
 * Of a lane one job at most stands in the queue or runs; the others wait in the lane and are taken along with it. What came meanwhile goes to the
 * end of the queue, so that a busy lane does not keep a worker from the others. Its finished jobs are held back until the lane's turn is over: they are mostly
 * answered together. A turn ends when its jobs are done, or after the one that was under way at TURN_NS: the rest waits for the next turn. The jobs go home
 * after the lane was left, for with the last one the lane may go; or, if they have a common end, it takes them over then.
 *
 * A job may share its work with workers that are idle. The shares that still want somebody stand in a list on their jobs' stacks; jobs come first. A job that has
 * done its part takes its share off the list and waits for those who came, so whoever is in a share keeps it alive.
 *
 * A process without the right to change identities (not root) runs every job as itself; it says so once.
 */
#include "runtime/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime/backend.h"
#include "runtime/backend_real.h"
#include "runtime/clock.h"
#include "runtime/counter.h"
#include "runtime/cred.h"
#include "runtime/fiber.h"
#include "runtime/internal.h"
#include "runtime/log.h"
#include "runtime/sync.h"

enum { TURN_NS = 200000 };

COUNTER_DEFINE(pool_jobs, "runtime.pool.jobs");
COUNTER_DEFINE(pool_helped, "runtime.pool.helped");
COUNTER_DEFINE(pool_identities, "runtime.pool.identity_changes");

/* A job's work for who is idle; on the job's stack. */
struct share {
	/* immutable */
	pool_main *fn;
	void *arg;
	const struct cred *cred;
	/* protected by the pool's lock */
	TAILQ_ENTRY(share) link; /* while somebody is wanted */
	unsigned wanted, inside;
};

/* What a worker does next: one of the two, or neither at the end. */
struct work {
	struct pool_job *jobs;
	struct share *share;
};

static struct {
	/* immutable between pool_init() and pool_fini() */
	pthread_t *threads;
	unsigned thread_count;
	unsigned cpus;
	struct cred own;
	bool may_change_identity;
	/* protected by lock */
	struct leaf_lock lock;
	pthread_cond_t work, settled, left; /* left: somebody left a share */
	struct pool_job *first, **last;
	TAILQ_HEAD(, share) shares;
	unsigned idle;        /* workers that wait for work */
	unsigned tries;       /* jobs of pool_try_run(): those of one turn are all asked for before any worker has come */
	bool waking;          /* one of them was signalled and has not come yet */
	bool stopping, settling;
	struct fiber_cond room;
	/* atomic: fibers with a job, and those that wait for room: store one, then load the other */
	_Atomic unsigned calls, waiting;
	unsigned calls_max;   /* immutable as the threads */
} pool = {
	.lock = LEAF_LOCK_INIT,
	.work = PTHREAD_COND_INITIALIZER,
	.settled = PTHREAD_COND_INITIALIZER,
	.left = PTHREAD_COND_INITIALIZER,
	.shares = TAILQ_HEAD_INITIALIZER(pool.shares),
	.last = &pool.first,
	.calls_max = UINT32_MAX,
	.room = { .waiters = TAILQ_HEAD_INITIALIZER(pool.room.waiters) },
};

/* The worker's side. */

static void become(struct cred *now, const struct cred *wanted)
{
	if (!pool.may_change_identity)
		return;
	if (!wanted)
		wanted = &pool.own;
	if (cred_equal(now, wanted))
		return;
	/* A job must never run as somebody else, and there is nobody here who could refuse it. */
	if (cred_assume(wanted))
		runtime_panic(__FILE__, __LINE__, "a pool thread cannot take on the identity of its job");
	*now = *wanted;
	counter_add(&pool_identities, 1);
}

static bool has_work_locked(void)
{
	return pool.first || !TAILQ_EMPTY(&pool.shares);
}

/* True: the caller signals, when it has let go of the lock. */
static bool must_wake_locked(void)
{
	if (!has_work_locked() || !pool.idle || pool.waking)
		return false;
	pool.waking = true;
	return true;
}

static void append_locked(struct pool_job *job)
{
	job->next = NULL;
	*pool.last = job;
	pool.last = &job->next;
}

static void enqueue_locked(struct pool_job *job)
{
	struct pool_lane *lane = job->lane;

	if (!lane || !lane->busy) {
		append_locked(job);
		if (lane)
			lane->busy = true;
		return;
	}
	job->next = NULL;
	if (lane->first)
		lane->last->next = job;
	else
		lane->first = job;
	lane->last = job;
}

/* The first job, with what waits in its lane behind it; NULL: none. */
static struct pool_job *dequeue_locked(void)
{
	struct pool_job *job = pool.first;

	if (!job)
		return NULL;
	pool.first = job->next;
	if (!pool.first)
		pool.last = &pool.first;
	job->next = NULL;
	if (job->lane) {
		job->next = job->lane->first;
		job->lane->first = NULL;
	}
	return job;
}

/* The first share; NULL: none. */
static struct share *join_share_locked(void)
{
	struct share *share = TAILQ_FIRST(&pool.shares);

	if (!share)
		return NULL;
	share->inside++;
	if (!--share->wanted)
		TAILQ_REMOVE(&pool.shares, share, link);
	return share;
}

static void wait_for_work_locked(void)
{
	while (!has_work_locked() && !pool.stopping) {
		pool.idle++;
		if (pool.settling)
			pthread_cond_signal(&pool.settled);
		pthread_cond_wait(&pool.work, &pool.lock.mutex);
		pool.idle--;
		pool.waking = false;
	}
}

static struct work take_work(void)
{
	struct work work = { NULL, NULL };
	bool wake;

	leaf_lock(&pool.lock);
	wait_for_work_locked();
	work.jobs = dequeue_locked();
	if (!work.jobs)
		work.share = join_share_locked();
	wake = must_wake_locked();
	leaf_unlock(&pool.lock);
	if (wake)
		pthread_cond_signal(&pool.work);
	return work;
}

/* Back to the front of the lane. */
static void put_back_locked(struct pool_lane *lane, struct pool_job *rest)
{
	struct pool_job *last = rest;

	while (last->next)
		last = last->next;
	last->next = lane->first;
	if (!lane->first)
		lane->last = last;
	lane->first = rest;
}

/* What is left of this turn (or NULL), and those who came to the lane meanwhile, get another. Not by this worker, which may have more to do for this one. */
static void leave_lane(struct pool_lane *lane, struct pool_job *rest)
{
	struct pool_job *job;
	bool wake;

	leaf_lock(&pool.lock);
	if (rest)
		put_back_locked(lane, rest);
	job = lane->first;
	lane->busy = job;
	if (job) {
		lane->first = job->next;
		append_locked(job);
	}
	wake = must_wake_locked();
	leaf_unlock(&pool.lock);
	if (wake)
		pthread_cond_signal(&pool.work);
}

static void job_is_home(struct reactor_post *post)
{
	struct pool_job *job = container_of(post, struct pool_job, post);

	job->done(job);
}

/* Jobs that are finished, in order. */
struct held {
	struct pool_job *first, **last;
};

static void send_home(struct held *held)
{
	struct pool_job *job, *next;

	for (job = held->first; job; job = next) {
		next = job->next; /* the job is gone once it is pushed */
		reactor_push(job->home, &job->post);
	}
}

static void hold(struct held *held, struct pool_job *job)
{
	ASSERT(!held->first || held->first->end == job->end);
	job->next = NULL;
	*held->last = job;
	held->last = &job->next;
}

struct pool_job *pool_job_next(const struct pool_job *job)
{
	return job->next;
}

void *pool_job_arg(const struct pool_job *job)
{
	return job->arg;
}

void pool_job_over(struct pool_job *job)
{
	reactor_push(job->home, &job->post);
}

static void run_job(struct pool_job *job, struct cred *now)
{
	become(now, job->cred);
	job->fn(job->arg);
	counter_add(&pool_jobs, 1);
}

static void end_turn(struct held *held, struct cred *now)
{
	if (!held->first->end) {
		send_home(held);
		return;
	}
	become(now, NULL);
	held->first->end(held->first);
}

static void run_lane(struct pool_job *job, struct cred *now)
{
	const uint64_t began_ns = clock_mono_ns();
	struct held held = { .last = &held.first };
	struct pool_lane *lane = job->lane;
	struct pool_job *next;
	bool more = true;

	for (; more; job = next) {
		next = job->next;
		run_job(job, now);
		hold(&held, job);
		more = next && clock_mono_ns() - began_ns < TURN_NS;
	}
	leave_lane(lane, job);
	end_turn(&held, now);
}

static void run_turn(struct pool_job *job, struct cred *now)
{
	struct held held = { .last = &held.first };

	if (job->lane) {
		run_lane(job, now);
		return;
	}
	run_job(job, now);
	hold(&held, job);
	end_turn(&held, now);
}

static void run_share(struct share *share, struct cred *now)
{
	become(now, share->cred);
	share->fn(share->arg);
	counter_add(&pool_helped, 1);
	leaf_lock(&pool.lock);
	if (!--share->inside)
		pthread_cond_broadcast(&pool.left);
	leaf_unlock(&pool.lock);
}

static void *worker(void *arg)
{
	struct cred now = pool.own;
	struct work work;

	for (work = take_work(); work.jobs || work.share; work = take_work())
		if (work.jobs)
			run_turn(work.jobs, &now);
		else
			run_share(work.share, &now);
	return NULL;
}

/* Jobs that wait have more right to who is idle. */
static void share_begin(struct share *share, unsigned more)
{
	bool wake;

	leaf_lock(&pool.lock);
	share->wanted = pool.first ? 0 : min_u64(min_u64(more, pool.idle), pool.cpus - 1);
	if (share->wanted)
		TAILQ_INSERT_TAIL(&pool.shares, share, link);
	wake = must_wake_locked();
	leaf_unlock(&pool.lock);
	if (wake)
		pthread_cond_signal(&pool.work);
}

static void share_end(struct share *share)
{
	leaf_lock(&pool.lock);
	if (share->wanted)
		TAILQ_REMOVE(&pool.shares, share, link);
	share->wanted = 0;
	while (share->inside)
		pthread_cond_wait(&pool.left, &pool.lock.mutex);
	leaf_unlock(&pool.lock);
}

void pool_share(pool_main *fn, void *arg, const struct cred *cred, unsigned more)
{
	struct share share = { .fn = fn, .arg = arg, .cred = cred };

	share_begin(&share, more);
	fn(arg);
	share_end(&share);
}

/* The reactor's side. */

/* What this thread's fibers asked for since its last batch end. */
static __thread struct {
	struct reactor_hook hook;
	struct pool_job *first, *last;
} batch;

static void hand_over(struct pool_job *job)
{
	struct pool_job *next;
	bool wake;

	leaf_lock(&pool.lock);
	for (; job; job = next) {
		next = job->next;
		enqueue_locked(job);
	}
	wake = must_wake_locked();
	leaf_unlock(&pool.lock);
	if (wake)
		pthread_cond_signal(&pool.work);
}

static void batch_end(struct reactor_hook *hook)
{
	struct pool_job *jobs = batch.first;

	batch.first = NULL;
	hand_over(jobs);
}

void pool_enqueue(struct pool_job *job)
{
	job->next = NULL;
	job->post.fn = job_is_home;
	hand_over(job);
}

void pool_submit_to_threads(struct reactor *r, struct pool_job *job)
{
	job->home = r;
	job->next = NULL;
	job->post.fn = job_is_home;
	if (batch.first)
		batch.last->next = job;
	else
		batch.first = job;
	batch.last = job;
	batch.hook.fn = batch_end;
	reactor_at_batch_end(&batch.hook);
}

/* The fiber's side. */

struct pool_call {
	struct pool_job job;
	struct fiber *fiber;
};

static void call_done(struct pool_job *job)
{
	fiber_unpark(container_of(job, struct pool_call, job)->fiber);
}

static bool try_count_in(void)
{
	unsigned calls = atomic_load(&pool.calls);

	do
		if (calls >= pool.calls_max)
			return false;
	while (!atomic_compare_exchange_weak(&pool.calls, &calls, calls + 1));
	return true;
}

static void count_in(void)
{
	if (try_count_in())
		return;
	leaf_lock(&pool.lock);
	atomic_fetch_add(&pool.waiting, 1);
	while (!try_count_in())
		fiber_cond_wait(&pool.room, &pool.lock, "pool is full");
	atomic_fetch_sub(&pool.waiting, 1);
	leaf_unlock(&pool.lock);
}

static void count_out(void)
{
	atomic_fetch_sub(&pool.calls, 1);
	if (!atomic_load(&pool.waiting))
		return;
	leaf_lock(&pool.lock);
	fiber_cond_signal_locked(&pool.room);
	leaf_unlock(&pool.lock);
}

void pool_run_shared(struct pool_lane *lane, pool_main *fn, pool_end *end, void *arg, const struct cred *cred)
{
	struct reactor *r = reactor_self();
	struct pool_call call = {
		.job = { .fn = fn, .arg = arg, .cred = cred, .lane = lane, .end = end, .done = call_done, .home = r },
		.fiber = fiber_self(),
	};

	ASSERT(call.fiber);
	count_in();
	backend->pool_submit(r, &call.job);
	fiber_park("pool", arg);
	count_out();
}

void pool_run_in(struct pool_lane *lane, pool_main *fn, void *arg, const struct cred *cred)
{
	pool_run_shared(lane, fn, NULL, arg, cred);
}

void pool_run(pool_main *fn, void *arg, const struct cred *cred)
{
	pool_run_in(NULL, fn, arg, cred);
}

bool pool_try_run(pool_main *fn, void *arg, const struct cred *cred)
{
	bool go;

	leaf_lock(&pool.lock);
	go = pool.idle > pool.thread_count / 2 && pool.tries < (pool.thread_count + 1) / 2;
	pool.tries += go;
	leaf_unlock(&pool.lock);
	if (!go)
		return false;
	pool_run(fn, arg, cred);
	leaf_lock(&pool.lock);
	pool.tries--;
	leaf_unlock(&pool.lock);
	return true;
}

/* Start and end. */

static void join_threads(void)
{
	leaf_lock(&pool.lock);
	pool.stopping = true;
	pthread_cond_broadcast(&pool.work);
	leaf_unlock(&pool.lock);
	while (pool.thread_count)
		pthread_join(pool.threads[--pool.thread_count], NULL);
	free(pool.threads);
	pool.threads = NULL;
	pool.stopping = false;
}

int pool_init(unsigned threads, unsigned queue_max)
{
	int err = 0;

	if (pool.threads)
		return -EALREADY;
	pool.threads = calloc(threads, sizeof(*pool.threads));
	if (!pool.threads)
		return -ENOMEM;
	/* Who may change identities is root, and root's groups give it nothing. */
	pool.cpus = max_u64(1, sysconf(_SC_NPROCESSORS_ONLN));
	pool.own = (struct cred){ .uid = geteuid(), .gid = getegid() };
	pool.may_change_identity = cred_may_assume();
	pool.calls_max = threads + queue_max;
	if (!pool.may_change_identity)
		log_write(LOG_LEVEL_WARNING, "no right to change identities: all file system work is done as uid %u", pool.own.uid);
	while (pool.thread_count < threads && !err) {
		err = pthread_create(&pool.threads[pool.thread_count], NULL, worker, NULL);
		pool.thread_count += !err;
	}
	if (err)
		join_threads();
	return -err;
}

void pool_settle(void)
{
	leaf_lock(&pool.lock);
	pool.settling = true;
	while (pool.idle < pool.thread_count)
		pthread_cond_wait(&pool.settled, &pool.lock.mutex);
	pool.settling = false;
	leaf_unlock(&pool.lock);
}

void pool_fini(void)
{
	ASSERT(pool.calls == 0);
	join_threads();
	ASSERT(!has_work_locked());
	pool.calls_max = UINT32_MAX;
}
