#include "timeline.h"

#include <stdlib.h>

#include "base/error.h"
#include "tuner/replay.h"

size_t plan_timeline_at(const struct plan_timeline *timeline, int piece, int rank, int step)
{
	const struct rd_schedule *schedule = timeline->schedule;

	return (size_t)piece * (size_t)schedule->event_count +
	       (size_t)(schedule->rank_schedules[rank].first + step);
}

int plan_timeline_sender(const struct plan_timeline *timeline, int rank, int step)
{
	const struct rd_schedule *schedule = timeline->schedule;
	const struct rd_event *event =
		&schedule->events[schedule->rank_schedules[rank].first + step];

	return event->takes ? event->sender : -1;
}

static int rank_of(const struct rd_schedule *schedule, int event)
{
	int rank = 0;

	while (event >= schedule->rank_schedules[rank].first + schedule->rank_schedules[rank].count)
		rank++;
	return rank;
}

/* ---- The critical path ---------------------------------------------------------------------- */

/* A place on the path: the event that decides when the one behind it begins. */
struct place {
	int piece, rank, step;
};

static const struct rd_event_time *time_at(const struct plan_timeline *timeline, struct place place)
{
	return &timeline->schedule
			->times[plan_timeline_at(timeline, place.piece, place.rank, place.step)];
}

/* The last step of the piece, or of an earlier one; false: there is none. */
static bool last_step(const struct plan_timeline *timeline, struct place *place)
{
	int count = timeline->schedule->rank_schedules[place->rank].count;

	place->step = count - 1;
	return count > 0 && place->piece >= 0;
}

static bool find_end(const struct plan_timeline *timeline, struct place *end)
{
	bool found = false;

	for (int rank = 0; rank < timeline->schedule->rank_count; rank++) {
		struct place place = { timeline->pieces - 1, rank, 0 };

		if (last_step(timeline, &place) &&
			(!found || time_at(timeline, place)->end_ns >
					   time_at(timeline, *end)->end_ns)) {
			*end = place;
			found = true;
		}
	}
	return found;
}

/* A step waits for the step before it, or, where that ended earlier, for its message. */
static bool step_back(const struct plan_timeline *timeline, struct place *place)
{
	const struct rd_schedule *schedule = timeline->schedule;
	int sender = plan_timeline_sender(timeline, place->rank, place->step);
	struct place before = { place->piece, place->rank, place->step - 1 };
	bool has_before = before.step >= 0;

	if (!has_before) {
		before.piece--;
		has_before = last_step(timeline, &before);
	}
	if (sender >= 0 && (!has_before || time_at(timeline, before)->end_ns <
						   time_at(timeline, *place)->begin_ns)) {
		before.piece = place->piece;
		before.rank = rank_of(schedule, sender);
		before.step = sender - schedule->rank_schedules[before.rank].first;
		has_before = true;
	}
	*place = before;
	return has_before;
}

static void mark_path(struct plan_timeline *timeline)
{
	struct place place = { 0 };

	for (bool more = find_end(timeline, &place); more; more = step_back(timeline, &place))
		timeline->critical[plan_timeline_at(
			timeline, place.piece, place.rank, place.step)] = true;
}

/* ---- Making it ------------------------------------------------------------------------------ */

static int write_plans(struct plan_timeline *timeline)
{
	struct rd_problem problem = timeline->made->problem;
	int err = 0;

	for (problem.rank = 0; problem.rank < problem.size && !err; problem.rank++)
		err = rd_plan_create(&timeline->plans[problem.rank], timeline->algorithm, &problem);
	return err;
}

static int replay(struct plan_timeline *timeline, const struct plan_options *options)
{
	const struct rd_costs *costs = &timeline->made->costs;
	struct rd_cut cut = plan_cut(options, timeline->algorithm, options->size);
	struct rd_replayed replayed;

	timeline->predicted_ns = rd_predict(timeline->schedule, costs, &cut);

	struct rd_step_cost step_cost =
		rd_cut_costs(timeline->schedule->parts, timeline->schedule->blocks,
			timeline->schedule->near_blocks, costs, &cut, &timeline->all_pieces);

	timeline->pieces = options->pieces > 0 ? options->pieces : 1;
	if ((uint64_t)timeline->pieces > timeline->all_pieces)
		timeline->pieces = (int)timeline->all_pieces;
	if (!rd_replay(timeline->schedule, &step_cost, timeline->pieces, 0, &replayed))
		return rd_fail(RONDO_INVALID, "the ranks of %s wait for each other for ever",
			timeline->algorithm->name);
	timeline->end_ns = replayed.ends_ns[timeline->pieces - 1];
	return 0;
}

bool plan_timeline_ends(const struct plan_timeline *timeline)
{
	const struct simulation *simulation = &timeline->simulation;
	bool ends = simulation->rank_count == 0;

	for (int rank = 0; rank < simulation->rank_count; rank++)
		ends |= simulation->ranks[rank].end == SIMULATED_ENDED;
	return ends && !simulation->stuck;
}

static int set_times(struct plan_timeline *timeline, const struct plan_options *options)
{
	int err = plan_options_simulate(options) ? plan_timeline_simulate(timeline, options)
						 : replay(timeline, options);

	if (!err && plan_timeline_ends(timeline))
		mark_path(timeline);
	return err;
}

static int create(struct plan_timeline *timeline, const struct plan_options *options)
{
	const struct rd_problem *problem = &timeline->made->problem;
	int err = plan_algorithm_find(&timeline->algorithm, timeline->made, options->algorithm);

	if (err)
		return err;
	timeline->plans = calloc((size_t)problem->size, sizeof(*timeline->plans));
	err = timeline->plans ? write_plans(timeline) : rd_fail(RONDO_MEMORY, "no memory");
	if (!err)
		err = rd_schedule_create_whole(&timeline->schedule, timeline->algorithm, problem);
	if (err)
		return err;
	timeline->critical =
		calloc((size_t)RD_REPLAYED_PIECES * ((size_t)timeline->schedule->event_count + 1),
			sizeof(*timeline->critical));
	return timeline->critical ? set_times(timeline, options)
				  : rd_fail(RONDO_MEMORY, "no memory");
}

int plan_timeline_create(struct plan_timeline *timeline, const struct plan_problem *made,
	const struct plan_options *options)
{
	*timeline = (struct plan_timeline){ .made = made, .size = options->size };

	int err = create(timeline, options);

	if (err)
		plan_timeline_destroy(timeline);
	return err;
}

void plan_timeline_destroy(struct plan_timeline *timeline)
{
	for (int rank = 0; timeline->plans && rank < timeline->made->problem.size; rank++)
		rd_plan_destroy(timeline->plans[rank]);
	free(timeline->plans);
	free(timeline->critical);
	simulation_finish(&timeline->simulation);
	rd_schedule_destroy(timeline->schedule);
	*timeline = (struct plan_timeline){ 0 };
}
