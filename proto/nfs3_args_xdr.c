/*
 * proto/nfs3_args_xdr.c - codecs of the 21 procedures' arguments (RFC 1813 section 3.3; NULL has none), in the order of the procedure numbers.
 */
#include <assert.h>

#include "proto/nfs3.h"

static_assert(NFS3_WRITE3ARGS_HEAD_BYTES_MAX == 88, "a 64-byte handle with its length, offset, count, stable, length");

bool xdr_dec_GETATTR3args(struct xdr *x, struct GETATTR3args *a) { return xdr_dec_nfs_fh3(x, &a->object); }
bool xdr_enc_GETATTR3args(struct xdr_out *x, const struct GETATTR3args *a) { return xdr_enc_nfs_fh3(x, &a->object); }

static bool dec_sattrguard3(struct xdr *x, struct sattrguard3 *g)
{
	return xdr_dec_bool(x, &g->check) && (!g->check || xdr_dec_nfstime3(x, &g->obj_ctime));
}

static bool enc_sattrguard3(struct xdr_out *x, const struct sattrguard3 *g)
{
	return xdr_enc_bool(x, g->check) && (!g->check || xdr_enc_nfstime3(x, &g->obj_ctime));
}

bool xdr_dec_SETATTR3args(struct xdr *x, struct SETATTR3args *a)
{
	return xdr_dec_nfs_fh3(x, &a->object) && xdr_dec_sattr3(x, &a->new_attributes) && dec_sattrguard3(x, &a->guard);
}

bool xdr_enc_SETATTR3args(struct xdr_out *x, const struct SETATTR3args *a)
{
	return xdr_enc_nfs_fh3(x, &a->object) && xdr_enc_sattr3(x, &a->new_attributes) && enc_sattrguard3(x, &a->guard);
}

bool xdr_dec_LOOKUP3args(struct xdr *x, struct LOOKUP3args *a) { return xdr_dec_diropargs3(x, &a->what); }
bool xdr_enc_LOOKUP3args(struct xdr_out *x, const struct LOOKUP3args *a) { return xdr_enc_diropargs3(x, &a->what); }

bool xdr_dec_ACCESS3args(struct xdr *x, struct ACCESS3args *a) { return xdr_dec_nfs_fh3(x, &a->object) && xdr_dec_u32(x, &a->access); }
bool xdr_enc_ACCESS3args(struct xdr_out *x, const struct ACCESS3args *a) { return xdr_enc_nfs_fh3(x, &a->object) && xdr_enc_u32(x, a->access); }

bool xdr_dec_READLINK3args(struct xdr *x, struct READLINK3args *a) { return xdr_dec_nfs_fh3(x, &a->symlink); }
bool xdr_enc_READLINK3args(struct xdr_out *x, const struct READLINK3args *a) { return xdr_enc_nfs_fh3(x, &a->symlink); }

bool xdr_dec_READ3args(struct xdr *x, struct READ3args *a)
{
	return xdr_dec_nfs_fh3(x, &a->file) && xdr_dec_u64(x, &a->offset) && xdr_dec_u32(x, &a->count);
}

bool xdr_enc_READ3args(struct xdr_out *x, const struct READ3args *a)
{
	return xdr_enc_nfs_fh3(x, &a->file) && xdr_enc_u64(x, a->offset) && xdr_enc_u32(x, a->count);
}

static bool dec_stable_how(struct xdr *x, enum stable_how *stable)
{
	uint32_t v;

	if (!xdr_dec_range(x, &v, UNSTABLE, FILE_SYNC))
		return false;
	*stable = v;
	return true;
}

/* RFC 1813 section 3.3.7 calls count "the number of bytes of data to be written": a message in which the two differ says two things at once. */
bool xdr_dec_WRITE3args_head(struct xdr *x, struct WRITE3args *a)
{
	if (!(xdr_dec_nfs_fh3(x, &a->file) && xdr_dec_u64(x, &a->offset) && xdr_dec_u32(x, &a->count) && dec_stable_how(x, &a->stable) &&
		xdr_dec_bytes_len(x, &a->data, UINT32_MAX)))
		return false;
	return a->data.len == a->count || xdr_invalid(x);
}

bool xdr_dec_WRITE3args(struct xdr *x, struct WRITE3args *a)
{
	if (!xdr_dec_WRITE3args_head(x, a))
		return false;
	a->data.ptr = xdr_take(x, (size_t)xdr_padded(a->data.len));
	return a->data.ptr != NULL;
}

