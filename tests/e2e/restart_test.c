/*
 * restart_test: what is promised over the end of a server, by SIGKILL or by SIGTERM, and a start on the same state directory:
 * handles stay good, stable bytes are there, and UNSTABLE ones are there or the verifier has changed.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/e2e/fixture.h"

enum { RECORD = 47008, RECORDS = 200, WINDOW = 16, FILE_BYTES = RECORD * RECORDS };

static struct client *const c = &fx.c;
static char data[FILE_BYTES], back[FILE_BYTES + 1];

/* What the client knows of one WRITE: whether it was answered, and with what. */
struct pending {
	bool answered;
	stable_how committed;
	writeverf3 verf;
};

static struct pending pending[RECORDS];

static stable_how how_of(int record)
{
	return record % 10 == 3 ? FILE_SYNC : record % 10 == 6 ? DATA_SYNC : UNSTABLE;
}

static int send_write(const struct fh *fh, int record)
{
	WRITE3args args = { fh_wire(fh), (uint64_t)record * RECORD, RECORD, how_of(record), { RECORD, data + record * RECORD } };
	struct rpc_what what = { NFS3_PROG, NFS3_VERS, NFS3_WRITE, nfs3_args_xdr(NFS3_WRITE), &args };

	return conn_send(&c->conn, &what);
}

/* Takes one reply in; first is the xid of record 0. */
static bool take_reply(uint32_t first)
{
	WRITE3res res;
	struct rpc_result result = { nfs3_res_xdr(NFS3_WRITE), &res, sizeof(res) };
	struct pending *p;
	uint32_t xid;

	if (conn_receive(&c->conn, &xid) || !CHECK(xid - first < RECORDS) || !CHECK_EQ(conn_decode(&c->conn, &result), 0))
		return false;
	if (!CHECK_EQ(res.status, NFS3_OK))
		return false;
	p = &pending[xid - first];
	p->answered = true;
	p->committed = res.WRITE3res_u.resok.committed;
	memcpy(p->verf, res.WRITE3res_u.resok.verf, sizeof(p->verf));
	return true;
}

/* WRITEs of all records, a window of them in flight; the daemon dies after so many replies. */
static void write_until_killed(const struct fh *fh, int replies)
{
	uint32_t first = c->conn.xid + 1;
	int sent = 0, got;

	memset(pending, 0, sizeof(pending));
	for (got = 0; got < replies; got++) {
		while (sent < RECORDS && sent - got < WINDOW)
			CHECK_EQ(send_write(fh, sent++), 0);
		if (!CHECK(take_reply(first)))
			return;
	}
	while (sent < RECORDS && sent - got < WINDOW)
		CHECK_EQ(send_write(fh, sent++), 0);
	daemon_kill(&fx.daemon);
	while (take_reply(first))
		;
}

static void start_again(void)
{
	client_close(c);
	CHECK_EQ(daemon_start(&fx.daemon), 0);
	client_open(c, fx.daemon.port);
}

/* Every byte that was answered as stable is there before anything is sent again. */
static void check_stable(const char *file)
{
	size_t len = get_file(file, back, FILE_BYTES), at;
	int i;

	for (i = 0; i < RECORDS; i++) {
		at = (size_t)i * RECORD;
		if (pending[i].answered && pending[i].committed != UNSTABLE)
			CHECK(len >= at + RECORD && !memcmp(back + at, data + at, RECORD), ": stable record %d is not there", i);
	}
}

