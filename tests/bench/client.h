/*
 * client.h: a small NFSv3 client for load: calls are encoded in place, sent in batches, and answered through a callback.
 * One thread uses everything here.
 */
#ifndef TESTS_BENCH_CLIENT_H
#define TESTS_BENCH_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FH_MAX = 64, CALL_HEAD_MAX = 640, CALLS_PER_WORKER = 2 };

enum nfs3_proc {
	PROC_NULL = 0, PROC_GETATTR = 1, PROC_LOOKUP = 3, PROC_READ = 6, PROC_WRITE = 7, PROC_CREATE = 8, PROC_MKDIR = 9,
	PROC_REMOVE = 12, PROC_RMDIR = 13, PROC_RENAME = 14, PROC_READDIRPLUS = 17, PROC_COMMIT = 21,
};

enum stable_how { UNSTABLE = 0, DATA_SYNC = 1, FILE_SYNC = 2 };

struct fh {
	uint32_t len;
	uint8_t data[FH_MAX];
};

struct worker;
struct conn;

/* A call and its place in the connection's queue. Owned by its worker, used again and again. */
struct call {
	struct worker *worker;
	struct call *next;
	uint64_t begin_ns;
	uint64_t offset;	/* of READ and WRITE */
	uint32_t count;
	enum nfs3_proc proc;
	enum stable_how stable;
	bool busy;
	uint32_t xid, head_len, payload_len, pad_len;
	const void *payload;
	uint8_t head[CALL_HEAD_MAX];
};

/* One line of activity: the next call goes out when all of those before are answered. */
struct worker {
	unsigned index;
	unsigned in_flight;
	struct conn *conn;
	uint64_t round;		/* the pattern's own */
	uint64_t cookie, verf;	/* of its READDIRPLUS */
	struct call calls[CALLS_PER_WORKER];
};

/* What is left to read of a reply. Reading past its end ends the program. */
struct reply {
	const uint8_t *at, *end;
};

struct client;

/* Called for each good reply, standing after nfsstat3. */
typedef void reply_fn(struct client *c, struct call *call, struct reply *r);

struct client {
	struct conn *conns;
	unsigned nconns;
	struct worker *workers;
	unsigned nworkers;
	unsigned in_flight;
	uint32_t generation;	/* of xids */
	uint64_t retries;
	reply_fn *on_reply;
};

void client_open(struct client *c, unsigned port, unsigned nconns, unsigned nworkers);
void client_close(struct client *c);
/* Opens connections that ask nothing more after one NULL call each, and stay until the program ends. */
void client_idle(unsigned port, unsigned count);
/* Sends what is queued, waits for replies and hands them out, once. */
void client_turn(struct client *c);

/* The root handle of an export. */
void client_mount(unsigned port, const char *path, struct fh *root);

/* Queue a call of worker W. */
void call_null(struct client *c, struct worker *w);
void call_getattr(struct client *c, struct worker *w, const struct fh *fh);
void call_name(struct client *c, struct worker *w, enum nfs3_proc proc, const struct fh *dir, const char *name);	/* LOOKUP, REMOVE, RMDIR */
void call_make(struct client *c, struct worker *w, enum nfs3_proc proc, const struct fh *dir, const char *name);	/* CREATE, MKDIR */
void call_rename(struct client *c, struct worker *w, const struct fh *dir, const char *from, const char *to);
void call_readdirplus(struct client *c, struct worker *w, const struct fh *dir);	/* from w->cookie and w->verf */
void call_read(struct client *c, struct worker *w, const struct fh *fh, uint64_t offset, uint32_t count);
void call_write(struct client *c, struct worker *w, const struct fh *fh, uint64_t offset, const void *data, uint32_t count, enum stable_how how);
void call_commit(struct client *c, struct worker *w, const struct fh *fh);

uint32_t reply_u32(struct reply *r);
uint64_t reply_u64(struct reply *r);
/* Pointer to LEN bytes and their padding. */
const void *reply_bytes(struct reply *r, uint32_t len);
void reply_fh(struct reply *r, struct fh *fh);
/* Skips post_op_attr, wcc_data; the first returns the size, or 0 if there are no attributes. */
uint64_t reply_post_op_attr(struct reply *r);
void reply_wcc(struct reply *r);

#endif
