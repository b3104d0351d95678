/* The files that rondo-topo reads with --from: texts of another program that describe a host. */
#ifndef TOPO_FROM_H
#define TOPO_FROM_H

#include "topo/topology.h"

/*
 * A topology of one host from a file, or with "-" from standard input: NCCL's XML (nccl.h), or the
 * text of `nvidia-smi topo -m` (smi.h). After an error there is nothing to finish.
 */
int topo_from_load(struct rd_topology *topology, const char *path);

#endif
