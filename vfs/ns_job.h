/* vfs/ns_job.h - what the namespace operations share: names, directories that change, results of a job, durability. Private to vfs/ns_*.c and vfs/setattr.c. */
#ifndef VFS_NS_JOB_H
#define VFS_NS_JOB_H

#include <bsd/sys/queue.h>
#include <sys/stat.h>

#include "runtime/pool.h"
#include "vfs/types.h"

struct vfs_file;
struct vfs_node;
struct export;

enum { NS_PROC_PATH = 32 };

/* 0 and a NUL-terminated copy; -EINVAL: empty, or with '/' or NUL; -ENAMETOOLONG. */
noyield_fn int ns_name_copy(struct vfs_name name, char copy[VFS_NAME_MAX + 1]);
noyield_fn bool ns_name_is_dots(const char *name);
/* "/proc/self/fd/N": for what the kernel does not do on an O_PATH descriptor. */
noyield_fn void ns_proc_path(int fd, char path[NS_PROC_PATH]);
/* The export's root, where ".." ends. */
noyield_fn bool ns_is_root(const struct vfs_file *dir);
/* One component, as O_PATH, a symbolic link as itself. -EACCES also for a mount where the export has no private copy. */
pool_fn int ns_open_child(const struct vfs_file *dir, const char *name);
/* Everything before the job: a directory, and a view that may be written. -ENOTDIR, -EROFS. */
noyield_fn int ns_may_modify(const struct vfs_call *call, const struct vfs_file *dir);

/* A directory around a change of its entries. */
struct ns_dir {
	struct vfs_file *dir;
	bool pre_valid, post_valid;
	struct statx pre, post;
};

/* Lock the directory against our own other changes and take its attributes; take them again and unlock. */
pool_fn void ns_dir_begin(struct ns_dir *d, struct vfs_file *dir);
pool_fn void ns_dir_end(struct ns_dir *d);
/* Two directories, perhaps the same one. */
pool_fn void ns_dir_begin_two(struct ns_dir *a, struct vfs_file *dir_a, struct ns_dir *b, struct vfs_file *dir_b);
pool_fn void ns_dir_end_two(struct ns_dir *a, struct ns_dir *b);
noyield_fn void ns_dir_wcc(const struct ns_dir *d, struct vfs_wcc *wcc);
/* A name that is missing because its directory was removed means a stale directory. */
noyield_fn int ns_dir_error(const struct ns_dir *d, int err);
/* For a call that fails before its job: only what the directory (or file) looks like now. */
fiber_fn void ns_wcc_now(struct vfs_file *file, struct vfs_wcc *wcc);

/* What a job found or made, until the fiber makes a vfs_node of it. */
struct ns_found {
	struct vfs_fh fh;
	struct statx stx;
};

pool_fn int ns_found_from_fd(const struct export *export, int fd, struct ns_found *found);
noyield_fn void ns_node_fill(const struct export *export, const struct ns_found *found, struct vfs_node *node);

/* Between these the thread has the server's own rights; groups stay. Returns what ns_server_end() wants. */
pool_fn uint32_t ns_server_begin(void);
pool_fn void ns_server_end(uint32_t fsuid);

/* An inode that a change changed. */
struct ns_sync_inode {
	struct vfs_file *dir;       /* or NULL, and fd is set */
	int fd;
	uint32_t type;              /* S_IFMT bits, if fd is only O_PATH */
	bool is_open;               /* fd can be synced as it is; the sync closes it */
};

enum { NS_SYNC_INODES = 2 };

/* A change on its way to stable storage: zeroed at first, in the frame of the fiber that waits. */
struct ns_sync {
	/* the operation's */
	struct export *export;
	uint64_t begun, ended;
	unsigned count;
	struct ns_sync_inode inodes[NS_SYNC_INODES];
	pool_main *fn;
	void *arg;
	struct pool_job *job;
	/* the thread's that syncs */
	bool covered;
	int err;
	/* protected by the export's sync_lock while it waits */
	TAILQ_ENTRY(ns_sync) link;
};

/* In the job: before its first change and after its last one. */
pool_fn void ns_sync_begin(struct ns_sync *s);
pool_fn void ns_sync_end(struct ns_sync *s);
/* What changed: at least one, the one that changed last comes last. Descriptors stay open until ns_change() returns; that of _open is closed by it. */
noyield_fn void ns_sync_add_dir(struct ns_sync *s, struct vfs_file *dir);
noyield_fn void ns_sync_add_path(struct ns_sync *s, int path_fd, uint32_t type);
noyield_fn void ns_sync_add_open(struct ns_sync *s, int fd);
/*
 * Run fn(arg), which changes file or, in its lane, a directory; then wait until what it added to *s (nothing: no wait) is durable. 0, or the sync's -errno:
 * fn's own result is in its arg.
 */
fiber_fn int ns_change(struct ns_sync *s, struct vfs_file *file, pool_main *fn, void *arg, const struct cred *cred);
/* The attributes that come with a new object, after it was made with its mode: owner (root only), times. *changed: something was set. */
pool_fn int ns_apply_new(int path_fd, const struct vfs_sattr *sattr, bool root, bool *changed);
/* utimensat's times of a sattr. False: both stay. */
noyield_fn bool ns_times(const struct vfs_sattr *sattr, struct timespec times[2]);

#endif
