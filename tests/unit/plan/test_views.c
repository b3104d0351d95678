/* Views: algorithms that write their steps for some of the ranks and chunks. */
#include <criterion/criterion.h>
#include <string.h>

#include "check/checker.h"
#include "base/error.h"
#include "any_layout.h"
#include "mesh/mesh.h"
#include "plan/print.h"
#include "ring/ring.h"

static struct rd_plan *plan_of(const struct rd_algorithm *algorithm, struct rd_problem problem)
{
	struct rd_plan *plan;

	cr_assert_eq(rd_plan_create(&plan, algorithm, &problem), 0, "%s", rondo_last_error());
	return plan;
}

/* ---- Along the line ------------------------------------------------------------------------ */

Test(views, a_ring_goes_along_the_line_of_the_layout)
{
	struct any_layout any;
	const struct rd_layout *layout = layout_of(&any, (int[]){ 3, 2, 2, 0 }, 5);

	for (int i = 0; i < 7; i++) {
		struct rd_plan *plan = plan_of(&rd_ring,
			(struct rd_problem){ RD_ALL_REDUCE, layout->order[i], 7, 0, 0, layout });

		for (int s = 0; s < plan->step_count; s++) {
			if (rd_step_sends(&plan->steps[s]))
				cr_expect_eq(plan->steps[s].to, layout->order[(i + 1) % 7]);
			if (rd_step_receives(&plan->steps[s]))
				cr_expect_eq(plan->steps[s].peer, layout->order[(i + 6) % 7]);
		}
		cr_expect_eq(plan->problem.rank, layout->order[i]);
		rd_plan_destroy(plan);
	}
}

Test(views, a_layout_in_the_order_of_the_ranks_changes_nothing)
{
	struct any_layout any;
	const struct rd_layout *layout = layout_of(&any, (int[]){ 5, 0 }, 0);

	for (int c = 0; c < RD_COLLECTIVE_COUNT; c++) {
		uint64_t with, without;
		struct rd_problem problem = { c, 2, 5, rd_collective_has_root(c), 0, NULL };
		struct rd_plan *plan;

		if (!rd_ring.write[c])
			continue;
		plan = plan_of(&rd_ring, problem);
		without = rd_plan_digest(plan, 0);
		rd_plan_destroy(plan);
		problem.layout = layout;
		plan = plan_of(&rd_ring, problem);
		with = rd_plan_digest(plan, 0);
		rd_plan_destroy(plan);
		cr_expect_eq(with, without);
	}
}

Test(views, a_layout_of_other_ranks_is_refused)
{
	struct any_layout any;
	const struct rd_layout *layout = layout_of(&any, (int[]){ 4, 0 }, 3);
	struct rd_problem problem = { RD_ALL_REDUCE, 2, 5, 0, 0, layout };
	struct rd_plan *plan;

	cr_expect_eq(rd_plan_create(&plan, &rd_ring, &problem), RONDO_INVALID);
	cr_expect(strstr(rondo_last_error(), "its layout is of another number of ranks"));
	problem.size = 4;
	any.order[1] = any.order[0];
	for (problem.rank = 0; problem.rank == any.order[0] || problem.rank == any.order[2] ||
			       problem.rank == any.order[3];)
		problem.rank++;
	cr_expect_eq(rd_plan_create(&plan, &rd_ring, &problem), RONDO_INVALID);
	cr_expect(strstr(rondo_last_error(), "its layout's line leaves ranks out"));
}

/* ---- Compositions -------------------------------------------------------------------------- */

static void view_all(struct rd_plan *plan, enum rd_collective collective, int blocks)
{
	rd_view_begin(plan, collective, 0);
	for (int i = 0; i < plan->problem.size; i++)
		rd_view_rank(plan, plan->problem.size - 1 - i);
	for (int i = 0; i < blocks; i++)
		rd_view_block(plan);
}

static bool partial_first;

/* Even ranks reduce to rank 0 and odd ones to rank 1; these two exchange, and broadcast. Ten
   chunks. */
static void by_parity(struct rd_plan *plan)
{
	int size = plan->problem.size;

	rd_plan_parts(plan, 10);
	for (int way = 0; way < 3; way++) {
		for (int parity = 0; parity < (way == 1 ? 1 : 2); parity++) {
			rd_view_begin(plan,
				way == 0   ? RD_REDUCE
				: way == 1 ? RD_ALL_REDUCE
					   : RD_BROADCAST,
				0);
			if (way == 0 && partial_first)
				rd_view_partial(plan);
			for (int rank = parity; rank < (way == 1 ? 2 : size);
				rank += way == 1 ? 1 : 2)
				rd_view_rank(plan, rank);
			rd_view_block(plan);
			for (int chunk = 0; chunk < 10; chunk++)
				rd_view_chunk(plan, 9 - chunk);
			rd_view_write(plan, &rd_ring);
		}
	}
}

