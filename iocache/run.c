/*
 * iocache/run.c - runs: the longest contiguous stretch of dirty units leaves as one vectored O_DIRECT write. (WRITE_PATH 1b.2, 1b.3, 1b.6, 1b.8, 5.1)
 *
 * A run takes whole units only: adopted middles, and edges whose bytes are all known. Its memory cannot change (iocache/folio.h). The unit that the
 * file's logical end lies in is no whole unit: writing it O_DIRECT would make the file longer than it is, for everybody to see. Its dirty bytes go through the
 * page cache, after the runs, and the next run that covers it replaces it there. Where the file grows, one run at a time, in ascending order: what
 * a power cut leaves is then never a size that data did not reach.
 */
#include "iocache/mapping_impl.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "runtime/buf.h"
#include "runtime/counter.h"
#include "runtime/io.h"
#include "runtime/log.h"

enum { RUN_IOV_MAX = IOV_MAX };

struct part {
	uint64_t start, end;
};

COUNTER_DEFINE(runs, "write.runs");
COUNTER_DEFINE(run_bytes, "write.run_bytes");
COUNTER_DEFINE(runs_failed, "write.runs_failed");
COUNTER_DEFINE(tails, "write.tails");
COUNTER_DEFINE(skipped, "cache.skipped");
COUNTER_DEFINE(passes_ended, "cache.passes_ended_busy");

noyield_fn void run_ended(struct mapping *m)
{
	leaf_lock(&m->lock);
	m->runs_in_flight--;
	fiber_cond_signal_locked(&m->run_ended);
	leaf_unlock(&m->lock);
}

fiber_fn void run_wait(struct mapping *m, unsigned below)
{
	leaf_lock(&m->lock);
	while (m->runs_in_flight >= below)
		fiber_cond_wait(&m->run_ended, &m->lock, "runs in flight");
	leaf_unlock(&m->lock);
}

/* The part of f at or after `at` that can go now: all of it, or of a large folio with a state its first dirty stretch. */
static bool part_to_take(const struct mapping *m, const struct folio *f, uint64_t at, uint64_t target, struct part *part)
{
	struct byterange known;

	if (!f->dirty_seq || f->dirty_seq > target || f->run)
		return false;
	if (f->blocks)
		return large_stretch_locked(m, f, at, &part->start, &part->end);
	if (folio_end(f) > m->size || fill_is_needed_locked(m, f, &known))
		return false;
	*part = (struct part){ f->start + known.start, f->start + known.end };
	return true;
}

noyield_fn bool run_can_take_locked(const struct mapping *m, const struct folio *f, uint64_t target)
{
	struct part part;

	return part_to_take(m, f, 0, target, &part) && part.start == f->start;
}

static bool is_busy(const struct folio *f, uint64_t target)
{
	return f->run && f->dirty_seq && f->dirty_seq <= target;
}

static struct folio *first_that_can_go(struct mapping *m, struct walk *walk, struct part *part)
{
	struct folio *f;

	for (f = mapping_first_locked(m, walk->cursor); f && !part_to_take(m, f, walk->cursor, walk->target, part); f = mapping_next_locked(f)) {
		if (!is_busy(f, walk->target))
			continue;
		if (walk->busy++ < BUSY_MAX || !walk->impatient) {
			counter_add(&skipped, 1);
			continue;
		}
		counter_add(&passes_ended, 1);
		walk->cursor = f->start;
		return NULL;
	}
	return f;
}

/* How many folios from `first` on, of which `part` can go, are contiguous and can go together. */
static unsigned count_stretch(struct mapping *m, struct folio *first, struct part part, uint64_t target, uint64_t limit)
{
	uint64_t start = part.start, end;
	struct folio *f = first;
	unsigned n = 0;

	do {
		end = part.end;
		n++;
		f = end == folio_end(f) ? mapping_next_locked(f) : NULL;
	} while (f && n < RUN_IOV_MAX && f->start < limit && part_to_take(m, f, 0, target, &part) && part.start == end &&
		 part.end - start <= cache_limits.run_bytes_max);
	return n;
}

static struct run *run_alloc(struct mapping *m, unsigned count)
{
	struct run *r = malloc(sizeof *r + count * (sizeof *r->iov + sizeof *r->hold));

	ASSERT(r);
	*r = (struct run){ .mapping = m, .id = ++m->next_run, .seq = m->stage_seq, .count = count };
	r->iov = (struct iovec *)(r + 1);
	r->hold = (struct buf **)(r->iov + count);
	return r;
}

