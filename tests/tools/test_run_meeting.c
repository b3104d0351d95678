/* The meeting of rondo-run's agents, without agents: the test sends what they send, and has the
   clock. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/nodes/meeting.h"

#define AGENTS 64

/* The agents, as far as the meeting has sent them something. */
static struct agent {
	bool connected;
	struct hello hello;
	struct message last; /* that it got, PING apart */
	int received;
	bool refused;
} agents[AGENTS];

static struct meeting meeting;
static int64_t now = 1000;

static void note(void *context, int id, const struct message *message)
{
	(void)context;
	cr_assert(id >= 0 && id < AGENTS && agents[id].connected, "sends to agent %d", id);
	agents[id].last = *message;
	agents[id].received++;
	agents[id].refused |= message->type == MESSAGE_REFUSED;
}

static struct rules rules_of(int least, int most, int max_restarts)
{
	return (struct rules){ .run_id = "job",
		.host = "host0",
		.nodes_min = least,
		.nodes = most,
		.max_restarts = max_restarts,
		.join_ms = 60000,
		.last_call_ms = 3000,
		.gather_ms = 100,
		.epoch_ms = 1000000,
		.send = note };
}

static void open_meeting(int least, int most, int max_restarts)
{
	struct rules rules = rules_of(least, most, max_restarts);

	now = 1000;
	memset(agents, 0, sizeof(agents));
	meeting_init(&meeting, &rules, 0, now);
}

static struct hello hello_of(int id)
{
	struct hello hello = { .run_id = "job",
		.node = -1,
		.local_size = 2,
		.nodes_min = meeting.rules.nodes_min,
		.nodes = meeting.rules.nodes,
		.max_restarts = meeting.rules.max_restarts,
		.port = 1000 + id,
		.last_node = -1 };

	snprintf(hello.host, sizeof(hello.host), "host%d", id);
	return hello;
}

static void greet(int id, const struct hello *hello)
{
	char address[32];

	agents[id] = (struct agent){ .connected = true, .hello = *hello };
	snprintf(address, sizeof(address), "10.0.0.%d", id);
	meeting_hello(&meeting, id, hello, address, now);
}

static void tell(int id, enum message_type type)
{
	struct message message = { .type = type };

	if (type == MESSAGE_JOIN)
		message.join = (struct join){ .port = 2000 + id, .rondo_port = 3000 + id };
	meeting_take(&meeting, id, &message, now);
}

static void enter(int id)
{
	struct hello hello = hello_of(id);

	greet(id, &hello);
	tell(id, MESSAGE_JOIN);
}

static void enter_all(int count)
{
	for (int id = 0; id < count; id++)
		enter(id);
}

static void lose(int id)
{
	agents[id].connected = false;
	meeting_lose(&meeting, id, "Connection timed out", now);
}

static void fail(int id, int status, bool by_signal, int age_ms)
{
	struct message message = { .type = MESSAGE_FAILED,
		.failed = { .failure = { .rank = 2 * id,
				    .pid = 100 + id,
				    .status = status,
				    .by_signal = by_signal },
			.age_ms = age_ms } };

	meeting_take(&meeting, id, &message, now);
}

static void leave(int id)
{
	struct message message = { .type = MESSAGE_LEAVE,
		.leave = { .status = 143, .reason = "Terminated" } };

	meeting_take(&meeting, id, &message, now);
}

static void wait_ms(int64_t ms)
{
	now += ms;
	meeting_on_clock(&meeting, now);
}

static void got(int id, enum message_type type)
{
	cr_assert_eq(agents[id].last.type, type, "agent %d got %d, not %d", id,
		agents[id].last.type, type);
}

static void all_got(int first, int count, enum message_type type)
{
	for (int id = first; id < first + count; id++)
		got(id, type);
}

static const struct world *world_of(int id)
{
	got(id, MESSAGE_WORLD);
	return &agents[id].last.start.world;
}

