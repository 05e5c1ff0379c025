/*
 * raw_errors_test: the errors that RFC 1813 lists for each procedure, as far as a client can provoke them on a healthy server.
 *
 * Not here: IO, NXIO and SERVERFAULT (the unit tests provoke them with fault points), NODEV and REMOTE (listed for no
 * procedure), JUKEBOX (nothing is slow here).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/quota.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/e2e/fixture.h"

static struct client *const c = &fx.c;
static char data[1 << 20];

/* Every procedure that takes a handle, with this one in each place for a handle. */
enum { HANDLE_CALLS = 23 };

static int call_with_handle(int which, const struct fh *fh, const struct fh *good)
{
	sattr3 set = sattr_mode(0644);
	cookieverf3 verf = { 0 };
	uint32_t got;

	switch (which) {
	case 0: return nfs3_getattr(c, fh, NULL);
	case 1: return nfs3_setattr(c, fh, &set, NULL);
	case 2: return nfs3_lookup(c, fh, "x", NULL);
	case 3: return nfs3_access(c, fh, 1, &got);
	case 4: return nfs3_readlink(c, fh);
	case 5: return nfs3_read(c, fh, 0, 10);
	case 6: return nfs3_write(c, fh, 0, "x", 1, FILE_SYNC);
	case 7: return nfs3_create(c, fh, "x", UNCHECKED, &set, NULL);
	case 8: return nfs3_create_exclusive(c, fh, "x", 1, NULL);
	case 9: return nfs3_mkdir(c, fh, "x", &set, NULL);
	case 10: return nfs3_symlink(c, fh, "x", "y", NULL);
	case 11: return nfs3_mknod(c, fh, "x", NF3FIFO, &set, NULL);
	case 12: return nfs3_remove(c, fh, "x");
	case 13: return nfs3_rmdir(c, fh, "x");
	case 14: return nfs3_rename(c, fh, "x", good, "y");
	case 15: return nfs3_rename(c, good, "there", fh, "y");
	case 16: return nfs3_link(c, fh, good, "y");
	case 17: return nfs3_readdir(c, fh, 0, verf, 4096);
	case 18: return nfs3_readdirplus(c, fh, 0, verf, 4096, 4096);
	case 19: return nfs3_fsstat(c, fh);
	case 20: return nfs3_fsinfo(c, fh);
	case 21: return nfs3_pathconf(c, fh);
	default: return nfs3_commit(c, fh, 0, 0);
	}
}

static void test_stale(void)
{
	struct fh dir, fh;
	sattr3 set = sattr_mode(0755);
	int i;

	fresh_dir(RW, &dir);
	CHECK_EQ(nfs3_make(c, &dir, "there", NULL), NFS3_OK);
	CHECK_EQ(nfs3_make(c, &dir, "f", &fh), NFS3_OK);
	CHECK_EQ(nfs3_remove(c, &dir, "f"), NFS3_OK);
	for (i = 0; i < HANDLE_CALLS; i++)
		CHECK(call_with_handle(i, &fh, &dir) == NFS3ERR_STALE, ": case %d: %d", i, (int)c->res.status);
	CHECK_EQ(nfs3_mkdir(c, &dir, "d", &set, &fh), NFS3_OK);
	CHECK_EQ(nfs3_rmdir(c, &dir, "d"), NFS3_OK);
	for (i = 0; i < HANDLE_CALLS; i++)
		CHECK(call_with_handle(i, &fh, &dir) == NFS3ERR_STALE, ": case %d: %d", i, (int)c->res.status);
}

static void test_badhandle(void)
{
	static const u_int lens[] = { 0, 1, 7, 8, 28, 56, 63, 64 };
	struct fh dir, fh;
	unsigned i;
	int w;

	fresh_dir(RW, &dir);
	CHECK_EQ(nfs3_make(c, &dir, "there", NULL), NFS3_OK);
	fill_pattern(fh.data, sizeof(fh.data), 9);
	for (i = 0; i < sizeof(lens) / sizeof(*lens); i++) {
		fh.len = lens[i];
		for (w = 0; w < HANDLE_CALLS; w++)
			CHECK(call_with_handle(w, &fh, &dir) == NFS3ERR_BADHANDLE, ": case %d, %u bytes: %d", w, fh.len, (int)c->res.status);
	}
}

