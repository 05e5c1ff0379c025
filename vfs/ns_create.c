/*
 * vfs/ns_create.c - CREATE, MKDIR, SYMLINK, MKNOD.
 *
 * The object is made with its mode (the process's umask is 0, so that default ACLs and modes count as the client sent them); owner and times follow, then the
 * handle and attributes are taken, all inside dir_mutex; the sync comes after it (XFS gives an inherited ACL in a transaction of its own, so the new object
 * itself is what changed last). EXCLUSIVE keeps the client's verifier in the new file's times, seconds only and
 * 31 bits each, which every file system can store; a retry finds it there, also after a restart.
 *
 * An UNCHECKED create of a file that exists changes nothing but its size, and that goes through SETATTR's way: permission, mapping, durability.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "runtime/io.h"
#include "runtime/pool.h"
#include "vfs/export.h"
#include "vfs/file.h"
#include "vfs/ns.h"
#include "vfs/ns_job.h"

enum { MODE_BITS = 07777, MODE_FILE = 0600, MODE_DIRECTORY = 0700, VERF_MASK = 0x7fffffff };

struct create_job {
	const struct vfs_call *call;
	struct ns_dir d;
	const char *name;
	enum vfs_create_how how;
	const struct vfs_sattr *sattr;
	const uint8_t *verf;
	int err;
	int fd;
	bool existed;
	struct ns_found found;
	struct ns_sync sync;
};

/* The verifier as times: atime, mtime. */
static void verf_times(const uint8_t verf[8], struct timespec times[2])
{
	uint32_t word[2];

	memcpy(word, verf, sizeof(word));
	times[0] = (struct timespec){ .tv_sec = word[1] & VERF_MASK };
	times[1] = (struct timespec){ .tv_sec = word[0] & VERF_MASK };
}

static bool verf_matches(const struct statx *stx, const uint8_t verf[8])
{
	struct timespec times[2];

	verf_times(verf, times);
	return stx->stx_atime.tv_sec == times[0].tv_sec && stx->stx_mtime.tv_sec == times[1].tv_sec && !stx->stx_size;
}

static int create_existing(struct create_job *j)
{
	const int fd = ns_open_child(j->d.dir, j->name);
	int err = fd < 0 ? fd : ns_found_from_fd(j->d.dir->export, fd, &j->found);

	if (fd < 0)
		return err;
	j->fd = fd;
	j->existed = true;
	if (err)
		return err;
	if (!S_ISREG(j->found.stx.stx_mode) || (j->how == VFS_CREATE_EXCLUSIVE && !verf_matches(&j->found.stx, j->verf)))
		return -EEXIST;
	return 0;
}

static int create_set_attributes(struct create_job *j)
{
	struct timespec times[2];
	bool changed;

	if (j->how != VFS_CREATE_EXCLUSIVE)
		return ns_apply_new(j->fd, j->sattr, j->call->cred.uid == 0, &changed);
	verf_times(j->verf, times);
	return futimens(j->fd, times) ? -errno : 0;
}

static int create_in_directory(struct create_job *j)
{
	const mode_t mode = j->how == VFS_CREATE_EXCLUSIVE ? 0 : j->sattr->set_mode ? j->sattr->mode & MODE_BITS : MODE_FILE;
	int err;

	j->fd = openat(j->d.dir->path_fd, j->name, O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, mode);
	if (j->fd < 0)
		return errno == EEXIST && j->how != VFS_CREATE_GUARDED ? create_existing(j) : -errno;
	err = create_set_attributes(j);
	return err ? err : ns_found_from_fd(j->d.dir->export, j->fd, &j->found);
}

/* The new file was the last to change. An existing one is synced for EXCLUSIVE only: the first try may have died before it was. */
static bool create_wants_sync(const struct create_job *j)
{
	return !j->err && !j->call->view->options.async && (!j->existed || j->how == VFS_CREATE_EXCLUSIVE);
}

