/*
 * proto/nfs3.h - NFS version 3 (RFC 1813): every constant, type and procedure, and the prototypes of its codecs.
 *
 * Names are the RFC's, verbatim; a struct's fields are in the RFC's order, which is the order on the wire. Each procedure X has X3args and X3res with
 * four codecs: xdr_dec_X3args and xdr_enc_X3res are the server's, xdr_enc_X3args and xdr_dec_X3res are a client's (tests, tools). A result is a status
 * and then resok if it is NFS3_OK, resfail otherwise.
 *
 * Decoding borrows (proto/xdr.h): file handles, names, paths and data are references into the message. Encoding borrows too: what a result refers to
 * must live until the encode returns. Codecs check form only: the ranges of enums and bools, the RFC's fixed maxima, our bounds on names and
 * paths below. What a name or a handle says is the server's business. Decoders of results exist for tests and tools and hold to the same bounds.
 *
 * nfsstat3 is a struct of one field, so that an errno does not compile where a status belongs; its constants are values of that struct and may stand
 * in static tables.
 *
 * Pure functions, no state, no locks.
 */
#ifndef PROTO_NFS3_H
#define PROTO_NFS3_H

#include "proto/xdr.h"

enum {
	NFS_PROGRAM = 100003,
	NFS_V3 = 3,

	/* RFC 1813 section 2.4 */
	NFS3_FHSIZE = 64,
	NFS3_COOKIEVERFSIZE = 8,
	NFS3_CREATEVERFSIZE = 8,
	NFS3_WRITEVERFSIZE = 8,

	/*
	 * filename3 and nfspath3 have no maximum in the RFC. Up to these many bytes they decode, and the server judges them (NFS3ERR_NAMETOOLONG); a
	 * longer one is no message of a sane client and is answered GARBAGE_ARGS.
	 */
	NFS3_NAME_DECODE_MAX = 4096,
	NFS3_PATH_DECODE_MAX = 4096,

	/* Sizes on the wire. */
	NFS3_FATTR3_BYTES = 84,
	NFS3_POST_OP_ATTR_BYTES_MAX = 4 + NFS3_FATTR3_BYTES,
	NFS3_WCC_DATA_BYTES_MAX = 4 + 24 + NFS3_POST_OP_ATTR_BYTES_MAX,
	/* WRITE3args up to and including the length word of data. */
	NFS3_WRITE3ARGS_HEAD_BYTES_MAX = 4 + NFS3_FHSIZE + 8 + 4 + 4 + 4,
	/* READ3res up to and including the length word of data. */
	NFS3_READ3RES_HEAD_BYTES_MAX = 4 + NFS3_POST_OP_ATTR_BYTES_MAX + 4 + 4 + 4,
};

/* Section 3.3 */
enum nfs3_proc {
	NFSPROC3_NULL = 0,
	NFSPROC3_GETATTR = 1,
	NFSPROC3_SETATTR = 2,
	NFSPROC3_LOOKUP = 3,
	NFSPROC3_ACCESS = 4,
	NFSPROC3_READLINK = 5,
	NFSPROC3_READ = 6,
	NFSPROC3_WRITE = 7,
	NFSPROC3_CREATE = 8,
	NFSPROC3_MKDIR = 9,
	NFSPROC3_SYMLINK = 10,
	NFSPROC3_MKNOD = 11,
	NFSPROC3_REMOVE = 12,
	NFSPROC3_RMDIR = 13,
	NFSPROC3_RENAME = 14,
	NFSPROC3_LINK = 15,
	NFSPROC3_READDIR = 16,
	NFSPROC3_READDIRPLUS = 17,
	NFSPROC3_FSSTAT = 18,
	NFSPROC3_FSINFO = 19,
	NFSPROC3_PATHCONF = 20,
	NFSPROC3_COMMIT = 21,
	NFSPROC3_COUNT = 22,
};

/* Section 2.6 */
struct nfsstat3 {
	uint32_t v;
};

