/* A topology of one host that a reader of another format made: as a file it is read as the same. */
#ifndef FUZZ_TOPOLOGY_AGAIN_H
#define FUZZ_TOPOLOGY_AGAIN_H

#include "fuzz.h"
#include "topo/topology_file.h"

static inline void fuzz_topology_again(const struct rd_topology *topology)
{
	struct rd_topology again;
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	FUZZ_CHECK(out);
	rd_topology_write(topology, out);
	fclose(out);
	FUZZ_CHECK(rd_topology_parse(&again, "again", text, size) == 0);
	FUZZ_CHECK(again.hosts[0].gpu_count == topology->hosts[0].gpu_count);
	FUZZ_CHECK(memcmp(again.hosts[0].numa, topology->hosts[0].numa,
			   sizeof(again.hosts[0].numa)) == 0);
	free(text);
	rd_topology_finish(&again);
}

#endif
