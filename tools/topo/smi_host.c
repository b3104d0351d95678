/*
 * A host with the distances of a text. Devices within a distance of each other are a group, and
 * each group has a bridge, a root or a NUMA node of its own. A path has three bridges: that of its
 * group by PXB, that of its group by PIX, and one of the device's own. So the distances follow by
 * the rules for real paths (topo/pci.h).
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "matrix.h"
#include "smi.h"

enum { BY_PIX, BY_PXB, BY_PHB, BY_NODE, LEVELS };

struct groups {
	int of[LEVELS][SMI_DEVICES_MAX]; /* the lowest device of each one's group */
	int numa[SMI_DEVICES_MAX]; /* of the group by NODE that this device is the lowest of */
};

static void join(int *of, int count, int a, int b)
{
	int low = of[a] < of[b] ? of[a] : of[b], high = of[a] < of[b] ? of[b] : of[a];

	for (int i = 0; i < count; i++)
		if (of[i] == high)
			of[i] = low;
}

/* NVLinks hide the distance over PCIe; the NUMA nodes then decide. */
static bool belong_together(const struct smi *smi, int level, int a, int b)
{
	static const enum rd_distance most[LEVELS] = { RD_PIX, RD_PXB, RD_PHB, RD_NODE };
	enum rd_distance distance = smi->cells[a][b].distance;
	int numa = smi->devices[a].numa;

	if (distance >= RD_PIX && distance <= most[level])
		return true;
	return level == BY_NODE && numa == smi->devices[b].numa &&
	       (numa >= 0 || distance == RD_NVLINK);
}

static void make_groups(struct groups *groups, const struct smi *smi)
{
	for (int level = 0; level < LEVELS; level++) {
		int *of = groups->of[level];
		for (int i = 0; i < smi->count; i++)
			of[i] = i;
		for (int a = 0; a < smi->count; a++)
			for (int b = 0; b < a; b++)
				if (belong_together(smi, level, a, b))
					join(of, smi->count, a, b);
	}
}

/* ---- NUMA nodes ---- */

static int unused_number(const struct rd_host *host)
{
	int number = 0;

	for (int i = 0; i < host->numa_count; i++)
		if (host->numa[i].number >= number)
			number = host->numa[i].number + 1;
	return number;
}

static bool meets_another(const struct rd_host *host, const struct rd_cpus *cpus)
{
	for (int i = 0; i < host->numa_count; i++)
		if (rd_cpus_meet(&host->numa[i].cpus, cpus))
			return true;
	return false;
}

/* The node of the group whose lowest device is `low`. known: its number is in the text. */
static int add_node(struct rd_host *host, const struct smi *smi, const struct groups *groups,
	int low, int number, bool known)
{
	if (host->numa_count == RD_NUMA_MAX)
		return rd_fail(
			RONDO_INVALID, "%s: more than %d NUMA nodes", smi->file, RD_NUMA_MAX);
	struct rd_numa node = { .number = number };
	for (int i = low; i < smi->count; i++) {
		const struct rd_cpus *cpus = &smi->devices[i].cpus;
		if (groups->of[BY_NODE][i] != low || !rd_cpus_count(cpus))
			continue;
		if (!rd_cpus_count(&node.cpus) && (known || !meets_another(host, cpus)))
			node.cpus = *cpus;
		else if (known && memcmp(&node.cpus, cpus, sizeof(*cpus)))
			return rd_fail(RONDO_INVALID,
				"%s:%d: other CPUs than another device at NUMA node %d", smi->file,
				smi->devices[i].line, number);
	}
	host->numa[host->numa_count++] = node;
	return 0;
}

/* The number that the text has for a group; -1: none. */
static int known_number(const struct smi *smi, const struct groups *groups, int low, int *number)
{
	*number = -1;
	for (int i = low; i < smi->count; i++) {
		int numa = smi->devices[i].numa;
		if (groups->of[BY_NODE][i] != low || numa < 0)
			continue;
		if (*number >= 0 && numa != *number)
			return rd_fail(RONDO_INVALID,
				"%s:%d: NUMA node %d, but a device at NODE or nearer is at node %d",
				smi->file, smi->devices[i].line, numa, *number);
		*number = numa;
	}
	return 0;
}

