#include "check/algorithm.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "check/crash.h"
#include "check/progress.h"
#include "base/clock.h"
#include "plan/collective.h"
#include "base/error.h"
#include "base/hash.h"
#include "check/layouts.h"
#include "api/plugin.h"
#include "check/proof.h"
#include "base/trial.h"

#define TIMEOUT_S 600
#define LARGER 3 /* numbers of ranks above `ranks` */
#define LAYOUTS 4 /* ranks in order, and in three other orders and groups */
/* A function of the plug-in hangs that runs for longer, or for half of the time limit. */
#define HANGS_MS 10000

/* One collective of one algorithm: a line of the report. */
struct proof {
	const struct rd_algorithm *algorithm;
	enum rd_collective collective;
	int ranks;
	int larger[LARGER], larger_count;
	unsigned seed; /* of layouts */
	bool here; /* in this process */
	bool again; /* only compares: another process has proved the plans */
	uint64_t digest; /* of the plans of the size at hand */
	struct progress *progress;
	int held, declined; /* problems of the size at hand */
};

/* ---- Proving -------------------------------------------------------------------------------- */

static int target_of(const struct rd_problem *problem, int which)
{
	const int steps[] = { 1, problem->size / 2, problem->size - 1 };

	return problem->collective == RD_TRANSFER ? (problem->root + steps[which]) % problem->size
						  : 0;
}

/* If it declines rank 0, it must decline all: else some would run another algorithm. */
static int check_declined(const struct rd_algorithm *algorithm, const struct rd_problem *problem)
{
	struct rd_problem there = *problem;

	for (there.rank = 1; there.rank < problem->size; there.rank++)
		if (algorithm->may_run(&there))
			return rd_fail(RONDO_INVALID,
				"%s, %s, %d ranks, root %d: may_run() says no to rank 0, yes to "
				"rank %d",
				algorithm->name, rd_collective_name(problem->collective),
				problem->size, problem->root, there.rank);
	return 0;
}

static int prove_problem(struct proof *proof, const struct rd_problem *problem)
{
	const struct rd_algorithm watched = progress_watch(proof->progress, proof->algorithm);
	bool runs = !watched.may_run || watched.may_run(problem);
	int err = 0;

	if (!proof->again)
		err = runs ? rd_prove(&watched, problem) : check_declined(&watched, problem);
	if (!err && runs)
		err = rd_proof_add_plans(&watched, problem, &proof->digest);
	proof->digest = rd_hash(proof->digest, &runs, sizeof(runs));
	proof->held += runs;
	proof->declined += !runs;
	if (err && problem->layout)
		err = rd_fail(err, "%s (ranks in groups, not in order)", rondo_last_error());
	return err;
}

static int prove_targets(struct proof *proof, struct rd_problem *problem)
{
	int targets = problem->collective == RD_TRANSFER ? 3 : 1, err = 0;

	for (int which = 0; which < targets && !err; which++) {
		problem->target = target_of(problem, which);
		proof->progress->problem = *problem;
		err = prove_problem(proof, problem);
	}
	return err;
}

/* Tries every root, or, of many, the first and the last. */
static int prove_roots(struct proof *proof, struct rd_problem *problem)
{
	bool has_root = rd_collective_has_root(problem->collective);
	int step = problem->size > proof->ranks || problem->layout ? problem->size - 1 : 1;
	int err = 0;

	problem->root = 0;
	do {
		err = prove_targets(proof, problem);
		problem->root += step;
	} while (!err && has_root && step > 0 && problem->root < problem->size);
	return err;
}

/* Groups of as many ranks each, more than one of more than one rank. False: there are none. */
static bool draw_even(struct rd_layout *layout, int *sizes, int size, unsigned seed)
{
	int count = 2;

	while (count < size && size % count != 0)
		count++;
	if (count >= size)
		return false;
	if (seed % 2)
		count = size / count;
	for (int i = 0; i < count; i++)
		sizes[i] = size / count;
	sizes[count] = 0;
	layout_fill(layout, sizes, seed);
	return true;
}

