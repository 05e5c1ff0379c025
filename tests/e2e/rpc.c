/*
 * rpc.c: the raw client's transport. Buffers belong to the connection; a reply lives in conn->in until the next receive.
 */
#include "tests/e2e/rpc.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TIMEOUT_S = 60, PORT_TRIES = 100, AUTH_BODY_MAX = 400, LAST_FRAGMENT = 1u << 31 };

bool_t rpc_no_body(XDR *x, ...)
{
	return TRUE;
}

static const char machine_name[] = "e2e";

/* There are few privileged ports: any of them, shared with connections to other servers, given back with a reset. */
static int bind_privileged(int fd)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct linger reset = { .l_onoff = 1 };
	int one = 1;

	sin.sin_port = htons((uint16_t)(600 + arc4random_uniform(424)));
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	return bind(fd, (struct sockaddr *)&sin, sizeof(sin)) < 0 ? -errno : 0;
}

/* A connected socket, or -errno; -EADDRNOTAVAIL if the port that we got is still known to the other side. */
static int try_connect(int port, bool privileged)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct timeval timeout = { .tv_sec = TIMEOUT_S };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1, r;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	r = privileged ? bind_privileged(fd) : 0;
	if (!r && connect(fd, (struct sockaddr *)&sin, sizeof(sin)) < 0)
		r = -errno;
	if (r)
		close(fd);
	return r ? r : fd;
}

int conn_open(struct rpc_conn *c, int port, bool privileged)
{
	int i;

	*c = (struct rpc_conn) { .id.flavor = AUTH_SYS, .xid = (uint32_t)random() };
	c->fd = -EADDRNOTAVAIL;
	for (i = 0; i < PORT_TRIES && (c->fd == -EADDRNOTAVAIL || c->fd == -EADDRINUSE); i++)
		c->fd = try_connect(port, privileged);
	if (c->fd < 0)
		return c->fd;
	c->out = malloc(RPC_RECORD_MAX);
	c->in = malloc(RPC_RECORD_MAX);
	if (!c->out || !c->in)
		abort();
	return 0;
}

void conn_close(struct rpc_conn *c)
{
	if (c->fd >= 0)
		close(c->fd);
	free(c->in);
	free(c->out);
	c->in = c->out = NULL;
	c->fd = -1;
}

int conn_send_bytes(struct rpc_conn *c, const void *bytes, size_t len)
{
	const char *p = bytes;
	ssize_t n;

	for (; len; p += n, len -= (size_t)n) {
		n = send(c->fd, p, len, MSG_NOSIGNAL);
		if (n < 0)
			return -errno;
	}
	return 0;
}

int conn_send_record(struct rpc_conn *c, const char *record, size_t len, size_t fragment)
{
	size_t n, off;
	uint32_t mark;
	int r;

	for (off = 0; off < len; off += n) {
		n = fragment && fragment < len - off ? fragment : len - off;
		mark = htonl((uint32_t)n | (off + n == len ? LAST_FRAGMENT : 0));
		r = conn_send_bytes(c, &mark, sizeof(mark));
		r = r ? r : conn_send_bytes(c, record + off, n);
		if (r)
			return r;
	}
	return 0;
}

static u_int encode_auth_sys(const struct rpc_identity *id, char *body)
{
	char *machine = (char *)(uintptr_t)machine_name;
	uint32_t stamp = 1, i, word;
	XDR x;

	xdrmem_create(&x, body, AUTH_BODY_MAX, XDR_ENCODE);
	xdr_u_int(&x, &stamp);
	xdr_string(&x, &machine, sizeof(machine_name));
	for (i = 0; i < 3 + id->ngroups; i++) {
		word = i == 0 ? id->uid : i == 1 ? id->gid : i == 2 ? id->ngroups : id->groups[i - 3];
		xdr_u_int(&x, &word);
	}
	return xdr_getpos(&x);
}

