/*
 * server/reply.c - pool and memory of replies. What a reply is and who holds what: server/reply.h.
 *
 * Replies and READ results come from two free lists per reactor, made at start (server.c) and as long as the calls that the reactor admits, so they
 * never run out before the bound on calls in flight stops the reading.
 */
#include "proto/record.h"
#include "runtime/buf.h"
#include "server/reply.h"
#include "server/server.h"

static const uint8_t zeros[XDR_UNIT];

struct reply *reply_alloc(struct server_reactor *sr)
{
	struct reply *r = sr->free_reply;
	if (r == NULL)
		return NULL;
	sr->free_reply = STAILQ_NEXT(r, link);
	r->mem = r->small;
	r->len = r->total = r->charged = 0;
	r->buf = NULL;
	r->read = NULL;
	xdr_out_init(&r->out, r->mem + RECORD_MARK_BYTES, REPLY_SMALL_BYTES - RECORD_MARK_BYTES);
	return r;
}

void reply_read_drop(struct server_reactor *sr, struct reply *r)
{
	if (r->read == NULL)
		return;
	vfs_read_put(r->read);
	sr->free_reads[sr->free_read_count++] = r->read;
	r->read = NULL;
}

void reply_free(struct server_reactor *sr, struct reply *r)
{
	reply_read_drop(sr, r);
	if (r->buf != NULL)
		buf_put(r->buf);
	STAILQ_NEXT(r, link) = sr->free_reply;
	sr->free_reply = r;
}

bool reply_reserve(struct reply *r, uint32_t bytes)
{
	size_t used = xdr_out_pos(&r->out);
	if (bytes <= r->out.capacity)
		return true;
	struct buf *b = buf_alloc((size_t)bytes + RECORD_MARK_BYTES);
	if (b == NULL)
		return false;
	memcpy(b->data + RECORD_MARK_BYTES, r->out.base, used);
	if (r->buf != NULL)
		buf_put(r->buf);
	r->buf = b;
	r->mem = b->data;
	xdr_out_init(&r->out, r->mem + RECORD_MARK_BYTES, bytes);
	xdr_out_reserve(&r->out, used);
	return true;
}

struct vfs_read_result *reply_read_result(struct server_reactor *sr, struct reply *r)
{
	if (sr->free_read_count == 0)
		return NULL;
	r->read = sr->free_reads[--sr->free_read_count];
	r->read->count = 0;
	r->read->segments = 0;
	r->read->attr_valid = false;
	return r->read;
}

bool reply_finish(struct reply *r)
{
	uint32_t payload = r->read != NULL ? r->read->count : 0;
	if (!xdr_out_ok(&r->out))
		return false;
	r->len = RECORD_MARK_BYTES + (uint32_t)xdr_out_pos(&r->out);
	r->total = r->len + payload + xdr_pad(payload);
	record_mark_encode(r->mem, r->total - RECORD_MARK_BYTES);
	return true;
}

/* Append mem[0..len) less the first *skip bytes. */
static unsigned segment_add(struct iovec *iov, unsigned n, const void *mem, size_t len, size_t *skip)
{
	if (*skip >= len) {
		*skip -= len;
		return n;
	}
	iov[n] = (struct iovec){ .iov_base = (uint8_t *)mem + *skip, .iov_len = len - *skip };
	*skip = 0;
	return n + 1;
}

unsigned reply_segments(const struct reply *r, size_t skip, struct iovec *iov, unsigned max)
{
	unsigned n = segment_add(iov, 0, r->mem, r->len, &skip);
	if (r->read == NULL)
		return n;
	ASSERT(r->read->segments + 2 <= max);
	for (unsigned i = 0; i < r->read->segments; i++)
		n = segment_add(iov, n, r->read->iov[i].iov_base, r->read->iov[i].iov_len, &skip);
	return segment_add(iov, n, zeros, xdr_pad(r->read->count), &skip);
}
