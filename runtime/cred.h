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
	bool keeps_set_id; /* CAP_FSETID although not root: the kernel leaves set-ID bits alone when a file is written */
};

noyield_fn bool cred_equal(const struct cred *a, const struct cred *b);
/* True if gid is the primary or a supplementary group. */
noyield_fn bool cred_in_group(const struct cred *c, uint32_t gid);
/* The server's own identity: uid 0, gid 0, no groups. */
extern const struct cred cred_root;
/*
 * Who changes data and space of files, for any caller: nobody, so that quotas hold and reserved blocks stay reserved. Files are written through descriptors
 * that the server opened, so it needs no permission. Set-ID bits are the vfs's to drop, which knows the callers.
 */
extern const struct cred cred_data;

/*
 * Make c the file system identity of the calling thread only (raw setfsuid, setfsgid, setgroups). An id that the kernel cannot represent here (-1, or
 * unmapped in this user namespace) acts as nobody (65534), a group like that is left out. Capabilities follow the kernel's fsuid rule,
 * and CAP_SYS_RESOURCE, which quotas do not bind, follows it too, as in knfsd. -EPERM: the process has no right to do that; the identity is then undefined.
 */
pool_fn int cred_assume(const struct cred *c);
/* The process has the right to take on identities. */
noyield_fn bool cred_may_assume(void);
/* This thread has CAP_DAC_READ_SEARCH, without which nobody opens a file by its handle. */
noyield_fn bool cred_may_open_handles(void);
/* fn(arg) as c, on a thread that has an identity of its own to go back to. What fn returns, or -errno. */
noyield_fn int cred_call_as(const struct cred *c, int (*fn)(void *arg), void *arg);

#endif
