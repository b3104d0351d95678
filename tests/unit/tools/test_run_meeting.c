/* The meeting of rondo-run's agents, without agents: which nodes it takes in, and their numbers; by
   another host as well; and all that may happen, in random orders. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "meeting_agents.h"

/* ---- Rounds -------------------------------------------------------------------------------- */

Test(run_meeting, starts_when_all_nodes_are_there)
{
	open_meeting(3, 3, 0);
	enter_all(2);
	all_got(0, 2, MESSAGE_WELCOME);
	enter(2);
	for (int id = 0; id < 3; id++) {
		const struct world *world = world_of(id);

		cr_assert_eq(world->node, id);
		cr_assert_eq(world->nodes, 3);
		cr_assert_eq(world->size, 6);
		cr_assert_eq(world->first, 2 * id);
		cr_assert_eq(world->port, 2000);
		cr_assert_eq(world->rondo_port, 3000);
		cr_assert_str_eq(world->address, "10.0.0.0");
		cr_assert_str_eq(world->run_id, "job");
	}
	for (int id = 0; id < 3; id++)
		tell(id, MESSAGE_ENDED);
	all_got(0, 3, GOT_END);
	cr_assert_eq(agents[2].last.stop.status, 0);
}

Test(run_meeting, gives_nodes_the_numbers_that_they_want)
{
	open_meeting(3, 3, 0);
	for (int id = 0; id < 3; id++) {
		struct hello hello = hello_of(id);

		hello.node = id == 1 ? -1 : 2 - id;
		hello.local_size = id + 1;
		greet(id, &hello);
		tell(id, MESSAGE_JOIN);
	}
	cr_assert_eq(world_of(2)->node, 0);
	cr_assert_eq(world_of(1)->node, 1);
	cr_assert_eq(world_of(0)->node, 2);
	cr_assert_eq(world_of(2)->local_size, 3);
	cr_assert_eq(world_of(1)->first, 3);
	cr_assert_eq(world_of(0)->first, 5);
	cr_assert_eq(world_of(0)->size, 6);
	cr_assert_str_eq(world_of(0)->address, "10.0.0.2");
	cr_assert_eq(world_of(0)->port, 2002);
}

Test(run_meeting, waits_for_more_nodes_until_the_last_call)
{
	open_meeting(2, 4, 0);
	enter_all(2);
	wait_ms(2000);
	enter(2);
	cr_assert_eq(meeting_deadline(&meeting), 1000 + 3000);
	wait_ms(999);
	got(0, MESSAGE_WELCOME);
	wait_ms(1);
	cr_assert_eq(world_of(0)->nodes, 3);
}

Test(run_meeting, starts_at_once_with_the_most)
{
	open_meeting(2, 4, 0);
	enter_all(4);
	cr_assert_eq(world_of(3)->nodes, 4);
}

Test(run_meeting, ends_where_too_few_come_and_names_one_that_is_missing)
{
	struct hello hello;

	open_meeting(3, 3, 0);
	for (int id = 0; id < 2; id++) {
		hello = hello_of(id);
		hello.node = 2 * id;
		greet(id, &hello);
		tell(id, MESSAGE_JOIN);
	}
	cr_assert_eq(meeting_deadline(&meeting), 61000);
	wait_ms(60000);
	all_got(0, 2, GOT_END);
	cr_assert_eq(agents[0].last.stop.status, 1);
	cr_assert_str_eq(
		agents[0].last.stop.reason, "2 of 3 nodes came within 60 s, and node 1 did not");
}

/* ---- Refusals ------------------------------------------------------------------------------ */

static void is_refused(int id, const struct hello *hello, const char *part)
{
	greet(id, hello);
	got(id, MESSAGE_REFUSED);
	reason_has(agents[id].last.reason, part);
	/* It sends on, before it reads the answer. */
	tell(id, MESSAGE_JOIN);
	tell(id, MESSAGE_ENDED);
	cr_assert_eq(agents[id].received, 1);
	lose(id);
}

