/*
 * The ranks of a benchmark: forked processes, a launcher's processes, or one process. Each has one
 * or more threads, and each thread is a rank with a comm of its own.
 */
#ifndef BENCH_WORLD_H
#define BENCH_WORLD_H

#include "options.h"

/* The body of one rank; returns its exit status. */
typedef int (*bench_rank_function)(rondo_comm *comm, void *argument);

/* Runs `rank` on every rank; reports failures, and returns the exit status of all. */
int bench_world_run(const struct bench_options *options, bench_rank_function rank, void *argument);

/* Prints one line on stderr, with the rank and the library's reason. Returns exit status 1. */
int bench_report_failure(int rank, const char *what, int err);

#endif
