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
 * receiving. all_reduce is one pass: while the first chunks come down, later ones still go up.
 *
 * The trees are of hosts, so that each crosses the network once a host, and each host has trees of
 * its ranks. Hosts and ranks stand along the layout's line, in which the nodes of a subtree follow
 * each other.
 */
#include "tree/tree.h"

#include "tree/groups.h"

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

/* Over all nodes; the root is the largest power of two. */
static int depth_of(int size)
{
	int depth = 0;

	while (2 << depth <= size)
		depth++;
	return depth;
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

/* The member at the root. */
static int top_of(int tree, int size)
{
	return member_of(tree, 1 << depth_of(size), size);
}

/* Where member `first` stands above a tree of the others, which follow it in a circle. */
static struct place place_below(int first, int tree, int member, int size)
{
	int others = size - 1, above = first + 1;
	struct place place = { -1, { -1, -1 }, 0 };

	if (member == first) {
		if (others > 0)
			place.children[0] = rd_wrap(top_of(tree, others) + above, size);
		return place;
	}
	place = place_in(tree, rd_wrap(member - above, size), others);
	place.parent = place.parent < 0 ? first : rd_wrap(place.parent + above, size);
	for (int i = 0; i < 2; i++)
		if (place.children[i] >= 0)
			place.children[i] = rd_wrap(place.children[i] + above, size);
	place.depth++;
	return place;
}

/* ---- Hosts ---------------------------------------------------------------------------------- */

/* The hosts. Where all ranks are on one, each rank stands for a host. */
static int host_count(const struct rd_problem *problem)
{
	return rd_groups_exist(problem) ? problem->layout->group_count : problem->size;
}

static int host_of(const struct rd_problem *problem, int rank)
{
	if (rd_groups_exist(problem))
		return problem->layout->group[rank];
	return problem->layout ? rd_group_place(problem->layout, rank) : rank;
}

static int members_of(const struct rd_problem *problem, int host)
{
	return rd_groups_exist(problem) ? rd_group_size(problem->layout, host) : 1;
}

static int rank_of(const struct rd_problem *problem, int host, int member)
{
	if (rd_groups_exist(problem))
		return rd_group_member(problem->layout, host, member);
	return problem->layout ? problem->layout->order[host] : host;
}

static int index_of(const struct rd_problem *problem, int rank)
{
	return rd_groups_exist(problem) ? rd_group_place(problem->layout, rank) : 0;
}

/* Whether the root stands above the trees: it is on this host. */
static bool has_root(const struct rd_problem *problem, int host)
{
	return problem->collective != RD_ALL_REDUCE && host_of(problem, problem->root) == host;
}

/* The rank that links its host with others: the root, or the top of the host's tree. */
static int head_of(const struct rd_problem *problem, int tree, int host)
{
	if (has_root(problem, host))
		return problem->root;
	return rank_of(problem, host, top_of(tree, members_of(problem, host)));
}

/* A rank's neighbours in one of the trees. The children on its own host are the first. */
struct branch {
	int parent, child_count, children[4]; /* parent -1: none */
	int depth;
};

static struct branch branch_of(const struct rd_problem *problem, int tree)
{
	int host = host_of(problem, problem->rank), hosts = host_count(problem);
	int member = index_of(problem, problem->rank), members = members_of(problem, host);
	int head = head_of(problem, tree, host);
	struct place inside = has_root(problem, host)
				      ? place_below(index_of(problem, head), tree, member, members)
				      : place_in(tree, member, members);
	struct place between =
		problem->collective == RD_ALL_REDUCE
			? place_in(tree, host, hosts)
			: place_below(host_of(problem, problem->root), tree, host, hosts);
	struct branch branch = { .parent = -1, .depth = inside.depth + between.depth };

	if (inside.parent >= 0)
		branch.parent = rank_of(problem, host, inside.parent);
	else if (between.parent >= 0)
		branch.parent = head_of(problem, tree, between.parent);
	for (int i = 0; i < 2; i++)
		if (inside.children[i] >= 0)
			branch.children[branch.child_count++] =
				rank_of(problem, host, inside.children[i]);
	for (int i = 0; i < 2; i++)
		if (problem->rank == head && between.children[i] >= 0)
			branch.children[branch.child_count++] =
				head_of(problem, tree, between.children[i]);
	return branch;
}

/* The depth of the deepest rank, or more. */
static int deepest_of(const struct rd_problem *problem)
{
	int most = rd_groups_exist(problem) ? rd_group_largest(problem->layout) : 1;

	return depth_of(host_count(problem)) + depth_of(most);
}

/* ---- Steps ---------------------------------------------------------------------------------- */

static void reduce_up(struct rd_plan *plan, const struct branch *branch, int chunk)
{
	for (int i = 0; i < branch->child_count; i++) {
		if (branch->parent < 0 && i == branch->child_count - 1)
			rd_recv_reduce_last(plan, branch->children[i], chunk);
		else
			rd_recv_reduce(plan, branch->children[i], chunk);
	}
	if (branch->parent >= 0)
		rd_send(plan, branch->parent, chunk);
}

/* To other hosts first: those messages take longer. */
static void spread_down(struct rd_plan *plan, const struct branch *branch, int chunk)
{
	if (branch->parent >= 0)
		rd_recv(plan, branch->parent, chunk);
	for (int i = branch->child_count - 1; i >= 0; i--)
		rd_send(plan, branch->children[i], chunk);
}

/*
 * In time steps: a node at depth d sends chunk i up in step i + deepest - d, and down in step
 * i + deepest + d. The receiver takes it in the next step. So both ends of a link that is in both
 * trees, up in one and down in the other, expect the same order.
 */
static void all_reduce(struct rd_plan *plan)
{
	const struct rd_problem *problem = &plan->problem;
	int deepest = deepest_of(problem);
	/* Enough chunks that the way to the root and back is a small part of the whole. */
	int each = 4 * deepest;
	struct branch branches[2] = { branch_of(problem, 0), branch_of(problem, 1) };

	if (problem->size == 1)
		return;
	rd_plan_parts(plan, 2 * each);
	for (int step = 0; step < each + 2 * deepest; step++) {
		for (int tree = 0; tree < 2; tree++) {
			int up = step - deepest + branches[tree].depth;
			int down = step - deepest - branches[tree].depth;

			if (up >= 0 && up < each)
				reduce_up(plan, &branches[tree], tree * each + up);
			if (down >= 0 && down < each)
				spread_down(plan, &branches[tree], tree * each + down);
		}
	}
}

static void from_or_to_root(
	struct rd_plan *plan, void (*way)(struct rd_plan *, const struct branch *, int))
{
	rd_plan_parts(plan, 2);
	for (int tree = 0; tree < 2 && plan->problem.size > 1; tree++) {
		struct branch branch = branch_of(&plan->problem, tree);

		way(plan, &branch, tree);
	}
}

/* Both trees join the first two of three hosts or fewer: up in one, down in the other. If those
   have one rank each, one link would have to hold the messages of both at once. */
static bool may_run(const struct rd_problem *problem)
{
	return problem->collective != RD_ALL_REDUCE || problem->size == 1 ||
	       host_count(problem) > 3 || members_of(problem, 0) > 1 || members_of(problem, 1) > 1;
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
};
