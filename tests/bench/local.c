/*
 * local.c: the patterns of nfsload without a server: what the disk and the file system allow.
 *
 *     dsync      buffered writes of a file opened O_DSYNC, a thread per worker: what a program does that wants what FILE_SYNC gives
 *     buffered   buffered writes, a thread per worker, and one fsync at the end: what UNSTABLE and COMMIT give
 *     direct     aligned O_DIRECT, through io_uring, over space already written, synced once at the end: the limit of the device
 *     run        records of all workers gathered into one contiguous vectored O_DIRECT write: completed boundary pages stand between
 *                the aligned middles; FILE_SYNC patterns sync after each such run, the others at the end: the limit of a growing file
 *
 * A method that has no meaning for a pattern ends with status 77. The process's own CPU stands for the server's in the line printed.
 * Bytes are arbitrary here and not checked: only nfsload --verify judges contents.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <liburing.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/bench/local_calls.h"
#include "tests/bench/pattern.h"
#include "tests/bench/sample.h"

enum { PAGE = 4096, WORKERS_MAX = 1024, SKIPPED = 77 };

struct thread {
	pthread_t id;
	unsigned index;
	uint64_t ops, bytes, random_state;
	struct latency latency;
};

static struct {
	const char *dir, *method, *name;
	unsigned depth;
	uint64_t bytes;
	double seconds;
	struct watch watch;
} opt = { .depth = 32, .bytes = 1 << 30, .seconds = 3 };

static struct pattern pattern;
static struct outcome outcome;
static char path[4096];
static int fd;
static uint8_t *memory;	/* aligned */
static uint64_t deadline_ns;
static uint64_t next_offset;	/* atomic: taken by threads */

static bool time_is_up(void)
{
	return now_ns() >= deadline_ns;
}

static void need(ssize_t done, size_t wanted, const char *what)
{
	if (done < 0)
		die("%s: %s", what, strerror(errno));
	if ((size_t)done != wanted)
		die("%s: short", what);
}

/* --- buffered: threads --- */

/* Offset of the worker's next operation; UINT64_MAX: no more. */
static uint64_t thread_offset(struct thread *t)
{
	uint64_t at;

	if (time_is_up())
		return UINT64_MAX;
	if (pattern.kind == RECORDS)
		at = (t->ops * opt.depth + t->index) * pattern.record;
	else if (pattern.kind == RAND_WRITE || pattern.kind == RAND_READ)
		at = random_next(&t->random_state) % (opt.bytes / pattern.record) * pattern.record;
	else
		at = __atomic_fetch_add(&next_offset, pattern.record, __ATOMIC_RELAXED);
	return at + pattern.record <= opt.bytes ? at : UINT64_MAX;
}

static void write_record(uint64_t at)
{
	uint32_t cut = pattern.kind == RECORDS && pattern.shape != WHOLE ? pattern_cut(pattern.record) : 0;

	if (cut)
		need(pwrite(fd, memory, cut, (off_t)at), cut, "write");
	need(pwrite(fd, memory + cut, pattern.record - cut, (off_t)(at + cut)), pattern.record - cut, "write");
}

static void *thread_main(void *arg)
{
	struct thread *t = arg;
	uint8_t *buf = malloc(pattern.record);
	uint64_t at;

	if (!buf)
		die("no memory");
	while ((at = thread_offset(t)) != UINT64_MAX) {
		uint64_t begin = now_ns();

		if (pattern.kind == SEQ_READ || pattern.kind == RAND_READ)
			need(pread(fd, buf, pattern.record, (off_t)at), pattern.record, "read");
		else
			write_record(at);
		latency_add(&t->latency, now_ns() - begin);
		t->ops++;
		t->bytes += pattern.record;
	}
	free(buf);
	return NULL;
}

static void thread_join(struct thread *t)
{
	unsigned i;

	pthread_join(t->id, NULL);
	outcome.ops += t->ops;
	outcome.bytes += t->bytes;
	outcome.latency.total += t->latency.total;
	for (i = 0; i < LATENCY_BUCKETS; i++)
		outcome.latency.count[i] += t->latency.count[i];
}

static void run_threads(void)
{
	struct thread *threads = calloc(opt.depth, sizeof(*threads));
	unsigned i;

	if (!threads)
		die("no memory");
	for (i = 0; i < opt.depth; i++) {
		threads[i].index = i;
		threads[i].random_state = i;
		if (pthread_create(&threads[i].id, NULL, thread_main, &threads[i]))
			die("no thread");
	}
	for (i = 0; i < opt.depth; i++)
		thread_join(&threads[i]);
	free(threads);
}

/* --- direct: a ring --- */

