#include "bootstrap/coordinator/coordinator.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/duration.h"

static bool has_not_joined(const struct rd_coordinator_rank *state)
{
	return state->straggles;
}

static int mark_stragglers(struct rd_coordinator *coordinator, uint32_t number)
{
	int count = 0;

	for (int rank = 0; rank < coordinator->size; rank++) {
		struct rd_coordinator_rank *state = &coordinator->ranks[rank];

		state->straggles = !state->left && state->answered && state->calls < number;
		count += state->straggles;
	}
	return count;
}

static void __attribute__((format(printf, 2, 3)))
log_later(struct rd_coordinator *coordinator, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	rd_reason_set_args(&coordinator->slow_text, format, args);
	va_end(args);
	coordinator->slow_due_ms = coordinator->slow_line_ms;
}

/* A rank that has not joined the call: of several the first. */
static int first_straggler(const struct rd_coordinator *coordinator)
{
	int rank = 0;

	while (!coordinator->ranks[rank].straggles)
		rank++;
	return rank;
}

/* The call site of this rank's wait, or else of its present call. A later call may be queued. */
static const char *find_site(const struct rd_coordinator_rank *state)
{
	if (state->waits_at[0])
		return state->waits_at;
	return rd_query_present_call(state) == state->calls ? state->called_at : "";
}

/* "rank 2 (host b, pid 17) last made broadcast #16, at train+0x11b8". It need not be in a call, but
   a device may be at work on that one. */
static void describe_rank(
	const struct rd_coordinator *coordinator, int rank, char *text, size_t size)
{
	const struct rd_coordinator_rank *state = &coordinator->ranks[rank];
	uint32_t present = rd_query_present_call(state);
	bool in_collective = state->calls != state->done;
	const char *at = find_site(state);
	char name[RD_RANK_NAME_SIZE], call[RD_RANK_NAME_SIZE];

	rd_coordinator_name_rank(coordinator, rank, name);
	rd_coordinator_name_call(
		state->slept_in.number == present ? state->slept_in.collective : state->collective,
		present, call);
	if (in_collective)
		snprintf(text, size, "%s is in %s%s%s", name, call, at[0] ? " at " : "", at);
	else if (state->waited_ms > 0)
		snprintf(text, size, "%s is in a transfer%s%s", name, at[0] ? " at " : "", at);
	else if (state->calls > 0)
		snprintf(text, size, "%s last made %s%s%s", name, call, at[0] ? ", at " : "", at);
	else
		snprintf(text, size, "%s has made no collective call", name);
}

/* The waiting rank's reason, and its call site. */
static void describe_wait(const struct rd_coordinator_rank *state, char *text, size_t size)
{
	const char *at = find_site(state);

	snprintf(text, size, "%s%s%s", rd_reason_text(state->reason), at[0] ? " at " : "", at);
}

/* One line for any number of ranks that wait in the same collective, and one more each time that
   the wait has doubled. */
static void describe_slow_call(struct rd_coordinator *coordinator)
{
	const struct rd_coordinator_rank *state = &coordinator->ranks[coordinator->slow_rank];
	int unresponsive = rd_query_unresponsive(coordinator, state->culprit);
	uint32_t number = rd_query_present_call(state);
	char names[RD_RANK_NAME_SIZE], call[RD_RANK_NAME_SIZE];
	char wait[RD_REASON_SIZE + RD_CALL_SITE_SIZE + 16], other[RD_REASON_SIZE];

	if (!state->answered ||
		(state->calls != state->done && number == coordinator->slow_logged &&
			!rd_coordinator_is_next_line(
				coordinator->slow_line_ms, coordinator->slow_logged_ms)))
		return;
	describe_wait(state, wait, sizeof(wait));
	if (unresponsive >= 0) {
		log_later(coordinator, "%s does not answer: stopped or cut off; %s",
			rd_coordinator_name_rank(coordinator, unresponsive, names), wait);
	} else if (mark_stragglers(coordinator, number) > 0) {
		rd_coordinator_name_ranks(coordinator, has_not_joined, names, sizeof(names));
		describe_rank(coordinator, first_straggler(coordinator), other, sizeof(other));
		log_later(coordinator, "%s not joined %s; %s; %s", names,
			rd_coordinator_name_call(state->collective, number, call), wait, other);
	} else if (state->culprit >= 0 && state->culprit != coordinator->slow_rank) {
		describe_rank(coordinator, state->culprit, other, sizeof(other));
		log_later(coordinator, "%s; %s", wait, other);
	} else {
		log_later(coordinator, "%s", wait);
	}
	coordinator->slow_logged = number;
	coordinator->slow_logged_ms = coordinator->slow_line_ms;
}

