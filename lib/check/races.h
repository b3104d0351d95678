/*
 * The part of the checker for plans of direct access: it finds data races on the memory of ranks.
 * Two accesses of different ranks to one chunk of one rank's memory, of which at least one writes,
 * must be ordered. Plans order them, and the messages and signals between plans. A rank may end
 * only after all accesses of others to its memory. The same holds in place, where an output chunk
 * is an input chunk as well.
 *
 * Vector clocks keep the order: for each rank, the steps of each other rank that are surely behind
 * it. The proof therefore holds for every order in which the ranks may run, not for one run alone.
 *
 * Sources: C. Fidge, "Timestamps in message-passing systems that preserve the partial ordering",
 * 1988; F. Mattern, "Virtual time and global states of distributed systems", 1989.
 */
#ifndef RD_RACES_H
#define RD_RACES_H

#include "plan/plan.h"

struct rd_access;

struct rd_races {
	struct rd_plan *const *plans;
	int size; /* 0: no plan has direct access, and there is nothing to do */
	int *clocks; /* [rank][size] */
	int *shared; /* by rank: the snapshot that still equals its clock; -1: none */
	int *snapshots; /* [snapshot][size]: clocks as they were sent */
	int snapshot_count, snapshot_capacity;
	int *first_cells; /* by rank, and one more: index of its first cell */
	int *heads; /* by cell: its last access; -1: none */
	struct rd_access *accesses;
	int access_count, access_capacity;
};

/* plans[size], with valid fields. rd_races_finish() must follow, also after an error. */
int rd_races_init(struct rd_races *races, struct rd_plan *const *plans, int size);
void rd_races_finish(struct rd_races *races);

/* Records that the rank's step puts a message on a link; the message carries *clock. */
int rd_races_send(struct rd_races *races, int rank, int *clock);

/*
 * Record that the rank executes this step. The first is for a step without a message, the second
 * for one that takes the message of step `sent` of `sender`. The memory that it accesses at other
 * ranks must exist there. RONDO_INVALID with the reason where another rank may access the same
 * memory at the same time. The same where the step reads an input that is overwritten in place.
 */
int rd_races_step(struct rd_races *races, int rank, int step);
int rd_races_receive(struct rd_races *races, int rank, int step, int sender, int sent, int clock);

/* Checks, after the last step of all ranks, that no rank ended before the others' accesses to
   its memory. */
int rd_races_end(const struct rd_races *races);

#endif
