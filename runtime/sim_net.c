/*
 * runtime/sim_net.c - stream sockets of the simulation: pairs and a listener.
 *
 * Each end has an inbox of packets. A send appends one or two packets to the other end's inbox; each arrives after a latency of its own, but is
 * received only when the ones ahead of it have arrived too, so a stream stays a stream. An inbox is bounded: a send takes what fits (a short
 * send, or with MSG_WAITALL continues), or waits until the receiver drains it. The end of a stream travels as a packet too.
 *
 * Receives and sends that cannot end yet stand in the socket's queues. One event per socket, armed by whatever may have changed (a new
 * operation, an arrival, a drain, a reset), serves both queues: all of a socket's decisions are made there, on the loop.
 *
 * Faults, drawn per send: a *split* makes a send without MSG_WAITALL short and parts every send into two packets that travel apart. A
 * *drop* is a connection whose peer vanished: the send succeeds, neither it nor anything later arrives, and after a while both ends are reset. A
 * *reset* fails the send, and the peer with it, at once; what was under way is lost.
 *
 * References: the descriptor and each queued operation hold one on the socket, as a kernel's do on the file: closing a descriptor does not end a
 * receive that waits. The last put closes: the peer reads to the end and then 0, or ECONNRESET if this end left bytes unread. A closed socket
 * stays in memory until its peer is closed too.
 */
#include "runtime/sim_world.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/fault.h"
#include "runtime/io.h"

enum { INBOX_MAX = 256 * 1024, RESET_AFTER_DROP_NS = 50 * 1000 * 1000 };

struct packet {
	STAILQ_ENTRY(packet) link;
	struct sim_event event;
	struct sim_socket *to;
	bool arrived;
	size_t len, taken;  /* len 0: the end of the stream */
	uint8_t bytes[];
};

STAILQ_HEAD(packets, packet);

struct socket_io {
	TAILQ_ENTRY(socket_io) link;
	struct io_op *op;
	size_t len, done;
	uint8_t *copy;      /* sends: the memory at submission */
	bool canceled;
};

TAILQ_HEAD(socket_ios, socket_io);

struct sim_socket {
	LIST_ENTRY(sim_socket) link;
	unsigned refs;
	bool closed;
	struct sim_socket *peer;   /* NULL: freed */
	struct packets inbox;
	size_t inbox_bytes;        /* on the way too */
	bool sent_end;             /* shut down or closed: no more sends */
	bool ended;                /* received the end, or shut down */
	bool deaf;                 /* shut down: the peer may not send */
	bool reset;
	bool black_hole;           /* what it sends is lost */
	struct socket_ios receives, sends;
	struct sim_event service;  /* serve the queues */
	struct sim_event fuse;     /* reset after a drop */
	uint16_t port;
};

LIST_HEAD(sim_sockets, sim_socket);

struct accept_io {
	TAILQ_ENTRY(accept_io) link;
	struct io_op *op;
	bool canceled;
};

TAILQ_HEAD(accept_ios, accept_io);

struct backlog_entry {
	STAILQ_ENTRY(backlog_entry) link;
	struct sim_socket *socket;
};

STAILQ_HEAD(backlog, backlog_entry);

struct sim_listener {
	LIST_ENTRY(sim_listener) link;
	unsigned refs;
	struct backlog backlog;
	struct accept_ios accepts;
	struct sim_event service;
};

LIST_HEAD(sim_listeners, sim_listener);

static struct sim_sockets sockets = LIST_HEAD_INITIALIZER(sockets);
static struct sim_listeners listeners = LIST_HEAD_INITIALIZER(listeners);

static void *must_alloc(size_t size)
{
	void *mem = calloc(1, size);

	ASSERT(mem);
	return mem;
}

static void serve_soon(struct sim_socket *s)
{
	if (s && !s->closed && !s->service.armed)
		sim_event_arm(&s->service, sim_latency());
}

