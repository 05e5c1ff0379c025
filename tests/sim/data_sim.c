/*
 * tests/sim/data_sim.c - the data path on the simulated backend: one seed, one schedule, one disk, one verdict.
 *
 * Several clients WRITE, READ, COMMIT and truncate one file through vfs/data.c; a byte-exact model says what each READ must return. Clients never touch the same
 * *bytes* at once (so the model has one answer), but share units all the time. Each client keeps what it wrote UNSTABLE, and sends it
 * again when the verifier changes, as a real one does. Three kinds of seed:
 *   plain   no faults: every byte, every eof, every size as the model has it, and the same on the disk at the end;
 *   fault   EIO, ENOSPC, short transfers: what was acknowledged as stable is there, what failed may be old or new;
 *   crash   the power is cut at a step drawn from the seed; the disk then holds every stable byte, and no byte that nobody wrote; clients send
 *           again what was not committed, and the file is the model's;
 *   full    a disk on which some writes of a round find space and others do not: others fill and free it all the while, overwrites need none. Then the power is cut.
 *           What was answered as stable, or committed under an unchanged verifier, is there; what was refused may be there or not; nothing else.
 *
 * --all-cuts takes one seed and cuts its power at every step of its schedule, one after the other.
 *
 * For each byte the test keeps the set of values it may have after a crash now: the last stable one and all that were written since. With a full disk also the set of
 * those that a READ may return: the last one that was not refused, and the refused ones since; a COMMIT makes that the set of what a crash may leave.
 *
 * Usage: data_sim [--seeds FIRST COUNT] [--seed N] [--kind plain|fault|crash|full] [--cut STEP] [--all-cuts] [--minutes M]. A failure prints how to
 * run it again.
 */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "iocache/mapping_impl.h"
#include "runtime/buf.h"
#include "runtime/clock.h"
#include "runtime/counter.h"
#include "runtime/fiber.h"
#include "runtime/io.h"
#include "runtime/log.h"
#include "runtime/reactor.h"
#include "runtime/sim.h"
#include "vfs/data.h"
#include "vfs/export.h"
#include "vfs/file.h"

/* The file has room for some units, and an I/O for some of them with an edge at each end, whatever the block. */
enum { FILE_BYTES_MIN = 160 << 10, FILE_UNITS = 6, IO_BYTES_MIN = 48 << 10, IO_HALF_UNITS = 5, BLOCK_MAX = 64 << 10, FILE_BYTES_MAX = FILE_UNITS * BLOCK_MAX };
enum { CLIENTS_MAX = 6, CLIENTS_MAX_FULL = 12, LOG_MAX = 4096, FILE_NUMBER = 1 };

/* How long others may leave the disk as it is: so long that what was refused is given up. */
static const uint64_t LASTS_LONG_NS = 100000000000;

enum kind { PLAIN, FAULT, CRASH, FULL, KINDS };
static const char *const kind_name[] = {
	"plain", /* 1.5, 1.6, 1b.1, 1b.6, 3.7, 5.7 */
	"fault", /* 1.7, 1b.8, 2.9, 5.8 */
	"crash", /* 1.8, 1.13, 1b.4 */
	"full", /* 1.8, 1b.8, 5.8 */
};

struct value_set {
	uint64_t bits[4];
};

/* A WRITE that was acknowledged UNSTABLE and not committed since. */
struct uncommitted {
	uint64_t offset, id, verf;
	uint32_t len;
	uint8_t *data;
};

struct active {
	bool used, exclusive, is_write;
	uint64_t start, end;
	uint64_t size; /* a COMMIT's: of what was there when it began, the least size since */
	const uint8_t *data;
};

static struct world {
	enum kind kind;
	uint64_t seed;
	bool buffered, verbose;
	uint32_t block;                   /* what direct I/O asks for; 0: there is none */
	uint64_t file_bytes;              /* nobody writes beyond */
	uint32_t io_bytes_max;
	unsigned copied;                  /* per cent of the WRITEs in dontcache mode */
	uint32_t record, clients, ops, truncates;
	uint64_t next_record, next_id;
	uint64_t room_lasts_ns;           /* full: at most */
	/* the model */
	uint8_t bytes[FILE_BYTES_MAX];
	uint8_t unknown[FILE_BYTES_MAX];      /* 1: a failed WRITE left it old or new */
	struct value_set shown[FILE_BYTES_MAX]; /* full: what a READ may return */
	uint64_t ok_id[FILE_BYTES_MAX];       /* full: the last WRITE of it that was not refused ... */
	uint64_t ok_verf[FILE_BYTES_MAX];     /* ... the verifier it was answered with; 0: stable */
	uint64_t byte_id[FILE_BYTES_MAX];     /* which WRITE gave it */
	struct value_set allowed[FILE_BYTES_MAX];
	uint64_t size, stable_size, size_max;
	uint64_t truncating_to;           /* a truncate is under way; UINT64_MAX: none */
	bool size_unknown;
	struct uncommitted log[LOG_MAX];
	unsigned logged;
	struct active active[CLIENTS_MAX_FULL + 1];
	/* the server */
	struct vfs_file file;
	struct export export;
	struct export_view view;
	struct vfs_call call;
	unsigned running;
	uint64_t cut_at;                  /* crash: the step to cut at; 0: drawn; UINT64_MAX: none */
	uint64_t steps;                   /* that the run took */
} w;

