/* The verdicts of the coordinator over a simulated network, and the ends of participants. */
#include <criterion/criterion.h>
#include <string.h>

#include "plan/collective.h"
#include "rendezvous/net.h"

static void is_in_call(int rank, uint32_t number, int waiting_for)
{
	struct rd_activity *activity = &net.nodes[rank].activity;

	atomic_store(&activity->collective, RD_ALL_REDUCE);
	atomic_store(&activity->calls, number);
	atomic_store(&activity->done, number - 1);
	atomic_store(&activity->waiting_for, waiting_for);
}

/* This rank has waited for another in call `number` for waited_ms. */
static void waits_for(int rank, uint32_t number, int other, int64_t waited_ms)
{
	struct rd_activity *activity = &net.nodes[rank].activity;

	is_in_call(rank, number, other);
	atomic_store(&activity->waiting_since_ms, net.now_ms - waited_ms);
	atomic_store(&activity->waiting_seen_ms, net.now_ms);
}

/* Each rank waits in call #17 for the next one. */
static void wait_in_circle(void)
{
	for (int i = 0; i < net.size; i++)
		waits_for(i, 17, (i + 1) % net.size, 1000);
}

static void has_made(int rank, uint32_t calls)
{
	is_in_call(rank, calls, -1);
	atomic_store(&net.nodes[rank].activity.done, calls);
}

static void all_have_made(uint32_t calls)
{
	for (int i = 0; i < net.size; i++)
		has_made(i, calls);
}

static void report(int rank, int error, int culprit, const char *reason)
{
	rd_participant_report(net.nodes[rank].participant, error, culprit, reason, net.now_ms);
}

static void leave(int rank, uint64_t digest)
{
	rd_participant_leave(net.nodes[rank].participant, digest, net.now_ms);
}

static void expect_no_verdict(void)
{
	cr_expect_eq(net.coordinator_error, 0, "%s", net.coordinator_reason);
}

static void expect_all_left(void)
{
	expect_no_verdict();
	for (int i = 0; i < net.size; i++)
		cr_expect_eq(net.nodes[i].participant->phase, RD_PARTICIPANT_LEFT);
}

/* Four ranks are in a call, one of them is stopped, and rank 2 reports rank 3. */
static void report_beside_stopped(int stopped, int error, const char *reason)
{
	net_meet(4);
	wait_in_circle();
	net.nodes[stopped].stopped = true;
	report(2, error, 3, reason);
}

Test(rendezvous, after_a_timeout_the_rank_that_does_not_answer_is_the_reason)
{
	report_beside_stopped(1, RONDO_TIMEOUT, "rank 3 was silent");
	net_expect_verdict(RONDO_TIMEOUT,
		"rank 1 (host h1, pid 101) does not answer: stopped or cut off; "
		"rank 2 (host h2, pid 102) waited 1 s for it in all_reduce #17");
}

/* A shrink expects it. One that is merely stopped keeps its links, and is not waited for. */
Test(rendezvous, a_rank_that_does_not_answer_and_whose_link_broke_is_cut_off)
{
	report_beside_stopped(3, RONDO_BROKEN, "rank 3's link broke");
	net_expect_verdict(RONDO_BROKEN,
		"rank 3 (host h3, pid 103) does not answer: cut off; rank 3's link broke (seen by "
		"rank 2)");
	report_beside_stopped(1, RONDO_BROKEN, "rank 3's link broke");
	net_expect_verdict(RONDO_TIMEOUT,
		"rank 1 (host h1, pid 101) does not answer: stopped or cut off; rank 3's link broke");
}

Test(rendezvous, among_two_ranks_that_do_not_answer_the_reported_one_is_the_reason)
{
	net_meet(4);
	for (int i = 0; i < 4; i++)
		is_in_call(i, 17, 3);
	net.nodes[1].stopped = true;
	net.nodes[3].stopped = true;
	report(2, RONDO_TIMEOUT, 3, "rank 3 was silent");
	net_expect_verdict(RONDO_TIMEOUT, "rank 3 (host h3, pid 103) does not answer");
}

