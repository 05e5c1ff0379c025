/*
 * server/conn.c - the receiving half of a connection, its fibers, bounds and end. Roles, references and memory: server/conn.h.
 *
 * conn_advance() is the one place that decides what happens next to a connection that nobody reads: it looks at what is in hand and offers a record, arms a
 * receive, or waits for a bound, for memory, or for nothing more. Receives are operations with a callback, not fibers, so that a client that sends a
 * byte an hour holds no stack.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>

#include "runtime/buf.h"
#include "runtime/clock.h"
#include "runtime/counter.h"
#include "runtime/fiber.h"
#include "runtime/log.h"
#include "server/call.h"
#include "server/config.h"
#include "server/conn.h"
#include "server/dispatch.h"
#include "server/server.h"

enum {
	READ_BYTES_PAYLOAD = 256, /* first read of a record where payloads come: little of the payload is received twice */
	SMALL_RUN = 8,            /* records without payload in a row before more is read at once */
	APART_RUN = 16,           /* payloads that are received by themselves after one that was not there in whole */
	MORE_BYTES_MAX = 131072,  /* longer payloads are hardly ever there in whole, and a receive matters little to them */
	FRAGMENTS_MAX = 256,
	SHORT_TIMEOUT_S = 5,      /* record_timeout while memory is short: who holds some and does not move makes way */
	STOP_SEND_TIMEOUT_S = 5,  /* a client that does not read its replies holds up the end no longer than this */
	PEEK_BYTES = 6 * XDR_UNIT,/* xid, msg_type, rpcvers, prog, vers, proc */
};

COUNTER_DEFINE(opened, "conn.opened");
COUNTER_DEFINE(closed, "conn.closed");
COUNTER_DEFINE(refused, "conn.refused_connections_max");
COUNTER_DEFINE(receives, "conn.receives");
COUNTER_DEFINE(received_bytes, "conn.received_bytes");
COUNTER_DEFINE(records, "conn.records");
COUNTER_DEFINE(payload_records, "conn.records_with_payload");
COUNTER_DEFINE(payload_copied, "conn.payload_bytes_copied");
COUNTER_DEFINE(bad_records, "conn.bad_records");
COUNTER_DEFINE(pauses, "conn.paused_in_flight_max");
COUNTER_DEFINE(idle_closed, "conn.closed_idle");
COUNTER_DEFINE(stuck_closed, "conn.closed_stuck");

static void conn_fiber(void *arg);
static void receive_done(struct io_op *op);

/* --- references and end --- */

const char *conn_peer_name(const struct conn *c, char *text, size_t len)
{
	const void *address = c->peer.ss_family == AF_INET6 ? (const void *)&((const struct sockaddr_in6 *)&c->peer)->sin6_addr
							    : (const void *)&((const struct sockaddr_in *)&c->peer)->sin_addr;
	bool known = c->peer.ss_family == AF_INET || c->peer.ss_family == AF_INET6;
	if (!known || inet_ntop(c->peer.ss_family, address, text, (socklen_t)len) == NULL)
		snprintf(text, len, "a local peer");
	return text;
}

uint64_t conn_peer_number(const struct conn *c)
{
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&c->peer;
	uint64_t part[2] = { 0, 0 };

	if (c->peer.ss_family == AF_INET6)
		memcpy(part, &six->sin6_addr, sizeof(part));
	else if (c->peer.ss_family == AF_INET)
		part[0] = ((const struct sockaddr_in *)&c->peer)->sin_addr.s_addr;
	return part[0] * 0x9e3779b97f4a7c15 ^ part[1];
}

void conn_get(struct conn *c) { c->refs++; }

void conn_put(struct conn *c)
{
	struct server_reactor *sr = c->sr;
	ASSERT(c->refs > 0);
	if (--c->refs > 0)
		return;
	ASSERT(STAILQ_EMPTY(&c->send_queue));
	ASSERT(c->calls_in_flight == 0);
	if (c->gather.body != NULL) {
		conn_bytes(c, -(int64_t)c->gather.body->capacity);
		buf_put(c->gather.body);
	}
	ASSERT(c->bytes_in_flight == 0);
	io_close(c->fd);
	free(c);
	counter_add(&closed, 1);
	server_conn_gone(sr);
}

