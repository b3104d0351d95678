/* The command line of rondo-run. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "program.h"
#include "text.h"
#include "file_tree.h"

struct refusal {
	char *arguments[6]; /* after the name of the program */
	const char *reason;
};

static const struct refusal bad_sizes[] = {
	{ { "--nproc-per-node", "many", "true" },
		"--nproc-per-node wants a number from 1 to 65536, or cpu, gpu or auto, not "
		"'many'" },
	{ { "--nproc-per-node=0", "true" },
		"--nproc-per-node wants a number from 1 to 65536, or cpu, gpu or auto, not '0'" },
	{ { "--nproc-per-node=-1", "true" },
		"--nproc-per-node wants a number from 1 to 65536, or cpu, gpu or auto, not '-1'" },
	{ { "--nproc-per-node=99999999999999999999", "true" },
		"--nproc-per-node wants a number from 1 to 65536, or cpu, gpu or auto, not "
		"'99999999999999999999'" },
	{ { "--nnodes=3:2", "true" }, "--nnodes wants MIN:MAX with MIN up to MAX, not '3:2'" },
	{ { "--nnodes=1:2:3", "true" },
		"--nnodes wants a number from 1 to 65536, or MIN:MAX, not '1:2:3'" },
	{ { "--nnodes=0:2", "true" },
		"--nnodes wants a number from 1 to 65536, or MIN:MAX, not '0:2'" },
	{ { "--nnodes=70000", "true" },
		"--nnodes wants a number from 1 to 65536, or MIN:MAX, not '70000'" },
	{ { "--nnodes=30000", "--nproc=3", "--rdzv-endpoint=a", "true" },
		"30000 nodes of 3 ranks are more than 65536 ranks" },
};

static const struct refusal bad_rendezvous[] = {
	{ { "--rdzv-backend=etcd-v2", "true" },
		"--rdzv-backend etcd-v2 is not supported: c10d needs no server" },
	{ { "--rdzv-backend=c10", "true" }, "--rdzv-backend wants static or c10d, not 'c10'" },
	{ { "--rdzv-endpoint=a:65536", "true" },
		"--rdzv-endpoint wants HOST:PORT with a port from 0 to 65535, not 'a:65536'" },
	{ { "--rdzv-endpoint=:29400", "true" },
		"--rdzv-endpoint wants the name or address of a host, not ':29400'" },
	{ { "--rdzv-endpoint=a:b:c", "true" },
		"--rdzv-endpoint wants the name or address of a host, not 'a:b:c'" },
	{ { "--rdzv-endpoint=[fd00::1", "true" },
		"--rdzv-endpoint wants the name or address of a host, not '[fd00::1'" },
	{ { "--rdzv-endpoint=[fe80::1]:29400", "true" },
		"--rdzv-endpoint wants the interface of a link-local address as well, as "
		"fe80::1%eth0, not 'fe80::1'" },
	{ { "--nnodes=2", "--rdzv-endpoint=a:0", "true" },
		"--nnodes 2 needs a --rdzv-endpoint with a port that all nodes know" },
	{ { "--nnodes=2", "--rdzv-backend=c10d", "true" }, "--nnodes 2 needs --rdzv-endpoint" },
	{ { "--nnodes=2", "--node-rank=0", "--master-addr=a", "--master-port=0", "true" },
		"--nnodes 2 needs a --master-port that all nodes know" },
	{ { "--rdzv-conf=joint_timeout=3", "true" },
		"--rdzv-conf wants keys of torchrun, not 'joint_timeout'; did you mean "
		"join_timeout?" },
	{ { "--rdzv-conf=timeout=3,join_timeout=soon", "true" },
		"--rdzv-conf: join_timeout wants seconds from 0 to 86400, not 'soon'" },
	{ { "--rdzv-conf=timeout", "true" }, "--rdzv-conf: timeout needs the form KEY=VALUE" },
	{ { "--rdzv-conf=timeout=3,", "true" }, "--rdzv-conf: each part needs the form KEY=VALUE" },
	{ { "--rdzv-conf=store_type=file", "true" },
		"--rdzv-conf: store_type wants tcp, not 'file'" },
	{ { "--rdzv-id=a/b", "true" }, "--rdzv-id wants a name without /, not 'a/b'" },
	{ { "--nnodes", "2", "--master-addr", "a b", "true" },
		"--master-addr wants the name or address of a host, not 'a b'" },
	{ { "--nnodes=2", "true" }, "--nnodes 2 needs --node-rank, or --rdzv-endpoint" },
	{ { "--nnodes=2", "--node-rank=1", "true" }, "--nnodes 2 needs --master-addr" },
	{ { "--nnodes=2", "--node-rank=2", "--master-addr=a", "true" },
		"--node-rank 2: the 2 nodes count from 0" },
	{ { "--standalone", "--nnodes=2", "true" },
		"--standalone goes with no other node, no --master-addr and no --master-port" },
};

