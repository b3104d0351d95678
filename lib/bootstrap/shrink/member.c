#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "bootstrap/rendezvous.h"
#include "bootstrap/shrink/quorum.h"
#include "net/socket.h"

#define AGAIN_LEAST_MS 10
#define AGAIN_MOST_MS 250

static struct rd_quorum_peer *leader_of(const struct rd_quorum *quorum)
{
	return &quorum->peers[quorum->leader];
}

static void hang_up(struct rd_quorum *quorum)
{
	leader_of(quorum)->dials = leader_of(quorum)->answered = false;
}

/* ---- Meeting -------------------------------------------------------------------------------- */

/* A leader that lives has its kernel answer at once. */
static void dial(struct rd_quorum *quorum, int64_t now_ms)
{
	rd_quorum_dial(quorum, quorum->leader, now_ms);
	quorum->answer_ms = quorum->until_ms;
}

void rd_member_begin(struct rd_quorum *quorum, int64_t now_ms)
{
	quorum->again_ms = AGAIN_LEAST_MS;
	dial(quorum, now_ms);
}

/* The leader is not there, and the ranks that are left have another one. */
static void begin_again(struct rd_quorum *quorum)
{
	hang_up(quorum);
	quorum->phase = RD_QUORUM_AGAIN;
}

/* The leader's process is gone, or may come to its shrink yet: its place shows it. */
static bool is_passing(int error)
{
	return error == 0 || error == ECONNREFUSED || error == ECONNRESET ||
	       error == ECONNABORTED || error == EPIPE || error == EPROTO;
}

static void try_again(struct rd_quorum *quorum, int error, int64_t now_ms)
{
	bool answered = leader_of(quorum)->answered;

	hang_up(quorum);
	if (!answered && rd_lacks_resources(error)) {
		rd_quorum_fail(quorum, RONDO_SYSTEM, "rank %d cannot reach rank %d: %s",
			quorum->rank, quorum->leader, strerror(error));
		return;
	}
	if (answered) {
		rd_quorum_doubt(quorum, now_ms);
	} else if (error != ECONNRESET &&
		   /* A process that ends resets a connection that it has not taken. */
		   rd_quorum_judge(quorum, quorum->leader, error, now_ms)) {
		begin_again(quorum);
		return;
	}
	if (!is_passing(error) || now_ms >= quorum->until_ms) {
		leader_of(quorum)->standing = RD_ABSENT;
		begin_again(quorum);
		return;
	}
	leader_of(quorum)->next_ms = now_ms + quorum->again_ms;
	quorum->again_ms =
		quorum->again_ms * 2 < AGAIN_MOST_MS ? quorum->again_ms * 2 : AGAIN_MOST_MS;
}

void rd_member_disconnected(struct rd_quorum *quorum, int error, int64_t now_ms)
{
	if (quorum->phase == RD_QUORUM_MEETING) {
		try_again(quorum, error, now_ms);
		return;
	}
	hang_up(quorum);
	if (quorum->phase == RD_QUORUM_MAKING || quorum->phase == RD_QUORUM_VOTING)
		quorum->phase = RD_QUORUM_AGAIN;
}

static void take_plan(struct rd_quorum *quorum, const struct rd_control_message *message)
{
	quorum->number = message->plan.rank;
	quorum->planned = message->plan.size;
	quorum->port = message->plan.port;
	quorum->lost = message->plan.lost;
	quorum->phase = RD_QUORUM_MAKING;
}

static void take_answer(
	struct rd_quorum *quorum, const struct rd_control_message *message, int64_t now_ms)
{
	if (message->kind == RD_CONTROL_HEARTBEAT && quorum->answer_ms == quorum->until_ms) {
		/* It waits for the others: this rank waits as long as it does. */
		quorum->answer_ms = now_ms + message->heartbeat.timeout_ms + RD_REPORT_MS;
	} else if (message->kind == RD_CONTROL_PLAN && message->plan.rank < message->plan.size &&
		   message->plan.size <= quorum->size) {
		take_plan(quorum, message);
	} else if (message->kind == RD_CONTROL_VERDICT && message->verdict.error == RONDO_DIED) {
		begin_again(quorum);
	} else {
		hang_up(quorum);
		if (message->kind == RD_CONTROL_VERDICT)
			rd_quorum_fail(
				quorum, message->verdict.error, "%s", message->verdict.reason);
		else
			rd_quorum_fail(quorum, RONDO_PROTOCOL,
				"rank %d sent bytes that make no sense", quorum->leader);
	}
}

/* ---- Voting --------------------------------------------------------------------------------- */

/* The leader makes the comm as well, then waits for others that do. */
void rd_member_vote(struct rd_quorum *quorum, int64_t now_ms)
{
	quorum->until_ms = now_ms + 2 * quorum->settings->init_timeout_ms + 2 * RD_REPORT_MS;
	if (leader_of(quorum)->dials)
		leader_of(quorum)->due = rd_control_bit(RD_CONTROL_MADE);
	else
		quorum->phase = RD_QUORUM_AGAIN;
}

static void take_end(struct rd_quorum *quorum, const struct rd_control_message *message)
{
	bool verdict = message->kind == RD_CONTROL_VERDICT;

	hang_up(quorum);
	quorum->phase = RD_QUORUM_AGAIN;
	if (verdict && !quorum->made)
		rd_vote_forget(quorum->vote);
	if (message->kind == RD_CONTROL_MADE && !message->made.error && !quorum->made)
		quorum->phase = RD_QUORUM_AGREED;
	else if (verdict && message->verdict.error != RONDO_DIED)
		rd_quorum_fail(quorum, message->verdict.error, "%s", message->verdict.reason);
}

void rd_member_received(
	struct rd_quorum *quorum, const struct rd_control_message *message, int64_t now_ms)
{
	if (quorum->phase == RD_QUORUM_MEETING)
		take_answer(quorum, message, now_ms);
	else if (quorum->phase == RD_QUORUM_VOTING)
		take_end(quorum, message);
}

/* ---- Time ----------------------------------------------------------------------------------- */

void rd_member_tick(struct rd_quorum *quorum, int64_t now_ms)
{
	if (quorum->phase == RD_QUORUM_VOTING)
		begin_again(quorum);
	else if (quorum->phase == RD_QUORUM_MEETING && leader_of(quorum)->dials)
		try_again(quorum, ETIMEDOUT, now_ms);
	else if (quorum->phase == RD_QUORUM_MEETING)
		dial(quorum, now_ms);
}
