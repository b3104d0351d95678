#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARGS_MAX 32

/* The ranks are shells: what a launcher does shows in environment, output and exit status. */
#define SH(script) "sh", "-c", script

/* A launcher that runs, or has run. */
struct run {
	pid_t pid;
	int out, err; /* files it writes to */
	int status;
};

static int new_file(void)
{
	int fd = memfd_create("output", MFD_CLOEXEC);

	cr_assert_geq(fd, 0);
	/* Ranks write to it side by side. */
	cr_assert_eq(fcntl(fd, F_SETFL, O_APPEND), 0);
	return fd;
}

static void start_with(struct run *run, char **arguments)
{
	run->pid = fork();
	if (run->pid == 0) {
		dup2(run->out, STDOUT_FILENO);
		dup2(run->err, STDERR_FILENO);
		execv(RONDO_TOOL, arguments);
		_exit(99);
	}
	cr_assert_gt(run->pid, 0);
}

/* Starts it with these arguments, the last of them NULL; the outputs may be set before. */
static void start(struct run *run, ...)
{
	char *arguments[ARGS_MAX] = { "rondo-run" };
	int count = 0;
	va_list args;

	va_start(args, run);
	do {
		arguments[++count] = va_arg(args, char *);
	} while (arguments[count] && count < ARGS_MAX - 1);
	va_end(args);
	start_with(run, arguments);
}

static void finish(struct run *run)
{
	int status;

	cr_assert_eq(waitpid(run->pid, &status, 0), run->pid);
	run->status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static struct run files(void)
{
	return (struct run){ .out = new_file(), .err = new_file() };
}

/* All that is in the file, as a string that the caller frees. */
static char *text_of(int fd)
{
	off_t size = lseek(fd, 0, SEEK_END);
	char *text = calloc(1, (size_t)size + 1);

	cr_assert_eq(pread(fd, text, (size_t)size, 0), size);
	return text;
}

static int count_lines(const char *text, const char *line)
{
	size_t length = strlen(line);
	int found = 0;

	for (const char *at = text; *at; at = strchr(at, '\n') + 1) {
		found += strncmp(at, line, length) == 0 && at[length] == '\n';
		if (!strchr(at, '\n'))
			break;
	}
	return found;
}

static void assert_contains(int fd, const char *part)
{
	char *text = text_of(fd);

	cr_assert_not_null(strstr(text, part), "'%s' is not in:\n%s", part, text);
	free(text);
}

static int processors(void)
{
	cpu_set_t mine;

	cr_assert_eq(sched_getaffinity(0, sizeof(mine), &mine), 0);
	return CPU_COUNT(&mine);
}

Test(run, ranks_find_torchruns_environment, .timeout = 30)
{
	struct run run = files();
	char *text;

	unsetenv("OMP_NUM_THREADS");
	setenv("RONDO_RENDEZVOUS_FD", "77", 1);
	start(&run, "--standalone", "--nproc-per-node", "3",
		SH("echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $GROUP_RANK "
		   "$GROUP_WORLD_SIZE "
		   "$ROLE_RANK $ROLE_WORLD_SIZE $ROLE_NAME $MASTER_ADDR "
		   "$TORCHELASTIC_RESTART_COUNT "
		   "$TORCHELASTIC_MAX_RESTARTS $OMP_NUM_THREADS ${RONDO_RENDEZVOUS_FD:+has} "
		   "${MASTER_PORT:+port} ${TORCHELASTIC_RUN_ID:+id}"),
		NULL);
	finish(&run);
	cr_assert_eq(run.status, 0);
	text = text_of(run.out);
	cr_assert_eq(count_lines(text, "0 0 3 3 0 1 0 3 default 127.0.0.1 0 0 1 has port id"), 1,
		"%s", text);
	cr_assert_eq(count_lines(text, "1 1 3 3 0 1 1 3 default 127.0.0.1 0 0 1 port id"), 1, "%s",
		text);
	cr_assert_eq(count_lines(text, "2 2 3 3 0 1 2 3 default 127.0.0.1 0 0 1 port id"), 1, "%s",
		text);
	free(text);
	if (processors() > 1)
		assert_contains(run.err, "OMP_NUM_THREADS=1 for each of the 3 ranks");
}

Test(run, a_choice_of_threads_is_respected, .timeout = 30)
{
	struct run run = files();
	char *text;

	setenv("OMP_NUM_THREADS", "3", 1);
	start(&run, "--nproc_per_node=2", SH("echo $OMP_NUM_THREADS"), NULL);
	finish(&run);
	text = text_of(run.out);
	cr_assert_str_eq(text, "3\n3\n");
	free(text);
	cr_assert_eq(lseek(run.err, 0, SEEK_END), 0, "there was nothing to say");
}

Test(run, one_thread_on_one_processor_is_nothing_to_tell_of, .timeout = 30)
{
	struct run run = files();
	cpu_set_t all, one;
	char *text;
	int cpu = 0;

	cr_assert_eq(sched_getaffinity(0, sizeof(all), &all), 0);
	while (!CPU_ISSET(cpu, &all))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	cr_assert_eq(sched_setaffinity(0, sizeof(one), &one), 0);
	unsetenv("OMP_NUM_THREADS");
	start(&run, "--nproc-per-node", "2", SH("echo $OMP_NUM_THREADS"), NULL);
	finish(&run);
	text = text_of(run.out);
	cr_assert_str_eq(text, "1\n1\n");
	free(text);
	cr_assert_eq(lseek(run.err, 0, SEEK_END), 0);
}

Test(run, rank_0_inherits_the_socket_that_listens_at_the_masters_port, .timeout = 30)
{
	struct run run = files();

	/* What listens is in /proc/net/tcp, by its inode and with its port in hexadecimal. */
	start(&run, "--nproc-per-node=2",
		SH("[ $RANK = 1 ] && exit; "
		   "inode=$(readlink /proc/$$/fd/$RONDO_RENDEZVOUS_FD | tr -dc 0-9); "
		   "grep -i \" 0100007F:$(printf %04X $MASTER_PORT) 00000000:0000 0A .* $inode \" "
		   "/proc/net/tcp >&2 && echo listens"),
		NULL);
	finish(&run);
	assert_contains(run.out, "listens\n");
}

static int free_port(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert_eq(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)&at, &size), 0);
	close(fd);
	return ntohs(at.sin_port);
}

