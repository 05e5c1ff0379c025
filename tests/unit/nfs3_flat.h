/*
 * tests/unit/nfs3_flat.h - a decoded NFSv3 message as a flat list of numbers and byte strings, field by field in the RFC's order.
 *
 * Two sources include this: one after proto/nfs3.h, one after libnfs's header. Both name fields as the RFC does, so the same text reads both; what differs
 * (how a union, an opaque, a string, a list, a status is kept) the includer supplies as macros before:
 *
 *	STATUS(s)            the number in an nfsstat3
 *	ARM(value, type)     the union of a discriminated type, to be followed by a member
 *	OPAQUE(f, o)         put an opaque<>
 *	STRING(f, s)         put a string<>
 *	DEVICE               the device member of mknoddata3's union
 *	flat_dirlist3(), flat_dirlistplus3()
 *
 * If the two lists are equal, both decoders put the same bytes of the message under the same name.
 */
#ifndef TESTS_UNIT_NFS3_FLAT_H
#define TESTS_UNIT_NFS3_FLAT_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { FLAT_MAX = 128 * 1024 };

struct flat {
	size_t len;
	uint8_t bytes[FLAT_MAX];
};

static inline void flat_bytes(struct flat *f, const void *p, size_t n)
{
	assert(n <= FLAT_MAX - f->len);
	if (n)
		memcpy(f->bytes + f->len, p, n);
	f->len += n;
}

static inline void flat_u64(struct flat *f, uint64_t v) { flat_bytes(f, &v, sizeof(v)); }

static inline void flat_blob(struct flat *f, const void *p, size_t n)
{
	flat_u64(f, n);
	flat_bytes(f, p, n);
}

#endif

#ifdef STATUS

static void flat_nfstime3(struct flat *f, const struct nfstime3 *t)
{
	flat_u64(f, t->seconds);
	flat_u64(f, t->nseconds);
}

static void flat_specdata3(struct flat *f, const struct specdata3 *s)
{
	flat_u64(f, s->specdata1);
	flat_u64(f, s->specdata2);
}

static void flat_fattr3(struct flat *f, const struct fattr3 *a)
{
	flat_u64(f, a->type);
	flat_u64(f, a->mode);
	flat_u64(f, a->nlink);
	flat_u64(f, a->uid);
	flat_u64(f, a->gid);
	flat_u64(f, a->size);
	flat_u64(f, a->used);
	flat_specdata3(f, &a->rdev);
	flat_u64(f, a->fsid);
	flat_u64(f, a->fileid);
	flat_nfstime3(f, &a->atime);
	flat_nfstime3(f, &a->mtime);
	flat_nfstime3(f, &a->ctime);
}

static void flat_nfs_fh3(struct flat *f, const struct nfs_fh3 *fh) { OPAQUE(f, fh->data); }

static void flat_post_op_attr(struct flat *f, const struct post_op_attr *a)
{
	flat_u64(f, a->attributes_follow);
	if (a->attributes_follow)
		flat_fattr3(f, &ARM(*a, post_op_attr).attributes);
}

static void flat_pre_op_attr(struct flat *f, const struct pre_op_attr *a)
{
	flat_u64(f, a->attributes_follow);
	if (!a->attributes_follow)
		return;
	flat_u64(f, ARM(*a, pre_op_attr).attributes.size);
	flat_nfstime3(f, &ARM(*a, pre_op_attr).attributes.mtime);
	flat_nfstime3(f, &ARM(*a, pre_op_attr).attributes.ctime);
}

static void flat_wcc_data(struct flat *f, const struct wcc_data *w)
{
	flat_pre_op_attr(f, &w->before);
	flat_post_op_attr(f, &w->after);
}

static void flat_post_op_fh3(struct flat *f, const struct post_op_fh3 *p)
{
	flat_u64(f, p->handle_follows);
	if (p->handle_follows)
		flat_nfs_fh3(f, &ARM(*p, post_op_fh3).handle);
}

