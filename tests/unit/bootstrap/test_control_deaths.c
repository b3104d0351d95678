/* ctest label: threads */
/* Ranks as processes that die or stop, at each step of their life. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control_ranks.h"

/* The result of a forked rank, for its parent. */
struct control_outcome {
	int error;
	char reason[RD_REASON_SIZE];
};

static struct control_outcome *outcomes; /* shared memory */

enum death {
	BEFORE_JOINING,
	WHILE_JOINING,
	BEFORE_READY,
	WHILE_OPENING,
	RUNNING,
	STOPPED,
	RESUMED
};

struct scenario {
	int size, victim;
	enum death death;
	int absent; /* a rank that never connects, so that the others wait; -1: none */
};

static bool dies(const struct control_rank *rank, const struct scenario *scenario, enum death death)
{
	return rank->rank == scenario->victim && scenario->death == death;
}

/* Joins, opens and waits for the verdict, unless the scenario ends it before. */
static void run_scenario(struct control_rank *rank, const struct scenario *scenario)
{
	/* A rank that is not ready keeps the victim waiting. */
	bool lags = scenario->death == WHILE_OPENING &&
		    rank->rank == (scenario->victim + 1) % scenario->size;

	rank->self.member.place.pid = getpid();
	if (dies(rank, scenario, BEFORE_JOINING))
		raise(SIGKILL);
	if (dies(rank, scenario, WHILE_JOINING))
		alarm(3);
	if (control_join(rank))
		return;
	if (dies(rank, scenario, BEFORE_READY))
		raise(SIGKILL);
	if (dies(rank, scenario, WHILE_OPENING))
		alarm(3);
	if (!lags && control_keep_error(rank, control_ready(rank)))
		return;
	if (dies(rank, scenario, RUNNING))
		raise(SIGKILL);
	if (dies(rank, scenario, STOPPED) || dies(rank, scenario, RESUMED))
		raise(SIGSTOP);
	control_await_verdict(rank);
}

static void fork_rank(struct control_rank *rank, pid_t *pid, const struct scenario *scenario)
{
	*pid = fork();
	if (*pid)
		return;
	if (rank->rank != 0)
		close(ranks[0].settings.rendezvous_fd);
	run_scenario(rank, scenario);
	outcomes[rank->rank].error = rank->error;
	memcpy(outcomes[rank->rank].reason, rank->reason, RD_REASON_SIZE);
	rd_control_destroy(rank->control);
	_exit(0);
}

static bool survives(const struct scenario *scenario, int rank)
{
	return rank != scenario->victim && rank != scenario->absent;
}

static void keep_outcome(int from, int to)
{
	ranks[to].error = outcomes[from].error;
	memcpy(ranks[to].reason, outcomes[from].reason, RD_REASON_SIZE);
}

/* Stores the errors of the survivors in ranks[0] and on, behind them that of a victim that
   continues; returns the number of survivors. */
static int run_with_death(struct scenario scenario)
{
	pid_t pids[RANKS_MAX] = { 0 };
	int survivors = 0;

	outcomes = mmap(NULL, sizeof(*outcomes) * RANKS_MAX, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	control_prepare(scenario.size, NULL);
	for (int i = 0; i < scenario.size; i++) {
		if (scenario.death == STOPPED || scenario.death == RESUMED)
			ranks[i].settings.heartbeat_timeout_ms = 3000;
		if (scenario.death == BEFORE_JOINING)
			ranks[i].settings.init_timeout_ms = 3000;
		if (i != scenario.absent)
			fork_rank(&ranks[i], &pids[i], &scenario);
	}
	close(ranks[0].settings.rendezvous_fd);
	for (int i = 0; i < scenario.size; i++)
		if (survives(&scenario, i))
			waitpid(pids[i], NULL, 0);
	kill(pids[scenario.victim], scenario.death == RESUMED ? SIGCONT : SIGKILL);
	waitpid(pids[scenario.victim], NULL, 0);
	for (int i = 0; i < scenario.size; i++) {
		if (survives(&scenario, i))
			keep_outcome(i, survivors++);
	}
	keep_outcome(scenario.victim, survivors);
	munmap(outcomes, sizeof(*outcomes) * RANKS_MAX);
	return survivors;
}

static void expect_scenario(struct scenario scenario, int error, const char *format)
{
	int survivors = run_with_death(scenario);
	char part[64];

	snprintf(part, sizeof(part), format, scenario.victim);
	for (int i = 0; i < survivors; i++) {
		cr_expect_eq(ranks[i].error, error, "%s: %s", rondo_error_name(ranks[i].error),
			ranks[i].reason);
		cr_expect(strstr(ranks[i].reason, part), "\"%s\" lacks \"%s\"", ranks[i].reason,
			part);
	}
}

Test(control, a_rank_killed_while_all_run_is_named_at_once, .timeout = 60)
{
	for (int victim = 0; victim < 4; victim++)
		expect_scenario(
			(struct scenario){ 4, victim, RUNNING, -1 }, RONDO_DIED, "rank %d (host ");
}

Test(control, a_rank_killed_between_meeting_and_opening_is_named, .timeout = 60)
{
	for (int victim = 0; victim < 3; victim++) {
		expect_scenario((struct scenario){ 3, victim, BEFORE_READY, -1 }, RONDO_DIED,
			"rank %d (host ");
		expect_scenario((struct scenario){ 3, victim, WHILE_OPENING, -1 }, RONDO_DIED,
			"rank %d (host ");
	}
}

Test(control, a_rank_killed_while_it_waits_for_others_is_named, .timeout = 60)
{
	expect_scenario((struct scenario){ 4, 2, WHILE_JOINING, 3 }, RONDO_DIED, "rank %d (host ");
	expect_scenario((struct scenario){ 4, 0, WHILE_JOINING, 1 }, RONDO_DIED, "rank %d (at ");
}

Test(control, a_rank_killed_before_it_came_is_missed, .timeout = 60)
{
	expect_scenario((struct scenario){ 3, 2, BEFORE_JOINING, -1 }, RONDO_TIMEOUT,
		"rank %d of 3 has not come to");
	expect_scenario((struct scenario){ 3, 0, BEFORE_JOINING, -1 }, RONDO_UNREACHABLE,
		"no one listens at");
}

Test(control, a_stopped_rank_is_noticed_by_its_silence, .timeout = 60)
{
	for (int victim = 0; victim < 3; victim++)
		expect_scenario((struct scenario){ 3, victim, STOPPED, -1 }, RONDO_TIMEOUT,
			"rank %d (host ");
}

/* The others have given rank 0 up, and have ended. */
Test(control, rank_0_that_continues_after_a_stop_says_so, .timeout = 60)
{
	struct scenario scenario = { 3, 0, RESUMED, -1 };
	int survivors = run_with_death(scenario);
	const struct control_rank *zero = &ranks[survivors];

	cr_assert_eq(survivors, 2);
	for (int i = 0; i < survivors; i++)
		cr_expect(strstr(ranks[i].reason, "has not been heard of for 3 s"), "%s",
			ranks[i].reason);
	cr_expect_eq(zero->error, RONDO_TIMEOUT, "%s", zero->reason);
	cr_expect(strstr(zero->reason, ") hung up: rank 0 (host "), "%s", zero->reason);
	cr_expect(strstr(zero->reason, "has not been heard of for 3 s"), "%s", zero->reason);
}
