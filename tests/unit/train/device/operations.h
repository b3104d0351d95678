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

/*
 * A number of one device may differ from the other's by the rounding of both (rounding.h). Without
 * `roundings`, all bits are the same.
 */
struct operation {
	const char *name;
	/* Queues it on a device; `o` lies there. */
	void (*run)(struct device *device, struct operands *o);
	double roundings; /* that an element sees, of floats */
	/* How large its summands are, by operand. None: it adds up products of operands, and the
	   sizes are those of the same sums of absolute operands. */
	double sizes[OPERANDS], sum_size;
	/* The operands are coarse, so that sums are exact: for thousands of products, whose
	   rounding may be as large as a product that is missing. */
	bool coarse;
};

/* A rounding of doubles, in those of floats. */
#define OF_DOUBLES 0x1p-29

/* Runs each operation on both devices; one line names the first that differs. */
int compare_operations(const struct operation *operations, int count);

#endif
