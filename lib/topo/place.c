#include "topo/place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/error.h"
#include "base/log.h"
#include "topo/probe.h"
#include "topo/topology_file.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "places travel in little endian");
_Static_assert(sizeof(struct rd_place) == 2 * RD_HOST_SIZE + 8 + 8 * 4 + RD_NIC_SIZE,
	"no padding to leak");

static void name_place(struct rd_place *place, const struct rd_settings *settings)
{
	memset(place, 0, sizeof(*place));
	if (settings->host[0]) {
		snprintf(place->host_name, RD_HOST_SIZE, "%.*s", RD_HOST_SIZE - 1, settings->host);
		memcpy(place->host_id, place->host_name, RD_HOST_SIZE);
	} else {
		rd_place_identify(place);
	}
	place->pid = getpid();
	place->pid_space = rd_pid_space();
	place->uid = getuid();
}

/* ---- CPUs ---- */

/* Returns the node of the current core. A launcher that wants a rank to stay there binds it. */
static int32_t current_numa_node(void)
{
	unsigned node;

	/* The kernel's own: glibc has getcpu() since 2.29 only, musl not at all. */
	return syscall(SYS_getcpu, NULL, &node, NULL) ? -1 : (int32_t)node;
}

static bool within_a_node(const struct rd_host *host, const struct rd_cpus *cpus)
{
	for (int i = 0; i < host->numa_count; i++)
		if (rd_cpus_within(cpus, &host->numa[i].cpus))
			return true;
	return false;
}

/* ---- GPUs ---- */

static int find_gpu(const struct rd_host *host, const char *name, size_t length)
{
	char *end;
	long number = strtol(name, &end, 10);

	if (length > 4 && !strncmp(name, "GPU-", 4)) {
		for (int i = 0; i < host->gpu_count; i++)
			if (!strncmp(host->gpus[i].uuid, name, length))
				return i;
		return -1;
	}
	if (name[0] < '0' || name[0] > '9' || end != name + length || number >= host->gpu_count)
		return -1;
	return (int)number;
}

/*
 * Applies CUDA's rule: the list ends at the first invalid entry. Numbers go by PCI address, as they
 * do where all GPUs are of one kind, or with CUDA_DEVICE_ORDER=PCI_BUS_ID.
 */
static int list_visible(int visible[RD_GPU_MAX], const struct rd_host *host, const char *list)
{
	int count = 0;

	while (count < RD_GPU_MAX) {
		size_t length = strcspn(list, ",");
		int gpu = find_gpu(host, list, length);
		if (gpu < 0)
			break;
		visible[count++] = gpu;
		if (!list[length])
			break;
		list += length + 1;
	}
	return count;
}

/* Returns the GPU number `turn` of those visible to this process, modulo their number; -1: none. */
static int choose_gpu(const struct rd_host *host, int turn)
{
	const char *list = host->gpus_visible_alone ? NULL : getenv("CUDA_VISIBLE_DEVICES");
	int visible[RD_GPU_MAX];

	if (!host->gpu_count)
		return -1;
	if (list && !strncmp(list, "MIG-", 4)) {
		rd_log(RD_INFO, RD_PROBE,
			"CUDA_VISIBLE_DEVICES names parts of GPUs (%s): which is near is not known",
			list);
		return -1;
	}
	if (!list)
		return turn % host->gpu_count;
	int count = list_visible(visible, host, list);
	return count ? visible[turn % count] : -1;
}

/* ---- All of it ---- */

static void place_on(
	struct rd_place *place, const struct rd_host *host, const struct rd_settings *settings)
{
	int local_rank = settings->local_rank >= 0 ? settings->local_rank : settings->rank;
	int gpu = choose_gpu(host, settings->gpu >= 0 ? settings->gpu : local_rank);
	struct rd_cpus mine;

	rd_cpus_allowed(&mine);
	rd_host_place(host, local_rank, gpu, rd_cpus_at(&mine, 0), place);
	/* A rank that may run on several nodes gets the present one. */
	if (gpu < 0 && !settings->topo_file[0] && !within_a_node(host, &mine))
		place->numa_node = current_numa_node();
}

static const struct rd_host *find_host(const struct rd_topology *topology, const char *name)
{
	for (int i = 0; i < topology->host_count; i++)
		if (!strcmp(topology->hosts[i].name, name))
			return &topology->hosts[i];
	return topology->host_count == 1 ? topology->hosts : NULL;
}

static int place_in_file(struct rd_place *place, const struct rd_settings *settings)
{
	struct rd_topology topology;
	int err = rd_topology_load(&topology, settings->topo_file);

	if (err)
		return rd_fail(err, "RONDO_TOPO_FILE: %s", rondo_last_error());
	const struct rd_host *host = find_host(&topology, place->host_name);
	if (host)
		place_on(place, host, settings);
	else
		err = rd_fail(RONDO_SETTING,
			"RONDO_TOPO_FILE is %s, which has %d host%s and none named %s: name one of "
			"them by RONDO_HOST",
			settings->topo_file, topology.host_count, RD_PLURAL(topology.host_count),
			place->host_name);
	rd_topology_finish(&topology);
	return err;
}

static int place_here(struct rd_place *place, const struct rd_settings *settings)
{
	struct rd_host *host = malloc(sizeof(*host));

	if (!host)
		return rd_fail(RONDO_MEMORY, "no memory to look at this host");
	int err = rd_probe_host(host, &rd_probe_quick);
	if (!err)
		place_on(place, host, settings);
	free(host);
	return err;
}

static void log_place(const struct rd_place *place)
{
	char gpu[24] = "no GPU";

	if (place->gpu >= 0)
		snprintf(gpu, sizeof(gpu), "GPU %d", place->gpu);
	rd_log(RD_INFO, RD_PROBE, "on host %s (%s): core %d, NUMA node %d, slot %d, %s, NIC %s",
		place->host_name, place->host_id, place->core, place->numa_node, place->slot, gpu,
		place->nic[0] ? place->nic : "not known");
}

int rd_place_here(struct rd_place *place, const struct rd_settings *settings)
{
	name_place(place, settings);
	int err = settings->topo_file[0] ? place_in_file(place, settings)
					 : place_here(place, settings);
	rd_disarm(place->host_name, strnlen(place->host_name, RD_HOST_SIZE));
	rd_disarm(place->host_id, strnlen(place->host_id, RD_HOST_SIZE));
	rd_disarm(place->nic, strnlen(place->nic, RD_NIC_SIZE));
	if (!err)
		log_place(place);
	return err;
}

bool rd_place_same_process(const struct rd_place *a, const struct rd_place *b)
{
	return a->pid == b->pid && a->pid_space == b->pid_space && rd_place_same_host(a, b);
}

bool rd_place_same_host(const struct rd_place *a, const struct rd_place *b)
{
	return strncmp(a->host_id, b->host_id, RD_HOST_SIZE) == 0;
}
