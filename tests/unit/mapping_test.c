/*
 * tests/unit/mapping_test.c - the cache's behaviours one by one, on the simulated disk, by counting what reaches it. Each test names the lines of the write
 * path's requirements that it holds (section.line).
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "iocache/mapping.h"
#include "runtime/buf.h"
#include "runtime/clock.h"
#include "runtime/counter.h"
#include "runtime/fault.h"
#include "runtime/fiber.h"
#include "runtime/io.h"
#include "runtime/reactor.h"
#include "runtime/sim.h"

enum { UNIT = 4096 };

static struct mapping *m;
static unsigned lost, running;
static int direct_fd, buffered_fd;

static void data_lost(void *owner)
{
	lost++;
}

static void open_file(void)
{
	struct mapping_config config = { .block = UNIT, .data_lost = data_lost };
	struct statx stx;

	config.direct_fd = direct_fd = sim_open(1, SIM_DIRECT);
	config.buffered_fd = buffered_fd = sim_open(1, 0);
	cr_assert_eq(io_fstatx(buffered_fd, STATX_BASIC_STATS, &stx), 0);
	config.size = stx.stx_size;
	config.ctime = (struct timespec){ stx.stx_ctime.tv_sec, stx.stx_ctime.tv_nsec };
	config.mtime = (struct timespec){ stx.stx_mtime.tv_sec, stx.stx_mtime.tv_nsec };
	m = mapping_create(&config);
}

static void start(void *arg, unsigned index)
{
	void (*test)(void) = arg;

	cache_start();
	open_file();
	test();
	mapping_flush(m);
	mapping_destroy(m);
	runtime_stop();
}

static void run_with(void (*test)(void), const struct cache_config *cache)
{
	struct sim_config sim = { .seed = 7, .block_bytes = UNIT, .mem_align_bytes = 512, .disk_bytes = 64 << 20, .latency_ns_max = 100000 };
	struct reactor_config config = { .reactors = 1, .fibers = 128 };

	sim_init(&sim);
	buf_init(64 << 20);
	cache_init(cache);
	cr_assert_eq(runtime_init(&config), 0);
	cr_assert_eq(runtime_run(start, test), 0);
	runtime_fini();
}

static void run(void (*test)(void))
{
	run_with(test, &(struct cache_config){ 0 });
}

/* ---- doing things ---- */

static bool keep_edges;

static int write_bytes(uint64_t offset, uint32_t len, uint8_t value, bool unstable)
{
	struct buf *b = buf_alloc(len + UNIT);
	struct mapping_payload p = { .buf = b, .data = b->data + offset % UNIT, .len = len, .unstable = unstable, .how = MAPPING_SYNC_FILE, .keep_edges = keep_edges };
	struct mapping_write w;
	int error;

	memset(p.data, value, len);
	error = mapping_write_begin(m, &w, 0, offset, len);
	if (!error) {
		error = mapping_stage(m, &w, &p);
		mapping_write_end(m, &w);
	}
	if (!error && !unstable)
		error = mapping_write_wait(m, &w);
	buf_put(b);
	return error;
}

static int write_unstable(uint64_t offset, uint32_t len, uint8_t value)
{
	return write_bytes(offset, len, value, true);
}

static int write_stable(uint64_t offset, uint32_t len, uint8_t value)
{
	return write_bytes(offset, len, value, false);
}

static void expect_disk(uint64_t offset, uint64_t len, uint8_t value)
{
	uint8_t *got = malloc(len);

	cr_assert_eq(sim_peek(1, got, len, offset), (ssize_t)len);
	for (uint64_t i = 0; i < len; i++)
		cr_assert_eq(got[i], value, "byte %llu is %u, not %u", (unsigned long long)(offset + i), got[i], value);
	free(got);
}

/* What a READ would see of what is in hand: bytes covered. */
static uint64_t in_hand(uint64_t start_at, uint64_t end)
{
	struct mapping_piece piece[64];
	int n = mapping_read_pieces(m, start_at, end, piece, 64);
	uint64_t bytes = 0;

	cr_assert_geq(n, 0);
	for (int i = 0; i < n; i++) {
		bytes += piece[i].end - piece[i].start;
		buf_put(piece[i].buf);
	}
	return bytes;
}

static struct timespec shown_ctime(void)
{
	uint64_t look = mapping_look(m);
	struct mapping_attr attr;
	struct statx stx;

	cr_assert_eq(io_fstatx(buffered_fd, STATX_BASIC_STATS, &stx), 0);
	mapping_attr(m, look, &stx, &attr);
	return attr.ctime;
}

struct job {
	uint64_t offset;
	uint32_t len;
	uint8_t value;
	bool unstable;
	int error;
};

static void job_main(void *arg)
{
	struct job *j = arg;

	j->error = write_bytes(j->offset, j->len, j->value, j->unstable);
	running--;
}

static void run_jobs(struct job *job, unsigned n)
{
	running = n;
	for (unsigned i = 0; i < n; i++)
		cr_assert_eq(fiber_spawn(job_main, &job[i], "writer"), 0);
	while (running)
		fiber_sleep_ns(10000);
}

/* ---- 1.8, 1b.3, 1b.4 ---- */

