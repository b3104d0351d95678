/* The places of ranks on the hardware of a topology. */
#ifndef RD_TOPOLOGY_PLACES_H
#define RD_TOPOLOGY_PLACES_H

#include "topo/topology.h"

/*
 * Sets the places of `size` ranks, spread over the hosts in blocks, as rondo-run does. If that does
 * not come out even, the first hosts have one more. On a host with GPUs, local rank l has GPU l
 * modulo their number. On other hosts ranks are spread over the cores.
 *
 * The slot decides orders: ranks of one host that follow each other by slot (then by rank) are near
 * each other.
 */
void rd_topology_places(const struct rd_topology *topology, int size, struct rd_place *places);

/*
 * Sets the fields of the hardware (core, numa_node, slot, gpu, gpu_pci, nic) for a rank on this
 * host. gpu: index, -1 for none; cpu: the first that it may run on, -1 for unknown.
 */
void rd_host_place(
	const struct rd_host *host, int local_rank, int gpu, int cpu, struct rd_place *place);

#endif
