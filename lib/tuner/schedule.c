#include "tuner/schedule.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "rondo/layout.h"

/* Evenly spread over the ranks, first and last among them. */
static int sample(int size, int index)
{
	return (int)((int64_t)index * (size - 1) / (RD_SAMPLED - 1));
}

/* The rank of a rank schedule. */
static int rank_of(const struct rd_schedule *schedule, int row)
{
	if (!schedule->sampled)
		return row;
	return row < RD_SAMPLED ? sample(schedule->size, row) : schedule->edges[row - RD_SAMPLED];
}

/* The last rank whose neighbour before it, by number or along the line, is on another host. Rank 0,
   which each sample has, if there is none. */
static int last_edge(const struct rd_problem *problem, bool along_line)
{
	const struct rd_layout *layout = problem->layout;

	for (int at = problem->size - 1; layout && at > 0; at--) {
		int rank = along_line ? layout->order[at] : at;
		int before = along_line ? layout->order[at - 1] : at - 1;

		if (layout->group[rank] != layout->group[before])
			return rank;
	}
	return 0;
}

/* Adds a rank to the sample, which may have it already. */
static void add_edge(struct rd_schedule *schedule, int rank)
{
	for (int row = 0; row < schedule->rank_count; row++)
		if (rank_of(schedule, row) == rank)
			return;
	schedule->edges[schedule->rank_count++ - RD_SAMPLED] = rank;
}

/* Ranks in the middle of a host have no messages to another in some plans. */
static void choose_ranks(struct rd_schedule *schedule, const struct rd_problem *problem)
{
	schedule->rank_count = schedule->sampled ? RD_SAMPLED : schedule->size;
	schedule->even_count = schedule->rank_count;
	if (!schedule->sampled)
		return;
	add_edge(schedule, last_edge(problem, false));
	add_edge(schedule, last_edge(problem, true));
}

static int host_of(const struct rd_problem *problem, int rank)
{
	return problem->layout ? problem->layout->group[rank] : 0;
}

/* Message n from one rank to another is the n-th that the one puts and the n-th that the other
   takes: each pair's are counted. `puts` lists the events that put, by pair. */
struct matching {
	int size;
	int *heads, *tails; /* [size * size]: first and last event that puts, -1: none */
	int *next; /* [events] */
};

static void list_put(struct matching *matching, int from, int to, int event)
{
	int pair = from * matching->size + to;

	matching->next[event] = -1;
	if (matching->heads[pair] < 0)
		matching->heads[pair] = event;
	else
		matching->next[matching->tails[pair]] = event;
	matching->tails[pair] = event;
}

static int unlist_put(struct matching *matching, int from, int to)
{
	int pair = from * matching->size + to, event = matching->heads[pair];

	if (event >= 0)
		matching->heads[pair] = matching->next[event];
	return event;
}

static void match(
	struct rd_schedule *schedule, struct rd_plan *const *plans, struct matching *matching)
{
	for (int rank = 0; rank < schedule->size; rank++)
		for (int i = 0; i < plans[rank]->step_count; i++)
			if (rd_step_puts(&plans[rank]->steps[i]))
				list_put(matching, rank, plans[rank]->steps[i].to,
					schedule->rank_schedules[rank].first + i);
	for (int rank = 0; rank < schedule->size; rank++)
		for (int i = 0; i < plans[rank]->step_count; i++)
			if (rd_step_takes(&plans[rank]->steps[i]))
				schedule->events[schedule->rank_schedules[rank].first + i].sender =
					unlist_put(matching, plans[rank]->steps[i].peer, rank);
}

static int fail_memory(void)
{
	return rd_fail(RONDO_MEMORY, "no memory to predict a plan");
}

static int match_messages(struct rd_schedule *schedule, struct rd_plan *const *plans)
{
	size_t pairs = (size_t)schedule->size * schedule->size;
	struct matching matching = { .size = schedule->size };

	matching.heads = malloc(pairs * sizeof(int));
	matching.tails = malloc(pairs * sizeof(int));
	matching.next = malloc((schedule->event_count + 1) * sizeof(int));
	if (matching.heads && matching.tails && matching.next) {
		memset(matching.heads, -1, pairs * sizeof(int));
		match(schedule, plans, &matching);
	}

	bool allocated = matching.heads && matching.tails && matching.next;

	free(matching.heads);
	free(matching.tails);
	free(matching.next);
	return allocated ? 0 : fail_memory();
}

