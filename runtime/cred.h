/* runtime/cred.h - an identity for file system work: what a pool job or a ring operation runs as. */
#ifndef RUNTIME_CRED_H
#define RUNTIME_CRED_H

#include "runtime/base.h"

enum { CRED_GROUPS_MAX = 16 + 1 };

/* Plain value; compare with cred_equal(). groups[] are supplementary, unsorted, as the caller presented them after squashing. */
struct cred {
	uint32_t uid;
	uint32_t gid;
	uint32_t ngroups;
	uint32_t groups[CRED_GROUPS_MAX];
};

noyield_fn bool cred_equal(const struct cred *a, const struct cred *b);
/* True if gid is the primary or a supplementary group. */
noyield_fn bool cred_in_group(const struct cred *c, uint32_t gid);
/* The server's own identity: uid 0, gid 0, no groups. */
extern const struct cred cred_root;

#endif
