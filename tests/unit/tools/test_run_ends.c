/* The end of a job under rondo-run: ranks that fail or are killed, signals, and the other ranks. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/pidfd.h"
#include "mute_files.h"
#include "program.h"
#include "run/guard.h"

/* The ranks are shells: their environment, output and exit status show the launcher's work. */
#define SH(script) "sh", "-c", script

#define SLEEPER "echo $$; exec sleep 1000"
/* Two processes, neither of which SIGTERM ends. */
#define STUBBORN "trap '' TERM; sh -c 'echo $$; exec sleep 1000' & echo $$; wait"

Test(run, a_failed_rank_gives_its_exit_status_and_a_line, .timeout = 30)
{
	struct program run = program_files();

	program_run(&run, RONDO_TOOL, "--nproc-per-node", "3",
		SH("[ $RANK = 2 ] && exit 42; exit 0"), NULL);
	cr_assert_eq(run.status, 42);
	assert_contains(run.err, "rondo-run: rank 2 (pid ");
	assert_contains(run.err, ") exited with status 42\n");
}

Test(run, a_killed_rank_gives_128_and_its_signal_and_a_line, .timeout = 30)
{
	struct program run = program_files();

	program_run(&run, RONDO_TOOL, "--nproc-per-node", "2",
		SH("[ $RANK = 1 ] && kill -9 $$; exit 0"), NULL);
	cr_assert_eq(run.status, 128 + SIGKILL);
	assert_contains(run.err, "rondo-run: rank 1 (pid ");
	assert_contains(run.err, ") was killed by signal 9 (Killed)\n");
}

Test(run, a_rank_that_was_killed_outranks_one_that_failed_of_it, .timeout = 30)
{
	struct program run = program_files();
	int err = pipe_from(&run.err), go = pipe_to_fd_8();
	char text[4096] = "";

	program_start(&run, RONDO_TOOL, "--nproc-per-node", "2",
		SH("[ $RANK = 0 ] && exit 1; read go <&8; kill -9 $$"), NULL);
	read_until(err, text, sizeof(text), ") exited with status 1\n");
	cr_assert_eq(write(go, "\n", 1), 1);
	program_finish(&run);
	cr_assert_eq(run.status, 128 + SIGKILL);
}

Test(run, a_failed_rank_ends_the_others_and_what_they_started, .timeout = 60)
{
	struct program run = program_files();
	int out = pipe_from(&run.out), go = pipe_to_fd_8();
	struct pollfd ends[3];

	program_start(&run, RONDO_TOOL, "--nproc-per-node", "3", "--grace", "1",
		SH("case $RANK in 0) " STUBBORN ";; 1) " SLEEPER ";; esac; read go <&8; exit 3"),
		NULL);
	watch_processes(out, ends, 3);
	cr_assert_eq(write(go, "\n", 1), 1);
	program_finish(&run);
	cr_assert(all_end(ends, 3), "a process is left");
	cr_assert_eq(run.status, 3);
	assert_contains(run.err, ") exited with status 3\nrondo-run: rank 0 (pid ");
	assert_contains(run.err, ") is still there 1 s later: killing it\n");
}

Test(run, survivors_may_write_before_they_are_ended, .timeout = 30)
{
	struct program run = program_files();
	int err = pipe_from(&run.err), go = pipe_to_fd_8();
	char text[4096] = "";

	program_start(&run, RONDO_TOOL, "--nproc-per-node", "2",
		SH("[ $RANK = 1 ] && exit 5; read go <&8; echo rank 1 is gone >&2; exit 1"), NULL);
	read_until(err, text, sizeof(text), ") exited with status 5\n");
	cr_assert_eq(write(go, "\n", 1), 1);
	read_until(err, text, sizeof(text), "\nrank 1 is gone\n");
	program_finish(&run);
	cr_assert_eq(run.status, 5);
}

Test(run, a_rank_that_ends_takes_along_what_it_started, .timeout = 30)
{
	struct program run = program_files();
	int out = pipe_from(&run.out), go = pipe_to_fd_8();
	struct pollfd ends[1];

	program_start(&run, RONDO_TOOL, SH("sh -c 'echo $$; exec sleep 1000' & read go <&8"), NULL);
	watch_processes(out, ends, 1);
	cr_assert_eq(write(go, "\n", 1), 1);
	program_finish(&run);
	cr_assert(all_end(ends, 1), "a process is left");
	cr_assert_eq(run.status, 0);
}

