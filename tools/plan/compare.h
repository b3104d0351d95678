/* The predicted times of all algorithms of a collective, by size. */
#ifndef PLAN_COMPARE_H
#define PLAN_COMPARE_H

#include <stdio.h>

#include "problem.h"

/* Returns 0 or an error with its reason. */
int plan_compare_write(
	const struct plan_problem *made, const struct plan_options *options, FILE *out);

#endif
