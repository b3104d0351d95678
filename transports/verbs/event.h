/*
 * Asynchronous events of RDMA devices: ports that go down, queue pairs and devices that fail.
 *
 * Endpoints in several threads may share a device. The one that reads an event records it where all
 * find it: in the device, the rail or the queue pair. Each endpoint acts on what concerns it.
 */
#ifndef RD_VERBS_EVENT_H
#define RD_VERBS_EVENT_H

#include <stdbool.h>

#include "transports/verbs/endpoint.h"

/* Watches the devices of the endpoint's rails in the connector's epoll. RONDO_SYSTEM, with a
   reason. */
int rd_verbs_events_watch(struct rd_verbs_endpoint *endpoint);

/* Acts on events that were recorded since the last call. True: a rail has failed. */
bool rd_verbs_events_apply(struct rd_verbs_endpoint *endpoint);

#endif
