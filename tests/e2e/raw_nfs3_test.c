/*
 * raw_nfs3_test: every NFSv3 procedure doing what it is for, seen from the wire and from the local file system.
 *
 * One daemon, one connection; each test works in a directory of its own. That replies are exact, that statuses are listed
 * and that attributes are present is checked by the client under every call (nfs3.h).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "tests/e2e/fixture.h"

#define WRITE_OK (fx.c.res.write.WRITE3res_u.resok)
#define READ_OK (fx.c.res.read.READ3res_u.resok)
#define COMMIT_OK (fx.c.res.commit.COMMIT3res_u.resok)
#define CREATE_OK (fx.c.res.create.CREATE3res_u.resok)

enum { MIB = 1 << 20 };

static struct client *const c = &fx.c;
static char data[MIB], back[MIB + 4096];

static void test_null(void)
{
	CHECK_EQ(nfs3_null(c), 0);
	CHECK_EQ(mount3_null(c), 0);
}

static void check_time(const nfstime3 *t, const struct timespec *ts, const char *which)
{
	CHECK(t->seconds == (uint32_t)ts->tv_sec && t->nseconds == (uint32_t)ts->tv_nsec, ": %s %u.%09u, locally %ld.%09ld", which,
	      t->seconds, t->nseconds, (long)ts->tv_sec, ts->tv_nsec);
}

static void check_attr(const fattr3 *a, const struct stat *st)
{
	CHECK_EQ(a->mode, st->st_mode & 07777);
	CHECK_EQ(a->nlink, st->st_nlink);
	CHECK_EQ(a->uid, st->st_uid);
	CHECK_EQ(a->gid, st->st_gid);
	CHECK_EQ(a->size, st->st_size);
	CHECK_EQ(a->used, st->st_blocks * 512);
	CHECK_EQ(a->fileid, st->st_ino);
	check_time(&a->atime, &st->st_atim, "atime");
	check_time(&a->mtime, &st->st_mtim, "mtime");
}

static void test_getattr(void)
{
	struct fh dir, fh;
	const char *path = fresh_dir(RW, &dir);
	struct stat st;
	fattr3 a, d;

	put_file(text("%s/f", path), "hello", 5, 0640);
	CHECK_EQ(chown(text("%s/f", path), 12, 34), 0);
	CHECK_EQ(nfs3_lookup(c, &dir, "f", &fh), NFS3_OK);
	CHECK_EQ(nfs3_getattr(c, &fh, &a), NFS3_OK);
	st = local_stat(text("%s/f", path));
	check_attr(&a, &st);
	check_time(&a.ctime, &st.st_ctim, "ctime");
	CHECK_EQ(a.type, NF3REG);
	CHECK_EQ(nfs3_getattr(c, &dir, &d), NFS3_OK);
	st = local_stat(path);
	check_attr(&d, &st);
	CHECK_EQ(d.type, NF3DIR);
	CHECK_EQ(a.fsid, d.fsid);
}

static void test_setattr(void)
{
	struct fh dir, fh;
	const char *path = fresh_dir(RW, &dir), *file = text("%s/f", path);
	sattr3 set = sattr_mode(0751);
	struct stat st;
	fattr3 a;

	CHECK_EQ(nfs3_make(c, &dir, "f", &fh), NFS3_OK);
	set.uid = (set_uid3) { TRUE, { 77 } };
	set.gid = (set_gid3) { TRUE, { 78 } };
	set.size = (set_size3) { TRUE, { 12345 } };
	set.atime = (set_atime) { SET_TO_CLIENT_TIME, { { 1000, 5 } } };
	set.mtime = (set_mtime) { SET_TO_CLIENT_TIME, { { 2000, 6 } } };
	CHECK_EQ(nfs3_setattr(c, &fh, &set, NULL), NFS3_OK);
	st = local_stat(file);
	CHECK(st.st_mode == (S_IFREG | 0751) && st.st_uid == 77 && st.st_gid == 78 && st.st_size == 12345, ": %o", st.st_mode);
	CHECK_EQ(nfs3_getattr(c, &fh, &a), NFS3_OK);
	check_attr(&a, &st);
	/* A ctime once shown is not taken back, even if the kernel's clock ticks so coarsely that it stamps an earlier one. */
	CHECK(a.ctime.seconds >= st.st_ctim.tv_sec);
	CHECK(a.atime.seconds == 1000 && a.atime.nseconds == 5 && a.mtime.seconds == 2000 && a.mtime.nseconds == 6);
	set = sattr_none();
	set.mtime.set_it = SET_TO_SERVER_TIME;
	CHECK_EQ(nfs3_setattr(c, &fh, &set, NULL), NFS3_OK);
	CHECK(local_stat(file).st_mtim.tv_sec > 2000 && local_stat(file).st_atim.tv_sec == 1000);
}

