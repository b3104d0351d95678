/* How ranks join over a simulated network, and which are refused. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/net.h"

Test(rendezvous, missing_ranks_are_named)
{
	net_init(8, 1);
	for (int i = 1; i < 8; i += 2)
		net.nodes[i].dead = true;
	net_expect_verdict(RONDO_TIMEOUT,
		"ranks 1, 3, 5 and 7 of 8 have not come to 10.0.0.1:29500 within 3 s");
}

Test(rendezvous, ranks_that_never_open_their_links_are_named)
{
	net_init(3, 1);
	net.nodes[2].lags = true;
	net_expect_verdict(RONDO_TIMEOUT, "rank 2 of 3 has not opened all links within 3 s");
}

/* One rank's bound ends at each moment around the last READY, which may cross its SLOW: there is a
   verdict, or all go on. */
Test(rendezvous, a_bound_that_ends_while_all_begin_ends_nothing, .timeout = 60)
{
	int late = 0, in_time = 0;

	for (int timeout_ms = 1; timeout_ms <= 600; timeout_ms++) {
		uint32_t calls = 0;

		net_init(3, 1);
		net.nodes[1].settings.init_timeout_ms = timeout_ms;
		cr_assert(net_run_until(net_all_ended));
		for (int i = 0; i < net.size; i++)
			calls += atomic_load(&net.nodes[i].activity.calls);
		cr_expect(calls == 0 || !net.coordinator_error, "%d ms: %s", timeout_ms,
			net.coordinator_reason);
		for (int i = 0; i < net.size; i++)
			cr_expect_eq(net.nodes[i].participant->phase,
				calls ? RD_PARTICIPANT_LEFT : RD_PARTICIPANT_FAILED,
				"%d ms: rank %d", timeout_ms, i);
		late += calls == 0;
		in_time += calls > 0;
	}
	cr_expect(late > 0 && in_time > 0, "%d late, %d in time", late, in_time);
}

Test(rendezvous, another_size_is_refused)
{
	net_init(3, 1);
	net.nodes[2].settings.size = 4;
	net.nodes[2].start_ms += 100;
	net_expect_verdict(RONDO_SETTING,
		"rank 2 (host h2, pid 102) was started with WORLD_SIZE 4, rank 0 (host h0, pid "
		"100) with 3");
}

Test(rendezvous, a_rank_beyond_the_size_is_refused)
{
	net_init(3, 1);
	net.nodes[2].settings.rank = 3;
	net_expect_verdict(RONDO_SETTING, "rank 3 (host h2, pid 102) is not one of 0 to 2");
}

Test(rendezvous, two_of_one_rank_are_refused)
{
	net_init(3, 1);
	net.nodes[2].settings.rank = 1;
	net.nodes[2].start_ms += 100;
	net_expect_verdict(RONDO_SETTING,
		"two processes say they are rank 1: rank 1 (host h1, pid 101) and rank 1 (host "
		"h2, pid 102)");
}

Test(rendezvous, settings_that_differ_are_named)
{
	net_init(2, 1);
	net.nodes[1].settings.channels = 2;
	net.nodes[1].start_ms += 100;
	net_expect_verdict(RONDO_SETTING, "rank 1 (host h1, pid 101) has RONDO_CHANNELS 2, rank 0");
	net_init(2, 1);
	net.nodes[1].settings.algo = "ring";
	net_expect_verdict(RONDO_SETTING, "has RONDO_ALGO \"ring\", rank 0");
	net_init(2, 1);
	strcpy(net.nodes[1].settings.plugins, "star 0a1b2c3d");
	net_expect_verdict(RONDO_SETTING, "has the plug-in algorithms \"star 0a1b2c3d\", rank 0");
}

Test(rendezvous, a_library_of_another_version_is_named)
{
	struct rd_coordinator *coordinator = net_coordinator();
	struct rd_control_message hello = { .kind = RD_CONTROL_HELLO,
		.hello = { .version = RD_WIRE_VERSION,
			.rank = 1,
			.size = 2,
			.library = "0.0.9",
			.channels = 1,
			.piece_size = 4096,
			.identity = net.nodes[1].self } };
	const char *reason;
	int connection = rd_coordinator_open(coordinator, 0);

	hello.hello.digest = rd_settings_digest(&net.nodes[1].settings);
	rd_coordinator_take(coordinator, connection, &hello, 0);
	cr_expect_eq(rd_coordinator_verdict(coordinator, &reason), RONDO_PROTOCOL);
	cr_expect(strstr(reason, "rank 1 (host h1, pid 101) runs Rondo 0.0.9, rank 0 runs "), "%s",
		reason);
}

