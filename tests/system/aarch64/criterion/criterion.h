/* As much of Criterion as the tests of reductions need, where it is not there: on another
   processor. A test that fails ends the program. */
#ifndef CRITERION_H
#define CRITERION_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct test {
	const char *name;
	void (*run)(void);
	struct test *next;
};

extern struct test *tests; /* main() runs them. */

#define Test(suite, test_name, ...) \
	static void suite##_##test_name(void); \
	__attribute__((constructor)) static void add_##suite##_##test_name(void) \
	{ \
		static struct test test = { #test_name, suite##_##test_name, NULL }; \
\
		test.next = tests; \
		tests = &test; \
	} \
	static void suite##_##test_name(void)

#define cr_skip_test(...) \
	do { \
		printf(__VA_ARGS__); \
		printf("; skipped: "); \
		return; \
	} while (0)
#define cr_assert(condition, ...) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: %s. ", __FILE__, __LINE__, #condition); \
			fprintf(stderr, "" __VA_ARGS__); \
			exit(1); \
		} \
	} while (0)
#define cr_assert_eq(a, b, ...) cr_assert((a) == (b), __VA_ARGS__)
#define cr_assert_gt(a, b, ...) cr_assert((a) > (b), __VA_ARGS__)
#define cr_assert_not(condition, ...) cr_assert(!(condition), __VA_ARGS__)
#define cr_assert_null(a) cr_assert(!(a))
#define cr_assert_not_null(a) cr_assert(a)
#define cr_assert_str_eq(a, b) cr_assert(!strcmp(a, b))
#define cr_assert_arr_eq(a, b, size) cr_assert(!memcmp(a, b, size))

#endif
