/*
 * write_path_test: what is staged, and what else happens to its file: truncate, local processes, unlink, rename, an export that goes, a full disk.
 *
 * Every test leaves bytes in the server's hand, half-written edges among them, when the other thing happens. The lines of the requirements (tests/WRITE_PATH) stand
 * at the tests.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/e2e/counters.h"
#include "tests/e2e/fixture.h"

#define WRITE_OK (c->res.write.WRITE3res_u.resok)
#define READ_OK (c->res.read.READ3res_u.resok)
#define COMMIT_OK (c->res.commit.COMMIT3res_u.resok)

enum { MIB = 1 << 20, RECORD = 47008 };

static struct client *const c = &fx.c;
static char data[MIB], more[MIB], back[4 * MIB];

/* The file as the server reads it, and as a local process does. */
static void check_read(const struct fh *fh, uint64_t offset, const char *want, uint32_t len)
{
	if (CHECK_EQ(nfs3_read(c, fh, offset, len), NFS3_OK))
		CHECK(READ_OK.count == len && !memcmp(READ_OK.data.data_val, want, len), ": READ of %u at %llu: %u", len, (unsigned long long)offset, READ_OK.count);
}

static void check_local(const char *path, const char *want, size_t len)
{
	size_t got = get_file(path, back, sizeof(back));

	CHECK(got == len && !memcmp(back, want, len), ": %s has %zu bytes, should have %zu", path, got, len);
}

static void make_pattern(void)
{
	fill_pattern(data, sizeof(data), 1);
	fill_pattern(more, sizeof(more), 2);
}

static const char *make_file(enum fixture_export export, struct fh *dir, struct fh *fh)
{
	const char *path = fresh_dir(export, dir);

	make_pattern();
	CHECK_EQ(nfs3_make(c, dir, "f", fh), NFS3_OK);
	return text("%s/f", path);
}

/* ---- SETATTR of the size ---- */

/* A cut through what is staged, then growth: READs and the file agree on zeros past the cut, and the size is what the client made it. */
static void test_setattr_size(void)
{
	static const uint32_t cuts[] = { 0, 1, 4095, 4096, 4097, 47007, 47008, 100000 };
	struct fh dir, fh;
	const char *file = make_file(RW, &dir, &fh);
	sattr3 set;
	fattr3 a;
	unsigned i;

	for (i = 0; i < sizeof(cuts) / sizeof(*cuts); i++) {
		CHECK_EQ(nfs3_write(c, &fh, 0, data, 3 * RECORD, i % 2 ? UNSTABLE : FILE_SYNC), NFS3_OK);
		CHECK_EQ(nfs3_write(c, &fh, RECORD, more, RECORD, UNSTABLE), NFS3_OK);
		memcpy(back + MIB, data, 3 * RECORD);
		memcpy(back + MIB + RECORD, more, RECORD);
		set = sattr_size(cuts[i]);
		CHECK_EQ(nfs3_setattr(c, &fh, &set, NULL), NFS3_OK);
		CHECK_EQ(nfs3_getattr(c, &fh, &a), NFS3_OK);
		CHECK_EQ(a.size, cuts[i]);
		CHECK_EQ(local_stat(file).st_size, cuts[i]);
		set = sattr_size(2 * RECORD + cuts[i]);
		CHECK_EQ(nfs3_setattr(c, &fh, &set, NULL), NFS3_OK);
		memset(back + MIB + cuts[i], 0, 2 * RECORD);
		check_read(&fh, 0, back + MIB, 2 * RECORD + cuts[i]);
		memcpy(back + 2 * MIB, back + MIB, MIB);
		CHECK_EQ(nfs3_commit(c, &fh, 0, 0), NFS3_OK);
		check_local(file, back + 2 * MIB, 2 * RECORD + cuts[i]);
	}
}

/* ---- local processes ---- */

