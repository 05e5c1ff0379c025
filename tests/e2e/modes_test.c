/*
 * modes_test: an export's modes, for reading and writing apart, changed by SIGHUP while files are in use. (WRITE_PATH 1.11)
 *
 * For each pair of modes, before and after: UNSTABLE WRITEs in the old one leave half-written edges and dirty middles, then the exports are read again, then the rest
 * is written and everything read in the new one, and the file is compared, through NFS and locally. The daemon's counters must say which way each WRITE and READ went.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/e2e/counters.h"
#include "tests/e2e/fixture.h"

enum { RECORD = 47008, RECORDS = 8, FILE_BYTES = RECORD * RECORDS };

static const char *const modes[] = { "direct", "dontcache", "buffered" };
enum { MODES = sizeof(modes) / sizeof(*modes) };

static struct daemon server;
static struct client client, *const c = &client;
static struct fh root;
static const char *dir, *exports_file, *counters_file;
static char data[FILE_BYTES], local[FILE_BYTES + 1];

/* Have the export these options, whatever it had. */
static int set_options(const char *options)
{
	const char *fresh = text("%s.fresh", exports_file), *line = text("%s *(rw,insecure,no_root_squash%s%s)\n", dir, *options ? "," : "", options);

	put_file(fresh, line, strlen(line), 0600);
	must(rename(fresh, exports_file) == 0, "rename");
	return server.pid ? daemon_reload(&server) : 0;
}

static long long counter(const char *name)
{
	CHECK_EQ(counters_refresh(server.pid, counters_file), 0);
	return counter_of(counters_file, name);
}

static void write_records(const struct fh *fh, int first, stable_how stable)
{
	for (int i = first; i < RECORDS; i += 2)
		CHECK_EQ(nfs3_write(c, fh, (uint64_t)i * RECORD, data + i * RECORD, RECORD, stable), NFS3_OK);
}

static void check_read(const struct fh *fh)
{
	READ3resok *ok = &c->res.read.READ3res_u.resok;

	for (uint64_t at = 0; at < FILE_BYTES; at += RECORD / 2) {
		if (!CHECK(nfs3_read(c, fh, at, RECORD / 2) == NFS3_OK, ": READ at %llu: %d", (unsigned long long)at, (int)c->res.status))
			return;
		CHECK(ok->count == RECORD / 2 && !memcmp(ok->data.data_val, data + at, ok->count), ": READ at %llu", (unsigned long long)at);
	}
}

static void check_local(const char *name)
{
	size_t len = get_file(text("%s/%s", dir, name), local, sizeof(local));

	CHECK(len == FILE_BYTES && !memcmp(local, data, len), ": %s has other bytes, or not so many: %zu", name, len);
}

/* How many WRITEs and READs went each way. */
struct ways {
	long long write[MODES], read[MODES], fallback, no_alignment;
};

static struct ways ways_now(void)
{
	struct ways w = { .fallback = counter("mode.fallback") };

	w.no_alignment = counter_of(counters_file, "mode.no_alignment");
	for (int i = 0; i < MODES; i++) {
		w.write[i] = counter_of(counters_file, text("write.%s", modes[i]));
		w.read[i] = counter_of(counters_file, text("read.%s", modes[i]));
	}
	return w;
}

static void check_ways(const struct ways *before, const char *write_mode, const char *read_mode)
{
	struct ways now = ways_now();

	for (int i = 0; i < MODES; i++) {
		CHECK_EQ(now.write[i] - before->write[i], strcmp(modes[i], write_mode) ? 0 : RECORDS / 2);
		CHECK_EQ(now.read[i] - before->read[i], strcmp(modes[i], read_mode) ? 0 : 2 * RECORDS);
	}
	CHECK_EQ(now.fallback - before->fallback, 0);
}

/* From one pair of modes to another, with a file half written. */
static void change(const char *from, const char *to, const char *read_mode)
{
	const char *name = text("%s-%s-%s", from, to, read_mode);
	struct ways before;
	struct fh fh;

	fill_pattern(data, sizeof(data), (uint64_t)random());
	CHECK_EQ(set_options(text("write_mode=%s", from)), 0);
	CHECK_EQ(nfs3_make(c, &root, name, &fh), NFS3_OK);
	write_records(&fh, 0, UNSTABLE);
	CHECK_EQ(set_options(text("write_mode=%s,read_mode=%s", to, read_mode)), 0);
	before = ways_now();
	write_records(&fh, 1, UNSTABLE);
	check_read(&fh);
	check_ways(&before, to, read_mode);
	CHECK_EQ(nfs3_commit(c, &fh, 0, 0), NFS3_OK);
	check_local(name);
	check_read(&fh);
}

static void test_change(void)
{
	for (int i = 0; i < MODES * MODES * MODES && !tap_failures(); i++) {
		const char *from = modes[i % MODES], *to = modes[i / MODES % MODES], *read_mode = modes[i / MODES / MODES];

		change(from, to, read_mode);
		if (tap_failures())
			tap_note("write_mode from %s to %s, read_mode %s", from, to, read_mode);
	}
}

