/* The messages that the participant receives from the coordinator. */
#include "bootstrap/participant/participant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bootstrap/participant/failure.h"

static void report_lack(struct rd_participant *participant, const char *what, int64_t now_ms)
{
	int rank = participant->settings->rank;
	char reason[RD_REASON_SIZE];

	snprintf(reason, sizeof(reason), "rank %d: no memory for %s", rank, what);
	rd_participant_report(participant, RONDO_MEMORY, rank, reason, now_ms);
}

/* All that comes behind a part for which there is no memory, until the verdict: the other ranks of
   a group may begin to call. */
static bool is_beyond(const struct rd_participant *participant, enum rd_control_kind kind)
{
	return participant->phase == RD_PARTICIPANT_JOINING &&
	       participant->report == RONDO_MEMORY && kind != RD_CONTROL_VERDICT;
}

static void take_table(struct rd_participant *participant, const struct rd_control_message *message,
	int64_t now_ms)
{
	uint32_t size = (uint32_t)participant->settings->size;
	int error = RONDO_PROTOCOL;

	if (participant->phase == RD_PARTICIPANT_JOINING)
		error = rd_table_read(&participant->joining->table, &message->table.part,
			participant->members, &participant->cards, size);
	if (error == RONDO_MEMORY)
		report_lack(participant, "the table of members", now_ms);
	if (error == RONDO_PROTOCOL)
		rd_participant_bad_message(participant);
	if (error)
		return;
	participant->id = message->table.id;
	if (participant->joining->table.count < size)
		return;
	participant->phase = RD_PARTICIPANT_JOINED;
	/* Bytes of a stranger may come before HELLO is sent. */
	participant->to_send &= ~rd_control_bit(RD_CONTROL_HELLO);
	free(participant->joining);
	participant->joining = NULL;
}

static void take_ready(struct rd_participant *participant, const struct rd_link_limits *limits)
{
	if (participant->phase != RD_PARTICIPANT_JOINED || !participant->ready ||
		limits->piece_size > participant->limits.piece_size ||
		(limits->maps && !participant->limits.maps) ||
		limits->near_rails > participant->limits.near_rails ||
		limits->far_rails > participant->limits.far_rails) {
		rd_participant_bad_message(participant);
		return;
	}
	participant->limits = *limits;
	participant->phase = RD_PARTICIPANT_OPEN;
	/* The bound has passed, but all are ready. */
	if (!participant->reported)
		participant->report_ms = RD_NEVER;
	participant->to_send &= ~rd_control_bit(RD_CONTROL_SLOW);
}

static void take_costs(struct rd_participant *participant, const struct rd_control_message *message,
	int64_t now_ms)
{
	if (participant->phase != RD_PARTICIPANT_OPEN || participant->costs) {
		rd_participant_bad_message(participant);
		return;
	}
	participant->costs = strndup((const char *)message->costs.text, message->costs.size);
	if (!participant->costs)
		report_lack(participant, "the costs", now_ms);
}

/* Each other rank says so once at most of each kind of link. */
static void take_open(struct rd_participant *participant, const struct rd_control_message *message)
{
	const struct rd_settings *settings = participant->settings;
	bool right = participant->phase == RD_PARTICIPANT_OPEN &&
		     participant->opened.count + message->open.count <= 2 * (settings->size - 1);

	for (int i = 0; i < message->open.count; i++) {
		int rank = rd_open_rank(message->open.ranks[i]);

		right &= rank < settings->size && rank != settings->rank;
	}
	if (!right) {
		rd_participant_bad_message(participant);
		return;
	}
	for (int i = 0; i < message->open.count; i++)
		rd_participant_list(participant, &participant->opened, message->open.ranks[i]);
}

/* A link has to be opened again: a rank that waited for the others is no longer ready. */
static void take_fallback(
	struct rd_participant *participant, const struct rd_link_failure *link_failure)
{
	int rank = participant->settings->rank;

	if ((participant->phase != RD_PARTICIPANT_JOINED &&
		    participant->phase != RD_PARTICIPANT_OPEN) ||
		(link_failure->low != rank && link_failure->high != rank) ||
		link_failure->high >= participant->settings->size) {
		rd_participant_bad_message(participant);
		return;
	}
	if (participant->phase == RD_PARTICIPANT_JOINED)
		participant->ready = false;
	participant->to_send &= ~rd_control_bit(RD_CONTROL_READY);
	rd_participant_keep(participant, &participant->fallbacks, link_failure);
}