Test(run, two_nodes_make_one_world, .timeout = 30)
{
	const char *script =
		"echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $GROUP_RANK "
		"$GROUP_WORLD_SIZE $MASTER_ADDR $MASTER_PORT ${RONDO_RENDEZVOUS_FD:+has}";
	struct run nodes[2];
	char port[16], line[128];

	snprintf(port, sizeof(port), "%d", free_port());
	for (int i = 0; i < 2; i++) {
		nodes[i] = files();
		start(&nodes[i], "--nnodes", "2", "--node_rank", i ? "1" : "0",
			"--master-addr=127.0.0.1", "--master_port", port, "--nproc-per-node", "2",
			SH(script), NULL);
	}
	for (int i = 0; i < 2; i++) {
		char *text;

		finish(&nodes[i]);
		cr_assert_eq(nodes[i].status, 0);
		text = text_of(nodes[i].out);
		for (int local = 0; local < 2; local++) {
			snprintf(line, sizeof(line), "%d %d 4 2 %d 2 127.0.0.1 %s%s", 2 * i + local,
				local, i, port, i + local == 0 ? " has" : "");
			cr_assert_eq(count_lines(text, line), 1, "no '%s' in:\n%s", line, text);
		}
		free(text);
	}
}

Test(run, ranks_of_two_nodes_all_reduce, .timeout = 60)
{
	struct run nodes[2];
	char port[16];

	snprintf(port, sizeof(port), "%d", free_port());
	for (int i = 0; i < 2; i++) {
		nodes[i] = files();
		/* Node 1 comes first: it waits for node 0. */
		start(&nodes[i], "--nnodes", "2", "--node-rank", i ? "0" : "1", "--master-addr",
			"127.0.0.1", "--master-port", port, "--nproc-per-node", "2", RONDO_EXAMPLE,
			NULL);
	}
	for (int i = 0; i < 2; i++) {
		finish(&nodes[i]);
		cr_assert_eq(nodes[i].status, 0);
	}
	assert_contains(nodes[0].out, "rank 2 of 4: the sum is 10\n");
	assert_contains(nodes[0].out, "rank 3 of 4: the sum is 10\n");
	assert_contains(nodes[1].out, "rank 0 of 4: the sum is 10\n");
	assert_contains(nodes[1].out, "rank 1 of 4: the sum is 10\n");
}

