/*
 * proto/rpc.c - RPC message headers (RFC 5531 sections 8 and 9, appendix A).
 */
#include "proto/rpc.h"

#include <assert.h>

static_assert(RPC_CALL_HEADER_MAX == 840, "xid to proc, then two opaque_auth of 408 bytes");
static_assert(RPC_AUTH_BODY_MAX % XDR_UNIT == 0, "the longest body has no padding");

/* A too long body is told apart from a missing one: the first is answered, the second is waited for. */
static bool dec_opaque_auth(struct xdr *x, struct opaque_auth *a)
{
	return xdr_dec_u32(x, &a->flavor) && xdr_dec_bytes(x, &a->body, RPC_AUTH_BODY_MAX);
}

static bool enc_opaque_auth(struct xdr_out *x, const struct opaque_auth *a)
{
	return xdr_enc_u32(x, a->flavor) && xdr_enc_bytes(x, a->body, RPC_AUTH_BODY_MAX);
}

bool rpc_peek(const struct xdr *x, uint32_t *xid, uint32_t *mtype)
{
	struct xdr copy = *x;

	return xdr_dec_u32(&copy, xid) && xdr_dec_u32(&copy, mtype);
}

enum rpc_call_status rpc_dec_call(struct xdr *x, struct call_body *c)
{
	uint32_t mtype;

	*c = (struct call_body){ 0 };
	if (!xdr_dec_u32(x, &c->xid) || !xdr_dec_u32(x, &mtype))
		return RPC_CALL_TRUNCATED;
	if (mtype != CALL)
		return RPC_CALL_NOT_CALL;
	if (!xdr_dec_u32(x, &c->rpcvers))
		return RPC_CALL_TRUNCATED;
	/* What follows another version's number is not ours to parse. */
	if (c->rpcvers != RPC_VERSION)
		return RPC_CALL_MISMATCH;
	if (!(xdr_dec_u32(x, &c->prog) && xdr_dec_u32(x, &c->vers) && xdr_dec_u32(x, &c->proc)))
		return RPC_CALL_TRUNCATED;
	if (!dec_opaque_auth(x, &c->cred))
		return xdr_is_truncated(x) ? RPC_CALL_TRUNCATED : RPC_CALL_BADCRED;
	if (!dec_opaque_auth(x, &c->verf))
		return xdr_is_truncated(x) ? RPC_CALL_TRUNCATED : RPC_CALL_BADVERF;
	return RPC_CALL_OK;
}

static bool dec_gids(struct xdr *x, struct authsys_parms *p)
{
	bool ok = xdr_dec_range(x, &p->gids_len, 0, AUTH_SYS_GIDS_MAX);

	for (uint32_t i = 0; ok && i < p->gids_len; i++)
		ok = xdr_dec_u32(x, &p->gids[i]);
	return ok;
}

enum auth_stat rpc_dec_authsys(struct xdr_bytes body, struct authsys_parms *p)
{
	struct xdr x;

	xdr_init(&x, body.ptr, body.len);
	if (!(xdr_dec_u32(&x, &p->stamp) && xdr_dec_bytes(&x, &p->machinename, AUTH_SYS_MACHINENAME_MAX) && xdr_dec_u32(&x, &p->uid) &&
		xdr_dec_u32(&x, &p->gid) && dec_gids(&x, p)))
		return AUTH_BADCRED;
	return xdr_is_done(&x) ? AUTH_OK : AUTH_BADCRED;
}

static bool enc_mismatch(struct xdr_out *x, const struct mismatch_info *m) { return xdr_enc_u32(x, m->low) && xdr_enc_u32(x, m->high); }

static bool enc_accepted_reply(struct xdr_out *x, const struct reply_body *r)
{
	if (!(enc_opaque_auth(x, &r->verf) && xdr_enc_u32(x, r->accept)))
		return false;
	return r->accept != PROG_MISMATCH || enc_mismatch(x, &r->mismatch);
}

static bool enc_rejected_reply(struct xdr_out *x, const struct reply_body *r)
{
	if (!xdr_enc_u32(x, r->reject))
		return false;
	return r->reject == RPC_MISMATCH ? enc_mismatch(x, &r->mismatch) : xdr_enc_u32(x, r->why);
}