/* As a client does it: COMMIT, and send again what the verifier does not vouch for. */
static int send_again(const struct fh *fh)
{
	writeverf3 verf;
	int i, again = 0;

	CHECK_EQ(nfs3_commit(c, fh, 0, 0), NFS3_OK);
	memcpy(verf, c->res.commit.COMMIT3res_u.resok.verf, sizeof(verf));
	for (i = 0; i < RECORDS; i++) {
		if (pending[i].answered && (pending[i].committed != UNSTABLE || !memcmp(pending[i].verf, verf, sizeof(verf))))
			continue;
		again++;
		CHECK_EQ(nfs3_write(c, fh, (uint64_t)i * RECORD, data + i * RECORD, RECORD, UNSTABLE), NFS3_OK);
		CHECK(!memcmp(c->res.write.WRITE3res_u.resok.verf, verf, sizeof(verf)));
	}
	CHECK_EQ(nfs3_commit(c, fh, 0, 0), NFS3_OK);
	CHECK(!memcmp(c->res.commit.COMMIT3res_u.resok.verf, verf, sizeof(verf)));
	return again;
}

static void test_kill(void)
{
	static const int replies[] = { 0, 1, 50, 123, 184, RECORDS };
	struct fh dir, fh, found;
	const char *path = fresh_dir(RW, &dir), *file;
	unsigned i;
	int again;

	for (i = 0; i < sizeof(replies) / sizeof(*replies); i++) {
		file = text("%s/f%u", path, i);
		fill_pattern(data, sizeof(data), i + 1);
		CHECK_EQ(nfs3_make(c, &dir, text("f%u", i), &fh), NFS3_OK);
		write_until_killed(&fh, replies[i]);
		check_stable(file);
		start_again();
		CHECK_EQ(nfs3_getattr(c, &fh, NULL), NFS3_OK);
		CHECK_EQ(nfs3_lookup(c, &dir, text("f%u", i), &found), NFS3_OK);
		CHECK(fh_equal(&fh, &found));
		again = send_again(&fh);
		CHECK(again > 0 || replies[i] == RECORDS);
		CHECK_EQ(get_file(file, back, sizeof(back)), FILE_BYTES);
		CHECK(!memcmp(back, data, FILE_BYTES), ": killed after %d replies, %d sent again", replies[i], again);
	}
}

static void verifier_now(const struct fh *fh, char *verf)
{
	CHECK_EQ(nfs3_commit(c, fh, 0, 0), NFS3_OK);
	memcpy(verf, c->res.commit.COMMIT3res_u.resok.verf, NFS3_WRITEVERFSIZE);
}

static void test_verifier_changes(void)
{
	writeverf3 verf[4];
	struct fh dir, fh;
	int i, j;

	fresh_dir(RW, &dir);
	CHECK_EQ(nfs3_make(c, &dir, "f", &fh), NFS3_OK);
	for (i = 0; i < 4; i++) {
		verifier_now(&fh, verf[i]);
		for (j = 0; j < i; j++)
			CHECK(memcmp(verf[i], verf[j], sizeof(*verf)), ": starts %d and %d", i, j);
		if (i % 2)
			daemon_kill(&fx.daemon);
		else
			CHECK_EQ(daemon_stop(&fx.daemon), 0);
		start_again();
	}
}

/* SIGTERM loses nothing that was answered, and lets what has begun come to its end. */
static void test_clean_stop_keeps_unstable(void)
{
	struct fh dir, fh;
	const char *path = fresh_dir(RW, &dir);
	int i;

	fill_pattern(data, sizeof(data), 77);
	CHECK_EQ(nfs3_make(c, &dir, "f", &fh), NFS3_OK);
	for (i = 0; i < RECORDS; i++)
		CHECK_EQ(nfs3_write(c, &fh, (uint64_t)i * RECORD, data + i * RECORD, RECORD, UNSTABLE), NFS3_OK);
	CHECK_EQ(daemon_stop(&fx.daemon), 0);
	CHECK_EQ(get_file(text("%s/f", path), back, sizeof(back)), FILE_BYTES);
	CHECK(!memcmp(back, data, FILE_BYTES));
	start_again();
}

