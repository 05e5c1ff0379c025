/*
 * tests/model/edge_model.c - a model checker for the edge protocol: the code of iocache/ itself, in every schedule. (WRITE_PATH 1b, 2; DESIGN, rules 1 to 3)
 *
 * What is explored. A scenario is a file (empty, 3000 bytes, three units), up to three WRITEs to its first two units, each UNSTABLE or stable, and one more operation: COMMIT, a
 * truncate into either unit, an overwrite, a READ. All of them begin at once, each in a fiber. The simulation asks this program for every choice that it has (runtime/sim_explore.c):
 * which fiber runs to its next wait, which operation of the device takes its next moment, when a timer's time has come. explore.c answers with every sequence of
 * choices, depth first, by running the scenario again from its start; a state that was met before is not explored again (state.c says what is a state). So for each scenario
 * all interleavings of claim, stage, adopt, complete, fill, run, sync, drop, truncate and overwrite are exhausted, at the grain of the code between two waits of a
 * fiber. That grain is exact for one reactor, and allows more than one reactor does: operations complete between any two fibers' turns. Finer than that, several
 * reactors interleave between two holds of a mapping's lock; that is not explored. Nor are writes of the device that land in parts where somebody reads meanwhile (in parts
 * after a power cut: they are), and operations that fail; with one exception:
 *
 * A disk that is full for some. In a part of the scenarios one or two of the writes that need space, of new units or of holes, find none: which, is a choice like any other. Runs
 * there are of one unit at most, so that some of a round's fail and others do not. What a client was refused may then be in the file or not; all else is checked as ever, but for
 * what is said of units at the end: what was kept for a later try may still be here.
 *
 * What is checked in every state, that is before every choice:
 *  - mapping_check_locked().
 *  - A power cut now. Everything that the disk might be afterwards is listed (sim_survivors()): every size that its journal could keep, every content of each block, with what is
 *    under way landed or not. No byte that nobody wrote; each byte that was answered as stable, or that a COMMIT or truncate covered, is there or has been
 *    overwritten; the file is as long as what was promised, and never longer than data ever reached.
 *  - When a read is submitted that no client asked for: WRITEs have not given all bytes of that unit. No read where coverage completes.
 *  - When a write is submitted that makes the file longer: nothing that it leaves behind is still under way. No size in advance of the data.
 *  - Memory under way does not change: the simulation compares it at its end with what was submitted.
 * When all have their answers and the flusher has ended: nothing is whole and dirty, or complete and still here; a half-written unit has stayed, once, for its
 * partner; nobody waits. At the end the disk, byte for byte, and each READ are what the WRITEs made, in the order in which they were staged.
 *
 * Steps that commute with everything else are not interleaved: see is_local(). --plain explores without that states are recognised; --all explores many times as much
 * as make check. README has the bugs that were put in by hand, and how each is found.
 */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "iocache/mapping_impl.h"
#include "runtime/buf.h"
#include "runtime/fiber.h"
#include "runtime/internal.h"
#include "runtime/io.h"
#include "runtime/reactor.h"
#include "runtime/sim.h"
#include "runtime/sim_random.h"
#include "tests/model/explore.h"
#include "tests/model/oracle.h"
#include "tests/model/state.h"

enum { OPS_MAX = 4, FILE_NUMBER = 1, UNIT = ORACLE_UNIT };

enum op_kind { OP_NONE, OP_WRITE, OP_COMMIT, OP_TRUNCATE, OP_READ };
enum stable { UNSTABLE, DATA_SYNC, FILE_SYNC };

struct plan;

struct op {
	enum op_kind kind;
	uint64_t start, end; /* WRITE; TRUNCATE: to start */
	enum stable stable;
};

struct scenario {
	uint64_t size;       /* of the file at first */
	bool hole;           /* ... which has no space yet */
	uint32_t block;
	uint32_t run_bytes;  /* at most in a run; 0: more than there are */
	unsigned refusals;   /* so many writes may find no space */
	struct op op[OPS_MAX];
};