#define NFS3_OK ((struct nfsstat3){ 0 })
#define NFS3ERR_PERM ((struct nfsstat3){ 1 })
#define NFS3ERR_NOENT ((struct nfsstat3){ 2 })
#define NFS3ERR_IO ((struct nfsstat3){ 5 })
#define NFS3ERR_NXIO ((struct nfsstat3){ 6 })
#define NFS3ERR_ACCES ((struct nfsstat3){ 13 })
#define NFS3ERR_EXIST ((struct nfsstat3){ 17 })
#define NFS3ERR_XDEV ((struct nfsstat3){ 18 })
#define NFS3ERR_NODEV ((struct nfsstat3){ 19 })
#define NFS3ERR_NOTDIR ((struct nfsstat3){ 20 })
#define NFS3ERR_ISDIR ((struct nfsstat3){ 21 })
#define NFS3ERR_INVAL ((struct nfsstat3){ 22 })
#define NFS3ERR_FBIG ((struct nfsstat3){ 27 })
#define NFS3ERR_NOSPC ((struct nfsstat3){ 28 })
#define NFS3ERR_ROFS ((struct nfsstat3){ 30 })
#define NFS3ERR_MLINK ((struct nfsstat3){ 31 })
#define NFS3ERR_NAMETOOLONG ((struct nfsstat3){ 63 })
#define NFS3ERR_NOTEMPTY ((struct nfsstat3){ 66 })
#define NFS3ERR_DQUOT ((struct nfsstat3){ 69 })
#define NFS3ERR_STALE ((struct nfsstat3){ 70 })
#define NFS3ERR_REMOTE ((struct nfsstat3){ 71 })
#define NFS3ERR_BADHANDLE ((struct nfsstat3){ 10001 })
#define NFS3ERR_NOT_SYNC ((struct nfsstat3){ 10002 })
#define NFS3ERR_BAD_COOKIE ((struct nfsstat3){ 10003 })
#define NFS3ERR_NOTSUPP ((struct nfsstat3){ 10004 })
#define NFS3ERR_TOOSMALL ((struct nfsstat3){ 10005 })
#define NFS3ERR_SERVERFAULT ((struct nfsstat3){ 10006 })
#define NFS3ERR_BADTYPE ((struct nfsstat3){ 10007 })
#define NFS3ERR_JUKEBOX ((struct nfsstat3){ 10008 })

static inline bool nfsstat3_eq(struct nfsstat3 a, struct nfsstat3 b) { return a.v == b.v; }
static inline bool nfsstat3_is_ok(struct nfsstat3 s) { return s.v == 0; }

/* "READ", or "?" for a number that is no procedure. Static strings. */
const char *nfs3_proc_name(uint32_t proc);
/* "NFS3ERR_NOENT", or "?" for a number that is no nfsstat3. */
const char *nfs3_status_name(struct nfsstat3 status);
/* The RFC lists status for the procedure (sections 3.3.0 to 3.3.21; PROTOCOL.md says what is added to its lists and why). */
bool nfs3_status_allowed(uint32_t proc, struct nfsstat3 status);

/* --- section 2.5 and 2.6: basic types --- */

enum ftype3 { NF3REG = 1, NF3DIR = 2, NF3BLK = 3, NF3CHR = 4, NF3LNK = 5, NF3SOCK = 6, NF3FIFO = 7 };
enum stable_how { UNSTABLE = 0, DATA_SYNC = 1, FILE_SYNC = 2 };
enum time_how { DONT_CHANGE = 0, SET_TO_SERVER_TIME = 1, SET_TO_CLIENT_TIME = 2 };
enum createmode3 { UNCHECKED = 0, GUARDED = 1, EXCLUSIVE = 2 };

enum {
	ACCESS3_READ = 0x0001,
	ACCESS3_LOOKUP = 0x0002,
	ACCESS3_MODIFY = 0x0004,
	ACCESS3_EXTEND = 0x0008,
	ACCESS3_DELETE = 0x0010,
	ACCESS3_EXECUTE = 0x0020,
};

enum {
	FSF3_LINK = 0x0001,
	FSF3_SYMLINK = 0x0002,
	FSF3_HOMOGENEOUS = 0x0008,
	FSF3_CANSETTIME = 0x0010,
};

/* At most NFS3_FHSIZE bytes. */
struct nfs_fh3 {
	struct xdr_bytes data;
};

struct nfstime3 {
	uint32_t seconds;
	uint32_t nseconds;
};

struct specdata3 {
	uint32_t specdata1;
	uint32_t specdata2;
};

struct fattr3 {
	enum ftype3 type;
	uint32_t mode;
	uint32_t nlink;
	uint32_t uid;
	uint32_t gid;
	uint64_t size;
	uint64_t used;
	struct specdata3 rdev;
	uint64_t fsid;
	uint64_t fileid;
	struct nfstime3 atime;
	struct nfstime3 mtime;
	struct nfstime3 ctime;
};

struct post_op_attr {
	bool attributes_follow;
	struct fattr3 attributes;
};

struct wcc_attr {
	uint64_t size;
	struct nfstime3 mtime;
	struct nfstime3 ctime;
};

struct pre_op_attr {
	bool attributes_follow;
	struct wcc_attr attributes;
};

struct wcc_data {
	struct pre_op_attr before;
	struct post_op_attr after;
};

struct post_op_fh3 {
	bool handle_follows;
	struct nfs_fh3 handle;
};