static void unstable_never_syncs(void)
{
	cr_assert_eq(write_unstable(0, 3 * UNIT, 1), 0);
	cr_assert_eq(counter_value("write.runs"), 0); /* 3.4: answered before its device write */
	cr_assert_eq(counter_value("cache.dirty_bytes"), 3 * UNIT);
	fiber_sleep_ns(10000000);
	cr_assert_eq(counter_value("write.runs"), 1); /* ... which is not left to age */
	cr_assert_eq(sim_stats().fsyncs, 0);
	expect_disk(0, 3 * UNIT, 1);
	cr_assert_eq(in_hand(0, 3 * UNIT), 0);
	cr_assert_eq(counter_value("cache.dirty_bytes"), 0);
}

Test(mapping, unstable_is_written_at_once_and_never_synced) { run(unstable_never_syncs); } /* 1.8, 1b.3, 1b.5, 3.4 */

static void stable_alone(void)
{
	cr_assert_eq(write_stable(0, 2 * UNIT, 1), 0);
	cr_assert_eq(sim_stats().writes, 1);
	cr_assert_eq(sim_stats().fsyncs, 1);
	cr_assert_eq(sim_stats().reads, 0);
	cr_assert_eq(counter_value("cache.kicks"), 0);       /* 1.9, 3.4 */
	cr_assert_eq(write_unstable(0, UNIT, 1), 0);
	cr_assert_eq(counter_value("cache.kicks"), 1);
}

Test(mapping, a_stable_write_on_an_idle_file_is_one_write_and_one_sync) { run(stable_alone); } /* 1.8, 1.9, 1b.4, 3.4 */

static void commit_of_nothing(void)
{
	cr_assert_eq(write_unstable(0, UNIT, 1), 0);
	cr_assert_eq(mapping_commit(m, 0, UINT64_MAX), 0);
	cr_assert_eq(mapping_commit(m, 0, UINT64_MAX), 0);
	cr_assert_eq(sim_stats().fsyncs, 1);
}

Test(mapping, commit_syncs_once) { run(commit_of_nothing); } /* 1.10 */

/* A file leaves the open-file cache when it is idle, written but not synced; the COMMIT that its client sends later finds a new mapping. */
static void commit_after_reopening(void)
{
	cr_assert_eq(write_unstable(0, 2 * UNIT, 1), 0);
	fiber_sleep_ns(10000000);
	cr_assert(mapping_is_idle(m));
	cr_assert_eq(sim_stats().fsyncs, 0);
	mapping_destroy(m);
	open_file();
	cr_assert_eq(mapping_commit(m, 0, UINT64_MAX), 0);
	cr_assert_eq(sim_stats().fsyncs, 1);
	cr_assert_eq(mapping_commit(m, 0, UINT64_MAX), 0);
	cr_assert_eq(sim_stats().fsyncs, 1);
}

Test(mapping, commit_syncs_what_an_earlier_mapping_wrote) { run(commit_after_reopening); }

/* ---- 1b.2, 1b.7, 2.4, section 6: interleaved records ---- */

static void interleaved(uint32_t record, bool unstable)
{
	struct job job[32];
	unsigned rounds = 12;

	for (unsigned r = 0; r < rounds; r++) {
		for (unsigned i = 0; i < ARRAY_SIZE(job); i++)
			job[i] = (struct job){ .offset = (uint64_t)(r * 32 + i) * record, .len = record, .value = (uint8_t)(1 + i), .unstable = unstable };
		run_jobs(job, ARRAY_SIZE(job));
		for (unsigned i = 0; i < ARRAY_SIZE(job); i++)
			cr_assert_eq(job[i].error, 0);
	}
	cr_assert_eq(mapping_commit(m, 0, UINT64_MAX), 0);
	cr_assert_eq(sim_stats().edge_reads, 0);
	cr_assert_eq(sim_stats().reads, 0);
	/* per WRITE: at most 0.2 device writes and 0.1 syncs (measured over the wire too: tests/bench) */
	cr_assert_leq(sim_stats().writes, rounds * 32 / 5, "%llu writes", (unsigned long long)sim_stats().writes);
	cr_assert_leq(sim_stats().fsyncs, rounds * 32 / 10, "%llu syncs", (unsigned long long)sim_stats().fsyncs);
	cr_assert_leq(in_hand(0, (uint64_t)rounds * 32 * record), UNIT); /* 2.8: at most the file's last unit */
	for (unsigned i = 0; i < rounds * 32; i++)
		expect_disk((uint64_t)i * record, record, (uint8_t)(1 + i % 32));
}

static void interleaved_47008_stable(void) { interleaved(47008, false); }
static void interleaved_47008_unstable(void) { interleaved(47008, true); }
static void interleaved_6000_stable(void) { interleaved(6000, false); }
static void interleaved_6000_unstable(void) { interleaved(6000, true); }

Test(mapping, interleaved_records_47008_file_sync) { run(interleaved_47008_stable); } /* 1b.2, 2.4 */
Test(mapping, interleaved_records_47008_unstable) { run(interleaved_47008_unstable); } /* 1b.2 */
Test(mapping, interleaved_records_6000_file_sync) { run(interleaved_6000_stable); } /* 1b.2, 1b.7 */
Test(mapping, interleaved_records_6000_unstable) { run(interleaved_6000_unstable); } /* 1b.2, 2.4 */

