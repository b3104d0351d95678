/* The meeting of rondo-run's agents, without agents: ranks fail, and nodes are lost, leave and
   come. */
#include <criterion/criterion.h>

#include "meeting_agents.h"

/* ---- Failures ------------------------------------------------------------------------------ */

Test(run_meeting, starts_again_while_restarts_are_left)
{
	open_meeting(2, 2, 1);
	enter_all(2);
	cr_assert_not(agents[1].last.start.patient);
	fail(1, 3, false, 10);
	all_got(0, 2, MESSAGE_STOP);
	cr_assert_eq(agents[0].last.stop.status, -1);
	cr_assert_not(agents[0].last.stop.at_once);
	cr_assert_eq(agents[0].last.stop.failure.node, 1);
	/* No rank of the next attempt starts before all have ended. */
	tell(1, MESSAGE_ENDED);
	got(1, MESSAGE_STOP);
	come_again(ALL(0));
	tell(1, MESSAGE_JOIN);
	cr_assert_eq(world_of(0)->restarts, 1);
	cr_assert_eq(world_of(1)->attempt, 1);
	/* No restart is left for a node that is silent for a while. */
	cr_assert(agents[1].last.start.patient);

	fail(0, 9, false, 0);
	cr_assert_eq(agents[1].last.stop.status, 9);
	tell(0, MESSAGE_ENDED);
	tell(1, MESSAGE_ENDED);
	all_got(0, 2, GOT_END);
	cr_assert_eq(agents[1].last.stop.status, 9);
	cr_assert_eq(agents[1].last.stop.failure.rank, 0);
}

/* Its ranks end well while STOP is on the way: it answers STOP as well. */
Test(run_meeting, counts_an_end_that_crosses_the_stop_once)
{
	open_meeting(2, 2, 1);
	enter_all(2);
	fail(1, 3, false, 10);
	tell(0, MESSAGE_ENDED);
	all_got(0, 2, MESSAGE_STOP);
	tell(1, MESSAGE_ENDED);
	all_got(0, 2, MESSAGE_AGAIN);
	tell(0, MESSAGE_ENDED);
	tell(0, MESSAGE_JOIN);
	tell(1, MESSAGE_JOIN);
	cr_assert_eq(world_of(0)->restarts, 1);
	all_got(0, 2, MESSAGE_WORLD);
	/* Only now have they ended well. */
	tell(0, MESSAGE_ENDED);
	all_got(0, 2, MESSAGE_WORLD);
	tell(1, MESSAGE_ENDED);
	all_got(0, 2, GOT_END);
	cr_assert_eq(agents[0].last.stop.status, 0);
}

Test(run_meeting, puts_failures_on_its_clock_and_blames_the_first)
{
	open_meeting(3, 3, 0);
	enter_all(3);
	now += 5000;
	fail(1, 1, false, 10);
	fail(2, 7, false, 200);
	for (int id = 0; id < 3; id++)
		tell(id, MESSAGE_ENDED);
	got(0, GOT_END);
	cr_assert_eq(agents[0].last.stop.status, 7);
	cr_assert_eq(agents[0].last.stop.failure.node, 2);
	cr_assert_eq(agents[0].last.stop.failure.after_ms, 4800);
	cr_assert_eq(agents[0].last.stop.failure.at_ms, 1000000 + 1000 + 4800);
}

Test(run_meeting, blames_a_signal_before_an_earlier_exit)
{
	open_meeting(2, 2, 0);
	enter_all(2);
	now += 1000;
	fail(0, 1, false, 500);
	fail(1, 137, true, 0);
	tell(0, MESSAGE_ENDED);
	tell(1, MESSAGE_ENDED);
	cr_assert_eq(agents[0].last.stop.status, 137);
	cr_assert_eq(agents[1].last.stop.failure.rank, 2);
}

Test(run_meeting, ends_with_a_line_where_a_node_of_a_fixed_number_is_lost)
{
	open_meeting(2, 2, 0);
	enter_all(2);
	lose(1);
	got(0, MESSAGE_STOP);
	cr_assert_eq(agents[0].last.stop.status, 1);
	/* It follows from the loss. */
	fail(0, 5, false, 0);
	tell(0, MESSAGE_ENDED);
	got(0, GOT_END);
	cr_assert_eq(agents[0].last.stop.status, 1);
	cr_assert_str_eq(
		agents[0].last.stop.reason, "node 1 (host host1) is lost: Connection timed out");
	cr_assert_eq(agents[0].last.stop.failure.rank, -1);
}

/* The ranks of the others often notice it first. */
Test(run_meeting, blames_a_lost_node_before_the_ranks_that_fail_of_it)
{
	open_meeting(2, 3, 0);
	enter_all(3);
	fail(0, 1, false, 0);
	tell(0, MESSAGE_ENDED);
	tell(1, MESSAGE_ENDED);
	got(0, MESSAGE_STOP);
	lose(2);
	all_got(0, 2, MESSAGE_AGAIN);
	tell(0, MESSAGE_JOIN);
	tell(1, MESSAGE_JOIN);
	cr_assert_eq(world_of(1)->nodes, 2);
	cr_assert_eq(world_of(1)->restarts, 0);
}

