/* The purpose of each algorithm: few messages in a row, few bytes on expensive links, or all ranks
   at work. test_plans.c proves the plans. */
#include <criterion/criterion.h>

#include "any_layout.h"
#include "simulated.h"

static struct simulated_job job_of(const char *algorithm, enum rd_collective collective, int size,
	int root, const struct rd_layout *layout)
{
	struct simulated_job job = {
		.collective = collective,
		.size = size,
		.root = root,
		.type = RONDO_F32,
		.count = collective == RD_BARRIER ? 0 : 1000,
		.layout = layout,
	};

	cr_assert(job_create(&job, algorithm), "%s: %s", algorithm, rondo_last_error());
	return job;
}

/* ---- Messages in a row --------------------------------------------------------------------- */

/* Over links on which a message of any size takes 1 us. */
static void expect_rounds(struct simulated_job job, const char *algorithm, int rounds)
{
	struct rd_simulation set = {
		.size = job.size,
		.channels = 1,
		.piece_size = 4096,
		.slots = 100,
		.seed = 1,
		.latency_ns = 1000,
		.dead_rank = -1,
	};
	struct rd_simulated simulated;

	cr_assert_eq(job_simulate(&job, &set, &simulated), 0, "%s", rondo_last_error());
	cr_expect_leq(simulated.end_ns, 1000 * (uint64_t)rounds,
		"%s, %s of %d ranks: %.0f messages in a row, more than %d", algorithm,
		rd_collective_name(job.collective), job.size, simulated.end_ns / 1e3, rounds);
	rd_simulated_finish(&simulated);
	job_destroy(&job);
}

static int log2_up(int size)
{
	int rounds = 0;

	while (1 << rounds < size)
		rounds++;
	return rounds;
}

static bool is_power(int size)
{
	return (size & (size - 1)) == 0;
}

static int largest_power(int size)
{
	return is_power(size) ? size : 1 << (log2_up(size) - 1);
}

/* The rounds of exchange.h. With more than two chunks each way, some ranks wait to send until
   others have sent. */
static int exchanges(int size)
{
	int rounds = 0;

	for (int far = 1; far < size; far *= 2)
		rounds += size - far > 4 * far ? 2 : 1;
	return rounds;
}

/* Where the ranks are no power of two, two neighbours in the circle send first, or last. */
static int pat_rounds(int size)
{
	return exchanges(size) + (is_power(size) ? 0 : log2_up(size));
}

Test(algorithms, that_are_for_short_messages_take_a_logarithm_of_rounds, .timeout = 480)
{
	for (int size = 1; size <= 70; size++) {
		int log = log2_up(size), pat = pat_rounds(size);

		expect_rounds(job_of("binomial", RD_BROADCAST, size, 0, NULL), "binomial", log);
		expect_rounds(job_of("binomial", RD_REDUCE, size, 0, NULL), "binomial", log);
		expect_rounds(job_of("linear", RD_BARRIER, size, 0, NULL), "linear", log);
		expect_rounds(job_of("pat", RD_ALL_GATHER, size, 0, NULL), "pat", pat);
		expect_rounds(job_of("pat", RD_REDUCE_SCATTER, size, 0, NULL), "pat", pat);
		expect_rounds(job_of("pat", RD_ALL_REDUCE, size, 0, NULL), "pat", 2 * pat);
	}
}

Test(algorithms, of_one_round_take_one_round)
{
	for (int size = 3; size <= 16; size++) {
		expect_rounds(job_of("one_round", RD_ALL_REDUCE, size, 0, NULL), "one_round", 1);
		expect_rounds(job_of("one_round", RD_REDUCE, size, 1, NULL), "one_round", 1);
		expect_rounds(
			job_of("one_round", RD_REDUCE_SCATTER, size, 0, NULL), "one_round", 1);
		expect_rounds(job_of("one_round", RD_ALL_GATHER, size, 0, NULL), "one_round", 1);
	}
}

/* A rank beyond the largest power of two sends its input first and receives the result last. */
Test(algorithms, that_halve_or_double_take_two_rounds_more_where_ranks_are_left_over,
	.timeout = 240)
{
	for (int size = 1; size <= 70; size++) {
		int power = largest_power(size), more = is_power(size) ? 0 : 2;

		expect_rounds(job_of("doubling", RD_ALL_REDUCE, size, 0, NULL), "doubling",
			log2_up(power) + more);
		expect_rounds(job_of("halving", RD_ALL_REDUCE, size, 0, NULL), "halving",
			2 * exchanges(power) + more);
	}
}

