/*
 * Packages, NUMA nodes and CPUs from hwloc. It supports machines that sysfs describes poorly, and
 * reads its own settings (HWLOC_XMLFILE). It is loaded at run time. The build needs its header, for
 * the objects that its functions return.
 */
#include "topo/probes.h"

#ifdef RD_HAS_HWLOC

#include <dlfcn.h>
#include <hwloc.h>
#include <string.h>

#include "base/log.h"

/* X(function): the functions used. */
#define FUNCTIONS(X) \
	X(hwloc_get_api_version) \
	X(hwloc_topology_init) \
	X(hwloc_topology_set_flags) \
	X(hwloc_topology_load) \
	X(hwloc_topology_destroy) \
	X(hwloc_get_type_depth) \
	X(hwloc_get_nbobjs_by_depth) \
	X(hwloc_get_obj_by_depth) \
	X(hwloc_bitmap_next) \
	X(hwloc_bitmap_isset)

struct hwloc {
	void *library;
	hwloc_topology_t topology;
#define FUNCTION(name) __typeof__(&(name)) name;
	FUNCTIONS(FUNCTION)
#undef FUNCTION
};

static bool open_library(struct hwloc *hwloc, const char *path)
{
	hwloc->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!hwloc->library)
		return false;
#define FIND(name) \
	hwloc->name = (__typeof__(hwloc->name))dlsym(hwloc->library, #name); \
	if (!hwloc->name) \
		return false;
	FUNCTIONS(FIND)
#undef FIND
	/* Objects are laid out alike within a major version. */
	return hwloc->hwloc_get_api_version() >> 16 == HWLOC_API_VERSION >> 16;
}

/* Includes hardware that a cgroup hides: a host is the same for all its processes. */
static bool load_topology(struct hwloc *hwloc)
{
	if (hwloc->hwloc_topology_init(&hwloc->topology))
		return false;
	if (hwloc->hwloc_topology_set_flags(
		    hwloc->topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED) == 0 &&
		hwloc->hwloc_topology_load(hwloc->topology) == 0)
		return true;
	hwloc->hwloc_topology_destroy(hwloc->topology);
	return false;
}

static hwloc_obj_t object_at(const struct hwloc *hwloc, hwloc_obj_type_t type, unsigned index)
{
	int depth = hwloc->hwloc_get_type_depth(hwloc->topology, type);

	return index < hwloc->hwloc_get_nbobjs_by_depth(hwloc->topology, depth)
		       ? hwloc->hwloc_get_obj_by_depth(hwloc->topology, depth, index)
		       : NULL;
}

static int package_of(const struct hwloc *hwloc, int cpu)
{
	hwloc_obj_t package;

	for (unsigned i = 0; (package = object_at(hwloc, HWLOC_OBJ_PACKAGE, i)); i++)
		if (package->cpuset && hwloc->hwloc_bitmap_isset(package->cpuset, (unsigned)cpu))
			return (int)package->os_index < 0 ? 0 : (int)package->os_index;
	return 0;
}

static void take_cpus(const struct hwloc *hwloc, struct rd_cpus *cpus, hwloc_const_bitmap_t set)
{
	for (int cpu = hwloc->hwloc_bitmap_next(set, -1); cpu >= 0 && cpu < RD_CPU_MAX;
		cpu = hwloc->hwloc_bitmap_next(set, cpu))
		rd_cpus_add(cpus, cpu);
}

static void take_cores(const struct hwloc *hwloc, struct rd_numa *numa)
{
	hwloc_obj_t core;

	for (unsigned i = 0; (core = object_at(hwloc, HWLOC_OBJ_CORE, i)); i++) {
		int first = core->cpuset ? hwloc->hwloc_bitmap_next(core->cpuset, -1) : -1;
		if (rd_cpus_has(&numa->cpus, first))
			rd_cpus_add(&numa->cores, first);
	}
}

static void take_node(struct rd_host *host, const struct hwloc *hwloc, hwloc_obj_t node)
{
	struct rd_numa *numa = &host->numa[host->numa_count];

	if (node->cpuset)
		take_cpus(hwloc, &numa->cpus, node->cpuset);
	/* Nodes of high-bandwidth memory share their CPUs with one of DRAM, which comes first. */
	for (int i = 0; i < host->numa_count; i++)
		if (rd_cpus_meet(&host->numa[i].cpus, &numa->cpus))
			memset(&numa->cpus, 0, sizeof(numa->cpus));
	numa->number = (int)node->os_index;
	numa->memory_mib = node->attr ? node->attr->numanode.local_memory >> 20 : 0;
	int first = rd_cpus_at(&numa->cpus, 0);
	numa->package = first < 0 ? 0 : package_of(hwloc, first);
	take_cores(hwloc, numa);
	host->numa_count++;
}

bool rd_probe_hwloc(struct rd_host *host, const struct rd_probe *probe)
{
	struct hwloc hwloc = { 0 };
	hwloc_obj_t node;

	if (!open_library(&hwloc, probe->hwloc) || !load_topology(&hwloc)) {
		rd_log(RD_INFO, RD_PROBE, "no hwloc (%s): CPUs are read from sysfs", probe->hwloc);
	} else {
		for (unsigned i = 0; (node = object_at(&hwloc, HWLOC_OBJ_NUMANODE, i)) &&
				     host->numa_count < RD_NUMA_MAX;
			i++)
			take_node(host, &hwloc, node);
		hwloc.hwloc_topology_destroy(hwloc.topology);
	}
	if (hwloc.library)
		dlclose(hwloc.library);
	return host->numa_count > 0;
}

#else

#include "base/log.h"

bool rd_probe_hwloc(struct rd_host *host, const struct rd_probe *probe)
{
	(void)host;
	rd_log(RD_INFO, RD_PROBE, "built without hwloc (%s): CPUs are read from sysfs",
		probe->hwloc);
	return false;
}

#endif
