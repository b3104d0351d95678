#include "train/steps.h"

#include <criterion/criterion.h>
#include <math.h>
#include <sys/mman.h>

/* In memory that ranks share with the test. */
static struct record {
	float starts[STEPS + 1][PARAMETERS]; /* the first run's, before each step and the test */
	float got[PARAMETERS]; /* the second run's, after a step */
	double updates[STEPS]; /* errors of the second run's */
} * record;

static void put_parameters(const struct train *train, const float *values)
{
	const struct tensors *tensors = &train->model->parameters;
	for (int t = 0; t < tensors->count; t++) {
		const struct tensor *tensor = &tensors->list[t];
		train->device->ops->put(
			train->device, tensor->value, values, tensor->count * sizeof(*values));
		values += tensor->count;
	}
}

/* A step from `start` ends at `got` instead of `end`. */
static double update_error(const float *start, const float *end, const float *got)
{
	double moved = 0, off = 0;
	for (int i = 0; i < PARAMETERS; i++) {
		moved += pow((double)end[i] - start[i], 2);
		off += pow((double)got[i] - end[i], 2);
	}
	return moved > 0 ? sqrt(off / moved) : INFINITY;
}

static void note_start(struct train *train)
{
	if (train->world->rank == 0)
		job_parameters(train->model, record->starts[train->step]);
}

static void compare_and_restart(struct train *train)
{
	const float *start = record->starts[train->step];
	if (train->world->rank == 0 && train->step > 0) {
		job_parameters(train->model, record->got);
		record->updates[train->step - 1] =
			update_error(record->starts[train->step - 1], start, record->got);
	}
	put_parameters(train, start);
}

static void note_before_step(struct train *train, int step)
{
	(void)step;
	note_start(train);
}

static void compare_before_step(struct train *train, int step)
{
	(void)step;
	compare_and_restart(train);
}

struct step_errors compare_steps(
	struct job *first, int first_size, struct job *second, int second_size, int steps)
{
	struct step_errors errors = { 0 };
	record = mmap(
		NULL, sizeof(*record), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(record, MAP_FAILED);
	first->change = note_before_step;
	first->before_test = note_start;
	second->change = compare_before_step;
	second->before_test = compare_and_restart;
	run_ranks(first, first_size);
	run_ranks(second, second_size);
	for (int s = 0; s < steps; s++) {
		double loss = first->outcome->losses[s] - second->outcome->losses[s];
		errors.loss = fmax(errors.loss, fabs(loss));
		errors.update = fmax(errors.update, record->updates[s]);
	}
	munmap(record, sizeof(*record));
	return errors;
}