static void test_handles_survive(void)
{
	struct fh dir, sub, fh, gone, found;
	const char *path = fresh_dir(RW, &dir);
	sattr3 set = sattr_mode(0755);
	fattr3 before, after;

	CHECK_EQ(nfs3_mkdir(c, &dir, "sub", &set, &sub), NFS3_OK);
	CHECK_EQ(nfs3_make(c, &dir, "f", &fh), NFS3_OK);
	CHECK_EQ(nfs3_make(c, &dir, "gone", &gone), NFS3_OK);
	CHECK_EQ(nfs3_getattr(c, &fh, &before), NFS3_OK);
	CHECK_EQ(daemon_stop(&fx.daemon), 0);
	CHECK_EQ(rename(text("%s/f", path), text("%s/sub/g", path)), 0);
	CHECK_EQ(unlink(text("%s/gone", path)), 0);
	start_again();
	CHECK_EQ(nfs3_getattr(c, &fh, &after), NFS3_OK);
	CHECK(after.fileid == before.fileid && after.fsid == before.fsid);
	CHECK_EQ(nfs3_lookup(c, &sub, "g", &found), NFS3_OK);
	CHECK(fh_equal(&fh, &found));
	CHECK_EQ(nfs3_getattr(c, &gone, NULL), NFS3ERR_STALE);
	CHECK_EQ(nfs3_getattr(c, &fx.root[SQUASH], NULL), NFS3_OK);
}

/* Another server's key signs other handles: they are stale, as files are that are not there any more. */
static void test_other_state(void)
{
	struct daemon other = { .exports = { fx.daemon.exports[0] } };
	struct client oc;

	CHECK_EQ(daemon_start(&other), 0);
	client_open(&oc, other.port);
	CHECK_EQ(nfs3_getattr(&oc, &fx.root[RW], NULL), NFS3ERR_STALE);
	client_close(&oc);
	CHECK_EQ(daemon_stop(&other), 0);
}

/* An EXCLUSIVE create whose answer was lost with the server is recognised by the next one. */
static void test_exclusive_again(void)
{
	struct fh dir, fh, again;

	fresh_dir(RW, &dir);
	CHECK_EQ(nfs3_create_exclusive(c, &dir, "f", 0x8888777766665555u, &fh), NFS3_OK);
	daemon_kill(&fx.daemon);
	start_again();
	CHECK_EQ(nfs3_create_exclusive(c, &dir, "f", 0x8888777766665555u, &again), NFS3_OK);
	CHECK(fh_equal(&fh, &again));
	CHECK_EQ(nfs3_create_exclusive(c, &dir, "f", 0x1111777766665555u, NULL), NFS3ERR_EXIST);
}

/* SIGHUP is not answered: ask until the server has read the file. */
static int mnt_after_reload(struct client *client, const char *path, int want)
{
	int i, r = -1;

	for (i = 0; i < 5000 && r != want; i++)
		r = mount3_mnt(client, path, NULL);
	return r;
}

static void reload(struct daemon *d, const char *file, const char *lines)
{
	put_file(file, lines, strlen(lines), 0644);
	kill(d->pid, SIGHUP);
}

/* The exports of a file change under a running server; calls go on under the new ones, and a bad file changes nothing. */
static void test_reload(void)
{
	const char *a = work_subdir(work_dir(), "a", 0777), *b = work_subdir(work_dir(), "b", 0777), *file = text("%s/exports", work_dir());
	struct daemon d = { .extra = { "--exports", file } };
	struct client rc;
	struct fh root;

	put_file(file, "", 0, 0644);
	reload(&fx.daemon, file, text("# a comment\n%s *(ro,insecure)\n", a));	/* nothing to the other server */
	CHECK_EQ(daemon_start(&d), 0);
	client_open(&rc, d.port);
	CHECK_EQ(mount3_mnt(&rc, a, &root), MNT3_OK);
	CHECK_EQ(nfs3_make(&rc, &root, "f", NULL), NFS3ERR_ROFS);
	reload(&d, file, text("%s 127.0.0.0/8(rw,insecure,no_root_squash) \\\n  *(ro)\n%s 10.1.2.3(rw)\n", a, b));
	CHECK(mnt_after_reload(&rc, b, MNT3ERR_ACCES) == MNT3ERR_ACCES);
	CHECK_EQ(nfs3_make(&rc, &root, "f", NULL), NFS3_OK);
	reload(&d, file, text("%s *(rw,no-such-option)\n", b));
	reload(&d, file, text("%s *(rw,insecure)\n", b));
	CHECK_EQ(mnt_after_reload(&rc, b, MNT3_OK), MNT3_OK);
	CHECK_EQ(nfs3_getattr(&rc, &root, NULL), NFS3ERR_STALE);
	reload(&d, file, text("%s *(rw,no-such-option)\n", a));
	CHECK_EQ(mount3_mnt(&rc, b, NULL), MNT3_OK);
	client_close(&rc);
	CHECK_EQ(daemon_stop(&d), 0);
}

