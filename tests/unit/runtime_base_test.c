/* The small parts: fault points' text form, counters, log lines, trace groups, clock and randomness, arithmetic. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base.h"
#include "runtime/clock.h"
#include "runtime/counter.h"
#include "runtime/fault.h"
#include "runtime/io.h"
#include "runtime/log.h"
#include "tests/unit/runtime_harness.h"

COUNTER_DEFINE(counted, "test.counted");
COUNTER_DEFINE(counted_again, "test.counted");

/* What fn writes to stderr. */
static char *stderr_of(void (*fn)(void))
{
	static char text[8192], name[] = "test";
	int pipes[2], saved = dup(STDERR_FILENO);
	ssize_t len;

	program_invocation_short_name = name;
	cr_assert_eq(pipe(pipes), 0);
	dup2(pipes[1], STDERR_FILENO);
	fn();
	dup2(saved, STDERR_FILENO);
	close(pipes[1]);
	len = read(pipes[0], text, sizeof(text) - 1);
	close(pipes[0]);
	close(saved);
	text[len < 0 ? 0 : len] = '\0';
	return text;
}

Test(fault, names_are_sorted_and_found)
{
	const char *bad;
	char spec[64];

	for (unsigned p = 0; p < FAULT_POINTS; p++) {
		cr_assert(p == 0 || strcmp(fault_name(p - 1), fault_name(p)) < 0);
		snprintf(spec, sizeof(spec), "%s=ENOSPC", fault_name(p));
		cr_assert_eq(fault_parse(spec, &bad), 0);
		cr_assert_eq(fault_hit(p), ENOSPC);
	}
	fault_disarm_all();
	cr_assert_eq(fault_armed, 0);
}

Test(fault, skips_and_counts)
{
	const char *bad;

	cr_assert_eq(fault_parse("io.fsync=EIO@3x2,io.writev=ENOSPC", &bad), 0);
	for (unsigned i = 0; i < 3; i++)
		cr_assert_eq(fault_hit(FAULT_IO_FSYNC), 0);
	cr_assert_eq(fault_hit(FAULT_IO_FSYNC), EIO);
	cr_assert_eq(fault_hit(FAULT_IO_FSYNC), EIO);
	cr_assert_eq(fault_hit(FAULT_IO_FSYNC), 0);
	for (unsigned i = 0; i < 100; i++)
		cr_assert_eq(fault_hit(FAULT_IO_WRITEV), ENOSPC);
	cr_assert_eq(fault_armed, 1);
}

Test(fault, wrong_text_is_refused)
{
	static const char *const specs[] = { "nonsense=EIO", "io.fsync", "io.fsync=", "io.fsync=EWRONG", "io.fsync=EIO@", "io.fsync=EIO@x1", "io.fsync=EIOx",
		                             "io.fsync=EIO@1x1z", "=EIO", ",", "io.fsync=EIO,,io.fsync=EIO" };
	const char *bad;

	for (unsigned i = 0; i < ARRAY_SIZE(specs); i++)
		cr_assert_eq(fault_parse(specs[i], &bad), -EINVAL, "%s", specs[i]);
	cr_assert_str_eq(bad, ",io.fsync=EIO");
	cr_assert_eq(fault_parse("", &bad), 0);
}

static void *count_a_thousand(void *arg)
{
	for (unsigned i = 0; i < 1000; i++)
		counter_add(&counted, 1);
	return NULL;
}

static void count_on_reactor(void *arg, unsigned index)
{
	for (unsigned i = 0; i < 1000; i++)
		counter_add(&counted_again, index == 0 ? 1 : -1);
	runtime_stop();
}

Test(counter, sums_rows_threads_and_namesakes)
{
	const struct reactor_config config = { .reactors = 2, .fibers = 4 };
	pthread_t threads[4];
	char *text;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	for (unsigned i = 0; i < 4; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, count_a_thousand, NULL), 0);
	harness_run(&config, count_on_reactor, NULL);
	for (unsigned i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	cr_assert_eq(counter_read(&counted), 4000);
	cr_assert_eq(counter_read(&counted_again), 0);
	counter_add(&counted_again, 5);
	cr_assert_eq(counter_value("test.counted"), 4005);
	cr_assert_eq(counter_value("test.no_such"), 0);
	counter_dump(out);
	fclose(out);
	cr_assert_not_null(strstr(text, "test.counted 4000\n"));
	free(text);
}

