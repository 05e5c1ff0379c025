/*
 * proto/nfs3_names.c - names of NFSv3's procedures and statuses, and which status the RFC lists for which procedure.
 */
#include "proto/nfs3.h"

#include <assert.h>

static const char *const proc_names[] = {
	"NULL", "GETATTR", "SETATTR", "LOOKUP", "ACCESS", "READLINK", "READ", "WRITE", "CREATE", "MKDIR", "SYMLINK", "MKNOD", "REMOVE", "RMDIR", "RENAME",
	"LINK", "READDIR", "READDIRPLUS", "FSSTAT", "FSINFO", "PATHCONF", "COMMIT",
};

static_assert(sizeof(proc_names) / sizeof(proc_names[0]) == NFSPROC3_COUNT, "a name for each procedure");

const char *nfs3_proc_name(uint32_t proc) { return proc < NFSPROC3_COUNT ? proc_names[proc] : "?"; }

/* Section 2.6: one bit for each status, so that a procedure's list is one word. */
enum status_bit {
	OK = 1u << 0,
	PERM = 1u << 1,
	NOENT = 1u << 2,
	IO = 1u << 3,
	NXIO = 1u << 4,
	ACCES = 1u << 5,
	EXIST = 1u << 6,
	XDEV = 1u << 7,
	NODEV = 1u << 8,
	NOTDIR = 1u << 9,
	ISDIR = 1u << 10,
	INVAL = 1u << 11,
	FBIG = 1u << 12,
	NOSPC = 1u << 13,
	ROFS = 1u << 14,
	MLINK = 1u << 15,
	NAMETOOLONG = 1u << 16,
	NOTEMPTY = 1u << 17,
	DQUOT = 1u << 18,
	STALE = 1u << 19,
	REMOTE = 1u << 20,
	BADHANDLE = 1u << 21,
	NOT_SYNC = 1u << 22,
	BAD_COOKIE = 1u << 23,
	NOTSUPP = 1u << 24,
	TOOSMALL = 1u << 25,
	SERVERFAULT = 1u << 26,
	BADTYPE = 1u << 27,
	JUKEBOX = 1u << 28,
};

static const struct {
	struct nfsstat3 status;
	enum status_bit bit;
	const char *name;
} statuses[] = {
	{ NFS3_OK, OK, "NFS3_OK" },
	{ NFS3ERR_PERM, PERM, "NFS3ERR_PERM" },
	{ NFS3ERR_NOENT, NOENT, "NFS3ERR_NOENT" },
	{ NFS3ERR_IO, IO, "NFS3ERR_IO" },
	{ NFS3ERR_NXIO, NXIO, "NFS3ERR_NXIO" },
	{ NFS3ERR_ACCES, ACCES, "NFS3ERR_ACCES" },
	{ NFS3ERR_EXIST, EXIST, "NFS3ERR_EXIST" },
	{ NFS3ERR_XDEV, XDEV, "NFS3ERR_XDEV" },
	{ NFS3ERR_NODEV, NODEV, "NFS3ERR_NODEV" },
	{ NFS3ERR_NOTDIR, NOTDIR, "NFS3ERR_NOTDIR" },
	{ NFS3ERR_ISDIR, ISDIR, "NFS3ERR_ISDIR" },
	{ NFS3ERR_INVAL, INVAL, "NFS3ERR_INVAL" },
	{ NFS3ERR_FBIG, FBIG, "NFS3ERR_FBIG" },
	{ NFS3ERR_NOSPC, NOSPC, "NFS3ERR_NOSPC" },
	{ NFS3ERR_ROFS, ROFS, "NFS3ERR_ROFS" },
	{ NFS3ERR_MLINK, MLINK, "NFS3ERR_MLINK" },
	{ NFS3ERR_NAMETOOLONG, NAMETOOLONG, "NFS3ERR_NAMETOOLONG" },
	{ NFS3ERR_NOTEMPTY, NOTEMPTY, "NFS3ERR_NOTEMPTY" },
	{ NFS3ERR_DQUOT, DQUOT, "NFS3ERR_DQUOT" },
	{ NFS3ERR_STALE, STALE, "NFS3ERR_STALE" },
	{ NFS3ERR_REMOTE, REMOTE, "NFS3ERR_REMOTE" },
	{ NFS3ERR_BADHANDLE, BADHANDLE, "NFS3ERR_BADHANDLE" },
	{ NFS3ERR_NOT_SYNC, NOT_SYNC, "NFS3ERR_NOT_SYNC" },
	{ NFS3ERR_BAD_COOKIE, BAD_COOKIE, "NFS3ERR_BAD_COOKIE" },
	{ NFS3ERR_NOTSUPP, NOTSUPP, "NFS3ERR_NOTSUPP" },
	{ NFS3ERR_TOOSMALL, TOOSMALL, "NFS3ERR_TOOSMALL" },
	{ NFS3ERR_SERVERFAULT, SERVERFAULT, "NFS3ERR_SERVERFAULT" },
	{ NFS3ERR_BADTYPE, BADTYPE, "NFS3ERR_BADTYPE" },
	{ NFS3ERR_JUKEBOX, JUKEBOX, "NFS3ERR_JUKEBOX" },
};

