/*
 * nfs3.c: the procedures, as tables and thin functions over conn_call(). The last result belongs to the client and is freed
 * by the next call. Nothing here is shared between clients.
 */
#include "tests/e2e/nfs3.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/e2e/tap.h"

/* The statuses that each procedure may send, as its section of RFC 1813 lists them; all may say JUKEBOX (2.6). */
#define COMMON NFS3ERR_STALE, NFS3ERR_BADHANDLE, NFS3ERR_SERVERFAULT, NFS3ERR_JUKEBOX, NFS3_OK
#define MAKING NFS3ERR_IO, NFS3ERR_ACCES, NFS3ERR_EXIST, NFS3ERR_NOTDIR, NFS3ERR_NOSPC, NFS3ERR_ROFS, NFS3ERR_NAMETOOLONG, \
	NFS3ERR_DQUOT, NFS3ERR_NOTSUPP

static const int getattr_errors[] = { NFS3ERR_IO, COMMON };
/* RFC 1813 lists IO only; a full disk is found at COMMIT all the same: PROTOCOL.md */
static const int commit_errors[] = { NFS3ERR_IO, COMMON, NFS3ERR_NOSPC, NFS3ERR_DQUOT };
static const int setattr_errors[] = { NFS3ERR_PERM, NFS3ERR_IO, NFS3ERR_ACCES, NFS3ERR_INVAL, NFS3ERR_NOSPC, NFS3ERR_ROFS, NFS3ERR_DQUOT,
				      NFS3ERR_NOT_SYNC, COMMON };
static const int lookup_errors[] = { NFS3ERR_IO, NFS3ERR_NOENT, NFS3ERR_ACCES, NFS3ERR_NOTDIR, NFS3ERR_NAMETOOLONG, COMMON };
static const int readlink_errors[] = { NFS3ERR_IO, NFS3ERR_INVAL, NFS3ERR_ACCES, NFS3ERR_NOTSUPP, COMMON };
static const int read_errors[] = { NFS3ERR_IO, NFS3ERR_NXIO, NFS3ERR_ACCES, NFS3ERR_INVAL, COMMON };
static const int write_errors[] = { NFS3ERR_IO, NFS3ERR_ACCES, NFS3ERR_FBIG, NFS3ERR_DQUOT, NFS3ERR_NOSPC, NFS3ERR_ROFS, NFS3ERR_INVAL,
				    COMMON };
static const int create_errors[] = { MAKING, COMMON };
static const int mknod_errors[] = { MAKING, NFS3ERR_BADTYPE, COMMON };
static const int remove_errors[] = { NFS3ERR_NOENT, NFS3ERR_IO, NFS3ERR_ACCES, NFS3ERR_NOTDIR, NFS3ERR_NAMETOOLONG, NFS3ERR_ROFS, COMMON };
static const int rmdir_errors[] = { NFS3ERR_NOENT, NFS3ERR_IO, NFS3ERR_ACCES, NFS3ERR_INVAL, NFS3ERR_EXIST, NFS3ERR_NOTDIR,
				    NFS3ERR_NAMETOOLONG, NFS3ERR_ROFS, NFS3ERR_NOTEMPTY, NFS3ERR_NOTSUPP, COMMON };
static const int rename_errors[] = { NFS3ERR_NOENT, NFS3ERR_XDEV, NFS3ERR_ISDIR, NFS3ERR_INVAL, NFS3ERR_MLINK, NFS3ERR_NOTEMPTY, MAKING,
				     COMMON };
static const int link_errors[] = { NFS3ERR_XDEV, NFS3ERR_INVAL, NFS3ERR_MLINK, MAKING, COMMON };
static const int readdir_errors[] = { NFS3ERR_IO, NFS3ERR_ACCES, NFS3ERR_NOTDIR, NFS3ERR_BAD_COOKIE, NFS3ERR_TOOSMALL, COMMON };
static const int readdirplus_errors[] = { NFS3ERR_IO, NFS3ERR_ACCES, NFS3ERR_NOTDIR, NFS3ERR_BAD_COOKIE, NFS3ERR_TOOSMALL,
					  NFS3ERR_NOTSUPP, COMMON };
