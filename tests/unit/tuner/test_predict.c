/* Predictions: small cases computed by hand, and properties of all. */
#include <criterion/criterion.h>

#include "exec/algorithms.h"
#include "base/error.h"
#include "any_layout.h"
#include "predictions.h"
#include "tuner/predict.h"
#include "tuner/replay.h"

static size_t piece_of(const struct rd_algorithm *one, size_t piece_size)
{
	return one->direct_access ? SIZE_MAX : piece_size;
}

static int64_t predicted(const char *name, enum rd_collective collective, int size, uint64_t bytes)
{
	struct rd_costs costs = plain_costs();
	struct rd_problem problem = { .collective = collective, .size = size };
	struct rd_cut cut = { bytes, RD_WHOLE, 1 << 20, 1 };

	return predict_with(&costs, name, problem, &cut);
}

/* ---- By hand -------------------------------------------------------------------------------- */

Test(predicted, of_a_message_is_its_way)
{
	struct rd_costs costs = plain_costs();
	struct rd_message_cost empty = rd_message_cost(&costs.links[RD_NEAR], 0);
	struct rd_message_cost long_one = rd_message_cost(&costs.links[RD_NEAR], 1 << 20);
	struct rd_message_cost odd = rd_message_cost(&costs.links[RD_NEAR], 3000);

	cr_assert_eq(empty.send_ns, 100);
	cr_assert_eq(empty.flight_ns, 1000);
	cr_assert_eq(empty.recv_ns, 100);
	cr_assert_eq(odd.send_ns, 3100);
	cr_assert_eq(odd.flight_ns, 1000);
	cr_assert_eq(long_one.recv_ns, (1 << 20) + 100);
}

static void cross_in(struct rd_costs *costs, uint32_t both_ns)
{
	for (int i = 0; i < RD_COST_POINT_COUNT; i++) {
		costs->links[RD_NEAR].way_ns[i] = 1000;
		costs->links[RD_NEAR].busy_ns[i] = 700;
		costs->links[RD_NEAR].both_ns[i] = both_ns;
	}
}

/* By itself, in a sequence, and against one that comes the other way. */
Test(predicted, of_a_message_is_as_measured_each_way)
{
	static const struct {
		uint32_t both_ns;
		int64_t send_ns, recv_ns, flight_ns;
	} tries[] = {
		{ 900, 200, 700, 100 },
		/* They hinder each other: a message by itself takes less. */
		{ 1300, 600, 700, -300 },
		{ 1600, 800, 800, -600 },
		/* It cannot arrive before its sender begins. */
		{ 2400, 1200, 1200, -1200 },
		/* No rank needs less than in a sequence. */
		{ 500, 0, 700, 300 },
		/* Not measured. */
		{ 0, 300, 700, 0 },
	};

	for (size_t i = 0; i < sizeof(tries) / sizeof(*tries); i++) {
		struct rd_costs costs = plain_costs();
		struct rd_problem doubling = { .collective = RD_ALL_REDUCE, .size = 2 },
				  chain = { .collective = RD_BROADCAST, .size = 2 };
		struct rd_cut one = { 8, RD_WHOLE, 8, 1 }, many = { 8000, RD_WHOLE, 8, 1 };
		struct rd_message_cost cost;
		int64_t both_ns = tries[i].send_ns + tries[i].recv_ns;

		cross_in(&costs, tries[i].both_ns);
		costs.copy_ps = costs.memory_copy_ps = 0;
		costs.reduce_ps[RD_WHOLE] = costs.memory_reduce_ps[RD_WHOLE] = 0;
		cost = rd_message_cost(&costs.links[RD_NEAR], 8);
		cr_expect_eq(cost.send_ns, tries[i].send_ns, "%zu", i);
		cr_expect_eq(cost.recv_ns, tries[i].recv_ns, "%zu", i);
		cr_expect_eq(cost.flight_ns, tries[i].flight_ns, "%zu", i);
		cr_expect_eq(predict_with(&costs, "doubling", doubling, &one),
			both_ns > 1000 ? both_ns : 1000, "%zu", i);
		cr_expect_eq(predict_with(&costs, "ring", chain, &one), both_ns + cost.flight_ns,
			"%zu", i);
		/* The busier rank's share counts, 999 times. */
		cr_expect_eq(predict_with(&costs, "ring", chain, &many),
			both_ns + cost.flight_ns +
				999 * (cost.recv_ns > cost.send_ns ? cost.recv_ns : cost.send_ns),
			"%zu", i);
	}
}

