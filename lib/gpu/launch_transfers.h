/* The launch of a group's transfers as one kernel on the caller's stream (transfer_work.h). */
#ifndef RD_LAUNCH_TRANSFERS_H
#define RD_LAUNCH_TRANSFERS_H

#include "gpu/state.h"

/* Queues the kernel. from: where each receive's bytes are, as addressed here, or NULL where peers'
   kernels make the offers. In the caller's thread. */
int rd_transfers_launch(struct rd_gpu *gpu, struct rd_device_stream *device_stream,
	struct rd_task *tasks, int count, const char *const from[]);

/* Makes the lists of long groups. */
int rd_transfers_make_lists(struct rd_gpu *gpu);
/* Frees the lists of long groups, when all that was launched has run. */
void rd_transfers_free_lists(struct rd_gpu *gpu);

#endif
