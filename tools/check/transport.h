/* The contract suite on the transports of a plug-in, or on one of Rondo's own. */
#ifndef CHECK_TRANSPORT_H
#define CHECK_TRANSPORT_H

#include "check/options.h"
#include "check/report.h"
#include "base/settings.h"

/* path: a plug-in's, or the name of a transport of Rondo's own. False, with a reason (rd_fail),
   where the plug-in cannot be loaded, or the hardware is missing. */
bool check_transports(const char *path, const struct options *options,
	const struct rd_settings *settings, struct report *report);

#endif
