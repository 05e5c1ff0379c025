/*
 * raw_badinput_test: what no client should send, and clients that behave badly. The answer is the RFC's, or a closed
 * connection; nothing happens to files; and the well-behaved client on fx.c never notices (checked after each case).
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/e2e/fixture.h"

enum { CALL_MAX = 4096, WTMAX = 1 << 20, LAST = 1u << 31 };

static struct client *const c = &fx.c;
static struct rpc_conn bad;
static char data[2 << 20];

static void others_undisturbed(void)
{
	CHECK_EQ(nfs3_getattr(c, &fx.root[RW], NULL), NFS3_OK);
}

/* Half a minute is too long to wait for the answers that never come. */
static void reopen(void)
{
	struct timeval timeout = { .tv_sec = 5 };

	if (bad.in)
		conn_close(&bad);
	CHECK_EQ(conn_open(&bad, fx.daemon.port, false), 0);
	setsockopt(bad.fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
}

/* Sends a whole record. What comes back: as conn_call(), the body not looked at; -ECONNRESET or -EPIPE if the connection is gone. */
static int exchange(const char *record, size_t len)
{
	struct rpc_result nothing = { NULL, NULL, 0 };
	uint32_t xid;
	int r = conn_send_record(&bad, record, len, 0);

	r = r ? r : conn_receive(&bad, &xid);
	if (r) {
		reopen();
		return r;
	}
	r = conn_decode(&bad, &nothing);
	return r == -EBADMSG ? 0 : r;	/* accepted, with a body */
}

static bool gone(int r)
{
	return r == -ECONNRESET || r == -EPIPE || r == -ECONNABORTED;
}

static void put_word(char *at, uint32_t word)
{
	word = htonl(word);
	memcpy(at, &word, sizeof(word));
}

static void test_garbage(void)
{
	char bytes[CALL_MAX];
	int i;

	for (i = 0; i < 100; i++) {
		reopen();
		fill_pattern(bytes, sizeof(bytes), (uint64_t)i + 100);
		conn_send_bytes(&bad, bytes, sizeof(bytes));
		shutdown(bad.fd, SHUT_WR);
		while (recv(bad.fd, bytes, sizeof(bytes), 0) > 0)
			;
	}
	others_undisturbed();
}

/* A record of random words with a right length: header words here and there are what they should be. */
static void test_garbage_records(void)
{
	char record[256];
	int i, r;

	reopen();
	for (i = 0; i < 300; i++) {
		fill_pattern(record, sizeof(record), (uint64_t)i);
		if (i % 2)
			put_word(record + 4, CALL);
		if (i % 3)
			put_word(record + 8, 2);
		if (i % 5)
			put_word(record + 12, NFS3_PROG);
		if (i % 7)
			put_word(record + 16, NFS3_VERS);
		r = i % 2 ? exchange(record, (size_t)(i % 60) * 4 + 4) : conn_send_record(&bad, record, (size_t)i % 60 * 4 + 4, 0);
		CHECK(r != 0 || i % 2 == 0, ": record %d was taken for a call", i);
		if (i % 2 == 0)
			reopen();
	}
	others_undisturbed();
}

static void expect_gone(const void *bytes, size_t len, const char *what)
{
	char byte;
	ssize_t n;

	reopen();
	conn_send_bytes(&bad, bytes, len);
	n = recv(bad.fd, &byte, 1, 0);
	CHECK(n == 0 || (n < 0 && errno == ECONNRESET), ": %s: %zd", what, n);
}

static void test_record_sizes(void)
{
	static const uint32_t sizes[] = { 0x7fffffff | LAST, 0x7fffffff, 0x40000000 | LAST, 3u << 20 | LAST, 64u << 20 };
	static char zeros[40000];
	char mark[4];
	unsigned i;

	for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		put_word(mark, sizes[i]);
		expect_gone(mark, 4, text("a record of 0x%x", sizes[i]));
	}
	reopen();
	conn_send_bytes(&bad, zeros, sizeof(zeros));	/* ten thousand empty fragments */
	others_undisturbed();
	reopen();
	put_word(mark, LAST);
	conn_send_bytes(&bad, mark, 4);			/* an empty record */
	others_undisturbed();
}

