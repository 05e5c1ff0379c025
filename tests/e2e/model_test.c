/*
 * model_test: random WRITE, READ, COMMIT and SETATTR(size) from several connections, against a byte-exact model in memory.
 *
 * A run is a seed: it draws batches of calls whose byte ranges do not overlap (though they share pages and blocks as often
 * as possible), sends a batch over all connections at once, and takes the replies in. Every READ, every size and, after
 * COMMITs, the file itself as a local process reads it must be the model's. A truncate is a batch of its own, and so is a
 * READ near the end of a file, whose right answer depends on the order of its neighbours.
 *
 * Without arguments: seeds 1 to 4 on each lab file system (E2E_MODEL_SEEDS=N: 1 to N). E2E_MODEL_SECONDS=N goes on with further seeds for N seconds on
 * each; E2E_MODEL_SEED=N replays one.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/e2e/fixture.h"

enum { CONNS = 4, FILES = 2, BATCH_MAX = 8, BATCHES = 150, FILE_MAX = 6 << 20, IO_MAX = 1 << 20, SEEDS = 4 };

enum kind { WRITE, READ, COMMIT, TRUNCATE };

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

struct file {
	struct fh fh;
	const char *path;
	unsigned char *bytes;
	uint64_t size;
};

struct run {
	uint64_t seed, rng;
	const char *dir;
	struct file files[FILES];
	struct call batch[BATCH_MAX];
	int ncalls;
	int batches;
};

static struct client conns[CONNS];
static struct daemon server;
static char buf[IO_MAX];

static uint64_t draw(struct run *run, uint64_t below)
{
	run->rng ^= run->rng << 13;
	run->rng ^= run->rng >> 7;
	run->rng ^= run->rng << 17;
	return (run->rng >> 11) % below;
}

/* Where and how much: records side by side, odd places, whole pages, now and then much. */
static void draw_range(struct run *run, struct call *call)
{
	static const uint32_t records[] = { 47008, 6000, 32768, 14240 };
	uint32_t record = records[draw(run, 4)];

	switch (draw(run, 10)) {
	case 0: case 1: case 2: case 3: case 4:
		call->count = record;
		call->offset = draw(run, FILE_MAX / 4 / record) * record;
		break;
	case 5: case 6:
		call->count = 1 + (uint32_t)draw(run, 20000);
		call->offset = draw(run, FILE_MAX / 4);
		break;
	case 7:
		call->count = 4096 * (1 + (uint32_t)draw(run, 32));
		call->offset = 4096 * draw(run, FILE_MAX / 4 / 4096);
		break;
	case 8:
		call->count = 1 + (uint32_t)draw(run, 700);
		call->offset = 4096 * draw(run, FILE_MAX / 4 / 4096) + draw(run, 700);
		break;
	default:
		call->count = 1 + (uint32_t)draw(run, IO_MAX);
		call->offset = draw(run, FILE_MAX - IO_MAX);
	}
}

static enum kind draw_kind(struct run *run)
{
	uint64_t n = draw(run, 100);

	return n < 60 ? WRITE : n < 88 ? READ : n < 97 ? COMMIT : TRUNCATE;
}

static bool overlaps(const struct call *a, const struct call *b)
{
	return a->file == b->file && a->kind != COMMIT && b->kind != COMMIT && (a->kind == WRITE || b->kind == WRITE) &&
	       a->offset < b->offset + b->count && b->offset < a->offset + a->count;
}

/* Must have the file to itself for its answer to be certain. */
static bool alone(const struct run *run, const struct call *call)
{
	return call->kind == TRUNCATE || (call->kind == READ && call->offset + call->count >= run->files[call->file].size);
}

static void draw_batch(struct run *run)
{
	int wanted = 1 + (int)draw(run, BATCH_MAX), i, j;
	struct call *call;

	run->ncalls = 0;
	for (i = 0; i < wanted; i++) {
		call = &run->batch[run->ncalls];
		*call = (struct call) { .kind = draw_kind(run), .file = (int)draw(run, FILES), .conn = (int)draw(run, CONNS) };
		draw_range(run, call);
		call->stable = (stable_how)draw(run, 3);
		call->pattern = run->seed << 32 | (uint64_t)(run->batches * BATCH_MAX + i);
		if (alone(run, call) && run->ncalls)
			continue;
		for (j = 0; j < run->ncalls && !overlaps(call, &run->batch[j]); j++)
			;
		if (j < run->ncalls)
			continue;
		run->ncalls++;
		if (alone(run, call))
			break;
	}
}

