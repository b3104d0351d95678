/* Probes CPUs and NUMA nodes from sysfs. */
#ifndef RD_PROBE_CPUS_H
#define RD_PROBE_CPUS_H

#include "topo/probe.h"

/* Fills in the CPUs of a host that has none. */
void rd_probe_cpus(struct rd_host *host, const struct rd_probe *probe);

#endif
