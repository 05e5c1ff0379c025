/*
 * runtime/cred.c - identities, and how a thread takes one on.
 *
 * glibc's setgroups() changes every thread of the process, so the raw system calls are used: the kernel keeps credentials per thread. setfsuid() reports
 * no errors; asking with an id that cannot exist tells what is in force.
 */
#include "runtime/cred.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ID_NOBODY = 65534 };
static const uint32_t id_none = UINT32_MAX;

const struct cred cred_root = { .uid = 0, .gid = 0, .ngroups = 0 };

bool cred_equal(const struct cred *a, const struct cred *b)
{
	if (a->uid != b->uid || a->gid != b->gid || a->ngroups != b->ngroups)
		return false;
	return memcmp(a->groups, b->groups, a->ngroups * sizeof(a->groups[0])) == 0;
}

bool cred_in_group(const struct cred *c, uint32_t gid)
{
	if (c->gid == gid)
		return true;
	for (unsigned i = 0; i < c->ngroups; i++)
		if (c->groups[i] == gid)
			return true;
	return false;
}

/* call: SYS_setfsuid or SYS_setfsgid. */
static bool set_fs_id(long call, uint32_t id)
{
	if (id == id_none)
		return false;
	syscall(call, id);
	return (uint32_t)syscall(call, id_none) == id;
}

static int set_groups(const struct cred *c)
{
	gid_t groups[CRED_GROUPS_MAX];
	unsigned n = 0;

	for (unsigned i = 0; i < c->ngroups && i < CRED_GROUPS_MAX; i++)
		if (c->groups[i] != id_none)
			groups[n++] = c->groups[i];
	if (syscall(SYS_setgroups, n, groups) == 0)
		return 0;
	if (errno != EINVAL)
		return -errno;
	/* A group that has no meaning in this user namespace: none of them may count. */
	return syscall(SYS_setgroups, 0, NULL) == 0 ? 0 : -errno;
}

int cred_assume(const struct cred *c)
{
	int err = set_groups(c);

	if (err)
		return err;
	if (!set_fs_id(SYS_setfsgid, c->gid) && !set_fs_id(SYS_setfsgid, ID_NOBODY))
		return -EPERM;
	if (!set_fs_id(SYS_setfsuid, c->uid) && !set_fs_id(SYS_setfsuid, ID_NOBODY))
		return -EPERM;
	return 0;
}
