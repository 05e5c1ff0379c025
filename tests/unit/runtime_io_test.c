/*
 * Operations on real files and sockets. Every test runs once per fallback: the flag that takes a feature away is the parameter, so that no fallback goes
 * untested. And the kernel's promises that the ring backend is built on.
 */
#include <fcntl.h>
#include <liburing.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/backend.h"
#include "runtime/clock.h"
#include "runtime/counter.h"
#include "runtime/fault.h"
#include "runtime/io.h"
#include "runtime/pool.h"
#include "tests/unit/runtime_harness.h"

static const unsigned variants[] = { 0, RING_NO_DEFER_TASKRUN, RING_NO_FTRUNCATE, RING_NO_SENDMSG_WAITALL, RING_NO_URING };

static void each_variant(void (*fn)(void))
{
	for (unsigned i = 0; i < ARRAY_SIZE(variants); i++)
		harness_run_one(variants[i], fn);
}

static void spawn(fiber_main *fn, void *arg)
{
	int err = fiber_spawn(fn, arg, "test");

	ASSERT(err == 0);
}

static int temp_file(unsigned flags)
{
	const char *dir = getenv("TMPDIR");
	int fd = open(dir ? dir : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600);

	ASSERT(fd >= 0);
	return fd;
}

static uint8_t *pages(size_t bytes)
{
	uint8_t *mem = aligned_alloc(PAGE_BYTES, bytes);

	ASSERT(mem);
	for (size_t i = 0; i < bytes; i++)
		mem[i] = i * 7 + i / 251;
	return mem;
}

static void file_round_trip(unsigned open_flags)
{
	enum { BYTES = 5 * PAGE_BYTES };
	uint8_t *out = pages(BYTES), *in = aligned_alloc(PAGE_BYTES, BYTES);
	struct iovec iov[3] = { { out, PAGE_BYTES }, { out + PAGE_BYTES, 0 }, { out + PAGE_BYTES, BYTES - PAGE_BYTES } };
	int fd = temp_file(open_flags), err;
	struct statx stx;

	ASSERT(io_pwritev_all(fd, iov, 3, 0, 0, &err) == BYTES);
	ASSERT(err == 0);
	ASSERT(io_pread_all(fd, in, BYTES, 0, 0) == BYTES);
	ASSERT(memcmp(in, out, BYTES) == 0);
	ASSERT(io_fsync(fd, IO_FSYNC_DATA) == 0);
	ASSERT(io_fsync(fd, 0) == 0);
	ASSERT(io_ftruncate(fd, 2 * PAGE_BYTES) == 0);
	ASSERT(io_fstatx(fd, STATX_SIZE, &stx) == 0 && stx.stx_size == 2 * PAGE_BYTES);
	ASSERT(io_pread_all(fd, in, BYTES, 0, 0) == 2 * PAGE_BYTES);
	ASSERT(io_fallocate(fd, 0, 0, BYTES) == 0);
	ASSERT(io_fstatx(fd, STATX_SIZE, &stx) == 0 && stx.stx_size == BYTES);
	ASSERT(io_preadv(fd, &(struct iovec){ in, PAGE_BYTES }, 1, BYTES, 0) == 0);
	io_close(fd);
	free(out);
	free(in);
}

static void direct_and_buffered(void)
{
	file_round_trip(O_DIRECT);
	file_round_trip(0);
}

Test(io, files_round_trip_in_every_variant)
{
	each_variant(direct_and_buffered);
}

static void errors(void)
{
	char byte = 0;
	struct iovec iov = { &byte, 1 };
	int fd = temp_file(0), err;
	int read_only = open("/dev/null", O_RDONLY | O_CLOEXEC);

	ASSERT(io_preadv(-1, &iov, 1, 0, 0) == -EBADF);
	ASSERT(io_pwritev_all(read_only, &iov, 1, 0, 0, &err) == 0 && err == -EBADF);
	ASSERT(io_ftruncate(fd, UINT64_MAX) == -EINVAL);
	ASSERT(io_fstatx(-1, STATX_SIZE, &(struct statx){ 0 }) == -EBADF);
	io_close(fd);
	io_close(read_only);
}

