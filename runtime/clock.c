/* runtime/clock.c - time and randomness, from whichever backend is in use. */
#include "runtime/clock.h"

#include "runtime/backend.h"

uint64_t clock_mono_ns(void)
{
	return backend->mono_ns();
}

struct timespec clock_real(void)
{
	return backend->real();
}

void random_bytes(void *buf, size_t len)
{
	backend->random(buf, len);
}

uint64_t random_u64(void)
{
	uint64_t value;

	random_bytes(&value, sizeof(value));
	return value;
}
