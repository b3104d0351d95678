#include "gpus.h"

#include <stdlib.h>
#include <string.h>

#include "allocations.h"
#include "topo/topology.h"
#include "topo/topology_file.h"

static int gpu_count;
/* The machine in the file, if there is one. */
static bool loaded;
static uint32_t addresses[RD_GPU_MAX];
static bool reached[RD_GPU_MAX][RD_GPU_MAX];

/* The host of this name, or the only one. */
static const struct rd_host *find_host(const struct rd_topology *topology, const char *name)
{
	for (int i = 0; name && i < topology->host_count; i++)
		if (!strcmp(topology->hosts[i].name, name))
			return &topology->hosts[i];
	return topology->host_count == 1 ? topology->hosts : NULL;
}

static void take_gpus(const struct rd_host *host)
{
	gpu_count = host->gpu_count;
	loaded = true;
	for (int a = 0; a < host->gpu_count; a++) {
		addresses[a] = host->gpus[a].device.path.address;
		for (int b = 0; b < host->gpu_count; b++)
			reached[a][b] = rd_gpu_distance(host, a, b, NULL) < RD_NODE;
	}
}

static int load(const char *path)
{
	struct rd_topology topology;
	const struct rd_host *host;

	if (rd_topology_load(&topology, path))
		return 1;
	host = find_host(&topology, getenv("RONDO_HOST"));
	if (host)
		take_gpus(host);
	rd_topology_finish(&topology);
	return !host || gpu_count == 0;
}

int gpus_find(void)
{
	const char *text = getenv("EMULATED_GPUS");

	if (text && strstr(text, ".json"))
		return load(text);
	gpu_count = text ? atoi(text) : 2;
	if (text && strstr(text, ",no-handles"))
		allocations_give_handles(false);
	return gpu_count < 1 || gpu_count > RD_GPU_MAX;
}

int gpus_count(void)
{
	return gpu_count;
}

bool gpus_have(int device)
{
	return device >= 0 && device < gpu_count;
}

/* Bus 0xe0 upwards: no machine's own. */
uint32_t gpus_pci(int device)
{
	return loaded ? addresses[device] : (uint32_t)(0xe0 + device) << 8;
}

bool gpus_reach(int device, int other)
{
	return !loaded || (gpus_have(device) && gpus_have(other) && reached[device][other]);
}
