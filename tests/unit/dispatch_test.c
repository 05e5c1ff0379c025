/* tests/unit/dispatch_test.c - server/dispatch.c: every reject and accept status of RFC 5531, through a connection. */
#include <criterion/criterion.h>
#include <unistd.h>

#include "proto/record.h"
#include "tests/unit/server_harness.h"

static uint8_t mem[65536];
static int fd;

static void begin(void)
{
	harness_init();
	harness_config.reactors = 1;
	harness_begin();
	fd = client_connect();
}

static void end(void)
{
	close(fd);
	harness_end();
}

TestSuite(dispatch, .init = begin, .fini = end, .timeout = 60);

static struct reply_body ask(const struct call_body *c, const void *args, size_t args_len)
{
	struct reply_body r;
	struct xdr_out out;
	struct xdr x;
	xdr_out_init(&out, mem + RECORD_MARK_BYTES, sizeof(mem) - RECORD_MARK_BYTES);
	cr_assert(rpc_enc_call(&out, c));
	if (args_len > 0)
		memcpy(xdr_out_reserve(&out, args_len), args, args_len);
	record_mark_encode(mem, (uint32_t)xdr_out_pos(&out));
	client_send(fd, mem, RECORD_MARK_BYTES + xdr_out_pos(&out));
	size_t len = reply_read(fd, mem, sizeof(mem));
	cr_assert_gt(len, 0, "connection closed");
	xdr_init(&x, mem, len);
	cr_assert(rpc_dec_reply(&x, &r));
	cr_assert_eq(r.xid, c->xid);
	cr_assert(r.stat == MSG_DENIED || r.accept != SUCCESS ? xdr_is_done(&x) : true, "nothing follows a reject");
	return r;
}

static struct call_body null_call(void)
{
	return (struct call_body){ .xid = 77, .rpcvers = RPC_VERSION, .prog = TEST_PROGRAM, .vers = TEST_V2, .proc = TEST_NULL };
}

static void expect_auth_error(const struct call_body *c, enum auth_stat why)
{
	struct reply_body r = ask(c, NULL, 0);
	cr_assert_eq(r.stat, MSG_DENIED);
	cr_assert_eq(r.reject, AUTH_ERROR);
	cr_assert_eq(r.why, why);
}

Test(dispatch, rpc_mismatch)
{
	struct call_body c = null_call();
	c.rpcvers = 3;
	struct reply_body r = ask(&c, NULL, 0);
	cr_assert_eq(r.stat, MSG_DENIED);
	cr_assert_eq(r.reject, RPC_MISMATCH);
	cr_assert_eq(r.mismatch.low, 2);
	cr_assert_eq(r.mismatch.high, 2);
}

Test(dispatch, program_unavailable)
{
	struct call_body c = null_call();
	c.prog++;
	cr_assert_eq(ask(&c, NULL, 0).accept, PROG_UNAVAIL);
}

/* Below, between and above the versions that there are. */
Test(dispatch, program_mismatch)
{
	static const uint32_t versions[] = { 0, 1, 3, 5, UINT32_MAX };
	struct call_body c = null_call();
	for (unsigned i = 0; i < ARRAY_SIZE(versions); i++) {
		c.vers = versions[i];
		struct reply_body r = ask(&c, NULL, 0);
		cr_assert_eq(r.accept, PROG_MISMATCH);
		cr_assert_eq(r.mismatch.low, TEST_V2);
		cr_assert_eq(r.mismatch.high, TEST_V4);
	}
	c.vers = TEST_V4;
	cr_assert_eq(ask(&c, NULL, 0).accept, SUCCESS);
}

Test(dispatch, procedure_unavailable)
{
	struct call_body c = null_call();
	c.proc = TEST_PROCEDURES;
	cr_assert_eq(ask(&c, NULL, 0).accept, PROC_UNAVAIL);
	c.proc = UINT32_MAX;
	cr_assert_eq(ask(&c, NULL, 0).accept, PROC_UNAVAIL);
	c.proc = TEST_BIG;
	c.vers = TEST_V4;
	cr_assert_eq(ask(&c, NULL, 0).accept, PROC_UNAVAIL);
}

