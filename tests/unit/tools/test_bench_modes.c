/* rondo-bench beside its table: floor, init, --explain and --sweep. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench_run.h"
#include "free_port.h"

Test(bench, the_floor_measures_what_it_promises, .timeout = 300)
{
	static const char *const parts[] = { "cache line, there and back", "copy      ordinary",
		"add      ordinary", "stream of 256K, both ways, each",
		"stream of  64M, both ways, each", "8-byte round trip, polling" };
	struct bench_outcome *outcome = run_bench("floor --quick");

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		cr_skip_test("the floor takes two processors");
	cr_assert_eq(outcome->status, 0, "%s", outcome->text);
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		cr_assert(strstr(outcome->text, parts[i]), "no '%s' in:\n%s", parts[i],
			outcome->text);
	cr_assert_null(strstr(outcome->text, "nan"), "%s", outcome->text);
}

/* The row of the table for so many ranks: create, destroy, and four columns of memory. */
static void read_row(const char *text, int ranks, double row[6])
{
	char head[32];
	const char *at;
	int got;

	snprintf(head, sizeof(head), "\n%8d ", ranks);
	at = strstr(text, head);
	cr_assert_not_null(at, "no row of %d ranks in:\n%s", ranks, text);
	got = sscanf(at + strlen(head), "%lf %lf %lf %lf %lf %lf", &row[0], &row[1], &row[2],
		&row[3], &row[4], &row[5]);
	cr_assert_eq(got, 6, "%s", text);
}

Test(bench, init_prints_the_time_and_the_memory_of_a_comm, .timeout = 120)
{
	struct bench_outcome *outcome = run_bench("init --ranks 2,3 -n 3");
	double row[6];

	cr_assert_eq(outcome->status, 0, "%s", outcome->text);
	for (int ranks = 2; ranks <= 3; ranks++) {
		read_row(outcome->text, ranks, row);
		/* In ms: some to create a comm, and less than a minute. In KiB: at least a page. */
		for (int i = 0; i < 2; i++)
			cr_expect(0 < row[i] && row[i] < 60e3, "%s", outcome->text);
		for (int i = 2; i < 6; i++)
			cr_expect(4 <= row[i] && row[i] < 1 << 20, "%s", outcome->text);
		/* At least some messages of 128 KiB are in the links' buffers. */
		cr_expect(row[5] >= 128, "%s", outcome->text);
	}
	cr_expect(strstr(outcome->text, "# growth: needs 3 numbers of ranks from 16 on"), "%s",
		outcome->text);
}

Test(bench, init_draws_and_fits_what_it_measures, .timeout = 240)
{
	struct bench_outcome *outcome =
		run_bench("init --ranks 16,17,18 -n 1 --transport shm --svg /dev/stdout");

	cr_assert_eq(outcome->status, 0, "%s", outcome->text);
	cr_expect(strstr(outcome->text, "#   memory of another   "), "%s", outcome->text);
	cr_expect(strstr(outcome->text, "</svg>"), "%s", outcome->text);
	outcome = run_bench("init --ranks 2 -n 1 --svg /nowhere/x");
	cr_assert_eq(outcome->status, 1);
	cr_expect(strstr(outcome->text, "cannot write /nowhere/x"), "%s", outcome->text);
}

Test(bench, explain_lists_costs_and_ways_and_one_that_is_chosen, .timeout = 60)
{
	struct bench_outcome *outcome = run_bench("all_reduce --ranks 2 -b 1K -e 1K --explain");
	const char *chosen = strstr(outcome->text, "; chosen, measured ");

	cr_assert_eq(outcome->status, 0, "%s", outcome->text);
	cr_assert(strstr(outcome->text, "#   near_way_ns "), "%s", outcome->text);
	cr_assert(strstr(outcome->text, "#   ring "), "%s", outcome->text);
	cr_assert(chosen && !strstr(chosen + 1, "; chosen"), "%s", outcome->text);
	cr_assert_eq(rows_of(outcome), 1);
}

Test(bench, a_sweep_compares_what_is_chosen_with_the_best, .timeout = 120)
{
	static const char *const collectives[] = { "all_reduce", "alltoall", "broadcast",
		"barrier" };

	for (size_t i = 0; i < sizeof(collectives) / sizeof(*collectives); i++) {
		struct bench_outcome *outcome =
			run_bench("%s --ranks 2 -b 8 -e 512 -f 8 --sweep --quick", collectives[i]);
		int points = strcmp(collectives[i], "barrier") == 0 ? 1 : 3;
		char footer[32];

		snprintf(footer, sizeof(footer), "of %d point%s\n", points, points == 1 ? "" : "s");
		cr_assert_eq(outcome->status, 0, "%s", outcome->text);
		cr_assert_eq(rows_of(outcome), points, "%s", outcome->text);
		cr_assert(strstr(outcome->text, footer), "%s", outcome->text);
	}
}

/* The ranks of rondo-bench: launchers, threads, a signal, and errors that every rank sees. */

Test(bench, processes_that_mpirun_started_are_the_ranks, .timeout = 60)
{
	static const char *const mpis[] = { "OMPI_COMM_WORLD", "PMI" };

	for (int i = 0; i < 2; i++) {
		const char *mpi = mpis[i];
		struct bench_outcome *outcome =
			run_script("export RONDO_PORT=%d %s_SIZE=2; "
				   "%s_RANK=1 '%s' barrier & %s_RANK=0 '%s' barrier && wait $!",
				free_port(), mpi, mpi, RONDO_TOOL, mpi, RONDO_TOOL);

		cr_assert_eq(outcome->status, 0, "%s", outcome->text);
		cr_assert(strstr(outcome->text, "#  Rank  1 Group  0 Pid"), "%s", outcome->text);
		cr_assert_eq(rows_of(outcome), 1, "%s", outcome->text);
	}
}

