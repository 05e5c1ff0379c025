/*
 * vfs/attr.c - attributes: statx's, and over them what this server has in hand of the file.
 *
 * On a local file system an open file's inode is in memory, so statx runs on the reactor; elsewhere it may wait for a daemon or another machine and goes
 * through the pool, together with the ACL, which vfs_may() then finds in memory. Where a file has a mapping, only attributes that were fetched just now are laid
 * under it: older ones could look like somebody else's change.
 */
#include "vfs/attr.h"

#include <fcntl.h>
#include <stdlib.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "iocache/mapping.h"
#include "runtime/io.h"
#include "runtime/pool.h"
#include "vfs/export.h"
#include "vfs/file.h"

enum { ACL_BYTES_MAX = 65536 };

static struct timespec timespec_from_statx(const struct statx_timestamp *t)
{
	return (struct timespec){ .tv_sec = t->tv_sec, .tv_nsec = t->tv_nsec };
}

/* ctime moves with every change, and the mapping sees to it that it moves inside one clock tick too. */
static uint64_t change_from_ctime(struct timespec ctime)
{
	return (uint64_t)ctime.tv_sec * 1000000000 + (uint64_t)ctime.tv_nsec;
}

noyield_fn void vfs_attr_from_statx(const struct export *export, const struct statx *stx, struct vfs_attr *attr)
{
	*attr = (struct vfs_attr){
		.type_mode = stx->stx_mode,
		.nlink = stx->stx_nlink,
		.uid = stx->stx_uid,
		.gid = stx->stx_gid,
		.size = stx->stx_size,
		.used = stx->stx_blocks * 512,
		.rdev_major = stx->stx_rdev_major,
		.rdev_minor = stx->stx_rdev_minor,
		.fsid = export->fsid,
		.fileid = stx->stx_ino,
		.atime = timespec_from_statx(&stx->stx_atime),
		.mtime = timespec_from_statx(&stx->stx_mtime),
		.ctime = timespec_from_statx(&stx->stx_ctime),
	};
	attr->change = change_from_ctime(attr->ctime);
}

/* What mapping_look() says before the statx; 0 is no look. */
static uint64_t look_first(const struct vfs_file *file)
{
	struct mapping *mapping = vfs_file_mapping(file);

	return mapping ? mapping_look(mapping) : 0;
}

static void attr_from_file(struct vfs_file *file, uint64_t look, const struct statx *stx, struct vfs_attr *attr)
{
	struct mapping *mapping = vfs_file_mapping(file);
	struct mapping_attr staged;

	vfs_attr_from_statx(file->export, stx, attr);
	if (!mapping)
		return;
	mapping_attr(mapping, look, stx, &staged);
	attr->size = staged.size;
	attr->mtime = staged.mtime;
	attr->ctime = staged.ctime;
	attr->change = change_from_ctime(staged.ctime);
}

struct getattr_job {
	int fd;
	int err;
	struct statx stx;
	void *acl;
	ssize_t acl_len;
};

static void getattr_main(void *arg)
{
	struct getattr_job *j = arg;
	char path[32];

	j->err = statx(j->fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | IO_STATX_ALIGN, &j->stx) ? -errno : 0;
	if (j->err)
		return;
	j->acl = malloc(ACL_BYTES_MAX);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", j->fd);
	if (j->acl && !S_ISLNK(j->stx.stx_mode))
		j->acl_len = getxattr(path, "system.posix_acl_access", j->acl, ACL_BYTES_MAX);
	if (j->acl_len > 0)
		return;
	free(j->acl);
	j->acl = NULL;
	j->acl_len = 0;
}

static int getattr_in_pool(struct vfs_file *file, struct statx *stx)
{
	struct getattr_job j = { .fd = file->path_fd };

	pool_run(getattr_main, &j, NULL);
	if (j.err)
		return j.err;
	vfs_file_acl_set(file, j.acl, j.acl_len);
	*stx = j.stx;
	return 0;
}

fiber_fn int vfs_getattr(struct vfs_file *file, struct vfs_attr *attr)
{
	const uint64_t look = look_first(file);
	struct statx stx;
	int err = file->local_fs ? io_fstatx(file->path_fd, STATX_BASIC_STATS | IO_STATX_ALIGN, &stx) : getattr_in_pool(file, &stx);

	if (!err && !stx.stx_nlink)
		err = -ESTALE;
	if (!err)
		attr_from_file(file, look, &stx, attr);
	return err;
}

noyield_fn void vfs_attr_overlay(const struct vfs_fh *fh, struct vfs_attr *attr)
{
	struct vfs_file *file = S_ISREG(attr->type_mode) ? vfs_file_peek_mapped(fh) : NULL;
	struct statx stx;
	uint64_t look;

	if (!file)
		return;
	look = look_first(file);
	if (file->local_fs && !io_fstatx(file->path_fd, STATX_BASIC_STATS, &stx))
		attr_from_file(file, look, &stx, attr);
	vfs_file_put(file);
}
