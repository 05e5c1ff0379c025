/*
 * budget_test: many files with half-written edges and a small cache: memory is bounded, nobody is refused, nothing stands still. (WRITE_PATH 2.5, 2.8, 3.8, 5.10)
 *
 * The cache has 8 MiB. Each file gets UNSTABLE WRITEs of odd length at odd places, whose writers never complete an edge and never COMMIT: so each WRITE leaves two
 * half-written units, many times what the cache may hold. The server has to fill the oldest and write them, by itself; half of the files have bytes there that it must
 * read, the others end before. All WRITEs succeed, the process does not grow, and what it holds falls to nothing when the WRITEs have ended; the files are right then, for a
 * local process too.
 *
 * E2E_BUDGET_FILES=N: so many files (default 1000; 10000 take about a minute).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/e2e/counters.h"
#include "tests/e2e/fixture.h"

enum { FILES_DEFAULT = 1000, CONNS = 4, WINDOW = 16, UNITS = 9, UNIT = 4096, OLD_BYTES = UNITS * UNIT - 100, LAPS = 3, SAMPLES = 8 };
/* The server may take the memory that it was given, and something for files and stacks; from lap to lap it stays where it was. */
enum { MEMORY_KIB = 32 << 10, OTHERS_KIB = 8 << 10, LAP_GROWTH_KIB_MAX = 8 << 10, SETTLE_S_MAX = 30, SETTLE_POLL_US = 200000 };

static const char config_text[] = "[limits]\nmemory = 32M\ncache = 8M\nopen_files = 1000\n";

static struct daemon server;
static struct client conns[CONNS];
static struct fh *files;
static const char *dir, *counters_file;
static int nfiles;
static writeverf3 verf;
static bool verf_known;

/* Where lap `lap` of file i is written: across a unit or two, neither end on one. */
static void place_of(int i, int lap, uint64_t *offset, uint32_t *count)
{
	*offset = (uint64_t)lap * 3 * UNIT + 1 + (uint64_t)(i * 131 % (UNIT - 1));
	*count = UNIT + 1 + (uint32_t)(i * 17 % 3001);
	if ((*offset + *count) % UNIT == 0)
		++*count;
}

static bool has_old_bytes(int i)
{
	return i % 2 == 0;
}

static uint64_t pattern_of(int i, int lap)
{
	return (uint64_t)i * (LAPS + 1) + (uint64_t)lap + 1;
}

/* What the file must be; its length. */
static size_t model_of(int i, unsigned char *bytes)
{
	size_t len = has_old_bytes(i) ? OLD_BYTES : 0;
	uint64_t offset;
	uint32_t count;
	int lap;

	memset(bytes, 0, UNITS * UNIT);
	fill_pattern(bytes, len, pattern_of(i, LAPS));
	for (lap = 0; lap < LAPS; lap++) {
		place_of(i, lap, &offset, &count);
		fill_pattern(bytes + offset, count, pattern_of(i, lap));
		len = offset + count > len ? offset + count : len;
	}
	return len;
}

static const char *path_of(int i)
{
	static char path[512];

	snprintf(path, sizeof(path), "%s/f%d", dir, i);
	return path;
}

static void make_files(void)
{
	static unsigned char old[OLD_BYTES];
	struct fh root;
	char name[32];
	int i;

	if (!CHECK_EQ(mount3_mnt(&conns[0], dir, &root), MNT3_OK))
		return;
	for (i = 0; i < nfiles && !tap_failures(); i++) {
		fill_pattern(old, sizeof(old), pattern_of(i, LAPS));
		put_file(path_of(i), old, has_old_bytes(i) ? sizeof(old) : 0, 0644);
		snprintf(name, sizeof(name), "f%d", i);
		CHECK_EQ(nfs3_lookup(&conns[0], &root, name, &files[i]), NFS3_OK);
	}
}

