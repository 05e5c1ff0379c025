/*
 * tests/unit/rpc_cross_peer.c - the other side of rpc_cross_test: libtirpc. Knows nothing of proto/.
 */
#include "tests/unit/rpc_cross_peer.h"

#include <rpc/rpc.h>
#include <string.h>

static struct opaque_auth to_tirpc(const struct peer_auth *a)
{
	return (struct opaque_auth){ .oa_flavor = (enum_t)a->flavor, .oa_base = (char *)a->body, .oa_length = a->len };
}

static void from_tirpc(struct peer_auth *a, const struct opaque_auth *t)
{
	a->flavor = (uint32_t)t->oa_flavor;
	a->len = t->oa_length;
	if (a->len)
		memcpy(a->body, t->oa_base, a->len);
}

size_t peer_encode_call(const struct peer_call *c, uint8_t *out, size_t cap)
{
	struct rpc_msg m = { .rm_xid = c->words[0], .rm_direction = CALL };
	XDR x;

	/* libtirpc leaves the padding of credentials as it finds it. */
	memset(out, 0, cap);
	m.rm_call = (struct call_body){ c->words[1], c->words[2], c->words[3], c->words[4], to_tirpc(&c->cred), to_tirpc(&c->verf) };
	xdrmem_create(&x, (char *)out, (u_int)cap, XDR_ENCODE);
	return xdr_callmsg(&x, &m) ? xdr_getpos(&x) : 0;
}

bool peer_decode_call(const uint8_t *msg, size_t len, struct peer_call *c)
{
	char cred[MAX_AUTH_BYTES], verf[MAX_AUTH_BYTES];
	struct rpc_msg m = { 0 };
	XDR x;

	m.rm_call.cb_cred.oa_base = cred;
	m.rm_call.cb_verf.oa_base = verf;
	xdrmem_create(&x, (char *)msg, (u_int)len, XDR_DECODE);
	if (!xdr_callmsg(&x, &m) || xdr_getpos(&x) != len)
		return false;
	c->words[0] = m.rm_xid;
	c->words[1] = m.rm_call.cb_rpcvers;
	c->words[2] = m.rm_call.cb_prog;
	c->words[3] = m.rm_call.cb_vers;
	c->words[4] = m.rm_call.cb_proc;
	from_tirpc(&c->cred, &m.rm_call.cb_cred);
	from_tirpc(&c->verf, &m.rm_call.cb_verf);
	return true;
}

/* xdr_void() has another type than the pointer that takes it. */
static bool_t no_results(XDR *x, ...) { return TRUE; }

static void set_accepted(struct rpc_msg *m, const struct peer_reply *r)
{
	m->acpted_rply.ar_verf = to_tirpc(&r->verf);
	m->acpted_rply.ar_stat = r->words[2];
	m->acpted_rply.ar_vers.low = r->words[3];
	m->acpted_rply.ar_vers.high = r->words[4];
	if (r->words[2] == SUCCESS)
		m->acpted_rply.ar_results.proc = no_results;
}

static void set_rejected(struct rpc_msg *m, const struct peer_reply *r)
{
	m->rjcted_rply.rj_stat = r->words[2];
	if (r->words[2] == RPC_MISMATCH) {
		m->rjcted_rply.rj_vers.low = r->words[3];
		m->rjcted_rply.rj_vers.high = r->words[4];
	} else {
		m->rjcted_rply.rj_why = r->words[3];
	}
}

size_t peer_encode_reply(const struct peer_reply *r, uint8_t *out, size_t cap)
{
	struct rpc_msg m = { .rm_xid = r->words[0], .rm_direction = REPLY };
	XDR x;

	m.rm_reply.rp_stat = r->words[1];
	if (r->words[1] == MSG_ACCEPTED)
		set_accepted(&m, r);
	else
		set_rejected(&m, r);
	xdrmem_create(&x, (char *)out, (u_int)cap, XDR_ENCODE);
	return xdr_replymsg(&x, &m) ? xdr_getpos(&x) : 0;
}

static void get_accepted(struct peer_reply *r, const struct rpc_msg *m)
{
	from_tirpc(&r->verf, &m->acpted_rply.ar_verf);
	r->words[2] = m->acpted_rply.ar_stat;
	if (r->words[2] == PROG_MISMATCH) {
		r->words[3] = m->acpted_rply.ar_vers.low;
		r->words[4] = m->acpted_rply.ar_vers.high;
	}
}

static void get_rejected(struct peer_reply *r, const struct rpc_msg *m)
{
	r->words[2] = m->rjcted_rply.rj_stat;
	if (r->words[2] == RPC_MISMATCH) {
		r->words[3] = m->rjcted_rply.rj_vers.low;
		r->words[4] = m->rjcted_rply.rj_vers.high;
	} else {
		r->words[3] = m->rjcted_rply.rj_why;
	}
}

bool peer_decode_reply(const uint8_t *msg, size_t len, struct peer_reply *r)
{
	char verf[MAX_AUTH_BYTES];
	struct rpc_msg m = { 0 };
	XDR x;

	m.acpted_rply.ar_verf.oa_base = verf;
	m.acpted_rply.ar_results.proc = no_results;
	xdrmem_create(&x, (char *)msg, (u_int)len, XDR_DECODE);
	if (!xdr_replymsg(&x, &m) || xdr_getpos(&x) != len)
		return false;
	memset(r, 0, sizeof(*r));
	r->words[0] = m.rm_xid;
	r->words[1] = m.rm_reply.rp_stat;
	if (r->words[1] == MSG_ACCEPTED)
		get_accepted(r, &m);
	else
		get_rejected(r, &m);
	return true;
}

size_t peer_encode_authsys(const struct peer_authsys *p, uint8_t *out, size_t cap)
{
	struct authunix_parms a = { p->stamp, (char *)p->machinename, p->uid, p->gid, p->gids_len, (gid_t *)p->gids };
	XDR x;

	xdrmem_create(&x, (char *)out, (u_int)cap, XDR_ENCODE);
	return xdr_authunix_parms(&x, &a) ? xdr_getpos(&x) : 0;
}

bool peer_decode_authsys(const uint8_t *msg, size_t len, struct peer_authsys *p)
{
	struct authunix_parms a = { 0 };
	bool ok;
	XDR x;

	memset(p, 0, sizeof(*p));
	xdrmem_create(&x, (char *)msg, (u_int)len, XDR_DECODE);
	ok = xdr_authunix_parms(&x, &a) && xdr_getpos(&x) == len;
	if (ok) {
		p->stamp = (uint32_t)a.aup_time;
		p->uid = a.aup_uid;
		p->gid = a.aup_gid;
		p->gids_len = a.aup_len;
		if (a.aup_len)
			memcpy(p->gids, a.aup_gids, a.aup_len * sizeof(p->gids[0]));
		strncpy(p->machinename, a.aup_machname, sizeof(p->machinename) - 1);
	}
	xdr_free((xdrproc_t)xdr_authunix_parms, (char *)&a);
	return ok;
}
