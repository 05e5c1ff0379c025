/*
 * raw_readdir_test: READDIR and READDIRPLUS: complete, resumable, within their byte budgets, whatever happens meanwhile.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/e2e/fixture.h"

#define DIR_OK (fx.c.res.readdir.READDIR3res_u.resok)
#define PLUS_OK (fx.c.res.readdirplus.READDIRPLUS3res_u.resok)

enum { ENTRIES = 2000, MANY = 10000, READDIR_OVERHEAD = 8 };

static struct client *const c = &fx.c;

/* Names f0 ... f(n-1), made locally. */
static const char *populate(struct fh *dir, int n)
{
	const char *path = fresh_dir(RW, dir);
	int i;

	for (i = 0; i < n; i++)
		put_file(text("%s/f%d", path, i), "", 0, 0644);
	return path;
}

/* Which entry a name is: its number, -1 for "." and "..", -2 for anything else. */
static int number_of(const char *name, int n)
{
	int i;

	if (!strcmp(name, ".") || !strcmp(name, ".."))
		return -1;
	i = name[0] == 'f' ? atoi(name + 1) : -2;
	return i >= 0 && i < n ? i : -2;
}

/* Bytes that an entry takes in a READDIR reply: its pointer's TRUE, fileid, name, cookie. */
static size_t entry_bytes(const char *name)
{
	return 4 + 8 + 4 + (strlen(name) + 3) / 4 * 4 + 8;
}

/* One page of READDIR: marks what it sees, moves the cookie. False at the end or when something is wrong. */
static bool take_page(const struct fh *dir, uint64_t *cookie, char *verf, uint32_t count, unsigned char *seen, int n)
{
	const entry3 *e;
	size_t bytes = 4 + 84 + NFS3_COOKIEVERFSIZE + READDIR_OVERHEAD;
	int i;

	if (!CHECK_EQ(nfs3_readdir(c, dir, *cookie, verf, count), NFS3_OK))
		return false;
	CHECK(DIR_OK.reply.entries || DIR_OK.reply.eof, ": a page without entries is not the end");
	for (e = DIR_OK.reply.entries; e; e = e->nextentry) {
		i = number_of(e->name, n);
		CHECK(i >= -1, ": %s", e->name);
		if (i >= 0)
			CHECK(!seen[i]++, ": %s twice", e->name);
		bytes += entry_bytes(e->name);
		*cookie = e->cookie;
	}
	CHECK(bytes <= count, ": %zu bytes of %u", bytes, count);
	return !DIR_OK.reply.eof && !tap_failures();
}

static void check_all_seen(const unsigned char *seen, int n)
{
	int i, missing = 0;

	for (i = 0; i < n; i++)
		missing += !seen[i];
	CHECK_EQ(missing, 0);
}

/* The larger the directory, the smaller the page: every name once. */
static void test_readdir_counts(void)
{
	static const uint32_t counts[] = { 512, 1000, 4096, 8192, 65536 };
	unsigned char seen[ENTRIES];
	cookieverf3 verf;
	uint64_t cookie;
	struct fh dir;
	unsigned i;

	populate(&dir, ENTRIES);
	for (i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
		memset(seen, 0, sizeof(seen));
		memset(verf, 0, sizeof(verf));
		cookie = 0;
		while (take_page(&dir, &cookie, verf, counts[i], seen, ENTRIES))
			;
		check_all_seen(seen, ENTRIES);
	}
}

static void test_readdir_many(void)
{
	static unsigned char seen[MANY];
	cookieverf3 verf = { 0 };
	uint64_t cookie = 0;
	struct fh dir;

	populate(&dir, MANY);
	while (take_page(&dir, &cookie, verf, 256, seen, MANY))
		;
	check_all_seen(seen, MANY);
}

