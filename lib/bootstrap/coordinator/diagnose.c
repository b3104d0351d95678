#include "bootstrap/coordinator/coordinator.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "plan/collective.h"

#define NAMED_RANKS_MAX 6

/* ---- The verdict, and the names in it ------------------------------------------------------- */

const char *rd_coordinator_name_rank(
	const struct rd_coordinator *coordinator, int rank, char name[RD_RANK_NAME_SIZE])
{
	return rd_place_name(&coordinator->ranks[rank].place, rank, name);
}

const char *rd_coordinator_name_call(int collective, uint32_t number, char name[RD_RANK_NAME_SIZE])
{
	snprintf(name, RD_RANK_NAME_SIZE, "%s #%u",
		collective < 0 ? "call" : rd_collective_name((enum rd_collective)collective),
		number);
	return name;
}

void rd_coordinator_name_ranks(const struct rd_coordinator *coordinator,
	bool (*which)(const struct rd_coordinator_rank *), char *text, size_t size)
{
	int ranks[NAMED_RANKS_MAX], count = 0;
	size_t at;

	for (int rank = 0; rank < coordinator->size; rank++) {
		if (!which(&coordinator->ranks[rank]))
			continue;
		if (count < NAMED_RANKS_MAX)
			ranks[count] = rank;
		count++;
	}
	at = (size_t)snprintf(text, size, count == 1 ? "rank" : "ranks");
	for (int i = 0; i < count && i < NAMED_RANKS_MAX; i++) {
		const char *before = i == 0 ? " " : i == count - 1 ? " and " : ", ";
		at += (size_t)snprintf(text + at, size - at, "%s%d", before, ranks[i]);
	}
	if (count > NAMED_RANKS_MAX)
		at += (size_t)snprintf(
			text + at, size - at, " and %d more", count - NAMED_RANKS_MAX);
	snprintf(text + at, size - at, " of %d %s", coordinator->size, count == 1 ? "has" : "have");
}

void rd_coordinator_send_to_all(struct rd_coordinator *coordinator, enum rd_control_kind kind)
{
	for (int i = 0; i < coordinator->connection_count; i++) {
		struct rd_coordinator_connection *connection = &coordinator->connections[i];
		if (connection->open && connection->rank >= 0 &&
			!coordinator->ranks[connection->rank].left)
			connection->to_send |= rd_control_bit(kind);
	}
}

void rd_coordinator_lose(struct rd_coordinator *coordinator, int rank)
{
	if (!coordinator->error)
		coordinator->lost = rank;
}

void rd_coordinator_spare(struct rd_coordinator *coordinator, uint32_t calls)
{
	if (!coordinator->error)
		coordinator->spared = calls;
}

void rd_coordinator_decide(struct rd_coordinator *coordinator, int error, const char *format, ...)
{
	va_list args;

	if (coordinator->error)
		return;
	coordinator->error = error;
	va_start(args, format);
	rd_reason_set_args(&coordinator->reason, format, args);
	va_end(args);
	coordinator->failure_reporter = -1;
	coordinator->slow_rank = coordinator->next_slow_rank = -1;
	rd_coordinator_send_to_all(coordinator, RD_CONTROL_VERDICT);
}

/* ---- A query of all ranks -------------------------------------------------------------------- */

void rd_query_all(struct rd_coordinator *coordinator, int64_t now_ms)
{
	coordinator->query++;
	coordinator->query_ms = now_ms + RD_QUERY_MS;
	for (int rank = 0; rank < coordinator->size; rank++)
		coordinator->ranks[rank].answered = false;
	rd_coordinator_send_to_all(coordinator, RD_CONTROL_QUERY);
}

bool rd_query_take_answer(
	struct rd_coordinator *coordinator, int rank, const struct rd_control_message *message)
{
	struct rd_coordinator_rank *state = &coordinator->ranks[rank];

	if ((coordinator->failure_reporter < 0 && coordinator->slow_rank < 0) ||
		message->answer.number != coordinator->query)
		return false;
	state->answered = true;
	state->calls = message->answer.calls;
	state->done = message->answer.done;
	state->collective = message->answer.collective;
	state->waiting_for = message->answer.waiting_for;
	state->waited_ms = message->answer.waited_ms;
	state->slept_in = message->answer.slept_in;
	memcpy(state->called_at, message->answer.called_at, sizeof(state->called_at));
	memcpy(state->waits_at, message->answer.waits_at, sizeof(state->waits_at));
	return rd_query_unresponsive(coordinator, -1) < 0;
}

int rd_query_unresponsive(const struct rd_coordinator *coordinator, int suspect)
{
	if (suspect >= 0 && !coordinator->ranks[suspect].left &&
		!coordinator->ranks[suspect].answered)
		return suspect;
	for (int rank = 0; rank < coordinator->size; rank++)
		if (!coordinator->ranks[rank].left && !coordinator->ranks[rank].answered)
			return rank;
	return -1;
}

