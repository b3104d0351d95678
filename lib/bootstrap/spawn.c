/*
 * rondo_spawn(): the ranks of a job as children of this process.
 *
 * The rendezvous socket listens before any rank runs, and rank 0 inherits it: the port cannot be
 * taken meanwhile, and no rank comes too early.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/pidfd.h"
#include "base/port.h"
#include "base/settings.h"
#include "bootstrap/control.h"
#include "secure/secret.h"
#include "secure/tls.h"

/* After one rank has failed, the others have time to report it; then SIGTERM; then SIGKILL. */
#define REPORT_MS 2000
#define GRACE_MS 5000
/* The kernel may keep a killed one, in state D. */
#define LEAVE_MS 10000

struct spawned_job {
	int size, started, alive;
	pid_t *pids; /* [size]; 0 once reaped */
	struct pollfd *polls; /* [size]: pidfds; -1 once reaped */
	const char *address; /* where ranks meet */
	int listen_fd, port;
	int secret_fd;
	int master_port; /* free, for the program */
	int status; /* the first failed rank's; 0: none has failed */
	bool by_signal; /* that rank was killed */
	int next_signal; /* to the others, at next_ms; 0: none */
	bool killed; /* those that are there at next_ms are left */
	int64_t next_ms;
};

static int open_listener(struct spawned_job *job)
{
	job->address = rd_loopback();
	job->listen_fd = rd_listen_on_loopback(&job->port);
	job->master_port = job->listen_fd < 0 ? -1 : rd_port_beside(job->listen_fd);
	return job->master_port > 0 ? 0 : rd_fail_errno("cannot listen at %s", job->address);
}

static void set_number(const char *name, int value)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", value);
	setenv(name, text, 1);
}

static void set_environment(const struct spawned_job *job, int rank)
{
	set_number("RANK", rank);
	set_number("LOCAL_RANK", rank);
	set_number("WORLD_SIZE", job->size);
	set_number("LOCAL_WORLD_SIZE", job->size);
	unsetenv("RONDO_LAUNCHER");
	setenv("MASTER_ADDR", job->address, 1);
	set_number("MASTER_PORT", job->master_port);
	set_number("RONDO_PORT", job->port);
	/* A rank may start another program, which continues as the rank. */
	fcntl(job->secret_fd, F_SETFD, 0);
	set_number("RONDO_SECRET_FD", job->secret_fd);
	if (rank == 0)
		set_number("RONDO_RENDEZVOUS_FD", job->listen_fd);
	else
		unsetenv("RONDO_RENDEZVOUS_FD");
}

static void run_rank(
	const struct spawned_job *job, int rank, pid_t parent, int (*run)(void *), void *argument)
{
	int status;

	/* Requested after the fork: where the parent died before that, getppid() differs. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
		_exit(128 + SIGKILL);
	if (rank > 0)
		close(job->listen_fd);
	set_environment(job, rank);
	status = run(argument);
	/* Not exit(): functions that the parent registered with atexit() are for the parent. */
	fflush(NULL);
	rd_control_leave_all();
	_exit(status);
}

static int start_ranks(struct spawned_job *job, int (*run)(void *), void *argument)
{
	pid_t parent = getpid();

	/* Else each child would write the bytes in our buffers once more. */
	fflush(NULL);
	for (int rank = 0; rank < job->size; rank++) {
		pid_t pid = fork();

		if (pid == 0)
			run_rank(job, rank, parent, run, argument);
		if (pid < 0)
			return rd_fail_errno("cannot fork rank %d", rank);
		job->pids[rank] = pid;
		job->started++;
	}
	/* Opened only now, so that no child inherits the pidfd of another. */
	for (int rank = 0; rank < job->size; rank++) {
		job->polls[rank].fd = rd_pidfd_open(job->pids[rank]);
		job->polls[rank].events = POLLIN;
		if (job->polls[rank].fd < 0)
			return rd_fail_errno("cannot watch rank %d by a pidfd", rank);
	}
	return 0;
}

static void signal_alive(const struct spawned_job *job, int signal)
{
	for (int rank = 0; rank < job->started; rank++) {
		if (job->pids[rank] > 0)
			kill(job->pids[rank], signal);
	}
}

/*
 * A killed rank may be reaped last: its peers notice at once and exit, while the kernel still frees
 * its memory. So a death by signal outranks an exit.
 */
static void record_failure(struct spawned_job *job, int wait_status)
{
	bool by_signal = WIFSIGNALED(wait_status);

	if (job->status == 0) {
		job->next_signal = SIGTERM;
		job->next_ms = rd_clock_ms() + REPORT_MS;
	}
	if (job->status == 0 || (by_signal && !job->by_signal)) {
		job->status = by_signal ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
		job->by_signal = by_signal;
	}
}