/* Each rank's part as measured by itself, whatever the two take together. */
Test(predicted, of_a_message_has_the_parts_that_were_measured)
{
	struct rd_costs costs = plain_costs();
	struct rd_message_cost cost;

	cross_in(&costs, 900);
	for (int i = 0; i < RD_COST_POINT_COUNT; i++) {
		costs.links[RD_NEAR].send_ns[i] = 400;
		costs.links[RD_NEAR].recv_ns[i] = 300;
	}
	cost = rd_message_cost(&costs.links[RD_NEAR], 8);
	cr_expect_eq(cost.send_ns, 400);
	cr_expect_eq(cost.recv_ns, 300);
	cr_expect_eq(cost.flight_ns, 1000 - 400 - 300);
}

Test(predicted, of_two_ranks_doubling_is_one_exchange)
{
	/* send 100 + 1000, under way 1000, receive 100 + 1000 and reduce: 1 ns a byte more than the
	   copy that a receive is */
	cr_assert_eq(predicted("doubling", RD_ALL_REDUCE, 2, 1000), 1100 + 1000 + 1100 + 1000);
}

Test(predicted, of_doubling_grows_with_the_logarithm_of_ranks)
{
	int64_t two = predicted("doubling", RD_ALL_REDUCE, 2, 0);

	cr_assert_eq(two, 1200);
	cr_assert_eq(predicted("doubling", RD_ALL_REDUCE, 8, 0), 3 * two);
	cr_assert_eq(predicted("doubling", RD_ALL_REDUCE, 64, 0), 6 * two);
}

Test(predicted, of_a_ring_grows_with_ranks)
{
	/* Seven messages in, of which six are passed on, after the first is sent. */
	cr_assert_eq(predicted("ring", RD_ALL_GATHER, 8, 0), 7 * 1200);
}

Test(predicted, of_a_chain_is_one_way_and_then_a_message_for_each_piece)
{
	struct rd_costs costs = plain_costs();
	struct rd_problem problem = { .collective = RD_BROADCAST, .size = 4 };
	struct rd_cut one = { 1000, RD_WHOLE, 1000, 1 }, ten = { 10000, RD_WHOLE, 1000, 1 };
	int64_t first = predict_with(&costs, "ring", problem, &one);
	int64_t all = predict_with(&costs, "ring", problem, &ten);

	/* In the middle a rank receives (1100) and passes on (100, and 1000 where it is kept). */
	cr_assert_eq(all - first, 9 * (1100 + 100 + 1000), "%lld", (long long)(all - first));
}

/* The absolute end of doubling on 8 ranks that share a core. */
static int64_t end_on_a_core(uint32_t switch_ns, uint64_t bytes)
{
	struct rd_costs costs = plain_costs();
	struct rd_problem problem = { .collective = RD_ALL_REDUCE, .size = 8 };
	struct rd_cut cut = { bytes, RD_WHOLE, 1 << 20, 1 };
	struct rd_step_cost step_cost;
	struct rd_schedule *schedule;
	struct rd_replayed replayed;
	uint64_t pieces;

	costs.cores = 1;
	costs.switch_ns = switch_ns;
	cr_assert_eq(rd_schedule_create(&schedule, algorithm_named("doubling"), &problem), 0, "%s",
		rondo_last_error());
	step_cost = rd_cut_costs(
		schedule->parts, schedule->blocks, schedule->near_blocks, &costs, &cut, &pieces);
	cr_assert(rd_replay(schedule, &step_cost, 1, 0, &replayed));
	rd_schedule_destroy(schedule);
	return replayed.ends_ns[0];
}

