/*
 * tests/unit/rpc_cross_test.c - RPC headers and AUTH_SYS against libtirpc's codecs, on generated values, in both directions.
 */
#include <criterion/criterion.h>

#include "proto/rpc.h"
#include "tests/unit/rpc_cross_peer.h"

static uint64_t seed;
static uint8_t mine[2048], theirs[2048];

static uint32_t rnd(void)
{
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(seed >> 32);
}

static struct peer_auth random_auth(void)
{
	struct peer_auth a = { .flavor = rnd() % 8, .len = rnd() % 401 };

	for (uint32_t i = 0; i < a.len; i++)
		a.body[i] = (uint8_t)rnd();
	return a;
}

static struct opaque_auth to_ours(const struct peer_auth *a) { return (struct opaque_auth){ a->flavor, xdr_bytes_of(a->body, a->len) }; }

static void expect_auth(const struct opaque_auth *a, const struct peer_auth *b)
{
	cr_assert_eq(a->flavor, b->flavor);
	cr_assert(xdr_bytes_eq(a->body, xdr_bytes_of(b->body, b->len)));
}

static size_t encode_call(const struct peer_call *p)
{
	struct call_body c = { p->words[0], p->words[1], p->words[2], p->words[3], p->words[4], to_ours(&p->cred), to_ours(&p->verf) };
	struct xdr_out out;

	xdr_out_init(&out, mine, sizeof(mine));
	cr_assert(rpc_enc_call(&out, &c));
	return xdr_out_pos(&out);
}

Test(rpc_cross, libtirpc_agrees_on_calls)
{
	for (int i = 0; i < 500; i++) {
		struct peer_call p = { .words = { rnd(), 2, rnd(), rnd(), rnd() }, .cred = random_auth(), .verf = random_auth() };
		struct peer_call back = { 0 };
		size_t len = encode_call(&p);
		struct call_body c;
		struct xdr in;

		cr_assert_eq(peer_encode_call(&p, theirs, sizeof(theirs)), len);
		cr_assert_arr_eq(mine, theirs, len);
		cr_assert(peer_decode_call(mine, len, &back));
		cr_assert_arr_eq(back.words, p.words, sizeof(p.words));
		xdr_init(&in, theirs, len);
		cr_assert_eq(rpc_dec_call(&in, &c), RPC_CALL_OK);
		cr_assert(xdr_is_done(&in));
		cr_assert_eq(c.xid, p.words[0]);
		cr_assert_eq(c.prog, p.words[2]);
		cr_assert_eq(c.vers, p.words[3]);
		cr_assert_eq(c.proc, p.words[4]);
		expect_auth(&c.cred, &back.cred);
		expect_auth(&c.verf, &back.verf);
	}
}

static struct peer_reply random_reply(void)
{
	struct peer_reply p = { .words = { rnd(), rnd() % 2 } };
	bool versions;

	p.words[2] = p.words[1] == MSG_ACCEPTED ? rnd() % 6 : rnd() % 2;
	versions = p.words[1] == MSG_ACCEPTED ? p.words[2] == PROG_MISMATCH : p.words[2] == RPC_MISMATCH;
	p.words[3] = versions ? rnd() : p.words[1] == MSG_DENIED ? rnd() % 8 : 0;
	p.words[4] = versions ? rnd() : 0;
	if (p.words[1] == MSG_ACCEPTED)
		p.verf = random_auth();
	return p;
}

static size_t encode_reply(const struct peer_reply *p)
{
	struct reply_body r = { .xid = p->words[0], .stat = p->words[1], .accept = p->words[2], .reject = p->words[2], .why = p->words[3] };
	struct xdr_out out;

	r.mismatch = (struct mismatch_info){ p->words[3], p->words[4] };
	r.verf = to_ours(&p->verf);
	xdr_out_init(&out, mine, sizeof(mine));
	cr_assert(rpc_enc_reply(&out, &r));
	return xdr_out_pos(&out);
}

Test(rpc_cross, libtirpc_agrees_on_replies)
{
	for (int i = 0; i < 1000; i++) {
		struct peer_reply p = random_reply(), back;
		size_t len = encode_reply(&p);
		struct reply_body r;
		struct xdr in;

		cr_assert_eq(peer_encode_reply(&p, theirs, sizeof(theirs)), len);
		cr_assert_arr_eq(mine, theirs, len);
		cr_assert(peer_decode_reply(mine, len, &back));
		cr_assert_arr_eq(back.words, p.words, sizeof(p.words));
		xdr_init(&in, theirs, len);
		cr_assert(rpc_dec_reply(&in, &r) && xdr_is_done(&in));
		expect_auth(&r.verf, &back.verf);
		cr_assert_eq(r.stat == MSG_ACCEPTED ? (uint32_t)r.accept : (uint32_t)r.reject, p.words[2]);
	}
}

static struct peer_authsys random_authsys(void)
{
	struct peer_authsys p = { rnd(), rnd(), rnd(), rnd() % 17, { 0 }, "" };
	uint32_t len = rnd() % 256;

	for (uint32_t i = 0; i < p.gids_len; i++)
		p.gids[i] = rnd();
	for (uint32_t i = 0; i < len; i++)
		p.machinename[i] = (char)(1 + rnd() % 255);
	return p;
}

Test(rpc_cross, libtirpc_agrees_on_authsys)
{
	for (int i = 0; i < 500; i++) {
		struct peer_authsys p = random_authsys(), back;
		struct authsys_parms ours = { p.stamp, xdr_bytes_str(p.machinename), p.uid, p.gid, p.gids_len, { 0 } }, dec;
		struct xdr_out out;
		uint32_t len;

		memcpy(ours.gids, p.gids, sizeof(p.gids));
		xdr_out_init(&out, mine, sizeof(mine));
		cr_assert(rpc_enc_authsys(&out, &ours));
		len = (uint32_t)xdr_out_pos(&out);
		cr_assert_eq(peer_encode_authsys(&p, theirs, sizeof(theirs)), len);
		cr_assert_arr_eq(mine, theirs, len);
		cr_assert(peer_decode_authsys(mine, len, &back));
		cr_assert_eq(back.stamp, p.stamp);
		cr_assert_eq(back.uid, p.uid);
		cr_assert_eq(back.gid, p.gid);
		cr_assert_eq(back.gids_len, p.gids_len);
		cr_assert_str_eq(back.machinename, p.machinename);
		cr_assert_arr_eq(back.gids, p.gids, sizeof(p.gids));
		cr_assert_eq(rpc_dec_authsys(xdr_bytes_of(theirs, len), &dec), AUTH_OK);
		cr_assert(xdr_bytes_eq(dec.machinename, ours.machinename));
		cr_assert_arr_eq(dec.gids, p.gids, p.gids_len * sizeof(p.gids[0]));
		cr_assert_eq(dec.uid, p.uid);
		cr_assert_eq(dec.gid, p.gid);
	}
}
