/*
 * iocache/truncate.c - the size changes by a client's wish, or the file goes. (WRITE_PATH 1.13, 2.8, 5.9)
 *
 * The whole file is locked: no WRITE enters. What lies past the new size leaves the mapping first, so no round that begins from then on writes it; the rest
 * goes to the device; only then is the size set there. A round that was under way has ended by then too, so nothing lands after the cut.
 */
#include "iocache/mapping_impl.h"

#include "runtime/buf.h"
#include "runtime/io.h"

/* The unit that the new end of file lies in keeps its bytes below it only. */
static int cut_unit_locked(struct mapping *m, uint64_t size)
{
	uint64_t start = align_down(size, m->unit);
	uint32_t keep = (uint32_t)(size - start);
	struct folio *f = keep ? mapping_find_locked(m, start) : NULL;

	if (!f)
		return 0;
	if (f->large)
		return large_cut_locked(m, f, size);
	f = mapping_own_unit_locked(m, start);
	if (!f)
		return -ENOMEM;
	byteset_clip(&f->valid, keep);
	byteset_clip(&f->written, keep);
	byteset_clip(&f->dirty, keep);
	mapping_mark_locked(f, false);
	mapping_count_open_locked(f);
	if (!f->dirty.count)
		mapping_remove_locked(m, f);
	return 0;
}

/* *lost: acknowledged bytes went. */
static int cut_locked(struct mapping *m, uint64_t size, bool *lost)
{
	uint64_t keep_end = align_up(size, m->unit);
	int error = 0;

	*lost = false;
	if (size >= m->size)
		return 0;
	*lost = m->dirty_bytes != 0;
	error = cut_unit_locked(m, size);
	if (!error)
		mapping_punch_locked(m, keep_end, UINT64_MAX - m->unit + 1, &(bool){ false }, &error);
	if (!error)
		m->size = size;
	return error;
}

/* The kernel has moved the times with the size; within one tick of its clock that may not be enough. */
static void move_times_locked(struct mapping *m, struct timespec before)
{
	if (mapping_time_is_later(m->disk_ctime, before))
		mapping_show_disk_locked(m);
	else
		mapping_touch_locked(m, 0);
}

static int set_disk_size(struct mapping *m, uint64_t size)
{
	struct mapping_attr before;

	mapping_disk_begin(m);
	int error = io_ftruncate(m->config.buffered_fd, size);
	leaf_lock(&m->lock);
	mapping_attr_locked(m, &before);
	leaf_unlock(&m->lock);
	mapping_disk_end(m);
	leaf_lock(&m->lock);
	mapping_drop_kept_locked(m);
	m->disk_size = error ? m->disk_size : size;
	m->size = max_u64(m->size, m->disk_size); /* after a refused change: as long as what is there makes it */
	mapping_shrink_locked(m);
	m->unsynced = UNSYNCED_DATA;
	if (!error && !size)
		m->sticky_error = 0; /* what it is about is gone, by a client's wish */
	if (!error)
		move_times_locked(m, before.ctime);
	leaf_unlock(&m->lock);
	return error;
}

/* Somebody waits for data that the cut would take away, and was there first: let it be written. If it cannot be, they hear of it. */
static void serve_waiters(struct mapping *m)
{
	leaf_lock(&m->lock);
	bool owed = !TAILQ_EMPTY(&m->waiters);
	leaf_unlock(&m->lock);
	if (owed)
		mapping_writeout(m);
}

fiber_fn int mapping_truncate(struct mapping *m, uint64_t size)
{
	struct range_hold hold;
	bool lost;

	fiber_rangelock_lock(&m->ranges, &hold, 0, UINT64_MAX, RANGE_EXCLUSIVE);
	serve_waiters(m);
	leaf_lock(&m->lock);
	int error = cut_locked(m, size, &lost);
	leaf_unlock(&m->lock);
	if (!error) {
		/* What cannot be written now is no reason to refuse: it stays, below the new size, or is lost, and is reported like any other. */
		mapping_writeout(m);
		error = set_disk_size(m, size);
	}
	if (error && lost) /* the file stays as long as it was, without what was cut */
		mapping_tell_lost(m);
	fiber_rangelock_unlock(&m->ranges, &hold);
	return error;
}

fiber_fn void mapping_discard(struct mapping *m)
{
	struct range_hold hold;
	struct folio *f, *next;

	fiber_rangelock_lock(&m->ranges, &hold, 0, UINT64_MAX, RANGE_EXCLUSIVE);
	leaf_lock(&m->lock);
	RB_FOREACH_SAFE(f, folio_tree, &m->folios, next)
		mapping_remove_locked(m, f);
	leaf_unlock(&m->lock);
	fiber_rangelock_unlock(&m->ranges, &hold);
	mapping_kick(m); /* a reference that dirty data held is put at its end */
}
