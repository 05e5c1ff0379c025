/*
 * server/conn_send.c - the sending half of a connection: replies gather in its queue and leave together.
 *
 * conn_reply() queues and arms the batch-end hook; the hook, and each send's completion, send what is queued as one gathered sendmsg. One send is in
 * flight at most, so replies never interleave. A partial send is continued from send_skip. The replies that a send in flight names stay queued, and so
 * alive, until it completes, also when the connection is closing.
 *
 * A send completes when all of it is in the socket's buffer, which takes a slow peer minutes: what it has taken meanwhile only TCP knows, and is asked by the
 * sweep that looks for peers that are stuck.
 */
#include <linux/tcp.h>
#include <netinet/in.h>

#include "runtime/clock.h"
#include "runtime/counter.h"
#include "server/conn.h"
#include "server/server.h"

COUNTER_DEFINE(sends, "conn.sends");
COUNTER_DEFINE(sent_bytes, "conn.sent_bytes");
COUNTER_DEFINE(replies_sent, "conn.replies");
COUNTER_DEFINE(replies_dropped, "conn.replies_dropped");
COUNTER_DEFINE(send_errors, "conn.send_errors");

enum {
	SEND_STEP_BYTES = 65536, /* less is no progress: who takes byte by byte must not hold the memory of a batch for ever */
	HOLD_TURNS = 16,         /* of the loop, a payload each */
	LONE_SENDS = 4,          /* in a row: somebody who has one call at a time */
};

static void send_start(struct conn *c);

static void reply_gone(struct conn *c, struct reply *r)
{
	conn_bytes(c, -(int64_t)r->charged);
	reply_free(c->sr, r);
	conn_call_ended(c);
}

void conn_send_drop(struct conn *c)
{
	struct reply *r;
	while ((r = STAILQ_FIRST(&c->send_queue)) != NULL) {
		STAILQ_REMOVE_HEAD(&c->send_queue, link);
		counter_add(&replies_dropped, 1);
		reply_gone(c, r);
	}
}

/* `done` bytes more of the queue are sent. How many replies have left with them. */
static unsigned send_advance(struct conn *c, size_t done)
{
	struct reply *r;
	unsigned n = 0;
	c->send_skip += done;
	while ((r = STAILQ_FIRST(&c->send_queue)) != NULL && c->send_skip >= r->total) {
		c->send_skip -= r->total;
		STAILQ_REMOVE_HEAD(&c->send_queue, link);
		reply_gone(c, r);
		n++;
	}
	counter_add(&replies_sent, n);
	counter_add(&sent_bytes, (int64_t)done);
	return n;
}

/* Who has one call at a time is likely to make the next as soon as he has the answer, and all he does meanwhile is wait for us. */
static void expect_next(struct conn *c, unsigned answered)
{
	bool lone = answered == 1 && c->sr->calls_in_flight == 0;
	c->lone_sends = lone ? c->lone_sends + 1 : 0;
	if (c->lone_sends >= LONE_SENDS)
		reactor_expect();
}

static void send_done(struct io_op *op)
{
	struct conn *c = op->arg;
	c->send_since_ns = 0;
	c->active_ns = clock_mono_ns();
	if (op->res > 0 && !c->closing) {
		expect_next(c, send_advance(c, (size_t)op->res));
		send_start(c);
	} else {
		counter_add(&send_errors, !c->closing);
		conn_shutdown(c);
		conn_send_drop(c);
	}
	conn_put(c);
}

/* As many queued replies as the segments take, the first from send_skip on. */
static unsigned send_gather(struct conn *c)
{
	struct reply *r;
	unsigned n = 0;
	size_t skip = c->send_skip;
	STAILQ_FOREACH(r, &c->send_queue, link) {
		if (CONN_SEND_SEGMENTS - n < 2 + (r->read != NULL ? r->read->segments : 0))
			break;
		n += reply_segments(r, skip, c->send_iov + n, CONN_SEND_SEGMENTS - n);
		skip = 0;
	}
	return n;
}

static void send_start(struct conn *c)
{
	if (c->closing || c->send_since_ns != 0 || STAILQ_EMPTY(&c->send_queue))
		return;
	c->send_msg = (struct msghdr){ .msg_iov = c->send_iov, .msg_iovlen = send_gather(c) };
	c->send = (struct io_op){ .code = IO_SENDMSG, .fd = c->fd, .msg = &c->send_msg, .flags = MSG_NOSIGNAL | MSG_WAITALL, .done = send_done, .arg = c };
	c->send_since_ns = c->send_moved_ns = clock_mono_ns(); /* not active_ns: the call may have taken long */
	conn_get(c);
	counter_add(&sends, 1);
	io_submit(&c->send);
}

void conn_send_look(struct conn *c, uint64_t now_ns)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);
	if (c->send_since_ns == 0 || getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0)
		return;
	if (info.tcpi_bytes_acked < c->send_taken_bytes + SEND_STEP_BYTES)
		return;
	c->send_taken_bytes = info.tcpi_bytes_acked;
	c->send_moved_ns = now_ns;
}

/*
 * Replies wait for others while payloads come one after the other, out of what the socket already holds: the next one has begun, and its rest may be there. If its
 * receive does not complete in the coming turn, or after HOLD_TURNS, they leave. A send costs as much as a small WRITE, and wakes up a client that
 * has more to wait for.
 */
static bool send_held(struct conn *c)
{
	if (c->role != CONN_RECEIVING || !c->receiving_body || !c->receive_fresh || c->held_turns >= HOLD_TURNS)
		return false;
	c->receive_fresh = false;
	c->held_turns++;
	reactor_at_batch_end(&c->send_hook);
	return true;
}

static void send_hook(struct reactor_hook *hook)
{
	struct conn *c = container_of(hook, struct conn, send_hook);
	if (!c->closing && send_held(c))
		return;
	c->held_turns = 0;
	send_start(c);
	conn_put(c);
}

void conn_reply(struct conn *c, struct reply *r)
{
	r->charged = r->total;
	conn_bytes(c, r->charged);
	if (c->closing) {
		counter_add(&replies_dropped, 1);
		reply_gone(c, r);
		return;
	}
	STAILQ_INSERT_TAIL(&c->send_queue, r, link);
	if (c->send_hook.armed)
		return;
	conn_get(c);
	c->send_hook.fn = send_hook;
	reactor_at_batch_end(&c->send_hook);
}
