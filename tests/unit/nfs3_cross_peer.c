/*
 * tests/unit/nfs3_cross_peer.c - the other side of nfs3_cross_test: libnfs decodes and encodes. Knows nothing of proto/.
 */
#include "tests/unit/nfs3_cross_peer.h"

#include <stdlib.h>

#include <nfsc/libnfs-zdr.h>
#include <nfsc/libnfs-raw-mount.h>
#include <nfsc/libnfs-raw-nfs.h>

#define STATUS(s) (s)
#define ARM(value, type) (value).type##_u
#define OPAQUE(f, o) flat_blob(f, (o).data_val, (o).data_len)
#define STRING(f, s) flat_blob(f, s, strlen(s))
#define DEVICE chr_device
#include "tests/unit/nfs3_flat.h"

static void flat_dirlist3(struct flat *f, const struct dirlist3 *l)
{
	for (const struct entry3 *e = l->entries; e; e = e->nextentry)
		flat_entry3(f, e);
}

static void flat_dirlistplus3(struct flat *f, const struct dirlistplus3 *l)
{
	for (const struct entryplus3 *e = l->entries; e; e = e->nextentry)
		flat_entryplus3(f, e);
}

static void flat_mountres3(struct flat *f, const struct mountres3 *r)
{
	const struct mountres3_ok *m = &r->mountres3_u.mountinfo;

	flat_u64(f, r->fhs_status);
	if (r->fhs_status != MNT3_OK)
		return;
	flat_blob(f, m->fhandle.fhandle3_val, m->fhandle.fhandle3_len);
	flat_u64(f, m->auth_flavors.auth_flavors_len);
	for (u_int i = 0; i < m->auth_flavors.auth_flavors_len; i++)
		flat_u64(f, (uint32_t)m->auth_flavors.auth_flavors_val[i]);
}

static void flat_mountlist(struct flat *f, const mountlist *l)
{
	for (const struct mountbody *m = *l; m; m = m->ml_next) {
		STRING(f, m->ml_hostname);
		STRING(f, m->ml_directory);
	}
}

static void flat_exports(struct flat *f, const exports *l)
{
	for (const struct exportnode *e = *l; e; e = e->ex_next) {
		STRING(f, e->ex_dir);
		for (const struct groupnode *g = e->ex_groups; g; g = g->gr_next)
			STRING(f, g->gr_name);
	}
}

static void flat_dirpath(struct flat *f, const dirpath *path) { STRING(f, *path); }

#define NFS3_TYPES(X) \
	X(GETATTR3args) X(GETATTR3res) X(SETATTR3args) X(SETATTR3res) X(LOOKUP3args) X(LOOKUP3res) X(ACCESS3args) X(ACCESS3res) X(READLINK3args) \
	X(READLINK3res) X(READ3args) X(READ3res) X(WRITE3args) X(WRITE3res) X(CREATE3args) X(CREATE3res) X(MKDIR3args) X(MKDIR3res) X(SYMLINK3args) \
	X(SYMLINK3res) X(MKNOD3args) X(MKNOD3res) X(REMOVE3args) X(REMOVE3res) X(RMDIR3args) X(RMDIR3res) X(RENAME3args) X(RENAME3res) X(LINK3args) \
	X(LINK3res) X(READDIR3args) X(READDIR3res) X(READDIRPLUS3args) X(READDIRPLUS3res) X(FSSTAT3args) X(FSSTAT3res) X(FSINFO3args) X(FSINFO3res) \
	X(PATHCONF3args) X(PATHCONF3res) X(COMMIT3args) X(COMMIT3res) X(mountres3) X(mountlist) X(exports) X(dirpath)

#define MEMBER(type) type type##_v;
union any {
	NFS3_TYPES(MEMBER)
};

#define WRAP(type) \
	static bool code_##type(ZDR *z, union any *v) { return zdr_##type(z, &v->type##_v); } \
	static void flatten_##type(struct flat *f, const union any *v) { flat_##type(f, &v->type##_v); }
NFS3_TYPES(WRAP)

#define ROW(type) { #type, code_##type, flatten_##type },
static const struct {
	const char *name;
	bool (*code)(ZDR *z, union any *v);
	void (*flatten)(struct flat *f, const union any *v);
} types[] = { NFS3_TYPES(ROW) };

static size_t find(const char *type)
{
	size_t i = 0;

	while (strcmp(types[i].name, type) != 0)
		assert(++i < sizeof(types) / sizeof(types[0]));
	return i;
}

/* libnfs decodes in place and wants its input writable. */
bool peer_flatten(const char *type, const uint8_t *msg, size_t len, struct flat *f)
{
	char *copy = malloc(len + 1);
	size_t i = find(type);
	union any v;
	ZDR z;
	bool ok;

	assert(copy);
	memcpy(copy, msg, len);
	memset(&v, 0, sizeof(v));
	zdrmem_create(&z, copy, (uint32_t)len, ZDR_DECODE);
	f->len = 0;
	ok = types[i].code(&z, &v) && zdr_getpos(&z) == len;
	if (ok)
		types[i].flatten(f, &v);
	zdr_destroy(&z);
	free(copy);
	return ok;
}

size_t peer_recode(const char *type, const uint8_t *msg, size_t len, uint8_t *out, size_t cap)
{
	char *copy = malloc(len + 1);
	size_t i = find(type), n = 0;
	union any v;
	ZDR in, enc;

	assert(copy);
	memcpy(copy, msg, len);
	memset(&v, 0, sizeof(v));
	zdrmem_create(&in, copy, (uint32_t)len, ZDR_DECODE);
	zdrmem_create(&enc, (char *)out, (uint32_t)cap, ZDR_ENCODE);
	if (types[i].code(&in, &v) && types[i].code(&enc, &v))
		n = zdr_getpos(&enc);
	zdr_destroy(&enc);
	zdr_destroy(&in);
	free(copy);
	return n;
}