static void test_notdir(void)
{
	static const int cases[] = { 2, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17, 18 };
	struct fh dir, fh;
	unsigned i;

	fresh_dir(RW, &dir);
	CHECK_EQ(nfs3_make(c, &dir, "there", &fh), NFS3_OK);
	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		CHECK(call_with_handle(cases[i], &fh, &dir) == NFS3ERR_NOTDIR, ": case %d: %d", cases[i], (int)c->res.status);
	CHECK_EQ(nfs3_link(c, &fh, &fh, "x"), NFS3ERR_NOTDIR);
	CHECK_EQ(nfs3_rmdir(c, &dir, "there"), NFS3ERR_NOTDIR);
}

static void test_noent(void)
{
	struct fh dir;

	fresh_dir(RW, &dir);
	CHECK_EQ(nfs3_lookup(c, &dir, "x", NULL), NFS3ERR_NOENT);
	CHECK_EQ(nfs3_remove(c, &dir, "x"), NFS3ERR_NOENT);
	CHECK_EQ(nfs3_rmdir(c, &dir, "x"), NFS3ERR_NOENT);
	CHECK_EQ(nfs3_rename(c, &dir, "x", &dir, "y"), NFS3ERR_NOENT);
}

static void test_exist(void)
{
	struct fh dir, fh, sub;
	sattr3 set = sattr_mode(0755);
	int r;

	fresh_dir(RW, &dir);
	CHECK_EQ(nfs3_make(c, &dir, "f", &fh), NFS3_OK);
	CHECK_EQ(nfs3_mkdir(c, &dir, "d", &set, &sub), NFS3_OK);
	CHECK_EQ(nfs3_create(c, &dir, "f", GUARDED, &set, NULL), NFS3ERR_EXIST);
	CHECK_EQ(nfs3_create(c, &dir, "d", UNCHECKED, &set, NULL), NFS3ERR_EXIST);
	CHECK_EQ(nfs3_create_exclusive(c, &dir, "f", 77, NULL), NFS3ERR_EXIST);
	CHECK_EQ(nfs3_mkdir(c, &dir, "f", &set, NULL), NFS3ERR_EXIST);
	CHECK_EQ(nfs3_symlink(c, &dir, "f", "x", NULL), NFS3ERR_EXIST);
	CHECK_EQ(nfs3_mknod(c, &dir, "f", NF3FIFO, &set, NULL), NFS3ERR_EXIST);
	CHECK_EQ(nfs3_link(c, &fh, &dir, "d"), NFS3ERR_EXIST);
	r = nfs3_rename(c, &dir, "f", &dir, "d");
	CHECK(r == NFS3ERR_EXIST || r == NFS3ERR_ISDIR, ": %d", r);
	r = nfs3_rename(c, &dir, "d", &dir, "f");
	CHECK(r == NFS3ERR_EXIST || r == NFS3ERR_NOTDIR, ": %d", r);
	CHECK_EQ(nfs3_make(c, &sub, "x", NULL), NFS3_OK);
	CHECK_EQ(nfs3_mkdir(c, &dir, "e", &set, NULL), NFS3_OK);
	r = nfs3_rename(c, &dir, "e", &dir, "d");
	CHECK(r == NFS3ERR_EXIST || r == NFS3ERR_NOTEMPTY, ": %d", r);
	CHECK_EQ(nfs3_rmdir(c, &dir, "d"), NFS3ERR_NOTEMPTY);
}

/* Procedures that take a name, with this one in each place for a name. */
enum { NAME_CALLS = 11 };

