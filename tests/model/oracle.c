/* tests/model/oracle.c - see oracle.h. */
#include "tests/model/oracle.h"

#include <string.h>

#include "runtime/base.h"
#include "runtime/sim.h"
#include "runtime/sim_random.h"

enum { CHANGES_MAX = 12, PROMISES_MAX = 12 };

const uint64_t oracle_bound[ORACLE_SEGMENTS + 1] = { 0, 1000, 3000, 4096, 5096, 7096, 8192, 9192, 12288 };

struct value {
	unsigned number;
	uint8_t byte;
};

struct segment {
	struct value value[CHANGES_MAX]; /* oldest first; [base] is the oldest that a cut may leave */
	unsigned count, base;
	bool covered;                    /* given by a WRITE since its unit was claimed */
};

struct promise {
	unsigned number;
	uint64_t end;                    /* the file reaches at least to here, or as far as it did then, unless it was truncated after `number` */
};

static struct {
	struct segment segment[ORACLE_SEGMENTS];
	uint64_t size[CHANGES_MAX];      /* after change number i */
	uint64_t end[CHANGES_MAX];       /* of the WRITE with that number */
	bool is_cut[CHANGES_MAX];        /* it was a truncate */
	bool pending[CHANGES_MAX];       /* a stable WRITE without answer */
	bool refused[CHANGES_MAX];
	bool disk_refuses;
	unsigned number, size_base;      /* of sizes before size_base none survives */
	struct promise promise[PROMISES_MAX];
	unsigned promises;
	uint64_t cutting_to;             /* UINT64_MAX: no truncate is under way */
} o;

static unsigned segment_of(uint64_t offset)
{
	unsigned i = 0;

	while (offset >= oracle_bound[i + 1])
		i++;
	return i;
}

static bool is_bound(uint64_t offset)
{
	for (unsigned i = 0; i <= ORACLE_SEGMENTS; i++)
		if (oracle_bound[i] == offset)
			return true;
	return false;
}

static void give(struct segment *s, unsigned number, uint8_t byte)
{
	ASSERT(s->count < CHANGES_MAX);
	s->value[s->count++] = (struct value){ .number = number, .byte = byte };
}

void oracle_init(uint64_t size, uint8_t old)
{
	memset(&o, 0, sizeof o);
	o.cutting_to = UINT64_MAX;
	o.size[0] = size;
	for (unsigned i = 0; i < ORACLE_SEGMENTS; i++)
		give(&o.segment[i], 0, oracle_bound[i] < size ? old : 0);
}

static unsigned next_number(uint64_t size)
{
	ASSERT(o.number + 1 < CHANGES_MAX);
	o.size[++o.number] = size;
	return o.number;
}

/* It counts: nobody was told, or may yet be told, that it could not be done. */
static bool is_settled(unsigned number)
{
	return !o.refused[number] && !(o.pending[number] && o.disk_refuses);
}

static uint64_t size_most(void)
{
	return o.size[o.number];
}

/* What the file reached at least after that change. */
static uint64_t size_least(unsigned number)
{
	uint64_t size = o.size[0];

	for (unsigned i = 1; i <= number; i++)
		if (o.is_cut[i])
			size = o.size[i];
		else if (is_settled(i))
			size = max_u64(size, o.end[i]);
	return size;
}

unsigned oracle_staged(const struct oracle_write *w)
{
	unsigned number = next_number(max_u64(size_most(), w->end));
	uint64_t start = w->start, end = w->end;

	ASSERT(is_bound(start) && is_bound(end));
	o.end[number] = end;
	o.pending[number] = w->stable;
	for (unsigned i = 0; i < ORACLE_SEGMENTS; i++) {
		struct segment *s = &o.segment[i];
		uint64_t unit = oracle_bound[i] / ORACLE_UNIT;

		if (unit * ORACLE_UNIT < end && start < (unit + 1) * ORACLE_UNIT && !(w->in_hand >> unit & 1))
			s->covered = false;
		if (oracle_bound[i] < start || oracle_bound[i] >= end)
			continue;
		give(s, number, w->value);
		s->covered = true;
	}
	return number;
}

void oracle_refused(unsigned number)
{
	o.refused[number] = true;
	o.pending[number] = false;
}

void oracle_disk_refuses(void)
{
	o.disk_refuses = true;
}

void oracle_truncate_begins(uint64_t size)
{
	ASSERT(is_bound(size) && o.cutting_to == UINT64_MAX);
	o.cutting_to = size;
}

unsigned oracle_truncated(void)
{
	uint64_t old = size_most(), size = o.cutting_to;
	unsigned number = next_number(size);

	for (unsigned i = 0; i < ORACLE_SEGMENTS; i++) {
		if (oracle_bound[i] < size && oracle_bound[i] < old)
			continue;
		give(&o.segment[i], number, 0);
		o.segment[i].covered = false;
	}
	o.is_cut[number] = true;
	o.cutting_to = UINT64_MAX;
	return number;
}

unsigned oracle_now(void)
{
	return o.number;
}

/* Of what took effect up to `number`, the newest that counts. */
static unsigned last_settled(const struct segment *s, unsigned number)
{
	unsigned i = s->count - 1;

	while (i && (s->value[i].number > number || !is_settled(s->value[i].number)))
		i--;
	return i;
}

