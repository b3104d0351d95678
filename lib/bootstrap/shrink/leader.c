#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "bootstrap/rendezvous.h"
#include "bootstrap/shrink/quorum.h"
#include "net/socket.h"

/* Most ranks come at once, and need not be dialled. */
#define DIAL_AFTER_MS 100
/* A process that ends closes its place a moment after it is seen to die. */
#define AGAIN_MS 20

/* ---- Ranks that may still come -------------------------------------------------------------- */

static bool may_come(const struct rd_quorum *quorum, int rank)
{
	const struct rd_quorum_peer *peer = &quorum->peers[rank];

	return rank != quorum->rank && !peer->here && peer->standing < RD_ABSENT;
}

void rd_leader_begin(struct rd_quorum *quorum, int64_t now_ms)
{
	for (int rank = 0; rank < quorum->size; rank++) {
		struct rd_quorum_peer *peer = &quorum->peers[rank];
		bool accused = peer->standing == RD_ACCUSED;

		*peer = (struct rd_quorum_peer){ .standing = peer->standing,
			.next_ms = accused ? now_ms : now_ms + DIAL_AFTER_MS };
	}
	rd_leader_tick(quorum, now_ms);
}

static void stop_dialling(struct rd_quorum_peer *peer, int64_t next_ms)
{
	peer->dials = peer->answered = false;
	peer->next_ms = next_ms;
}

void rd_leader_disconnected(struct rd_quorum *quorum, int rank, int error, int64_t now_ms)
{
	struct rd_quorum_peer *peer = &quorum->peers[rank];

	if (peer->answered || error == ECONNRESET) {
		/* It was closed: the process ends, makes room for others, or is cut off. */
		rd_quorum_doubt(quorum, now_ms);
		stop_dialling(peer, now_ms + AGAIN_MS);
	} else if (rd_lacks_resources(error)) {
		stop_dialling(peer, now_ms + DIAL_AFTER_MS);
	} else {
		stop_dialling(peer, now_ms + AGAIN_MS);
		rd_quorum_judge(quorum, rank, error, now_ms);
	}
	rd_leader_tick(quorum, now_ms);
}

static void look_for(struct rd_quorum *quorum, int rank, int64_t now_ms)
{
	struct rd_quorum_peer *peer = &quorum->peers[rank];

	if (now_ms < peer->next_ms)
		return;
	if (peer->dials) {
		peer->standing = RD_ABSENT;
		stop_dialling(peer, RD_NEVER);
		return;
	}
	rd_quorum_dial(quorum, rank, now_ms);
}

int64_t rd_leader_deadline(const struct rd_quorum *quorum)
{
	int64_t deadline_ms = RD_NEVER;

	for (int rank = 0; rank < quorum->size; rank++)
		if (may_come(quorum, rank))
			deadline_ms = rd_sooner(deadline_ms, quorum->peers[rank].next_ms);
	return deadline_ms;
}

/* ---- Those that come ------------------------------------------------------------------------ */

int rd_quorum_rank_of(const struct rd_quorum *quorum, const struct rd_control_message *message)
{
	for (int rank = quorum->rank + 1; rank < quorum->size; rank++)
		if (message->gather.lineage == quorum->lineage &&
			message->gather.origin == quorum->members[rank].lineage.origin)
			return rank;
	return -1;
}

bool rd_quorum_arrived(struct rd_quorum *quorum, int rank, int64_t now_ms)
{
	struct rd_quorum_peer *peer = &quorum->peers[rank];

	if (quorum->leader != quorum->rank || quorum->phase != RD_QUORUM_MEETING)
		return false;
	if (peer->here)
		rd_quorum_doubt(quorum, now_ms);
	/* If it goes again, there is no time to wait. */
	stop_dialling(peer, 0);
	peer->standing = RD_EXPECTED;
	peer->here = true;
	peer->due = rd_control_bit(RD_CONTROL_HEARTBEAT);
	rd_leader_tick(quorum, now_ms);
	return true;
}

/* ---- The end of a meeting ------------------------------------------------------------------- */

