#include "bootstrap/participant/participant.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"

#define RETRY_LEAST_MS 10
#define RETRY_MOST_MS 250
#define SPARED_MS 2 /* how often to look whether a spared call is done */
#define CHECK_MS 20 /* how often to check our own calls once a rank has left */

/* ---- Life ---------------------------------------------------------------------------------- */

int rd_participant_create(struct rd_participant **created, const struct rd_settings *settings,
	const struct rd_identity *self, struct rd_activity *activity, const char *address,
	int64_t now_ms)
{
	struct rd_participant *participant = calloc(1, sizeof(*participant));

	if (!participant)
		goto no_memory;
	participant->settings = settings;
	participant->activity = activity;
	participant->address = address;
	participant->started_ms = now_ms;
	participant->ticked_ms = now_ms;
	participant->connect_ms = now_ms;
	participant->connect_wait_ms = RETRY_LEAST_MS;
	participant->heartbeat_wait_ms = rd_heartbeat_ms((uint32_t)settings->heartbeat_timeout_ms);
	participant->report_ms = participant->hold_ms = RD_NEVER;
	participant->leave_ms = participant->ended_ms = RD_NEVER;
	participant->leaver = -1;
	participant->lost = -1;
	participant->dead = -1;
	participant->members = calloc((size_t)settings->size, sizeof(*participant->members));
	participant->joining = calloc(1, sizeof(*participant->joining));
	if (!participant->members || !participant->joining)
		goto no_memory;
	participant->joining->self = *self;
	*created = participant;
	return 0;

no_memory:
	rd_participant_destroy(participant);
	return rd_fail(RONDO_MEMORY, "no memory for the places of %d ranks", settings->size);
}

void rd_participant_destroy(struct rd_participant *participant)
{
	if (!participant)
		return;
	rd_link_failures_finish(&participant->link_failures);
	rd_link_failures_finish(&participant->fallbacks);
	rd_rank_list_finish(&participant->opens);
	rd_rank_list_finish(&participant->opened);
	free(participant->members);
	free(participant->joining);
	free(participant->costs);
	free(participant->refusal);
	free(participant->report_reason);
	free(participant->slow_reason);
	free(participant->late);
	free(participant->reason);
	rd_cards_finish(&participant->cards);
	free(participant);
}

void rd_participant_set_lineage(
	struct rd_participant *participant, const struct rd_lineage_address *place)
{
	participant->joining->self.member.lineage = *place;
}

void rd_participant_set_group(struct rd_participant *participant, uint64_t id)
{
	participant->joining->group = id;
}

void rd_participant_set_limits(
	struct rd_participant *participant, const struct rd_link_limits *limits)
{
	participant->ready = true;
	participant->limits = *limits;
}

int rd_participant_verdict(const struct rd_participant *participant, const char **reason)
{
	*reason = rd_reason_text(participant->reason);
	return participant->phase == RD_PARTICIPANT_FAILED ? participant->error : 0;
}

bool rd_participant_is_unattended(const struct rd_participant *participant)
{
	return participant->unattended && !participant->spares;
}

bool rd_participant_spares(const struct rd_participant *participant)
{
	return participant->spares && participant->phase == RD_PARTICIPANT_OPEN;
}

bool rd_participant_is_late(const struct rd_participant *participant, int rank)
{
	return participant->late && participant->late[rank];
}

/* ---- Connecting ---------------------------------------------------------------------------- */

bool rd_participant_connects(struct rd_participant *participant, int64_t now_ms)
{
	if (participant->phase != RD_PARTICIPANT_CONNECTING || participant->connecting ||
		now_ms < participant->connect_ms)
		return false;
	participant->connecting = true;
	return true;
}

void rd_participant_connected(struct rd_participant *participant, int64_t now_ms)
{
	if (participant->phase != RD_PARTICIPANT_CONNECTING)
		return;
	participant->connecting = false;
	participant->phase = RD_PARTICIPANT_JOINING;
	/* A rank that failed before it got here cannot take part: it only sends the reason. */
	participant->to_send = participant->reported ? rd_control_bit(RD_CONTROL_REPORT)
						     : rd_control_bit(RD_CONTROL_HELLO) |
							       rd_control_bit(RD_CONTROL_HEARTBEAT);
	if (participant->ready && !participant->reported)
		participant->to_send |= rd_control_bit(RD_CONTROL_READY);
	participant->received_ms = now_ms;
	participant->heartbeat_ms = now_ms + participant->heartbeat_wait_ms;
}

