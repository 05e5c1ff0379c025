/*
 * tests/bench/fiber_bench.c - what the runtime costs: a switch, a spawn, a round trip, a batched call, a trip to the pool.
 *
 * The batched call stands for NFS's NULL: a client thread keeps DEPTH small requests in flight on each of CONNECTIONS loopback connections; the server
 * takes what one receive brought, spawns a fiber per request, gathers the replies and sends them from the end-of-batch hook. Costs are CPU time of the
 * reactor's thread. Not a test: it is built by `make check` and run by hand.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base.h"
#include "runtime/counter.h"
#include "runtime/fiber.h"
#include "runtime/io.h"
#include "runtime/pool.h"
#include "runtime/reactor.h"

enum { FIBERS = 256, SWITCHES = 4000000, SPAWNS = 2000000, ROUND_TRIPS = 100000, POOL_TRIPS = 20000, CONNECTIONS = 4, DEPTH = 16, CALLS = 1000000, CALL_BYTES = 40 };

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void say(const char *what, uint64_t ns, unsigned n)
{
	printf("%-44s %8.1f ns\n", what, (double)ns / n);
}

static void spawn(fiber_main *fn, void *arg)
{
	int err = fiber_spawn(fn, arg, "bench");

	ASSERT(err == 0);
}

/* Switches: fibers that wake each other, so that no turn of the loop is in it but each 256th. */

static struct fiber *pair[2];

static void wait_first(void *arg)
{
	pair[0] = fiber_self();
	for (unsigned i = 0; i < SWITCHES / 2; i++) {
		fiber_park("bench", NULL);
		fiber_unpark(pair[1]);
	}
}

static void wake_first(void *arg)
{
	pair[1] = fiber_self();
	for (unsigned i = 0; i < SWITCHES / 2; i++) {
		fiber_unpark(pair[0]);
		fiber_park("bench", NULL);
	}
}

static void bench_switch(void)
{
	uint64_t began = cpu_ns();

	spawn(wait_first, NULL);
	spawn(wake_first, NULL);
	while (fiber_slots_free() < FIBERS - 1)
		fiber_yield();
	say("wake and switch to a parked fiber", cpu_ns() - began, SWITCHES);
}

static void nothing(void *arg)
{
}

static void bench_spawn(void)
{
	uint64_t began = cpu_ns();

	for (unsigned i = 0; i < SPAWNS; i++)
		while (fiber_spawn(nothing, NULL, "nothing"))
			fiber_yield();
	say("spawn, run and end a fiber", cpu_ns() - began, SPAWNS);
}

/* One request at a time through a socketpair, both ends on this reactor. */

