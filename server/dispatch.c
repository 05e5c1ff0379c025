/*
 * server/dispatch.c - RPC: header, authentication, program table, duplicate requests, reply header.
 *
 * Every reject of RFC 5531 section 9 comes from here; procedures only say how they ended. The reply header for success is written before the procedure
 * runs, so that its results follow in place; any other end goes back to the start of the reply and writes the header that says so.
 */
#include <assert.h>

#include "proto/rpc.h"
#include "runtime/counter.h"
#include "runtime/fiber.h"
#include "runtime/log.h"
#include "server/call.h"
#include "server/conn.h"
#include "server/dispatch.h"
#include "server/drc.h"
#include "server/reply.h"
#include "server/server.h"

COUNTER_DEFINE(calls, "rpc.calls");
COUNTER_DEFINE(rejects, "rpc.rejects");
COUNTER_DEFINE(garbage, "rpc.garbage_args");
COUNTER_DEFINE(system_errors, "rpc.system_errors");
COUNTER_DEFINE(drops, "rpc.drops");

static const struct rpc_program *program_find(uint32_t prog)
{
	for (const struct rpc_program *const *p = server.programs; *p != NULL; p++)
		if ((*p)->prog == prog)
			return *p;
	return NULL;
}

static const struct rpc_version *version_find(const struct rpc_program *p, uint32_t vers)
{
	for (unsigned i = 0; i < p->version_count; i++)
		if (p->versions[i].vers == vers)
			return &p->versions[i];
	return NULL;
}

static const struct rpc_procedure *procedure_find(const struct rpc_version *v, uint32_t proc)
{
	return proc < v->procedure_count && v->procedures[proc].run != NULL ? &v->procedures[proc] : NULL;
}

const struct rpc_procedure *dispatch_find(uint32_t prog, uint32_t vers, uint32_t proc)
{
	const struct rpc_program *p = program_find(prog);
	const struct rpc_version *v = p != NULL ? version_find(p, vers) : NULL;
	return v != NULL ? procedure_find(v, proc) : NULL;
}

/* AUTH_NONE and AUTH_SYS are served. A flavor we do not know is rejected with what libtirpc says then. */
static enum auth_stat authenticate(struct rpc_call *call)
{
	struct authsys_parms parms;
	call->has_cred = false;
	if (call->header.cred.flavor == AUTH_NONE)
		return AUTH_OK;
	if (call->header.cred.flavor != AUTH_SYS)
		return AUTH_REJECTEDCRED;
	enum auth_stat stat = rpc_dec_authsys(call->header.cred.body, &parms);
	if (stat != AUTH_OK)
		return stat;
	static_assert((int)CRED_GROUPS_MAX >= (int)AUTH_SYS_GIDS_MAX, "every group of AUTH_SYS has a place");
	call->has_cred = true;
	call->cred.uid = parms.uid;
	call->cred.gid = parms.gid;
	call->cred.ngroups = parms.gids_len;
	memcpy(call->cred.groups, parms.gids, parms.gids_len * sizeof(parms.gids[0]));
	return AUTH_OK;
}

static struct xdr_out *reply_begin(struct rpc_call *call)
{
	xdr_out_rewind(&call->reply->out, 0);
	return &call->reply->out;
}

/* Find the procedure, or encode why not. */
static bool select_procedure(struct rpc_call *call)
{
	const struct call_body *h = &call->header;
	const struct rpc_program *p = program_find(h->prog);
	if (p == NULL) {
		rpc_enc_accepted(reply_begin(call), h->xid, PROG_UNAVAIL);
		return false;
	}
	const struct rpc_version *v = version_find(p, h->vers);
	if (v == NULL) {
		struct mismatch_info versions = { p->versions[0].vers, p->versions[p->version_count - 1].vers };
		rpc_enc_prog_mismatch(reply_begin(call), h->xid, versions);
		return false;
	}
	call->procedure = procedure_find(v, h->proc);
	if (call->procedure == NULL)
		rpc_enc_accepted(reply_begin(call), h->xid, PROC_UNAVAIL);
	return call->procedure != NULL;
}

/* True: the call may run. False: the reply says why not. */
static bool admit(struct rpc_call *call, enum rpc_call_status status)
{
	uint32_t xid = call->header.xid;
	if (status == RPC_CALL_MISMATCH) {
		rpc_enc_rpc_mismatch(reply_begin(call), xid);
		return false;
	}
	enum auth_stat auth = status == RPC_CALL_BADCRED ? AUTH_BADCRED : status == RPC_CALL_BADVERF ? AUTH_BADVERF : authenticate(call);
	if (auth != AUTH_OK) {
		rpc_enc_auth_error(reply_begin(call), xid, auth);
		return false;
	}
	return select_procedure(call);
}

static void drop(struct rpc_call *call)
{
	counter_add(&drops, 1);
	reply_free(call->conn->sr, call->reply);
	call->reply = NULL;
}

/* The procedure did not succeed as a call: what it has encoded is void. */
static void fail(struct rpc_call *call, enum accept_stat stat)
{
	counter_add(stat == GARBAGE_ARGS ? &garbage : &system_errors, 1);
	reply_read_drop(call->conn->sr, call->reply);
	rpc_enc_accepted(reply_begin(call), call->header.xid, stat);
}

static enum call_outcome run(struct rpc_call *call)
{
	fiber_set_tag(call->header.xid, call->procedure->name);
	if (!rpc_enc_accepted(reply_begin(call), call->header.xid, SUCCESS))
		return CALL_SYSTEM_ERR;
	return call->procedure->run(call);
}

/* Run, finish the reply, and say whether it is to be sent. */
static void run_and_finish(struct rpc_call *call)
{
	enum call_outcome outcome = run(call);
	if (outcome == CALL_DONE && !reply_finish(call->reply))
		outcome = CALL_SYSTEM_ERR;
	if (outcome == CALL_GARBAGE || outcome == CALL_SYSTEM_ERR) {
		fail(call, outcome == CALL_GARBAGE ? GARBAGE_ARGS : SYSTEM_ERR);
		call->not_cached = true;
		bool finished = reply_finish(call->reply);
		ASSERT(finished);
	}
	if (outcome == CALL_DROP)
		drop(call);
}

/* Through the duplicate request cache. */
static void run_once(struct rpc_call *call)
{
	switch (drc_begin(call)) {
	case DRC_NEW:
		run_and_finish(call);
		drc_end(call);
		return;
	case DRC_REPLAY:
		if (!reply_finish(call->reply))
			drop(call);
		return;
	case DRC_IN_PROGRESS:
		drop(call);
		return;
	}
}

bool dispatch_run(struct rpc_call *call)
{
	enum rpc_call_status status = rpc_dec_call(&call->args, &call->header);
	if (status == RPC_CALL_TRUNCATED || status == RPC_CALL_NOT_CALL)
		return false;
	counter_add(&calls, 1);
	call->reply = reply_alloc(call->conn->sr);
	ASSERT(call->reply != NULL); /* as many as calls in flight */
	if (!admit(call, status)) {
		counter_add(&rejects, 1);
		bool finished = reply_finish(call->reply);
		ASSERT(finished);
	} else if ((call->procedure->flags & PROC_NOT_IDEMPOTENT) != 0) {
		run_once(call);
	} else {
		run_and_finish(call);
	}
	TRACE(TRACE_RPC, "rpc.call", "xid %08x prog %u vers %u proc %u reply %u", call->header.xid, call->header.prog, call->header.vers, call->header.proc,
	      call->reply != NULL ? call->reply->total : 0);
	return true;
}
