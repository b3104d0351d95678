/*
 * The part of the checker that looks at plans of direct access: who may touch which memory of which
 * rank, and when. Two accesses of different ranks to one chunk of one rank's memory, of which at
 * least one writes, must be ordered: by the plans, and by the messages and signals between them. A
 * rank may end only after all that others do to its memory. In place, where an output chunk is an
 * input chunk as well, the same.
 *
 * The order is kept in vector clocks (C. Fidge, "Timestamps in message-passing systems that
 * preserve the partial ordering", 1988; F. Mattern, "Virtual time and global states of distributed
 * systems", 1989): for each rank, how many steps of each other rank are surely behind it. So what
 * is proved holds for every order in which the ranks may run, not for that of one run alone.
 */
#ifndef RD_RACES_H
#define RD_RACES_H

#include "plan/plan.h"

struct rd_access;

struct rd_races {
	struct rd_plan *const *plans;
	int size; /* 0: no plan is one of direct access, and there is nothing to do */
	int *clocks; /* [rank][size] */
	int *shared; /* by rank: number of the snapshot that its clock is still equal to; -1: none
		      */
	int *snapshots; /* [snapshot][size]: clocks as they were sent */
	int snapshot_count, snapshot_capacity;
	int *first_cells; /* by rank, and one more: where its cells begin */
	int *heads; /* by cell: its last access; -1: none */
	struct rd_access *accesses;
	int access_count, access_capacity;
};

/* plans[size], their fields sound. Must be finished in any case. */
int rd_races_init(struct rd_races *races, struct rd_plan *const *plans, int size);
void rd_races_finish(struct rd_races *races);

/* The rank's step puts a message on a link: *clock goes with it. */
int rd_races_send(struct rd_races *races, int rank, int *clock);

/*
 * The rank takes this step, which takes no message; or one from `sender`, put there by its step
 * `sent`. What it touches at other ranks must exist there. RONDO_INVALID with the reason where
 * another rank may be at the same memory, or where it reads an input that is overwritten in place.
 */
int rd_races_step(struct rd_races *races, int rank, int step);
int rd_races_receive(struct rd_races *races, int rank, int step, int sender, int sent, int clock);

/* All ranks have taken all steps: was each alone with its memory by then? */
int rd_races_end(const struct rd_races *races);

#endif