Test(run_meeting, waits_for_a_node_in_place_of_a_lost_one_while_restarts_are_left)
{
	struct hello hello;

	open_meeting(2, 2, 1);
	enter_all(2);
	lose(0);
	come_again(ALL(1));
	got(1, MESSAGE_AGAIN);
	wait_ms(30000);
	hello = hello_of(7);
	greet(7, &hello);
	tell(7, MESSAGE_JOIN);
	cr_assert_eq(world_of(1)->restarts, 1);
	/* A survivor keeps its place before newcomers. */
	cr_assert_eq(world_of(1)->node, 0);
	cr_assert_eq(world_of(7)->node, 1);
	cr_assert_str_eq(world_of(7)->address, "10.0.0.1");
}

/* A node that ended its ranks, and is gone then, is lost as well: no restart counts. */
Test(run_meeting, blames_a_node_that_is_lost_after_its_ranks_have_ended)
{
	open_meeting(2, 3, 0);
	enter_all(3);
	fail(0, 1, false, 0);
	tell(2, MESSAGE_ENDED);
	lose(2);
	come_again(ALL(0, 1));
	cr_assert_eq(world_of(0)->restarts, 0);
}

Test(run_meeting, does_not_wait_for_a_node_that_is_lost_before_it_joins_again)
{
	open_meeting(2, 3, 1);
	enter_all(3);
	fail(0, 1, false, 0);
	for (int id = 0; id < 3; id++)
		tell(id, MESSAGE_ENDED);
	tell(0, MESSAGE_JOIN);
	tell(1, MESSAGE_JOIN);
	got(0, MESSAGE_AGAIN);
	lose(2);
	cr_assert_eq(world_of(0)->nodes, 2);
}

/* ---- Nodes that come and go ----------------------------------------------------------------- */

Test(run_meeting, continues_with_fewer_nodes_and_takes_in_new_ones)
{
	open_meeting(2, 4, 0);
	enter_all(4);
	lose(1);
	come_again(ALL(0, 2, 3));
	cr_assert_eq(world_of(2)->node, 1);
	cr_assert_eq(world_of(3)->node, 2);
	cr_assert_eq(world_of(3)->size, 6);
	cr_assert_eq(world_of(3)->restarts, 0);

	enter(8);
	got(8, MESSAGE_WELCOME);
	cr_assert_eq(meeting_deadline(&meeting), now + 100);
	wait_ms(100);
	cr_assert(agents[0].last.stop.at_once);
	cr_assert_str_eq(agents[0].last.stop.reason, "1 more node is here");
	come_again(ALL(0, 2, 3));
	cr_assert_eq(world_of(8)->node, 3);
	cr_assert_eq(world_of(8)->attempt, 2);
}

Test(run_meeting, disturbs_no_full_job_for_a_spare_node)
{
	open_meeting(2, 2, 0);
	enter_all(3);
	got(2, MESSAGE_WELCOME);
	cr_assert(agents[2].last.welcome.spare);
	cr_assert_eq(meeting_deadline(&meeting), 0);
	tell(0, MESSAGE_ENDED);
	tell(1, MESSAGE_ENDED);
	all_got(0, 3, GOT_END);
}

Test(run_meeting, disturbs_no_job_that_is_about_to_end)
{
	open_meeting(2, 4, 0);
	enter_all(2);
	wait_ms(3000);
	tell(0, MESSAGE_ENDED);
	enter(2);
	cr_assert_eq(meeting_deadline(&meeting), 0);
	/* A node whose ranks have ended well is not missed. */
	lose(0);
	got(1, MESSAGE_WORLD);
	tell(1, MESSAGE_ENDED);
	got(1, GOT_END);
	cr_assert_eq(agents[1].last.stop.status, 0);
	got(2, GOT_END);
}

Test(run_meeting, takes_a_spare_node_for_a_lost_one)
{
	open_meeting(2, 2, 1);
	enter_all(3);
	lose(0);
	come_again(ALL(1));
	cr_assert_eq(world_of(1)->node, 0);
	cr_assert_eq(world_of(2)->node, 1);
}

Test(run_meeting, continues_when_a_node_leaves_once_its_ranks_have_ended)
{
	open_meeting(1, 3, 0);
	enter_all(3);
	leave(2);
	all_got(0, 3, MESSAGE_STOP);
	reason_has(agents[0].last.stop.reason, "node 2 (host host2) leaves: Terminated");
	tell(0, MESSAGE_ENDED);
	tell(1, MESSAGE_ENDED);
	got(0, MESSAGE_STOP);
	tell(2, MESSAGE_ENDED);
	all_got(0, 2, MESSAGE_AGAIN);
	tell(0, MESSAGE_JOIN);
	tell(1, MESSAGE_JOIN);
	cr_assert_eq(world_of(1)->nodes, 2);
	lose(2);
	got(1, MESSAGE_WORLD);
}

