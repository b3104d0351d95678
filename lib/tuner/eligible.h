/* The algorithms that may run a problem. */
#ifndef RD_ELIGIBLE_H
#define RD_ELIGIBLE_H

#include "plan/plan.h"

/* Returns 1 if the algorithm claims this problem and, if a plug-in brought it, is proved for it; 0
   if not. RONDO_MEMORY, with its reason recorded: there is no memory for the proof. */
int rd_algorithm_can(const struct rd_algorithm *algorithm, const struct rd_problem *problem);

/* The first that has a trait and can do the problem; NULL: none. */
const struct rd_algorithm *rd_algorithm_with(
	const struct rd_problem *problem, bool (*has_trait)(const struct rd_algorithm *algorithm));

/* The first of this name (NULL or "": of any) that can do the problem over any links, and so needs
   no direct access; NULL: none. */
const struct rd_algorithm *rd_algorithm_find(const struct rd_problem *problem, const char *name);

#endif