/* The next rank in a circle of ranks that have waited for heartbeat_timeout_ms; -1: no circle. */
static int follow_circle(const struct rd_coordinator *coordinator, int rank)
{
	const struct rd_coordinator_rank *state = &coordinator->ranks[rank];
	int next = state->waiting_for;

	if (!state->answered || state->left || next < 0 || next >= coordinator->size ||
		state->waited_ms < (uint32_t)coordinator->settings->heartbeat_timeout_ms)
		return -1;
	return next;
}

/* No rank of a circle can ever go on: maybe the network lost messages of their links. */
static void judge_circle(struct rd_coordinator *coordinator)
{
	char name[RD_RANK_NAME_SIZE], next_name[RD_RANK_NAME_SIZE], call[RD_RANK_NAME_SIZE],
		duration[RD_DURATION_SIZE];
	int rank = coordinator->slow_rank, next;

	for (int i = 0; i < coordinator->size && rank >= 0; i++)
		rank = follow_circle(coordinator, rank);
	next = rank < 0 ? -1 : follow_circle(coordinator, rank);
	if (next < 0)
		return;

	const struct rd_coordinator_rank *state = &coordinator->ranks[rank];

	rd_coordinator_decide(coordinator, RONDO_TIMEOUT,
		"%s waited %s for %s in %s: ranks wait for each other, and nothing comes through",
		rd_coordinator_name_rank(coordinator, rank, name),
		rd_duration(duration, rd_query_wait_ms(state)),
		rd_coordinator_name_rank(coordinator, next, next_name),
		state->calls == state->done
			? "a transfer"
			: rd_coordinator_name_call(state->collective, state->done + 1, call));
}

static void query_for_slow_call(
	struct rd_coordinator *coordinator, int rank, uint32_t line_ms, int64_t now_ms)
{
	coordinator->slow_rank = rank;
	coordinator->next_slow_rank = -1;
	coordinator->slow_line_ms = line_ms;
	rd_query_all(coordinator, now_ms);
}

void rd_slow_call_judge(struct rd_coordinator *coordinator, int64_t now_ms)
{
	int next = coordinator->next_slow_rank;

	if (rd_query_judge_calls(coordinator))
		return;
	if (coordinator->slow_line_ms > 0)
		describe_slow_call(coordinator);
	judge_circle(coordinator);
	coordinator->slow_rank = -1;
	if (next >= 0 && !coordinator->error)
		query_for_slow_call(coordinator, next, 0, now_ms);
}

/* During a query only the latest SLOW is kept for the next: most are of the same call. */
void rd_slow_call_report(struct rd_coordinator *coordinator, int rank,
	const struct rd_control_message *message, int64_t now_ms)
{
	struct rd_coordinator_rank *state = &coordinator->ranks[rank];

	if (state->report || coordinator->failure_reporter >= 0)
		return;
	state->culprit = message->slow.culprit < coordinator->size ? message->slow.culprit : -1;
	rd_reason_set(&state->reason, "%s", message->slow.reason);
	if (coordinator->slow_rank < 0)
		query_for_slow_call(coordinator, rank, message->slow.line_ms, now_ms);
	else
		coordinator->next_slow_rank = rank;
}
