#include "bootstrap/coordinator/coordinator.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "topo/place.h"

/* ---- Failing ------------------------------------------------------------------------------- */

void rd_coordinator_fail(struct rd_coordinator *coordinator, int error, const char *reason)
{
	coordinator->closed = true;
	rd_coordinator_decide(coordinator, error, "%s", reason);
}

int rd_coordinator_verdict(const struct rd_coordinator *coordinator, const char **reason)
{
	*reason = rd_reason_text(coordinator->reason);
	return coordinator->error;
}

/* ---- Life ---------------------------------------------------------------------------------- */

int rd_coordinator_create(struct rd_coordinator **created, const struct rd_settings *settings,
	const char *address, const struct rd_comm_id *id, int64_t now_ms)
{
	struct rd_coordinator *coordinator = calloc(1, sizeof(*coordinator));

	if (!coordinator)
		goto no_memory;
	coordinator->settings = settings;
	coordinator->size = settings->size;
	coordinator->address = address;
	coordinator->id = *id;
	coordinator->ticked_ms = coordinator->woke_ms = now_ms;
	coordinator->init_ms = now_ms + settings->init_timeout_ms;
	coordinator->leave_ms = RD_NEVER;
	coordinator->failure_reporter = coordinator->first_leaver = -1;
	coordinator->lost = coordinator->cut_off = coordinator->ended = -1;
	coordinator->slow_rank = coordinator->next_slow_rank = -1;
	coordinator->connection_count = settings->size;
	coordinator->connections =
		calloc((size_t)coordinator->connection_count, sizeof(*coordinator->connections));
	coordinator->ranks = calloc((size_t)coordinator->size, sizeof(*coordinator->ranks));
	if (!coordinator->connections || !coordinator->ranks)
		goto no_memory;
	for (int rank = 0; rank < coordinator->size; rank++)
		coordinator->ranks[rank].connection = -1;
	*created = coordinator;
	return 0;

no_memory:
	rd_coordinator_destroy(coordinator);
	return rd_fail(RONDO_MEMORY, "no memory for a coordinator of %d ranks", settings->size);
}

void rd_coordinator_destroy(struct rd_coordinator *coordinator)
{
	if (!coordinator)
		return;
	for (int rank = 0; coordinator->ranks && rank < coordinator->size; rank++) {
		free(coordinator->ranks[rank].identity);
		free(coordinator->ranks[rank].reason);
		rd_rank_list_finish(&coordinator->ranks[rank].opened);
	}
	free(coordinator->connections);
	free(coordinator->ranks);
	free(coordinator->table);
	free(coordinator->costs);
	free(coordinator->slow_text);
	free(coordinator->reason);
	rd_link_failures_finish(&coordinator->fallbacks);
	free(coordinator);
}

/* Once all ranks have joined, a new connection is a stray, or early for the next comm at this
   address: refused, it retries. After a failure to meet, the coordinator still sends the reason. */
bool rd_coordinator_listening(const struct rd_coordinator *coordinator)
{
	return coordinator->phase == RD_COORDINATOR_JOINING && !coordinator->closed;
}

/* The bound of the rank at the other end for rank 0's silence. */
static int64_t bound_of(
	const struct rd_coordinator *coordinator, const struct rd_coordinator_connection *at)
{
	return at->timeout_ms ? (int64_t)at->timeout_ms
			      : coordinator->settings->heartbeat_timeout_ms;
}

/* Whether this rank may have hung up because rank 0 did not run. Its last heartbeat went out at the
   last tick, or up to the interval of heartbeats before. */
static bool may_have_given_up(
	const struct rd_coordinator *coordinator, const struct rd_coordinator_connection *at)
{
	int64_t bound_ms = bound_of(coordinator, at);

	return at->rank > 0 &&
	       coordinator->gap_ms >= bound_ms - rd_heartbeat_ms((uint32_t)bound_ms);
}

