/*
 * The coordinator's parts, each a file that calls those above it.
 */
#ifndef RD_COORDINATOR_PARTS_H
#define RD_COORDINATOR_PARTS_H

#include "bootstrap/coordinator/coordinator.h"

/* ---- diagnose.c: judges failures by a query of all ranks, and decides the verdict ------------ */

/* Sets the verdict and sends it to all ranks. The first stands: a later one is likely its
   consequence. */
void rd_coordinator_decide(struct rd_coordinator *coordinator, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Before rd_coordinator_decide(): the verdict is about this rank, which died or was lost. */
void rd_coordinator_lose(struct rd_coordinator *coordinator, int rank);

/* Before rd_coordinator_decide(): a rank that died or left had finished so many calls. Others may
   finish these, too, and have the verdict afterwards. */
void rd_coordinator_spare(struct rd_coordinator *coordinator, uint32_t calls);

/* Sends a message of this kind to all ranks that have not left. */
void rd_coordinator_send_to_all(struct rd_coordinator *coordinator, enum rd_control_kind kind);

/* "rank 2 (host a, pid 17)". */
const char *rd_coordinator_name_rank(
	const struct rd_coordinator *coordinator, int rank, char name[RD_RANK_NAME_SIZE]);
/* "all_reduce #17". */
const char *rd_coordinator_name_call(int collective, uint32_t number, char name[RD_RANK_NAME_SIZE]);
/* "rank 2 of 4 has", "ranks 2, 3 and 5 of 8 have". */
void rd_coordinator_name_ranks(const struct rd_coordinator *coordinator,
	bool (*which)(const struct rd_coordinator_rank *), char *text, size_t size);

/* A QUERY to all ranks, and their answers. */

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

/* Failures. */

/* The first REPORT starts a query of all ranks. Once all have answered, or RD_QUERY_MS have passed,
   the verdict names the rank at fault. */

/* A REPORT has come from this rank. */
void rd_diagnose_report(struct rd_coordinator *coordinator, int rank,
	const struct rd_control_message *message, int64_t now_ms);

/* This rank has left, which is a failure where another has reported to wait for it. */
void rd_diagnose_leaver(struct rd_coordinator *coordinator, int leaver);

/* A participant, or the coordinator, has waited for the others for init_timeout_ms. */
void rd_diagnose_give_up(struct rd_coordinator *coordinator);

/* All ranks have answered. Silence is judged at once. Where a link broke, the query continues for
   RD_QUERY_MS: the report of a death may come later than that of the broken link. */
void rd_diagnose_answered(struct rd_coordinator *coordinator);

/* Judges the failure by the answers so far. */
void rd_diagnose_judge(struct rd_coordinator *coordinator);

/* ---- slow_call.c: judges slow calls ---------------------------------------------------------- */

/* A SLOW starts a query of all ranks, unless a failure is queried about. Most often it ends with a
   line in the log. Ranks that wait for each other, or in different calls, are a verdict. */

/* A SLOW has come from this rank. */
void rd_slow_call_report(struct rd_coordinator *coordinator, int rank,
	const struct rd_control_message *message, int64_t now_ms);

/* Judges the slow call: all ranks have answered the query, or its time is over. */
void rd_slow_call_judge(struct rd_coordinator *coordinator, int64_t now_ms);

/* ---- links.c: ranks open their links, or fall back to the next transport --------------------- */

/* A LINK_FAILED has come from this rank. Both of a pair may send it: the second changes nothing.
   False: it makes no sense. */
bool rd_links_failed(
	struct rd_coordinator *coordinator, int rank, const struct rd_link_failure *link_failure);
/* An OPEN has come from this rank. False: it makes no sense. */
bool rd_links_open(
	struct rd_coordinator *coordinator, int rank, const struct rd_control_message *message);
/* This rank has left: those that open links to it learn of it. */
void rd_links_left(struct rd_coordinator *coordinator, int leaver);
/* A READY has come from a rank that is not ready. */
void rd_links_ready(struct rd_coordinator *coordinator, struct rd_coordinator_rank *state,
	const struct rd_control_message *message);

/* The least limits of all ranks' links, once all are ready. */
struct rd_link_limits rd_links_limits(const struct rd_coordinator *coordinator);

/* ---- join.c: admits ranks, or refuses them --------------------------------------------------- */

/* Takes the first message over a connection: a HELLO, or a REPORT of a rank that cannot take
   part. */
void rd_join_first(struct rd_coordinator *coordinator, struct rd_coordinator_connection *connection,
	const struct rd_control_message *message);

#endif
