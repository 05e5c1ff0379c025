/*
 * proto/mount3.h - MOUNT version 3 (RFC 1813 appendix I): constants, types and codecs.
 *
 * As proto/nfs3.h: the RFC's names, decoding and encoding borrow, mountstat3 is a struct so that an errno does not compile. The two lists of the
 * protocol (mountlist, exports) have no bound in the RFC; here they are written entry by entry into the encoder's room and read entry by entry from a
 * cursor. An entry that does not fit leaves the encoder as it was, so that a server can end the list there.
 *
 * Pure functions, no state, no locks.
 */
#ifndef PROTO_MOUNT3_H
#define PROTO_MOUNT3_H

#include "proto/xdr.h"

enum {
	MOUNT_PROGRAM = 100005,
	MOUNT_V3 = 3,

	/* Appendix I, section 5.1.1 */
	MNTPATHLEN = 1024,
	MNTNAMLEN = 255,
	FHSIZE3 = 64,

	/* auth_flavors<> has no maximum in the RFC; more than these do not decode or encode. */
	MOUNT3_FLAVORS_MAX = 16,
};

/* Appendix I, section 5.2 */
enum mount3_proc {
	MOUNTPROC3_NULL = 0,
	MOUNTPROC3_MNT = 1,
	MOUNTPROC3_DUMP = 2,
	MOUNTPROC3_UMNT = 3,
	MOUNTPROC3_UMNTALL = 4,
	MOUNTPROC3_EXPORT = 5,
	MOUNTPROC3_COUNT = 6,
};

/* Appendix I, section 5.1.5 */
struct mountstat3 {
	uint32_t v;
};

#define MNT3_OK ((struct mountstat3){ 0 })
#define MNT3ERR_PERM ((struct mountstat3){ 1 })
#define MNT3ERR_NOENT ((struct mountstat3){ 2 })
#define MNT3ERR_IO ((struct mountstat3){ 5 })
#define MNT3ERR_ACCES ((struct mountstat3){ 13 })
#define MNT3ERR_NOTDIR ((struct mountstat3){ 20 })
#define MNT3ERR_INVAL ((struct mountstat3){ 22 })
#define MNT3ERR_NAMETOOLONG ((struct mountstat3){ 63 })
#define MNT3ERR_NOTSUPP ((struct mountstat3){ 10004 })
#define MNT3ERR_SERVERFAULT ((struct mountstat3){ 10006 })

static inline bool mountstat3_eq(struct mountstat3 a, struct mountstat3 b) { return a.v == b.v; }
static inline bool mountstat3_is_ok(struct mountstat3 s) { return s.v == 0; }

/* "MNT", "MNT3ERR_ACCES"; "?" for a number that is none. Static strings. */
const char *mount3_proc_name(uint32_t proc);
const char *mount3_status_name(struct mountstat3 status);

/* --- MNT, UMNT --- */

struct mountres3_ok {
	struct xdr_bytes fhandle; /* at most FHSIZE3 */
	uint32_t auth_flavors_len;
	uint32_t auth_flavors[MOUNT3_FLAVORS_MAX];
};

/* Nothing follows a failure. */
struct mountres3 {
	struct mountstat3 fhs_status;
	struct mountres3_ok mountinfo;
};

/* The arguments of MNT and UMNT. A path longer than MNTPATHLEN is invalid (its type says so), and so GARBAGE_ARGS. */
bool xdr_dec_dirpath(struct xdr *x, struct xdr_bytes *path);
bool xdr_enc_dirpath(struct xdr_out *x, struct xdr_bytes path);
bool xdr_enc_mountres3(struct xdr_out *x, const struct mountres3 *r);
bool xdr_dec_mountres3(struct xdr *x, struct mountres3 *r);

/* --- DUMP --- */

struct mountbody {
	struct xdr_bytes ml_hostname;  /* at most MNTNAMLEN */
	struct xdr_bytes ml_directory; /* at most MNTPATHLEN */
};

/* One more entry; false, and the encoder as before, if it and the list's end do not fit or a name is too long. */
bool mount3_mountlist_entry(struct xdr_out *x, const struct mountbody *m);
/* The list's end: the whole answer if there was no entry. Always fits after an entry. */
bool mount3_mountlist_end(struct xdr_out *x);
/* The next entry: true with *more, or true without at the list's end; false for what is no list. */
bool xdr_dec_mountbody(struct xdr *x, struct mountbody *m, bool *more);

/* --- EXPORT --- */

/*
 * One export at a time: its directory, then its groups (hosts, nets, wildcards as the export table names them). entry() opens an export, group() adds to
 * the one last opened; both keep room for the ends of the lists, and are false, with the encoder as before, if they do not fit or are too long.
 */
struct mount3_exports {
	struct xdr_out *out;
	bool open; /* an export's groups are being written */
};

void mount3_exports_begin(struct mount3_exports *e, struct xdr_out *out);
bool mount3_exports_entry(struct mount3_exports *e, struct xdr_bytes ex_dir);
bool mount3_exports_group(struct mount3_exports *e, struct xdr_bytes gr_name);
/* Always fits, if the encoder had room for one word at begin. */
bool mount3_exports_end(struct mount3_exports *e);
/* The reader's side: the next exportnode's directory, then its groups by xdr_dec_groupnode() until !*more, then the next exportnode. */
bool xdr_dec_exportnode(struct xdr *x, struct xdr_bytes *ex_dir, bool *more);
bool xdr_dec_groupnode(struct xdr *x, struct xdr_bytes *gr_name, bool *more);

#endif
