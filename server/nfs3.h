/*
 * server/nfs3.h - what the NFSv3 procedures share: handle to file, attributes to the wire, errno to nfsstat3.
 *
 * A procedure decodes its arguments, gets the object(s) they name, calls vfs/, turns the errno into a status, fills the result with whatever attributes it
 * has, and encodes. It puts the objects after encoding.
 */
#ifndef SERVER_NFS3_H
#define SERVER_NFS3_H

#include "proto/nfs3.h"
#include "server/call.h"
#include "vfs/types.h"

struct export_view;
struct vfs_file;

/* A file that a call works on, as its client may use it. */
struct nfs3_object {
	struct vfs_call call;     /* .view is referenced; NULL: nothing to put */
	struct vfs_file *file;    /* referenced, or NULL */
};

/* server/nfs3_status.c: err (0 or -errno) as the status that the RFC lists for call's procedure. Marks the call not cached if it should be tried again. */
noyield_fn struct nfsstat3 nfs3_status(struct rpc_call *call, int err);

/* server/nfs3_attr.c */

/* The object of a handle: 0, or -errno with *o empty but safe to put. */
fiber_fn int nfs3_object_get(struct rpc_call *call, const struct nfs_fh3 *fh, struct nfs3_object *o);
noyield_fn void nfs3_object_put(struct nfs3_object *o);
/* Attributes of o now, if it is there: for results that carry them and have none from their operation. */
fiber_fn struct post_op_attr nfs3_object_attr(struct nfs3_object *o);

noyield_fn struct fattr3 nfs3_fattr(const struct vfs_attr *a);
noyield_fn struct post_op_attr nfs3_post_op(bool valid, const struct vfs_attr *a);
noyield_fn struct wcc_data nfs3_wcc(const struct vfs_wcc *w);
/* 0, or -EINVAL: nanoseconds that are none. */
noyield_fn int nfs3_sattr(const struct sattr3 *wire, struct vfs_sattr *sattr);
/* Borrows fh. */
noyield_fn struct nfs_fh3 nfs3_fh(const struct vfs_fh *fh);
noyield_fn struct vfs_name nfs3_name(struct xdr_bytes name);
noyield_fn struct timespec nfs3_time(struct nfstime3 t);

/* How a procedure ends. */
static inline enum call_outcome nfs3_encoded(bool ok) { return ok ? CALL_DONE : CALL_SYSTEM_ERR; }

/* The procedures, by file. */
fiber_fn enum call_outcome nfs3_proc_getattr(struct rpc_call *call);   /* nfs3_attr.c */
fiber_fn enum call_outcome nfs3_proc_setattr(struct rpc_call *call);
fiber_fn enum call_outcome nfs3_proc_access(struct rpc_call *call);
fiber_fn enum call_outcome nfs3_proc_lookup(struct rpc_call *call);    /* nfs3_ns.c */
fiber_fn enum call_outcome nfs3_proc_readlink(struct rpc_call *call);
fiber_fn enum call_outcome nfs3_proc_create(struct rpc_call *call);
fiber_fn enum call_outcome nfs3_proc_mkdir(struct rpc_call *call);
fiber_fn enum call_outcome nfs3_proc_symlink(struct rpc_call *call);
fiber_fn enum call_outcome nfs3_proc_mknod(struct rpc_call *call);
fiber_fn enum call_outcome nfs3_proc_remove(struct rpc_call *call);
fiber_fn enum call_outcome nfs3_proc_rmdir(struct rpc_call *call);
fiber_fn enum call_outcome nfs3_proc_rename(struct rpc_call *call);
fiber_fn enum call_outcome nfs3_proc_link(struct rpc_call *call);
fiber_fn enum call_outcome nfs3_proc_read(struct rpc_call *call);      /* nfs3_data.c */
fiber_fn enum call_outcome nfs3_proc_write(struct rpc_call *call);
fiber_fn enum call_outcome nfs3_proc_commit(struct rpc_call *call);
bool nfs3_write_head(struct xdr *x, uint64_t *offset, uint32_t *len);
fiber_fn enum call_outcome nfs3_proc_readdir(struct rpc_call *call);   /* nfs3_dir.c */
fiber_fn enum call_outcome nfs3_proc_readdirplus(struct rpc_call *call);
fiber_fn enum call_outcome nfs3_proc_fsstat(struct rpc_call *call);    /* nfs3_fs.c */
fiber_fn enum call_outcome nfs3_proc_fsinfo(struct rpc_call *call);
fiber_fn enum call_outcome nfs3_proc_pathconf(struct rpc_call *call);

#endif
