/* tests/unit/server_harness.c - see the header. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/buf.h"
#include "runtime/counter.h"
#include "runtime/fiber.h"
#include "runtime/reactor.h"
#include "server/call.h"
#include "server/conn.h"
#include "server/drc.h"
#include "server/reply.h"
#include "server/server.h"
#include "tests/unit/server_harness.h"

struct server_config harness_config;

static pthread_t thread;
static _Atomic bool awake;
static _Atomic uint32_t counted;

static enum call_outcome test_null(struct rpc_call *call) { return CALL_DONE; }

static bool test_put_head(struct xdr *x, uint64_t *offset, uint32_t *len)
{
	struct xdr_bytes data;
	bool ok = xdr_dec_u64(x, offset) && xdr_dec_bytes_len(x, &data, 1 << 20);
	*len = ok ? data.len : 0;
	return ok;
}

/* Answers: received apart?, address % PAGE_BYTES, length, sum. */
static enum call_outcome test_put(struct rpc_call *call)
{
	struct xdr_bytes data;
	uint64_t offset;
	uint32_t sum = 0;
	if (!xdr_dec_u64(&call->args, &offset))
		return CALL_GARBAGE;
	if (call->payload.buf != NULL)
		data = xdr_bytes_of(call->payload.data, call->payload.len);
	else if (!xdr_dec_bytes(&call->args, &data, 1 << 20))
		return CALL_GARBAGE;
	for (uint32_t i = 0; i < data.len; i++)
		sum = sum * 31 + data.ptr[i];
	struct xdr_out *x = &call->reply->out;
	bool ok = xdr_enc_bool(x, call->payload.buf != NULL) && xdr_enc_u32(x, (uint32_t)((uintptr_t)data.ptr % PAGE_BYTES)) &&
		  xdr_enc_u32(x, data.len) && xdr_enc_u32(x, sum);
	return ok ? CALL_DONE : CALL_SYSTEM_ERR;
}

static enum call_outcome test_nap(struct rpc_call *call)
{
	while (!awake)
		fiber_sleep_ns(1000000);
	return CALL_DONE;
}

static enum call_outcome test_big(struct rpc_call *call)
{
	uint32_t len;
	if (!xdr_dec_u32(&call->args, &len) || len > 1 << 20)
		return CALL_GARBAGE;
	if (!reply_reserve(call->reply, len + 64))
		return CALL_SYSTEM_ERR;
	uint8_t *at = xdr_out_reserve(&call->reply->out, len);
	memset(at, 0x5a, len);
	return CALL_DONE;
}

static enum call_outcome test_rest(struct rpc_call *call)
{
	uint32_t us;
	if (!xdr_dec_u32(&call->args, &us))
		return CALL_GARBAGE;
	fiber_sleep_ns(us * UINT64_C(1000));
	return test_big(call);
}

static enum call_outcome test_count(struct rpc_call *call)
{
	return xdr_enc_u32(&call->reply->out, ++counted) ? CALL_DONE : CALL_SYSTEM_ERR;
}

static const struct rpc_procedure procedures[TEST_PROCEDURES] = {
	[TEST_NULL] = { "NULL", test_null, 0, NULL },
	[TEST_PUT] = { "PUT", test_put, 0, test_put_head },
	[TEST_NAP] = { "NAP", test_nap, 0, NULL },
	[TEST_BIG] = { "BIG", test_big, 0, NULL },
	[TEST_NAP_ONCE] = { "NAP_ONCE", test_nap, PROC_NOT_IDEMPOTENT, NULL },
	[TEST_REST] = { "REST", test_rest, 0, NULL },
	[TEST_COUNT] = { "COUNT", test_count, PROC_NOT_IDEMPOTENT, NULL },
};
static const struct rpc_version versions[] = { { TEST_V2, TEST_PROCEDURES, procedures }, { TEST_V4, 1, procedures } };
static const struct rpc_program program = { TEST_PROGRAM, ARRAY_SIZE(versions), versions };
static const struct rpc_program *const programs[] = { &program, NULL };

void harness_init(void)
{
	config_init(&harness_config);
	cr_assert_eq(config_bind_add(&harness_config, "127.0.0.1", NULL, 0), 0);
	harness_config.port = 0;
	harness_config.reactors = 2;
	harness_config.fibers = 128;
	harness_config.pool_threads = 2;
}

