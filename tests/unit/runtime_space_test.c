/*
 * Who writes: operations on the ring, and their fallbacks, that change a file's data or space do so as nobody (cred_data). So limits hold that do not bind
 * root: the reserved blocks of ext4, a btrfs quota group's limit when CAP_SYS_RESOURCE overrides it. And nothing else changes: whose the file is and what
 * its mode says do not matter, set-ID bits stay, immutable and append-only are what they were.
 *
 * File systems are made in a file that is unlinked at once and mounted in a mount namespace of the test's process: nothing is left behind.
 */
#include <fcntl.h>
#include <linux/fs.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/cred.h"
#include "runtime/io.h"
#include "runtime/pool.h"
#include "tests/unit/runtime_harness.h"

enum { CHUNK = 1 << 16, OWNER = 1234 };

static const unsigned variants[] = { 0, RING_NO_DEFER_TASKRUN, RING_NO_FTRUNCATE, RING_NO_URING };

static char at[64]; /* the mount point */
static uint8_t chunk[CHUNK] __attribute__((aligned(4096)));

static int shell(const char *fmt, ...)
{
	char command[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(command, sizeof(command), fmt, args);
	va_end(args);
	return system(command);
}

/* Skips the test where it cannot run. mkfs NULL: a tmpfs. */
static void make_fs(const char *type, const char *mkfs, const char *size)
{
	const char *tmp = getenv("TMPDIR");

	if (geteuid() || unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		cr_skip_test("not root, or no mount namespaces");
	snprintf(at, sizeof(at), "%s/space_test.XXXXXX", tmp ? tmp : "/tmp");
	cr_assert(mkdtemp(at));
	/* On a tmpfs of our own, that goes with the namespace; the directory goes as soon as nothing in it is needed by name. */
	cr_assert_eq(mount("space", at, "tmpfs", 0, NULL), 0);
	if (!mkfs)
		return;
	if (shell("cd %s && mkdir m && truncate -s %s disk && %s disk >/dev/null 2>&1 && mount -t %s -o loop disk m 2>/dev/null", at, size, mkfs, type))
		cr_skip_test("no %s here", type);
	strncat(at, "/m", sizeof(at) - strlen(at) - 1);
}

static void end_fs(void)
{
	char *m = strstr(at, "/m");

	if (!at[0])
		return;
	if (m && !m[2]) {
		umount2(at, MNT_DETACH);
		*m = 0;
	}
	umount2(at, MNT_DETACH);
	rmdir(at);
}

TestSuite(space, .fini = end_fs, .timeout = 120);

static int make_file(const char *name, unsigned flags, mode_t mode)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", at, name);
	unlink(path);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | flags, 0600);
	ASSERT(fd >= 0 && fchown(fd, OWNER, OWNER) == 0 && fchmod(fd, mode) == 0);
	return fd;
}

static int ring_write(int fd, uint64_t offset)
{
	struct iovec iov = { chunk, CHUNK };
	int err;

	io_pwritev_all(fd, &iov, 1, offset, 0, &err);
	return err;
}

/* Bytes until the first error, which is *err. */
static uint64_t fill(int fd, int *err)
{
	uint64_t size = 0;

	while (!(*err = ring_write(fd, size)))
		size += CHUNK;
	return size;
}

/* More fits in, but not for those who write here. */
static void is_full_but_for_root(int fd, uint64_t size, int expected)
{
	ASSERT(ring_write(fd, size) == expected);
	ASSERT(io_fallocate(fd, 0, size, 1 << 20) == expected);
	ASSERT(pwrite(fd, chunk, CHUNK, size) == CHUNK && fsync(fd) == 0);
}

/* Half of the blocks are root's. */
enum { RESERVED_DISK = 32 << 20 };

