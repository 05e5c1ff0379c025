/*
 * raw_access_test: who may do what: squashing, AUTH_SYS identities with groups, mode bits, ACLs, and what MOUNT says.
 *
 * Access decisions are compared with those of the kernel where a child of the same identity can ask it.
 */
#include <fcntl.h>
#include <grp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/e2e/fixture.h"

static struct client *const c = &fx.c;

static void as_root(void)
{
	client_as(c, 0, 0, 0, NULL);
}

/* Creates a file with this client's identity in the export and says whose it is. */
static struct stat owner_of_new(enum fixture_export export)
{
	struct fh dir, fh;
	const char *path = fresh_dir(export, &dir);

	CHECK_EQ(nfs3_make(c, &dir, "f", &fh), NFS3_OK);
	return local_stat(text("%s/f", path));
}

static void test_squash(void)
{
	static const uint32_t gids[] = { 0, 2000 };
	struct stat st = owner_of_new(RW);
	struct fh dir, fh;
	const char *path;

	CHECK(st.st_uid == 0 && st.st_gid == 0);
	st = owner_of_new(SQUASH);
	CHECK(st.st_uid == 65534 && st.st_gid == 65534, ": %u %u", st.st_uid, st.st_gid);
	st = owner_of_new(ALL);
	CHECK(st.st_uid == 1234 && st.st_gid == 1235, ": %u %u", st.st_uid, st.st_gid);
	client_as(c, 1000, 1001, 0, NULL);
	st = owner_of_new(SQUASH);
	CHECK(st.st_uid == 1000 && st.st_gid == 1001, ": %u %u", st.st_uid, st.st_gid);
	st = owner_of_new(ALL);
	CHECK(st.st_uid == 1234 && st.st_gid == 1235, ": %u %u", st.st_uid, st.st_gid);
	/* Root's groups are squashed too, the primary one of a user and those that come with him. */
	path = fresh_dir(SQUASH, &dir);
	put_file(text("%s/f", path), "x", 1, 0040);
	CHECK_EQ(nfs3_lookup(c, &dir, "f", &fh), NFS3_OK);
	client_as(c, 1000, 0, 2, gids);
	CHECK_EQ(nfs3_read(c, &fh, 0, 1), NFS3ERR_ACCES);
	as_root();
	CHECK_EQ(nfs3_read(c, &fh, 0, 1), NFS3ERR_ACCES);
}

static void test_groups(void)
{
	static const uint32_t gids[16] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 2000 };
	struct fh dir, fh;
	const char *path = fresh_dir(RW, &dir);

	put_file(text("%s/f", path), "x", 1, 0060);
	CHECK_EQ(chown(text("%s/f", path), 0, 2000), 0);
	CHECK_EQ(nfs3_lookup(c, &dir, "f", &fh), NFS3_OK);
	client_as(c, 1000, 1000, 15, gids);
	CHECK_EQ(nfs3_read(c, &fh, 0, 1), NFS3ERR_ACCES);
	CHECK_EQ(nfs3_write(c, &fh, 0, "y", 1, UNSTABLE), NFS3ERR_ACCES);
	client_as(c, 1000, 1000, 16, gids);
	CHECK_EQ(nfs3_read(c, &fh, 0, 1), NFS3_OK);
	CHECK_EQ(nfs3_write(c, &fh, 0, "y", 1, UNSTABLE), NFS3_OK);
	client_as(c, 1000, 2000, 0, NULL);
	CHECK_EQ(nfs3_read(c, &fh, 0, 1), NFS3_OK);
	as_root();
}

/* What the kernel says to this identity: the ACCESS3 bits of a file that exists. */
static uint32_t kernel_access(const char *path, uint32_t uid, uint32_t gid, bool directory)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		unsigned bits;

		if (setgroups(0, NULL) || setregid(gid, gid) || setreuid(uid, uid))
			_exit(0x80);
		bits = (access(path, R_OK) ? 0 : ACCESS3_READ) | (access(path, W_OK) ? 0 : ACCESS3_MODIFY | ACCESS3_EXTEND);
		if (!access(path, X_OK))
			bits |= directory ? ACCESS3_LOOKUP : ACCESS3_EXECUTE;
		if (directory && !access(path, W_OK | X_OK))
			bits |= ACCESS3_DELETE;
		_exit((int)bits);
	}
	waitpid(pid, &status, 0);
	return (uint32_t)WEXITSTATUS(status);
}

