/* The times of a timeline as a simulation has them: with shared links, and slow and dead ranks. */
#include "timeline.h"

#include <stdlib.h>

#include "base/error.h"
#include "simulated.h"

struct watched {
	struct plan_timeline *timeline;
	int *steps; /* [events]: of each rank, the steps without FLUSH */
};

static int *list_steps(const struct plan_timeline *timeline)
{
	int *steps = calloc((size_t)timeline->schedule->event_count + 1, sizeof(*steps));

	for (int rank = 0; steps && rank < timeline->made->problem.size; rank++) {
		const struct rd_plan *plan = timeline->plans[rank];
		int *next = &steps[timeline->schedule->rank_schedules[rank].first];

		for (int step = 0; step < plan->step_count; step++)
			if (plan->steps[step].kind != RD_STEP_FLUSH)
				*next++ = step;
	}
	return steps;
}

static struct rd_event_time *time_of(
	const struct plan_timeline *timeline, int piece, int rank, int step)
{
	return &timeline->schedule->times[plan_timeline_at(timeline, piece, rank, step)];
}

static void see_step(
	void *context, int rank, uint64_t piece, int number, int64_t begin_ps, int64_t end_ps)
{
	const struct watched *watched = context;
	const struct plan_timeline *timeline = watched->timeline;
	int first = timeline->schedule->rank_schedules[rank].first;
	struct rd_event_time *time;

	if (piece >= (uint64_t)timeline->pieces)
		return;
	time = time_of(timeline, (int)piece, rank, watched->steps[first + number]);
	time->begin_ns = begin_ps / 1000;
	time->end_ns = end_ps / 1000;
}

/* No step has ended yet. */
static void clear_times(const struct plan_timeline *timeline)
{
	size_t count = (size_t)timeline->pieces * (size_t)timeline->schedule->event_count;

	for (size_t i = 0; i < count; i++)
		timeline->schedule->times[i] = (struct rd_event_time){ -1, -1 };
}

/* A FLUSH takes no time behind the step before it. */
static void end_rank(struct plan_timeline *timeline, int rank)
{
	const struct rd_plan *plan = timeline->plans[rank];
	int64_t now_ns = 0;

	for (int piece = 0; piece < timeline->pieces; piece++)
		for (int step = 0; step < plan->step_count; step++) {
			struct rd_event_time *time = time_of(timeline, piece, rank, step);

			if (plan->steps[step].kind == RD_STEP_FLUSH)
				time->begin_ns = time->end_ns = now_ns;
			now_ns = time->end_ns;
			timeline->end_ns = rd_longer(timeline->end_ns, now_ns);
		}
	/* It stopped before its last step here, maybe behind all steps that ended. */
	if (now_ns < 0)
		timeline->end_ns =
			rd_longer(timeline->end_ns, timeline->simulation.ranks[rank].end_ps / 1000);
}

static int run(
	struct plan_timeline *timeline, const struct plan_options *options, struct network *network)
{
	struct watched watched = { timeline, list_steps(timeline) };
	struct plan_simulated simulated = { 0 };
	int err = watched.steps ? plan_simulated_create(&simulated, timeline->made, options,
					  timeline->algorithm, network)
				: rd_fail(RONDO_MEMORY, "no memory for a simulation");

	timeline->pieces = options->pieces > 0 ? options->pieces : 1;
	clear_times(timeline);
	if (!err) {
		simulated.watch = see_step;
		simulated.watch_context = &watched;
		err = plan_simulated_run(&simulated, options->size);
	}
	free(watched.steps);
	timeline->all_pieces = simulated.pieces;
	if ((uint64_t)timeline->pieces > timeline->all_pieces)
		timeline->pieces = (int)timeline->all_pieces;
	timeline->simulation = simulated.simulation;
	timeline->predicted_ns = simulated.simulation.end_ps / 1000;
	simulated.simulation = (struct simulation){ 0 };
	plan_simulated_destroy(&simulated);
	return err;
}

int plan_timeline_simulate(struct plan_timeline *timeline, const struct plan_options *options)
{
	struct network *network = NULL;
	int err = plan_simulated_check(timeline->made, timeline->algorithm);

	if (!err && options->topology)
		err = network_create(&network, options->topology, options->hosts);
	if (!err)
		err = run(timeline, options, network);
	network_destroy(network);
	for (int rank = 0; rank < timeline->made->problem.size && !err; rank++)
		end_rank(timeline, rank);
	return err;
}