static void flat_sattr3(struct flat *f, const struct sattr3 *s)
{
	flat_u64(f, s->mode.set_it);
	flat_u64(f, s->mode.set_it ? ARM(s->mode, set_mode3).mode : 0);
	flat_u64(f, s->uid.set_it);
	flat_u64(f, s->uid.set_it ? ARM(s->uid, set_uid3).uid : 0);
	flat_u64(f, s->gid.set_it);
	flat_u64(f, s->gid.set_it ? ARM(s->gid, set_gid3).gid : 0);
	flat_u64(f, s->size.set_it);
	flat_u64(f, s->size.set_it ? ARM(s->size, set_size3).size : 0);
	flat_u64(f, s->atime.set_it);
	if (s->atime.set_it == SET_TO_CLIENT_TIME)
		flat_nfstime3(f, &ARM(s->atime, set_atime).atime);
	flat_u64(f, s->mtime.set_it);
	if (s->mtime.set_it == SET_TO_CLIENT_TIME)
		flat_nfstime3(f, &ARM(s->mtime, set_mtime).mtime);
}

static void flat_diropargs3(struct flat *f, const struct diropargs3 *d)
{
	flat_nfs_fh3(f, &d->dir);
	STRING(f, d->name);
}

static void flat_entry3(struct flat *f, const struct entry3 *e)
{
	flat_u64(f, e->fileid);
	STRING(f, e->name);
	flat_u64(f, e->cookie);
}

static void flat_entryplus3(struct flat *f, const struct entryplus3 *e)
{
	flat_u64(f, e->fileid);
	STRING(f, e->name);
	flat_u64(f, e->cookie);
	flat_post_op_attr(f, &e->name_attributes);
	flat_post_op_fh3(f, &e->name_handle);
}

static void flat_dirlist3(struct flat *f, const struct dirlist3 *l);
static void flat_dirlistplus3(struct flat *f, const struct dirlistplus3 *l);

static void flat_GETATTR3args(struct flat *f, const struct GETATTR3args *a) { flat_nfs_fh3(f, &a->object); }

static void flat_GETATTR3res(struct flat *f, const struct GETATTR3res *r)
{
	flat_u64(f, STATUS(r->status));
	if (STATUS(r->status) == 0)
		flat_fattr3(f, &ARM(*r, GETATTR3res).resok.obj_attributes);
}

static void flat_SETATTR3args(struct flat *f, const struct SETATTR3args *a)
{
	flat_nfs_fh3(f, &a->object);
	flat_sattr3(f, &a->new_attributes);
	flat_u64(f, a->guard.check);
	if (a->guard.check)
		flat_nfstime3(f, &ARM(a->guard, sattrguard3).obj_ctime);
}

static void flat_SETATTR3res(struct flat *f, const struct SETATTR3res *r)
{
	flat_u64(f, STATUS(r->status));
	if (STATUS(r->status) == 0)
		flat_wcc_data(f, &ARM(*r, SETATTR3res).resok.obj_wcc);
	else
		flat_wcc_data(f, &ARM(*r, SETATTR3res).resfail.obj_wcc);
}

static void flat_LOOKUP3args(struct flat *f, const struct LOOKUP3args *a) { flat_diropargs3(f, &a->what); }

static void flat_LOOKUP3res(struct flat *f, const struct LOOKUP3res *r)
{
	flat_u64(f, STATUS(r->status));
	if (STATUS(r->status) == 0) {
		flat_nfs_fh3(f, &ARM(*r, LOOKUP3res).resok.object);
		flat_post_op_attr(f, &ARM(*r, LOOKUP3res).resok.obj_attributes);
		flat_post_op_attr(f, &ARM(*r, LOOKUP3res).resok.dir_attributes);
	} else {
		flat_post_op_attr(f, &ARM(*r, LOOKUP3res).resfail.dir_attributes);
	}
}

static void flat_ACCESS3args(struct flat *f, const struct ACCESS3args *a)
{
	flat_nfs_fh3(f, &a->object);
	flat_u64(f, a->access);
}

static void flat_ACCESS3res(struct flat *f, const struct ACCESS3res *r)
{
	flat_u64(f, STATUS(r->status));
	if (STATUS(r->status) == 0) {
		flat_post_op_attr(f, &ARM(*r, ACCESS3res).resok.obj_attributes);
		flat_u64(f, ARM(*r, ACCESS3res).resok.access);
	} else {
		flat_post_op_attr(f, &ARM(*r, ACCESS3res).resfail.obj_attributes);
	}
}

