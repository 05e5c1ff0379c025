/*
 * runtime/buf.c - payload memory.
 *
 * Size classes: up to 8 pages every page count is one; above, four to each power of two. Each class has a list of free bufs under its own leaf lock. The
 * structs come with their memory, one mapping each, and go with it: when the budget does not allow a fresh mapping, free bufs of other classes
 * are unmapped. So mapped <= budget always, and what is referenced is part of what is mapped.
 *
 * References: buf_alloc() gives one; the last buf_put(), on any thread, puts the buf on its class's list and wakes who waits for memory. A waiter counts
 * itself in `waiting` before it looks whether there is room, a put looks at `waiting` after it made room: one sees the other.
 */
#include "runtime/buf.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "runtime/counter.h"
#include "runtime/fault.h"
#include "runtime/sync.h"

enum {
	CLASSES_SINGLE = 8,   /* 1...8 pages */
	CLASS_STEPS = 4,      /* per power of two above */
	CLASSES = CLASSES_SINGLE + CLASS_STEPS * 15, /* up to LEN_MAX */
	LEN_MAX = 1 << 30,
};

struct pooled {
	struct buf buf;
	unsigned class;
	SLIST_ENTRY(pooled) link; /* protected by the class's lock */
};

struct class {
	_Alignas(64) size_t bytes; /* immutable after init */
	struct leaf_lock lock;
	SLIST_HEAD(, pooled) free; /* protected by lock */
};

static struct class classes[CLASSES];
static size_t budget; /* immutable between init and fini */
static _Atomic size_t mapped, in_use;

static struct leaf_lock wait_lock = LEAF_LOCK_INIT;
static struct fiber_cond room; /* protected by wait_lock */
static _Atomic unsigned waiting;

COUNTER_DEFINE(buf_fresh, "buf.mapped_fresh");
COUNTER_DEFINE(buf_refused, "buf.refused");
COUNTER_DEFINE(buf_waits, "buf.waits");

static unsigned class_of(size_t len)
{
	size_t pages = len ? (len + PAGE_BYTES - 1) / PAGE_BYTES : 1;
	unsigned power;

	if (pages <= CLASSES_SINGLE)
		return pages - 1;
	power = 63 - __builtin_clzl(pages - 1); /* 2^power < pages <= 2^(power + 1) */
	return CLASSES_SINGLE + (power - 3) * CLASS_STEPS + (pages - 1 - (1ul << power)) / ((1ul << power) / CLASS_STEPS);
}

static size_t class_bytes(unsigned class)
{
	unsigned power, step;

	if (class < CLASSES_SINGLE)
		return (class + 1) * (size_t)PAGE_BYTES;
	power = (class - CLASSES_SINGLE) / CLASS_STEPS + 3;
	step = (class - CLASSES_SINGLE) % CLASS_STEPS + 1;
	return ((1ul << power) + step * ((1ul << power) / CLASS_STEPS)) * PAGE_BYTES;
}

static struct pooled *take_free(unsigned class)
{
	struct class *c = &classes[class];
	struct pooled *p;

	leaf_lock(&c->lock);
	p = SLIST_FIRST(&c->free);
	if (p)
		SLIST_REMOVE_HEAD(&c->free, link);
	leaf_unlock(&c->lock);
	return p;
}

static void unmap(struct pooled *p)
{
	munmap(p->buf.data, p->buf.capacity);
	mapped -= p->buf.capacity;
	free(p);
}

/* Unmap free bufs, largest first, until `bytes` more fit into the budget or none is left. */
static void shrink_for(size_t bytes)
{
	for (unsigned class = CLASSES; class-- > 0;) {
		struct pooled *p;

		while (mapped + bytes > budget && (p = take_free(class)))
			unmap(p);
	}
}

static bool reserve(size_t bytes)
{
	if (mapped + bytes > budget)
		shrink_for(bytes);
	if (atomic_fetch_add(&mapped, bytes) + bytes <= budget)
		return true;
	mapped -= bytes;
	return false;
}

static struct pooled *map_fresh(unsigned class)
{
	size_t bytes = classes[class].bytes;
	struct pooled *p;

	if (!reserve(bytes))
		return NULL;
	p = malloc(sizeof(*p));
	if (!p)
		goto unreserve;
	p->buf.data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (p->buf.data == MAP_FAILED)
		goto free_struct;
	p->buf.capacity = bytes;
	p->class = class;
	counter_add(&buf_fresh, 1);
	return p;

free_struct:
	free(p);
unreserve:
	mapped -= bytes;
	return NULL;
}

static void wake_waiters(void)
{
	if (!waiting)
		return;
	leaf_lock(&wait_lock);
	fiber_cond_broadcast_locked(&room);
	leaf_unlock(&wait_lock);
}

int buf_init(size_t budget_bytes)
{
	for (unsigned i = 0; i < CLASSES; i++) {
		classes[i].bytes = class_bytes(i);
		leaf_lock_init(&classes[i].lock);
		SLIST_INIT(&classes[i].free);
	}
	fiber_cond_init(&room);
	budget = budget_bytes;
	return 0;
}

void buf_fini(void)
{
	struct pooled *p;

	ASSERT(in_use == 0);
	for (unsigned i = 0; i < CLASSES; i++) {
		while ((p = take_free(i)))
			unmap(p);
		leaf_lock_fini(&classes[i].lock);
	}
	ASSERT(mapped == 0);
	budget = 0;
}

struct buf *buf_alloc(size_t len)
{
	struct pooled *p = NULL;

	if (len <= min_u64(budget, LEN_MAX) && !fault_hit(FAULT_BUF_ALLOC)) {
		p = take_free(class_of(len));
		if (!p)
			p = map_fresh(class_of(len));
	}
	if (!p) {
		counter_add(&buf_refused, 1);
		return NULL;
	}
	atomic_store_explicit(&p->buf.refs, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&in_use, p->buf.capacity, memory_order_relaxed);
	return &p->buf;
}

struct buf *buf_get(struct buf *b)
{
	unsigned before = atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);

	ASSERT(before > 0);
	return b;
}

void buf_put(struct buf *b)
{
	struct pooled *p = container_of(b, struct pooled, buf);
	struct class *c = &classes[p->class];
	unsigned before = atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel);

	ASSERT(before > 0);
	if (before > 1)
		return;
	leaf_lock(&c->lock);
	SLIST_INSERT_HEAD(&c->free, p, link);
	leaf_unlock(&c->lock);
	in_use -= c->bytes;
	wake_waiters();
}

bool buf_is_exclusive(const struct buf *b)
{
	return atomic_load_explicit(&b->refs, memory_order_acquire) == 1;
}

size_t buf_bytes_in_use(void)
{
	return in_use;
}

int buf_wait(size_t len, uint64_t deadline_ns)
{
	size_t bytes;
	int err = 0;

	if (len > LEN_MAX || classes[class_of(len)].bytes > budget)
		return -ENOMEM;
	bytes = classes[class_of(len)].bytes;
	counter_add(&buf_waits, 1);
	leaf_lock(&wait_lock);
	waiting++;
	while (!err && in_use + bytes > budget)
		err = fiber_cond_wait_until(&room, &wait_lock, "buffer memory", deadline_ns);
	waiting--;
	leaf_unlock(&wait_lock);
	return err;
}
