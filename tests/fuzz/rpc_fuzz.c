/*
 * tests/fuzz/rpc_fuzz.c - RPC headers: the input as a call, with its AUTH_SYS credential, and as a reply. What decodes encodes to the same length and
 * decodes to the same again.
 */
#include <string.h>

#include "proto/rpc.h"
#include "tests/fuzz/fuzz.h"

static uint8_t first[4096], second[4096];

static void try_authsys(struct xdr_bytes body)
{
	struct authsys_parms p;
	struct xdr_out out;

	if (rpc_dec_authsys(body, &p) != AUTH_OK)
		return;
	must(p.gids_len <= AUTH_SYS_GIDS_MAX && p.machinename.len <= AUTH_SYS_MACHINENAME_MAX, "AUTH_SYS within its limits");
	xdr_out_init(&out, first, sizeof(first));
	must(rpc_enc_authsys(&out, &p) && xdr_out_pos(&out) == body.len, "AUTH_SYS encodes to the length it had");
}

static void try_call(const uint8_t *data, size_t size)
{
	struct call_body c;
	struct xdr_out out;
	struct xdr x;

	xdr_init(&x, data, size);
	if (rpc_dec_call(&x, &c) != RPC_CALL_OK)
		return;
	must(xdr_pos(&x) <= RPC_CALL_HEADER_MAX, "no call header is longer than the longest");
	xdr_out_init(&out, first, sizeof(first));
	must(rpc_enc_call(&out, &c) && xdr_out_pos(&out) == xdr_pos(&x), "a call encodes to the length it had");
	try_authsys(c.cred.body);
}

static void try_reply(const uint8_t *data, size_t size)
{
	struct reply_body r;
	struct xdr_out a, b;
	struct xdr x;

	xdr_init(&x, data, size);
	if (!rpc_dec_reply(&x, &r))
		return;
	xdr_out_init(&a, first, sizeof(first));
	must(rpc_enc_reply(&a, &r) && xdr_out_pos(&a) == xdr_pos(&x), "a reply encodes to the length it had");
	xdr_init(&x, first, xdr_out_pos(&a));
	must(rpc_dec_reply(&x, &r) && xdr_is_done(&x), "an encoded reply decodes");
	xdr_out_init(&b, second, sizeof(second));
	must(rpc_enc_reply(&b, &r) && memcmp(first, second, xdr_out_pos(&a)) == 0, "and says the same");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint32_t xid, mtype;
	struct xdr x;

	xdr_init(&x, data, size);
	must(rpc_peek(&x, &xid, &mtype) == (size >= 8) && xdr_pos(&x) == 0, "peek needs eight bytes and moves nothing");
	try_call(data, size);
	try_reply(data, size);
	try_authsys(xdr_bytes_of(data, (uint32_t)size));
	return 0;
}