static void flat_READLINK3args(struct flat *f, const struct READLINK3args *a) { flat_nfs_fh3(f, &a->symlink); }

static void flat_READLINK3res(struct flat *f, const struct READLINK3res *r)
{
	flat_u64(f, STATUS(r->status));
	if (STATUS(r->status) == 0) {
		flat_post_op_attr(f, &ARM(*r, READLINK3res).resok.symlink_attributes);
		STRING(f, ARM(*r, READLINK3res).resok.data);
	} else {
		flat_post_op_attr(f, &ARM(*r, READLINK3res).resfail.symlink_attributes);
	}
}

static void flat_READ3args(struct flat *f, const struct READ3args *a)
{
	flat_nfs_fh3(f, &a->file);
	flat_u64(f, a->offset);
	flat_u64(f, a->count);
}

static void flat_READ3res(struct flat *f, const struct READ3res *r)
{
	flat_u64(f, STATUS(r->status));
	if (STATUS(r->status) == 0) {
		flat_post_op_attr(f, &ARM(*r, READ3res).resok.file_attributes);
		flat_u64(f, ARM(*r, READ3res).resok.count);
		flat_u64(f, ARM(*r, READ3res).resok.eof);
		OPAQUE(f, ARM(*r, READ3res).resok.data);
	} else {
		flat_post_op_attr(f, &ARM(*r, READ3res).resfail.file_attributes);
	}
}

static void flat_WRITE3args(struct flat *f, const struct WRITE3args *a)
{
	flat_nfs_fh3(f, &a->file);
	flat_u64(f, a->offset);
	flat_u64(f, a->count);
	flat_u64(f, a->stable);
	OPAQUE(f, a->data);
}

static void flat_WRITE3res(struct flat *f, const struct WRITE3res *r)
{
	flat_u64(f, STATUS(r->status));
	if (STATUS(r->status) == 0) {
		flat_wcc_data(f, &ARM(*r, WRITE3res).resok.file_wcc);
		flat_u64(f, ARM(*r, WRITE3res).resok.count);
		flat_u64(f, ARM(*r, WRITE3res).resok.committed);
		flat_blob(f, ARM(*r, WRITE3res).resok.verf, 8);
	} else {
		flat_wcc_data(f, &ARM(*r, WRITE3res).resfail.file_wcc);
	}
}

static void flat_CREATE3args(struct flat *f, const struct CREATE3args *a)
{
	flat_diropargs3(f, &a->where);
	flat_u64(f, a->how.mode);
	if (a->how.mode == EXCLUSIVE)
		flat_blob(f, ARM(a->how, createhow3).verf, 8);
	else
		flat_sattr3(f, &ARM(a->how, createhow3).obj_attributes);
}

#define FLAT_CREATED(type) \
	static void flat_##type(struct flat *f, const struct type *r) \
	{ \
		flat_u64(f, STATUS(r->status)); \
		if (STATUS(r->status) == 0) { \
			flat_post_op_fh3(f, &ARM(*r, type).resok.obj); \
			flat_post_op_attr(f, &ARM(*r, type).resok.obj_attributes); \
			flat_wcc_data(f, &ARM(*r, type).resok.dir_wcc); \
		} else { \
			flat_wcc_data(f, &ARM(*r, type).resfail.dir_wcc); \
		} \
	}
FLAT_CREATED(CREATE3res)
FLAT_CREATED(MKDIR3res)
FLAT_CREATED(SYMLINK3res)
FLAT_CREATED(MKNOD3res)

static void flat_MKDIR3args(struct flat *f, const struct MKDIR3args *a)
{
	flat_diropargs3(f, &a->where);
	flat_sattr3(f, &a->attributes);
}

static void flat_SYMLINK3args(struct flat *f, const struct SYMLINK3args *a)
{
	flat_diropargs3(f, &a->where);
	flat_sattr3(f, &a->symlink.symlink_attributes);
	STRING(f, a->symlink.symlink_data);
}

static void flat_MKNOD3args(struct flat *f, const struct MKNOD3args *a)
{
	flat_diropargs3(f, &a->where);
	flat_u64(f, a->what.type);
	if (a->what.type == NF3CHR || a->what.type == NF3BLK) {
		flat_sattr3(f, &ARM(a->what, mknoddata3).DEVICE.dev_attributes);
		flat_specdata3(f, &ARM(a->what, mknoddata3).DEVICE.spec);
	} else if (a->what.type == NF3SOCK || a->what.type == NF3FIFO) {
		flat_sattr3(f, &ARM(a->what, mknoddata3).pipe_attributes);
	}
}

