/* Buffers: alignment, slack, chunks and how they fill, the budget, references over threads, waiting. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "runtime/buf.h"
#include "runtime/clock.h"
#include "runtime/counter.h"
#include "runtime/fault.h"
#include "tests/unit/runtime_harness.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>

static int is_poisoned(const void *p) { return __asan_address_is_poisoned(p); }
#else
static int is_poisoned(const void *p) { return -1; }
#endif

static const size_t MIB = 1 << 20;
enum { RECORD = 47008, RECORDS = 85 /* in a chunk */, HUGE_BYTES = 2 << 20 };

static void alloc_all(struct buf **held, unsigned count, size_t len)
{
	for (unsigned i = 0; i < count; i++) {
		held[i] = buf_alloc(len);
		cr_assert_not_null(held[i], "%u of %u", i, count);
	}
	buf_check();
}

static void put_all(struct buf **held, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		buf_put(held[i]);
	buf_check();
}

/* The line of /proc/self/smaps that starts with `key`, of the mapping that holds p. False: there is none. */
static bool smaps_line(const void *p, const char *key, char *line, int bytes)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	unsigned long start, end;
	bool here = false, found = false;

	cr_assert_not_null(f);
	while (!found && fgets(line, bytes, f)) {
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			here = (uintptr_t)p >= start && (uintptr_t)p < end;
		else
			found = here && strncmp(line, key, strlen(key)) == 0;
	}
	fclose(f);
	return found;
}

static size_t resident_bytes(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	unsigned long size, resident;

	cr_assert_not_null(f);
	cr_assert_eq(fscanf(f, "%lu %lu", &size, &resident), 2);
	fclose(f);
	return resident * PAGE_BYTES;
}

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

Test(buf, records_fill_a_chunk_of_huge_pages)
{
	struct buf *held[RECORDS + 1];
	char line[256];

	cr_assert_eq(buf_init(64 * MIB), 0);
	alloc_all(held, RECORDS, RECORD);
	cr_assert_eq(counter_value("buf.mapped_fresh"), 1);
	cr_assert_eq((uintptr_t)held[0]->data % HUGE_BYTES, 0);
	for (unsigned i = 1; i < RECORDS; i++)
		cr_assert_eq(held[i]->data, held[i - 1]->data + held[0]->capacity);
	held[RECORDS] = buf_alloc(RECORD);
	cr_assert_eq(counter_value("buf.mapped_fresh"), 2);
	if (access("/sys/kernel/mm/transparent_hugepage/enabled", F_OK) != 0)
		cr_skip_test("this kernel has no transparent huge pages");
	cr_assert(smaps_line(held[0]->data, "VmFlags:", line, sizeof(line)));
	cr_assert_not_null(strstr(line, " hg"), "%s", line);
	put_all(held, RECORDS + 1);
	buf_fini();
}

Test(buf, works_without_huge_pages)
{
	struct buf *held[RECORDS];

	cr_assert_eq(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0), 0);
	cr_assert_eq(buf_init(64 * MIB), 0);
	alloc_all(held, RECORDS, RECORD);
	for (unsigned i = 0; i < RECORDS; i++)
		memset(held[i]->data, i, held[i]->capacity);
	for (unsigned i = 0; i < RECORDS; i++)
		cr_assert_eq(held[i]->data[held[i]->capacity - 1], i);
	put_all(held, RECORDS);
	buf_fini();
}

Test(buf, a_mebibyte_and_a_page_comes_thrice_to_a_chunk)
{
	struct buf *held[6];

	cr_assert_eq(buf_init(64 * MIB), 0);
	alloc_all(held, 6, MIB + PAGE_BYTES);
	cr_assert_eq(counter_value("buf.mapped_fresh"), 2);
	put_all(held, 6);
	buf_fini();
}

Test(buf, an_empty_chunk_serves_another_class)
{
	struct buf *held[2];

	cr_assert_eq(buf_init(64 * MIB), 0);
	for (size_t len = 1; len <= 2 * MIB; len *= 2)
		buf_put(buf_alloc(len));
	cr_assert_eq(counter_value("buf.mapped_fresh"), 1);
	/* Not one in use. */
	held[0] = buf_alloc(1);
	held[1] = buf_alloc(MIB);
	cr_assert_eq(counter_value("buf.mapped_fresh"), 2);
	put_all(held, 2);
	/* A class that comes back finds its own. */
	held[0] = buf_alloc(1);
	held[1] = buf_alloc(MIB);
	cr_assert_eq(counter_value("buf.mapped_fresh"), 2);
	put_all(held, 2);
	buf_fini();
}

