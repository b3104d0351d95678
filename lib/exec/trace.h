/*
 * The trace of a comm's calls (RONDO_TRACE): when each step of their plans waited and worked. It is
 * written when the comm is destroyed, for Perfetto (https://ui.perfetto.dev). Format: "Trace Event
 * Format", Google, JSON array form, which needs no end; a process is a rank, a thread a channel.
 *
 * All ranks append to one file. Each write(2) has whole lines, so that theirs do not mix. Times are
 * those of CLOCK_MONOTONIC, moved to CLOCK_REALTIME: hosts are as far apart as their clocks.
 *
 * A comm keeps its latest RD_TRACE_STEPS steps. Recording allocates nothing, and makes no system
 * call. One thread at a time records, as it runs the comm's calls.
 */
#ifndef RD_EXEC_TRACE_H
#define RD_EXEC_TRACE_H

#include "exec/exec.h"

#define RD_TRACE_STEPS 65536

struct rd_trace;

/* The rank whose trace it is. */
struct rd_trace_origin {
	int rank, size, channels;
	/* [channels]: they live as long as the comm's plans */
	struct rd_layout *const *layouts;
	uint64_t group; /* the comm, where it was made from another; 0: it was not */
};

/* Opens the file, whose name may have %h, %p and %r (log.h). RONDO_SETTING, with the reason, where
   it cannot be written; RONDO_MEMORY. */
int rd_trace_create(struct rd_trace **trace, const char *name);
/* The comm is made: drops the steps of its creation. */
void rd_trace_start(struct rd_trace *trace, const struct rd_trace_origin *origin);
/* Appends the steps since the start to the file. A failure is a line of the log. Their plans still
   exist. */
void rd_trace_write(const struct rd_trace *trace);
/* Writes nothing. Accepts NULL. */
void rd_trace_destroy(struct rd_trace *trace);

/* A call begins: its first steps wait from now on. */
void rd_trace_begin(struct rd_trace *trace, struct rd_exec *exec);
/* For the executor: a channel tries its next step now; has done it. */
void rd_trace_try(struct rd_exec *exec);
void rd_trace_step(struct rd_exec *exec, int channel, size_t piece, const struct rd_step *step);

/* rd_exec_step() of a call that rd_trace_begin() began. */
int rd_exec_step_traced(struct rd_exec *exec);

#endif