Test(predicted, where_ranks_share_a_core_is_at_least_all_their_work)
{
	int64_t end = end_on_a_core(0, 100000);

	/* Eight ranks send and receive three times each. */
	cr_assert_geq(end, 8 * 3 * (100100 + 200100));
	cr_assert_gt(end, 6 * predicted("doubling", RD_ALL_REDUCE, 8, 100000));
	cr_assert_geq(end_on_a_core(5000, 100000), end + 8 * 5000);
}

static int64_t on_one_core(const char *name, const struct rd_problem *problem, uint32_t switch_ns)
{
	struct rd_costs costs = plain_costs();
	struct rd_cut cut = { 0, RD_WHOLE, 1 << 20, 1 };

	costs.cores = 1;
	costs.switch_ns = switch_ns;
	return predict_with(&costs, name, *problem, &cut);
}

/* The first rank begins half a switch after the common start, sends, and gives way. The last one
   begins a switch later, sends, and takes the message that came meanwhile. The first takes the
   other's in its next turn. */
Test(predicted, where_ranks_share_a_core_counts_from_the_common_start)
{
	struct rd_problem problem = { .collective = RD_ALL_REDUCE, .size = 2 };

	cr_assert_eq(on_one_core("doubling", &problem, 5000),
		2500 + 100 + 5000 + 100 + 100 + 5000 + 100);
}

/* The first one sends and gives way, and so does the last one. Both look in vain twice. The last
   takes its message in its third turn, and then the first takes the other. */
Test(predicted, where_ranks_share_a_core_has_turns_in_which_they_wait)
{
	struct rd_problem problem = { .collective = RD_ALL_REDUCE, .size = 2 };

	cr_assert_eq(on_one_core("doubling", &problem, 172),
		86 + 100 + 172 + 100 + 3 * 2 * 172 + 100 + 172 + 100);
}

/* Where the root begins, the last rank finds its message. Where it begins last, the other one has
   it a switch later. */
Test(predicted, where_ranks_share_a_core_is_the_mean_over_who_begins)
{
	for (int root = 0; root < 2; root++) {
		struct rd_problem problem = { .collective = RD_BROADCAST, .size = 2, .root = root };

		cr_assert_eq(
			on_one_core("ring", &problem, 5000), 2500 + 100 + 5000 + 100 + 5000 / 2);
	}
}

Test(predicted, of_channels_hides_waiting_but_not_work)
{
	struct rd_costs costs = plain_costs();
	struct rd_problem problem = { .collective = RD_ALL_REDUCE, .size = 4 };
	struct rd_cut one = { 1 << 20, RD_WHOLE, 4096, 1 }, four = { 1 << 20, RD_WHOLE, 4096, 4 };
	int64_t with_one = predict_with(&costs, "ring", problem, &one);
	int64_t with_four = predict_with(&costs, "ring", problem, &four);

	cr_assert_lt(with_four, with_one);
	/* Every rank still takes in six messages of each of the 64 pieces. */
	cr_assert_geq(with_four, 64 * 6 * 4196);
}

static int64_t predict_over(uint32_t rails, int channels)
{
	struct rd_costs costs = plain_costs();
	struct rd_problem problem = { .collective = RD_ALL_REDUCE, .size = 4 };
	struct rd_cut cut = { 1 << 30, RD_WHOLE, 128 << 10, channels };

	costs.links[RD_NEAR].rails = rails;
	/* Links are the limit. */
	costs.copy_ps = costs.memory_copy_ps = 1;
	costs.reduce_ps[RD_WHOLE] = costs.memory_reduce_ps[RD_WHOLE] = 1;
	return predict_with(&costs, "ring", problem, &cut);
}

static void expect_share(uint32_t rails, int channels, int64_t share, int64_t of)
{
	int64_t one = predict_over(1, channels), some = predict_over(rails, channels);

	cr_expect_leq(some * of, one * share * 102 / 100, "%u rails, %d channels", rails, channels);
	cr_expect_geq(some * of, one * share * 98 / 100, "%u rails, %d channels", rails, channels);
}