/* The last has groups of as many ranks each: some algorithms need them. False: there are none. */
static bool draw_layout(struct rd_layout *layout, int *sizes, int size, int which, unsigned seed)
{
	if (which == LAYOUTS - 1)
		return draw_even(layout, sizes, size, seed);
	layout_draw(layout, sizes, size, which == 1 ? 4 : size, seed);
	return true;
}

/* `memory` holds 3 * size + 1 numbers. */
static int prove_layouts(struct proof *proof, int size, int *memory)
{
	struct rd_layout layout = { .order = memory, .group = memory + size };
	struct rd_problem problem = { .collective = proof->collective, .size = size };
	int err = prove_roots(proof, &problem);

	for (int i = 1; i < LAYOUTS && size > 1 && !err; i++) {
		if (!draw_layout(&layout, memory + 2 * size, size, i, proof->seed + (unsigned)i))
			continue;
		problem.layout = &layout;
		err = prove_roots(proof, &problem);
	}
	return err;
}

static int prove_size(struct proof *proof, int size)
{
	/* An all_to_all has size² blocks, counted by an int. */
	if (proof->collective == RD_ALL_TO_ALL && size > INT_MAX / size)
		return rd_fail(
			RONDO_UNSUPPORTED, "an all_to_all of %d ranks has too many blocks", size);

	int *memory = malloc((3 * (size_t)size + 1) * sizeof(*memory)), err;

	if (!memory)
		return rd_fail(RONDO_MEMORY, "no memory for layouts of %d ranks", size);
	proof->held = proof->declined = 0;
	proof->digest = RD_HASH_INIT;
	err = prove_layouts(proof, size, memory);
	free(memory);
	return err;
}

/* Records the end of a size; in the second process, compares it. */
static int end_size(const struct proof *proof, struct proof_size *size)
{
	if (proof->again && size->digest != proof->digest)
		return rd_fail(RONDO_INVALID,
			"%s, %s, %d ranks: two processes write different plans: a plan must follow "
			"from its problem alone",
			proof->algorithm->name, rd_collective_name(proof->collective), size->ranks);
	size->digest = proof->digest;
	size->state = proof->declined == 0 ? PROOF_HOLDS
		      : proof->held == 0   ? PROOF_DECLINED
					   : PROOF_IN_PART;
	return 0;
}

static int prove_all(void *argument)
{
	struct proof *proof = argument;
	struct progress *progress = proof->progress;
	int err = 0;

	if (!proof->here)
		crash_watch(&progress->crash, proof->algorithm);
	for (int i = 0; i < progress->count && !err; i++) {
		err = prove_size(proof, progress->sizes[i].ranks);
		if (!err)
			err = end_size(proof, &progress->sizes[i]);
	}
	progress->ended = true;
	return err;
}

/* Proves the plans in one process, then writes them in another. */
static int prove_twice(struct proof *proof, int timeout_ms)
{
	int err = 0;

	for (int i = 0; i < 2 && !err; i++) {
		proof->again = i > 0;
		proof->progress->ended = false;
		err = proof->here ? prove_all(proof) : rd_trial(prove_all, proof, timeout_ms);
	}
	return err;
}

/* ---- Reporting it --------------------------------------------------------------------------- */

#define RANGES 120
#define TEXT 512

static void say(
	const struct proof *proof, struct report *report, enum verdict verdict, const char *text)
{
	const struct progress *progress = proof->progress;
	struct report_proof sizes = { proof->algorithm->name, rd_collective_name(proof->collective),
		0, 0, 0 };

	if (progress) {
		sizes.in_part = progress_count(progress, PROOF_IN_PART);
		sizes.proved = progress_count(progress, PROOF_HOLDS) + sizes.in_part;
		sizes.declined = progress_count(progress, PROOF_DECLINED);
	}
	report_proof(report, verdict, &sizes, text);
}

