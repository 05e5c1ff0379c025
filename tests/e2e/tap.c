/*
 * tap.c: runs a table of tests and counts. State is that of the running test and the totals; checks may come from any
 * thread of a test, hence the lock.
 */
#include "tests/e2e/tap.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { FAILURES_SHOWN_MAX = 20 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned failures;
static bool skipped;
static char skip_reason[256];

static void vnote(const char *fmt, va_list args)
{
	printf("# ");
	vprintf(fmt, args);
	putchar('\n');
	fflush(stdout);
}

void tap_note(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vnote(fmt, args);
	va_end(args);
}

void tap_skip(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(skip_reason, sizeof(skip_reason), fmt, args);
	va_end(args);
	skipped = true;
}

unsigned tap_failures(void)
{
	unsigned n;

	pthread_mutex_lock(&lock);
	n = failures;
	pthread_mutex_unlock(&lock);
	return n;
}

bool tap_check(bool ok, const char *file, int line, const char *what, const char *fmt, ...)
{
	va_list args;

	if (ok)
		return true;
	pthread_mutex_lock(&lock);
	if (++failures <= FAILURES_SHOWN_MAX) {
		printf("# %s:%d: not so: %s", file, line, what);
		va_start(args, fmt);
		vprintf(fmt, args);
		va_end(args);
		putchar('\n');
		fflush(stdout);
	}
	pthread_mutex_unlock(&lock);
	return false;
}

bool tap_check_eq(long long got, long long want, const char *file, int line, const char *what)
{
	return tap_check(got == want, file, line, what, ": got %lld, want %lld", got, want);
}

static bool wanted(const char *name, int argc, char **argv)
{
	int i;

	for (i = 1; i < argc; i++)
		if (strstr(name, argv[i]))
			return true;
	return argc < 2;
}

int tap_run(const struct tap_test *tests, unsigned count, int argc, char **argv)
{
	unsigned i, n[3] = { 0 };

	for (i = 0; i < count; i++) {
		if (!wanted(tests[i].name, argc, argv))
			continue;
		failures = 0;
		skipped = false;
		tests[i].run();
		n[failures ? 1 : skipped ? 2 : 0]++;
		printf("%s %u - %s%s%s\n", failures ? "not ok" : "ok", i + 1, tests[i].name,
		       skipped && !failures ? " # SKIP " : "", skipped && !failures ? skip_reason : "");
		fflush(stdout);
	}
	printf("%u passed, %u failed, %u skipped\n", n[0], n[1], n[2]);
	return n[1] > 0;
}