void rd_participant_refused(
	struct rd_participant *participant, bool refused, const char *reason, int64_t now_ms)
{
	if (participant->phase != RD_PARTICIPANT_CONNECTING)
		return;
	participant->connecting = false;
	participant->refused = refused;
	rd_reason_set(&participant->refusal, "%s", reason);
	participant->connect_ms = now_ms + participant->connect_wait_ms;
	participant->connect_wait_ms *= 2;
	if (participant->connect_wait_ms > RETRY_MOST_MS)
		participant->connect_wait_ms = RETRY_MOST_MS;
}

/* EPROTO comes of the proof alone (secure/tls.h). */
static const char *why_closed(const struct rd_participant *participant, int error)
{
	if (error == EPROTO)
		return "the two do not have the same secret: RONDO_SECRET_FILE";
	if (!rd_means_death(error) && !rd_means_reset(error))
		return strerror(error);
	return participant->settings->has_psk
		       ? "it hung up: it may have no secret"
		       : "it hung up: it may be of another job, or have a secret";
}

/* Nobody is there to choose another transport for both ranks. */
static void end_without_link(
	struct rd_participant *participant, const struct rd_link_failure *link_failure)
{
	int rank = participant->settings->rank;

	rd_participant_end(participant, RONDO_UNREACHABLE,
		"rank %d: no link to rank %d over %s: %s; rank 0, which has left, can choose no "
		"other transport",
		rank, link_failure->low == rank ? link_failure->high : link_failure->low,
		link_failure->transport, link_failure->reason);
}

/* Ends the call that waits for a rank without a link to it. A link that no call needs may fail: its
   other rank may have left. Tagged messages, which have no bound, may wait for one of theirs. */
static void judge_links(struct rd_participant *participant, int64_t now_ms)
{
	int peer = atomic_load(&participant->activity->waiting_for);
	bool waits = rd_activity_waited_ms(participant->activity, now_ms) > 0;

	for (int i = 0; i < participant->link_failures.count; i++) {
		const struct rd_link_failure *failure = &participant->link_failures.at[i];

		bool needed = (failure->tagged && !participant->spares) ||
			      (waits && (failure->low == peer || failure->high == peer));

		if (needed && !rd_link_failures_have(&participant->fallbacks, failure))
			end_without_link(participant, failure);
	}
}

/* Rank 0 had left, and its process has ended. Ranks may still finish their last call. */
static void go_on_alone(struct rd_participant *participant, int error)
{
	participant->cut_off = !rd_means_death(error);
	if (participant->leaving)
		participant->phase = RD_PARTICIPANT_LEFT;
	else if (participant->reported)
		rd_participant_end_alone(participant);
	participant->unattended = true;
}

/* A connection that ends before the coordinator has accepted this rank counts as refused: it may
   have been in the backlog of an earlier comm that has stopped listening. */
void rd_participant_closed(struct rd_participant *participant, int error, int64_t now_ms)
{
	char name[RD_RANK_NAME_SIZE], duration[RD_DURATION_SIZE];

	if (!rd_participant_is_connected(participant))
		return;
	if (!participant->accepted) {
		participant->phase = RD_PARTICIPANT_CONNECTING;
		rd_participant_refused(participant, false, why_closed(participant, error), now_ms);
		return;
	}
	if (participant->zero_left) {
		go_on_alone(participant, error);
		return;
	}
	if (participant->reported && participant->report != RONDO_BROKEN &&
		participant->report != RONDO_TIMEOUT)
		rd_participant_end(participant, participant->report, "%s",
			rd_reason_text(participant->report_reason));
	rd_participant_name_0(participant, name);
	if (rd_means_death(error) && rd_participant_may_spare(participant))
		participant->ended_ms = now_ms + RD_QUERY_MS;
	else if (rd_means_death(error))
		rd_participant_end_without(participant, 0, RONDO_DIED, "%s died", name);
	else if (rd_means_reset(error))
		rd_participant_end_without(participant, 0, RONDO_BROKEN,
			"%s is cut off: the network reset the connection to it", name);
	else if (rd_means_silence(error))
		rd_participant_end_without(participant, 0, RONDO_TIMEOUT,
			"%s cannot be reached: no packet came from its host for %s", name,
			rd_duration(duration, participant->settings->unreachable_ms));
	else
		rd_participant_end_without(participant, 0, RONDO_BROKEN,
			"the connection to %s failed: %s", name, strerror(error));
}

/* ---- Requests of this rank ----------------------------------------------------------------- */

bool rd_participant_link_failed(
	struct rd_participant *participant, const struct rd_link_failure *link_failure)
{
	bool opens = participant->phase == RD_PARTICIPANT_OPEN ||
		     (participant->phase == RD_PARTICIPANT_JOINED && !participant->ready);

	/* The peer may have reported it before. */
	if (!opens || rd_link_failures_have(&participant->fallbacks, link_failure))
		return true;
	return rd_link_failures_add(&participant->link_failures, link_failure);
}

