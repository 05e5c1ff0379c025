/*
 * proto/nfs3_res_xdr.c - codecs of the procedures' results (RFC 1813 section 3.3; NULL has none), in the order of the procedure numbers.
 *
 * Each result is a status word, then resok if it is NFS3_OK and resfail otherwise. A decoder takes any status word: a client has to read what newer
 * servers say.
 */
#include <assert.h>

#include "proto/nfs3.h"

static_assert(NFS3_READ3RES_HEAD_BYTES_MAX == 104, "status, attributes, count, eof, length");
static_assert(NFS3_WCC_DATA_BYTES_MAX == 116, "pre-op attributes of 24 bytes, post-op attributes of 84, a word before each");

static bool dec_status(struct xdr *x, struct nfsstat3 *status) { return xdr_dec_u32(x, &status->v); }
static bool enc_status(struct xdr_out *x, struct nfsstat3 status) { return xdr_enc_u32(x, status.v); }

bool xdr_dec_GETATTR3res(struct xdr *x, struct GETATTR3res *r)
{
	return dec_status(x, &r->status) && (!nfsstat3_is_ok(r->status) || xdr_dec_fattr3(x, &r->resok.obj_attributes));
}

bool xdr_enc_GETATTR3res(struct xdr_out *x, const struct GETATTR3res *r)
{
	return enc_status(x, r->status) && (!nfsstat3_is_ok(r->status) || xdr_enc_fattr3(x, &r->resok.obj_attributes));
}

bool xdr_dec_SETATTR3res(struct xdr *x, struct SETATTR3res *r)
{
	if (!dec_status(x, &r->status))
		return false;
	return nfsstat3_is_ok(r->status) ? xdr_dec_wcc_data(x, &r->resok.obj_wcc) : xdr_dec_wcc_data(x, &r->resfail.obj_wcc);
}

bool xdr_enc_SETATTR3res(struct xdr_out *x, const struct SETATTR3res *r)
{
	if (!enc_status(x, r->status))
		return false;
	return nfsstat3_is_ok(r->status) ? xdr_enc_wcc_data(x, &r->resok.obj_wcc) : xdr_enc_wcc_data(x, &r->resfail.obj_wcc);
}

static bool dec_LOOKUP3resok(struct xdr *x, struct LOOKUP3resok *r)
{
	return xdr_dec_nfs_fh3(x, &r->object) && xdr_dec_post_op_attr(x, &r->obj_attributes) &&
		xdr_dec_post_op_attr(x, &r->dir_attributes);
}

bool xdr_dec_LOOKUP3res(struct xdr *x, struct LOOKUP3res *r)
{
	if (!dec_status(x, &r->status))
		return false;
	return nfsstat3_is_ok(r->status) ? dec_LOOKUP3resok(x, &r->resok) : xdr_dec_post_op_attr(x, &r->resfail.dir_attributes);
}

static bool enc_LOOKUP3resok(struct xdr_out *x, const struct LOOKUP3resok *r)
{
	return xdr_enc_nfs_fh3(x, &r->object) && xdr_enc_post_op_attr(x, &r->obj_attributes) &&
		xdr_enc_post_op_attr(x, &r->dir_attributes);
}

bool xdr_enc_LOOKUP3res(struct xdr_out *x, const struct LOOKUP3res *r)
{
	if (!enc_status(x, r->status))
		return false;
	return nfsstat3_is_ok(r->status) ? enc_LOOKUP3resok(x, &r->resok) : xdr_enc_post_op_attr(x, &r->resfail.dir_attributes);
}

static bool dec_ACCESS3resok(struct xdr *x, struct ACCESS3resok *r)
{
	return xdr_dec_post_op_attr(x, &r->obj_attributes) && xdr_dec_u32(x, &r->access);
}

bool xdr_dec_ACCESS3res(struct xdr *x, struct ACCESS3res *r)
{
	if (!dec_status(x, &r->status))
		return false;
	return nfsstat3_is_ok(r->status) ? dec_ACCESS3resok(x, &r->resok) : xdr_dec_post_op_attr(x, &r->resfail.obj_attributes);
}

