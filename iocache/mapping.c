/*
 * iocache/mapping.c - a mapping's life, its index of folios, its accounts, and the attributes that it lays over the disk's.
 *
 * Accounts. A folio counts in dirty_bytes from the moment it holds bytes that the device lacks until they are there (or it leaves the index); a
 * clean owned unit counts in kept_bytes and stands on the kept list, oldest first. mapping_check_locked() says how it all hangs together.
 */
#include "iocache/mapping_impl.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/clock.h"
#include "runtime/counter.h"
#include "runtime/io.h"
#include "runtime/log.h"

COUNTER_DEFINE(edges_dropped, "cache.edges.dropped");
COUNTER_DEFINE(edges_kept, "cache.edges.kept");
COUNTER_DEFINE(edges_open, "cache.edges.open");
COUNTER_DEFINE(uncached_dirty, "cache.uncached_dirty_bytes");
COUNTER_DEFINE(foreign_changes, "cache.foreign_changes");

int folio_compare(const struct folio *a, const struct folio *b)
{
	return a->start < b->start ? -1 : a->start > b->start;
}

RB_GENERATE(folio_tree, folio, node, folio_compare)

struct mapping *mapping_create(const struct mapping_config *config)
{
	struct mapping *m = calloc(1, sizeof *m);

	if (!m)
		return NULL;
	m->config = *config;
	if (!config->read_block)
		m->config.read_block = config->block;
	m->unit = (uint32_t)max_u64(PAGE_BYTES, config->block);
	m->read_unit = (uint32_t)max_u64(PAGE_BYTES, m->config.read_block);
	fiber_rangelock_init(&m->ranges);
	leaf_lock_init(&m->lock);
	RB_INIT(&m->folios);
	TAILQ_INIT(&m->kept);
	TAILQ_INIT(&m->waiters);
	fiber_cond_init(&m->run_ended);
	fiber_cond_init(&m->flusher_ended);
	fiber_cond_init(&m->writers_back);
	fiber_cond_init(&m->filled);
	m->size = m->disk_size = config->size;
	m->dio_align = config->block;
	m->dio_read_align = m->config.read_block;
	m->disk_changes = 1;
	m->held_back_from = m->early_at = UINT64_MAX;
	m->disk_mtime = config->mtime;
	m->disk_ctime = config->ctime;
	/* An earlier mapping of the file may have written, been asked for no sync, and gone when it was idle: the first COMMIT makes sure. */
	m->unsynced = UNSYNCED_DATA;
	m->unsynced_unstable = true;
	cache_add_mapping(m);
	return m;
}

void mapping_destroy(struct mapping *m)
{
	ASSERT(mapping_is_idle(m));
	cache_del_mapping(m);
	leaf_lock(&m->lock);
	mapping_drop_kept_locked(m);
	ASSERT(RB_EMPTY(&m->folios));
	leaf_unlock(&m->lock);
	fiber_rangelock_fini(&m->ranges);
	leaf_lock_fini(&m->lock);
	free(m);
}

noyield_fn bool mapping_is_idle(struct mapping *m)
{
	leaf_lock(&m->lock);
	bool idle = m->dirty_bytes == 0 && !m->flusher_running && !m->readaheads && TAILQ_EMPTY(&m->waiters);
	leaf_unlock(&m->lock);
	return idle;
}

noyield_fn bool mapping_owes_sync(struct mapping *m)
{
	leaf_lock(&m->lock);
	bool owes = m->stage_seq && m->unsynced == UNSYNCED_DATA;
	leaf_unlock(&m->lock);
	return owes;
}

noyield_fn uint32_t mapping_unit(const struct mapping *m)
{
	return m->unit;
}

noyield_fn uint32_t mapping_read_unit(const struct mapping *m)
{
	return m->read_unit;
}

noyield_fn uint64_t mapping_size(struct mapping *m)
{
	leaf_lock(&m->lock);
	uint64_t size = m->size;
	leaf_unlock(&m->lock);
	return size;
}

noyield_fn struct folio *mapping_first_locked(struct mapping *m, uint64_t offset)
{
	struct folio key = { .start = offset };
	struct folio *f = RB_NFIND(folio_tree, &m->folios, &key);
	struct folio *before = f ? RB_PREV(folio_tree, &m->folios, f) : RB_MAX(folio_tree, &m->folios);

	return before && folio_end(before) > offset ? before : f;
}

