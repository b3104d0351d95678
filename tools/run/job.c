#include "run/job.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "run/base/deadline.h"
#include "run/guard.h"

/* ---- Signals to us -------------------------------------------------------------------------- */

static void stop_and_continue(struct job *job)
{
	group_signal(&job->group, SIGSTOP);
	raise(SIGSTOP);
	/* Where this process alone was continued, the guard is still stopped. */
	kill(getppid(), SIGCONT);
	group_signal(&job->group, SIGCONT);
}

/* As if we had been killed as well: the other nodes notice the loss. */
static void on_death_of_guard(struct job *job)
{
	group_abandon(&job->group);
	group_finish(&job->group);
	_exit(128 + SIGKILL);
}

static void end_by(struct job *job, int signal)
{
	if (job->signal)
		return;
	job->signal = signal;
	console_print(&job->console, "%s: %s", strsignal(signal),
		job->group.ranks ? "ending the ranks" : "leaving the job");
	group_end(&job->group, signal);
	agent_leave(&job->agent, signal);
}

static void on_signal(struct job *job)
{
	struct signalfd_siginfo got;
	int signal;

	if (read(job->signal_fd, &got, sizeof(got)) != sizeof(got))
		return;
	signal = (int)got.ssi_signo;
	if (signal == GUARD_DIED) {
		on_death_of_guard(job);
	} else if (signal == SIGCHLD) {
		group_reap_orphans(&job->group);
	} else if (signal == SIGTSTP) {
		stop_and_continue(job);
	} else if (signal != GUARD_REQUEST) {
		end_by(job, signal);
	} else if (got.ssi_int) {
		end_by(job, got.ssi_int);
	} else {
		group_kill(&job->group);
	}
}

/* ---- The loop ------------------------------------------------------------------------------- */

static int wait_for_events(struct job *job)
{
	int64_t at = deadline_earlier(group_deadline(&job->group), link_deadline(&job->agent.link));
	int64_t left = at - rd_clock_ms();
	struct polls *polls = &job->polls;
	int timeout = !at ? -1 : left > 0 ? (int)left : 0;

	polls->count = 0;
	polls_add(polls, job->signal_fd, POLLIN);
	console_add_polls(&job->console, polls);
	group_add_polls(&job->group, polls);
	link_add_polls(&job->agent.link, polls);
	return poll(polls->fds, (nfds_t)polls->count, timeout);
}

static void take_events(struct job *job)
{
	const struct polls *polls = &job->polls;

	console_take_polls(&job->console, polls);
	group_take_polls(&job->group, polls);
	link_take_polls(&job->agent.link, polls);
	if (polls->fds[0].revents)
		on_signal(job);
}

static bool unfinished(const struct job *job)
{
	if (!agent_is_over(&job->agent))
		return true;
	/* After a signal, the reader of what is left may be gone. */
	return !job->signal && console_waiting(&job->console);
}

int job_run(struct job *job)
{
	link_on_clock(&job->agent.link, rd_clock_ms());
	agent_step(&job->agent);
	while (unfinished(job)) {
		int ready = wait_for_events(job);

		if (ready > 0)
			take_events(job);
		/* Without poll() only SIGKILL could end this job. */
		if (ready < 0 && errno != EINTR && errno != EAGAIN) {
			fprintf(stderr,
				"rondo-run: cannot wait for the ranks: poll: %m: killing them\n");
			group_abandon(&job->group);
			group_finish(&job->group);
			return 1;
		}
		group_on_clock(&job->group, rd_clock_ms());
		link_on_clock(&job->agent.link, rd_clock_ms());
		agent_step(&job->agent);
	}
	console_flush(&job->console);
	if (console_has_lost_lines(&job->console) && job->agent.status == 0)
		return 1;
	return job->agent.status;
}