static void take(struct run *r, unsigned i, struct folio *f, const struct part *part)
{
	r->iov[i] = (struct iovec){ .iov_base = f->data + (part->start - f->start), .iov_len = part->end - part->start };
	r->hold[i] = buf_get(f->buf);
	r->end = part->end;
	f->run = r->id;
	if (f->blocks)
		large_take_locked(f, part->start, part->end);
	else
		f->dirty_seq = 0;
}

/* Nothing is left between the cursor and the limit. */
static bool is_last(struct mapping *m, const struct walk *walk)
{
	struct folio *f = mapping_first_locked(m, walk->cursor);
	struct part part;

	while (f && f->start < walk->limit && !part_to_take(m, f, walk->cursor, walk->target, &part))
		f = mapping_next_locked(f);
	return !f || f->start >= walk->limit;
}

noyield_fn struct run *run_collect_locked(struct mapping *m, struct walk *walk)
{
	struct part part;
	struct folio *f = first_that_can_go(m, walk, &part);
	struct run *r;

	if (!f || f->start >= walk->limit)
		return NULL;
	r = run_alloc(m, count_stretch(m, f, part, walk->target, walk->limit));
	r->start = part.start;
	for (unsigned i = 0; i < r->count; i++, f = mapping_next_locked(f)) {
		part_to_take(m, f, i ? 0 : r->start, walk->target, &part);
		take(r, i, f, &part);
		r->leaves |= f->dirty_seq != 0;
	}
	r->growing = r->end > m->disk_size;
	walk->cursor = align_up(r->end, m->unit); /* a WRITE may take the unit that it ends inside out of its folio: the rest of that goes when the run has ended */
	r->last = walk->syncs && !r->leaves && (r->growing || !m->runs_in_flight) && is_last(m, walk);
	m->runs_in_flight++;
	return r;
}

/*
 * The folio found no space, and is kept for a later round. Of a large one only what the run carried: its other dirty blocks are this round's still, and somebody may
 * wait for them. Without memory to take them apart they share its fate, and who waits hears of that.
 */
static void folio_refused(struct mapping *m, struct folio *f, int error)
{
	if (f->blocks && f->dirty_seq) {
		f = large_isolate_flight_locked(m, f);
		if (f->dirty_seq)
			mapping_fail_locked(m, f->start, folio_end(f), m->stage_seq, error);
	}
	if (f->blocks)
		bits_move(f->blocks->dirty, f->blocks->flight);
	f->run = 0;
	mapping_refuse_locked(m, f, error);
}

/* The folio's run has ended without it. */
static void folio_failed(struct mapping *m, struct folio *f, bool keep, int error)
{
	if (keep && f->unstable) {
		folio_refused(m, f, error);
		return;
	}
	m->sticky_error = f->unstable ? error : m->sticky_error;
	if (!f->blocks || !f->dirty_seq) {
		mapping_remove_locked(m, f);
	} else {
		large_forget_flight_locked(f);
		readahead_forget_locked(m, f); /* part of the run may have reached the disk after that was read */
	}
}

/* All of the folio that the run carried is on the device. */
static void folio_written(struct mapping *m, struct folio *f)
{
	if (f->blocks)
		memset(f->blocks->flight, 0, sizeof f->blocks->flight);
	if (f->dirty_seq) /* other blocks of it are yet to go */
		f->run = 0;
	else
		mapping_clean_locked(m, f);
}

static bool any_unstable(struct mapping *m, uint64_t id, uint64_t start, uint64_t end)
{
	for (struct folio *f = mapping_first_locked(m, start); f && f->start < end; f = mapping_next_locked(f))
		if (f->run == id && f->unstable)
			return true;
	return false;
}

/* The run has put [start, done) on the device, and failed from there on unless done is its end. */
static void complete_locked(struct mapping *m, const struct run *r, uint64_t done, int error)
{
	uint64_t start = r->start, end = r->end, at, next;
	bool keep = false;
	struct folio *f;

	m->unsynced = done > start ? UNSYNCED_DATA : m->unsynced;
	m->unsynced_unstable |= any_unstable(m, r->id, start, done);
	m->disk_size = done > start ? max_u64(m->disk_size, done) : m->disk_size;
	m->progress |= done > start;
	if (done < end) {
		counter_add(&runs_failed, 1);
		m->walk_failed = true;
		m->walk_cursor = end;
		keep = mapping_fail_locked(m, done, end, r->seq, error);
		m->growth_error = keep && r->growing ? error : m->growth_error;
	}
	for (at = start; (f = mapping_first_locked(m, at)) && f->start < end; at = next) { /* keeping one unit may drop others: no pointer lasts */
		next = folio_end(f);
		if (f->run != r->id)
			continue;
		if (min_u64(folio_end(f), end) <= done)
			folio_written(m, f);
		else
			folio_failed(m, f, keep, error);
	}
	if (done < end)
		mapping_shrink_locked(m);
}

