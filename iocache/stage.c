/*
 * iocache/stage.c - a WRITE's bytes enter the mapping: middle adopted, ends claimed. (WRITE_PATH 1b.1, 2.1-2.4, 2.9)
 *
 * Everything of one WRITE goes in under one hold of the mapping's lock, so an edge that somebody claimed and did not write yet is never seen. What
 * may fail is done before anything changes. Memory under way to the device, or lent to a READ reply, is never written to: the unit moves to new memory.
 */
#include "iocache/mapping_impl.h"

#include <string.h>
#include <sys/uio.h>

#include "runtime/buf.h"
#include "runtime/counter.h"
#include "runtime/io.h"
#include "runtime/log.h"

COUNTER_DEFINE(edges_claimed, "cache.edges.claimed");
COUNTER_DEFINE(edges_completed, "cache.edges.completed");
COUNTER_DEFINE(middles_adopted, "cache.middles.adopted");
COUNTER_DEFINE(middles_copied, "cache.middles.copied");
COUNTER_DEFINE(middles_owned, "cache.middles.owned");
COUNTER_DEFINE(write_through, "cache.write_through");

/* Give away the part of adopted folio f before `start` and after `end`; f's record becomes the left part, or the right one if there is no left. */
static void split_around(struct mapping *m, struct folio *f, uint64_t start, uint64_t end, struct folio *spare)
{
	uint64_t f_start = f->start, f_end = folio_end(f);

	if (f_end > end) {
		spare->run = f->run;
		spare->dirty_seq = f->dirty_seq;
		spare->unstable = f->unstable;
		spare->mark = f->mark;
		spare->payer = f->payer;
		spare->refused_since_ns = f->refused_since_ns;
	}
	if (f_start < start) {
		mapping_shorten_locked(m, f, start);
	} else {
		mapping_remove_locked(m, f);
	}
	if (f_end > end)
		mapping_insert_locked(m, spare);
}

/* Whatever reaches over `end` will need a record for its right part: made before anything changes. NULL with *error 0: nothing does. */
static struct folio *right_part(struct mapping *m, uint64_t end, int *error)
{
	struct folio *f = mapping_find_locked(m, end), *right;

	*error = 0;
	if (!f || f->start == end)
		return NULL;
	ASSERT(f->adopted);
	right = folio_alloc_adopted(end, (uint32_t)(folio_end(f) - end), f->buf, f->data + (end - f->start));
	*error = right ? 0 : -ENOMEM;
	return right;
}

noyield_fn uint64_t mapping_punch_locked(struct mapping *m, uint64_t start, uint64_t end, bool *unstable, int *error)
{
	uint64_t oldest = 0;
	struct folio *right, *f, *next;

	*unstable = false;
	*error = large_split_locked(m, start);
	if (!*error)
		*error = large_split_locked(m, end);
	if (*error)
		return 0;
	right = right_part(m, end, error);
	if (*error)
		return 0;
	for (f = mapping_first_locked(m, start); f && f->start < end; f = next) {
		next = mapping_next_locked(f);
		if (f->dirty_seq)
			oldest = oldest ? min_u64(oldest, f->dirty_seq) : f->dirty_seq;
		*unstable |= f->unstable;
		split_around(m, f, start, end, right);
	}
	return oldest;
}

/* What a large folio knows of the unit: its bits become ranges. What only came from the disk was not written by anybody. */
static void ranges_of_blocks(const struct folio *f, struct folio *n, uint32_t unit)
{
	uint32_t block = f->blocks->bytes, first = (uint32_t)(n->start - f->start) / block;

	for (uint32_t i = 0; i < unit / block; i++) {
		bool dirty = bits_all(f->blocks->dirty, first + i, first + i + 1) || bits_all(f->blocks->flight, first + i, first + i + 1);

		/* A unit has at most eight blocks: four ranges. */
		if (bits_all(f->blocks->uptodate, first + i, first + i + 1))
			ASSERT(byteset_add(&n->valid, i * block, (i + 1) * block));
		if (dirty)
			ASSERT(byteset_add(&n->dirty, i * block, (i + 1) * block));
	}
	n->written = n->dirty;
}

