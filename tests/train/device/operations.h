/* Operations of a device, run on the CPU and on a GPU from the same numbers. */
#ifndef TRAIN_OPERATIONS_H
#define TRAIN_OPERATIONS_H

#include "train/device/device.h"

#define OPERANDS 8
#define ROOM 8192

/* All that an operation may read or write, in the device's memory. It is compared as a whole, so
   what is written beside a result shows, too. */
struct operands {
	float values[OPERANDS][ROOM]; /* within 2 either side of zero */
	double sums[ROOM]; /* likewise */
	int32_t labels[ROOM]; /* below LABELS */
	uint16_t halves[ROOM]; /* 0 */
	uint8_t index[ROOM]; /* below 4 */
};

#define LABELS 45

struct operation {
	const char *name;
	/* Queues it on a device; `o` lies there. */
	void (*run)(struct device *device, struct operands *o);
	/* The greatest difference between the two devices, as a part of the number, or of 1. */
	float bound;
};

/* Runs each operation on both devices; one line names the first that differs. */
int compare_operations(const struct operation *operations, int count);

#endif
