/* Probes CPUs and NUMA nodes by hwloc, in place of sysfs. */
#ifndef RD_PROBE_HWLOC_H
#define RD_PROBE_HWLOC_H

#include "topo/probe.h"

/* Fills in the CPUs of a host that has none. False: hwloc is missing. */
bool rd_probe_hwloc(struct rd_host *host, const struct rd_probe *probe);

#endif
