/* The steps of a traced call beside those of its plan, and the times of a simulation. */
#ifndef PLAN_DIFFERENCE_H
#define PLAN_DIFFERENCE_H

#include "simulated.h"
#include "traced.h"

/* A step in the simulation. */
struct plan_predicted {
	int64_t wait_ns, begin_ns, end_ns; /* the wait, then the work from begin to end */
};

struct plan_difference {
	struct plan_trace *trace;
	const struct plan_trace_call *call;
	const struct plan_problem *made;
	const struct rd_algorithm *algorithm;
	struct plan_simulated simulated;
	struct rd_plan **plans; /* [ranks] */
	int ranks; /* that have a plan */
	int *firsts; /* [ranks + 1]: of each rank in the call's steps */
	int *seen; /* [ranks]: the step that the simulation did last */
	struct plan_predicted *predicted; /* [steps of the call] */
	int64_t predicted_ns; /* of the whole call */
	/* The rank that leaves its plan first (-1: none), the place in its plan, and the step that
	   the trace has there. */
	int other_rank, other_piece, other_step;
	int other; /* -1: the trace has none */
	/* A v-call, or one of which steps were dropped: it is not compared. */
	bool left_out;
	int late; /* the first step whose time differs; -1: none */
};

/*
 * Simulates the call over the network (NULL: the costs' links), and finds the first steps that
 * differ; in time by more than `within`, a factor. `made` has the costs, and becomes the call's.
 * `difference` starts from all zero. The next call, with the same `options` and network, takes over
 * its plans if they are the same. Returns 0 or an error with its reason. plan_difference_finish()
 * frees, after an error too.
 */
int plan_difference_find(struct plan_difference *difference, struct plan_problem *made,
	struct plan_options *options, struct plan_trace *trace, const struct plan_trace_call *call,
	struct network *network, double within);
void plan_difference_finish(struct plan_difference *difference);

/* Whether the step at this index of the call was predicted: it is the plan's. */
bool plan_difference_is_planned(const struct plan_difference *difference, int index);

#endif
