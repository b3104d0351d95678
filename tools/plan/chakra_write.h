/* Plans as Chakra execution traces. */
#ifndef PLAN_CHAKRA_WRITE_H
#define PLAN_CHAKRA_WRITE_H

#include "problem.h"

/*
 * Writes the plans of all ranks to files NAME.RANK.et, where NAME is options->output, for blocks of
 * options->size in pieces of at most options->piece_size. The n-th message of a rank to another has
 * tag n on both sides. Returns 0 or an error with its reason, such as that plans have direct
 * access, or more nodes than a trace.
 */
int chakra_export(const struct plan_problem *made, const struct plan_options *options,
	const struct rd_algorithm *algorithm);

#endif
