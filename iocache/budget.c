/*
 * iocache/budget.c - the process-wide bounds of the cache, and the fiber that ages what waits in it.
 *
 * Dirty bytes: a WRITE that would exceed them waits for room, in all or on its client's account, which is one of PAYERS: one client that floods us leaves room for
 * others. Kept bytes: a clean half-written unit for which there is no room even after its file's oldest has gone is not kept. The ageing fiber drops kept units that are
 * older than kept_ms_max, makes the flusher take half-written edges whose partner has not come within edge_wait_ms, and what could not be written for lack of
 * space. When that is given up, the flusher says.
 *
 * Locks: list_lock guards the list of mappings and is taken before a mapping's lock. room_lock is taken last of all.
 */
#include "iocache/mapping_impl.h"

#include <stdatomic.h>
#include <string.h>

#include "runtime/clock.h"
#include "runtime/counter.h"
#include "runtime/fiber.h"
#include "runtime/reactor.h"

enum { PAYERS = 128, DEVICES = 16, AGE_TICK_MS = 100, AGE_IDLE_MS = 400 };

/* So long after something found no space UNSTABLE WRITEs to the same file system wait for theirs. */
static const uint64_t SHORT_NS = 1000000000;

struct cache_config cache_limits;

TAILQ_HEAD(mapping_list, mapping);

static struct leaf_lock list_lock = LEAF_LOCK_INIT;
static struct mapping_list mappings = TAILQ_HEAD_INITIALIZER(mappings);

static _Atomic int64_t dirty_bytes, kept_bytes, paid_bytes[PAYERS];
static _Atomic int64_t refused_bytes;
static _Atomic uint64_t short_until_ns[DEVICES]; /* by a hash of the device: two that share a place do no harm */
static _Atomic unsigned dirty_waiters, room_made;
static struct leaf_lock room_lock = LEAF_LOCK_INIT;
static struct fiber_cond room;

COUNTER_DEFINE(dirty_now, "cache.dirty_bytes");
COUNTER_DEFINE(refused_now, "cache.refused_bytes");
COUNTER_DEFINE(kept_now, "cache.kept_bytes");
COUNTER_DEFINE(dirty_waits, "cache.dirty_waits");
COUNTER_DEFINE(edges_aged, "cache.edges.aged");
COUNTER_DEFINE(edges_forced, "cache.edges.forced");

static uint64_t or_default(uint64_t value, uint64_t otherwise)
{
	return value ? value : otherwise;
}

int cache_init(const struct cache_config *config)
{
	cache_limits = *config;
	cache_limits.dirty_bytes_max = or_default(config->dirty_bytes_max, 64 << 20);
	cache_limits.file_dirty_bytes_max = or_default(config->file_dirty_bytes_max, cache_limits.dirty_bytes_max / 2);
	cache_limits.client_dirty_bytes_max = or_default(config->client_dirty_bytes_max, cache_limits.dirty_bytes_max / 4 * 3);
	cache_limits.kept_bytes_max = or_default(config->kept_bytes_max, 32 << 20);
	cache_limits.kept_ms_max = (uint32_t)or_default(config->kept_ms_max, 5000);
	cache_limits.edge_wait_ms = (uint32_t)or_default(config->edge_wait_ms, 300);
	cache_limits.run_bytes_max = (uint32_t)or_default(config->run_bytes_max, 8 << 20);
	cache_limits.runs_in_flight_max = (uint32_t)or_default(config->runs_in_flight_max, 32);
	cache_limits.early_bytes = (uint32_t)or_default(config->early_bytes, 512 << 10);
	TAILQ_INIT(&mappings);
	fiber_cond_init(&room);
	dirty_bytes = kept_bytes = refused_bytes = 0;
	memset(short_until_ns, 0, sizeof short_until_ns);
	memset(paid_bytes, 0, sizeof paid_bytes);
	dirty_waiters = 0;
	return 0;
}

void cache_fini(void)
{
	ASSERT(TAILQ_EMPTY(&mappings));
	ASSERT(dirty_bytes == 0 && kept_bytes == 0 && refused_bytes == 0);
	for (unsigned i = 0; i < PAYERS; i++)
		ASSERT(paid_bytes[i] == 0);
}

noyield_fn void cache_add_mapping(struct mapping *m)
{
	leaf_lock(&list_lock);
	TAILQ_INSERT_TAIL(&mappings, m, link);
	leaf_unlock(&list_lock);
}

noyield_fn void cache_del_mapping(struct mapping *m)
{
	leaf_lock(&list_lock);
	TAILQ_REMOVE(&mappings, m, link);
	leaf_unlock(&list_lock);
}

/* Those who wait are woken when a 64th of the bound has become free, not for each folio that goes. */
noyield_fn void cache_dirty_add(int64_t bytes, uint8_t payer)
{
	uint64_t step = max_u64(cache_limits.dirty_bytes_max / 64, 1);
	uint64_t before = (uint64_t)atomic_fetch_add_explicit(&dirty_bytes, bytes, memory_order_seq_cst);

	atomic_fetch_add_explicit(&paid_bytes[payer], bytes, memory_order_relaxed);
	counter_add(&dirty_now, bytes);
	if (bytes >= 0 || before / step == (before + (uint64_t)bytes) / step)
		return;
	atomic_fetch_add(&room_made, 1);
	if (!atomic_load(&dirty_waiters))
		return;
	leaf_lock(&room_lock);
	fiber_cond_broadcast_locked(&room);
	leaf_unlock(&room_lock);
}

