/*
 * tests/unit/xdr_test.c - the XDR cursor and encoder: bounds, stickiness, padding, references.
 */
#include <criterion/criterion.h>

#include "proto/xdr.h"
#include "tests/unit/guard.h"

Test(xdr, words_are_big_endian)
{
	uint8_t buf[16];
	struct xdr_out out;
	struct xdr in;
	uint32_t a;
	uint64_t b;
	bool c;

	xdr_out_init(&out, buf, sizeof(buf));
	cr_assert(xdr_enc_u32(&out, 0x01020304) && xdr_enc_u64(&out, UINT64_C(0x0506070809aabbcc)) && xdr_enc_bool(&out, true));
	cr_assert_arr_eq(buf, "\1\2\3\4\5\6\7\10\11\xaa\xbb\xcc\0\0\0\1", 16);
	xdr_init(&in, buf, sizeof(buf));
	cr_assert(xdr_dec_u32(&in, &a) && xdr_dec_u64(&in, &b) && xdr_dec_bool(&in, &c) && xdr_is_done(&in));
	cr_assert_eq(a, 0x01020304);
	cr_assert_eq(b, UINT64_C(0x0506070809aabbcc));
	cr_assert(c);
}

Test(xdr, bytes_are_references_into_the_message)
{
	static const uint8_t msg[] = "\0\0\0\5hello\0\0\0";
	struct xdr in;
	struct xdr_bytes b;

	xdr_init(&in, msg, 12);
	cr_assert(xdr_dec_bytes(&in, &b, 5));
	cr_assert_eq(b.ptr, msg + 4);
	cr_assert(xdr_bytes_eq(b, xdr_bytes_str("hello")));
	cr_assert(xdr_is_done(&in));
}

Test(xdr, length_above_max_is_invalid_even_if_bytes_are_missing)
{
	struct xdr in;
	struct xdr_bytes b;

	xdr_init(&in, "\0\0\0\6", 4);
	cr_assert_not(xdr_dec_bytes(&in, &b, 5));
	cr_assert_eq(in.error, XDR_INVALID);
	xdr_init(&in, "\0\0\0\5", 4);
	cr_assert_not(xdr_dec_bytes(&in, &b, 5));
	cr_assert(xdr_is_truncated(&in));
}

/* A length near 2^32 must not wrap when it is padded. */
Test(xdr, huge_length_is_truncated_not_wrapped)
{
	struct guard g;
	struct xdr in;
	struct xdr_bytes b;

	xdr_init(&in, guard_copy(&g, "\xff\xff\xff\xff", 4), 4);
	cr_assert_not(xdr_dec_bytes(&in, &b, UINT32_MAX));
	cr_assert(xdr_is_truncated(&in));
	cr_assert_eq(xdr_padded(UINT32_MAX), UINT64_C(0x100000000));
	guard_free(&g);
}

Test(xdr, missing_padding_is_truncated)
{
	struct guard g;
	struct xdr in;
	struct xdr_bytes b;

	for (size_t len = 9; len < 12; len++) {
		xdr_init(&in, guard_copy(&g, "\0\0\0\5hello\0\0\0", len), len);
		cr_assert_not(xdr_dec_bytes(&in, &b, 5));
		cr_assert(xdr_is_truncated(&in));
		guard_free(&g);
	}
}

Test(xdr, bool_and_range_reject_other_values)
{
	struct xdr in;
	uint32_t v;
	bool b;

	xdr_init(&in, "\0\0\0\2", 4);
	cr_assert_not(xdr_dec_bool(&in, &b));
	cr_assert_eq(in.error, XDR_INVALID);
	xdr_init(&in, "\0\0\0\7\0\0\0\10\0\0\0\1", 12);
	cr_assert(xdr_dec_range(&in, &v, 2, 7));
	cr_assert_not(xdr_dec_range(&in, &v, 2, 7));
	xdr_init(&in, "\0\0\0\1", 4);
	cr_assert_not(xdr_dec_range(&in, &v, 2, 7));
}

