/* sim_test.c - the simulated backend under real fibers: determinism, clock, kernel-like file semantics, faults, power cuts, network. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/fiber.h"
#include "runtime/io.h"
#include "runtime/pool.h"
#include "runtime/reactor.h"
#include "runtime/sim.h"

enum { BLOCK = 4096, BLOCKS = 64 };

#define ALIGNED __attribute__((aligned(BLOCK)))

static struct sim_config plain(uint64_t seed)
{
	return (struct sim_config){ .seed = seed, .block_bytes = BLOCK, .mem_align_bytes = 512, .latency_ns_max = 100000 };
}

struct body {
	void (*fn)(void);
};

static void start_body(void *arg, unsigned index)
{
	((struct body *)arg)->fn();
	runtime_stop();
}

/* Run fn as the first fiber of a runtime of its own. */
static int run(void (*fn)(void))
{
	struct body body = { fn };
	int result;

	cr_assert_eq(runtime_init(&(struct reactor_config){ .fibers = 64 }), 0);
	result = runtime_run(start_body, &body);
	runtime_fini();
	return result;
}

static void run_with(struct sim_config config, void (*fn)(void))
{
	sim_init(&config);
	cr_assert_eq(run(fn), 0);
	sim_fini();
}

static ssize_t put(int fd, const void *mem, size_t len, uint64_t offset)
{
	struct iovec iov = { (void *)mem, len };
	struct io_op op = { .code = IO_WRITEV, .fd = fd, .iov = &iov, .iovcnt = 1, .offset = offset };

	return io_call(&op, "test write");
}

static ssize_t get(int fd, void *mem, size_t len, uint64_t offset)
{
	struct iovec iov = { mem, len };

	return io_preadv(fd, &iov, 1, offset, 0);
}

static struct statx stat_of(int fd)
{
	struct statx stx;

	cr_assert_eq(io_fstatx(fd, STATX_BASIC_STATS, &stx), 0);
	return stx;
}

static void is_all(const uint8_t *mem, size_t len, int byte)
{
	for (size_t i = 0; i < len; i++)
		cr_assert_eq(mem[i], byte, "byte %zu is %d", i, mem[i]);
}

/* Determinism and clock. */

enum { MIXERS = 6 };

static int mixers_left;

static void mixer(void *arg)
{
	static uint8_t mem[MIXERS][2 * BLOCK] ALIGNED;
	unsigned who = (uintptr_t)arg;
	int fd = sim_open(1, SIM_DIRECT);

	for (unsigned i = 0; i < 20; i++) {
		mem[who][0] = i;
		put(fd, mem[who], BLOCK, sim_random(16) * BLOCK);
		if (sim_random(3) == 0)
			fiber_sleep_ns(sim_random(1000000));
		get(fd, mem[who], 2 * BLOCK, sim_random(16) * BLOCK);
		if (sim_random(4) == 0)
			io_fsync(fd, 0);
	}
	io_close(fd);
	if (--mixers_left == 0)
		runtime_stop();
}

static void start_mixers(void *arg, unsigned index)
{
	mixers_left = MIXERS;
	for (uintptr_t i = 0; i < MIXERS; i++)
		cr_assert_eq(fiber_spawn(mixer, (void *)i, "mixer"), 0);
}

static uint64_t hash_of_mix(uint64_t seed)
{
	struct sim_config config = plain(seed);
	uint64_t hash;

	config.short_write = config.write_error = 2000;
	sim_init(&config);
	cr_assert_eq(runtime_init(&(struct reactor_config){ .fibers = 64 }), 0);
	cr_assert_eq(runtime_run(start_mixers, NULL), 0);
	runtime_fini();
	hash = sim_trace_hash();
	sim_fini();
	return hash;
}

Test(sim, same_seed_same_trace)
{
	uint64_t before = 0;

	for (uint64_t seed = 1; seed <= 30; seed++) {
		uint64_t hash = hash_of_mix(seed);

		cr_assert_eq(hash, hash_of_mix(seed), "seed %d does not replay", (int)seed);
		cr_assert_neq(hash, before);
		before = hash;
	}
}

static void sleep_for_an_hour(void)
{
	struct timespec real = clock_real(), later;
	uint64_t then = clock_mono_ns(), hour = 3600ull * 1000000000;

	for (unsigned i = 0; i < 100; i++)
		fiber_yield();
	cr_assert_eq(clock_mono_ns(), then);
	fiber_sleep_ns(hour);
	cr_assert_eq(clock_mono_ns(), then + hour);
	later = clock_real();
	cr_assert_eq(later.tv_sec - real.tv_sec, 3600);
}

Test(sim, time_moves_only_when_nothing_runs, .timeout = 10)
{
	run_with(plain(1), sleep_for_an_hour);
}

static uint64_t drawn;

static void draw(void)
{
	drawn = random_u64();
}

Test(sim, random_bytes_come_from_the_seed)
{
	uint64_t first;

	run_with(plain(7), draw);
	first = drawn;
	run_with(plain(7), draw);
	cr_assert_eq(drawn, first);
	run_with(plain(8), draw);
	cr_assert_neq(drawn, first);
}

