/* tests/unit/attr_test.c - attributes: what statx says, what is staged laid over it wherever attributes appear, and a change number that always rises. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "runtime/buf.h"
#include "tests/unit/vfs_harness.h"
#include "vfs/attr.h"
#include "vfs/data.h"
#include "vfs/export.h"
#include "vfs/file.h"
#include "vfs/ns.h"

#define ON(fs, name) \
	Test(attr, name##_##fs) \
	{ \
		scratch_begin(); \
		scratch_fs(#fs); \
		vfs_harness_run("rw,no_root_squash", name); \
	}

static struct vfs_file *open_name(const char *name)
{
	const struct vfs_call call = harness_call(0, 0);
	struct vfs_file *root = harness_root(), *file;
	struct vfs_attr attr;
	struct vfs_node node;
	bool valid;

	ASSERT(vfs_lookup(&call, root, harness_name(name), &node, &attr, &valid) == 0);
	ASSERT(vfs_file_get(&call, &node.fh, &file) == 0);
	vfs_file_put(root);
	return file;
}

static void as_statx(void)
{
	const int fd = open(SCRATCH_FS "/f", O_CREAT | O_WRONLY, 04751);
	struct vfs_file *file;
	struct vfs_attr a;
	struct stat st;

	ASSERT(write(fd, "hello", 5) == 5);
	ASSERT(fchown(fd, 12, 34) == 0);
	ASSERT(fchmod(fd, 04751) == 0);
	ASSERT(fsync(fd) == 0);
	ASSERT(fstat(fd, &st) == 0);
	file = open_name("f");
	ASSERT(vfs_getattr(file, &a) == 0);
	ASSERT(a.type_mode == st.st_mode && a.nlink == 1 && a.uid == 12 && a.gid == 34 && a.size == 5);
	ASSERT(a.used == (uint64_t)st.st_blocks * 512 && a.fileid == st.st_ino && a.fsid == harness_view()->export->fsid);
	ASSERT(!memcmp(&a.mtime, &st.st_mtim, sizeof(a.mtime)) && !memcmp(&a.ctime, &st.st_ctim, sizeof(a.ctime)));
	vfs_file_put(file);
	ASSERT(mknod(SCRATCH_FS "/dev", S_IFCHR | 0600, makedev(7, 300)) == 0);
	file = open_name("dev");
	ASSERT(vfs_getattr(file, &a) == 0);
	ASSERT(S_ISCHR(a.type_mode) && a.rdev_major == 7 && a.rdev_minor == 300);
	vfs_file_put(file);
	close(fd);
}
ON(tmpfs, as_statx)
ON(ext4, as_statx)
ON(xfs, as_statx)

static void write_bytes(struct vfs_file *file, uint64_t offset, uint32_t len)
{
	const struct vfs_call call = harness_call(0, 0);
	struct vfs_payload payload = { .buf = buf_alloc(len + PAGE_BYTES), .len = len };
	struct vfs_write_result result;

	ASSERT(payload.buf);
	payload.data = payload.buf->data + offset % PAGE_BYTES;
	memset(payload.data, 'x', len);
	ASSERT(vfs_write(&call, file, offset, &payload, VFS_UNSTABLE, &result) == 0);
	buf_put(payload.buf);
}

static const struct vfs_dirent *find_entry(const struct vfs_dirlist *list, const char *name)
{
	for (unsigned i = 0; i < list->count; i++)
		if (list->entries[i].name.len == strlen(name) && !memcmp(list->entries[i].name.data, name, strlen(name)))
			return list->entries + i;
	return NULL;
}

/* A staged WRITE shows in GETATTR, LOOKUP and READDIRPLUS alike, though nothing may be on the disk yet. */
static void staged_everywhere(void)
{
	const struct vfs_call call = harness_call(0, 0);
	const uint8_t verf[8] = { 0 };
	struct vfs_file *root = harness_root(), *file;
	struct vfs_attr by_file, dir_attr;
	struct vfs_node by_name;
	struct vfs_dirlist *list;
	bool valid;

	close(open(SCRATCH_FS "/f", O_CREAT | O_WRONLY, 0644));
	file = open_name("f");
	write_bytes(file, 0, 3000);
	ASSERT(vfs_getattr(file, &by_file) == 0);
	ASSERT(by_file.size == 3000);
	ASSERT(vfs_lookup(&call, root, harness_name("f"), &by_name, &dir_attr, &valid) == 0);
	ASSERT(by_name.attr.size == 3000 && by_name.attr.change == by_file.change);
	ASSERT(vfs_readdir(&call, root, 0, verf, 4096, true, &list, &dir_attr, &valid) == 0);
	ASSERT(find_entry(list, "f") && find_entry(list, "f")->has_node && find_entry(list, "f")->node.attr.size == 3000);
	vfs_dirlist_free(list);
	vfs_file_put(file);
	vfs_file_put(root);
}
ON(tmpfs, staged_everywhere)
ON(ext4, staged_everywhere)
ON(xfs, staged_everywhere) /* 1.12 */