Test(rendezvous, after_a_timeout_the_rank_that_has_not_joined_is_the_reason)
{
	net_meet(4);
	wait_in_circle();
	has_made(1, 16);
	report(3, RONDO_TIMEOUT, 0, "rank 0 was silent");
	net_expect_verdict(RONDO_TIMEOUT,
		"rank 1 (host h1, pid 101) has not joined all_reduce #17 (it has made 16 calls); "
		"rank 3 (host h3, pid 103) waited 1 s for it in all_reduce #17");
}

/* Rank 2 reports rank 1, for which it waited for 3500 ms, until ago_ms ago: a call has a bound of
   its own, and a control thread may be late. */
static void report_wait_of(int64_t ago_ms)
{
	net_meet(3);
	wait_in_circle();
	has_made(1, 16);
	waits_for(2, 17, 1, 3500 + ago_ms);
	atomic_fetch_sub(&net.nodes[2].activity.waiting_seen_ms, ago_ms);
	report(2, RONDO_TIMEOUT, 1, "rank 2 waited 3500 ms");
	net_expect_verdict(RONDO_TIMEOUT,
		"(it has made 16 calls); rank 2 (host h2, pid 102) waited 3 s for it in "
		"all_reduce #17");
}

Test(rendezvous, after_a_timeout_the_reason_has_the_length_of_the_wait)
{
	report_wait_of(0);
	report_wait_of(700);
	report_wait_of(1700);
}

Test(rendezvous, a_wait_of_a_device_is_that_of_the_report)
{
	net_meet(3);
	all_have_made(17);
	has_made(1, 16);
	is_in_call(2, 17, 1);
	report(2, RONDO_TIMEOUT, 1, "rank 2's kernel waited 3500 ms for rank 1");
	net_expect_verdict(
		RONDO_TIMEOUT, "(it has made 16 calls); rank 2's kernel waited 3500 ms for rank 1");
}

/* In the coordinator and in each participant: the ranks whose bits are set. */
static void expect_late(unsigned ranks)
{
	for (int rank = 0; rank < net.size; rank++) {
		bool late = ranks >> rank & 1;

		cr_expect_eq(net.coordinator->ranks[rank].late, late, "%d", rank);
		for (int i = 0; i < net.size; i++)
			cr_expect(net.nodes[i].stopped ||
					  rd_participant_is_late(net.nodes[i].participant, rank) ==
						  late,
				"rank %d: of rank %d", i, rank);
	}
}

static void run_until_all_ended(void)
{
	cr_assert(net_run_until(net_all_ended));
}

Test(rendezvous, after_a_timeout_all_ranks_that_have_not_joined_are_late)
{
	net_meet(4);
	wait_in_circle();
	has_made(1, 16);
	has_made(3, 15);
	report(2, RONDO_TIMEOUT, 3, "rank 3 was silent");
	run_until_all_ended();
	expect_late(1 << 1 | 1 << 3);
	net_expect_verdict(RONDO_TIMEOUT,
		"ranks 1 and 3 of 4 have not joined all_reduce #17; rank 3 (host h3, pid 103) has "
		"made 15 calls; rank 2 (host h2, pid 102) waited 1 s for it in all_reduce #17");
}

Test(rendezvous, all_but_one_may_be_late)
{
	net_meet(9);
	all_have_made(16);
	is_in_call(5, 17, 4);
	report(5, RONDO_TIMEOUT, 4, "rank 4 was silent");
	run_until_all_ended();
	expect_late(0x1ff & ~(1 << 5));
	net_expect_verdict(RONDO_TIMEOUT,
		"ranks 0, 1, 2, 3, 4, 6 and 2 more of 9 have not joined all_reduce #17");
}

Test(rendezvous, a_rank_that_waits_in_an_earlier_call_or_does_not_answer_is_not_late)
{
	net_meet(5);
	wait_in_circle();
	is_in_call(0, 16, 2);
	has_made(2, 15);
	has_made(4, 16);
	net.nodes[4].stopped = true;
	report(1, RONDO_TIMEOUT, 2, "rank 2 was silent");
	run_until_all_ended();
	expect_late(1 << 2);
	net_expect_verdict(RONDO_TIMEOUT, "rank 4 (host h4, pid 104) does not answer");
}

