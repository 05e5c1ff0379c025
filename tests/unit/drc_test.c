/* tests/unit/drc_test.c - server/drc.c: a retransmission is answered, not run again. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <unistd.h>

#include "proto/record.h"
#include "runtime/counter.h"
#include "tests/unit/server_harness.h"

static uint8_t mem[65536];

TestSuite(drc, .timeout = 60);

/* COUNT with this xid and argument over a connection of its own: what it answered. */
static uint32_t count(uint32_t xid, const void *args, size_t args_len)
{
	struct reply_body r;
	struct xdr x;
	uint32_t n;
	int fd = client_connect();
	client_send(fd, mem, call_encode(mem, sizeof(mem), xid, TEST_COUNT, args, args_len));
	xdr_init(&x, mem, reply_read(fd, mem, sizeof(mem)));
	cr_assert(rpc_dec_reply(&x, &r));
	cr_assert_eq(r.xid, xid);
	cr_assert_eq(r.accept, SUCCESS);
	cr_assert(xdr_dec_u32(&x, &n));
	cr_assert(xdr_is_done(&x));
	close(fd);
	return n;
}

/* Over another connection, and so perhaps another reactor, too. */
Test(drc, replay)
{
	harness_init();
	harness_begin();
	uint32_t first = count(1, "abcd", 4);
	for (unsigned i = 0; i < 4; i++)
		cr_assert_eq(count(1, "abcd", 4), first);
	cr_assert_eq(counter_value("drc.replays"), 4);
	harness_end();
}

/* The same xid of a client that was restarted: other arguments, another call. */
Test(drc, other_call)
{
	uint8_t args[1024] = { 0 };
	harness_init();
	harness_begin();
	uint32_t n = count(1, "abcd", 4);
	cr_assert_eq(count(1, "abce", 4), n + 1);
	cr_assert_eq(count(1, "abcd\0\0\0\0", 8), n + 2);
	cr_assert_eq(count(2, "abcd", 4), n + 3);
	cr_assert_eq(count(1, args, 1024), n + 4);
	args[100] = 1;
	cr_assert_eq(count(1, args, 1024), n + 5);
	cr_assert_eq(count(1, "abcd", 4), n);
	harness_end();
}

/* Many at once: each runs once, none twice; the oldest go at the bounds. */
Test(drc, bounded)
{
	harness_init();
	harness_config.limits.drc_entries_max = 16;
	harness_begin();
	uint32_t first = count(1, NULL, 0);
	for (uint32_t xid = 2; xid <= 17; xid++)
		cr_assert_eq(count(xid, NULL, 0), first + xid - 1);
	cr_assert_eq(counter_value("drc.evictions"), 1);
	cr_assert_eq(count(17, NULL, 0), first + 16, "the youngest is still there");
	cr_assert_eq(count(1, NULL, 0), first + 17, "the oldest is not");
	harness_end();
}

Test(drc, bytes_bounded)
{
	harness_init();
	harness_config.limits.drc_bytes_max = 10 * 28; /* COUNT's reply is 28 bytes */
	harness_begin();
	for (uint32_t xid = 1; xid <= 100; xid++)
		count(xid, NULL, 0);
	cr_assert_eq(counter_value("drc.evictions"), 90);
	harness_end();
}

/* A retransmission that comes while the first is being run is dropped: one answer. */
Test(drc, in_progress)
{
	uint8_t reply[256];
	size_t len;
	harness_init();
	harness_begin();
	int fd = client_connect();
	len = call_encode(mem, sizeof(mem), 5, TEST_NAP_ONCE, NULL, 0);
	len += call_encode(mem + len, sizeof(mem) - len, 5, TEST_NAP_ONCE, NULL, 0);
	client_send(fd, mem, len);
	while (counter_value("drc.in_progress_drops") == 0)
		usleep(1000);
	harness_wake();
	cr_assert(reply_read(fd, reply, sizeof(reply)));
	len = call_encode(mem, sizeof(mem), 6, TEST_NULL, NULL, 0);
	client_send(fd, mem, len);
	cr_assert(reply_read(fd, reply, sizeof(reply)));
	cr_assert_eq(xdr_load32(reply), 6);
	close(fd);
	harness_end();
}