static void reserved_blocks(unsigned open_flags)
{
	int fd = make_file("f", open_flags, 0600), err;
	uint64_t size = fill(fd, &err);
	struct stat st;

	ASSERT(err == -ENOSPC);
	ASSERT(size > RESERVED_DISK / 8 && size < RESERVED_DISK / 2);
	ASSERT(io_fsync(fd, 0) == 0 && fstat(fd, &st) == 0 && (uint64_t)st.st_size >= size);
	is_full_but_for_root(fd, align_down(st.st_size, CHUNK), -ENOSPC);
	close(fd);
}

static void reserved_blocks_direct(void) { reserved_blocks(O_DIRECT); }
static void reserved_blocks_buffered(void) { reserved_blocks(0); }

static void each_variant(void (*fn)(void))
{
	for (unsigned i = 0; i < ARRAY_SIZE(variants); i++)
		harness_run_one(variants[i], fn);
}

Test(space, reserved_blocks)
{
	make_fs("ext4", "mkfs.ext4 -q -F -m 50", "32M");
	each_variant(reserved_blocks_direct);
	each_variant(reserved_blocks_buffered);
}

enum { QUOTA_GROUP_BYTES = 8 << 20 };
static bool override;

static void quota_group(void)
{
	char path[128];
	int fd, err;
	uint64_t size;

	snprintf(path, sizeof(path), "%s/v/f", at);
	unlink(path);
	sync();
	fd = make_file("v/f", 0, 0600);
	size = fill(fd, &err);
	ASSERT(err == -EDQUOT);
	ASSERT(size > 0 && size <= QUOTA_GROUP_BYTES);
	if (override)
		is_full_but_for_root(fd, size, -EDQUOT);
	close(fd);
}

/* With quota_override, which some containers may not set, the kernel asks for CAP_SYS_RESOURCE, as the quotas of other file systems always do. */
Test(space, quota)
{
	make_fs("btrfs", "mkfs.btrfs -q", "200M");
	if (shell("cd %s && btrfs subvolume create v >/dev/null && btrfs quota enable . && btrfs qgroup limit %d v", at, QUOTA_GROUP_BYTES))
		cr_skip_test("no btrfs quota groups here");
	override = !shell("echo 1 2>/dev/null >/sys/fs/btrfs/$(findmnt -n -o UUID %s)/quota_override", at);
	each_variant(quota_group);
}

/* What must be as if root wrote. */

static void others_file(unsigned open_flags, mode_t mode)
{
	int fd = make_file("f", open_flags, mode);
	struct stat st;

	ASSERT(ring_write(fd, 0) == 0 && ring_write(fd, CHUNK) == 0);
	ASSERT(io_ftruncate(fd, CHUNK + 100) == 0);
	ASSERT(fstat(fd, &st) == 0 && st.st_size == CHUNK + 100 && (st.st_mode & 07777) == mode && st.st_uid == OWNER);
	ASSERT(io_fallocate(fd, 0, 0, 4 * CHUNK) == 0);
	ASSERT(io_ftruncate(fd, 0) == 0);
	ASSERT(fstat(fd, &st) == 0 && st.st_size == 0 && (st.st_mode & 07777) == mode);
	close(fd);
}

static bool set_flag(int fd, int flag)
{
	int flags;

	return !ioctl(fd, FS_IOC_GETFLAGS, &flags) && !ioctl(fd, FS_IOC_SETFLAGS, &(int){ flag ? flags | flag : flags & ~(FS_APPEND_FL | FS_IMMUTABLE_FL) });
}

/* The ring's results are those that the same calls have on this thread, which is root. */
static void flagged_file(int flag)
{
	int fd = make_file("f", 0, 0600), err;

	ASSERT(ring_write(fd, 0) == 0);
	if (!set_flag(fd, flag))
		return; /* has no such flags */
	err = pwrite(fd, chunk, CHUNK, 0) < 0 ? -errno : 0;
	ASSERT(ring_write(fd, 0) == err);
	err = ftruncate(fd, 10) ? -errno : 0;
	ASSERT(io_ftruncate(fd, 10) == err);
	err = fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) ? -errno : 0;
	ASSERT(err == -EPERM && io_fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) == err);
	ASSERT(set_flag(fd, 0));
	close(fd);
}

