/* Ranks meet, work and leave over a simulated network, with delays and faults at any moment. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/net.h"

Test(rendezvous, ranks_meet_work_and_part_whatever_the_delays, .timeout = 60)
{
	for (uint32_t seed = 1; seed <= 300; seed++) {
		net_init(1 + (int)(seed % RANKS_MAX), seed);
		net_stagger(500);
		cr_assert(net_run_until(net_all_ended), "seed %u hangs", seed);
		for (int i = 0; i < net.size; i++) {
			cr_assert_eq(net.nodes[i].participant->phase, RD_PARTICIPANT_LEFT,
				"seed %u rank %d: %s", seed, i, net.coordinator_reason);
			cr_assert_eq(net.nodes[i].participant->id.number, 42);
			for (int k = 0; k < net.size; k++)
				cr_assert_eq(
					net.nodes[i].participant->members[k].place.pid, 100 + k);
		}
		cr_assert(rd_coordinator_decided(net.coordinator));
	}
}

/* One run for each event of the run without a fault: the victim gets the fault just then. */
static void run_every_moment(int size, int victim, enum fault fault)
{
	bool fault_came = true;

	for (uint64_t moment = 0; fault_came; moment++) {
		char what[64];
		snprintf(what, sizeof(what), "%d ranks, %d has fault %d at event %llu", size,
			victim, fault, (unsigned long long)moment);
		net_init(size, 7);
		net_stagger(100);
		net.victim = victim;
		net.fault = fault;
		net.fault_event = moment;
		cr_assert(net_run_until(net_all_ended), "%s: it hangs", what);
		fault_came = net.events > moment;
		net_check_survivors(what);
	}
}

Test(rendezvous, a_death_at_any_moment_is_the_same_error_on_all, .timeout = 120)
{
	for (int size = 1; size <= 4; size++)
		for (int victim = 0; victim < size; victim++)
			run_every_moment(size, victim, DIES);
}

Test(rendezvous, a_stop_at_any_moment_is_the_same_error_on_all, .timeout = 120)
{
	for (int size = 2; size <= 4; size++)
		for (int victim = 0; victim < size; victim++)
			run_every_moment(size, victim, STOPS);
}

Test(rendezvous, corruption_at_any_moment_is_the_same_error_on_all, .timeout = 120)
{
	for (int size = 2; size <= 4; size++)
		for (int victim = 1; victim < size; victim++)
			run_every_moment(size, victim, CORRUPTS);
}

Test(rendezvous, a_death_among_fallbacks_is_the_same_error_on_all, .timeout = 120)
{
	for (uint32_t seed = 1; seed <= 300; seed++) {
		net_init(3, seed);
		net.victim = (int)net_draw(3);
		net.fault = DIES;
		net.fault_event = net_draw(120);
		net_break_links();
		cr_assert(net_run_until(net_all_ended), "seed %u hangs", seed);
		net_check_survivors("fallbacks");
	}
}

/* Ranks that come late, leave early, have faults and disagree. True: some may come too late. */
static bool init_chaos(uint32_t seed)
{
	bool late;

	net_init(2 + (int)(seed % (RANKS_MAX - 1)), seed);
	late = net_draw(2);
	net_stagger(late ? 4000 : 200);
	net.delay_ms = net_draw(2) ? 5 : 200;
	net.victim = (int)net_draw((uint32_t)net.size);
	net.fault = (enum fault)net_draw(CORRUPTS);
	net.fault_event = net_draw(400);
	for (int i = 0; i < net.size; i++) {
		net.nodes[i].idle = net_draw(8) == 0;
		net.nodes[i].calls = 3 - (net_draw(16) == 0);
		net.nodes[i].digest = net_draw(16) == 0;
	}
	return late;
}

/* Sometimes a rank reports a random error of a random culprit. */
static void report_at_times(void)
{
	static const int errors[] = { RONDO_BROKEN, RONDO_TIMEOUT, RONDO_MISMATCH, RONDO_REVOKED };
	struct net_node *node = &net.nodes[net_draw((uint32_t)net.size)];

	if (net_draw(300) == 0 && net_acts(node) &&
		node->participant->phase >= RD_PARTICIPANT_JOINED)
		rd_participant_report(node->participant, errors[net_draw(4)],
			(int)net_draw((uint32_t)net.size + 1) - 1, "it says", net.now_ms);
}

Test(rendezvous, nobody_hangs_when_much_goes_wrong, .timeout = 240)
{
	for (uint32_t seed = 1; seed <= 2000; seed++) {
		bool late = init_chaos(seed);
		char what[32];

		snprintf(what, sizeof(what), "seed %u", seed);
		while (!net_all_ended()) {
			int64_t next = net_next_ms();
			cr_assert_leq(next, 1000 + NET_WITHIN_MS, "%s hangs", what);
			if (next > net.now_ms)
				net.now_ms = next;
			if (net.now_ms > NET_WITHIN_MS / 2)
				net_stop_idling();
			net_run_now();
			report_at_times();
		}
		/* A rank that never gets a connection, or no verdict on its report in time, has a
		   reason of its own. */
		if (!late && net.delay_ms <= 5)
			net_check_survivors(what);
	}
}
