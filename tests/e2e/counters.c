/*
 * counters.c: reads what --counters-file names. The daemon writes a new file and renames it there: that is waited for.
 */
#include "tests/e2e/counters.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

enum { WRITE_TIMEOUT_MS = 20000 };

/* The next event that names `name`, or false. */
static bool wait_for_name(int fd, const char *name)
{
	char events[4096] __attribute__((aligned(8)));
	struct pollfd p = { .fd = fd, .events = POLLIN };
	const struct inotify_event *e;
	ssize_t len, at;

	while (poll(&p, 1, WRITE_TIMEOUT_MS) == 1 && (len = read(fd, events, sizeof(events))) > 0)
		for (at = 0; at < len; at += (ssize_t)(sizeof(*e) + e->len)) {
			e = (const void *)(events + at);
			if (e->len && !strcmp(e->name, name))
				return true;
		}
	return false;
}

int counters_refresh(pid_t pid, const char *path)
{
	const char *name = strrchr(path, '/') + 1;
	int fd = inotify_init1(IN_CLOEXEC), r = 0;
	char dir[4096];

	if (fd < 0)
		return -errno;
	snprintf(dir, sizeof(dir), "%.*s", (int)(name - path), path);
	if (inotify_add_watch(fd, dir, IN_MOVED_TO) < 0 || kill(pid, SIGUSR1) < 0)
		r = -errno;
	else if (!wait_for_name(fd, name))
		r = -ETIMEDOUT;
	close(fd);
	return r;
}

long long counter_of(const char *path, const char *name)
{
	FILE *f = fopen(path, "r");
	char line[256], word[128];
	long long value, found = -1;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%127s %lld", word, &value) == 2 && !strcmp(word, name))
			found = value;
	if (f)
		fclose(f);
	return found;
}
