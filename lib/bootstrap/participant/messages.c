/* The messages of a participant: those that come from the coordinator, and which it sends next. */
#include "bootstrap/participant/participant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Receiving ------------------------------------------------------------------------------ */

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
	/* Bytes of another program may come before HELLO is sent. */
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

/* ---- Sending -------------------------------------------------------------------------------- */

static void write_hello(
	const struct rd_participant *participant, struct rd_control_message *message)
{
	const struct rd_settings *settings = participant->settings;

	message->kind = RD_CONTROL_HELLO;
	message->hello.version = RD_WIRE_VERSION;
	message->hello.rank = settings->rank;
	message->hello.size = settings->size;
	snprintf(message->hello.library, sizeof(message->hello.library), "%s", rondo_version());
	message->hello.comm = participant->joining->group;
	message->hello.digest = rd_settings_digest(settings);
	message->hello.channels = settings->channels;
	message->hello.piece_size = settings->piece_size;
	snprintf(message->hello.algo, sizeof(message->hello.algo), "%s", settings->algo);
	memcpy(message->hello.plugins, settings->plugins, sizeof(message->hello.plugins));
	memcpy(message->hello.job, settings->job, sizeof(message->hello.job));
	message->hello.identity = participant->joining->self;
}

static void write_slow(const struct rd_participant *participant, struct rd_control_message *message)
{
	message->kind = RD_CONTROL_SLOW;
	message->slow.line_ms = (uint32_t)participant->slow_line_ms;
	message->slow.culprit = participant->slow_culprit;
	snprintf(message->slow.reason, sizeof(message->slow.reason), "%s",
		rd_reason_text(participant->slow_reason));
}

/* A signature that the comm is writing at this moment counts as none. */
static void load_slept_in(struct rd_activity *activity, struct rd_signature *signature)
{
	uint32_t number = atomic_load(&activity->slept_in);
	uint64_t words[RD_SIGNATURE_WORDS];

	for (int i = 0; i < RD_SIGNATURE_WORDS; i++)
		words[i] = atomic_load(&activity->slept_call[i]);
	memcpy(signature, words, sizeof(*signature));
	signature->chunk = 0;
	if (number == 0 || number != atomic_load(&activity->slept_in))
		*signature = (struct rd_signature){ .number = 0 };
}

static void write_answer(
	const struct rd_participant *participant, struct rd_control_message *message)
{
	struct rd_activity *activity = participant->activity;
	/* A wait that ended by its timeout lasted until it was last seen. */
	int64_t until_ms = participant->report == RONDO_TIMEOUT
				   ? atomic_load(&activity->waiting_seen_ms)
				   : participant->ticked_ms;

	message->kind = RD_CONTROL_ANSWER;
	message->answer.number = participant->query;
	message->answer.calls = atomic_load(&activity->calls);
	message->answer.done = atomic_load(&activity->done);
	message->answer.collective = atomic_load(&activity->collective);
	message->answer.waiting_for = atomic_load(&activity->waiting_for);
	message->answer.waited_ms = rd_activity_waited_ms(activity, until_ms);
	load_slept_in(activity, &message->answer.slept_in);
	rd_call_site(atomic_load(&activity->called_at), message->answer.called_at);
	rd_call_site(message->answer.waited_ms ? atomic_load(&activity->waits_at) : 0,
		message->answer.waits_at);
}

static void write_report(
	const struct rd_participant *participant, struct rd_control_message *message)
{
	message->kind = RD_CONTROL_REPORT;
	message->report.error = participant->report;
	message->report.culprit = participant->culprit;
	message->report.done = 0;
	message->report.comm = participant->joining ? participant->joining->group : 0;
	snprintf(message->report.reason, sizeof(message->report.reason), "%s",
		rd_reason_text(participant->report_reason));
}

static void write_death(struct rd_participant *participant, struct rd_control_message *message)
{
	char name[RD_RANK_NAME_SIZE];

	message->kind = RD_CONTROL_REPORT;
	message->report.error = RONDO_DIED;
	message->report.culprit = participant->dead;
	message->report.done = participant->dead_done;
	snprintf(message->report.reason, sizeof(message->report.reason), "%s died",
		rd_place_name(
			&participant->members[participant->dead].place, participant->dead, name));
	participant->dead = -1;
}

static void write_open(struct rd_participant *participant, struct rd_control_message *message)
{
	const struct rd_rank_list *opens = &participant->opens;
	int count = 0;

	message->kind = RD_CONTROL_OPEN;
	while (count < RD_OPEN_MOST && participant->opens_sent < opens->count)
		message->open.ranks[count++] = opens->at[participant->opens_sent++];
	message->open.count = count;
}

static void write_verdict(
	const struct rd_participant *participant, struct rd_control_message *message)
{
	message->kind = RD_CONTROL_VERDICT;
	message->verdict.error = participant->error;
	message->verdict.lost = participant->lost;
	message->verdict.spared = 0;
	snprintf(message->verdict.reason, sizeof(message->verdict.reason), "%s",
		rd_reason_text(participant->reason));
}

bool rd_participant_next(struct rd_participant *participant, struct rd_control_message *message)
{
	if (rd_control_take_bit(&participant->to_send, RD_CONTROL_VERDICT)) {
		write_verdict(participant, message);
		return true;
	}
	if (!rd_participant_is_connected(participant))
		return false;
	if (rd_control_take_bit(&participant->to_send, RD_CONTROL_HELLO)) {
		write_hello(participant, message);
	} else if (rd_control_take_bit(&participant->to_send, RD_CONTROL_HEARTBEAT)) {
		message->kind = RD_CONTROL_HEARTBEAT;
		message->heartbeat.timeout_ms =
			(uint32_t)participant->settings->heartbeat_timeout_ms;
	} else if (participant->link_failures_sent < participant->link_failures.count) {
		message->kind = RD_CONTROL_LINK_FAILED;
		message->link_failed =
			participant->link_failures.at[participant->link_failures_sent++];
	} else if (rd_control_take_bit(&participant->to_send, RD_CONTROL_COSTS)) {
		rd_control_write_costs(message, participant->costs);
	} else if (participant->opens_sent < participant->opens.count) {
		write_open(participant, message);
	} else if (rd_control_take_bit(&participant->to_send, RD_CONTROL_READY)) {
		message->kind = RD_CONTROL_READY;
		message->ready.fallbacks = (uint32_t)participant->fallbacks.count;
		message->ready.limits = participant->limits;
	} else if (rd_control_take_bit(&participant->to_send, RD_CONTROL_ANSWER)) {
		write_answer(participant, message);
	} else if (rd_control_take_bit(&participant->to_send, RD_CONTROL_SLOW)) {
		write_slow(participant, message);
	} else if (participant->dead >= 0) {
		write_death(participant, message);
	} else if (rd_control_take_bit(&participant->to_send, RD_CONTROL_REPORT)) {
		write_report(participant, message);
	} else if (rd_control_take_bit(&participant->to_send, RD_CONTROL_BYE)) {
		message->kind = RD_CONTROL_BYE;
		message->bye.calls = atomic_load(&participant->activity->calls);
		message->bye.digest = participant->digest;
	} else {
		return false;
	}
	return true;
}
