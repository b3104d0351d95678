/* Choices of the picker, at invented costs. */
#include <criterion/criterion.h>
#include <string.h>

#include "exec/algorithms.h"
#include "base/error.h"
#include "any_layout.h"
#include "tuner/pick.h"
#include "world.h"

/* Each message costs message_ns and byte_ps a byte. */
static struct rd_link_cost link_of(uint32_t message_ns, uint32_t byte_ps)
{
	static const uint32_t sizes[] = {
#define SIZE(bytes) (bytes),
		RD_COST_POINTS(SIZE)
#undef SIZE
	};
	struct rd_link_cost link = { 0 };

	for (int i = 0; i < RD_COST_POINT_COUNT; i++) {
		uint32_t bytes_ns = (uint32_t)((uint64_t)sizes[i] * byte_ps / 1000);

		link.way_ns[i] = 3 * message_ns + 2 * bytes_ns;
		link.busy_ns[i] = message_ns + bytes_ns;
	}
	return link;
}

static struct rd_tuner_config config_of(int size, uint32_t message_ns, uint32_t byte_ps)
{
	struct rd_tuner_config config = {
		.size = size,
		.costs = { .copy_ps = 10,
			.reduce_ps = { 20, 40 },
			.cores = 64,
			.memory_copy_ps = 10,
			.memory_reduce_ps = { 20, 40 } },
		.channels = 1,
		.piece_size = 128 << 10,
		.exchange_size = 32,
		.algo = "",
	};

	config.costs.links[RD_NEAR] = config.costs.links[RD_FAR] = link_of(message_ns, byte_ps);
	return config;
}

/* As config_of(), on a host of two cores that the ranks share. */
static struct rd_tuner_config shared_cores_of(
	int size, uint32_t message_ns, uint32_t byte_ps, uint32_t switch_ns)
{
	struct rd_tuner_config config = config_of(size, message_ns, byte_ps);

	config.costs.cores = 2;
	config.costs.switch_ns = switch_ns;
	return config;
}

static struct rd_choice choice_of(const struct rd_tuner_config *config,
	enum rd_collective collective, uint64_t bytes, bool peers_mapped)
{
	struct rd_picker *picker = rd_picker_create(config);
	struct rd_choice *choice, copy;

	cr_assert_not_null(picker);
	cr_assert_eq(rd_picker_choose(picker, collective, bytes, RD_WHOLE, peers_mapped, &choice),
		0, "%s", rondo_last_error());
	copy = *choice;
	rd_picker_destroy(picker);
	return copy;
}

static void expect(const struct rd_tuner_config *config, enum rd_collective collective,
	uint64_t bytes, const char *algorithm)
{
	struct rd_choice choice = choice_of(config, collective, bytes, false);

	cr_assert_str_eq(choice.algorithm->name, algorithm, "%s of %llu bytes on %d ranks",
		rd_collective_name(collective), (unsigned long long)bytes, config->size);
}

static void expect_not(const struct rd_tuner_config *config, enum rd_collective collective,
	uint64_t bytes, const char *algorithm)
{
	struct rd_choice choice = choice_of(config, collective, bytes, false);

	cr_assert_str_neq(choice.algorithm->name, algorithm, "%s of %llu bytes on %d ranks",
		rd_collective_name(collective), (unsigned long long)bytes, config->size);
}