Test(views, compose_a_plan_of_plans_among_some_of_the_ranks)
{
	static const struct rd_algorithm composed = {
		.name = "composed",
		.write = { [RD_ALL_REDUCE] = by_parity },
		.along_line = true,
	};
	struct any_layout any;

	partial_first = true;
	for (int size = 2; size < 12; size++) {
		cr_expect_eq(rd_check_algorithm(&composed, RD_ALL_REDUCE, size, 0, 0, NULL), 0,
			"%s", rondo_last_error());
		cr_expect_eq(rd_check_algorithm(&composed, RD_ALL_REDUCE, size, 0, 0,
				     layout_any(&any, size, 3, size)),
			0, "%s", rondo_last_error());
	}
	partial_first = false;
	cr_expect_eq(rd_check_algorithm(&composed, RD_ALL_REDUCE, 4, 0, 0, NULL), RONDO_INVALID);
	cr_expect(strstr(rondo_last_error(), "contribution is missing"), "%s", rondo_last_error());
}

static bool last_is_longest;

/* Two chunks for the first block (or the last), none for the one beside it, one for each other. */
static void uneven_blocks(struct rd_plan *plan)
{
	int size = plan->problem.size;
	int longest = last_is_longest ? size - 1 : 0, empty = last_is_longest ? size - 2 : 1;

	rd_plan_parts(plan, size);
	for (int way = 0; way < 2; way++) {
		rd_view_begin(plan, way ? RD_ALL_GATHER : RD_REDUCE_SCATTER, 0);
		for (int rank = 0; rank < size; rank++)
			rd_view_rank(plan, rank);
		for (int block = 0; block < size; block++) {
			rd_view_block(plan);
			if (block == longest)
				rd_view_chunk(plan, empty);
			if (block != empty)
				rd_view_chunk(plan, block);
		}
		rd_view_write(plan, &rd_ring);
	}
}

Test(views, may_have_blocks_of_different_numbers_of_chunks)
{
	static const struct rd_algorithm composed = {
		.name = "composed",
		.write = { [RD_ALL_REDUCE] = uneven_blocks },
	};

	for (int size = 2; size < 10; size++)
		for (int last = 0; last < 2; last++) {
			last_is_longest = last;
			cr_expect_eq(rd_check_algorithm(&composed, RD_ALL_REDUCE, size, 0, 0, NULL),
				0, "%s", rondo_last_error());
		}
}

/* A view in a view: the ranks backwards twice are the ranks. */
static void write_within(struct rd_plan *plan)
{
	view_all(plan, plan->problem.collective, 1);
	for (int part = 0; part < 3; part++)
		rd_view_chunk(plan, part);
	rd_view_write(plan, &rd_doubling);
}

static void view_in_view(struct rd_plan *plan)
{
	static const struct rd_algorithm inner = {
		.name = "inner",
		.write = { [RD_ALL_REDUCE] = write_within },
	};

	rd_plan_parts(plan, 3);
	view_all(plan, RD_ALL_REDUCE, 1);
	rd_view_chunk(plan, 0);
	rd_view_chunk(plan, 1);
	rd_view_chunk(plan, 2);
	rd_view_write(plan, &inner);
}

/* `inner` lists three chunks where it sees one. */
Test(views, refuse_chunks_that_a_view_around_them_does_not_show)
{
	static const struct rd_algorithm outer = {
		.name = "outer",
		.write = { [RD_ALL_REDUCE] = view_in_view },
	};

	cr_expect_eq(rd_check_algorithm(&outer, RD_ALL_REDUCE, 4, 0, 0, NULL), RONDO_INVALID);
	cr_expect(strstr(rondo_last_error(), "views a chunk that there is not"), "%s",
		rondo_last_error());
}

static void write_cut_within(struct rd_plan *plan)
{
	rd_plan_parts(plan, 3);
	write_within(plan);
}

static void cut_view_in_view(struct rd_plan *plan)
{
	static const struct rd_algorithm inner = {
		.name = "inner",
		.write = { [RD_ALL_REDUCE] = write_cut_within },
	};

	rd_plan_parts(plan, 4);
	view_all(plan, RD_ALL_REDUCE, 1);
	for (int part = 0; part < 4; part++)
		rd_view_chunk(plan, part);
	rd_view_write(plan, &inner);
}