static bool spin_over;

static void end_spin(struct io_op *op)
{
	spin_over = true;
}

static void spin(void)
{
	static uint8_t mem[BLOCK] ALIGNED;
	struct iovec iov = { mem, sizeof(mem) };
	struct io_op op = { .code = IO_READV, .fd = sim_open(1, SIM_DIRECT), .iov = &iov, .iovcnt = 1, .done = end_spin };

	spin_over = false;
	io_submit(&op);
	while (!spin_over)
		fiber_yield();
}

Test(sim, time_passes_for_a_spinning_fiber_too, .timeout = 10)
{
	for (unsigned seed = 1; seed < 10; seed++)
		run_with(plain(seed), spin);
}

static void wait_for_ever(void)
{
	fiber_park("nothing", NULL);
}

Test(sim, deadlock_aborts, .signal = SIGABRT)
{
	run_with(plain(1), wait_for_ever);
}

static bool job_ran;

static void job(void *arg)
{
	job_ran = true;
}

static void run_job(void)
{
	pool_run(job, NULL, NULL);
	cr_assert(job_ran);
}

Test(sim, pool_jobs_run_inline)
{
	run_with(plain(1), run_job);
}

/* Files as a kernel does them. */

static void misaligned(void)
{
	static uint8_t mem[3 * BLOCK] ALIGNED;
	int fd = sim_open(1, SIM_DIRECT), buffered = sim_open(1, 0), reader = sim_open(1, SIM_DIRECT | SIM_READ_ONLY);

	cr_assert_eq(put(fd, mem, BLOCK, 512), -EINVAL);
	cr_assert_eq(put(fd, mem, 512, 0), -EINVAL);
	cr_assert_eq(put(fd, mem + 100, BLOCK, 0), -EINVAL);
	cr_assert_eq(get(fd, mem, BLOCK, 1), -EINVAL);
	cr_assert_eq(get(fd, mem, BLOCK + 1, 0), -EINVAL);
	cr_assert_eq(stat_of(fd).stx_size, 0);
	cr_assert_eq(put(fd, mem + 512, BLOCK, 0), BLOCK);
	cr_assert_eq(put(buffered, mem + 1, 77, 3), 77);
	cr_assert_eq(put(reader, mem, BLOCK, 0), -EBADF);
	cr_assert_eq(get(reader, mem, BLOCK, 0), BLOCK);
	cr_assert_eq(put(fd, mem, 0, 0), 0);
	cr_assert_eq(put(12345, mem, BLOCK, 0), -EBADF);
}

Test(sim, direct_io_wants_alignment)
{
	run_with(plain(1), misaligned);
}

static void sizes(void)
{
	static uint8_t mem[4 * BLOCK] ALIGNED;
	int fd = sim_open(1, SIM_DIRECT), buffered = sim_open(1, 0);
	struct statx stx;

	memset(mem, 'a', sizeof(mem));
	cr_assert_eq(put(fd, mem, 2 * BLOCK, 4 * BLOCK), 2 * BLOCK);
	stx = stat_of(fd);
	cr_assert_eq(stx.stx_size, 6 * BLOCK);
	cr_assert_eq(stx.stx_blocks, 2 * BLOCK / 512);
	cr_assert_eq(stx.stx_mode, S_IFREG | 0644);
	cr_assert_eq(stx.stx_ino, 1);
	cr_assert(stx.stx_mask & STATX_DIOALIGN);
	cr_assert_eq(stx.stx_dio_offset_align, BLOCK);
	cr_assert_eq(stx.stx_dio_mem_align, 512);
	cr_assert_eq(get(fd, mem, 4 * BLOCK, 0), 4 * BLOCK);
	is_all(mem, 4 * BLOCK, 0);
	cr_assert_eq(put(buffered, "xyz", 3, 6 * BLOCK), 3);
	cr_assert_eq(sim_size(1), 6 * BLOCK + 3);
	memset(mem, 'q', sizeof(mem));
	cr_assert_eq(get(fd, mem, 4 * BLOCK, 5 * BLOCK), BLOCK + 3);
	is_all(mem, BLOCK, 'a');
	cr_assert_eq(memcmp(mem + BLOCK, "xyzq", 4), 0);
	cr_assert_eq(get(fd, mem, BLOCK, 8 * BLOCK), 0);
	cr_assert_eq(put(fd, mem, BLOCK, 6 * BLOCK), BLOCK);
	cr_assert_eq(sim_size(1), 7 * BLOCK);
}

Test(sim, sizes_holes_and_coherence)
{
	for (unsigned seed = 1; seed < 50; seed++)
		run_with(plain(seed), sizes);
}

