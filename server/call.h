/*
 * server/call.h - one RPC call in progress, and the tables that say what is served.
 *
 * A call is taken from its reactor's pool when its record is complete and lives until its procedure has returned; it runs on one fiber. Small arguments are
 * copied into the call (the connection's receive memory goes on to the next record); a long record stays in `body`, of which the call holds a reference.
 * The reply is a struct of its own (server/reply.h), because it outlives the call until it is sent.
 */
#ifndef SERVER_CALL_H
#define SERVER_CALL_H

#include "proto/rpc.h"
#include "runtime/cred.h"
#include "vfs/data.h"

struct buf;
struct conn;
struct reply;
struct rpc_call;
struct drc_entry;

enum { CALL_RECORD_BYTES = 4096 };

/* What a procedure made of the call. The last two leave the reply unsent. */
enum call_outcome {
	CALL_DONE,     /* results are encoded */
	CALL_GARBAGE,  /* the arguments do not decode: GARBAGE_ARGS */
	CALL_SYSTEM_ERR,
	CALL_DROP,     /* no reply: the client will ask again */
};

enum { PROC_NOT_IDEMPOTENT = 1 }; /* replies go through the duplicate request cache */

struct rpc_procedure {
	const char *name;
	fiber_fn enum call_outcome (*run)(struct rpc_call *call);
	unsigned flags;
	/*
	 * For procedures with a bulk payload: decode the arguments' head from x, leave the cursor where the payload begins, and say where in the file it
	 * goes, so that it can be received at a congruent address. False: not decodable (xdr_is_truncated(x): yet).
	 */
	bool (*payload_head)(struct xdr *x, uint64_t *offset, uint32_t *len);
};

struct rpc_version {
	uint32_t vers;
	unsigned procedure_count;
	const struct rpc_procedure *procedures; /* by number; run == NULL: PROC_UNAVAIL */
};

struct rpc_program {
	uint32_t prog;
	unsigned version_count;
	const struct rpc_version *versions; /* ascending */
};

extern const struct rpc_program nfs_program;   /* server/nfs3_fs.c */
extern const struct rpc_program mount_program; /* server/mount3.c */

struct rpc_call {
	struct rpc_call *next_free;
	struct conn *conn;            /* referenced */
	const struct rpc_procedure *procedure;
	struct reply *reply;          /* NULL once handed to the connection */
	struct drc_entry *drc;
	bool not_cached;              /* the reply is not worth replaying (JUKEBOX) */
	struct call_body header;
	bool has_cred;                /* AUTH_SYS; otherwise AUTH_NONE */
	struct cred cred;             /* AUTH_SYS's, not squashed yet */
	struct xdr args;              /* stands on the arguments */
	struct buf *body;             /* referenced: a long record, or a payload */
	struct vfs_payload payload;   /* .buf set: what payload_head() announced, received apart */
	uint32_t charged;             /* bytes in flight, given back when the call ends */
	uint32_t record_len;          /* of record[] */
	uint8_t record[CALL_RECORD_BYTES];
};

#endif
