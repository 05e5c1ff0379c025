/*
 * vfs/ns_lookup.c - LOOKUP, ACCESS and READLINK.
 *
 * A look-up is one component, with the kernel told not to leave the mount and not to follow a symbolic link. On the export's private copy of the mount
 * (vfs/export.c) nothing is mounted, so what another file system covers is found as it lies there, as knfsd without crossmnt shows it. Where there is no private
 * copy, a mount is -EACCES (logged once), and so is ".." below the root, which could lead past an export that a directory was moved out of.
 *
 * On a local file system the reactor tries first: RESOLVE_CACHED makes the kernel answer from its dentry cache (names that are not there included) or not
 * at all, and what stands there has its inode in memory. The reactor is the server's own identity, so the right to search the directory is judged here, as for ACCESS.
 */
#include <assert.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/counter.h"
#include "runtime/io.h"
#include "runtime/log.h"
#include "runtime/pool.h"
#include "vfs/access.h"
#include "vfs/attr.h"
#include "vfs/export.h"
#include "vfs/fh.h"
#include "vfs/file.h"
#include "vfs/ns.h"
#include "vfs/ns_job.h"

COUNTER_DEFINE(counter_in_memory, "ns.lookups_in_memory");

/* RFC 1813 section 3.3.4 */
enum access3 { ACCESS_READ = 1, ACCESS_LOOKUP = 2, ACCESS_MODIFY = 4, ACCESS_EXTEND = 8, ACCESS_DELETE = 16, ACCESS_EXECUTE = 32 };

struct lookup_job {
	struct vfs_file *dir;
	const char *name;
	int err;
	uint64_t resolve;
	int fd;              /* O_PATH, or < 0 */
	struct ns_found found;
	bool dir_valid;
	struct statx dir_stx;
};

static int crossed_mount(const struct vfs_file *dir)
{
	static struct log_limit limit;

	log_limited(&limit, LOG_LEVEL_NOTICE, "export %s: another file system is mounted below it; clients get ACCES for its mount point", dir->export->path);
	return -EACCES;
}

static int open_child(const struct vfs_file *dir, const char *name, uint64_t resolve)
{
	const struct open_how how = {
		.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
		.resolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS | resolve,
	};
	const long fd = syscall(SYS_openat2, dir->path_fd, name, &how, sizeof(how));

	if (fd >= 0)
		return fd;
	return errno == EXDEV ? crossed_mount(dir) : -errno;
}

pool_fn int ns_open_child(const struct vfs_file *dir, const char *name)
{
	return open_child(dir, name, 0);
}

static void lookup_main(void *arg)
{
	struct lookup_job *j = arg;

	j->fd = open_child(j->dir, j->name, j->resolve);
	j->err = j->fd < 0 ? j->fd : ns_found_from_fd(j->dir->export, j->fd, &j->found);
	j->dir_valid = !statx(j->dir->path_fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &j->dir_stx);
	if (j->err == -ENOENT && j->dir_valid && !j->dir_stx.stx_nlink)
		j->err = -ESTALE;
}

/* False: only the pool can tell. */
static bool lookup_in_memory(const struct vfs_call *call, struct lookup_job *j)
{
	struct vfs_attr attr;

	j->dir_valid = j->dir->local_fs && !io_fstatx(j->dir->path_fd, STATX_BASIC_STATS, &j->dir_stx);
	if (!j->dir_valid)
		return false;
	vfs_attr_from_statx(j->dir->export, &j->dir_stx, &attr);
	j->err = vfs_may(call, j->dir, &attr, MAY_EXEC);
	if (j->err)
		return j->err == -EACCES;
	j->resolve = RESOLVE_CACHED;
	lookup_main(j);
	counter_add(&counter_in_memory, j->err != -EAGAIN);
	return j->err != -EAGAIN;
}

static fiber_fn int lookup_child(const struct vfs_call *call, struct vfs_file *dir, const char *name, struct vfs_node *node, struct vfs_attr *dir_attr,
				 bool *dir_attr_valid)
{
	struct lookup_job j = { .dir = dir, .name = name, .fd = -1 };

	if (!lookup_in_memory(call, &j)) {
		j.resolve = 0;
		pool_run(lookup_main, &j, &call->cred);
	}
	*dir_attr_valid = j.dir_valid;
	if (j.dir_valid)
		vfs_attr_from_statx(dir->export, &j.dir_stx, dir_attr);
	if (!j.err)
		ns_node_fill(dir->export, &j.found, node);
	if (!j.err)
		vfs_file_adopt(dir->export, &j.found.fh, j.fd, &j.found.stx);
	else if (j.fd >= 0)
		io_close(j.fd);
	return j.err;
}

