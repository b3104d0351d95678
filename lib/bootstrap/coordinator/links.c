#include "bootstrap/coordinator/coordinator.h"

#include <stdlib.h>

/* ---- Fallbacks ----------------------------------------------------------------------------- */

static void add_fallback(struct rd_coordinator *coordinator, struct rd_coordinator_rank *state)
{
	state->fallbacks++;
	if (coordinator->phase != RD_COORDINATOR_OPENING || !state->ready)
		return;
	state->ready = false;
	coordinator->ready--;
}

static void store_fallback(
	struct rd_coordinator *coordinator, const struct rd_link_failure *link_failure)
{
	if (rd_link_failures_have(&coordinator->fallbacks, link_failure))
		return;
	if (!rd_link_failures_add(&coordinator->fallbacks, link_failure)) {
		rd_coordinator_decide(
			coordinator, RONDO_MEMORY, "rank 0 has no memory for a link failure");
		return;
	}
	add_fallback(coordinator, &coordinator->ranks[link_failure->low]);
	add_fallback(coordinator, &coordinator->ranks[link_failure->high]);
}

bool rd_links_failed(
	struct rd_coordinator *coordinator, int rank, const struct rd_link_failure *link_failure)
{
	uint32_t most = (uint32_t)coordinator->size * RD_TRANSPORTS_MAX;
	bool ready = coordinator->phase == RD_COORDINATOR_OPENING && coordinator->ranks[rank].ready;

	if (coordinator->phase == RD_COORDINATOR_JOINING || ready || link_failure->by != rank ||
		link_failure->high >= coordinator->size || link_failure->transport[0] == '\0' ||
		coordinator->ranks[rank].fallbacks >= most)
		return false;
	store_fallback(coordinator, link_failure);
	return true;
}

/* ---- Links that ranks open ------------------------------------------------------------------ */

/* A rank that had opened its end before ignores this. */
static void send_left(struct rd_coordinator *coordinator, int opener, int leaver)
{
	struct rd_link_failure left = {
		.low = opener < leaver ? opener : leaver,
		.high = opener < leaver ? leaver : opener,
		.by = leaver,
		.reason = "it has left",
	};

	store_fallback(coordinator, &left);
}

static bool open_one(struct rd_coordinator *coordinator, int rank, int listed)
{
	int to = rd_open_rank(listed), opener = rank | (listed & RD_OPEN_TAGGED);
	struct rd_coordinator_rank *other;

	if (to >= coordinator->size || to == rank)
		return false;
	other = &coordinator->ranks[to];
	for (int i = 0; i < other->opened.count; i++)
		if (other->opened.at[i] == opener)
			return false;
	if (other->left)
		send_left(coordinator, rank, to);
	else if (!rd_rank_list_add(&other->opened, opener))
		rd_coordinator_decide(
			coordinator, RONDO_MEMORY, "rank 0 has no memory for links that open");
	return true;
}

bool rd_links_open(
	struct rd_coordinator *coordinator, int rank, const struct rd_control_message *message)
{
	bool right = coordinator->phase == RD_COORDINATOR_RUNNING;

	for (int i = 0; i < message->open.count && right; i++)
		right = open_one(coordinator, rank, message->open.ranks[i]);
	return right;
}

void rd_links_left(struct rd_coordinator *coordinator, int leaver)
{
	const struct rd_rank_list *opened = &coordinator->ranks[leaver].opened;

	for (int i = 0; i < opened->count; i++) {
		int opener = rd_open_rank(opened->at[i]);

		if (!coordinator->ranks[opener].left)
			send_left(coordinator, opener, leaver);
	}
}

/* ---- Ready ---------------------------------------------------------------------------------- */

void rd_links_ready(struct rd_coordinator *coordinator, struct rd_coordinator_rank *state,
	const struct rd_control_message *message)
{
	/* Sent before this rank received the latest fallback: another READY will come. */
	if (message->ready.fallbacks != state->fallbacks)
		return;
	state->limits = message->ready.limits;
	state->ready = true;
	if (++coordinator->ready < coordinator->size)
		return;
	coordinator->phase = RD_COORDINATOR_RUNNING;
	rd_coordinator_send_to_all(coordinator, RD_CONTROL_READY);
}

struct rd_link_limits rd_links_limits(const struct rd_coordinator *coordinator)
{
	struct rd_link_limits least = { UINT64_MAX, true, RD_NO_RAILS, RD_NO_RAILS,
		coordinator->ranks[0].limits.cores };

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
