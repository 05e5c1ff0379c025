/*
 * tests/unit/runtime_harness.h - run a function on fibers of fresh reactors. What is asserted on fibers is asserted with ASSERT(): it ends the test's
 * process from any thread and any stack, which Criterion's own assertions do not.
 */
#ifndef TESTS_UNIT_RUNTIME_HARNESS_H
#define TESTS_UNIT_RUNTIME_HARNESS_H

#include <criterion/criterion.h>

#include "runtime/fiber.h"
#include "runtime/reactor.h"

/* start() runs as the first fiber of each reactor and sees to it that runtime_stop() is called. */
static inline void harness_run(const struct reactor_config *config, void (*start)(void *arg, unsigned index), void *arg)
{
	int err = runtime_init(config);

	cr_assert_eq(err, 0, "runtime_init: %d", err);
	err = runtime_run(start, arg);
	cr_assert_eq(err, 0, "runtime_run: %d", err);
	runtime_fini();
}

static inline void harness_start(void *arg, unsigned index)
{
	void (*fn)(void) = arg;

	fn();
	runtime_stop();
}

/* fn() as the only first fiber of the only reactor. */
static inline void harness_run_one(unsigned no_features, void (*fn)(void))
{
	const struct reactor_config config = { .reactors = 1, .fibers = 64, .pool_threads = 2, .no_features = no_features };

	harness_run(&config, harness_start, fn);
}

#endif
