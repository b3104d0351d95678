/*
 * Runs simulated worlds from seeds, and checks the properties of each. Each seed has two: a comm
 * from its rendezvous to its end (world.h), and a comm that shrinks (shrink/world.h).
 *
 *   simulate --seeds N [--from SEED] [--jobs J]      N seeds, J processes
 *   simulate --seed SEED [--faults LIST] [--ranks N] [--calls N] [--trace]
 *   simulate --only calls|shrinks|groups ...         one kind of worlds alone
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

#include "kinds.h"

enum kind {
	CALLS, /* of one comm */
	SHRINKS, /* ranks that shrink a comm (shrink/) */
	GROUPS, /* ranks that make groups (jobs/) */
	KINDS
};

static const char *const kind_names[KINDS] = { "calls", "shrinks", "groups" };

struct options {
	uint64_t seed, from, seeds;
	bool one, has_faults, trace;
	int only; /* enum kind; -1: all */
	struct faults faults;
	int ranks, calls, jobs;
};

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ---- Worlds -------------------------------------------------------------------------------- */

/* A world of any kind. */
struct shape {
	enum kind kind;
	uint64_t seed;
	struct faults faults;
	int ranks, calls; /* calls: or groups; 0: the kind has neither */
};

static struct shape draw_shape(uint64_t seed, enum kind kind, const struct options *options)
{
	struct shape shape = { .kind = kind, .seed = seed };

	if (kind == SHRINKS) {
		shrink_draw(seed, options->ranks, &shape.faults, &shape.ranks);
		return shape;
	}
	if (kind == GROUPS) {
		jobs_draw(seed, options->ranks, options->calls, &shape.faults, &shape.ranks,
			&shape.calls);
		return shape;
	}
	world_draw(seed, options->ranks, options->calls, &shape.faults, &shape.ranks, &shape.calls);
	return shape;
}

/* NULL: it has all properties. */
static const char *run_shape(const struct shape *shape, bool trace)
{
	struct faults faults = shape->faults;

	faults_fit(&faults, shape->ranks, shape->kind == CALLS ? shape->calls : 1);
	if (shape->kind == SHRINKS)
		return shrink_run(shape->seed, shape->ranks, &faults, trace);
	return (shape->kind == GROUPS ? jobs_run : world_run)(
		shape->seed, shape->ranks, shape->calls, &faults, trace);
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
	faults_fit(&shape.faults, shape.ranks, shape.kind == CALLS ? shape.calls : 1);
	faults_print(&shape.faults, text);
	if (shape.calls)
		snprintf(calls, sizeof(calls), " --calls %d", shape.calls);
	printf("seed %llu fails: %s\n"
	       "simulate --only %s --seed %llu --faults '%s' --ranks %d%s --trace\n",
		(unsigned long long)shape.seed, failure ? failure : "it does not repeat",
		kind_names[shape.kind], (unsigned long long)shape.seed, text, shape.ranks, calls);
	fflush(stdout);
}

/* ---- Runs ---------------------------------------------------------------------------------- */

static bool run_one(uint64_t seed, enum kind kind, const struct options *options)
{
	struct shape shape = draw_shape(seed, kind, options);
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

/* Groups take as long as all else: every other seed has them. */
static bool has_kind(enum kind kind, uint64_t seed, const struct options *options)
{
	if (options->only >= 0)
		return options->only == (int)kind;
	return kind != GROUPS || seed % 2 == 0;
}

static bool run_kinds(uint64_t seed, const struct options *options)
{
	for (int kind = 0; kind < KINDS; kind++)
		if (has_kind((enum kind)kind, seed, options) &&
			!run_one(seed, (enum kind)kind, options))
			return false;
	return true;
}

/* Every jobs-th seed from this one on. */
static int run_share(const struct options *options, int share)
{
	double began_s = now_s(), said_s = began_s;

	for (uint64_t i = (uint64_t)share; i < options->seeds; i += (uint64_t)options->jobs) {
		if (!run_kinds(options->from + i, options))
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
	fputs("usage: simulate [--only KIND] --seeds N [--from SEED] [--jobs J]\n"
	      "       simulate [--only KIND] --seed SEED [--faults LIST] [--ranks N] [--calls N] "
	      "[--trace]\n"
	      "KIND: calls, shrinks or groups; one seed alone: calls if none is given\n",
		stderr);
	return 2;
}

static bool read_kind(struct options *options, const char *value)
{
	for (int kind = 0; kind < KINDS; kind++)
		if (strcmp(value, kind_names[kind]) == 0)
			options->only = kind;
	return options->only >= 0;
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
	if (strcmp(name, "--only") == 0)
		return read_kind(options, value);
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
	struct options options = { .jobs = 1, .only = -1 };

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--trace") == 0)
			options.trace = true;
		else if (i + 1 == argc || !read_option(&options, argv[i], argv[i + 1]))
			return usage();
		else
			i++;
	}
	if (options.one)
		return run_one(options.seed, options.only < 0 ? CALLS : (enum kind)options.only,
			       &options)
			       ? 0
			       : 1;
	return options.seeds ? run_all(&options) : usage();
}
