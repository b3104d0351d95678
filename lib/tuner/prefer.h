/* Corrections of a choice for effects that the model leaves out: caches, and slow wake-ups. */
#ifndef RD_PREFER_H
#define RD_PREFER_H

#include "tuner/pick.h"

/* The one to take instead of the cheapest, or the cheapest, out of `count` that are predicted. */
const struct rd_choice *rd_prefer(const struct rd_tuner_config *config,
	enum rd_collective collective, uint64_t block_size, const struct rd_choice *cheapest,
	const struct rd_choice *predicted, int count);

#endif
