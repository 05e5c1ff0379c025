/*
 * runtime/io.h - operations that the ring carries, as calls that a fiber makes and waits for, and in an asynchronous form.
 *
 * Everything that touches a file's data or a socket goes through here, so that the simulated backend can take the kernel's place. Descriptors
 * are the kernel's, or the simulation's. Results: bytes or 0, or a negative errno. Memory named by an operation stays valid and unchanged until
 * it is done: io_cancel() asks, only completion frees.
 *
 * Writes, ftruncate and fallocate run as cred_data (cred.h), as nobody without CAP_SYS_RESOURCE, whatever identity the server has: disk quotas bind the files'
 * owners, and blocks that a file system reserves for root stay reserved. The descriptor carries the permission. Where the process may not
 * change identities they run as the process.
 */
#ifndef RUNTIME_IO_H
#define RUNTIME_IO_H

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "runtime/base.h"

struct statx;

enum io_code {
	IO_READV,
	IO_WRITEV,
	IO_FSYNC,
	IO_FTRUNCATE,
	IO_FALLOCATE,
	IO_ACCEPT,
	IO_CONNECT,
	IO_RECVMSG,
	IO_SENDMSG,
	IO_CLOSE,
	IO_CODES,
};

/* io_op.flags of IO_FSYNC */
enum { IO_FSYNC_DATA = 1 };

/*
 * One operation. The caller owns the struct, zeroes it, fills the upper part, and calls io_submit() on a reactor; `done` runs on the same reactor's
 * loop, outside any fiber, when res is final (it may io_submit() again, spawn or unpark, and must not block or yield). An operation that completes
 * partly is final: continuing is the caller's (io_pwritev_all() does it).
 */
struct io_op {
	enum io_code code;
	int fd;
	const struct iovec *iov; /* READV, WRITEV */
	unsigned iovcnt;
	unsigned flags;          /* READV, WRITEV: RWF_*; FSYNC: IO_FSYNC_DATA; RECVMSG, SENDMSG: MSG_* (MSG_NOSIGNAL is implied, MSG_WAITALL a wish); ACCEPT: SOCK_* ; FALLOCATE: mode */
	uint64_t offset;
	uint64_t len;            /* FALLOCATE; FTRUNCATE: the size */
	struct msghdr *msg;      /* RECVMSG, SENDMSG */
	struct sockaddr *addr;   /* CONNECT; ACCEPT: filled */
	socklen_t addrlen;       /* in and out */
	void (*done)(struct io_op *op);
	void *arg;               /* the caller's */
	ssize_t res;             /* bytes, a descriptor, 0, or -errno */
	struct io_op *next;      /* the backend's: queue while the ring is full */
	void *backend;           /* the backend's */
};

/*
 * Writes, each of all its iov (which is consumed), then perhaps a sync: one after the other, and nothing after what fails. If they are several a pool thread makes them all in one
 * trip if most have nothing to do, which spares a wake-up on both sides for each. The caller owns both structs.
 */
struct io_write {
	int fd;
	struct iovec *iov;
	unsigned iovcnt;
	uint64_t offset;
	size_t done;         /* result: bytes */
};
struct io_finish {
	struct io_write *writes;
	unsigned count;
	int fd;              /* to sync; -1: no sync */
	unsigned flags;      /* ... IO_FSYNC_DATA */
	unsigned complete;   /* result: so many of the writes are */
	int error;           /* result: 0, or -errno of the write after these, or of the sync if all are */
};

noyield_fn void io_submit(struct io_op *op);
/* Ask for an early end: the operation still completes, with -ECANCELED or its result. Same reactor only. */
noyield_fn void io_cancel(struct io_op *op);
/* Submit and wait. */
fiber_fn ssize_t io_call(struct io_op *op, const char *why);

/* One read: bytes (0 at the end of file), or -errno. */
fiber_fn ssize_t io_preadv(int fd, const struct iovec *iov, unsigned iovcnt, uint64_t offset, unsigned rwf);
/* Until len bytes or the end of file. Bytes read. */
fiber_fn ssize_t io_pread_all(int fd, void *mem, size_t len, uint64_t offset, unsigned rwf);
/*
 * Write all of iov, continuing after short writes (iov is consumed: its entries change). Bytes written: less than asked only together with an
 * error in *err (-errno), 0 there otherwise.
 */
fiber_fn size_t io_pwritev_all(int fd, struct iovec *iov, unsigned iovcnt, uint64_t offset, unsigned rwf, int *err);
fiber_fn int io_fsync(int fd, unsigned flags);
fiber_fn void io_finish(struct io_finish *f);
fiber_fn int io_ftruncate(int fd, uint64_t size);
fiber_fn int io_fallocate(int fd, int mode, uint64_t offset, uint64_t len);
fiber_fn ssize_t io_recvmsg(int fd, struct msghdr *msg, unsigned flags);
fiber_fn ssize_t io_sendmsg(int fd, struct msghdr *msg, unsigned flags);
fiber_fn int io_accept(int fd, struct sockaddr_storage *addr, socklen_t *addrlen);
/* Send or receive all of msg, continuing after short ones (the iov is consumed). Bytes moved; fewer only at the end of stream or with *err = -errno. */
fiber_fn size_t io_sendmsg_all(int fd, struct msghdr *msg, unsigned flags, int *err);
fiber_fn size_t io_recvmsg_all(int fd, struct msghdr *msg, unsigned flags, int *err);
/* Skip `done` bytes of iov: its entries change; empty leading ones are dropped from it. */
noyield_fn void iov_consume(struct iovec **iov, unsigned *iovcnt, size_t done);
/* Close without waiting for it. */
noyield_fn void io_close(int fd);
noyield_fn int io_shutdown(int fd);

/*
 * statx of an open file, without waiting: from memory. Only for local file systems, whose inode is in memory while the file is open (others go
 * through the pool). mask: STATX_*. 0 or -errno.
 */
noyield_fn int io_fstatx(int fd, unsigned mask, struct statx *stx);

/* STATX_DIOALIGN of Linux 6.1, STATX_DIO_READ_ALIGN of 6.14 and where its stx_dio_read_offset_align stands; headers may be older. */
enum {
	IO_STATX_DIOALIGN = 0x2000, IO_STATX_DIO_READ_ALIGN = 0x20000, IO_STATX_ALIGN = IO_STATX_DIOALIGN | IO_STATX_DIO_READ_ALIGN,
	IO_STATX_DIO_READ_ALIGN_AT = 0xb4,
};

#endif
