/* The contract suite on the transports of a plug-in. */
#ifndef CHECK_TRANSPORT_H
#define CHECK_TRANSPORT_H

#include "check/options.h"
#include "check/report.h"
#include "base/settings.h"

/* False, with a reason (rd_fail), where the plug-in cannot be loaded. */
bool check_transports(const char *path, const struct options *options,
	const struct rd_settings *settings, struct report *report);

#endif