Test(xdr, decode_failure_is_sticky_and_moves_nothing)
{
	struct xdr in;
	uint32_t v;
	uint64_t w;

	xdr_init(&in, "\0\0\0\1\0\0\0\2", 8);
	cr_assert(xdr_dec_u32(&in, &v));
	cr_assert_not(xdr_dec_u64(&in, &w));
	cr_assert_eq(xdr_pos(&in), 4);
	cr_assert_not(xdr_dec_u32(&in, &v), "the word is there, but the cursor has failed");
	cr_assert_not(xdr_invalid(&in));
	cr_assert(xdr_is_truncated(&in), "the first error stays");
	cr_assert_not(xdr_is_done(&in));
}

Test(xdr, length_alone_leaves_the_cursor_on_the_payload)
{
	struct xdr in;
	struct xdr_bytes b;

	xdr_init(&in, "\0\0\1\0", 4);
	cr_assert(xdr_dec_bytes_len(&in, &b, 1024));
	cr_assert_eq(b.len, 256);
	cr_assert_null(b.ptr);
	cr_assert_eq(xdr_pos(&in), 4);
	cr_assert(xdr_ok(&in));
}

Test(xdr, encoded_padding_is_zero)
{
	uint8_t buf[64];
	struct xdr_out out;

	for (uint32_t len = 0; len < 9; len++) {
		memset(buf, 0xee, sizeof(buf));
		xdr_out_init(&out, buf, sizeof(buf));
		cr_assert(xdr_enc_bytes(&out, xdr_bytes_of("abcdefghi", len), 9));
		cr_assert_eq(xdr_out_pos(&out), 4 + xdr_padded(len));
		cr_assert_arr_eq(buf + 4 + len, "\0\0\0", xdr_pad(len));
		cr_assert_eq(buf[xdr_out_pos(&out)], 0xee, "nothing is written past the padding");
	}
}

Test(xdr, encoder_never_writes_past_its_capacity)
{
	struct guard g;
	struct xdr_out out;

	for (size_t room = 0; room < 16; room++) {
		xdr_out_init(&out, guard_bytes(&g, room), room);
		cr_assert_not(xdr_enc_u32(&out, 1) && xdr_enc_bytes(&out, xdr_bytes_str("hello"), 5));
		cr_assert_not(xdr_out_ok(&out));
		cr_assert_not(xdr_enc_bool(&out, true), "sticky");
		cr_assert_eq(xdr_out_room(&out), 0);
		guard_free(&g);
	}
	xdr_out_init(&out, guard_bytes(&g, 16), 16);
	cr_assert(xdr_enc_u32(&out, 1) && xdr_enc_bytes(&out, xdr_bytes_str("hello"), 5));
	cr_assert_eq(xdr_out_room(&out), 0);
	guard_free(&g);
}

Test(xdr, encoding_more_than_max_fails)
{
	uint8_t buf[64];
	struct xdr_out out;

	xdr_out_init(&out, buf, sizeof(buf));
	cr_assert_not(xdr_enc_bytes(&out, xdr_bytes_str("hello"), 4));
	cr_assert_not(xdr_out_ok(&out));
}

Test(xdr, rewind_forgets_what_followed_and_patch_fills_in)
{
	uint8_t buf[8];
	struct xdr_out out;
	size_t mark;

	xdr_out_init(&out, buf, sizeof(buf));
	mark = xdr_out_pos(&out);
	cr_assert(xdr_enc_u32(&out, 0));
	cr_assert_not(xdr_enc_u64(&out, 7));
	xdr_out_rewind(&out, 4);
	cr_assert(xdr_enc_u32(&out, 9), "the failure went with what failed");
	xdr_out_patch32(&out, mark, 0x01020304);
	cr_assert_arr_eq(buf, "\1\2\3\4\0\0\0\11", 8);
	xdr_out_patch32(&out, 5, 0xffffffff);
	cr_assert_arr_eq(buf, "\1\2\3\4\0\0\0\11", 8, "a patch that reaches past what is written does nothing");
}

Test(xdr, fixed_opaque_pads_both_ways)
{
	uint8_t buf[8], back[5];
	struct xdr_out out;
	struct xdr in;

	memset(buf, 0xee, sizeof(buf));
	xdr_out_init(&out, buf, sizeof(buf));
	cr_assert(xdr_enc_fixed(&out, "abcde", 5));
	cr_assert_arr_eq(buf, "abcde\0\0\0", 8);
	xdr_init(&in, buf, sizeof(buf));
	cr_assert(xdr_dec_fixed(&in, back, 5) && xdr_is_done(&in));
	cr_assert_arr_eq(back, "abcde", 5);
}
