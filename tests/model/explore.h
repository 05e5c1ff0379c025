/*
 * tests/model/explore.h - every execution of a program whose only freedom is a sequence of choices: depth first, by running it again from the start.
 *
 * The program is run in this process, over and over; explore_choose() answers its questions from the path that is being explored, and with 0 beyond it. A state that was
 * met before (by its hash) is not explored again: the execution is run to its end without further questions or checks, for it has things to put back.
 */
#ifndef TESTS_MODEL_EXPLORE_H
#define TESTS_MODEL_EXPLORE_H

#include <stdbool.h>
#include <stdint.h>

enum { EXPLORE_DEPTH_MAX = 400 };

struct explore_program {
	void (*run)(void);           /* one execution, from the start; asks explore_choose() */
	void (*check)(void);         /* a state, each time before a choice is made in a part of the tree that was not run before */
	uint64_t (*hash)(void);      /* of the state; NULL: no two are taken for the same */
	uint64_t executions_max;     /* 0: no limit */
};

struct explore_result {
	uint64_t executions, states, steps; /* steps: states checked */
	unsigned depth_max;
	bool complete;
};

void explore(const struct explore_program *program, struct explore_result *result);
unsigned explore_choose(unsigned n);
/* The current state was met before: what is run now is not looked at. */
bool explore_is_pruned(void);
/* The choices made so far among more than one thing, as "1,0,2", for a message; static memory, usable in a signal handler. */
const char *explore_path(void);
/* One execution along such a path, then choice 0; each state of it is checked. */
void explore_replay(const struct explore_program *program, const char *path);

#endif
