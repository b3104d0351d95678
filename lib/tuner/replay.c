#include "tuner/replay.h"

#include <string.h>

/* A replay: some pieces of a schedule, at one step cost. */
struct replay {
	const struct rd_schedule *schedule;
	const struct rd_step_cost *step_cost;
	int pieces;
	int core_count, free_count; /* of the schedule's */
	struct rd_replayed *replayed;
};

static bool oversubscribed(const struct replay *replay, int host)
{
	return replay->schedule->host_ranks[host] > (int)replay->step_cost->costs->cores;
}

/* The cores of the hosts on which ranks share them. Ranks go to a host's cores by turns. */
static void init_cores(struct replay *replay, int first)
{
	const struct rd_schedule *schedule = replay->schedule;
	int cores = (int)replay->step_cost->costs->cores;
	int64_t switch_ns = replay->step_cost->costs->switch_ns;

	replay->core_count = 0;
	for (int host = 0; host < schedule->host_count; host++) {
		struct rd_core *own = schedule->cores + replay->core_count;
		int count = 0;

		if (!oversubscribed(replay, host))
			continue;
		memset(own, 0, (size_t)cores * sizeof(*own));
		for (int i = 0; i < schedule->rank_count; i++) {
			if (schedule->rank_schedules[i].host != host)
				continue;
			schedule->states[i].core = replay->core_count + count % cores;
			schedule->states[i].turn = own[count++ % cores].ranks++;
		}
		/* The common start is in the middle of a turn, in the mean. */
		for (int i = 0; i < cores; i++) {
			own[i].next = first % own[i].ranks;
			own[i].free_ns = own[i].ranks > 1 ? -switch_ns / 2 : 0;
		}
		replay->core_count += cores;
	}
}

static bool is_done(const struct replay *replay, int row)
{
	return replay->schedule->states[row].piece == replay->pieces;
}

static const struct rd_event *next_event(const struct replay *replay, int row)
{
	const struct rd_schedule *schedule = replay->schedule;

	return &schedule->events[schedule->rank_schedules[row].first + schedule->states[row].event];
}

/* Whether a rank can go on before another: at the same time, the lower one. */
static bool is_before(const struct rd_schedule *schedule, int row, int other)
{
	int64_t ready_ns = schedule->states[row].ready_ns;
	int64_t other_ns = schedule->states[other].ready_ns;

	return ready_ns < other_ns || (ready_ns == other_ns && row < other);
}

/* The free ranks are a heap: the first that can go on is free[0]. */
static void add_free(struct replay *replay, int row)
{
	int *free = replay->schedule->free, at = replay->free_count++;

	for (; at > 0 && is_before(replay->schedule, row, free[(at - 1) / 2]); at = (at - 1) / 2)
		free[at] = free[(at - 1) / 2];
	free[at] = row;
}

static int take_free(struct replay *replay)
{
	int *free = replay->schedule->free, count = --replay->free_count, at = 0;
	int first = free[0], last = free[count];

	for (int next = 1; next < count; next = 2 * at + 1) {
		if (next + 1 < count && is_before(replay->schedule, free[next + 1], free[next]))
			next++;
		if (is_before(replay->schedule, last, free[next]))
			break;
		free[at] = free[next];
		at = next;
	}
	free[at] = last;
	return first;
}

/* A rank can go on from here. */
static void release(struct replay *replay, int row)
{
	const struct rd_schedule *schedule = replay->schedule;

	schedule->states[row].waits = false;
	if (!oversubscribed(replay, schedule->rank_schedules[row].host))
		add_free(replay, row);
}

static size_t place_of(const struct rd_schedule *schedule, int piece, int index)
{
	return (size_t)piece * schedule->event_count + (size_t)index;
}

/* Marks the message of an event as sent: its waiter can now compute its arrival. */
static void put_message(struct replay *replay, int piece, int index, int64_t arrives)
{
	const struct rd_schedule *schedule = replay->schedule;
	int taker = schedule->events[index].taker;
	struct rd_rank_state *state = &schedule->states[taker];

	schedule->sent_ns[place_of(schedule, piece, index)] = arrives;
	if (!state->waits || state->piece != piece || next_event(replay, taker)->sender != index)
		return;
	state->ready_ns = rd_longer(state->ready_ns, arrives);
	release(replay, taker);
}

/* Past the plan's end it begins the next piece. */
static void finish_piece(struct replay *replay, struct rd_rank_state *state, int64_t now)
{
	int64_t *end = &replay->replayed->ends_ns[state->piece++];

	*end = rd_longer(*end, now);
	state->event = 0;
}

/* When its next event can begin; -1: its message is not sent yet. */
static int64_t begin_ns(const struct replay *replay, int row, int64_t now)
{
	const struct rd_schedule *schedule = replay->schedule;
	const struct rd_event *event = next_event(replay, row);

	if (!rd_schedule_put(schedule, event))
		return now;
	return schedule->sent_ns[place_of(schedule, schedule->states[row].piece, event->sender)];
}

/* A cable carries messages in the order in which they are sent. Returns when it has this one. */
static int64_t carry(int64_t *carried_ns, int64_t now, int64_t cable_ns)
{
	*carried_ns = rd_longer(now, *carried_ns) + cable_ns;
	return *carried_ns;
}

/* How long a message that is sent now waits for its hosts' cables. Between the two it lies in a
   switch, and the sender's goes on with the next. */
