#include "bootstrap/coordinator/diagnose.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "bootstrap/coordinator/verdict.h"

/* ---- Judging ------------------------------------------------------------------------------- */

/* The last rank of a chain of reports: a culprit's own report is closer to the cause than reports
   about that rank. */
static int last_reporter(const struct rd_coordinator *coordinator)
{
	int rank = coordinator->reporter;

	for (int i = 0; i < coordinator->size; i++) {
		int next = coordinator->ranks[rank].culprit;
		if (next < 0 || !coordinator->ranks[next].report)
			return rank;
		rank = next;
	}
	return coordinator->reporter; /* they blame each other */
}

/* A rank that has not answered, the blamed one first; -1: all have. */
static int find_unresponsive(const struct rd_coordinator *coordinator, int blamed)
{
	if (blamed >= 0 && !coordinator->ranks[blamed].left && !coordinator->ranks[blamed].answered)
		return blamed;
	for (int rank = 0; rank < coordinator->size; rank++)
		if (!coordinator->ranks[rank].left && !coordinator->ranks[rank].answered)
			return rank;
	return -1;
}

/* The rank with the fewest calls, the blamed one first, if they are fewer than number; else -1. */
static int find_straggler(const struct rd_coordinator *coordinator, uint32_t number, int blamed)
{
	int found = -1;

	if (blamed >= 0 && !coordinator->ranks[blamed].left &&
		coordinator->ranks[blamed].calls < number)
		return blamed;
	for (int rank = 0; rank < coordinator->size; rank++) {
		const struct rd_coordinator_rank *state = &coordinator->ranks[rank];
		if (state->left || state->calls >= number)
			continue;
		if (found < 0 || state->calls < coordinator->ranks[found].calls)
			found = rank;
	}
	return found;
}

/* Follows the waits from this rank to one that waits for none; -1: the waits form a circle. */
static int find_idle(const struct rd_coordinator *coordinator, int rank)
{
	for (int i = 0; i < coordinator->size; i++) {
		int next = coordinator->ranks[rank].waiting_for;
		if (next < 0 || next >= coordinator->size || coordinator->ranks[next].left)
			return rank;
		rank = next;
	}
	return -1;
}

/* The end of a reason: "rank 0 (...) waited 600 s for it in all_reduce #17". */
static const char *describe_wait(
	const struct rd_coordinator *coordinator, int reporter, char text[RD_REASON_SIZE])
{
	const struct rd_coordinator_rank *state = &coordinator->ranks[reporter];
	char name[RD_RANK_NAME_SIZE], call[RD_RANK_NAME_SIZE], duration[RD_DURATION_SIZE];

	if (!state->answered || state->calls == state->done) {
		snprintf(text, RD_REASON_SIZE, "%s", state->reason);
		return text;
	}
	snprintf(text, RD_REASON_SIZE, "%s waited %s for it in %s",
		rd_coordinator_name_rank(coordinator, reporter, name),
		rd_duration(duration, coordinator->settings->timeout_ms),
		rd_coordinator_name_call(state->collective, state->done + 1, call));
	return text;
}

/* The collective that a rank is in, or was last. */
static uint32_t present_call(const struct rd_coordinator_rank *state)
{
	return state->calls == state->done ? state->calls : state->done + 1;
}

/* Finds two ranks that wait in different calls of one number: each for messages that the other
   never sends. False: there are none. */
static bool judge_calls(struct rd_coordinator *coordinator)
{
	char there[128], here[128];

	for (int rank = 1; rank < coordinator->size; rank++) {
		const struct rd_coordinator_rank *state = &coordinator->ranks[rank];

		for (int other = 0; other < rank && state->slept_in.number > 0; other++) {
			if (!rd_signature_mismatches(
				    &state->slept_in, &coordinator->ranks[other].slept_in))
				continue;
			rd_signature_print(&state->slept_in, there, sizeof(there));
			rd_signature_print(&coordinator->ranks[other].slept_in, here, sizeof(here));
			rd_coordinator_decide(coordinator, RONDO_MISMATCH,
				"ranks made different calls: rank %d %s, rank %d %s", rank, there,
				other, here);
			return true;
		}
	}
	return false;
}

