#include "train/parallel/tree.h"

#include <stdlib.h>

#include "train/base/fail.h"

#define LEVELS_MAX 30
#define UNIT (64 / sizeof(float))

struct tree {
	const struct train_world *world;
	int levels;
	rondo_comm
		*pairs[LEVELS_MAX]; /* [levels]: of this rank and the one that differs in bit l */
};

bool is_power_of_two(int number)
{
	return number > 0 && !(number & (number - 1));
}

int tree_create(struct tree **out, const struct train_world *world)
{
	struct tree *tree = calloc(1, sizeof(*tree));
	int err = 0;
	*out = NULL;
	if (!tree)
		return fail("out of memory");
	tree->world = world;
	for (; !err && 1 << tree->levels < world->size; tree->levels++) {
		int bit = 1 << tree->levels;
		err = rondo_comm_split(
			world->comm, world->rank & ~bit, world->rank, &tree->pairs[tree->levels]);
	}
	if (err) {
		fail_comm(err, "a comm for each level of the tree of sums");
		tree_destroy(tree);
		return err;
	}
	*out = tree;
	return 0;
}

/* A rank that failed in one comm calls the others no more, and peers may wait there. */
static bool has_failed(const struct tree *tree)
{
	bool failed = rondo_comm_error(tree->world->comm) != 0;
	for (int l = 0; !failed && l < tree->levels; l++)
		failed = tree->pairs[l] && rondo_comm_error(tree->pairs[l]);
	return failed;
}

void tree_destroy(struct tree *tree)
{
	if (!tree)
		return;
	bool failed = has_failed(tree);
	for (int l = 0; failed && l < tree->levels; l++)
		if (tree->pairs[l])
			rondo_comm_revoke(tree->pairs[l], failure());
	for (int l = 0; l < tree->levels; l++)
		rondo_comm_destroy(tree->pairs[l]);
	free(tree);
}

/* The two halves of a range, the first not the longer one. */
static void halve(size_t count, size_t halves[2])
{
	halves[0] = count / UNIT / 2 * UNIT;
	halves[1] = count - halves[0];
}

/* Narrows the range to a rank's half of this level. */
static void descend(int rank, int level, size_t *first, size_t *count)
{
	size_t halves[2];
	int side = rank >> level & 1;
	halve(*count, halves);
	*first += side ? halves[0] : 0;
	*count = halves[side];
}

void tree_shard(int size, int rank, size_t *first, size_t *count)
{
	for (int l = 0; 1 << l < size; l++)
		descend(rank, l, first, count);
}

int tree_reduce_scatter(struct tree *tree, float *values, size_t count, rondo_stream *stream)
{
	size_t first = 0, halves[2];
	int err = 0;
	for (int l = 0; !err && l < tree->levels; l++) {
		float *range = values + first;
		halve(count, halves);
		descend(tree->world->rank, l, &first, &count);
		err = rondo_reduce_scatter_v(tree->pairs[l], range, values + first, halves,
			RONDO_F32, RONDO_SUM, stream);
	}
	return err;
}

int tree_all_gather(struct tree *tree, float *values, size_t whole, rondo_stream *stream)
{
	int err = 0;
	for (int l = tree->levels - 1; !err && l >= 0; l--) {
		size_t first = 0, count = whole, halves[2];
		tree_shard(1 << l, tree->world->rank, &first, &count);
		float *range = values + first;
		halve(count, halves);
		descend(tree->world->rank, l, &first, &count);
		err = rondo_all_gather_v(
			tree->pairs[l], values + first, range, halves, NULL, RONDO_F32, stream);
	}
	return err;
}

int tree_all_reduce(struct tree *tree, float *values, size_t count, rondo_stream *stream)
{
	int err = tree_reduce_scatter(tree, values, count, stream);
	return err ? err : tree_all_gather(tree, values, count, stream);
}
