/*
 * Measured costs of messages of several sizes, and the rejection of outliers. A rank that is
 * preempted while it measures takes milliseconds for what costs microseconds. A sample out of line
 * with the costs of smaller messages therefore counts only where another one confirms it.
 */
#ifndef RD_SAMPLES_H
#define RD_SAMPLES_H

#include <stdbool.h>

#include "tuner/cost.h"

/* The smallest size (RD_COST_POINTS, by number) at which the cost of bytes shows. Below it the
   cost of the message hides it. */
#define RD_SAMPLES_SLOPE_FROM 3

/* All zeros at first. */
struct rd_samples {
	unsigned measured; /* sizes, as bits */
	/* the two least of each size; second 0: there is none */
	uint32_t least[RD_COST_POINT_COUNT], second[RD_COST_POINT_COUNT];
};

void rd_samples_add(struct rd_samples *samples, int point, uint32_t cost_ns);

/* The cost of a message of this size: as measured, or extrapolated from the nearest smaller
   size; 0: unknown. */
int64_t rd_samples_expect(const struct rd_samples *samples, int point);

/* Returns whether this size's samples are out of line, and do not confirm each other. */
bool rd_samples_doubt(const struct rd_samples *samples, int point);

/*
 * Computes the costs: the least sample of each size, and never more than a longer message's. Sizes
 * that were not measured, or are in doubt, are interpolated linearly. Beyond the last point the
 * slope stays the same, and is at least that of the standard. Before the first, costs are the
 * standard, but no more than the first; where none was measured, all are.
 */
void rd_samples_settle(const struct rd_samples *samples,
	const uint32_t standard[RD_COST_POINT_COUNT], uint32_t costs[RD_COST_POINT_COUNT]);

#endif
