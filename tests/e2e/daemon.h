/*
 * daemon.h: a daemon of the test's own, on a free loopback port, with a state directory of its own.
 *
 * The program is $NFSDIRECTD (default ./nfsdirectd). It ends with the test at the latest. Its standard error goes to ours, line by line.
 */
#ifndef TESTS_E2E_DAEMON_H
#define TESTS_E2E_DAEMON_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

enum { DAEMON_EXPORTS_MAX = 16, DAEMON_EXTRA_MAX = 8 };

struct daemon {
	/* set before daemon_start(), kept over restarts */
	const char *exports[DAEMON_EXPORTS_MAX];	/* PATH(options), NULL after the last */
	const char *extra[DAEMON_EXTRA_MAX];		/* further arguments, NULL after the last */
	rlim_t files_max;				/* RLIMIT_NOFILE, 0: as ours */
	char state_dir[256];
	/* set by daemon_start() */
	pid_t pid;
	int port;	/* stays the same over restarts */
	int err_fd;
	pthread_t err_thread;
	char ready_line[1024];
	unsigned reloads;	/* what it said about them so far */
	bool reload_failed;	/* the last one */
};

/* Start it and wait for its ready line. 0 or -errno (-ETIMEDOUT, -ECHILD: it ended before it was ready). */
int daemon_start(struct daemon *d);
/* SIGTERM, then wait. Returns the wait status; SIGKILL follows after a minute. */
int daemon_stop(struct daemon *d);
/* SIGHUP, then wait until it has read the exports again. 0, -EINVAL if it stays with the old ones, -ETIMEDOUT, -ECHILD. */
int daemon_reload(struct daemon *d);
/* SIGKILL, then wait. */
void daemon_kill(struct daemon *d);
/* Start it with arguments of the caller's and wait for its end: wait status; its output, cut to size, in out. */
int daemon_run(const char *const *args, char *out, size_t size);

/* A new directory under $TMPDIR or /tmp, removed with all in it when the test ends. */
const char *work_dir(void);
/* "DIR/NAME" in a string that lives as long as the test; made as a directory with that mode. */
const char *work_subdir(const char *parent, const char *name, mode_t mode);
/* printf into a string that lives as long as the test. */
const char *text(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