/* A record that is ahead of its left neighbour is held back until that has come, and both leave as one run. */
static void held_back(void)
{
	struct job job[4];

	for (unsigned i = 0; i < 3; i++)
		job[i] = (struct job){ .offset = (uint64_t[]){ 0, 2, 3 }[i] * 5000, .len = 5000, .value = (uint8_t)(1 + i) };
	job[3] = (struct job){ .offset = 5000, .len = 5000, .value = 9 };
	running = 4;
	for (unsigned i = 0; i < 3; i++)
		cr_assert_eq(fiber_spawn(job_main, &job[i], "writer"), 0);
	while (running == 4) /* the first is answered */
		fiber_sleep_ns(1000);
	cr_assert_eq(running, 3);
	cr_assert_eq(fiber_spawn(job_main, &job[3], "writer"), 0);
	while (running)
		fiber_sleep_ns(10000);
	cr_assert_geq(counter_value("cache.held_back"), 1);
	cr_assert_eq(counter_value("cache.fills.read"), 0);
	cr_assert_leq(sim_stats().fsyncs, 3);
	expect_disk(0, 5000, 1);
	expect_disk(5000, 5000, 9);
	expect_disk(10000, 5000, 2);
	expect_disk(15000, 5000, 3);
}

Test(mapping, a_record_ahead_of_its_neighbour_is_held_back) { run(held_back); } /* 1b.2 */

/* The same where nobody waits: a record ahead of its neighbour stays for a moment; the neighbour comes, and no edge is filled. */
static void unstable_held_back(void)
{
	cr_assert_eq(write_unstable(0, 5000, 1), 0);
	cr_assert_eq(write_unstable(2 * 5000, 20 * UNIT, 3), 0);
	fiber_sleep_ns(3000000);
	cr_assert_eq(sim_size(1), UNIT); /* the first one's whole unit */
	cr_assert_eq(write_unstable(5000, 5000, 2), 0);
	fiber_sleep_ns(3000000);
	cr_assert_eq(counter_value("cache.fills.zero") + counter_value("cache.fills.read"), 0);
	cr_assert_leq(sim_stats().writes, 3);
	expect_disk(0, 5000, 1);
	expect_disk(5000, 5000, 2);
	expect_disk(10000, 15 * UNIT, 3);
}

Test(mapping, an_unstable_record_ahead_waits_a_moment_for_its_neighbour) { run(unstable_held_back); }

/* A COMMIT does not wait for the neighbour, nor for the WRITEs that are expected to come again. */
static void commit_while_held_back(void)
{
	struct job job[3] = {
		{ .offset = 0, .len = UNIT, .value = 1 }, { .offset = UNIT, .len = UNIT, .value = 2 },
		{ .offset = 100 * UNIT, .len = UNIT, .value = 3, .unstable = true },
	};
	uint64_t began_ns;

	running = 3;
	for (unsigned i = 0; i < 3; i++)
		cr_assert_eq(fiber_spawn(job_main, &job[i], "writer"), 0);
	while (running)
		fiber_sleep_ns(1000);
	cr_assert_eq(sim_size(1), 2 * UNIT);
	began_ns = clock_mono_ns();
	cr_assert_eq(mapping_commit(m, 0, UINT64_MAX), 0);
	cr_assert_leq(clock_mono_ns() - began_ns, 5000000);
	expect_disk(100 * UNIT, UNIT, 3);
}

Test(mapping, a_commit_does_not_wait_for_what_is_held_back) { run(commit_while_held_back); } /* 1b.3 */

/* ... and if nobody comes, it goes. */
static void unstable_region(void)
{
	cr_assert_eq(write_unstable(0, UNIT, 1), 0);
	cr_assert_eq(write_unstable(100 * UNIT, 4 * UNIT, 2), 0);
	fiber_sleep_ns(20000000);
	expect_disk(100 * UNIT, 4 * UNIT, 2);
}

Test(mapping, nobody_ahead_waits_for_long) { run(unstable_region); }

/* First parts of records whose second parts come only when these are answered: holding them back would answer one after the other. */
static void first_parts(void)
{
	struct job job[8];

	for (unsigned i = 0; i < 8; i++)
		job[i] = (struct job){ .offset = i * 12000, .len = 5000, .value = (uint8_t)(1 + i) };
	run_jobs(job, 8);
	cr_assert_eq(counter_value("cache.held_back"), 0);
	cr_assert_leq(sim_stats().fsyncs, 2);
	for (unsigned i = 0; i < 8; i++)
		expect_disk(i * 12000, 5000, (uint8_t)(1 + i));
}

Test(mapping, what_would_hold_back_most_writers_holds_back_none) { run(first_parts); } /* 1b.3 */