static void judge_silence(struct rd_coordinator *coordinator, int reporter)
{
	const struct rd_coordinator_rank *state = &coordinator->ranks[reporter];
	uint32_t number = present_call(state);
	int straggler = find_straggler(coordinator, number, state->culprit);
	int idle = find_idle(coordinator, reporter);
	char name[RD_RANK_NAME_SIZE], call[RD_RANK_NAME_SIZE], wait[RD_REASON_SIZE];

	describe_wait(coordinator, reporter, wait);
	if (judge_calls(coordinator))
		return;
	if (straggler >= 0)
		rd_coordinator_decide(coordinator, RONDO_TIMEOUT,
			"%s has not joined %s (it has made %u call%s); %s",
			rd_coordinator_name_rank(coordinator, straggler, name),
			rd_coordinator_name_call(state->collective, number, call),
			coordinator->ranks[straggler].calls,
			RD_PLURAL(coordinator->ranks[straggler].calls), wait);
	else if (state->calls != state->done && idle >= 0 && idle != reporter)
		rd_coordinator_decide(coordinator, RONDO_TIMEOUT,
			"%s holds up %s, waiting for nobody; %s",
			rd_coordinator_name_rank(coordinator, idle, name),
			rd_coordinator_name_call(state->collective, number, call), wait);
	else
		rd_coordinator_decide(coordinator, RONDO_TIMEOUT, "%s", state->reason);
}

static void judge(struct rd_coordinator *coordinator)
{
	int last = last_reporter(coordinator);
	int unresponsive = find_unresponsive(coordinator, coordinator->ranks[last].culprit);
	char name[RD_RANK_NAME_SIZE], text[RD_REASON_SIZE];

	if (unresponsive >= 0)
		rd_coordinator_decide(coordinator, RONDO_TIMEOUT,
			"%s does not answer: stopped or cut off; %s",
			rd_coordinator_name_rank(coordinator, unresponsive, name),
			describe_wait(coordinator, last, text));
	else if (coordinator->ranks[last].report == RONDO_BROKEN)
		rd_coordinator_decide(coordinator, RONDO_BROKEN, "%s (seen by rank %d)",
			coordinator->ranks[last].reason, last);
	else
		judge_silence(coordinator, last);
}

static void query_all(struct rd_coordinator *coordinator, int64_t now_ms)
{
	coordinator->query++;
	coordinator->case_ms = now_ms + RD_CASE_MS;
	for (int rank = 0; rank < coordinator->size; rank++)
		coordinator->ranks[rank].answered = false;
	rd_coordinator_send_to_all(coordinator, RD_CONTROL_QUERY);
}

static void open_case(struct rd_coordinator *coordinator, int reporter, int64_t now_ms)
{
	coordinator->reporter = reporter;
	coordinator->inquirer = coordinator->next_inquirer = -1;
	query_all(coordinator, now_ms);
}

/* ---- Slow calls ---------------------------------------------------------------------------- */

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
	const struct rd_coordinator_rank *state = &coordinator->ranks[coordinator->inquirer];
	int unresponsive = find_unresponsive(coordinator, state->culprit);
	uint32_t number = present_call(state);
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
	int rank = coordinator->inquirer, next;

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

static void open_inquiry(struct rd_coordinator *coordinator, int rank, bool first, int64_t now_ms)
{
	coordinator->inquirer = rank;
	coordinator->next_inquirer = -1;
	coordinator->inquires_first = first;
	query_all(coordinator, now_ms);
}

static void close_inquiry(struct rd_coordinator *coordinator, int64_t now_ms)
{
	int next = coordinator->next_inquirer;

	if (coordinator->inquires_first)
		describe_slow_call(coordinator);
	if (!judge_calls(coordinator))
		judge_circle(coordinator);
	coordinator->inquirer = -1;
	if (next >= 0 && !coordinator->error)
		open_inquiry(coordinator, next, false, now_ms);
}

/* During an inquiry only the latest SLOW is kept for the next: most are of the same call. */
void rd_diagnose_slow(struct rd_coordinator *coordinator, int rank,
	const struct rd_control_message *message, int64_t now_ms)
{
	struct rd_coordinator_rank *state = &coordinator->ranks[rank];

	if (state->report || coordinator->reporter >= 0)
		return;
	state->culprit = message->slow.culprit < coordinator->size ? message->slow.culprit : -1;
	memcpy(state->reason, message->slow.reason, sizeof(state->reason));
	if (coordinator->inquirer < 0)
		open_inquiry(coordinator, rank, message->slow.first, now_ms);
	else
		coordinator->next_inquirer = rank;
}

/* ---- Reports ------------------------------------------------------------------------------- */

static bool is_missing(const struct rd_coordinator_rank *state)
{
	return !state->joined;
}

static bool is_not_ready(const struct rd_coordinator_rank *state)
{
	return !state->ready;
}

/* A participant, or the coordinator, has waited for the others for init_timeout_ms. */
static void give_up(struct rd_coordinator *coordinator)
{
	char ranks[RD_RANK_NAME_SIZE], duration[RD_DURATION_SIZE];

	rd_duration(duration, coordinator->settings->init_timeout_ms);
	if (coordinator->phase == RD_COORDINATOR_JOINING) {
		rd_coordinator_name_ranks(coordinator, is_missing, ranks, sizeof(ranks));
		rd_coordinator_decide(coordinator, RONDO_TIMEOUT, "%s not come to %s within %s",
			ranks, coordinator->address, duration);
	} else if (coordinator->phase == RD_COORDINATOR_OPENING) {
		rd_coordinator_name_ranks(coordinator, is_not_ready, ranks, sizeof(ranks));
		rd_coordinator_decide(coordinator, RONDO_TIMEOUT,
			"%s not opened all links within %s", ranks, duration);
	}
}

