/*
 * How the executor combines the values of messages with this rank's: by the call's operation, or as
 * parts of a mean.
 */
#ifndef RD_VALUES_H
#define RD_VALUES_H

#include "exec/exec.h"

/* into = message op from. */
void rd_values_combine(struct rd_exec *exec, const struct rd_step *step, void *into,
	const void *message, const void *from, size_t count);

/* The same into a slot of a link, and into our own memory too unless `into` is NULL. */
void rd_values_combine_to_slot(struct rd_exec *exec, const struct rd_link *link,
	const struct rd_step *step, char *slot, char *into, const char *message, const char *from,
	size_t count);

/* into = the values of all ranks, in their order, from byte `at` of each source; at most
   RD_EXEC_BLOCK bytes. */
void rd_values_combine_all(
	struct rd_exec *exec, char *into, const char *const *sources, size_t at, size_t count);

#endif