/* While a round waits for its fourth writer, what the others brought goes to the device; the sync is one, and waits for all. */
static void early(void)
{
	struct job job[4];
	unsigned syncs;

	for (unsigned i = 0; i < 4; i++)
		job[i] = (struct job){ .offset = i * 5000, .len = 5000, .value = (uint8_t)(1 + i) };
	run_jobs(job, 4); /* now four are expected */
	syncs = sim_stats().fsyncs;
	for (unsigned i = 0; i < 4; i++)
		job[i].offset += 4 * 5000;
	running = 4;
	for (unsigned i = 0; i < 3; i++)
		cr_assert_eq(fiber_spawn(job_main, &job[i], "writer"), 0);
	while (!counter_value("cache.early_runs"))
		fiber_sleep_ns(1000);
	cr_assert_eq(sim_stats().fsyncs, syncs);
	cr_assert_eq(running, 4);
	cr_assert_eq(fiber_spawn(job_main, &job[3], "writer"), 0);
	while (running)
		fiber_sleep_ns(10000);
	cr_assert_eq(sim_stats().fsyncs, syncs + 1);
	cr_assert_eq(sim_stats().edge_reads, 0);
	for (unsigned i = 0; i < 8; i++)
		expect_disk(i * 5000, 5000, (uint8_t)(1 + i % 4));
}

Test(mapping, a_round_that_waits_for_writers_writes_meanwhile) { run_with(early, &(struct cache_config){ .early_bytes = UNIT }); } /* 1b.3 */

/* A writer with a region of its own, far past the end, is answered all the same. */
static void not_for_ever(void)
{
	struct job job[2] = { { .offset = 0, .len = UNIT, .value = 1 }, { .offset = 100 * UNIT, .len = 2 * UNIT, .value = 2 } };

	run_jobs(job, 2);
	cr_assert_eq(job[1].error, 0);
	expect_disk(100 * UNIT, 2 * UNIT, 2);
	expect_disk(UNIT, 99 * UNIT, 0);
}

Test(mapping, holding_back_ends) { run(not_for_ever); } /* 1b.3 */

/* ---- 2.2 - 2.5: edges ---- */

static void half_is_kept(void)
{
	cr_assert_eq(write_stable(0, 8 * UNIT, 9), 0);
	cr_assert_eq(write_stable(UNIT, 1000, 1), 0);
	cr_assert_eq(in_hand(UNIT, 2 * UNIT), UNIT);         /* filled by one read, and kept for its partner */
	cr_assert_eq(sim_stats().edge_reads, 1);
	cr_assert_eq(write_stable(UNIT + 1000, UNIT - 1000, 2), 0);
	cr_assert_eq(in_hand(0, 8 * UNIT), 0);               /* complete: gone with its writeback */
	cr_assert_eq(sim_stats().edge_reads, 1);             /* and no second read */
	expect_disk(UNIT, 1000, 1);
	expect_disk(UNIT + 1000, UNIT - 1000, 2);
}

Test(mapping, the_write_that_completes_an_edge_drops_it) { run(half_is_kept); } /* 2.2 */

static void kept_for_comparison(void)
{
	keep_edges = true;                                   /* 1.11: misaligned_dontcache=no */
	cr_assert_eq(write_stable(0, 1000, 1), 0);
	cr_assert_eq(write_stable(1000, UNIT - 1000, 2), 0);
	cr_assert_eq(in_hand(0, UNIT), UNIT);
	expect_disk(0, 1000, 1);
}

Test(mapping, completed_edges_stay_if_the_export_says_so) { run(kept_for_comparison); } /* 1.11, 2.2 */

static void any_order(void)
{
	/* Four quarters in every order: complete only with the last, never a read, nothing left. */
	for (int a = 0; a < 4; a++)
		for (int b = 0; b < 4; b++)
			for (int c = 0; c < 4; c++)
				for (int order[4] = { a, b, c, 6 - a - b - c }, i = 0; a != b && b != c && a != c && i < 4; i++) {
					cr_assert_eq(write_unstable((uint64_t)order[i] * UNIT / 4, UNIT / 4, (uint8_t)(1 + order[i])), 0);
					cr_assert_eq(counter_value("cache.edges.completed") % 1, 0);
					if (i == 3) {
						fiber_sleep_ns(5000000);
						cr_assert_eq(in_hand(0, UNIT), 0);
					}
				}
	cr_assert_eq(sim_stats().reads, 0);
	cr_assert_eq(counter_value("cache.edges.completed"), 24);
	for (unsigned i = 0; i < 4; i++)
		expect_disk(i * UNIT / 4, UNIT / 4, (uint8_t)(1 + i));
}

Test(mapping, completion_is_by_bytes_in_any_order) { run(any_order); } /* 2.4 */

static void fill_keeps_newer_bytes(void)
{
	cr_assert_eq(write_stable(0, 2 * UNIT, 9), 0);
	struct job job[2] = { { .offset = 100, .len = 50, .value = 1 }, { .offset = 3000, .len = 50, .value = 2, .unstable = true } };
	run_jobs(job, 2);
	cr_assert_eq(mapping_commit(m, 0, UINT64_MAX), 0);
	expect_disk(0, 100, 9);
	expect_disk(100, 50, 1);
	expect_disk(150, 2850, 9);
	expect_disk(3000, 50, 2);
	expect_disk(3050, UNIT - 3050, 9);
}

Test(mapping, a_fill_gives_only_the_missing_bytes) { run(fill_keeps_newer_bytes); } /* 2.5, 5.7 */