static int call_with_name(int which, const struct fh *dir, const char *name)
{
	sattr3 set = sattr_mode(0644);

	switch (which) {
	case 0: return nfs3_lookup(c, dir, name, NULL);
	case 1: return nfs3_create(c, dir, name, UNCHECKED, &set, NULL);
	case 2: return nfs3_create_exclusive(c, dir, name, 3, NULL);
	case 3: return nfs3_mkdir(c, dir, name, &set, NULL);
	case 4: return nfs3_symlink(c, dir, name, "x", NULL);
	case 5: return nfs3_mknod(c, dir, name, NF3FIFO, &set, NULL);
	case 6: return nfs3_remove(c, dir, name);
	case 7: return nfs3_rmdir(c, dir, name);
	case 8: return nfs3_rename(c, dir, name, dir, "y");
	case 9: return nfs3_rename(c, dir, "there", dir, name);
	default: return nfs3_link(c, dir, dir, name);
	}
}

static void test_nametoolong(void)
{
	char name[257];
	struct fh dir, fh;
	int i;

	fresh_dir(RW, &dir);
	CHECK_EQ(nfs3_make(c, &dir, "there", &fh), NFS3_OK);
	memset(name, 'n', 256);
	name[256] = '\0';
	for (i = 0; i < NAME_CALLS - 1; i++)
		CHECK(call_with_name(i, &dir, name) == NFS3ERR_NAMETOOLONG, ": case %d: %d", i, (int)c->res.status);
	CHECK_EQ(nfs3_link(c, &fh, &dir, name), NFS3ERR_NAMETOOLONG);
}

/* Empty names, "." and "..", and names with a slash: refused (LOOKUP of "." and ".." excepted), with a listed status, and nothing happens. */
static void test_bad_names(void)
{
	static const char *const names[] = { "", ".", "..", "a/b", "/", "sub/f", "../rw" };
	struct fh dir;
	const char *path = fresh_dir(RW, &dir);
	unsigned n;
	int i, r;

	CHECK_EQ(nfs3_make(c, &dir, "there", NULL), NFS3_OK);
	CHECK_EQ(mkdir(text("%s/sub", path), 0755), 0);
	put_file(text("%s/sub/f", path), "", 0, 0644);
	for (n = 0; n < sizeof(names) / sizeof(*names); n++)
		for (i = 0; i < NAME_CALLS; i++) {
			r = call_with_name(i, &dir, names[n]);
			CHECK(r != NFS3_OK || (i == 0 && (n == 1 || n == 2)), ": \"%s\", case %d succeeded", names[n], i);
			CHECK(r != NFS3ERR_SERVERFAULT, ": \"%s\", case %d", names[n], i);
		}
	CHECK(access(text("%s/sub/f", path), F_OK) == 0 && access(text("%s/there", path), F_OK) == 0);
	CHECK_EQ(nfs3_rmdir(c, &dir, "."), NFS3ERR_INVAL);	/* 3.3.13 */
}

static void test_inval(void)
{
	struct fh dir, fh, sub, fifo;
	sattr3 set = sattr_mode(0755), size = sattr_size(5);

	fresh_dir(RW, &dir);
	CHECK_EQ(nfs3_make(c, &dir, "f", &fh), NFS3_OK);
	CHECK_EQ(nfs3_mkdir(c, &dir, "d", &set, &sub), NFS3_OK);
	CHECK_EQ(nfs3_mknod(c, &dir, "p", NF3FIFO, &set, &fifo), NFS3_OK);
	CHECK_EQ(nfs3_readlink(c, &fh), NFS3ERR_INVAL);
	CHECK_EQ(nfs3_readlink(c, &sub), NFS3ERR_INVAL);
	CHECK_EQ(nfs3_read(c, &sub, 0, 10), NFS3ERR_INVAL);
	CHECK_EQ(nfs3_read(c, &fifo, 0, 10), NFS3ERR_INVAL);
	CHECK_EQ(nfs3_write(c, &sub, 0, "x", 1, FILE_SYNC), NFS3ERR_INVAL);
	CHECK_EQ(nfs3_write(c, &fifo, 0, "x", 1, FILE_SYNC), NFS3ERR_INVAL);
	CHECK_EQ(nfs3_setattr(c, &sub, &size, NULL), NFS3ERR_INVAL);
	CHECK_EQ(nfs3_rename(c, &dir, "d", &sub, "in-itself"), NFS3ERR_INVAL);
	CHECK(nfs3_link(c, &sub, &dir, "x") != NFS3_OK);
	CHECK(nfs3_remove(c, &dir, "d") != NFS3_OK);
	CHECK_EQ(nfs3_lookup(c, &dir, "d", NULL), NFS3_OK);
}

