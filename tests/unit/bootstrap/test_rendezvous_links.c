/* How ranks agree on link failures and rounds, over a simulated network. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "rendezvous/net.h"

/* Each rank has the least limits of all links, over the transports that they took in the end. */
static void expect_limits(uint32_t seed)
{
	bool maps = true;

	for (int i = 0; i < net.size; i++)
		for (int peer = 0; peer < net.size; peer++)
			maps &= peer == i || net.nodes[i].route[peer] == 0;
	for (int i = 0; i < net.size; i++) {
		const struct rd_link_limits *limits =
			rd_participant_limits(net.nodes[i].participant);

		cr_assert_eq(limits->piece_size, (uint64_t)(1001 - net.size), "seed %u", seed);
		cr_assert_eq(limits->maps, maps, "seed %u", seed);
		cr_assert_eq(limits->near_rails, 2u, "seed %u", seed);
		cr_assert_eq(
			limits->far_rails, RD_NO_RAILS - (uint32_t)(net.size - 1), "seed %u", seed);
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
		net_finish();
	}
}

/* The coordinator receives LINK_FAILED from rank 1: the link between these two. */
static void receive_link_failure(int low, int high, int by)
{
	struct rd_control_message message = { .kind = RD_CONTROL_LINK_FAILED,
		.link_failed = { low, high, by, "shm", "broken" } };

	rd_coordinator_take(net.coordinator, net.nodes[1].connection, &message, net.now_ms);
}

static bool all_joined(void)
{
	for (int i = 0; i < net.size; i++)
		if (!net.nodes[i].participant ||
			rd_participant_phase(net.nodes[i].participant) != RD_PARTICIPANT_JOINED)
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
	struct rd_link_limits limits = { 1000, true, 1, 1 };

	join_only(3);
	rd_participant_ready(net.nodes[1].participant, 0, &limits);
	net_run_steps(50);
	receive_link_failure(0, 1, 1);
	net_expect_verdict(
		RONDO_PROTOCOL, "rank 1 (host h1, pid 101) sent bytes that make no sense");
}

/* The number of rounds that have ended on all ranks, a moment later; -1: the ranks differ. */
static int rounds_ended(void)
{
	int64_t until_ms = net.now_ms + 100;
	int rounds;

	while (net.now_ms < until_ms)
		net_run_steps(1);
	rounds = rd_participant_rounds(net.nodes[0].participant);
	for (int i = 1; i < net.size; i++)
		if (rd_participant_rounds(net.nodes[i].participant) != rounds)
			return -1;
	return rounds;
}

Test(rendezvous, a_round_of_looks_ends_when_all_have_looked_or_are_ready)
{
	struct rd_link_limits limits = { 1000, true, 1, 1 };

	join_only(3);
	rd_participant_tried(net.nodes[0].participant);
	rd_participant_tried(net.nodes[1].participant);
	cr_expect_eq(rounds_ended(), 0);
	rd_participant_tried(net.nodes[0].participant);
	cr_expect_eq(rounds_ended(), 0);
	rd_participant_tried(net.nodes[2].participant);
	cr_expect_eq(rounds_ended(), 1);
	rd_participant_tried(net.nodes[0].participant);
	rd_participant_tried(net.nodes[2].participant);
	cr_expect_eq(rounds_ended(), 1);
	rd_participant_ready(net.nodes[1].participant, 0, &limits);
	cr_expect_eq(rounds_ended(), 2);
	rd_participant_tried(net.nodes[2].participant);
	cr_expect_eq(rounds_ended(), 2);
	rd_participant_ready(net.nodes[2].participant, 0, &limits);
	cr_expect_eq(rounds_ended(), 2);
	rd_participant_tried(net.nodes[0].participant);
	cr_expect_eq(rounds_ended(), 3);
	net_finish();
}

Test(rendezvous, a_rank_that_has_tried_and_was_ready_holds_up_no_round)
{
	struct rd_link_limits limits = { 1000, true, 1, 1 };

	join_only(2);
	rd_participant_tried(net.nodes[0].participant);
	cr_expect_eq(rounds_ended(), 0);
	rd_participant_ready(net.nodes[0].participant, 0, &limits);
	cr_expect_eq(rounds_ended(), 0);
	receive_link_failure(0, 1, 1);
	cr_expect_eq(rounds_ended(), 0);
	rd_participant_tried(net.nodes[1].participant);
	cr_expect_eq(rounds_ended(), 1);
	net_finish();
}

Test(rendezvous, link_failures_without_end_are_invalid_messages)
{
	struct rd_control_message message = { .kind = RD_CONTROL_LINK_FAILED,
		.link_failed = { 0, 1, 1, "", "broken" } };

	join_only(2);
	for (int i = 0; i <= 2 * RD_TRANSPORTS_MAX; i++) {
		snprintf(message.link_failed.transport, sizeof(message.link_failed.transport),
			"t%d", i);
		rd_coordinator_take(net.coordinator, net.nodes[1].connection, &message, net.now_ms);
	}
	net_expect_verdict(RONDO_PROTOCOL, "sent bytes that make no sense");
}
