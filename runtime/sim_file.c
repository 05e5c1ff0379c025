/*
 * runtime/sim_file.c - file operations of the simulation: what a kernel does between io_submit() and the completion.
 *
 * An operation lives from submission to completion in one list, in the order of submission. It waits there until nothing that runs on the
 * file, and nothing that waits ahead of it, conflicts: ftruncate and fallocate exclude everything (inode lock); writes past the end of file
 * and buffered writes exclude each other; the rest runs side by side. While it runs it has two moments, both drawn:
 *
 *   landing   a read's bytes appear in memory; of a direct write an arbitrary part of the blocks inside the size reaches the device
 *   end       the rest of a write, then the size, then the completion
 *
 * The memory of a write is copied at submission and compared at both moments: whoever changes it in flight is caught even if the change would
 * have been harmless this time. An operation's fate (error, short, disk full) is drawn when it starts to run, and its space taken; under a model checker both at its end.
 *
 * A failed write leaves an arbitrary part of its blocks written inside the size, and nothing beyond: as a journalled file system does, where
 * extents past the old size stay unwritten.
 *
 * A power cut hands what runs to the disk as changes that nobody has synced, so that it is lost, torn or kept like these.
 *
 * References: an operation holds one on its file; the list owns the operation.
 */
#include "runtime/sim_world.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "runtime/fault.h"
#include "runtime/internal.h"
#include "runtime/io.h"

enum { RWF_KNOWN = RWF_HIPRI | RWF_DSYNC | RWF_SYNC | 0x80 /* RWF_DONTCACHE */ };

struct file_io {
	TAILQ_ENTRY(file_io) link;
	struct sim_event event;    /* landing, then end */
	struct io_op *op;
	struct disk_file *file;
	bool direct;
	bool running;
	bool grows;                /* at its start: a write past the end */
	unsigned iovcnt;           /* reads, writes: how much of op->iov is used (a kernel's limit, or an armed fault) */
	size_t len;
	size_t limit;              /* bytes that the fate allows */
	int error;                 /* the fate: 0 or -errno */
	uint8_t *copy;             /* writes: the memory at submission */
	uint64_t rest_ns;          /* from landing to end */
	struct disk_sync sync;
};

TAILQ_HEAD(file_ios, file_io);

static struct file_ios ios = TAILQ_HEAD_INITIALIZER(ios);

static bool is_write(const struct file_io *io)
{
	return io->op->code == IO_WRITEV;
}

static bool is_exclusive(const struct file_io *io)
{
	return io->op->code == IO_FTRUNCATE || io->op->code == IO_FALLOCATE;
}

/* A write that others of its kind wait for. */
static bool is_serial(const struct file_io *io)
{
	if (!is_write(io))
		return false;
	return !io->direct || (io->running ? io->grows : io->op->offset + io->len > io->file->size);
}

static bool conflicts(const struct file_io *a, const struct file_io *b)
{
	if (a->file != b->file || a->op->code == IO_FSYNC || b->op->code == IO_FSYNC)
		return false;
	return is_exclusive(a) || is_exclusive(b) || (is_serial(a) && is_serial(b));
}

static bool must_wait(const struct file_io *io)
{
	const struct file_io *other;
	bool ahead = true;

	TAILQ_FOREACH(other, &ios, link) {
		if (other == io)
			ahead = false;
		else if ((ahead || other->running) && conflicts(io, other))
			return true;
	}
	return false;
}

static void io_free(struct file_io *io)
{
	TAILQ_REMOVE(&ios, io, link);
	sim_event_disarm(&io->event);
	disk_put(io->file);
	free(io->copy);
	free(io);
}

/* The joint of a short transfer: whole blocks where direct. len if it cannot be shorter. */
static size_t short_len(const struct file_io *io)
{
	size_t unit = io->direct ? sim.disk.block_bytes : 1, units = io->len / unit;

	return units < 2 ? io->len : unit * (1 + sim_random(units - 1));
}

