/*
 * iocache/fill.c - half-written units get their missing bytes. (WRITE_PATH 2.5)
 *
 * Only when they must be written back or their byte sets are full; only the bytes that are missing then: what a WRITE brought while the device
 * was read wins. Past the end of the file on disk the fill is zeros and costs nothing; the device answers zeros for holes by itself.
 */
#include "iocache/mapping_impl.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/counter.h"
#include "runtime/fiber.h"
#include "runtime/io.h"

COUNTER_DEFINE(fills_read, "cache.fills.read");
COUNTER_DEFINE(fills_zero, "cache.fills.zero");

/* Bytes of f's unit that lie below `size`. */
static uint32_t bytes_below(const struct folio *f, uint64_t size)
{
	return size <= f->start ? 0 : (uint32_t)min_u64(size - f->start, f->len);
}

/* Every byte below the end of file is known. */
static bool is_known(const struct mapping *m, const struct folio *f)
{
	return f->adopted || f->large || byteset_covers(&f->valid, 0, bytes_below(f, m->size));
}

noyield_fn bool fill_is_needed_locked(const struct mapping *m, const struct folio *f, struct byterange *known)
{
	struct byterange hull = byteset_hull(&f->dirty);

	*known = (struct byterange){ 0, f->len };
	if (is_known(m, f))
		return false;
	/* Blocks smaller than the unit: those that are dirty can go by themselves, if they are whole and side by side. */
	known->start = (uint32_t)align_down(hull.start, m->config.block);
	known->end = (uint32_t)align_up(hull.end, m->config.block);
	return hull.start == hull.end || !byteset_covers(&f->valid, known->start, known->end);
}

/* Past the end of the file on disk nobody has written: zeros. */
static void fill_zeros(struct mapping *m, struct folio *f)
{
	uint32_t from = bytes_below(f, m->disk_size), limit = f->len;
	struct byterange gap;

	while (byteset_gap(&f->valid, from, limit, &gap)) {
		memset(f->data + gap.start, 0, gap.end - gap.start);
		ASSERT(byteset_add(&f->valid, gap.start, gap.end));
		counter_add(&fills_zero, 1);
	}
}

static void fill_from(struct folio *f, const uint8_t *unit)
{
	struct byterange gap;

	while (byteset_gap(&f->valid, 0, f->len, &gap)) {
		memcpy(f->data + gap.start, unit + gap.start, gap.end - gap.start);
		ASSERT(byteset_add(&f->valid, gap.start, gap.end));
	}
}

/* Under the lock: what can be done without reading. 1: done (or nothing to do any more), 0: must read, or -ENOMEM. */
static int fill_without_reading(struct mapping *m, uint64_t start)
{
	struct folio *f = mapping_find_locked(m, start);

	if (!f || f->run || is_known(m, f))
		return 1;
	f = mapping_own_unit_locked(m, start);
	if (!f)
		return -ENOMEM;
	/* Adding the zeros' range cannot overflow: a gap between two ranges disappears, and one at the end needs a place only if it does not touch. */
	if (f->valid.count < BYTESET_RANGES)
		fill_zeros(m, f);
	return is_known(m, f);
}

static int fill_by_reading(struct mapping *m, uint64_t start)
{
	/* Not from the buffer budget: those who wait for it may wait for this fill. Bounded by the runs in flight. */
	uint8_t *mem = aligned_alloc(m->unit, m->unit);
	struct folio *f;
	int error;

	if (!mem)
		return -ENOMEM;
	error = mapping_read_device(m, mapping_can_read_direct(m), mem, start, start + m->unit);
	counter_add(&fills_read, 1);
	leaf_lock(&m->lock);
	f = error ? NULL : mapping_find_locked(m, start);
	if (f && !f->run && !is_known(m, f)) {
		f = mapping_own_unit_locked(m, start);
		if (f)
			fill_from(f, mem);
		else
			error = -ENOMEM;
	}
	leaf_unlock(&m->lock);
	free(mem);
	return error;
}

fiber_fn int mapping_fill_unit(struct mapping *m, uint64_t start)
{
	leaf_lock(&m->lock);
	int done = fill_without_reading(m, start);
	leaf_unlock(&m->lock);
	if (done)
		return done < 0 ? done : 0;
	return fill_by_reading(m, start);
}

struct fill {
	struct mapping *mapping;
	uint64_t start;
};

/* A fill that failed: the unit's WRITEs failed, unless the error's class keeps data for another try. */
static void fill_failed(struct mapping *m, uint64_t start, int error)
{
	leaf_lock(&m->lock);
	struct folio *f = mapping_find_locked(m, start);

	if (f && !f->run && f->dirty_seq && f->dirty_seq <= m->round_target) {
		bool keep = mapping_fail_locked(m, start, start + m->unit, m->stage_seq, error);

		if (keep && f->unstable) {
			mapping_refuse_locked(m, f, error);
		} else {
			m->sticky_error = f->unstable ? error : m->sticky_error;
			mapping_remove_locked(m, f);
		}
		mapping_shrink_locked(m);
	}
	leaf_unlock(&m->lock);
}

static void fill_main(void *arg)
{
	struct fill *fill = arg;
	struct mapping *m = fill->mapping;
	int error = mapping_fill_unit(m, fill->start);

	if (error)
		fill_failed(m, fill->start, error);
	free(fill);
	run_ended(m);
}

/* The next half-written dirty unit at or after *cursor; false: none. Zeros are given on the way. */
static bool next_to_fill(struct mapping *m, uint64_t *cursor, uint64_t target, uint64_t limit)
{
	struct byterange known;
	struct folio *f;

	for (f = mapping_first_locked(m, *cursor); f && f->start < limit; f = mapping_next_locked(f)) {
		if (f->start < *cursor || f->run || !f->dirty_seq || f->dirty_seq > target)
			continue;
		if (f->start + f->len > m->size || !fill_is_needed_locked(m, f, &known)) /* the tail unit needs none: its dirty bytes go through the page cache */
			continue;
		*cursor = f->start;
		return true;
	}
	return false;
}

fiber_fn bool fill_round(struct mapping *m, uint64_t target, uint64_t limit)
{
	uint64_t cursor = 0;
	bool any = false, found;

	do {
		run_wait(m, cache_limits.runs_in_flight_max);
		leaf_lock(&m->lock);
		found = next_to_fill(m, &cursor, target, limit);
		int done = found ? fill_without_reading(m, cursor) : 1;
		m->runs_in_flight += done < 1;
		leaf_unlock(&m->lock);
		any |= found;
		if (done < 1) {
			struct fill *fill = malloc(sizeof *fill);

			ASSERT(fill);
			*fill = (struct fill){ .mapping = m, .start = cursor };
			if (fiber_spawn(fill_main, fill, "fill"))
				fill_main(fill);
		}
		cursor += m->unit;
	} while (found);
	run_wait(m, 1);
	return any;
}
