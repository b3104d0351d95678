/* How ranks learn of links that others open, and of link failures, over a simulated network. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/net.h"

/* Each rank has the least limits of all links, over the transports that they took in the end. */
static void expect_limits(uint32_t seed)
{
	bool maps = true;

	for (int i = 0; i < net.size; i++)
		for (int peer = 0; peer < net.size; peer++)
			maps &= peer == i || net.nodes[i].route[peer] == 0;
	for (int i = 0; i < net.size; i++) {
		const struct rd_link_limits *limits = &net.nodes[i].participant->limits;

		cr_assert_eq(limits->piece_size, (uint64_t)(1001 - net.size), "seed %u", seed);
		cr_assert_eq(limits->maps, maps, "seed %u", seed);
		cr_assert_eq(limits->near_rails, 2u, "seed %u", seed);
		cr_assert_eq(
			limits->far_rails, RD_NO_RAILS - (uint32_t)(net.size - 1), "seed %u", seed);
		cr_assert_eq(limits->cores, 8u, "seed %u: rank 0's", seed);
	}
}

Test(rendezvous, both_of_a_pair_take_the_first_transport_that_fails_neither, .timeout = 60)
{
	for (uint32_t seed = 1; seed <= 500; seed++) {
		net_init(2 + (int)(seed % (RANKS_MAX - 1)), seed);
		net_stagger(100);
		net_break_links();
		cr_assert(net_run_until(net_all_open), "seed %u: %s", seed, net.coordinator_reason);
		expect_limits(seed);
		for (int i = 0; i < net.size; i++) {
			for (int peer = 0; peer < net.size; peer++) {
				unsigned broken =
					net.nodes[i].broken[peer] | net.nodes[peer].broken[i];
				int route = net.nodes[i].route[peer];

				if (peer == i)
					continue;
				cr_assert_eq(
					route, net_route_to(&net.nodes[i], peer), "seed %u", seed);
				cr_assert_eq(route, net.nodes[peer].route[i], "seed %u", seed);
				cr_assert_not(broken >> route & 1, "seed %u", seed);
				cr_assert_eq(broken & ((1u << route) - 1), (1u << route) - 1,
					"seed %u: rank %d left a transport that works to %d", seed,
					i, peer);
			}
		}
	}
}

/* Some, or all. They never open a link. */
Test(rendezvous, ranks_may_be_ready_as_they_come, .timeout = 60)
{
	for (uint32_t seed = 1; seed <= 500; seed++) {
		net_init(2 + (int)(seed % (RANKS_MAX - 1)), seed);
		net_stagger(100);
		for (int i = 0; i < net.size; i++)
			net.nodes[i].early = net.nodes[i].lags = seed % 3 == 0 || net_draw(2);
		cr_assert(net_run_until(net_all_open), "seed %u: %s", seed, net.coordinator_reason);
		for (int i = 0; i < net.size; i++)
			for (int peer = 0; peer < net.size; peer++)
				net.nodes[i].route[peer] = 0;
		expect_limits(seed);
	}
}

/* The coordinator receives LINK_FAILED from rank 1: the link between these two. */
static void receive_link_failure(int low, int high, int by)
{
	struct rd_control_message message = { .kind = RD_CONTROL_LINK_FAILED,
		.link_failed = { low, high, by, "shm", "broken", false } };

	rd_coordinator_take(net.coordinator, net.nodes[1].connection, &message, net.now_ms);
}

static bool all_joined(void)
{
	for (int i = 0; i < net.size; i++)
		if (!net.nodes[i].participant ||
			net.nodes[i].participant->phase != RD_PARTICIPANT_JOINED)
			return false;
	return true;
}

static void join_only(int size)
{
	net_init(size, 1);
	for (int i = 0; i < size; i++)
		net.nodes[i].lags = true;
	cr_assert(net_run_until(all_joined));
}

