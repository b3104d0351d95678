#include "bootstrap/shrink/quorum.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"

int rd_quorum_init(struct rd_quorum *quorum, const struct rd_settings *settings,
	const struct rd_member *members, uint64_t lineage, struct rd_vote *vote, int timeout_ms,
	const enum rd_presence *presence)
{
	static const enum rd_standing standings[] = { [RD_PRESENT] = RD_EXPECTED,
		[RD_LATE] = RD_EXPECTED,
		[RD_CUT_OFF] = RD_EXPECTED,
		[RD_LOST] = RD_ABSENT,
		[RD_DEAD] = RD_ACCUSED };

	*quorum = (struct rd_quorum){ .settings = settings,
		.members = members,
		.vote = vote,
		.lineage = lineage,
		.rank = settings->rank,
		.size = settings->size,
		.timeout_ms = timeout_ms,
		.phase = RD_QUORUM_AGAIN,
		.leader = -1 };
	quorum->peers = calloc((size_t)quorum->size, sizeof(*quorum->peers));
	if (!quorum->peers)
		return rd_fail(
			RONDO_MEMORY, "no memory to shrink a comm of %d ranks", quorum->size);
	for (int rank = 0; rank < quorum->size; rank++)
		quorum->peers[rank].standing = standings[presence[rank]];
	if (quorum->peers[quorum->rank].standing != RD_EXPECTED)
		return rd_fail(RONDO_TIMEOUT,
			"rank %d was lost to the others, which go on without it", quorum->rank);
	return 0;
}

void rd_quorum_free(struct rd_quorum *quorum)
{
	free(quorum->peers);
	quorum->peers = NULL;
}

/* ---- Rounds --------------------------------------------------------------------------------- */

static bool leads(const struct rd_quorum *quorum)
{
	return quorum->leader == quorum->rank;
}

static int find_leader(const struct rd_quorum *quorum)
{
	int rank = 0;

	while (rank < quorum->rank && quorum->peers[rank].standing != RD_EXPECTED)
		rank++;
	return rank;
}

/* Each round but the last ends with a death; or a rank that is too late. */
void rd_quorum_begin(struct rd_quorum *quorum, int64_t now_ms)
{
	if (quorum->rounds++ > 2 * quorum->size) {
		rd_quorum_fail(quorum, RONDO_DIED, "rank %d: ranks went on failing while %d met",
			quorum->rank, quorum->size);
		return;
	}
	quorum->phase = RD_QUORUM_MEETING;
	quorum->error = 0;
	quorum->leader = find_leader(quorum);
	quorum->until_ms = now_ms + quorum->timeout_ms;
	rd_quorum_doubt(quorum, now_ms);
	if (leads(quorum))
		rd_leader_begin(quorum, now_ms);
	else
		rd_member_begin(quorum, now_ms);
}

/* ---- Events --------------------------------------------------------------------------------- */

/* One that answers the leader is there, and is waited for, unless it is said to be dead. */
void rd_quorum_connected(struct rd_quorum *quorum, int rank)
{
	struct rd_quorum_peer *peer = &quorum->peers[rank];

	peer->answered = true;
	peer->due = rd_control_bit(RD_CONTROL_GATHER);
	if (leads(quorum) && peer->standing == RD_EXPECTED)
		peer->next_ms = RD_NEVER;
}

/* Without a leader, the ranks that meet have another one. */
static void find_another(struct rd_quorum *quorum, enum rd_quorum_phase before, int64_t now_ms)
{
	if (before == RD_QUORUM_MEETING && quorum->phase == RD_QUORUM_AGAIN)
		rd_quorum_begin(quorum, now_ms);
}

void rd_quorum_disconnected(struct rd_quorum *quorum, int rank, int error, int64_t now_ms)
{
	enum rd_quorum_phase before = quorum->phase;

	if (leads(quorum))
		rd_leader_disconnected(quorum, rank, error, now_ms);
	else if (rank == quorum->leader)
		rd_member_disconnected(quorum, error, now_ms);
	find_another(quorum, before, now_ms);
}