/* Channel c takes rail c modulo rails, and the rail with the most channels ends last. */
Test(predicted, of_channels_over_rails_is_that_of_the_busiest_rail)
{
	expect_share(2, 1, 1, 1);
	expect_share(2, 2, 1, 2);
	expect_share(2, 3, 2, 3);
	expect_share(2, 4, 1, 2);
	expect_share(3, 4, 1, 2);
	expect_share(8, 8, 1, 8);
}

Test(predicted, between_hosts_is_that_of_far_links)
{
	struct rd_costs costs = plain_costs();
	static const int hosts[] = { 2, 2, 0 };
	static struct any_layout any;
	const struct rd_layout *layout = layout_of(&any, hosts, 0);
	struct rd_problem problem = { .collective = RD_ALL_REDUCE, .size = 4, .layout = layout };
	struct rd_cut cut = { 0, RD_WHOLE, 1 << 20, 1 };

	for (int i = 0; i < RD_COST_POINT_COUNT; i++)
		costs.links[RD_FAR].way_ns[i] += 50000;
	/* One of the two rounds crosses. */
	cr_assert_eq(predict_with(&costs, "doubling", problem, &cut), 2 * 1200 + 50000);
}

static int64_t over_slow_cables(const char *name, const int *hosts, uint64_t bytes, int channels)
{
	struct rd_costs costs = plain_costs();
	struct any_layout any;
	const struct rd_layout *layout = layout_of(&any, hosts, 0);
	struct rd_problem problem = {
		.collective = RD_ALL_REDUCE, .size = layout->size, .layout = layout
	};
	struct rd_cut cut = { bytes, RD_WHOLE, 128 << 10, channels };

	/* A byte takes 38 ns on the cable, and 1 of each rank. Ranks share cores. */
	costs.cores = 2;
	for (int i = 0; i < RD_COST_POINT_COUNT; i++)
		costs.links[RD_FAR].way_ns[i] = 20 * costs.links[RD_NEAR].way_ns[i];
	return predict_with(&costs, name, problem, &cut);
}

/* Over the cable of each of h hosts with m ranks: hierarchical and halving 2 (h - 1) / h of the
   buffer each way, as the tree of two hosts, and the ring 2 (hm - 1) / hm. The tree of four has
   2: a message that waits for its receiver's cable leaves its sender's to the next. */
Test(predicted, between_hosts_counts_the_messages_of_all_ranks_on_one_cable)
{
	const uint64_t bytes = 16 << 20;
	static const int two[] = { 4, 4, 0 }, four[] = { 2, 2, 2, 2, 0 }, single[] = { 1, 1, 0 };
	static const int many[] = { 16, 16, 16, 16, 16, 16, 16, 16, 0 }; /* a sampled schedule */
	static const struct {
		const char *name;
		const int *hosts;
		int eighths;
	} tries[] = { { "hierarchical", two, 8 }, { "tree", two, 8 }, { "ring", two, 14 },
		{ "hierarchical", four, 12 }, { "halving", four, 12 }, { "ring", four, 14 },
		{ "tree", four, 16 }, { "ring", single, 8 }, { "hierarchical", many, 14 } };

	for (size_t i = 0; i < sizeof(tries) / sizeof(*tries); i++) {
		int64_t cable_ns = (int64_t)bytes * 38 * tries[i].eighths / 8;

		for (int channels = 1; channels <= 4; channels *= 4) {
			int64_t predicted_ns =
				over_slow_cables(tries[i].name, tries[i].hosts, bytes, channels);

			cr_expect_geq(predicted_ns, cable_ns, "%zu, %d", i, channels);
			cr_expect_leq(predicted_ns, cable_ns * 5 / 4, "%zu, %d", i, channels);
		}
	}
}

