/* A trace beside the plans of its calls, as text, lines and JSON. docs/rondo-plan.md has the
   columns. */
#ifndef PLAN_DIFF_H
#define PLAN_DIFF_H

#include <stdio.h>

#include "problem.h"

/* The subcommand. `made` has the costs. Returns 0 or an error with its reason. */
int plan_diff(struct plan_problem *made, const struct plan_options *options, FILE *out);

#endif
