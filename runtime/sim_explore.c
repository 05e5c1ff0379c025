/*
 * runtime/sim_explore.c - the simulation under a model checker: no seed, no time, every choice of the schedule is asked for.
 *
 * In a seeded run the scheduler draws a fiber, and operations end when their drawn time has come and no fiber is ready. Here anything that could happen may happen
 * next: any fiber that is ready or has yielded idle runs to its next wait, any operation in flight takes its next moment (a read's bytes appear, an operation ends), or
 * the clock jumps to the next timer. That is more than one reactor can do, where operations end between turns only and idle fibers run last: it is what several
 * reactors can do to each other, each step whole. A step is one fiber's run from one wait to the next.
 *
 * A disk that is full for some: with refusals left, each write in flight that needs space counts once more among the choices, as one that ends without it.
 *
 * Time stands still but for the jumps, so a deadline that is "now" is met when the reactor's turn ends, or when chosen.
 *
 * What a cut would leave is computed, not tried (sim_survivors()): a copy of the file takes what is in flight, and all that the journal and each block could choose is
 * listed. So a checker can ask in every state, and go on.
 */
#include "runtime/internal.h"
#include "runtime/sim_world.h"

static unsigned count_idle(const struct reactor *r)
{
	const struct fiber *f;
	unsigned n = 0;

	TAILQ_FOREACH(f, &r->idle, link)
		n++;
	return n;
}

static unsigned count_events(void)
{
	struct sim_event *e;
	unsigned n = 0;

	RB_FOREACH(e, sim_events, &sim.events)
		n++;
	return n;
}

static unsigned count_refusals(void)
{
	return sim.explorer.refusals ? sim_file_count_needy() : 0;
}

/* An event, or beyond these a refusal. */
static void deliver_nth(unsigned n, unsigned events)
{
	struct sim_event *e = RB_MIN(sim_events, &sim.events);

	if (n >= events) {
		sim.explorer.refusals--;
		sim.refused++;
		sim_file_refuse(n - events);
		return;
	}
	while (n--)
		e = RB_NEXT(sim_events, &sim.events, e);
	sim_event_deliver(e);
}

static void make_idle_ready(struct reactor *r, unsigned n)
{
	struct fiber *f = TAILQ_FIRST(&r->idle);

	while (n--)
		f = TAILQ_NEXT(f, link);
	TAILQ_REMOVE(&r->idle, f, link);
	fiber_make_ready(f);
}

static void pass_time(struct reactor *r)
{
	sim.now_ns = max_u64(sim.now_ns, r->heap[1]->expires_ns);
	r->now_ns = sim.now_ns;
	timers_expire(r);
}

/* The index of the ready fiber that runs next; what is chosen to happen before has happened. */
unsigned sim_explore_pick(struct reactor *r)
{
	for (;;) {
		unsigned idle = count_idle(r), events = count_events(), endings = events + count_refusals();
		unsigned choice = sim.explorer.choose(r->ready_count + idle + endings + (r->heap_len > 0));

		if (choice < r->ready_count)
			return choice;
		choice -= r->ready_count;
		if (choice < idle) {
			make_idle_ready(r, choice);
			return r->ready_count - 1;
		}
		choice -= idle;
		if (choice < endings)
			deliver_nth(choice, events);
		else
			pass_time(r);
	}
}

/* No fiber is ready. timeout_ns 0: if nothing is delivered, the reactor has something else to go on with. */
void sim_explore_poll(struct reactor *r, uint64_t timeout_ns)
{
	unsigned events = count_events(), endings = events + count_refusals(), others = timeout_ns == 0 || r->heap_len;
	unsigned choice;

	if (endings + others == 0)
		sim_panic("deadlock: nothing runs, nothing is under way, no timer");
	choice = sim.explorer.choose(endings + others);
	if (choice < endings)
		deliver_nth(choice, events);
	else if (timeout_ns)
		pass_time(r);
}

void sim_explore(const struct sim_explorer *x)
{
	sim.explorer = *x;
	sim.config.latency_ns_max = 0;
}

void sim_survivors(uint64_t number, void (*fn)(void *arg, const struct sim_survivor *s), void *arg)
{
	const struct disk_file *f = disk_find(&sim.disk, number);
	struct disk_file *copy;
	struct disk disk;

	if (!f)
		return;
	copy = disk_copy(f, &disk);
	sim_file_land(f, copy);
	disk_survivors(copy, fn, arg);
	disk_copy_fini(copy);
}

uint64_t sim_state_hash(void)
{
	return sim_hash_word(sim_hash_word(disk_hash(&sim.disk), sim_file_hash()), sim.explorer.refusals);
}

unsigned sim_refused(void)
{
	return sim.refused;
}

void sim_end_refusals(void)
{
	sim.explorer.refusals = 0;
}