static int reap_rank(struct spawned_job *job, int rank)
{
	/* Ranks that end after SIGTERM was sent end for that reason. */
	bool signaled = job->status != 0 && job->next_signal != SIGTERM;
	int wait_status;
	pid_t got;

	do {
		got = waitpid(job->pids[rank], &wait_status, 0);
	} while (got < 0 && errno == EINTR);
	job->pids[rank] = 0;
	job->alive--;
	if (got < 0)
		return rd_fail_errno("cannot learn how rank %d ended", rank);
	if (wait_status != 0 && !signaled)
		record_failure(job, wait_status);
	return 0;
}

static void leave(struct spawned_job *job, int rank)
{
	rd_log(RD_WARN, RD_BOOTSTRAP,
		"rank %d (pid %d) does not end %d s after SIGKILL: leaving it", rank,
		(int)job->pids[rank], LEAVE_MS / 1000);
	job->pids[rank] = 0;
	job->alive--;
}

static void signal_next(struct spawned_job *job)
{
	if (!job->next_signal || rd_clock_ms() < job->next_ms)
		return;
	for (int rank = 0; job->killed && rank < job->size; rank++)
		if (job->pids[rank] > 0)
			leave(job, rank);
	signal_alive(job, job->next_signal);
	/* A stopped process does not handle SIGTERM, but SIGKILL ends it. */
	job->killed = job->next_signal == SIGKILL;
	job->next_signal = SIGKILL;
	job->next_ms = rd_clock_ms() + (job->killed ? LEAVE_MS : GRACE_MS);
}

static int wait_for_one(struct spawned_job *job)
{
	int64_t left = job->next_ms - rd_clock_ms();
	int timeout_ms = !job->next_signal ? -1 : left > 0 ? (int)left : 0;

	if (poll(job->polls, (nfds_t)job->size, timeout_ms) < 0)
		return errno == EINTR ? 0 : rd_fail_errno("cannot wait for the ranks");
	for (int rank = 0; rank < job->size; rank++) {
		if (!job->polls[rank].revents)
			continue;
		close(job->polls[rank].fd);
		job->polls[rank] = (struct pollfd){ .fd = -1 };
		int err = reap_rank(job, rank);

		if (err)
			return err;
	}
	signal_next(job);
	return 0;
}

static void kill_ranks(struct spawned_job *job)
{
	int64_t until_ms = rd_clock_ms() + LEAVE_MS;

	signal_alive(job, SIGKILL);
	for (int rank = 0; rank < job->started; rank++) {
		if (job->pids[rank] > 0 && rd_reap_killed(job->pids[rank], NULL, until_ms) < 0 &&
			errno == ETIMEDOUT)
			leave(job, rank);
	}
}

static int run_job(struct spawned_job *job, int (*run)(void *), void *argument)
{
	int err = open_listener(job);

	if (!err)
		err = rd_secret_make(&job->secret_fd);
	/* Ranks share what OpenSSL allocates at its start. They report it if there is none. */
	if (!err && job->size > 1)
		(void)rd_tls_load();
	if (!err)
		err = start_ranks(job, run, argument);
	/* From now on rank 0 alone holds it: when rank 0 dies, connections are refused. */
	if (job->listen_fd >= 0)
		close(job->listen_fd);
	if (job->secret_fd >= 0)
		close(job->secret_fd);
	job->alive = job->started;
	while (!err && job->alive > 0)
		err = wait_for_one(job);
	if (err)
		kill_ranks(job);
	for (int rank = 0; rank < job->started; rank++)
		if (job->polls[rank].fd >= 0)
			close(job->polls[rank].fd);
	return err ? err : job->status;
}

/* With SIGCHLD ignored, as cron's wrappers and daemons hand it down, the kernel would discard the
   ranks' statuses. The program has no threads, so none sees this. */
static struct sigaction heed_children(void)
{
	struct sigaction found, heeding;

	sigaction(SIGCHLD, NULL, &found);
	heeding = found;
	heeding.sa_flags &= ~SA_NOCLDWAIT;
	if (found.sa_handler == SIG_IGN)
		heeding.sa_handler = SIG_DFL;
	sigaction(SIGCHLD, &heeding, NULL);
	return found;
}

int rondo_spawn(int size, int (*run)(void *argument), void *argument)
{
	struct spawned_job job = { .size = size, .listen_fd = -1, .secret_fd = -1 };
	int result;

	if (size < 1 || size > RD_SIZE_MAX)
		return rd_fail(
			RONDO_INVALID, "rondo_spawn: size %d is not in 1..%d", size, RD_SIZE_MAX);
	if (!run)
		return rd_fail(RONDO_INVALID, "rondo_spawn: run is NULL");
	job.pids = calloc((size_t)size, sizeof(*job.pids));
	job.polls = malloc((size_t)size * sizeof(*job.polls));
	if (!job.pids || !job.polls) {
		result = rd_fail(RONDO_MEMORY, "rondo_spawn: no memory for %d ranks", size);
	} else {
		struct sigaction found = heed_children();

		for (int rank = 0; rank < size; rank++)
			job.polls[rank] = (struct pollfd){ .fd = -1 };
		result = run_job(&job, run, argument);
		sigaction(SIGCHLD, &found, NULL);
	}
	free(job.pids);
	free(job.polls);
	return result;
}
