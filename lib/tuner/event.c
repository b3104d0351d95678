#include "tuner/event.h"

#include "rondo/layout.h"

static enum rd_link_class class_of(const struct rd_problem *problem, int a, int b)
{
	const struct rd_layout *layout = problem->layout;

	return !layout || layout->group[a] == layout->group[b] ? RD_NEAR : RD_FAR;
}

static bool is_users(struct rd_where where)
{
	return where.memory == RD_IN || where.memory == RD_OUT;
}

struct rd_event rd_event_of(const struct rd_plan *plan, int index)
{
	const struct rd_problem *problem = &plan->problem;
	const struct rd_step *step = &plan->steps[index];
	int rank = problem->rank;
	struct rd_event event = { .kind = step->kind, .sender = -1, .times = 1 };

	event.puts = rd_step_puts(step);
	event.takes = rd_step_takes(step);
	event.receives = rd_step_receives(step);
	event.stores = step->into.memory != RD_NOWHERE;
	event.in_user_memory = is_users(step->into);
	if (event.takes || step->kind == RD_STEP_FETCH || step->kind == RD_STEP_SWAP)
		event.from = class_of(problem, rank, step->peer);
	if (event.puts) {
		event.to = class_of(problem, rank, step->to);
		event.taker = step->to;
	}
	event.to_all = step->kind == RD_STEP_COMBINE && step->to < 0;
	return event;
}

bool rd_event_costs_the_same(const struct rd_event *a, const struct rd_event *b)
{
	return a->kind == b->kind && a->from == b->from && a->to == b->to &&
	       a->stores == b->stores && a->in_user_memory == b->in_user_memory &&
	       a->to_all == b->to_all;
}
