/* Algorithms on trees of ranks, and those in two levels. */
#ifndef RD_TREE_H
#define RD_TREE_H

#include "plan/plan.h"

/* Binomial trees: few messages, for short blocks. */
extern const struct rd_algorithm rd_binomial;

/* Two binary trees, each for half of the buffer. */
extern const struct rd_algorithm rd_tree;

/* One rank of each group, its leader, acts for the others: the fewest messages on slow links. */
extern const struct rd_algorithm rd_leaders;

/* Write a reduce, or a broadcast, in two levels, each by this algorithm. The plan is for the
   whole problem, whose layout has groups, and has one part. */
void rd_leaders_reduce(struct rd_plan *plan, const struct rd_algorithm *algorithm);
void rd_leaders_broadcast(struct rd_plan *plan, const struct rd_algorithm *algorithm);

/* Inside the hosts, between them, and inside again: the fewest bytes on slow links. */
extern const struct rd_algorithm rd_hierarchical;

/* The same all-reduce, overlapped: for long blocks. */
extern const struct rd_algorithm rd_pipelined;

#endif