/* Two of the eight ranks of a sample have links to other hosts, of all ranks one in four. */
Test(predicted, between_many_hosts_takes_a_sample_for_all)
{
	const uint64_t bytes = 16 << 20;
	static const int hosts[] = { 8, 8, 8, 8, 8, 8, 8, 8, 0 };
	int64_t predicted_ns = over_slow_cables("ring", hosts, bytes, 1);

	cr_expect_geq(predicted_ns, (int64_t)bytes * 38 * 2 * 63 / 64);
	cr_expect_leq(predicted_ns, (int64_t)bytes * 38 * 4, "%lld",
		(long long)predicted_ns / (bytes * 38));
}

/* ---- Memory beyond the caches --------------------------------------------------------------- */

/* A byte more than it is in cache: copied 2 ns, reduced 6 ns. */
static struct rd_costs with_slow_memory(void)
{
	struct rd_costs costs = plain_costs();

	costs.memory_copy_ps = 3000;
	costs.memory_reduce_ps[RD_WHOLE] = 8000;
	costs.memory_reduce_ps[RD_HALF] = 10000;
	return costs;
}

/* The time that slow memory adds. */
static int64_t added(const char *name, enum rd_collective collective, int size, uint64_t bytes)
{
	struct rd_costs costs = plain_costs(), slow = with_slow_memory();
	struct rd_problem problem = { .collective = collective, .size = size };
	struct rd_cut cut = { bytes, RD_WHOLE, piece_of(algorithm_named(name), 16 << 20), 1 };

	return predict_with(&slow, name, problem, &cut) - predict_with(&costs, name, problem, &cut);
}

Test(predicted, of_memory_is_paid_from_the_first_byte_that_caches_do_not_hold)
{
	/* Input and output: half of a cache each. Sent from memory, and reduced into memory, both
	   with a room in a cache: half of 2 and of 6 ns a byte. */
	cr_expect_eq(added("doubling", RD_ALL_REDUCE, 2, 1 << 19), 0);
	cr_expect_eq(added("doubling", RD_ALL_REDUCE, 2, (1 << 19) + 1), ((1 << 19) + 1) * 4);
	/* Sent, kept, and sent on from the room that it came in; nothing is combined. */
	cr_expect_eq(added("ring", RD_BROADCAST, 3, 1 << 20), (1 << 20) * 3);
}

/* A copy takes 4 ns a byte there, and a reduction 8, where the shared caches hold nothing. */
static int64_t with_shared_caches(uint64_t bytes, uint32_t shared_cache_bytes)
{
	struct rd_costs costs = with_slow_memory();
	struct rd_problem problem = { .collective = RD_ALL_REDUCE, .size = 2 };
	struct rd_cut cut = { bytes, RD_WHOLE, piece_of(algorithm_named("doubling"), 16 << 20), 1 };

	costs.beyond_copy_ps = 7000;
	costs.beyond_reduce_ps[RD_WHOLE] = 16000;
	costs.shared_cache_bytes = shared_cache_bytes;
	return predict_with(&costs, "doubling", problem, &cut);
}

Test(predicted, of_memory_grows_with_the_share_of_bytes_that_shared_caches_do_not_hold)
{
	/* Input and output of two ranks. Half of 4 and of 8 ns a byte more. */
	const uint64_t bytes = 1 << 20, most = 4 * bytes;
	int64_t none = with_shared_caches(bytes, 0);

	cr_expect_eq(with_shared_caches(bytes, most) - none, (int64_t)bytes * 6);
	cr_expect_eq(with_shared_caches(bytes, most / 2) - none, (int64_t)bytes * 6);
	cr_expect_eq(with_shared_caches(bytes, 2 * most) - none, (int64_t)bytes * 3);
	/* A core's own caches hold these. */
	cr_expect_eq(with_shared_caches(1 << 19, 1), with_shared_caches(1 << 19, 0));
}

