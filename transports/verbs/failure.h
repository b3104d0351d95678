/*
 * Failures of a rail, as one link meets them.
 */
#ifndef RD_VERBS_FAILURE_H
#define RD_VERBS_FAILURE_H

#include "transports/verbs/link.h"

/* The queue pair has failed: a completion has this status, or the device refused a request
   (pair->error; status is then IBV_WC_GENERAL_ERR). */
void rd_verbs_rail_failed(
	struct rd_verbs_link *link, struct rd_verbs_queue_pair *pair, enum ibv_wc_status status);

#endif