static uint64_t *steps_taken; /* shared with the children */

#define CHECK(cond, ...) do { if (!(cond)) fail(__LINE__, #cond, __VA_ARGS__); } while (0)

__attribute__((format(printf, 3, 4), noreturn)) static void fail(int line, const char *cond, const char *fmt, ...)
{
	va_list ap;

	printf("# FAILED %s seed %llu (blocks of %u): line %d: %s: ", kind_name[w.kind], (unsigned long long)w.seed, w.block, line, cond);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n# again: data_sim --kind %s --seed %llu --cut %llu\n", kind_name[w.kind], (unsigned long long)w.seed, (unsigned long long)w.cut_at);
	fflush(stdout);
	_exit(1);
}

#define SAY(...) do { if (w.verbose) { printf("# "); printf(__VA_ARGS__); printf("\n"); } } while (0)

static bool chance(uint32_t percent)
{
	return sim_random(100) < percent;
}

static void set_add(struct value_set *s, uint8_t v)
{
	s->bits[v / 64] |= 1ull << v % 64;
}

static void set_add_all(struct value_set *s, const struct value_set *more)
{
	for (unsigned k = 0; k < ARRAY_SIZE(s->bits); k++)
		s->bits[k] |= more->bits[k];
}

static void set_only(struct value_set *s, uint8_t v)
{
	*s = (struct value_set){ { 0 } };
	set_add(s, v);
}

static bool set_has(const struct value_set *s, uint8_t v)
{
	return s->bits[v / 64] >> v % 64 & 1;
}

static void allow(uint64_t i, uint8_t v)
{
	set_add(&w.allowed[i], v);
}

static bool is_allowed(uint64_t i, uint8_t v)
{
	return set_has(&w.allowed[i], v);
}

/* And what is under way, of which nobody knows yet. */
static void allow_only(uint64_t i, const struct value_set *s)
{
	w.allowed[i] = *s;
	if (i >= w.truncating_to)
		allow(i, 0);
	for (unsigned k = 0; k < ARRAY_SIZE(w.active); k++)
		if (w.active[k].used && w.active[k].is_write && w.active[k].start <= i && i < w.active[k].end)
			allow(i, w.active[k].data[i - w.active[k].start]);
}

/* The power went while this fiber ran: it learns it from its dead descriptors, and ends here. */
static void end_if_cut(int error)
{
	if (w.kind >= CRASH && (error == -ESTALE || error == -EBADF))
		fiber_park("power cut", NULL);
}

/* An error that this kind of seed brings about. */
static bool is_expected(int error)
{
	return w.kind == FAULT || (w.kind == FULL && (error == -ENOSPC || error == -EDQUOT));
}

/* Take [start, end) for one operation; bytes in use by a conflicting one: wait. */
static struct active *reserve(uint64_t start, uint64_t end, bool exclusive, bool is_write, const uint8_t *data)
{
	struct active *mine;

	for (;;) {
		bool conflict = false;

		mine = NULL;
		for (unsigned i = 0; i < ARRAY_SIZE(w.active); i++) {
			struct active *a = &w.active[i];

			if (!a->used)
				mine = a;
			else if (a->start < end && start < a->end && (exclusive || a->exclusive))
				conflict = true;
		}
		if (mine && !conflict)
			break;
		fiber_sleep_ns(1000 + sim_random(100000));
	}
	*mine = (struct active){ .used = true, .exclusive = exclusive, .is_write = is_write, .start = start, .end = end, .data = data };
	return mine;
}

static void model_write(uint64_t offset, const uint8_t *data, uint32_t len, uint64_t id)
{
	for (uint32_t i = 0; i < len; i++) {
		w.bytes[offset + i] = data[i];
		w.byte_id[offset + i] = id;
		w.unknown[offset + i] = 0;
	}
	w.size = max_u64(w.size, offset + len);
	w.size_max = max_u64(w.size_max, w.size);
}

static void model_stable(uint64_t start, uint64_t end, uint64_t up_to_id)
{
	struct value_set s;

	for (uint64_t i = start; i < end; i++) {
		if (w.byte_id[i] > up_to_id || w.unknown[i])
			continue;
		set_only(&s, w.bytes[i]);
		allow_only(i, &s);
	}
}

/* full: a WRITE was not refused; verf: 0 if it is stable. */
static void model_shown(uint64_t offset, const uint8_t *data, uint32_t len, uint64_t id, uint64_t verf)
{
	for (uint32_t i = 0; i < len; i++) {
		set_only(&w.shown[offset + i], data[i]);
		w.ok_id[offset + i] = id;
		w.ok_verf[offset + i] = verf;
	}
}

