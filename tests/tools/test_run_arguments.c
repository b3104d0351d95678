/* The command line of rondo-run. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "program.h"
#include "text.h"

Test(run, bad_arguments_get_one_clear_line_and_2, .timeout = 30)
{
	static const struct {
		char *arguments[8];
		const char *line;
	} cases[] = {
		{ { "rondo-run" },
			"rondo-run: which program is to be run? (see rondo-run --help)\n" },
		{ { "rondo-run", "--nproc-per-node", "many", "true" },
			"rondo-run: --nproc-per-node wants a number from 1 to 65536, not 'many' "
			"(see rondo-run --help)\n" },
		{ { "rondo-run", "--nproc-per-node=0", "true" },
			"rondo-run: --nproc-per-node wants a number from 1 to 65536, not '0' "
			"(see rondo-run --help)\n" },
		{ { "rondo-run", "--grace", "5s", "true" },
			"rondo-run: --grace wants a number from 0 to 86400, not '5s' (see "
			"rondo-run --help)\n" },
		{ { "rondo-run", "--nnodes=2", "true" },
			"rondo-run: --nnodes 2 needs --node-rank (see rondo-run --help)\n" },
		{ { "rondo-run", "--nnodes=2", "--node-rank=1", "true" },
			"rondo-run: --nnodes 2 needs --master-addr (see rondo-run --help)\n" },
		{ { "rondo-run", "--nnodes=2", "--node-rank=2", "--master-addr=a", "true" },
			"rondo-run: --node-rank 2: the 2 nodes count from 0 (see rondo-run "
			"--help)\n" },
		{ { "rondo-run", "--standalone", "--nnodes=2", "true" },
			"rondo-run: --standalone goes with no other node, no --master-addr and no "
			"--master-port (see rondo-run --help)\n" },
		{ { "rondo-run", "--frobnicate", "true" },
			"rondo-run: --frobnicate is no option here (see rondo-run --help)\n" },
		{ { "rondo-run", "--npoc-per-node=2", "true" },
			"rondo-run: --npoc-per-node=2 is no option here; did you mean "
			"--nproc-per-node? (see rondo-run --help)\n" },
		{ { "rondo-run", "--tag=yes", "true" },
			"rondo-run: --tag takes no value (see rondo-run --help)\n" },
		{ { "rondo-run", "-x", "true" },
			"rondo-run: -x is no option here (see rondo-run --help)\n" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct program run = program_files();
		char *text;

		program_start_with(&run, RONDO_TOOL, (char **)cases[i].arguments);
		program_finish(&run);
		cr_assert_eq(run.status, 2, "%s: status %d", cases[i].line, run.status);
		text = file_text(run.err);
		cr_assert_str_eq(text, cases[i].line);
		free(text);
	}
}

Test(run, a_missing_program_is_reported_once_as_by_a_shell, .timeout = 30)
{
	struct program run = program_files();
	char *text;

	/* There is no line about threads either. */
	unsetenv("OMP_NUM_THREADS");
	program_run(&run, RONDO_TOOL, "--nproc-per-node", "4", "./no-such-program", NULL);
	cr_assert_eq(run.status, 127);
	text = file_text(run.err);
	cr_assert_str_eq(
		text, "rondo-run: cannot run ./no-such-program: No such file or directory\n");
	free(text);
}

Test(run, what_follows_the_program_is_the_programs, .timeout = 30)
{
	struct program run = program_files();

	program_run(&run, RONDO_TOOL, "echo", "--nproc-per-node", "2", "--help", NULL);
	assert_contains(run.out, "--nproc-per-node 2 --help\n");
}

Test(run, help_and_version_answer, .timeout = 30)
{
	struct program version = program_files();

	for (int i = 0; i < 2; i++) {
		struct program help = program_files();

		program_run(&help, RONDO_TOOL, i ? "-h" : "--help", NULL);
		cr_assert_eq(help.status, 0);
		assert_contains(help.out, "--nproc-per-node N");
	}
	program_run(&version, RONDO_TOOL, "--version", NULL);
	assert_contains(version.out, "rondo-run " RONDO_VERSION "\n");
}
