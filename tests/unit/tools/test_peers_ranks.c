/* The ranks of a bare loop: one that dies is named, and the others end. */
#include <criterion/criterion.h>
#include <criterion/redirect.h>

/* A bare loop is built on the machine where it runs; this starts its ranks. */
#include "bench/peers/ranks.c"

/* The rank that dies, or fails; the others wait for a signal. */
struct lot {
	int dead, failed;
};

static int suffer(int rank, void *argument)
{
	const struct lot *lot = argument;

	if (rank == lot->failed)
		return 3;
	if (rank == lot->dead)
		raise(SIGKILL);
	for (;;)
		pause();
}

static int succeed(int rank, void *argument)
{
	(void)argument;
	return rank < 4 ? 0 : 1;
}

static void note_fork(void *argument)
{
	++*(int *)argument;
}

Test(peers_ranks, a_killed_rank_is_named_and_ends_the_others, .timeout = 60)
{
	struct lot lot = { .dead = 2, .failed = -1 };

	cr_redirect_stderr();
	cr_assert_eq(peers_ranks_run("loop", 4, suffer, NULL, &lot), 1);
	fflush(stderr);
	cr_assert_stderr_eq_str("loop: rank 2 was killed: Killed\n");
}

Test(peers_ranks, a_failed_rank_is_named_and_ends_the_others, .timeout = 60)
{
	struct lot lot = { .dead = -1, .failed = 1 };

	cr_redirect_stderr();
	cr_assert_eq(peers_ranks_run("loop", 2, suffer, NULL, &lot), 1);
	fflush(stderr);
	cr_assert_stderr_eq_str("loop: rank 1 failed with status 3\n");
}

Test(peers_ranks, ranks_that_succeed_are_no_failure, .timeout = 60)
{
	int forked = 0;

	cr_assert_eq(peers_ranks_run("loop", 4, succeed, note_fork, &forked), 0);
	cr_assert_eq(forked, 1);
	cr_assert_eq(peers_ranks_run("loop", 5, succeed, note_fork, &forked), 1);
}

Test(peers_ranks, a_wait_ends)
{
	struct peers_wait wait = { .looks = PEERS_LOOKS - 2 };

	cr_assert(!peers_wait_is_over(&wait) && wait.deadline_ns == 0);
	cr_assert(!peers_wait_is_over(&wait) && wait.deadline_ns > 0);
	wait.deadline_ns = 1;
	wait.looks = PEERS_LOOKS - 1;
	cr_assert(peers_wait_is_over(&wait));
}