/* It leaves the rank's group and session, and its parent ends: init would adopt it. */
#define DAEMON "setsid sh -c 'sh -c \"echo \\$\\$; exec sleep 1000\" & exit 0'"

Test(run, a_daemon_that_a_rank_started_ends_with_the_last_rank, .timeout = 30)
{
	struct program run = program_files();
	int out = pipe_from(&run.out), go = pipe_to_fd_8();
	struct pollfd ends[2];

	program_start(&run, RONDO_TOOL, "--nproc-per-node", "2", SH(DAEMON "; read go <&8"), NULL);
	watch_processes(out, ends, 2);
	cr_assert_eq(write(go, "\n\n", 2), 2);
	program_finish(&run);
	cr_assert_eq(run.status, 0);
	for (int i = 0; i < 2; i++)
		cr_assert_eq(poll(&ends[i], 1, 0), 1, "a daemon outlives the launcher");
}

/* The shell's child becomes the launcher's, as `sh -c "service & exec rondo-run ..."` does. */
Test(run, a_process_that_was_there_before_the_launcher_stays, .timeout = 30)
{
	struct program run = program_files();
	int out = pipe_from(&run.out);
	struct pollfd ends[1];

	program_start(&run, "/bin/sh", "-c",
		"sh -c 'echo $$; exec sleep 1000' & exec " RONDO_TOOL " true", NULL);
	watch_processes(out, ends, 1);
	program_finish(&run);
	cr_assert_eq(run.status, 0);
	cr_assert_eq(poll(&ends[0], 1, 0), 0, "it was ended");
	syscall(SYS_pidfd_send_signal, ends[0].fd, SIGKILL, NULL, 0);
}

Test(run, processes_that_end_after_their_parents_are_reaped, .timeout = 30)
{
	struct program run = program_files();
	int out = pipe_from(&run.out), go = pipe_to_fd_8();
	char line[64];

	/* The rank leaves a process that ends; it then waits until the launcher has reaped it. */
	program_start(&run, RONDO_TOOL, "--nproc-per-node", "2",
		SH("[ $RANK = 1 ] && exit; pid=$(setsid sh -c 'sh -c \"sleep 0.01\" >/dev/null "
		   "& echo $!'); while [ -e /proc/$pid ]; do :; done; echo gone; read go <&8"),
		NULL);
	read_line(out, line, sizeof(line));
	cr_assert_str_eq(line, "gone");
	cr_assert_eq(write(go, "\n", 1), 1);
	program_finish(&run);
	cr_assert_eq(run.status, 0);
}

/* Each rank prints its own process, and those of a child and of a daemon. */
#define FAMILY "sh -c 'echo $$; exec sleep 1000' & " DAEMON "; echo $$; wait"

Test(run, the_death_of_the_launcher_ends_the_ranks_and_what_they_started, .timeout = 30)
{
	struct program run = program_files();
	int out = pipe_from(&run.out);
	struct pollfd ends[6];

	program_start(&run, RONDO_TOOL, "--nproc-per-node", "2", SH(FAMILY), NULL);
	watch_processes(out, ends, 6);
	kill(run.pid, SIGKILL);
	cr_assert(all_end(ends, 6), "a process outlives its launcher");
	program_finish(&run);
	cr_assert_eq(run.status, -SIGKILL);
}

Test(run, the_death_of_the_agent_ends_the_ranks_and_what_they_started, .timeout = 30)
{
	struct program run = program_files();
	int out = pipe_from(&run.out);
	struct pollfd ends[6];

	program_start(&run, RONDO_TOOL, "--nproc-per-node", "2", SH(FAMILY), NULL);
	watch_processes(out, ends, 6);
	kill(child_of(run.pid), SIGKILL);
	program_finish(&run);
	for (int i = 0; i < 6; i++)
		cr_assert_eq(poll(&ends[i], 1, 0), 1, "a process outlives the launcher");
	cr_assert_eq(run.status, 128 + SIGKILL);
	assert_contains(run.err, "rondo-run: killed by signal 9 (Killed)\n");
}

