/*
 * runtime/backend_uring.c - one io_uring per reactor.
 *
 * The ring is made on the reactor's own thread at the start of a run, as SINGLE_ISSUER with DEFER_TASKRUN wants (without these where the kernel lacks
 * them); completions then arrive only inside the one io_uring_enter of a turn, which submits what gathered, reaps, and waits if there is nothing
 * else to do. A turn that neither submits nor waits enters only if the kernel has flagged work.
 *
 * An operation belongs to the kernel from submission to its completion entry. Before, it may stand in `waiting` (our queue while the submission ring
 * is full); and one that a fault point or a cancellation ended early stands in `ended` until the next poll(). A cancellation that finds no room stands in
 * `cancels`, linked through the operation it is for. op->backend says which: a state of enum op_state.
 *
 * Operations that change a file's data or space carry a personality, cred_data, that the ring is given before its first operation: the reactor's thread takes
 * that identity on for as long as the registration takes.
 *
 * Other threads wake a waiting reactor by its eventfd, which the ring always reads from. The eventfd lives from init to fini, longer than the ring.
 */
#include <liburing.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "runtime/backend.h"
#include "runtime/backend_real.h"
#include "runtime/counter.h"
#include "runtime/cred.h"
#include "runtime/fault.h"
#include "runtime/internal.h"
#include "runtime/io.h"
#include "runtime/log.h"

enum {
	OP_FTRUNCATE = 55, /* IORING_OP_FTRUNCATE; liburing 2.3 has no name for it */
	CQ_PER_SQ = 4,
	RESERVED_SQES = 2, /* for the nudge and a cancellation of everything */
	ENTRIES_MIN = 8,
};

enum op_state { OP_NEW, OP_WAITING, OP_IN_RING, OP_CANCEL_WAITS, OP_CANCEL_ASKED, OP_BLOCKING, OP_ENDED };

COUNTER_DEFINE(ring_enters, "runtime.ring.enters");
COUNTER_DEFINE(ring_ops, "runtime.ring.ops");
COUNTER_DEFINE(ring_full, "runtime.ring.full");

/* Operations in a row, linked through op->next. */
struct op_queue {
	struct io_op *first, *last;
};

struct uring {
	/* immutable after init */
	int nudge_fd;
	unsigned entries, no_features;
	/* home reactor only */
	struct io_uring ring;
	unsigned no_waitall; /* MSG_WAITALL, if it is to be ignored */
	bool has_ftruncate;
	int personality; /* cred_data's; 0: none, the process may not change identities */
	bool nudge_armed;
	uint64_t nudge_value;
	struct op_queue waiting, ended, cancels;
};

static void queue_push(struct op_queue *q, struct io_op *op)
{
	op->next = NULL;
	if (q->first)
		q->last->next = op;
	else
		q->first = op;
	q->last = op;
}

static struct io_op *queue_pop(struct op_queue *q)
{
	struct io_op *op = q->first;

	if (op)
		q->first = op->next;
	return op;
}

static void queue_remove(struct op_queue *q, struct io_op *op)
{
	struct io_op *before = NULL;

	for (struct io_op *at = q->first; at != op; at = at->next)
		before = at;
	if (before)
		before->next = op->next;
	else
		q->first = op->next;
	if (q->last == op)
		q->last = before;
}

static enum op_state op_state(const struct io_op *op)
{
	return (uintptr_t)op->backend;
}

static void set_state(struct io_op *op, enum op_state state)
{
	op->backend = (void *)(uintptr_t)state;
}

static void end_op(struct uring *u, struct io_op *op, ssize_t res)
{
	op->res = res;
	set_state(op, OP_ENDED);
	queue_push(&u->ended, op);
}

/* Preparing entries. */

/* 0, or the errno to fail with. */
static int prep_transfer(struct io_uring_sqe *sqe, const struct io_op *op)
{
	unsigned iovcnt;
	size_t len;
	int error = io_shape(op, &iovcnt, &len);

	if (error)
		return error;
	/* The plain forms spare the kernel the copy of the vector. */
	if (iovcnt == 1 && op->code == IO_READV)
		io_uring_prep_read(sqe, op->fd, op->iov[0].iov_base, len, op->offset);
	else if (iovcnt == 1)
		io_uring_prep_write(sqe, op->fd, op->iov[0].iov_base, len, op->offset);
	else if (op->code == IO_READV)
		io_uring_prep_readv(sqe, op->fd, op->iov, iovcnt, op->offset);
	else
		io_uring_prep_writev(sqe, op->fd, op->iov, iovcnt, op->offset);
	sqe->rw_flags = op->flags;
	return 0;
}

static bool is_plain(const struct msghdr *msg)
{
	return msg->msg_iovlen == 1 && msg->msg_iov->iov_len <= UINT32_MAX && !msg->msg_name && !msg->msg_control;
}

