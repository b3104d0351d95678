/* The ranks of a new comm meet. */
#ifndef RD_MEET_H
#define RD_MEET_H

#include "api/communicator.h"
#include "base/settings.h"

/*
 * Sets address, port and rendezvous_fd of settings that were read: by the program's unique id, over
 * PMI, or at the socket that a launcher opened. Otherwise they stay as they are. In rank 0,
 * rendezvous_fd is then the new comm's own. Waits for the other ranks where that takes PMI.
 */
int rd_meet_where(struct rd_settings *settings, const struct rondo_config *config);

/* Meets the other ranks, connects to each, and finds the costs. Returns 0 or an error. */
int rd_meet(struct rondo_comm *comm, const struct rd_identity *self,
	const struct rd_comm_origin *origin);
/* Those that it has made. */
void rd_meet_destroy_layouts(struct rondo_comm *comm);

#endif
