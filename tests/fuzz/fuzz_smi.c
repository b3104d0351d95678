/* Texts of `nvidia-smi topo -m`: the host of one that is accepted has the distances of the text. */
#include "fuzz.h"
#include "topo/smi.h"
#include "topo/topology_file.h"

static void check_written(const struct rd_topology *topology)
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rd_topology topology;
	char *text = malloc(size + 1);

	FUZZ_CHECK(text);
	memcpy(text, data, size);
	text[size] = '\0';
	if (topo_smi_parse(&topology, "fuzz", text, size) == 0) {
		check_written(&topology);
		rd_topology_finish(&topology);
	}
	free(text);
	return 0;
}