Test(rendezvous, the_rank_that_a_transfer_waits_for_is_late)
{
	net_meet(3);
	all_have_made(5);
	atomic_store(&net.nodes[0].activity.waiting_for, 2);
	report(0, RONDO_TIMEOUT, 2, "rank 0 waited 1 s for rank 2");
	run_until_all_ended();
	expect_late(1 << 2);
	net_expect_verdict(RONDO_TIMEOUT, "rank 0 waited 1 s for rank 2");
}

Test(rendezvous, after_a_death_no_rank_is_late)
{
	net_meet(3);
	wait_in_circle();
	has_made(1, 16);
	report(2, RONDO_TIMEOUT, 1, "rank 1 was silent");
	net_kill(&net.nodes[1]);
	run_until_all_ended();
	cr_expect_not(rd_participant_is_late(net.nodes[0].participant, 1));
	net_expect_verdict(RONDO_DIED, "rank 1 (host h1, pid 101) died");
}

/* The comm has nine ranks. */
static int take_stragglers(struct rd_participant *participant, uint32_t first, int bit)
{
	struct rd_control_message message = { .kind = RD_CONTROL_STRAGGLERS,
		.stragglers = { .first = first, .size = RD_STRAGGLERS_SIZE } };
	const char *reason;

	message.stragglers.bits[bit / 8] = (unsigned char)(1 << bit % 8);
	rd_participant_take(participant, &message, net.now_ms);
	return rd_participant_verdict(participant, &reason);
}

Test(rendezvous, a_late_rank_beyond_the_last_makes_no_sense)
{
	struct rd_participant *participant;

	net_meet(9);
	participant = net.nodes[3].participant;
	cr_expect_eq(take_stragglers(participant, 1, 7), 0);
	cr_expect(rd_participant_is_late(participant, 8));
	cr_expect_eq(take_stragglers(participant, 1, 8), RONDO_PROTOCOL);
}

Test(rendezvous, after_a_timeout_a_suspect_that_waits_itself_is_not_the_reason)
{
	net_meet(3);
	is_in_call(0, 16, 2);
	is_in_call(1, 17, 0);
	has_made(2, 15);
	report(1, RONDO_TIMEOUT, 0, "rank 0 was silent");
	net_expect_verdict(RONDO_TIMEOUT,
		"rank 2 (host h2, pid 102) has not joined all_reduce #17 (it has made 15 calls)");
}

Test(rendezvous, after_a_timeout_the_rank_that_waits_for_nobody_is_the_reason)
{
	net_meet(4);
	is_in_call(0, 17, 1);
	is_in_call(1, 17, 2);
	is_in_call(2, 17, -1);
	is_in_call(3, 17, 0);
	report(3, RONDO_TIMEOUT, 0, "rank 0 was silent");
	run_until_all_ended();
	expect_late(1 << 2);
	net_expect_verdict(RONDO_TIMEOUT, "rank 2 (host h2, pid 102) holds up all_reduce #17");
}

/* A rank may leave, and its host go down with its last messages. */
static void wait_for_a_leaver(uint32_t call_of_others)
{
	net_meet(3);
	all_have_made(5);
	leave(2, 0);
	net_run_steps(50);
	is_in_call(1, 5, 2);
	waits_for(0, call_of_others, 1, 600000);
	report(0, RONDO_TIMEOUT, 1, "rank 0 waited 600000 ms for rank 1");
	net_expect_verdict(RONDO_TIMEOUT,
		"rank 1 (host h1, pid 101) waits in all_reduce #5 for rank 2 (host h2, pid 102), "
		"which left after call #5; rank 0 (host h0, pid 100) waited 600 s for it");
}

Test(rendezvous, after_a_timeout_a_rank_that_waits_for_a_leaver_is_no_reason)
{
	wait_for_a_leaver(5);
}