/* full: this may be there or not, and what was acknowledged before for these bytes is not to be sent again. */
static void model_refused(uint64_t offset, const uint8_t *data, uint32_t len)
{
	uint64_t id = ++w.next_id;

	for (uint32_t i = 0; i < len; i++) {
		set_add(&w.shown[offset + i], data[i]);
		w.byte_id[offset + i] = id;
	}
}

/* full: the verifier has changed, so all that is not stable may have gone. */
static void model_lost(void)
{
	for (uint64_t i = 0; i < w.file_bytes; i++)
		set_add_all(&w.shown[i], &w.allowed[i]);
	w.size = w.stable_size;
}

/* full: a COMMIT that began with WRITE number `id` the last one was answered with verf. */
static void model_committed(uint64_t i, uint64_t id, uint64_t verf)
{
	if (w.ok_id[i] <= id && (!w.ok_verf[i] || w.ok_verf[i] == verf))
		allow_only(i, &w.shown[i]);
}

static void model_failed_write(uint64_t offset, uint32_t len)
{
	uint64_t id = ++w.next_id; /* what was acknowledged before for these bytes is not to be sent again */

	memset(&w.unknown[offset], 1, len);
	for (uint32_t i = 0; i < len; i++)
		w.byte_id[offset + i] = id;
	w.size_unknown = true;
	w.size_max = max_u64(w.size_max, offset + len);
}

static void log_uncommitted(uint64_t offset, const uint8_t *data, uint32_t len, uint64_t id, uint64_t verf)
{
	CHECK(w.logged < LOG_MAX, "log full");
	struct uncommitted *u = &w.log[w.logged++];

	*u = (struct uncommitted){ .offset = offset, .id = id, .verf = verf, .len = len, .data = malloc(len) };
	memcpy(u->data, data, len);
}

/* Bytes of the log that later WRITEs replaced must not be sent again: cut to what is still the newest. */
static bool still_newest(const struct uncommitted *u, uint32_t i)
{
	return w.byte_id[u->offset + i] == u->id;
}

static int send_write(uint64_t offset, const uint8_t *data, uint32_t len, enum vfs_stable stable, uint64_t *verf)
{
	struct buf *b = NULL;
	struct vfs_write_result r;
	struct vfs_payload p;
	uint32_t skew = chance(5) ? (uint32_t)sim_random(PAGE_BYTES) : 0; /* as privacy-wrapped calls would */
	int error;

	while (!(b = buf_alloc(len + 2 * PAGE_BYTES)))
		buf_wait(len, clock_mono_ns() + 1000000);
	p = (struct vfs_payload){ .buf = b, .data = b->data + (offset + skew) % PAGE_BYTES, .len = len };
	memcpy(p.data, data, len);
	if (!w.buffered)
		w.view.options.write_mode = chance(w.copied) ? EXPORT_MODE_DONTCACHE : EXPORT_MODE_DIRECT;
	error = vfs_write(&w.call, &w.file, offset, &p, stable, &r);
	end_if_cut(error);
	buf_put(b);
	if (!error) {
		CHECK(r.count == len && r.committed >= stable, "count %u committed %d", r.count, r.committed);
		CHECK(r.wcc.post_valid, "no post-op attributes");
		*verf = r.verf;
	}
	return error;
}

static void pick_range(uint64_t *offset, uint32_t *len)
{
	if (w.record && chance(60) && (w.next_record + 1) * w.record <= w.file_bytes) {
		*offset = w.next_record++ * w.record;
		*len = w.record;
		return;
	}
	*len = 1 + (uint32_t)(chance(50) ? sim_random(600) : sim_random(w.io_bytes_max));
	*offset = sim_random(w.file_bytes - *len);
	if (chance(30))
		*offset = align_down(*offset, PAGE_BYTES);
}

/* The verifier has changed between a WRITE and its answer. */
static void written_and_lost(uint64_t offset, uint32_t len)
{
	if (w.kind == FULL)
		model_lost();
	else
		memset(&w.unknown[offset], 1, len);
}

