/* The list of emulated GPUs: N alike, or those of a host in a topology file. */
#include <stdlib.h>
#include <string.h>

#include "gpus.h"
#include "base/error.h"
#include "topo/topology.h"
#include "topo/topology_file.h"

static int gpu_count;
static bool has_handles = true;
/* The machine in the file, if there is one. */
static bool loaded;
static uint32_t addresses[RD_GPU_MAX];
static bool reached[RD_GPU_MAX][RD_GPU_MAX];

void rd_emulated_set(int count, bool handles)
{
	gpu_count = count;
	has_handles = handles;
	loaded = false;
}

/* The host of this name, or the only one. */
static const struct rd_host *find_host(const struct rd_topology *topology, const char *name)
{
	for (int i = 0; name && i < topology->host_count; i++)
		if (!strcmp(topology->hosts[i].name, name))
			return &topology->hosts[i];
	return topology->host_count == 1 ? topology->hosts : NULL;
}

/* GPUs reach each other over NVLink, and by PCI where the path leaves no host bridge. */
static void take_gpus(const struct rd_host *host)
{
	rd_emulated_set(host->gpu_count, true);
	loaded = true;
	for (int a = 0; a < host->gpu_count; a++) {
		addresses[a] = host->gpus[a].device.path.address;
		for (int b = 0; b < host->gpu_count; b++)
			reached[a][b] = rd_gpu_distance(host, a, b, NULL) < RD_NODE;
	}
}

int rd_emulated_load(const char *path)
{
	struct rd_topology topology;
	const struct rd_host *host;
	int err = rd_topology_load(&topology, path);

	if (err)
		return rd_fail(err, "RONDO_DEVICE: %s", rondo_last_error());
	host = find_host(&topology, getenv("RONDO_HOST"));
	if (!host)
		err = rd_fail(RONDO_SETTING,
			"RONDO_DEVICE: %s has %d hosts: name one of them by RONDO_HOST", path,
			topology.host_count);
	else if (host->gpu_count == 0)
		err = rd_fail(
			RONDO_SETTING, "RONDO_DEVICE: host %s in %s has no GPU", host->name, path);
	else
		take_gpus(host);
	rd_topology_finish(&topology);
	return err;
}

int rd_emulated_count(void)
{
	return gpu_count;
}

int rd_emulated_check_device(int device)
{
	if (device >= 0 && device < rd_emulated_count())
		return 0;
	return rd_fail(RONDO_INVALID, "there is no device %d: this process sees %d (RONDO_DEVICE)",
		device, rd_emulated_count());
}

bool rd_emulated_has_handles(void)
{
	return has_handles;
}

/* Bus 0xe0 upwards: no machine's own. */
uint32_t rd_emulated_pci(int device)
{
	return loaded ? addresses[device] : (uint32_t)(0xe0 + device) << 8;
}

int rd_emulated_reach(int device, int other)
{
	bool there = device >= 0 && device < gpu_count && other >= 0 && other < gpu_count;

	if (!loaded || (there && reached[device][other]))
		return 0;
	return rd_fail(
		RONDO_UNSUPPORTED, "device %d cannot reach the memory of device %d", device, other);
}