static void truncate_and_allocate(void)
{
	static uint8_t mem[4 * BLOCK] ALIGNED;
	int fd = sim_open(1, SIM_DIRECT);

	memset(mem, 'a', sizeof(mem));
	cr_assert_eq(put(fd, mem, 4 * BLOCK, 0), 4 * BLOCK);
	cr_assert_eq(io_ftruncate(fd, BLOCK + 10), 0);
	cr_assert_eq(io_ftruncate(fd, 4 * BLOCK), 0);
	cr_assert_eq(get(fd, mem, 4 * BLOCK, 0), 4 * BLOCK);
	is_all(mem, BLOCK + 10, 'a');
	is_all(mem + BLOCK + 10, 3 * BLOCK - 10, 0);
	cr_assert_eq(stat_of(fd).stx_blocks, 2 * BLOCK / 512);
	cr_assert_eq(io_fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 8 * BLOCK), 0);
	cr_assert_eq(stat_of(fd).stx_blocks, 8 * BLOCK / 512);
	cr_assert_eq(sim_size(1), 4 * BLOCK);
	cr_assert_eq(io_fallocate(fd, 0, 0, 5 * BLOCK), 0);
	cr_assert_eq(sim_size(1), 5 * BLOCK);
	cr_assert_eq(io_fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, BLOCK), 0);
	cr_assert_eq(get(fd, mem, BLOCK, 0), BLOCK);
	is_all(mem, BLOCK, 0);
	cr_assert_eq(io_fallocate(fd, FALLOC_FL_COLLAPSE_RANGE, 0, BLOCK), -EOPNOTSUPP);
	cr_assert_eq(io_fallocate(fd, 0, 0, 0), -EINVAL);
}

Test(sim, truncate_zeroes_the_tail_and_fallocate_reserves)
{
	run_with(plain(1), truncate_and_allocate);
}

static void fill_disk(void)
{
	static uint8_t mem[8 * BLOCK] ALIGNED;
	int fd = sim_open(1, SIM_DIRECT), buffered = sim_open(2, 0);

	cr_assert_eq(put(fd, mem, 6 * BLOCK, 0), 6 * BLOCK);
	cr_assert_eq(put(fd, mem, 8 * BLOCK, 4 * BLOCK), 6 * BLOCK);
	cr_assert_eq(sim_size(1), 10 * BLOCK);
	cr_assert_eq(put(fd, mem, BLOCK, 10 * BLOCK), -ENOSPC);
	cr_assert_eq(put(buffered, mem, 1, 0), -ENOSPC);
	cr_assert_eq(put(fd, mem, 8 * BLOCK, 0), 8 * BLOCK, "an overwrite needs no space");
	cr_assert_eq(io_fallocate(fd, 0, 0, 11 * BLOCK), -ENOSPC);
	cr_assert_eq(io_ftruncate(fd, 9 * BLOCK), 0);
	cr_assert_eq(put(buffered, mem, 2 * BLOCK, 100), BLOCK - 100);
}

Test(sim, a_full_disk_is_a_short_write_then_an_error)
{
	struct sim_config config = plain(1);

	config.disk_bytes = 10 * BLOCK;
	run_with(config, fill_disk);
}

/* One round of a disk that is almost full: what has its space, or needs little, goes; what needs more does not. */
static void nearly_full_disk(void)
{
	static uint8_t mem[8 * BLOCK] ALIGNED;
	int fd = sim_open(1, SIM_DIRECT), buffered = sim_open(1, 0);

	cr_assert_eq(put(fd, mem, 4 * BLOCK, 0), 4 * BLOCK);
	sim_set_room(2 * BLOCK);
	cr_assert_eq(put(fd, mem, 3 * BLOCK, 4 * BLOCK), -EDQUOT);
	cr_assert_eq(put(fd, mem, 4 * BLOCK, 3 * BLOCK), BLOCK, "as far as its blocks have space");
	cr_assert_eq(put(fd, mem, 4 * BLOCK, 0), 4 * BLOCK);
	cr_assert_eq(put(fd, mem, BLOCK, 4 * BLOCK), BLOCK);
	cr_assert_eq(put(buffered, mem, 2 * BLOCK, 5 * BLOCK), BLOCK, "the page cache takes what there is, at write(2)");
	cr_assert_eq(put(buffered, mem, 1, 6 * BLOCK), -EDQUOT);
	cr_assert_eq(put(buffered, mem, 1, 6 * BLOCK - 1), 1);
	cr_assert_eq(io_fsync(fd, 0), 0);
	sim_set_room(4 * BLOCK);
	cr_assert_eq(put(fd, mem, 3 * BLOCK, 6 * BLOCK), 3 * BLOCK);
}

Test(sim, a_nearly_full_disk_refuses_some)
{
	struct sim_config config = plain(1);

	config.disk_bytes = 1000 * BLOCK;
	config.nospc_whole = 65536;
	config.quota = true;
	run_with(config, nearly_full_disk);
}

