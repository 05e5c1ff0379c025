/* runtime/clock.h - time and randomness: the only sources the server uses, so that a simulated run replays from its seed. */
#ifndef RUNTIME_CLOCK_H
#define RUNTIME_CLOCK_H

#include <time.h>

#include "runtime/base.h"

noyield_fn uint64_t clock_mono_ns(void);          /* CLOCK_MONOTONIC, ns */
/* The time as the kernel stamps files (CLOCK_REALTIME_COARSE: never ahead of a stamp that it gives later). */
noyield_fn struct timespec clock_real(void);
/* Fill buf with random bytes (getrandom; the simulated backend: from the seed). */
noyield_fn void random_bytes(void *buf, size_t len);
noyield_fn uint64_t random_u64(void);

#endif
