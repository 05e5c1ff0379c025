/*
 * runtime/backend_poll.c - a reactor without a ring: for kernels and containers that forbid it.
 *
 * Operations on files go to the pool's threads (blocking.c). Operations on sockets are tried at once, and those that would block wait in an array beside
 * that of their pollfds, which one ppoll() per turn looks at: slow with thousands of connections, but nothing else differs. Index 0 of the arrays is the
 * eventfd by which other threads wake the reactor. op->backend is the operation's index, 0 when it does not wait; what is final stands in `ended` until
 * the next poll(), for nothing completes inside a submission.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "runtime/backend.h"
#include "runtime/backend_real.h"
#include "runtime/fault.h"
#include "runtime/internal.h"
#include "runtime/io.h"

enum { WAITERS_FIRST = 64 };

struct poller {
	/* immutable after init */
	int nudge_fd;
	/* home reactor only */
	struct pollfd *fds;
	struct io_op **ops;
	unsigned count, capacity; /* of both arrays */
	struct io_op *ended, **ended_last;
};

static void end_op(struct poller *p, struct io_op *op, ssize_t res)
{
	op->res = res;
	op->backend = NULL;
	op->next = NULL;
	*p->ended_last = op;
	p->ended_last = &op->next;
}

static void grow(struct poller *p)
{
	p->capacity = p->capacity ? 2 * p->capacity : WAITERS_FIRST;
	p->fds = reallocarray(p->fds, p->capacity, sizeof(*p->fds));
	p->ops = reallocarray(p->ops, p->capacity, sizeof(*p->ops));
	ASSERT(p->fds && p->ops);
}

static void add(struct poller *p, struct io_op *op, int fd, short events)
{
	if (p->count == p->capacity)
		grow(p);
	p->fds[p->count] = (struct pollfd){ .fd = fd, .events = events };
	p->ops[p->count] = op;
	if (op)
		op->backend = (void *)(uintptr_t)p->count;
	p->count++;
}

static unsigned index_of(const struct io_op *op)
{
	return (uintptr_t)op->backend;
}

static void take_off(struct poller *p, struct io_op *op)
{
	unsigned i = index_of(op);

	p->count--;
	if (i != p->count) {
		p->fds[i] = p->fds[p->count];
		p->ops[i] = p->ops[p->count];
		p->ops[i]->backend = (void *)(uintptr_t)i;
	}
	op->backend = NULL;
}

static void set_nonblocking(int fd, bool on)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags >= 0 && !(flags & O_NONBLOCK) == on)
		fcntl(fd, F_SETFL, flags ^ O_NONBLOCK);
}

static ssize_t connect_result(int fd)
{
	int error = 0;
	socklen_t len = sizeof(error);

	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len))
		error = errno;
	set_nonblocking(fd, false);
	if (!error)
		return 0;
	errno = error;
	return -1;
}

static ssize_t try_connect(struct io_op *op)
{
	ssize_t res;

	if (index_of(op))
		return connect_result(op->fd);
	set_nonblocking(op->fd, true);
	res = connect(op->fd, op->addr, op->addrlen);
	if (res < 0 && errno == EINPROGRESS)
		errno = EAGAIN;
	else
		set_nonblocking(op->fd, false);
	return res;
}

static ssize_t try_once(struct io_op *op)
{
	switch (op->code) {
	case IO_ACCEPT:
		return accept4(op->fd, op->addr, op->addr ? &op->addrlen : NULL, op->flags);
	case IO_CONNECT:
		return try_connect(op);
	case IO_RECVMSG:
		return recvmsg(op->fd, op->msg, op->flags | MSG_DONTWAIT);
	default:
		return sendmsg(op->fd, op->msg, op->flags | MSG_DONTWAIT | MSG_NOSIGNAL);
	}
}

/* False: it would block. */
static bool attempt(struct poller *p, struct io_op *op)
{
	ssize_t res;

	do
		res = try_once(op);
	while (res < 0 && errno == EINTR);
	if (res < 0 && errno == EAGAIN)
		return false;
	res = res < 0 ? -errno : res;
	if (index_of(op))
		take_off(p, op);
	end_op(p, op, res);
	return true;
}

