/*
 * libnfs_test: a tree of real files through libnfs: copied in, listed, compared, renamed within, removed.
 *
 * The tree is /usr/share/doc, or what of it comes first when it is large; on a machine without documentation /usr/include.
 * The nfs_context belongs to the main thread; one daemon for the program.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <nfsc/libnfs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/e2e/daemon.h"
#include "tests/e2e/tap.h"

enum { ENTRIES_MAX = 2500, BYTES_MAX = 64 << 20, CHUNK = 1 << 20 };

static struct daemon server;
static struct nfs_context *nfs;
static const char *export_dir, *source;
static char chunk[CHUNK], chunk2[CHUNK];

/* What was copied, in the order of the walk: a directory before what is in it. */
static struct {
	const char *path;	/* relative to source, starting with a slash */
	mode_t type;
} entries[ENTRIES_MAX];
static int nentries;
static size_t bytes_copied;

static bool ok(int r, const char *what, const char *path)
{
	return CHECK(r >= 0, ": %s %s: %s", what, path, r < 0 ? nfs_get_error(nfs) : "");
}

static void copy_file(const char *from, const char *to)
{
	struct nfsfh *fh = NULL;
	uint64_t at = 0;
	ssize_t n;
	int fd = open(from, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || !ok(nfs_creat(nfs, to, 0644, &fh), "creat", to)) {
		if (fd >= 0)
			close(fd);
		return;
	}
	while ((n = read(fd, chunk, sizeof(chunk))) > 0) {
		if (!CHECK_EQ(nfs_pwrite(nfs, fh, at, (uint64_t)n, chunk), n))
			break;
		at += (uint64_t)n;
	}
	bytes_copied += at;
	ok(nfs_close(nfs, fh), "close", to);
	close(fd);
}

static int copy_entry(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	const char *to = path + strlen(source);
	char target[4096];
	ssize_t n;

	if (nentries == ENTRIES_MAX || bytes_copied > BYTES_MAX)
		return 1;
	if (flag == FTW_D && *to && !ok(nfs_mkdir2(nfs, to, 0755), "mkdir", to))
		return 1;
	if (flag == FTW_F && S_ISREG(st->st_mode))
		copy_file(path, to);
	if (flag == FTW_SL && (n = readlink(path, target, sizeof(target) - 1)) > 0) {
		target[n] = '\0';
		ok(nfs_symlink(nfs, target, to), "symlink", to);
	}
	if (*to && (flag == FTW_D || flag == FTW_SL || (flag == FTW_F && S_ISREG(st->st_mode)))) {
		entries[nentries].path = text("%s", to);
		entries[nentries++].type = st->st_mode & S_IFMT;
	}
	return tap_failures() > 0;
}

static void test_copy(void)
{
	nftw(source, copy_entry, 32, FTW_PHYS);
	tap_note("%d entries, %zu bytes of %s", nentries, bytes_copied, source);
	CHECK(nentries > 100, ": too small a tree to mean anything");
}

static int compare_entry_count(const char *path)
{
	struct nfsdir *dir;
	struct nfsdirent *e;
	int n = 0;

	if (!ok(nfs_opendir(nfs, path, &dir), "opendir", path))
		return 0;
	while ((e = nfs_readdir(nfs, dir)))
		if (strcmp(e->name, ".") && strcmp(e->name, ".."))
			n += 1 + (S_ISDIR(e->mode) ? compare_entry_count(text("%s/%s", path, e->name)) : 0);
	nfs_closedir(nfs, dir);
	return n;
}

static void test_list(void)
{
	CHECK_EQ(compare_entry_count("/"), nentries);
}

static void compare_file(const char *path)
{
	const char *local = text("%s%s", source, path);
	struct nfsfh *fh = NULL;
	uint64_t at = 0;
	ssize_t n;
	int got, fd = open(local, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || !ok(nfs_open(nfs, path, O_RDONLY, &fh), "open", path)) {
		if (fd >= 0)
			close(fd);
		return;
	}
	do {
		n = read(fd, chunk, sizeof(chunk));
		got = nfs_pread(nfs, fh, at, sizeof(chunk2), chunk2);
		if (!CHECK(got == n && (n <= 0 || !memcmp(chunk, chunk2, (size_t)n)), ": %s at %llu", path, (unsigned long long)at))
			break;
		at += (uint64_t)n;
	} while (n > 0);
	nfs_close(nfs, fh);
	close(fd);
}

