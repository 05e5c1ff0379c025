/*
 * main() of the unit tests in the ThreadSanitizer build (see criterion/criterion.h beside this file for why).
 *
 * Each test runs in a child of its own; its exit status is its result, with two values set aside for a failed assertion
 * and a skip. Tests run one after the other, in the order of their names, which is Criterion's too. Nothing here is
 * shared between threads.
 */
#include "tests/criterion-tsan/criterion/criterion.h"

#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXIT_ASSERTION = 97, EXIT_SKIPPED = 98, SKIP_REASON_MAX = 256 };

enum result { PASSED, FAILED, CRASHED, SKIPPED };

static struct criterion_test *tests;
static struct criterion_suite *suites;
static int reason_fd = -1;	/* in the child of a test: where a skip says why */

static int order(const struct criterion_test *a, const struct criterion_test *b)
{
	int r = strcmp(a->suite, b->suite);

	return r ? r : strcmp(a->name, b->name);
}

void criterion_tsan_add_test(struct criterion_test *test)
{
	struct criterion_test **at = &tests;

	while (*at && order(*at, test) < 0)
		at = &(*at)->next;
	test->next = *at;
	*at = test;
}

void criterion_tsan_add_suite(struct criterion_suite *suite)
{
	suite->next = suites;
	suites = suite;
}

void criterion_tsan_fail(const char *file, int line, const char *what, const char *fmt, ...)
{
	va_list args;

	fprintf(stderr, "[----] %s:%d: Assertion failed: %s\n[----]  ", file, line, what);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
	exit(EXIT_ASSERTION);
}

void criterion_tsan_skip(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vdprintf(reason_fd, fmt, args);
	va_end(args);
	exit(EXIT_SKIPPED);
}

static void inherit(struct criterion_test *test)
{
	struct criterion_suite *s = suites;

	while (s && strcmp(s->name, test->suite))
		s = s->next;
	if (!s)
		return;
	if (!test->options.init)
		test->options.init = s->options.init;
	if (!test->options.fini)
		test->options.fini = s->options.fini;
	if (!test->options.timeout)
		test->options.timeout = s->options.timeout;
}

static void __attribute__((noreturn)) run_in_child(const struct criterion_test *test)
{
	if (test->options.timeout)
		alarm((unsigned)test->options.timeout + 1);
	if (test->options.init)
		test->options.init();
	test->run();
	if (test->options.fini)
		test->options.fini();
	exit(0);
}

static enum result judge(const struct criterion_test *test, int status)
{
	if (WIFSIGNALED(status))
		return WTERMSIG(status) == test->options.signal ? PASSED : CRASHED;
	if (WEXITSTATUS(status) == EXIT_SKIPPED)
		return SKIPPED;
	if (test->options.signal)
		return FAILED;
	return WEXITSTATUS(status) == test->options.exit_code ? PASSED : FAILED;
}

static enum result run_test(struct criterion_test *test)
{
	char reason[SKIP_REASON_MAX] = "";
	enum result result;
	int fds[2], status;
	pid_t pid;

	if (test->options.disabled)
		return SKIPPED;
	inherit(test);
	if (pipe(fds) < 0 || (pid = fork()) < 0)
		abort();
	if (!pid) {
		reason_fd = fds[1];
		run_in_child(test);
	}
	close(fds[1]);
	waitpid(pid, &status, 0);
	result = judge(test, status);
	if (result == SKIPPED && read(fds[0], reason, sizeof(reason) - 1) > 0)
		fprintf(stderr, "[SKIP] %s::%s:%s\n", test->suite, test->name, reason);
	else if (result != PASSED)
		fprintf(stderr, "[FAIL] %s::%s: wait status 0x%x\n", test->suite, test->name, (unsigned)status);
	close(fds[0]);
	return result;
}

int main(void)
{
	unsigned count[SKIPPED + 1] = { 0 }, tested;
	struct criterion_test *t;

	for (t = tests; t; t = t->next)
		count[run_test(t)]++;
	tested = count[PASSED] + count[FAILED] + count[CRASHED];
	fprintf(stderr, "[====] Synthesis: Tested: %u | Passing: %u | Failing: %u | Crashing: %u\n", tested, count[PASSED],
		count[FAILED] + count[CRASHED], count[CRASHED]);
	return count[FAILED] + count[CRASHED] > 0;
}
