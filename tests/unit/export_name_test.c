/*
 * tests/unit/export_name_test.c - exports by name, with a name service of the test's own: it answers at once, or not before the test opens a gate. What waits
 * for it, how long, and who never asks; that others work meanwhile; what is kept and for how long (the clock is put forward).
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/clock.h"
#include "runtime/fiber.h"
#include "runtime/pool.h"
#include "runtime/reactor.h"
#include "tests/unit/vfs_harness.h"
#include "vfs/export.h"
#include "vfs/export_table.h"

static const uint64_t second_ns = 1000000000;

/* --- the clock: as it is, and some more --- */

static _Atomic uint64_t forward_ns;

uint64_t __real_clock_mono_ns(void);
uint64_t __wrap_clock_mono_ns(void);
uint64_t __wrap_clock_mono_ns(void) { return __real_clock_mono_ns() + forward_ns; }

/* --- the name service --- */

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_moved = PTHREAD_COND_INITIALIZER;
static bool closed;
static _Atomic unsigned inside, inside_most, asked, hosts_asked;
static _Atomic bool silent; /* answers nobody */

static void pass_gate(void)
{
	pthread_mutex_lock(&gate);
	if (++inside > inside_most)
		inside_most = inside;
	while (closed)
		pthread_cond_wait(&gate_moved, &gate);
	inside--;
	pthread_mutex_unlock(&gate);
}

static void gate_set(bool close)
{
	pthread_mutex_lock(&gate);
	closed = close;
	pthread_cond_broadcast(&gate_moved);
	pthread_mutex_unlock(&gate);
}

static const struct { const char *addr, *name; bool leads_back; } zone[] = {
	{ "192.0.2.1", "a.example.org", true },
	{ "192.0.2.2", "b.example.org", false },
	{ "192.0.2.3", "c.example.com", true },
	{ "2001:db8::1", "six.example.org", true },
};

/* libc's, to the program. */
int getnameinfo(const struct sockaddr *sa, socklen_t len, char *name, socklen_t size, char *service, socklen_t service_size, int flags)
{
	struct in6_addr addr, known;
	struct sockaddr_in6 sin6 = { .sin6_family = AF_INET6 };
	struct sockaddr_in sin = { .sin_family = AF_INET };

	asked++;
	pass_gate();
	ASSERT(export_client_addr(sa, &addr));
	for (unsigned i = 0; i < ARRAY_SIZE(zone) && !silent; i++) {
		if (inet_pton(AF_INET, zone[i].addr, &sin.sin_addr) == 1)
			export_client_addr((struct sockaddr *)&sin, &known);
		else if (inet_pton(AF_INET6, zone[i].addr, &sin6.sin6_addr) == 1)
			export_client_addr((struct sockaddr *)&sin6, &known);
		if (!memcmp(&addr, &known, sizeof(addr)))
			return snprintf(name, size, "%s", zone[i].name) >= (int)size ? EAI_OVERFLOW : 0;
	}
	return silent ? EAI_AGAIN : EAI_NONAME;
}

static struct addrinfo *addrinfo_of(const char *addr)
{
	struct { struct addrinfo ai; struct sockaddr_in sin; struct sockaddr_in6 sin6; } *made = calloc(1, sizeof(*made));

	made->sin.sin_family = AF_INET;
	made->sin6.sin6_family = AF_INET6;
	made->ai.ai_addr = inet_pton(AF_INET, addr, &made->sin.sin_addr) == 1 ? (struct sockaddr *)&made->sin : (struct sockaddr *)&made->sin6;
	inet_pton(AF_INET6, addr, &made->sin6.sin6_addr);
	return &made->ai;
}

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **list)
{
	hosts_asked++;
	pass_gate();
	for (unsigned i = 0; i < ARRAY_SIZE(zone) && !silent; i++)
		if (!strcmp(zone[i].name, node)) {
			*list = addrinfo_of(zone[i].leads_back ? zone[i].addr : "198.51.100.1");
			return 0;
		}
	return silent ? EAI_AGAIN : EAI_NONAME;
}

void freeaddrinfo(struct addrinfo *list) { free(list); }

/* --- the tests' means --- */