/* Ours is there for a local process after COMMIT or a stable WRITE, edges and tail included. */
static void test_local_reader(void)
{
	static const stable_how stable[] = { FILE_SYNC, DATA_SYNC, UNSTABLE };
	struct fh dir, fh;
	const char *file = make_file(RW, &dir, &fh);
	uint64_t offset = 0;
	unsigned i;

	for (i = 0; i < 9; i++) {
		CHECK_EQ(nfs3_write(c, &fh, offset, data + offset, 6001 + i, stable[i % 3]), NFS3_OK);
		offset += 6001 + i;
		if (i % 3 == 2)
			CHECK_EQ(nfs3_commit(c, &fh, 0, 0), NFS3_OK);
		check_local(file, data, offset);
	}
}

static void write_local(const char *file, const void *bytes, size_t len, off_t offset)
{
	int fd = open(file, O_WRONLY | O_CLOEXEC);

	must(fd >= 0 && pwrite(fd, bytes, len, offset) == (ssize_t)len && close(fd) == 0, file);
}

/* Theirs is seen after our next look at the file, beside what is kept and staged of it; and what we write then leaves it alone. */
static void test_local_writer(void)
{
	struct fh dir, fh;
	const char *file = make_file(RW, &dir, &fh);

	CHECK_EQ(nfs3_write(c, &fh, 0, data, 40960, FILE_SYNC), NFS3_OK);
	CHECK_EQ(nfs3_write(c, &fh, 8192, more, 1000, FILE_SYNC), NFS3_OK);	/* a half-written unit, kept */
	memcpy(data + 8192, more, 1000);
	write_local(file, more + 50000, 500, 10000);				/* in that unit */
	write_local(file, more + 60000, 5000, 30000);
	memcpy(data + 10000, more + 50000, 500);
	memcpy(data + 30000, more + 60000, 5000);
	CHECK_EQ(nfs3_getattr(c, &fh, NULL), NFS3_OK);
	check_read(&fh, 0, data, 40960);
	CHECK_EQ(nfs3_write(c, &fh, 9500, more + 9500, 300, UNSTABLE), NFS3_OK);
	memcpy(data + 9500, more + 9500, 300);
	check_read(&fh, 0, data, 40960);
	CHECK_EQ(nfs3_commit(c, &fh, 0, 0), NFS3_OK);
	check_local(file, data, 40960);
}

/* A local process cuts the file under what is kept and staged of it. */
static void test_local_truncate(void)
{
	struct fh dir, fh;
	const char *file = make_file(RW, &dir, &fh);
	fattr3 a;

	CHECK_EQ(nfs3_write(c, &fh, 0, data, 40960, FILE_SYNC), NFS3_OK);
	CHECK_EQ(nfs3_write(c, &fh, 20480, more, 1000, FILE_SYNC), NFS3_OK);	/* kept */
	must(truncate(file, 10000) == 0, file);
	CHECK_EQ(nfs3_getattr(c, &fh, &a), NFS3_OK);
	CHECK_EQ(a.size, 10000);
	CHECK_EQ(nfs3_write(c, &fh, 22000, more, 100, FILE_SYNC), NFS3_OK);
	memset(data + 10000, 0, 12000);
	memcpy(data + 22000, more, 100);
	check_read(&fh, 0, data, 22100);
	check_local(file, data, 22100);
}

/* ---- names ---- */

/* REMOVE while bytes are staged: nobody reads or writes them from then on, though they may be on their way still; the server goes on, and a new file of that name is empty. */
static void test_unlink_dirty(void)
{
	struct fh dir, fh, other;
	const char *file = make_file(RW, &dir, &fh);
	fattr3 a;
	int i, r;

	for (i = 0; i < 20; i++) {
		CHECK_EQ(nfs3_write(c, &fh, 1000, data, 5 * RECORD, UNSTABLE), NFS3_OK);
		CHECK_EQ(nfs3_write(c, &fh, 500000, data, 100, UNSTABLE), NFS3_OK);
		CHECK_EQ(nfs3_remove(c, &dir, "f"), NFS3_OK);
		CHECK_EQ(access(file, F_OK), -1);
		r = nfs3_getattr(c, &fh, &a);
		CHECK(r == NFS3ERR_STALE || (r == NFS3_OK && a.nlink == 0), ": %d", r);
		CHECK_EQ(nfs3_write(c, &fh, 0, data, 100, UNSTABLE), NFS3ERR_STALE);
		CHECK_EQ(nfs3_commit(c, &fh, 0, 0), NFS3ERR_STALE);
		CHECK_EQ(nfs3_make(c, &dir, "f", &other), NFS3_OK);
		CHECK_EQ(nfs3_read(c, &other, 0, 100), NFS3_OK);
		CHECK_EQ(READ_OK.count, 0);
		fh = other;
	}
}