static int run_fd(struct mapping *m)
{
	return mapping_can_direct(m) ? m->config.direct_fd : m->config.buffered_fd; /* staged before the file's alignment grew */
}

/* Account for a run of which `written` bytes are on the device. */
static void end_locked(struct mapping *m, struct run *r, size_t written, int error)
{
	counter_add(&runs, 1);
	counter_add(&run_bytes, (int64_t)written);
	TRACE(TRACE_WRITE, "run", "%p [%llu, %llu) %u pieces: %zu %d", (void *)m, (unsigned long long)r->start, (unsigned long long)r->end, r->count, written, error);
	complete_locked(m, r, r->start + written, error);
}

static void run_free(struct mapping *m, struct run *r)
{
	for (unsigned i = 0; i < r->count; i++)
		buf_put(r->hold[i]);
	free(r);
	run_ended(m);
}

fiber_fn void run_write(struct run *r)
{
	struct mapping *m = r->mapping;
	int error = 0;
	size_t written = io_pwritev_all(run_fd(m), r->iov, r->count, r->start, 0, &error);

	leaf_lock(&m->lock);
	end_locked(m, r, written, error);
	leaf_unlock(&m->lock);
	run_free(m, r);
}

/* The dirty bytes below the end of file in the unit (of a large folio: the block) that it lies in, from `start` on. */
static void tail_bytes(const struct mapping *m, const struct folio *f, uint64_t start, struct byteset *dirty)
{
	if (!f->large) {
		*dirty = f->dirty;
		byteset_clip(dirty, (uint32_t)(m->size - start));
	} else {
		byteset_set(dirty, 0, (uint32_t)(m->size - start));
	}
}

static bool tail_is_dirty(const struct folio *f, uint64_t start, uint64_t target)
{
	uint32_t i;

	if (f->run || !f->dirty_seq || f->dirty_seq > target)
		return false;
	ASSERT(!f->adopted && (!f->large || f->blocks)); /* a cut has given it a state */
	i = f->large ? (uint32_t)(start - f->start) / f->blocks->bytes : 0;
	return !f->large || bits_all(f->blocks->dirty, i, i + 1);
}

/* The dirty bytes of the unit with the end of file in it, under way. */
struct tail {
	struct run run;       /* without a vector */
	struct byteset dirty; /* from run.start on, cut at the end of file */
	uint8_t *data;        /* of run.start */
	struct buf *hold;     /* NULL: there is no tail */
};

static void take_tail_locked(struct mapping *m, uint64_t target, struct tail *t)
{
	struct folio *f = m->size % m->unit ? mapping_find_locked(m, align_down(m->size, m->unit)) : NULL;
	uint64_t start = align_down(m->size, f && f->large ? m->config.block : m->unit);

	t->hold = NULL;
	if (!f || !tail_is_dirty(f, start, target))
		return;
	tail_bytes(m, f, start, &t->dirty);
	t->run = (struct run){ .mapping = m, .id = ++m->next_run, .seq = m->stage_seq, .start = start, .end = start + byteset_hull(&t->dirty).end };
	t->data = f->data + (start - f->start);
	t->hold = buf_get(f->buf);
	f->run = t->run.id;
	if (f->large)
		large_take_locked(f, start, t->run.end);
	else
		f->dirty_seq = 0;
}

static struct iovec tail_range(const struct tail *t, unsigned i)
{
	const struct byterange *range = &t->dirty.range[i];

	return (struct iovec){ .iov_base = t->data + range->start, .iov_len = range->end - range->start };
}

/* What precedes the tail found no space, and is not there: it would make the file longer by bytes that nobody wrote. It shares that fate. */
static void refuse_tail_locked(struct mapping *m, struct tail *t, const struct run *precedes)
{
	uint64_t reached = max_u64(m->disk_size, precedes ? precedes->end : 0);

	if (!t->hold || !m->growth_error || t->run.start + t->dirty.range[0].start <= reached)
		return;
	complete_locked(m, &t->run, t->run.start, m->growth_error);
	buf_put(t->hold);
	t->hold = NULL;
}

