/* vfs/fh_memo.h - handles that were made lately, so that a listing need not ask the kernel for each of them again. */
#ifndef VFS_FH_MEMO_H
#define VFS_FH_MEMO_H

#include "vfs/types.h"

struct export;
struct statx;

/* What statx has to be asked for besides, to know an inode again. 0: it cannot be known again on this file system. */
noyield_fn unsigned vfs_fh_memo_mask(const struct export *export);
/* The handle of the inode that stx (asked for with that mask) describes; false: not known. */
pool_fn bool vfs_fh_memo_find(uint64_t export_id, const struct statx *stx, struct vfs_fh *fh);
/* fh and stx are of one inode for certain. Too young to be told from its successor: nothing is kept. */
pool_fn void vfs_fh_memo_keep(uint64_t export_id, const struct statx *stx, const struct vfs_fh *fh);
/* Was t so long ago that the kernel has given later stamps since? */
pool_fn bool vfs_fh_memo_settled(const struct statx *stx);

#endif
