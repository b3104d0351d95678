#include "bootstrap/coordinator/parts.h"

#include <stdarg.h>
#include <stdio.h>

#include "plan/collective.h"

#define NAMED_RANKS_MAX 6

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