void oracle_stable(uint64_t start, uint64_t end, unsigned number)
{
	for (unsigned i = 0; i < ORACLE_SEGMENTS; i++) {
		struct segment *s = &o.segment[i];

		if (oracle_bound[i] < start || oracle_bound[i] >= end)
			continue;
		s->base = (unsigned)max_u64(s->base, last_settled(s, number));
	}
	ASSERT(o.promises < PROMISES_MAX);
	o.promise[o.promises++] = (struct promise){ .number = number, .end = end };
	if (end == UINT64_MAX && number > o.size_base)
		o.size_base = number;
}

void oracle_answered(unsigned number, uint64_t start, uint64_t end)
{
	o.pending[number] = false;
	oracle_stable(start, end, number);
}

/* A READ may find this value. */
static bool is_right(const struct segment *s, uint8_t byte)
{
	for (unsigned i = last_settled(s, o.number); i < s->count; i++)
		if (s->value[i].byte == byte)
			return true;
	return false;
}

void oracle_check_content(const uint8_t *bytes, uint64_t size, const char *what)
{
	if (size < size_least(o.number) || size > size_most())
		oracle_fail("%s: the size is %llu, should be %llu, at least %llu", what, (unsigned long long)size, (unsigned long long)size_most(),
			    (unsigned long long)size_least(o.number));
	for (unsigned i = 0; i < ORACLE_SEGMENTS && oracle_bound[i] < size; i++) {
		const struct segment *s = &o.segment[i];
		const uint8_t *mine = bytes + oracle_bound[i];
		uint64_t len = min_u64(size, oracle_bound[i + 1]) - oracle_bound[i];

		if (!is_right(s, mine[0]) || memcmp(mine, mine + 1, len - 1) != 0)
			oracle_fail("%s: the bytes from %llu on are 0x%x ... 0x%x, should be 0x%x", what, (unsigned long long)oracle_bound[i], mine[0], mine[len - 1],
				    s->value[s->count - 1].byte);
	}
}

/* The size that must survive, as far as promise p goes: truncates that came later, or are under way, may have taken from it. */
static uint64_t promised_size(const struct promise *p)
{
	uint64_t size = min_u64(min_u64(p->end, size_least(p->number)), o.cutting_to);

	for (unsigned i = p->number + 1; i <= o.number; i++)
		if (o.is_cut[i])
			size = min_u64(size, o.size[i]);
	return size;
}

static void check_size(uint64_t size)
{
	uint64_t least = 0, most = o.cutting_to == UINT64_MAX ? 0 : o.cutting_to;

	for (unsigned i = 0; i < o.promises; i++)
		least = max_u64(least, promised_size(&o.promise[i]));
	for (unsigned i = o.size_base; i <= o.number; i++)
		most = max_u64(most, o.size[i]);
	if (size < least)
		oracle_fail("after a cut: the file may end at %llu, but what was answered as stable reaches to %llu", (unsigned long long)size, (unsigned long long)least);
	if (size > most)
		oracle_fail("after a cut: the file may end at %llu, but no data reaches beyond %llu", (unsigned long long)size, (unsigned long long)most);
}

static bool may_be(unsigned index, uint8_t byte)
{
	const struct segment *s = &o.segment[index];

	if (byte == 0 && oracle_bound[index] >= o.cutting_to)
		return true;
	for (unsigned i = s->base; i < s->count; i++)
		if (s->value[i].byte == byte)
			return true;
	return false;
}

static void check_byte(const struct sim_survivor *s, uint64_t offset)
{
	uint8_t byte = s->bytes ? s->bytes[offset - s->offset] : 0;

	if (offset < s->offset || offset >= s->offset + s->len || may_be(segment_of(offset), byte))
		return;
	oracle_fail("after a cut: byte %llu may be 0x%x: lost, or nobody wrote it (size then %llu)", (unsigned long long)offset, byte, (unsigned long long)s->size);
}

void oracle_check_survivor(const struct sim_survivor *s)
{
	check_size(s->size);
	for (unsigned i = 0; i < ORACLE_SEGMENTS; i++) {
		if (oracle_bound[i] >= s->offset + s->len || oracle_bound[i + 1] <= s->offset)
			continue;
		check_byte(s, oracle_bound[i]);
		check_byte(s, oracle_bound[i + 1] - 1);
	}
}

static bool covered_up_to(unsigned unit, uint64_t size)
{
	for (unsigned i = 0; i < ORACLE_SEGMENTS; i++)
		if (oracle_bound[i] / ORACLE_UNIT == unit && oracle_bound[i] < size && !o.segment[i].covered)
			return false;
	return true;
}

bool oracle_unit_is_covered(unsigned unit)
{
	return !o.disk_refuses && covered_up_to(unit, size_most());
}

bool oracle_unit_is_whole(unsigned unit)
{
	return !o.disk_refuses && covered_up_to(unit, UINT64_MAX);
}

bool oracle_unit_waits(unsigned unit)
{
	bool some = false;

	if (o.disk_refuses)
		return false;
	for (unsigned i = 0; i <= o.number; i++)
		if (o.is_cut[i])
			return false;
	for (unsigned i = 0; i < ORACLE_SEGMENTS; i++)
		some |= oracle_bound[i] / ORACLE_UNIT == unit && o.segment[i].covered;
	return some && !oracle_unit_is_whole(unit);
}

uint64_t oracle_hash(void)
{
	return sim_hash(0, &o, sizeof o);
}
