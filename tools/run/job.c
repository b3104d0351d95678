#include "run/job.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

/* After the first failure, the other ranks have this time to log what they saw of it. */
#define LAST_WORDS_MS 2000

enum { WATCH_SIGNALS, WATCH_OUT, WATCH_ERR };

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- Ending the job ------------------------------------------------------------------------- */

void job_signal(const struct job *job, int signal)
{
	for (int i = 0; i < job->started; i++)
		rank_signal(&job->ranks[i], signal);
}

static void end_all(struct job *job, int signal)
{
	job_signal(job, signal);
	/* A stopped rank takes no other signal before it goes on. */
	job_signal(job, SIGCONT);
	job->term_at = 0;
	job->kill_at = now_ms() + (int64_t)job->options.grace_s * 1000;
}

static void kill_all(struct job *job)
{
	for (int i = 0; i < job->started; i++) {
		const struct rank *rank = &job->ranks[i];

		if (!rank->ended)
			sink_print(job->messages,
				"rondo-run: rank %d (pid %d) is still there %d s later: killing it",
				rank->number, (int)rank->pid, job->options.grace_s);
	}
	job_signal(job, SIGKILL);
	job->kill_at = 0;
}

static bool ending(const struct job *job)
{
	return job->abandoned || job->signal || (job->culprit && !job->term_at);
}

/*
 * The end of a killed rank may come after those of its peers, which notice it at once: the kernel
 * still frees its memory. So a death by signal outranks an exit.
 */
static void blame(struct job *job, const struct rank *rank)
{
	char end[128];

	rank_describe_end(rank, end, sizeof(end));
	sink_print(job->messages, "rondo-run: %s", end);
	if (!job->culprit)
		job->term_at = now_ms() + LAST_WORDS_MS;
	if (!job->culprit || (rank->by_signal && !job->culprit->by_signal))
		job->culprit = rank;
}

static void on_end(struct job *job, struct rank *rank)
{
	bool ours = ending(job);

	rank_reap(rank);
	job->alive--;
	if (rank->status != 0 && !ours)
		blame(job, rank);
}

static void stop_and_continue(struct job *job)
{
	job_signal(job, SIGSTOP);
	raise(SIGSTOP);
	job_signal(job, SIGCONT);
}

static void on_signal(struct job *job)
{
	struct signalfd_siginfo got;
	int signal;

	if (read(job->signal_fd, &got, sizeof(got)) != sizeof(got))
		return;
	signal = (int)got.ssi_signo;
	if (signal == SIGTSTP) {
		stop_and_continue(job);
	} else if (job->signal) {
		job_signal(job, SIGKILL);
		job->kill_at = 0;
	} else {
		job->signal = signal;
		sink_print(job->messages, "rondo-run: %s: ending the ranks", strsignal(signal));
		end_all(job, signal);
	}
}

static void on_clock(struct job *job)
{
	int64_t now = now_ms();

	if (job->term_at && now >= job->term_at)
		end_all(job, SIGTERM);
	if (job->kill_at && now >= job->kill_at)
		kill_all(job);
}

/* ---- The loop ------------------------------------------------------------------------------- */

static int poll_timeout(const struct job *job)
{
	int64_t at = job->term_at ? job->term_at : job->kill_at;
	int64_t left = at - now_ms();

	return !at ? -1 : left > 0 ? (int)left : 0;
}

static struct pollfd sink_poll(const struct sink *sink)
{
	return (struct pollfd){ .fd = sink_waiting(sink) ? sink->fd : -1, .events = POLLOUT };
}

/* Stops reading while the sink is full: a rank that prints too fast waits, as in any pipe. */
static struct pollfd lines_poll(const struct lines *lines)
{
	bool full = lines->fd >= 0 && sink_waiting(lines->sink) >= SINK_FULL;

	return (struct pollfd){ .fd = full ? -1 : lines->fd, .events = POLLIN };
}

static int fill_polls(const struct job *job)
{
	struct pollfd *polls = job->polls;

	polls[WATCH_SIGNALS] = (struct pollfd){ .fd = job->signal_fd, .events = POLLIN };
	polls[WATCH_OUT] = sink_poll(&job->out);
	polls[WATCH_ERR] = sink_poll(&job->err);
	for (int i = 0; i < job->started; i++) {
		const struct rank *rank = &job->ranks[i];
		struct pollfd *own = polls + JOB_FILES + job->rank_files * i;

		own[0] = (struct pollfd){ .fd = rank->pidfd, .events = POLLIN };
		if (job->rank_files > 1)
			own[1] = lines_poll(&rank->out);
		if (job->rank_files > 2)
			own[2] = lines_poll(&rank->err);
	}
	return JOB_FILES + job->rank_files * job->started;
}

static void take_polls(struct job *job)
{
	const struct pollfd *polls = job->polls;

	if (polls[WATCH_OUT].revents)
		sink_flush(&job->out);
	if (polls[WATCH_ERR].revents)
		sink_flush(&job->err);
	for (int i = 0; i < job->started; i++) {
		const struct pollfd *own = polls + JOB_FILES + job->rank_files * i;

		if (job->rank_files > 1 && own[1].revents)
			lines_read(&job->ranks[i].out);
		if (job->rank_files > 2 && own[2].revents)
			lines_read(&job->ranks[i].err);
		if (own[0].revents)
			on_end(job, &job->ranks[i]);
	}
	if (polls[WATCH_SIGNALS].revents)
		on_signal(job);
}

static bool unfinished(const struct job *job)
{
	if (job->alive > 0)
		return true;
	/* After a signal, the reader of what is left may be gone. */
	return !job->signal && (sink_waiting(&job->out) || sink_waiting(&job->err));
}

static void finish_lines(struct job *job)
{
	for (int i = 0; i < job->started; i++) {
		lines_finish(&job->ranks[i].out);
		lines_finish(&job->ranks[i].err);
	}
}

/* Without poll() only SIGKILL could end this job. */
static void abandon(struct job *job, int error)
{
	fprintf(stderr, "rondo-run: cannot wait for the ranks: poll: %s: killing them\n",
		strerror(error));
	job->abandoned = true;
	job_signal(job, SIGKILL);
	for (int i = 0; i < job->started; i++)
		if (!job->ranks[i].ended)
			on_end(job, &job->ranks[i]);
	finish_lines(job);
}

void job_run(struct job *job)
{
	while (unfinished(job)) {
		int ready = poll(job->polls, (nfds_t)fill_polls(job), poll_timeout(job));

		if (ready > 0)
			take_polls(job);
		if (ready < 0 && errno != EINTR && errno != EAGAIN) {
			abandon(job, errno);
			return;
		}
		on_clock(job);
		if (job->alive == 0)
			finish_lines(job);
	}
}