static const int handle_errors[] = { COMMON };

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define PROC(name, errors) { #name, (xdrproc_t)xdr_##name##3args, (xdrproc_t)xdr_##name##3res, errors, COUNT(errors) }

static const struct proc {
	const char *name;
	xdrproc_t args, res;
	const int *errors;
	size_t nerrors;
} procs[NFS3_PROCS] = {
	[NFS3_NULL] = { "NULL", rpc_no_body, rpc_no_body, NULL, 0 },
	[NFS3_GETATTR] = PROC(GETATTR, getattr_errors),
	[NFS3_SETATTR] = PROC(SETATTR, setattr_errors),
	[NFS3_LOOKUP] = PROC(LOOKUP, lookup_errors),
	[NFS3_ACCESS] = PROC(ACCESS, getattr_errors),
	[NFS3_READLINK] = PROC(READLINK, readlink_errors),
	[NFS3_READ] = PROC(READ, read_errors),
	[NFS3_WRITE] = PROC(WRITE, write_errors),
	[NFS3_CREATE] = PROC(CREATE, create_errors),
	[NFS3_MKDIR] = PROC(MKDIR, create_errors),
	[NFS3_SYMLINK] = PROC(SYMLINK, create_errors),
	[NFS3_MKNOD] = PROC(MKNOD, mknod_errors),
	[NFS3_REMOVE] = PROC(REMOVE, remove_errors),
	[NFS3_RMDIR] = PROC(RMDIR, rmdir_errors),
	[NFS3_RENAME] = PROC(RENAME, rename_errors),
	[NFS3_LINK] = PROC(LINK, link_errors),
	[NFS3_READDIR] = PROC(READDIR, readdir_errors),
	[NFS3_READDIRPLUS] = PROC(READDIRPLUS, readdirplus_errors),
	[NFS3_FSSTAT] = PROC(FSSTAT, getattr_errors),
	[NFS3_FSINFO] = PROC(FSINFO, handle_errors),
	[NFS3_PATHCONF] = PROC(PATHCONF, handle_errors),
	[NFS3_COMMIT] = PROC(COMMIT, commit_errors),
};

/* The attributes that a reply has a place for. */
struct reply_attrs {
	const post_op_attr *post[2];
	const wcc_data *wcc[2];
};

#define OK_OR_FAIL(member, TYPE, field) \
	(res->status == NFS3_OK ? &res->member.TYPE##_u.resok.field : &res->member.TYPE##_u.resfail.field)

static struct reply_attrs attrs_of(enum nfs3_proc proc, const union nfs3_res *res)
{
	struct reply_attrs a = { { NULL, NULL }, { NULL, NULL } };

	switch (proc) {
	case NFS3_SETATTR: a.wcc[0] = OK_OR_FAIL(setattr, SETATTR3res, obj_wcc); break;
	case NFS3_LOOKUP:
		a.post[0] = OK_OR_FAIL(lookup, LOOKUP3res, dir_attributes);
		a.post[1] = res->status == NFS3_OK ? &res->lookup.LOOKUP3res_u.resok.obj_attributes : NULL;
		break;
	case NFS3_ACCESS: a.post[0] = OK_OR_FAIL(access, ACCESS3res, obj_attributes); break;
	case NFS3_READLINK: a.post[0] = OK_OR_FAIL(readlink, READLINK3res, symlink_attributes); break;
	case NFS3_READ: a.post[0] = OK_OR_FAIL(read, READ3res, file_attributes); break;
	case NFS3_WRITE: a.wcc[0] = OK_OR_FAIL(write, WRITE3res, file_wcc); break;
	case NFS3_CREATE:
	case NFS3_MKDIR:
	case NFS3_SYMLINK:
	case NFS3_MKNOD:	/* their results look the same */
		a.wcc[0] = OK_OR_FAIL(create, CREATE3res, dir_wcc);
		a.post[0] = res->status == NFS3_OK ? &res->create.CREATE3res_u.resok.obj_attributes : NULL;
		break;
	case NFS3_REMOVE: a.wcc[0] = OK_OR_FAIL(remove, REMOVE3res, dir_wcc); break;
	case NFS3_RMDIR: a.wcc[0] = OK_OR_FAIL(rmdir, RMDIR3res, dir_wcc); break;
	case NFS3_RENAME:
		a.wcc[0] = OK_OR_FAIL(rename, RENAME3res, fromdir_wcc);
		a.wcc[1] = OK_OR_FAIL(rename, RENAME3res, todir_wcc);
		break;
	case NFS3_LINK:
		a.post[0] = OK_OR_FAIL(link, LINK3res, file_attributes);
		a.wcc[0] = OK_OR_FAIL(link, LINK3res, linkdir_wcc);
		break;
	case NFS3_READDIR: a.post[0] = OK_OR_FAIL(readdir, READDIR3res, dir_attributes); break;
	case NFS3_READDIRPLUS: a.post[0] = OK_OR_FAIL(readdirplus, READDIRPLUS3res, dir_attributes); break;
	case NFS3_FSSTAT: a.post[0] = OK_OR_FAIL(fsstat, FSSTAT3res, obj_attributes); break;
	case NFS3_FSINFO: a.post[0] = OK_OR_FAIL(fsinfo, FSINFO3res, obj_attributes); break;
	case NFS3_PATHCONF: a.post[0] = OK_OR_FAIL(pathconf, PATHCONF3res, obj_attributes); break;
	case NFS3_COMMIT: a.wcc[0] = OK_OR_FAIL(commit, COMMIT3res, file_wcc); break;
	case NFS3_NULL:
	case NFS3_GETATTR:
	case NFS3_PROCS: break;
	}
	return a;
}

static bool listed(const struct proc *p, int status)
{
	size_t i;

	for (i = 0; i < p->nerrors; i++)
		if (p->errors[i] == status)
			return true;
	return false;
}

void nfs3_check_res(enum nfs3_proc proc, const union nfs3_res *res)
{
	struct reply_attrs a;
	int i;

	if (proc == NFS3_NULL)
		return;
	CHECK(listed(&procs[proc], res->status), ": RFC 1813 lists no status %d for %s", res->status, procs[proc].name);
	if (res->status == NFS3ERR_STALE || res->status == NFS3ERR_BADHANDLE)
		return;
	a = attrs_of(proc, res);
	for (i = 0; i < 2; i++) {
		CHECK(!a.post[i] || a.post[i]->attributes_follow, ": %s, status %d, post_op_attr %d", procs[proc].name, res->status, i);
		CHECK(!a.wcc[i] || a.wcc[i]->after.attributes_follow, ": %s, status %d, wcc_data %d", procs[proc].name, res->status, i);
	}
}

const char *nfs3_proc_name(enum nfs3_proc proc)
{
	return procs[proc].name;
}

xdrproc_t nfs3_args_xdr(enum nfs3_proc proc)
{
	return procs[proc].args;
}

xdrproc_t nfs3_res_xdr(enum nfs3_proc proc)
{
	return procs[proc].res;
}

void client_open(struct client *c, int port)
{
	int r = conn_open(&c->conn, port, geteuid() == 0);

	if (!CHECK(r == 0, ": connect: %s", strerror(-r)))
		abort();
	c->res_xdr = NULL;
}

static void free_result(struct client *c)
{
	if (c->res_xdr)
		xdr_free(c->res_xdr, (char *)&c->res);
	c->res_xdr = NULL;
	memset(&c->res, 0, sizeof(c->res));
}

void client_close(struct client *c)
{
	free_result(c);
	conn_close(&c->conn);
}

void client_as(struct client *c, uint32_t uid, uint32_t gid, uint32_t ngroups, const uint32_t *gids)
{
	c->conn.id = (struct rpc_identity) { .flavor = AUTH_SYS, .uid = uid, .gid = gid, .ngroups = ngroups };
	if (ngroups)
		memcpy(c->conn.id.groups, gids, ngroups * sizeof(*gids));
}

static int call(struct client *c, const struct rpc_what *what, xdrproc_t decode)
{
	struct rpc_result result = { decode, &c->res, sizeof(c->res) };

	free_result(c);
	c->rpc = conn_call(&c->conn, what, &result);
	c->res_xdr = decode;
	return CHECK(c->rpc == 0, ": program %u procedure %u: %d (%s)", what->prog, what->proc, c->rpc,
		     c->rpc < 0 ? strerror(-c->rpc) : "RPC status") ? 0 : -1;
}

int nfs3_call(struct client *c, enum nfs3_proc proc, const void *args)
{
	struct rpc_what what = { NFS3_PROG, NFS3_VERS, proc, procs[proc].args, args };

	if (call(c, &what, procs[proc].res) < 0)
		return -1;
	nfs3_check_res(proc, &c->res);
	return proc == NFS3_NULL ? 0 : (int)c->res.status;
}

nfs_fh3 fh_wire(const struct fh *fh)
{
	return (nfs_fh3) { .data = { .data_len = fh->len, .data_val = (char *)(uintptr_t)fh->data } };
}

struct fh fh_from_wire(const nfs_fh3 *wire)
{
	struct fh fh = { .len = wire->data.data_len };

	memcpy(fh.data, wire->data.data_val, fh.len);
	return fh;
}

bool fh_equal(const struct fh *a, const struct fh *b)
{
	return a->len == b->len && !memcmp(a->data, b->data, a->len);
}

static diropargs3 where(const struct fh *dir, const char *name)
{
	return (diropargs3) { fh_wire(dir), (char *)(uintptr_t)name };
}

/* CREATE, MKDIR, SYMLINK and MKNOD: a new object must come with its handle. */
static void take_handle(struct client *c, int status, struct fh *fh)
{
	const post_op_fh3 *obj = &c->res.create.CREATE3res_u.resok.obj;

	if (status == NFS3_OK && CHECK(obj->handle_follows) && fh)
		*fh = fh_from_wire(&obj->post_op_fh3_u.handle);
}

int nfs3_null(struct client *c)
{
	return nfs3_call(c, NFS3_NULL, NULL);
}

int nfs3_getattr(struct client *c, const struct fh *fh, fattr3 *attr)
{
	GETATTR3args args = { fh_wire(fh) };
	int r = nfs3_call(c, NFS3_GETATTR, &args);

	if (r == NFS3_OK && attr)
		*attr = c->res.getattr.GETATTR3res_u.resok.obj_attributes;
	return r;
}

int nfs3_setattr(struct client *c, const struct fh *fh, const sattr3 *set, const nfstime3 *guard)
{
	SETATTR3args args = { .object = fh_wire(fh), .new_attributes = *set };

	args.guard.check = guard != NULL;
	if (guard)
		args.guard.sattrguard3_u.obj_ctime = *guard;
	return nfs3_call(c, NFS3_SETATTR, &args);
}

int nfs3_lookup(struct client *c, const struct fh *dir, const char *name, struct fh *fh)
{
	LOOKUP3args args = { where(dir, name) };
	int r = nfs3_call(c, NFS3_LOOKUP, &args);

	if (r == NFS3_OK && fh)
		*fh = fh_from_wire(&c->res.lookup.LOOKUP3res_u.resok.object);
	return r;
}

int nfs3_access(struct client *c, const struct fh *fh, uint32_t want, uint32_t *got)
{
	ACCESS3args args = { fh_wire(fh), want };
	int r = nfs3_call(c, NFS3_ACCESS, &args);

	*got = r == NFS3_OK ? c->res.access.ACCESS3res_u.resok.access : 0;
	return r;
}

int nfs3_readlink(struct client *c, const struct fh *fh)
{
	READLINK3args args = { fh_wire(fh) };

	return nfs3_call(c, NFS3_READLINK, &args);
}

int nfs3_read(struct client *c, const struct fh *fh, uint64_t offset, uint32_t count)
{
	READ3args args = { fh_wire(fh), offset, count };
	int r = nfs3_call(c, NFS3_READ, &args);
	const READ3resok *ok = &c->res.read.READ3res_u.resok;

	if (r == NFS3_OK)
		CHECK(ok->count == ok->data.data_len && ok->count <= count, ": %u of %u", ok->count, count);
	return r;
}

int nfs3_write(struct client *c, const struct fh *fh, uint64_t offset, const void *data, uint32_t count, stable_how stable)
{
	WRITE3args args = { fh_wire(fh), offset, count, stable, { count, (char *)(uintptr_t)data } };
	int r = nfs3_call(c, NFS3_WRITE, &args);
	const WRITE3resok *ok = &c->res.write.WRITE3res_u.resok;

	if (r == NFS3_OK)
		CHECK(ok->count <= count && ok->committed >= stable, ": count %u, committed %d", ok->count, (int)ok->committed);
	return r;
}

int nfs3_create(struct client *c, const struct fh *dir, const char *name, createmode3 mode, const sattr3 *set, struct fh *fh)
{
	CREATE3args args = { .where = where(dir, name), .how = { .mode = mode } };
	int r;

	args.how.createhow3_u.unchecked_attributes = *set;
	r = nfs3_call(c, NFS3_CREATE, &args);
	take_handle(c, r, fh);
	return r;
}

int nfs3_create_exclusive(struct client *c, const struct fh *dir, const char *name, uint64_t verf, struct fh *fh)
{
	CREATE3args args = { .where = where(dir, name), .how = { .mode = EXCLUSIVE } };
	int r;

	memcpy(args.how.createhow3_u.verf, &verf, sizeof(verf));
	r = nfs3_call(c, NFS3_CREATE, &args);
	take_handle(c, r, fh);
	return r;
}

int nfs3_mkdir(struct client *c, const struct fh *dir, const char *name, const sattr3 *set, struct fh *fh)
{
	MKDIR3args args = { where(dir, name), *set };
	int r = nfs3_call(c, NFS3_MKDIR, &args);

	take_handle(c, r, fh);
	return r;
}

int nfs3_symlink(struct client *c, const struct fh *dir, const char *name, const char *target, struct fh *fh)
{
	SYMLINK3args args = { where(dir, name), { sattr_mode(0777), (char *)(uintptr_t)target } };
	int r = nfs3_call(c, NFS3_SYMLINK, &args);

	take_handle(c, r, fh);
	return r;
}

int nfs3_mknod(struct client *c, const struct fh *dir, const char *name, ftype3 type, const sattr3 *set, struct fh *fh)
{
	MKNOD3args args = { .where = where(dir, name), .what = { .type = type } };
	int r;

	if (type == NF3CHR || type == NF3BLK)
		args.what.mknoddata3_u.chr_device = (devicedata3) { *set, { 1, 3 } };
	else
		args.what.mknoddata3_u.pipe_attributes = *set;
	r = nfs3_call(c, NFS3_MKNOD, &args);
	take_handle(c, r, fh);
	return r;
}

int nfs3_remove(struct client *c, const struct fh *dir, const char *name)
{
	REMOVE3args args = { where(dir, name) };

	return nfs3_call(c, NFS3_REMOVE, &args);
}

int nfs3_rmdir(struct client *c, const struct fh *dir, const char *name)
{
	RMDIR3args args = { where(dir, name) };

	return nfs3_call(c, NFS3_RMDIR, &args);
}

int nfs3_rename(struct client *c, const struct fh *from, const char *old, const struct fh *to, const char *name)
{
	RENAME3args args = { where(from, old), where(to, name) };

	return nfs3_call(c, NFS3_RENAME, &args);
}

int nfs3_link(struct client *c, const struct fh *fh, const struct fh *dir, const char *name)
{
	LINK3args args = { fh_wire(fh), where(dir, name) };

	return nfs3_call(c, NFS3_LINK, &args);
}

int nfs3_readdir(struct client *c, const struct fh *dir, uint64_t cookie, char *verf, uint32_t count)
{
	READDIR3args args = { .dir = fh_wire(dir), .cookie = cookie, .count = count };
	int r;

	memcpy(args.cookieverf, verf, NFS3_COOKIEVERFSIZE);
	r = nfs3_call(c, NFS3_READDIR, &args);
	if (r == NFS3_OK)
		memcpy(verf, c->res.readdir.READDIR3res_u.resok.cookieverf, NFS3_COOKIEVERFSIZE);
	return r;
}

int nfs3_readdirplus(struct client *c, const struct fh *dir, uint64_t cookie, char *verf, uint32_t dircount, uint32_t maxcount)
{
	READDIRPLUS3args args = { .dir = fh_wire(dir), .cookie = cookie, .dircount = dircount, .maxcount = maxcount };
	int r;

	memcpy(args.cookieverf, verf, NFS3_COOKIEVERFSIZE);
	r = nfs3_call(c, NFS3_READDIRPLUS, &args);
	if (r == NFS3_OK)
		memcpy(verf, c->res.readdirplus.READDIRPLUS3res_u.resok.cookieverf, NFS3_COOKIEVERFSIZE);
	return r;
}

int nfs3_fsstat(struct client *c, const struct fh *fh)
{
	FSSTAT3args args = { fh_wire(fh) };

	return nfs3_call(c, NFS3_FSSTAT, &args);
}

int nfs3_fsinfo(struct client *c, const struct fh *fh)
{
	FSINFO3args args = { fh_wire(fh) };

	return nfs3_call(c, NFS3_FSINFO, &args);
}

int nfs3_pathconf(struct client *c, const struct fh *fh)
{
	PATHCONF3args args = { fh_wire(fh) };

	return nfs3_call(c, NFS3_PATHCONF, &args);
}

int nfs3_commit(struct client *c, const struct fh *fh, uint64_t offset, uint32_t count)
{
	COMMIT3args args = { fh_wire(fh), offset, count };

	return nfs3_call(c, NFS3_COMMIT, &args);
}

int nfs3_make(struct client *c, const struct fh *dir, const char *name, struct fh *fh)
{
	sattr3 set = sattr_mode(0644);

	return nfs3_create(c, dir, name, UNCHECKED, &set, fh);
}

static int mount_call(struct client *c, enum mount3_proc proc, const char *path, xdrproc_t decode)
{
	char *p = (char *)(uintptr_t)path;
	struct rpc_what what = { MOUNT3_PROG, MOUNT3_VERS, proc, path ? (xdrproc_t)xdr_dirpath : rpc_no_body, &p };

	return call(c, &what, decode);
}

int mount3_null(struct client *c)
{
	return mount_call(c, MOUNT3_NULL, NULL, rpc_no_body);
}

int mount3_mnt(struct client *c, const char *path, struct fh *root)
{
	const mountres3_ok *ok = &c->res.mnt.mountres3_u.mountinfo;

	if (mount_call(c, MOUNT3_MNT, path, (xdrproc_t)xdr_mountres3) < 0)
		return -1;
	if (c->res.mnt.fhs_status == MNT3_OK && root) {
		root->len = ok->fhandle.fhandle3_len;
		memcpy(root->data, ok->fhandle.fhandle3_val, root->len);
	}
	return (int)c->res.mnt.fhs_status;
}

int mount3_dump(struct client *c)
{
	return mount_call(c, MOUNT3_DUMP, NULL, (xdrproc_t)xdr_mountlist);
}

int mount3_umnt(struct client *c, const char *path)
{
	return mount_call(c, MOUNT3_UMNT, path, rpc_no_body);
}

int mount3_umntall(struct client *c)
{
	return mount_call(c, MOUNT3_UMNTALL, NULL, rpc_no_body);
}

int mount3_export(struct client *c)
{
	return mount_call(c, MOUNT3_EXPORT, NULL, (xdrproc_t)xdr_exports);
}

sattr3 sattr_none(void)
{
	return (sattr3) { .atime = { .set_it = DONT_CHANGE }, .mtime = { .set_it = DONT_CHANGE } };
}

sattr3 sattr_mode(uint32_t mode)
{
	sattr3 s = sattr_none();

	s.mode.set_it = TRUE;
	s.mode.set_mode3_u.mode = mode;
	return s;
}

sattr3 sattr_size(uint64_t size)
{
	sattr3 s = sattr_none();

	s.size.set_it = TRUE;
	s.size.set_size3_u.size = size;
	return s;
}