static void check_memory(const struct file_io *io)
{
	uint8_t *now = malloc(io->len);
	size_t len;

	ASSERT(now);
	len = sim_iov_gather(now, io->len, io->op->iov, io->iovcnt, 0);
	if (len != io->len || memcmp(now, io->copy, len) != 0)
		sim_panic("memory changed under a write in flight");
	free(now);
}

static int error_full(void)
{
	return sim.config.quota ? -EDQUOT : -ENOSPC;
}

/* A page cache goes page by page, and so takes what there is. */
static void take_space(struct file_io *io)
{
	bool fits = disk_missing(io->file, io->op->offset, io->limit) <= disk_room(&sim.disk);

	if (!fits && io->direct && sim_chance(sim.config.nospc_whole))
		io->limit = disk_reserve_whole(io->file, io->op->offset, io->limit);
	else
		io->limit = disk_reserve(io->file, io->op->offset, io->limit);
	if (!io->limit)
		io->error = error_full();
}

static void draw_write_fate(struct file_io *io)
{
	if (!io->error && sim_chance(sim.config.write_error))
		io->error = -EIO;
	if (io->error)
		return;
	if (sim_chance(sim.config.nospc))
		io->limit = sim_random(2) ? 0 : short_len(io) % io->len;
	else if (sim_chance(sim.config.short_write))
		io->limit = short_len(io);
	if (!sim.explorer.choose)
		take_space(io);
}

static void draw_read_fate(struct file_io *io)
{
	if (!io->error && sim_chance(sim.config.read_error))
		io->error = -EIO;
	else if (sim_chance(sim.config.short_read))
		io->limit = short_len(io);
}

/* An arbitrary part of the blocks that lie inside the size and have space. */
static void land_write(struct file_io *io)
{
	size_t unit = sim.disk.block_bytes, at;
	uint64_t offset;

	check_memory(io);
	if (!io->direct || (io->error && io->error != -EIO))
		return;
	for (at = 0; at < io->limit; at += unit) {
		offset = io->op->offset + at;
		if (offset + unit <= io->file->size && !disk_missing(io->file, offset, unit) && sim_random(2))
			disk_write_part(io->file, io->copy + at, unit, offset);
	}
}

static void count_read(size_t len)
{
	sim.stats.reads++;
	sim.stats.read_bytes += len;
	sim.stats.edge_reads += len <= max_u64(PAGE_BYTES, sim.disk.block_bytes);
}

static void land_read(struct file_io *io)
{
	uint8_t *bytes;
	bool device;

	if (io->error)
		return;
	bytes = malloc(io->limit);
	ASSERT(bytes);
	io->limit = disk_read(io->file, bytes, io->limit, io->op->offset, &device);
	sim_iov_scatter(io->op->iov, io->iovcnt, 0, bytes, io->limit);
	free(bytes);
	if (device)
		count_read(io->limit);
}

static void sync_written(struct file_io *io)
{
	enum disk_sync_result result = io->op->flags & RWF_SYNC ? DISK_SYNC_ALL : DISK_SYNC_DATA;
	struct disk_sync sync;

	disk_sync_begin(io->file, &sync, io->op->offset, io->op->offset + io->limit);
	disk_sync_end(io->file, &sync, result);
}

static ssize_t end_write(struct file_io *io)
{
	check_memory(io);
	if (io->error)
		return io->error;
	if (sim.explorer.choose)
		disk_reserve(io->file, io->op->offset, io->limit);
	disk_write(io->file, io->copy, io->limit, io->op->offset);
	if (io->op->flags & (RWF_DSYNC | RWF_SYNC))
		sync_written(io);
	sim.stats.writes++;
	sim.stats.write_bytes += io->limit;
	return (ssize_t)io->limit;
}

