/* Streams and events: the functions of the table (struct rd_device_ops). */
#ifndef RD_CUDA_STREAM_H
#define RD_CUDA_STREAM_H

#include "device/device.h"

int rd_cuda_stream_create(int device, void **stream);
void rd_cuda_stream_destroy(int device, void *stream);
int rd_cuda_stream_synchronize(int device, void *stream);
int rd_cuda_stream_query(int device, void *stream, bool *done);
int rd_cuda_stream_check(int device, void *stream);
enum rd_capture rd_cuda_stream_captures(void *stream);
void rd_cuda_ignore_captures(void);
int rd_cuda_stream_follow(int device, void *stream, void *earlier);
int rd_cuda_event_create(int device, void **event);
void rd_cuda_event_destroy(int device, void *event);
int rd_cuda_event_record(int device, void *stream, void *event);
int rd_cuda_event_elapsed(int device, void *from, void *to, double *us);
int rd_cuda_post_flags(int device, void *stream, const struct rd_flag_op *ops, int count);
int rd_cuda_copy(int device, void *stream, void *to, const void *from, size_t size);
int rd_cuda_copy_now(int device, void *to, const void *from, size_t size);

/* CUDA graphs: the functions of the table (struct rd_device_ops). */

int rd_cuda_graph_begin(int device, void *stream);
int rd_cuda_graph_end(int device, void *stream, void **graph);
int rd_cuda_graph_launch(int device, void *stream, void *graph);
void rd_cuda_graph_destroy(int device, void *graph);

#endif
