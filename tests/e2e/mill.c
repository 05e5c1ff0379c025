/*
 * mill: the same seeded random workload from 8 processes over a real file system, held against a byte-exact model.
 *
 * Two files are cut into records of odd length, which belong to the processes in turn: so nobody else touches a process's bytes, but all share units, edges and the
 * end of file. Each process has a connection or two, several calls in flight: WRITEs stable and unstable, of records, of parts of them and of a few bytes; READs of
 * its own and of wide ranges; COMMITs. The model stands in memory that they share; each writes only its own part of it.
 *
 * A seed is a number of rounds. In some rounds one process truncates a file to a size that all of them draw alike, while the others WRITE below that size; in some a local
 * process clones a file meanwhile, which raises the alignment that O_DIRECT needs. Between rounds all stand still, and everything must be the model's: sizes, READs by
 * each process of what others wrote, and, after a COMMIT, the files as a local process reads them. A clone taken then must not change any more. At the end of a
 * seed the daemon is killed after COMMITs, started again, and all is compared through the old handles; at the very end the same after SIGTERM.
 *
 * In some rounds the daemon is killed in the midst and started again. Its clients do what the protocol asks of them: they connect anew, send again what was not answered,
 * and at the end of the round COMMIT, and if the verifier is not that of their WRITEs, send these again. What READs answer meanwhile is not looked at.
 *
 * With --modes the export's modes are drawn anew and read again (SIGHUP) in the midst of each round.
 *
 * Usage: mill [--name NAME] [--seed N] [--seeds N] [--minutes M] [--align N] [--cloned] [--modes] [--options LIST] [--small] DIR. --align: what statx must say of a file's O_DIRECT alignment
 * (0: nothing), or the test is not what it claims to be. --cloned: the files begin as clones of others. --options: further options of the export. --small: with
 * little memory.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/fs.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/e2e/counters.h"
#include "tests/e2e/fixture.h"

enum { PROCESSES = 8, CONNS = 2, FILES = 2, FILE_MAX = 2 << 20, IO_MAX = 256 << 10, ROUNDS = 6, BATCHES = 5, BATCH_MAX = 5, STREAM = 16, STREAM_BYTES = 32 << 10, LOG_MAX = ROUNDS * BATCHES * BATCH_MAX, CONNECT_TRIES = 3000,
       CONNECT_RETRY_US = 20000, STATX_DIOALIGN_BIT = 0x2000 };
enum { NOT_CHECKED = -1 };

enum kind { WRITE, READ, COMMIT, SETATTR };
static const enum nfs3_proc procs[] = { [WRITE] = NFS3_WRITE, [READ] = NFS3_READ, [COMMIT] = NFS3_COMMIT, [SETATTR] = NFS3_SETATTR };

/* Shared by all processes; each byte of a model has one that writes it, but a truncate's zeros, which come while all stand still. */
struct shared {
	pthread_barrier_t barrier;
	_Atomic bool failed, crash_asked;
	_Atomic pid_t server;
	struct {
		_Atomic uint64_t size;
		unsigned char bytes[FILE_MAX];
	} file[FILES];
};

static struct {
	const char *name, *dir, *options;
	long seed, seeds, align;
	double minutes;
	bool cloned, modes, small;
} opt = { .name = "mill", .options = "", .seeds = 2, .align = NOT_CHECKED };

static struct shared *shared;
static struct daemon server;
static struct file {
	struct fh fh;
	const char *path, *origin;	/* origin: what it is a clone of */
} files[FILES];
static unsigned char before[FILE_MAX];	/* of origins */
static const char *exports_file, *counters_file;
/* So little that WRITEs wait for room, kept units go, and a record may find no buffer. */
static const char small_config[] = "[limits]\nmemory = 16M\ncache = 3M\nopen_files = 16\n";

struct call {
	enum kind kind;
	int file, conn;
	uint64_t offset;
	uint32_t count;
	stable_how stable;
	uint64_t pattern;
	uint32_t xid;
	bool answered;
};

/* What all processes draw alike for a round. */
struct plan {
	int truncated;		/* a file, or FILES: none */
	int truncater, batch;	/* who, and before which of its batches; the same one clones */
	uint64_t size;
	bool crash, clone;	/* in the midst of the round */
	bool snapshot;		/* after it */
};

/* A WRITE that no COMMIT has covered yet: what a client must be able to send again. Stable ones too, lest older bytes replace theirs. */
struct uncommitted {
	int file;
	uint64_t offset, pattern;
	uint32_t count;
	writeverf3 verf;
};

