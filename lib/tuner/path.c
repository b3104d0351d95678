#include "tuner/path.h"

#include "base/error.h"
#include "base/grow.h"
#include "tuner/thresholds.h"

/* The last step before `end` that takes a message; -1: none. */
static int last_take(const struct rd_plan *plan, int end)
{
	int step = end - 1;

	while (step >= 0 && !rd_step_takes(&plan->steps[step]))
		step--;
	return step;
}

/* The step of the sender that puts the message which `take` takes; -1: a plan that lacks it. */
static int put_of(const struct rd_plan *sender, const struct rd_plan *plan, int take)
{
	int left = 0, step = -1;

	for (int i = 0; i <= take; i++)
		left += rd_step_takes(&plan->steps[i]) &&
			plan->steps[i].peer == plan->steps[take].peer;
	while (left > 0 && ++step < sender->step_count)
		left -= rd_step_puts(&sender->steps[step]) &&
			sender->steps[step].to == plan->problem.rank;
	return left > 0 ? -1 : step;
}

static int add(struct rd_event_sum *sum, const struct rd_plan *plan, int first, int end)
{
	for (int i = first; i < end; i++) {
		struct rd_event event = rd_event_of(plan, i);
		int same = 0;

		while (same < sum->count && !rd_event_costs_the_same(&sum->events[same], &event))
			same++;
		if (same < sum->count) {
			sum->events[same].times++;
			continue;
		}
		if (!rd_grow(&sum->events, sum->count, &sum->room, sizeof(*sum->events)))
			return rd_fail(RONDO_MEMORY, "no memory to predict a plan");
		sum->events[sum->count++] = event;
	}
	return 0;
}

/* The messages of a path of which these hops are the last. If it has gone back in the plans, as
   around a ring, it goes on so; else from rank to rank, as along a chain. */
static int64_t estimate_all(int hops, const struct rd_plan *plan, int end)
{
	int passed = plan->step_count - end, ranks = plan->problem.size - 1;

	if (passed > 0)
		return (int64_t)hops * plan->step_count / passed;
	return hops > ranks ? hops : ranks;
}

/* The plan of the rank at hand, and that of the one before it on the path: two ranks that exchange
   messages are on it by turns. */
struct walk {
	const struct rd_algorithm *algorithm;
	const struct rd_problem *problem;
	struct rd_plan *plan, *before;
	int written; /* steps; 16 that are looked at count as one */
};

static int go_to(struct walk *walk, int rank)
{
	struct rd_problem there = *walk->problem;
	struct rd_plan *plan = walk->before;
	int err = 0;

	if (!plan || plan->problem.rank != rank) {
		there.rank = rank;
		rd_plan_destroy(plan);
		plan = NULL;
		err = rd_plan_create_to_time(&plan, walk->algorithm, &there);
		walk->written += err ? 0 : plan->step_count;
	}
	walk->before = walk->plan;
	walk->plan = plan;
	return err;
}

/* Follows the path to its begin, or as far as RD_PATH_STEPS allow. */
static int follow(struct rd_path *path, struct walk *walk, int end)
{
	int err = 0, most = 0;

	while (!err) {
		const struct rd_plan *plan = walk->plan;
		int take = last_take(plan, end), put;

		if (plan->step_count > most)
			path->busiest = plan->problem.rank;
		most = plan->step_count > most ? plan->step_count : most;
		err = add(&path->work, plan, take < 0 ? 0 : take, end);
		path->all = path->hops;
		if (err || take < 0)
			break;
		if (walk->written > (end < plan->step_count ? 1 : 4) * RD_PATH_STEPS) {
			path->all = estimate_all(path->hops, plan, end);
			break;
		}
		err = go_to(walk, plan->steps[take].peer);
		if (err)
			break;
		put = put_of(walk->plan, plan, take);
		if (put < 0)
			break;
		walk->written += 1 + (take + put) / 16;
		err = add(&path->flights, walk->plan, put, put + 1);
		end = put + 1;
		path->hops++;
	}
	return err;
}

/* The rank that ends last in most plans. */
static int last_rank(const struct rd_problem *problem)
{
	if (problem->collective == RD_BROADCAST || problem->collective == RD_SCATTER)
		return (problem->root + problem->size - 1) % problem->size;
	return problem->root;
}

/* The step behind the first that takes a message; 0: none does. */
static int after_first_take(const struct rd_plan *plan)
{
	for (int step = 0; step < plan->step_count; step++)
		if (rd_step_takes(&plan->steps[step]))
			return step + 1;
	return 0;
}

static int find(struct rd_path *path, const struct rd_algorithm *algorithm,
	const struct rd_problem *problem, bool whole)
{
	struct walk walk = { .algorithm = algorithm, .problem = problem };
	int err = go_to(&walk, last_rank(problem));

	if (!err)
		err = follow(
			path, &walk, whole ? walk.plan->step_count : after_first_take(walk.plan));
	rd_plan_destroy(walk.plan);
	rd_plan_destroy(walk.before);
	return err;
}

int rd_paths_find(struct rd_path *path, struct rd_path *begin, const struct rd_algorithm *algorithm,
	const struct rd_problem *problem)
{
	int err = find(path, algorithm, problem, true);

	return err ? err : find(begin, algorithm, problem, false);
}