Test(predicted, of_memory_counts_the_blocks_of_all_ranks_of_the_fullest_host)
{
	int order[] = { 0, 2, 3, 1 }, group[] = { 0, 1, 0, 0 };
	struct rd_layout layout = { 4, 2, order, group };
	struct rd_problem problem = { .collective = RD_ALL_GATHER, .size = 4, .layout = &layout };

	/* A block in and four out, of three ranks. */
	cr_expect_eq(rd_most_near_blocks(&problem), 3 * 5);
	problem.layout = NULL;
	cr_expect_eq(rd_most_near_blocks(&problem), 4 * 5);
	problem.collective = RD_BROADCAST;
	problem.root = 2;
	/* The root's input, and each rank's output. */
	cr_expect_eq(rd_most_near_blocks(&problem), 1 + 4);
}

Test(predicted, of_memory_is_for_all_blocks_of_input_and_output)
{
	/* One and eight blocks; eight and eight; at the root, eight and one. */
	cr_expect_eq(added("ring", RD_ALL_GATHER, 8, (1 << 20) / 9), 0);
	cr_expect_gt(added("ring", RD_ALL_GATHER, 8, (1 << 20) / 9 + 1), 0);
	cr_expect_eq(added("ring", RD_REDUCE_SCATTER, 8, (1 << 20) / 9), 0);
	cr_expect_gt(added("ring", RD_REDUCE_SCATTER, 8, (1 << 20) / 9 + 1), 0);
	cr_expect_eq(added("linear", RD_ALL_TO_ALL, 8, (1 << 20) / 16), 0);
	cr_expect_gt(added("linear", RD_ALL_TO_ALL, 8, (1 << 20) / 16 + 1), 0);
	cr_expect_eq(added("linear", RD_GATHER, 8, (1 << 20) / 9), 0);
	cr_expect_gt(added("linear", RD_GATHER, 8, (1 << 20) / 9 + 1), 0);
}

static void expect_memory_to_add(
	const struct rd_algorithm *one, enum rd_collective collective, int size)
{
	if (collective == RD_BARRIER)
		return;
	cr_expect_eq(added(one->name, collective, size, 4096), 0, "%s, %s", one->name,
		rd_collective_name(collective));
	cr_expect_gt(added(one->name, collective, size, 8 << 20), 0, "%s, %s", one->name,
		rd_collective_name(collective));
}

Test(predicted, of_every_algorithm_rises_with_that_of_memory_for_large_calls_alone, .timeout = 60)
{
	each_problem((const int[]){ 2, 7, 8, 100, 0 }, expect_memory_to_add);
}

/* ---- All plans ------------------------------------------------------------------------------ */

static void predict_every_size(
	const struct rd_algorithm *one, enum rd_collective collective, int size)
{
	struct rd_costs costs = plain_costs();
	struct rd_problem problem = { .collective = collective, .size = size };
	struct rd_schedule *schedule;
	int64_t last = 0;

	if (collective == RD_BARRIER)
		return;
	cr_assert_eq(rd_schedule_create(&schedule, one, &problem), 0, "%s", rondo_last_error());
	for (uint64_t bytes = 64; bytes <= 64 << 20; bytes *= 4) {
		struct rd_cut cut = { bytes, RD_WHOLE, piece_of(one, 128 << 10), 1 };
		int64_t now = rd_predict(schedule, &costs, &cut);

		cr_expect(now >= last && now < INT64_MAX / 8,
			"%s, %s of %llu bytes on %d ranks: %lld ns after %lld", one->name,
			rd_collective_name(collective), (unsigned long long)bytes, size,
			(long long)now, (long long)last);
		last = now;
	}
	cr_expect(size == 1 || last > 0, "%s, %s on %d ranks costs nothing", one->name,
		rd_collective_name(collective), size);
	rd_schedule_destroy(schedule);
}

Test(predicted, of_every_algorithm_is_something_and_grows_with_bytes, .timeout = 60)
{
	each_problem((const int[]){ 2, 3, 4, 7, 8, 16, 33, 64, 100, 0 }, predict_every_size);
}

static void predict_on_shared_cores(
	const struct rd_algorithm *one, enum rd_collective collective, int size)
{
	struct rd_costs costs = plain_costs();
	struct rd_problem problem = { .collective = collective, .size = size };
	struct rd_cut cut = { 1 << 20, RD_WHOLE, piece_of(one, 128 << 10), 2 };

	costs.cores = 2;
	costs.switch_ns = 1000;
	cr_expect_lt(
		predict_with(&costs, one->name, problem, &cut), INT64_MAX / 8, "%s", one->name);
}