static bool enc_ACCESS3resok(struct xdr_out *x, const struct ACCESS3resok *r)
{
	return xdr_enc_post_op_attr(x, &r->obj_attributes) && xdr_enc_u32(x, r->access);
}

bool xdr_enc_ACCESS3res(struct xdr_out *x, const struct ACCESS3res *r)
{
	if (!enc_status(x, r->status))
		return false;
	return nfsstat3_is_ok(r->status) ? enc_ACCESS3resok(x, &r->resok) : xdr_enc_post_op_attr(x, &r->resfail.obj_attributes);
}

static bool dec_READLINK3resok(struct xdr *x, struct READLINK3resok *r)
{
	return xdr_dec_post_op_attr(x, &r->symlink_attributes) && xdr_dec_bytes(x, &r->data, NFS3_PATH_DECODE_MAX);
}

bool xdr_dec_READLINK3res(struct xdr *x, struct READLINK3res *r)
{
	if (!dec_status(x, &r->status))
		return false;
	return nfsstat3_is_ok(r->status) ? dec_READLINK3resok(x, &r->resok) : xdr_dec_post_op_attr(x, &r->resfail.symlink_attributes);
}

static bool enc_READLINK3resok(struct xdr_out *x, const struct READLINK3resok *r)
{
	return xdr_enc_post_op_attr(x, &r->symlink_attributes) && xdr_enc_bytes(x, r->data, NFS3_PATH_DECODE_MAX);
}

bool xdr_enc_READLINK3res(struct xdr_out *x, const struct READLINK3res *r)
{
	if (!enc_status(x, r->status))
		return false;
	return nfsstat3_is_ok(r->status) ? enc_READLINK3resok(x, &r->resok) : xdr_enc_post_op_attr(x, &r->resfail.symlink_attributes);
}

static bool dec_READ3resok(struct xdr *x, struct READ3resok *r)
{
	return xdr_dec_post_op_attr(x, &r->file_attributes) && xdr_dec_u32(x, &r->count) && xdr_dec_bool(x, &r->eof) &&
		xdr_dec_bytes(x, &r->data, UINT32_MAX);
}

bool xdr_dec_READ3res(struct xdr *x, struct READ3res *r)
{
	if (!dec_status(x, &r->status))
		return false;
	return nfsstat3_is_ok(r->status) ? dec_READ3resok(x, &r->resok) : xdr_dec_post_op_attr(x, &r->resfail.file_attributes);
}

static bool enc_READ3resok_head(struct xdr_out *x, const struct READ3resok *r)
{
	return xdr_enc_post_op_attr(x, &r->file_attributes) && xdr_enc_u32(x, r->count) && xdr_enc_bool(x, r->eof) && xdr_enc_u32(x, r->data.len);
}

bool xdr_enc_READ3res_head(struct xdr_out *x, const struct READ3res *r)
{
	if (!enc_status(x, r->status))
		return false;
	return nfsstat3_is_ok(r->status) ? enc_READ3resok_head(x, &r->resok) : xdr_enc_post_op_attr(x, &r->resfail.file_attributes);
}

bool xdr_enc_READ3res(struct xdr_out *x, const struct READ3res *r)
{
	if (!xdr_enc_READ3res_head(x, r))
		return false;
	return !nfsstat3_is_ok(r->status) || xdr_enc_fixed(x, r->resok.data.ptr, r->resok.data.len);
}

static bool dec_committed(struct xdr *x, enum stable_how *committed)
{
	uint32_t v;

	if (!xdr_dec_range(x, &v, UNSTABLE, FILE_SYNC))
		return false;
	*committed = v;
	return true;
}

static bool dec_WRITE3resok(struct xdr *x, struct WRITE3resok *r)
{
	return xdr_dec_wcc_data(x, &r->file_wcc) && xdr_dec_u32(x, &r->count) && dec_committed(x, &r->committed) &&
		xdr_dec_fixed(x, r->verf, NFS3_WRITEVERFSIZE);
}

bool xdr_dec_WRITE3res(struct xdr *x, struct WRITE3res *r)
{
	if (!dec_status(x, &r->status))
		return false;
	return nfsstat3_is_ok(r->status) ? dec_WRITE3resok(x, &r->resok) : xdr_dec_wcc_data(x, &r->resfail.file_wcc);
}