static void test_setattr_guard(void)
{
	struct fh dir, fh;
	sattr3 set = sattr_mode(0600);
	nfstime3 guard;
	fattr3 a;

	fresh_dir(RW, &dir);
	CHECK_EQ(nfs3_make(c, &dir, "f", &fh), NFS3_OK);
	CHECK_EQ(nfs3_getattr(c, &fh, &a), NFS3_OK);
	guard = a.ctime;
	guard.nseconds ^= 1;
	CHECK_EQ(nfs3_setattr(c, &fh, &set, &guard), NFS3ERR_NOT_SYNC);
	CHECK_EQ(nfs3_getattr(c, &fh, &a), NFS3_OK);
	CHECK_EQ(a.mode, 0644);
	CHECK_EQ(nfs3_setattr(c, &fh, &set, &a.ctime), NFS3_OK);
	CHECK_EQ(nfs3_getattr(c, &fh, &a), NFS3_OK);
	CHECK_EQ(a.mode, 0600);
}

static void test_setattr_size(void)
{
	struct fh dir, fh;
	const char *path = fresh_dir(RW, &dir), *file = text("%s/f", path);
	sattr3 set;

	fill_pattern(data, 100000, 1);
	CHECK_EQ(nfs3_make(c, &dir, "f", &fh), NFS3_OK);
	CHECK_EQ(nfs3_write(c, &fh, 0, data, 100000, UNSTABLE), NFS3_OK);
	set = sattr_size(50001);
	CHECK_EQ(nfs3_setattr(c, &fh, &set, NULL), NFS3_OK);
	set = sattr_size(70000);
	CHECK_EQ(nfs3_setattr(c, &fh, &set, NULL), NFS3_OK);
	CHECK_EQ(nfs3_read(c, &fh, 0, 80000), NFS3_OK);
	memset(data + 50001, 0, 20000);
	CHECK(READ_OK.count == 70000 && READ_OK.eof && !memcmp(READ_OK.data.data_val, data, 70000));
	CHECK_EQ(nfs3_commit(c, &fh, 0, 0), NFS3_OK);
	CHECK_EQ(get_file(file, back, sizeof(back)), 70000);
	CHECK(!memcmp(back, data, 70000));
}

static void test_lookup(void)
{
	struct fh dir, fh, again, up;
	const char *path = fresh_dir(RW, &dir);

	put_file(text("%s/f", path), "", 0, 0644);
	CHECK_EQ(mkdir(text("%s/sub", path), 0755), 0);
	CHECK_EQ(nfs3_lookup(c, &dir, "f", &fh), NFS3_OK);
	CHECK_EQ(nfs3_lookup(c, &dir, "f", &again), NFS3_OK);
	CHECK(fh_equal(&fh, &again));
	CHECK_EQ(nfs3_lookup(c, &dir, ".", &again), NFS3_OK);
	CHECK(fh_equal(&dir, &again));
	CHECK_EQ(nfs3_lookup(c, &dir, "sub", &fh), NFS3_OK);
	CHECK(fh.len <= 56, ": handle of %u bytes", fh.len);
	CHECK_EQ(nfs3_lookup(c, &fh, "..", &up), NFS3_OK);
	CHECK(fh_equal(&dir, &up));
}

/* What is above an export is nobody's business: ".." of its root is the root, or refused. */
static void test_lookup_above_root(void)
{
	struct fh up;
	int r = nfs3_lookup(c, &fx.root[RW], "..", &up);

	CHECK((r == NFS3_OK && fh_equal(&up, &fx.root[RW])) || r == NFS3ERR_NOENT || r == NFS3ERR_ACCES, ": status %d", r);
}