Test(views, may_be_made_within_views)
{
	static const struct rd_algorithm outer = {
		.name = "outer",
		.write = { [RD_ALL_REDUCE] = cut_view_in_view },
	};
	struct any_layout any;

	cr_expect_eq(rd_check_algorithm(&outer, RD_ALL_REDUCE, 6, 0, 0, NULL), 0, "%s",
		rondo_last_error());
	cr_expect_eq(rd_check_algorithm(&outer, RD_ALL_REDUCE, 6, 0, 0, layout_any(&any, 6, 2, 9)),
		0, "%s", rondo_last_error());
}

/* ---- Mistakes ------------------------------------------------------------------------------ */

static int wrong; /* number of the mistake */

static void mistaken(struct rd_plan *plan)
{
	if (wrong == 0) {
		rd_view_rank(plan, 0);
		return;
	}
	view_all(plan, wrong == 5 ? RD_GATHER : RD_BROADCAST, wrong == 3 ? 2 : 1);
	if (wrong == 1)
		return;
	if (wrong == 2)
		view_all(plan, RD_BROADCAST, 1);
	if (wrong == 4)
		rd_view_rank(plan, plan->problem.size);
	if (wrong == 5)
		for (int i = 1; i < plan->problem.size; i++)
			rd_view_block(plan);
	rd_view_write(plan, wrong == 6   ? &rd_two_shot
			    : wrong == 7 ? rd_algorithm_named("zigzag")
					 : rd_algorithm_named("ring"));
}

static void combine_in_line(struct rd_plan *plan)
{
	rd_combine(plan, -1, 0);
}

Test(views, that_make_no_sense_are_the_plan_s_error)
{
	static const char *const reasons[] = { "adds to a view that it has not begun",
		"began a view and never wrote it", "begins a view before it has written the last",
		"views more or fewer blocks than the collective has",
		"views a rank that there is not (rank 3)",
		"has ring write gather, which it cannot in a view",
		"has two_shot write broadcast, which it cannot in a view",
		"views \"zigzag\", which is no algorithm: choose among " };
	static const struct rd_algorithm algorithm = {
		.name = "mistaken",
		.write = { [RD_BROADCAST] = mistaken },
	};

	for (wrong = 0; wrong < 8; wrong++) {
		cr_expect_eq(
			rd_check_algorithm(&algorithm, RD_BROADCAST, 3, 0, 0, NULL), RONDO_INVALID);
		cr_expect(strstr(rondo_last_error(), reasons[wrong]), "%s", rondo_last_error());
		cr_expect_null(strstr(rondo_last_error(), "-1"), "%s", rondo_last_error());
	}
}

static void merge_the_first(struct rd_plan *plan)
{
	rd_recv_merge(plan, 0);
}

/* A merge takes the messages of all ranks, of RD_MERGE_MOST at most. */
Test(views, merge_nothing)
{
	struct rd_algorithm merging = {
		.name = "merging",
		.write = { [RD_ALL_REDUCE] = merge_the_first },
	};
	struct any_layout any;

	cr_expect_eq(rd_check_algorithm(&merging, RD_ALL_REDUCE, 1, 0, 0, NULL), 0, "%s",
		rondo_last_error());
	cr_expect_eq(rd_check_algorithm(&merging, RD_ALL_REDUCE, RD_MERGE_MOST + 1, 0, 0, NULL),
		RONDO_INVALID);
	cr_expect(strstr(rondo_last_error(), "merges messages of more ranks than it may"), "%s",
		rondo_last_error());
	merging.along_line = true;
	cr_expect_eq(
		rd_check_algorithm(&merging, RD_ALL_REDUCE, 3, 0, 0, layout_any(&any, 3, 2, 7)),
		RONDO_INVALID);
	cr_expect(strstr(rondo_last_error(), "has to do with all ranks"), "%s", rondo_last_error());
}

Test(views, allow_no_direct_access)
{
	static const struct rd_algorithm reaching = {
		.name = "reaching",
		.write = { [RD_ALL_REDUCE] = combine_in_line },
		.direct_access = true,
		.along_line = true,
	};
	struct any_layout any;

	cr_expect_eq(
		rd_check_algorithm(&reaching, RD_ALL_REDUCE, 3, 0, 0, layout_any(&any, 3, 2, 7)),
		RONDO_INVALID);
	cr_expect(strstr(rondo_last_error(), "has to do with all ranks"), "%s", rondo_last_error());
}
