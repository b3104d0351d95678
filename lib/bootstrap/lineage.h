/*
 * The lineage of a comm: it, and those that it has shrunk to, one after the other. All have one
 * place where their rank is met after a failure (shrink/): the listener (listener.h) of the first
 * comm's job, which lives as long as one of them. Ranks are told apart by their number in the first
 * comm, their origin.
 */
#ifndef RD_LINEAGE_H
#define RD_LINEAGE_H

#include <stdint.h>

#include "base/settings.h"
#include "bootstrap/listener.h"
#include "bootstrap/member.h"

struct rd_lineage {
	uint64_t id; /* the id of the first comm; 0: this comm is the first */
	struct rd_lineage_address place; /* of this rank */
	struct rd_arrivals *arrivals; /* which come there; NULL: none do */
};

/* The place of this rank, in a comm whose job has this listener, which is open. */
void rd_lineage_place(struct rd_lineage *lineage, const struct rd_listener *listener, int origin);
/* The first comm, which has this id now: ranks that shrink it may come. most: as
   rd_arrivals_open(). RONDO_MEMORY. */
int rd_lineage_begin(
	struct rd_lineage *lineage, uint64_t id, struct rd_listener *listener, int most);
/* Another comm of the lineage. */
void rd_lineage_join(struct rd_lineage *lineage, const struct rd_lineage *of);
/* The comm ends, or has shrunk; again: does nothing. */
void rd_lineage_end(struct rd_lineage *lineage);

/* A comm that meets at this place of a rank of another comm, whose settings these are. */
void rd_lineage_meet(struct rd_settings *settings, const struct rd_lineage_address *place);

#endif
