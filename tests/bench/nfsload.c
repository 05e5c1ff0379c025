/*
 * nfsload.c: one pattern against one NFSv3 server; prints one line of JSON per measured phase.
 *
 * Each of --depth workers has one operation in flight (two WRITEs in the shapes that send them together) and starts the next when
 * it is answered. What a run needs is made first, outside the measured part: a fresh file, or one full of data that has been pushed
 * out of the page cache. A run ends after --seconds or --bytes, whichever is first; the last COMMIT of UNSTABLE writes is inside.
 *
 * Record patterns: worker w of W writes the records w, w + W, w + 2W ... of one file, as parallel programs do. When time is up
 * all workers go on to the round that the fastest has begun: so the file has no holes, and only its end is an edge without a neighbour.
 *
 * --verify reads the file back after the measurement, through libnfs (a client with code of its own), from the device rather than
 * from the page cache, and compares each byte.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/client.h"
#include "tests/bench/files.h"
#include "tests/bench/metadata.h"
#include "tests/bench/pattern.h"
#include "tests/bench/sample.h"
#include "tests/bench/verify.h"

enum { PREPARE_DEPTH = 4 };

static struct {
	const char *name, *export, *path;
	unsigned port, mount_port, depth, connections, idle;
	uint64_t bytes;
	double seconds;
	bool verify;
	struct watch watch;
} opt = { .export = "/", .depth = 32, .connections = 1, .bytes = 1 << 30, .seconds = 3 };

static struct pattern pattern;
static struct client client;
static struct outcome outcome;
static struct fh file;

static uint64_t next_offset;	/* SEQ_*: of the next operation */
static uint64_t rounds_max;	/* RECORDS: a worker stops before this round */
static uint64_t rounds_begun;
static uint64_t deadline_ns;
static uint64_t random_state;
static unsigned generation;	/* of the bytes written */
static uint8_t *overwritten;	/* RAND_WRITE with --verify: a flag per block */

/* --- replies --- */

static uint64_t write_verf;
static bool write_verf_known;

static void check_verf(struct reply *r)
{
	uint64_t verf = reply_u64(r);

	if (write_verf_known && verf != write_verf)
		die("the write verifier has changed");
	write_verf = verf;
	write_verf_known = true;
}

static void on_write(struct call *k, struct reply *r)
{
	uint32_t count, committed;

	reply_wcc(r);
	count = reply_u32(r);
	committed = reply_u32(r);
	if (count != k->count)
		die("WRITE of %u at %llu wrote %u", k->count, (unsigned long long)k->offset, count);
	if (committed < (uint32_t)k->stable)
		die("WRITE asked for %d and was committed as %u", k->stable, committed);
	check_verf(r);
}

static void on_read(struct call *k, struct reply *r)
{
	uint32_t count, len;

	reply_post_op_attr(r);
	count = reply_u32(r);
	reply_u32(r);
	len = reply_u32(r);
	if (count != k->count || len != count)
		die("READ of %u at %llu gave %u", k->count, (unsigned long long)k->offset, count);
	reply_bytes(r, len);
}

static void on_commit(struct reply *r)
{
	reply_wcc(r);
	check_verf(r);
}

static void count_reply(struct client *c, struct call *k, struct reply *r)
{
	latency_add(&outcome.latency, now_ns() - k->begin_ns);
	progress_add(&outcome.progress, now_ns());
	if (k->proc == PROC_WRITE)
		on_write(k, r);
	else if (k->proc == PROC_READ)
		on_read(k, r);
	else if (k->proc == PROC_COMMIT)
		on_commit(r);
	if (k->proc == PROC_COMMIT)
		return;
	outcome.bytes += k->proc == PROC_READ || k->proc == PROC_WRITE ? k->count : 0;
	outcome.ops++;
}

/* --- patterns: each issues the next call or calls of a worker, or none if it is done --- */

static bool time_is_up(void)
{
	return now_ns() >= deadline_ns;
}

static enum stable_how stable(void)
{
	return pattern.stable ? FILE_SYNC : UNSTABLE;
}

static void write_part(struct worker *w, uint64_t offset, uint32_t len)
{
	call_write(&client, w, &file, offset, bytes_at(generation, offset), len, stable());
}

