#include "mutants.h"

#include <criterion/criterion.h>

#include "check/checker.h"

struct world three(const char *algorithm, enum rd_collective collective)
{
	struct world world = { .collective = collective, .size = 3, .type = RONDO_F32 };

	cr_assert(world_create(&world, algorithm), "%s", rondo_last_error());
	cr_assert_eq(rd_check_plans(world.plans, 3), 0, "%s", rondo_last_error());
	return world;
}

void expect_refused(struct world *world, const char *reason)
{
	cr_expect_eq(
		rd_check_plans(world->plans, world->size), RONDO_INVALID, "accepted: %s", reason);
	cr_expect_str_eq(rondo_last_error(), reason);
	world_destroy(world);
}

void drop_step(struct rd_plan *plan, int dropped)
{
	memmove(&plan->steps[dropped], &plan->steps[dropped + 1],
		(plan->step_count - dropped - 1) * sizeof(*plan->steps));
	plan->step_count--;
	for (int i = dropped; i < plan->step_count; i++)
		if (plan->steps[i].sender >= dropped)
			plan->steps[i].sender--;
}

void swap_steps(struct rd_plan *plan, int first)
{
	struct rd_step step = plan->steps[first];

	plan->steps[first] = plan->steps[first + 1];
	plan->steps[first + 1] = step;
	for (int i = 0; i < plan->step_count; i++) {
		int *sender = &plan->steps[i].sender;

		if (*sender == first || *sender == first + 1)
			*sender = 2 * first + 1 - *sender;
	}
}
