/*
 * rondo_spawn(): the ranks of a job as children of this process.
 *
 * The rendezvous socket listens before any rank runs, and rank 0 inherits it: the port cannot be
 * taken meanwhile, and no rank comes too early.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/settings.h"

/* When one rank has failed, the others may say what they saw of it; then SIGTERM; then SIGKILL. */
#define LAST_WORDS_MS 2000
#define GRACE_MS 5000

struct brood {
	int size, born, alive;
	pid_t *pids; /* [size]; 0 once reaped */
	struct pollfd *polls; /* [size]: pidfds; -1 once reaped */
	int listening, port;
	int status; /* the first failed rank's; 0: none has failed */
	bool by_signal; /* it was killed */
	int next_signal; /* what the others get at next_ms; 0: nothing */
	int64_t next_ms;
};

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int listen_here(struct brood *brood)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(at);

	brood->listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (brood->listening < 0)
		return rd_fail_errno("cannot make the rendezvous socket");
	if (bind(brood->listening, (struct sockaddr *)&at, sizeof(at)) < 0 ||
		listen(brood->listening, SOMAXCONN) < 0 ||
		getsockname(brood->listening, (struct sockaddr *)&at, &size) < 0)
		return rd_fail_errno("cannot listen at 127.0.0.1");
	brood->port = ntohs(at.sin_port);
	return 0;
}

static void set_number(const char *name, int value)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", value);
	setenv(name, text, 1);
}

static void set_environment(const struct brood *brood, int rank)
{
	set_number("RANK", rank);
	set_number("LOCAL_RANK", rank);
	set_number("WORLD_SIZE", brood->size);
	set_number("LOCAL_WORLD_SIZE", brood->size);
	setenv("MASTER_ADDR", "127.0.0.1", 1);
	set_number("MASTER_PORT", brood->port);
	if (rank == 0)
		set_number("RONDO_RENDEZVOUS_FD", brood->listening);
	else
		unsetenv("RONDO_RENDEZVOUS_FD");
}

static void live(
	const struct brood *brood, int rank, pid_t parent, int (*run)(void *), void *argument)
{
	int status;

	/* Asked for after the fork: a parent that died before then is seen as another parent. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
		_exit(128 + SIGKILL);
	if (rank > 0)
		close(brood->listening);
	set_environment(brood, rank);
	status = run(argument);
	/* Not exit(): what the parent registered with atexit() is the parent's. */
	fflush(NULL);
	_exit(status);
}

static int bear(struct brood *brood, int (*run)(void *), void *argument)
{
	pid_t parent = getpid();

	/* What waits in our buffers would be written by every child as well. */
	fflush(NULL);
	for (int rank = 0; rank < brood->size; rank++) {
		pid_t pid = fork();

		if (pid == 0)
			live(brood, rank, parent, run, argument);
		if (pid < 0)
			return rd_fail_errno("cannot fork rank %d", rank);
		brood->pids[rank] = pid;
		brood->born++;
	}
	/* Only now, so that no child inherits another's. */
	for (int rank = 0; rank < brood->size; rank++) {
		brood->polls[rank].fd = pidfd_open(brood->pids[rank], 0);
		brood->polls[rank].events = POLLIN;
		if (brood->polls[rank].fd < 0)
			return rd_fail_errno("cannot watch rank %d", rank);
	}
	return 0;
}

static void signal_alive(const struct brood *brood, int signal)
{
	for (int rank = 0; rank < brood->born; rank++) {
		if (brood->pids[rank] > 0)
			kill(brood->pids[rank], signal);
	}
}

/*
 * A killed rank's end can be the last that we see: its peers notice at once, while the kernel is
 * still taking down its memory. So a death by signal outranks an exit.
 */
static void blame(struct brood *brood, int wait_status)
{
	bool by_signal = WIFSIGNALED(wait_status);

	if (brood->status == 0) {
		brood->next_signal = SIGTERM;
		brood->next_ms = now_ms() + LAST_WORDS_MS;
	}
	if (brood->status == 0 || (by_signal && !brood->by_signal)) {
		brood->status = by_signal ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
		brood->by_signal = by_signal;
	}
}

static int reap(struct brood *brood, int rank)
{
	/* Once the others have been told to end, that is why they do. */
	bool told = brood->status != 0 && brood->next_signal != SIGTERM;
	int wait_status;
	pid_t got;

	do {
		got = waitpid(brood->pids[rank], &wait_status, 0);
	} while (got < 0 && errno == EINTR);
	brood->pids[rank] = 0;
	brood->alive--;
	if (got < 0)
		return rd_fail_errno("cannot learn how rank %d ended", rank);
	if (wait_status != 0 && !told)
		blame(brood, wait_status);
	return 0;
}

static void hasten(struct brood *brood)
{
	if (!brood->next_signal || now_ms() < brood->next_ms)
		return;
	signal_alive(brood, brood->next_signal);
	/* A stopped process takes no SIGTERM; SIGKILL it takes. */
	brood->next_signal = brood->next_signal == SIGTERM ? SIGKILL : 0;
	brood->next_ms = now_ms() + GRACE_MS;
}

static int wait_for_one(struct brood *brood)
{
	int64_t left = brood->next_ms - now_ms();
	int timeout_ms = !brood->next_signal ? -1 : left > 0 ? (int)left : 0;

	if (poll(brood->polls, (nfds_t)brood->size, timeout_ms) < 0)
		return errno == EINTR ? 0 : rd_fail_errno("cannot wait for the ranks");
	for (int rank = 0; rank < brood->size; rank++) {
		if (!brood->polls[rank].revents)
			continue;
		close(brood->polls[rank].fd);
		brood->polls[rank] = (struct pollfd){ .fd = -1 };
		int err = reap(brood, rank);

		if (err)
			return err;
	}
	hasten(brood);
	return 0;
}

static void abandon(struct brood *brood)
{
	signal_alive(brood, SIGKILL);
	for (int rank = 0; rank < brood->born; rank++) {
		if (brood->polls[rank].fd >= 0)
			close(brood->polls[rank].fd);
		if (brood->pids[rank] > 0)
			waitpid(brood->pids[rank], NULL, 0);
	}
}

static int raise_brood(struct brood *brood, int (*run)(void *), void *argument)
{
	int err = listen_here(brood);

	if (!err)
		err = bear(brood, run, argument);
	/* From now on it is rank 0's alone: when that dies, those who come are refused. */
	if (brood->listening >= 0)
		close(brood->listening);
	brood->alive = brood->born;
	while (!err && brood->alive > 0)
		err = wait_for_one(brood);
	if (err)
		abandon(brood);
	return err ? err : brood->status;
}

int rondo_spawn(int size, int (*run)(void *argument), void *argument)
{
	struct brood brood = { .size = size, .listening = -1 };
	int result;

	if (size < 1 || size > RD_SIZE_MAX)
		return rd_fail(
			RONDO_INVALID, "rondo_spawn: size %d is not in 1..%d", size, RD_SIZE_MAX);
	if (!run)
		return rd_fail(RONDO_INVALID, "rondo_spawn: run is NULL");
	brood.pids = calloc((size_t)size, sizeof(*brood.pids));
	brood.polls = malloc((size_t)size * sizeof(*brood.polls));
	if (!brood.pids || !brood.polls) {
		result = rd_fail(RONDO_MEMORY, "rondo_spawn: no memory for %d ranks", size);
	} else {
		for (int rank = 0; rank < size; rank++)
			brood.polls[rank] = (struct pollfd){ .fd = -1 };
		result = raise_brood(&brood, run, argument);
	}
	free(brood.pids);
	free(brood.polls);
	return result;
}
