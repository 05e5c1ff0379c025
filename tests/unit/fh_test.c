/* tests/unit/fh_test.c - handles: SipHash, layout, forging, what survives a rename, a restart and a remount, and what does not survive deletion. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/clock.h"
#include "tests/unit/vfs_harness.h"
#include "vfs/export.h"
#include "vfs/fh.h"
#include "vfs/fh_memo.h"
#include "vfs/siphash.h"

/* The vectors of the SipHash paper's appendix and reference code: key 00...0f, message 00...n-1. */
Test(fh, siphash_vectors)
{
	static const struct { size_t len; uint64_t hash; } vectors[] = {
		{ 0, 0x726fdb47dd0e0e31 }, { 1, 0x74f839c593dc67fd }, { 2, 0x0d6c8009d9a94f5a }, { 7, 0xab0200f58b01d137 },
		{ 8, 0x93f5f5799a932462 }, { 15, 0xa129ca6149be45e5 }, { 63, 0x958a324ceb064572 },
	};
	uint8_t key[16], message[64];

	for (unsigned i = 0; i < 64; i++)
		message[i] = key[i % 16] = i;
	memcpy(key, message, 16);
	for (unsigned i = 0; i < ARRAY_SIZE(vectors); i++)
		cr_expect_eq(siphash24(key, message, vectors[i].len), vectors[i].hash, "length %zu", vectors[i].len);
}

static void handle_of(const char *path, uint64_t export_id, struct vfs_fh *fh)
{
	const int fd = open(path, O_PATH | O_NOFOLLOW);

	cr_assert_geq(fd, 0, "%s", path);
	cr_assert_eq(vfs_fh_from_fd(export_id, fd, fh), 0);
	close(fd);
}

static int mount_fd_of(const char *path)
{
	const int fd = open(path, O_RDONLY | O_DIRECTORY);

	cr_assert_geq(fd, 0);
	return fd;
}

static void make_file(const char *path)
{
	const int fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0644);

	cr_assert_geq(fd, 0, "%s", path);
	close(fd);
}

static ino_t ino_by_handle(const struct vfs_fh *fh, int mount_fd)
{
	struct stat st;
	const int fd = vfs_fh_open(fh, mount_fd, O_PATH);

	if (fd < 0)
		return 0;
	cr_assert_eq(fstat(fd, &st), 0);
	close(fd);
	return st.st_ino;
}

/* Every bit of a handle, flipped alone, makes it invalid; so does every other length. Malformed: version, length or the reserved byte is wrong. */
Test(fh, forged)
{
	struct vfs_fh fh, forged;
	uint64_t id;

	scratch_begin();
	scratch_fs("tmpfs");
	vfs_fh_set_key((const uint8_t *)"0123456789abcdef");
	handle_of(SCRATCH_FS, 0x1122334455667788, &fh);
	cr_assert_leq(fh.len, VFS_FH_MAX);
	cr_assert_eq(vfs_fh_parse(&fh, &id), 0);
	cr_assert_eq(id, 0x1122334455667788);
	for (unsigned bit = 0; bit < 8u * fh.len; bit++) {
		forged = fh;
		forged.data[bit / 8] ^= 1 << bit % 8;
		cr_assert_eq(vfs_fh_parse(&forged, &id), bit / 8 == 0 || bit / 8 == 2 || bit / 8 == 3 ? -EBADF : -ESTALE, "bit %u", bit);
	}
	for (unsigned len = 0; len <= UINT8_MAX; len++) {
		forged = fh;
		forged.len = len;
		if (len != fh.len)
			cr_assert_eq(vfs_fh_parse(&forged, &id), -EBADF, "length %u", len);
	}
	vfs_fh_set_key((const uint8_t *)"another key here");
	cr_assert_eq(vfs_fh_parse(&fh, &id), -ESTALE);
}

static void check_life(const char *type)
{
	struct vfs_fh fh, again;
	struct stat st;
	int mount_fd;

	scratch_begin();
	scratch_fs(type);
	mount_fd = mount_fd_of(SCRATCH_FS);
	cr_assert_eq(mkdir(SCRATCH_FS "/a", 0755), 0);
	cr_assert_eq(mkdir(SCRATCH_FS "/b", 0755), 0);
	make_file(SCRATCH_FS "/a/f");
	cr_assert_eq(stat(SCRATCH_FS "/a/f", &st), 0);
	handle_of(SCRATCH_FS "/a/f", 1, &fh);
	cr_assert_eq(rename(SCRATCH_FS "/a/f", SCRATCH_FS "/b/g"), 0);
	handle_of(SCRATCH_FS "/b/g", 1, &again);
	cr_assert(vfs_fh_equal(&fh, &again));
	cr_assert_eq(ino_by_handle(&fh, mount_fd), st.st_ino);
	cr_assert_eq(unlink(SCRATCH_FS "/b/g"), 0);
	cr_assert_eq(vfs_fh_open(&fh, mount_fd, O_PATH), -ESTALE);
	/* The same inode number comes back sooner or later; the handle does not. */
	for (unsigned i = 0; i < 64; i++) {
		char path[64];

		snprintf(path, sizeof(path), SCRATCH_FS "/a/f%u", i);
		make_file(path);
		handle_of(path, 1, &again);
		cr_assert(!vfs_fh_equal(&fh, &again));
		cr_assert_eq(vfs_fh_open(&fh, mount_fd, O_PATH), -ESTALE);
	}
	close(mount_fd);
}