static struct {
	const struct plan *plan;
	const char *plan_option;
	bool verbose, plain;
	uint64_t only, executions_max;
	unsigned jobs;
	const char *replay;
} opt = { .jobs = 1, .only = UINT64_MAX, .plan_option = "" };

static struct scenario scenario;
static uint64_t serial;           /* of the next scenario */
static struct mapping *m;
static unsigned clients;          /* that have not ended */
static struct fiber *reader;      /* the fiber of OP_READ: its reads are wanted */
static struct buf *read_buf;      /* what it has read so far */
static struct fiber *main_parked;

/* ---- saying what is wrong ---- */

static const char *op_text(const struct op *op, char *text, size_t size)
{
	static const char *const stable[] = { "unstable", "data_sync", "file_sync" };

	switch (op->kind) {
	case OP_WRITE: snprintf(text, size, "WRITE %llu-%llu %s", (unsigned long long)op->start, (unsigned long long)op->end, stable[op->stable]); break;
	case OP_COMMIT: snprintf(text, size, "COMMIT"); break;
	case OP_TRUNCATE: snprintf(text, size, "TRUNCATE %llu", (unsigned long long)op->start); break;
	case OP_READ: snprintf(text, size, "READ"); break;
	case OP_NONE: *text = 0; break;
	}
	return text;
}

static void say_where(void)
{
	char text[64];

	printf("# file of %llu %sbytes, block %u, %u refusals:", (unsigned long long)scenario.size, scenario.hole ? "unwritten " : "", scenario.block, scenario.refusals);
	for (unsigned i = 0; i < OPS_MAX && scenario.op[i].kind; i++)
		printf(" %s%s", i ? "| " : "", op_text(&scenario.op[i], text, sizeof text));
	printf("\n# again: edge_model %s --only %llu --replay %s\n", opt.plan_option, (unsigned long long)serial - 1, explore_path());
	fflush(stdout);
}