static ssize_t transfer(ssize_t (*move)(int, struct msghdr *, unsigned), int fd, void *mem, size_t len)
{
	struct iovec iov = { mem, len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	return move(fd, &msg, 0);
}

static void echo(void *arg)
{
	int fd = (intptr_t)arg;
	char mem[CALL_BYTES];

	while (transfer(io_recvmsg, fd, mem, sizeof(mem)) > 0)
		transfer(io_sendmsg, fd, mem, sizeof(mem));
	io_close(fd);
}

static void bench_round_trip(void)
{
	char mem[CALL_BYTES] = { 0 };
	uint64_t began, enters;
	int fds[2];

	ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
	spawn(echo, (void *)(intptr_t)fds[1]);
	began = cpu_ns();
	enters = counter_value("runtime.ring.enters");
	for (unsigned i = 0; i < ROUND_TRIPS; i++) {
		transfer(io_sendmsg, fds[0], mem, sizeof(mem));
		transfer(io_recvmsg, fds[0], mem, sizeof(mem));
	}
	say("socketpair ping-pong, both ends, 4 operations", cpu_ns() - began, ROUND_TRIPS);
	printf("%-44s %8.2f\n", "  ring enters per ping-pong", (double)(counter_value("runtime.ring.enters") - enters) / ROUND_TRIPS);
	io_close(fds[0]);
}

static void bench_pool(void)
{
	uint64_t began = cpu_ns();

	for (unsigned i = 0; i < POOL_TRIPS; i++)
		pool_run(nothing, NULL, NULL);
	say("trip to the pool, reactor's side", cpu_ns() - began, POOL_TRIPS);
}

/* Batched calls over loopback TCP. */

struct connection {
	int fd;
	unsigned gathered; /* bytes of replies */
	char out[DEPTH * CALL_BYTES];
	struct iovec iov;
	struct msghdr msg;
	struct io_op send;
	bool sending;
	struct reactor_hook hook;
};

static unsigned connections_open;
static struct fiber *batch_waiter;

static void send_gathered(struct reactor_hook *hook)
{
	struct connection *c = container_of(hook, struct connection, hook);

	if (c->sending || !c->gathered)
		return;
	c->sending = true;
	c->iov = (struct iovec){ c->out, c->gathered };
	c->gathered = 0;
	c->msg = (struct msghdr){ .msg_iov = &c->iov, .msg_iovlen = 1 };
	io_submit(&c->send);
}

static void sent(struct io_op *op)
{
	struct connection *c = op->arg;

	ASSERT(op->res == (ssize_t)c->iov.iov_len);
	c->sending = false;
	reactor_at_batch_end(&c->hook);
}

static void call(void *arg)
{
	struct connection *c = arg;

	ASSERT(c->gathered + CALL_BYTES <= sizeof(c->out));
	memset(c->out + c->gathered, 1, CALL_BYTES);
	c->gathered += CALL_BYTES;
	reactor_at_batch_end(&c->hook);
}

static void serve(void *arg)
{
	struct connection c = { .fd = (intptr_t)arg, .hook.fn = send_gathered, .send = { .code = IO_SENDMSG, .fd = (intptr_t)arg, .done = sent } };
	char in[4096];
	unsigned have = 0;
	ssize_t got;

	c.send.arg = &c;
	c.send.msg = &c.msg;
	while ((got = transfer(io_recvmsg, c.fd, in, sizeof(in))) > 0)
		for (have += got; have >= CALL_BYTES; have -= CALL_BYTES)
			spawn(call, &c);
	io_close(c.fd);
	if (--connections_open == 0)
		fiber_unpark(batch_waiter);
}

static void *client(void *arg)
{
	const int *fds = arg;
	char mem[DEPTH * CALL_BYTES] = { 0 };
	unsigned left = CALLS;

	for (unsigned i = 0; i < CONNECTIONS; i++)
		ASSERT(send(fds[i], mem, sizeof(mem), MSG_NOSIGNAL) == sizeof(mem));
	for (unsigned i = 0; left > CONNECTIONS * DEPTH; i = (i + 1) % CONNECTIONS) {
		ASSERT(recv(fds[i], mem, sizeof(mem), MSG_WAITALL) == sizeof(mem));
		ASSERT(send(fds[i], mem, sizeof(mem), MSG_NOSIGNAL) == sizeof(mem));
		left -= DEPTH;
	}
	for (unsigned i = 0; i < CONNECTIONS; i++) {
		ASSERT(recv(fds[i], mem, sizeof(mem), MSG_WAITALL) == sizeof(mem));
		close(fds[i]);
	}
	return NULL;
}

static int connect_pair(int *server)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(addr);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	ASSERT(bind(listener, (struct sockaddr *)&addr, len) == 0 && listen(listener, 1) == 0);
	ASSERT(getsockname(listener, (struct sockaddr *)&addr, &len) == 0);
	ASSERT(connect(fd, (struct sockaddr *)&addr, len) == 0);
	*server = accept(listener, NULL, NULL);
	close(listener);
	return fd;
}

struct batch {
	int clients[CONNECTIONS];
	pthread_t thread;
};

/* A fiber of its own, the last in the queue: the client begins when the servers wait to receive and bench_batch() for the end, as tests/gdb wants to see. */
static void begin_client(void *arg)
{
	struct batch *b = arg;

	ASSERT(pthread_create(&b->thread, NULL, client, b->clients) == 0);
}

static void bench_batch(void)
{
	struct batch b;
	uint64_t began, enters;
	int fd;

	for (unsigned i = 0; i < CONNECTIONS; i++) {
		b.clients[i] = connect_pair(&fd);
		spawn(serve, (void *)(intptr_t)fd);
	}
	connections_open = CONNECTIONS;
	batch_waiter = fiber_self();
	began = cpu_ns();
	enters = counter_value("runtime.ring.enters");
	spawn(begin_client, &b);
	fiber_park("bench", NULL);
	say("small call, TCP, 4 connections x 16 deep", cpu_ns() - began, CALLS);
	printf("%-44s %8.3f\n", "  ring enters per call", (double)(counter_value("runtime.ring.enters") - enters) / CALLS);
	pthread_join(b.thread, NULL);
}

static void start(void *arg, unsigned index)
{
	bench_switch();
	bench_spawn();
	bench_round_trip();
	bench_pool();
	bench_batch();
	runtime_stop();
}

int main(int argc, char **argv)
{
	const struct reactor_config config = { .reactors = 1, .fibers = FIBERS, .no_features = argc > 1 ? atoi(argv[1]) : 0 };
	int err = runtime_init(&config);

	if (!err)
		err = runtime_run(start, NULL);
	if (err) {
		fprintf(stderr, "cannot run: %s\n", strerror(-err));
		return 1;
	}
	runtime_fini();
	return 0;
}