struct set_mode3 {
	bool set_it;
	uint32_t mode;
};

struct set_uid3 {
	bool set_it;
	uint32_t uid;
};

struct set_gid3 {
	bool set_it;
	uint32_t gid;
};

struct set_size3 {
	bool set_it;
	uint64_t size;
};

struct set_atime {
	enum time_how set_it;
	struct nfstime3 atime; /* SET_TO_CLIENT_TIME */
};

struct set_mtime {
	enum time_how set_it;
	struct nfstime3 mtime; /* SET_TO_CLIENT_TIME */
};

struct sattr3 {
	struct set_mode3 mode;
	struct set_uid3 uid;
	struct set_gid3 gid;
	struct set_size3 size;
	struct set_atime atime;
	struct set_mtime mtime;
};

struct diropargs3 {
	struct nfs_fh3 dir;
	struct xdr_bytes name; /* filename3 */
};

/* --- 3.3.1 GETATTR --- */

struct GETATTR3args {
	struct nfs_fh3 object;
};

struct GETATTR3resok {
	struct fattr3 obj_attributes;
};

/* Nothing follows a failure. */
struct GETATTR3res {
	struct nfsstat3 status;
	struct GETATTR3resok resok;
};

/* --- 3.3.2 SETATTR --- */

struct sattrguard3 {
	bool check;
	struct nfstime3 obj_ctime; /* check */
};

struct SETATTR3args {
	struct nfs_fh3 object;
	struct sattr3 new_attributes;
	struct sattrguard3 guard;
};

struct SETATTR3resok {
	struct wcc_data obj_wcc;
};

struct SETATTR3resfail {
	struct wcc_data obj_wcc;
};

struct SETATTR3res {
	struct nfsstat3 status;
	union {
		struct SETATTR3resok resok;
		struct SETATTR3resfail resfail;
	};
};

/* --- 3.3.3 LOOKUP --- */

struct LOOKUP3args {
	struct diropargs3 what;
};

struct LOOKUP3resok {
	struct nfs_fh3 object;
	struct post_op_attr obj_attributes;
	struct post_op_attr dir_attributes;
};

struct LOOKUP3resfail {
	struct post_op_attr dir_attributes;
};

struct LOOKUP3res {
	struct nfsstat3 status;
	union {
		struct LOOKUP3resok resok;
		struct LOOKUP3resfail resfail;
	};
};

/* --- 3.3.4 ACCESS --- */

struct ACCESS3args {
	struct nfs_fh3 object;
	uint32_t access; /* ACCESS3_* */
};

struct ACCESS3resok {
	struct post_op_attr obj_attributes;
	uint32_t access;
};

struct ACCESS3resfail {
	struct post_op_attr obj_attributes;
};

struct ACCESS3res {
	struct nfsstat3 status;
	union {
		struct ACCESS3resok resok;
		struct ACCESS3resfail resfail;
	};
};

/* --- 3.3.5 READLINK --- */

struct READLINK3args {
	struct nfs_fh3 symlink;
};

struct READLINK3resok {
	struct post_op_attr symlink_attributes;
	struct xdr_bytes data; /* nfspath3 */
};

struct READLINK3resfail {
	struct post_op_attr symlink_attributes;
};

struct READLINK3res {
	struct nfsstat3 status;
	union {
		struct READLINK3resok resok;
		struct READLINK3resfail resfail;
	};
};

/* --- 3.3.6 READ --- */

struct READ3args {
	struct nfs_fh3 file;
	uint64_t offset;
	uint32_t count;
};

struct READ3resok {
	struct post_op_attr file_attributes;
	uint32_t count;
	bool eof;
	struct xdr_bytes data;
};

struct READ3resfail {
	struct post_op_attr file_attributes;
};

struct READ3res {
	struct nfsstat3 status;
	union {
		struct READ3resok resok;
		struct READ3resfail resfail;
	};
};

/* --- 3.3.7 WRITE --- */

struct WRITE3args {
	struct nfs_fh3 file;
	uint64_t offset;
	uint32_t count;
	enum stable_how stable;
	struct xdr_bytes data; /* data.len == count, or the decode failed */
};

struct WRITE3resok {
	struct wcc_data file_wcc;
	uint32_t count;
	enum stable_how committed;
	uint8_t verf[NFS3_WRITEVERFSIZE];
};

struct WRITE3resfail {
	struct wcc_data file_wcc;
};

struct WRITE3res {
	struct nfsstat3 status;
	union {
		struct WRITE3resok resok;
		struct WRITE3resfail resfail;
	};
};

/* --- 3.3.8 CREATE --- */