Test(io, errors_are_negative_errno_in_every_variant)
{
	each_variant(errors);
}

static void faults(void)
{
	char byte = 'x';
	struct iovec iov = { &byte, 1 };
	int fd = temp_file(0), err;

	fault_arm(FAULT_IO_WRITEV, ENOSPC, 0, 1);
	ASSERT(io_pwritev_all(fd, &iov, 1, 0, 0, &err) == 0 && err == -ENOSPC);
	ASSERT(io_pwritev_all(fd, &iov, 1, 0, 0, &err) == 1 && err == 0);
	fault_arm(FAULT_IO_FSYNC, EIO, 1, 1);
	ASSERT(io_fsync(fd, 0) == 0);
	ASSERT(io_fsync(fd, 0) == -EIO);
	ASSERT(io_fsync(fd, 0) == 0);
	fault_arm(FAULT_IO_READV, EIO, 0, 1);
	iov = (struct iovec){ &byte, 1 };
	ASSERT(io_preadv(fd, &iov, 1, 0, 0) == -EIO);
	fault_arm(FAULT_IO_ACCEPT, EMFILE, 0, 1);
	ASSERT(io_accept(fd, NULL, NULL) == -EMFILE);
	fault_disarm_all();
	io_close(fd);
}

Test(io, fault_points_fail_operations_in_every_variant)
{
	each_variant(faults);
}

static pthread_barrier_t busy;
static _Atomic unsigned busy_threads;

static void be_busy(void *arg)
{
	atomic_fetch_add(&busy_threads, 1);
	pthread_barrier_wait(&busy);
}

static void keep_thread(void *arg)
{
	pool_run(be_busy, NULL, NULL);
	*(bool *)arg = true;
}

/* Two writes and a sync, as one piece of work. */
static void finish(int fd, uint8_t *mem, struct io_write w[2], struct io_finish *f)
{
	struct iovec iov[3];

	iov[0] = (struct iovec){ mem, PAGE_BYTES };
	iov[1] = (struct iovec){ mem + PAGE_BYTES, PAGE_BYTES };
	iov[2] = (struct iovec){ mem + 2 * PAGE_BYTES, 1000 };
	w[0] = (struct io_write){ .fd = fd, .iov = iov, .iovcnt = 2 };
	w[1] = (struct io_write){ .fd = fd, .iov = &iov[2], .iovcnt = 1, .offset = 2 * PAGE_BYTES };
	*f = (struct io_finish){ .writes = w, .count = 2, .fd = fd };
	io_finish(f);
}

static void finish_whole(void)
{
	uint8_t *out = pages(3 * PAGE_BYTES), in[2 * PAGE_BYTES + 1000];
	int fd = temp_file(0);
	struct io_write w[2];
	struct io_finish f;

	fault_arm(FAULT_IO_SHORT_WRITE, EIO, 0, 2);
	finish(fd, out, w, &f);
	fault_disarm_all();
	ASSERT(f.complete == 2 && f.error == 0 && w[0].done == 2 * PAGE_BYTES && w[1].done == 1000);
	ASSERT(io_pread_all(fd, in, sizeof(in), 0, 0) == sizeof(in));
	ASSERT(memcmp(in, out, sizeof(in)) == 0);
	io_close(fd);
	free(out);
}

static void finish_failing(void)
{
	uint8_t *out = pages(3 * PAGE_BYTES);
	int fd = temp_file(0);
	struct io_write w[2];
	struct io_finish f;
	struct statx stx;

	fault_arm(FAULT_IO_SHORT_WRITE, EIO, 0, 1);
	fault_arm(FAULT_IO_WRITEV, ENOSPC, 1, 1);
	fault_arm(FAULT_IO_FSYNC, EIO, 0, 1);
	finish(fd, out, w, &f);
	ASSERT(f.complete == 0 && f.error == -ENOSPC && w[0].done == PAGE_BYTES && w[1].done == 0);
	ASSERT(io_fstatx(fd, STATX_SIZE, &stx) == 0 && stx.stx_size == PAGE_BYTES); /* nothing after what failed */
	finish(fd, out, w, &f);
	ASSERT(f.complete == 2 && f.error == -EIO); /* the sync's, which was not tried the first time */
	fault_disarm_all();
	io_close(fd);
	free(out);
}

