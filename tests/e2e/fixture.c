/*
 * fixture.c: exports, daemon and mounts for the raw tests, and small local file helpers. One fixture per program.
 */
#include "tests/e2e/fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct fixture fx;

static const struct {
	const char *name, *options, *env;
} exports_made[FIXTURE_EXPORTS] = {
	[RW] = { "rw", "rw,no_root_squash,insecure", "E2E_DISK" },
	[RO] = { "ro", "ro,no_root_squash,insecure", "E2E_DISK" },
	[SQUASH] = { "squash", "rw,insecure", "E2E_DISK" },
	[ALL] = { "all", "rw,insecure,all_squash,anonuid=1234,anongid=1235", "E2E_DISK" },
	[SECURE] = { "secure", "rw,no_root_squash,secure", "E2E_DISK" },
	[DOOMED] = { "doomed", "rw,no_root_squash,insecure", "E2E_DISK" },
	[OTHER] = { "other", "rw,no_root_squash,insecure", "E2E_OTHER" },
	[SMALL] = { "small", "rw,no_root_squash,insecure", "E2E_SMALL" },
	[QUOTA] = { "quota", "rw,no_root_squash,insecure", "E2E_QUOTA" },
	[QGROUP] = { "qgroup", "rw,no_root_squash,insecure", "E2E_QGROUP" },
};

/* A directory of this program's own on the file system that env names. */
static const char *base_dir(const char *env)
{
	const char *dir = getenv(env);

	if (dir)
		return work_subdir(dir, text("%d", getpid()), 0755);
	return !strcmp(env, "E2E_DISK") ? work_dir() : NULL;
}

static void mount_all(void)
{
	int i, r;

	for (i = 0; i < FIXTURE_EXPORTS; i++) {
		if (!fx.path[i])
			continue;
		r = mount3_mnt(&fx.c, fx.path[i], &fx.root[i]);
		if (!CHECK(r == MNT3_OK, ": MNT %s: %d", fx.path[i], r))
			abort();
	}
}

void fixture_start(void)
{
	const char *base;
	int i, n = 0, r;

	umask(0);
	for (i = 0; i < FIXTURE_EXPORTS; i++) {
		base = base_dir(exports_made[i].env);
		if (!base)
			continue;
		fx.path[i] = work_subdir(base, exports_made[i].name, 0777);
		fx.daemon.exports[n++] = text("%s(%s)", fx.path[i], exports_made[i].options);
	}
	r = daemon_start(&fx.daemon);
	if (!CHECK(r == 0, ": the daemon did not start: %s", strerror(-r))) {
		printf("0 passed, 1 failed, 0 skipped\n");
		exit(1);
	}
	client_open(&fx.c, fx.daemon.port);
	mount_all();
}

void test_clean_stop(void)
{
	int status;

	client_close(&fx.c);
	status = daemon_stop(&fx.daemon);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, ": wait status 0x%x", (unsigned)status);
}

const char *fresh_dir(enum fixture_export export, struct fh *fh)
{
	static int n;
	const char *name = text("d%d", n++), *path = work_subdir(fx.path[export], name, 0777);

	CHECK_EQ(nfs3_lookup(&fx.c, &fx.root[export], name, fh), NFS3_OK);
	return path;
}

void must(bool ok, const char *what)
{
	if (ok)
		return;
	printf("# %s: %s\n0 passed, 1 failed, 0 skipped\n", what, strerror(errno));
	exit(1);
}

void put_file(const char *path, const void *data, size_t len, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

	must(fd >= 0 && write(fd, data, len) == (ssize_t)len && fchmod(fd, mode) == 0 && close(fd) == 0, path);
}

size_t get_file(const char *path, void *data, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t len = 0;
	ssize_t n;

	must(fd >= 0, path);
	while (len < size && (n = read(fd, (char *)data + len, size - len)) > 0)
		len += (size_t)n;
	close(fd);
	return len;
}

struct stat local_stat(const char *path)
{
	struct stat st;

	must(lstat(path, &st) == 0, path);
	return st;
}

void fill_pattern(void *data, size_t len, uint64_t seed)
{
	unsigned char *p = data;
	uint64_t x = seed * 0x9e3779b97f4a7c15u + 1;
	size_t i;

	for (i = 0; i < len; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		p[i] = (unsigned char)(x >> 24) | 1;	/* never 0: a hole cannot pass for data */
	}
}
