/*
 * Messages that land in the receiver's registered memory, with no copy. The receiver announces the
 * address for the next message. A sender that has the announcement in time writes the payload
 * there, and the header to the slot; else both go to the slot, and the announcement is void.
 */
#ifndef RD_VERBS_LANDING_H
#define RD_VERBS_LANDING_H

#include "transports/verbs/link.h"

/* In a header's size: the payload has landed. Messages are shorter. */
#define RD_VERBS_LANDED 0x80000000u

/* Announces `into` for the next message, once, if it lies in registered memory and that is worth
   while. */
void rd_verbs_landing_announce(struct rd_verbs_link *link, void *into, size_t size);

/* The peer's announcement has arrived by that rail. */
void rd_verbs_landing_arrived(struct rd_verbs_link *link, int rail);

/* Writes the payload of message number `number`, `part`, if the peer has announced where. False:
   it has not. There is room for the request. */
bool rd_verbs_landing_write(struct rd_verbs_link *link, uint64_t number, struct ibv_sge *part);

#endif
