/* A topology as JSON, whose member "derived" (matrices, paths) --load skips, and as a picture. */
#ifndef TOPO_DOCUMENT_H
#define TOPO_DOCUMENT_H

#include "paths.h"
#include "topo/topology.h"

/* paths may be NULL. */
void topo_document_write(
	const struct rd_topology *topology, const struct topo_paths *paths, FILE *out);

/*
 * picture.c: a picture of it, as SVG: each host with its NUMA nodes and cores, the tree of PCI down
 * to GPUs and NICs, NVLinks and the network between hosts; and under them, each in the column of
 * its rank, the ring and the trees of the ranks. paths may be NULL: then there are no ranks.
 * Returns 0, or an error with its reason.
 */
int topo_picture_write(
	const struct rd_topology *topology, const struct topo_paths *paths, FILE *out);

/* The files that rondo-topo reads with --from: texts of another program that describe a host. */

/*
 * A topology of one host from a file, or with "-" from standard input: NCCL's XML (nccl.h), or the
 * text of `nvidia-smi topo -m` (smi.h). After an error there is nothing to finish.
 */
int topo_from_load(struct rd_topology *topology, const char *path);

#endif