noyield_fn struct folio *mapping_next_locked(struct folio *f)
{
	return RB_NEXT(folio_tree, NULL, f);
}

noyield_fn struct folio *mapping_find_locked(struct mapping *m, uint64_t start)
{
	struct folio *f = mapping_first_locked(m, start);

	return f && f->start <= start ? f : NULL;
}

static bool is_accounted(const struct folio *f)
{
	return f->dirty_seq || f->run;
}

static void account_dirty(struct mapping *m, const struct folio *f, int sign)
{
	int64_t bytes = (int64_t)f->len * sign;

	m->dirty_bytes += (uint64_t)bytes;
	cache_dirty_add(bytes, f->payer);
	if (f->refused_since_ns)
		cache_refused_add(bytes);
	counter_add(&uncached_dirty, f->mark ? bytes : 0);
}

noyield_fn void mapping_refuse_locked(struct mapping *m, struct folio *f, int error)
{
	f->dirty_seq = ++m->stage_seq;
	m->requeued++;
	m->refused = true;
	m->refused_error = error;
	if (f->refused_since_ns)
		return;
	f->refused_since_ns = clock_mono_ns();
	cache_refused_add(f->len);
	m->sticky_error = error;
}

noyield_fn void mapping_mark_locked(struct folio *f, bool mark)
{
	if (is_accounted(f) && f->mark != mark)
		counter_add(&uncached_dirty, mark ? (int64_t)f->len : -(int64_t)f->len);
	f->mark = mark;
}

static void unkeep(struct mapping *m, struct folio *f)
{
	if (!f->is_kept)
		return;
	TAILQ_REMOVE(&m->kept, f, kept);
	f->is_kept = false;
	m->kept_bytes -= f->len;
	cache_kept_sub(f->len);
}

static void count_open(struct folio *f, bool open)
{
	if (open != f->is_open)
		counter_add(&edges_open, open ? 1 : -1);
	f->is_open = open;
}

noyield_fn void mapping_count_open_locked(struct folio *f)
{
	count_open(f, !folio_is_complete(f, f->len));
}

noyield_fn void mapping_insert_locked(struct mapping *m, struct folio *f)
{
	ASSERT(f->start % m->unit == 0 && f->len % m->unit == 0);
	ASSERT(RB_INSERT(folio_tree, &m->folios, f) == NULL);
	if (is_accounted(f))
		account_dirty(m, f, 1);
	mapping_count_open_locked(f);
}

noyield_fn void mapping_remove_locked(struct mapping *m, struct folio *f)
{
	unkeep(m, f);
	if (is_accounted(f))
		account_dirty(m, f, -1);
	RB_REMOVE(folio_tree, &m->folios, f);
	count_open(f, false);
	folio_free(f);
}

noyield_fn void mapping_shorten_locked(struct mapping *m, struct folio *f, uint64_t end)
{
	ASSERT(is_accounted(f));
	account_dirty(m, f, -1);
	f->len = (uint32_t)(end - f->start);
	account_dirty(m, f, 1);
}

noyield_fn void mapping_dirty_locked(struct mapping *m, struct folio *f, uint64_t seq, bool unstable)
{
	unkeep(m, f);
	if (!is_accounted(f)) {
		f->payer = m->payer;
		account_dirty(m, f, 1);
	}
	if (!f->dirty_seq || seq < f->dirty_seq)
		f->dirty_seq = seq;
	f->unstable |= unstable;
}

/* Make room for one more kept unit, the oldest of this file going first. */
static bool keep_room(struct mapping *m, uint32_t bytes)
{
	while (!cache_kept_add(bytes)) {
		struct folio *oldest = TAILQ_FIRST(&m->kept);

		if (!oldest)
			return false;
		mapping_remove_locked(m, oldest);
		counter_add(&edges_dropped, 1);
	}
	return true;
}

static void list_kept(struct mapping *m, struct folio *f)
{
	f->is_kept = true;
	f->kept_since_ns = clock_mono_ns();
	TAILQ_INSERT_TAIL(&m->kept, f, kept);
	m->kept_bytes += f->len;
}