struct createhow3 {
	enum createmode3 mode;
	union {
		struct sattr3 obj_attributes;      /* UNCHECKED, GUARDED */
		uint8_t verf[NFS3_CREATEVERFSIZE]; /* EXCLUSIVE */
	};
};

struct CREATE3args {
	struct diropargs3 where;
	struct createhow3 how;
};

struct CREATE3resok {
	struct post_op_fh3 obj;
	struct post_op_attr obj_attributes;
	struct wcc_data dir_wcc;
};

struct CREATE3resfail {
	struct wcc_data dir_wcc;
};

struct CREATE3res {
	struct nfsstat3 status;
	union {
		struct CREATE3resok resok;
		struct CREATE3resfail resfail;
	};
};

/* --- 3.3.9 MKDIR --- */

struct MKDIR3args {
	struct diropargs3 where;
	struct sattr3 attributes;
};

struct MKDIR3resok {
	struct post_op_fh3 obj;
	struct post_op_attr obj_attributes;
	struct wcc_data dir_wcc;
};

struct MKDIR3resfail {
	struct wcc_data dir_wcc;
};

struct MKDIR3res {
	struct nfsstat3 status;
	union {
		struct MKDIR3resok resok;
		struct MKDIR3resfail resfail;
	};
};

/* --- 3.3.10 SYMLINK --- */

struct symlinkdata3 {
	struct sattr3 symlink_attributes;
	struct xdr_bytes symlink_data; /* nfspath3 */
};

struct SYMLINK3args {
	struct diropargs3 where;
	struct symlinkdata3 symlink;
};

struct SYMLINK3resok {
	struct post_op_fh3 obj;
	struct post_op_attr obj_attributes;
	struct wcc_data dir_wcc;
};

struct SYMLINK3resfail {
	struct wcc_data dir_wcc;
};

struct SYMLINK3res {
	struct nfsstat3 status;
	union {
		struct SYMLINK3resok resok;
		struct SYMLINK3resfail resfail;
	};
};

/* --- 3.3.11 MKNOD --- */

struct devicedata3 {
	struct sattr3 dev_attributes;
	struct specdata3 spec;
};

/* NF3REG, NF3DIR and NF3LNK are legal on the wire and carry nothing: the server answers NFS3ERR_BADTYPE. */
struct mknoddata3 {
	enum ftype3 type;
	union {
		struct devicedata3 device;     /* NF3CHR, NF3BLK */
		struct sattr3 pipe_attributes; /* NF3SOCK, NF3FIFO */
	};
};

struct MKNOD3args {
	struct diropargs3 where;
	struct mknoddata3 what;
};

struct MKNOD3resok {
	struct post_op_fh3 obj;
	struct post_op_attr obj_attributes;
	struct wcc_data dir_wcc;
};

struct MKNOD3resfail {
	struct wcc_data dir_wcc;
};

struct MKNOD3res {
	struct nfsstat3 status;
	union {
		struct MKNOD3resok resok;
		struct MKNOD3resfail resfail;
	};
};

/* --- 3.3.12 REMOVE --- */

struct REMOVE3args {
	struct diropargs3 object;
};

struct REMOVE3resok {
	struct wcc_data dir_wcc;
};

struct REMOVE3resfail {
	struct wcc_data dir_wcc;
};

struct REMOVE3res {
	struct nfsstat3 status;
	union {
		struct REMOVE3resok resok;
		struct REMOVE3resfail resfail;
	};
};

/* --- 3.3.13 RMDIR --- */

struct RMDIR3args {
	struct diropargs3 object;
};

struct RMDIR3resok {
	struct wcc_data dir_wcc;
};

struct RMDIR3resfail {
	struct wcc_data dir_wcc;
};

struct RMDIR3res {
	struct nfsstat3 status;
	union {
		struct RMDIR3resok resok;
		struct RMDIR3resfail resfail;
	};
};

/* --- 3.3.14 RENAME --- */

struct RENAME3args {
	struct diropargs3 from;
	struct diropargs3 to;
};

struct RENAME3resok {
	struct wcc_data fromdir_wcc;
	struct wcc_data todir_wcc;
};

struct RENAME3resfail {
	struct wcc_data fromdir_wcc;
	struct wcc_data todir_wcc;
};

struct RENAME3res {
	struct nfsstat3 status;
	union {
		struct RENAME3resok resok;
		struct RENAME3resfail resfail;
	};
};

/* --- 3.3.15 LINK --- */

struct LINK3args {
	struct nfs_fh3 file;
	struct diropargs3 link;
};

struct LINK3resok {
	struct post_op_attr file_attributes;
	struct wcc_data linkdir_wcc;
};

struct LINK3resfail {
	struct post_op_attr file_attributes;
	struct wcc_data linkdir_wcc;
};

