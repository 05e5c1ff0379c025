/*
 * runtime/sim_disk.c - what the simulated disk holds now, and what it would hold after a power cut.
 *
 * A file is a sparse tree of blocks and a size. Every block knows three things: its content now (what reads see), its durable content, and the
 * versions in between: each change of a block since its last sync, oldest first, with the number of the change (disk.seq, rising). The size has
 * such a list too. Contents are immutable and refcounted, so that a version costs a pointer when nobody wrote in between.
 *
 * A sync remembers the number of the last change when it is submitted; when it ends, of every block the newest version not above that number becomes
 * the durable one, and older ones are forgotten. What completed meanwhile stays in the lists: it may survive a cut, or not.
 *
 * A power cut first decides how much of the *metadata* survived: a prefix of the size changes in their order, as a journal gives it. Then each
 * block chooses by itself one of durable content and versions, so that writes are reordered and torn at block boundaries. Two rules make that
 * honest towards a journalled file system:
 *
 *   - A truncate or punched hole that is inside the surviving prefix applies to whatever the block chose before it; one that is outside makes
 *     later versions of the block unreachable (their new extent was never recorded).
 *   - Blocks past the surviving size are gone, and the last block is zero past it. A block below it that kept nothing is a hole: zeros,
 *     never somebody else's bytes.
 *
 * Uniform choices would almost never lose all or keep all of a large write, so a cut first draws a mood.
 *
 * Memory: a block that is rewritten for ever without a sync would gather versions for ever. Beyond VERSIONS_MAX a random one is forgotten (it then
 * is one that never reached the medium), but never while a sync is in flight, for that one might be the one it has to keep.
 */
#include "runtime/sim_disk.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/sim.h"

enum { VERSIONS_MAX = 12, SIZE_CHANGES_MAX = 64, SURVIVORS_MAX = 64 };

/* Immutable once another struct points to it. */
struct disk_content {
	unsigned refs;
	uint64_t hash; /* of the bytes; 0: not asked for yet */
	uint8_t bytes[];
};

struct disk_version {
	STAILQ_ENTRY(disk_version) link;
	uint64_t seq;
	struct disk_content *content;  /* of the whole block after this change; NULL: a hole */
	uint32_t zero_start, zero_end; /* a metadata change that zeroed this range; equal: a write */
};

STAILQ_HEAD(disk_versions, disk_version);

struct disk_block {
	RB_ENTRY(disk_block) link;
	uint64_t index;
	bool allocated;                /* takes space, written or not */
	struct disk_content *now, *durable;
	struct disk_versions versions; /* not durable, oldest first; the last one's content is `now` */
	unsigned versions_count;
};

struct disk_size_change {
	STAILQ_ENTRY(disk_size_change) link;
	uint64_t seq;
	uint64_t size;
};

/* How a cut chooses. */
enum disk_mood { MOOD_LOSE, MOOD_KEEP, MOOD_MIX, MOODS };

static int block_compare(const struct disk_block *a, const struct disk_block *b)
{
	return a->index < b->index ? -1 : a->index > b->index;
}

RB_GENERATE_INTERNAL(disk_blocks, disk_block, link, block_compare, static __attribute__((unused)))

static void *must_alloc(size_t size)
{
	void *mem = calloc(1, size);

	ASSERT(mem);
	return mem;
}

static struct disk_content *content_get(struct disk_content *c)
{
	if (c)
		c->refs++;
	return c;
}

static void content_put(struct disk_content *c)
{
	if (c && --c->refs == 0)
		free(c);
}

static void content_replace(struct disk_content **slot, struct disk_content *c)
{
	struct disk_content *old = *slot;

	*slot = content_get(c);
	content_put(old);
}

/* A private copy, one reference. */
static struct disk_content *content_copy(const struct disk *d, const struct disk_content *from)
{
	struct disk_content *c = must_alloc(sizeof(*c) + d->block_bytes);

	c->refs = 1;
	if (from)
		memcpy(c->bytes, from->bytes, d->block_bytes);
	return c;
}

/* `from` with zeros in [start, end), one reference; a hole where nothing is left. */
static struct disk_content *content_zeroed(const struct disk *d, const struct disk_content *from, uint32_t start, uint32_t end)
{
	struct disk_content *c;