static bool enc_WRITE3resok(struct xdr_out *x, const struct WRITE3resok *r)
{
	return xdr_enc_wcc_data(x, &r->file_wcc) && xdr_enc_u32(x, r->count) && xdr_enc_u32(x, r->committed) &&
		xdr_enc_fixed(x, r->verf, NFS3_WRITEVERFSIZE);
}

bool xdr_enc_WRITE3res(struct xdr_out *x, const struct WRITE3res *r)
{
	if (!enc_status(x, r->status))
		return false;
	return nfsstat3_is_ok(r->status) ? enc_WRITE3resok(x, &r->resok) : xdr_enc_wcc_data(x, &r->resfail.file_wcc);
}

/* CREATE, MKDIR, SYMLINK and MKNOD answer alike; what differs is the type that the RFC gives the answer. */
static bool dec_created(struct xdr *x, struct post_op_fh3 *obj, struct post_op_attr *obj_attributes, struct wcc_data *dir_wcc)
{
	return xdr_dec_post_op_fh3(x, obj) && xdr_dec_post_op_attr(x, obj_attributes) && xdr_dec_wcc_data(x, dir_wcc);
}

static bool enc_created(struct xdr_out *x, const struct post_op_fh3 *obj, const struct post_op_attr *obj_attributes, const struct wcc_data *dir_wcc)
{
	return xdr_enc_post_op_fh3(x, obj) && xdr_enc_post_op_attr(x, obj_attributes) && xdr_enc_wcc_data(x, dir_wcc);
}

bool xdr_dec_CREATE3res(struct xdr *x, struct CREATE3res *r)
{
	if (!dec_status(x, &r->status))
		return false;
	if (!nfsstat3_is_ok(r->status))
		return xdr_dec_wcc_data(x, &r->resfail.dir_wcc);
	return dec_created(x, &r->resok.obj, &r->resok.obj_attributes, &r->resok.dir_wcc);
}

bool xdr_enc_CREATE3res(struct xdr_out *x, const struct CREATE3res *r)
{
	if (!enc_status(x, r->status))
		return false;
	if (!nfsstat3_is_ok(r->status))
		return xdr_enc_wcc_data(x, &r->resfail.dir_wcc);
	return enc_created(x, &r->resok.obj, &r->resok.obj_attributes, &r->resok.dir_wcc);
}

bool xdr_dec_MKDIR3res(struct xdr *x, struct MKDIR3res *r)
{
	if (!dec_status(x, &r->status))
		return false;
	if (!nfsstat3_is_ok(r->status))
		return xdr_dec_wcc_data(x, &r->resfail.dir_wcc);
	return dec_created(x, &r->resok.obj, &r->resok.obj_attributes, &r->resok.dir_wcc);
}

bool xdr_enc_MKDIR3res(struct xdr_out *x, const struct MKDIR3res *r)
{
	if (!enc_status(x, r->status))
		return false;
	if (!nfsstat3_is_ok(r->status))
		return xdr_enc_wcc_data(x, &r->resfail.dir_wcc);
	return enc_created(x, &r->resok.obj, &r->resok.obj_attributes, &r->resok.dir_wcc);
}

bool xdr_dec_SYMLINK3res(struct xdr *x, struct SYMLINK3res *r)
{
	if (!dec_status(x, &r->status))
		return false;
	if (!nfsstat3_is_ok(r->status))
		return xdr_dec_wcc_data(x, &r->resfail.dir_wcc);
	return dec_created(x, &r->resok.obj, &r->resok.obj_attributes, &r->resok.dir_wcc);
}

bool xdr_enc_SYMLINK3res(struct xdr_out *x, const struct SYMLINK3res *r)
{
	if (!enc_status(x, r->status))
		return false;
	if (!nfsstat3_is_ok(r->status))
		return xdr_enc_wcc_data(x, &r->resfail.dir_wcc);
	return enc_created(x, &r->resok.obj, &r->resok.obj_attributes, &r->resok.dir_wcc);
}

