/*
 * The choices that a picker has made (pick.h), of all collectives. A program uses few size classes,
 * and a process may have a thousand comms: the list grows with the classes in use.
 */
#ifndef RD_CHOICES_H
#define RD_CHOICES_H

#include "plan/plan.h"
#include "tuner/cost.h"
#include "tuner/predict.h"
#include "tuner/single_copy.h"

struct rd_choice {
	const struct rd_algorithm *algorithm;
	int channels;
	size_t piece_size;
	int64_t predicted_ns;
	struct rd_shape shape; /* of the algorithm's plans */
	struct rd_single_copy learned; /* whether its messages use single copy */
	/* Kept where the log level asks for them: measured times of calls. */
	uint64_t calls;
	int64_t measured_ns; /* sum over all calls */
};

struct rd_made_choice {
	uint32_t key; /* the calls that it is for, as the picker numbers them */
	struct rd_choice *choice;
};

/* All zeros: empty. */
struct rd_choices {
	struct rd_made_choice *made; /* in the order of their keys */
	int count;
};

/* NULL: there is none. */
struct rd_choice *rd_choices_find(const struct rd_choices *choices, uint32_t key);
/* Adds a copy, where there is none of this key; it stays in place. NULL: no memory. */
struct rd_choice *rd_choices_add(
	struct rd_choices *choices, uint32_t key, const struct rd_choice *choice);
void rd_choices_finish(struct rd_choices *choices);

#endif
