/* The kernels of emulated GPUs: each runs in the calling thread (work.c, steps.c, transfers.c). */
#ifndef RD_EMULATED_KERNELS_H
#define RD_EMULATED_KERNELS_H

#include "device/small_work.h"
#include "device/steps.h"
#include "device/transfer_work.h"
#include "device/work.h"

void rd_emulated_run(const struct rd_work *work);
void rd_emulated_small(const struct rd_small_work *work);
void rd_emulated_steps(const struct rd_steps *steps);
void rd_emulated_transfers(const struct rd_transfer_work *work);

#endif
