/*
 * One rank of each host, its leader, acts for the others. Its host's ranks reduce to it, the
 * leaders run the collective among themselves, and each broadcasts to its host. Each slow link
 * carries one message for a whole host, so this is for short messages. The parts inside a host and
 * between the leaders are the binomial tree, recursive doubling, and the dissemination barrier, in
 * views.
 *
 * Source: T. Kielmann et al., "MagPIe: MPI's collective communication operations for clustered
 * wide area systems", PPoPP 1999. The difference: a root leads its own host, so nothing is passed
 * on there.
 */
#include "tree/tree.h"

#include "tree/groups.h"
#include "mesh/mesh.h"

#define NO_ROOT (-1)

static int leader_of(const struct rd_layout *layout, int group, int root)
{
	if (root != NO_ROOT && layout->group[root] == group)
		return root;
	return rd_group_member(layout, group, 0);
}

/* Among the ranks of this rank's group, to or from its leader. */
static void inside(struct rd_plan *plan, enum rd_collective collective, int root,
	const struct rd_algorithm *algorithm)
{
	const struct rd_layout *layout = plan->problem.layout;
	int group = layout->group[plan->problem.rank];

	rd_view_begin(plan, collective, rd_group_place(layout, leader_of(layout, group, root)));
	for (int i = 0; i < rd_group_size(layout, group); i++)
		rd_view_rank(plan, rd_group_member(layout, group, i));
	rd_view_block(plan);
	rd_view_chunk(plan, 0);
	if (collective == RD_REDUCE)
		rd_view_partial(plan);
	rd_view_write(plan, algorithm);
}

static void between(struct rd_plan *plan, enum rd_collective collective, int root,
	const struct rd_algorithm *algorithm)
{
	const struct rd_layout *layout = plan->problem.layout;

	rd_view_begin(plan, collective, root == NO_ROOT ? 0 : layout->group[root]);
	for (int group = 0; group < layout->group_count; group++)
		rd_view_rank(plan, leader_of(layout, group, root));
	rd_view_block(plan);
	rd_view_chunk(plan, 0);
	rd_view_write(plan, algorithm);
}

void rd_leaders_reduce(struct rd_plan *plan, const struct rd_algorithm *algorithm)
{
	int root = plan->problem.root;

	inside(plan, RD_REDUCE, root, algorithm);
	between(plan, RD_REDUCE, root, algorithm);
}

void rd_leaders_broadcast(struct rd_plan *plan, const struct rd_algorithm *algorithm)
{
	int root = plan->problem.root;

	between(plan, RD_BROADCAST, root, algorithm);
	inside(plan, RD_BROADCAST, root, algorithm);
}

static void reduce(struct rd_plan *plan)
{
	rd_leaders_reduce(plan, &rd_binomial);
}

static void broadcast(struct rd_plan *plan)
{
	rd_leaders_broadcast(plan, &rd_binomial);
}

static void all_reduce(struct rd_plan *plan)
{
	inside(plan, RD_REDUCE, NO_ROOT, &rd_binomial);
	between(plan, RD_ALL_REDUCE, NO_ROOT, &rd_doubling);
	inside(plan, RD_BROADCAST, NO_ROOT, &rd_binomial);
}

static void barrier(struct rd_plan *plan)
{
	inside(plan, RD_REDUCE, NO_ROOT, &rd_binomial);
	between(plan, RD_BARRIER, NO_ROOT, &rd_linear);
	inside(plan, RD_BROADCAST, NO_ROOT, &rd_binomial);
}

const struct rd_algorithm rd_leaders = {
	.name = "leaders",
	.write = {
		[RD_ALL_REDUCE] = all_reduce,
		[RD_REDUCE] = reduce,
		[RD_BROADCAST] = broadcast,
		[RD_BARRIER] = barrier,
	},
	.may_run = rd_groups_exist,
};
