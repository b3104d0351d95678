/* Probes GPUs and NVLinks, by NVML or else by the CUDA driver. */
#ifndef RD_PROBE_GPUS_H
#define RD_PROBE_GPUS_H

#include "topo/probe.h"

/* Fills in the GPUs of a host that has none. */
void rd_probe_gpus(struct rd_host *host, const struct rd_probe *probe);

#endif
