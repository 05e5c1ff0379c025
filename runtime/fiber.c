/*
 * runtime/fiber.c - fibers: stacks, the switch, and everything that tools must be told about it.
 *
 * The switch is Boost.Context's C entry points; what a context pointer means is theirs. The loop's side of it is fiber_run(), the fiber's is
 * switch_to_loop(); fibers never switch to each other. A context is made anew for each spawn, at the top of the slot's stack (moved down by a few cache
 * lines per slot, or all hot frames would fall into the same sets of the cache).
 *
 * Lifetimes: stacks and structs are mapped at reactor start and stay until its end. A slot is free, or its fiber is in exactly one of: the ready, yielded or
 * idle queue, running, or parked (then whoever will wake it, or its timer, knows it).
 *
 * Sanitizers: AddressSanitizer hears of both halves of each switch (with no fake stack to keep at a fiber's end), ThreadSanitizer gets one of its
 * fibers per life, Valgrind the stacks. All of that is in this file.
 */
#include "runtime/fiber.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/clock.h"
#include "runtime/counter.h"
#include "runtime/fault.h"
#include "runtime/internal.h"
#include "runtime/log.h"

#if defined(__SANITIZE_ADDRESS__)
#define HAVE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAVE_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define HAVE_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HAVE_TSAN 1
#endif
#endif

struct transfer {
	void *context;
	void *data;
};

extern struct transfer jump_fcontext(void *to, void *data);
extern void *make_fcontext(void *top, size_t size, void (*fn)(struct transfer));

enum {
	STACK_COLOUR_BYTES = 128,
	STACK_COLOURS = 16,
	STACK_POISON = 0xa5,
	MAPS_SPARE = 4096, /* mappings left to everything else in the process */
};
static const uint64_t slice_limit_ns = 500000;

COUNTER_DEFINE(slices_long, "runtime.slices.long");
COUNTER_DEFINE(slots_exhausted, "runtime.fibers.exhausted");

__thread struct reactor *reactor_here;

#ifdef HAVE_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>

static void asan_to_fiber(struct reactor *r, struct fiber *f)
{
	__sanitizer_start_switch_fiber(&r->fake_stack, f->stack, r->stack_bytes);
}

static void asan_back_on_loop(struct reactor *r)
{
	__sanitizer_finish_switch_fiber(r->fake_stack, NULL, NULL);
}

static void asan_to_loop(struct fiber *f, bool for_ever)
{
	struct reactor *r = f->reactor;

	__sanitizer_start_switch_fiber(for_ever ? NULL : &f->fake_stack, r->thread_stack, r->thread_stack_bytes);
}

static void asan_back_on_fiber(struct fiber *f)
{
	__sanitizer_finish_switch_fiber(f->fake_stack, &f->reactor->thread_stack, &f->reactor->thread_stack_bytes);
}

/* Frames that were never returned from leave their red zones behind. */
static void asan_clean_stack(struct fiber *f)
{
	__asan_unpoison_memory_region(f->stack, f->reactor->stack_bytes);
}
#else
static void asan_to_fiber(struct reactor *r, struct fiber *f) { }
static void asan_back_on_loop(struct reactor *r) { }
static void asan_to_loop(struct fiber *f, bool for_ever) { }
static void asan_back_on_fiber(struct fiber *f) { }
static void asan_clean_stack(struct fiber *f) { }
#endif

#ifdef HAVE_TSAN
#include <sanitizer/tsan_interface.h>

static void tsan_enter_thread(struct reactor *r) { r->tsan = __tsan_get_current_fiber(); }
static void tsan_born(struct fiber *f) { f->tsan = __tsan_create_fiber(0); }
static void tsan_dead(struct fiber *f) { __tsan_destroy_fiber(f->tsan); }
static void tsan_to_fiber(struct fiber *f) { __tsan_switch_to_fiber(f->tsan, 0); }
static void tsan_to_loop(struct reactor *r) { __tsan_switch_to_fiber(r->tsan, 0); }
#else
static void tsan_enter_thread(struct reactor *r) { }
static void tsan_born(struct fiber *f) { }
static void tsan_dead(struct fiber *f) { }
static void tsan_to_fiber(struct fiber *f) { }
static void tsan_to_loop(struct reactor *r) { }
#endif

