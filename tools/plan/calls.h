/* The calls of rondo/algorithm.h that write a plan again, as the steps of a plan file. */
#ifndef PLAN_CALLS_H
#define PLAN_CALLS_H

#include "plan/plan_file.h"

/* Adds the steps of one rank's plan to the file, and ends the rank. Returns 0 or an error. */
int plan_calls_add(struct rd_plan_file *file, const struct rd_plan *plan);

/*
 * Makes a file of the plans that an algorithm writes for all ranks of the problem. It keeps name
 * and range of a plan file; of another algorithm it makes a name, and the range is all sizes.
 * rd_plan_file_destroy() frees it.
 */
int plan_calls_file(struct rd_plan_file **file, const struct rd_algorithm *algorithm,
	const struct rd_problem *problem);

#endif