/* A private copy of the unit at n->start out of f. */
static void copy_unit(struct mapping *m, const struct folio *f, struct folio *n)
{
	memcpy(n->data, f->data + (n->start - f->start), m->unit);
	if (f->blocks) {
		ranges_of_blocks(f, n, m->unit);
	} else if (f->adopted || f->large) {
		byteset_set(&n->valid, 0, m->unit);
		if (f->run || f->dirty_seq)
			n->written = n->dirty = n->valid;
	} else {
		n->valid = f->valid;
		n->written = f->written;
		n->dirty = f->dirty;
	}
	if (!n->dirty.count)
		return;
	n->unstable = f->unstable;
	n->mark = f->mark;
	n->payer = f->payer;
	n->refused_since_ns = f->refused_since_ns;
	/* Under way: those bytes are owed by the run; the copy is written again by a later round, whole, so it takes a number of its own. */
	n->dirty_seq = f->dirty_seq ? f->dirty_seq : ++m->stage_seq;
}

noyield_fn struct folio *mapping_own_unit_locked(struct mapping *m, uint64_t start)
{
	struct folio *f = mapping_find_locked(m, start), *n;
	bool unstable;
	int error;

	if (f && !f->large && folio_is_private(f))
		return f;
	n = folio_alloc_owned(start, m->unit);
	if (!n)
		return NULL;
	if (f) {
		copy_unit(m, f, n);
		mapping_punch_locked(m, start, start + m->unit, &unstable, &error);
		if (error) {
			folio_free(n);
			return NULL;
		}
	} else {
		counter_add(&edges_claimed, 1);
	}
	mapping_insert_locked(m, n);
	return n;
}

/* How a WRITE falls onto units: up to two edges and a middle; absent parts are empty. */
struct split {
	struct { uint64_t start, end; } edge[2];
	uint64_t middle_start, middle_end;
};

static void split_write(uint32_t unit, uint64_t start, uint64_t end, struct split *s)
{
	uint64_t first = align_up(start, unit), last = align_down(end, unit);

	*s = (struct split){ 0 };
	if (first > last) { /* inside one unit */
		s->edge[0].start = start;
		s->edge[0].end = end;
		return;
	}
	s->middle_start = first;
	s->middle_end = last;
	s->edge[0].start = start;
	s->edge[0].end = first;
	s->edge[1].start = last;
	s->edge[1].end = end;
}

/* The middle as one folio over the payload's memory, or over a copy where that is not page-congruent. NULL: no memory. */
static struct folio *adopt_middle(const struct split *s, const struct mapping_write *w, const struct mapping_payload *p)
{
	uint32_t len = (uint32_t)(s->middle_end - s->middle_start);
	uint8_t *data = p->data + (s->middle_start - w->start);
	struct folio *f;
	struct buf *copy;

	if ((uintptr_t)data % PAGE_BYTES == 0) {
		counter_add(&middles_adopted, 1);
		return folio_alloc_adopted(s->middle_start, len, p->buf, data);
	}
	copy = buf_alloc(len);
	if (!copy)
		return NULL;
	memcpy(copy->data, data, len);
	counter_add(&middles_copied, 1);
	f = folio_alloc_adopted(s->middle_start, len, copy, copy->data);
	buf_put(copy);
	return f;
}

static void free_middle(struct folio_list *middle)
{
	struct folio *f;

	while ((f = TAILQ_FIRST(middle))) {
		TAILQ_REMOVE(middle, f, kept);
		folio_free(f);
	}
}

/* The middle as large folios of our own, each within one multiple of LARGE_BYTES. False: no memory. */
static bool copy_middle(struct folio_list *middle, const struct split *s, const struct mapping_write *w, const struct mapping_payload *p)
{
	uint64_t at = s->middle_start, end;
	struct folio *f;

	for (; at < s->middle_end; at = end) {
		end = min_u64(align_down(at, LARGE_BYTES) + LARGE_BYTES, s->middle_end);
		f = folio_alloc_large(at, (uint32_t)(end - at));
		if (!f)
			return false;
		f->mark = !p->keep_edges;
		memcpy(f->data, p->data + (at - w->start), end - at);
		TAILQ_INSERT_TAIL(middle, f, kept);
	}
	counter_add(&middles_owned, 1);
	return true;
}

