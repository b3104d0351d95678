/*
 * Probes the hardware of this host. Hardware that is missing or contradicts itself costs a line in
 * the log (INFO, subsystem PROBE) and is left out. Probing goes on, and its result is always valid.
 */
#ifndef RD_PROBE_H
#define RD_PROBE_H

#include "topo/topology.h"

/* Sources to probe. */
struct rd_probe {
	const char *root; /* "": this machine; else a directory with sys/ and proc/ of another */
	/*
	 * Libraries, as dlopen() takes them; NULL: not used. All are optional, and none is linked.
	 */
	const char *hwloc, *nvml, *cuda;
	bool cores; /* also read which CPUs are threads of one core: a file a CPU */
};

/*
 * rd_probe_full reads everything, in tens of milliseconds. rd_probe_quick reads the hardware that a
 * rank's place needs, in less than one where there are no GPUs.
 */
extern const struct rd_probe rd_probe_full, rd_probe_quick;

/*
 * Fills in the whole host. Only RONDO_MEMORY can fail it. It probes GPUs by NVML, which leaves CUDA
 * alone. Without NVML it initializes the CUDA driver, which reports no NVLinks.
 */
int rd_probe_host(struct rd_host *host, const struct rd_probe *probe);

#endif
