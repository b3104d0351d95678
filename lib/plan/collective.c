#include "plan/collective.h"

#include "base/nearest.h"

const char *rd_collective_name(enum rd_collective collective)
{
	static const char *const names[] = {
#define NAME(name, text, reduces) text,
		RD_COLLECTIVES(NAME)
#undef NAME
	};

	return (unsigned)collective < RD_COLLECTIVE_COUNT ? names[collective] : "?";
}

int rd_collective_named(const char *name)
{
	for (int i = 0; i < RD_COLLECTIVE_COUNT; i++)
		if (rd_same_name(name, rd_collective_name(i)))
			return i;
	return -1;
}

bool rd_collective_reduces(enum rd_collective collective)
{
	static const bool reduces_[] = {
#define REDUCES(name, text, reduces) reduces,
		RD_COLLECTIVES(REDUCES)
#undef REDUCES
	};

	return (unsigned)collective < RD_COLLECTIVE_COUNT && reduces_[collective];
}

bool rd_collective_has_root(enum rd_collective collective)
{
	return collective == RD_REDUCE || collective == RD_BROADCAST || collective == RD_GATHER ||
	       collective == RD_SCATTER || collective == RD_TRANSFER;
}

bool rd_collective_writes_far(enum rd_collective collective)
{
	return collective == RD_ALL_REDUCE || collective == RD_REDUCE ||
	       collective == RD_ALL_TO_ALL || collective == RD_ALL_GATHER ||
	       collective == RD_BROADCAST;
}

int rd_blocks(const struct rd_problem *problem)
{
	switch (problem->collective) {
	case RD_REDUCE_SCATTER:
	case RD_ALL_GATHER:
	case RD_GATHER:
	case RD_SCATTER:
		return problem->size;
	case RD_ALL_TO_ALL:
		return problem->size * problem->size;
	default:
		return 1;
	}
}

int rd_in_blocks(const struct rd_problem *problem)
{
	switch (problem->collective) {
	case RD_REDUCE_SCATTER:
	case RD_ALL_TO_ALL:
		return problem->size;
	case RD_SCATTER:
		return problem->rank == problem->root ? problem->size : 0;
	case RD_BROADCAST:
	case RD_TRANSFER:
		return problem->rank == problem->root;
	default:
		return 1;
	}
}

int rd_out_blocks(const struct rd_problem *problem)
{
	switch (problem->collective) {
	case RD_ALL_GATHER:
	case RD_ALL_TO_ALL:
		return problem->size;
	case RD_GATHER:
		return problem->rank == problem->root ? problem->size : 0;
	case RD_REDUCE:
		return problem->rank == problem->root;
	case RD_TRANSFER:
		return problem->rank == problem->target;
	default:
		return 1;
	}
}

int rd_in_block(const struct rd_problem *problem, int block)
{
	switch (problem->collective) {
	case RD_REDUCE_SCATTER:
		return block;
	case RD_ALL_GATHER:
	case RD_GATHER:
		return block == problem->rank ? 0 : -1;
	case RD_ALL_TO_ALL:
		return block / problem->size == problem->rank ? block % problem->size : -1;
	case RD_SCATTER:
		return problem->rank == problem->root ? block : -1;
	case RD_BROADCAST:
	case RD_TRANSFER:
		return problem->rank == problem->root ? 0 : -1;
	default:
		return 0;
	}
}

int rd_out_block(const struct rd_problem *problem, int block)
{
	switch (problem->collective) {
	case RD_REDUCE_SCATTER:
	case RD_SCATTER:
		return block == problem->rank ? 0 : -1;
	case RD_ALL_GATHER:
		return block;
	case RD_ALL_TO_ALL:
		return block % problem->size == problem->rank ? block / problem->size : -1;
	case RD_GATHER:
		return problem->rank == problem->root ? block : -1;
	case RD_REDUCE:
		return problem->rank == problem->root ? 0 : -1;
	case RD_TRANSFER:
		return problem->rank == problem->target ? 0 : -1;
	default:
		return 0;
	}
}

int rd_block_of_in(const struct rd_problem *problem, int in_block)
{
	switch (problem->collective) {
	case RD_ALL_GATHER:
	case RD_GATHER:
		return problem->rank;
	case RD_ALL_TO_ALL:
		return problem->rank * problem->size + in_block;
	default:
		return in_block;
	}
}

int rd_block_of_out(const struct rd_problem *problem, int out_block)
{
	switch (problem->collective) {
	case RD_REDUCE_SCATTER:
	case RD_SCATTER:
		return problem->rank;
	case RD_ALL_TO_ALL:
		return out_block * problem->size + problem->rank;
	default:
		return out_block;
	}
}

int rd_alias_block(const struct rd_problem *problem, int out_block)
{
	switch (problem->collective) {
	case RD_ALL_TO_ALL:
		return out_block;
	case RD_ALL_GATHER:
	case RD_GATHER: /* The input is this rank's block of the output. */
		return out_block == problem->rank ? 0 : -1;
	case RD_REDUCE_SCATTER: /* The output is this rank's block of the input. */
		return problem->rank;
	case RD_SCATTER:
		return problem->rank == problem->root ? problem->rank : -1;
	case RD_BROADCAST:
	case RD_TRANSFER:
		return problem->rank == problem->root ? 0 : -1;
	default:
		return 0;
	}
}
