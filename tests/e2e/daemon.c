/*
 * daemon.c: starting and stopping the server under test. One thread per running daemon passes its standard error on and
 * recognises the ready line; daemon_start() waits for it on a condition. Everything else belongs to the main thread.
 */
#include "tests/e2e/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { READY_TIMEOUT_S = 60, STOP_TIMEOUT_S = 60, ARGS_MAX = 64, DAEMONS_MAX = 8 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ready = PTHREAD_COND_INITIALIZER;	/* ready_line is set, reloads has changed, or standard error has ended */

/* What text() gave out: kept, and kept in reach of the leak checker. */
static struct text {
	struct text *next;
	char *s;
} *texts;

static char work[256];
static pid_t work_owner;

static const char *program(void)
{
	const char *p = getenv("NFSDIRECTD");

	return p ? p : "./nfsdirectd";
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	remove(path);
	return 0;
}

static void remove_work(void)
{
	if (work_owner == getpid())
		nftw(work, remove_one, 32, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

const char *work_dir(void)
{
	const char *tmp = getenv("TMPDIR");

	if (*work)
		return work;
	snprintf(work, sizeof(work), "%s/nfsdirect-e2e.XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(work) || chmod(work, 0755) < 0)
		abort();
	work_owner = getpid();
	atexit(remove_work);
	return work;
}

const char *text(const char *fmt, ...)
{
	struct text *t = malloc(sizeof(*t));
	va_list args;

	va_start(args, fmt);
	if (!t || vasprintf(&t->s, fmt, args) < 0)
		abort();
	va_end(args);
	t->next = texts;
	texts = t;
	return t->s;
}

const char *work_subdir(const char *parent, const char *name, mode_t mode)
{
	const char *path = text("%s/%s", parent, name);

	if ((mkdir(path, mode) < 0 && errno != EEXIST) || chmod(path, mode) < 0) {
		printf("# %s: %s\n0 passed, 1 failed, 0 skipped\n", path, strerror(errno));
		exit(1);
	}
	return path;
}

/*
 * Daemons that run, 0 in free places: a test that ends without stopping its own takes them along. A parent's death signal does not do,
 * for the kernel forgets it when the daemon gives up a capability; after SIGKILL it is the lab's PID namespace that ends them.
 */
static pid_t alive[DAEMONS_MAX];

static void kill_alive(void)
{
	int i;

	for (i = 0; i < DAEMONS_MAX; i++)
		if (alive[i])
			kill(alive[i], SIGKILL);
}

static void alive_change(pid_t from, pid_t to)
{
	static bool registered;
	int i;

	if (!registered)
		atexit(kill_alive);
	registered = true;
	for (i = 0; i < DAEMONS_MAX && alive[i] != from; i++)
		;
	if (i == DAEMONS_MAX)
		abort();
	alive[i] = to;
}

/* A port that was free a moment ago, from below the range that outgoing connections are given theirs from. */
static int free_port(void)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), port;

	if (fd < 0)
		abort();
	do {
		port = 20000 + (int)arc4random_uniform(10000);
		sin.sin_port = htons((uint16_t)port);
	} while (bind(fd, (struct sockaddr *)&sin, sizeof(sin)) < 0);
	close(fd);
	return port;
}

static void see_line(struct daemon *d, const char *line)
{
	bool is_ready = strstr(line, "ready on"), failed = strstr(line, "the exports stay as they were");

	fprintf(stderr, "# daemon: %s", line);
	if (!is_ready && !failed && !strstr(line, "exports read again"))
		return;
	pthread_mutex_lock(&lock);
	if (is_ready) {
		snprintf(d->ready_line, sizeof(d->ready_line), "%s", line);
	} else {
		d->reloads++;
		d->reload_failed = failed;
	}
	pthread_cond_broadcast(&ready);
	pthread_mutex_unlock(&lock);
}

static void *read_stderr(void *arg)
{
	struct daemon *d = arg;
	FILE *f = fdopen(d->err_fd, "r");
	char line[1024];

	while (f && fgets(line, sizeof(line), f))
		see_line(d, line);
	if (f)
		fclose(f);
	pthread_mutex_lock(&lock);
	d->err_fd = -1;
	pthread_cond_broadcast(&ready);
	pthread_mutex_unlock(&lock);
	return NULL;
}

static void __attribute__((noreturn)) become_daemon(struct daemon *d, int err_fd)
{
	const char *args[ARGS_MAX] = { program(), "--foreground", "--bind", "127.0.0.1", "--port", text("%d", d->port),
				       "--state-dir", d->state_dir };
	unsigned n = 8, i;

	for (i = 0; i < DAEMON_EXPORTS_MAX && d->exports[i]; i++) {
		args[n++] = "--export";
		args[n++] = d->exports[i];
	}
	for (i = 0; i < DAEMON_EXTRA_MAX && d->extra[i]; i++)
		args[n++] = d->extra[i];
	if (d->files_max) {
		struct rlimit limit = { d->files_max, d->files_max };

		setrlimit(RLIMIT_NOFILE, &limit);
	}
	dup2(err_fd, STDERR_FILENO);
	execv(args[0], (char *const *)args);
	dprintf(err_fd, "cannot run %s: %s\n", args[0], strerror(errno));
	_exit(127);
}

static int wait_ready(struct daemon *d)
{
	struct timespec until;
	int r = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += READY_TIMEOUT_S;
	pthread_mutex_lock(&lock);
	while (!r && !*d->ready_line && d->err_fd >= 0)
		r = -pthread_cond_timedwait(&ready, &lock, &until);
	if (!*d->ready_line && !r)
		r = -ECHILD;
	pthread_mutex_unlock(&lock);
	return r;
}

int daemon_start(struct daemon *d)
{
	int fds[2], r;

	if (!*d->state_dir)
		snprintf(d->state_dir, sizeof(d->state_dir), "%s", work_subdir(work_dir(), text("state%u", arc4random()), 0700));
	if (!d->port)
		d->port = free_port();
	d->ready_line[0] = '\0';
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	d->pid = fork();
	if (d->pid < 0)
		abort();
	if (!d->pid)
		become_daemon(d, fds[1]);
	alive_change(0, d->pid);
	close(fds[1]);
	d->err_fd = fds[0];
	if (pthread_create(&d->err_thread, NULL, read_stderr, d))
		abort();
	r = wait_ready(d);
	if (r)
		daemon_kill(d);
	return r;
}

static int reap(struct daemon *d)
{
	int status;

	while (waitpid(d->pid, &status, 0) < 0 && errno == EINTR)
		;
	alive_change(d->pid, 0);
	pthread_join(d->err_thread, NULL);
	d->pid = 0;
	return status;
}

int daemon_stop(struct daemon *d)
{
	struct pollfd p = { .fd = (int)syscall(SYS_pidfd_open, d->pid, 0), .events = POLLIN };

	kill(d->pid, SIGTERM);
	if (p.fd < 0 || poll(&p, 1, STOP_TIMEOUT_S * 1000) < 1)
		kill(d->pid, SIGKILL);
	close(p.fd);
	return reap(d);
}

int daemon_reload(struct daemon *d)
{
	struct timespec until;
	unsigned before;
	int r = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += READY_TIMEOUT_S;
	pthread_mutex_lock(&lock);
	before = d->reloads;
	kill(d->pid, SIGHUP);
	while (!r && d->reloads == before && d->err_fd >= 0)
		r = -pthread_cond_timedwait(&ready, &lock, &until);
	if (!r)
		r = d->reloads == before ? -ECHILD : d->reload_failed ? -EINVAL : 0;
	pthread_mutex_unlock(&lock);
	return r;
}

void daemon_kill(struct daemon *d)
{
	kill(d->pid, SIGKILL);
	reap(d);
}

int daemon_run(const char *const *args, char *out, size_t size)
{
	const char *argv[ARGS_MAX] = { program() };
	size_t used = 0;
	ssize_t n;
	int fds[2], status, i;
	pid_t pid;

	for (i = 0; args[i] && i < ARGS_MAX - 2; i++)
		argv[i + 1] = args[i];
	if (pipe2(fds, O_CLOEXEC) < 0 || (pid = fork()) < 0)
		abort();
	if (!pid) {
		dup2(fds[1], STDOUT_FILENO);
		dup2(fds[1], STDERR_FILENO);
		alarm(READY_TIMEOUT_S);
		execv(argv[0], (char *const *)argv);
		_exit(127);
	}
	close(fds[1]);
	while (used + 1 < size && (n = read(fds[0], out + used, size - 1 - used)) > 0)
		used += (size_t)n;
	out[used] = '\0';
	close(fds[0]);
	waitpid(pid, &status, 0);
	return status;
}