/* At the bounds of the costs in a file and of the bytes given to rondo_explain(). */
Test(pick, stays_within_its_bounds_whatever_the_costs_and_bytes, .timeout = 240)
{
	struct rd_tuner_config config = config_of(8, 1, 1);
	struct rondo_way ways[16];

	for (unsigned which = 0; which < 4; which++) {
		memset(&config.costs, 0xff, sizeof(config.costs));
		config.costs.cores = which & 1 ? 1 : UINT32_MAX;
		config.costs.links[RD_NEAR].single_copy = which & 2;
		rd_costs_bound(&config.costs);

		struct rd_picker *picker = rd_picker_create(&config);

		for (int bit = 0; bit < 64; bit++)
			for (int c = 0; c < RD_COLLECTIVE_COUNT; c++) {
				struct rd_choice *choice;
				uint64_t bytes = UINT64_MAX >> bit;

				cr_assert_eq(
					rd_picker_choose(picker, c, bytes, RD_HALF, true, &choice),
					0, "%s", rondo_last_error());
				cr_expect_geq(choice->predicted_ns, 0);
				cr_expect_leq(choice->predicted_ns, RD_CALL_NS_MAX);
				for (int i = rd_picker_list(
						     picker, c, bytes, RD_HALF, true, ways, 16) -
					     1;
					i >= 0; i--)
					cr_expect_geq(
						ways[i].predicted_us, 0, "%s", ways[i].algorithm);
			}
		rd_picker_destroy(picker);
	}
}

Test(pick, takes_few_messages_where_messages_are_expensive)
{
	struct rd_tuner_config config = config_of(8, 10000, 100);

	expect(&config, RD_ALL_REDUCE, 8, "doubling");
	expect_not(&config, RD_BROADCAST, 8, "ring");
}

Test(pick, takes_few_bytes_where_bytes_are_expensive)
{
	struct rd_tuner_config config = config_of(8, 100, 1000);

	expect_not(&config, RD_ALL_REDUCE, 16 << 20, "doubling");
	expect_not(&config, RD_ALL_REDUCE, 16 << 20, "tree");
}

/* Ring, halving and pat move the same bytes, and take almost the same predicted time. */
Test(pick, takes_the_fewest_rounds_of_algorithms_alike_where_ranks_share_cores)
{
	struct rd_tuner_config config = shared_cores_of(4, 5000, 150, 1000);
	struct rd_choice choice;

	config.costs.links[RD_NEAR].posts = 1;
	choice = choice_of(&config, RD_ALL_REDUCE, 8 << 20, false);
	cr_assert_leq(choice.shape.rounds, 4, "%s", choice.algorithm->name);
	/* Over memory that ranks share, the fewest links; halving would have the fewest rounds. */
	config.costs.links[RD_NEAR] = link_of(100, 20);
	config.costs.switch_ns = 3000;
	expect(&config, RD_ALL_REDUCE, 4 << 20, "ring");
}

/* A message over shared memory takes long there because it has turns in it, not the kernel. */
Test(pick, takes_the_fewest_peers_for_many_bytes_where_ranks_share_cores_and_memory)
{
	struct rd_tuner_config config = shared_cores_of(8, 900, 70, 150);

	config.costs.links[RD_NEAR].posts = config.costs.links[RD_NEAR].single_copy = 1;
	expect(&config, RD_ALL_GATHER, 128 << 10, "ring");
	expect(&config, RD_BROADCAST, 1 << 20, "ring");
	/* Without single copy, messages pass the kernel, and the fewest rounds win. */
	config.costs.links[RD_NEAR].single_copy = 0;
	expect(&config, RD_ALL_GATHER, 128 << 10, "one_round");
}

/* Eight ranks on two cores; a message of 64 KiB takes its receiver 4 us, and more to pass on. With
   any number of pieces under way, 1 MiB is at least 7 x 16 x 4 us of work for two cores. */
Test(pick, adds_up_the_work_of_pieces_where_ranks_share_cores)
{
	struct rd_tuner_config config = shared_cores_of(8, 100, 60, 150);
	struct rd_choice choice;

	choice = choice_of(&config, RD_BROADCAST, 1 << 20, false);
	cr_assert_geq(choice.predicted_ns, 7 * 16 * 4000 / 2);
}

/* Calibrated messages are expensive and turns cheap. One round still has too many messages for
   eight ranks from 512 bytes on, and for sixteen at any size. */
