/* vfs/types.h - the plain values that the file system layer and the protocol procedures exchange. No pointers to owned memory but names. */
#ifndef VFS_TYPES_H
#define VFS_TYPES_H

#include <time.h>

#include "runtime/base.h"
#include "runtime/cred.h"

struct export_view;

enum { VFS_FH_MAX = 56, VFS_NAME_MAX = 255, VFS_PATH_MAX = 4096 };

/* A file handle as clients hold it (see vfs/fh.h for its layout). */
struct vfs_fh {
	uint8_t len;
	uint8_t data[VFS_FH_MAX];
};

/* A name in a directory: not NUL-terminated, owned by the request. */
struct vfs_name {
	const char *data;
	uint32_t len;
};

struct vfs_attr {
	uint32_t type_mode;      /* S_IFMT and permission bits */
	uint32_t nlink, uid, gid;
	uint64_t size;           /* logical: staged data counts */
	uint64_t used;           /* bytes of space */
	uint32_t rdev_major, rdev_minor;
	uint64_t fsid;           /* the export's file system, stable across remount */
	uint64_t fileid;
	struct timespec atime, mtime, ctime;
	uint64_t change;         /* strictly rising with every change (RFC 8881 5.8.1.4) */
};

/* Attributes around an operation. pre is valid only if taken atomically with it. */
struct vfs_wcc {
	bool pre_valid, post_valid;
	struct { uint64_t size; struct timespec mtime, ctime; } pre;
	struct vfs_attr post;
};

enum vfs_time_how { VFS_TIME_KEEP, VFS_TIME_SERVER, VFS_TIME_CLIENT };

struct vfs_sattr {
	bool set_mode, set_uid, set_gid, set_size;
	enum vfs_time_how set_atime, set_mtime;
	uint32_t mode, uid, gid;
	uint64_t size;
	struct timespec atime, mtime;
};

/* Who asks, through which export: made by the server once per call (export_view_get(), export_map_cred()). */
struct vfs_call {
	const struct export_view *view; /* the export as this client may use it; referenced by the call */
	struct cred cred;               /* after squashing */
	uint64_t client;                /* the same number for all calls from one address */
};

#endif
