/* A stream: a host's, which is a queue and the thread that works it off, or a device's
 * (device_stream.h). */
#ifndef RD_STREAM_H
#define RD_STREAM_H

#include "comm/run.h"

struct rd_device_stream;

/* NULL: a host stream, or no stream at all. */
struct rd_device_stream *rd_stream_device_stream(const struct rondo_stream *stream);

/* Issues the tasks, and queues a copy of them to be run together. Takes over
   their vcounts and user operations. */
int rd_stream_run(struct rondo_stream *stream, struct rd_task *tasks, int count);

#endif