static void test_access(void)
{
	struct fh dir, fh;
	const char *path = fresh_dir(RW, &dir);
	uint32_t got;

	put_file(text("%s/f", path), "x", 1, 0644);
	CHECK_EQ(nfs3_lookup(c, &dir, "f", &fh), NFS3_OK);
	CHECK_EQ(nfs3_access(c, &fh, 0x3f, &got), NFS3_OK);
	CHECK((got & 0x0d) == (ACCESS3_READ | ACCESS3_MODIFY | ACCESS3_EXTEND), ": 0x%x", got);
	CHECK(!(got & ACCESS3_EXECUTE), ": 0x%x", got);
	CHECK_EQ(nfs3_access(c, &fh, ACCESS3_READ, &got), NFS3_OK);
	CHECK_EQ(got, ACCESS3_READ);
	CHECK_EQ(nfs3_access(c, &dir, 0x3f, &got), NFS3_OK);
	CHECK((got & 0x1f) == 0x1f, ": 0x%x", got);
	client_as(c, 1000, 1000, 0, NULL);
	CHECK_EQ(nfs3_access(c, &fh, 0x3f, &got), NFS3_OK);
	CHECK_EQ(got, ACCESS3_READ);
	client_as(c, 0, 0, 0, NULL);
}

static void test_symlink_readlink(void)
{
	struct fh dir, fh;
	const char *path = fresh_dir(RW, &dir);
	char target[4096], local[4096];

	memset(target, 'a', 1023);
	target[1023] = '\0';
	CHECK_EQ(nfs3_symlink(c, &dir, "l", target, &fh), NFS3_OK);
	CHECK_EQ(readlink(text("%s/l", path), local, sizeof(local)), 1023);
	CHECK_EQ(nfs3_readlink(c, &fh), NFS3_OK);
	CHECK(!strcmp(c->res.readlink.READLINK3res_u.resok.data, target));
	CHECK_EQ(nfs3_symlink(c, &dir, "out", "../../../etc/passwd", &fh), NFS3_OK);
	CHECK_EQ(nfs3_readlink(c, &fh), NFS3_OK);
	CHECK(!strcmp(c->res.readlink.READLINK3res_u.resok.data, "../../../etc/passwd"));
}

static void write_and_see(const struct fh *fh, const char *file, uint64_t offset, uint32_t count, stable_how stable)
{
	static char whole[4 * MIB];
	size_t len;

	fill_pattern(data, count, offset + count);
	CHECK_EQ(nfs3_write(c, fh, offset, data, count, stable), NFS3_OK);
	CHECK_EQ(WRITE_OK.count, count);
	if (stable == UNSTABLE)
		CHECK_EQ(nfs3_commit(c, fh, offset, count), NFS3_OK);
	len = get_file(file, whole, sizeof(whole));
	CHECK(len >= offset + count, ": %zu", len);
	CHECK(!memcmp(whole + offset, data, count), ": %u at %llu, how %d", count, (unsigned long long)offset, (int)stable);
	CHECK_EQ(nfs3_read(c, fh, offset, count), NFS3_OK);
	CHECK(READ_OK.count == count && !memcmp(READ_OK.data.data_val, data, count));
}

/* After a stable WRITE, or a COMMIT, a local process finds the bytes. */
static void test_write_read(void)
{
	static const uint32_t counts[] = { 1, 511, 4096, 4097, 6000, 47008, 65536, MIB };
	struct fh dir, fh;
	const char *path = fresh_dir(RW, &dir);
	unsigned i, how;
	uint64_t offset = 0;

	CHECK_EQ(nfs3_make(c, &dir, "f", &fh), NFS3_OK);
	for (i = 0; i < sizeof(counts) / sizeof(*counts); i++)
		for (how = UNSTABLE; how <= FILE_SYNC; how++) {
			write_and_see(&fh, text("%s/f", path), offset, counts[i], (stable_how)how);
			offset = (offset + counts[i]) % (2 * MIB);
		}
}

static void test_read_eof(void)
{
	struct fh dir, fh;
	const char *path = fresh_dir(RW, &dir);
	static const struct { uint64_t offset; uint32_t count, got; bool eof; } t[] = {
		{ 0, 9999, 9999, false }, { 0, 10000, 10000, true }, { 0, 10001, 10000, true }, { 9999, 1, 1, true },
		{ 9998, 1, 1, false }, { 10000, 1, 0, true }, { 50000, 100, 0, true }, { 4096, 5904, 5904, true },
	};
	unsigned i;

	fill_pattern(data, 10000, 3);
	put_file(text("%s/f", path), data, 10000, 0644);
	CHECK_EQ(nfs3_lookup(c, &dir, "f", &fh), NFS3_OK);
	for (i = 0; i < sizeof(t) / sizeof(*t); i++) {
		CHECK_EQ(nfs3_read(c, &fh, t[i].offset, t[i].count), NFS3_OK);
		CHECK(READ_OK.count == t[i].got && READ_OK.eof == t[i].eof, ": case %u: %u, eof %d", i, READ_OK.count, READ_OK.eof);
		CHECK(!t[i].got || !memcmp(READ_OK.data.data_val, data + t[i].offset, t[i].got), ": case %u", i);
	}
	CHECK_EQ(nfs3_read(c, &fh, 0, 0), NFS3_OK);
	CHECK_EQ(READ_OK.count, 0);
}

