/*
 * runtime/sync.h - locks.
 *
 * Leaf locks are plain mutexes held for a few instructions, never over a yield: a per-thread count makes a yield abort while one is held. They
 * guard what reactors share. Fiber locks park the fiber that waits; they work between fibers of different reactors, are fair (FIFO), know
 * their holders, and the per-fiber count of held ones is asserted zero at the fiber's end.
 */
#ifndef RUNTIME_SYNC_H
#define RUNTIME_SYNC_H

#include <bsd/sys/queue.h>
#include <pthread.h>

#include "runtime/base.h"

struct fiber;

struct leaf_lock {
	pthread_mutex_t mutex;
};

#define LEAF_LOCK_INIT { .mutex = PTHREAD_MUTEX_INITIALIZER }

noyield_fn void leaf_lock_init(struct leaf_lock *l);
noyield_fn void leaf_lock_fini(struct leaf_lock *l);
noyield_fn void leaf_lock(struct leaf_lock *l);
noyield_fn void leaf_unlock(struct leaf_lock *l);
/* Abort unless the calling thread holds at least one leaf lock (debug aid for _locked functions). */
noyield_fn void leaf_lock_assert_held(struct leaf_lock *l);

/* A fiber waiting on something; lives on that fiber's stack. */
struct waiter {
	TAILQ_ENTRY(waiter) link;
	struct fiber *fiber;
	uint64_t start, end; /* range locks: the range wanted */
	bool exclusive;      /* rwlocks, range locks */
	bool granted;
};

TAILQ_HEAD(waiter_list, waiter);

/* Condition: protected by a leaf lock that the caller names each time; wait and signal with it held. */
struct fiber_cond {
	struct waiter_list waiters;
};

noyield_fn void fiber_cond_init(struct fiber_cond *c);
/* Release l, wait, take l again. `why` is a string literal. Wakes only by signal or broadcast. */
fiber_fn void fiber_cond_wait(struct fiber_cond *c, struct leaf_lock *l, const char *why);
/* As above until deadline_ns (clock_mono_ns): -ETIMEDOUT, else 0. l is held again either way. */
fiber_fn int fiber_cond_wait_until(struct fiber_cond *c, struct leaf_lock *l, const char *why, uint64_t deadline_ns);
noyield_fn void fiber_cond_signal_locked(struct fiber_cond *c);
noyield_fn void fiber_cond_broadcast_locked(struct fiber_cond *c);

struct fiber_mutex {
	struct leaf_lock lock; /* guards the rest */
	struct fiber *holder;
	struct waiter_list waiters;
};

noyield_fn void fiber_mutex_init(struct fiber_mutex *m);
noyield_fn void fiber_mutex_fini(struct fiber_mutex *m);
fiber_fn void fiber_mutex_lock(struct fiber_mutex *m);
noyield_fn bool fiber_mutex_trylock(struct fiber_mutex *m);
noyield_fn void fiber_mutex_unlock(struct fiber_mutex *m);

struct fiber_rwlock {
	struct leaf_lock lock; /* guards the rest */
	unsigned readers;
	struct fiber *writer;
	struct waiter_list waiters;
};

noyield_fn void fiber_rwlock_init(struct fiber_rwlock *l);
noyield_fn void fiber_rwlock_fini(struct fiber_rwlock *l);
fiber_fn void fiber_rwlock_rdlock(struct fiber_rwlock *l);
fiber_fn void fiber_rwlock_wrlock(struct fiber_rwlock *l);
noyield_fn void fiber_rwlock_unlock(struct fiber_rwlock *l);

/*
 * Range lock over [start, end) of a file: shared or exclusive, granted in order of arrival among those that conflict, so no request starves.
 * The held range lives in the caller's frame (or struct) from lock to unlock and records its owner.
 */
struct range_hold {
	TAILQ_ENTRY(range_hold) link;
	uint64_t start, end;
	bool exclusive;
	struct fiber *owner;
};

TAILQ_HEAD(range_hold_list, range_hold);

struct fiber_rangelock {
	struct leaf_lock lock; /* guards the rest */
	struct range_hold_list held;
	struct waiter_list waiters;
};

enum range_mode { RANGE_SHARED, RANGE_EXCLUSIVE };

noyield_fn void fiber_rangelock_init(struct fiber_rangelock *rl);
noyield_fn void fiber_rangelock_fini(struct fiber_rangelock *rl); /* nothing may be held */
fiber_fn void fiber_rangelock_lock(struct fiber_rangelock *rl, struct range_hold *hold, uint64_t start, uint64_t end, enum range_mode mode);
/* Without waiting: false if a holder or an earlier waiter conflicts. */
noyield_fn bool fiber_rangelock_trylock(struct fiber_rangelock *rl, struct range_hold *hold, uint64_t start, uint64_t end, enum range_mode mode);
noyield_fn void fiber_rangelock_unlock(struct fiber_rangelock *rl, struct range_hold *hold);

#endif