/* One name of two goes: the bytes are for the other. */
static void test_unlink_one_of_two(void)
{
	struct fh dir, fh;
	const char *file = make_file(RW, &dir, &fh), *other = text("%.*s/g", (int)(strrchr(file, '/') - file), file);

	CHECK_EQ(nfs3_link(c, &fh, &dir, "g"), NFS3_OK);
	CHECK_EQ(nfs3_write(c, &fh, 1000, data, 2 * RECORD, UNSTABLE), NFS3_OK);
	CHECK_EQ(nfs3_remove(c, &dir, "f"), NFS3_OK);
	CHECK_EQ(nfs3_commit(c, &fh, 0, 0), NFS3_OK);
	memset(more, 0, 1000);
	memcpy(more + 1000, data, 2 * RECORD);
	check_local(other, more, 1000 + 2 * RECORD);
}

/* A local process removes the file under what is staged of it. */
static void test_local_unlink_dirty(void)
{
	struct fh dir, fh;
	const char *file = make_file(RW, &dir, &fh);

	CHECK_EQ(nfs3_write(c, &fh, 1000, data, 5 * RECORD, UNSTABLE), NFS3_OK);
	must(unlink(file) == 0, file);
	CHECK_EQ(nfs3_commit(c, &fh, 0, 0), NFS3ERR_STALE);
	CHECK_EQ(nfs3_write(c, &fh, 0, data, 100, FILE_SYNC), NFS3ERR_STALE);
	CHECK_EQ(nfs3_make(c, &dir, "f", &fh), NFS3_OK);
	CHECK_EQ(nfs3_write(c, &fh, 0, data, RECORD, FILE_SYNC), NFS3_OK);
	check_local(file, data, RECORD);
}

/* Both files have bytes in hand: those of the one that moves arrive under the new name, those of the one that goes nowhere. */
static void test_rename_over(void)
{
	struct fh dir, from, to;
	const char *file = make_file(RW, &dir, &from), *target = text("%.*s/g", (int)(strrchr(file, '/') - file), file);

	CHECK_EQ(nfs3_make(c, &dir, "g", &to), NFS3_OK);
	CHECK_EQ(nfs3_write(c, &to, 0, more, 10 * RECORD, UNSTABLE), NFS3_OK);
	CHECK_EQ(nfs3_write(c, &from, 0, data, RECORD, UNSTABLE), NFS3_OK);
	CHECK_EQ(nfs3_rename(c, &dir, "f", &dir, "g"), NFS3_OK);
	CHECK_EQ(nfs3_write(c, &from, RECORD, data + RECORD, RECORD, UNSTABLE), NFS3_OK);
	check_read(&from, 0, data, 2 * RECORD);
	CHECK_EQ(nfs3_write(c, &to, 0, more, 100, UNSTABLE), NFS3ERR_STALE);
	CHECK_EQ(nfs3_read(c, &to, 0, 100), NFS3ERR_STALE);
	CHECK_EQ(nfs3_commit(c, &from, 0, 0), NFS3_OK);
	check_local(target, data, 2 * RECORD);
}

/* ---- a server of its own ---- */

static void export_or_not(struct daemon *d, const char *file, const char *lines)
{
	put_file(file, lines, strlen(lines), 0644);
	CHECK_EQ(daemon_reload(d), 0);
}

