/*
 * tests/fuzz/fuzz.h - what fuzz targets share.
 *
 * A target is one source with LLVMFuzzerTestOneInput(). Under --enable-fuzzing it is linked with libFuzzer; in the ordinary build with replay.c, which
 * runs the committed corpus (tests/fuzz/corpus/NAME/) in "make check". A target stops the program when a property does not hold.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void must(bool holds, const char *property)
{
	if (holds)
		return;
	fprintf(stderr, "does not hold: %s\n", property);
	abort();
}

#endif
