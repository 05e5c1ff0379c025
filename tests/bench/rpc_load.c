/*
 * tests/bench/rpc_load.c - raw pipelined RPC load: N connections, D calls in flight on each, for some seconds; calls per second and the server's CPU time per
 * call, from /proc/PID/stat.
 *
 *	rpc_load PORT PID null|getattr|write|write_sync|read PATH [CONNECTIONS [DEPTH [SECONDS [BYTES]]]]
 *
 * A batch of calls that was answered together is sent again together, as a client does that has D callers. The file of GETATTR is the export's root, PATH. WRITE
 * (UNSTABLE or FILE_SYNC) and READ go through one file, PATH/rpc_load, in interleaved records of BYTES (47008) up to 256 MiB, and then from its begin.
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

enum { CONNECTIONS_MAX = 256, DEPTH_MAX = 1024, CALL_BYTES_MAX = 256, IO_BYTES_MAX = 1 << 20, FILE_BYTES = 256 << 20 };

enum what { LOAD_NULL, LOAD_GETATTR, LOAD_WRITE, LOAD_WRITE_SYNC, LOAD_READ, LOAD_KINDS };
static const char *const names[LOAD_KINDS] = { "null", "getattr", "write", "write_sync", "read" };

static enum what what;
static uint32_t io_bytes = 47008;
static uint8_t fh[NFS3_FHSIZE];
static uint32_t fh_len;

static uint8_t cred[64];
static uint32_t cred_len;

static void die(const char *why)
{
	perror(why);
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

/* Send the call in mem and receive its reply there: the cursor stands on the results. */
static struct xdr call_once(int fd, uint8_t *mem, size_t room, const struct xdr_out *call)
{
	struct reply_body r;
	struct xdr in;
	size_t have = 0;
	write_all(fd, mem, call_end(mem, call));
	while (have < 4 || have < 4 + (xdr_load32(mem) & ~RECORD_LAST_FRAGMENT))
		have += read_some(fd, mem + have, room - have);
	xdr_init(&in, mem + 4, have - 4);
	if (!rpc_dec_reply(&in, &r) || r.stat != MSG_ACCEPTED || r.accept != SUCCESS)
		die("the call failed");
	return in;
}

/* fh: the root of path. */
static void mount_path(int fd, const char *path)
{
	uint8_t mem[2048];
	struct mountres3 res;
	struct xdr_out x = call_begin(mem, sizeof(mem), MOUNT_PROGRAM, MOUNTPROC3_MNT);
	xdr_enc_dirpath(&x, xdr_bytes_str(path));
	struct xdr in = call_once(fd, mem, sizeof(mem), &x);
	if (!xdr_dec_mountres3(&in, &res) || !mountstat3_is_ok(res.fhs_status))
		die(path);
	fh_len = res.mountinfo.fhandle.len;
	memcpy(fh, res.mountinfo.fhandle.ptr, fh_len);
}

/* fh: a file in the directory that it was. */
static void create_file(int fd, const char *name)
{
	uint8_t mem[2048];
	struct CREATE3res res;
	struct CREATE3args args = { .where = { { xdr_bytes_of(fh, fh_len) }, xdr_bytes_str(name) }, .how.mode = UNCHECKED };
	struct xdr_out x = call_begin(mem, sizeof(mem), NFS_PROGRAM, NFSPROC3_CREATE);
	xdr_enc_CREATE3args(&x, &args);
	struct xdr in = call_once(fd, mem, sizeof(mem), &x);
	if (!xdr_dec_CREATE3res(&in, &res) || !nfsstat3_is_ok(res.status))
		die(name);
	fh_len = res.resok.obj.handle.data.len;
	memcpy(fh, res.resok.obj.handle.data.ptr, fh_len);
}

