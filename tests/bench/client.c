/*
 * client.c: the load generator's own NFSv3 client.
 *
 * libnfs allocates, copies and sends each call by itself and receives each reply in two system calls: 1.35 us of CPU for a NULL at depth
 * 32, where a fast server needs 0.3. So that the client is not what is measured, a call here is encoded in memory that its worker keeps,
 * payloads are sent from where they lie, and everything that is queued on a connection leaves in one sendmsg(): 0.25 us.
 *
 * A call belongs to its worker for good; the connection's queue links calls not yet wholly sent. The low bits of an xid name the call,
 * the high ones change with each use, so that no reply cache mistakes one for another.
 *
 * The client trusts the server as little as a test should: whatever is not the expected answer ends the program.
 */
#include "tests/bench/client.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/bench/sample.h"

enum {
	NFS_PROGRAM = 100003, MOUNT_PROGRAM = 100005, VERSION = 3, MOUNTPROC3_MNT = 1,
	XID_BITS = 12, BATCH = 64, REPLY_TIMEOUT_S = 60, NFS3ERR_JUKEBOX = 10008,
	RECEIVE_MAX = 4 << 20, SMALL = 64 << 10, CONNS_MAX = 64,
};

static const uint32_t LAST_FRAGMENT = 0x80000000;

struct conn {
	int fd;
	struct call *first, **last;	/* not yet wholly sent */
	size_t sent;			/* of the first */
	uint8_t *buf;			/* received: [start, end) */
	size_t start, end;
};

/* --- encoding --- */

static void put_u32(struct call *k, uint32_t v)
{
	v = htobe32(v);
	memcpy(k->head + k->head_len, &v, 4);
	k->head_len += 4;
}

static void put_u64(struct call *k, uint64_t v)
{
	put_u32(k, (uint32_t)(v >> 32));
	put_u32(k, (uint32_t)v);
}

static void put_opaque(struct call *k, const void *data, uint32_t len)
{
	put_u32(k, len);
	memset(k->head + k->head_len, 0, (len + 3) & ~3u);
	memcpy(k->head + k->head_len, data, len);
	k->head_len += (len + 3) & ~3u;
}

static void put_fh(struct call *k, const struct fh *fh)
{
	put_opaque(k, fh->data, fh->len);
}

static void put_name(struct call *k, const char *name)
{
	put_opaque(k, name, (uint32_t)strlen(name));
}

/* The record mark is set by call_end(). */
static void put_header(struct call *k, uint32_t program, uint32_t proc)
{
	static const uint32_t auth_sys[] = { 1, 28, 0, 5, 0x62656e63, 0x68000000, 0, 0, 0 };	/* "bench", uid 0, gid 0, no groups */
	unsigned i;

	k->head_len = 4;
	k->payload_len = k->pad_len = 0;
	put_u32(k, k->xid);
	put_u32(k, 0);
	put_u32(k, 2);
	put_u32(k, program);
	put_u32(k, VERSION);
	put_u32(k, proc);
	for (i = 0; i < sizeof(auth_sys) / 4; i++)
		put_u32(k, auth_sys[i]);
	put_u32(k, 0);
	put_u32(k, 0);
}

static void put_record_mark(struct call *k)
{
	uint32_t mark = htobe32(LAST_FRAGMENT | (k->head_len - 4 + k->payload_len + k->pad_len));

	memcpy(k->head, &mark, 4);
}

/* --- calls --- */

static struct call *call_begin(struct client *c, struct worker *w, enum nfs3_proc proc)
{
	unsigned i = 0;
	struct call *k;

	while (w->calls[i].busy)
		if (++i == CALLS_PER_WORKER)
			die("a worker has too many calls");
	k = &w->calls[i];
	k->busy = true;
	k->proc = proc;
	k->xid = c->generation++ << XID_BITS | (w->index * CALLS_PER_WORKER + i);
	put_header(k, NFS_PROGRAM, proc);
	return k;
}

static void call_queue(struct conn *conn, struct call *k)
{
	k->next = NULL;
	*conn->last = k;
	conn->last = &k->next;
}

static void call_end(struct client *c, struct call *k)
{
	put_record_mark(k);
	k->begin_ns = now_ns();
	k->worker->in_flight++;
	c->in_flight++;
	call_queue(k->worker->conn, k);
}

void call_null(struct client *c, struct worker *w)
{
	call_end(c, call_begin(c, w, PROC_NULL));
}

void call_getattr(struct client *c, struct worker *w, const struct fh *fh)
{
	struct call *k = call_begin(c, w, PROC_GETATTR);

	put_fh(k, fh);
	call_end(c, k);
}

