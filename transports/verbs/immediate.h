/*
 * Immediate data of a link's requests: a kind, and in the low 16 bits the number of messages that
 * this side has released, modulo 2^16.
 */
#ifndef RD_VERBS_IMMEDIATE_H
#define RD_VERBS_IMMEDIATE_H

#include <arpa/inet.h>

#include "transports/verbs/link.h"

#define RD_VERBS_MESSAGE 0x80000000u
#define RD_VERBS_CREDITS 0x40000000u
#define RD_VERBS_RESUME 0x20000000u /* and the counts of resume.h */
#define RD_VERBS_LANDING 0x10000000u
#define RD_VERBS_KINDS 0xffff0000u

/* For a request that is posted next, in network order: all credits that are kept go with it. */
static inline uint32_t rd_verbs_immediate(struct rd_verbs_link *link, uint32_t kind)
{
	struct rd_verbs_input *in = &link->in;

	in->returned = in->released;
	in->returned_position = in->next.position;
	return htonl(kind | (uint16_t)in->released);
}

#endif
