#include "plan/view.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/grow.h"
#include "plan/refuse.h"
#include "rondo/layout.h"

struct list {
	int *items;
	int count, capacity;
};

struct rd_view {
	struct rd_view *outer; /* in force around it; NULL: none */
	struct rd_problem outside; /* the plan's problem outside it */
	struct list ranks; /* by the view's number: the real one */
	struct list chunks; /* real numbers: those of block 0, then of block 1, ... */
	struct list firsts; /* by block: where its chunks begin */
	enum rd_collective collective;
	int root;
	int parts; /* that the algorithm in it cuts a block into */
	int turn; /* index of the chunk of every part that is written now */
	bool all_blocks; /* of the plan, reordered as the ranks are; no chunks are listed */
	bool partial;
};

/* ---- Making one ---------------------------------------------------------------------------- */

static void add(struct rd_plan *plan, struct list *list, int item)
{
	if (rd_grow(&list->items, list->count, &list->capacity, sizeof(item)))
		list->items[list->count++] = item;
	else
		rd_plan_out_of_memory(plan);
}

static bool drafting(struct rd_plan *plan)
{
	if (!plan->error && !plan->draft)
		rd_plan_refuse(plan, "adds to a view that it has not begun");
	return !plan->error;
}

void rd_view_begin(struct rd_plan *plan, enum rd_collective collective, int root)
{
	if (plan->draft)
		rd_plan_refuse(plan, "begins a view before it has written the last");
	if (plan->error)
		return;
	plan->draft = calloc(1, sizeof(*plan->draft));
	if (!plan->draft) {
		rd_plan_out_of_memory(plan);
		return;
	}
	plan->draft->collective = collective;
	plan->draft->root = root;
}

void rd_view_rank(struct rd_plan *plan, int rank)
{
	if (!drafting(plan))
		return;
	if (rank < 0 || rank >= plan->problem.size)
		rd_plan_refuse(plan, "views a rank that there is not (rank %d)", rank);
	else
		add(plan, &plan->draft->ranks, rd_view_real_rank(plan, rank));
}

void rd_view_block(struct rd_plan *plan)
{
	if (drafting(plan))
		add(plan, &plan->draft->firsts, plan->draft->chunks.count);
}

void rd_view_chunk(struct rd_plan *plan, int chunk)
{
	if (!drafting(plan))
		return;
	if (chunk < 0 || chunk >= rd_view_chunks(plan) || !plan->draft->firsts.count) {
		rd_plan_refuse(
			plan, "views a chunk that there is not, or in no block (chunk %d)", chunk);
		return;
	}
	chunk = rd_view_real_chunk(plan, chunk);
	if (chunk >= 0)
		add(plan, &plan->draft->chunks, chunk);
}

void rd_view_partial(struct rd_plan *plan)
{
	if (drafting(plan))
		plan->draft->partial = true;
}

void rd_view_destroy(struct rd_view *view)
{
	if (!view)
		return;
	free(view->ranks.items);
	free(view->chunks.items);
	free(view->firsts.items);
	free(view);
}

/* ---- Translating numbers ------------------------------------------------------------------- */

int rd_view_chunks(const struct rd_plan *plan)
{
	const struct rd_view *view = plan->view;

	return rd_blocks(&plan->problem) * (view && !view->all_blocks ? view->parts : plan->parts);
}

int rd_view_real_rank(const struct rd_plan *plan, int rank)
{
	return plan->view ? plan->view->ranks.items[rank] : rank;
}

/* Blocks that are numbered by ranks are reordered as the ranks are. */
static int reordered(const struct rd_plan *plan, int block)
{
	const int *ranks = plan->view->ranks.items;
	int size = plan->problem.size, blocks = rd_blocks(&plan->problem);

	if (blocks == size)
		return ranks[block];
	if (blocks == size * size)
		return ranks[block / size] * size + ranks[block % size];
	return block;
}

/* The first chunk of a part, of the `count` chunks of its block. */
static int part_first(int part, int parts, int count)
{
	if (parts == count)
		return part;
	return (int)((long long)part * count / parts);
}

static int block_count(const struct rd_view *view, int block)
{
	int end =
		block + 1 < view->firsts.count ? view->firsts.items[block + 1] : view->chunks.count;

	return end - view->firsts.items[block];
}

static int listed(const struct rd_view *view, int chunk)
{
	int block = chunk / view->parts, part = chunk % view->parts;
	int count = block_count(view, block);
	int at = part_first(part, view->parts, count) + view->turn;

	if (at >= part_first(part + 1, view->parts, count))
		return -1;
	return view->chunks.items[view->firsts.items[block] + at];
}