/* Arguments of every procedure, good ones; the handle is that of a directory. */
static size_t good_call(enum nfs3_proc proc, const struct fh *fh, char *buf)
{
	diropargs3 where = { fh_wire(fh), (char *)(uintptr_t)"target" };
	union {
		GETATTR3args getattr; SETATTR3args setattr; LOOKUP3args lookup; ACCESS3args access; READ3args read; WRITE3args write;
		CREATE3args create; MKDIR3args mkdir; SYMLINK3args symlink; MKNOD3args mknod; RENAME3args rename; LINK3args link;
		READDIR3args readdir; READDIRPLUS3args readdirplus; COMMIT3args commit;
	} a;
	struct rpc_what what = { NFS3_PROG, NFS3_VERS, proc, nfs3_args_xdr(proc), &a };
	struct rpc_identity id = { .flavor = AUTH_SYS, .ngroups = 2, .groups = { 1, 2 } };

	memset(&a, 0, sizeof(a));
	a.getattr.object = where.dir;	/* where most arguments have their handle */
	switch (proc) {
	case NFS3_SETATTR: a.setattr.new_attributes = sattr_mode(0123); break;
	case NFS3_LOOKUP:
	case NFS3_REMOVE:
	case NFS3_RMDIR: a.lookup.what = where; break;
	case NFS3_READ: a.read.count = 100; break;
	case NFS3_WRITE: a.write = (WRITE3args) { where.dir, 0, 10, FILE_SYNC, { 10, data } }; break;
	case NFS3_CREATE: a.create.where = where; break;
	case NFS3_MKDIR: a.mkdir.where = where; break;
	case NFS3_SYMLINK: a.symlink = (SYMLINK3args) { where, { sattr_none(), where.name } }; break;
	case NFS3_MKNOD: a.mknod.where = where, a.mknod.what.type = NF3FIFO; break;
	case NFS3_RENAME: a.rename = (RENAME3args) { where, where }; break;
	case NFS3_LINK: a.link.link = where; break;
	default: break;
	}
	return conn_encode_call(&id, 77, &what, buf, CALL_MAX);
}

/* Every truncation of every call: an error or a closed connection, never a call that is carried out. */
static void test_truncated(void)
{
	char call[CALL_MAX];
	struct fh dir;
	const char *path = fresh_dir(RW, &dir);
	size_t len, cut;
	int proc, r;
	DIR *d;

	reopen();
	for (proc = NFS3_GETATTR; proc < NFS3_PROCS; proc++) {
		len = good_call((enum nfs3_proc)proc, &dir, call);
		for (cut = 4; cut < len; cut += 4) {
			if (cut < 24)
				reopen();
			r = exchange(call, cut);
			CHECK(r == GARBAGE_ARGS || r >= RPC_REJECT_MISMATCH || gone(r), ": %s cut to %zu of %zu: %d",
			      nfs3_proc_name((enum nfs3_proc)proc), cut, len, r);
			if (tap_failures())
				return;
		}
	}
	d = opendir(path);
	while (readdir(d))
		proc++;
	closedir(d);
	CHECK(proc == NFS3_PROCS + 2, ": something was made");
	others_undisturbed();
}

static int call_header(uint32_t prog, uint32_t vers, uint32_t proc)
{
	struct rpc_what what = { prog, vers, proc, NULL, NULL };
	char buf[CALL_MAX];
	struct rpc_identity id = { .flavor = AUTH_SYS };

	return exchange(buf, conn_encode_call(&id, 5, &what, buf, sizeof(buf)));
}

static void test_unknown(void)
{
	reopen();
	CHECK_EQ(call_header(100004, 2, 0), PROG_UNAVAIL);
	CHECK_EQ(call_header(0, 0, 0), PROG_UNAVAIL);
	CHECK_EQ(call_header(NFS3_PROG, 2, 0), PROG_MISMATCH);
	CHECK_EQ(call_header(NFS3_PROG, 99, 0), PROG_MISMATCH);
	CHECK_EQ(call_header(MOUNT3_PROG, 4, 0), PROG_MISMATCH);
	CHECK_EQ(call_header(NFS3_PROG, 3, 22), PROC_UNAVAIL);
	CHECK_EQ(call_header(NFS3_PROG, 3, 0xffffffff), PROC_UNAVAIL);
	CHECK_EQ(call_header(MOUNT3_PROG, 3, 6), PROC_UNAVAIL);
	CHECK_EQ(call_header(NFS3_PROG, 3, 0), 0);
	others_undisturbed();
}

