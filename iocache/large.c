/*
 * iocache/large.c - large folios in the mapping: written in place, split, cut, taken by runs. (WRITE_PATH 4, 5.3, 5.7)
 *
 * A large folio is whole until a part of it is written, cut away, or read ahead; then it carries a state by block (iocache/blocks.h), and from then on its
 * runs are stretches of dirty blocks, one at a time. dirty_seq stands for all its dirty blocks: it is 0 exactly when there are none. While a round waits for
 * them nothing joins them: a WRITE then takes its blocks out, into a folio with a number of its own.
 */
#include "iocache/mapping_impl.h"

#include <string.h>

#include "runtime/buf.h"
#include "runtime/counter.h"

COUNTER_DEFINE(large_overwrites, "cache.large.overwrites");
COUNTER_DEFINE(large_copies, "cache.large.copies");

/*
 * Memory of its own for f, while a run or a reply still has the old. What was under way is dirty again: those bytes are owed by the run, but if it fails,
 * they must not be missing here.
 */
static int move_to_new_memory(struct mapping *m, struct folio *f)
{
	struct buf *b = buf_alloc(f->len);

	if (!b)
		return -ENOMEM;
	memcpy(b->data, f->data, f->len);
	if (f->run) {
		bits_move(f->blocks->dirty, f->blocks->flight);
		f->run = 0;
		if (!f->dirty_seq)
			f->dirty_seq = ++m->stage_seq;
	}
	buf_put(f->buf);
	f->buf = b;
	f->data = b->data;
	counter_add(&large_copies, 1);
	return 0;
}

noyield_fn bool large_covers_locked(struct mapping *m, uint64_t start, uint64_t end)
{
	struct folio *f = mapping_find_locked(m, start);

	return f && f->large && folio_end(f) >= end && (f->start != start || folio_end(f) != end);
}

noyield_fn bool large_is_owed_locked(struct mapping *m, uint64_t start)
{
	struct folio *f = mapping_find_locked(m, start);

	return m->flusher_running && f->dirty_seq && f->dirty_seq <= m->round_target;
}

noyield_fn int large_prepare_locked(struct mapping *m, uint64_t start)
{
	struct folio *f = mapping_find_locked(m, start);
	int error = folio_attach(f, m->config.block);

	if (!error && !folio_is_private(f))
		error = move_to_new_memory(m, f);
	return error;
}

noyield_fn void large_write_locked(struct mapping *m, uint64_t start, uint64_t end, const uint8_t *from, uint64_t seq, bool unstable)
{
	struct folio *f = mapping_find_locked(m, start);
	uint32_t block = f->blocks->bytes, first = (uint32_t)(start - f->start) / block, last = (uint32_t)(end - f->start) / block;

	ASSERT(folio_is_private(f));
	memcpy(f->data + (start - f->start), from, end - start);
	bits_set(f->blocks->uptodate, first, last);
	bits_set(f->blocks->dirty, first, last);
	mapping_dirty_locked(m, f, seq, unstable);
	counter_add(&large_overwrites, 1);
}

/* Blocks that are wholly below the end of file. */
static uint32_t blocks_below(const struct folio *f, uint64_t size)
{
	return size <= f->start ? 0 : (uint32_t)(min_u64(size - f->start, f->len) / f->blocks->bytes);
}

noyield_fn bool large_stretch_locked(const struct mapping *m, const struct folio *f, uint64_t at, uint64_t *from, uint64_t *to)
{
	const struct blocks *b = f->blocks;
	uint32_t limit = blocks_below(f, m->size), first = at <= f->start ? 0 : (uint32_t)(at - f->start) / b->bytes;

	first = bits_next(b->dirty, first, limit, true);
	*from = f->start + (uint64_t)first * b->bytes;
	*to = f->start + (uint64_t)bits_next(b->dirty, first, limit, false) * b->bytes;
	return first < limit;
}

noyield_fn void large_take_locked(struct folio *f, uint64_t from, uint64_t to)
{
	struct blocks *b = f->blocks;
	uint32_t first = (uint32_t)(from - f->start) / b->bytes, last = (uint32_t)align_up(to - f->start, b->bytes) / b->bytes;

	bits_clear(b->dirty, first, last);
	bits_set(b->flight, first, last);
	if (!bits_any(b->dirty, b->count))
		f->dirty_seq = 0;
}