static void past_the_end_is_zeros(void)
{
	cr_assert_eq(write_stable(10 * UNIT + 100, 200, 1), 0);
	cr_assert_eq(sim_stats().reads, 0);
	cr_assert_eq(sim_size(1), 10 * UNIT + 300); /* 1.14: never longer than the file */
	expect_disk(0, 10 * UNIT + 100, 0);
}

Test(mapping, past_the_end_the_fill_is_zeros_without_a_read) { run(past_the_end_is_zeros); } /* 1.14, 2.5 */

static void waits_for_its_partner(void)
{
	cr_assert_eq(write_stable(0, 4 * UNIT, 9), 0);
	cr_assert_eq(write_unstable(UNIT + 10, 10, 1), 0);
	fiber_sleep_ns(100000000);
	cr_assert_eq(sim_stats().reads, 0);                  /* the partner may still come */
	fiber_sleep_ns(900000000);
	cr_assert_eq(sim_stats().reads, 1);                  /* it did not */
	expect_disk(UNIT + 10, 10, 1);
	expect_disk(UNIT + 20, 100, 9);
	fiber_sleep_ns(6000000000);
	cr_assert_eq(in_hand(0, 4 * UNIT), 0);               /* 2.8: bounded in time */
	cr_assert_geq(counter_value("cache.edges.aged"), 1);
}

Test(mapping, a_half_written_unit_waits_for_its_partner_but_not_for_ever) { run(waits_for_its_partner); } /* 2.5, 2.8 */

static void kept_is_bounded(void)
{
	for (unsigned i = 0; i < 64; i++)
		cr_assert_eq(write_stable((uint64_t)i * 2 * UNIT, 100, 1), 0);
	cr_assert_leq(in_hand(0, 128 * UNIT), 4 * UNIT);
}

Test(mapping, kept_units_are_bounded_in_number) { run_with(kept_is_bounded, &(struct cache_config){ .kept_bytes_max = 4 * UNIT }); } /* 2.8 */

static void foreign_change(void)
{
	uint8_t theirs[100];

	memset(theirs, 7, sizeof theirs);
	cr_assert_eq(write_stable(0, 4 * UNIT, 9), 0);
	cr_assert_eq(write_stable(UNIT, 100, 1), 0);         /* kept, clean, whole by its fill */
	fiber_sleep_ns(20000000);
	sim_poke(1, theirs, sizeof theirs, UNIT + 500);      /* a local process */
	shown_ctime();                                       /* our next look at the file */
	cr_assert_eq(in_hand(UNIT, 2 * UNIT), 0);
	cr_assert_eq(write_stable(UNIT + 100, 100, 2), 0);
	expect_disk(UNIT + 500, 100, 7);                     /* their bytes are not undone */
	expect_disk(UNIT + 100, 100, 2);
	cr_assert_geq(counter_value("cache.foreign_changes"), 1);
}

Test(mapping, kept_bytes_are_not_trusted_after_a_foreign_change) { run(foreign_change); } /* 2.8 */

static void stale_look(void)
{
	uint64_t look = mapping_look(m);
	struct mapping_attr attr;
	struct statx stx;

	cr_assert_eq(io_fstatx(buffered_fd, STATX_BASIC_STATS, &stx), 0);
	cr_assert_eq(write_stable(0, 2 * UNIT + 100, 9), 0); /* between another reactor's statx and what it makes of it */
	mapping_attr(m, look, &stx, &attr);
	cr_assert_eq(attr.size, 2 * UNIT + 100);
	cr_assert_eq(write_stable(2 * UNIT + 50, 10, 1), 0);
	expect_disk(2 * UNIT, 50, 9);
	expect_disk(2 * UNIT + 60, 40, 9);
}

Test(mapping, attributes_from_before_our_own_change_are_no_news) { run(stale_look); } /* 2.8 */

static void alignment_grows(void)
{
	uint64_t look = mapping_look(m);
	struct mapping_attr attr;
	struct statx stx;

	cr_assert_eq(io_fstatx(buffered_fd, STATX_BASIC_STATS | IO_STATX_ALIGN, &stx), 0);
	cr_assert(mapping_can_direct(m) && mapping_can_read_direct(m));
	stx.stx_mask |= IO_STATX_DIOALIGN;
	stx.stx_dio_offset_align = 4 * UNIT;                 /* 1.1: a reflink can raise it */
	mapping_attr(m, look, &stx, &attr);
	cr_assert_not(mapping_can_direct(m) || mapping_can_read_direct(m));
	cr_assert_eq(write_stable(100, 5 * UNIT, 1), 0);
	expect_disk(100, 5 * UNIT, 1);
}

Test(mapping, a_grown_alignment_ends_direct_io) { run(alignment_grows); } /* 1.1 */

/* ---- 1.6, 1b.6: overwriting ---- */

