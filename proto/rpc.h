/*
 * proto/rpc.h - ONC RPC version 2 messages (RFC 5531): call and reply headers, AUTH_NONE and AUTH_SYS.
 *
 * Only headers live here: after a successful decode the cursor stands on the first byte of the procedure's arguments or results, after an encode that is
 * where they go. Credentials and verifiers are references into the message. The names are the RFC's, verbatim, which is why some are very general
 * (CALL, SUCCESS): a file that includes this must not include another RPC library's headers.
 *
 * Pure functions, no state.
 */
#ifndef PROTO_RPC_H
#define PROTO_RPC_H

#include "proto/xdr.h"

enum {
	RPC_VERSION = 2,
	RPC_AUTH_BODY_MAX = 400,      /* RFC 5531 section 8.2: opaque body<400> */
	AUTH_SYS_MACHINENAME_MAX = 255, /* RFC 5531 appendix A */
	AUTH_SYS_GIDS_MAX = 16,
	/* Longest call header that decodes: six words, then credential and verifier with flavor and length words. */
	RPC_CALL_HEADER_MAX = 6 * XDR_UNIT + 2 * (2 * XDR_UNIT + RPC_AUTH_BODY_MAX),
	/* An accepted reply with an empty verifier and no mismatch info: what precedes a procedure's results under AUTH_NONE and AUTH_SYS. */
	RPC_ACCEPTED_HEADER_BYTES = 6 * XDR_UNIT,
};

enum msg_type { CALL = 0, REPLY = 1 };
enum reply_stat { MSG_ACCEPTED = 0, MSG_DENIED = 1 };
enum accept_stat { SUCCESS = 0, PROG_UNAVAIL = 1, PROG_MISMATCH = 2, PROC_UNAVAIL = 3, GARBAGE_ARGS = 4, SYSTEM_ERR = 5 };
enum reject_stat { RPC_MISMATCH = 0, AUTH_ERROR = 1 };
enum auth_flavor { AUTH_NONE = 0, AUTH_SYS = 1, AUTH_SHORT = 2, AUTH_DH = 3, RPCSEC_GSS = 6, AUTH_TLS = 7 };

enum auth_stat {
	AUTH_OK = 0,
	AUTH_BADCRED = 1,
	AUTH_REJECTEDCRED = 2,
	AUTH_BADVERF = 3,
	AUTH_REJECTEDVERF = 4,
	AUTH_TOOWEAK = 5,
	AUTH_INVALIDRESP = 6,
	AUTH_FAILED = 7,
	RPCSEC_GSS_CREDPROBLEM = 13,
	RPCSEC_GSS_CTXPROBLEM = 14,
};

/* flavor is a plain word: peers may name flavors that we do not know. */
struct opaque_auth {
	uint32_t flavor;
	struct xdr_bytes body; /* at most RPC_AUTH_BODY_MAX */
};

struct call_body {
	uint32_t xid;
	uint32_t rpcvers;
	uint32_t prog;
	uint32_t vers;
	uint32_t proc;
	struct opaque_auth cred;
	struct opaque_auth verf;
};

/* RFC 5531 appendix A. machinename is a reference, the gids are copied. */
struct authsys_parms {
	uint32_t stamp;
	struct xdr_bytes machinename;
	uint32_t uid;
	uint32_t gid;
	uint32_t gids_len;
	uint32_t gids[AUTH_SYS_GIDS_MAX];
};

struct mismatch_info {
	uint32_t low;
	uint32_t high;
};

/* rpc_msg's reply arm, flat. Which fields count follows from stat, then accept or reject, as in the RFC's union. */
struct reply_body {
	uint32_t xid;
	enum reply_stat stat;
	struct opaque_auth verf; /* MSG_ACCEPTED */
	enum accept_stat accept; /* MSG_ACCEPTED */
	enum reject_stat reject; /* MSG_DENIED */
	enum auth_stat why;      /* MSG_DENIED, AUTH_ERROR */
	struct mismatch_info mismatch; /* PROG_MISMATCH, RPC_MISMATCH */
};

/* What rpc_dec_call() found, and so what the server does. */
enum rpc_call_status {
	RPC_CALL_OK,
	RPC_CALL_TRUNCATED, /* the message ends inside the header: wait for more bytes, or if the record is complete, close */
	RPC_CALL_NOT_CALL,  /* not a CALL (c->xid is set): no reply exists for that */
	RPC_CALL_MISMATCH,  /* rpcvers is not 2: answer RPC_MISMATCH (c->xid is set) */
	RPC_CALL_BADCRED,   /* credential longer than 400 bytes: answer AUTH_ERROR, AUTH_BADCRED */
	RPC_CALL_BADVERF,   /* verifier likewise: AUTH_BADVERF */
};

/* RFC 5531 section 9. On RPC_CALL_OK all of *c is set and the cursor stands on the arguments. References live as long as the message. */
enum rpc_call_status rpc_dec_call(struct xdr *x, struct call_body *c);
/* xid and msg_type of any message, without moving the cursor: a server that also makes calls routes by it. False: fewer than 8 bytes. */
bool rpc_peek(const struct xdr *x, uint32_t *xid, uint32_t *mtype);
/*
 * Appendix A. AUTH_OK, or AUTH_BADCRED for anything else than a well-formed authsys_parms that fills the body exactly: machinename over 255 bytes, a
 * 17th gid, bytes missing or left over.
 */
enum auth_stat rpc_dec_authsys(struct xdr_bytes body, struct authsys_parms *p);

/* Any reply header. verf of an accepted reply may be {AUTH_NONE, empty}. */
bool rpc_enc_reply(struct xdr_out *x, const struct reply_body *r);
/* Accepted with an AUTH_NONE verifier. stat is not PROG_MISMATCH. After SUCCESS the results follow. */
bool rpc_enc_accepted(struct xdr_out *x, uint32_t xid, enum accept_stat stat);
bool rpc_enc_prog_mismatch(struct xdr_out *x, uint32_t xid, struct mismatch_info versions);
/* We speak 2 to 2. */
bool rpc_enc_rpc_mismatch(struct xdr_out *x, uint32_t xid);
bool rpc_enc_auth_error(struct xdr_out *x, uint32_t xid, enum auth_stat why);

/* The caller's side: callbacks, tests. c->rpcvers is written as it stands. */
bool rpc_enc_call(struct xdr_out *x, const struct call_body *c);
/* The body of an AUTH_SYS credential, without flavor and length words. */
bool rpc_enc_authsys(struct xdr_out *x, const struct authsys_parms *p);
/* A reply header; the cursor then stands on the results (SUCCESS) or at the end. A CALL, or a status outside the RFC's lists, is invalid. */
bool rpc_dec_reply(struct xdr *x, struct reply_body *r);

#endif