static void do_write(void)
{
	static const enum vfs_stable stables[] = { VFS_UNSTABLE, VFS_UNSTABLE, VFS_DATA_SYNC, VFS_FILE_SYNC };
	uint64_t offset, verf = 0, id;
	enum vfs_stable stable = stables[sim_random(4)];
	uint32_t len;

	pick_range(&offset, &len);
	uint8_t *data = malloc(len);
	for (uint32_t i = 0; i < len; i++)
		data[i] = (uint8_t)(1 + sim_random(255));
	struct active *a = reserve(offset, offset + len, true, true, data);
	for (uint32_t i = 0; i < len; i++)
		allow(offset + i, data[i]);
	w.size_max = max_u64(w.size_max, offset + len);
	id = ++w.next_id;
	SAY("write [%llu, %llu) stable %d id %llu", (unsigned long long)offset, (unsigned long long)(offset + len), stable, (unsigned long long)id);
	int error = send_write(offset, data, len, stable, &verf);
	SAY("write id %llu: %d", (unsigned long long)id, error);
	CHECK(!error || is_expected(error), "WRITE failed: %d", error);
	if (error && w.kind == FULL) {
		model_refused(offset, data, len);
	} else if (error) {
		model_failed_write(offset, len);
	} else {
		model_write(offset, data, len, id);
		model_shown(offset, data, len, id, stable == VFS_UNSTABLE ? verf : 0);
		if (stable == VFS_UNSTABLE) {
			log_uncommitted(offset, data, len, id, verf);
			if (verf != vfs_verifier())
				written_and_lost(offset, len);
		} else {
			model_stable(offset, offset + len, id);
			w.stable_size = max_u64(w.stable_size, offset + len);
		}
	}
	a->used = false;
	free(data);
}

/* What a READ may find there. */
static bool is_right(uint64_t i, uint8_t got)
{
	return w.kind == FULL ? set_has(&w.shown[i], got) : got == w.bytes[i] || w.unknown[i];
}

static void compare(uint64_t offset, const uint8_t *got, uint64_t n, const char *what)
{
	for (uint64_t i = 0; i < n; i++)
		CHECK(is_right(offset + i, got[i]), "%s: byte %llu is %u, should be %u (write %llu)", what,
		      (unsigned long long)(offset + i), got[i], w.bytes[offset + i], (unsigned long long)w.byte_id[offset + i]);
}

static void do_read(void)
{
	uint64_t offset;
	uint32_t len;
	struct vfs_read_result r;

	pick_range(&offset, &len);
	struct active *a = reserve(offset, offset + len, false, false, NULL);
	uint64_t size_before = w.size, end = offset + len;
	int error = vfs_read(&w.call, &w.file, offset, len, &r);
	end_if_cut(error);
	CHECK(!error || w.kind == FAULT, "READ failed: %d", error);
	if (!error) {
		uint64_t at = offset;

		SAY("read [%llu, +%u): %u eof %d", (unsigned long long)offset, len, r.count, r.eof);
		size_before = min_u64(size_before, w.size); /* the verifier may have changed meanwhile */
		for (unsigned i = 0; i < r.segments; at += r.iov[i].iov_len, i++)
			compare(at, r.iov[i].iov_base, r.iov[i].iov_len, "READ");
		CHECK(at == offset + r.count, "segments do not add up");
		if (!w.size_unknown) {
			CHECK(r.count >= (offset < size_before ? min_u64(len, size_before - offset) : 0), "READ too short: %u", r.count);
			CHECK((end < size_before ? !r.eof : end >= w.size_max ? r.eof : true), "eof %d, size %llu", r.eof, (unsigned long long)w.size);
		}
		if (chance(20)) /* the reply is being sent: others write meanwhile */
			fiber_sleep_ns(sim_random(2000000));
		vfs_read_put(&r);
	}
	a->used = false;
}

/* Send again what the verifier says may be lost. */
static void resend(uint64_t verf)
{
	for (unsigned i = 0; i < w.logged; i++) {
		struct uncommitted *u = &w.log[i];

		for (uint32_t a = 0, b; u->verf != verf && a < u->len; a = b) {
			for (b = a; b < u->len && still_newest(u, b); b++)
				;
			uint64_t v = verf;
			int error = b > a ? send_write(u->offset + a, u->data + a, b - a, VFS_FILE_SYNC, &v) : 0;

			CHECK(!error || w.kind == FAULT, "resend failed: %d", error);
			memset(&w.unknown[u->offset + a], error != 0, b - a);
			model_shown(u->offset + a, u->data + a, b - a, u->id, 0);
			b += b == a;
		}
	}
}

static void do_commit(void)
{
	uint64_t verf;
	struct vfs_wcc wcc;
	/* Nobody else works meanwhile in runs with faults: the model would not know what is lost. */
	struct active *a = reserve(0, w.kind == FAULT ? w.file_bytes : 0, true, false, NULL);
	uint64_t id = w.next_id, verf_before = vfs_verifier();
	unsigned logged = w.logged;
	struct active others[ARRAY_SIZE(w.active)];

	a->size = min_u64(w.size, w.truncating_to);
	memcpy(others, w.active, sizeof others);
	int error = vfs_commit(&w.call, &w.file, 0, 0, &verf, &wcc);
	end_if_cut(error);
	SAY("commit: %d", error);
	CHECK(!error || is_expected(error), "COMMIT failed: %d", error);
	if (error && w.kind == FAULT) {
		for (unsigned i = 0; i < logged; i++)
			memset(&w.unknown[w.log[i].offset], 1, w.log[i].len);
		w.size_unknown = true;
	}
	if (w.kind == FAULT)
		resend(verf);
	if (!error && w.kind != FAULT) {
		/* A WRITE that was under way when COMMIT began may have a smaller number and not be covered. */
		for (uint64_t i = 0; i < w.file_bytes; i++) {
			bool was_active = false;

			for (unsigned k = 0; k < ARRAY_SIZE(others); k++)
				was_active |= others[k].used && others[k].is_write && others[k].start <= i && i < others[k].end;
			if (!was_active && w.kind == FULL)
				model_committed(i, id, verf);
			else if (!was_active)
				model_stable(i, i + 1, id);
		}
		if (verf == verf_before)
			w.stable_size = max_u64(w.stable_size, min_u64(min_u64(a->size, w.size), w.truncating_to));
	}
	if (w.kind == FAULT) {
		for (unsigned i = 0; i < w.logged; i++)
			free(w.log[i].data);
		w.logged = 0;
	}
	a->used = false;
}