static void tick(void)
{
	static uint8_t mem[BLOCK] ALIGNED;
	int fd = sim_open(1, SIM_DIRECT);
	struct statx before, after;

	fiber_sleep_ns(10000000 - clock_mono_ns() % 10000000);
	put(fd, mem, BLOCK, 0);
	before = stat_of(fd);
	put(fd, mem, BLOCK, 0);
	after = stat_of(fd);
	cr_assert_eq(memcmp(&before.stx_mtime, &after.stx_mtime, sizeof(before.stx_mtime)), 0);
	fiber_sleep_ns(10000000);
	put(fd, mem, BLOCK, 0);
	after = stat_of(fd);
	cr_assert_eq(after.stx_mtime.tv_sec * 1000000000ll + after.stx_mtime.tv_nsec - before.stx_mtime.tv_sec * 1000000000ll - before.stx_mtime.tv_nsec,
	             10000000);
	cr_assert_eq(memcmp(&after.stx_mtime, &after.stx_ctime, sizeof(after.stx_mtime)), 0);
}

Test(sim, times_move_by_ticks)
{
	struct sim_config config = plain(1);

	config.tick_ns = 10000000;
	run_with(config, tick);
}

static void count_reads(void)
{
	static uint8_t mem[4 * BLOCK] ALIGNED;
	int fd = sim_open(1, SIM_DIRECT);

	put(fd, mem, 4 * BLOCK, 4 * BLOCK);
	get(fd, mem, BLOCK, 0);
	get(fd, mem, BLOCK, 8 * BLOCK);
	cr_assert_eq(sim_stats().reads, 0, "holes and the end are not the device's");
	get(fd, mem, BLOCK, 5 * BLOCK);
	get(fd, mem, 2 * BLOCK, 5 * BLOCK);
	cr_assert_eq(sim_stats().reads, 2);
	cr_assert_eq(sim_stats().edge_reads, 1);
	cr_assert_eq(sim_stats().read_bytes, 3 * BLOCK);
	cr_assert_eq(sim_stats().writes, 1);
	cr_assert_eq(sim_stats().write_bytes, 4 * BLOCK);
	io_fsync(fd, 0);
	cr_assert_eq(sim_stats().fsyncs, 1);
}

Test(sim, device_operations_are_counted)
{
	run_with(plain(1), count_reads);
}

/* Writes past the end wait for each other: the size never covers one that is still under way. */

static uint8_t grow_mem[2][BLOCK] ALIGNED;
static int grow_done;

static void grow_one(void *arg)
{
	unsigned who = (uintptr_t)arg;
	int fd = sim_open(1, SIM_DIRECT);

	cr_assert_eq(put(fd, grow_mem[who], BLOCK, who * BLOCK), BLOCK);
	cr_assert_geq(sim_size(1), (who + 1) * BLOCK);
	grow_done++;
}

static void grow_both(void)
{
	uint8_t seen[2 * BLOCK];
	ssize_t len;

	grow_done = 0;
	memset(grow_mem, 'g', sizeof(grow_mem));
	fiber_spawn(grow_one, (void *)0, "grow");
	fiber_spawn(grow_one, (void *)1, "grow");
	while (grow_done < 2) {
		len = sim_peek(1, seen, sizeof(seen), 0);
		cr_assert(len < BLOCK || seen[BLOCK - 1] == 'g' || seen[BLOCK - 1] == 0);
		if (len == 2 * BLOCK)
			is_all(seen + BLOCK, BLOCK, 'g');
		fiber_sleep_ns(1000);
	}
	cr_assert_eq(sim_size(1), 2 * BLOCK);
}

Test(sim, extending_writes_are_serialised)
{
	for (unsigned seed = 1; seed < 100; seed++)
		run_with(plain(seed), grow_both);
}

static void nothing(struct io_op *op)
{
}

/* ftruncate takes its turn among the writes that were submitted before and after it. */
static void truncate_between(void)
{
	static uint8_t mem[2][2 * BLOCK] ALIGNED;
	struct iovec iov[2] = { { mem[0], 2 * BLOCK }, { mem[1], 2 * BLOCK } };
	int fd = sim_open(1, SIM_DIRECT);
	struct io_op first = { .code = IO_WRITEV, .fd = fd, .iov = &iov[0], .iovcnt = 1, .done = nothing };
	struct io_op second = { .code = IO_WRITEV, .fd = fd, .iov = &iov[1], .iovcnt = 1, .offset = BLOCK, .done = nothing };
	struct io_op cut = { .code = IO_FTRUNCATE, .fd = fd, .done = nothing };

	memset(mem[0], '1', sizeof(mem[0]));
	memset(mem[1], '2', sizeof(mem[1]));
	sim_poke(1, mem[0], 2 * BLOCK, 0);
	io_submit(&first);
	io_submit(&cut);
	io_submit(&second);
	fiber_sleep_ns(1000000000);
	cr_assert_eq(sim_size(1), 3 * BLOCK);
	cr_assert_eq(get(fd, mem[0], 2 * BLOCK, 0), 2 * BLOCK);
	is_all(mem[0], BLOCK, 0);
	is_all(mem[0] + BLOCK, BLOCK, '2');
}

Test(sim, truncate_excludes_writes)
{
	for (unsigned seed = 1; seed < 50; seed++)
		run_with(plain(seed), truncate_between);
}

