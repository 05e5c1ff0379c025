/*
 * server/reply.h - a reply: encoded bytes, payload by reference, and its way onto the socket.
 *
 * Taken from the reactor's pool by dispatch when a call begins, filled by the procedure, queued on the connection, and freed when the last byte is sent or
 * the connection dies. It keeps what it refers to alive: READ's segments and the buf of a long reply. Home reactor only.
 *
 * On the socket: mem[0..len), then payload segments, then zero padding; mem begins with the record mark.
 */
#ifndef SERVER_REPLY_H
#define SERVER_REPLY_H

#include <bsd/sys/queue.h>

#include "proto/xdr.h"
#include "vfs/data.h"

struct buf;
struct conn;
struct server_reactor;

enum { REPLY_SMALL_BYTES = 768 };

struct reply {
	STAILQ_ENTRY(reply) link;     /* free list, or the connection's queue */
	struct xdr_out out;           /* behind the record mark */
	uint8_t *mem;                 /* small[], or buf's */
	uint32_t len;                 /* once finished: record mark and encoded bytes */
	uint32_t total;               /* ... and payload and padding */
	uint32_t charged;             /* bytes in flight on the connection */
	struct buf *buf;              /* referenced; NULL: small[] */
	struct vfs_read_result *read; /* payload segments; NULL: none. From the reactor's pool. */
	uint8_t small[REPLY_SMALL_BYTES];
};

STAILQ_HEAD(reply_queue, reply);

/* NULL: the pool is used up. */
noyield_fn struct reply *reply_alloc(struct server_reactor *sr);
noyield_fn void reply_free(struct server_reactor *sr, struct reply *r);
/* Make room for `bytes` of encoding in all; what is encoded already is kept. False: no memory, nothing changed. */
noyield_fn bool reply_reserve(struct reply *r, uint32_t bytes);
/* Where a READ puts its segments; the reply owns them from here on. NULL: the pool is used up. */
noyield_fn struct vfs_read_result *reply_read_result(struct server_reactor *sr, struct reply *r);
/* Give the READ's segments back: the reply will carry none. */
noyield_fn void reply_read_drop(struct server_reactor *sr, struct reply *r);
/* Encoding is done: write the record mark. False: the encoding failed. */
noyield_fn bool reply_finish(struct reply *r);
/* Up to `max` (> VFS_READ_SEGMENTS + 2) segments of r from byte `skip` on. Returns how many. */
noyield_fn unsigned reply_segments(const struct reply *r, size_t skip, struct iovec *iov, unsigned max);

#endif