/* The others have gone on to another call, which that rank has not joined. */
Test(rendezvous, after_a_timeout_a_late_rank_that_waits_for_a_leaver_is_no_reason)
{
	wait_for_a_leaver(6);
}

Test(rendezvous, after_a_timeout_without_a_reason_the_report_stands)
{
	net_meet(3);
	wait_in_circle();
	report(2, RONDO_TIMEOUT, 0, "rank 2 heard nothing from rank 0");
	run_until_all_ended();
	expect_late(0);
	net_expect_verdict(RONDO_TIMEOUT, "rank 2 heard nothing from rank 0");
}

Test(rendezvous, a_death_goes_before_the_reports_of_it)
{
	int64_t until_ms;

	net_meet(3);
	report(0, RONDO_BROKEN, 1, "rank 1 closed its connection");
	/* All have answered the coordinator's QUERY long before the connection ends. */
	for (until_ms = net.now_ms + 400; net.now_ms < until_ms;)
		net_run_steps(1);
	net_kill(&net.nodes[2]);
	net_expect_verdict(RONDO_DIED, "rank 2 (host h2, pid 102) died");
}

Test(rendezvous, of_reports_in_a_row_the_last_is_the_reason)
{
	net_meet(4);
	for (int i = 0; i < 3; i++) {
		report(i, RONDO_BROKEN, i + 1, i < 2 ? "closed its connection" : "was reset");
		net_run_steps(20);
	}
	net_expect_verdict(RONDO_BROKEN, "was reset (seen by rank 2)");
}

Test(rendezvous, ranks_that_blame_each_other_are_judged_all_the_same)
{
	net_meet(2);
	report(0, RONDO_BROKEN, 1, "rank 1 closed its connection");
	report(1, RONDO_BROKEN, 0, "rank 0 closed its connection");
	net_expect_verdict(RONDO_BROKEN, "closed its connection (seen by rank");
}

Test(rendezvous, a_broken_link_to_a_leaver_is_a_leave)
{
	net_meet(3);
	all_have_made(5);
	leave(1, 0);
	report(2, RONDO_BROKEN, 1, "rank 1 closed its connection during recv");
	net_expect_verdict(RONDO_LEFT, "rank 1 (host h1, pid 101) left after call #5; "
				       "rank 1 closed its connection during recv");
}

Test(rendezvous, a_call_beyond_a_leavers_is_found_when_it_begins)
{
	net_meet(3);
	all_have_made(5);
	leave(1, 0);
	net_run_steps(50);
	expect_no_verdict();
	is_in_call(2, 6, 1);
	net_expect_verdict(RONDO_LEFT,
		"rank 1 (host h1, pid 101) left after call #5; rank 2 is in all_reduce #6");
}

Test(rendezvous, unequal_goodbyes_are_found)
{
	net_meet(3);
	leave(1, 1);
	net_run_steps(50);
	leave(2, 2);
	net_expect_verdict(RONDO_MISMATCH,
		"rank 1 (host h1, pid 101) and rank 2 (host h2, pid 102) both left after call "
		"#0, but did not make the same calls");
}

Test(rendezvous, a_report_that_nobody_receives_stands_by_itself)
{
	const char *reason;
	int64_t began_ms;

	net_meet(2);
	net.nodes[1].settings.heartbeat_timeout_ms = 20000;
	net.nodes[0].stopped = true;
	report(1, RONDO_MISMATCH, 0, "rank 0 made another call");
	began_ms = net.now_ms;
	cr_assert(net_run_until(net_all_ended));
	cr_expect_leq(net.now_ms, began_ms + RD_REPORT_MS + 1);
	cr_expect_eq(rd_participant_verdict(net.nodes[1].participant, &reason), RONDO_MISMATCH);
	cr_expect_str_eq(reason, "rank 0 made another call");
}

