#include "topo/topology.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

int rd_topology_init(struct rd_topology *topology, int host_count)
{
	topology->hosts = calloc((size_t)host_count, sizeof(*topology->hosts));
	topology->host_count = topology->hosts ? host_count : 0;
	if (!topology->hosts)
		return rd_fail(RONDO_MEMORY, "no memory for a topology of %d hosts", host_count);
	return 0;
}

void rd_topology_finish(struct rd_topology *topology)
{
	free(topology->hosts);
	*topology = (struct rd_topology){ 0 };
}

/* ---- Distances ---- */

const char *rd_distance_text(char text[16], enum rd_distance distance, int nvlinks)
{
	static const char *const texts[] = {
#define DISTANCE_TEXT(name, text, meaning) text,
		RD_DISTANCES(DISTANCE_TEXT)
#undef DISTANCE_TEXT
	};

	if (distance == RD_NVLINK)
		snprintf(text, 16, "NV%d", nvlinks);
	else
		snprintf(text, 16, "%s", texts[distance]);
	return text;
}

const struct rd_numa *rd_host_numa(const struct rd_host *host, int number)
{
	for (int i = 0; i < host->numa_count; i++)
		if (host->numa[i].number == number)
			return &host->numa[i];
	return NULL;
}

/* On a host of one NUMA node, every device is at it, though the kernel often reports -1. */
static int numa_of(const struct rd_host *host, int numa)
{
	return numa < 0 && host->numa_count == 1 ? host->numa[0].number : numa;
}

static enum rd_distance numa_distance(const struct rd_host *host, int a, int b)
{
	a = numa_of(host, a);
	return a >= 0 && a == numa_of(host, b) ? RD_NODE : RD_SYS;
}

/*
 * Returns whether the paths are functions of one device, or two names of one function (a RoCE
 * device and its interface).
 */
static bool same_slot(const struct rd_pci_path *a, const struct rd_pci_path *b)
{
	return a->known && b->known && a->address >> 3 == b->address >> 3;
}

enum rd_distance rd_device_distance(
	const struct rd_host *host, const struct rd_device *a, const struct rd_device *b)
{
	if (a == b)
		return RD_SAME;
	if (same_slot(&a->path, &b->path))
		return RD_PIX;
	if (!rd_pci_same_root(&a->path, &b->path))
		return numa_distance(host, a->numa, b->numa);
	int bridges = rd_pci_bridges_between(&a->path, &b->path);
	return bridges == 0 ? RD_PHB : bridges == 1 ? RD_PIX : RD_PXB;
}

static int links_between(const struct rd_host_gpu *a, const struct rd_host_gpu *b, int index_of_b)
{
	int over_switch =
		a->nvswitch_links < b->nvswitch_links ? a->nvswitch_links : b->nvswitch_links;

	return a->nvlinks[index_of_b] + over_switch;
}

enum rd_distance rd_gpu_distance(const struct rd_host *host, int a, int b, int *nvlinks)
{
	int links = a == b ? 0 : links_between(&host->gpus[a], &host->gpus[b], b);

	if (nvlinks)
		*nvlinks = links;
	return links ? RD_NVLINK
		     : rd_device_distance(host, &host->gpus[a].device, &host->gpus[b].device);
}

/* ---- The order of the GPUs ---- */

/* Most GPUs of which the shortest tour is computed; more go by PCI address. */
#define EXACT_MAX 10

/*
 * A step of one class costs more than any tour of steps in nearer classes. More NVLinks cost less.
 */
static int step_cost(const struct rd_host *host, int a, int b)
{
	static const int costs[RD_DISTANCE_COUNT] = {
		[RD_PIX] = 40, [RD_PXB] = 80, [RD_PHB] = 160, [RD_NODE] = 400, [RD_SYS] = 4000
	};
	int links;
	enum rd_distance distance = rd_gpu_distance(host, a, b, &links);

	return distance == RD_NVLINK ? 32 - (links < 31 ? links : 31) : costs[distance];
}

/*
 * least[set][last]: least cost of a path from `last` through all GPUs outside the set, and back to
 * GPU 0. Held and Karp's recursion.
 */
