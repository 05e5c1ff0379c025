/*
 * tap.h: a table of tests, run in order in one process, with TAP-like output and the closing line that tests/tally reads.
 *
 * The end-to-end programs are not Criterion's because their tests share a daemon and connections. A failed check is
 * recorded and the test goes on; checks return their condition, so that a test may leave when going on makes no sense.
 */
#ifndef TESTS_E2E_TAP_H
#define TESTS_E2E_TAP_H

#include <stdbool.h>

struct tap_test {
	const char *name;
	void (*run)(void);
};

/* Run the tests whose names contain any of the arguments (all without arguments). Returns the program's exit status. */
int tap_run(const struct tap_test *tests, unsigned count, int argc, char **argv);

/* Mark the running test as skipped, with the reason; it should return then. */
void tap_skip(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* A line of comment in the output. */
void tap_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

bool tap_check(bool ok, const char *file, int line, const char *what, const char *fmt, ...) __attribute__((format(printf, 5, 6)));
bool tap_check_eq(long long got, long long want, const char *file, int line, const char *what);

/* Failed checks of the running test so far. */
unsigned tap_failures(void);

#define CHECK(cond, ...) tap_check(cond, __FILE__, __LINE__, #cond, " " __VA_ARGS__)
#define CHECK_EQ(got, want) tap_check_eq(got, want, __FILE__, __LINE__, #got " == " #want)

#endif