Test(algorithms, of_leaders_are_as_quick_inside_the_hosts_as_between_them)
{
	struct any_layout any;
	const struct rd_layout *layout = layout_of(&any, (int[]){ 3, 8, 5, 8, 0 }, 11);

	expect_rounds(job_of("leaders", RD_ALL_REDUCE, 24, 0, layout), "leaders", 3 + 2 + 3);
	expect_rounds(job_of("leaders", RD_BARRIER, 24, 0, layout), "leaders", 3 + 2 + 3);
}

/* ---- Bytes on expensive links -------------------------------------------------------------- */

/* The number of chunks that cross from one group to another; -1: any. */
static int crossings(const struct simulated_job *job, int from, int to)
{
	const int *group = job->layout->group;
	int count = 0;

	for (int rank = 0; rank < job->size; rank++) {
		const struct rd_plan *plan = job->plans[rank];

		for (int i = 0; i < plan->step_count; i++) {
			const struct rd_step *step = &plan->steps[i];

			if (!rd_step_sends(step) || group[rank] == group[step->to])
				continue;
			count += (from < 0 || from == group[rank]) &&
				 (to < 0 || to == group[step->to]);
		}
	}
	return count;
}

static const int groupings[][6] = { { 1, 3 }, { 2, 4 }, { 4, 4 }, { 3, 5 }, { 1, 1 }, { 2, 2, 2 },
	{ 3, 1, 2 }, { 4, 1, 1, 7 }, { 8, 8, 8, 8, 8 } };

/* `times`: how often each chunk has to enter every host but one, or leave it. */
static void expect_fewest(const char *name, enum rd_collective collective, int times)
{
	for (size_t i = 0; i < sizeof(groupings) / sizeof(*groupings); i++) {
		struct any_layout any;
		const struct rd_layout *layout = layout_of(&any, groupings[i], 5 + i);
		int root = rd_collective_has_root(collective) ? layout->size / 2 : 0;
		struct rd_problem problem = { collective, 0, layout->size, root, 0, layout };
		struct simulated_job job;
		int chunks;

		if (!rd_algorithm_can(rd_algorithm_called(name), &problem))
			continue;
		job = job_of(name, collective, layout->size, root, layout);
		chunks = rd_blocks(&problem) * job.plans[0]->parts;
		cr_expect_eq(crossings(&job, -1, -1), times * (layout->group_count - 1) * chunks,
			"%s, %s, hosts of %d, %d, ... ranks", name, rd_collective_name(collective),
			groupings[i][0], groupings[i][1]);
		job_destroy(&job);
	}
}

/* Every host receives each other host's data once; all-reduce also combines it. */
Test(algorithms, that_are_hierarchical_cross_expensive_links_with_the_fewest_bytes)
{
	expect_fewest("hierarchical", RD_ALL_GATHER, 1);
	expect_fewest("hierarchical", RD_REDUCE_SCATTER, 1);
	expect_fewest("hierarchical", RD_BROADCAST, 1);
	expect_fewest("hierarchical", RD_REDUCE, 1);
	expect_fewest("hierarchical", RD_ALL_REDUCE, 2);
	expect_fewest("pipelined", RD_ALL_REDUCE, 2);
	expect_fewest("leaders", RD_BROADCAST, 1);
	expect_fewest("leaders", RD_REDUCE, 1);
	expect_fewest("tree", RD_BROADCAST, 1);
	expect_fewest("tree", RD_REDUCE, 1);
	expect_fewest("tree", RD_ALL_REDUCE, 2);
}

Test(algorithms, that_are_hierarchical_send_as_much_from_two_uneven_hosts_to_each_other)
{
	struct any_layout any;
	const struct rd_layout *layout = layout_of(&any, (int[]){ 1, 3, 0 }, 3);
	struct simulated_job job = job_of("hierarchical", RD_ALL_REDUCE, 4, 0, layout);

	cr_expect_eq(crossings(&job, 0, 1), job.plans[0]->parts);
	cr_expect_eq(crossings(&job, 1, 0), job.plans[0]->parts);
	job_destroy(&job);
}

Test(algorithms, that_are_hierarchical_are_for_two_hosts_at_least)
{
	struct any_layout any;
	struct simulated_job job = { .collective = RD_ALL_REDUCE, .size = 4 };

	cr_expect_null(job_algorithm(&job, "hierarchical"));
	cr_expect_null(job_algorithm(&job, "leaders"));
	job.layout = layout_of(&any, (int[]){ 4, 0 }, 3);
	cr_expect_null(job_algorithm(&job, "hierarchical"));
	job.layout = layout_of(&any, (int[]){ 3, 1, 0 }, 3);
	cr_expect_null(job_algorithm(&job, "pipelined"));
	cr_expect_not_null(job_algorithm(&job, "hierarchical"));
	cr_expect_not_null(job_algorithm(&job, "leaders"));
}