static void flat_REMOVE3args(struct flat *f, const struct REMOVE3args *a) { flat_diropargs3(f, &a->object); }
static void flat_RMDIR3args(struct flat *f, const struct RMDIR3args *a) { flat_diropargs3(f, &a->object); }

#define FLAT_DIR_WCC(type) \
	static void flat_##type(struct flat *f, const struct type *r) \
	{ \
		flat_u64(f, STATUS(r->status)); \
		if (STATUS(r->status) == 0) \
			flat_wcc_data(f, &ARM(*r, type).resok.dir_wcc); \
		else \
			flat_wcc_data(f, &ARM(*r, type).resfail.dir_wcc); \
	}
FLAT_DIR_WCC(REMOVE3res)
FLAT_DIR_WCC(RMDIR3res)

static void flat_RENAME3args(struct flat *f, const struct RENAME3args *a)
{
	flat_diropargs3(f, &a->from);
	flat_diropargs3(f, &a->to);
}

static void flat_RENAME3res(struct flat *f, const struct RENAME3res *r)
{
	flat_u64(f, STATUS(r->status));
	if (STATUS(r->status) == 0) {
		flat_wcc_data(f, &ARM(*r, RENAME3res).resok.fromdir_wcc);
		flat_wcc_data(f, &ARM(*r, RENAME3res).resok.todir_wcc);
	} else {
		flat_wcc_data(f, &ARM(*r, RENAME3res).resfail.fromdir_wcc);
		flat_wcc_data(f, &ARM(*r, RENAME3res).resfail.todir_wcc);
	}
}

static void flat_LINK3args(struct flat *f, const struct LINK3args *a)
{
	flat_nfs_fh3(f, &a->file);
	flat_diropargs3(f, &a->link);
}

static void flat_LINK3res(struct flat *f, const struct LINK3res *r)
{
	flat_u64(f, STATUS(r->status));
	if (STATUS(r->status) == 0) {
		flat_post_op_attr(f, &ARM(*r, LINK3res).resok.file_attributes);
		flat_wcc_data(f, &ARM(*r, LINK3res).resok.linkdir_wcc);
	} else {
		flat_post_op_attr(f, &ARM(*r, LINK3res).resfail.file_attributes);
		flat_wcc_data(f, &ARM(*r, LINK3res).resfail.linkdir_wcc);
	}
}

static void flat_READDIR3args(struct flat *f, const struct READDIR3args *a)
{
	flat_nfs_fh3(f, &a->dir);
	flat_u64(f, a->cookie);
	flat_blob(f, a->cookieverf, 8);
	flat_u64(f, a->count);
}

static void flat_READDIR3res(struct flat *f, const struct READDIR3res *r)
{
	flat_u64(f, STATUS(r->status));
	if (STATUS(r->status) == 0) {
		flat_post_op_attr(f, &ARM(*r, READDIR3res).resok.dir_attributes);
		flat_blob(f, ARM(*r, READDIR3res).resok.cookieverf, 8);
		flat_dirlist3(f, &ARM(*r, READDIR3res).resok.reply);
		flat_u64(f, ARM(*r, READDIR3res).resok.reply.eof);
	} else {
		flat_post_op_attr(f, &ARM(*r, READDIR3res).resfail.dir_attributes);
	}
}

static void flat_READDIRPLUS3args(struct flat *f, const struct READDIRPLUS3args *a)
{
	flat_nfs_fh3(f, &a->dir);
	flat_u64(f, a->cookie);
	flat_blob(f, a->cookieverf, 8);
	flat_u64(f, a->dircount);
	flat_u64(f, a->maxcount);
}