static uint32_t aligned_record(void)
{
	return (pattern.record + PAGE - 1) & ~(uint32_t)(PAGE - 1);
}

static bool ring_submit(struct io_uring *ring, uint64_t *begin, unsigned slot, uint64_t *random_state)
{
	uint32_t len = aligned_record();
	bool reads = pattern.kind == SEQ_READ || pattern.kind == RAND_READ;
	uint64_t places = opt.bytes / len, at;
	struct io_uring_sqe *sqe;

	if (time_is_up())
		return false;
	if (pattern.kind == RAND_WRITE || pattern.kind == RAND_READ)
		at = random_next(random_state) % places;
	else
		at = next_offset++ % places;
	sqe = io_uring_get_sqe(ring);
	io_uring_prep_rw(reads ? IORING_OP_READ : IORING_OP_WRITE, sqe, fd, memory + (size_t)slot * len, len, at * len);
	io_uring_sqe_set_data64(sqe, slot);
	begin[slot] = now_ns();
	return true;
}

static void run_ring(void)
{
	uint64_t begin[WORKERS_MAX], random_state = 1;
	struct io_uring ring;
	unsigned slot, flying = 0;

	if (io_uring_queue_init(opt.depth, &ring, 0) < 0)
		die("no io_uring");
	for (slot = 0; slot < opt.depth; slot++)
		flying += ring_submit(&ring, begin, slot, &random_state);
	while (flying) {
		struct io_uring_cqe *cqe;
		unsigned head, seen = 0;

		io_uring_submit_and_wait(&ring, 1);
		io_uring_for_each_cqe(&ring, head, cqe) {
			errno = -cqe->res;
			need(cqe->res, aligned_record(), "direct");
			slot = (unsigned)cqe->user_data;
			latency_add(&outcome.latency, now_ns() - begin[slot]);
			outcome.ops++;
			outcome.bytes += aligned_record();
			seen++;
			flying += ring_submit(&ring, begin, slot, &random_state) - 1u;
		}
		io_uring_cq_advance(&ring, seen);
	}
	io_uring_queue_exit(&ring);
}

/* --- run --- */

/*
 * The run that begins at byte AT (its first page is written again if AT lies inside) and has COUNT records. Each middle comes from where a
 * record was received, each boundary page from a page of its own into which both records' ends are copied.
 */
static unsigned run_vector(struct iovec *iov, uint64_t at, unsigned count, uint8_t *pages)
{
	const uint64_t mask = PAGE - 1;
	unsigned n = 0, i;

	for (i = 0; i < count; i++, at += pattern.record) {
		uint64_t first = (at + mask) & ~mask, last = (at + pattern.record) & ~mask;

		if (at & mask && i == 0)
			iov[n++] = (struct iovec){ pages, PAGE };
		if (at & mask)
			memcpy(pages + (at & mask), memory, PAGE - (at & mask));
		if (last > first)
			iov[n++] = (struct iovec){ memory, last - first };
		if (!((at + pattern.record) & mask))
			continue;
		pages += PAGE;
		memcpy(pages, memory, (at + pattern.record) & mask);
		iov[n++] = (struct iovec){ pages, PAGE };
	}
	return n;
}

static size_t vector_size(const struct iovec *iov, unsigned n)
{
	size_t sum = 0;
	unsigned i;

	for (i = 0; i < n; i++)
		sum += iov[i].iov_len;
	return sum;
}

static void run_runs(void)
{
	uint8_t *pages = aligned_alloc(PAGE, (size_t)(opt.depth + 1) * PAGE);
	struct iovec iov[WORKERS_MAX];
	uint64_t at = 0, len = (uint64_t)pattern.record * opt.depth;
	unsigned n, i;

	if (!pages || opt.depth * 2 + 1 > WORKERS_MAX)
		die("too many workers");
	for (; at + len <= opt.bytes && !time_is_up(); at += len) {
		uint64_t begin = now_ns();

		n = run_vector(iov, at, opt.depth, pages);
		need(pwritev(fd, iov, (int)n, (off_t)(at & ~(uint64_t)(PAGE - 1))), vector_size(iov, n), "run");
		if (pattern.stable && fdatasync(fd) < 0)
			die("fdatasync: %s", strerror(errno));
		for (i = 0; i < opt.depth; i++)
			latency_add(&outcome.latency, now_ns() - begin);
		outcome.ops += opt.depth;
		outcome.bytes += len;
	}
	free(pages);
}

/* --- a run of the program --- */

static const struct method {
	const char *name;
	int flags;
	void (*run)(void);
	bool (*fits)(void);
} *method;

static bool writes(void)
{
	return pattern.kind == RECORDS || pattern.kind == SEQ_WRITE || pattern.kind == RAND_WRITE;
}