/* It may also have died meanwhile: nothing tells the two apart. So it is lost, which leaves open
   whether it lives. */
static void decide_given_up(
	struct rd_coordinator *coordinator, const struct rd_coordinator_connection *at)
{
	int64_t bound_ms = bound_of(coordinator, at);
	char name[RD_RANK_NAME_SIZE], zero[RD_RANK_NAME_SIZE], gap[RD_DURATION_SIZE],
		bound[RD_DURATION_SIZE];

	rd_coordinator_lose(coordinator, at->rank);
	rd_coordinator_decide(coordinator, RONDO_TIMEOUT,
		"%s hung up while %s did not run for %s: it waits for %s "
		"(RONDO_HEARTBEAT_TIMEOUT_MS)",
		rd_coordinator_name_rank(coordinator, at->rank, name),
		rd_coordinator_name_rank(coordinator, 0, zero),
		rd_duration(gap, coordinator->gap_ms), rd_duration(bound, bound_ms));
}

static void decide_cut_off(struct rd_coordinator *coordinator)
{
	char name[RD_RANK_NAME_SIZE];

	rd_coordinator_lose(coordinator, coordinator->cut_off);
	rd_coordinator_decide(coordinator, RONDO_BROKEN,
		"%s is cut off: the network reset the connection to it",
		rd_coordinator_name_rank(coordinator, coordinator->cut_off, name));
}

static void decide_died(struct rd_coordinator *coordinator, int rank, const char *when)
{
	char name[RD_RANK_NAME_SIZE];

	rd_coordinator_lose(coordinator, rank);
	rd_coordinator_decide(coordinator, RONDO_DIED, "%s died%s",
		rd_coordinator_name_rank(coordinator, rank, name), when);
}

static bool is_watched(const struct rd_coordinator *coordinator, int rank)
{
	const struct rd_coordinator_rank *state = &coordinator->ranks[rank];

	for (int other = 0; other < coordinator->size; other++)
		if (coordinator->ranks[other].connection >= 0 &&
			rd_place_same_host(&coordinator->ranks[other].place, &state->place))
			return true;
	return false;
}

static int64_t latest_ms(const struct rd_coordinator *coordinator)
{
	return coordinator->woke_ms > coordinator->ticked_ms ? coordinator->woke_ms
							     : coordinator->ticked_ms;
}

/* The rank has died. Another of its host may know which calls it had finished. */
static void take_end(struct rd_coordinator *coordinator, int rank)
{
	if (coordinator->phase != RD_COORDINATOR_RUNNING || coordinator->ended >= 0 ||
		!is_watched(coordinator, rank)) {
		decide_died(coordinator, rank, "");
		return;
	}
	coordinator->ended = rank;
	coordinator->ended_ms = latest_ms(coordinator) + RD_QUERY_MS;
}

/* The kernel of a rank that has died resets the connection, too, where bytes had come that the rank
   had not read. Then another rank of its host reports the death. While ranks meet, the parent's
   verdict may have ended the group there, and is about to end it here. */
static void cut_off(struct rd_coordinator *coordinator, int rank)
{
	if (coordinator->cut_off >= 0)
		return;
	coordinator->cut_off = rank;
	coordinator->cut_off_ms = latest_ms(coordinator) + RD_QUERY_MS;
	if (coordinator->phase == RD_COORDINATOR_RUNNING && !is_watched(coordinator, rank))
		decide_cut_off(coordinator);
}

void rd_coordinator_wake(struct rd_coordinator *coordinator, int64_t now_ms)
{
	int64_t gap_ms = now_ms - coordinator->ticked_ms;

	if (gap_ms < coordinator->late_ms)
		gap_ms = coordinator->late_ms;
	coordinator->woke_ms = now_ms;
	if (gap_ms < coordinator->gap_ms && now_ms <= coordinator->gap_end_ms)
		return;
	coordinator->gap_ms = gap_ms;
	coordinator->gap_end_ms = now_ms + RD_QUERY_MS;
}

