/*
 * runtime/sim_random.h - the simulation's random stream: splitmix64, so a state is one word and a seed of any value is a good one. Private to
 * sim*.c. Nothing in the simulation draws from anywhere else. And a hash for telling states apart: quick, not for tables that an enemy fills.
 */
#ifndef RUNTIME_SIM_RANDOM_H
#define RUNTIME_SIM_RANDOM_H

#include <string.h>

#include "runtime/base.h"

struct sim_random_state {
	uint64_t word;
};

static inline uint64_t sim_random_next(struct sim_random_state *s)
{
	uint64_t z = s->word += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* 0...bound-1, without the bias and the division of a modulo; bound 0 gives 0. */
static inline uint64_t sim_random_draw(struct sim_random_state *s, uint64_t bound)
{
	return (uint64_t)(((unsigned __int128)sim_random_next(s) * bound) >> 64);
}

static inline uint64_t sim_hash_word(uint64_t hash, uint64_t word)
{
	unsigned __int128 product = (unsigned __int128)(hash ^ word ^ 0x9e3779b97f4a7c15u) * 0xd6e8feb86659fd93u;

	return (uint64_t)product ^ (uint64_t)(product >> 64) ^ hash << 7;
}

/* `hash` with memory folded in. */
static inline uint64_t sim_hash(uint64_t hash, const void *mem, size_t len)
{
	uint64_t word = 0;
	size_t at;

	for (at = 0; at + sizeof(word) <= len; at += sizeof(word)) {
		memcpy(&word, (const uint8_t *)mem + at, sizeof(word));
		hash = sim_hash_word(hash, word);
	}
	word = len;
	memcpy(&word, (const uint8_t *)mem + at, len - at);
	return sim_hash_word(hash, word);
}

#endif
