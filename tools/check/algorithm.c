#include "check/algorithm.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "collective.h"
#include "error.h"
#include "layouts.h"
#include "plugin.h"
#include "proof.h"
#include "trial.h"

#define TIMEOUT_S 600
#define LARGER 3 /* numbers of ranks beyond those that are all tried */
#define LAYOUTS 3 /* ranks as they are numbered, and in two other orders and groups */

/* One collective of one algorithm: what a line is about. */
struct proof {
	const struct rd_algorithm *algorithm;
	enum rd_collective collective;
	int ranks;
	int larger[LARGER];
	unsigned seed; /* of layouts */
};

static int target_of(const struct rd_problem *problem, int which)
{
	const int steps[] = { 1, problem->size / 2, problem->size - 1 };

	return problem->collective == RD_TRANSFER ? (problem->root + steps[which]) % problem->size
						  : 0;
}

static int prove_targets(const struct proof *proof, struct rd_problem *problem)
{
	int targets = problem->collective == RD_TRANSFER ? 3 : 1, err = 0;

	for (int which = 0; which < targets && !err; which++) {
		problem->target = target_of(problem, which);
		rd_trial_stage("write_plan() or may_run(), for %s on %d ranks, root %d",
			rd_collective_name(problem->collective), problem->size, problem->root);
		if (!proof->algorithm->may_run || proof->algorithm->may_run(problem))
			err = rd_prove(proof->algorithm, problem);
		if (err && problem->layout)
			err = rd_fail(
				err, "%s (ranks in groups, not in order)", rondo_last_error());
	}
	return err;
}

/* Every root, or, where that would be too many, the first and the last. */
static int prove_roots(const struct proof *proof, struct rd_problem *problem)
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

static int prove_size(const struct proof *proof, int size)
{
	struct rd_problem problem = { .collective = proof->collective, .size = size };
	struct any_layout any;
	int err = prove_roots(proof, &problem);

	for (int i = 1; i < LAYOUTS && size > 1 && !err; i++) {
		problem.layout =
			layout_any(&any, size, i == 1 ? 4 : size, proof->seed + (unsigned)i);
		err = prove_roots(proof, &problem);
	}
	return err;
}

static int prove_all(void *argument)
{
	const struct proof *proof = argument;
	int err = 0;

	for (int size = 1; size <= proof->ranks && !err; size++)
		err = prove_size(proof, size);
	for (int i = 0; i < LARGER && !err; i++)
		err = prove_size(proof, proof->larger[i]);
	return err;
}

static void check_collective(struct proof *proof, int timeout_ms, struct report *report)
{
	const char *name = rd_collective_name(proof->collective);
	char text[160];

	if (rd_trial(prove_all, proof, timeout_ms)) {
		report_line(report, REFUSED, name, rondo_last_error());
		return;
	}
	snprintf(text, sizeof(text), "1 to %d ranks%s, and %d, %d, %d", proof->ranks,
		rd_collective_has_root(proof->collective) ? ", every root" : "", proof->larger[0],
		proof->larger[1], proof->larger[2]);
	report_line(report, KEPT, name, text);
}

/* Beyond `ranks`, and up to three times as many. */
static void draw(struct proof *proof)
{
	unsigned seed[LARGER + 1] = { 1, 2, 3, 4 };

	if (getrandom(seed, sizeof(seed), 0) < 0)
		fprintf(stderr, "rondo-check: no random numbers: %m\n");
	for (int i = 0; i < LARGER; i++)
		proof->larger[i] =
			proof->ranks + 1 + (int)(seed[i] % (2u * (unsigned)proof->ranks));
	proof->seed = seed[LARGER] | 4;
}

bool check_algorithms(const char *path, const struct options *options,
	const struct rd_settings *settings, struct report *report)
{
	int timeout_ms = (options->timeout_s ? options->timeout_s : TIMEOUT_S) * 1000;
	struct proof proof = { .ranks = options->ranks };
	const struct rd_algorithm *const *at;

	if (rd_plugin_load(RD_PLUGIN_ALGORITHM, path, settings))
		return false;
	draw(&proof);
	for (at = rd_plugin_algorithms(path); *at; at++) {
		printf("algorithm %s, from %s\n", (*at)->name, path);
		proof.algorithm = *at;
		for (int c = 0; c < RD_COLLECTIVE_COUNT; c++) {
			proof.collective = (enum rd_collective)c;
			if ((*at)->collectives >> c & 1)
				check_collective(&proof, timeout_ms, report);
		}
	}
	return true;
}
