/* Plans as Chakra execution traces. */
#ifndef PLAN_CHAKRA_WRITE_H
#define PLAN_CHAKRA_WRITE_H

#include <stdio.h>

#include "problem.h"

/*
 * Writes the plan, for blocks of options->size in pieces of at most options->piece_size, as the
 * nodes of its rank. The n-th message of a rank to another has tag n on both sides. RONDO_MEMORY;
 * RONDO_UNSUPPORTED where the plan has direct access, or without protobuf-c.
 */
int chakra_write_plan(const struct rd_plan *plan, const struct plan_options *options, FILE *out);

/* Writes the plans of all ranks to files NAME.RANK.et, where NAME is options->output. Returns 0 or
   an error with its reason. */
int chakra_export(const struct plan_problem *made, const struct plan_options *options,
	const struct rd_algorithm *algorithm);

#endif
