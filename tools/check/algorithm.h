/* Proofs of algorithms, for many problems: those of a plug-in (rondo-check), or one
   (rondo-plan). */
#ifndef CHECK_ALGORITHM_H
#define CHECK_ALGORITHM_H

#include <stdbool.h>

#include "base/settings.h"
#include "check/options.h"
#include "check/report.h"
#include "rondo/algorithm.h"

/* False, with a reason (rd_fail), where the plug-in cannot be loaded. */
bool check_algorithms(const char *path, const struct options *options,
	const struct rd_settings *settings, struct report *report);

/* Proves one algorithm for 1 to `ranks` ranks and some more: its collectives that `wanted` has. */
void check_algorithm(const struct rd_algorithm *algorithm, const bool wanted[RD_COLLECTIVE_COUNT],
	int ranks, struct report *report);

#endif
