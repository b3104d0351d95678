/* How the coordinator has the ranks open their links, and fall back to the next transport. */
#ifndef RD_COORDINATOR_LINKS_H
#define RD_COORDINATOR_LINKS_H

#include "bootstrap/coordinator/coordinator.h"

/* A LINK_FAILED has come from this rank. Both of a pair may send it: the second changes nothing.
   False: it makes no sense. */
bool rd_links_failed(
	struct rd_coordinator *coordinator, int rank, const struct rd_link_failure *link_failure);
/* An OPEN has come from this rank. False: it makes no sense. */
bool rd_links_open(
	struct rd_coordinator *coordinator, int rank, const struct rd_control_message *message);
/* This rank has left: those that open links to it learn of it. */
void rd_links_left(struct rd_coordinator *coordinator, int leaver);
/* A READY has come from a rank that is not ready. */
void rd_links_ready(struct rd_coordinator *coordinator, struct rd_coordinator_rank *state,
	const struct rd_control_message *message);

/* The least limits of all ranks' links, once all are ready. */
struct rd_link_limits rd_links_limits(const struct rd_coordinator *coordinator);

#endif
