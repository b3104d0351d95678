/*
 * Calls with real numbers on every rank, for the simulator: inputs, and expected outputs. The numbers
 * are small integers, so that sums are exact in any order, in f32 too.
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

struct world {
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

static inline struct rd_problem world_problem(const struct world *world, int rank)
{
	return (struct rd_problem){ world->collective, rank, world->size, world->root,
		world->target, world->layout };
}

static inline int world_number(int rank, int block, size_t i)
{
	unsigned x = rank * 2654435761u + block * 40503u + (unsigned)i * 69069u;

	return (int)((x ^ x >> 13) % 41) - 20;
}

static inline double world_get(const struct world *world, const void *memory, size_t i)
{
	return world->type == RONDO_I64 ? (double)((const int64_t *)memory)[i]
					: (double)((const float *)memory)[i];
}

static inline void world_set(const struct world *world, void *memory, size_t i, int number)
{
	if (world->type == RONDO_I64)
		((int64_t *)memory)[i] = number;
	else
		((float *)memory)[i] = number;
}

/* The expected element i of a block of the space. */
static inline double world_expected(const struct world *world, int block, size_t i)
{
	double result = 0;
	bool first = true;

	for (int rank = 0; rank < world->size; rank++) {
		struct rd_problem problem = world_problem(world, rank);
		double number = world_number(rank, block, i);

		if (rd_in_block(&problem, block) < 0)
			continue;
		result = first ? number : element_combine(world->op, result, number);
		first = false;
	}
	if (!rd_collective_reduces(world->collective) || world->op != RONDO_AVG)
		return result;
	result /= world->size;
	return world->type == RONDO_I64 ? (double)(int64_t)result : (double)(float)result;
}

/* Places the smaller of input and output in the larger, at their common blocks. */
static inline void world_lay_in_place(struct world *world, int rank, char *memory)
{
	struct rd_problem problem = world_problem(world, rank);
	size_t block_size = world->count * rondo_type_size(world->type);
	struct rd_call *call = &world->calls[rank];

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

static inline void world_fill(struct world *world, int rank)
{
	struct rd_problem problem = world_problem(world, rank);
	char *in = (char *)world->calls[rank].in;
	size_t block_size = world->count * rondo_type_size(world->type);

	for (int block = 0; block < rd_blocks(&problem); block++) {
		int place = rd_in_block(&problem, block);

		for (size_t i = 0; place >= 0 && i < world->count; i++)
			world_set(world, in + place * block_size, i, world_number(rank, block, i));
	}
}

static inline void world_lay_out(struct world *world, int rank)
{
	struct rd_problem problem = world_problem(world, rank);
	size_t block_size = world->count * rondo_type_size(world->type);
	size_t in = rd_in_blocks(&problem) * block_size, out = rd_out_blocks(&problem) * block_size;
	char **memory = &world->memory[2 * rank];

	/* Exact sizes let a sanitizer find an access past the end. */
	memory[0] = malloc(world->in_place ? (in > out ? in : out) : in);
	memory[1] = world->in_place ? NULL : malloc(out);
	world->calls[rank] = (struct rd_call){
		.problem = problem,
		.type = world->type,
		.op = world->op,
		.count = world->count,
		.in = memory[0],
		.out = memory[1],
		.number = 7,
	};
	if (world->in_place)
		world_lay_in_place(world, rank, memory[0]);
	world_fill(world, rank);
}

/* By name, or the first that needs only links. */
static inline const struct rd_algorithm *world_algorithm(
	const struct world *world, const char *name)
{
	struct rd_problem problem = world_problem(world, 0);

	for (int i = 0; name && rd_algorithms[i]; i++)
		if (strcmp(name, rd_algorithms[i]->name) == 0)
			return rd_algorithm_can(rd_algorithms[i], &problem) ? rd_algorithms[i]
									    : NULL;
	return rd_algorithm_find(&problem, name);
}

/* Writes the plans, which a test may change. NULL algorithm: the first that can. False, with the
   reason recorded: no plan. */
static inline bool world_create(struct world *world, const char *algorithm_name)
{
	const struct rd_algorithm *algorithm = world_algorithm(world, algorithm_name);

	world->plans = calloc(world->size, sizeof(*world->plans));
	world->calls = calloc(world->size, sizeof(*world->calls));
	world->memory = calloc(2 * world->size, sizeof(*world->memory));
	for (int rank = 0; rank < world->size; rank++) {
		struct rd_problem problem = world_problem(world, rank);

		if (!algorithm || rd_plan_create(&world->plans[rank], algorithm, &problem))
			return false;
		world_lay_out(world, rank);
	}
	return true;
}

static inline void world_destroy(struct world *world)
{
	for (int rank = 0; rank < world->size; rank++) {
		rd_plan_destroy(world->plans[rank]);
		free(world->memory[2 * rank]);
		free(world->memory[2 * rank + 1]);
	}
	free(world->plans);
	free(world->calls);
	free(world->memory);
}

static inline bool world_block_is_right(
	struct world *world, int rank, const char *place, int block, bool is_input)
{
	for (size_t i = 0; i < world->count; i++) {
		double expected =
			is_input ? world_number(rank, block, i) : world_expected(world, block, i);
		double found = world_get(world, place, i);

		if (found == expected)
			continue;
		snprintf(world->reason, sizeof(world->reason),
			"%s of %d: rank %d, %s, block %d, element %zu is %g instead of %g",
			rd_collective_name(world->collective), world->size, rank,
			is_input ? "input" : "output", block, i, found, expected);
		return false;
	}
	return true;
}

/* Whether a rank's output is right, and its input, out of place, unchanged. */
static inline bool world_rank_is_right(struct world *world, int rank)
{
	struct rd_problem problem = world_problem(world, rank);
	size_t block_size = world->count * rondo_type_size(world->type);
	const struct rd_call *call = &world->calls[rank];

	for (int block = 0; block < rd_blocks(&problem); block++) {
		int in = rd_in_block(&problem, block), out = rd_out_block(&problem, block);

		if (out >= 0 && !world_block_is_right(world, rank,
					(char *)call->out + out * block_size, block, false))
			return false;
		if (in >= 0 && !world->in_place &&
			!world_block_is_right(
				world, rank, (char *)call->in + in * block_size, block, true))
			return false;
	}
	return true;
}

static inline bool world_is_right(struct world *world)
{
	for (int rank = 0; rank < world->size; rank++)
		if (!world_rank_is_right(world, rank))
			return false;
	return true;
}

static inline int world_simulate(
	struct world *world, const struct rd_simulation *simulation, struct rd_simulated *simulated)
{
	return rd_simulate(
		simulation, (const struct rd_plan *const *)world->plans, world->calls, simulated);
}

#endif
