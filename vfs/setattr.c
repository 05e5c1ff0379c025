/*
 * vfs/setattr.c - SETATTR, and what a write does to a mode.
 *
 * In knfsd's order: the size first, through the mapping, which alone may change it under data in hand; permission for it is ours to judge, with the owner's
 * override. Then owner, mode and times in one job under the caller's identity, where the kernel judges. What is staged is written out before,
 * so that no later flush moves times that the client set. setattr_mutex makes guard, change and attributes one towards other SETATTRs.
 *
 * wcc: a directory's `pre` is taken inside dir_mutex as in all namespace operations; another file's is valid if nobody changed data or size through this
 * server meanwhile (vfs_file.data_changes), for a client must not take another's WRITE for part of its own SETATTR.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "iocache/mapping.h"
#include "runtime/pool.h"
#include "vfs/access.h"
#include "vfs/attr.h"
#include "vfs/data.h"
#include "vfs/export.h"
#include "vfs/file.h"
#include "vfs/ns.h"
#include "vfs/ns_job.h"

enum { MODE_BITS = 07777 };

struct setattr_job {
	const struct vfs_call *call;
	struct vfs_file *file;
	const struct vfs_sattr *sattr;
	struct ns_dir d;     /* directories */
	int err;
	struct ns_sync sync;
};

/* As knfsd: who changes the owner and sets a mode in one call does not get set-ID bits along with it. */
static mode_t mode_to_set(const struct setattr_job *j)
{
	const struct vfs_sattr *s = j->sattr;
	mode_t mode = s->mode & MODE_BITS;

	if (S_ISDIR(j->file->type) || !(s->set_uid || s->set_gid))
		return mode;
	mode &= ~S_ISUID;
	return mode & S_IXGRP ? mode & ~S_ISGID : mode;
}

static int set_mode(const struct setattr_job *j)
{
	char path[NS_PROC_PATH];

	/* A symbolic link's mode means nothing; knfsd ignores it too. */
	if (!j->sattr->set_mode || S_ISLNK(j->file->type))
		return 0;
	ns_proc_path(j->file->path_fd, path);
	return fchmodat(AT_FDCWD, path, mode_to_set(j), 0) ? -errno : 0;
}

static int set_all(const struct setattr_job *j)
{
	const struct vfs_sattr *s = j->sattr;
	const int fd = j->file->path_fd;
	struct timespec times[2];
	int err;

	if ((s->set_uid || s->set_gid) && fchownat(fd, "", s->set_uid ? s->uid : (uid_t)-1, s->set_gid ? s->gid : (gid_t)-1, AT_EMPTY_PATH))
		return -errno;
	err = set_mode(j);
	if (err)
		return err;
	return ns_times(s, times) && utimensat(fd, "", times, AT_EMPTY_PATH) ? -errno : 0;
}

static void setattr_main(void *arg)
{
	struct setattr_job *j = arg;
	const bool is_dir = S_ISDIR(j->file->type);

	ns_sync_begin(&j->sync);
	if (is_dir)
		ns_dir_begin(&j->d, j->file);
	j->err = set_all(j);
	if (is_dir)
		ns_dir_end(&j->d);
	ns_sync_end(&j->sync);
	if (j->err || j->call->view->options.async)
		return;
	if (is_dir)
		ns_sync_add_dir(&j->sync, j->file);
	else
		ns_sync_add_path(&j->sync, j->file->path_fd, j->file->type);
}

static bool anything_but_size(const struct vfs_sattr *s)
{
	return s->set_mode || s->set_uid || s->set_gid || s->set_atime != VFS_TIME_KEEP || s->set_mtime != VFS_TIME_KEEP;
}

static fiber_fn int set_size(const struct vfs_call *call, struct vfs_file *file, const struct vfs_attr *attr, uint64_t size)
{
	int err;

	if (!S_ISREG(file->type))
		return S_ISDIR(file->type) ? -EISDIR : -EINVAL;
	err = vfs_may(call, file, attr, MAY_WRITE | MAY_OWNER_OVERRIDE);
	if (!err && call->cred.uid)
		err = vfs_kill_suid(file, attr);
	return err ? err : vfs_truncate(file, size);
}

