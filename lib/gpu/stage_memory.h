/*
 * The memory of staged calls: blocks of host memory that the device addresses, NICs too, and local
 * peers. Each serves one batch of tasks at a time. Only the caller's thread takes them.
 *
 * To make a block, or free it, may take until the process's streams have done what is queued. So
 * usual calls find theirs made, and the rest is freed when none of the comm's calls is under way.
 */
#ifndef RD_STAGE_MEMORY_H
#define RD_STAGE_MEMORY_H

#include "gpu/state.h"

/* Bytes of the usual block, enough for a long collective. */
#define RD_STAGE_BLOCK_SIZE ((3 << 20) + (32 << 10))

struct rd_stage_block {
	struct rd_stage_block *next;
	char *memory;
	size_t size;
	uint32_t number; /* of the last call that used it: free once that has finished */
	bool collective; /* that was one */
	uint32_t let_go; /* not 0: the host is done with it */
};

struct rd_stage {
	struct rd_gpu *gpu;
	struct rd_stage_block *blocks;
};

/* Makes gpu->stage, with the usual blocks. */
int rd_stage_create(struct rd_gpu *gpu);

/* A block for the call gpu->number, busy until the host is done. Makes gpu->stage where few calls
   are staged. A collective may wait for earlier ones. */
int rd_stage_take(struct rd_gpu *gpu, size_t size, bool collective, struct rd_stage_block **found);

/* Call it when the streams are idle. NULL is fine. */
void rd_stage_destroy(struct rd_stage *stage);

#endif
