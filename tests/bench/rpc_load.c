/*
 * tests/bench/rpc_load.c - raw pipelined RPC load: N connections, D calls in flight on each, for some seconds; calls per second and the server's CPU time per
 * call, from /proc/PID/stat.
 *
 *	rpc_load PORT PID null|getattr PATH [CONNECTIONS [DEPTH [SECONDS]]]
 *
 * A batch of calls that was answered together is sent again together, as a client does that has D callers. The file of GETATTR is the export's root, PATH.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "proto/mount3.h"
#include "proto/nfs3.h"
#include "proto/record.h"
#include "proto/rpc.h"

enum { CONNECTIONS_MAX = 256, DEPTH_MAX = 1024, CALL_BYTES_MAX = 256 };

static uint8_t cred[64];
static uint32_t cred_len;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* User and system seconds of a process: fields 14 and 15. */
static double cpu_of(int pid)
{
	char path[64], text[1024], *p;
	unsigned long utime, stime;
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	FILE *f = fopen(path, "r");
	if (f == NULL || fgets(text, sizeof(text), f) == NULL)
		die(path);
	fclose(f);
	p = strrchr(text, ')');
	if (p == NULL || sscanf(p + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &utime, &stime) != 2)
		die("stat");
	return (double)(utime + stime) / (double)sysconf(_SC_CLK_TCK);
}

static int connect_to(int port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) != 0)
		die("connect");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

static void write_all(int fd, const uint8_t *p, size_t len)
{
	while (len > 0) {
		ssize_t n = send(fd, p, len, MSG_NOSIGNAL);
		if (n <= 0)
			die("send");
		p += n;
		len -= (size_t)n;
	}
}

static size_t read_some(int fd, void *mem, size_t len)
{
	ssize_t n = recv(fd, mem, len, 0);
	if (n <= 0)
		die("recv");
	return (size_t)n;
}

static void cred_make(void)
{
	struct authsys_parms p = { .machinename = xdr_bytes_str("load") };
	struct xdr_out x;
	xdr_out_init(&x, cred, sizeof(cred));
	rpc_enc_authsys(&x, &p);
	cred_len = (uint32_t)xdr_out_pos(&x);
}

static struct xdr_out call_begin(uint8_t *mem, size_t room, uint32_t prog, uint32_t proc)
{
	struct call_body c = { .xid = 1, .rpcvers = RPC_VERSION, .prog = prog, .vers = 3, .proc = proc, .cred = { AUTH_SYS, xdr_bytes_of(cred, cred_len) } };
	struct xdr_out x;
	xdr_out_init(&x, mem + RECORD_MARK_BYTES, room - RECORD_MARK_BYTES);
	rpc_enc_call(&x, &c);
	return x;
}

static size_t call_end(uint8_t *mem, const struct xdr_out *x)
{
	record_mark_encode(mem, (uint32_t)xdr_out_pos(x));
	return RECORD_MARK_BYTES + xdr_out_pos(x);
}

/* The root handle of path: its length. */
static uint32_t mount_path(int port, const char *path, uint8_t fh[NFS3_FHSIZE])
{
	uint8_t mem[2048];
	struct reply_body r;
	struct mountres3 res;
	struct xdr in;
	struct xdr_out x = call_begin(mem, sizeof(mem), MOUNT_PROGRAM, MOUNTPROC3_MNT);
	int fd = connect_to(port);
	size_t have = 0;
	xdr_enc_dirpath(&x, xdr_bytes_str(path));
	write_all(fd, mem, call_end(mem, &x));
	while (have < 4 || have < 4 + (xdr_load32(mem) & ~RECORD_LAST_FRAGMENT))
		have += read_some(fd, mem + have, sizeof(mem) - have);
	close(fd);
	xdr_init(&in, mem + 4, have - 4);
	if (!rpc_dec_reply(&in, &r) || r.stat != MSG_ACCEPTED || r.accept != SUCCESS || !xdr_dec_mountres3(&in, &res) || !mountstat3_is_ok(res.fhs_status)) {
		fprintf(stderr, "rpc_load: cannot mount %s\n", path);
		exit(1);
	}
	memcpy(fh, res.mountinfo.fhandle.ptr, res.mountinfo.fhandle.len);
	return res.mountinfo.fhandle.len;
}

