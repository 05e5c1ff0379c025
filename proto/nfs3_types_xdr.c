/*
 * proto/nfs3_types_xdr.c - codecs of the types that NFSv3's procedures share (RFC 1813 sections 2.5 and 2.6).
 */
#include <assert.h>

#include "proto/nfs3.h"

static_assert(NFS3_FATTR3_BYTES == 5 * 4 + 2 * 8 + 2 * 4 + 2 * 8 + 3 * 8, "fattr3 field by field");

bool xdr_dec_nfs_fh3(struct xdr *x, struct nfs_fh3 *fh) { return xdr_dec_bytes(x, &fh->data, NFS3_FHSIZE); }
bool xdr_enc_nfs_fh3(struct xdr_out *x, const struct nfs_fh3 *fh) { return xdr_enc_bytes(x, fh->data, NFS3_FHSIZE); }

bool xdr_dec_nfstime3(struct xdr *x, struct nfstime3 *t) { return xdr_dec_u32(x, &t->seconds) && xdr_dec_u32(x, &t->nseconds); }
bool xdr_enc_nfstime3(struct xdr_out *x, const struct nfstime3 *t) { return xdr_enc_u32(x, t->seconds) && xdr_enc_u32(x, t->nseconds); }

bool xdr_dec_ftype3(struct xdr *x, enum ftype3 *type)
{
	uint32_t v;

	if (!xdr_dec_range(x, &v, NF3REG, NF3FIFO))
		return false;
	*type = v;
	return true;
}

bool xdr_dec_specdata3(struct xdr *x, struct specdata3 *s) { return xdr_dec_u32(x, &s->specdata1) && xdr_dec_u32(x, &s->specdata2); }
bool xdr_enc_specdata3(struct xdr_out *x, const struct specdata3 *s) { return xdr_enc_u32(x, s->specdata1) && xdr_enc_u32(x, s->specdata2); }

bool xdr_dec_fattr3(struct xdr *x, struct fattr3 *f)
{
	return xdr_dec_ftype3(x, &f->type) && xdr_dec_u32(x, &f->mode) && xdr_dec_u32(x, &f->nlink) && xdr_dec_u32(x, &f->uid) &&
		xdr_dec_u32(x, &f->gid) && xdr_dec_u64(x, &f->size) && xdr_dec_u64(x, &f->used) && xdr_dec_specdata3(x, &f->rdev) &&
		xdr_dec_u64(x, &f->fsid) && xdr_dec_u64(x, &f->fileid) && xdr_dec_nfstime3(x, &f->atime) && xdr_dec_nfstime3(x, &f->mtime) &&
		xdr_dec_nfstime3(x, &f->ctime);
}

static uint8_t *put_time(uint8_t *p, const struct nfstime3 *t)
{
	xdr_store32(p, t->seconds);
	xdr_store32(p + 4, t->nseconds);
	return p + 8;
}

/* In nearly every reply, often twice: one bounds check for all of it. */
bool xdr_enc_fattr3(struct xdr_out *x, const struct fattr3 *f)
{
	uint8_t *p = xdr_out_reserve(x, NFS3_FATTR3_BYTES);

	if (!p)
		return false;
	xdr_store32(p, f->type);
	xdr_store32(p + 4, f->mode);
	xdr_store32(p + 8, f->nlink);
	xdr_store32(p + 12, f->uid);
	xdr_store32(p + 16, f->gid);
	xdr_store64(p + 20, f->size);
	xdr_store64(p + 28, f->used);
	xdr_store32(p + 36, f->rdev.specdata1);
	xdr_store32(p + 40, f->rdev.specdata2);
	xdr_store64(p + 44, f->fsid);
	xdr_store64(p + 52, f->fileid);
	put_time(put_time(put_time(p + 60, &f->atime), &f->mtime), &f->ctime);
	return true;
}

bool xdr_dec_post_op_attr(struct xdr *x, struct post_op_attr *a)
{
	return xdr_dec_bool(x, &a->attributes_follow) && (!a->attributes_follow || xdr_dec_fattr3(x, &a->attributes));
}

bool xdr_enc_post_op_attr(struct xdr_out *x, const struct post_op_attr *a)
{
	return xdr_enc_bool(x, a->attributes_follow) && (!a->attributes_follow || xdr_enc_fattr3(x, &a->attributes));
}

static bool dec_wcc_attr(struct xdr *x, struct wcc_attr *w)
{
	return xdr_dec_u64(x, &w->size) && xdr_dec_nfstime3(x, &w->mtime) && xdr_dec_nfstime3(x, &w->ctime);
}