void rd_participant_costs(struct rd_participant *participant, char *costs)
{
	if (participant->phase != RD_PARTICIPANT_OPEN || participant->costs) {
		free(costs);
		return;
	}
	participant->costs = costs;
	participant->to_send |= rd_control_bit(RD_CONTROL_COSTS);
}

bool rd_participant_open(struct rd_participant *participant, int peer)
{
	return participant->phase != RD_PARTICIPANT_OPEN ||
	       rd_rank_list_add(&participant->opens, peer);
}

void rd_participant_ready(
	struct rd_participant *participant, int fallbacks, const struct rd_link_limits *limits)
{
	if (participant->phase != RD_PARTICIPANT_JOINED || participant->ready ||
		fallbacks != participant->fallbacks.count)
		return;
	participant->ready = true;
	participant->limits = *limits;
	participant->to_send |= rd_control_bit(RD_CONTROL_READY);
}

void rd_participant_slow(
	struct rd_participant *participant, int64_t line_ms, int culprit, const char *reason)
{
	if (participant->phase != RD_PARTICIPANT_OPEN || participant->reported ||
		participant->leaving)
		return;
	participant->slow_line_ms = line_ms;
	participant->slow_culprit = culprit;
	rd_reason_set(&participant->slow_reason, "%s", reason);
	participant->to_send |= rd_control_bit(RD_CONTROL_SLOW);
}

void rd_participant_leave(struct rd_participant *participant, uint64_t digest, int64_t now_ms)
{
	if (rd_participant_is_over(participant) || participant->leaving)
		return;
	if (participant->unattended) {
		participant->phase = RD_PARTICIPANT_LEFT;
		return;
	}
	participant->leaving = true;
	participant->digest = digest;
	participant->leave_ms = now_ms + participant->settings->heartbeat_timeout_ms;
	participant->to_send |= rd_control_bit(RD_CONTROL_BYE);
}

bool rd_participant_has_said_goodbye(const struct rd_participant *participant)
{
	return participant->leaving && !(participant->to_send & rd_control_bit(RD_CONTROL_BYE));
}

/* ---- Time ---------------------------------------------------------------------------------- */

/* Until when all ranks must have joined; then, once this rank is ready, until when all must be. */
static int64_t init_deadline(const struct rd_participant *participant)
{
	bool waits = participant->phase == RD_PARTICIPANT_CONNECTING ||
		     participant->phase == RD_PARTICIPANT_JOINING ||
		     (participant->phase == RD_PARTICIPANT_JOINED && participant->ready);

	if (!waits || participant->report_ms != RD_NEVER)
		return RD_NEVER;
	return participant->started_ms + participant->settings->init_timeout_ms;
}

static int64_t silence_deadline(const struct rd_participant *participant)
{
	/* A connection may wait unseen in rank 0's backlog, for as long as a rendezvous lasts. */
	if (!rd_participant_is_connected(participant) || !participant->accepted)
		return RD_NEVER;
	return participant->received_ms + participant->settings->heartbeat_timeout_ms + 1;
}

static void give_up(struct rd_participant *participant, int64_t now_ms)
{
	int rank = participant->settings->rank;
	char duration[RD_DURATION_SIZE];

	rd_duration(duration, participant->settings->init_timeout_ms);
	if (participant->phase == RD_PARTICIPANT_CONNECTING && participant->refused)
		rd_participant_end(participant, RONDO_UNREACHABLE,
			"rank %d: no one listens at %s (%s, tried for %s)", rank,
			participant->address, rd_reason_text(participant->refusal), duration);
	else if (participant->phase == RD_PARTICIPANT_CONNECTING)
		rd_participant_end(participant, RONDO_UNREACHABLE,
			"rank %d: cannot reach rank 0 at %s (%s, tried for %s)", rank,
			participant->address,
			participant->refusal ? participant->refusal : "no answer", duration);
	if (rd_participant_is_over(participant))
		return;
	/* Also where rank 0 has not answered: it may do so now, and must not take the end of the
	   connection for a death. */
	participant->report = RONDO_TIMEOUT;
	if (participant->accepted)
		rd_reason_set(&participant->report_reason, "rank %d waited %s for the other ranks",
			rank, duration);
	else
		rd_reason_set(&participant->report_reason,
			"rank %d: rank 0 at %s does not answer (tried for %s)", rank,
			participant->address, duration);
	participant->report_ms = now_ms + RD_REPORT_MS;
	participant->slow_culprit = -1;
	rd_reason_set(&participant->slow_reason, "%s", rd_reason_text(participant->report_reason));
	participant->to_send |= rd_control_bit(RD_CONTROL_SLOW);
}