Test(rendezvous, a_link_failure_of_an_absent_rank_is_an_invalid_message)
{
	join_only(3);
	receive_link_failure(1, 3, 1);
	net_expect_verdict(
		RONDO_PROTOCOL, "rank 1 (host h1, pid 101) sent bytes that make no sense");
}

Test(rendezvous, a_link_failure_between_others_is_an_invalid_message)
{
	join_only(3);
	receive_link_failure(0, 2, 2);
	net_expect_verdict(
		RONDO_PROTOCOL, "rank 1 (host h1, pid 101) sent bytes that make no sense");
}

Test(rendezvous, a_link_failure_of_a_ready_rank_is_an_invalid_message)
{
	struct rd_link_limits limits = { 1000, true, 1, 1, 1 };

	join_only(3);
	rd_participant_ready(net.nodes[1].participant, 0, &limits);
	net_run_steps(50);
	receive_link_failure(0, 1, 1);
	net_expect_verdict(
		RONDO_PROTOCOL, "rank 1 (host h1, pid 101) sent bytes that make no sense");
}

/* ---- Links that ranks open ------------------------------------------------------------------ */

static const struct rd_rank_list *opened_to(int rank)
{
	return &net.nodes[rank].participant->opened;
}

/* A moment later all messages have come. */
static void settle(void)
{
	int64_t until_ms = net.now_ms + 100;

	while (net.now_ms < until_ms)
		net_run_steps(1);
}

Test(rendezvous, the_peer_of_a_link_that_opens_learns_of_it_and_no_other_rank_does)
{
	net_meet(4);
	rd_participant_open(net.nodes[3].participant, 1);
	rd_participant_open(net.nodes[0].participant, 1);
	rd_participant_open(net.nodes[1].participant, 0);
	settle();
	cr_expect_eq(opened_to(1)->count, 2);
	cr_expect_eq(opened_to(1)->at[0] + opened_to(1)->at[1], 3);
	cr_expect_eq(opened_to(0)->count, 1);
	cr_expect_eq(opened_to(0)->at[0], 1);
	cr_expect_eq(opened_to(2)->count + opened_to(3)->count, 0);
}

static bool all_opened(void)
{
	for (int rank = 0; rank < net.size; rank++)
		if (opened_to(rank)->count < 2 * (net.size - 1))
			return false;
	return true;
}

static void open_both(int rank, int peer)
{
	rd_participant_open(net.nodes[rank].participant, peer);
	rd_participant_open(net.nodes[rank].participant, peer | RD_OPEN_TAGGED);
}

Test(rendezvous, each_may_open_both_links_to_each, .timeout = 60)
{
	for (uint32_t seed = 1; seed <= 50; seed++) {
		net_init(2 + (int)(seed % (RANKS_MAX - 1)), seed);
		for (int i = 0; i < net.size; i++)
			net.nodes[i].idle = true;
		cr_assert(net_run_until(net_all_open));
		for (int i = 0; i < net.size; i++)
			for (int step = 1; step < net.size; step++)
				open_both(i, (i + step) % net.size);
		cr_assert(net_run_until(all_opened), "seed %u", seed);
		cr_assert_eq(net.coordinator_error, 0);
	}
}

/* The coordinator receives OPEN from rank 1, to these two. */
static void receive_open(int first, int second)
{
	struct rd_control_message message = { .kind = RD_CONTROL_OPEN,
		.open = { .count = 2, .ranks = { first, second } } };

	rd_coordinator_take(net.coordinator, net.nodes[1].connection, &message, net.now_ms);
	net_expect_verdict(
		RONDO_PROTOCOL, "rank 1 (host h1, pid 101) sent bytes that make no sense");
}

