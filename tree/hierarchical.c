/*
 * Inside the hosts, between them, and inside again, so that the slow links between hosts carry the
 * fewest bytes. A host's ranks first combine their inputs. Then each rank reduces one share with
 * its counterparts on the other hosts. Last, the host's ranks exchange the results. Data that only
 * moves enters each host once; collectives with a root go through one rank of each host.
 *
 * Nothing here sends or receives. The ring (and, between two hosts, recursive doubling) writes the
 * parts, each in a view of the ranks and chunks that it concerns.
 *
 * Source: the hierarchical collectives of wide-area MPI: T. Kielmann et al., "MagPIe: MPI's
 * collective communication operations for clustered wide area systems", PPoPP 1999. All-reduce
 * uses every rank of a host, as in M. Cho et al., "BlueConnect: decomposing all-reduce for deep
 * learning on heterogeneous network hierarchy", MLSys 2019. This one also serves hosts of
 * different numbers of ranks: the members of a smaller host take turns as the counterparts of a
 * larger one's.
 */
#include "tree/tree.h"

#include "tree/groups.h"
#include "mesh/mesh.h"
#include "ring/ring.h"

/* This rank's position among the groups. */
struct stand {
	const struct rd_layout *layout;
	int group, place, members; /* its group, its index there, and the number of members */
};

static struct stand stand_of(const struct rd_plan *plan)
{
	const struct rd_layout *layout = plan->problem.layout;
	int rank = plan->problem.rank, group = layout->group[rank];

	return (struct stand){ layout, group, rd_group_place(layout, rank),
		rd_group_size(layout, group) };
}

/* A view of the members of this rank's group. */
static void begin_inside(
	struct rd_plan *plan, const struct stand *stand, enum rd_collective collective)
{
	rd_view_begin(plan, collective, 0);
	for (int i = 0; i < stand->members; i++)
		rd_view_rank(plan, rd_group_member(stand->layout, stand->group, i));
}

/* A view of one member of each group: counterparts in all that has this number. */
static void begin_between(
	struct rd_plan *plan, const struct stand *stand, enum rd_collective collective, int number)
{
	rd_view_begin(plan, collective, 0);
	for (int first = 0, end = 0; first < stand->layout->size; first = end) {
		end = rd_group_end(stand->layout, first);
		rd_view_rank(plan, stand->layout->order[first + number % (end - first)]);
	}
}

/* ---- All-reduce ---------------------------------------------------------------------------- */

/* The buffer is cut into `count` shares, which the members of each group handle in turn, and each
   share into `cut` chunks. */
struct shares {
	int count, cut;
};

static int greatest_common_divisor(int a, int b)
{
	return b ? greatest_common_divisor(b, a % b) : a;
}

/* The least number of shares that every group divides evenly, or, if that is more than four for
   each member, one for each member of the largest group. */
static struct shares shares_of(const struct rd_layout *layout)
{
	int most = rd_group_largest(layout), even = 1;

	for (int first = 0, end = 0; first < layout->size && even <= 4 * most; first = end) {
		end = rd_group_end(layout, first);
		even = even / greatest_common_divisor(even, end - first) * (end - first);
	}
	/* Between two, doubling exchanges whole shares; the ring cuts them once more. */
	return (struct shares){
		.count = even <= 4 * most ? even : most,
		.cut = layout->group_count == 2 ? 1 : layout->group_count,
	};
}

static void view_share(struct rd_plan *plan, const struct shares *shares, int share)
{
	for (int i = 0; i < shares->cut; i++)
		rd_view_chunk(plan, share * shares->cut + i);
}

static void view_shares_of_members(
	struct rd_plan *plan, const struct stand *stand, const struct shares *shares)
{
	for (int i = 0; i < stand->members; i++) {
		rd_view_block(plan);
		for (int share = i; share < shares->count; share += stand->members)
			view_share(plan, shares, share);
	}
}

static void all_reduce(struct rd_plan *plan)
{
	struct stand stand = stand_of(plan);
	struct shares shares = shares_of(stand.layout);

	rd_plan_parts(plan, shares.count * shares.cut);
	begin_inside(plan, &stand, RD_REDUCE_SCATTER);
	rd_view_partial(plan);
	view_shares_of_members(plan, &stand, &shares);
	rd_view_write(plan, &rd_ring);

	for (int share = stand.place; share < shares.count; share += stand.members) {
		begin_between(plan, &stand, RD_ALL_REDUCE, share);
		rd_view_block(plan);
		view_share(plan, &shares, share);
		rd_view_write(plan, shares.cut == 1 ? &rd_doubling : &rd_ring);
	}
	begin_inside(plan, &stand, RD_ALL_GATHER);
	view_shares_of_members(plan, &stand, &shares);
	rd_view_write(plan, &rd_ring);
}

/* ---- Reduce-scatter and all-gather --------------------------------------------------------- */

/* In each group, member i handles the blocks of members i, i + members, ... of all groups. */
static void view_blocks_of_members(struct rd_plan *plan, const struct stand *stand)
{
	int most = rd_group_largest(stand->layout);

	for (int i = 0; i < stand->members; i++) {
		rd_view_block(plan);
		for (int group = 0; group < stand->layout->group_count; group++) {
			int members = rd_group_size(stand->layout, group);

			for (int j = i; j < most && j < members; j += stand->members)
				rd_view_chunk(plan, rd_group_member(stand->layout, group, j));
		}
	}
}

/* Between the groups, for each j that this rank handles. A smaller group has no block j. */
static void between_counterparts(
	struct rd_plan *plan, const struct stand *stand, enum rd_collective collective)
{
	int most = rd_group_largest(stand->layout);

	for (int j = stand->place; j < most; j += stand->members) {
		begin_between(plan, stand, collective, j);
		for (int group = 0; group < stand->layout->group_count; group++) {
			rd_view_block(plan);
			if (j < rd_group_size(stand->layout, group))
				rd_view_chunk(plan, rd_group_member(stand->layout, group, j));
		}
		rd_view_write(plan, &rd_ring);
	}
}

static void reduce_scatter(struct rd_plan *plan)
{
	struct stand stand = stand_of(plan);

	begin_inside(plan, &stand, RD_REDUCE_SCATTER);
	rd_view_partial(plan);
	view_blocks_of_members(plan, &stand);
	rd_view_write(plan, &rd_ring);
	between_counterparts(plan, &stand, RD_REDUCE_SCATTER);
}

static void all_gather(struct rd_plan *plan)
{
	struct stand stand = stand_of(plan);

	between_counterparts(plan, &stand, RD_ALL_GATHER);
	begin_inside(plan, &stand, RD_ALL_GATHER);
	view_blocks_of_members(plan, &stand);
	rd_view_write(plan, &rd_ring);
}

/* ---- Reduce and broadcast ------------------------------------------------------------------ */

static void reduce(struct rd_plan *plan)
{
	rd_leaders_reduce(plan, &rd_ring);
}

static void broadcast(struct rd_plan *plan)
{
	rd_leaders_broadcast(plan, &rd_ring);
}

const struct rd_algorithm rd_hierarchical = {
	.name = "hierarchical",
	.write = {
		[RD_ALL_REDUCE] = all_reduce,
		[RD_REDUCE] = reduce,
		[RD_BROADCAST] = broadcast,
		[RD_REDUCE_SCATTER] = reduce_scatter,
		[RD_ALL_GATHER] = all_gather,
	},
	.may_run = rd_groups_exist,
};
