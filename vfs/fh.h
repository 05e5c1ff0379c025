/*
 * vfs/fh.h - file handles: {version 1, type 1, kernel handle length 1, reserved 1, export id 8, kernel handle <= 36, SipHash-2-4 8} <= 56 bytes.
 *
 * The kernel's handle comes from name_to_handle_at; the signature is keyed by a secret in the state directory, so a client cannot make a handle for
 * what it was not shown. Stable across rename, restart and remount (the export id is made of the file system's UUID or fsid=, never of device numbers).
 */
#ifndef VFS_FH_H
#define VFS_FH_H

#include "vfs/types.h"

/* Load the key from state_dir/handle.key, or make it (0600, synced). 0 or -errno. */
int vfs_fh_init(const char *state_dir);
/* For tests: a fixed key. */
void vfs_fh_set_key(const uint8_t key[16]);
/* From an O_PATH (or any) descriptor. */
pool_fn int vfs_fh_from_fd(uint64_t export_id, int fd, struct vfs_fh *fh);
/* Of an entry of a directory, without opening it and without following a symbolic link. */
pool_fn int vfs_fh_from_name(uint64_t export_id, int dir_fd, const char *name, struct vfs_fh *fh);
/* 0 with the export's id; -EBADF (NFS3ERR_BADHANDLE): malformed; -ESTALE: well-formed, but not signed with this key. */
noyield_fn int vfs_fh_parse(const struct vfs_fh *fh, uint64_t *export_id);
/* Open what a parsed handle names: flags as open(2), e.g. O_PATH. A descriptor, or -ESTALE and others. */
pool_fn int vfs_fh_open(const struct vfs_fh *fh, int mount_fd, int flags);
noyield_fn bool vfs_fh_equal(const struct vfs_fh *a, const struct vfs_fh *b);

#endif
