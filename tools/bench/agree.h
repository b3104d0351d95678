/*
 * What the ranks of a measurement settle among themselves, by sends and receives alone: so the
 * collectives that run are those that are measured, by the algorithm that was asked for.
 */
#ifndef BENCH_AGREE_H
#define BENCH_AGREE_H

#include "rondo.h"

/* Rank 0's values, on every rank. */
int bench_agree_on_first(rondo_comm *comm, double *values, size_t count);
/* The least, the most or the sum (RONDO_MIN, RONDO_MAX, RONDO_SUM) over the ranks, on every rank.
 */
int bench_agree(rondo_comm *comm, double *values, size_t count, rondo_op op);
/* `size` bytes of each rank, at all[rank * size] on rank 0. */
int bench_collect(rondo_comm *comm, const void *mine, void *all, size_t size);

#endif