	if (!from || (start == 0 && end == d->block_bytes))
		return NULL;
	c = content_copy(d, from);
	memset(c->bytes + start, 0, end - start);
	return c;
}

static struct disk_block *block_find(const struct disk_file *f, uint64_t index)
{
	struct disk_block key = { .index = index };

	return RB_FIND(disk_blocks, (struct disk_blocks *)&f->blocks, &key);
}

static struct disk_block *block_from(const struct disk_file *f, uint64_t index)
{
	struct disk_block key = { .index = index };

	return RB_NFIND(disk_blocks, (struct disk_blocks *)&f->blocks, &key);
}

static struct disk_block *block_make(struct disk_file *f, uint64_t index)
{
	struct disk_block *b = block_find(f, index);

	if (b)
		return b;
	b = must_alloc(sizeof(*b));
	b->index = index;
	STAILQ_INIT(&b->versions);
	RB_INSERT(disk_blocks, &f->blocks, b);
	return b;
}

static void block_set_allocated(struct disk_file *f, struct disk_block *b, bool allocated)
{
	int64_t step = (int64_t)allocated - (int64_t)b->allocated;

	b->allocated = allocated;
	f->allocated += step;
	f->disk->allocated += step;
}

static void block_forget_version(struct disk_block *b, struct disk_version *v)
{
	STAILQ_REMOVE(&b->versions, v, disk_version, link);
	b->versions_count--;
	content_put(v->content);
	free(v);
}

static void block_free(struct disk_file *f, struct disk_block *b)
{
	while (!STAILQ_EMPTY(&b->versions))
		block_forget_version(b, STAILQ_FIRST(&b->versions));
	block_set_allocated(f, b, false);
	content_put(b->now);
	content_put(b->durable);
	RB_REMOVE(disk_blocks, &f->blocks, b);
	free(b);
}

/* Nothing in it that a read, a cut or the space count could ask for. */
static bool block_is_idle(const struct disk_block *b)
{
	return !b->allocated && !b->now && !b->durable && STAILQ_EMPTY(&b->versions);
}

/* Forget one of the writes that a newer version follows. */
static void block_limit_versions(struct disk_file *f, struct disk_block *b)
{
	struct disk_version *v = STAILQ_FIRST(&b->versions);
	uint64_t skip;

	if (b->versions_count <= VERSIONS_MAX || f->syncs_in_flight)
		return;
	for (skip = sim_random_draw(&f->disk->random, VERSIONS_MAX); skip; skip--)
		v = STAILQ_NEXT(v, link);
	if (v->zero_start == v->zero_end)
		block_forget_version(b, v);
}

/* The block becomes `content` (whose reference this takes) by change number seq. */
static void block_change(struct disk_file *f, struct disk_block *b, struct disk_content *content, uint32_t zero_start, uint32_t zero_end)
{
	struct disk_version *v = must_alloc(sizeof(*v));

	v->seq = f->disk->seq;
	v->content = content;
	v->zero_start = zero_start;
	v->zero_end = zero_end;
	content_replace(&b->now, content);
	STAILQ_INSERT_TAIL(&b->versions, v, link);
	b->versions_count++;
	block_limit_versions(f, b);
}

static void block_zero(struct disk_file *f, struct disk_block *b, uint32_t start, uint32_t end)
{
	if (b->now || b->durable || !STAILQ_EMPTY(&b->versions))
		block_change(f, b, content_zeroed(f->disk, b->now, start, end), start, end);
}

/* The newest version not above seq becomes durable; older ones go. */
static void block_settle(struct disk_block *b, uint64_t seq, bool durable)
{
	struct disk_version *v;

	while ((v = STAILQ_FIRST(&b->versions)) && v->seq <= seq) {
		if (durable)
			content_replace(&b->durable, v->content);
		block_forget_version(b, v);
	}
}

static bool block_has_zeroing(const struct disk_block *b, uint64_t seq)
{
	const struct disk_version *v;

	STAILQ_FOREACH(v, &b->versions, link)
		if (v->seq <= seq && v->zero_start != v->zero_end)
			return true;
	return false;
}