/* full: a refused one may have been done or not. */
static void model_truncated(uint64_t size, int error)
{
	uint64_t id = ++w.next_id;

	for (uint64_t i = size; i < w.file_bytes; i++) {
		w.byte_id[i] = id;
		set_add(&w.shown[i], 0);
		if (error)
			continue;
		w.ok_id[i] = id;
		w.ok_verf[i] = 0;
		set_only(&w.shown[i], 0);
		allow_only(i, &w.shown[i]);
	}
	if (error)
		w.size = min_u64(w.size, size);
	else
		w.size = w.stable_size = w.size_max = size;
	w.next_record = size / (w.record ? w.record : 1);
}

static void do_truncate(void)
{
	uint64_t size = chance(50) ? sim_random(w.file_bytes) : align_down(sim_random(w.file_bytes), PAGE_BYTES);
	struct active *a = reserve(0, w.file_bytes, true, false, NULL);
	int error;

	for (uint64_t i = size; i < w.file_bytes; i++)
		allow(i, 0);
	w.stable_size = min_u64(w.stable_size, size);
	w.size_max = max_u64(w.size_max, size);
	w.truncating_to = size;
	for (unsigned i = 0; i < ARRAY_SIZE(w.active); i++)
		w.active[i].size = min_u64(w.active[i].size, size);
	SAY("truncate %llu", (unsigned long long)size);
	error = vfs_truncate(&w.file, size);
	end_if_cut(error);
	w.truncating_to = UINT64_MAX;
	CHECK(!error || is_expected(error), "truncate failed: %d", error);
	if (w.kind == FULL) {
		model_truncated(size, error);
	} else if (error) {
		w.size_unknown = true;
		memset(w.unknown, 1, sizeof w.unknown);
	} else {
		const struct value_set zero = { { 1 } };
		uint64_t id = ++w.next_id;

		for (uint64_t i = min_u64(size, w.size); i < w.file_bytes; i++) {
			if (i < size && w.unknown[i]) /* a failed WRITE may have reached beyond the size that we know */
				continue;
			w.bytes[i] = 0;
			w.byte_id[i] = id;
			w.unknown[i] = 0;
			allow_only(i, &zero);
		}
		w.size = w.stable_size = w.size_max = size;
		w.size_unknown = false;
		w.next_record = size / (w.record ? w.record : 1);
	}
	a->used = false;
}

/* The cache's own invariants, between any two steps of others. */
static void check_index(void)
{
	leaf_lock(&w.file.mapping->lock);
	mapping_check_locked(w.file.mapping);
	leaf_unlock(&w.file.mapping->lock);
}

static uint64_t pause_ns(void)
{
	if (w.kind == FULL && chance(50))
		return sim_random(w.room_lasts_ns);
	return sim_random(3) ? sim_random(1000000) : sim_random(800000000);
}

static void client_main(void *arg)
{
	for (uint32_t i = 0; i < w.ops; i++) {
		uint64_t what = sim_random(100);

		if (what < 50)
			do_write();
		else if (what < 80)
			do_read();
		else if (what < 90)
			do_commit();
		else if (what < 90 + w.truncates)
			do_truncate();
		else
			fiber_sleep_ns(pause_ns());
		check_index();
	}
	w.running--;
}

/* Others fill the disk and free it. */
static void neighbour_main(void *arg)
{
	while (w.running) {
		sim_set_room(sim_random(3) ? sim_random(8) * PAGE_BYTES : sim_random(2) ? 0 : sim_random(w.file_bytes));
		fiber_sleep_ns(sim_random(w.room_lasts_ns));
	}
}

/* ---- the server's side ---- */

/* Until the client has sent them again, uncommitted bytes may be old or new. */
static void lost(void *owner)
{
	vfs_verifier_change();
	if (w.kind == FULL) {
		model_lost();
		return;
	}
	for (unsigned i = 0; i < w.logged; i++)
		for (uint32_t k = 0; k < w.log[i].len; k++)
			if (still_newest(&w.log[i], k))
				w.unknown[w.log[i].offset + k] = 1;
	w.size_unknown = true;
}