/* One process at its work. */
struct miller {
	int index;
	uint64_t rng, seed;
	uint32_t record;
	uint64_t next_pattern;
	uint64_t size_min[FILES], end_max[FILES];	/* the file is at least so long; WRITEs end here at the latest */
	uint64_t next_read[FILES];	/* where its stream of READs goes on */
	struct plan plan;
	struct client conn[CONNS];
	struct call batch[BATCH_MAX];
	int ncalls;
	struct uncommitted log[LOG_MAX];
	int nlogged;
};

static uint64_t draw_from(uint64_t *rng, uint64_t below)
{
	*rng ^= *rng << 13;
	*rng ^= *rng >> 7;
	*rng ^= *rng << 17;
	return (*rng >> 11) % below;
}

static uint64_t draw(struct miller *w, uint64_t below)
{
	return draw_from(&w->rng, below);
}

static uint64_t rng_of(uint64_t seed, uint64_t a, uint64_t b)
{
	uint64_t rng = (seed + 1) * 0x9e3779b97f4a7c15u ^ (a + 1) * 0xbf58476d1ce4e5b9u ^ (b + 1) * 0x94d049bb133111ebu;

	for (int i = 0; i < 8; i++)
		draw_from(&rng, 2);
	return rng;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static size_t first_difference(const void *a, const void *b, size_t len)
{
	const unsigned char *p = a, *q = b;
	size_t i;

	for (i = 0; i < len && p[i] == q[i]; i++)
		;
	return i;
}

static bool is_mine(const struct miller *w, uint64_t offset)
{
	return offset / w->record % PROCESSES == (uint64_t)w->index;
}

/* ---- drawing ---- */

static struct plan draw_plan(uint64_t seed, int round)
{
	uint64_t rng = rng_of(seed, 1000, (uint64_t)round);
	struct plan p = { .truncated = FILES, .truncater = (int)draw_from(&rng, PROCESSES), .batch = (int)draw_from(&rng, BATCHES) };

	if (round && draw_from(&rng, 2))
		p.truncated = (int)draw_from(&rng, FILES);
	p.size = FILE_MAX / 8 + draw_from(&rng, FILE_MAX - FILE_MAX / 8);
	if (draw_from(&rng, 4) == 0)
		p.size -= p.size % 4096;
	p.crash = draw_from(&rng, 6) == 0;
	p.clone = draw_from(&rng, 8) == 0;
	p.snapshot = draw_from(&rng, 8) == 0;
	return p;
}

/* A record of this process's that begins below `end`, or false. */
static bool draw_record(struct miller *w, uint64_t end, uint64_t *start, uint64_t *stop)
{
	uint64_t sets = FILE_MAX / w->record / PROCESSES;
	uint64_t record = draw(w, sets) * PROCESSES + (uint64_t)w->index;

	*start = record * w->record;
	*stop = least(*start + w->record, end);
	return *start < *stop;
}

static bool draw_write(struct miller *w, struct call *call)
{
	uint64_t start, stop;

	if (!draw_record(w, w->end_max[call->file], &start, &stop))
		return false;
	switch (draw(w, 8)) {
	case 0: case 1: case 2: case 3: /* all of it, as far as one WRITE goes */
		break;
	case 4: case 5:
		start += draw(w, stop - start);
		stop = start + 1 + draw(w, stop - start);
		break;
	case 6: /* its end */
		start = stop - 1 - draw(w, least(stop - start, 700));
		break;
	default: /* its beginning */
		stop = start + 1 + draw(w, least(stop - start, 700));
	}
	call->offset = start;
	call->count = (uint32_t)least(stop - start, IO_MAX);
	call->stable = (stable_how)draw(w, 3);
	call->pattern = w->seed << 40 | (uint64_t)w->index << 32 | ++w->next_pattern;
	return true;
}

/* A stream, which a server may read ahead of, from end to end. */
static void draw_next_read(struct miller *w, struct call *call)
{
	uint64_t *next = &w->next_read[call->file];

	if (*next >= w->size_min[call->file])
		*next = 0;
	call->offset = *next;
	call->count = 16384 << draw(w, 3);
	*next += call->count;
}

static bool draw_read(struct miller *w, struct call *call)
{
	uint64_t start, stop;

	if (draw(w, 3) == 0) {
		draw_next_read(w, call);
		return true;
	}
	if (draw(w, 2) || !draw_record(w, FILE_MAX, &start, &stop)) {
		call->offset = draw(w, FILE_MAX);
		call->count = 1 + (uint32_t)draw(w, IO_MAX);
		return true;
	}
	call->offset = start + draw(w, stop - start);
	call->count = (uint32_t)least(1 + draw(w, w->record), IO_MAX);
	return true;
}

static bool draw_call(struct miller *w, struct call *call)
{
	uint64_t n = draw(w, 100);

	*call = (struct call) { .kind = n < 62 ? WRITE : n < 93 ? READ : COMMIT, .file = (int)draw(w, FILES), .conn = (int)draw(w, CONNS) };
	return call->kind == WRITE ? draw_write(w, call) : call->kind == READ ? draw_read(w, call) : true;
}

/* The answer would depend on the order. */
static bool conflicts(const struct call *a, const struct call *b)
{
	return a->file == b->file && (a->kind == WRITE || b->kind == WRITE) && (a->kind == WRITE || a->kind == READ) &&
	       (b->kind == WRITE || b->kind == READ) && a->offset < b->offset + b->count && b->offset < a->offset + a->count;
}

static void draw_batch(struct miller *w, int batch)
{
	int wanted = 1 + (int)draw(w, BATCH_MAX), i, j;
	struct call *call;

	w->ncalls = 0;
	if (w->plan.truncated < FILES && w->plan.truncater == w->index && w->plan.batch == batch)
		w->batch[w->ncalls++] = (struct call) { .kind = SETATTR, .file = w->plan.truncated, .offset = w->plan.size };
	for (i = w->ncalls; i < wanted; i++) {
		call = &w->batch[w->ncalls];
		if (!draw_call(w, call))
			continue;
		for (j = 0; j < w->ncalls && !conflicts(call, &w->batch[j]); j++)
			;
		w->ncalls += j == w->ncalls;
	}
}

/* ---- a batch: sent, answered, in the model ---- */

static int send_call(struct miller *w, struct call *call)
{
	static char data[IO_MAX];
	WRITE3args write = { fh_wire(&files[call->file].fh), call->offset, call->count, call->stable, { call->count, data } };
	READ3args read = { write.file, call->offset, call->count };
	COMMIT3args commit = { write.file, 0, 0 };
	SETATTR3args setattr = { write.file, sattr_size(call->offset), { .check = FALSE } };
	const void *args[] = { [WRITE] = &write, [READ] = &read, [COMMIT] = &commit, [SETATTR] = &setattr };
	struct rpc_what what = { NFS3_PROG, NFS3_VERS, procs[call->kind], nfs3_args_xdr(procs[call->kind]), args[call->kind] };
	int r;

	if (call->kind == WRITE)
		fill_pattern(data, call->count, call->pattern);
	r = conn_send(&w->conn[call->conn].conn, &what);
	call->xid = w->conn[call->conn].conn.xid;
	return r;
}

static void log_write(struct miller *w, const struct call *call, const writeverf3 verf)
{
	struct uncommitted *u = &w->log[w->nlogged++];

	*u = (struct uncommitted) { call->file, call->offset, call->pattern, call->count, { 0 } };
	memcpy(u->verf, verf, sizeof(u->verf));
}

/* A READ while others write: this process's bytes, and those that are certain not to be cut off, must be right. */
static void check_read(struct miller *w, const struct call *call, const READ3resok *ok)
{
	const unsigned char *model = shared->file[call->file].bytes, *got = (const unsigned char *)ok->data.data_val;
	uint64_t sure = w->size_min[call->file], end = call->offset + call->count, i;
	uint64_t cut = w->plan.truncated == call->file ? w->plan.size : FILE_MAX;

	CHECK(ok->count <= call->count && call->offset + ok->count >= least(end, sure), ": READ %u at %llu, at least %llu long: %u", call->count,
	      (unsigned long long)call->offset, (unsigned long long)sure, ok->count);
	CHECK(!ok->eof || end >= sure, ": READ %u at %llu, at least %llu long: eof", call->count, (unsigned long long)call->offset, (unsigned long long)sure);
	for (i = 0; i < ok->count && (got[i] == model[call->offset + i] || call->offset + i >= cut || !is_mine(w, call->offset + i)); i++)
		;
	CHECK(i == ok->count, ": READ %u at %llu of file %d: byte %llu is %u, should be %u", call->count, (unsigned long long)call->offset, call->file,
	      (unsigned long long)(call->offset + i), i < ok->count ? got[i] : 0, model[(call->offset + i) % FILE_MAX]);
}

static void check_reply(struct miller *w, struct call *call, const union nfs3_res *res)
{
	call->answered = true;
	nfs3_check_res(procs[call->kind], res);
	if (!CHECK(res->status == NFS3_OK, ": %s %u at %llu of file %d: %d", nfs3_proc_name(procs[call->kind]), call->count, (unsigned long long)call->offset,
		   call->file, (int)res->status))
		return;
	if (call->kind == WRITE) {
		CHECK(res->write.WRITE3res_u.resok.count == call->count && res->write.WRITE3res_u.resok.committed >= call->stable);
		log_write(w, call, res->write.WRITE3res_u.resok.verf);
	} else if (call->kind == READ && !w->plan.crash) {
		check_read(w, call, &res->read.READ3res_u.resok);
	}
}

static int take_reply(struct miller *w, int conn)
{
	union nfs3_res res;
	struct rpc_result result = { NULL, &res, sizeof(res) };
	uint32_t xid;
	int i, r = conn_receive(&w->conn[conn].conn, &xid);

	if (r)
		return r;
	for (i = 0; i < w->ncalls; i++)
		if (w->batch[i].conn == conn && w->batch[i].xid == xid && !w->batch[i].answered)
			break;
	if (!CHECK(i < w->ncalls, ": a reply to no call"))
		return 0;
	result.decode = nfs3_res_xdr(procs[w->batch[i].kind]);
	if (CHECK_EQ(conn_decode(&w->conn[conn].conn, &result), 0))
		check_reply(w, &w->batch[i], &res);
	xdr_free(result.decode, (char *)&res);
	return 0;
}

/* Also while the daemon is not there. */
static void connect_anew(struct miller *w)
{
	int i, tries, r;

	for (i = 0; i < CONNS; i++) {
		conn_close(&w->conn[i].conn);
		for (tries = 0; (r = conn_open(&w->conn[i].conn, server.port, true)) && tries < CONNECT_TRIES; tries++)
			usleep(CONNECT_RETRY_US);
		must(r == 0, "connecting anew");
	}
}

/* Send what is not answered, and take the replies in. 0 or the connection's error. */
static int exchange(struct miller *w)
{
	bool sent[BATCH_MAX];
	int i, r = 0;

	for (i = 0; i < w->ncalls && !r; i++) {
		sent[i] = !w->batch[i].answered;
		r = sent[i] ? send_call(w, &w->batch[i]) : 0;
	}
	for (i = 0; i < w->ncalls && !r; i++)
		r = sent[i] ? take_reply(w, w->batch[i].conn) : 0;
	return r;
}

static void raise_size(int file, uint64_t size)
{
	uint64_t old = atomic_load(&shared->file[file].size);

	while (old < size && !atomic_compare_exchange_weak(&shared->file[file].size, &old, size))
		;
}

static void apply(struct miller *w, const struct call *call)
{
	if (call->kind != WRITE)
		return;
	fill_pattern(shared->file[call->file].bytes + call->offset, call->count, call->pattern);
	w->size_min[call->file] = most(w->size_min[call->file], call->offset + call->count);
	raise_size(call->file, call->offset + call->count);
}

static void run_batch(struct miller *w, int batch)
{
	int i, r;

	draw_batch(w, batch);
	while ((r = exchange(w)) && CHECK(w->plan.crash, ": connection: %s", strerror(-r)))
		connect_anew(w);
	for (i = 0; i < w->ncalls; i++)
		apply(w, &w->batch[i]);
}

/* COMMIT; if an instance that answered our WRITEs is not this one, send them again, in their order. */
static void settle(struct miller *w, int file)
{
	struct client *c = &w->conn[0];
	static char data[IO_MAX];
	bool again = false;
	int i, kept = 0;

	if (!CHECK_EQ(nfs3_commit(c, &files[file].fh, 0, 0), NFS3_OK))
		return;
	for (i = 0; i < w->nlogged; i++)
		again |= w->log[i].file == file && memcmp(w->log[i].verf, c->res.commit.COMMIT3res_u.resok.verf, sizeof(writeverf3));
	for (i = 0; i < w->nlogged; i++) {
		struct uncommitted *u = &w->log[i];

		if (u->file != file) {
			w->log[kept++] = *u;
		} else if (again) {
			fill_pattern(data, u->count, u->pattern);
			CHECK_EQ(nfs3_write(c, &files[file].fh, u->offset, data, u->count, FILE_SYNC), NFS3_OK);
		}
	}
	w->nlogged = kept;
}

/* ---- what happens meanwhile ---- */

static void crash(void)
{
	atomic_store(&shared->crash_asked, true);
	kill(atomic_load(&shared->server), SIGKILL);
}

/* False: this file system has no clones. */
static bool clone_file(const char *from, const char *to)
{
	/* A clone leaves what an older one had beyond the end. */
	int in = open(from, O_RDONLY | O_CLOEXEC), out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	bool cloned;

	must(in >= 0 && out >= 0, to);
	cloned = ioctl(out, FICLONE, in) == 0;
	must(cloned || errno == EOPNOTSUPP || errno == ENOTTY || errno == EXDEV || errno == EINVAL, to);
	close(in);
	close(out);
	if (!cloned)
		unlink(to);
	return cloned;
}

/* Some pair of modes, read by the daemon whenever it gets to it. */
static void change_modes(struct miller *w)
{
	static const char *const modes[] = { "direct", "dontcache", "buffered" };
	const char *line = text("%s *(rw,insecure,no_root_squash,write_mode=%s,read_mode=%s,misaligned_dontcache=%s)\n", opt.dir, modes[draw(w, 3)],
				modes[draw(w, 3)], draw(w, 2) ? "yes" : "no");
	const char *fresh = text("%s.%d", exports_file, w->index);

	put_file(fresh, line, strlen(line), 0600);
	must(rename(fresh, exports_file) == 0, "rename");
	kill(atomic_load(&shared->server), SIGHUP);
}

static void meddle(struct miller *w)
{
	int file = (int)draw(w, FILES);

	if (w->plan.clone)
		clone_file(files[file].path, text("%s.clone", files[file].path));
	if (opt.modes)
		change_modes(w);
	if (w->plan.crash)
		crash();
}

/* ---- while all stand still ---- */

static void check_bytes(int file, uint64_t offset, const void *got, size_t len, const char *how)
{
	size_t same = first_difference(got, shared->file[file].bytes + offset, len);

	CHECK(same == len, ": %s: file %d of %llu bytes: byte %llu is %u, should be %u", how, file, (unsigned long long)atomic_load(&shared->file[file].size),
	      (unsigned long long)(offset + same), same < len ? ((const unsigned char *)got)[same] : 0, shared->file[file].bytes[(offset + same) % FILE_MAX]);
}

static void check_range(struct client *c, int file, uint64_t offset, uint32_t count)
{
	uint64_t size = atomic_load(&shared->file[file].size), want = offset < size ? least(count, size - offset) : 0;
	READ3resok *ok = &c->res.read.READ3res_u.resok;

	if (!CHECK_EQ(nfs3_read(c, &files[file].fh, offset, count), NFS3_OK))
		return;
	if (CHECK(ok->count == want && ok->eof == (offset + count >= size), ": READ %u at %llu of %llu: %u, eof %d", count, (unsigned long long)offset,
		  (unsigned long long)size, ok->count, ok->eof))
		check_bytes(file, offset, ok->data.data_val, want, "READ");
}

static void check_size(struct client *c, int file)
{
	uint64_t size = atomic_load(&shared->file[file].size);
	fattr3 a;

	if (CHECK_EQ(nfs3_getattr(c, &files[file].fh, &a), NFS3_OK))
		CHECK(a.size == size, ": file %d has %llu bytes, should have %llu", file, (unsigned long long)a.size, (unsigned long long)size);
}

static void check_local(int file)
{
	static unsigned char local[FILE_MAX + 1];
	uint64_t size = atomic_load(&shared->file[file].size);
	size_t len = get_file(files[file].path, local, sizeof(local));

	if (CHECK(len == size, ": file %d has %zu bytes on the disk, should have %llu", file, len, (unsigned long long)size))
		check_bytes(file, 0, local, len, "on the disk");
}

static void check_all(struct client *c)
{
	int file;
	uint64_t at;

	for (file = 0; file < FILES && !tap_failures(); file++) {
		check_size(c, file);
		for (at = 0; at < atomic_load(&shared->file[file].size) && !tap_failures(); at += IO_MAX)
			check_range(c, file, at, IO_MAX);
		check_local(file);
	}
}

static void check_snapshot(int file)
{
	static unsigned char taken[FILE_MAX + 1], now[FILE_MAX + 1];
	const char *path = text("%s.snapshot", files[file].path);
	size_t len;

	if (!clone_file(files[file].path, path))
		return;
	len = get_file(path, taken, sizeof(taken));
	CHECK(len == atomic_load(&shared->file[file].size), ": a clone of file %d has %zu bytes", file, len);
	check_bytes(file, 0, taken, least(len, FILE_MAX), "cloned");
	len = get_file(path, now, sizeof(now));
	CHECK(first_difference(taken, now, len) == len, ": a clone has changed");
}

/* Between two rounds; one process looks at the disk. */
static void look_around(struct miller *w, int round)
{
	struct client *c = &w->conn[0];
	int file = (int)draw(w, FILES), i;

	for (i = 0; i < FILES; i++)
		check_size(c, i);
	for (i = 0; i < 4; i++)
		check_range(c, (int)draw(w, FILES), draw(w, FILE_MAX), 1 + (uint32_t)draw(w, IO_MAX));
	for (i = 0; i < STREAM && draw(w, 4); i++)
		check_range(c, file, (uint64_t)i * STREAM_BYTES, STREAM_BYTES);
	if (round % PROCESSES != w->index)
		return;
	CHECK_EQ(nfs3_commit(c, &files[file].fh, 0, 0), NFS3_OK);
	check_local(file);
	if (w->plan.snapshot)
		check_snapshot(file);
}

/* All have come here, and nobody has failed. */
static bool together(void)
{
	if (tap_failures())
		atomic_store(&shared->failed, true);
	pthread_barrier_wait(&shared->barrier);
	return !atomic_load(&shared->failed);
}

static void begin_round(struct miller *w, int round)
{
	int i;

	w->plan = draw_plan(w->seed, round);
	for (i = 0; i < FILES; i++) {
		w->size_min[i] = atomic_load(&shared->file[i].size);
		w->end_max[i] = FILE_MAX;
	}
	if (w->plan.truncated == FILES)
		return;
	settle(w, w->plan.truncated);	/* nothing that is cut off may be sent again */
	w->size_min[w->plan.truncated] = least(w->size_min[w->plan.truncated], w->plan.size);
	w->end_max[w->plan.truncated] = w->plan.size;
}

/* The WRITEs of a round with a crash are all answered, perhaps by the instance that is no more. */
static void end_round(struct miller *w)
{
	int i, tries;

	for (tries = 0; atomic_load(&shared->crash_asked) && tries < CONNECT_TRIES; tries++)
		usleep(CONNECT_RETRY_US);
	connect_anew(w);
	for (i = 0; i < FILES; i++)
		settle(w, i);
}

/* All WRITEs of the round ended below the new size. */
static void apply_truncate(const struct miller *w)
{
	const struct plan *p = &w->plan;

	if (p->truncated == FILES || p->truncater != w->index)
		return;
	memset(shared->file[p->truncated].bytes + p->size, 0, FILE_MAX - p->size);
	atomic_store(&shared->file[p->truncated].size, p->size);
}

/* A failure ends the seed for all at the same place. Between two barriers nobody sets the flag that is looked at after the second. */
static void mill(struct miller *w)
{
	int round, batch;

	for (round = 0; round < ROUNDS; round++) {
		begin_round(w, round);
		if (!together())
			return;
		for (batch = 0; batch < BATCHES && !tap_failures(); batch++) {
			if (w->plan.truncater == w->index && w->plan.batch == batch)
				meddle(w);
			run_batch(w, batch);
		}
		if (!together())
			return;
		if (w->plan.crash)
			end_round(w);
		if (w->plan.crash && !together())
			return;
		apply_truncate(w);
		if (!together())
			return;
		look_around(w, round);
		if (!together())
			return;
	}
}

static void __attribute__((noreturn)) run_process(uint64_t seed, int index)
{
	static const uint32_t records[] = { 47008, 6000, 700, 14240, 100003, 4097, 200000 };
	uint64_t rng = rng_of(seed, 2000, 0);
	struct miller w = { .index = index, .seed = seed, .rng = rng_of(seed, 3000, (uint64_t)index), .record = records[draw_from(&rng, 7)] };
	int i;

	for (i = 0; i < CONNS; i++)
		client_open(&w.conn[i], server.port);
	mill(&w);
	fflush(stdout);
	_exit(tap_failures() != 0);
}

/* ---- a seed ---- */

/* What statx says of the file now; 0: no direct I/O. */
static long align_of(const char *path)
{
	struct statx stx;
	uint32_t word[64];

	static_assert(sizeof(stx) == sizeof(word), "a statx is 256 bytes");
	must(syscall(SYS_statx, AT_FDCWD, path, 0, STATX_BASIC_STATS | STATX_DIOALIGN_BIT, &stx) == 0, path);
	memcpy(word, &stx, sizeof(word));
	/* Offset alignment stands at 0x9c; older headers have no name for it. */
	return stx.stx_mask & STATX_DIOALIGN_BIT ? word[0x9c / 4] : 0;
}

static void make_file(struct client *c, const struct fh *root, uint64_t seed, int i)
{
	struct file *f = &files[i];
	const char *name = text("s%llu.%d", (unsigned long long)seed, i);

	f->path = text("%s/%s", opt.dir, name);
	memset(shared->file[i].bytes, 0, FILE_MAX);
	shared->file[i].size = 0;
	if (opt.cloned) {
		f->origin = text("%s.origin", f->path);
		fill_pattern(before, FILE_MAX, 1);
		put_file(f->origin, before, FILE_MAX, 0600);
		must(clone_file(f->origin, f->path), "the file system cannot clone");
		memcpy(shared->file[i].bytes, before, FILE_MAX);
		shared->file[i].size = FILE_MAX;
	}
	CHECK_EQ(nfs3_make(c, root, name, &f->fh), NFS3_OK);
}

static void remove_file(struct file *f)
{
	static const char *const suffixes[] = { "", ".origin", ".clone", ".snapshot" };
	static unsigned char now[FILE_MAX + 1];
	int i;

	if (f->origin)
		CHECK(get_file(f->origin, now, sizeof(now)) == FILE_MAX && !memcmp(now, before, FILE_MAX), ": what the file is a clone of has changed");
	for (i = 0; i < 4; i++)
		unlink(text("%s%s", f->path, suffixes[i]));
}

static bool start_daemon(void)
{
	bool started = CHECK_EQ(daemon_start(&server), 0);

	atomic_store(&shared->server, server.pid);
	return started;
}

static void restart(void)
{
	daemon_kill(&server);
	CHECK(atomic_load(&shared->crash_asked), ": the daemon has died");
	start_daemon();
	atomic_store(&shared->crash_asked, false);
}

static void run_processes(uint64_t seed)
{
	pid_t pid[PROCESSES];
	siginfo_t info;
	int i, status, k;

	fflush(stdout);
	for (i = 0; i < PROCESSES; i++) {
		pid[i] = fork();
		must(pid[i] >= 0, "fork");
		if (!pid[i])
			run_process(seed, i);
	}
	for (i = 0; i < PROCESSES; ) {
		waitid(P_ALL, 0, &info, WEXITED | WNOWAIT);
		if (info.si_pid == server.pid) {
			restart();
			continue;
		}
		waitpid(info.si_pid, &status, 0);
		i++;
		CHECK(status == 0, ": seed %llu: process %d: status 0x%x", (unsigned long long)seed, (int)info.si_pid, (unsigned)status);
		for (k = 0; status && !WIFEXITED(status) && k < PROCESSES; k++)
			if (pid[k] != info.si_pid)
				kill(pid[k], SIGKILL);	/* they would wait for it */
	}
}

static void run_seed(uint64_t seed)
{
	struct client c;
	struct fh root;
	int i;

	client_open(&c, server.port);
	if (CHECK_EQ(mount3_mnt(&c, opt.dir, &root), MNT3_OK))
		for (i = 0; i < FILES; i++)
			make_file(&c, &root, seed, i);
	if (opt.align != NOT_CHECKED)
		CHECK_EQ(align_of(files[0].path), opt.align);
	client_close(&c);
	if (!tap_failures())
		run_processes(seed);
	if (server.pid)
		client_open(&c, server.port);
	for (i = 0; i < FILES && !tap_failures(); i++)
		CHECK_EQ(nfs3_commit(&c, &files[i].fh, 0, 0), NFS3_OK);
	if (!tap_failures())
		check_all(&c);
	client_close(&c);
	tap_note("%s: seed %llu: O_DIRECT alignment %ld, at the end %ld%s", opt.name, (unsigned long long)seed, opt.align, align_of(files[0].path),
		 tap_failures() ? ": FAILED" : "");
}

static long long counter(const char *name)
{
	return counter_of(counters_file, name);
}

/* That the seed went the way that this alignment stands for; a clone may have raised it above the unit. */
static void check_path_taken(void)
{
	long unit = opt.align > 4096 ? opt.align : 4096;
	bool stays = opt.align > 0 && align_of(files[0].path) <= unit && align_of(files[1].path) <= unit;
	long long direct = counter("write.direct"), dontcache = counter("write.dontcache"), buffered = counter("write.buffered");
	bool chosen = strstr(opt.options, "write_mode=dontcache");

	tap_note("%s: WRITEs direct %lld, dontcache %lld, buffered %lld; fallbacks %lld; runs %lld, tails %lld; edges claimed %lld, completed %lld; fills %lld; copied %lld",
		 opt.name, direct, dontcache, buffered, counter("mode.fallback"), counter("write.runs"), counter("write.tails"), counter("cache.edges.claimed"),
		 counter("cache.edges.completed"), counter("cache.fills.read"), counter("cache.middles.copied"));
	if (opt.align == 0)
		CHECK(direct == 0 && dontcache == 0 && buffered > 0 && counter("mode.fallback") > 0);
	else if (!opt.modes)
		CHECK((direct > 0) == !chosen && (dontcache > 0) == chosen);
	if (stays)
		CHECK(counter("mode.fallback") == 0 && (opt.modes || buffered == 0));
}

/* After the last COMMIT nothing may hang on the process. */
static void survive(bool kill_it)
{
	struct client c;
	int status;

	if (kill_it) {
		daemon_kill(&server);
	} else {
		status = daemon_stop(&server);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, ": the daemon's wait status 0x%x", (unsigned)status);
		check_path_taken();
	}
	if (!start_daemon())
		return;
	client_open(&c, server.port);
	check_all(&c);
	client_close(&c);
}

