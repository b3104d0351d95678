/* The contract suite on the transports of a plug-in, or on one of Rondo's own. */
#ifndef CHECK_TRANSPORT_H
#define CHECK_TRANSPORT_H

#include "check/options.h"
#include "check/report.h"
#include "base/settings.h"
#include "transports/contract/suite.h"

/* path: a plug-in's, or the name of a transport of Rondo's own. False, with a reason (rd_fail),
   where the plug-in cannot be loaded, or the hardware is missing. */
bool check_transports(const char *path, const struct options *options,
	const struct rd_settings *settings, struct report *report);

/* The speed of a link between two processes of this host, as cases beside those of the contract. */

#define SPEED_TEXT 160

/* Each measures one figure, and writes it to speed_text. NULL name at the end. */
extern const struct contract_case speed_cases[];

/* SPEED_TEXT bytes that the process of a case shares with its parent; set before a case runs. */
extern char *speed_text;

#endif
