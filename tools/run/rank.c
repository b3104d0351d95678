#include "run/rank.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "base/pidfd.h"
#include "run/bind.h"
#include "run/command.h"

_Static_assert(sizeof(((struct failure *)NULL)->log) == LOG_PATH_SIZE, "a log's path fits");

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

	if (sink && sink->terminal && open_terminal(ends, sink->fd))
		return true;
	if (pipe2(fds, O_CLOEXEC) < 0)
		return false;
	*ends = (struct ends){ .ours = fds[0], .theirs = fds[1] };
	return true;
}

/* Opens an output of a rank. Both stay -1 if it inherits ours. */
static bool open_output(struct ends *ends, struct output *output, const struct sink *sink)
{
	switch (output->mode) {
	case OUTPUT_INHERIT:
		return true;
	case OUTPUT_REDIRECT:
		ends->theirs = output->file; /* we do not need it */
		output->file = -1;
		return true;
	case OUTPUT_HIDE:
		return open_ends(ends, NULL);
	case OUTPUT_PRINT:
	case OUTPUT_TEE:
		break;
	}
	return open_ends(ends, sink);
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
	struct slice slice;

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
	if (start->secret_fd >= 0)
		fcntl(start->secret_fd, F_SETFD, 0);
	slice_init(&slice, start->processors, start->options->bind, start->world->local_size,
		rank->local_rank);
	slice_apply(&slice, rank->number);
	environment_set(start->options, start->world, rank->local_rank, slice.threads,
		start->rendezvous_fd, start->secret_fd);
	setenv("TORCHELASTIC_ERROR_FILE", rank->logs.error_path, 1);
	/* The agent is in the background of its terminal, and ignores SIGTTOU to print there. So is
	   a rank that prints there itself. */
	if (out >= 0 && err >= 0)
		signal(SIGTTOU, SIG_DFL);
	/* A shell makes its background jobs ignore some of these. SIGHUP is left to nohup. */
	signal(SIGPIPE, SIG_DFL);
	signal(SIGINT, SIG_DFL);
	signal(SIGQUIT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	signal(SIGXFSZ, SIG_DFL);
	setrlimit(RLIMIT_NOFILE, start->files);
	sigprocmask(SIG_SETMASK, start->mask, NULL);
	command_execute(start->options, rank->local_rank);
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
		*status = report_cannot_run(command_file(start->options), error);
		return false;
	}
	rank->pidfd = rd_pidfd_open(rank->pid);
	if (rank->pidfd >= 0)
		return true;
	fprintf(stderr, "rondo-run: cannot watch rank %d by a pidfd: %m\n", rank->number);
	*status = 1;
	kill(-rank->pid, SIGKILL);
	waitpid(rank->pid, NULL, 0);
	return false;
fail:
	*status = report_cannot_start(rank->number);
	return false;
}

/* Six colours. Red is left to errors. */
static const char *colour_of(int local_rank)
{
	static const char *const colours[] = { "36", "33", "32", "35", "34", "96" };

	return colours[local_rank % (int)(sizeof(colours) / sizeof(colours[0]))];
}

/* Writes what stands before each line: torchrun's prefix where it tees, or the rank on request. */
static void write_tag(const struct rank *rank, const struct rank_start *start,
	const struct output *output, const struct sink *sink, char tag[TAG_SIZE])
{
	const char *role = start->options->role;
	const char *end = start->options->tag ? " " : "";
	char name[TAG_SIZE - 16] = "";

	if (start->options->tag)
		snprintf(name, sizeof(name), "[%d]", rank->number);
	else if (output->mode == OUTPUT_TEE)
		snprintf(name, sizeof(name), "[%.60s%d]:", role, rank->local_rank);
	if (*name && sink->colours)
		snprintf(tag, TAG_SIZE, "\033[%sm%s\033[0m%s", colour_of(rank->local_rank), name,
			end);
	else
		snprintf(tag, TAG_SIZE, "%s%s", name, end);
}