noyield_fn bool mapping_keep_locked(struct mapping *m, struct folio *f)
{
	bool room = keep_room(m, f->len);

	if (room)
		list_kept(m, f);
	return room;
}

noyield_fn bool mapping_keep_beside_locked(struct mapping *m, struct folio *f)
{
	bool room = cache_kept_add(f->len);

	if (room)
		list_kept(m, f);
	return room;
}

noyield_fn void mapping_clean_locked(struct mapping *m, struct folio *f)
{
	ASSERT(is_accounted(f));
	account_dirty(m, f, -1);
	f->run = f->dirty_seq = 0;
	f->unstable = false;
	f->refused_since_ns = 0;
	f->dirty.count = 0;
	if (f->mark || !mapping_keep_locked(m, f)) {
		mapping_remove_locked(m, f);
		counter_add(&edges_dropped, 1);
		return;
	}
	counter_add(&edges_kept, 1);
}

noyield_fn void mapping_drop_kept_locked(struct mapping *m)
{
	struct folio *f;

	while ((f = TAILQ_FIRST(&m->kept)))
		mapping_remove_locked(m, f);
}

static void check_blocks(const struct mapping *m, const struct folio *f)
{
	const struct blocks *b = f->blocks;

	ASSERT(!f->large || (f->start / LARGE_BYTES == (folio_end(f) - 1) / LARGE_BYTES || f->len == m->unit));
	if (!b)
		return;
	ASSERT(f->large && b->count * b->bytes == f->len);
	ASSERT((f->dirty_seq != 0) == bits_any(b->dirty, b->count));
	ASSERT((f->run != 0) == bits_any(b->flight, b->count));
	for (int i = 0; i < BLOCKS_WORDS; i++)
		ASSERT(!((b->dirty[i] | b->flight[i]) & ~b->uptodate[i]) && !(b->dirty[i] & b->flight[i]));
}

static bool is_subset(const struct byteset *part, const struct byteset *whole)
{
	for (uint32_t i = 0; i < part->count; i++)
		if (!byteset_covers(whole, part->range[i].start, part->range[i].end))
			return false;
	return true;
}

static void check_bytes(const struct folio *f)
{
	byteset_check(&f->valid);
	byteset_check(&f->written);
	byteset_check(&f->dirty);
	ASSERT(is_subset(&f->written, &f->valid));
	ASSERT(is_subset(&f->dirty, &f->valid));
	ASSERT(is_accounted(f) || !f->dirty.count);
}

noyield_fn void mapping_check_locked(struct mapping *m)
{
	uint64_t dirty = 0, kept = 0, end = 0;
	struct folio *f;

	RB_FOREACH(f, folio_tree, &m->folios) {
		ASSERT(f->start >= end);
		end = folio_end(f);
		ASSERT(f->adopted || f->large || f->len == m->unit);
		ASSERT(f->is_kept == !is_accounted(f));
		check_blocks(m, f);
		ASSERT(!f->adopted || !f->is_kept);
		ASSERT(f->dirty_seq <= m->stage_seq);
		dirty += is_accounted(f) ? f->len : 0;
		kept += f->is_kept ? f->len : 0;
		check_bytes(f);
	}
	ASSERT(dirty == m->dirty_bytes);
	ASSERT(kept == m->kept_bytes);
}

noyield_fn bool mapping_time_is_later(struct timespec a, struct timespec b)
{
	return a.tv_sec != b.tv_sec ? a.tv_sec > b.tv_sec : a.tv_nsec > b.tv_nsec;
}

/* `now`, or one nanosecond after `floor` if the clock has not passed it. */
static struct timespec time_after(struct timespec now, struct timespec floor)
{
	if (mapping_time_is_later(now, floor))
		return now;
	floor.tv_nsec++;
	if (floor.tv_nsec == 1000000000)
		floor = (struct timespec){ .tv_sec = floor.tv_sec + 1 };
	return floor;
}

noyield_fn void mapping_touch_locked(struct mapping *m, uint64_t end)
{
	struct timespec floor = m->disk_ctime;

	if (m->overlay && mapping_time_is_later(m->shown_ctime, floor))
		floor = m->shown_ctime;
	m->shown_ctime = m->shown_mtime = time_after(clock_real(), floor);
	m->overlay = true;
	m->size = max_u64(m->size, end);
}

