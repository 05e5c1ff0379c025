/*
 * vfs/ns_fsinfo.c - FSSTAT, FSINFO and PATHCONF: what the file system under a file really has and can.
 *
 * Space and names come from statfs, the number of links from pathconf(3), which knows file systems by their type.
 */
#include <fcntl.h>
#include <linux/magic.h>
#include <stdint.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "runtime/pool.h"
#include "vfs/attr.h"
#include "vfs/export.h"
#include "vfs/file.h"
#include "vfs/ns.h"
#include "vfs/ns_job.h"

enum { EXFAT_MAGIC = 0x2011bab0, NAME_MAX_DEFAULT = 255, LINK_MAX_DEFAULT = 32000 };

struct fs_job {
	int fd;
	int err;
	struct statfs fs;
	long linkmax;
	bool attr_valid;
	struct statx stx;
};

static void fs_main(void *arg)
{
	struct fs_job *j = arg;
	char path[NS_PROC_PATH];

	j->err = fstatfs(j->fd, &j->fs) ? -errno : 0;
	ns_proc_path(j->fd, path);
	j->linkmax = pathconf(path, _PC_LINK_MAX);
	j->attr_valid = !statx(j->fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &j->stx);
}

static fiber_fn void fs_ask(struct fs_job *j, struct vfs_file *file, struct vfs_attr *attr, bool *attr_valid)
{
	j->fd = file->path_fd;
	pool_run(fs_main, j, NULL);
	*attr_valid = j->attr_valid;
	if (!j->attr_valid)
		return;
	vfs_attr_from_statx(file->export, &j->stx, attr);
	vfs_attr_overlay(&file->fh, attr);
}

fiber_fn int vfs_fsstat(const struct vfs_call *call, struct vfs_file *file, struct vfs_fsstat *st, struct vfs_attr *attr, bool *attr_valid)
{
	struct fs_job j = { 0 };
	uint64_t unit;

	fs_ask(&j, file, attr, attr_valid);
	if (j.err)
		return j.err;
	unit = j.fs.f_frsize ? j.fs.f_frsize : j.fs.f_bsize;
	*st = (struct vfs_fsstat){
		.total_bytes = j.fs.f_blocks * unit,
		.free_bytes = j.fs.f_bfree * unit,
		.avail_bytes = j.fs.f_bavail * unit,
		.total_files = j.fs.f_files,
		.free_files = j.fs.f_ffree,
		.avail_files = j.fs.f_ffree,
	};
	return 0;
}

/* FAT's kind: no links of either sort, names alike in either case. */
static bool is_fat(const struct statfs *fs)
{
	return (uint32_t)fs->f_type == MSDOS_SUPER_MAGIC || (uint32_t)fs->f_type == EXFAT_MAGIC;
}

fiber_fn int vfs_fsinfo(const struct vfs_call *call, struct vfs_file *file, struct vfs_fsinfo *info, struct vfs_attr *attr, bool *attr_valid)
{
	struct fs_job j = { 0 };
	bool fat;

	fs_ask(&j, file, attr, attr_valid);
	if (j.err)
		return j.err;
	fat = is_fat(&j.fs);
	*info = (struct vfs_fsinfo){
		.maxfilesize = file->export->max_file_bytes,
		.time_delta_ns = fat ? 10000000 : 1,
		.links = !fat,
		.symlinks = !fat,
		.homogeneous = true,
		.can_set_time = true,
		.linkmax = fat ? 1 : j.linkmax > 0 ? min_u64(j.linkmax, UINT32_MAX) : LINK_MAX_DEFAULT,
		.name_max = j.fs.f_namelen ? min_u64(j.fs.f_namelen, VFS_NAME_MAX) : NAME_MAX_DEFAULT,
		.no_trunc = true,
		.chown_restricted = true,
		.case_insensitive = fat,
		.case_preserving = true,
		.block = j.fs.f_frsize ? j.fs.f_frsize : j.fs.f_bsize,
	};
	return 0;
}
