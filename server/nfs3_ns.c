/*
 * server/nfs3_ns.c - the procedures that look up, make, remove and rename names (RFC 1813 sections 3.3.3, 3.3.5, 3.3.8 to 3.3.15).
 *
 * CREATE, MKDIR, SYMLINK and MKNOD have one result in four names, and so have REMOVE and RMDIR in two; the structs are the same by the RFC, which the static
 * assertions below hold us to.
 */
#include <assert.h>
#include <sys/stat.h>

#include "runtime/buf.h"
#include "server/conn.h"
#include "server/nfs3.h"
#include "server/reply.h"
#include "vfs/file.h"
#include "vfs/ns.h"

static_assert(sizeof(struct CREATE3res) == sizeof(struct MKDIR3res) && sizeof(struct CREATE3res) == sizeof(struct SYMLINK3res) &&
	      sizeof(struct CREATE3res) == sizeof(struct MKNOD3res), "four names of one result");
static_assert(sizeof(struct REMOVE3res) == sizeof(struct RMDIR3res), "two names of one result");

enum call_outcome nfs3_proc_lookup(struct rpc_call *call)
{
	struct LOOKUP3args args;
	struct LOOKUP3res res;
	struct nfs3_object dir;
	struct vfs_node node;
	struct vfs_attr dir_attr;
	bool dir_attr_valid = false;
	if (!xdr_dec_LOOKUP3args(&call->args, &args))
		return CALL_GARBAGE;
	int err = nfs3_object_get(call, &args.what.dir, &dir);
	if (err == 0)
		err = vfs_lookup(&dir.call, dir.file, nfs3_name(args.what.name), &node, &dir_attr, &dir_attr_valid);
	res.status = nfs3_status(call, err);
	struct post_op_attr after = dir_attr_valid ? nfs3_post_op(true, &dir_attr) : nfs3_object_attr(&dir);
	if (err == 0)
		res.resok = (struct LOOKUP3resok){ .object = nfs3_fh(&node.fh), .obj_attributes = nfs3_post_op(true, &node.attr), .dir_attributes = after };
	else
		res.resfail.dir_attributes = after;
	nfs3_object_put(&dir);
	return nfs3_encoded(xdr_enc_LOOKUP3res(&call->reply->out, &res));
}

/* A target may be longer than a small reply, and than a fiber's stack should carry. */
enum call_outcome nfs3_proc_readlink(struct rpc_call *call)
{
	struct READLINK3args args;
	struct READLINK3res res;
	struct nfs3_object o;
	struct vfs_attr attr;
	struct buf *target = NULL;
	bool attr_valid = false;
	uint32_t len = 0;
	if (!xdr_dec_READLINK3args(&call->args, &args))
		return CALL_GARBAGE;
	int err = nfs3_object_get(call, &args.symlink, &o);
	if (err == 0 && ((target = buf_alloc(VFS_PATH_MAX)) == NULL || !reply_reserve(call->reply, 2 * VFS_PATH_MAX)))
		err = -ENOMEM;
	if (err == 0)
		err = vfs_readlink(&o.call, o.file, (char *)target->data, &len, &attr, &attr_valid);
	res.status = nfs3_status(call, err);
	struct post_op_attr after = attr_valid ? nfs3_post_op(true, &attr) : nfs3_object_attr(&o);
	if (err == 0)
		res.resok = (struct READLINK3resok){ .symlink_attributes = after, .data = xdr_bytes_of(target->data, len) };
	else
		res.resfail.symlink_attributes = after;
	bool encoded = xdr_enc_READLINK3res(&call->reply->out, &res);
	if (target != NULL)
		buf_put(target);
	nfs3_object_put(&o);
	return nfs3_encoded(encoded);
}

/* --- what makes a name --- */

/* Fill the result that CREATE, MKDIR, SYMLINK and MKNOD share. */
static void made(struct rpc_call *call, int err, struct nfs3_object *dir, const struct vfs_node *node, const struct vfs_wcc *wcc, struct CREATE3res *res)
{
	struct wcc_data dir_wcc = nfs3_wcc(wcc);
	if (!wcc->post_valid)
		dir_wcc.after = nfs3_object_attr(dir);
	res->status = nfs3_status(call, err);
	if (err == 0)
		res->resok = (struct CREATE3resok){ .obj = { true, nfs3_fh(&node->fh) }, .obj_attributes = nfs3_post_op(true, &node->attr), .dir_wcc = dir_wcc };
	else
		res->resfail.dir_wcc = dir_wcc;
}