static void test_rpc_version(void)
{
	char call[CALL_MAX];
	size_t len = good_call(NFS3_GETATTR, &fx.root[RW], call);
	int r;

	reopen();
	put_word(call + 8, 3);
	r = exchange(call, len);
	CHECK(r == RPC_REJECT_MISMATCH, ": %d", r);
	put_word(call + 8, 2);
	put_word(call + 4, REPLY);
	conn_send_record(&bad, call, len, 0);	/* nobody asked: dropped, or the connection closed */
	others_undisturbed();
}

static void test_credentials(void)
{
	struct rpc_what what = { NFS3_PROG, NFS3_VERS, NFS3_GETATTR, nfs3_args_xdr(NFS3_GETATTR), NULL };
	GETATTR3args args = { fh_wire(&fx.root[RW]) };
	struct rpc_identity id = { .flavor = AUTH_SYS, .ngroups = 17 };
	char call[CALL_MAX];
	size_t len;
	int r;

	reopen();
	what.args = &args;
	r = exchange(call, conn_encode_call(&id, 1, &what, call, sizeof(call)));
	CHECK(r == RPC_REJECT_AUTH + AUTH_BADCRED || gone(r), ": 17 groups: %d", r);
	id.ngroups = 16;
	CHECK_EQ(exchange(call, len = conn_encode_call(&id, 2, &what, call, sizeof(call))), 0);
	put_word(call + 24, 99);		/* a flavor that nobody knows */
	r = exchange(call, len);
	CHECK(r >= RPC_REJECT_AUTH || gone(r), ": flavor 99: %d", r);
	put_word(call + 24, AUTH_SYS);
	put_word(call + 28, 404);		/* longer than a credential may be */
	r = exchange(call, len);
	CHECK(r >= RPC_REJECT_AUTH || r == GARBAGE_ARGS || gone(r), ": 404 bytes: %d", r);
	put_word(call + 28, 0xfffffff0);
	r = exchange(call, len);
	CHECK(r >= RPC_REJECT_AUTH || r == GARBAGE_ARGS || gone(r), ": 4 GiB: %d", r);
	others_undisturbed();
}

/* What was sent may all fit into the sockets before a slow server has looked at it: wait for the end, as long as for any answer. */
static bool ended(int fd)
{
	struct timeval timeout = { .tv_sec = 60 };
	char byte;
	ssize_t n;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	n = recv(fd, &byte, 1, 0);
	return n == 0 || (n < 0 && errno == ECONNRESET);
}

/* The same WRITE in one fragment, and in hundreds; a small call byte by byte. Thousands are more than the server takes. */
static void test_fragments(void)
{
	static const size_t fragments[] = { 0, 200, 1000, 1004, 4096, 65536 };
	static char back[60000];
	struct fh dir, fh;
	const char *path = fresh_dir(RW, &dir);
	unsigned i;

	CHECK_EQ(nfs3_make(c, &dir, "f", &fh), NFS3_OK);
	for (i = 0; i < sizeof(fragments) / sizeof(*fragments); i++) {
		c->conn.fragment = fragments[i];
		fill_pattern(data, 47008, i);
		CHECK_EQ(nfs3_write(c, &fh, 1000, data, 47008, FILE_SYNC), NFS3_OK);
		CHECK_EQ(get_file(text("%s/f", path), back, sizeof(back)), 48008);
		CHECK(!memcmp(back + 1000, data, 47008), ": fragments of %zu", fragments[i]);
	}
	c->conn.fragment = 1;
	others_undisturbed();
	c->conn.fragment = 0;
	reopen();
	for (i = 0; i < 10000 && !conn_send_bytes(&bad, "\0\0\0\1x", 5); i++)
		;
	CHECK(i < 10000 || ended(bad.fd), ": ten thousand fragments, and no end");
	others_undisturbed();
}

static void test_forged_handles(void)
{
	struct fh dir, fh, forged;
	unsigned bit;
	int want;

	fresh_dir(RW, &dir);
	CHECK_EQ(nfs3_make(c, &dir, "f", &fh), NFS3_OK);
	for (bit = 0; bit < fh.len * 8; bit++) {
		forged = fh;
		forged.data[bit / 8] ^= (char)(1 << bit % 8);
		/* Version, length and a byte that is zero; what is behind them may be another key's. */
		want = bit / 8 == 0 || bit / 8 == 2 || bit / 8 == 3 ? NFS3ERR_BADHANDLE : NFS3ERR_STALE;
		CHECK(nfs3_getattr(c, &forged, NULL) == want, ": bit %u: %d", bit, (int)c->res.status);
	}
	for (forged = fh; forged.len > 0; forged.len--)
		CHECK(forged.len == fh.len || nfs3_getattr(c, &forged, NULL) == NFS3ERR_BADHANDLE, ": cut to %u", forged.len);
	others_undisturbed();
}