static const struct sockaddr *address(const char *text)
{
	static struct sockaddr_storage ring[16];
	static unsigned next;
	struct sockaddr_storage *ss = &ring[next++ % ARRAY_SIZE(ring)];
	struct sockaddr_in *sin = (struct sockaddr_in *)ss;
	struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *)ss;

	memset(ss, 0, sizeof(*ss));
	sin->sin_family = AF_INET;
	if (inet_pton(AF_INET, text, &sin->sin_addr) != 1) {
		sin6->sin6_family = AF_INET6;
		ASSERT(inet_pton(AF_INET6, text, &sin6->sin6_addr) == 1);
	}
	return (const struct sockaddr *)ss;
}

static struct export_table *table_of(const char *line)
{
	struct export_table *t = export_table_new();
	char err[200];

	ASSERT(export_table_add_line(t, line, "exports", 1, err, sizeof(err)) == 0);
	return t;
}

static void install_main(void *arg)
{
	char err[200];

	ASSERT(export_table_install(table_of(arg), err, sizeof(err)) == 0);
}

/* 0, or why there is no view. */
static int look(const char *client)
{
	struct export_view *view;
	const char *below;
	const int err = export_view_by_path(SCRATCH_FS, address(client), &view, &below);

	if (!err)
		export_view_put(view);
	return err;
}

static int look_patiently(const char *client)
{
	if (look(client) == -EAGAIN)
		export_name_await(address(client), 60 * second_ns);
	return look(client);
}

static void until_inside(unsigned n)
{
	while (inside < n)
		fiber_yield();
}

static void (*body)(void);

static void body_fiber(void *arg, unsigned index)
{
	body();
	runtime_stop();
}

/* One pool thread: whoever keeps it keeps everybody. */
static void run(const char *line, void (*fn)(void))
{
	const struct reactor_config config = { .reactors = 1, .fibers = 64, .pool_threads = 1 };

	scratch_begin();
	scratch_fs("tmpfs");
	install_main((void *)line);
	body = fn;
	cr_assert_eq(runtime_init(&config), 0);
	cr_assert_eq(runtime_run(body_fiber, NULL), 0);
	runtime_fini();
	export_table_fini();
}

TestSuite(export_name, .timeout = 60);

/* --- who gets in --- */

static void wildcards(void)
{
	ASSERT(look("192.0.2.1") == -EAGAIN);
	ASSERT(look_patiently("192.0.2.1") == 0);
	ASSERT(look("::ffff:192.0.2.1") == 0);
	ASSERT(look_patiently("2001:db8::1") == 0);
	ASSERT(look_patiently("192.0.2.2") == -EACCES); /* the name is another's */
	ASSERT(look_patiently("192.0.2.3") == -EACCES); /* it fits no wildcard */
	ASSERT(look_patiently("192.0.2.9") == -EACCES); /* it has none */
	ASSERT(asked == 5);
	ASSERT(look_patiently("192.0.2.9") == -EACCES && asked == 5);
}

Test(export_name, wildcards) { run(SCRATCH_FS " *.example.org", wildcards); }

/* Where an address decides, or no entry goes by name, no name is asked for. */
static void never_asked(void)
{
	ASSERT(look("10.1.1.1") == 0);
	pool_run(install_main, (void *)(SCRATCH_FS " 10.0.0.0/8"), NULL);
	ASSERT(look("192.0.2.1") == -EACCES);
	ASSERT(asked == 0);
}

Test(export_name, never_asked) { run(SCRATCH_FS " *.example.org 10.0.0.0/8", never_asked); }

/* --- a name service that does not answer --- */

static _Atomic unsigned still_waiting;

static void client_fiber(void *arg)
{
	export_name_await(address(arg), 60 * second_ns);
	still_waiting--;
}

