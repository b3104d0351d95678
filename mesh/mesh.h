/* Algorithms in which each rank exchanges messages with many others, or reads their memory. */
#ifndef RD_MESH_H
#define RD_MESH_H

#include "plan/plan.h"

/* Plans in which the ranks that share a block send it to each other directly. */
extern const struct rd_algorithm rd_linear;

/* Plans in which partners exchange and combine, at distances that double. */
extern const struct rd_algorithm rd_doubling;

/* Recursive halving and doubling: an all-reduce of few messages and few bytes. */
extern const struct rd_algorithm rd_halving;

/* Each rank sends its data to every rank that needs it: one round of messages. */
extern const struct rd_algorithm rd_one_round;

/* A binomial tree for each chunk, all at once. */
extern const struct rd_algorithm rd_pat;
void rd_pat_all_gather(struct rd_plan *plan);

/* Plans that read and write peers' memory directly. */
extern const struct rd_algorithm rd_two_shot;

/* Shared by all plans of direct access. The first: there are other ranks. The second: no rank
   ends before all are done. */
bool rd_two_shot_may_run(const struct rd_problem *problem);
void rd_two_shot_part(struct rd_plan *plan);

/* An all-reduce by direct access, in which every rank combines everything for itself. */
extern const struct rd_algorithm rd_one_shot;

/* An all-gather and a broadcast by direct access, in which each rank serves all. */
extern const struct rd_algorithm rd_mesh_spread;

/*
 * The messages of a buffer exchange (comm/buffer_exchange.h): each rank sends one of a cache line
 * to each of the others. More than 16 ranks gather them as rd_pat does, by log2(n) links each way.
 * The library runs it before calls of direct access; it is not in the table of algorithms.
 */
extern const struct rd_algorithm rd_buffer_exchange_plan;

#endif
