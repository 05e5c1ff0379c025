/*
 * vfs/access.c - access decisions from attributes in memory.
 *
 * access_decide() is the kernel's generic_permission() said again: the owner by the owner's bits and nothing else; then the ACL if there is one, whose
 * mask stands in the mode's group bits; else group and other bits; then root, who may read and write all and execute what somebody may. It is pure, so
 * that tests can compare it with the kernel case by case. vfs_may() feeds it: it fetches the ACL only when the answer can depend on it.
 *
 * On a local file system the ACL comes from the kernel's inode, right on the reactor. Reading it into the inode may wait for the disk, so that happens in the pool
 * once in the life of an open file: when it is opened, or, if a look-up on the reactor put it into the cache, when its ACL matters for the first time. From
 * then on it stays in the inode, which the open file keeps in memory; setting another replaces it there.
 */
#include "vfs/access.h"

#include <endian.h>
#include <linux/posix_acl_xattr.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "runtime/log.h"
#include "runtime/pool.h"
#include "vfs/export.h"
#include "vfs/file.h"

/* ACLs up to this size are read to the stack: 124 entries. A longer one takes a second call and memory; the kernel allows 64 KiB. */
enum { ACL_STACK_BYTES = 1000, ACL_BYTES_MAX = 65536 };

/* linux/posix_acl.h's tags, which no header of user space has. */
enum acl_tag { ACL_USER_OBJ = 1, ACL_USER = 2, ACL_GROUP_OBJ = 4, ACL_GROUP = 8, ACL_MASK = 16, ACL_OTHER = 32 };

enum { MAY_RWX = MAY_READ | MAY_WRITE | MAY_EXEC };

/* What an ACL says to one identity, gathered in one pass over its entries. */
struct acl_verdict {
	unsigned mask;          /* rwx; all bits without a mask entry */
	bool user_found;        /* a named user entry is for this identity */
	unsigned user;
	bool group_found;       /* at least one group entry is for this identity */
	bool group_grants;      /* one of these has all that is wanted, before the mask */
	unsigned other;
};

static void acl_entry(struct acl_verdict *v, enum acl_tag tag, uint32_t id, unsigned perm, const struct vfs_attr *attr, const struct cred *cred, unsigned may)
{
	switch (tag) {
	case ACL_USER:
		if (id == cred->uid && !v->user_found) {
			v->user_found = true;
			v->user = perm;
		}
		break;
	case ACL_GROUP_OBJ:
	case ACL_GROUP:
		if (cred_in_group(cred, tag == ACL_GROUP_OBJ ? attr->gid : id)) {
			v->group_found = true;
			v->group_grants |= (perm & may) == may;
		}
		break;
	case ACL_MASK:
		v->mask = perm;
		break;
	case ACL_OTHER:
		v->other = perm;
		break;
	case ACL_USER_OBJ:
		break;
	}
}

/* posix_acl_permission() for somebody who is not the owner. Content that the kernel would not have written decides nothing: -EIO. */
static int acl_decide(const struct vfs_attr *attr, const void *acl, size_t acl_len, const struct cred *cred, unsigned may, const char **reason)
{
	const struct posix_acl_xattr_header *head = acl;
	const struct posix_acl_xattr_entry *entry = (const void *)(head + 1);
	struct acl_verdict v = { .mask = MAY_RWX };

	*reason = "ACL: malformed";
	if (acl_len < sizeof(*head) || le32toh(head->a_version) != POSIX_ACL_XATTR_VERSION || (acl_len - sizeof(*head)) % sizeof(*entry))
		return -EIO;
	for (size_t n = (acl_len - sizeof(*head)) / sizeof(*entry); n--; entry++)
		acl_entry(&v, le16toh(entry->e_tag), le32toh(entry->e_id), le16toh(entry->e_perm), attr, cred, may);
	if (v.user_found) {
		*reason = "ACL: named user";
		return (v.user & v.mask & may) == may ? 0 : -EACCES;
	}
	if (v.group_found) {
		*reason = "ACL: group";
		return v.group_grants && (v.mask & may) == may ? 0 : -EACCES;
	}
	*reason = "ACL: other";
	return (v.other & may) == may ? 0 : -EACCES;
}

static int mode_decide(const struct vfs_attr *attr, const struct cred *cred, unsigned may, const char **reason)
{
	unsigned bits = attr->type_mode;

	*reason = "other bits";
	if (cred_in_group(cred, attr->gid)) {
		*reason = "group bits";
		bits >>= 3;
	}
	return (bits & may) == may ? 0 : -EACCES;
}

/* Root's capabilities: CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH together. */
static bool root_may(const struct vfs_attr *attr, unsigned may)
{
	if (S_ISDIR(attr->type_mode) || !(may & MAY_EXEC))
		return true;
	return attr->type_mode & (S_IXUSR | S_IXGRP | S_IXOTH);
}

static int base_decide(const struct vfs_attr *attr, const void *acl, size_t acl_len, const struct cred *cred, unsigned may, const char **reason)
{
	if (cred->uid == attr->uid) {
		*reason = "owner bits";
		return (attr->type_mode >> 6 & may) == may ? 0 : -EACCES;
	}
	/* As the kernel, which looks at the ACL only if the mask (in the group bits) lets anything through. */
	if (acl && attr->type_mode & S_IRWXG)
		return acl_decide(attr, acl, acl_len, cred, may, reason);
	return mode_decide(attr, cred, may, reason);
}

