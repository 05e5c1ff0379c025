/*
 * local_calls.h: what calls without data cost without a server; each prints its lines as nfsload does.
 */
#ifndef TESTS_BENCH_LOCAL_CALLS_H
#define TESTS_BENCH_LOCAL_CALLS_H

/*
 * The metadata mix as system calls of one thread, 10 000 files in a directory under DIR: nothing is synced. DEPTH is that of the lines to compare with, DEVICE
 * what to watch, or NULL.
 */
void local_syscalls(const char *dir, unsigned depth, const char *device);

/*
 * Another process answers requests of the size that pattern NAME has (null, getattr, sequential READs and WRITEs) over TCP, and does nothing else: DEPTH are
 * outstanding on one connection for SECONDS.
 */
void local_pingpong(const char *name, unsigned depth, double seconds);
int local_pingpong_knows(const char *name);

#endif