bool xdr_dec_MKNOD3res(struct xdr *x, struct MKNOD3res *r)
{
	if (!dec_status(x, &r->status))
		return false;
	if (!nfsstat3_is_ok(r->status))
		return xdr_dec_wcc_data(x, &r->resfail.dir_wcc);
	return dec_created(x, &r->resok.obj, &r->resok.obj_attributes, &r->resok.dir_wcc);
}

bool xdr_enc_MKNOD3res(struct xdr_out *x, const struct MKNOD3res *r)
{
	if (!enc_status(x, r->status))
		return false;
	if (!nfsstat3_is_ok(r->status))
		return xdr_enc_wcc_data(x, &r->resfail.dir_wcc);
	return enc_created(x, &r->resok.obj, &r->resok.obj_attributes, &r->resok.dir_wcc);
}

bool xdr_dec_REMOVE3res(struct xdr *x, struct REMOVE3res *r)
{
	if (!dec_status(x, &r->status))
		return false;
	return nfsstat3_is_ok(r->status) ? xdr_dec_wcc_data(x, &r->resok.dir_wcc) : xdr_dec_wcc_data(x, &r->resfail.dir_wcc);
}

bool xdr_enc_REMOVE3res(struct xdr_out *x, const struct REMOVE3res *r)
{
	if (!enc_status(x, r->status))
		return false;
	return nfsstat3_is_ok(r->status) ? xdr_enc_wcc_data(x, &r->resok.dir_wcc) : xdr_enc_wcc_data(x, &r->resfail.dir_wcc);
}

bool xdr_dec_RMDIR3res(struct xdr *x, struct RMDIR3res *r)
{
	if (!dec_status(x, &r->status))
		return false;
	return nfsstat3_is_ok(r->status) ? xdr_dec_wcc_data(x, &r->resok.dir_wcc) : xdr_dec_wcc_data(x, &r->resfail.dir_wcc);
}

bool xdr_enc_RMDIR3res(struct xdr_out *x, const struct RMDIR3res *r)
{
	if (!enc_status(x, r->status))
		return false;
	return nfsstat3_is_ok(r->status) ? xdr_enc_wcc_data(x, &r->resok.dir_wcc) : xdr_enc_wcc_data(x, &r->resfail.dir_wcc);
}

static bool dec_RENAME3resok(struct xdr *x, struct RENAME3resok *r)
{
	return xdr_dec_wcc_data(x, &r->fromdir_wcc) && xdr_dec_wcc_data(x, &r->todir_wcc);
}

static bool dec_RENAME3resfail(struct xdr *x, struct RENAME3resfail *r)
{
	return xdr_dec_wcc_data(x, &r->fromdir_wcc) && xdr_dec_wcc_data(x, &r->todir_wcc);
}

bool xdr_dec_RENAME3res(struct xdr *x, struct RENAME3res *r)
{
	if (!dec_status(x, &r->status))
		return false;
	return nfsstat3_is_ok(r->status) ? dec_RENAME3resok(x, &r->resok) : dec_RENAME3resfail(x, &r->resfail);
}

static bool enc_RENAME3resok(struct xdr_out *x, const struct RENAME3resok *r)
{
	return xdr_enc_wcc_data(x, &r->fromdir_wcc) && xdr_enc_wcc_data(x, &r->todir_wcc);
}

static bool enc_RENAME3resfail(struct xdr_out *x, const struct RENAME3resfail *r)
{
	return xdr_enc_wcc_data(x, &r->fromdir_wcc) && xdr_enc_wcc_data(x, &r->todir_wcc);
}

bool xdr_enc_RENAME3res(struct xdr_out *x, const struct RENAME3res *r)
{
	if (!enc_status(x, r->status))
		return false;
	return nfsstat3_is_ok(r->status) ? enc_RENAME3resok(x, &r->resok) : enc_RENAME3resfail(x, &r->resfail);
}

static bool dec_LINK3resok(struct xdr *x, struct LINK3resok *r)
{
	return xdr_dec_post_op_attr(x, &r->file_attributes) && xdr_dec_wcc_data(x, &r->linkdir_wcc);
}