bool xdr_enc_WRITE3args(struct xdr_out *x, const struct WRITE3args *a)
{
	return xdr_enc_nfs_fh3(x, &a->file) && xdr_enc_u64(x, a->offset) && xdr_enc_u32(x, a->count) && xdr_enc_u32(x, a->stable) &&
		xdr_enc_bytes(x, a->data, UINT32_MAX);
}

static bool dec_createhow3(struct xdr *x, struct createhow3 *h)
{
	uint32_t mode;

	if (!xdr_dec_range(x, &mode, UNCHECKED, EXCLUSIVE))
		return false;
	h->mode = mode;
	return h->mode == EXCLUSIVE ? xdr_dec_fixed(x, h->verf, NFS3_CREATEVERFSIZE) : xdr_dec_sattr3(x, &h->obj_attributes);
}

static bool enc_createhow3(struct xdr_out *x, const struct createhow3 *h)
{
	if (!xdr_enc_u32(x, h->mode))
		return false;
	return h->mode == EXCLUSIVE ? xdr_enc_fixed(x, h->verf, NFS3_CREATEVERFSIZE) : xdr_enc_sattr3(x, &h->obj_attributes);
}

bool xdr_dec_CREATE3args(struct xdr *x, struct CREATE3args *a) { return xdr_dec_diropargs3(x, &a->where) && dec_createhow3(x, &a->how); }
bool xdr_enc_CREATE3args(struct xdr_out *x, const struct CREATE3args *a) { return xdr_enc_diropargs3(x, &a->where) && enc_createhow3(x, &a->how); }

bool xdr_dec_MKDIR3args(struct xdr *x, struct MKDIR3args *a) { return xdr_dec_diropargs3(x, &a->where) && xdr_dec_sattr3(x, &a->attributes); }

bool xdr_enc_MKDIR3args(struct xdr_out *x, const struct MKDIR3args *a)
{
	return xdr_enc_diropargs3(x, &a->where) && xdr_enc_sattr3(x, &a->attributes);
}

bool xdr_dec_SYMLINK3args(struct xdr *x, struct SYMLINK3args *a)
{
	return xdr_dec_diropargs3(x, &a->where) && xdr_dec_sattr3(x, &a->symlink.symlink_attributes) &&
		xdr_dec_bytes(x, &a->symlink.symlink_data, NFS3_PATH_DECODE_MAX);
}

bool xdr_enc_SYMLINK3args(struct xdr_out *x, const struct SYMLINK3args *a)
{
	return xdr_enc_diropargs3(x, &a->where) && xdr_enc_sattr3(x, &a->symlink.symlink_attributes) &&
		xdr_enc_bytes(x, a->symlink.symlink_data, NFS3_PATH_DECODE_MAX);
}

static bool dec_mknoddata3(struct xdr *x, struct mknoddata3 *m)
{
	if (!xdr_dec_ftype3(x, &m->type))
		return false;
	switch (m->type) {
	case NF3CHR:
	case NF3BLK:
		return xdr_dec_sattr3(x, &m->device.dev_attributes) && xdr_dec_specdata3(x, &m->device.spec);
	case NF3SOCK:
	case NF3FIFO:
		return xdr_dec_sattr3(x, &m->pipe_attributes);
	default:
		return true;
	}
}

static bool enc_mknoddata3(struct xdr_out *x, const struct mknoddata3 *m)
{
	if (!xdr_enc_u32(x, m->type))
		return false;
	switch (m->type) {
	case NF3CHR:
	case NF3BLK:
		return xdr_enc_sattr3(x, &m->device.dev_attributes) && xdr_enc_specdata3(x, &m->device.spec);
	case NF3SOCK:
	case NF3FIFO:
		return xdr_enc_sattr3(x, &m->pipe_attributes);
	default:
		return true;
	}
}

bool xdr_dec_MKNOD3args(struct xdr *x, struct MKNOD3args *a) { return xdr_dec_diropargs3(x, &a->where) && dec_mknoddata3(x, &a->what); }
bool xdr_enc_MKNOD3args(struct xdr_out *x, const struct MKNOD3args *a) { return xdr_enc_diropargs3(x, &a->where) && enc_mknoddata3(x, &a->what); }

bool xdr_dec_REMOVE3args(struct xdr *x, struct REMOVE3args *a) { return xdr_dec_diropargs3(x, &a->object); }
bool xdr_enc_REMOVE3args(struct xdr_out *x, const struct REMOVE3args *a) { return xdr_enc_diropargs3(x, &a->object); }

