/* Probes RDMA devices and network interfaces from sysfs. */
#ifndef RD_PROBE_NET_H
#define RD_PROBE_NET_H

#include "topo/probe.h"

/* Each fills in its arrays of a host where they are empty. */
void rd_probe_rdma(struct rd_host *host, const struct rd_probe *probe);
void rd_probe_interfaces(struct rd_host *host, const struct rd_probe *probe);

#endif