static void scribble(void)
{
	static uint8_t mem[BLOCK] ALIGNED;
	struct iovec iov = { mem, sizeof(mem) };
	struct io_op op = { .code = IO_WRITEV, .fd = sim_open(1, SIM_DIRECT), .iov = &iov, .iovcnt = 1, .done = nothing };

	io_submit(&op);
	mem[1234] = 1;
	fiber_sleep_ns(1000000000);
}

Test(sim, memory_changed_under_a_write_aborts, .signal = SIGABRT)
{
	run_with(plain(1), scribble);
}

static unsigned landed_early;

static void watch_read(void)
{
	static uint8_t mem[BLOCK] ALIGNED;
	struct iovec iov = { mem, sizeof(mem) };
	struct io_op op = { .code = IO_READV, .fd = sim_open(1, SIM_DIRECT), .iov = &iov, .iovcnt = 1, .done = end_spin };

	sim_poke(1, "r", 1, BLOCK - 1);
	memset(mem, 0, sizeof(mem));
	spin_over = false;
	io_submit(&op);
	while (!spin_over) {
		fiber_sleep_ns(1000);
		landed_early += !spin_over && mem[BLOCK - 1] == 'r';
	}
	cr_assert_eq(mem[BLOCK - 1], 'r');
}

Test(sim, reads_land_before_they_complete)
{
	for (unsigned seed = 1; seed < 20; seed++)
		run_with(plain(seed), watch_read);
	cr_assert_gt(landed_early, 0);
}

/* Faults. */

static void always_short(void)
{
	static uint8_t mem[8 * BLOCK] ALIGNED;
	int fd = sim_open(1, SIM_DIRECT), buffered = sim_open(1, 0), err;
	struct iovec iov = { mem, sizeof(mem) };
	ssize_t done = put(fd, mem, sizeof(mem), 0);

	cr_assert(done > 0 && done < (ssize_t)sizeof(mem) && done % BLOCK == 0);
	cr_assert_eq((ssize_t)sim_size(1), done);
	cr_assert_eq(io_pwritev_all(fd, &iov, 1, 0, 0, &err), sizeof(mem));
	cr_assert_eq(err, 0);
	done = get(fd, mem, sizeof(mem), 0);
	cr_assert(done > 0 && done < (ssize_t)sizeof(mem) && done % BLOCK == 0);
	done = put(buffered, mem, 10, 0);
	cr_assert(done > 0 && done < 10);
}

Test(sim, short_transfers)
{
	for (unsigned seed = 1; seed < 50; seed++) {
		struct sim_config config = plain(seed);

		config.short_write = config.short_read = 65536;
		run_with(config, always_short);
	}
}

static void errors(void)
{
	static uint8_t mem[BLOCK] ALIGNED;
	int fd = sim_open(1, SIM_DIRECT);
	struct sim_config faults = { .write_error = 65536, .read_error = 65536, .fsync_error = 65536 };

	cr_assert_eq(put(fd, mem, BLOCK, 0), BLOCK);
	sim_set_faults(&faults);
	cr_assert_eq(put(fd, mem, BLOCK, BLOCK), -EIO);
	cr_assert_eq(sim_size(1), BLOCK, "a failed write leaves the size");
	cr_assert_eq(get(fd, mem, BLOCK, 0), -EIO);
	cr_assert_eq(io_fsync(fd, 0), -EIO);
	sim_set_faults(&(struct sim_config){ .nospc = 65536 });
	cr_assert_eq(put(fd, mem, BLOCK, 0), -ENOSPC);
	sim_set_faults(&(struct sim_config){ .seed = 0 });
	cr_assert_eq(put(fd, mem, BLOCK, BLOCK), BLOCK);
	fault_arm(FAULT_IO_FSYNC, EIO, 1, 1);
	cr_assert_eq(io_fsync(fd, 0), 0);
	cr_assert_eq(io_fsync(fd, 0), -EIO);
	cr_assert_eq(io_fsync(fd, 0), 0);
	fault_arm(FAULT_IO_WRITEV, EDQUOT, 0, 1);
	cr_assert_eq(put(fd, mem, BLOCK, 0), -EDQUOT);
	cr_assert_eq(put(fd, mem, BLOCK, 0), BLOCK);
}

Test(sim, errors_as_configured_and_at_named_points)
{
	run_with(plain(1), errors);
}

static void fail_past_the_end(void)
{
	static uint8_t mem[4 * BLOCK] ALIGNED;
	int fd = sim_open(1, SIM_DIRECT);

	memset(mem, 'a', sizeof(mem));
	cr_assert_eq(put(fd, mem, 4 * BLOCK, 0), 4 * BLOCK);
	cr_assert_eq(io_ftruncate(fd, BLOCK), 0);
	cr_assert_eq(io_fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 4 * BLOCK), 0);
	sim_set_faults(&(struct sim_config){ .write_error = 65536 });
	cr_assert_eq(put(fd, mem, 4 * BLOCK, 0), -EIO);
	cr_assert_eq(sim_size(1), BLOCK);
	cr_assert_eq(io_ftruncate(fd, 4 * BLOCK), 0);
	cr_assert_eq(get(fd, mem, 4 * BLOCK, 0), 4 * BLOCK);
	is_all(mem + BLOCK, 3 * BLOCK, 0);
}

