#include "bootstrap/coordinator/coordinator.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "topo/place.h"

/* ---- State --------------------------------------------------------------------------------- */

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

/* Once all ranks have joined, a new connection is a stray, or early for the next comm at this
   address: refused, it retries. After a failure to meet, the coordinator still sends the reason. */
bool rd_coordinator_listening(const struct rd_coordinator *coordinator)
{
	return coordinator->phase == RD_COORDINATOR_JOINING && !coordinator->closed;
}

/* ---- Connections that end ------------------------------------------------------------------ */

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

static void decide_gone(struct rd_coordinator *coordinator)
{
	char name[RD_RANK_NAME_SIZE];

	if (coordinator->gone_died) {
		decide_died(coordinator, coordinator->gone, "");
		return;
	}
	rd_coordinator_lose(coordinator, coordinator->gone);
	rd_coordinator_decide(coordinator, RONDO_BROKEN,
		"%s is cut off: the network reset the connection to it",
		rd_coordinator_name_rank(coordinator, coordinator->gone, name));
}

/* The kernel of a rank that has died resets the connection, too, where bytes had come that the rank
   had not read. While ranks meet, the parent's verdict may have ended the group there, and is about
   to end it here. A death goes before a reset. */
static void take_end(struct rd_coordinator *coordinator, int rank, bool died, int64_t now_ms)
{
	if (coordinator->gone < 0 || (died && !coordinator->gone_died)) {
		coordinator->gone = rank;
		coordinator->gone_died = died;
		coordinator->gone_ms = now_ms + RD_QUERY_MS;
	}
	if (coordinator->phase == RD_COORDINATOR_RUNNING &&
		!is_watched(coordinator, coordinator->gone))
		decide_gone(coordinator);
}

void rd_coordinator_closed(struct rd_coordinator *coordinator, int index, int error, int64_t now_ms)
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
	/* With the verdict, all others hang up. */
	if (coordinator->ranks[rank].left || coordinator->error)
		return;
	rd_coordinator_name_rank(coordinator, rank, name);
	if (rd_means_reset(error) ||
		(rd_means_death(error) && coordinator->phase == RD_COORDINATOR_RUNNING)) {
		take_end(coordinator, rank, rd_means_death(error), now_ms);
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

/* The rank has given rank 0 up, which was stopped or cut off, and hangs up. It lives. */
static void take_verdict(
	struct rd_coordinator *coordinator, int rank, const struct rd_control_message *message)
{
	char name[RD_RANK_NAME_SIZE];

	rd_coordinator_lose(coordinator, rank);
	rd_coordinator_decide(coordinator, RONDO_TIMEOUT, "%s hung up: %s",
		rd_coordinator_name_rank(coordinator, rank, name), message->verdict.reason);
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
	case RD_CONTROL_VERDICT:
		take_verdict(coordinator, connection->rank, message);
		return;
	case RD_CONTROL_BYE:
		if (coordinator->phase == RD_COORDINATOR_JOINING)
			break;
		rd_join_bye(coordinator, connection, message);
		return;
	default:
		break;
	}
	rd_coordinator_bad_message(coordinator, index, now_ms);
}

/* ---- Sending ------------------------------------------------------------------------------- */

static void write_table(struct rd_coordinator *coordinator,
	struct rd_coordinator_connection *connection, struct rd_control_message *message)
{
	message->kind = RD_CONTROL_TABLE;
	message->table.id = coordinator->id;
	message->table.part = coordinator->table[connection->parts_sent++];
	if (connection->parts_sent < coordinator->part_count || --coordinator->tables_due > 0)
		return;
	free(coordinator->table);
	coordinator->table = NULL;
}

static void write_left(
	const struct rd_coordinator *coordinator, int leaver, struct rd_control_message *message)
{
	message->kind = RD_CONTROL_LEFT;
	message->left.rank = leaver;
	message->left.calls = coordinator->ranks[leaver].calls;
	message->left.leavers = (uint32_t)coordinator->leaver_count;
}

/* The next link failure of which this rank is one end, if there is one. */
static bool write_fallbacks(const struct rd_coordinator *coordinator,
	struct rd_coordinator_connection *connection, struct rd_control_message *message)
{
	while (connection->fallbacks_sent < coordinator->fallbacks.count) {
		const struct rd_link_failure *link_failure =
			&coordinator->fallbacks.at[connection->fallbacks_sent++];

		if (link_failure->low != connection->rank && link_failure->high != connection->rank)
			continue;
		message->kind = RD_CONTROL_LINK_FAILED;
		message->link_failed = *link_failure;
		return true;
	}
	return false;
}

/* The ranks that have opened links to this one since the last message. */
static bool write_opened(const struct rd_coordinator *coordinator,
	struct rd_coordinator_connection *connection, struct rd_control_message *message)
{
	const struct rd_rank_list *opened = &coordinator->ranks[connection->rank].opened;
	int count = 0;

	while (count < RD_OPEN_MOST && connection->opened_sent < opened->count)
		message->open.ranks[count++] = opened->at[connection->opened_sent++];
	message->kind = RD_CONTROL_OPEN;
	message->open.count = count;
	return count > 0;
}

