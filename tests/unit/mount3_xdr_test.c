/*
 * tests/unit/mount3_xdr_test.c - MOUNT version 3: MNT's results, both lists, bounds, truncations.
 */
#include <criterion/criterion.h>
#include <stdio.h>

#include "proto/mount3.h"
#include "tests/unit/guard.h"

static uint8_t wire[8192];

static char long_name[2000];

static struct xdr_bytes text(uint32_t len)
{
	memset(long_name, 'x', sizeof(long_name));
	return xdr_bytes_of(long_name, len);
}

Test(mount3, paths_are_bounded_by_1024_bytes)
{
	struct xdr_out out;
	struct xdr_bytes path;
	struct xdr in;

	xdr_out_init(&out, wire, sizeof(wire));
	cr_assert(xdr_enc_dirpath(&out, text(1024)));
	xdr_init(&in, wire, xdr_out_pos(&out));
	cr_assert(xdr_dec_dirpath(&in, &path) && xdr_is_done(&in));
	cr_assert_eq(path.len, 1024);
	cr_assert_not(xdr_enc_dirpath(&out, text(1025)));
	xdr_store32(wire, 1025);
	xdr_init(&in, wire, 1032);
	cr_assert_not(xdr_dec_dirpath(&in, &path));
	cr_assert_eq(in.error, XDR_INVALID);
}

Test(mount3, mnt_result_word_by_word)
{
	struct mountres3 r = { .fhs_status = MNT3_OK, .mountinfo = { .fhandle = { (const uint8_t *)"handl", 5 }, .auth_flavors_len = 2, .auth_flavors = { 1, 6 } } };
	struct mountres3 back;
	struct xdr_out out;
	struct xdr in;

	xdr_out_init(&out, wire, sizeof(wire));
	cr_assert(xdr_enc_mountres3(&out, &r));
	cr_assert_eq(xdr_out_pos(&out), 28);
	cr_assert_arr_eq(wire, "\0\0\0\0\0\0\0\5handl\0\0\0\0\0\0\2\0\0\0\1\0\0\0\6", 28);
	xdr_init(&in, wire, 28);
	cr_assert(xdr_dec_mountres3(&in, &back) && xdr_is_done(&in));
	cr_assert(xdr_bytes_eq(back.mountinfo.fhandle, r.mountinfo.fhandle));
	cr_assert_eq(back.mountinfo.auth_flavors_len, 2);
	cr_assert_eq(back.mountinfo.auth_flavors[1], 6);
	for (size_t cut = 0; cut < 28; cut++) {
		struct guard g;

		xdr_init(&in, guard_copy(&g, wire, cut), cut);
		cr_assert_not(xdr_dec_mountres3(&in, &back));
		cr_assert(xdr_is_truncated(&in));
		guard_free(&g);
	}
}

Test(mount3, a_failed_mnt_is_one_word)
{
	struct xdr_out out;

	xdr_out_init(&out, wire, sizeof(wire));
	cr_assert(xdr_enc_mountres3(&out, &(struct mountres3){ .fhs_status = MNT3ERR_ACCES }));
	cr_assert_eq(xdr_out_pos(&out), 4);
	cr_assert_eq(xdr_load32(wire), 13);
}

Test(mount3, flavors_beyond_our_bound_fail_both_ways)
{
	struct mountres3 r = { .mountinfo.auth_flavors_len = MOUNT3_FLAVORS_MAX + 1 };
	struct xdr_out out;
	struct xdr in;

	xdr_out_init(&out, wire, sizeof(wire));
	cr_assert_not(xdr_enc_mountres3(&out, &r));
	xdr_init(&in, "\0\0\0\0\0\0\0\0\xff\xff\xff\xff", 12);
	cr_assert_not(xdr_dec_mountres3(&in, &r));
	cr_assert_eq(in.error, XDR_INVALID);
}

static int dump_into(struct xdr_out *out, int n)
{
	struct mountbody m = { .ml_hostname = xdr_bytes_str("host"), .ml_directory = xdr_bytes_str("/srv/data") };
	int i = 0;

	while (i < n && mount3_mountlist_entry(out, &m))
		i++;
	cr_assert(mount3_mountlist_end(out));
	return i;
}

/* 28 bytes an entry, 4 for the end. */
Test(mount3, mountlist_always_ends_within_its_room)
{
	for (size_t room = 4; room < 150; room++) {
		struct mountbody m;
		struct xdr_out out;
		struct guard g;
		struct xdr in;
		bool more;
		int taken, seen = 0;

		xdr_out_init(&out, guard_bytes(&g, room), room);
		taken = dump_into(&out, 100);
		cr_assert_eq(taken, (int)((room - 4) / 28));
		xdr_init(&in, out.base, xdr_out_pos(&out));
		while (xdr_dec_mountbody(&in, &m, &more) && more)
			seen += xdr_bytes_eq(m.ml_directory, xdr_bytes_str("/srv/data")) && xdr_bytes_eq(m.ml_hostname, xdr_bytes_str("host"));
		cr_assert(xdr_is_done(&in));
		cr_assert_eq(seen, taken);
		guard_free(&g);
	}
}

