/* Streams and events of emulated GPUs: a thread a stream, which runs what is queued. */
#ifndef RD_EMULATED_STREAM_H
#define RD_EMULATED_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "device/device.h"

/* The functions of the table (struct rd_device_ops). */
int rd_emulated_stream_create(int device, void **stream);
void rd_emulated_stream_destroy(int device, void *stream);
int rd_emulated_stream_synchronize(int device, void *stream);
int rd_emulated_stream_query(int device, void *stream, bool *done);
int rd_emulated_stream_check(int device, void *stream);
enum rd_capture rd_emulated_stream_captures(void *stream);
void rd_emulated_ignore_captures(void);
int rd_emulated_stream_follow(int device, void *stream, void *earlier);
int rd_emulated_event_create(int device, void **event);
void rd_emulated_event_destroy(int device, void *event);
int rd_emulated_event_record(int device, void *stream, void *event);
int rd_emulated_event_elapsed(int device, void *from, void *to, double *us);
int rd_emulated_post_flags(int device, void *stream, const struct rd_flag_op *ops, int count);
int rd_emulated_copy(int device, void *stream, void *to, const void *from, size_t size);
int rd_emulated_launch(int device, void *stream, const struct rd_work *work);
int rd_emulated_launch_small(int device, void *stream, const struct rd_small_work *work);
int rd_emulated_launch_steps(int device, void *stream, const struct rd_steps *steps);
int rd_emulated_launch_transfers(int device, void *stream, const struct rd_transfer_work *work);

/* As a CUDA graph: what is queued on the stream from now on is recorded, until the end, and no more
   than that; then it can be queued, on this stream or others, any number of times. Waiting for the
   stream invalidates its capture: nothing can be queued until the end, which then fails. */
struct rd_emulated_graph;
int rd_emulated_capture(void *stream);
int rd_emulated_capture_end(void *stream, struct rd_emulated_graph **graph);
int rd_emulated_replay(const struct rd_emulated_graph *graph, void *stream);
void rd_emulated_graph_destroy(struct rd_emulated_graph *graph);

#endif
