/*
 * Measuring what a comm's links, memory and shared cores cost, when it is made: two ranks on one
 * host exchange messages, then two on different hosts, over the real links by the very executor;
 * and where ranks share cores, all of them meet a few times. That takes a few milliseconds at most
 * on one host. What was measured under the same conditions before, by this process or by the file
 * that RONDO_TUNE_FILE names (cost_file.h), is not measured again. Rank 0 tells everybody.
 */
#ifndef RD_CALIBRATE_H
#define RD_CALIBRATE_H

struct rondo_comm;

/* Fills in comm->costs, the same on every rank. Collective; once all links are open, before the
   first call. It leaves no trace in what calls are called. */
int rd_calibrate(struct rondo_comm *comm);

#endif