Test(pick, takes_one_round_for_few_bytes_where_ranks_share_cores)
{
	struct rd_tuner_config config = shared_cores_of(4, 500, 150, 200);

	expect(&config, RD_ALL_REDUCE, 512, "one_round");
	expect(&config, RD_ALL_REDUCE, 8 << 10, "doubling");
	config.size = 8;
	expect(&config, RD_ALL_GATHER, 512, "one_round");
	/* Predicted about half as much again: the load is too high. */
	config.costs.switch_ns = 800;
	expect(&config, RD_ALL_REDUCE, 512, "doubling");
	expect(&config, RD_ALL_REDUCE, 256, "one_round");
	config.costs.switch_ns = 200;
	expect(&config, RD_ALL_REDUCE, 8, "one_round");
	config.size = 16;
	expect(&config, RD_ALL_REDUCE, 8, "doubling");
}

/* The tree has the fewest rounds and twice the predicted time, and took ten times as long. */
Test(pick, takes_the_cheapest_where_one_rank_sends_few_bytes_and_ranks_share_cores)
{
	struct rd_tuner_config config = shared_cores_of(8, 500, 150, 0);

	for (uint32_t switch_ns = 200; switch_ns <= 6400; switch_ns *= 2) {
		config.costs.switch_ns = switch_ns;
		expect_not(&config, RD_BROADCAST, 8, "tree");
	}
}

Test(pick, takes_an_algorithm_about_as_cheap_as_the_first_of_its_list)
{
	struct rd_tuner_config config = config_of(6, 1000, 200);
	struct rd_picker *picker = rd_picker_create(&config);

	for (uint64_t bytes = 8; bytes <= 64 << 20; bytes *= 8) {
		struct rondo_way ways[16];
		struct rd_choice *choice;
		int chosen = 0;
		int count = rd_picker_list(picker, RD_ALL_REDUCE, bytes, RD_WHOLE, false, ways, 16);

		cr_assert_eq(
			rd_picker_choose(picker, RD_ALL_REDUCE, bytes, RD_WHOLE, false, &choice),
			0);
		cr_assert_geq(count, 2);
		for (int i = 0; i < count; i++) {
			chosen += ways[i].chosen;
			cr_assert(i == 0 || ways[i].predicted_us >= ways[i - 1].predicted_us);
			if (ways[i].chosen)
				cr_assert_str_eq(ways[i].algorithm, choice->algorithm->name);
		}
		cr_assert_eq(chosen, 1);
		cr_assert_leq((double)choice->predicted_ns, ways[0].predicted_us * 1.125e3);
	}
	rd_picker_destroy(picker);
}

Test(pick, crosses_a_slow_network_as_little_as_it_can)
{
	struct rd_tuner_config config = config_of(8, 300, 50);
	static const int hosts[] = { 4, 4, 0 };
	static struct any_layout any;
	const struct rd_layout *layout = layout_of(&any, hosts, 0);

	config.layout = layout;
	config.costs.links[RD_FAR] = link_of(20000, 10000);

	/* Others have as few bytes as hierarchical on the cable of a host. */
	expect_not(&config, RD_ALL_REDUCE, 1 << 20, "ring");
	expect_not(&config, RD_ALL_REDUCE, 1 << 20, "doubling");
}

/* Hierarchical leaves a host's cable idle while its ranks sum, and takes fewer messages. */
Test(pick, keeps_the_cable_of_a_host_busy_that_its_ranks_share)
{
	struct rd_tuner_config config = shared_cores_of(8, 350, 60, 50);
	struct rd_link_cost far = link_of(3000, 800);
	static const int hosts[] = { 4, 4, 0 };
	static struct any_layout any;

	config.layout = layout_of(&any, hosts, 0);
	for (int i = 0; i < RD_COST_POINT_COUNT; i++)
		far.way_ns[i] = 100000 + 12 * far.busy_ns[i];
	config.costs.links[RD_FAR] = far;
	expect_not(&config, RD_ALL_REDUCE, 64 << 10, "tree");
	expect(&config, RD_ALL_REDUCE, 16 << 20, "tree");
}

