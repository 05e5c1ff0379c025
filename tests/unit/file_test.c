/* tests/unit/file_test.c - the open-file cache: one file per handle, its bounds, what makes a file leave it, and the descriptors for I/O. */
#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/buf.h"
#include "runtime/counter.h"
#include "runtime/fault.h"
#include "runtime/fiber.h"
#include "runtime/reactor.h"
#include "tests/unit/vfs_harness.h"
#include "vfs/attr.h"
#include "vfs/data.h"
#include "vfs/export.h"
#include "vfs/fh.h"
#include "vfs/file.h"
#include "vfs/ns.h"

enum { FILES_MAX = 256 }; /* the harness's */

static void make_file(const char *path)
{
	const int fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0644);

	ASSERT(fd >= 0);
	close(fd);
}

static void handle_of(const char *path, struct vfs_fh *fh)
{
	const int fd = open(path, O_PATH | O_NOFOLLOW);

	ASSERT(fd >= 0);
	ASSERT(vfs_fh_from_fd(harness_view()->export->id, fd, fh) == 0);
	close(fd);
}

static struct vfs_file *file_at(const char *path)
{
	const struct vfs_call call = harness_call(0, 0);
	struct vfs_file *file;
	struct vfs_fh fh;

	handle_of(path, &fh);
	ASSERT(vfs_file_get(&call, &fh, &file) == 0);
	return file;
}

static void wait_closed(int64_t closed)
{
	for (unsigned i = 0; i < 100000 && counter_value("file.closed") < closed; i++)
		fiber_sleep_ns(100000);
	ASSERT(counter_value("file.closed") >= closed);
}