Test(rendezvous, a_rank_of_an_earlier_version_of_the_protocol_is_named)
{
	struct rd_coordinator *coordinator = net_coordinator();
	struct rd_control_message hello = { .kind = RD_CONTROL_HELLO,
		.hello = { .version = 16, .rank = 1, .size = 2 } };
	char expected[128];
	const char *reason;

	snprintf(expected, sizeof(expected),
		"rank 1 speaks version 16 of the protocol, rank 0 speaks %d: all ranks must run "
		"the same Rondo",
		RD_WIRE_VERSION);
	rd_coordinator_take(coordinator, rd_coordinator_open(coordinator, 0), &hello, 0);
	cr_expect_eq(rd_coordinator_verdict(coordinator, &reason), RONDO_PROTOCOL);
	cr_expect_str_eq(reason, expected);
}

Test(rendezvous, who_comes_after_the_failure_learns_of_it)
{
	net_init(4, 1);
	net.nodes[1].settings.piece_size = 8192;
	net.nodes[3].start_ms += 2000;
	net_expect_verdict(RONDO_SETTING, "has RONDO_PIECE 8192, rank 0");
}

Test(rendezvous, a_failed_gathering_ends_once_the_error_has_reached_all)
{
	net_init(3, 1);
	net.nodes[1].settings.piece_size = 8192;
	net.nodes[2].start_ms += 500;
	while (net.now_ms < net.nodes[2].start_ms) {
		cr_expect(!net.coordinator || !rd_coordinator_over(net.coordinator));
		net_run_steps(1);
	}
	cr_assert(net_run_until(net_all_ended));
	while (net_next_ms() < net.now_ms + 100)
		net_run_steps(1);
	cr_expect(rd_coordinator_over(net.coordinator));
}

/* The verdict of a participant in a comm of two after two TABLEs, which begin with these ranks. */
static int take_tables(uint32_t first, uint32_t second)
{
	struct rd_control_message message = { .kind = RD_CONTROL_TABLE };
	struct rd_table_writer writer = { .parts = NULL };
	struct rd_identity member = { .member.place.pid = 7 };
	struct rd_participant *participant = net_participant();
	struct rd_control_message beat = { .kind = RD_CONTROL_HEARTBEAT };
	const char *reason;
	int error;

	rd_participant_take(participant, &beat, 0);
	cr_assert_eq(rd_table_write(&writer, &member), 0);
	message.table.part = writer.parts[0];
	message.table.part.first = first;
	rd_participant_take(participant, &message, 0);
	message.table.part.first = second;
	rd_participant_take(participant, &message, 0);
	free(writer.parts);
	error = rd_participant_verdict(participant, &reason);
	while (!error && rd_participant_next(participant, &message))
		cr_expect_neq(message.kind, RD_CONTROL_HELLO, "the members are known");
	return error;
}

Test(rendezvous, a_table_that_makes_no_sense_is_refused)
{
	cr_expect_eq(take_tables(0, 1), 0);
	cr_expect_eq(take_tables(1, 0), RONDO_PROTOCOL);
	cr_expect_eq(take_tables(0, 0), RONDO_PROTOCOL);
	cr_expect_eq(take_tables(0, 2), RONDO_PROTOCOL);
}

/* A rank of another version, which learns of the verdict. */
static int open_refused(struct rd_coordinator *coordinator, int64_t now_ms)
{
	struct rd_control_message message = { .kind = RD_CONTROL_HELLO,
		.hello.version = RD_WIRE_VERSION + 1 };
	int refused = rd_coordinator_open(coordinator, now_ms);

	if (refused >= 0)
		rd_coordinator_take(coordinator, refused, &message, now_ms);
	return refused;
}

static void send_verdict(struct rd_coordinator *coordinator, int refused)
{
	struct rd_control_message message;

	cr_assert(rd_coordinator_next(coordinator, refused, &message) &&
		  message.kind == RD_CONTROL_VERDICT);
}

