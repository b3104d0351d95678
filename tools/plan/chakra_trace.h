/* Chakra traces of all ranks as a trace to replay. */
#ifndef PLAN_CHAKRA_TRACE_H
#define PLAN_CHAKRA_TRACE_H

#include <stdbool.h>

#include "problem.h"
#include "trace_file.h"

/* Whether `source` names Chakra traces: NAME, where there is a NAME.0.et, or the file of a rank. */
bool chakra_is_source(const char *source);

/*
 * Reads the files NAME.RANK.et of options->source. The k-th collective of each rank is one call,
 * which begins when the rank's computations before it end. Its algorithm and its pieces are those
 * that Rondo would choose with the costs of `made`, which is laid out anew. A step of the trace
 * stands for a rank's whole part in a call. Returns 0 or an error with its reason, which names the
 * file. plan_trace_destroy() frees.
 */
int chakra_trace_read(
	struct plan_trace **trace, struct plan_problem *made, const struct plan_options *options);

#endif
