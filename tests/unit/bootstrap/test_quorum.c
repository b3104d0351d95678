/* The machine of a shrink: deaths at its turns, and votes after a plan whose end a rank does not
   know. The simulation of shrinks (tests/simulation/shrink/) has the rest. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "bootstrap/shrink/quorum.h"

static struct rd_vote vote;
static struct rd_quorum quorum;

/* Rank `rank` of three leads a shrink of itself alone. It has voted for a comm of the first `size`
   ranks before, and takes the others for absent, or dead. */
static void begin(int rank, int size, enum rd_presence others)
{
	static struct rd_settings settings = {
		.size = 3, .init_timeout_ms = 1000, .heartbeat_timeout_ms = 1000
	};
	static struct rd_member members[3];
	enum rd_presence presence[] = { others, others, others };

	settings.rank = rank;
	presence[rank] = RD_PRESENT;
	for (int i = 0; i < 3; i++)
		members[i].lineage.origin = i;
	vote = (struct rd_vote){ size, calloc((size_t)size + 1, sizeof(int)) };
	for (int i = 0; i < size; i++)
		vote.origins[i] = i;
	cr_assert_eq(rd_quorum_init(&quorum, &settings, members, 1, &vote, 1000, presence), 0);
	quorum.leader = rank;
	quorum.planned = 1;
	quorum.lost = others == RD_LOST ? 2 : 0;
}

static void after_a_vote(int rank, int size)
{
	begin(rank, size, RD_LOST);
}

/* Its vote for a comm of itself alone. */
static void expect_vote(int wanted)
{
	int before = vote.size;

	rd_quorum_vote(&quorum, 0, "", NULL, 0);
	cr_expect_eq(quorum.phase, wanted ? RD_QUORUM_FAILED : RD_QUORUM_AGREED);
	cr_expect_eq(quorum.error, wanted);
	if (wanted)
		cr_expect(strstr(quorum.reason, "of them are here, fewer than half"), "%s",
			quorum.reason);
	cr_expect_eq(vote.size, wanted ? before : 0);
}

static void forget(void)
{
	rd_vote_forget(&vote);
	cr_expect_eq(vote.size, 0);
	rd_quorum_free(&quorum);
}

TestSuite(quorum, .fini = forget);

Test(quorum, a_first_plan_gets_it)
{
	after_a_vote(1, 0);
	expect_vote(0);
}

Test(quorum, half_of_the_plan_before_continues_with_its_first_rank)
{
	after_a_vote(0, 2);
	expect_vote(0);
}

Test(quorum, half_of_the_plan_before_continues_nowhere_without_its_first_rank)
{
	after_a_vote(1, 2);
	expect_vote(RONDO_TIMEOUT);
}

/* And it stays so: the others may go on for long. */
Test(quorum, less_than_half_of_the_plan_before_continues_nowhere)
{
	after_a_vote(0, 3);
	expect_vote(RONDO_TIMEOUT);
	expect_vote(RONDO_TIMEOUT);
}

/* It may be called again, and must then know the plan still. */
Test(quorum, a_leader_that_has_not_voted_keeps_the_plan_before)
{
	after_a_vote(0, 3);
	rd_quorum_vote(&quorum, RONDO_BROKEN, "a link broke", NULL, 0);
	cr_expect_eq(quorum.phase, RD_QUORUM_AGAIN);
	rd_quorum_vote(&quorum, RONDO_MEMORY, "no memory", NULL, 0);
	cr_expect_eq(quorum.phase, RD_QUORUM_FAILED);
	cr_expect_eq(quorum.error, RONDO_MEMORY);
	cr_expect_str_eq(quorum.reason, "no memory");
	cr_expect_eq(vote.size, 3);
	expect_vote(RONDO_TIMEOUT);
}

Test(quorum, where_all_others_are_dead_for_certain_one_rank_continues)
{
	begin(2, 3, RD_DEAD);
	expect_vote(0);
}

/* ---- Deaths at a turn ---------------------------------------------------------------------- */

/* Rank `rank` of three, which takes all for alive, and meets them. */
static void meet(int rank)
{
	begin(rank, 0, RD_PRESENT);
	quorum.leader = -1;
	rd_quorum_begin(&quorum, 1000);
	cr_assert_eq(quorum.leader, 0);
}

static void expect_message(int rank, enum rd_control_kind kind)
{
	struct rd_control_message message;

	cr_assert(rd_quorum_next(&quorum, rank, &message, 1000));
	cr_expect_eq(message.kind, kind);
	cr_expect_not(rd_quorum_next(&quorum, rank, &message, 1000));
}

/* A process lives that has left the comm: it is as dead as one that nobody finds. */
Test(quorum, a_leader_that_has_left_has_another_one_follow)
{
	struct rd_control_message left = { .kind = RD_CONTROL_LEFT };

	meet(1);
	rd_quorum_connected(&quorum, 0);
	expect_message(0, RD_CONTROL_GATHER);
	rd_quorum_received(&quorum, 0, &left, 1001);
	cr_expect_eq(quorum.peers[0].standing, RD_DIED);
	cr_expect_eq(quorum.leader, 1);
	cr_expect_eq(quorum.phase, RD_QUORUM_MEETING);
}