static void create_add_sync(struct create_job *j)
{
	ns_sync_add_dir(&j->sync, j->d.dir);
	if (j->existed)
		ns_sync_add_path(&j->sync, j->fd, S_IFREG);
	else
		ns_sync_add_open(&j->sync, j->fd);
}

static void create_main(void *arg)
{
	struct create_job *j = arg;
	struct vfs_file *dir = j->d.dir;

	j->fd = -1;
	ns_dir_begin(&j->d, dir);
	ns_sync_begin(&j->sync);
	j->err = create_in_directory(j);
	ns_sync_end(&j->sync);
	ns_dir_end(&j->d);
	if (create_wants_sync(j))
		create_add_sync(j);
	else if (j->fd >= 0)
		close(j->fd);
}

/* The size that comes with CREATE, if it is not what the file has anyway. */
static fiber_fn int create_set_size(const struct vfs_call *call, uint64_t size, struct vfs_node *node)
{
	const struct vfs_sattr sattr = { .set_size = true, .size = size };
	struct vfs_file *file;
	struct vfs_wcc wcc;
	int err = vfs_file_get(call, &node->fh, &file);

	if (err)
		return err;
	err = vfs_setattr(call, file, &sattr, NULL, &wcc);
	if (!err && wcc.post_valid)
		node->attr = wcc.post;
	vfs_file_put(file);
	return err;
}

/* -errno before anything was tried. "." and ".." are there. */
static int check_new_name(const struct vfs_call *call, const struct vfs_file *dir, struct vfs_name name, char copy[VFS_NAME_MAX + 1])
{
	int err = ns_may_modify(call, dir);

	if (!err)
		err = ns_name_copy(name, copy);
	return err || !ns_name_is_dots(copy) ? err : -EEXIST;
}

fiber_fn int vfs_create(const struct vfs_call *call, struct vfs_file *dir, struct vfs_name name, enum vfs_create_how how, const struct vfs_sattr *sattr,
			const uint8_t verf[8], struct vfs_node *node, struct vfs_wcc *dir_wcc)
{
	char copy[VFS_NAME_MAX + 1];
	struct create_job j = { .call = call, .d.dir = dir, .name = copy, .how = how, .sattr = sattr, .verf = verf };
	int err = check_new_name(call, dir, name, copy);

	if (err) {
		ns_wcc_now(dir, dir_wcc);
		return err;
	}
	err = ns_change(&j.sync, dir, create_main, &j, &call->cred);
	if (!j.err)
		j.err = err;
	if (j.sync.count && j.existed)
		io_close(j.fd);
	ns_dir_wcc(&j.d, dir_wcc);
	if (j.err)
		return ns_dir_error(&j.d, j.err);
	ns_node_fill(dir->export, &j.found, node);
	if (how != VFS_CREATE_EXCLUSIVE && sattr->set_size && (j.existed || sattr->size))
		return create_set_size(call, sattr->size, node);
	return 0;
}

/* MKDIR, SYMLINK and MKNOD: make() is the system call, the rest is common. */
struct make_job {
	const struct vfs_call *call;
	struct ns_dir d;
	const char *name;
	const struct vfs_sattr *sattr;
	int (*make)(const struct make_job *j);
	uint32_t type;
	dev_t dev;
	const char *target;
	int err;
	int fd;              /* O_PATH */
	bool changed;        /* after it was made */
	struct ns_found found;
	struct ns_sync sync;
};

static mode_t make_mode(const struct make_job *j, mode_t otherwise)
{
	return j->sattr->set_mode ? j->sattr->mode & MODE_BITS : otherwise;
}

static int make_directory(const struct make_job *j)
{
	return mkdirat(j->d.dir->path_fd, j->name, make_mode(j, MODE_DIRECTORY));
}

static int make_symlink(const struct make_job *j)
{
	return symlinkat(j->target, j->d.dir->path_fd, j->name);
}

static int make_node(const struct make_job *j)
{
	return mknodat(j->d.dir->path_fd, j->name, j->type | make_mode(j, MODE_FILE), j->dev);
}

