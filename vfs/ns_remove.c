/*
 * vfs/ns_remove.c - REMOVE, RMDIR, RENAME and LINK: what changes names of things that are there.
 *
 * The handle of what may lose its last link is taken before, inside dir_mutex, so that the open-file cache can be told afterwards. Rename takes the
 * dir_mutexes of both directories in order of address, and runs in the lane of the one it moves to. Rename and link need both ends on one mount: an end that was opened through an earlier struct export
 * of the same directory is opened again by its handle.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/pool.h"
#include "vfs/attr.h"
#include "vfs/export.h"
#include "vfs/fh.h"
#include "vfs/file.h"
#include "vfs/ns.h"
#include "vfs/ns_job.h"

struct remove_job {
	const struct vfs_call *call;
	struct ns_dir d;
	const char *name;
	int flags;           /* AT_REMOVEDIR */
	int err;
	struct vfs_fh victim;/* len 0: unknown */
	struct ns_sync sync;
};

static void remove_main(void *arg)
{
	struct remove_job *j = arg;
	struct vfs_file *dir = j->d.dir;

	ns_dir_begin(&j->d, dir);
	ns_sync_begin(&j->sync);
	if (vfs_fh_from_name(dir->export->id, dir->path_fd, j->name, &j->victim))
		j->victim.len = 0;
	j->err = unlinkat(dir->path_fd, j->name, j->flags) ? -errno : 0;
	ns_sync_end(&j->sync);
	ns_dir_end(&j->d);
	if (!j->err && !j->call->view->options.async)
		ns_sync_add_dir(&j->sync, dir);
}

/* dots: what "." and ".." are answered. */
static int check_old_name(const struct vfs_call *call, const struct vfs_file *dir, struct vfs_name name, char copy[VFS_NAME_MAX + 1], int dots)
{
	int err = ns_may_modify(call, dir);

	if (!err)
		err = ns_name_copy(name, copy);
	return err || !ns_name_is_dots(copy) ? err : dots;
}

static fiber_fn int remove_name(const struct vfs_call *call, struct vfs_file *dir, struct vfs_name name, int flags, struct vfs_wcc *dir_wcc)
{
	char copy[VFS_NAME_MAX + 1];
	struct remove_job j = { .call = call, .d.dir = dir, .name = copy, .flags = flags };
	int err = check_old_name(call, dir, name, copy, -EINVAL);

	if (err == -EINVAL && flags && name.len == 2 && !memcmp(name.data, "..", 2))
		err = -ENOTEMPTY;
	if (err) {
		ns_wcc_now(dir, dir_wcc);
		return err;
	}
	err = ns_change(&j.sync, dir, remove_main, &j, &call->cred);
	if (!j.err)
		j.err = err;
	ns_dir_wcc(&j.d, dir_wcc);
	if (!j.err && j.victim.len)
		vfs_file_removed(&j.victim);
	return ns_dir_error(&j.d, j.err);
}

fiber_fn int vfs_remove(const struct vfs_call *call, struct vfs_file *dir, struct vfs_name name, struct vfs_wcc *dir_wcc)
{
	return remove_name(call, dir, name, 0, dir_wcc);
}

fiber_fn int vfs_rmdir(const struct vfs_call *call, struct vfs_file *dir, struct vfs_name name, struct vfs_wcc *dir_wcc)
{
	return remove_name(call, dir, name, AT_REMOVEDIR, dir_wcc);
}

/* file's descriptor on export's mount: its own, or a new one (*opened) if it came through an earlier mount of the same directory. */
static pool_fn int fd_on_mount(const struct vfs_file *file, const struct export *export, int *opened)
{
	uint32_t fsuid;

	*opened = -1;
	if (file->export == export)
		return file->path_fd;
	fsuid = ns_server_begin();
	*opened = vfs_fh_open(&file->fh, export->mount_fd, O_PATH);
	ns_server_end(fsuid);
	return *opened;
}

struct rename_job {
	const struct vfs_call *call;
	struct ns_dir from, to;
	const char *from_name, *to_name;
	int err;
	struct vfs_fh victim;
	struct ns_sync sync;
};

static int rename_between(struct rename_job *j)
{
	const struct vfs_file *to = j->to.dir;
	int opened, err;
	const int from_fd = fd_on_mount(j->from.dir, to->export, &opened);

	if (from_fd < 0)
		return from_fd;
	if (vfs_fh_from_name(to->export->id, to->path_fd, j->to_name, &j->victim))
		j->victim.len = 0;
	err = renameat2(from_fd, j->from_name, to->path_fd, j->to_name, 0) ? -errno : 0;
	if (opened >= 0)
		close(opened);
	return err;
}