static void inbox_drop_first(struct sim_socket *s)
{
	struct packet *p = STAILQ_FIRST(&s->inbox);

	STAILQ_REMOVE_HEAD(&s->inbox, link);
	sim_event_disarm(&p->event);
	s->inbox_bytes -= p->len;
	free(p);
}

static void inbox_drop_all(struct sim_socket *s)
{
	while (!STAILQ_EMPTY(&s->inbox))
		inbox_drop_first(s);
}

static void socket_reset(struct sim_socket *s)
{
	if (!s || s->reset)
		return;
	s->reset = true;
	inbox_drop_all(s);
	serve_soon(s);
}

static void packet_arrive(struct sim_event *e)
{
	struct packet *p = container_of(e, struct packet, event);

	p->arrived = true;
	serve_soon(p->to);
}

static void packet_send(struct sim_socket *to, const uint8_t *bytes, size_t len)
{
	struct packet *p = must_alloc(sizeof(*p) + len);

	p->to = to;
	p->len = len;
	if (len)
		memcpy(p->bytes, bytes, len);
	to->inbox_bytes += len;
	STAILQ_INSERT_TAIL(&to->inbox, p, link);
	p->event.fn = packet_arrive;
	sim_event_arm(&p->event, sim_latency());
}

static void socket_free(struct sim_socket *s)
{
	inbox_drop_all(s);
	sim_event_disarm(&s->service);
	sim_event_disarm(&s->fuse);
	if (s->peer)
		s->peer->peer = NULL;
	LIST_REMOVE(s, link);
	free(s);
}

static void send_end(struct sim_socket *s)
{
	if (!s->sent_end && s->peer && !s->peer->closed && !s->reset && !s->black_hole)
		packet_send(s->peer, NULL, 0);
	s->sent_end = true;
}

static void socket_close(struct sim_socket *s)
{
	s->closed = true;
	sim_event_disarm(&s->service);
	if (s->inbox_bytes)
		socket_reset(s->peer);
	else
		send_end(s);
	inbox_drop_all(s);
	if (!s->peer || !s->peer->closed)
		return;
	socket_free(s->peer);
	socket_free(s);
}

void sim_socket_put(struct sim_socket *s)
{
	ASSERT(s->refs);
	if (--s->refs == 0)
		socket_close(s);
}

static void socket_io_end(struct sim_socket *s, struct socket_ios *queue, struct socket_io *io, ssize_t res)
{
	struct io_op *op = io->op;

	TAILQ_REMOVE(queue, io, link);
	free(io->copy);
	free(io);
	sim_socket_put(s); /* not the last: socket_serve() holds one, and sim_complete() may cut the power */
	sim_complete(op, res);
}

/* Move arrived bytes into the memory of io. */
static void receive_some(struct sim_socket *s, struct socket_io *io)
{
	const struct msghdr *msg = io->op->msg;
	struct packet *p;
	size_t part;

	while ((p = STAILQ_FIRST(&s->inbox)) && p->arrived && p->len && io->done < io->len) {
		part = min_u64(p->len - p->taken, io->len - io->done);
		sim_iov_scatter(msg->msg_iov, msg->msg_iovlen, io->done, p->bytes + p->taken, part);
		io->done += part;
		p->taken += part;
		if (p->taken == p->len) {
			inbox_drop_first(s);
			serve_soon(s->peer);
		}
	}
	if (p && p->arrived && !p->len)
		s->ended = true;
}

/* True if io can end, with *res. */
static bool try_receive(struct sim_socket *s, struct socket_io *io, ssize_t *res)
{
	bool over;

	if (!s->reset)
		receive_some(s, io);
	over = s->reset || s->ended || io->canceled || io->done == io->len;
	*res = (ssize_t)io->done;
	if (io->done)
		return over || !(io->op->flags & MSG_WAITALL);
	if (s->reset)
		*res = -ECONNRESET;
	else if (io->canceled)
		*res = -ECANCELED;
	else if (!over && (io->op->flags & MSG_DONTWAIT))
		*res = -EAGAIN;
	return over || *res;
}