bool rpc_enc_reply(struct xdr_out *x, const struct reply_body *r)
{
	if (!(xdr_enc_u32(x, r->xid) && xdr_enc_u32(x, REPLY) && xdr_enc_u32(x, r->stat)))
		return false;
	return r->stat == MSG_ACCEPTED ? enc_accepted_reply(x, r) : enc_rejected_reply(x, r);
}

bool rpc_enc_accepted(struct xdr_out *x, uint32_t xid, enum accept_stat stat)
{
	return rpc_enc_reply(x, &(struct reply_body){ .xid = xid, .stat = MSG_ACCEPTED, .accept = stat });
}

bool rpc_enc_prog_mismatch(struct xdr_out *x, uint32_t xid, struct mismatch_info versions)
{
	return rpc_enc_reply(x, &(struct reply_body){ .xid = xid, .stat = MSG_ACCEPTED, .accept = PROG_MISMATCH, .mismatch = versions });
}

bool rpc_enc_rpc_mismatch(struct xdr_out *x, uint32_t xid)
{
	struct mismatch_info ours = { .low = RPC_VERSION, .high = RPC_VERSION };

	return rpc_enc_reply(x, &(struct reply_body){ .xid = xid, .stat = MSG_DENIED, .reject = RPC_MISMATCH, .mismatch = ours });
}

bool rpc_enc_auth_error(struct xdr_out *x, uint32_t xid, enum auth_stat why)
{
	return rpc_enc_reply(x, &(struct reply_body){ .xid = xid, .stat = MSG_DENIED, .reject = AUTH_ERROR, .why = why });
}

bool rpc_enc_call(struct xdr_out *x, const struct call_body *c)
{
	return xdr_enc_u32(x, c->xid) && xdr_enc_u32(x, CALL) && xdr_enc_u32(x, c->rpcvers) && xdr_enc_u32(x, c->prog) && xdr_enc_u32(x, c->vers) &&
		xdr_enc_u32(x, c->proc) && enc_opaque_auth(x, &c->cred) && enc_opaque_auth(x, &c->verf);
}

bool rpc_enc_authsys(struct xdr_out *x, const struct authsys_parms *p)
{
	bool ok = xdr_enc_u32(x, p->stamp) && xdr_enc_bytes(x, p->machinename, AUTH_SYS_MACHINENAME_MAX) && xdr_enc_u32(x, p->uid) &&
		xdr_enc_u32(x, p->gid) && xdr_enc_u32(x, p->gids_len);

	for (uint32_t i = 0; ok && i < p->gids_len; i++)
		ok = xdr_enc_u32(x, p->gids[i]);
	return ok;
}

static bool dec_mismatch(struct xdr *x, struct mismatch_info *m) { return xdr_dec_u32(x, &m->low) && xdr_dec_u32(x, &m->high); }

static bool dec_accepted_reply(struct xdr *x, struct reply_body *r)
{
	uint32_t accept;

	if (!(dec_opaque_auth(x, &r->verf) && xdr_dec_range(x, &accept, SUCCESS, SYSTEM_ERR)))
		return false;
	r->accept = accept;
	return r->accept != PROG_MISMATCH || dec_mismatch(x, &r->mismatch);
}

static bool dec_rejected_reply(struct xdr *x, struct reply_body *r)
{
	uint32_t reject, why;

	if (!xdr_dec_range(x, &reject, RPC_MISMATCH, AUTH_ERROR))
		return false;
	r->reject = reject;
	if (r->reject == RPC_MISMATCH)
		return dec_mismatch(x, &r->mismatch);
	if (!xdr_dec_range(x, &why, AUTH_OK, RPCSEC_GSS_CTXPROBLEM))
		return false;
	r->why = why;
	return true;
}

bool rpc_dec_reply(struct xdr *x, struct reply_body *r)
{
	uint32_t stat;

	*r = (struct reply_body){ 0 };
	if (!(xdr_dec_u32(x, &r->xid) && xdr_dec_range(x, &stat, REPLY, REPLY) && xdr_dec_range(x, &stat, MSG_ACCEPTED, MSG_DENIED)))
		return false;
	r->stat = stat;
	return r->stat == MSG_ACCEPTED ? dec_accepted_reply(x, r) : dec_rejected_reply(x, r);
}