Test(quorum, a_member_that_has_left_is_not_waited_for)
{
	struct rd_control_message ask, left = { .kind = RD_CONTROL_LEFT };

	begin(0, 0, RD_PRESENT);
	quorum.leader = -1;
	rd_quorum_begin(&quorum, 1000);
	rd_quorum_tick(&quorum, 1100);
	for (int rank = 1; rank < 3; rank++) {
		cr_assert(quorum.peers[rank].dials);
		rd_quorum_connected(&quorum, rank);
		cr_assert(rd_quorum_next(&quorum, rank, &ask, 1100));
		cr_expect_eq(ask.kind, RD_CONTROL_GATHER);
		cr_expect_eq(ask.gather.origin, -1);
		rd_quorum_received(&quorum, rank, &left, 1101);
		cr_expect_eq(quorum.peers[rank].standing, RD_DIED);
	}
	cr_expect_eq(quorum.phase, RD_QUORUM_COMPLETE);
}

Test(quorum, a_leader_that_dies_while_the_comm_is_made_has_another_one_follow)
{
	struct rd_control_message plan = { .kind = RD_CONTROL_PLAN, .plan = { 1, 3, 7, 0 } };

	meet(1);
	cr_assert(quorum.peers[0].dials);
	rd_quorum_connected(&quorum, 0);
	expect_message(0, RD_CONTROL_GATHER);
	rd_quorum_received(&quorum, 0, &plan, 1001);
	cr_assert_eq(quorum.phase, RD_QUORUM_MAKING);
	cr_expect_eq(quorum.number, 1);
	cr_expect_eq(quorum.port, 7);
	rd_quorum_disconnected(&quorum, 0, 0, 1002);
	cr_assert_eq(quorum.phase, RD_QUORUM_AGAIN);
	cr_expect_not(quorum.peers[0].dials);
	rd_quorum_begin(&quorum, 1003);
	/* It may have lost the connection alone. */
	cr_expect_eq(quorum.leader, 0);
	rd_quorum_disconnected(&quorum, 0, ECONNREFUSED, 1004);
	cr_expect_eq(quorum.leader, 1);
	cr_expect_eq(quorum.phase, RD_QUORUM_MEETING);
}

static void come(int rank)
{
	cr_assert(rd_quorum_arrived(&quorum, rank, 1001));
	expect_message(rank, RD_CONTROL_HEARTBEAT);
}

Test(quorum, a_member_that_leaves_before_the_plan_is_awaited_again)
{
	meet(0);
	come(1);
	come(2);
	cr_assert_eq(quorum.phase, RD_QUORUM_COMPLETE);
	rd_quorum_left(&quorum, 2, 1002);
	cr_expect_eq(quorum.phase, RD_QUORUM_MEETING);
	cr_expect(quorum.peers[2].dials);
	cr_expect_not(quorum.peers[1].dials);
}

Test(quorum, a_member_that_leaves_behind_the_plan_ends_it)
{
	meet(0);
	come(1);
	come(2);
	rd_quorum_propose(&quorum, 7);
	expect_message(1, RD_CONTROL_PLAN);
	rd_quorum_left(&quorum, 2, 1002);
	cr_expect_eq(quorum.phase, RD_QUORUM_AGAIN);
	expect_message(1, RD_CONTROL_VERDICT);
	cr_expect_not(quorum.peers[1].here);
}

/* Its first connection may have been reset without a word. */
Test(quorum, a_member_that_comes_again_is_there_once)
{
	meet(0);
	come(1);
	come(1);
	cr_expect_eq(quorum.phase, RD_QUORUM_MEETING);
	come(2);
	cr_expect_eq(quorum.phase, RD_QUORUM_COMPLETE);
	cr_expect_not(rd_quorum_arrived(&quorum, 2, 1003));
}

/* All votes count, of which a refusal goes first. */
Test(quorum, a_refused_vote_ends_the_quorum_on_all_ranks)
{
	struct rd_control_message failed = { .kind = RD_CONTROL_MADE,
		.made = { RONDO_BROKEN, 0, "a link broke" } };
	struct rd_control_message refused = { .kind = RD_CONTROL_MADE,
		.made = { RONDO_TIMEOUT, 1, "others go on" } };
	struct rd_member members[3] = { 0 };
	struct rd_control_message verdict;

	meet(0);
	come(1);
	come(2);
	rd_quorum_propose(&quorum, 7);
	rd_quorum_vote(&quorum, 0, "", members, 1001);
	rd_quorum_next(&quorum, 1, &verdict, 1001);
	rd_quorum_received(&quorum, 1, &failed, 1002);
	cr_assert_eq(quorum.phase, RD_QUORUM_VOTING);
	rd_quorum_received(&quorum, 2, &refused, 1003);
	cr_expect_eq(quorum.phase, RD_QUORUM_FAILED);
	cr_assert(rd_quorum_next(&quorum, 1, &verdict, 1003));
	cr_expect_eq(verdict.kind, RD_CONTROL_VERDICT);
	cr_expect_eq(verdict.verdict.error, RONDO_TIMEOUT);
	cr_expect_str_eq(verdict.verdict.reason, "others go on");
}