Test(run, a_port_in_use_is_said_before_any_rank_runs, .timeout = 30)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct run run = files();
	char port[16], line[128];

	cr_assert_eq(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	cr_assert_eq(listen(fd, 1), 0);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)&at, &size), 0);
	snprintf(port, sizeof(port), "%d", ntohs(at.sin_port));
	start(&run, "--master-port", port, SH("echo ran"), NULL);
	finish(&run);
	cr_assert_eq(run.status, 1);
	snprintf(line, sizeof(line),
		"rondo-run: cannot listen at 127.0.0.1:%s: Address already in use\n", port);
	assert_contains(run.err, line);
	cr_assert_eq(lseek(run.out, 0, SEEK_END), 0);
}

Test(run, a_failed_rank_gives_its_exit_status_and_a_line, .timeout = 30)
{
	struct run run = files();

	start(&run, "--nproc-per-node", "3", SH("[ $RANK = 2 ] && exit 42; exit 0"), NULL);
	finish(&run);
	cr_assert_eq(run.status, 42);
	assert_contains(run.err, "rondo-run: rank 2 (pid ");
	assert_contains(run.err, ") exited with status 42\n");
}

Test(run, a_killed_rank_gives_128_and_its_signal_and_a_line, .timeout = 30)
{
	struct run run = files();

	start(&run, "--nproc-per-node", "2", SH("[ $RANK = 1 ] && kill -9 $$; exit 0"), NULL);
	finish(&run);
	cr_assert_eq(run.status, 128 + SIGKILL);
	assert_contains(run.err, "rondo-run: rank 1 (pid ");
	assert_contains(run.err, ") was killed by signal 9 (Killed)\n");
}

/* ---- Launchers that are watched while they run ---------------------------------------------- */

/* Reads on, into text[size], until the part is there. */
static void read_until(int fd, char *text, size_t size, const char *part)
{
	size_t length = strlen(text);

	while (!strstr(text, part)) {
		struct pollfd ready = { .fd = fd, .events = POLLIN };
		ssize_t got;

		cr_assert_eq(
			poll(&ready, 1, 20000), 1, "'%s' does not come; so far:\n%s", part, text);
		got = read(fd, text + length, size - length - 1);
		cr_assert_gt(got, 0, "ended without '%s':\n%s", part, text);
		length += (size_t)got;
		text[length] = '\0';
	}
}

/* A pipe whose reading end the ranks find as fd 8; returns the writing end, close-on-exec. */
static int pipe_to_fd_8(void)
{
	int fds[2];

	cr_assert_eq(pipe2(fds, O_CLOEXEC), 0);
	cr_assert_eq(dup2(fds[0], 8), 8);
	return fds[1];
}

/* The launcher's stdout or stderr (*end) becomes a pipe; returns the reading end. */
static int pipe_from(int *end)
{
	int fds[2];

	cr_assert_eq(pipe2(fds, O_CLOEXEC), 0);
	*end = fds[1];
	return fds[0];
}

