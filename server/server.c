/*
 * server/server.c - start, the waits of connections, timeouts, and the orderly end. What belongs to whom: server/server.h.
 *
 * A connection that cannot go on stands on one of three lists of its reactor, in order of arrival:
 *	starved         until a fiber slot is free: tried again whenever one of our fibers ended, and every few milliseconds (others use slots too)
 *	paused          until the reactor's calls or bytes in flight fall below their bound
 *	memory_waiters  until a payload buffer can be had: one fiber per reactor waits on behalf of them all
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/buf.h"
#include "runtime/clock.h"
#include "runtime/counter.h"
#include "runtime/fiber.h"
#include "runtime/log.h"
#include "server/call.h"
#include "server/config.h"
#include "server/conn.h"
#include "server/listener.h"
#include "server/server.h"

static const uint64_t second_ns = UINT64_C(1000000000);
static const uint64_t slot_retry_ns = 2000000;
static const uint64_t memory_retry_ns = 1000000;
static const uint64_t look_period_max_ns = UINT64_C(15000000000);

COUNTER_DEFINE(starved_waits, "conn.waits_fiber_slot");
COUNTER_DEFINE(memory_waits, "conn.waits_memory");

struct server server;
static void (*ready_fn)(void), (*drained_fn)(void);

/* --- waits --- */

static void waits_arm(struct server_reactor *sr);

static void wait_begin(struct conn *c, struct conn_list *list)
{
	ASSERT(c->waits_on == NULL);
	TAILQ_INSERT_TAIL(list, c, wait_link);
	c->waits_on = list;
}

void server_wait_end(struct conn *c)
{
	if (c->waits_on == NULL)
		return;
	TAILQ_REMOVE(c->waits_on, c, wait_link);
	c->waits_on = NULL;
}

/* Wait for the first waiter's buffer, let it go on, then the next. It may be back on the list at once, at its end. */
static void memory_fiber(void *arg)
{
	struct server_reactor *sr = arg;
	struct conn *c;
	while ((c = TAILQ_FIRST(&sr->memory_waiters)) != NULL) {
		(void)buf_wait(c->memory_wanted, clock_mono_ns() + second_ns);
		c = TAILQ_FIRST(&sr->memory_waiters);
		if (c == NULL)
			break;
		conn_get(c);
		server_wait_end(c);
		conn_go_on(c);
		bool again = c->waits_on == &sr->memory_waiters;
		conn_put(c);
		if (again)
			fiber_sleep_ns(memory_retry_ns);
	}
	sr->memory_fiber = false;
	waits_arm(sr);
}

/* Each paused connection once: whom the bound still does not admit is at the end of the list again. */
static void paused_serve(struct server_reactor *sr)
{
	uint64_t max = server.config->limits.reactor_calls_max;
	struct conn *c, *last = TAILQ_LAST(&sr->paused, conn_list);
	bool more = last != NULL;
	while (more && sr->calls_in_flight < max + SERVER_CALLS_RESERVE(max)) {
		c = TAILQ_FIRST(&sr->paused);
		more = c != last;
		server_wait_end(c);
		conn_go_on(c);
	}
}

/* Let go on who can. False: slots are still short. */
static bool waits_serve(struct server_reactor *sr)
{
	struct conn *c;
	paused_serve(sr);
	if (!TAILQ_EMPTY(&sr->memory_waiters) && !sr->memory_fiber) {
		if (fiber_spawn(memory_fiber, sr, "memory for payloads") != 0)
			return false;
		sr->memory_fiber = true;
	}
	while ((c = TAILQ_FIRST(&sr->starved)) != NULL) {
		if (!conn_spawn(c))
			return false;
		server_wait_end(c);
	}
	return true;
}

static void waits_retry(struct server_reactor *sr)
{
	if (!waits_serve(sr))
		timer_arm(&sr->waits_timer, clock_mono_ns() + slot_retry_ns);
}

static void waits_timeout(struct timer *t) { waits_retry(container_of(t, struct server_reactor, waits_timer)); }
static void waits_batch_end(struct reactor_hook *h) { waits_retry(container_of(h, struct server_reactor, waits_hook)); }

