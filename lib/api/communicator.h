/* The creation of a comm (comm/comm.h), for the functions that create one. */
#ifndef RD_COMMUNICATOR_H
#define RD_COMMUNICATOR_H

#include "comm/comm.h"

/* The comm that a new one comes from. */
struct rd_comm_origin {
	const struct rondo_comm *parent; /* its failure ends the creation; NULL: none */
	const struct rd_line *line; /* of the comm that has shrunk; NULL: none has */
};

/* Creates a comm of complete settings; takes over their rendezvous_fd. Returns 0 or an error. */
int rd_comm_make(struct rondo_comm **comm, const struct rd_settings *settings,
	const struct rd_comm_origin *origin);

#endif