Test(run, a_rank_that_was_killed_outranks_one_that_failed_of_it, .timeout = 30)
{
	struct run run = files();
	int err = pipe_from(&run.err), go = pipe_to_fd_8();
	char text[4096] = "";

	start(&run, "--nproc-per-node", "2", SH("[ $RANK = 0 ] && exit 1; read go <&8; kill -9 $$"),
		NULL);
	read_until(err, text, sizeof(text), ") exited with status 1\n");
	cr_assert_eq(write(go, "\n", 1), 1);
	finish(&run);
	cr_assert_eq(run.status, 128 + SIGKILL);
}

/* Reads one line, without its end. */
static void read_line(int fd, char *line, size_t size)
{
	size_t length = 0;

	do {
		struct pollfd ready = { .fd = fd, .events = POLLIN };

		cr_assert_lt(length, size);
		cr_assert_eq(poll(&ready, 1, 20000), 1, "no line comes");
		cr_assert_eq(read(fd, line + length, 1), 1, "no more lines");
	} while (line[length++] != '\n');
	line[length - 1] = '\0';
}

/* The ranks say their pids, a line each: watches those processes. */
static void watch(int fd, struct pollfd *ends, int count)
{
	for (int i = 0; i < count; i++) {
		char line[64];

		read_line(fd, line, sizeof(line));
		ends[i] = (struct pollfd){ .fd = pidfd_open(atoi(line), 0), .events = POLLIN };
		cr_assert_geq(ends[i].fd, 0, "no process '%s'", line);
	}
}

/* Whether all of them end; those that do not are killed. */
static bool all_end(struct pollfd *ends, int count)
{
	int ended = 0;

	for (int i = 0; i < count; i++) {
		ended += poll(&ends[i], 1, 10000);
		pidfd_send_signal(ends[i].fd, SIGKILL, NULL, 0);
	}
	return ended == count;
}

#define SLEEPER "echo $$; exec sleep 1000"
/* Two processes, neither of which SIGTERM ends. */
#define STUBBORN "trap '' TERM; sh -c 'echo $$; exec sleep 1000' & echo $$; wait"

Test(run, a_failed_rank_ends_the_others_and_what_they_started, .timeout = 60)
{
	struct run run = files();
	int out = pipe_from(&run.out), go = pipe_to_fd_8();
	struct pollfd ends[3];

	start(&run, "--nproc-per-node", "3", "--grace", "1",
		SH("case $RANK in 0) " STUBBORN ";; 1) " SLEEPER ";; esac; read go <&8; exit 3"),
		NULL);
	watch(out, ends, 3);
	cr_assert_eq(write(go, "\n", 1), 1);
	finish(&run);
	cr_assert(all_end(ends, 3), "a process is left");
	cr_assert_eq(run.status, 3);
	assert_contains(run.err, ") exited with status 3\nrondo-run: rank 0 (pid ");
	assert_contains(run.err, ") is still there 1 s later: killing it\n");
}

Test(run, survivors_may_speak_before_they_are_ended, .timeout = 30)
{
	struct run run = files();
	int err = pipe_from(&run.err), go = pipe_to_fd_8();
	char text[4096] = "";

	start(&run, "--nproc-per-node", "2",
		SH("[ $RANK = 1 ] && exit 5; read go <&8; echo rank 1 is gone >&2; exit 1"), NULL);
	read_until(err, text, sizeof(text), ") exited with status 5\n");
	cr_assert_eq(write(go, "\n", 1), 1);
	read_until(err, text, sizeof(text), "\nrank 1 is gone\n");
	finish(&run);
	cr_assert_eq(run.status, 5);
}

Test(run, a_rank_that_ends_takes_along_what_it_started, .timeout = 30)
{
	struct run run = files();
	int out = pipe_from(&run.out), go = pipe_to_fd_8();
	struct pollfd ends[1];

	start(&run, SH("sh -c 'echo $$; exec sleep 1000' & read go <&8"), NULL);
	watch(out, ends, 1);
	cr_assert_eq(write(go, "\n", 1), 1);
	finish(&run);
	cr_assert(all_end(ends, 1), "a process is left");
	cr_assert_eq(run.status, 0);
}