static void overwrite_in_flight(void)
{
	struct job job[3] = {
		{ .offset = 0, .len = 8 * UNIT, .value = 1, .unstable = true },
		{ .offset = 2 * UNIT, .len = 2 * UNIT, .value = 2, .unstable = true },
		{ .offset = 3 * UNIT + 10, .len = 100, .value = 3 },
	};

	for (unsigned i = 0; i < 3; i++) { /* each lands while the one before is under way; the disk panics if memory in flight changes */
		running = 1;
		cr_assert_eq(fiber_spawn(job_main, &job[i], "writer"), 0);
		fiber_sleep_ns(1000);
	}
	while (running)
		fiber_sleep_ns(10000);
	cr_assert_eq(mapping_commit(m, 0, UINT64_MAX), 0);
	expect_disk(0, 2 * UNIT, 1);
	expect_disk(2 * UNIT, UNIT + 10, 2);
	expect_disk(3 * UNIT + 10, 100, 3);
	expect_disk(3 * UNIT + 110, UNIT - 110, 2);
	expect_disk(4 * UNIT, 4 * UNIT, 1);
	cr_assert_eq(sim_stats().reads, 0);
}

Test(mapping, an_overwrite_of_memory_in_flight_goes_to_new_memory) { run(overwrite_in_flight); } /* 1b.6 */

static void middle_over_kept(void)
{
	cr_assert_eq(write_stable(0, 4 * UNIT, 9), 0);
	cr_assert_eq(write_stable(UNIT + 5, 10, 1), 0);
	cr_assert_eq(in_hand(UNIT, 2 * UNIT), UNIT);
	cr_assert_eq(write_stable(0, 4 * UNIT, 5), 0);
	cr_assert_eq(in_hand(0, 4 * UNIT), 0);
	expect_disk(0, 4 * UNIT, 5);
}

Test(mapping, a_middle_replaces_resident_units) { run(middle_over_kept); } /* 1.6 */

/* ---- 1.12: times ---- */

static bool before(struct timespec a, struct timespec b)
{
	return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
}

static void times(void)
{
	struct timespec t[4];

	t[0] = shown_ctime();
	cr_assert_eq(write_unstable(0, 100, 1), 0);
	t[1] = shown_ctime();
	cr_assert_eq(write_unstable(100, 100, 1), 0);        /* inside one clock tick */
	t[2] = shown_ctime();
	cr_assert(before(t[0], t[1]) && before(t[1], t[2]));
	fiber_sleep_ns(2000000000);                          /* flushed meanwhile, with a later time on the disk */
	cr_assert_eq(sim_size(1), 200);
	t[3] = shown_ctime();
	cr_assert(t[2].tv_sec == t[3].tv_sec && t[2].tv_nsec == t[3].tv_nsec, "the server's own flush moved ctime");
}

Test(mapping, times_move_with_the_write_and_not_with_the_flush) { run(times); } /* 1.12 */

/* After a sync the disk's own times are shown, and no later flush or close moves them. */
static void times_after_sync(void)
{
	struct timespec shown, mtime;
	struct statx stx;

	cr_assert_eq(write_unstable(0, 100, 1), 0);
	cr_assert(mapping_shown_mtime(m, &mtime));
	cr_assert_eq(mapping_commit(m, 0, UINT64_MAX), 0);
	fiber_sleep_ns(2000000000);
	shown = shown_ctime();
	cr_assert_eq(io_fstatx(buffered_fd, STATX_BASIC_STATS, &stx), 0);
	if (!mapping_shown_mtime(m, &mtime)) /* unless the disk's clock stood still between WRITE and flush */
		cr_assert(shown.tv_sec == stx.stx_ctime.tv_sec && shown.tv_nsec == (long)stx.stx_ctime.tv_nsec);
	for (unsigned i = 0; i < 20; i++) { /* never backwards, whatever mixes */
		struct timespec last = shown_ctime();

		cr_assert_eq(write_bytes(i * 500, 500, 2, i % 3 != 0), 0);
		cr_assert(before(last, shown_ctime()));
	}
}

Test(mapping, after_a_sync_the_disks_times_are_shown) { run(times_after_sync); } /* 1.12 */

/* ---- 1.13, 5.9: truncate ---- */

static void truncate_dirty(void)
{
	cr_assert_eq(write_unstable(0, 10 * UNIT + 77, 1), 0);
	cr_assert_eq(mapping_truncate(m, 3 * UNIT + 100), 0);
	cr_assert_eq(sim_size(1), 3 * UNIT + 100);
	cr_assert_eq(mapping_size(m), 3 * UNIT + 100);
	expect_disk(0, 3 * UNIT + 100, 1);
	cr_assert_eq(mapping_truncate(m, 5 * UNIT), 0);
	expect_disk(3 * UNIT + 100, 2 * UNIT - 100, 0);
	cr_assert_leq(sim_stats().write_bytes, 5 * UNIT);    /* what lies past the cut was not written */
}

Test(mapping, dirty_data_past_a_truncate_is_never_written) { run(truncate_dirty); } /* 5.9 */

/* ---- 1.10, 1b.8, 5.8: failures ---- */

static void failed_run(void)
{
	fault_arm(FAULT_IO_WRITEV, EIO, 0, 1);
	cr_assert_eq(write_unstable(0, 2 * UNIT, 1), 0);
	fiber_sleep_ns(50000000);
	cr_assert_eq(lost, 1);                               /* new verifier */
	cr_assert_eq(mapping_commit(m, 0, UINT64_MAX), -EIO);
	cr_assert_eq(mapping_commit(m, 0, UINT64_MAX), 0);   /* once */
	fault_arm(FAULT_IO_WRITEV, EIO, 0, 1);
	cr_assert_eq(write_stable(0, 2 * UNIT, 1), -EIO);
	cr_assert_eq(mapping_commit(m, 0, UINT64_MAX), 0);   /* its writer has heard; nobody else relied on it */
}