static void compare_access(const char *path, const struct fh *fh, uint32_t uid, uint32_t gid, bool directory)
{
	uint32_t mask = directory ? ACCESS3_READ | ACCESS3_LOOKUP : ACCESS3_READ | ACCESS3_MODIFY | ACCESS3_EXTEND | ACCESS3_EXECUTE;
	uint32_t got, want = kernel_access(path, uid, gid, directory);

	client_as(c, uid, gid, 0, NULL);
	CHECK_EQ(nfs3_access(c, fh, 0x3f, &got), NFS3_OK);
	CHECK((got & mask) == (want & mask), ": %s mode %o uid %u gid %u: 0x%x, kernel 0x%x", directory ? "directory" : "file",
	      local_stat(path).st_mode, uid, gid, got, want);
	as_root();
}

static void test_access_like_kernel(void)
{
	static const uint32_t who[][2] = { { 0, 0 }, { 1000, 1000 }, { 1001, 2000 }, { 1002, 1002 } };
	struct fh dir, fh, sub;
	const char *path = fresh_dir(RW, &dir), *file = text("%s/f", path), *subdir = work_subdir(path, "d", 0755);
	unsigned mode, w;

	put_file(file, "x", 1, 0644);
	CHECK(!chown(file, 1000, 2000) && !chown(subdir, 1000, 2000));
	CHECK_EQ(nfs3_lookup(c, &dir, "f", &fh), NFS3_OK);
	CHECK_EQ(nfs3_lookup(c, &dir, "d", &sub), NFS3_OK);
	for (mode = 0; mode < 01000; mode += 073 / 3) {
		CHECK(!chmod(file, mode) && !chmod(subdir, mode));
		for (w = 0; w < 4; w++) {
			compare_access(file, &fh, who[w][0], who[w][1], false);
			compare_access(subdir, &sub, who[w][0], who[w][1], true);
		}
	}
	CHECK_EQ(chmod(subdir, 0755), 0);
}

static void test_acl(void)
{
	struct fh dir, fh;
	const char *path = fresh_dir(RW, &dir), *file = text("%s/f", path);

	put_file(file, "x", 1, 0600);
	CHECK_EQ(nfs3_lookup(c, &dir, "f", &fh), NFS3_OK);
	if (system(text("setfacl -m u:1000:rw,u:1001:r %s 2>/dev/null", file))) {
		tap_skip("no ACLs here (setfacl failed)");
		return;
	}
	client_as(c, 1000, 1000, 0, NULL);
	CHECK_EQ(nfs3_read(c, &fh, 0, 1), NFS3_OK);
	CHECK_EQ(nfs3_write(c, &fh, 0, "y", 1, FILE_SYNC), NFS3_OK);
	client_as(c, 1001, 1001, 0, NULL);
	CHECK_EQ(nfs3_read(c, &fh, 0, 1), NFS3_OK);
	CHECK_EQ(nfs3_write(c, &fh, 0, "y", 1, FILE_SYNC), NFS3ERR_ACCES);
	client_as(c, 1002, 1002, 0, NULL);
	CHECK_EQ(nfs3_read(c, &fh, 0, 1), NFS3ERR_ACCES);
	compare_access(file, &fh, 1000, 1000, false);
	compare_access(file, &fh, 1001, 1001, false);
	CHECK_EQ(system(text("setfacl -m m::r %s", file)), 0);
	compare_access(file, &fh, 1000, 1000, false);
	as_root();
}

/* A client opens once and then writes without further checks: the owner's READ and WRITE go on after a chmod (RFC 1813, 4.4). */
static void test_owner_override(void)
{
	struct fh dir, fh;
	const char *path = fresh_dir(RW, &dir), *file = text("%s/f", path);

	put_file(file, "x", 1, 0);
	CHECK_EQ(chown(file, 1000, 1000), 0);
	CHECK_EQ(nfs3_lookup(c, &dir, "f", &fh), NFS3_OK);
	client_as(c, 1000, 1000, 0, NULL);
	CHECK_EQ(nfs3_read(c, &fh, 0, 1), NFS3_OK);
	CHECK_EQ(nfs3_write(c, &fh, 0, "y", 1, UNSTABLE), NFS3_OK);
	client_as(c, 1001, 1000, 0, NULL);
	CHECK_EQ(nfs3_read(c, &fh, 0, 1), NFS3ERR_ACCES);
	/* What may be executed may be read: a client that pages it in does not say which it is. */
	CHECK_EQ(chmod(file, 0111), 0);
	CHECK_EQ(nfs3_read(c, &fh, 0, 1), NFS3_OK);
	CHECK_EQ(nfs3_write(c, &fh, 0, "y", 1, UNSTABLE), NFS3ERR_ACCES);
	as_root();
}

