/*
 * tests/unit/ns_sync_test.c - changes of metadata that are answered survive, though many share one sync.
 *
 * The power cut is the file system's own shutdown ioctl, which throws away what is not in the journal on the device; the file system is mounted again, which
 * replays the journal. That it does throw away is shown by the same changes under `async`.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "runtime/counter.h"
#include "runtime/fault.h"
#include "runtime/fiber.h"
#include "runtime/sync.h"
#include "tests/unit/vfs_harness.h"
#include "vfs/file.h"
#include "vfs/ns.h"

/* XFS_IOC_GOINGDOWN and EXT4_IOC_SHUTDOWN are the same number; headers of user space do not have them. */
#define IOC_SHUTDOWN _IOR('X', 125, uint32_t)
enum { SHUTDOWN_NO_LOG_FLUSH = 2 };

enum { WORKERS = 24, DIRS = 3, ROUNDS = 4, MTIME = 1000000 };

struct worker {
	unsigned number;
	unsigned errors;
};

static struct vfs_file *dirs[DIRS];
static struct leaf_lock lock = LEAF_LOCK_INIT;
static struct fiber_cond all_done;
static unsigned left;

static void worker_done(void)
{
	leaf_lock(&lock);
	if (!--left)
		fiber_cond_signal_locked(&all_done);
	leaf_unlock(&lock);
}

static void run_workers(fiber_main *fn, struct worker workers[WORKERS])
{
	fiber_cond_init(&all_done);
	left = WORKERS;
	for (unsigned i = 0; i < WORKERS; i++) {
		workers[i] = (struct worker){ .number = i };
		ASSERT(fiber_spawn(fn, workers + i, "worker") == 0);
	}
	leaf_lock(&lock);
	if (left)
		fiber_cond_wait(&all_done, &lock, "workers");
	leaf_unlock(&lock);
}

static void open_dirs(void)
{
	const struct vfs_call call = harness_call(0, 0);
	const struct vfs_sattr sattr = { .set_mode = true, .mode = 0755 };
	struct vfs_file *root = harness_root();
	struct vfs_node node;
	struct vfs_wcc wcc;
	char name[8];

	for (unsigned i = 0; i < DIRS; i++) {
		snprintf(name, sizeof(name), "d%u", i);
		ASSERT(vfs_mkdir(&call, root, harness_name(name), &sattr, &node, &wcc) == 0);
		ASSERT(vfs_file_get(&call, &node.fh, dirs + i) == 0);
	}
	vfs_file_put(root);
}

static void put_dirs(void)
{
	for (unsigned i = 0; i < DIRS; i++)
		vfs_file_put(dirs[i]);
}

static void name_of(char name[16], char kind, unsigned worker, unsigned round)
{
	snprintf(name, 16, "%c%u.%u", kind, worker, round);
}

/* Every change that can be: what stays is "g", into the next directory; what goes is "x". */
static void change_one(const struct worker *w, unsigned round)
{
	const struct vfs_call call = harness_call(0, 0);
	const struct vfs_sattr plain = { .set_mode = true, .mode = 0640 };
	const struct vfs_sattr timed = { .set_mode = true, .mode = 0640, .set_mtime = VFS_TIME_CLIENT, .mtime.tv_sec = MTIME };
	const struct vfs_sattr mode = { .set_mode = true, .mode = 0604 };
	struct vfs_file *dir = dirs[w->number % DIRS], *next = dirs[(w->number + round) % DIRS], *file;
	char f[16], g[16], x[16];
	struct vfs_wcc wcc, other;
	struct vfs_node node;

	name_of(f, 'f', w->number, round);
	name_of(g, 'g', w->number, round);
	name_of(x, 'x', w->number, round);
	ASSERT(vfs_mkdir(&call, dir, harness_name(x), &plain, &node, &wcc) == 0);
	ASSERT(vfs_create(&call, dir, harness_name(f), VFS_CREATE_GUARDED, round & 1 ? &timed : &plain, NULL, &node, &wcc) == 0);
	ASSERT(vfs_rename(&call, dir, harness_name(f), &call, next, harness_name(g), &wcc, &other) == 0);
	ASSERT(vfs_rmdir(&call, dir, harness_name(x), &wcc) == 0);
	if (w->number & 1) {
		ASSERT(vfs_file_get(&call, &node.fh, &file) == 0);
		ASSERT(vfs_setattr(&call, file, &mode, NULL, &wcc) == 0);
		vfs_file_put(file);
	}
}

static void changer(void *arg)
{
	struct worker *w = arg;

	for (unsigned i = 0; i < ROUNDS; i++)
		change_one(w, i);
	worker_done();
}

static void cut_power(void)
{
	const uint32_t how = SHUTDOWN_NO_LOG_FLUSH;
	const int fd = open(SCRATCH_FS, O_RDONLY | O_DIRECTORY);

	ASSERT(fd >= 0 && ioctl(fd, IOC_SHUTDOWN, &how) == 0);
	close(fd);
}

static void change_and_crash(void)
{
	struct worker workers[WORKERS];
	int64_t changes, rounds;

	open_dirs();
	changes = counter_value("ns.changes");
	rounds = counter_value("ns.sync_rounds");
	run_workers(changer, workers);
	cut_power();
	changes = counter_value("ns.changes") - changes;
	rounds = counter_value("ns.sync_rounds") - rounds;
	/* So many at once do share: if nobody did, there would be as many rounds as changes. */
	ASSERT(!changes || (changes >= WORKERS * ROUNDS * 4 && rounds <= changes / 2));
	put_dirs();
}