static int prep_receive(struct uring *u, struct io_uring_sqe *sqe, const struct io_op *op)
{
	unsigned flags = op->flags & ~u->no_waitall;
	struct msghdr *msg = op->msg;

	if (!is_plain(msg)) {
		io_uring_prep_recvmsg(sqe, op->fd, msg, flags);
		return 0;
	}
	msg->msg_controllen = 0;
	msg->msg_flags = 0;
	io_uring_prep_recv(sqe, op->fd, msg->msg_iov->iov_base, msg->msg_iov->iov_len, flags);
	return 0;
}

static int prep_send(struct uring *u, struct io_uring_sqe *sqe, const struct io_op *op)
{
	unsigned flags = (op->flags | MSG_NOSIGNAL) & ~u->no_waitall;
	const struct msghdr *msg = op->msg;

	if (is_plain(msg))
		io_uring_prep_send(sqe, op->fd, msg->msg_iov->iov_base, msg->msg_iov->iov_len, flags);
	else
		io_uring_prep_sendmsg(sqe, op->fd, msg, flags);
	return 0;
}

static int prep_accept(struct io_uring_sqe *sqe, struct io_op *op)
{
	io_uring_prep_accept(sqe, op->fd, op->addr, op->addr ? &op->addrlen : NULL, op->flags);
	return fault_hit(FAULT_IO_ACCEPT);
}

static int prep_fsync(struct io_uring_sqe *sqe, const struct io_op *op)
{
	io_uring_prep_fsync(sqe, op->fd, op->flags & IO_FSYNC_DATA ? IORING_FSYNC_DATASYNC : 0);
	return fault_hit(FAULT_IO_FSYNC);
}

static int prep(struct uring *u, struct io_uring_sqe *sqe, struct io_op *op)
{
	switch (op->code) {
	case IO_READV:
	case IO_WRITEV:
		return prep_transfer(sqe, op);
	case IO_FSYNC:
		return prep_fsync(sqe, op);
	case IO_FTRUNCATE:
		io_uring_prep_rw(OP_FTRUNCATE, sqe, op->fd, NULL, 0, op->len);
		return 0;
	case IO_FALLOCATE:
		io_uring_prep_fallocate(sqe, op->fd, op->flags, op->offset, op->len);
		return 0;
	case IO_ACCEPT:
		return prep_accept(sqe, op);
	case IO_CONNECT:
		io_uring_prep_connect(sqe, op->fd, op->addr, op->addrlen);
		return 0;
	case IO_RECVMSG:
		return prep_receive(u, sqe, op);
	case IO_SENDMSG:
		return prep_send(u, sqe, op);
	case IO_CLOSE:
		io_uring_prep_close(sqe, op->fd);
		return 0;
	case IO_CODES:
		break;
	}
	return EINVAL;
}

/* Submitting. */

static bool has_room(const struct uring *u)
{
	return io_uring_sq_space_left(&u->ring) > RESERVED_SQES;
}

static struct io_uring_sqe *get_sqe(struct uring *u)
{
	return has_room(u) ? io_uring_get_sqe(&u->ring) : NULL;
}

static bool put_in_ring(struct uring *u, struct io_op *op)
{
	struct io_uring_sqe *sqe = get_sqe(u);
	int error;

	if (!sqe)
		return false;
	error = prep(u, sqe, op);
	if (error) {
		/* The entry is taken and cannot be given back. */
		io_uring_prep_nop(sqe);
		io_uring_sqe_set_data(sqe, NULL);
		end_op(u, op, -error);
		return true;
	}
	if (io_changes_data(op))
		sqe->personality = u->personality;
	io_uring_sqe_set_data(sqe, op);
	set_state(op, OP_IN_RING);
	counter_add(&ring_ops, 1);
	return true;
}

static void uring_submit(struct reactor *r, struct io_op *op)
{
	struct uring *u = r->backend_data;

	if (op->code == IO_FTRUNCATE && !u->has_ftruncate) {
		set_state(op, OP_BLOCKING);
		blocking_submit(r, op);
		return;
	}
	if (!u->waiting.first && put_in_ring(u, op))
		return;
	counter_add(&ring_full, 1);
	set_state(op, OP_WAITING);
	queue_push(&u->waiting, op);
}

static bool put_cancel(struct uring *u, struct io_op *op)
{
	struct io_uring_sqe *sqe = get_sqe(u);

	if (!sqe)
		return false;
	io_uring_prep_cancel(sqe, op, 0);
	io_uring_sqe_set_data(sqe, NULL);
	set_state(op, OP_CANCEL_ASKED);
	return true;
}

