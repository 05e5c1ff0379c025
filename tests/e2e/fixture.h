/*
 * fixture.h: what the raw tests stand on: one daemon with a handful of exports, one connection, the exports' root handles.
 *
 * $E2E_DISK (default: the work directory) is where the exports are made, $E2E_OTHER a second file system, $E2E_SMALL an
 * ext4 of 16 MiB, $E2E_QUOTA an ext4 with user quotas, $E2E_QGROUP a btrfs that holds 8 MiB at most; without those four the
 * tests that need them are skipped. Set up by fixture_start(), one per program.
 */
#ifndef TESTS_E2E_FIXTURE_H
#define TESTS_E2E_FIXTURE_H

#include "tests/e2e/daemon.h"
#include "tests/e2e/nfs3.h"
#include "tests/e2e/tap.h"

enum fixture_export { RW, RO, SQUASH, ALL, SECURE, DOOMED, OTHER, SMALL, QUOTA, QGROUP, FIXTURE_EXPORTS };

struct fixture {
	struct daemon daemon;
	struct client c;			/* root, on a connection of its own */
	const char *path[FIXTURE_EXPORTS];	/* NULL: not on this machine */
	struct fh root[FIXTURE_EXPORTS];
};

extern struct fixture fx;

/* Make the exports, start the daemon, mount all. Aborts if that fails. */
void fixture_start(void);
/* Test: the daemon ends with status 0 on SIGTERM. Last in each table. */
void test_clean_stop(void);

/* A new, empty directory in the export, made locally with mode 0777; its handle in fh; returns its local path. */
const char *fresh_dir(enum fixture_export export, struct fh *fh);
/* Local helpers for what the server must not be asked. They end the program when they fail. */
/* Ends the program with what the system said, unless ok. */
void must(bool ok, const char *what);
void put_file(const char *path, const void *data, size_t len, mode_t mode);
/* Reads at most size bytes of a local file; its length. */
size_t get_file(const char *path, void *data, size_t size);
struct stat;
struct stat local_stat(const char *path);
/* Bytes that depend on their place and on seed. */
void fill_pattern(void *data, size_t len, uint64_t seed);

#endif
