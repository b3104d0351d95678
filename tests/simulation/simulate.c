/*
 * Runs simulated worlds from seeds, and checks the properties of each. Each seed has two: a comm
 * from its rendezvous to its end (world.h), and a comm that shrinks (shrink/world.h).
 *
 *   simulate --seeds N [--from SEED] [--jobs J]      N seeds, J processes
 *   simulate --seed SEED [--faults LIST] [--ranks N] [--calls N] [--trace]
 *   simulate --shrink ...                            the second alone
 *
 * A seed that fails is shrunk: fewer faults, ranks and calls, while it still fails. The line that
 * is printed repeats it. Exit status 1: a seed failed.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shrink/shrinks.h"
#include "world.h"

struct options {
	uint64_t seed, from, seeds;
	bool one, has_faults, trace, shrink;
	struct faults faults;
	int ranks, calls, jobs;
};

static struct world world;

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ---- Worlds -------------------------------------------------------------------------------- */

/* A world of either kind. */
struct shape {
	bool line; /* ranks that shrink a comm (shrink/shrinks.h) */
	uint64_t seed;
	struct faults faults;
	int ranks, calls;
};

static struct shape draw_shape(uint64_t seed, bool is_line, const struct options *options)
{
	struct shape shape = { .line = is_line, .seed = seed };

	if (is_line) {
		shrink_draw(seed, options->ranks, &shape.faults, &shape.ranks);
		return shape;
	}
	world_draw(&world, seed, options->ranks, options->calls);
	shape.faults = world.faults;
	shape.ranks = world.size;
	shape.calls = world.calls;
	return shape;
}

/* NULL: it has all properties. */
static const char *run_shape(const struct shape *shape, bool trace)
{
	struct faults faults = shape->faults;

	if (shape->line) {
		faults_fit(&faults, shape->ranks, 1);
		return shrink_run(shape->seed, shape->ranks, &faults, trace);
	}
	world_draw(&world, shape->seed, shape->ranks, shape->calls);
	world.faults = faults;
	faults_fit(&world.faults, world.size, world.calls);
	world.trace = trace;
	return world_run_seed(&world) ? NULL : world.failure;
}

/* ---- Shrinking ----------------------------------------------------------------------------- */

static bool fails(const struct shape *shape)
{
	return run_shape(shape, false);
}

static bool shrink_faults(struct shape *shape)
{
	for (int i = 0; i < shape->faults.count; i++) {
		struct shape less = *shape;

		less.faults.count--;
		memmove(&less.faults.at[i], &less.faults.at[i + 1],
			sizeof(less.faults.at[0]) * (size_t)(less.faults.count - i));
		if (fails(&less)) {
			*shape = less;
			return true;
		}
	}
	return false;
}

static bool shrink_counts(struct shape *shape)
{
	struct shape fewer_calls = *shape, fewer_ranks = *shape;

	fewer_calls.calls--;
	if (fewer_calls.calls > 0 && fails(&fewer_calls)) {
		*shape = fewer_calls;
		return true;
	}
	fewer_ranks.ranks--;
	if (fewer_ranks.ranks > 1 && fails(&fewer_ranks)) {
		*shape = fewer_ranks;
		return true;
	}
	return false;
}

/* The fault strikes earlier, and lasts shorter. */
static bool shrink_numbers(struct shape *shape)
{
	for (int i = 0; i < shape->faults.count; i++) {
		struct shape less = *shape;

		less.faults.at[i].event /= 2;
		if (less.faults.at[i].event > 0 && fails(&less)) {
			*shape = less;
			return true;
		}
	}
	return false;
}

static void report(const struct shape *failed)
{
	struct shape shape = *failed;
	char text[FAULTS_TEXT], calls[32] = "";
	const char *failure;

	while (shrink_faults(&shape) || shrink_counts(&shape) || shrink_numbers(&shape))
		;
	failure = run_shape(&shape, false);
	faults_fit(&shape.faults, shape.ranks, shape.line ? 1 : shape.calls);
	faults_print(&shape.faults, text);
	if (!shape.line)
		snprintf(calls, sizeof(calls), " --calls %d", shape.calls);
	printf("seed %llu fails: %s\n"
	       "simulate%s --seed %llu --faults '%s' --ranks %d%s --trace\n",
		(unsigned long long)shape.seed, failure ? failure : "it does not repeat",
		shape.line ? " --shrink" : "", (unsigned long long)shape.seed, text, shape.ranks,
		calls);
	fflush(stdout);
}