size_t conn_encode_call(const struct rpc_identity *id, uint32_t xid, const struct rpc_what *what, char *buf, size_t size)
{
	char body[AUTH_BODY_MAX];
	struct rpc_msg msg = { .rm_xid = xid, .rm_direction = CALL };
	XDR x;

	msg.rm_call.cb_rpcvers = RPC_MSG_VERSION;
	msg.rm_call.cb_prog = what->prog;
	msg.rm_call.cb_vers = what->vers;
	msg.rm_call.cb_proc = what->proc;
	msg.rm_call.cb_cred.oa_flavor = (enum_t)id->flavor;
	msg.rm_call.cb_cred.oa_base = body;
	msg.rm_call.cb_cred.oa_length = id->flavor == AUTH_SYS ? encode_auth_sys(id, body) : 0;
	xdrmem_create(&x, buf, (u_int)size, XDR_ENCODE);
	if (!xdr_callmsg(&x, &msg))
		return 0;
	if (what->encode && !what->encode(&x, (void *)(uintptr_t)what->args))
		return 0;
	return xdr_getpos(&x);
}

int conn_send(struct rpc_conn *c, const struct rpc_what *what)
{
	size_t len = conn_encode_call(&c->id, ++c->xid, what, c->out, RPC_RECORD_MAX);

	return len ? conn_send_record(c, c->out, len, c->fragment) : -EMSGSIZE;
}

static int receive_exactly(struct rpc_conn *c, void *buf, size_t len)
{
	ssize_t n;

	if (!len)
		return 0;
	n = recv(c->fd, buf, len, MSG_WAITALL);
	if (n < 0)
		return -errno;
	return (size_t)n == len ? 0 : -ECONNRESET;
}

int conn_receive(struct rpc_conn *c, uint32_t *xid)
{
	uint32_t mark, len;
	int r;

	c->in_len = 0;
	do {
		r = receive_exactly(c, &mark, sizeof(mark));
		if (r)
			return r;
		len = ntohl(mark) & ~(uint32_t)LAST_FRAGMENT;
		if (len > RPC_RECORD_MAX - c->in_len)
			return -EBADMSG;
		r = receive_exactly(c, c->in + c->in_len, len);
		if (r)
			return r;
		c->in_len += len;
	} while (!(ntohl(mark) & LAST_FRAGMENT));
	if (c->in_len < sizeof(*xid))
		return -EBADMSG;
	memcpy(xid, c->in, sizeof(*xid));
	*xid = ntohl(*xid);
	return 0;
}

static int outcome(const struct rpc_msg *msg)
{
	const struct rejected_reply *rejected = &msg->rm_reply.rp_rjct;

	if (msg->rm_direction != REPLY)
		return -EBADMSG;
	if (msg->rm_reply.rp_stat == MSG_ACCEPTED)
		return (int)msg->rm_reply.rp_acpt.ar_stat;
	return rejected->rj_stat == RPC_MISMATCH ? RPC_REJECT_MISMATCH : RPC_REJECT_AUTH + (int)rejected->rj_why;
}

/* The reply's body, from pos to its end, is exactly what its decoded form encodes to. */
static int check_exact(struct rpc_conn *c, const struct rpc_result *result, u_int pos)
{
	u_int len = (u_int)c->in_len - pos;
	XDR x;

	xdrmem_create(&x, c->out, RPC_RECORD_MAX, XDR_ENCODE);
	if (!result->decode(&x, result->res) || xdr_getpos(&x) != len || memcmp(c->out, c->in + pos, len))
		return -EBADMSG;
	return 0;
}

int conn_decode(struct rpc_conn *c, const struct rpc_result *result)
{
	char verf[MAX_AUTH_BYTES];
	struct rpc_msg msg = { 0 };
	u_int pos;
	int r;
	XDR x;

	msg.acpted_rply.ar_verf.oa_base = verf;
	msg.acpted_rply.ar_results.proc = rpc_no_body;
	if (result->res)
		memset(result->res, 0, result->size);
	xdrmem_create(&x, c->in, (u_int)c->in_len, XDR_DECODE);
	if (!xdr_replymsg(&x, &msg))
		return -EBADMSG;
	r = outcome(&msg);
	pos = xdr_getpos(&x);
	if (r || !result->decode)
		return pos == c->in_len ? r : -EBADMSG;
	if (!result->decode(&x, result->res) || xdr_getpos(&x) != c->in_len)
		return -EBADMSG;
	return check_exact(c, result, pos);
}

int conn_call(struct rpc_conn *c, const struct rpc_what *what, const struct rpc_result *result)
{
	uint32_t xid;
	int r = conn_send(c, what);

	r = r ? r : conn_receive(c, &xid);
	if (r)
		return r;
	return xid == c->xid ? conn_decode(c, result) : -EBADMSG;
}
