/*
 * Rehearsals: whether messages are better lent (link->lends) or written into the link's room, seen
 * in real calls on this very comm. What a message costs by itself does not say it: who would have
 * been idle meanwhile, and what is still in whose cache, decides.
 */
#ifndef RD_REHEARSE_H
#define RD_REHEARSE_H

struct rondo_comm;

/*
 * Fills in comm->costs.lend_min, the same on every rank, in a few milliseconds at most.
 * Collective. Leaves it as it is where no link lends, on several hosts, where ranks share cores
 * (who borrows must run to give back: nothing is lent there), and where ranks are so many that it
 * would take long.
 */
int rd_rehearse(struct rondo_comm *comm);

#endif