static void blame_leaver(struct rd_coordinator *coordinator, int leaver, const char *reason)
{
	char name[RD_RANK_NAME_SIZE];

	rd_coordinator_decide(coordinator, RONDO_LEFT, "%s left after call #%u; %s",
		rd_coordinator_name_rank(coordinator, leaver, name),
		coordinator->ranks[leaver].calls, reason);
}

void rd_diagnose_leaver(struct rd_coordinator *coordinator, int leaver)
{
	for (int rank = 0; rank < coordinator->size; rank++)
		if (coordinator->ranks[rank].report && coordinator->ranks[rank].culprit == leaver)
			blame_leaver(coordinator, leaver, coordinator->ranks[rank].reason);
}

/* The connection of a dead rank may stay open where a child of it holds the socket: it is dropped.
   A rank that has left may die. */
static void take_death(struct rd_coordinator *coordinator, int rank)
{
	const struct rd_coordinator_rank *state = &coordinator->ranks[rank];
	char name[RD_RANK_NAME_SIZE];

	if (state->left)
		return;
	rd_coordinator_decide(coordinator, RONDO_DIED, "%s died",
		rd_coordinator_name_rank(coordinator, rank, name));
	if (state->connection >= 0)
		coordinator->connections[state->connection].dropped = true;
}

void rd_diagnose_report(struct rd_coordinator *coordinator, int rank,
	const struct rd_control_message *message, int64_t now_ms)
{
	int error = message->report.error, culprit = message->report.culprit;
	struct rd_coordinator_rank *state = &coordinator->ranks[rank];
	char name[RD_RANK_NAME_SIZE];

	if (culprit >= coordinator->size) {
		rd_coordinator_decide(coordinator, RONDO_PROTOCOL, "%s blames rank %d of %d",
			rd_coordinator_name_rank(coordinator, rank, name), culprit,
			coordinator->size);
	} else if (error == RONDO_DIED && culprit > 0) {
		take_death(coordinator, culprit);
	} else if (error == RONDO_TIMEOUT && culprit < 0 &&
		   coordinator->phase != RD_COORDINATOR_RUNNING) {
		give_up(coordinator);
	} else if (culprit >= 0 && coordinator->ranks[culprit].left) {
		blame_leaver(coordinator, culprit, message->report.reason);
	} else if (error == RONDO_TIMEOUT || (error == RONDO_BROKEN && culprit >= 0)) {
		state->report = error;
		state->culprit = culprit;
		memcpy(state->reason, message->report.reason, sizeof(state->reason));
		coordinator->broken |= error == RONDO_BROKEN;
		if (coordinator->reporter < 0)
			open_case(coordinator, rank, now_ms);
	} else {
		rd_coordinator_decide(coordinator, error, "%s", message->report.reason);
	}
}

/* Silence is judged as soon as all have answered. Where a link broke, the case waits for
   RD_CASE_MS: the report of a death may come later than that of the broken link. */
void rd_diagnose_answer(struct rd_coordinator *coordinator, int rank,
	const struct rd_control_message *message, int64_t now_ms)
{
	struct rd_coordinator_rank *state = &coordinator->ranks[rank];

	if ((coordinator->reporter < 0 && coordinator->inquirer < 0) ||
		message->answer.number != coordinator->query)
		return;
	state->answered = true;
	state->calls = message->answer.calls;
	state->done = message->answer.done;
	state->collective = message->answer.collective;
	state->waiting_for = message->answer.waiting_for;
	state->waited_ms = message->answer.waited_ms;
	state->slept_in = message->answer.slept_in;
	if (find_unresponsive(coordinator, -1) >= 0)
		return;
	if (coordinator->inquirer >= 0)
		close_inquiry(coordinator, now_ms);
	else if (!coordinator->broken)
		judge(coordinator);
}

/* ---- Time ---------------------------------------------------------------------------------- */

bool rd_diagnose_tick(struct rd_coordinator *coordinator, int64_t now_ms)
{
	if (coordinator->phase != RD_COORDINATOR_RUNNING && now_ms >= coordinator->init_ms)
		give_up(coordinator);
	else if (coordinator->reporter >= 0 && now_ms >= coordinator->case_ms)
		judge(coordinator);
	else if (coordinator->inquirer >= 0 && now_ms >= coordinator->case_ms)
		close_inquiry(coordinator, now_ms);
	else
		return false;
	return true;
}
