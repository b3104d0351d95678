/* The output and input of ranks under rondo-run. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "program.h"
#include "text.h"

/* The ranks are shells: their environment, output and exit status show the launcher's work. */
#define SH(script) "sh", "-c", script

#define LONG_LINES 100
#define LONG_LINE 20000

Test(run, lines_of_different_ranks_do_not_mix, .timeout = 60)
{
	struct program run = program_files();
	int lines[4] = { 0 };
	char *text, *at;

	/* Each line is written in two parts of more than a pipe's atomic write. */
	program_run(&run, RONDO_TOOL, "--nproc-per-node", "4",
		SH("half=$(head -c 10000 /dev/zero | tr '\\0' $RANK); for i in $(seq 100); do "
		   "printf %s $half; echo $half; done"),
		NULL);
	cr_assert_eq(run.status, 0);
	at = text = file_text(run.out);
	while (*at) {
		char rank = *at;

		for (int i = 0; i < LONG_LINE; i++)
			cr_assert_eq(at[i], rank, "lines mix");
		cr_assert_eq(at[LONG_LINE], '\n');
		lines[rank - '0']++;
		at += LONG_LINE + 1;
	}
	for (int i = 0; i < 4; i++)
		cr_assert_eq(lines[i], LONG_LINES, "rank %d: %d lines", i, lines[i]);
}

Test(run, a_line_without_an_end_is_ended, .timeout = 30)
{
	struct program run = program_files();
	char *text;

	program_run(&run, RONDO_TOOL, "--nproc-per-node", "3",
		SH("printf a; printf b; echo; printf c"), NULL);
	text = file_text(run.out);
	cr_assert_eq(count_lines(text, "ab"), 3, "%s", text);
	cr_assert_eq(count_lines(text, "c"), 3, "%s", text);
}

Test(run, tags_name_the_rank_of_each_line, .timeout = 30)
{
	struct program run = program_files();
	char *text;

	program_run(&run, RONDO_TOOL, "--tag", "--nproc-per-node", "2", SH("echo a; echo b"), NULL);
	text = file_text(run.out);
	for (int i = 0; i < 2; i++) {
		cr_assert_eq(count_lines(text, i ? "[1] a" : "[0] a"), 1, "%s", text);
		cr_assert_eq(count_lines(text, i ? "[1] b" : "[0] b"), 1, "%s", text);
	}
}

Test(run, stdout_and_stderr_that_are_one_stay_in_order, .timeout = 30)
{
	struct program run = { .out = program_file() };
	char *text, *at;

	run.err = run.out;
	program_run(&run, RONDO_TOOL, "--nproc-per-node", "2",
		SH("[ $RANK = 1 ] && exit; for i in $(seq 500); do echo o$i; echo e$i >&2; done"),
		NULL);
	at = text = file_text(run.out);
	for (int i = 1; i <= 500; i++) {
		char pair[32];

		snprintf(pair, sizeof(pair), "o%d\ne%d\n", i, i);
		at = strstr(at, pair);
		cr_assert_not_null(at, "out of order at %d", i);
	}
}

Test(run, a_reader_that_leaves_ends_the_ranks_as_in_any_pipe, .timeout = 30)
{
	struct program run = program_files();
	int out = pipe_from(&run.out);
	char line[16];

	program_start(&run, RONDO_TOOL, "--nproc-per-node", "2", "yes", NULL);
	read_line(out, line, sizeof(line));
	close(run.out);
	close(out);
	program_finish(&run);
	cr_assert_eq(run.status, 128 + SIGPIPE);
}

Test(run, rank_0_alone_reads_the_input, .timeout = 30)
{
	struct program run = program_files();
	int fds[2];
	char *text;

	cr_assert_eq(pipe2(fds, O_CLOEXEC), 0);
	cr_assert_eq(dup2(fds[0], STDIN_FILENO), STDIN_FILENO);
	cr_assert_eq(write(fds[1], "input\n", 6), 6);
	close(fds[1]);
	program_run(&run, RONDO_TOOL, "--nproc-per-node", "2",
		SH("[ $RANK = 0 ] && echo 0 $(cat) || echo 1 $(readlink /proc/$$/fd/0)"), NULL);
	text = file_text(run.out);
	cr_assert_eq(count_lines(text, "0 input"), 1, "%s", text);
	cr_assert_eq(count_lines(text, "1 /dev/null"), 1, "%s", text);
}

Test(run, a_progress_line_on_a_terminal_makes_room_for_other_ranks_lines, .timeout = 30)
{
	struct program run = program_files();
	int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), go = pipe_to_fd_8();
	char text[4096] = "";

	cr_assert_geq(terminal, 0);
	cr_assert_eq(grantpt(terminal), 0);
	cr_assert_eq(unlockpt(terminal), 0);
	run.out = open(ptsname(terminal), O_RDWR | O_NOCTTY | O_CLOEXEC);
	cr_assert_geq(run.out, 0);
	program_start(&run, RONDO_TOOL, "--nproc-per-node", "2",
		SH("if [ $RANK = 1 ]; then read go <&8; echo hello; exit 3; fi; "
		   "test -t 1 && printf '\\r 10%%'; printf '\\r 20%%'; sleep 1000"),
		NULL);
	read_until(terminal, text, sizeof(text), "\r 10%\r 20%");
	cr_assert_eq(write(go, "\n", 1), 1);
	read_until(terminal, text, sizeof(text), "\r 10%\r 20%\r\033[Khello\r\n\r 20%");
	program_finish(&run);
	cr_assert_eq(run.status, 3);
}

Test(run, lines_that_a_full_disk_loses_are_a_failure, .timeout = 60)
{
	struct program run = program_files();

	run.out = open("/dev/full", O_WRONLY | O_CLOEXEC);
	if (run.out < 0)
		cr_skip_test("no /dev/full here");
	program_run(&run, RONDO_TOOL, "--nproc-per-node", "2", SH("echo rank $RANK"), NULL);
	cr_assert_eq(run.status, 1);
	assert_contains(run.err,
		"rondo-run: cannot write to stdout: No space left on device: lines of the ranks "
		"are lost\n");
}

/* No rank runs yet: the line is written though nothing else waits. */
Test(run, a_signal_while_nodes_are_awaited_is_reported, .timeout = 60)
{
	struct program run = program_files();
	char text[512] = "";
	int err = pipe_from(&run.err);

	program_start(&run, RONDO_TOOL, "--nnodes", "2", "--rdzv-endpoint", "127.0.0.1:29431",
		"true", NULL);
	read_until(err, text, sizeof(text), "1 of 2 is here");
	kill(run.pid, SIGTERM);
	read_until(err, text, sizeof(text), "rondo-run: Terminated: leaving the job\n");
	program_finish(&run);
	cr_assert_eq(run.status, 128 + SIGTERM);
}
