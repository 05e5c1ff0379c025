/*
 * vfs/data.c - READ, WRITE and COMMIT of a regular file. (WRITE_PATH 1)
 *
 * A WRITE: check, lock its units, stage (iocache splits it into adopted middle and edges), unlock; if it must be stable, wait for the round that covers it. A
 * READ: lock its units shared, take what is in hand, read the rest of the widened range from the device, lay what is in hand over it. Where all is in
 * hand, the reply is sent from that very memory; where nothing is, from the buffer that the device filled.
 *
 * The verifier in a WRITE's reply is the one from before its bytes were staged, COMMIT's is the one from after its sync: what was lost in between shows.
 */
#include "vfs/data.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "iocache/mapping.h"
#include "runtime/buf.h"
#include "runtime/clock.h"
#include "runtime/counter.h"
#include "runtime/fiber.h"
#include "runtime/io.h"
#include "vfs/access.h"
#include "vfs/attr.h"
#include "vfs/export.h"
#include "vfs/file.h"
#include "vfs/ns.h"

enum { PIECES_ON_STACK = 16, PIECES_MAX = 4096 };
static const uint64_t MEMORY_WAIT_NS = 10ull * 1000000000, MEMORY_RETRY_NS = 1000000;

COUNTER_DEFINE(writes, "write.calls");
COUNTER_DEFINE(writes_direct, "write.direct");
COUNTER_DEFINE(writes_dontcache, "write.dontcache");
COUNTER_DEFINE(writes_buffered, "write.buffered");
/* Of WRITEs and READs that were to be direct or dontcache: buffered instead; that, since the file has no direct I/O at all. */
COUNTER_DEFINE(mode_fallback, "mode.fallback");
COUNTER_DEFINE(mode_no_alignment, "mode.no_alignment");
/* WRITEs that are edges only. */
COUNTER_DEFINE(mode_too_small, "mode.too_small");
COUNTER_DEFINE(reads, "read.calls");
COUNTER_DEFINE(reads_direct, "read.direct");
COUNTER_DEFINE(reads_dontcache, "read.dontcache");
COUNTER_DEFINE(reads_buffered, "read.buffered");
COUNTER_DEFINE(reads_in_hand, "read.in_hand");
COUNTER_DEFINE(reads_device, "read.device");
COUNTER_DEFINE(commits, "commit.calls");

static _Atomic uint64_t verifier;

noyield_fn void vfs_verifier_change(void)
{
	uint64_t old = atomic_load(&verifier), fresh;

	do {
		fresh = random_u64();
	} while (fresh == 0 || fresh == old);
	atomic_store(&verifier, fresh);
}

noyield_fn uint64_t vfs_verifier(void)
{
	uint64_t v = atomic_load(&verifier);

	if (v)
		return v;
	vfs_verifier_change();
	return atomic_load(&verifier);
}

/* Open for I/O, fetch attributes, decide. attr is valid unless *attr_valid says no. */
static int prepare(const struct vfs_call *call, struct vfs_file *file, unsigned may, struct vfs_attr *attr, bool *attr_valid)
{
	int error;

	*attr_valid = vfs_getattr(file, attr) == 0;
	if (!*attr_valid)
		return -ESTALE;
	if (!S_ISREG(file->type))
		return S_ISDIR(file->type) ? -EISDIR : -EINVAL;
	error = vfs_may(call, file, attr, may);
	if (!error)
		error = vfs_file_open_io(file);
	if (!error && (may & MAY_WRITE) && file->io_read_only)
		error = -EROFS;
	return error;
}

static void wcc_set_pre(struct vfs_wcc *wcc, uint64_t size, struct timespec mtime, struct timespec ctime)
{
	wcc->pre_valid = true;
	wcc->pre.size = size;
	wcc->pre.mtime = mtime;
	wcc->pre.ctime = ctime;
}

/* A WRITE's own before and after, laid over the attributes that it does not change. */
static void wcc_from_write(struct vfs_wcc *wcc, const struct vfs_attr *attr, const struct mapping_write *w)
{
	wcc_set_pre(wcc, w->before.size, w->before.mtime, w->before.ctime);
	wcc->post_valid = true;
	wcc->post = *attr;
	wcc->post.size = w->after.size;
	wcc->post.mtime = w->after.mtime;
	wcc->post.ctime = w->after.ctime;
}

