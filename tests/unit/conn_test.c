/* tests/unit/conn_test.c - server/conn.c, conn_send.c, server.c, listener.c: records in, replies out, bounds and ends, over loopback. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/record.h"
#include "runtime/counter.h"
#include "server/server.h"
#include "tests/unit/server_harness.h"

static uint8_t mem[2 << 20];

static void begin(void)
{
	harness_init();
	harness_begin();
}

TestSuite(conn, .timeout = 120);

Test(conn, null)
{
	struct xdr results;
	begin();
	int fd = client_connect();
	struct reply_body r = call_once(fd, TEST_NULL, NULL, 0, mem, sizeof(mem), &results);
	cr_assert_eq(r.stat, MSG_ACCEPTED);
	cr_assert_eq(r.accept, SUCCESS);
	cr_assert(xdr_is_done(&results));
	close(fd);
	harness_end();
}

/* All calls of a batch are answered, in order, as none of them waits. */
Test(conn, pipelined)
{
	enum { CALLS = 1000 };
	struct reply_body r;
	struct xdr x;
	size_t len = 0;
	uint8_t reply[256];
	begin();
	int fd = client_connect();
	for (uint32_t i = 0; i < CALLS; i++)
		len += call_encode(mem + len, sizeof(mem) - len, i, TEST_NULL, NULL, 0);
	client_send(fd, mem, len);
	for (uint32_t i = 0; i < CALLS; i++) {
		len = reply_read(fd, reply, sizeof(reply));
		xdr_init(&x, reply, len);
		cr_assert(rpc_dec_reply(&x, &r));
		cr_assert_eq(r.xid, i);
	}
	cr_assert_eq(counter_value("rpc.calls"), CALLS);
	cr_assert_lt(counter_value("conn.sends"), CALLS / 4, "replies leave together");
	close(fd);
	harness_end();
}

static int64_t lingers(void)
{
	return counter_value("runtime.lingers.paid") + counter_value("runtime.lingers.lost");
}

/* The next call of who makes one at a time is looked for before the reactor sleeps. Those who make several are not waited for, nor anybody if so configured. */
Test(conn, lone_calls_are_expected)
{
	struct xdr results;
	harness_init();
	harness_config.linger_us = 10000;
	harness_begin();
	int fd = client_connect();
	while (lingers() == 0)
		call_once(fd, TEST_NULL, NULL, 0, mem, sizeof(mem), &results);
	close(fd);
	harness_end();
}

static void call_pairs(int fd, unsigned pairs)
{
	uint8_t reply[256];
	for (uint32_t i = 0; i < pairs; i++) {
		size_t len = call_encode(mem, sizeof(mem), 2 * i, TEST_NULL, NULL, 0);
		len += call_encode(mem + len, sizeof(mem) - len, 2 * i + 1, TEST_NULL, NULL, 0);
		client_send(fd, mem, len);
		cr_assert(reply_read(fd, reply, sizeof(reply)));
		cr_assert(reply_read(fd, reply, sizeof(reply)));
	}
}

Test(conn, batches_are_not_lingered_for)
{
	harness_init();
	harness_config.linger_us = 10000;
	harness_begin();
	int fd = client_connect();
	call_pairs(fd, 500);
	cr_assert_eq(lingers(), 0);
	close(fd);
	harness_end();
}

Test(conn, nobody_is_lingered_for_if_so_configured)
{
	struct xdr results;
	harness_init();
	harness_config.linger_us = 0;
	harness_begin();
	int fd = client_connect();
	for (unsigned i = 0; i < 500; i++)
		call_once(fd, TEST_NULL, NULL, 0, mem, sizeof(mem), &results);
	cr_assert_eq(lingers(), 0);
	close(fd);
	harness_end();
}

/* A call that waits holds up neither those behind it nor other connections. */
Test(conn, nap_overtaken)
{
	struct reply_body r;
	struct xdr x;
	uint8_t reply[256];
	begin();
	int fd = client_connect();
	size_t len = call_encode(mem, sizeof(mem), 1, TEST_NAP, NULL, 0);
	len += call_encode(mem + len, sizeof(mem) - len, 2, TEST_NAP, NULL, 0);
	len += call_encode(mem + len, sizeof(mem) - len, 3, TEST_NULL, NULL, 0);
	client_send(fd, mem, len);
	xdr_init(&x, reply, reply_read(fd, reply, sizeof(reply)));
	cr_assert(rpc_dec_reply(&x, &r));
	cr_assert_eq(r.xid, 3);
	harness_wake();
	cr_assert(reply_read(fd, reply, sizeof(reply)));
	cr_assert(reply_read(fd, reply, sizeof(reply)));
	close(fd);
	harness_end();
}

static uint32_t sum_of(const uint8_t *p, uint32_t len)
{
	uint32_t sum = 0;
	for (uint32_t i = 0; i < len; i++)
		sum = sum * 31 + p[i];
	return sum;
}