void rd_coordinator_closed(struct rd_coordinator *coordinator, int index, int error)
{
	static const char *const when[] = {
		[RD_COORDINATOR_JOINING] = " before all ranks had come",
		[RD_COORDINATOR_OPENING] = " while the ranks connected",
		[RD_COORDINATOR_RUNNING] = "",
	};
	struct rd_coordinator_connection *connection = &coordinator->connections[index];
	int rank = connection->rank;
	char name[RD_RANK_NAME_SIZE], duration[RD_DURATION_SIZE];

	connection->open = false;
	if (rank < 0)
		return;
	coordinator->ranks[rank].connection = -1;
	if (coordinator->ranks[rank].left)
		return;
	if ((rd_means_death(error) || rd_means_reset(error)) &&
		may_have_given_up(coordinator, connection)) {
		decide_given_up(coordinator, connection);
		return;
	}
	rd_coordinator_name_rank(coordinator, rank, name);
	if (rd_means_reset(error)) {
		cut_off(coordinator, rank);
		return;
	}
	if (rd_means_death(error) && coordinator->phase == RD_COORDINATOR_RUNNING) {
		take_end(coordinator, rank);
		return;
	}
	rd_coordinator_lose(coordinator, rank);
	if (rd_means_death(error))
		decide_died(coordinator, rank, when[coordinator->phase]);
	else if (rd_means_silence(error))
		rd_coordinator_decide(coordinator, RONDO_TIMEOUT,
			"%s cannot be reached%s: no packet came from its host for %s", name,
			when[coordinator->phase],
			rd_duration(duration, coordinator->settings->unreachable_ms));
	else
		rd_coordinator_decide(coordinator, RONDO_BROKEN,
			"the connection to %s failed%s: %s", name, when[coordinator->phase],
			strerror(error));
}

void rd_coordinator_bad_message(struct rd_coordinator *coordinator, int index, int64_t now_ms)
{
	struct rd_coordinator_connection *connection = &coordinator->connections[index];
	char name[RD_RANK_NAME_SIZE];

	connection->received_ms = now_ms;
	if (connection->rank < 0) {
		connection->dropped = true;
		coordinator->foreign++;
	} else {
		rd_coordinator_decide(coordinator, RONDO_PROTOCOL,
			"%s sent bytes that make no sense",
			rd_coordinator_name_rank(coordinator, connection->rank, name));
	}
}

bool rd_coordinator_decided(const struct rd_coordinator *coordinator)
{
	return coordinator->error || coordinator->leaver_count == coordinator->size;
}

/* After a failure to meet, ranks that have yet to connect receive the reason, unless they have had
   their time. */
static bool expects_more(const struct rd_coordinator *coordinator)
{
	return rd_coordinator_listening(coordinator) && coordinator->error != RONDO_TIMEOUT &&
	       coordinator->joined + coordinator->refused < coordinator->size;
}

bool rd_coordinator_over(const struct rd_coordinator *coordinator)
{
	if (expects_more(coordinator))
		return false;
	for (int rank = 0; rank < coordinator->size; rank++)
		if (coordinator->ranks[rank].connection >= 0)
			return false;
	return rd_coordinator_decided(coordinator);
}

/* ---- Leaving ------------------------------------------------------------------------------- */

/* All leavers so far made the same calls: compares this one with the first of them. */
static void compare_calls(struct rd_coordinator *coordinator, int rank)
{
	const struct rd_coordinator_rank *state = &coordinator->ranks[rank];
	int first = coordinator->first_leaver;
	const struct rd_coordinator_rank *other = &coordinator->ranks[first];
	char name[RD_RANK_NAME_SIZE], other_name[RD_RANK_NAME_SIZE];

	rd_coordinator_name_rank(coordinator, rank, name);
	rd_coordinator_name_rank(coordinator, first, other_name);
	if (state->calls != other->calls) {
		rd_coordinator_spare(
			coordinator, state->calls < other->calls ? state->calls : other->calls);
		rd_coordinator_decide(coordinator, RONDO_LEFT,
			"%s left after call #%u; %s after call #%u", other_name, other->calls, name,
			state->calls);
	} else if (state->digest != other->digest)
		rd_coordinator_decide(coordinator, RONDO_MISMATCH,
			"%s and %s both left after call #%u, but did not make the same calls",
			other_name, name, state->calls);
}

