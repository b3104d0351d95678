/* Proofs of the algorithms of a plug-in, for many problems. */
#ifndef CHECK_ALGORITHM_H
#define CHECK_ALGORITHM_H

#include "check/options.h"
#include "check/report.h"
#include "base/settings.h"

/* False, with a reason (rd_fail), where the plug-in cannot be loaded. */
bool check_algorithms(const char *path, const struct options *options,
	const struct rd_settings *settings, struct report *report);

#endif
