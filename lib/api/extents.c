#include "api/arguments.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/error.h"

static const char *name_of(const struct rd_arguments *arguments)
{
	return rd_collective_name(arguments->collective);
}

static const char *form_of(const struct rd_arguments *arguments)
{
	return rd_vcounts_suffix(arguments->vcounts->listed);
}

static int check_buffers(const struct rd_arguments *arguments, const struct rd_problem *problem)
{
	size_t in_size = rd_extents_end(arguments->vcounts->in, rd_in_blocks(problem));
	size_t out_size = rd_extents_end(arguments->vcounts->out, rd_out_blocks(problem));

	if (in_size > 0 && !arguments->send)
		return rd_fail(RONDO_INVALID, "%s%s: send is NULL", name_of(arguments),
			form_of(arguments));
	if (out_size > 0 && !arguments->recv)
		return rd_fail(RONDO_INVALID, "%s%s: recv is NULL", name_of(arguments),
			form_of(arguments));
	return 0;
}

/* No message has this rank's block for itself, whose two lengths nothing else would compare. */
static int check_own_block(const struct rd_arguments *arguments, const struct rd_problem *problem)
{
	bool all_pairs = problem->collective == RD_ALL_TO_ALL;
	int own = problem->rank + (all_pairs ? problem->rank * problem->size : 0);
	int in = rd_in_block(problem, own), out = rd_out_block(problem, own);
	size_t element = rondo_type_size(arguments->type);

	if (in < 0 || out < 0 ||
		arguments->vcounts->in[in].size == arguments->vcounts->out[out].size)
		return 0;
	return rd_fail(RONDO_INVALID, "%s%s: rank %d sends %zu %s to itself, and expects %zu",
		name_of(arguments), form_of(arguments), problem->rank,
		arguments->vcounts->in[in].size / element, rondo_type_name(arguments->type),
		arguments->vcounts->out[out].size / element);
}

/* ---- Overlaps ------------------------------------------------------------------------------- */

/* The addresses of a block's first byte, and behind its last. */
struct range {
	uintptr_t begin, end;
	int block;
};

static struct range range_of(const void *buffer, const struct rd_extent *extents, int block)
{
	uintptr_t begin = (uintptr_t)buffer + extents[block].offset;

	return (struct range){ begin, begin + extents[block].size, block };
}

static int compare(const void *a, const void *b)
{
	const struct range *left = a, *right = b;

	return (left->begin > right->begin) - (left->begin < right->begin);
}

/* The output's blocks that are not empty, by address; returns how many. Most calls have them in
   that order. */
static int sort_out(const struct rd_arguments *arguments, const struct rd_problem *problem,
	struct range *ranges)
{
	const struct rd_extent *outs = arguments->vcounts->out;
	bool sorted = true;
	int count = 0;

	for (int i = 0; i < rd_out_blocks(problem); i++) {
		if (outs[i].size == 0)
			continue;
		ranges[count] = range_of(arguments->recv, outs, i);
		sorted = sorted && (count == 0 || ranges[count - 1].begin < ranges[count].begin);
		count++;
	}
	if (!sorted)
		qsort(ranges, (size_t)count, sizeof(*ranges), compare);
	return count;
}

/* The first range that ends behind the address; `count` where there is none. */
static int first_behind(const struct range *ranges, int count, uintptr_t address)
{
	int low = 0, high = count;

	while (low < high) {
		int middle = low + (high - low) / 2;

		if (ranges[middle].end > address)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* Whether the call may be in place with these two blocks. */
static bool is_pair(const struct rd_problem *problem, int in, int out)
{
	if (rd_in_blocks(problem) > 1 && rd_out_blocks(problem) > 1)
		return in == out;
	return rd_in_blocks(problem) > 1 ? in == problem->rank : out == problem->rank;
}

static int check_in_block(const struct rd_arguments *arguments, const struct rd_problem *problem,
	const struct range *outs, int count, int block)
{
	struct range in = range_of(arguments->send, arguments->vcounts->in, block);

	for (int i = first_behind(outs, count, in.begin); i < count && outs[i].begin < in.end; i++)
		if (!is_pair(problem, block, outs[i].block) || in.begin != outs[i].begin ||
			in.end != outs[i].end)
			return rd_fail(RONDO_INVALID,
				"%s%s: send and recv overlap, and not as an operation in place",
				name_of(arguments), form_of(arguments));
	return 0;
}

static int check_ranges(const struct rd_arguments *arguments, const struct rd_problem *problem,
	const struct range *outs, int count)
{
	int err = 0;

	for (int i = 1; i < count; i++)
		if (outs[i].begin < outs[i - 1].end)
			return rd_fail(RONDO_INVALID, "%s%s: blocks %d and %d of recv overlap",
				name_of(arguments), form_of(arguments), outs[i - 1].block,
				outs[i].block);
	for (int i = 0; i < rd_in_blocks(problem) && !err; i++)
		if (arguments->vcounts->in[i].size > 0)
			err = check_in_block(arguments, problem, outs, count, i);
	return err;
}

static int check_overlaps(const struct rd_arguments *arguments, const struct rd_problem *problem)
{
	struct range *outs;
	int err;

	if (rd_out_blocks(problem) == 0)
		return 0;
	outs = malloc((size_t)rd_out_blocks(problem) * sizeof(*outs));
	if (!outs)
		return rd_fail(
			RONDO_MEMORY, "no memory for %s%s", name_of(arguments), form_of(arguments));
	err = check_ranges(arguments, problem, outs, sort_out(arguments, problem, outs));
	free(outs);
	return err;
}

int rd_extents_check(const struct rd_arguments *arguments, const struct rd_problem *problem)
{
	int err = check_buffers(arguments, problem);

	if (!err)
		err = check_own_block(arguments, problem);
	return err ? err : check_overlaps(arguments, problem);
}
