/*
 * tests/unit/rpc_cross_peer.h - libtirpc's RPC message codecs behind plain values: its header and proto/rpc.h define the same names.
 *
 * A message is a list of words in the order of the fields, as the two sides agree below; byte strings stand beside it. All functions return the encoded
 * length, or whether the decode succeeded.
 */
#ifndef TESTS_UNIT_RPC_CROSS_PEER_H
#define TESTS_UNIT_RPC_CROSS_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct peer_auth {
	uint32_t flavor;
	uint32_t len;
	uint8_t body[400];
};

/* words: xid, rpcvers, prog, vers, proc */
enum { PEER_CALL_WORDS = 5 };

struct peer_call {
	uint32_t words[PEER_CALL_WORDS];
	struct peer_auth cred, verf;
};

/* words: xid, reply_stat, accept_stat or reject_stat, then low and high or auth_stat and 0, or 0 and 0 */
enum { PEER_REPLY_WORDS = 5 };

struct peer_reply {
	uint32_t words[PEER_REPLY_WORDS];
	struct peer_auth verf;
};

struct peer_authsys {
	uint32_t stamp, uid, gid, gids_len;
	uint32_t gids[16];
	char machinename[256];
};

size_t peer_encode_call(const struct peer_call *c, uint8_t *out, size_t cap);
bool peer_decode_call(const uint8_t *msg, size_t len, struct peer_call *c);
size_t peer_encode_reply(const struct peer_reply *r, uint8_t *out, size_t cap);
bool peer_decode_reply(const uint8_t *msg, size_t len, struct peer_reply *r);
size_t peer_encode_authsys(const struct peer_authsys *p, uint8_t *out, size_t cap);
bool peer_decode_authsys(const uint8_t *msg, size_t len, struct peer_authsys *p);

#endif
