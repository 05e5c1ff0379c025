/*
 * runtime/backend.h - the seam between reactors and what is underneath: the kernel's ring, or the simulation. Private to runtime/.
 *
 * Two implementations: backend_uring.c and sim.c (plus the ring-less fallback inside the former's file family).
 */
#ifndef RUNTIME_BACKEND_H
#define RUNTIME_BACKEND_H

#include <time.h>

#include "runtime/base.h"
#include "runtime/reactor.h"

struct reactor;
struct reactor_config;
struct io_op;
struct statx;
struct cred;

struct pool_job {
	struct pool_job *next;
	void (*fn)(void *arg);
	void *arg;
	const struct cred *cred;        /* NULL: the server's own */
	struct pool_lane *lane;         /* or NULL; a backend that runs one job at a time need not look */
	void (*end)(struct pool_job *jobs); /* takes over those whose functions have returned in one turn; NULL: they are over then */
	void (*done)(struct pool_job *job); /* on the submitting reactor's loop */
	struct reactor *home;
	struct reactor_post post;       /* the pool's: carries the job home */
};

struct backend {
	const char *name;
	bool real_files; /* descriptors are the kernel's: system calls on a pool thread do what operations do */
	/* From runtime_init() and runtime_fini(), on the calling thread. */
	int (*init)(struct reactor *r, const struct reactor_config *config);
	void (*fini)(struct reactor *r);
	/* May be NULL. At the begin and end of each runtime_run(), on the reactor's own thread. */
	int (*start)(struct reactor *r);
	void (*stop)(struct reactor *r);
	/* May be NULL. Ask for an early end of everything in flight: the reactor is about to stop. */
	void (*cancel_all)(struct reactor *r);
	/* Queue op; it completes later through reactor_complete(op). */
	void (*submit)(struct reactor *r, struct io_op *op);
	void (*cancel)(struct reactor *r, struct io_op *op);
	/*
	 * Push queued operations to the kernel and deliver completions. Wait for one, or for another thread's nudge, up to timeout_ns
	 * (0: do not wait; UINT64_MAX: no limit).
	 */
	void (*poll)(struct reactor *r, uint64_t timeout_ns);
	/* Has poll() something to do? Without a system call; said often. NULL: cannot be said, so the reactor does not linger. */
	bool (*look)(struct reactor *r);
	/* Make a waiting poll() of r return; from any thread. */
	void (*nudge)(struct reactor *r);
	void (*pool_submit)(struct reactor *r, struct pool_job *job);
	int (*fstatx)(int fd, unsigned mask, struct statx *stx);
	int (*shutdown)(int fd);
	uint64_t (*mono_ns)(void);
	struct timespec (*real)(void);
	void (*random)(void *buf, size_t len);
	/* Which of n ready fibers runs next: the index (the ring: 0; the simulation: drawn from the seed). */
	unsigned (*pick)(struct reactor *r, unsigned n);
};

extern const struct backend backend_uring;
extern const struct backend backend_sim;
extern const struct backend *backend; /* chosen before runtime_init(); backend_uring by default */

/* The backend's way to say that op is final (op->res is set). Reactor loop of the reactor that submitted it. */
void reactor_complete(struct reactor *r, struct io_op *op);
/*
 * Power cut: every fiber of r is dropped where it stands, with timers, hooks and posts, nothing that was in flight completes, and runtime_run()
 * returns -EPIPE. Called on a fiber it does not return; called on the loop it takes effect when the caller returns to it.
 */
void reactor_abandon(struct reactor *r);
/* Storage for the backend inside the reactor. */
void *reactor_backend_data(struct reactor *r);
void reactor_set_backend_data(struct reactor *r, void *data);

#endif