static void *server_thread(void *arg)
{
	cr_assert_eq(server_run(NULL, NULL), 0);
	return NULL;
}

void harness_begin(void)
{
	struct reactor_config rc = {
		.reactors = (unsigned)harness_config.reactors, .fibers = (unsigned)harness_config.fibers, .pool_threads = 2,
		.linger_us = (unsigned)harness_config.linger_us,
	};
	char err[256] = "";
	log_set_level(LOG_LEVEL_ERROR);
	cr_assert_eq(runtime_init(&rc), 0);
	cr_assert_eq(buf_init(harness_config.limits.memory_bytes_max), 0);
	drc_init(harness_config.limits.drc_entries_max, harness_config.limits.drc_bytes_max);
	cr_assert_eq(server_init(&harness_config, programs, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(pthread_create(&thread, NULL, server_thread, NULL), 0);
}

void harness_end(void)
{
	server_stop();
	pthread_join(thread, NULL);
	cr_assert_eq(server.connections, 0);
	server_fini();
	drc_fini();
	runtime_fini();
	cr_assert_eq(buf_bytes_in_use(), 0);
	buf_fini();
	config_fini(&harness_config);
}

void harness_wake(void) { awake = true; }

int client_connect(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)server_port()), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct timeval patience = { .tv_sec = 60 };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_geq(fd, 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	cr_assert_eq(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0, "connect: %s", strerror(errno));
	return fd;
}

/* The ring's task work may interrupt a system call of this thread, which made the ring. */
static ssize_t receive(int fd, void *mem, size_t len)
{
	ssize_t n;
	do
		n = recv(fd, mem, len, 0);
	while (n < 0 && errno == EINTR);
	return n;
}

void client_send(int fd, const void *mem, size_t len)
{
	const uint8_t *p = mem;
	while (len > 0) {
		ssize_t n = send(fd, p, len, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return; /* the server closed: what the test expects shows when it reads */
		p += n;
		len -= (size_t)n;
	}
}

bool client_read(int fd, void *mem, size_t len)
{
	uint8_t *p = mem;
	while (len > 0) {
		ssize_t n = receive(fd, p, len);
		if (n <= 0)
			return false;
		p += n;
		len -= (size_t)n;
	}
	return true;
}

bool client_sees_close(int fd)
{
	uint8_t byte;
	ssize_t n = receive(fd, &byte, 1);
	return n == 0 || (n < 0 && errno == ECONNRESET);
}

size_t call_encode(uint8_t *mem, size_t room, uint32_t xid, uint32_t proc, const void *args, size_t args_len)
{
	struct call_body c = { .xid = xid, .rpcvers = RPC_VERSION, .prog = TEST_PROGRAM, .vers = TEST_V2, .proc = proc };
	struct xdr_out x;
	xdr_out_init(&x, mem + RECORD_MARK_BYTES, room - RECORD_MARK_BYTES);
	cr_assert(rpc_enc_call(&x, &c));
	if (args_len > 0) {
		uint8_t *at = xdr_out_reserve(&x, args_len);
		cr_assert_not_null(at);
		memcpy(at, args, args_len);
	}
	record_mark_encode(mem, (uint32_t)xdr_out_pos(&x));
	return RECORD_MARK_BYTES + xdr_out_pos(&x);
}

size_t reply_read(int fd, uint8_t *mem, size_t room)
{
	uint8_t mark[RECORD_MARK_BYTES];
	if (!client_read(fd, mark, sizeof(mark)))
		return 0;
	uint32_t len = xdr_load32(mark);
	cr_assert(len & RECORD_LAST_FRAGMENT);
	len &= ~RECORD_LAST_FRAGMENT;
	cr_assert_leq(len, room);
	return client_read(fd, mem, len) ? len : 0;
}

struct reply_body call_once(int fd, uint32_t proc, const void *args, size_t args_len, uint8_t *mem, size_t room, struct xdr *results)
{
	static _Atomic uint32_t xid = 7000;
	struct reply_body r;
	uint32_t my_xid = ++xid;
	size_t len = call_encode(mem, room, my_xid, proc, args, args_len);
	client_send(fd, mem, len);
	len = reply_read(fd, mem, room);
	cr_assert_gt(len, 0, "the server closed the connection");
	xdr_init(results, mem, len);
	cr_assert(rpc_dec_reply(results, &r));
	cr_assert_eq(r.xid, my_xid);
	return r;
}
