/*
 * proto/xdr.c - the XDR cursor and encoder.
 *
 * Every access to a message's bytes in the program goes through xdr_take(), every write through xdr_out_reserve(): the two comparisons with the end are
 * there and nowhere else. Sizes from the wire are 32 bits and are padded in 64, so no sum here can wrap.
 */
#include "proto/xdr.h"

void xdr_init(struct xdr *x, const void *base, size_t len)
{
	*x = (struct xdr){ .base = base, .len = len };
}

bool xdr_invalid(struct xdr *x)
{
	if (xdr_ok(x))
		x->error = XDR_INVALID;
	return false;
}

const uint8_t *xdr_take(struct xdr *x, size_t n)
{
	const uint8_t *p;

	if (!xdr_ok(x))
		return NULL;
	if (n > xdr_left(x)) {
		x->error = XDR_TRUNCATED;
		return NULL;
	}
	p = x->base + x->pos;
	x->pos += n;
	return p;
}

bool xdr_dec_u32(struct xdr *x, uint32_t *v)
{
	const uint8_t *p = xdr_take(x, 4);

	if (!p)
		return false;
	*v = xdr_load32(p);
	return true;
}

bool xdr_dec_u64(struct xdr *x, uint64_t *v)
{
	const uint8_t *p = xdr_take(x, 8);

	if (!p)
		return false;
	*v = xdr_load64(p);
	return true;
}

bool xdr_dec_range(struct xdr *x, uint32_t *v, uint32_t first, uint32_t last)
{
	if (!xdr_dec_u32(x, v))
		return false;
	return (*v >= first && *v <= last) || xdr_invalid(x);
}

bool xdr_dec_bool(struct xdr *x, bool *v)
{
	uint32_t word;

	if (!xdr_dec_range(x, &word, 0, 1))
		return false;
	*v = word == 1;
	return true;
}

bool xdr_dec_fixed(struct xdr *x, void *dst, uint32_t n)
{
	const uint8_t *p = xdr_take(x, (size_t)xdr_padded(n));

	if (!p)
		return false;
	if (n)
		memcpy(dst, p, n);
	return true;
}

bool xdr_dec_bytes_len(struct xdr *x, struct xdr_bytes *b, uint32_t max)
{
	b->ptr = NULL;
	if (!xdr_dec_u32(x, &b->len))
		return false;
	return b->len <= max || xdr_invalid(x);
}

bool xdr_dec_bytes(struct xdr *x, struct xdr_bytes *b, uint32_t max)
{
	if (!xdr_dec_bytes_len(x, b, max))
		return false;
	b->ptr = xdr_take(x, (size_t)xdr_padded(b->len));
	return b->ptr != NULL;
}

void xdr_out_init(struct xdr_out *x, void *base, size_t capacity)
{
	*x = (struct xdr_out){ .base = base, .capacity = capacity };
}

void xdr_out_rewind(struct xdr_out *x, size_t pos)
{
	x->pos = pos;
	x->failed = false;
}

uint8_t *xdr_out_reserve(struct xdr_out *x, size_t n)
{
	uint8_t *p;

	if (x->failed || n > x->capacity - x->pos) {
		x->failed = true;
		return NULL;
	}
	p = x->base + x->pos;
	x->pos += n;
	return p;
}

bool xdr_enc_u32(struct xdr_out *x, uint32_t v)
{
	uint8_t *p = xdr_out_reserve(x, 4);

	if (!p)
		return false;
	xdr_store32(p, v);
	return true;
}

bool xdr_enc_u64(struct xdr_out *x, uint64_t v)
{
	uint8_t *p = xdr_out_reserve(x, 8);

	if (!p)
		return false;
	xdr_store64(p, v);
	return true;
}

bool xdr_enc_bool(struct xdr_out *x, bool v) { return xdr_enc_u32(x, v); }

bool xdr_enc_fixed(struct xdr_out *x, const void *src, uint32_t n)
{
	uint8_t *p = xdr_out_reserve(x, (size_t)xdr_padded(n));

	if (!p)
		return false;
	if (n)
		memcpy(p, src, n);
	/* Padding goes to the peer: what stood in the buffer before must not. */
	memset(p + n, 0, xdr_pad(n));
	return true;
}

bool xdr_enc_bytes(struct xdr_out *x, struct xdr_bytes b, uint32_t max)
{
	if (b.len > max) {
		x->failed = true;
		return false;
	}
	return xdr_enc_u32(x, b.len) && xdr_enc_fixed(x, b.ptr, b.len);
}

void xdr_out_patch32(struct xdr_out *x, size_t pos, uint32_t v)
{
	if (!x->failed && x->pos >= 4 && pos <= x->pos - 4)
		xdr_store32(x->base + pos, v);
}

bool xdr_bytes_eq(struct xdr_bytes a, struct xdr_bytes b) { return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0); }
