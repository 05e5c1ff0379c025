/* The blocking pool: whose identity a job has, seen by what the file system says; the bound; and that the loop goes on meanwhile. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/clock.h"
#include "runtime/counter.h"
#include "runtime/cred.h"
#include "runtime/pool.h"
#include "tests/unit/runtime_harness.h"

static char dir[64];

static void make_dir(mode_t mode, gid_t group)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(dir, sizeof(dir), "%s/rt-pool.XXXXXX", tmp ? tmp : "/tmp");
	cr_assert_not_null(mkdtemp(dir));
	cr_assert_eq(chown(dir, 0, group), 0);
	cr_assert_eq(chmod(dir, mode), 0);
}

static void remove_dir(void)
{
	cr_assert_eq(rmdir(dir), 0);
}

static void needs_root(void)
{
	if (geteuid() != 0)
		cr_skip_test("only root can take on other identities");
}

/* Create a file there, look whose it is, remove it as root. */
struct creation {
	int err;
	uid_t uid;
	gid_t gid;
};

static void create_file(void *arg)
{
	struct creation *c = arg;
	char path[128];
	struct stat st = { 0 };
	int fd;

	snprintf(path, sizeof(path), "%s/f", dir);
	fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
	c->err = fd < 0 ? errno : 0;
	if (fd >= 0) {
		fstat(fd, &st);
		close(fd);
	}
	c->uid = st.st_uid;
	c->gid = st.st_gid;
}

static void remove_file(void *arg)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/f", dir);
	unlink(path);
}

static struct creation create_as(const struct cred *cred)
{
	struct creation c;

	pool_run(create_file, &c, cred);
	pool_run(remove_file, NULL, NULL);
	return c;
}

static void identities(void)
{
	const struct cred alice = { .uid = 1234, .gid = 2345 };
	const struct cred bob = { .uid = 1235, .gid = 2346, .ngroups = 2, .groups = { 50, 51 } };

	for (unsigned i = 0; i < 3; i++) {
		struct creation c = create_as(&alice);

		ASSERT(c.err == 0 && c.uid == 1234 && c.gid == 2345);
		c = create_as(NULL);
		ASSERT(c.err == 0 && c.uid == 0 && c.gid == 0);
		c = create_as(&bob);
		ASSERT(c.err == 0 && c.uid == 1235 && c.gid == 2346);
		c = create_as(&cred_root);
		ASSERT(c.err == 0 && c.uid == 0 && c.gid == 0);
	}
	/* The reactor's own thread is as it was. */
	ASSERT(geteuid() == 0 && getegid() == 0);
}

Test(pool, jobs_run_as_whom_they_name)
{
	needs_root();
	make_dir(0777, 0);
	harness_run_one(0, identities);
	remove_dir();
}

static void groups(void)
{
	const struct cred outside = { .uid = 1234, .gid = 2345 };
	const struct cred member = { .uid = 1234, .gid = 2345, .ngroups = 3, .groups = { 7, 4711, 8 } };
	const struct cred primary = { .uid = 1234, .gid = 4711 };

	ASSERT(create_as(&outside).err == EACCES);
	ASSERT(create_as(&member).err == 0);
	ASSERT(create_as(&outside).err == EACCES);
	ASSERT(create_as(&primary).err == 0);
	ASSERT(create_as(NULL).err == 0);
	ASSERT(create_as(&outside).err == EACCES);
}

Test(pool, supplementary_groups_count)
{
	needs_root();
	make_dir(0770, 4711);
	harness_run_one(0, groups);
	remove_dir();
}

static void impossible(void)
{
	const struct cred minus_one = { .uid = UINT32_MAX, .gid = UINT32_MAX, .ngroups = 2, .groups = { UINT32_MAX, 4711 } };
	struct creation c = create_as(&minus_one);

	ASSERT(c.err == 0 && c.uid == 65534 && c.gid == 65534);
}

Test(pool, ids_that_cannot_exist_act_as_nobody)
{
	needs_root();
	make_dir(0777, 0);
	harness_run_one(0, impossible);
	remove_dir();
}

