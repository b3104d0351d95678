/*
 * Losses: pairs of ranks whose link over a transport did not come about, though the transport says
 * that it reaches. Whoever of a pair sees it tells the coordinator; the coordinator tells both,
 * each link failure once and in one order, so both go on to the same next transport (rendezvous.h,
 * route.c).
 */
#ifndef RD_LINK_FAILURE_H
#define RD_LINK_FAILURE_H

#include <stdbool.h>
#include <stdint.h>

#define RD_LINK_FAILURE_NAME 16
#define RD_LINK_FAILURE_REASON 160

struct rd_link_failure {
	int32_t low, high; /* the pair */
	int32_t by; /* which of them saw it */
	char transport[RD_LINK_FAILURE_NAME];
	char reason[RD_LINK_FAILURE_REASON];
};

/* As many as there are; all zero: none. */
struct rd_link_failures {
	struct rd_link_failure *at;
	int count, capacity;
};

/* False: no memory. */
bool rd_link_failures_add(
	struct rd_link_failures *link_failures, const struct rd_link_failure *link_failure);
void rd_link_failures_finish(struct rd_link_failures *link_failures);

/* Whether the same pair's link over the same transport is among them, whoever saw it. */
bool rd_link_failures_have(
	const struct rd_link_failures *link_failures, const struct rd_link_failure *link_failure);

#endif