static void report_proved(const struct proof *proof, struct report *report)
{
	const struct progress *progress = proof->progress;
	int declined = progress_count(progress, PROOF_DECLINED);
	int in_part = progress_count(progress, PROOF_IN_PART), proved;
	char ranges[RANGES], roots[40] = "", text[TEXT];
	size_t used;

	proved = progress_print(progress, PROOF_HOLDS, PROOF_IN_PART, ranges, sizeof(ranges));
	if (rd_collective_has_root(proof->collective))
		snprintf(roots, sizeof(roots), ", every root up to %d", proof->ranks);
	snprintf(text, sizeof(text), "proved for %s ranks%s: %d size%s; declined %d", ranges, roots,
		proved, proved == 1 ? "" : "s", declined);
	used = strlen(text);
	if (in_part > 0)
		snprintf(text + used, sizeof(text) - used,
			", and of %d some roots or orders of ranks", in_part);
	if (proved > 0) {
		say(proof, report, KEPT, text);
		return;
	}
	progress_print(progress, PROOF_DECLINED, PROOF_DECLINED, ranges, sizeof(ranges));
	snprintf(text, sizeof(text), "nothing was proved: may_run() declined %s ranks", ranges);
	say(proof, report, SKIPPED, text);
}

/* Writes the problem at hand: "all_reduce on 5 ranks, root 0". */
static void print_problem(const struct progress *progress, char *text, size_t size)
{
	const struct rd_problem *problem = &progress->problem;

	snprintf(text, size, "%s on %d rank%s, root %d", rd_collective_name(problem->collective),
		problem->size, problem->size == 1 ? "" : "s", problem->root);
}

/* The plug-in crashed, or ended the process. */
static void report_crash(const struct proof *proof, struct report *report)
{
	const char *running = proof->progress->running;
	enum crash_place place = (enum crash_place)proof->progress->crash;
	char reason[RD_REASON_SIZE], problem[80], text[RD_REASON_SIZE + TEXT];

	snprintf(reason, sizeof(reason), "%s", rondo_last_error());
	print_problem(proof->progress, problem, sizeof(problem));
	if (place == CRASH_UNKNOWN)
		place = running ? CRASH_IN_PLUGIN : CRASH_IN_RONDO;
	if (place == CRASH_IN_PLUGIN && running)
		snprintf(text, sizeof(text), "%s in %s, for %s, rank %d", reason, running, problem,
			proof->progress->problem.rank);
	else if (place == CRASH_IN_PLUGIN)
		snprintf(text, sizeof(text), "%s in the plug-in, for %s", reason, problem);
	else if (place == CRASH_UNDER_PLUGIN)
		snprintf(text, sizeof(text), "Rondo itself %s, called by %s, for %s, rank %d",
			reason, running ? running : "the plug-in", problem,
			proof->progress->problem.rank);
	else
		snprintf(text, sizeof(text),
			"rondo-check itself %s, in no function of the plug-in, for %s", reason,
			problem);
	say(proof, report, place == CRASH_IN_PLUGIN ? REFUSED : UNKNOWN, text);
}

static void report_timeout(const struct proof *proof, int timeout_ms, struct report *report)
{
	const struct progress *progress = proof->progress;
	int64_t ran_ms = rd_clock_ms() - progress->since_ms;
	char ranges[RANGES], problem[80], text[TEXT];

	print_problem(progress, problem, sizeof(problem));
	if (progress->running && (ran_ms >= HANGS_MS || ran_ms >= timeout_ms / 2)) {
		snprintf(text, sizeof(text), "hung for %.1f s in %s, for %s, rank %d",
			(double)ran_ms / 1000, progress->running, problem, progress->problem.rank);
		say(proof, report, REFUSED, text);
		return;
	}
	progress_print(progress, PROOF_HOLDS, PROOF_IN_PART, ranges, sizeof(ranges));
	snprintf(text, sizeof(text),
		"not done within %d s, at %s: proved for %s ranks; give more by --timeout, or "
		"fewer --ranks",
		timeout_ms / 1000, problem, *ranges ? ranges : "no");
	say(proof, report, UNKNOWN, text);
}

