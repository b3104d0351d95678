/* The creation of a comm (comm/comm.h), for rondo_comm_create() and rondo_comm_split(). */
#ifndef RD_COMMUNICATOR_H
#define RD_COMMUNICATOR_H

#include "comm/comm.h"

/*
 * Creates a comm of complete settings; takes over their rendezvous_fd. parent: the comm whose ranks
 * it has, and whose failure ends the creation; NULL: none. Returns 0 or an error.
 */
int rd_comm_make(struct rondo_comm **comm, const struct rd_settings *settings,
	const struct rondo_comm *parent);

#endif
