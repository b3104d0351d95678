/* The two sides of a quorum, for quorum.c: each has the functions of quorum.h, for its part. */
#ifndef RD_QUORUM_SIDES_H
#define RD_QUORUM_SIDES_H

#include "bootstrap/shrink/quorum.h"

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

#endif
