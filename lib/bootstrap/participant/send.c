/* Which message the participant sends next. */
#include "bootstrap/participant/participant.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

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
	message->kind = RD_CONTROL_ANSWER;
	message->answer.number = participant->query;
	message->answer.calls = atomic_load(&participant->activity->calls);
	message->answer.done = atomic_load(&participant->activity->done);
	message->answer.collective = atomic_load(&participant->activity->collective);
	message->answer.waiting_for = atomic_load(&participant->activity->waiting_for);
	message->answer.waited_ms =
		rd_activity_waited_ms(participant->activity, participant->ticked_ms);
	load_slept_in(participant->activity, &message->answer.slept_in);
	rd_call_site(atomic_load(&participant->activity->called_at), message->answer.called_at);
	rd_call_site(message->answer.waited_ms ? atomic_load(&participant->activity->waits_at) : 0,
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

bool rd_participant_next(struct rd_participant *participant, struct rd_control_message *message)
{
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
