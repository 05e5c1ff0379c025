/*
 * tests/unit/access_test.c - access decisions against the kernel's own: random owners, modes, ACLs and identities, on files and directories, each asked of
 * faccessat2(AT_EACCESS) under that identity and of access_decide(). Then what NFS adds: owner override, read for execution, read-only views.
 */
#include <endian.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/posix_acl_xattr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "runtime/counter.h"
#include "tests/unit/vfs_harness.h"
#include "vfs/access.h"
#include "vfs/attr.h"
#include "vfs/export.h"
#include "vfs/file.h"
#include "vfs/ns.h"

enum { ROUNDS = 3000, IDS = 5, ACL_ENTRIES_MAX = 12 };

struct acl {
	struct posix_acl_xattr_header head;
	struct posix_acl_xattr_entry entry[ACL_ENTRIES_MAX];
	unsigned count;
};

static unsigned draw(unsigned n)
{
	return random() % n;
}

static void acl_add(struct acl *acl, unsigned tag, uint32_t id)
{
	acl->entry[acl->count++] = (struct posix_acl_xattr_entry){ htole16(tag), htole16(draw(8)), htole32(id) };
}

/* In the order that the kernel wants; named users 0...4, named groups likewise; a mask if anything is named, and sometimes without. */
static void acl_random(struct acl *acl)
{
	memset(acl, 0, sizeof(*acl));
	acl->head.a_version = htole32(POSIX_ACL_XATTR_VERSION);
	acl_add(acl, 0x01, -1);
	for (unsigned id = 0; id < IDS; id++)
		if (!draw(4))
			acl_add(acl, 0x02, id);
	acl_add(acl, 0x04, -1);
	for (unsigned id = 0; id < IDS && acl->count < 9; id++)
		if (!draw(4))
			acl_add(acl, 0x08, id);
	if (acl->count > 2 || draw(2))
		acl_add(acl, 0x10, -1);
	acl_add(acl, 0x20, -1);
}

static size_t acl_bytes(const struct acl *acl)
{
	return sizeof(acl->head) + acl->count * sizeof(acl->entry[0]);
}

static void cred_random(struct cred *c)
{
	memset(c, 0, sizeof(*c));
	c->uid = draw(IDS);
	c->gid = draw(IDS);
	c->ngroups = draw(3);
	for (unsigned i = 0; i < c->ngroups; i++)
		c->groups[i] = draw(IDS);
}

/* In a child: its identity is changed for good. */
static int kernel_says(int path_fd, const struct cred *c, unsigned may)
{
	gid_t groups[CRED_GROUPS_MAX];
	int status;
	const pid_t pid = fork();

	cr_assert_geq(pid, 0);
	if (!pid) {
		for (unsigned i = 0; i < c->ngroups; i++)
			groups[i] = c->groups[i];
		if (setgroups(c->ngroups, groups))
			_exit(200);
		setfsgid(c->gid);
		setfsuid(c->uid);
		_exit(syscall(SYS_faccessat2, path_fd, "", may, AT_EMPTY_PATH | AT_EACCESS) ? errno : 0);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status));
	return -WEXITSTATUS(status);
}

static void attr_of(int fd, struct vfs_attr *attr)
{
	struct statx stx;
	struct export none = { 0 };

	cr_assert_eq(statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &stx), 0);
	vfs_attr_from_statx(&none, &stx, attr);
}

static void one_round(const char *path)
{
	const bool with_acl = draw(2);
	struct acl acl;
	uint8_t raw[1024];
	struct vfs_attr attr;
	struct cred cred;
	const char *reason = NULL;
	const unsigned may = 1 + draw(7);
	const int fd = open(path, O_PATH);
	ssize_t len;
	int ours, kernel;

	removexattr(path, "system.posix_acl_access");
	cr_assert_eq(chown(path, draw(IDS), draw(IDS)), 0);
	cr_assert_eq(chmod(path, draw(01000)), 0);
	acl_random(&acl);
	if (with_acl)
		cr_assert_eq(setxattr(path, "system.posix_acl_access", &acl, acl_bytes(&acl), 0), 0, "%s", strerror(errno));
	len = getxattr(path, "system.posix_acl_access", raw, sizeof(raw));
	cred_random(&cred);
	attr_of(fd, &attr);
	kernel = kernel_says(fd, &cred, may);
	ours = access_decide(&attr, len > 0 ? raw : NULL, len > 0 ? len : 0, &cred, may, &reason);
	close(fd);
	cr_assert_eq(ours, kernel, "uid %u gid %u may %u mode %o owner %u:%u acl %zd: %d (%s), the kernel %d", cred.uid, cred.gid, may, attr.type_mode, attr.uid,
		     attr.gid, len, ours, reason, kernel);
}

static void compare_with_kernel(const char *type)
{
	scratch_begin();
	scratch_fs(type);
	cr_assert_eq(close(open(SCRATCH_FS "/file", O_CREAT | O_WRONLY, 0644)), 0);
	cr_assert_eq(mkdir(SCRATCH_FS "/dir", 0755), 0);
	srandom(1);
	for (unsigned i = 0; i < ROUNDS; i++)
		one_round(draw(2) ? SCRATCH_FS "/file" : SCRATCH_FS "/dir");
}