/* A call that waits for long may wait for a rank that has failed meanwhile: nobody tells. */
static bool is_spared(const struct rd_participant *participant, int64_t now_ms)
{
	const struct rd_activity *activity = participant->activity;

	if (participant->awaits_costs && !participant->costs)
		return false;
	return atomic_load(&activity->done) < participant->spared &&
	       rd_activity_waited_ms(activity, now_ms) <
		       (uint32_t)participant->settings->heartbeat_timeout_ms;
}

static void discount_gap(struct rd_participant *participant, int64_t now_ms)
{
	int64_t gap_ms = now_ms - participant->ticked_ms;

	participant->ticked_ms = now_ms;
	if (gap_ms > participant->settings->heartbeat_timeout_ms / 2)
		participant->received_ms += gap_ms;
}

/* Rank 0 must not take the end of the connection for a death: it gets this rank's verdict. */
static void give_up_rank_0(struct rd_participant *participant)
{
	if (participant->phase == RD_PARTICIPANT_FAILED && participant->settings->rank != 0)
		participant->to_send = rd_control_bit(RD_CONTROL_VERDICT);
}

void rd_participant_tick(struct rd_participant *participant, int64_t now_ms)
{
	bool connected = rd_participant_is_connected(participant);
	char name[RD_RANK_NAME_SIZE], duration[RD_DURATION_SIZE];

	discount_gap(participant, now_ms);
	if (now_ms >= init_deadline(participant))
		give_up(participant, now_ms);
	if (now_ms >= participant->report_ms)
		rd_participant_end_unanswered(participant);
	if (now_ms >= silence_deadline(participant))
		rd_participant_end_without(participant, 0, RONDO_TIMEOUT,
			"%s has not been heard of for %s: stopped or cut off",
			rd_participant_name_0(participant, name),
			rd_duration(duration, participant->settings->heartbeat_timeout_ms));
	if (now_ms >= participant->leave_ms)
		rd_participant_end(participant, RONDO_TIMEOUT,
			"%s did not answer a goodbye within %s",
			rd_participant_name_0(participant, name),
			rd_duration(duration, participant->settings->heartbeat_timeout_ms));
	if (connected)
		give_up_rank_0(participant);
	if (now_ms >= participant->ended_ms)
		rd_participant_end_without(participant, 0, RONDO_DIED, "%s died",
			rd_participant_name_0(participant, name));
	if (participant->unattended) {
		judge_links(participant, now_ms);
		rd_participant_check_calls(participant, now_ms);
	}
	if (participant->spares && !is_spared(participant, now_ms))
		participant->phase = RD_PARTICIPANT_FAILED;
	if (!rd_participant_is_connected(participant))
		return;
	if (now_ms >= participant->hold_ms) {
		participant->hold_ms = RD_NEVER;
		participant->to_send |= rd_control_bit(RD_CONTROL_REPORT);
	}
	rd_participant_check_calls(participant, now_ms);
	if (now_ms < participant->heartbeat_ms)
		return;
	participant->to_send |= rd_control_bit(RD_CONTROL_HEARTBEAT);
	participant->heartbeat_ms = now_ms + participant->heartbeat_wait_ms;
}

void rd_participant_beat(struct rd_participant *participant, int64_t since_ms)
{
	if (participant->received_ms < since_ms)
		participant->to_send |= rd_control_bit(RD_CONTROL_HEARTBEAT);
}

int64_t rd_participant_deadline(const struct rd_participant *participant)
{
	int64_t deadline;

	if (rd_participant_is_over(participant))
		return RD_NEVER;
	deadline = rd_sooner(init_deadline(participant), silence_deadline(participant));
	deadline = rd_sooner(deadline, rd_sooner(participant->report_ms, participant->leave_ms));
	deadline = rd_sooner(deadline, participant->ended_ms);
	if (participant->spares)
		deadline = rd_sooner(deadline, participant->ticked_ms + SPARED_MS);
	/* Often enough to find a gap in which this process itself was stopped. */
	if (rd_participant_is_connected(participant))
		deadline = rd_sooner(rd_sooner(deadline, rd_sooner(participant->hold_ms,
								 participant->heartbeat_ms)),
			participant->ticked_ms +
				rd_heartbeat_ms(
					(uint32_t)participant->settings->heartbeat_timeout_ms));
	else if (participant->phase == RD_PARTICIPANT_CONNECTING && !participant->connecting)
		deadline = rd_sooner(deadline, participant->connect_ms);
	if (participant->leaver >= 0 && !participant->leaving && !participant->reported)
		deadline = rd_sooner(deadline, participant->ticked_ms + CHECK_MS);
	return deadline;
}