/* All ranks end after STOP; then each agent is asked to join again, and does. */
static void come_again(const int *ids, int count)
{
	for (int i = 0; i < count; i++) {
		got(ids[i], MESSAGE_STOP);
		tell(ids[i], MESSAGE_ENDED);
	}
	for (int i = 0; i < count; i++) {
		got(ids[i], MESSAGE_AGAIN);
		tell(ids[i], MESSAGE_JOIN);
	}
}

#define ALL(...) (const int[]){ __VA_ARGS__ }, (int)(sizeof((int[]){ __VA_ARGS__ }) / sizeof(int))

static void reason_has(const char *reason, const char *part)
{
	cr_assert(strstr(reason, part), "'%s' lacks '%s'", reason, part);
}

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
		tell(id, MESSAGE_DONE);
	all_got(0, 3, MESSAGE_END);
	cr_assert_eq(agents[2].last.stop.status, 0);
	meeting_finish(&meeting);
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
	meeting_finish(&meeting);
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
	meeting_finish(&meeting);
}

Test(run_meeting, starts_at_once_with_the_most)
{
	open_meeting(2, 4, 0);
	enter_all(4);
	cr_assert_eq(world_of(3)->nodes, 4);
	meeting_finish(&meeting);
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
	all_got(0, 2, MESSAGE_END);
	cr_assert_eq(agents[0].last.stop.status, 1);
	cr_assert_str_eq(
		agents[0].last.stop.reason, "2 of 3 nodes came within 60 s, and node 1 did not");
	meeting_finish(&meeting);
}

/* ---- Refusals ------------------------------------------------------------------------------ */

static void is_refused(int id, const struct hello *hello, const char *part)
{
	greet(id, hello);
	got(id, MESSAGE_REFUSED);
	reason_has(agents[id].last.reason, part);
	/* It sends on, before it reads the answer. */
	tell(id, MESSAGE_JOIN);
	tell(id, MESSAGE_DONE);
	cr_assert_eq(agents[id].received, 1);
	lose(id);
}

Test(run_meeting, refuses_nodes_that_disagree_and_goes_on_with_the_others)
{
	struct hello hello;

	open_meeting(2, 2, 3);
	hello = hello_of(0);
	hello.node = 1;
	greet(0, &hello);
	tell(0, MESSAGE_JOIN);

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
	meeting_finish(&meeting);
}

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
	all_got(0, 2, MESSAGE_END);
	cr_assert_eq(agents[1].last.stop.status, 9);
	cr_assert_eq(agents[1].last.stop.failure.rank, 0);
	meeting_finish(&meeting);
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
	got(0, MESSAGE_END);
	cr_assert_eq(agents[0].last.stop.status, 7);
	cr_assert_eq(agents[0].last.stop.failure.node, 2);
	cr_assert_eq(agents[0].last.stop.failure.after_ms, 4800);
	cr_assert_eq(agents[0].last.stop.failure.at_ms, 1000000 + 1000 + 4800);
	meeting_finish(&meeting);
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
	meeting_finish(&meeting);
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
	got(0, MESSAGE_END);
	cr_assert_eq(agents[0].last.stop.status, 1);
	cr_assert_str_eq(
		agents[0].last.stop.reason, "node 1 (host host1) is lost: Connection timed out");
	cr_assert_eq(agents[0].last.stop.failure.rank, -1);
	meeting_finish(&meeting);
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
	meeting_finish(&meeting);
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
	meeting_finish(&meeting);
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
	meeting_finish(&meeting);
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
	meeting_finish(&meeting);
}

/* ---- Nodes that come and go ----------------------------------------------------------------- */

Test(run_meeting, goes_on_with_fewer_nodes_and_takes_in_new_ones)
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
	meeting_finish(&meeting);
}