noyield_fn void mapping_tell_lost(const struct mapping *m)
{
	if (m->config.data_lost)
		m->config.data_lost(m->config.owner);
}

noyield_fn void mapping_show_disk_locked(struct mapping *m)
{
	m->overlay &= mapping_time_is_later(m->shown_ctime, m->disk_ctime);
}

noyield_fn bool mapping_shown_mtime(struct mapping *m, struct timespec *mtime)
{
	leaf_lock(&m->lock);
	bool differs = m->overlay && (mapping_time_is_later(m->shown_mtime, m->disk_mtime) || mapping_time_is_later(m->disk_mtime, m->shown_mtime));
	*mtime = m->shown_mtime;
	leaf_unlock(&m->lock);
	return differs;
}

noyield_fn void mapping_disk_begin_locked(struct mapping *m)
{
	m->disk_busy++;
	m->disk_changes++;
}

noyield_fn void mapping_disk_begin(struct mapping *m)
{
	leaf_lock(&m->lock);
	mapping_disk_begin_locked(m);
	leaf_unlock(&m->lock);
}

static struct timespec timespec_of(struct statx_timestamp t)
{
	return (struct timespec){ .tv_sec = t.tv_sec, .tv_nsec = t.tv_nsec };
}

static void note_disk_locked(struct mapping *m, const struct statx *stx)
{
	m->disk_mtime = timespec_of(stx->stx_mtime);
	m->disk_ctime = timespec_of(stx->stx_ctime);
	m->disk_size = stx->stx_size;
}

/* Nothing of ours began or ended since the look was taken, and nothing is under way: what was seen since is the truth. */
static bool look_is_good_locked(const struct mapping *m, uint64_t look)
{
	return look == m->disk_changes && !m->disk_busy;
}

/* Where what f has dirty or under way ends. */
static uint32_t dirty_part_end(const struct folio *f)
{
	const struct blocks *b = f->blocks;
	uint32_t n = b ? b->count : 0;

	if (!f->adopted && !f->large)
		return byteset_hull(&f->dirty).end;
	while (n && !bits_all(b->dirty, n - 1, n) && !bits_all(b->flight, n - 1, n))
		n--;
	return b ? n * b->bytes : f->len;
}

/* Where the bytes that the device lacks end. */
static uint64_t dirty_end(struct mapping *m)
{
	uint64_t end = 0;
	struct folio *f;

	RB_FOREACH_REVERSE(f, folio_tree, &m->folios) {
		if (!is_accounted(f))
			continue;
		end = f->start + dirty_part_end(f);
		break;
	}
	return end;
}

noyield_fn void mapping_shrink_locked(struct mapping *m)
{
	m->size = min_u64(m->size, max_u64(m->disk_size, dirty_end(m)));
}

/* Of a unit that waits to be written only the bytes that the device lacks are still trusted: the others are read again before they go out with them. */
static void distrust_filled(struct mapping *m)
{
	struct folio *f;

	RB_FOREACH(f, folio_tree, &m->folios) {
		if (f->adopted || !f->dirty_seq || f->run)
			continue;
		f->valid = f->written = f->dirty;
		readahead_forget_locked(m, f);
		if (f->blocks)
			memcpy(f->blocks->uptodate, f->blocks->dirty, sizeof f->blocks->uptodate);
		mapping_count_open_locked(f);
	}
}

/*
 * Somebody else changed the file: what we keep clean is no longer trusted, and the disk's attributes are news. But if its mtime is still what our last flush
 * left there (a chmod, a new link), it is none: the time of the WRITE stays shown.
 */
static void take_over(struct mapping *m, const struct statx *stx)
{
	struct timespec mtime = timespec_of(stx->stx_mtime);
	bool moved = mtime.tv_sec != m->disk_mtime.tv_sec || mtime.tv_nsec != m->disk_mtime.tv_nsec;

	counter_add(&foreign_changes, 1);
	mapping_drop_kept_locked(m);
	distrust_filled(m);
	note_disk_locked(m, stx);
	m->size = max_u64(stx->stx_size, min_u64(m->size, dirty_end(m))); /* what is dirty may end in zeros past the end of file */
	if (!m->overlay)
		return;
	m->shown_ctime = time_after(m->disk_ctime, m->shown_ctime);
	if (moved) {
		m->shown_mtime = m->disk_mtime;
		mapping_show_disk_locked(m);
	}
}

