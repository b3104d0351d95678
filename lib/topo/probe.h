/*
 * Finding out what this host holds. What is missing, or contradicts itself, costs a line in the log
 * (INFO, subsystem PROBE) and is left out: probing goes on, and what it finds is always fit for
 * use.
 */
#ifndef RD_PROBE_H
#define RD_PROBE_H

#include "topo/topology.h"

/* Where to look. */
struct rd_probe {
	const char
		*root; /* "": this machine; else a directory with sys/ and proc/ of a made-up one */
	/* Libraries, as dlopen() takes them; NULL: not asked. They are optional: none is linked. */
	const char *hwloc, *nvml, *cuda;
	bool cores; /* also read which CPUs are threads of one core: a file a CPU */
};

/* All there is to know, in tens of milliseconds; and what a rank wants to know of its place, in
   less than one where there are no GPUs. */
extern const struct rd_probe rd_probe_full, rd_probe_quick;

/*
 * Fills in the whole host. RONDO_MEMORY alone can stop it. GPUs are asked of NVML, which leaves
 * CUDA alone; where that is missing of CUDA's driver, which then is initialized, and tells of no
 * NVLinks.
 */
int rd_probe_host(struct rd_host *host, const struct rd_probe *probe);

/* ---- Its parts: each fills in its arrays of a host that is zero there ---- */

void rd_probe_cpus(struct rd_host *host, const struct rd_probe *probe); /* from sysfs */
bool rd_probe_hwloc(
	struct rd_host *host, const struct rd_probe *probe); /* the same; false: not there */
void rd_probe_gpus(struct rd_host *host, const struct rd_probe *probe);
void rd_probe_rdma(struct rd_host *host, const struct rd_probe *probe);
void rd_probe_interfaces(struct rd_host *host, const struct rd_probe *probe);

#endif
