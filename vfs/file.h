/*
 * vfs/file.h - the open-file cache: one struct vfs_file per handle in use, with its descriptors and, for regular files, its mapping.
 *
 * A vfs_file is refcounted: a call holds a reference while it works on it, the flusher holds one while dirty data exists. The cache keeps unreferenced
 * ones on an LRU within file_cache_max; closing happens in the pool. Descriptors are opened by the server's own identity (open_by_handle_at needs
 * it); whether the *caller* may is vfs/access.h's decision for data operations, and the kernel's own for namespace operations, which run under the
 * caller's identity in the pool.
 */
#ifndef VFS_FILE_H
#define VFS_FILE_H

#include <bsd/sys/queue.h>

#include "runtime/pool.h"
#include "runtime/sync.h"
#include "vfs/types.h"

struct mapping;
struct export;
struct statx;

struct vfs_file {
	/* immutable after insertion */
	struct vfs_fh fh;
	struct export *export;     /* referenced */
	uint32_t type;             /* S_IFMT bits */
	uint64_t fileid;
	int path_fd;               /* O_PATH */
	bool local_fs;             /* statx on the reactor cannot wait (not FUSE, NFS, CIFS ...) */

	/* directories, pool threads only: makes a change and the attributes before and after it one (wcc); two are taken in order of address */
	pthread_mutex_t dir_mutex;
	/* directories: changes queue here, so that pool threads do not queue at the mutex */
	struct pool_lane lane;
	/* directories, the sync job of the export only (one at a time): for fsync, or -1; the last round that synced it */
	int sync_fd;
	uint64_t synced_round;
	/* one SETATTR at a time: ctime guard, change and attributes belong together; taken before open_mutex */
	struct fiber_mutex setattr_mutex;
	/* atomic: changes of data or size by this server: begun ones above bit 32, running ones below; so SETATTR knows whether its wcc is its own */
	_Atomic uint64_t data_changes;

	/* atomic: local_fs: the kernel has the ACL in memory, so that asking for it on the reactor cannot wait */
	_Atomic bool acl_warm;

	/* protected by open_mutex; immutable once set, until the last put */
	struct fiber_mutex open_mutex;
	bool io_open;
	bool io_read_only;         /* the file system or file cannot be opened for writing */
	int direct_fd;             /* O_DIRECT, or -1: the file system has no direct I/O */
	int buffered_fd;           /* same file, page cache */
	struct mapping *mapping;   /* owned; read without the lock through vfs_file_mapping() */

	/* protected by the cache's lock */
	unsigned refs;
	unsigned mapping_refs;     /* those of the above that the mapping holds */
	unsigned descriptors;      /* it has, or may come to have */
	bool removed;              /* no links left: goes with its last reference */
	bool superseded;           /* of a file system in whose place there is another now: not found, goes with its last reference */
	void *acl;                 /* not local_fs: system.posix_acl_access as of the last vfs_getattr(), or NULL */
	size_t acl_len;
	TAILQ_ENTRY(vfs_file) lru;
	TAILQ_ENTRY(vfs_file) hash;
	uint64_t last_used_ns, flushed_ns;
	uint64_t read_only_until_ns; /* io_read_only: leaves the cache when unused after this, 0: not so */
};

enum { VFS_FILE_DESCRIPTORS_MAX = 3 };
/*
 * files_max bounds open vfs_files, unreferenced included, and descriptors_max what they have open together: one for a file that is only known, three for one that
 * is read or written. -EMFILE or -ENFILE from the kernel evict and retry. -EMFILE here: not even one file could be open.
 */
int vfs_file_cache_init(unsigned files_max, unsigned descriptors_max);
/* Writes back, syncs and closes everything; at a clean stop, on a fiber. */
fiber_fn void vfs_file_cache_drain(void);
void vfs_file_cache_fini(void);

/* The file of fh within call's export view: -ESTALE, -EBADF (bad handle), -EMFILE ... Referenced. */
fiber_fn int vfs_file_get(const struct vfs_call *call, const struct vfs_fh *fh, struct vfs_file **file);
noyield_fn void vfs_file_put(struct vfs_file *file);
noyield_fn struct vfs_file *vfs_file_ref(struct vfs_file *file);
/* Look only in the cache: NULL if not there. Referenced. */
noyield_fn struct vfs_file *vfs_file_peek(const struct vfs_fh *fh);
/* The same, but only a file with a mapping. */
noyield_fn struct vfs_file *vfs_file_peek_mapped(const struct vfs_fh *fh);
/*
 * What a look-up found goes into the cache, where the client will soon ask for it: path_fd (O_PATH, taken over in any case), fh, attributes. It takes the place of
 * files without a mapping only.
 */
noyield_fn void vfs_file_adopt(struct export *export, const struct vfs_fh *fh, int path_fd, const struct statx *stx);
/* Open the descriptors and make the mapping of a regular file, once. -EISDIR, -EINVAL (not regular), -EROFS only on use for write. */
fiber_fn int vfs_file_open_io(struct vfs_file *file);
/* NULL while I/O was never opened. */
noyield_fn struct mapping *vfs_file_mapping(const struct vfs_file *file);
/*
 * The ACL kept for a file that is not on a local file system, where fetching it could wait: set (memory taken over, NULL: none) when attributes are fetched.
 * copy: its length, 0: none, -ERANGE: larger than size.
 */
noyield_fn void vfs_file_acl_set(struct vfs_file *file, void *acl, size_t len);
noyield_fn ssize_t vfs_file_acl_copy(const struct vfs_file *file, void *acl, size_t size);
#define VFS_CHANGE_BEGUN ((uint64_t)1 << 32) /* one begun change in data_changes */
/* Bracket a change of data or size that a client asked for. */
noyield_fn void vfs_file_change_begin(struct vfs_file *file);
noyield_fn void vfs_file_change_end(struct vfs_file *file);
/* Close what nobody has used for idle_ns (the reaper's work; tests). */
noyield_fn void vfs_file_reap(uint64_t idle_ns);
/* Forget a file that was removed: dirty data need not be written when it has no links left; called after unlink. */
fiber_fn void vfs_file_removed(const struct vfs_fh *fh);

#endif
