/*
 * metadata.c: the phases of the metadata mix. Each goes over all files once, every worker taking the next file when it has its reply.
 * The listing is one chain of READDIRPLUS calls, repeated, because a client cannot ask for a page before it has the cookie; its
 * operations are entries, and its latency that of a call.
 */
#include "tests/bench/metadata.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/client.h"
#include "tests/bench/sample.h"

enum { FILES = 10000, LISTINGS = 10 };

static struct fh parent, dir, *files;
static unsigned next_file, listings_left;
static struct outcome outcome;
static struct client *client;
static enum nfs3_proc phase;

static const struct {
	enum nfs3_proc proc;
	const char *name;
} phases[] = {
	{ PROC_CREATE, "metadata-create" },
	{ PROC_LOOKUP, "metadata-lookup" },
	{ PROC_GETATTR, "metadata-getattr" },
	{ PROC_READDIRPLUS, "metadata-readdirplus" },
	{ PROC_RENAME, "metadata-rename" },
	{ PROC_REMOVE, "metadata-remove" },
};

static const char *file_name(unsigned i, bool renamed)
{
	static char names[2][32];

	snprintf(names[renamed], sizeof(names[0]), "%s.%06u", renamed ? "renamed" : "file", i);
	return names[renamed];
}

static void next(struct worker *w)
{
	unsigned i = next_file;

	if (phase == PROC_READDIRPLUS) {
		if (w->index == 0 && listings_left)
			call_readdirplus(client, w, &dir);
		return;
	}
	if (i == FILES)
		return;
	next_file++;
	w->round = i;
	if (phase == PROC_CREATE)
		call_make(client, w, PROC_CREATE, &dir, file_name(i, false));
	else if (phase == PROC_GETATTR)
		call_getattr(client, w, &files[i]);
	else if (phase == PROC_RENAME)
		call_rename(client, w, &dir, file_name(i, false), file_name(i, true));
	else
		call_name(client, w, phase, &dir, file_name(i, phase == PROC_REMOVE));
}

static void take_entries(struct worker *w, struct reply *r)
{
	struct fh fh;

	reply_post_op_attr(r);
	w->verf = reply_u64(r);
	while (reply_u32(r)) {
		reply_u64(r);
		reply_bytes(r, reply_u32(r));
		w->cookie = reply_u64(r);
		reply_post_op_attr(r);
		if (reply_u32(r))
			reply_fh(r, &fh);
		outcome.ops++;
	}
	if (!reply_u32(r))
		return;
	w->cookie = w->verf = 0;
	listings_left--;
}

static void on_reply(struct client *c, struct call *k, struct reply *r)
{
	latency_add(&outcome.latency, now_ns() - k->begin_ns);
	if (k->proc == PROC_READDIRPLUS)
		take_entries(k->worker, r);
	else
		outcome.ops++;
	if (k->proc == PROC_LOOKUP)
		reply_fh(r, &files[k->worker->round]);
	next(k->worker);
}

static void run_phase(unsigned i, const struct watch *w)
{
	unsigned k;

	phase = phases[i].proc;
	memset(&outcome, 0, sizeof(outcome));
	outcome = (struct outcome){ .pattern = phases[i].name, .depth = phase == PROC_READDIRPLUS ? 1 : client->nworkers,
				    .connections = client->nconns, .resident = -1 };
	next_file = 0;
	listings_left = LISTINGS;
	client->on_reply = on_reply;
	client->retries = 0;
	sample_take(w, &outcome.before);
	for (k = 0; k < client->nworkers; k++)
		next(&client->workers[k]);
	while (client->in_flight)
		client_turn(client);
	sample_take(w, &outcome.after);
	outcome.retries = client->retries;
	if (phase == PROC_READDIRPLUS && outcome.ops != (uint64_t)LISTINGS * (FILES + 2))
		die("the directory has %llu entries in %d listings", (unsigned long long)outcome.ops, LISTINGS);
	outcome_print(&outcome, w);
}

static void take_directory(struct client *c, struct call *k, struct reply *r)
{
	if (k->proc == PROC_LOOKUP)
		reply_fh(r, &dir);
}

static void on_directory(enum nfs3_proc proc)
{
	client->on_reply = take_directory;
	if (proc == PROC_MKDIR)
		call_make(client, &client->workers[0], proc, &parent, "metadata");
	else
		call_name(client, &client->workers[0], proc, &parent, "metadata");
	while (client->in_flight)
		client_turn(client);
}

void metadata_run(struct client *c, const struct fh *root, const struct watch *w)
{
	unsigned i;

	client = c;
	parent = *root;
	files = calloc(FILES, sizeof(*files));
	if (!files)
		die("no memory");
	on_directory(PROC_MKDIR);
	on_directory(PROC_LOOKUP);
	for (i = 0; i < sizeof(phases) / sizeof(*phases); i++)
		run_phase(i, w);
	on_directory(PROC_RMDIR);
	free(files);
}