static bool is_for_sockets(const struct io_op *op)
{
	return op->code == IO_ACCEPT || op->code == IO_CONNECT || op->code == IO_RECVMSG || op->code == IO_SENDMSG;
}

static void poll_submit(struct reactor *r, struct io_op *op)
{
	struct poller *p = r->backend_data;
	int error;

	if (!is_for_sockets(op)) {
		blocking_submit(r, op);
		return;
	}
	error = op->code == IO_ACCEPT ? fault_hit(FAULT_IO_ACCEPT) : 0;
	if (error) {
		end_op(p, op, -error);
		return;
	}
	/* Another process or reactor may take the connection between poll() and accept(). */
	if (op->code == IO_ACCEPT)
		set_nonblocking(op->fd, true);
	if (!attempt(p, op))
		add(p, op, op->fd, op->code == IO_ACCEPT || op->code == IO_RECVMSG ? POLLIN : POLLOUT);
}

static void poll_cancel(struct reactor *r, struct io_op *op)
{
	struct poller *p = r->backend_data;

	if (!index_of(op))
		return;
	take_off(p, op);
	end_op(p, op, -ECANCELED);
}

static void poll_cancel_all(struct reactor *r)
{
	struct poller *p = r->backend_data;

	while (p->count > 1)
		poll_cancel(r, p->ops[p->count - 1]);
}

static void deliver_ended(struct reactor *r, struct poller *p)
{
	struct io_op *op = p->ended, *next;

	p->ended = NULL;
	p->ended_last = &p->ended;
	for (; op; op = next) {
		next = op->next;
		reactor_complete(r, op);
	}
}

static void clear_nudge(struct poller *p)
{
	uint64_t value;

	if (!p->fds[0].revents)
		return;
	if (read(p->nudge_fd, &value, sizeof(value)) < 0)
		ASSERT(errno == EAGAIN || errno == EINTR);
}

static void poll_poll(struct reactor *r, uint64_t timeout_ns)
{
	struct poller *p = r->backend_data;
	struct timespec ts = { .tv_sec = timeout_ns / 1000000000, .tv_nsec = timeout_ns % 1000000000 };
	int n;

	if (p->ended)
		ts = (struct timespec){ 0 };
	n = ppoll(p->fds, p->count, timeout_ns == UINT64_MAX && !p->ended ? NULL : &ts, NULL);
	if (n > 0)
		clear_nudge(p);
	/* Downwards: what completes is replaced by the last, which has been looked at. */
	for (unsigned i = p->count - 1; n > 0 && i > 0; i--)
		if (p->fds[i].revents)
			attempt(p, p->ops[i]);
	deliver_ended(r, p);
}

static void poll_nudge(struct reactor *r)
{
	struct poller *p = r->backend_data;

	real_nudge_fd(p->nudge_fd);
}

static int poll_init(struct reactor *r, const struct reactor_config *config)
{
	struct poller *p = calloc(1, sizeof(*p));
	int err;

	if (!p)
		return -ENOMEM;
	p->nudge_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (p->nudge_fd < 0) {
		err = -errno;
		free(p);
		return err;
	}
	p->ended_last = &p->ended;
	add(p, NULL, p->nudge_fd, POLLIN);
	r->backend_data = p;
	return 0;
}

static void poll_fini(struct reactor *r)
{
	struct poller *p = r->backend_data;

	close(p->nudge_fd);
	free(p->fds);
	free(p->ops);
	free(p);
}

const struct backend backend_poll = {
	.name = "poll",
	.real_files = true,
	.init = poll_init,
	.fini = poll_fini,
	.submit = poll_submit,
	.cancel = poll_cancel,
	.cancel_all = poll_cancel_all,
	.poll = poll_poll,
	.nudge = poll_nudge,
	.pool_submit = pool_submit_to_threads,
	.fstatx = real_fstatx,
	.shutdown = real_shutdown,
	.mono_ns = real_mono_ns,
	.real = real_real,
	.random = real_random,
	.pick = real_pick,
};