/* After a failure: what the file looks like now. */
static void wcc_from_now(struct vfs_wcc *wcc, struct vfs_file *file)
{
	wcc->post_valid = vfs_getattr(file, &wcc->post) == 0;
}

/* The mode that a READ or WRITE of the file can have. */
static enum export_mode mode_of(const struct vfs_file *file, enum export_mode wish, bool can_direct)
{
	if (wish == EXPORT_MODE_BUFFERED || can_direct)
		return wish;
	counter_add(&mode_fallback, 1);
	if (file->direct_fd < 0)
		counter_add(&mode_no_alignment, 1);
	return EXPORT_MODE_BUFFERED;
}

static void count_write(struct mapping *m, enum export_mode mode, const struct mapping_write *w)
{
	struct counter *const by_mode[] = { [EXPORT_MODE_DIRECT] = &writes_direct, [EXPORT_MODE_DONTCACHE] = &writes_dontcache, [EXPORT_MODE_BUFFERED] = &writes_buffered };

	counter_add(by_mode[mode], 1);
	if (mode != EXPORT_MODE_BUFFERED && align_up(w->start, mapping_unit(m)) >= align_down(w->end, mapping_unit(m)))
		counter_add(&mode_too_small, 1);
}

static void count_read(enum export_mode mode)
{
	struct counter *const by_mode[] = { [EXPORT_MODE_DIRECT] = &reads_direct, [EXPORT_MODE_DONTCACHE] = &reads_dontcache, [EXPORT_MODE_BUFFERED] = &reads_buffered };

	counter_add(by_mode[mode], 1);
}

static int stage(const struct vfs_call *call, struct vfs_file *file, struct mapping_write *w, struct mapping_payload *payload)
{
	struct mapping *m = vfs_file_mapping(file);
	int error = mapping_write_begin(m, w, call->client, w->start, payload->len);
	enum export_mode mode;

	if (error)
		return error;
	vfs_file_change_begin(file);
	mode = mode_of(file, call->view->options.write_mode, mapping_can_direct(m));
	count_write(m, mode, w);
	payload->copy = mode == EXPORT_MODE_DONTCACHE;
	error = mode == EXPORT_MODE_BUFFERED ? mapping_write_through(m, w, payload) : mapping_stage(m, w, payload);
	vfs_file_change_end(file);
	mapping_write_end(m, w);
	return error;
}

static int write_bytes(const struct vfs_call *call, struct vfs_file *file, uint64_t offset, const struct vfs_payload *payload, enum vfs_stable stable,
		       const struct vfs_attr *attr, struct vfs_write_result *result)
{
	struct mapping_payload p = { .buf = payload->buf, .data = payload->data, .len = payload->len };
	struct mapping_write w = { .start = offset };
	static const enum mapping_sync_how how[] = { [VFS_UNSTABLE] = MAPPING_WRITTEN, [VFS_DATA_SYNC] = MAPPING_SYNC_DATA, [VFS_FILE_SYNC] = MAPPING_SYNC_FILE };
	int error = call->cred.uid == 0 ? 0 : vfs_kill_suid(file, attr);

	p.unstable = stable == VFS_UNSTABLE && !mapping_space_is_short(vfs_file_mapping(file));
	p.keep_edges = call->view->options.keep_edges;
	p.how = how[stable];
	result->verf = vfs_verifier();
	if (!error)
		error = stage(call, file, &w, &p);
	if (!error && !p.unstable)
		error = mapping_write_wait(vfs_file_mapping(file), &w);
	if (error)
		return error;
	wcc_from_write(&result->wcc, attr, &w);
	result->count = payload->len;
	return 0;
}

/* Judged before anything is staged: the kernel would refuse it when the bytes have been acknowledged, and that changes the verifier for everybody. */
static bool fits(const struct vfs_file *file, uint64_t offset, uint32_t len)
{
	uint64_t max = file->export->max_file_bytes;

	return offset <= max && len <= max - offset;
}

fiber_fn int vfs_write(const struct vfs_call *call, struct vfs_file *file, uint64_t offset, const struct vfs_payload *payload, enum vfs_stable stable,
		       struct vfs_write_result *result)
{
	struct vfs_attr attr;
	bool attr_valid;
	int error;