/* NULL cannot fail. Every other procedure lists these, JUKEBOX excepted: that one section 2.6 allows to any of them. */
enum { ANY = OK | STALE | BADHANDLE | SERVERFAULT | JUKEBOX };
/* What the procedures that make a name have in common. */
enum { MAKE = ANY | IO | ACCES | EXIST | NOTDIR | NAMETOOLONG | NOSPC | ROFS | DQUOT | NOTSUPP };

static const uint32_t proc_statuses[NFSPROC3_COUNT] = {
	[NFSPROC3_NULL] = OK,
	[NFSPROC3_GETATTR] = ANY | IO,
	[NFSPROC3_SETATTR] = ANY | PERM | IO | ACCES | INVAL | NOSPC | ROFS | DQUOT | NOT_SYNC,
	[NFSPROC3_LOOKUP] = ANY | IO | NOENT | ACCES | NOTDIR | NAMETOOLONG,
	[NFSPROC3_ACCESS] = ANY | IO,
	[NFSPROC3_READLINK] = ANY | IO | INVAL | ACCES | NOTSUPP,
	[NFSPROC3_READ] = ANY | IO | NXIO | ACCES | INVAL,
	[NFSPROC3_WRITE] = ANY | IO | ACCES | FBIG | DQUOT | NOSPC | ROFS | INVAL,
	[NFSPROC3_CREATE] = MAKE,
	[NFSPROC3_MKDIR] = MAKE,
	[NFSPROC3_SYMLINK] = MAKE,
	[NFSPROC3_MKNOD] = MAKE | BADTYPE,
	[NFSPROC3_REMOVE] = ANY | NOENT | IO | ACCES | NOTDIR | NAMETOOLONG | ROFS,
	[NFSPROC3_RMDIR] = ANY | NOENT | IO | ACCES | INVAL | EXIST | NOTDIR | NAMETOOLONG | ROFS | NOTEMPTY | NOTSUPP,
	[NFSPROC3_RENAME] = MAKE | NOENT | XDEV | ISDIR | INVAL | MLINK | NOTEMPTY,
	[NFSPROC3_LINK] = MAKE | XDEV | INVAL | MLINK,
	[NFSPROC3_READDIR] = ANY | IO | ACCES | NOTDIR | BAD_COOKIE | TOOSMALL,
	[NFSPROC3_READDIRPLUS] = ANY | IO | ACCES | NOTDIR | BAD_COOKIE | TOOSMALL | NOTSUPP,
	[NFSPROC3_FSSTAT] = ANY | IO,
	[NFSPROC3_FSINFO] = ANY,
	[NFSPROC3_PATHCONF] = ANY,
	/* The RFC lists IO only; but a disk that is full is found at COMMIT, and clients that hear IO tell their user that the disk is broken. */
	[NFSPROC3_COMMIT] = ANY | IO | NOSPC | DQUOT,
};

enum { STATUSES = sizeof(statuses) / sizeof(statuses[0]) };

/* Index into statuses[], or STATUSES. */
static size_t find_status(struct nfsstat3 status)
{
	size_t i = 0;

	while (i < STATUSES && !nfsstat3_eq(statuses[i].status, status))
		i++;
	return i;
}

const char *nfs3_status_name(struct nfsstat3 status)
{
	size_t i = find_status(status);

	return i < STATUSES ? statuses[i].name : "?";
}

bool nfs3_status_allowed(uint32_t proc, struct nfsstat3 status)
{
	size_t i = find_status(status);

	return proc < NFSPROC3_COUNT && i < STATUSES && (proc_statuses[proc] & statuses[i].bit) != 0;
}
