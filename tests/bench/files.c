/*
 * files.c: the phases of the pattern of many files. Workers take the next file when they have their reply, round and round, until time is up and each file
 * had its turn. What is read was written just before, and comes from the disk: neither server nor kernel need keep it.
 */
#include "tests/bench/files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/client.h"
#include "tests/bench/pattern.h"
#include "tests/bench/sample.h"

enum { RECORD = 47008 };

static struct fh parent, dir, *files;
static unsigned nfiles;
static uint64_t next_file, deadline_ns;
static struct client *client;
static struct outcome outcome;
static enum nfs3_proc phase;

static void file_call(struct worker *w, unsigned i)
{
	char name[32];

	w->round = i;
	snprintf(name, sizeof(name), "file.%06u", i);
	if (phase == PROC_CREATE)
		call_make(client, w, PROC_CREATE, &dir, name);
	else if (phase == PROC_LOOKUP)
		call_name(client, w, PROC_LOOKUP, &dir, name);
	else if (phase == PROC_WRITE)
		call_write(client, w, &files[i], 0, bytes_at(1, 0), RECORD, FILE_SYNC);
	else
		call_read(client, w, &files[i], 0, RECORD);
}

static void next(struct worker *w)
{
	bool once = phase == PROC_CREATE || phase == PROC_LOOKUP;

	if (next_file >= nfiles && (once || now_ns() >= deadline_ns))
		return;
	file_call(w, (unsigned)(next_file++ % nfiles));
}

static void check_write(struct reply *r)
{
	reply_wcc(r);
	if (reply_u32(r) != RECORD || reply_u32(r) != FILE_SYNC)
		die("a WRITE was short, or not stable");
}

static void check_read(struct reply *r)
{
	reply_post_op_attr(r);
	if (reply_u32(r) != RECORD)
		die("a READ was short");
	reply_u32(r);
	if (reply_u32(r) != RECORD || memcmp(reply_bytes(r, RECORD), bytes_at(1, 0), RECORD) != 0)
		die("a READ gave other bytes than were written");
}

static void on_reply(struct client *c, struct call *k, struct reply *r)
{
	latency_add(&outcome.latency, now_ns() - k->begin_ns);
	outcome.ops++;
	if (k->proc == PROC_LOOKUP)
		reply_fh(r, &files[k->worker->round]);
	else if (k->proc == PROC_WRITE)
		check_write(r);
	else if (k->proc == PROC_READ)
		check_read(r);
	outcome.bytes += k->proc == PROC_WRITE || k->proc == PROC_READ ? RECORD : 0;
	next(k->worker);
}

static void turn_to_end(void)
{
	while (client->in_flight)
		client_turn(client);
}

static void run_phase(enum nfs3_proc proc, const char *name, double seconds, const struct watch *w)
{
	char pattern[64];
	unsigned i;

	snprintf(pattern, sizeof(pattern), "files%u-%s", nfiles, name);
	memset(&outcome, 0, sizeof(outcome));
	outcome = (struct outcome){ .pattern = pattern, .depth = client->nworkers, .connections = client->nconns, .resident = -1 };
	phase = proc;
	next_file = 0;
	deadline_ns = now_ns() + (uint64_t)(seconds * 1e9);
	client->on_reply = on_reply;
	client->retries = 0;
	sample_take(w, &outcome.before);
	for (i = 0; i < client->nworkers; i++)
		next(&client->workers[i]);
	turn_to_end();
	sample_take(w, &outcome.after);
	outcome.retries = client->retries;
	outcome_print(&outcome, w);
}

static void take_directory(struct client *c, struct call *k, struct reply *r)
{
	if (k->proc == PROC_LOOKUP)
		reply_fh(r, &dir);
}

static void make_directory(void)
{
	char name[32];

	snprintf(name, sizeof(name), "files%u", nfiles);
	client->on_reply = take_directory;
	call_make(client, &client->workers[0], PROC_MKDIR, &parent, name);
	turn_to_end();
	call_name(client, &client->workers[0], PROC_LOOKUP, &parent, name);
	turn_to_end();
}

void files_run(struct client *c, const struct fh *root, unsigned count, double seconds, const struct watch *w)
{
	client = c;
	parent = *root;
	nfiles = count;
	files = calloc(count, sizeof(*files));
	if (!files)
		die("no memory");
	bytes_init();
	make_directory();
	run_phase(PROC_CREATE, "create", 0, w);
	run_phase(PROC_LOOKUP, "lookup", 0, w);
	run_phase(PROC_WRITE, "write", seconds, w);
	run_phase(PROC_READ, "read", seconds, w);
	free(files);
}
