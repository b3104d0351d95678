/* Topology files of rondo-plan: a route of one that is accepted has the file's links alone. */
#include "fuzz.h"
#include "plan/network.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct network *network = calloc(1, sizeof(*network));

	FUZZ_CHECK(network);
	if (network_parse(network, "fuzz", (const char *)data, size) == 0)
		for (int pair = 1; pair < network->hosts; pair++) {
			int links[NETWORK_HOPS_MAX];
			int count = network->route(network, 0, pair, links);

			for (int i = 0; i < count; i++) {
				FUZZ_CHECK(links[i] >= 0 && links[i] < network->link_count);
				FUZZ_CHECK(network->links[links[i]].mbps > 0);
			}
		}
	network_destroy(network);
	return 0;
}
