/* How the participant fails, and what it reports to the coordinator. */
#ifndef RD_PARTICIPANT_FAILURE_H
#define RD_PARTICIPANT_FAILURE_H

#include "bootstrap/participant/participant.h"

/* As rd_participant_end(), where the reason is that this rank died or was lost. */
void rd_participant_end_without(struct rd_participant *participant, int lost, int error,
	const char *format, ...) __attribute__((format(printf, 4, 5)));

/* The same, but calls of this rank up to number `spared` may end well before it. */
void rd_participant_end_sparing(struct rd_participant *participant, uint32_t spared, int lost,
	int error, const char *reason);

/* Whether the death of rank 0 may spare calls: with the coordinator gone, ranks of other hosts do
   not learn which, and do not finish theirs. */
bool rd_participant_may_spare(const struct rd_participant *participant);

/* The same by this rank's own report, where nobody else judges it. */
void rd_participant_end_alone(struct rd_participant *participant);
/* The same where rank 0 has not answered the report within RD_REPORT_MS. */
void rd_participant_end_unanswered(struct rd_participant *participant);

/* "rank 0 (host a, pid 17)"; "rank 0 (at 10.0.0.1:29500)" before the members are known. */
const char *rd_participant_name_0(
	const struct rd_participant *participant, char name[RD_RANK_NAME_SIZE]);

/* Append a rank, a link failure; without memory for it the participant ends. */
void rd_participant_list(
	struct rd_participant *participant, struct rd_rank_list *list, int32_t rank);
void rd_participant_keep(struct rd_participant *participant, struct rd_link_failures *link_failures,
	const struct rd_link_failure *link_failure);

/* Reports a call of this rank that a rank which has left never made: it cannot end well. */
void rd_participant_check_calls(struct rd_participant *participant, int64_t now_ms);

#endif