static void fuse_blow(struct sim_event *e)
{
	struct sim_socket *s = container_of(e, struct sim_socket, fuse);

	socket_reset(s->peer);
	socket_reset(s);
}

static void drop_from_now(struct sim_socket *s)
{
	s->black_hole = true;
	s->fuse.fn = fuse_blow;
	sim_event_arm(&s->fuse, RESET_AFTER_DROP_NS);
}

/* Hand over up to len bytes, as one or two packets. The bytes taken. */
static size_t transmit(struct sim_socket *s, const uint8_t *bytes, size_t len, bool may_be_short)
{
	size_t room = INBOX_MAX - min_u64(INBOX_MAX, s->peer->inbox_bytes), first;

	len = min_u64(len, room);
	if (!len || s->black_hole)
		return len;
	first = sim_chance(sim.config.net_split) ? 1 + sim_random(len) : len;
	packet_send(s->peer, bytes, first);
	if (may_be_short && sim_random(2))
		return first;
	if (first < len)
		packet_send(s->peer, bytes + first, len - first);
	return len;
}

static void check_memory(const struct socket_io *io)
{
	uint8_t *now = must_alloc(io->len + 1);

	sim_iov_gather(now, io->len, io->op->msg->msg_iov, io->op->msg->msg_iovlen, 0);
	if (memcmp(now, io->copy, io->len) != 0)
		sim_panic("memory changed under a send in flight");
	free(now);
}

static void send_some(struct sim_socket *s, struct socket_io *io)
{
	bool whole = io->op->flags & MSG_WAITALL;

	check_memory(io);
	if (!s->black_hole && sim_chance(sim.config.net_drop))
		drop_from_now(s);
	if (sim_chance(sim.config.net_reset)) {
		socket_reset(s->peer);
		socket_reset(s);
		return;
	}
	io->done += transmit(s, io->copy + io->done, io->len - io->done, !whole);
}

/* True if io can end, with *res. */
static bool try_send(struct sim_socket *s, struct socket_io *io, ssize_t *res)
{
	bool broken = s->sent_end || !s->peer || s->peer->closed || s->peer->deaf;

	if (!s->reset && !broken && !io->canceled)
		send_some(s, io);
	*res = (ssize_t)io->done;
	if (io->done == io->len || (io->done && !(io->op->flags & MSG_WAITALL)))
		return true;
	if (s->reset)
		*res = -ECONNRESET;
	else if (broken)
		*res = -EPIPE;
	else if (io->canceled && !io->done)
		*res = -ECANCELED;
	else if (!io->done && (io->op->flags & MSG_DONTWAIT))
		*res = -EAGAIN;
	return io->canceled || *res < 0;
}

static void socket_serve(struct sim_event *e)
{
	struct sim_socket *s = container_of(e, struct sim_socket, service);
	unsigned cuts = sim.cuts;
	struct socket_io *io;
	ssize_t res;

	s->refs++;
	while (sim.cuts == cuts && (io = TAILQ_FIRST(&s->receives)) && try_receive(s, io, &res))
		socket_io_end(s, &s->receives, io, res);
	while (sim.cuts == cuts && (io = TAILQ_FIRST(&s->sends)) && try_send(s, io, &res))
		socket_io_end(s, &s->sends, io, res);
	if (sim.cuts == cuts)
		sim_socket_put(s);
}

static struct sim_socket *socket_alloc(uint16_t port)
{
	struct sim_socket *s = must_alloc(sizeof(*s));

	s->refs = 1;
	s->port = port;
	s->service.fn = socket_serve;
	STAILQ_INIT(&s->inbox);
	TAILQ_INIT(&s->receives);
	TAILQ_INIT(&s->sends);
	LIST_INSERT_HEAD(&sockets, s, link);
	return s;
}

static void pair_alloc(struct sim_socket *ends[2])
{
	static uint16_t port;

	port = (port + 1) % 1000;
	ends[0] = socket_alloc(port);
	ends[1] = socket_alloc(port);
	ends[0]->peer = ends[1];
	ends[1]->peer = ends[0];
}

