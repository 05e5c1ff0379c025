/*
 * runtime/buf.c - payload memory.
 *
 * Size classes: up to 8 pages every page count is one; above, four to each power of two. A class's bufs are carved from chunks of 4 MiB that ask for
 * huge pages: a buf is then one physical segment or two, which a device takes in one request and the kernel pins in one step. A class of more than half
 * a chunk has chunks of one buf. A budget below 64 MiB has smaller chunks (a sixteenth), so that a few classes do not use it up; below 2 MiB they are of
 * small pages.
 *
 * A chunk is full (on no list), partial (on its class's list), or empty: on its class's list of these and on `empties`, last emptied first. An empty one
 * is still its class's, but any other class may adopt it rather than have a fresh one, and what lies empty beyond a quarter of the budget (as much as is
 * written out and refilled at a time) goes back to the kernel, longest empty first. Allocation takes from the partial chunk that was full last, and in it
 * the buf that was put last: chunks fill up while others run empty, and memory is warm. When neither an empty chunk nor the budget is left, a free
 * buf of a larger class serves, slack or not.
 *
 * The budget counts chunks, from before they are mapped until after they are unmapped: mapped <= budget always. Pages come when they are first touched.
 * The structs stand in the chunk's header, apart from the memory, which is therefore nothing but payload; they are carved when first needed.
 *
 * References: buf_alloc() gives one; the last buf_put(), on any thread, makes the buf free and wakes who waits for memory. One leaf lock guards it all;
 * it is never held over a system call, so chunks on their way to or from the kernel are on no list and only their maker knows them. Whatever ends
 * such a passage wakes the waiters, as a put does.
 *
 * Under AddressSanitizer a free buf is poisoned.
 */
#include "runtime/buf.h"

#include <bsd/sys/queue.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "runtime/counter.h"
#include "runtime/fault.h"
#include "runtime/sync.h"

#if defined(__SANITIZE_ADDRESS__)
#define HAVE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAVE_ASAN 1
#endif
#endif

enum {
	CLASSES_SINGLE = 8,   /* 1...8 pages */
	CLASS_STEPS = 4,      /* per power of two above */
	CLASSES = CLASSES_SINGLE + CLASS_STEPS * 15, /* up to LEN_MAX */
	LEN_MAX = 1 << 30,
	HUGE_BYTES = 2 << 20,
	CHUNK_BYTES = 2 * HUGE_BYTES,
	CHUNKS_MIN = 16,      /* in the budget: else they are smaller */
	EMPTY_SHARE = 4,      /* of the budget may lie in empty chunks */
	LINE_BYTES = 64,
};

struct pooled {
	_Alignas(LINE_BYTES) struct buf buf; /* neighbours are counted by different reactors */
	struct chunk *chunk;       /* immutable */
	SLIST_ENTRY(pooled) link;  /* protected by lock */
};

struct chunk {
	/* immutable */
	uint8_t *base;
	size_t bytes;
	/* protected by lock */
	struct class *class;
	unsigned used;             /* bufs that are referenced */
	unsigned carved;           /* slots that are bufs of this class, free or used */
	SLIST_HEAD(, pooled) free;
	TAILQ_ENTRY(chunk) link;   /* the class's partial or empty chunks */
	TAILQ_ENTRY(chunk) empty_link;
	struct pooled slot[];
};

TAILQ_HEAD(chunk_list, chunk);

struct class {
	/* immutable after init */
	_Alignas(LINE_BYTES) size_t bytes;
	size_t chunk_bytes;
	unsigned slots;            /* bufs in a chunk: more than 1 if the chunk may serve other classes */
	/* protected by lock */
	struct chunk_list partial; /* full last first */
	struct chunk_list empty;   /* emptied last first */
};

/* immutable between init and fini */
static struct class classes[CLASSES];
static size_t budget, chunk_bytes;

static struct leaf_lock lock = LEAF_LOCK_INIT;
/* protected by lock */
static struct chunk_list empties;
static size_t mapped, empty_bytes;
static struct fiber_cond room;
static unsigned waiting;
/* written under lock; atomic: read without */
static _Atomic size_t in_use;