Test(run, the_death_of_the_launcher_ends_the_ranks, .timeout = 30)
{
	struct run run = files();
	int out = pipe_from(&run.out);
	struct pollfd ends[2];

	start(&run, "--nproc-per-node", "2", SH(SLEEPER), NULL);
	watch(out, ends, 2);
	kill(run.pid, SIGKILL);
	cr_assert(all_end(ends, 2), "a rank outlives its launcher");
	finish(&run);
}

/* Nothing but the very signal ends these ranks within the test's time. */
Test(run, a_signal_is_passed_on_and_its_number_returned, .timeout = 30)
{
	struct run run = files();
	int out = pipe_from(&run.out);
	struct pollfd ends[2];

	start(&run, "--nproc-per-node", "2", "--grace", "1000", SH("trap '' TERM; " SLEEPER), NULL);
	watch(out, ends, 2);
	kill(run.pid, SIGINT);
	cr_assert(all_end(ends, 2), "a rank goes on");
	finish(&run);
	cr_assert_eq(run.status, 128 + SIGINT);
	assert_contains(run.err, "rondo-run: Interrupt: ending the ranks\n");
}

/* A shell that a signal does not end waits for its child, which it does. */
Test(run, a_signal_reaches_what_a_rank_started, .timeout = 30)
{
	struct run run = files();
	int out = pipe_from(&run.out);
	struct pollfd ends[1];

	start(&run, "--grace", "1000", SH("trap : INT; sh -c 'echo $$; exec sleep 1000'; exit 0"),
		NULL);
	watch(out, ends, 1);
	kill(run.pid, SIGINT);
	cr_assert(all_end(ends, 1), "the rank's child goes on");
	finish(&run);
	cr_assert_eq(run.status, 128 + SIGINT);
}

Test(run, a_second_signal_does_not_wait_for_the_grace, .timeout = 30)
{
	struct run run = files();
	int out = pipe_from(&run.out), err = pipe_from(&run.err);
	struct pollfd ends[2];
	char text[4096] = "";

	start(&run, "--grace", "1000", SH(STUBBORN), NULL);
	watch(out, ends, 2);
	kill(run.pid, SIGTERM);
	read_until(err, text, sizeof(text), "rondo-run: Terminated: ending the ranks\n");
	kill(run.pid, SIGTERM);
	finish(&run);
	cr_assert(all_end(ends, 2), "a process is left");
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
	struct run run = files();
	int out = pipe_from(&run.out), go = pipe_to_fd_8(), status;
	char line[64];

	start(&run, SH("echo $$; read go <&8"), NULL);
	read_line(out, line, sizeof(line));
	kill(run.pid, SIGTSTP);
	cr_assert_eq(waitpid(run.pid, &status, WUNTRACED), run.pid);
	cr_assert(WIFSTOPPED(status));
	/* It has been told, and does it when it next runs. */
	while (state_of(atoi(line)) != 'T')
		sched_yield();
	kill(run.pid, SIGCONT);
	cr_assert_eq(write(go, "\n", 1), 1);
	finish(&run);
	cr_assert_eq(run.status, 0);
}

/* ---- The limit on open files ----------------------------------------------------------------- */

