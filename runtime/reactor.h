/*
 * runtime/reactor.h - one thread, one ring, many fibers.
 *
 * A reactor loop: run ready fibers until none is left, run the end-of-batch hooks (connections send the replies that gathered), submit what the ring was
 * given, reap completions, expire timers, take what other threads handed in; wait only if nothing of that was there. Reactors share nothing
 * but what a struct says is shared.
 */
#ifndef RUNTIME_REACTOR_H
#define RUNTIME_REACTOR_H

#include <bsd/sys/queue.h>

#include "runtime/base.h"

struct reactor;
struct backend;

struct reactor_config {
	unsigned reactors;       /* 0: one per CPU; the simulated backend: always 1 */
	unsigned fibers;         /* call slots per reactor, all mapped at start; 0: 512 */
	unsigned stack_bytes;    /* 0: 128 KiB */
	unsigned ring_entries;   /* 0: 1024 */
	unsigned pool_threads;   /* 0: 8 */
	unsigned linger_us;      /* longest that reactor_expect() makes a reactor look for work before it sleeps; 0: it sleeps at once */
	unsigned no_features;    /* RING_NO_*: pretend that the kernel lacks these; each has a fallback */
	bool stack_poison;       /* fill the stacks, so that fiber_stack_high_water() can tell how much was used (debugging: touches all of them) */
};

enum {
	RING_NO_DEFER_TASKRUN = 1, /* nor SINGLE_ISSUER */
	RING_NO_FTRUNCATE = 2,     /* through the pool */
	RING_NO_SENDMSG_WAITALL = 4, /* MSG_WAITALL is ignored: sends and receives may be short, and their callers go on */
	RING_NO_URING = 8,         /* every operation through the pool and poll: for kernels and containers that forbid the ring */
};

/*
 * Start the process's reactors and pool (unless pool_init() was called before). SIGPIPE is ignored from here on. start(arg, index) runs as the
 * first fiber of each reactor; reactor 0 is the thread that calls runtime_run(). 0 or -errno; on error nothing is left.
 * runtime_run() returns when runtime_stop() was called and every fiber has ended; operations that are still in flight then are cancelled and
 * completed first (their owners see -ECANCELED). It can be called again after it returned.
 */
int runtime_init(const struct reactor_config *config);
int runtime_run(void (*start)(void *arg, unsigned index), void *arg);
/* From any thread or fiber; not from a signal handler (main uses signalfd or a pipe). Fibers that loop watch runtime_stopping(). */
void runtime_stop(void);
noyield_fn bool runtime_stopping(void);
void runtime_fini(void);

noyield_fn struct reactor *reactor_self(void); /* NULL on other threads */
noyield_fn unsigned reactor_index(void);
noyield_fn unsigned reactor_count(void);

/* Run fn(arg) on reactor `index`'s loop, outside a fiber; from any thread. `post` is the caller's, queued once at a time. */
struct reactor_post {
	struct reactor_post *next; /* the reactor's */
	void (*fn)(struct reactor_post *post);
};
noyield_fn void reactor_post(unsigned index, struct reactor_post *post);

/* Run fn once before the next submission of this reactor (end of batch); armed again by each call. Same reactor. */
struct reactor_hook {
	STAILQ_ENTRY(reactor_hook) link;
	void (*fn)(struct reactor_hook *hook);
	bool armed;
};
noyield_fn void reactor_at_batch_end(struct reactor_hook *hook);

/*
 * Somebody has his answer and may well ask again at once, as one does who has one call in progress at a time: waking up would cost more than the call. If there is
 * nothing else to do, the reactor looks for work for linger_us before it sleeps, provided that it lately paid to, and that no file's
 * operation, whose workers want the CPU, is in flight. For its next wait only.
 */
noyield_fn void reactor_expect(void);
/*
 * The end of somebody's answer is under way: a write, a sync, each in its turn. From reactor_hurry() to reactor_hurry_over() the reactor looks for work in the same way
 * before it sleeps, for as much as four times linger_us and also beside operations of files, provided that such waits lately were shorter. A CPU
 * that looks gives way at once to the kernel's threads that do the work; one that sleeps has to be woken for each of them.
 */
noyield_fn void reactor_hurry(void);
noyield_fn void reactor_hurry_over(void);

/* One-shot timer of this reactor; fn runs on the loop outside a fiber. timer_arm() moves an armed one. The struct is the caller's, zeroed first. */
struct timer {
	void (*fn)(struct timer *t);
	uint64_t expires_ns;
	unsigned heap_index; /* 0: not armed */
};
/* Reactor context. */
noyield_fn void timer_arm(struct timer *t, uint64_t expires_ns);
noyield_fn void timer_disarm(struct timer *t);

#endif
