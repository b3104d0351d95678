#include "api/graph.h"

#include <stdlib.h>

#include "api/stream.h"
#include "base/error.h"
#include "device/device_stream.h"

struct rd_graph {
	const struct rd_device_stream *device_stream;
	void *graph; /* the device's */
};

int rd_graph_begin(rondo_stream *stream)
{
	const struct rd_device_stream *device_stream = rd_stream_device_stream(stream);

	if (!device_stream)
		return rd_fail(RONDO_UNSUPPORTED, "only calls on a device's stream are captured");
	return device_stream->ops->graph_begin(device_stream->device, device_stream->stream);
}

int rd_graph_end(rondo_stream *stream, struct rd_graph **graph)
{
	const struct rd_device_stream *device_stream = rd_stream_device_stream(stream);
	struct rd_graph *made = calloc(1, sizeof(*made));
	void *captured = NULL;
	int err = device_stream->ops->graph_end(
		device_stream->device, device_stream->stream, &captured);

	*graph = NULL;
	if (!err && !made)
		err = rd_fail(RONDO_MEMORY, "no memory for a graph");
	if (err) {
		device_stream->ops->graph_destroy(device_stream->device, captured);
		free(made);
		return err;
	}
	*made = (struct rd_graph){ device_stream, captured };
	*graph = made;
	return 0;
}

int rd_graph_launch(struct rd_graph *graph)
{
	const struct rd_device_stream *device_stream = graph->device_stream;

	return device_stream->ops->graph_launch(
		device_stream->device, device_stream->stream, graph->graph);
}

void rd_graph_destroy(struct rd_graph *graph)
{
	if (!graph)
		return;
	graph->device_stream->ops->graph_destroy(graph->device_stream->device, graph->graph);
	free(graph);
}
