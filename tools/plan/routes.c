#include "routes.h"

#include <stdlib.h>

#include "base/error.h"
#include "tuner/step_cost.h"

#define NOWHERE (-1 - INT32_MAX)

int routes_create(struct routes *routes, const struct network *network, uint64_t bytes)
{
	routes->links = calloc((size_t)network->link_count + 1, sizeof(*routes->links));
	if (!routes->links)
		return rd_fail(RONDO_MEMORY, "no memory for the links");
	for (int i = 0; i < network->link_count; i++)
		routes->links[i] = (struct route_link){
			.bytes_ps = network_bytes_ps(&network->links[i], bytes),
			.latency_ps = network->links[i].latency_ps,
			.from = NOWHERE,
			.first = -1,
		};
	return 0;
}

static bool make_room(struct routes *routes, int count)
{
	int room = 2 * (routes->hop_count + count);
	struct route_hop *hops;

	if (routes->hop_count + count <= routes->hop_room)
		return true;
	if (room > INT32_MAX / 4)
		return false;
	hops = realloc(routes->hops, (size_t)room * sizeof(*hops));
	if (!hops)
		return false;
	routes->hops = hops;
	routes->hop_room = room;
	return true;
}

int routes_add(struct routes *routes, const struct network *network, int rank, int from_host,
	int to_host, int *first)
{
	int links[NETWORK_HOPS_MAX], count = network->route(network, from_host, to_host, links);

	if (count == 0)
		return rd_fail(RONDO_INVALID, "the network has no route from host %d to host %d",
			from_host, to_host);
	if (!make_room(routes, count + 1))
		return rd_fail(RONDO_MEMORY, "no memory for the routes");
	*first = routes->hop_count;
	for (int i = 0, from = ~rank; i < count; i++) {
		struct route_link *link = &routes->links[links[i]];

		link->merges |= link->from != NOWHERE && link->from != from;
		link->from = from;
		from = links[i];
		routes->hops[routes->hop_count++] = (struct route_hop){ .link = links[i] };
	}
	routes->hops[routes->hop_count++] = (struct route_hop){ .link = -1 };
	return 0;
}

int64_t routes_finish(struct routes *routes, int first)
{
	int64_t least = INT64_MAX, since = INT64_MAX;

	for (struct route_hop *hop = &routes->hops[first]; hop->link >= 0; hop++) {
		const struct route_link *link = &routes->links[hop->link];

		hop->merges = link->merges;
		if (hop->merges) {
			least = rd_shorter(least, since);
			since = 0;
		}
		if (since < INT64_MAX)
			since += link->latency_ps;
	}
	return rd_shorter(least, since);
}

void routes_destroy(struct routes *routes)
{
	free(routes->links);
	free(routes->hops);
}