COUNTER_DEFINE(buf_fresh, "buf.mapped_fresh");
COUNTER_DEFINE(buf_unmapped, "buf.unmapped");
COUNTER_DEFINE(buf_refused, "buf.refused");
COUNTER_DEFINE(buf_waits, "buf.waits");

#ifdef HAVE_ASAN
#include <sanitizer/asan_interface.h>

static void poison(uint8_t *data, size_t bytes) { __asan_poison_memory_region(data, bytes); }
static void unpoison(uint8_t *data, size_t bytes) { __asan_unpoison_memory_region(data, bytes); }
#else
static void poison(uint8_t *data, size_t bytes) { }
static void unpoison(uint8_t *data, size_t bytes) { }
#endif

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

static void add_in_use_locked(ssize_t bytes)
{
	atomic_store_explicit(&in_use, atomic_load_explicit(&in_use, memory_order_relaxed) + bytes, memory_order_relaxed);
}

static void wake_waiters_locked(void)
{
	if (waiting)
		fiber_cond_broadcast_locked(&room);
}

/* Chunks. */

static void enlist_empty_locked(struct chunk *ch)
{
	TAILQ_INSERT_HEAD(&ch->class->empty, ch, link);
	TAILQ_INSERT_HEAD(&empties, ch, empty_link);
	empty_bytes += ch->bytes;
}

static void delist_empty_locked(struct chunk *ch)
{
	ASSERT(ch->used == 0);
	TAILQ_REMOVE(&ch->class->empty, ch, link);
	TAILQ_REMOVE(&empties, ch, empty_link);
	empty_bytes -= ch->bytes;
}

/* Anonymous memory, aligned to huge pages and asking for them if it is large enough. */
static uint8_t *map_memory(size_t bytes)
{
	size_t slack = bytes >= HUGE_BYTES ? HUGE_BYTES - PAGE_BYTES : 0, before;
	uint8_t *p = mmap(NULL, bytes + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED || slack == 0)
		return p;
	before = align_up((uintptr_t)p, HUGE_BYTES) - (uintptr_t)p;
	if (before)
		munmap(p, before);
	if (before < slack)
		munmap(p + before + bytes, slack - before);
	(void)madvise(p + before, bytes, MADV_HUGEPAGE); /* advice: small pages work as well */
	return p + before;
}

/* `ch` is on no list, and its bytes are counted in `mapped` until they are really gone. */
static void unmap_chunk(struct chunk *ch)
{
	unpoison(ch->base, ch->bytes);
	munmap(ch->base, ch->bytes);
	counter_add(&buf_unmapped, 1);
	leaf_lock(&lock);
	mapped -= ch->bytes;
	wake_waiters_locked();
	leaf_unlock(&lock);
	free(ch);
}

/* Its bytes are reserved. NULL: the kernel has none. */
static struct chunk *map_chunk(struct class *c)
{
	size_t slots = c->slots > 1 ? c->chunk_bytes / PAGE_BYTES : 1;
	struct chunk *ch = aligned_alloc(LINE_BYTES, sizeof(*ch) + slots * sizeof(ch->slot[0]));

	if (!ch)
		return NULL;
	ch->base = map_memory(c->chunk_bytes);
	if (ch->base == MAP_FAILED) {
		free(ch);
		return NULL;
	}
	ch->bytes = c->chunk_bytes;
	ch->used = 0;
	poison(ch->base, ch->bytes);
	counter_add(&buf_fresh, 1);
	return ch;
}

/* An empty chunk, on no list, becomes c's. */
static void give_chunk_locked(struct class *c, struct chunk *ch)
{
	ASSERT(ch->used == 0);
	ASSERT(ch->bytes == c->chunk_bytes);
	ch->class = c;
	ch->carved = 0;
	SLIST_INIT(&ch->free);
	enlist_empty_locked(ch);
}