static void flat_READDIRPLUS3res(struct flat *f, const struct READDIRPLUS3res *r)
{
	flat_u64(f, STATUS(r->status));
	if (STATUS(r->status) == 0) {
		flat_post_op_attr(f, &ARM(*r, READDIRPLUS3res).resok.dir_attributes);
		flat_blob(f, ARM(*r, READDIRPLUS3res).resok.cookieverf, 8);
		flat_dirlistplus3(f, &ARM(*r, READDIRPLUS3res).resok.reply);
		flat_u64(f, ARM(*r, READDIRPLUS3res).resok.reply.eof);
	} else {
		flat_post_op_attr(f, &ARM(*r, READDIRPLUS3res).resfail.dir_attributes);
	}
}

static void flat_FSSTAT3args(struct flat *f, const struct FSSTAT3args *a) { flat_nfs_fh3(f, &a->fsroot); }

static void flat_FSSTAT3resok(struct flat *f, const struct FSSTAT3resok *r)
{
	flat_post_op_attr(f, &r->obj_attributes);
	flat_u64(f, r->tbytes);
	flat_u64(f, r->fbytes);
	flat_u64(f, r->abytes);
	flat_u64(f, r->tfiles);
	flat_u64(f, r->ffiles);
	flat_u64(f, r->afiles);
	flat_u64(f, r->invarsec);
}

static void flat_FSSTAT3res(struct flat *f, const struct FSSTAT3res *r)
{
	flat_u64(f, STATUS(r->status));
	if (STATUS(r->status) == 0)
		flat_FSSTAT3resok(f, &ARM(*r, FSSTAT3res).resok);
	else
		flat_post_op_attr(f, &ARM(*r, FSSTAT3res).resfail.obj_attributes);
}

static void flat_FSINFO3args(struct flat *f, const struct FSINFO3args *a) { flat_nfs_fh3(f, &a->fsroot); }

static void flat_FSINFO3resok(struct flat *f, const struct FSINFO3resok *r)
{
	flat_post_op_attr(f, &r->obj_attributes);
	flat_u64(f, r->rtmax);
	flat_u64(f, r->rtpref);
	flat_u64(f, r->rtmult);
	flat_u64(f, r->wtmax);
	flat_u64(f, r->wtpref);
	flat_u64(f, r->wtmult);
	flat_u64(f, r->dtpref);
	flat_u64(f, r->maxfilesize);
	flat_nfstime3(f, &r->time_delta);
	flat_u64(f, r->properties);
}

static void flat_FSINFO3res(struct flat *f, const struct FSINFO3res *r)
{
	flat_u64(f, STATUS(r->status));
	if (STATUS(r->status) == 0)
		flat_FSINFO3resok(f, &ARM(*r, FSINFO3res).resok);
	else
		flat_post_op_attr(f, &ARM(*r, FSINFO3res).resfail.obj_attributes);
}

static void flat_PATHCONF3args(struct flat *f, const struct PATHCONF3args *a) { flat_nfs_fh3(f, &a->object); }

static void flat_PATHCONF3resok(struct flat *f, const struct PATHCONF3resok *r)
{
	flat_post_op_attr(f, &r->obj_attributes);
	flat_u64(f, r->linkmax);
	flat_u64(f, r->name_max);
	flat_u64(f, r->no_trunc);
	flat_u64(f, r->chown_restricted);
	flat_u64(f, r->case_insensitive);
	flat_u64(f, r->case_preserving);
}

static void flat_PATHCONF3res(struct flat *f, const struct PATHCONF3res *r)
{
	flat_u64(f, STATUS(r->status));
	if (STATUS(r->status) == 0)
		flat_PATHCONF3resok(f, &ARM(*r, PATHCONF3res).resok);
	else
		flat_post_op_attr(f, &ARM(*r, PATHCONF3res).resfail.obj_attributes);
}

static void flat_COMMIT3args(struct flat *f, const struct COMMIT3args *a)
{
	flat_nfs_fh3(f, &a->file);
	flat_u64(f, a->offset);
	flat_u64(f, a->count);
}

static void flat_COMMIT3res(struct flat *f, const struct COMMIT3res *r)
{
	flat_u64(f, STATUS(r->status));
	if (STATUS(r->status) == 0) {
		flat_wcc_data(f, &ARM(*r, COMMIT3res).resok.file_wcc);
		flat_blob(f, ARM(*r, COMMIT3res).resok.verf, 8);
	} else {
		flat_wcc_data(f, &ARM(*r, COMMIT3res).resfail.file_wcc);
	}
}

#endif