static void test_read_hole(void)
{
	struct fh dir, fh;
	unsigned i;

	fresh_dir(RW, &dir);
	CHECK_EQ(nfs3_make(c, &dir, "f", &fh), NFS3_OK);
	CHECK_EQ(nfs3_write(c, &fh, 300001, "z", 1, FILE_SYNC), NFS3_OK);
	CHECK_EQ(nfs3_read(c, &fh, 0, 400000), NFS3_OK);
	CHECK(READ_OK.count == 300002 && READ_OK.eof);
	for (i = 0; i < 300001 && !READ_OK.data.data_val[i]; i++)
		;
	CHECK_EQ(i, 300001);
	CHECK_EQ(READ_OK.data.data_val[300001], 'z');
}

/* RFC 1813, 3.3.7: a count of 0 succeeds and changes nothing. */
static void test_write_nothing(void)
{
	struct fh dir, fh;
	fattr3 before, after;

	fresh_dir(RW, &dir);
	CHECK_EQ(nfs3_make(c, &dir, "f", &fh), NFS3_OK);
	CHECK_EQ(nfs3_getattr(c, &fh, &before), NFS3_OK);
	CHECK_EQ(nfs3_write(c, &fh, 5000, "", 0, FILE_SYNC), NFS3_OK);
	CHECK_EQ(WRITE_OK.count, 0);
	CHECK_EQ(nfs3_getattr(c, &fh, &after), NFS3_OK);
	CHECK_EQ(after.size, 0);
	CHECK(!memcmp(&after.mtime, &before.mtime, sizeof(after.mtime)));
}

static void test_write_verifier(void)
{
	static const char zero[NFS3_WRITEVERFSIZE];
	writeverf3 verf;
	struct fh dir, fh;
	int i;

	fresh_dir(RW, &dir);
	CHECK_EQ(nfs3_make(c, &dir, "f", &fh), NFS3_OK);
	for (i = 0; i < 100; i++) {
		CHECK_EQ(nfs3_write(c, &fh, (uint64_t)i * 6000, data, 6000, UNSTABLE), NFS3_OK);
		if (!i)
			memcpy(verf, WRITE_OK.verf, sizeof(verf));
		CHECK(!memcmp(verf, WRITE_OK.verf, sizeof(verf)));
	}
	CHECK_EQ(nfs3_commit(c, &fh, 0, 0), NFS3_OK);
	CHECK(!memcmp(verf, COMMIT_OK.verf, sizeof(verf)));
	CHECK(memcmp(verf, zero, sizeof(verf)));
}

/*
 * Attributes are those of after the WRITE, while its bytes may still be in memory; mtime and ctime do not move with the server's own flush. COMMIT's reply may show later
 * ones, the disk's: these stay, and local processes see the same.
 */
static void test_write_attributes(void)
{
	struct fh dir, fh;
	const char *path = fresh_dir(RW, &dir), *file = text("%s/f", path);
	fattr3 a, b, d;

	CHECK_EQ(nfs3_make(c, &dir, "f", &fh), NFS3_OK);
	CHECK_EQ(nfs3_getattr(c, &fh, &a), NFS3_OK);
	CHECK_EQ(nfs3_write(c, &fh, 1000, data, 47008, UNSTABLE), NFS3_OK);
	b = WRITE_OK.file_wcc.after.post_op_attr_u.attributes;
	CHECK_EQ(b.size, 48008);
	CHECK(memcmp(&a.mtime, &b.mtime, sizeof(a.mtime)), ": mtime did not move");
	for (int i = 0; i < 100; i++) { /* the flush ends somewhere in here */
		CHECK_EQ(nfs3_getattr(c, &fh, &d), NFS3_OK);
		CHECK(d.size == 48008 && !memcmp(&d.mtime, &b.mtime, sizeof(d.mtime)) && !memcmp(&d.ctime, &b.ctime, sizeof(d.ctime)));
	}
	CHECK_EQ(nfs3_commit(c, &fh, 0, 0), NFS3_OK);
	b = COMMIT_OK.file_wcc.after.post_op_attr_u.attributes;
	CHECK_EQ(nfs3_getattr(c, &fh, &d), NFS3_OK);
	CHECK(d.size == 48008 && !memcmp(&d.mtime, &b.mtime, sizeof(d.mtime)) && !memcmp(&d.ctime, &b.ctime, sizeof(d.ctime)));
	CHECK_EQ(local_stat(file).st_mtim.tv_nsec, (long)d.mtime.nseconds);
}

