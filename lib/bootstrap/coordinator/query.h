/* A QUERY to all ranks, and their answers: of a failure, or of a slow call. */
#ifndef RD_COORDINATOR_QUERY_H
#define RD_COORDINATOR_QUERY_H

#include "bootstrap/coordinator/coordinator.h"

/* Queries all ranks; earlier answers count no more. The query ends after RD_QUERY_MS. */
void rd_query_all(struct rd_coordinator *coordinator, int64_t now_ms);

/* An ANSWER has come from this rank. True: it is the last one that the query waits for. */
bool rd_query_take_answer(
	struct rd_coordinator *coordinator, int rank, const struct rd_control_message *message);

/* A rank that has not answered; the suspect, if it has not (-1: none). Returns -1 if all have. */
int rd_query_unresponsive(const struct rd_coordinator *coordinator, int suspect);

/* The number of the collective that a rank is in, or was last. */
uint32_t rd_query_present_call(const struct rd_coordinator_rank *state);

/* A verdict where two ranks wait in different calls of one number: each for messages that the other
   never sends. False: there are none. */
bool rd_query_judge_calls(struct rd_coordinator *coordinator);

#endif
