/*
 * tests/unit/nfs3_cross_test.c - NFSv3 and MOUNT codecs against libnfs's, on generated values.
 *
 * For each message: we encode; libnfs decodes and finds under each name what we find there; libnfs encodes and the bytes are ours. So either side's
 * encoder is read by the other's decoder, and no field can be swapped for another of the same size.
 */
#include <criterion/criterion.h>

#include "proto/mount3.h"
#include "proto/nfs3.h"
#include "tests/unit/nfs3_cross_peer.h"
#include "tests/unit/nfs3_gen.h"

#define STATUS(s) ((s).v)
#define ARM(value, type) (value)
#define OPAQUE(f, o) flat_blob(f, (o).ptr, (o).len)
#define STRING(f, s) flat_blob(f, (s).ptr, (s).len)
#define DEVICE device
#include "tests/unit/nfs3_flat.h"

static void flat_dirlist3(struct flat *f, const struct dirlist3 *l)
{
	struct entry3 e;
	struct xdr x;

	xdr_init(&x, l->entries.ptr, l->entries.len);
	while (xdr_dec_entry3(&x, &e))
		flat_entry3(f, &e);
}

static void flat_dirlistplus3(struct flat *f, const struct dirlistplus3 *l)
{
	struct entryplus3 e;
	struct xdr x;

	xdr_init(&x, l->entries.ptr, l->entries.len);
	while (xdr_dec_entryplus3(&x, &e))
		flat_entryplus3(f, &e);
}

#define WRAP(proc, type) static void flatten_##type(struct flat *f, const union nfs3_any *v) { flat_##type(f, &v->type); }
NFS3_MESSAGES(WRAP)
#define ROW(proc, type) flatten_##type,
static void (*const flatten[NFS3_MESSAGE_COUNT])(struct flat *f, const union nfs3_any *v) = { NFS3_MESSAGES(ROW) };

static struct gen gen;
static struct flat ours, theirs;
static uint8_t wire[GEN_MESSAGE_MAX], again[GEN_MESSAGE_MAX];

/* The message in wire says the same to both, and libnfs would have written it so. */
static void expect_agreement(const char *type, size_t len, int seed)
{
	cr_assert(peer_flatten(type, wire, len, &theirs), "%s, seed %d: libnfs does not decode it", type, seed);
	cr_assert_eq(ours.len, theirs.len, "%s, seed %d", type, seed);
	cr_assert_eq(memcmp(ours.bytes, theirs.bytes, ours.len), 0, "%s, seed %d: a field differs", type, seed);
	memset(again, 0, sizeof(again));
	cr_assert_eq(peer_recode(type, wire, len, again, sizeof(again)), len, "%s, seed %d", type, seed);
	cr_assert_eq(memcmp(wire, again, len), 0, "%s, seed %d: libnfs encodes it differently", type, seed);
}

Test(nfs3_cross, libnfs_agrees_on_every_message)
{
	for (int t = 0; t < NFS3_MESSAGE_COUNT; t++)
		for (int seed = 0; seed < 200; seed++) {
			union nfs3_any v = { 0 };
			struct xdr_out out;
			struct xdr in;

			gen_init(&gen, (uint64_t)seed * NFS3_MESSAGE_COUNT + t);
			nfs3_codecs[t].gen(&gen, &v);
			xdr_out_init(&out, wire, sizeof(wire));
			cr_assert(nfs3_codecs[t].enc(&out, &v));
			xdr_init(&in, wire, xdr_out_pos(&out));
			memset(&v, 0, sizeof(v));
			cr_assert(nfs3_codecs[t].dec(&in, &v));
			ours.len = 0;
			flatten[t](&ours, &v);
			expect_agreement(nfs3_codecs[t].name, xdr_out_pos(&out), seed);
		}
}

Test(nfs3_cross, libnfs_agrees_on_mount_results)
{
	for (int seed = 0; seed < 200; seed++) {
		struct mountres3 r = { .fhs_status = seed % 4 ? MNT3_OK : MNT3ERR_ACCES };
		struct xdr_out out;

		gen_init(&gen, (uint64_t)seed);
		r.mountinfo.fhandle = gen_bytes(&gen, gen_below(&gen, FHSIZE3 + 1));
		r.mountinfo.auth_flavors_len = gen_below(&gen, MOUNT3_FLAVORS_MAX + 1);
		xdr_out_init(&out, wire, sizeof(wire));
		ours.len = 0;
		flat_u64(&ours, r.fhs_status.v);
		if (mountstat3_is_ok(r.fhs_status)) {
			flat_blob(&ours, r.mountinfo.fhandle.ptr, r.mountinfo.fhandle.len);
			flat_u64(&ours, r.mountinfo.auth_flavors_len);
			for (uint32_t i = 0; i < r.mountinfo.auth_flavors_len; i++)
				flat_u64(&ours, r.mountinfo.auth_flavors[i] = gen_u32(&gen));
		}
		cr_assert(xdr_enc_mountres3(&out, &r));
		expect_agreement("mountres3", xdr_out_pos(&out), seed);
	}
}

Test(nfs3_cross, libnfs_agrees_on_mount_paths_and_lists)
{
	for (int seed = 0; seed < 100; seed++) {
		struct xdr_bytes path;
		struct xdr_out out;
		int n;

		gen_init(&gen, (uint64_t)seed);
		path = gen_text(&gen, gen_below(&gen, MNTPATHLEN + 1));
		n = (int)gen_below(&gen, 8);
		xdr_out_init(&out, wire, sizeof(wire));
		ours.len = 0;
		cr_assert(xdr_enc_dirpath(&out, path));
		flat_blob(&ours, path.ptr, path.len);
		expect_agreement("dirpath", xdr_out_pos(&out), seed);

		xdr_out_init(&out, wire, sizeof(wire));
		ours.len = 0;
		for (int i = 0; i < n; i++) {
			struct mountbody m = { gen_text(&gen, gen_below(&gen, MNTNAMLEN + 1)), gen_text(&gen, gen_below(&gen, MNTPATHLEN + 1)) };

			cr_assert(mount3_mountlist_entry(&out, &m));
			flat_blob(&ours, m.ml_hostname.ptr, m.ml_hostname.len);
			flat_blob(&ours, m.ml_directory.ptr, m.ml_directory.len);
		}
		cr_assert(mount3_mountlist_end(&out));
		expect_agreement("mountlist", xdr_out_pos(&out), seed);
	}
}

Test(nfs3_cross, libnfs_agrees_on_export_lists)
{
	for (int seed = 0; seed < 100; seed++) {
		struct mount3_exports e;
		struct xdr_out out;

		gen_init(&gen, (uint64_t)seed);
		xdr_out_init(&out, wire, sizeof(wire));
		mount3_exports_begin(&e, &out);
		ours.len = 0;
		for (uint32_t n = gen_below(&gen, 6); n > 0; n--) {
			struct xdr_bytes dir = gen_text(&gen, gen_below(&gen, 100));

			cr_assert(mount3_exports_entry(&e, dir));
			flat_blob(&ours, dir.ptr, dir.len);
			for (uint32_t k = gen_below(&gen, 4); k > 0; k--) {
				struct xdr_bytes group = gen_text(&gen, gen_below(&gen, MNTNAMLEN + 1));

				cr_assert(mount3_exports_group(&e, group));
				flat_blob(&ours, group.ptr, group.len);
			}
		}
		cr_assert(mount3_exports_end(&e));
		expect_agreement("exports", xdr_out_pos(&out), seed);
	}
}
