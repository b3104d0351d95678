/* A recorded program of calls, run by the ranks of this job. */
#ifndef BENCH_REPLAY_H
#define BENCH_REPLAY_H

#include "options.h"

/*
 * Reads options->trace (docs/tracing.md), and makes the calls of its first comm in their order on
 * this job's ranks, which must be as many. Before each call a rank computes for as long as it did.
 * Prints a row for each collective and size: the time of a call as recorded, and as measured. A
 * call takes as long as on its slowest rank. Returns an exit status.
 */
int bench_replay_run(const struct bench_options *options);

#endif
