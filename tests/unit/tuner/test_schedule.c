/* Schedules: the shapes that they show, and how many plans and events they take. */
#include <criterion/criterion.h>

#include "exec/algorithms.h"
#include "base/error.h"
#include "any_layout.h"
#include "predictions.h"
#include "tuner/schedule.h"

/* ---- Shapes ---------------------------------------------------------------------------------- */

static struct rd_shape shape_of(const char *name, int size)
{
	struct rd_problem problem = { .collective = RD_ALL_REDUCE, .size = size };
	struct rd_schedule *schedule;
	struct rd_shape shape;

	cr_assert_eq(rd_schedule_create(&schedule, algorithm_named(name), &problem), 0, "%s",
		rondo_last_error());
	shape = rd_schedule_shape(schedule);
	rd_schedule_destroy(schedule);
	return shape;
}

Test(schedule, the_shape_has_rounds_peers_and_load)
{
	struct rd_shape ring = shape_of("ring", 8), doubling = shape_of("doubling", 8);

	cr_expect_eq(ring.rounds, 14, "%d", ring.rounds);
	cr_expect_eq(ring.peers, 1, "%d", ring.peers);
	cr_expect_eq(ring.load, 1750, "%d", ring.load);
	cr_expect_eq(doubling.rounds, 3, "%d", doubling.rounds);
	cr_expect_eq(doubling.peers, 3, "%d", doubling.peers);
	cr_expect_eq(doubling.load, 3000, "%d", doubling.load);
}

/* A sample of many ranks has the same load. */
Test(schedule, the_shape_of_many_ranks_has_their_load)
{
	cr_expect_eq(shape_of("ring", 80).load, 2000 * 79 / 80);
	cr_expect_eq(shape_of("doubling", 128).load, 7000);
}

/* ---- The cost of a prediction --------------------------------------------------------------- */

/* A ring that counts the plans that it writes. */
static int written;

static void write_and_count(struct rd_plan *plan)
{
	written++;
	algorithm_named("ring")->write[plan->problem.collective](plan);
}

static const struct rd_algorithm counting = {
	.name = "counting",
	.write = { [RD_ALL_REDUCE] = write_and_count, [RD_BROADCAST] = write_and_count },
};

static int plans_for(enum rd_collective collective, int size)
{
	struct rd_problem problem = { .collective = collective, .size = size };
	struct rd_schedule *schedule;

	written = 0;
	cr_assert_eq(
		rd_schedule_create(&schedule, &counting, &problem), 0, "%s", rondo_last_error());
	rd_schedule_destroy(schedule);
	return written;
}

Test(schedule, is_of_all_ranks_plans_where_those_are_few_or_short)
{
	for (int size = 2; size <= 16; size++)
		cr_expect_eq(plans_for(RD_ALL_REDUCE, size), size);
	cr_expect_eq(plans_for(RD_BROADCAST, 64), 64);
}

/* A path has a plan for each message, and one for its begin. The first message has a path, too. */
Test(schedule, is_of_a_few_ranks_plans_where_those_are_long)
{
	int few = RD_SAMPLED + RD_SAMPLED_EDGES;

	cr_expect_leq(plans_for(RD_ALL_REDUCE, 64), few + 2 * 63 + 1);
	cr_expect_leq(plans_for(RD_ALL_REDUCE, 1000), few + RD_PATH_STEPS / (2 * 999) + 2);
	cr_expect_leq(plans_for(RD_BROADCAST, 300), few + 2 * 300);
}

/* Plug-ins are predicted before their plans are proved. */
static void wait_for_ever(struct rd_plan *plan)
{
	int other = plan->problem.rank ^ 1;

	rd_recv(plan, other, 0);
	if (plan->problem.root == 0)
		rd_send(plan, other, 0);
}

Test(schedule, of_many_ranks_whose_plans_make_no_sense_ends)
{
	static const struct rd_algorithm waiting = { .name = "waiting",
		.write = { [RD_BROADCAST] = wait_for_ever } };
	struct rd_problem problem = { .collective = RD_BROADCAST, .size = 100 };
	struct rd_schedule *schedule;

	for (int root = 0; root < 2; root++) {
		problem.root = root;
		cr_assert_eq(rd_schedule_create(&schedule, &waiting, &problem), 0);
		rd_schedule_destroy(schedule);
	}
}

/* Each comm keeps the schedules of its algorithms. */
static void keep_few_events(const struct rd_algorithm *one, enum rd_collective collective, int size)
{
	struct rd_problem problem = { .collective = collective, .size = size };
	struct rd_schedule *schedule;

	cr_assert_eq(rd_schedule_create(&schedule, one, &problem), 0, "%s", rondo_last_error());
	cr_expect_leq(schedule->event_count, 9 * 8, "%s, %s on %d ranks: %d events", one->name,
		rd_collective_name(collective), size, schedule->event_count);
	rd_schedule_destroy(schedule);
}

