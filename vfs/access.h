/*
 * vfs/access.h - may this identity do that to this file: the kernel's rules (mode bits, POSIX ACL, root, groups), decided from attributes in memory, plus
 * the NFS rule that a file's owner may read and write it whatever its mode (a client checked at open; RFC 1813 section 4.4, "owner override").
 * MAY_READ_IF_EXEC lets READ pass where only execution is permitted, since a client must read what it executes (same section). One decision for every protocol version, with a reason that can be traced.
 */
#ifndef VFS_ACCESS_H
#define VFS_ACCESS_H

#include "vfs/types.h"

struct vfs_file;

enum { MAY_READ = 4, MAY_WRITE = 2, MAY_EXEC = 1, MAY_OWNER_OVERRIDE = 8, MAY_READ_IF_EXEC = 16 };

/* `acl`: the raw system.posix_acl_access value, or NULL. 0 or -EACCES; *reason: a string literal. Pure. */
noyield_fn int access_decide(const struct vfs_attr *attr, const void *acl, size_t acl_len, const struct cred *cred, unsigned may, const char **reason);
/* The same for an open file, ACL fetched where it matters, including ro of the view (-EROFS for MAY_WRITE). attr: as just fetched by vfs_getattr(). Yields only for the file's first ACL. */
fiber_fn int vfs_may(const struct vfs_call *call, struct vfs_file *file, const struct vfs_attr *attr, unsigned may);
/* Several questions at once, at most 32: bit i of *granted says that may[i] is permitted (a read-only view permits no MAY_WRITE). 0 or -errno. */
fiber_fn int vfs_may_each(const struct vfs_call *call, struct vfs_file *file, const struct vfs_attr *attr, const unsigned may[], unsigned n, uint32_t *granted);
/* Have the kernel read the file's ACL, so that it is in memory as long as path_fd (O_PATH, on a local file system) is open. */
pool_fn void vfs_acl_warm(int path_fd);

#endif
