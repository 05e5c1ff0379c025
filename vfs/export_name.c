/*
 * vfs/export_name.c - clients' names and hosts' addresses, asked of the name service without making anybody else wait.
 *
 * The name service may take its time, and who owns an address decides how long: a reverse zone can be made slow on purpose. So questions stand in one bounded
 * list, each once, and RESOLVERS threads that do nothing else take them from there; neither the pool nor a lock waits for an answer. The threads begin with the
 * first question and stay until the process ends, which does not wait for them. A fiber that needs an answer waits for a moment, counted from when the question
 * was put, so that of many calls of a client with a slow name only the first are held up; and so do few fibers only. The others tell their client to come again.
 *
 * A client's name counts only if a forward look-up of it gives the client's address again: whoever controls the reverse zone must not choose its name.
 * Names are kept in NAME_SLOTS slots; an address may live in any of NAME_WAYS neighbours. "Has no name" is kept as a name is. A slot that is used after its time to
 * be renewed goes on answering while the question is put again, until it expires: so a client in use never waits again. While the name service does not
 * answer at all, a name holds as long as it would have without being asked for.
 *
 * One lock, a leaf taken inside the table lock, protects it all; it is not held while the name service is asked. A question's key does not change while busy.
 */
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/clock.h"
#include "runtime/counter.h"
#include "runtime/log.h"
#include "runtime/sync.h"
#include "vfs/export_table.h"
#include "vfs/siphash.h"

enum { NAME_SLOTS = 1024, NAME_WAYS = 8, HOST_ADDRESSES_MAX = 64, QUESTIONS_MAX = 64, RESOLVERS = 2, WAITERS_MAX = 32 };

static const uint64_t name_keep_ns = 900000000000, name_renew_ns = 600000000000, retry_ns = 60000000000;

COUNTER_DEFINE(counter_asked, "export.names_asked");
COUNTER_DEFINE(counter_full, "export.names_put_off");

struct name_slot {
	struct in6_addr addr;
	uint64_t renew_ns;
	uint64_t expires_ns;          /* 0: empty */
	char name[EXPORT_NAME_BYTES]; /* "": has none */
};

struct question {
	TAILQ_ENTRY(question) link;   /* while it waits for a resolver */
	bool busy;                    /* waits, or is being answered */
	struct in6_addr addr;         /* whose name, */
	char host[EXPORT_NAME_BYTES]; /* or, unless "", whose addresses */
	uint64_t asked_ns;
};

TAILQ_HEAD(question_list, question);

static struct leaf_lock lock = LEAF_LOCK_INIT;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
/* protected by lock */
static struct name_slot name_slots[NAME_SLOTS + NAME_WAYS];
static struct question questions[QUESTIONS_MAX];
static struct question_list waiting = TAILQ_HEAD_INITIALIZER(waiting);
static struct fiber_cond answered = { .waiters = TAILQ_HEAD_INITIALIZER(answered.waiters) };
static unsigned resolvers, waiters;

/* --- the cache of names --- */

static unsigned name_slot_first(const struct in6_addr *addr)
{
	static const uint8_t key[SIPHASH_KEY_BYTES]; /* a client cannot choose its address at will */

	return siphash24(key, addr, sizeof(*addr)) % NAME_SLOTS;
}

static struct name_slot *name_slot_find_locked(const struct in6_addr *addr, uint64_t now)
{
	struct name_slot *slot = name_slots + name_slot_first(addr);

	for (unsigned i = 0; i < NAME_WAYS; i++, slot++)
		if (slot->expires_ns > now && !memcmp(&slot->addr, addr, sizeof(*addr)))
			return slot;
	return NULL;
}

/* Where addr's name goes: where it is, else the slot that ends first; empty and expired ones have ended. */
static struct name_slot *name_slot_victim_locked(const struct in6_addr *addr, uint64_t now)
{
	struct name_slot *slot = name_slots + name_slot_first(addr), *victim = name_slot_find_locked(addr, now);