/* The next late ranks, from the lowest that this connection has not been sent. */
static bool write_stragglers(const struct rd_coordinator *coordinator,
	struct rd_coordinator_connection *connection, struct rd_control_message *message)
{
	int rank = connection->late_sent, first;

	while (rank < coordinator->size && !coordinator->ranks[rank].late)
		rank++;
	first = rank;
	message->kind = RD_CONTROL_STRAGGLERS;
	message->stragglers.first = (uint32_t)first;
	message->stragglers.size = 0;
	memset(message->stragglers.bits, 0, sizeof(message->stragglers.bits));
	for (; rank < coordinator->size && rank - first < 8 * RD_STRAGGLERS_SIZE; rank++) {
		if (!coordinator->ranks[rank].late)
			continue;
		message->stragglers.bits[(rank - first) / 8] |=
			(unsigned char)(1 << (rank - first) % 8);
		message->stragglers.size = (uint16_t)((rank - first) / 8 + 1);
	}
	connection->late_sent = rank;
	return message->stragglers.size > 0;
}

static bool write_verdict(const struct rd_coordinator *coordinator,
	struct rd_coordinator_connection *connection, struct rd_control_message *message)
{
	if (!rd_control_take_bit(&connection->to_send, RD_CONTROL_VERDICT))
		return false;
	message->kind = RD_CONTROL_VERDICT;
	message->verdict.error = coordinator->error;
	message->verdict.lost = coordinator->lost;
	message->verdict.spared = coordinator->spared;
	snprintf(message->verdict.reason, sizeof(message->verdict.reason), "%s",
		rd_reason_text(coordinator->reason));
	return true;
}

bool rd_coordinator_next(
	struct rd_coordinator *coordinator, int index, struct rd_control_message *message)
{
	struct rd_coordinator_connection *connection = &coordinator->connections[index];

	if (!connection->open || connection->dropped)
		return false;
	if (connection->rank >= 0 && coordinator->ranks[connection->rank].left) {
		write_left(coordinator, connection->rank, message);
		return rd_control_take_bit(&connection->to_send, RD_CONTROL_LEFT);
	}
	if (coordinator->error)
		return (connection->rank >= 0 &&
			       write_stragglers(coordinator, connection, message)) ||
		       write_verdict(coordinator, connection, message);
	if (connection->rank < 0)
		return false;
	if (rd_control_take_bit(&connection->to_send, RD_CONTROL_HEARTBEAT)) {
		message->kind = RD_CONTROL_HEARTBEAT;
		message->heartbeat.timeout_ms =
			(uint32_t)coordinator->settings->heartbeat_timeout_ms;
	} else if (connection->parts_sent < coordinator->part_count) {
		write_table(coordinator, connection, message);
	} else if (rd_control_take_bit(&connection->to_send, RD_CONTROL_READY)) {
		message->kind = RD_CONTROL_READY;
		message->ready.fallbacks = 0;
		message->ready.limits = rd_links_limits(coordinator);
	} else if (rd_control_take_bit(&connection->to_send, RD_CONTROL_COSTS)) {
		rd_control_write_costs(message, coordinator->costs);
	} else if (coordinator->phase != RD_COORDINATOR_JOINING &&
		   write_fallbacks(coordinator, connection, message)) {
		return true;
	} else if (write_opened(coordinator, connection, message)) {
		return true;
	} else if (rd_control_take_bit(&connection->to_send, RD_CONTROL_LEFT)) {
		write_left(coordinator, coordinator->ranks[0].left ? 0 : coordinator->first_leaver,
			message);
	} else if (rd_control_take_bit(&connection->to_send, RD_CONTROL_QUERY)) {
		message->kind = RD_CONTROL_QUERY;
		message->query.number = coordinator->query;
	} else {
		return false;
	}
	return true;
}

/* ---- Time ---------------------------------------------------------------------------------- */

/* Where this process itself was stopped for a while, no rank was silent. */
static void discount_gap(struct rd_coordinator *coordinator, int64_t now_ms)
{
	int64_t gap_ms = now_ms - coordinator->ticked_ms;

	coordinator->ticked_ms = now_ms;
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
	if (coordinator->gone >= 0 && now_ms >= coordinator->gone_ms)
		decide_gone(coordinator);
	else if (coordinator->phase != RD_COORDINATOR_RUNNING && now_ms >= coordinator->init_ms)
		rd_diagnose_give_up(coordinator);
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
	if (coordinator->gone >= 0)
		deadline = rd_sooner(deadline, coordinator->gone_ms);
	/* Often enough to find a gap in which this process itself was stopped. */
	deadline = rd_sooner(deadline,
		coordinator->ticked_ms +
			rd_heartbeat_ms((uint32_t)coordinator->settings->heartbeat_timeout_ms));
	if (coordinator->phase != RD_COORDINATOR_RUNNING)
		deadline = rd_sooner(deadline, coordinator->init_ms);
	if (coordinator->failure_reporter >= 0 || coordinator->slow_rank >= 0)
		deadline = rd_sooner(deadline, coordinator->query_ms);
	if (coordinator->leaver_count < coordinator->size)
		deadline = rd_sooner(deadline, coordinator->leave_ms);
	return deadline;
}
