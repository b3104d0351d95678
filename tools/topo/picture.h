/*
 * A picture of a topology, as SVG: each host with its NUMA nodes and cores, the tree of PCI down to
 * GPUs and NICs, NVLinks and the network between hosts; and under them, each in the column of its
 * rank, the ring and the trees of the ranks.
 */
#ifndef TOPO_PICTURE_H
#define TOPO_PICTURE_H

#include "paths.h"

/* paths may be NULL: then there are no ranks. Returns 0, or an error with its reason. */
int topo_picture_write(
	const struct rd_topology *topology, const struct topo_paths *paths, FILE *out);

#endif
