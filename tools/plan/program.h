/*
 * The calls of a trace as a program: which rank makes which call, and how long it computes before
 * that. A simulation of it runs call after call in the virtual time of each rank.
 */
#ifndef PLAN_PROGRAM_H
#define PLAN_PROGRAM_H

#include "network.h"
#include "traced.h"

/* A rank's part in a call. */
struct plan_program_part {
	int rank;
	int64_t gap_ns; /* since its call before */
	int64_t length_ns; /* from its begin to its end */
};

struct plan_program_call {
	const struct plan_trace_call *call;
	const struct plan_program_part *parts;
	int part_count;
};

struct plan_program {
	struct plan_trace *trace;
	int comm, ranks;
	struct plan_program_call *calls;
	int call_count;
	int left_out; /* calls of other comms, and those of which steps were dropped */
	struct plan_program_part *parts; /* of all calls */
	int part_count;
	int64_t measured_ns; /* from the first begin to the last end */
};

/* The program of the comm that makes the first call. Returns 0 or an error with its reason.
   plan_program_finish() frees, after an error too. */
int plan_program_make(struct plan_program *program, struct plan_trace *trace);
void plan_program_finish(struct plan_program *program);

/*
 * Simulates it over the network (NULL: the costs' links). `calls_ns` [call_count] gets the time of
 * each call, from its first begin to its last end, *end_ns when the last rank is done, and
 * *lacking the number of calls that were simulated whole, though the trace lacks steps of them.
 * `made` has the costs. Returns 0 or an error with its reason.
 */
int plan_program_simulate(const struct plan_program *program, struct plan_problem *made,
	const struct plan_options *options, struct network *network, int64_t *calls_ns,
	int64_t *end_ns, int *lacking);

#endif
