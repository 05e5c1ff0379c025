/*
 * runtime/pool.c - the blocking pool.
 *
 * Jobs stand in one queue under one leaf lock; idle workers wait on a pthread condition. A worker remembers which identity it has taken on and changes
 * it only when a job wants another. Fibers count themselves in before they queue a job: beyond threads + queue_max they wait in line. What backends
 * queue by themselves (operations that the ring lacks) is not held up, it is bounded by the operations in flight.
 *
 * A process without the right to change identities (not root) runs every job as itself; it says so once.
 */
#include "runtime/pool.h"

#include <linux/capability.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/backend.h"
#include "runtime/backend_real.h"
#include "runtime/counter.h"
#include "runtime/cred.h"
#include "runtime/fiber.h"
#include "runtime/internal.h"
#include "runtime/log.h"
#include "runtime/sync.h"

COUNTER_DEFINE(pool_jobs, "runtime.pool.jobs");
COUNTER_DEFINE(pool_identities, "runtime.pool.identity_changes");

static struct {
	/* immutable between pool_init() and pool_fini() */
	pthread_t *threads;
	unsigned thread_count;
	struct cred own;
	bool may_change_identity;
	/* protected by lock */
	struct leaf_lock lock;
	pthread_cond_t work;
	struct pool_job *first, **last;
	bool stopping;
	unsigned calls, calls_max;
	struct fiber_cond room;
} pool = {
	.lock = LEAF_LOCK_INIT,
	.work = PTHREAD_COND_INITIALIZER,
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

/* The next job, or NULL at the end. */
static struct pool_job *take_job(void)
{
	struct pool_job *job;

	leaf_lock(&pool.lock);
	while (!pool.first && !pool.stopping)
		pthread_cond_wait(&pool.work, &pool.lock.mutex);
	job = pool.first;
	if (job) {
		pool.first = job->next;
		if (!pool.first)
			pool.last = &pool.first;
	}
	leaf_unlock(&pool.lock);
	return job;
}

static void job_is_home(struct reactor_post *post)
{
	struct pool_job *job = container_of(post, struct pool_job, post);

	job->done(job);
}

static void *worker(void *arg)
{
	struct cred now = pool.own;
	struct pool_job *job;

	while ((job = take_job())) {
		become(&now, job->cred);
		job->fn(job->arg);
		counter_add(&pool_jobs, 1);
		reactor_push(job->home, &job->post);
	}
	return NULL;
}

void pool_enqueue(struct pool_job *job)
{
	job->next = NULL;
	job->post.fn = job_is_home;
	leaf_lock(&pool.lock);
	*pool.last = job;
	pool.last = &job->next;
	pthread_cond_signal(&pool.work);
	leaf_unlock(&pool.lock);
}

void pool_submit_to_threads(struct reactor *r, struct pool_job *job)
{
	job->home = r;
	pool_enqueue(job);
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

static void count_in(void)
{
	leaf_lock(&pool.lock);
	while (pool.calls >= pool.calls_max)
		fiber_cond_wait(&pool.room, &pool.lock, "pool is full");
	pool.calls++;
	leaf_unlock(&pool.lock);
}

static void count_out(void)
{
	leaf_lock(&pool.lock);
	pool.calls--;
	fiber_cond_signal_locked(&pool.room);
	leaf_unlock(&pool.lock);
}

void pool_run(pool_main *fn, void *arg, const struct cred *cred)
{
	struct reactor *r = reactor_self();
	struct pool_call call = {
		.job = { .fn = fn, .arg = arg, .cred = cred, .done = call_done, .home = r },
		.fiber = fiber_self(),
	};

	ASSERT(call.fiber);
	count_in();
	backend->pool_submit(r, &call.job);
	fiber_park("pool", arg);
	count_out();
}

/* Start and end. */

static bool may_change_identity(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];
	const uint32_t need = 1u << CAP_SETUID | 1u << CAP_SETGID;

	if (syscall(SYS_capget, &header, data))
		return false;
	return (data[0].effective & need) == need;
}

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
	pool.own = (struct cred){ .uid = geteuid(), .gid = getegid() };
	pool.may_change_identity = may_change_identity();
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

void pool_fini(void)
{
	ASSERT(pool.calls == 0);
	join_threads();
	ASSERT(!pool.first);
	pool.calls_max = UINT32_MAX;
}