static void send_call(struct run *run, struct call *call)
{
	struct file *f = &run->files[call->file];
	struct client *c = &conns[call->conn];
	WRITE3args write = { fh_wire(&f->fh), call->offset, call->count, call->stable, { call->count, buf } };
	READ3args read = { write.file, call->offset, call->count };
	COMMIT3args commit = { write.file, 0, 0 };
	SETATTR3args setattr = { write.file, sattr_size(call->offset), { .check = FALSE } };
	struct rpc_what what = { .prog = NFS3_PROG, .vers = NFS3_VERS };

	switch (call->kind) {
	case WRITE:
		fill_pattern(buf, call->count, call->pattern);
		what.proc = NFS3_WRITE, what.args = &write;
		break;
	case READ: what.proc = NFS3_READ, what.args = &read; break;
	case COMMIT: what.proc = NFS3_COMMIT, what.args = &commit; break;
	case TRUNCATE: what.proc = NFS3_SETATTR, what.args = &setattr; break;
	}
	what.encode = nfs3_args_xdr((enum nfs3_proc)what.proc);
	CHECK_EQ(conn_send(&c->conn, &what), 0);
	call->xid = c->conn.xid;
}

/* What the model knows after the batch: all WRITEs are in it. */
static void apply(struct run *run, const struct call *call)
{
	struct file *f = &run->files[call->file];

	if (call->kind == WRITE) {
		fill_pattern(f->bytes + call->offset, call->count, call->pattern);
		if (f->size < call->offset + call->count)
			f->size = call->offset + call->count;
	} else if (call->kind == TRUNCATE) {
		if (call->offset < f->size)
			memset(f->bytes + call->offset, 0, f->size - call->offset);
		f->size = call->offset;
	}
}

static size_t first_difference(const void *a, const void *b, size_t len)
{
	const unsigned char *p = a, *q = b;
	size_t i;

	for (i = 0; i < len && p[i] == q[i]; i++)
		;
	return i;
}

static void check_read(struct run *run, const struct call *call, const READ3resok *ok)
{
	const struct file *f = &run->files[call->file];
	uint64_t left = call->offset < f->size ? f->size - call->offset : 0, want = left < call->count ? left : call->count;
	size_t same;

	if (!CHECK(ok->count == want && ok->eof == (call->offset + call->count >= f->size), ": READ %u at %llu of %llu: %u, eof %d", call->count,
		   (unsigned long long)call->offset, (unsigned long long)f->size, ok->count, ok->eof))
		return;
	same = first_difference(ok->data.data_val, f->bytes + call->offset, want);
	CHECK(same == want, ": READ %u at %llu of %llu differs at %llu", call->count, (unsigned long long)call->offset,
	      (unsigned long long)f->size, (unsigned long long)(call->offset + same));
}

static void check_reply(struct run *run, struct call *call, const union nfs3_res *res)
{
	static const enum nfs3_proc procs[] = { [WRITE] = NFS3_WRITE, [READ] = NFS3_READ, [COMMIT] = NFS3_COMMIT, [TRUNCATE] = NFS3_SETATTR };

	call->answered = true;
	nfs3_check_res(procs[call->kind], res);
	if (!CHECK(res->status == NFS3_OK, ": %s: %d", nfs3_proc_name(procs[call->kind]), (int)res->status))
		return;
	if (call->kind == WRITE)
		CHECK(res->write.WRITE3res_u.resok.count == call->count && res->write.WRITE3res_u.resok.committed >= call->stable);
	else if (call->kind == READ)
		check_read(run, call, &res->read.READ3res_u.resok);
}

static void take_reply(struct run *run, int conn)
{
	static const enum nfs3_proc procs[] = { [WRITE] = NFS3_WRITE, [READ] = NFS3_READ, [COMMIT] = NFS3_COMMIT, [TRUNCATE] = NFS3_SETATTR };
	union nfs3_res res;
	struct rpc_result result = { NULL, &res, sizeof(res) };
	uint32_t xid;
	int i;

	if (!CHECK_EQ(conn_receive(&conns[conn].conn, &xid), 0))
		return;
	for (i = 0; i < run->ncalls; i++)
		if (run->batch[i].conn == conn && run->batch[i].xid == xid && !run->batch[i].answered)
			break;
	if (!CHECK(i < run->ncalls, ": a reply to no call"))
		return;
	result.decode = nfs3_res_xdr(procs[run->batch[i].kind]);
	if (CHECK_EQ(conn_decode(&conns[conn].conn, &result), 0))
		check_reply(run, &run->batch[i], &res);
	xdr_free(result.decode, (char *)&res);
}

