/* The memory of staged calls: blocks of host memory that the device addresses, NICs too, and local
   peers. Each serves one batch of tasks at a time. Only the caller's thread takes them. */
#ifndef RD_STAGE_MEMORY_H
#define RD_STAGE_MEMORY_H

#include "gpu/gpu.h"

struct rd_stage_block {
	struct rd_stage_block *next;
	char *memory;
	size_t size;
	uint32_t number; /* of the last call that used it: free once that has finished */
	bool collective; /* that was one */
	_Atomic bool busy; /* the host is not done with it */
};

struct rd_stage {
	struct rd_gpu *gpu;
	struct rd_stage_block *blocks;
};

/* A block for the call gpu->number, busy until the host is done. The first call makes gpu->stage. A
   collective may wait for earlier ones. */
int rd_stage_take(struct rd_gpu *gpu, size_t size, bool collective, struct rd_stage_block **found);

/* Call it when the streams are idle. NULL is fine. */
void rd_stage_destroy(struct rd_stage *stage);

#endif
