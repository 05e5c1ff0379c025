/*
 * server/conn.h - one TCP connection of a client: records in, replies out.
 *
 * Lifetime: made by the listener, handed to its reactor, on whose list it stays. References (plain counts, home reactor only): one of the list, one of an
 * armed receive, one of a send in flight, one of each fiber that works for it, one of each call. conn_shutdown() marks it closing, takes it off the
 * list and ends the socket; the last conn_put() closes the descriptor and frees it.
 *
 * Who reads (`role`): exactly one of these at a time.
 *	RECEIVING  a receive is armed, into in[] or into the body of a long record; its completion decides
 *	OFFERED    a complete record is in hand; a fiber that works for the connection takes it, or is on its way
 *	PAUSED     a bound is reached (calls or bytes in flight): the socket is not read until something was sent
 *	MEMORY     a payload buffer could not be had; the reactor's memory fiber tries again
 *	CLOSED     no more is read
 * There is no state for "a fiber is parsing", because parsing never yields. A fiber takes the offered record, offers the next one or arms the receive, and then
 * runs the call. If the call did not yield and a record is still offered, it takes that one too, and the fiber that was called for it finds nothing to
 * do; if the call yields, that fiber goes on meanwhile. So a batch of small calls costs two spawns, and no call waits for another one.
 *
 * Records: in[] holds raw bytes. A small record that is complete there is copied to the call. Everything else (a payload, a long record, several
 * fragments) is gathered: up to CONN_HEAD_BYTES of it in head[] (the arguments before a payload), the rest received straight into `body`, at an address
 * congruent to the payload's file offset modulo PAGE_BYTES.
 *
 * Who sends one payload after the other has the next one's head in the socket by the time the rest of this one is received, so both are asked for at once: one
 * receive for each payload. It cannot wait for all of the payload, since it must not wait for what follows; if it comes back early, because the
 * payload is still on its way, the rest and the next few payloads are waited for alone, each as a whole.
 */
#ifndef SERVER_CONN_H
#define SERVER_CONN_H

#include <bsd/sys/queue.h>
#include <sys/socket.h>

#include "proto/record.h"
#include "proto/rpc.h"
#include "runtime/io.h"
#include "runtime/reactor.h"
#include "server/reply.h"

struct buf;
struct rpc_call;
struct server_reactor;

enum {
	CONN_IN_BYTES = 4096,
	CONN_HEAD_BYTES = 1024,          /* > RPC_CALL_HEADER_MAX and the head of any payload procedure's arguments */
	CONN_RECORD_SLACK_BYTES = 8192,  /* a record may be longer than io_bytes_max by this */
	CONN_SEND_SEGMENTS = 128,
};

enum conn_role { CONN_RECEIVING, CONN_OFFERED, CONN_PAUSED, CONN_MEMORY, CONN_CLOSED };

/* A long record being gathered. */
struct conn_gather {
	bool active;
	bool complete;
	bool payload;       /* head[] holds what precedes the payload, body the rest */
	struct buf *body;   /* referenced */
	uint32_t body_at;   /* where in body the gathered bytes begin */
	uint32_t body_len;  /* gathered there so far */
	uint32_t payload_len;
	uint32_t head_len;
	uint8_t head[CONN_HEAD_BYTES];
};

struct conn {
	/* immutable after start */
	int fd;
	struct server_reactor *sr;
	struct sockaddr_storage peer;

	/* home reactor only */
	TAILQ_ENTRY(conn) link;
	TAILQ_ENTRY(conn) wait_link;
	struct conn_list *waits_on; /* sr's starved, paused or memory_waiters, or NULL */
	size_t memory_wanted;       /* CONN_MEMORY: the buffer that could not be had */
	unsigned refs;
	enum conn_role role;
	bool closing;
	bool fiber_pending;         /* a fiber was spawned for it and has not begun */
	unsigned small_run;         /* records without payload in a row, to choose the read size */

	unsigned calls_in_flight;   /* in progress, or reply not sent */
	uint64_t bytes_in_flight;
	uint64_t active_ns;         /* last receive or send that completed */
	uint64_t record_since_ns;   /* a record has begun then and is not complete; 0: none */
	uint64_t send_since_ns;     /* the send in flight began; 0: none */
	uint64_t send_moved_ns;     /* of the send in flight: the peer was last seen to take something, or it began */
	uint64_t send_taken_bytes;  /* what the peer had taken then, of all that was ever sent */

	struct io_op receive;
	struct msghdr receive_msg;
	struct iovec receive_iov[2]; /* the second: into in[], what follows a payload */
	bool receiving_body;
	bool receive_fresh;         /* no reply was held for the sake of this receive yet */
	unsigned receive_apart;     /* payloads to come of which no more than the payload is asked for */
	unsigned in_start, in_end;  /* valid bytes of in[] */
	struct record record;       /* marks of the record being gathered */
	struct conn_gather gather;

	struct reply_queue send_queue;
	size_t send_skip;           /* bytes of the first reply that are sent */
	unsigned held_turns;        /* for which replies have waited for others */
	unsigned lone_sends;        /* sends in a row that carried one reply, with nothing else in progress */
	struct io_op send;
	struct msghdr send_msg;
	struct iovec send_iov[CONN_SEND_SEGMENTS];
	struct reactor_hook send_hook;
	struct reactor_post adopt_post;

	uint8_t in[CONN_IN_BYTES];
};

/*
 * Accepting reactor: make a connection of fd and hand it to its reactor. Takes fd over, also on failure (-ENOMEM, -EUSERS: too many connections).
 */
noyield_fn int conn_start(int fd, const struct sockaddr_storage *peer);
/* No more reading and writing; replies not sent are dropped. Idempotent. */
noyield_fn void conn_shutdown(struct conn *c);
noyield_fn void conn_get(struct conn *c);
noyield_fn void conn_put(struct conn *c);

/* Queue r (finished) and send it with the others at the end of the batch; takes r over. */
noyield_fn void conn_reply(struct conn *c, struct reply *r);
/* Count bytes of call, or what it will need, as in flight until it ends. */
noyield_fn void conn_charge(struct rpc_call *call, uint32_t bytes);

/* server.c's waits, and its timers, call these. */

/* Go on after a wait: look at what is in hand, receive or call a fiber. */
noyield_fn void conn_go_on(struct conn *c);
/* Spawn a fiber for a record that is offered. False: no slot. */
noyield_fn bool conn_spawn(struct conn *c);
/* Close it if it is idle, or stuck, for too long. */
noyield_fn void conn_check_timeouts(struct conn *c, uint64_t now_ns);
/* The server stops: close it now if nothing is in progress; otherwise the last reply does. */
noyield_fn void conn_drain(struct conn *c);
/* "192.0.2.1" or "2001:db8::1", for the log and DUMP. Returns text. */
const char *conn_peer_name(const struct conn *c, char *text, size_t len);
/* A number that is the same for all connections from one address, and hardly for those from another. */
noyield_fn uint64_t conn_peer_number(const struct conn *c);

/* conn_send.c's, for conn.c. */

/* Free what is queued; nothing is in flight. */
noyield_fn void conn_send_drop(struct conn *c);
/* See what the peer has taken meanwhile; moves send_moved_ns. Called from time to time. */
noyield_fn void conn_send_look(struct conn *c, uint64_t now_ns);
/* conn.c's, for conn_send.c: bytes in flight rise or fall. */
noyield_fn void conn_bytes(struct conn *c, int64_t change);
/* ... a call ended without a reply, or its reply was sent or dropped. */
noyield_fn void conn_call_ended(struct conn *c);

#endif