static void test_create_unchecked(void)
{
	struct fh dir, fh, again;
	const char *path = fresh_dir(RW, &dir), *file = text("%s/f", path);
	sattr3 set = sattr_mode(0640);

	CHECK_EQ(nfs3_create(c, &dir, "f", UNCHECKED, &set, &fh), NFS3_OK);
	CHECK_EQ(local_stat(file).st_mode, S_IFREG | 0640);
	CHECK_EQ(nfs3_write(c, &fh, 0, "12345", 5, FILE_SYNC), NFS3_OK);
	CHECK_EQ(nfs3_create(c, &dir, "f", UNCHECKED, &set, &again), NFS3_OK);
	CHECK(fh_equal(&fh, &again));
	CHECK_EQ(local_stat(file).st_size, 5);
	set = sattr_size(0);
	CHECK_EQ(nfs3_create(c, &dir, "f", UNCHECKED, &set, &again), NFS3_OK);
	CHECK_EQ(local_stat(file).st_size, 0);
}

static void test_create_guarded(void)
{
	struct fh dir;
	sattr3 set = sattr_mode(0600);

	fresh_dir(RW, &dir);
	CHECK_EQ(nfs3_create(c, &dir, "f", GUARDED, &set, NULL), NFS3_OK);
	CHECK_EQ(nfs3_create(c, &dir, "f", GUARDED, &set, NULL), NFS3ERR_EXIST);
}

/* RFC 1813, 3.3.8: the same verifier again is a retransmission and succeeds; another one finds the file taken. */
static void test_create_exclusive(void)
{
	struct fh dir, fh, again;

	fresh_dir(RW, &dir);
	CHECK_EQ(nfs3_create_exclusive(c, &dir, "f", 0x1234567890abcdefu, &fh), NFS3_OK);
	CHECK_EQ(nfs3_create_exclusive(c, &dir, "f", 0x1234567890abcdefu, &again), NFS3_OK);
	CHECK(fh_equal(&fh, &again));
	CHECK_EQ(nfs3_create_exclusive(c, &dir, "f", 0x1234567890abcdeeu, NULL), NFS3ERR_EXIST);
}

static void test_mkdir_rmdir(void)
{
	struct fh dir, fh;
	const char *path = fresh_dir(RW, &dir);
	sattr3 set = sattr_mode(0711);
	fattr3 before, after;

	CHECK_EQ(nfs3_getattr(c, &dir, &before), NFS3_OK);
	CHECK_EQ(nfs3_mkdir(c, &dir, "d", &set, &fh), NFS3_OK);
	CHECK_EQ(CREATE_OK.obj_attributes.post_op_attr_u.attributes.type, NF3DIR);
	after = CREATE_OK.dir_wcc.after.post_op_attr_u.attributes;
	CHECK_EQ(after.nlink, before.nlink + 1);
	CHECK_EQ(local_stat(text("%s/d", path)).st_mode, S_IFDIR | 0711);
	CHECK_EQ(nfs3_getattr(c, &fh, NULL), NFS3_OK);
	CHECK_EQ(nfs3_rmdir(c, &dir, "d"), NFS3_OK);
	CHECK_EQ(access(text("%s/d", path), F_OK), -1);
	CHECK_EQ(nfs3_getattr(c, &fh, NULL), NFS3ERR_STALE);
}

static void test_mknod(void)
{
	static const struct { ftype3 type; mode_t mode; } t[] = {
		{ NF3CHR, S_IFCHR }, { NF3BLK, S_IFBLK }, { NF3SOCK, S_IFSOCK }, { NF3FIFO, S_IFIFO }
	};
	struct fh dir, fh;
	const char *path = fresh_dir(RW, &dir);
	sattr3 set = sattr_mode(0620);
	struct stat st;
	fattr3 a;
	unsigned i;

	for (i = 0; i < 4; i++) {
		CHECK_EQ(nfs3_mknod(c, &dir, text("n%u", i), t[i].type, &set, &fh), NFS3_OK);
		st = local_stat(text("%s/n%u", path, i));
		CHECK_EQ(st.st_mode, t[i].mode | 0620);
		CHECK_EQ(nfs3_getattr(c, &fh, &a), NFS3_OK);
		CHECK_EQ(a.type, t[i].type);
		if (i < 2)
			CHECK(st.st_rdev == makedev(1, 3) && a.rdev.specdata1 == 1 && a.rdev.specdata2 == 3);
	}
}

