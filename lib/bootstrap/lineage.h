/*
 * The lineage of a comm: it, and those that it has shrunk to, one after the other. All have one
 * place where their rank is met after a failure (shrink/): a socket that listens from the first
 * comm's creation on (arrivals.h). Ranks are told apart by their number in the first comm, their
 * origin.
 */
#ifndef RD_LINEAGE_H
#define RD_LINEAGE_H

#include <stdint.h>
#include <sys/socket.h>

#include "base/close_on_fork.h"
#include "base/settings.h"
#include "bootstrap/member.h"

struct rd_lineage {
	uint64_t id; /* the id of the first comm; 0: this comm is the first */
	struct rd_lineage_address place; /* of this rank */
	int listen_fd; /* -1: none */
	struct rd_close_on_fork unshared;
};

/* Listens at any port of this address, a socket's own: the lineage's place, of this origin. Again:
   closes the socket from before. RONDO_SYSTEM. */
int rd_lineage_open(struct rd_lineage *lineage, const struct sockaddr_storage *address, int origin);
/* Another comm of the lineage, with the same socket. lineage: without one. RONDO_SYSTEM. */
int rd_lineage_join(struct rd_lineage *lineage, const struct rd_lineage *of);
void rd_lineage_close(struct rd_lineage *lineage);
/* Where it listens; zeros, where it does not. */
struct sockaddr_storage rd_lineage_near(const struct rd_lineage *lineage);

/* A comm that meets at this place of a rank of another comm, whose settings these are. */
void rd_lineage_meet(struct rd_settings *settings, const struct rd_lineage_address *place);

#endif
