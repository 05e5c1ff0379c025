/*
 * pattern.h: what can be run, by name, against a server (nfsload) or without one (local); and the bytes that are written.
 */
#ifndef TESTS_BENCH_PATTERN_H
#define TESTS_BENCH_PATTERN_H

#include <stdbool.h>
#include <stdint.h>

enum pattern_kind { RECORDS, SEQ_WRITE, SEQ_READ, RAND_READ, RAND_WRITE, SMALL_CALLS, METADATA, FILES };

/* How a record of the RECORDS kind is written. */
enum shape { WHOLE, ONE_THEN_OTHER, TOGETHER };

struct pattern {
	enum pattern_kind kind;
	enum shape shape;
	uint32_t record;	/* bytes per operation */
	bool stable;		/* FILE_SYNC; otherwise UNSTABLE and one COMMIT */
	bool over;		/* over data that is there already */
	bool getattr;		/* SMALL_CALLS: GETATTR, not NULL */
	unsigned files;		/* FILES: how many */
};

/* Returns 0, or -EINVAL if no pattern has that name. */
int pattern_parse(const char *name, struct pattern *p);
/* The names, for a usage message. */
extern const char pattern_names[];

/* Where a record is cut in two. */
uint32_t pattern_cut(uint32_t record);

/*
 * The bytes of a file are a function of their offset and of a generation (0: what was there before, 1: what overwrites it): a random
 * block whose length is prime, over and over. bytes_at() is good for BYTES_LEN_MAX bytes.
 */
enum { BYTES_PERIOD = 1048583, BYTES_LEN_MAX = 2 << 20 };

void bytes_init(void);
const uint8_t *bytes_at(unsigned generation, uint64_t offset);

/* Numbers for the random patterns: the same in each run. */
uint64_t random_next(uint64_t *state);

#endif
