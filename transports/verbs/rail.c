#include "transports/verbs/rail.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/error.h"

static int find_mtu(struct rd_verbs_rail *rail)
{
	struct ibv_port_attr attributes;
	int err;

	memset(&attributes, 0, sizeof(attributes));
	err = rd_verbs.query_port(rail->device->context, (uint8_t)rail->port.number,
		(struct _compat_ibv_port_attr *)&attributes);
	rail->mtu = attributes.active_mtu;
	if (!err)
		return 0;
	errno = err;
	return rd_fail_errno(
		"%s does not describe its port %d", rail->device->name, rail->port.number);
}

static int make_channel(struct rd_verbs_rail *rail)
{
	int flags, taken = rd_stderr_fill();

	rail->channel = rd_verbs.create_comp_channel(rail->device->context);
	rd_stderr_free(taken);
	if (!rail->channel)
		return rd_fail_errno("%s has no completion channel", rail->device->name);
	flags = fcntl(rail->channel->fd, F_GETFL);
	if (flags < 0 || fcntl(rail->channel->fd, F_SETFL, flags | O_NONBLOCK))
		return rd_fail_errno("%s: its completion channel would block", rail->device->name);
	return 0;
}

static int make_queue(struct rd_verbs_rail *rail, int entries)
{
	int most = rail->device->limits.max_cqe;

	rail->room = entries < most ? entries : most;
	rail->cq = rd_verbs.create_cq(rail->device->context, rail->room, rail, rail->channel, 0);
	if (rail->cq)
		return 0;
	return rd_fail_errno(
		"%s cannot make a queue of %d completions", rail->device->name, rail->room);
}

int rd_verbs_rail_open(struct rd_verbs_rail *rail, const struct rd_verbs_port *port, int entries)
{
	int err;

	*rail = (struct rd_verbs_rail){ .port = *port };
	err = rd_verbs_device_get(port->device, &rail->device);
	if (!err)
		err = find_mtu(rail);
	if (!err)
		err = make_channel(rail);
	if (!err)
		err = make_queue(rail, entries);
	return err;
}

void rd_verbs_rail_close(struct rd_verbs_rail *rail)
{
	if (rail->cq) {
		if (rail->events > 0)
			rd_verbs.ack_cq_events(rail->cq, rail->events);
		rd_verbs.destroy_cq(rail->cq);
	}
	if (rail->channel)
		rd_verbs.destroy_comp_channel(rail->channel);
	rd_verbs_device_put(rail->device);
	memset(rail, 0, sizeof(*rail));
}

void rd_verbs_rail_abandon(struct rd_verbs_rail *rail)
{
	close(rail->channel->fd);
	rd_verbs_device_abandon(rail->device);
}

void rd_verbs_rail_arm(struct rd_verbs_rail *rail)
{
	struct ibv_cq *cq;
	void *context;

	while (rail->armed && rd_verbs.get_cq_event(rail->channel, &cq, &context) == 0) {
		rail->events++;
		rail->armed = false;
	}
	if (!rail->armed)
		rail->armed = ibv_req_notify_cq(rail->cq, 0) == 0;
}