static int64_t cable_wait_ns(
	const struct replay *replay, int row, const struct rd_event *event, int64_t now)
{
	const struct rd_schedule *schedule = replay->schedule;
	struct rd_cable *from, *to;
	int64_t cable_ns = replay->step_cost->message[RD_FAR].cable_ns;

	if (event->to != RD_FAR || cable_ns == 0)
		return 0;
	from = &schedule->cables[schedule->rank_schedules[row].host];
	to = &schedule->cables[schedule->rank_schedules[event->taker].host];
	return rd_longer(carry(&from->out_ns, now, cable_ns), carry(&to->in_ns, now, cable_ns)) -
	       cable_ns - now;
}

static int64_t replay_event(struct replay *replay, int row, int64_t now)
{
	const struct rd_schedule *schedule = replay->schedule;
	const struct rd_event *event = next_event(replay, row);
	int64_t begin = now;

	now += rd_step_cost_event_ns(replay->step_cost, event, schedule->size);
	if (event->puts)
		put_message(replay, schedule->states[row].piece, (int)(event - schedule->events),
			now + cable_wait_ns(replay, row, event, now) +
				rd_step_cost_flight_ns(replay->step_cost, event));
	if (schedule->times)
		schedule->times[place_of(schedule, schedule->states[row].piece,
			(int)(event - schedule->events))] = (struct rd_event_time){ begin, now };
	schedule->states[row].event++;
	return now;
}

/* Another rank's message may be the next on a cable. */
static bool is_after_others(const struct replay *replay, const struct rd_event *event, int64_t now)
{
	const struct rd_schedule *schedule = replay->schedule;

	return event->puts && event->to == RD_FAR && replay->free_count > 0 &&
	       schedule->states[schedule->free[0]].ready_ns < now;
}

/* Replays one rank from `now` until it must wait, or is done; returns when that is. */
static int64_t replay_rank(struct replay *replay, int row, int64_t now)
{
	const struct rd_schedule *schedule = replay->schedule;
	struct rd_rank_state *state = &schedule->states[row];
	bool shares = oversubscribed(replay, schedule->rank_schedules[row].host);

	while (!is_done(replay, row)) {
		if (state->event == schedule->rank_schedules[row].count) {
			finish_piece(replay, state, now);
			continue;
		}

		int64_t begin = begin_ns(replay, row, now);

		/* A rank with a core to itself waits there; any other makes room for others. */
		if (begin < 0 || (shares && begin > now)) {
			state->waits = begin < 0;
			state->ready_ns = rd_longer(begin, now);
			return now;
		}
		now = rd_longer(now, begin);
		if (is_after_others(replay, next_event(replay, row), now)) {
			state->ready_ns = now;
			release(replay, row);
			return now;
		}
		now = replay_event(replay, row, now);
	}
	return now;
}

/* When a rank that can go on has its next turn. Those that wait have theirs, too: they look for
   their messages, and yield. */
static int64_t turn_ns(const struct replay *replay, int row)
{
	const struct rd_rank_state *state = &replay->schedule->states[row];
	const struct rd_core *core = &replay->schedule->cores[state->core];
	int64_t switch_ns = core->ranks > 1 ? replay->step_cost->costs->switch_ns : 0;
	int64_t all_ns = core->ranks * switch_ns;
	int before = (state->turn - core->next + core->ranks) % core->ranks;
	int64_t turn = core->free_ns + (before + 1) * switch_ns;

	if (turn >= state->ready_ns)
		return turn;
	if (all_ns == 0)
		return state->ready_ns;
	return turn + (state->ready_ns - turn + all_ns - 1) / all_ns * all_ns;
}

/* Finds the rank that goes on first on a shared core, and when; false: none can. */
static bool next_turn(const struct replay *replay, int *row, int64_t *at)
{
	const struct rd_schedule *schedule = replay->schedule;
	bool found = false;

	for (int i = 0; replay->core_count > 0 && i < schedule->rank_count; i++) {
		int64_t turn;

		if (!oversubscribed(replay, schedule->rank_schedules[i].host) ||
			is_done(replay, i) || schedule->states[i].waits)
			continue;
		turn = turn_ns(replay, i);
		if (found && turn >= *at)
			continue;
		found = true;
		*row = i;
		*at = turn;
	}
	return found;
}

static void replay_free(struct replay *replay)
{
	while (replay->free_count > 0) {
		int row = take_free(replay);

		replay_rank(replay, row, replay->schedule->states[row].ready_ns);
	}
}

bool rd_replay(const struct rd_schedule *schedule, const struct rd_step_cost *step_cost, int pieces,
	int first, struct rd_replayed *replayed)
{
	struct replay replay = {
		.schedule = schedule, .step_cost = step_cost, .pieces = pieces, .replayed = replayed
	};
	int row = 0;
	int64_t at = 0;

	for (size_t i = 0; i < (size_t)pieces * schedule->event_count; i++)
		schedule->sent_ns[i] = -1;
	memset(schedule->states, 0, schedule->rank_count * sizeof(*schedule->states));
	init_cores(&replay, first);
	memset(schedule->cables, 0, schedule->host_count * sizeof(*schedule->cables));
	*replayed = (struct rd_replayed){ 0 };
	for (int i = 0; i < schedule->rank_count; i++)
		release(&replay, i);
	replay_free(&replay);
	while (next_turn(&replay, &row, &at)) {
		struct rd_core *core = &schedule->cores[schedule->states[row].core];

		core->next = (schedule->states[row].turn + 1) % core->ranks;
		core->free_ns = replay_rank(&replay, row, at);
		replay_free(&replay);
	}
	for (int i = 0; i < schedule->rank_count; i++)
		if (!is_done(&replay, i))
			return false;
	return true;
}
