/*
 * runtime/sync.c - leaf locks and fiber locks.
 *
 * Each fiber lock is a small state under a leaf lock and a list of waiters, which live on the stacks of the fibers that wait. Whoever frees the lock
 * hands it to the next in line before waking him (so it cannot be stolen in between, and order is that of arrival), takes him off the list,
 * and unparks him before he lets the leaf lock go: a waiter that has not been granted anything is on the list, and one that is off it has its
 * unpark issued. Nobody touches a waiter after unparking it.
 */
#include "runtime/sync.h"

#include "runtime/fiber.h"
#include "runtime/internal.h"

__thread unsigned leaf_locks_held;

void leaf_lock_init(struct leaf_lock *l)
{
	pthread_mutex_init(&l->mutex, NULL);
}

void leaf_lock_fini(struct leaf_lock *l)
{
	pthread_mutex_destroy(&l->mutex);
}

void leaf_lock(struct leaf_lock *l)
{
	int err = pthread_mutex_lock(&l->mutex);

	ASSERT(err == 0);
	leaf_locks_held++;
}

void leaf_unlock(struct leaf_lock *l)
{
	int err;

	ASSERT(leaf_locks_held > 0);
	leaf_locks_held--;
	err = pthread_mutex_unlock(&l->mutex);
	ASSERT(err == 0);
}

void leaf_lock_assert_held(struct leaf_lock *l)
{
	ASSERT(leaf_locks_held > 0);
}

/* Wait, on the list, with l held; it is held again afterwards. */
static void wait_granted(struct waiter *w, struct leaf_lock *l, const char *why, const void *where)
{
	leaf_unlock(l);
	fiber_park(why, where);
	leaf_lock(l);
	ASSERT(w->granted);
}

static void grant_locked(struct waiter_list *list, struct waiter *w)
{
	TAILQ_REMOVE(list, w, link);
	w->granted = true;
	fiber_unpark(w->fiber);
}

/* Conditions. */

void fiber_cond_init(struct fiber_cond *c)
{
	TAILQ_INIT(&c->waiters);
}

void fiber_cond_wait(struct fiber_cond *c, struct leaf_lock *l, const char *why)
{
	struct waiter w = { .fiber = fiber_self() };

	ASSERT(w.fiber);
	TAILQ_INSERT_TAIL(&c->waiters, &w, link);
	wait_granted(&w, l, why, c);
}

int fiber_cond_wait_until(struct fiber_cond *c, struct leaf_lock *l, const char *why, uint64_t deadline_ns)
{
	struct waiter w = { .fiber = fiber_self() };
	int result;

	ASSERT(w.fiber);
	TAILQ_INSERT_TAIL(&c->waiters, &w, link);
	leaf_unlock(l);
	result = fiber_park_until(why, c, deadline_ns);
	leaf_lock(l);
	if (result == 0) {
		ASSERT(w.granted);
		return 0;
	}
	if (!w.granted) {
		TAILQ_REMOVE(&c->waiters, &w, link);
		return -ETIMEDOUT;
	}
	/* The signal and the deadline crossed: the unpark is on its way from another thread and belongs to this wait. */
	wait_granted(&w, l, why, c);
	return 0;
}

void fiber_cond_signal_locked(struct fiber_cond *c)
{
	if (!TAILQ_EMPTY(&c->waiters))
		grant_locked(&c->waiters, TAILQ_FIRST(&c->waiters));
}

void fiber_cond_broadcast_locked(struct fiber_cond *c)
{
	while (!TAILQ_EMPTY(&c->waiters))
		grant_locked(&c->waiters, TAILQ_FIRST(&c->waiters));
}

/* Mutexes. */

void fiber_mutex_init(struct fiber_mutex *m)
{
	leaf_lock_init(&m->lock);
	m->holder = NULL;
	TAILQ_INIT(&m->waiters);
}

