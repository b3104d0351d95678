/*
 * A schedule: an algorithm's plans for one collective, on all ranks, ready to be priced (predict.h) at
 * any size. Each rank's part is a rank schedule, each step of it an event.
 */
#ifndef RD_SCHEDULE_H
#define RD_SCHEDULE_H

#include "tuner/cost.h"
#include "plan/plan.h"

/* Beyond so many ranks, and before that where plans are long, they are not played but added up, for
   a few of the ranks: the others' are not even written. */
#define RD_PLAYED_MAX 64

/* Pieces that are played one by one; what follows takes as long as the last of them. */
#define RD_PLAYED_PIECES 3

/* One step of one rank, with all that its price depends on. */
struct rd_event {
	enum rd_step_kind kind;
	bool puts, takes, receives; /* a message, as the step does */
	bool stores; /* a value that is passed on is stored here as well */
	bool lies; /* what it passes on lies in the user's memory, and may be sent from there */
	enum rd_link_class from, to; /* the links that it uses */
	int sender; /* the event that puts the message that it takes; else -1 */
	int taker; /* puts: the rank that takes it */
	int outs; /* COMBINE: ranks that get the result */
};

/* A rank schedule is what one rank plays. */
struct rd_rank_schedule {
	int first, count; /* events */
	int host;
};

/* A rank while it is played. */
struct rd_rank_state {
	int piece, event; /* what comes next */
	int64_t ready_ns; /* when it could go on */
	bool waits; /* for a message that is not sent yet, since ready_ns */
};

/* One of a host whose ranks share them. */
struct rd_core {
	int host;
	int last; /* the rank that it ran last; -1: none yet */
	int64_t free_ns;
};

struct rd_schedule {
	int size; /* ranks of the problem */
	int parts;
	int blocks; /* in the input and output of the rank that has the most */
	int peers; /* the most that any rank sends to */
	bool sampled; /* not played, but added up */
	int rank_count; /* as many as ranks, or a few where it is sampled */
	struct rd_rank_schedule *rank_schedules;
	struct rd_event *events;
	int event_count;
	int host_count;
	int *host_ranks; /* [host_count] */
	/* For playing, one at a time: */
	/* [RD_PLAYED_PIECES][events]: when an event's message arrives; -1: it is not yet sent. */
	int64_t *sent_ns;
	struct rd_rank_state *states; /* [rank schedules] */
	struct rd_core *cores; /* [rank schedules] */
	int *free; /* [rank schedules]: a stack of those that can go on, and have a core to themselves */
};

/* The groups of the problem's layout are hosts; its rank does not matter. An error, with its reason,
   where the algorithm writes no valid plan. */
int rd_schedule_create(struct rd_schedule **schedule, const struct rd_algorithm *algorithm,
	const struct rd_problem *problem);
void rd_schedule_destroy(struct rd_schedule *schedule);

/* What puts the message that this one takes; NULL: it takes none, or that is not known. */
static inline const struct rd_event *rd_schedule_put(
	const struct rd_schedule *schedule, const struct rd_event *event)
{
	return event->takes && event->sender >= 0 ? &schedule->events[event->sender] : NULL;
}

#endif
