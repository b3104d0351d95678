#include "topo/probe.h"

#include <string.h>

#include "base/log.h"
#include "topo/sysfs.h"
#include "topo/probes.h"

#define NVML "libnvidia-ml.so.1"
#define CUDA "libcuda.so.1"
#define HWLOC "libhwloc.so.15"

const struct rd_probe rd_probe_full = {
	.root = "", .hwloc = HWLOC, .nvml = NVML, .cuda = CUDA, .cores = true
};
const struct rd_probe rd_probe_quick = { .root = "", .nvml = NVML, .cuda = CUDA };

/* ---- Repairs ---- */

static void repair_numa(const struct rd_host *host, struct rd_device *device)
{
	if (rd_host_numa(host, device->numa))
		return;
	if (device->numa >= 0)
		rd_log(RD_INFO, RD_PROBE,
			"%s is said to be at NUMA node %d, which is not there: taken as not known",
			device->name, device->numa);
	device->numa = -1;
}

static void forget_path(const struct rd_host *host, struct rd_device *device)
{
	(void)host;
	device->path.known = false;
}

static void each_device(
	struct rd_host *host, void (*visit)(const struct rd_host *, struct rd_device *))
{
	for (int i = 0; i < host->gpu_count; i++)
		visit(host, &host->gpus[i].device);
	for (int i = 0; i < host->rdma_count; i++)
		visit(host, &host->rdma[i].device);
	for (int i = 0; i < host->interface_count; i++)
		visit(host, &host->interfaces[i].device);
}

/* NVLinks that only one end reports are dropped. */
static void repair_links(struct rd_host *host)
{
	for (int a = 0; a < host->gpu_count; a++) {
		for (int b = 0; b < a; b++) {
			int *there = &host->gpus[a].nvlinks[b], *back = &host->gpus[b].nvlinks[a];
			if (*there == *back)
				continue;
			rd_log(RD_INFO, RD_PROBE,
				"GPU %d sees %d NVLinks to GPU %d, which sees %d: "
				"the lesser counts",
				a, *there, b, *back);
			*there = *back = *there < *back ? *there : *back;
		}
		host->gpus[a].nvlinks[a] = 0;
	}
}

/* Keeps the CPUs alone, in one NUMA node, which cannot contradict itself. */
static void keep_cpus_alone(struct rd_host *host)
{
	struct rd_numa *first = &host->numa[0];

	for (int i = 1; i < host->numa_count; i++)
		for (int word = 0; word < RD_CPU_MAX / 64; word++)
			first->cpus.bits[word] |= host->numa[i].cpus.bits[word];
	first->cores = first->cpus;
	host->numa_count = 1;
	host->gpu_count = host->rdma_count = host->interface_count = 0;
}

static int repair_host(struct rd_host *host)
{
	each_device(host, repair_numa);
	repair_links(host);
	int err = rd_host_settle(host);
	if (err != RONDO_INVALID)
		return err;
	rd_log(RD_INFO, RD_PROBE, "%s: going on without the paths of PCI", rondo_last_error());
	each_device(host, forget_path);
	err = rd_host_settle(host);
	if (err != RONDO_INVALID)
		return err;
	rd_log(RD_INFO, RD_PROBE, "%s: going on with the CPUs alone", rondo_last_error());
	keep_cpus_alone(host);
	return rd_host_settle(host);
}

/* ---- All of it ---- */

static void make_printable(char *text)
{
	for (; *text; text++)
		if (!rd_is_printable(*text))
			*text = '?';
}

/* Names a host under another root. For this machine, rd_place_here() sets a better name. */
static void name_host(struct rd_host *host, const struct rd_probe *probe)
{
	struct rd_place here;

	if (!probe->root[0]) {
		rd_place_identify(&here);
		memcpy(host->name, here.host_name, RD_HOST_SIZE);
		memcpy(host->id, here.host_id, RD_HOST_SIZE);
		return;
	}
	if (!rd_sysfs_line(host->name, RD_HOST_SIZE, probe->root, "proc/sys/kernel/hostname"))
		strcpy(host->name, "localhost");
	if (!rd_sysfs_line(host->id, RD_HOST_SIZE, probe->root, "proc/sys/kernel/random/boot_id"))
		memcpy(host->id, host->name, RD_HOST_SIZE);
}

int rd_probe_host(struct rd_host *host, const struct rd_probe *probe)
{
	memset(host, 0, sizeof(*host));
	name_host(host, probe);
	make_printable(host->name);
	make_printable(host->id);
	if (!probe->hwloc || !rd_probe_hwloc(host, probe))
		rd_probe_cpus(host, probe);
	rd_probe_gpus(host, probe);
	rd_probe_rdma(host, probe);
	rd_probe_interfaces(host, probe);
	int err = repair_host(host);
	if (!err)
		rd_log(RD_INFO, RD_PROBE,
			"NUMA nodes %d, GPUs %d, RDMA devices %d, interfaces %d; NICs %d",
			host->numa_count, host->gpu_count, host->rdma_count, host->interface_count,
			host->nic_count);
	return err;
}
