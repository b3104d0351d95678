/* Calibration of memory: measures copies and reductions of this core, in cache and beyond. */
#ifndef RD_CALIBRATE_MEMORY_H
#define RD_CALIBRATE_MEMORY_H

#include "tuner/cost.h"

/* Sets the costs of memory, in about a millisecond of processor time. Where there is no time or
   memory for more, memory beyond the caches costs as much as a cache. */
void rd_calibrate_memory(struct rd_costs *costs);

#endif
