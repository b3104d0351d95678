#include "comm/cores.h"

#include "topo/place.h"

static const struct rd_place *place_at(const struct rd_member *members, const int *ranks, int i)
{
	return &members[ranks ? ranks[i] : i].place;
}

/* Whether an earlier rank of this host begins at the same core. */
static bool is_counted(
	const struct rd_member *members, const int *ranks, int index, const struct rd_place *here)
{
	int32_t core = place_at(members, ranks, index)->core;

	for (int i = 0; i < index; i++)
		if (place_at(members, ranks, i)->core == core &&
			rd_place_same_host(place_at(members, ranks, i), here))
			return true;
	return false;
}

/* Ranks may be bound to more cores than this one may use. */
struct rd_sharing rd_cores_count(struct rd_processors processors, const struct rd_member *members,
	const int *ranks, int count, const struct rd_place *here)
{
	struct rd_sharing sharing = { 0 };
	int bound = 0;

	for (int i = 0; i < count; i++) {
		if (!rd_place_same_host(place_at(members, ranks, i), here))
			continue;
		sharing.ranks++;
		bound += !is_counted(members, ranks, i, here);
	}
	sharing.cores = rd_processors_of_ranks(processors, sharing.ranks);
	if (bound > sharing.cores)
		sharing.cores = bound;
	return sharing;
}