Test(run_meeting, refuses_nodes_that_disagree_and_continues_with_the_others)
{
	struct hello hello;

	open_meeting(2, 2, 3);
	hello = hello_of(0);
	hello.node = 1;
	greet(0, &hello);
	tell(0, MESSAGE_JOIN);

	is_refused(5, &(struct hello){ .version = 1 },
		"host host0 speaks version 3 of rondo-run's messages, and this one version 1");
	hello = hello_of(5);
	strcpy(hello.run_id, "other");
	is_refused(5, &hello, "has the id job, and this one other");
	hello = hello_of(5);
	hello.nodes = 3;
	is_refused(5, &hello, "--nnodes is 2:2 on host host0 and 2:3 here");
	hello = hello_of(5);
	hello.max_restarts = 0;
	is_refused(5, &hello, "--max-restarts is 3 on host host0 and 0 here");
	hello = hello_of(5);
	hello.node = 1;
	is_refused(5, &hello, "--node-rank 1 is that of host host0");
	hello = hello_of(5);
	hello.node = 2;
	is_refused(5, &hello, "--node-rank 2: the 2 nodes count from 0");
	hello = hello_of(5);
	hello.local_size = RANKS_MAX;
	is_refused(5, &hello, "the job would have 65538 ranks");

	hello = hello_of(1);
	hello.node = 0;
	greet(1, &hello);
	tell(1, MESSAGE_JOIN);
	all_got(0, 2, MESSAGE_WORLD);
}

/* ---- Another host --------------------------------------------------------------------------- */

static const struct world last_world = { .attempt = 2, .restarts = 1, .nodes = 4, .node = 1 };

static void take_over(int least, int most, int max_restarts)
{
	open_meeting(least, most, max_restarts);
	meeting_take_over(&meeting, &last_world, now);
}

/* A survivor, whose id says nothing of its order. */
static void survive(int id, int node)
{
	struct hello hello = hello_of(id);

	hello.attempts = 3;
	hello.restarts = 1;
	hello.last_node = node;
	greet(id, &hello);
	tell(id, MESSAGE_JOIN);
}

Test(run_meeting, names_those_that_can_host_it_next)
{
	struct hello hello;

	open_meeting(3, 3, 0);
	enter(0);
	hello = hello_of(1);
	hello.port = 0;
	greet(1, &hello);
	tell(1, MESSAGE_JOIN);
	enter(2);
	cr_assert_eq(agents[1].last.start.candidates.count, 1);
	cr_assert_eq(agents[1].last.start.candidates.list[0].id, 2);
	cr_assert_eq(agents[1].last.start.candidates.list[0].place.port, 1002);
	cr_assert_str_eq(agents[1].last.start.candidates.list[0].place.address, "10.0.0.2");
}

Test(run_meeting, taken_over_waits_for_all_survivors_and_keeps_their_order)
{
	take_over(2, 4, 0);
	survive(0, 1);
	survive(1, 3);
	wait_ms(100);
	got(1, MESSAGE_WELCOME);
	survive(2, 2);
	cr_assert_eq(world_of(0)->node, 0);
	cr_assert_eq(world_of(2)->node, 1);
	cr_assert_eq(world_of(1)->node, 2);
	cr_assert_eq(world_of(1)->attempt, 3);
	cr_assert_eq(world_of(1)->restarts, 1);
}

Test(run_meeting, taken_over_does_not_wait_forever)
{
	take_over(2, 4, 0);
	survive(0, 1);
	survive(1, 3);
	cr_assert_eq(meeting_deadline(&meeting), now + MEETING_RETURN_MS);
	wait_ms(MEETING_RETURN_MS);
	cr_assert_eq(world_of(1)->nodes, 2);
}

Test(run_meeting, taken_over_with_a_fixed_number_counts_a_restart_and_waits_for_a_node)
{
	take_over(4, 4, 3);
	survive(0, 1);
	survive(1, 3);
	survive(2, 2);
	wait_ms(MEETING_RETURN_MS);
	all_got(0, 3, MESSAGE_WELCOME);
	enter(3);
	cr_assert_eq(world_of(3)->restarts, 2);
	cr_assert_eq(world_of(3)->node, 3);
}

/* ---- Random orders of events ---------------------------------------------------------------- */