#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>

static void valgrind_register(struct fiber *f)
{
	(void)VALGRIND_STACK_REGISTER(f->stack, f->stack + f->reactor->stack_bytes);
}
#else
static void valgrind_register(struct fiber *f) { }
#endif

/* The dump's fields: relaxed, for it takes what it gets. */
#define SHOW(field, value) atomic_store_explicit(&(field), (value), memory_order_relaxed)
#define LOOK(field) atomic_load_explicit(&(field), memory_order_relaxed)

/* Loop's side. */

static void recycle(struct reactor *r, struct fiber *f)
{
	tsan_dead(f);
	asan_clean_stack(f);
	SHOW(f->state, FIBER_FREE);
	TAILQ_INSERT_HEAD(&r->free, f, link);
	r->free_count++;
}

void fiber_run(struct reactor *r, struct fiber *f)
{
	struct transfer t;

	ASSERT(LOOK(f->state) == FIBER_READY);
	SHOW(f->state, FIBER_RUNNING);
	r->current = f;
	r->switches++;
	asan_to_fiber(r, f);
	tsan_to_fiber(f);
	t = jump_fcontext(f->context, f);
	asan_back_on_loop(r);
	f->context = t.context;
	r->current = NULL;
	if (LOOK(f->state) == FIBER_ENDED)
		recycle(r, f);
}

void fiber_make_ready(struct fiber *f)
{
	struct reactor *r = f->reactor;

	SHOW(f->state, FIBER_READY);
	TAILQ_INSERT_TAIL(&r->ready, f, link);
	r->ready_count++;
}

/* Fiber's side. */

static inline __attribute__((always_inline)) void switch_to_loop(struct fiber *f)
{
	struct transfer t;

	ASSERT(leaf_locks_held == 0);
	asan_to_loop(f, false);
	tsan_to_loop(f->reactor);
	t = jump_fcontext(f->reactor->context, NULL);
	asan_back_on_fiber(f);
	f->reactor->context = t.context;
}

static _Noreturn void end(struct fiber *f)
{
	ASSERT(leaf_locks_held == 0);
	SHOW(f->state, FIBER_ENDED);
	asan_to_loop(f, true);
	tsan_to_loop(f->reactor);
	jump_fcontext(f->reactor->context, NULL);
	abort();
}

_Noreturn void fiber_vanish(void)
{
	end(fiber_self());
}

static void fiber_entry(struct transfer t)
{
	struct fiber *f = t.data;

	f->fake_stack = NULL;
	asan_back_on_fiber(f);
	f->reactor->context = t.context;
	f->fn(f->arg);
	ASSERT(f->locks_held == 0);
	end(f);
}

static void deliver_wake(struct reactor_post *post)
{
	fiber_unpark(container_of(post, struct fiber, wake));
}

static void timed_out(struct timer *timer)
{
	struct fiber *f = container_of(timer, struct fiber, timer);

	f->wake_result = -ETIMEDOUT;
	fiber_make_ready(f);
}

static void *stack_top(struct fiber *f)
{
	return f->stack + f->reactor->stack_bytes - (f->slot % STACK_COLOURS) * STACK_COLOUR_BYTES;
}

int fiber_spawn(fiber_main *fn, void *arg, const char *what)
{
	struct reactor *r = reactor_here;
	struct fiber *f;

	ASSERT(r);
	f = TAILQ_FIRST(&r->free);
	if (!f || fault_hit(FAULT_FIBER_SPAWN)) {
		counter_add(&slots_exhausted, 1);
		return -EAGAIN;
	}
	TAILQ_REMOVE(&r->free, f, link);
	r->free_count--;
	f->fn = fn;
	f->arg = arg;
	f->wake_result = 0;
	f->locks_held = 0;
	f->context = make_fcontext(stack_top(f), r->stack_bytes - STACK_COLOURS * STACK_COLOUR_BYTES, fiber_entry);
	SHOW(f->what, what);
	SHOW(f->why, "new");
	SHOW(f->where, NULL);
	SHOW(f->tag, 0);
	SHOW(f->since_ns, r->now_ns);
	tsan_born(f);
	fiber_make_ready(f);
	return 0;
}

