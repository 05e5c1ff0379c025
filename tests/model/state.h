/*
 * tests/model/state.h - a hash of the server's state: a mapping, and the fibers that work on it.
 *
 * Two states with the same hash are taken to have the same future. What is hashed: every field of the mapping but the file's times and those that only say which id comes next, its folios with their valid bytes,
 * those who wait for it or for its ranges; and of each fiber that is alive where it stands, which is its stack from the last frame up: return addresses,
 * variables, saved registers. Pointers to memory that has no fixed place (heap, other stacks) count as equal, for two paths to one state allocate in different order;
 * what they point at is a folio, a run or a waiter, and hashed by itself. A dead word on a stack makes two equal states look different, which costs time only.
 */
#ifndef TESTS_MODEL_STATE_H
#define TESTS_MODEL_STATE_H

#include <stdint.h>

struct mapping;

/* Each time when the loop may choose, in every execution: clears what is dead of the stacks, for fewer differences that are none. */
void state_scrub(void);
/* On the reactor's loop. m may be NULL. */
uint64_t state_hash(struct mapping *m);

#endif
