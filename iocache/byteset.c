/* iocache/byteset.c - see byteset.h. The list is sorted and ranges never touch: adjacent ones are merged. */
#include "iocache/byteset.h"

#include <string.h>

noyield_fn void byteset_check(const struct byteset *s)
{
	ASSERT(s->count <= BYTESET_RANGES);
	for (uint32_t i = 0; i < s->count; i++) {
		ASSERT(s->range[i].start < s->range[i].end);
		ASSERT(i == 0 || s->range[i - 1].end < s->range[i].start);
	}
}

/* The ranges that [start, end) touches are first...last-1. */
static void touched(const struct byteset *s, uint32_t start, uint32_t end, uint32_t *first, uint32_t *last)
{
	uint32_t i = 0;

	while (i < s->count && s->range[i].end < start)
		i++;
	*first = i;
	while (i < s->count && s->range[i].start <= end)
		i++;
	*last = i;
}

noyield_fn bool byteset_add(struct byteset *s, uint32_t start, uint32_t end)
{
	uint32_t first, last;

	if (start >= end)
		return true;
	touched(s, start, end, &first, &last);
	if (first == last && s->count == BYTESET_RANGES)
		return false;
	if (first < last) {
		start = s->range[first].start < start ? s->range[first].start : start;
		end = s->range[last - 1].end > end ? s->range[last - 1].end : end;
	}
	memmove(&s->range[first + 1], &s->range[last], (s->count - last) * sizeof s->range[0]);
	s->range[first] = (struct byterange){ start, end };
	s->count = s->count - (last - first) + 1;
	return true;
}

noyield_fn void byteset_add_lossy(struct byteset *s, uint32_t start, uint32_t end)
{
	uint32_t smallest = 0;

	if (byteset_add(s, start, end))
		return;
	for (uint32_t i = 1; i < s->count; i++)
		if (s->range[i].end - s->range[i].start < s->range[smallest].end - s->range[smallest].start)
			smallest = i;
	if (s->range[smallest].end - s->range[smallest].start >= end - start)
		return;
	memmove(&s->range[smallest], &s->range[smallest + 1], (s->count - smallest - 1) * sizeof s->range[0]);
	s->count--;
	ASSERT(byteset_add(s, start, end));
}

noyield_fn void byteset_set(struct byteset *s, uint32_t start, uint32_t end)
{
	s->count = 0;
	byteset_add(s, start, end);
}

noyield_fn bool byteset_covers(const struct byteset *s, uint32_t start, uint32_t end)
{
	for (uint32_t i = 0; i < s->count; i++)
		if (s->range[i].start <= start && end <= s->range[i].end)
			return true;
	return start >= end;
}

noyield_fn void byteset_clip(struct byteset *s, uint32_t end)
{
	while (s->count && s->range[s->count - 1].start >= end)
		s->count--;
	if (s->count && s->range[s->count - 1].end > end)
		s->range[s->count - 1].end = end;
}

noyield_fn bool byteset_gap(const struct byteset *s, uint32_t from, uint32_t limit, struct byterange *gap)
{
	uint32_t i = 0;

	for (; i < s->count && s->range[i].start <= from; i++)
		from = s->range[i].end > from ? s->range[i].end : from;
	if (from >= limit)
		return false;
	gap->start = from;
	gap->end = i < s->count && s->range[i].start < limit ? s->range[i].start : limit;
	return true;
}

noyield_fn struct byterange byteset_hull(const struct byteset *s)
{
	if (!s->count)
		return (struct byterange){ 0, 0 };
	return (struct byterange){ s->range[0].start, s->range[s->count - 1].end };
}
