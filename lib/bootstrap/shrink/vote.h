/*
 * A rank votes for a plan by its MADE, and may lose the leader before it hears the end of the plan.
 * The leader may have committed it to others, which go on in that comm, or in one that it shrank
 * to. So the rank remembers the plan, and votes for the next one only if those cannot.
 */
#ifndef RD_SHRINK_VOTE_H
#define RD_SHRINK_VOTE_H

#include "bootstrap/shrink/quorum.h"

/*
 * Before a vote for the comm that this rank has made; members: its ranks, NULL if it is alone.
 * Those of the plan before that are in the new comm must be as many as leader.c asks of those that
 * meet. 0: from now on this rank remembers the new comm. RONDO_TIMEOUT: they are not; RONDO_MEMORY;
 * both with the quorum's reason.
 */
int rd_vote(struct rd_quorum *quorum, const struct rd_member *members);

/* The leader has told the end of the plan; or no plan is left. */
void rd_vote_forget(struct rd_vote *vote);

#endif