void call_name(struct client *c, struct worker *w, enum nfs3_proc proc, const struct fh *dir, const char *name)
{
	struct call *k = call_begin(c, w, proc);

	put_fh(k, dir);
	put_name(k, name);
	call_end(c, k);
}

void call_make(struct client *c, struct worker *w, enum nfs3_proc proc, const struct fh *dir, const char *name)
{
	struct call *k = call_begin(c, w, proc);

	put_fh(k, dir);
	put_name(k, name);
	if (proc == PROC_CREATE)
		put_u32(k, 0);	/* UNCHECKED */
	put_u32(k, 1);		/* sattr3: a mode and nothing else */
	put_u32(k, proc == PROC_MKDIR ? 0755 : 0644);
	put_u32(k, 0);
	put_u32(k, 0);
	put_u32(k, 0);
	put_u32(k, 0);
	put_u32(k, 0);
	call_end(c, k);
}

void call_rename(struct client *c, struct worker *w, const struct fh *dir, const char *from, const char *to)
{
	struct call *k = call_begin(c, w, PROC_RENAME);

	put_fh(k, dir);
	put_name(k, from);
	put_fh(k, dir);
	put_name(k, to);
	call_end(c, k);
}

void call_readdirplus(struct client *c, struct worker *w, const struct fh *dir)
{
	struct call *k = call_begin(c, w, PROC_READDIRPLUS);

	put_fh(k, dir);
	put_u64(k, w->cookie);
	put_u64(k, w->verf);
	put_u32(k, 8192);	/* what the Linux client asks for at most: dircount, and a maxcount of 64 KiB */
	put_u32(k, 65536);
	call_end(c, k);
}

void call_read(struct client *c, struct worker *w, const struct fh *fh, uint64_t offset, uint32_t count)
{
	struct call *k = call_begin(c, w, PROC_READ);

	k->offset = offset;
	k->count = count;
	put_fh(k, fh);
	put_u64(k, offset);
	put_u32(k, count);
	call_end(c, k);
}

void call_write(struct client *c, struct worker *w, const struct fh *fh, uint64_t offset, const void *data, uint32_t count, enum stable_how how)
{
	struct call *k = call_begin(c, w, PROC_WRITE);

	k->offset = offset;
	k->count = count;
	k->stable = how;
	put_fh(k, fh);
	put_u64(k, offset);
	put_u32(k, count);
	put_u32(k, how);
	put_u32(k, count);
	k->payload = data;
	k->payload_len = count;
	k->pad_len = -count & 3;
	call_end(c, k);
}

void call_commit(struct client *c, struct worker *w, const struct fh *fh)
{
	struct call *k = call_begin(c, w, PROC_COMMIT);

	put_fh(k, fh);
	put_u64(k, 0);
	put_u32(k, 0);
	call_end(c, k);
}

/* --- sending --- */

static size_t call_size(const struct call *k)
{
	return k->head_len + k->payload_len + k->pad_len;
}

/* Appends the part of a piece that lies past *SKIP. */
static unsigned add_piece(struct iovec *iov, unsigned n, const void *data, size_t len, size_t *skip)
{
	size_t cut = *skip < len ? *skip : len;

	*skip -= cut;
	if (len == cut)
		return n;
	iov[n].iov_base = (uint8_t *)data + cut;
	iov[n].iov_len = len - cut;
	return n + 1;
}

static void consume(struct conn *conn, size_t done)
{
	conn->sent += done;
	while (conn->first && conn->sent >= call_size(conn->first)) {
		conn->sent -= call_size(conn->first);
		conn->first = conn->first->next;
	}
	if (!conn->first)
		conn->last = &conn->first;
}

