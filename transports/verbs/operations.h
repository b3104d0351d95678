/*
 * The operations of a link, as struct rd_link_ops describes them.
 */
#ifndef RD_VERBS_OPERATIONS_H
#define RD_VERBS_OPERATIONS_H

#include "transports/verbs/link.h"

extern const struct rd_link_ops rd_verbs_link_ops;

/* The peer is gone: fails the link if no message of its is left. True: the link has failed. */
bool rd_verbs_link_check_end(struct rd_verbs_link *link);

#endif