Test(buf, the_last_put_is_the_first_given_and_chunks_fill_up)
{
	struct buf *held[3 * RECORDS], *last;

	cr_assert_eq(buf_init(64 * MIB), 0);
	alloc_all(held, 3 * RECORDS, RECORD);
	/* The first chunk runs empty, the second loses one, the third some. */
	put_all(held, RECORDS);
	buf_put(held[RECORDS]);
	put_all(held + 2 * RECORDS, 10);
	last = held[2 * RECORDS + 9];
	alloc_all(held + 2 * RECORDS, 10, RECORD);
	cr_assert_eq(held[2 * RECORDS], last);
	last = held[RECORDS];
	held[RECORDS] = buf_alloc(RECORD);
	cr_assert_eq(held[RECORDS], last, "neither chunk in use has another free");
	/* The first is empty: a buf of another class fits. */
	held[0] = buf_alloc(2 * MIB);
	cr_assert_eq(counter_value("buf.mapped_fresh"), 3);
	buf_put(held[0]);
	put_all(held + RECORDS, 2 * RECORDS);
	buf_fini();
}

Test(buf, memory_goes_back_to_the_kernel)
{
	struct buf *held[60];
	size_t before, full;

	cr_assert_eq(buf_init(64 * MIB), 0);
	before = resident_bytes();
	alloc_all(held, 60, MIB);
	for (unsigned i = 0; i < 60; i++)
		memset(held[i]->data, i, MIB);
	full = resident_bytes();
	cr_assert_geq(full, before + 50 * MIB);
	put_all(held, 60);
	cr_assert_eq(counter_value("buf.mapped_fresh") - counter_value("buf.unmapped"), 4, "a quarter stays");
	cr_assert_leq(resident_bytes(), full - 40 * MIB);
	/* What would be more than that by itself does not stay at all. */
	buf_put(buf_alloc(20 * MIB));
	cr_assert_eq(counter_value("buf.mapped_fresh"), counter_value("buf.unmapped"));
	buf_fini();
}

Test(buf, empty_chunks_make_room_for_large_bufs_and_back)
{
	struct buf *held[64], *large;

	cr_assert_eq(buf_init(64 * MIB), 0);
	for (unsigned i = 0; i < 3; i++) {
		alloc_all(held, 64, MIB);
		cr_assert_null(buf_alloc(1));
		put_all(held, 64);
		cr_assert_not_null(large = buf_alloc(64 * MIB));
		cr_assert_null(buf_alloc(1));
		buf_put(large);
		buf_check();
	}
	buf_fini();
}

Test(buf, a_larger_buf_serves_when_memory_is_short)
{
	struct buf *held[64];

	cr_assert_eq(buf_init(64 * MIB), 0);
	alloc_all(held, 64, MIB);
	buf_put(held[5]);
	cr_assert_not_null(held[5] = buf_alloc(1));
	cr_assert_eq(held[5]->capacity, MIB);
	cr_assert_null(buf_alloc(1));
	put_all(held, 64);
	buf_fini();
}

Test(buf, tiny_budgets_work)
{
	for (size_t budget = PAGE_BYTES; budget <= MIB; budget *= 2) {
		struct buf *held[257];
		unsigned count = 0;

		cr_assert_eq(buf_init(budget), 0);
		while ((held[count] = buf_alloc(PAGE_BYTES)))
			cr_assert_lt(++count, ARRAY_SIZE(held));
		cr_assert_eq(count, budget / PAGE_BYTES);
		put_all(held, count);
		cr_assert_not_null(held[0] = buf_alloc(budget));
		cr_assert_null(buf_alloc(1));
		put_all(held, 1);
		buf_fini();
	}
}

