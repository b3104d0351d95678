/*
 * Graphs of calls on a device's stream, for rondo-bench. Programs use CUDA's own functions.
 */
#ifndef RD_GRAPH_H
#define RD_GRAPH_H

#include "rondo.h"

struct rd_graph;

/* Calls of this thread on the stream are recorded from now on, and do not run. */
int rd_graph_begin(rondo_stream *stream);
/* *graph: what was recorded; NULL after an error. Ends the recording in any case. */
int rd_graph_end(rondo_stream *stream, struct rd_graph **graph);
/* Queues the recorded calls on the stream of the capture. */
int rd_graph_launch(struct rd_graph *graph);
/* Once its launches are over, before the stream is destroyed. NULL is allowed. */
void rd_graph_destroy(struct rd_graph *graph);

#endif