static void run_all(void)
{
	time_t end = time(NULL) + (time_t)(60 * opt.minutes);
	uint64_t first = opt.seed ? (uint64_t)opt.seed : 1, seed;
	int i, status;

	if (!start_daemon())
		return;
	for (seed = first; !tap_failures() && (opt.minutes > 0 ? time(NULL) < end : seed < first + (uint64_t)opt.seeds); seed++) {
		run_seed(seed);
		if (!tap_failures())
			survive(seed % 2 == 0);
		for (i = 0; i < FILES && !tap_failures(); i++)
			remove_file(&files[i]);
	}
	status = daemon_stop(&server);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, ": the daemon's wait status 0x%x", (unsigned)status);
}

static void make_world(void)
{
	pthread_barrierattr_t attr;
	const char *line = text("%s *(rw,insecure,no_root_squash%s%s)\n", opt.dir, *opt.options ? "," : "", opt.options);

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must(shared != MAP_FAILED, "mmap");
	pthread_barrierattr_init(&attr);
	pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&shared->barrier, &attr, PROCESSES);
	exports_file = text("%s/exports", work_dir());
	counters_file = text("%s/counters", work_dir());
	put_file(exports_file, line, strlen(line), 0600);
	server.extra[0] = "--exports";
	server.extra[1] = exports_file;
	server.extra[2] = "--counters-file";
	server.extra[3] = counters_file;
	if (!opt.small)
		return;
	put_file(text("%s/conf", work_dir()), small_config, strlen(small_config), 0600);
	server.extra[4] = "--config";
	server.extra[5] = text("%s/conf", work_dir());
}