/* False: no memory, and *middle is empty. It is empty too if there is nothing between the edges. */
static bool make_middle(struct folio_list *middle, const struct split *s, const struct mapping_write *w, const struct mapping_payload *p)
{
	struct folio *f;

	TAILQ_INIT(middle);
	if (s->middle_start >= s->middle_end)
		return true;
	if (p->copy) {
		if (copy_middle(middle, s, w, p))
			return true;
		free_middle(middle);
		return false;
	}
	f = adopt_middle(s, w, p);
	if (f)
		TAILQ_INSERT_TAIL(middle, f, kept);
	return f;
}

static void drop_if_unaccounted(struct mapping *m, struct folio *f)
{
	if (f && !f->is_kept && !f->dirty_seq && !f->run)
		mapping_remove_locked(m, f);
}

/*
 * Own the edge's unit and see that its byte sets have room. *error: -ENOMEM (and NULL), or -EAGAIN: it must be filled first.
 */
static struct folio *prepare_edge(struct mapping *m, uint64_t start, uint64_t end, int *error)
{
	uint64_t unit_start = align_down(start, m->unit);
	struct folio *f = mapping_own_unit_locked(m, unit_start);
	struct byteset valid;

	*error = f ? 0 : -ENOMEM;
	if (!f)
		return NULL;
	valid = f->valid;
	if (!byteset_add(&valid, (uint32_t)(start - unit_start), (uint32_t)(end - unit_start)))
		*error = -EAGAIN;
	return f;
}

static void write_edge(struct mapping *m, struct folio *f, uint64_t start, uint64_t end, const uint8_t *from, uint64_t seq, const struct mapping_payload *p)
{
	uint32_t a = (uint32_t)(start - f->start), b = (uint32_t)(end - f->start);

	ASSERT(folio_is_private(f));
	memcpy(f->data + a, from, b - a);
	ASSERT(byteset_add(&f->valid, a, b));
	byteset_add_lossy(&f->written, a, b);
	mapping_count_open_locked(f);
	if (!byteset_add(&f->dirty, a, b)) /* too many pieces: what is known goes with them */
		f->dirty = f->valid;
	mapping_dirty_locked(m, f, seq, p->unstable);
	if (!f->mark && !p->keep_edges && folio_is_complete(f, m->unit)) {
		mapping_mark_locked(f, true);
		counter_add(&edges_completed, 1);
	}
}

/* The way is clear: nothing fails. */
static void put_middle_locked(struct mapping *m, struct folio_list *middle, uint64_t seq, bool unstable)
{
	struct folio *f;

	while ((f = TAILQ_FIRST(middle))) {
		TAILQ_REMOVE(middle, f, kept);
		mapping_insert_locked(m, f);
		mapping_dirty_locked(m, f, seq, unstable);
	}
}

/* The middle is copied, and lies inside a large folio that can be written: there it goes. */
static bool is_in_place(struct mapping *m, const struct split *s, const struct mapping_payload *p)
{
	if (!p->copy || s->middle_start >= s->middle_end || !large_covers_locked(m, s->middle_start, s->middle_end))
		return false;
	return !large_is_owed_locked(m, s->middle_start) && !large_prepare_locked(m, s->middle_start);
}