static bool dec_LINK3resfail(struct xdr *x, struct LINK3resfail *r)
{
	return xdr_dec_post_op_attr(x, &r->file_attributes) && xdr_dec_wcc_data(x, &r->linkdir_wcc);
}

bool xdr_dec_LINK3res(struct xdr *x, struct LINK3res *r)
{
	if (!dec_status(x, &r->status))
		return false;
	return nfsstat3_is_ok(r->status) ? dec_LINK3resok(x, &r->resok) : dec_LINK3resfail(x, &r->resfail);
}

static bool enc_LINK3resok(struct xdr_out *x, const struct LINK3resok *r)
{
	return xdr_enc_post_op_attr(x, &r->file_attributes) && xdr_enc_wcc_data(x, &r->linkdir_wcc);
}

static bool enc_LINK3resfail(struct xdr_out *x, const struct LINK3resfail *r)
{
	return xdr_enc_post_op_attr(x, &r->file_attributes) && xdr_enc_wcc_data(x, &r->linkdir_wcc);
}

bool xdr_enc_LINK3res(struct xdr_out *x, const struct LINK3res *r)
{
	if (!enc_status(x, r->status))
		return false;
	return nfsstat3_is_ok(r->status) ? enc_LINK3resok(x, &r->resok) : enc_LINK3resfail(x, &r->resfail);
}

static bool dec_FSSTAT3resok(struct xdr *x, struct FSSTAT3resok *r)
{
	return xdr_dec_post_op_attr(x, &r->obj_attributes) && xdr_dec_u64(x, &r->tbytes) && xdr_dec_u64(x, &r->fbytes) &&
		xdr_dec_u64(x, &r->abytes) && xdr_dec_u64(x, &r->tfiles) && xdr_dec_u64(x, &r->ffiles) && xdr_dec_u64(x, &r->afiles) &&
		xdr_dec_u32(x, &r->invarsec);
}

bool xdr_dec_FSSTAT3res(struct xdr *x, struct FSSTAT3res *r)
{
	if (!dec_status(x, &r->status))
		return false;
	return nfsstat3_is_ok(r->status) ? dec_FSSTAT3resok(x, &r->resok) : xdr_dec_post_op_attr(x, &r->resfail.obj_attributes);
}

static bool enc_FSSTAT3resok(struct xdr_out *x, const struct FSSTAT3resok *r)
{
	return xdr_enc_post_op_attr(x, &r->obj_attributes) && xdr_enc_u64(x, r->tbytes) && xdr_enc_u64(x, r->fbytes) &&
		xdr_enc_u64(x, r->abytes) && xdr_enc_u64(x, r->tfiles) && xdr_enc_u64(x, r->ffiles) && xdr_enc_u64(x, r->afiles) &&
		xdr_enc_u32(x, r->invarsec);
}

bool xdr_enc_FSSTAT3res(struct xdr_out *x, const struct FSSTAT3res *r)
{
	if (!enc_status(x, r->status))
		return false;
	return nfsstat3_is_ok(r->status) ? enc_FSSTAT3resok(x, &r->resok) : xdr_enc_post_op_attr(x, &r->resfail.obj_attributes);
}

static bool dec_FSINFO3resok(struct xdr *x, struct FSINFO3resok *r)
{
	return xdr_dec_post_op_attr(x, &r->obj_attributes) && xdr_dec_u32(x, &r->rtmax) && xdr_dec_u32(x, &r->rtpref) &&
		xdr_dec_u32(x, &r->rtmult) && xdr_dec_u32(x, &r->wtmax) && xdr_dec_u32(x, &r->wtpref) && xdr_dec_u32(x, &r->wtmult) &&
		xdr_dec_u32(x, &r->dtpref) && xdr_dec_u64(x, &r->maxfilesize) && xdr_dec_nfstime3(x, &r->time_delta) &&
		xdr_dec_u32(x, &r->properties);
}

bool xdr_dec_FSINFO3res(struct xdr *x, struct FSINFO3res *r)
{
	if (!dec_status(x, &r->status))
		return false;
	return nfsstat3_is_ok(r->status) ? dec_FSINFO3resok(x, &r->resok) : xdr_dec_post_op_attr(x, &r->resfail.obj_attributes);
}

