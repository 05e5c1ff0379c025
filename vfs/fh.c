/*
 * vfs/fh.c - file handles: made from what the kernel says about an open file, signed, taken apart and opened again.
 *
 * Layout: version 1, kernel handle type 1, kernel handle length 1, reserved 1 (zero), export id 8, kernel handle, signature 8. The kernel's types all fit
 * a byte (<linux/exportfs.h>); a handle that would not fit is refused when the export is made, not when a client asks.
 *
 * The key is set once at start, before any reactor runs, and only read afterwards. What has not the form of a handle is -EBADF (RFC 1813 section 2.6: the
 * handle failed internal consistency checks). What has it and a wrong signature is -ESTALE: it may be one that an earlier key signed, and the Linux client
 * looks a stale one's name up again where that can help, but hands BADHANDLE to the program as "Unknown error 521". Nothing of either reaches the kernel. What
 * was deleted is found out by the kernel, which keeps a generation in its handle: -ESTALE too.
 */
#include "vfs/fh.h"

#include <endian.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/clock.h"
#include "runtime/counter.h"
#include "runtime/fault.h"
#include "runtime/log.h"
#include "vfs/siphash.h"

enum { FH_VERSION = 1, FH_HEAD = 4 + 8, FH_SIGN = 8, FH_KERNEL_MAX = VFS_FH_MAX - FH_HEAD - FH_SIGN };

COUNTER_DEFINE(counter_made, "fh.made");

static uint8_t fh_key[SIPHASH_KEY_BYTES];

/* What name_to_handle_at wants: the kernel's struct with room behind it. */
union kernel_handle {
	struct file_handle h;
	char room[sizeof(struct file_handle) + FH_KERNEL_MAX];
};

static uint64_t fh_signature(const struct vfs_fh *fh)
{
	return htole64(siphash24(fh_key, fh->data, fh->len - FH_SIGN));
}

static int key_read(const char *path)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	uint8_t key[SIPHASH_KEY_BYTES + 1];
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read(fd, key, sizeof(key));
	close(fd);
	if (n != SIPHASH_KEY_BYTES) {
		log_write(LOG_LEVEL_ERROR, "%s: not a handle key (%d bytes are wanted)", path, SIPHASH_KEY_BYTES);
		return -EINVAL;
	}
	memcpy(fh_key, key, sizeof(fh_key));
	return 0;
}

static int key_write(int fd)
{
	random_bytes(fh_key, sizeof(fh_key));
	if (write(fd, fh_key, sizeof(fh_key)) != sizeof(fh_key))
		return errno ? -errno : -ENOSPC;
	return fsync(fd) ? -errno : 0;
}

static int sync_directory(const char *path)
{
	const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int err;

	if (fd < 0)
		return -errno;
	err = fsync(fd) ? -errno : 0;
	close(fd);
	return err;
}

/* Written aside and renamed, so that a crash leaves no key or a whole one; link() does not replace a key that another instance made meanwhile. */
static int key_make(const char *state_dir, const char *path)
{
	char temp[VFS_PATH_MAX];
	int fd, err;

	if (snprintf(temp, sizeof(temp), "%s/handle.key.%d", state_dir, (int)getpid()) >= (int)sizeof(temp))
		return -ENAMETOOLONG;
	fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	err = key_write(fd);
	close(fd);
	if (!err && link(temp, path))
		err = -errno;
	unlink(temp);
	return err ? err : sync_directory(state_dir);
}

int vfs_fh_init(const char *state_dir)
{
	char path[VFS_PATH_MAX];
	int err;

	if (snprintf(path, sizeof(path), "%s/handle.key", state_dir) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	err = key_read(path);
	if (err != -ENOENT)
		return err;
	err = key_make(state_dir, path);
	return err == -EEXIST ? key_read(path) : err;
}

void vfs_fh_set_key(const uint8_t key[16])
{
	memcpy(fh_key, key, sizeof(fh_key));
}

/* kh -> signed handle. */
static int fh_pack(uint64_t export_id, const struct file_handle *kh, struct vfs_fh *fh)
{
	const uint64_t id = htole64(export_id);
	uint64_t signature;

	if (kh->handle_type < 0 || kh->handle_type > UINT8_MAX || kh->handle_bytes > FH_KERNEL_MAX)
		return -EOPNOTSUPP;
	memset(fh, 0, sizeof(*fh));
	fh->len = FH_HEAD + kh->handle_bytes + FH_SIGN;
	fh->data[0] = FH_VERSION;
	fh->data[1] = kh->handle_type;
	fh->data[2] = kh->handle_bytes;
	memcpy(fh->data + 4, &id, sizeof(id));
	memcpy(fh->data + FH_HEAD, kh->f_handle, kh->handle_bytes);
	signature = fh_signature(fh);
	memcpy(fh->data + fh->len - FH_SIGN, &signature, sizeof(signature));
	return 0;
}

/* A handle that needs more room than ours has is no better than none: -EOPNOTSUPP instead of -EOVERFLOW. */
static int fh_from(uint64_t export_id, int fd, const char *name, int flags, struct vfs_fh *fh)
{
	union kernel_handle kh = { .h.handle_bytes = FH_KERNEL_MAX };
	int mount_id;

	counter_add(&counter_made, 1);
	if (name_to_handle_at(fd, name, &kh.h, &mount_id, flags))
		return errno == EOVERFLOW ? -EOPNOTSUPP : -errno;
	return fh_pack(export_id, &kh.h, fh);
}

pool_fn int vfs_fh_from_fd(uint64_t export_id, int fd, struct vfs_fh *fh)
{
	return fh_from(export_id, fd, "", AT_EMPTY_PATH, fh);
}

pool_fn int vfs_fh_from_name(uint64_t export_id, int dir_fd, const char *name, struct vfs_fh *fh)
{
	return fh_from(export_id, dir_fd, name, 0, fh);
}

noyield_fn int vfs_fh_parse(const struct vfs_fh *fh, uint64_t *export_id)
{
	uint64_t id, signature;

	if (fh->len < FH_HEAD + FH_SIGN || fh->len > VFS_FH_MAX || fh->data[0] != FH_VERSION)
		return -EBADF;
	if (fh->data[2] != fh->len - FH_HEAD - FH_SIGN || fh->data[3])
		return -EBADF;
	memcpy(&signature, fh->data + fh->len - FH_SIGN, sizeof(signature));
	/* One comparison of whole words: its time tells nothing about which byte was wrong. */
	if (signature != fh_signature(fh))
		return -ESTALE;
	memcpy(&id, fh->data + 4, sizeof(id));
	*export_id = le64toh(id);
	return 0;
}

pool_fn int vfs_fh_open(const struct vfs_fh *fh, int mount_fd, int flags)
{
	union kernel_handle kh = { .h.handle_bytes = fh->data[2], .h.handle_type = fh->data[1] };
	const int injected = fault_hit(FAULT_OPEN_BY_HANDLE);
	int fd;

	if (injected)
		return -injected;
	ASSERT(fh->data[2] <= FH_KERNEL_MAX);
	memcpy(kh.h.f_handle, fh->data + FH_HEAD, fh->data[2]);
	fd = open_by_handle_at(mount_fd, &kh.h, flags | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

noyield_fn bool vfs_fh_equal(const struct vfs_fh *a, const struct vfs_fh *b)
{
	return a->len == b->len && !memcmp(a->data, b->data, a->len);
}
