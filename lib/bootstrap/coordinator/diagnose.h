/*
 * How the coordinator judges failures. The first REPORT starts a query of all ranks (query.h). Once
 * all have answered, or RD_QUERY_MS have passed, the verdict names the rank at fault.
 */
#ifndef RD_DIAGNOSE_H
#define RD_DIAGNOSE_H

#include "bootstrap/coordinator/coordinator.h"

/* A REPORT has come from this rank. */
void rd_diagnose_report(struct rd_coordinator *coordinator, int rank,
	const struct rd_control_message *message, int64_t now_ms);

/* This rank has left, which is a failure where another has reported to wait for it. */
void rd_diagnose_leaver(struct rd_coordinator *coordinator, int leaver);

/* A participant, or the coordinator, has waited for the others for init_timeout_ms. */
void rd_diagnose_give_up(struct rd_coordinator *coordinator);

/* All ranks have answered. Silence is judged at once. Where a link broke, the query goes on for
   RD_QUERY_MS: the report of a death may come later than that of the broken link. */
void rd_diagnose_answered(struct rd_coordinator *coordinator);

/* Judges the failure by the answers so far. */
void rd_diagnose_judge(struct rd_coordinator *coordinator);

#endif
