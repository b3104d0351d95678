/*
 * Measuring what a comm's links, memory and shared cores cost, when it is made: two ranks on one
 * host exchange messages, then two on different hosts, over the real links by the very executor;
 * and where ranks share cores, all of them meet a few times. That takes a few milliseconds at most
 * on one host. What was measured under the same conditions before, by this process or by the file
 * that RONDO_TUNE_FILE names (tune.h), is not measured again. Rank 0 tells everybody.
 */
#ifndef RD_GAUGE_H
#define RD_GAUGE_H

#include <stdbool.h>
#include <stddef.h>

struct rondo_comm;

/* Fills in comm->costs, the same on every rank. Collective; once all links are open, before the
   first call. It leaves no trace in what calls are called. */
int rd_gauge(struct rondo_comm *comm);

/* ---- For those who measure ----------------------------------------------------------------- */

struct rd_call;

/* Runs a call that is not counted: another rank may be in its user's first call already. */
int rd_gauge_call(struct rondo_comm *comm, struct rd_call call);
/* A barrier that is not counted. */
int rd_gauge_meet(struct rondo_comm *comm);
/* Rank 0's bytes go to everybody, down a binomial tree. */
int rd_gauge_tell(struct rondo_comm *comm, void *bytes, size_t size);
/* From now on all that links can lend is lent, or nothing. On all ranks that measure together. */
void rd_gauge_lend(struct rondo_comm *comm, bool lends);

#endif
