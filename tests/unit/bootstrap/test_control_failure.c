/* ctest label: threads */
/* Failures and goodbyes of ranks that have met over real sockets. */
#include <criterion/criterion.h>
#include <string.h>

#include "plan/collective.h"
#include "control_ranks.h"

/* ---- Failures later ------------------------------------------------------------------------ */

/* Rank 1 reports a failure, and the others wait for the verdict. */
static int report_in_1(struct control_rank *rank, int error, int culprit, const char *reason)
{
	if (control_join_and_open(rank))
		return rank->error;
	if (rank->rank == 1)
		return control_keep_error(
			rank, rd_control_report(rank->control, error, culprit, reason));
	control_await_verdict(rank);
	return 0;
}

static int abort_in_1(struct control_rank *rank)
{
	return report_in_1(rank, RONDO_REVOKED, -1, "rank 1 gave up: no more coffee");
}

Test(control, an_abort_reaches_everyone, .timeout = 30)
{
	control_prepare(4, abort_in_1);
	control_run(4);
	control_expect(0, 4, RONDO_REVOKED, "rank 1 gave up: no more coffee");
}

static int lacks_memory_in_1(struct control_rank *rank)
{
	return report_in_1(rank, RONDO_MEMORY, 1, "no memory to queue 3 calls");
}

static int lacks_it_with_a_name_in_1(struct control_rank *rank)
{
	return report_in_1(rank, RONDO_MEMORY, 1, "rank 1 has no memory");
}

Test(control, a_lack_of_memory_names_its_rank, .timeout = 30)
{
	control_prepare(3, lacks_memory_in_1);
	control_run(3);
	control_expect(0, 3, RONDO_MEMORY, "rank 1: no memory to queue 3 calls");
	control_prepare(3, lacks_it_with_a_name_in_1);
	control_run(3);
	control_expect(0, 3, RONDO_MEMORY, "rank 1 has no memory");
}

static int vanish_in_2(struct control_rank *rank)
{
	if (control_join_and_open(rank))
		return rank->error;
	if (rank->rank == 2)
		return 0; /* its thread destroys without leaving */
	control_await_verdict(rank);
	return 0;
}

Test(control, a_rank_that_goes_without_a_goodbye_has_died, .timeout = 30)
{
	control_prepare(4, vanish_in_2);
	control_run(4);
	cr_expect_eq(ranks[2].error, 0);
	ranks[2] = ranks[3];
	control_expect(0, 3, RONDO_DIED, "rank 2 (host ");
}

static int blame_2(struct control_rank *rank)
{
	if (control_join_and_open(rank))
		return rank->error;
	if (rank->rank == 2) {
		pthread_barrier_wait(&together);
		return 0;
	}
	pthread_barrier_wait(&together);
	return control_keep_error(rank, rd_control_report(rank->control, RONDO_BROKEN,
						rank->rank == 0 ? 1 : 2, "closed its connection"));
}

Test(control, a_death_goes_before_the_broken_links_it_causes, .timeout = 30)
{
	control_prepare(4, blame_2);
	control_run(4);
	ranks[2] = ranks[3];
	control_expect(0, 3, RONDO_DIED, "rank 2 (host ");
}

static int break_a_link(struct control_rank *rank)
{
	return report_in_1(rank, RONDO_BROKEN, 2, "rank 2 reset its connection");
}

Test(control, where_nobody_died_the_broken_link_is_the_reason, .timeout = 30)
{
	control_prepare(3, break_a_link);
	control_run(3);
	control_expect(0, 3, RONDO_BROKEN, "rank 2 reset its connection (seen by rank 1)");
}

/* Rank 1 does not join call #2, and rank 0 reports a timeout. */
static int idle_in_1(struct control_rank *rank)
{
	if (control_join_and_open(rank))
		return rank->error;
	atomic_store(&rank->activity.collective, RD_ALL_REDUCE);
	atomic_store(&rank->activity.calls, rank->rank == 1 ? 1 : 2);
	atomic_store(&rank->activity.done, 1);
	pthread_barrier_wait(&together);
	if (rank->rank == 0)
		return control_keep_error(rank,
			rd_control_report(rank->control, RONDO_TIMEOUT, 2, "rank 2 was silent"));
	control_await_verdict(rank);
	return 0;
}

