/* Where N ranks would be on a topology, and along which links they would talk: taken from their
 * plans. */
#ifndef TOPO_PATHS_H
#define TOPO_PATHS_H

#include "topo/topology.h"

#define TOPO_TREES 2

struct topo_paths {
	int size;
	struct rd_place *places; /* [size] */
	int *host; /* [size]: index of the rank's host */
	int *ring; /* [size]: the rank after this one on the ring; itself, where it is alone */
	int *parents[TOPO_TREES]; /* [size]: the rank above, by tree; -1: the root */
};

/* Returns 0, or an error with its reason. */
int topo_paths_init(struct topo_paths *paths, const struct rd_topology *topology, int size);
void topo_paths_finish(struct topo_paths *paths);

/* How far apart two ranks are. Without GPUs the nodes of memory decide; # of NV# goes to *nvlinks.
 */
enum rd_distance topo_paths_distance(const struct topo_paths *paths,
	const struct rd_topology *topology, int a, int b, int *nvlinks);

#endif