static ssize_t end_fsync(struct file_io *io)
{
	int error = !io->error && sim_chance(sim.config.fsync_error) ? -EIO : io->error;
	enum disk_sync_result good = io->op->flags & IO_FSYNC_DATA ? DISK_SYNC_DATA : DISK_SYNC_ALL;

	disk_sync_end(io->file, &io->sync, error ? DISK_SYNC_FAILED : good);
	sim.stats.fsyncs++;
	return error;
}

static ssize_t end_fallocate(struct file_io *io)
{
	const struct io_op *op = io->op;
	bool keep = op->flags & FALLOC_FL_KEEP_SIZE, punch = op->flags & FALLOC_FL_PUNCH_HOLE;
	bool full = disk_missing(io->file, op->offset, op->len) > disk_room(&sim.disk) || sim_chance(sim.config.nospc);

	if (!punch && full)
		return error_full();
	if (op->flags & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE))
		disk_zero(io->file, op->offset, op->offset + op->len, punch);
	if (!punch)
		disk_reserve(io->file, op->offset, op->len);
	if (!keep)
		disk_grow(io->file, op->offset + op->len);
	disk_set_times(io->file, sim_file_time());
	return 0;
}

static ssize_t end_truncate(struct file_io *io)
{
	disk_truncate(io->file, io->op->len);
	disk_set_times(io->file, sim_file_time());
	return 0;
}

static ssize_t end_result(struct file_io *io)
{
	switch (io->op->code) {
	case IO_READV: return io->error ? io->error : (ssize_t)io->limit;
	case IO_WRITEV: return end_write(io);
	case IO_FSYNC: return end_fsync(io);
	case IO_FTRUNCATE: return end_truncate(io);
	default: return end_fallocate(io);
	}
}

static void io_start(struct file_io *io);

static void start_what_can(const struct disk_file *file)
{
	struct file_io *io;

	TAILQ_FOREACH(io, &ios, link)
		if (io->file == file && !io->running && !must_wait(io))
			io_start(io);
}

static void io_end(struct sim_event *e)
{
	struct file_io *io = container_of(e, struct file_io, event);
	struct io_op *op = io->op;
	struct disk_file *file = disk_get(io->file);
	ssize_t res = end_result(io);

	io_free(io);
	start_what_can(file);
	disk_put(file);
	sim_complete(op, res);
}

static void io_land(struct sim_event *e)
{
	struct file_io *io = container_of(e, struct file_io, event);

	if (is_write(io))
		land_write(io);
	else if (io->op->code == IO_READV)
		land_read(io);
	e->fn = io_end;
	sim_event_arm(e, io->rest_ns);
}

static void io_start(struct file_io *io)
{
	uint64_t latency = sim_latency(), landing = sim_random(latency + 1);

	if (is_write(io)) {
		io->grows = io->op->offset + io->len > io->file->size;
		draw_write_fate(io);
		disk_set_times(io->file, sim_file_time());
	} else if (io->op->code == IO_READV) {
		draw_read_fate(io);
	}
	io->running = true;
	io->rest_ns = latency - landing;
	io->event.fn = sim.explorer.choose && io->op->code != IO_READV ? io_end : io_land;
	sim_event_arm(&io->event, landing);
}

/* The rules of O_DIRECT; every piece of memory is judged, as kernels before 6.18 do. */
static bool is_aligned(const struct io_op *op)
{
	bool fine = op->code == IO_READV && sim.config.read_block_bytes;
	uint64_t block = (fine ? sim.config.read_block_bytes : sim.config.block_bytes) - 1, mem = sim.config.mem_align_bytes ? sim.config.mem_align_bytes - 1 : block;
	unsigned i;

	for (i = 0; i < op->iovcnt; i++)
		if (((uintptr_t)op->iov[i].iov_base & mem) || (op->iov[i].iov_len & block))
			return false;
	return !(op->offset & block);
}

static int check_transfer(const struct io_op *op, const struct sim_fd *fd)
{
	size_t len;

	if (op->flags & ~(unsigned)RWF_KNOWN)
		return -EOPNOTSUPP;
	len = sim_iov_len(op->iov, op->iovcnt);
	if (len > INT32_MAX || op->offset > (uint64_t)INT64_MAX - len)
		return -EINVAL;
	return (fd->flags & SIM_DIRECT) && !is_aligned(op) ? -EINVAL : 0;
}

