#include "tuner/step_cost.h"

struct rd_step_cost rd_step_cost_of(const struct rd_costs *costs, uint64_t slice,
	enum rd_type_class type, struct rd_buffer_cost buffers)
{
	struct rd_step_cost step_cost = { .costs = costs, .slice = slice };

	for (int class = 0; class < RD_LINK_CLASS_COUNT; class ++) {
		const struct rd_link_cost *link = &costs->links[class];

		step_cost.message[class] = rd_message_cost(link, slice);
		step_cost.empty[class] = rd_message_cost(link, 0);
		step_cost.posts[class] =
			link->posts && !link->single_copy && slice >= link->posts_min;
	}
	step_cost.copy_ns = rd_bytes_ns(slice, costs->copy_ps);
	step_cost.reduce_ns = rd_bytes_ns(slice, costs->reduce_ps[type]);
	step_cost.memory_copy_ns = rd_bytes_ns(slice, buffers.copy_ps);
	step_cost.memory_reduce_ns = rd_bytes_ns(slice, buffers.reduce_ps);
	return step_cost;
}

struct rd_step_cost rd_step_cost_striped(const struct rd_step_cost *step_cost, int channels)
{
	struct rd_step_cost striped = *step_cost;

	for (int class = 0; class < RD_LINK_CLASS_COUNT; class ++) {
		uint32_t share = rd_rails_share(&step_cost->costs->links[class], channels);

		striped.message[class].send_ns = step_cost->message[class].send_ns * share / 1000;
		striped.message[class].recv_ns = step_cost->message[class].recv_ns * share / 1000;
		striped.message[class].cable_ns = step_cost->message[class].cable_ns * share / 1000;
	}
	return striped;
}

/* Between a message's room, which stays in a cache, and a buffer that does not: half of what the
   same takes more where both are in memory. */
static int64_t more_ns(int64_t memory_ns, int64_t cache_ns)
{
	return (memory_ns - cache_ns) / 2;
}

static int64_t send_ns(const struct rd_step_cost *step_cost, const struct rd_event *event)
{
	return step_cost->message[event->to].send_ns +
	       more_ns(step_cost->memory_copy_ns, step_cost->copy_ns);
}

/* Takes a message, and combines it where the step does, in one pass. */
static int64_t recv_ns(const struct rd_step_cost *step_cost, const struct rd_event *event)
{
	bool reduces = event->kind == RD_STEP_RECV_REDUCE ||
		       event->kind == RD_STEP_REDUCE_FORWARD || event->kind == RD_STEP_HOLD;

	int64_t ns = step_cost->message[event->from].recv_ns;

	if (reduces)
		return ns + rd_longer(0, step_cost->reduce_ns - step_cost->copy_ns) +
		       more_ns(step_cost->memory_reduce_ns, step_cost->reduce_ns);
	return ns + (event->stores ? more_ns(step_cost->memory_copy_ns, step_cost->copy_ns) : 0);
}

/* A value that came in goes out again: from memory where the link sends from there, else it is
   written straight into the outgoing room. */
static int64_t pass_on_ns(const struct rd_step_cost *step_cost, const struct rd_event *event)
{
	if (step_cost->posts[event->to] && event->in_user_memory)
		return step_cost->message[event->to].send_ns;
	return step_cost->empty[event->to].send_ns + (event->stores ? step_cost->copy_ns : 0);
}

static int64_t event_ns(
	const struct rd_step_cost *step_cost, const struct rd_event *event, int size)
{
	switch (event->kind) {
	case RD_STEP_SEND:
		return send_ns(step_cost, event);
	case RD_STEP_RECV:
	case RD_STEP_RECV_REDUCE:
	case RD_STEP_HOLD: /* and its part of the MERGE, which takes nothing more */
		return recv_ns(step_cost, event);
	case RD_STEP_FORWARD:
	case RD_STEP_REDUCE_FORWARD:
		return recv_ns(step_cost, event) + pass_on_ns(step_cost, event);
	case RD_STEP_COPY:
		return step_cost->memory_copy_ns;
	case RD_STEP_SIGNAL:
		return step_cost->empty[event->to].send_ns;
	case RD_STEP_AWAIT:
		return step_cost->empty[event->from].recv_ns;
	case RD_STEP_FETCH:
		return step_cost->memory_copy_ns;
	case RD_STEP_SPREAD:
		return step_cost->memory_copy_ns + (size - 1) * step_cost->memory_copy_ns;
	case RD_STEP_SWAP:
		return 2 * step_cost->memory_copy_ns + step_cost->memory_copy_ns;
	case RD_STEP_COMBINE:
		/* It reads all inputs but one, and writes all outputs but one, at other ranks. */
		return (size - 1) *
			       rd_longer(step_cost->memory_reduce_ns, step_cost->memory_copy_ns) +
		       step_cost->memory_copy_ns +
		       (event->to_all ? size - 1 : 0) * step_cost->memory_copy_ns;
	default:
		return 0;
	}
}

int64_t rd_step_cost_event_ns(
	const struct rd_step_cost *step_cost, const struct rd_event *event, int size)
{
	return rd_shorter(event_ns(step_cost, event, size), RD_STEP_NS_MAX);
}

int64_t rd_step_cost_flight_ns(const struct rd_step_cost *step_cost, const struct rd_event *event)
{
	if (event->kind == RD_STEP_SIGNAL)
		return step_cost->empty[event->to].flight_ns;
	return step_cost->message[event->to].flight_ns;
}
