/*
 * Cost in ns of each event of a schedule (schedule.h), for given link costs and slice size.
 */
#ifndef RD_STEP_COST_H
#define RD_STEP_COST_H

#include "tuner/schedule.h"

static inline int64_t rd_longer(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static inline int64_t rd_shorter(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* The costs of steps at one slice size. */
struct rd_step_cost {
	const struct rd_costs *costs;
	uint64_t slice; /* bytes */
	struct rd_message_cost message[RD_LINK_CLASS_COUNT]; /* a slice */
	struct rd_message_cost empty[RD_LINK_CLASS_COUNT];
	bool posts[RD_LINK_CLASS_COUNT]; /* a slice is sent from the user's memory */
	int64_t copy_ns, reduce_ns; /* for a slice, in cache */
	/* For a slice, between the call's buffers, wherever those are; also another rank's. */
	int64_t memory_copy_ns, memory_reduce_ns;
};

/* The cost of a byte of the call's buffers, wherever those are. */
struct rd_buffer_cost {
	uint32_t copy_ps, reduce_ps;
};

struct rd_step_cost rd_step_cost_of(const struct rd_costs *costs, uint64_t slice,
	enum rd_type_class type, struct rd_buffer_cost buffers);

/* The cost to each rank where a call's pieces go over this many channels by turns. */
struct rd_step_cost rd_step_cost_striped(const struct rd_step_cost *step_cost, int channels);

/* The cost of an event to its rank, RD_STEP_NS_MAX at most. size: ranks. */
int64_t rd_step_cost_event_ns(
	const struct rd_step_cost *step_cost, const struct rd_event *event, int size);

/* The time from an event's put of a message until the message can be taken. */
int64_t rd_step_cost_flight_ns(const struct rd_step_cost *step_cost, const struct rd_event *event);

#endif