/* What nobody needs any more goes, or stays as long as there is time: the A/B baseline. */
static void test_misaligned_dontcache(void)
{
	static const struct { const char *option; bool kept; } ways[] = { { "misaligned_dontcache=yes", false }, { "misaligned_dontcache=no", true } };
	long long completed, kept;
	struct fh fh;

	for (unsigned i = 0; i < 2; i++) {
		CHECK_EQ(set_options(ways[i].option), 0);
		CHECK_EQ(nfs3_make(c, &root, text("edges%u", i), &fh), NFS3_OK);
		completed = counter("cache.edges.completed");
		kept = counter_of(counters_file, "cache.edges.kept");
		write_records(&fh, 0, FILE_SYNC);
		write_records(&fh, 1, FILE_SYNC);
		completed = counter("cache.edges.completed") - completed;
		kept = counter_of(counters_file, "cache.edges.kept") - kept;
		/* Each joint of two records has an edge that was kept for the second; what completed it marked it, or had it kept again. */
		CHECK(ways[i].kept ? completed == 0 : completed == RECORDS - 1, ": %s: %lld completed", ways[i].option, completed);
		CHECK(ways[i].kept ? kept >= 2 * (RECORDS - 1) : kept <= RECORDS + 2, ": %s: %lld kept", ways[i].option, kept);
		check_read(&fh);
		check_local(text("edges%u", i));
	}
}

/* A WRITE inside two units has no middle to go by itself, in either mode. */
static void test_too_small(void)
{
	long long before = counter("mode.too_small"), open_before = counter_of(counters_file, "cache.edges.open");
	struct fh fh;

	CHECK_EQ(nfs3_make(c, &root, "small", &fh), NFS3_OK);
	CHECK_EQ(nfs3_write(c, &fh, 0, data, 3 * 4096, FILE_SYNC), NFS3_OK);
	CHECK_EQ(nfs3_write(c, &fh, 100, data, 8000, UNSTABLE), NFS3_OK);
	CHECK_EQ(counter("mode.too_small") - before, 1);
	CHECK_EQ(counter_of(counters_file, "cache.edges.open") - open_before, 2);
	CHECK_EQ(nfs3_write(c, &fh, 0, data, 8192, FILE_SYNC), NFS3_OK);
	CHECK_EQ(counter("mode.too_small") - before, 1);
	CHECK_EQ(counter_of(counters_file, "cache.edges.open") - open_before, 0);
}

static void fall_back(const char *base, const char *options)
{
	const char *own = dir;
	struct fh own_root = root, fh;
	struct ways before, now;

	dir = work_subdir(base, text("modes%d", getpid()), 0777);
	CHECK_EQ(set_options(options), 0);
	if (CHECK_EQ(mount3_mnt(c, dir, &root), MNT3_OK) && CHECK_EQ(nfs3_make(c, &root, "file", &fh), NFS3_OK)) {
		before = ways_now();
		write_records(&fh, 0, UNSTABLE);
		write_records(&fh, 1, FILE_SYNC);
		check_read(&fh);
		now = ways_now();
		CHECK_EQ(now.fallback - before.fallback, 3 * RECORDS);
		CHECK_EQ(now.no_alignment - before.no_alignment, 3 * RECORDS);
		CHECK_EQ(now.write[MODES - 1] - before.write[MODES - 1], RECORDS);
		CHECK_EQ(now.read[MODES - 1] - before.read[MODES - 1], 2 * RECORDS);
		check_local("file");
	}
	dir = own;
	root = own_root;
	CHECK_EQ(set_options(""), 0);
}

/* A file system without O_DIRECT does it in its own way, and that is counted. */
static void test_fallback(void)
{
	const char *base = getenv("E2E_TMPFS");

	if (!base) {
		tap_skip("no file system without O_DIRECT (E2E_TMPFS)");
		return;
	}
	for (int i = 0; i < MODES - 1; i++)
		fall_back(base, text("write_mode=%s,read_mode=%s", modes[i], modes[i]));
}

/* A reload that cannot be: the old modes stay. */
static void test_bad_reload(void)
{
	struct ways before;
	struct fh fh;

	CHECK_EQ(set_options("write_mode=buffered"), 0);
	CHECK_EQ(set_options("write_mode=sideways"), -EINVAL);
	CHECK_EQ(nfs3_make(c, &root, "bad", &fh), NFS3_OK);
	before = ways_now();
	write_records(&fh, 0, FILE_SYNC);
	CHECK_EQ(ways_now().write[MODES - 1] - before.write[MODES - 1], RECORDS / 2);
	CHECK_EQ(set_options(""), 0);
}

static void test_clean_end(void)
{
	int status;

	client_close(c);
	status = daemon_stop(&server);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, ": wait status 0x%x", (unsigned)status);
}

static void start(void)
{
	const char *base = getenv("E2E_DISK");

	dir = work_subdir(base ? base : work_dir(), text("modes%d", getpid()), 0777);
	exports_file = text("%s/exports", work_dir());
	counters_file = text("%s/counters", work_dir());
	set_options("");
	server.extra[0] = "--exports";
	server.extra[1] = exports_file;
	server.extra[2] = "--counters-file";
	server.extra[3] = counters_file;
	must(daemon_start(&server) == 0, "the daemon");
	client_open(c, server.port);
	CHECK_EQ(mount3_mnt(c, dir, &root), MNT3_OK);
}

static const struct tap_test tests[] = {
	{ "modes change with a file half written", test_change }, /* 1.11 */
	{ "misaligned_dontcache", test_misaligned_dontcache }, /* 1.11 */
	{ "too small for a middle", test_too_small },
	{ "fallback where there is no direct I/O", test_fallback }, /* 1.11 */
	{ "a reload that fails", test_bad_reload }, /* 1.11 */
	{ "clean stop", test_clean_end },
};

int main(int argc, char **argv)
{
	start();
	return tap_run(tests, sizeof(tests) / sizeof(*tests), argc, argv);
}
