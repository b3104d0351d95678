/* Topologies in JSON files (docs/rondo-topo.md). */
#ifndef RD_TOPOLOGY_FILE_H
#define RD_TOPOLOGY_FILE_H

#include <stddef.h>
#include <stdio.h>

#include "topo/topology.h"

/*
 * Loads a topology from a JSON file (docs/rondo-topo.md). RONDO_SYSTEM where the file cannot be
 * read. RONDO_INVALID where the text is no JSON, lacks a member or contradicts itself; the reason
 * names the file and the line. After an error there is nothing to finish.
 */
int rd_topology_load(struct rd_topology *topology, const char *path);
int rd_topology_parse(
	struct rd_topology *topology, const char *name, const char *text, size_t size);
void rd_topology_write(const struct rd_topology *topology, FILE *out);
/*
 * Writes the document except its end, so that the caller may add members. Loading skips one named
 * "derived".
 */
void rd_topology_write_open(const struct rd_topology *topology, FILE *out);

#endif