Test(schedule, is_of_few_events_however_many_the_ranks)
{
	each_problem((const int[]){ 65, 256, 300, 0 }, keep_few_events);
}

Test(schedule, of_a_few_ranks_is_near_that_of_all)
{
	struct rd_costs costs = plain_costs();
	struct rd_cut cut = { 1 << 20, RD_WHOLE, 1 << 20, 1 };
	struct rd_problem all = { .collective = RD_ALL_REDUCE, .size = 54 };
	struct rd_problem few = { .collective = RD_ALL_REDUCE, .size = 58 };
	int64_t played = predict_with(&costs, "ring", all, &cut);
	int64_t added_up = predict_with(&costs, "ring", few, &cut);

	cr_expect_eq(plans_for(RD_ALL_REDUCE, 54), 54);
	cr_expect_gt(added_up, played);
	cr_expect_lt(added_up, played * 5 / 4);
	/* Where ranks share two cores, those outside the sample have work to do, too. */
	costs.cores = 2;
	played = predict_with(&costs, "ring", all, &cut);
	added_up = predict_with(&costs, "ring", few, &cut);
	cr_expect_gt(added_up, played / 2);
	cr_expect_lt(added_up, 2 * played);
}

/* A chain's ranks within a host have no messages to others. The line may enter and leave each host
   anywhere. */
Test(schedule, of_a_few_ranks_has_some_where_hosts_meet)
{
	static const int hosts[] = { 16, 16, 16, 16, 0 };
	static const char *const names[] = { "chain", "ring" };
	struct rd_costs costs = plain_costs();
	struct rd_cut cut = { 1 << 10, RD_WHOLE, 1 << 20, 1 };
	struct any_layout any;
	struct rd_problem problem = {
		.collective = RD_ALL_REDUCE, .size = 64, .layout = layout_of(&any, hosts, 0)
	};

	for (int i = 0; i < RD_COST_POINT_COUNT; i++)
		costs.links[RD_FAR].way_ns[i] += 10000;
	for (int i = 0; i < 64; i++)
		any.order[i] = i / 16 * 16 + (i + 5) % 16;
	for (int i = 0; i < 2; i++) {
		struct rd_schedule *whole;

		cr_assert_eq(rd_schedule_create_whole(&whole, algorithm_named(names[i]), &problem),
			0, "%s", rondo_last_error());

		int64_t played = rd_predict(whole, &costs, &cut);
		int64_t added_up = predict_with(&costs, names[i], problem, &cut);

		cr_expect_gt(added_up, played * 9 / 10, "%s: %ld, %ld", names[i], (long)added_up,
			(long)played);
		cr_expect_lt(added_up, played * 11 / 10, "%s: %ld, %ld", names[i], (long)added_up,
			(long)played);
		rd_schedule_destroy(whole);
	}
}

/* Where all wait for one message, no rank has much to do. */
Test(schedule, of_a_few_ranks_has_the_way_of_messages_through_all)
{
	static const int one[] = { 120, 0 }, five[] = { 24, 24, 24, 24, 24, 0 };
	static const char *const names[] = { "ring", "binomial", "tree", "halving", "chain" };
	static const enum rd_collective collectives[] = { RD_BROADCAST, RD_REDUCE, RD_ALL_REDUCE,
		RD_ALL_GATHER };
	struct rd_costs costs = plain_costs();
	struct rd_cut cut = { 1 << 10, RD_WHOLE, 1 << 20, 1 };
	int tried = 0;

	for (int i = 0; i < RD_COST_POINT_COUNT; i++)
		costs.links[RD_FAR].way_ns[i] += 10000;
	costs.cores = 120;
	for (int k = 0; k < 2 * 5 * 4; k++) {
		const struct rd_algorithm *algorithm = algorithm_named(names[k / 2 % 5]);
		struct any_layout any;
		struct rd_problem problem = { .collective = collectives[k / 10],
			.size = 120,
			.layout = layout_of(&any, k % 2 ? five : one, 0) };
		struct rd_schedule *whole;

		if (!algorithm->write[problem.collective])
			continue;
		cr_assert_eq(rd_schedule_create_whole(&whole, algorithm, &problem), 0);

		int64_t played = rd_predict(whole, &costs, &cut);
		int64_t added_up = predict_with(&costs, algorithm->name, problem, &cut);

		tried++;
		cr_expect(added_up > played / 4 && added_up < played * 3 / 2, "%s, %s: %ld, %ld",
			algorithm->name, rd_collective_name(problem.collective), (long)added_up,
			(long)played);
		rd_schedule_destroy(whole);
	}
	cr_expect_gt(tried, 20);
}
