/*
 * The memory of a program of MSCCL while its blocks run without data (msccl_calls.c): the values of
 * all slots, the messages in the links, and the calls of each rank so far.
 *
 * A plan has one present value of each chunk on a rank. MSCCL's memory may have several: a message
 * that a later step adds stays in its link until then. One of MSCCL++ that finds no room there
 * stays at its sender.
 */
#ifndef PLAN_MSCCL_RUN_H
#define PLAN_MSCCL_RUN_H

#include "msccl.h"

#define LINK_MESSAGES 2

/* A slot's contents, or a chunk's present value. Zeros: nothing. */
struct msccl_value {
	int chunk; /* + 1 */
	int version; /* counts the chunk's values on this rank */
	int count; /* of ranks whose contributions are in it */
	int message; /* + 1: it is still in its link */
	int at; /* rank + 1: it is still there, as the link had no room */
};

struct msccl_message {
	int next; /* in its link; -1: the last */
	int from, channel, chunk, count;
};

/* The messages from one rank to another. */
struct msccl_link {
	int first, last; /* -1: none */
	int count, held; /* held: those at its front that later steps take */
};

/* A value that is at its rank, and in a slot of another one. */
struct msccl_stay {
	struct msccl_value *value;
	int to;
	int next; /* + 1: of the same chunk */
};

struct msccl_rank {
	struct msccl_value *slots; /* of the input, the output and scratch */
	int *stays; /* by chunk: + 1: the first of those that are here */
	struct msccl_value *now; /* by chunk: its present value */
	struct rd_file_step *steps;
	int step_count, capacity;
	int run_chunk, run_first, run_count; /* recv_reduce() of contributions in a row */
};

struct msccl_run {
	struct msccl *msccl;
	int err; /* the first */
	int size, chunks, ins, outs; /* slots of the input, the output */
	bool reduces, eager;
	struct msccl_rank *ranks;
	struct msccl_link *links; /* [from * size + to] */
	struct msccl_message *messages;
	int message_count, capacity;
	struct msccl_stay *stays;
	int stay_count, stay_capacity;
};

/* Sets run->err. msccl_run_finish() frees, also after a failure. */
void msccl_run_init(struct msccl_run *run, struct msccl *msccl);
void msccl_run_finish(struct msccl_run *run);
bool msccl_no_memory(struct msccl_run *run); /* sets run->err: false */

/* The slot that lies `more` behind this one. NULL: beyond the buffer's end. */
struct msccl_value *msccl_slot_at(
	const struct msccl_run *run, int rank, struct msccl_slot slot, int more);
struct msccl_link *msccl_link_of(const struct msccl_run *run, int from, int to);

/* Add a call, with its effect on links and present values: a send; a receive of the first message
   of its link; one that reduces. False: there is no memory (run->err). */
bool msccl_put(
	struct msccl_run *run, int from, int to, int channel, const struct msccl_value *value);
bool msccl_take(struct msccl_run *run, int rank, const struct msccl_message *message);
bool msccl_take_reduce(struct msccl_run *run, int rank, const struct msccl_message *message);

/* Leaves a value at its rank. The second sends all that are there of a chunk, before it has a newer
   value: false where a link has no room, too. */
bool msccl_stay(struct msccl_run *run, int from, int to, struct msccl_value *value);
bool msccl_send_stays(struct msccl_run *run, int from, int chunk);
/* Sends one of them: the last message of its link, which a later step takes. */
bool msccl_send_stay(struct msccl_run *run, int from, int to, struct msccl_value *value);

#endif
