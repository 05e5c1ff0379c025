/*
 * runtime/internal.h - the reactor's and the fiber's insides. Private to runtime/ (backends know only backend.h).
 */
#ifndef RUNTIME_INTERNAL_H
#define RUNTIME_INTERNAL_H

#include <bsd/sys/queue.h>

#include "runtime/base.h"
#include "runtime/fiber.h"
#include "runtime/reactor.h"

struct cred;
struct io_op;
struct pool_job;

enum fiber_state { FIBER_FREE, FIBER_READY, FIBER_RUNNING, FIBER_PARKED, FIBER_ENDED };

struct fiber {
	/* immutable after reactor start */
	struct reactor *reactor;
	uint8_t *stack; /* its low end; the guard page is below */
	unsigned slot;
	/* home reactor only */
	void *context; /* where to continue; valid while the fiber does not run */
	TAILQ_ENTRY(fiber) link;
	fiber_main *fn;
	void *arg;
	struct timer timer;
	int wake_result;
	unsigned locks_held;
	uint64_t slice;          /* the reactor's switch count when fiber_breathe() looked last */
	uint64_t slice_began_ns;
	void *fake_stack;        /* AddressSanitizer's */
	void *tsan;              /* ThreadSanitizer's */
	/* its waker's, from another thread's fiber_unpark() until delivered */
	struct reactor_post wake;
	/* atomic: written at home, read by fiber_dump() on any thread */
	_Atomic enum fiber_state state;
	const char *_Atomic what;
	const char *_Atomic why;
	const void *_Atomic where;
	_Atomic uint64_t tag;
	_Atomic uint64_t since_ns;
};

TAILQ_HEAD(fiber_queue, fiber);
STAILQ_HEAD(reactor_hooks, reactor_hook);

struct close_op;

struct reactor {
	/* immutable after init */
	unsigned index;
	unsigned fiber_count;
	size_t stack_bytes;
	bool stack_poison;
	uint8_t *stacks; /* one mapping: guard page, stack, guard page, stack ... */
	size_t stacks_bytes;
	struct fiber *fibers;
	void *backend_data;
	/* home reactor only */
	void *context; /* the loop's, while a fiber runs */
	struct fiber *current;
	struct fiber_queue free, ready, yielded, idle;
	unsigned idle_passed_over; /* turns that the idle queue has waited */
	unsigned free_count, ready_count;
	struct reactor_hooks hooks;
	struct timer **heap; /* from 1 */
	unsigned heap_len, heap_capacity;
	uint64_t now_ns; /* clock of this turn */
	uint64_t switches;
	unsigned in_flight; /* operations */
	unsigned files_in_flight; /* those of them that a disk carries out */
	bool expecting; /* reactor_expect() was called since the last wait */
	unsigned hurries; /* begun by reactor_hurry() */
	unsigned short_calls, short_disks; /* waits in a row, of those that were expected to be short, that were: for the next call; for a disk */
	struct close_op *close_free;
	bool abandoned;
	void *fake_stack, *tsan;
	const void *thread_stack;
	size_t thread_stack_bytes;
	/* atomic: pushed by any thread, taken by the home reactor */
	_Alignas(64) struct reactor_post *_Atomic inbox;
	/* atomic: set by the home reactor around a wait; who clears it nudges. Its partner is the inbox (and `stopping`): store one, then load the other. */
	_Atomic bool sleeping;
	/* atomic: written at home, read by all when stopping */
	_Atomic bool quiet;
};

extern __thread struct reactor *reactor_here;

/* fiber.c */
int fibers_init(struct reactor *r);
void fibers_fini(struct reactor *r);
void fibers_enter_thread(struct reactor *r); /* before the first fiber runs on this thread */
void fiber_run(struct reactor *r, struct fiber *f);
void fiber_make_ready(struct fiber *f);
void fibers_abandon(struct reactor *r);
_Noreturn void fiber_vanish(void); /* leave the running fiber for ever */
/* The process may map `fibers` stacks more. */
int fibers_check_limit(unsigned fibers);

/* timer.c */
void timers_expire(struct reactor *r);
void timers_clear(struct reactor *r);

/* sync.c: leaf locks that the calling thread holds */
extern __thread unsigned leaf_locks_held;

/* reactor.c */
void reactor_push(struct reactor *r, struct reactor_post *post); /* from any thread */
struct reactor *reactor_by_index(unsigned index);

/* io.c */
void io_closes_fini(struct reactor *r);
/*
 * What faults are armed for op: 0 and how much of op->iov to use (all of `iovcnt` entries; if one, `len` bytes of it), or the errno to fail with.
 */
int io_shape(const struct io_op *op, unsigned *iovcnt, size_t *len);
/* op changes a file's data or space: it runs as cred_data. */
bool io_changes_data(const struct io_op *op);
/* op is on a file's data, not on a socket. */
bool io_is_of_file(const struct io_op *op);

/* pool.c: queue for a worker, without bound; job->done runs on job->home's loop */
void pool_enqueue(struct pool_job *job);

/* pool.c: wait until no worker has anything in hand, not even the waking of a reactor; when nobody asks for more */
void pool_settle(void);

/* blocking.c: carry out op by blocking system calls on a pool thread */
void blocking_submit(struct reactor *r, struct io_op *op);
/* ... op, one on files, right here, on a pool thread. Its result, in op->res too. */
ssize_t blocking_perform(struct io_op *op);

#endif
