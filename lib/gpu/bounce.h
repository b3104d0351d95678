/*
 * Bounces: device memory of this rank that peers map, in place of buffers that they cannot map:
 * pinned host memory, and memory that the driver gives no handle for. The stream copies the input
 * there before the call, and the output back after it.
 */
#ifndef RD_BOUNCE_H
#define RD_BOUNCE_H

#include "gpu/state.h"

/* *at: memory for `size` bytes in place of those at `buffer`. which: 0 for inputs, 1 for outputs.
   It serves one call at a time: calls follow each other. May wait for earlier calls. */
int rd_bounce_get(struct rd_gpu *gpu, int which, const void *buffer, size_t size, void **at);
void rd_bounces_free(struct rd_gpu *gpu);

#endif
