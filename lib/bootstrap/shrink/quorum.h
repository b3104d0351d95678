/*
 * The ranks that are left of a failed comm agree on who they are: a state machine of one of them.
 * shrink.h says what they do. It is data in, data out: no sockets, no clock. shrink.c gives it
 * events, and does what it asks for.
 *
 *   quorum.c    rounds, events and output
 *   leader.c    the side of the lowest rank, to which the others come
 *   member.c    the side of those that come
 *   peers.c     the ranks, for both sides, and whether one may vote
 *
 * A rank may have two connections with another one. This rank opens the one to the other's place: a
 * member the one to its leader; a leader one that shows whether a rank that has not come is there.
 * That one carries no messages but GATHER, which asks, and LEFT. The other connection is that by
 * which a member came here.
 */
#ifndef RD_QUORUM_H
#define RD_QUORUM_H

#include <stdbool.h>
#include <stdint.h>

#include "bootstrap/control.h"
#include "bootstrap/control_message.h"

#define RD_QUORUM_DOUBTS_MS 1000 /* for which refusals from other hosts are tried again */

/* A rank of the failed comm, as this rank takes it. */
enum rd_standing {
	RD_EXPECTED, /* it may come */
	RD_ACCUSED, /* the verdict is that it died */
	RD_ABSENT, /* it is not waited for; it may live on */
	RD_DIED, /* it died: the verdict says so, or it was on this host; and nobody listens */
};

enum rd_quorum_phase {
	RD_QUORUM_MEETING, /* the members come to the leader */
	RD_QUORUM_COMPLETE, /* the leader: all have come that will; rd_quorum_propose() is due */
	RD_QUORUM_MAKING, /* the plan is known: the new comm is made; rd_quorum_vote() is due */
	RD_QUORUM_VOTING, /* this rank has made it, or not */
	RD_QUORUM_AGREED, /* all have made it */
	RD_QUORUM_AGAIN, /* they have not, or a rank is gone: rd_quorum_begin() is due */
	RD_QUORUM_FAILED, /* error, reason */
};

/* The plan for which this rank has voted last, and whose end it does not know: the origins of its
   ranks. It is the failed comm's, for each of its shrinks. */
struct rd_vote {
	int size; /* 0: none */
	int *origins; /* to be freed with the comm */
};

struct rd_quorum_peer {
	enum rd_standing standing;
	bool dials; /* a connection to its place is to be open */
	unsigned attempt; /* which one: that of another number closes */
	bool answered; /* it has been open */
	bool here; /* a member: the connection by which it came is to be open */
	rd_control_kinds due; /* messages to it */
	int64_t next_ms; /* when to dial, or to give up what was dialled */
	int number; /* of a member, in the new comm */
	int made; /* its vote: 1: none yet; 0; an error */
	bool refuses; /* by its vote: the ranks must not begin again */
};

struct rd_quorum {
	/* The failed comm's; they outlive the machine: */
	const struct rd_settings *settings;
	const struct rd_member *members; /* [size] */
	struct rd_vote *vote;
	uint64_t lineage;
	int rank, size, timeout_ms;

	enum rd_quorum_phase phase;
	int leader; /* of this round */
	int rounds;
	unsigned attempts; /* to dial */
	int64_t until_ms; /* of this phase */
	int64_t doubts_ms; /* until then a refusal from another host proves nothing */
	struct rd_quorum_peer *peers; /* [size] */
	/* The plan: this rank's number, how many ranks, where they meet; and how many ranks are
	   left out and may live on. */
	int number, planned, lost;
	uint32_t port;
	/* A member: */
	int64_t answer_ms; /* for how long it waits for the leader's plan */
	int again_ms; /* before the next attempt to reach the leader */
	/* This rank's vote. */
	int made;
	bool refuses;
	/* Why the quorum fails; of a leader that asks for votes: the first that ends it. */
	int error;
	char reason[RD_REASON_SIZE];
};

/* settings, members, vote: of the failed comm. presence: of each rank, by the failed comm's
   control. RONDO_MEMORY. */
int rd_quorum_init(struct rd_quorum *quorum, const struct rd_settings *settings,
	const struct rd_member *members, uint64_t lineage, struct rd_vote *vote, int timeout_ms,
	const enum rd_presence *presence);
void rd_quorum_free(struct rd_quorum *quorum);

/* The ranks meet, again. */
void rd_quorum_begin(struct rd_quorum *quorum, int64_t now_ms);

/* ---- Events ---- */

/* The connection to this rank's place is open. */
void rd_quorum_connected(struct rd_quorum *quorum, int rank);
/* It could not be opened, or has ended, with this errno; 0: the other end closed it. */
void rd_quorum_disconnected(struct rd_quorum *quorum, int rank, int error, int64_t now_ms);
/* The rank of the failed comm that sends this GATHER, above this one; -1: none. */
int rd_quorum_rank_of(const struct rd_quorum *quorum, const struct rd_control_message *message);
/* This rank has come, over a new connection; if it is here, its last one has ended. False: it is
   too early or late: the connection is closed, and it comes again. */
bool rd_quorum_arrived(struct rd_quorum *quorum, int rank, int64_t now_ms);
/* The connection by which it came has ended. */
void rd_quorum_left(struct rd_quorum *quorum, int rank, int64_t now_ms);
/* A message came over the connection that carries messages. */
void rd_quorum_received(struct rd_quorum *quorum, int rank,
	const struct rd_control_message *message, int64_t now_ms);
/* No connection can be accepted, by this errno. */
void rd_quorum_cannot_accept(struct rd_quorum *quorum, int error);
/* Time has passed. */
void rd_quorum_tick(struct rd_quorum *quorum, int64_t now_ms);

/* ---- Acts of the caller ---- */

/* The leader: the ranks that have come make the new comm at this port. */
void rd_quorum_propose(struct rd_quorum *quorum, uint32_t port);
/* The leader cannot: the quorum fails, on all ranks. */
void rd_quorum_give_up(struct rd_quorum *quorum, int error, const char *reason);
/* This rank has made the new comm, or not: error, reason. members: of the new comm; NULL: this rank
   is alone in it. */
void rd_quorum_vote(struct rd_quorum *quorum, int error, const char *reason,
	const struct rd_member *members, int64_t now_ms);

/* ---- Output ---- */

/* After each event: the next message to this rank. It goes before the connection is closed. */
bool rd_quorum_next(
	struct rd_quorum *quorum, int rank, struct rd_control_message *message, int64_t now_ms);
/* When rd_quorum_tick() is due; RD_NEVER. */
int64_t rd_quorum_deadline(const struct rd_quorum *quorum);
/* Whether this rank is to accept connections at its place. */
bool rd_quorum_listens(const struct rd_quorum *quorum);

/* Among its own files, each of which calls those below it: */

/* ---- leader.c, member.c: the sides have the functions above, for their part ------------------ */

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
