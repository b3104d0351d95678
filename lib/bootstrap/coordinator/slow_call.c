#include "bootstrap/coordinator/slow_call.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "bootstrap/coordinator/query.h"
#include "bootstrap/coordinator/verdict.h"

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
	vsnprintf(coordinator->slow_text, sizeof(coordinator->slow_text), format, args);
	va_end(args);
	coordinator->slow_due = true;
}

/* Once for each collective, for any number of ranks that wait in it. */
static void describe_slow_call(struct rd_coordinator *coordinator)
{
	const struct rd_coordinator_rank *state = &coordinator->ranks[coordinator->slow_rank];
	int unresponsive = rd_query_unresponsive(coordinator, state->culprit);
	uint32_t number = rd_query_present_call(state);
	char name[RD_RANK_NAME_SIZE], call[RD_RANK_NAME_SIZE];

	if (!state->answered || (state->calls != state->done && number == coordinator->slow_logged))
		return;
	if (unresponsive >= 0) {
		log_later(coordinator, "%s does not answer; %s",
			rd_coordinator_name_rank(coordinator, unresponsive, name), state->reason);
	} else if (mark_stragglers(coordinator, number) > 0) {
		rd_coordinator_name_ranks(coordinator, has_not_joined, name, sizeof(name));
		log_later(coordinator, "%s not joined %s; %s", name,
			rd_coordinator_name_call(state->collective, number, call), state->reason);
	}
	if (coordinator->slow_due)
		coordinator->slow_logged = number;
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
		rd_duration(duration, coordinator->settings->heartbeat_timeout_ms),
		rd_coordinator_name_rank(coordinator, next, next_name),
		state->calls == state->done
			? "a transfer"
			: rd_coordinator_name_call(state->collective, state->done + 1, call));
}

static void query_for_slow_call(
	struct rd_coordinator *coordinator, int rank, bool first, int64_t now_ms)
{
	coordinator->slow_rank = rank;
	coordinator->next_slow_rank = -1;
	coordinator->slow_first = first;
	rd_query_all(coordinator, now_ms);
}

void rd_slow_call_judge(struct rd_coordinator *coordinator, int64_t now_ms)
{
	int next = coordinator->next_slow_rank;

	if (coordinator->slow_first)
		describe_slow_call(coordinator);
	if (!rd_query_judge_calls(coordinator))
		judge_circle(coordinator);
	coordinator->slow_rank = -1;
	if (next >= 0 && !coordinator->error)
		query_for_slow_call(coordinator, next, false, now_ms);
}

/* During a query only the latest SLOW is kept for the next: most are of the same call. */
void rd_slow_call_report(struct rd_coordinator *coordinator, int rank,
	const struct rd_control_message *message, int64_t now_ms)
{
	struct rd_coordinator_rank *state = &coordinator->ranks[rank];

	if (state->report || coordinator->failure_reporter >= 0)
		return;
	state->culprit = message->slow.culprit < coordinator->size ? message->slow.culprit : -1;
	memcpy(state->reason, message->slow.reason, sizeof(state->reason));
	if (coordinator->slow_rank < 0)
		query_for_slow_call(coordinator, rank, message->slow.first, now_ms);
	else
		coordinator->next_slow_rank = rank;
}