/* To all that are here, and then their connections close. */
static void tell_all(struct rd_quorum *quorum, enum rd_control_kind kind)
{
	for (int rank = 0; rank < quorum->size; rank++) {
		struct rd_quorum_peer *peer = &quorum->peers[rank];

		if (peer->here)
			peer->due = rd_control_bit(kind);
		peer->here = peer->dials = false;
	}
}

/* The plan ends: the ranks begin again, or not. */
static void end_plan(struct rd_quorum *quorum, int error)
{
	quorum->error = error;
	tell_all(quorum, RD_CONTROL_VERDICT);
	quorum->phase = error == RONDO_DIED ? RD_QUORUM_AGAIN : RD_QUORUM_FAILED;
}

void rd_quorum_left(struct rd_quorum *quorum, int rank, int64_t now_ms)
{
	struct rd_quorum_peer *peer = &quorum->peers[rank];

	if (!peer->here)
		return;
	peer->here = false;
	peer->due = 0;
	rd_quorum_doubt(quorum, now_ms);
	if (quorum->phase == RD_QUORUM_COMPLETE)
		quorum->phase = RD_QUORUM_MEETING;
	if (quorum->phase == RD_QUORUM_MAKING)
		end_plan(quorum, RONDO_DIED);
	else
		rd_leader_tick(quorum, now_ms);
}

void rd_quorum_give_up(struct rd_quorum *quorum, int error, const char *reason)
{
	rd_quorum_fail(quorum, error, "%s", reason);
	tell_all(quorum, RD_CONTROL_VERDICT);
}

void rd_quorum_cannot_accept(struct rd_quorum *quorum, int error)
{
	char reason[RD_REASON_SIZE];

	if (quorum->phase != RD_QUORUM_MEETING)
		return;
	snprintf(reason, sizeof(reason), "rank %d cannot accept a connection: %s", quorum->rank,
		strerror(error));
	rd_quorum_give_up(quorum, RONDO_SYSTEM, reason);
}

/* Ranks that are dead by now may have gone on with lost ones before: they count against this side.
   The leader is the lowest of those that have come. */
static void count(struct rd_quorum *quorum)
{
	int here = 1, lost = 0, lowest = 0;
	char reason[RD_REASON_SIZE];

	for (int rank = quorum->size - 1; rank >= 0; rank--) {
		here += quorum->peers[rank].here;
		if (quorum->peers[rank].standing != RD_ABSENT)
			continue;
		lost++;
		lowest = rank;
	}
	quorum->planned = here;
	quorum->lost = lost;
	quorum->phase = RD_QUORUM_COMPLETE;
	if (lost == 0 || 2 * here > quorum->size || (2 * here == quorum->size && quorum->rank == 0))
		return;
	snprintf(reason, sizeof(reason),
		"rank %d met %d of %d ranks, but %d, rank %d the first, may live on where they are "
		"not reached: fewer than half, or half without rank 0, must not go on",
		quorum->rank, here, quorum->size, lost, lowest);
	rd_quorum_give_up(quorum, RONDO_TIMEOUT, reason);
}

static void meet(struct rd_quorum *quorum, int64_t now_ms)
{
	bool late = now_ms >= quorum->until_ms, complete = true;

	for (int rank = 0; rank < quorum->size; rank++) {
		if (!may_come(quorum, rank))
			continue;
		look_for(quorum, rank, now_ms);
		if (late)
			quorum->peers[rank].standing = RD_ABSENT;
		complete &= !may_come(quorum, rank);
	}
	if (!complete)
		return;
	for (int rank = 0; rank < quorum->size; rank++)
		stop_dialling(&quorum->peers[rank], 0);
	count(quorum);
}

/* Numbers the ranks that have come, in their order. */
void rd_quorum_propose(struct rd_quorum *quorum, uint32_t port)
{
	int number = 0;

	quorum->port = port;
	quorum->number = 0;
	quorum->phase = RD_QUORUM_MAKING;
	for (int rank = 0; rank < quorum->size; rank++) {
		struct rd_quorum_peer *peer = &quorum->peers[rank];

		if (!peer->here)
			continue;
		peer->number = ++number;
		peer->made = 1;
		peer->due |= rd_control_bit(RD_CONTROL_PLAN);
	}
}

