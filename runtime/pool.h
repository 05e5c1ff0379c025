/*
 * runtime/pool.h - the blocking pool: a bounded number of threads for the syscalls that have no ring operation or may wait.
 *
 * A call makes at most one trip: one function that does all its syscalls. The worker takes on the job's identity first (fsuid, fsgid, groups;
 * capabilities follow the fsuid rule of the kernel) and keeps it cached until a job asks for another. Jobs beyond the queue bound wait on the
 * fiber's side. The simulated backend runs the function on the reactor at a time drawn from the seed.
 *
 * What a reactor's fibers ask for in one turn is handed over together at its end, and one worker is woken for all of it; that one wakes the next if there is
 * more. Jobs that would only stand in each other's way (changes of one directory) share a lane: one worker runs those that wait there one after the
 * other, each under its own identity, and sends them home together.
 */
#ifndef RUNTIME_POOL_H
#define RUNTIME_POOL_H

#include "runtime/base.h"

struct cred;
struct pool_job;

typedef void pool_main(void *arg);

/* Run fn(arg) on a pool thread under `cred` (NULL: the server's own) and wait for it. fn must not touch fibers or fiber locks. */
fiber_fn void pool_run(pool_main *fn, void *arg, const struct cred *cred);

/* The same if more than half of the threads have nothing to do, and never for more than half of them: for what can be done without them too. False: not run. */
fiber_fn bool pool_try_run(pool_main *fn, void *arg, const struct cred *cred);

/*
 * In a job: run fn(arg) here and, at the same time, on up to `more` other workers, as many as have nothing else to do and as there are CPUs for, each as
 * `cred`, which is the job's own. Returns when none of them is in it any more. fn divides the work between those who come (an atomic index, say) and
 * returns when nothing is left to take; it must not count on anybody's coming.
 */
pool_fn void pool_share(pool_main *fn, void *arg, const struct cred *cred, unsigned more);

/* All zeroes to begin with. The fibers whose jobs are in it keep it alive. */
struct pool_lane {
	/* protected by the pool's lock */
	struct pool_job *first, *last; /* wait for the one that is queued or runs */
	bool busy;
};

/* As pool_run(), never at once with another job of this lane. */
fiber_fn void pool_run_in(struct pool_lane *lane, pool_main *fn, void *arg, const struct cred *cred);

/*
 * For jobs that are not over with their functions, but whose rest many can share: those that one worker has run in a turn of their lane go to end(), on that
 * worker, when it has left the lane and is the server itself again. end() takes them over, whatever their number; each is over when somebody on a pool
 * thread calls pool_job_over(), which may be long after. Jobs of a lane all have the same end. lane NULL: each is a turn.
 */
typedef void pool_end(struct pool_job *jobs);
fiber_fn void pool_run_shared(struct pool_lane *lane, pool_main *fn, pool_end *end, void *arg, const struct cred *cred);
/* Of jobs that are not over: the next one of the turn or NULL, and what was given as arg. */
pool_fn struct pool_job *pool_job_next(const struct pool_job *job);
pool_fn void *pool_job_arg(const struct pool_job *job);
/* The job is gone then. */
pool_fn void pool_job_over(struct pool_job *job);

/* Threads and jobs bound; called once before the first reactor starts. 0 or -errno. */
int pool_init(unsigned threads, unsigned queue_max);
void pool_fini(void);

#endif