static void finish_on_idle_threads(void)
{
	int64_t jobs = counter_value("runtime.pool.jobs");

	while (counter_value("runtime.pool.jobs") == jobs) /* until the threads have come to rest */
		finish_whole();
	finish_failing();
}

Test(io, work_is_finished_in_one_trip_in_every_variant)
{
	each_variant(finish_on_idle_threads);
}

/* Whoever has the threads keeps them meanwhile. */
static void finish_on_the_ring(void)
{
	bool done[2] = { false, false };

	pthread_barrier_init(&busy, NULL, 3);
	for (unsigned i = 0; i < 2; i++)
		spawn(keep_thread, &done[i]);
	while (atomic_load(&busy_threads) < 2)
		fiber_yield();
	finish_whole();
	finish_failing();
	pthread_barrier_wait(&busy);
	while (!done[0] || !done[1])
		fiber_yield();
	pthread_barrier_destroy(&busy);
	ASSERT(counter_value("runtime.pool.jobs") == 2);
}

Test(io, work_is_finished_on_the_ring_where_no_thread_is_idle)
{
	harness_run_one(0, finish_on_the_ring);
}

/* Every write is cut short, at entries and inside them; all bytes must arrive at their place. */
static void short_writes(unsigned open_flags, size_t unit)
{
	enum { ENTRIES = 9 };
	size_t sizes[ENTRIES] = { 1, 3, 0, 8, 2, 1, 5, 0, 4 }, total = 0;
	uint8_t *out = pages(24 * PAGE_BYTES), *in = aligned_alloc(PAGE_BYTES, 24 * PAGE_BYTES);
	struct iovec iov[ENTRIES];
	int fd = temp_file(open_flags), err;

	for (unsigned i = 0; i < ENTRIES; i++) {
		iov[i] = (struct iovec){ out + total, sizes[i] * unit };
		total += sizes[i] * unit;
	}
	fault_arm(FAULT_IO_SHORT_WRITE, EIO, 0, 0);
	ASSERT(io_pwritev_all(fd, iov, ENTRIES, 2 * PAGE_BYTES, 0, &err) == total && err == 0);
	fault_arm(FAULT_IO_SHORT_READ, EIO, 0, 0);
	ASSERT(io_pread_all(fd, in, total, 2 * PAGE_BYTES, 0) == (ssize_t)total);
	fault_disarm_all();
	ASSERT(memcmp(in, out, total) == 0);
	io_close(fd);
	free(out);
	free(in);
}

static void short_writes_both(void)
{
	short_writes(0, 1000);
	short_writes(O_DIRECT, PAGE_BYTES);
}

Test(io, short_writes_and_reads_are_continued_in_every_variant)
{
	each_variant(short_writes_both);
}

static void failing_in_the_middle(void)
{
	uint8_t *out = pages(4 * PAGE_BYTES);
	struct iovec iov[4];
	int fd = temp_file(0), err;

	for (unsigned i = 0; i < 4; i++)
		iov[i] = (struct iovec){ out + i * PAGE_BYTES, PAGE_BYTES };
	fault_arm(FAULT_IO_SHORT_WRITE, EIO, 0, 1);
	fault_arm(FAULT_IO_WRITEV, EIO, 1, 1);
	ASSERT(io_pwritev_all(fd, iov, 4, 0, 0, &err) == 2 * PAGE_BYTES);
	ASSERT(err == -EIO);
	io_close(fd);
	free(out);
}

Test(io, a_failed_continuation_says_how_much_was_written)
{
	each_variant(failing_in_the_middle);
}

/* More operations at once than the ring has entries. */
enum { FLOOD = 300 };
static struct io_op flood[FLOOD];
static unsigned flood_done;
static struct fiber *flood_waiter;

static void flood_op_done(struct io_op *op)
{
	ASSERT(op->res == 1);
	if (++flood_done == FLOOD)
		fiber_unpark(flood_waiter);
}

