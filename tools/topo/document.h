/* A topology as JSON. Its member "derived" holds matrices and paths; --load skips it. */
#ifndef TOPO_DOCUMENT_H
#define TOPO_DOCUMENT_H

#include "paths.h"

/* paths may be NULL. */
void topo_document_write(
	const struct rd_topology *topology, const struct topo_paths *paths, FILE *out);

#endif
