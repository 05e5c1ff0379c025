/*
 * runtime/io.c - operations as calls: the fiber's wrappers, continuation after short ones, and the fault points that all real backends apply.
 *
 * A call's io_op stands in the caller's frame and is done before the frame goes. io_close() has no frame to stand in: its operations come from a list
 * of the reactor's, made on demand, kept for reuse and freed with the reactor.
 */
#include "runtime/io.h"

#include <limits.h>
#include <stdlib.h>

#include "runtime/backend.h"
#include "runtime/cred.h"
#include "runtime/fault.h"
#include "runtime/fiber.h"
#include "runtime/internal.h"
#include "runtime/pool.h"
#include "runtime/reactor.h"

/* The kernel moves no more in one operation (MAX_RW_COUNT). */
static const size_t transfer_max = 0x7ffff000;

struct close_op {
	struct io_op op;
	struct close_op *next;
};

void io_submit(struct io_op *op)
{
	struct reactor *r = reactor_here;

	ASSERT(r);
	ASSERT(op->done);
	op->res = 0;
	op->next = NULL;
	op->backend = NULL;
	r->in_flight++;
	r->files_in_flight += io_is_of_file(op);
	backend->submit(r, op);
}

void io_cancel(struct io_op *op)
{
	ASSERT(reactor_here);
	backend->cancel(reactor_here, op);
}

static void wake_caller(struct io_op *op)
{
	fiber_unpark(op->arg);
}

ssize_t io_call(struct io_op *op, const char *why)
{
	op->done = wake_caller;
	op->arg = fiber_self();
	ASSERT(op->arg);
	io_submit(op);
	fiber_park(why, op);
	return op->res;
}

/* Faults. */

static size_t shortened(size_t len)
{
	/* Whole pages stay whole pages, so that a shortened O_DIRECT operation is still a legal one. */
	if (len % PAGE_BYTES)
		return len > 1 ? len / 2 : len;
	return len > PAGE_BYTES ? align_down(len / 2 + PAGE_BYTES - 1, PAGE_BYTES) : len;
}

int io_shape(const struct io_op *op, unsigned *iovcnt, size_t *len)
{
	bool is_write = op->code == IO_WRITEV;
	int error = fault_hit(is_write ? FAULT_IO_WRITEV : FAULT_IO_READV);

	*iovcnt = op->iovcnt < IOV_MAX ? op->iovcnt : IOV_MAX;
	*len = op->iovcnt ? min_u64(op->iov[0].iov_len, transfer_max) : 0;
	if (error)
		return error;
	if (!fault_hit(is_write ? FAULT_IO_SHORT_WRITE : FAULT_IO_SHORT_READ))
		return 0;
	if (*iovcnt > 1)
		*iovcnt /= 2;
	else
		*len = shortened(*len);
	return 0;
}

bool io_changes_data(const struct io_op *op)
{
	return op->code == IO_WRITEV || op->code == IO_FTRUNCATE || op->code == IO_FALLOCATE;
}

bool io_is_of_file(const struct io_op *op)
{
	return op->code <= IO_FALLOCATE;
}

/* Files. */

ssize_t io_preadv(int fd, const struct iovec *iov, unsigned iovcnt, uint64_t offset, unsigned rwf)
{
	struct io_op op = { .code = IO_READV, .fd = fd, .iov = iov, .iovcnt = iovcnt, .offset = offset, .flags = rwf };

	return io_call(&op, "read");
}

ssize_t io_pread_all(int fd, void *mem, size_t len, uint64_t offset, unsigned rwf)
{
	size_t done = 0;

	while (done < len) {
		struct iovec iov = { .iov_base = (uint8_t *)mem + done, .iov_len = len - done };
		ssize_t got = io_preadv(fd, &iov, 1, offset + done, rwf);

		if (got < 0)
			return got;
		if (got == 0)
			break;
		done += got;
	}
	return done;
}

void iov_consume(struct iovec **iov, unsigned *iovcnt, size_t done)
{
	while (*iovcnt && done >= (*iov)->iov_len) {
		done -= (*iov)->iov_len;
		(*iov)++;
		(*iovcnt)--;
	}
	if (!done)
		return;
	ASSERT(*iovcnt > 0);
	(*iov)->iov_base = (uint8_t *)(*iov)->iov_base + done;
	(*iov)->iov_len -= done;
}

typedef ssize_t io_caller(struct io_op *op, const char *why);

static size_t write_all(io_caller *call, int fd, struct iovec *iov, unsigned iovcnt, uint64_t offset, unsigned rwf, int *err)
{
	size_t done = 0;

	*err = 0;
	iov_consume(&iov, &iovcnt, 0);
	while (iovcnt) {
		struct io_op op = { .code = IO_WRITEV, .fd = fd, .iov = iov, .iovcnt = iovcnt, .offset = offset + done, .flags = rwf };
		ssize_t put = call(&op, "write");

		if (put <= 0) {
			/* Nothing written and no reason given: the device will not say more the next time. */
			*err = put ? put : -EIO;
			break;
		}
		done += put;
		iov_consume(&iov, &iovcnt, put);
	}
	return done;
}

