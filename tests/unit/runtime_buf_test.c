/* Buffers: alignment, slack, the budget, references over threads, waiting. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/buf.h"
#include "runtime/clock.h"
#include "runtime/counter.h"
#include "runtime/fault.h"
#include "tests/unit/runtime_harness.h"

static const size_t MIB = 1 << 20;

Test(buf, classes_are_aligned_and_waste_at_most_a_fifth)
{
	cr_assert_eq(buf_init(64 * MIB), 0);
	for (size_t len = 0; len < 12 * MIB; len += len / 16 + 1000) {
		struct buf *b = buf_alloc(len);

		cr_assert_not_null(b);
		cr_assert_eq((uintptr_t)b->data % PAGE_BYTES, 0);
		cr_assert_eq(b->capacity % PAGE_BYTES, 0);
		cr_assert_geq(b->capacity, len);
		cr_assert_leq(b->capacity - b->capacity / 5, align_up(len ? len : 1, PAGE_BYTES), "len %zu capacity %zu", len, b->capacity);
		b->data[0] = 1;
		b->data[b->capacity - 1] = 1;
		buf_put(b);
	}
	cr_assert_eq(buf_bytes_in_use(), 0);
	buf_fini();
}

Test(buf, the_budget_is_a_bound)
{
	struct buf *held[8], *b;

	cr_assert_eq(buf_init(8 * MIB), 0);
	for (unsigned i = 0; i < 8; i++)
		cr_assert_not_null(held[i] = buf_alloc(MIB));
	cr_assert_eq(buf_bytes_in_use(), 8 * MIB);
	cr_assert_null(buf_alloc(1));
	cr_assert_null(buf_alloc(SIZE_MAX));
	cr_assert_eq(counter_value("buf.refused"), 2);
	/* What one size gave back serves another. */
	buf_put(held[3]);
	cr_assert_not_null(b = buf_alloc(1));
	cr_assert_null(buf_alloc(MIB));
	buf_put(b);
	cr_assert_not_null(held[3] = buf_alloc(MIB));
	for (unsigned i = 0; i < 8; i++)
		buf_put(held[i]);
	buf_fini();
}

Test(buf, is_reused)
{
	struct buf *b;

	cr_assert_eq(buf_init(8 * MIB), 0);
	for (unsigned i = 0; i < 100; i++) {
		b = buf_alloc(50000);
		buf_put(b);
	}
	cr_assert_eq(counter_value("buf.mapped_fresh"), 1);
	buf_fini();
}

Test(buf, references_count)
{
	struct buf *b;

	cr_assert_eq(buf_init(8 * MIB), 0);
	b = buf_alloc(1);
	cr_assert(buf_is_exclusive(b));
	cr_assert_eq(buf_get(b), b);
	cr_assert_not(buf_is_exclusive(b));
	buf_put(b);
	cr_assert(buf_is_exclusive(b));
	cr_assert_eq(buf_bytes_in_use(), PAGE_BYTES);
	buf_put(b);
	cr_assert_eq(buf_bytes_in_use(), 0);
	buf_fini();
}

Test(buf, has_a_fault_point)
{
	cr_assert_eq(buf_init(8 * MIB), 0);
	fault_arm(FAULT_BUF_ALLOC, ENOMEM, 0, 1);
	cr_assert_null(buf_alloc(1));
	buf_put(buf_alloc(1));
	buf_fini();
}

/* Threads and reactors allocate, share and put; the budget is far too small for all at once, so waiting happens throughout. */
enum { WORKERS = 12, ROUNDS = 200 };
static _Atomic unsigned left;

static void worker(void *arg)
{
	unsigned seed = (uintptr_t)arg;

	for (unsigned i = 0; i < ROUNDS; i++) {
		size_t len = 1 + rand_r(&seed) % (200 << 10);
		struct buf *b;

		while (!(b = buf_alloc(len))) {
			int err = buf_wait(len, clock_mono_ns() + 5000000000);

			ASSERT(err == 0);
		}
		memset(b->data, i, 64);
		fiber_yield();
		buf_put(b);
	}
	if (--left == 0)
		runtime_stop();
}

static void workers_start(void *arg, unsigned index)
{
	for (unsigned i = 0; i < WORKERS; i++)
		ASSERT(fiber_spawn(worker, (void *)(uintptr_t)(index * WORKERS + i + 1), "worker") == 0);
}

Test(buf, waiters_get_memory_across_reactors)
{
	const struct reactor_config config = { .reactors = 2, .fibers = 32 };

	left = 2 * WORKERS;
	cr_assert_eq(buf_init(MIB), 0);
	harness_run(&config, workers_start, NULL);
	cr_assert_gt(counter_value("buf.waits"), 0);
	buf_fini();
}

static void wait_in_vain(void)
{
	struct buf *b = buf_alloc(MIB);

	ASSERT(buf_wait(MIB, clock_mono_ns() + 1000000) == -ETIMEDOUT);
	ASSERT(buf_wait(2 * MIB, UINT64_MAX) == -ENOMEM);
	buf_put(b);
	ASSERT(buf_wait(MIB, UINT64_MAX) == 0);
}

Test(buf, waiting_ends_at_its_deadline)
{
	cr_assert_eq(buf_init(MIB), 0);
	harness_run_one(0, wait_in_vain);
	buf_fini();
}
