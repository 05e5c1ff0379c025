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
	walk->cursor = r->end;
	m->runs_in_flight++;
	return r;
}

/* The folio's run has ended without it. */
static void folio_failed(struct mapping *m, struct folio *f, bool keep)
{
	if (keep && f->unstable) {
		if (f->blocks)
			bits_move(f->blocks->dirty, f->blocks->flight);
		f->run = 0;
		f->dirty_seq = ++m->stage_seq; /* for a later round: this one has written what it could */
	} else if (!f->blocks || !large_forget_flight_locked(f)) {
		mapping_remove_locked(m, f);
	} else {
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
	if (done < end) {
		counter_add(&runs_failed, 1);
		m->walk_failed = true;
		m->walk_cursor = end;
		keep = mapping_fail_locked(m, done, end, r->seq, any_unstable(m, r->id, align_down(done, m->unit), end), error);
		m->growth_error = keep && r->growing ? error : m->growth_error;
	} else {
		m->stalled_since_ns = 0;
	}
	for (at = start; (f = mapping_first_locked(m, at)) && f->start < end; at = next) { /* keeping one unit may drop others: no pointer lasts */
		next = folio_end(f);
		if (f->run != r->id)
			continue;
		if (min_u64(folio_end(f), end) <= done)
			folio_written(m, f);
		else
			folio_failed(m, f, keep);
	}
	if (done < end)
		mapping_shrink_locked(m);
}

fiber_fn void run_write(struct run *r)
{
	struct mapping *m = r->mapping;
	int error = 0;
	int fd = mapping_can_direct(m) ? m->config.direct_fd : m->config.buffered_fd; /* staged before the file's alignment grew */
	size_t written = io_pwritev_all(fd, r->iov, r->count, r->start, 0, &error);

	counter_add(&runs, 1);
	counter_add(&run_bytes, (int64_t)written);
	TRACE(TRACE_WRITE, "run", "%p [%llu, %llu) %u pieces: %zu %d", (void *)m, (unsigned long long)r->start, (unsigned long long)r->end, r->count, written, error);
	leaf_lock(&m->lock);
	complete_locked(m, r, r->start + written, error);
	leaf_unlock(&m->lock);
	for (unsigned i = 0; i < r->count; i++)
		buf_put(r->hold[i]);
	free(r);
	run_ended(m);
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

/* The folio with the dirty tail, marked as under way by r; its dirty ranges from r->start on, cut at the end of file, in *dirty. NULL: none. */
static struct folio *take_tail_locked(struct mapping *m, uint64_t target, struct run *r, struct byteset *dirty)
{
	struct folio *f = m->size % m->unit ? mapping_find_locked(m, align_down(m->size, m->unit)) : NULL;
	uint64_t start = align_down(m->size, f && f->large ? m->config.block : m->unit);

	if (!f || !tail_is_dirty(f, start, target))
		return NULL;
	tail_bytes(m, f, start, dirty);
	*r = (struct run){ .mapping = m, .id = ++m->next_run, .seq = m->stage_seq, .start = start, .end = start + byteset_hull(dirty).end };
	f->run = r->id;
	if (f->large)
		large_take_locked(f, start, r->end);
	else
		f->dirty_seq = 0;
	return f;
}

/* Where the writing of those ranges ended, as a byte of the file. */
static uint64_t write_ranges(struct mapping *m, uint64_t start, uint8_t *data, const struct byteset *dirty, int *error)
{
	uint64_t done = start;

	*error = 0;
	for (uint32_t i = 0; i < dirty->count && !*error; i++) {
		struct iovec iov = { .iov_base = data + dirty->range[i].start, .iov_len = dirty->range[i].end - dirty->range[i].start };
		uint64_t from = start + dirty->range[i].start;

		done = from + io_pwritev_all(m->config.buffered_fd, &iov, 1, from, 0, error);
	}
	return done;
}

fiber_fn bool run_write_tail(struct mapping *m, uint64_t target)
{
	struct byteset dirty;
	uint64_t done;
	struct run r;
	int error;

	leaf_lock(&m->lock);
	struct folio *f = take_tail_locked(m, target, &r, &dirty);
	struct buf *hold = f ? buf_get(f->buf) : NULL;
	uint8_t *data = f ? f->data + (r.start - f->start) : NULL;
	/* What precedes it is not there: a tail would make the file longer by bytes that nobody wrote. It shares that fate. */
	error = f && r.end > m->disk_size ? m->growth_error : 0;
	leaf_unlock(&m->lock);
	if (!hold)
		return false;

	counter_add(&tails, 1);
	done = error ? r.start : write_ranges(m, r.start, data, &dirty, &error);
	leaf_lock(&m->lock);
	complete_locked(m, &r, done, error);
	leaf_unlock(&m->lock);
	buf_put(hold);
	return true;
}