/*
 * After a failed sync: durable, or lost for good though still seen. Truncated and punched blocks stay as they are: their fate is the journal's.
 */
static void block_settle_failed(struct disk_file *f, struct disk_block *b, uint64_t seq)
{
	if (!block_has_zeroing(b, seq))
		block_settle(b, seq, sim_random_draw(&f->disk->random, 2));
}

static bool mood_takes(struct disk *d, enum disk_mood mood, unsigned rivals)
{
	if (mood == MOOD_MIX)
		return sim_random_draw(&d->random, rivals) == 0;
	return mood == MOOD_KEEP;
}

/* What a cut leaves of the block, one reference: see the rules above. Changes of metadata up to meta_seq survived. */
static struct disk_content *block_survivor(struct disk_file *f, struct disk_block *b, uint64_t meta_seq, enum disk_mood mood)
{
	struct disk_content *kept = content_get(b->durable), *zeroed;
	struct disk_version *v;
	unsigned rivals = 1;

	STAILQ_FOREACH(v, &b->versions, link) {
		if (v->zero_start == v->zero_end) {
			if (mood_takes(f->disk, mood, ++rivals))
				content_replace(&kept, v->content);
		} else if (v->seq <= meta_seq) {
			zeroed = content_zeroed(f->disk, kept, v->zero_start, v->zero_end);
			content_put(kept);
			kept = zeroed;
		} else if (v->zero_end - v->zero_start == f->disk->block_bytes) {
			break;
		}
	}
	return kept;
}

static void block_cut(struct disk_file *f, struct disk_block *b, uint64_t meta_seq, enum disk_mood mood)
{
	uint64_t start = b->index * f->disk->block_bytes;
	struct disk_content *kept = block_survivor(f, b, meta_seq, mood), *clipped;

	if (start + f->disk->block_bytes > f->size) {
		clipped = content_zeroed(f->disk, kept, start >= f->size ? 0 : f->size - start, f->disk->block_bytes);
		content_put(kept);
		kept = clipped;
	}
	block_settle(b, UINT64_MAX, false);
	content_replace(&b->now, kept);
	content_replace(&b->durable, kept);
	content_put(kept);
	block_set_allocated(f, b, kept != NULL);
	if (block_is_idle(b))
		block_free(f, b);
}

static void size_forget(struct disk_file *f, struct disk_size_change *c)
{
	STAILQ_REMOVE(&f->size_changes, c, disk_size_change, link);
	f->size_changes_count--;
	free(c);
}

/* A change of metadata: the size, or a hole at the same size. */
static void size_change(struct disk_file *f, uint64_t size)
{
	struct disk_size_change *c = must_alloc(sizeof(*c)), *old = STAILQ_FIRST(&f->size_changes);
	uint64_t skip;

	c->seq = f->disk->seq;
	c->size = f->size = size;
	STAILQ_INSERT_TAIL(&f->size_changes, c, link);
	if (++f->size_changes_count <= SIZE_CHANGES_MAX || f->syncs_in_flight)
		return;
	for (skip = sim_random_draw(&f->disk->random, SIZE_CHANGES_MAX); skip; skip--)
		old = STAILQ_NEXT(old, link);
	size_forget(f, old);
}

static void size_settle(struct disk_file *f, uint64_t seq)
{
	struct disk_size_change *c;

	while ((c = STAILQ_FIRST(&f->size_changes)) && c->seq <= seq) {
		f->durable_size = c->size;
		size_forget(f, c);
	}
}

/* Choose the surviving prefix, set both sizes by it: the number of its last change (0: none). */
static uint64_t size_cut(struct disk_file *f, enum disk_mood mood)
{
	uint64_t take = mood == MOOD_LOSE ? 0 : f->size_changes_count;
	uint64_t seq = 0;
	struct disk_size_change *c;

	if (mood == MOOD_MIX)
		take = sim_random_draw(&f->disk->random, f->size_changes_count + 1);
	while ((c = STAILQ_FIRST(&f->size_changes))) {
		if (take) {
			take--;
			seq = c->seq;
			f->durable_size = c->size;
		}
		size_forget(f, c);
	}
	f->size = f->durable_size;
	return seq;
}

