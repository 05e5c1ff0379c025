/*
 * runtime/blocking.c - operations on files by plain system calls on a pool thread: for the ring's operations that this kernel lacks, and for all of them
 * where there is no ring. Data and space are changed as cred_data, as on the ring.
 *
 * A job lives from blocking_submit() until its operation is complete. Jobs come from malloc: this is no hot path.
 */
#include <stdlib.h>
#include <fcntl.h>
#include <unistd.h>

#include "runtime/backend.h"
#include "runtime/cred.h"
#include "runtime/fault.h"
#include "runtime/internal.h"
#include "runtime/io.h"

struct blocking_job {
	struct pool_job job;
	struct io_op *op;
};

static ssize_t transfer(struct io_op *op)
{
	unsigned iovcnt;
	size_t len;
	struct iovec one;
	const struct iovec *iov = op->iov;
	int error = io_shape(op, &iovcnt, &len);

	if (error) {
		errno = error;
		return -1;
	}
	if (iovcnt == 1) {
		one = (struct iovec){ .iov_base = op->iov[0].iov_base, .iov_len = len };
		iov = &one;
	}
	if (op->code == IO_READV)
		return preadv2(op->fd, iov, iovcnt, op->offset, op->flags);
	return pwritev2(op->fd, iov, iovcnt, op->offset, op->flags);
}

static int sync_file(const struct io_op *op)
{
	int error = fault_hit(FAULT_IO_FSYNC);

	if (error) {
		errno = error;
		return -1;
	}
	return op->flags & IO_FSYNC_DATA ? fdatasync(op->fd) : fsync(op->fd);
}

static ssize_t perform(struct io_op *op)
{
	switch (op->code) {
	case IO_READV:
	case IO_WRITEV:
		return transfer(op);
	case IO_FSYNC:
		return sync_file(op);
	case IO_FTRUNCATE:
		return ftruncate(op->fd, op->len);
	case IO_FALLOCATE:
		return fallocate(op->fd, op->flags, op->offset, op->len);
	case IO_CLOSE:
		return close(op->fd);
	default:
		errno = EOPNOTSUPP;
		return -1;
	}
}

ssize_t blocking_perform(struct io_op *op)
{
	ssize_t res;

	/* A signal for the process must not look like a result of the file's. */
	do
		res = perform(op);
	while (res < 0 && errno == EINTR && op->code != IO_CLOSE);
	op->res = res < 0 ? -errno : res;
	return op->res;
}

static void run_blocking(void *arg)
{
	struct blocking_job *b = arg;

	blocking_perform(b->op);
}

static void blocking_done(struct pool_job *job)
{
	struct blocking_job *b = container_of(job, struct blocking_job, job);
	struct io_op *op = b->op;

	free(b);
	reactor_complete(reactor_here, op);
}

void blocking_submit(struct reactor *r, struct io_op *op)
{
	struct blocking_job *b = malloc(sizeof(*b));
	const struct cred *cred = io_changes_data(op) ? &cred_data : NULL;

	ASSERT(b);
	*b = (struct blocking_job){ .job = { .fn = run_blocking, .arg = b, .cred = cred, .done = blocking_done, .home = r }, .op = op };
	pool_enqueue(&b->job);
}
