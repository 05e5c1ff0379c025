/*
 * runtime/fault.h - named points where tests inject failure. One sorted list; off, a load and a branch.
 *
 * Armed by fault_arm() in tests, or by the environment's NFSDIRECT_FAULTS="name=errno[@skip][xcount],..." in a daemon under test
 * ("io.fsync=EIO@3x1": the fourth fsync fails, once).
 */
#ifndef RUNTIME_FAULT_H
#define RUNTIME_FAULT_H

#include "runtime/base.h"

enum fault_point {
	FAULT_BUF_ALLOC,
	FAULT_FIBER_SPAWN,
	FAULT_FOLIO_ALLOC,
	FAULT_IO_ACCEPT,
	FAULT_IO_FSYNC,
	FAULT_IO_FTRUNCATE,
	FAULT_IO_READV,
	FAULT_IO_SHORT_READ,
	FAULT_IO_SHORT_WRITE,
	FAULT_IO_WRITEV,
	FAULT_NS_SYNC,
	FAULT_OPEN_BY_HANDLE,
	FAULT_POINTS,
};

extern _Atomic unsigned fault_armed; /* number of armed points */
noyield_fn int fault_hit_slow(enum fault_point p);
/* 0, or the errno (positive) that the point should fail with now. */
static inline int fault_hit(enum fault_point p) { return fault_armed ? fault_hit_slow(p) : 0; }
/* After `skip` passes fail `count` times (0: for ever) with `error`. */
void fault_arm(enum fault_point p, int error, unsigned skip, unsigned count);
void fault_disarm_all(void);
const char *fault_name(enum fault_point p);
/* Parse the environment's form. 0, or -EINVAL with *bad at the offending text. */
int fault_parse(const char *spec, const char **bad);

#endif