Test(bench, a_launcher_that_makes_no_sense_is_one_line, .timeout = 30)
{
	static const char *const cases[][2] = {
		{ "WORLD_SIZE=2", "WORLD_SIZE is set, but not RANK: start the program with "
				  "rondo-run or torchrun, or set both" },
		{ "WORLD_SIZE=2 RANK=2", "RANK is 2 but WORLD_SIZE is 2: give a rank from 0 to 1" },
		{ "WORLD_SIZE=2 RANK=x", "RANK is \"x\": give a whole number from 0 to 65535" },
		{ "PMIX_RANK=0", "PMIX_RANK is set, but not WORLD_SIZE: PMIx started this process, "
				 "and each would run alone; set WORLD_SIZE (RANK=0 WORLD_SIZE=1 "
				 "where each is to run alone)" },
		{ "WORLD_SIZE=0 RANK=0",
			"WORLD_SIZE is \"0\": give a whole number from 1 to 65536" },
	};
	char line[256];

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct bench_outcome *outcome =
			run_script("%s '%s' barrier", cases[i][0], RONDO_TOOL);

		cr_assert_eq(outcome->status, 2, "%s", outcome->text);
		snprintf(line, sizeof(line), "rondo-bench: %s (see rondo-bench --help)\n",
			cases[i][1]);
		cr_assert_str_eq(outcome->text, line);
	}
	struct bench_outcome *two =
		run_script("PMI_SIZE=2 PMI_RANK=0 '%s' barrier --ranks 2", RONDO_TOOL);

	cr_assert_eq(two->status, 2);
	cr_assert_str_eq(two->text,
		"rondo-bench: --ranks forks its own ranks, but a launcher (pmi) has started 2 "
		"already; use one of the two (see rondo-bench --help)\n");
}

Test(bench, the_tasks_of_srun_are_one_world_and_an_allocation_is_one_process, .timeout = 60)
{
	struct bench_outcome *outcome = run_script(
		"export SLURM_NTASKS=2 SLURM_NNODES=1 SLURM_JOB_NODELIST=n1 SLURM_JOB_ID=%d; "
		"SLURM_PROCID=1 '%s' barrier -t 2 & SLURM_PROCID=0 '%s' barrier -t 2 && wait $!",
		(int)getpid(), RONDO_TOOL, RONDO_TOOL);

	cr_assert_eq(outcome->status, 0, "%s", outcome->text);
	cr_assert(strstr(outcome->text, "#  Rank  3 Group  0 Pid"), "%s", outcome->text);
	cr_assert_eq(rows_of(outcome), 1, "%s", outcome->text);
	cr_assert_eq(run_script("SLURM_NTASKS=4 '%s' barrier", RONDO_TOOL)->status, 0);
	cr_assert_eq(run_script("SLURM_NTASKS=4 SLURM_PROCID=1 RANK=0 WORLD_SIZE=1 '%s' barrier",
			     RONDO_TOOL)
			     ->status,
		0);
}

/* Starts `rondo-bench all_reduce` for hours in a group of its own, and waits for its first row. */
static pid_t start_long_run(int *out)
{
	char *arguments[] = { "rondo-bench", "all_reduce", "--ranks", "4", "-b", "8", "-e", "8M",
		"-i", "8", "-n", "1000", NULL };
	char text[1 << 16];
	size_t length = 0;
	int ends[2];

	cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
	pid_t child = fork();
	if (child == 0) {
		setpgid(0, 0);
		signal(SIGINT, SIG_DFL); /* a shell's background job ignores it */
		dup2(ends[1], STDOUT_FILENO);
		execv(RONDO_TOOL, arguments);
		_exit(99);
	}
	cr_assert_gt(child, 0);
	close(ends[1]);
	do {
		ssize_t got = read(ends[0], text + length, sizeof(text) - 1 - length);
		cr_assert_gt(got, 0, "it ended early");
		length += (size_t)got;
		text[length] = '\0';
	} while (!strstr(text, "  float  "));
	*out = ends[0];
	return child;
}

/* To the whole group, as a terminal does it; then to the process that forked the ranks alone. */
Test(bench, an_interrupted_run_leaves_no_process, .timeout = 60)
{
	for (int alone = 0; alone < 2; alone++) {
		char text[4096];
		int out, status;
		pid_t child = start_long_run(&out);

		cr_assert_eq(kill(alone ? child : -child, SIGINT), 0);
		cr_assert_eq(waitpid(child, &status, 0), child);
		cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
		/* The pipe ends when the last process that could write to it has. */
		while (read(out, text, sizeof(text)) > 0)
			;
		close(out);
	}
}

Test(bench, an_error_of_every_rank_is_reported_once, .timeout = 30)
{
	static const char *const options[] = { "--ranks 3 --algo bogus",
		"--ranks 2 -t 2 --algo bogus", "-t 3 --algo bogus", "--ranks 3 --device" };

	setenv("RONDO_DEVICE", "none", 1);
	for (int i = 0; i < 4; i++) {
		struct bench_outcome *outcome = run_bench("barrier %s", options[i]);
		char *newline = strchr(outcome->text, '\n');

		cr_assert_eq(outcome->status, 1, "%s", outcome->text);
		cr_assert(newline && newline[1] == '\0', "not one line: %s", outcome->text);
	}
}