Test(run_meeting, ends_when_a_node_of_a_fixed_number_leaves_also_while_it_gathers)
{
	open_meeting(2, 2, 5);
	enter_all(2);
	leave(1);
	cr_assert_eq(agents[0].last.stop.status, 143);
	tell(1, MESSAGE_ENDED);
	tell(0, MESSAGE_ENDED);
	got(0, GOT_END);
	cr_assert_eq(agents[0].last.stop.status, 143);

	open_meeting(2, 2, 5);
	enter_all(2);
	fail(0, 1, false, 0);
	tell(0, MESSAGE_ENDED);
	tell(1, MESSAGE_ENDED);
	leave(1);
	got(0, GOT_END);
	reason_has(agents[0].last.stop.reason, "node 1 (host host1) leaves");
}

Test(run_meeting, waits_on_when_a_node_leaves_that_never_ran)
{
	open_meeting(2, 2, 0);
	enter(0);
	enter(1);
	open_meeting(3, 3, 0);
	enter_all(2);
	leave(1);
	got(0, MESSAGE_WELCOME);
	enter(3);
	enter(4);
	cr_assert_eq(world_of(0)->nodes, 3);
}

/* ---- Attempts that end early ---------------------------------------------------------------- */

/* Restarts that cost nothing would come some thirty times a second. */
Test(run_meeting, doubles_the_pause_before_each_restart_up_to_a_minute)
{
	int pause = 0;

	open_meeting(1, 1, 1000);
	enter(0);
	for (int restart = 0; restart < 14; restart++) {
		fail(0, 1, false, 0);
		tell(0, MESSAGE_ENDED);
		got(0, MESSAGE_AGAIN);
		cr_assert_eq(agents[0].last.pause_ms, pause, "restart %d", restart);
		tell(0, MESSAGE_JOIN);
		if (pause) {
			cr_assert_eq(meeting_deadline(&meeting), now + pause);
			wait_ms(pause - 1);
			got(0, MESSAGE_AGAIN);
			wait_ms(1);
		}
		cr_assert_eq(world_of(0)->restarts, restart + 1);
		pause = pause == 0 ? 100 : pause < 30000 ? 2 * pause : 60000;
	}
	/* An attempt that ran for a while begins anew. */
	wait_ms(60000);
	fail(0, 1, false, 0);
	tell(0, MESSAGE_ENDED);
	cr_assert_eq(agents[0].last.pause_ms, 0);
}

/* The survivors of a stop end their ranks, and join again, at once. */
static void follow(int id)
{
	if (agents[id].last.type == MESSAGE_STOP)
		tell(id, MESSAGE_ENDED);
	if (agents[id].last.type == MESSAGE_AGAIN)
		tell(id, MESSAGE_JOIN);
}

Test(run_meeting, continues_beside_a_node_that_dies_again_and_again)
{
	int attempts;

	open_meeting(2, 3, 0);
	enter_all(2);
	wait_ms(3000);
	for (int64_t end = now + 600000; now < end;) {
		enter(2);
		for (int i = 0; i < 15; i++) {
			wait_ms(100);
			follow(0);
			follow(1);
		}
		lose(2);
		follow(0);
		follow(1);
	}
	attempts = world_of(0)->attempt;
	cr_assert_leq(attempts, 12, "%d attempts", attempts);
	cr_assert_eq(world_of(0)->nodes, 2);

	/* One that stays has a place within a minute. */
	enter(40);
	for (int i = 0; i < 602; i++) {
		wait_ms(100);
		follow(0);
		follow(1);
	}
	cr_assert_eq(world_of(40)->nodes, 3);
}

/* In a job of a fixed number, nodes are missing until the newcomer counts. */
Test(run_meeting, takes_a_node_that_has_to_wait_rather_than_give_up)
{
	open_meeting(2, 2, 20);
	meeting.rules.join_ms = 30000;
	enter_all(2);
	for (int restart = 0; restart < 14; restart++) {
		lose(1);
		come_again(ALL(0));
		wait_ms(agents[0].last.pause_ms);
		enter(1);
		for (int i = 0; i < 2 && agents[0].last.type == MESSAGE_AGAIN; i++)
			wait_ms(meeting_deadline(&meeting) - now);
		cr_assert_eq(world_of(0)->restarts, restart + 1);
	}
}

/* As many nodes come as go: each has waited for its minute, and dies at its start. */
Test(run_meeting, ends_a_job_whose_nodes_come_and_go_without_end)
{
	open_meeting(1, 3, 0);
	enter(0);
	wait_ms(3000);
	for (int i = 0; i < 400 && agents[0].last.type != GOT_END; i++) {
		enter(1 + i % 60);
		for (int step = 0; step < 30; step++) {
			wait_ms(100);
			follow(0);
		}
		for (int id = 1; id <= 60; id++)
			if (agents[id].last.type == MESSAGE_WORLD) {
				agents[id].last.type = MESSAGE_PING;
				lose(id);
				follow(0);
			}
	}
	got(0, GOT_END);
	cr_assert_eq(agents[0].last.stop.status, 1);
	reason_has(agents[0].last.stop.reason,
		"100 attempts in a row ended within 60 s because nodes came and went");
}
