/* tests/unit/vfs_harness.c - see the header. */
#include "tests/unit/vfs_harness.h"

#include <netinet/in.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "iocache/mapping.h"
#include "runtime/buf.h"
#include "runtime/pool.h"
#include "runtime/reactor.h"
#include "vfs/export.h"
#include "vfs/fh.h"
#include "vfs/file.h"

static struct export_view *view;
static _Atomic unsigned running;
static void (*before)(void);
static unsigned descriptors_max = HARNESS_FILES * VFS_FILE_DESCRIPTORS_MAX;

static void run_command(const char *command)
{
	const int status = system(command);

	cr_assert_eq(status, 0, "'%s' ended with %d", command, status);
}

void scratch_begin(void)
{
	if (geteuid())
		cr_skip_test("file systems are mounted and identities changed: needs root");
	if (unshare(CLONE_NEWNS))
		cr_skip_test("no mount namespace: %s", strerror(errno));
	cr_assert_eq(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	cr_assert_eq(mount("none", SCRATCH, "tmpfs", 0, "mode=755"), 0);
	umask(0);
}

void scratch_mount_again(const char *type)
{
	char command[256];

	if (!strcmp(type, "tmpfs"))
		snprintf(command, sizeof(command), "mount -t tmpfs none %s", SCRATCH_FS);
	else
		snprintf(command, sizeof(command), "mount -t %s -o loop %s/image %s", type, SCRATCH, SCRATCH_FS);
	run_command(command);
	chmod(SCRATCH_FS, 0755);
}

void scratch_umount(void)
{
	cr_assert_eq(umount(SCRATCH_FS), 0, "umount: %s", strerror(errno));
}

void scratch_fs(const char *type)
{
	char command[256];

	cr_assert_eq(mkdir(SCRATCH_FS, 0755), 0);
	if (strcmp(type, "tmpfs")) {
		if (access("/dev/loop-control", R_OK | W_OK))
			cr_skip_test("no loop devices: %s", strerror(errno));
		snprintf(command, sizeof(command), "truncate -s 320M %s/image && mkfs.%s -q %s/image", SCRATCH, type, SCRATCH);
		run_command(command);
	}
	scratch_mount_again(type);
}

static const struct sockaddr *loopback(void)
{
	static struct sockaddr_in sin = { .sin_family = AF_INET };

	sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	sin.sin_port = htons(40000);
	return (const struct sockaddr *)&sin;
}

static const char *options;

static void install_main(void *arg)
{
	struct export_table *t = export_table_new();
	char spec[256], err[256] = "";

	snprintf(spec, sizeof(spec), "%s(%s)", SCRATCH_FS, options);
	ASSERT(export_table_add_cli(t, spec, "", err, sizeof(err)) == 0);
	ASSERT(export_table_install(t, err, sizeof(err)) == 0);
}

struct export_view *harness_view_now(void)
{
	struct export_view *now;
	const char *below;

	ASSERT(export_view_by_path(SCRATCH_FS, loopback(), &now, &below) == 0);
	return now;
}

void harness_put_another(const char *type)
{
	char command[512];

	snprintf(command, sizeof(command), "truncate -s 320M %s/another && mkfs.%s -q %s/another && mount -t %s -o loop %s/another %s", SCRATCH, type, SCRATCH, type, SCRATCH,
		 SCRATCH_FS);
	run_command(command);
	pool_run(install_main, NULL, NULL);
}

static void start(void *arg, unsigned index)
{
	void (*fn)(void) = arg;

	fn();
	if (atomic_fetch_sub(&running, 1) > 1)
		return;
	vfs_file_cache_drain();
	runtime_stop();
}

void harness_descriptors(unsigned max)
{
	descriptors_max = max;
}

void harness_before(void (*fn)(void))
{
	before = fn;
}

void vfs_harness_run_on(unsigned reactors, const char *with, void (*fn)(void))
{
	const struct reactor_config config = { .reactors = reactors, .fibers = 64, .pool_threads = 4 };

	vfs_fh_set_key((const uint8_t *)"0123456789abcdef");
	cr_assert_eq(buf_init(64 << 20), 0);
	cr_assert_eq(cache_init(&(struct cache_config){ 0 }), 0);
	options = with;
	install_main(NULL);
	view = harness_view_now();
	cr_assert_eq(vfs_file_cache_init(HARNESS_FILES, descriptors_max), 0);
	running = reactors;
	if (before)
		before();
	cr_assert_eq(runtime_init(&config), 0);
	cr_assert_eq(runtime_run(start, fn), 0);
	runtime_fini();
	vfs_file_cache_fini();
	export_view_put(view);
	export_table_fini();
	cache_fini();
	buf_fini();
}

void vfs_harness_run(const char *with, void (*fn)(void))
{
	vfs_harness_run_on(1, with, fn);
}

struct export_view *harness_view(void)
{
	return view;
}

struct vfs_call harness_call(uint32_t uid, uint32_t gid)
{
	return (struct vfs_call){ .view = view, .cred = { .uid = uid, .gid = gid } };
}

struct vfs_file *harness_root(void)
{
	const struct vfs_call call = harness_call(0, 0);
	struct vfs_file *root;

	ASSERT(vfs_file_get(&call, &view->export->root_fh, &root) == 0);
	return root;
}

struct vfs_name harness_name(const char *text)
{
	return (struct vfs_name){ text, strlen(text) };
}
