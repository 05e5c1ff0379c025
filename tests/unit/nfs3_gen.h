/*
 * tests/unit/nfs3_gen.h - values of every NFSv3 argument and result type, generated from a seed, and one table of all codecs, so that a test is a loop.
 *
 * What a value refers to (handles, names, data, encoded lists) lives in the generator until gen_init() is called again.
 */
#ifndef TESTS_UNIT_NFS3_GEN_H
#define TESTS_UNIT_NFS3_GEN_H

#include "proto/nfs3.h"

enum { GEN_ARENA = 128 * 1024, GEN_MESSAGE_MAX = 64 * 1024 };

struct gen {
	uint64_t seed;
	size_t used;
	uint8_t arena[GEN_ARENA];
};

void gen_init(struct gen *g, uint64_t seed);
uint64_t gen_u64(struct gen *g);
uint32_t gen_u32(struct gen *g);
uint32_t gen_below(struct gen *g, uint32_t n);
bool gen_bool(struct gen *g);
/* Any bytes; text: none of them NUL, for peers that keep strings as C does. */
struct xdr_bytes gen_bytes(struct gen *g, uint32_t len);
struct xdr_bytes gen_text(struct gen *g, uint32_t len);

/* All types that are whole messages: for procedure order, and arguments before results. */
#define NFS3_MESSAGES(X) \
	X(GETATTR, GETATTR3args) X(GETATTR, GETATTR3res) X(SETATTR, SETATTR3args) X(SETATTR, SETATTR3res) X(LOOKUP, LOOKUP3args) X(LOOKUP, LOOKUP3res) \
	X(ACCESS, ACCESS3args) X(ACCESS, ACCESS3res) X(READLINK, READLINK3args) X(READLINK, READLINK3res) X(READ, READ3args) X(READ, READ3res) \
	X(WRITE, WRITE3args) X(WRITE, WRITE3res) X(CREATE, CREATE3args) X(CREATE, CREATE3res) X(MKDIR, MKDIR3args) X(MKDIR, MKDIR3res) \
	X(SYMLINK, SYMLINK3args) X(SYMLINK, SYMLINK3res) X(MKNOD, MKNOD3args) X(MKNOD, MKNOD3res) X(REMOVE, REMOVE3args) X(REMOVE, REMOVE3res) \
	X(RMDIR, RMDIR3args) X(RMDIR, RMDIR3res) X(RENAME, RENAME3args) X(RENAME, RENAME3res) X(LINK, LINK3args) X(LINK, LINK3res) \
	X(READDIR, READDIR3args) X(READDIR, READDIR3res) X(READDIRPLUS, READDIRPLUS3args) X(READDIRPLUS, READDIRPLUS3res) \
	X(FSSTAT, FSSTAT3args) X(FSSTAT, FSSTAT3res) X(FSINFO, FSINFO3args) X(FSINFO, FSINFO3res) X(PATHCONF, PATHCONF3args) X(PATHCONF, PATHCONF3res) \
	X(COMMIT, COMMIT3args) X(COMMIT, COMMIT3res)

#define NFS3_MESSAGE_INDEX(proc, type) MSG_##type,
enum nfs3_message { NFS3_MESSAGES(NFS3_MESSAGE_INDEX) NFS3_MESSAGE_COUNT };
#undef NFS3_MESSAGE_INDEX

#define NFS3_MESSAGE_MEMBER(proc, type) struct type type;
union nfs3_any {
	NFS3_MESSAGES(NFS3_MESSAGE_MEMBER)
};
#undef NFS3_MESSAGE_MEMBER

struct nfs3_codec {
	const char *name;
	uint32_t proc;
	bool is_args;
	void (*gen)(struct gen *g, union nfs3_any *v);
	bool (*enc)(struct xdr_out *x, const union nfs3_any *v);
	bool (*dec)(struct xdr *x, union nfs3_any *v);
};

extern const struct nfs3_codec nfs3_codecs[NFS3_MESSAGE_COUNT];

#endif