static int socket_install(struct sim_socket *s)
{
	return sim_fd_install(&(struct sim_fd){ .kind = SIM_FD_SOCKET, .socket = s });
}

void sim_socket_submit(struct io_op *op, struct sim_socket *s)
{
	bool send = op->code == IO_SENDMSG;
	struct socket_io *io;

	if (!send && op->code != IO_RECVMSG) {
		sim_complete_later(op, op->code == IO_CONNECT ? -EISCONN : -ESPIPE);
		return;
	}
	io = must_alloc(sizeof(*io));
	io->op = op;
	io->len = sim_iov_len(op->msg->msg_iov, op->msg->msg_iovlen);
	if (send) {
		io->copy = must_alloc(io->len + 1);
		sim_iov_gather(io->copy, io->len, op->msg->msg_iov, op->msg->msg_iovlen, 0);
		TAILQ_INSERT_TAIL(&s->sends, io, link);
	} else {
		op->msg->msg_flags = 0;
		op->msg->msg_controllen = 0;
		TAILQ_INSERT_TAIL(&s->receives, io, link);
	}
	s->refs++;
	serve_soon(s);
}

void sim_socket_shutdown(struct sim_socket *s)
{
	send_end(s);
	s->ended = s->deaf = true;
	inbox_drop_all(s);
	serve_soon(s);
	serve_soon(s->peer);
}

static struct backlog_entry *backlog_take(struct sim_listener *l)
{
	struct backlog_entry *entry = STAILQ_FIRST(&l->backlog);

	if (entry)
		STAILQ_REMOVE_HEAD(&l->backlog, link);
	return entry;
}

static void fill_address(struct io_op *op, const struct sim_socket *s)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(1000 + s->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	if (!op->addr)
		return;
	memcpy(op->addr, &in, min_u64(sizeof(in), op->addrlen));
	op->addrlen = sizeof(in);
}

static void accept_end(struct sim_listener *l, struct accept_io *io, ssize_t res)
{
	struct io_op *op = io->op;

	TAILQ_REMOVE(&l->accepts, io, link);
	free(io);
	sim_listener_put(l); /* not the last, as above */
	sim_complete(op, res);
}

static bool try_accept(struct sim_listener *l, struct accept_io *io, ssize_t *res)
{
	struct backlog_entry *entry = io->canceled ? NULL : backlog_take(l);

	if (entry) {
		fill_address(io->op, entry->socket);
		*res = socket_install(entry->socket);
		free(entry);
		return true;
	}
	*res = io->canceled ? -ECANCELED : -EAGAIN;
	return io->canceled || (io->op->flags & SOCK_NONBLOCK);
}

static void listener_serve(struct sim_event *e)
{
	struct sim_listener *l = container_of(e, struct sim_listener, service);
	unsigned cuts = sim.cuts;
	struct accept_io *io;
	ssize_t res;

	l->refs++;
	while (sim.cuts == cuts && (io = TAILQ_FIRST(&l->accepts)) && try_accept(l, io, &res))
		accept_end(l, io, res);
	if (sim.cuts == cuts)
		sim_listener_put(l);
}

static void listener_serve_soon(struct sim_listener *l)
{
	if (!l->service.armed)
		sim_event_arm(&l->service, sim_latency());
}

void sim_listener_put(struct sim_listener *l)
{
	struct backlog_entry *entry;

	ASSERT(l->refs);
	if (--l->refs)
		return;
	while ((entry = backlog_take(l))) {
		sim_socket_put(entry->socket);
		free(entry);
	}
	sim_event_disarm(&l->service);
	LIST_REMOVE(l, link);
	free(l);
}