	if (victim)
		return victim;
	victim = slot;
	for (unsigned i = 1; i < NAME_WAYS; i++)
		if (slot[i].expires_ns < victim->expires_ns)
			victim = slot + i;
	return victim;
}

/* unanswered: a name known from before stays until it expires. */
static void name_store_locked(const struct in6_addr *addr, const char *name, bool unanswered)
{
	const uint64_t now = clock_mono_ns();
	struct name_slot *slot = name_slot_victim_locked(addr, now);

	if (!unanswered || slot->expires_ns <= now || memcmp(&slot->addr, addr, sizeof(*addr))) {
		slot->addr = *addr;
		slot->expires_ns = now + name_keep_ns;
		snprintf(slot->name, sizeof(slot->name), "%s", name);
	}
	slot->renew_ns = now + (*name ? name_renew_ns : retry_ns);
}

/* --- questions --- */

/* That whose name addr asks for, or, with addr NULL, the addresses of that host; host NULL: of any. */
static struct question *question_find_locked(const struct in6_addr *addr, const char *host)
{
	for (struct question *q = questions; q < questions + QUESTIONS_MAX; q++) {
		if (!q->busy || (addr == NULL) != (*q->host != 0))
			continue;
		if (addr ? !memcmp(&q->addr, addr, sizeof(*addr)) : !host || !strcmp(q->host, host))
			return q;
	}
	return NULL;
}

/* Unless it has been put already, or so many others wait that it must be put again later. */
static void question_put_locked(const struct in6_addr *addr, const char *host)
{
	struct question *q = questions;

	if (!resolvers || question_find_locked(addr, host))
		return;
	while (q < questions + QUESTIONS_MAX && q->busy)
		q++;
	counter_add(q < questions + QUESTIONS_MAX ? &counter_asked : &counter_full, 1);
	if (q == questions + QUESTIONS_MAX)
		return;
	q->busy = true;
	q->addr = addr ? *addr : in6addr_any;
	snprintf(q->host, sizeof(q->host), "%s", host ? host : "");
	q->asked_ns = clock_mono_ns();
	TAILQ_INSERT_TAIL(&waiting, q, link);
	pthread_cond_signal(&work);
}

/* --- resolvers --- */

/* 0; -EAGAIN: the name service does not answer; -ENOMEM. A name without addresses is an answer. */
int export_host_resolve(const char *name, struct in6_addr **addrs, unsigned *count)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct addrinfo *list, *ai;
	int err;

	*count = 0;
	*addrs = NULL;
	err = getaddrinfo(name, NULL, &hints, &list);
	if (err)
		return err == EAI_AGAIN ? -EAGAIN : 0;
	*addrs = calloc(HOST_ADDRESSES_MAX, sizeof(**addrs));
	for (ai = list; ai && *addrs && *count < HOST_ADDRESSES_MAX; ai = ai->ai_next)
		*count += export_client_addr(ai->ai_addr, *addrs + *count);
	freeaddrinfo(list);
	return *addrs ? 0 : -ENOMEM;
}

static socklen_t addr_to_socket(const struct in6_addr *addr, struct sockaddr_storage *ss)
{
	struct sockaddr_in *sin = (struct sockaddr_in *)ss;
	struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *)ss;

	memset(ss, 0, sizeof(*ss));
	if (IN6_IS_ADDR_V4MAPPED(addr)) {
		sin->sin_family = AF_INET;
		memcpy(&sin->sin_addr, addr->s6_addr + 12, sizeof(sin->sin_addr));
		return sizeof(*sin);
	}
	sin6->sin6_family = AF_INET6;
	sin6->sin6_addr = *addr;
	return sizeof(*sin6);
}

/* A name that does not lead back becomes none. */
static int name_confirm(const struct in6_addr *addr, char name[EXPORT_NAME_BYTES])
{
	struct in6_addr *addrs;
	unsigned count;
	const int err = export_host_resolve(name, &addrs, &count);

	if (err || !export_addr_in_list(addr, addrs, count))
		name[0] = 0;
	free(addrs);
	return err;
}