void conn_shutdown(struct conn *c)
{
	if (c->closing)
		return;
	c->closing = true;
	server_wait_end(c);
	if (c->role != CONN_RECEIVING)
		c->role = CONN_CLOSED;
	io_shutdown(c->fd);
	if (c->send_since_ns == 0)
		conn_send_drop(c);
	TAILQ_REMOVE(&c->sr->conns, c, link);
	conn_put(c);
}

/* A peer that speaks no RPC: the stream has no known place to go on from. */
static void conn_reject(struct conn *c, const char *what)
{
	static _Thread_local struct log_limit limit;
	char peer[INET6_ADDRSTRLEN];
	counter_add(&bad_records, 1);
	log_limited(&limit, LOG_LEVEL_NOTICE, "%s: %s; connection closed", conn_peer_name(c, peer, sizeof(peer)), what);
	conn_shutdown(c);
}

/* --- bounds --- */

/* With nothing in progress there is nothing to wait for: one call is always let in, whatever its size. */
static bool over_own_bounds(const struct conn *c)
{
	const struct server_limits *l = &server.config->limits;
	return c->calls_in_flight > 0 && (c->calls_in_flight >= l->connection_calls_max || c->bytes_in_flight >= l->connection_bytes_max);
}

/*
 * Half the memory is for what is in flight, so that clients which do not take their replies leave the other half to the rest. Who has a record half
 * gathered has its memory already and gives it back the sooner, and one with nothing in progress waits for memory itself, if it needs any.
 */
static bool over_reactor_bytes(const struct conn *c)
{
	uint64_t max = server.config->limits.memory_bytes_max / 2 / server.reactor_count;
	return c->calls_in_flight > 0 && !c->gather.active && c->sr->bytes_in_flight >= max;
}

/* Connections with nothing in progress may use the reserve, so that those which do not take their replies cannot hold up the others. */
static bool over_reactor_calls(const struct conn *c)
{
	uint64_t max = server.config->limits.reactor_calls_max;
	return c->sr->calls_in_flight >= max + (c->calls_in_flight == 0 ? SERVER_CALLS_RESERVE(max) : 0);
}

/* False: a bound is reached, and the connection is paused. */
static bool conn_admits(struct conn *c)
{
	bool own = over_own_bounds(c);
	if (!own && !over_reactor_calls(c) && !over_reactor_bytes(c))
		return true;
	counter_add(&pauses, 1);
	server_wait_end(c); /* it may have waited for a fiber */
	c->role = CONN_PAUSED;
	if (!own)
		server_wait_paused(c);
	return false;
}

void conn_call_ended(struct conn *c)
{
	c->calls_in_flight--;
	server_call_ended(c->sr);
	if (c->sr->stopping && c->calls_in_flight == 0)
		conn_shutdown(c);
	else if (c->role == CONN_PAUSED && c->waits_on == NULL && !over_own_bounds(c))
		conn_go_on(c);
}

void conn_bytes(struct conn *c, int64_t change)
{
	c->bytes_in_flight += (uint64_t)change;
	c->sr->bytes_in_flight += (uint64_t)change;
}

void conn_charge(struct rpc_call *call, uint32_t bytes)
{
	call->charged += bytes;
	conn_bytes(call->conn, bytes);
}

/* --- gathering a long record --- */

enum look { LOOK_RECORD, LOOK_MORE, LOOK_MEMORY, LOOK_BAD };

enum payload { PAYLOAD_NONE, PAYLOAD_HERE, PAYLOAD_NOT_YET };

struct payload_head {
	uint64_t offset;
	uint32_t len, head_len;
};

static size_t in_len(const struct conn *c) { return c->in_end - c->in_start; }

static enum payload undecoded(size_t have, size_t fragment_len)
{
	return have < fragment_len && have < CONN_HEAD_BYTES ? PAYLOAD_NOT_YET : PAYLOAD_NONE;
}

/* Does a record that begins with these bytes carry a payload to be received apart? */
static enum payload payload_find(const uint8_t *rec, size_t have, size_t fragment_len, struct payload_head *head)
{
	struct xdr x;
	struct call_body call;
	if (have < PEEK_BYTES)
		return undecoded(have, fragment_len);
	const struct rpc_procedure *p = dispatch_find(xdr_load32(rec + 12), xdr_load32(rec + 16), xdr_load32(rec + 20));
	if (p == NULL || p->payload_head == NULL)
		return PAYLOAD_NONE;
	xdr_init(&x, rec, have);
	enum rpc_call_status status = rpc_dec_call(&x, &call);
	if (status != RPC_CALL_OK)
		return status == RPC_CALL_TRUNCATED ? undecoded(have, fragment_len) : PAYLOAD_NONE;
	if (!p->payload_head(&x, &head->offset, &head->len))
		return xdr_is_truncated(&x) ? undecoded(have, fragment_len) : PAYLOAD_NONE;
	head->head_len = (uint32_t)xdr_pos(&x);
	return head->len > 0 && head->len <= server.config->limits.io_bytes_max && head->head_len <= CONN_HEAD_BYTES ? PAYLOAD_HERE : PAYLOAD_NONE;
}