/* expected: disk_size is what our own changes must have left; another size is somebody else's doing, though the ctime cannot tell. */
static void disk_end(struct mapping *m, bool expected)
{
	struct statx stx;
	uint64_t look;
	bool noted;

	leaf_lock(&m->lock);
	ASSERT(m->disk_busy > 0);
	m->disk_busy--;
	look = ++m->disk_changes;
	do { /* again if another reactor changed something meanwhile and was the last to end */
		leaf_unlock(&m->lock);
		int error = io_fstatx(m->config.buffered_fd, STATX_MTIME | STATX_CTIME | STATX_SIZE, &stx);
		leaf_lock(&m->lock);
		noted = error || m->disk_busy || look_is_good_locked(m, look);
		if (!error && look_is_good_locked(m, look)) {
			if (expected && stx.stx_size != m->disk_size)
				take_over(m, &stx);
			else
				note_disk_locked(m, &stx);
		}
		look = m->disk_changes;
	} while (!noted);
	leaf_unlock(&m->lock);
}

noyield_fn void mapping_disk_end(struct mapping *m) { disk_end(m, false); }
noyield_fn void mapping_disk_end_written(struct mapping *m) { disk_end(m, true); }

noyield_fn void mapping_attr_locked(const struct mapping *m, struct mapping_attr *attr)
{
	attr->size = m->size;
	attr->ctime = m->overlay ? m->shown_ctime : m->disk_ctime;
	attr->mtime = m->overlay ? m->shown_mtime : m->disk_mtime;
}

noyield_fn uint64_t mapping_look(struct mapping *m)
{
	leaf_lock(&m->lock);
	uint64_t look = m->disk_changes;
	leaf_unlock(&m->lock);
	return look;
}

noyield_fn uint32_t mapping_statx_read_align(const struct statx *stx)
{
	const uint32_t all = stx->stx_dio_offset_align;
	uint32_t align = 0;

	if (stx->stx_mask & IO_STATX_DIO_READ_ALIGN)
		memcpy(&align, (const uint8_t *)stx + IO_STATX_DIO_READ_ALIGN_AT, sizeof align);
	return !align || align & (align - 1) || align > all ? all : align;
}

noyield_fn void mapping_attr(struct mapping *m, uint64_t look, const struct statx *stx, struct mapping_attr *attr)
{
	struct timespec ctime = timespec_of(stx->stx_ctime);

	leaf_lock(&m->lock);
	if (look_is_good_locked(m, look) && (ctime.tv_sec != m->disk_ctime.tv_sec || ctime.tv_nsec != m->disk_ctime.tv_nsec))
		take_over(m, stx);
	if (stx->stx_mask & IO_STATX_DIOALIGN) {
		m->dio_align = stx->stx_dio_offset_align;
		m->dio_read_align = mapping_statx_read_align(stx);
	}
	mapping_attr_locked(m, attr);
	leaf_unlock(&m->lock);
}

noyield_fn void mapping_refresh(struct mapping *m)
{
	uint64_t look = mapping_look(m);
	struct mapping_attr attr;
	struct statx stx;

	if (!io_fstatx(m->config.buffered_fd, STATX_MTIME | STATX_CTIME | STATX_SIZE, &stx))
		mapping_attr(m, look, &stx, &attr);
}

noyield_fn bool mapping_can_direct(struct mapping *m)
{
	leaf_lock(&m->lock);
	bool can = m->config.direct_fd >= 0 && m->dio_align && m->dio_align <= m->unit;
	leaf_unlock(&m->lock);
	return can;
}

noyield_fn bool mapping_can_read_direct(struct mapping *m)
{
	leaf_lock(&m->lock);
	bool can = m->config.direct_fd >= 0 && m->dio_read_align && m->dio_read_align <= m->read_unit;
	leaf_unlock(&m->lock);
	return can;
}