/* Returns false if the socket takes no more now. */
static bool send_batch(struct conn *conn)
{
	static const uint8_t zeros[4];
	struct iovec iov[BATCH * 3];
	struct msghdr msg = { .msg_iov = iov };
	size_t skip = conn->sent;
	const struct call *k;
	ssize_t r;
	unsigned i;

	for (i = 0, k = conn->first; k && i < BATCH; i++, k = k->next) {
		msg.msg_iovlen = add_piece(iov, (unsigned)msg.msg_iovlen, k->head, k->head_len, &skip);
		msg.msg_iovlen = add_piece(iov, (unsigned)msg.msg_iovlen, k->payload, k->payload_len, &skip);
		msg.msg_iovlen = add_piece(iov, (unsigned)msg.msg_iovlen, zeros, k->pad_len, &skip);
	}
	r = sendmsg(conn->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (r < 0 && errno == EAGAIN)
		return false;
	if (r < 0)
		die("send: %s", strerror(errno));
	consume(conn, (size_t)r);
	return true;
}

/* --- replies --- */

const void *reply_bytes(struct reply *r, uint32_t len)
{
	const uint8_t *p = r->at;
	size_t padded = ((size_t)len + 3) & ~(size_t)3;

	if ((size_t)(r->end - p) < padded)
		die("a reply is too short");
	r->at += padded;
	return p;
}

uint32_t reply_u32(struct reply *r)
{
	uint32_t v;

	memcpy(&v, reply_bytes(r, 4), 4);
	return be32toh(v);
}

uint64_t reply_u64(struct reply *r)
{
	uint64_t high = reply_u32(r);

	return high << 32 | reply_u32(r);
}

void reply_fh(struct reply *r, struct fh *fh)
{
	fh->len = reply_u32(r);
	if (fh->len > FH_MAX)
		die("a handle is too long");
	memcpy(fh->data, reply_bytes(r, fh->len), fh->len);
}

uint64_t reply_post_op_attr(struct reply *r)
{
	uint64_t size;

	if (!reply_u32(r))
		return 0;
	reply_bytes(r, 20);
	size = reply_u64(r);
	reply_bytes(r, 84 - 28);
	return size;
}

void reply_wcc(struct reply *r)
{
	if (reply_u32(r))
		reply_bytes(r, 24);
	reply_post_op_attr(r);
}

/* Leaves the reply at the results. */
static void reply_accepted(struct reply *r)
{
	if (reply_u32(r) != 1 || reply_u32(r) != 0)
		die("the server refused a call");
	reply_u32(r);
	reply_bytes(r, reply_u32(r));
	if (reply_u32(r) != 0)
		die("the server could not do a call");
}

static void call_again(struct client *c, struct call *k)
{
	c->retries++;
	call_queue(k->worker->conn, k);
}

static void reply_take(struct client *c, struct reply *r)
{
	uint32_t xid = reply_u32(r), slot = xid & ((1 << XID_BITS) - 1), status;
	struct call *k;

	if (slot / CALLS_PER_WORKER >= c->nworkers)
		die("a reply to nobody");
	k = &c->workers[slot / CALLS_PER_WORKER].calls[slot % CALLS_PER_WORKER];
	if (!k->busy || k->xid != xid)
		die("a reply to no call");
	reply_accepted(r);
	status = k->proc == PROC_NULL ? 0 : reply_u32(r);
	if (status == NFS3ERR_JUKEBOX) {
		call_again(c, k);
		return;
	}
	if (status)
		die("procedure %d at offset %llu: status %u", k->proc, (unsigned long long)k->offset, status);
	k->busy = false;
	k->worker->in_flight--;
	c->in_flight--;
	c->on_reply(c, k, r);
}

/*
 * Length of the whole record at the start of the buffer, its mark included; 0: not all here yet, *NEED is what is known to be missing.
 * Fragments are joined where they lie.
 */
static size_t record_length(struct conn *conn, size_t *need)
{
	size_t have = conn->end - conn->start, len;
	uint8_t *p = conn->buf + conn->start;
	uint32_t mark;

	*need = 0;
	if (have < 4)
		return 0;
	memcpy(&mark, p, 4);
	mark = be32toh(mark);
	len = 4 + (mark & ~LAST_FRAGMENT);
	if (len > RECEIVE_MAX / 2)
		die("a reply of %zu bytes", len);
	if (have < len) {
		*need = len - have;
		return 0;
	}
	if (mark & LAST_FRAGMENT)
		return len;
	if (have < len + 4)
		return 0;
	memcpy(&mark, p + len, 4);
	mark = htobe32(be32toh(mark) + (uint32_t)(len - 4));
	memmove(p + len, p + len + 4, have - len - 4);
	memcpy(p, &mark, 4);
	conn->end -= 4;
	return record_length(conn, need);
}

static size_t records_take(struct client *c, struct conn *conn)
{
	size_t len, need;

	while ((len = record_length(conn, &need))) {
		struct reply r = { conn->buf + conn->start + 4, conn->buf + conn->start + len };

		conn->start += len;
		reply_take(c, &r);
	}
	if (conn->start == conn->end)
		conn->start = conn->end = 0;
	return need;
}

/* A long reply is received to its end and no further: then nothing is left over that had to be moved. */
static void receive(struct client *c, struct conn *conn, int flags)
{
	size_t need = records_take(c, conn), room;
	ssize_t r;

	if (RECEIVE_MAX - conn->end < (need > SMALL ? need : SMALL)) {
		memmove(conn->buf, conn->buf + conn->start, conn->end - conn->start);
		conn->end -= conn->start;
		conn->start = 0;
	}
	room = need > SMALL ? need : RECEIVE_MAX - conn->end;
	r = recv(conn->fd, conn->buf + conn->end, room, flags);
	if (r < 0 && errno == EAGAIN && (flags & MSG_DONTWAIT))
		return;
	if (r <= 0)
		die("no reply: %s", r ? strerror(errno) : "connection closed");
	conn->end += (size_t)r;
	records_take(c, conn);
}

/* --- turns --- */

static void wait_and_receive(struct client *c)
{
	struct pollfd p[CONNS_MAX];
	unsigned i;

	for (i = 0; i < c->nconns; i++) {
		p[i].fd = c->conns[i].fd;
		p[i].events = c->conns[i].first ? POLLIN | POLLOUT : POLLIN;
	}
	if (poll(p, c->nconns, REPLY_TIMEOUT_S * 1000) <= 0)
		die("no reply for %d s", REPLY_TIMEOUT_S);
	for (i = 0; i < c->nconns; i++)
		if (p[i].revents & (POLLIN | POLLHUP | POLLERR))
			receive(c, &c->conns[i], MSG_DONTWAIT);
}

void client_turn(struct client *c)
{
	bool all_sent = true;
	unsigned i;

	for (i = 0; i < c->nconns; i++) {
		while (c->conns[i].first && send_batch(&c->conns[i]))
			;
		all_sent = all_sent && !c->conns[i].first;
	}
	if (!c->in_flight)
		return;
	if (c->nconns == 1 && all_sent)
		receive(c, &c->conns[0], 0);
	else
		wait_and_receive(c);
}

/* --- connections --- */

static int connect_to(unsigned port)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct timeval limit = { .tv_sec = REPLY_TIMEOUT_S };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	if (fd < 0 || connect(fd, (struct sockaddr *)&sin, sizeof(sin)) < 0)
		die("port %u: %s", port, strerror(errno));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	return fd;
}