/* A configuration file serves too, and what is wrong in one is named with its line. */
static void test_config_file(void)
{
	const char *dir = work_subdir(work_dir(), "configured", 0777), *file = text("%s/conf", work_dir());
	const char *good = text("[server]\nreactors = 1\n[exports]\nexport = %s(rw,insecure)\n", dir), *bad = "[server]\nport = 2049\nprot = 1\n";
	const char *args[] = { "--foreground", "--config", file, "--state-dir", work_dir(), NULL };
	struct daemon d = { .extra = { "--config", file } };
	struct client cc;
	struct fh root;
	char out[8192];

	put_file(file, good, strlen(good), 0644);
	CHECK_EQ(daemon_start(&d), 0);
	client_open(&cc, d.port);
	CHECK_EQ(mount3_mnt(&cc, dir, &root), MNT3_OK);
	client_close(&cc);
	CHECK_EQ(daemon_stop(&d), 0);
	put_file(file, bad, strlen(bad), 0644);
	CHECK(WEXITSTATUS(daemon_run(args, out, sizeof(out))) != 0);
	CHECK(strstr(out, text("%s:3", file)) != NULL, ": %s", out);
}

static void test_command_line(void)
{
	const char *version[] = { "--version", NULL }, *help[] = { "--help", NULL }, *wrong[] = { "--no-such-option", NULL };
	const char *bad_export[] = { "--foreground", "--port", "1", "--state-dir", work_dir(), "--export", "relative(rw)", NULL };
	char out[8192];

	CHECK_EQ(daemon_run(version, out, sizeof(out)), 0);
	CHECK(strstr(out, "nfsdirectd"), ": %s", out);
	CHECK_EQ(daemon_run(help, out, sizeof(out)), 0);
	CHECK(strstr(out, "--export") && strstr(out, "--state-dir") && strstr(out, "--config"), ": %s", out);
	CHECK(WEXITSTATUS(daemon_run(wrong, out, sizeof(out))) != 0);
	CHECK(WEXITSTATUS(daemon_run(bad_export, out, sizeof(out))) != 0);
	CHECK(strstr(out, "relative"), ": %s", out);
	CHECK(strstr(fx.daemon.ready_line, "nfsdirectd: ready on 127.0.0.1:") && strstr(fx.daemon.ready_line, ", serving ") &&
	      strstr(fx.daemon.ready_line, fx.path[RW]), ": %s", fx.daemon.ready_line);
}

static const struct tap_test tests[] = {
	{ "kill", test_kill }, /* 1.8 */
	{ "verifier_changes", test_verifier_changes }, /* 1.10 */
	{ "clean_stop_keeps_unstable", test_clean_stop_keeps_unstable },
	{ "handles_survive", test_handles_survive },
	{ "other_state", test_other_state },
	{ "exclusive_again", test_exclusive_again },
	{ "reload", test_reload },
	{ "config_file", test_config_file },
	{ "command_line", test_command_line },
	{ "clean_stop", test_clean_stop },
};

int main(int argc, char **argv)
{
	fixture_start();
	return tap_run(tests, sizeof(tests) / sizeof(*tests), argc, argv);
}