static void log_levels(void)
{
	log_write(LOG_LEVEL_INFO, "one %d", 1);
	log_write(LOG_LEVEL_DEBUG, "hidden");
	log_set_level(LOG_LEVEL_DEBUG);
	log_write(LOG_LEVEL_DEBUG, "two");
}

Test(log, lines_have_levels)
{
	cr_assert_str_eq(stderr_of(log_levels), "test: info: one 1\ntest: debug: two\n");
}

static void log_hostile(void)
{
	log_write(LOG_LEVEL_NOTICE, "mount of %s", "/a\nerror: forged\x1b[2J\x7f \xc3\xa4");
}

Test(log, a_name_from_the_wire_makes_no_line_of_its_own)
{
	cr_assert_str_eq(stderr_of(log_hostile), "test: notice: mount of /a?error: forged?[2J? \xc3\xa4\n");
}

static void log_long(void)
{
	char text[3000];

	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	log_write(LOG_LEVEL_ERROR, "%s", text);
}

Test(log, long_lines_are_cut)
{
	const char *text = stderr_of(log_long);

	cr_assert_lt(strlen(text), 1025);
	cr_assert_eq(text[strlen(text) - 1], '\n');
}

static void log_flood(void)
{
	static struct log_limit limit;

	for (unsigned i = 0; i < 1000; i++)
		log_limited(&limit, LOG_LEVEL_WARNING, "flood");
	limit.since_ns -= 10000000000; /* as if the period were over */
	log_limited(&limit, LOG_LEVEL_WARNING, "flood");
}

Test(log, floods_are_limited)
{
	const char *text = stderr_of(log_flood);
	unsigned lines = 0;

	for (const char *at = text; (at = strstr(at, "warning: flood\n")); at++)
		lines++;
	cr_assert_eq(lines, 11);
	cr_assert_not_null(strstr(text, "(990 messages like the next were held back)"));
}

static void trace_some(void)
{
	trace_parse("cache,nonsense,rpc");
	TRACE(TRACE_CACHE, "folio", "index %d", 7);
	TRACE(TRACE_WRITE, "never", "seen");
	trace_parse("");
	TRACE(TRACE_CACHE, "never", "seen");
}

Test(trace, groups_switch_points_on)
{
	const char *text = stderr_of(trace_some);

	cr_assert_not_null(strstr(text, "no trace group \"nonsense\""));
	cr_assert_not_null(strstr(text, "folio: index 7\n"));
	cr_assert_null(strstr(text, "never"));
}

Test(clock, runs_forward_and_random_differs)
{
	uint64_t before = clock_mono_ns();
	struct timespec real = clock_real();

	cr_assert_geq(clock_mono_ns(), before);
	cr_assert_gt(real.tv_sec, 1600000000);
	cr_assert_neq(random_u64(), random_u64());
}

Test(base, alignment)
{
	cr_assert_eq(align_down(4097, 4096), 4096);
	cr_assert_eq(align_up(4097, 4096), 8192);
	cr_assert_eq(align_up(4096, 4096), 4096);
	cr_assert_eq(align_up(0, 4096), 0);
}

Test(iov, consume_splits_entries)
{
	char mem[10];
	struct iovec entries[4] = { { mem, 0 }, { mem, 3 }, { mem + 3, 0 }, { mem + 3, 7 } }, *iov = entries;
	unsigned n = 4;

	iov_consume(&iov, &n, 0);
	cr_assert_eq(n, 3);
	iov_consume(&iov, &n, 2);
	cr_assert(n == 3 && iov->iov_base == mem + 2 && iov->iov_len == 1);
	iov_consume(&iov, &n, 1);
	cr_assert(n == 1 && iov->iov_base == mem + 3 && iov->iov_len == 7);
	iov_consume(&iov, &n, 7);
	cr_assert_eq(n, 0);
}

Test(assert, failing_aborts, .signal = SIGABRT)
{
	ASSERT(1 + 1 == 3);
}