/* All of a WRITE under one lock. 0; -ENOMEM; or -EAGAIN with *fill: the unit to fill before another try. */
static int stage_locked(struct mapping *m, struct mapping_write *w, const struct split *s, struct folio_list *middle, const struct mapping_payload *p, uint64_t *fill)
{
	struct folio *edge[2] = { NULL, NULL };
	bool unstable = false, in_place;
	uint64_t inherited = 0;
	int error = 0;

	for (int i = 0; i < 2 && !error; i++) {
		*fill = align_down(s->edge[i].start, m->unit);
		if (s->edge[i].start < s->edge[i].end)
			edge[i] = prepare_edge(m, s->edge[i].start, s->edge[i].end, &error);
	}
	in_place = !error && is_in_place(m, s, p);
	if (!error && !in_place && !TAILQ_EMPTY(middle))
		inherited = mapping_punch_locked(m, s->middle_start, s->middle_end, &unstable, &error);
	if (error) {
		drop_if_unaccounted(m, edge[0]);
		drop_if_unaccounted(m, edge[1]);
		return error;
	}
	w->seq = ++m->stage_seq;
	m->payer = w->payer;
	if (in_place)
		large_write_locked(m, s->middle_start, s->middle_end, p->data + (s->middle_start - w->start), w->seq, p->unstable);
	else
		put_middle_locked(m, middle, inherited ? inherited : w->seq, p->unstable || unstable);
	for (int i = 0; i < 2; i++)
		if (edge[i])
			write_edge(m, edge[i], s->edge[i].start, s->edge[i].end, p->data + (s->edge[i].start - w->start), w->seq, p);
	mapping_attr_locked(m, &w->before);
	mapping_touch_locked(m, w->end);
	mapping_attr_locked(m, &w->after);
	mapping_register_locked(m, w, p);
	return 0;
}

static bool is_empty(struct mapping *m)
{
	leaf_lock(&m->lock);
	bool empty = RB_EMPTY(&m->folios);
	leaf_unlock(&m->lock);
	return empty;
}

/* Also when there is no memory for an edge: a WRITE is not failed for our poverty. (2.9) */
fiber_fn int mapping_write_through(struct mapping *m, struct mapping_write *w, const struct mapping_payload *p)
{
	struct iovec iov = { .iov_base = p->data, .iov_len = p->len };
	bool unstable;
	int error;

	counter_add(&write_through, 1);
	error = is_empty(m) ? 0 : mapping_writeout(m);
	if (error)
		return error;
	leaf_lock(&m->lock);
	mapping_punch_locked(m, align_down(w->start, m->unit), align_up(w->end, m->unit), &unstable, &error);
	leaf_unlock(&m->lock);
	if (error)
		return error;
	mapping_disk_begin(m);
	size_t written = io_pwritev_all(m->config.buffered_fd, &iov, 1, w->start, 0, &error);
	mapping_disk_end(m);
	leaf_lock(&m->lock);
	m->unsynced = UNSYNCED_DATA;
	m->unsynced_unstable |= p->unstable;
	if (written) /* not left to mapping_disk_end(), which waits until nothing else is under way */
		m->disk_size = max_u64(m->disk_size, w->start + written);
	w->seq = ++m->stage_seq;
	mapping_attr_locked(m, &w->before);
	mapping_touch_locked(m, written ? w->start + written : 0);
	mapping_attr_locked(m, &w->after);
	if (!error)
		mapping_register_locked(m, w, p);
	leaf_unlock(&m->lock);
	return error;
}

fiber_fn int mapping_stage(struct mapping *m, struct mapping_write *w, const struct mapping_payload *p)
{
	struct split s;
	struct folio_list middle;
	uint64_t fill = 0;
	int error;

	ASSERT(w->end == w->start + p->len && p->len > 0);
	split_write(m->unit, w->start, w->end, &s);
	if (!make_middle(&middle, &s, w, p))
		return mapping_write_through(m, w, p);
	do {
		leaf_lock(&m->lock);
		error = stage_locked(m, w, &s, &middle, p, &fill);
		leaf_unlock(&m->lock);
		TRACE(TRACE_CACHE, "stage", "%p [%llu, %llu) seq %llu: %d", (void *)m, (unsigned long long)w->start, (unsigned long long)w->end, (unsigned long long)w->seq, error);
		if (error == -EAGAIN)
			error = mapping_fill_unit(m, fill) ? -ENOMEM : -EAGAIN;
	} while (error == -EAGAIN);
	free_middle(&middle); /* what did not go in */
	return error ? mapping_write_through(m, w, p) : 0;
}