/*
 * The export goes while bytes are staged: they were acknowledged, so they are written all the same; its handles are stale meanwhile, and when it is back the
 * client finds what it wrote, under the verifier that it knows.
 */
static void test_export_removed(void)
{
	const char *base = getenv("E2E_DISK"), *dir = work_subdir(base ? base : work_dir(), text("gone%d", getpid()), 0777);
	const char *file = text("%s/exports", work_dir()), *line = text("%s *(rw,insecure,no_root_squash)\n", dir);
	struct daemon d = { .extra = { "--exports", file } };
	struct client own;
	struct fh root, fh;
	writeverf3 verf;

	make_pattern();
	put_file(file, line, strlen(line), 0644);
	if (!CHECK_EQ(daemon_start(&d), 0))
		return;
	client_open(&own, d.port);
	CHECK_EQ(mount3_mnt(&own, dir, &root), MNT3_OK);
	CHECK_EQ(nfs3_make(&own, &root, "f", &fh), NFS3_OK);
	CHECK_EQ(nfs3_write(&own, &fh, 0, data, RECORD, UNSTABLE), NFS3_OK);
	CHECK_EQ(nfs3_write(&own, &fh, 3 * RECORD, data + 3 * RECORD, 100, UNSTABLE), NFS3_OK);
	memcpy(verf, own.res.write.WRITE3res_u.resok.verf, sizeof(verf));
	export_or_not(&d, file, "# none\n");
	CHECK_EQ(nfs3_commit(&own, &fh, 0, 0), NFS3ERR_STALE);
	CHECK_EQ(nfs3_write(&own, &fh, 0, data, 100, UNSTABLE), NFS3ERR_STALE);
	export_or_not(&d, file, line);
	CHECK_EQ(nfs3_commit(&own, &fh, 0, 0), NFS3_OK);
	CHECK(!memcmp(own.res.commit.COMMIT3res_u.resok.verf, verf, sizeof(verf)));
	memset(data + RECORD, 0, 2 * RECORD);
	check_local(text("%s/f", dir), data, 3 * RECORD + 100);
	CHECK_EQ(nfs3_write(&own, &fh, RECORD, more, RECORD, UNSTABLE), NFS3_OK);
	memcpy(data + RECORD, more, RECORD);
	export_or_not(&d, file, "# none\n");
	client_close(&own);
	CHECK_EQ(daemon_stop(&d), 0);						/* nobody can ask for it, and it is there */
	check_local(text("%s/f", dir), data, 3 * RECORD + 100);
}

/* Plain traffic: no middle is copied, nothing is read, few syncs and runs, and at most the file's end stays. */
static void test_plain_traffic(void)
{
	enum { RECORDS = 64 };
	const char *base = getenv("E2E_DISK"), *dir = work_subdir(base ? base : work_dir(), text("plain%d", getpid()), 0777);
	const char *counters = text("%s/counters", work_dir());
	struct daemon d = { .exports = { text("%s(rw,insecure,no_root_squash)", dir) }, .extra = { "--counters-file", counters } };
	struct client own;
	struct fh root, fh;
	int i;

	make_pattern();
	if (!CHECK_EQ(daemon_start(&d), 0))
		return;
	client_open(&own, d.port);
	CHECK_EQ(mount3_mnt(&own, dir, &root), MNT3_OK);
	CHECK_EQ(nfs3_make(&own, &root, "f", &fh), NFS3_OK);
	for (i = 0; i < RECORDS; i++)
		CHECK_EQ(nfs3_write(&own, &fh, (uint64_t)i * RECORD, data + i, RECORD, i % 16 == 15 ? FILE_SYNC : UNSTABLE), NFS3_OK);
	CHECK_EQ(nfs3_commit(&own, &fh, 0, 0), NFS3_OK);
	client_close(&own);
	CHECK_EQ(daemon_stop(&d), 0);
	CHECK_EQ(counter_of(counters, "cache.middles.copied"), 0);
	CHECK_EQ(counter_of(counters, "cache.middles.adopted"), RECORDS);
	CHECK_EQ(counter_of(counters, "write.direct"), RECORDS);
	CHECK_EQ(counter_of(counters, "cache.fills.read"), 0);
	CHECK_EQ(counter_of(counters, "cache.write_through"), 0);
	CHECK(counter_of(counters, "write.syncs") <= RECORDS / 16 + 2);
	CHECK_EQ(counter_of(counters, "cache.folios"), 0);				/* and the stop left nothing */
	for (i = 0; i < RECORDS; i++) {
		get_file(text("%s/f", dir), back, sizeof(back));
		CHECK(!memcmp(back + i * RECORD, data + i, RECORD), ": record %d", i);
	}
}

