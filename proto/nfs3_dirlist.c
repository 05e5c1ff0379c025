/*
 * proto/nfs3_dirlist.c - READDIR's and READDIRPLUS's results (RFC 1813 sections 3.3.16 and 3.3.17): pages that are written entry by entry within byte
 * budgets, and the codecs of whole results, which keep the list as the bytes it is on the wire.
 *
 * A page is measured as it is encoded: an entry is written, and taken back if it went past the limit. What closes the list (the word that says that no
 * entry follows, and eof) is subtracted from the limit at the start, so that end() cannot fail.
 */
#include "proto/nfs3.h"

enum { LIST_END_BYTES = 2 * XDR_UNIT };

/* --- entries --- */

static bool dec_entry3_body(struct xdr *x, struct entry3 *e)
{
	return xdr_dec_u64(x, &e->fileid) && xdr_dec_bytes(x, &e->name, NFS3_NAME_DECODE_MAX) && xdr_dec_u64(x, &e->cookie);
}

static bool enc_entry3(struct xdr_out *x, const struct entry3 *e)
{
	return xdr_enc_bool(x, true) && xdr_enc_u64(x, e->fileid) && xdr_enc_bytes(x, e->name, NFS3_NAME_DECODE_MAX) && xdr_enc_u64(x, e->cookie);
}

static bool dec_entryplus3_body(struct xdr *x, struct entryplus3 *e)
{
	return xdr_dec_u64(x, &e->fileid) && xdr_dec_bytes(x, &e->name, NFS3_NAME_DECODE_MAX) && xdr_dec_u64(x, &e->cookie) &&
		xdr_dec_post_op_attr(x, &e->name_attributes) && xdr_dec_post_op_fh3(x, &e->name_handle);
}

static bool enc_entryplus3(struct xdr_out *x, const struct entryplus3 *e)
{
	struct entry3 plain = { .fileid = e->fileid, .name = e->name, .cookie = e->cookie };

	return enc_entry3(x, &plain) && xdr_enc_post_op_attr(x, &e->name_attributes) && xdr_enc_post_op_fh3(x, &e->name_handle);
}

/* The word before each entry. A list that was cut out of a result has no closing word: its end is the end of the bytes, and no error. */
static bool dec_follows(struct xdr *x)
{
	uint32_t follows;

	return xdr_left(x) > 0 && xdr_dec_range(x, &follows, 1, 1);
}

bool xdr_dec_entry3(struct xdr *x, struct entry3 *e) { return dec_follows(x) && dec_entry3_body(x, e); }
bool xdr_dec_entryplus3(struct xdr *x, struct entryplus3 *e) { return dec_follows(x) && dec_entryplus3_body(x, e); }

/* --- pages --- */

/* The status is written; resok begins here and may take budget bytes. */
static void set_limit(struct nfs3_dirlist *l, uint32_t budget)
{
	size_t resok = l->begin + XDR_UNIT;
	size_t room = l->out->capacity - resok;
	size_t bytes = budget < room ? budget : room;

	l->limit = bytes < LIST_END_BYTES ? 0 : resok + bytes - LIST_END_BYTES;
}

static bool begin(struct nfs3_dirlist *l, struct xdr_out *out, uint32_t budget)
{
	*l = (struct nfs3_dirlist){ .out = out, .begin = xdr_out_pos(out) };
	if (!xdr_enc_u32(out, NFS3_OK.v))
		return false;
	set_limit(l, budget);
	return true;
}

static bool enc_head(struct xdr_out *out, const struct post_op_attr *dir_attributes, const uint8_t *cookieverf)
{
	return xdr_enc_post_op_attr(out, dir_attributes) && xdr_enc_fixed(out, cookieverf, NFS3_COOKIEVERFSIZE);
}

/* What was written since start stays if it went well and ended within the limit. */
static bool keep(struct nfs3_dirlist *l, size_t start, bool written)
{
	if (written && l->out->pos <= l->limit)
		return true;
	xdr_out_rewind(l->out, start);
	return false;
}

bool nfs3_dirlist_begin(struct nfs3_dirlist *l, struct xdr_out *out, const struct READDIR3resok *head, uint32_t count)
{
	size_t start = xdr_out_pos(out);
	bool written;

	if (!xdr_out_ok(out))
		return false;
	written = begin(l, out, count) && enc_head(out, &head->dir_attributes, head->cookieverf);
	return keep(l, start, written);
}

bool nfs3_dirlistplus_begin(struct nfs3_dirlist *l, struct xdr_out *out, const struct READDIRPLUS3resok *head, const struct READDIRPLUS3args *budget)
{
	size_t start = xdr_out_pos(out);
	bool written;

	if (!xdr_out_ok(out))
		return false;
	written = begin(l, out, budget->maxcount) && enc_head(out, &head->dir_attributes, head->cookieverf);
	l->dircount_left = budget->dircount;
	return keep(l, start, written);
}

