/* NCCL's topology as XML: a dump of NCCL_TOPO_DUMP_FILE, or a file for NCCL_TOPO_FILE. */
#ifndef TOPO_NCCL_H
#define TOPO_NCCL_H

#include <stddef.h>

#include "topo/topology.h"

/*
 * Makes a topology of one host. RONDO_INVALID, with FILE:LINE, for anything else; RONDO_UNSUPPORTED
 * without expat; RONDO_MEMORY. After an error there is nothing to finish.
 */
int topo_nccl_parse(struct rd_topology *topology, const char *file, const char *text, size_t size);

#endif