static void open_file(void)
{
	int fd = sim_open(FILE_NUMBER, 0);
	struct statx stx;
	struct mapping_config mc = { .direct_fd = w.block ? sim_open(FILE_NUMBER, SIM_DIRECT) : -1, .buffered_fd = fd, .data_lost = lost };

	CHECK(io_fstatx(fd, STATX_BASIC_STATS | IO_STATX_ALIGN, &stx) == 0, "statx");
	CHECK(stx.stx_dio_offset_align == w.block, "statx says %u", stx.stx_dio_offset_align);
	mc.block = w.block;
	mc.read_block = w.block ? mapping_statx_read_align(&stx) : 0;
	w.file.direct_fd = mc.direct_fd;
	mc.size = stx.stx_size;
	mc.mtime = (struct timespec){ stx.stx_mtime.tv_sec, stx.stx_mtime.tv_nsec };
	mc.ctime = (struct timespec){ stx.stx_ctime.tv_sec, stx.stx_ctime.tv_nsec };
	w.export.max_file_bytes = INT64_MAX;
	w.file.export = &w.export;
	w.file.type = S_IFREG;
	w.file.path_fd = w.file.buffered_fd = fd;
	w.file.local_fs = w.file.io_open = true;
	fiber_mutex_init(&w.file.open_mutex);
	w.file.refs = 1;
	w.file.mapping = mapping_create(&mc);
	w.view.export = &w.export;
	w.view.options.write_mode = w.view.options.read_mode = w.buffered ? EXPORT_MODE_BUFFERED : EXPORT_MODE_DIRECT;
	w.call.view = &w.view;
	w.call.cred = cred_root;
}

static void check_file(void)
{
	uint8_t *disk = malloc(w.file_bytes + 1);
	ssize_t n = sim_peek(FILE_NUMBER, disk, w.file_bytes + 1, 0);

	if (w.kind == FULL)
		CHECK(sim_size(FILE_NUMBER) >= w.size && sim_size(FILE_NUMBER) <= w.size_max, "size on disk %llu, should be %llu to %llu",
		      (unsigned long long)sim_size(FILE_NUMBER), (unsigned long long)w.size, (unsigned long long)w.size_max);
	else
		CHECK(w.size_unknown || sim_size(FILE_NUMBER) == w.size, "size on disk %llu, should be %llu", (unsigned long long)sim_size(FILE_NUMBER), (unsigned long long)w.size);
	compare(0, disk, (uint64_t)n < w.file_bytes ? (uint64_t)n : w.file_bytes, "disk");
	free(disk);
}

static void wait_for_clients(void)
{
	while (w.running)
		fiber_sleep_ns(1000000);
}

static void close_file(void)
{
	struct sim_config none = { .disk_bytes = 1ull << 30 };
	uint64_t verf;
	struct vfs_wcc wcc;

	sim_set_faults(&none);
	vfs_commit(&w.call, &w.file, 0, 0, &verf, &wcc);
	resend(verf);
	CHECK(mapping_flush(w.file.mapping) == 0, "flush");
	CHECK(mapping_is_idle(w.file.mapping), "not idle after flush");
	mapping_destroy(w.file.mapping);
	check_file();
}

static void main_fiber(void *arg)
{
	cache_start();
	open_file();
	w.running = w.clients;
	for (uint32_t i = 0; i < w.clients; i++)
		CHECK(fiber_spawn(client_main, NULL, "client") == 0, "spawn");
	if (w.kind == FULL)
		CHECK(fiber_spawn(neighbour_main, NULL, "neighbour") == 0, "spawn");
	wait_for_clients();
	if (w.kind == FULL && sim_random(2))
		sim_power_cut();
	if (w.kind == FAULT)
		do_commit();
	close_file();
	runtime_stop();
}

static void start(void *arg, unsigned index)
{
	main_fiber(arg);
}

/* After the cut: the disk is legal; the clients send again what they know was not committed. */
static void after_crash(void *arg, unsigned index)
{
	uint8_t *disk = malloc(w.file_bytes);
	uint64_t size = sim_size(FILE_NUMBER), verf;
	struct vfs_wcc wcc;
	ssize_t n = sim_peek(FILE_NUMBER, disk, w.file_bytes, 0);

	CHECK(size >= w.stable_size, "size %llu after the cut, %llu was stable", (unsigned long long)size, (unsigned long long)w.stable_size);
	CHECK(size <= w.size_max, "size %llu after the cut, never was more than %llu", (unsigned long long)size, (unsigned long long)w.size_max);
	for (ssize_t i = 0; i < n; i++)
		CHECK(is_allowed((uint64_t)i, disk[i]), "byte %zd is %u after the cut: lost, or nobody wrote it (last write %llu gave %u)", i, disk[i],
		      (unsigned long long)w.byte_id[i], w.bytes[i]);
	if (w.kind == FULL) {
		sim_set_faults(&(struct sim_config){ .disk_bytes = 1ull << 30 });
		memcpy(w.shown, w.allowed, sizeof w.shown);
		w.size = w.stable_size;
	}
	/* Unacknowledged WRITEs and truncates may or may not have happened. */
	for (unsigned k = 0; k < ARRAY_SIZE(w.active); k++)
		for (uint64_t i = w.active[k].start; w.active[k].used && w.active[k].exclusive && i < w.active[k].end; i++)
			w.unknown[i] = 1;
	memset(w.active, 0, sizeof w.active);
	w.size_unknown = true;
	cache_start();
	open_file();
	CHECK(vfs_commit(&w.call, &w.file, 0, 0, &verf, &wcc) == 0, "commit after the cut");
	resend(verf);
	close_file();
	runtime_stop();
	free(disk);
}

