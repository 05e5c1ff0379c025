/*
 * rpc.h: ONC RPC over TCP with libtirpc's XDR and message routines, but sockets of our own.
 *
 * Its own transport because libtirpc's hides what is tested here: how a call is cut into fragments, several calls in flight,
 * and whether a reply is exactly the bytes it should be. Every reply is decoded, must be used up to its last byte, and must
 * encode to the same bytes again: so padding is zero and booleans are 0 or 1, in error replies too. One thread per connection.
 */
#ifndef TESTS_E2E_RPC_H
#define TESTS_E2E_RPC_H

#include <rpc/rpc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RPC_GROUPS_MAX = 32, RPC_RECORD_MAX = 4 << 20, RPC_RES_MAX = 512 };

/* What a call may come back with besides 0 and -errno: accept_stat as it is, and these. */
enum { RPC_REJECT_MISMATCH = 100, RPC_REJECT_AUTH = 200 /* + auth_stat */ };

struct rpc_identity {
	uint32_t flavor;	/* AUTH_NONE or AUTH_SYS */
	uint32_t uid, gid;
	uint32_t ngroups;	/* may be more than the 16 that are allowed */
	uint32_t groups[RPC_GROUPS_MAX];
};

struct rpc_conn {
	int fd;
	uint32_t xid;		/* of the last call */
	size_t fragment;	/* cut calls into fragments of so many bytes; 0: one fragment */
	struct rpc_identity id;
	char *out, *in;		/* RPC_RECORD_MAX bytes each */
	size_t in_len;
};

/* Which call: program, version, procedure, and how its arguments look. */
struct rpc_what {
	uint32_t prog, vers, proc;
	xdrproc_t encode;
	const void *args;
};

/* How to take the reply in: res is zeroed first; free it with xdr_free(decode, res). */
struct rpc_result {
	xdrproc_t decode;
	void *res;
	size_t size;
};

/* The codec of an empty body: xdr_void with the type of a codec. */
bool_t rpc_no_body(XDR *x, ...);

/* Connect to 127.0.0.1:port; from a port below 1024 if privileged. 0 or -errno. */
int conn_open(struct rpc_conn *c, int port, bool privileged);
void conn_close(struct rpc_conn *c);

/* 0, -errno (-ECONNRESET: closed; -EAGAIN: no answer within half a minute; -EBADMSG: not an exact reply), accept_stat or a reject. */
int conn_call(struct rpc_conn *c, const struct rpc_what *what, const struct rpc_result *result);
/* The two halves, for several calls in flight: conn_receive() takes in one reply and says which call's it is. */
int conn_send(struct rpc_conn *c, const struct rpc_what *what);
int conn_receive(struct rpc_conn *c, uint32_t *xid);
int conn_decode(struct rpc_conn *c, const struct rpc_result *result);

/* Encode a call's record (without mark) with the connection's identity and the given xid. Returns its length, or 0. */
size_t conn_encode_call(const struct rpc_identity *id, uint32_t xid, const struct rpc_what *what, char *buf, size_t size);
/* Send bytes as they are, all of them. 0 or -errno. */
int conn_send_bytes(struct rpc_conn *c, const void *bytes, size_t len);
/* Send a record cut into fragments. 0 or -errno. */
int conn_send_record(struct rpc_conn *c, const char *record, size_t len, size_t fragment);

#endif