static void listen_to(struct rank *rank, const struct rank_start *start, struct lines *lines,
	const struct output *output, struct sink *sink, int fd)
{
	char tag[TAG_SIZE];

	if (fd < 0)
		return;
	write_tag(rank, start, output, sink, tag);
	lines_init(lines, fd, output->mode == OUTPUT_HIDE ? NULL : sink, tag);
	lines->log = output->file;
}

static bool start_with_outputs(struct rank *rank, const struct rank_start *start, struct ends *out,
	struct ends *err, int *status)
{
	struct rank_logs *logs = &rank->logs;
	struct console *console = start->console;
	/* Printed to one place, both are one, so that they stay in order. */
	bool one = logs->out.mode == OUTPUT_PRINT && logs->err.mode == OUTPUT_PRINT &&
		   console->messages == &console->out;

	if (!open_output(out, &logs->out, &console->out) ||
		(!one && !open_output(err, &logs->err, &console->err))) {
		*status = report_cannot_start(rank->number);
		return false;
	}
	if (!fork_rank(rank, start, out->theirs, one ? out->theirs : err->theirs, status))
		return false;
	listen_to(rank, start, &rank->out, &logs->out, &console->out, out->ours);
	listen_to(rank, start, &rank->err, &logs->err, console->messages, err->ours);
	out->ours = err->ours = -1;
	if (one)
		rank->out.tail = &rank->tail;
	else
		rank->err.tail = &rank->tail;
	return true;
}

bool rank_start(struct rank *rank, int local_rank, const struct rank_start *start, int *status)
{
	struct ends out = { -1, -1 }, err = { -1, -1 };
	bool started;

	*rank = (struct rank){ .number = start->world->first + local_rank,
		.local_rank = local_rank,
		.out = { .fd = -1 },
		.err = { .fd = -1 } };
	if (!logs_open(start->logs, local_rank, start->world->local_size, &rank->logs)) {
		*status = 1;
		return false;
	}
	started = start_with_outputs(rank, start, &out, &err, status);
	close_ends(&out);
	close_ends(&err);
	if (!started)
		rank_logs_close(&rank->logs);
	return started;
}

void rank_signal(const struct rank *rank, int signal)
{
	if (!rank->ended)
		kill(-rank->pid, signal);
}

static void close_rank(struct rank *rank)
{
	rank->ended = true;
	close(rank->pidfd);
	rank->pidfd = -1;
	lines_read_rest(&rank->out);
	lines_read_rest(&rank->err);
}

void rank_leave(struct rank *rank)
{
	rank->left = true;
	close_rank(rank);
}

bool rank_reap(struct rank *rank)
{
	siginfo_t end = { 0 };

	/* Before the reaping, no other process or group can get its number. */
	kill(-rank->pid, SIGKILL);
	rank->held = waitid(RD_P_PIDFD, (id_t)rank->pidfd, &end, WEXITED | WNOHANG) == 0 &&
		     end.si_pid == 0;
	if (rank->held)
		return false;
	rank->by_signal = end.si_code != CLD_EXITED;
	rank->status = rank->by_signal ? 128 + end.si_status : end.si_status;
	close_rank(rank);
	return true;
}

void rank_failure(const struct rank *rank, const struct logs *logs, struct failure *failure)
{
	struct tail written;
	const struct tail *tail = &rank->tail;

	*failure = (struct failure){
		.rank = rank->number,
		.local_rank = rank->local_rank,
		.pid = rank->pid,
		.status = rank->status,
		.by_signal = rank->by_signal,
	};
	if (rank->logs.err.mode == OUTPUT_REDIRECT || rank->logs.err.mode == OUTPUT_TEE)
		logs_path(logs, rank->local_rank, "stderr.log", failure->log);
	if (rank->logs.err.mode == OUTPUT_REDIRECT && tail_read_file(&written, failure->log))
		tail = &written;
	tail_text(tail, failure->tail);
	failure_read_message(failure, rank->logs.error_path);
}

void rank_finish(struct rank *rank)
{
	lines_finish(&rank->out);
	lines_finish(&rank->err);
	rank_logs_close(&rank->logs);
}
