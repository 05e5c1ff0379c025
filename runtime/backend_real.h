/* runtime/backend_real.h - what the backends on a real kernel share: ring or poll, the same pool, clocks and descriptors. Private to runtime/. */
#ifndef RUNTIME_BACKEND_REAL_H
#define RUNTIME_BACKEND_REAL_H

#include <time.h>

#include "runtime/base.h"

struct backend;
struct io_op;
struct pool_job;
struct reactor;
struct statx;

extern const struct backend backend_poll;

/* 0 if the kernel lets this process have a ring that can do what backend_uring needs, or -errno. */
int backend_uring_probe(void);

/* The members of struct backend that both have in common. */
void pool_submit_to_threads(struct reactor *r, struct pool_job *job);
int real_fstatx(int fd, unsigned mask, struct statx *stx);
int real_shutdown(int fd);
uint64_t real_mono_ns(void);
struct timespec real_real(void);
void real_random(void *buf, size_t len);
unsigned real_pick(struct reactor *r, unsigned n);
/* An eventfd of r's was written to by real_nudge_fd(); it is never closed while another thread might nudge. */
void real_nudge_fd(int fd);

#endif
