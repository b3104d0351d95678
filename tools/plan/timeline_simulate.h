/* The times of a timeline as a simulation has them: with shared links, and slow and dead ranks. */
#ifndef PLAN_TIMELINE_SIMULATE_H
#define PLAN_TIMELINE_SIMULATE_H

#include "timeline.h"

/* Simulates the call, and sets times, ends, pieces and the simulation of a timeline that has its
   plans and schedule. A step that never ends begins and ends at -1. Returns 0 or an error with its
   reason. */
int plan_timeline_simulate(struct plan_timeline *timeline, const struct plan_options *options);

#endif
