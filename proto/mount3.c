/*
 * proto/mount3.c - MOUNT version 3 codecs and names (RFC 1813 appendix I).
 *
 * The protocol's lists are chains: a word that says whether an entry follows, the entry, the next word. Writing one, an entry is kept only if the words
 * that close what is open still fit after it, so that the list can always be ended properly.
 */
#include "proto/mount3.h"

#include <assert.h>

static const char *const proc_names[] = { "NULL", "MNT", "DUMP", "UMNT", "UMNTALL", "EXPORT" };

static_assert(sizeof(proc_names) / sizeof(proc_names[0]) == MOUNTPROC3_COUNT, "a name for each procedure");

const char *mount3_proc_name(uint32_t proc) { return proc < MOUNTPROC3_COUNT ? proc_names[proc] : "?"; }

static const struct {
	struct mountstat3 status;
	const char *name;
} statuses[] = {
	{ MNT3_OK, "MNT3_OK" },
	{ MNT3ERR_PERM, "MNT3ERR_PERM" },
	{ MNT3ERR_NOENT, "MNT3ERR_NOENT" },
	{ MNT3ERR_IO, "MNT3ERR_IO" },
	{ MNT3ERR_ACCES, "MNT3ERR_ACCES" },
	{ MNT3ERR_NOTDIR, "MNT3ERR_NOTDIR" },
	{ MNT3ERR_INVAL, "MNT3ERR_INVAL" },
	{ MNT3ERR_NAMETOOLONG, "MNT3ERR_NAMETOOLONG" },
	{ MNT3ERR_NOTSUPP, "MNT3ERR_NOTSUPP" },
	{ MNT3ERR_SERVERFAULT, "MNT3ERR_SERVERFAULT" },
};

const char *mount3_status_name(struct mountstat3 status)
{
	for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++)
		if (mountstat3_eq(statuses[i].status, status))
			return statuses[i].name;
	return "?";
}

/* --- MNT, UMNT --- */

bool xdr_dec_dirpath(struct xdr *x, struct xdr_bytes *path) { return xdr_dec_bytes(x, path, MNTPATHLEN); }
bool xdr_enc_dirpath(struct xdr_out *x, struct xdr_bytes path) { return xdr_enc_bytes(x, path, MNTPATHLEN); }

static bool enc_mountres3_ok(struct xdr_out *x, const struct mountres3_ok *m)
{
	bool ok = m->auth_flavors_len <= MOUNT3_FLAVORS_MAX && xdr_enc_bytes(x, m->fhandle, FHSIZE3) && xdr_enc_u32(x, m->auth_flavors_len);

	for (uint32_t i = 0; ok && i < m->auth_flavors_len; i++)
		ok = xdr_enc_u32(x, m->auth_flavors[i]);
	return ok;
}

static bool dec_mountres3_ok(struct xdr *x, struct mountres3_ok *m)
{
	bool ok = xdr_dec_bytes(x, &m->fhandle, FHSIZE3) && xdr_dec_range(x, &m->auth_flavors_len, 0, MOUNT3_FLAVORS_MAX);

	for (uint32_t i = 0; ok && i < m->auth_flavors_len; i++)
		ok = xdr_dec_u32(x, &m->auth_flavors[i]);
	return ok;
}

bool xdr_enc_mountres3(struct xdr_out *x, const struct mountres3 *r)
{
	return xdr_enc_u32(x, r->fhs_status.v) && (!mountstat3_is_ok(r->fhs_status) || enc_mountres3_ok(x, &r->mountinfo));
}

bool xdr_dec_mountres3(struct xdr *x, struct mountres3 *r)
{
	return xdr_dec_u32(x, &r->fhs_status.v) && (!mountstat3_is_ok(r->fhs_status) || dec_mountres3_ok(x, &r->mountinfo));
}

/* --- lists --- */

/* What was written since start stays if it went well and closing words of the list still fit. */
static bool keep(struct xdr_out *x, size_t start, bool written, size_t closing)
{
	if (written && xdr_out_room(x) >= closing * XDR_UNIT)
		return true;
	xdr_out_rewind(x, start);
	return false;
}

bool mount3_mountlist_entry(struct xdr_out *x, const struct mountbody *m)
{
	size_t start = xdr_out_pos(x);
	bool written;

	if (!xdr_out_ok(x))
		return false;
	written = xdr_enc_bool(x, true) && xdr_enc_bytes(x, m->ml_hostname, MNTNAMLEN) && xdr_enc_dirpath(x, m->ml_directory);
	return keep(x, start, written, 1);
}

bool mount3_mountlist_end(struct xdr_out *x) { return xdr_enc_bool(x, false); }

bool xdr_dec_mountbody(struct xdr *x, struct mountbody *m, bool *more)
{
	if (!xdr_dec_bool(x, more))
		return false;
	return !*more || (xdr_dec_bytes(x, &m->ml_hostname, MNTNAMLEN) && xdr_dec_dirpath(x, &m->ml_directory));
}

void mount3_exports_begin(struct mount3_exports *e, struct xdr_out *out) { *e = (struct mount3_exports){ .out = out }; }

static bool close_groups(struct mount3_exports *e) { return !e->open || xdr_enc_bool(e->out, false); }

bool mount3_exports_entry(struct mount3_exports *e, struct xdr_bytes ex_dir)
{
	size_t start = xdr_out_pos(e->out);
	bool written;

	if (!xdr_out_ok(e->out))
		return false;
	written = close_groups(e) && xdr_enc_bool(e->out, true) && xdr_enc_dirpath(e->out, ex_dir);
	if (!keep(e->out, start, written, 2))
		return false;
	e->open = true;
	return true;
}

bool mount3_exports_group(struct mount3_exports *e, struct xdr_bytes gr_name)
{
	size_t start = xdr_out_pos(e->out);
	bool written;

	if (!e->open || !xdr_out_ok(e->out))
		return false;
	written = xdr_enc_bool(e->out, true) && xdr_enc_bytes(e->out, gr_name, MNTNAMLEN);
	return keep(e->out, start, written, 2);
}

bool mount3_exports_end(struct mount3_exports *e)
{
	if (!close_groups(e))
		return false;
	e->open = false;
	return xdr_enc_bool(e->out, false);
}

bool xdr_dec_exportnode(struct xdr *x, struct xdr_bytes *ex_dir, bool *more)
{
	return xdr_dec_bool(x, more) && (!*more || xdr_dec_dirpath(x, ex_dir));
}

bool xdr_dec_groupnode(struct xdr *x, struct xdr_bytes *gr_name, bool *more)
{
	return xdr_dec_bool(x, more) && (!*more || xdr_dec_bytes(x, gr_name, MNTNAMLEN));
}
