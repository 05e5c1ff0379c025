/*
 * tests/unit/ns_test.c - namespace operations on real file systems: what each does, under whose identity, what it answers to bad names, what its wcc says, and
 * that directory listings are complete whatever the page size and whatever happens to the directory meanwhile.
 */
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "runtime/counter.h"
#include "runtime/fault.h"
#include "runtime/fiber.h"
#include "runtime/pool.h"
#include "tests/unit/vfs_harness.h"
#include "vfs/access.h"
#include "vfs/attr.h"
#include "vfs/data.h"
#include "vfs/export.h"
#include "vfs/fh.h"
#include "vfs/fh_memo.h"
#include "vfs/file.h"
#include "vfs/ns.h"

#define RUN(fs, name, options) \
	Test(ns, name##_##fs) \
	{ \
		scratch_begin(); \
		scratch_fs(#fs); \
		vfs_harness_run(options, name); \
	}
#define ON_ALL(name, options) RUN(tmpfs, name, options) RUN(ext4, name, options) RUN(xfs, name, options)

static const struct vfs_sattr no_sattr;
static const uint8_t no_verf[8];

static int lookup(const struct vfs_call *call, struct vfs_file *dir, const char *name, struct vfs_node *node)
{
	struct vfs_attr attr;
	bool valid = false;
	int err = vfs_lookup(call, dir, harness_name(name), node, &attr, &valid);

	ASSERT(valid);
	ASSERT(S_ISDIR(attr.type_mode) == S_ISDIR(dir->type));
	return err;
}

static struct vfs_file *get(const struct vfs_call *call, const struct vfs_fh *fh)
{
	struct vfs_file *file;

	ASSERT(vfs_file_get(call, fh, &file) == 0);
	return file;
}

static struct vfs_file *walk(struct vfs_file *dir, const char *name)
{
	const struct vfs_call call = harness_call(0, 0);
	struct vfs_node node;

	ASSERT(lookup(&call, dir, name, &node) == 0);
	return get(&call, &node.fh);
}

static int create(const struct vfs_call *call, struct vfs_file *dir, const char *name, enum vfs_create_how how, const struct vfs_sattr *sattr, struct vfs_node *node)
{
	struct vfs_wcc wcc = { 0 };
	int err = vfs_create(call, dir, harness_name(name), how, sattr, no_verf, node, &wcc);

	ASSERT(wcc.post_valid);
	return err;
}

static void make(const char *path)
{
	const int fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0644);

	ASSERT(fd >= 0);
	close(fd);
}

static bool not_before(struct timespec a, struct timespec b)
{
	return a.tv_sec > b.tv_sec || (a.tv_sec == b.tv_sec && a.tv_nsec >= b.tv_nsec);
}

/* Both sides are there and in order. Not strictly: tmpfs may give a directory the same coarse time for two changes in one tick. */
static bool wcc_whole(const struct vfs_wcc *wcc)
{
	return wcc->pre_valid && wcc->post_valid && not_before(wcc->post.ctime, wcc->pre.ctime);
}

/* A change that could not be made durable is an error to the client. */
static void sync_fails(void)
{
	const struct vfs_call call = harness_call(0, 0);
	const struct vfs_sattr mode = { .set_mode = true, .mode = 0600 };
	struct vfs_file *root = harness_root(), *file;
	struct vfs_wcc wcc, other;
	struct vfs_node node;

	make(SCRATCH_FS "/f");
	file = walk(root, "f");
	fault_arm(FAULT_NS_SYNC, EIO, 0, 0);
	ASSERT(create(&call, root, "a", VFS_CREATE_GUARDED, &mode, &node) == -EIO);
	ASSERT(vfs_mkdir(&call, root, harness_name("b"), &mode, &node, &wcc) == -EIO && wcc.post_valid);
	ASSERT(vfs_rename(&call, root, harness_name("b"), &call, root, harness_name("c"), &wcc, &other) == -EIO);
	ASSERT(vfs_rmdir(&call, root, harness_name("c"), &wcc) == -EIO);
	ASSERT(vfs_setattr(&call, file, &mode, NULL, &wcc) == -EIO && wcc.post_valid);
	fault_disarm_all();
	ASSERT(create(&call, root, "b", VFS_CREATE_GUARDED, &mode, &node) == 0);
	vfs_file_put(file);
	vfs_file_put(root);
}
RUN(ext4, sync_fails, "no_root_squash")

/* async: nothing is synced, so nothing of it can fail. */
static void async_view(void)
{
	const struct vfs_call call = harness_call(0, 0);
	struct vfs_file *root = harness_root();
	struct vfs_node node;
	struct vfs_wcc wcc;

	fault_arm(FAULT_NS_SYNC, EIO, 0, 0);
	ASSERT(create(&call, root, "a", VFS_CREATE_GUARDED, &no_sattr, &node) == 0);
	ASSERT(vfs_remove(&call, root, harness_name("a"), &wcc) == 0);
	fault_disarm_all();
	vfs_file_put(root);
}
RUN(ext4, async_view, "no_root_squash,async")

static void lookups(void)
{
	const struct vfs_call call = harness_call(0, 0), user = harness_call(500, 500);
	struct vfs_file *root = harness_root(), *a, *b, *file;
	struct vfs_node node;
	char long_name[300];

	ASSERT(mkdir(SCRATCH_FS "/a", 0700) == 0 && mkdir(SCRATCH_FS "/a/b", 0755) == 0 && symlink("/etc/passwd", SCRATCH_FS "/l") == 0);
	make(SCRATCH_FS "/f");
	a = walk(root, "a");
	b = walk(a, "b");
	file = walk(root, "f");
	ASSERT(lookup(&call, b, "..", &node) == 0 && vfs_fh_equal(&node.fh, &a->fh));
	ASSERT(lookup(&call, a, "..", &node) == 0 && vfs_fh_equal(&node.fh, &root->fh));
	ASSERT(lookup(&call, root, "..", &node) == 0 && vfs_fh_equal(&node.fh, &root->fh));
	ASSERT(lookup(&call, a, ".", &node) == 0 && vfs_fh_equal(&node.fh, &a->fh));
	ASSERT(lookup(&call, root, "l", &node) == 0 && S_ISLNK(node.attr.type_mode));
	ASSERT(lookup(&call, root, "none", &node) == -ENOENT);
	ASSERT(lookup(&call, root, "a/b", &node) == -EINVAL);
	ASSERT(lookup(&call, root, "", &node) == -EINVAL);
	memset(long_name, 'n', sizeof(long_name));
	long_name[256] = 0;
	ASSERT(lookup(&call, root, long_name, &node) == -ENAMETOOLONG);
	long_name[255] = 0;
	ASSERT(lookup(&call, root, long_name, &node) == -ENOENT);
	ASSERT(lookup(&call, file, "x", &node) == -ENOTDIR);
	ASSERT(lookup(&user, a, "b", &node) == -EACCES);
	ASSERT(lookup(&user, a, ".", &node) == -EACCES);
	ASSERT(rmdir(SCRATCH_FS "/a/b") == 0);
	ASSERT(lookup(&call, b, "x", &node) == -ESTALE);
	vfs_file_put(a);
	vfs_file_put(b);
	vfs_file_put(file);
	vfs_file_put(root);
}
ON_ALL(lookups, "no_root_squash")

/* What the kernel says to an identity about a path, without us. */
struct kernel_question {
	const char *path;
	int err;
};

static void ask_kernel(void *arg)
{
	struct kernel_question *q = arg;
	struct stat st;

	q->err = lstat(q->path, &st) ? -errno : 0;
}

static void same_as_kernel(const struct vfs_call *call, struct vfs_file *dir, const char *name)
{
	struct vfs_node node;
	char path[512];
	struct kernel_question q = { .path = path };

	snprintf(path, sizeof(path), "%s/d/%s", SCRATCH_FS, name);
	pool_run(ask_kernel, &q, &call->cred);
	ASSERT(lookup(call, dir, name, &node) == q.err);
}

/* Whoever asks: owner, two groups, a user whom the ACL names, others, root. */
static void same_for_all(struct vfs_file *dir)
{
	static const struct cred who[] = {
		{ .uid = 500, .gid = 1 }, { .uid = 1, .gid = 600 }, { .uid = 2, .gid = 2, .ngroups = 1, .groups = { 600 } }, { .uid = 700, .gid = 2 },
		{ .uid = 3, .gid = 800 }, { .uid = 4, .gid = 4 }, { .uid = 0, .gid = 0 },
	};
	static const char *const names[] = { "f", "l", "sub", "none" };
	struct vfs_call call = harness_call(0, 0);

	for (unsigned w = 0; w < ARRAY_SIZE(who); w++)
		for (unsigned n = 0; n < ARRAY_SIZE(names); n++) {
			call.cred = who[w];
			same_as_kernel(&call, dir, names[n]);
		}
}

/* Look-ups that are answered from memory are allowed and refused as the kernel does it. */
static void lookups_in_memory(void)
{
	static const char *const acls[] = { "u:700:x,g:800:-,m::x", "u:700:-,g:800:x,g:600:-", "u:700:rwx,g:800:rwx,m::r" };
	const struct vfs_call call = harness_call(0, 0);
	struct vfs_file *root = harness_root(), *dir;
	int64_t before;
	char command[256];

	ASSERT(mkdir(SCRATCH_FS "/d", 0755) == 0 && mkdir(SCRATCH_FS "/d/sub", 0700) == 0 && symlink("f", SCRATCH_FS "/d/l") == 0);
	make(SCRATCH_FS "/d/f");
	ASSERT(chown(SCRATCH_FS "/d", 500, 600) == 0);
	dir = walk(root, "d");
	same_for_all(dir);
	before = counter_value("ns.lookups_in_memory");
	for (unsigned mode = 0; mode < 0777; mode += 011) {
		ASSERT(chmod(SCRATCH_FS "/d", mode) == 0);
		same_for_all(dir);
	}
	for (unsigned i = 0; i < ARRAY_SIZE(acls); i++)
		for (unsigned mode = 0; mode < 2; mode++) {
			ASSERT(chmod(SCRATCH_FS "/d", mode ? 0711 : 0644) == 0);
			snprintf(command, sizeof(command), "setfacl -b -m %s %s/d", acls[i], SCRATCH_FS);
			ASSERT(system(command) == 0);
			same_for_all(dir);
		}
	/* Nothing of that left the reactor. */
	ASSERT(counter_value("ns.lookups_in_memory") - before >= 100);
	/* A change is seen at once, by others' hands too. */
	ASSERT(rename(SCRATCH_FS "/d/f", SCRATCH_FS "/d/none") == 0);
	same_as_kernel(&call, dir, "f");
	same_as_kernel(&call, dir, "none");
	vfs_file_put(dir);
	vfs_file_put(root);
}
ON_ALL(lookups_in_memory, "no_root_squash")

/* What the kernel has forgotten is found in the pool, and is in memory afterwards. */
static void lookup_cold(void)
{
	const struct vfs_call call = harness_call(0, 0);
	struct vfs_file *root = harness_root();
	int64_t before = counter_value("ns.lookups_in_memory");
	struct vfs_node node;

	make(SCRATCH_FS "/f");
	ASSERT(system("echo 2 > /proc/sys/vm/drop_caches") == 0);
	ASSERT(lookup(&call, root, "f", &node) == 0);
	ASSERT(counter_value("ns.lookups_in_memory") == before);
	ASSERT(lookup(&call, root, "f", &node) == 0);
	ASSERT(counter_value("ns.lookups_in_memory") == before + 1);
	vfs_file_put(root);
}
RUN(xfs, lookup_cold, "no_root_squash")

/* What is mounted below an export stays hidden: the covered directory is shown, and no handle of the other file system is. */
static void mounts_hidden(void)
{
	const struct vfs_call call = harness_call(0, 0);
	struct vfs_file *root = harness_root(), *m;
	struct vfs_node node;
	struct vfs_dirlist *list;
	struct vfs_attr attr;
	bool valid;

	ASSERT(mkdir(SCRATCH_FS "/m", 0755) == 0);
	make(SCRATCH_FS "/m/covered");
	ASSERT(mount("none", SCRATCH_FS "/m", "tmpfs", 0, NULL) == 0);
	make(SCRATCH_FS "/m/other");
	m = walk(root, "m");
	ASSERT(m->export == harness_view()->export);
	ASSERT(lookup(&call, m, "covered", &node) == 0);
	ASSERT(lookup(&call, m, "other", &node) == -ENOENT);
	ASSERT(lookup(&call, m, "..", &node) == 0 && vfs_fh_equal(&node.fh, &root->fh));
	ASSERT(vfs_readdir(&call, root, 0, no_verf, 4096, true, &list, &attr, &valid) == 0);
	for (unsigned i = 0; i < list->count; i++)
		ASSERT(list->entries[i].has_node && list->entries[i].node.attr.fsid == root->export->fsid);
	vfs_dirlist_free(list);
	vfs_file_put(m);
	vfs_file_put(root);
	ASSERT(umount(SCRATCH_FS "/m") == 0);
}
RUN(ext4, mounts_hidden, "no_root_squash")

static void access_bits(void)
{
	const struct vfs_call root_call = harness_call(0, 0), owner = harness_call(500, 500), other = harness_call(501, 501);
	struct vfs_file *root = harness_root(), *file, *dir;
	struct vfs_attr attr;
	uint32_t granted;

	make(SCRATCH_FS "/f");
	ASSERT(chown(SCRATCH_FS "/f", 500, 500) == 0 && chmod(SCRATCH_FS "/f", 0640) == 0);
	ASSERT(mkdir(SCRATCH_FS "/d", 0755) == 0 && chown(SCRATCH_FS "/d", 500, 500) == 0);
	file = walk(root, "f");
	dir = walk(root, "d");
	ASSERT(vfs_access(&owner, file, 63, &granted, &attr) == 0 && granted == (1 | 4 | 8));
	ASSERT(vfs_access(&other, file, 63, &granted, &attr) == 0 && granted == 0);
	ASSERT(vfs_access(&root_call, file, 63, &granted, &attr) == 0 && granted == (1 | 4 | 8));
	ASSERT(vfs_access(&owner, dir, 63, &granted, &attr) == 0 && granted == (1 | 2 | 4 | 8 | 16));
	ASSERT(vfs_access(&other, dir, 63, &granted, &attr) == 0 && granted == (1 | 2));
	ASSERT(vfs_access(&owner, dir, 2, &granted, &attr) == 0 && granted == 2);
	vfs_file_put(file);
	vfs_file_put(dir);
	vfs_file_put(root);
}
RUN(tmpfs, access_bits, "no_root_squash")

static void creates(void)
{
	const struct vfs_call call = harness_call(500, 600), nobody = harness_call(501, 601);
	const struct vfs_sattr mode = { .set_mode = true, .mode = 0654, .set_uid = true, .uid = 0 }, size = { .set_size = true, .size = 0 };
	const struct vfs_sattr sized = { .set_mode = true, .mode = 0600, .set_size = true, .size = 12345 };
	struct vfs_file *root = harness_root(), *dir;
	struct vfs_node node, again;
	struct vfs_wcc wcc;
	struct stat st;

	ASSERT(mkdir(SCRATCH_FS "/d", 0755) == 0 && chown(SCRATCH_FS "/d", 500, 600) == 0);
	dir = walk(root, "d");
	/* The caller is the owner; the owner it asks for is not obeyed, as it is not root. */
	ASSERT(vfs_create(&call, dir, harness_name("f"), VFS_CREATE_GUARDED, &mode, no_verf, &node, &wcc) == 0);
	ASSERT(wcc_whole(&wcc));
	ASSERT(stat(SCRATCH_FS "/d/f", &st) == 0);
	ASSERT(st.st_uid == 500 && st.st_gid == 600 && st.st_mode == (S_IFREG | 0654) && st.st_ino == node.attr.fileid);
	ASSERT(create(&call, dir, "f", VFS_CREATE_GUARDED, &mode, &again) == -EEXIST);
	ASSERT(create(&nobody, dir, "g", VFS_CREATE_GUARDED, &mode, &again) == -EACCES);
	/* UNCHECKED finds the file, leaves its mode, truncates it if a size is given and the caller may write. */
	ASSERT(truncate(SCRATCH_FS "/d/f", 1000) == 0);
	ASSERT(create(&nobody, dir, "f", VFS_CREATE_UNCHECKED, &size, &again) == -EACCES);
	ASSERT(create(&call, dir, "f", VFS_CREATE_UNCHECKED, &no_sattr, &again) == 0);
	ASSERT(vfs_fh_equal(&node.fh, &again.fh) && again.attr.size == 1000 && again.attr.type_mode == (S_IFREG | 0654));
	ASSERT(create(&call, dir, "f", VFS_CREATE_UNCHECKED, &size, &again) == 0);
	ASSERT(again.attr.size == 0);
	ASSERT(stat(SCRATCH_FS "/d/f", &st) == 0 && st.st_size == 0);
	ASSERT(create(&call, dir, "sized", VFS_CREATE_GUARDED, &sized, &again) == 0 && again.attr.size == 12345);
	ASSERT(mkdir(SCRATCH_FS "/d/sub", 0755) == 0);
	ASSERT(create(&call, dir, "sub", VFS_CREATE_UNCHECKED, &mode, &again) == -EEXIST);
	ASSERT(create(&call, dir, ".", VFS_CREATE_UNCHECKED, &mode, &again) == -EEXIST);
	ASSERT(create(&call, dir, "..", VFS_CREATE_UNCHECKED, &mode, &again) == -EEXIST);
	ASSERT(create(&call, dir, "a/b", VFS_CREATE_UNCHECKED, &mode, &again) == -EINVAL);
	vfs_file_put(dir);
	vfs_file_put(root);
}
ON_ALL(creates, "no_root_squash")

static int create_exclusive(const struct vfs_call *call, struct vfs_file *dir, const uint8_t verf[8], struct vfs_node *node)
{
	struct vfs_wcc wcc;

	return vfs_create(call, dir, harness_name("x"), VFS_CREATE_EXCLUSIVE, &no_sattr, verf, node, &wcc);
}

static void creates_exclusive(void)
{
	const struct vfs_call call = harness_call(0, 0);
	const uint8_t one[8] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff }, two[8] = { 1, 2, 3, 4, 5, 6, 7, 9 }, three[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	struct vfs_file *root = harness_root(), *file;
	const struct vfs_sattr mtime = { .set_mtime = VFS_TIME_SERVER };
	struct vfs_node node, again;
	struct vfs_wcc wcc;

	ASSERT(create_exclusive(&call, root, one, &node) == 0);
	ASSERT(create_exclusive(&call, root, one, &again) == 0 && vfs_fh_equal(&node.fh, &again.fh));
	ASSERT(create_exclusive(&call, root, two, &again) == -EEXIST);
	ASSERT(unlink(SCRATCH_FS "/x") == 0);
	ASSERT(create_exclusive(&call, root, three, &node) == 0);
	ASSERT(create_exclusive(&call, root, two, &again) == -EEXIST);
	ASSERT(create_exclusive(&call, root, three, &again) == 0);
	file = get(&call, &node.fh);
	ASSERT(vfs_setattr(&call, file, &mtime, NULL, &wcc) == 0);
	ASSERT(create_exclusive(&call, root, three, &again) == -EEXIST);
	vfs_file_put(file);
	vfs_file_put(root);
}
ON_ALL(creates_exclusive, "no_root_squash")

static void makes(void)
{
	const struct vfs_call call = harness_call(0, 0), user = harness_call(500, 600);
	const struct vfs_sattr mode = { .set_mode = true, .mode = 01777 }, owned = { .set_uid = true, .uid = 7, .set_gid = true, .gid = 8 };
	const struct vfs_sattr times = { .set_mtime = VFS_TIME_CLIENT, .mtime = { 1000000000, 5 }, .set_mode = true, .mode = 0640 };
	struct vfs_file *root = harness_root(), *link, *dir, *write_only;
	struct vfs_node node;
	struct vfs_attr attr;
	struct vfs_wcc wcc;
	char target[VFS_PATH_MAX];
	uint32_t len;
	bool valid;

	ASSERT(vfs_mkdir(&call, root, harness_name("d"), &mode, &node, &wcc) == 0);
	ASSERT(wcc_whole(&wcc) && wcc.post.nlink >= 2);
	ASSERT(node.attr.type_mode == (S_IFDIR | 01777));
	dir = get(&call, &node.fh);
	ASSERT(vfs_mkdir(&call, root, harness_name("d"), &mode, &node, &wcc) == -EEXIST);
	ASSERT(vfs_mkdir(&user, root, harness_name("e"), &mode, &node, &wcc) == -EACCES);
	ASSERT(vfs_mkdir(&user, dir, harness_name("e"), &owned, &node, &wcc) == 0 && node.attr.uid == 500 && node.attr.gid == 600);
	/* A directory that may be written but not read is synced all the same. */
	ASSERT(mkdir(SCRATCH_FS "/w", 0733) == 0);
	write_only = walk(root, "w");
	ASSERT(vfs_mkdir(&user, write_only, harness_name("e"), &mode, &node, &wcc) == 0);
	ASSERT(create(&user, write_only, "f", VFS_CREATE_GUARDED, &mode, &node) == 0);
	ASSERT(vfs_remove(&user, write_only, harness_name("f"), &wcc) == 0);
	vfs_file_put(write_only);
	ASSERT(vfs_mkdir(&call, dir, harness_name("g"), &owned, &node, &wcc) == 0 && node.attr.uid == 7 && node.attr.gid == 8);
	ASSERT(vfs_mkdir(&call, dir, harness_name(".."), &owned, &node, &wcc) == -EEXIST);

	ASSERT(vfs_symlink(&call, root, harness_name("l"), harness_name("../../etc"), &owned, &node, &wcc) == 0);
	ASSERT(S_ISLNK(node.attr.type_mode) && node.attr.uid == 7 && node.attr.size == 9);
	link = get(&call, &node.fh);
	ASSERT(vfs_readlink(&user, link, target, &len, &attr, &valid) == 0 && valid && len == 9 && !memcmp(target, "../../etc", 9));
	ASSERT(vfs_readlink(&user, dir, target, &len, &attr, &valid) == -EINVAL && valid);
	ASSERT(vfs_symlink(&call, root, harness_name("m"), (struct vfs_name){ "a\0b", 3 }, &no_sattr, &node, &wcc) == -EINVAL);
	ASSERT(vfs_symlink(&call, root, harness_name("m"), (struct vfs_name){ "", 0 }, &no_sattr, &node, &wcc) == -EINVAL);

	ASSERT(vfs_mknod(&call, root, harness_name("c"), S_IFCHR, 1, 3, &times, &node, &wcc) == 0);
	ASSERT(node.attr.type_mode == (S_IFCHR | 0640) && node.attr.rdev_major == 1 && node.attr.rdev_minor == 3 && node.attr.mtime.tv_sec == 1000000000);
	ASSERT(vfs_mknod(&user, dir, harness_name("c"), S_IFBLK, 1, 3, &times, &node, &wcc) == -EPERM);
	ASSERT(vfs_mknod(&user, dir, harness_name("p"), S_IFIFO, 0, 0, &times, &node, &wcc) == 0 && S_ISFIFO(node.attr.type_mode));
	ASSERT(vfs_mknod(&user, dir, harness_name("s"), S_IFSOCK, 0, 0, &no_sattr, &node, &wcc) == 0 && S_ISSOCK(node.attr.type_mode));
	vfs_file_put(link);
	vfs_file_put(dir);
	vfs_file_put(root);
}
ON_ALL(makes, "no_root_squash")

static void removes(void)
{
	const struct vfs_call call = harness_call(0, 0), user = harness_call(500, 600);
	struct vfs_file *root = harness_root(), *file, *other;
	struct vfs_wcc wcc;
	struct vfs_fh fh;

	make(SCRATCH_FS "/f");
	ASSERT(mkdir(SCRATCH_FS "/d", 0755) == 0);
	make(SCRATCH_FS "/d/g");
	file = walk(root, "f");
	fh = file->fh;
	ASSERT(vfs_file_open_io(file) == 0);
	vfs_file_put(file);
	ASSERT(vfs_remove(&user, root, harness_name("f"), &wcc) == -EACCES);
	ASSERT(vfs_remove(&call, root, harness_name("d"), &wcc) == -EISDIR);
	ASSERT(vfs_rmdir(&call, root, harness_name("f"), &wcc) == -ENOTDIR);
	ASSERT(vfs_rmdir(&call, root, harness_name("d"), &wcc) == -ENOTEMPTY);
	ASSERT(vfs_remove(&call, root, harness_name("f"), &wcc) == 0 && wcc_whole(&wcc));
	ASSERT(vfs_remove(&call, root, harness_name("f"), &wcc) == -ENOENT && wcc.post_valid);
	ASSERT(vfs_file_get(&call, &fh, &other) == -ESTALE);
	ASSERT(vfs_remove(&call, root, harness_name(".."), &wcc) == -EINVAL);
	ASSERT(vfs_rmdir(&call, root, harness_name("."), &wcc) == -EINVAL);
	ASSERT(vfs_rmdir(&call, root, harness_name(".."), &wcc) == -ENOTEMPTY);
	file = walk(root, "d");
	fh = file->fh;
	ASSERT(vfs_remove(&call, file, harness_name("g"), &wcc) == 0);
	ASSERT(vfs_rmdir(&call, root, harness_name("d"), &wcc) == 0);
	ASSERT(vfs_remove(&call, file, harness_name("g"), &wcc) == -ESTALE);
	vfs_file_put(file);
	ASSERT(vfs_file_get(&call, &fh, &other) == -ESTALE);
	vfs_file_put(root);
}
ON_ALL(removes, "no_root_squash")

static int rename_as(const struct vfs_call *call, struct vfs_file *from_dir, const char *from, struct vfs_file *to_dir, const char *to)
{
	struct vfs_wcc from_wcc = { 0 }, to_wcc = { 0 };
	int err = vfs_rename(call, from_dir, harness_name(from), call, to_dir, harness_name(to), &from_wcc, &to_wcc);

	ASSERT(from_wcc.post_valid && to_wcc.post_valid);
	ASSERT(err || (wcc_whole(&from_wcc) && wcc_whole(&to_wcc)));
	return err;
}

static void renames(void)
{
	const struct vfs_call call = harness_call(0, 0), user = harness_call(500, 600);
	struct vfs_file *root = harness_root(), *a, *b, *file, *victim, *other;
	struct vfs_fh fh;
	struct vfs_node node;

	ASSERT(mkdir(SCRATCH_FS "/a", 0755) == 0 && mkdir(SCRATCH_FS "/b", 0755) == 0 && mkdir(SCRATCH_FS "/a/sub", 0755) == 0);
	make(SCRATCH_FS "/a/f");
	make(SCRATCH_FS "/b/v");
	a = walk(root, "a");
	b = walk(root, "b");
	file = walk(a, "f");
	victim = walk(b, "v");
	fh = victim->fh;
	vfs_file_put(victim);
	ASSERT(rename_as(&user, a, "f", b, "g") == -EACCES);
	ASSERT(rename_as(&call, a, "f", b, "v") == 0);
	ASSERT(lookup(&call, b, "v", &node) == 0 && vfs_fh_equal(&node.fh, &file->fh));
	ASSERT(lookup(&call, a, "f", &node) == -ENOENT);
	ASSERT(vfs_file_get(&call, &fh, &other) == -ESTALE);
	ASSERT(rename_as(&call, b, "v", b, "w") == 0);
	ASSERT(rename_as(&call, b, "v", b, "w") == -ENOENT);
	ASSERT(rename_as(&call, b, ".", b, "w") == -EINVAL);
	ASSERT(rename_as(&call, b, "w", b, "..") == -EINVAL);
	ASSERT(rename_as(&call, b, "w", a, "sub") == -EISDIR);
	ASSERT(rename_as(&call, root, "a", a, "sub") < 0);
	ASSERT(rename_as(&call, root, "b", a, "b") == 0);
	vfs_file_put(a);
	vfs_file_put(b);
	vfs_file_put(file);
	vfs_file_put(root);
}
ON_ALL(renames, "no_root_squash")

/* Both ends' views count, and both must be one export. */
static void renames_between_views(void)
{
	struct export other_export = *harness_view()->export;
	struct export_view ro = { .export = harness_view()->export, .options = { .read_only = true } };
	const struct vfs_call call = harness_call(0, 0), ro_call = { .view = &ro };
	struct vfs_file *root = harness_root(), elsewhere = *root;
	struct vfs_wcc a, b;
	struct vfs_attr attr;
	bool valid;

	make(SCRATCH_FS "/f");
	ASSERT(vfs_rename(&ro_call, root, harness_name("f"), &call, root, harness_name("g"), &a, &b) == -EROFS);
	ASSERT(vfs_rename(&call, root, harness_name("f"), &ro_call, root, harness_name("g"), &a, &b) == -EROFS);
	ASSERT(vfs_link(&call, root, &ro_call, root, harness_name("g"), &attr, &valid, &a) == -EROFS);
	other_export.id++;
	elsewhere.export = &other_export;
	ASSERT(vfs_rename(&call, root, harness_name("f"), &call, &elsewhere, harness_name("g"), &a, &b) == -EXDEV);
	ASSERT(vfs_link(&call, &elsewhere, &call, root, harness_name("g"), &attr, &valid, &a) == -EXDEV);
	vfs_file_put(root);
}
RUN(tmpfs, renames_between_views, "no_root_squash")

/* A file that was opened before its export got another mount still renames and links. */
static void across_mounts(void)
{
	const struct vfs_call call = harness_call(0, 0);
	struct export moved = *harness_view()->export;
	struct vfs_file *root = harness_root(), later = *root;
	const int tree = open_tree(moved.root_fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
	struct vfs_attr attr;
	struct vfs_wcc wcc;
	bool valid;

	make(SCRATCH_FS "/f");
	ASSERT(tree >= 0);
	TAILQ_INIT(&moved.sync_waiting);
	moved.mount_fd = openat(tree, ".", O_RDONLY | O_DIRECTORY);
	ASSERT(moved.mount_fd >= 0);
	later.export = &moved;
	later.path_fd = vfs_fh_open(&root->fh, moved.mount_fd, O_PATH);
	ASSERT(later.path_fd >= 0);
	pthread_mutex_init(&later.dir_mutex, NULL);
	ASSERT(rename_as(&call, root, "f", &later, "g") == 0);
	struct vfs_file *file = walk(root, "g");
	ASSERT(vfs_link(&call, file, &call, &later, harness_name("h"), &attr, &valid, &wcc) == 0 && attr.nlink == 2);
	vfs_file_put(file);
	close(later.path_fd);
	close(moved.mount_fd);
	close(tree);
	vfs_file_put(root);
}
RUN(ext4, across_mounts, "no_root_squash")

static void links(void)
{
	const struct vfs_call call = harness_call(0, 0), user = harness_call(500, 600);
	struct vfs_file *root = harness_root(), *file, *dir, *symbolic;
	struct vfs_attr attr;
	struct vfs_wcc wcc;
	bool valid;

	make(SCRATCH_FS "/f");
	ASSERT(mkdir(SCRATCH_FS "/d", 0777) == 0 && chown(SCRATCH_FS "/f", 500, 600) == 0 && symlink("f", SCRATCH_FS "/s") == 0);
	file = walk(root, "f");
	dir = walk(root, "d");
	symbolic = walk(root, "s");
	ASSERT(vfs_link(&user, file, &user, dir, harness_name("g"), &attr, &valid, &wcc) == 0);
	ASSERT(valid && attr.nlink == 2 && wcc_whole(&wcc));
	ASSERT(vfs_link(&user, file, &user, dir, harness_name("g"), &attr, &valid, &wcc) == -EEXIST);
	ASSERT(vfs_link(&user, file, &user, root, harness_name("g"), &attr, &valid, &wcc) == -EACCES);
	ASSERT(vfs_link(&call, dir, &call, root, harness_name("e"), &attr, &valid, &wcc) == -EPERM);
	ASSERT(vfs_link(&call, symbolic, &call, root, harness_name("t"), &attr, &valid, &wcc) == 0 && S_ISLNK(attr.type_mode) && attr.nlink == 2);
	ASSERT(unlink(SCRATCH_FS "/f") == 0 && unlink(SCRATCH_FS "/d/g") == 0);
	ASSERT(vfs_link(&user, file, &user, dir, harness_name("g"), &attr, &valid, &wcc) == -ESTALE);
	vfs_file_put(file);
	vfs_file_put(dir);
	vfs_file_put(symbolic);
	vfs_file_put(root);
}
ON_ALL(links, "no_root_squash")

static int setattr(const struct vfs_call *call, struct vfs_file *file, struct vfs_sattr sattr)
{
	struct vfs_wcc wcc = { 0 };
	int err = vfs_setattr(call, file, &sattr, NULL, &wcc);

	ASSERT(wcc.post_valid);
	return err;
}

static mode_t mode_of(const char *path)
{
	struct stat st;

	ASSERT(lstat(path, &st) == 0);
	return st.st_mode & 07777;
}

static void setattrs(void)
{
	const struct vfs_call root_call = harness_call(0, 0), owner = harness_call(500, 600), other = harness_call(501, 601);
	const struct vfs_sattr chmod_600 = { .set_mode = true, .mode = 0600 }, chown_0 = { .set_uid = true, .uid = 0 };
	struct vfs_file *root = harness_root(), *file, *dir, *symbolic, *fifo;
	struct vfs_attr attr;
	struct vfs_wcc wcc;
	struct timespec guard;
	struct stat st;

	make(SCRATCH_FS "/f");
	ASSERT(chown(SCRATCH_FS "/f", 500, 600) == 0 && mkdir(SCRATCH_FS "/d", 0755) == 0 && symlink("f", SCRATCH_FS "/s") == 0);
	ASSERT(mkfifo(SCRATCH_FS "/p", 0644) == 0);
	file = walk(root, "f");
	dir = walk(root, "d");
	symbolic = walk(root, "s");
	fifo = walk(root, "p");
	ASSERT(setattr(&other, file, chmod_600) == -EPERM);
	ASSERT(setattr(&owner, file, chmod_600) == 0 && mode_of(SCRATCH_FS "/f") == 0600);
	ASSERT(setattr(&owner, file, chown_0) == -EPERM);
	ASSERT(setattr(&owner, file, (struct vfs_sattr){ .set_uid = true, .uid = -1 }) == -EINVAL);
	/* Owner and mode together: as knfsd, the set-ID bits do not come along. */
	ASSERT(setattr(&root_call, file, (struct vfs_sattr){ .set_uid = true, .uid = 500, .set_mode = true, .mode = 06755 }) == 0);
	ASSERT(mode_of(SCRATCH_FS "/f") == 0755);
	ASSERT(setattr(&root_call, file, (struct vfs_sattr){ .set_mode = true, .mode = 06755 }) == 0 && mode_of(SCRATCH_FS "/f") == 06755);
	/* The kernel's rules for times: now for who may write, anything for the owner only. */
	ASSERT(chmod(SCRATCH_FS "/f", 0646) == 0);
	ASSERT(setattr(&other, file, (struct vfs_sattr){ .set_atime = VFS_TIME_SERVER, .set_mtime = VFS_TIME_SERVER }) == 0);
	ASSERT(setattr(&other, file, (struct vfs_sattr){ .set_mtime = VFS_TIME_CLIENT, .mtime = { 5, 0 } }) == -EPERM);
	ASSERT(setattr(&owner, file, (struct vfs_sattr){ .set_mtime = VFS_TIME_CLIENT, .mtime = { 1234567890, 123456789 } }) == 0);
	ASSERT(stat(SCRATCH_FS "/f", &st) == 0 && st.st_mtim.tv_sec == 1234567890 && st.st_mtim.tv_nsec == 123456789);
	/* Size: through the mapping, by who may write, or by the owner whatever the mode. */
	ASSERT(chmod(SCRATCH_FS "/f", 0) == 0);
	ASSERT(setattr(&other, file, (struct vfs_sattr){ .set_size = true, .size = 10 }) == -EACCES);
	ASSERT(setattr(&owner, file, (struct vfs_sattr){ .set_size = true, .size = 777777 }) == 0);
	ASSERT(stat(SCRATCH_FS "/f", &st) == 0 && st.st_size == 777777);
	ASSERT(setattr(&owner, dir, (struct vfs_sattr){ .set_size = true }) == -EISDIR);
	ASSERT(setattr(&owner, symbolic, (struct vfs_sattr){ .set_size = true }) == -EINVAL);
	ASSERT(setattr(&root_call, file, (struct vfs_sattr){ .set_size = true, .size = UINT64_MAX }) == -EFBIG);
	/* Other types: the object itself, never what a link points at, and a FIFO without waiting for its other end. */
	ASSERT(setattr(&root_call, symbolic, (struct vfs_sattr){ .set_uid = true, .uid = 9, .set_mode = true, .mode = 0 }) == 0);
	ASSERT(lstat(SCRATCH_FS "/s", &st) == 0 && st.st_uid == 9 && S_ISLNK(st.st_mode));
	ASSERT(stat(SCRATCH_FS "/f", &st) == 0 && st.st_uid == 500);
	ASSERT(setattr(&root_call, fifo, chmod_600) == 0 && mode_of(SCRATCH_FS "/p") == 0600);
	ASSERT(setattr(&root_call, dir, (struct vfs_sattr){ .set_mode = true, .mode = 03777 }) == 0 && mode_of(SCRATCH_FS "/d") == 03777);
	/* The guard is ctime to the nanosecond. */
	ASSERT(vfs_getattr(file, &attr) == 0);
	guard = attr.ctime;
	guard.tv_nsec ^= 1;
	ASSERT(vfs_setattr(&owner, file, &chmod_600, &guard, &wcc) == -ENOTUNIQ && wcc.post_valid);
	guard.tv_nsec ^= 1;
	ASSERT(vfs_setattr(&owner, file, &chmod_600, &guard, &wcc) == 0);
	ASSERT(wcc.pre_valid && !memcmp(&wcc.pre.ctime, &guard, sizeof(guard)) && wcc_whole(&wcc));
	ASSERT(vfs_setattr(&owner, file, &chmod_600, &guard, &wcc) == -ENOTUNIQ);
	/* Not ours alone: a change of data that runs meanwhile makes `pre` invalid. */
	vfs_file_change_begin(file);
	ASSERT(vfs_setattr(&owner, file, &chmod_600, NULL, &wcc) == 0 && !wcc.pre_valid);
	vfs_file_change_end(file);
	ASSERT(vfs_setattr(&owner, file, &(struct vfs_sattr){ .set_size = true, .size = 5 }, NULL, &wcc) == 0 && wcc.pre_valid && wcc.pre.size == 777777 && wcc.post.size == 5);
	vfs_file_put(file);
	vfs_file_put(dir);
	vfs_file_put(symbolic);
	vfs_file_put(fifo);
	vfs_file_put(root);
}
ON_ALL(setattrs, "no_root_squash")

static void kills_suid(void)
{
	struct vfs_file *root = harness_root(), *file;
	struct vfs_attr attr;

	make(SCRATCH_FS "/f");
	ASSERT(chmod(SCRATCH_FS "/f", 06775) == 0);
	file = walk(root, "f");
	ASSERT(vfs_getattr(file, &attr) == 0 && vfs_kill_suid(file, &attr) == 0 && mode_of(SCRATCH_FS "/f") == 0775);
	ASSERT(chmod(SCRATCH_FS "/f", 02765) == 0);
	ASSERT(vfs_getattr(file, &attr) == 0 && vfs_kill_suid(file, &attr) == 0 && mode_of(SCRATCH_FS "/f") == 02765);
	vfs_file_put(file);
	vfs_file_put(root);
}
RUN(tmpfs, kills_suid, "no_root_squash")

static void read_only(void)
{
	const struct vfs_call call = harness_call(0, 0);
	struct vfs_file *root = harness_root(), *file;
	struct vfs_wcc wcc, other;
	struct vfs_node node;
	struct vfs_attr attr;
	bool valid;

	make(SCRATCH_FS "/f");
	file = walk(root, "f");
	ASSERT(create(&call, root, "g", VFS_CREATE_GUARDED, &no_sattr, &node) == -EROFS);
	ASSERT(vfs_mkdir(&call, root, harness_name("g"), &no_sattr, &node, &wcc) == -EROFS && wcc.post_valid && !wcc.pre_valid);
	ASSERT(vfs_symlink(&call, root, harness_name("g"), harness_name("x"), &no_sattr, &node, &wcc) == -EROFS);
	ASSERT(vfs_mknod(&call, root, harness_name("g"), S_IFIFO, 0, 0, &no_sattr, &node, &wcc) == -EROFS);
	ASSERT(vfs_remove(&call, root, harness_name("f"), &wcc) == -EROFS);
	ASSERT(vfs_rmdir(&call, root, harness_name("f"), &wcc) == -EROFS);
	ASSERT(vfs_rename(&call, root, harness_name("f"), &call, root, harness_name("g"), &wcc, &other) == -EROFS);
	ASSERT(vfs_link(&call, file, &call, root, harness_name("g"), &attr, &valid, &wcc) == -EROFS && valid);
	ASSERT(setattr(&call, file, (struct vfs_sattr){ .set_mode = true }) == -EROFS);
	ASSERT(setattr(&call, file, no_sattr) == -EROFS);
	vfs_file_put(file);
	vfs_file_put(root);
}
RUN(tmpfs, read_only, "ro,no_root_squash")

enum { ENTRIES = 1500 };

static void fill_directory(void)
{
	char path[64];

	ASSERT(mkdir(SCRATCH_FS "/d", 0755) == 0);
	for (unsigned i = 0; i < ENTRIES; i++) {
		snprintf(path, sizeof(path), SCRATCH_FS "/d/entry-%u", i);
		make(path);
	}
}

static struct vfs_dirlist *page(const struct vfs_call *call, struct vfs_file *dir, uint64_t cookie, uint32_t bytes, bool plus)
{
	struct vfs_dirlist *list = NULL;
	struct vfs_attr attr;
	bool valid;

	ASSERT(vfs_readdir(call, dir, cookie, no_verf, bytes, plus, &list, &attr, &valid) == 0 && valid);
	ASSERT(list->count || list->eof);
	return list;
}

/* "entry-N": N; dots: -1. */
static int entry_number(const struct vfs_dirent *e)
{
	char text[256];

	memcpy(text, e->name.data, e->name.len);
	text[e->name.len] = 0;
	return e->name.data[0] == '.' ? -1 : atoi(text + 6);
}

static void list_in_pages(struct vfs_file *dir, uint32_t bytes, bool plus)
{
	const struct vfs_call call = harness_call(0, 0);
	static unsigned seen[ENTRIES];
	unsigned dots = 0;
	uint64_t cookie = 0;
	bool eof = false;

	memset(seen, 0, sizeof(seen));
	while (!eof) {
		struct vfs_dirlist *list = page(&call, dir, cookie, bytes, plus);

		for (unsigned i = 0; i < list->count; i++) {
			const struct vfs_dirent *e = list->entries + i;
			const int n = entry_number(e);

			ASSERT(e->has_node == plus);
			ASSERT(!plus || e->fileid == e->node.attr.fileid);
			if (n < 0)
				dots++;
			else
				seen[n]++;
			cookie = e->cookie;
		}
		eof = list->eof;
		vfs_dirlist_free(list);
	}
	ASSERT(dots == 2);
	for (unsigned i = 0; i < ENTRIES; i++)
		ASSERT(seen[i] == 1);
}

static bool has_settled(const char *path)
{
	struct statx stx;

	ASSERT(statx(AT_FDCWD, path, 0, STATX_BASIC_STATS, &stx) == 0);
	return vfs_fh_memo_settled(&stx);
}

/* A whole listing; each entry has the handle that the kernel gives now. How many handles were made for it. */
static unsigned handles_made(struct vfs_file *dir)
{
	const struct vfs_call call = harness_call(0, 0);
	const int64_t before = counter_value("fh.made");
	struct vfs_dirlist *list = page(&call, dir, 0, 1 << 20, true);
	const int64_t made = counter_value("fh.made") - before;
	char name[256];
	struct vfs_fh fh;

	ASSERT(list->eof);
	for (unsigned i = 0; i < list->count; i++) {
		const struct vfs_dirent *e = list->entries + i;

		snprintf(name, sizeof(name), "%.*s", (int)e->name.len, e->name.data);
		ASSERT(e->has_node);
		if (entry_number(e) >= 0)
			ASSERT(vfs_fh_from_name(dir->export->id, dir->path_fd, name, &fh) == 0 && vfs_fh_equal(&fh, &e->node.fh));
	}
	vfs_dirlist_free(list);
	return made;
}

/* The second listing knows the handles of the first; a file in the place, and perhaps with the number, of another has a handle of its own. */
static void readdir_knows_handles(void)
{
	struct vfs_file *root = harness_root(), *dir;
	char path[64];

	fill_directory();
	while (!has_settled(SCRATCH_FS "/d"))
		fiber_sleep_ns(10000000);
	dir = walk(root, "d");
	ASSERT(handles_made(dir) >= ENTRIES);
	ASSERT(handles_made(dir) < ENTRIES / 2); /* two may want one place */
	for (unsigned i = 0; i < ENTRIES; i += 3) {
		snprintf(path, sizeof(path), SCRATCH_FS "/d/entry-%u", i);
		ASSERT(unlink(path) == 0);
		make(path);
	}
	ASSERT(handles_made(dir) >= ENTRIES / 3);
	while (!has_settled(SCRATCH_FS "/d"))
		fiber_sleep_ns(10000000);
	handles_made(dir);
	ASSERT(handles_made(dir) < ENTRIES / 2);
	vfs_file_put(dir);
	vfs_file_put(root);
}
ON_ALL(readdir_knows_handles, "no_root_squash")

/* Every page size, from one entry at a time up, gives every entry once. */
static void readdir_pages(void)
{
	static const uint32_t sizes[] = { 0, 64, 100, 256, 1000, 4096, 32768, 65536, 1 << 20 };
	struct vfs_file *root = harness_root(), *dir;

	fill_directory();
	dir = walk(root, "d");
	for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++)
		list_in_pages(dir, sizes[i], sizes[i] % 3 == 1 || sizes[i] == 1 << 20);
	vfs_file_put(dir);
	vfs_file_put(root);
}
ON_ALL(readdir_pages, "no_root_squash")

/* Any cookie ever handed out leads to the entry after it, also when its own entry and others are gone. */
static void readdir_cookies(void)
{
	const struct vfs_call call = harness_call(0, 0);
	struct vfs_file *root = harness_root(), *dir;
	struct vfs_dirlist *all, *rest;
	char path[300];

	fill_directory();
	dir = walk(root, "d");
	all = page(&call, dir, 0, 1 << 20, false);
	ASSERT(all->count == ENTRIES + 2 && all->eof);
	for (unsigned i = 0; i + 1 < all->count; i += 37) {
		rest = page(&call, dir, all->entries[i].cookie, 64, false);
		ASSERT(rest->entries[0].fileid == all->entries[i + 1].fileid);
		vfs_dirlist_free(rest);
	}
	/* Every other entry goes; each cookie then leads to the nearest one left. */
	for (unsigned i = 0; i < all->count; i += 2) {
		if (entry_number(all->entries + i) < 0)
			continue;
		snprintf(path, sizeof(path), SCRATCH_FS "/d/%.*s", (int)all->entries[i].name.len, all->entries[i].name.data);
		ASSERT(unlink(path) == 0);
	}
	for (unsigned i = 2; i + 2 < all->count; i += 2) {
		rest = page(&call, dir, all->entries[i].cookie, 64, false);
		ASSERT(rest->entries[0].fileid == all->entries[i + 1].fileid);
		vfs_dirlist_free(rest);
	}
	vfs_dirlist_free(all);
	vfs_file_put(dir);
	vfs_file_put(root);
}
ON_ALL(readdir_cookies, "no_root_squash")

/* Read a page, remove what it names, go on from its last cookie: it ends, and the directory is empty. */
static void readdir_and_unlink(void)
{
	const struct vfs_call call = harness_call(0, 0);
	struct vfs_file *root = harness_root(), *dir;
	uint64_t cookie = 0;
	bool eof = false;
	struct vfs_wcc wcc;

	fill_directory();
	dir = walk(root, "d");
	while (!eof) {
		struct vfs_dirlist *list = page(&call, dir, cookie, 700, false);

		for (unsigned i = 0; i < list->count; i++) {
			ASSERT(entry_number(list->entries + i) < 0 || vfs_remove(&call, dir, list->entries[i].name, &wcc) == 0);
			cookie = list->entries[i].cookie;
		}
		eof = list->eof;
		vfs_dirlist_free(list);
	}
	ASSERT(vfs_rmdir(&call, root, harness_name("d"), &wcc) == 0);
	vfs_file_put(dir);
	vfs_file_put(root);
}
ON_ALL(readdir_and_unlink, "no_root_squash,async")

/* Listings of everything while names come and go: what stays is there each time, in one order, with its own handle and attributes; what is new or gone is whole. */
enum { STAYING = 600, STAYING_ROUNDS = 40 };

static void *change_names(void *arg)
{
	char path[64];

	for (unsigned i = 0; !atomic_load((_Atomic bool *)arg); i++) {
		snprintf(path, sizeof(path), SCRATCH_FS "/d/other-%u", i % 50);
		make(path);
		ASSERT(unlink(path) == 0);
	}
	return NULL;
}

static void check_staying(const struct vfs_dirlist *list, uint64_t inos[STAYING])
{
	unsigned n, seen = 0;

	for (const struct vfs_dirent *e = list->entries; e < list->entries + list->count; e++) {
		ASSERT(!e->has_node || e->fileid == e->node.attr.fileid);
		if (e->name.data[0] != 'e')
			continue;
		n = entry_number(e);
		ASSERT(n < STAYING && e->has_node && e->node.attr.size == n);
		ASSERT(!inos[n] || inos[n] == e->fileid);
		inos[n] = e->fileid;
		seen++;
	}
	ASSERT(seen == STAYING && list->eof);
}

static void readdir_while_names_change(void)
{
	const struct vfs_call call = harness_call(0, 0);
	static uint64_t inos[STAYING];
	struct vfs_file *root = harness_root(), *dir;
	_Atomic bool stop = false;
	pthread_t changer;
	char path[64];

	ASSERT(mkdir(SCRATCH_FS "/d", 0755) == 0);
	for (unsigned i = 0; i < STAYING; i++) {
		snprintf(path, sizeof(path), SCRATCH_FS "/d/entry-%u", i);
		make(path);
		ASSERT(truncate(path, i) == 0);
	}
	dir = walk(root, "d");
	memset(inos, 0, sizeof(inos));
	ASSERT(pthread_create(&changer, NULL, change_names, &stop) == 0);
	for (unsigned i = 0; i < STAYING_ROUNDS; i++) {
		struct vfs_dirlist *list = page(&call, dir, 0, 1 << 20, true);

		check_staying(list, inos);
		vfs_dirlist_free(list);
	}
	stop = true;
	pthread_join(changer, NULL);
	vfs_file_put(dir);
	vfs_file_put(root);
}
ON_ALL(readdir_while_names_change, "no_root_squash")

/* On a page that several workers look up, too, an identity that may read but not search gets names and nothing else, and one that may gets all. */
static void readdir_as_caller(void)
{
	const struct vfs_call owner = harness_call(500, 600), other = harness_call(501, 601);
	struct vfs_file *root = harness_root(), *dir;
	struct vfs_dirlist *list;

	fill_directory();
	ASSERT(chown(SCRATCH_FS "/d", 500, 600) == 0 && chmod(SCRATCH_FS "/d", 0744) == 0);
	dir = walk(root, "d");
	for (unsigned round = 0; round < 10; round++) {
		list = page(&other, dir, 0, 1 << 20, true);
		ASSERT(list->count == ENTRIES + 2);
		for (unsigned i = 0; i < list->count; i++)
			ASSERT(!list->entries[i].has_node);
		vfs_dirlist_free(list);
		list = page(&owner, dir, 0, 1 << 20, true);
		ASSERT(list->count == ENTRIES + 2);
		for (unsigned i = 0; i < list->count; i++)
			ASSERT(list->entries[i].has_node);
		vfs_dirlist_free(list);
	}
	vfs_file_put(dir);
	vfs_file_put(root);
}
ON_ALL(readdir_as_caller, "no_root_squash")

static void readdir_rest(void)
{
	const struct vfs_call call = harness_call(0, 0), user = harness_call(500, 600);
	struct vfs_file *root = harness_root(), *dir, *file;
	struct vfs_dirlist *list = NULL;
	struct vfs_attr attr;
	struct vfs_wcc wcc;
	bool valid;

	ASSERT(mkdir(SCRATCH_FS "/d", 0744) == 0);
	make(SCRATCH_FS "/d/\xff");
	make(SCRATCH_FS "/f");
	dir = walk(root, "d");
	file = walk(root, "f");
	/* ".." of the root is the root, not what lies above the export. */
	list = page(&call, root, 0, 4096, true);
	for (unsigned i = 0; i < list->count; i++)
		if (entry_number(list->entries + i) < 0)
			ASSERT(list->entries[i].fileid == root->fileid && vfs_fh_equal(&list->entries[i].node.fh, &root->fh));
	vfs_dirlist_free(list);
	/* Who may read but not search gets names, and no handles. */
	list = page(&user, dir, 0, 4096, true);
	ASSERT(list->count == 3);
	for (unsigned i = 0; i < list->count; i++)
		ASSERT(!list->entries[i].has_node);
	vfs_dirlist_free(list);
	ASSERT(chmod(SCRATCH_FS "/d", 0711) == 0);
	ASSERT(vfs_readdir(&user, dir, 0, no_verf, 4096, false, &list, &attr, &valid) == -EACCES && valid && !list);
	ASSERT(vfs_readdir(&call, file, 0, no_verf, 4096, false, &list, &attr, &valid) == -ENOTDIR && valid && !list);
	ASSERT(vfs_readdir(&call, dir, UINT64_MAX, no_verf, 4096, false, &list, &attr, &valid) == -ENOTNAM && !list);
	ASSERT(vfs_remove(&call, dir, harness_name("\xff"), &wcc) == 0 && vfs_rmdir(&call, root, harness_name("d"), &wcc) == 0);
	ASSERT(vfs_readdir(&call, dir, 0, no_verf, 4096, false, &list, &attr, &valid) == -ESTALE);
	vfs_dirlist_free(NULL);
	vfs_file_put(dir);
	vfs_file_put(file);
	vfs_file_put(root);
}
ON_ALL(readdir_rest, "no_root_squash")

static void fsinfo_ext4(void)
{
	const struct vfs_call call = harness_call(0, 0);
	struct vfs_file *root = harness_root();
	struct vfs_fsinfo info;
	struct vfs_fsstat st;
	struct vfs_attr attr;
	bool valid;

	ASSERT(vfs_fsinfo(&call, root, &info, &attr, &valid) == 0 && valid && S_ISDIR(attr.type_mode));
	ASSERT(info.linkmax == 65000 && info.name_max == 255 && info.links && info.symlinks && info.no_trunc && !info.case_insensitive && info.case_preserving);
	ASSERT(info.maxfilesize == 0xffffffff000 || info.maxfilesize == 0x3ffffffff000 || info.block < 4096);
	ASSERT(vfs_fsstat(&call, root, &st, &attr, &valid) == 0 && valid);
	ASSERT(st.total_bytes > 100000000 && st.total_bytes < 400000000 && st.free_bytes <= st.total_bytes && st.avail_bytes <= st.free_bytes);
	ASSERT(st.total_files > st.free_files && st.free_files);
	vfs_file_put(root);
}
RUN(ext4, fsinfo_ext4, "no_root_squash")

/* Default ACLs decide about modes: the process's umask must not come between. */
static void default_acl(void)
{
	const struct vfs_call call = harness_call(0, 0);
	const struct vfs_sattr mode = { .set_mode = true, .mode = 0666 };
	struct vfs_file *root = harness_root();
	struct vfs_node node;

	ASSERT(create(&call, root, "plain", VFS_CREATE_GUARDED, &mode, &node) == 0 && (node.attr.type_mode & 07777) == 0666);
	ASSERT(system("setfacl -d -m u::rwx,g::r-x,o::--- " SCRATCH_FS) == 0);
	ASSERT(create(&call, root, "acl", VFS_CREATE_GUARDED, &mode, &node) == 0 && (node.attr.type_mode & 07777) == 0640);
	vfs_file_put(root);
}
RUN(ext4, default_acl, "no_root_squash")