static bool fits_dsync(void)
{
	return writes() && pattern.stable;
}

static bool fits_direct(void)
{
	return writes() || pattern.kind == SEQ_READ || pattern.kind == RAND_READ;
}

static bool fits_buffered(void)
{
	return fits_direct() && !(writes() && pattern.stable);
}

static bool fits_run(void)
{
	return pattern.kind == RECORDS && pattern.shape != ONE_THEN_OTHER && pattern.record >= PAGE;
}

static bool fits_syscalls(void)
{
	return pattern.kind == METADATA || local_pingpong_knows(opt.name);
}

static const struct method methods[] = {
	{ "dsync", O_DSYNC, run_threads, fits_dsync },
	{ "buffered", 0, run_threads, fits_buffered },
	{ "direct", O_DIRECT, run_ring, fits_direct },
	{ "run", O_DIRECT, run_runs, fits_run },
	{ "syscalls", 0, NULL, fits_syscalls },
};

static const struct method *method_named(const char *name)
{
	unsigned i;

	for (i = 0; i < sizeof(methods) / sizeof(*methods); i++)
		if (strcmp(methods[i].name, name) == 0)
			return &methods[i];
	die("no method %s", name);
}

/* Reads, overwrites and the direct method want space that has been written. */
static void fill(void)
{
	static const uint64_t piece = 1 << 20;
	int out = open(path, O_WRONLY | O_DIRECT | O_CLOEXEC);
	uint64_t at;

	if (out < 0)
		die("%s: %s", path, strerror(errno));
	for (at = 0; at < opt.bytes; at += piece)
		need(pwrite(out, memory, piece, (off_t)at), piece, "fill");
	fsync(out);
	close(out);
	file_evict(path);
}

static void prepare(void)
{
	size_t size = (size_t)opt.depth * aligned_record();

	size = size > 2 << 20 ? size : 2 << 20;
	memory = aligned_alloc(PAGE, size);
	if (!memory)
		die("no memory");
	memset(memory, 0x5a, size);
	snprintf(path, sizeof(path), "%s/local", opt.dir);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | method->flags, 0644);
	if (fd < 0)
		die("%s: %s", path, strerror(errno));
	opt.bytes &= ~(uint64_t)((1 << 20) - 1);
	if (pattern.over || method->run == run_ring)
		fill();
}

static void measure(void)
{
	outcome = (struct outcome){ .pattern = opt.name, .depth = opt.depth, .connections = 1 };
	opt.watch.pid = getpid();
	sample_take(&opt.watch, &outcome.before);
	deadline_ns = now_ns() + (uint64_t)(opt.seconds * 1e9);
	method->run();
	if (writes() && fsync(fd) < 0)
		die("fsync: %s", strerror(errno));
	sample_take(&opt.watch, &outcome.after);
	outcome.resident = file_resident(path);
	outcome_print(&outcome, &opt.watch);
}

static void run_file_pattern(void)
{
	prepare();
	measure();
	unlink(path);
}

static const struct option options[] = {
	{ "dir", required_argument, NULL, 'd' }, { "method", required_argument, NULL, 'm' }, { "pattern", required_argument, NULL, 'n' },
	{ "depth", required_argument, NULL, 'w' }, { "seconds", required_argument, NULL, 's' }, { "bytes", required_argument, NULL, 'b' },
	{ "device", required_argument, NULL, 'v' }, { 0 },
};

static void take_option(int c)
{
	switch (c) {
	case 'd': opt.dir = optarg; break;
	case 'm': opt.method = optarg; break;
	case 'n': opt.name = optarg; break;
	case 'w': opt.depth = (unsigned)atoi(optarg); break;
	case 's': opt.seconds = atof(optarg); break;
	case 'b': opt.bytes = size_arg(optarg); break;
	case 'v': opt.watch.device = optarg; break;
	default: die("local --dir DIR --method dsync|buffered|direct|run|syscalls --pattern NAME [--depth N] [--seconds S] [--bytes N[KMG]] [--device NAME]");
	}
}

int main(int argc, char **argv)
{
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0)
		take_option(c);
	if (!opt.dir || !opt.method || !opt.name || pattern_parse(opt.name, &pattern) < 0 || !opt.depth || opt.depth > WORKERS_MAX)
		take_option(0);
	method = method_named(opt.method);
	if (!method->fits())
		return SKIPPED;
	if (method->fits != fits_syscalls)
		run_file_pattern();
	else if (pattern.kind == METADATA)
		local_syscalls(opt.dir, opt.depth, opt.watch.device);
	else
		local_pingpong(opt.name, opt.depth, opt.seconds);
	return 0;
}
