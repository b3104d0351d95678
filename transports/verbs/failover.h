/*
 * Failover inside a link: a queue pair fails, and the link goes on over the next rail that works.
 *
 *   1. Either side detects it: an error completion, a refused request, an event of the port or the
 *      device, or the other side's resume on a later rail. It moves its queue pair to error, so
 *      that nothing more arrives there. Messages wait from now on.
 *   2. When the receives of that queue pair have been flushed, all that arrived before has been
 *      counted. The side then sends a resume (resume.h) over the next rail.
 *   3. When it has the other side's resume as well, it sends again the messages that have not
 *      arrived there, and goes on.
 *
 * A rail that has failed is not used again by this link. Both sides take rails in the same order,
 * so a resume on a later rail gives up all before it. Without a rail that works, the link fails.
 */
#ifndef RD_VERBS_FAILOVER_H
#define RD_VERBS_FAILOVER_H

#include "transports/verbs/link.h"

/* The queue pair on a rail has failed: reason in words. */
void rd_verbs_rail_failed(struct rd_verbs_link *link, int rail, const char *reason);

/* A completion of the queue pair has an error status, or the device has refused a request of it:
   pair->error. */
void rd_verbs_completion_failed(struct rd_verbs_link *link, struct rd_verbs_queue_pair *pair,
	const struct ibv_wc *completion);
void rd_verbs_request_refused(struct rd_verbs_link *link, struct rd_verbs_queue_pair *pair);

/* The peer's resume has arrived over a queue pair. */
void rd_verbs_resume_arrived(
	struct rd_verbs_link *link, struct rd_verbs_queue_pair *pair, uint32_t immediate);

#endif
