/* How the coordinator admits ranks, or refuses them. */
#ifndef RD_COORDINATOR_JOIN_H
#define RD_COORDINATOR_JOIN_H

#include "bootstrap/coordinator/coordinator.h"

/* Takes the first message over a connection: a HELLO, or a REPORT of a rank that cannot take
   part. */
void rd_join_first(struct rd_coordinator *coordinator, struct rd_coordinator_connection *connection,
	const struct rd_control_message *message);

#endif