Test(access, as_the_kernel_tmpfs) { compare_with_kernel("tmpfs"); }
Test(access, as_the_kernel_ext4) { compare_with_kernel("ext4"); }

/* What the disk holds is not trusted: content that no kernel writes grants nothing. */
Test(access, malformed_acl)
{
	const struct vfs_attr attr = { .type_mode = S_IFREG | 0777, .uid = 1, .gid = 1 };
	const struct cred cred = { .uid = 2, .gid = 2 };
	struct acl acl;
	const char *reason;

	acl_random(&acl);
	cr_expect_eq(access_decide(&attr, &acl, 3, &cred, MAY_READ, &reason), -EIO);
	cr_expect_eq(access_decide(&attr, &acl, acl_bytes(&acl) - 1, &cred, MAY_READ, &reason), -EIO);
	cr_expect_eq(access_decide(&attr, &acl, sizeof(acl.head), &cred, MAY_READ, &reason), -EACCES);
	acl.head.a_version = 0;
	cr_expect_eq(access_decide(&attr, &acl, acl_bytes(&acl), &cred, MAY_READ, &reason), -EIO);
}

Test(access, nfs_rules)
{
	const struct vfs_attr none = { .type_mode = S_IFREG, .uid = 1, .gid = 1 }, exec = { .type_mode = S_IFREG | 0111, .uid = 1, .gid = 1 };
	const struct cred owner = { .uid = 1, .gid = 1 }, other = { .uid = 2, .gid = 2 };
	const char *reason;

	cr_expect_eq(access_decide(&none, NULL, 0, &owner, MAY_WRITE, &reason), -EACCES);
	cr_expect_eq(access_decide(&none, NULL, 0, &owner, MAY_WRITE | MAY_OWNER_OVERRIDE, &reason), 0);
	cr_expect_str_eq(reason, "owner override");
	cr_expect_eq(access_decide(&none, NULL, 0, &other, MAY_WRITE | MAY_OWNER_OVERRIDE, &reason), -EACCES);
	cr_expect_eq(access_decide(&exec, NULL, 0, &other, MAY_READ, &reason), -EACCES);
	cr_expect_eq(access_decide(&exec, NULL, 0, &other, MAY_READ | MAY_READ_IF_EXEC, &reason), 0);
	cr_expect_eq(access_decide(&exec, NULL, 0, &other, MAY_WRITE | MAY_READ_IF_EXEC, &reason), -EACCES);
	cr_expect_eq(access_decide(&none, NULL, 0, &other, MAY_READ | MAY_READ_IF_EXEC, &reason), -EACCES);
}

/* vfs_may() finds the ACL by itself, a long one too, and knows the view. */
static void acl_fetched(void)
{
	struct { struct posix_acl_xattr_header head; struct posix_acl_xattr_entry entry[304]; } acl = { .head.a_version = htole32(POSIX_ACL_XATTR_VERSION) };
	struct vfs_file *root = harness_root();
	struct vfs_call friend = harness_call(299, 9), stranger = harness_call(999, 9);
	const unsigned questions[] = { MAY_READ, MAY_WRITE | MAY_EXEC, MAY_EXEC };
	struct vfs_attr attr;
	uint32_t granted;
	unsigned n = 0;

	acl.entry[n++] = (struct posix_acl_xattr_entry){ htole16(0x01), htole16(7), -1 };
	for (unsigned id = 1; id <= 300; id++)
		acl.entry[n++] = (struct posix_acl_xattr_entry){ htole16(0x02), htole16(id == 299 ? 7 : 0), htole32(id) };
	acl.entry[n++] = (struct posix_acl_xattr_entry){ htole16(0x04), htole16(0), -1 };
	acl.entry[n++] = (struct posix_acl_xattr_entry){ htole16(0x10), htole16(7), -1 };
	acl.entry[n++] = (struct posix_acl_xattr_entry){ htole16(0x20), htole16(0), -1 };
	ASSERT(setxattr(SCRATCH_FS, "system.posix_acl_access", &acl, sizeof(acl), 0) == 0);
	ASSERT(vfs_getattr(root, &attr) == 0);
	ASSERT(vfs_may(&friend, root, &attr, MAY_WRITE) == 0);
	ASSERT(vfs_may(&stranger, root, &attr, MAY_WRITE) == -EACCES);
	ASSERT(vfs_may_each(&friend, root, &attr, questions, 3, &granted) == 0 && granted == 7);
	ASSERT(vfs_may_each(&stranger, root, &attr, questions, 3, &granted) == 0 && granted == 0);
	vfs_file_put(root);
}

Test(access, acl_fetched)
{
	scratch_begin();
	scratch_fs("tmpfs");
	vfs_harness_run("rw", acl_fetched);
}

/* --- an ACL that is not in memory yet --- */