/* With one thread, jobs of one identity in a row change it once. */
static void repeat(void *arg, unsigned index)
{
	const struct cred alice = { .uid = 1234, .gid = 2345 };
	int64_t before = counter_value("runtime.pool.identity_changes");

	for (unsigned i = 0; i < 10; i++)
		pool_run(remove_file, NULL, &alice);
	ASSERT(counter_value("runtime.pool.identity_changes") - before == 1);
	runtime_stop();
}

Test(pool, identity_is_cached)
{
	const struct reactor_config config = { .reactors = 1, .fibers = 4, .pool_threads = 1 };

	needs_root();
	make_dir(0777, 0);
	harness_run(&config, repeat, NULL);
	remove_dir();
}

/* A job that blocks holds up only its own fiber. */
static pthread_barrier_t barrier;

static void block(void *arg)
{
	pthread_barrier_wait(&barrier);
}

static void blocked_fiber(void *arg)
{
	pool_run(block, NULL, NULL);
	*(bool *)arg = true;
}

static void others_go_on(void)
{
	bool done = false;

	pthread_barrier_init(&barrier, NULL, 2);
	ASSERT(fiber_spawn(blocked_fiber, &done, "blocked") == 0);
	for (unsigned i = 0; i < 100; i++)
		fiber_yield();
	ASSERT(!done);
	pthread_barrier_wait(&barrier);
	while (!done)
		fiber_yield();
	pthread_barrier_destroy(&barrier);
}

Test(pool, blocking_jobs_do_not_block_the_reactor)
{
	harness_run_one(0, others_go_on);
}

/* The bound: 30 fibers of each reactor, 1 thread and a queue of 2. */
enum { CALLERS = 30 };
static _Atomic unsigned running, most_running, finished_calls;

static void count_running(void *arg)
{
	unsigned now = ++running;

	if (now > most_running)
		most_running = now;
	sched_yield();
	running--;
}

static void caller(void *arg)
{
	for (unsigned i = 0; i < 20; i++)
		pool_run(count_running, NULL, NULL);
	if (++finished_calls == 2 * CALLERS)
		runtime_stop();
}

static void callers_start(void *arg, unsigned index)
{
	for (unsigned i = 0; i < CALLERS; i++)
		ASSERT(fiber_spawn(caller, NULL, "caller") == 0);
}

Test(pool, jobs_beyond_the_bound_wait)
{
	const struct reactor_config config = { .reactors = 2, .fibers = 40 };

	cr_assert_eq(pool_init(2, 2), 0);
	cr_assert_eq(pool_init(2, 2), -EALREADY);
	cr_assert_eq(runtime_init(&config), 0);
	cr_assert_eq(runtime_run(callers_start, NULL), 0);
	pool_fini();	/* before the reactors, which a worker that has just finished still nudges */
	runtime_fini();
	cr_assert_eq(finished_calls, 2 * CALLERS);
	cr_assert_leq(most_running, 2);
	cr_assert_eq(counter_value("runtime.pool.jobs"), 2 * CALLERS * 20);
}

/* A shared job: whoever comes is the job's identity, each part is done once, and nobody is in it any more when it returns. It need not wait for anybody. */
enum { SHARED_JOBS = 200, SHARED_PARTS = 2000 };
static _Atomic unsigned shared_done[SHARED_PARTS], shared_next, inside_share, came_along;
static pthread_t sharer;

static void take_parts(void *arg)
{
	unsigned i;

	inside_share++;
	if (!pthread_equal(pthread_self(), sharer))
		came_along++;
	ASSERT(!cred_may_assume() || setfsuid(-1) == *(int *)arg);
	while ((i = shared_next++) < SHARED_PARTS)
		shared_done[i]++;
	inside_share--;
}

static void share_main(void *arg)
{
	const struct cred *cred = arg;
	int uid = cred->uid;

	shared_next = 0;
	sharer = pthread_self();
	pool_share(take_parts, &uid, cred, 3);
	ASSERT(inside_share == 0);
}

static void share_often(void)
{
	for (unsigned i = 0; i < SHARED_JOBS; i++) {
		const struct cred cred = { .uid = cred_may_assume() ? 1000 + i % 3 : geteuid(), .gid = 1000 };

		pool_run(share_main, (void *)&cred, &cred);
	}
	for (unsigned i = 0; i < SHARED_PARTS; i++)
		ASSERT(shared_done[i] == SHARED_JOBS);
	ASSERT(counter_value("runtime.pool.helped") == came_along);
	runtime_stop();
}

