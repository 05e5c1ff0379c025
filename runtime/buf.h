/*
 * runtime/buf.h - refcounted memory for payloads, from pools, born page-aligned.
 *
 * A buf is received into, adopted by folios and sent from, without copies: each of these holds a reference; the last put, on any thread, returns it
 * to its size class. All bufs of the process count against one budget (buf_init()); buf_alloc() fails beyond it and the caller reacts as its
 * layer says (a connection stops reading its socket). Size classes are a quarter of a power of two apart, so at most a fifth is slack, unless memory is
 * short and a larger buf serves. Bufs are carved from chunks of huge pages where there are some: to a device, one is a physical segment or two.
 */
#ifndef RUNTIME_BUF_H
#define RUNTIME_BUF_H

#include "runtime/base.h"

struct buf {
	/* immutable while referenced */
	uint8_t *data;   /* page-aligned */
	size_t capacity; /* bytes at data, a multiple of PAGE_BYTES */
	/* atomic: shared by reactors */
	_Atomic unsigned refs;
};

/* budget_bytes bounds the memory of all bufs, free ones that are kept for reuse included (at most a quarter lies in chunks wholly free). 0 or -errno. */
int buf_init(size_t budget_bytes);
void buf_fini(void); /* asserts that none is referenced */

/* One reference, contents undefined. NULL: the budget is used up, by bufs in use or by chunks that they keep from being empty (counted). */
noyield_fn struct buf *buf_alloc(size_t len);
noyield_fn struct buf *buf_get(struct buf *b);
noyield_fn void buf_put(struct buf *b);
/* Nobody but the caller holds a reference. */
noyield_fn bool buf_is_exclusive(const struct buf *b);
/* Bytes in referenced bufs now. */
noyield_fn size_t buf_bytes_in_use(void);
/* Abort unless the allocator's invariants hold (tests). */
noyield_fn void buf_check(void);
/*
 * Park the fiber until buf_alloc(len) may succeed again (a put happened), or deadline_ns passes (-ETIMEDOUT). -ENOMEM: it never
 * can, the budget is smaller.
 */
fiber_fn int buf_wait(size_t len, uint64_t deadline_ns);

#endif
