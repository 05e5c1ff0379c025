/*
 * server/nfs3_attr.c - between vfs/'s values and the wire's: handles, attributes, times; and the procedures that are about attributes alone.
 */
#include <sys/stat.h>

#include "server/conn.h"
#include "server/nfs3.h"
#include "server/reply.h"
#include "vfs/attr.h"
#include "vfs/export.h"
#include "vfs/fh.h"
#include "vfs/file.h"
#include "vfs/ns.h"

/* --- objects --- */

/* A name service that works answers in this time; of one that does not the client hears JUKEBOX and asks again. */
static const uint64_t name_wait_ns = 200000000;

/* The view of an export id for this client, after looking for an absent export or asking for the client's name if need be. */
static int view_find(uint64_t export_id, const struct sockaddr *client, struct export_view **view)
{
	int err = export_view_by_id(export_id, client, view);
	if (err == -ENODEV) {
		export_refresh();
		err = export_view_by_id(export_id, client, view);
	}
	if (err == -EAGAIN) {
		export_name_await(client, name_wait_ns);
		err = export_view_by_id(export_id, client, view);
	}
	return err == -ENODEV ? -ESTALE : err;
}

int nfs3_object_get(struct rpc_call *call, const struct nfs_fh3 *wire, struct nfs3_object *o)
{
	const struct sockaddr *client = (const struct sockaddr *)&call->conn->peer;
	struct vfs_fh fh = { .len = (uint8_t)wire->data.len };
	struct export_view *view;
	uint64_t export_id;
	*o = (struct nfs3_object){ .file = NULL };
	if (wire->data.len > VFS_FH_MAX)
		return -EBADF;
	memcpy(fh.data, wire->data.ptr, wire->data.len);
	int err = vfs_fh_parse(&fh, &export_id);
	if (err == 0)
		err = view_find(export_id, client, &view);
	if (err != 0)
		return err;
	o->call.view = view;
	o->call.client = conn_peer_number(call->conn);
	err = export_map_cred(view, client, call->has_cred ? &call->cred : NULL, &o->call.cred);
	if (err == 0)
		err = vfs_file_get(&o->call, &fh, &o->file);
	if (err != 0)
		o->file = NULL;
	return err;
}

void nfs3_object_put(struct nfs3_object *o)
{
	if (o->file != NULL)
		vfs_file_put(o->file);
	if (o->call.view != NULL)
		export_view_put((struct export_view *)o->call.view);
}

struct post_op_attr nfs3_object_attr(struct nfs3_object *o)
{
	struct vfs_attr attr;
	bool valid = o->file != NULL && vfs_getattr(o->file, &attr) == 0;
	return nfs3_post_op(valid, &attr);
}

/* --- values --- */

/* RFC 1813 section 2.5: seconds are unsigned; what is outside is told as the nearest. */
static struct nfstime3 time_to_wire(struct timespec t)
{
	if (t.tv_sec < 0)
		return (struct nfstime3){ 0, 0 };
	if (t.tv_sec > UINT32_MAX)
		return (struct nfstime3){ UINT32_MAX, 0 };
	return (struct nfstime3){ (uint32_t)t.tv_sec, (uint32_t)t.tv_nsec };
}

struct timespec nfs3_time(struct nfstime3 t) { return (struct timespec){ .tv_sec = t.seconds, .tv_nsec = t.nseconds }; }

static enum ftype3 type_to_wire(uint32_t type_mode)
{
	switch (type_mode & S_IFMT) {
	case S_IFDIR: return NF3DIR;
	case S_IFBLK: return NF3BLK;
	case S_IFCHR: return NF3CHR;
	case S_IFLNK: return NF3LNK;
	case S_IFSOCK: return NF3SOCK;
	case S_IFIFO: return NF3FIFO;
	default: return NF3REG;
	}
}

struct fattr3 nfs3_fattr(const struct vfs_attr *a)
{
	return (struct fattr3){
		.type = type_to_wire(a->type_mode),
		.mode = a->type_mode & 07777,
		.nlink = a->nlink,
		.uid = a->uid,
		.gid = a->gid,
		.size = a->size,
		.used = a->used,
		.rdev = { a->rdev_major, a->rdev_minor },
		.fsid = a->fsid,
		.fileid = a->fileid,
		.atime = time_to_wire(a->atime),
		.mtime = time_to_wire(a->mtime),
		.ctime = time_to_wire(a->ctime),
	};
}

struct post_op_attr nfs3_post_op(bool valid, const struct vfs_attr *a)
{
	struct post_op_attr p = { .attributes_follow = valid };
	if (valid)
		p.attributes = nfs3_fattr(a);
	return p;
}

struct wcc_data nfs3_wcc(const struct vfs_wcc *w)
{
	struct wcc_data d = { .before.attributes_follow = w->pre_valid, .after = nfs3_post_op(w->post_valid, &w->post) };
	if (w->pre_valid)
		d.before.attributes = (struct wcc_attr){ w->pre.size, time_to_wire(w->pre.mtime), time_to_wire(w->pre.ctime) };
	return d;
}