/* At the end of the batch: then the slot of a fiber that ends is free, and nobody is called from inside of what he did. */
static void waits_arm(struct server_reactor *sr)
{
	bool any = !TAILQ_EMPTY(&sr->starved) || !TAILQ_EMPTY(&sr->paused) || !TAILQ_EMPTY(&sr->memory_waiters);
	if (any && !sr->waits_hook.armed)
		reactor_at_batch_end(&sr->waits_hook);
}

void server_wait_starved(struct conn *c)
{
	counter_add(&starved_waits, 1);
	wait_begin(c, &c->sr->starved);
	timer_arm(&c->sr->waits_timer, clock_mono_ns() + slot_retry_ns);
}

void server_wait_paused(struct conn *c) { wait_begin(c, &c->sr->paused); }

void server_wait_memory(struct conn *c)
{
	counter_add(&memory_waits, 1);
	wait_begin(c, &c->sr->memory_waiters);
	waits_arm(c->sr);
}

void server_fiber_ends(struct server_reactor *sr) { waits_arm(sr); }

void server_call_ended(struct server_reactor *sr)
{
	ASSERT(sr->calls_in_flight > 0);
	sr->calls_in_flight--;
	waits_arm(sr);
}

/* --- timeouts --- */

bool server_memory_is_short(const struct server_reactor *sr)
{
	return !TAILQ_EMPTY(&sr->memory_waiters) || buf_bytes_in_use() >= server.config->limits.memory_bytes_max / 8 * 7;
}

/* A quarter of the shortest timeout. */
static uint64_t look_period_ns(void)
{
	const struct server_limits *l = &server.config->limits;
	return min_u64(min_u64(l->idle_timeout_s, l->record_timeout_s) * second_ns / 4, look_period_max_ns);
}

static void sweep_arm(struct server_reactor *sr, uint64_t now)
{
	timer_arm(&sr->sweep_timer, now + (sr->stopping ? second_ns : min_u64(look_period_ns(), second_ns)));
}

/*
 * To look at a connection that is idle costs some microseconds, because nothing of it is in the processor's caches any more; so all are looked at as often as
 * their timeouts demand, and each second only when these are short.
 */
static void sweep(struct timer *t)
{
	struct server_reactor *sr = container_of(t, struct server_reactor, sweep_timer);
	struct conn *c, *next;
	uint64_t now = clock_mono_ns();
	sweep_arm(sr, now);
	if (!sr->stopping && !server_memory_is_short(sr) && now < sr->looked_ns + look_period_ns())
		return;
	sr->looked_ns = now;
	TAILQ_FOREACH_SAFE(c, &sr->conns, link, next)
		conn_check_timeouts(c, now);
}

/* --- start and stop --- */

static void calls_init(struct server_reactor *sr, size_t count)
{
	sr->calls = calloc(count, sizeof(*sr->calls));
	ASSERT(sr->calls != NULL);
	for (size_t i = 0; i < count; i++) {
		sr->calls[i].next_free = sr->free_call;
		sr->free_call = &sr->calls[i];
	}
}

static void replies_init(struct server_reactor *sr, size_t count)
{
	sr->replies = calloc(count, sizeof(*sr->replies));
	sr->reads = calloc(count, sizeof(*sr->reads));
	sr->free_reads = calloc(count, sizeof(*sr->free_reads));
	ASSERT(sr->replies != NULL && sr->reads != NULL && sr->free_reads != NULL);
	for (size_t i = 0; i < count; i++) {
		STAILQ_NEXT(&sr->replies[i], link) = sr->free_reply;
		sr->free_reply = &sr->replies[i];
		sr->free_reads[sr->free_read_count++] = &sr->reads[i];
	}
}

static void reactor_init(struct server_reactor *sr, unsigned index)
{
	sr->index = index;
	TAILQ_INIT(&sr->conns);
	TAILQ_INIT(&sr->starved);
	TAILQ_INIT(&sr->paused);
	TAILQ_INIT(&sr->memory_waiters);
	sr->waits_hook.fn = waits_batch_end;
	sr->waits_timer.fn = waits_timeout;
	sr->sweep_timer.fn = sweep;
	calls_init(sr, server.config->fibers);
	replies_init(sr, server.config->limits.reactor_calls_max + SERVER_CALLS_RESERVE(server.config->limits.reactor_calls_max));
}