static void limit_files(rlim_t soft, rlim_t hard)
{
	struct rlimit limit = { soft, hard };

	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static rlim_t hard_limit_on_files(void)
{
	struct rlimit limit;

	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	return limit.rlim_max;
}

Test(run, more_ranks_than_the_soft_limit_on_open_files_allows_run_with_that_limit, .timeout = 60)
{
	struct run run = files();
	char *text;

	limit_files(64, hard_limit_on_files());
	start(&run, "--nproc-per-node", "40", SH("ulimit -Sn"), NULL);
	finish(&run);
	cr_assert_eq(run.status, 0);
	text = text_of(run.out);
	cr_assert_eq(count_lines(text, "64"), 40, "%s", text);
	free(text);
}

Test(run, more_ranks_than_the_hard_limit_on_open_files_allows_are_refused, .timeout = 60)
{
	struct run run = files();

	limit_files(64, 64);
	start(&run, "--nproc-per-node", "40", SH("echo ran"), NULL);
	finish(&run);
	cr_assert_eq(run.status, 1);
	assert_contains(run.err, "rondo-run: 40 ranks on this node need 1");
	assert_contains(run.err,
		" open files, and the hard limit is 64: raise it (ulimit -Hn), or start fewer "
		"ranks here\n");
	cr_assert_eq(lseek(run.out, 0, SEEK_END), 0);
}

/* The line that a rank prints ends the poll() that runs; the next one is refused. */
Test(run, ranks_that_cannot_be_waited_for_are_killed_and_it_says_why, .timeout = 60)
{
	struct run run = files();
	int out = pipe_from(&run.out), go = pipe_to_fd_8();
	struct rlimit low = { 3, 3 };
	struct pollfd ends[2];

	start(&run, "--nproc-per-node", "2",
		SH("trap '' TERM; echo $$; read go <&8; echo on; exec sleep 1000"), NULL);
	watch(out, ends, 2);
	cr_assert_eq(prlimit(run.pid, RLIMIT_NOFILE, &low, NULL), 0);
	cr_assert_eq(write(go, "\n\n", 2), 2);
	cr_assert(all_end(ends, 2), "a rank goes on");
	finish(&run);
	cr_assert_eq(run.status, 1);
	assert_contains(run.err,
		"rondo-run: cannot wait for the ranks: poll: Invalid argument: killing them\n");
}

/* ---- Output and input ------------------------------------------------------------------------ */

#define LONG_LINES 100
#define LONG_LINE 20000

Test(run, lines_of_different_ranks_do_not_mix, .timeout = 60)
{
	struct run run = files();
	int lines[4] = { 0 };
	char *text, *at;

	/* Each line is written in two parts of more than a pipe's atomic write. */
	start(&run, "--nproc-per-node", "4",
		SH("half=$(head -c 10000 /dev/zero | tr '\\0' $RANK); for i in $(seq 100); do "
		   "printf %s $half; echo $half; done"),
		NULL);
	finish(&run);
	cr_assert_eq(run.status, 0);
	at = text = text_of(run.out);
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
	free(text);
}

Test(run, a_line_without_an_end_is_ended, .timeout = 30)
{
	struct run run = files();
	char *text;

	start(&run, "--nproc-per-node", "3", SH("printf a; printf b; echo; printf c"), NULL);
	finish(&run);
	text = text_of(run.out);
	cr_assert_eq(count_lines(text, "ab"), 3, "%s", text);
	cr_assert_eq(count_lines(text, "c"), 3, "%s", text);
	free(text);
}

Test(run, tags_name_the_rank_of_each_line, .timeout = 30)
{
	struct run run = files();
	char *text;

	start(&run, "--tag", "--nproc-per-node", "2", SH("echo a; echo b"), NULL);
	finish(&run);
	text = text_of(run.out);
	for (int i = 0; i < 2; i++) {
		cr_assert_eq(count_lines(text, i ? "[1] a" : "[0] a"), 1, "%s", text);
		cr_assert_eq(count_lines(text, i ? "[1] b" : "[0] b"), 1, "%s", text);
	}
	free(text);
}

Test(run, stdout_and_stderr_that_are_one_stay_in_order, .timeout = 30)
{
	struct run run = { .out = new_file() };
	char *text, *at;

	run.err = run.out;
	start(&run, "--nproc-per-node", "2",
		SH("[ $RANK = 1 ] && exit; for i in $(seq 500); do echo o$i; echo e$i >&2; done"),
		NULL);
	finish(&run);
	at = text = text_of(run.out);
	for (int i = 1; i <= 500; i++) {
		char pair[32];

		snprintf(pair, sizeof(pair), "o%d\ne%d\n", i, i);
		at = strstr(at, pair);
		cr_assert_not_null(at, "out of order at %d", i);
	}
	free(text);
}

Test(run, a_reader_that_leaves_ends_the_ranks_as_in_any_pipe, .timeout = 30)
{
	struct run run = files();
	int out = pipe_from(&run.out);
	char line[16];

	start(&run, "--nproc-per-node", "2", "yes", NULL);
	read_line(out, line, sizeof(line));
	close(run.out);
	close(out);
	finish(&run);
	cr_assert_eq(run.status, 128 + SIGPIPE);
}

Test(run, rank_0_alone_reads_the_input, .timeout = 30)
{
	struct run run = files();
	int fds[2];
	char *text;

	cr_assert_eq(pipe2(fds, O_CLOEXEC), 0);
	cr_assert_eq(dup2(fds[0], STDIN_FILENO), STDIN_FILENO);
	cr_assert_eq(write(fds[1], "input\n", 6), 6);
	close(fds[1]);
	start(&run, "--nproc-per-node", "2",
		SH("[ $RANK = 0 ] && echo 0 $(cat) || echo 1 $(readlink /proc/$$/fd/0)"), NULL);
	finish(&run);
	text = text_of(run.out);
	cr_assert_eq(count_lines(text, "0 input"), 1, "%s", text);
	cr_assert_eq(count_lines(text, "1 /dev/null"), 1, "%s", text);
	free(text);
}

Test(run, a_progress_line_on_a_terminal_makes_room_for_other_ranks_lines, .timeout = 30)
{
	struct run run = files();
	int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), go = pipe_to_fd_8();
	char text[4096] = "";

	cr_assert_geq(terminal, 0);
	cr_assert_eq(grantpt(terminal), 0);
	cr_assert_eq(unlockpt(terminal), 0);
	run.out = open(ptsname(terminal), O_RDWR | O_NOCTTY | O_CLOEXEC);
	cr_assert_geq(run.out, 0);
	start(&run, "--nproc-per-node", "2",
		SH("if [ $RANK = 1 ]; then read go <&8; echo hello; exit 3; fi; "
		   "test -t 1 && printf '\\r 10%%'; printf '\\r 20%%'; sleep 1000"),
		NULL);
	read_until(terminal, text, sizeof(text), "\r 10%\r 20%");
	cr_assert_eq(write(go, "\n", 1), 1);
	read_until(terminal, text, sizeof(text), "\r 10%\r 20%\r\033[Khello\r\n\r 20%");
	finish(&run);
	cr_assert_eq(run.status, 3);
}