static void send_write(int conn, int i, int lap)
{
	static char data[2 * UNIT];
	uint64_t offset;
	uint32_t count;

	place_of(i, lap, &offset, &count);
	fill_pattern(data, count, pattern_of(i, lap));
	WRITE3args args = { fh_wire(&files[i]), offset, count, UNSTABLE, { count, data } };
	struct rpc_what what = { NFS3_PROG, NFS3_VERS, NFS3_WRITE, nfs3_args_xdr(NFS3_WRITE), &args };

	CHECK_EQ(conn_send(&conns[conn].conn, &what), 0);
}

static void take_reply(int conn)
{
	WRITE3res res;
	struct rpc_result result = { nfs3_res_xdr(NFS3_WRITE), &res, sizeof(res) };
	uint32_t xid;

	if (!CHECK_EQ(conn_receive(&conns[conn].conn, &xid), 0) || !CHECK_EQ(conn_decode(&conns[conn].conn, &result), 0) || !CHECK_EQ(res.status, NFS3_OK))
		return;
	if (!verf_known)
		memcpy(verf, res.WRITE3res_u.resok.verf, sizeof(verf));
	verf_known = true;
	CHECK(!memcmp(verf, res.WRITE3res_u.resok.verf, sizeof(verf)), ": the verifier has changed");
}

static long rss_kib(void)
{
	FILE *f = fopen(text("/proc/%d/status", server.pid), "r");
	char line[256];
	long kib = -1;

	while (f && fgets(line, sizeof(line), f) && sscanf(line, "VmRSS: %ld", &kib) != 1)
		;
	if (f)
		fclose(f);
	return kib;
}

/* A sanitizer keeps freed memory. */
static bool is_sanitized(void)
{
	FILE *f = fopen(text("/proc/%d/maps", server.pid), "r");
	char line[512];
	bool found = false;

	while (f && fgets(line, sizeof(line), f))
		found |= strstr(line, "libasan") || strstr(line, "libtsan");
	if (f)
		fclose(f);
	return found;
}

/* A WRITE to each file, a window of them in flight on each connection. */
static void write_lap(int lap, long *rss)
{
	int per_conn = nfiles / CONNS, step, conn, sampled = 0;

	for (step = 0; step < per_conn + WINDOW && !tap_failures(); step++) {
		for (conn = 0; conn < CONNS; conn++) {
			if (step < per_conn)
				send_write(conn, step * CONNS + conn, lap);
			if (step >= WINDOW)
				take_reply(conn);
		}
		if (step * SAMPLES >= (sampled + 1) * per_conn && sampled < SAMPLES)
			rss[sampled++] = rss_kib();
	}
	for (; sampled < SAMPLES; sampled++)
		rss[sampled] = rss_kib();
}

static long long counter(const char *name)
{
	CHECK_EQ(counters_refresh(server.pid, counters_file), 0);
	return counter_of(counters_file, name);
}

/* Nobody asks for it, and yet all is written: the ageing fiber's doing. */
static void await_written(void)
{
	time_t until = time(NULL) + SETTLE_S_MAX;
	long long dirty;

	while ((dirty = counter("cache.dirty_bytes")) > 0 && time(NULL) < until)
		usleep(SETTLE_POLL_US);
	CHECK_EQ(dirty, 0);
}

static void check_files(void)
{
	static unsigned char want[UNITS * UNIT], got[UNITS * UNIT + 1];
	int i;

	for (i = 0; i < nfiles && !tap_failures(); i++) {
		size_t len = model_of(i, want), n = get_file(path_of(i), got, sizeof(got));

		size_t at = 0;

		while (at < len && at < n && got[at] == want[at])
			at++;
		CHECK(n == len && at == len, ": file %d of %zu bytes, should be %zu: the first to differ is %zu: %u, should be %u", i, n, len, at, got[at], want[at]);
	}
}

static long most(const long *kib, int n)
{
	long max = 0;

	for (int i = 0; i < n; i++)
		max = kib[i] > max ? kib[i] : max;
	return max;
}

static void check_memory(long at_start, const long *rss)
{
	long before = most(rss, (LAPS - 1) * SAMPLES), last = most(rss + (LAPS - 1) * SAMPLES, SAMPLES);

	tap_note("resident KiB: %ld before the first WRITE, then at most %ld, in the last lap %ld", at_start, before, last);
	if (is_sanitized())
		return;
	CHECK(last - at_start <= MEMORY_KIB + OTHERS_KIB, ": grew by %ld KiB", last - at_start);
	CHECK(last - before <= LAP_GROWTH_KIB_MAX, ": the last lap grew by %ld KiB", last - before);
}

