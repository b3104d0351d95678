/*
 * Calls with real numbers on every rank, for the simulator: inputs, and expected outputs. The
 * numbers are small integers, so that sums are exact in any order, in f32 too.
 */
#ifndef SIMULATED_H
#define SIMULATED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/algorithms.h"
#include "tuner/eligible.h"
#include "elements.h"
#include "base/error.h"
#include "check/simulator.h"

struct simulated_job {
	enum rd_collective collective;
	int size, root, target;
	rondo_type type; /* RONDO_I64 or RONDO_F32 */
	rondo_op op;
	size_t count;
	bool in_place;
	const struct rd_layout *layout; /* NULL: ranks in order, all near */

	struct rd_plan **plans;
	struct rd_call *calls;
	char **memory; /* two a rank; the second is NULL in place */
	char reason[200]; /* describes the first wrong number */
};

static inline struct rd_problem job_problem(const struct simulated_job *job, int rank)
{
	return (struct rd_problem){ job->collective, rank, job->size, job->root, job->target,
		job->layout };
}

static inline int job_number(int rank, int block, size_t i)
{
	unsigned x = rank * 2654435761u + block * 40503u + (unsigned)i * 69069u;

	return (int)((x ^ x >> 13) % 41) - 20;
}

static inline double job_get(const struct simulated_job *job, const void *memory, size_t i)
{
	return job->type == RONDO_I64 ? (double)((const int64_t *)memory)[i]
				      : (double)((const float *)memory)[i];
}

static inline void job_set(const struct simulated_job *job, void *memory, size_t i, int number)
{
	if (job->type == RONDO_I64)
		((int64_t *)memory)[i] = number;
	else
		((float *)memory)[i] = number;
}

/* The expected element i of a block of the space. */
static inline double job_expected(const struct simulated_job *job, int block, size_t i)
{
	double result = 0;
	bool first = true;

	for (int rank = 0; rank < job->size; rank++) {
		struct rd_problem problem = job_problem(job, rank);
		double number = job_number(rank, block, i);

		if (rd_in_block(&problem, block) < 0)
			continue;
		result = first ? number : element_combine(job->op, result, number);
		first = false;
	}
	if (!rd_collective_reduces(job->collective) || job->op != RONDO_AVG)
		return result;
	result /= job->size;
	return job->type == RONDO_I64 ? (double)(int64_t)result : (double)(float)result;
}

/* Places the smaller of input and output in the larger, at their common blocks. */
static inline void job_lay_in_place(struct simulated_job *job, int rank, char *memory)
{
	struct rd_problem problem = job_problem(job, rank);
	size_t block_size = job->count * rondo_type_size(job->type);
	struct rd_call *call = &job->calls[rank];

	call->in = call->out = memory;
	for (int out = 0; out < rd_out_blocks(&problem); out++) {
		int in = rd_alias_block(&problem, out);

		if (in < 0)
			continue;
		if (in > out)
			call->out = memory + (in - out) * block_size;
		else
			call->in = memory + (out - in) * block_size;
		return;
	}
}

static inline void job_fill(struct simulated_job *job, int rank)
{
	struct rd_problem problem = job_problem(job, rank);
	char *in = (char *)job->calls[rank].in;
	size_t block_size = job->count * rondo_type_size(job->type);

	for (int block = 0; block < rd_blocks(&problem); block++) {
		int place = rd_in_block(&problem, block);

		for (size_t i = 0; place >= 0 && i < job->count; i++)
			job_set(job, in + place * block_size, i, job_number(rank, block, i));
	}
}

