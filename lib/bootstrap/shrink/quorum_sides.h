/* The functions that the files of a quorum call of each other. */
#ifndef RD_QUORUM_SIDES_H
#define RD_QUORUM_SIDES_H

#include "bootstrap/shrink/quorum.h"

/* ---- leader.c, member.c: the sides have the functions of quorum.h, for their part ------------ */

void rd_leader_begin(struct rd_quorum *quorum, int64_t now_ms);
void rd_leader_disconnected(struct rd_quorum *quorum, int rank, int error, int64_t now_ms);
void rd_leader_received(struct rd_quorum *quorum, int rank,
	const struct rd_control_message *message, int64_t now_ms);
void rd_leader_tick(struct rd_quorum *quorum, int64_t now_ms);
void rd_leader_vote(struct rd_quorum *quorum, int64_t now_ms);
/* When a rank is to be dialled, or given up. */
int64_t rd_leader_deadline(const struct rd_quorum *quorum);

void rd_member_begin(struct rd_quorum *quorum, int64_t now_ms);
void rd_member_disconnected(struct rd_quorum *quorum, int error, int64_t now_ms);
void rd_member_received(
	struct rd_quorum *quorum, const struct rd_control_message *message, int64_t now_ms);
void rd_member_tick(struct rd_quorum *quorum, int64_t now_ms);
void rd_member_vote(struct rd_quorum *quorum, int64_t now_ms);

/* ---- peers.c: the ranks of a quorum, for both of its sides, and whether one may vote --------- */

/* The quorum ends, with this error. */
void rd_quorum_fail(struct rd_quorum *quorum, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* A connection to this rank's place is to be opened. A host that lives has its kernel answer within
   the bound of heartbeats. */
void rd_quorum_dial(struct rd_quorum *quorum, int rank, int64_t now_ms);
/* Sets the standing of a rank to whose place no connection could be opened, by this errno. False:
   it is to be tried again. */
bool rd_quorum_judge(struct rd_quorum *quorum, int rank, int error, int64_t now_ms);
/* From now on refusals are tried again for RD_QUORUM_DOUBTS_MS. Each rank has that time; and again
   when a connection with it has ended. */
void rd_quorum_doubt(struct rd_quorum *quorum, int64_t now_ms);

/*
 * A rank votes for a plan by its MADE, and may lose the leader before it hears the end of the plan.
 * The leader may have committed it to others, which go on in that comm, or in one that it shrank
 * to. So the rank remembers the plan, and votes for the next one only if those cannot.
 */

/*
 * Before a vote for the comm that this rank has made; members: its ranks, NULL if it is alone.
 * Those of the plan before that are in the new comm must be as many as leader.c asks of those that
 * meet. 0: from now on this rank remembers the new comm. RONDO_TIMEOUT: they are not; RONDO_MEMORY;
 * both with the quorum's reason.
 */
int rd_vote(struct rd_quorum *quorum, const struct rd_member *members);

/* The leader has told the end of the plan; or no plan is left. */
void rd_vote_forget(struct rd_vote *vote);

#endif
