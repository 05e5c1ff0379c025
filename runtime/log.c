/*
 * runtime/log.c - log lines, trace points, and the panic.
 *
 * A line is formatted on the stack and leaves in one write(2), so lines of different threads do not mix. Where stderr is the journal (it says so in
 * JOURNAL_STREAM), a line starts with its priority; elsewhere with the program's name and its
 * level's. A panic names the fiber that it happened on.
 */
#include "runtime/log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/clock.h"
#include "runtime/fiber.h"
#include "runtime/reactor.h"

enum { LINE_BYTES = 1024, LIMIT_BURST = 10 };
static const uint64_t limit_period_ns = 10000000000;

static const struct { const char *name; int priority; } levels[] = {
	[LOG_LEVEL_ERROR] = { "error", 3 },
	[LOG_LEVEL_WARNING] = { "warning", 4 },
	[LOG_LEVEL_NOTICE] = { "notice", 5 },
	[LOG_LEVEL_INFO] = { "info", 6 },
	[LOG_LEVEL_DEBUG] = { "debug", 7 },
};

static const struct { const char *name; unsigned mask; } groups[] = {
	{ "access", TRACE_ACCESS },
	{ "all", ~0u },
	{ "cache", TRACE_CACHE },
	{ "file", TRACE_FILE },
	{ "read", TRACE_READ },
	{ "rpc", TRACE_RPC },
	{ "runtime", TRACE_RUNTIME },
	{ "write", TRACE_WRITE },
};

static _Atomic enum log_level log_level = LOG_LEVEL_INFO;
static bool to_journal; /* immutable after the constructor */
unsigned trace_mask;

/* Does the environment's JOURNAL_STREAM name the device and inode of our stderr? */
__attribute__((constructor)) static void find_journal(void)
{
	const char *text = getenv("JOURNAL_STREAM");
	struct stat st;
	uintmax_t dev, ino;

	if (!text || sscanf(text, "%ju:%ju", &dev, &ino) != 2 || fstat(STDERR_FILENO, &st))
		return;
	to_journal = st.st_dev == dev && st.st_ino == ino;
}

/* One message is one line, and moves no cursor of a terminal, whatever a peer put into the names in it. Bytes of UTF-8 stay. */
static void put_line(char line[LINE_BYTES], int head, int body)
{
	size_t len = head + body;

	if (len > LINE_BYTES - 2)
		len = LINE_BYTES - 2;
	for (size_t i = head; i < len; i++)
		if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
			line[i] = '?';
	line[len++] = '\n';
	/* Nobody to tell if stderr is gone. */
	if (write(STDERR_FILENO, line, len) < 0)
		return;
}

static void log_va(enum log_level level, const char *fmt, va_list ap)
{
	char line[LINE_BYTES];
	int head, body;

	if (level > atomic_load_explicit(&log_level, memory_order_relaxed))
		return;
	if (to_journal)
		head = snprintf(line, sizeof(line), "<%d>", levels[level].priority);
	else
		head = snprintf(line, sizeof(line), "%s: %s: ", program_invocation_short_name, levels[level].name);
	body = vsnprintf(line + head, sizeof(line) - head, fmt, ap);
	put_line(line, head, body);
}

void log_set_level(enum log_level level)
{
	atomic_store_explicit(&log_level, level, memory_order_relaxed);
}

void log_write(enum log_level level, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_va(level, fmt, ap);
	va_end(ap);
}

/* True if one more line may go; says how many were held back when a new period begins. The fields may be raced over by threads: that costs a line. */
static bool limit_passes(struct log_limit *limit, enum log_level level)
{
	uint64_t now = clock_mono_ns();
	unsigned dropped;

	if (now - __atomic_load_n(&limit->since_ns, __ATOMIC_RELAXED) >= limit_period_ns) {
		__atomic_store_n(&limit->since_ns, now, __ATOMIC_RELAXED);
		__atomic_store_n(&limit->count, 0, __ATOMIC_RELAXED);
		dropped = __atomic_exchange_n(&limit->dropped, 0, __ATOMIC_RELAXED);
		if (dropped)
			log_write(level, "(%u messages like the next were held back)", dropped);
	}
	if (__atomic_fetch_add(&limit->count, 1, __ATOMIC_RELAXED) < LIMIT_BURST)
		return true;
	__atomic_fetch_add(&limit->dropped, 1, __ATOMIC_RELAXED);
	return false;
}

void log_limited(struct log_limit *limit, enum log_level level, const char *fmt, ...)
{
	va_list ap;

	if (!limit_passes(limit, level))
		return;
	va_start(ap, fmt);
	log_va(level, fmt, ap);
	va_end(ap);
}

static void trace_add(const char *name, size_t len)
{
	for (unsigned i = 0; i < ARRAY_SIZE(groups); i++)
		if (strlen(groups[i].name) == len && memcmp(groups[i].name, name, len) == 0) {
			trace_mask |= groups[i].mask;
			return;
		}
	log_write(LOG_LEVEL_WARNING, "no trace group \"%.*s\"", (int)len, name);
}

void trace_parse(const char *text)
{
	trace_mask = 0;
	while (*text) {
		size_t len = strcspn(text, ",");

		if (len)
			trace_add(text, len);
		text += len;
		text += *text == ',';
	}
}

void trace_emit(const char *point, const char *fmt, ...)
{
	char line[LINE_BYTES];
	uint64_t now = clock_mono_ns();
	int reactor = reactor_self() ? (int)reactor_index() : -1;
	int head, body;
	va_list ap;

	head = snprintf(line, sizeof(line), "%" PRIu64 ".%06" PRIu64 " r%d %s: ", now / 1000000000, now / 1000 % 1000000, reactor, point);
	va_start(ap, fmt);
	body = vsnprintf(line + head, sizeof(line) - head, fmt, ap);
	va_end(ap);
	put_line(line, head, body);
}

void runtime_panic(const char *file, int line, const char *what)
{
	log_write(LOG_LEVEL_ERROR, "assertion failed at %s:%d: %s (reactor %d, %s)", file, line, what, reactor_self() ? (int)reactor_index() : -1,
	          fiber_self() ? "on a fiber" : "outside of fibers");
	if (fiber_self())
		fiber_dump(stderr);
	abort();
}
