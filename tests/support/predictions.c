#include "predictions.h"

#include <criterion/criterion.h>

#include "base/error.h"
#include "exec/algorithms.h"
#include "tuner/eligible.h"

struct rd_costs plain_costs(void)
{
	static const uint32_t sizes[] = {
#define SIZE(bytes) (bytes),
		RD_COST_POINTS(SIZE)
#undef SIZE
	};
	struct rd_costs costs = { .copy_ps = 1000,
		.reduce_ps = { 2000, 4000 },
		.cores = 64,
		.memory_copy_ps = 1000,
		.memory_reduce_ps = { 2000, 4000 },
		.cache_bytes = 1 << 20 };

	for (int class = 0; class < RD_LINK_CLASS_COUNT; class ++)
		for (int i = 0; i < RD_COST_POINT_COUNT; i++) {
			costs.links[class].way_ns[i] = 1200 + 2 * sizes[i];
			costs.links[class].busy_ns[i] = 100 + sizes[i];
		}
	return costs;
}

const struct rd_algorithm *algorithm_named(const char *name)
{
	const struct rd_algorithm *found = rd_algorithm_named(name);

	cr_assert_not_null(found, "%s", name);
	return found;
}

int64_t predict_with(const struct rd_costs *costs, const char *name, struct rd_problem problem,
	const struct rd_cut *cut)
{
	struct rd_schedule *schedule;
	int64_t predicted;

	cr_assert_eq(rd_schedule_create(&schedule, algorithm_named(name), &problem), 0, "%s",
		rondo_last_error());
	predicted = rd_predict(schedule, costs, cut);
	rd_schedule_destroy(schedule);
	return predicted;
}

void each_problem(const int *sizes,
	void (*try)(const struct rd_algorithm *one, enum rd_collective collective, int size))
{
	for (int i = 0; rd_algorithms[i]; i++)
		for (int c = 0; c < RD_COLLECTIVE_COUNT; c++)
			for (int s = 0; sizes[s]; s++) {
				struct rd_problem problem = { .collective = c, .size = sizes[s] };

				if (c != RD_TRANSFER &&
					rd_algorithm_can(rd_algorithms[i], &problem))
					try(rd_algorithms[i], c, sizes[s]);
			}
}
