/*
 * runtime/sim.c - the simulated backend: schedule, events, clock, descriptors; control by the test.
 *
 * How to write a simulation test
 * ------------------------------
 * A simulation runs the server's own code, single-threaded, on a made-up disk, network and clock, so that a test can explore schedules and power
 * cuts by the thousand and replay the one that failed. A test is a function of a seed:
 *
 *	for (seed = 1; seed <= 300; seed++) {
 *		struct sim_config config = { .seed = seed, .block_bytes = 4096, .mem_align_bytes = 512, .latency_ns_max = 200000 };
 *
 *		sim_init(&config);
 *		runtime_init(&(struct reactor_config){ .fibers = 64 });
 *		sim_cut_at_step(1 + sim_random(500));
 *		if (runtime_run(start, &model) == -EPIPE)
 *			the power went: what the disk holds is what a restart finds;
 *		runtime_fini();
 *		compare sim_peek(), sim_size() with the model, printing sim_seed_text() where they differ;
 *		sim_fini();
 *	}
 *
 * start() spawns fibers that do the work (they call io_*, pool_run(), fiber locks, the layer under test), and each notes in the model what was
 * *acknowledged*, after the call that acknowledged it returned. After a cut the rule to check is: acknowledged as durable, so present; otherwise
 * old, new, or (where a size grew over it) zeros, block by block; and never anything that nobody wrote. The model lives outside the fibers' stacks.
 *
 *  - Draw from sim_random() only. Time, rand(), addresses as hash keys, uninitialised memory: each makes a failure that does not come back.
 *    sim_trace_hash() of two runs of one seed tells.
 *  - Do not sleep to let something happen. Time stands still while a fiber is runnable and jumps to the next event when none is, so an hour of
 *    fiber_sleep_ns() costs nothing.
 *  - Faults come in two forms: probabilities (sim_set_faults()) for exploration, the named points of runtime/fault.h for "the third fsync fails".
 *  - Check the end too: runtime_run() returned 0, the model is equal, nothing is left over.
 *  - What an abandoned fiber held stays held after a cut: memory, bufs of the budget, places in the static lists of upper layers. A test of these
 *    layers forks a child per seed and judges by its exit status: a child is a machine, and what a dead one leaks does not count.
 *  - When it fails, the seed is in the message (an abort prints it too). Rerun with only that seed; NFSDIRECT_TRACE=all shows the path.
 *
 * How it works
 * ------------
 * Whatever takes time is an event: (moment, drawn tie). poll() delivers what is due; only when the reactor may wait does the clock jump to the
 * first event or to the end of the wait. A reactor that polls without waiting a thousand times without any event is a fiber that spins; then
 * time passes for it as well. Nothing to run, nothing under way and no timer is a deadlock, and panics with the seed.
 *
 * A step is one choice of the scheduler or one event. A cut armed by step happens before that step.
 *
 * A cut empties the world (sim_file_cut, sim_net_cut, events, descriptors), lets the disk decide what survived, and tells the reactor to leave its
 * loop (reactor_abandon()); until it has done so the world is dead: operations submitted meanwhile go nowhere, as those of a machine without power.
 */
#include "runtime/sim_world.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "runtime/backend.h"
#include "runtime/io.h"

enum {
	FD_BASE = 1 << 20,           /* far from the kernel's */
	EMPTY_POLLS_MAX = 1000,
	TICK_NS_DEFAULT = 4 * 1000 * 1000,
	PLAIN_BLOCK_BYTES = 4096,    /* of a disk whose files have no direct I/O */
};

#define NS_PER_SEC 1000000000ull
#define MONO_START_NS (1000 * NS_PER_SEC)
#define REAL_START_SEC 1767225600ll /* 2026-01-01 */

enum traced { TRACED_PICK, TRACED_COMPLETE, TRACED_CUT };

struct later {
	LIST_ENTRY(later) link;
	struct sim_event event;
	struct io_op *op;
	struct pool_job *job;
	ssize_t res;
};

LIST_HEAD(laters, later);

struct sim_world sim;

static struct laters laters = LIST_HEAD_INITIALIZER(laters);
static char seed_text[32];
static struct sigaction abort_before;