struct LINK3res {
	struct nfsstat3 status;
	union {
		struct LINK3resok resok;
		struct LINK3resfail resfail;
	};
};

/* --- 3.3.16 READDIR --- */

struct READDIR3args {
	struct nfs_fh3 dir;
	uint64_t cookie;
	uint8_t cookieverf[NFS3_COOKIEVERFSIZE];
	uint32_t count;
};

struct entry3 {
	uint64_t fileid;
	struct xdr_bytes name; /* filename3 */
	uint64_t cookie;
};

/*
 * The linked list as it stands on the wire: entries is its encoding, each entry led by its "follows" word, without the closing one. Read it with
 * xdr_dec_entry3(); write it with struct nfs3_dirlist.
 */
struct dirlist3 {
	struct xdr_bytes entries;
	bool eof;
};

struct READDIR3resok {
	struct post_op_attr dir_attributes;
	uint8_t cookieverf[NFS3_COOKIEVERFSIZE];
	struct dirlist3 reply;
};

struct READDIR3resfail {
	struct post_op_attr dir_attributes;
};

struct READDIR3res {
	struct nfsstat3 status;
	union {
		struct READDIR3resok resok;
		struct READDIR3resfail resfail;
	};
};

/* --- 3.3.17 READDIRPLUS --- */

struct READDIRPLUS3args {
	struct nfs_fh3 dir;
	uint64_t cookie;
	uint8_t cookieverf[NFS3_COOKIEVERFSIZE];
	uint32_t dircount;
	uint32_t maxcount;
};

struct entryplus3 {
	uint64_t fileid;
	struct xdr_bytes name; /* filename3 */
	uint64_t cookie;
	struct post_op_attr name_attributes;
	struct post_op_fh3 name_handle;
};

/* As dirlist3; read with xdr_dec_entryplus3(). */
struct dirlistplus3 {
	struct xdr_bytes entries;
	bool eof;
};

struct READDIRPLUS3resok {
	struct post_op_attr dir_attributes;
	uint8_t cookieverf[NFS3_COOKIEVERFSIZE];
	struct dirlistplus3 reply;
};

struct READDIRPLUS3resfail {
	struct post_op_attr dir_attributes;
};

struct READDIRPLUS3res {
	struct nfsstat3 status;
	union {
		struct READDIRPLUS3resok resok;
		struct READDIRPLUS3resfail resfail;
	};
};

/* --- 3.3.18 FSSTAT --- */

struct FSSTAT3args {
	struct nfs_fh3 fsroot;
};

struct FSSTAT3resok {
	struct post_op_attr obj_attributes;
	uint64_t tbytes;
	uint64_t fbytes;
	uint64_t abytes;
	uint64_t tfiles;
	uint64_t ffiles;
	uint64_t afiles;
	uint32_t invarsec;
};

struct FSSTAT3resfail {
	struct post_op_attr obj_attributes;
};

struct FSSTAT3res {
	struct nfsstat3 status;
	union {
		struct FSSTAT3resok resok;
		struct FSSTAT3resfail resfail;
	};
};

/* --- 3.3.19 FSINFO --- */

struct FSINFO3args {
	struct nfs_fh3 fsroot;
};

struct FSINFO3resok {
	struct post_op_attr obj_attributes;
	uint32_t rtmax;
	uint32_t rtpref;
	uint32_t rtmult;
	uint32_t wtmax;
	uint32_t wtpref;
	uint32_t wtmult;
	uint32_t dtpref;
	uint64_t maxfilesize;
	struct nfstime3 time_delta;
	uint32_t properties; /* FSF3_* */
};

struct FSINFO3resfail {
	struct post_op_attr obj_attributes;
};

struct FSINFO3res {
	struct nfsstat3 status;
	union {
		struct FSINFO3resok resok;
		struct FSINFO3resfail resfail;
	};
};

/* --- 3.3.20 PATHCONF --- */

struct PATHCONF3args {
	struct nfs_fh3 object;
};

struct PATHCONF3resok {
	struct post_op_attr obj_attributes;
	uint32_t linkmax;
	uint32_t name_max;
	bool no_trunc;
	bool chown_restricted;
	bool case_insensitive;
	bool case_preserving;
};

struct PATHCONF3resfail {
	struct post_op_attr obj_attributes;
};

struct PATHCONF3res {
	struct nfsstat3 status;
	union {
		struct PATHCONF3resok resok;
		struct PATHCONF3resfail resfail;
	};
};

/* --- 3.3.21 COMMIT --- */

struct COMMIT3args {
	struct nfs_fh3 file;
	uint64_t offset;
	uint32_t count;
};