void oracle_fail(const char *fmt, ...)
{
	va_list ap;

	printf("# FAILED: ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	say_where();
	_exit(1);
}

static void on_abort(int sig)
{
	printf("# FAILED: an assertion (see above)\n");
	say_where();
	fiber_dump(stdout);
	fflush(stdout);
	_exit(1);
}

/* ---- the clients ---- */

/* Bit u: something of unit u is in hand. */
static unsigned units_in_hand(void)
{
	unsigned units = 0;

	leaf_lock(&m->lock);
	for (unsigned u = 0; u < ORACLE_UNITS; u++)
		units |= (unsigned)(mapping_find_locked(m, u * UNIT) != NULL) << u;
	leaf_unlock(&m->lock);
	return units;
}

static void must(int error, const char *what)
{
	if (error)
		oracle_fail("%s: error %d", what, -error);
}

/* Done; false: for lack of space it is not. */
static bool done_or_refused(int error, const char *what)
{
	if (error != -ENOSPC || !sim_refused())
		must(error, what);
	return !error;
}

static void do_write(const struct op *op)
{
	static const enum mapping_sync_how how[] = { MAPPING_SYNC_FILE, MAPPING_SYNC_DATA, MAPPING_SYNC_FILE };
	uint8_t value = (uint8_t)(1 + (op - scenario.op));
	uint32_t len = (uint32_t)(op->end - op->start);
	struct buf *b = buf_alloc(len + PAGE_BYTES);
	struct mapping_payload p = { .buf = b, .data = b->data + op->start % PAGE_BYTES, .len = len, .unstable = op->stable == UNSTABLE, .how = how[op->stable] };
	struct mapping_write w;
	struct oracle_write expected = { .start = op->start, .end = op->end, .value = value, .stable = !p.unstable };
	unsigned number;

	memset(p.data, value, len);
	if (done_or_refused(mapping_write_begin(m, &w, 0, op->start, len), "WRITE begins")) {
		expected.in_hand = units_in_hand();
		must(mapping_stage(m, &w, &p), "WRITE is staged");
		number = oracle_staged(&expected);
		mapping_write_end(m, &w);
		if (!p.unstable && done_or_refused(mapping_write_wait(m, &w), "stable WRITE"))
			oracle_answered(number, op->start, op->end);
		else if (!p.unstable)
			oracle_refused(number);
	}
	buf_put(b);
}

static void do_commit(void)
{
	unsigned number = oracle_now();

	if (done_or_refused(mapping_commit(m, 0, UINT64_MAX), "COMMIT"))
		oracle_stable(0, UINT64_MAX, number);
}

/* As vfs_truncate() does. */
static void do_truncate(uint64_t size)
{
	unsigned number;

	oracle_truncate_begins(size);
	must(mapping_truncate(m, size), "truncate");
	number = oracle_truncated();
	if (done_or_refused(mapping_sync(m, 0, UINT64_MAX, 0, MAPPING_SYNC_FILE), "truncate's sync"))
		oracle_stable(0, UINT64_MAX, number);
}

/* As vfs_read() does, of the whole file. */
static void do_read(void)
{
	struct mapping_piece piece[16];
	struct range_hold hold;
	struct buf *b = buf_alloc(ORACLE_BYTES);
	uint64_t size;
	int count;

	memset(b->data, 0, ORACLE_BYTES);
	reader = fiber_self();
	read_buf = b;
	mapping_read_begin(m, &hold, 0, ORACLE_BYTES);
	size = mapping_size(m);
	count = mapping_read_pieces(m, 0, size, piece, ARRAY_SIZE(piece));
	must(count < 0 ? count : mapping_read_device(m, true, b->data, 0, ORACLE_BYTES), "READ");
	for (int i = 0; i < count; i++) {
		memcpy(b->data + piece[i].start, piece[i].data, piece[i].end - piece[i].start);
		buf_put(piece[i].buf);
	}
	oracle_check_content(b->data, size, "READ");
	mapping_read_end(m, &hold);
	read_buf = NULL;
	buf_put(b);
}

static void client_main(void *arg)
{
	const struct op *op = arg;

	switch (op->kind) {
	case OP_WRITE: do_write(op); break;
	case OP_COMMIT: do_commit(); break;
	case OP_TRUNCATE: do_truncate(op->start); break;
	case OP_READ: do_read(); break;
	case OP_NONE: break;
	}
	if (--clients == 0)
		fiber_unpark(main_parked);
}

/* ---- the server's side ---- */

static void data_lost(void *owner)
{
	oracle_fail("the write verifier changes, though nothing went wrong");
}

static void open_file(void)
{
	struct mapping_config config = { .block = scenario.block, .data_lost = data_lost };
	struct statx stx;

	config.direct_fd = sim_open(FILE_NUMBER, SIM_DIRECT);
	config.buffered_fd = sim_open(FILE_NUMBER, 0);
	if (scenario.hole)
		must(io_ftruncate(config.buffered_fd, scenario.size), "ftruncate");
	must(io_fsync(config.buffered_fd, 0), "fsync");
	must(io_fstatx(config.buffered_fd, STATX_BASIC_STATS, &stx), "statx");
	config.size = stx.stx_size;
	config.mtime = (struct timespec){ stx.stx_mtime.tv_sec, stx.stx_mtime.tv_nsec };
	config.ctime = (struct timespec){ stx.stx_ctime.tv_sec, stx.stx_ctime.tv_nsec };
	m = mapping_create(&config);
}

static void wait_until_quiet(void)
{
	main_parked = fiber_self();
	if (clients)
		fiber_park("clients", NULL);
	leaf_lock(&m->lock);
	while (m->flusher_running)
		fiber_cond_wait(&m->flusher_ended, &m->lock, "flusher to end");
	leaf_unlock(&m->lock);
}

/*
 * Nothing is under way: what stays is half-written. One folio for each such unit, clean, or dirty if nobody asked for it yet; and what ends at the file's end.
 */
static void check_quiet_folio(const struct folio *f)
{
	unsigned unit = (unsigned)(f->start / UNIT);
	bool tail = folio_end(f) > m->size;
	struct byterange known;

	if (f->run)
		oracle_fail("unit %u is under way though nothing is", unit);
	if (f->is_kept && (f->mark || folio_is_complete(f, m->unit)))
		oracle_fail("unit %u is complete, written, and still here", unit);
	if (oracle_unit_is_whole(unit) && !tail)
		oracle_fail("WRITEs have completed unit %u, and it is still here", unit);
	if (!sim_refused() && (f->adopted || (f->dirty_seq && !tail && !fill_is_needed_locked(m, f, &known))))
		oracle_fail("unit %u is whole and still not written", unit);
}

/* And each half-written unit is there for its partner, unless a truncate took it. */
static void check_quiet(void)
{
	struct folio *f;

	leaf_lock(&m->lock);
	mapping_check_locked(m);
	RB_FOREACH(f, folio_tree, &m->folios)
		check_quiet_folio(f);
	for (unsigned u = 0; u < ORACLE_UNITS; u++)
		if (oracle_unit_waits(u) && !mapping_find_locked(m, u * UNIT))
			oracle_fail("unit %u is half-written, and did not stay for its partner", u);
	if (!TAILQ_EMPTY(&m->waiters))
		oracle_fail("somebody waits for an answer that nobody will give");
	leaf_unlock(&m->lock);
}

static void close_file(void)
{
	static uint8_t bytes[ORACLE_BYTES + 1];

	sim_end_refusals();
	must(mapping_flush(m), "flush");
	if (!mapping_is_idle(m))
		oracle_fail("not idle after the flush");
	mapping_destroy(m);
	m = NULL;
	sim_peek(FILE_NUMBER, bytes, sizeof bytes, 0);
	oracle_check_content(bytes, sim_size(FILE_NUMBER), "the disk at the end");
}

static void main_fiber(void *arg, unsigned index)
{
	open_file();
	clients = 0;
	for (unsigned i = 0; i < OPS_MAX && scenario.op[i].kind; i++, clients++)
		must(fiber_spawn(client_main, &scenario.op[i], "client"), "spawn");
	wait_until_quiet();
	if (!explore_is_pruned())
		check_quiet();
	close_file();
	runtime_stop();
}

/* ---- one execution ---- */

static void survivor(void *arg, const struct sim_survivor *s)
{
	oracle_check_survivor(s);
}

static void check_state(void)
{
	if (!m)
		return;
	leaf_lock(&m->lock);
	mapping_check_locked(m);
	leaf_unlock(&m->lock);
	sim_survivors(FILE_NUMBER, survivor, NULL);
}

static uint64_t hash_state(void)
{
	uint64_t hash = sim_hash_word(sim_hash_word(state_hash(m), sim_state_hash()), oracle_hash());

	return read_buf ? sim_hash(hash, read_buf->data, ORACLE_BYTES) : hash;
}

/* No read from the device where coverage completes (2.5, 2.6). */
static void check_read(const struct io_op *op)
{
	unsigned unit = (unsigned)(op->offset / UNIT);

	if (fiber_self() != reader && oracle_unit_is_covered(unit))
		oracle_fail("unit %u is read from the device though WRITEs have given all its bytes", unit);
}

/* A write that makes the file longer leaves nothing behind that is still under way: no size in advance of the data (1.13). */
static void check_growth(const struct io_op *op)
{
	uint64_t size = sim_size(FILE_NUMBER);
	struct folio *f;

	leaf_lock(&m->lock);
	for (f = mapping_first_locked(m, size); f && folio_end(f) <= op->offset; f = mapping_next_locked(f))
		if (f->run)
			oracle_fail("the write at %llu grows the file while unit %llu below it is under way", (unsigned long long)op->offset, (unsigned long long)f->start / UNIT);
	leaf_unlock(&m->lock);
}

static void submitted(const struct io_op *op)
{
	if (op->code == IO_READV)
		check_read(op);
	else if (op->code == IO_WRITEV)
		check_growth(op);
}

/*
 * Steps that commute with all others, and hide nothing by being taken at once: a new flusher only yields; a WRITE or COMMIT that has its answer only takes it, and from then on
 * more is promised.
 */
static bool is_local(const struct fiber *f)
{
	const struct op *op = f->arg;

	if (!strcmp(f->what, "flusher"))
		return !strcmp(f->why, "new");
	return !strcmp(f->what, "client") && !strcmp(f->why, "sync") && (op->kind == OP_WRITE || op->kind == OP_COMMIT);
}

static unsigned choose(unsigned n)
{
	const struct fiber *f;
	unsigned i = 0;

	if (sim_refused())
		oracle_disk_refuses();
	if (!opt.plain && !explore_is_pruned())
		state_scrub();
	TAILQ_FOREACH(f, &reactor_here->ready, link) {
		if (is_local(f)) {
			explore_choose(1);
			return i;
		}
		i++;
	}
	return explore_choose(n);
}

static void run_once(void)
{
	struct sim_config sim = { .seed = 1, .block_bytes = scenario.block, .mem_align_bytes = 512 };
	static uint8_t old[ORACLE_BYTES];

	sim_init(&sim);
	cache_init(&(struct cache_config){ .early_bytes = UNIT, .run_bytes_max = scenario.run_bytes });
	oracle_init(scenario.size, scenario.hole ? 0 : ORACLE_OLD);
	memset(old, ORACLE_OLD, sizeof old);
	if (scenario.size && !scenario.hole)
		sim_poke(FILE_NUMBER, old, scenario.size, 0);
	sim_explore(&(struct sim_explorer){ .choose = choose, .submitted = submitted, .refusals = scenario.refusals });
	reader = NULL;
	read_buf = NULL;
	must(runtime_run(main_fiber, NULL), "run");
	cache_fini();
	sim_fini();
}

/* ---- all scenarios ---- */

struct shape {
	uint64_t start, end;
};

/* Of two units: halves, overlapping parts, across, whole. The core ones come first. */
static const struct shape shapes[] = {
	{ 0, 1000 }, { 1000, 4096 }, { 1000, 5096 }, { 0, 8192 },
	{ 0, 3000 }, { 0, 4096 }, { 4096, 8192 }, { 5096, 8192 }, { 3000, 7096 },
};

enum { CORE_SHAPES = 4, SHAPES = ARRAY_SIZE(shapes) };

/* Of three units, for runs of one unit: two runs and what comes behind them. */
static const struct shape full_shapes[] = { { 0, 4096 }, { 4096, 8192 }, { 8192, 9192 }, { 1000, 5096 }, { 0, 8192 } };

enum { FULL_SHAPES = ARRAY_SIZE(full_shapes) };

/* The one more operation; the core ones come first. */
static const struct op extras[] = {
	{ .kind = OP_NONE },
	{ .kind = OP_COMMIT },
	{ .kind = OP_TRUNCATE, .start = 1000 },
	{ .kind = OP_WRITE, .start = 0, .end = 8192, .stable = UNSTABLE },
	{ .kind = OP_WRITE, .start = 1000, .end = 3000, .stable = FILE_SYNC },
	{ .kind = OP_TRUNCATE, .start = 7096 },
	{ .kind = OP_READ },
};

enum { CORE_EXTRAS = 5, EXTRAS = ARRAY_SIZE(extras) };

static const uint64_t sizes[] = { 0, 3000, 12288 };

/* What is explored of all that there is. */
struct plan {
	uint32_t block;
	unsigned shapes, stables;  /* so many of each */
	unsigned writes_min, writes_max;
	unsigned extra_first, extra_end;
	unsigned sizes;            /* bit i: sizes[i] */
	bool distinct;             /* no shape twice */
	unsigned refusals;         /* not 0: a disk that is full for some, and the shapes for that; the last file is one hole */
};

static const struct plan check_plan[] = {
	{ 4096, CORE_SHAPES, 2, 3, 3, 0, 1, 7, false, 0 },           /* three WRITEs */
	{ 4096, CORE_SHAPES, 2, 1, 2, 1, CORE_EXTRAS, 7, false, 0 }, /* two, and one more operation */
	{ 4096, 3, 2, 1, 2, EXTRAS - 1, EXTRAS, 5, false, 0 },       /* two, and a READ */
	{ 4096, 3, 2, 3, 3, 1, CORE_EXTRAS, 5, true, 0 },            /* three, and one more */
	{ 4096, 4, 2, 3, 3, 0, 1, 3, true, 1 },                      /* three, and one of what they make the server write finds no space */
	{ 4096, FULL_SHAPES, 2, 1, 2, 0, 1, 7, true, 2 },            /* two, and two of those do not; a file of holes too */
	{ 4096, 3, 2, 1, 2, 1, CORE_EXTRAS, 3, true, 1 },            /* two, and one more operation */
	{ 4096, 3, 2, 1, 2, EXTRAS - 1, EXTRAS, 1, true, 1 },        /* two, and a READ */
	{ 0 },
};

static const struct plan few_plan[] = {
	{ 4096, 3, 2, 1, 2, 0, CORE_EXTRAS, 5, true, 0 },
	{ 4096, 3, 2, 3, 3, 0, 1, 1, true, 1 },
	{ 0 },
};

static const struct plan all_plan[] = {
	{ 4096, SHAPES, 2, 3, 3, 0, 1, 7, false, 0 },
	{ 4096, SHAPES, 3, 1, 2, 0, EXTRAS, 7, false, 0 },
	{ 4096, CORE_SHAPES, 2, 3, 3, 1, EXTRAS, 7, false, 0 },
	{ 512, CORE_SHAPES, 2, 2, 3, 0, 1, 7, false, 0 },
	{ 512, CORE_SHAPES, 2, 1, 2, 1, EXTRAS, 7, false, 0 },
	{ 4096, FULL_SHAPES, 2, 1, 3, 0, EXTRAS, 7, false, 2 },
	{ 0 },
};

static const enum stable stables[] = { UNSTABLE, FILE_SYNC, DATA_SYNC };

struct totals {
	uint64_t scenarios, incomplete, executions, states, steps;
	unsigned depth_max, failed;
};


static struct totals *totals; /* one for each job, shared */
static struct totals *mine;
static unsigned job;

static const struct explore_program program = { .run = run_once, .check = check_state, .hash = hash_state };

static void explore_scenario(void)
{
	struct explore_program p = program;
	struct explore_result r;

	p.executions_max = opt.executions_max;
	p.hash = opt.plain ? NULL : p.hash;
	explore(&p, &r);
	mine->scenarios++;
	mine->incomplete += !r.complete;
	mine->executions += r.executions;
	mine->states += r.states;
	mine->steps += r.steps;
	mine->depth_max = r.depth_max > mine->depth_max ? r.depth_max : mine->depth_max;
	if (!opt.verbose)
		return;
	printf("%llu executions, %llu states, depth %u%s: scenario %llu\n", (unsigned long long)r.executions, (unsigned long long)r.states, r.depth_max,
	       r.complete ? "" : ", NOT COMPLETE", (unsigned long long)serial - 1);
	say_where();
}

static void visit(void)
{
	uint64_t number = serial++;

	if (opt.only == UINT64_MAX ? number % opt.jobs != job : number != opt.only)
		return;
	if (!opt.replay)
		explore_scenario();
	else
		explore_replay(&program, opt.replay);
}

/* The WRITEs from `index` on, of kinds in ascending order, for all orders are explored anyway. */
static void visit_writes(const struct plan *plan, unsigned index, unsigned count, unsigned kind, const struct op *extra)
{
	if (index == count) {
		scenario.op[index] = *extra;
		if (index + 1 < OPS_MAX)
			scenario.op[index + 1].kind = OP_NONE;
		visit();
		return;
	}
	for (; kind < plan->shapes * plan->stables; kind++) {
		const struct shape *s = &(plan->refusals ? full_shapes : shapes)[kind / plan->stables];

		scenario.op[index] = (struct op){ .kind = OP_WRITE, .start = s->start, .end = s->end, .stable = stables[kind % plan->stables] };
		visit_writes(plan, index + 1, count, plan->distinct ? align_down(kind, plan->stables) + plan->stables : kind, extra);
	}
}

static void visit_size(const struct plan *plan, unsigned index)
{
	scenario.size = sizes[index];
	scenario.hole = plan->refusals && index + 1 == ARRAY_SIZE(sizes);
	for (unsigned e = plan->extra_first; e < plan->extra_end; e++)
		for (unsigned n = plan->writes_min; n <= plan->writes_max; n++)
			visit_writes(plan, 0, n, 0, &extras[e]);
}

static void visit_plan(const struct plan *plan)
{
	scenario.block = plan->block;
	scenario.refusals = plan->refusals;
	scenario.run_bytes = plan->refusals ? UNIT : 0;
	for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++)
		if (plan->sizes >> i & 1)
			visit_size(plan, i);
}