static void test_readdir_empty(void)
{
	cookieverf3 verf = { 0 };
	const entry3 *e;
	struct fh dir;

	fresh_dir(RW, &dir);
	CHECK_EQ(nfs3_readdir(c, &dir, 0, verf, 4096), NFS3_OK);
	CHECK(DIR_OK.reply.eof);
	for (e = DIR_OK.reply.entries; e; e = e->nextentry)
		CHECK(e->name[0] == '.', ": %s", e->name);
}

/* Any cookie handed out is a place to go on from, after later changes and after a restart too. */
static void test_readdir_cookies_last(void)
{
	enum { N = 300 };
	unsigned char seen[N] = { 0 }, rest[N];
	cookieverf3 verf = { 0 };
	uint64_t cookie = 0;
	const char *path;
	struct fh dir;
	int i;

	path = populate(&dir, N);
	CHECK(take_page(&dir, &cookie, verf, 2048, seen, N));
	memcpy(rest, seen, N);
	put_file(text("%s/f%d", path, N), "", 0, 0644);
	CHECK_EQ(unlink(text("%s/f%d", path, N)), 0);
	CHECK_EQ(daemon_stop(&fx.daemon), 0);
	client_close(c);
	CHECK_EQ(daemon_start(&fx.daemon), 0);
	client_open(c, fx.daemon.port);
	for (i = 0; i < 1000 && take_page(&dir, &cookie, verf, 2048, rest, N); i++)
		;
	check_all_seen(rest, N);
}

/* Reading and removing by turns ends, with the directory empty. */
static void test_readdir_while_removing(void)
{
	enum { N = 1000 };
	cookieverf3 verf = { 0 };
	uint64_t cookie = 0;
	char names[64][32];
	const entry3 *e;
	const char *path;
	struct fh dir;
	int pages, n, i;
	bool eof = false;

	path = populate(&dir, N);
	for (pages = 0; !eof && pages < N; pages++) {
		if (!CHECK_EQ(nfs3_readdir(c, &dir, cookie, verf, 700), NFS3_OK))
			return;
		for (n = 0, e = DIR_OK.reply.entries; e && n < 64; e = e->nextentry, n++) {
			strncpy(names[n], e->name, sizeof(names[n]) - 1);
			names[n][sizeof(names[n]) - 1] = '\0';
			cookie = e->cookie;
		}
		eof = DIR_OK.reply.eof;
		for (i = 0; i < n; i++)
			if (names[i][0] != '.')
				CHECK_EQ(nfs3_remove(c, &dir, names[i]), NFS3_OK);
	}
	CHECK(eof);
	CHECK_EQ(rmdir(path), 0);
}

/* One page of READDIRPLUS: what it says of an entry is what LOOKUP and GETATTR say. */
static bool take_page_plus(const struct fh *dir, uint64_t *cookie, char *verf, uint32_t dircount, uint32_t maxcount, unsigned char *seen, int n)
{
	const entryplus3 *e;
	size_t names = 0;
	int i;

	if (!CHECK_EQ(nfs3_readdirplus(c, dir, *cookie, verf, dircount, maxcount), NFS3_OK))
		return false;
	CHECK(c->conn.in_len <= maxcount + 64, ": a reply of %zu for %u", c->conn.in_len, maxcount);
	CHECK(PLUS_OK.reply.entries || PLUS_OK.reply.eof);
	for (e = PLUS_OK.reply.entries; e; e = e->nextentry) {
		i = number_of(e->name, n);
		CHECK(i >= -1, ": %s", e->name);
		if (i >= 0) {
			CHECK(!seen[i]++, ": %s twice", e->name);
			CHECK(e->name_attributes.attributes_follow && e->name_handle.handle_follows, ": %s", e->name);
			CHECK_EQ(e->name_attributes.post_op_attr_u.attributes.fileid, e->fileid);
		}
		names += entry_bytes(e->name);
		*cookie = e->cookie;
	}
	CHECK(names <= dircount + entry_bytes("f0000") || !PLUS_OK.reply.entries->nextentry, ": %zu of %u", names, dircount);
	return !PLUS_OK.reply.eof && !tap_failures();
}