Test(fh, life_tmpfs) { check_life("tmpfs"); }
Test(fh, life_ext4) { check_life("ext4"); }
Test(fh, life_xfs) { check_life("xfs"); }

static struct vfs_fh root_handle(void)
{
	struct export_table *t = export_table_new();
	const struct sockaddr unknown = { .sa_family = AF_UNSPEC };
	struct export_view *view;
	struct vfs_fh fh;
	char err[200];
	const char *below;

	cr_assert_eq(export_table_add_cli(t, SCRATCH_FS, "", err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(export_table_install(t, err, sizeof(err)), 0);
	cr_assert_eq(export_view_by_path(SCRATCH_FS, &unknown, &view, &below), 0);
	fh = view->export->root_fh;
	export_view_put(view);
	export_table_fini();
	return fh;
}

/* The export's id is in the handle: it must not depend on the mount or the loop device's number. */
static void check_remount(const char *type)
{
	struct vfs_fh before, after;

	scratch_begin();
	vfs_fh_set_key((const uint8_t *)"0123456789abcdef");
	scratch_fs(type);
	before = root_handle();
	scratch_umount();
	/* Another loop device is taken while this one is busy with something else. */
	cr_assert_eq(system("truncate -s 1M " SCRATCH "/other && losetup -f " SCRATCH "/other"), 0);
	scratch_mount_again(type);
	after = root_handle();
	cr_expect(vfs_fh_equal(&before, &after));
	cr_assert_eq(system("losetup -j " SCRATCH "/other | cut -d: -f1 | xargs losetup -d"), 0);
}

Test(fh, remount_ext4) { check_remount("ext4"); }
Test(fh, remount_xfs) { check_remount("xfs"); }

/* A key is made once, kept, and refused when it is not one. */
Test(fh, key_file)
{
	const char *tmp = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
	char dir[200], path[250];
	struct vfs_fh fh;
	struct stat st;
	uint64_t id;

	snprintf(dir, sizeof(dir), "%s/fh_test.XXXXXX", tmp);
	cr_assert(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/handle.key", dir);
	cr_expect_eq(vfs_fh_init("/nonexistent"), -ENOENT);
	cr_expect_eq(vfs_fh_init(dir), 0);
	cr_expect_eq(stat(path, &st), 0);
	cr_expect_eq(st.st_size, 16);
	cr_expect_eq(st.st_mode & 07777, 0600);
	handle_of(dir, 7, &fh);
	vfs_fh_set_key((const uint8_t *)"0123456789abcdef");
	cr_expect_eq(vfs_fh_parse(&fh, &id), -ESTALE);
	cr_expect_eq(vfs_fh_init(dir), 0);
	cr_expect_eq(vfs_fh_parse(&fh, &id), 0);
	cr_expect_eq(truncate(path, 15), 0);
	cr_expect_eq(vfs_fh_init(dir), -EINVAL);
	unlink(path);
	rmdir(dir);
}

/* What is known is known by export, inode and birth, and only what is old enough to have no successor of the same tick. */
Test(fh, memo)
{
	const struct timespec now = clock_real();
	struct statx stx = { .stx_mask = STATX_BASIC_STATS | STATX_BTIME, .stx_ino = 99, .stx_btime = { .tv_sec = now.tv_sec - 2, .tv_nsec = 5 } };
	const struct vfs_fh fh = { .len = 20, .data = "a handle" };
	struct vfs_fh found;

	cr_assert_not(vfs_fh_memo_find(7, &stx, &found));
	vfs_fh_memo_keep(7, &stx, &fh);
	cr_assert(vfs_fh_memo_find(7, &stx, &found) && vfs_fh_equal(&fh, &found));
	cr_assert_not(vfs_fh_memo_find(8, &stx, &found));
	stx.stx_btime.tv_nsec++;
	cr_assert_not(vfs_fh_memo_find(7, &stx, &found));
	stx.stx_btime = (struct statx_timestamp){ .tv_sec = now.tv_sec, .tv_nsec = now.tv_nsec };
	vfs_fh_memo_keep(7, &stx, &fh);
	cr_assert_not(vfs_fh_memo_find(7, &stx, &found));
	stx.stx_btime.tv_sec -= 2;
	stx.stx_mask = STATX_BASIC_STATS;
	vfs_fh_memo_keep(7, &stx, &fh);
	stx.stx_mask |= STATX_BTIME;
	cr_assert_not(vfs_fh_memo_find(7, &stx, &found));
}
