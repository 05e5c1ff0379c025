/*
 * server/drc.h - the duplicate request cache: a retransmitted call that is not idempotent is answered with its first reply instead of being run again.
 *
 * Shared by all reactors, because a client that lost its connection asks again over a new one, which may belong to another reactor.
 */
#ifndef SERVER_DRC_H
#define SERVER_DRC_H

#include "runtime/base.h"

struct rpc_call;

enum drc_verdict {
	DRC_NEW,         /* run it, then drc_end() */
	DRC_IN_PROGRESS, /* the first one has not ended: drop this one, that one's reply answers it */
	DRC_REPLAY       /* the first reply is encoded in call->reply */
};

/* Bounds: how many replies are kept, and their bytes in all. Once, before the reactors start. */
void drc_init(size_t entries_max, size_t bytes_max);
void drc_fini(void);
noyield_fn enum drc_verdict drc_begin(struct rpc_call *call);
/* Keep the finished reply (or, with call->not_cached or without a reply, forget the call). */
noyield_fn void drc_end(struct rpc_call *call);

#endif
