/*
 * A record of each rank's work over time, as a file for Perfetto (https://ui.perfetto.dev) and
 * chrome://tracing. Format: "Trace Event Format", Google, JSON object form; a process is a rank, a
 * thread is a track.
 *
 *     trace_begin(trace, TRACE_COMPUTATION, "forward");
 *     ...
 *     trace_end(trace, TRACE_COMPUTATION);
 *
 * A NULL trace is off: the functions then return at once. Recording allocates nothing, and makes no
 * system call. Each rank keeps its latest TRACE_EVENTS events; the file says how many were dropped.
 *
 * Names are string literals: an event keeps the pointer. They contain nothing that JSON escapes.
 */
#ifndef TRAIN_TRACE_H
#define TRAIN_TRACE_H

#include <stdint.h>

#include "train/world/world.h"

#define TRACE_EVENTS 65536 /* per rank, 32 bytes each */
#define TRACE_NO_NUMBER (-1)

enum trace_track { TRACE_COMPUTATION, TRACE_COMMUNICATION, TRACE_DATA, TRACE_TRACKS };

struct trace;

/* The result of trace_write(), on rank 0. */
struct trace_summary {
	uint64_t events, dropped; /* over all ranks */
	double error_s; /* the greatest error of a rank's clock against rank 0's */
};

/*
 * Starts a trace that trace_write() saves to path; NULL: *trace is NULL, off. Fails on rank 0 if it
 * cannot write there. Collective: ranks compare their clocks.
 */
int trace_create(struct trace **trace, const struct train_world *world, const char *path);
/* Accepts NULL. */
void trace_destroy(struct trace *trace);

/*
 * A span of time on a track. One span is open on a track at a time, and one thread opens and closes
 * the spans of a track. trace_end() without a span does nothing.
 */
void trace_begin(struct trace *trace, enum trace_track track, const char *name);
void trace_end(struct trace *trace, enum trace_track track);
/* A span with known times (clock_seconds()), from any thread. number: written behind the name,
   "bucket 3", or TRACE_NO_NUMBER. */
void trace_span(struct trace *trace, enum trace_track track, const char *name, int number,
	double start_s, double end_s);
/* A moment with a known time, from any thread. */
void trace_mark(
	struct trace *trace, enum trace_track track, const char *name, int number, double time_s);

/*
 * Writes the events of all ranks, with times of rank 0's clock. Collective; no other thread
 * records. Rank 0 writes the file: it may fail there alone. *summary is set on rank 0.
 *
 * Clocks: a rank leaves a barrier after each rank has entered it. So each barrier bounds the
 * difference of two clocks from both sides. Half the narrowest interval of 16 barriers bounds the
 * error. They run at the beginning and at the end; between them the difference changes evenly.
 */
int trace_write(struct trace *trace, struct trace_summary *summary);

#endif
