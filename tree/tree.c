/*
 * Two binary trees, each for half of the buffer: log2(n) hops at the full bandwidth. A rank that
 * passes one half on to two others (an inner node) is a leaf of the other tree, where it passes on
 * nothing. All ranks are therefore busy both ways, whereas half the ranks of one tree only
 * receive.
 *
 * Source: P. Sanders, J. Speck and J. L. Träff, "Two-tree algorithms for full bandwidth broadcast,
 * reduction and scan", Parallel Computing 35 (2009). As there, the second tree is the first,
 * mirrored where the number of ranks is even, and moved on by one where it is odd. This one needs
 * no colouring of the edges, since a rank that sends to one child does not keep another from
 * receiving. all_reduce is one pass: while the first chunks come down, later ones still go up. The
 * trees stand along the layout's line, in which the nodes of a subtree follow each other.
 */
#include "tree/tree.h"

/* Where a node of a tree stands. */
struct place {
	int parent, children[2];
	int depth;
};

/* Nodes count from 1. The odd ones are leaves, those with k zeros at the end stand k levels above;
   each is the middle of its subtree, as far as there are nodes. 0: none, above the root. */
static int parent_of(int node, int size)
{
	int bit = node & -node, up = (node ^ bit) | bit << 1;

	return up <= size ? up : node ^ bit;
}

static struct place place_of(int node, int size)
{
	struct place place = { parent_of(node, size), { 0, 0 }, 0 };
	int far = (node & -node) / 2;

	if (far) {
		place.children[0] = node - far;
		while (far && node + far > size)
			far /= 2;
		if (far)
			place.children[1] = node + far;
	}
	for (int up = place.parent; up; up = parent_of(up, size))
		place.depth++;
	return place;
}

/* The node of tree 0 or 1 that a member of a line of `size` is, and back; no node is no member, -1.
 */
static int node_of(int tree, int member, int size)
{
	if (tree == 0)
		return member + 1;
	return size % 2 ? rd_wrap(member + 1, size) + 1 : size - member;
}

static int member_of(int tree, int node, int size)
{
	if (tree == 0 || !node)
		return node - 1;
	return size % 2 ? rd_wrap(node - 2, size) : size - node;
}

/* The same place, in the numbers of the line's members. */
static struct place place_in(int tree, int member, int size)
{
	struct place place = place_of(node_of(tree, member, size), size);

	place.parent = member_of(tree, place.parent, size);
	for (int i = 0; i < 2; i++)
		place.children[i] = member_of(tree, place.children[i], size);
	return place;
}

static void reduce_up(struct rd_plan *plan, const struct place *place, int chunk)
{
	for (int i = 0; i < 2 && place->children[i] >= 0; i++) {
		bool more = i == 0 && place->children[1] >= 0;

		if (place->parent < 0 && !more)
			rd_recv_reduce_last(plan, place->children[i], chunk);
		else
			rd_recv_reduce(plan, place->children[i], chunk);
	}
	if (place->parent >= 0)
		rd_send(plan, place->parent, chunk);
}

static void spread_down(struct rd_plan *plan, const struct place *place, int chunk)
{
	if (place->parent >= 0)
		rd_recv(plan, place->parent, chunk);
	for (int i = 0; i < 2 && place->children[i] >= 0; i++)
		rd_send(plan, place->children[i], chunk);
}

/* Over all nodes; the root is the largest power of two. */
static int depth_of(int size)
{
	int depth = 0;

	while (2 << depth <= size)
		depth++;
	return depth;
}

/*
 * In time steps: a node at depth d sends chunk i up in step i + deepest - d, and down in step
 * i + deepest + d. The receiver takes it in the next step. So both ends of a link that is in both
 * trees, up in one and down in the other, expect the same order.
 */
static void all_reduce(struct rd_plan *plan)
{
	int rank = plan->problem.rank, size = plan->problem.size, deepest = depth_of(size);
	/* Enough chunks that the way to the root and back is a small part of the whole. */
	int each = 4 * deepest;
	struct place places[2] = { place_in(0, rank, size), place_in(1, rank, size) };

	if (size == 1)
		return;
	rd_plan_parts(plan, 2 * each);
	for (int step = 0; step < each + 2 * deepest; step++) {
		for (int tree = 0; tree < 2; tree++) {
			int up = step - deepest + places[tree].depth;
			int down = step - deepest - places[tree].depth;

			if (up >= 0 && up < each)
				reduce_up(plan, &places[tree], tree * each + up);
			if (down >= 0 && down < each)
				spread_down(plan, &places[tree], tree * each + down);
		}
	}
}

/* The trees are of all ranks but the root, which stands above both. */
static struct place below_root(const struct rd_problem *problem, int tree)
{
	int others = problem->size - 1, first = problem->root + 1;
	struct place place = place_in(tree, rd_wrap(problem->rank - first, problem->size), others);

	place.parent =
		place.parent < 0 ? problem->root : rd_wrap(place.parent + first, problem->size);
	for (int i = 0; i < 2; i++)
		if (place.children[i] >= 0)
			place.children[i] = rd_wrap(place.children[i] + first, problem->size);
	return place;
}

static struct place root_above(const struct rd_problem *problem, int tree)
{
	int others = problem->size - 1, top = member_of(tree, 1 << depth_of(others), others);

	return (struct place){
		.parent = -1,
		.children = { rd_wrap(problem->root + 1 + top, problem->size), -1 },
	};
}

static void from_or_to_root(
	struct rd_plan *plan, void (*way)(struct rd_plan *, const struct place *, int))
{
	const struct rd_problem *problem = &plan->problem;

	rd_plan_parts(plan, 2);
	for (int tree = 0; tree < 2 && problem->size > 1; tree++) {
		struct place place = problem->rank == problem->root ? root_above(problem, tree)
								    : below_root(problem, tree);

		way(plan, &place, tree);
	}
}

/* With two or three ranks both trees are one path. Its links would have to hold the upward
   messages of one tree and the downward ones of the other at once. */
static bool may_run(const struct rd_problem *problem)
{
	return problem->collective != RD_ALL_REDUCE || problem->size == 1 || problem->size > 3;
}

static void reduce(struct rd_plan *plan)
{
	from_or_to_root(plan, reduce_up);
}

static void broadcast(struct rd_plan *plan)
{
	from_or_to_root(plan, spread_down);
}

const struct rd_algorithm rd_tree = {
	.name = "tree",
	.write = {
		[RD_ALL_REDUCE] = all_reduce,
		[RD_REDUCE] = reduce,
		[RD_BROADCAST] = broadcast,
	},
	.may_run = may_run,
	.along_line = true,
};
