/*
 * Completions of an endpoint's rails.
 */
#ifndef RD_VERBS_COMPLETION_H
#define RD_VERBS_COMPLETION_H

#include "transports/verbs/rail.h"

/* Passes the completions of a rail that have come to their links. True: there were some. */
bool rd_verbs_rail_poll(struct rd_verbs_rail *rail);

#endif
