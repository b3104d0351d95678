/* How coordinator and participants judge the end of a connection: a failure, a reset, silence. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "rendezvous/net.h"

Test(rendezvous, a_connection_that_fails_is_no_death)
{
	net_meet(3);
	rd_coordinator_closed(net.coordinator, net.nodes[2].connection, EPROTO, net.now_ms);
	net.nodes[2].connection = -1;
	net.nodes[2].dead = true;
	net_expect_verdict(
		RONDO_BROKEN, "the connection to rank 2 (host h2, pid 102) failed: Protocol error");
}

/* The connection of the last of three ranks ends with this errno. with: the rank on whose host it
   is. */
static void end_last(int with, int error)
{
	net_init(3, 3);
	for (int i = 0; i < 3; i++)
		net.nodes[i].idle = true;
	memcpy(net.nodes[2].self.member.place.host_id, net.nodes[with].self.member.place.host_id,
		RD_HOST_SIZE);
	cr_assert(net_run_until(net_all_open));
	rd_coordinator_closed(net.coordinator, net.nodes[2].connection, error, net.now_ms);
	net.nodes[2].connection = -1;
	net.nodes[2].dead = true;
}

Test(rendezvous, a_reset_between_hosts_is_no_death)
{
	end_last(2, ECONNRESET);
	cr_expect_eq(net.coordinator->lost, 2);
	net_expect_verdict(RONDO_BROKEN, "rank 2 (host h2, pid 102) is cut off: the network reset");
	end_last(1, ECONNRESET);
	net_expect_verdict(RONDO_BROKEN, "rank 2 (host h2, pid 102) is cut off: the network reset");
}

Test(rendezvous, a_reset_is_a_death_where_another_rank_of_the_host_reports_it)
{
	end_last(1, ECONNRESET);
	rd_participant_died(net.nodes[1].participant, 2, 0);
	net_expect_verdict(RONDO_DIED, "rank 2 (host h2, pid 102) died");
}

Test(rendezvous, a_reset_behind_an_end_and_an_end_are_deaths)
{
	end_last(1, EPIPE);
	net_expect_verdict(RONDO_DIED, "rank 2 (host h2, pid 102) died");
	end_last(2, 0);
	net_expect_verdict(RONDO_DIED, "rank 2 (host h2, pid 102) died");
}

Test(rendezvous, a_reset_does_not_make_rank_0_dead)
{
	const char *reason;

	net_meet(2);
	rd_participant_closed(net.nodes[1].participant, ECONNRESET, net.now_ms);
	cr_expect_eq(rd_participant_verdict(net.nodes[1].participant, &reason), RONDO_BROKEN);
	cr_expect_str_eq(reason,
		"rank 0 (host h0, pid 100) is cut off: the network reset the connection to it");
}

/* Bytes that rank 0 has not read when it dies would hide its death. */
Test(rendezvous, a_rank_answers_heartbeats_and_sends_few)
{
	struct rd_control_message beat = { .kind = RD_CONTROL_HEARTBEAT }, sent;
	struct rd_participant *participant;

	net_meet(2);
	participant = net.nodes[1].participant;
	beat.heartbeat.timeout_ms = NET_TIMEOUT_MS;
	rd_participant_take(participant, &beat, net.now_ms);
	while (rd_participant_next(participant, &sent))
		;
	for (int i = 0; i < 100; i++) {
		net.now_ms += rd_heartbeat_ms(NET_TIMEOUT_MS) - 1;
		rd_participant_tick(participant, net.now_ms);
		cr_assert_not(rd_participant_next(participant, &sent));
		rd_participant_take(participant, &beat, net.now_ms);
		cr_assert(rd_participant_next(participant, &sent));
		cr_assert_eq(sent.kind, RD_CONTROL_HEARTBEAT);
	}
}

Test(rendezvous, a_report_of_a_broken_link_waits_for_the_end_of_rank_0)
{
	struct rd_control_message sent = { .kind = RD_CONTROL_HEARTBEAT };
	struct rd_participant *participant;

	net_meet(2);
	participant = net.nodes[1].participant;
	rd_participant_report(participant, RONDO_BROKEN, 0, "it broke", net.now_ms);
	rd_participant_tick(participant, net.now_ms + RD_HOLD_MS - 1);
	while (rd_participant_next(participant, &sent))
		cr_assert_eq(sent.kind, RD_CONTROL_HEARTBEAT);
	rd_participant_tick(participant, net.now_ms + RD_HOLD_MS);
	while (sent.kind == RD_CONTROL_HEARTBEAT)
		cr_assert(rd_participant_next(participant, &sent));
	cr_expect_eq(sent.kind, RD_CONTROL_REPORT);
}

Test(rendezvous, a_host_that_sends_no_packet_is_a_timeout)
{
	static const int errors[] = { ETIMEDOUT, EHOSTUNREACH, ENETUNREACH };

	for (int i = 0; i < 3; i++) {
		net_meet(3);
		rd_coordinator_closed(
			net.coordinator, net.nodes[2].connection, errors[i], net.now_ms);
		net.nodes[2].connection = -1;
		net.nodes[2].dead = true;
		net_expect_verdict(RONDO_TIMEOUT,
			"rank 2 (host h2, pid 102) cannot be reached: no packet came from its "
			"host for 1 s");
	}
}