static void test_compare(void)
{
	char target[4096], local[4096];
	ssize_t n;
	int i;

	for (i = 0; i < nentries; i++) {
		if (S_ISREG(entries[i].type))
			compare_file(entries[i].path);
		if (!S_ISLNK(entries[i].type) || !ok(nfs_readlink(nfs, entries[i].path, target, sizeof(target)), "readlink", entries[i].path))
			continue;
		n = readlink(text("%s%s", source, entries[i].path), local, sizeof(local) - 1);
		local[n < 0 ? 0 : n] = '\0';
		CHECK(!strcmp(local, target), ": %s", entries[i].path);
	}
}

static bool same_bytes(int a, int b)
{
	ssize_t n, m;

	do {
		n = read(a, chunk, sizeof(chunk));
		m = read(b, chunk2, sizeof(chunk2));
	} while (n > 0 && n == m && !memcmp(chunk, chunk2, (size_t)n));
	return n == 0 && m == 0;
}

/* The same tree for a local process. */
static void test_compare_locally(void)
{
	int i, a, b;

	for (i = 0; i < nentries; i++) {
		if (!S_ISREG(entries[i].type))
			continue;
		a = open(text("%s%s", source, entries[i].path), O_RDONLY | O_CLOEXEC);
		b = open(text("%s%s", export_dir, entries[i].path), O_RDONLY | O_CLOEXEC);
		CHECK(a >= 0 && b >= 0 && same_bytes(a, b), ": %s", entries[i].path);
		close(a);
		close(b);
	}
}

static void test_rename_back_and_forth(void)
{
	int i;

	for (i = 0; i < nentries && i < 200; i++) {
		if (!S_ISREG(entries[i].type))
			continue;
		ok(nfs_rename(nfs, entries[i].path, "/moved"), "rename", entries[i].path);
		ok(nfs_rename(nfs, "/moved", entries[i].path), "rename back", entries[i].path);
	}
}

static void test_remove(void)
{
	int i;

	for (i = nentries - 1; i >= 0; i--)
		if (S_ISDIR(entries[i].type))
			ok(nfs_rmdir(nfs, entries[i].path), "rmdir", entries[i].path);
		else
			ok(nfs_unlink(nfs, entries[i].path), "unlink", entries[i].path);
	CHECK_EQ(compare_entry_count("/"), 0);
	CHECK_EQ(rmdir(export_dir), 0);
	CHECK_EQ(mkdir(export_dir, 0777), 0);
}

static void test_clean_stop(void)
{
	int status;

	nfs_destroy_context(nfs);
	status = daemon_stop(&server);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, ": wait status 0x%x", (unsigned)status);
}

static const struct tap_test tests[] = {
	{ "copy", test_copy },
	{ "list", test_list },
	{ "compare", test_compare },
	{ "compare_locally", test_compare_locally },
	{ "rename_back_and_forth", test_rename_back_and_forth },
	{ "remove", test_remove },
	{ "clean_stop", test_clean_stop },
};

static void start(void)
{
	const char *base = getenv("E2E_DISK");
	struct nfs_url *url;

	source = access("/usr/share/doc/libc6", F_OK) ? "/usr/include" : "/usr/share/doc";
	export_dir = work_subdir(base ? base : work_dir(), text("libnfs%d", getpid()), 0777);
	server.exports[0] = text("%s(rw,insecure,no_root_squash)", export_dir);
	nfs = nfs_init_context();
	if (!CHECK_EQ(daemon_start(&server), 0) || !CHECK(nfs != NULL))
		exit(1);
	url = nfs_parse_url_dir(nfs, text("nfs://127.0.0.1%s?version=3&nfsport=%d&mountport=%d", export_dir, server.port, server.port));
	if (!CHECK(url != NULL, ": %s", nfs_get_error(nfs)) || !ok(nfs_mount(nfs, "127.0.0.1", export_dir), "mount", export_dir))
		exit(1);
	nfs_destroy_url(url);
}

int main(int argc, char **argv)
{
	start();
	return tap_run(tests, sizeof(tests) / sizeof(*tests), argc, argv);
}
