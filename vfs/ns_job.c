/*
 * vfs/ns_job.c - what the namespace operations share.
 *
 * Each operation is one job in the pool under the caller's identity, on descriptors that the open-file cache holds. Attributes before and after a change are
 * those around it: dir_mutex of the directory is held meanwhile, in the pool thread, so no other call of ours comes between. A local process can, in the
 * microseconds between the first statx and the change; the kernel offers nothing to shut it out. wcc's `pre` is called valid all the same, as a client that
 * got none would have to drop what it knows of the directory after every change of its own.
 *
 * Changes of one directory are made in its lane of the pool, so that threads do not queue at the mutex; it is taken all the same, for a rename that has two of
 * them. Making the change durable comes after the job (vfs/ns_sync.c).
 */
#include "vfs/ns_job.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <unistd.h>

#include "vfs/attr.h"
#include "vfs/export.h"
#include "vfs/fh.h"
#include "vfs/file.h"
#include "vfs/ns.h"

noyield_fn int ns_name_copy(struct vfs_name name, char copy[VFS_NAME_MAX + 1])
{
	if (!name.len)
		return -EINVAL;
	if (name.len > VFS_NAME_MAX)
		return -ENAMETOOLONG;
	if (memchr(name.data, '/', name.len) || memchr(name.data, 0, name.len))
		return -EINVAL;
	memcpy(copy, name.data, name.len);
	copy[name.len] = 0;
	return 0;
}

noyield_fn bool ns_name_is_dots(const char *name)
{
	return !strcmp(name, ".") || !strcmp(name, "..");
}

noyield_fn void ns_proc_path(int fd, char path[NS_PROC_PATH])
{
	snprintf(path, NS_PROC_PATH, "/proc/self/fd/%d", fd);
}

noyield_fn int ns_may_modify(const struct vfs_call *call, const struct vfs_file *dir)
{
	if (!S_ISDIR(dir->type))
		return -ENOTDIR;
	return call->view->options.read_only ? -EROFS : 0;
}

static bool stat_now(int fd, struct statx *stx)
{
	return !statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, stx);
}

pool_fn void ns_dir_begin(struct ns_dir *d, struct vfs_file *dir)
{
	d->dir = dir;
	pthread_mutex_lock(&dir->dir_mutex);
	d->pre_valid = stat_now(dir->path_fd, &d->pre);
}

pool_fn void ns_dir_end(struct ns_dir *d)
{
	d->post_valid = stat_now(d->dir->path_fd, &d->post);
	pthread_mutex_unlock(&d->dir->dir_mutex);
}

pool_fn void ns_dir_begin_two(struct ns_dir *a, struct vfs_file *dir_a, struct ns_dir *b, struct vfs_file *dir_b)
{
	if ((uintptr_t)dir_a > (uintptr_t)dir_b) {
		ns_dir_begin_two(b, dir_b, a, dir_a);
		return;
	}
	ns_dir_begin(a, dir_a);
	if (dir_a != dir_b)
		ns_dir_begin(b, dir_b);
	else
		*b = *a;
}

pool_fn void ns_dir_end_two(struct ns_dir *a, struct ns_dir *b)
{
	ns_dir_end(a);
	if (a->dir != b->dir)
		ns_dir_end(b);
	else
		*b = *a;
}

noyield_fn void ns_dir_wcc(const struct ns_dir *d, struct vfs_wcc *wcc)
{
	struct vfs_attr pre;

	wcc->pre_valid = d->pre_valid;
	wcc->post_valid = d->post_valid;
	if (d->pre_valid) {
		vfs_attr_from_statx(d->dir->export, &d->pre, &pre);
		wcc->pre.size = pre.size;
		wcc->pre.mtime = pre.mtime;
		wcc->pre.ctime = pre.ctime;
	}
	if (d->post_valid)
		vfs_attr_from_statx(d->dir->export, &d->post, &wcc->post);
}

noyield_fn int ns_dir_error(const struct ns_dir *d, int err)
{
	return err == -ENOENT && d->post_valid && !d->post.stx_nlink ? -ESTALE : err;
}

fiber_fn void ns_wcc_now(struct vfs_file *file, struct vfs_wcc *wcc)
{
	wcc->pre_valid = false;
	wcc->post_valid = !vfs_getattr(file, &wcc->post);
}

pool_fn int ns_found_from_fd(const struct export *export, int fd, struct ns_found *found)
{
	const int err = vfs_fh_from_fd(export->id, fd, &found->fh);

	if (err)
		return err;
	return stat_now(fd, &found->stx) ? 0 : -errno;
}

noyield_fn void ns_node_fill(const struct export *export, const struct ns_found *found, struct vfs_node *node)
{
	node->fh = found->fh;
	vfs_attr_from_statx(export, &found->stx, &node->attr);
	vfs_attr_overlay(&node->fh, &node->attr);
}

pool_fn uint32_t ns_server_begin(void)
{
	return setfsuid(geteuid());
}

pool_fn void ns_server_end(uint32_t fsuid)
{
	setfsuid(fsuid);
}

static struct timespec time_for_utimens(enum vfs_time_how how, struct timespec t)
{
	static const long special[] = { [VFS_TIME_KEEP] = UTIME_OMIT, [VFS_TIME_SERVER] = UTIME_NOW };

	return how == VFS_TIME_CLIENT ? t : (struct timespec){ .tv_nsec = special[how] };
}

noyield_fn bool ns_times(const struct vfs_sattr *sattr, struct timespec times[2])
{
	times[0] = time_for_utimens(sattr->set_atime, sattr->atime);
	times[1] = time_for_utimens(sattr->set_mtime, sattr->mtime);
	return sattr->set_atime != VFS_TIME_KEEP || sattr->set_mtime != VFS_TIME_KEEP;
}

/* As knfsd: an owner or group that somebody else than root sends along is what the server gives the object anyway, or wrong. */
pool_fn int ns_apply_new(int path_fd, const struct vfs_sattr *sattr, bool root, bool *changed)
{
	const uid_t uid = sattr->set_uid ? sattr->uid : (uid_t)-1;
	const gid_t gid = sattr->set_gid ? sattr->gid : (gid_t)-1;
	const bool chown_wanted = root && (sattr->set_uid || sattr->set_gid);
	struct timespec times[2];
	const bool times_wanted = ns_times(sattr, times);

	*changed = chown_wanted || times_wanted;
	if (chown_wanted && fchownat(path_fd, "", uid, gid, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW))
		return -errno;
	if (times_wanted && utimensat(path_fd, "", times, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW))
		return -errno;
	return 0;
}
