/*
 * pattern.c: names of patterns, and the bytes of the files.
 */
#include "tests/bench/pattern.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/sample.h"

enum { FILES_MAX = 100000 };

const char pattern_names[] =
	"write{RECORD}-{filesync|split|together|unstable}[-over]\n"
	"seqwrite-{unstable|filesync} seqread randread randwrite-{unstable|filesync}\n"
	"null getattr metadata files{COUNT}\n";

static const struct {
	const char *name;
	struct pattern pattern;
} fixed[] = {
	{ "seqwrite-unstable", { .kind = SEQ_WRITE, .record = 1 << 20 } },
	{ "seqwrite-filesync", { .kind = SEQ_WRITE, .record = 1 << 20, .stable = true } },
	{ "seqread", { .kind = SEQ_READ, .record = 1 << 20, .over = true } },
	{ "randread", { .kind = RAND_READ, .record = 4096, .over = true } },
	{ "randwrite-unstable", { .kind = RAND_WRITE, .record = 4096, .over = true } },
	{ "randwrite-filesync", { .kind = RAND_WRITE, .record = 4096, .over = true, .stable = true } },
	{ "null", { .kind = SMALL_CALLS } },
	{ "getattr", { .kind = SMALL_CALLS, .getattr = true } },
	{ "metadata", { .kind = METADATA } },
};

static const struct {
	const char *name;
	enum shape shape;
	bool stable;
} shapes[] = {
	{ "filesync", WHOLE, true },
	{ "split", ONE_THEN_OTHER, true },
	{ "together", TOGETHER, true },
	{ "unstable", TOGETHER, false },
};

static int parse_records(const char *name, struct pattern *p)
{
	char shape[32], over[8] = "";
	unsigned record, i;

	if (sscanf(name, "write%u-%31[a-z]-%7s", &record, shape, over) < 2 || record < 2 || record > BYTES_LEN_MAX)
		return -EINVAL;
	for (i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
		if (strcmp(shape, shapes[i].name) != 0)
			continue;
		*p = (struct pattern){ .kind = RECORDS, .shape = shapes[i].shape, .record = record, .stable = shapes[i].stable };
		p->over = strcmp(over, "over") == 0;
		return *over && !p->over ? -EINVAL : 0;
	}
	return -EINVAL;
}

static int parse_files(const char *name, struct pattern *p)
{
	char rest;

	*p = (struct pattern){ .kind = FILES };
	return sscanf(name, "files%u%c", &p->files, &rest) == 1 && p->files && p->files <= FILES_MAX ? 0 : -EINVAL;
}

int pattern_parse(const char *name, struct pattern *p)
{
	unsigned i;

	for (i = 0; i < sizeof(fixed) / sizeof(*fixed); i++)
		if (strcmp(name, fixed[i].name) == 0) {
			*p = fixed[i].pattern;
			return 0;
		}
	return strncmp(name, "files", 5) == 0 ? parse_files(name, p) : parse_records(name, p);
}

/* A client with a wsize of 32 KiB sends that much and the rest; smaller records are cut at the page. */
uint32_t pattern_cut(uint32_t record)
{
	if (record > 32768)
		return 32768;
	return record > 4096 ? 4096 : record / 2;
}

static uint8_t *bytes[2];

static uint8_t *bytes_make(uint64_t seed)
{
	uint8_t *b = malloc(BYTES_PERIOD + BYTES_LEN_MAX);
	size_t i;

	if (!b)
		die("no memory");
	for (i = 0; i < BYTES_PERIOD; i++)
		b[i] = (uint8_t)random_next(&seed);
	for (i = BYTES_PERIOD; i < BYTES_PERIOD + BYTES_LEN_MAX; i++)
		b[i] = b[i - BYTES_PERIOD];
	return b;
}

void bytes_init(void)
{
	bytes[0] = bytes_make(1);
	bytes[1] = bytes_make(2);
}

const uint8_t *bytes_at(unsigned generation, uint64_t offset)
{
	return bytes[generation] + offset % BYTES_PERIOD;
}

/* splitmix64 */
uint64_t random_next(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}