static void take_left(struct rd_participant *participant, const struct rd_control_message *message,
	int64_t now_ms)
{
	bool own = message->left.rank == participant->settings->rank;

	if (own && participant->leaving) {
		participant->phase = RD_PARTICIPANT_LEFT;
		return;
	}
	if (own || participant->phase != RD_PARTICIPANT_OPEN ||
		message->left.rank >= participant->settings->size ||
		message->left.leavers >= (uint32_t)participant->settings->size) {
		rd_participant_bad_message(participant);
		return;
	}
	participant->zero_left |= message->left.rank == 0;
	participant->others_left =
		message->left.leavers + 1 == (uint32_t)participant->settings->size;
	if (participant->leaver < 0 || message->left.calls < participant->leaver_calls) {
		participant->leaver = message->left.rank;
		participant->leaver_calls = message->left.calls;
	}
	rd_participant_check_calls(participant, now_ms);
}

/* Without memory for them, the verdict's reason alone names some. */
static void take_stragglers(
	struct rd_participant *participant, const struct rd_control_message *message)
{
	uint32_t first = message->stragglers.first, size = (uint32_t)participant->settings->size;

	if (!participant->late)
		participant->late = calloc(size, sizeof(*participant->late));
	for (uint32_t i = 0; i < 8u * message->stragglers.size; i++) {
		if (!(message->stragglers.bits[i / 8] >> i % 8 & 1))
			continue;
		if (first + i >= size) {
			rd_participant_bad_message(participant);
			return;
		}
		if (participant->late)
			participant->late[first + i] = true;
	}
}

static void take_verdict(
	struct rd_participant *participant, const struct rd_control_message *message)
{
	if (message->verdict.lost >= participant->settings->size)
		rd_participant_bad_message(participant);
	else
		rd_participant_end_sparing(participant, message->verdict.spared,
			message->verdict.lost, message->verdict.error, message->verdict.reason);
}

static void take_heartbeat(struct rd_participant *participant, uint32_t timeout_ms, int64_t now_ms)
{
	int wait_ms = rd_heartbeat_ms(timeout_ms);

	/* Answered at once, and else rarely sent: bytes that rank 0 has not read when it dies would
	   make its kernel reset the connection, which is no proof of a death. */
	if (participant->phase == RD_PARTICIPANT_OPEN)
		participant->to_send |= rd_control_bit(RD_CONTROL_HEARTBEAT);
	else if (wait_ms == participant->heartbeat_wait_ms)
		return;
	participant->heartbeat_wait_ms = wait_ms;
	participant->heartbeat_ms = now_ms + wait_ms;
}

void rd_participant_take(struct rd_participant *participant,
	const struct rd_control_message *message, int64_t now_ms)
{
	if (!rd_participant_is_connected(participant))
		return;
	/* Only a HEARTBEAT, or a VERDICT instead, may come first. */
	if (!participant->accepted && message->kind != RD_CONTROL_HEARTBEAT &&
		message->kind != RD_CONTROL_VERDICT) {
		rd_participant_bad_message(participant);
		return;
	}
	participant->accepted = true;
	participant->received_ms = now_ms;
	if (is_beyond(participant, message->kind))
		return;
	switch (message->kind) {
	case RD_CONTROL_HEARTBEAT:
		take_heartbeat(participant, message->heartbeat.timeout_ms, now_ms);
		return;
	case RD_CONTROL_TABLE:
		take_table(participant, message, now_ms);
		return;
	case RD_CONTROL_LINK_FAILED:
		take_fallback(participant, &message->link_failed);
		return;
	case RD_CONTROL_COSTS:
		take_costs(participant, message, now_ms);
		return;
	case RD_CONTROL_OPEN:
		take_open(participant, message);
		return;
	case RD_CONTROL_READY:
		take_ready(participant, &message->ready.limits);
		return;
	case RD_CONTROL_QUERY:
		participant->query = message->query.number;
		participant->to_send |= rd_control_bit(RD_CONTROL_ANSWER);
		return;
	case RD_CONTROL_STRAGGLERS:
		take_stragglers(participant, message);
		return;
	case RD_CONTROL_VERDICT:
		take_verdict(participant, message);
		return;
	case RD_CONTROL_LEFT:
		take_left(participant, message, now_ms);
		return;
	default:
		rd_participant_bad_message(participant);
	}
}