static void conn_open(struct conn *conn, unsigned port)
{
	conn->fd = connect_to(port);
	conn->last = &conn->first;
	conn->buf = malloc(RECEIVE_MAX);
	if (!conn->buf)
		die("no memory");
}

void client_open(struct client *c, unsigned port, unsigned nconns, unsigned nworkers)
{
	unsigned i, k;

	if (!nconns || nconns > CONNS_MAX || !nworkers || nworkers * CALLS_PER_WORKER > 1 << XID_BITS)
		die("too many or too few workers or connections");
	c->nconns = nconns;
	c->conns = calloc(nconns, sizeof(*c->conns));
	c->nworkers = nworkers;
	c->workers = calloc(nworkers, sizeof(*c->workers));
	if (!c->conns || !c->workers || getrandom(&c->generation, 4, 0) != 4)
		die("no memory");
	for (i = 0; i < nconns; i++)
		conn_open(&c->conns[i], port);
	for (i = 0; i < nworkers; i++) {
		c->workers[i].index = i;
		c->workers[i].conn = &c->conns[i % nconns];
		for (k = 0; k < CALLS_PER_WORKER; k++)
			c->workers[i].calls[k].worker = &c->workers[i];
	}
}

void client_close(struct client *c)
{
	unsigned i;

	for (i = 0; i < c->nconns; i++) {
		close(c->conns[i].fd);
		free(c->conns[i].buf);
	}
	free(c->conns);
	free(c->workers);
}

/* One call the plain way, whose answer is small and comes in one piece; *R is left at the results. */
static void exchange(int fd, struct call *k, uint8_t *answer, size_t size, struct reply *r)
{
	ssize_t n;

	put_record_mark(k);
	if (send(fd, k->head, k->head_len, MSG_NOSIGNAL) != (ssize_t)k->head_len)
		die("send: %s", strerror(errno));
	n = recv(fd, answer, size, 0);
	if (n < 4)
		die("a first call is not answered");
	*r = (struct reply){ answer + 4, answer + n };
	reply_u32(r);
	reply_accepted(r);
}

void client_idle(unsigned port, unsigned count)
{
	struct rlimit files = { count + 256, count + 256 };
	static struct call k;
	uint8_t answer[1024];
	struct reply r;

	if (count && setrlimit(RLIMIT_NOFILE, &files) < 0)
		die("%u descriptors: %s", count, strerror(errno));
	while (count--) {
		put_header(&k, NFS_PROGRAM, PROC_NULL);
		exchange(connect_to(port), &k, answer, sizeof(answer), &r);
	}
}

void client_mount(unsigned port, const char *path, struct fh *root)
{
	static struct call k;
	uint8_t answer[1024];
	struct reply r;
	int fd = connect_to(port);

	if (strlen(path) > 256)
		die("the path of the export is too long");
	put_header(&k, MOUNT_PROGRAM, MOUNTPROC3_MNT);
	put_name(&k, path);
	exchange(fd, &k, answer, sizeof(answer), &r);
	if (reply_u32(&r) != 0)
		die("MOUNT of %s is refused", path);
	reply_fh(&r, root);
	close(fd);
}