static void test_badtype(void)
{
	struct fh dir;
	sattr3 set = sattr_none();

	fresh_dir(RW, &dir);
	CHECK_EQ(nfs3_mknod(c, &dir, "a", NF3REG, &set, NULL), NFS3ERR_BADTYPE);
	CHECK_EQ(nfs3_mknod(c, &dir, "b", NF3DIR, &set, NULL), NFS3ERR_BADTYPE);
	CHECK_EQ(nfs3_mknod(c, &dir, "c", NF3LNK, &set, NULL), NFS3ERR_BADTYPE);
}

static void test_acces_perm(void)
{
	struct fh dir, fh, closed;
	const char *path = fresh_dir(RW, &dir);
	sattr3 set = sattr_mode(0700), owner = sattr_none();
	int i;

	CHECK_EQ(nfs3_make(c, &dir, "f", &fh), NFS3_OK);
	CHECK_EQ(chmod(text("%s/f", path), 0600), 0);
	CHECK_EQ(nfs3_mkdir(c, &dir, "closed", &set, &closed), NFS3_OK);
	CHECK_EQ(nfs3_make(c, &closed, "there", NULL), NFS3_OK);
	client_as(c, 1000, 1000, 0, NULL);
	for (i = 0; i < NAME_CALLS - 1; i++)
		CHECK(call_with_name(i, &closed, i == 0 || i > 5 ? "there" : "new") == NFS3ERR_ACCES, ": case %d: %d", i, (int)c->res.status);
	CHECK_EQ(nfs3_link(c, &fh, &closed, "new"), NFS3ERR_ACCES);
	CHECK_EQ(call_with_handle(17, &closed, &dir), NFS3ERR_ACCES);
	CHECK_EQ(call_with_handle(18, &closed, &dir), NFS3ERR_ACCES);
	CHECK_EQ(nfs3_read(c, &fh, 0, 10), NFS3ERR_ACCES);
	CHECK_EQ(nfs3_write(c, &fh, 0, "x", 1, UNSTABLE), NFS3ERR_ACCES);
	CHECK_EQ(nfs3_setattr(c, &fh, &set, NULL), NFS3ERR_PERM);
	owner.uid = (set_uid3) { TRUE, { 1000 } };
	CHECK_EQ(nfs3_setattr(c, &fh, &owner, NULL), NFS3ERR_PERM);
	set = sattr_size(0);
	CHECK_EQ(nfs3_setattr(c, &fh, &set, NULL), NFS3ERR_ACCES);
	CHECK(nfs3_mknod(c, &dir, "dev", NF3CHR, &owner, NULL) != NFS3_OK);
	client_as(c, 0, 0, 0, NULL);
}

static void test_rofs(void)
{
	static const int changing[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };
	struct fh dir, fh, there;
	const char *path = fresh_dir(RO, &dir);
	sattr3 set = sattr_mode(0600);
	uint32_t got;
	unsigned i;

	put_file(text("%s/there", path), "x", 1, 0666);
	CHECK_EQ(nfs3_lookup(c, &dir, "there", &fh), NFS3_OK);
	for (i = 0; i < sizeof(changing) / sizeof(*changing); i++)
		CHECK(call_with_name(changing[i], &dir, changing[i] >= 6 ? "there" : "new") == NFS3ERR_ROFS, ": case %d: %d", changing[i],
		      (int)c->res.status);
	CHECK_EQ(nfs3_link(c, &fh, &dir, "new"), NFS3ERR_ROFS);
	CHECK_EQ(nfs3_setattr(c, &fh, &set, NULL), NFS3ERR_ROFS);
	CHECK_EQ(nfs3_write(c, &fh, 0, "y", 1, FILE_SYNC), NFS3ERR_ROFS);
	CHECK_EQ(nfs3_read(c, &fh, 0, 1), NFS3_OK);
	CHECK_EQ(nfs3_access(c, &fh, 0x3f, &got), NFS3_OK);
	CHECK_EQ(got & (ACCESS3_MODIFY | ACCESS3_EXTEND), 0);
	/* What is written to is the destination's: from an export that may be written into one that may not. */
	CHECK_EQ(nfs3_make(c, &fx.root[RW], "movable", &there), NFS3_OK);
	CHECK(nfs3_rename(c, &fx.root[RW], "movable", &dir, "moved") != NFS3_OK);
	CHECK(nfs3_link(c, &there, &dir, "linked") != NFS3_OK);
	CHECK(nfs3_rename(c, &dir, "there", &fx.root[RW], "stolen") != NFS3_OK);
	CHECK_EQ(nfs3_lookup(c, &fx.root[RW], "movable", NULL), NFS3_OK);
}