static void flood_start(void *arg, unsigned index)
{
	static char byte = 'f';
	static const struct iovec iov = { &byte, 1 };
	int fd = temp_file(0);
	struct stat st;

	flood_waiter = fiber_self();
	for (unsigned i = 0; i < FLOOD; i++) {
		flood[i] = (struct io_op){ .code = IO_WRITEV, .fd = fd, .iov = &iov, .iovcnt = 1, .offset = i, .done = flood_op_done };
		io_submit(&flood[i]);
	}
	fiber_park("flood", NULL);
	ASSERT(fstat(fd, &st) == 0 && st.st_size == FLOOD);
	io_close(fd);
	runtime_stop();
}

Test(io, a_full_ring_queues_on_our_side)
{
	const struct reactor_config config = { .reactors = 1, .fibers = 4, .ring_entries = 8 };

	harness_run(&config, flood_start, NULL);
	cr_assert_gt(counter_value("runtime.ring.full"), 0);
}

/* Sockets. */

static ssize_t receive(int fd, void *mem, size_t len, unsigned flags)
{
	struct iovec iov = { mem, len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	return io_recvmsg(fd, &msg, flags);
}

static ssize_t send_text(int fd, const char *text)
{
	struct iovec iov = { (void *)text, strlen(text) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	return io_sendmsg(fd, &msg, 0);
}

static void echo(void *arg)
{
	int fd = *(int *)arg;
	char mem[64];
	ssize_t got;

	while ((got = receive(fd, mem, sizeof(mem) - 1, 0)) > 0) {
		mem[got] = '\0';
		ASSERT(send_text(fd, mem) == got);
	}
	ASSERT(got == 0);
	io_close(fd);
}

static void ping_pong(void)
{
	int pair[2];
	char mem[8];

	ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	spawn(echo, &pair[1]);
	for (unsigned i = 0; i < 100; i++) {
		ASSERT(send_text(pair[0], "ping") == 4);
		ASSERT(receive(pair[0], mem, sizeof(mem), 0) == 4);
		ASSERT(memcmp(mem, "ping", 4) == 0);
	}
	io_close(pair[0]);
}

Test(io, sockets_ping_pong_in_every_variant)
{
	each_variant(ping_pong);
}

static int listener;

static void accept_one(void *arg)
{
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);
	int fd = io_accept(listener, &addr, &len);

	ASSERT(fd >= 0);
	ASSERT(len == sizeof(struct sockaddr_in) && addr.ss_family == AF_INET);
	ASSERT(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	*(int *)arg = fd;
	echo(arg);
}

static void accept_connect(void)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(addr);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), conn;
	struct io_op op = { .code = IO_CONNECT, .fd = fd, .addr = (struct sockaddr *)&addr, .addrlen = len };
	char mem[8];

	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ASSERT(bind(listener, (struct sockaddr *)&addr, len) == 0 && listen(listener, 4) == 0);
	ASSERT(getsockname(listener, (struct sockaddr *)&addr, &len) == 0);
	spawn(accept_one, &conn);
	fiber_yield();
	ASSERT(io_call(&op, "connect") == 0);
	ASSERT(send_text(fd, "hello") == 5);
	ASSERT(receive(fd, mem, 5, MSG_WAITALL) == 5);
	ASSERT(io_shutdown(fd) == 0);
	ASSERT(receive(fd, mem, 5, 0) == 0);
	io_close(fd);
	io_close(listener);
	/* Nobody listens there any more. */
	fiber_yield_idle();
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	op = (struct io_op){ .code = IO_CONNECT, .fd = fd, .addr = (struct sockaddr *)&addr, .addrlen = len };
	while (io_call(&op, "connect") != -ECONNREFUSED) {
		ASSERT(op.res == 0 || op.res == -ECONNRESET); /* the ring has not let go of it yet; or while it does */
		io_close(fd);
		fiber_sleep_ns(1000000);
		op.fd = fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	}
	io_close(fd);
}

Test(io, accept_and_connect_in_every_variant)
{
	each_variant(accept_connect);
}

