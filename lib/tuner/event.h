/* Events: steps of plans with all that their cost depends on. */
#ifndef RD_EVENT_H
#define RD_EVENT_H

#include "tuner/cost.h"
#include "plan/plan.h"

/* One step of one rank, with all that its cost depends on; or several of equal cost. */
struct rd_event {
	enum rd_step_kind kind : 8;
	enum rd_link_class from : 4, to : 4; /* the links that it uses */
	bool puts : 1; /* puts a message (data or a signal) on a link: rd_step_puts() */
	bool takes : 1; /* consumes a message: rd_step_takes() */
	bool receives : 1; /* takes a message with data: rd_step_receives() */
	bool stores : 1; /* a value that is passed on is also stored here */
	bool in_user_memory : 1; /* the message is in user memory, and may be sent from there */
	bool to_all : 1; /* COMBINE: the outputs of all ranks get the result */
	int sender; /* takes: the event that puts the message; -1: unknown, or it takes none */
	int taker; /* puts: the rank that takes the message; unknown in a sampled schedule */
	int times; /* how many steps of its rank it stands for: 1, or more in a sampled schedule */
};

/* Events of which only the sum of costs counts: equal ones are one. */
struct rd_event_sum {
	struct rd_event *events;
	int count, room;
};

/* The event of a step of a plan, outside any schedule: its cost is known, its sender is not. */
struct rd_event rd_event_of(const struct rd_plan *plan, int step);
bool rd_event_costs_the_same(const struct rd_event *a, const struct rd_event *b);

#endif
