/*
 * tests/unit/rpc_test.c - RPC headers: every call status, every reply, AUTH_SYS at its bounds, every truncation.
 */
#include <criterion/criterion.h>

#include "proto/rpc.h"
#include "tests/unit/guard.h"

static const struct authsys_parms parms = { .stamp = 7, .machinename = { (const uint8_t *)"client.example", 14 }, .uid = 1000, .gid = 100, .gids_len = 3,
	.gids = { 4, 24, 27 } };

/* A call of AUTH_SYS with parms; returns its length. body holds the credential. */
static size_t make_call(uint8_t *buf, size_t cap, uint8_t *body, uint32_t body_cap)
{
	struct xdr_out cred, out;
	struct call_body c = { .xid = 0xfeedbeef, .rpcvers = 2, .prog = 100003, .vers = 3, .proc = 1 };

	xdr_out_init(&cred, body, body_cap);
	cr_assert(rpc_enc_authsys(&cred, &parms));
	c.cred = (struct opaque_auth){ AUTH_SYS, xdr_bytes_of(body, (uint32_t)xdr_out_pos(&cred)) };
	xdr_out_init(&out, buf, cap);
	cr_assert(rpc_enc_call(&out, &c));
	return xdr_out_pos(&out);
}

Test(rpc, call_round_trip)
{
	uint8_t buf[256], body[128];
	size_t len = make_call(buf, sizeof(buf), body, sizeof(body));
	struct call_body c;
	struct authsys_parms p;
	struct xdr in;

	xdr_init(&in, buf, len);
	cr_assert_eq(rpc_dec_call(&in, &c), RPC_CALL_OK);
	cr_assert(xdr_is_done(&in));
	cr_assert_eq(c.xid, 0xfeedbeef);
	cr_assert_eq(c.prog, 100003);
	cr_assert_eq(c.vers, 3);
	cr_assert_eq(c.proc, 1);
	cr_assert_eq(c.cred.flavor, AUTH_SYS);
	cr_assert_eq(c.verf.flavor, AUTH_NONE);
	cr_assert_eq(rpc_dec_authsys(c.cred.body, &p), AUTH_OK);
	cr_assert_eq(p.stamp, 7);
	cr_assert(xdr_bytes_eq(p.machinename, parms.machinename));
	cr_assert_eq(p.uid, 1000);
	cr_assert_eq(p.gid, 100);
	cr_assert_eq(p.gids_len, 3);
	cr_assert_arr_eq(p.gids, parms.gids, 3 * sizeof(p.gids[0]));
}

Test(rpc, every_truncation_of_a_call_asks_for_more)
{
	uint8_t buf[256], body[128];
	size_t len = make_call(buf, sizeof(buf), body, sizeof(body));
	struct call_body c;
	struct xdr in;

	for (size_t cut = 0; cut < len; cut++) {
		struct guard g;

		xdr_init(&in, guard_copy(&g, buf, cut), cut);
		cr_assert_eq(rpc_dec_call(&in, &c), RPC_CALL_TRUNCATED);
		guard_free(&g);
	}
}

Test(rpc, peek_does_not_move)
{
	uint32_t xid, mtype;
	struct xdr in;

	xdr_init(&in, "\0\0\0\11\0\0\0\1", 8);
	cr_assert(rpc_peek(&in, &xid, &mtype));
	cr_assert_eq(xid, 9);
	cr_assert_eq(mtype, REPLY);
	cr_assert_eq(xdr_pos(&in), 0);
	xdr_init(&in, "\0\0\0\11\0\0\0", 7);
	cr_assert_not(rpc_peek(&in, &xid, &mtype));
	cr_assert(xdr_ok(&in));
}

Test(rpc, a_reply_is_no_call)
{
	struct call_body c;
	struct xdr in;

	xdr_init(&in, "\0\0\0\11\0\0\0\1\0\0\0\0", 12);
	cr_assert_eq(rpc_dec_call(&in, &c), RPC_CALL_NOT_CALL);
	cr_assert_eq(c.xid, 9);
}

/* What another version puts after its number is unknown: the answer must not depend on it. */
Test(rpc, other_rpc_versions_are_mismatches_whatever_follows)
{
	struct call_body c;
	struct xdr in;

	xdr_init(&in, "\0\0\0\11\0\0\0\0\0\0\0\3", 12);
	cr_assert_eq(rpc_dec_call(&in, &c), RPC_CALL_MISMATCH);
	cr_assert_eq(c.xid, 9);
	cr_assert_eq(c.rpcvers, 3);
}

static enum rpc_call_status decode_with_auth_lengths(uint32_t cred, uint32_t verf)
{
	uint8_t buf[1024] = { 0 };
	struct call_body c;
	struct xdr_out out;
	struct xdr in;