uint32_t rd_query_present_call(const struct rd_coordinator_rank *state)
{
	return state->calls == state->done ? state->calls : state->done + 1;
}

/* "all_reduce #17 of 100 f32 sum at train+0x11b8". */
static void print_call(const struct rd_coordinator_rank *state, char *text, size_t size)
{
	size_t length;

	rd_signature_print(&state->slept_in, text, size);
	length = strlen(text);
	if (state->waits_at[0])
		snprintf(text + length, size - length, " at %s", state->waits_at);
}

bool rd_query_judge_calls(struct rd_coordinator *coordinator)
{
	char there[128 + RD_CALL_SITE_SIZE], here[128 + RD_CALL_SITE_SIZE];

	for (int rank = 1; rank < coordinator->size; rank++) {
		const struct rd_coordinator_rank *state = &coordinator->ranks[rank];

		for (int other = 0; other < rank && state->slept_in.number > 0; other++) {
			if (!rd_signature_mismatches(
				    &state->slept_in, &coordinator->ranks[other].slept_in))
				continue;
			print_call(state, there, sizeof(there));
			print_call(&coordinator->ranks[other], here, sizeof(here));
			rd_coordinator_decide(coordinator, RONDO_MISMATCH,
				"ranks made different calls: rank %d %s, rank %d %s", rank, there,
				other, here);
			return true;
		}
	}
	return false;
}

/* ---- Judging ------------------------------------------------------------------------------- */

/* The last rank of a chain of reports: a culprit's own report is closer to the cause than reports
   about that rank. */
static int last_reporter(const struct rd_coordinator *coordinator)
{
	int rank = coordinator->failure_reporter;

	for (int i = 0; i < coordinator->size; i++) {
		int next = coordinator->ranks[rank].culprit;
		if (next < 0 || !coordinator->ranks[next].report)
			return rank;
		rank = next;
	}
	return coordinator->failure_reporter; /* they report each other */
}

/* The rank with the fewest calls, if they are fewer than number; else -1. Among equals the suspect
   comes first: one that has made more calls may itself wait for another. */
