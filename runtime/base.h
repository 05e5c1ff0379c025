/*
 * runtime/base.h - the few words every layer uses: calling-context marks, assertions that stay on, alignment arithmetic.
 *
 * Calling contexts (each public prototype leads with one of them):
 *   fiber_fn    runs on a fiber and may yield: after it returns, what was true before is a guess unless a fiber lock held it.
 *   pool_fn     runs on a thread of the blocking pool and may block; never touches fibers or fiber locks.
 *   noyield_fn  runs anywhere on a reactor and never yields; state it guards may rely on that.
 */
#ifndef RUNTIME_BASE_H
#define RUNTIME_BASE_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define fiber_fn
#define pool_fn
#define noyield_fn

/* Abort with file, line and the condition's text. Stays on in release builds. For our own bugs only, never for wire, disk or kernel data. */
_Noreturn void runtime_panic(const char *file, int line, const char *what);
#define ASSERT(cond) ((cond) ? (void)0 : runtime_panic(__FILE__, __LINE__, #cond))

#define container_of(ptr, type, member) ((type *)((char *)(ptr) - offsetof(type, member)))
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

enum { PAGE_BYTES = 4096 };

/* `unit` is a power of two. */
static inline uint64_t align_down(uint64_t value, uint64_t unit) { return value & ~(unit - 1); }
static inline uint64_t align_up(uint64_t value, uint64_t unit) { return (value + unit - 1) & ~(unit - 1); }
static inline uint64_t min_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint64_t max_u64(uint64_t a, uint64_t b) { return a > b ? a : b; }

#endif