/* A message larger than the socket's buffers, in several entries, against a slow reader. */
enum { BULK = 1 << 20 };
static int bulk_pair[2];
static uint8_t *bulk;

static void bulk_reader(void *arg)
{
	uint8_t *in = malloc(BULK);
	struct iovec iov[2] = { { in, 12345 }, { in + 12345, BULK - 12345 } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };
	int err;

	ASSERT(io_recvmsg_all(bulk_pair[1], &msg, 0, &err) == BULK && err == 0);
	ASSERT(memcmp(in, bulk, BULK) == 0);
	free(in);
	*(bool *)arg = true;
}

static void send_bulk(void)
{
	struct iovec iov[3];
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 3 };
	bool arrived = false;
	int err;

	bulk = pages(BULK);
	iov[0] = (struct iovec){ bulk, 4 };
	iov[1] = (struct iovec){ bulk + 4, BULK / 2 };
	iov[2] = (struct iovec){ bulk + 4 + BULK / 2, BULK / 2 - 4 };
	ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, bulk_pair) == 0);
	spawn(bulk_reader, &arrived);
	ASSERT(io_sendmsg_all(bulk_pair[0], &msg, 0, &err) == BULK && err == 0);
	while (!arrived)
		fiber_yield();
	io_close(bulk_pair[0]);
	io_close(bulk_pair[1]);
	free(bulk);
}

Test(io, bulk_messages_arrive_whole_in_every_variant)
{
	each_variant(send_bulk);
}

static void send_to_nobody(void)
{
	struct sigaction action;
	int pair[2], err;
	char byte = 1;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	/* ulimit -f is a WRITE's error, not our end. */
	ASSERT(sigaction(SIGXFSZ, NULL, &action) == 0 && action.sa_handler == SIG_IGN);
	/* Not by the ignored signal alone. */
	ASSERT(sigaction(SIGPIPE, NULL, &action) == 0 && action.sa_handler == SIG_IGN);
	signal(SIGPIPE, SIG_DFL);
	ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	close(pair[1]);
	ASSERT(send_text(pair[0], "x") == -EPIPE);
	ASSERT(io_sendmsg_all(pair[0], &msg, 0, &err) == 0 && err == -EPIPE);
	io_close(pair[0]);
}

Test(io, sending_to_nobody_raises_no_signal_in_every_variant)
{
	each_variant(send_to_nobody);
}

static struct io_op *cancelled;

static void wait_for_data(void *arg)
{
	int fd = *(int *)arg;
	char byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct io_op op = { .code = IO_RECVMSG, .fd = fd, .msg = &msg };

	cancelled = &op;
	ASSERT(io_call(&op, "receive") == -ECANCELED);
	cancelled = NULL;
}

static void cancel_receive(void)
{
	int pair[2];

	ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	spawn(wait_for_data, &pair[0]);
	fiber_yield();
	fiber_yield();
	io_cancel(cancelled);
	io_cancel(cancelled); /* asking twice is allowed */
	while (cancelled)
		fiber_yield();
	/* Before the kernel has even seen it. */
	spawn(wait_for_data, &pair[0]);
	while (!cancelled)
		fiber_yield();
	io_cancel(cancelled);
	while (cancelled)
		fiber_yield();
	io_close(pair[0]);
	io_close(pair[1]);
}

Test(io, cancelled_operations_complete_in_every_variant)
{
	each_variant(cancel_receive);
}

/* An operation without a fiber is in flight when the run ends. */
static ssize_t left_over_res;

static void left_over_done(struct io_op *op)
{
	left_over_res = op->res;
}

static int left_over_pair[2];

static void leave_over(void)
{
	static char byte;
	static struct iovec iov = { &byte, 1 };
	static struct msghdr msg;
	static struct io_op op;

	left_over_res = 0;
	ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, left_over_pair) == 0);
	msg = (struct msghdr){ .msg_iov = &iov, .msg_iovlen = 1 };
	op = (struct io_op){ .code = IO_RECVMSG, .fd = left_over_pair[0], .msg = &msg, .done = left_over_done };
	io_submit(&op);
	fiber_yield();
}