static int check_fallocate(const struct io_op *op)
{
	unsigned mode = op->flags & ~(unsigned)FALLOC_FL_KEEP_SIZE;

	if (!op->len || op->len > INT64_MAX || op->offset > INT64_MAX - op->len)
		return -EINVAL;
	if (mode == FALLOC_FL_PUNCH_HOLE)
		return op->flags & FALLOC_FL_KEEP_SIZE ? 0 : -EOPNOTSUPP;
	return mode == 0 || mode == FALLOC_FL_ZERO_RANGE ? 0 : -EOPNOTSUPP;
}

/* 0, or -errno that a kernel would answer before it does anything. */
static int check_op(const struct io_op *op, const struct sim_fd *fd)
{
	bool changes = op->code == IO_WRITEV || op->code == IO_FTRUNCATE || op->code == IO_FALLOCATE;

	if (changes && (fd->flags & SIM_READ_ONLY))
		return op->code == IO_FTRUNCATE ? -EINVAL : -EBADF;
	switch (op->code) {
	case IO_READV:
	case IO_WRITEV: return check_transfer(op, fd);
	case IO_FTRUNCATE: return op->len > INT64_MAX ? -EINVAL : 0;
	case IO_FALLOCATE: return check_fallocate(op);
	case IO_FSYNC: return 0;
	default: return -ENOTSOCK;
	}
}

static void prepare_transfer(struct file_io *io)
{
	const struct io_op *op = io->op;
	size_t first;

	io->error = -io_shape(op, &io->iovcnt, &first);
	io->len = io->limit = io->iovcnt == 1 ? first : sim_iov_len(op->iov, io->iovcnt);
	if (!is_write(io))
		return;
	io->copy = malloc(io->len);
	ASSERT(io->copy);
	sim_iov_gather(io->copy, io->len, op->iov, io->iovcnt, 0);
}

static void prepare_fsync(struct file_io *io)
{
	io->error = -fault_hit(FAULT_IO_FSYNC);
	disk_sync_begin(io->file, &io->sync, 0, UINT64_MAX);
}

static bool is_empty_transfer(const struct io_op *op)
{
	return (op->code == IO_READV || op->code == IO_WRITEV) && !sim_iov_len(op->iov, op->iovcnt);
}

void sim_file_submit(struct io_op *op, const struct sim_fd *fd)
{
	int error = check_op(op, fd);
	struct file_io *io;

	if (sim.explorer.submitted)
		sim.explorer.submitted(op);
	if (error || is_empty_transfer(op)) {
		sim_complete_later(op, error);
		return;
	}
	io = calloc(1, sizeof(*io));
	ASSERT(io);
	io->op = op;
	io->file = disk_get(fd->file);
	io->direct = fd->flags & SIM_DIRECT;
	TAILQ_INSERT_TAIL(&ios, io, link);
	if (op->code == IO_READV || op->code == IO_WRITEV)
		prepare_transfer(io);
	else if (op->code == IO_FSYNC)
		prepare_fsync(io);
	if (!must_wait(io))
		io_start(io);
}

/* What becomes of it when the power goes, on `file`. */
static void land(const struct file_io *io, struct disk_file *file)
{
	if (io->running && !io->error && is_write(io)) {
		if (sim.explorer.choose)
			disk_reserve(file, io->op->offset, io->limit);
		disk_write(file, io->copy, io->limit, io->op->offset);
	} else if (io->running && io->op->code == IO_FTRUNCATE) {
		disk_truncate(file, io->op->len);
	}
}

static void io_cut(struct file_io *io)
{
	land(io, io->file);
	io_free(io);
}

void sim_file_land(const struct disk_file *file, struct disk_file *copy)
{
	const struct file_io *io;

	TAILQ_FOREACH(io, &ios, link)
		if (io->file == file)
			land(io, copy);
}

