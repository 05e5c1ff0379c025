/*
 * tests/unit/write_path_file_test.c - the lines of WRITE_PATH that are about what a real file system says of a file: its alignment, its times.
 */
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "iocache/mapping.h"
#include "runtime/buf.h"
#include "runtime/counter.h"
#include "runtime/fiber.h"
#include "runtime/io.h"
#include "tests/unit/vfs_harness.h"
#include "vfs/attr.h"
#include "vfs/data.h"
#include "vfs/file.h"
#include "vfs/ns.h"

static struct vfs_file *create_file(const char *name)
{
	const struct vfs_call call = harness_call(0, 0);
	const struct vfs_sattr sattr = { .set_mode = true, .mode = 0644 };
	const uint8_t verf[8] = { 0 };
	struct vfs_file *root = harness_root(), *file;
	struct vfs_node node;
	struct vfs_wcc wcc;

	ASSERT(vfs_create(&call, root, harness_name(name), VFS_CREATE_GUARDED, &sattr, verf, &node, &wcc) == 0);
	ASSERT(vfs_file_get(&call, &node.fh, &file) == 0);
	vfs_file_put(root);
	return file;
}

static void write_bytes(struct vfs_file *file, uint64_t offset, uint32_t len, char value, enum vfs_stable stable)
{
	const struct vfs_call call = harness_call(0, 0);
	struct vfs_payload payload = { .buf = buf_alloc(len + PAGE_BYTES), .len = len };
	struct vfs_write_result result;

	ASSERT(payload.buf);
	payload.data = payload.buf->data + offset % PAGE_BYTES;
	memset(payload.data, value, len);
	ASSERT(vfs_write(&call, file, offset, &payload, stable, &result) == 0);
	buf_put(payload.buf);
}

static void expect_local(const char *path, uint64_t offset, size_t len, char value)
{
	int fd = open(path, O_RDONLY);
	char *got = malloc(len);

	ASSERT(fd >= 0 && pread(fd, got, len, (off_t)offset) == (ssize_t)len);
	for (size_t i = 0; i < len; i++)
		ASSERT(got[i] == value);
	close(fd);
	free(got);
}

/* ---- alignment ---- */

/* A file that CREATE has just made is written directly from its first WRITE on. */
static void created_is_direct(void)
{
	int64_t direct = counter_value("write.direct");
	struct vfs_file *file = create_file("f");

	write_bytes(file, 100, 5 * PAGE_BYTES, 'x', VFS_FILE_SYNC);
	ASSERT(counter_value("write.direct") == direct + 1);
	ASSERT(counter_value("mode.fallback") == 0);
	ASSERT(counter_value("cache.middles.adopted") == 1);
	expect_local(SCRATCH_FS "/f", 100, 5 * PAGE_BYTES, 'x');
	vfs_file_put(file);
}

Test(write_path_file, a_created_file_has_its_alignment) /* 1.1 */
{
	scratch_begin();
	scratch_fs("xfs");
	vfs_harness_run("rw,no_root_squash", created_is_direct);
}

static void clone_file(const char *from, const char *to)
{
	int in = open(from, O_RDONLY), out = open(to, O_RDWR | O_CREAT | O_TRUNC, 0644);

	ASSERT(in >= 0 && out >= 0);
	ASSERT(ioctl(out, FICLONE, in) == 0);
	close(in);
	close(out);
}

/* Whether this kernel says of direct reads what they need. */
static bool reads_are_told(const char *path)
{
	struct statx stx;

	ASSERT(statx(AT_FDCWD, path, 0, IO_STATX_ALIGN, &stx) == 0);
	return stx.stx_mask & IO_STATX_DIO_READ_ALIGN;
}