static void start_runtime(void)
{
	struct reactor_config config = { .reactors = 1, .fibers = 16, .stack_bytes = 64 << 10 };

	signal(SIGABRT, on_abort);
	buf_init(16 << 20);
	sim_init(&(struct sim_config){ .seed = 1, .block_bytes = UNIT });
	must(runtime_init(&config), "runtime_init");
	sim_fini();
}

static void job_main(void)
{
	mine = &totals[job];
	start_runtime();
	for (const struct plan *plan = opt.plan; plan->block; plan++)
		visit_plan(plan);
	fflush(stdout);
	_exit(0);
}

static bool parse(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--all") || !strcmp(argv[i], "--few"))
			opt.plan_option = argv[i];
		else if (!strcmp(argv[i], "--verbose"))
			opt.verbose = true;
		else if (!strcmp(argv[i], "--plain"))
			opt.plain = true;
		else if (!strcmp(argv[i], "--only") && i + 1 < argc)
			opt.only = strtoull(argv[++i], NULL, 10);
		else if (!strcmp(argv[i], "--replay") && i + 1 < argc)
			opt.replay = argv[++i];
		else if (!strcmp(argv[i], "--most") && i + 1 < argc)
			opt.executions_max = strtoull(argv[++i], NULL, 10);
		else if (!strcmp(argv[i], "--jobs") && i + 1 < argc)
			opt.jobs = (unsigned)strtoul(argv[++i], NULL, 10);
		else
			return false;
	}
	opt.plan = !strcmp(opt.plan_option, "--all") ? all_plan : !strcmp(opt.plan_option, "--few") ? few_plan : check_plan;
	return opt.jobs > 0;
}

