/* A topology, and the paths of ranks on it, as text. */
#ifndef TOPO_MATRIX_H
#define TOPO_MATRIX_H

#include "paths.h"

/* Each host with its matrix, and the legend. */
void topo_matrix_write(const struct rd_topology *topology, FILE *out);
/* The ranks' places, their ring and their trees. */
void topo_ranks_write(
	const struct topo_paths *paths, const struct rd_topology *topology, FILE *out);

/* Devices of the matrix in its order: GPUs, then NICs; NULL past the last. "GPU0", "NIC2". */
const struct rd_device *topo_matrix_device(const struct rd_host *host, int index);
void topo_matrix_label(char label[16], const struct rd_host *host, int index);
/* Between two of them. */
enum rd_distance topo_matrix_distance(const struct rd_host *host, int a, int b, int *nvlinks);

#endif