/* An agent that obeys: the message that it owes the meeting now. */
static enum message_type owed(const struct agent *agent)
{
	switch (agent->last.type) {
	case MESSAGE_WELCOME:
	case MESSAGE_AGAIN:
		return MESSAGE_JOIN;
	case MESSAGE_STOP:
	case MESSAGE_WORLD:
		return MESSAGE_ENDED;
	default:
		return MESSAGE_PING;
	}
}

/* Each message that it owes is sent once. */
static void pay(int id)
{
	enum message_type type = owed(&agents[id]);

	if (!agents[id].connected || type == MESSAGE_PING)
		return;
	agents[id].last.type = MESSAGE_PING;
	tell(id, type);
}

static void disturb(unsigned *seed)
{
	int id = rand_r(seed) % AGENTS;
	struct agent *agent = &agents[id];
	bool runs = agent->connected && agent->last.type == MESSAGE_WORLD;

	switch (rand_r(seed) % 10) {
	case 0:
		if (agent->connected)
			lose(id);
		break;
	case 1:
		if (runs)
			fail(id, 1 + rand_r(seed) % 200, false, rand_r(seed) % 100);
		break;
	case 2:
		if (agent->connected) {
			bool ends = runs || agent->last.type == MESSAGE_STOP;

			leave(id);
			if (ends)
				tell(id, MESSAGE_ENDED);
			lose(id);
		}
		break;
	case 3:
	case 4:
		if (!agent->connected && meeting.state != MEETING_OVER) {
			struct hello hello = hello_of(id);

			hello.attempts = rand_r(seed) % 2 ? rand_r(seed) % 9 : 0;
			hello.last_node = hello.attempts ? rand_r(seed) % 5 : -1;
			hello.node = rand_r(seed) % 8 ? -1 : rand_r(seed) % 5;
			greet(id, &hello);
		}
		break;
	case 5:
		wait_ms(rand_r(seed) % 2000);
		break;
	case 6: { /* out of place */
		static const enum message_type types[] = { MESSAGE_PING, MESSAGE_HELLO,
			MESSAGE_WORLD, MESSAGE_JOIN, MESSAGE_ENDED, MESSAGE_AGAIN };

		if (agent->connected)
			tell(id, types[rand_r(seed) % 6]);
		break;
	}
	default:
		pay(id);
		break;
	}
}

/* Ranks of two attempts never run at once, and a round has as many nodes as are allowed. */
static void check_worlds(void)
{
	int running = 0, attempt = -1;

	for (int id = 0; id < AGENTS; id++)
		if (agents[id].connected && agents[id].last.type == MESSAGE_WORLD) {
			const struct world *world = &agents[id].last.start.world;

			cr_assert(attempt < 0 || world->attempt == attempt);
			cr_assert_leq(world->nodes, meeting.rules.nodes);
			cr_assert_geq(world->nodes, meeting.rules.nodes_min);
			attempt = world->attempt;
			running++;
		}
	cr_assert_leq(running, meeting.rules.nodes);
}

/* Agents that obey, and a clock that continues, bring every meeting to its end. */
static void finish_well(unsigned seed)
{
	for (int step = 0; step < 10000 && meeting.state != MEETING_OVER; step++) {
		int64_t at;

		for (int id = 0; id < AGENTS; id++)
			pay(id);
		check_worlds();
		at = meeting_deadline(&meeting);
		if (at > now)
			now = at;
		meeting_on_clock(&meeting, now);
	}
	cr_assert_eq(
		meeting.state, MEETING_OVER, "seed %u is stuck in state %d", seed, meeting.state);
	for (int id = 0; id < AGENTS; id++)
		if (agents[id].connected && !agents[id].refused)
			got(id, GOT_END);
}

Test(run_meeting, comes_to_its_end_whatever_happens_in_whatever_order, .timeout = 60)
{
	for (unsigned seed = 1; seed <= 1000; seed++) {
		unsigned state = seed;
		int least = 1 + rand_r(&state) % 4, most = least + rand_r(&state) % 3;

		open_meeting(least, most, rand_r(&state) % 20);
		if (rand_r(&state) % 4 == 0)
			meeting_take_over(&meeting, &last_world, now);
		for (int i = 0; i < 600 && meeting.state != MEETING_OVER; i++) {
			disturb(&state);
			check_worlds();
		}
		finish_well(seed);
	}
}
