/*
 * A stage: host memory that a device addresses, through which calls on device memory are made where
 * devices do not reach each other. A call is cut into parts, the same on every rank; while one is
 * run on the host, the next comes from the device and the one before goes back. The memory holds a
 * few parts, is allocated when first needed, and used again.
 *
 * One thread's: the agent's.
 */
#ifndef RD_STAGE_H
#define RD_STAGE_H

#include "board.h"

struct rd_stage;

/* Runs issued tasks on device memory; they are one collective, or transfers, which advance side by
   side. On return all has been run, and what goes back is queued on the board's stream. The first
   failure ends the comm. *stage: NULL when first called. */
int rd_stage_run(struct rd_stage **stage, struct rd_board *board, struct rd_task *tasks, int count);

/* When the board's stream has come to its end. NULL is fine. */
void rd_stage_destroy(struct rd_stage *stage);

#endif