/* PUT's arguments at a, with pseudo-random data: their length. */
static size_t put_args(uint8_t *a, uint64_t offset, uint32_t len)
{
	xdr_store64(a, offset);
	xdr_store32(a + 8, len);
	for (uint32_t i = 0; i < len; i++)
		a[12 + i] = (uint8_t)(i * 2654435761u >> 13);
	memset(a + 12 + len, 0, xdr_pad(len));
	return 12 + xdr_padded(len);
}

static void put_check(struct xdr *results, const uint8_t *args, bool apart)
{
	uint32_t at, len, sum;
	bool was_apart;
	cr_assert(xdr_dec_bool(results, &was_apart) && xdr_dec_u32(results, &at) && xdr_dec_u32(results, &len) && xdr_dec_u32(results, &sum));
	cr_assert_eq(len, xdr_load32(args + 8));
	cr_assert_eq(sum, sum_of(args + 12, len), "len %u", len);
	cr_assert_eq(was_apart, apart, "len %u", len);
	if (len > 0)
		cr_assert_eq(at, xdr_load64(args) % PAGE_BYTES, "len %u offset %llu", len, (unsigned long long)xdr_load64(args));
}

/* The payload lies congruent to its offset, whatever part of it came with the header. */
Test(conn, payload_placed) /* 1.4 */
{
	static const uint32_t lens[] = { 1, 2, 3, 4, 100, 511, 4000, 4096, 5000, 47008, 65536, 1 << 20 };
	static const uint64_t offsets[] = { 0, 1, 4095, 4096, 47008, 123456789, UINT64_C(1) << 62 };
	uint8_t *args = malloc(sizeof(mem));
	struct xdr results;
	begin();
	int fd = client_connect();
	for (unsigned i = 0; i < ARRAY_SIZE(lens); i++)
		for (unsigned j = 0; j < ARRAY_SIZE(offsets); j++) {
			size_t len = put_args(args, offsets[j], lens[i]);
			call_once(fd, TEST_PUT, args, len, mem, sizeof(mem), &results);
			put_check(&results, args, true);
		}
	close(fd);
	free(args);
	harness_end();
}

/* In a stream of large payloads only what came with each header read is copied. */
Test(conn, payload_not_copied) /* 1.4 */
{
	enum { CALLS = 64, BYTES = 47008 };
	uint8_t *args = malloc(sizeof(mem)), reply[256];
	begin();
	int fd = client_connect();
	for (uint32_t i = 0; i < CALLS; i++) {
		size_t len = put_args(args, (uint64_t)i * BYTES, BYTES);
		client_send(fd, mem, call_encode(mem, sizeof(mem), i, TEST_PUT, args, len));
	}
	for (uint32_t i = 0; i < CALLS; i++)
		cr_assert(reply_read(fd, reply, sizeof(reply)));
	cr_assert_leq(counter_value("conn.payload_bytes_copied"), 4096 + CALLS * 256);
	close(fd);
	free(args);
	harness_end();
}

/* Payloads that are all there take one receive each, which brings the next one's head along. */
Test(conn, one_receive_per_payload)
{
	enum { CALLS = 8, BYTES = 9000 };
	uint8_t *args = malloc(sizeof(mem)), reply[256];
	harness_init();
	harness_config.limits.connection_calls_max = 1;
	harness_begin();
	int fd = client_connect();
	size_t len = call_encode(mem, sizeof(mem), 0, TEST_NAP, NULL, 0);
	for (uint32_t i = 1; i <= CALLS; i++) {
		size_t args_len = put_args(args, (uint64_t)i * BYTES, BYTES);
		len += call_encode(mem + len, sizeof(mem) - len, i, TEST_PUT, args, args_len);
	}
	client_send(fd, mem, len);
	harness_wake();
	for (uint32_t i = 0; i <= CALLS; i++)
		cr_assert(reply_read(fd, reply, sizeof(reply)));
	cr_assert_leq(counter_value("conn.receives"), 1 + CALLS + 1, "%ld", (long)counter_value("conn.receives"));
	close(fd);
	free(args);
	harness_end();
}

/* Read one reply to PUT, whose arguments were `args`. */
static void put_answered(int fd, const uint8_t *args, uint32_t xid)
{
	struct reply_body r;
	struct xdr x;
	uint8_t reply[256];
	xdr_init(&x, reply, reply_read(fd, reply, sizeof(reply)));
	cr_assert(rpc_dec_reply(&x, &r));
	cr_assert_eq(r.xid, xid);
	put_check(&x, args, true);
}

