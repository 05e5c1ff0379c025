/*
 * local_calls.c: the limits that have nothing to do with data: the system calls of the metadata mix, and a TCP connection.
 *
 * The process's own CPU stands for the server's in the metadata lines; that of the process which answers in those of the ping-pong.
 */
#include "tests/bench/local_calls.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/sample.h"

enum { FILES = 10000, LISTINGS = 10, MIB = 1 << 20, BYTES_MAX = 2 * MIB };

/* Patterns that are answered without looking at them: bytes of a call and of its reply, and of data in one of them. */
static const struct exchange {
	const char *name;
	unsigned call, reply, data;
} exchanges[] = {
	{ "null", 80, 28, 0 }, { "getattr", 116, 116, 0 },
	{ "seqread", 128, MIB + 132, MIB }, { "seqwrite-unstable", MIB + 136, 164, MIB }, { "seqwrite-filesync", MIB + 136, 164, MIB },
};

static void need(int result, const char *what)
{
	if (result < 0)
		die("%s: %s", what, strerror(errno));
}

/* --- system calls --- */

static int dir_fd;
static struct outcome outcome;

static void create_file(const char *name, const char *renamed)
{
	int fd = openat(dir_fd, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);

	need(fd, "create");
	close(fd);
}

static void lookup_file(const char *name, const char *renamed)
{
	struct stat st;
	int fd = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

	need(fd, "open");
	need(fstat(fd, &st), "stat");
	close(fd);
}

static void stat_file(const char *name, const char *renamed)
{
	struct stat st;

	need(fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW), "stat");
}

static void rename_file(const char *name, const char *renamed)
{
	need(renameat(dir_fd, name, dir_fd, renamed), "rename");
}

static void remove_file(const char *name, const char *renamed)
{
	need(unlinkat(dir_fd, renamed, 0), "remove");
}

static void each_file(void (*fn)(const char *, const char *))
{
	char name[32], renamed[32];
	unsigned i;

	for (i = 0; i < FILES; i++) {
		uint64_t begin = now_ns();

		snprintf(name, sizeof(name), "file.%06u", i);
		snprintf(renamed, sizeof(renamed), "renamed.%06u", i);
		fn(name, renamed);
		latency_add(&outcome.latency, now_ns() - begin);
		outcome.ops++;
	}
}

static void list_once(void)
{
	DIR *d = fdopendir(openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	struct dirent *e;

	if (!d)
		die("opendir: %s", strerror(errno));
	while ((e = readdir(d))) {
		stat_file(e->d_name, NULL);
		outcome.ops++;
	}
	closedir(d);
}

static const struct {
	const char *name;
	void (*fn)(const char *, const char *);	/* NULL: list */
} phases[] = {
	{ "metadata-create", create_file }, { "metadata-lookup", lookup_file }, { "metadata-getattr", stat_file },
	{ "metadata-readdirplus", NULL }, { "metadata-rename", rename_file }, { "metadata-remove", remove_file },
};

static void run_phase(unsigned i, unsigned depth, const struct watch *w)
{
	unsigned k;

	memset(&outcome, 0, sizeof(outcome));
	outcome = (struct outcome){ .pattern = phases[i].name, .depth = phases[i].fn ? depth : 1, .connections = 1, .resident = -1 };
	sample_take(w, &outcome.before);
	if (phases[i].fn)
		each_file(phases[i].fn);
	for (k = 0; !phases[i].fn && k < LISTINGS; k++)
		list_once();
	sample_take(w, &outcome.after);
	outcome_print(&outcome, w);
}

void local_syscalls(const char *dir, unsigned depth, const char *device)
{
	const struct watch w = { .pid = getpid(), .device = device };
	char path[4096];
	unsigned i;

	snprintf(path, sizeof(path), "%s/local", dir);
	need(mkdir(path, 0755), path);
	dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	need(dir_fd, path);
	for (i = 0; i < sizeof(phases) / sizeof(*phases); i++)
		run_phase(i, depth, &w);
	close(dir_fd);
	rmdir(path);
}

/* --- ping-pong --- */

static uint8_t bytes[BYTES_MAX];

static void send_all(int fd, size_t len)
{
	size_t part;

	for (; len; len -= part) {
		part = len < BYTES_MAX ? len : BYTES_MAX;
		if (send(fd, bytes, part, MSG_NOSIGNAL) != (ssize_t)part)
			die("send: %s", strerror(errno));
	}
}

/* Whole messages of SIZE bytes in what was received now and *LEFT of a message before; 0: the end. */
static unsigned receive_some(int fd, unsigned size, unsigned *left)
{
	unsigned have;
	ssize_t n;

	do {
		n = recv(fd, bytes, sizeof(bytes), 0);
		if (n <= 0)
			return 0;
		have = *left + (unsigned)n;
		*left = have % size;
	} while (have < size);
	return have / size;
}

static void __attribute__((noreturn)) answer(int listener, const struct exchange *e)
{
	unsigned n, left = 0;
	int fd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	fd = accept(listener, NULL, NULL);
	need(fd, "accept");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
	while ((n = receive_some(fd, e->call, &left)))
		send_all(fd, (size_t)n * e->reply);
	_exit(0);
}

static int listen_somewhere(struct sockaddr_in *sin)
{
	socklen_t len = sizeof(*sin);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	*sin = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	need(fd, "socket");
	need(bind(fd, (struct sockaddr *)sin, len), "bind");
	need(listen(fd, 1), "listen");
	need(getsockname(fd, (struct sockaddr *)sin, &len), "getsockname");
	return fd;
}

/* All that are answered together are asked again together, as nfsload does; the time of one is that of its batch. */
static void ask(int fd, const struct exchange *e, unsigned depth, uint64_t deadline_ns)
{
	unsigned n = depth, flying = 0, left = 0, i;
	uint64_t begin;

	do {
		begin = now_ns();
		send_all(fd, (size_t)n * e->call);
		flying += n;
		n = receive_some(fd, e->reply, &left);
		if (!n)
			die("the other side has gone");
		flying -= n;
		for (i = 0; i < n; i++)
			latency_add(&outcome.latency, now_ns() - begin);
		outcome.ops += n;
		outcome.bytes += (uint64_t)n * e->data;
	} while (now_ns() < deadline_ns);
	while (flying && (n = receive_some(fd, e->reply, &left)))
		flying -= n;
}

static const struct exchange *find_exchange(const char *name)
{
	for (unsigned i = 0; i < sizeof(exchanges) / sizeof(*exchanges); i++)
		if (!strcmp(exchanges[i].name, name))
			return &exchanges[i];
	return NULL;
}

int local_pingpong_knows(const char *name)
{
	return find_exchange(name) != NULL;
}

void local_pingpong(const char *name, unsigned depth, double seconds)
{
	const struct exchange *e = find_exchange(name);
	struct sockaddr_in sin;
	int listener = listen_somewhere(&sin), fd;
	struct watch w = { .pid = fork() };

	need(w.pid, "fork");
	if (!w.pid)
		answer(listener, e);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	need(fd, "socket");
	need(connect(fd, (struct sockaddr *)&sin, sizeof(sin)), "connect");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
	outcome = (struct outcome){ .pattern = name, .depth = depth, .connections = 1, .resident = -1 };
	sample_take(&w, &outcome.before);
	ask(fd, e, depth, now_ns() + (uint64_t)(seconds * 1e9));
	sample_take(&w, &outcome.after);
	outcome_print(&outcome, &w);
	close(fd);
	close(listener);
	waitpid(w.pid, NULL, 0);
}
