/*
 * An endpoint of verbs, as its links see it. verbs.c creates it.
 */
#ifndef RD_VERBS_ENDPOINT_H
#define RD_VERBS_ENDPOINT_H

#include "transports/tcp/connector.h"
#include "transports/verbs/link.h"
#include "transports/verbs/rail.h"
#include "transports/verbs/region.h"

struct rd_verbs_endpoint {
	struct rd_endpoint base;
	const struct rd_local *local;
	struct rd_tcp_connector connector; /* its station's epoll has the links' sockets, too */
	int rail_count;
	struct rd_verbs_rail rails[RD_VERBS_RAILS_MAX];
	struct rd_verbs_regions regions;
	struct rd_verbs_link *links;
	int unfinished; /* links neither ready nor failed */
	unsigned calls; /* of advance() since the last poll of events */
	bool hung_up; /* at least one link is, and may have messages left */
};

#endif