enum { CHANGES = 2000 };

static void change_rises(void)
{
	uint64_t last = 0;
	struct vfs_file *file;
	struct vfs_attr attr;

	close(open(SCRATCH_FS "/f", O_CREAT | O_WRONLY, 0644));
	file = open_name("f");
	for (unsigned i = 0; i < CHANGES; i++) {
		write_bytes(file, i % 4, 1);
		ASSERT(vfs_getattr(file, &attr) == 0);
		ASSERT(attr.change > last);
		last = attr.change;
	}
	vfs_file_put(file);
}
ON(xfs, change_rises) /* 1.12 */

/* The time of a WRITE stays, though its flush left a later one on the disk and a chmod moved ctime since. */
static void chmod_leaves_mtime(void)
{
	const struct vfs_call call = harness_call(0, 0);
	const struct vfs_sattr sattr = { .set_mode = true, .mode = 0600 };
	struct vfs_attr before, after;
	struct vfs_file *file;
	struct vfs_wcc wcc;

	close(open(SCRATCH_FS "/f", O_CREAT | O_WRONLY, 0644));
	file = open_name("f");
	write_bytes(file, 0, 8192);
	ASSERT(vfs_getattr(file, &before) == 0);
	ASSERT(vfs_setattr(&call, file, &sattr, NULL, &wcc) == 0);
	ASSERT(vfs_getattr(file, &after) == 0);
	ASSERT(after.mtime.tv_sec == before.mtime.tv_sec && after.mtime.tv_nsec == before.mtime.tv_nsec);
	ASSERT(after.change > before.change);
	vfs_file_put(file);
}
ON(tmpfs, chmod_leaves_mtime)
ON(ext4, chmod_leaves_mtime)
ON(xfs, chmod_leaves_mtime)

/* A WRITE past the largest size of a file is refused at once, before anybody believes in it or in the size. */
static void too_big(void)
{
	const struct vfs_call call = harness_call(0, 0);
	const uint64_t max = harness_view()->export->max_file_bytes, verf = vfs_verifier();
	struct vfs_payload payload = { .buf = buf_alloc(PAGE_BYTES), .len = 100 };
	struct vfs_write_result result;
	struct vfs_file *file;
	struct vfs_attr attr;

	close(open(SCRATCH_FS "/f", O_CREAT | O_WRONLY, 0644));
	file = open_name("f");
	payload.data = payload.buf->data;
	memset(payload.data, 'x', payload.len);
	ASSERT(vfs_write(&call, file, max - 99, &payload, VFS_UNSTABLE, &result) == -EFBIG);
	ASSERT(vfs_getattr(file, &attr) == 0 && attr.size == 0);
	ASSERT(vfs_write(&call, file, max - 100, &payload, VFS_FILE_SYNC, &result) == 0);
	ASSERT(vfs_getattr(file, &attr) == 0 && attr.size == max);
	ASSERT(vfs_verifier() == verf);
	buf_put(payload.buf);
	vfs_file_put(file);
}
ON(ext4, too_big)