void fiber_mutex_fini(struct fiber_mutex *m)
{
	ASSERT(!m->holder);
	leaf_lock_fini(&m->lock);
}

void fiber_mutex_lock(struct fiber_mutex *m)
{
	struct waiter w = { .fiber = fiber_self() };

	ASSERT(w.fiber);
	leaf_lock(&m->lock);
	ASSERT(m->holder != w.fiber);
	if (!m->holder) {
		m->holder = w.fiber;
	} else {
		TAILQ_INSERT_TAIL(&m->waiters, &w, link);
		wait_granted(&w, &m->lock, "mutex", m);
	}
	ASSERT(m->holder == w.fiber);
	leaf_unlock(&m->lock);
	w.fiber->locks_held++;
}

bool fiber_mutex_trylock(struct fiber_mutex *m)
{
	struct fiber *f = fiber_self();
	bool got;

	ASSERT(f);
	leaf_lock(&m->lock);
	got = !m->holder;
	if (got)
		m->holder = f;
	leaf_unlock(&m->lock);
	f->locks_held += got;
	return got;
}

void fiber_mutex_unlock(struct fiber_mutex *m)
{
	struct fiber *f = fiber_self();
	struct waiter *next;

	leaf_lock(&m->lock);
	ASSERT(f && m->holder == f);
	next = TAILQ_FIRST(&m->waiters);
	m->holder = next ? next->fiber : NULL;
	if (next)
		grant_locked(&m->waiters, next);
	leaf_unlock(&m->lock);
	f->locks_held--;
}

/* Reader-writer locks. */

void fiber_rwlock_init(struct fiber_rwlock *l)
{
	leaf_lock_init(&l->lock);
	l->readers = 0;
	l->writer = NULL;
	TAILQ_INIT(&l->waiters);
}

void fiber_rwlock_fini(struct fiber_rwlock *l)
{
	ASSERT(!l->writer && !l->readers);
	leaf_lock_fini(&l->lock);
}

static bool rwlock_admits(const struct fiber_rwlock *l, bool exclusive)
{
	return !l->writer && !(exclusive && l->readers);
}

static void rwlock_take(struct fiber_rwlock *l, struct fiber *f, bool exclusive)
{
	if (exclusive)
		l->writer = f;
	else
		l->readers++;
}

static void rwlock_lock(struct fiber_rwlock *l, bool exclusive, const char *why)
{
	struct waiter w = { .fiber = fiber_self(), .exclusive = exclusive };

	ASSERT(w.fiber);
	leaf_lock(&l->lock);
	ASSERT(l->writer != w.fiber);
	if (TAILQ_EMPTY(&l->waiters) && rwlock_admits(l, exclusive)) {
		rwlock_take(l, w.fiber, exclusive);
	} else {
		TAILQ_INSERT_TAIL(&l->waiters, &w, link);
		wait_granted(&w, &l->lock, why, l);
	}
	leaf_unlock(&l->lock);
	w.fiber->locks_held++;
}

void fiber_rwlock_rdlock(struct fiber_rwlock *l)
{
	rwlock_lock(l, false, "rwlock to read");
}

void fiber_rwlock_wrlock(struct fiber_rwlock *l)
{
	rwlock_lock(l, true, "rwlock to write");
}

void fiber_rwlock_unlock(struct fiber_rwlock *l)
{
	struct fiber *f = fiber_self();
	struct waiter *w;

	ASSERT(f);
	leaf_lock(&l->lock);
	if (l->writer) {
		ASSERT(l->writer == f);
		l->writer = NULL;
	} else {
		ASSERT(l->readers > 0);
		l->readers--;
	}
	while ((w = TAILQ_FIRST(&l->waiters)) && rwlock_admits(l, w->exclusive)) {
		rwlock_take(l, w->fiber, w->exclusive);
		grant_locked(&l->waiters, w);
	}
	leaf_unlock(&l->lock);
	f->locks_held--;
}

/* Range locks. */