/* Two payloads and a small call, sent in two pieces, wherever the cut: what follows a payload is not lost, whether it came with it or later. */
Test(conn, payloads_in_pieces)
{
	enum { BYTES = 600, STEP = 13 };
	uint8_t first[BYTES + 64], second[BYTES + 64], reply[256];
	size_t first_len = put_args(first, 4000, BYTES - 1), second_len = put_args(second, 77777, BYTES);
	begin();
	for (size_t cut = 1;; cut += STEP) {
		int fd = client_connect();
		client_send(fd, mem, call_encode(mem, sizeof(mem), 0, TEST_PUT, first, first_len));
		put_answered(fd, first, 0); /* payloads come: little is read at once */
		size_t len = call_encode(mem, sizeof(mem), 1, TEST_PUT, first, first_len);
		len += call_encode(mem + len, sizeof(mem) - len, 2, TEST_PUT, second, second_len);
		len += call_encode(mem + len, sizeof(mem) - len, 3, TEST_NULL, NULL, 0);
		cut = min_u64(cut, len);
		int64_t seen = counter_value("conn.received_bytes");
		client_send(fd, mem, cut);
		while (counter_value("conn.received_bytes") < seen + (int64_t)cut)
			sched_yield();
		client_send(fd, mem + cut, len - cut);
		put_answered(fd, first, 1);
		put_answered(fd, second, 2);
		cr_assert(reply_read(fd, reply, sizeof(reply)));
		close(fd);
		if (cut == len)
			break;
	}
	harness_end();
}

/* A payload that comes slowly is waited for as a whole: it, and the next ones, take a wake-up or two each, whatever they arrive in. */
Test(conn, slow_payloads_are_received_whole)
{
	enum { CALLS = 10, BYTES = 40000, PIECE = 1000 };
	uint8_t *args = malloc(sizeof(mem));
	begin();
	int fd = client_connect();
	for (uint32_t i = 0; i < CALLS; i++) {
		size_t args_len = put_args(args, (uint64_t)i * BYTES, BYTES);
		size_t len = call_encode(mem, sizeof(mem), i, TEST_PUT, args, args_len);
		for (size_t at = 0; at < len; at += PIECE)
			client_send(fd, mem + at, min_u64(PIECE, len - at));
		put_answered(fd, args, i);
	}
	cr_assert_leq(counter_value("conn.receives"), 3 * CALLS + 2);
	close(fd);
	free(args);
	harness_end();
}

/* Small records, payloads and records of several fragments, one byte at a time. */
Test(conn, bytewise)
{
	uint8_t args[512], reply[256];
	struct reply_body r;
	struct xdr x;
	size_t len, args_len = put_args(args, 77, 300);
	begin();
	int fd = client_connect();
	len = call_encode(mem, sizeof(mem), 1, TEST_NULL, NULL, 0);
	len += call_encode(mem + len, sizeof(mem) - len, 2, TEST_PUT, args, args_len);
	len += call_encode(mem + len, sizeof(mem) - len, 3, TEST_NULL, NULL, 0);
	for (size_t i = 0; i < len; i++)
		client_send(fd, mem + i, 1);
	for (uint32_t i = 1; i <= 3; i++) {
		xdr_init(&x, reply, reply_read(fd, reply, sizeof(reply)));
		cr_assert(rpc_dec_reply(&x, &r));
		cr_assert_eq(r.xid, i);
		cr_assert_eq(r.accept, SUCCESS);
		if (i == 2)
			put_check(&x, args, true);
	}
	close(fd);
	harness_end();
}

/* The record at `record` (one fragment) in fragments of `piece` bytes with an empty one in between: sent. */
static void send_fragmented(int fd, const uint8_t *record, size_t len, size_t piece)
{
	uint8_t *out = malloc(3 * len + 64), *p = out;
	record += RECORD_MARK_BYTES;
	len -= RECORD_MARK_BYTES;
	xdr_store32(p, 0);
	p += 4;
	for (size_t at = 0; at < len; at += piece) {
		uint32_t n = (uint32_t)min_u64(piece, len - at);
		xdr_store32(p, n | (at + n == len ? RECORD_LAST_FRAGMENT : 0));
		memcpy(p + 4, record + at, n);
		p += 4 + n;
	}
	client_send(fd, out, (size_t)(p - out));
	free(out);
}

Test(conn, fragments)
{
	static const size_t pieces[] = { 7, 40, 100, 1000, 30000 };
	static const uint32_t lens[] = { 0, 1, 200, 4096, 47008 };
	uint8_t *args = malloc(sizeof(mem)), reply[256];
	struct reply_body r;
	struct xdr x;
	begin();
	int fd = client_connect();
	for (unsigned i = 0; i < ARRAY_SIZE(pieces); i++)
		for (unsigned j = 0; j < ARRAY_SIZE(lens); j++) {
			size_t len = put_args(args, 4095, lens[j]);
			len = call_encode(mem, sizeof(mem), i, TEST_PUT, args, len);
			if (len / pieces[i] > 200)
				continue; /* more fragments than are taken */
			send_fragmented(fd, mem, len, pieces[i]);
			xdr_init(&x, reply, reply_read(fd, reply, sizeof(reply)));
			cr_assert(rpc_dec_reply(&x, &r));
			cr_assert_eq(r.accept, SUCCESS);
			bool apart;
			uint32_t at, got, sum;
			cr_assert(xdr_dec_bool(&x, &apart) && xdr_dec_u32(&x, &at) && xdr_dec_u32(&x, &got) && xdr_dec_u32(&x, &sum));
			cr_assert(!apart);
			cr_assert_eq(got, lens[j]);
			cr_assert_eq(sum, sum_of(args + 12, got));
		}
	close(fd);
	free(args);
	harness_end();
}

