/*
 * iocache/readahead.c - a sequential reader finds what it asks for in memory; and once it has been read, it is gone. (WRITE_PATH 3.2, 3.3, 3.5, 4.4)
 *
 * A stream is one client's way through the file: the place where its next READ is expected. A READ there doubles the window, any other closes it. What the
 * window gained is read by a fiber of its own: it claims large folios where nothing is in hand, empty, marked, on the list of kept units and under its bounds; reads
 * into their memory; and gives the blocks out as up to date when they are there, but for those that a WRITE gave meanwhile. A READ of claimed bytes waits for them.
 *
 * Clients that have several READs under way read ahead themselves: then there is nothing to gain, and the streams only follow.
 *
 * The claim is made under a shared hold of the range: no WRITE, no truncate is half done. The read is not: it would hold up writers.
 */
#include "iocache/mapping_impl.h"

#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "runtime/buf.h"
#include "runtime/counter.h"
#include "runtime/fiber.h"
#include "runtime/io.h"

COUNTER_DEFINE(readahead_bytes, "cache.readahead_bytes");
COUNTER_DEFINE(readahead_collapsed, "cache.readahead_collapsed");
COUNTER_DEFINE(pruned, "cache.pruned");

enum { WINDOW_MIN = 128 << 10, WINDOW_MAX = 2 << 20, PIECES_MAX = WINDOW_MAX / LARGE_BYTES + 2 };

/* One fiber's work: the folios that it claimed, as their memory, for the index may lose them meanwhile. */
struct readahead {
	struct mapping *mapping;
	uint64_t start, end, id;
	unsigned count;
	struct { uint64_t start; uint32_t len; struct buf *buf; } piece[PIECES_MAX];
};

/* --- streams --- */

static struct read_stream *stream_of_locked(struct mapping *m, uint64_t client, uint64_t start, uint64_t end, bool *sequential)
{
	struct read_stream *oldest = m->streams;

	*sequential = true;
	for (struct read_stream *s = m->streams; s < m->streams + READ_STREAMS; s++) {
		/* READs of one client may overtake each other: once it is one, near is near enough. */
		uint64_t slack = s->window ? end - start : 0;

		if (s->used && s->client == client && start <= s->next + slack && start + slack >= s->next)
			return s;
		if (s->used < oldest->used)
			oldest = s;
	}
	if (oldest->window)
		counter_add(&readahead_collapsed, 1);
	*oldest = (struct read_stream){ .client = client };
	*sequential = start == 0; /* who begins at the beginning will go on */
	return oldest;
}

/* What to read now, [*from, *to); false: nothing. */
static bool advance_locked(struct mapping *m, uint64_t client, uint64_t start, uint64_t end, uint64_t *from, uint64_t *to)
{
	uint64_t limit = align_down(min_u64(m->size, m->disk_size), m->unit); /* the last part is the READ's own business */
	bool sequential;
	struct read_stream *s = stream_of_locked(m, client, start, end, &sequential);

	s->used = ++m->streams_clock;
	s->next = max_u64(s->next, end);
	if (!sequential)
		return false;
	s->window = s->window ? (uint32_t)min_u64(s->window * 2, WINDOW_MAX) : WINDOW_MIN;
	if (m->readers > 1 || cache_kept_is_tight())
		return false;
	*from = max_u64(s->ahead, align_up(s->next, m->unit));
	*to = min_u64(align_up(s->next + s->window, m->unit), limit);
	if (*to <= *from || (*to < limit && *to - *from < s->window / 2)) /* rather one large read than many small ones */
		return false;
	s->ahead = *to;
	return true;
}

/* --- claiming and filling --- */

static bool is_free_locked(struct mapping *m, uint64_t start, uint64_t end)
{
	struct folio *f = mapping_first_locked(m, start);

	return !f || f->start >= end;
}

/* False: no memory, or no room. */
static bool claim_piece(struct readahead *ra, uint64_t start, uint64_t end)
{
	struct mapping *m = ra->mapping;
	struct folio *f = folio_alloc_large(start, (uint32_t)(end - start));
	bool claimed = false;

	if (f)
		f->blocks = blocks_alloc(m->config.block, f->len / m->config.block, false, false);
	if (!f || !f->blocks) {
		if (f)
			folio_free(f);
		return false;
	}
	f->mark = true;
	f->fill = ra->id;
	leaf_lock(&m->lock);
	if (is_free_locked(m, start, end)) {
		mapping_insert_locked(m, f);
		claimed = mapping_keep_locked(m, f);
		if (claimed) {
			ra->piece[ra->count].start = start;
			ra->piece[ra->count].len = f->len;
			ra->piece[ra->count++].buf = buf_get(f->buf);
		} else {
			mapping_remove_locked(m, f);
		}
		f = NULL;
	}
	leaf_unlock(&m->lock);
	if (f) { /* somebody was faster, and has the bytes: on with the next */
		folio_free(f);
		return true;
	}
	return claimed;
}

static void claim(struct readahead *ra)
{
	uint64_t at = ra->start, end;
	struct range_hold hold;

	fiber_rangelock_lock(&ra->mapping->ranges, &hold, ra->start, ra->end, RANGE_SHARED);
	for (; at < ra->end && ra->count < PIECES_MAX; at = end) {
		end = min_u64(align_down(at, LARGE_BYTES) + LARGE_BYTES, ra->end);
		if (!claim_piece(ra, at, end))
			break;
	}
	fiber_rangelock_unlock(&ra->mapping->ranges, &hold);
}

