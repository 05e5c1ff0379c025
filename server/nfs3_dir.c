/*
 * server/nfs3_dir.c - READDIR and READDIRPLUS (RFC 1813 sections 3.3.16, 3.3.17).
 *
 * vfs_readdir() brings about as many entries as the budget may hold, in one trip to the pool; proto/nfs3_dirlist takes as many as really fit. What is left over
 * is read again by the next call: every cookie is a place to go on from. A page without an entry that is not the end is never sent: TOOSMALL says that
 * the client's budget is less than the next entry.
 */
#include "server/config.h"
#include "server/conn.h"
#include "server/nfs3.h"
#include "server/reply.h"
#include "server/server.h"
#include "vfs/file.h"
#include "vfs/ns.h"

enum {
	/* Reply header, status and attributes, which the client's count may leave out. */
	PAGE_SLACK_BYTES = 256,
	/* Attributes and handle of an entry cost about three times what its name does: ask for names of a quarter of maxcount, but for some in any case. */
	PLUS_SHARE = 4,
	ASK_BYTES_MIN = 512,
};

struct page {
	struct nfs3_object dir;
	struct vfs_dirlist *list;  /* owned; NULL after a failure */
	struct post_op_attr after;
};

static uint32_t budget(uint32_t count) { return (uint32_t)min_u64(count, server.config->limits.io_bytes_max); }

/* Get the entries. Fills p->after in any case. */
static int page_read(struct rpc_call *call, struct page *p, const struct nfs_fh3 *fh, uint64_t cookie, const uint8_t *verf, uint32_t ask, uint32_t bytes, bool plus)
{
	struct vfs_attr attr;
	bool attr_valid = false;
	p->list = NULL;
	int err = nfs3_object_get(call, fh, &p->dir);
	if (err == 0 && !reply_reserve(call->reply, bytes + PAGE_SLACK_BYTES))
		err = -ENOMEM;
	if (err == 0)
		err = vfs_readdir(&p->dir.call, p->dir.file, cookie, verf, ask, plus, &p->list, &attr, &attr_valid);
	if (err != 0)
		p->list = NULL;
	p->after = attr_valid ? nfs3_post_op(true, &attr) : nfs3_object_attr(&p->dir);
	return err;
}

static void page_done(struct page *p)
{
	if (p->list != NULL)
		vfs_dirlist_free(p->list);
	nfs3_object_put(&p->dir);
}

/* Close a page of `taken` entries. False: it would be an empty one that is not the end, and is taken back. */
static bool page_end(struct nfs3_dirlist *l, const struct vfs_dirlist *list, unsigned taken)
{
	if (taken == 0 && !(list->count == 0 && list->eof)) {
		nfs3_dirlist_abort(l);
		return false;
	}
	return nfs3_dirlist_end(l, taken == list->count && list->eof);
}

static bool page_encode(struct rpc_call *call, const struct page *p, const struct READDIR3args *args)
{
	struct READDIR3resok head = { .dir_attributes = p->after };
	struct nfs3_dirlist l;
	unsigned i;
	memcpy(head.cookieverf, p->list->verf, sizeof(head.cookieverf));
	if (!nfs3_dirlist_begin(&l, &call->reply->out, &head, budget(args->count)))
		return false;
	for (i = 0; i < p->list->count; i++) {
		const struct vfs_dirent *d = &p->list->entries[i];
		struct entry3 e = { .fileid = d->fileid, .name = xdr_bytes_of(d->name.data, d->name.len), .cookie = d->cookie };
		if (!nfs3_dirlist_entry(&l, &e))
			break;
	}
	return page_end(&l, p->list, i);
}

enum call_outcome nfs3_proc_readdir(struct rpc_call *call)
{
	struct READDIR3args args;
	struct READDIR3res res;
	struct page p;
	if (!xdr_dec_READDIR3args(&call->args, &args))
		return CALL_GARBAGE;
	uint32_t bytes = budget(args.count);
	int err = page_read(call, &p, &args.dir, args.cookie, args.cookieverf, bytes, bytes, false);
	bool encoded = err == 0 && page_encode(call, &p, &args);
	page_done(&p);
	if (encoded)
		return CALL_DONE;
	res.status = err == 0 ? NFS3ERR_TOOSMALL : nfs3_status(call, err);
	res.resfail.dir_attributes = p.after;
	return nfs3_encoded(xdr_enc_READDIR3res(&call->reply->out, &res));
}

static struct entryplus3 entry_plus(const struct vfs_dirent *d)
{
	struct entryplus3 e = { .fileid = d->fileid, .name = xdr_bytes_of(d->name.data, d->name.len), .cookie = d->cookie };
	if (d->has_node) {
		e.name_attributes = nfs3_post_op(true, &d->node.attr);
		e.name_handle = (struct post_op_fh3){ true, nfs3_fh(&d->node.fh) };
	}
	return e;
}

static bool page_encode_plus(struct rpc_call *call, const struct page *p, const struct READDIRPLUS3args *args)
{
	struct READDIRPLUS3resok head = { .dir_attributes = p->after };
	struct READDIRPLUS3args bounded = *args;
	struct nfs3_dirlist l;
	unsigned i;
	memcpy(head.cookieverf, p->list->verf, sizeof(head.cookieverf));
	bounded.maxcount = budget(args->maxcount);
	if (!nfs3_dirlistplus_begin(&l, &call->reply->out, &head, &bounded))
		return false;
	for (i = 0; i < p->list->count; i++) {
		struct entryplus3 e = entry_plus(&p->list->entries[i]);
		if (!nfs3_dirlistplus_entry(&l, &e))
			break;
	}
	return page_end(&l, p->list, i);
}

enum call_outcome nfs3_proc_readdirplus(struct rpc_call *call)
{
	struct READDIRPLUS3args args;
	struct READDIRPLUS3res res;
	struct page p;
	if (!xdr_dec_READDIRPLUS3args(&call->args, &args))
		return CALL_GARBAGE;
	uint32_t bytes = budget(args.maxcount);
	uint32_t ask = (uint32_t)max_u64(min_u64(args.dircount, bytes / PLUS_SHARE), ASK_BYTES_MIN);
	int err = page_read(call, &p, &args.dir, args.cookie, args.cookieverf, ask, bytes, true);
	bool encoded = err == 0 && page_encode_plus(call, &p, &args);
	page_done(&p);
	if (encoded)
		return CALL_DONE;
	res.status = err == 0 ? NFS3ERR_TOOSMALL : nfs3_status(call, err);
	res.resfail.dir_attributes = p.after;
	return nfs3_encoded(xdr_enc_READDIRPLUS3res(&call->reply->out, &res));
}
