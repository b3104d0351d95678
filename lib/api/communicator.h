/* Making a communicator: api/communicator.c makes and destroys what comm/comm.h describes. */
#ifndef RD_COMMUNICATOR_H
#define RD_COMMUNICATOR_H

#include "comm/comm.h"

/*
 * A comm of these settings, which are complete; takes over their rendezvous_fd. parent: the comm of
 * whose ranks it is made, and whose failure ends the making; NULL: none.
 */
int rd_comm_make(struct rondo_comm **comm, const struct rd_settings *settings,
	const struct rondo_comm *parent);

#endif