static void take_bye(struct rd_coordinator *coordinator,
	struct rd_coordinator_connection *connection, const struct rd_control_message *message)
{
	struct rd_coordinator_rank *state = &coordinator->ranks[connection->rank];
	char name[RD_RANK_NAME_SIZE];

	state->calls = message->bye.calls;
	state->digest = message->bye.digest;
	if (coordinator->phase != RD_COORDINATOR_RUNNING)
		rd_coordinator_decide(coordinator, RONDO_LEFT, "%s left before all links were open",
			rd_coordinator_name_rank(coordinator, connection->rank, name));
	else if (coordinator->leaver_count > 0)
		compare_calls(coordinator, connection->rank);
	if (coordinator->error)
		return;
	/* The others learn after which call they can make none; of rank 0, that the end of its
	   process will be no death; and the last one, that it is. */
	if (coordinator->leaver_count++ == 0)
		coordinator->first_leaver = connection->rank;
	if (coordinator->leaver_count == 1 || connection->rank == 0 ||
		coordinator->leaver_count == coordinator->size - 1)
		rd_coordinator_send_to_all(coordinator, RD_CONTROL_LEFT);
	state->left = true;
	connection->to_send = rd_control_bit(RD_CONTROL_LEFT);
	rd_links_left(coordinator, connection->rank);
	rd_diagnose_leaver(coordinator, connection->rank);
}

void rd_coordinator_end_by(struct rd_coordinator *coordinator, int64_t deadline_ms)
{
	if (coordinator->leave_ms == RD_NEVER)
		coordinator->leave_ms = deadline_ms;
}

uint32_t rd_coordinator_slow_call(struct rd_coordinator *coordinator, char text[RD_REASON_SIZE])
{
	uint32_t waited_ms = coordinator->slow_due_ms;

	coordinator->slow_due_ms = 0;
	if (waited_ms > 0)
		snprintf(text, RD_REASON_SIZE, "%s", rd_reason_text(coordinator->slow_text));
	return waited_ms;
}

/* ---- Events -------------------------------------------------------------------------------- */

static void take_heartbeat(struct rd_coordinator_connection *connection, uint32_t timeout_ms)
{
	if (connection->timeout_ms == timeout_ms)
		return;
	connection->timeout_ms = timeout_ms;
	connection->heartbeat_ms = connection->received_ms + rd_heartbeat_ms(timeout_ms);
}

static void take_answer(struct rd_coordinator *coordinator, int rank,
	const struct rd_control_message *message, int64_t now_ms)
{
	if (!rd_query_take_answer(coordinator, rank, message))
		return;
	if (coordinator->slow_rank >= 0)
		rd_slow_call_judge(coordinator, now_ms);
	else
		rd_diagnose_answered(coordinator);
}