static int create(struct nfs3_object *dir, const struct CREATE3args *args, struct vfs_node *node, struct vfs_wcc *wcc)
{
	static const enum vfs_create_how how[] = { [UNCHECKED] = VFS_CREATE_UNCHECKED, [GUARDED] = VFS_CREATE_GUARDED, [EXCLUSIVE] = VFS_CREATE_EXCLUSIVE };
	struct vfs_sattr sattr = { .set_mode = false };
	int err = args->how.mode == EXCLUSIVE ? 0 : nfs3_sattr(&args->how.obj_attributes, &sattr);
	const uint8_t *verf = args->how.mode == EXCLUSIVE ? args->how.verf : NULL;
	return err != 0 ? err : vfs_create(&dir->call, dir->file, nfs3_name(args->where.name), how[args->how.mode], &sattr, verf, node, wcc);
}

enum call_outcome nfs3_proc_create(struct rpc_call *call)
{
	struct CREATE3args args;
	struct CREATE3res res;
	struct nfs3_object dir;
	struct vfs_node node;
	struct vfs_wcc wcc = { .post_valid = false };
	if (!xdr_dec_CREATE3args(&call->args, &args))
		return CALL_GARBAGE;
	int err = nfs3_object_get(call, &args.where.dir, &dir);
	if (err == 0)
		err = create(&dir, &args, &node, &wcc);
	made(call, err, &dir, &node, &wcc, &res);
	nfs3_object_put(&dir);
	return nfs3_encoded(xdr_enc_CREATE3res(&call->reply->out, &res));
}

enum call_outcome nfs3_proc_mkdir(struct rpc_call *call)
{
	struct MKDIR3args args;
	struct CREATE3res res;
	struct nfs3_object dir;
	struct vfs_node node;
	struct vfs_sattr sattr;
	struct vfs_wcc wcc = { .post_valid = false };
	if (!xdr_dec_MKDIR3args(&call->args, &args))
		return CALL_GARBAGE;
	int err = nfs3_object_get(call, &args.where.dir, &dir);
	if (err == 0)
		err = nfs3_sattr(&args.attributes, &sattr);
	if (err == 0)
		err = vfs_mkdir(&dir.call, dir.file, nfs3_name(args.where.name), &sattr, &node, &wcc);
	made(call, err, &dir, &node, &wcc, &res);
	nfs3_object_put(&dir);
	return nfs3_encoded(xdr_enc_MKDIR3res(&call->reply->out, (const struct MKDIR3res *)&res));
}

enum call_outcome nfs3_proc_symlink(struct rpc_call *call)
{
	struct SYMLINK3args args;
	struct CREATE3res res;
	struct nfs3_object dir;
	struct vfs_node node;
	struct vfs_sattr sattr;
	struct vfs_wcc wcc = { .post_valid = false };
	if (!xdr_dec_SYMLINK3args(&call->args, &args))
		return CALL_GARBAGE;
	int err = nfs3_object_get(call, &args.where.dir, &dir);
	if (err == 0)
		err = nfs3_sattr(&args.symlink.symlink_attributes, &sattr);
	if (err == 0)
		err = vfs_symlink(&dir.call, dir.file, nfs3_name(args.where.name), nfs3_name(args.symlink.symlink_data), &sattr, &node, &wcc);
	made(call, err, &dir, &node, &wcc, &res);
	nfs3_object_put(&dir);
	return nfs3_encoded(xdr_enc_SYMLINK3res(&call->reply->out, (const struct SYMLINK3res *)&res));
}

/* NFS3ERR_BADTYPE has no errno: *bad_type. */
static int mknod_args(const struct mknoddata3 *what, uint32_t *type, struct specdata3 *spec, struct vfs_sattr *sattr, bool *bad_type)
{
	static const uint32_t types[] = { [NF3CHR] = S_IFCHR, [NF3BLK] = S_IFBLK, [NF3SOCK] = S_IFSOCK, [NF3FIFO] = S_IFIFO };
	bool device = what->type == NF3CHR || what->type == NF3BLK;
	*bad_type = !device && what->type != NF3SOCK && what->type != NF3FIFO;
	if (*bad_type)
		return -EINVAL;
	*type = types[what->type];
	*spec = device ? what->device.spec : (struct specdata3){ 0, 0 };
	return nfs3_sattr(device ? &what->device.dev_attributes : &what->pipe_attributes, sattr);
}