static void test_directory_rules(void)
{
	struct fh dir, sticky, setgid, fh;
	const char *path = fresh_dir(RW, &dir);
	sattr3 set = sattr_mode(01777);

	CHECK_EQ(nfs3_mkdir(c, &dir, "sticky", &set, &sticky), NFS3_OK);
	CHECK_EQ(nfs3_make(c, &sticky, "roots", NULL), NFS3_OK);
	CHECK_EQ(mkdir(text("%s/setgid", path), 0777), 0);
	CHECK(!chown(text("%s/setgid", path), 0, 2000) && !chmod(text("%s/setgid", path), 02777));
	CHECK_EQ(nfs3_lookup(c, &dir, "setgid", &setgid), NFS3_OK);
	client_as(c, 1000, 1000, 0, NULL);
	CHECK_EQ(nfs3_remove(c, &sticky, "roots"), NFS3ERR_ACCES);
	CHECK_EQ(nfs3_make(c, &sticky, "mine", NULL), NFS3_OK);
	CHECK_EQ(nfs3_remove(c, &sticky, "mine"), NFS3_OK);
	CHECK_EQ(nfs3_make(c, &setgid, "f", &fh), NFS3_OK);
	CHECK_EQ(local_stat(text("%s/setgid/f", path)).st_gid, 2000);
	as_root();
}

static int set_gid(const struct fh *fh, uint32_t gid)
{
	sattr3 set = sattr_none();

	set.gid = (set_gid3) { TRUE, { gid } };
	return nfs3_setattr(c, fh, &set, NULL);
}

/* Both times, as utime(2) does it: "now" for one alone takes the owner. */
static int touch(const struct fh *fh, time_how how)
{
	sattr3 set = sattr_none();

	set.atime.set_it = SET_TO_SERVER_TIME;
	set.mtime.set_it = how;
	if (how == SET_TO_CLIENT_TIME)
		set.mtime.set_mtime_u.mtime = (nfstime3) { 1000, 0 };
	return nfs3_setattr(c, fh, &set, NULL);
}

static void test_setattr_rules(void)
{
	static const uint32_t gids[] = { 2000 };
	struct fh dir, fh;
	const char *path = fresh_dir(RW, &dir), *file = text("%s/f", path);
	sattr3 set = sattr_mode(0644), uid = sattr_none();

	put_file(file, "x", 1, 0666);
	CHECK_EQ(chown(file, 1000, 1000), 0);
	CHECK_EQ(nfs3_lookup(c, &dir, "f", &fh), NFS3_OK);
	client_as(c, 1000, 1000, 1, gids);
	CHECK_EQ(set_gid(&fh, 2000), NFS3_OK);
	CHECK_EQ(set_gid(&fh, 3000), NFS3ERR_PERM);
	uid.uid = (set_uid3) { TRUE, { 1001 } };
	CHECK_EQ(nfs3_setattr(c, &fh, &uid, NULL), NFS3ERR_PERM);
	CHECK_EQ(local_stat(file).st_uid, 1000);
	client_as(c, 1001, 1001, 0, NULL);
	CHECK_EQ(nfs3_setattr(c, &fh, &set, NULL), NFS3ERR_PERM);
	CHECK_EQ(touch(&fh, SET_TO_SERVER_TIME), NFS3_OK);
	CHECK_EQ(touch(&fh, SET_TO_CLIENT_TIME), NFS3ERR_PERM);
	set = sattr_size(0);
	CHECK_EQ(nfs3_setattr(c, &fh, &set, NULL), NFS3_OK);
	as_root();
}