int sim_event_compare(const struct sim_event *a, const struct sim_event *b)
{
	if (a->at_ns != b->at_ns)
		return a->at_ns < b->at_ns ? -1 : 1;
	return a->tie < b->tie ? -1 : a->tie > b->tie;
}

RB_GENERATE(sim_events, sim_event, link, sim_event_compare)

void sim_event_disarm(struct sim_event *e)
{
	if (e->armed)
		RB_REMOVE(sim_events, &sim.events, e);
	e->armed = false;
}

void sim_event_arm(struct sim_event *e, uint64_t delay_ns)
{
	sim_event_disarm(e);
	e->at_ns = sim.now_ns + delay_ns;
	e->armed = true;
	do
		e->tie = sim_random_next(&sim.random);
	while (RB_INSERT(sim_events, &sim.events, e));
}

uint64_t sim_latency(void)
{
	return sim_random(4) ? sim_random(sim.config.latency_ns_max + 1) : 0;
}

bool sim_chance(uint32_t p)
{
	return p && sim_random(65536) < p;
}

void sim_trace(uint64_t what, uint64_t value)
{
	struct sim_random_state mix = { sim.trace_hash ^ (what << 56) ^ value };

	sim.trace_hash = sim_random_next(&mix);
}

static struct timespec real_at(uint64_t mono_ns)
{
	uint64_t ns = mono_ns - MONO_START_NS;

	return (struct timespec){ .tv_sec = REAL_START_SEC + (time_t)(ns / NS_PER_SEC), .tv_nsec = (long)(ns % NS_PER_SEC) };
}

struct timespec sim_file_time(void)
{
	uint64_t tick = sim.config.tick_ns ? sim.config.tick_ns : TICK_NS_DEFAULT;

	return real_at(MONO_START_NS + (sim.now_ns - MONO_START_NS) / tick * tick);
}

void sim_panic(const char *what)
{
	runtime_panic(seed_text, 0, what);
}

void sim_complete(struct io_op *op, ssize_t res)
{
	sim_trace(TRACED_COMPLETE, (uint64_t)op->code << 48 ^ (uint64_t)res ^ sim.now_ns);
	op->res = res;
	reactor_complete(sim.reactor, op);
}

static struct later *later_take(struct sim_event *e)
{
	struct later *l = container_of(e, struct later, event);

	LIST_REMOVE(l, link);
	return l;
}

static void later_complete(struct sim_event *e)
{
	struct later *l = later_take(e);
	struct io_op *op = l->op;
	ssize_t res = l->res;

	free(l);
	sim_complete(op, res);
}

static struct later *later_arm(void (*fn)(struct sim_event *e))
{
	struct later *l = calloc(1, sizeof(*l));

	ASSERT(l);
	LIST_INSERT_HEAD(&laters, l, link);
	l->event.fn = fn;
	sim_event_arm(&l->event, sim_latency());
	return l;
}

void sim_complete_later(struct io_op *op, ssize_t res)
{
	struct later *l = later_arm(later_complete);

	l->op = op;
	l->res = res;
}

int sim_fd_install(const struct sim_fd *named)
{
	if ((sim.fds_count & (sim.fds_count - 1)) == 0)
		sim.fds = reallocarray(sim.fds, sim.fds_count ? 2 * sim.fds_count : 1, sizeof(*sim.fds));
	ASSERT(sim.fds);
	sim.fds[sim.fds_count] = *named;
	return FD_BASE + (int)sim.fds_count++;
}

struct sim_fd *sim_fd_find(int fd)
{
	unsigned index = (unsigned)fd - FD_BASE;

	if (fd < FD_BASE || index >= sim.fds_count || sim.fds[index].kind == SIM_FD_FREE)
		return NULL;
	return &sim.fds[index];
}

int sim_fd_close(int fd)
{
	struct sim_fd *slot = sim_fd_find(fd), named;

	if (!slot)
		return -EBADF;
	named = *slot;
	*slot = (struct sim_fd){ .kind = SIM_FD_FREE };
	if (named.kind == SIM_FD_FILE)
		disk_put(named.file);
	else if (named.kind == SIM_FD_SOCKET)
		sim_socket_put(named.socket);
	else
		sim_listener_put(named.listener);
	return 0;
}

size_t sim_iov_len(const struct iovec *iov, size_t count)
{
	size_t len = 0, i;

	for (i = 0; i < count; i++)
		len += iov[i].iov_len;
	return len;
}