bool nfs3_dirlist_entry(struct nfs3_dirlist *l, const struct entry3 *e)
{
	size_t start = xdr_out_pos(l->out);
	bool written = enc_entry3(l->out, e);

	if (!keep(l, start, written))
		return false;
	l->entries++;
	return true;
}

bool nfs3_dirlistplus_entry(struct nfs3_dirlist *l, const struct entryplus3 *e)
{
	uint64_t dir_bytes = 8 + 4 + xdr_padded(e->name.len) + 8;
	size_t start = xdr_out_pos(l->out);
	bool written;

	if (dir_bytes > l->dircount_left)
		return false;
	written = enc_entryplus3(l->out, e);
	if (!keep(l, start, written))
		return false;
	l->dircount_left -= (uint32_t)dir_bytes;
	l->entries++;
	return true;
}

bool nfs3_dirlist_end(struct nfs3_dirlist *l, bool eof) { return xdr_enc_bool(l->out, false) && xdr_enc_bool(l->out, eof); }

void nfs3_dirlist_abort(struct nfs3_dirlist *l) { xdr_out_rewind(l->out, l->begin); }

/* --- whole results --- */

static bool enc_list(struct xdr_out *x, struct xdr_bytes entries, bool eof)
{
	/* Entries are whole XDR items: a length that is no multiple of four would shift all that follows. */
	if (entries.len % XDR_UNIT) {
		x->failed = true;
		return false;
	}
	return xdr_enc_fixed(x, entries.ptr, entries.len) && xdr_enc_bool(x, false) && xdr_enc_bool(x, eof);
}

/* Steps over the list; *entries are its bytes without the closing word. */
static bool dec_list(struct xdr *x, struct xdr_bytes *entries, bool (*dec_body)(struct xdr *x))
{
	size_t start = xdr_pos(x);
	bool follows;

	while (xdr_dec_bool(x, &follows)) {
		if (!follows) {
			*entries = xdr_bytes_of(x->base + start, (uint32_t)(xdr_pos(x) - XDR_UNIT - start));
			return true;
		}
		if (!dec_body(x))
			return false;
	}
	return false;
}

static bool skip_entry3(struct xdr *x)
{
	struct entry3 e;

	return dec_entry3_body(x, &e);
}

static bool skip_entryplus3(struct xdr *x)
{
	struct entryplus3 e;

	return dec_entryplus3_body(x, &e);
}

static bool dec_READDIR3resok(struct xdr *x, struct READDIR3resok *r)
{
	return xdr_dec_post_op_attr(x, &r->dir_attributes) && xdr_dec_fixed(x, r->cookieverf, NFS3_COOKIEVERFSIZE) &&
		dec_list(x, &r->reply.entries, skip_entry3) && xdr_dec_bool(x, &r->reply.eof);
}

bool xdr_dec_READDIR3res(struct xdr *x, struct READDIR3res *r)
{
	if (!xdr_dec_u32(x, &r->status.v))
		return false;
	return nfsstat3_is_ok(r->status) ? dec_READDIR3resok(x, &r->resok) : xdr_dec_post_op_attr(x, &r->resfail.dir_attributes);
}

bool xdr_enc_READDIR3res(struct xdr_out *x, const struct READDIR3res *r)
{
	if (!xdr_enc_u32(x, r->status.v))
		return false;
	if (!nfsstat3_is_ok(r->status))
		return xdr_enc_post_op_attr(x, &r->resfail.dir_attributes);
	return enc_head(x, &r->resok.dir_attributes, r->resok.cookieverf) && enc_list(x, r->resok.reply.entries, r->resok.reply.eof);
}

static bool dec_READDIRPLUS3resok(struct xdr *x, struct READDIRPLUS3resok *r)
{
	return xdr_dec_post_op_attr(x, &r->dir_attributes) && xdr_dec_fixed(x, r->cookieverf, NFS3_COOKIEVERFSIZE) &&
		dec_list(x, &r->reply.entries, skip_entryplus3) && xdr_dec_bool(x, &r->reply.eof);
}

bool xdr_dec_READDIRPLUS3res(struct xdr *x, struct READDIRPLUS3res *r)
{
	if (!xdr_dec_u32(x, &r->status.v))
		return false;
	return nfsstat3_is_ok(r->status) ? dec_READDIRPLUS3resok(x, &r->resok) : xdr_dec_post_op_attr(x, &r->resfail.dir_attributes);
}

bool xdr_enc_READDIRPLUS3res(struct xdr_out *x, const struct READDIRPLUS3res *r)
{
	if (!xdr_enc_u32(x, r->status.v))
		return false;
	if (!nfsstat3_is_ok(r->status))
		return xdr_enc_post_op_attr(x, &r->resfail.dir_attributes);
	return enc_head(x, &r->resok.dir_attributes, r->resok.cookieverf) && enc_list(x, r->resok.reply.entries, r->resok.reply.eof);
}