static void file_free(struct disk_file *f)
{
	struct disk_block *b;

	while ((b = RB_MIN(disk_blocks, &f->blocks)))
		block_free(f, b);
	while (!STAILQ_EMPTY(&f->size_changes))
		size_forget(f, STAILQ_FIRST(&f->size_changes));
	free(f);
}

static void file_cut(struct disk_file *f)
{
	struct sim_random_state *random = &f->disk->random;
	enum disk_mood data = sim_random_draw(random, MOODS);
	uint64_t meta_seq = size_cut(f, sim_random_draw(random, MOODS));
	struct disk_block *b, *next;

	RB_FOREACH_SAFE(b, disk_blocks, &f->blocks, next)
		block_cut(f, b, meta_seq, data);
	if (sim_random_draw(random, 2))
		f->durable_times = f->times;
	f->times = f->durable_times;
	f->syncs_in_flight = 0;
	disk_check(f);
}

void disk_init(struct disk *d, uint32_t block_bytes, uint64_t disk_bytes, uint64_t seed)
{
	ASSERT(block_bytes && (block_bytes & (block_bytes - 1)) == 0);
	*d = (struct disk){ .block_bytes = block_bytes, .blocks_max = disk_bytes / block_bytes, .random = { seed } };
	LIST_INIT(&d->files);
}

/* Files that lost their name are freed by whoever holds them. */
void disk_fini(struct disk *d)
{
	while (!LIST_EMPTY(&d->files))
		disk_unlink(LIST_FIRST(&d->files));
	ASSERT(d->allocated == 0);
}

struct disk_file *disk_find(struct disk *d, uint64_t number)
{
	struct disk_file *f;

	LIST_FOREACH(f, &d->files, link)
		if (f->number == number)
			return f;
	return NULL;
}

struct disk_file *disk_open(struct disk *d, uint64_t number, struct timespec now)
{
	struct disk_file *f = disk_find(d, number);

	if (f)
		return disk_get(f);
	f = must_alloc(sizeof(*f));
	f->disk = d;
	f->number = number;
	f->refs = 1;
	f->btime = now;
	f->times = f->durable_times = (struct disk_times){ now, now };
	RB_INIT(&f->blocks);
	STAILQ_INIT(&f->size_changes);
	LIST_INSERT_HEAD(&d->files, f, link);
	return disk_get(f);
}

struct disk_file *disk_get(struct disk_file *f)
{
	ASSERT(f->refs);
	f->refs++;
	return f;
}

void disk_put(struct disk_file *f)
{
	ASSERT(f->refs);
	if (--f->refs == 0)
		file_free(f);
}

void disk_unlink(struct disk_file *f)
{
	ASSERT(!f->unlinked);
	f->unlinked = true;
	LIST_REMOVE(f, link);
	disk_put(f);
}

size_t disk_read(const struct disk_file *f, void *mem, size_t len, uint64_t offset, bool *device)
{
	uint32_t unit = f->disk->block_bytes;
	const struct disk_block *b;
	size_t done, part, skip;

	*device = false;
	if (offset >= f->size)
		return 0;
	len = min_u64(len, f->size - offset);
	for (done = 0; done < len; done += part) {
		skip = (offset + done) & (unit - 1);
		part = min_u64(len - done, unit - skip);
		b = block_find(f, (offset + done) / unit);
		if (b && b->now) {
			memcpy((uint8_t *)mem + done, b->now->bytes + skip, part);
			*device = true;
		} else {
			memset((uint8_t *)mem + done, 0, part);
		}
	}
	return len;
}

uint64_t disk_room(const struct disk *d)
{
	if (!d->blocks_max)
		return UINT64_MAX;
	return d->allocated + d->others < d->blocks_max ? d->blocks_max - d->allocated - d->others : 0;
}

void disk_set_room(struct disk *d, uint64_t blocks)
{
	d->others = d->allocated + blocks < d->blocks_max ? d->blocks_max - d->allocated - blocks : 0;
}