/* A first fragment that holds the whole head lets a payload in fragments lie where it should. */
Test(conn, fragments_congruent) /* 1.4 */
{
	uint8_t *args = malloc(sizeof(mem)), reply[256];
	struct reply_body r;
	struct xdr x;
	uint32_t at;
	bool apart;
	begin();
	int fd = client_connect();
	size_t len = put_args(args, 47008, 47008);
	len = call_encode(mem, sizeof(mem), 1, TEST_PUT, args, len);
	uint8_t *record = mem + RECORD_MARK_BYTES;
	uint8_t mark[RECORD_MARK_BYTES];
	xdr_store32(mark, 1000);
	client_send(fd, mark, sizeof(mark));
	client_send(fd, record, 1000);
	record_mark_encode(mark, (uint32_t)(len - RECORD_MARK_BYTES - 1000));
	client_send(fd, mark, sizeof(mark));
	client_send(fd, record + 1000, len - RECORD_MARK_BYTES - 1000);
	xdr_init(&x, reply, reply_read(fd, reply, sizeof(reply)));
	cr_assert(rpc_dec_reply(&x, &r));
	cr_assert(xdr_dec_bool(&x, &apart) && xdr_dec_u32(&x, &at));
	cr_assert_eq(at, 47008 % PAGE_BYTES);
	close(fd);
	free(args);
	harness_end();
}

static void bystander_is_served(int fd)
{
	static uint8_t reply[512];
	struct xdr results;
	cr_assert_eq(call_once(fd, TEST_NULL, NULL, 0, reply, sizeof(reply), &results).accept, SUCCESS);
}

/* What makes no sense closes its own connection and no other. */
Test(conn, bad_records)
{
	uint8_t bad[64];
	begin();
	int bystander = client_connect(), fd;

	fd = client_connect(); /* a record longer than the limit */
	xdr_store32(bad, RECORD_LAST_FRAGMENT | 0x7fffffff);
	memset(bad + 4, 0, 60);
	client_send(fd, bad, sizeof(bad));
	cr_assert(client_sees_close(fd));
	close(fd);

	fd = client_connect(); /* the same in fragments: each is small enough */
	uint8_t *mega = calloc(1, 700000);
	xdr_store32(mega, 600000);
	client_send(fd, mega, 600004);
	client_send(fd, mega, 600004);
	cr_assert(client_sees_close(fd));
	free(mega);
	close(fd);

	fd = client_connect(); /* fragments without end */
	memset(mem, 0, 4096);
	client_send(fd, mem, 4096);
	cr_assert(client_sees_close(fd));
	close(fd);

	fd = client_connect(); /* a record without an RPC header */
	xdr_store32(bad, RECORD_LAST_FRAGMENT | 8);
	client_send(fd, bad, 12);
	cr_assert(client_sees_close(fd));
	close(fd);

	fd = client_connect(); /* a REPLY */
	xdr_store32(bad, RECORD_LAST_FRAGMENT | 40);
	xdr_store32(bad + 4, 1);
	xdr_store32(bad + 8, REPLY);
	client_send(fd, bad, 44);
	cr_assert(client_sees_close(fd));
	close(fd);

	fd = client_connect(); /* an empty record */
	xdr_store32(bad, RECORD_LAST_FRAGMENT);
	client_send(fd, bad, 4);
	cr_assert(client_sees_close(fd));
	close(fd);

	bystander_is_served(bystander);
	cr_assert_eq(counter_value("conn.bad_records"), 6);
	close(bystander);
	harness_end();
}

/* Random bytes, many times: nothing but closed connections. */
Test(conn, garbage)
{
	begin();
	int bystander = client_connect();
	unsigned seed = 1;
	for (unsigned i = 0; i < 200; i++) {
		int fd = client_connect();
		for (unsigned j = 0; j < 3000; j++)
			mem[j] = (uint8_t)(rand_r(&seed) >> 7);
		mem[0] = i % 2 != 0 ? 0x80 : 0; /* half of them with a plausible mark */
		mem[1] = 0;
		client_send(fd, mem, 3000);
		close(fd);
	}
	bystander_is_served(bystander);
	close(bystander);
	harness_end();
}

