/*
 * vfs/siphash.c - SipHash-2-4 as its authors define it: four words of state, two rounds per eight bytes of message, four at the end. Pure; the words of
 * the message are little-endian on every machine, so that handles outlive a move of the state directory to another one.
 */
#include "vfs/siphash.h"

#include <endian.h>
#include <string.h>

struct siphash_state {
	uint64_t v0, v1, v2, v3;
};

static uint64_t load_le64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return le64toh(v);
}

static uint64_t rotl64(uint64_t v, unsigned n)
{
	return v << n | v >> (64 - n);
}

static void siphash_rounds(struct siphash_state *s, unsigned rounds)
{
	while (rounds--) {
		s->v0 += s->v1;
		s->v2 += s->v3;
		s->v1 = rotl64(s->v1, 13) ^ s->v0;
		s->v3 = rotl64(s->v3, 16) ^ s->v2;
		s->v0 = rotl64(s->v0, 32);
		s->v2 += s->v1;
		s->v0 += s->v3;
		s->v1 = rotl64(s->v1, 17) ^ s->v2;
		s->v3 = rotl64(s->v3, 21) ^ s->v0;
		s->v2 = rotl64(s->v2, 32);
	}
}

static void siphash_word(struct siphash_state *s, uint64_t word)
{
	s->v3 ^= word;
	siphash_rounds(s, 2);
	s->v0 ^= word;
}

/* The last word: what is left of the message, and its length in the top byte. */
static uint64_t siphash_tail(const uint8_t *p, size_t len)
{
	uint64_t word = (uint64_t)len << 56;

	for (unsigned i = 0; i < (len & 7); i++)
		word |= (uint64_t)p[i] << (8 * i);
	return word;
}

noyield_fn uint64_t siphash24(const uint8_t key[SIPHASH_KEY_BYTES], const void *data, size_t len)
{
	const uint64_t k0 = load_le64(key), k1 = load_le64(key + 8);
	struct siphash_state s = {
		k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573,
	};
	const uint8_t *p = data, *words_end = p + (len & ~(size_t)7);

	for (; p < words_end; p += 8)
		siphash_word(&s, load_le64(p));
	siphash_word(&s, siphash_tail(p, len));
	s.v2 ^= 0xff;
	siphash_rounds(&s, 4);
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}
