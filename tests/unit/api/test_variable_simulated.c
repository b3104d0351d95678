/* Blocks of different lengths by every algorithm, over simulated links. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "blocks.h"
#include "exec/vcounts.h"
#include "simulated.h"

/* Element i of a rank's input block. */
static int32_t worth(const struct rd_problem *problem, int rank, int block, size_t i)
{
	if (problem->collective == RD_ALL_TO_ALL)
		return block_value(rank, block % problem->size, i);
	return block_value(rank, block, i);
}

static size_t length_of(const struct rd_problem *problem, enum pattern pattern, int block)
{
	if (problem->collective == RD_ALL_TO_ALL)
		return pattern_length(
			pattern, problem->size, block / problem->size, block % problem->size);
	return pattern_length(pattern, problem->size, block, 0);
}

static int32_t expected(const struct rd_problem *problem, int block, size_t i)
{
	uint32_t sum = 0;

	for (int rank = 0; rank < problem->size; rank++) {
		struct rd_problem there = *problem;

		there.rank = rank;
		if (rd_in_block(&there, block) >= 0)
			sum += (uint32_t)worth(&there, rank, block, i);
	}
	return (int32_t)sum;
}

/* Lays a rank's blocks one after the other, or the last block first; fills its input. */
static void lay_call(struct rd_call *call, enum pattern pattern, bool reversed)
{
	const struct rd_problem *problem = &call->problem;
	int in_blocks = rd_in_blocks(problem), out_blocks = rd_out_blocks(problem);
	struct rd_vcounts *vcounts = rd_vcounts_create(in_blocks, out_blocks);
	struct rd_extent *extents[2] = { vcounts->in, vcounts->out };
	size_t ends[2] = { 0, 0 };

	for (int side = 0; side < 2; side++) {
		int blocks = side ? out_blocks : in_blocks;

		for (int n = 0; n < blocks; n++) {
			int i = reversed ? blocks - 1 - n : n;

			for (int block = 0; block < rd_blocks(problem); block++)
				if ((side ? rd_out_block(problem, block)
					  : rd_in_block(problem, block)) == i)
					extents[side][i].size =
						4 * length_of(problem, pattern, block);
			extents[side][i].offset = ends[side];
			ends[side] += extents[side][i].size;
		}
	}
	vcounts->pairwise = true;
	call->vcounts = vcounts;
	call->in = malloc(ends[0]);
	call->out = malloc(ends[1]);
	for (int block = 0; block < rd_blocks(problem); block++) {
		int at = rd_in_block(problem, block);

		for (size_t i = 0; at >= 0 && i < extents[0][at].size / 4; i++)
			i32_put((char *)call->in + extents[0][at].offset, i,
				worth(problem, problem->rank, block, i));
	}
}

static bool call_is_right(const struct rd_call *call)
{
	for (int block = 0; block < rd_blocks(&call->problem); block++) {
		int at = rd_out_block(&call->problem, block);

		for (size_t i = 0; at >= 0 && i < call->vcounts->out[at].size / 4; i++)
			if (!i32_is((char *)call->out + call->vcounts->out[at].offset, i,
				    expected(&call->problem, block, i)))
				return false;
	}
	return true;
}

static void simulate(const struct rd_algorithm *algorithm, enum rd_collective collective, int size,
	enum pattern pattern, uint64_t seed)
{
	struct rd_plan *plans[SIZE_MOST];
	struct rd_call calls[SIZE_MOST];
	struct rd_simulated simulated = { 0 };
	struct rd_simulation set = { .size = size,
		.channels = 1 + (int)(seed % 3),
		.piece_size = 1024,
		.slots = 2,
		.zero_copy = seed & 1,
		.seed = seed,
		.latency_ns = 1000,
		.jitter_ns = 5000,
		.dead_rank = -1 };

	for (int rank = 0; rank < size; rank++) {
		struct rd_problem problem = { .collective = collective,
			.rank = rank,
			.size = size,
			.root = rd_collective_has_root(collective) ? size / 2 : 0 };

		cr_assert_eq(rd_plan_create(&plans[rank], algorithm, &problem), 0);
		calls[rank] = (struct rd_call){
			.problem = problem, .type = RONDO_I32, .op = RONDO_SUM, .number = 1
		};
		lay_call(&calls[rank], pattern, seed & 2);
	}
	cr_assert_eq(rd_simulate(&set, (const struct rd_plan *const *)plans, calls, &simulated), 0,
		"%s of pattern %d by %s on %d ranks: %s", rd_collective_name(collective), pattern,
		algorithm->name, size, rondo_last_error());
	for (int rank = 0; rank < size; rank++) {
		cr_assert_eq(simulated.errors[rank], 0);
		cr_assert(call_is_right(&calls[rank]),
			"%s of pattern %d by %s on %d ranks: rank %d",
			rd_collective_name(collective), pattern, algorithm->name, size, rank);
		rd_plan_destroy(plans[rank]);
		free((void *)calls[rank].in);
		free(calls[rank].out);
		rd_call_finish(&calls[rank]);
	}
	rd_simulated_finish(&simulated);
}

/* Whether the algorithm passes a block only to ranks that have its length. */
static bool knows_lengths(const struct rd_algorithm *algorithm, enum rd_collective collective)
{
	return collective == RD_ALL_GATHER || collective == RD_REDUCE_SCATTER ||
	       strcmp(algorithm->name, "linear") == 0;
}

Test(variable, every_algorithm_takes_blocks_of_all_lengths_over_simulated_links, .timeout = 120)
{
	static const enum rd_collective collectives[] = { RD_ALL_GATHER, RD_REDUCE_SCATTER,
		RD_ALL_TO_ALL, RD_GATHER, RD_SCATTER };
	uint64_t seed = 0;

	for (int c = 0; c < 5; c++) {
		for (int a = 0; rd_algorithms[a]; a++) {
			for (int size = 1; size <= SIZE_MOST; size++) {
				struct rd_problem problem = { .collective = collectives[c],
					.size = size };

				if (rd_algorithms[a]->direct_access ||
					!rd_algorithm_can(rd_algorithms[a], &problem) ||
					!knows_lengths(rd_algorithms[a], collectives[c]))
					continue;
				for (int pattern = NOTHING; pattern <= ODD; pattern++)
					simulate(rd_algorithms[a], collectives[c], size, pattern,
						seed++);
			}
		}
	}
}
