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
			"rondo-run: --nproc-per-node wants a number from 1 to 65536, or cpu, gpu "
			"or auto, not 'many' (see rondo-run --help)\n" },
		{ { "rondo-run", "--nproc-per-node=0", "true" },
			"rondo-run: --nproc-per-node wants a number from 1 to 65536, or cpu, gpu "
			"or auto, not '0' (see rondo-run --help)\n" },
		{ { "rondo-run", "--nproc-per-node=-1", "true" },
			"rondo-run: --nproc-per-node wants a number from 1 to 65536, or cpu, gpu "
			"or auto, not '-1' (see rondo-run --help)\n" },
		{ { "rondo-run", "--nproc-per-node=99999999999999999999", "true" },
			"rondo-run: --nproc-per-node wants a number from 1 to 65536, or cpu, gpu "
			"or auto, not '99999999999999999999' (see rondo-run --help)\n" },
		{ { "rondo-run", "--nnodes=3:2", "true" },
			"rondo-run: --nnodes wants MIN:MAX with MIN up to MAX, not '3:2' (see "
			"rondo-run --help)\n" },
		{ { "rondo-run", "--nnodes=1:2:3", "true" },
			"rondo-run: --nnodes wants a number from 1 to 65536, or MIN:MAX, not "
			"'1:2:3' (see rondo-run --help)\n" },
		{ { "rondo-run", "--nnodes=0:2", "true" },
			"rondo-run: --nnodes wants a number from 1 to 65536, or MIN:MAX, not "
			"'0:2' (see rondo-run --help)\n" },
		{ { "rondo-run", "--nnodes=70000", "true" },
			"rondo-run: --nnodes wants a number from 1 to 65536, or MIN:MAX, not "
			"'70000' (see rondo-run --help)\n" },
		{ { "rondo-run", "--nnodes=30000", "--nproc=3", "--rdzv-endpoint=a", "true" },
			"rondo-run: 30000 nodes of 3 ranks are more than 65536 ranks (see "
			"rondo-run --help)\n" },
		{ { "rondo-run", "--rdzv-backend=etcd-v2", "true" },
			"rondo-run: --rdzv-backend etcd-v2 is not supported: c10d needs no server "
			"(see rondo-run --help)\n" },
		{ { "rondo-run", "--rdzv-backend=c10", "true" },
			"rondo-run: --rdzv-backend wants static or c10d, not 'c10' (see rondo-run "
			"--help)\n" },
		{ { "rondo-run", "--rdzv-endpoint=a:65536", "true" },
			"rondo-run: --rdzv-endpoint wants HOST:PORT with a port from 0 to 65535, "
			"not 'a:65536' (see rondo-run --help)\n" },
		{ { "rondo-run", "--rdzv-endpoint=:29400", "true" },
			"rondo-run: --rdzv-endpoint wants the name or address of a host, not "
			"':29400' (see rondo-run --help)\n" },
		{ { "rondo-run", "--rdzv-endpoint=a:b:c", "true" },
			"rondo-run: --rdzv-endpoint wants the name or address of a host, not "
			"'a:b:c' (see rondo-run --help)\n" },
		{ { "rondo-run", "--rdzv-endpoint=[fd00::1", "true" },
			"rondo-run: --rdzv-endpoint wants the name or address of a host, not "
			"'[fd00::1' (see rondo-run --help)\n" },
		{ { "rondo-run", "--nnodes=2", "--rdzv-endpoint=a:0", "true" },
			"rondo-run: --nnodes 2 needs a --rdzv-endpoint with a port that all nodes "
			"know (see rondo-run --help)\n" },
		{ { "rondo-run", "--nnodes=2", "--rdzv-backend=c10d", "true" },
			"rondo-run: --nnodes 2 needs --rdzv-endpoint (see rondo-run --help)\n" },
		{ { "rondo-run", "--nnodes=2", "--node-rank=0", "--master-addr=a",
			  "--master-port=0", "true" },
			"rondo-run: --nnodes 2 needs a --master-port that all nodes know (see "
			"rondo-run --help)\n" },
		{ { "rondo-run", "--rdzv-conf=joint_timeout=3", "true" },
			"rondo-run: --rdzv-conf wants keys of torchrun, not 'joint_timeout'; did "
			"you mean join_timeout? (see rondo-run --help)\n" },
		{ { "rondo-run", "--rdzv-conf=timeout=3,join_timeout=soon", "true" },
			"rondo-run: --rdzv-conf: join_timeout wants seconds from 0 to 86400, not "
			"'soon' (see rondo-run --help)\n" },
		{ { "rondo-run", "--rdzv-conf=timeout", "true" },
			"rondo-run: --rdzv-conf: timeout needs the form KEY=VALUE (see rondo-run "
			"--help)\n" },
		{ { "rondo-run", "--rdzv-conf=timeout=3,", "true" },
			"rondo-run: --rdzv-conf: each part needs the form KEY=VALUE (see rondo-run "
			"--help)\n" },
		{ { "rondo-run", "--rdzv-conf=store_type=file", "true" },
			"rondo-run: --rdzv-conf: store_type wants tcp, not 'file' (see rondo-run "
			"--help)\n" },
		{ { "rondo-run", "--rdzv-id=a/b", "true" },
			"rondo-run: --rdzv-id wants a name without /, not 'a/b' (see rondo-run "
			"--help)\n" },
		{ { "rondo-run", "--max-restarts=-1", "true" },
			"rondo-run: --max-restarts wants a number from 0 to 1000000, not '-1' (see "
			"rondo-run --help)\n" },
		{ { "rondo-run", "--monitor-interval=nan", "true" },
			"rondo-run: --monitor-interval wants seconds from 0 to 86400, not 'nan' "
			"(see rondo-run --help)\n" },
		{ { "rondo-run", "--signals-to-handle=SIGTERM,SIGKILL", "true" },
			"rondo-run: --signals-to-handle wants signals that can be passed on, such "
			"as SIGTERM,SIGUSR1, not 'SIGTERM,SIGKILL' (see rondo-run --help)\n" },
		{ { "rondo-run", "--start-method=thread", "true" },
			"rondo-run: --start-method wants spawn, fork or forkserver, not 'thread' "
			"(see rondo-run --help)\n" },
		{ { "rondo-run", "-r", "4", "true" },
			"rondo-run: --redirects wants 0, 1 (stdout), 2 (stderr) or 3 (both), or "
			"LOCAL_RANK:STREAMS,..., not '4' (see rondo-run --help)\n" },
		{ { "rondo-run", "-t0:1,1", "true" },
			"rondo-run: --tee wants 0, 1 (stdout), 2 (stderr) or 3 (both), or "
			"LOCAL_RANK:STREAMS,..., not '0:1,1' (see rondo-run --help)\n" },
		{ { "rondo-run", "--local-ranks-filter=0,", "true" },
			"rondo-run: --local-ranks-filter wants local ranks with commas between "
			"them, not '0,' (see rondo-run --help)\n" },
		{ { "rondo-run", "--bind=sockets", "true" },
			"rondo-run: --bind wants cores, numa or none, not 'sockets' (see rondo-run "
			"--help)\n" },
		{ { "rondo-run", "-m", "--no-python", "true" },
			"rondo-run: --module goes without --no-python and --run-path (see "
			"rondo-run --help)\n" },
		{ { "rondo-run", "--nnodes", "2", "--master-addr", "a b", "true" },
			"rondo-run: --master-addr wants the name or address of a host, not 'a b' "
			"(see rondo-run --help)\n" },
		{ { "rondo-run", "--node", "0", "--rdzv", "a", "true" },
			"rondo-run: --rdzv may be --rdzv-backend, --rdzv-endpoint, --rdzv-id, "
			"--rdzv-conf (see rondo-run --help)\n" },
		{ { "rondo-run", "--stand=yes", "true" },
			"rondo-run: --stand=yes is no option here (see rondo-run --help)\n" },
		{ { "rondo-run", "--grace" },
			"rondo-run: --grace needs a value (see rondo-run --help)\n" },
		{ { "rondo-run", "--grace", "5s", "true" },
			"rondo-run: --grace wants a number from 0 to 86400, not '5s' (see "
			"rondo-run --help)\n" },
		{ { "rondo-run", "--nnodes=2", "true" },
			"rondo-run: --nnodes 2 needs --node-rank, or --rdzv-endpoint (see "
			"rondo-run --help)\n" },
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
		{ { "rondo-run", "-y", "true" },
			"rondo-run: -y is no option here (see rondo-run --help)\n" },
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