static bool time_valid(enum time_how how, struct nfstime3 t) { return how != SET_TO_CLIENT_TIME || t.nseconds < 1000000000; }

static enum vfs_time_how time_how(enum time_how how)
{
	return how == SET_TO_CLIENT_TIME ? VFS_TIME_CLIENT : how == SET_TO_SERVER_TIME ? VFS_TIME_SERVER : VFS_TIME_KEEP;
}

int nfs3_sattr(const struct sattr3 *wire, struct vfs_sattr *sattr)
{
	if (!time_valid(wire->atime.set_it, wire->atime.atime) || !time_valid(wire->mtime.set_it, wire->mtime.mtime))
		return -EINVAL;
	*sattr = (struct vfs_sattr){
		.set_mode = wire->mode.set_it,
		.set_uid = wire->uid.set_it,
		.set_gid = wire->gid.set_it,
		.set_size = wire->size.set_it,
		.set_atime = time_how(wire->atime.set_it),
		.set_mtime = time_how(wire->mtime.set_it),
	};
	if (wire->mode.set_it)
		sattr->mode = wire->mode.mode & 07777;
	if (wire->uid.set_it)
		sattr->uid = wire->uid.uid;
	if (wire->gid.set_it)
		sattr->gid = wire->gid.gid;
	if (wire->size.set_it)
		sattr->size = wire->size.size;
	if (wire->atime.set_it == SET_TO_CLIENT_TIME)
		sattr->atime = nfs3_time(wire->atime.atime);
	if (wire->mtime.set_it == SET_TO_CLIENT_TIME)
		sattr->mtime = nfs3_time(wire->mtime.mtime);
	return 0;
}

struct nfs_fh3 nfs3_fh(const struct vfs_fh *fh) { return (struct nfs_fh3){ xdr_bytes_of(fh->data, fh->len) }; }
struct vfs_name nfs3_name(struct xdr_bytes name) { return (struct vfs_name){ (const char *)name.ptr, name.len }; }

/* --- GETATTR, SETATTR, ACCESS: RFC 1813 sections 3.3.1, 3.3.2, 3.3.4 --- */

enum call_outcome nfs3_proc_getattr(struct rpc_call *call)
{
	struct GETATTR3args args;
	struct GETATTR3res res;
	struct nfs3_object o;
	struct vfs_attr attr;
	if (!xdr_dec_GETATTR3args(&call->args, &args))
		return CALL_GARBAGE;
	int err = nfs3_object_get(call, &args.object, &o);
	if (err == 0)
		err = vfs_getattr(o.file, &attr);
	res.status = nfs3_status(call, err);
	if (err == 0)
		res.resok.obj_attributes = nfs3_fattr(&attr);
	nfs3_object_put(&o);
	return nfs3_encoded(xdr_enc_GETATTR3res(&call->reply->out, &res));
}

static int setattr(struct rpc_call *call, const struct SETATTR3args *args, struct nfs3_object *o, struct vfs_wcc *wcc)
{
	struct timespec guard = nfs3_time(args->guard.obj_ctime);
	struct vfs_sattr sattr;
	int err = nfs3_object_get(call, &args->object, o);
	if (err == 0)
		err = nfs3_sattr(&args->new_attributes, &sattr);
	return err != 0 ? err : vfs_setattr(&o->call, o->file, &sattr, args->guard.check ? &guard : NULL, wcc);
}

enum call_outcome nfs3_proc_setattr(struct rpc_call *call)
{
	struct SETATTR3args args;
	struct SETATTR3res res;
	struct nfs3_object o;
	struct vfs_wcc wcc = { .post_valid = false };
	if (!xdr_dec_SETATTR3args(&call->args, &args))
		return CALL_GARBAGE;
	res.status = nfs3_status(call, setattr(call, &args, &o, &wcc));
	res.resok.obj_wcc = nfs3_wcc(&wcc);
	if (!wcc.post_valid)
		res.resok.obj_wcc.after = nfs3_object_attr(&o);
	nfs3_object_put(&o);
	return nfs3_encoded(xdr_enc_SETATTR3res(&call->reply->out, &res));
}

enum call_outcome nfs3_proc_access(struct rpc_call *call)
{
	struct ACCESS3args args;
	struct ACCESS3res res;
	struct nfs3_object o;
	struct vfs_attr attr;
	if (!xdr_dec_ACCESS3args(&call->args, &args))
		return CALL_GARBAGE;
	int err = nfs3_object_get(call, &args.object, &o);
	if (err == 0)
		err = vfs_access(&o.call, o.file, args.access, &res.resok.access, &attr);
	res.status = nfs3_status(call, err);
	if (err == 0)
		res.resok.obj_attributes = nfs3_post_op(true, &attr);
	else
		res.resfail.obj_attributes = nfs3_object_attr(&o);
	nfs3_object_put(&o);
	return nfs3_encoded(xdr_enc_ACCESS3res(&call->reply->out, &res));
}