static bool run_jobs(void)
{
	bool passed = true;
	int status;

	fflush(stdout);
	for (job = 0; job < opt.jobs; job++)
		if (fork() == 0)
			job_main();
	while (wait(&status) > 0)
		passed &= WIFEXITED(status) && WEXITSTATUS(status) == 0;
	return passed;
}

int main(int argc, char **argv)
{
	struct totals sum = { 0 };

	if (!parse(argc, argv)) {
		fprintf(stderr, "usage: edge_model [--all | --few] [--jobs N] [--most EXECUTIONS] [--plain] [--verbose] [--only SCENARIO [--replay SCHEDULE]]\n");
		return 2;
	}
	totals = mmap(NULL, opt.jobs * sizeof *totals, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	bool passed = run_jobs();
	for (unsigned i = 0; i < opt.jobs; i++) {
		sum.scenarios += totals[i].scenarios;
		sum.incomplete += totals[i].incomplete;
		sum.executions += totals[i].executions;
		sum.states += totals[i].states;
		sum.steps += totals[i].steps;
		sum.depth_max = totals[i].depth_max > sum.depth_max ? totals[i].depth_max : sum.depth_max;
	}
	printf("# %llu scenarios, %llu of them not to the end; %llu executions, %llu states with a choice, %llu states checked, at most %u choices deep\n",
	       (unsigned long long)sum.scenarios, (unsigned long long)sum.incomplete, (unsigned long long)sum.executions, (unsigned long long)sum.states,
	       (unsigned long long)sum.steps, sum.depth_max);
	printf("%llu passed, %u failed, 0 skipped\n", (unsigned long long)sum.scenarios, !passed);
	return !passed || sum.incomplete;
}
