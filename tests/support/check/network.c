#include "check/network.h"

#include <stdlib.h>

#include "base/error.h"

static void add_event(struct rd_network *network, int kind, int subject, uint64_t time_ns)
{
	struct rd_timed_event event = { .time_ns = time_ns, .kind = kind, .subject = subject };
	int err = rd_event_queue_put(&network->events, event);

	if (err)
		network->error = err;
}

void rd_network_add_event(
	struct rd_network *network, enum rd_network_event kind, int rank, uint64_t time_ns)
{
	add_event(network, (int)kind, rank, time_ns);
}

static void add_link_event(void *context, enum link_event kind, int end, uint64_t time_ns)
{
	add_event(context, (int)kind, end, time_ns);
}

uint64_t rd_network_delay(struct rd_network *network)
{
	return draw(&network->random, network->set->jitter_ns + 1);
}

static uint64_t link_delay(void *context)
{
	return rd_network_delay(context);
}

/* Marks the pairs of ranks of which one names the other: they need a link. */
static void mark_pairs(const struct rd_plan *const *plans, int size, char *used)
{
	for (int rank = 0; rank < size; rank++) {
		const struct rd_plan *plan = plans[rank];

		for (int i = 0; i < plan->step_count; i++) {
			const struct rd_step *step = &plan->steps[i];

			if (rd_step_takes(step))
				used[rank * size + step->peer] = used[step->peer * size + rank] = 1;
			if (rd_step_puts(step))
				used[rank * size + step->to] = used[step->to * size + rank] = 1;
		}
	}
}

int rd_network_connect(struct rd_network *network, const struct rd_plan *const *plans)
{
	const struct rd_simulation *set = network->set;
	char *used = calloc((size_t)set->size * set->size, 1);

	if (!used)
		return rd_fail(RONDO_MEMORY, "no memory for %d ranks", set->size);
	mark_pairs(plans, set->size, used);
	network->links = (struct simulated_links){
		.size = set->size,
		.channels = set->channels,
		.slots = set->slots,
		.piece_size = set->piece_size,
		.zero_copy = set->zero_copy,
		.needs_sender = set->repeated && set->seed & 2,
		.latency_ns = set->latency_ns,
		.byte_ns = set->byte_ns,
		.now_ns = &network->now_ns,
		.context = network,
		.delay = link_delay,
		.add_event = add_link_event,
	};
	network->error = simulated_links_open(&network->links, used);
	free(used);
	return network->error;
}

void rd_network_finish(struct rd_network *network)
{
	simulated_links_finish(&network->links);
	rd_event_queue_finish(&network->events);
}
