/* The host, local rank and device of each rank, printed at the start. */
#ifndef TRAIN_PLACES_H
#define TRAIN_PLACES_H

#include "train/metrics/report.h"
#include "train/world/world.h"

/* Beyond this number of ranks there is a line for each host, up to this number of hosts. */
#define PLACES_LINES 16

/*
 * Rank 0 prints a line for each rank, in order:
 *
 *     [rank 0] host NAME local rank 0 device cpu (2 threads)
 *
 * device: a text for this rank's. Collective.
 */
int places_report(
	struct report *report, const struct train_world *world, int local_rank, const char *device);

#endif
