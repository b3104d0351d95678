#include "mutants.h"

#include <criterion/criterion.h>

#include "check/checker.h"

/* ---- Edits --------------------------------------------------------------------------------- */

int step_get(const struct rd_step *step, enum change field)
{
	switch (field) {
	case PEER:
		return step->peer;
	case TO:
		return step->to;
	case CHUNK:
		return step->chunk;
	case OTHER:
		return step->other;
	case KIND:
		return (int)step->kind;
	case LAST:
		return step->last;
	case FROM:
		return step->from.chunk;
	case FROM_MEMORY:
		return (int)step->from.memory;
	case INTO:
		return step->into.chunk;
	case INTO_MEMORY:
		return (int)step->into.memory;
	default:
		return step->sender;
	}
}

static void step_set(struct rd_step *step, enum change field, int value)
{
	switch (field) {
	case PEER:
		step->peer = value;
		break;
	case TO:
		step->to = value;
		break;
	case CHUNK:
		step->chunk = value;
		break;
	case OTHER:
		step->other = value;
		break;
	case KIND:
		step->kind = (enum rd_step_kind)value;
		break;
	case LAST:
		step->last = value;
		break;
	case FROM:
		step->from.chunk = value;
		break;
	case FROM_MEMORY:
		step->from.memory = (enum rd_memory)value;
		break;
	case INTO:
		step->into.chunk = value;
		break;
	case INTO_MEMORY:
		step->into.memory = (enum rd_memory)value;
		break;
	default:
		step->sender = value;
	}
}

static void drop_step(struct rd_plan *plan, int dropped)
{
	memmove(&plan->steps[dropped], &plan->steps[dropped + 1],
		(plan->step_count - dropped - 1) * sizeof(*plan->steps));
	plan->step_count--;
	for (int i = dropped; i < plan->step_count; i++)
		if (plan->steps[i].sender >= dropped)
			plan->steps[i].sender--;
}

static void swap_steps(struct rd_plan *plan, int first)
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

void edit_plan(struct rd_plan *plan, const struct edit *edit)
{
	switch (edit->change) {
	case DROP:
		drop_step(plan, edit->step);
		break;
	case SWAP:
		swap_steps(plan, edit->step);
		break;
	case COLLECTIVE:
		plan->problem.collective = (enum rd_collective)edit->value;
		break;
	case RANK:
		plan->problem.rank = edit->value;
		break;
	case ROOT:
		plan->problem.root = edit->value;
		break;
	case PARTS:
		plan->parts = edit->value;
		break;
	case DIRECT_ACCESS:
		plan->direct_access = edit->value;
		break;
	default:
		step_set(&plan->steps[edit->step], edit->change, edit->value);
	}
}

void expect_refused(const char *algorithm, enum rd_collective collective, const struct edit *edits,
	const char *reason)
{
	struct simulated_job job = { .collective = collective, .size = 3, .type = RONDO_F32 };

	cr_assert(job_create(&job, algorithm), "%s", rondo_last_error());
	cr_assert_eq(rd_check_plans(job.plans, 3), 0, "%s", rondo_last_error());
	for (; edits->change != NO_CHANGE; edits++)
		edit_plan(job.plans[edits->rank], edits);
	cr_expect_eq(rd_check_plans(job.plans, 3), RONDO_INVALID, "accepted: %s", reason);
	cr_expect_str_eq(rondo_last_error(), reason);
	job_destroy(&job);
}

/* ---- Algorithms ---------------------------------------------------------------------------- */

struct rd_algorithm messages_by(void (*write)(struct rd_plan *plan))
{
	struct rd_algorithm algorithm = { .name = "test" };

	for (int c = 0; c < RD_COLLECTIVE_COUNT; c++)
		algorithm.write[c] = write;
	return algorithm;
}

struct rd_algorithm direct_by(void (*write)(struct rd_plan *plan))
{
	struct rd_algorithm algorithm = messages_by(write);

	algorithm.direct_access = true;
	return algorithm;
}

void expect_accepted(struct rd_algorithm algorithm, enum rd_collective collective, int size)
{
	cr_expect_eq(rd_check_algorithm(&algorithm, collective, size, 0, 0, NULL), 0, "%s",
		rondo_last_error());
}

void expect_plans_refused(
	struct rd_algorithm algorithm, enum rd_collective collective, int size, const char *reason)
{
	char text[RD_REASON_SIZE];

	cr_expect_eq(rd_check_algorithm(&algorithm, collective, size, 0, 0, NULL), RONDO_INVALID,
		"accepted: %s", reason);
	snprintf(text, sizeof(text), "test, %s, %d rank%s, root 0, target 0: %s",
		rd_collective_name(collective), size, RD_PLURAL(size), reason);
	cr_expect_str_eq(rondo_last_error(), text);
}