/* A round's last run, tail and sync, each of them or none, as one piece of work. */
struct last {
	struct run *run; /* or NULL */
	struct tail tail;
	struct io_finish finish;
	struct io_write writes[1 + BYTESET_RANGES];
	struct iovec ranges[BYTESET_RANGES];
};

static void add_write(struct last *l, int fd, struct iovec *iov, unsigned iovcnt, uint64_t offset)
{
	l->writes[l->finish.count++] = (struct io_write){ .fd = fd, .iov = iov, .iovcnt = iovcnt, .offset = offset };
}

static void plan_trip(struct mapping *m, struct last *l, enum mapping_sync_how how)
{
	l->finish = (struct io_finish){
		.writes = l->writes, .fd = how == MAPPING_WRITTEN ? -1 : m->config.buffered_fd, .flags = how == MAPPING_SYNC_DATA ? IO_FSYNC_DATA : 0,
	};
	if (l->run)
		add_write(l, run_fd(m), l->run->iov, l->run->count, l->run->start);
	for (unsigned i = 0; l->tail.hold && i < l->tail.dirty.count; i++) {
		l->ranges[i] = tail_range(&l->tail, i);
		add_write(l, m->config.buffered_fd, &l->ranges[i], 1, l->tail.run.start + l->tail.dirty.range[i].start);
	}
}

static bool all_written(const struct last *l)
{
	return l->finish.complete == l->finish.count;
}

static bool run_failed(const struct last *l)
{
	return l->run && !l->finish.complete;
}

/* The tail was tried. It has come as far as the last range of which anything was written: a file does not grow by the gap before a range that failed. */
static void tail_ended_locked(struct mapping *m, struct last *l)
{
	uint64_t done = l->tail.run.start;

	for (const struct io_write *w = l->writes + (l->run != NULL); w < l->writes + l->finish.count; w++)
		if (w->done)
			done = w->offset + w->done;
	counter_add(&tails, 1);
	complete_locked(m, &l->tail.run, done, all_written(l) ? 0 : l->finish.error);
}

static void make_trip(struct mapping *m, struct last *l, enum mapping_sync_how how)
{
	enum mapping_unsynced had, others;

	plan_trip(m, l, how);
	leaf_lock(&m->lock);
	had = m->unsynced;
	if (how != MAPPING_WRITTEN) /* before the sync: what others write while it runs is not covered by it */
		m->unsynced = how == MAPPING_SYNC_DATA ? UNSYNCED_TIMES : SYNCED;
	leaf_unlock(&m->lock);
	io_finish(&l->finish);
	leaf_lock(&m->lock);
	others = m->unsynced; /* written by others, while this ran */
	if (l->run)
		end_locked(m, l->run, l->writes[0].done, run_failed(l) ? l->finish.error : 0);
	if (l->tail.hold && !run_failed(l))
		tail_ended_locked(m, l);
	if (how != MAPPING_WRITTEN && all_written(l))
		m->unsynced = others;
	else if (m->unsynced < had)
		m->unsynced = had;
	leaf_unlock(&m->lock);
}

static void take_tail(struct mapping *m, struct last *l, uint64_t target)
{
	leaf_lock(&m->lock);
	take_tail_locked(m, target, &l->tail);
	refuse_tail_locked(m, &l->tail, l->run);
	leaf_unlock(&m->lock);
}

/* The run that was to precede the tail has failed. */
static void tail_alone(struct mapping *m, struct last *l)
{
	leaf_lock(&m->lock);
	refuse_tail_locked(m, &l->tail, NULL);
	leaf_unlock(&m->lock);
	l->run = NULL;
	if (l->tail.hold)
		make_trip(m, l, MAPPING_WRITTEN);
}

fiber_fn bool run_write_last(struct mapping *m, struct run *r, struct run_end *end)
{
	struct last l = { .run = r };

	if (end->tail)
		take_tail(m, &l, end->target);
	if (!r && !l.tail.hold)
		return false;
	make_trip(m, &l, end->how);
	end->synced = end->how != MAPPING_WRITTEN && all_written(&l);
	end->error = end->synced ? l.finish.error : 0;
	if (l.tail.hold && run_failed(&l))
		tail_alone(m, &l);
	if (l.tail.hold)
		buf_put(l.tail.hold);
	if (r)
		run_free(m, r);
	return true;
}