static const struct refusal bad_values[] = {
	{ { "--max-restarts=-1", "true" },
		"--max-restarts wants a number from 0 to 1000000, not '-1'" },
	{ { "--monitor-interval=nan", "true" },
		"--monitor-interval wants seconds from 0 to 86400, not 'nan'" },
	{ { "--signals-to-handle=SIGTERM,SIGKILL", "true" },
		"--signals-to-handle wants signals that can be passed on, such as "
		"SIGTERM,SIGUSR1, not 'SIGTERM,SIGKILL'" },
	{ { "--start-method=thread", "true" },
		"--start-method wants spawn, fork or forkserver, not 'thread'" },
	{ { "-r", "4", "true" },
		"--redirects wants 0, 1 (stdout), 2 (stderr) or 3 (both), or LOCAL_RANK:STREAMS,..., "
		"not '4'" },
	{ { "-t0:1,1", "true" },
		"--tee wants 0, 1 (stdout), 2 (stderr) or 3 (both), or LOCAL_RANK:STREAMS,..., "
		"not '0:1,1'" },
	{ { "--local-ranks-filter=0,", "true" },
		"--local-ranks-filter wants local ranks with commas between them, not '0,'" },
	{ { "--bind=sockets", "true" }, "--bind wants cores, numa or none, not 'sockets'" },
	{ { "-m", "--no-python", "true" }, "--module goes without --no-python and --run-path" },
	{ { "--grace", "5s", "true" }, "--grace wants a number from 0 to 86400, not '5s'" },
};

static const struct refusal bad_spellings[] = {
	{ { NULL }, "which program is to be run?" },
	{ { "--node", "0", "--rdzv", "a", "true" },
		"--rdzv may be --rdzv-backend, --rdzv-endpoint, --rdzv-id, --rdzv-conf" },
	{ { "--stand=yes", "true" }, "--stand=yes is no option here" },
	{ { "--grace" }, "--grace needs a value" },
	{ { "--frobnicate", "true" }, "--frobnicate is no option here" },
	{ { "--npoc-per-node=2", "true" },
		"--npoc-per-node=2 is no option here; did you mean --nproc-per-node?" },
	{ { "--tag=yes", "true" }, "--tag takes no value" },
	{ { "-y", "true" }, "-y is no option here" },
};

/* rondo-run ends with 2, and its one line has the reason. */
static void expect_line(struct program *run, const char *reason)
{
	char line[512], *text = file_text(run->err);

	snprintf(line, sizeof(line), "rondo-run: %s (see rondo-run --help)\n", reason);
	cr_expect_eq(run->status, 2, "%s: status %d", reason, run->status);
	cr_expect_str_eq(text, line);
}

static void expect_refusals(const struct refusal *refusals, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct program run = program_files();
		char *argv[8] = { "rondo-run" };

		memcpy(argv + 1, refusals[i].arguments, sizeof(refusals[i].arguments));
		program_start_with(&run, RONDO_TOOL, argv);
		program_finish(&run);
		expect_line(&run, refusals[i].reason);
	}
}