struct tours {
	int count;
	int cost[EXACT_MAX][EXACT_MAX];
	int least[1 << EXACT_MAX][EXACT_MAX];
};

static int best_next(const struct tours *tours, int set, int last, int *cost)
{
	int best = 0;

	*cost = tours->cost[last][0];
	for (int next = 1, found = 0; next < tours->count; next++) {
		if (set >> next & 1)
			continue;
		int total = tours->cost[last][next] + tours->least[set | 1 << next][next];
		if (!found || total < *cost) {
			*cost = total;
			best = next;
		}
		found = 1;
	}
	return best;
}

static void fill_tours(struct tours *tours, const struct rd_host *host)
{
	tours->count = host->gpu_count;
	for (int a = 0; a < tours->count; a++)
		for (int b = 0; b < tours->count; b++)
			tours->cost[a][b] = step_cost(host, a, b);
	for (int set = (1 << tours->count) - 1; set > 0; set--)
		for (int last = 0; last < tours->count; last++)
			best_next(tours, set, last, &tours->least[set][last]);
}

/* Cuts the tour at its longest step, or at its end if that is as good. */
static void cut_tour(int *order, const int *tour, const struct tours *tours)
{
	int count = tours->count, start = 0;
	int longest = tours->cost[tour[count - 1]][tour[0]];

	for (int i = 1; i < count; i++) {
		if (tours->cost[tour[i - 1]][tour[i]] > longest) {
			longest = tours->cost[tour[i - 1]][tour[i]];
			start = i;
		}
	}
	for (int i = 0; i < count; i++)
		order[i] = tour[(start + i) % count];
}

static int order_gpus_exactly(struct rd_host *host)
{
	struct tours *tours = malloc(sizeof(*tours));
	int tour[EXACT_MAX] = { 0 };

	if (!tours)
		return rd_fail(RONDO_MEMORY, "no memory to order %d GPUs", host->gpu_count);
	fill_tours(tours, host);
	for (int i = 1, set = 1, cost; i < host->gpu_count; i++) {
		tour[i] = best_next(tours, set, tour[i - 1], &cost);
		set |= 1 << tour[i];
	}
	cut_tour(host->gpu_order, tour, tours);
	free(tours);
	return 0;
}

/* The kernel numbers buses in a walk through the tree, so neighbours by number are near. */
static int order_gpus(struct rd_host *host)
{
	if (host->gpu_count > 0 && host->gpu_count <= EXACT_MAX)
		return order_gpus_exactly(host);
	for (int i = 0; i < host->gpu_count; i++)
		host->gpu_order[i] = i;
	return 0;
}

/* ---- NICs ---- */

static const struct rd_rdma *as_rdma(const struct rd_host *host, const struct rd_device *nic)
{
	for (int i = 0; i < host->rdma_count; i++)
		if (&host->rdma[i].device == nic)
			return &host->rdma[i];
	return NULL;
}

static const struct rd_host_interface *as_interface(
	const struct rd_host *host, const struct rd_device *nic)
{
	for (int i = 0; i < host->interface_count; i++)
		if (&host->interfaces[i].device == nic)
			return &host->interfaces[i];
	return NULL;
}

bool rd_nic_up(const struct rd_host *host, const struct rd_device *nic)
{
	const struct rd_rdma *rdma = as_rdma(host, nic);

	if (!rdma)
		return as_interface(host, nic)->up;
	for (int i = 0; i < rdma->port_count; i++)
		if (rdma->ports[i].active)
			return true;
	return false;
}

int rd_nic_speed_mbps(const struct rd_host *host, const struct rd_device *nic)
{
	const struct rd_rdma *rdma = as_rdma(host, nic);
	int fastest = 0;

	if (!rdma)
		return as_interface(host, nic)->speed_mbps;
	for (int i = 0; i < rdma->port_count; i++)
		if (rdma->ports[i].speed_mbps > fastest)
			fastest = rdma->ports[i].speed_mbps;
	return fastest;
}

static bool is_face_of_rdma(const struct rd_host *host, const struct rd_device *device)
{
	for (int i = 0; i < host->rdma_count; i++)
		if (device->path.known && host->rdma[i].device.path.known &&
			host->rdma[i].device.path.address == device->path.address)
			return true;
	return false;
}