Test(pool, a_job_shares_its_work)
{
	harness_run_one(0, share_often);
}

/* A lane: one at a time, in order, each as whom it names, and busy lanes leave a worker to others. */
enum { LANE_FIBERS = 10, LANE_JOBS = 50 };
static struct pool_lane lanes[2];
static _Atomic unsigned in_lane[2], lane_fibers_done;

struct lane_job {
	unsigned lane;
	unsigned uid, seen;
};

static void in_lane_main(void *arg)
{
	struct lane_job *j = arg;

	ASSERT(in_lane[j->lane]++ == 0);
	sched_yield();
	j->seen = setfsuid(-1);
	ASSERT(--in_lane[j->lane] == 0);
}

static void lane_fiber(void *arg)
{
	const unsigned n = (uintptr_t)arg;
	const struct cred cred = { .uid = 1000 + n };
	struct lane_job j = { .lane = n % 2, .uid = cred.uid };

	for (unsigned i = 0; i < LANE_JOBS; i++) {
		pool_run_in(lanes + j.lane, in_lane_main, &j, &cred);
		ASSERT(geteuid() || j.seen == j.uid);
	}
	lane_fibers_done++;
}

static void lanes_go_on(void)
{
	for (uintptr_t i = 0; i < LANE_FIBERS; i++)
		ASSERT(fiber_spawn(lane_fiber, (void *)i, "lane") == 0);
	/* Two workers, two lanes that always have somebody waiting. */
	while (lane_fibers_done < LANE_FIBERS)
		pool_run(remove_file, NULL, NULL);
}

Test(pool, lanes)
{
	harness_run_one(0, lanes_go_on);
	for (unsigned i = 0; i < 2; i++)
		cr_assert(!lanes[i].busy && !lanes[i].first);
}

static unsigned order[LANE_FIBERS], ordered;

static void note_order(void *arg)
{
	order[ordered++] = (uintptr_t)arg;
}

static void ordered_fiber(void *arg)
{
	pool_run_in(lanes, note_order, arg, NULL);
	lane_fibers_done++;
}

static void lane_in_order(void)
{
	for (uintptr_t i = 0; i < LANE_FIBERS; i++)
		ASSERT(fiber_spawn(ordered_fiber, (void *)i, "ordered") == 0);
	while (lane_fibers_done < LANE_FIBERS)
		fiber_yield();
	for (unsigned i = 0; i < LANE_FIBERS; i++)
		ASSERT(order[i] == i);
}

Test(pool, a_lane_keeps_order)
{
	harness_run_one(0, lane_in_order);
}

/* Jobs with a common end: it runs when the lane is free again, as the server, and may leave them to somebody else's. */
static _Atomic unsigned shared_ran, shared_turns, shared_over;
static struct pool_job *left_over;

static void shared_main(void *arg)
{
	ASSERT(geteuid() || setfsuid(-1) == *(const int *)arg);
	shared_ran++;
}

static void all_over(struct pool_job *jobs)
{
	struct pool_job *next;

	for (; jobs; jobs = next) {
		next = pool_job_next(jobs);
		ASSERT(*(int *)pool_job_arg(jobs) >= 1000);
		pool_job_over(jobs);
	}
}

static void shared_end(struct pool_job *jobs)
{
	ASSERT(geteuid() || setfsuid(-1) == 0);
	if (!shared_turns) {
		left_over = jobs;
		shared_turns++;	/* from here on there may be a second */
		while (shared_ran < 2)
			sched_yield();
		return;
	}
	shared_turns++;
	ASSERT(!shared_over);
	all_over(left_over);
	all_over(jobs);
}

static void shared_fiber(void *arg)
{
	const int uid = 1000 + (int)(uintptr_t)arg;
	const struct cred cred = { .uid = uid };

	pool_run_shared(lanes, shared_main, shared_end, (void *)&uid, &cred);
	shared_over++;
}

