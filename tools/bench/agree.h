/*
 * Agreement among the ranks of a measurement, by sends and receives alone: no collective runs but
 * the measured one, by the algorithm of --algo.
 */
#ifndef BENCH_AGREE_H
#define BENCH_AGREE_H

#include "rondo.h"

/* Copies rank 0's values to every rank. */
int bench_agree_on_first(rondo_comm *comm, double *values, size_t count);
/* Combines the ranks' values by RONDO_MIN, RONDO_MAX or RONDO_SUM, on every rank. */
int bench_agree(rondo_comm *comm, double *values, size_t count, rondo_op op);
/* Gathers `size` bytes of each rank at all[rank * size] on rank 0. */
int bench_collect(rondo_comm *comm, const void *mine, void *all, size_t size);

#endif