static void reactor_fini(struct server_reactor *sr)
{
	free(sr->calls);
	free(sr->replies);
	free(sr->reads);
	free(sr->free_reads);
}

int server_init(const struct server_config *config, const struct rpc_program *const *programs, char *err, size_t errlen)
{
	int ret = listeners_open(config, err, errlen);
	if (ret != 0)
		return ret;
	server.config = config;
	server.programs = programs;
	server.reactor_count = reactor_count();
	server.connections = 0;
	server.drained = 0;
	server.stop_asked = false;
	server.reactors = calloc(server.reactor_count, sizeof(*server.reactors));
	ASSERT(server.reactors != NULL);
	for (unsigned i = 0; i < server.reactor_count; i++)
		reactor_init(&server.reactors[i], i);
	return 0;
}

void server_fini(void)
{
	for (unsigned i = 0; i < server.reactor_count; i++)
		reactor_fini(&server.reactors[i]);
	free(server.reactors);
	server.reactors = NULL;
	listeners_close();
}

unsigned server_port(void) { return listeners_port(); }
const char *server_addresses(void) { return listeners_addresses(); }

/* On each reactor's loop, at the stop: its main fiber may be parked or not have got so far. */
static void reactor_stop(struct reactor_post *post)
{
	struct server_reactor *sr = container_of(post, struct server_reactor, stop_post);
	sr->stopping = true;
	if (sr->main != NULL)
		fiber_unpark(sr->main);
	sr->main = NULL;
}

void server_stop(void)
{
	if (atomic_exchange(&server.stop_asked, true))
		return;
	for (unsigned i = 0; i < server.reactor_count; i++) {
		server.reactors[i].stop_post.fn = reactor_stop;
		reactor_post(i, &server.reactors[i].stop_post);
	}
}

/* Park the main fiber until a post or a connection's end wakes it. */
static void main_park(struct server_reactor *sr, const char *why)
{
	sr->main = fiber_self();
	fiber_park(why, sr);
}

void server_conn_gone(struct server_reactor *sr)
{
	server.connections--;
	sr->conn_count--;
	waits_arm(sr);
	if (sr->stopping && sr->main != NULL) {
		fiber_unpark(sr->main);
		sr->main = NULL;
	}
}

static void connections_drain(struct server_reactor *sr)
{
	struct conn *c, *next;
	sweep_arm(sr, clock_mono_ns());
	TAILQ_FOREACH_SAFE(c, &sr->conns, link, next)
		conn_drain(c);
	while (sr->conn_count > 0)
		main_park(sr, "connections to end");
	timer_disarm(&sr->sweep_timer);
	timer_disarm(&sr->waits_timer);
}

/* The last reactor without connections wakes reactor 0, which ends it all. */
static void last_drained(struct reactor_post *post)
{
	struct server_reactor *sr = container_of(post, struct server_reactor, drained_post);
	if (sr->main != NULL)
		fiber_unpark(sr->main);
	sr->main = NULL;
}

static void everybody_drained_wait(struct server_reactor *sr)
{
	bool last = ++server.drained == server.reactor_count;
	if (last && sr->index != 0) {
		server.reactors[0].drained_post.fn = last_drained;
		reactor_post(0, &server.reactors[0].drained_post);
	}
	if (sr->index != 0)
		return;
	while (server.drained < server.reactor_count)
		main_park(sr, "the other reactors to end");
	if (drained_fn != NULL)
		drained_fn();
	runtime_stop();
}

static void reactor_main(void *arg, unsigned index)
{
	struct server_reactor *sr = &server.reactors[index];
	sweep_arm(sr, clock_mono_ns());
	if (index == 0 && ready_fn != NULL)
		ready_fn();
	if (index == 0 && !sr->stopping)
		listeners_start();
	if (!sr->stopping)
		main_park(sr, "the server to stop");
	if (index == 0)
		listeners_stop();
	connections_drain(sr);
	everybody_drained_wait(sr);
}

int server_run(void (*ready)(void), void (*drained)(void))
{
	ready_fn = ready;
	drained_fn = drained;
	return runtime_run(reactor_main, NULL);
}