static fiber_fn int set_rest(struct setattr_job *j)
{
	struct mapping *mapping = vfs_file_mapping(j->file);
	int err = mapping ? mapping_writeout(mapping) : 0;

	if (err)
		return err;
	err = ns_change(&j->sync, j->file, setattr_main, j, &j->call->cred);
	return j->err ? j->err : err;
}

static int check(const struct vfs_call *call, const struct vfs_sattr *s, const struct timespec *guard, const struct vfs_attr *attr)
{
	if (call->view->options.read_only)
		return -EROFS;
	/* -1 means "leave as it is" to the kernel. */
	if ((s->set_uid && s->uid == UINT32_MAX) || (s->set_gid && s->gid == UINT32_MAX))
		return -EINVAL;
	if (guard && (guard->tv_sec != attr->ctime.tv_sec || guard->tv_nsec != attr->ctime.tv_nsec))
		return -ENOTUNIQ;
	return 0;
}

/* setattr_mutex held. */
static fiber_fn int setattr_locked(struct setattr_job *j, const struct timespec *guard, struct vfs_attr *pre)
{
	int err = vfs_getattr(j->file, pre);

	if (!err)
		err = check(j->call, j->sattr, guard, pre);
	if (!err && j->sattr->set_size)
		err = set_size(j->call, j->file, pre, j->sattr->size);
	if (!err && anything_but_size(j->sattr))
		err = set_rest(j);
	return err;
}

/* begun: changes that are part of this SETATTR. */
static bool changed_by_others(const struct vfs_file *file, uint64_t changes_before, bool begun)
{
	const uint64_t running = changes_before % VFS_CHANGE_BEGUN;

	return running || atomic_load(&file->data_changes) != changes_before + (begun ? VFS_CHANGE_BEGUN : 0);
}

fiber_fn int vfs_setattr(const struct vfs_call *call, struct vfs_file *file, const struct vfs_sattr *sattr, const struct timespec *ctime_guard, struct vfs_wcc *wcc)
{
	struct setattr_job j = { .call = call, .file = file, .sattr = sattr };
	struct vfs_attr pre = { 0 };
	uint64_t changes;
	int err;

	fiber_mutex_lock(&file->setattr_mutex);
	changes = atomic_load(&file->data_changes);
	err = setattr_locked(&j, ctime_guard, &pre);
	ns_wcc_now(file, wcc);
	wcc->pre.size = pre.size;
	wcc->pre.mtime = pre.mtime;
	wcc->pre.ctime = pre.ctime;
	/* A failed change of size may or may not have begun one: then nothing is claimed. */
	wcc->pre_valid = pre.type_mode && !changed_by_others(file, changes, sattr->set_size);
	if (j.d.dir)
		ns_dir_wcc(&j.d, wcc);
	fiber_mutex_unlock(&file->setattr_mutex);
	return err;
}

struct kill_suid_job {
	int fd;
	mode_t mode;
	int err;
};

static void kill_suid_main(void *arg)
{
	struct kill_suid_job *j = arg;
	char path[NS_PROC_PATH];

	ns_proc_path(j->fd, path);
	j->err = fchmodat(AT_FDCWD, path, j->mode, 0) ? -errno : 0;
}

fiber_fn int vfs_kill_suid(struct vfs_file *file, const struct vfs_attr *attr)
{
	const mode_t mode = attr->type_mode & MODE_BITS;
	/* Set-group-ID without group execution is the mark of mandatory locking, not a privilege. */
	const mode_t kill = (mode & S_ISUID) | (mode & S_IXGRP ? mode & S_ISGID : 0);
	struct kill_suid_job j = { .fd = file->path_fd, .mode = mode & ~kill };

	if (!kill)
		return 0;
	pool_run(kill_suid_main, &j, NULL);
	return j.err;
}