/* Two exports of one file system need not be one to a client; two file systems never are. */
static void test_xdev(void)
{
	struct fh dir, fh, far;

	if (!fx.path[OTHER]) {
		tap_skip("no second file system (E2E_OTHER)");
		return;
	}
	fresh_dir(RW, &dir);
	fresh_dir(OTHER, &far);
	CHECK_EQ(nfs3_make(c, &dir, "f", &fh), NFS3_OK);
	CHECK_EQ(nfs3_link(c, &fh, &far, "g"), NFS3ERR_XDEV);
	CHECK_EQ(nfs3_rename(c, &dir, "f", &far, "g"), NFS3ERR_XDEV);
	CHECK_EQ(nfs3_lookup(c, &dir, "f", NULL), NFS3_OK);
}

static void test_fbig(void)
{
	struct fh dir, fh;
	sattr3 size = sattr_size((1ull << 63) - 1);
	int r;

	fresh_dir(RW, &dir);
	CHECK_EQ(nfs3_make(c, &dir, "f", &fh), NFS3_OK);
	CHECK_EQ(nfs3_write(c, &fh, (1ull << 63) - 1, data, 100, FILE_SYNC), NFS3ERR_FBIG);
	CHECK_EQ(nfs3_write(c, &fh, 1ull << 63, data, 100, FILE_SYNC), NFS3ERR_FBIG);
	CHECK_EQ(nfs3_write(c, &fh, ~0ull, data, 100, UNSTABLE), NFS3ERR_FBIG);
	CHECK_EQ(nfs3_write(c, &fh, ~0ull - 99, data, 100, UNSTABLE), NFS3ERR_FBIG);
	size = sattr_size(1ull << 63);
	CHECK_EQ(nfs3_setattr(c, &fh, &size, NULL), NFS3ERR_INVAL);
	r = nfs3_read(c, &fh, 1ull << 63, 100);
	CHECK(r == NFS3ERR_INVAL || (r == NFS3_OK && c->res.read.READ3res_u.resok.eof), ": %d", r);
	r = nfs3_read(c, &fh, ~0ull, 100);
	CHECK(r == NFS3ERR_INVAL || (r == NFS3_OK && c->res.read.READ3res_u.resok.eof), ": %d", r);
	CHECK_EQ(nfs3_commit(c, &fh, ~0ull, 100), NFS3_OK);
}

/* The space of a removed file comes back when the server lets go of it: soon. */
static void wait_for_space(void)
{
	const FSSTAT3resok *ok = &c->res.fsstat.FSSTAT3res_u.resok;
	int i;

	for (i = 0; i < 2000; i++) {
		CHECK_EQ(nfs3_fsstat(c, &fx.root[SMALL]), NFS3_OK);
		if (ok->abytes > 8 << 20)
			return;
	}
	CHECK(ok->abytes > 8 << 20, ": %llu bytes free", (unsigned long long)ok->abytes);
}

/* The first `stored` bytes of the file, as fill_up() wrote them. */
static void check_stored(const char *file, uint64_t stored)
{
	static char whole[20 << 20];
	size_t len = get_file(file, whole, sizeof(whole));
	uint64_t at;

	CHECK(len >= stored, ": %zu of %llu acknowledged bytes", len, (unsigned long long)stored);
	for (at = 0; at + 47008 <= stored && !memcmp(whole + at, data, 47008); at += 47008)
		;
	CHECK(at + 47008 > stored, ": bytes lost at %llu", (unsigned long long)at);
}

