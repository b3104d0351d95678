/* Calls of a trace as problems of the simulator: the plans and the layout with which they ran. */
#ifndef PLAN_TRACED_H
#define PLAN_TRACED_H

#include "simulated.h"
#include "trace_file.h"

/* "call 7 of comm 3f". Returns text. */
#define PLAN_CALL_NAME_SIZE 64
const char *plan_traced_name(const struct plan_trace *trace, const struct plan_trace_call *call,
	char text[PLAN_CALL_NAME_SIZE]);

/* The hosts of a comm. */
int plan_traced_hosts(const struct plan_trace_comm *comm);

/* Sets the size and the pieces of a call in `options`. */
void plan_traced_cut(struct plan_options *options, const struct plan_trace_call *call);

/* Returns whether the call has fewer steps than slices: some were dropped. */
bool plan_traced_is_short(const struct plan_trace_call *call);

/* Returns 0 or an error with its reason: the trace lacks ranks of the call, or its channels had
   different layouts. */
int plan_traced_check(const struct plan_trace *trace, const struct plan_trace_call *call);

/*
 * Sets the problem and the layout of a call, and in `options` its algorithm, ranks, size and
 * pieces. The ranks are spread over the hosts of `options`, where these were given. The costs of
 * `made` stay. Returns 0 or an error with its reason, also those of plan_traced_check().
 */
int plan_traced_make(struct plan_problem *made, struct plan_options *options,
	const struct plan_trace *trace, const struct plan_trace_call *call);

/* Finds the algorithm of a problem that plan_traced_make() made. Returns 0 or an error with its
   reason: it is not here, declines the problem, or cannot be simulated. */
int plan_traced_algorithm(const struct rd_algorithm **algorithm, const struct plan_problem *made,
	const struct plan_options *options);

/* Counts the steps of the call's simulation: an edited trace may have calls of any size. Returns 0
   or an error with its reason: those of all simulations are more than PLAN_TRACE_SIMULATED_MAX. */
int plan_traced_spend(struct plan_trace *trace, const struct plan_trace_call *call, int64_t steps);

#endif