/* Problems found after the crash. */
static unsigned missing(void)
{
	unsigned bad = 0;
	char g[16], x[16], path[64];
	struct stat st;

	for (unsigned i = 0; i < WORKERS; i++)
		for (unsigned r = 0; r < ROUNDS; r++) {
			name_of(g, 'g', i, r);
			name_of(x, 'x', i, r);
			snprintf(path, sizeof(path), "%s/d%u/%s", SCRATCH_FS, (i + r) % DIRS, g);
			bad += stat(path, &st) || (st.st_mode & 07777) != (i & 1 ? 0604 : 0640) || (r & 1 && st.st_mtime != MTIME);
			snprintf(path, sizeof(path), "%s/d%u/%s", SCRATCH_FS, i % DIRS, x);
			bad += !stat(path, &st);
		}
	return bad;
}

static unsigned crash_test(const char *fs, const char *options)
{
	scratch_begin();
	scratch_fs(fs);
	vfs_harness_run(options, change_and_crash);
	scratch_umount();
	scratch_mount_again(fs);
	return missing();
}

Test(ns_sync, answered_changes_survive_xfs) { cr_assert_eq(crash_test("xfs", "no_root_squash"), 0); }
Test(ns_sync, answered_changes_survive_ext4) { cr_assert_eq(crash_test("ext4", "no_root_squash"), 0); }
Test(ns_sync, async_changes_do_not) { cr_assert_gt(crash_test("xfs", "no_root_squash,async"), 0); }

/* XFS gives an inherited ACL to a new inode after it has its name. */
static void inherit_and_crash(void)
{
	const struct vfs_call call = harness_call(0, 0);
	const struct vfs_sattr sattr = { .set_mode = true, .mode = 0777 };
	struct vfs_file *root = harness_root();
	struct vfs_node node;
	struct vfs_wcc wcc;

	ASSERT(vfs_mkdir(&call, root, harness_name("d"), &sattr, &node, &wcc) == 0);
	ASSERT(vfs_create(&call, root, harness_name("f"), VFS_CREATE_GUARDED, &sattr, NULL, &node, &wcc) == 0);
	cut_power();
	vfs_file_put(root);
}

Test(ns_sync, inherited_acl_survives)
{
	scratch_begin();
	scratch_fs("xfs");
	if (system("setfacl -d -m u:1234:rwx " SCRATCH_FS))
		cr_skip_test("no setfacl here");
	vfs_harness_run("no_root_squash", inherit_and_crash);
	scratch_umount();
	scratch_mount_again("xfs");
	cr_assert_gt(getxattr(SCRATCH_FS "/d", "system.posix_acl_access", NULL, 0), 0);
	cr_assert_gt(getxattr(SCRATCH_FS "/f", "system.posix_acl_access", NULL, 0), 0);
}

/* One failed sync is the failure of all that relied on it, and of nobody after them. */
static void creator(void *arg)
{
	const struct vfs_call call = harness_call(0, 0);
	struct worker *w = arg;
	struct vfs_node node;
	struct vfs_wcc wcc;
	char name[16];

	name_of(name, 'e', w->number, 0);
	w->errors = vfs_create(&call, dirs[w->number % DIRS], harness_name(name), VFS_CREATE_UNCHECKED, &(struct vfs_sattr){ .set_mode = true }, NULL, &node, &wcc) == -EIO;
	ASSERT(wcc.post_valid);
	worker_done();
}

static void errors_are_shared(void)
{
	struct worker workers[WORKERS];
	int64_t rounds, syncs;
	unsigned failed = 0;

	open_dirs();
	fault_arm(FAULT_NS_SYNC, EIO, 0, 0);
	syncs = counter_value("ns.syncs");
	rounds = counter_value("ns.sync_rounds");
	run_workers(creator, workers);
	fault_disarm_all();
	for (unsigned i = 0; i < WORKERS; i++)
		failed += workers[i].errors;
	/* Each round ends at its first error. */
	ASSERT(failed == WORKERS);
	ASSERT(counter_value("ns.syncs") - syncs == counter_value("ns.sync_rounds") - rounds);
	ASSERT(counter_value("ns.sync_rounds") - rounds < WORKERS);
	run_workers(changer, workers);
	put_dirs();
}

#define ERRORS_ON(fs) \
	Test(ns_sync, errors_are_shared_##fs) \
	{ \
		scratch_begin(); \
		scratch_fs(#fs); \
		vfs_harness_run("no_root_squash", errors_are_shared); \
	}
ERRORS_ON(xfs)
ERRORS_ON(btrfs)

/* Two reactors, one export: rounds are led from both. */
static void from_two_reactors(void)
{
	const struct vfs_call call = harness_call(0, 0);
	struct vfs_file *root = harness_root();
	struct vfs_node node;
	struct vfs_wcc wcc;
	static _Atomic unsigned number;
	char name[16];

	for (unsigned i = 0; i < 100; i++) {
		name_of(name, 'f', number++, i);
		ASSERT(vfs_create(&call, root, harness_name(name), VFS_CREATE_GUARDED, &(struct vfs_sattr){ .set_mode = true }, NULL, &node, &wcc) == 0);
		ASSERT(vfs_remove(&call, root, harness_name(name), &wcc) == 0);
	}
	vfs_file_put(root);
}

Test(ns_sync, two_reactors)
{
	scratch_begin();
	scratch_fs("xfs");
	vfs_harness_run_on(2, "no_root_squash", from_two_reactors);
}