/* Puts a word into a good call at a distance from its end. The record is 4-byte aligned throughout. */
static int call_with_word(enum nfs3_proc proc, const struct fh *fh, size_t from_end, uint32_t word)
{
	char call[CALL_MAX];
	size_t len = good_call(proc, fh, call);

	put_word(call + len - from_end, word);
	return exchange(call, len);
}

static void test_bad_values(void)
{
	struct fh dir;
	const char *path = fresh_dir(RW, &dir);
	static const uint32_t lengths[] = { 0xffffffff, 0x80000000, 0x7fffffff, 1000000, 65 };
	unsigned i;
	int r;

	reopen();
	for (i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		r = call_with_word(NFS3_LOOKUP, &dir, 12, lengths[i]);	/* the length of "target" */
		CHECK(r == GARBAGE_ARGS || gone(r), ": name of %u: %d", lengths[i], r);
		r = call_with_word(NFS3_GETATTR, &dir, dir.len + 4, lengths[i]);
		CHECK(r == GARBAGE_ARGS || gone(r), ": handle of %u: %d", lengths[i], r);
		r = call_with_word(NFS3_WRITE, &dir, 16, lengths[i]);	/* the length of the data */
		CHECK(r == GARBAGE_ARGS || gone(r), ": data of %u: %d", lengths[i], r);
	}
	r = call_with_word(NFS3_WRITE, &dir, 20, 7);	/* stable_how */
	CHECK(r == GARBAGE_ARGS, ": stable_how 7: %d", r);
	r = call_with_word(NFS3_SETATTR, &dir, 4, 2);	/* the guard's boolean */
	CHECK(r == GARBAGE_ARGS, ": guard 2: %d", r);
	r = call_with_word(NFS3_CREATE, &dir, 28, 5);	/* createmode3 */
	CHECK(r == GARBAGE_ARGS, ": createmode3 5: %d", r);
	CHECK_EQ(access(text("%s/target", path), F_OK), -1);
	others_undisturbed();
}