void rd_quorum_received(struct rd_quorum *quorum, int rank,
	const struct rd_control_message *message, int64_t now_ms)
{
	enum rd_quorum_phase before = quorum->phase;

	if (message->kind == RD_CONTROL_LEFT && quorum->peers[rank].dials) {
		/* Its process lives, but has no comm of the lineage: as if nobody listened. */
		quorum->peers[rank].answered = false;
		rd_quorum_disconnected(quorum, rank, ECONNREFUSED, now_ms);
		return;
	}
	if (leads(quorum))
		rd_leader_received(quorum, rank, message, now_ms);
	else if (rank == quorum->leader)
		rd_member_received(quorum, message, now_ms);
	find_another(quorum, before, now_ms);
}

void rd_quorum_tick(struct rd_quorum *quorum, int64_t now_ms)
{
	enum rd_quorum_phase before = quorum->phase;

	if (now_ms < rd_quorum_deadline(quorum))
		return;
	if (leads(quorum))
		rd_leader_tick(quorum, now_ms);
	else
		rd_member_tick(quorum, now_ms);
	find_another(quorum, before, now_ms);
}

void rd_quorum_vote(struct rd_quorum *quorum, int error, const char *reason,
	const struct rd_member *members, int64_t now_ms)
{
	if (error)
		rd_quorum_fail(quorum, error, "%s", reason);
	quorum->refuses = !error && rd_vote(quorum, members);
	quorum->made = quorum->refuses ? quorum->error : error;
	quorum->phase = RD_QUORUM_VOTING;
	if (leads(quorum))
		rd_leader_vote(quorum, now_ms);
	else
		rd_member_vote(quorum, now_ms);
}

/* ---- Output --------------------------------------------------------------------------------- */

static void fill(const struct rd_quorum *quorum, int rank, struct rd_control_message *message,
	int64_t now_ms)
{
	int64_t left_ms = quorum->until_ms - now_ms;

	switch (message->kind) {
	case RD_CONTROL_GATHER:
		message->gather.lineage = quorum->lineage;
		message->gather.origin =
			leads(quorum) ? -1 : quorum->members[quorum->rank].lineage.origin;
		break;
	case RD_CONTROL_HEARTBEAT:
		message->heartbeat.timeout_ms = left_ms > 0 ? (uint32_t)left_ms : 0;
		break;
	case RD_CONTROL_PLAN:
		message->plan.rank = quorum->peers[rank].number;
		message->plan.size = quorum->planned;
		message->plan.port = quorum->port;
		message->plan.lost = quorum->lost;
		break;
	case RD_CONTROL_MADE:
		message->made.error = leads(quorum) ? 0 : quorum->made;
		message->made.refuses = quorum->refuses;
		if (message->made.error)
			memcpy(message->made.reason, quorum->reason, sizeof(quorum->reason));
		break;
	default:
		message->verdict.error = quorum->error;
		message->verdict.lost = -1;
		memcpy(message->verdict.reason, quorum->reason, sizeof(quorum->reason));
	}
}

bool rd_quorum_next(
	struct rd_quorum *quorum, int rank, struct rd_control_message *message, int64_t now_ms)
{
	static const enum rd_control_kind order[] = { RD_CONTROL_GATHER, RD_CONTROL_HEARTBEAT,
		RD_CONTROL_PLAN, RD_CONTROL_MADE, RD_CONTROL_VERDICT };

	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
		if (rd_control_take_bit(&quorum->peers[rank].due, order[i])) {
			*message = (struct rd_control_message){ .kind = order[i] };
			fill(quorum, rank, message, now_ms);
			return true;
		}
	return false;
}

int64_t rd_quorum_deadline(const struct rd_quorum *quorum)
{
	const struct rd_quorum_peer *leader = &quorum->peers[quorum->leader];

	if (quorum->phase == RD_QUORUM_VOTING)
		return quorum->until_ms;
	if (quorum->phase != RD_QUORUM_MEETING)
		return RD_NEVER;
	if (leads(quorum))
		return rd_sooner(quorum->until_ms, rd_leader_deadline(quorum));
	return leader->dials && leader->answered ? quorum->answer_ms : leader->next_ms;
}

bool rd_quorum_listens(const struct rd_quorum *quorum)
{
	return leads(quorum) && quorum->phase <= RD_QUORUM_VOTING;
}
