#include "tuner/replay.h"

#include <string.h>

/* A performance: some pieces of a schedule, at one step cost. */
struct performance {
	const struct rd_schedule *schedule;
	const struct rd_step_cost *step_cost;
	int pieces;
	int core_count, free_count; /* of the schedule's */
	int64_t *ends_ns; /* [pieces]: when the last rank was done with each */
};

static bool crowded(const struct performance *performance, int host)
{
	return performance->schedule->host_ranks[host] > (int)performance->step_cost->costs->cores;
}

/* The cores of the hosts on which ranks share them. */
static void seat(struct performance *performance)
{
	const struct rd_schedule *schedule = performance->schedule;

	performance->core_count = 0;
	for (int host = 0; host < schedule->host_count; host++)
		for (int i = 0;
			crowded(performance, host) && i < (int)performance->step_cost->costs->cores;
			i++)
			schedule->cores[performance->core_count++] = (struct rd_core){ host, -1, 0 };
}

static bool is_done(const struct performance *performance, int row)
{
	return performance->schedule->states[row].piece == performance->pieces;
}

static const struct rd_event *next_event(const struct performance *performance, int row)
{
	const struct rd_schedule *schedule = performance->schedule;

	return &schedule->events[schedule->rank_schedules[row].first + schedule->states[row].event];
}

/* A rank can go on from here. */
static void release(struct performance *performance, int row)
{
	const struct rd_schedule *schedule = performance->schedule;

	schedule->states[row].waits = false;
	if (!crowded(performance, schedule->rank_schedules[row].host))
		schedule->free[performance->free_count++] = row;
}

static size_t place_of(const struct rd_schedule *schedule, int piece, int index)
{
	return (size_t)piece * schedule->event_count + (size_t)index;
}

/* The message of an event is on its way: who waits for it will know when it comes. */
static void put_message(struct performance *performance, int piece, int index, int64_t arrives)
{
	const struct rd_schedule *schedule = performance->schedule;
	int taker = schedule->events[index].taker;
	struct rd_rank_state *state = &schedule->states[taker];

	schedule->sent_ns[place_of(schedule, piece, index)] = arrives;
	if (!state->waits || state->piece != piece ||
		next_event(performance, taker)->sender != index)
		return;
	state->ready_ns = rd_longer(state->ready_ns, arrives);
	release(performance, taker);
}

/* Past the plan's end it begins the next piece. */
static void finish_piece(struct performance *performance, struct rd_rank_state *state, int64_t now)
{
	int64_t *end = &performance->ends_ns[state->piece++];

	*end = rd_longer(*end, now);
	state->event = 0;
}

/* When its next event can begin; -1 where that is not known yet. */
static int64_t begin_ns(const struct performance *performance, int row, int64_t now)
{
	const struct rd_schedule *schedule = performance->schedule;
	const struct rd_event *event = next_event(performance, row);

	if (!rd_schedule_put(schedule, event))
		return now;
	return schedule->sent_ns[place_of(schedule, schedule->states[row].piece, event->sender)];
}

static int64_t play_event(struct performance *performance, int row, int64_t now)
{
	const struct rd_schedule *schedule = performance->schedule;
	const struct rd_event *event = next_event(performance, row);

	now += rd_step_cost_event_ns(performance->step_cost, event, schedule->size);
	if (event->puts)
		put_message(performance, schedule->states[row].piece, (int)(event - schedule->events),
			now + rd_step_cost_flight_ns(performance->step_cost, event));
	schedule->states[row].event++;
	return now;
}

/* Plays one rank from `now` until it must wait, or is done; returns when that is. */
static int64_t replay_rank(struct performance *performance, int row, int64_t now)
{
	const struct rd_schedule *schedule = performance->schedule;
	struct rd_rank_state *state = &schedule->states[row];
	bool shares = crowded(performance, schedule->rank_schedules[row].host);

	while (!is_done(performance, row)) {
		if (state->event == schedule->rank_schedules[row].count) {
			finish_piece(performance, state, now);
			continue;
		}

		int64_t begin = begin_ns(performance, row, now);

		/* With a core to itself it waits there; else it makes room for others. */
		if (begin < 0 || (shares && begin > now)) {
			state->waits = begin < 0;
			state->ready_ns = rd_longer(begin, now);
			return now;
		}
		now = play_event(performance, row, rd_longer(now, begin));
	}
	return now;
}

/* Which rank can go on first on which shared core, and when; false: none can. */
static bool next_turn(const struct performance *performance, int *row, int *core, int64_t *at)
{
	const struct rd_schedule *schedule = performance->schedule;
	bool found = false;

	for (int i = 0; performance->core_count > 0 && i < schedule->rank_count; i++) {
		if (is_done(performance, i) || schedule->states[i].waits)
			continue;
		for (int k = 0; k < performance->core_count; k++) {
			const struct rd_core *place = &schedule->cores[k];
			int64_t begin = rd_longer(place->free_ns, schedule->states[i].ready_ns);

			/* To go on where it was costs nothing. */
			if (place->last != i)
				begin += performance->step_cost->costs->switch_ns;
			if (place->host != schedule->rank_schedules[i].host || (found && begin >= *at))
				continue;
			found = true;
			*row = i;
			*core = k;
			*at = begin;
		}
	}
	return found;
}

static void play_free(struct performance *performance)
{
	while (performance->free_count > 0) {
		int row = performance->schedule->free[--performance->free_count];

		replay_rank(performance, row, performance->schedule->states[row].ready_ns);
	}
}

bool rd_play(const struct rd_schedule *schedule, const struct rd_step_cost *step_cost, int pieces,
	int64_t ends_ns[RD_PLAYED_PIECES])
{
	struct performance performance = {
		.schedule = schedule, .step_cost = step_cost, .pieces = pieces, .ends_ns = ends_ns
	};
	int row = 0, core = 0;
	int64_t at = 0;

	seat(&performance);
	for (size_t i = 0; i < (size_t)pieces * schedule->event_count; i++)
		schedule->sent_ns[i] = -1;
	memset(schedule->states, 0, schedule->rank_count * sizeof(*schedule->states));
	for (int piece = 0; piece < pieces; piece++)
		ends_ns[piece] = 0;
	for (int i = 0; i < schedule->rank_count; i++)
		release(&performance, i);
	play_free(&performance);
	while (next_turn(&performance, &row, &core, &at)) {
		schedule->cores[core].last = row;
		schedule->cores[core].free_ns = replay_rank(&performance, row, at);
		play_free(&performance);
	}
	for (int i = 0; i < schedule->rank_count; i++)
		if (!is_done(&performance, i))
			return false;
	return true;
}
