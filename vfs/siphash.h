/* vfs/siphash.h - SipHash-2-4 (Aumasson, Bernstein 2012): a short keyed hash, for signatures of handles and for names of file systems. */
#ifndef VFS_SIPHASH_H
#define VFS_SIPHASH_H

#include "runtime/base.h"

enum { SIPHASH_KEY_BYTES = 16 };

noyield_fn uint64_t siphash24(const uint8_t key[SIPHASH_KEY_BYTES], const void *data, size_t len);

#endif
