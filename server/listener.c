/*
 * server/listener.c - listening sockets, accepted from on reactor 0.
 *
 * One socket per address of the configuration, or 0.0.0.0 and :: (each for its family only, so that IPv4 clients appear with IPv4 addresses). One accept is
 * in flight per socket. Balance comes from conn_start(), which knows how many connections each reactor has; SO_REUSEPORT would hash, and put
 * two of three clients on one reactor as often as not.
 *
 * Out of descriptors (EMFILE, ENFILE): one descriptor is kept in reserve. It is given up for one accept, so that the client that waits gets an orderly close
 * instead of nothing, and then accepting pauses for a moment.
 */
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/clock.h"
#include "runtime/counter.h"
#include "runtime/io.h"
#include "runtime/log.h"
#include "runtime/reactor.h"
#include "server/config.h"
#include "server/conn.h"
#include "server/listener.h"

static const uint64_t pause_ns = 100000000;

COUNTER_DEFINE(accept_pauses, "listener.pauses_no_descriptors");
COUNTER_DEFINE(accept_errors, "listener.errors");

struct listener {
	int fd;
	bool in_flight;
	bool shedding;              /* the accept in flight uses the reserve */
	struct io_op accept;
	struct sockaddr_storage peer;
	struct timer pause;
	char name[INET6_ADDRSTRLEN + 2 + 6]; /* "[...]:65535" */
	unsigned port;
};

/* Reactor 0 only, once it runs. */
static struct listener listeners[CONFIG_BINDS_MAX];
static char addresses[CONFIG_BINDS_MAX * sizeof(listeners[0].name)]; /* all names */
static unsigned listener_count;
static int reserve_fd = -1;
static bool stopping;

static void accept_start(struct listener *l);

/* --- opening --- */