/* A client that asks and does not read: the server stops reading it, keeps a bounded amount for it, and serves others. */
Test(conn, slow_reader)
{
	enum { CALLS = 4000, ANSWER = 65536 };
	uint8_t args[4];
	size_t len = 0;
	harness_init();
	harness_config.limits.connection_bytes_max = 1 << 20;
	harness_config.limits.connection_calls_max = 100;
	harness_begin();
	int bystander = client_connect(), fd = client_connect();
	xdr_store32(args, ANSWER);
	for (uint32_t i = 0; i < CALLS; i++)
		len += call_encode(mem + len, sizeof(mem) - len, i, TEST_BIG, args, sizeof(args));
	ssize_t sent = send(fd, mem, len, MSG_NOSIGNAL | MSG_DONTWAIT);
	cr_assert_gt(sent, 0);
	while (counter_value("conn.paused_in_flight_max") == 0)
		bystander_is_served(bystander);
	bystander_is_served(bystander);
	int64_t calls = counter_value("rpc.calls");
	cr_assert_lt(calls - counter_value("conn.replies"), 100 + 2);
	client_send(fd, mem + sent, 0);
	/* When it reads after all, it gets every answer to what it had sent. */
	size_t whole = (size_t)sent / (len / CALLS);
	for (size_t i = 0; i < whole; i++)
		cr_assert_eq(reply_read(fd, mem, sizeof(mem)), RPC_ACCEPTED_HEADER_BYTES + ANSWER);
	close(fd);
	close(bystander);
	harness_end();
}

/* More calls that wait than there are fibers: they queue, and all are answered. */
Test(conn, fibers_run_out)
{
	enum { CONNS = 8, CALLS = 30 };
	int fd[CONNS];
	uint8_t reply[256];
	harness_init();
	harness_config.reactors = 1;
	harness_config.fibers = 64;
	harness_begin();
	for (unsigned i = 0; i < CONNS; i++) {
		size_t len = 0;
		fd[i] = client_connect();
		for (uint32_t j = 0; j < CALLS; j++)
			len += call_encode(mem + len, sizeof(mem) - len, j, TEST_NAP, NULL, 0);
		client_send(fd[i], mem, len);
	}
	while (counter_value("conn.waits_fiber_slot") == 0)
		usleep(1000);
	harness_wake();
	for (unsigned i = 0; i < CONNS; i++) {
		for (unsigned j = 0; j < CALLS; j++)
			cr_assert(reply_read(fd[i], reply, sizeof(reply)));
		close(fd[i]);
	}
	harness_end();
}

/* The bound on the calls of a reactor: connections take turns. */
Test(conn, reactor_bound) /* 5.10 */
{
	enum { CONNS = 4, CALLS = 100 };
	int fd[CONNS];
	uint8_t reply[256];
	harness_init();
	harness_config.reactors = 1;
	harness_config.limits.reactor_calls_max = 16;
	harness_begin();
	for (unsigned i = 0; i < CONNS; i++) {
		size_t len = 0;
		fd[i] = client_connect();
		for (uint32_t j = 0; j < CALLS; j++)
			len += call_encode(mem + len, sizeof(mem) - len, j, TEST_NAP, NULL, 0);
		client_send(fd[i], mem, len);
	}
	while (counter_value("conn.paused_in_flight_max") == 0)
		usleep(1000);
	harness_wake();
	for (unsigned i = 0; i < CONNS; i++) {
		for (unsigned j = 0; j < CALLS; j++)
			cr_assert(reply_read(fd[i], reply, sizeof(reply)));
		close(fd[i]);
	}
	harness_end();
}

/* Payloads that are all there are answered together, though each is received by itself. The others' NAPs keep the socket from being read before it is full. */
Test(conn, replies_to_payloads_gather)
{
	enum { NAPS = 20, CALLS = 48, BYTES = 1800 };
	uint8_t args[BYTES + 64];
	size_t len = 0, args_len = put_args(args, 5, BYTES);
	harness_init();
	harness_config.reactors = 1;
	harness_config.limits.reactor_calls_max = 16; /* and a reserve of 4 */
	harness_begin();
	int sleeper = client_connect(), other = client_connect(), fd = client_connect();
	for (uint32_t i = 0; i < NAPS; i++) {
		client_send(i < 16 ? sleeper : other, mem, call_encode(mem, sizeof(mem), i, TEST_NAP, NULL, 0));
		while (counter_value("rpc.calls") < i + 1)
			sched_yield();
		if (i >= 16) /* of the reserve, each connection with nothing in progress gets one */
			other = client_connect();
	}
	for (uint32_t i = 0; i < CALLS; i++)
		len += call_encode(mem + len, sizeof(mem) - len, i, TEST_PUT, args, args_len);
	client_send(fd, mem, len);
	cr_assert_eq(counter_value("rpc.calls"), NAPS);
	harness_wake();
	for (uint32_t i = 0; i < CALLS; i++)
		put_answered(fd, args, i);
	cr_assert_leq(counter_value("conn.sends"), NAPS + CALLS / 16 + 4, "%ld", (long)counter_value("conn.sends"));
	close(fd);
	close(sleeper);
	harness_end();
}