static bool enc_wcc_attr(struct xdr_out *x, const struct wcc_attr *w)
{
	return xdr_enc_u64(x, w->size) && xdr_enc_nfstime3(x, &w->mtime) && xdr_enc_nfstime3(x, &w->ctime);
}

static bool dec_pre_op_attr(struct xdr *x, struct pre_op_attr *a)
{
	return xdr_dec_bool(x, &a->attributes_follow) && (!a->attributes_follow || dec_wcc_attr(x, &a->attributes));
}

static bool enc_pre_op_attr(struct xdr_out *x, const struct pre_op_attr *a)
{
	return xdr_enc_bool(x, a->attributes_follow) && (!a->attributes_follow || enc_wcc_attr(x, &a->attributes));
}

bool xdr_dec_wcc_data(struct xdr *x, struct wcc_data *w) { return dec_pre_op_attr(x, &w->before) && xdr_dec_post_op_attr(x, &w->after); }
bool xdr_enc_wcc_data(struct xdr_out *x, const struct wcc_data *w) { return enc_pre_op_attr(x, &w->before) && xdr_enc_post_op_attr(x, &w->after); }

bool xdr_dec_post_op_fh3(struct xdr *x, struct post_op_fh3 *p)
{
	return xdr_dec_bool(x, &p->handle_follows) && (!p->handle_follows || xdr_dec_nfs_fh3(x, &p->handle));
}

bool xdr_enc_post_op_fh3(struct xdr_out *x, const struct post_op_fh3 *p)
{
	return xdr_enc_bool(x, p->handle_follows) && (!p->handle_follows || xdr_enc_nfs_fh3(x, &p->handle));
}

static bool dec_set_u32(struct xdr *x, bool *set_it, uint32_t *v) { return xdr_dec_bool(x, set_it) && (!*set_it || xdr_dec_u32(x, v)); }
static bool enc_set_u32(struct xdr_out *x, bool set_it, uint32_t v) { return xdr_enc_bool(x, set_it) && (!set_it || xdr_enc_u32(x, v)); }

static bool dec_set_size3(struct xdr *x, struct set_size3 *s) { return xdr_dec_bool(x, &s->set_it) && (!s->set_it || xdr_dec_u64(x, &s->size)); }

static bool enc_set_size3(struct xdr_out *x, const struct set_size3 *s)
{
	return xdr_enc_bool(x, s->set_it) && (!s->set_it || xdr_enc_u64(x, s->size));
}

/* set_atime and set_mtime have the same shape. */
static bool dec_set_time(struct xdr *x, enum time_how *set_it, struct nfstime3 *t)
{
	uint32_t how;

	if (!xdr_dec_range(x, &how, DONT_CHANGE, SET_TO_CLIENT_TIME))
		return false;
	*set_it = how;
	return how != SET_TO_CLIENT_TIME || xdr_dec_nfstime3(x, t);
}

static bool enc_set_time(struct xdr_out *x, enum time_how set_it, const struct nfstime3 *t)
{
	return xdr_enc_u32(x, set_it) && (set_it != SET_TO_CLIENT_TIME || xdr_enc_nfstime3(x, t));
}

bool xdr_dec_sattr3(struct xdr *x, struct sattr3 *s)
{
	return dec_set_u32(x, &s->mode.set_it, &s->mode.mode) && dec_set_u32(x, &s->uid.set_it, &s->uid.uid) &&
		dec_set_u32(x, &s->gid.set_it, &s->gid.gid) && dec_set_size3(x, &s->size) && dec_set_time(x, &s->atime.set_it, &s->atime.atime) &&
		dec_set_time(x, &s->mtime.set_it, &s->mtime.mtime);
}

bool xdr_enc_sattr3(struct xdr_out *x, const struct sattr3 *s)
{
	return enc_set_u32(x, s->mode.set_it, s->mode.mode) && enc_set_u32(x, s->uid.set_it, s->uid.uid) && enc_set_u32(x, s->gid.set_it, s->gid.gid) &&
		enc_set_size3(x, &s->size) && enc_set_time(x, s->atime.set_it, &s->atime.atime) && enc_set_time(x, s->mtime.set_it, &s->mtime.mtime);
}

bool xdr_dec_diropargs3(struct xdr *x, struct diropargs3 *d)
{
	return xdr_dec_nfs_fh3(x, &d->dir) && xdr_dec_bytes(x, &d->name, NFS3_NAME_DECODE_MAX);
}

bool xdr_enc_diropargs3(struct xdr_out *x, const struct diropargs3 *d)
{
	return xdr_enc_nfs_fh3(x, &d->dir) && xdr_enc_bytes(x, d->name, NFS3_NAME_DECODE_MAX);
}
