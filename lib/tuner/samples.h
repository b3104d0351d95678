/*
 * What messages of several sizes were measured to cost, and which of that to believe: a rank that
 * is preempted while it measures takes milliseconds for what costs microseconds. So a sample that
 * is out of line with what smaller messages cost counts only where another one confirms it.
 */
#ifndef RD_SAMPLES_H
#define RD_SAMPLES_H

#include <stdbool.h>

#include "tuner/cost.h"

/* The least of the sizes (RD_COST_POINTS, by number) that says what bytes cost: below it they hide
   in what a message costs. */
#define RD_SAMPLES_TELLING 3

/* All zeros at first. */
struct rd_samples {
	unsigned measured; /* sizes, as bits */
	uint32_t least[RD_COST_POINT_COUNT], second[RD_COST_POINT_COUNT]; /* 0: no second one */
	const uint32_t
		*alike; /* what sizes may cost where no smaller was measured; NULL: unknown */
};

void rd_samples_add(struct rd_samples *samples, int point, uint32_t cost_ns);

/* What a message of this size takes: as it was measured, or going by the nearest smaller one; 0:
   nothing is known. */
int64_t rd_samples_expect(const struct rd_samples *samples, int point);

/* Whether this size's samples are out of line, and do not confirm each other. */
bool rd_samples_doubt(const struct rd_samples *samples, int point);

/*
 * The costs: of each size the least sample, and never more than a longer message's; what was not
 * measured, or is in doubt, lies on a straight line, beyond the last as steep as before it, and no
 * less steep than the standard.
 */
void rd_samples_settle(const struct rd_samples *samples,
	const uint32_t standard[RD_COST_POINT_COUNT], uint32_t costs[RD_COST_POINT_COUNT]);

#endif
