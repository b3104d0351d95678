/*
 * Files of RONDO_TRACE (docs/tracing.md): the steps that ranks ran, by call. A file is untrusted.
 * It is read event by event, and one that contradicts the format is refused with its line.
 */
#ifndef PLAN_TRACE_FILE_H
#define PLAN_TRACE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "exec/exec.h"
#include "options.h"

#define PLAN_TRACE_STEPS_MAX (8 << 20) /* of all ranks */
#define PLAN_TRACE_SIMULATED_MAX (4 * PLAN_TRACE_STEPS_MAX) /* of all simulations of its calls */
#define PLAN_TRACE_COMM_SIZE 17 /* the text of its number */

/* A call: it is equal on all its ranks. Transfers count by pair of ranks. */
struct plan_trace_key {
	int comm; /* index */
	int number;
	int collective, algorithm; /* enum rd_collective; index of a name */
	int root, target;
};

struct plan_trace_step {
	struct plan_trace_key key;
	int rank, channel, piece, step;
	int kind; /* index of a name */
	int chunk, peer, to;
	int line; /* of the file, where it begins */
	bool of_v_call;
	int64_t bytes, block;
	int64_t begin_ns, wait_ns, work_ns; /* since the begin of 2026 (UTC) */
};

/* Steps of a call follow each other, in the order of rank, piece and step. */
struct plan_trace_call {
	const struct plan_trace_key *key;
	const struct plan_trace_step *steps;
	int count;
	int64_t block; /* bytes; of a v-call, about the mean */
	int64_t slice; /* the most bytes of a step */
	bool is_v_call;
	int64_t begin_ns, end_ns; /* of the first rank; of the last */
	int64_t last_begin_ns; /* of the last rank's first step */
};

/* A rank of a comm, as its own events describe it. */
struct plan_trace_rank {
	bool known, dropped; /* it has events; earlier steps of it were dropped */
	unsigned channels; /* a bit for each that has a place */
	int places[RD_CHANNELS_MAX]; /* along the line of the channel */
	int groups[RD_CHANNELS_MAX];
};

struct plan_trace_comm {
	char name[PLAN_TRACE_COMM_SIZE]; /* "0": of no other comm */
	int size;
	struct plan_trace_rank *ranks; /* [size] */
};

struct plan_trace {
	struct plan_trace_comm *comms;
	int comm_count;
	struct plan_trace_step *steps;
	int step_count;
	/* By last_begin_ns: a rank may wait in a call for one that still makes another. */
	struct plan_trace_call *calls;
	int call_count;
	int64_t steps_left; /* that its simulations may still have (plan_traced_spend()) */
	char **names; /* of algorithms and kinds */
	int name_count;
	bool of_calls; /* a step stands for all steps of its rank in a call */
};

/* Returns 0 or an error with its reason, which names the line. plan_trace_destroy() frees. */
int plan_trace_read(struct plan_trace **trace, const char *path);
void plan_trace_destroy(struct plan_trace *trace);

/* Sorts the steps, and makes the calls of a trace that has none yet. `name` stands for it in
   reasons. Returns 0 or an error. */
int plan_trace_make_calls(struct plan_trace *trace, const char *name);

#endif