/* ---- What is refused --------------------------------------------------------------------------
 */

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
		struct run run = files();
		char *text;

		start_with(&run, (char **)cases[i].arguments);
		finish(&run);
		cr_assert_eq(run.status, 2, "%s: status %d", cases[i].line, run.status);
		text = text_of(run.err);
		cr_assert_str_eq(text, cases[i].line);
		free(text);
	}
}

Test(run, a_program_that_is_not_there_is_said_once_as_a_shell_would, .timeout = 30)
{
	struct run run = files();
	char *text;

	/* Nor is there a line about the threads that it would have had. */
	unsetenv("OMP_NUM_THREADS");
	start(&run, "--nproc-per-node", "4", "./no-such-program", NULL);
	finish(&run);
	cr_assert_eq(run.status, 127);
	text = text_of(run.err);
	cr_assert_str_eq(
		text, "rondo-run: cannot run ./no-such-program: No such file or directory\n");
	free(text);
}

Test(run, what_follows_the_program_is_the_programs, .timeout = 30)
{
	struct run run = files();

	start(&run, "echo", "--nproc-per-node", "2", "--help", NULL);
	finish(&run);
	assert_contains(run.out, "--nproc-per-node 2 --help\n");
}

Test(run, help_and_version_answer, .timeout = 30)
{
	struct run version = files();

	for (int i = 0; i < 2; i++) {
		struct run help = files();

		start(&help, i ? "-h" : "--help", NULL);
		finish(&help);
		cr_assert_eq(help.status, 0);
		assert_contains(help.out, "--nproc-per-node N");
	}
	start(&version, "--version", NULL);
	finish(&version);
	assert_contains(version.out, "rondo-run " RONDO_VERSION "\n");
}
