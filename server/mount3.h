/* server/mount3.h - MOUNT's list of mounts, which DUMP shows: bounded, in memory, informative only (RFC 1813 appendix I). */
#ifndef SERVER_MOUNT3_H
#define SERVER_MOUNT3_H

#include <stddef.h>

void mount3_init(size_t mounts_max);
void mount3_fini(void);

#endif
