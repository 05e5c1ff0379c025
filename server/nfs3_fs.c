/*
 * server/nfs3_fs.c - what a file system and this server can do (RFC 1813 sections 3.3.18 to 3.3.20), and the table of NFSv3's procedures.
 */
#include "server/config.h"
#include "server/conn.h"
#include "server/nfs3.h"
#include "server/reply.h"
#include "server/server.h"
#include "vfs/file.h"
#include "vfs/ns.h"

/* Directory pages of this size cost one trip to the pool and stay small beside data. */
enum { DTPREF_BYTES = 65536 };

enum call_outcome nfs3_proc_fsstat(struct rpc_call *call)
{
	struct FSSTAT3args args;
	struct FSSTAT3res res;
	struct nfs3_object o;
	struct vfs_fsstat st;
	struct vfs_attr attr;
	bool attr_valid = false;
	if (!xdr_dec_FSSTAT3args(&call->args, &args))
		return CALL_GARBAGE;
	int err = nfs3_object_get(call, &args.fsroot, &o);
	if (err == 0)
		err = vfs_fsstat(&o.call, o.file, &st, &attr, &attr_valid);
	res.status = nfs3_status(call, err);
	struct post_op_attr after = attr_valid ? nfs3_post_op(true, &attr) : nfs3_object_attr(&o);
	if (err == 0)
		res.resok = (struct FSSTAT3resok){ .obj_attributes = after, .tbytes = st.total_bytes, .fbytes = st.free_bytes, .abytes = st.avail_bytes,
						   .tfiles = st.total_files, .ffiles = st.free_files, .afiles = st.avail_files };
	else
		res.resfail.obj_attributes = after;
	nfs3_object_put(&o);
	return nfs3_encoded(xdr_enc_FSSTAT3res(&call->reply->out, &res));
}

static struct FSINFO3resok fsinfo(const struct vfs_fsinfo *info, const struct post_op_attr *after)
{
	uint32_t io = (uint32_t)server.config->limits.io_bytes_max;
	return (struct FSINFO3resok){
		.obj_attributes = *after,
		.rtmax = io,
		.rtpref = io,
		.rtmult = info->block,
		.wtmax = io,
		.wtpref = io,
		.wtmult = info->block,
		.dtpref = (uint32_t)min_u64(DTPREF_BYTES, io),
		.maxfilesize = info->maxfilesize,
		.time_delta = { info->time_delta_ns / 1000000000, info->time_delta_ns % 1000000000 },
		.properties = (info->links ? FSF3_LINK : 0u) | (info->symlinks ? FSF3_SYMLINK : 0u) | (info->homogeneous ? FSF3_HOMOGENEOUS : 0u) |
			      (info->can_set_time ? FSF3_CANSETTIME : 0u),
	};
}

/* FSINFO and PATHCONF ask the same. */
static int info_get(struct rpc_call *call, const struct nfs_fh3 *fh, struct nfs3_object *o, struct vfs_fsinfo *info, struct post_op_attr *after)
{
	struct vfs_attr attr;
	bool attr_valid = false;
	int err = nfs3_object_get(call, fh, o);
	if (err == 0)
		err = vfs_fsinfo(&o->call, o->file, info, &attr, &attr_valid);
	*after = attr_valid ? nfs3_post_op(true, &attr) : nfs3_object_attr(o);
	return err;
}

enum call_outcome nfs3_proc_fsinfo(struct rpc_call *call)
{
	struct FSINFO3args args;
	struct FSINFO3res res;
	struct nfs3_object o;
	struct vfs_fsinfo info;
	struct post_op_attr after;
	if (!xdr_dec_FSINFO3args(&call->args, &args))
		return CALL_GARBAGE;
	int err = info_get(call, &args.fsroot, &o, &info, &after);
	res.status = nfs3_status(call, err);
	if (err == 0)
		res.resok = fsinfo(&info, &after);
	else
		res.resfail.obj_attributes = after;
	nfs3_object_put(&o);
	return nfs3_encoded(xdr_enc_FSINFO3res(&call->reply->out, &res));
}