/* "." anywhere, ".." at the root: who may search the directory gets the directory itself. */
static int lookup_self(const struct vfs_call *call, struct vfs_file *dir, struct vfs_node *node, struct vfs_attr *dir_attr, bool *dir_attr_valid)
{
	const int err = vfs_getattr(dir, dir_attr);

	*dir_attr_valid = !err;
	if (err)
		return err;
	node->fh = dir->fh;
	node->attr = *dir_attr;
	return vfs_may(call, dir, dir_attr, MAY_EXEC);
}

noyield_fn bool ns_is_root(const struct vfs_file *dir)
{
	return dir->fileid == dir->export->root_ino && vfs_fh_equal(&dir->fh, &dir->export->root_fh);
}

fiber_fn int vfs_lookup(const struct vfs_call *call, struct vfs_file *dir, struct vfs_name name, struct vfs_node *node, struct vfs_attr *dir_attr, bool *dir_attr_valid)
{
	char copy[VFS_NAME_MAX + 1];
	int err = S_ISDIR(dir->type) ? ns_name_copy(name, copy) : -ENOTDIR;

	if (err) {
		*dir_attr_valid = !vfs_getattr(dir, dir_attr);
		return err;
	}
	if (!strcmp(copy, ".") || (!strcmp(copy, "..") && ns_is_root(dir)))
		return lookup_self(call, dir, node, dir_attr, dir_attr_valid);
	if (!strcmp(copy, "..") && !dir->export->private_mount) {
		*dir_attr_valid = !vfs_getattr(dir, dir_attr);
		return -EACCES;
	}
	return lookup_child(call, dir, copy, node, dir_attr, dir_attr_valid);
}

enum { ACCESS_BITS = 6 };

/* What each bit asks for, in the order of the bits; 0: nothing to grant. As knfsd: entries are made and removed by who may write and search the directory. */
static const unsigned directory_may[ACCESS_BITS] = { MAY_READ, MAY_EXEC, MAY_WRITE | MAY_EXEC, MAY_WRITE | MAY_EXEC, MAY_WRITE | MAY_EXEC, 0 };
static const unsigned file_may[ACCESS_BITS] = { MAY_READ, 0, MAY_WRITE, MAY_WRITE, 0, MAY_EXEC };
static_assert(ACCESS_READ == 1 && ACCESS_LOOKUP == 2 && ACCESS_MODIFY == 4 && ACCESS_EXTEND == 8 && ACCESS_DELETE == 16 && ACCESS_EXECUTE == 32, "bits in order");

static uint32_t meaningful_bits(const unsigned may[ACCESS_BITS])
{
	uint32_t bits = 0;

	for (unsigned i = 0; i < ACCESS_BITS; i++)
		bits |= (uint32_t)(may[i] != 0) << i;
	return bits;
}

fiber_fn int vfs_access(const struct vfs_call *call, struct vfs_file *file, uint32_t want, uint32_t *granted, struct vfs_attr *attr)
{
	const unsigned *may = S_ISDIR(file->type) ? directory_may : file_may;
	int err = vfs_getattr(file, attr);

	*granted = 0;
	if (!err)
		err = vfs_may_each(call, file, attr, may, ACCESS_BITS, granted);
	*granted &= want & meaningful_bits(may);
	return err;
}

struct readlink_job {
	int fd;
	char *target;
	ssize_t len;
	bool attr_valid;
	struct statx stx;
};

static void readlink_main(void *arg)
{
	struct readlink_job *j = arg;

	j->len = readlinkat(j->fd, "", j->target, VFS_PATH_MAX);
	if (j->len < 0)
		j->len = -errno;
	j->attr_valid = !statx(j->fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &j->stx);
}

fiber_fn int vfs_readlink(const struct vfs_call *call, struct vfs_file *file, char *target, uint32_t *len, struct vfs_attr *attr, bool *attr_valid)
{
	struct readlink_job j = { .fd = file->path_fd, .target = target };

	if (!S_ISLNK(file->type)) {
		*attr_valid = !vfs_getattr(file, attr);
		return -EINVAL;
	}
	pool_run(readlink_main, &j, &call->cred);
	*attr_valid = j.attr_valid;
	if (j.attr_valid)
		vfs_attr_from_statx(file->export, &j.stx, attr);
	if (j.len < 0)
		return j.len;
	*len = j.len;
	return 0;
}
