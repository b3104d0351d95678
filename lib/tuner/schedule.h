/*
 * A schedule: an algorithm's plans for one collective, on all ranks, from which predict.h computes
 * the time at any size. Each rank's part is a rank schedule; each step of it is an event.
 */
#ifndef RD_SCHEDULE_H
#define RD_SCHEDULE_H

#include "tuner/cost.h"
#include "tuner/path.h"
#include "tuner/thresholds.h"

/* The events of one rank. */
struct rd_rank_schedule {
	int first, count; /* events */
	int host;
};

/* The state of a rank in a replay. */
struct rd_rank_state {
	int piece, event; /* the next piece and event */
	int64_t ready_ns; /* when it could go on */
	bool waits; /* for a message that is not sent yet, since ready_ns */
	int core, turn; /* that core, and its place among the ranks there */
};

/* The work of an event in a replay, without its wait before that. */
struct rd_event_time {
	int64_t begin_ns, end_ns;
};

/* A core of a host whose ranks share cores. */
struct rd_core {
	int ranks; /* which take turns, one after the other */
	int next; /* whose turn is next */
	int64_t free_ns;
};

/* A host's cable: when it has carried all messages so far, in each direction. */
struct rd_cable {
	int64_t out_ns, in_ns;
};

struct rd_schedule {
	int size; /* ranks of the problem */
	int parts;
	int blocks; /* in the input and output of the rank with the most */
	uint64_t near_blocks; /* the same of all ranks of a host; of the host with the most */
	int peers; /* the most ranks that one rank sends to */
	bool sampled; /* not replayed: costs are added up for a sample of ranks */
	int rank_count; /* all ranks, or the sample */
	/* Those that stand for the others: all, or the even sample. After them come ranks
	   that have more to do, at hosts' edges and on the path. */
	int even_count;
	int edges[RD_SAMPLED_EDGES];
	struct rd_rank_schedule *rank_schedules;
	struct rd_event *events;
	int event_count;
	/* [2] of a sampled schedule: to its rank's last message, and to the first; else NULL */
	struct rd_path *paths;
	int host_count;
	int *host_ranks; /* [host_count] */
	/* State of a replay, one at a time; NULL in a sampled schedule: */
	/* [RD_REPLAYED_PIECES][events]: when an event's message arrives; -1: not yet sent. */
	int64_t *sent_ns;
	struct rd_rank_state *states; /* [rank schedules] */
	struct rd_core *cores; /* [rank schedules] */
	struct rd_cable *cables; /* [host_count] */
	/* [rank schedules]: a heap of those that can go on, and have a core to themselves */
	int *free;
	/* As sent_ns, of a whole schedule: the work of each event in the last replay. */
	struct rd_event_time *times;
};

/* Creates the schedule of a problem. The groups of its layout are hosts; its rank does not
   matter. Returns an error, with its reason recorded, where the algorithm writes no valid plan. */
int rd_schedule_create(struct rd_schedule **schedule, const struct rd_algorithm *algorithm,
	const struct rd_problem *problem);
/* The same with every step of every rank, however many there are, for those who look at them.
   Events follow each other as the plans' steps do. */
int rd_schedule_create_whole(struct rd_schedule **schedule, const struct rd_algorithm *algorithm,
	const struct rd_problem *problem);
void rd_schedule_destroy(struct rd_schedule *schedule);

/* The blocks in the input and output of the rank with the most. */
int rd_most_blocks(const struct rd_problem *problem);

/* The same of all ranks of a host, of the host with the most. */
uint64_t rd_most_near_blocks(const struct rd_problem *problem);

/* The event that puts the message this one takes. NULL: it takes none, or the sender is unknown. */
static inline const struct rd_event *rd_schedule_put(
	const struct rd_schedule *schedule, const struct rd_event *event)
{
	return event->takes && event->sender >= 0 ? &schedule->events[event->sender] : NULL;
}

#endif
