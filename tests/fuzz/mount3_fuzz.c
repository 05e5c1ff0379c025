/*
 * tests/fuzz/mount3_fuzz.c - MOUNT version 3: paths, results, and both lists, which are read and written again.
 */
#include <string.h>

#include "proto/mount3.h"
#include "tests/fuzz/fuzz.h"

static uint8_t again[1 << 20];

static void try_path(struct xdr x)
{
	struct xdr_bytes path;
	struct xdr_out out;

	xdr_out_init(&out, again, sizeof(again));
	if (xdr_dec_dirpath(&x, &path))
		must(path.len <= MNTPATHLEN && xdr_enc_dirpath(&out, path) && xdr_out_pos(&out) == xdr_pos(&x), "a path encodes to the length it had");
}

static void try_result(struct xdr x)
{
	struct mountres3 r;
	struct xdr_out out;

	xdr_out_init(&out, again, sizeof(again));
	if (xdr_dec_mountres3(&x, &r))
		must(xdr_enc_mountres3(&out, &r) && xdr_out_pos(&out) == xdr_pos(&x), "a result encodes to the length it had");
}

static void try_mountlist(struct xdr x)
{
	struct mountbody m;
	struct xdr_out out;
	bool more, ok;

	xdr_out_init(&out, again, sizeof(again));
	while ((ok = xdr_dec_mountbody(&x, &m, &more)) && more)
		must(mount3_mountlist_entry(&out, &m), "an entry that was read can be written");
	if (ok)
		must(mount3_mountlist_end(&out) && xdr_out_pos(&out) == xdr_pos(&x), "a mount list encodes to the length it had");
}

static bool copy_groups(struct xdr *x, struct mount3_exports *e)
{
	struct xdr_bytes group;
	bool more, ok;

	while ((ok = xdr_dec_groupnode(x, &group, &more)) && more)
		must(mount3_exports_group(e, group), "a group that was read can be written");
	return ok;
}

static void try_exports(struct xdr x)
{
	struct mount3_exports e;
	struct xdr_bytes dir;
	struct xdr_out out;
	bool more, ok;

	xdr_out_init(&out, again, sizeof(again));
	mount3_exports_begin(&e, &out);
	while ((ok = xdr_dec_exportnode(&x, &dir, &more)) && more) {
		must(mount3_exports_entry(&e, dir), "an export that was read can be written");
		ok = copy_groups(&x, &e);
		if (!ok)
			return;
	}
	if (ok)
		must(mount3_exports_end(&e) && xdr_out_pos(&out) == xdr_pos(&x), "an export list encodes to the length it had");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct xdr x;

	xdr_init(&x, data, size);
	try_path(x);
	try_result(x);
	try_mountlist(x);
	try_exports(x);
	return 0;
}
