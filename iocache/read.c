/* iocache/read.c - READ sees what is in hand. The reader holds its range shared, so no WRITE changes it; the flusher may still clean and drop. */
#include "iocache/mapping_impl.h"

#include <string.h>
#include <sys/uio.h>

#include "runtime/buf.h"
#include "runtime/io.h"

fiber_fn void mapping_read_begin(struct mapping *m, struct range_hold *hold, uint64_t start, uint64_t end)
{
	fiber_rangelock_lock(&m->ranges, hold, align_down(start, m->unit), align_up(end, m->unit), RANGE_SHARED);
	leaf_lock(&m->lock);
	m->readers++;
	while (readahead_is_filling_locked(m, start, end))
		fiber_cond_wait(&m->filled, &m->lock, "readahead");
	leaf_unlock(&m->lock);
}

noyield_fn void mapping_read_end(struct mapping *m, struct range_hold *hold)
{
	leaf_lock(&m->lock);
	m->readers--;
	leaf_unlock(&m->lock);
	fiber_rangelock_unlock(&m->ranges, hold);
}

struct collector {
	uint64_t start, end;
	struct mapping_piece *piece;
	unsigned count, max;
};

/* Add f's bytes [a, b), as far as they are wanted. False: no place. */
static bool add_piece(struct collector *c, const struct folio *f, uint64_t a, uint64_t b)
{
	a = max_u64(a, c->start);
	b = min_u64(b, c->end);
	if (a >= b)
		return true;
	if (c->count == c->max)
		return false;
	c->piece[c->count++] = (struct mapping_piece){ .start = a, .end = b, .data = f->data + (a - f->start), .buf = buf_get(f->buf) };
	return true;
}

static bool add_blocks(struct collector *c, const struct folio *f)
{
	const struct blocks *b = f->blocks;
	uint32_t from = 0, to;

	while ((from = bits_next(b->uptodate, from, b->count, true)) < b->count) {
		to = bits_next(b->uptodate, from, b->count, false);
		if (!add_piece(c, f, f->start + (uint64_t)from * b->bytes, f->start + (uint64_t)to * b->bytes))
			return false;
		from = to;
	}
	return true;
}

static bool add_folio(struct collector *c, const struct folio *f)
{
	if (f->adopted || (f->large && !f->blocks))
		return add_piece(c, f, f->start, folio_end(f));
	if (f->large)
		return add_blocks(c, f);
	for (uint32_t i = 0; i < f->valid.count; i++)
		if (!add_piece(c, f, f->start + f->valid.range[i].start, f->start + f->valid.range[i].end))
			return false;
	return true;
}

noyield_fn int mapping_read_pieces(struct mapping *m, uint64_t start, uint64_t end, struct mapping_piece *piece, unsigned max)
{
	struct collector c = { .start = start, .end = end, .piece = piece, .max = max };
	bool fits = true;

	leaf_lock(&m->lock);
	for (struct folio *f = mapping_first_locked(m, start); fits && f && f->start < end; f = mapping_next_locked(f))
		fits = add_folio(&c, f);
	leaf_unlock(&m->lock);
	if (fits)
		return (int)c.count;
	while (c.count)
		buf_put(c.piece[--c.count].buf);
	return -E2BIG;
}

/*
 * Where a direct read of [start, end) has to stop: at the block that the file ends in on the disk. Beyond are zeros, and on XFS perhaps space set aside by a
 * buffered write of the tail and not allocated yet: a direct read that meets that fails with EIO.
 */
static uint64_t direct_end(struct mapping *m, uint64_t start, uint64_t end)
{
	leaf_lock(&m->lock);
	uint64_t file_end = align_up(m->disk_size, m->config.read_block);
	leaf_unlock(&m->lock);
	return max_u64(start, min_u64(end, file_end));
}

fiber_fn ssize_t mapping_read_vector(int fd, uint32_t align, struct iovec *iov, unsigned iovcnt, uint64_t offset)
{
	ssize_t got = 1;
	size_t done = 0;

	iov_consume(&iov, &iovcnt, 0);
	while (iovcnt && got > 0 && done % align == 0) {
		got = io_preadv(fd, iov, iovcnt, offset + done, 0);
		if (got < 0)
			return got;
		done += (size_t)got;
		iov_consume(&iov, &iovcnt, (size_t)got);
	}
	return (ssize_t)done;
}

fiber_fn int mapping_read_device(struct mapping *m, bool direct, void *mem, uint64_t start, uint64_t end)
{
	struct iovec iov = { .iov_base = mem, .iov_len = (direct ? direct_end(m, start, end) : end) - start };
	ssize_t done = mapping_read_vector(direct ? m->config.direct_fd : m->config.buffered_fd, direct ? m->config.read_block : 1, &iov, 1, start);

	if (done < 0)
		return (int)done;
	memset((uint8_t *)mem + done, 0, end - start - (uint64_t)done);
	return 0;
}
