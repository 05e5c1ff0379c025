/* server/dispatch.h - from a complete record to a procedure and a reply (RFC 5531). */
#ifndef SERVER_DISPATCH_H
#define SERVER_DISPATCH_H

#include "runtime/base.h"

struct rpc_call;
struct rpc_procedure;

/*
 * Decode call's RPC header, reject it or run its procedure; call->reply is then what is to be sent, or NULL. False: this is no RPC call, and the connection
 * cannot be made sense of.
 */
fiber_fn bool dispatch_run(struct rpc_call *call);
/* The procedure, or NULL. */
noyield_fn const struct rpc_procedure *dispatch_find(uint32_t prog, uint32_t vers, uint32_t proc);

#endif
