/* A topology as JSON. Its member "derived" holds matrices and paths; --load skips it. */
#ifndef TOPO_DOCUMENT_H
#define TOPO_DOCUMENT_H

#include "paths.h"
#include "topo/topology.h"

/* paths may be NULL. */
void topo_document_write(
	const struct rd_topology *topology, const struct topo_paths *paths, FILE *out);

/* The files that rondo-topo reads with --from: texts of another program that describe a host. */

/*
 * A topology of one host from a file, or with "-" from standard input: NCCL's XML (nccl.h), or the
 * text of `nvidia-smi topo -m` (smi.h). After an error there is nothing to finish.
 */
int topo_from_load(struct rd_topology *topology, const char *path);

#endif