/* The next call into mem: its length. */
static size_t call_make(uint8_t *mem, size_t room)
{
	static const uint32_t procs[] = { NFSPROC3_NULL, NFSPROC3_GETATTR, NFSPROC3_WRITE, NFSPROC3_WRITE, NFSPROC3_READ };
	static uint8_t data[IO_BYTES_MAX];
	static uint64_t offset;
	struct nfs_fh3 file = { xdr_bytes_of(fh, fh_len) };
	struct xdr_out x = call_begin(mem, room, NFS_PROGRAM, procs[what]);
	struct GETATTR3args getattr = { file };
	struct READ3args rd = { file, offset, io_bytes };
	struct WRITE3args wr = { file, offset, io_bytes, what == LOAD_WRITE ? UNSTABLE : FILE_SYNC, xdr_bytes_of(data, io_bytes) };
	offset = offset + 2 * io_bytes <= FILE_BYTES ? offset + io_bytes : 0;
	if (what == LOAD_GETATTR)
		xdr_enc_GETATTR3args(&x, &getattr);
	else if (what == LOAD_READ)
		xdr_enc_READ3args(&x, &rd);
	else if (what != LOAD_NULL)
		xdr_enc_WRITE3args(&x, &wr);
	return call_end(mem, &x);
}

/* Send n calls, together if they are small. */
static void calls_send(int fd, unsigned n)
{
	static uint8_t mem[IO_BYTES_MAX + DEPTH_MAX * CALL_BYTES_MAX];
	size_t len = 0;
	for (unsigned i = 0; i < n; i++) {
		if (what == LOAD_WRITE || what == LOAD_WRITE_SYNC) {
			write_all(fd, mem, call_make(mem, sizeof(mem)));
			continue;
		}
		len += call_make(mem + len, sizeof(mem) - len);
	}
	write_all(fd, mem, len);
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

static void prepare(int port, const char *path)
{
	int fd = connect_to(port);
	cred_make();
	if (what != LOAD_NULL)
		mount_path(fd, path);
	if (what > LOAD_GETATTR)
		create_file(fd, "rpc_load");
	close(fd);
}

static int usage(void)
{
	fprintf(stderr, "usage: rpc_load PORT PID null|getattr|write|write_sync|read PATH [CONNECTIONS [DEPTH [SECONDS [BYTES]]]]\n");
	return 1;
}

static bool what_parse(const char *name)
{
	for (what = 0; what < LOAD_KINDS; what++)
		if (strcmp(names[what], name) == 0)
			return true;
	return false;
}

/* Answer every batch of replies with as many calls, for some seconds: calls done. */
static uint64_t load_run(struct load *loads, struct pollfd *polls, int conns, double seconds)
{
	static uint8_t in[1 << 20];
	double begin = now();
	uint64_t done = 0;
	while (now() - begin < seconds) {
		if (poll(polls, (nfds_t)conns, 1000) < 0)
			die("poll");
		for (int i = 0; i < conns; i++) {
			if (polls[i].revents == 0)
				continue;
			unsigned replies = replies_count(&loads[i], in, read_some(loads[i].fd, in, sizeof(in)));
			done += replies;
			if (replies > 0)
				calls_send(loads[i].fd, replies);
		}
	}
	return done;
}

int main(int argc, char **argv)
{
	static struct load loads[CONNECTIONS_MAX];
	static struct pollfd polls[CONNECTIONS_MAX];
	if (argc < 5 || !what_parse(argv[3]))
		return usage();
	int port = atoi(argv[1]), pid = atoi(argv[2]);
	int conns = argc > 5 ? atoi(argv[5]) : 1, depth = argc > 6 ? atoi(argv[6]) : 32;
	double seconds = argc > 7 ? atof(argv[7]) : 3;
	io_bytes = argc > 8 ? (uint32_t)atoi(argv[8]) : io_bytes;
	if (conns < 1 || conns > CONNECTIONS_MAX || depth < 1 || depth > DEPTH_MAX || io_bytes < 1 || io_bytes > IO_BYTES_MAX)
		return usage();
	prepare(port, argv[4]);
	double begin = now(), cpu = cpu_of(pid);
	for (int i = 0; i < conns; i++) {
		loads[i].fd = connect_to(port);
		polls[i] = (struct pollfd){ .fd = loads[i].fd, .events = POLLIN };
		calls_send(loads[i].fd, (unsigned)depth);
	}
	uint64_t done = load_run(loads, polls, conns, seconds);
	double elapsed = now() - begin;
	cpu = cpu_of(pid) - cpu;
	printf("%s: %d connections x %d deep: %.0f calls/s, %.3f us of server CPU each", names[what], conns, depth, (double)done / elapsed, cpu * 1e6 / (double)done);
	if (what > LOAD_GETATTR)
		printf(", %.0f MiB/s", (double)done * io_bytes / elapsed / 1048576);
	putchar('\n');
	return 0;
}
