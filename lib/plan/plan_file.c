#include "plan/plan_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/grow.h"
#include "plan/steps.h"

static const char *const call_names[] = {
#define NAME(name, numbers) #name,
	RD_FILE_CALLS(NAME)
#undef NAME
};

static const char *const call_numbers[] = {
#define NUMBERS(name, numbers) numbers,
	RD_FILE_CALLS(NUMBERS)
#undef NUMBERS
};

const char *rd_file_call_name(enum rd_file_call call)
{
	return call_names[call];
}

const char *rd_file_call_numbers(enum rd_file_call call)
{
	return call_numbers[call];
}

/* ---- Making one ----------------------------------------------------------------------------- */

int rd_plan_file_begin(struct rd_plan_file *file)
{
	file->firsts = calloc((size_t)file->problem.size + 1, sizeof(*file->firsts));
	return file->firsts ? 0 : rd_fail(RONDO_MEMORY, "no memory for a plan file");
}

int rd_plan_file_add(struct rd_plan_file *file, struct rd_file_step step)
{
	if (file->step_count == RD_FILE_STEPS_MAX)
		return rd_fail(RONDO_INVALID, "a plan file has at most %d steps, of all ranks",
			RD_FILE_STEPS_MAX);
	if (!rd_grow(&file->steps, file->step_count, &file->capacity, sizeof(step)))
		return rd_fail(RONDO_MEMORY, "no memory for a plan file");
	file->steps[file->step_count++] = step;
	return 0;
}

void rd_plan_file_end_rank(struct rd_plan_file *file)
{
	file->firsts[++file->ranks] = file->step_count;
}

void rd_plan_file_destroy(struct rd_plan_file *file)
{
	if (!file)
		return;
	free(file->firsts);
	free(file->steps);
	free(file);
}

/* ---- The algorithm -------------------------------------------------------------------------- */

/* The problem's ranks are the file's, counted from the problem's root instead of the file's. */
static int ranks_from(const struct rd_plan_file *file, const struct rd_problem *problem)
{
	return rd_wrap(problem->root - file->problem.root, problem->size);
}

static int turned_chunk(const struct rd_plan_file *file, int chunk, int turn)
{
	int size = file->problem.size;

	/* One block is no rank's. The collectives with more per rank have no root, and no turn. */
	if (turn == 0 || rd_blocks(&file->problem) != size)
		return chunk;
	return rd_wrap(chunk / file->parts + turn, size) * file->parts + chunk % file->parts;
}

static struct rd_file_step turned(
	const struct rd_plan_file *file, const struct rd_file_step *step, int turn)
{
	const char *kinds = call_numbers[step->call];
	struct rd_file_step result = *step;

	for (int i = 0; kinds[i]; i++) {
		int number = step->numbers[i];

		if (strchr("cC", kinds[i]))
			result.numbers[i] = turned_chunk(file, number, turn);
		else if (number >= 0)
			result.numbers[i] = rd_wrap(number + turn, file->problem.size);
	}
	return result;
}

static void make_call(struct rd_plan *plan, const struct rd_file_step *step)
{
	int first = step->numbers[0], second = step->numbers[1], third = step->numbers[2];

	switch (step->call) {
	case RD_FILE_send:
		rd_send(plan, first, second);
		break;
	case RD_FILE_recv:
		rd_recv(plan, first, second);
		break;
	case RD_FILE_recv_reduce:
		rd_recv_reduce(plan, first, second);
		break;
	case RD_FILE_recv_reduce_last:
		rd_recv_reduce_last(plan, first, second);
		break;
	case RD_FILE_recv_merge:
		rd_recv_merge(plan, first);
		break;
	case RD_FILE_fetch:
		rd_fetch(plan, first, second);
		break;
	case RD_FILE_combine:
		rd_combine(plan, first, second);
		break;
	case RD_FILE_combine_aside:
		rd_combine_aside(plan, first);
		break;
	case RD_FILE_expect:
		rd_expect(plan, first);
		break;
	case RD_FILE_signal:
		rd_signal(plan, first);
		break;
	case RD_FILE_await:
		rd_await(plan, first);
		break;
	case RD_FILE_swap:
		rd_swap(plan, first, second, third);
		break;
	case RD_FILE_spread:
		rd_spread(plan, first, second);
		break;
	case RD_FILE_CALL_COUNT:
		break;
	}
}

/* plan->algorithm is the file's own name: no view lets a file in. */
static void write_from_file(struct rd_plan *plan)
{
	const struct rd_plan_file *file =
		(const void *)(plan->algorithm - offsetof(struct rd_plan_file, name));
	const struct rd_problem *problem = rd_problem_of(plan);
	int turn = ranks_from(file, problem);
	int rank = rd_wrap(problem->rank - turn, problem->size);

	rd_plan_parts(plan, file->parts);
	for (int i = file->firsts[rank]; i < file->firsts[rank + 1]; i++) {
		struct rd_file_step step = turned(file, &file->steps[i], turn);

		make_call(plan, &step);
	}
}

/* Views ask it, which have no files. Others call rd_algorithm_claims(). */
static bool declines(const struct rd_problem *problem)
{
	(void)problem;
	return false;
}

void rd_plan_file_seal(struct rd_plan_file *file, bool direct_access)
{
	file->algorithm = (struct rd_algorithm){
		.name = file->name,
		.may_run = declines,
		.direct_access = direct_access,
	};
	file->algorithm.write[file->problem.collective] = write_from_file;
}

const struct rd_plan_file *rd_plan_file_of(
	const struct rd_algorithm *algorithm, enum rd_collective collective)
{
	if (algorithm->write[collective] != write_from_file)
		return NULL;
	return (const void *)(algorithm->name - offsetof(struct rd_plan_file, name));
}

bool rd_algorithm_is_file(const struct rd_algorithm *algorithm)
{
	return algorithm->may_run == declines;
}

static bool serves(const struct rd_plan_file *file, const struct rd_problem *problem)
{
	int turn = ranks_from(file, problem);

	return problem->size == file->problem.size &&
	       (problem->collective != RD_TRANSFER ||
		       problem->target == rd_wrap(file->problem.target + turn, problem->size));
}

bool rd_algorithm_claims(const struct rd_algorithm *algorithm, const struct rd_problem *problem)
{
	const struct rd_plan_file *file = rd_plan_file_of(algorithm, problem->collective);

	if (file)
		return serves(file, problem);
	return algorithm->write[problem->collective] &&
	       (!algorithm->may_run || algorithm->may_run(problem));
}