/* Room for `more` bytes behind what is gathered. False: no memory now; memory_wanted says how much. */
static bool gather_room(struct conn *c, uint32_t more)
{
	struct conn_gather *g = &c->gather;
	size_t need = (size_t)g->body_at + g->body_len + more;
	if (need <= g->body->capacity)
		return true;
	c->memory_wanted = max_u64(need, 2 * g->body->capacity);
	struct buf *larger = buf_alloc(c->memory_wanted);
	if (larger == NULL)
		return false;
	memcpy(larger->data + g->body_at, g->body->data + g->body_at, g->body_len);
	conn_bytes(c, (int64_t)(larger->capacity - g->body->capacity));
	buf_put(g->body);
	g->body = larger;
	return true;
}

static void gather_copy(struct conn *c, const uint8_t *from, size_t len)
{
	struct conn_gather *g = &c->gather;
	memcpy(g->body->data + g->body_at + g->body_len, from, len);
	g->body_len += (uint32_t)len;
	if (g->payload)
		counter_add(&payload_copied, (int64_t)len);
}

/* Begin to gather the record at in_start, whose mark is there. `head` is NULL, or where its payload goes. */
static enum look gather_begin(struct conn *c, const struct payload_head *head)
{
	struct conn_gather *g = &c->gather;
	size_t used;
	record_init(&c->record, (uint32_t)server.config->limits.io_bytes_max + CONN_RECORD_SLACK_BYTES, FRAGMENTS_MAX);
	if (record_step(&c->record, c->in + c->in_start, in_len(c), &used) != RECORD_FRAGMENT)
		return LOOK_BAD;
	uint32_t fragment = record_fragment_left(&c->record);
	bool apart = head != NULL && record_is_last(&c->record) && fragment == head->head_len + xdr_padded(head->len);
	uint32_t before = apart || head == NULL ? 0 : head->head_len;
	uint32_t at = head == NULL ? 0 : (uint32_t)(head->offset - before) % PAGE_BYTES;
	c->memory_wanted = (size_t)at + fragment - (apart ? head->head_len : 0);
	struct buf *body = buf_alloc(max_u64(c->memory_wanted, 1));
	if (body == NULL)
		return LOOK_MEMORY;
	conn_bytes(c, (int64_t)body->capacity);
	c->in_start += used;
	g->active = true;
	g->complete = false;
	g->payload = apart;
	g->body = body;
	g->body_at = at;
	g->body_len = g->head_len = 0;
	if (apart) {
		g->payload_len = head->len;
		g->head_len = head->head_len;
		memcpy(g->head, c->in + c->in_start, g->head_len);
		c->in_start += g->head_len;
		record_skip(&c->record, g->head_len);
	}
	return LOOK_MORE;
}

/* Move what is in in[] to the record being gathered. */
static enum look gather_step(struct conn *c)
{
	struct conn_gather *g = &c->gather;
	size_t used;
	for (;;) {
		if (!gather_room(c, record_fragment_left(&c->record)))
			return LOOK_MEMORY;
		const uint8_t *in = c->in + c->in_start;
		enum record_event event = record_step(&c->record, in, in_len(c), &used);
		c->in_start += used;
		switch (event) {
		case RECORD_FRAGMENT:
			break;
		case RECORD_DATA:
			gather_copy(c, in, used);
			break;
		case RECORD_END:
			g->complete = true;
			return LOOK_RECORD;
		case RECORD_MORE:
			return LOOK_MORE;
		case RECORD_TOO_LONG:
		case RECORD_TOO_MANY_FRAGMENTS:
			return LOOK_BAD;
		}
	}
}

/* --- what is in hand --- */