Test(rendezvous, a_link_to_itself_an_absent_rank_or_twice_to_one_is_an_invalid_message)
{
	const int tagged = RD_OPEN_TAGGED;
	const int wrong[][2] = { { 0, 1 }, { 3, 0 }, { 2, 2 }, { 0, 1 | tagged }, { 3 | tagged, 0 },
		{ 2 | tagged, 2 | tagged } };

	for (int i = 0; i < 6; i++) {
		net_meet(3);
		receive_open(wrong[i][0], wrong[i][1]);
	}
}

Test(rendezvous, a_link_before_all_are_ready_is_an_invalid_message)
{
	join_only(3);
	receive_open(0, 2);
}

/* ---- Costs ---------------------------------------------------------------------------------- */

#define COSTS "costs"

static int count_knowing(void)
{
	int count = 0;

	for (int rank = 0; rank < net.size; rank++) {
		const char *known = net.nodes[rank].participant->costs;

		count += known && strcmp(known, COSTS) == 0;
	}
	return count;
}

Test(rendezvous, the_costs_of_rank_0_come_to_all)
{
	net_meet(4);
	cr_expect_eq(count_knowing(), 0);
	rd_participant_costs(net.nodes[0].participant, strdup(COSTS));
	settle();
	cr_expect_eq(count_knowing(), 4);
	cr_expect_eq(net.coordinator_error, 0);
}

Test(rendezvous, costs_of_another_rank_are_an_invalid_message)
{
	struct rd_control_message message = { .kind = RD_CONTROL_COSTS, .costs = { 5, { COSTS } } };

	net_meet(3);
	rd_coordinator_take(net.coordinator, net.nodes[1].connection, &message, net.now_ms);
	net_expect_verdict(
		RONDO_PROTOCOL, "rank 1 (host h1, pid 101) sent bytes that make no sense");
}

/* ---- Leaving -------------------------------------------------------------------------------- */

/* The last fallback of the rank names no transport, and this leaver. */
static void expect_left(int rank, int leaver)
{
	const struct rd_link_failures *fallbacks = &net.nodes[rank].participant->fallbacks;

	cr_assert_eq(fallbacks->count, 1);
	cr_expect_eq(fallbacks->at[0].by, leaver);
	cr_expect_str_empty(fallbacks->at[0].transport);
}

Test(rendezvous, who_opens_a_link_to_a_rank_that_leaves_learns_that_it_has_left)
{
	net_meet(3);
	rd_participant_open(net.nodes[2].participant, 1);
	settle();
	cr_expect_eq(net.nodes[2].participant->fallbacks.count, 0);
	rd_participant_leave(net.nodes[1].participant, 0, net.now_ms);
	settle();
	expect_left(2, 1);
	cr_expect_eq(net.nodes[0].participant->fallbacks.count, 0);
	rd_participant_open(net.nodes[0].participant, 1);
	settle();
	expect_left(0, 1);
}

Test(rendezvous, a_link_may_fail_after_all_were_ready)
{
	struct rd_link_failure failure = { 0, 2, 2, "shm", "broken", false };

	net_meet(3);
	rd_participant_link_failed(net.nodes[2].participant, &failure);
	settle();
	for (int rank = 0; rank < 3; rank++) {
		cr_expect_eq(net.nodes[rank].participant->fallbacks.count, rank == 1 ? 0 : 1);
		cr_expect_eq(net.nodes[rank].participant->phase, RD_PARTICIPANT_OPEN);
	}
}

Test(rendezvous, link_failures_without_end_are_invalid_messages)
{
	struct rd_control_message message = { .kind = RD_CONTROL_LINK_FAILED,
		.link_failed = { 0, 1, 1, "", "broken", false } };

	join_only(2);
	for (int i = 0; i <= 2 * RD_TRANSPORTS_MAX; i++) {
		snprintf(message.link_failed.transport, sizeof(message.link_failed.transport),
			"t%d", i);
		rd_coordinator_take(net.coordinator, net.nodes[1].connection, &message, net.now_ms);
	}
	net_expect_verdict(RONDO_PROTOCOL, "sent bytes that make no sense");
}
