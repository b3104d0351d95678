/*
 * Completion statuses and events of RDMA devices, in words.
 */
#ifndef RD_VERBS_STATUS_H
#define RD_VERBS_STATUS_H

#include <infiniband/verbs.h>

struct rd_verbs_status {
	const char *name; /* "IBV_WC_RETRY_EXC_ERR" */
	const char *meaning; /* its usual cause, of a write to a peer: "the peer does not answer" */
};

/* The status of a completion; one that this table lacks has a general meaning. */
struct rd_verbs_status rd_verbs_completion_status(enum ibv_wc_status status);

/* The failure that an event reports; NULL: none. */
const char *rd_verbs_event_text(enum ibv_event_type event);

#endif