static void find_nics(struct rd_host *host)
{
	host->nic_count = 0;
	for (int i = 0; i < host->rdma_count; i++)
		host->nics[host->nic_count++] = &host->rdma[i].device;
	for (int i = 0; i < host->interface_count; i++) {
		const struct rd_host_interface *interface = &host->interfaces[i];
		if (interface->hardware && !interface->loopback &&
			!is_face_of_rdma(host, &interface->device))
			host->nics[host->nic_count++] = &interface->device;
	}
}

/* Lower is better: usable first, then near, then fast. */
struct nic_merit {
	bool spare;
	enum rd_distance distance;
	int slowness;
};

static struct nic_merit merit_of(const struct rd_host *host, const struct rd_device *nic,
	const struct rd_device *device, int numa, int fastest)
{
	int speed = rd_nic_speed_mbps(host, nic);

	return (struct nic_merit){
		.spare = !rd_nic_up(host, nic) || speed < fastest / 2,
		.distance = device ? rd_device_distance(host, device, nic)
				   : numa_distance(host, numa, nic->numa),
		.slowness = -speed,
	};
}

static int compare_merits(const struct nic_merit *a, const struct nic_merit *b)
{
	if (a->spare != b->spare)
		return a->spare - b->spare;
	if (a->distance != b->distance)
		return a->distance < b->distance ? -1 : 1;
	return (a->slowness > b->slowness) - (a->slowness < b->slowness);
}

static int fastest_nic_mbps(const struct rd_host *host)
{
	int fastest = 0;

	for (int i = 0; i < host->nic_count; i++)
		if (rd_nic_up(host, host->nics[i]) &&
			rd_nic_speed_mbps(host, host->nics[i]) > fastest)
			fastest = rd_nic_speed_mbps(host, host->nics[i]);
	return fastest;
}

const struct rd_device *rd_host_nic(
	const struct rd_host *host, const struct rd_device *device, int numa, int turn)
{
	const struct rd_device *best[RD_NIC_MAX];
	struct nic_merit least = { 0 };
	int count = 0, fastest = fastest_nic_mbps(host);

	for (int i = 0; i < host->nic_count; i++) {
		struct nic_merit merit = merit_of(host, host->nics[i], device, numa, fastest);
		int order = count ? compare_merits(&merit, &least) : -1;
		if (order < 0) {
			least = merit;
			count = 0;
		}
		if (order <= 0)
			best[count++] = host->nics[i];
	}
	return count ? best[turn % count] : NULL;
}

/* ---- Contradictions ---- */

/* Returns each device of the host in turn; NULL past the last. */
static const struct rd_device *device_at(const struct rd_host *host, int index)
{
	if (index < host->gpu_count)
		return &host->gpus[index].device;
	index -= host->gpu_count;
	if (index < host->rdma_count)
		return &host->rdma[index].device;
	index -= host->rdma_count;
	return index < host->interface_count ? &host->interfaces[index].device : NULL;
}

static int check_numa(const struct rd_host *host)
{
	bool any = false;

	for (int i = 0; i < host->numa_count; i++) {
		const struct rd_numa *numa = &host->numa[i];
		for (int j = 0; j < i; j++) {
			if (host->numa[j].number == numa->number)
				return rd_fail(RONDO_INVALID, "host %s has NUMA node %d twice",
					host->name, numa->number);
			if (rd_cpus_meet(&host->numa[j].cpus, &numa->cpus))
				return rd_fail(RONDO_INVALID,
					"host %s has a CPU in both NUMA node %d and NUMA node %d",
					host->name, host->numa[j].number, numa->number);
		}
		if (!rd_cpus_within(&numa->cores, &numa->cpus))
			return rd_fail(RONDO_INVALID,
				"host %s: NUMA node %d has cores that are none of its CPUs",
				host->name, numa->number);
		any = any || rd_cpus_count(&numa->cpus);
	}
	return any ? 0 : rd_fail(RONDO_INVALID, "host %s has no CPU", host->name);
}

