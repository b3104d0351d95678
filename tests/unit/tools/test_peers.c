/* How a comparison with the peers pairs its samples. */
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <math.h>
#include <sys/wait.h>

/* The comparison is built on the machine where it runs; this is its core. */
#include "bench/peers/samples.c"

static struct comparison read_text(const char *text)
{
	struct comparison comparison;
	FILE *in = fmemopen((void *)text, strlen(text), "r");

	cr_assert(comparison_read(&comparison, in));
	fclose(in);
	return comparison;
}

Test(peers, medians_are_taken_where_all_programs_met_the_cores_at_one_distance)
{
	struct comparison c = read_text("shm 2 rondo all_reduce 8 30 900 0.20 31 900 nan\n"
					"shm 2 rondo all_reduce 8 31 900 0.24 30 900 nan\n"
					"shm 2 rondo all_reduce 8 150 900 0.90 150 900 nan\n"
					"shm 2 rondo all_reduce 8 150 900 0.90 150 900 nan\n"
					"shm 2 rondo all_reduce 8 150 900 0.90 150 900 nan\n"
					"shm 2 openmpi all_reduce 8 32 900 0.40 32 900 nan\n");

	cr_assert_eq(c.count, 1);
	cr_assert_eq(c.points[0].time_us[RONDO], 0.22);
	cr_assert_eq(c.points[0].time_us[OPENMPI], 0.40);
	cr_assert(c.points[0].paired[RONDO] && c.points[0].paired[OPENMPI]);
	cr_assert_eq(point_best_peer(&c.points[0]), OPENMPI);
	comparison_finish(&c);
}

Test(peers, a_sample_during_which_the_cores_moved_does_not_count)
{
	struct comparison c = read_text("shm 2 rondo all_reduce 8 30 900 0.20 30 900 nan\n"
					"shm 2 rondo all_reduce 8 30 900 9.00 60 900 nan\n"
					"shm 2 rondo all_reduce 8 60 900 9.00 30 900 nan\n");

	cr_assert_eq(c.points[0].time_us[RONDO], 0.20);
	comparison_finish(&c);
}

Test(peers, programs_are_compared_where_the_cores_were_equally_fast)
{
	struct comparison c = read_text("tcp 2 rondo all_gather 8 30 1800 8.0 30 1800 nan\n"
					"tcp 2 rondo all_gather 8 30 1800 8.2 30 1800 nan\n"
					"tcp 2 rondo all_gather 8 30 1800 8.2 30 1800 nan\n"
					"tcp 2 rondo all_gather 8 30 900 4.6 30 950 nan\n"
					"tcp 2 mpich all_gather 8 30 950 5.3 30 900 nan\n"
					"tcp 2 mpich all_gather 8 30 900 5.5 30 900 nan\n");

	cr_assert_eq(c.points[0].time_us[RONDO], 4.6);
	cr_assert_eq(c.points[0].time_us[MPICH], 5.4);
	cr_assert_lt(c.points[0].pace_ns, 1000);
	comparison_finish(&c);
}

Test(peers, a_sample_during_which_a_core_slowed_down_does_not_count)
{
	struct comparison c = read_text("tcp 2 rondo all_gather 8 30 900 4.6 30 900 nan\n"
					"tcp 2 rondo all_gather 8 30 900 9.0 30 1800 nan\n"
					"tcp 2 rondo all_gather 8 30 1800 9.0 30 900 nan\n");

	cr_assert_eq(c.points[0].time_us[RONDO], 4.6);
	comparison_finish(&c);
}

Test(peers, a_program_that_was_never_met_at_the_distance_is_marked)
{
	struct comparison c = read_text("tcp 2 openmpi broadcast 8 30 900 5 30 900 nan\n"
					"tcp 2 mpich broadcast 8 30 900 4 30 900 nan\n"
					"tcp 2 gloo broadcast 8 150 900 60 150 900 nan\n");

	cr_assert(c.points[0].paired[OPENMPI] && c.points[0].paired[MPICH]);
	cr_assert_not(c.points[0].paired[GLOO]);
	cr_assert_eq(c.points[0].time_us[GLOO], 60);
	cr_assert_eq(point_best_peer(&c.points[0]), MPICH);
	comparison_finish(&c);
}