Test(sim, a_failed_write_past_the_end_leaves_nothing)
{
	for (unsigned seed = 1; seed < 50; seed++)
		run_with(plain(seed), fail_past_the_end);
}

/* Power cuts. Each writer owns some blocks and rewrites them with rising numbers; what it synced is acknowledged. */

enum { WRITERS = 4, ROUNDS = 12, OWN = BLOCKS / WRITERS };

static uint8_t written[BLOCKS], acked[BLOCKS];
static int writers_left;

static void synced_writer(void *arg)
{
	static uint8_t mem[WRITERS][OWN * BLOCK] ALIGNED;
	unsigned who = (uintptr_t)arg;
	int fd = sim_open(1, SIM_DIRECT);

	for (unsigned round = 1; round <= ROUNDS; round++) {
		unsigned n = 1 + sim_random(OWN), at = who * OWN + sim_random(OWN - n + 1);

		memset(mem[who], round, n * BLOCK);
		memset(written + at, round, n);
		cr_assert_eq(put(fd, mem[who], n * BLOCK, at * BLOCK), n * BLOCK);
		if (sim_random(2))
			continue;
		cr_assert_eq(io_fsync(fd, sim_random(2) ? IO_FSYNC_DATA : 0), 0);
		memcpy(acked + who * OWN, written + who * OWN, OWN);
	}
	if (--writers_left == 0)
		runtime_stop();
}

static void start_writers(void *arg, unsigned index)
{
	writers_left = WRITERS;
	for (uintptr_t i = 0; i < WRITERS; i++)
		cr_assert_eq(fiber_spawn(synced_writer, (void *)i, "writer"), 0);
}

/* Blocks that are not what was last written. */
static unsigned check_survivors(void)
{
	uint8_t mem[BLOCK];
	unsigned lost = 0;

	for (unsigned i = 0; i < BLOCKS; i++) {
		ssize_t len = i * BLOCK < sim_size(1) ? sim_peek(1, mem, BLOCK, i * BLOCK) : 0;
		uint8_t value = len > 0 ? mem[0] : 0;

		cr_assert(len == 0 || len == BLOCK);
		is_all(mem, len, value);
		cr_assert(value >= acked[i] && value <= written[i], "%s: block %u is %d, acked %d, written %d", sim_seed_text(), i, value, acked[i],
		          written[i]);
		lost += value != written[i];
	}
	return lost;
}

Test(sim, what_was_synced_survives_any_cut, .timeout = 120)
{
	unsigned cuts = 0, lossy = 0;

	for (unsigned seed = 1; seed <= 1000; seed++) {
		struct sim_config config = plain(seed);

		sim_init(&config);
		cr_assert_eq(runtime_init(&(struct reactor_config){ .fibers = 8 }), 0);
		memset(written, 0, sizeof(written));
		memset(acked, 0, sizeof(acked));
		sim_cut_at_step(1 + sim_random(200)); /* the first is the choice of start_writers() itself */
		if (runtime_run(start_writers, NULL) == -EPIPE)
			cuts++;
		else
			sim_power_cut();
		lossy += check_survivors() > 0;
		runtime_fini();
		sim_fini();
	}
	cr_assert(cuts > 500 && cuts < 1000, "%u cuts", cuts);
	cr_assert(lossy > 100, "%u lossy", lossy);
}

static int fd_before_cut;
static bool came_back;

static void cut_by_fiber(void)
{
	static uint8_t mem[BLOCK] ALIGNED;

	fd_before_cut = sim_open(1, SIM_DIRECT);
	put(fd_before_cut, mem, BLOCK, 0);
	io_fsync(fd_before_cut, 0);
	sim_power_cut();
	came_back = true;
}

static void use_after_cut(void)
{
	static uint8_t mem[BLOCK] ALIGNED;

	cr_assert_eq(put(fd_before_cut, mem, BLOCK, 0), -EBADF);
	cr_assert_eq(get(sim_open(1, SIM_DIRECT), mem, BLOCK, 0), BLOCK);
}

Test(sim, a_fiber_that_cuts_the_power_never_returns)
{
	struct sim_config config = plain(1);
	struct body body = { cut_by_fiber };

	sim_init(&config);
	cr_assert_eq(runtime_init(&(struct reactor_config){ .fibers = 8 }), 0);
	for (unsigned i = 1; i <= 20; i++) {
		cr_assert_eq(runtime_run(start_body, &body), -EPIPE);
		cr_assert_eq(sim_cuts(), i);
	}
	cr_assert_not(came_back);
	body.fn = use_after_cut;
	cr_assert_eq(runtime_run(start_body, &body), 0);
	runtime_fini();
	sim_fini();
}

