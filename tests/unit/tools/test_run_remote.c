/* rondo-run --remote, which ssh starts for --hosts: the test is the front. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "program.h"
#include "rondo.h"
#include "text.h"

/* A remote rondo-run whose stdin and stdout the test has. */
struct remote {
	struct program run;
	int in, out;
};

static struct remote start(void)
{
	struct remote remote = { .run = program_files() };
	char line[128], wanted[128];
	int fds[2];

	setenv("SSH_CONNECTION", "10.0.0.9 50000 10.0.0.1 22", 1);
	cr_assert_eq(pipe2(fds, O_CLOEXEC), 0);
	cr_assert_eq(dup2(fds[0], STDIN_FILENO), STDIN_FILENO);
	remote.in = fds[1];
	remote.out = pipe_from(&remote.run.out);
	program_start(&remote.run, RONDO_TOOL, "--remote", NULL);
	read_line(remote.out, line, sizeof(line));
	snprintf(wanted, sizeof(wanted), "rondo-run-remote %s 10.0.0.1", rondo_version());
	cr_assert_str_eq(line, wanted);
	return remote;
}

/* Sends strings with their size; the array's own zero ends the last one. */
#define SEND(remote, strings) send_strings((remote)->in, strings, sizeof(strings))

static void send_strings(int fd, const char *strings, size_t size)
{
	dprintf(fd, "%zu\n", size);
	cr_assert_eq(write(fd, strings, size), (ssize_t)size);
}

Test(run_remote, the_front_gives_folder_variables_and_arguments, .timeout = 30)
{
	struct remote remote = start();
	char line[128];

	SEND(&remote,
		"/\0CHOSEN=a b\0OTHER=\0\0rondo-run\0sh\0-c\0"
		"echo \"$PWD $CHOSEN${OTHER-x} $1\"; readlink /proc/$$/fd/0\0sh\0an argument");
	read_line(remote.out, line, sizeof(line));
	cr_assert_str_eq(line, "/ a b an argument");
	read_line(remote.out, line, sizeof(line));
	cr_assert_str_eq(line, "/dev/null");
	program_finish(&remote.run);
	cr_assert_eq(remote.run.status, 0);
}

static struct remote start_sleepers(struct pollfd ends[2])
{
	struct remote remote = start();

	SEND(&remote, "/\0\0rondo-run\0--nproc-per-node=2\0sh\0-c\0echo $$; exec sleep 1000");
	watch_processes(remote.out, ends, 2);
	return remote;
}

Test(run_remote, the_end_of_the_front_ends_the_ranks, .timeout = 30)
{
	struct pollfd ends[2];
	struct remote remote = start_sleepers(ends);

	close(remote.in);
	cr_assert(all_end(ends, 2));
	program_finish(&remote.run);
	cr_assert_eq(remote.run.status, 128 + SIGHUP);
}

Test(run_remote, a_byte_of_the_front_is_a_signal, .timeout = 30)
{
	struct pollfd ends[2];
	struct remote remote = start_sleepers(ends);
	char number = SIGINT;

	cr_assert_eq(write(remote.in, &number, 1), 1);
	cr_assert(all_end(ends, 2));
	program_finish(&remote.run);
	cr_assert_eq(remote.run.status, 128 + SIGINT);
}

/* The shell's `wait` alone ends by a signal that comes before it; a program in the foreground does
   not. */
static struct remote start_trap(void)
{
	struct remote remote = start();
	char line[64];

	SEND(&remote, "/\0\0rondo-run\0--grace=1000\0sh\0-c\0"
		      "sleep 1000 & trap 'kill $!; echo saving; read go <&8; echo saved; exit 0' "
		      "TERM; echo here; wait");
	read_line(remote.out, line, sizeof(line));
	return remote;
}

/* As ssh ends by the signal that the front gets and passes on. */
Test(run_remote, the_end_of_the_front_after_a_signal_leaves_the_grace, .timeout = 30)
{
	int go = pipe_to_fd_8();
	struct remote remote = start_trap();
	char number = SIGTERM, line[64];

	cr_assert_eq(write(remote.in, &number, 1), 1);
	close(remote.in);
	read_line(remote.out, line, sizeof(line));
	cr_assert_str_eq(line, "saving");
	cr_assert_eq(write(go, "\n", 1), 1);
	read_line(remote.out, line, sizeof(line));
	cr_assert_str_eq(line, "saved");
	program_finish(&remote.run);
	cr_assert_eq(remote.run.status, 128 + SIGTERM);
}

Test(run_remote, a_second_byte_of_the_front_does_not_wait_for_the_grace, .timeout = 30)
{
	struct remote remote = start_trap();

	cr_assert_eq(write(remote.in, "\017\017", 2), 2); /* SIGTERM, twice */
	program_finish(&remote.run);
	cr_assert_eq(remote.run.status, 128 + SIGTERM);
}

static void refuse(const char *input, size_t size, const char *wanted)
{
	struct remote remote = start();
	char *text;

	cr_assert_eq(write(remote.in, input, size), (ssize_t)size);
	close(remote.in);
	program_finish(&remote.run);
	cr_assert_eq(remote.run.status, 1);
	text = file_text(remote.run.err);
	cr_assert_not_null(strstr(text, wanted), "'%s' is not in '%s'", wanted, text);
	cr_assert_eq(count_of(text, "\n"), 1, "%s", text);
	close(remote.out);
}

Test(run_remote, other_input_is_refused_in_one_line, .timeout = 60)
{
	static const char early[] = "which ended early\n";
	static const char none[] = "no arguments came";

	refuse("", 0, early);
	refuse("x\n", 2, early);
	refuse("-1\n", 3, early);
	refuse("0\n", 2, early);
	refuse("99999999999999999999999\n", 24, early);
	refuse("16777217\n", 9, early);
	refuse("5\n/", 3, early);
	refuse("3\n/ab", 5, early); /* no zero at the end */
	refuse("2\n/", 4, none);
	refuse("6\n/\0A=b", 8, none);
	refuse("3\n/\0", 5, none);
	refuse("8\n/no/way", 10,
		": cannot change to the folder /no/way: No such file or directory\n");
}
