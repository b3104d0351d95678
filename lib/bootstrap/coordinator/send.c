/* Which message the coordinator sends next over a connection. */
#include "bootstrap/coordinator/coordinator.h"

#include <stdlib.h>
#include <string.h>

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
