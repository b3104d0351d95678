#include "run/rank.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "run/environment.h"

/* Both ends of a pipe or terminal for a rank's output. */
struct ends {
	int ours, theirs;
};

/*
 * With a terminal, the rank's C library flushes each line, and the rank may draw progress lines. It
 * is raw, because the real terminal translates.
 */
static bool open_terminal(struct ends *ends, int like)
{
	char name[64];
	struct termios settings;
	struct winsize size;

	ends->ours = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (ends->ours < 0)
		return false;
	if (grantpt(ends->ours) < 0 || unlockpt(ends->ours) < 0 ||
		ptsname_r(ends->ours, name, sizeof(name)) != 0)
		goto fail;
	ends->theirs = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (ends->theirs < 0)
		goto fail;
	if (tcgetattr(ends->theirs, &settings) == 0) {
		cfmakeraw(&settings);
		tcsetattr(ends->theirs, TCSANOW, &settings);
	}
	if (ioctl(like, TIOCGWINSZ, &size) == 0)
		ioctl(ends->theirs, TIOCSWINSZ, &size);
	return true;
fail:
	close(ends->ours);
	return false;
}

static bool open_ends(struct ends *ends, const struct sink *sink)
{
	int fds[2];

	if (sink->terminal && open_terminal(ends, sink->fd))
		return true;
	if (pipe2(fds, O_CLOEXEC) < 0)
		return false;
	*ends = (struct ends){ .ours = fds[0], .theirs = fds[1] };
	return true;
}

static void close_ends(struct ends *ends)
{
	if (ends->ours >= 0)
		close(ends->ours);
	if (ends->theirs >= 0)
		close(ends->theirs);
}

static void become_rank(
	const struct rank *rank, const struct rank_start *start, pid_t launcher, int out, int err)
{
	setpgid(0, 0);
	/* A launcher that died before this call is no longer the parent. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != launcher)
		_exit(128 + SIGKILL);
	if (!start->reads_input) {
		int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

		if (null >= 0)
			dup2(null, STDIN_FILENO);
	}
	if (out >= 0)
		dup2(out, STDOUT_FILENO);
	if (err >= 0)
		dup2(err, STDERR_FILENO);
	if (rank->number == 0 && start->rendezvous_fd >= 0)
		fcntl(start->rendezvous_fd, F_SETFD, 0);
	environment_set(start->options, start->world, rank->number - start->world->first,
		start->rendezvous_fd);
	/* A shell makes its background jobs ignore some of these. */
	signal(SIGPIPE, SIG_DFL);
	signal(SIGINT, SIG_DFL);
	signal(SIGQUIT, SIG_DFL);
	signal(SIGHUP, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	setrlimit(RLIMIT_NOFILE, start->files);
	sigprocmask(SIG_SETMASK, start->mask, NULL);
	execvp(start->options->command[0], start->options->command);
}

/* Waits until the child runs the program: 0, or the errno of its failure. */
static int exec_errno(int fd)
{
	int error = 0;

	while (read(fd, &error, sizeof(error)) < 0 && errno == EINTR)
		;
	return error;
}

static int report_cannot_run(const char *program, int error)
{
	fprintf(stderr, "rondo-run: cannot run %s: %s%s\n", program, strerror(error),
		error == ENOENT && !strchr(program, '/')
			? " (it is not in PATH; a program that is here is ./program)"
			: "");
	return error == ENOENT ? 127 : 126;
}

/* Returns the exit status for a lack of resources. */
static int report_cannot_start(int number)
{
	fprintf(stderr, "rondo-run: cannot start rank %d: %m\n", number);
	return 1;
}

static bool fork_rank(
	struct rank *rank, const struct rank_start *start, int out, int err, int *status)
{
	int report[2], error;
	pid_t launcher = getpid();

	if (pipe2(report, O_CLOEXEC) < 0)
		goto fail;
	rank->pid = fork();
	if (rank->pid == 0) {
		become_rank(rank, start, launcher, out, err);
		error = errno;
		if (write(report[1], &error, sizeof(error)) < 0)
			_exit(126);
		_exit(127);
	}
	close(report[1]);
	if (rank->pid < 0) {
		close(report[0]);
		goto fail;
	}
	error = exec_errno(report[0]);
	close(report[0]);
	if (error) {
		waitpid(rank->pid, NULL, 0);
		*status = report_cannot_run(start->options->command[0], error);
		return false;
	}
	rank->pidfd = pidfd_open(rank->pid, 0);
	if (rank->pidfd >= 0)
		return true;
	*status = report_cannot_start(rank->number);
	kill(-rank->pid, SIGKILL);
	waitpid(rank->pid, NULL, 0);
	return false;
fail:
	*status = report_cannot_start(rank->number);
	return false;
}

bool rank_start(struct rank *rank, int local_rank, const struct rank_start *start, int *status)
{
	int number = start->world->first + local_rank;
	struct ends out = { -1, -1 }, err = { -1, -1 };
	bool started;

	*rank = (struct rank){ .number = number, .out = { .fd = -1 }, .err = { .fd = -1 } };
	if ((start->out && !open_ends(&out, start->out)) ||
		(start->err && start->err != start->out && !open_ends(&err, start->err))) {
		*status = report_cannot_start(number);
		close_ends(&out);
		return false;
	}
	started = fork_rank(rank, start, out.theirs,
		start->err == start->out ? out.theirs : err.theirs, status);
	if (!started) {
		close_ends(&out);
		close_ends(&err);
		return false;
	}
	if (out.ours >= 0) {
		lines_init(&rank->out, out.ours, start->out, start->tag);
		close(out.theirs);
	}
	if (err.ours >= 0) {
		lines_init(&rank->err, err.ours, start->err, start->tag);
		close(err.theirs);
	}
	return true;
}

void rank_signal(const struct rank *rank, int signal)
{
	if (!rank->ended)
		kill(-rank->pid, signal);
}

/* The rank has ended, so its output is complete. Bounded: a process that left its group may go
   on. */
static void read_rest(struct lines *lines)
{
	for (int reads = 0; reads < 64 && lines_read(lines); reads++)
		;
}

void rank_reap(struct rank *rank)
{
	siginfo_t end = { 0 };

	/* Before the reaping, no other process or group can get its number. */
	kill(-rank->pid, SIGKILL);
	while (waitid(P_PIDFD, (id_t)rank->pidfd, &end, WEXITED) < 0 && errno == EINTR)
		;
	rank->ended = true;
	rank->by_signal = end.si_code != CLD_EXITED;
	rank->status = rank->by_signal ? 128 + end.si_status : end.si_status;
	close(rank->pidfd);
	rank->pidfd = -1;
	read_rest(&rank->out);
	read_rest(&rank->err);
}

void rank_describe_end(const struct rank *rank, char *text, size_t size)
{
	if (rank->by_signal)
		snprintf(text, size, "rank %d (pid %d) was killed by signal %d (%s)", rank->number,
			(int)rank->pid, rank->status - 128, strsignal(rank->status - 128));
	else
		snprintf(text, size, "rank %d (pid %d) exited with status %d", rank->number,
			(int)rank->pid, rank->status);
}
