/* tests/unit/write_path_harness.c - see the header. */
#include "tests/unit/write_path_harness.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "iocache/mapping_impl.h"
#include "runtime/io.h"
#include "runtime/reactor.h"
#include "vfs/export.h"
#include "vfs/file.h"

enum { FILE_NUMBER = 1 };

struct mapping *rig_mapping;
uint32_t rig_unit;
struct vfs_call rig_call;
struct vfs_file *rig_file;
unsigned rig_lost;

static struct vfs_file file;
static struct export export = { .max_file_bytes = INT64_MAX };
static struct export_view view = { .export = &export };
static const struct rig_config *config;
static void (*body)(void);

static void data_lost(void *owner)
{
	rig_lost++;
	vfs_verifier_change();
}

static void open_file(void)
{
	int fd = sim_open(FILE_NUMBER, 0);
	struct statx stx;
	struct mapping_config mc = { .direct_fd = config->no_direct ? -1 : sim_open(FILE_NUMBER, SIM_DIRECT), .buffered_fd = fd, .data_lost = data_lost };

	ASSERT(io_fstatx(fd, STATX_BASIC_STATS | IO_STATX_ALIGN, &stx) == 0);
	mc.block = config->no_direct ? 0 : stx.stx_dio_offset_align;
	mc.read_block = config->no_direct ? 0 : mapping_statx_read_align(&stx);
	mc.size = stx.stx_size;
	mc.mtime = (struct timespec){ stx.stx_mtime.tv_sec, stx.stx_mtime.tv_nsec };
	mc.ctime = (struct timespec){ stx.stx_ctime.tv_sec, stx.stx_ctime.tv_nsec };
	file = (struct vfs_file){ .export = &export, .type = S_IFREG, .path_fd = fd, .local_fs = true, .io_open = true, .direct_fd = mc.direct_fd, .buffered_fd = fd, .refs = 1 };
	fiber_mutex_init(&file.open_mutex);
	rig_mapping = file.mapping = mapping_create(&mc);
	rig_unit = mapping_unit(rig_mapping);
	rig_file = &file;
	rig_call = (struct vfs_call){ .view = &view };
	view.options.write_mode = view.options.read_mode = EXPORT_MODE_DIRECT;
}

static void start(void *arg, unsigned index)
{
	cache_start();
	open_file();
	body();
	mapping_flush(rig_mapping);
	mapping_destroy(rig_mapping);
	runtime_stop();
}

static void make_world(const struct rig_config *c)
{
	struct sim_config sim = {
		.seed = 7, .block_bytes = c->no_direct ? 0 : c->block ? c->block : 4096, .read_block_bytes = c->read_block, .mem_align_bytes = 512, .disk_bytes = c->disk_bytes ? c->disk_bytes : 64 << 20,
		.latency_ns_max = c->latency_ns_max ? c->latency_ns_max : 100000,
	};

	config = c;
	sim_init(&sim);
	buf_init(64 << 20);
}

static int run_once(void (*test)(void))
{
	const struct reactor_config rc = { .reactors = 1, .fibers = 128 };
	int error;

	body = test;
	cache_init(&config->cache);
	cr_assert_eq(runtime_init(&rc), 0);
	error = runtime_run(start, NULL);
	runtime_fini();
	return error;
}

void rig_run(const struct rig_config *c, void (*test)(void))
{
	make_world(c);
	cr_assert_eq(run_once(test), 0);
}

void rig_run_cut(const struct rig_config *c, void (*test)(void), void (*after)(void))
{
	make_world(c);
	cr_assert_eq(run_once(test), -EPIPE, "the power was not cut");
	vfs_verifier_change();
	cr_assert_eq(run_once(after), 0);
}

void rig_check(void)
{
	leaf_lock(&rig_mapping->lock);
	mapping_check_locked(rig_mapping);
	leaf_unlock(&rig_mapping->lock);
}

int rig_write_skewed(uint64_t offset, uint32_t len, uint8_t value, enum vfs_stable stable, uint32_t skew)
{
	struct buf *b = buf_alloc(len + 2 * PAGE_BYTES);
	struct vfs_payload p = { .buf = b, .data = b->data + (offset + skew) % PAGE_BYTES, .len = len };
	struct vfs_write_result result;
	int error;

	memset(p.data, value, len);
	error = vfs_write(&rig_call, rig_file, offset, &p, stable, &result);
	if (!error)
		cr_assert(result.count == len && result.committed >= stable && result.wcc.post_valid);
	buf_put(b);
	rig_check();
	return error;
}

int rig_write(uint64_t offset, uint32_t len, uint8_t value, enum vfs_stable stable)
{
	return rig_write_skewed(offset, len, value, stable, 0);
}

int rig_commit(uint64_t offset, uint32_t count, uint64_t *verf)
{
	uint64_t unused;
	struct vfs_wcc wcc;

	int error = vfs_commit(&rig_call, rig_file, offset, count, verf ? verf : &unused, &wcc);

	rig_check();
	return error;
}

int rig_read(uint64_t offset, uint32_t len, uint8_t *got)
{
	struct vfs_read_result result;
	size_t at = 0;
	int error = vfs_read(&rig_call, rig_file, offset, len, &result);

	if (error)
		return error;
	for (unsigned i = 0; i < result.segments; at += result.iov[i].iov_len, i++)
		memcpy(got + at, result.iov[i].iov_base, result.iov[i].iov_len);
	cr_assert_eq(at, result.count);
	vfs_read_put(&result);
	rig_check();
	return (int)at;
}

static void expect(const char *who, const uint8_t *got, uint64_t offset, uint64_t len, uint8_t value)
{
	for (uint64_t i = 0; i < len; i++)
		cr_assert_eq(got[i], value, "%s: byte %llu is %u, not %u", who, (unsigned long long)(offset + i), got[i], value);
}

void rig_expect_read(uint64_t offset, uint32_t len, uint8_t value)
{
	uint8_t *got = malloc(len);

	cr_assert_eq(rig_read(offset, len, got), (int)len);
	expect("READ", got, offset, len, value);
	free(got);
}

void rig_expect_disk(uint64_t offset, uint64_t len, uint8_t value)
{
	uint8_t *got = malloc(len);

	cr_assert_eq(sim_peek(FILE_NUMBER, got, len, offset), (ssize_t)len, "the file ends before %llu", (unsigned long long)(offset + len));
	expect("disk", got, offset, len, value);
	free(got);
}

uint64_t rig_in_hand(uint64_t start_at, uint64_t end)
{
	static struct mapping_piece piece[4096];
	int n = mapping_read_pieces(rig_mapping, start_at, end, piece, ARRAY_SIZE(piece));
	uint64_t bytes = 0;

	cr_assert_geq(n, 0);
	for (int i = 0; i < n; i++) {
		bytes += piece[i].end - piece[i].start;
		buf_put(piece[i].buf);
	}
	return bytes;
}

void rig_settle(void)
{
	fiber_sleep_ns(1000000000);
	rig_check();
}

static void job_main(void *arg)
{
	struct rig_job *j = arg;

	j->error = rig_write(j->offset, j->len, j->value, j->stable);
	j->done = true;
}

void rig_start(struct rig_job *job, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		job[i].done = false;
		cr_assert_eq(fiber_spawn(job_main, &job[i], "writer"), 0);
	}
}

void rig_wait(struct rig_job *job, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		while (!job[i].done)
			fiber_sleep_ns(10000);
}

void rig_jobs(struct rig_job *job, unsigned n)
{
	rig_start(job, n);
	rig_wait(job, n);
}
