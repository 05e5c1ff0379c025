/*
 * tests/unit/record_test.c - record marking: fragments of all kinds, in pieces of all sizes, and the limits.
 */
#include <criterion/criterion.h>

#include "proto/record.h"
#include "proto/xdr.h"

/* Collects what the state machine says about a stream fed in pieces. */
struct sink {
	uint8_t bytes[256];
	size_t len;
	unsigned fragments;
	unsigned records;
	size_t record_ends[8];
};

static enum record_event feed(struct record *r, const uint8_t *in, size_t len, struct sink *s)
{
	enum record_event ev;
	size_t used;

	while ((ev = record_step(r, in, len, &used)) == RECORD_FRAGMENT || ev == RECORD_DATA || ev == RECORD_END) {
		if (ev == RECORD_DATA) {
			memcpy(s->bytes + s->len, in, used);
			s->len += used;
		}
		s->fragments += ev == RECORD_FRAGMENT;
		if (ev == RECORD_END)
			s->record_ends[s->records++] = s->len;
		in += used;
		len -= used;
	}
	return ev;
}

static const uint8_t stream[] = "\x80\0\0\4abcd"                                /* one fragment */
				"\0\0\0\2ef\0\0\0\0\x80\0\0\3ghi"               /* three, the second empty */
				"\x80\0\0\0"                                    /* an empty record */
				"\0\0\0\1j\x80\0\0\0";                          /* an empty last fragment */
enum { STREAM_LEN = sizeof(stream) - 1 };

Test(record, any_cut_of_the_stream_gives_the_same_records)
{
	for (size_t piece = 1; piece <= STREAM_LEN; piece++) {
		struct record r;
		struct sink s = { 0 };

		record_init(&r, 100, 3);
		for (size_t at = 0; at < STREAM_LEN; at += piece)
			cr_assert_eq(feed(&r, stream + at, piece < STREAM_LEN - at ? piece : STREAM_LEN - at, &s), RECORD_MORE);
		cr_assert_eq(s.records, 4);
		cr_assert_eq(s.fragments, 7);
		cr_assert_arr_eq(s.bytes, "abcdefghij", 10);
		cr_assert_eq(s.record_ends[0], 4);
		cr_assert_eq(s.record_ends[1], 9);
		cr_assert_eq(s.record_ends[2], 9);
		cr_assert_eq(s.record_ends[3], 10);
		cr_assert(record_is_idle(&r));
	}
}

Test(record, the_end_needs_no_further_input)
{
	struct record r;
	size_t used;

	record_init(&r, 100, 1);
	cr_assert_eq(record_step(&r, (const uint8_t *)"\x80\0\0\1", 4, &used), RECORD_FRAGMENT);
	cr_assert_eq(record_step(&r, (const uint8_t *)"x", 1, &used), RECORD_DATA);
	cr_assert_eq(record_step(&r, NULL, 0, &used), RECORD_END);
	cr_assert_eq(record_step(&r, NULL, 0, &used), RECORD_MORE);
	cr_assert(record_is_idle(&r));
}

Test(record, payload_received_elsewhere_is_skipped)
{
	struct record r;
	size_t used;

	record_init(&r, 100, 2);
	cr_assert_eq(record_step(&r, (const uint8_t *)"\x80\0\0\50", 4, &used), RECORD_FRAGMENT);
	cr_assert(record_is_last(&r));
	cr_assert_eq(record_len(&r), 40);
	cr_assert_not(record_is_idle(&r));
	cr_assert_eq(record_step(&r, (const uint8_t *)"0123456789", 10, &used), RECORD_DATA);
	cr_assert_eq(record_fragment_left(&r), 30);
	cr_assert_not(record_skip(&r, 31));
	cr_assert(record_skip(&r, 20));
	cr_assert(record_skip(&r, 10));
	cr_assert_eq(record_step(&r, NULL, 0, &used), RECORD_END);
}

Test(record, a_claimed_length_above_the_limit_is_refused_at_its_mark)
{
	struct record r;
	struct sink s = { 0 };

	record_init(&r, 100, 8);
	cr_assert_eq(feed(&r, (const uint8_t *)"\xff\xff\xff\xff", 4, &s), RECORD_TOO_LONG);
	cr_assert_eq(feed(&r, (const uint8_t *)"\x80\0\0\1x", 5, &s), RECORD_TOO_LONG, "sticky");
	cr_assert_not(record_skip(&r, 0));

	record_init(&r, 5, 8);
	cr_assert_eq(feed(&r, (const uint8_t *)"\0\0\0\4abcd\x80\0\0\2", 12, &s), RECORD_TOO_LONG, "the sum of the fragments counts");
	record_init(&r, 5, 8);
	cr_assert_eq(feed(&r, (const uint8_t *)"\0\0\0\4abcd\x80\0\0\1e", 13, &s), RECORD_MORE, "the limit itself is allowed");
	cr_assert(record_is_idle(&r));
}

Test(record, empty_fragments_without_end_are_refused)
{
	struct record r;
	struct sink s = { 0 };

	record_init(&r, 100, 3);
	cr_assert_eq(feed(&r, (const uint8_t *)"\0\0\0\0\0\0\0\0\0\0\0\0", 12, &s), RECORD_MORE);
	cr_assert_eq(feed(&r, (const uint8_t *)"\0\0\0\0", 4, &s), RECORD_TOO_MANY_FRAGMENTS);
	cr_assert_eq(s.fragments, 3);
}

Test(record, limits_start_again_with_each_record)
{
	struct record r;
	struct sink s = { 0 };

	record_init(&r, 4, 1);
	for (int i = 0; i < 5; i++)
		cr_assert_eq(feed(&r, (const uint8_t *)"\x80\0\0\4abcd", 8, &s), RECORD_MORE);
	cr_assert_eq(s.records, 5);
}

Test(record, our_marks_are_last_fragments)
{
	uint8_t mark[RECORD_MARK_BYTES];

	record_mark_encode(mark, 0x00012345);
	cr_assert_arr_eq(mark, "\x80\1\x23\x45", 4);
}
