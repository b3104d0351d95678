/* The problem and the costs that the command line names. */
#ifndef PLAN_PROBLEM_H
#define PLAN_PROBLEM_H

#include "options.h"
#include "tuner/predict.h"

struct plan_problem {
	struct rd_problem problem; /* of rank 0 */
	struct rd_layout layout;
	int order[PLAN_RANKS_MAX], group[PLAN_RANKS_MAX];
	struct rd_costs costs;
};

/* Loads the plug-ins, and reads the costs. Returns 0 or an error with its reason. `made` points
   into itself, and stays where it is. */
int plan_problem_make(struct plan_problem *made, const struct plan_options *options);

/* Lays out the ranks, and states the problem. Its costs stay. */
void plan_problem_lay(struct plan_problem *made, const struct plan_options *options);

/* Loads the plug-ins alone. Returns 0 or an error with its reason. */
int plan_plugins_load(const char *const *plugins);

/* The algorithm of that name; and whether it has the collective. Return 0 or an error with its
   reason. */
int plan_algorithm_called(const struct rd_algorithm **algorithm, const char *name);
int plan_algorithm_serves(const struct rd_algorithm *algorithm, enum rd_collective collective);

/* The algorithm, if it serves the problem; else an error with its reason. */
int plan_algorithm_find(
	const struct rd_algorithm **algorithm, const struct plan_problem *made, const char *name);

/* How the executor cuts a block of this size for the algorithm. Direct access has one piece; the
   calls of a trace had those that it has. */
struct rd_cut plan_cut(
	const struct plan_options *options, const struct rd_algorithm *algorithm, size_t size);

#endif