static void test_remove(void)
{
	struct fh dir, fh;
	const char *path = fresh_dir(RW, &dir);

	CHECK_EQ(nfs3_make(c, &dir, "f", &fh), NFS3_OK);
	CHECK_EQ(nfs3_write(c, &fh, 0, data, 47008, UNSTABLE), NFS3_OK);
	CHECK_EQ(nfs3_remove(c, &dir, "f"), NFS3_OK);
	CHECK_EQ(access(text("%s/f", path), F_OK), -1);
	CHECK_EQ(nfs3_getattr(c, &fh, NULL), NFS3ERR_STALE);
	CHECK_EQ(nfs3_read(c, &fh, 0, 10), NFS3ERR_STALE);
}

/* A file that a local process removed is gone too, though the server has it open. */
static void test_removed_locally(void)
{
	struct fh dir, fh;
	const char *path = fresh_dir(RW, &dir);
	sattr3 set = sattr_mode(0600);

	CHECK_EQ(nfs3_make(c, &dir, "f", &fh), NFS3_OK);
	CHECK_EQ(nfs3_write(c, &fh, 0, data, 47008, FILE_SYNC), NFS3_OK);
	CHECK_EQ(unlink(text("%s/f", path)), 0);
	CHECK_EQ(nfs3_getattr(c, &fh, NULL), NFS3ERR_STALE);
	CHECK_EQ(nfs3_setattr(c, &fh, &set, NULL), NFS3ERR_STALE);
	CHECK_EQ(nfs3_write(c, &fh, 0, data, 10, UNSTABLE), NFS3ERR_STALE);
	CHECK_EQ(nfs3_read(c, &fh, 0, 10), NFS3ERR_STALE);
}

static void test_rename(void)
{
	struct fh dir, sub, fh, found;
	const char *path = fresh_dir(RW, &dir);
	sattr3 set = sattr_mode(0755);

	CHECK_EQ(nfs3_make(c, &dir, "a", &fh), NFS3_OK);
	CHECK_EQ(nfs3_write(c, &fh, 0, "aaa", 3, UNSTABLE), NFS3_OK);
	CHECK_EQ(nfs3_mkdir(c, &dir, "sub", &set, &sub), NFS3_OK);
	CHECK_EQ(nfs3_make(c, &sub, "b", NULL), NFS3_OK);
	CHECK_EQ(nfs3_rename(c, &dir, "a", &sub, "b"), NFS3_OK);
	CHECK_EQ(nfs3_lookup(c, &dir, "a", NULL), NFS3ERR_NOENT);
	CHECK_EQ(nfs3_lookup(c, &sub, "b", &found), NFS3_OK);
	CHECK(fh_equal(&fh, &found), ": the handle did not survive the rename");
	CHECK_EQ(nfs3_read(c, &fh, 0, 10), NFS3_OK);
	CHECK(READ_OK.count == 3 && !memcmp(READ_OK.data.data_val, "aaa", 3));
	CHECK_EQ(mkdir(text("%s/empty", path), 0755), 0);
	CHECK_EQ(nfs3_rename(c, &dir, "sub", &dir, "empty"), NFS3_OK);
	CHECK_EQ(nfs3_lookup(c, &sub, "b", NULL), NFS3_OK);
	CHECK_EQ(nfs3_rename(c, &sub, "b", &sub, "b"), NFS3_OK);
	CHECK_EQ(nfs3_lookup(c, &sub, "b", NULL), NFS3_OK);
}

static void test_link(void)
{
	struct fh dir, fh, other;

	fresh_dir(RW, &dir);
	CHECK_EQ(nfs3_make(c, &dir, "a", &fh), NFS3_OK);
	CHECK_EQ(nfs3_link(c, &fh, &dir, "b"), NFS3_OK);
	CHECK_EQ(c->res.link.LINK3res_u.resok.file_attributes.post_op_attr_u.attributes.nlink, 2);
	CHECK_EQ(nfs3_lookup(c, &dir, "b", &other), NFS3_OK);
	CHECK(fh_equal(&fh, &other));
	CHECK_EQ(nfs3_rename(c, &dir, "a", &dir, "b"), NFS3_OK);	/* 3.3.14: two names of one file: nothing happens */
	CHECK_EQ(nfs3_lookup(c, &dir, "a", NULL), NFS3_OK);
}