Test(peers, the_median_of_the_90th_percentiles_is_taken_at_the_same_distance)
{
	struct comparison c = read_text("shm 2 rondo all_reduce 8 30 900 0.3 30 900 0.5\n"
					"shm 2 rondo all_reduce 8 30 900 0.4 30 900 0.8\n"
					"shm 2 rondo all_reduce 8 30 900 0.5 30 900 0.9\n"
					"shm 2 rondo all_reduce 8 60 900 0.5 60 900 7\n"
					"shm 2 mpich all_reduce 8 30 900 0.6 30 900 nan\n");

	cr_assert_eq(c.points[0].time_us[RONDO], 0.4);
	cr_assert_eq(c.points[0].p90_us[RONDO], 0.8);
	cr_assert(isnan(c.points[0].p90_us[MPICH]));
	comparison_finish(&c);
}

/* The floor's time is there, and a peer's is the best. */
static void expect_best(const char *text, enum program best, enum program floor, double floor_us)
{
	struct comparison c = read_text(text);

	cr_assert_eq(point_best_peer(&c.points[0]), (int)best);
	cr_assert_eq(c.points[0].time_us[floor], floor_us);
	comparison_finish(&c);
}

Test(peers, gloo_that_polls_is_a_peer_and_bare_sockets_are_none)
{
	expect_best("tcp 2 sockets all_reduce 8 30 900 3 30 900 nan\n"
		    "tcp 2 gloo all_reduce 8 30 900 90 30 900 nan\n"
		    "tcp 2 gloo-polling all_reduce 8 30 900 15 30 900 nan\n",
		GLOO_POLLING, SOCKETS, 3);
}

Test(peers, a_bare_exchange_of_lines_is_no_peer)
{
	expect_best("shm 2 line all_reduce 8 30 900 0.1 30 900 nan\n"
		    "shm 2 openmpi-sm all_reduce 8 30 900 0.6 30 900 nan\n"
		    "shm 2 mpich all_reduce 8 30 900 0.7 30 900 nan\n",
		OPENMPI_SM, LINE, 0.1);
}

Test(peers, points_differ_in_transport_ranks_collective_and_size)
{
	struct comparison c = read_text("shm 2 rondo all_reduce 8 30 900 1 30 900 nan\n"
					"tcp 2 rondo all_reduce 8 30 900 1 30 900 nan\n"
					"shm 4 rondo all_reduce 8 30 900 1 30 900 nan\n"
					"shm 2 rondo broadcast 8 30 900 1 30 900 nan\n"
					"shm 2 rondo all_reduce 16 30 900 1 30 900 nan\n"
					"shm 2 rondo all_reduce 8 30 900 1 30 900 nan\n");

	cr_assert_eq(c.count, 5);
	cr_assert_eq(c.points[0].counts[RONDO], 2);
	cr_assert_eq(point_best_peer(&c.points[0]), -1);
	comparison_finish(&c);
}

Test(peers, what_cannot_be_measured_is_refused_before_anything_is, .timeout = 60)
{
	static const char *const words[] = { "--sizes 7x", "--sizes 0", "--worlds shm:1",
		"--worlds ib:2", "--programs nobody", "--rounds x", "--minutes 0",
		"--collectives all_reduced", "--sizes ''", "--bogus", "--sizes", "--gap 5",
		"--gap -1ms", "--gap ''", "--gap 11s", "--walk x" };

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		char command[512], output[512] = "";

		snprintf(command, sizeof(command), "'%s/bench/peers/run' %s 2>&1", RONDO_SOURCE,
			words[i]);
		FILE *pipe = popen(command, "r");
		cr_assert_not_null(pipe);
		output[fread(output, 1, sizeof(output) - 1, pipe)] = '\0';
		int status = pclose(pipe);
		char *newline = strchr(output, '\n');
		cr_assert(
			WIFEXITED(status) && WEXITSTATUS(status) == 1, "%s: %s", words[i], output);
		cr_assert_eq(strncmp(output, "peers: --", 9), 0, "%s: %s", words[i], output);
		cr_assert(newline && !newline[1], "not one line: %s: %s", words[i], output);
	}
}

Test(peers, a_line_that_is_no_sample_is_refused)
{
	static const char *const lines[] = { "shm 2 rondo all_reduce 8 30 1 30 nan\n",
		"shm two rondo all_reduce 8 30 900 1 30 900 nan\n",
		"shm 2 nobody all_reduce 8 30 900 1 30 900 nan\n", "\n" };

	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
		struct comparison comparison;
		FILE *in = fmemopen((void *)lines[i], strlen(lines[i]), "r");
		cr_assert_not(comparison_read(&comparison, in), "%s", lines[i]);
		fclose(in);
	}
}

/* The ranks of a bare loop: one that dies is named, and the others end. */

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
