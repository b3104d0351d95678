/*
 * A stage: host memory that a device addresses, for calls on device memory where devices do not
 * reach each other. A call is cut into parts, the same on every rank. While the host runs one part,
 * the next is copied in and the previous one out. The memory holds a few parts, is allocated when
 * first needed, and used again.
 *
 * Only the progress thread uses it.
 */
#ifndef RD_STAGING_H
#define RD_STAGING_H

#include "gpu/gpu.h"

struct rd_stage;

/* Runs an issued collective on device memory. On return it has run, and copies of its output are
   queued on the gpu's stream. The first failure ends the comm. *stage: NULL when first called. */
int rd_stage_run(struct rd_stage **stage, struct rd_gpu *gpu, struct rd_task *task);

/*
 * The same for transfers, of which some may be staged (transfers.c): gives each a feed, which can
 * be used once it has begun. No memory is taken before the first does.
 */
int rd_stage_prepare(struct rd_stage **stage, struct rd_gpu *gpu, struct rd_task *tasks, int count);
int rd_stage_begin(struct rd_stage *stage, int index);
/* When all have been run, or failed. */
void rd_stage_end(struct rd_stage *stage, int err);

/* Call it when the gpu's stream is idle. NULL is fine. */
void rd_stage_destroy(struct rd_stage *stage);

#endif