static void test_fsstat(void)
{
	const FSSTAT3resok *ok = &c->res.fsstat.FSSTAT3res_u.resok;
	struct statvfs v;

	CHECK_EQ(nfs3_fsstat(c, &fx.root[RW]), NFS3_OK);
	CHECK_EQ(statvfs(fx.path[RW], &v), 0);
	CHECK_EQ(ok->tbytes, v.f_blocks * v.f_frsize);
	CHECK(ok->fbytes >= ok->abytes && ok->fbytes <= ok->tbytes && ok->abytes > 0);
	CHECK(ok->tfiles >= ok->ffiles && ok->ffiles >= ok->afiles);
}

static void test_fsinfo(void)
{
	const FSINFO3resok *ok = &c->res.fsinfo.FSINFO3res_u.resok;

	CHECK_EQ(nfs3_fsinfo(c, &fx.root[RW]), NFS3_OK);
	CHECK(ok->wtmax == MIB && ok->rtmax == MIB, ": %u %u", ok->wtmax, ok->rtmax);
	CHECK(ok->wtpref <= ok->wtmax && ok->rtpref <= ok->rtmax && ok->wtpref && ok->rtpref && ok->dtpref);
	CHECK(ok->maxfilesize >= 1ull << 40);
	CHECK_EQ(ok->properties, FSF3_LINK | FSF3_SYMLINK | FSF3_HOMOGENEOUS | FSF3_CANSETTIME);
	CHECK(ok->time_delta.seconds == 0 && ok->time_delta.nseconds > 0);
}

static void test_pathconf(void)
{
	const PATHCONF3resok *ok = &c->res.pathconf.PATHCONF3res_u.resok;

	CHECK_EQ(nfs3_pathconf(c, &fx.root[RW]), NFS3_OK);
	CHECK(ok->name_max == 255 && ok->no_trunc && ok->chown_restricted && !ok->case_insensitive && ok->case_preserving);
	CHECK(ok->linkmax > 1, ": %u", ok->linkmax);
}

static void test_names(void)
{
	char longest[256], odd[] = { 'a', (char)0xff, '\n', ' ', '\\', (char)0xfe, 0 };
	struct fh dir, fh, found;
	const char *path = fresh_dir(RW, &dir);

	memset(longest, 'n', 255);
	longest[255] = '\0';
	CHECK_EQ(nfs3_make(c, &dir, longest, &fh), NFS3_OK);
	CHECK_EQ(nfs3_lookup(c, &dir, longest, &found), NFS3_OK);
	CHECK(fh_equal(&fh, &found));
	CHECK_EQ(nfs3_make(c, &dir, odd, &fh), NFS3_OK);
	CHECK_EQ(access(text("%s/%s", path, odd), F_OK), 0);
	CHECK_EQ(nfs3_lookup(c, &dir, odd, &found), NFS3_OK);
	CHECK(fh_equal(&fh, &found));
}

/* A handle names one file: a new file with the same inode number is not it. */
static void test_handle_of_deleted(void)
{
	struct fh dir, old, new;
	struct stat st;
	const char *path = fresh_dir(RW, &dir);
	ino_t ino;
	int i;

	CHECK_EQ(nfs3_make(c, &dir, "f", &old), NFS3_OK);
	ino = local_stat(text("%s/f", path)).st_ino;
	CHECK_EQ(unlink(text("%s/f", path)), 0);
	for (i = 0; i < 100; i++) {
		CHECK_EQ(nfs3_make(c, &dir, text("g%d", i), &new), NFS3_OK);
		st = local_stat(text("%s/g%d", path, i));
		if (st.st_ino == ino)
			break;
	}
	CHECK_EQ(nfs3_getattr(c, &old, NULL), NFS3ERR_STALE);
	CHECK_EQ(nfs3_write(c, &old, 0, "x", 1, FILE_SYNC), NFS3ERR_STALE);
}

/* A local change shows in what the server says next. */
static void test_local_change(void)
{
	struct fh dir, fh;
	const char *path = fresh_dir(RW, &dir), *file = text("%s/f", path);
	fattr3 a;

	fill_pattern(data, 10000, 4);
	CHECK_EQ(nfs3_make(c, &dir, "f", &fh), NFS3_OK);
	CHECK_EQ(nfs3_write(c, &fh, 0, data, 10000, FILE_SYNC), NFS3_OK);
	CHECK_EQ(nfs3_read(c, &fh, 0, 10000), NFS3_OK);
	fill_pattern(data, 9000, 5);
	put_file(file, data, 9000, 0644);
	CHECK_EQ(nfs3_getattr(c, &fh, &a), NFS3_OK);
	CHECK_EQ(a.size, 9000);
	CHECK_EQ(nfs3_read(c, &fh, 0, 10000), NFS3_OK);
	CHECK(READ_OK.count == 9000 && READ_OK.eof && !memcmp(READ_OK.data.data_val, data, 9000));
}