static struct sim_config draw_config(uint64_t seed)
{
	struct sim_config c = { .seed = seed, .disk_bytes = 1ull << 30, .mem_align_bytes = 512 };
	static const uint32_t blocks[] = { 4096, 4096, 4096, 512, 512, 1024, 2048, 8192, 16384, 32768, 65536, 65536, 0 };
	uint64_t r = seed * 0x9e3779b97f4a7c15ull;

	c.block_bytes = blocks[(r >> 20) % ARRAY_SIZE(blocks)];
	c.read_block_bytes = r >> 40 & 1 ? (uint32_t)min_u64(c.block_bytes, PAGE_BYTES) : 0;
	c.latency_ns_max = (r >> 30) % 3 ? 200000 : 5000000;
	c.short_write = c.short_read = (r >> 34) % 2 ? 2000 : 0;
	if (w.kind == FULL) {
		c.nospc_whole = (uint32_t[]){ 0, 30000, 65536 }[(r >> 36) % 3];
		c.quota = (r >> 38) % 2;
	}
	if (w.kind != FAULT)
		return c;
	c.write_error = (r >> 36) % 2 ? 1500 : 0;
	c.read_error = (r >> 37) % 3 ? 0 : 1000;
	c.fsync_error = (r >> 38) % 2 ? 2000 : 0;
	c.nospc = (r >> 39) % 2 ? 1500 : 0;
	return c;
}

/* Many small records one after the other, so that rounds of several runs meet what is left of the disk. */
static void draw_full(void)
{
	static const uint32_t records[] = { 0, 513, 700, 4096, 6000, 9000 };
	const uint64_t lasts[] = { 2000000, 2000000, 50000000, LASTS_LONG_NS };

	w.record = records[sim_random(ARRAY_SIZE(records))];
	w.clients = 2 + (uint32_t)sim_random(CLIENTS_MAX_FULL - 1);
	w.room_lasts_ns = lasts[sim_random(ARRAY_SIZE(lasts))];
}

static void draw_world(void)
{
	static const uint32_t records[] = { 0, 6000, 4704, 700, 9000, 12288, 47008 }, large_records[] = { 30000, 65536, 67036, 100000 };
	struct cache_config cc = { 0 };

	w.record = records[sim_random(ARRAY_SIZE(records))];
	if (w.block > PAGE_BYTES && sim_random(2))
		w.record = large_records[sim_random(ARRAY_SIZE(large_records))];
	w.clients = 1 + (uint32_t)sim_random(CLIENTS_MAX);
	w.ops = 4 + (uint32_t)sim_random(30);
	w.truncates = sim_random(2) ? 3 : 0;
	w.buffered = sim_random(10) == 0;
	w.copied = (unsigned)(uint32_t[]){ 0, 0, 50, 100 }[sim_random(4)];
	if (sim_random(4) == 0)
		cc = (struct cache_config){ .dirty_bytes_max = 128 << 10, .kept_bytes_max = sim_random(2) ? 16 << 10 : 2 * max_u64(w.block, PAGE_BYTES) };
	if (w.kind == FULL)
		draw_full();
	cc.edge_wait_ms = sim_random(2) ? 0 : 50;
	cc.run_bytes_max = sim_random(3) ? 0 : 16 << 10;
	cc.early_bytes = sim_random(2) ? 0 : 4096;
	cache_init(&cc);
}

/* An assertion of the server or the simulation: show who waits for what. */
static void on_abort(int sig)
{
	fflush(stdout);
	fiber_dump(stdout);
	fflush(stdout);
	_exit(1);
}

/* Where time is to pass, at the end only. */
static uint64_t draw_cut(void)
{
	if (w.room_lasts_ns == LASTS_LONG_NS)
		return UINT64_MAX;
	return 1 + sim_random(sim_random(2) ? 300 : 6000);
}