	xdr_out_init(&out, buf, sizeof(buf));
	for (int i = 0; i < 6; i++)
		cr_assert(xdr_enc_u32(&out, i == 2 ? 2 : 0));
	cr_assert(xdr_enc_u32(&out, AUTH_NONE) && xdr_enc_u32(&out, cred) && xdr_out_reserve(&out, (size_t)xdr_padded(cred)));
	cr_assert(xdr_enc_u32(&out, AUTH_NONE) && xdr_enc_u32(&out, verf) && xdr_out_reserve(&out, (size_t)xdr_padded(verf)));
	xdr_init(&in, buf, xdr_out_pos(&out));
	return rpc_dec_call(&in, &c);
}

Test(rpc, auth_bodies_are_bounded_by_400_bytes)
{
	cr_assert_eq(decode_with_auth_lengths(400, 400), RPC_CALL_OK);
	cr_assert_eq(decode_with_auth_lengths(401, 0), RPC_CALL_BADCRED);
	cr_assert_eq(decode_with_auth_lengths(0, 401), RPC_CALL_BADVERF);
	cr_assert_eq(decode_with_auth_lengths(400, 404), RPC_CALL_BADVERF);
}

/* An authsys_parms with any length words, at a guard page. */
static enum auth_stat decode_authsys(uint32_t name_len, uint32_t gids_len, uint32_t gids_sent, uint32_t extra)
{
	uint8_t buf[1024] = { 0 };
	struct authsys_parms p;
	struct xdr_out out;
	struct guard g;
	enum auth_stat stat;

	xdr_out_init(&out, buf, sizeof(buf));
	cr_assert(xdr_enc_u32(&out, 1) && xdr_enc_u32(&out, name_len) && xdr_out_reserve(&out, (size_t)xdr_padded(name_len)));
	cr_assert(xdr_enc_u32(&out, 2) && xdr_enc_u32(&out, 3) && xdr_enc_u32(&out, gids_len));
	cr_assert(xdr_out_reserve(&out, 4 * gids_sent + extra));
	stat = rpc_dec_authsys(xdr_bytes_of(guard_copy(&g, buf, xdr_out_pos(&out)), (uint32_t)xdr_out_pos(&out)), &p);
	guard_free(&g);
	return stat;
}

Test(rpc, authsys_takes_16_gids_and_no_more)
{
	cr_assert_eq(decode_authsys(3, 0, 0, 0), AUTH_OK);
	cr_assert_eq(decode_authsys(3, 16, 16, 0), AUTH_OK);
	cr_assert_eq(decode_authsys(3, 17, 17, 0), AUTH_BADCRED);
	cr_assert_eq(decode_authsys(3, 17, 16, 0), AUTH_BADCRED);
	cr_assert_eq(decode_authsys(3, 16, 15, 0), AUTH_BADCRED);
	cr_assert_eq(decode_authsys(3, UINT32_MAX, 16, 0), AUTH_BADCRED);
	cr_assert_eq(decode_authsys(3, 0x40000001, 1, 0), AUTH_BADCRED);
}

Test(rpc, authsys_machinename_is_bounded_by_255_bytes)
{
	cr_assert_eq(decode_authsys(0, 1, 1, 0), AUTH_OK);
	cr_assert_eq(decode_authsys(255, 1, 1, 0), AUTH_OK);
	cr_assert_eq(decode_authsys(256, 1, 1, 0), AUTH_BADCRED);
}

Test(rpc, authsys_must_fill_its_body)
{
	cr_assert_eq(decode_authsys(3, 1, 1, 4), AUTH_BADCRED);
	cr_assert_eq(decode_authsys(3, 1, 1, 1), AUTH_BADCRED);
}

Test(rpc, every_truncation_of_authsys_is_badcred)
{
	uint8_t body[128];
	struct xdr_out out;
	struct authsys_parms p;

	xdr_out_init(&out, body, sizeof(body));
	cr_assert(rpc_enc_authsys(&out, &parms));
	for (uint32_t cut = 0; cut < xdr_out_pos(&out); cut++) {
		struct guard g;

		cr_assert_eq(rpc_dec_authsys(xdr_bytes_of(guard_copy(&g, body, cut), cut), &p), AUTH_BADCRED);
		guard_free(&g);
	}
	cr_assert_eq(rpc_dec_authsys((struct xdr_bytes){ 0 }, &p), AUTH_BADCRED);
}

static void expect_words(const struct xdr_out *out, const uint32_t *words, size_t n)
{
	cr_assert_eq(xdr_out_pos(out), 4 * n);
	for (size_t i = 0; i < n; i++)
		cr_assert_eq(xdr_load32(out->base + 4 * i), words[i], "word %zu", i);
}

#define EXPECT(out, ...) expect_words(out, (const uint32_t[]){ __VA_ARGS__ }, sizeof((const uint32_t[]){ __VA_ARGS__ }) / 4)