static enum look conn_look(struct conn *c)
{
	struct payload_head head;
	if (c->gather.active)
		return c->gather.complete ? LOOK_RECORD : gather_step(c);
	if (in_len(c) < RECORD_MARK_BYTES)
		return LOOK_MORE;
	uint32_t mark = xdr_load32(c->in + c->in_start);
	uint32_t len = mark & ~RECORD_LAST_FRAGMENT;
	size_t have = min_u64(in_len(c) - RECORD_MARK_BYTES, len);
	enum payload payload = payload_find(c->in + c->in_start + RECORD_MARK_BYTES, have, len, &head);
	if (payload == PAYLOAD_NOT_YET)
		return len <= server.config->limits.io_bytes_max + CONN_RECORD_SLACK_BYTES ? LOOK_MORE : LOOK_BAD;
	if (payload == PAYLOAD_NONE && (mark & RECORD_LAST_FRAGMENT) != 0 && len <= CONN_IN_BYTES - RECORD_MARK_BYTES)
		return have == len ? LOOK_RECORD : LOOK_MORE;
	enum look look = gather_begin(c, payload == PAYLOAD_HERE ? &head : NULL);
	return look == LOOK_MORE ? gather_step(c) : look;
}

/* Bytes that a small record at in_start lacks, or its mark. */
static size_t in_missing(const struct conn *c)
{
	size_t len;
	if (c->gather.active || in_len(c) < RECORD_MARK_BYTES)
		return RECORD_MARK_BYTES;
	len = RECORD_MARK_BYTES + (xdr_load32(c->in + c->in_start) & ~RECORD_LAST_FRAGMENT);
	return len <= CONN_IN_BYTES && len > in_len(c) ? len - in_len(c) : RECORD_MARK_BYTES;
}

static struct iovec receive_place(struct conn *c)
{
	struct conn_gather *g = &c->gather;
	uint32_t left = g->active ? record_fragment_left(&c->record) : 0;
	if (left > 0)
		return (struct iovec){ .iov_base = g->body->data + g->body_at + g->body_len, .iov_len = left };
	memmove(c->in, c->in + c->in_start, in_len(c));
	c->in_end -= c->in_start;
	c->in_start = 0;
	size_t want = c->small_run >= SMALL_RUN ? CONN_IN_BYTES : max_u64(READ_BYTES_PAYLOAD, in_missing(c));
	return (struct iovec){ .iov_base = c->in + c->in_end, .iov_len = min_u64(want, CONN_IN_BYTES - c->in_end) };
}

static void conn_receive(struct conn *c)
{
	bool begun = in_len(c) > 0 || c->gather.active;
	if (!begun)
		c->record_since_ns = 0;
	else if (c->record_since_ns == 0)
		c->record_since_ns = clock_mono_ns();
	c->role = CONN_RECEIVING;
	c->receive_iov[0] = receive_place(c);
	c->receiving_body = c->gather.active && record_fragment_left(&c->record) > 0;
	bool more = c->receiving_body && c->gather.payload && c->receive_apart == 0 && c->receive_iov[0].iov_len <= MORE_BYTES_MAX;
	c->receive_iov[1] = (struct iovec){ .iov_base = c->in, .iov_len = READ_BYTES_PAYLOAD };
	c->receive_msg = (struct msghdr){ .msg_iov = c->receive_iov, .msg_iovlen = more ? 2 : 1 };
	c->receive = (struct io_op){ .code = IO_RECVMSG, .fd = c->fd, .msg = &c->receive_msg, .flags = c->receiving_body && !more ? MSG_WAITALL : 0,
				     .done = receive_done, .arg = c };
	conn_get(c);
	c->receive_fresh = true;
	counter_add(&receives, 1);
	io_submit(&c->receive);
}

/* Decide what is next; nobody reads now. True: a record is offered. */
static bool conn_advance(struct conn *c)
{
	if (c->closing || c->sr->stopping) {
		c->role = CONN_CLOSED;
		return false;
	}
	if (!conn_admits(c))
		return false;
	switch (conn_look(c)) {
	case LOOK_RECORD:
		c->role = CONN_OFFERED;
		return true;
	case LOOK_MORE:
		conn_receive(c);
		return false;
	case LOOK_MEMORY:
		c->role = CONN_MEMORY;
		if (!c->gather.active) /* it is we who keep the sender waiting: its time begins when there is memory */
			c->record_since_ns = 0;
		server_wait_memory(c);
		return false;
	case LOOK_BAD:
		c->role = CONN_CLOSED;
		conn_reject(c, "a record that is too long, or in too many fragments");
		return false;
	}
	ASSERT(false);
	return false;
}