static void slow(void)
{
	static const char *const clients[] = { "192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.3" };
	const uint64_t begun = clock_mono_ns();

	gate_set(true);
	export_name_await(address("192.0.2.1"), second_ns / 10);
	ASSERT(clock_mono_ns() - begun >= second_ns / 10);
	ASSERT(look("192.0.2.1") == -EAGAIN);
	/* The question has been waited for: whoever comes now goes on at once. */
	until_inside(1);
	for (unsigned i = 0; i < 100000; i++)
		export_name_await(address("192.0.2.1"), second_ns / 10);
	still_waiting = ARRAY_SIZE(clients);
	for (unsigned i = 0; i < ARRAY_SIZE(clients); i++)
		ASSERT(fiber_spawn(client_fiber, (void *)clients[i], "a client") == 0);
	until_inside(2);
	/* Meanwhile the others: the pool's one thread is free, the table can be looked at and changed, clients by address come in. */
	export_refresh();
	pool_run(install_main, (void *)(SCRATCH_FS " *.example.org 10.0.0.0/8"), NULL);
	ASSERT(look("10.1.1.1") == 0);
	ASSERT(still_waiting == ARRAY_SIZE(clients));
	ASSERT(asked == 2); /* one each, two at once */
	gate_set(false);
	while (still_waiting)
		fiber_yield();
	ASSERT(asked == 3);
	ASSERT(inside_most == 2);
	ASSERT(look("192.0.2.1") == 0);
	ASSERT(look("192.0.2.2") == -EACCES);
	ASSERT(look("192.0.2.3") == -EACCES);
}

Test(export_name, slow) { run(SCRATCH_FS " *.example.org", slow); }

/* More clients than questions may wait: they are told to come again, and nothing else. */
static void crowd(void)
{
	char text[32];

	gate_set(true);
	for (unsigned i = 0; i < 200; i++) {
		snprintf(text, sizeof(text), "203.0.113.%u", i);
		export_name_await(address(text), 0);
		ASSERT(look(text) == -EAGAIN);
	}
	gate_set(false);
	while (look_patiently("192.0.2.1") == -EAGAIN)
		fiber_yield();
	ASSERT(look("192.0.2.1") == 0);
	ASSERT(asked <= 64 + 1);
}

Test(export_name, crowd) { run(SCRATCH_FS " *.example.org", crowd); }

/* --- how long an answer holds --- */

static void wait_until_asked(unsigned n)
{
	while (asked < n || inside)
		fiber_yield();
}

static void kept(void)
{
	ASSERT(look_patiently("192.0.2.1") == 0 && asked == 1);
	forward_ns += 590 * second_ns;
	ASSERT(look("192.0.2.1") == 0 && asked == 1);
	/* Due, and answered from what is known while it is asked for: once. */
	forward_ns += 20 * second_ns;
	gate_set(true);
	ASSERT(look("192.0.2.1") == 0);
	until_inside(1);
	ASSERT(look("192.0.2.1") == 0 && asked == 2);
	gate_set(false);
	export_name_await(address("192.0.2.1"), 60 * second_ns);
	forward_ns += 590 * second_ns;
	ASSERT(look("192.0.2.1") == 0 && asked == 2);
	/* Without an answer it holds to its end, and no longer. */
	silent = true;
	forward_ns += 20 * second_ns;
	ASSERT(look("192.0.2.1") == 0);
	wait_until_asked(3);
	export_name_await(address("192.0.2.1"), 60 * second_ns);
	ASSERT(look("192.0.2.1") == 0 && asked == 3);
	forward_ns += 300 * second_ns;
	ASSERT(look_patiently("192.0.2.1") == -EACCES && asked == 4);
	/* To have no name is asked about sooner. */
	silent = false;
	forward_ns += 61 * second_ns;
	ASSERT(look("192.0.2.1") == -EACCES);
	wait_until_asked(5);
	export_name_await(address("192.0.2.1"), 60 * second_ns);
	ASSERT(look("192.0.2.1") == 0);
}

Test(export_name, kept) { run(SCRATCH_FS " *.example.org", kept); }

/* --- hosts --- */

static void hosts(void)
{
	ASSERT(hosts_asked == 2);
	ASSERT(look("192.0.2.1") == -EACCES);
	silent = false;
	/* Asked for again by a refresh, not too soon. */
	export_refresh();
	export_hosts_await(60 * second_ns);
	ASSERT(look("192.0.2.1") == -EACCES && hosts_asked == 2);
	forward_ns += 31 * second_ns;
	gate_set(true);
	export_refresh();
	export_hosts_await(0);
	ASSERT(look("192.0.2.1") == -EACCES);
	gate_set(false);
	export_hosts_await(60 * second_ns);
	ASSERT(look("192.0.2.1") == 0);
	ASSERT(look("192.0.2.3") == 0);
	ASSERT(hosts_asked == 4 && asked == 0);
}

Test(export_name, hosts)
{
	silent = true;
	run(SCRATCH_FS " a.example.org c.example.com", hosts);
}
