/* A gpu's making and its end. Nothing else of this folder calls these. */
#ifndef RD_GPU_CREATE_H
#define RD_GPU_CREATE_H

#include "gpu/state.h"

/* The device of a comm's calls, from its settings; -1: none. */
int rd_gpu_device(const struct rd_settings *settings, int *device, uint32_t *pci);

/*
 * Once the comm is up: the same on all ranks. Where a rank has no device, comm->gpu stays NULL
 * and the comm handles host memory alone.
 */
int rd_gpu_create(struct rondo_comm *comm);
/* Waits for the calls under way (when the comm has failed, lets their streams go), and ends the
   progress thread, which needs the comm's control connection. */
void rd_gpu_finish(struct rd_gpu *gpu);
void rd_gpu_destroy(struct rd_gpu *gpu);

#endif