size_t sim_iov_gather(uint8_t *to, size_t len, const struct iovec *iov, size_t count, size_t skip)
{
	size_t done = 0, part, i;

	for (i = 0; i < count && done < len; i++) {
		if (skip >= iov[i].iov_len) {
			skip -= iov[i].iov_len;
			continue;
		}
		part = min_u64(iov[i].iov_len - skip, len - done);
		memcpy(to + done, (const uint8_t *)iov[i].iov_base + skip, part);
		done += part;
		skip = 0;
	}
	return done;
}

size_t sim_iov_scatter(const struct iovec *iov, size_t count, size_t skip, const uint8_t *from, size_t len)
{
	size_t done = 0, part, i;

	for (i = 0; i < count && done < len; i++) {
		if (skip >= iov[i].iov_len) {
			skip -= iov[i].iov_len;
			continue;
		}
		part = min_u64(iov[i].iov_len - skip, len - done);
		memcpy((uint8_t *)iov[i].iov_base + skip, from + done, part);
		done += part;
		skip = 0;
	}
	return done;
}

static void drop_laters(void)
{
	struct later *l;

	while ((l = LIST_FIRST(&laters))) {
		LIST_REMOVE(l, link);
		sim_event_disarm(&l->event);
		free(l);
	}
}

/* Everything that is not on the disk. */
static void drop_volatile(void)
{
	unsigned i;

	sim_file_cut();
	drop_laters();
	for (i = 0; i < sim.fds_count; i++)
		if (sim.fds[i].kind == SIM_FD_FILE)
			sim_fd_close(FD_BASE + (int)i);
	sim_net_cut();
	for (i = 0; i < sim.fds_count; i++)
		sim.fds[i].kind = SIM_FD_FREE;
	ASSERT(RB_EMPTY(&sim.events));
}

static void cut(void)
{
	sim.cut_step = 0;
	sim.cuts++;
	sim_trace(TRACED_CUT, sim.now_ns);
	drop_volatile();
	disk_cut(&sim.disk);
	sim.now_ns += NS_PER_SEC + sim_random(NS_PER_SEC);
	if (!sim.reactor)
		return;
	sim.dead = true;
	reactor_abandon(sim.reactor); /* does not return to a fiber */
}

void sim_power_cut(void)
{
	cut();
}

/* Before each choice and each event. True if the power went. */
static bool step(void)
{
	sim.steps++;
	if (sim.cut_step && sim.steps >= sim.cut_step)
		cut();
	return sim.dead;
}

static int sim_backend_init(struct reactor *r, const struct reactor_config *config)
{
	ASSERT(sim.disk.block_bytes); /* sim_init() was called */
	return 0;
}

/* As when a process ends: what is in flight still lands, descriptors are closed. */
static void sim_backend_fini(struct reactor *r)
{
	drop_volatile();
}

static int sim_start(struct reactor *r)
{
	ASSERT(!sim.reactor);
	sim.reactor = r;
	return 0;
}

static void sim_stop(struct reactor *r)
{
	sim.reactor = NULL;
	sim.dead = false;
}

static void sim_submit(struct reactor *r, struct io_op *op)
{
	const struct sim_fd *fd = sim_fd_find(op->fd);

	if (sim.dead)
		return;
	if (!fd)
		sim_complete_later(op, -EBADF);
	else if (op->code == IO_CLOSE)
		sim_complete_later(op, sim_fd_close(op->fd));
	else if (fd->kind == SIM_FD_FILE)
		sim_file_submit(op, fd);
	else if (fd->kind == SIM_FD_SOCKET)
		sim_socket_submit(op, fd->socket);
	else
		sim_listener_submit(op, fd->listener);
}

/* Files' operations end by themselves, as a disk's do. */
static void sim_cancel(struct reactor *r, struct io_op *op)
{
	if (!sim.dead)
		sim_net_cancel(op);
}

static void sim_cancel_all(struct reactor *r)
{
	if (!sim.dead)
		sim_net_cancel(NULL);
}

void sim_event_deliver(struct sim_event *e)
{
	sim_event_disarm(e);
	e->fn(e);
}

static void deliver(struct sim_event *e)
{
	if (!step())
		sim_event_deliver(e);
}