/* A record that is as large as the bound on bytes: it is let in when nothing else is in progress, instead of waiting for ever. */
Test(conn, record_at_bytes_bound)
{
	uint8_t *args = malloc(sizeof(mem));
	struct xdr results;
	harness_init();
	harness_config.limits.connection_bytes_max = 1 << 20;
	harness_begin();
	int fd = client_connect();
	for (unsigned i = 0; i < 3; i++) {
		size_t len = put_args(args, 100, 1 << 20);
		call_once(fd, TEST_PUT, args, len, mem, sizeof(mem), &results);
		put_check(&results, args, true);
	}
	close(fd);
	free(args);
	harness_end();
}

/* Clients that do not read use up the reactor's calls; one that has nothing in progress is served all the same. */
Test(conn, reserve)
{
	enum { CONNS = 6, CALLS = 20 };
	int fd[CONNS];
	uint8_t args[4];
	harness_init();
	harness_config.reactors = 1;
	harness_config.limits.reactor_calls_max = 16;
	harness_begin();
	int bystander = client_connect();
	xdr_store32(args, 1 << 20);
	for (unsigned i = 0; i < CONNS; i++) {
		size_t len = 0;
		fd[i] = client_connect();
		for (uint32_t j = 0; j < CALLS; j++)
			len += call_encode(mem + len, sizeof(mem) - len, j, TEST_BIG, args, sizeof(args));
		client_send(fd[i], mem, len);
		if (i == 2)
			while (counter_value("conn.paused_in_flight_max") == 0)
				usleep(1000);
		if (i == 2)
			bystander_is_served(bystander);
	}
	for (unsigned i = 0; i < CONNS; i++)
		close(fd[i]);
	bystander_is_served(bystander);
	close(bystander);
	harness_end();
}

/* Clients that do not take large replies leave half the memory to the others. */
Test(conn, memory_of_slow_readers)
{
	enum { CONNS = 4, CALLS = 12 };
	uint8_t *args = malloc(sizeof(mem));
	struct xdr results;
	int fd[CONNS];
	harness_init();
	harness_config.reactors = 1;
	harness_config.limits.memory_bytes_max = 16 << 20;
	harness_begin();
	xdr_store32(args, 1 << 20);
	for (unsigned i = 0; i < CONNS; i++) {
		size_t len = 0;
		fd[i] = client_connect();
		for (uint32_t j = 0; j < CALLS; j++)
			len += call_encode(mem + len, sizeof(mem) - len, j, TEST_BIG, args, 4);
		client_send(fd[i], mem, len);
	}
	while (counter_value("conn.paused_in_flight_max") < CONNS)
		usleep(1000);
	int bystander = client_connect();
	size_t len = put_args(args, 100, 1 << 20);
	call_once(bystander, TEST_PUT, args, len, mem, sizeof(mem), &results);
	put_check(&results, args, true);
	cr_assert_eq(counter_value("conn.waits_memory"), 0);
	cr_assert_eq(counter_value("rpc.system_errors"), 0);
	close(bystander);
	for (unsigned i = 0; i < CONNS; i++)
		close(fd[i]);
	free(args);
	harness_end();
}

enum { STRESS_CONNS = 16, STRESS_CALLS = 300 };

static void *stress_reader(void *arg)
{
	uint8_t *reply = malloc(1 << 20);
	for (unsigned i = 0; i < STRESS_CALLS; i++)
		cr_assert(reply_read(*(int *)arg, reply, 1 << 20));
	free(reply);
	return NULL;
}

static void *stress_writer(void *arg)
{
	uint8_t *args = malloc(1 << 18), *call = malloc(1 << 18);
	unsigned seed = (unsigned)*(int *)arg;
	for (uint32_t i = 0; i < STRESS_CALLS; i++) {
		unsigned what = (unsigned)rand_r(&seed) % 4;
		size_t len = 0;
		if (what == 0) {
			call_encode(call, 1 << 18, i, TEST_NULL, NULL, 0);
		} else if (what == 1) {
			len = put_args(args, (uint64_t)rand_r(&seed), (uint32_t)rand_r(&seed) % 100000);
		} else {
			xdr_store32(args, (uint32_t)rand_r(&seed) % 2000);
			xdr_store32(args + 4, (uint32_t)rand_r(&seed) % (what == 2 ? 100 : 200000));
			len = 8;
		}
		client_send(*(int *)arg, call, call_encode(call, 1 << 18, i, what == 0 ? TEST_NULL : what == 1 ? TEST_PUT : TEST_REST, args, len));
	}
	free(args);
	free(call);
	return NULL;
}