/*
 * Until there is no more room, what was acknowledged is there; then `error` comes at the WRITE or at its COMMIT. Writes and
 * removes the file as the caller's user.
 */
static void fill_up(enum fixture_export export, const char *name, stable_how stable, int error)
{
	const char *file;
	struct fh dir, fh;
	uint64_t offset, stored = 0;
	int r = NFS3_OK, commit = NFS3_OK;

	file = text("%s/%s", fresh_dir(export, &dir), name);
	fill_pattern(data, 47008, 8);
	CHECK_EQ(nfs3_make(c, &dir, name, &fh), NFS3_OK);
	for (offset = 0; r == NFS3_OK && commit == NFS3_OK && offset < 64 << 20; ) {
		r = nfs3_write(c, &fh, offset, data, 47008, stable);
		if (r == NFS3_OK)
			offset += c->res.write.WRITE3res_u.resok.count;
		if (stable == UNSTABLE && (r != NFS3_OK || offset % (47008 * 20) == 0))
			commit = nfs3_commit(c, &fh, 0, 0);
		else if (stable == UNSTABLE)
			continue;
		if (r == NFS3_OK && commit == NFS3_OK)
			stored = offset;
	}
	CHECK(r == error || commit == error, ": WRITE %d, COMMIT %d", r, commit);
	CHECK(stored > 1 << 20 && offset < 20 << 20, ": %llu bytes fit, %llu tried", (unsigned long long)stored, (unsigned long long)offset);
	check_stored(file, stored);
	CHECK_EQ(nfs3_remove(c, &dir, name), NFS3_OK);
}

static void test_nospc(void)
{
	struct fh dir, fh;

	if (!fx.path[SMALL]) {
		tap_skip("no small file system (E2E_SMALL)");
		return;
	}
	fill_up(SMALL, "sync", FILE_SYNC, NFS3ERR_NOSPC);
	wait_for_space();
	fill_up(SMALL, "unstable", UNSTABLE, NFS3ERR_NOSPC);
	wait_for_space();
	fill_up(SMALL, "again", DATA_SYNC, NFS3ERR_NOSPC);
	wait_for_space();
	fresh_dir(SMALL, &dir);
	CHECK_EQ(nfs3_make(c, &dir, "f", &fh), NFS3_OK);
	CHECK_EQ(nfs3_write(c, &fh, 0, data, 47008, FILE_SYNC), NFS3_OK);
}

/* Limits of a user on the file system of user quotas: KiB, and files. */
static bool set_quota(uint32_t uid, uint64_t kib, uint64_t files)
{
	struct dqblk limits = { .dqb_bhardlimit = kib, .dqb_ihardlimit = files, .dqb_valid = QIF_LIMITS };
	int fd = open(fx.path[QUOTA], O_RDONLY | O_DIRECTORY);
	long r = syscall(SYS_quotactl_fd, fd, QCMD(Q_SETQUOTA, USRQUOTA), uid, &limits);

	close(fd);
	return CHECK(r == 0, ": quotactl_fd: %s", strerror(errno));
}

/* Each user has limits of its own, for the space of what is removed comes back later. */
static void test_dquot(void)
{
	static const stable_how how[] = { FILE_SYNC, UNSTABLE, DATA_SYNC };
	const uint32_t first = 3000;
	uint32_t i;

	if (!fx.path[QUOTA]) {
		tap_skip("no ext4 with user quotas (E2E_QUOTA): this kernel has none");
		return;
	}
	for (i = 0; i < 3 && set_quota(first + i, 4096, 0); i++) {
		client_as(c, first + i, first, 0, NULL);
		fill_up(QUOTA, "f", how[i], NFS3ERR_DQUOT);
		client_as(c, 0, 0, 0, NULL);
	}
}