static void check_counters(void)
{
	static const char *const shown[] = { "cache.edges.claimed", "cache.edges.forced", "cache.edges.kept", "cache.edges.dropped", "cache.edges.aged", "cache.fills.read",
		"cache.fills.zero", "cache.dirty_waits", "file.cache_full", "buf.waits", "buf.refused", "conn.waits_memory", "nfs3.jukebox", "cache.kept_bytes" };
	unsigned i;

	counter("write.calls");
	for (i = 0; i < sizeof(shown) / sizeof(*shown); i++)
		tap_note("%s %lld", shown[i], counter_of(counters_file, shown[i]));
	CHECK(counter_of(counters_file, "cache.edges.claimed") >= nfiles * 2LL);
	CHECK(counter_of(counters_file, "cache.fills.read") >= nfiles / 2);
	CHECK(counter_of(counters_file, "cache.kept_bytes") <= 8 << 20);
	CHECK_EQ(counter_of(counters_file, "nfs3.jukebox"), 0);
}

static void test_budget(void)
{
	long rss[LAPS * SAMPLES], at_start = rss_kib();
	struct timespec begun, ended;
	int lap;

	clock_gettime(CLOCK_MONOTONIC, &begun);
	for (lap = 0; lap < LAPS && !tap_failures(); lap++)
		write_lap(lap, rss + lap * SAMPLES);
	clock_gettime(CLOCK_MONOTONIC, &ended);
	if (tap_failures())
		return;
	tap_note("%d WRITEs in %.1f s", LAPS * nfiles, (double)(ended.tv_sec - begun.tv_sec) + (double)(ended.tv_nsec - begun.tv_nsec) / 1e9);
	check_memory(at_start, rss);
	await_written();
	check_files();
	check_counters();
}

static void test_commit(void)
{
	int i;

	for (i = 0; i < nfiles && !tap_failures(); i += 10) {
		CHECK_EQ(nfs3_commit(&conns[0], &files[i], 0, 0), NFS3_OK);
		CHECK(!memcmp(verf, conns[0].res.commit.COMMIT3res_u.resok.verf, sizeof(verf)), ": the verifier has changed");
	}
}

static void test_stop(void)
{
	int status, i;

	for (i = 0; i < CONNS; i++)
		client_close(&conns[i]);
	status = daemon_stop(&server);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, ": wait status 0x%x", (unsigned)status);
	check_files();
}

static void start(void)
{
	const char *config_file = text("%s/conf", work_dir()), *base = getenv("E2E_DISK"), *wanted = getenv("E2E_BUDGET_FILES");
	int i;

	nfiles = wanted ? atoi(wanted) : FILES_DEFAULT;
	nfiles -= nfiles % CONNS;
	files = calloc((size_t)nfiles, sizeof(*files));
	must(files, "no memory");
	dir = work_subdir(base ? base : work_dir(), text("budget%d", getpid()), 0777);
	counters_file = text("%s/counters", work_dir());
	put_file(config_file, config_text, strlen(config_text), 0600);
	server.exports[0] = text("%s(rw,insecure,no_root_squash)", dir);
	server.extra[0] = "--config";
	server.extra[1] = config_file;
	server.extra[2] = "--counters-file";
	server.extra[3] = counters_file;
	must(daemon_start(&server) == 0, "the daemon");
	for (i = 0; i < CONNS; i++)
		client_open(&conns[i], server.port);
	make_files();
}

static const struct tap_test tests[] = {
	{ "half-written edges of many files", test_budget }, /* 2.8, 3.8, 5.10 */
	{ "COMMIT afterwards", test_commit },
	{ "clean stop", test_stop },
};

int main(int argc, char **argv)
{
	start();
	return tap_run(tests, sizeof(tests) / sizeof(*tests), argc, argv);
}
