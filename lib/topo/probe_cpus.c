/* Packages, NUMA nodes and CPUs, from sysfs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "topo/probes.h"
#include "topo/sysfs.h"

#define NODES "sys/devices/system/node"
#define CPUS "sys/devices/system/cpu"

/* Returns 12 for "node12"; -1 for another name. */
static int node_number(const char *name)
{
	char *end;

	if (strncmp(name, "node", 4) || name[4] < '0' || name[4] > '9')
		return -1;
	long number = strtol(name + 4, &end, 10);
	return *end || number > 1 << 20 ? -1 : (int)number;
}

/* Removes CPUs that an earlier node has, too. */
static void part_from_others(const struct rd_host *host, struct rd_numa *numa)
{
	for (int i = 0; i < host->numa_count; i++) {
		const struct rd_numa *other = &host->numa[i];
		if (!rd_cpus_meet(&other->cpus, &numa->cpus))
			continue;
		rd_log(RD_INFO, RD_PROBE,
			"NUMA nodes %d and %d claim the same CPUs: node %d has them", other->number,
			numa->number, other->number);
		for (int cpu = 0; cpu < RD_CPU_MAX; cpu++)
			if (rd_cpus_has(&other->cpus, cpu))
				rd_cpus_remove(&numa->cpus, cpu);
	}
}

/* "Node 0 MemTotal:  131880416 kB" */
static uint64_t node_memory_mib(const struct rd_probe *probe, int number)
{
	char line[128];
	unsigned long long kib = 0;

	if (rd_sysfs_line(line, sizeof(line), probe->root, NODES "/node%d/meminfo", number))
		sscanf(line, "Node %*d MemTotal: %llu", &kib);
	return kib / 1024;
}

static int package_of(const struct rd_probe *probe, int cpu)
{
	long package =
		rd_sysfs_number(0, probe->root, CPUS "/cpu%d/topology/physical_package_id", cpu);

	return package < 0 || package > 1 << 20 ? 0 : (int)package;
}

static void read_node(struct rd_host *host, const struct rd_probe *probe, int number)
{
	struct rd_numa *numa = &host->numa[host->numa_count];
	char list[RD_CPUS_TEXT_SIZE];

	/* A node with memory alone has an empty list. */
	if (!rd_sysfs_exists(probe->root, NODES "/node%d/cpulist", number) ||
		(rd_sysfs_line(list, sizeof(list), probe->root, NODES "/node%d/cpulist", number) &&
			!rd_cpus_read(&numa->cpus, list))) {
		rd_log(RD_INFO, RD_PROBE, "NUMA node %d has no list of its CPUs: it is left out",
			number);
		return;
	}
	numa->number = number;
	numa->memory_mib = node_memory_mib(probe, number);
	part_from_others(host, numa);
	int first = rd_cpus_at(&numa->cpus, 0);
	numa->package = first < 0 ? 0 : package_of(probe, first);
	host->numa_count++;
}

static void read_nodes(struct rd_host *host, const struct rd_probe *probe)
{
	char(*names)[RD_SYSFS_NAME_SIZE];
	int count = rd_sysfs_list(&names, probe->root, NODES);

	for (int i = 0; i < count; i++) {
		int number = node_number(names[i]);
		if (number >= 0 && host->numa_count < RD_NUMA_MAX)
			read_node(host, probe, number);
		else if (number >= 0)
			rd_log(RD_INFO, RD_PROBE, "NUMA node %d is one too many: left out", number);
	}
	free(names);
}

/* Returns the CPUs that this process may use; the first CPU if that call fails. */
static void read_affinity(struct rd_cpus *cpus, const struct rd_probe *probe)
{
	if (probe->root[0] || !rd_cpus_allowed(cpus))
		rd_cpus_add(cpus, 0);
}

static int cpu_count(const struct rd_host *host)
{
	int count = 0;

	for (int i = 0; i < host->numa_count; i++)
		count += rd_cpus_count(&host->numa[i].cpus);
	return count;
}

static void take_one_node(struct rd_host *host, const struct rd_probe *probe)
{
	struct rd_numa *numa = &host->numa[0];
	char list[RD_CPUS_TEXT_SIZE];

	memset(numa, 0, sizeof(*numa));
	host->numa_count = 1;
	rd_log(RD_INFO, RD_PROBE, "no NUMA node with CPUs in /%s: all CPUs count as one node",
		NODES);
	if (!rd_sysfs_line(list, sizeof(list), probe->root, CPUS "/online") ||
		!rd_cpus_read(&numa->cpus, list) || !rd_cpus_count(&numa->cpus))
		read_affinity(&numa->cpus, probe);
}

/*
 * Finds the first thread of each core: the CPUs 0 and 112 of one core both have the list "0,112".
 */
static void read_cores(struct rd_numa *numa, const struct rd_probe *probe)
{
	char list[256];
	struct rd_cpus threads;

	for (int cpu = 0; cpu < RD_CPU_MAX; cpu++) {
		if (!rd_cpus_has(&numa->cpus, cpu))
			continue;
		if (!rd_sysfs_line(list, sizeof(list), probe->root,
			    CPUS "/cpu%d/topology/thread_siblings_list", cpu) ||
			!rd_cpus_read(&threads, list) || rd_cpus_at(&threads, 0) == cpu ||
			!rd_cpus_has(&numa->cpus, rd_cpus_at(&threads, 0)))
			rd_cpus_add(&numa->cores, cpu);
	}
}

void rd_probe_cpus(struct rd_host *host, const struct rd_probe *probe)
{
	read_nodes(host, probe);
	if (!cpu_count(host))
		take_one_node(host, probe);
	for (int i = 0; i < host->numa_count && probe->cores; i++)
		read_cores(&host->numa[i], probe);
}
