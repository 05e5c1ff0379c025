/*
 * tests/fuzz/record_fuzz.c - record marking. The first two bytes are the limits, the third how the rest is cut into pieces.
 *
 * Whatever comes: no record and no number of fragments beyond the limits, progress at each step, and the same payload for any cut.
 */
#include <string.h>

#include "proto/record.h"
#include "tests/fuzz/fuzz.h"

struct seen {
	uint64_t hash;
	uint64_t bytes;
	unsigned records;
	enum record_event last;
};

static void digest(struct seen *s, const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		s->hash = (s->hash ^ p[i]) * UINT64_C(1099511628211);
	s->bytes += n;
}

static void feed(struct record *r, const uint8_t *in, size_t len, struct seen *s)
{
	enum record_event ev = RECORD_FRAGMENT;
	size_t used;

	while (ev == RECORD_FRAGMENT || ev == RECORD_DATA || ev == RECORD_END) {
		ev = record_step(r, in, len, &used);
		must(used <= len, "no more is used than was given");
		must(ev != RECORD_DATA || used > 0, "data is never empty");
		must(r->record_len <= r->record_bytes_max, "a record stays within its limit");
		must(r->fragments <= r->fragments_max, "fragments stay within their limit");
		if (ev == RECORD_DATA)
			digest(s, in, used);
		s->records += ev == RECORD_END;
		s->last = ev;
		in += used;
		len -= used;
	}
}

static struct seen run(const uint8_t *limits, const uint8_t *in, size_t len, size_t piece)
{
	struct seen s = { 0 };
	struct record r;

	record_init(&r, 1 + limits[0] * 16u, 1 + limits[1] % 8u);
	for (size_t at = 0; at < len; at += piece)
		feed(&r, in + at, piece < len - at ? piece : len - at, &s);
	return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct seen whole, cut;

	if (size < 4)
		return 0;
	whole = run(data, data + 3, size - 3, size - 3);
	cut = run(data, data + 3, size - 3, 1 + data[2] % 9u);
	must(whole.bytes == cut.bytes && whole.hash == cut.hash, "payload does not depend on the cut");
	must(whole.records == cut.records && whole.last == cut.last, "records do not depend on the cut");
	return 0;
}
