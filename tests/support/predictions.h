/* Predictions of plans at costs for computation by hand. */
#ifndef PREDICTIONS_H
#define PREDICTIONS_H

#include "tuner/predict.h"

/* Costs for computation by hand. A message takes 1000 ns on its way, and each side 100 ns and 1 ns
   a byte. A byte takes 1 ns to copy and 2 ns to reduce, in a cache and beyond. */
struct rd_costs plain_costs(void);
/* It must exist. */
const struct rd_algorithm *algorithm_named(const char *name);
int64_t predict_with(const struct rd_costs *costs, const char *name, struct rd_problem problem,
	const struct rd_cut *cut);
/* Calls `try` for each algorithm, collective and size (0 at the end) that can run, but for
   transfers. */
void each_problem(const int *sizes,
	void (*try)(const struct rd_algorithm *one, enum rd_collective collective, int size));

#endif