/* `len` bytes were received for the record being gathered, and perhaps for what follows its payload. */
static void received_body(struct conn *c, uint32_t len)
{
	uint32_t left = record_fragment_left(&c->record);
	uint32_t own = len < left ? len : left;
	ASSERT(in_len(c) == 0);
	record_skip(&c->record, own);
	c->gather.body_len += own;
	c->in_start = 0;
	c->in_end = len - own;
	if (own < left && c->receive_msg.msg_iovlen > 1)
		c->receive_apart = APART_RUN;
}

static void receive_done(struct io_op *op)
{
	struct conn *c = op->arg;
	c->role = CONN_CLOSED;
	c->active_ns = clock_mono_ns();
	if (op->res <= 0 || c->closing) {
		conn_shutdown(c);
		conn_put(c);
		return;
	}
	counter_add(&received_bytes, op->res);
	if (c->receiving_body)
		received_body(c, (uint32_t)op->res);
	else
		c->in_end += (unsigned)op->res;
	conn_go_on(c);
	conn_put(c);
}

/* --- fibers --- */

bool conn_spawn(struct conn *c)
{
	/* Some slots are left to the flushers, on which the calls that hold the others may wait. */
	if (fiber_slots_free() <= server.config->fibers / 16 || fiber_spawn(conn_fiber, c, "call") != 0)
		return false;
	c->fiber_pending = true;
	conn_get(c);
	return true;
}

static void want_fiber(struct conn *c)
{
	if (!c->fiber_pending && c->waits_on == NULL && !conn_spawn(c))
		server_wait_starved(c);
}

void conn_go_on(struct conn *c)
{
	if (conn_advance(c))
		want_fiber(c);
}

static void take_gathered(struct conn *c, struct rpc_call *call)
{
	struct conn_gather *g = &c->gather;
	call->body = g->body;
	call->charged = (uint32_t)g->body->capacity;
	call->record_len = g->head_len;
	memcpy(call->record, g->head, g->head_len);
	if (g->payload) {
		xdr_init(&call->args, call->record, g->head_len);
		call->payload = (struct vfs_payload){ .buf = g->body, .data = g->body->data + g->body_at, .len = g->payload_len };
		c->small_run = 0;
		c->receive_apart -= c->receive_apart > 0;
		counter_add(&payload_records, 1);
	} else {
		xdr_init(&call->args, g->body->data + g->body_at, g->body_len);
	}
	g->body = NULL;
	g->active = false;
}

static void take_small(struct conn *c, struct rpc_call *call)
{
	uint32_t len = xdr_load32(c->in + c->in_start) & ~RECORD_LAST_FRAGMENT;
	memcpy(call->record, c->in + c->in_start + RECORD_MARK_BYTES, len);
	c->in_start += RECORD_MARK_BYTES + len;
	c->small_run++;
	call->record_len = len;
	xdr_init(&call->args, call->record, len);
}

/* Make a call of the record that is offered. */
static struct rpc_call *conn_take(struct conn *c)
{
	struct rpc_call *call = c->sr->free_call;
	ASSERT(call != NULL); /* as many as fibers */
	c->sr->free_call = call->next_free;
	call->conn = c;
	call->reply = NULL;
	call->drc = NULL;
	call->not_cached = false;
	call->body = NULL;
	call->payload.buf = NULL;
	call->charged = 0;
	if (c->gather.active)
		take_gathered(c, call);
	else
		take_small(c, call);
	c->record_since_ns = 0;
	c->calls_in_flight++;
	c->sr->calls_in_flight++;
	conn_get(c);
	counter_add(&records, 1);
	return call;
}

/* The procedure has returned: send the reply, give back the rest. */
static void call_finish(struct rpc_call *call)
{
	struct conn *c = call->conn;
	if (call->body != NULL)
		buf_put(call->body);
	conn_bytes(c, -(int64_t)call->charged);
	call->next_free = c->sr->free_call;
	c->sr->free_call = call;
	if (call->reply != NULL)
		conn_reply(c, call->reply);
	else
		conn_call_ended(c);
	conn_put(c);
}