/* ---- Votes ---------------------------------------------------------------------------------- */

/* Where the ranks may get on without one of them. A rank revokes the new comm where it has given it
   up already: its program cannot have. */
static bool may_pass(int error)
{
	return error == RONDO_DIED || error == RONDO_BROKEN || error == RONDO_TIMEOUT ||
	       error == RONDO_REVOKED;
}

/* 1: votes are awaited; 0: all have made the comm; else the members' first error. One that is gone,
   or has not made the comm in time, has died. */
static int count_votes(const struct rd_quorum *quorum, int64_t now_ms)
{
	int here = 1, unmade = 0, err = 0;

	for (int rank = 0; rank < quorum->size; rank++) {
		const struct rd_quorum_peer *peer = &quorum->peers[rank];

		if (!peer->here)
			continue;
		here++;
		unmade += peer->made > 0;
		if (peer->made < 0 && !err)
			err = peer->made;
	}
	if (here < quorum->planned)
		return RONDO_DIED;
	if (unmade > 0)
		return now_ms < quorum->until_ms ? 1 : err ? err : RONDO_DIED;
	return err;
}

static bool is_refused(const struct rd_quorum *quorum)
{
	bool refused = quorum->made && (quorum->refuses || !may_pass(quorum->made));

	for (int rank = 0; rank < quorum->size; rank++)
		refused |= quorum->peers[rank].here && quorum->peers[rank].refuses;
	return refused;
}

/* Where this rank has given up, members may still look for where they were to meet. */
static void judge_votes(struct rd_quorum *quorum, int64_t now_ms)
{
	int theirs = count_votes(quorum, now_ms);

	if (theirs > 0 && !may_pass(quorum->made))
		return;
	/* A plan that this rank has not voted for ends nothing that it remembers. */
	if (!quorum->made)
		rd_vote_forget(quorum->vote);
	if (!quorum->made && !theirs) {
		tell_all(quorum, RD_CONTROL_MADE);
		quorum->phase = RD_QUORUM_AGREED;
		return;
	}
	if (!is_refused(quorum) && (theirs >= 0 || may_pass(theirs)))
		quorum->error = RONDO_DIED;
	end_plan(quorum, quorum->error);
}

void rd_leader_vote(struct rd_quorum *quorum, int64_t now_ms)
{
	quorum->until_ms = now_ms + quorum->settings->init_timeout_ms + RD_REPORT_MS;
	quorum->error = quorum->made;
	judge_votes(quorum, now_ms);
}

/* Its error becomes the quorum's, where that has none that is worse: a refusal is. */
static void take_vote(struct rd_quorum *quorum, struct rd_quorum_peer *peer,
	const struct rd_control_message *message)
{
	bool refused = is_refused(quorum), ends = quorum->error && !may_pass(quorum->error);

	peer->made = message->made.error;
	peer->refuses = peer->made && message->made.refuses;
	if (refused || !peer->made || (ends && !peer->refuses))
		return;
	if (!quorum->error || peer->refuses || !may_pass(peer->made)) {
		quorum->error = peer->made;
		memcpy(quorum->reason, message->made.reason, sizeof(quorum->reason));
	}
}

void rd_leader_received(struct rd_quorum *quorum, int rank,
	const struct rd_control_message *message, int64_t now_ms)
{
	struct rd_quorum_peer *peer = &quorum->peers[rank];

	if (!peer->here)
		return;
	if (quorum->phase == RD_QUORUM_VOTING && message->kind == RD_CONTROL_MADE &&
		peer->made > 0) {
		take_vote(quorum, peer, message);
		rd_leader_tick(quorum, now_ms);
	} else {
		rd_quorum_left(quorum, rank, now_ms);
	}
}

void rd_leader_tick(struct rd_quorum *quorum, int64_t now_ms)
{
	if (quorum->phase == RD_QUORUM_MEETING)
		meet(quorum, now_ms);
	else if (quorum->phase == RD_QUORUM_VOTING)
		judge_votes(quorum, now_ms);
}