Test(rendezvous, a_refused_rank_is_kept_for_a_short_time)
{
	struct rd_coordinator *coordinator = net_coordinator();
	int refused = open_refused(coordinator, 0);

	for (int64_t now_ms = 0; now_ms < RD_PENDING_MS; now_ms += 100)
		rd_coordinator_tick(coordinator, now_ms);
	cr_expect(!coordinator->connections[refused].dropped);
	rd_coordinator_tick(coordinator, RD_PENDING_MS);
	cr_expect(coordinator->connections[refused].dropped);
}

/* Until a refused rank has received the reason, it is not closed for another. */
Test(rendezvous, the_refused_rank_that_knows_for_longest_goes_first)
{
	struct rd_coordinator *coordinator = net_coordinator();
	int refused[3 * RD_PENDING_MAX], count = 0;

	while ((refused[count] = open_refused(coordinator, 0)) >= 0)
		cr_assert_lt(++count, 2 * RD_PENDING_MAX);
	cr_expect_geq(count, RD_PENDING_MAX);
	cr_expect_eq(rd_coordinator_oldest_refused(coordinator), -1);
	for (int i = count - 1; i >= 0; i--) {
		send_verdict(coordinator, refused[i]);
		cr_assert_eq(rd_coordinator_oldest_refused(coordinator), refused[i]);
	}
	rd_coordinator_closed(coordinator, refused[0], 0, net.now_ms);
	refused[count] = open_refused(coordinator, 0);
	cr_assert_eq(refused[count], refused[0], "its number is free");
	send_verdict(coordinator, refused[count]);
	cr_assert_eq(rd_coordinator_oldest_refused(coordinator), refused[1]);
}

/* Rank 2 cannot take part: its report comes before the others, between them, or last. */
Test(rendezvous, a_rank_that_cannot_take_part_sends_the_reason)
{
	for (int64_t start_ms = 0; start_ms <= 400; start_ms += 100) {
		net_init(4, 1);
		net.nodes[1].start_ms += 100;
		net.nodes[3].start_ms += 300;
		net.nodes[2].start_ms += start_ms;
		net.nodes[2].declines = true;
		net_expect_verdict(RONDO_MEMORY, "rank 2 of 4 could not take part: no memory");
	}
}

Test(rendezvous, rank_0_that_cannot_take_part_sends_the_reason)
{
	net_init(3, 1);
	net.nodes[0].declines = true;
	net.nodes[2].start_ms += 500;
	net_expect_verdict(RONDO_MEMORY, "rank 0 of 3 could not take part: no memory");
}

Test(rendezvous, a_rank_that_is_none_cannot_decline)
{
	static const int ranks[] = { -1, 2, INT32_MAX };
	struct rd_coordinator *coordinator = net_coordinator();
	const char *reason;

	for (int i = 0; i < 3; i++) {
		struct rd_control_message message = { .kind = RD_CONTROL_REPORT,
			.report = { .error = RONDO_MEMORY, .culprit = ranks[i] } };
		int connection = rd_coordinator_open(coordinator, 0);

		rd_coordinator_take(coordinator, connection, &message, 0);
		cr_expect(coordinator->connections[connection].dropped);
	}
	cr_expect_eq(rd_coordinator_verdict(coordinator, &reason), 0);
}

Test(rendezvous, connections_of_others_are_counted_in_the_verdict)
{
	struct rd_coordinator *coordinator = net_coordinator();
	const char *reason;

	coordinator->foreign += 2;
	rd_coordinator_tick(coordinator, net.nodes[0].settings.init_timeout_ms);
	cr_expect_eq(rd_coordinator_verdict(coordinator, &reason), RONDO_TIMEOUT);
	cr_expect(strstr(reason, "2 connections did not prove to be of this job"), "%s", reason);
}

Test(rendezvous, a_foreign_connection_that_sends_invalid_bytes_is_dropped_without_an_answer)
{
	struct rd_coordinator *coordinator = net_coordinator();
	struct rd_control_message message = { .kind = RD_CONTROL_READY };
	int a = rd_coordinator_open(coordinator, 0), b = rd_coordinator_open(coordinator, 0);
	const char *reason;

	rd_coordinator_bad_message(coordinator, a, 0);
	rd_coordinator_take(coordinator, b, &message, 0);
	cr_expect(coordinator->connections[a].dropped && coordinator->connections[b].dropped);
	cr_expect(!rd_coordinator_next(coordinator, a, &message) &&
		  !rd_coordinator_next(coordinator, b, &message));
	cr_expect_eq(rd_coordinator_verdict(coordinator, &reason), 0);
}
