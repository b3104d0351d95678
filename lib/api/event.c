/* Events of the public header: points in the work of a device's streams. */
#include <stdbool.h>
#include <stdlib.h>

#include "device/device_stream.h"
#include "api/stream.h"

struct rondo_event {
	const struct rd_device_ops *ops;
	int device;
	bool recorded;
	void *event;
};

int rondo_event_create(rondo_event **event, int device)
{
	const struct rd_device_ops *ops = rd_device(true);

	if (!event)
		return rd_fail(RONDO_INVALID, "rondo_event_create: event is NULL");
	*event = NULL;
	if (!ops)
		return RONDO_UNSUPPORTED;

	struct rondo_event *made = calloc(1, sizeof(*made));

	if (!made)
		return rd_fail(RONDO_MEMORY, "no memory for an event");
	made->ops = ops;
	made->device = device;

	int err = ops->event_create(device, &made->event);

	if (err)
		free(made);
	else
		*event = made;
	return err;
}

void rondo_event_destroy(rondo_event *event)
{
	if (!event)
		return;
	event->ops->event_destroy(event->device, event->event);
	free(event);
}

int rondo_event_record(rondo_event *event, rondo_stream *stream)
{
	const struct rd_device_stream *device_stream =
		stream ? rd_stream_device_stream(stream) : NULL;

	if (!event || !device_stream)
		return rd_fail(RONDO_INVALID, "rondo_event_record: %s",
			event ? "the stream is no device's" : "event is NULL");
	if (device_stream->device != event->device)
		return rd_fail(RONDO_INVALID,
			"rondo_event_record: the event is of device %d, the stream of device %d",
			event->device, device_stream->device);
	event->recorded = true;
	return event->ops->event_record(event->device, device_stream->stream, event->event);
}

int rondo_event_elapsed(rondo_event *from, rondo_event *to, double *us)
{
	if (!from || !to || !us)
		return rd_fail(RONDO_INVALID, "rondo_event_elapsed: %s is NULL",
			!from ? "from"
			: !to ? "to"
			      : "us");
	if (!from->recorded || !to->recorded || from->device != to->device)
		return rd_fail(RONDO_INVALID,
			"rondo_event_elapsed: record both events first, on streams of one device");
	return from->ops->event_elapsed(from->device, from->event, to->event, us);
}