static unsigned count_due(void)
{
	struct sim_event *e;
	unsigned due = 0;

	RB_FOREACH(e, sim_events, &sim.events) {
		if (e->at_ns > sim.now_ns)
			break;
		due++;
	}
	return due;
}

static bool may_jump(uint64_t timeout_ns)
{
	return timeout_ns || (++sim.empty_polls > EMPTY_POLLS_MAX && !RB_EMPTY(&sim.events));
}

static void jump(uint64_t timeout_ns)
{
	const struct sim_event *first = RB_MIN(sim_events, &sim.events);
	uint64_t until = timeout_ns > UINT64_MAX - sim.now_ns ? UINT64_MAX : sim.now_ns + timeout_ns;

	if (first)
		until = min_u64(until, first->at_ns);
	if (until == UINT64_MAX)
		sim_panic("deadlock: nothing runs, nothing is under way, no timer");
	sim.now_ns = max_u64(sim.now_ns, until);
	sim.empty_polls = 0;
}

static void sim_poll(struct reactor *r, uint64_t timeout_ns)
{
	unsigned due;

	if (sim.dead)
		return;
	if (sim.explorer.choose) {
		sim_explore_poll(r, sim.nudged ? 0 : timeout_ns);
		sim.nudged = false;
		return;
	}
	if (!count_due() && !sim.nudged && may_jump(timeout_ns))
		jump(timeout_ns ? timeout_ns : UINT64_MAX);
	sim.nudged = false;
	for (due = count_due(); due && !sim.dead && !RB_EMPTY(&sim.events); due--)
		deliver(RB_MIN(sim_events, &sim.events));
}

static void sim_nudge(struct reactor *r)
{
	sim.nudged = true;
}

static void job_done(struct sim_event *e)
{
	struct later *l = later_take(e);
	struct pool_job *job = l->job;

	free(l);
	job->done(job);
}

/* The function runs at one drawn moment, its end is seen at a later one. */
static void job_run(struct sim_event *e)
{
	struct pool_job *job = container_of(e, struct later, event)->job;
	unsigned cuts = sim.cuts;

	ASSERT(!job->end);
	job->fn(job->arg);
	if (sim.cuts != cuts)
		return;
	e->fn = job_done;
	sim_event_arm(e, sim_latency());
}

static void sim_pool_submit(struct reactor *r, struct pool_job *job)
{
	if (!sim.dead)
		later_arm(job_run)->job = job;
}

static int sim_fstatx(int fd, unsigned mask, struct statx *stx)
{
	const struct sim_fd *slot = sim_fd_find(fd);

	if (!slot || slot->kind != SIM_FD_FILE)
		return -EBADF;
	return sim_file_statx(slot, stx);
}

static int sim_shutdown(int fd)
{
	const struct sim_fd *slot = sim_fd_find(fd);

	if (!slot)
		return -EBADF;
	if (slot->kind != SIM_FD_SOCKET)
		return -ENOTSOCK;
	sim_socket_shutdown(slot->socket);
	return 0;
}

static uint64_t sim_mono_ns(void)
{
	return sim.now_ns;
}

static struct timespec sim_real(void)
{
	return real_at(sim.now_ns);
}

static void sim_random_bytes(void *buf, size_t len)
{
	uint8_t *to = buf;
	uint64_t word;
	size_t part;

	for (; len; to += part, len -= part) {
		word = sim_random_next(&sim.random);
		part = min_u64(len, sizeof(word));
		memcpy(to, &word, part);
	}
}

static unsigned sim_pick(struct reactor *r, unsigned n)
{
	unsigned choice;

	if (sim.explorer.choose)
		return sim_explore_pick(r);
	if (step())
		return 0;
	choice = (unsigned)sim_random(n);
	sim_trace(TRACED_PICK, (uint64_t)n << 32 | choice);
	return choice;
}

const struct backend backend_sim = {
	.name = "sim",
	.init = sim_backend_init,
	.fini = sim_backend_fini,
	.start = sim_start,
	.stop = sim_stop,
	.submit = sim_submit,
	.cancel = sim_cancel,
	.cancel_all = sim_cancel_all,
	.poll = sim_poll,
	.nudge = sim_nudge,
	.pool_submit = sim_pool_submit,
	.fstatx = sim_fstatx,
	.shutdown = sim_shutdown,
	.mono_ns = sim_mono_ns,
	.real = sim_real,
	.random = sim_random_bytes,
	.pick = sim_pick,
};