struct range_waiter {
	struct waiter w;
	struct range_hold *hold;
};

void fiber_rangelock_init(struct fiber_rangelock *rl)
{
	leaf_lock_init(&rl->lock);
	TAILQ_INIT(&rl->held);
	TAILQ_INIT(&rl->waiters);
}

void fiber_rangelock_fini(struct fiber_rangelock *rl)
{
	ASSERT(TAILQ_EMPTY(&rl->held));
	ASSERT(TAILQ_EMPTY(&rl->waiters));
	leaf_lock_fini(&rl->lock);
}

static bool overlap(uint64_t start, uint64_t end, uint64_t other_start, uint64_t other_end)
{
	return start < other_end && other_start < end;
}

/* Does a holder conflict, or a waiter before `until` (NULL: any)? */
static bool range_conflicts(const struct fiber_rangelock *rl, const struct range_hold *want, const struct waiter *until)
{
	const struct range_hold *h;
	const struct waiter *w;

	TAILQ_FOREACH(h, &rl->held, link)
		if ((h->exclusive || want->exclusive) && overlap(h->start, h->end, want->start, want->end))
			return true;
	TAILQ_FOREACH(w, &rl->waiters, link) {
		if (w == until)
			break;
		if ((w->exclusive || want->exclusive) && overlap(w->start, w->end, want->start, want->end))
			return true;
	}
	return false;
}

static void range_fill(struct range_hold *hold, uint64_t start, uint64_t end, enum range_mode mode)
{
	ASSERT(start <= end);
	hold->start = start;
	hold->end = end;
	hold->exclusive = mode == RANGE_EXCLUSIVE;
	hold->owner = fiber_self();
	ASSERT(hold->owner);
}

static void range_wait_locked(struct fiber_rangelock *rl, struct range_hold *hold)
{
	struct range_waiter rw = {
		.w = { .fiber = hold->owner, .start = hold->start, .end = hold->end, .exclusive = hold->exclusive },
		.hold = hold,
	};

	TAILQ_INSERT_TAIL(&rl->waiters, &rw.w, link);
	wait_granted(&rw.w, &rl->lock, "range", rl);
}

void fiber_rangelock_lock(struct fiber_rangelock *rl, struct range_hold *hold, uint64_t start, uint64_t end, enum range_mode mode)
{
	range_fill(hold, start, end, mode);
	leaf_lock(&rl->lock);
	if (range_conflicts(rl, hold, NULL))
		range_wait_locked(rl, hold);
	else
		TAILQ_INSERT_TAIL(&rl->held, hold, link);
	leaf_unlock(&rl->lock);
	hold->owner->locks_held++;
}

bool fiber_rangelock_trylock(struct fiber_rangelock *rl, struct range_hold *hold, uint64_t start, uint64_t end, enum range_mode mode)
{
	bool got;

	range_fill(hold, start, end, mode);
	leaf_lock(&rl->lock);
	got = !range_conflicts(rl, hold, NULL);
	if (got)
		TAILQ_INSERT_TAIL(&rl->held, hold, link);
	leaf_unlock(&rl->lock);
	hold->owner->locks_held += got;
	return got;
}

void fiber_rangelock_unlock(struct fiber_rangelock *rl, struct range_hold *hold)
{
	struct waiter *w, *next;

	ASSERT(hold->owner == fiber_self());
	leaf_lock(&rl->lock);
	TAILQ_REMOVE(&rl->held, hold, link);
	for (w = TAILQ_FIRST(&rl->waiters); w; w = next) {
		struct range_hold *wanted = container_of(w, struct range_waiter, w)->hold;

		next = TAILQ_NEXT(w, link);
		if (range_conflicts(rl, wanted, w))
			continue;
		TAILQ_INSERT_TAIL(&rl->held, wanted, link);
		grant_locked(&rl->waiters, w);
	}
	leaf_unlock(&rl->lock);
	hold->owner->locks_held--;
}
