/*
 * How the ranks that are left of a failed comm meet, and agree on who they are. The caller's thread
 * runs this, and waits in it. quorum.h decides; here are its connections.
 *
 * Each rank connects to the lowest one that it does not take for failed, the leader, at the place
 * of its lineage (listener.h). That one waits until all have come but those that failed, and then
 * sends each its number in the new comm, and where that meets. All make the new comm, in the usual
 * way. The leader commits it once all have made it; else, or where the leader is gone, all begin
 * again. The messages are those of a control connection, and each proves the job's secret first:
 *
 *   GATHER ->                   the lineage, and this rank's origin
 *   <- LEFT                     this process lives; its comms of the lineage do not
 *   <- HEARTBEAT                the leader is there, and waits this long for the others
 *   <- PLAN                     number and size in the new comm, the port where it meets, and how
 *                               many ranks are lost
 *   MADE ->                     whether this rank has made it: its vote
 *   <- MADE                     all have, which commits it; or, in place of PLAN or MADE:
 *   <- VERDICT                  RONDO_DIED: begin again; else the end, with the reason
 *
 * A commit may not reach all before the leader dies, or is cut off. Then those that it reached have
 * a comm that fails, and meet the others again, in the same lineage. The others do not know whether
 * such ranks go on without them. A rank that has voted for a plan, and lost the leader before it
 * heard its end, votes for the next one only if that plan's ranks cannot go on elsewhere (peers.c).
 *
 * A rank has failed where the verdict calls it dead or silent, or no process listens at its place,
 * or that sends LEFT.
 * Refusals from other hosts are tried again for a second: a firewall may send them. One that
 * answers is waited for, timeout_ms long, also where a reset had cut it off. It may be that such
 * ranks live on and meet by themselves.
 * Then those that meet go on if they are more than half of the failed comm, or half with rank 0;
 * else they return an error. So no two comms go on. The dead count, too: they may have gone on with
 * such ranks, and died after that.
 */
#ifndef RD_SHRINK_H
#define RD_SHRINK_H

#include "base/settings.h"
#include "bootstrap/control.h"
#include "bootstrap/shrink/quorum.h"

struct rd_shrink;

/* settings, control, vote: of the failed comm; outlive the shrink. Each wait for a rank takes
   timeout_ms at most. RONDO_SYSTEM, RONDO_MEMORY; RONDO_TIMEOUT where the verdict is that this rank
   was lost. */
int rd_shrink_create(struct rd_shrink **shrink, const struct rd_settings *settings,
	struct rd_control *control, struct rd_vote *vote, int timeout_ms);
void rd_shrink_destroy(struct rd_shrink *shrink);

/* Meets the others. The settings, of the failed comm, get what the new comm needs: rank, size,
   address, port, rendezvous_fd. Until rd_shrink_agree(), a rank's death cancels the creation of a
   comm by this thread (base/cancellation.h). RONDO_TIMEOUT: too few ranks have come. */
int rd_shrink_meet(struct rd_shrink *shrink, struct rd_settings *settings);

/* This rank has made the new comm, or not: error, with its reason recorded. made: the control of
   the new comm; NULL: none, or this rank is alone in it. 0: all have; it is valid from now on. 1:
   they have not; give it up, and meet again. Else an error, on all ranks. */
int rd_shrink_agree(struct rd_shrink *shrink, int error, const struct rd_control *made);

#endif
