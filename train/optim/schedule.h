/* The learning rate of each step. */
#ifndef TRAIN_OPTIM_SCHEDULE_H
#define TRAIN_OPTIM_SCHEDULE_H

#include <stdint.h>

enum schedule_kind {
	SCHEDULE_CONSTANT,
	SCHEDULE_STEP, /* torch.optim's StepLR */
	SCHEDULE_COSINE, /* CosineAnnealingLR: half a cosine wave from rate to `lowest` */
};

struct schedule {
	enum schedule_kind kind;
	double rate; /* the highest */
	double lowest; /* of SCHEDULE_COSINE */
	double gamma; /* of SCHEDULE_STEP: the factor after each `period` steps */
	int64_t period;
	int64_t warm_up; /* steps over which the rate grows linearly; the last has the full rate */
	int64_t steps; /* of the whole run, warm-up included */
};

/* The rate of a step, counted from 0. */
double schedule_rate(const struct schedule *schedule, int64_t step);

#endif