static void test_readdirplus(void)
{
	static const uint32_t counts[][2] = { { 200, 1024 }, { 512, 4096 }, { 8192, 8192 }, { 8192, 65536 } };
	unsigned char seen[ENTRIES];
	cookieverf3 verf;
	uint64_t cookie;
	struct fh dir;
	unsigned i;

	populate(&dir, ENTRIES);
	for (i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
		memset(seen, 0, sizeof(seen));
		memset(verf, 0, sizeof(verf));
		cookie = 0;
		while (take_page_plus(&dir, &cookie, verf, counts[i][0], counts[i][1], seen, ENTRIES))
			;
		check_all_seen(seen, ENTRIES);
	}
}

static void test_readdirplus_handles(void)
{
	struct fh dir, found, listed[8];
	char names[8][32];
	cookieverf3 verf = { 0 };
	const entryplus3 *e;
	fattr3 a, attrs[8];
	int n = 0, i;

	populate(&dir, 5);
	CHECK_EQ(nfs3_readdirplus(c, &dir, 0, verf, 4096, 32768), NFS3_OK);
	for (e = PLUS_OK.reply.entries; e && n < 8; e = e->nextentry) {
		if (e->name[0] == '.')
			continue;
		strncpy(names[n], e->name, sizeof(names[n]) - 1);
		names[n][sizeof(names[n]) - 1] = '\0';
		listed[n] = fh_from_wire(&e->name_handle.post_op_fh3_u.handle);
		attrs[n++] = e->name_attributes.post_op_attr_u.attributes;
	}
	CHECK_EQ(n, 5);
	for (i = 0; i < n; i++) {
		CHECK_EQ(nfs3_lookup(c, &dir, names[i], &found), NFS3_OK);
		CHECK(fh_equal(&found, &listed[i]));
		CHECK_EQ(nfs3_getattr(c, &found, &a), NFS3_OK);
		CHECK(!memcmp(&a, &attrs[i], sizeof(a)));
	}
}

static void test_readdir_errors(void)
{
	cookieverf3 verf = { 0 }, wrong;
	struct fh dir, fh;
	int r;

	populate(&dir, 10);
	CHECK_EQ(nfs3_lookup(c, &dir, "f0", &fh), NFS3_OK);
	CHECK_EQ(nfs3_readdir(c, &fh, 0, verf, 4096), NFS3ERR_NOTDIR);
	CHECK_EQ(nfs3_readdirplus(c, &fh, 0, verf, 4096, 4096), NFS3ERR_NOTDIR);
	CHECK_EQ(nfs3_readdir(c, &dir, 0, verf, 16), NFS3ERR_TOOSMALL);
	CHECK_EQ(nfs3_readdirplus(c, &dir, 0, verf, 16, 16), NFS3ERR_TOOSMALL);
	CHECK_EQ(nfs3_readdir(c, &dir, 0, verf, 4096), NFS3_OK);
	memcpy(wrong, verf, sizeof(wrong));
	wrong[0] ^= 0x55;
	r = nfs3_readdir(c, &dir, 12345678901234567u, wrong, 4096);
	CHECK(r == NFS3ERR_BAD_COOKIE || r == NFS3_OK, ": %d", r);
}

static const struct tap_test tests[] = {
	{ "readdir_counts", test_readdir_counts },
	{ "readdir_many", test_readdir_many },
	{ "readdir_empty", test_readdir_empty },
	{ "readdir_cookies_last", test_readdir_cookies_last },
	{ "readdir_while_removing", test_readdir_while_removing },
	{ "readdirplus", test_readdirplus },
	{ "readdirplus_handles", test_readdirplus_handles },
	{ "readdir_errors", test_readdir_errors },
	{ "clean_stop", test_clean_stop },
};

int main(int argc, char **argv)
{
	fixture_start();
	return tap_run(tests, sizeof(tests) / sizeof(*tests), argc, argv);
}
