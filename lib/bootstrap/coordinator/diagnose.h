/*
 * How the coordinator judges failures. A REPORT opens a case: the coordinator queries all ranks.
 * Once all have answered, or RD_CASE_MS have passed, the verdict names the rank at fault. A SLOW
 * opens an inquiry: the same query, but most often it ends with a line in the log.
 */
#ifndef RD_DIAGNOSE_H
#define RD_DIAGNOSE_H

#include "bootstrap/coordinator/state.h"

/* A REPORT, SLOW or ANSWER has come from this rank. */
void rd_diagnose_report(struct rd_coordinator *coordinator, int rank,
	const struct rd_control_message *message, int64_t now_ms);
void rd_diagnose_slow(struct rd_coordinator *coordinator, int rank,
	const struct rd_control_message *message, int64_t now_ms);
void rd_diagnose_answer(struct rd_coordinator *coordinator, int rank,
	const struct rd_control_message *message, int64_t now_ms);

/* This rank has left, which is a failure where another has reported to wait for it. */
void rd_diagnose_leaver(struct rd_coordinator *coordinator, int leaver);

/* Judges missing ranks, the case and the inquiry when their time is over. False: none is due. */
bool rd_diagnose_tick(struct rd_coordinator *coordinator, int64_t now_ms);

#endif
