/* The plans of every algorithm in the table, proved for every size up to LARGEST. */
#include <criterion/criterion.h>
#include <string.h>

#include "exec/algorithms.h"
#include "tuner/eligible.h"
#include "check/checker.h"
#include "base/error.h"
#include "any_layout.h"
#include "mesh/mesh.h"
#include "plan/collective.h"
#include "plan/peer_set.h"
#include "tree/tree.h"

/* Under sanitizers fewer ranks run the same code. */
#ifdef __SANITIZE_ADDRESS__
#define LARGEST 24
#else
#define LARGEST 64
#endif

/* NULL, or ranks shuffled in groups of different sizes. */
static const struct rd_layout *layout;

static bool can(const struct rd_algorithm *algorithm, enum rd_collective collective, int size,
	int root, int target)
{
	struct rd_problem problem = { collective, 0, size, root, target, layout };

	return rd_algorithm_can(algorithm, &problem);
}

static void prove(const struct rd_algorithm *algorithm, enum rd_collective collective, int size,
	int root, int target)
{
	if (!can(algorithm, collective, size, root, target))
		return;
	cr_expect_eq(rd_check_algorithm(algorithm, collective, size, root, target, layout), 0, "%s",
		rondo_last_error());
}

/* All pairs of few ranks; of many, a few of each distance. */
static void prove_transfers(const struct rd_algorithm *algorithm, int size)
{
	int step = size <= 16 ? 1 : 7;

	for (int root = 0; root < size; root += step)
		for (int target = 0; target < size; target += step)
			prove(algorithm, RD_TRANSFER, size, root, target);
	prove(algorithm, RD_TRANSFER, size, size - 1, 0);
	prove(algorithm, RD_TRANSFER, size, 0, size - 1);
}

static void prove_size(const struct rd_algorithm *algorithm, int size)
{
	for (int c = 0; c < RD_COLLECTIVE_COUNT; c++) {
		int roots = rd_collective_has_root(c) ? size : 1;

		for (int root = 0; root < roots && c != RD_TRANSFER; root++)
			prove(algorithm, c, size, root, 0);
	}
	prove_transfers(algorithm, size);
}

Test(plans, of_every_algorithm_are_right_for_every_size_and_root, .timeout = 180)
{
	for (int i = 0; rd_algorithms[i]; i++)
		for (int size = 1; size <= LARGEST; size++)
			prove_size(rd_algorithms[i], size);
}

/* ---- Peers ---------------------------------------------------------------------------------- */

/* Which ranks (by [rank][peer]) exchange messages in these plans. */
static unsigned char peers[LARGEST][LARGEST];

static void find_peers(const struct rd_algorithm *algorithm, struct rd_problem problem)
{
	memset(peers, 0, sizeof(peers));
	for (problem.rank = 0; problem.rank < problem.size; problem.rank++) {
		struct rd_peer_set set;
		struct rd_plan *plan;

		cr_assert_eq(rd_plan_create(&plan, algorithm, &problem), 0);
		cr_assert_eq(
			rd_peer_set_of_plans(&set, (const struct rd_plan *const *)&plan, 1), 0);
		for (int i = 0; i < set.count; i++) {
			cr_assert(
				set.at[i] != problem.rank && (i == 0 || set.at[i] > set.at[i - 1]));
			peers[problem.rank][set.at[i]] = 1;
		}
		rd_peer_set_finish(&set);
		rd_plan_destroy(plan);
	}
}

static void expect_symmetry(const struct rd_algorithm *algorithm, enum rd_collective c, int size)
{
	int root = rd_collective_has_root(c) || c == RD_TRANSFER ? size / 3 : 0;
	struct rd_problem problem = { c, 0, size, root, size - 1, layout };

	if (!can(algorithm, c, size, root, size - 1))
		return;
	find_peers(algorithm, problem);
	for (int a = 0; a < size; a++)
		for (int b = 0; b < a; b++)
			cr_assert_eq(peers[a][b], peers[b][a], "%s, %s of %d ranks: %d and %d",
				algorithm->name, rd_collective_name(c), size, a, b);
}

/* A rank opens the links of its plan: the peer needs the same link in its own. */
Test(plans, of_two_ranks_that_exchange_messages_name_each_other, .timeout = 60)
{
	for (int i = 0; rd_algorithms[i]; i++)
		for (int c = 0; c < RD_COLLECTIVE_COUNT; c++)
			for (int size = 2; size <= LARGEST; size++)
				if (rd_algorithms[i]->write[c])
					expect_symmetry(rd_algorithms[i], c, size);
}

/* ---- Any layout ----------------------------------------------------------------------------- */

static struct any_layout any;

static void write_alone(const struct rd_algorithm *algorithm, enum rd_collective collective)
{
	struct rd_problem alone = { .collective = collective, .size = 1, .layout = layout };
	struct rd_plan *plan;

	cr_expect_eq(rd_plan_create(&plan, algorithm, &alone), 0, "%s", rondo_last_error());
	for (int i = 0; plan && i < plan->step_count; i++)
		cr_expect(!rd_step_puts(&plan->steps[i]) && !rd_step_takes(&plan->steps[i]));
	rd_plan_destroy(plan);
}

