/* Ranks that leave alone, calls that a rank had finished before it left or died, silence. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "plan/collective.h"
#include "rendezvous/net.h"

/* In call number `calls`, or between that and the next. */
static void has_made(int rank, uint32_t calls, uint32_t done)
{
	struct rd_activity *activity = &net.nodes[rank].activity;

	atomic_store(&activity->collective, RD_ALL_REDUCE);
	atomic_store(&activity->calls, calls);
	atomic_store(&activity->done, done);
}

static void expect_verdict(int rank, int error, const char *part)
{
	const char *reason;
	int found = rd_participant_verdict(net.nodes[rank].participant, &reason);

	cr_expect_eq(found, error, "rank %d: %s", rank, reason);
	cr_expect(!error || strstr(reason, part), "rank %d: %s", rank, reason);
}

static void meet(int size)
{
	net_meet(size);
	for (int i = 0; i < size; i++)
		has_made(i, 5, 5);
}

/* ---- Deaths ---------------------------------------------------------------------------------- */

/* The verdict waits on rank 3, which is late. */
static void expect_spared(void)
{
	net_run_steps(100);
	expect_verdict(0, RONDO_DIED, "rank 2 (host h2, pid 102) died");
	expect_verdict(1, RONDO_DIED, "rank 2 (host h2, pid 102) died");
	expect_verdict(3, 0, "");
}

static void die_before_rank_3_comes(void)
{
	meet(4);
	has_made(3, 4, 3);
	net.nodes[2].dead = true;
	rd_participant_died(net.nodes[1].participant, 2, 5);
	expect_spared();
}

Test(rendezvous, a_death_spares_calls_that_the_rank_had_finished)
{
	die_before_rank_3_comes();
	has_made(3, 5, 4);
	net_run_steps(20);
	expect_verdict(3, 0, "");
	has_made(3, 6, 5);
	net_run_steps(20);
	expect_verdict(3, RONDO_DIED, "rank 2 (host h2, pid 102) died");
}

Test(rendezvous, a_spared_call_that_fails_has_the_verdict)
{
	die_before_rank_3_comes();
	rd_participant_report(
		net.nodes[3].participant, RONDO_BROKEN, 1, "rank 1 closed it", net.now_ms);
	expect_verdict(3, RONDO_DIED, "rank 2 (host h2, pid 102) died");
}

/* The hosts of these are one. */
static void meet_near(int size, int from, int to)
{
	net_init(size, 3);
	for (int i = 0; i < size; i++) {
		net.nodes[i].idle = true;
		has_made(i, 5, 5);
	}
	for (int i = from; i < to; i++)
		memcpy(net.nodes[i].self.member.place.host_id,
			net.nodes[from].self.member.place.host_id, RD_HOST_SIZE);
	cr_assert(net_run_until(net_all_open));
}

/* With another of its host, so the end of the connection waits for the report. */
static void end_near(void)
{
	meet_near(4, 1, 3);
	has_made(3, 4, 3);
	rd_coordinator_closed(net.coordinator, net.nodes[2].connection, 0, net.now_ms);
	net.nodes[2].connection = -1;
	net.nodes[2].dead = true;
}

Test(rendezvous, the_end_of_a_connection_waits_for_the_report_of_the_death)
{
	end_near();
	cr_expect_eq(net.coordinator_error, 0);
	rd_participant_died(net.nodes[1].participant, 2, 5);
	expect_spared();
}

Test(rendezvous, a_death_that_nobody_reports_spares_no_call)
{
	end_near();
	net_expect_verdict(RONDO_DIED, "rank 2 (host h2, pid 102) died");
}

static void lose_rank_0(int near)
{
	meet_near(3, 0, near);
	has_made(2, 4, 3);
	rd_participant_died(net.nodes[2].participant, 0, 5);
	rd_participant_tick(net.nodes[2].participant, net.now_ms);
}

Test(rendezvous, the_death_of_rank_0_spares_calls_within_a_host)
{
	lose_rank_0(3);
	expect_verdict(2, 0, "");
	has_made(2, 5, 5);
	rd_participant_tick(net.nodes[2].participant, net.now_ms);
	expect_verdict(2, RONDO_DIED, "rank 0 (host h0, pid 100) died");
}

/* Rank 0 broadcast before rank 2 had the costs, without which it makes no call. */
Test(rendezvous, the_death_of_rank_0_spares_no_rank_that_waits_for_the_costs)
{
	lose_rank_0(3);
	expect_verdict(2, 0, "");
	net.nodes[2].participant->awaits_costs = true;
	rd_participant_tick(net.nodes[2].participant, net.now_ms);
	expect_verdict(2, RONDO_DIED, "rank 0 (host h0, pid 100) died");
}

Test(rendezvous, the_death_of_rank_0_spares_none_where_others_do_not_learn_which)
{
	lose_rank_0(2);
	expect_verdict(2, RONDO_DIED, "rank 0 (host h0, pid 100) died");
}

Test(rendezvous, a_spared_call_waits_no_longer_than_a_silent_rank)
{
	struct rd_activity *activity;

	lose_rank_0(3);
	activity = &net.nodes[2].activity;
	atomic_store(&activity->waiting_since_ms, net.now_ms);
	net.now_ms += NET_TIMEOUT_MS - 1;
	atomic_store(&activity->waiting_seen_ms, net.now_ms);
	rd_participant_tick(net.nodes[2].participant, net.now_ms);
	expect_verdict(2, 0, "");
	net.now_ms++;
	rd_participant_tick(net.nodes[2].participant, net.now_ms);
	expect_verdict(2, RONDO_DIED, "rank 0 (host h0, pid 100) died");
}