static int name_resolve(const struct in6_addr *addr, char name[EXPORT_NAME_BYTES])
{
	struct sockaddr_storage ss;
	const socklen_t len = addr_to_socket(addr, &ss);
	const int err = getnameinfo((struct sockaddr *)&ss, len, name, EXPORT_NAME_BYTES, NULL, 0, NI_NAMEREQD);

	if (!err)
		return name_confirm(addr, name);
	name[0] = 0;
	return err == EAI_AGAIN ? -EAGAIN : 0;
}

static void question_answer(const struct question *q)
{
	char name[EXPORT_NAME_BYTES];
	struct in6_addr *addrs;
	unsigned count;
	int err;

	if (*q->host) {
		if (!export_host_resolve(q->host, &addrs, &count))
			export_host_set(q->host, addrs, count);
		free(addrs);
		return;
	}
	err = name_resolve(&q->addr, name);
	leaf_lock(&lock);
	name_store_locked(&q->addr, name, err);
	leaf_unlock(&lock);
}

static struct question *question_take_locked(void)
{
	struct question *q;

	while (!(q = TAILQ_FIRST(&waiting)))
		pthread_cond_wait(&work, &lock.mutex);
	TAILQ_REMOVE(&waiting, q, link);
	return q;
}

static void *resolver_main(void *arg)
{
	struct question *q;

	for (;;) {
		leaf_lock(&lock);
		q = question_take_locked();
		leaf_unlock(&lock);
		question_answer(q);
		leaf_lock(&lock);
		q->busy = false;
		fiber_cond_broadcast_locked(&answered);
		leaf_unlock(&lock);
	}
	return NULL;
}

static void resolvers_start_locked(void)
{
	static struct log_limit limit;
	pthread_attr_t attr;
	pthread_t thread;

	if (resolvers)
		return;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	while (resolvers < RESOLVERS && !pthread_create(&thread, &attr, resolver_main, NULL))
		resolvers++;
	pthread_attr_destroy(&attr);
	if (!resolvers)
		log_limited(&limit, LOG_LEVEL_ERROR, "no thread for the name service: clients that an export knows by name have to wait");
}

/* --- for the others --- */

noyield_fn bool export_client_name(const struct in6_addr *addr, char name[EXPORT_NAME_BYTES])
{
	const uint64_t now = clock_mono_ns();
	const struct name_slot *slot;

	leaf_lock(&lock);
	slot = name_slot_find_locked(addr, now);
	if (slot) {
		memcpy(name, slot->name, EXPORT_NAME_BYTES);
		if (slot->renew_ns <= now)
			question_put_locked(addr, NULL);
	}
	leaf_unlock(&lock);
	return slot;
}

static fiber_fn void answer_await_locked(const struct in6_addr *addr, uint64_t wait_ns)
{
	const struct question *q;

	while ((q = question_find_locked(addr, NULL)) && waiters < WAITERS_MAX && clock_mono_ns() < q->asked_ns + wait_ns) {
		waiters++;
		fiber_cond_wait_until(&answered, &lock, "the name service", q->asked_ns + wait_ns);
		waiters--;
	}
}

fiber_fn void export_name_await(const struct sockaddr *client, uint64_t wait_ns)
{
	struct in6_addr addr;

	if (!export_client_addr(client, &addr))
		return;
	leaf_lock(&lock);
	resolvers_start_locked();
	if (!name_slot_find_locked(&addr, clock_mono_ns()))
		question_put_locked(&addr, NULL);
	answer_await_locked(&addr, wait_ns);
	leaf_unlock(&lock);
}

noyield_fn void export_host_ask(const char *host)
{
	leaf_lock(&lock);
	resolvers_start_locked();
	question_put_locked(NULL, host);
	leaf_unlock(&lock);
}

fiber_fn void export_hosts_await(uint64_t wait_ns)
{
	leaf_lock(&lock);
	answer_await_locked(NULL, wait_ns);
	leaf_unlock(&lock);
}