enum call_outcome nfs3_proc_mknod(struct rpc_call *call)
{
	struct MKNOD3args args;
	struct CREATE3res res;
	struct nfs3_object dir;
	struct vfs_node node;
	struct vfs_sattr sattr;
	struct specdata3 spec;
	struct vfs_wcc wcc = { .post_valid = false };
	uint32_t type;
	bool bad_type = false;
	if (!xdr_dec_MKNOD3args(&call->args, &args))
		return CALL_GARBAGE;
	int err = nfs3_object_get(call, &args.where.dir, &dir);
	if (err == 0)
		err = mknod_args(&args.what, &type, &spec, &sattr, &bad_type);
	if (err == 0)
		err = vfs_mknod(&dir.call, dir.file, nfs3_name(args.where.name), type, spec.specdata1, spec.specdata2, &sattr, &node, &wcc);
	made(call, err, &dir, &node, &wcc, &res);
	if (bad_type)
		res.status = NFS3ERR_BADTYPE;
	nfs3_object_put(&dir);
	return nfs3_encoded(xdr_enc_MKNOD3res(&call->reply->out, (const struct MKNOD3res *)&res));
}

/* --- what removes a name --- */

typedef int remove_fn(const struct vfs_call *call, struct vfs_file *dir, struct vfs_name name, struct vfs_wcc *dir_wcc);

static enum call_outcome remove_name(struct rpc_call *call, const struct diropargs3 *object, remove_fn *remove_it)
{
	struct REMOVE3res res;
	struct nfs3_object dir;
	struct vfs_wcc wcc = { .post_valid = false };
	int err = nfs3_object_get(call, &object->dir, &dir);
	if (err == 0)
		err = remove_it(&dir.call, dir.file, nfs3_name(object->name), &wcc);
	res.status = nfs3_status(call, err);
	res.resok.dir_wcc = nfs3_wcc(&wcc);
	if (!wcc.post_valid)
		res.resok.dir_wcc.after = nfs3_object_attr(&dir);
	nfs3_object_put(&dir);
	return nfs3_encoded(xdr_enc_REMOVE3res(&call->reply->out, &res));
}

enum call_outcome nfs3_proc_remove(struct rpc_call *call)
{
	struct REMOVE3args args;
	return xdr_dec_REMOVE3args(&call->args, &args) ? remove_name(call, &args.object, vfs_remove) : CALL_GARBAGE;
}

enum call_outcome nfs3_proc_rmdir(struct rpc_call *call)
{
	struct RMDIR3args args;
	return xdr_dec_RMDIR3args(&call->args, &args) ? remove_name(call, &args.object, vfs_rmdir) : CALL_GARBAGE;
}

/* --- two objects --- */

enum call_outcome nfs3_proc_rename(struct rpc_call *call)
{
	struct RENAME3args args;
	struct RENAME3res res;
	struct nfs3_object from, to = { .file = NULL };
	struct vfs_wcc from_wcc = { .post_valid = false }, to_wcc = { .post_valid = false };
	if (!xdr_dec_RENAME3args(&call->args, &args))
		return CALL_GARBAGE;
	int err = nfs3_object_get(call, &args.from.dir, &from);
	if (err == 0)
		err = nfs3_object_get(call, &args.to.dir, &to);
	if (err == 0)
		err = vfs_rename(&from.call, from.file, nfs3_name(args.from.name), &to.call, to.file, nfs3_name(args.to.name), &from_wcc, &to_wcc);
	res.status = nfs3_status(call, err);
	res.resok.fromdir_wcc = nfs3_wcc(&from_wcc);
	res.resok.todir_wcc = nfs3_wcc(&to_wcc);
	if (!from_wcc.post_valid)
		res.resok.fromdir_wcc.after = nfs3_object_attr(&from);
	if (!to_wcc.post_valid)
		res.resok.todir_wcc.after = nfs3_object_attr(&to);
	nfs3_object_put(&to);
	nfs3_object_put(&from);
	return nfs3_encoded(xdr_enc_RENAME3res(&call->reply->out, &res));
}

enum call_outcome nfs3_proc_link(struct rpc_call *call)
{
	struct LINK3args args;
	struct LINK3res res;
	struct nfs3_object file, dir = { .file = NULL };
	struct vfs_attr attr;
	struct vfs_wcc wcc = { .post_valid = false };
	bool attr_valid = false;
	if (!xdr_dec_LINK3args(&call->args, &args))
		return CALL_GARBAGE;
	int err = nfs3_object_get(call, &args.file, &file);
	if (err == 0)
		err = nfs3_object_get(call, &args.link.dir, &dir);
	if (err == 0)
		err = vfs_link(&file.call, file.file, &dir.call, dir.file, nfs3_name(args.link.name), &attr, &attr_valid, &wcc);
	res.status = nfs3_status(call, err);
	res.resok.file_attributes = attr_valid ? nfs3_post_op(true, &attr) : nfs3_object_attr(&file);
	res.resok.linkdir_wcc = nfs3_wcc(&wcc);
	if (!wcc.post_valid)
		res.resok.linkdir_wcc.after = nfs3_object_attr(&dir);
	nfs3_object_put(&dir);
	nfs3_object_put(&file);
	return nfs3_encoded(xdr_enc_LINK3res(&call->reply->out, &res));
}