struct COMMIT3resok {
	struct wcc_data file_wcc;
	uint8_t verf[NFS3_WRITEVERFSIZE];
};

struct COMMIT3resfail {
	struct wcc_data file_wcc;
};

struct COMMIT3res {
	struct nfsstat3 status;
	union {
		struct COMMIT3resok resok;
		struct COMMIT3resfail resfail;
	};
};

/* --- codecs: types that procedures share (proto/nfs3_types_xdr.c) --- */

bool xdr_dec_nfs_fh3(struct xdr *x, struct nfs_fh3 *fh);
bool xdr_dec_nfstime3(struct xdr *x, struct nfstime3 *t);
bool xdr_dec_ftype3(struct xdr *x, enum ftype3 *type);
bool xdr_dec_specdata3(struct xdr *x, struct specdata3 *s);
bool xdr_dec_fattr3(struct xdr *x, struct fattr3 *f);
bool xdr_dec_post_op_attr(struct xdr *x, struct post_op_attr *a);
bool xdr_dec_wcc_data(struct xdr *x, struct wcc_data *w);
bool xdr_dec_post_op_fh3(struct xdr *x, struct post_op_fh3 *p);
bool xdr_dec_sattr3(struct xdr *x, struct sattr3 *s);
bool xdr_dec_diropargs3(struct xdr *x, struct diropargs3 *d);

bool xdr_enc_nfs_fh3(struct xdr_out *x, const struct nfs_fh3 *fh);
bool xdr_enc_nfstime3(struct xdr_out *x, const struct nfstime3 *t);
bool xdr_enc_specdata3(struct xdr_out *x, const struct specdata3 *s);
bool xdr_enc_fattr3(struct xdr_out *x, const struct fattr3 *f);
bool xdr_enc_post_op_attr(struct xdr_out *x, const struct post_op_attr *a);
bool xdr_enc_wcc_data(struct xdr_out *x, const struct wcc_data *w);
bool xdr_enc_post_op_fh3(struct xdr_out *x, const struct post_op_fh3 *p);
bool xdr_enc_sattr3(struct xdr_out *x, const struct sattr3 *s);
bool xdr_enc_diropargs3(struct xdr_out *x, const struct diropargs3 *d);

/* --- codecs: arguments (proto/nfs3_args_xdr.c). The decoder stops after the arguments; xdr_is_done() says whether bytes are left over. --- */

bool xdr_dec_GETATTR3args(struct xdr *x, struct GETATTR3args *a);
bool xdr_dec_SETATTR3args(struct xdr *x, struct SETATTR3args *a);
bool xdr_dec_LOOKUP3args(struct xdr *x, struct LOOKUP3args *a);
bool xdr_dec_ACCESS3args(struct xdr *x, struct ACCESS3args *a);
bool xdr_dec_READLINK3args(struct xdr *x, struct READLINK3args *a);
bool xdr_dec_READ3args(struct xdr *x, struct READ3args *a);
bool xdr_dec_WRITE3args(struct xdr *x, struct WRITE3args *a);
/*
 * WRITE3args without its payload, which may not have come yet: all fields are set, data.ptr is NULL, and the cursor stands where the payload begins
 * (xdr_pos()); data.len bytes and xdr_pad(data.len) bytes of padding follow. If it fails and xdr_is_truncated(), more bytes are needed; a head never
 * needs more than NFS3_WRITE3ARGS_HEAD_BYTES_MAX. A count that differs from data.len is invalid, here and in xdr_dec_WRITE3args().
 */
bool xdr_dec_WRITE3args_head(struct xdr *x, struct WRITE3args *a);
bool xdr_dec_CREATE3args(struct xdr *x, struct CREATE3args *a);
bool xdr_dec_MKDIR3args(struct xdr *x, struct MKDIR3args *a);
bool xdr_dec_SYMLINK3args(struct xdr *x, struct SYMLINK3args *a);
bool xdr_dec_MKNOD3args(struct xdr *x, struct MKNOD3args *a);
bool xdr_dec_REMOVE3args(struct xdr *x, struct REMOVE3args *a);
bool xdr_dec_RMDIR3args(struct xdr *x, struct RMDIR3args *a);
bool xdr_dec_RENAME3args(struct xdr *x, struct RENAME3args *a);
bool xdr_dec_LINK3args(struct xdr *x, struct LINK3args *a);
bool xdr_dec_READDIR3args(struct xdr *x, struct READDIR3args *a);
bool xdr_dec_READDIRPLUS3args(struct xdr *x, struct READDIRPLUS3args *a);
bool xdr_dec_FSSTAT3args(struct xdr *x, struct FSSTAT3args *a);
bool xdr_dec_FSINFO3args(struct xdr *x, struct FSINFO3args *a);
bool xdr_dec_PATHCONF3args(struct xdr *x, struct PATHCONF3args *a);
bool xdr_dec_COMMIT3args(struct xdr *x, struct COMMIT3args *a);