static void as_root_would(void)
{
	static const unsigned open_flags[] = { 0, O_DIRECT };
	static const mode_t modes[] = { 0400, 0, 06755, 02745 };

	for (unsigned i = 0; i < ARRAY_SIZE(open_flags); i++)
		for (unsigned j = 0; j < ARRAY_SIZE(modes); j++)
			others_file(open_flags[i], modes[j]);
	flagged_file(FS_APPEND_FL);
	flagged_file(FS_IMMUTABLE_FL);
}

Test(space, as_root_would_tmpfs)
{
	make_fs("tmpfs", NULL, NULL);
	each_variant(as_root_would);
}

Test(space, as_root_would_ext4)
{
	make_fs("ext4", "mkfs.ext4 -q -F", "32M");
	each_variant(as_root_would);
}

Test(space, as_root_would_xfs)
{
	make_fs("xfs", "mkfs.xfs -q", "300M");
	each_variant(as_root_would);
}

Test(space, as_root_would_btrfs)
{
	make_fs("btrfs", "mkfs.btrfs -q", "200M");
	each_variant(as_root_would);
}

/* A thread's own identity is what it was, and so are its rights. */

static uint64_t effective(void)
{
	char line[128];
	unsigned long long caps = 0;
	FILE *f = fopen("/proc/thread-self/status", "r");

	ASSERT(f);
	while (fgets(line, sizeof(line), f))
		sscanf(line, "CapEff: %llx", &caps);
	fclose(f);
	return caps;
}

/* Those that matter; a container may lack some of them. */
enum { SET_ID = 1 << 4, OF_FILES = 0xb, SYS_RESOURCE = 1 << 24, ALL = SET_ID | OF_FILES | SYS_RESOURCE };
static uint64_t at_start;

static int as_data(void *arg)
{
	ASSERT(setfsuid(-1) == 65534 && setfsgid(-1) == 65534 && getgroups(0, NULL) == 0);
	ASSERT((effective() & ALL) == (at_start & SET_ID));
	return 7;
}

Test(space, a_thread_goes_back)
{
	const gid_t groups[] = { 5, 70000 };
	gid_t after[3];

	if (geteuid() || !cred_may_assume())
		cr_skip_test("not root");
	at_start = effective();
	cr_assert_eq(syscall(SYS_setgroups, 2, groups), 0);
	cr_assert_eq(cred_call_as(&cred_data, as_data, NULL), 7);
	cr_assert_eq(effective(), at_start);
	cr_assert_eq(setfsuid(-1), 0);
	cr_assert_eq(setfsgid(-1), 0);
	cr_assert(getgroups(3, after) == 2 && !memcmp(after, groups, sizeof(groups)));
}

static void look_at_capabilities(void *arg)
{
	*(uint64_t *)arg = effective() & ALL;
}

static void jobs_have_their_callers_rights(void)
{
	static const struct cred user = { .uid = OWNER, .gid = OWNER }, nobody = { .uid = 65534, .gid = 65534 };
	const struct cred *order[] = { NULL, &user, &cred_data, &nobody, &cred_root, &cred_data, &user, NULL };
	uint64_t caps;

	for (unsigned i = 0; i < 2 * ARRAY_SIZE(order); i++) {
		const struct cred *c = order[i % ARRAY_SIZE(order)];

		pool_run(look_at_capabilities, &caps, c);
		if (!c || c->uid == 0)
			ASSERT(caps == (at_start & ALL));
		else
			ASSERT(caps == (c == &cred_data ? at_start & SET_ID : 0));
	}
}

Test(space, pool_jobs)
{
	if (geteuid() || !cred_may_assume())
		cr_skip_test("not root");
	at_start = effective();
	harness_run_one(0, jobs_have_their_callers_rights);
}
