/*
 * counters.h: a daemon's counters, read while it runs. It must have been started with --counters-file.
 */
#ifndef TESTS_E2E_COUNTERS_H
#define TESTS_E2E_COUNTERS_H

#include <sys/types.h>

/* Have the daemon write its counters (SIGUSR1) and wait until it has. 0 or -errno (-ETIMEDOUT). */
int counters_refresh(pid_t pid, const char *path);
/* A counter's value in the file as it is; -1: it is not there. */
long long counter_of(const char *path, const char *name);

#endif