/* Everything at once with every bound near: nothing is lost, nothing stands still. */
Test(conn, stress)
{
	pthread_t reader[STRESS_CONNS], writer[STRESS_CONNS];
	int fd[STRESS_CONNS];
	harness_init();
	harness_config.reactors = 1;
	harness_config.fibers = 64;
	harness_config.limits.reactor_calls_max = 50;
	harness_config.limits.connection_calls_max = 20;
	harness_config.limits.connection_bytes_max = 1 << 20;
	harness_config.limits.memory_bytes_max = 16 << 20;
	harness_begin();
	for (unsigned i = 0; i < STRESS_CONNS; i++) {
		fd[i] = client_connect();
		pthread_create(&reader[i], NULL, stress_reader, &fd[i]);
		pthread_create(&writer[i], NULL, stress_writer, &fd[i]);
	}
	for (unsigned i = 0; i < STRESS_CONNS; i++) {
		pthread_join(writer[i], NULL);
		pthread_join(reader[i], NULL);
		close(fd[i]);
	}
	cr_assert_gt(counter_value("conn.paused_in_flight_max"), 0);
	harness_end();
}

/* Announced payloads that never come hold all the memory; when their clients go, the one that waited is served. */
Test(conn, memory_runs_out) /* 5.10 */
{
	enum { HOGS = 40 };
	int hog[HOGS];
	uint8_t *args = malloc(sizeof(mem));
	struct xdr results;
	harness_init();
	harness_config.limits.memory_bytes_max = 16 << 20;
	harness_begin();
	size_t len = put_args(args, 0, 1 << 20);
	call_encode(mem, sizeof(mem), 1, TEST_PUT, args, len);
	for (unsigned i = 0; i < HOGS; i++) {
		hog[i] = client_connect();
		client_send(hog[i], mem, 200);
	}
	while (counter_value("conn.waits_memory") == 0)
		usleep(1000);
	for (unsigned i = 0; i < HOGS; i++)
		close(hog[i]);
	int fd = client_connect();
	call_once(fd, TEST_PUT, args, len, mem, sizeof(mem), &results);
	put_check(&results, args, true);
	close(fd);
	free(args);
	harness_end();
}

/* Records that are announced and not sent cannot keep the memory from the others for long. */
Test(conn, memory_of_half_received_records)
{
	enum { HOGS = 40 };
	uint8_t *args = malloc(sizeof(mem));
	struct xdr results;
	int hog[HOGS];
	harness_init();
	harness_config.reactors = 2;
	harness_config.limits.memory_bytes_max = 16 << 20;
	harness_begin();
	size_t len = put_args(args, 100, 1 << 20);
	call_encode(mem, sizeof(mem), 1, TEST_PUT, args, len);
	for (unsigned i = 0; i < HOGS; i++) {
		hog[i] = client_connect();
		client_send(hog[i], mem, 5000);
	}
	while (counter_value("conn.waits_memory") == 0)
		usleep(1000);
	int fd = client_connect();
	call_once(fd, TEST_PUT, args, len, mem, sizeof(mem), &results);
	put_check(&results, args, true);
	cr_assert_gt(counter_value("conn.closed_stuck"), 0);
	close(fd);
	for (unsigned i = 0; i < HOGS; i++)
		close(hog[i]);
	free(args);
	harness_end();
}

Test(conn, timeouts)
{
	harness_init();
	harness_config.limits.idle_timeout_s = 1;
	harness_config.limits.record_timeout_s = 1;
	harness_begin();
	int idle = client_connect(), half = client_connect();
	client_send(half, "\x80\x00\x00", 3);
	cr_assert(client_sees_close(idle));
	cr_assert(client_sees_close(half));
	cr_assert_eq(counter_value("conn.closed_idle"), 1);
	cr_assert_eq(counter_value("conn.closed_stuck"), 1);
	close(idle);
	close(half);
	harness_end();
}

static int connect_small_window(void)
{
	int fd = client_connect(), small = 65536;
	cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
	return fd;
}

/* Who takes a batch of replies slowly, but takes it, is served however long that lasts; who takes nothing is closed. */
Test(conn, timeout_of_sends)
{
	enum { CALLS = 15, ANSWER = 1 << 20, STEP = 128 << 10, STEP_US = 40000 };
	const size_t all = CALLS * (size_t)(RECORD_MARK_BYTES + RPC_ACCEPTED_HEADER_BYTES + ANSWER);
	uint8_t args[4];
	size_t len = 0, taken = 0;
	harness_init();
	harness_config.limits.record_timeout_s = 1;
	harness_begin();
	int slow = connect_small_window(), stuck = connect_small_window();
	xdr_store32(args, ANSWER);
	for (uint32_t i = 0; i < CALLS; i++)
		len += call_encode(mem + len, sizeof(mem) - len, i, TEST_BIG, args, sizeof(args));
	client_send(slow, mem, len);
	client_send(stuck, mem, len);
	for (; taken < all; taken += min_u64(STEP, all - taken)) {
		cr_assert(client_read(slow, mem, min_u64(STEP, all - taken)));
		usleep(STEP_US);
	}
	cr_assert_eq(counter_value("conn.closed_stuck"), 1);
	bystander_is_served(slow);
	close(slow);
	close(stuck);
	harness_end();
}

