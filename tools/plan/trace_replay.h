/* A trace's calls in the simulator, on one machine and on another. */
#ifndef PLAN_TRACE_REPLAY_H
#define PLAN_TRACE_REPLAY_H

#include <stdio.h>

#include "problem.h"

/* The subcommand. `made` has the costs. Returns 0 or an error with its reason. */
int plan_replay(struct plan_problem *made, const struct plan_options *options, FILE *out);

#endif