static void test_dquot_names(void)
{
	enum { UID = 3100, FILES = 10 };
	struct fh dir, fh;
	sattr3 set = sattr_mode(0755);
	int i, r = NFS3_OK;

	if (!fx.path[QUOTA]) {
		tap_skip("no ext4 with user quotas (E2E_QUOTA): this kernel has none");
		return;
	}
	set_quota(UID, 0, FILES);
	fresh_dir(QUOTA, &dir);
	client_as(c, UID, UID, 0, NULL);
	for (i = 0; i < 2 * FILES && r == NFS3_OK; i++)
		r = nfs3_make(c, &dir, text("f%d", i), &fh);
	CHECK(r == NFS3ERR_DQUOT && i == FILES + 1, ": status %d at file %d", r, i);
	CHECK_EQ(nfs3_mkdir(c, &dir, "d", &set, NULL), NFS3ERR_DQUOT);
	CHECK_EQ(nfs3_symlink(c, &dir, "l", "x", NULL), NFS3ERR_DQUOT);
	CHECK_EQ(nfs3_mknod(c, &dir, "p", NF3FIFO, &set, NULL), NFS3ERR_DQUOT);
	client_as(c, 0, 0, 0, NULL);
}

/* A limit that is the file system's own, whoever writes. */
static void test_dquot_group(void)
{
	if (!fx.path[QGROUP]) {
		tap_skip("no btrfs with quota groups (E2E_QGROUP)");
		return;
	}
	fill_up(QGROUP, "f", FILE_SYNC, NFS3ERR_DQUOT);
}

static void test_nospc_names(void)
{
	struct fh dir;
	sattr3 set = sattr_mode(0755);
	int i, r = NFS3_OK;

	if (!fx.path[SMALL]) {
		tap_skip("no small file system (E2E_SMALL)");
		return;
	}
	fresh_dir(SMALL, &dir);
	for (i = 0; i < 30000 && r == NFS3_OK; i++)
		r = nfs3_mkdir(c, &dir, text("d%d", i), &set, NULL);
	CHECK_EQ(r, NFS3ERR_NOSPC);
	CHECK_EQ(nfs3_symlink(c, &dir, "l", "x", NULL), NFS3ERR_NOSPC);
	CHECK_EQ(nfs3_mknod(c, &dir, "p", NF3FIFO, &set, NULL), NFS3ERR_NOSPC);
	CHECK_EQ(nfs3_create(c, &dir, "f", GUARDED, &set, NULL), NFS3ERR_NOSPC);
	while (i-- > 0)
		rmdir(text("%s/d%d", text("%s", fx.path[SMALL]), i));
}

static void test_mlink(void)
{
	struct fh dir, fh;
	const char *path;
	int i;

	if (!fx.path[OTHER]) {
		tap_skip("no ext4 (E2E_OTHER)");
		return;
	}
	path = fresh_dir(OTHER, &dir);
	CHECK_EQ(nfs3_make(c, &dir, "f", &fh), NFS3_OK);
	for (i = 1; i < 65000; i++)
		if (link(text("%s/f", path), text("%s/l%d", path, i)) < 0)
			break;
	CHECK(errno == EMLINK || i == 65000, ": %s", strerror(errno));
	CHECK_EQ(nfs3_link(c, &fh, &dir, "one-more"), NFS3ERR_MLINK);
}

static const struct tap_test tests[] = {
	{ "stale", test_stale },
	{ "badhandle", test_badhandle },
	{ "notdir", test_notdir },
	{ "noent", test_noent },
	{ "exist", test_exist },
	{ "nametoolong", test_nametoolong },
	{ "bad_names", test_bad_names },
	{ "inval", test_inval },
	{ "badtype", test_badtype },
	{ "acces_perm", test_acces_perm },
	{ "rofs", test_rofs },
	{ "xdev", test_xdev },
	{ "fbig", test_fbig },
	{ "nospc", test_nospc }, /* 5.8 */
	{ "dquot", test_dquot },
	{ "dquot_names", test_dquot_names },
	{ "dquot_group", test_dquot_group },
	{ "nospc_names", test_nospc_names },
	{ "mlink", test_mlink },
	{ "clean_stop", test_clean_stop },
};

int main(int argc, char **argv)
{
	fixture_start();
	return tap_run(tests, sizeof(tests) / sizeof(*tests), argc, argv);
}