/* A round is a record, or each half of it where one follows the other. */
static void next_record(struct worker *w)
{
	uint32_t cut = pattern_cut(pattern.record);
	uint64_t record, at, round = pattern.shape == ONE_THEN_OTHER ? w->round / 2 : w->round;

	if (round >= rounds_begun) {
		if (time_is_up() && rounds_begun < rounds_max)
			rounds_max = rounds_begun;
		rounds_begun = round < rounds_max ? round + 1 : rounds_begun;
	}
	if (round >= rounds_max)
		return;
	record = round * client.nworkers + w->index;
	at = record * pattern.record;
	if (pattern.shape == WHOLE)
		write_part(w, at, pattern.record);
	if (pattern.shape == TOGETHER || (pattern.shape == ONE_THEN_OTHER && w->round % 2 == 0))
		write_part(w, at, cut);
	if (pattern.shape == TOGETHER || (pattern.shape == ONE_THEN_OTHER && w->round % 2 == 1))
		write_part(w, at + cut, pattern.record - cut);
	w->round++;
}

static void next_sequential(struct worker *w)
{
	uint64_t at = next_offset;

	if (at + pattern.record > opt.bytes || time_is_up())
		return;
	next_offset += pattern.record;
	if (pattern.kind == SEQ_WRITE)
		write_part(w, at, pattern.record);
	else
		call_read(&client, w, &file, at, pattern.record);
}

static void next_random(struct worker *w)
{
	uint64_t at = random_next(&random_state) % (opt.bytes / pattern.record) * pattern.record;

	if (time_is_up())
		return;
	if (overwritten)
		overwritten[at / pattern.record] = 1;
	if (pattern.kind == RAND_WRITE)
		write_part(w, at, pattern.record);
	else
		call_read(&client, w, &file, at, pattern.record);
}

static void next_small(struct worker *w)
{
	if (time_is_up())
		return;
	if (pattern.getattr)
		call_getattr(&client, w, &file);
	else
		call_null(&client, w);
}

static void next(struct worker *w)
{
	if (pattern.kind == RECORDS)
		next_record(w);
	else if (pattern.kind == SEQ_WRITE || pattern.kind == SEQ_READ)
		next_sequential(w);
	else if (pattern.kind == RAND_READ || pattern.kind == RAND_WRITE)
		next_random(w);
	else
		next_small(w);
}

static void on_reply(struct client *c, struct call *k, struct reply *r)
{
	count_reply(c, k, r);
	if (!k->worker->in_flight && k->proc != PROC_COMMIT)
		next(k->worker);
}

static void run_to_end(void)
{
	while (client.in_flight)
		client_turn(&client);
}

static void start(void)
{
	unsigned i;

	next_offset = rounds_begun = 0;
	rounds_max = opt.bytes / ((uint64_t)pattern.record * client.nworkers + !pattern.record);
	random_state = 1;
	deadline_ns = now_ns() + (uint64_t)(opt.seconds * 1e9);
	for (i = 0; i < client.nworkers; i++)
		next(&client.workers[i]);
}

static void run_pattern(void)
{
	start();
	run_to_end();
	if (!pattern.stable && (pattern.kind == RECORDS || pattern.kind == SEQ_WRITE || pattern.kind == RAND_WRITE)) {
		call_commit(&client, &client.workers[0], &file);
		run_to_end();
	}
}

/* --- what a run needs --- */

static struct fh root;

static void take_object(struct client *c, struct call *k, struct reply *r)
{
	if (k->proc == PROC_LOOKUP || (k->proc == PROC_CREATE && reply_u32(r)))
		reply_fh(r, &file);
}

static void one_call(enum nfs3_proc proc, const char *name)
{
	client.on_reply = take_object;
	if (proc == PROC_CREATE)
		call_make(&client, &client.workers[0], proc, &root, name);
	else
		call_name(&client, &client.workers[0], proc, &root, name);
	run_to_end();
}

static void local_name(char *out, size_t size, const char *name)
{
	snprintf(out, size, "%s/%s", opt.path, name);
}

static void fresh_file(const char *name)
{
	one_call(PROC_CREATE, name);
	one_call(PROC_REMOVE, name);
	one_call(PROC_CREATE, name);
	one_call(PROC_LOOKUP, name);
}

/* Makes the file that reads and overwrites work on. Anew for each run: so it lies where that of the server lay which had the turn before. */
static void filled_file(const char *name)
{
	struct pattern wanted = pattern;

	generation = 0;
	fresh_file(name);
	pattern = (struct pattern){ .kind = SEQ_WRITE, .record = 1 << 20 };
	client.on_reply = on_reply;
	opt.seconds += 3600;
	run_pattern();
	opt.seconds -= 3600;
	pattern = wanted;
}

static void evict(const char *name)
{
	char local[4096];

	if (!opt.path)
		return;
	local_name(local, sizeof(local), name);
	file_evict(local);
}

/* --- a run --- */

static const char *file_name(void)
{
	return pattern.over ? "filled" : "fresh";
}

