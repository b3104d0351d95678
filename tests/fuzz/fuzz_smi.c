/* Texts of `nvidia-smi topo -m`: the host of one that is accepted has the distances of the text. */
#include "topo/smi.h"
#include "topology_again.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rd_topology topology;
	char *text = malloc(size + 1);

	FUZZ_CHECK(text);
	memcpy(text, data, size);
	text[size] = '\0';
	if (topo_smi_parse(&topology, "fuzz", text, size) == 0) {
		fuzz_topology_again(&topology);
		rd_topology_finish(&topology);
	}
	free(text);
	return 0;
}