/* ---- Runs ---------------------------------------------------------------------------------- */

static bool run_one(uint64_t seed, bool is_line, const struct options *options)
{
	struct shape shape = draw_shape(seed, is_line, options);
	const char *failure;

	if (options->has_faults)
		shape.faults = options->faults;
	failure = run_shape(&shape, options->trace);
	if (failure && options->trace)
		printf("seed %llu fails: %s\n", (unsigned long long)seed, failure);
	else if (failure)
		report(&shape);
	return !failure;
}

static bool run_both(uint64_t seed, const struct options *options)
{
	return (options->shrink || run_one(seed, false, options)) && run_one(seed, true, options);
}

/* Every jobs-th seed from this one on. */
static int run_share(const struct options *options, int share)
{
	double began_s = now_s(), said_s = began_s;

	for (uint64_t i = (uint64_t)share; i < options->seeds; i += (uint64_t)options->jobs) {
		if (!run_both(options->from + i, options))
			return 1;
		if (share > 0 || now_s() < said_s + 10)
			continue;
		said_s = now_s();
		printf("%llu of %llu seeds, %.0f a second\n", (unsigned long long)i,
			(unsigned long long)options->seeds, (double)i / (said_s - began_s));
		fflush(stdout);
	}
	return 0;
}

static void end_all(const pid_t *pids, int count)
{
	for (int i = 0; i < count; i++)
		if (pids[i] > 0)
			kill(pids[i], SIGTERM);
}

static int run_shares(const struct options *options)
{
	pid_t pids[256];
	int failed = 0;

	for (int share = 0; share < options->jobs; share++) {
		pids[share] = fork();
		if (pids[share] == 0)
			_exit(run_share(options, share));
	}
	for (int ended = 0; ended < options->jobs; ended++) {
		int status;
		pid_t pid = wait(&status);

		for (int i = 0; i < options->jobs; i++)
			if (pids[i] == pid)
				pids[i] = -1;
		if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
			if (WIFSIGNALED(status))
				printf("a process ended by signal %d: try --jobs 1\n",
					WTERMSIG(status));
			failed = 1;
			end_all(pids, options->jobs);
		}
	}
	return failed;
}

static int run_all(const struct options *options)
{
	double began_s = now_s();
	int failed = options->jobs == 1 ? run_share(options, 0) : run_shares(options);

	if (!failed)
		printf("%llu seeds hold, from %llu on: %.0f a second\n",
			(unsigned long long)options->seeds, (unsigned long long)options->from,
			(double)options->seeds / (now_s() - began_s));
	return failed;
}

/* ---- Options ------------------------------------------------------------------------------- */

static int usage(void)
{
	fputs("usage: simulate [--shrink] --seeds N [--from SEED] [--jobs J]\n"
	      "       simulate [--shrink] --seed SEED [--faults LIST] [--ranks N] [--calls N] "
	      "[--trace]\n",
		stderr);
	return 2;
}

static bool read_option(struct options *options, const char *name, const char *value)
{
	char *end = NULL;
	uint64_t number = strtoull(value, &end, 10);
	bool is_number = *value && !*end;

	if (strcmp(name, "--faults") == 0) {
		options->has_faults = true;
		return faults_read(&options->faults, value);
	}
	if (!is_number)
		return false;
	if (strcmp(name, "--seed") == 0) {
		options->one = true;
		options->seed = number;
	} else if (strcmp(name, "--seeds") == 0) {
		options->seeds = number;
	} else if (strcmp(name, "--from") == 0) {
		options->from = number;
	} else if (strcmp(name, "--ranks") == 0) {
		options->ranks = (int)number;
	} else if (strcmp(name, "--calls") == 0) {
		options->calls = (int)number;
	} else if (strcmp(name, "--jobs") == 0) {
		options->jobs = (int)number;
	} else {
		return false;
	}
	return options->jobs >= 1 && options->jobs <= 256;
}

int main(int argc, char **argv)
{
	struct options options = { .jobs = 1 };

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--trace") == 0)
			options.trace = true;
		else if (strcmp(argv[i], "--shrink") == 0)
			options.shrink = true;
		else if (i + 1 == argc || !read_option(&options, argv[i], argv[i + 1]))
			return usage();
		else
			i++;
	}
	if (options.one)
		return run_one(options.seed, options.shrink, &options) ? 0 : 1;
	return options.seeds ? run_all(&options) : usage();
}