bool xdr_dec_RMDIR3args(struct xdr *x, struct RMDIR3args *a) { return xdr_dec_diropargs3(x, &a->object); }
bool xdr_enc_RMDIR3args(struct xdr_out *x, const struct RMDIR3args *a) { return xdr_enc_diropargs3(x, &a->object); }

bool xdr_dec_RENAME3args(struct xdr *x, struct RENAME3args *a) { return xdr_dec_diropargs3(x, &a->from) && xdr_dec_diropargs3(x, &a->to); }
bool xdr_enc_RENAME3args(struct xdr_out *x, const struct RENAME3args *a) { return xdr_enc_diropargs3(x, &a->from) && xdr_enc_diropargs3(x, &a->to); }

bool xdr_dec_LINK3args(struct xdr *x, struct LINK3args *a) { return xdr_dec_nfs_fh3(x, &a->file) && xdr_dec_diropargs3(x, &a->link); }
bool xdr_enc_LINK3args(struct xdr_out *x, const struct LINK3args *a) { return xdr_enc_nfs_fh3(x, &a->file) && xdr_enc_diropargs3(x, &a->link); }

bool xdr_dec_READDIR3args(struct xdr *x, struct READDIR3args *a)
{
	return xdr_dec_nfs_fh3(x, &a->dir) && xdr_dec_u64(x, &a->cookie) && xdr_dec_fixed(x, a->cookieverf, NFS3_COOKIEVERFSIZE) &&
		xdr_dec_u32(x, &a->count);
}

bool xdr_enc_READDIR3args(struct xdr_out *x, const struct READDIR3args *a)
{
	return xdr_enc_nfs_fh3(x, &a->dir) && xdr_enc_u64(x, a->cookie) && xdr_enc_fixed(x, a->cookieverf, NFS3_COOKIEVERFSIZE) &&
		xdr_enc_u32(x, a->count);
}

bool xdr_dec_READDIRPLUS3args(struct xdr *x, struct READDIRPLUS3args *a)
{
	return xdr_dec_nfs_fh3(x, &a->dir) && xdr_dec_u64(x, &a->cookie) && xdr_dec_fixed(x, a->cookieverf, NFS3_COOKIEVERFSIZE) &&
		xdr_dec_u32(x, &a->dircount) && xdr_dec_u32(x, &a->maxcount);
}

bool xdr_enc_READDIRPLUS3args(struct xdr_out *x, const struct READDIRPLUS3args *a)
{
	return xdr_enc_nfs_fh3(x, &a->dir) && xdr_enc_u64(x, a->cookie) && xdr_enc_fixed(x, a->cookieverf, NFS3_COOKIEVERFSIZE) &&
		xdr_enc_u32(x, a->dircount) && xdr_enc_u32(x, a->maxcount);
}

bool xdr_dec_FSSTAT3args(struct xdr *x, struct FSSTAT3args *a) { return xdr_dec_nfs_fh3(x, &a->fsroot); }
bool xdr_enc_FSSTAT3args(struct xdr_out *x, const struct FSSTAT3args *a) { return xdr_enc_nfs_fh3(x, &a->fsroot); }

bool xdr_dec_FSINFO3args(struct xdr *x, struct FSINFO3args *a) { return xdr_dec_nfs_fh3(x, &a->fsroot); }
bool xdr_enc_FSINFO3args(struct xdr_out *x, const struct FSINFO3args *a) { return xdr_enc_nfs_fh3(x, &a->fsroot); }

bool xdr_dec_PATHCONF3args(struct xdr *x, struct PATHCONF3args *a) { return xdr_dec_nfs_fh3(x, &a->object); }
bool xdr_enc_PATHCONF3args(struct xdr_out *x, const struct PATHCONF3args *a) { return xdr_enc_nfs_fh3(x, &a->object); }

bool xdr_dec_COMMIT3args(struct xdr *x, struct COMMIT3args *a)
{
	return xdr_dec_nfs_fh3(x, &a->file) && xdr_dec_u64(x, &a->offset) && xdr_dec_u32(x, &a->count);
}

bool xdr_enc_COMMIT3args(struct xdr_out *x, const struct COMMIT3args *a)
{
	return xdr_enc_nfs_fh3(x, &a->file) && xdr_enc_u64(x, a->offset) && xdr_enc_u32(x, a->count);
}
