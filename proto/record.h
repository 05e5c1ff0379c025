/*
 * proto/record.h - record marking: RPC messages on a byte stream (RFC 5531 section 11).
 *
 * A record is one RPC message. It travels in fragments, each led by a word whose top bit says "last" and whose other 31 bits are the fragment's length.
 * That length is a claim of the peer: nothing is allocated for it here, and both a record's bytes and its fragments (empty ones are legal, and would
 * otherwise be a way to keep us busy with nothing) have a maximum. struct record is the state of one receiving direction; the caller brings the bytes
 * and does the I/O. It belongs to one connection and has no lock.
 *
 * The caller steps through what it has received: record_step() says what the next bytes are. Payload that the caller lets the kernel put elsewhere
 * (WRITE's data into an aligned buffer) never passes through record_step(): record_fragment_left() says how much may be received that way at most, and
 * record_skip() accounts for it.
 */
#ifndef PROTO_RECORD_H
#define PROTO_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RECORD_MARK_BYTES = 4 };
#define RECORD_LAST_FRAGMENT UINT32_C(0x80000000)

enum record_event {
	RECORD_MORE,               /* the input is used up */
	RECORD_FRAGMENT,           /* a mark was read: a fragment begins */
	RECORD_DATA,               /* the *used bytes at in are payload */
	RECORD_END,                /* the record is complete; uses no input; the next step begins the next record */
	RECORD_TOO_LONG,           /* sticky: close the connection, the stream has no known place to go on from */
	RECORD_TOO_MANY_FRAGMENTS, /* sticky, as above */
};

struct record {
	/* immutable after init */
	uint32_t record_bytes_max;
	uint32_t fragments_max;
	/* where the stream stands */
	uint8_t mark[RECORD_MARK_BYTES];
	uint32_t mark_len;      /* bytes of mark[] that have come; RECORD_MARK_BYTES inside a fragment */
	uint32_t fragment_left; /* payload bytes of the current fragment still to come */
	uint32_t record_len;    /* payload bytes announced by this record's marks so far, the current fragment's included */
	uint32_t fragments;     /* marks read in this record */
	bool last;              /* the current fragment is the record's last */
	enum record_event error; /* RECORD_MORE: none */
};

/* Both limits are at least 1. */
void record_init(struct record *r, uint32_t record_bytes_max, uint32_t fragments_max);
/*
 * Look at the len bytes at in; *used of them belong to the event returned and are consumed. Call again with the rest. len may be 0: RECORD_END needs
 * no input.
 */
enum record_event record_step(struct record *r, const uint8_t *in, size_t len, size_t *used);
/* Payload bytes of the current fragment still to come. 0 between fragments. */
static inline uint32_t record_fragment_left(const struct record *r) { return r->fragment_left; }
/* The current fragment is the last one: when it ends, the record ends. */
static inline bool record_is_last(const struct record *r) { return r->last; }
/* Bytes that the marks read so far announce for this record: its full length once record_is_last(). */
static inline uint32_t record_len(const struct record *r) { return r->record_len; }
/* Nothing of a record has come yet: here an orderly close by the peer is no error. */
bool record_is_idle(const struct record *r);
/* n <= record_fragment_left() payload bytes were received past record_step(). Returns false (and changes nothing) for more. */
bool record_skip(struct record *r, uint32_t n);

/* Write the mark of a fragment of len < 2^31 bytes that is its record's last: how all our own records go out, in one fragment. */
void record_mark_encode(uint8_t mark[RECORD_MARK_BYTES], uint32_t len);

#endif