void rd_coordinator_take(struct rd_coordinator *coordinator, int index,
	const struct rd_control_message *message, int64_t now_ms)
{
	struct rd_coordinator_connection *connection = &coordinator->connections[index];
	struct rd_coordinator_rank *state;

	if (connection->dropped || connection->refused)
		return;
	connection->received_ms = now_ms;
	if (connection->rank < 0) {
		rd_join_first(coordinator, connection, message);
		return;
	}
	state = &coordinator->ranks[connection->rank];
	if (coordinator->error || state->left)
		return;
	switch (message->kind) {
	case RD_CONTROL_HEARTBEAT:
		take_heartbeat(connection, message->heartbeat.timeout_ms);
		return;
	case RD_CONTROL_REPORT:
		rd_diagnose_report(coordinator, connection->rank, message, now_ms);
		return;
	case RD_CONTROL_ANSWER:
		take_answer(coordinator, connection->rank, message, now_ms);
		return;
	case RD_CONTROL_SLOW:
		/* Where READY crosses it, a query of all does no harm. */
		if (coordinator->phase == RD_COORDINATOR_RUNNING)
			rd_slow_call_report(coordinator, connection->rank, message, now_ms);
		else
			rd_diagnose_give_up(coordinator);
		return;
	case RD_CONTROL_READY:
		if (coordinator->phase == RD_COORDINATOR_RUNNING || state->ready)
			break;
		rd_links_ready(coordinator, state, message);
		return;
	case RD_CONTROL_COSTS:
		if (connection->rank != 0 || coordinator->phase != RD_COORDINATOR_RUNNING ||
			coordinator->costs)
			break;
		coordinator->costs =
			strndup((const char *)message->costs.text, message->costs.size);
		if (!coordinator->costs) {
			rd_coordinator_decide(
				coordinator, RONDO_MEMORY, "rank 0 has no memory for the costs");
			return;
		}
		rd_coordinator_send_to_all(coordinator, RD_CONTROL_COSTS);
		connection->to_send &= ~rd_control_bit(RD_CONTROL_COSTS);
		return;
	case RD_CONTROL_OPEN:
		if (!rd_links_open(coordinator, connection->rank, message))
			break;
		return;
	case RD_CONTROL_LINK_FAILED:
		if (!rd_links_failed(coordinator, connection->rank, &message->link_failed))
			break;
		return;
	case RD_CONTROL_BYE:
		if (coordinator->phase == RD_COORDINATOR_JOINING)
			break;
		take_bye(coordinator, connection, message);
		return;
	default:
		break;
	}
	rd_coordinator_bad_message(coordinator, index, now_ms);
}

/* ---- Time ---------------------------------------------------------------------------------- */

/* Where this process itself was stopped for a while, no rank was silent. */
static void discount_gap(struct rd_coordinator *coordinator, int64_t now_ms)
{
	int64_t gap_ms = now_ms - coordinator->ticked_ms;

	coordinator->ticked_ms = now_ms;
	coordinator->late_ms = now_ms - coordinator->woke_ms;
	if (gap_ms <= coordinator->settings->heartbeat_timeout_ms / 2)
		return;
	for (int i = 0; i < coordinator->connection_count; i++)
		coordinator->connections[i].received_ms += gap_ms;
	if (coordinator->failure_reporter >= 0 && coordinator->query_ms < now_ms)
		coordinator->query_ms = now_ms + RD_QUERY_MS;
}

static void tick_connection(struct rd_coordinator *coordinator,
	struct rd_coordinator_connection *connection, int64_t now_ms)
{
	char name[RD_RANK_NAME_SIZE], duration[RD_DURATION_SIZE];

	if (connection->rank < 0) {
		if (now_ms >= connection->opened_ms + RD_PENDING_MS)
			connection->dropped = true;
		return;
	}
	if (coordinator->ranks[connection->rank].left || coordinator->error)
		return;
	if (now_ms >= connection->heartbeat_ms) {
		connection->to_send |= rd_control_bit(RD_CONTROL_HEARTBEAT);
		connection->heartbeat_ms = now_ms + rd_heartbeat_ms(connection->timeout_ms);
	}
	if (now_ms <= connection->received_ms + coordinator->settings->heartbeat_timeout_ms)
		return;
	rd_coordinator_lose(coordinator, connection->rank);
	rd_coordinator_decide(coordinator, RONDO_TIMEOUT,
		"%s has not been heard of for %s: stopped or cut off",
		rd_coordinator_name_rank(coordinator, connection->rank, name),
		rd_duration(duration, coordinator->settings->heartbeat_timeout_ms));
}