Test(mount3, names_too_long_for_a_list_leave_it_as_it_was)
{
	struct mount3_exports e;
	struct xdr_out out;

	xdr_out_init(&out, wire, sizeof(wire));
	cr_assert_not(mount3_mountlist_entry(&out, &(struct mountbody){ text(256), xdr_bytes_str("/") }));
	cr_assert_not(mount3_mountlist_entry(&out, &(struct mountbody){ xdr_bytes_str("h"), text(1025) }));
	mount3_exports_begin(&e, &out);
	cr_assert_not(mount3_exports_group(&e, xdr_bytes_str("before any export")));
	cr_assert_not(mount3_exports_entry(&e, text(1025)));
	cr_assert(mount3_exports_entry(&e, xdr_bytes_str("/a")));
	cr_assert_not(mount3_exports_group(&e, text(256)));
	cr_assert(mount3_exports_end(&e));
	cr_assert_eq(xdr_out_pos(&out), 4 + 8 + 4 + 4);
}

/* Reads an export list back as "dir(group,group)...". */
static const char *describe(const struct xdr_out *out)
{
	static char text_of[512];
	struct xdr_bytes dir, group;
	struct xdr in;
	bool more;
	int n = 0;

	xdr_init(&in, out->base, xdr_out_pos(out));
	while (xdr_dec_exportnode(&in, &dir, &more) && more) {
		n += snprintf(text_of + n, sizeof(text_of) - n, "%.*s(", (int)dir.len, (const char *)dir.ptr);
		while (xdr_dec_groupnode(&in, &group, &more) && more)
			n += snprintf(text_of + n, sizeof(text_of) - n, "%.*s,", (int)group.len, (const char *)group.ptr);
		n += snprintf(text_of + n, sizeof(text_of) - n, ")");
	}
	cr_assert(xdr_is_done(&in));
	return text_of;
}

Test(mount3, export_list_nests_groups)
{
	struct mount3_exports e;
	struct xdr_out out;

	xdr_out_init(&out, wire, sizeof(wire));
	mount3_exports_begin(&e, &out);
	cr_assert(mount3_exports_entry(&e, xdr_bytes_str("/srv/a")));
	cr_assert(mount3_exports_group(&e, xdr_bytes_str("10.0.0.0/8")));
	cr_assert(mount3_exports_group(&e, xdr_bytes_str("*.example")));
	cr_assert(mount3_exports_entry(&e, xdr_bytes_str("/srv/b")));
	cr_assert(mount3_exports_end(&e));
	cr_assert_str_eq(describe(&out), "/srv/a(10.0.0.0/8,*.example,)/srv/b()");
}

Test(mount3, export_list_always_ends_within_its_room)
{
	for (size_t room = 4; room < 200; room++) {
		struct mount3_exports e;
		struct xdr_out out;
		struct guard g;

		xdr_out_init(&out, guard_bytes(&g, room), room);
		mount3_exports_begin(&e, &out);
		for (int i = 0; i < 10 && mount3_exports_entry(&e, xdr_bytes_str("/srv")); i++)
			for (int k = 0; k < 3 && mount3_exports_group(&e, xdr_bytes_str("host")); k++)
				;
		cr_assert(mount3_exports_end(&e));
		cr_assert_not_null(describe(&out));
		guard_free(&g);
	}
}

Test(mount3, empty_lists_are_one_word)
{
	struct mount3_exports e;
	struct xdr_out out;

	xdr_out_init(&out, wire, sizeof(wire));
	mount3_exports_begin(&e, &out);
	cr_assert(mount3_exports_end(&e) && mount3_mountlist_end(&out));
	cr_assert_eq(xdr_out_pos(&out), 8);
	cr_assert_arr_eq(wire, "\0\0\0\0\0\0\0\0", 8);
}

Test(mount3, names)
{
	cr_assert_str_eq(mount3_proc_name(MOUNTPROC3_UMNTALL), "UMNTALL");
	cr_assert_str_eq(mount3_proc_name(MOUNTPROC3_EXPORT), "EXPORT");
	cr_assert_str_eq(mount3_proc_name(6), "?");
	cr_assert_str_eq(mount3_status_name(MNT3_OK), "MNT3_OK");
	cr_assert_str_eq(mount3_status_name(MNT3ERR_SERVERFAULT), "MNT3ERR_SERVERFAULT");
	cr_assert_str_eq(mount3_status_name((struct mountstat3){ 3 }), "?");
}