void sim_listener_submit(struct io_op *op, struct sim_listener *l)
{
	struct accept_io *io;
	int error;

	if (op->code != IO_ACCEPT) {
		sim_complete_later(op, op->code == IO_RECVMSG || op->code == IO_SENDMSG ? -ENOTCONN : -ESPIPE);
		return;
	}
	error = fault_hit(FAULT_IO_ACCEPT);
	if (error) {
		sim_complete_later(op, -error);
		return;
	}
	io = must_alloc(sizeof(*io));
	io->op = op;
	TAILQ_INSERT_TAIL(&l->accepts, io, link);
	l->refs++;
	listener_serve_soon(l);
}

static void cancel_sockets(struct sim_socket *s, struct socket_ios *queue, const struct io_op *op)
{
	struct socket_io *io, *next;

	TAILQ_FOREACH_SAFE(io, queue, link, next) {
		if (op && io->op != op)
			continue;
		io->canceled = true;
		TAILQ_REMOVE(queue, io, link);
		TAILQ_INSERT_HEAD(queue, io, link);
		serve_soon(s);
	}
}

static void cancel_accepts(struct sim_listener *l, const struct io_op *op)
{
	struct accept_io *io, *next;

	TAILQ_FOREACH_SAFE(io, &l->accepts, link, next) {
		if (op && io->op != op)
			continue;
		io->canceled = true;
		TAILQ_REMOVE(&l->accepts, io, link);
		TAILQ_INSERT_HEAD(&l->accepts, io, link);
		listener_serve_soon(l);
	}
}

void sim_net_cancel(const struct io_op *op)
{
	struct sim_listener *l;
	struct sim_socket *s;

	LIST_FOREACH(s, &sockets, link) {
		cancel_sockets(s, &s->receives, op);
		cancel_sockets(s, &s->sends, op);
	}
	LIST_FOREACH(l, &listeners, link)
		cancel_accepts(l, op);
}

static void forget_ios(struct socket_ios *queue)
{
	struct socket_io *io;

	while ((io = TAILQ_FIRST(queue))) {
		TAILQ_REMOVE(queue, io, link);
		free(io->copy);
		free(io);
	}
}

static void listener_forget(struct sim_listener *l)
{
	struct accept_io *io;
	struct backlog_entry *entry;

	while ((io = TAILQ_FIRST(&l->accepts))) {
		TAILQ_REMOVE(&l->accepts, io, link);
		free(io);
	}
	while ((entry = backlog_take(l)))
		free(entry);
	sim_event_disarm(&l->service);
	LIST_REMOVE(l, link);
	free(l);
}

void sim_net_cut(void)
{
	struct sim_socket *s;

	while ((s = LIST_FIRST(&sockets))) {
		forget_ios(&s->receives);
		forget_ios(&s->sends);
		socket_free(s);
	}
	while (!LIST_EMPTY(&listeners))
		listener_forget(LIST_FIRST(&listeners));
}

int sim_socketpair(int fd[2])
{
	struct sim_socket *ends[2];

	pair_alloc(ends);
	fd[0] = socket_install(ends[0]);
	fd[1] = socket_install(ends[1]);
	return 0;
}

int sim_listen(void)
{
	struct sim_listener *l = must_alloc(sizeof(*l));

	l->refs = 1;
	l->service.fn = listener_serve;
	STAILQ_INIT(&l->backlog);
	TAILQ_INIT(&l->accepts);
	LIST_INSERT_HEAD(&listeners, l, link);
	return sim_fd_install(&(struct sim_fd){ .kind = SIM_FD_LISTENER, .listener = l });
}

int sim_connect(int listener)
{
	const struct sim_fd *fd = sim_fd_find(listener);
	struct backlog_entry *entry;
	struct sim_socket *ends[2];

	if (!fd || fd->kind != SIM_FD_LISTENER)
		return -ECONNREFUSED;
	pair_alloc(ends);
	entry = must_alloc(sizeof(*entry));
	entry->socket = ends[1];
	STAILQ_INSERT_TAIL(&fd->listener->backlog, entry, link);
	listener_serve_soon(fd->listener);
	return socket_install(ends[0]);
}
