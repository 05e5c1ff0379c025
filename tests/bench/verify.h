/*
 * verify.h: reads a file back through libnfs and compares it with the bytes that the patterns write.
 */
#ifndef TESTS_BENCH_VERIFY_H
#define TESTS_BENCH_VERIFY_H

#include <stdint.h>

/* Tells which generation of bytes stands at OFFSET, and lowers *UNTIL to where that ends. */
typedef unsigned generation_fn(uint64_t offset, uint64_t *until);

/* Ends the program if the file NAME in EXPORT is not SIZE bytes long or a byte of it differs. */
void verify_file(unsigned port, unsigned mount_port, const char *export, const char *name, uint64_t size, generation_fn *generation_at);

#endif