static int parse(int argc, char **argv)
{
	static const struct option options[] = {
		{ "name", required_argument, NULL, 'n' }, { "seed", required_argument, NULL, 's' }, { "seeds", required_argument, NULL, 'S' },
		{ "minutes", required_argument, NULL, 'm' }, { "align", required_argument, NULL, 'a' }, { "cloned", no_argument, NULL, 'c' },
		{ "modes", no_argument, NULL, 'M' }, { "options", required_argument, NULL, 'o' },
		{ "small", no_argument, NULL, 'l' }, { NULL, 0, NULL, 0 },
	};
	int o;

	while ((o = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (o) {
		case 'n': opt.name = optarg; break;
		case 's': opt.seed = atol(optarg), opt.seeds = 1; break;
		case 'S': opt.seeds = atol(optarg); break;
		case 'm': opt.minutes = atof(optarg); break;
		case 'a': opt.align = atol(optarg); break;
		case 'c': opt.cloned = true; break;
		case 'M': opt.modes = true; break;
		case 'o': opt.options = optarg; break;
		case 'l': opt.small = true; break;
		default: return -EINVAL;
		}
	}
	opt.dir = argv[optind];
	return optind + 1 == argc ? 0 : -EINVAL;
}

int main(int argc, char **argv)
{
	if (parse(argc, argv)) {
		fprintf(stderr, "usage: mill [--name NAME] [--seed N] [--seeds N] [--minutes M] [--align N] [--cloned] [--modes] [--options LIST] [--small] DIR\n");
		return 2;
	}
	make_world();
	return tap_run(&(struct tap_test) { opt.name, run_all }, 1, 1, argv);
}