static int count_hosts(struct rd_schedule *schedule, const struct rd_problem *problem)
{
	for (int rank = 0; rank < schedule->size; rank++)
		if (host_of(problem, rank) >= schedule->host_count)
			schedule->host_count = host_of(problem, rank) + 1;
	schedule->host_ranks = calloc(schedule->host_count, sizeof(int));
	if (!schedule->host_ranks)
		return fail_memory();
	for (int rank = 0; rank < schedule->size; rank++)
		schedule->host_ranks[host_of(problem, rank)]++;
	return 0;
}

/* Returns how many ranks it sends to; -1: there is no memory. */
static int count_peers(const struct rd_plan *plan)
{
	bool *found = calloc((size_t)plan->problem.size, sizeof(*found));
	int peers = 0;

	for (int i = 0; found && i < plan->step_count; i++) {
		if (!rd_step_puts(&plan->steps[i]))
			continue;
		peers += !found[plan->steps[i].to];
		found[plan->steps[i].to] = true;
	}
	peers = found ? peers : -1;
	free(found);
	return peers;
}

/* Returns how many events it takes. In a sampled schedule equal ones are one, since only their sum
   counts there: a rank of a linear gather has two, and 255 steps. */
static int list_events(const struct rd_schedule *schedule, const struct rd_plan *plan, int first)
{
	struct rd_event *events = schedule->events + first;
	int count = 0;

	for (int i = 0; i < plan->step_count; i++) {
		int same = schedule->sampled ? 0 : count;

		events[count] = rd_event_of(plan, i);
		while (same < count && !rd_event_costs_the_same(&events[same], &events[count]))
			same++;
		if (same < count)
			events[same].times++;
		else
			count++;
	}
	return count;
}

/* For a replay. */
static int create_state(struct rd_schedule *schedule, bool whole)
{
	schedule->states = calloc(schedule->rank_count, sizeof(*schedule->states));
	schedule->cores = calloc(schedule->rank_count, sizeof(*schedule->cores));
	schedule->cables = calloc(schedule->host_count, sizeof(*schedule->cables));
	schedule->free = calloc(schedule->rank_count, sizeof(*schedule->free));
	schedule->sent_ns = calloc((size_t)RD_REPLAYED_PIECES * (schedule->event_count + 1),
		sizeof(*schedule->sent_ns));
	if (whole)
		schedule->times = calloc((size_t)RD_REPLAYED_PIECES * (schedule->event_count + 1),
			sizeof(*schedule->times));
	return schedule->states && schedule->cores && schedule->cables && schedule->free &&
			       schedule->sent_ns && (schedule->times || !whole)
		       ? 0
		       : fail_memory();
}

static int resize_events(struct rd_schedule *schedule, int count)
{
	struct rd_event *events = realloc(schedule->events, (count + 1) * sizeof(*events));

	if (!events)
		return fail_memory();
	schedule->events = events;
	return 0;
}

static int add_rank(struct rd_schedule *schedule, struct rd_rank_schedule *rank_schedule,
	const struct rd_plan *plan)
{
	int first = schedule->event_count, peers = count_peers(plan);
	int err = peers < 0 ? fail_memory() : resize_events(schedule, first + plan->step_count);

	if (err)
		return err;
	*rank_schedule = (struct rd_rank_schedule){ first, list_events(schedule, plan, first),
		host_of(&plan->problem, plan->problem.rank) };
	schedule->event_count += rank_schedule->count;
	schedule->peers = peers > schedule->peers ? peers : schedule->peers;
	schedule->parts = plan->parts;
	return resize_events(schedule, schedule->event_count);
}

static int write_plan(struct rd_plan **plans, const struct rd_algorithm *algorithm,
	const struct rd_problem *problem, int rank)
{
	struct rd_problem there = *problem;

	there.rank = rank;
	return plans[rank] ? 0 : rd_plan_create(&plans[rank], algorithm, &there);
}

/* Few ranks are sampled where their plans are too long, as those of a few show. */
static int choose_sample(struct rd_schedule *schedule, struct rd_plan **plans,
	const struct rd_algorithm *algorithm, const struct rd_problem *problem)
{
	bool many = schedule->size > RD_REPLAYED_MAX;
	int err = 0, longest = 0;

	for (int i = 0; i < RD_SAMPLED && !many && !err; i++) {
		int rank = sample(schedule->size, i);

		err = write_plan(plans, algorithm, problem, rank);
		if (!err && plans[rank]->step_count > longest)
			longest = plans[rank]->step_count;
	}
	schedule->sampled = many || (schedule->size > RD_SAMPLED &&
					    longest * schedule->size > RD_REPLAYED_EVENTS_MAX);
	return err;
}

