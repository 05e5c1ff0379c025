/*
 * proto/record.c - the record marking state machine (RFC 5531 section 11).
 *
 * Three places in the stream: between records (fragments 0), inside a mark (mark_len < 4), inside a fragment (mark_len 4). A fragment that has no
 * bytes left either ends the record or gives way to the next mark.
 */
#include "proto/record.h"

#include <string.h>

#include "proto/xdr.h"

void record_init(struct record *r, uint32_t record_bytes_max, uint32_t fragments_max)
{
	*r = (struct record){ .record_bytes_max = record_bytes_max, .fragments_max = fragments_max, .error = RECORD_MORE };
}

static void next_mark(struct record *r) { r->mark_len = 0; }

static void next_record(struct record *r)
{
	next_mark(r);
	r->record_len = 0;
	r->fragments = 0;
	r->last = false;
}

/* A whole mark has come. */
static enum record_event begin_fragment(struct record *r)
{
	uint32_t word = xdr_load32(r->mark);
	uint32_t len = word & ~RECORD_LAST_FRAGMENT;

	if (r->fragments == r->fragments_max)
		return r->error = RECORD_TOO_MANY_FRAGMENTS;
	if (len > r->record_bytes_max - r->record_len)
		return r->error = RECORD_TOO_LONG;
	r->fragments++;
	r->record_len += len;
	r->fragment_left = len;
	r->last = (word & RECORD_LAST_FRAGMENT) != 0;
	return RECORD_FRAGMENT;
}

static enum record_event step_mark(struct record *r, const uint8_t *in, size_t len, size_t *used)
{
	size_t want = RECORD_MARK_BYTES - r->mark_len;

	*used = len < want ? len : want;
	if (*used)
		memcpy(r->mark + r->mark_len, in, *used);
	r->mark_len += (uint32_t)*used;
	return r->mark_len == RECORD_MARK_BYTES ? begin_fragment(r) : RECORD_MORE;
}

enum record_event record_step(struct record *r, const uint8_t *in, size_t len, size_t *used)
{
	*used = 0;
	if (r->error != RECORD_MORE)
		return r->error;
	if (r->mark_len == RECORD_MARK_BYTES && r->fragment_left == 0) {
		if (r->last) {
			next_record(r);
			return RECORD_END;
		}
		next_mark(r);
	}
	if (r->mark_len < RECORD_MARK_BYTES)
		return step_mark(r, in, len, used);
	if (len == 0)
		return RECORD_MORE;
	*used = len < r->fragment_left ? len : r->fragment_left;
	r->fragment_left -= (uint32_t)*used;
	return RECORD_DATA;
}

bool record_is_idle(const struct record *r) { return r->error == RECORD_MORE && r->fragments == 0 && r->mark_len == 0; }

bool record_skip(struct record *r, uint32_t n)
{
	if (r->error != RECORD_MORE || n > r->fragment_left)
		return false;
	r->fragment_left -= n;
	return true;
}

void record_mark_encode(uint8_t mark[RECORD_MARK_BYTES], uint32_t len) { xdr_store32(mark, len | RECORD_LAST_FRAGMENT); }