static void test_counts(void)
{
	cookieverf3 verf = { 0 };
	struct fh dir, fh;
	WRITE3args args;
	struct rpc_what what = { NFS3_PROG, NFS3_VERS, NFS3_WRITE, nfs3_args_xdr(NFS3_WRITE), &args };
	WRITE3res res;
	struct rpc_result result = { nfs3_res_xdr(NFS3_WRITE), &res, sizeof(res) };
	int r;

	fresh_dir(RW, &dir);
	CHECK_EQ(nfs3_make(c, &dir, "f", &fh), NFS3_OK);
	CHECK_EQ(nfs3_write(c, &fh, 0, data, WTMAX, UNSTABLE), NFS3_OK);
	CHECK_EQ(nfs3_write(c, &fh, WTMAX, data, WTMAX, FILE_SYNC), NFS3_OK);
	CHECK_EQ(nfs3_read(c, &fh, 0, 0xffffffff), NFS3_OK);
	CHECK(c->res.read.READ3res_u.resok.count == WTMAX && !c->res.read.READ3res_u.resok.eof);
	CHECK_EQ(nfs3_readdir(c, &dir, 0, verf, 0xffffffff), NFS3_OK);
	CHECK_EQ(nfs3_readdirplus(c, &dir, 0, verf, 0xffffffff, 0xffffffff), NFS3_OK);
	reopen();
	args = (WRITE3args) { fh_wire(&fh), 0, 5, UNSTABLE, { 10, data } };	/* count and data disagree */
	r = conn_call(&bad, &what, &result);
	CHECK(r == GARBAGE_ARGS || (r == 0 && (res.status == NFS3ERR_INVAL || res.status == NFS3_OK)), ": %d", r);
	args = (WRITE3args) { fh_wire(&fh), 0, 20, UNSTABLE, { 10, data } };
	r = conn_call(&bad, &what, &result);
	CHECK(r == GARBAGE_ARGS || (r == 0 && res.status == NFS3ERR_INVAL), ": %d", r);
	args = (WRITE3args) { fh_wire(&fh), 0, 2 * WTMAX, UNSTABLE, { 2 * WTMAX, data } };
	r = conn_call(&bad, &what, &result);
	CHECK(gone(r) || r == GARBAGE_ARGS || (r == 0 && (res.status != NFS3_OK || res.WRITE3res_u.resok.count <= WTMAX)), ": %d", r);
	others_undisturbed();
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The others are served between any two bytes of the slow one, and it gets its answer in the end. */
static void test_byte_at_a_time(void)
{
	char call[CALL_MAX], mark[4];
	size_t len = good_call(NFS3_GETATTR, &fx.root[RW], call), i;
	uint32_t xid;

	reopen();
	put_word(mark, LAST | (uint32_t)len);
	for (i = 0; i < 4 + len; i++) {
		CHECK_EQ(conn_send_bytes(&bad, i < 4 ? mark + i : call + i - 4, 1), 0);
		others_undisturbed();
	}
	CHECK_EQ(conn_receive(&bad, &xid), 0);
	CHECK_EQ(xid, 77);
}

/* Asks for far more than sockets hold and does not read: the others are served, and later every byte arrives. */
static void test_slow_reader(void)
{
	enum { CALLS = 64 };
	struct fh dir, fh;
	READ3args args;
	struct rpc_what what = { NFS3_PROG, NFS3_VERS, NFS3_READ, nfs3_args_xdr(NFS3_READ), &args };
	READ3res res;
	struct rpc_result result = { nfs3_res_xdr(NFS3_READ), &res, sizeof(res) };
	uint32_t xid;
	double start;
	int i;

	fresh_dir(RW, &dir);
	fill_pattern(data, WTMAX, 6);
	CHECK_EQ(nfs3_make(c, &dir, "f", &fh), NFS3_OK);
	CHECK_EQ(nfs3_write(c, &fh, 0, data, WTMAX, FILE_SYNC), NFS3_OK);
	reopen();
	args = (READ3args) { fh_wire(&fh), 0, WTMAX };
	for (i = 0; i < CALLS; i++)
		CHECK_EQ(conn_send(&bad, &what), 0);
	start = now();
	for (i = 0; i < 200; i++)
		CHECK_EQ(nfs3_read(c, &fh, 0, 65536), NFS3_OK);
	CHECK(now() - start < 10, ": 200 reads took %.1f s", now() - start);
	for (i = 0; i < CALLS; i++) {
		if (!CHECK_EQ(conn_receive(&bad, &xid), 0))
			return;
		CHECK_EQ(conn_decode(&bad, &result), 0);
		CHECK(res.status == NFS3_OK && res.READ3res_u.resok.count == WTMAX && !memcmp(res.READ3res_u.resok.data.data_val, data, WTMAX));
		xdr_free(result.decode, (char *)&res);
	}
}

/* A WRITE whose payload does not come to its end is not carried out, not in part either. */
static void test_cut_off_write(void)
{
	struct fh dir, fh;
	WRITE3args args;
	struct rpc_what what = { NFS3_PROG, NFS3_VERS, NFS3_WRITE, nfs3_args_xdr(NFS3_WRITE), &args };
	struct rpc_identity id = { .flavor = AUTH_SYS };
	static char call[70000];
	char mark[4];
	fattr3 a;
	size_t len;
	int i;

	fresh_dir(RW, &dir);
	CHECK_EQ(nfs3_make(c, &dir, "f", &fh), NFS3_OK);
	args = (WRITE3args) { fh_wire(&fh), 0, 60000, FILE_SYNC, { 60000, data } };
	len = conn_encode_call(&id, 3, &what, call, sizeof(call));
	put_word(mark, LAST | (uint32_t)len);
	for (i = 0; i < 50; i++) {
		reopen();
		conn_send_bytes(&bad, mark, 4);
		conn_send_bytes(&bad, call, len * (size_t)i / 50);
		conn_close(&bad);
	}
	reopen();
	CHECK_EQ(nfs3_getattr(c, &fh, &a), NFS3_OK);
	CHECK_EQ(a.size, 0);
}

/* Asks and leaves, or asks and says that no more will come. */
static void test_half_closed(void)
{
	char call[CALL_MAX];
	size_t len = good_call(NFS3_GETATTR, &fx.root[RW], call);
	uint32_t xid;
	int i;

	reopen();
	CHECK_EQ(conn_send_record(&bad, call, len, 0), 0);
	shutdown(bad.fd, SHUT_WR);
	CHECK_EQ(conn_receive(&bad, &xid), 0);
	for (i = 0; i < 200; i++) {
		reopen();
		conn_send_record(&bad, call, len, 0);
	}
	others_undisturbed();
}

static int daemon_files(const struct daemon *d)
{
	DIR *dir = opendir(text("/proc/%d/fd", d->pid));
	int n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n;
}

/* Connections that come and go leave nothing behind. */
static void test_connects(void)
{
	int before = daemon_files(&fx.daemon), after = 0, i;

	for (i = 0; i < 2000; i++)
		reopen();
	for (i = 0; i < 2000; i++) {	/* closing is not answered: look until it is done */
		others_undisturbed();
		after = daemon_files(&fx.daemon);
		if (after <= before + 4)
			break;
	}
	CHECK(after <= before + 4, ": %d open files, %d before", after, before);
}

/* The server learns in its own time that others have left: until then a new connection may be closed again. */
static bool served_again(int port, const struct fh *root)
{
	GETATTR3args args = { fh_wire(root) };
	struct rpc_what what = { NFS3_PROG, NFS3_VERS, NFS3_GETATTR, nfs3_args_xdr(NFS3_GETATTR), &args };
	GETATTR3res res;
	struct rpc_result result = { nfs3_res_xdr(NFS3_GETATTR), &res, sizeof(res) };
	struct rpc_conn conn;
	int i, r = -1;

	for (i = 0; i < 1000 && r; i++) {
		CHECK_EQ(conn_open(&conn, port, false), 0);
		r = conn_call(&conn, &what, &result);
		conn_close(&conn);
	}
	return r == 0 && res.status == NFS3_OK;
}

/* Out of file descriptors: those who are connected are served, and the next may connect when one has left. */
static void test_emfile(void)
{
	enum { CONNS = 200 };
	struct daemon d = { .files_max = 128 };
	struct client good;
	struct fh root;
	int fds[CONNS], i;
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	d.exports[0] = text("%s(rw,insecure,no_root_squash)", fx.path[RW]);
	if (!CHECK_EQ(daemon_start(&d), 0))
		return;
	client_open(&good, d.port);
	CHECK_EQ(mount3_mnt(&good, fx.path[RW], &root), MNT3_OK);
	sin.sin_port = htons((uint16_t)d.port);
	for (i = 0; i < CONNS; i++) {
		fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		connect(fds[i], (struct sockaddr *)&sin, sizeof(sin));
	}
	for (i = 0; i < 20; i++)
		CHECK_EQ(nfs3_getattr(&good, &root, NULL), NFS3_OK);
	for (i = 0; i < CONNS; i++)
		close(fds[i]);
	CHECK(served_again(d.port, &root));
	client_close(&good);
	CHECK_EQ(daemon_stop(&d), 0);
}

/* A half-sent record and an unread reply do not hold up the end. */
static void test_stop_with_stuck_clients(void)
{
	char mark[4];
	double start = now();

	reopen();
	put_word(mark, LAST | 1000);
	conn_send_bytes(&bad, mark, 4);
	test_clean_stop();
	CHECK(now() - start < 30, ": took %.1f s", now() - start);
	conn_close(&bad);
}

static const struct tap_test tests[] = {
	{ "garbage", test_garbage },
	{ "garbage_records", test_garbage_records },
	{ "record_sizes", test_record_sizes },
	{ "truncated", test_truncated },
	{ "unknown", test_unknown },
	{ "rpc_version", test_rpc_version },
	{ "credentials", test_credentials },
	{ "fragments", test_fragments },
	{ "forged_handles", test_forged_handles },
	{ "bad_values", test_bad_values },
	{ "counts", test_counts },
	{ "byte_at_a_time", test_byte_at_a_time },
	{ "slow_reader", test_slow_reader },
	{ "cut_off_write", test_cut_off_write }, /* 4.3 */
	{ "half_closed", test_half_closed },
	{ "connects", test_connects },
	{ "emfile", test_emfile },
	{ "stop_with_stuck_clients", test_stop_with_stuck_clients },
};

int main(int argc, char **argv)
{
	fixture_start();
	return tap_run(tests, sizeof(tests) / sizeof(*tests), argc, argv);
}