/* A reflink makes the file's blocks the granularity of its writes, beyond the unit that it was opened with: what comes then, and what was staged, is written all the same. */
static void reflinked(void)
{
	struct vfs_file *file = create_file("f");
	const struct vfs_call call = harness_call(0, 0);
	struct vfs_attr attr;
	struct vfs_wcc wcc;
	uint64_t verf;

	write_bytes(file, 0, 40 * PAGE_BYTES, 'a', VFS_FILE_SYNC);
	ASSERT(mapping_can_direct(vfs_file_mapping(file)) && mapping_unit(vfs_file_mapping(file)) == PAGE_BYTES);
	write_bytes(file, 3 * PAGE_BYTES + 10, 100, 'b', VFS_UNSTABLE);
	clone_file(SCRATCH_FS "/f", SCRATCH_FS "/g");
	ASSERT(vfs_getattr(file, &attr) == 0);
	ASSERT(!mapping_can_direct(vfs_file_mapping(file)));
	ASSERT(mapping_can_read_direct(vfs_file_mapping(file)) == reads_are_told(SCRATCH_FS "/f"));
	write_bytes(file, 10 * PAGE_BYTES + 10, 3 * PAGE_BYTES, 'c', VFS_UNSTABLE);
	ASSERT(vfs_commit(&call, file, 0, 0, &verf, &wcc) == 0);
	expect_local(SCRATCH_FS "/f", 3 * PAGE_BYTES + 10, 100, 'b');
	expect_local(SCRATCH_FS "/f", 10 * PAGE_BYTES + 10, 3 * PAGE_BYTES, 'c');
	expect_local(SCRATCH_FS "/f", 13 * PAGE_BYTES + 10, 20 * PAGE_BYTES, 'a');
	expect_local(SCRATCH_FS "/g", 0, 40 * PAGE_BYTES, 'a');
	vfs_file_put(file);
}

Test(write_path_file, a_reflink_raises_the_alignment) /* 1.1 */
{
	scratch_begin();
	cr_assert_eq(mkdir(SCRATCH_FS, 0755), 0);
	if (system("truncate -s 400M " SCRATCH "/image && mkfs.xfs -q -b size=16384 " SCRATCH "/image && mount -o loop " SCRATCH "/image " SCRATCH_FS " 2>/dev/null"))
		cr_skip_test("no XFS with blocks larger than a page here");
	vfs_harness_run("rw,no_root_squash", reflinked);
}

/* ---- times ---- */

static bool is_later(struct timespec a, struct timespec b)
{
	return a.tv_sec != b.tv_sec ? a.tv_sec > b.tv_sec : a.tv_nsec > b.tv_nsec;
}

/* The file is flushed after its WRITE is answered, leaves the cache, and is opened again: its mtime is the WRITE's, ctime and change are no earlier ones. */
static void times_of_an_evicted_file(void)
{
	const struct vfs_call call = harness_call(0, 0);
	struct vfs_file *file = create_file("f");
	struct vfs_attr shown, again;
	struct vfs_fh fh = file->fh;
	int64_t closed = counter_value("file.closed");

	write_bytes(file, 0, 5 * PAGE_BYTES, 'x', VFS_UNSTABLE);
	ASSERT(vfs_getattr(file, &shown) == 0);
	while (!mapping_is_idle(vfs_file_mapping(file)))
		fiber_sleep_ns(1000000);
	ASSERT(vfs_getattr(file, &again) == 0);
	ASSERT(again.change == shown.change && !is_later(again.mtime, shown.mtime));
	vfs_file_put(file);
	vfs_file_reap(0);
	while (counter_value("file.closed") == closed)
		fiber_sleep_ns(1000000);
	ASSERT(vfs_file_get(&call, &fh, &file) == 0);
	ASSERT(vfs_getattr(file, &again) == 0);
	ASSERT(again.size == 5 * PAGE_BYTES);
	ASSERT(!memcmp(&again.mtime, &shown.mtime, sizeof(shown.mtime)));
	ASSERT(!is_later(shown.ctime, again.ctime));
	ASSERT(again.change >= shown.change);
	vfs_file_put(file);
}

Test(write_path_file, an_evicted_file_shows_no_earlier_times) /* 1.12 */
{
	scratch_begin();
	scratch_fs("xfs");
	vfs_harness_run("rw,no_root_squash", times_of_an_evicted_file);
}