Test(rendezvous, a_call_beyond_a_leavers_names_it_where_nobody_judges)
{
	const char *reason;

	net_meet(2);
	net.nodes[1].settings.heartbeat_timeout_ms = 20000;
	all_have_made(5);
	leave(0, 0);
	net_run_steps(50);
	net.nodes[0].stopped = true;
	is_in_call(1, 6, 1);
	cr_assert(net_run_until(net_all_ended));
	cr_expect_eq(rd_participant_verdict(net.nodes[1].participant, &reason), RONDO_LEFT);
	cr_expect_str_eq(
		reason, "rank 0 (host h0, pid 100) left after call #5; rank 1 is in all_reduce #6");
}

Test(rendezvous, a_goodbye_that_is_never_answered_ends)
{
	struct rd_participant *participant = net_participant();
	struct rd_control_message message = { .kind = RD_CONTROL_HEARTBEAT,
		.heartbeat.timeout_ms = NET_TIMEOUT_MS };
	const char *reason;

	rd_participant_leave(participant, 0, 0);
	/* The other end sends heartbeats, and nothing more. */
	for (int64_t now_ms = 0; now_ms <= NET_TIMEOUT_MS; now_ms += 100) {
		cr_expect_lt(participant->phase, RD_PARTICIPANT_LEFT);
		rd_participant_take(participant, &message, now_ms);
		rd_participant_tick(participant, now_ms);
	}
	cr_expect_eq(rd_participant_verdict(participant, &reason), RONDO_TIMEOUT);
	cr_expect(strstr(reason, "did not answer a goodbye within 1 s"), "%s", reason);
}

static bool is_quiet(void)
{
	for (int i = 0; i < net.size; i++)
		if (net.nodes[i].up.count || net.nodes[i].down.count)
			return false;
	return true;
}

Test(rendezvous, a_process_that_was_stopped_itself_blames_nobody)
{
	net_meet(3);
	cr_assert(net_run_until(is_quiet));
	/* The whole host sleeps for a minute, with no message under way. */
	net.now_ms += 60000;
	net_stop_idling();
	cr_assert(net_run_until(net_all_ended));
	expect_all_left();
}

/* Rank 0 is stopped, and rank 2 gives it up. says: rank 0 receives that, before the end. */
static void hang_up(bool says)
{
	struct rd_participant *participant;
	struct rd_control_message message;

	net_meet(3);
	cr_assert(net_run_until(is_quiet));
	participant = net.nodes[2].participant;
	for (int i = 0; i <= 2 * NET_TIMEOUT_MS / 100; i++)
		rd_participant_tick(participant, net.now_ms + 100 * i);
	cr_assert_eq(participant->phase, RD_PARTICIPANT_FAILED);
	cr_assert(rd_participant_next(participant, &message));
	cr_expect_eq(message.kind, RD_CONTROL_VERDICT);
	if (says)
		rd_coordinator_take(net.coordinator, net.nodes[2].connection, &message, net.now_ms);
	cr_expect_not(rd_participant_next(participant, &message), "it was the last one");
	rd_coordinator_closed(net.coordinator, net.nodes[2].connection, 0, net.now_ms);
	net.nodes[2].connection = -1;
	net.nodes[2].dead = true;
}

Test(rendezvous, a_rank_that_gives_rank_0_up_says_so_and_is_not_taken_for_dead)
{
	hang_up(true);
	net_expect_verdict(RONDO_TIMEOUT,
		"rank 2 (host h2, pid 102) hung up: rank 0 (host h0, pid 100) has not been heard "
		"of for 1 s: stopped or cut off");
	cr_expect_eq(net.coordinator->lost, 2);
	hang_up(false);
	net_expect_verdict(RONDO_DIED, "rank 2 (host h2, pid 102) died");
}

Test(rendezvous, a_death_that_the_kernel_reports_needs_no_closed_connection)
{
	net_meet(3);
	net.nodes[2].dead = true;
	rd_participant_died(net.nodes[1].participant, 2, 0);
	net_expect_verdict(RONDO_DIED, "rank 2 (host h2, pid 102) died");
}

Test(rendezvous, each_rank_finds_the_death_of_rank_0_itself)
{
	const char *reason;

	net_meet(3);
	rd_participant_died(net.nodes[1].participant, 0, 0);
	cr_expect_eq(rd_participant_verdict(net.nodes[1].participant, &reason), RONDO_DIED);
	cr_expect_str_eq(reason, "rank 0 (host h0, pid 100) died");
}

