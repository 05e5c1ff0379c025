/*
 * tests/model/oracle.h - what a file may hold: the model that each state of the server is compared with.
 *
 * The file is a row of segments, which no operation of the model splits; every WRITE gives each segment it covers one value. The oracle numbers what changes the file
 * in the order in which it took effect (a WRITE when it is staged, a truncate when it returns), and keeps for each segment the values that a power cut now may leave there: the
 * newest that is known to be durable, and all that came after it. A value that is in no such list is a byte that nobody wrote, or one that was lost.
 *
 * On a disk that refuses writes for want of space, a stable WRITE may be refused: it may be there or not, as if it came after all that follows it and before. What was not
 * refused counts as ever. A READ may then find, of each byte, the last value that was not refused, or one that was and came later; and of WRITEs whose answer is still out both.
 */
#ifndef TESTS_MODEL_ORACLE_H
#define TESTS_MODEL_ORACLE_H

#include <stdbool.h>
#include <stdint.h>

struct sim_survivor;

enum { ORACLE_UNIT = 4096, ORACLE_UNITS = 3, ORACLE_SEGMENTS = 8, ORACLE_BYTES = ORACLE_UNIT * ORACLE_UNITS, ORACLE_OLD = 0x55 };

/* Where segments begin, and the end of the last: inside units 0 and 1 at 1000 and 3000, inside unit 2 at 1000. */
extern const uint64_t oracle_bound[ORACLE_SEGMENTS + 1];

/* Stops the process with the message; given by the program. */
__attribute__((format(printf, 1, 2), noreturn)) void oracle_fail(const char *fmt, ...);

/* A durable file of `size` bytes of `old`. */
void oracle_init(uint64_t size, uint8_t old);
struct oracle_write {
	uint64_t start, end;
	uint8_t value;
	bool stable;      /* answered only by oracle_stable() or oracle_refused() */
	unsigned in_hand; /* bit u: something of unit u was in hand before */
};

/* A WRITE takes effect now: its number. */
unsigned oracle_staged(const struct oracle_write *w);
/* The stable WRITE with that number is answered with an error. */
void oracle_refused(unsigned number);
/* The disk has refused something: from now on WRITEs may be refused. */
void oracle_disk_refuses(void);
/* It may take effect at any time from now on, until oracle_truncated() says that it has: its number. */
void oracle_truncate_begins(uint64_t size);
unsigned oracle_truncated(void);
unsigned oracle_now(void); /* the number of the last change */
/* What took effect up to `number` in [start, end) is promised to survive; end == UINT64_MAX: and the size, as it was then. */
void oracle_stable(uint64_t start, uint64_t end, unsigned number);
/* The stable WRITE with that number is answered: it survives. */
void oracle_answered(unsigned number, uint64_t start, uint64_t end);

/* Bytes [0, ORACLE_BYTES), of which `size` exist, are exactly the file. */
void oracle_check_content(const uint8_t *bytes, uint64_t size, const char *what);
/* A power cut may leave this. */
void oracle_check_survivor(const struct sim_survivor *s);
/*
 * What is known of units as long as the disk refuses nothing; no to each after that. WRITEs have given all bytes of the unit below the end of file since it was claimed:
 * whoever reads it from the device does so in vain.
 */
bool oracle_unit_is_covered(unsigned unit);
bool oracle_unit_is_whole(unsigned unit); /* the same of all its bytes */
/* WRITEs have given some of its bytes, but not all, and no truncate has touched the file. */
bool oracle_unit_waits(unsigned unit);
/* Of all that it knows. */
uint64_t oracle_hash(void);

#endif