uint64_t disk_missing(const struct disk_file *f, uint64_t offset, uint64_t len)
{
	uint64_t unit = f->disk->block_bytes, last = (offset + len - 1) / unit, missing;
	struct disk_block *b;

	if (!len)
		return 0;
	missing = last - offset / unit + 1;
	for (b = block_from(f, offset / unit); b && b->index <= last; b = RB_NEXT(disk_blocks, &f->blocks, b))
		missing -= b->allocated;
	return missing;
}

static bool is_allocated(const struct disk_file *f, uint64_t index)
{
	const struct disk_block *b = block_find(f, index);

	return b && b->allocated;
}

/* Blocks from `index` on, below `end`, that have space; or that have none. */
static uint64_t count_alike(const struct disk_file *f, uint64_t index, uint64_t end, bool allocated)
{
	uint64_t at = index;

	while (at < end && is_allocated(f, at) == allocated)
		at++;
	return at - index;
}

/* Space for the range, hole by hole: each all of it or, unless `whole`, what there is. Where it ended, in bytes from offset on. */
static uint64_t reserve(struct disk_file *f, uint64_t offset, uint64_t len, bool whole)
{
	uint64_t unit = f->disk->block_bytes, end = align_up(offset + len, unit) / unit, at = offset / unit, hole, take;

	for (;;) {
		at += count_alike(f, at, end, true);
		hole = count_alike(f, at, end, false);
		take = disk_room(f->disk) >= hole ? hole : whole ? 0 : disk_room(f->disk);
		for (uint64_t i = 0; i < take; i++)
			block_set_allocated(f, block_make(f, at + i), true);
		at += take;
		if (take < hole)
			return at * unit > offset ? at * unit - offset : 0;
		if (at == end)
			return len;
	}
}

uint64_t disk_reserve(struct disk_file *f, uint64_t offset, uint64_t len)
{
	return reserve(f, offset, len, false);
}

uint64_t disk_reserve_whole(struct disk_file *f, uint64_t offset, uint64_t len)
{
	return reserve(f, offset, len, true);
}

uint64_t disk_allocated_up_to(const struct disk_file *f, uint64_t offset, uint64_t len)
{
	uint64_t unit = f->disk->block_bytes, at = offset / unit;

	at += count_alike(f, at, align_up(offset + len, unit) / unit, true);
	return at * unit > offset ? min_u64(at * unit - offset, len) : 0;
}

static void write_part(struct disk_file *f, const void *mem, size_t len, uint64_t offset)
{
	uint32_t unit = f->disk->block_bytes, skip = offset & (unit - 1);
	struct disk_block *b = block_find(f, offset / unit);
	struct disk_content *content;

	ASSERT(len && skip + len <= unit);
	ASSERT(b && b->allocated);
	content = content_copy(f->disk, b->now);
	memcpy(content->bytes + skip, mem, len);
	block_change(f, b, content, 0, 0);
}

void disk_write_part(struct disk_file *f, const void *mem, size_t len, uint64_t offset)
{
	f->disk->seq++;
	write_part(f, mem, len, offset);
}

static void grow(struct disk_file *f, uint64_t size)
{
	if (size > f->size)
		size_change(f, size);
}

/* One change number for all parts: a sync has the write or has it not. */
void disk_write(struct disk_file *f, const void *mem, size_t len, uint64_t offset)
{
	uint32_t unit = f->disk->block_bytes;
	size_t done, part;

	f->disk->seq++;
	for (done = 0; done < len; done += part) {
		part = min_u64(len - done, unit - ((offset + done) & (unit - 1)));
		write_part(f, (const uint8_t *)mem + done, part, offset + done);
	}
	if (len)
		grow(f, offset + len);
}

void disk_grow(struct disk_file *f, uint64_t size)
{
	f->disk->seq++;
	grow(f, size);
}

static void zero_range(struct disk_file *f, uint64_t start, uint64_t end, bool release)
{
	uint64_t unit = f->disk->block_bytes, at;
	struct disk_block *b, *next;
	uint32_t from, to;

	for (b = block_from(f, start / unit); b && b->index * unit < end; b = next) {
		next = RB_NEXT(disk_blocks, &f->blocks, b);
		at = b->index * unit;
		from = at < start ? start - at : 0;
		to = min_u64(end - at, unit);
		block_zero(f, b, from, to);
		if (release && to - from == unit)
			block_set_allocated(f, b, false);
		if (block_is_idle(b))
			block_free(f, b);
	}
}

