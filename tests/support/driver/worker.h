/*
 * Streams: each is a queue, and a thread that works it off in order. And graphs: what is queued on
 * a stream while it is captured, to be queued again.
 */
#ifndef WORKER_H
#define WORKER_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* NULL: no memory, or no thread. */
CUstream worker_create(int device);
/* Once its queue is worked off. */
void worker_destroy(CUstream stream);
int worker_device(CUstream stream);

/* Waits for what is queued. False: a capture is under way, which this invalidates. */
bool worker_synchronize(CUstream stream);
bool worker_is_idle(CUstream stream);

/*
 * They queue a wait for a flag, until it has reached the value; a write of one; a copy; or a
 * function, with `size` bytes, which are copied now. They return 0, or an error: no memory, or an
 * invalidated capture.
 */
int worker_wait(CUstream stream, const uint32_t *flag, uint32_t value);
int worker_write(CUstream stream, uint32_t *flag, uint32_t value);
int worker_copy(CUstream stream, void *to, const void *from, size_t size);
int worker_run(CUstream stream, void (*run)(const void *what), const void *what, size_t size);

/* ---- Graphs -------------------------------------------------------------------------------- */

CUstreamCaptureStatus worker_captures(CUstream stream);
/* An error where a capture is under way. */
int worker_capture(CUstream stream);
/* An error, and no graph, where none is under way, or an invalidated one. */
int worker_capture_end(CUstream stream, CUgraph *graph);
int worker_replay(CUstream stream, CUgraph graph);
void graph_destroy(CUgraph graph);

#endif