static void uring_cancel(struct reactor *r, struct io_op *op)
{
	struct uring *u = r->backend_data;

	if (op_state(op) == OP_WAITING) {
		queue_remove(&u->waiting, op);
		end_op(u, op, -ECANCELED);
		return;
	}
	/* Already asked for, already over, or on a pool thread, which cannot be stopped. */
	if (op_state(op) != OP_IN_RING || put_cancel(u, op))
		return;
	set_state(op, OP_CANCEL_WAITS);
	queue_push(&u->cancels, op);
}

static void uring_cancel_all(struct reactor *r)
{
	struct uring *u = r->backend_data;
	struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);
	struct io_op *op;

	while ((op = queue_pop(&u->waiting)))
		end_op(u, op, -ECANCELED);
	if (!sqe)
		return; /* asked again later */
	io_uring_prep_cancel64(sqe, 0, IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL);
	io_uring_sqe_set_data(sqe, NULL);
}

static void arm_nudge(struct uring *u)
{
	struct io_uring_sqe *sqe;

	if (u->nudge_armed || !(sqe = io_uring_get_sqe(&u->ring)))
		return;
	io_uring_prep_read(sqe, u->nudge_fd, &u->nudge_value, sizeof(u->nudge_value), 0);
	io_uring_sqe_set_data(sqe, u);
	u->nudge_armed = true;
}

/* What waited for room in the ring, cancellations first. */
static void refill_ring(struct uring *u)
{
	struct io_op *op;

	arm_nudge(u);
	while ((op = u->cancels.first) && put_cancel(u, op))
		u->cancels.first = op->next;
	while (u->waiting.first && has_room(u))
		put_in_ring(u, queue_pop(&u->waiting));
}

/* Completing. */

static void complete_entry(struct reactor *r, struct uring *u, void *data, int res)
{
	struct io_op *op = data;

	if (!data)
		return;
	if (data == u) {
		u->nudge_armed = false;
		return;
	}
	if (op_state(op) == OP_CANCEL_WAITS)
		queue_remove(&u->cancels, op);
	set_state(op, OP_ENDED);
	op->res = res;
	reactor_complete(r, op);
}

static void reap(struct reactor *r, struct uring *u)
{
	struct io_uring_cqe *cqe;
	unsigned head, n = 0;

	io_uring_for_each_cqe(&u->ring, head, cqe) {
		n++;
		complete_entry(r, u, io_uring_cqe_get_data(cqe), cqe->res);
	}
	io_uring_cq_advance(&u->ring, n);
}

static void deliver_ended(struct reactor *r, struct uring *u)
{
	struct op_queue ended = u->ended;
	struct io_op *op;

	u->ended.first = NULL;
	while ((op = queue_pop(&ended)))
		reactor_complete(r, op);
}

/* One system call at most. Its failures pass (a signal, the timeout, a kernel short of memory): the loop comes back. */
static void enter(struct uring *u, uint64_t timeout_ns)
{
	struct __kernel_timespec ts = { .tv_sec = timeout_ns / 1000000000, .tv_nsec = timeout_ns % 1000000000 };
	unsigned flags = IO_URING_READ_ONCE(*u->ring.sq.kflags);
	struct io_uring_cqe *cqe;
	int err;

	if (timeout_ns == 0 && !io_uring_sq_ready(&u->ring) && !(flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)))
		return;
	counter_add(&ring_enters, 1);
	if (timeout_ns == 0)
		err = io_uring_submit_and_get_events(&u->ring);
	else if (timeout_ns == UINT64_MAX)
		err = io_uring_submit_and_wait(&u->ring, 1);
	else
		err = io_uring_submit_and_wait_timeout(&u->ring, &cqe, 1, &ts, NULL);
	ASSERT(err >= 0 || err == -EINTR || err == -ETIME || err == -EAGAIN || err == -EBUSY || err == -ENOMEM);
}

static void uring_poll(struct reactor *r, uint64_t timeout_ns)
{
	struct uring *u = r->backend_data;

	refill_ring(u);
	while ((u->waiting.first || u->cancels.first || !u->nudge_armed) && io_uring_submit(&u->ring) > 0)
		refill_ring(u);
	if (u->ended.first || u->waiting.first || u->cancels.first || !u->nudge_armed)
		timeout_ns = 0;
	enter(u, timeout_ns);
	reap(r, u);
	deliver_ended(r, u);
}

/* Without DEFER_TASKRUN the kernel completes by interrupting us, and sets no flag. */
static bool uring_look(struct reactor *r)
{
	struct uring *u = r->backend_data;
	unsigned flags = IO_URING_READ_ONCE(*u->ring.sq.kflags);

	return flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW) || io_uring_cq_ready(&u->ring) || io_uring_sq_ready(&u->ring) || u->waiting.first ||
	       u->ended.first || u->cancels.first || !u->nudge_armed;
}

