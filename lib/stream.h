/* A host stream: a queue and the thread that works it off. */
#ifndef RD_STREAM_H
#define RD_STREAM_H

#include "run.h"

/* Issues the tasks, and queues a copy of them to be run together. */
int rd_stream_run(struct rondo_stream *stream, struct rd_task *tasks, int count);

#endif
