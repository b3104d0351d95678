/* Places: the devices near a rank, and its position in the host's order, from the hardware. */
#include <string.h>

#include "topo/topology.h"

static const struct rd_numa *numa_with(const struct rd_host *host, int cpu)
{
	for (int i = 0; i < host->numa_count; i++)
		if (rd_cpus_has(&host->numa[i].cpus, cpu))
			return &host->numa[i];
	return NULL;
}

/* Returns the number of CPUs before this one in the host's order: by package, NUMA node, number. */
static int slot_of_cpu(const struct rd_host *host, int cpu)
{
	int before = 0;

	for (int i = 0; i < host->numa_count; i++) {
		const struct rd_cpus *cpus = &host->numa[i].cpus;
		if (rd_cpus_has(cpus, cpu))
			return before + rd_cpus_before(cpus, cpu);
		before += rd_cpus_count(cpus);
	}
	return 0;
}

static int slot_of_gpu(const struct rd_host *host, int gpu)
{
	int slot = 0;

	while (slot < host->gpu_count - 1 && host->gpu_order[slot] != gpu)
		slot++;
	return slot;
}

static void set_nic(struct rd_place *place, const struct rd_device *nic)
{
	/* A cut name would match no device. */
	if (nic && strlen(nic->name) < RD_NIC_SIZE)
		memcpy(place->nic, nic->name, strlen(nic->name) + 1);
}

void rd_host_place(
	const struct rd_host *host, int local_rank, int gpu, int cpu, struct rd_place *place)
{
	const struct rd_device *device = gpu < 0 ? NULL : &host->gpus[gpu].device;
	const struct rd_numa *numa = numa_with(host, cpu);

	place->core = cpu;
	place->numa_node = device && device->numa >= 0 ? device->numa : numa ? numa->number : -1;
	place->gpu = gpu;
	place->gpu_pci = device && device->path.known ? device->path.address : 0;
	place->slot = device ? slot_of_gpu(host, gpu) : slot_of_cpu(host, cpu);
	set_nic(place, rd_host_nic(host, device, place->numa_node, device ? gpu : local_rank));
}

/* Returns the core at `index` in the host's order of all cores. */
static int core_at(const struct rd_host *host, int index)
{
	for (int i = 0; i < host->numa_count; i++) {
		int count = rd_cpus_count(&host->numa[i].cores);
		if (index < count)
			return rd_cpus_at(&host->numa[i].cores, index);
		index -= count;
	}
	return -1;
}

static int core_count(const struct rd_host *host)
{
	int count = 0;

	for (int i = 0; i < host->numa_count; i++)
		count += rd_cpus_count(&host->numa[i].cores);
	return count;
}

/* Returns the first core near the GPU; the first of the host, if the GPU's node is unknown. */
static int core_near(const struct rd_host *host, int gpu)
{
	const struct rd_numa *numa = rd_host_numa(host, host->gpus[gpu].device.numa);
	int core = numa ? rd_cpus_at(&numa->cores, 0) : -1;

	return core >= 0 ? core : core_at(host, 0);
}

static void place_local(
	const struct rd_host *host, int local_rank, int local_size, struct rd_place *place)
{
	int gpu = host->gpu_count ? local_rank % host->gpu_count : -1;
	int core = gpu >= 0 ? core_near(host, gpu)
			    : core_at(host,
				      (int)((int64_t)local_rank * core_count(host) / local_size));

	memset(place, 0, sizeof(*place));
	memcpy(place->host_name, host->name, RD_HOST_SIZE);
	memcpy(place->host_id, host->id, RD_HOST_SIZE);
	rd_host_place(host, local_rank, gpu, core, place);
}

void rd_topology_places(const struct rd_topology *topology, int size, struct rd_place *places)
{
	int rank = 0;

	for (int i = 0; i < topology->host_count; i++) {
		int local_size = size / topology->host_count + (i < size % topology->host_count);
		for (int local = 0; local < local_size; local++, rank++) {
			place_local(&topology->hosts[i], local, local_size, &places[rank]);
			places[rank].pid = rank + 1;
		}
	}
}
