/* Position of a device in sysfs, for the probes of GPUs and NICs. */
#ifndef RD_PROBE_DEVICE_H
#define RD_PROBE_DEVICE_H

#include "topo/probe.h"

/* Sets the path of a device from the result of rd_sysfs_device(), and its NUMA node. */
void rd_probe_device(struct rd_device *device, const struct rd_probe *probe, const char *path);

#endif
