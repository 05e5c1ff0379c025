/*
 * tests/fuzz/dirlist_fuzz.c - directory pages: entries out of the input, budgets out of its first words. A page never exceeds a budget or its buffer, and
 * always decodes to the entries it took.
 */
#include <string.h>

#include "proto/nfs3.h"
#include "tests/fuzz/fuzz.h"

static uint8_t page[8192];

/* The rest of the input as entries: length byte, name, attribute and handle bits, handle length. */
static bool next_entry(struct xdr *x, struct entryplus3 *e)
{
	const uint8_t *head = xdr_take(x, 3), *name, *handle;

	if (!head)
		return false;
	name = xdr_take(x, head[0]);
	handle = xdr_take(x, head[2] % 65);
	if (!name || !handle)
		return false;
	memset(e, 0, sizeof(*e));
	e->name = xdr_bytes_of(name, head[0]);
	e->name_attributes.attributes_follow = head[1] & 1;
	e->name_attributes.attributes.type = NF3REG;
	e->name_handle.handle_follows = head[1] >> 1 & 1;
	e->name_handle.handle.data = xdr_bytes_of(handle, head[2] % 65);
	return true;
}

static void check_plain(struct xdr_out *out, uint32_t taken)
{
	struct READDIR3res r;
	struct entry3 e;
	struct xdr x;

	xdr_init(&x, page, xdr_out_pos(out));
	must(xdr_dec_READDIR3res(&x, &r) && xdr_is_done(&x), "a page decodes");
	xdr_init(&x, r.resok.reply.entries.ptr, r.resok.reply.entries.len);
	while (xdr_dec_entry3(&x, &e))
		taken--;
	must(taken == 0 && xdr_is_done(&x), "with the entries it took");
}

static void check_plus(struct xdr_out *out, uint32_t taken)
{
	struct READDIRPLUS3res r;
	struct entryplus3 e;
	struct xdr x;

	xdr_init(&x, page, xdr_out_pos(out));
	must(xdr_dec_READDIRPLUS3res(&x, &r) && xdr_is_done(&x), "a plus page decodes");
	xdr_init(&x, r.resok.reply.entries.ptr, r.resok.reply.entries.len);
	while (xdr_dec_entryplus3(&x, &e))
		taken--;
	must(taken == 0 && xdr_is_done(&x), "with the entries it took");
}

static void fill(struct xdr x, struct xdr_out *out, uint32_t count)
{
	struct READDIR3resok head = { 0 };
	struct nfs3_dirlist list;
	struct entryplus3 e;

	if (!nfs3_dirlist_begin(&list, out, &head, count)) {
		must(xdr_out_pos(out) == 0 && xdr_out_ok(out), "no page, no trace");
		return;
	}
	while (next_entry(&x, &e) && nfs3_dirlist_entry(&list, &(struct entry3){ e.fileid, e.name, e.cookie }))
		;
	must(nfs3_dirlist_end(&list, true) && xdr_out_pos(out) - 4 <= count, "within count");
	check_plain(out, list.entries);
}

static void fill_plus(struct xdr x, struct xdr_out *out, const struct READDIRPLUS3args *budget)
{
	struct READDIRPLUS3resok head = { 0 };
	struct nfs3_dirlist list;
	struct entryplus3 e;

	if (!nfs3_dirlistplus_begin(&list, out, &head, budget)) {
		must(xdr_out_pos(out) == 0 && xdr_out_ok(out), "no page, no trace");
		return;
	}
	while (next_entry(&x, &e) && nfs3_dirlistplus_entry(&list, &e))
		;
	must(nfs3_dirlist_end(&list, true) && xdr_out_pos(out) - 4 <= budget->maxcount, "within maxcount");
	must(list.dircount_left <= budget->dircount, "dircount does not wrap");
	check_plus(out, list.entries);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct READDIRPLUS3args budget = { 0 };
	uint32_t room;
	struct xdr_out out;
	struct xdr x;

	xdr_init(&x, data, size);
	if (!(xdr_dec_u32(&x, &room) && xdr_dec_u32(&x, &budget.maxcount) && xdr_dec_u32(&x, &budget.dircount)))
		return 0;
	xdr_out_init(&out, page, room % sizeof(page));
	fill(x, &out, budget.maxcount);
	xdr_out_init(&out, page, room % sizeof(page));
	fill_plus(x, &out, &budget);
	return 0;
}