static void dsync(void)
{
	static uint8_t mem[BLOCK] ALIGNED;
	struct iovec iov = { mem, BLOCK };
	int err;

	memset(mem, 'd', BLOCK);
	cr_assert_eq(io_pwritev_all(sim_open(1, SIM_DIRECT), &iov, 1, 0, RWF_DSYNC, &err), BLOCK);
}

Test(sim, rwf_dsync_is_durable)
{
	for (unsigned seed = 1; seed < 50; seed++) {
		struct sim_config config = plain(seed);
		uint8_t mem[BLOCK];

		sim_init(&config);
		cr_assert_eq(run(dsync), 0);
		sim_power_cut();
		cr_assert_eq(sim_peek(1, mem, BLOCK, 0), BLOCK);
		is_all(mem, BLOCK, 'd');
		sim_fini();
	}
}

static unsigned bytes_kept;

static void buffered_write(void)
{
	put(sim_open(1, 0), "buffered", 8, 0);
}

Test(sim, buffered_pages_are_lost_likewise)
{
	for (unsigned seed = 1; seed < 100; seed++) {
		struct sim_config config = plain(seed);
		char mem[8] = "";

		sim_init(&config);
		cr_assert_eq(run(buffered_write), 0);
		sim_power_cut();
		cr_assert(sim_peek(1, mem, 8, 0) == 0 || memcmp(mem, "buffered", 8) == 0 || memcmp(mem, "\0\0\0\0\0\0\0", 8) == 0);
		bytes_kept += mem[0] == 'b';
		sim_fini();
	}
	cr_assert(bytes_kept > 10 && bytes_kept < 90, "%u", bytes_kept);
}

/* Network. */