/* Only this signal ends these ranks within the test's time. */
Test(run, a_signal_is_passed_on_and_its_number_returned, .timeout = 30)
{
	struct program run = program_files();
	int out = pipe_from(&run.out);
	struct pollfd ends[2];

	program_start(&run, RONDO_TOOL, "--nproc-per-node", "2", "--grace", "1000",
		SH("trap '' TERM; " SLEEPER), NULL);
	watch_processes(out, ends, 2);
	kill(run.pid, SIGINT);
	cr_assert(all_end(ends, 2), "a rank continues");
	program_finish(&run);
	cr_assert_eq(run.status, 128 + SIGINT);
	assert_contains(run.err, "rondo-run: Interrupt: ending the ranks\n");
}

/* An agent that does not catch signals yet. */
static void wait_in_an_agent(int ready, int err)
{
	sigset_t requests;

	dup2(err, STDERR_FILENO);
	sigemptyset(&requests);
	sigaddset(&requests, SIGTERM);
	guard_start(&requests, -1);
	if (write(ready, "\n", 1) == 1)
		pause();
	_exit(1);
}

Test(run, a_signal_that_ends_an_agent_at_its_start_is_the_one_reported, .timeout = 30)
{
	int ready[2], err[2], status;
	char text[256] = "";
	pid_t guard;

	cr_assert_eq(pipe2(ready, O_CLOEXEC) | pipe2(err, O_CLOEXEC), 0);
	guard = fork();
	if (guard == 0)
		wait_in_an_agent(ready[1], err[1]);
	cr_assert_eq(read(ready[0], text, 1), 1);
	kill(guard, SIGTERM);
	cr_assert_eq(waitpid(guard, &status, 0), guard);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGTERM, "%x", status);
	cr_assert_gt(read(err[0], text, sizeof(text) - 1), 0);
	cr_assert_str_eq(text, "rondo-run: killed by signal 15 (Terminated)\n");
}

/* The signal ends the shell's child, but not the shell, which waits for its child. */
Test(run, a_signal_reaches_what_a_rank_started, .timeout = 30)
{
	struct program run = program_files();
	int out = pipe_from(&run.out);
	struct pollfd ends[1];

	program_start(&run, RONDO_TOOL, "--grace", "1000",
		SH("trap : INT; sh -c 'echo $$; exec sleep 1000'; exit 0"), NULL);
	watch_processes(out, ends, 1);
	kill(run.pid, SIGINT);
	cr_assert(all_end(ends, 1), "the rank's child continues");
	program_finish(&run);
	cr_assert_eq(run.status, 128 + SIGINT);
}

Test(run, a_second_signal_does_not_wait_for_the_grace, .timeout = 30)
{
	struct program run = program_files();
	int out = pipe_from(&run.out);
	struct pollfd ends[2];

	program_start(&run, RONDO_TOOL, "--grace", "1000", SH(STUBBORN), NULL);
	watch_processes(out, ends, 2);
	program_press(&run, SIGTERM);
	cr_assert(all_end(ends, 2), "a process is left");
	cr_assert_eq(run.status, 128 + SIGTERM);
}

/* Waits until a process has taken its signals. */
static void await_no_signal(pid_t pid)
{
	char path[64], text[4096];
	const char *pending;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	do {
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t size = read(fd, text, sizeof(text) - 1);

		close(fd);
		cr_assert_gt(size, 0);
		text[size] = '\0';
		pending = strstr(text, "ShdPnd:");
		cr_assert_not_null(pending);
		sched_yield();
	} while (strtoull(pending + 7, NULL, 16));
}

/* As systemctl stop and pkill signal both processes, and timeout(1) the first one twice. The guard
   takes its two signals side by side. */
