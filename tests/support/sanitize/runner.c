/*
 * A runner for Criterion's tests under ThreadSanitizer, in place of Criterion's own: that one hands
 * tests to their processes in memory at addresses which ThreadSanitizer keeps for itself.
 *
 * Criterion's macros leave a list of the tests in a section, and call the library from within the
 * tests; this file walks the list and is called instead. Each test runs in a forked process, one
 * after the other.
 *
 * PROGRAM [--filter SUITE/NAME]   (a pattern, as in a shell)
 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <fnmatch.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ThreadSanitizer slows its programs down by so much. */
#define SLOWER 5
#define SKIPPED 77

extern struct criterion_test *__start_cr_tst[], *__stop_cr_tst[];
extern struct criterion_suite *__start_cr_sts[] __attribute__((weak));
extern struct criterion_suite *__stop_cr_sts[] __attribute__((weak));

static void *parameter; /* of the test that runs; NULL: it has none */
static bool failed; /* the test that runs has */

/* ---- Functions for tests -------------------------------------------------------------------- */

void criterion_internal_test_setup(void)
{
}

void criterion_internal_test_main(void (*test)(void))
{
	if (parameter)
		((void (*)(void *))test)(parameter);
	else
		test();
}

void criterion_internal_test_teardown(void)
{
}

void cri_asserts_passed_incr(void)
{
}

void criterion_send_assert(struct criterion_assert_stats *stats)
{
	if (stats->passed)
		return;
	printf("%s:%u: %s\n", stats->file, stats->line, stats->message);
	failed = true;
}

void criterion_abort_test(void)
{
	fflush(stdout);
	_exit(EXIT_FAILURE);
}

void criterion_continue_test(void)
{
}

void criterion_skip_test(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
	_exit(SKIPPED);
}

/* ---- Running them --------------------------------------------------------------------------- */

static const struct criterion_test_extra_data *suite_of(const struct criterion_test *test)
{
	static const struct criterion_test_extra_data none;

	for (struct criterion_suite **suite = __start_cr_sts; suite < __stop_cr_sts; suite++) {
		if (*suite && (*suite)->data && strcmp((*suite)->name, test->category) == 0)
			return (*suite)->data;
	}
	return &none;
}

static void *do_nothing(void *argument)
{
	return argument;
}

/* ThreadSanitizer has a thread of its own, from the first that is made: tests count threads. */
static void have_its_thread_started(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, do_nothing, NULL) == 0)
		pthread_join(thread, NULL);
}

static void live(const struct criterion_test *test)
{
	const struct criterion_test_extra_data *suite = suite_of(test), *own = test->data;
	double timeout = own->timeout > 0 ? own->timeout : suite->timeout;
	void (*init)(void) = own->init ? own->init : suite->init;
	void (*fini)(void) = own->fini ? own->fini : suite->fini;

	have_its_thread_started();
	alarm((unsigned)(timeout * SLOWER));
	if (init)
		init();
	test->test();
	if (fini)
		fini();
	/* Not _exit(): ThreadSanitizer has its say at exit. */
	exit(failed ? EXIT_FAILURE : EXIT_SUCCESS);
}

/* Whether it passed. */
static bool run(const struct criterion_test *test)
{
	int status = -1;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child == 0)
		live(test);
	waitpid(child, &status, 0);
	if (status == 0 || (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED))
		return true;
	if (WIFSIGNALED(status))
		printf("[FAIL] %s::%s: %s\n", test->category, test->name,
			WTERMSIG(status) == SIGALRM ? "timed out" : strsignal(WTERMSIG(status)));
	else
		printf("[FAIL] %s::%s: status %d\n", test->category, test->name,
			WEXITSTATUS(status));
	return false;
}

static bool run_with_each_parameter(const struct criterion_test *test)
{
	struct criterion_test_params params = test->data->param_();
	bool passed = true;

	for (size_t i = 0; i < params.length; i++) {
		parameter = (char *)params.params + i * params.size;
		passed = run(test) && passed;
	}
	parameter = NULL;
	if (params.cleanup)
		params.cleanup(&params);
	return passed;
}

static bool wanted(const struct criterion_test *test, const char *pattern)
{
	char name[256];

	snprintf(name, sizeof(name), "%s/%s", test->category, test->name);
	return fnmatch(pattern, name, 0) == 0;
}

int main(int argc, char **argv)
{
	const char *pattern = argc > 2 && strcmp(argv[1], "--filter") == 0 ? argv[2] : "*";
	int tested = 0, passing = 0;

	for (struct criterion_test **at = __start_cr_tst; at < __stop_cr_tst; at++) {
		const struct criterion_test *test = *at;

		if (!test || !wanted(test, pattern))
			continue;
		tested++;
		passing += test->data->param_ ? run_with_each_parameter(test) : run(test);
	}
	printf("Tested: %d | Passing: %d | Failing: %d\n", tested, passing, tested - passing);
	return passing == tested ? EXIT_SUCCESS : EXIT_FAILURE;
}