Test(buf, is_poisoned_while_free)
{
	struct buf *b = NULL;
	uint8_t *data;

	if (is_poisoned(&b) < 0)
		cr_skip_test("not built with AddressSanitizer");
	cr_assert_eq(buf_init(64 * MIB), 0);
	b = buf_alloc(RECORD);
	data = b->data;
	cr_assert_not(is_poisoned(data));
	cr_assert_not(is_poisoned(data + b->capacity - 1));
	cr_assert(is_poisoned(data + b->capacity), "the next one");
	buf_put(b);
	cr_assert(is_poisoned(data));
	cr_assert(is_poisoned(data + RECORD));
	buf_fini();
	cr_assert_not(is_poisoned(data), "whoever gets the addresses next");
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

/* Each chunk keeps one page in use: little memory is, yet nothing larger than what is left of the chunks can be had. */
static void wait_for_a_chunk(void)
{
	enum { PAGES = 256, IN_CHUNK = 16 };
	struct buf *held[PAGES];

	for (unsigned i = 0; i < PAGES; i++)
		ASSERT((held[i] = buf_alloc(1)) != NULL);
	for (unsigned i = 0; i < PAGES; i++)
		if (i % IN_CHUNK)
			buf_put(held[i]);
	ASSERT(buf_bytes_in_use() == MIB / IN_CHUNK);
	ASSERT(buf_alloc(3 * PAGE_BYTES) == NULL);
	ASSERT(buf_wait(3 * PAGE_BYTES, clock_mono_ns() + 1000000) == -ETIMEDOUT);
	ASSERT(buf_wait(IN_CHUNK * PAGE_BYTES, clock_mono_ns() + 1000000) == -ETIMEDOUT);
	ASSERT(buf_wait(1, UINT64_MAX) == 0);
	buf_put(held[3 * IN_CHUNK]);
	ASSERT(buf_wait(IN_CHUNK * PAGE_BYTES, UINT64_MAX) == 0);
	ASSERT((held[3 * IN_CHUNK] = buf_alloc(IN_CHUNK * PAGE_BYTES)) != NULL);
	for (unsigned i = 0; i < PAGES; i += IN_CHUNK)
		buf_put(held[i]);
}

Test(buf, waiting_knows_chunks)
{
	cr_assert_eq(buf_init(MIB), 0);
	harness_run_one(0, wait_for_a_chunk);
	buf_fini();
}

/*
 * Threads that are no reactors allocate, write marks at both ends, and swap the buf into a slot that all share; whoever takes it out looks at the marks
 * and puts it. Bufs that overlap, or that are given twice, lose a mark.
 */
enum { STRESS_THREADS = 4, STRESS_SLOTS = 64, STRESS_ROUNDS = 20000 };
static _Atomic(struct buf *) slots[STRESS_SLOTS];

static uint64_t *tail_mark(const struct buf *b)
{
	return (uint64_t *)(b->data + b->capacity) - 1;
}

static void mark(struct buf *b, uint64_t value)
{
	*(uint64_t *)b->data = value;
	*tail_mark(b) = ~value;
}

static void check_and_put(struct buf *b)
{
	if (!b)
		return;
	ASSERT(*(uint64_t *)b->data == ~*tail_mark(b));
	ASSERT(buf_is_exclusive(b));
	buf_put(b);
}

/* Mostly small ones, pages and records, seldom more than half a chunk. */
static size_t random_len(unsigned *seed)
{
	unsigned most = 1u << (10 + rand_r(seed) % 13);

	return rand_r(seed) % 2 ? (size_t)RECORD : 1 + (size_t)rand_r(seed) % most;
}

static void *stress(void *arg)
{
	unsigned seed = (uintptr_t)arg;

	for (uint64_t i = 0; i < STRESS_ROUNDS; i++) {
		size_t len = random_len(&seed);
		struct buf *b = buf_alloc(len);

		if (b) {
			ASSERT(b->capacity >= len);
			mark(b, (uintptr_t)arg << 32 | i);
		}
		check_and_put(atomic_exchange(&slots[rand_r(&seed) % STRESS_SLOTS], b));
		if (i % 1000 == 0)
			buf_check();
	}
	return NULL;
}

static void stress_with(size_t budget)
{
	pthread_t thread[STRESS_THREADS];

	cr_assert_eq(buf_init(budget), 0);
	for (uintptr_t i = 0; i < STRESS_THREADS; i++)
		cr_assert_eq(pthread_create(&thread[i], NULL, stress, (void *)(i + 1)), 0);
	for (unsigned i = 0; i < STRESS_THREADS; i++)
		pthread_join(thread[i], NULL);
	for (unsigned i = 0; i < STRESS_SLOTS; i++)
		check_and_put(atomic_exchange(&slots[i], NULL));
	buf_check();
	cr_assert_eq(buf_bytes_in_use(), 0);
	buf_fini();
}

Test(buf, random_threads_with_little_memory)
{
	stress_with(3 * MIB);
	cr_assert_gt(counter_value("buf.refused"), 0);
}

Test(buf, random_threads_with_enough_memory)
{
	stress_with(64 * MIB);
	cr_assert_gt(counter_value("buf.mapped_fresh"), 1);
}
