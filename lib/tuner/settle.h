/*
 * Measured costs that settle. A machine that is busy while a comm is created can make any cost look
 * thousands of times as high. Costs far above their usual are measured again. Then medians count.
 * Where these are far above the usual too, the usual costs do; but a network may be slow, if the
 * measurements agree.
 */
#ifndef RD_SETTLE_H
#define RD_SETTLE_H

#include "tuner/cost.h"

/* The most measurements of a comm. */
#define RD_SETTLE_ROUNDS 3

/* `usual` is set by its user, the rest 0 at first. */
struct rd_settling {
	struct rd_costs usual; /* of rd_costs_default() */
	bool gave_up; /* its user did: nothing of a host has settled, and none follows */
	struct rd_costs rounds[RD_SETTLE_ROUNDS];
	int count;
};

/* Adds a measurement of all costs. Returns whether another one is to follow, for which there must
   be time. */
bool rd_settling_add(
	struct rd_settling *settling, const struct rd_costs *measured, bool is_time_left);

/* The costs, once no further measurement follows. False: some did not settle. Within a host these
   are the usual ones, between hosts the measured ones where only time was short. They hold for this
   comm, and are not to be kept. */
bool rd_settling_end(const struct rd_settling *settling, struct rd_costs *costs);

#endif