int rd_view_real_chunk(const struct rd_plan *plan, int chunk)
{
	if (!plan->view)
		return chunk;
	if (plan->view->all_blocks)
		return rd_blocks(&plan->problem) == 1
			       ? chunk
			       : reordered(plan, chunk / plan->parts) * plan->parts +
					 chunk % plan->parts;
	return listed(plan->view, chunk);
}

bool rd_view_parts(struct rd_plan *plan, int parts)
{
	if (!plan->view || plan->view->all_blocks)
		return false;
	if (parts < 1)
		rd_plan_refuse(plan, "parts must be at least 1 (%d)", parts);
	else
		plan->view->parts = parts;
	return true;
}

bool rd_view_is_partial(const struct rd_plan *plan)
{
	const struct rd_view *view = plan->view;

	while (view && !view->partial)
		view = view->outer;
	return view;
}

bool rd_view_hides_others(struct rd_plan *plan)
{
	if (plan->view)
		rd_plan_refuse(plan, "has to do with all ranks, in a view");
	return plan->view;
}

/* ---- Writing in it ------------------------------------------------------------------------- */

static int number_in(const struct list *list, int item)
{
	for (int i = 0; i < list->count; i++)
		if (list->items[i] == item)
			return i;
	return -1;
}

static void enter(struct rd_plan *plan, struct rd_view *view, struct rd_problem problem)
{
	view->outer = plan->view;
	view->outside = plan->problem;
	plan->view = view;
	plan->problem = problem;
}

static void leave(struct rd_plan *plan)
{
	struct rd_view *view = plan->view;

	plan->view = view->outer;
	plan->problem = view->outside;
	rd_view_destroy(view);
}

/* The most chunks of a part: the number of times that the algorithm writes its steps. */
static int turns(const struct rd_view *view)
{
	int most = 0;

	for (int block = 0; block < view->firsts.count; block++) {
		int count = block_count(view, block);

		most = count > most ? count : most;
	}
	return (most + view->parts - 1) / view->parts;
}

static bool fits(struct rd_plan *plan, const struct rd_view *view,
	const struct rd_algorithm *algorithm, const struct rd_problem *problem)
{
	if (view->firsts.count != rd_blocks(problem))
		rd_plan_refuse(plan, "views more or fewer blocks than the collective has");
	else if (rd_collective_has_root(problem->collective) &&
		 (problem->root < 0 || problem->root >= problem->size))
		rd_plan_refuse(
			plan, "views a root that is not in the view (root %d)", problem->root);
	else if (!algorithm)
		rd_plan_refuse(plan, "views %s", rondo_last_error());
	else if (algorithm->direct_access || !algorithm->write[problem->collective] ||
		 (algorithm->may_run && !algorithm->may_run(problem)))
		rd_plan_refuse(plan, "has %s write %s, which it cannot in a view", algorithm->name,
			rd_collective_name(problem->collective));
	return !plan->error;
}

static void write_turns(struct rd_plan *plan, const struct rd_algorithm *algorithm)
{
	struct rd_view *view = plan->view;

	for (view->parts = 1; view->turn < turns(view) && !plan->error; view->turn++) {
		view->parts = 1;
		algorithm->write[view->collective](plan);
	}
}

void rd_view_write(struct rd_plan *plan, const struct rd_algorithm *algorithm)
{
	if (!drafting(plan))
		return;

	struct rd_view *view = plan->draft;
	struct rd_problem problem = {
		.collective = view->collective,
		.rank = number_in(&view->ranks, plan->real.rank),
		.size = view->ranks.count,
		.root = view->root,
	};

	plan->draft = NULL;
	if (problem.rank < 0 || !fits(plan, view, algorithm, &problem)) {
		rd_view_destroy(view);
		return;
	}
	enter(plan, view, problem);
	write_turns(plan, algorithm);
	leave(plan);
}

void rd_view_along_line(struct rd_plan *plan, const struct rd_algorithm *algorithm)
{
	struct rd_problem problem = plan->real;

	if (problem.layout->size != problem.size) {
		rd_plan_refuse(plan, "its layout is of another number of ranks");
		return;
	}
	rd_view_begin(plan, problem.collective, 0);
	for (int i = 0; i < problem.size; i++)
		rd_view_rank(plan, problem.layout->order[i]);
	if (plan->error)
		return;

	struct rd_view *view = plan->draft;

	plan->draft = NULL;
	view->all_blocks = true;
	problem.rank = number_in(&view->ranks, problem.rank);
	problem.root = number_in(&view->ranks, problem.root);
	problem.target = number_in(&view->ranks, problem.target);
	problem.layout = NULL;
	enter(plan, view, problem);
	if (problem.rank < 0 || problem.root < 0 || problem.target < 0)
		rd_plan_refuse(plan, "its layout's line leaves ranks out");
	else
		algorithm->write[problem.collective](plan);
	leave(plan);
}