noyield_fn void large_forget_flight_locked(struct folio *f)
{
	struct blocks *b = f->blocks;

	ASSERT(f->dirty_seq);

	for (int i = 0; i < BLOCKS_WORDS; i++) {
		b->uptodate[i] &= ~b->flight[i];
		b->flight[i] = 0;
	}
	f->run = 0;
}

noyield_fn struct folio *large_isolate_flight_locked(struct mapping *m, struct folio *f)
{
	const struct blocks *b = f->blocks;
	uint32_t first = bits_next(b->flight, 0, b->count, true), last = bits_next(b->flight, first, b->count, false);
	uint64_t from = align_down(f->start + (uint64_t)first * b->bytes, m->unit), to = align_up(f->start + (uint64_t)last * b->bytes, m->unit);

	if (!large_split_locked(m, from))
		large_split_locked(m, to);
	return mapping_find_locked(m, from);
}

/* f has lost blocks: does it still hold what somebody waits for? */
static bool is_settled(const struct folio *f)
{
	return !bits_any(f->blocks->dirty, f->blocks->count) && !bits_any(f->blocks->flight, f->blocks->count);
}

static struct folio *slice(const struct folio *f, uint64_t start, uint64_t end)
{
	struct folio *s = folio_alloc_adopted(start, (uint32_t)(end - start), f->buf, f->data + (start - f->start));

	if (!s)
		return NULL;
	s->adopted = false;
	s->large = true;
	s->mark = f->mark;
	s->unstable = f->unstable;
	s->payer = f->payer;
	s->refused_since_ns = f->refused_since_ns;
	s->run = f->run;
	s->dirty_seq = f->dirty_seq;
	if (!f->blocks)
		return s;
	s->blocks = blocks_slice(f->blocks, (uint32_t)(start - f->start) / f->blocks->bytes, s->len / f->blocks->bytes);
	if (!s->blocks) {
		folio_free(s);
		return NULL;
	}
	if (!bits_any(s->blocks->dirty, s->blocks->count))
		s->dirty_seq = 0;
	if (!bits_any(s->blocks->flight, s->blocks->count))
		s->run = 0;
	return s;
}

/* What is neither dirty nor under way is only a copy of the disk: it stays if it is whole and a reader wants it to, and there is room. (WRITE_PATH 2.7) */
static void insert_or_forget(struct mapping *m, struct folio *f)
{
	bool accounted = f->run || f->dirty_seq;

	if (!accounted && (f->mark || !folio_is_whole(f))) {
		folio_free(f);
		return;
	}
	mapping_insert_locked(m, f);
	if (!accounted && !mapping_keep_beside_locked(m, f))
		mapping_remove_locked(m, f);
}

noyield_fn int large_split_locked(struct mapping *m, uint64_t at)
{
	struct folio *f = mapping_find_locked(m, at), *left, *right;

	if (!f || !f->large || f->start == at)
		return 0;
	left = slice(f, f->start, at);
	right = slice(f, at, folio_end(f));
	if (!left || !right) {
		if (left)
			folio_free(left);
		if (right)
			folio_free(right);
		return -ENOMEM;
	}
	mapping_remove_locked(m, f);
	insert_or_forget(m, left);
	insert_or_forget(m, right);
	return 0;
}

noyield_fn int large_cut_locked(struct mapping *m, struct folio *f, uint64_t size)
{
	uint32_t keep = (uint32_t)(size - f->start), whole;
	int error;

	if (!f->run && !f->dirty_seq) {
		mapping_remove_locked(m, f);
		return 0;
	}
	error = large_prepare_locked(m, f->start);
	if (error)
		return error;
	whole = (uint32_t)align_up(keep, f->blocks->bytes) / f->blocks->bytes;
	readahead_forget_locked(m, f);
	memset(f->data + keep, 0, f->len - keep);
	bits_clear(f->blocks->dirty, whole, f->blocks->count);
	if (is_settled(f))
		mapping_remove_locked(m, f);
	return 0;
}