struct fiber *fiber_self(void)
{
	return reactor_here ? reactor_here->current : NULL;
}

unsigned fiber_slots_free(void)
{
	ASSERT(reactor_here);
	return reactor_here->free_count;
}

static void yield_to(struct fiber_queue *queue, const char *why)
{
	struct fiber *f = fiber_self();

	ASSERT(f);
	SHOW(f->state, FIBER_READY);
	SHOW(f->why, why);
	SHOW(f->since_ns, f->reactor->now_ns);
	TAILQ_INSERT_TAIL(queue, f, link);
	switch_to_loop(f);
}

void fiber_yield(void)
{
	ASSERT(reactor_here);
	yield_to(&reactor_here->yielded, "yield");
}

void fiber_yield_idle(void)
{
	ASSERT(reactor_here);
	yield_to(&reactor_here->idle, "yield idle");
}

/*
 * Inline, for each return after a switch is mispredicted: the processor's stack of return addresses is another fiber's.
 */
static inline __attribute__((always_inline)) int park(const char *why, const void *where, uint64_t deadline_ns)
{
	struct fiber *f = fiber_self();
	int result;

	ASSERT(f);
	SHOW(f->state, FIBER_PARKED);
	SHOW(f->why, why);
	SHOW(f->where, where);
	SHOW(f->since_ns, f->reactor->now_ns);
	if (deadline_ns != UINT64_MAX)
		timer_arm(&f->timer, deadline_ns);
	switch_to_loop(f);
	result = f->wake_result;
	f->wake_result = 0;
	return result;
}

void fiber_park(const char *why, const void *where)
{
	int result = park(why, where, UINT64_MAX);

	ASSERT(result == 0);
}

int fiber_park_until(const char *why, const void *where, uint64_t deadline_ns)
{
	return park(why, where, deadline_ns);
}

void fiber_unpark(struct fiber *f)
{
	if (f->reactor != reactor_here) {
		reactor_push(f->reactor, &f->wake);
		return;
	}
	/* Its time was up in this same turn and it has not run yet: the unpark came in time after all. */
	if (LOOK(f->state) == FIBER_READY && f->wake_result == -ETIMEDOUT) {
		f->wake_result = 0;
		return;
	}
	ASSERT(LOOK(f->state) == FIBER_PARKED);
	if (f->timer.heap_index)
		timer_disarm(&f->timer);
	fiber_make_ready(f);
}

void fiber_sleep_ns(uint64_t ns)
{
	int result = fiber_park_until("sleep", NULL, clock_mono_ns() + ns);

	ASSERT(result == -ETIMEDOUT);
}

void fiber_breathe(void)
{
	struct fiber *f = fiber_self();
	uint64_t now = clock_mono_ns();

	ASSERT(f);
	if (f->slice != f->reactor->switches) {
		f->slice = f->reactor->switches;
		f->slice_began_ns = now;
		return;
	}
	if (now - f->slice_began_ns < slice_limit_ns)
		return;
	counter_add(&slices_long, 1);
	fiber_yield();
}

void fiber_set_tag(uint64_t tag, const char *what)
{
	struct fiber *f = fiber_self();

	ASSERT(f);
	SHOW(f->tag, tag);
	SHOW(f->what, what);
}

/* Stacks. */

static unsigned map_count_max(void)
{
	unsigned max = 65530;
	FILE *in = fopen("/proc/sys/vm/max_map_count", "re");

	if (!in)
		return max;
	if (fscanf(in, "%u", &max) != 1)
		max = 65530;
	fclose(in);
	return max;
}

int fibers_check_limit(unsigned fibers)
{
	unsigned max = map_count_max();

	if (2 * (uint64_t)fibers + MAPS_SPARE <= max)
		return 0;
	log_write(LOG_LEVEL_ERROR, "%u fibers need %" PRIu64 " mappings, but vm.max_map_count is %u", fibers, 2 * (uint64_t)fibers + MAPS_SPARE, max);
	return -ENOMEM;
}