/* Make the chunk that is empty for the longest time c's. NULL: there is none of its size. */
static struct chunk *adopt_empty_locked(struct class *c)
{
	struct chunk *ch;

	if (c->slots == 1)
		return NULL;
	TAILQ_FOREACH_REVERSE(ch, &empties, chunk_list, empty_link) {
		if (ch->class->slots == 1)
			continue;
		delist_empty_locked(ch);
		give_chunk_locked(c, ch);
		return ch;
	}
	return NULL;
}

static struct chunk *retire_oldest_locked(void)
{
	struct chunk *ch = TAILQ_LAST(&empties, chunk_list);

	delist_empty_locked(ch);
	return ch;
}

/* Empty chunks beyond what may be kept go back to the kernel. */
static void unmap_surplus(void)
{
	struct chunk *ch;

	do {
		leaf_lock(&lock);
		ch = empty_bytes > budget / EMPTY_SHARE ? retire_oldest_locked() : NULL;
		leaf_unlock(&lock);
		if (ch)
			unmap_chunk(ch);
	} while (ch);
}

static bool can_reserve_locked(size_t bytes)
{
	return mapped - empty_bytes + bytes <= budget;
}

/* Count `bytes` as mapped, for which empty chunks are unmapped if need be. False: the budget does not allow it. */
static bool reserve(size_t bytes)
{
	struct chunk *ch;
	bool done;

	do {
		ch = NULL;
		leaf_lock(&lock);
		done = mapped + bytes <= budget;
		if (done)
			mapped += bytes;
		else if (can_reserve_locked(bytes))
			ch = retire_oldest_locked();
		leaf_unlock(&lock);
		if (ch)
			unmap_chunk(ch);
	} while (ch);
	return done;
}

/* Bufs. */

static struct pooled *carve_locked(struct chunk *ch)
{
	struct pooled *p = &ch->slot[ch->carved];

	ASSERT(ch->carved < ch->class->slots);
	p->buf.data = ch->base + ch->carved++ * ch->class->bytes;
	p->buf.capacity = ch->class->bytes;
	p->chunk = ch;
	return p;
}

static struct pooled *take_from_locked(struct chunk *ch)
{
	struct class *c = ch->class;
	struct pooled *p = SLIST_FIRST(&ch->free);

	if (p)
		SLIST_REMOVE_HEAD(&ch->free, link);
	else
		p = carve_locked(ch);
	if (ch->used == 0) {
		delist_empty_locked(ch);
		TAILQ_INSERT_TAIL(&c->partial, ch, link);
	}
	if (++ch->used == c->slots)
		TAILQ_REMOVE(&c->partial, ch, link);
	add_in_use_locked(c->bytes);
	return p;
}

static void give_back_locked(struct pooled *p)
{
	struct chunk *ch = p->chunk;
	struct class *c = ch->class;

	ASSERT(ch->used > 0);
	SLIST_INSERT_HEAD(&ch->free, p, link);
	if (ch->used-- == c->slots)
		TAILQ_INSERT_HEAD(&c->partial, ch, link);
	if (ch->used == 0) {
		TAILQ_REMOVE(&c->partial, ch, link);
		enlist_empty_locked(ch);
	}
	add_in_use_locked(-(ssize_t)c->bytes);
}

static struct pooled *take_locked(struct class *c)
{
	struct chunk *ch = TAILQ_FIRST(&c->partial);

	if (!ch)
		ch = TAILQ_FIRST(&c->empty);
	if (!ch)
		ch = adopt_empty_locked(c);
	return ch ? take_from_locked(ch) : NULL;
}

/* The smallest class from c on that has a partial chunk, or NULL. */
static struct class *partial_class_locked(struct class *c)
{
	for (; c < classes + CLASSES && c->slots > 1; c++)
		if (!TAILQ_EMPTY(&c->partial))
			return c;
	return NULL;
}

/* There is nothing free that c may have: map, or make do with a larger buf. */
static struct pooled *take_fresh(struct class *c)
{
	bool reserved = reserve(c->chunk_bytes);
	struct chunk *ch = reserved ? map_chunk(c) : NULL;
	struct class *larger;
	struct pooled *p;

