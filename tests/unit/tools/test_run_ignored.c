/* Signals that rondo-run ignores, or that were ignored when it was started, and its ranks. */
#include <criterion/criterion.h>
#include <signal.h>
#include <sys/wait.h>

#include "program.h"

#define SH(script) "sh", "-c", script

#define SHOW_IGNORED "sed -n 's/^SigIgn:.//p' /proc/self/status"

static void expect_ignored(const char *ranks, const char *mask)
{
	struct program run = program_files();

	program_run(&run, RONDO_TOOL, "--nproc-per-node", ranks, SH(SHOW_IGNORED), NULL);
	cr_assert_eq(run.status, 0);
	assert_contains(run.out, mask);
}

/* The first of them. */
Test(run_ignored, ranks_ignore_no_signal, .timeout = 30)
{
	signal(SIGHUP, SIG_DFL);
	expect_ignored("2", "0000000000000000\n");
}

/* SIGTTOU would stop it for good. */
Test(run_ignored, one_that_prints_to_the_terminal_itself_is_not_stopped, .timeout = 30)
{
	signal(SIGHUP, SIG_DFL);
	expect_ignored("1", "0000000000200000\n");
}

/* Both processes of rondo-run get SIGHUP, and take it before the rank ends. */
#define HANG_UP \
	"guard=$(sed -n 's/^PPid:.//p' /proc/$PPID/status); kill -HUP $PPID $guard; i=0; " \
	"while grep -q 'ShdPnd:.*[1-9a-f]' /proc/$guard/status; do " \
	"i=$((i + 1)); [ $i -lt 100000 ] || exit 9; done; "

Test(run_ignored, nohup_holds_for_the_job, .timeout = 30)
{
	struct program run = program_files();

	signal(SIGHUP, SIG_IGN);
	program_run(&run, RONDO_TOOL, SH(HANG_UP "kill -HUP $$; " SHOW_IGNORED), NULL);
	cr_assert_eq(run.status, 0);
	assert_contains(run.out, "1\n");
	signal(SIGHUP, SIG_DFL);
	program_run(&run, RONDO_TOOL, SH(HANG_UP "exec sleep 1000"), NULL);
	cr_assert_eq(run.status, 128 + SIGHUP);
}