/* ---- a full disk ---- */

static int fill_disk(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	size_t chunk = MIB;
	ssize_t n;

	must(fd >= 0, path);
	while (chunk >= 512) {
		n = write(fd, more, chunk);
		if (n != (ssize_t)chunk)
			chunk /= 2;
	}
	must(fsync(fd) == 0, path);
	return fd;
}

/*
 * The disk is full while half-written edges wait: what was acknowledged stays readable and is reported; when there is room again the next COMMIT has it, and the
 * verifier says that nothing was lost.
 */
static void test_full_disk(void)
{
	struct fh dir, fh;
	const char *file, *filler;
	writeverf3 verf;
	int i, fd, r;

	if (!fx.path[SMALL]) {
		tap_skip("no small file system (E2E_SMALL)");
		return;
	}
	file = make_file(SMALL, &dir, &fh);
	filler = text("%s/filler", fx.path[SMALL]);
	fd = fill_disk(filler);
	for (i = 0; i < 20; i++) {
		CHECK_EQ(nfs3_write(c, &fh, (uint64_t)i * 40000 + 100, data + i * 40000 + 100, 200, UNSTABLE), NFS3_OK);
		if (!i)
			memcpy(verf, WRITE_OK.verf, sizeof(verf));
	}
	CHECK_EQ(nfs3_commit(c, &fh, 0, 0), NFS3ERR_NOSPC);
	r = nfs3_write(c, &fh, 20 * 40000, data, 100, FILE_SYNC);
	CHECK_EQ(r, NFS3ERR_NOSPC);
	for (i = 0; i < 20; i++)
		check_read(&fh, (uint64_t)i * 40000 + 100, data + i * 40000 + 100, 200);
	must(ftruncate(fd, 0) == 0 && fsync(fd) == 0 && close(fd) == 0 && unlink(filler) == 0, filler);
	for (i = 0; i < 3 && (r = nfs3_commit(c, &fh, 0, 0)) == NFS3ERR_NOSPC; i++)	/* tried meanwhile, before there was room */
		;
	CHECK_EQ(r, NFS3_OK);
	CHECK(!memcmp(COMMIT_OK.verf, verf, sizeof(verf)));
	CHECK_EQ(get_file(file, back, sizeof(back)), 19 * 40000 + 300);
	for (i = 0; i < 20; i++)
		CHECK(!memcmp(back + i * 40000 + 100, data + i * 40000 + 100, 200), ": edge %d", i);
}

static const struct tap_test tests[] = {
	{ "setattr_size", test_setattr_size }, /* 5.9 */
	{ "local_reader", test_local_reader }, /* 1.10 */
	{ "local_writer", test_local_writer }, /* 2.8 */
	{ "local_truncate", test_local_truncate }, /* 2.8 */
	{ "unlink_dirty", test_unlink_dirty },
	{ "unlink_one_of_two", test_unlink_one_of_two },
	{ "local_unlink_dirty", test_local_unlink_dirty },
	{ "rename_over", test_rename_over },
	{ "export_removed", test_export_removed }, /* 1.10 */
	{ "plain_traffic", test_plain_traffic }, /* 1.4 */
	{ "full_disk", test_full_disk }, /* 5.8 */
	{ "clean_stop", test_clean_stop },
};

int main(int argc, char **argv)
{
	fixture_start();
	return tap_run(tests, sizeof(tests) / sizeof(*tests), argc, argv);
}
