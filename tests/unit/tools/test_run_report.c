/* rondo-run: the report of the first failure at the end of a job. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "program.h"
#include "text.h"

/* The ranks are shells: their environment, output and exit status show the launcher's work. */
#define SH(script) "sh", "-c", script

static const char *report_in(const char *text)
{
	const char *report = strstr(text, "rondo-run: first failure: ");

	cr_assert_not_null(report, "%s", text);
	cr_assert_null(strstr(strstr(report, "rank"), "first failure"), "%s", text);
	return report;
}

static void assert_part(const char *text, const char *part)
{
	cr_assert_not_null(strstr(text, part), "'%s' is not in:\n%s", part, text);
}

Test(run_report, a_job_that_fails_ends_with_a_report_of_the_first_failure, .timeout = 30)
{
	struct program run = program_files();
	int err = pipe_from(&run.err), go = pipe_to_fd_8();
	char text[8192] = "", host[128] = "";
	const char *report;

	gethostname(host, sizeof(host) - 1);
	program_start(&run, RONDO_TOOL, "--nproc-per-node", "2",
		SH("if [ $RANK = 0 ]; then read go <&8; echo bye >&2; exit 4; fi; "
		   "for i in $(seq 15); do echo line $i >&2; done; exit 3"),
		NULL);
	read_until(err, text, sizeof(text), "exited with status 3\n");
	cr_assert_eq(write(go, "\n", 1), 1);
	read_until(err, text, sizeof(text), "| line 15\n");
	program_finish(&run);
	cr_assert_eq(run.status, 3);
	report = report_in(text);
	assert_part(text, "rondo-run: rank 0 (pid ");
	assert_part(report, "first failure: rank 1 (pid ");
	assert_part(report, ") exited with status 3\nrondo-run:   host: ");
	assert_part(report, host);
	assert_part(report, ", node 0, local rank 1\nrondo-run:   time: 2");
	assert_part(report, " s after the start\n");
	assert_part(report,
		"rondo-run:   the end of its stderr:\nrondo-run:   | line 6\nrondo-run:   | line "
		"7\n");
}

Test(run_report, a_host_has_the_name_that_the_user_gave, .timeout = 30)
{
	struct program run = program_files();

	setenv("RONDO_HOST", "given", 1);
	program_run(&run, RONDO_TOOL, SH("exit 3"), NULL);
	assert_contains(run.err, "rondo-run:   host: given, node 0, local rank 0\n");
	program_run(&run, RONDO_TOOL, "--status", "--rdzv-id", "none", NULL);
	assert_contains(run.out, "{\"host\":\"given\"");
}

Test(run_report, a_job_that_succeeds_or_is_ended_has_no_report, .timeout = 30)
{
	struct program run = program_files();
	struct pollfd ends[1];
	char *text;
	int out;

	program_run(&run, RONDO_TOOL, "--nproc-per-node", "2", SH("echo fine >&2"), NULL);
	cr_assert_eq(run.status, 0);
	out = pipe_from(&run.out);
	program_start(&run, RONDO_TOOL, SH("echo $$; exec sleep 1000"), NULL);
	watch_processes(out, ends, 1);
	kill(run.pid, SIGTERM);
	program_finish(&run);
	cr_assert_eq(run.status, 128 + SIGTERM);
	text = file_text(run.err);
	cr_assert_null(strstr(text, "first failure"), "%s", text);
}

Test(run_report, the_message_of_torchs_error_file_is_in_the_report, .timeout = 30)
{
	struct program run = program_files();

	/* A process that the rank starts writes it, with no file of its parent's. */
	program_run(&run, RONDO_TOOL, "--nproc-per-node", "2",
		SH("[ $RANK = 0 ] && exit; printf '{\"message\": {\"message\": \"E: "
		   "no\"}}' | sh -c 'cat >$TORCHELASTIC_ERROR_FILE'; exit 1"),
		NULL);
	cr_assert_eq(run.status, 1);
	assert_contains(run.err, "rondo-run:   error: E: no\n");
}

Test(run_report, a_single_rank_has_our_stderr_and_no_tail, .timeout = 30)
{
	struct program run = program_files();
	char *text;

	program_run(&run, RONDO_TOOL, SH("echo last words >&2; kill -9 $$"), NULL);
	cr_assert_eq(run.status, 128 + SIGKILL);
	text = file_text(run.err);
	assert_part(report_in(text), ") was killed by signal 9 (Killed)\n");
	cr_assert_null(strstr(text, "| last words"), "%s", text);
}