noyield_fn int access_decide(const struct vfs_attr *attr, const void *acl, size_t acl_len, const struct cred *cred, unsigned may, const char **reason)
{
	const unsigned want = may & MAY_RWX;
	int err;

	if (may & MAY_OWNER_OVERRIDE && cred->uid == attr->uid && !(want & MAY_EXEC)) {
		*reason = "owner override";
		return 0;
	}
	err = base_decide(attr, acl, acl_len, cred, want, reason);
	if (err == -EACCES && cred->uid == 0 && root_may(attr, want)) {
		*reason = "root";
		return 0;
	}
	if (err == -EACCES && may & MAY_READ_IF_EXEC && want == MAY_READ)
		return base_decide(attr, acl, acl_len, cred, MAY_EXEC, reason);
	return err;
}

/* Only somebody who is neither owner nor root, and only where the mask leaves something to grant. */
static bool acl_matters(const struct vfs_attr *attr, const struct cred *cred)
{
	return cred->uid != 0 && cred->uid != attr->uid && attr->type_mode & S_IRWXG && !S_ISLNK(attr->type_mode);
}

/* A file that is only open as O_PATH. */
static ssize_t acl_read(int path_fd, void *acl, size_t size)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", path_fd);
	return getxattr(path, "system.posix_acl_access", acl, size);
}

pool_fn void vfs_acl_warm(int path_fd)
{
	acl_read(path_fd, NULL, 0);
}

static void warm_main(void *arg)
{
	struct vfs_file *file = arg;

	vfs_acl_warm(file->path_fd);
	file->acl_warm = true;
}

/* Its length, 0 if there is none, or -errno. */
static fiber_fn ssize_t acl_fetch(struct vfs_file *file, void *acl, size_t size)
{
	const int fd = vfs_file_mapping(file) ? file->buffered_fd : -1;
	ssize_t n;

	if (!file->local_fs)
		return vfs_file_acl_copy(file, acl, size);
	if (!file->acl_warm)
		pool_run(warm_main, file, NULL);
	n = fd >= 0 ? fgetxattr(fd, "system.posix_acl_access", acl, size) : acl_read(file->path_fd, acl, size);
	if (n < 0)
		return errno == ENODATA || errno == EOPNOTSUPP ? 0 : -errno;
	return n;
}

/* Several questions about one file, answered with one look at its ACL. */
struct question {
	const struct vfs_call *call;
	struct vfs_file *file;
	const struct vfs_attr *attr;
	const unsigned *may;
	unsigned n;
};

/* Bit i of *granted: may[i] is. acl: room for the ACL; -ERANGE: it needs more. */
static fiber_fn int decide_with_acl(const struct question *q, void *acl, size_t size, uint32_t *granted)
{
	const ssize_t acl_len = acl_matters(q->attr, &q->call->cred) ? acl_fetch(q->file, acl, size) : 0;
	const char *reason;
	int err;

	if (acl_len < 0)
		return acl_len;
	*granted = 0;
	for (unsigned i = 0; i < q->n; i++) {
		err = access_decide(q->attr, acl_len ? acl : NULL, acl_len, &q->call->cred, q->may[i], &reason);
		*granted |= (uint32_t)!err << i;
		TRACE(TRACE_ACCESS, "access.decide", "fileid %llu uid %u may %u mode %o: %s, %d", (unsigned long long)q->attr->fileid,
		      q->call->cred.uid, q->may[i], q->attr->type_mode, reason, err);
	}
	return 0;
}

static fiber_fn int decide(const struct question *q, uint32_t *granted)
{
	_Alignas(8) uint8_t small[ACL_STACK_BYTES];
	int err = decide_with_acl(q, small, sizeof(small), granted);
	void *large;

	if (err != -ERANGE)
		return err;
	large = malloc(ACL_BYTES_MAX);
	if (!large)
		return -ENOMEM;
	err = decide_with_acl(q, large, ACL_BYTES_MAX, granted);
	free(large);
	return err;
}

fiber_fn int vfs_may(const struct vfs_call *call, struct vfs_file *file, const struct vfs_attr *attr, unsigned may)
{
	const struct question q = { .call = call, .file = file, .attr = attr, .may = &may, .n = 1 };
	uint32_t granted;
	int err;

	if (may & MAY_WRITE && call->view->options.read_only)
		return -EROFS;
	err = decide(&q, &granted);
	return err || granted ? err : -EACCES;
}

fiber_fn int vfs_may_each(const struct vfs_call *call, struct vfs_file *file, const struct vfs_attr *attr, const unsigned may[], unsigned n, uint32_t *granted)
{
	const struct question q = { .call = call, .file = file, .attr = attr, .may = may, .n = n };
	const int err = decide(&q, granted);

	if (err)
		return err;
	for (unsigned i = 0; i < n; i++)
		if (may[i] & MAY_WRITE && call->view->options.read_only)
			*granted &= ~((uint32_t)1 << i);
	return 0;
}