#define EXPECT_REFUSALS(table) expect_refusals(table, sizeof(table) / sizeof((table)[0]))

Test(run, a_bad_number_of_ranks_or_nodes_gets_one_clear_line_and_2, .timeout = 30)
{
	EXPECT_REFUSALS(bad_sizes);
}

Test(run, a_bad_rendezvous_gets_one_clear_line_and_2, .timeout = 30)
{
	EXPECT_REFUSALS(bad_rendezvous);
}

Test(run, a_bad_value_gets_one_clear_line_and_2, .timeout = 30)
{
	EXPECT_REFUSALS(bad_values);
}

Test(run, an_unknown_option_or_no_program_gets_one_clear_line_and_2, .timeout = 30)
{
	EXPECT_REFUSALS(bad_spellings);
}

Test(run, bad_variables_get_one_clear_line_and_2, .timeout = 30)
{
	static const struct {
		const char *name, *value, *reason;
	} cases[] = {
		{ "PET_NNODES", "two",
			"PET_NNODES wants a number from 1 to 65536, or MIN:MAX, not 'two'" },
		{ "PET_STANDALONE", "yes", "PET_STANDALONE wants 0 or 1, not 'yes'" },
		{ "PET_RDZV_CONF", "tmeout=3",
			"PET_RDZV_CONF wants keys of torchrun, not 'tmeout'; did you mean "
			"timeout?" },
		{ "PET_RDZV_CONF", "timeout=x",
			"PET_RDZV_CONF: timeout wants seconds from 0 to 86400, not 'x'" },
		{ "PET_MODULE", "2", "PET_MODULE wants 0 or 1, not '2'" },
		{ "PET_RDZV_BACKEND", "etcd",
			"PET_RDZV_BACKEND etcd is not supported: c10d needs no server" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct program run = program_files();

		setenv(cases[i].name, cases[i].value, 1);
		program_run(&run, RONDO_TOOL, "true", NULL);
		unsetenv(cases[i].name);
		expect_line(&run, cases[i].reason);
	}
}

Test(run, options_are_read_from_variables_after_which_the_command_line_counts, .timeout = 30)
{
	static const char *const print = "echo $LOCAL_WORLD_SIZE $ROLE_NAME $PET_RDZV_ENDPOINT";
	struct program variables = program_files(), both = program_files();

	setenv("OMP_NUM_THREADS", "1", 1);
	setenv("PET_NPROC_PER_NODE", "2", 1);
	setenv("PET_ROLE", "trainer", 1);
	setenv("PET_STANDALONE", "0", 1);
	setenv("PET_NNODES", "", 1);
	/* It is read in parts, and the ranks get it whole. */
	setenv("PET_RDZV_ENDPOINT", "[::1]:29400", 1);
	program_run(&variables, RONDO_TOOL, "sh", "-c", print, NULL);
	assert_contains(variables.out, "2 trainer [::1]:29400\n2 trainer [::1]:29400\n");
	program_run(&both, RONDO_TOOL, "--nproc-per-node", "1", "sh", "-c", print, NULL);
	assert_contains(both.out, "1 trainer [::1]:29400\n");
}

Test(run, names_have_two_spellings_and_may_be_cut_short, .timeout = 30)
{
	static char *const spellings[] = { "--nproc-per-node=2", "--nproc_per_node=2",
		"--nproc_per=2", "--nproc-per=2", "--np=2" };

	setenv("OMP_NUM_THREADS", "1", 1);
	for (size_t i = 0; i < sizeof(spellings) / sizeof(spellings[0]); i++) {
		struct program run = program_files();

		program_run(&run, RONDO_TOOL, spellings[i], "sh", "-c", "echo $WORLD_SIZE", NULL);
		assert_contains(run.out, "2\n2\n");
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

/* ---- The program ----------------------------------------------------------------------------- */

/* The program of rondo-run: itself, or python with a script. */

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