/* Two ranks on two hosts, with four channels between them, whose bytes cost far more than their
   messages. */
static struct rd_tuner_config two_hosts_of(uint32_t rails, uint32_t striped)
{
	struct rd_tuner_config config = config_of(2, 100, 10);
	static const int hosts[] = { 1, 1, 0 };
	static struct any_layout any;

	config.layout = layout_of(&any, hosts, 0);
	config.channels = 4;
	config.costs.links[RD_FAR] = link_of(100, 1000);
	config.costs.links[RD_FAR].rails = rails;
	config.costs.links[RD_FAR].striped = striped;
	return config;
}

static struct rd_choice choice_over(uint32_t rails, uint32_t striped)
{
	struct rd_tuner_config config = two_hosts_of(rails, striped);

	return choice_of(&config, RD_ALL_REDUCE, 16 << 20, false);
}

Test(pick, takes_as_many_channels_as_there_are_rails)
{
	struct rd_choice one = choice_over(1, 0);

	cr_assert_eq(one.channels, 1);
	for (uint32_t rails = 2; rails <= 4; rails++) {
		struct rd_choice all = choice_over(rails, 0);

		cr_assert_eq(all.channels, (int)rails, "%d for %u", all.channels, rails);
		cr_assert_lt(all.predicted_ns * (int64_t)rails, one.predicted_ns * 11 / 10);
	}
}

Test(pick, leaves_rails_alone_that_were_measured_to_gain_nothing)
{
	struct rd_choice one = choice_over(1, 0), none = choice_over(2, 1000),
			 some = choice_over(2, 700);

	cr_assert_eq(none.channels, 1);
	cr_assert_eq(none.predicted_ns, one.predicted_ns);
	cr_assert_eq(some.channels, 2);
	cr_assert_gt(some.predicted_ns * 10, one.predicted_ns * 7);
	cr_assert_lt(some.predicted_ns * 10, one.predicted_ns * 8);
}

Test(pick, makes_pieces_shorter_where_a_chain_waits_for_its_first)
{
	struct rd_tuner_config config = config_of(8, 100, 1000);
	struct rd_choice choice;

	config.algo = "ring";
	choice = choice_of(&config, RD_BROADCAST, 128 << 10, false);
	cr_assert_lt(choice.piece_size, 128 << 10);
	choice = choice_of(&config, RD_BROADCAST, 1 << 10, false);
	cr_assert_eq(choice.piece_size, 128 << 10);
}

Test(pick, takes_more_channels_where_waiting_is_long)
{
	struct rd_tuner_config config = config_of(4, 100, 10);

	config.channels = 4;
	for (int i = 0; i < RD_COST_POINT_COUNT; i++)
		config.costs.links[RD_NEAR].way_ns[i] += 1000000;
	cr_assert_gt(choice_of(&config, RD_ALL_REDUCE, 64 << 20, false).channels, 1);
	cr_assert_eq(choice_of(&config, RD_ALL_REDUCE, 8, false).channels, 1);
}

Test(pick, takes_the_named_algorithm_wherever_that_can_run)
{
	struct rd_tuner_config config = config_of(8, 10000, 100);

	config.algo = "ring";
	expect(&config, RD_ALL_REDUCE, 8, "ring");
	expect(&config, RD_BARRIER, 0, "linear");
	/* The named algorithm has no direct access, and needs no buffer exchange. */
	cr_assert_not(choice_of(&config, RD_ALL_REDUCE, 1 << 20, true).algorithm->direct_access);
}

Test(pick, exchanges_buffers_where_direct_access_pays)
{
	struct rd_tuner_config config = config_of(4, 100, 1000);

	cr_assert(choice_of(&config, RD_ALL_REDUCE, 16 << 20, true).algorithm->direct_access);
	cr_assert(choice_of(&config, RD_ALL_REDUCE, 8 << 10, true).algorithm->direct_access);
	cr_assert_not(choice_of(&config, RD_ALL_REDUCE, 7 << 10, true).algorithm->direct_access);
	cr_assert_not(choice_of(&config, RD_ALL_REDUCE, 8, true).algorithm->direct_access);
	cr_assert_not(choice_of(&config, RD_ALL_REDUCE, 16 << 20, false).algorithm->direct_access);
}

