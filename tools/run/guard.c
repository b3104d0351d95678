#include "run/guard.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "run/hosts/remote.h"
#include "run/orphans.h"

struct guard {
	struct orphans orphans;
	pid_t agent;
	const sigset_t *requests;
	int signal_fd, front_fd;
	int64_t requested_ms; /* when the first request came; 0: none has */
	int requested; /* the signal of that request */
	bool stops; /* SIGTSTP was passed on */
	bool stopped; /* the agent is */
};

/* Stops with the agent, which has stopped its ranks. An agent that another process stops may
   continue without us. */
static void stop_and_continue(struct guard *guard)
{
	if (!guard->stops)
		return;
	guard->stops = false;
	raise(SIGSTOP);
	kill(guard->agent, SIGCONT);
}

static void on_end(struct guard *guard, const siginfo_t *end)
{
	int signal;

	if (end->si_code == CLD_EXITED)
		_exit(end->si_status);
	/* Its children are ours now. */
	orphans_kill(&guard->orphans, NULL, NULL);
	/* A request ends an agent that does not catch signals yet. */
	signal = end->si_status == GUARD_REQUEST ? guard->requested : end->si_status;
	fprintf(stderr, "rondo-run: killed by signal %d (%s)\n", signal, strsignal(signal));
	_exit(128 + signal);
}

/* Exits if the agent has ended. */
static void on_child(struct guard *guard)
{
	for (;;) {
		siginfo_t change = { 0 };

		if (waitid(P_PID, (id_t)guard->agent, &change,
			    WEXITED | WSTOPPED | WCONTINUED | WNOHANG) < 0 ||
			change.si_pid == 0)
			return;
		if (change.si_code != CLD_STOPPED && change.si_code != CLD_CONTINUED)
			on_end(guard, &change);
		guard->stopped = change.si_code == CLD_STOPPED;
		if (guard->stopped)
			stop_and_continue(guard);
		if (guard->stopped && guard->requested_ms)
			kill(guard->agent, SIGCONT);
	}
}

static void request(struct guard *guard, int signal)
{
	union sigval value = { .sival_int = guard->requested_ms ? 0 : signal };

	if (!guard->requested_ms) {
		guard->requested_ms = rd_clock_ms();
		guard->requested = signal;
	}
	/* The agent takes the plain signal as a first request. */
	if (sigqueue(guard->agent, GUARD_REQUEST, value) < 0)
		kill(guard->agent, signal);
	/* A stopped agent could not end. One that is not stopped may have a tracer that stops it,
	   as LeakSanitizer does at an exit: it would wait for ever. */
	on_child(guard);
	if (guard->stopped)
		kill(guard->agent, SIGCONT);
}

static void pass_on(struct guard *guard, int signal)
{
	if (sigismember(guard->requests, signal)) {
		if (!guard->requested_ms || rd_clock_ms() - guard->requested_ms >= GUARD_REQUEST_MS)
			request(guard, signal);
		return;
	}
	guard->stops |= signal == SIGTSTP;
	/* These are about terminals and stops, and the agent has a group of its own. */
	if (signal != SIGCONT && signal != SIGTTIN && signal != SIGTTOU)
		kill(guard->agent, signal);
}

/* The front sends each request once. Its end is a request only where it sent none before. */
static void on_front(struct guard *guard)
{
	int signal = remote_signal(&guard->front_fd);

	if (guard->front_fd < 0 ? !guard->requested_ms : signal != 0)
		request(guard, signal);
}

static void on_signal(struct guard *guard)
{
	struct signalfd_siginfo got;

	if (read(guard->signal_fd, &got, sizeof(got)) != sizeof(got))
		return;
	if (got.ssi_signo == SIGCHLD)
		on_child(guard);
	else
		pass_on(guard, (int)got.ssi_signo);
}

static void guard_run(struct guard *guard)
{
	for (;;) {
		struct pollfd polls[] = {
			{ .fd = guard->signal_fd, .events = POLLIN },
			{ .fd = guard->front_fd, .events = POLLIN },
		};

		if (poll(polls, 2, -1) < 0 && errno != EINTR && errno != EAGAIN) {
			/* The agent ends the ranks then. */
			fprintf(stderr, "rondo-run: cannot wait for signals: poll: %m\n");
			_exit(1);
		}
		if (polls[1].revents)
			on_front(guard);
		if (polls[0].revents)
			on_signal(guard);
	}
}

static void become_agent(pid_t guard, const sigset_t *mask, int front_fd)
{
	setpgid(0, 0);
	/* A process of the background may print to the terminal, whatever its settings. */
	signal(SIGTTOU, SIG_IGN);
	if (front_fd >= 0)
		close(front_fd);
	sigprocmask(SIG_SETMASK, mask, NULL);
	if (prctl(PR_SET_PDEATHSIG, GUARD_DIED) < 0 || getppid() != guard)
		_exit(128 + SIGKILL);
}

void guard_start(const sigset_t *requests, int front_fd)
{
	struct guard guard = { .requests = requests, .front_fd = front_fd };
	sigset_t all, mask;
	pid_t self = getpid();

	orphans_init(&guard.orphans);
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &mask);
	/* With SIGCHLD ignored, the kernel would discard the agent's status. */
	signal(SIGCHLD, SIG_DFL);
	guard.signal_fd = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
	guard.agent = guard.signal_fd < 0 ? -1 : fork();
	if (guard.agent < 0) {
		fprintf(stderr, "rondo-run: cannot start: %m\n");
		exit(1);
	}
	if (guard.agent > 0)
		guard_run(&guard);
	close(guard.signal_fd);
	orphans_finish(&guard.orphans);
	become_agent(self, &mask, front_fd);
}
