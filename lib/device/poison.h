/*
 * Poison: a kernel at the end of a call. Where the comm has failed by then, it fills this rank's
 * outputs of the call with bytes 0xFF, which are NaN in every float type.
 */
#ifndef RD_POISON_H
#define RD_POISON_H

#include <stddef.h>

#include "device/work.h"

/* Outputs of one kernel; blocks of different lengths are one each. */
#define RD_POISON_OUTPUTS 64
/* Blocks of the kernel: as good as none where there is nothing to do. */
#define RD_POISON_BLOCKS 4

struct rd_poison_output {
	char *at;
	size_t size;
};

/* Passed to a kernel by value. */
struct rd_poison {
	const struct rd_abort_flag *abort_flag;
	int count;
	struct rd_poison_output outputs[RD_POISON_OUTPUTS];
};

#endif
