#include "tuner/samples.h"

#include "tuner/thresholds.h"

#define POINT(bytes) (bytes),
static const size_t points[RD_COST_POINT_COUNT] = { RD_COST_POINTS(POINT) };
#undef POINT

void rd_samples_add(struct rd_samples *samples, int point, uint32_t cost_ns)
{
	uint32_t *least = &samples->least[point], *second = &samples->second[point];

	if (!(samples->measured >> point & 1)) {
		samples->measured |= 1u << point;
		*least = cost_ns;
	} else if (cost_ns < *least) {
		*second = *least;
		*least = cost_ns;
	} else if (*second == 0 || cost_ns < *second) {
		*second = cost_ns;
	}
}

/* The nearest point at or below (step -1), or at or above (1), that was measured; -1: none. */
static int nearest(unsigned measured, int point, int step)
{
	for (; point >= 0 && point < RD_COST_POINT_COUNT; point += step)
		if (measured >> point & 1)
			return point;
	return -1;
}

/* The cost of the bytes from the last measured point to the next: as steep as before it, and no
   less than by default. */
static uint32_t step_beyond(const uint32_t costs[RD_COST_POINT_COUNT], int last, int point,
	const uint32_t standard[RD_COST_POINT_COUNT])
{
	uint64_t step = standard[point] - standard[point - 1], alike = 0;

	if (last >= RD_SAMPLES_SLOPE_FROM)
		alike = (uint64_t)(costs[last] - costs[0]) * (points[point] - points[point - 1]) /
			points[last];
	step = alike > step ? alike : step;
	return step < UINT32_MAX - costs[point - 1] ? (uint32_t)step
						    : UINT32_MAX - costs[point - 1];
}

/* Between measured points a straight line; beyond the last, as steep as before it. Before the
   first, which a busy machine left out, the standard, but no more than the first. */
static void fill_gaps(uint32_t costs[RD_COST_POINT_COUNT], unsigned measured,
	const uint32_t standard[RD_COST_POINT_COUNT])
{
	for (int i = 0; i < RD_COST_POINT_COUNT; i++) {
		int low = nearest(measured, i, -1), high = nearest(measured, i, 1);

		if (low == i || (low < 0 && high < 0))
			continue;
		if (low < 0)
			costs[i] = costs[high] < standard[i] ? costs[high] : standard[i];
		else if (high < 0)
			costs[i] = costs[i - 1] + step_beyond(costs, low, i, standard);
		else
			costs[i] = costs[low] + (uint32_t)((uint64_t)(costs[high] - costs[low]) *
							   (points[i] - points[low]) /
							   (points[high] - points[low]));
	}
}

/* More bytes never cost less: a disturbance at one size does not make the next one cheap. */
static void straighten(uint32_t costs[RD_COST_POINT_COUNT], unsigned measured)
{
	uint32_t least = UINT32_MAX;

	for (int i = RD_COST_POINT_COUNT - 1; i >= 0; i--) {
		if (!(measured >> i & 1))
			continue;
		costs[i] = costs[i] < least ? costs[i] : least;
		least = costs[i];
	}
}

/* The nearest smaller size whose samples are not in doubt; -1: none. */
static int confirmed_below(const struct rd_samples *samples, int point)
{
	int low = nearest(samples->measured, point - 1, -1);

	while (low >= 0 && rd_samples_doubt(samples, low))
		low = nearest(samples->measured, low - 1, -1);
	return low;
}

int64_t rd_samples_expect(const struct rd_samples *samples, int point)
{
	int low = confirmed_below(samples, point);

	if (samples->measured >> point & 1 && !rd_samples_doubt(samples, point))
		return samples->least[point];
	if (low < 0)
		return 0;
	if (low < RD_SAMPLES_SLOPE_FROM)
		return samples->least[low] + points[point] / 4;
	return samples->least[low] * (int64_t)(points[point] / points[low]);
}

bool rd_samples_doubt(const struct rd_samples *samples, int point)
{
	struct rd_samples others = *samples;
	int64_t expected, least = samples->least[point];

	others.measured &= ~(1u << point);
	expected = rd_samples_expect(&others, point);
	if (!(samples->measured >> point & 1) || expected == 0 || least <= RD_OUTLIER * expected)
		return false;
	return samples->second[point] == 0 || samples->second[point] > RD_CONFIRMS * least;
}

void rd_samples_settle(const struct rd_samples *samples,
	const uint32_t standard[RD_COST_POINT_COUNT], uint32_t costs[RD_COST_POINT_COUNT])
{
	unsigned confirmed = 0;

	for (int point = 0; point < RD_COST_POINT_COUNT; point++) {
		bool is_confirmed =
			samples->measured >> point & 1 && !rd_samples_doubt(samples, point);

		confirmed |= (unsigned)is_confirmed << point;
		costs[point] = is_confirmed ? samples->least[point] : standard[point];
	}
	straighten(costs, confirmed);
	fill_gaps(costs, confirmed, standard);
}