static int make_finish(struct make_job *j)
{
	int err;

	j->fd = ns_open_child(j->d.dir, j->name);
	if (j->fd < 0)
		return j->fd;
	err = ns_apply_new(j->fd, j->sattr, j->call->cred.uid == 0, &j->changed);
	return err ? err : ns_found_from_fd(j->d.dir->export, j->fd, &j->found);
}

static void make_main(void *arg)
{
	struct make_job *j = arg;
	struct vfs_file *dir = j->d.dir;

	ns_dir_begin(&j->d, dir);
	ns_sync_begin(&j->sync);
	j->err = j->make(j) ? -errno : make_finish(j);
	ns_sync_end(&j->sync);
	ns_dir_end(&j->d);
	if (j->err || j->call->view->options.async)
		return;
	ns_sync_add_dir(&j->sync, dir);
	if (j->changed || S_ISDIR(j->type))
		ns_sync_add_path(&j->sync, j->fd, j->type);
}

static fiber_fn int make(struct make_job *j, struct vfs_name name, struct vfs_node *node, struct vfs_wcc *dir_wcc)
{
	char copy[VFS_NAME_MAX + 1];
	struct vfs_file *dir = j->d.dir;
	int err = check_new_name(j->call, dir, name, copy);

	if (err) {
		ns_wcc_now(dir, dir_wcc);
		return err;
	}
	j->name = copy;
	j->fd = -1;
	err = ns_change(&j->sync, dir, make_main, j, &j->call->cred);
	if (!j->err)
		j->err = err;
	if (j->fd >= 0)
		io_close(j->fd);
	ns_dir_wcc(&j->d, dir_wcc);
	if (j->err)
		return ns_dir_error(&j->d, j->err);
	ns_node_fill(dir->export, &j->found, node);
	return 0;
}

fiber_fn int vfs_mkdir(const struct vfs_call *call, struct vfs_file *dir, struct vfs_name name, const struct vfs_sattr *sattr, struct vfs_node *node, struct vfs_wcc *dir_wcc)
{
	struct make_job j = { .call = call, .d.dir = dir, .sattr = sattr, .make = make_directory, .type = S_IFDIR };

	return make(&j, name, node, dir_wcc);
}

/* NUL-terminated, in new memory: a path is too large for a fiber's stack. NULL with errno. */
static char *target_copy(struct vfs_name target)
{
	errno = target.len >= VFS_PATH_MAX ? ENAMETOOLONG : EINVAL;
	if (!target.len || target.len >= VFS_PATH_MAX || memchr(target.data, 0, target.len))
		return NULL;
	return strndup(target.data, target.len);
}

fiber_fn int vfs_symlink(const struct vfs_call *call, struct vfs_file *dir, struct vfs_name name, struct vfs_name target, const struct vfs_sattr *sattr,
			 struct vfs_node *node, struct vfs_wcc *dir_wcc)
{
	char *copy = target_copy(target);
	struct make_job j = { .call = call, .d.dir = dir, .sattr = sattr, .make = make_symlink, .type = S_IFLNK, .target = copy };
	int err = copy ? 0 : -errno;

	if (err)
		ns_wcc_now(dir, dir_wcc);
	else
		err = make(&j, name, node, dir_wcc);
	free(copy);
	return err;
}

fiber_fn int vfs_mknod(const struct vfs_call *call, struct vfs_file *dir, struct vfs_name name, uint32_t type, uint32_t major, uint32_t minor,
		       const struct vfs_sattr *sattr, struct vfs_node *node, struct vfs_wcc *dir_wcc)
{
	struct make_job j = { .call = call, .d.dir = dir, .sattr = sattr, .make = make_node, .type = type, .dev = makedev(major, minor) };

	ASSERT(type == S_IFCHR || type == S_IFBLK || type == S_IFIFO || type == S_IFSOCK);
	return make(&j, name, node, dir_wcc);
}
