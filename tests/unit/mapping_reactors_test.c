/*
 * tests/unit/mapping_reactors_test.c - one mapping shared by the fibers of two reactors, over a real file: interleaved and overlapping WRITEs, stable and not, with
 * READs between them, byte-exact at the end. Under TSan it says whether what reactors share is guarded.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "iocache/mapping.h"
#include "runtime/buf.h"
#include "runtime/clock.h"
#include "runtime/fiber.h"
#include "runtime/io.h"
#include "runtime/reactor.h"

enum { RECORD = 6000, RECORDS = 1500, WRITERS = 8 };

static struct mapping *m;
static int direct_fd, buffered_fd;
static _Atomic unsigned next_record, running, ready, errors;

static uint8_t value_of(unsigned record)
{
	return (uint8_t)(1 + record % 251);
}

static void write_record(unsigned i)
{
	struct buf *b = buf_alloc(RECORD + PAGE_BYTES);
	uint64_t offset = (uint64_t)i * RECORD;
	struct mapping_payload p = { .buf = b, .data = b->data + offset % PAGE_BYTES, .len = RECORD, .unstable = i % 3 == 0, .how = MAPPING_SYNC_DATA };
	struct mapping_write w;

	memset(p.data, value_of(i), RECORD);
	if (mapping_write_begin(m, &w, i, offset, RECORD) || mapping_stage(m, &w, &p))
		abort();
	mapping_write_end(m, &w);
	if (!p.unstable && mapping_write_wait(m, &w))
		errors++;
	buf_put(b);
}

/* What a READ finds in hand of a record that was written is its bytes. */
static void read_record(unsigned i)
{
	uint64_t start = (uint64_t)i * RECORD, end = start + RECORD;
	struct mapping_piece piece[16];
	struct range_hold hold;

	mapping_read_begin(m, &hold, start, end);
	int n = mapping_read_pieces(m, start, end, piece, 16);
	for (int k = 0; k < n; k++) {
		for (uint64_t at = piece[k].start; at < piece[k].end; at++)
			errors += piece[k].data[at - piece[k].start] != value_of(i);
		buf_put(piece[k].buf);
	}
	mapping_read_end(m, &hold);
}

static void writer(void *arg)
{
	for (unsigned i; (i = next_record++) < RECORDS;) {
		write_record(i);
		read_record(i);
		if (i % 50 == 0 && mapping_commit(m, 0, UINT64_MAX))
			errors++;
	}
	running--;
}

static void check_disk(void)
{
	uint8_t got[RECORD];

	for (unsigned i = 0; i < RECORDS; i++) {
		cr_assert_eq(pread(buffered_fd, got, RECORD, (off_t)i * RECORD), RECORD);
		for (unsigned k = 0; k < RECORD; k++)
			cr_assert_eq(got[k], value_of(i), "record %u byte %u", i, k);
	}
}

static void start(void *arg, unsigned index)
{
	ready++;
	if (index == 0)
		cache_start();
	for (unsigned i = 0; i < WRITERS; i++)
		cr_assert_eq(fiber_spawn(writer, NULL, "writer"), 0);
	if (index != 0)
		return;
	while (running || ready < 2)
		fiber_sleep_ns(1000000);
	cr_assert_eq(mapping_flush(m), 0);
	cr_assert(mapping_is_idle(m));
	mapping_destroy(m);
	runtime_stop();
}

static void make_file(void)
{
	char path[] = "mapping_reactors.XXXXXX";
	struct statx stx;
	struct mapping_config config;

	buffered_fd = mkstemp(path);
	direct_fd = open(path, O_RDWR | O_DIRECT);
	unlink(path);
	if (direct_fd < 0)
		cr_skip_test("no direct I/O on the build directory's file system");
	cr_assert_eq(statx(buffered_fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &stx), 0);
	config = (struct mapping_config){ .direct_fd = direct_fd, .buffered_fd = buffered_fd, .block = PAGE_BYTES, .ctime = { stx.stx_ctime.tv_sec, stx.stx_ctime.tv_nsec } };
	m = mapping_create(&config);
}

Test(mapping_reactors, two_reactors_share_a_file) /* 1b.6 */
{
	struct reactor_config config = { .reactors = 2, .fibers = 64 };

	cr_assert_eq(buf_init(64 << 20), 0);
	cr_assert_eq(cache_init(&(struct cache_config){ .dirty_bytes_max = 1 << 20 }), 0);
	make_file();
	running = 2 * WRITERS;
	cr_assert_eq(runtime_init(&config), 0);
	cr_assert_eq(runtime_run(start, NULL), 0);
	runtime_fini();
	check_disk();
	cr_assert_eq(errors, 0);
}