static int find_straggler(const struct rd_coordinator *coordinator, uint32_t number, int suspect)
{
	int found = -1;

	if (suspect >= 0 && !coordinator->ranks[suspect].left &&
		coordinator->ranks[suspect].calls < number)
		found = suspect;
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

/* The rank for which this one waits in a call, where that has left: its last messages were lost.
   -1: none. */
static int find_leaver(const struct rd_coordinator *coordinator, int rank)
{
	const struct rd_coordinator_rank *state = rank < 0 ? NULL : &coordinator->ranks[rank];
	int other = !state || state->calls == state->done ? -1 : state->waiting_for;

	return other >= 0 && other < coordinator->size && coordinator->ranks[other].left ? other
											 : -1;
}

/* Its latest peer stays in waiting_for when the wait is over. */
static bool waits(const struct rd_coordinator_rank *state)
{
	return state->calls != state->done || (state->waiting_for >= 0 && state->waited_ms > 0);
}

/* The ranks that hold up call `number`: this one (-1: none), and all others that have not joined it
   and do not wait themselves. Returns how many. */
static int mark_late(struct rd_coordinator *coordinator, uint32_t number, int first)
{
	int count = 0;

	for (int rank = 0; rank < coordinator->size; rank++) {
		struct rd_coordinator_rank *state = &coordinator->ranks[rank];

		state->late = !state->left && state->answered &&
			      (rank == first || (state->calls < number && !waits(state)));
		count += state->late;
	}
	return count;
}

static bool is_late(const struct rd_coordinator_rank *state)
{
	return state->late;
}

int64_t rd_query_wait_ms(const struct rd_coordinator_rank *state)
{
	return state->waited_ms < 1000 ? state->waited_ms : state->waited_ms / 1000 * 1000;
}

/* The end of a reason: "rank 0 (...) waited 600 s for it in all_reduce #17". A rank publishes no
   wait of a device: the reason of its report has that. */
static const char *describe_wait(
	const struct rd_coordinator *coordinator, int reporter, char text[RD_REASON_SIZE])
{
	const struct rd_coordinator_rank *state = &coordinator->ranks[reporter];
	char name[RD_RANK_NAME_SIZE], call[RD_RANK_NAME_SIZE], duration[RD_DURATION_SIZE];

	if (!state->answered || state->calls == state->done || state->waited_ms == 0 ||
		state->report == RONDO_BROKEN) {
		snprintf(text, RD_REASON_SIZE, "%s", rd_reason_text(state->reason));
		return text;
	}
	snprintf(text, RD_REASON_SIZE, "%s waited %s for it in %s%s%s",
		rd_coordinator_name_rank(coordinator, reporter, name),
		rd_duration(duration, rd_query_wait_ms(state)),
		rd_coordinator_name_call(state->collective, state->done + 1, call),
		state->waits_at[0] ? " at " : "", state->waits_at);
	return text;
}

/* A rank waits in a call for a leaver. It holds up the others, and is no reason. */
static void blame_leaver(struct rd_coordinator *coordinator, int rank, int leaver, const char *wait)
{
	const struct rd_coordinator_rank *state = &coordinator->ranks[rank];
	char name[RD_RANK_NAME_SIZE], call[RD_RANK_NAME_SIZE], of_leaver[RD_RANK_NAME_SIZE];

	rd_coordinator_decide(coordinator, RONDO_TIMEOUT,
		"%s waits in %s for %s, which left after call #%u; %s",
		rd_coordinator_name_rank(coordinator, rank, name),
		rd_coordinator_name_call(state->collective, rd_query_present_call(state), call),
		rd_coordinator_name_rank(coordinator, leaver, of_leaver),
		coordinator->ranks[leaver].calls, wait);
}

/* The straggler is the one with the fewest calls. Others may be as late. */
static void blame_stragglers(struct rd_coordinator *coordinator, int straggler, int late,
	const char *call, const char *wait)
{
	const struct rd_coordinator_rank *state = &coordinator->ranks[straggler];
	const char *at = state->called_at[0] ? ", the last at " : "";
	char name[RD_RANK_NAME_SIZE], names[RD_RANK_NAME_SIZE];

	rd_coordinator_name_rank(coordinator, straggler, name);
	rd_coordinator_name_ranks(coordinator, is_late, names, sizeof(names));
	if (late == 1)
		rd_coordinator_decide(coordinator, RONDO_TIMEOUT,
			"%s has not joined %s (it has made %u call%s%s%s); %s", name, call,
			state->calls, RD_PLURAL(state->calls), at, state->called_at, wait);
	else
		rd_coordinator_decide(coordinator, RONDO_TIMEOUT,
			"%s not joined %s; %s has made %u call%s%s%s; %s", names, call, name,
			state->calls, RD_PLURAL(state->calls), at, state->called_at, wait);
}

static void judge_silence(struct rd_coordinator *coordinator, int reporter)
{
	const struct rd_coordinator_rank *state = &coordinator->ranks[reporter];
	uint32_t number = rd_query_present_call(state);
	int straggler = find_straggler(coordinator, number, state->culprit);
	int idle = find_idle(coordinator, reporter), leaver, late;
	bool holds_up = state->calls != state->done && idle >= 0 && idle != reporter;
	char name[RD_RANK_NAME_SIZE], call[RD_RANK_NAME_SIZE], wait[RD_REASON_SIZE];

	describe_wait(coordinator, reporter, wait);
	if (rd_query_judge_calls(coordinator))
		return;
	leaver = find_leaver(coordinator, straggler >= 0 ? straggler : idle);
	if (leaver >= 0) {
		blame_leaver(coordinator, straggler >= 0 ? straggler : idle, leaver, wait);
		return;
	}
	rd_coordinator_name_call(state->collective, number, call);
	if (straggler >= 0) {
		late = mark_late(coordinator, number, straggler);
		blame_stragglers(coordinator, straggler, late, call, wait);
	} else if (holds_up) {
		mark_late(coordinator, number, idle);
		rd_coordinator_decide(coordinator, RONDO_TIMEOUT,
			"%s holds up %s, waiting for nobody; %s",
			rd_coordinator_name_rank(coordinator, idle, name), call, wait);
	} else {
		late = state->culprit;
		if (late >= 0 && !waits(&coordinator->ranks[late]))
			mark_late(coordinator, number, late);
		rd_coordinator_decide(
			coordinator, RONDO_TIMEOUT, "%s", rd_reason_text(state->reason));
	}
}

/* A link to it broke, too: it is no process that is stopped. */
static void decide_unresponsive(struct rd_coordinator *coordinator, int rank, int reporter)
{
	const struct rd_coordinator_rank *state = &coordinator->ranks[reporter];
	bool is_cut_off = state->report == RONDO_BROKEN && state->culprit == rank;
	char name[RD_RANK_NAME_SIZE], text[RD_REASON_SIZE];

	rd_coordinator_lose(coordinator, rank);
	rd_coordinator_name_rank(coordinator, rank, name);
	if (is_cut_off) {
		rd_coordinator_decide(coordinator, RONDO_BROKEN,
			"%s does not answer: cut off; %s (seen by rank %d)", name,
			rd_reason_text(state->reason), reporter);
		return;
	}
	if (state->answered)
		mark_late(coordinator, rd_query_present_call(state), -1);
	rd_coordinator_decide(coordinator, RONDO_TIMEOUT,
		"%s does not answer: stopped or cut off; %s", name,
		describe_wait(coordinator, reporter, text));
}

void rd_diagnose_judge(struct rd_coordinator *coordinator)
{
	int last = last_reporter(coordinator);
	int unresponsive = rd_query_unresponsive(coordinator, coordinator->ranks[last].culprit);

	if (unresponsive >= 0)
		decide_unresponsive(coordinator, unresponsive, last);
	else if (coordinator->ranks[last].report == RONDO_BROKEN)
		rd_coordinator_decide(coordinator, RONDO_BROKEN, "%s (seen by rank %d)",
			rd_reason_text(coordinator->ranks[last].reason), last);
	else
		judge_silence(coordinator, last);
}

static void query_for_failure(struct rd_coordinator *coordinator, int reporter, int64_t now_ms)
{
	coordinator->failure_reporter = reporter;
	coordinator->slow_rank = coordinator->next_slow_rank = -1;
	rd_query_all(coordinator, now_ms);
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

void rd_diagnose_give_up(struct rd_coordinator *coordinator)
{
	char ranks[RD_RANK_NAME_SIZE], duration[RD_DURATION_SIZE], others[96] = "";

	rd_duration(duration, coordinator->settings->init_timeout_ms);
	if (coordinator->phase == RD_COORDINATOR_JOINING) {
		rd_coordinator_name_ranks(coordinator, is_missing, ranks, sizeof(ranks));
		if (coordinator->foreign)
			snprintf(others, sizeof(others),
				"; %u connection%s did not prove to be of this job",
				coordinator->foreign, RD_PLURAL(coordinator->foreign));
		else if (coordinator->accept_error)
			snprintf(others, sizeof(others), "; rank 0 cannot accept a connection: %s",
				strerror(coordinator->accept_error));
		rd_coordinator_decide(coordinator, RONDO_TIMEOUT, "%s not come to %s within %s%s",
			ranks, coordinator->address, duration, others);
	} else if (coordinator->phase == RD_COORDINATOR_OPENING) {
		rd_coordinator_name_ranks(coordinator, is_not_ready, ranks, sizeof(ranks));
		rd_coordinator_decide(coordinator, RONDO_TIMEOUT,
			"%s not opened all links within %s", ranks, duration);
	}
}

static void decide_left(struct rd_coordinator *coordinator, int leaver, const char *reason)
{
	char name[RD_RANK_NAME_SIZE];

	rd_coordinator_decide(coordinator, RONDO_LEFT, "%s left after call #%u; %s",
		rd_coordinator_name_rank(coordinator, leaver, name),
		coordinator->ranks[leaver].calls, reason);
}

/* A link that broke did so because its other end has left. A timeout has another reason: a call
   that the leaver did not make has failed before. */
void rd_diagnose_leaver(struct rd_coordinator *coordinator, int leaver)
{
	for (int rank = 0; rank < coordinator->size; rank++)
		if (coordinator->ranks[rank].report == RONDO_BROKEN &&
			coordinator->ranks[rank].culprit == leaver)
			decide_left(coordinator, leaver,
				rd_reason_text(coordinator->ranks[rank].reason));
}

/* The connection of a dead rank may stay open where a child of it holds the socket: it is dropped.
   A rank that has left may die. */
static void take_death(struct rd_coordinator *coordinator, int rank, uint32_t done)
{
	const struct rd_coordinator_rank *state = &coordinator->ranks[rank];
	char name[RD_RANK_NAME_SIZE];

	if (state->left)
		return;
	rd_coordinator_lose(coordinator, rank);
	rd_coordinator_spare(coordinator, done);
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
		take_death(coordinator, culprit, message->report.done);
	} else if (error != RONDO_TIMEOUT && culprit >= 0 && coordinator->ranks[culprit].left) {
		/* It is in a later call than those of the leaver. */
		if (error == RONDO_LEFT)
			rd_coordinator_spare(coordinator, coordinator->ranks[culprit].calls);
		decide_left(coordinator, culprit, message->report.reason);
	} else if (error == RONDO_TIMEOUT || (error == RONDO_BROKEN && culprit >= 0)) {
		state->report = error;
		state->culprit = culprit;
		rd_reason_set(&state->reason, "%s", message->report.reason);
		coordinator->broken |= error == RONDO_BROKEN;
		if (coordinator->failure_reporter < 0)
			query_for_failure(coordinator, rank, now_ms);
	} else {
		rd_coordinator_decide(coordinator, error, "%s", message->report.reason);
	}
}

void rd_diagnose_answered(struct rd_coordinator *coordinator)
{
	if (!coordinator->broken)
		rd_diagnose_judge(coordinator);
}