void disk_truncate(struct disk_file *f, uint64_t size)
{
	f->disk->seq++;
	size_change(f, size);
	zero_range(f, size, INT64_MAX, true);
}

void disk_zero(struct disk_file *f, uint64_t start, uint64_t end, bool release)
{
	f->disk->seq++;
	size_change(f, f->size);
	zero_range(f, start, end, release);
}

void disk_set_times(struct disk_file *f, struct timespec now)
{
	f->times = (struct disk_times){ now, now };
}

void disk_sync_begin(struct disk_file *f, struct disk_sync *s, uint64_t start, uint64_t end)
{
	*s = (struct disk_sync){ .seq = f->disk->seq, .start = start, .end = end, .times = f->times };
	f->syncs_in_flight++;
}

void disk_sync_end(struct disk_file *f, const struct disk_sync *s, enum disk_sync_result result)
{
	uint64_t unit = f->disk->block_bytes;
	struct disk_block *b, *next;

	ASSERT(f->syncs_in_flight);
	f->syncs_in_flight--;
	for (b = block_from(f, s->start / unit); b && b->index * unit < s->end; b = next) {
		next = RB_NEXT(disk_blocks, &f->blocks, b);
		if (result == DISK_SYNC_FAILED)
			block_settle_failed(f, b, s->seq);
		else
			block_settle(b, s->seq, true);
		if (block_is_idle(b))
			block_free(f, b);
	}
	if (result != DISK_SYNC_FAILED)
		size_settle(f, s->seq);
	if (result == DISK_SYNC_ALL)
		f->durable_times = s->times;
	disk_check(f);
}

void disk_cut(struct disk *d)
{
	struct disk_file *f;

	LIST_FOREACH(f, &d->files, link)
		file_cut(f);
}

static void copy_block(struct disk_file *to, const struct disk_block *from)
{
	struct disk_block *b = block_make(to, from->index);
	const struct disk_version *v;
	struct disk_version *mine;

	b->now = content_get(from->now);
	b->durable = content_get(from->durable);
	b->allocated = from->allocated;
	STAILQ_FOREACH(v, &from->versions, link) {
		mine = must_alloc(sizeof(*mine));
		*mine = *v;
		content_get(mine->content);
		STAILQ_INSERT_TAIL(&b->versions, mine, link);
		b->versions_count++;
	}
}

struct disk_file *disk_copy(const struct disk_file *f, struct disk *d)
{
	struct disk_file *copy = must_alloc(sizeof(*copy));
	const struct disk_size_change *c;
	struct disk_size_change *mine;
	struct disk_block *b;

	*d = *f->disk;
	LIST_INIT(&d->files);
	*copy = *f;
	copy->disk = d;
	RB_INIT(&copy->blocks);
	STAILQ_INIT(&copy->size_changes);
	RB_FOREACH(b, disk_blocks, (struct disk_blocks *)&f->blocks)
		copy_block(copy, b);
	STAILQ_FOREACH(c, &f->size_changes, link) {
		mine = must_alloc(sizeof(*mine));
		*mine = *c;
		STAILQ_INSERT_TAIL(&copy->size_changes, mine, link);
	}
	return copy;
}

void disk_copy_fini(struct disk_file *f)
{
	file_free(f);
}

/* The contents that block_survivor() may come to, one reference each: how many. */
static unsigned block_candidates(const struct disk_file *f, const struct disk_block *b, uint64_t meta_seq, struct disk_content *candidate[])
{
	const struct disk_version *v;
	unsigned n = 1, i;

	candidate[0] = content_get(b->durable);
	STAILQ_FOREACH(v, &b->versions, link) {
		ASSERT(n < SURVIVORS_MAX);
		if (v->zero_start == v->zero_end) {
			candidate[n++] = content_get(v->content);
		} else if (v->seq <= meta_seq) {
			for (i = 0; i < n; i++) {
				struct disk_content *zeroed = content_zeroed(f->disk, candidate[i], v->zero_start, v->zero_end);

				content_put(candidate[i]);
				candidate[i] = zeroed;
			}
		} else if (v->zero_end - v->zero_start == f->disk->block_bytes) {
			break;
		}
	}
	return n;
}