Test(run, bad_variables_get_one_clear_line_and_2, .timeout = 30)
{
	static const struct {
		const char *name, *value, *line;
	} cases[] = {
		{ "PET_NNODES", "two",
			"rondo-run: PET_NNODES wants a number from 1 to 65536, or MIN:MAX, not "
			"'two' (see rondo-run --help)\n" },
		{ "PET_STANDALONE", "yes",
			"rondo-run: PET_STANDALONE wants 0 or 1, not 'yes' (see rondo-run --help)\n" },
		{ "PET_RDZV_CONF", "tmeout=3",
			"rondo-run: PET_RDZV_CONF wants keys of torchrun, not 'tmeout'; did you mean "
			"timeout? (see rondo-run --help)\n" },
		{ "PET_RDZV_CONF", "timeout=x",
			"rondo-run: PET_RDZV_CONF: timeout wants seconds from 0 to 86400, not 'x' "
			"(see rondo-run --help)\n" },
		{ "PET_MODULE", "2",
			"rondo-run: PET_MODULE wants 0 or 1, not '2' (see rondo-run --help)\n" },
		{ "PET_RDZV_BACKEND", "etcd",
			"rondo-run: PET_RDZV_BACKEND etcd is not supported: c10d needs no server "
			"(see rondo-run --help)\n" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct program run = program_files();
		char *text;

		setenv(cases[i].name, cases[i].value, 1);
		program_run(&run, RONDO_TOOL, "true", NULL);
		unsetenv(cases[i].name);
		cr_assert_eq(run.status, 2, "%s: status %d", cases[i].line, run.status);
		text = file_text(run.err);
		cr_assert_str_eq(text, cases[i].line);
		free(text);
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