static void measure(void)
{
	char local[4096];

	memset(&outcome, 0, sizeof(outcome));
	outcome = (struct outcome){ .pattern = opt.name, .depth = opt.depth, .connections = opt.connections, .resident = -1 };
	client.on_reply = on_reply;
	client.retries = 0;
	sample_take(&opt.watch, &outcome.before);
	run_pattern();
	sample_take(&opt.watch, &outcome.after);
	outcome.retries = client.retries;
	if (opt.path && pattern.kind != SMALL_CALLS) {
		local_name(local, sizeof(local), file_name());
		outcome.resident = file_resident(local);
	}
	outcome_print(&outcome, &opt.watch);
}

static uint64_t written_end(void)
{
	if (pattern.kind == RECORDS)
		return rounds_max * client.nworkers * pattern.record;
	return pattern.kind == SEQ_WRITE ? next_offset : 0;
}

static unsigned generation_at(uint64_t offset, uint64_t *until)
{
	uint64_t end = written_end();

	if (overwritten) {
		*until = (offset / pattern.record + 1) * pattern.record;
		return overwritten[offset / pattern.record];
	}
	if (offset < end)
		*until = end < *until ? end : *until;
	return offset < end;
}

static void verify(void)
{
	evict(file_name());
	verify_file(opt.port, opt.mount_port, opt.export, file_name(), pattern.over ? opt.bytes : written_end(), generation_at);
	free(overwritten);
}

static void run_file_pattern(void)
{
	opt.bytes &= ~(uint64_t)((1 << 20) - 1);
	bytes_init();
	if (pattern.over)
		filled_file(file_name());
	else
		fresh_file(file_name());
	if (pattern.kind != SMALL_CALLS)
		evict(file_name());
	generation = 1;
	if (opt.verify && pattern.kind == RAND_WRITE)
		overwritten = calloc(opt.bytes / pattern.record, 1);
	measure();
	if (opt.verify && pattern.kind != SMALL_CALLS)
		verify();
	one_call(PROC_REMOVE, file_name());
}

/* --- command line --- */

static void __attribute__((noreturn)) usage(void)
{
	fprintf(stderr, "nfsload --port N [--mount-port N] --export PATH [--path LOCAL-PATH] --pattern NAME [--depth N] [--connections N] [--idle N]\n"
			"        [--seconds S] [--bytes N[KMG]] [--pid SERVER] [--device NAME] [--verify]\npatterns:\n%s", pattern_names);
	exit(2);
}

static const struct option options[] = {
	{ "port", required_argument, NULL, 'p' }, { "mount-port", required_argument, NULL, 'm' },
	{ "export", required_argument, NULL, 'e' }, { "path", required_argument, NULL, 'l' },
	{ "pattern", required_argument, NULL, 'n' }, { "depth", required_argument, NULL, 'd' },
	{ "connections", required_argument, NULL, 'c' }, { "idle", required_argument, NULL, 'i' },
	{ "seconds", required_argument, NULL, 's' },
	{ "bytes", required_argument, NULL, 'b' }, { "pid", required_argument, NULL, 'w' },
	{ "device", required_argument, NULL, 'v' }, { "verify", no_argument, NULL, 'y' },
	{ 0 },
};

static void take_option(int c)
{
	switch (c) {
	case 'p': opt.port = (unsigned)atoi(optarg); break;
	case 'm': opt.mount_port = (unsigned)atoi(optarg); break;
	case 'e': opt.export = optarg; break;
	case 'l': opt.path = optarg; break;
	case 'n': opt.name = optarg; break;
	case 'd': opt.depth = (unsigned)atoi(optarg); break;
	case 'c': opt.connections = (unsigned)atoi(optarg); break;
	case 'i': opt.idle = (unsigned)atoi(optarg); break;
	case 's': opt.seconds = atof(optarg); break;
	case 'b': opt.bytes = size_arg(optarg); break;
	case 'w': opt.watch.pid = atoi(optarg); break;
	case 'v': opt.watch.device = optarg; break;
	case 'y': opt.verify = true; break;
	default: usage();
	}
}

int main(int argc, char **argv)
{
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0)
		take_option(c);
	if (!opt.port || !opt.name || pattern_parse(opt.name, &pattern) < 0)
		usage();
	if (!opt.mount_port)
		opt.mount_port = opt.port;
	client_mount(opt.mount_port, opt.export, &root);
	client_idle(opt.port, opt.idle);
	client_open(&client, opt.port, opt.connections, opt.depth);
	if (pattern.kind == METADATA)
		metadata_run(&client, &root, &opt.watch);
	else if (pattern.kind == FILES)
		files_run(&client, &root, pattern.files, opt.seconds, &opt.watch);
	else
		run_file_pattern();
	client_close(&client);
	return 0;
}
