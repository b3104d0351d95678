#include "bootstrap/coordinator/links.h"

#include <stdlib.h>

#include "bootstrap/coordinator/verdict.h"

static void send_round(struct rd_coordinator *coordinator, struct rd_coordinator_rank *state)
{
	state->fallbacks++;
	if (!state->ready)
		return;
	state->ready = false;
	coordinator->ready--;
	/* It does not try a second time in one round: the round would never end. */
	coordinator->tried += state->tried;
}

bool rd_links_failed(
	struct rd_coordinator *coordinator, int rank, const struct rd_link_failure *link_failure)
{
	uint32_t most = (uint32_t)coordinator->size * RD_TRANSPORTS_MAX;

	if (coordinator->phase != RD_COORDINATOR_OPENING || coordinator->ranks[rank].ready ||
		link_failure->by != rank || link_failure->high >= coordinator->size ||
		coordinator->ranks[rank].fallbacks >= most)
		return false;
	if (rd_link_failures_have(&coordinator->fallbacks, link_failure))
		return true;
	if (!rd_link_failures_add(&coordinator->fallbacks, link_failure)) {
		rd_coordinator_decide(
			coordinator, RONDO_MEMORY, "rank 0 has no memory for a link failure");
		return true;
	}
	send_round(coordinator, &coordinator->ranks[link_failure->low]);
	send_round(coordinator, &coordinator->ranks[link_failure->high]);
	return true;
}

/* Begins another round where all ranks have tried their links in this one, or are ready. */
static void end_round(struct rd_coordinator *coordinator)
{
	if (coordinator->tried == 0 || coordinator->tried + coordinator->ready < coordinator->size)
		return;
	for (int rank = 0; rank < coordinator->size; rank++)
		coordinator->ranks[rank].tried = false;
	coordinator->tried = 0;
	rd_coordinator_send_to_all(coordinator, RD_CONTROL_TRIED);
}

void rd_links_tried(struct rd_coordinator *coordinator, struct rd_coordinator_rank *state)
{
	coordinator->tried += !state->tried;
	state->tried = true;
	end_round(coordinator);
}

void rd_links_ready(struct rd_coordinator *coordinator, struct rd_coordinator_rank *state,
	const struct rd_control_message *message)
{
	/* Sent before this rank received the latest fallback: another READY will come. */
	if (message->ready.fallbacks != state->fallbacks)
		return;
	state->limits = message->ready.limits;
	state->ready = true;
	coordinator->tried -= state->tried;
	if (++coordinator->ready < coordinator->size) {
		end_round(coordinator);
		return;
	}
	coordinator->phase = RD_COORDINATOR_RUNNING;
	free(coordinator->table.parts);
	coordinator->table = (struct rd_table_writer){ .parts = NULL };
	rd_coordinator_send_to_all(coordinator, RD_CONTROL_READY);
}

struct rd_link_limits rd_links_limits(const struct rd_coordinator *coordinator)
{
	struct rd_link_limits least = { UINT64_MAX, true, RD_NO_RAILS, RD_NO_RAILS };

	for (int rank = 0; rank < coordinator->size; rank++) {
		const struct rd_link_limits *limits = &coordinator->ranks[rank].limits;

		if (limits->piece_size < least.piece_size)
			least.piece_size = limits->piece_size;
		least.maps &= limits->maps;
		if (limits->near_rails < least.near_rails)
			least.near_rails = limits->near_rails;
		if (limits->far_rails < least.far_rails)
			least.far_rails = limits->far_rails;
	}
	return least;
}