static ssize_t transfer(enum io_code code, int fd, void *mem, size_t len, unsigned flags)
{
	struct iovec iov = { mem, len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct io_op op = { .code = code, .fd = fd, .msg = &msg, .flags = flags };

	return io_call(&op, "transfer");
}

enum { STREAM = 600000 };

static int ends[2];
static ssize_t sender_result;
static bool sender_over;

static void sender(void *arg)
{
	static uint8_t mem[STREAM];

	for (size_t i = 0; i < STREAM; i++)
		mem[i] = i * 7 + i / 256;
	sender_result = transfer(IO_SENDMSG, ends[0], mem, STREAM, MSG_WAITALL);
	io_close(ends[0]);
	sender_over = true;
}

static void stream(void)
{
	static uint8_t mem[STREAM];
	size_t got = 0, calls = 0;
	ssize_t res;

	sim_socketpair(ends);
	fiber_spawn(sender, NULL, "sender");
	while ((res = transfer(IO_RECVMSG, ends[1], mem + got, min_u64(STREAM - got, 1 + sim_random(90000)), 0)) > 0) {
		got += res;
		calls++;
	}
	cr_assert_eq(sender_result, STREAM);
	cr_assert_eq(got, STREAM);
	for (size_t i = 0; i < STREAM; i++)
		cr_assert_eq(mem[i], (uint8_t)(i * 7 + i / 256));
	cr_assert_gt(calls, 6);
	io_close(ends[1]);
}

Test(sim, a_stream_stays_one_under_splits_and_a_full_inbox)
{
	for (unsigned seed = 1; seed < 20; seed++) {
		struct sim_config config = plain(seed);

		config.net_split = seed % 2 ? 30000 : 0;
		run_with(config, stream);
	}
}

static unsigned short_receives;

static void receive_one(void)
{
	char mem[64];

	sim_socketpair(ends);
	cr_assert_eq(transfer(IO_SENDMSG, ends[0], mem, sizeof(mem), MSG_WAITALL), sizeof(mem));
	short_receives += transfer(IO_RECVMSG, ends[1], mem, sizeof(mem), 0) < (ssize_t)sizeof(mem);
}

Test(sim, splits_make_receives_short)
{
	for (unsigned seed = 1; seed <= 50; seed++)
		run_with(plain(seed), receive_one);
	cr_assert_eq(short_receives, 0);
	for (unsigned seed = 1; seed <= 50; seed++) {
		struct sim_config config = plain(seed);

		config.net_split = 65536;
		run_with(config, receive_one);
	}
	cr_assert(short_receives > 5 && short_receives < 50, "%u", short_receives);
}

static void receive_all(void)
{
	char mem[8];

	sim_socketpair(ends);
	cr_assert_eq(transfer(IO_SENDMSG, ends[0], (char[]){ "abcd" }, 4, MSG_WAITALL), 4);
	cr_assert_eq(transfer(IO_SENDMSG, ends[0], (char[]){ "efgh" }, 4, MSG_WAITALL), 4);
	cr_assert_eq(transfer(IO_RECVMSG, ends[1], mem, 8, MSG_WAITALL), 8);
	cr_assert_eq(memcmp(mem, "abcdefgh", 8), 0);
	cr_assert_eq(transfer(IO_RECVMSG, ends[1], mem, 8, MSG_DONTWAIT), -EAGAIN);
	cr_assert_eq(transfer(IO_SENDMSG, ends[0], (char[]){ "ij" }, 2, MSG_WAITALL), 2);
	cr_assert_eq(io_shutdown(ends[0]), 0);
	cr_assert_eq(transfer(IO_RECVMSG, ends[1], mem, 8, MSG_WAITALL), 2);
	cr_assert_eq(transfer(IO_RECVMSG, ends[1], mem, 8, 0), 0);
	cr_assert_eq(transfer(IO_RECVMSG, ends[0], mem, 8, 0), 0);
	cr_assert_eq(transfer(IO_SENDMSG, ends[0], mem, 1, 0), -EPIPE);
}

Test(sim, waitall_dontwait_and_shutdown)
{
	for (unsigned seed = 1; seed < 20; seed++) {
		struct sim_config config = plain(seed);

		config.net_split = 30000;
		run_with(config, receive_all);
	}
}

static void broken(void)
{
	char mem[8];
	struct sim_config faults = { .net_reset = 65536 };

	sim_socketpair(ends);
	sim_set_faults(&faults);
	cr_assert_eq(transfer(IO_SENDMSG, ends[0], mem, 8, 0), -ECONNRESET);
	cr_assert_eq(transfer(IO_RECVMSG, ends[1], mem, 8, 0), -ECONNRESET);
	faults = (struct sim_config){ .net_drop = 65536 };
	sim_socketpair(ends);
	sim_set_faults(&faults);
	cr_assert_eq(transfer(IO_SENDMSG, ends[0], mem, 8, 0), 8);
	cr_assert_eq(transfer(IO_RECVMSG, ends[1], mem, 8, 0), -ECONNRESET);
	sim_set_faults(&(struct sim_config){ .net_drop = 0 });
	sim_socketpair(ends);
	cr_assert_eq(transfer(IO_SENDMSG, ends[0], mem, 8, 0), 8);
	io_close(ends[1]);
	cr_assert_eq(transfer(IO_RECVMSG, ends[0], mem, 8, 0), -ECONNRESET, "closed with bytes unread");
}

Test(sim, resets_and_drops)
{
	for (unsigned seed = 1; seed < 20; seed++)
		run_with(plain(seed), broken);
}

static struct io_op waiting;

static void cancel_it(void *arg)
{
	io_cancel(&waiting);
}

static void listen_and_cancel(void)
{
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);
	int listener = sim_listen(), client = sim_connect(listener), served = io_accept(listener, &addr, &len);
	char mem[4];
	struct iovec iov = { mem, 4 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	cr_assert_geq(served, 0);
	cr_assert_eq(addr.ss_family, AF_INET);
	cr_assert_eq(transfer(IO_SENDMSG, client, (char[]){ "ping" }, 4, MSG_WAITALL), 4);
	cr_assert_eq(transfer(IO_RECVMSG, served, mem, 4, MSG_WAITALL), 4);
	waiting = (struct io_op){ .code = IO_RECVMSG, .fd = served, .msg = &msg };
	fiber_spawn(cancel_it, NULL, "cancel");
	cr_assert_eq(io_call(&waiting, "receive"), -ECANCELED);
	waiting = (struct io_op){ .code = IO_ACCEPT, .fd = listener };
	fiber_spawn(cancel_it, NULL, "cancel");
	cr_assert_eq(io_call(&waiting, "accept"), -ECANCELED);
	fault_arm(FAULT_IO_ACCEPT, EMFILE, 0, 1);
	cr_assert_eq(io_accept(listener, NULL, NULL), -EMFILE);
	io_close(client);
	cr_assert_eq(transfer(IO_RECVMSG, served, mem, 4, 0), 0);
	io_close(served);
	io_close(listener);
	cr_assert_eq(sim_connect(client), -ECONNREFUSED);
}

Test(sim, listen_accept_and_cancel)
{
	for (unsigned seed = 1; seed < 20; seed++)
		run_with(plain(seed), listen_and_cancel);
}

static void scribble_send(void)
{
	static char mem[16];
	struct iovec iov = { mem, sizeof(mem) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct io_op op = { .code = IO_SENDMSG, .msg = &msg, .done = nothing };

	sim_socketpair(ends);
	op.fd = ends[0];
	io_submit(&op);
	mem[3] = 1;
	fiber_sleep_ns(1000000000);
}

Test(sim, memory_changed_under_a_send_aborts, .signal = SIGABRT)
{
	run_with(plain(1), scribble_send);
}

/* A receive that nobody answers does not keep the run from ending. */
static void leave_a_receive(void)
{
	static char mem[16];
	static struct iovec iov = { mem, sizeof(mem) };
	static struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	sim_socketpair(ends);
	waiting = (struct io_op){ .code = IO_RECVMSG, .fd = ends[0], .msg = &msg, .done = nothing };
	io_submit(&waiting);
}

Test(sim, operations_left_in_flight_are_cancelled_at_the_end)
{
	run_with(plain(1), leave_a_receive);
	cr_assert_eq(waiting.res, -ECANCELED);
}