/* A write by another than root takes the set-user-ID bit away. */
static void test_setuid_cleared(void)
{
	struct fh dir, fh;
	const char *path = fresh_dir(RW, &dir), *file = text("%s/f", path);

	put_file(file, "x", 1, 04777);
	CHECK_EQ(nfs3_lookup(c, &dir, "f", &fh), NFS3_OK);
	client_as(c, 1000, 1000, 0, NULL);
	CHECK_EQ(nfs3_write(c, &fh, 0, "evil", 4, FILE_SYNC), NFS3_OK);
	CHECK_EQ(local_stat(file).st_mode & 07777, 0777);
	as_root();
}

/* An export for AUTH_SYS does not serve AUTH_NONE as anybody with rights. */
static void test_auth_none(void)
{
	struct fh dir, fh;
	const char *path = fresh_dir(RW, &dir);
	READ3args args;
	struct rpc_what what = { NFS3_PROG, NFS3_VERS, NFS3_READ, nfs3_args_xdr(NFS3_READ), &args };
	READ3res res;
	struct rpc_result result = { nfs3_res_xdr(NFS3_READ), &res, sizeof(res) };
	int r;

	put_file(text("%s/f", path), "x", 1, 0600);
	CHECK_EQ(nfs3_lookup(c, &dir, "f", &fh), NFS3_OK);
	c->conn.id.flavor = AUTH_NONE;
	CHECK_EQ(nfs3_null(c), 0);
	args = (READ3args) { fh_wire(&fh), 0, 1 };
	r = conn_call(&c->conn, &what, &result);
	CHECK(r == RPC_REJECT_AUTH + AUTH_TOOWEAK || (r == 0 && res.status == NFS3ERR_ACCES), ": %d", r);
	as_root();
}

static void test_secure_port(void)
{
	GETATTR3args args = { fh_wire(&fx.root[SECURE]) };
	struct rpc_what what = { NFS3_PROG, NFS3_VERS, NFS3_GETATTR, nfs3_args_xdr(NFS3_GETATTR), &args };
	GETATTR3res res;
	struct rpc_result result = { nfs3_res_xdr(NFS3_GETATTR), &res, sizeof(res) };
	struct client high;
	struct fh dir;
	fattr3 a;
	int r;

	if (geteuid()) {
		tap_skip("no privileged ports: not root");
		return;
	}
	CHECK_EQ(nfs3_getattr(c, &fx.root[SECURE], &a), NFS3_OK);
	memset(&high, 0, sizeof(high));
	CHECK_EQ(conn_open(&high.conn, fx.daemon.port, false), 0);
	high.res_xdr = NULL;
	r = mount3_mnt(&high, fx.path[SECURE], &dir);
	CHECK(r == MNT3ERR_ACCES || r == MNT3ERR_PERM, ": MNT %d", r);
	r = conn_call(&high.conn, &what, &result);
	CHECK((r == 0 && res.status != NFS3_OK) || r >= RPC_REJECT_AUTH, ": GETATTR %d, status %d", r, (int)res.status);
	CHECK_EQ(mount3_mnt(&high, fx.path[RW], &dir), MNT3_OK);
	client_close(&high);
}

static void test_mnt(void)
{
	struct fh dir, root;
	const char *path = fresh_dir(RW, &dir);
	const mountres3_ok *ok = &c->res.mnt.mountres3_u.mountinfo;
	u_int i;
	bool sys = false;
	int r;

	CHECK_EQ(mount3_mnt(c, fx.path[RW], &root), MNT3_OK);
	CHECK(fh_equal(&root, &fx.root[RW]));
	for (i = 0; i < ok->auth_flavors.auth_flavors_len; i++)
		sys |= ok->auth_flavors.auth_flavors_val[i] == AUTH_SYS;
	CHECK(sys, ": AUTH_SYS is not among the flavors");
	CHECK_EQ(mount3_mnt(c, text("%s/", fx.path[RW]), &root), MNT3_OK);
	CHECK_EQ(mount3_mnt(c, path, &root), MNT3_OK);
	CHECK(fh_equal(&root, &dir));
	put_file(text("%s/f", path), "", 0, 0644);
	CHECK_EQ(mount3_mnt(c, text("%s/f", path), &root), MNT3ERR_NOTDIR);
	CHECK_EQ(mount3_mnt(c, text("%s/nothing", path), &root), MNT3ERR_NOENT);
	r = mount3_mnt(c, "/nowhere-exported", &root);
	CHECK(r == MNT3ERR_NOENT || r == MNT3ERR_ACCES, ": %d", r);
}