static void report_failure(
	const struct proof *proof, int err, int timeout_ms, struct report *report)
{

	if (err == RONDO_MEMORY || (proof->progress->ended && err == RONDO_UNSUPPORTED))
		say(proof, report, UNKNOWN, rondo_last_error());
	else if (proof->progress->ended)
		say(proof, report, REFUSED, rondo_last_error());
	else if (err == RONDO_TIMEOUT)
		report_timeout(proof, timeout_ms, report);
	else
		report_crash(proof, report);
}

static void check_collective(struct proof *proof, int timeout_ms, struct report *report)
{
	int err;

	proof->progress = progress_create(proof->ranks, proof->larger, proof->larger_count);
	if (!proof->progress) {
		say(proof, report, UNKNOWN, "no memory to try it");
		return;
	}
	err = prove_twice(proof, timeout_ms);
	if (err)
		report_failure(proof, err, timeout_ms, report);
	else
		report_proved(proof, report);
	progress_destroy(proof->progress);
}

/* ---- All of them ---------------------------------------------------------------------------- */

/* Sizes above `ranks`, up to three times `ranks`: one from each third of them. */
static void draw(struct proof *proof)
{
	unsigned seed[LARGER + 1] = { 1, 2, 3, 4 };
	int most = proof->ranks > RD_SIZE_MAX / 3 ? RD_SIZE_MAX : 3 * proof->ranks;
	int span = most - proof->ranks;

	if (getrandom(seed, sizeof(seed), 0) < 0)
		fprintf(stderr, "rondo-check: no random numbers: %m\n");
	proof->larger_count = span < LARGER ? span : LARGER;
	for (int i = 0; i < proof->larger_count; i++) {
		int begin = span * i / proof->larger_count;
		int end = span * (i + 1) / proof->larger_count;

		proof->larger[i] =
			proof->ranks + 1 + begin + (int)(seed[i] % (unsigned)(end - begin));
	}
	proof->seed = seed[LARGER] | 4;
}

static void check(struct proof *proof, const bool wanted[RD_COLLECTIVE_COUNT], int timeout_ms,
	struct report *report)
{
	for (int c = 0; c < RD_COLLECTIVE_COUNT; c++) {
		proof->collective = (enum rd_collective)c;
		if (proof->algorithm->write[c] && (!wanted || wanted[c]))
			check_collective(proof, timeout_ms, report);
	}
}

bool check_algorithms(const char *path, const struct options *options,
	const struct rd_settings *settings, struct report *report)
{
	int timeout_ms = (options->timeout_s ? options->timeout_s : TIMEOUT_S) * 1000;
	struct proof proof = { .ranks = options->ranks, .here = options->no_fork };
	const struct rd_algorithm *const *at;
	int refused = report->count[REFUSED];

	if (rd_plugin_load(RD_PLUGIN_ALGORITHM, path, settings))
		return false;
	draw(&proof);
	for (at = rd_plugin_algorithms(path); *at; at++) {
		printf("algorithm %s, from %s\n", (*at)->name, path);
		fflush(stdout);
		proof.algorithm = *at;
		check(&proof, NULL, timeout_ms, report);
	}
	if (report->count[REFUSED] > refused)
		report_hint(report, "--algorithm %s --ranks %d --no-fork", path, options->ranks);
	return true;
}

void check_algorithm(const struct rd_algorithm *algorithm, const bool wanted[RD_COLLECTIVE_COUNT],
	int ranks, struct report *report)
{
	struct proof proof = { .algorithm = algorithm, .ranks = ranks };

	draw(&proof);
	check(&proof, wanted, TIMEOUT_S * 1000, report);
}
