/*
 * runtime/fault.c - named fault points.
 *
 * The table is changed by tests and read by reactors and pool threads, all through one leaf lock, taken only while something is armed.
 */
#include "runtime/fault.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/sync.h"

enum { ERRNO_END = 134, NAME_MAX_BYTES = 64 };

static const char *const names[FAULT_POINTS] = {
	[FAULT_BUF_ALLOC] = "buf.alloc",
	[FAULT_FIBER_SPAWN] = "fiber.spawn",
	[FAULT_FOLIO_ALLOC] = "folio.alloc",
	[FAULT_IO_ACCEPT] = "io.accept",
	[FAULT_IO_FSYNC] = "io.fsync",
	[FAULT_IO_FTRUNCATE] = "io.ftruncate",
	[FAULT_IO_READV] = "io.readv",
	[FAULT_IO_SHORT_READ] = "io.short_read",
	[FAULT_IO_SHORT_WRITE] = "io.short_write",
	[FAULT_IO_WRITEV] = "io.writev",
	[FAULT_NS_SYNC] = "ns.sync",
	[FAULT_OPEN_BY_HANDLE] = "open.by_handle",
};

/* protected by lock */
static struct {
	int error; /* 0: not armed */
	unsigned skip;
	unsigned count; /* 0: for ever */
} points[FAULT_POINTS];
static struct leaf_lock lock = LEAF_LOCK_INIT;

_Atomic unsigned fault_armed;

static void disarm_locked(enum fault_point p)
{
	if (points[p].error)
		fault_armed--;
	points[p].error = 0;
}

static int hit_locked(enum fault_point p)
{
	int error = points[p].error;

	if (!error)
		return 0;
	if (points[p].skip) {
		points[p].skip--;
		return 0;
	}
	if (points[p].count && --points[p].count == 0)
		disarm_locked(p);
	return error;
}

int fault_hit_slow(enum fault_point p)
{
	int error;

	leaf_lock(&lock);
	error = hit_locked(p);
	leaf_unlock(&lock);
	return error;
}

void fault_arm(enum fault_point p, int error, unsigned skip, unsigned count)
{
	ASSERT(p < FAULT_POINTS);
	ASSERT(error > 0);
	leaf_lock(&lock);
	if (!points[p].error)
		fault_armed++;
	points[p].error = error;
	points[p].skip = skip;
	points[p].count = count;
	leaf_unlock(&lock);
}

void fault_disarm_all(void)
{
	leaf_lock(&lock);
	for (unsigned p = 0; p < FAULT_POINTS; p++)
		disarm_locked(p);
	leaf_unlock(&lock);
}

const char *fault_name(enum fault_point p)
{
	return names[p];
}

static bool find_point(const char *name, enum fault_point *p)
{
	for (unsigned i = 0; i < FAULT_POINTS; i++)
		if (strcmp(names[i], name) == 0) {
			*p = i;
			return true;
		}
	return false;
}

static int find_errno(const char *name)
{
	for (int e = 1; e < ERRNO_END; e++) {
		const char *text = strerrorname_np(e);

		if (text && strcmp(text, name) == 0)
			return e;
	}
	return 0;
}

/* Copy up to the first character of `stops` or the end, and move *at there. */
static bool take_word(const char **at, const char *stops, char word[NAME_MAX_BYTES])
{
	size_t len = strcspn(*at, stops);

	if (len == 0 || len >= NAME_MAX_BYTES)
		return false;
	memcpy(word, *at, len);
	word[len] = '\0';
	*at += len;
	return true;
}

static bool take_number(const char **at, char mark, unsigned *number)
{
	char *end;

	if (**at != mark)
		return true;
	*number = strtoul(*at + 1, &end, 10);
	if (end == *at + 1)
		return false;
	*at = end;
	return true;
}

static bool parse_one(const char **at)
{
	char word[NAME_MAX_BYTES];
	enum fault_point p;
	unsigned skip = 0, count = 0;
	int error;

	if (!take_word(at, "=,", word) || !find_point(word, &p) || **at != '=')
		return false;
	(*at)++;
	if (!take_word(at, "@x,", word) || !(error = find_errno(word)))
		return false;
	if (!take_number(at, '@', &skip) || !take_number(at, 'x', &count))
		return false;
	if (**at != '\0' && **at != ',')
		return false;
	fault_arm(p, error, skip, count);
	return true;
}

int fault_parse(const char *spec, const char **bad)
{
	const char *at = spec;

	while (*at) {
		*bad = at;
		if (!parse_one(&at))
			return -EINVAL;
		at += *at == ',';
	}
	return 0;
}
