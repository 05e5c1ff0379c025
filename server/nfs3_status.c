/*
 * server/nfs3_status.c - errno to nfsstat3: the one place where they meet.
 *
 * First the table, which holds for every procedure. Then RFC 1813's list of the procedure: the kernel has more ways to fail than the RFC names, and clients
 * know only those; what is not listed becomes the nearest that is. An errno in no table is SERVERFAULT and is logged once.
 */
#include <stdatomic.h>
#include <string.h>

#include "runtime/counter.h"
#include "runtime/log.h"
#include "server/nfs3.h"

COUNTER_DEFINE(unmapped, "nfs3.errno_unmapped");
COUNTER_DEFINE(jukebox, "nfs3.jukebox");

static const struct {
	int error;
	struct nfsstat3 status;
} errors[] = {
	{ EPERM, NFS3ERR_PERM },
	{ ENOENT, NFS3ERR_NOENT },
	{ EIO, NFS3ERR_IO },
	{ EREMOTEIO, NFS3ERR_IO },
	{ EUCLEAN, NFS3ERR_IO },
	{ EBADMSG, NFS3ERR_IO },
	{ ENOMEDIUM, NFS3ERR_IO },
	{ ELIBBAD, NFS3ERR_IO },
	{ ENXIO, NFS3ERR_NXIO },
	{ EACCES, NFS3ERR_ACCES },
	{ EBUSY, NFS3ERR_ACCES },   /* a mount point, a swap file: it will not pass by itself */
	{ ETXTBSY, NFS3ERR_ACCES },
	{ ENOKEY, NFS3ERR_ACCES },
	{ EEXIST, NFS3ERR_EXIST },
	{ EXDEV, NFS3ERR_XDEV },
	{ ENODEV, NFS3ERR_NODEV },
	{ ENOTDIR, NFS3ERR_NOTDIR },
	{ EISDIR, NFS3ERR_ISDIR },
	{ EINVAL, NFS3ERR_INVAL },
	{ ELOOP, NFS3ERR_INVAL },   /* a symlink where a file is wanted */
	{ EOVERFLOW, NFS3ERR_INVAL },
	{ EILSEQ, NFS3ERR_INVAL },
	{ ERANGE, NFS3ERR_INVAL },
	{ EFBIG, NFS3ERR_FBIG },
	{ ENOSPC, NFS3ERR_NOSPC },
	{ EROFS, NFS3ERR_ROFS },
	{ EMLINK, NFS3ERR_MLINK },
	{ ENAMETOOLONG, NFS3ERR_NAMETOOLONG },
	{ ENOTEMPTY, NFS3ERR_NOTEMPTY },
	{ EDQUOT, NFS3ERR_DQUOT },
	{ ESTALE, NFS3ERR_STALE },
	{ EBADF, NFS3ERR_BADHANDLE },
	{ ENOTUNIQ, NFS3ERR_NOT_SYNC },
	{ ENOTNAM, NFS3ERR_BAD_COOKIE },
	{ EOPNOTSUPP, NFS3ERR_NOTSUPP },
	{ ENOSYS, NFS3ERR_NOTSUPP },
	{ ENOTTY, NFS3ERR_NOTSUPP },
	{ EAGAIN, NFS3ERR_JUKEBOX },
	{ EINTR, NFS3ERR_JUKEBOX },
	{ ENOMEM, NFS3ERR_JUKEBOX },
	{ ENOBUFS, NFS3ERR_JUKEBOX },
	{ ENFILE, NFS3ERR_JUKEBOX },
	{ EMFILE, NFS3ERR_JUKEBOX },
	{ ETIMEDOUT, NFS3ERR_JUKEBOX },
	{ ECANCELED, NFS3ERR_JUKEBOX },
};

/* What is said instead where the RFC does not list the first: the first row whose second is listed. */
static const struct {
	struct nfsstat3 meant, said;
} nearest[] = {
	{ NFS3ERR_PERM, NFS3ERR_ACCES },
	{ NFS3ERR_INVAL, NFS3ERR_ACCES }, /* section 3.2 says so of a null name */
	{ NFS3ERR_ISDIR, NFS3ERR_INVAL },
	{ NFS3ERR_ISDIR, NFS3ERR_EXIST },
	{ NFS3ERR_ISDIR, NFS3ERR_ACCES },
	{ NFS3ERR_NOTDIR, NFS3ERR_INVAL },
	{ NFS3ERR_NOENT, NFS3ERR_STALE }, /* the directory itself is gone */
	{ NFS3ERR_MLINK, NFS3ERR_NOSPC },
	{ NFS3ERR_NOTEMPTY, NFS3ERR_EXIST },
	{ NFS3ERR_ROFS, NFS3ERR_ACCES },
	{ NFS3ERR_FBIG, NFS3ERR_INVAL },
	{ NFS3ERR_NAMETOOLONG, NFS3ERR_INVAL },
	{ NFS3ERR_NOTSUPP, NFS3ERR_INVAL },
	{ NFS3ERR_ACCES, NFS3ERR_STALE }, /* the export is not for this client (any more) */
	{ NFS3ERR_PERM, NFS3ERR_STALE },
};

static struct nfsstat3 status_of(int err)
{
	static _Atomic uint64_t logged[4]; /* a bit for each errno */
	for (unsigned i = 0; i < ARRAY_SIZE(errors); i++)
		if (errors[i].error == -err)
			return errors[i].status;
	counter_add(&unmapped, 1);
	unsigned bit = (unsigned)-err % 256;
	uint64_t mask = UINT64_C(1) << bit % 64;
	if ((atomic_fetch_or(&logged[bit / 64], mask) & mask) == 0)
		log_write(LOG_LEVEL_WARNING, "errno %d (%s) has no NFSv3 status; the client sees NFS3ERR_SERVERFAULT", -err, strerrorname_np(-err));
	return NFS3ERR_SERVERFAULT;
}

static struct nfsstat3 listed(uint32_t proc, struct nfsstat3 status)
{
	if (nfs3_status_allowed(proc, status))
		return status;
	for (unsigned i = 0; i < ARRAY_SIZE(nearest); i++)
		if (nfsstat3_eq(nearest[i].meant, status) && nfs3_status_allowed(proc, nearest[i].said))
			return nearest[i].said;
	return nfs3_status_allowed(proc, NFS3ERR_IO) ? NFS3ERR_IO : NFS3ERR_SERVERFAULT;
}

struct nfsstat3 nfs3_status(struct rpc_call *call, int err)
{
	if (err == 0)
		return NFS3_OK;
	struct nfsstat3 status = listed(call->header.proc, status_of(err));
	if (nfsstat3_eq(status, NFS3ERR_JUKEBOX)) {
		counter_add(&jukebox, 1);
		call->not_cached = true;
	}
	ASSERT(nfs3_status_allowed(call->header.proc, status));
	return status;
}
