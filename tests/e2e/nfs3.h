/*
 * nfs3.h: NFSv3 and MOUNTv3 procedures for the tests, one function each over one connection.
 *
 * Each returns the procedure's status (nfsstat3, mountstat3), or -1 if the call did not come back as a call should, which is
 * recorded as a failed check. The whole result stays in client->res until the next call. Whatever is called, every reply is
 * held against what RFC 1813 says of its procedure: that the status is one it lists, and that post-operation attributes are
 * there wherever the reply has a place for them (but not with NFS3ERR_STALE or NFS3ERR_BADHANDLE, whose object is nobody's).
 */
#ifndef TESTS_E2E_NFS3_H
#define TESTS_E2E_NFS3_H

#include "tests/e2e/nfs3_prot.h"
#include "tests/e2e/rpc.h"

enum { NFS3_PROG = 100003, NFS3_VERS = 3, MOUNT3_PROG = 100005, MOUNT3_VERS = 3 };

enum nfs3_proc {
	NFS3_NULL, NFS3_GETATTR, NFS3_SETATTR, NFS3_LOOKUP, NFS3_ACCESS, NFS3_READLINK, NFS3_READ, NFS3_WRITE, NFS3_CREATE,
	NFS3_MKDIR, NFS3_SYMLINK, NFS3_MKNOD, NFS3_REMOVE, NFS3_RMDIR, NFS3_RENAME, NFS3_LINK, NFS3_READDIR, NFS3_READDIRPLUS,
	NFS3_FSSTAT, NFS3_FSINFO, NFS3_PATHCONF, NFS3_COMMIT, NFS3_PROCS
};

enum mount3_proc { MOUNT3_NULL, MOUNT3_MNT, MOUNT3_DUMP, MOUNT3_UMNT, MOUNT3_UMNTALL, MOUNT3_EXPORT, MOUNT3_PROCS };

/* A file handle by value. */
struct fh {
	u_int len;
	char data[NFS3_FHSIZE];
};

union nfs3_res {
	nfsstat3 status;
	GETATTR3res getattr;
	SETATTR3res setattr;
	LOOKUP3res lookup;
	ACCESS3res access;
	READLINK3res readlink;
	READ3res read;
	WRITE3res write;
	CREATE3res create;
	MKDIR3res mkdir;
	SYMLINK3res symlink;
	MKNOD3res mknod;
	REMOVE3res remove;
	RMDIR3res rmdir;
	RENAME3res rename;
	LINK3res link;
	READDIR3res readdir;
	READDIRPLUS3res readdirplus;
	FSSTAT3res fsstat;
	FSINFO3res fsinfo;
	PATHCONF3res pathconf;
	COMMIT3res commit;
	mountres3 mnt;
	mountlist dump;
	exports exports;
};

struct client {
	struct rpc_conn conn;
	union nfs3_res res;
	xdrproc_t res_xdr;	/* frees res */
	int rpc;		/* what the last conn_call() returned */
};

/* Connect as root (AUTH_SYS, no groups) from a privileged port if we may. Aborts if nobody answers. */
void client_open(struct client *c, int port);
void client_close(struct client *c);
/* Further calls are made as this user. */
void client_as(struct client *c, uint32_t uid, uint32_t gid, uint32_t ngroups, const uint32_t *gids);

/* Any procedure, with its ...3args. Results of the wrappers below are in the same place. */
int nfs3_call(struct client *c, enum nfs3_proc proc, const void *args);
/* The argument codec of a procedure, for calls that are sent by hand. */
xdrproc_t nfs3_args_xdr(enum nfs3_proc proc);
xdrproc_t nfs3_res_xdr(enum nfs3_proc proc);
const char *nfs3_proc_name(enum nfs3_proc proc);
/* Hold a decoded result against the RFC, as nfs3_call() does. */
void nfs3_check_res(enum nfs3_proc proc, const union nfs3_res *res);

int nfs3_null(struct client *c);
int nfs3_getattr(struct client *c, const struct fh *fh, fattr3 *attr);
int nfs3_setattr(struct client *c, const struct fh *fh, const sattr3 *set, const nfstime3 *guard);
int nfs3_lookup(struct client *c, const struct fh *dir, const char *name, struct fh *fh);
int nfs3_access(struct client *c, const struct fh *fh, uint32_t want, uint32_t *got);
int nfs3_readlink(struct client *c, const struct fh *fh);
int nfs3_read(struct client *c, const struct fh *fh, uint64_t offset, uint32_t count);
int nfs3_write(struct client *c, const struct fh *fh, uint64_t offset, const void *data, uint32_t count, stable_how stable);
int nfs3_create(struct client *c, const struct fh *dir, const char *name, createmode3 mode, const sattr3 *set, struct fh *fh);
int nfs3_create_exclusive(struct client *c, const struct fh *dir, const char *name, uint64_t verf, struct fh *fh);
int nfs3_mkdir(struct client *c, const struct fh *dir, const char *name, const sattr3 *set, struct fh *fh);
int nfs3_symlink(struct client *c, const struct fh *dir, const char *name, const char *target, struct fh *fh);
int nfs3_mknod(struct client *c, const struct fh *dir, const char *name, ftype3 type, const sattr3 *set, struct fh *fh);
int nfs3_remove(struct client *c, const struct fh *dir, const char *name);
int nfs3_rmdir(struct client *c, const struct fh *dir, const char *name);
int nfs3_rename(struct client *c, const struct fh *from, const char *old, const struct fh *to, const char *name);
int nfs3_link(struct client *c, const struct fh *fh, const struct fh *dir, const char *name);
/* verf: in and out. The entries are in the result. */
int nfs3_readdir(struct client *c, const struct fh *dir, uint64_t cookie, char *verf, uint32_t count);
int nfs3_readdirplus(struct client *c, const struct fh *dir, uint64_t cookie, char *verf, uint32_t dircount, uint32_t maxcount);
int nfs3_fsstat(struct client *c, const struct fh *fh);
int nfs3_fsinfo(struct client *c, const struct fh *fh);
int nfs3_pathconf(struct client *c, const struct fh *fh);
int nfs3_commit(struct client *c, const struct fh *fh, uint64_t offset, uint32_t count);

/* CREATE UNCHECKED, mode 0644; LOOKUP of a path relative to dir, step by step. */
int nfs3_make(struct client *c, const struct fh *dir, const char *name, struct fh *fh);

int mount3_null(struct client *c);
int mount3_mnt(struct client *c, const char *path, struct fh *root);
int mount3_dump(struct client *c);
int mount3_umnt(struct client *c, const char *path);
int mount3_umntall(struct client *c);
int mount3_export(struct client *c);

/* sattr3 with nothing set, or one thing. */
sattr3 sattr_none(void);
sattr3 sattr_mode(uint32_t mode);
sattr3 sattr_size(uint64_t size);

nfs_fh3 fh_wire(const struct fh *fh);
struct fh fh_from_wire(const nfs_fh3 *wire);
bool fh_equal(const struct fh *a, const struct fh *b);

#endif