static int find_paths(struct rd_schedule *schedule, const struct rd_algorithm *algorithm,
	const struct rd_problem *problem)
{
	struct rd_path *paths = calloc(2, sizeof(*paths));
	int err;

	if (!paths)
		return fail_memory();
	schedule->paths = paths;
	err = rd_paths_find(&paths[0], &paths[1], algorithm, problem);
	/* The even sample has few ranks in the middle of a tree. */
	add_edge(schedule, paths[0].busiest);
	return err;
}

/* Plans of many ranks are long. The plan of a rank in a sample is freed before the next is written,
   which keeps the heap small. */
static int fill_schedule(struct rd_schedule *schedule, struct rd_plan **plans,
	const struct rd_algorithm *algorithm, const struct rd_problem *problem, bool whole)
{
	int err = 0;

	if (!whole)
		err = choose_sample(schedule, plans, algorithm, problem);
	choose_ranks(schedule, problem);
	if (!err && schedule->sampled)
		err = find_paths(schedule, algorithm, problem);
	if (!err)
		err = count_hosts(schedule, problem);
	if (err)
		return err;
	schedule->rank_schedules = calloc(schedule->rank_count, sizeof(*schedule->rank_schedules));
	if (!schedule->rank_schedules)
		return fail_memory();
	for (int i = 0; i < schedule->rank_count && !err; i++) {
		int rank = rank_of(schedule, i);

		err = write_plan(plans, algorithm, problem, rank);
		if (!err)
			err = add_rank(schedule, &schedule->rank_schedules[i], plans[rank]);
		if (schedule->sampled) {
			rd_plan_destroy(plans[rank]);
			plans[rank] = NULL;
		}
	}
	if (err || schedule->sampled)
		return err;
	err = create_state(schedule, whole);
	return err ? err : match_messages(schedule, plans);
}

/* The root has the most, where there is one. */
int rd_most_blocks(const struct rd_problem *problem)
{
	struct rd_problem there = *problem;

	there.rank = problem->root;
	return rd_in_blocks(&there) + rd_out_blocks(&there);
}

static bool is_near_last(const struct rd_layout *layout, int index)
{
	return !layout ||
	       layout->group[layout->order[index]] == layout->group[layout->order[index - 1]];
}

/* The ranks of a host follow each other along the line. */
uint64_t rd_most_near_blocks(const struct rd_problem *problem)
{
	struct rd_problem there = *problem;
	uint64_t most = 0, blocks = 0;

	for (int i = 0; i < problem->size; i++) {
		there.rank = problem->layout ? problem->layout->order[i] : i;
		blocks = i > 0 && is_near_last(problem->layout, i) ? blocks : 0;
		blocks += (uint64_t)(rd_in_blocks(&there) + rd_out_blocks(&there));
		most = blocks > most ? blocks : most;
	}
	return most;
}

static int create(struct rd_schedule **schedule_out, const struct rd_algorithm *algorithm,
	const struct rd_problem *problem, bool whole)
{
	struct rd_schedule *schedule = calloc(1, sizeof(*schedule));
	struct rd_plan **plans = calloc(problem->size, sizeof(*plans));
	int err;

	*schedule_out = NULL;
	if (!schedule || !plans) {
		free(schedule);
		free(plans);
		return fail_memory();
	}
	schedule->size = problem->size;
	schedule->blocks = rd_most_blocks(problem);
	schedule->near_blocks = rd_most_near_blocks(problem);
	err = fill_schedule(schedule, plans, algorithm, problem, whole);
	for (int rank = 0; rank < problem->size; rank++)
		rd_plan_destroy(plans[rank]);
	free(plans);
	if (err)
		rd_schedule_destroy(schedule);
	else
		*schedule_out = schedule;
	return err;
}

int rd_schedule_create(struct rd_schedule **schedule, const struct rd_algorithm *algorithm,
	const struct rd_problem *problem)
{
	return create(schedule, algorithm, problem, false);
}

int rd_schedule_create_whole(struct rd_schedule **schedule, const struct rd_algorithm *algorithm,
	const struct rd_problem *problem)
{
	return create(schedule, algorithm, problem, true);
}

void rd_schedule_destroy(struct rd_schedule *schedule)
{
	if (!schedule)
		return;
	free(schedule->rank_schedules);
	free(schedule->events);
	for (int i = 0; schedule->paths && i < 2; i++) {
		free(schedule->paths[i].work.events);
		free(schedule->paths[i].flights.events);
	}
	free(schedule->paths);
	free(schedule->host_ranks);
	free(schedule->sent_ns);
	free(schedule->states);
	free(schedule->cores);
	free(schedule->cables);
	free(schedule->free);
	free(schedule->times);
	free(schedule);
}