static void rename_main(void *arg)
{
	struct rename_job *j = arg;
	struct vfs_file *from = j->from.dir, *to = j->to.dir;

	ns_dir_begin_two(&j->from, from, &j->to, to);
	ns_sync_begin(&j->sync);
	j->err = rename_between(j);
	ns_sync_end(&j->sync);
	ns_dir_end_two(&j->from, &j->to);
	if (j->err || j->call->view->options.async)
		return;
	if (from != to)
		ns_sync_add_dir(&j->sync, from);
	ns_sync_add_dir(&j->sync, to);
}

/* Both ends' views are asked, and both ends must be one export. */
static int check_rename(const struct vfs_call *from_call, const struct vfs_file *from_dir, struct vfs_name from, char from_copy[VFS_NAME_MAX + 1],
			const struct vfs_call *to_call, const struct vfs_file *to_dir, struct vfs_name to, char to_copy[VFS_NAME_MAX + 1])
{
	int err = check_old_name(from_call, from_dir, from, from_copy, -EINVAL);

	if (!err)
		err = check_old_name(to_call, to_dir, to, to_copy, -EINVAL);
	return err || from_dir->export->id == to_dir->export->id ? err : -EXDEV;
}

fiber_fn int vfs_rename(const struct vfs_call *from_call, struct vfs_file *from_dir, struct vfs_name from, const struct vfs_call *to_call, struct vfs_file *to_dir,
			struct vfs_name to, struct vfs_wcc *from_wcc, struct vfs_wcc *to_wcc)
{
	char from_copy[VFS_NAME_MAX + 1], to_copy[VFS_NAME_MAX + 1];
	struct rename_job j = { .call = to_call, .from.dir = from_dir, .to.dir = to_dir, .from_name = from_copy, .to_name = to_copy };
	int err = check_rename(from_call, from_dir, from, from_copy, to_call, to_dir, to, to_copy);

	if (err) {
		ns_wcc_now(from_dir, from_wcc);
		ns_wcc_now(to_dir, to_wcc);
		return err;
	}
	err = ns_change(&j.sync, to_dir, rename_main, &j, &to_call->cred);
	if (!j.err)
		j.err = err;
	ns_dir_wcc(&j.from, from_wcc);
	ns_dir_wcc(&j.to, to_wcc);
	if (!j.err && j.victim.len)
		vfs_file_removed(&j.victim);
	return ns_dir_error(&j.from, ns_dir_error(&j.to, j.err));
}

struct link_job {
	const struct vfs_call *call;
	struct vfs_file *file;
	struct ns_dir d;
	const char *name;
	int err;
	bool attr_valid;
	struct statx stx;
	struct ns_sync sync;
};

static int link_into(struct link_job *j)
{
	char path[NS_PROC_PATH];
	int opened, err;
	const int fd = fd_on_mount(j->file, j->d.dir->export, &opened);

	if (fd < 0)
		return fd;
	ns_proc_path(fd, path);
	err = linkat(AT_FDCWD, path, j->d.dir->path_fd, j->name, AT_SYMLINK_FOLLOW) ? -errno : 0;
	if (opened >= 0)
		close(opened);
	return err;
}

static void link_main(void *arg)
{
	struct link_job *j = arg;

	ns_dir_begin(&j->d, j->d.dir);
	ns_sync_begin(&j->sync);
	j->err = link_into(j);
	ns_sync_end(&j->sync);
	ns_dir_end(&j->d);
	j->attr_valid = !statx(j->file->path_fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &j->stx);
	/* What has no link left cannot get one: its handle is stale, not the name missing. */
	if (j->err == -ENOENT && j->attr_valid && !j->stx.stx_nlink)
		j->err = -ESTALE;
	if (!j->err && !j->call->view->options.async)
		ns_sync_add_dir(&j->sync, j->d.dir);
}

fiber_fn int vfs_link(const struct vfs_call *call, struct vfs_file *file, const struct vfs_call *dir_call, struct vfs_file *dir, struct vfs_name name,
		      struct vfs_attr *attr, bool *attr_valid, struct vfs_wcc *dir_wcc)
{
	char copy[VFS_NAME_MAX + 1];
	struct link_job j = { .call = dir_call, .file = file, .d.dir = dir, .name = copy };
	int err = call->view->options.read_only ? -EROFS : check_old_name(dir_call, dir, name, copy, -EEXIST);

	if (!err && file->export->id != dir->export->id)
		err = -EXDEV;
	if (err) {
		*attr_valid = !vfs_getattr(file, attr);
		ns_wcc_now(dir, dir_wcc);
		return err;
	}
	err = ns_change(&j.sync, dir, link_main, &j, &dir_call->cred);
	if (!j.err)
		j.err = err;
	ns_dir_wcc(&j.d, dir_wcc);
	*attr_valid = j.attr_valid;
	if (j.attr_valid) {
		vfs_attr_from_statx(file->export, &j.stx, attr);
		vfs_attr_overlay(&file->fh, attr);
	}
	return ns_dir_error(&j.d, j.err);
}