bool xdr_enc_GETATTR3args(struct xdr_out *x, const struct GETATTR3args *a);
bool xdr_enc_SETATTR3args(struct xdr_out *x, const struct SETATTR3args *a);
bool xdr_enc_LOOKUP3args(struct xdr_out *x, const struct LOOKUP3args *a);
bool xdr_enc_ACCESS3args(struct xdr_out *x, const struct ACCESS3args *a);
bool xdr_enc_READLINK3args(struct xdr_out *x, const struct READLINK3args *a);
bool xdr_enc_READ3args(struct xdr_out *x, const struct READ3args *a);
bool xdr_enc_WRITE3args(struct xdr_out *x, const struct WRITE3args *a);
bool xdr_enc_CREATE3args(struct xdr_out *x, const struct CREATE3args *a);
bool xdr_enc_MKDIR3args(struct xdr_out *x, const struct MKDIR3args *a);
bool xdr_enc_SYMLINK3args(struct xdr_out *x, const struct SYMLINK3args *a);
bool xdr_enc_MKNOD3args(struct xdr_out *x, const struct MKNOD3args *a);
bool xdr_enc_REMOVE3args(struct xdr_out *x, const struct REMOVE3args *a);
bool xdr_enc_RMDIR3args(struct xdr_out *x, const struct RMDIR3args *a);
bool xdr_enc_RENAME3args(struct xdr_out *x, const struct RENAME3args *a);
bool xdr_enc_LINK3args(struct xdr_out *x, const struct LINK3args *a);
bool xdr_enc_READDIR3args(struct xdr_out *x, const struct READDIR3args *a);
bool xdr_enc_READDIRPLUS3args(struct xdr_out *x, const struct READDIRPLUS3args *a);
bool xdr_enc_FSSTAT3args(struct xdr_out *x, const struct FSSTAT3args *a);
bool xdr_enc_FSINFO3args(struct xdr_out *x, const struct FSINFO3args *a);
bool xdr_enc_PATHCONF3args(struct xdr_out *x, const struct PATHCONF3args *a);
bool xdr_enc_COMMIT3args(struct xdr_out *x, const struct COMMIT3args *a);

/* --- codecs: results (proto/nfs3_res_xdr.c) --- */

bool xdr_enc_GETATTR3res(struct xdr_out *x, const struct GETATTR3res *r);
bool xdr_enc_SETATTR3res(struct xdr_out *x, const struct SETATTR3res *r);
bool xdr_enc_LOOKUP3res(struct xdr_out *x, const struct LOOKUP3res *r);
bool xdr_enc_ACCESS3res(struct xdr_out *x, const struct ACCESS3res *r);
bool xdr_enc_READLINK3res(struct xdr_out *x, const struct READLINK3res *r);
bool xdr_enc_READ3res(struct xdr_out *x, const struct READ3res *r);
/*
 * READ3res up to and including the length word of data; data.ptr is not looked at. The caller sends data.len payload bytes from where they are and then
 * xdr_pad(data.len) zero bytes. A failed status has no payload and is encoded whole.
 */
bool xdr_enc_READ3res_head(struct xdr_out *x, const struct READ3res *r);
bool xdr_enc_WRITE3res(struct xdr_out *x, const struct WRITE3res *r);
bool xdr_enc_CREATE3res(struct xdr_out *x, const struct CREATE3res *r);
bool xdr_enc_MKDIR3res(struct xdr_out *x, const struct MKDIR3res *r);
bool xdr_enc_SYMLINK3res(struct xdr_out *x, const struct SYMLINK3res *r);
bool xdr_enc_MKNOD3res(struct xdr_out *x, const struct MKNOD3res *r);
bool xdr_enc_REMOVE3res(struct xdr_out *x, const struct REMOVE3res *r);
bool xdr_enc_RMDIR3res(struct xdr_out *x, const struct RMDIR3res *r);
bool xdr_enc_RENAME3res(struct xdr_out *x, const struct RENAME3res *r);
bool xdr_enc_LINK3res(struct xdr_out *x, const struct LINK3res *r);
/* For a failure, or a list that is already encoded; a server builds its pages with struct nfs3_dirlist. */
bool xdr_enc_READDIR3res(struct xdr_out *x, const struct READDIR3res *r);
bool xdr_enc_READDIRPLUS3res(struct xdr_out *x, const struct READDIRPLUS3res *r);
bool xdr_enc_FSSTAT3res(struct xdr_out *x, const struct FSSTAT3res *r);
bool xdr_enc_FSINFO3res(struct xdr_out *x, const struct FSINFO3res *r);
bool xdr_enc_PATHCONF3res(struct xdr_out *x, const struct PATHCONF3res *r);
bool xdr_enc_COMMIT3res(struct xdr_out *x, const struct COMMIT3res *r);