static void uring_nudge(struct reactor *r)
{
	struct uring *u = r->backend_data;

	real_nudge_fd(u->nudge_fd);
}

/* Start and end. */

static int uring_init(struct reactor *r, const struct reactor_config *config)
{
	struct uring *u = calloc(1, sizeof(*u));
	int err;

	if (!u)
		return -ENOMEM;
	u->entries = max_u64(config->ring_entries, ENTRIES_MIN);
	u->no_features = config->no_features;
	u->no_waitall = config->no_features & RING_NO_SENDMSG_WAITALL ? MSG_WAITALL : 0;
	u->nudge_fd = eventfd(0, EFD_CLOEXEC);
	if (u->nudge_fd < 0) {
		err = -errno;
		free(u);
		return err;
	}
	r->backend_data = u;
	return 0;
}

static void uring_fini(struct reactor *r)
{
	struct uring *u = r->backend_data;

	close(u->nudge_fd);
	free(u);
}

static int make_ring(struct uring *u, unsigned flags)
{
	struct io_uring_params params = { .flags = flags | IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP, .cq_entries = CQ_PER_SQ * u->entries };

	return io_uring_queue_init_params(u->entries, &u->ring, &params);
}

static int make_best_ring(struct uring *u)
{
	const unsigned best = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL;
	int err = -EINVAL;

	if (!(u->no_features & RING_NO_DEFER_TASKRUN))
		err = make_ring(u, best);
	return err == -EINVAL ? make_ring(u, 0) : err;
}

static bool supports(struct io_uring *ring, int opcode)
{
	struct io_uring_probe *probe = io_uring_get_probe_ring(ring);
	bool yes = probe && io_uring_opcode_supported(probe, opcode);

	io_uring_free_probe(probe);
	return yes;
}

static int register_own(void *ring)
{
	return io_uring_register_personality(ring);
}

/* 0 or -errno. */
static int register_personality(struct uring *u)
{
	u->personality = cred_may_assume() ? cred_call_as(&cred_data, register_own, &u->ring) : 0;
	if (u->personality >= 0)
		return 0;
	log_write(LOG_LEVEL_ERROR, "the ring does not take nobody's identity (uid %u): %s", cred_data.uid, strerror(-u->personality));
	return u->personality;
}

static int uring_start(struct reactor *r)
{
	struct uring *u = r->backend_data;
	int err = make_best_ring(u);

	if (err)
		return err;
	err = register_personality(u);
	if (err) {
		io_uring_queue_exit(&u->ring);
		return err;
	}
	u->has_ftruncate = !(u->no_features & RING_NO_FTRUNCATE) && supports(&u->ring, OP_FTRUNCATE);
	u->nudge_armed = false;
	/* Only saves the kernel a look-up per call; without it all is well. */
	io_uring_register_ring_fd(&u->ring);
	return 0;
}

static void uring_stop(struct reactor *r)
{
	struct uring *u = r->backend_data;

	ASSERT(!u->waiting.first && !u->ended.first && !u->cancels.first);
	io_uring_queue_exit(&u->ring);
}

int backend_uring_probe(void)
{
	static const int needed[] = {
		IORING_OP_READ, IORING_OP_WRITE, IORING_OP_READV, IORING_OP_WRITEV, IORING_OP_FSYNC, IORING_OP_FALLOCATE, IORING_OP_ACCEPT, IORING_OP_CONNECT,
		IORING_OP_RECV, IORING_OP_SEND, IORING_OP_RECVMSG, IORING_OP_SENDMSG, IORING_OP_CLOSE, IORING_OP_ASYNC_CANCEL,
	};
	const unsigned features = IORING_FEAT_NODROP | IORING_FEAT_EXT_ARG;
	struct io_uring ring;
	int err = io_uring_queue_init(1, &ring, 0);

	if (err)
		return err;
	if ((ring.features & features) != features)
		err = -EOPNOTSUPP;
	for (unsigned i = 0; i < ARRAY_SIZE(needed); i++)
		if (!supports(&ring, needed[i]))
			err = -EOPNOTSUPP;
	io_uring_queue_exit(&ring);
	return err;
}

const struct backend backend_uring = {
	.name = "io_uring",
	.real_files = true,
	.init = uring_init,
	.fini = uring_fini,
	.start = uring_start,
	.stop = uring_stop,
	.submit = uring_submit,
	.cancel = uring_cancel,
	.cancel_all = uring_cancel_all,
	.poll = uring_poll,
	.look = uring_look,
	.nudge = uring_nudge,
	.pool_submit = pool_submit_to_threads,
	.fstatx = real_fstatx,
	.shutdown = real_shutdown,
	.mono_ns = real_mono_ns,
	.real = real_real,
	.random = real_random,
	.pick = real_pick,
};