Test(rendezvous, a_rank_that_has_left_may_die)
{
	net_meet(3);
	leave(2, 0);
	net_run_steps(50);
	rd_participant_died(net.nodes[1].participant, 2, 0);
	net_run_steps(50);
	leave(1, 0);
	leave(0, 0);
	net_run_steps(50);
	expect_all_left();
}

Test(rendezvous, a_call_that_waits_for_long_is_looked_into_and_continues)
{
	char text[RD_REASON_SIZE], site[RD_CALL_SITE_SIZE], here[2 * RD_CALL_SITE_SIZE];

	net_meet(4);
	all_have_made(5);
	atomic_store(&net.nodes[0].activity.waits_at, (uintptr_t)is_in_call);
	atomic_store(&net.nodes[1].activity.called_at, (uintptr_t)has_made);
	waits_for(0, 6, 2, 300);
	waits_for(2, 6, 3, 300);
	rd_participant_slow(net.nodes[0].participant, 300, 2, "rank 0 has waited 300 ms");
	/* The first to arrive counts. */
	do
		net_run_steps(1);
	while (net.nodes[0].up.count);
	rd_participant_slow(net.nodes[2].participant, 330, 3, "rank 2 has waited 330 ms");
	net_run_steps(200);
	cr_assert_eq(rd_coordinator_slow_call(net.coordinator, text), 300);
	cr_expect(strstr(text, "ranks 1 and 3 of 4 have not joined all_reduce #6; rank 0 has"),
		"%s", text);
	snprintf(here, sizeof(here), "300 ms at %s;", rd_call_site((uintptr_t)is_in_call, site));
	cr_expect(strstr(text, here), "%s", text);
	snprintf(here, sizeof(here), "(host h1, pid 101) last made all_reduce #5, at %s",
		rd_call_site((uintptr_t)has_made, site));
	cr_expect(strstr(text, here), "%s", text);
	/* Once, until the wait has doubled. */
	rd_participant_slow(net.nodes[0].participant, 400, 2, "rank 0 has waited 400 ms");
	net_run_steps(200);
	cr_expect_not(rd_coordinator_slow_call(net.coordinator, text), "%s", text);
	waits_for(0, 6, 2, 600);
	rd_participant_slow(net.nodes[0].participant, 600, 2, "rank 0 has waited 600 ms");
	net_run_steps(200);
	cr_expect_eq(rd_coordinator_slow_call(net.coordinator, text), 600);
	/* A rank with heartbeats may take longer than heartbeat_timeout_ms. */
	waits_for(0, 6, 2, 3 * NET_TIMEOUT_MS);
	waits_for(2, 6, 3, 3 * NET_TIMEOUT_MS);
	rd_participant_slow(net.nodes[0].participant, 0, 2, "rank 0 has waited 3 s");
	net_run_steps(200);
	expect_no_verdict();
}

Test(rendezvous, ranks_that_wait_for_each_other_are_named)
{
	net_meet(4);
	waits_for(1, 6, 2, 3 * NET_TIMEOUT_MS);
	waits_for(2, 6, 3, 3 * NET_TIMEOUT_MS);
	waits_for(3, 6, 2, 3 * NET_TIMEOUT_MS);
	rd_participant_slow(net.nodes[1].participant, 0, 2, "rank 1 has waited 3000 ms");
	net_expect_verdict(RONDO_TIMEOUT,
		"rank 3 (host h3, pid 103) waited 3 s for rank 2 (host h2, pid 102) in all_reduce "
		"#6: ranks wait for each other, and nothing comes through");
}

Test(rendezvous, ranks_that_have_just_begun_to_wait_are_not)
{
	net_meet(3);
	waits_for(1, 6, 2, NET_TIMEOUT_MS);
	waits_for(2, 6, 1, NET_TIMEOUT_MS / 2);
	rd_participant_slow(net.nodes[1].participant, 0, 2, "rank 1 has waited 1000 ms");
	net_run_steps(100);
	expect_no_verdict();
}
