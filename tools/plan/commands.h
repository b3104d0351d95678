/* The subcommands of rondo-plan but for print and draw, each in the file of its name. */
#ifndef PLAN_COMMANDS_H
#define PLAN_COMMANDS_H

#include <stdio.h>

#include "problem.h"

/* Return 0 or an error with its reason. `made` has the costs, and may be laid out anew. */

/* The predicted times of all algorithms of a collective, by size. */
int plan_compare(struct plan_problem *made, const struct plan_options *options, FILE *out);
/* A trace beside the plans of its calls. */
int plan_diff(struct plan_problem *made, const struct plan_options *options, FILE *out);
/* A trace's calls in the simulator, on one machine and on another (trace_replay.c). */
int plan_replay(struct plan_problem *made, const struct plan_options *options, FILE *out);
/* One collective in the simulator (simulated.c). */
int plan_simulate(struct plan_problem *made, const struct plan_options *options, FILE *out);

/* Writes the plans of options->algorithm to options->output, or to its files of all ranks. */
int plan_export(const struct plan_problem *made, const struct plan_options *options);
/* Reads a program of another library from options->source, proves the plans, and writes them to
   options->output. */
int plan_import(const struct plan_options *options);

/* Proofs of an algorithm's plans, with the code of rondo-check: prints a line for each collective
   on standard output. Returns the exit status: 0, 1 where one was refused, 3 where one could not be
   decided; or an error (below 0) with its reason. */
int plan_prove(const struct plan_options *options);

#endif
