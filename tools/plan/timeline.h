/*
 * The plans of all ranks, and when each of their steps works: in the virtual time of a replay, or
 * of a simulation where the options ask for one (plan_options_simulate()).
 */
#ifndef PLAN_TIMELINE_H
#define PLAN_TIMELINE_H

#include "problem.h"
#include "simulate.h"

struct plan_timeline {
	const struct rd_algorithm *algorithm;
	const struct plan_problem *made;
	size_t size; /* bytes of a block */
	struct rd_plan **plans; /* [ranks] */
	struct rd_schedule *schedule; /* whole: an event for each step */
	int pieces; /* that are replayed, */
	uint64_t all_pieces; /* of so many */
	int64_t end_ns; /* of those */
	int64_t predicted_ns; /* of the call */
	/* [pieces * events]: on the path that decides when the last rank ends. None is, where the
	   call never ends. */
	bool *critical;
	struct simulation simulation; /* without ranks: a replay */
};

/* Returns 0 or an error with its reason. `made` outlives the timeline. */
int plan_timeline_create(struct plan_timeline *timeline, const struct plan_problem *made,
	const struct plan_options *options);
void plan_timeline_destroy(struct plan_timeline *timeline);

/* timeline_simulate.c, for plan_timeline_create(): simulates the call, and sets times, ends, pieces
   and the simulation of a timeline that has its plans and schedule. A step that never ends begins
   and ends at -1. Returns 0 or an error with its reason. */
int plan_timeline_simulate(struct plan_timeline *timeline, const struct plan_options *options);

/* False: in a simulation all ranks died, or some wait for ever. */
bool plan_timeline_ends(const struct plan_timeline *timeline);

/* The index of a step's event in a piece: in `critical`, and in the schedule's times. */
size_t plan_timeline_at(const struct plan_timeline *timeline, int piece, int rank, int step);

/* The event whose message this one took; -1: it took none. */
int plan_timeline_sender(const struct plan_timeline *timeline, int rank, int step);

#endif
