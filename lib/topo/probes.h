/* The parts of rd_probe(). Each fills in what a host has none of. */
#ifndef RD_PROBES_H
#define RD_PROBES_H

#include "topo/probe.h"

/* CPUs and NUMA nodes, from sysfs. */
void rd_probe_cpus(struct rd_host *host, const struct rd_probe *probe);

/* The same by hwloc. False: hwloc is missing. */
bool rd_probe_hwloc(struct rd_host *host, const struct rd_probe *probe);

/* GPUs and NVLinks, by NVML or else by the CUDA driver. */
void rd_probe_gpus(struct rd_host *host, const struct rd_probe *probe);

/* RDMA devices and network interfaces, from sysfs. */
void rd_probe_rdma(struct rd_host *host, const struct rd_probe *probe);
void rd_probe_interfaces(struct rd_host *host, const struct rd_probe *probe);

/* Sets the path of a device, for the probes of GPUs and NICs, from the result of
   rd_sysfs_device(), and its NUMA node. */
void rd_probe_device(struct rd_device *device, const struct rd_probe *probe, const char *path);

#endif
