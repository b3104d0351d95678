/* The program of rondo-run: itself, or python with a script. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file_tree.h"
#include "program.h"
#include "text.h"

/* Scripts in a folder, which is then the current one. A python that prints its arguments runs them.
 */
static void make_scripts(void)
{
	char path[128];

	tree_begin();
	tree_put("#!/bin/sh\necho python \"$@\"", "python");
	tree_put("no line with an interpreter", "plain.py");
	tree_put("#!/bin/sh\necho itself \"$@\"", "script.py");
	tree_put("#!/bin/sh\necho itself \"$@\"", "unready.py");
	cr_assert_eq(chdir(tree_root), 0);
	cr_assert_eq(chmod("python", 0755), 0);
	cr_assert_eq(chmod("plain.py", 0755), 0);
	cr_assert_eq(chmod("script.py", 0755), 0);
	snprintf(path, sizeof(path), "%s/python", tree_root);
	setenv("PYTHON_EXEC", path, 1);
	setenv("OMP_NUM_THREADS", "1", 1);
}

TestSuite(run_command, .init = make_scripts, .fini = tree_end);

Test(run_command, python_runs_scripts_that_the_kernel_cannot_execute, .timeout = 30)
{
	static const struct {
		char *arguments[8];
		const char *line;
	} cases[] = {
		{ { "rondo-run", "./script.py", "-x", "1" }, "itself -x 1\n" },
		{ { "rondo-run", "./plain.py", "-x", "1" }, "python -u ./plain.py -x 1\n" },
		{ { "rondo-run", "./unready.py" }, "python -u ./unready.py\n" },
		{ { "rondo-run", "script.py" }, "python -u script.py\n" },
		{ { "rondo-run", "-m", "package.module", "2" }, "python -u -m package.module 2\n" },
		{ { "rondo-run", "--no-python", "./script.py" }, "itself\n" },
		{ { "rondo-run", "--run-path", "--no-python", "plain.py", "3" },
			"runpy.run_path(sys.argv[0], run_name='__main__') plain.py 3\n" },
		{ { "rondo-run", "echo", "plain.py" }, "plain.py\n" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct program run = program_files();

		program_start_with(&run, RONDO_TOOL, (char **)cases[i].arguments);
		program_finish(&run);
		cr_assert_eq(run.status, 0, "%s: status %d", cases[i].line, run.status);
		assert_contains(run.out, cases[i].line);
	}
}

Test(run_command, no_python_leaves_a_script_as_it_is, .timeout = 30)
{
	struct program run = program_files();

	program_run(&run, RONDO_TOOL, "--no-python", "./unready.py", NULL);
	cr_assert_eq(run.status, 126);
	assert_contains(run.err, "rondo-run: cannot run ./unready.py: Permission denied\n");
}

Test(run_command, a_missing_python_is_named, .timeout = 30)
{
	struct program run = program_files();

	setenv("PYTHON_EXEC", "./no-such-python", 1);
	program_run(&run, RONDO_TOOL, "plain.py", NULL);
	cr_assert_eq(run.status, 127);
	assert_contains(
		run.err, "rondo-run: cannot run ./no-such-python: No such file or directory\n");
}

Test(run_command, arguments_get_the_local_rank, .timeout = 30)
{
	struct program run = program_files();

	program_run(&run, RONDO_TOOL, "--nproc-per-node", "2", "echo", "a${local_rank}b",
		"${local_rank}${local_rank}", "$local_rank ${local_rank", NULL);
	assert_contains(run.out, "a0b 00 $local_rank ${local_rank\n");
	assert_contains(run.out, "a1b 11 $local_rank ${local_rank\n");
}
