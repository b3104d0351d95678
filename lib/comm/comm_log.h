/* Logs the properties of a new comm, in the kinds of lines that docs/logs.md lists. */
#ifndef RD_COMM_LOG_H
#define RD_COMM_LOG_H

#include "comm/comm.h"

void rd_comm_log(const struct rondo_comm *comm, const struct rd_member *members);
/* The links to a peer are open. */
void rd_comm_log_links(const struct rondo_comm *comm, int peer);
/* A pair of ranks, of which this is one, continues over another transport. */
void rd_comm_log_fallback(const struct rondo_comm *comm, const struct rd_link_failure *link_failure,
	const struct rd_transport *next);

#endif