Test(pick, has_one_choice_for_sizes_that_are_near)
{
	struct rd_tuner_config config = config_of(4, 100, 1000);
	struct rd_picker *picker = rd_picker_create(&config);
	struct rd_choice *a, *b, *c;

	cr_assert_eq(rd_picker_choose(picker, RD_ALL_REDUCE, 1024, RD_WHOLE, false, &a), 0);
	cr_assert_eq(rd_picker_choose(picker, RD_ALL_REDUCE, 1279, RD_WHOLE, false, &b), 0);
	cr_assert_eq(rd_picker_choose(picker, RD_ALL_REDUCE, 1280, RD_WHOLE, false, &c), 0);
	cr_assert_eq(a, b);
	cr_assert_neq(a, c);
	rd_picker_destroy(picker);
}

Test(pick, has_a_choice_for_every_collective_and_size)
{
	for (int size = 2; size <= 9; size++) {
		struct rd_tuner_config config = config_of(size, 1000, 100);

		for (int c = 0; c < RD_COLLECTIVE_COUNT; c++)
			for (uint64_t bytes = 0; c != RD_TRANSFER && bytes < 1 << 20;
				bytes = 7 * bytes + 1)
				cr_assert_not_null(choice_of(&config, c, bytes, false).algorithm);
	}
}

/* ---- The cost of a choice ------------------------------------------------------------------- */

static int written;

static void write_and_count(struct rd_plan *plan)
{
	written++;
	rd_algorithm_named("ring")->write[RD_ALL_REDUCE](plan);
}

static const struct rd_algorithm counting = {
	.name = "counting",
	.write = { [RD_ALL_REDUCE] = write_and_count },
};

Test(pick, writes_plans_once_for_all_sizes_and_few_of_them_at_many_ranks)
{
	struct rd_tuner_config config = config_of(64, 1000, 100);
	struct rd_picker *picker = rd_picker_create(&config);
	struct rd_choice *choice;

	cr_assert_eq(rd_algorithm_add(&counting), 0);
	for (int type = 0; type < RD_TYPE_CLASS_COUNT; type++)
		for (uint64_t bytes = 1; bytes < 1 << 30; bytes *= 2)
			cr_assert_eq(rd_picker_choose(
					     picker, RD_ALL_REDUCE, bytes, type, false, &choice),
				0);
	/* Those of a sample, and of the path of 126 messages. */
	cr_assert_leq(written, RD_SAMPLED + RD_SAMPLED_EDGES + 127, "%d", written);
	rd_picker_destroy(picker);
}

/* ---- On real links -------------------------------------------------------------------------- */

/* All ranks have the same costs and choose alike. */
static int compare(struct rank_env *env)
{
	char text[2048], theirs[2048];
	struct rondo_way ways[16];
	int length, count, err;

	if (!env->comm)
		return world_report(env, "no comm: %s", rondo_last_error());
	length = rondo_costs(env->comm, text, sizeof(text));
	if (length <= 0 || (size_t)length >= sizeof(text))
		return world_report(env, "costs are %d characters long", length);
	memset(text + length, 0, sizeof(text) - (size_t)length);
	memcpy(theirs, text, sizeof(text));
	err = rondo_broadcast(env->comm, theirs, theirs, sizeof(theirs), RONDO_U8, 0, NULL);
	if (err)
		return world_report(env, "broadcast: %s", rondo_last_error());
	if (memcmp(theirs, text, sizeof(text)) != 0)
		return world_report(env, "costs differ");
	count = rondo_explain(env->comm, "all_reduce", 1000, RONDO_F32, 0, ways, 16);
	if (count < 2 || ways[0].predicted_us <= 0)
		return world_report(env, "%d ways", count);
	if (rondo_explain(env->comm, "all_produce", 1, RONDO_F32, 0, ways, 16) != RONDO_INVALID)
		return world_report(env, "all_produce is no collective");
	if (!strstr(rondo_last_error(), "all_produce is no collective; did you mean all_reduce?"))
		return world_report(env, "%s", rondo_last_error());
	return 0;
}