noyield_fn uint8_t cache_payer(uint64_t client)
{
	return (uint8_t)((client * 0x9e3779b97f4a7c15 >> 32) % PAYERS);
}

noyield_fn bool cache_dirty_over(uint8_t payer)
{
	return (uint64_t)dirty_bytes >= cache_limits.dirty_bytes_max || (uint64_t)paid_bytes[payer] >= cache_limits.client_dirty_bytes_max;
}

noyield_fn void cache_refused_add(int64_t bytes)
{
	atomic_fetch_add(&refused_bytes, bytes);
	counter_add(&refused_now, bytes);
}

/* A quarter of what may be dirty: beyond, what one disk has no space for would keep the WRITEs to all others waiting. */
noyield_fn bool cache_refused_over(void)
{
	return (uint64_t)refused_bytes > cache_limits.dirty_bytes_max / 4;
}

static _Atomic uint64_t *short_until(const struct mapping *m)
{
	uint64_t device = (uint64_t)m->config.dev_major << 32 | m->config.dev_minor;

	return &short_until_ns[(device * 0x9e3779b97f4a7c15 >> 32) % DEVICES];
}

noyield_fn void cache_space_is_short(const struct mapping *m)
{
	atomic_store(short_until(m), clock_mono_ns() + SHORT_NS);
}

noyield_fn bool mapping_space_is_short(const struct mapping *m)
{
	uint64_t until = atomic_load(short_until(m));

	return until && clock_mono_ns() < until; /* no look at the clock for each WRITE of a file system that never was */
}

noyield_fn unsigned cache_room_made(void)
{
	return atomic_load(&room_made);
}

fiber_fn void cache_dirty_wait(unsigned seen)
{
	/* Less than a step may be all that there is, and holding back ends by itself: the caller looks again from time to time. */
	uint64_t deadline = clock_mono_ns() + 10000000;

	counter_add(&dirty_waits, 1);
	leaf_lock(&room_lock);
	atomic_fetch_add(&dirty_waiters, 1);
	if (atomic_load(&room_made) == seen)
		fiber_cond_wait_until(&room, &room_lock, "dirty bound", deadline);
	atomic_fetch_sub(&dirty_waiters, 1);
	leaf_unlock(&room_lock);
}

noyield_fn bool cache_kept_add(int64_t bytes)
{
	if ((uint64_t)atomic_fetch_add(&kept_bytes, bytes) + (uint64_t)bytes > cache_limits.kept_bytes_max) {
		atomic_fetch_sub(&kept_bytes, bytes);
		return false;
	}
	counter_add(&kept_now, bytes);
	return true;
}

noyield_fn bool cache_kept_is_tight(void)
{
	return (uint64_t)kept_bytes > cache_limits.kept_bytes_max / 2;
}

noyield_fn void cache_kept_sub(int64_t bytes)
{
	atomic_fetch_sub(&kept_bytes, bytes);
	counter_add(&kept_now, -bytes);
}

static bool is_older(uint64_t since_ns, uint64_t now_ns, uint64_t ms)
{
	return since_ns && now_ns >= since_ns + ms * 1000000;
}

/*
 * What waits is given up, and those who believed in it are told. So are those who wait: their bytes may be among it, staged a moment ago and not tried yet. Others of
 * the file may have been written all the while: what they prove is that they had their space already.
 */
noyield_fn void cache_give_up_locked(struct mapping *m)
{
	struct mapping_waiter *w;
	struct folio *f, *next;

	ASSERT(!m->runs_in_flight);
	TAILQ_FOREACH(w, &m->waiters, link)
		if (!w->error)
			w->error = m->refused_error;
	RB_FOREACH_SAFE(f, folio_tree, &m->folios, next)
		if (f->dirty_seq)
			mapping_remove_locked(m, f);
	mapping_shrink_locked(m);
	m->sticky_error = m->refused_error;
	m->retry_ns = m->stuck_seq = 0;
	mapping_tell_lost(m);
}

/* True: the flusher is to be woken. */
static bool age_locked(struct mapping *m, uint64_t now)
{
	struct folio *f;

	while ((f = TAILQ_FIRST(&m->kept)) && is_older(f->kept_since_ns, now, cache_limits.kept_ms_max)) {
		mapping_remove_locked(m, f);
		counter_add(&edges_aged, 1);
	}
	if (!m->held) /* nothing dirty */
		return false;
	bool edges = is_older(m->deferred_since_ns, now, cache_limits.edge_wait_ms);
	if (!edges && (!m->retry_ns || now < m->retry_ns || m->flusher_running))
		return false;
	counter_add(&edges_forced, edges);
	m->force = true;
	return true;
}

static void age_all(void)
{
	uint64_t now = clock_mono_ns();
	struct mapping *m;

	leaf_lock(&list_lock);
	TAILQ_FOREACH(m, &mappings, link) {
		leaf_lock(&m->lock);
		bool kick = age_locked(m, now);
		leaf_unlock(&m->lock);
		if (kick)
			mapping_kick_held(m); /* the last of it may have been written meanwhile, and the owner be unreferenced */
	}
	leaf_unlock(&list_lock);
}

static void age_main(void *arg)
{
	while (!runtime_stopping()) {
		/* With nothing to age it wakes less often; what comes meanwhile is aged by its own times, at most one such sleep late. */
		fiber_sleep_ns((dirty_bytes || kept_bytes ? AGE_TICK_MS : AGE_IDLE_MS) * 1000000ull);
		if (dirty_bytes || kept_bytes)
			age_all();
	}
}

noyield_fn int cache_start(void)
{
	return fiber_spawn(age_main, NULL, "cache ageing");
}
