#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "plan/finish.h"
#include "plan/steps.h"
#include "plan/view.h"

_Static_assert(offsetof(struct rd_plan, problem) == 0, "rd_problem_of()");

/* A divisor that gives each algorithm of Rondo's own a mark of its own. */
#define MARK_DIVISOR 6
#define MARKS 31

uint8_t rd_algorithm_mark(const char *name)
{
	uint64_t hash = rd_hash(RD_HASH_INIT, name, strlen(name));

	return (uint8_t)(hash / MARK_DIVISOR % MARKS + 1);
}

static int create(struct rd_plan **plan_out, const struct rd_algorithm *algorithm,
	const struct rd_problem *problem, bool flushes)
{
	struct rd_plan *plan = calloc(1, sizeof(*plan));

	*plan_out = NULL;
	if (!plan)
		return rd_fail(RONDO_MEMORY, "no memory for a plan");
	plan->problem = plan->real = *problem;
	plan->algorithm = algorithm->name;
	plan->mark = rd_algorithm_mark(algorithm->name);
	plan->direct_access = algorithm->direct_access;
	plan->parts = 1;
	rd_plan_place_chunks(plan);
	if (!plan->error && algorithm->along_line && problem->layout)
		rd_view_along_line(plan, algorithm);
	else if (!plan->error)
		algorithm->write[problem->collective](plan);

	int err = rd_plan_finish(plan);

	if (!err && flushes)
		err = rd_plan_add_flushes(plan);
	if (err) {
		rd_plan_destroy(plan);
		return err;
	}
	*plan_out = plan;
	return 0;
}

int rd_plan_create(struct rd_plan **plan, const struct rd_algorithm *algorithm,
	const struct rd_problem *problem)
{
	return create(plan, algorithm, problem, true);
}

int rd_plan_create_to_time(struct rd_plan **plan, const struct rd_algorithm *algorithm,
	const struct rd_problem *problem)
{
	return create(plan, algorithm, problem, false);
}

void rd_plan_destroy(struct rd_plan *plan)
{
	if (!plan)
		return;
	rd_view_destroy(plan->draft);
	free(plan->steps);
	free(plan->now);
	free(plan);
}