Test(run_meeting, disturbs_no_full_job_for_a_spare_node)
{
	open_meeting(2, 2, 0);
	enter_all(3);
	got(2, MESSAGE_WELCOME);
	cr_assert(agents[2].last.welcome.spare);
	cr_assert_eq(meeting_deadline(&meeting), 0);
	tell(0, MESSAGE_DONE);
	tell(1, MESSAGE_DONE);
	all_got(0, 3, MESSAGE_END);
	meeting_finish(&meeting);
}

Test(run_meeting, disturbs_no_job_that_is_about_to_end)
{
	open_meeting(2, 4, 0);
	enter_all(2);
	wait_ms(3000);
	tell(0, MESSAGE_DONE);
	enter(2);
	cr_assert_eq(meeting_deadline(&meeting), 0);
	/* A node whose ranks have ended well is not missed. */
	lose(0);
	got(1, MESSAGE_WORLD);
	tell(1, MESSAGE_DONE);
	got(1, MESSAGE_END);
	cr_assert_eq(agents[1].last.stop.status, 0);
	got(2, MESSAGE_END);
	meeting_finish(&meeting);
}

Test(run_meeting, takes_a_spare_node_for_a_lost_one)
{
	open_meeting(2, 2, 1);
	enter_all(3);
	lose(0);
	come_again(ALL(1));
	cr_assert_eq(world_of(1)->node, 0);
	cr_assert_eq(world_of(2)->node, 1);
	meeting_finish(&meeting);
}

Test(run_meeting, goes_on_when_a_node_leaves_once_its_ranks_have_ended)
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
	meeting_finish(&meeting);
}

Test(run_meeting, ends_when_a_node_of_a_fixed_number_leaves_also_while_it_gathers)
{
	open_meeting(2, 2, 5);
	enter_all(2);
	leave(1);
	cr_assert_eq(agents[0].last.stop.status, 143);
	tell(1, MESSAGE_ENDED);
	tell(0, MESSAGE_ENDED);
	got(0, MESSAGE_END);
	cr_assert_eq(agents[0].last.stop.status, 143);
	meeting_finish(&meeting);

	open_meeting(2, 2, 5);
	enter_all(2);
	fail(0, 1, false, 0);
	tell(0, MESSAGE_ENDED);
	tell(1, MESSAGE_ENDED);
	leave(1);
	got(0, MESSAGE_END);
	reason_has(agents[0].last.stop.reason, "node 1 (host host1) leaves");
	meeting_finish(&meeting);
}

Test(run_meeting, waits_on_when_a_node_leaves_that_never_ran)
{
	open_meeting(2, 2, 0);
	enter(0);
	enter(1);
	meeting_finish(&meeting);
	open_meeting(3, 3, 0);
	enter_all(2);
	leave(1);
	got(0, MESSAGE_WELCOME);
	enter(3);
	enter(4);
	cr_assert_eq(world_of(0)->nodes, 3);
	meeting_finish(&meeting);
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
	meeting_finish(&meeting);
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
	meeting_finish(&meeting);
}

Test(run_meeting, taken_over_does_not_wait_forever)
{
	take_over(2, 4, 0);
	survive(0, 1);
	survive(1, 3);
	cr_assert_eq(meeting_deadline(&meeting), now + MEETING_RETURN_MS);
	wait_ms(MEETING_RETURN_MS);
	cr_assert_eq(world_of(1)->nodes, 2);
	meeting_finish(&meeting);
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
	meeting_finish(&meeting);
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
		return MESSAGE_ENDED;
	case MESSAGE_WORLD:
		return MESSAGE_DONE;
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
			MESSAGE_WORLD, MESSAGE_JOIN, MESSAGE_DONE, MESSAGE_ENDED, MESSAGE_AGAIN };

		if (agent->connected)
			tell(id, types[rand_r(seed) % 7]);
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

/* Agents that obey, and a clock that goes on, bring every meeting to its end. */
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
			got(id, MESSAGE_END);
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
		meeting_finish(&meeting);
	}
}