/* Nodes with numbers first, so that the others get unused ones. */
static int make_nodes(struct rd_host *host, const struct smi *smi, struct groups *groups)
{
	int err = 0;

	for (int known = 1; known >= 0; known--) {
		for (int i = 0; !err && i < smi->count; i++) {
			int number;
			if (groups->of[BY_NODE][i] != i)
				continue;
			err = known_number(smi, groups, i, &number);
			if (err || (number >= 0) != known)
				continue;
			groups->numa[i] = known ? number : unused_number(host);
			err = add_node(host, smi, groups, i, groups->numa[i], known);
		}
	}
	return err;
}

/* A host has a CPU, though the text may have none. */
static void need_cpu(struct rd_host *host)
{
	for (int i = 0; i < host->numa_count; i++)
		if (rd_cpus_count(&host->numa[i].cpus))
			return;
	rd_cpus_add(&host->numa[0].cpus, 0);
}

/* ---- Devices ---- */

/* All bridges of a kind have a bus, on which the group's number is device and function. */
static uint32_t address(int bus, int number)
{
	return (uint32_t)bus << 8 | (uint32_t)number;
}

static void place(struct rd_device *device, const struct groups *groups, int i)
{
	device->numa = groups->numa[groups->of[BY_NODE][i]];
	device->path = (struct rd_pci_path){
		.known = true,
		.root = address(groups->of[BY_PHB][i], 0),
		.bridge_count = 3,
		.bridges = { address(0, groups->of[BY_PXB][i]), address(1, groups->of[BY_PIX][i]),
			address(2, i) },
		.address = address(3 + i, 0),
	};
}

static void make_devices(struct rd_host *host, const struct smi *smi, const struct groups *groups)
{
	for (int i = 0; i < smi->gpu_count; i++) {
		struct rd_host_gpu *gpu = &host->gpus[host->gpu_count++];
		place(&gpu->device, groups, i);
		gpu->memory_numa = smi->devices[i].memory_numa;
		for (int j = 0; j < smi->gpu_count; j++)
			gpu->nvlinks[j] = smi->cells[i][j].nvlinks;
	}
	for (int i = smi->gpu_count; i < smi->count; i++) {
		const struct smi_device *device = &smi->devices[i];
		struct rd_rdma *rdma = &host->rdma[host->rdma_count++];
		place(&rdma->device, groups, i);
		strcpy(rdma->device.name, device->name[0] ? device->name : device->label);
		rdma->port_count = 1;
		rdma->ports[0] = (struct rd_port){ .number = 1, .active = true };
	}
}

/* Fails for a distance that the others exclude. */
static int check_distances(const struct rd_host *host, const struct smi *smi)
{
	for (int a = 0; a < smi->count; a++) {
		for (int b = 0; b < a; b++) {
			char text[16], other[16];
			int nvlinks;
			enum rd_distance wanted = smi->cells[a][b].distance;
			enum rd_distance found = topo_matrix_distance(host, a, b, &nvlinks);
			if (found != wanted)
				return rd_fail(RONDO_INVALID,
					"%s:%d: column %s: %s, but by the distances to others it is "
					"%s",
					smi->file, smi->devices[a].line, smi->devices[b].label,
					rd_distance_text(text, wanted, smi->cells[a][b].nvlinks),
					rd_distance_text(other, found, nvlinks));
		}
	}
	return 0;
}

int topo_smi_host(const struct smi *smi, struct rd_host *host)
{
	struct groups groups;
	int err;

	snprintf(host->name, sizeof(host->name), "host");
	make_groups(&groups, smi);
	err = make_nodes(host, smi, &groups);
	if (err)
		return err;
	need_cpu(host);
	make_devices(host, smi, &groups);
	err = rd_host_settle(host);
	if (err)
		return rd_fail(err, "%s: %s", smi->file, rondo_last_error());
	return check_distances(host, smi);
}