static void conn_fiber(void *arg)
{
	struct conn *c = arg;
	struct server_reactor *sr = c->sr;
	c->fiber_pending = false;
	while (c->role == CONN_OFFERED && conn_admits(c)) {
		server_wait_end(c);
		struct rpc_call *call = conn_take(c);
		conn_go_on(c);
		if (!dispatch_run(call))
			conn_reject(c, "a record that is no RPC call");
		call_finish(call);
	}
	conn_put(c);
	server_fiber_ends(sr);
}

/* --- start, timeouts, stop --- */

static void conn_adopted(struct reactor_post *post)
{
	struct conn *c = container_of(post, struct conn, adopt_post);
	c->active_ns = clock_mono_ns();
	TAILQ_INSERT_TAIL(&c->sr->conns, c, link);
	counter_add(&opened, 1);
	if (c->sr->stopping)
		conn_shutdown(c);
	else
		conn_go_on(c);
}

/* The reactor with the fewest connections. */
static struct server_reactor *reactor_choose(void)
{
	struct server_reactor *best = &server.reactors[0];
	for (unsigned i = 1; i < server.reactor_count; i++)
		if (server.reactors[i].conn_count < best->conn_count)
			best = &server.reactors[i];
	return best;
}

static void refuse(int fd, const struct sockaddr_storage *peer)
{
	static struct log_limit limit; /* accepting reactor only */
	struct conn named = { .peer = *peer };
	char text[INET6_ADDRSTRLEN];
	counter_add(&refused, 1);
	log_limited(&limit, LOG_LEVEL_WARNING, "%s: refused, %u connections are open", conn_peer_name(&named, text, sizeof(text)), server.connections);
	io_close(fd);
}

int conn_start(int fd, const struct sockaddr_storage *peer)
{
	int one = 1;
	if (server.connections >= server.config->limits.connections_max) {
		refuse(fd, peer);
		return -EUSERS;
	}
	struct conn *c = calloc(1, sizeof(*c));
	if (c == NULL) {
		io_close(fd);
		return -ENOMEM;
	}
	/* Fails on what is no TCP socket; it is a matter of speed only. */
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	c->fd = fd;
	c->sr = reactor_choose();
	c->peer = *peer;
	c->refs = 1;
	c->role = CONN_CLOSED;
	c->small_run = SMALL_RUN;
	STAILQ_INIT(&c->send_queue);
	server.connections++;
	c->sr->conn_count++;
	c->adopt_post.fn = conn_adopted;
	reactor_post(c->sr->index, &c->adopt_post);
	return 0;
}

static uint64_t stuck_after_s(const struct conn *c)
{
	uint64_t s = server.config->limits.record_timeout_s;
	if (c->sr->stopping)
		return min_u64(s, STOP_SEND_TIMEOUT_S);
	return server_memory_is_short(c->sr) ? min_u64(s, SHORT_TIMEOUT_S) : s;
}

/* Since when a record is half received by somebody who is to send, or holds memory while it waits for more; 0: not so. */
static uint64_t half_received_since(const struct conn *c)
{
	return c->role == CONN_RECEIVING || (c->role == CONN_MEMORY && c->gather.active) ? c->record_since_ns : 0;
}

/* Since when a send is in flight of which the peer takes nothing, or, at the stop, since when at all; 0: none. */
static uint64_t not_taken_since(const struct conn *c)
{
	return c->send_since_ns == 0 || c->sr->stopping ? c->send_since_ns : c->send_moved_ns;
}

static bool is_stuck(const struct conn *c, uint64_t now_ns)
{
	uint64_t stuck_ns = stuck_after_s(c) * UINT64_C(1000000000);
	uint64_t received = half_received_since(c), sent = not_taken_since(c);
	return (sent != 0 && now_ns > sent + stuck_ns) || (received != 0 && now_ns > received + stuck_ns);
}

void conn_check_timeouts(struct conn *c, uint64_t now_ns)
{
	const struct server_limits *l = &server.config->limits;
	uint64_t idle_ns = l->idle_timeout_s * UINT64_C(1000000000);
	conn_send_look(c, now_ns);
	if (is_stuck(c, now_ns)) {
		counter_add(&stuck_closed, 1);
		conn_shutdown(c);
	} else if (c->role == CONN_RECEIVING && half_received_since(c) == 0 && c->calls_in_flight == 0 && now_ns > c->active_ns + idle_ns) {
		counter_add(&idle_closed, 1);
		conn_shutdown(c);
	}
}

void conn_drain(struct conn *c)
{
	if (c->calls_in_flight == 0)
		conn_shutdown(c);
}
