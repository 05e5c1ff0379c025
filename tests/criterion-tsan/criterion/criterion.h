/*
 * The part of Criterion's interface that our unit tests use, for the ThreadSanitizer build only.
 *
 * Criterion hands its state to the child of each test through an arena mapped at an address of its own choice; TSan's
 * shadow layout refuses every such address, so no Criterion program starts under it. With --enable-tsan this header is
 * found before the installed one, and runner.c beside it forks once per test and prints the same lines. A test needs
 * nothing special: if it uses a part of Criterion that is not here, the TSan build says so at compile time.
 */
#ifndef TESTS_CRITERION_TSAN_H
#define TESTS_CRITERION_TSAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct criterion_options {
	void (*init)(void);
	void (*fini)(void);
	int signal;		/* expected, or 0 */
	int exit_code;		/* expected */
	bool disabled;
	double timeout;		/* seconds, 0: none */
	const char *description;
};

/* One test of the program; immortal, linked into a list by its constructor. */
struct criterion_test {
	const char *suite;
	const char *name;
	void (*run)(void);
	struct criterion_options options;
	struct criterion_test *next;
};

/* Options of a TestSuite(); only init, fini and timeout are inherited by its tests. */
struct criterion_suite {
	const char *name;
	struct criterion_options options;
	struct criterion_suite *next;
};

void criterion_tsan_add_test(struct criterion_test *test);
void criterion_tsan_add_suite(struct criterion_suite *suite);

/* Both end the calling test's process. */
void criterion_tsan_fail(const char *file, int line, const char *what, const char *fmt, ...)
	__attribute__((noreturn, format(printf, 4, 5)));
void criterion_tsan_skip(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));

#define Test(suite_, name_, ...) \
	static void suite_##_##name_##_run(void); \
	__attribute__((constructor)) static void suite_##_##name_##_add(void) \
	{ \
		static struct criterion_test test = { #suite_, #name_, suite_##_##name_##_run, { __VA_ARGS__ }, NULL }; \
		criterion_tsan_add_test(&test); \
	} \
	static void suite_##_##name_##_run(void)

#define TestSuite(suite_, ...) \
	__attribute__((constructor)) static void suite_##_suite_add(void) \
	{ \
		static struct criterion_suite suite = { #suite_, { __VA_ARGS__ }, NULL }; \
		criterion_tsan_add_suite(&suite); \
	} \
	struct criterion_suite

#define CR_CHECK_(cond, what, ...) do { if (!(cond)) criterion_tsan_fail(__FILE__, __LINE__, what, " " __VA_ARGS__); } while (0)

#define cr_assert(cond, ...) CR_CHECK_(cond, #cond, __VA_ARGS__)
#define cr_assert_not(cond, ...) CR_CHECK_(!(cond), "not " #cond, __VA_ARGS__)
#define cr_assert_fail(...) CR_CHECK_(false, "fail", __VA_ARGS__)
#define cr_fail(...) CR_CHECK_(false, "fail", __VA_ARGS__)
#define cr_fatal(...) CR_CHECK_(false, "fatal", __VA_ARGS__)
#define cr_assert_eq(a, b, ...) CR_CHECK_((a) == (b), #a " == " #b, __VA_ARGS__)
#define cr_assert_neq(a, b, ...) CR_CHECK_((a) != (b), #a " != " #b, __VA_ARGS__)
#define cr_assert_lt(a, b, ...) CR_CHECK_((a) < (b), #a " < " #b, __VA_ARGS__)
#define cr_assert_leq(a, b, ...) CR_CHECK_((a) <= (b), #a " <= " #b, __VA_ARGS__)
#define cr_assert_gt(a, b, ...) CR_CHECK_((a) > (b), #a " > " #b, __VA_ARGS__)
#define cr_assert_geq(a, b, ...) CR_CHECK_((a) >= (b), #a " >= " #b, __VA_ARGS__)
#define cr_assert_null(p, ...) CR_CHECK_((p) == NULL, #p " == NULL", __VA_ARGS__)
#define cr_assert_not_null(p, ...) CR_CHECK_((p) != NULL, #p " != NULL", __VA_ARGS__)
#define cr_assert_str_eq(a, b, ...) CR_CHECK_(!strcmp(a, b), #a " is " #b, __VA_ARGS__)
#define cr_assert_str_neq(a, b, ...) CR_CHECK_(strcmp(a, b), #a " is not " #b, __VA_ARGS__)
#define cr_assert_str_empty(s, ...) CR_CHECK_(!*(s), #s " is empty", __VA_ARGS__)
#define cr_assert_arr_eq(a, b, n, ...) CR_CHECK_(!memcmp(a, b, n), #a " equals " #b, __VA_ARGS__)
#define cr_assert_arr_neq(a, b, n, ...) CR_CHECK_(memcmp(a, b, n), #a " differs from " #b, __VA_ARGS__)
#define cr_assert_float_eq(a, b, e, ...) CR_CHECK_((a) - (b) <= (e) && (b) - (a) <= (e), #a " is about " #b, __VA_ARGS__)

/* A failed expectation ends the test here, which is the stricter of the two. */
#define cr_expect cr_assert
#define cr_expect_not cr_assert_not
#define cr_expect_eq cr_assert_eq
#define cr_expect_neq cr_assert_neq
#define cr_expect_lt cr_assert_lt
#define cr_expect_leq cr_assert_leq
#define cr_expect_gt cr_assert_gt
#define cr_expect_geq cr_assert_geq
#define cr_expect_null cr_assert_null
#define cr_expect_not_null cr_assert_not_null
#define cr_expect_str_eq cr_assert_str_eq
#define cr_expect_str_neq cr_assert_str_neq
#define cr_expect_arr_eq cr_assert_arr_eq
#define cr_expect_arr_neq cr_assert_arr_neq
#define cr_expect_fail cr_assert_fail

#define cr_skip_test(...) criterion_tsan_skip(" " __VA_ARGS__)
#define cr_skip cr_skip_test
#define cr_log_info(...) ((void)(fprintf(stderr, __VA_ARGS__), fputc('\n', stderr)))
#define cr_log_warn cr_log_info
#define cr_log_error cr_log_info
#define cr_log(level, ...) cr_log_info(__VA_ARGS__)

#endif