static int map_stacks(struct reactor *r)
{
	size_t stride = r->stack_bytes + PAGE_BYTES;
	uint8_t *mem;

	r->stacks_bytes = stride * r->fiber_count;
	mem = mmap(NULL, r->stacks_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
	if (mem == MAP_FAILED)
		return -errno;
	r->stacks = mem;
	for (unsigned i = 0; i < r->fiber_count; i++)
		if (mprotect(mem + i * stride + PAGE_BYTES, r->stack_bytes, PROT_READ | PROT_WRITE))
			return -errno;
	return 0;
}

static void init_slot(struct reactor *r, unsigned slot)
{
	struct fiber *f = &r->fibers[slot];

	f->reactor = r;
	f->slot = slot;
	f->stack = r->stacks + slot * (r->stack_bytes + PAGE_BYTES) + PAGE_BYTES;
	f->timer.fn = timed_out;
	f->wake.fn = deliver_wake;
	valgrind_register(f);
	if (r->stack_poison)
		memset(f->stack, STACK_POISON, r->stack_bytes);
	TAILQ_INSERT_TAIL(&r->free, f, link);
}

int fibers_init(struct reactor *r)
{
	int err;

	TAILQ_INIT(&r->free);
	TAILQ_INIT(&r->ready);
	TAILQ_INIT(&r->yielded);
	TAILQ_INIT(&r->idle);
	r->fibers = calloc(r->fiber_count, sizeof(*r->fibers));
	if (!r->fibers)
		return -ENOMEM;
	r->free_count = r->fiber_count;
	err = map_stacks(r);
	if (err) {
		fibers_fini(r);
		return err;
	}
	for (unsigned i = 0; i < r->fiber_count; i++)
		init_slot(r, i);
	return 0;
}

void fibers_fini(struct reactor *r)
{
	ASSERT(r->free_count == r->fiber_count);
	if (r->stacks)
		munmap(r->stacks, r->stacks_bytes);
	free(r->fibers);
}

void fibers_enter_thread(struct reactor *r)
{
	tsan_enter_thread(r);
}

void fibers_abandon(struct reactor *r)
{
	for (unsigned i = 0; i < r->fiber_count; i++) {
		struct fiber *f = &r->fibers[i];

		if (LOOK(f->state) != FIBER_FREE)
			recycle(r, f);
	}
	TAILQ_INIT(&r->ready);
	TAILQ_INIT(&r->yielded);
	TAILQ_INIT(&r->idle);
	r->ready_count = 0;
}

static size_t used_bytes(const struct fiber *f)
{
	size_t left = 0;

	while (left < f->reactor->stack_bytes && f->stack[left] == STACK_POISON)
		left++;
	return f->reactor->stack_bytes - left;
}

size_t fiber_stack_high_water(void)
{
	struct reactor *r = reactor_here;
	size_t most = 0;

	ASSERT(r);
	if (!r->stack_poison)
		return 0;
	for (unsigned i = 0; i < r->fiber_count; i++)
		most = max_u64(most, used_bytes(&r->fibers[i]));
	return most;
}

static void dump_fiber(FILE *out, const struct fiber *f, uint64_t now)
{
	static const char *const states[] = { "free", "ready", "running", "parked", "ended" };
	enum fiber_state state = LOOK(f->state);
	uint64_t since = LOOK(f->since_ns);

	if (state == FIBER_FREE)
		return;
	fprintf(out, "%u %u %s %016" PRIx64 " %s \"%s\" %p %" PRIu64 "ms\n", f->reactor->index, f->slot, states[state], LOOK(f->tag), LOOK(f->what),
	        LOOK(f->why), LOOK(f->where), (now > since ? now - since : 0) / 1000000);
}

void fiber_dump(FILE *out)
{
	uint64_t now = clock_mono_ns();

	for (unsigned i = 0; i < reactor_count(); i++) {
		struct reactor *r = reactor_by_index(i);

		for (unsigned j = 0; j < r->fiber_count; j++)
			dump_fiber(out, &r->fibers[j], now);
	}
}