/* ---- All at work --------------------------------------------------------------------------- */

static int sends_of(const struct rd_plan *plan, int first, int count)
{
	int sends = 0;

	for (int i = 0; i < plan->step_count; i++)
		sends += rd_step_sends(&plan->steps[i]) && plan->steps[i].chunk >= first &&
			 plan->steps[i].chunk < first + count;
	return sends;
}

Test(algorithms, of_two_trees_make_each_rank_a_leaf_in_one_at_least)
{
	for (int size = 2; size <= 70; size++) {
		struct simulated_job job = job_of("tree", RD_BROADCAST, size, size / 3, NULL);

		for (int rank = 0; rank < size; rank++) {
			int halves[2] = { sends_of(job.plans[rank], 0, 1),
				sends_of(job.plans[rank], 1, 1) };

			cr_expect(rank == size / 3 || !halves[0] || !halves[1],
				"rank %d of %d passes on both halves", rank, size);
			cr_expect_leq(halves[0] + halves[1], 2, "rank %d of %d", rank, size);
		}
		job_destroy(&job);
	}
}

static int parent_in(const struct simulated_job *job, int rank, int chunk)
{
	const struct rd_plan *plan = job->plans[rank];

	for (int i = 0; i < plan->step_count; i++)
		if (rd_step_receives(&plan->steps[i]) && plan->steps[i].chunk == chunk)
			return plan->steps[i].peer;
	return -1;
}

Test(algorithms, of_two_trees_are_a_logarithm_of_hops_deep)
{
	for (int size = 2; size <= 70; size++) {
		struct simulated_job job = job_of("tree", RD_BROADCAST, size, 0, NULL);

		for (int rank = 1; rank < size; rank++) {
			for (int chunk = 0; chunk < 2; chunk++) {
				int hops = 0;

				for (int up = rank; up > 0; up = parent_in(&job, up, chunk))
					hops++;
				cr_expect_leq(
					hops, 1 + log2_up(size - 1), "rank %d of %d", rank, size);
			}
		}
		job_destroy(&job);
	}
}

/* On at most 5 hosts of at most 8 ranks: the root, a tree of other hosts, and one inside. */
Test(algorithms, of_two_trees_are_a_logarithm_of_hosts_and_of_their_ranks_deep)
{
	for (size_t i = 0; i < sizeof(groupings) / sizeof(*groupings); i++) {
		struct any_layout any;
		const struct rd_layout *layout = layout_of(&any, groupings[i], 5 + i);
		struct simulated_job job = job_of("tree", RD_BROADCAST, layout->size, 0, layout);

		for (int rank = 1; rank < layout->size; rank++) {
			for (int chunk = 0; chunk < 2; chunk++) {
				int hops = 0;

				for (int up = rank; up > 0; up = parent_in(&job, up, chunk))
					hops++;
				cr_expect_leq(hops, 1 + 2 + 3, "rank %d of %d", rank, layout->size);
			}
		}
		job_destroy(&job);
	}
}

/* Each half goes up once, and down at most twice from one rank. */
Test(algorithms, of_two_trees_have_no_rank_send_more_than_twice_the_buffer)
{
	for (int size = 4; size <= 70; size++) {
		struct simulated_job job = job_of("tree", RD_ALL_REDUCE, size, 0, NULL);
		int parts = job.plans[0]->parts;

		for (int rank = 0; rank < size; rank++)
			cr_expect_leq(sends_of(job.plans[rank], 0, parts), 2 * parts,
				"rank %d of %d", rank, size);
		job_destroy(&job);
	}
}

/* As few chunks as the ring sends. */
Test(algorithms, that_halve_send_each_rank_s_fair_share_where_ranks_are_a_power_of_two)
{
	static const char *const names[] = { "ring", "halving", "pat" };

	for (int size = 1; size <= 64; size *= 2) {
		for (int i = 0; i < 3; i++) {
			struct simulated_job job = job_of(names[i], RD_ALL_REDUCE, size, 0, NULL);

			for (int rank = 0; rank < size; rank++)
				cr_expect_eq(sends_of(job.plans[rank], 0, size), 2 * (size - 1),
					"%s, rank %d of %d", names[i], rank, size);
			cr_expect_eq(job.plans[0]->parts, size);
			job_destroy(&job);
		}
	}
}