union address {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

static socklen_t address_make(const struct config_address *from, unsigned port, union address *a)
{
	memset(a, 0, sizeof(*a));
	a->sa.sa_family = (sa_family_t)from->family;
	if (from->family == AF_INET) {
		memcpy(&a->in.sin_addr, &from->bytes, sizeof(a->in.sin_addr));
		a->in.sin_port = htons((uint16_t)port);
		return sizeof(a->in);
	}
	a->in6.sin6_addr = from->bytes;
	a->in6.sin6_port = htons((uint16_t)port);
	return sizeof(a->in6);
}

static void listener_name(struct listener *l, const char *address)
{
	union address bound;
	socklen_t len = sizeof(bound);
	getsockname(l->fd, &bound.sa, &len);
	l->port = ntohs(bound.sa.sa_family == AF_INET6 ? bound.in6.sin6_port : bound.in.sin_port);
	snprintf(l->name, sizeof(l->name), strchr(address, ':') != NULL ? "[%.46s]:%u" : "%.46s:%u", address, l->port & 0xffff);
}

static int socket_listen(const union address *a, socklen_t len)
{
	int one = 1;
	int fd = socket(a->sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (a->sa.sa_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
	if (bind(fd, &a->sa, len) != 0 || listen(fd, SOMAXCONN) != 0) {
		int err = -errno;
		close(fd);
		return err;
	}
	return fd;
}

/*
 * A predecessor that was killed is gone before its ring is: the kernel takes the ring apart afterwards, and until then the accept in flight there keeps the
 * socket. So an address in use is tried again for a while.
 */
static int socket_listen_patiently(const union address *a, socklen_t len)
{
	const struct timespec again = { .tv_nsec = 20000000 };
	int fd = -EADDRINUSE;
	for (unsigned tries = 100; fd == -EADDRINUSE && tries > 0; tries--) {
		fd = socket_listen(a, len);
		if (fd == -EADDRINUSE)
			nanosleep(&again, NULL);
	}
	return fd;
}

/* where: the line that asks for it. */
static int listener_open(const struct config_address *address, unsigned port, const char *where, char *err, size_t errlen)
{
	union address a;
	socklen_t len = address_make(address, port, &a);
	int fd = socket_listen_patiently(&a, len);
	if (fd < 0) {
		snprintf(err, errlen, "%scannot listen on %s port %u: %s", where, address->text, port, strerror(-fd));
		return fd;
	}
	struct listener *l = &listeners[listener_count++];
	memset(l, 0, sizeof(*l));
	l->fd = fd;
	listener_name(l, address->text);
	return 0;
}

/* Any address: IPv6 may be missing on this machine. */
static int listeners_open_any(unsigned port, const char *where, char *err, size_t errlen)
{
	static char text_v4[] = "0.0.0.0", text_v6[] = "::";
	const struct config_address any_v4 = { .text = text_v4, .family = AF_INET }, any_v6 = { .text = text_v6, .family = AF_INET6 };
	int ret = listener_open(&any_v4, port, where, err, errlen);
	if (ret != 0)
		return ret;
	ret = listener_open(&any_v6, listeners[0].port, where, err, errlen);
	if (ret == -EAFNOSUPPORT || ret == -EADDRNOTAVAIL) {
		log_write(LOG_LEVEL_INFO, "no IPv6 here: %s", err);
		return 0;
	}
	return ret;
}

static void addresses_join(void)
{
	size_t len = 0;
	addresses[0] = '\0';
	for (unsigned i = 0; i < listener_count; i++)
		len += (size_t)snprintf(addresses + len, sizeof(addresses) - len, "%s%s", i > 0 ? " " : "", listeners[i].name);
}

int listeners_open(const struct server_config *config, char *err, size_t errlen)
{
	unsigned port = (unsigned)config->port;
	int ret = 0;
	listener_count = 0;
	stopping = false;
	if (config->binds == 0)
		ret = listeners_open_any(port, config_where(config, &config->port), err, errlen);
	for (unsigned i = 0; i < config->binds && ret == 0; i++) {
		ret = listener_open(&config->bind[i], port, config_where(config, &config->bind[i]), err, errlen);
		port = ret == 0 ? listeners[0].port : port; /* one port for all, also when any was asked for */
	}
	if (ret != 0)
		listeners_close();
	else
		reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	addresses_join();
	return ret;
}

void listeners_close(void)
{
	for (unsigned i = 0; i < listener_count; i++)
		close(listeners[i].fd);
	listener_count = 0;
	if (reserve_fd >= 0)
		close(reserve_fd);
	reserve_fd = -1;
}

unsigned listeners_port(void) { return listeners[0].port; }
const char *listeners_addresses(void) { return addresses; }

/* --- accepting --- */

static void accept_pause(struct listener *l)
{
	if (stopping)
		return;
	timer_arm(&l->pause, clock_mono_ns() + pause_ns);
}

static void pause_over(struct timer *t)
{
	if (reserve_fd < 0)
		reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	accept_start(container_of(t, struct listener, pause));
}

/* No descriptor is left. Try once more with the reserve's, unless this was that. */
static void out_of_descriptors(struct listener *l)
{
	static struct log_limit limit;
	log_limited(&limit, LOG_LEVEL_WARNING, "no file descriptor left for a new connection (see LimitNOFILE=, ulimit -n)");
	if (l->shedding || reserve_fd < 0) {
		l->shedding = false;
		counter_add(&accept_pauses, 1);
		accept_pause(l);
		return;
	}
	close(reserve_fd);
	reserve_fd = -1;
	l->shedding = true;
	accept_start(l);
}

static void accepted(struct listener *l, int fd)
{
	if (!l->shedding) {
		(void)conn_start(fd, &l->peer);
		accept_start(l);
		return;
	}
	close(fd);
	reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	l->shedding = false;
	counter_add(&accept_pauses, 1);
	accept_pause(l);
}

static void accept_done(struct io_op *op)
{
	struct listener *l = op->arg;
	l->in_flight = false;
	if (op->res >= 0 && stopping)
		io_close((int)op->res);
	if (stopping)
		return;
	if (op->res >= 0) {
		accepted(l, (int)op->res);
	} else if (op->res == -EMFILE || op->res == -ENFILE) {
		out_of_descriptors(l);
	} else {
		/* ECONNABORTED and the network's own errors concern one connection; anything lasting must not make us spin. */
		counter_add(&accept_errors, 1);
		accept_pause(l);
	}
}

static void accept_start(struct listener *l)
{
	if (stopping)
		return;
	memset(&l->peer, 0, sizeof(l->peer));
	l->accept = (struct io_op){ .code = IO_ACCEPT, .fd = l->fd, .flags = SOCK_CLOEXEC, .addr = (struct sockaddr *)&l->peer, .addrlen = sizeof(l->peer),
				    .done = accept_done, .arg = l };
	l->in_flight = true;
	io_submit(&l->accept);
}

void listeners_start(void)
{
	for (unsigned i = 0; i < listener_count; i++) {
		listeners[i].pause.fn = pause_over;
		accept_start(&listeners[i]);
	}
}

void listeners_stop(void)
{
	stopping = true;
	for (unsigned i = 0; i < listener_count; i++) {
		timer_disarm(&listeners[i].pause);
		if (listeners[i].in_flight)
			io_cancel(&listeners[i].accept);
	}
}
