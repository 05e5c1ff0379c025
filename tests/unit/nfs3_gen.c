/*
 * tests/unit/nfs3_gen.c - generated NFSv3 values. Lengths favour the edges: empty, one byte, around the padding, 255 and 256.
 */
#include "tests/unit/nfs3_gen.h"

#include <assert.h>

void gen_init(struct gen *g, uint64_t seed)
{
	g->seed = seed;
	g->used = 0;
}

/* splitmix64 */
uint64_t gen_u64(struct gen *g)
{
	uint64_t z = g->seed += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

uint32_t gen_u32(struct gen *g) { return (uint32_t)(gen_u64(g) >> 32); }
uint32_t gen_below(struct gen *g, uint32_t n) { return (uint32_t)(((uint64_t)gen_u32(g) * n) >> 32); }
bool gen_bool(struct gen *g) { return gen_below(g, 2) == 1; }

static uint8_t *room(struct gen *g, uint32_t len)
{
	uint8_t *p = g->arena + g->used;

	assert(len <= GEN_ARENA - g->used);
	g->used += len;
	return p;
}

struct xdr_bytes gen_bytes(struct gen *g, uint32_t len)
{
	uint8_t *p = room(g, len);

	for (uint32_t i = 0; i < len; i++)
		p[i] = (uint8_t)gen_u32(g);
	return xdr_bytes_of(p, len);
}

struct xdr_bytes gen_text(struct gen *g, uint32_t len)
{
	uint8_t *p = room(g, len);

	for (uint32_t i = 0; i < len; i++)
		p[i] = (uint8_t)(1 + gen_below(g, 255));
	return xdr_bytes_of(p, len);
}

static uint32_t gen_len(struct gen *g, uint32_t max)
{
	static const uint32_t edges[] = { 0, 1, 2, 3, 4, 5, 63, 64, 255, 256 };
	uint32_t len = gen_bool(g) ? edges[gen_below(g, sizeof(edges) / sizeof(edges[0]))] : gen_below(g, 40);

	return len < max ? len : max;
}

static void gen_raw(struct gen *g, uint8_t *dst, uint32_t n) { memcpy(dst, gen_bytes(g, n).ptr, n); }
static struct xdr_bytes gen_name(struct gen *g) { return gen_text(g, gen_len(g, NFS3_NAME_DECODE_MAX)); }
static struct nfs_fh3 gen_fh(struct gen *g) { return (struct nfs_fh3){ gen_bytes(g, gen_len(g, NFS3_FHSIZE)) }; }
static struct nfstime3 gen_time(struct gen *g) { return (struct nfstime3){ gen_u32(g), gen_u32(g) }; }
static struct specdata3 gen_spec(struct gen *g) { return (struct specdata3){ gen_u32(g), gen_u32(g) }; }
static struct diropargs3 gen_dirop(struct gen *g) { return (struct diropargs3){ gen_fh(g), gen_name(g) }; }

static struct fattr3 gen_fattr(struct gen *g)
{
	return (struct fattr3){ NF3REG + gen_below(g, 7), gen_u32(g), gen_u32(g), gen_u32(g), gen_u32(g), gen_u64(g), gen_u64(g), gen_spec(g), gen_u64(g),
		gen_u64(g), gen_time(g), gen_time(g), gen_time(g) };
}

static struct post_op_attr gen_poa(struct gen *g) { return (struct post_op_attr){ gen_bool(g), gen_fattr(g) }; }

static struct wcc_data gen_wcc(struct gen *g)
{
	struct wcc_attr before = { gen_u64(g), gen_time(g), gen_time(g) };

	return (struct wcc_data){ { gen_bool(g), before }, gen_poa(g) };
}

static struct post_op_fh3 gen_pofh(struct gen *g) { return (struct post_op_fh3){ gen_bool(g), gen_fh(g) }; }

static struct sattr3 gen_sattr(struct gen *g)
{
	return (struct sattr3){ { gen_bool(g), gen_u32(g) }, { gen_bool(g), gen_u32(g) }, { gen_bool(g), gen_u32(g) }, { gen_bool(g), gen_u64(g) },
		{ gen_below(g, 3), gen_time(g) }, { gen_below(g, 3), gen_time(g) } };
}

/* Half of all results succeed. */
static struct nfsstat3 gen_status(struct gen *g)
{
	static const struct nfsstat3 failures[] = { NFS3ERR_PERM, NFS3ERR_IO, NFS3ERR_STALE, NFS3ERR_BADHANDLE, NFS3ERR_JUKEBOX };

	return gen_bool(g) ? NFS3_OK : failures[gen_below(g, 5)];
}

static void gen_GETATTR3args(struct gen *g, struct GETATTR3args *a) { a->object = gen_fh(g); }

static void gen_GETATTR3res(struct gen *g, struct GETATTR3res *r)
{
	r->status = gen_status(g);
	r->resok.obj_attributes = gen_fattr(g);
}

static void gen_SETATTR3args(struct gen *g, struct SETATTR3args *a)
{
	a->object = gen_fh(g);
	a->new_attributes = gen_sattr(g);
	a->guard = (struct sattrguard3){ gen_bool(g), gen_time(g) };
}

static void gen_SETATTR3res(struct gen *g, struct SETATTR3res *r)
{
	r->status = gen_status(g);
	r->resok.obj_wcc = gen_wcc(g);
}

static void gen_LOOKUP3args(struct gen *g, struct LOOKUP3args *a) { a->what = gen_dirop(g); }

static void gen_LOOKUP3res(struct gen *g, struct LOOKUP3res *r)
{
	r->status = gen_status(g);
	if (nfsstat3_is_ok(r->status))
		r->resok = (struct LOOKUP3resok){ gen_fh(g), gen_poa(g), gen_poa(g) };
	else
		r->resfail.dir_attributes = gen_poa(g);
}

static void gen_ACCESS3args(struct gen *g, struct ACCESS3args *a) { *a = (struct ACCESS3args){ gen_fh(g), gen_u32(g) }; }

static void gen_ACCESS3res(struct gen *g, struct ACCESS3res *r)
{
	r->status = gen_status(g);
	if (nfsstat3_is_ok(r->status))
		r->resok = (struct ACCESS3resok){ gen_poa(g), gen_u32(g) };
	else
		r->resfail.obj_attributes = gen_poa(g);
}

static void gen_READLINK3args(struct gen *g, struct READLINK3args *a) { a->symlink = gen_fh(g); }

static void gen_READLINK3res(struct gen *g, struct READLINK3res *r)
{
	r->status = gen_status(g);
	if (nfsstat3_is_ok(r->status))
		r->resok = (struct READLINK3resok){ gen_poa(g), gen_text(g, gen_below(g, NFS3_PATH_DECODE_MAX + 1)) };
	else
		r->resfail.symlink_attributes = gen_poa(g);
}

static void gen_READ3args(struct gen *g, struct READ3args *a) { *a = (struct READ3args){ gen_fh(g), gen_u64(g), gen_u32(g) }; }

static void gen_READ3res(struct gen *g, struct READ3res *r)
{
	r->status = gen_status(g);
	if (nfsstat3_is_ok(r->status))
		r->resok = (struct READ3resok){ gen_poa(g), gen_u32(g), gen_bool(g), gen_bytes(g, gen_below(g, 5000)) };
	else
		r->resfail.file_attributes = gen_poa(g);
}

static void gen_WRITE3args(struct gen *g, struct WRITE3args *a)
{
	a->file = gen_fh(g);
	a->offset = gen_u64(g);
	a->count = gen_below(g, 5000);
	a->stable = gen_below(g, 3);
	a->data = gen_bytes(g, a->count);
}

static void gen_WRITE3res(struct gen *g, struct WRITE3res *r)
{
	r->status = gen_status(g);
	r->resok.file_wcc = gen_wcc(g);
	r->resok.count = gen_u32(g);
	r->resok.committed = gen_below(g, 3);
	gen_raw(g, r->resok.verf, sizeof(r->resok.verf));
}

static void gen_CREATE3args(struct gen *g, struct CREATE3args *a)
{
	a->where = gen_dirop(g);
	a->how.mode = gen_below(g, 3);
	if (a->how.mode == EXCLUSIVE)
		gen_raw(g, a->how.verf, sizeof(a->how.verf));
	else
		a->how.obj_attributes = gen_sattr(g);
}

static void gen_CREATE3res(struct gen *g, struct CREATE3res *r)
{
	r->status = gen_status(g);
	if (nfsstat3_is_ok(r->status))
		r->resok = (struct CREATE3resok){ gen_pofh(g), gen_poa(g), gen_wcc(g) };
	else
		r->resfail.dir_wcc = gen_wcc(g);
}

static void gen_MKDIR3args(struct gen *g, struct MKDIR3args *a) { *a = (struct MKDIR3args){ gen_dirop(g), gen_sattr(g) }; }

static void gen_MKDIR3res(struct gen *g, struct MKDIR3res *r)
{
	r->status = gen_status(g);
	if (nfsstat3_is_ok(r->status))
		r->resok = (struct MKDIR3resok){ gen_pofh(g), gen_poa(g), gen_wcc(g) };
	else
		r->resfail.dir_wcc = gen_wcc(g);
}

static void gen_SYMLINK3args(struct gen *g, struct SYMLINK3args *a)
{
	a->where = gen_dirop(g);
	a->symlink = (struct symlinkdata3){ gen_sattr(g), gen_text(g, gen_below(g, NFS3_PATH_DECODE_MAX + 1)) };
}

static void gen_SYMLINK3res(struct gen *g, struct SYMLINK3res *r)
{
	r->status = gen_status(g);
	if (nfsstat3_is_ok(r->status))
		r->resok = (struct SYMLINK3resok){ gen_pofh(g), gen_poa(g), gen_wcc(g) };
	else
		r->resfail.dir_wcc = gen_wcc(g);
}

static void gen_MKNOD3args(struct gen *g, struct MKNOD3args *a)
{
	a->where = gen_dirop(g);
	a->what.type = NF3REG + gen_below(g, 7);
	if (a->what.type == NF3CHR || a->what.type == NF3BLK)
		a->what.device = (struct devicedata3){ gen_sattr(g), gen_spec(g) };
	else
		a->what.pipe_attributes = gen_sattr(g);
}

static void gen_MKNOD3res(struct gen *g, struct MKNOD3res *r)
{
	r->status = gen_status(g);
	if (nfsstat3_is_ok(r->status))
		r->resok = (struct MKNOD3resok){ gen_pofh(g), gen_poa(g), gen_wcc(g) };
	else
		r->resfail.dir_wcc = gen_wcc(g);
}

static void gen_REMOVE3args(struct gen *g, struct REMOVE3args *a) { a->object = gen_dirop(g); }

static void gen_REMOVE3res(struct gen *g, struct REMOVE3res *r)
{
	r->status = gen_status(g);
	r->resok.dir_wcc = gen_wcc(g);
}

static void gen_RMDIR3args(struct gen *g, struct RMDIR3args *a) { a->object = gen_dirop(g); }

static void gen_RMDIR3res(struct gen *g, struct RMDIR3res *r)
{
	r->status = gen_status(g);
	r->resok.dir_wcc = gen_wcc(g);
}

static void gen_RENAME3args(struct gen *g, struct RENAME3args *a) { *a = (struct RENAME3args){ gen_dirop(g), gen_dirop(g) }; }

static void gen_RENAME3res(struct gen *g, struct RENAME3res *r)
{
	r->status = gen_status(g);
	r->resok = (struct RENAME3resok){ gen_wcc(g), gen_wcc(g) };
}

static void gen_LINK3args(struct gen *g, struct LINK3args *a) { *a = (struct LINK3args){ gen_fh(g), gen_dirop(g) }; }

static void gen_LINK3res(struct gen *g, struct LINK3res *r)
{
	r->status = gen_status(g);
	r->resok = (struct LINK3resok){ gen_poa(g), gen_wcc(g) };
}

static void gen_READDIR3args(struct gen *g, struct READDIR3args *a)
{
	a->dir = gen_fh(g);
	a->cookie = gen_u64(g);
	gen_raw(g, a->cookieverf, sizeof(a->cookieverf));
	a->count = gen_u32(g);
}

/* The entries' bytes out of a page that nfs3_dirlist wrote: what stands between cookieverf and the list's end. */
static struct xdr_bytes list_of(const struct xdr_out *page)
{
	const size_t head = 4 + 4 + NFS3_COOKIEVERFSIZE, end = 8;

	return xdr_bytes_of(page->base + head, (uint32_t)(page->pos - head - end));
}

static void gen_READDIR3resok(struct gen *g, struct READDIR3resok *r)
{
	struct READDIR3resok empty = { 0 };
	struct nfs3_dirlist list;
	struct xdr_out page;
	uint32_t n = gen_below(g, 10);

	xdr_out_init(&page, room(g, 8192), 8192);
	assert(nfs3_dirlist_begin(&list, &page, &empty, 8192));
	for (uint32_t i = 0; i < n; i++)
		assert(nfs3_dirlist_entry(&list, &(struct entry3){ gen_u64(g), gen_name(g), gen_u64(g) }));
	assert(nfs3_dirlist_end(&list, false));
	r->dir_attributes = gen_poa(g);
	gen_raw(g, r->cookieverf, sizeof(r->cookieverf));
	r->reply = (struct dirlist3){ list_of(&page), gen_bool(g) };
}

static void gen_READDIR3res(struct gen *g, struct READDIR3res *r)
{
	r->status = gen_status(g);
	if (nfsstat3_is_ok(r->status))
		gen_READDIR3resok(g, &r->resok);
	else
		r->resfail.dir_attributes = gen_poa(g);
}

static void gen_READDIRPLUS3args(struct gen *g, struct READDIRPLUS3args *a)
{
	a->dir = gen_fh(g);
	a->cookie = gen_u64(g);
	gen_raw(g, a->cookieverf, sizeof(a->cookieverf));
	a->dircount = gen_u32(g);
	a->maxcount = gen_u32(g);
}

static void gen_READDIRPLUS3resok(struct gen *g, struct READDIRPLUS3resok *r)
{
	struct READDIRPLUS3resok empty = { 0 };
	struct READDIRPLUS3args budget = { .dircount = 8192, .maxcount = 8192 };
	struct nfs3_dirlist list;
	struct xdr_out page;
	uint32_t n = gen_below(g, 10);

	xdr_out_init(&page, room(g, 8192), 8192);
	assert(nfs3_dirlistplus_begin(&list, &page, &empty, &budget));
	for (uint32_t i = 0; i < n; i++)
		assert(nfs3_dirlistplus_entry(&list, &(struct entryplus3){ gen_u64(g), gen_name(g), gen_u64(g), gen_poa(g), gen_pofh(g) }));
	assert(nfs3_dirlist_end(&list, false));
	r->dir_attributes = gen_poa(g);
	gen_raw(g, r->cookieverf, sizeof(r->cookieverf));
	r->reply = (struct dirlistplus3){ list_of(&page), gen_bool(g) };
}

static void gen_READDIRPLUS3res(struct gen *g, struct READDIRPLUS3res *r)
{
	r->status = gen_status(g);
	if (nfsstat3_is_ok(r->status))
		gen_READDIRPLUS3resok(g, &r->resok);
	else
		r->resfail.dir_attributes = gen_poa(g);
}

static void gen_FSSTAT3args(struct gen *g, struct FSSTAT3args *a) { a->fsroot = gen_fh(g); }

static void gen_FSSTAT3res(struct gen *g, struct FSSTAT3res *r)
{
	r->status = gen_status(g);
	r->resok = (struct FSSTAT3resok){ gen_poa(g), gen_u64(g), gen_u64(g), gen_u64(g), gen_u64(g), gen_u64(g), gen_u64(g), gen_u32(g) };
}

static void gen_FSINFO3args(struct gen *g, struct FSINFO3args *a) { a->fsroot = gen_fh(g); }

static void gen_FSINFO3res(struct gen *g, struct FSINFO3res *r)
{
	r->status = gen_status(g);
	r->resok = (struct FSINFO3resok){ gen_poa(g), gen_u32(g), gen_u32(g), gen_u32(g), gen_u32(g), gen_u32(g), gen_u32(g), gen_u32(g), gen_u64(g),
		gen_time(g), gen_u32(g) };
}

static void gen_PATHCONF3args(struct gen *g, struct PATHCONF3args *a) { a->object = gen_fh(g); }

static void gen_PATHCONF3res(struct gen *g, struct PATHCONF3res *r)
{
	r->status = gen_status(g);
	r->resok = (struct PATHCONF3resok){ gen_poa(g), gen_u32(g), gen_u32(g), gen_bool(g), gen_bool(g), gen_bool(g), gen_bool(g) };
}

static void gen_COMMIT3args(struct gen *g, struct COMMIT3args *a) { *a = (struct COMMIT3args){ gen_fh(g), gen_u64(g), gen_u32(g) }; }

static void gen_COMMIT3res(struct gen *g, struct COMMIT3res *r)
{
	r->status = gen_status(g);
	r->resok.file_wcc = gen_wcc(g);
	gen_raw(g, r->resok.verf, sizeof(r->resok.verf));
}

#define WRAP(proc, type) \
	static void wrap_gen_##type(struct gen *g, union nfs3_any *v) { gen_##type(g, &v->type); } \
	static bool wrap_enc_##type(struct xdr_out *x, const union nfs3_any *v) { return xdr_enc_##type(x, &v->type); } \
	static bool wrap_dec_##type(struct xdr *x, union nfs3_any *v) { return xdr_dec_##type(x, &v->type); }
NFS3_MESSAGES(WRAP)

/* Indices alternate: arguments, results. */
#define ROW(proc, type) { #type, NFSPROC3_##proc, MSG_##type % 2 == 0, wrap_gen_##type, wrap_enc_##type, wrap_dec_##type },
const struct nfs3_codec nfs3_codecs[NFS3_MESSAGE_COUNT] = { NFS3_MESSAGES(ROW) };
