/* Sizes of calls as classes, four to an octave, and the numbers of calls that share a choice. */
#ifndef RD_PICK_KEY_H
#define RD_PICK_KEY_H

#include <stdint.h>

#include "plan/plan.h"
#include "tuner/cost.h"

/* The least size of its class, for which all its sizes are predicted. */
uint64_t rd_size_class_least(uint64_t size);

/* The number of the calls that have one choice. fixed: 0, or a number for the plan file or the row
   that fixes it, whose range may end within a class. */
uint32_t rd_pick_key(enum rd_collective collective, uint64_t block_size, enum rd_type_class type,
	bool peers_mapped, int fixed);
enum rd_collective rd_pick_key_collective(uint32_t key);
uint64_t rd_pick_key_least(uint32_t key);

#endif