Test(predicted, of_every_algorithm_is_one_also_where_ranks_share_cores, .timeout = 60)
{
	each_problem((const int[]){ 8, 0 }, predict_on_shared_cores);
}

Test(predicted, is_the_same_on_every_rank)
{
	struct rd_costs costs = plain_costs();
	struct rd_cut cut = { 100000, RD_HALF, 4096, 2 };
	struct rd_problem problem = { .collective = RD_ALL_REDUCE, .size = 7 };
	int64_t first = predict_with(&costs, "ring", problem, &cut);

	for (problem.rank = 1; problem.rank < 7; problem.rank++)
		cr_assert_eq(predict_with(&costs, "ring", problem, &cut), first);
}

/* Every number is at one of its bounds in a file. */
static struct rd_costs extreme(unsigned which)
{
	struct rd_costs costs;

	memset(&costs, which & 1 ? 0xff : 0, sizeof(costs));
	for (int i = 0; i < RD_COST_POINT_COUNT; i++)
		if (which & 2 && i % 2)
			costs.links[RD_NEAR].way_ns[i] = costs.links[RD_NEAR].busy_ns[i] =
				costs.links[RD_NEAR].both_ns[i] = which & 1 ? 0 : UINT32_MAX;
	costs.cores = which & 4 ? UINT32_MAX : 1;
	rd_costs_bound(&costs);
	return costs;
}

static void predict_extremes(
	const struct rd_algorithm *one, enum rd_collective collective, int size)
{
	static const uint64_t sizes[] = { 0, 1, 1 << 20, UINT64_C(1) << 40, UINT64_C(1) << 62,
		UINT64_C(1) << 63, UINT64_MAX };
	struct rd_problem problem = { .collective = collective, .size = size };
	struct rd_schedule *schedule;

	cr_assert_eq(rd_schedule_create(&schedule, one, &problem), 0, "%s", rondo_last_error());
	for (unsigned which = 0; which < 8; which++)
		for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
			struct rd_costs costs = extreme(which);
			struct rd_cut cut = { sizes[i], RD_HALF,
				piece_of(one, i % 2 ? 64 : 128 << 10), 2 };
			int64_t now = rd_predict(schedule, &costs, &cut);

			cr_expect(now >= 0 && now <= RD_CALL_NS_MAX,
				"%s, %s of %llu bytes on %d ranks, %u: %lld ns", one->name,
				rd_collective_name(collective), (unsigned long long)sizes[i], size,
				which, (long long)now);
		}
	rd_schedule_destroy(schedule);
}

/* UBSan stops at a sum or product beyond 64 bits. */
Test(predicted, stays_within_its_bounds_whatever_the_costs_and_bytes, .timeout = 120)
{
	each_problem((const int[]){ 2, 5, 16, 100, 0 }, predict_extremes);
}

/* Two ranks that each wait for the other first. */
static void write_waiting(struct rd_plan *plan)
{
	rd_recv_reduce_last(plan, 1 - plan->problem.rank, 0);
	rd_send(plan, 1 - plan->problem.rank, 0);
}

static const struct rd_algorithm waiting = {
	.name = "waiting",
	.write = { [RD_ALL_REDUCE] = write_waiting },
};

Test(predicted, of_what_never_ends_is_more_than_any_other)
{
	struct rd_costs costs = plain_costs();
	struct rd_problem problem = { .collective = RD_ALL_REDUCE, .size = 2 };
	struct rd_cut cut = { 1000, RD_WHOLE, 4096, 1 };
	struct rd_schedule *schedule;

	cr_assert_eq(
		rd_schedule_create(&schedule, &waiting, &problem), 0, "%s", rondo_last_error());
	cr_assert_geq(rd_predict(schedule, &costs, &cut), INT64_MAX / 4);
	rd_schedule_destroy(schedule);
}