Test(dispatch, garbage_args)
{
	struct call_body c = null_call();
	c.proc = TEST_BIG;
	cr_assert_eq(ask(&c, "\0\0", 2).accept, GARBAGE_ARGS);
	c.proc = TEST_PUT; /* a payload that is shorter than it says */
	cr_assert_eq(ask(&c, "\0\0\0\0\0\0\0\0\0\0\0\x10" "abcd", 16).accept, GARBAGE_ARGS);
	cr_assert_eq(ask(&c, "\0\0\0\0\0\0\0\0\xff\xff\xff\xff" "abcd", 16).accept, GARBAGE_ARGS);
}

Test(dispatch, auth_flavors)
{
	struct call_body c = null_call();
	c.cred.flavor = AUTH_SHORT;
	expect_auth_error(&c, AUTH_REJECTEDCRED);
	c.cred.flavor = RPCSEC_GSS;
	expect_auth_error(&c, AUTH_REJECTEDCRED);
	c.cred.flavor = 390000;
	expect_auth_error(&c, AUTH_REJECTEDCRED);
}

static struct call_body sys_call(uint32_t groups, uint8_t *body)
{
	struct authsys_parms p = { .machinename = xdr_bytes_str("client"), .uid = 1, .gid = 2, .gids_len = groups < 16 ? groups : 16 };
	struct call_body c = null_call();
	struct xdr_out x;
	xdr_out_init(&x, body, RPC_AUTH_BODY_MAX);
	cr_assert(rpc_enc_authsys(&x, &p));
	size_t len = xdr_out_pos(&x);
	if (groups > 16) { /* what no encoder of ours makes */
		xdr_store32(body + len - 17 * 4, groups);
		memset(body + len, 0, (groups - 16) * 4);
		len += (groups - 16) * 4;
	}
	c.cred = (struct opaque_auth){ AUTH_SYS, xdr_bytes_of(body, (uint32_t)len) };
	return c;
}

Test(dispatch, auth_sys)
{
	uint8_t body[RPC_AUTH_BODY_MAX];
	struct call_body c = sys_call(0, body);
	cr_assert_eq(ask(&c, NULL, 0).accept, SUCCESS);
	c = sys_call(16, body);
	cr_assert_eq(ask(&c, NULL, 0).accept, SUCCESS);
	c = sys_call(17, body);
	expect_auth_error(&c, AUTH_BADCRED);
	for (uint32_t cut = 0; cut < 40; cut += 4) {
		c = sys_call(3, body);
		c.cred.body.len = cut;
		expect_auth_error(&c, AUTH_BADCRED);
	}
}

/* A credential longer than the RFC allows, which no encoder of ours makes. */
Test(dispatch, auth_too_long)
{
	struct call_body c = null_call();
	struct reply_body r;
	struct xdr_out out;
	struct xdr x;
	xdr_out_init(&out, mem + RECORD_MARK_BYTES, sizeof(mem) - RECORD_MARK_BYTES);
	cr_assert(rpc_enc_call(&out, &c));
	size_t len = xdr_out_pos(&out);
	xdr_store32(mem + RECORD_MARK_BYTES + 7 * 4, 404);
	memset(mem + RECORD_MARK_BYTES + len, 0, 404);
	record_mark_encode(mem, (uint32_t)len + 404);
	client_send(fd, mem, RECORD_MARK_BYTES + len + 404);
	xdr_init(&x, mem, reply_read(fd, mem, sizeof(mem)));
	cr_assert(rpc_dec_reply(&x, &r));
	cr_assert_eq(r.stat, MSG_DENIED);
	cr_assert_eq(r.why, AUTH_BADCRED);
}