/* The memory that the fill brought, in f: where nobody wrote meanwhile. */
static void give_blocks(struct folio *f, const uint8_t *data, uint32_t len)
{
	struct blocks *b = f->blocks;

	for (uint32_t i = 0; i < len / b->bytes; i++) {
		if (bits_all(b->uptodate, i, i + 1))
			continue;
		if (f->data != data)
			memcpy(f->data + i * b->bytes, data + i * b->bytes, b->bytes);
		bits_set(b->uptodate, i, i + 1);
	}
}

static void piece_filled(struct readahead *ra, unsigned i, int error)
{
	struct mapping *m = ra->mapping;
	struct folio *f;

	leaf_lock(&m->lock);
	f = mapping_find_locked(m, ra->piece[i].start);
	if (f && f->fill == ra->id) {
		f->fill = 0;
		if (!error && (f->buf == ra->piece[i].buf || folio_is_private(f)))
			give_blocks(f, ra->piece[i].buf->data, f->len);
		if (error && f->is_kept)
			mapping_remove_locked(m, f);
	}
	fiber_cond_broadcast_locked(&m->filled);
	leaf_unlock(&m->lock);
	buf_put(ra->piece[i].buf);
}

/* Pieces from `first` on that follow each other, as one read; zeros past the end of the file. How many. */
static unsigned read_pieces(struct readahead *ra, unsigned first)
{
	struct iovec iov[PIECES_MAX];
	uint64_t end = ra->piece[first].start, from = end;
	unsigned n = 0;
	ssize_t got;

	for (; first + n < ra->count && ra->piece[first + n].start == end; n++) {
		iov[n] = (struct iovec){ .iov_base = ra->piece[first + n].buf->data, .iov_len = ra->piece[first + n].len };
		end += ra->piece[first + n].len;
	}
	got = mapping_read_vector(ra->mapping->config.direct_fd, ra->mapping->config.read_block, iov, n, from);
	counter_add(&readahead_bytes, got > 0 ? got : 0);
	for (unsigned i = first; i < first + n; i++) {
		size_t at = ra->piece[i].start - from, have = got > (ssize_t)at ? min_u64((size_t)got - at, ra->piece[i].len) : 0;

		memset(ra->piece[i].buf->data + have, 0, ra->piece[i].len - have);
		piece_filled(ra, i, got < 0 ? (int)got : 0);
	}
	return n;
}

/* From then on the mapping is its owner's to destroy. */
static void readahead_ended(struct mapping *m)
{
	leaf_lock(&m->lock);
	m->readaheads--;
	fiber_cond_broadcast_locked(&m->filled);
	leaf_unlock(&m->lock);
}

static void readahead_main(void *arg)
{
	struct readahead *ra = arg;
	const struct mapping_config config = ra->mapping->config;

	claim(ra);
	for (unsigned i = 0; i < ra->count;)
		i += read_pieces(ra, i);
	readahead_ended(ra->mapping);
	free(ra);
	if (config.release)
		config.release(config.owner);
}

noyield_fn void mapping_readahead(struct mapping *m, uint64_t client, uint64_t start, uint64_t end)
{
	uint64_t from = 0, to = 0;
	struct readahead *ra;

	leaf_lock(&m->lock);
	bool wanted = advance_locked(m, client, start, end, &from, &to);
	uint64_t id = wanted ? ++m->next_fill : 0;
	ra = wanted ? calloc(1, sizeof *ra) : NULL;
	m->readaheads += ra != NULL;
	leaf_unlock(&m->lock);
	if (!ra)
		return;
	*ra = (struct readahead){ .mapping = m, .start = from, .end = to, .id = id };
	if (m->config.hold)
		m->config.hold(m->config.owner);
	if (fiber_spawn(readahead_main, ra, "readahead") == 0)
		return;
	free(ra);
	readahead_ended(m);
	if (m->config.release)
		m->config.release(m->config.owner);
}

/* --- the reader --- */

noyield_fn bool readahead_is_filling_locked(struct mapping *m, uint64_t start, uint64_t end)
{
	for (struct folio *f = mapping_first_locked(m, start); f && f->start < end; f = mapping_next_locked(f))
		if (f->fill)
			return true;
	return false;
}

noyield_fn void readahead_forget_locked(struct mapping *m, struct folio *f)
{
	if (!f->fill)
		return;
	f->fill = 0;
	fiber_cond_broadcast_locked(&m->filled);
}

noyield_fn void mapping_prune(struct mapping *m, uint64_t start, uint64_t end, bool keep)
{
	struct folio *f, *next;

	leaf_lock(&m->lock);
	for (f = mapping_first_locked(m, start); f && f->start < end; f = next) {
		next = mapping_next_locked(f);
		if (keep && f->large) {
			mapping_mark_locked(f, false);
		} else if (f->mark && f->is_kept && !f->fill && folio_end(f) <= align_up(end, m->unit)) {
			mapping_remove_locked(m, f);
			counter_add(&pruned, 1);
		}
	}
	leaf_unlock(&m->lock);
}