/* Also where may_run() declines: rondo-topo draws these plans. */
Test(plans, of_one_rank_are_written_by_every_algorithm_and_send_nothing)
{
	layout = layout_any(&any, 1, 1, 1);
	for (int i = 0; rd_algorithms[i]; i++)
		for (int c = 0; c < RD_COLLECTIVE_COUNT; c++)
			if (rd_algorithms[i]->write[c])
				write_alone(rd_algorithms[i], c);
}

static void prove_layout(int size, int most, unsigned seed)
{
	layout = layout_any(&any, size, most, seed);
	for (int i = 0; rd_algorithms[i]; i++)
		for (int c = 0; c < RD_COLLECTIVE_COUNT; c++)
			prove(rd_algorithms[i], c, size,
				rd_collective_has_root(c) ? seed % size : 0,
				c == RD_TRANSFER ? seed / 3 % size : 0);
}

Test(plans, of_every_algorithm_are_right_for_any_layout, .timeout = 180)
{
	for (int size = 1; size <= LARGEST; size++)
		prove_layout(size, 1 + size / 2, 17 * size);
	/* Many small groups, and every root. */
	for (int size = 2; size <= 9; size++)
		for (int seed = 1; seed <= 5 * size; seed++)
			prove_layout(size, 3, seed);
}

Test(plans, that_need_hosts_of_as_many_ranks_are_right_for_those, .timeout = 180)
{
	for (int hosts = 2; hosts <= 6; hosts++)
		for (int ranks = 2; ranks <= 5; ranks++) {
			int sizes[7] = { 0 };

			for (int host = 0; host < hosts; host++)
				sizes[host] = ranks;
			layout = layout_of(&any, sizes, hosts * ranks);
			prove_size(&rd_pipelined, hosts * ranks);
		}
}

Test(plans, of_every_algorithm_are_right_for_some_larger_sizes, .timeout = 180)
{
	static const int sizes[] = { 65, 100, 127, 128 };
	unsigned seed = 7;

	for (int i = 0; rd_algorithms[i]; i++)
		for (int c = 0; c < RD_COLLECTIVE_COUNT; c++)
			for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++)
				prove(rd_algorithms[i], c, sizes[s], 0, 0);
	for (int times = 0; times < 3; times++)
		prove_layout(LARGEST + layout_random(&seed, 100), 20, 1 + times);
}

/* The ranks with which the plan exchanges messages. */
static int count_peers(const struct rd_plan *plan)
{
	bool is_peer[LARGEST] = { false };
	int count = 0;

	for (int i = 0; i < plan->step_count; i++) {
		const struct rd_step *step = &plan->steps[i];

		if (rd_step_receives(step))
			is_peer[step->peer] = true;
		if (rd_step_sends(step))
			is_peer[step->to] = true;
	}
	for (int rank = 0; rank < LARGEST; rank++)
		count += is_peer[rank];
	return count;
}

Test(plans, of_buffer_exchanges_need_few_links)
{
	for (int size = 1, log2 = 0; size <= LARGEST; size++) {
		struct rd_problem problem = { .collective = RD_ALL_GATHER, .size = size };
		struct rd_plan *plan;

		log2 += 1 << log2 < size;
		prove(&rd_buffer_exchange_plan, RD_ALL_GATHER, size, 0, 0);
		cr_assert_eq(rd_plan_create(&plan, &rd_buffer_exchange_plan, &problem), 0);
		cr_expect_leq(
			count_peers(plan), size <= 16 ? size - 1 : 2 * log2, "%d ranks", size);
		rd_plan_destroy(plan);
	}
}

Test(plans, exist_for_every_collective_size_and_root)
{
	for (int c = 0; c < RD_COLLECTIVE_COUNT; c++)
		for (int size = 1; size <= LARGEST; size++)
			for (int root = 0; root < (rd_collective_has_root(c) ? size : 1); root++) {
				struct rd_problem problem = { c, 0, size, root, size - 1, NULL };

				if (c != RD_TRANSFER)
					problem.target = 0;
				cr_expect(rd_algorithm_find(&problem, NULL), "%s of %d ranks",
					rd_collective_name(c), size);
			}
}

/* Each block of the space is at its place in a rank's input and output, and those are all. */
static void find_own_blocks(const struct rd_problem *problem)
{
	int in = 0, out = 0;

	for (int block = 0; block < rd_blocks(problem); block++) {
		int in_block = rd_in_block(problem, block),
		    out_block = rd_out_block(problem, block);

		in += in_block >= 0;
		out += out_block >= 0;
		if (in_block >= 0)
			cr_expect_eq(rd_block_of_in(problem, in_block), block);
		if (out_block >= 0)
			cr_expect_eq(rd_block_of_out(problem, out_block), block);
	}
	cr_expect_eq(in, rd_in_blocks(problem));
	cr_expect_eq(out, rd_out_blocks(problem));
}

Test(plans, know_the_blocks_of_a_rank_both_ways)
{
	for (int c = 0; c < RD_COLLECTIVE_COUNT; c++)
		for (int size = 1; size <= 5; size++)
			for (int rank = 0; rank < size; rank++)
				find_own_blocks(&(struct rd_problem){
					c, rank, size, size / 2, size - 1, NULL });
}