	*result = (struct vfs_write_result){ .committed = stable, .verf = vfs_verifier() };
	counter_add(&writes, 1);
	error = prepare(call, file, MAY_WRITE | MAY_OWNER_OVERRIDE, &attr, &attr_valid);
	if (!error && !fits(file, offset, payload->len))
		error = -EFBIG;
	if (!error && payload->len)
		error = write_bytes(call, file, offset, payload, stable, &attr, result);
	if (error) {
		wcc_from_now(&result->wcc, file);
	} else if (!payload->len) {
		wcc_set_pre(&result->wcc, attr.size, attr.mtime, attr.ctime);
		result->wcc.post_valid = true;
		result->wcc.post = attr;
	}
	return error;
}

/* What one READ has in hand: pieces in ascending order. */
struct in_hand {
	struct mapping_piece few[PIECES_ON_STACK];
	struct mapping_piece *piece;
	int count;
};

static int take_in_hand(struct mapping *m, uint64_t start, uint64_t end, struct in_hand *in)
{
	in->piece = in->few;
	in->count = mapping_read_pieces(m, start, end, in->piece, PIECES_ON_STACK);
	if (in->count >= 0)
		return 0;
	in->piece = malloc(PIECES_MAX * sizeof *in->piece);
	in->count = in->piece ? mapping_read_pieces(m, start, end, in->piece, PIECES_MAX) : -ENOMEM;
	return in->count < 0 ? in->count : 0;
}

static void put_in_hand(struct in_hand *in)
{
	for (int i = 0; i < in->count; i++)
		buf_put(in->piece[i].buf);
	if (in->piece != in->few)
		free(in->piece);
}

static bool covers(const struct in_hand *in, uint64_t start, uint64_t end)
{
	for (int i = 0; i < in->count && in->piece[i].start == start; i++)
		start = in->piece[i].end;
	return start >= end;
}

/* The reply is the memory in hand itself. */
static void lend(struct in_hand *in, struct vfs_read_result *result)
{
	for (int i = 0; i < in->count; i++) {
		result->iov[i] = (struct iovec){ .iov_base = (void *)in->piece[i].data, .iov_len = in->piece[i].end - in->piece[i].start };
		result->hold[i] = buf_get(in->piece[i].buf);
	}
	result->segments = (unsigned)in->count;
}

static struct buf *alloc_patiently(size_t len)
{
	uint64_t deadline = clock_mono_ns() + MEMORY_WAIT_NS;
	struct buf *b;

	while (!(b = buf_alloc(len)) && !buf_wait(len, deadline) && !(b = buf_alloc(len))) {
		/* The budget has room, the system has none: nobody's put will wake us. */
		if (clock_mono_ns() >= deadline)
			return NULL;
		fiber_sleep_ns(MEMORY_RETRY_NS);
	}
	return b;
}

static int read_and_overlay(struct vfs_file *file, bool direct, uint64_t start, uint64_t end, const struct in_hand *in, struct vfs_read_result *result)
{
	uint32_t unit = direct ? mapping_read_unit(vfs_file_mapping(file)) : 1;
	uint64_t from = align_down(start, unit), to = align_up(end, unit);
	struct buf *b = alloc_patiently(to - from);
	int error;

	if (!b)
		return -EAGAIN;
	counter_add(&reads_device, 1);
	error = mapping_read_device(vfs_file_mapping(file), direct, b->data, from, to);
	if (error) {
		buf_put(b);
		return error;
	}
	for (int i = 0; i < in->count; i++)
		memcpy(b->data + (in->piece[i].start - from), in->piece[i].data, in->piece[i].end - in->piece[i].start);
	result->iov[0] = (struct iovec){ .iov_base = b->data + (start - from), .iov_len = end - start };
	result->hold[0] = b;
	result->segments = 1;
	return 0;
}

static int read_range(struct vfs_file *file, bool direct, uint64_t start, uint64_t end, struct vfs_read_result *result)
{
	struct in_hand in;
	int error = take_in_hand(vfs_file_mapping(file), start, end, &in);

	if (error)
		return error;
	if (in.count <= VFS_READ_SEGMENTS && covers(&in, start, end)) {
		counter_add(&reads_in_hand, 1);
		lend(&in, result);
	} else {
		error = read_and_overlay(file, direct, start, end, &in, result);
	}
	put_in_hand(&in);
	return error;
}

