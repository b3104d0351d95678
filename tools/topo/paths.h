/* The places of N ranks on a topology, and their ring and trees, from their plans. */
#ifndef TOPO_PATHS_H
#define TOPO_PATHS_H

#include "topo/topology.h"

#define TOPO_TREES 2

struct topo_paths {
	int size;
	struct rd_place *places; /* [size] */
	int *host; /* [size]: index of the rank's host */
	int *ring; /* [size]: the next rank on the ring; a single rank is its own next */
	int *parents[TOPO_TREES]; /* [size]: the rank above, by tree; -1: the root */
};

/* Returns 0, or an error with its reason. */
int topo_paths_init(struct topo_paths *paths, const struct rd_topology *topology, int size);
void topo_paths_finish(struct topo_paths *paths);

/* The distance between two ranks: of their GPUs, else of their NUMA nodes. *nvlinks: # of NV#. */
enum rd_distance topo_paths_distance(const struct topo_paths *paths,
	const struct rd_topology *topology, int a, int b, int *nvlinks);

#endif
