/* NCCL's topologies as XML: the host of one that is accepted is written and read again. */
#include "topo/nccl.h"
#include "topology_again.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rd_topology topology;

	if (topo_nccl_parse(&topology, "fuzz", (const char *)data, size) == 0) {
		fuzz_topology_again(&topology);
		rd_topology_finish(&topology);
	}
	return 0;
}
