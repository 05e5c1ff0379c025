/* tests/model/state.c - see state.h. */
#include "tests/model/state.h"

#include <string.h>

#include "iocache/mapping_impl.h"
#include "runtime/buf.h"
#include "runtime/clock.h"
#include "runtime/internal.h"
#include "runtime/sim_random.h"

extern char __executable_start[], _end[];

enum { COLOUR_BYTES = 128, COLOURS = 16, SCRUB_BYTES = 2048 }; /* stacks begin where fiber.c has them begin */

static uint64_t hash_set(uint64_t hash, const struct byteset *s)
{
	return sim_hash(hash, s->range, s->count * sizeof s->range[0]);
}

static uint64_t hash_folio(uint64_t hash, const struct folio *f)
{
	uint64_t words[] = {
		f->start, f->len, f->adopted, f->unstable, f->mark, f->is_kept, f->is_open, f->run != 0, f->dirty_seq, buf_is_exclusive(f->buf),
	};

	ASSERT(!f->large); /* none of the scenarios makes one */
	hash = sim_hash(hash, words, sizeof words);
	if (f->adopted)
		return sim_hash(hash, f->data, f->len);
	hash = hash_set(hash_set(hash_set(hash, &f->valid), &f->written), &f->dirty);
	for (unsigned i = 0; i < f->valid.count; i++)
		hash = sim_hash(hash, f->data + f->valid.range[i].start, f->valid.range[i].end - f->valid.range[i].start);
	return hash;
}

static uint64_t hash_waiters(uint64_t hash, const struct waiter_list *list)
{
	const struct waiter *w;

	TAILQ_FOREACH(w, list, link) {
		uint64_t words[] = { w->start, w->end, w->exclusive, w->granted };

		hash = sim_hash(hash, words, sizeof words);
	}
	return hash;
}

static uint64_t hash_ranges(uint64_t hash, const struct fiber_rangelock *rl)
{
	const struct range_hold *h;
	uint64_t held = 0; /* a set */

	TAILQ_FOREACH(h, &rl->held, link)
		held += sim_hash(h->exclusive, &h->start, 2 * sizeof h->start);
	return hash_waiters(sim_hash_word(hash, held), &rl->waiters);
}

static uint64_t hash_sync_waiters(uint64_t hash, struct mapping *m)
{
	const struct mapping_waiter *w;

	TAILQ_FOREACH(w, &m->waiters, link) {
		uint64_t words[] = { w->start, w->end, w->seq, w->how, w->held_back, (uint64_t)w->error, w->done, w->fiber != NULL };

		hash = sim_hash(hash, words, sizeof words);
	}
	return hash;
}

static uint64_t hash_mapping(struct mapping *m)
{
	uint64_t words[] = {
		m->kept_bytes, m->dirty_bytes, m->size, m->disk_size, m->overlay, m->stage_seq, (uint64_t)m->growth_error, m->round_target,
		m->runs_in_flight, m->dio_align, m->disk_busy, m->waiting, m->expected, m->early_at, m->held_back_from,
		clock_mono_ns(), m->gather_until_ns, m->held_since_ns, m->held_seq, m->hold_back_failures, m->walk_failed, m->walk_partly, m->walk_cursor, m->readers, m->readaheads,
		m->hold_back_pause, m->flusher_running, m->flushed_seq, m->force, m->held, m->unsynced, m->deferred_since_ns != 0,
		m->refused, m->requeued, m->progress, m->stuck_seq, m->letting_go, m->retry_ns != 0, (uint64_t)m->refused_error, m->unsynced_unstable, (uint64_t)m->sticky_error,
	};
	uint64_t hash = sim_hash(0, words, sizeof words);
	struct folio *f;

	RB_FOREACH(f, folio_tree, &m->folios)
		hash = hash_folio(hash, f);
	TAILQ_FOREACH(f, &m->kept, kept)
		hash = sim_hash_word(hash, f->start);
	hash = hash_sync_waiters(hash, m);
	hash = hash_ranges(hash, &m->ranges);
	hash = hash_waiters(hash, &m->run_ended.waiters);
	hash = hash_waiters(hash, &m->flusher_ended.waiters);
	hash = hash_waiters(hash, &m->filled.waiters);
	return hash_waiters(hash, &m->writers_back.waiters);
}

static uint8_t *stack_top(const struct fiber *f)
{
	return f->stack + f->reactor->stack_bytes - (f->slot % COLOURS) * COLOUR_BYTES;
}

/* A word of a stack, without what differs between two ways to one state: the slot too. */
static uint64_t normalised(const struct fiber *f, uint64_t word)
{
	uint64_t low = (uint64_t)f->stack;

	if (word >= low && word < low + f->reactor->stack_bytes)
		return word - (uint64_t)stack_top(f);
	if (word >= (uint64_t)__executable_start && word < (uint64_t)_end)
		return word;
	return word >> 40 && !(word >> 47) ? UINT64_C(1) << 40 : word; /* a pointer */
}

/* What a new fiber was given: it is on the heap. */
static uint64_t hash_arg(const struct fiber *f)
{
	const char *what = f->what;

	if (!strcmp(what, "run")) {
		const struct run *r = f->arg;

		return sim_hash(0, &r->start, 2 * sizeof r->start);
	}
	return strcmp(what, "fill") ? normalised(f, (uint64_t)f->arg) : ((uint64_t *)f->arg)[1];
}

/* It reads what is between variables, too. */
__attribute__((no_sanitize_address, no_sanitize_thread)) static uint64_t hash_fiber(const struct fiber *f)
{
	const uint64_t *top = (const uint64_t *)stack_top(f);
	uint64_t hash = sim_hash_word(f->state, (uint64_t)f->what);

	hash = sim_hash_word(hash, (uint64_t)f->why);
	hash = sim_hash_word(hash, (uint64_t)f->wake_result << 8 | f->locks_held);
	hash = sim_hash_word(hash, f->timer.heap_index ? f->timer.expires_ns : 0);
	if (!strcmp(f->why, "new"))
		return sim_hash_word(hash, hash_arg(f));
	for (const uint64_t *word = f->context; word < top; word++)
		hash = sim_hash_word(hash, normalised(f, *word));
	return strcmp(f->what, "run") && strcmp(f->what, "fill") ? hash : sim_hash_word(hash, hash_arg(f));
}

/* What the fiber's next calls find on its stack where they do not write is then the same, whatever ran there before. */
static void scrub(struct fiber *f)
{
	uint8_t *end = f->state == FIBER_FREE ? stack_top(f) : f->context;

	memset(end - SCRUB_BYTES, 0, SCRUB_BYTES);
}

void state_scrub(void)
{
	struct reactor *r = reactor_here;

	for (unsigned i = 0; i < r->fiber_count; i++)
		if (r->fibers[i].state != FIBER_FREE || r->fibers[i].what)
			scrub(&r->fibers[i]);
}

uint64_t state_hash(struct mapping *m)
{
	const struct reactor *r = reactor_here;
	uint64_t hash = 0; /* fibers are a set */

	for (unsigned i = 0; i < r->fiber_count; i++)
		if (r->fibers[i].state != FIBER_FREE)
			hash += hash_fiber(&r->fibers[i]);
	return sim_hash_word(hash, m ? hash_mapping(m) : 0);
}
