/*
 * vfs/ns.h - namespace operations: each makes one trip to the pool, where the kernel judges the caller's identity itself.
 *
 * Results: 0 or -errno in the kernel's terms (-ENAMETOOLONG, -ENOTEMPTY, -EXDEV ...); wcc and attributes are filled on failure too, as far as they
 * could be had (RFC 1813 wants them everywhere). `dir` and files are referenced by the caller. "." and ".." as names: lookup takes them (".." stops at the
 * export's root), the modifying calls refuse with -EEXIST, -EINVAL, -ENOTEMPTY as the kernel would. Names with '/' or NUL: -EINVAL; empty: -EINVAL;
 * longer than 255: -ENAMETOOLONG. Read-only views: -EROFS.
 */
#ifndef VFS_NS_H
#define VFS_NS_H

#include "vfs/types.h"

struct vfs_file;

/* What a lookup or create found. */
struct vfs_node {
	struct vfs_fh fh;
	struct vfs_attr attr;
};

fiber_fn int vfs_lookup(const struct vfs_call *call, struct vfs_file *dir, struct vfs_name name, struct vfs_node *node, struct vfs_attr *dir_attr, bool *dir_attr_valid);
/* want and *granted: ACCESS3_* bits of RFC 1813 (READ 1, LOOKUP 2, MODIFY 4, EXTEND 8, DELETE 16, EXECUTE 32); bits the type has no use for are not granted. */
fiber_fn int vfs_access(const struct vfs_call *call, struct vfs_file *file, uint32_t want, uint32_t *granted, struct vfs_attr *attr);
/* target: VFS_PATH_MAX bytes of the caller's. */
fiber_fn int vfs_readlink(const struct vfs_call *call, struct vfs_file *file, char *target, uint32_t *len, struct vfs_attr *attr, bool *attr_valid);
/* ctime_guard: sattrguard3, compared with nanoseconds: -ENOTUNIQ stands for NFS3ERR_NOT_SYNC. Size changes go through the mapping. */
fiber_fn int vfs_setattr(const struct vfs_call *call, struct vfs_file *file, const struct vfs_sattr *sattr, const struct timespec *ctime_guard, struct vfs_wcc *wcc);
/* Clear set-user-ID and set-group-ID as a write by somebody else must: for the data path, which writes as the server. Nothing to clear: no trip to the pool. */
fiber_fn int vfs_kill_suid(struct vfs_file *file, const struct vfs_attr *attr);

enum vfs_create_how { VFS_CREATE_UNCHECKED, VFS_CREATE_GUARDED, VFS_CREATE_EXCLUSIVE };
/* verf: EXCLUSIVE's 8 bytes, kept durably in the file's times until the client sets them. */
fiber_fn int vfs_create(const struct vfs_call *call, struct vfs_file *dir, struct vfs_name name, enum vfs_create_how how, const struct vfs_sattr *sattr,
			const uint8_t verf[8], struct vfs_node *node, struct vfs_wcc *dir_wcc);
fiber_fn int vfs_mkdir(const struct vfs_call *call, struct vfs_file *dir, struct vfs_name name, const struct vfs_sattr *sattr, struct vfs_node *node, struct vfs_wcc *dir_wcc);
fiber_fn int vfs_symlink(const struct vfs_call *call, struct vfs_file *dir, struct vfs_name name, struct vfs_name target, const struct vfs_sattr *sattr,
			 struct vfs_node *node, struct vfs_wcc *dir_wcc);
/* type_mode's S_IFMT: S_IFCHR, S_IFBLK, S_IFIFO, S_IFSOCK. */
fiber_fn int vfs_mknod(const struct vfs_call *call, struct vfs_file *dir, struct vfs_name name, uint32_t type, uint32_t major, uint32_t minor,
		       const struct vfs_sattr *sattr, struct vfs_node *node, struct vfs_wcc *dir_wcc);
fiber_fn int vfs_remove(const struct vfs_call *call, struct vfs_file *dir, struct vfs_name name, struct vfs_wcc *dir_wcc);
fiber_fn int vfs_rmdir(const struct vfs_call *call, struct vfs_file *dir, struct vfs_name name, struct vfs_wcc *dir_wcc);
fiber_fn int vfs_rename(const struct vfs_call *from_call, struct vfs_file *from_dir, struct vfs_name from, const struct vfs_call *to_call, struct vfs_file *to_dir,
			struct vfs_name to, struct vfs_wcc *from_wcc, struct vfs_wcc *to_wcc);
fiber_fn int vfs_link(const struct vfs_call *call, struct vfs_file *file, const struct vfs_call *dir_call, struct vfs_file *dir, struct vfs_name name,
		      struct vfs_attr *attr, bool *attr_valid, struct vfs_wcc *dir_wcc);

struct vfs_dirent {
	uint64_t fileid;
	uint64_t cookie;            /* resume after this entry; valid across changes and restarts */
	struct vfs_name name;       /* inside the list's memory */
	bool has_node;              /* READDIRPLUS: attributes and handle follow */
	struct vfs_node node;
};

struct vfs_dirlist {
	struct vfs_dirent *entries;
	unsigned count;
	bool eof;                   /* true only at the true end */
	uint8_t verf[8];            /* not derived from mtime */
};

/*
 * Entries after `cookie` (0: from the start, "." and ".." included), at least one unless eof, at most what about `bytes` of names want. plus: with
 * handles and attributes. -EBADCOOKIE stands as -ENOTNAM. Free the list with vfs_dirlist_free().
 */
fiber_fn int vfs_readdir(const struct vfs_call *call, struct vfs_file *dir, uint64_t cookie, const uint8_t verf[8], uint32_t bytes, bool plus,
			 struct vfs_dirlist **list, struct vfs_attr *dir_attr, bool *dir_attr_valid);
noyield_fn void vfs_dirlist_free(struct vfs_dirlist *list);

struct vfs_fsstat {
	uint64_t total_bytes, free_bytes, avail_bytes, total_files, free_files, avail_files;
};
fiber_fn int vfs_fsstat(const struct vfs_call *call, struct vfs_file *file, struct vfs_fsstat *st, struct vfs_attr *attr, bool *attr_valid);

struct vfs_fsinfo {
	uint64_t maxfilesize;
	uint32_t time_delta_ns;
	bool links, symlinks, homogeneous, can_set_time;
	uint32_t linkmax, name_max;
	bool no_trunc, chown_restricted, case_insensitive, case_preserving;
	uint32_t block;             /* dio_offset_align of the file system or its block size: for preferred sizes */
};
/* FSINFO and PATHCONF of RFC 1813: what the file system really has. */
fiber_fn int vfs_fsinfo(const struct vfs_call *call, struct vfs_file *file, struct vfs_fsinfo *info, struct vfs_attr *attr, bool *attr_valid);

#endif