Test(rpc, accepted_replies_word_by_word)
{
	static const enum accept_stat stats[] = { SUCCESS, PROG_UNAVAIL, PROC_UNAVAIL, GARBAGE_ARGS, SYSTEM_ERR };
	static const uint32_t numbers[] = { 0, 1, 3, 4, 5 };
	uint8_t buf[64];
	struct xdr_out out;

	for (size_t i = 0; i < 5; i++) {
		xdr_out_init(&out, buf, sizeof(buf));
		cr_assert(rpc_enc_accepted(&out, 9, stats[i]));
		EXPECT(&out, 9, 1, 0, 0, 0, numbers[i]);
		cr_assert_eq(xdr_out_pos(&out), RPC_ACCEPTED_HEADER_BYTES);
	}
	xdr_out_init(&out, buf, sizeof(buf));
	cr_assert(rpc_enc_prog_mismatch(&out, 9, (struct mismatch_info){ 3, 4 }));
	EXPECT(&out, 9, 1, 0, 0, 0, 2, 3, 4);
}

Test(rpc, denied_replies_word_by_word)
{
	uint8_t buf[64];
	struct xdr_out out;

	xdr_out_init(&out, buf, sizeof(buf));
	cr_assert(rpc_enc_rpc_mismatch(&out, 9));
	EXPECT(&out, 9, 1, 1, 0, 2, 2);
	xdr_out_init(&out, buf, sizeof(buf));
	cr_assert(rpc_enc_auth_error(&out, 9, AUTH_TOOWEAK));
	EXPECT(&out, 9, 1, 1, 1, 5);
}

static const struct reply_body replies[] = {
	{ .xid = 1, .stat = MSG_ACCEPTED, .accept = SUCCESS },
	{ .xid = 2, .stat = MSG_ACCEPTED, .accept = SUCCESS, .verf = { RPCSEC_GSS, { (const uint8_t *)"verifier", 8 } } },
	{ .xid = 3, .stat = MSG_ACCEPTED, .accept = PROG_MISMATCH, .mismatch = { 3, 4 } },
	{ .xid = 4, .stat = MSG_ACCEPTED, .accept = SYSTEM_ERR },
	{ .xid = 5, .stat = MSG_DENIED, .reject = RPC_MISMATCH, .mismatch = { 2, 2 } },
	{ .xid = 6, .stat = MSG_DENIED, .reject = AUTH_ERROR, .why = RPCSEC_GSS_CTXPROBLEM },
};

static void expect_same_reply(const struct reply_body *a, const struct reply_body *b)
{
	cr_assert_eq(a->xid, b->xid);
	cr_assert_eq(a->stat, b->stat);
	cr_assert_eq(a->verf.flavor, b->verf.flavor);
	cr_assert(xdr_bytes_eq(a->verf.body, b->verf.body));
	cr_assert_eq(a->accept, b->accept);
	cr_assert_eq(a->reject, b->reject);
	cr_assert_eq(a->why, b->why);
	cr_assert_eq(a->mismatch.low, b->mismatch.low);
	cr_assert_eq(a->mismatch.high, b->mismatch.high);
}

Test(rpc, replies_round_trip_and_no_prefix_decodes)
{
	for (size_t i = 0; i < sizeof(replies) / sizeof(replies[0]); i++) {
		uint8_t buf[64];
		struct reply_body back;
		struct xdr_out out;
		struct xdr in;

		xdr_out_init(&out, buf, sizeof(buf));
		cr_assert(rpc_enc_reply(&out, &replies[i]));
		xdr_init(&in, buf, xdr_out_pos(&out));
		cr_assert(rpc_dec_reply(&in, &back) && xdr_is_done(&in));
		expect_same_reply(&back, &replies[i]);
		for (size_t cut = 0; cut < xdr_out_pos(&out); cut++) {
			struct guard g;

			xdr_init(&in, guard_copy(&g, buf, cut), cut);
			cr_assert_not(rpc_dec_reply(&in, &back));
			cr_assert(xdr_is_truncated(&in));
			guard_free(&g);
		}
	}
}

Test(rpc, replies_outside_the_lists_are_invalid)
{
	static const struct {
		const char *bytes;
		size_t len;
	} bad[] = {
		{ "\0\0\0\1\0\0\0\0\0\0\0\0", 12 },                                     /* a CALL */
		{ "\0\0\0\1\0\0\0\1\0\0\0\2", 12 },                                     /* reply_stat 2 */
		{ "\0\0\0\1\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\6", 24 },             /* accept_stat 6 */
		{ "\0\0\0\1\0\0\0\1\0\0\0\1\0\0\0\2", 16 },                             /* reject_stat 2 */
		{ "\0\0\0\1\0\0\0\1\0\0\0\1\0\0\0\1\0\0\0\17", 20 },                    /* auth_stat 15 */
		{ "\0\0\0\1\0\0\0\1\0\0\0\0\0\0\0\0\0\0\1\221", 20 },                   /* a verifier of 401 bytes */
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct reply_body r;
		struct xdr in;

		xdr_init(&in, bad[i].bytes, bad[i].len);
		cr_assert_not(rpc_dec_reply(&in, &r));
		cr_assert_eq(in.error, XDR_INVALID, "case %zu", i);
	}
}