Test(io, what_is_in_flight_at_the_end_is_cancelled_in_every_variant)
{
	for (unsigned i = 0; i < ARRAY_SIZE(variants); i++) {
		harness_run_one(variants[i], leave_over);
		cr_assert_eq(left_over_res, -ECANCELED, "variant %u: %zd", variants[i], left_over_res);
		close(left_over_pair[0]);
		close(left_over_pair[1]);
	}
}

/* What a turn costs in system calls. */
static void count_enters(void)
{
	char mem[8];
	int pair[2];
	int64_t before;

	ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	spawn(echo, &pair[1]);
	fiber_yield();
	fiber_yield();
	before = counter_value("runtime.ring.enters");
	for (unsigned i = 0; i < 100; i++) {
		ASSERT(send_text(pair[0], "ping") == 4);
		ASSERT(receive(pair[0], mem, sizeof(mem), 0) == 4);
	}
	/* Two operations on each side per round; both sides' go into shared enters. */
	ASSERT(counter_value("runtime.ring.enters") - before <= 410);
	io_close(pair[0]);
}

Test(io, no_more_enters_than_operations)
{
	harness_run_one(0, count_enters);
}

/* A container that forbids the ring, as seccomp profiles do: the runtime must notice and go without. */
static void forbid_ring(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = ARRAY_SIZE(code), .filter = code };

	cr_assert_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	cr_assert_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

static void on_poll(void)
{
	ASSERT(strcmp(backend->name, "poll") == 0);
	ping_pong();
	file_round_trip(0);
}

Test(io, a_forbidden_ring_is_done_without)
{
	forbid_ring();
	harness_run_one(0, on_poll);
	cr_assert_str_eq(backend->name, "io_uring");
}

/* Kernel assumptions. */

static int probe_ring(unsigned flags, struct io_uring *ring)
{
	struct io_uring_params params = { .flags = flags };

	return io_uring_queue_init_params(8, ring, &params);
}

Test(kernel, has_deferred_task_work)
{
	struct io_uring ring;
	int err = probe_ring(IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG, &ring);

	if (err)
		cr_skip_test("this kernel's io_uring has no DEFER_TASKRUN");
	io_uring_queue_exit(&ring);
}

/* The loop does not enter when the flag is clear: with DEFER_TASKRUN it must say that completions wait. */
Test(kernel, flags_waiting_task_work)
{
	struct io_uring ring;
	struct io_uring_cqe *cqe;
	char byte;
	int pair[2];

	if (probe_ring(IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG, &ring))
		cr_skip_test("this kernel's io_uring has no DEFER_TASKRUN");
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	io_uring_prep_recv(io_uring_get_sqe(&ring), pair[0], &byte, 1, 0);
	cr_assert_eq(io_uring_submit_and_get_events(&ring), 1);
	cr_assert_eq(*ring.sq.kflags & IORING_SQ_TASKRUN, 0);
	cr_assert_eq(write(pair[1], "x", 1), 1);
	cr_assert_neq(*ring.sq.kflags & IORING_SQ_TASKRUN, 0);
	cr_assert_neq(io_uring_cq_ready(&ring), 1);
	io_uring_get_events(&ring);
	cr_assert_eq(io_uring_cq_ready(&ring), 1);
	cr_assert_eq(io_uring_wait_cqe(&ring, &cqe), 0);
	cr_assert_eq(cqe->res, 1);
	io_uring_queue_exit(&ring);
	close(pair[0]);
	close(pair[1]);
}

Test(kernel, keeps_completions_beyond_the_ring)
{
	struct io_uring ring;
	struct io_uring_cqe *cqe;

	cr_assert_eq(probe_ring(0, &ring), 0);
	cr_assert_neq(ring.features & IORING_FEAT_NODROP, 0);
	for (unsigned i = 0; i < 100; i++) {
		io_uring_prep_nop(io_uring_get_sqe(&ring));
		cr_assert_eq(io_uring_submit(&ring), 1);
	}
	for (unsigned i = 0; i < 100; i++) {
		cr_assert_eq(io_uring_wait_cqe(&ring, &cqe), 0);
		io_uring_cqe_seen(&ring, cqe);
	}
	io_uring_queue_exit(&ring);
}