Test(mapping, an_io_error_is_reported_once_and_changes_the_verifier) { run(failed_run); } /* 1.10, 1b.8, 5.8 */

/* What a failed WRITE would have made of the file is not seen: neither its size nor zeros up to there. */
static void failed_growth(void)
{
	static const int errors[] = { EIO, ENOSPC };

	cr_assert_eq(write_stable(0, UNIT + 100, 1), 0);
	for (unsigned i = 0; i < 2; i++) {
		fault_arm(FAULT_IO_WRITEV, errors[i], 0, 1);
		cr_assert_eq(write_stable(4 * UNIT, 2 * UNIT, 2), -errors[i]);
		cr_assert_eq(mapping_size(m), UNIT + 100);
	}
	fault_arm(FAULT_IO_WRITEV, EIO, 0, 1);
	cr_assert_eq(write_unstable(4 * UNIT, 2 * UNIT, 2), 0);
	cr_assert_eq(mapping_size(m), 6 * UNIT);
	cr_assert_eq(mapping_commit(m, 0, UINT64_MAX), -EIO);
	cr_assert_eq(mapping_size(m), UNIT + 100);
	cr_assert_eq(write_stable(UNIT + 100, 100, 3), 0);
	cr_assert_eq(sim_size(1), UNIT + 200);
}

Test(mapping, a_failed_write_leaves_the_size_as_it_was) { run(failed_growth); } /* 1.13 */

/* The disk stays full for a minute. A stable WRITE that is staged when that is over, and waits for another's fill, is not answered as if it were there. */
static void given_up(void)
{
	struct job job[2] = { { .offset = UNIT + 100, .len = 100, .value = 2 }, { .offset = 6 * UNIT, .len = UNIT, .value = 3 } };

	cr_assert_eq(write_stable(0, 4 * UNIT, 1), 0);
	fault_arm(FAULT_IO_WRITEV, ENOSPC, 0, 0);
	cr_assert_eq(write_unstable(8 * UNIT, UNIT, 1), 0);
	fiber_sleep_ns(59900000000);
	while (!lost) {
		run_jobs(job, 2);
		cr_assert_eq(job[0].error, -ENOSPC);
		cr_assert_eq(job[1].error, -ENOSPC);
	}
	fault_disarm_all();
	cr_assert_eq(mapping_size(m), 4 * UNIT);
}

Test(mapping, what_is_given_up_is_told_to_those_who_wait) { run(given_up); } /* 5.8 */

static void failed_sync(void)
{
	fault_arm(FAULT_IO_FSYNC, EIO, 0, 1);
	cr_assert_eq(write_unstable(0, 2 * UNIT, 1), 0);
	cr_assert_eq(mapping_commit(m, 0, UINT64_MAX), -EIO);
	cr_assert_eq(lost, 1);
	fault_arm(FAULT_IO_FSYNC, EIO, 0, 1);
	cr_assert_eq(write_stable(0, UNIT, 1), -EIO);
	cr_assert_eq(lost, 2);
}

Test(mapping, a_failed_sync_fails_the_commit_and_changes_the_verifier) { run(failed_sync); } /* 5.8 */

static void no_space(void)
{
	fault_arm(FAULT_IO_WRITEV, ENOSPC, 0, 0);
	cr_assert_eq(write_unstable(0, 2 * UNIT, 1), 0);
	cr_assert_eq(mapping_commit(m, 0, UINT64_MAX), -ENOSPC);
	cr_assert_eq(in_hand(0, 2 * UNIT), 2 * UNIT);        /* kept */
	cr_assert_eq(lost, 0);
	fault_disarm_all();
	cr_assert_eq(mapping_commit(m, 0, UINT64_MAX), 0);   /* there is space again */
	expect_disk(0, 2 * UNIT, 1);
	fault_arm(FAULT_IO_WRITEV, ENOSPC, 0, 1);
	cr_assert_eq(write_stable(4 * UNIT, UNIT, 2), -ENOSPC);
	cr_assert_eq(in_hand(0, 8 * UNIT), 0);               /* it was not acknowledged: nothing stays */
	fault_disarm_all();
}

Test(mapping, no_space_keeps_acknowledged_data_and_fails_the_rest) { run(no_space); } /* 5.8 */