static bool is_needy(const struct file_io *io)
{
	return io->running && is_write(io) && !io->error && disk_missing(io->file, io->op->offset, io->limit);
}

unsigned sim_file_count_needy(void)
{
	const struct file_io *io;
	unsigned n = 0;

	TAILQ_FOREACH(io, &ios, link)
		n += is_needy(io);
	return n;
}

void sim_file_refuse(unsigned n)
{
	struct file_io *io = TAILQ_FIRST(&ios);

	while (!is_needy(io) || n--)
		io = TAILQ_NEXT(io, link);
	io->limit = disk_allocated_up_to(io->file, io->op->offset, io->limit);
	if (!io->limit)
		io->error = error_full();
	sim_event_deliver(&io->event);
}

/* What a read has brought into memory already. */
static uint64_t hash_of_read(const struct file_io *io, uint64_t hash)
{
	size_t left = io->error ? 0 : io->limit, part;

	for (unsigned i = 0; i < io->iovcnt && left; i++, left -= part) {
		part = min_u64(left, io->op->iov[i].iov_len);
		hash = sim_hash(hash, io->op->iov[i].iov_base, part);
	}
	return hash;
}

static uint64_t io_hash(const struct file_io *io)
{
	uint64_t words[] = {
		io->file->number, io->op->code, io->op->offset, io->op->len, io->op->flags, io->len, io->limit, (uint64_t)io->error,
		io->running, io->grows, io->direct, io->event.fn == io_land, io->op->code == IO_FSYNC ? io->sync.seq : 0,
	};
	uint64_t hash = sim_hash(0, words, sizeof(words));

	if (io->copy)
		return sim_hash(hash, io->copy, io->len);
	return io->op->code == IO_READV && io->event.fn == io_end ? hash_of_read(io, hash) : hash;
}

/* What runs is a set, what waits is in order. */
uint64_t sim_file_hash(void)
{
	uint64_t running = 0, waiting = 0;
	const struct file_io *io;

	TAILQ_FOREACH(io, &ios, link) {
		if (io->running)
			running += io_hash(io);
		else
			waiting = sim_hash_word(waiting, io_hash(io));
	}
	return sim_hash_word(running, waiting);
}

void sim_file_cut(void)
{
	while (!TAILQ_EMPTY(&ios))
		io_cut(TAILQ_FIRST(&ios));
}

static struct statx_timestamp to_statx(struct timespec t)
{
	return (struct statx_timestamp){ .tv_sec = t.tv_sec, .tv_nsec = (uint32_t)t.tv_nsec };
}

int sim_file_statx(const struct sim_fd *fd, struct statx *stx)
{
	const struct disk_file *f = fd->file;

	*stx = (struct statx){
		.stx_mask = STATX_BASIC_STATS | STATX_BTIME | STATX_DIOALIGN,
		.stx_blksize = PAGE_BYTES,
		.stx_nlink = !f->unlinked,
		.stx_mode = S_IFREG | 0644,
		.stx_ino = f->number,
		.stx_size = f->size,
		.stx_blocks = f->allocated * (f->disk->block_bytes / 512),
		.stx_atime = to_statx(f->btime),
		.stx_btime = to_statx(f->btime),
		.stx_ctime = to_statx(f->times.ctime),
		.stx_mtime = to_statx(f->times.mtime),
		.stx_dio_mem_align = sim.config.block_bytes ? sim.config.mem_align_bytes : 0,
		.stx_dio_offset_align = sim.config.block_bytes,
		.stx_dev_major = 8,
	};
	if (sim.config.read_block_bytes) {
		stx->stx_mask |= IO_STATX_DIO_READ_ALIGN;
		memcpy((uint8_t *)stx + IO_STATX_DIO_READ_ALIGN_AT, &sim.config.read_block_bytes, sizeof sim.config.read_block_bytes);
	}
	return 0;
}