static int spell(struct rank_env *env)
{
	static const char *const spellings[] = { "all_to_all", "alltoall", "AllToAll", "ALL-TO-ALL",
		"allreduce", "ReduceScatter", "BROADCAST" };
	struct rondo_way way;

	for (size_t i = 0; i < sizeof(spellings) / sizeof(*spellings); i++)
		if (rondo_explain(env->comm, spellings[i], 1, RONDO_F32, 0, &way, 1) < 1)
			return world_report(env, "%s: %s", spellings[i], rondo_last_error());
	if (rondo_explain(env->comm, "transfer", 1, RONDO_F32, 0, &way, 1) != RONDO_INVALID ||
		rondo_explain(env->comm, "all", 1, RONDO_F32, 0, &way, 1) != RONDO_INVALID ||
		rondo_explain(env->comm, "reduces", 1, RONDO_F32, 0, &way, 1) != RONDO_INVALID)
		return world_report(env, "what is no collective is explained");
	return 0;
}

Test(pick, finds_a_collective_in_every_spelling, .timeout = 60)
{
	WORLD_TRY(spell, .size = 2, .transport = "shm");
}

Test(pick, suggests_the_algorithm_that_may_have_been_meant)
{
	struct rd_settings settings = { .algo = "dubling" };

	cr_assert_eq(rd_pick_check(&settings), RONDO_SETTING);
	cr_assert(strstr(rondo_last_error(), "RONDO_ALGO is \"dubling\", which is no algorithm: "
					     "choose among ring, "),
		"%s", rondo_last_error());
	cr_assert(strstr(rondo_last_error(), "; did you mean doubling?"), "%s", rondo_last_error());
	settings.algo = "bogus";
	cr_assert_eq(rd_pick_check(&settings), RONDO_SETTING);
	cr_assert_null(strstr(rondo_last_error(), "did you mean"), "%s", rondo_last_error());
}

Test(pick, has_the_same_costs_on_every_rank, .timeout = 120)
{
	static const char *const transports[] = { "shm", "tcp", "mixed" };
	struct rank_outcome outcomes[WORLD_MAX];

	for (int i = 0; i < 3; i++) {
		struct world world = { .size = 5, .transport = transports[i] };

		cr_assert_eq(world_run(&world, compare, NULL, outcomes), 0, "%s: %s", transports[i],
			outcomes[0].text);
	}
}

static int count_first_call(struct rank_env *env)
{
	float value = 1;
	int err;

	if (!env->comm)
		return world_report(env, "no comm: %s", rondo_last_error());
	/* No rank may receive the failure before it has its comm. */
	err = rondo_barrier(env->comm, NULL);
	if (err)
		return world_report(env, "barrier: %s", rondo_last_error());
	/* A mismatch, whose reason has the call's number. */
	err = rondo_all_reduce(
		env->comm, &value, &value, 1, env->rank ? RONDO_F32 : RONDO_I32, RONDO_SUM, NULL);
	if (err != RONDO_MISMATCH || !strstr(rondo_last_error(), "all_reduce #2 "))
		return world_report(env, "%d: %s", err, rondo_last_error());
	return 0;
}

Test(pick, measures_without_a_trace_in_the_numbers_of_calls, .timeout = 60)
{
	struct world world = { .size = 3 };
	struct rank_outcome outcomes[WORLD_MAX];

	cr_assert_eq(
		world_run(&world, count_first_call, NULL, outcomes), 0, "%s", outcomes[0].text);
}