/* A call sent twice is done once: the second answer is the first one. */
static void test_duplicate_request(void)
{
	struct fh dir;
	char record[1024];
	REMOVE3args args;
	struct rpc_what what = { NFS3_PROG, NFS3_VERS, NFS3_REMOVE, nfs3_args_xdr(NFS3_REMOVE), &args };
	REMOVE3res res;
	struct rpc_result result = { nfs3_res_xdr(NFS3_REMOVE), &res, sizeof(res) };
	uint32_t xid = ++c->conn.xid, got;
	size_t len;
	int i;

	fresh_dir(RW, &dir);
	CHECK_EQ(nfs3_make(c, &dir, "f", NULL), NFS3_OK);
	args = (REMOVE3args) { { fh_wire(&dir), (char *)(uintptr_t)"f" } };
	len = conn_encode_call(&c->conn.id, xid, &what, record, sizeof(record));
	for (i = 0; i < 2; i++) {
		CHECK_EQ(conn_send_record(&c->conn, record, len, 0), 0);
		CHECK_EQ(conn_receive(&c->conn, &got), 0);
		CHECK_EQ(got, xid);
		CHECK_EQ(conn_decode(&c->conn, &result), 0);
		CHECK(res.status == NFS3_OK, ": time %d: %d", i, (int)res.status);
	}
}

/* Many calls in flight on one connection: each is answered once, in whatever order. */
static void test_pipelined(void)
{
	enum { CALLS = 200 };
	GETATTR3args args = { fh_wire(&fx.root[RW]) };
	struct rpc_what what = { NFS3_PROG, NFS3_VERS, NFS3_GETATTR, nfs3_args_xdr(NFS3_GETATTR), &args };
	GETATTR3res res;
	struct rpc_result result = { nfs3_res_xdr(NFS3_GETATTR), &res, sizeof(res) };
	uint32_t first = c->conn.xid + 1, xid;
	unsigned char seen[CALLS] = { 0 };
	int i;

	for (i = 0; i < CALLS; i++)
		CHECK_EQ(conn_send(&c->conn, &what), 0);
	for (i = 0; i < CALLS; i++) {
		if (!CHECK_EQ(conn_receive(&c->conn, &xid), 0))
			return;
		if (CHECK(xid - first < CALLS && !seen[xid - first], ": xid %u", xid))
			seen[xid - first] = 1;
		CHECK_EQ(conn_decode(&c->conn, &result), 0);
		CHECK_EQ(res.status, NFS3_OK);
	}
}

static const struct tap_test tests[] = {
	{ "null", test_null },
	{ "getattr", test_getattr },
	{ "setattr", test_setattr },
	{ "setattr_guard", test_setattr_guard },
	{ "setattr_size", test_setattr_size },
	{ "lookup", test_lookup },
	{ "lookup_above_root", test_lookup_above_root },
	{ "access", test_access },
	{ "symlink_readlink", test_symlink_readlink },
	{ "write_read", test_write_read },
	{ "read_eof", test_read_eof },
	{ "read_hole", test_read_hole },
	{ "write_nothing", test_write_nothing },
	{ "write_verifier", test_write_verifier }, /* 1.10 */
	{ "write_attributes", test_write_attributes }, /* 1.12 */
	{ "create_unchecked", test_create_unchecked },
	{ "create_guarded", test_create_guarded },
	{ "create_exclusive", test_create_exclusive },
	{ "mkdir_rmdir", test_mkdir_rmdir },
	{ "mknod", test_mknod },
	{ "remove", test_remove },
	{ "removed by a local process", test_removed_locally },
	{ "rename", test_rename },
	{ "link", test_link },
	{ "fsstat", test_fsstat },
	{ "fsinfo", test_fsinfo },
	{ "pathconf", test_pathconf },
	{ "names", test_names },
	{ "handle_of_deleted", test_handle_of_deleted },
	{ "local_change", test_local_change },
	{ "duplicate_request", test_duplicate_request },
	{ "pipelined", test_pipelined },
	{ "clean_stop", test_clean_stop },
};

int main(int argc, char **argv)
{
	fixture_start();
	return tap_run(tests, sizeof(tests) / sizeof(*tests), argc, argv);
}