/* Bytes [offset, end) of a file that is at least so long. */
static int read_bytes(const struct vfs_call *call, struct vfs_file *file, uint64_t offset, uint64_t end, struct vfs_read_result *result)
{
	struct mapping *m = vfs_file_mapping(file);
	enum export_mode mode = mode_of(file, call->view->options.read_mode, mapping_can_read_direct(m));
	int error;

	count_read(mode);
	if (mode != EXPORT_MODE_BUFFERED)
		mapping_readahead(m, call->client, offset, end);
	error = read_range(file, mode != EXPORT_MODE_BUFFERED, offset, end, result);
	mapping_prune(m, offset, end, call->view->options.keep_edges);
	return error;
}

/* READ with the range locked: the size is looked at again, for a WRITE may have ended meanwhile. */
static int read_locked(const struct vfs_call *call, struct vfs_file *file, uint64_t offset, uint32_t count, struct vfs_read_result *result)
{
	uint64_t size = mapping_size(vfs_file_mapping(file));
	uint64_t end = offset >= size ? offset : min_u64(offset + count, size);
	int error = 0;

	if (end > offset)
		error = read_bytes(call, file, offset, end, result);
	if (error)
		return error;
	result->count = (uint32_t)(end - offset);
	result->eof = offset + count >= size;
	return 0;
}

fiber_fn int vfs_read(const struct vfs_call *call, struct vfs_file *file, uint64_t offset, uint32_t count, struct vfs_read_result *result)
{
	struct range_hold hold;
	int error;

	result->count = result->segments = 0;
	result->eof = false;
	counter_add(&reads, 1);
	error = prepare(call, file, MAY_READ | MAY_OWNER_OVERRIDE | MAY_READ_IF_EXEC, &result->attr, &result->attr_valid);
	if (error)
		return error;
	count = (uint32_t)min_u64(count, VFS_IO_MAX);
	if (offset > (uint64_t)INT64_MAX - count) { /* past any possible end */
		result->eof = true;
		return 0;
	}
	mapping_read_begin(vfs_file_mapping(file), &hold, offset, offset + count);
	error = read_locked(call, file, offset, count, result);
	mapping_read_end(vfs_file_mapping(file), &hold);
	if (!error)
		result->attr.size = max_u64(result->attr.size, result->count ? offset + result->count : 0);
	return error;
}

noyield_fn void vfs_read_put(struct vfs_read_result *result)
{
	for (unsigned i = 0; i < result->segments; i++)
		if (result->hold[i])
			buf_put(result->hold[i]);
	result->segments = 0;
}

fiber_fn int vfs_commit(const struct vfs_call *call, struct vfs_file *file, uint64_t offset, uint32_t count, uint64_t *verf, struct vfs_wcc *wcc)
{
	struct vfs_attr attr;
	bool attr_valid;
	uint64_t end = count ? offset + count : UINT64_MAX;
	int error;

	*wcc = (struct vfs_wcc){ 0 };
	counter_add(&commits, 1);
	error = prepare(call, file, MAY_WRITE | MAY_OWNER_OVERRIDE, &attr, &attr_valid);
	if (!error)
		error = mapping_commit(vfs_file_mapping(file), offset, end < offset ? UINT64_MAX : end);
	*verf = vfs_verifier();
	if (attr_valid)
		wcc_set_pre(wcc, attr.size, attr.mtime, attr.ctime);
	wcc_from_now(wcc, file);
	return error;
}

fiber_fn int vfs_truncate(struct vfs_file *file, uint64_t size)
{
	struct mapping *m;
	int error = vfs_file_open_io(file);

	if (error)
		return error;
	if (file->io_read_only)
		return -EROFS;
	if (!fits(file, size, 0))
		return -EFBIG;
	m = vfs_file_mapping(file);
	vfs_file_change_begin(file);
	error = mapping_truncate(m, size);
	vfs_file_change_end(file);
	return error ? error : mapping_sync(m, 0, UINT64_MAX, 0, MAPPING_SYNC_FILE);
}