Test(control, after_a_timeout_the_rank_that_did_not_join_is_the_reason, .timeout = 30)
{
	control_prepare(3, idle_in_1);
	control_run(3);
	control_expect(0, 3, RONDO_TIMEOUT, "has not joined all_reduce #2 (it has made 1 call)");
}

/* ---- Leaving ------------------------------------------------------------------------------- */

static pthread_mutex_t turn_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn_came = PTHREAD_COND_INITIALIZER;
static int turn;

static void await_turn(const struct control_rank *rank)
{
	pthread_mutex_lock(&turn_lock);
	while (turn < rank->turn)
		pthread_cond_wait(&turn_came, &turn_lock);
	pthread_mutex_unlock(&turn_lock);
}

static void next_turn(void)
{
	pthread_mutex_lock(&turn_lock);
	turn++;
	pthread_cond_broadcast(&turn_came);
	pthread_mutex_unlock(&turn_lock);
}

static int leave_in_turn(struct control_rank *rank)
{
	if (control_join_and_open(rank))
		return rank->error;
	await_turn(rank);
	if (rank->rank == 0) {
		/* It returns once all have left, which must not hold up the turns. */
		next_turn();
		return control_leave(rank);
	}
	control_leave(rank);
	next_turn();
	return rank->error;
}

Test(control, ranks_leave_in_any_order, .timeout = 30)
{
	static const int orders[][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 }, { 1, 2, 0 },
		{ 2, 0, 1 }, { 2, 1, 0 } };

	for (size_t o = 0; o < sizeof(orders) / sizeof(orders[0]); o++) {
		control_prepare(3, leave_in_turn);
		for (int i = 0; i < 3; i++)
			ranks[i].turn = orders[o][i];
		turn = 0;
		control_run(3);
		control_expect(0, 3, 0, "");
	}
}

static int leave_early_in_1(struct control_rank *rank)
{
	if (control_join_and_open(rank))
		return rank->error;
	atomic_store(&rank->activity.collective, RD_BROADCAST);
	atomic_store(&rank->activity.calls, 16);
	atomic_store(&rank->activity.done, 16);
	if (rank->rank == 1)
		return control_leave(rank);
	if (rank->rank == 0)
		atomic_store(&rank->activity.calls, 17);
	control_await_verdict(rank);
	return 0;
}

Test(control, a_call_that_a_leaver_never_made_ends_at_once, .timeout = 30)
{
	control_prepare(3, leave_early_in_1);
	control_run(3);
	cr_expect_eq(ranks[1].error, 0);
	ranks[1] = ranks[2];
	control_expect(0, 2, RONDO_LEFT, "rank 1 (host ");
	control_expect(0, 2, RONDO_LEFT, "left after call #16; rank 0 is in broadcast #17");
}

Test(control, different_calls_are_found_at_the_goodbye, .timeout = 30)
{
	control_prepare(2, control_no_call);
	ranks[1].digest = 1;
	control_run(2);
	cr_expect_eq(ranks[0].error, RONDO_MISMATCH, "%s", ranks[0].reason);
	cr_expect(strstr(ranks[0].reason, "did not make the same calls"), "%s", ranks[0].reason);
}

static int stay_in_1(struct control_rank *rank)
{
	if (control_join_and_open(rank))
		return rank->error;
	if (rank->rank == 0)
		return control_leave(rank);
	control_await_verdict(rank);
	return 0;
}

Test(control, rank_0_does_not_wait_for_ever_to_be_left, .timeout = 30)
{
	control_prepare(2, stay_in_1);
	ranks[0].settings.timeout_ms = 1500;
	control_run(2);
	control_expect(0, 2, RONDO_TIMEOUT, "rank 1 of 2 has not left 1500 ms after rank 0");
}