static int run_seed(enum kind kind, uint64_t seed)
{
	struct reactor_config rc = { .reactors = 1, .fibers = 128 };
	struct sim_config sc;
	int error;

	w.kind = kind;
	w.truncating_to = UINT64_MAX;
	w.seed = seed;
	sc = draw_config(seed);
	w.block = sc.block_bytes;
	w.file_bytes = max_u64(FILE_BYTES_MIN, FILE_UNITS * (uint64_t)w.block);
	w.io_bytes_max = (uint32_t)max_u64(IO_BYTES_MIN, IO_HALF_UNITS * (uint64_t)w.block / 2);
	sim_init(&sc);
	signal(SIGABRT, on_abort);
	buf_init(16 << 20);
	draw_world();
	for (uint64_t i = 0; i < w.file_bytes; i++) {
		allow(i, 0);
		set_add(&w.shown[i], 0);
	}
	if (runtime_init(&rc))
		return 1;
	if (kind >= CRASH && !w.cut_at)
		w.cut_at = draw_cut();
	if (kind >= CRASH && w.cut_at != UINT64_MAX)
		sim_cut_at_step(w.cut_at);
	error = runtime_run(start, NULL);
	*steps_taken = sim_steps();
	if (error && kind >= CRASH) {
		runtime_fini();
		struct cache_config cc = { 0 };
		cache_init(&cc);
		vfs_verifier_change();
		CHECK(runtime_init(&rc) == 0, "runtime_init after the cut");
		error = runtime_run(after_crash, NULL);
	}
	return error != 0;
}

static void show(FILE *log)
{
	char line[512];

	rewind(log);
	while (fgets(line, sizeof line, log))
		printf("# %s", line);
}

/* Each seed in a process of its own: what a cut leaves behind goes with it. Its log is shown if it fails. */
static bool seed_passes(enum kind kind, uint64_t seed)
{
	FILE *log = tmpfile();
	int status = -1;
	pid_t pid;

	fflush(stdout);
	if (w.verbose) /* for the debugger */
		return run_seed(kind, seed) == 0;
	pid = fork();
	if (pid == 0) {
		dup2(fileno(log), STDERR_FILENO);
		int rc = run_seed(kind, seed);

		fflush(stdout);
		_exit(rc);
	}
	bool passed = pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
	if (!passed) {
		show(log);
		printf("not ok %s seed %llu (status 0x%x)\n", kind_name[kind], (unsigned long long)seed, (unsigned)status);
	}
	fclose(log);
	return passed;
}

static struct {
	uint64_t first, count;
	int only;              /* a kind; -1: all */
	bool all_cuts;
	double minutes;
} opt = { .first = 1, .count = 500, .only = -1 };

static unsigned passed, failed;

static void count(bool pass)
{
	*(pass ? &passed : &failed) += 1;
}

static bool parse(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : "";

		if (!strcmp(argv[i], "--all-cuts")) {
			opt.all_cuts = true;
			continue;
		}
		if (!strcmp(argv[i], "--seeds") && i + 2 < argc) {
			opt.first = strtoull(value, NULL, 10);
			opt.count = strtoull(argv[++i + 1], NULL, 10);
		} else if (!strcmp(argv[i], "--seed")) {
			opt.first = strtoull(value, NULL, 10);
			opt.count = 1;
			w.verbose = true;
		} else if (!strcmp(argv[i], "--cut")) {
			w.cut_at = strtoull(value, NULL, 10);
		} else if (!strcmp(argv[i], "--minutes")) {
			opt.minutes = atof(value);
			opt.count = UINT64_MAX - opt.first;
		} else if (!strcmp(argv[i], "--kind")) {
			for (int k = 0; k < KINDS; k++)
				opt.only = strcmp(value, kind_name[k]) ? opt.only : k;
		} else {
			return false;
		}
		i++;
	}
	return true;
}

/* One schedule, cut at each of its steps. */
static void cut_everywhere(uint64_t seed)
{
	w.verbose = false;
	w.cut_at = UINT64_MAX;
	count(seed_passes(CRASH, seed));
	for (uint64_t step = 1, steps = *steps_taken; step <= steps && failed < 10; step++) {
		w.cut_at = step;
		count(seed_passes(CRASH, seed));
	}
}

int main(int argc, char **argv)
{
	if (!parse(argc, argv)) {
		fprintf(stderr, "usage: data_sim [--seeds FIRST COUNT] [--seed N] [--kind plain|fault|crash|full] [--cut STEP] [--all-cuts] [--minutes M]\n");
		return 2;
	}
	steps_taken = mmap(NULL, sizeof *steps_taken, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	time_t until = time(NULL) + (time_t)(opt.minutes * 60);
	for (uint64_t seed = opt.first; seed < opt.first + opt.count && failed < 10 && (opt.minutes == 0 || time(NULL) < until); seed++) {
		if (opt.all_cuts)
			cut_everywhere(seed);
		for (int k = 0; k < KINDS && !opt.all_cuts; k++)
			if (opt.only < 0 || opt.only == k)
				count(seed_passes((enum kind)k, seed));
	}
	printf("%u passed, %u failed, 0 skipped\n", passed, failed);
	return failed != 0;
}