/* A bridge has one path to it: two devices below it have the same path above. */
static bool paths_agree(const struct rd_pci_path *a, const struct rd_pci_path *b)
{
	for (int i = 0; i < a->bridge_count; i++) {
		for (int j = 0; j < b->bridge_count; j++) {
			if (a->bridges[i] != b->bridges[j])
				continue;
			if (i != j || a->root != b->root ||
				(i > 0 && a->bridges[i - 1] != b->bridges[j - 1]))
				return false;
		}
	}
	return true;
}

static int check_pair(
	const struct rd_host *host, const struct rd_device *a, const struct rd_device *b)
{
	if (!strcmp(a->name, b->name))
		return rd_fail(
			RONDO_INVALID, "host %s has two devices named %s", host->name, a->name);
	if (a->path.known && b->path.known && !paths_agree(&a->path, &b->path))
		return rd_fail(RONDO_INVALID,
			"host %s: %s and %s disagree on the PCI bridges above one "
			"that both are below",
			host->name, a->name, b->name);
	return 0;
}

static int check_devices(const struct rd_host *host)
{
	const struct rd_device *a, *b;
	int err = 0;

	for (int i = 0; (a = device_at(host, i)); i++) {
		if (!a->name[0])
			return rd_fail(
				RONDO_INVALID, "host %s has a device without a name", host->name);
		if (a->numa != -1 && !rd_host_numa(host, a->numa))
			return rd_fail(RONDO_INVALID,
				"host %s: %s is at NUMA node %d, which the host does not have",
				host->name, a->name, a->numa);
		for (int j = 0; j < i && !err; j++) {
			b = device_at(host, j);
			err = check_pair(host, b, a);
		}
		if (err)
			return err;
	}
	return 0;
}

static int check_gpu_pair(const struct rd_host *host, int a, int b)
{
	const struct rd_host_gpu *first = &host->gpus[a], *second = &host->gpus[b];

	if (first->nvlinks[b] != second->nvlinks[a])
		return rd_fail(RONDO_INVALID,
			"host %s: GPU %d has %d NVLinks to GPU %d, which has %d back", host->name,
			a, first->nvlinks[b], b, second->nvlinks[a]);
	if (first->device.path.known && second->device.path.known &&
		first->device.path.address >= second->device.path.address)
		return rd_fail(RONDO_INVALID,
			"host %s: the GPUs %d and %d are not in the order of their PCI addresses",
			host->name, a, b);
	return 0;
}

static int check_gpus(const struct rd_host *host)
{
	int err = 0;

	for (int a = 0; a < host->gpu_count && !err; a++) {
		for (int b = a + 1; b < host->gpu_count && !err; b++)
			err = check_gpu_pair(host, a, b);
		if (!err && host->gpus[a].nvlinks[a])
			return rd_fail(RONDO_INVALID, "host %s: GPU %d has NVLinks to itself",
				host->name, a);
		for (int b = host->gpu_count; b < RD_GPU_MAX && !err; b++)
			if (host->gpus[a].nvlinks[b])
				return rd_fail(RONDO_INVALID,
					"host %s: GPU %d has NVLinks to GPU %d of %d", host->name,
					a, b, host->gpu_count);
	}
	return err;
}

static int compare_numa(const void *a, const void *b)
{
	const struct rd_numa *first = a, *second = b;

	if (first->package != second->package)
		return first->package < second->package ? -1 : 1;
	return (first->number > second->number) - (first->number < second->number);
}

int rd_host_settle(struct rd_host *host)
{
	int err;

	for (int i = 0; i < host->gpu_count; i++)
		snprintf(host->gpus[i].device.name, RD_NAME_SIZE, "gpu%d", i);
	for (int i = 0; i < host->numa_count; i++)
		if (!rd_cpus_count(&host->numa[i].cores))
			host->numa[i].cores = host->numa[i].cpus;
	qsort(host->numa, (size_t)host->numa_count, sizeof(host->numa[0]), compare_numa);
	err = check_numa(host);
	if (!err)
		err = check_devices(host);
	if (!err)
		err = check_gpus(host);
	if (err)
		return err;
	find_nics(host);
	return order_gpus(host);
}
