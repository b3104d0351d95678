/*
 * A rail: one port of an RDMA device, as an endpoint uses it. The completions of all its queue
 * pairs come to one completion queue, whose channel wakes a sleeping rank.
 */
#ifndef RD_VERBS_RAIL_H
#define RD_VERBS_RAIL_H

#include <stdbool.h>

#include "transports/event_source.h"
#include "transports/verbs/device.h"
#include "transports/verbs/port.h"

struct rd_verbs_rail {
	struct rd_verbs_port port;
	struct rd_verbs_device *device;
	enum ibv_mtu mtu; /* of the port, as its interface is set */
	struct ibv_comp_channel *channel; /* its descriptor does not block */
	struct ibv_cq *cq;
	int room; /* completions that further queue pairs may have */
	bool armed; /* the next completion makes an event on the channel */
	unsigned events; /* read from the channel, and not acknowledged */
	/* Events of the device (event.h) */
	struct rd_event_source source;
	unsigned events_seen; /* of device->events */
	bool down; /* its port */
	_Atomic bool overflowed; /* its completion queue failed */
};

/* Opens the port's device, and makes a queue of `entries` completions, or of as many as the device
   has. A zeroed rail may be closed, and so may one after an error. */
int rd_verbs_rail_open(struct rd_verbs_rail *rail, const struct rd_verbs_port *port, int entries);
void rd_verbs_rail_close(struct rd_verbs_rail *rail);
/* In a forked child, in place of close(): closes the descriptors, and nothing else. */
void rd_verbs_rail_abandon(struct rd_verbs_rail *rail);

/* From now on, the next completion makes the channel's descriptor readable. Those that have come
   before do not: poll the queue once more. */
void rd_verbs_rail_arm(struct rd_verbs_rail *rail);

#endif