static void refused_sizes(void)
{
	cr_assert_eq(write_stable(0, UNIT + 100, 1), 0);
	fault_arm(FAULT_IO_WRITEV, ENOSPC, 0, 0);
	cr_assert_eq(write_stable(2 * UNIT, 2 * UNIT, 2), -ENOSPC);
	cr_assert_eq(mapping_size(m), UNIT + 100);           /* as long as it was */
	fault_disarm_all();
	fault_arm(FAULT_IO_WRITEV, ENOSPC, 0, 1);            /* there would be room for its tail */
	cr_assert_eq(write_stable(2 * UNIT, 2 * UNIT + 1, 2), -ENOSPC);
	cr_assert_eq(mapping_size(m), UNIT + 100);
	cr_assert_eq(sim_peek(1, &(char){ 0 }, 1, UNIT + 100), 0);
	fault_arm(FAULT_IO_WRITEV, ENOSPC, 0, 0);
	cr_assert_eq(write_unstable(UNIT, 4 * UNIT, 3), 0);
	fault_arm(FAULT_IO_FTRUNCATE, EFBIG, 0, 1);
	cr_assert_eq(mapping_truncate(m, 1 << 30), -EFBIG);
	cr_assert_eq(mapping_size(m), 5 * UNIT);             /* what was acknowledged stays in it */
	cr_assert_eq(mapping_commit(m, 0, UINT64_MAX), -ENOSPC);
	fault_disarm_all();
	cr_assert_eq(mapping_commit(m, 0, UINT64_MAX), 0);
	expect_disk(UNIT, 4 * UNIT, 3);
	cr_assert_eq(lost, 0);
}

Test(mapping, a_refused_write_or_truncate_leaves_the_size_that_was_acknowledged) { run(refused_sizes); } /* 4.6, 5.8 */

static void part_of_a_run(void)
{
	struct job job[2] = { { .offset = 0, .len = 4 * UNIT, .value = 1 }, { .offset = 4 * UNIT, .len = 4 * UNIT, .value = 2 } };

	fault_arm(FAULT_IO_SHORT_WRITE, EIO, 0, 1);          /* half of it, then: */
	fault_arm(FAULT_IO_WRITEV, ENOSPC, 1, 1);
	run_jobs(job, 2);
	cr_assert_eq(job[1].error, -ENOSPC);
	if (job[0].error == 0)
		expect_disk(0, 4 * UNIT, 1);
	fault_disarm_all();
}

Test(mapping, a_run_that_fails_half_way_fails_only_the_writes_it_cuts) { run(part_of_a_run); } /* 1b.8 */

static void no_memory(void)
{
	cr_assert_eq(write_stable(0, 4 * UNIT, 9), 0);
	fault_arm(FAULT_FOLIO_ALLOC, ENOMEM, 0, 2);
	cr_assert_eq(write_stable(100, 2 * UNIT, 1), 0);     /* written through, not failed (2.9) */
	expect_disk(0, 100, 9);
	expect_disk(100, 2 * UNIT, 1);
	expect_disk(2 * UNIT + 100, UNIT, 9);
	cr_assert_geq(counter_value("cache.write_through"), 1);
	fault_disarm_all();
}

Test(mapping, no_memory_for_an_edge_becomes_write_through) { run(no_memory); } /* 2.9 */

/* ---- 5.10, 1b.5: bounds ---- */

static void dirty_bound(void)
{
	struct job job[16];

	for (unsigned i = 0; i < ARRAY_SIZE(job); i++)
		job[i] = (struct job){ .offset = (uint64_t)i * 8 * UNIT, .len = 8 * UNIT, .value = 1, .unstable = true };
	run_jobs(job, ARRAY_SIZE(job));
	cr_assert_geq(counter_value("cache.dirty_waits"), 1);
	cr_assert_eq(mapping_commit(m, 0, UINT64_MAX), 0);
	expect_disk(0, 16 * 8 * UNIT, 1);
}

Test(mapping, beyond_the_dirty_bound_writes_wait) { run_with(dirty_bound, &(struct cache_config){ .dirty_bytes_max = 16 * UNIT }); } /* 1b.5, 5.10 */

static void no_fibers(void)
{
	fault_arm(FAULT_FIBER_SPAWN, EAGAIN, 0, 0);
	cr_assert_eq(write_stable(10, 3 * UNIT, 1), 0);      /* the writer flushes itself */
	fault_disarm_all();
	expect_disk(10, 3 * UNIT, 1);
}

Test(mapping, no_fiber_for_the_flusher_is_no_failure) { run(no_fibers); }

static bool first_has_begun, first_is_back;
static unsigned written_when_back, written;

static void only_writer(void *arg)
{
	first_has_begun = true;
	cr_assert_eq(write_stable(0, UNIT, 1), 0);
	first_is_back = true;
	written_when_back = written;
	running--;
}

static void busy_writer(void *arg)
{
	while (!first_has_begun)
		fiber_yield();
	for (written = 0; written < 100; written++)
		cr_assert_eq(write_stable((uint64_t)(1 + written) * UNIT, UNIT, 2), 0);
	running--;
}

/* Another client that writes on and on does not keep the writer that had to flush for want of a fiber. */
static void hands_over(void)
{
	running = 2;
	cr_assert_eq(fiber_spawn(only_writer, NULL, "writer"), 0);
	cr_assert_eq(fiber_spawn(busy_writer, NULL, "writer"), 0);
	fault_arm(FAULT_FIBER_SPAWN, EAGAIN, 0, 1);          /* the first kick finds no fiber */
	while (running)
		fiber_sleep_ns(10000);
	cr_assert(first_is_back);
	cr_assert_leq(written_when_back, 5, "%u WRITEs of another were served first", written_when_back);
}

Test(mapping, a_writer_that_flushes_for_others_hands_over) { run(hands_over); }
