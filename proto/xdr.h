/*
 * proto/xdr.h - the one place that reads and writes XDR (RFC 4506): a bounded decoder and a bounded encoder over memory the caller owns.
 *
 * Decoding borrows. A struct xdr points into a message that somebody else keeps; opaques and strings come out as struct xdr_bytes, {ptr, len} into
 * that message: nothing is copied, nothing is NUL-terminated, and a reference lives exactly as long as the message. Encoding writes into a buffer of
 * fixed capacity that the caller lends; it never grows and never allocates.
 *
 * Errors are sticky on both sides: after the first failure every further call fails and changes nothing, so a codec may be one && chain and its caller
 * needs one test. A decoder tells "the message ends here" (xdr_is_truncated()) from "the message says something that cannot be", because a server
 * that decodes while it receives asks for more bytes in the first case. Out parameters of a failed decode are undefined.
 *
 * No locks, no syscalls, no state outside the two structs.
 */
#ifndef PROTO_XDR_H
#define PROTO_XDR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { XDR_UNIT = 4 };

/* Bytes of somebody else: an opaque<> or a string<>. ptr may be NULL only if len is 0 (or where a codec says that the payload stands elsewhere). */
struct xdr_bytes {
	const uint8_t *ptr;
	uint32_t len;
};

enum xdr_error {
	XDR_FINE = 0,
	XDR_TRUNCATED, /* a complete prefix: more bytes might make it valid */
	XDR_INVALID,   /* no continuation makes it valid */
};

struct xdr {
	const uint8_t *base;
	size_t len;
	size_t pos; /* <= len */
	enum xdr_error error;
};

struct xdr_out {
	uint8_t *base;
	size_t capacity;
	size_t pos; /* <= capacity: bytes written */
	bool failed;
};

/* Zero bytes that follow len bytes of an opaque (RFC 4506 section 4.10). */
static inline uint32_t xdr_pad(uint32_t len) { return -len & (XDR_UNIT - 1); }
/* len with its padding; 64 bits, so that it cannot wrap. */
static inline uint64_t xdr_padded(uint32_t len) { return (uint64_t)len + xdr_pad(len); }

static inline uint32_t xdr_load32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static inline uint64_t xdr_load64(const uint8_t *p) { return (uint64_t)xdr_load32(p) << 32 | xdr_load32(p + 4); }

static inline void xdr_store32(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 24);
	p[1] = (uint8_t)(v >> 16);
	p[2] = (uint8_t)(v >> 8);
	p[3] = (uint8_t)v;
}

static inline void xdr_store64(uint8_t *p, uint64_t v)
{
	xdr_store32(p, (uint32_t)(v >> 32));
	xdr_store32(p + 4, (uint32_t)v);
}

/* --- decoding --- */

/* Decode the len bytes at base, which must outlive the cursor and every reference taken from it. */
void xdr_init(struct xdr *x, const void *base, size_t len);
static inline bool xdr_ok(const struct xdr *x) { return x->error == XDR_FINE; }
static inline bool xdr_is_truncated(const struct xdr *x) { return x->error == XDR_TRUNCATED; }
/* Offset of the next byte from base. */
static inline size_t xdr_pos(const struct xdr *x) { return x->pos; }
static inline size_t xdr_left(const struct xdr *x) { return x->len - x->pos; }
/* True if all went well and no byte is left over: what a complete message must say at its end. */
static inline bool xdr_is_done(const struct xdr *x) { return xdr_ok(x) && x->pos == x->len; }
/* Fail the cursor with XDR_INVALID (first error stays); returns false, so that a codec can return it. */
bool xdr_invalid(struct xdr *x);

/* The next n bytes, or NULL and a truncated cursor. n is the caller's, not the wire's: no padding is skipped. */
const uint8_t *xdr_take(struct xdr *x, size_t n);
bool xdr_dec_u32(struct xdr *x, uint32_t *v);
bool xdr_dec_u64(struct xdr *x, uint64_t *v);
/* Anything but 0 and 1 is invalid (RFC 4506 section 4.4). */
bool xdr_dec_bool(struct xdr *x, bool *v);
/* A value of first..last, both included; anything else is invalid. For enums. */
bool xdr_dec_range(struct xdr *x, uint32_t *v, uint32_t first, uint32_t last);
/* opaque[n]: copies n bytes to dst and skips the padding. Padding of received messages may hold anything. */
bool xdr_dec_fixed(struct xdr *x, void *dst, uint32_t n);
/* opaque<max> or string<max>: a reference. More than max is invalid, whatever is left. */
bool xdr_dec_bytes(struct xdr *x, struct xdr_bytes *b, uint32_t max);
/*
 * The length word of an opaque<max> and nothing more: the cursor stands on the first payload byte. b->ptr is NULL. For payloads that are received
 * somewhere else.
 */
bool xdr_dec_bytes_len(struct xdr *x, struct xdr_bytes *b, uint32_t max);

/* --- encoding --- */

/* Encode into the capacity bytes at base, which must outlive the encoder. */
void xdr_out_init(struct xdr_out *x, void *base, size_t capacity);
static inline bool xdr_out_ok(const struct xdr_out *x) { return !x->failed; }
static inline size_t xdr_out_pos(const struct xdr_out *x) { return x->pos; }
static inline size_t xdr_out_room(const struct xdr_out *x) { return x->failed ? 0 : x->capacity - x->pos; }
/* Go back to a position that xdr_out_pos() gave: what was written after it, and a failure after it, are forgotten. */
void xdr_out_rewind(struct xdr_out *x, size_t pos);

/* n bytes to be filled by the caller, contents undefined; NULL and failed if they do not fit. The pointer lives as long as the buffer. */
uint8_t *xdr_out_reserve(struct xdr_out *x, size_t n);
bool xdr_enc_u32(struct xdr_out *x, uint32_t v);
bool xdr_enc_u64(struct xdr_out *x, uint64_t v);
bool xdr_enc_bool(struct xdr_out *x, bool v);
/* opaque[n]: the bytes and zeroed padding. */
bool xdr_enc_fixed(struct xdr_out *x, const void *src, uint32_t n);
/* opaque<> or string<>: length word, bytes, zeroed padding. More than max is a failure: the peer would refuse it. */
bool xdr_enc_bytes(struct xdr_out *x, struct xdr_bytes b, uint32_t max);
/* Overwrite the word at pos, which is already written (a count or length known only later). Does nothing on a failed encoder. */
void xdr_out_patch32(struct xdr_out *x, size_t pos, uint32_t v);

static inline struct xdr_bytes xdr_bytes_of(const void *ptr, uint32_t len) { return (struct xdr_bytes){ (const uint8_t *)ptr, len }; }
/* A C string as wire bytes, without its NUL; borrowed. */
static inline struct xdr_bytes xdr_bytes_str(const char *s) { return xdr_bytes_of(s, (uint32_t)strlen(s)); }
bool xdr_bytes_eq(struct xdr_bytes a, struct xdr_bytes b);

#endif
