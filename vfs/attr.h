/* vfs/attr.h - attributes of an open file: the kernel's, with what is staged laid over them (WRITE_PATH 1.12). */
#ifndef VFS_ATTR_H
#define VFS_ATTR_H

#include "vfs/types.h"

struct vfs_file;
struct statx;
struct export;

/* What statx says, in our terms, with export's fsid. */
noyield_fn void vfs_attr_from_statx(const struct export *export, const struct statx *stx, struct vfs_attr *attr);
/*
 * Current attributes. Local file systems: without leaving the reactor; others: through the pool. 0 or -errno; -ESTALE: the file has no links left, and that we hold it open
 * is no reason to serve it.
 */
fiber_fn int vfs_getattr(struct vfs_file *file, struct vfs_attr *attr);
/* For attributes fetched by name in the pool: lay the overlay of the file over them if it is in the cache with staged data. */
noyield_fn void vfs_attr_overlay(const struct vfs_fh *fh, struct vfs_attr *attr);

#endif
