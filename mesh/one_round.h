/* Each rank sends its data to every rank that needs it: one round of messages. */
#ifndef RD_ONE_ROUND_H
#define RD_ONE_ROUND_H

#include "plan/plan.h"

extern const struct rd_algorithm rd_one_round;

#endif
