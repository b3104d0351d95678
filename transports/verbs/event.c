#include "transports/verbs/event.h"

#include <stdatomic.h>

#include "base/error.h"
#include "base/log.h"
#include "transports/verbs/failover.h"
#include "transports/verbs/status.h"

/* ---- Recording: any thread, with the device's lock ------------------------------------------ */

static uint32_t port_bit(int port)
{
	return 1u << (port & 31);
}

static void record(struct rd_verbs_device *device, const struct ibv_async_event *event)
{
	struct rd_verbs_queue_pair *pair;
	struct rd_verbs_rail *rail;

	switch (event->event_type) {
	case IBV_EVENT_PORT_ERR:
		atomic_fetch_or(&device->ports_down, port_bit(event->element.port_num));
		break;
	case IBV_EVENT_PORT_ACTIVE:
		atomic_fetch_and(&device->ports_down, ~port_bit(event->element.port_num));
		break;
	case IBV_EVENT_DEVICE_FATAL:
		atomic_store(&device->fatal, true);
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		pair = event->element.qp->qp_context;
		atomic_store(&pair->event, event->event_type);
		break;
	case IBV_EVENT_CQ_ERR:
		rail = event->element.cq->cq_context;
		atomic_store(&rail->overflowed, true);
		break;
	default: /* changes that queue pairs survive: a path that migrated, a new LID or GID */
		rd_log(RD_INFO, RD_NET, "NET/IB : %s reports: %s", device->name,
			rd_verbs.event_type_str(event->event_type));
		return;
	}
	atomic_fetch_add(&device->events, 1);
}

/* Until it is acknowledged, a queue pair or completion queue of an event cannot be destroyed. */
static bool device_handle(void *owner)
{
	struct rd_verbs_device *device = owner;
	struct ibv_async_event event;

	rd_verbs_device_lock();
	while (rd_verbs.get_async_event(device->context, &event) == 0) {
		record(device, &event);
		rd_verbs.ack_async_event(&event);
	}
	rd_verbs_device_unlock();
	return false; /* no sign of life of a peer */
}

int rd_verbs_events_watch(struct rd_verbs_endpoint *endpoint)
{
	for (int i = 0; i < endpoint->rail_count; i++) {
		struct rd_verbs_rail *rail = &endpoint->rails[i];
		bool watched = false;

		rail->source = (struct rd_event_source){ device_handle, rail->device };
		rail->events_seen = atomic_load(&rail->device->events);
		for (int k = 0; k < i; k++)
			watched |= endpoint->rails[k].device == rail->device;
		if (!watched && rd_event_watch(endpoint->connector.station->epoll_fd, EPOLL_CTL_ADD,
					rail->device->context->async_fd, EPOLLIN, &rail->source))
			return rd_fail_errno("cannot watch the events of %s", rail->device->name);
	}
	return 0;
}

/* ---- Acting: the endpoint's thread ---------------------------------------------------------- */

/* A link without another rail waits for the port: it may come back before requests time out. */
static bool is_replaceable(const struct rd_verbs_link *link, int rail)
{
	return (link->connected & ~(1u << rail)) != 0;
}

static bool fail_links(struct rd_verbs_endpoint *endpoint, int rail, const char *reason, bool all)
{
	bool failed = false;

	for (struct rd_verbs_link *link = endpoint->links; link; link = link->next) {
		if (link->base.error || link->pairs[rail].dead ||
			!(all || is_replaceable(link, rail)))
			continue;
		rd_verbs_rail_failed(link, rail, reason);
		failed = true;
	}
	return failed;
}

static bool apply_port(struct rd_verbs_endpoint *endpoint, int index)
{
	struct rd_verbs_rail *rail = &endpoint->rails[index];
	const char *text = rd_verbs_event_text(IBV_EVENT_PORT_ERR);
	bool down = atomic_load(&rail->device->ports_down) & port_bit(rail->port.number);

	if (down != rail->down)
		rd_log(RD_WARN, RD_NET, "NET/IB : rank %d: port %d of %s is %s",
			endpoint->local->rank, rail->port.number, rail->port.device,
			down ? "down" : "active again");
	rail->down = down;
	return down && fail_links(endpoint, index, text, false);
}

static bool apply_queue_pairs(struct rd_verbs_endpoint *endpoint, int rail)
{
	bool failed = false;

	for (struct rd_verbs_link *link = endpoint->links; link; link = link->next) {
		int event = atomic_load(&link->pairs[rail].event);

		if (event == 0 || link->base.error || link->pairs[rail].dead)
			continue;
		rd_verbs_rail_failed(link, rail, rd_verbs_event_text((enum ibv_event_type)event));
		failed = true;
	}
	return failed;
}

bool rd_verbs_events_apply(struct rd_verbs_endpoint *endpoint)
{
	bool failed = false;

	for (int i = 0; i < endpoint->rail_count; i++) {
		struct rd_verbs_rail *rail = &endpoint->rails[i];
		unsigned events = atomic_load(&rail->device->events);

		if (events == rail->events_seen)
			continue;
		rail->events_seen = events;
		if (atomic_load(&rail->device->fatal))
			failed |= fail_links(
				endpoint, i, rd_verbs_event_text(IBV_EVENT_DEVICE_FATAL), true);
		if (atomic_load(&rail->overflowed))
			failed |= fail_links(
				endpoint, i, rd_verbs_event_text(IBV_EVENT_CQ_ERR), true);
		failed |= apply_port(endpoint, i);
		failed |= apply_queue_pairs(endpoint, i);
	}
	return failed;
}
