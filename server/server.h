/*
 * server/server.h - the server as a whole: its reactors' share of connections, pools and bounds; start and stop.
 *
 * Reactor 0 accepts and hands each connection to the reactor that has the fewest; there it stays. Everything in struct server_reactor belongs to its
 * reactor, but for the count that reactor 0 reads.
 *
 * Stop: server_stop() (any thread) wakes each reactor's main fiber. It stops accepting, lets what is in progress end and its replies leave, and closes the
 * connections. When all reactors have come so far, reactor 0 drains the file cache and stops the runtime.
 */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include <bsd/sys/queue.h>

#include "runtime/reactor.h"

struct conn;
struct fiber;
struct reply;
struct rpc_call;
struct rpc_program;
struct server_config;
struct vfs_read_result;

TAILQ_HEAD(conn_list, conn);

/* Calls beyond reactor_calls_max that are kept for connections with none in progress. */
#define SERVER_CALLS_RESERVE(max) ((max) / 4)

struct server_reactor {
	unsigned index;
	struct conn_list conns;
	_Atomic unsigned conn_count;      /* atomic: reactor 0 chooses by it */

	/* Connections that cannot go on: each is on at most one of these, by its wait_link. */
	struct conn_list starved;         /* for a fiber */
	struct conn_list paused;          /* for calls or bytes in flight to fall */
	struct conn_list memory_waiters;  /* for buf's budget */
	bool memory_fiber;                /* a fiber waits on behalf of memory_waiters */
	struct reactor_hook waits_hook;
	struct timer waits_timer;
	struct timer sweep_timer;         /* timeouts */
	uint64_t looked_ns;               /* the connections' timeouts were last checked */

	unsigned calls_in_flight;         /* in progress, or reply not sent */
	uint64_t bytes_in_flight;         /* payload and replies of all connections */
	struct rpc_call *calls, *free_call;
	struct reply *replies, *free_reply;
	struct vfs_read_result **free_reads;
	struct vfs_read_result *reads;
	unsigned free_read_count;

	struct fiber *main;               /* parked until stop */
	struct reactor_post stop_post;
	struct reactor_post drained_post; /* reactor 0's: every reactor is drained */
	bool stopping;
};

struct server {
	/* immutable after init */
	const struct server_config *config;
	const struct rpc_program *const *programs; /* NULL ends */
	unsigned reactor_count;
	struct server_reactor *reactors;
	/* atomic: shared by reactors */
	_Atomic unsigned connections;
	_Atomic bool stop_asked;
	_Atomic unsigned drained; /* reactors without connections left, at the stop */
};

extern struct server server;

static inline struct server_reactor *server_reactor_self(void) { return &server.reactors[reactor_index()]; }

/* Put c on one of its reactor's lists of waits; take it off whatever it is on. */
noyield_fn void server_wait_starved(struct conn *c);
noyield_fn void server_wait_paused(struct conn *c);
noyield_fn void server_wait_memory(struct conn *c);
noyield_fn void server_wait_end(struct conn *c);
/* What half-received records and replies not taken hold, others wait for, or soon will: they get little time. */
noyield_fn bool server_memory_is_short(const struct server_reactor *sr);
/* A fiber is about to end; calls in flight fell; a connection is gone: those who wait for it go on. */
noyield_fn void server_fiber_ends(struct server_reactor *sr);
noyield_fn void server_call_ended(struct server_reactor *sr);
noyield_fn void server_conn_gone(struct server_reactor *sr);

/*
 * Bind the sockets and make the pools. runtime_init() and buf_init() were called. 0, or -errno with what failed in err. programs: NULL-terminated,
 * outlives the server.
 */
int server_init(const struct server_config *config, const struct rpc_program *const *programs, char *err, size_t errlen);
/*
 * Serve until server_stop(). On a fiber of reactor 0 run `ready` before the first connection is accepted (it may be queued by the kernel already) and
 * `drained` when the last one is closed; NULL: nothing to do. 0 or -errno.
 */
int server_run(fiber_fn void (*ready)(void), fiber_fn void (*drained)(void));
/* From any thread, once server_run() has begun or before; not from a signal handler. */
void server_stop(void);
void server_fini(void);
/* The bound port, and "ADDR:PORT" of each listener, with blanks between. */
unsigned server_port(void);
const char *server_addresses(void);

#endif
