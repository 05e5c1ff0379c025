/*
 * runtime/cred.c - identities, and how a thread takes one on.
 *
 * glibc's setgroups() changes every thread of the process, so the raw system calls are used: the kernel keeps credentials per thread. setfsuid() reports
 * no errors; asking with an id that cannot exist tells what is in force. On the way from uid 0 to another setfsuid() takes the capabilities away that concern
 * files (and gives them back on the way to 0), but not CAP_SYS_RESOURCE, with which ext4 and the quota code let anybody go beyond limits.
 */
#include "runtime/cred.h"

#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ID_NOBODY = 65534 };
static const uint32_t id_none = UINT32_MAX;

const struct cred cred_root = { .uid = 0, .gid = 0, .ngroups = 0 };
const struct cred cred_data = { .uid = ID_NOBODY, .gid = ID_NOBODY, .keeps_set_id = true };

bool cred_equal(const struct cred *a, const struct cred *b)
{
	if (a->uid != b->uid || a->gid != b->gid || a->ngroups != b->ngroups || a->keeps_set_id != b->keeps_set_id)
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

/* The kernel's form of capability sets: 64 bits in two halves. */
struct capabilities {
	struct __user_cap_data_struct half[2];
};

static int get_capabilities(struct capabilities *caps)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };

	return syscall(SYS_capget, &header, caps->half) ? -errno : 0;
}

static int set_capabilities(const struct capabilities *caps)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };

	return syscall(SYS_capset, &header, caps->half) ? -errno : 0;
}

/* After setfsuid(): what it leaves to us. */
static int adjust_capabilities(const struct cred *c)
{
	const uint32_t resource = 1u << CAP_SYS_RESOURCE, set_id = 1u << CAP_FSETID;
	uint32_t wanted = 0, before;
	struct capabilities caps;
	int err = get_capabilities(&caps);

	if (err)
		return err;
	if (c->uid == 0)
		wanted = resource | set_id;
	else if (c->keeps_set_id)
		wanted = set_id;
	before = caps.half[0].effective;
	caps.half[0].effective = (before & ~(resource | set_id)) | (wanted & caps.half[0].permitted);
	return caps.half[0].effective == before ? 0 : set_capabilities(&caps);
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
	return adjust_capabilities(c);
}

static bool have_capabilities(uint32_t need)
{
	struct capabilities caps;

	return !get_capabilities(&caps) && (caps.half[0].effective & need) == need;
}

bool cred_may_assume(void)
{
	return have_capabilities(1u << CAP_SETUID | 1u << CAP_SETGID);
}

bool cred_may_open_handles(void)
{
	return have_capabilities(1u << CAP_DAC_READ_SEARCH);
}

/* A thread's identity as it was found. */
struct own_identity {
	struct capabilities caps;
	uint32_t fsuid, fsgid;
	int ngroups;
	gid_t *groups;
};

static int own_save(struct own_identity *own)
{
	int err = get_capabilities(&own->caps);

	if (err)
		return err;
	own->ngroups = getgroups(0, NULL);
	own->groups = calloc(own->ngroups + 1, sizeof(own->groups[0]));
	if (!own->groups)
		return -ENOMEM;
	own->ngroups = getgroups(own->ngroups, own->groups);
	own->fsuid = syscall(SYS_setfsuid, id_none);
	own->fsgid = syscall(SYS_setfsgid, id_none);
	return 0;
}

/* Going on as somebody else is not possible. */
static void own_restore(struct own_identity *own)
{
	bool ok = set_fs_id(SYS_setfsuid, own->fsuid) && set_fs_id(SYS_setfsgid, own->fsgid);

	ok = ok && !syscall(SYS_setgroups, own->ngroups, own->groups) && !set_capabilities(&own->caps);
	free(own->groups);
	if (!ok)
		runtime_panic(__FILE__, __LINE__, "a thread cannot go back to its own identity");
}

int cred_call_as(const struct cred *c, int (*fn)(void *arg), void *arg)
{
	struct own_identity own;
	int ret = own_save(&own);

	if (ret)
		return ret;
	ret = cred_assume(c);
	if (!ret)
		ret = fn(arg);
	own_restore(&own);
	return ret;
}