static unsigned long long device_reads(void)
{
	unsigned long long reads;
	char path[64];
	struct stat st;
	FILE *f;

	ASSERT(stat(SCRATCH_FS, &st) == 0);
	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/stat", major(st.st_dev), minor(st.st_dev));
	f = fopen(path, "r");
	ASSERT(f && fscanf(f, "%llu", &reads) == 1);
	fclose(f);
	return reads;
}

static void stranger_asks(struct vfs_file *file)
{
	struct vfs_call friend = harness_call(7, 9), stranger = harness_call(8, 9);
	struct vfs_attr attr;

	ASSERT(vfs_getattr(file, &attr) == 0);
	ASSERT(vfs_may(&friend, file, &attr, MAY_WRITE) == 0);
	ASSERT(vfs_may(&stranger, file, &attr, MAY_WRITE) == -EACCES);
}

/* What was asked of the disk was asked in the pool: when the file was opened, or, after a look-up has put it into the cache, when its ACL was wanted first. */
static void acl_cold(void)
{
	const struct vfs_call call = harness_call(0, 0);
	struct vfs_file *root = harness_root(), *file;
	unsigned long long reads;
	struct vfs_attr attr;
	struct vfs_node node;
	int64_t jobs;
	bool valid;

	ASSERT(vfs_lookup(&call, root, harness_name("opened"), &node, &attr, &valid) == 0);
	vfs_file_reap(0);
	reads = device_reads();
	ASSERT(vfs_file_get(&call, &node.fh, &file) == 0);
	ASSERT(device_reads() > reads);
	reads = device_reads();
	jobs = counter_value("runtime.pool.jobs");
	stranger_asks(file);
	ASSERT(device_reads() == reads);
	ASSERT(counter_value("runtime.pool.jobs") == jobs);
	vfs_file_put(file);

	ASSERT(vfs_lookup(&call, root, harness_name("found"), &node, &attr, &valid) == 0);
	file = vfs_file_peek(&node.fh);
	ASSERT(file);
	reads = device_reads();
	jobs = counter_value("runtime.pool.jobs");
	stranger_asks(file);
	ASSERT(device_reads() > reads);
	ASSERT(counter_value("runtime.pool.jobs") == jobs + 1);
	reads = device_reads();
	stranger_asks(file);
	ASSERT(device_reads() == reads);
	ASSERT(counter_value("runtime.pool.jobs") == jobs + 1);
	vfs_file_put(file);
	vfs_file_put(root);
}

/* Too long for the inode: it has a block of its own. */
static void file_with_acl(const char *path, unsigned other)
{
	struct { struct posix_acl_xattr_header head; struct posix_acl_xattr_entry entry[104]; } acl = { .head.a_version = htole32(POSIX_ACL_XATTR_VERSION) };
	unsigned n = 0;

	acl.entry[n++] = (struct posix_acl_xattr_entry){ htole16(0x01), htole16(7), -1 };
	for (unsigned id = 7; id < 107; id++)
		acl.entry[n++] = (struct posix_acl_xattr_entry){ htole16(0x02), htole16(id == 7 ? 7 : 0), htole32(id == 106 ? other : id) };
	acl.entry[n++] = (struct posix_acl_xattr_entry){ htole16(0x04), htole16(0), -1 };
	acl.entry[n++] = (struct posix_acl_xattr_entry){ htole16(0x10), htole16(7), -1 };
	acl.entry[n++] = (struct posix_acl_xattr_entry){ htole16(0x20), htole16(0), -1 };
	cr_assert_eq(close(open(path, O_CREAT | O_WRONLY, 0644)), 0);
	cr_assert_eq(setxattr(path, "system.posix_acl_access", &acl, sizeof(acl), 0), 0, "%s", strerror(errno));
}

Test(access, acl_cold)
{
	scratch_begin();
	scratch_fs("ext4");
	file_with_acl(SCRATCH_FS "/opened", 1000); /* ext4 shares blocks of equal ACLs */
	file_with_acl(SCRATCH_FS "/found", 1001);
	scratch_umount();
	scratch_mount_again("ext4");
	/* Nobody else reads the device. */
	cr_assert_eq(mount("none", SCRATCH_FS, NULL, MS_REMOUNT, "noinit_itable"), 0);
	vfs_harness_run("rw", acl_cold);
}

static void read_only_view(void)
{
	struct vfs_file *root = harness_root();
	struct vfs_call call = harness_call(0, 0);
	const unsigned questions[] = { MAY_WRITE, MAY_READ };
	struct vfs_attr attr;
	uint32_t granted;

	ASSERT(vfs_getattr(root, &attr) == 0);
	ASSERT(vfs_may(&call, root, &attr, MAY_WRITE) == -EROFS);
	ASSERT(vfs_may(&call, root, &attr, MAY_READ) == 0);
	ASSERT(vfs_may_each(&call, root, &attr, questions, 2, &granted) == 0 && granted == 2);
	vfs_file_put(root);
}

Test(access, read_only_view)
{
	scratch_begin();
	scratch_fs("tmpfs");
	vfs_harness_run("ro", read_only_view);
}