#define ON(fs, name, options) \
	Test(file, name##_##fs) \
	{ \
		scratch_begin(); \
		scratch_fs(#fs); \
		vfs_harness_run(options, name); \
	}

enum { GETTERS = 8 };

static struct vfs_file *got[GETTERS];
static unsigned got_count;

static void getter(void *arg)
{
	struct vfs_file *file = file_at(SCRATCH_FS "/f");

	got[got_count++] = file;
}

/* Fibers that ask for a handle at the same time all get one and the same file. */
static void one_file_per_handle(void)
{
	make_file(SCRATCH_FS "/f");
	for (unsigned i = 0; i < GETTERS; i++)
		ASSERT(fiber_spawn(getter, NULL, "getter") == 0);
	while (got_count < GETTERS)
		fiber_sleep_ns(100000);
	for (unsigned i = 0; i < GETTERS; i++) {
		ASSERT(got[i] == got[0]);
		vfs_file_put(got[i]);
	}
	ASSERT(counter_value("file.opened") > 1);
	wait_closed(counter_value("file.opened") - 1);
}
ON(tmpfs, one_file_per_handle, "rw")

static void bad_handles(void)
{
	const struct vfs_call call = harness_call(0, 0);
	struct vfs_fh fh = harness_view()->export->root_fh, other;
	struct vfs_file *file, *root = harness_root();
	int fd = open(SCRATCH_FS, O_PATH);

	fh.data[20] ^= 1;
	ASSERT(vfs_file_get(&call, &fh, &file) == -ESTALE);
	fh.data[0] ^= 1;
	ASSERT(vfs_file_get(&call, &fh, &file) == -EBADF);
	fh.len = 0;
	ASSERT(vfs_file_get(&call, &fh, &file) == -EBADF);
	fh.len = 255;
	ASSERT(vfs_file_get(&call, &fh, &file) == -EBADF);
	ASSERT(vfs_fh_from_fd(harness_view()->export->id + 1, fd, &other) == 0);
	ASSERT(vfs_file_get(&call, &other, &file) == -ESTALE);
	close(fd);
	ASSERT(vfs_file_peek(&root->fh) == root);
	vfs_file_put(root);
	vfs_file_put(root);
}
ON(tmpfs, bad_handles, "rw")

static void path_of(char path[64], unsigned i)
{
	snprintf(path, 64, SCRATCH_FS "/f%u", i);
}

/* More files than the bound: idle ones make room; when none is idle, -EMFILE. */
static void bound(void)
{
	static struct vfs_file *held[FILES_MAX];
	const struct vfs_call call = harness_call(0, 0);
	struct vfs_file *file;
	struct vfs_fh fh;
	char path[64];

	for (unsigned i = 0; i < FILES_MAX + 50; i++) {
		path_of(path, i);
		make_file(path);
		vfs_file_put(file_at(path));
	}
	ASSERT(counter_value("file.opened") - counter_value("file.closed") <= FILES_MAX + 50);
	for (unsigned i = 0; i < FILES_MAX; i++) {
		path_of(path, i);
		held[i] = file_at(path);
	}
	handle_of(SCRATCH_FS "/f256", &fh);
	ASSERT(vfs_file_get(&call, &fh, &file) == -EMFILE);
	vfs_file_put(held[7]);
	ASSERT(vfs_file_get(&call, &fh, &file) == 0);
	vfs_file_put(file);
	for (unsigned i = 0; i < FILES_MAX; i++)
		if (i != 7)
			vfs_file_put(held[i]);
}
ON(tmpfs, bound, "rw")

/* Out of descriptors: the cache gives back idle ones, and the call succeeds. */
static void emfile_evicts(void)
{
	const struct vfs_call call = harness_call(0, 0);
	struct vfs_file *file;
	struct rlimit limit;
	struct vfs_fh fh;
	char path[64];

	for (unsigned i = 0; i < 100; i++) {
		path_of(path, i);
		make_file(path);
		vfs_file_put(file_at(path));
	}
	make_file(SCRATCH_FS "/new");
	handle_of(SCRATCH_FS "/new", &fh);
	ASSERT(getrlimit(RLIMIT_NOFILE, &limit) == 0);
	limit.rlim_cur = dup(0);
	ASSERT(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	ASSERT(close(limit.rlim_cur) == 0);
	ASSERT(dup(0) == -1 && errno == EMFILE);
	ASSERT(vfs_file_get(&call, &fh, &file) == 0);
	ASSERT(vfs_file_open_io(file) == 0);
	vfs_file_put(file);
}
ON(tmpfs, emfile_evicts, "rw")

enum { FEW_DESCRIPTORS = 300, FEW_FILES = 240, FEW_FOR_IO = 200 };

static unsigned in_cache(const struct vfs_fh fh[FEW_FILES])
{
	struct vfs_file *file;
	unsigned n = 0;

	for (unsigned i = 0; i < FEW_FILES; i++)
		if ((file = vfs_file_peek(fh + i))) {
			n++;
			vfs_file_put(file);
		}
	return n;
}

/* A file that is only known has one descriptor and not three: where the process may have few, they are shared out as they are needed. */
static void few_descriptors(void)
{
	static struct vfs_fh fh[FEW_FILES];
	struct vfs_file *file;
	char path[64];

	for (unsigned i = 0; i < FEW_FILES; i++) {
		path_of(path, i);
		make_file(path);
		file = file_at(path);
		fh[i] = file->fh;
		vfs_file_put(file);
	}
	ASSERT(in_cache(fh) == FEW_FILES);
	for (unsigned i = 0; i < FEW_FOR_IO; i++) {
		path_of(path, i);
		file = file_at(path);
		ASSERT(vfs_file_open_io(file) == 0);
		vfs_file_put(file);
	}
	ASSERT(in_cache(fh) >= FEW_DESCRIPTORS / 3 - 16 && in_cache(fh) <= FEW_DESCRIPTORS / 3 + 16);
}

Test(file, few_descriptors)
{
	scratch_begin();
	scratch_fs("tmpfs");
	harness_descriptors(FEW_DESCRIPTORS);
	vfs_harness_run("rw", few_descriptors);
}

static void reaped(void)
{
	struct vfs_file *root = harness_root(), *file;
	struct vfs_fh fh;
	const int64_t closed = counter_value("file.closed");

	make_file(SCRATCH_FS "/f");
	file = file_at(SCRATCH_FS "/f");
	fh = file->fh;
	vfs_file_put(file);
	vfs_file_reap(1000000000);
	file = vfs_file_peek(&fh);
	ASSERT(file);
	vfs_file_put(file);
	vfs_file_reap(0);
	ASSERT(!vfs_file_peek(&fh));
	ASSERT(vfs_file_peek(&root->fh) == root);
	wait_closed(closed + 1);
	vfs_file_put(root);
	vfs_file_put(root);
}
ON(tmpfs, reaped, "rw")

static uint64_t free_bytes(void)
{
	struct statfs fs;

	ASSERT(statfs(SCRATCH_FS, &fs) == 0);
	return (uint64_t)fs.f_bfree * fs.f_bsize;
}

/* The last link goes while the file is open for I/O: its space comes back with the last reference, and its handle is stale. */
static void removed_gives_space_back(void)
{
	const struct vfs_call call = harness_call(0, 0);
	const int64_t closed = counter_value("file.closed");
	struct vfs_file *file, *other;
	struct vfs_fh fh;
	uint64_t before;

	ASSERT(system("head -c 20000000 /dev/zero > " SCRATCH_FS "/f; sync") == 0);
	before = free_bytes();
	file = file_at(SCRATCH_FS "/f");
	fh = file->fh;
	ASSERT(vfs_file_open_io(file) == 0);
	ASSERT(unlink(SCRATCH_FS "/f") == 0);
	vfs_file_removed(&fh);
	ASSERT(vfs_file_get(&call, &fh, &other) == 0);
	ASSERT(other == file);
	vfs_file_put(other);
	vfs_file_put(file);
	ASSERT(!vfs_file_peek(&fh));
	ASSERT(vfs_file_get(&call, &fh, &other) == -ESTALE);
	wait_closed(closed + 1);
	for (unsigned i = 0; i < 10000 && free_bytes() < before + 15000000; i++)
		fiber_sleep_ns(1000000);
	ASSERT(free_bytes() >= before + 15000000);
}
ON(tmpfs, removed_gives_space_back, "rw")
ON(ext4, removed_gives_space_back, "rw")
ON(xfs, removed_gives_space_back, "rw")

/* One of two links goes: nothing happens to the file. */
static void still_linked(void)
{
	struct vfs_file *file;
	struct vfs_fh fh;

	make_file(SCRATCH_FS "/f");
	ASSERT(link(SCRATCH_FS "/f", SCRATCH_FS "/g") == 0);
	file = file_at(SCRATCH_FS "/f");
	fh = file->fh;
	ASSERT(unlink(SCRATCH_FS "/f") == 0);
	vfs_file_removed(&fh);
	vfs_file_put(file);
	file = vfs_file_peek(&fh);
	ASSERT(file);
	vfs_file_put(file);
}
ON(tmpfs, still_linked, "rw")

static void open_io_direct(void)
{
	struct vfs_file *file, *root = harness_root();

	make_file(SCRATCH_FS "/f");
	file = file_at(SCRATCH_FS "/f");
	ASSERT(!vfs_file_mapping(file));
	ASSERT(vfs_file_open_io(file) == 0);
	ASSERT(vfs_file_mapping(file));
	ASSERT(file->direct_fd >= 0 && file->buffered_fd >= 0 && !file->io_read_only);
	ASSERT(fcntl(file->direct_fd, F_GETFL) & O_DIRECT);
	ASSERT(!(fcntl(file->direct_fd, F_GETFL) & O_NONBLOCK));
	ASSERT(!(fcntl(file->buffered_fd, F_GETFL) & (O_DIRECT | O_NONBLOCK)));
	ASSERT(vfs_file_open_io(root) == -EISDIR);
	vfs_file_put(file);
	vfs_file_put(root);
}
ON(ext4, open_io_direct, "rw")
ON(xfs, open_io_direct, "rw") /* 1.1 */

static void open_io_no_direct(void)
{
	struct vfs_file *file;

	make_file(SCRATCH_FS "/f");
	file = file_at(SCRATCH_FS "/f");
	ASSERT(vfs_file_open_io(file) == 0);
	ASSERT(file->direct_fd == -1 && file->buffered_fd >= 0);
	vfs_file_put(file);
	ASSERT(mkfifo(SCRATCH_FS "/fifo", 0644) == 0);
	file = file_at(SCRATCH_FS "/fifo");
	ASSERT(vfs_file_open_io(file) == -EINVAL);
	vfs_file_put(file);
}
ON(tmpfs, open_io_no_direct, "rw") /* 1.1 */

static void open_io_immutable(void)
{
	int flags = FS_IMMUTABLE_FL, fd;
	struct vfs_file *file;

	make_file(SCRATCH_FS "/f");
	fd = open(SCRATCH_FS "/f", O_RDONLY);
	ASSERT(ioctl(fd, FS_IOC_SETFLAGS, &flags) == 0);
	file = file_at(SCRATCH_FS "/f");
	ASSERT(vfs_file_open_io(file) == 0);
	ASSERT(file->io_read_only);
	vfs_file_put(file);
	flags = 0;
	ASSERT(ioctl(fd, FS_IOC_SETFLAGS, &flags) == 0);
	close(fd);
}
ON(ext4, open_io_immutable, "rw")

static void start_program(int *status_pipe, pid_t *pid)
{
	ASSERT(pipe(status_pipe) == 0);
	*pid = fork();
	if (!*pid) {
		dup2(status_pipe[0], 0);
		close(status_pipe[1]);
		execl(SCRATCH_FS "/cat", "cat", NULL);
		_exit(1);
	}
	close(status_pipe[0]);
}

/* A program that runs cannot be written; when it has ended, the file can, though it was in use all the time. */
static void open_io_text_busy(void)
{
	struct vfs_file *file;
	int status_pipe[2], fd;
	pid_t pid;

	ASSERT(system("cp /bin/cat " SCRATCH_FS "/cat") == 0);
	start_program(status_pipe, &pid);
	while ((fd = open(SCRATCH_FS "/cat", O_RDWR)) >= 0) {
		close(fd);
		fiber_sleep_ns(1000000);
	}
	file = file_at(SCRATCH_FS "/cat");
	ASSERT(vfs_file_open_io(file) == 0 && file->io_read_only);
	vfs_file_put(file);
	close(status_pipe[1]);
	ASSERT(waitpid(pid, NULL, 0) == pid);
	for (unsigned i = 0; i < 10000; i++) {
		file = file_at(SCRATCH_FS "/cat");
		ASSERT(vfs_file_open_io(file) == 0);
		if (!file->io_read_only)
			break;
		vfs_file_put(file);
		fiber_sleep_ns(1000000);
	}
	ASSERT(!file->io_read_only);
	vfs_file_put(file);
}
ON(ext4, open_io_text_busy, "rw")

/* Somebody local holds a lease: the caller is told to come again, no thread of the pool waits for it. */
static void open_io_lease(void)
{
	struct vfs_file *file;
	int fd;

	make_file(SCRATCH_FS "/f");
	file = file_at(SCRATCH_FS "/f");
	signal(SIGIO, SIG_IGN);
	fd = open(SCRATCH_FS "/f", O_RDONLY);
	ASSERT(fcntl(fd, F_SETLEASE, F_RDLCK) == 0);
	ASSERT(vfs_file_open_io(file) == -EAGAIN);
	close(fd);
	ASSERT(vfs_file_open_io(file) == 0);
	vfs_file_put(file);
}
ON(ext4, open_io_lease, "rw")

enum { STRESS_FILES = 40, STRESS_FIBERS = 8, STRESS_ROUNDS = 300 };

static struct vfs_fh stress_fh[STRESS_FILES];
static _Atomic unsigned stress_ended;

static void stress_fiber(void *arg)
{
	const struct vfs_call call = harness_call(0, 0);
	unsigned n = (uintptr_t)arg;
	struct vfs_file *file;
	struct vfs_attr attr;
	int err;

	for (unsigned i = 0; i < STRESS_ROUNDS; i++) {
		n = n * 1103515245 + 12345;
		if (vfs_file_get(&call, stress_fh + n / 65536 % STRESS_FILES, &file))
			continue;
		err = vfs_getattr(file, &attr);
		ASSERT(err == -ESTALE || (err == 0 && attr.fileid == file->fileid));
		if (n & 64)
			ASSERT(vfs_file_open_io(file) == 0 && vfs_file_mapping(file));
		vfs_file_put(file);
		if (!(n / 256 % 50))
			vfs_file_reap(0);
		else if (!(n / 256 % 51))
			vfs_file_removed(stress_fh + n / 65536 % STRESS_FILES);
	}
	atomic_fetch_add(&stress_ended, 1);
}

/* Two reactors get, open, put, reap and remove the same files at once; some lose their last link meanwhile. */
static void stress(void)
{
	const unsigned reactor = reactor_index();
	char path[64];

	for (unsigned i = 0; i < STRESS_FIBERS; i++)
		ASSERT(fiber_spawn(stress_fiber, (void *)(uintptr_t)(i + 100 * reactor + 1), "stress") == 0);
	for (unsigned i = reactor; i < STRESS_FILES / 2; i += 2) {
		path_of(path, i);
		ASSERT(unlink(path) == 0);
		vfs_file_removed(stress_fh + i);
		fiber_sleep_ns(1000000);
	}
	while (stress_ended < 2 * STRESS_FIBERS)
		fiber_sleep_ns(1000000);
}

static void stress_files(void)
{
	char path[64];

	for (unsigned i = 0; i < STRESS_FILES; i++) {
		path_of(path, i);
		make_file(path);
		handle_of(path, stress_fh + i);
	}
}

Test(file, stress)
{
	scratch_begin();
	scratch_fs("tmpfs");
	harness_before(stress_files);
	vfs_harness_run_on(2, "rw", stress);
}

enum { MANY_FILES = 3 * HARNESS_FILES };

static void write_part(struct vfs_file *file)
{
	const struct vfs_call call = harness_call(0, 0);
	struct vfs_write_result result;
	struct vfs_payload payload = { .len = 5000, .buf = buf_alloc(8192) };

	ASSERT(payload.buf);
	payload.data = payload.buf->data;
	memset(payload.data, 'x', payload.len);
	ASSERT(vfs_write(&call, file, 0, &payload, VFS_UNSTABLE, &result) == 0);
	buf_put(payload.buf);
}

/* Their half-written ends keep the files open for a moment; that is no reason to refuse more files than the cache holds. */
static void many_unwritten(void)
{
	char path[64];
	struct vfs_file *file;

	for (unsigned i = 0; i < MANY_FILES; i++) {
		path_of(path, i);
		make_file(path);
		file = file_at(path);
		write_part(file);
		vfs_file_put(file);
	}
	ASSERT(counter_value("file.cache_full") > 0);
}

ON(xfs, many_unwritten, "rw")

static void look_up(struct vfs_file *dir, const char *name, struct vfs_node *node)
{
	const struct vfs_call call = harness_call(0, 0);
	struct vfs_attr attr;
	bool valid;

	ASSERT(vfs_lookup(&call, dir, harness_name(name), node, &attr, &valid) == 0);
}

/* What was looked up is open: what the client asks about it next needs no trip to the pool. And it goes when it is removed. */
static void looked_up_is_open(void)
{
	const struct vfs_call call = harness_call(0, 0);
	struct vfs_file *root = harness_root(), *file, *again;
	int64_t opened;
	struct vfs_attr attr;
	struct vfs_node node;
	struct vfs_wcc wcc;

	make_file(SCRATCH_FS "/f");
	ASSERT(symlink("f", SCRATCH_FS "/l") == 0);
	look_up(root, "f", &node);
	opened = counter_value("file.opened");
	ASSERT(vfs_file_get(&call, &node.fh, &file) == 0);
	ASSERT(counter_value("file.opened") == opened);
	ASSERT(vfs_getattr(file, &attr) == 0 && attr.fileid == node.attr.fileid && S_ISREG(file->type) && file->fileid == attr.fileid);
	ASSERT(!vfs_file_peek_mapped(&node.fh));
	ASSERT(vfs_file_open_io(file) == 0);
	ASSERT((again = vfs_file_peek_mapped(&node.fh)) == file);
	vfs_file_put(again);
	look_up(root, "f", &node);
	ASSERT(vfs_file_get(&call, &node.fh, &again) == 0 && again == file);
	vfs_file_put(again);
	vfs_file_put(file);
	look_up(root, "l", &node);
	ASSERT((file = vfs_file_peek(&node.fh)) && S_ISLNK(file->type));
	vfs_file_put(file);
	look_up(root, "f", &node);
	ASSERT(vfs_remove(&call, root, harness_name("f"), &wcc) == 0);
	ASSERT(!vfs_file_peek(&node.fh) && vfs_file_get(&call, &node.fh, &file) == -ESTALE);
	vfs_file_put(root);
}
ON(xfs, looked_up_is_open, "rw,no_root_squash")
ON(ext4, looked_up_is_open, "rw,no_root_squash")

/* A walk through more files than the cache holds keeps its bound, and costs nobody a mapping. */
static void a_walk_evicts_no_mapping(void)
{
	struct vfs_file *root = harness_root(), *file, *held;
	int64_t opened = counter_value("file.opened") + counter_value("file.adopted"), closed = counter_value("file.closed"), now_open;
	struct vfs_node node;
	char path[64];

	make_file(SCRATCH_FS "/mapped");
	file = file_at(SCRATCH_FS "/mapped");
	held = file;
	ASSERT(vfs_file_open_io(file) == 0);
	vfs_file_put(file);
	for (unsigned i = 0; i < MANY_FILES; i++) {
		path_of(path, i);
		make_file(path);
		look_up(root, strrchr(path, '/') + 1, &node);
		now_open = counter_value("file.opened") + counter_value("file.adopted") - opened;
		wait_closed(closed + now_open - HARNESS_FILES);
	}
	handle_of(SCRATCH_FS "/mapped", &node.fh);
	file = vfs_file_peek(&node.fh);
	ASSERT(file == held && vfs_file_mapping(file));
	vfs_file_put(file);
	vfs_file_put(root);
}
ON(xfs, a_walk_evicts_no_mapping, "rw,no_root_squash")

static void disarm_soon(void *arg)
{
	fiber_sleep_ns(20000000);
	fault_disarm_all();
}

/* The budget allows a buffer, the system has no memory: the READ waits, and the reactor does not stand still. */
static void no_system_memory(void)
{
	const struct vfs_call call = harness_call(0, 0);
	struct vfs_read_result result;
	struct vfs_file *file;

	make_file(SCRATCH_FS "/f");
	ASSERT(truncate(SCRATCH_FS "/f", 10000) == 0);
	file = file_at(SCRATCH_FS "/f");
	ASSERT(fiber_spawn(disarm_soon, NULL, "disarm") == 0);
	fault_arm(FAULT_BUF_ALLOC, ENOMEM, 0, 0);
	ASSERT(vfs_read(&call, file, 0, 10000, &result) == 0 && result.count == 10000);
	vfs_read_put(&result);
	vfs_file_put(file);
}

ON(xfs, no_system_memory, "rw")

/* A clean stop writes what is staged. The file is looked at when the run is over. */
static void write_and_leave(void)
{
	const struct vfs_call call = harness_call(0, 0);
	struct vfs_write_result result;
	struct vfs_payload payload = { .len = 5000 };
	struct vfs_file *file;

	make_file(SCRATCH_FS "/f");
	file = file_at(SCRATCH_FS "/f");
	payload.buf = buf_alloc(8192);
	ASSERT(payload.buf);
	payload.data = payload.buf->data;
	memset(payload.data, 'x', payload.len);
	ASSERT(vfs_write(&call, file, 0, &payload, VFS_UNSTABLE, &result) == 0);
	buf_put(payload.buf);
	vfs_file_put(file);
}

Test(file, drain_writes_back)
{
	char bytes[6000];
	int fd;

	scratch_begin();
	scratch_fs("xfs");
	vfs_harness_run("rw", write_and_leave);
	fd = open(SCRATCH_FS "/f", O_RDONLY);
	cr_assert_eq(read(fd, bytes, sizeof(bytes)), 5000);
	cr_assert(bytes[0] == 'x' && bytes[4999] == 'x');
	close(fd);
}

/* What came in place of the file system, and has its identity, is not answered for out of what is still open of the old one; that is closed. */
static void superseded(void)
{
	const struct vfs_call call = harness_call(0, 0);
	struct vfs_file *old = harness_root(), *now, *late;
	const struct vfs_fh root = old->fh;
	struct vfs_call later = call;
	struct export_view *view;
	const int64_t closed = counter_value("file.closed");
	const uint64_t dev = old->export->root_dev;

	harness_put_another("ext4");
	later.view = view = harness_view_now();
	ASSERT(later.view->export != call.view->export && later.view->export->id == call.view->export->id);
	ASSERT(vfs_file_get(&later, &root, &now) == 0);
	ASSERT(now != old && now->export == later.view->export && now->export->root_dev != dev);
	ASSERT(vfs_file_peek(&root) == now);
	vfs_file_put(now);
	ASSERT(vfs_file_get(&call, &root, &late) == -ESTALE); /* a call that began before */
	vfs_file_put(old);
	wait_closed(closed + 1);
	vfs_file_put(now);
	export_view_put(view);
}

Test(file, superseded)
{
	scratch_begin();
	scratch_fs("ext4");
	vfs_harness_run("rw,fsid=5", superseded);
}