bool xdr_dec_GETATTR3res(struct xdr *x, struct GETATTR3res *r);
bool xdr_dec_SETATTR3res(struct xdr *x, struct SETATTR3res *r);
bool xdr_dec_LOOKUP3res(struct xdr *x, struct LOOKUP3res *r);
bool xdr_dec_ACCESS3res(struct xdr *x, struct ACCESS3res *r);
bool xdr_dec_READLINK3res(struct xdr *x, struct READLINK3res *r);
bool xdr_dec_READ3res(struct xdr *x, struct READ3res *r);
bool xdr_dec_WRITE3res(struct xdr *x, struct WRITE3res *r);
bool xdr_dec_CREATE3res(struct xdr *x, struct CREATE3res *r);
bool xdr_dec_MKDIR3res(struct xdr *x, struct MKDIR3res *r);
bool xdr_dec_SYMLINK3res(struct xdr *x, struct SYMLINK3res *r);
bool xdr_dec_MKNOD3res(struct xdr *x, struct MKNOD3res *r);
bool xdr_dec_REMOVE3res(struct xdr *x, struct REMOVE3res *r);
bool xdr_dec_RMDIR3res(struct xdr *x, struct RMDIR3res *r);
bool xdr_dec_RENAME3res(struct xdr *x, struct RENAME3res *r);
bool xdr_dec_LINK3res(struct xdr *x, struct LINK3res *r);
bool xdr_dec_READDIR3res(struct xdr *x, struct READDIR3res *r);
bool xdr_dec_READDIRPLUS3res(struct xdr *x, struct READDIRPLUS3res *r);
bool xdr_dec_FSSTAT3res(struct xdr *x, struct FSSTAT3res *r);
bool xdr_dec_FSINFO3res(struct xdr *x, struct FSINFO3res *r);
bool xdr_dec_PATHCONF3res(struct xdr *x, struct PATHCONF3res *r);
bool xdr_dec_COMMIT3res(struct xdr *x, struct COMMIT3res *r);

/* --- directory pages (proto/nfs3_dirlist.c) --- */

/*
 * A READDIR3res or READDIRPLUS3res with status NFS3_OK that grows entry by entry within the caller's byte budgets and the encoder's room:
 *
 *	begin; while there is a next entry and entry() takes it; end(eof = there was no next entry).
 *
 * count and maxcount bound the resok part, XDR overhead and list end included; dircount bounds the fileid, name and cookie of all entries, overhead of
 * the name included (sections 3.3.16 and 3.3.17). If not a single entry was taken and the directory is not at its end, the answer is
 * NFS3ERR_TOOSMALL: abort() and encode that instead.
 */
struct nfs3_dirlist {
	struct xdr_out *out; /* the caller's; nothing else may be encoded between begin and end */
	size_t begin;        /* where the status word stands */
	size_t limit;        /* entries end here at the latest: what the list's end needs is already taken off */
	uint32_t dircount_left;
	uint32_t entries; /* taken so far */
};

/* Uses head->dir_attributes and head->cookieverf. False: not even an empty page fits; the encoder is as before. */
bool nfs3_dirlist_begin(struct nfs3_dirlist *l, struct xdr_out *out, const struct READDIR3resok *head, uint32_t count);
bool nfs3_dirlistplus_begin(struct nfs3_dirlist *l, struct xdr_out *out, const struct READDIRPLUS3resok *head, const struct READDIRPLUS3args *budget);
/* False: the entry does not fit; the encoder is as before. */
bool nfs3_dirlist_entry(struct nfs3_dirlist *l, const struct entry3 *e);
bool nfs3_dirlistplus_entry(struct nfs3_dirlist *l, const struct entryplus3 *e);
/* Closes the list. Always fits. */
bool nfs3_dirlist_end(struct nfs3_dirlist *l, bool eof);
/* Forget the page: the encoder is as before begin. */
void nfs3_dirlist_abort(struct nfs3_dirlist *l);

/*
 * The next entry of a dirlist3's (dirlistplus3's) entries, over which the caller has put a cursor. False at the end (then xdr_is_done()) or when what
 * is there is no entry.
 */
bool xdr_dec_entry3(struct xdr *x, struct entry3 *e);
bool xdr_dec_entryplus3(struct xdr *x, struct entryplus3 *e);

#endif
