#include "train/optim/schedule.h"

#include <math.h>

double schedule_rate(const struct schedule *schedule, int64_t step)
{
	double rate = schedule->rate, lowest = schedule->lowest;
	if (step < schedule->warm_up)
		return rate * (step + 1) / schedule->warm_up;
	step -= schedule->warm_up;
	int64_t steps = schedule->steps - schedule->warm_up;
	switch (schedule->kind) {
	case SCHEDULE_STEP:
		return rate * pow(schedule->gamma, step / schedule->period);
	case SCHEDULE_COSINE:
		if (step >= steps)
			return lowest;
		return lowest + (rate - lowest) * 0.5 * (1 + cos(M_PI * step / steps));
	case SCHEDULE_CONSTANT:
		break;
	}
	return rate;
}
