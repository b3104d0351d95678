/*
 * How the coordinator judges failures. A report opens a case: all ranks are asked what they do, and
 * the verdict names the rank at fault once all have answered, or RD_CASE_MS have passed. A slow
 * call opens an inquiry: the same questions, but mostly a line in the log.
 */
#ifndef RD_DIAGNOSE_H
#define RD_DIAGNOSE_H

#include "bootstrap/coordinator_state.h"

/* A REPORT, SLOW or ANSWER has come from this rank. */
void rd_diagnose_report(struct rd_coordinator *coordinator, int rank,
	const struct rd_control_message *message, int64_t now_ms);
void rd_diagnose_slow(struct rd_coordinator *coordinator, int rank,
	const struct rd_control_message *message, int64_t now_ms);
void rd_diagnose_answer(struct rd_coordinator *coordinator, int rank,
	const struct rd_control_message *message, int64_t now_ms);

/* This rank has left: a failure, where another has reported that it waits for it. */
void rd_diagnose_leaver(struct rd_coordinator *coordinator, int leaver);

/* Judges what is due: ranks that are missing, the open case, the inquiry. False: nothing is. */
bool rd_diagnose_tick(struct rd_coordinator *coordinator, int64_t now_ms);

#endif