Test(conn, connections_max)
{
	harness_init();
	harness_config.limits.connections_max = 2;
	harness_begin();
	int a = client_connect(), b = client_connect();
	bystander_is_served(a);
	bystander_is_served(b);
	int c = client_connect();
	cr_assert(client_sees_close(c));
	cr_assert_eq(counter_value("conn.refused_connections_max"), 1);
	bystander_is_served(a);
	close(a);
	close(b);
	close(c);
	harness_end();
}

/* The server's end of this connection: it answered a call, or closed. */
static bool is_served(int fd)
{
	uint8_t reply[256];
	client_send(fd, mem, call_encode(mem, sizeof(mem), 9, TEST_NULL, NULL, 0));
	return reply_read(fd, reply, sizeof(reply)) > 0;
}

/*
 * Without descriptors new clients are turned away, the server does not spin, and accepts again when there are some. The ring takes the limit when an accept
 * is queued, so the first of the clients may still be let in.
 */
Test(conn, no_descriptors)
{
	struct rlimit old, low;
	struct sockaddr_storage name;
	socklen_t len = sizeof(name);
	begin();
	int bystander = client_connect();
	bystander_is_served(bystander);
	int victim[2] = { socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) };
	int probe = dup(bystander);
	close(probe);
	cr_assert_eq(getpeername(bystander, (struct sockaddr *)&name, &len), 0);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
	/* The lowest free descriptor is beyond the limit. */
	low = (struct rlimit){ .rlim_cur = (rlim_t)probe, .rlim_max = old.rlim_max };
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
	bool turned_away = false;
	for (unsigned i = 0; i < 2; i++) {
		cr_assert_eq(connect(victim[i], (struct sockaddr *)&name, len), 0);
		turned_away |= !is_served(victim[i]);
	}
	cr_assert(turned_away);
	bystander_is_served(bystander);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
	int again = client_connect();
	bystander_is_served(again);
	cr_assert_geq(counter_value("listener.pauses_no_descriptors"), 1);
	cr_assert_lt(counter_value("listener.pauses_no_descriptors"), 100);
	close(again);
	close(victim[0]);
	close(victim[1]);
	close(bystander);
	harness_end();
}

/* The stop waits for calls in progress and sends their replies. */
Test(conn, stop_finishes)
{
	uint8_t reply[256];
	begin();
	int fd = client_connect(), idle = client_connect();
	client_send(fd, mem, call_encode(mem, sizeof(mem), 5, TEST_NAP, NULL, 0));
	while (counter_value("rpc.calls") == 0)
		usleep(1000);
	harness_wake();
	harness_end();
	cr_assert_eq(reply_read(fd, reply, sizeof(reply)), RPC_ACCEPTED_HEADER_BYTES);
	cr_assert(client_sees_close(fd));
	cr_assert(client_sees_close(idle));
	close(fd);
	close(idle);
}

/* Any address means both families, on one port. */
Test(conn, both_families)
{
	struct sockaddr_in6 a = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	harness_init();
	free(harness_config.bind[0].text);
	harness_config.binds = 0;
	harness_begin();
	int v4 = client_connect(), v6 = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bystander_is_served(v4);
	a.sin6_port = htons((uint16_t)server_port());
	bool no_v6 = v6 < 0 || connect(v6, (struct sockaddr *)&a, sizeof(a)) != 0;
	if (!no_v6)
		bystander_is_served(v6);
	close(v6);
	close(v4);
	harness_end();
	if (no_v6)
		cr_skip_test("no IPv6 on this machine");
}

/* A client that does not read its answers holds up the stop for some seconds only. */
Test(conn, stop_with_stuck_client)
{
	uint8_t args[4];
	size_t len = 0;
	begin();
	int fd = client_connect();
	xdr_store32(args, 1 << 20);
	for (uint32_t i = 0; i < 32; i++)
		len += call_encode(mem + len, sizeof(mem) - len, i, TEST_BIG, args, sizeof(args));
	client_send(fd, mem, len);
	while (counter_value("conn.paused_in_flight_max") == 0)
		usleep(1000);
	harness_end();
	cr_assert_eq(counter_value("conn.closed_stuck"), 1);
	close(fd);
}

/* Connections come and go, some in the middle of a record or with answers on the way. */
Test(conn, churn)
{
	uint8_t args[4], *put = malloc(sizeof(mem));
	xdr_store32(args, 100000);
	begin();
	for (unsigned i = 0; i < 500; i++) {
		int fd = client_connect();
		size_t len;
		if (i % 3 == 0)
			len = call_encode(mem, sizeof(mem), i, TEST_BIG, args, sizeof(args));
		else
			len = call_encode(mem, sizeof(mem), i, TEST_PUT, put, put_args(put, i, 20000)) - (i % 3 == 1 ? 10000 : 0);
		client_send(fd, mem, len);
		close(fd);
	}
	int fd = client_connect();
	bystander_is_served(fd);
	close(fd);
	free(put);
	harness_end();
}
