/*
 * runtime/log.h - the log (journal where stderr is one, stderr otherwise, with <N> priorities there) and trace points.
 *
 * What a remote peer can cause is logged through log_limited(): at most `burst` lines per site and ten seconds, then one line with the number held back.
 */
#ifndef RUNTIME_LOG_H
#define RUNTIME_LOG_H

#include "runtime/base.h"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_NOTICE, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

struct log_limit {
	uint64_t since_ns;
	unsigned count, dropped;
};

void log_set_level(enum log_level level);
noyield_fn void log_write(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
noyield_fn void log_limited(struct log_limit *limit, enum log_level level, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Trace points: off unless the environment's NFSDIRECT_TRACE lists their group ("cache,write" or "all"); a branch on a flag otherwise. */
enum trace_group { TRACE_CACHE = 1, TRACE_WRITE = 2, TRACE_READ = 4, TRACE_RPC = 8, TRACE_FILE = 16, TRACE_RUNTIME = 32, TRACE_ACCESS = 64 };
extern unsigned trace_mask;
/* Take the mask from the list's text; groups that it does not know are said in the log. runtime_init() does it with the environment's. */
void trace_parse(const char *groups);
noyield_fn void trace_emit(const char *point, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
#define TRACE(group, point, ...) ((trace_mask & (group)) ? trace_emit((point), __VA_ARGS__) : (void)0)

#endif