static void shared_end_of_two_turns(void)
{
	ASSERT(fiber_spawn(shared_fiber, (void *)0, "first") == 0);
	while (!shared_turns)
		fiber_yield();
	ASSERT(fiber_spawn(shared_fiber, (void *)1, "second") == 0);
	while (shared_over < 2)
		fiber_yield();
	ASSERT(shared_turns == 2);
}

Test(pool, a_common_end_of_two_turns)
{
	harness_run_one(0, shared_end_of_two_turns);
	cr_assert(!lanes[0].busy && !lanes[0].first);
}

/* Slow jobs do not wait for the others of their lane: a turn is cut short, and each has its end. */
enum { SLOW_JOBS = 5, SLOW_NS = 1000000 };

static void slow_main(void *arg)
{
	const uint64_t until_ns = clock_mono_ns() + SLOW_NS;

	ordered += *(const int *)arg == 1000 + (int)ordered;
	while (clock_mono_ns() < until_ns)
		;
}

static void slow_end(struct pool_job *jobs)
{
	shared_turns++;
	all_over(jobs);
}

static void slow_fiber(void *arg)
{
	const int uid = 1000 + (int)(uintptr_t)arg;

	pool_run_shared(lanes, slow_main, slow_end, (void *)&uid, NULL);
	shared_over++;
}

static void slow_turns(void)
{
	for (uintptr_t i = 0; i < SLOW_JOBS; i++)
		ASSERT(fiber_spawn(slow_fiber, (void *)i, "slow") == 0);
	while (shared_over < SLOW_JOBS)
		fiber_yield();
	ASSERT(shared_turns == SLOW_JOBS && ordered == SLOW_JOBS);
}

Test(pool, slow_jobs_end_one_by_one)
{
	harness_run_one(0, slow_turns);
	cr_assert(!lanes[0].busy && !lanes[0].first);
}

/* Many jobs at once and all of them block: each gets a thread, though one was woken for all. */
static _Atomic unsigned unblocked;

static void block_together(void *arg)
{
	pthread_barrier_wait(&barrier);
	unblocked++;
}

static void together_fiber(void *arg)
{
	pool_run(block_together, NULL, NULL);
}

static void block_all(void *arg, unsigned index)
{
	for (unsigned i = 0; i < 8; i++)
		ASSERT(fiber_spawn(together_fiber, NULL, "together") == 0);
	while (unblocked < 8)
		fiber_yield();
	runtime_stop();
}

Test(pool, jobs_that_block_find_all_threads)
{
	const struct reactor_config config = { .reactors = 1, .fibers = 16, .pool_threads = 8 };

	pthread_barrier_init(&barrier, NULL, 8);
	harness_run(&config, block_all, NULL);
	pthread_barrier_destroy(&barrier);
}

/* All of them ask in one turn, before a worker has come for any: half of the threads stay for others. */
static unsigned tried, refused;

static void no_job(void *arg)
{
}

static void try_fiber(void *arg)
{
	if (pool_try_run(no_job, NULL, NULL))
		tried++;
	else
		refused++;
}

static void try_all(void)
{
	while (!pool_try_run(no_job, NULL, NULL)) /* until the threads are there */
		fiber_yield();
	for (unsigned i = 0; i < 12; i++)
		ASSERT(fiber_spawn(try_fiber, NULL, "try") == 0);
	while (tried + refused < 12)
		fiber_yield();
	ASSERT(tried == 4);
}

Test(pool, what_needs_no_thread_takes_half_of_them_at_most)
{
	const struct reactor_config config = { .reactors = 1, .fibers = 16, .pool_threads = 8 };

	harness_run(&config, harness_start, try_all);
}

Test(cred, equality_and_membership)
{
	const struct cred a = { .uid = 1, .gid = 2, .ngroups = 1, .groups = { 3 } };
	struct cred b = a;

	b.groups[1] = 99; /* beyond ngroups: no part of it */
	cr_assert(cred_equal(&a, &b));
	b.ngroups = 2;
	cr_assert_not(cred_equal(&a, &b));
	cr_assert(cred_in_group(&a, 2) && cred_in_group(&a, 3));
	cr_assert_not(cred_in_group(&a, 99));
	cr_assert(cred_in_group(&b, 99));
}