Test(run, signals_that_mean_one_leave_the_grace, .timeout = 60)
{
	struct program run = program_files();
	int out = pipe_from(&run.out), go = pipe_to_fd_8();
	char line[64];
	pid_t agent;

	program_start(&run, RONDO_TOOL, "--grace", "1000",
		SH("trap 'read go <&8; echo saved; exit 0' TERM; echo here; "
		   "while :; do sleep 1000 & wait; done"),
		NULL);
	read_line(out, line, sizeof(line));
	agent = child_of(run.pid);
	kill(run.pid, SIGSTOP);
	kill(agent, SIGTERM);
	kill(run.pid, SIGTERM);
	kill(run.pid, SIGINT);
	await_no_signal(agent);
	kill(run.pid, SIGCONT);
	await_no_signal(run.pid);
	await_no_signal(agent);
	cr_assert_eq(write(go, "\n", 1), 1);
	program_finish(&run);
	read_line(out, line, sizeof(line));
	cr_assert_str_eq(line, "saved");
	cr_assert_eq(run.status, 128 + SIGTERM);
}

static char state_of(pid_t pid)
{
	char path[64], text[512] = "";
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	cr_assert_geq(fd, 0);
	cr_assert_gt(read(fd, text, sizeof(text) - 1), 0);
	close(fd);
	return strrchr(text, ')')[2];
}

Test(run, the_ranks_stop_and_continue_with_the_launcher, .timeout = 30)
{
	struct program run = program_files();
	int out = pipe_from(&run.out), go = pipe_to_fd_8(), status;
	char line[64];

	program_start(&run, RONDO_TOOL, SH("echo $$; read go <&8"), NULL);
	read_line(out, line, sizeof(line));
	kill(run.pid, SIGTSTP);
	cr_assert_eq(waitpid(run.pid, &status, WUNTRACED), run.pid);
	cr_assert(WIFSTOPPED(status));
	/* The signal is sent; the rank stops when it next runs. */
	while (state_of(atoi(line)) != 'T')
		sched_yield();
	kill(run.pid, SIGCONT);
	cr_assert_eq(write(go, "\n", 1), 1);
	program_finish(&run);
	cr_assert_eq(run.status, 0);
}

/* The guard has no part in it. */
Test(run, an_agent_that_is_stopped_and_continued_ends, .timeout = 30)
{
	struct program run = program_files();
	int out = pipe_from(&run.out), go = pipe_to_fd_8();
	char line[64];
	pid_t agent;

	program_start(&run, RONDO_TOOL, SH("echo here; read go <&8"), NULL);
	read_line(out, line, sizeof(line));
	agent = child_of(run.pid);
	kill(agent, SIGSTOP);
	while (state_of(agent) != 'T')
		sched_yield();
	await_no_signal(run.pid);
	while (state_of(run.pid) == 'R')
		sched_yield();
	kill(agent, SIGCONT);
	cr_assert_eq(write(go, "\n", 1), 1);
	program_finish(&run);
	cr_assert_eq(run.status, 0);
}

Test(run, a_signal_ends_a_job_whose_agent_is_stopped, .timeout = 30)
{
	struct program run = program_files();
	int out = pipe_from(&run.out);
	char line[64];

	program_start(&run, RONDO_TOOL, SH(SLEEPER), NULL);
	read_line(out, line, sizeof(line));
	kill(child_of(run.pid), SIGSTOP);
	kill(run.pid, SIGTERM);
	program_finish(&run);
	cr_assert_eq(run.status, 128 + SIGTERM);
}

/*
 * A tracer that does not take a rank's status keeps it there after SIGKILL, as the kernel keeps one
 * in state D. Without that, the ranks would start again.
 */
Test(run, a_rank_that_sigkill_does_not_end_is_left_with_a_line, .timeout = 60)
{
	struct program run = program_files();
	int out = pipe_from(&run.out), go = pipe_to_fd_8();
	char line[64], wanted[128];
	pid_t rank;

	program_start(&run, RONDO_TOOL, "--nproc-per-node", "2", "--grace", "1", "--max-restarts",
		"9", "--local-ranks-filter", "1",
		SH("trap '' TERM; [ $RANK = 1 ] && { echo $$; while :; do sleep 1000; done; }; "
		   "read go <&8; exit 3"),
		NULL);
	read_line(out, line, sizeof(line));
	rank = atoi(line);
	if (ptrace(PTRACE_SEIZE, rank, NULL, NULL) < 0) {
		kill(run.pid, SIGKILL);
		cr_skip_test("this system forbids ptrace(): %s", strerror(errno));
	}
	cr_assert_eq(write(go, "\n", 1), 1);
	program_finish(&run);
	cr_assert_eq(run.status, 3);
	snprintf(wanted, sizeof(wanted),
		"rondo-run: rank 1 (pid %d) does not end 10 s after SIGKILL: leaving it\n", rank);
	assert_contains(run.err, wanted);
	waitpid(rank, NULL, 0);
}

