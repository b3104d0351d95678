/* What sysfs says of a device, for those who probe GPUs and NICs. */
#ifndef RD_PROBE_DEVICE_H
#define RD_PROBE_DEVICE_H

#include "topo/probe.h"

/* The path of a device from what rd_sysfs_device() says, and its NUMA node. */
void rd_probe_device(struct rd_device *device, const struct rd_probe *probe, const char *path);

#endif