enum call_outcome nfs3_proc_pathconf(struct rpc_call *call)
{
	struct PATHCONF3args args;
	struct PATHCONF3res res;
	struct nfs3_object o;
	struct vfs_fsinfo info;
	struct post_op_attr after;
	if (!xdr_dec_PATHCONF3args(&call->args, &args))
		return CALL_GARBAGE;
	int err = info_get(call, &args.object, &o, &info, &after);
	res.status = nfs3_status(call, err);
	if (err == 0)
		res.resok = (struct PATHCONF3resok){ after, info.linkmax, info.name_max, info.no_trunc, info.chown_restricted, info.case_insensitive,
						     info.case_preserving };
	else
		res.resfail.obj_attributes = after;
	nfs3_object_put(&o);
	return nfs3_encoded(xdr_enc_PATHCONF3res(&call->reply->out, &res));
}

/* Section 3.3.0: no arguments, no results. */
static enum call_outcome nfs3_proc_null(struct rpc_call *call) { return CALL_DONE; }

static const struct rpc_procedure nfs3_procedures[NFSPROC3_COUNT] = {
	[NFSPROC3_NULL] = { "NULL", nfs3_proc_null, 0, NULL },
	[NFSPROC3_GETATTR] = { "GETATTR", nfs3_proc_getattr, 0, NULL },
	[NFSPROC3_SETATTR] = { "SETATTR", nfs3_proc_setattr, PROC_NOT_IDEMPOTENT, NULL },
	[NFSPROC3_LOOKUP] = { "LOOKUP", nfs3_proc_lookup, 0, NULL },
	[NFSPROC3_ACCESS] = { "ACCESS", nfs3_proc_access, 0, NULL },
	[NFSPROC3_READLINK] = { "READLINK", nfs3_proc_readlink, 0, NULL },
	[NFSPROC3_READ] = { "READ", nfs3_proc_read, 0, NULL },
	[NFSPROC3_WRITE] = { "WRITE", nfs3_proc_write, 0, nfs3_write_head },
	[NFSPROC3_CREATE] = { "CREATE", nfs3_proc_create, PROC_NOT_IDEMPOTENT, NULL },
	[NFSPROC3_MKDIR] = { "MKDIR", nfs3_proc_mkdir, PROC_NOT_IDEMPOTENT, NULL },
	[NFSPROC3_SYMLINK] = { "SYMLINK", nfs3_proc_symlink, PROC_NOT_IDEMPOTENT, NULL },
	[NFSPROC3_MKNOD] = { "MKNOD", nfs3_proc_mknod, PROC_NOT_IDEMPOTENT, NULL },
	[NFSPROC3_REMOVE] = { "REMOVE", nfs3_proc_remove, PROC_NOT_IDEMPOTENT, NULL },
	[NFSPROC3_RMDIR] = { "RMDIR", nfs3_proc_rmdir, PROC_NOT_IDEMPOTENT, NULL },
	[NFSPROC3_RENAME] = { "RENAME", nfs3_proc_rename, PROC_NOT_IDEMPOTENT, NULL },
	[NFSPROC3_LINK] = { "LINK", nfs3_proc_link, PROC_NOT_IDEMPOTENT, NULL },
	[NFSPROC3_READDIR] = { "READDIR", nfs3_proc_readdir, 0, NULL },
	[NFSPROC3_READDIRPLUS] = { "READDIRPLUS", nfs3_proc_readdirplus, 0, NULL },
	[NFSPROC3_FSSTAT] = { "FSSTAT", nfs3_proc_fsstat, 0, NULL },
	[NFSPROC3_FSINFO] = { "FSINFO", nfs3_proc_fsinfo, 0, NULL },
	[NFSPROC3_PATHCONF] = { "PATHCONF", nfs3_proc_pathconf, 0, NULL },
	[NFSPROC3_COMMIT] = { "COMMIT", nfs3_proc_commit, 0, NULL },
};

static const struct rpc_version nfs_versions[] = { { NFS_V3, NFSPROC3_COUNT, nfs3_procedures } };
const struct rpc_program nfs_program = { NFS_PROGRAM, ARRAY_SIZE(nfs_versions), nfs_versions };