static bool enc_FSINFO3resok(struct xdr_out *x, const struct FSINFO3resok *r)
{
	return xdr_enc_post_op_attr(x, &r->obj_attributes) && xdr_enc_u32(x, r->rtmax) && xdr_enc_u32(x, r->rtpref) &&
		xdr_enc_u32(x, r->rtmult) && xdr_enc_u32(x, r->wtmax) && xdr_enc_u32(x, r->wtpref) && xdr_enc_u32(x, r->wtmult) &&
		xdr_enc_u32(x, r->dtpref) && xdr_enc_u64(x, r->maxfilesize) && xdr_enc_nfstime3(x, &r->time_delta) &&
		xdr_enc_u32(x, r->properties);
}

bool xdr_enc_FSINFO3res(struct xdr_out *x, const struct FSINFO3res *r)
{
	if (!enc_status(x, r->status))
		return false;
	return nfsstat3_is_ok(r->status) ? enc_FSINFO3resok(x, &r->resok) : xdr_enc_post_op_attr(x, &r->resfail.obj_attributes);
}

static bool dec_PATHCONF3resok(struct xdr *x, struct PATHCONF3resok *r)
{
	return xdr_dec_post_op_attr(x, &r->obj_attributes) && xdr_dec_u32(x, &r->linkmax) && xdr_dec_u32(x, &r->name_max) &&
		xdr_dec_bool(x, &r->no_trunc) && xdr_dec_bool(x, &r->chown_restricted) && xdr_dec_bool(x, &r->case_insensitive) &&
		xdr_dec_bool(x, &r->case_preserving);
}

bool xdr_dec_PATHCONF3res(struct xdr *x, struct PATHCONF3res *r)
{
	if (!dec_status(x, &r->status))
		return false;
	return nfsstat3_is_ok(r->status) ? dec_PATHCONF3resok(x, &r->resok) : xdr_dec_post_op_attr(x, &r->resfail.obj_attributes);
}

static bool enc_PATHCONF3resok(struct xdr_out *x, const struct PATHCONF3resok *r)
{
	return xdr_enc_post_op_attr(x, &r->obj_attributes) && xdr_enc_u32(x, r->linkmax) && xdr_enc_u32(x, r->name_max) &&
		xdr_enc_bool(x, r->no_trunc) && xdr_enc_bool(x, r->chown_restricted) && xdr_enc_bool(x, r->case_insensitive) &&
		xdr_enc_bool(x, r->case_preserving);
}

bool xdr_enc_PATHCONF3res(struct xdr_out *x, const struct PATHCONF3res *r)
{
	if (!enc_status(x, r->status))
		return false;
	return nfsstat3_is_ok(r->status) ? enc_PATHCONF3resok(x, &r->resok) : xdr_enc_post_op_attr(x, &r->resfail.obj_attributes);
}

static bool dec_COMMIT3resok(struct xdr *x, struct COMMIT3resok *r)
{
	return xdr_dec_wcc_data(x, &r->file_wcc) && xdr_dec_fixed(x, r->verf, NFS3_WRITEVERFSIZE);
}

bool xdr_dec_COMMIT3res(struct xdr *x, struct COMMIT3res *r)
{
	if (!dec_status(x, &r->status))
		return false;
	return nfsstat3_is_ok(r->status) ? dec_COMMIT3resok(x, &r->resok) : xdr_dec_wcc_data(x, &r->resfail.file_wcc);
}

static bool enc_COMMIT3resok(struct xdr_out *x, const struct COMMIT3resok *r)
{
	return xdr_enc_wcc_data(x, &r->file_wcc) && xdr_enc_fixed(x, r->verf, NFS3_WRITEVERFSIZE);
}

bool xdr_enc_COMMIT3res(struct xdr_out *x, const struct COMMIT3res *r)
{
	if (!enc_status(x, r->status))
		return false;
	return nfsstat3_is_ok(r->status) ? enc_COMMIT3resok(x, &r->resok) : xdr_enc_wcc_data(x, &r->resfail.file_wcc);
}