/* Else its kernel has nothing to be acknowledged, and never finds that the network is gone. */
Test(rendezvous, a_rank_that_hears_nothing_of_rank_0_sends_it_a_heartbeat)
{
	struct rd_participant *participant;
	struct rd_control_message message;

	net_meet(2);
	participant = net.nodes[1].participant;
	while (rd_participant_next(participant, &message))
		;
	rd_participant_beat(participant, 0);
	cr_expect_not(rd_participant_next(participant, &message));
	rd_participant_beat(participant, net.now_ms + 1);
	cr_expect(rd_participant_next(participant, &message));
	cr_expect_eq(message.kind, RD_CONTROL_HEARTBEAT);
}

/* ---- Without rank 0 -------------------------------------------------------------------------- */

/* Rank 0 has left, and its process ends by this errno. Rank 2 is late. */
static void leave_first(int error)
{
	meet(3);
	has_made(2, 4, 3);
	rd_participant_leave(net.nodes[0].participant, 0, net.now_ms);
	net_run_steps(100);
	for (int i = 1; i < 3; i++)
		rd_participant_closed(net.nodes[i].participant, error, net.now_ms);
	rd_participant_tick(net.nodes[2].participant, net.now_ms);
	expect_verdict(2, 0, "");
}

Test(rendezvous, the_end_of_rank_0_is_no_death_once_it_has_left)
{
	leave_first(0);
	has_made(2, 5, 5);
	rd_participant_tick(net.nodes[2].participant, net.now_ms);
	expect_verdict(2, 0, "");
	has_made(2, 6, 5);
	rd_participant_tick(net.nodes[2].participant, net.now_ms);
	expect_verdict(2, RONDO_LEFT, "rank 0 (host h0, pid 100) left after call #5; rank 2 is in");
	rd_participant_leave(net.nodes[1].participant, 0, net.now_ms);
	cr_expect_eq(net.nodes[1].participant->phase, RD_PARTICIPANT_LEFT);
}

Test(rendezvous, without_rank_0_a_rank_judges_alone)
{
	leave_first(0);
	rd_participant_report(
		net.nodes[2].participant, RONDO_BROKEN, 1, "rank 1 closed it", net.now_ms);
	expect_verdict(2, RONDO_BROKEN, "rank 1 closed it");
	rd_participant_died(net.nodes[1].participant, 2, 5);
	expect_verdict(1, RONDO_DIED, "rank 2 (host h2, pid 102) died");
}

Test(rendezvous, without_rank_0_a_network_that_parted_it_is_named)
{
	leave_first(ECONNRESET);
	rd_participant_report(
		net.nodes[2].participant, RONDO_BROKEN, 1, "rank 1 closed it", net.now_ms);
	expect_verdict(2, RONDO_BROKEN,
		"rank 1 closed it; the network had ended the connection to rank 0 (host h0");
}

/* Rank 1 may have left after the last call, which needs nothing of it. */
Test(rendezvous, without_rank_0_a_link_that_failed_ends_the_call_that_waits_for_it)
{
	struct rd_link_failure failed = { .low = 1, .high = 2, .by = 2, .transport = "shm" };
	struct rd_activity *activity = &net.nodes[2].activity;

	leave_first(0);
	strcpy(failed.reason, "closed its connection");
	rd_participant_link_failed(net.nodes[2].participant, &failed);
	atomic_store(&activity->waiting_for, 0);
	atomic_store(&activity->waiting_since_ms, net.now_ms - 5);
	atomic_store(&activity->waiting_seen_ms, net.now_ms);
	rd_participant_tick(net.nodes[2].participant, net.now_ms);
	expect_verdict(2, 0, "");
	atomic_store(&activity->waiting_for, 1);
	rd_participant_tick(net.nodes[2].participant, net.now_ms);
	expect_verdict(2, RONDO_UNREACHABLE, "no link to rank 1 over shm: closed its connection");
}

/* No call waits. */
Test(rendezvous, without_rank_0_a_link_that_failed_ends_the_tagged_message_that_needs_it)
{
	struct rd_link_failure failed = {
		.low = 1, .high = 2, .by = 2, .transport = "shm", .tagged = true
	};

	leave_first(0);
	strcpy(failed.reason, "the driver says no");
	rd_participant_link_failed(net.nodes[2].participant, &failed);
	rd_participant_tick(net.nodes[2].participant, net.now_ms);
	expect_verdict(2, RONDO_UNREACHABLE, "no link to rank 1 over shm: the driver says no");
}

/* ---- The last -------------------------------------------------------------------------------- */

/* All but one leave, in this order of steps. */
static void expect_last(int last, int step)
{
	meet(4);
	for (int i = 1; i < 4; i++) {
		for (int rank = 0; rank < 4; rank++)
			cr_expect_not(net.nodes[rank].participant->others_left, "%d", rank);
		rd_participant_leave(net.nodes[(last + i * step) % 4].participant, 0, net.now_ms);
		net_run_steps(100);
	}
	cr_expect(net.nodes[last].participant->others_left, "%d", last);
	expect_verdict(last, 0, "");
}

Test(rendezvous, the_last_rank_learns_that_all_others_have_left)
{
	for (int last = 0; last < 4; last++) {
		expect_last(last, 1);
		expect_last(last, 3);
	}
}

Test(rendezvous, more_leavers_than_other_ranks_make_no_sense)
{
	uint32_t leavers[] = { 2, UINT32_MAX };

	for (int i = 0; i < 2; i++) {
		struct rd_control_message left = {
			.kind = RD_CONTROL_LEFT, .left.rank = 1, .left.leavers = leavers[i]
		};

		meet(2);
		rd_participant_take(net.nodes[0].participant, &left, net.now_ms);
		cr_expect_not(net.nodes[0].participant->others_left);
		expect_verdict(0, RONDO_PROTOCOL, "sent bytes that make no sense");
	}
}
