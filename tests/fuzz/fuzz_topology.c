/* Topology files: one that is accepted is written, and read again as the same. */
#include "fuzz.h"
#include "topo/topology_file.h"

static char *written(const struct rd_topology *topology, size_t *size)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, size);

	FUZZ_CHECK(out);
	rd_topology_write(topology, out);
	fclose(out);
	return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rd_topology topology, again;
	size_t first_size, second_size;

	if (rd_topology_parse(&topology, "fuzz", (const char *)data, size))
		return 0;
	char *first = written(&topology, &first_size);

	FUZZ_CHECK(rd_topology_parse(&again, "again", first, first_size) == 0);
	FUZZ_CHECK(again.host_count == topology.host_count);
	for (int i = 0; i < again.host_count; i++)
		FUZZ_CHECK(memcmp(again.hosts[i].numa, topology.hosts[i].numa,
				   sizeof(again.hosts[i].numa)) == 0);
	char *second = written(&again, &second_size);

	FUZZ_CHECK(first_size == second_size && memcmp(first, second, first_size) == 0);
	free(first);
	free(second);
	rd_topology_finish(&topology);
	rd_topology_finish(&again);
	return 0;
}
