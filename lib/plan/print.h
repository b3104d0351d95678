/* Plans and their steps as text. */
#ifndef RD_PRINT_H
#define RD_PRINT_H

#include "plan/plan.h"

/* Prints a step into text, e.g. "reduce_forward chunk 2 from 1 to 3". Returns the length it would
   have (as snprintf). */
int rd_step_print(const struct rd_step *step, char *text, size_t size);

/* Adds the steps of the plan to a digest (hash.h). */
uint64_t rd_plan_digest(const struct rd_plan *plan, uint64_t digest);

/* RONDO_INVALID, with the reason of what is wrong with this step, after its rank, number and text.
 */
int rd_step_wrong(const struct rd_plan *plan, int step, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