void rd_coordinator_beat(struct rd_coordinator *coordinator, int connection)
{
	coordinator->connections[connection].to_send |= rd_control_bit(RD_CONTROL_HEARTBEAT);
}

static bool has_not_left(const struct rd_coordinator_rank *state)
{
	return !state->left;
}

static void tick_leave(struct rd_coordinator *coordinator)
{
	char name[RD_RANK_NAME_SIZE], ranks[RD_RANK_NAME_SIZE], duration[RD_DURATION_SIZE];

	rd_coordinator_name_ranks(coordinator, has_not_left, ranks, sizeof(ranks));
	rd_coordinator_decide(coordinator, RONDO_TIMEOUT, "%s not left %s after %s has", ranks,
		rd_duration(duration, coordinator->settings->timeout_ms),
		rd_coordinator_name_rank(coordinator, 0, name));
}

void rd_coordinator_tick(struct rd_coordinator *coordinator, int64_t now_ms)
{
	discount_gap(coordinator, now_ms);
	for (int i = 0; i < coordinator->connection_count; i++)
		if (coordinator->connections[i].open)
			tick_connection(coordinator, &coordinator->connections[i], now_ms);
	if (coordinator->error)
		return;
	if (coordinator->ended >= 0 && now_ms >= coordinator->ended_ms)
		decide_died(coordinator, coordinator->ended, "");
	else if (coordinator->phase != RD_COORDINATOR_RUNNING && now_ms >= coordinator->init_ms)
		rd_diagnose_give_up(coordinator);
	else if (coordinator->cut_off >= 0 && now_ms >= coordinator->cut_off_ms)
		decide_cut_off(coordinator);
	else if (coordinator->failure_reporter >= 0 && now_ms >= coordinator->query_ms)
		rd_diagnose_judge(coordinator);
	else if (coordinator->slow_rank >= 0 && now_ms >= coordinator->query_ms)
		rd_slow_call_judge(coordinator, now_ms);
	else if (coordinator->leaver_count < coordinator->size && now_ms >= coordinator->leave_ms)
		tick_leave(coordinator);
}

static int64_t connection_deadline(const struct rd_coordinator *coordinator,
	const struct rd_coordinator_connection *connection)
{
	if (!connection->open || connection->dropped)
		return RD_NEVER;
	if (connection->rank < 0)
		return connection->opened_ms + RD_PENDING_MS;
	if (coordinator->error || coordinator->ranks[connection->rank].left)
		return RD_NEVER;
	return rd_sooner(connection->heartbeat_ms,
		connection->received_ms + coordinator->settings->heartbeat_timeout_ms + 1);
}

int64_t rd_coordinator_deadline(const struct rd_coordinator *coordinator)
{
	int64_t deadline = RD_NEVER;

	for (int i = 0; i < coordinator->connection_count; i++)
		deadline = rd_sooner(
			deadline, connection_deadline(coordinator, &coordinator->connections[i]));
	if (coordinator->error)
		return deadline;
	if (coordinator->ended >= 0)
		deadline = rd_sooner(deadline, coordinator->ended_ms);
	/* Often enough to find a gap in which this process itself was stopped. */
	deadline = rd_sooner(deadline,
		coordinator->ticked_ms +
			rd_heartbeat_ms((uint32_t)coordinator->settings->heartbeat_timeout_ms));
	if (coordinator->phase != RD_COORDINATOR_RUNNING)
		deadline = rd_sooner(deadline, coordinator->init_ms);
	if (coordinator->failure_reporter >= 0 || coordinator->slow_rank >= 0)
		deadline = rd_sooner(deadline, coordinator->query_ms);
	if (coordinator->cut_off >= 0)
		deadline = rd_sooner(deadline, coordinator->cut_off_ms);
	if (coordinator->leaver_count < coordinator->size)
		deadline = rd_sooner(deadline, coordinator->leave_ms);
	return deadline;
}