size_t io_pwritev_all(int fd, struct iovec *iov, unsigned iovcnt, uint64_t offset, unsigned rwf, int *err)
{
	return write_all(io_call, fd, iov, iovcnt, offset, rwf, err);
}

static int sync_by(io_caller *call, int fd, unsigned flags)
{
	struct io_op op = { .code = IO_FSYNC, .fd = fd, .flags = flags };

	return call(&op, "fsync");
}

int io_fsync(int fd, unsigned flags)
{
	return sync_by(io_call, fd, flags);
}

static void finish_by(io_caller *call, struct io_finish *f)
{
	struct io_write *w;

	f->error = 0;
	for (f->complete = 0; f->complete < f->count; f->complete++) {
		w = &f->writes[f->complete];
		w->done = write_all(call, w->fd, w->iov, w->iovcnt, w->offset, 0, &f->error);
		if (f->error)
			return;
	}
	if (f->fd >= 0)
		f->error = sync_by(call, f->fd, f->flags);
}

static ssize_t call_blocking(struct io_op *op, const char *why)
{
	(void)why;
	return blocking_perform(op);
}

static void finish_on_thread(void *arg)
{
	finish_by(call_blocking, arg);
}

void io_finish(struct io_finish *f)
{
	bool several = f->count + (f->fd >= 0) > 1;

	if (!several || !backend->real_files || !pool_try_run(finish_on_thread, f, &cred_data))
		finish_by(io_call, f);
}

int io_ftruncate(int fd, uint64_t size)
{
	struct io_op op = { .code = IO_FTRUNCATE, .fd = fd, .len = size };
	int error = fault_hit(FAULT_IO_FTRUNCATE);

	return error ? -error : io_call(&op, "ftruncate");
}

int io_fallocate(int fd, int mode, uint64_t offset, uint64_t len)
{
	struct io_op op = { .code = IO_FALLOCATE, .fd = fd, .flags = mode, .offset = offset, .len = len };

	return io_call(&op, "fallocate");
}

/* Sockets. */

ssize_t io_recvmsg(int fd, struct msghdr *msg, unsigned flags)
{
	struct io_op op = { .code = IO_RECVMSG, .fd = fd, .msg = msg, .flags = flags };

	return io_call(&op, "receive");
}

ssize_t io_sendmsg(int fd, struct msghdr *msg, unsigned flags)
{
	struct io_op op = { .code = IO_SENDMSG, .fd = fd, .msg = msg, .flags = flags };

	return io_call(&op, "send");
}

static size_t move_all(ssize_t (*move)(int, struct msghdr *, unsigned), int fd, struct msghdr *msg, unsigned flags, int *err)
{
	unsigned iovcnt = msg->msg_iovlen;
	size_t done = 0;

	*err = 0;
	iov_consume(&msg->msg_iov, &iovcnt, 0);
	while (iovcnt) {
		ssize_t moved;

		msg->msg_iovlen = iovcnt;
		moved = move(fd, msg, flags | MSG_WAITALL);
		if (moved <= 0) {
			*err = moved;
			break;
		}
		done += moved;
		iov_consume(&msg->msg_iov, &iovcnt, moved);
	}
	msg->msg_iovlen = iovcnt;
	return done;
}

size_t io_sendmsg_all(int fd, struct msghdr *msg, unsigned flags, int *err)
{
	return move_all(io_sendmsg, fd, msg, flags, err);
}

size_t io_recvmsg_all(int fd, struct msghdr *msg, unsigned flags, int *err)
{
	return move_all(io_recvmsg, fd, msg, flags, err);
}

int io_accept(int fd, struct sockaddr_storage *addr, socklen_t *addrlen)
{
	struct io_op op = { .code = IO_ACCEPT, .fd = fd, .addr = (struct sockaddr *)addr, .addrlen = addrlen ? *addrlen : 0, .flags = SOCK_CLOEXEC };
	ssize_t conn = io_call(&op, "accept");

	if (addrlen)
		*addrlen = op.addrlen;
	return conn;
}

/* Closing. */

static void closed(struct io_op *op)
{
	struct close_op *c = container_of(op, struct close_op, op);

	c->next = reactor_here->close_free;
	reactor_here->close_free = c;
}

void io_close(int fd)
{
	struct close_op *c;

	ASSERT(reactor_here);
	c = reactor_here->close_free;
	if (c)
		reactor_here->close_free = c->next;
	else
		c = malloc(sizeof(*c));
	ASSERT(c);
	c->op = (struct io_op){ .code = IO_CLOSE, .fd = fd, .done = closed };
	io_submit(&c->op);
}

void io_closes_fini(struct reactor *r)
{
	struct close_op *c;

	while ((c = r->close_free)) {
		r->close_free = c->next;
		free(c);
	}
}

int io_shutdown(int fd)
{
	return backend->shutdown(fd);
}

int io_fstatx(int fd, unsigned mask, struct statx *stx)
{
	return backend->fstatx(fd, mask, stx);
}