static void block_survivors(struct disk_file *f, struct sim_survivor *s, uint64_t meta_seq, void (*fn)(void *arg, const struct sim_survivor *s), void *arg)
{
	struct disk_content *candidate[SURVIVORS_MAX];
	const struct disk_block *b = block_find(f, s->offset / f->disk->block_bytes);
	unsigned n = b ? block_candidates(f, b, meta_seq, candidate) : 0, i;

	s->len = (uint32_t)min_u64(f->disk->block_bytes, s->size - s->offset);
	s->bytes = NULL;
	if (!b)
		fn(arg, s);
	for (i = 0; i < n; i++) {
		s->bytes = candidate[i] ? candidate[i]->bytes : NULL;
		fn(arg, s);
		content_put(candidate[i]);
	}
}

static void size_survivors(struct disk_file *f, uint64_t size, uint64_t meta_seq, void (*fn)(void *arg, const struct sim_survivor *s), void *arg)
{
	struct sim_survivor s = { .size = size };

	if (!size)
		fn(arg, &s);
	for (s.offset = 0; s.offset < size; s.offset += f->disk->block_bytes)
		block_survivors(f, &s, meta_seq, fn, arg);
}

void disk_survivors(struct disk_file *f, void (*fn)(void *arg, const struct sim_survivor *s), void *arg)
{
	const struct disk_size_change *c;

	size_survivors(f, f->durable_size, 0, fn, arg);
	STAILQ_FOREACH(c, &f->size_changes, link)
		size_survivors(f, c->size, c->seq, fn, arg);
}

static uint64_t content_hash(const struct disk *d, struct disk_content *c)
{
	if (c && !c->hash)
		c->hash = sim_hash(1, c->bytes, d->block_bytes) | 1;
	return c ? c->hash : 0;
}

static uint64_t block_hash(const struct disk *d, const struct disk_block *b, uint64_t hash)
{
	const struct disk_version *v;

	hash = sim_hash_word(hash, b->index << 1 | b->allocated);
	hash = sim_hash_word(hash, content_hash(d, b->durable));
	STAILQ_FOREACH(v, &b->versions, link) {
		hash = sim_hash_word(hash, v->seq);
		hash = sim_hash_word(hash, (uint64_t)v->zero_start << 32 | v->zero_end);
		hash = sim_hash_word(hash, content_hash(d, v->content));
	}
	return hash;
}

uint64_t disk_hash(const struct disk *d)
{
	const struct disk_size_change *c;
	const struct disk_file *f;
	struct disk_block *b;
	uint64_t hash = d->seq;

	LIST_FOREACH(f, &d->files, link) {
		hash = sim_hash_word(hash, f->number);
		hash = sim_hash_word(hash, f->durable_size);
		STAILQ_FOREACH(c, &f->size_changes, link)
			hash = sim_hash_word(sim_hash_word(hash, c->seq), c->size);
		RB_FOREACH(b, disk_blocks, (struct disk_blocks *)&f->blocks)
			hash = block_hash(d, b, hash);
	}
	return hash;
}

static void block_check(const struct disk_file *f, const struct disk_block *b)
{
	const struct disk_version *v, *last = NULL;
	unsigned count = 0;

	STAILQ_FOREACH(v, &b->versions, link) {
		ASSERT(!last || last->seq <= v->seq);
		ASSERT(v->seq <= f->disk->seq);
		last = v;
		count++;
	}
	ASSERT(count == b->versions_count);
	ASSERT(!last || last->content == b->now);
	ASSERT(!b->now || b->allocated);
}

void disk_check(const struct disk_file *f)
{
	const struct disk_size_change *c, *last = NULL;
	struct disk_block *b;
	uint64_t allocated = 0;

	RB_FOREACH(b, disk_blocks, (struct disk_blocks *)&f->blocks) {
		block_check(f, b);
		allocated += b->allocated;
	}
	ASSERT(allocated == f->allocated);
	ASSERT(allocated <= f->disk->allocated);
	STAILQ_FOREACH(c, &f->size_changes, link)
		last = c;
	ASSERT(f->size == (last ? last->size : f->durable_size));
}
