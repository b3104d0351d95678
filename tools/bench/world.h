/*
 * The ranks of a benchmark: processes forked here, processes that a launcher started, or one
 * process; and in each of them one or more threads, every one a rank with a comm of its own.
 */
#ifndef BENCH_WORLD_H
#define BENCH_WORLD_H

#include "options.h"

/* What one rank does; returns its exit status. */
typedef int (*bench_rank_function)(rondo_comm *comm, void *argument);

/* Runs `rank` on every rank; returns the exit status of the whole, having reported failures. */
int bench_world_run(const struct bench_options *options, bench_rank_function rank, void *argument);

/* Whether all that was printed got out; if not, one line on standard error says so. */
bool bench_printed(void);

/* One line on standard error, with the rank and the library's reason. Returns exit status 1. */
int bench_report_failure(int rank, const char *what, int err);

#endif