/* A debugger takes the status of a rank later than poll() shows its end. */
Test(run, the_status_of_a_traced_rank_counts, .timeout = 60)
{
	struct program run = program_files();
	int out = pipe_from(&run.out), go = pipe_to_fd_8();
	siginfo_t end = { 0 };
	char line[64];
	pid_t rank;

	program_start(&run, RONDO_TOOL, SH("echo $$; read go <&8; exit 3"), NULL);
	read_line(out, line, sizeof(line));
	rank = atoi(line);
	if (ptrace(PTRACE_SEIZE, rank, NULL, NULL) < 0) {
		kill(run.pid, SIGKILL);
		cr_skip_test("this system forbids ptrace(): %s", strerror(errno));
	}
	cr_assert_eq(write(go, "\n", 1), 1);
	cr_assert_eq(waitid(P_PID, (id_t)rank, &end, WEXITED | WNOWAIT), 0);
	while (state_of(child_of(run.pid)) != 'S')
		sched_yield();
	cr_assert_eq(waitpid(rank, NULL, 0), rank);
	program_finish(&run);
	cr_assert_eq(run.status, 3);
}

/* A rank's line ends the poll() under way; the next poll() fails. */
Test(run, ranks_that_cannot_be_waited_for_are_killed_with_a_reason, .timeout = 60)
{
	struct program run = program_files();
	int out = pipe_from(&run.out), go = pipe_to_fd_8();
	struct rlimit low = { 3, 3 };
	struct pollfd ends[2];

	program_start(&run, RONDO_TOOL, "--nproc-per-node", "2",
		SH("trap '' TERM; echo $$; read go <&8; echo on; exec sleep 1000"), NULL);
	watch_processes(out, ends, 2);
	cr_assert_eq(prlimit(child_of(run.pid), RLIMIT_NOFILE, &low, NULL), 0);
	cr_assert_eq(write(go, "\n\n", 2), 2);
	cr_assert(all_end(ends, 2), "a rank continues");
	program_finish(&run);
	cr_assert_eq(run.status, 1);
	assert_contains(run.err,
		"rondo-run: cannot wait for the ranks: poll: Invalid argument: killing them\n");
}

/* ---- Ignored signals ------------------------------------------------------------------------- */

/* Signals that rondo-run ignores, or that were ignored when it was started, and its ranks. */

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

/* A rank that the kernel cannot end, in state D. */

Test(run_stuck, a_rank_in_state_d_is_named_and_left, .timeout = 60)
{
	struct program run = program_files();
	struct mute_files files;
	char line[64], wanted[128];
	int out, go;
	pid_t rank;

	mute_files_mount(&files);
	/* The rank's next parent. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	out = pipe_from(&run.out);
	go = pipe_to_fd_8();
	setenv("STUCK", files.file, 1);
	program_start(&run, RONDO_TOOL, "--nproc-per-node", "2", "--grace", "1",
		"--local-ranks-filter", "1",
		SH("[ $RANK = 0 ] || { echo $$; exec cat $STUCK; }; read go <&8; exit 3"), NULL);
	read_line(out, line, sizeof(line));
	rank = atoi(line);
	mute_files_await(&files);
	cr_assert_eq(write(go, "\n", 1), 1);
	program_finish(&run);
	cr_expect_eq(state_of(rank), 'D');
	cr_expect_eq(run.status, 3);
	snprintf(wanted, sizeof(wanted),
		"rondo-run: rank 1 (pid %d) does not end 10 s after SIGKILL: leaving it\n", rank);
	assert_contains(run.err, wanted);
	mute_files_unmount(&files);
	cr_expect_eq(waitpid(rank, NULL, 0), rank);
}
