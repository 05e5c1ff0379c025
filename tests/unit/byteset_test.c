/* tests/unit/byteset_test.c - byte sets against an array of flags. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "iocache/byteset.h"

enum { BYTES = 256 };

static void expect_equal(const struct byteset *s, const uint8_t *flag)
{
	byteset_check(s);
	for (uint32_t i = 0; i < BYTES; i++)
		cr_assert_eq(byteset_covers(s, i, i + 1), flag[i] != 0, "byte %u", i);
}

Test(byteset, add_merges_and_is_bounded) /* 2.4 */
{
	for (unsigned seed = 1; seed < 3000; seed++) {
		struct byteset s = { 0 };
		uint8_t flag[BYTES] = { 0 };

		srand(seed);
		for (int i = 0; i < 12; i++) {
			uint32_t a = (uint32_t)rand() % BYTES, b = a + (uint32_t)rand() % (BYTES - a) / 8;
			struct byteset before = s;

			if (byteset_add(&s, a, b))
				memset(flag + a, 1, b - a);
			else
				cr_assert(memcmp(&before, &s, sizeof s) == 0 && s.count == BYTESET_RANGES);
			expect_equal(&s, flag);
		}
	}
}

Test(byteset, gaps_are_the_complement)
{
	for (unsigned seed = 1; seed < 1000; seed++) {
		struct byteset s = { 0 };
		struct byterange gap;

		srand(seed);
		for (int i = 0; i < 5; i++) {
			uint32_t a = (uint32_t)rand() % BYTES;

			byteset_add(&s, a, a + (uint32_t)rand() % (BYTES - a) / 6);
		}
		while (byteset_gap(&s, 0, BYTES, &gap)) {
			cr_assert(gap.start < gap.end && gap.end <= BYTES);
			cr_assert(!byteset_covers(&s, gap.start, gap.start + 1) && !byteset_covers(&s, gap.end - 1, gap.end));
			cr_assert(byteset_add(&s, gap.start, gap.end));
		}
		cr_assert(byteset_covers(&s, 0, BYTES));
	}
}

Test(byteset, lossy_claims_less_never_more) /* 2.4 */
{
	for (unsigned seed = 1; seed < 2000; seed++) {
		struct byteset s = { 0 };
		uint8_t flag[BYTES] = { 0 };

		srand(seed);
		for (int i = 0; i < 40; i++) {
			uint32_t a = (uint32_t)rand() % BYTES, b = a + 1 + (uint32_t)rand() % 4;

			b = b > BYTES ? BYTES : b;
			byteset_add_lossy(&s, a, b);
			memset(flag + a, 1, b - a);
			byteset_check(&s);
			for (uint32_t k = 0; k < BYTES; k++)
				cr_assert(!byteset_covers(&s, k, k + 1) || flag[k]);
		}
	}
}

Test(byteset, clip_and_hull)
{
	struct byteset s = { 0 };

	byteset_add(&s, 10, 20);
	byteset_add(&s, 30, 40);
	cr_assert_eq(byteset_hull(&s).start, 10);
	cr_assert_eq(byteset_hull(&s).end, 40);
	byteset_clip(&s, 35);
	cr_assert_eq(byteset_hull(&s).end, 35);
	byteset_clip(&s, 30);
	cr_assert_eq(byteset_hull(&s).end, 20);
	byteset_clip(&s, 5);
	cr_assert_eq(s.count, 0);
}
