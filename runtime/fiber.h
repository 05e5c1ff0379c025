/*
 * runtime/fiber.h - fibers: straight-line code that yields where it waits.
 *
 * A fiber belongs to the reactor that spawned it and never runs on another thread. Stacks (with guard pages) and fiber structs are
 * mapped once at reactor start; spawning takes one from the free list. A fiber that ends returns its stack. Every parked fiber knows why,
 * where and until when it waits (fiber_dump()). Re-entering a running or scheduled fiber aborts, and so does ending a fiber that holds a
 * fiber lock, or yielding while a leaf lock is held.
 */
#ifndef RUNTIME_FIBER_H
#define RUNTIME_FIBER_H

#include <stdio.h>

#include "runtime/base.h"

struct fiber;

typedef void fiber_main(void *arg);

/*
 * Start fn(arg) as a new fiber of the calling reactor; it runs after the caller yields or returns to the loop, in spawn order (the simulated
 * backend: in an order drawn from the seed). `what` is a string literal for dumps. -EAGAIN: every slot is taken. Reactor context.
 */
noyield_fn int fiber_spawn(fiber_main *fn, void *arg, const char *what);

/* The running fiber, or NULL outside of one. */
noyield_fn struct fiber *fiber_self(void);

/* Free fiber slots of the calling reactor. */
noyield_fn unsigned fiber_slots_free(void);

/* Let every other runnable fiber of this reactor run once. */
fiber_fn void fiber_yield(void);

/*
 * As fiber_yield(), but resume only when the reactor has nothing else to run and has reaped the completions that were ready: what arrived
 * together has been seen together. Used by batchers (the flusher).
 */
fiber_fn void fiber_yield_idle(void);

/*
 * Wait for fiber_unpark(). `why` is a string literal, `where` any address, both for dumps. There are no spurious returns. The caller has made
 * itself findable for its waker before; the waker may be on another thread: its unpark is delivered by this reactor's loop, so never too early.
 */
fiber_fn void fiber_park(const char *why, const void *where);

/*
 * As above, until clock_mono_ns() >= deadline_ns: -ETIMEDOUT then, 0 if unparked. UINT64_MAX: no deadline. After -ETIMEDOUT the caller must make itself
 * unfindable; if it finds that a waker on another thread has taken it off the list already, that waker's unpark is on its way and must be
 * consumed with one more fiber_park(). Wakers therefore unpark before they release the lock of the list. sync.h's conditions do all this.
 */
fiber_fn int fiber_park_until(const char *why, const void *where, uint64_t deadline_ns);

/* Wake a parked fiber, from any thread, exactly once per park. */
noyield_fn void fiber_unpark(struct fiber *f);

fiber_fn void fiber_sleep_ns(uint64_t ns);

/* Long loops call this: it yields once the running slice has lasted longer than the limit, and counts such slices. */
fiber_fn void fiber_breathe(void);

/* A 64-bit tag shown in dumps (the xid of the call). */
noyield_fn void fiber_set_tag(uint64_t tag, const char *what);

/* Most bytes of one stack that any fiber of the calling reactor has used so far; 0 without reactor_config.stack_poison. */
size_t fiber_stack_high_water(void);

/* Lines "reactor fiber state tag what why where age" of every live fiber of every reactor; taken without stopping them, so a snapshot only. */
void fiber_dump(FILE *out);

#endif