static void check_sizes(struct run *run)
{
	fattr3 a;
	int i;

	for (i = 0; i < FILES; i++) {
		CHECK_EQ(nfs3_getattr(&conns[draw(run, CONNS)], &run->files[i].fh, &a), NFS3_OK);
		CHECK(a.size == run->files[i].size, ": file %d: %llu, model %llu", i, (unsigned long long)a.size, (unsigned long long)run->files[i].size);
	}
}

/* After a COMMIT the file is the model, for a local process too. */
static void check_file(struct run *run, struct file *f)
{
	static unsigned char local[FILE_MAX + 1];
	size_t len, same;

	CHECK_EQ(nfs3_commit(&conns[draw(run, CONNS)], &f->fh, 0, 0), NFS3_OK);
	len = get_file(f->path, local, sizeof(local));
	if (!CHECK(len == f->size, ": %s has %zu bytes, model %llu", f->path, len, (unsigned long long)f->size))
		return;
	same = first_difference(local, f->bytes, len);
	CHECK(same == len, ": %s of %zu bytes differs at %zu", f->path, len, same);
}

static void run_batch(struct run *run)
{
	int i;

	draw_batch(run);
	for (i = 0; i < run->ncalls; i++)
		send_call(run, &run->batch[i]);
	for (i = 0; i < run->ncalls; i++)
		take_reply(run, run->batch[i].conn);
	for (i = 0; i < run->ncalls; i++)
		apply(run, &run->batch[i]);
	check_sizes(run);
	if (draw(run, 10) == 0)
		check_file(run, &run->files[draw(run, FILES)]);
	run->batches++;
}

static void run_seed(uint64_t seed, const char *dir, const struct fh *root)
{
	struct run run = { .seed = seed, .rng = seed * 0x9e3779b97f4a7c15u + 1, .dir = dir };
	int i;

	for (i = 0; i < FILES; i++) {
		run.files[i].bytes = calloc(1, FILE_MAX);
		run.files[i].path = text("%s/s%llu.%d", dir, (unsigned long long)seed, i);
		CHECK_EQ(nfs3_make(&conns[0], root, text("s%llu.%d", (unsigned long long)seed, i), &run.files[i].fh), NFS3_OK);
	}
	while (run.batches < BATCHES && !tap_failures())
		run_batch(&run);
	for (i = 0; i < FILES; i++) {
		if (!tap_failures())
			check_file(&run, &run.files[i]);
		free(run.files[i].bytes);
		unlink(run.files[i].path);
	}
	tap_note("seed %llu on %s: %d batches%s", (unsigned long long)seed, dir, run.batches, tap_failures() ? ", FAILED" : "");
}

static long setting(const char *name)
{
	const char *value = getenv(name);

	return value ? atol(value) : 0;
}

static void run_seeds(const char *dir, const struct fh *root)
{
	time_t end = time(NULL) + setting("E2E_MODEL_SECONDS");
	uint64_t seed = (uint64_t)setting("E2E_MODEL_SEED"), seeds = (uint64_t)setting("E2E_MODEL_SEEDS");

	if (seed) {
		run_seed(seed, dir, root);
		return;
	}
	for (seed = 1; (seed <= (seeds ? seeds : SEEDS) || time(NULL) < end) && !tap_failures(); seed++)
		run_seed(seed, dir, root);
}

static void run_on(const char *env)
{
	const char *base = getenv(env), *dir;
	struct fh root;
	int i;

	if (!base) {
		tap_skip("no such file system (%s)", env);
		return;
	}
	dir = work_subdir(base, text("model%d", getpid()), 0777);
	memset(&server, 0, sizeof(server));
	server.exports[0] = text("%s(rw,insecure,no_root_squash)", dir);
	if (!CHECK_EQ(daemon_start(&server), 0))
		return;
	for (i = 0; i < CONNS; i++)
		client_open(&conns[i], server.port);
	if (CHECK_EQ(mount3_mnt(&conns[0], dir, &root), MNT3_OK))
		run_seeds(dir, &root);
	for (i = 0; i < CONNS; i++)
		client_close(&conns[i]);
	CHECK_EQ(daemon_stop(&server), 0);
}

static void test_xfs4k(void)
{
	run_on("E2E_DISK");
}

static void test_ext4(void)
{
	run_on("E2E_OTHER");
}

static void test_tmpfs(void)
{
	run_on("E2E_TMPFS");
}

static const struct tap_test tests[] = {
	{ "xfs4k", test_xfs4k }, /* 1.2, 1.6 */
	{ "ext4", test_ext4 }, /* 1.2 */
	{ "tmpfs", test_tmpfs }, /* 1.3 */
};

int main(int argc, char **argv)
{
	return tap_run(tests, sizeof(tests) / sizeof(*tests), argc, argv);
}