/* An abort anywhere in a simulated run names the seed; abort() goes on when this returns. */
static void print_seed(int sig)
{
	struct iovec line[] = { { seed_text, strlen(seed_text) }, { (void *)"\n", 1 } };
	ssize_t written = writev(STDERR_FILENO, line, ARRAY_SIZE(line));

	(void)written;
}

void sim_init(const struct sim_config *config)
{
	uint32_t block = config->block_bytes ? config->block_bytes : PLAIN_BLOCK_BYTES;

	ASSERT(!sim.disk.block_bytes);
	ASSERT(block >= 512 && block <= 65536);
	sim = (struct sim_world){ .config = *config, .random = { config->seed }, .now_ns = MONO_START_NS };
	RB_INIT(&sim.events);
	disk_init(&sim.disk, block, config->disk_bytes, sim_random_next(&sim.random));
	snprintf(seed_text, sizeof(seed_text), "seed %llu", (unsigned long long)config->seed);
	sigaction(SIGABRT, &(struct sigaction){ .sa_handler = print_seed }, &abort_before);
	backend = &backend_sim;
}

void sim_fini(void)
{
	ASSERT(!sim.reactor);
	drop_volatile();
	disk_fini(&sim.disk);
	free(sim.fds);
	sim = (struct sim_world){ .cuts = 0 };
	sigaction(SIGABRT, &abort_before, NULL);
	backend = &backend_uring;
}

const char *sim_seed_text(void)
{
	return seed_text;
}

uint64_t sim_random(uint64_t bound)
{
	return sim_random_draw(&sim.random, bound);
}

int sim_open(uint64_t number, unsigned flags)
{
	if ((flags & SIM_DIRECT) && !sim.config.block_bytes)
		return -EINVAL;
	return sim_fd_install(&(struct sim_fd){
		.kind = SIM_FD_FILE,
		.flags = flags,
		.file = disk_open(&sim.disk, number, sim_file_time()),
	});
}

void sim_close(int fd)
{
	sim_fd_close(fd);
}

void sim_unlink(uint64_t number)
{
	struct disk_file *f = disk_find(&sim.disk, number);

	if (f)
		disk_unlink(f);
}

ssize_t sim_peek(uint64_t number, void *mem, size_t len, uint64_t offset)
{
	const struct disk_file *f = disk_find(&sim.disk, number);
	bool device;

	return f ? (ssize_t)disk_read(f, mem, len, offset, &device) : -ENOENT;
}

void sim_poke(uint64_t number, const void *mem, size_t len, uint64_t offset)
{
	struct disk_file *f = disk_open(&sim.disk, number, sim_file_time());

	ASSERT(disk_reserve(f, offset, len) == len);
	disk_write(f, mem, len, offset);
	disk_set_times(f, sim_file_time());
	disk_put(f);
}

uint64_t sim_size(uint64_t number)
{
	const struct disk_file *f = disk_find(&sim.disk, number);

	return f ? f->size : 0;
}

void sim_set_faults(const struct sim_config *config)
{
	struct sim_config old = sim.config;

	sim.config = *config;
	sim.config.seed = old.seed;
	sim.config.block_bytes = old.block_bytes;
	sim.config.read_block_bytes = old.read_block_bytes;
	sim.config.mem_align_bytes = old.mem_align_bytes;
	sim.config.tick_ns = old.tick_ns;
	sim.config.latency_ns_max = old.latency_ns_max;
	sim.disk.blocks_max = config->disk_bytes / sim.disk.block_bytes;
	sim.disk.others = 0;
}

void sim_set_room(uint64_t bytes)
{
	disk_set_room(&sim.disk, bytes / sim.disk.block_bytes);
}

struct sim_stats sim_stats(void)
{
	return sim.stats;
}

void sim_cut_at_step(uint64_t n)
{
	sim.cut_step = sim.steps + n;
}

uint64_t sim_steps(void)
{
	return sim.steps;
}

unsigned sim_cuts(void)
{
	return sim.cuts;
}

uint64_t sim_trace_hash(void)
{
	return sim.trace_hash;
}