static inline void job_lay_out(struct simulated_job *job, int rank)
{
	struct rd_problem problem = job_problem(job, rank);
	size_t block_size = job->count * rondo_type_size(job->type);
	size_t in = rd_in_blocks(&problem) * block_size, out = rd_out_blocks(&problem) * block_size;
	char **memory = &job->memory[2 * rank];

	/* Exact sizes let a sanitizer find an access past the end. */
	memory[0] = malloc(job->in_place ? (in > out ? in : out) : in);
	memory[1] = job->in_place ? NULL : malloc(out);
	job->calls[rank] = (struct rd_call){
		.problem = problem,
		.type = job->type,
		.op = job->op,
		.count = job->count,
		.in = memory[0],
		.out = memory[1],
		.number = 7,
	};
	if (job->in_place)
		job_lay_in_place(job, rank, memory[0]);
	job_fill(job, rank);
}

/* By name, or the first that needs only links. */
static inline const struct rd_algorithm *job_algorithm(
	const struct simulated_job *job, const char *name)
{
	struct rd_problem problem = job_problem(job, 0);

	for (int i = 0; name && rd_algorithms[i]; i++)
		if (strcmp(name, rd_algorithms[i]->name) == 0)
			return rd_algorithm_can(rd_algorithms[i], &problem) ? rd_algorithms[i]
									    : NULL;
	return rd_algorithm_find(&problem, name);
}

/* Writes the plans, which a test may change. NULL algorithm: the first that can. False, with the
   reason recorded: no plan. */
static inline bool job_create(struct simulated_job *job, const char *algorithm_name)
{
	const struct rd_algorithm *algorithm = job_algorithm(job, algorithm_name);

	job->plans = calloc(job->size, sizeof(*job->plans));
	job->calls = calloc(job->size, sizeof(*job->calls));
	job->memory = calloc(2 * job->size, sizeof(*job->memory));
	for (int rank = 0; rank < job->size; rank++) {
		struct rd_problem problem = job_problem(job, rank);

		if (!algorithm || rd_plan_create(&job->plans[rank], algorithm, &problem))
			return false;
		job_lay_out(job, rank);
	}
	return true;
}

static inline void job_destroy(struct simulated_job *job)
{
	for (int rank = 0; rank < job->size; rank++) {
		rd_plan_destroy(job->plans[rank]);
		free(job->memory[2 * rank]);
		free(job->memory[2 * rank + 1]);
	}
	free(job->plans);
	free(job->calls);
	free(job->memory);
}

static inline bool job_block_is_right(
	struct simulated_job *job, int rank, const char *place, int block, bool is_input)
{
	for (size_t i = 0; i < job->count; i++) {
		double expected =
			is_input ? job_number(rank, block, i) : job_expected(job, block, i);
		double found = job_get(job, place, i);

		if (found == expected)
			continue;
		snprintf(job->reason, sizeof(job->reason),
			"%s of %d: rank %d, %s, block %d, element %zu is %g instead of %g",
			rd_collective_name(job->collective), job->size, rank,
			is_input ? "input" : "output", block, i, found, expected);
		return false;
	}
	return true;
}

/* Whether a rank's output is right, and its input, out of place, unchanged. */
static inline bool job_rank_is_right(struct simulated_job *job, int rank)
{
	struct rd_problem problem = job_problem(job, rank);
	size_t block_size = job->count * rondo_type_size(job->type);
	const struct rd_call *call = &job->calls[rank];

	for (int block = 0; block < rd_blocks(&problem); block++) {
		int in = rd_in_block(&problem, block), out = rd_out_block(&problem, block);

		if (out >= 0 && !job_block_is_right(job, rank, (char *)call->out + out * block_size,
					block, false))
			return false;
		if (in >= 0 && !job->in_place &&
			!job_block_is_right(
				job, rank, (char *)call->in + in * block_size, block, true))
			return false;
	}
	return true;
}

static inline bool job_is_right(struct simulated_job *job)
{
	for (int rank = 0; rank < job->size; rank++)
		if (!job_rank_is_right(job, rank))
			return false;
	return true;
}

static inline int job_simulate(struct simulated_job *job, const struct rd_simulation *simulation,
	struct rd_simulated *simulated)
{
	return rd_simulate(
		simulation, (const struct rd_plan *const *)job->plans, job->calls, simulated);
}

#endif