/* Below an export, not out of it. */
static void test_mnt_escape(void)
{
	struct fh dir, root;
	const char *path = fresh_dir(RW, &dir);

	CHECK_EQ(symlink("/", text("%s/out", path)), 0);
	CHECK(mount3_mnt(c, text("%s/out", path), &root) != MNT3_OK);
	CHECK(mount3_mnt(c, text("%s/out/etc", path), &root) != MNT3_OK);
	CHECK(mount3_mnt(c, text("%s/../../../etc", fx.path[RW]), &root) != MNT3_OK);
	CHECK(mount3_mnt(c, "", &root) != MNT3_OK);
}

static int mounts_listed(const char *path)
{
	const struct mountbody *m;
	int n = 0;

	CHECK_EQ(mount3_dump(c), 0);
	for (m = c->res.dump; m; m = m->ml_next)
		n += !strcmp(m->ml_directory, path);
	return n;
}

static void test_dump_umnt(void)
{
	CHECK(mounts_listed(fx.path[RW]) > 0 && mounts_listed(fx.path[RO]) > 0);
	CHECK_EQ(mount3_umnt(c, fx.path[RW]), 0);
	CHECK_EQ(mounts_listed(fx.path[RW]), 0);
	CHECK(mounts_listed(fx.path[RO]) > 0);
	CHECK_EQ(mount3_umntall(c), 0);
	CHECK_EQ(mounts_listed(fx.path[RO]), 0);
	CHECK_EQ(nfs3_getattr(c, &fx.root[RW], NULL), NFS3_OK);
}

static void test_export_list(void)
{
	const struct exportnode *e;
	int i, found;

	for (i = 0; i < FIXTURE_EXPORTS; i++) {
		if (!fx.path[i])
			continue;
		CHECK_EQ(mount3_export(c), 0);
		for (found = 0, e = c->res.exports; e; e = e->ex_next)
			found += !strcmp(e->ex_dir, fx.path[i]);
		CHECK(found == 1, ": %s listed %d times", fx.path[i], found);
	}
}

static bool listed(const char *path)
{
	const struct exportnode *e;

	CHECK_EQ(mount3_export(c), 0);
	for (e = c->res.exports; e; e = e->ex_next)
		if (!strcmp(e->ex_dir, path))
			return true;
	return false;
}

/* An export whose directory goes away: its handles are stale, its neighbours do not notice, and it can come back. */
static void test_export_vanishes(void)
{
	struct fh root;

	CHECK_EQ(rename(fx.path[DOOMED], text("%s-away", fx.path[DOOMED])), 0);
	CHECK_EQ(rmdir(text("%s-away", fx.path[DOOMED])), 0);
	CHECK_EQ(nfs3_getattr(c, &fx.root[DOOMED], NULL), NFS3ERR_STALE);
	CHECK_EQ(nfs3_lookup(c, &fx.root[DOOMED], "x", NULL), NFS3ERR_STALE);
	CHECK(mount3_mnt(c, fx.path[DOOMED], &root) != MNT3_OK);
	CHECK_EQ(nfs3_getattr(c, &fx.root[RW], NULL), NFS3_OK);
	CHECK(!listed(fx.path[DOOMED]) && listed(fx.path[RW]));
	CHECK_EQ(mkdir(fx.path[DOOMED], 0777), 0);
	CHECK_EQ(mount3_mnt(c, fx.path[DOOMED], &root), MNT3_OK);
	CHECK_EQ(nfs3_make(c, &root, "f", NULL), NFS3_OK);
}

static const struct tap_test tests[] = {
	{ "squash", test_squash },
	{ "groups", test_groups },
	{ "access_like_kernel", test_access_like_kernel },
	{ "acl", test_acl },
	{ "owner_override", test_owner_override },
	{ "directory_rules", test_directory_rules },
	{ "setattr_rules", test_setattr_rules },
	{ "setuid_cleared", test_setuid_cleared },
	{ "auth_none", test_auth_none },
	{ "secure_port", test_secure_port },
	{ "mnt", test_mnt },
	{ "mnt_escape", test_mnt_escape },
	{ "dump_umnt", test_dump_umnt },
	{ "export_list", test_export_list },
	{ "export_vanishes", test_export_vanishes },
	{ "clean_stop", test_clean_stop },
};

int main(int argc, char **argv)
{
	fixture_start();
	return tap_run(tests, sizeof(tests) / sizeof(*tests), argc, argv);
}
