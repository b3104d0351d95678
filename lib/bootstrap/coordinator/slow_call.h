/*
 * How the coordinator judges slow calls. A SLOW starts a query of all ranks, unless a failure is
 * queried about. Most often it ends with a line in the log. Ranks that wait for each other, or in
 * different calls, are a verdict.
 */
#ifndef RD_COORDINATOR_SLOW_CALL_H
#define RD_COORDINATOR_SLOW_CALL_H

#include "bootstrap/coordinator/coordinator.h"

/* A SLOW has come from this rank. */
void rd_slow_call_report(struct rd_coordinator *coordinator, int rank,
	const struct rd_control_message *message, int64_t now_ms);

/* Judges the slow call: all ranks have answered the query, or its time is over. */
void rd_slow_call_judge(struct rd_coordinator *coordinator, int64_t now_ms);

#endif
