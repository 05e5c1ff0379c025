/*
 * tests/unit/nfs3_cross_peer.h - libnfs's codecs behind names that clash with none of ours: the two headers define the same types.
 */
#ifndef TESTS_UNIT_NFS3_CROSS_PEER_H
#define TESTS_UNIT_NFS3_CROSS_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct flat;

/* Decode the len bytes at msg as the type of that name. False: libnfs does not decode them. */
bool peer_flatten(const char *type, const uint8_t *msg, size_t len, struct flat *f);
/* Decode and encode again; returns the length of the result, 0 if either fails. */
size_t peer_recode(const char *type, const uint8_t *msg, size_t len, uint8_t *out, size_t cap);

#endif