static size_t call_make(uint8_t *mem, int port, const char *what, const char *path)
{
	uint8_t fh[NFS3_FHSIZE];
	bool getattr = strcmp(what, "getattr") == 0;
	struct xdr_out x = call_begin(mem, CALL_BYTES_MAX, NFS_PROGRAM, getattr ? NFSPROC3_GETATTR : NFSPROC3_NULL);
	if (getattr) {
		struct GETATTR3args args = { { xdr_bytes_of(fh, mount_path(port, path, fh)) } };
		xdr_enc_GETATTR3args(&x, &args);
	}
	return call_end(mem, &x);
}

/* One connection: replies are counted by their marks as they come. */
struct load {
	int fd;
	uint8_t mark[4];
	unsigned mark_len;
	size_t left; /* of the reply being received */
};

static unsigned replies_count(struct load *l, const uint8_t *p, size_t n)
{
	unsigned replies = 0;
	while (n > 0) {
		if (l->left == 0) {
			l->mark[l->mark_len++] = *p++;
			n--;
			if (l->mark_len < 4)
				continue;
			l->left = xdr_load32(l->mark) & ~RECORD_LAST_FRAGMENT;
			l->mark_len = 0;
			continue;
		}
		size_t take = l->left < n ? l->left : n;
		l->left -= take;
		p += take;
		n -= take;
		replies += l->left == 0;
	}
	return replies;
}

int main(int argc, char **argv)
{
	static uint8_t batch[DEPTH_MAX * CALL_BYTES_MAX], in[1 << 18];
	static struct load loads[CONNECTIONS_MAX];
	static struct pollfd polls[CONNECTIONS_MAX];
	uint64_t done = 0;
	if (argc < 5) {
		fprintf(stderr, "usage: rpc_load PORT PID null|getattr PATH [CONNECTIONS [DEPTH [SECONDS]]]\n");
		return 1;
	}
	int port = atoi(argv[1]), pid = atoi(argv[2]);
	int conns = argc > 5 ? atoi(argv[5]) : 1, depth = argc > 6 ? atoi(argv[6]) : 32;
	double seconds = argc > 7 ? atof(argv[7]) : 3;
	if (conns < 1 || conns > CONNECTIONS_MAX || depth < 1 || depth > DEPTH_MAX)
		return 1;
	cred_make();
	size_t call_len = call_make(batch, port, argv[3], argv[4]);
	for (int i = 1; i < depth; i++)
		memcpy(batch + (size_t)i * call_len, batch, call_len);
	for (int i = 0; i < conns; i++) {
		loads[i].fd = connect_to(port);
		polls[i] = (struct pollfd){ .fd = loads[i].fd, .events = POLLIN };
		write_all(loads[i].fd, batch, (size_t)depth * call_len);
	}
	double begin = now(), cpu = cpu_of(pid), elapsed;
	while ((elapsed = now() - begin) < seconds) {
		if (poll(polls, (nfds_t)conns, 1000) <= 0)
			die("poll");
		for (int i = 0; i < conns; i++) {
			if (polls[i].revents == 0)
				continue;
			unsigned replies = replies_count(&loads[i], in, read_some(loads[i].fd, in, sizeof(in)));
			done += replies;
			if (replies > 0)
				write_all(loads[i].fd, batch, replies * call_len);
		}
	}
	cpu = cpu_of(pid) - cpu;
	printf("%s: %d connections x %d deep: %.0f calls/s, %.3f us of server CPU each\n", argv[3], conns, depth, (double)done / elapsed, cpu * 1e6 / (double)done);
	return 0;
}