	leaf_lock(&lock);
	if (ch)
		give_chunk_locked(c, ch);
	else if (reserved)
		mapped -= c->chunk_bytes;
	p = take_locked(c);
	if (!p && (larger = partial_class_locked(c)))
		p = take_locked(larger);
	if (reserved)
		wake_waiters_locked();
	leaf_unlock(&lock);
	return p;
}

static void init_class(struct class *c, size_t bytes)
{
	c->bytes = bytes;
	c->chunk_bytes = bytes <= chunk_bytes / 2 ? chunk_bytes : bytes;
	c->slots = c->chunk_bytes / bytes;
	TAILQ_INIT(&c->partial);
	TAILQ_INIT(&c->empty);
}

int buf_init(size_t budget_bytes)
{
	budget = budget_bytes;
	chunk_bytes = min_u64(CHUNK_BYTES, align_down(budget / CHUNKS_MIN, PAGE_BYTES));
	for (unsigned i = 0; i < CLASSES; i++)
		init_class(&classes[i], class_bytes(i));
	TAILQ_INIT(&empties);
	fiber_cond_init(&room);
	return 0;
}

void buf_fini(void)
{
	ASSERT(in_use == 0);
	budget = 0;
	unmap_surplus();
	ASSERT(empty_bytes == 0);
	ASSERT(mapped == 0);
}

struct buf *buf_alloc(size_t len)
{
	struct pooled *p = NULL;

	if (len <= min_u64(budget, LEN_MAX) && !fault_hit(FAULT_BUF_ALLOC)) {
		struct class *c = &classes[class_of(len)];

		leaf_lock(&lock);
		p = take_locked(c);
		leaf_unlock(&lock);
		if (!p)
			p = take_fresh(c);
	}
	if (!p) {
		counter_add(&buf_refused, 1);
		return NULL;
	}
	unpoison(p->buf.data, p->buf.capacity);
	atomic_store_explicit(&p->buf.refs, 1, memory_order_relaxed);
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
	unsigned before = atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel);
	bool surplus;

	ASSERT(before > 0);
	if (before > 1)
		return;
	poison(b->data, b->capacity);
	leaf_lock(&lock);
	give_back_locked(container_of(b, struct pooled, buf));
	surplus = empty_bytes > budget / EMPTY_SHARE;
	wake_waiters_locked();
	leaf_unlock(&lock);
	if (surplus)
		unmap_surplus();
}

void buf_check(void)
{
	size_t empty = 0;
	struct chunk *ch;

	leaf_lock(&lock);
	TAILQ_FOREACH(ch, &empties, empty_link) {
		ASSERT(ch->used == 0);
		empty += ch->bytes;
	}
	ASSERT(empty == empty_bytes);
	for (struct class *c = classes; c < classes + CLASSES; c++) {
		TAILQ_FOREACH(ch, &c->partial, link) {
			ASSERT(ch->class == c);
			ASSERT(ch->used > 0);
			ASSERT(ch->used < c->slots);
			ASSERT(ch->carved >= ch->used);
		}
		TAILQ_FOREACH(ch, &c->empty, link) {
			ASSERT(ch->class == c);
			empty -= ch->bytes;
		}
	}
	ASSERT(empty == 0);
	ASSERT(mapped <= budget);
	ASSERT(in_use + empty_bytes <= mapped);
	leaf_unlock(&lock);
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
	struct class *c;
	int err = 0;

	if (len > LEN_MAX || classes[class_of(len)].chunk_bytes > budget)
		return -ENOMEM;
	c = &classes[class_of(len)];
	counter_add(&buf_waits, 1);
	leaf_lock(&lock);
	waiting++;
	while (!err && !partial_class_locked(c) && !can_reserve_locked(c->chunk_bytes))
		err = fiber_cond_wait_until(&room, &lock, "buffer memory", deadline_ns);
	waiting--;
	leaf_unlock(&lock);
	return err;
}
