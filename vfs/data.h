/*
 * vfs/data.h - READ, WRITE and COMMIT of a regular file: the splitter. (WRITE_PATH section 1)
 *
 * The file's descriptors and mapping are there after vfs_file_open_io(), which these call themselves. Memory: a WRITE's payload is in a buf that
 * the caller received into, at an address congruent to the offset modulo PAGE_BYTES; the mapping takes its own references. A READ hands out segments,
 * each holding a reference, that stay unchanged until vfs_read_put().
 */
#ifndef VFS_DATA_H
#define VFS_DATA_H

#include <sys/uio.h>

#include "vfs/types.h"

struct vfs_file;
struct buf;

/* RFC 1813 3.3.7's stable_how, with its numbers; named apart, because the protocol's own enum stands in proto/, which this layer does not see. */
enum vfs_stable { VFS_UNSTABLE = 0, VFS_DATA_SYNC = 1, VFS_FILE_SYNC = 2 };

enum { VFS_IO_MAX = 1 << 20, VFS_READ_SEGMENTS = 64 };

struct vfs_payload {
	struct buf *buf;     /* referenced by the caller for the call's duration */
	uint8_t *data;       /* inside buf; (uintptr_t)data % PAGE_BYTES == offset % PAGE_BYTES, or the middle is copied (counted) */
	uint32_t len;
};

struct vfs_write_result {
	uint32_t count;
	enum vfs_stable committed;
	uint64_t verf;
	struct vfs_wcc wcc;
};

/* 0 or -errno; wcc is filled either way as far as possible. -EFBIG, -ENOSPC, -EDQUOT, -EIO, -EROFS, -EACCES, -ESTALE, -EISDIR, -EINVAL. */
fiber_fn int vfs_write(const struct vfs_call *call, struct vfs_file *file, uint64_t offset, const struct vfs_payload *payload, enum vfs_stable stable,
		       struct vfs_write_result *result);

struct vfs_read_result {
	uint32_t count;
	bool eof;
	bool attr_valid;
	struct vfs_attr attr;
	unsigned segments;
	struct iovec iov[VFS_READ_SEGMENTS];
	struct buf *hold[VFS_READ_SEGMENTS]; /* one reference each; NULL where the segment shares the previous one's or is static zeros */
};

fiber_fn int vfs_read(const struct vfs_call *call, struct vfs_file *file, uint64_t offset, uint32_t count, struct vfs_read_result *result);
noyield_fn void vfs_read_put(struct vfs_read_result *result);

/* count 0: to the end of file. */
fiber_fn int vfs_commit(const struct vfs_call *call, struct vfs_file *file, uint64_t offset, uint32_t count, uint64_t *verf, struct vfs_wcc *wcc);

/*
 * Change the size under the mapping's control: for SETATTR and CREATE(size). The permission was decided by the caller.
 */
fiber_fn int vfs_truncate(struct vfs_file *file, uint64_t size);

/* The write verifier of this instance: random, never 0; vfs_verifier_change() after anything acknowledged may have been lost. */
noyield_fn uint64_t vfs_verifier(void);
noyield_fn void vfs_verifier_change(void);

#endif
