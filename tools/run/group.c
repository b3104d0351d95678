#include "run/group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/host_name.h"
#include "run/base/deadline.h"
#include "run/base/memory.h"
#include "run/bind.h"

/* After the first failure, the other ranks have this time to log what they saw of it. */
#define LAST_WORDS_MS 2000

/* The polls of a rank. */
enum { WATCH_END, WATCH_OUT, WATCH_ERR, RANK_WATCHES };

int group_files_of_rank(const struct options *options)
{
	return RANK_WATCHES + logs_files_of_rank(options);
}

/* ---- Starting the ranks --------------------------------------------------------------------- */

static bool start_rank(struct group *group, int local_rank, int *status)
{
	struct rank_start start = {
		.options = group->options,
		.world = group->world,
		.processors = group->processors,
		.rendezvous_fd = group->rendezvous_fd,
		.secret_fd = group->secret_fd,
		.mask = &group->mask,
		.files = &group->files,
		.console = group->console,
		.logs = group->logs,
		/* A terminal serves its foreground group alone, and no rank is in it. */
		.reads_input = local_rank == 0 && !isatty(STDIN_FILENO),
	};

	if (!rank_start(&group->ranks[local_rank], local_rank, &start, status))
		return false;
	group->started++;
	group->alive++;
	return true;
}

static void report_bindings(const struct group *group)
{
	for (int i = 0; i < group->world->local_size; i++) {
		struct slice slice;
		char text[SLICE_TEXT_SIZE];

		slice_init(&slice, group->processors, group->options->bind,
			group->world->local_size, i);
		slice_describe(&slice, text);
		console_print(
			group->console, "rank %d is bound to %s", group->world->first + i, text);
	}
}

bool group_start(struct group *group, int *status)
{
	int size = group->world->local_size;

	group->started = group->alive = 0;
	group->ending = group->failed = group->succeeded = false;
	group->term_at = group->kill_at = group->leave_at = 0;
	group->left = 0;
	group->ranks = calloc((size_t)size, sizeof(*group->ranks));
	*status = group->ranks ? 0 : 1;
	if (!group->ranks)
		memory_report_lack();
	else if (!logs_start_attempt(group->logs, group->world, group->console))
		*status = 1;
	if (*status == 0 && group->options->bind != BIND_NONE)
		report_bindings(group);
	for (int i = 0; i < size && *status == 0; i++)
		start_rank(group, i, status);
	if (*status)
		group_kill(group);
	return *status == 0;
}

/* ---- Ending them ---------------------------------------------------------------------------- */

void group_signal(const struct group *group, int signal)
{
	for (int i = 0; i < group->started; i++)
		rank_signal(&group->ranks[i], signal);
}

void group_end(struct group *group, int signal)
{
	group->ending = true;
	group_signal(group, signal);
	/* A stopped rank takes no other signal before it continues. */
	group_signal(group, SIGCONT);
	group->term_at = 0;
	group->kill_at = rd_clock_ms() + (int64_t)group->options->grace_s * 1000;
}

void group_stop(struct group *group, bool at_once)
{
	if (group->ending)
		return;
	if (at_once)
		group_end(group, SIGTERM);
	else if (!group->term_at)
		group->term_at = rd_clock_ms() + LAST_WORDS_MS;
}

void group_kill(struct group *group)
{
	group->ending = true;
	group_signal(group, SIGKILL);
	group->term_at = 0;
	group->kill_at = 0;
	if (!group->leave_at)
		group->leave_at = rd_clock_ms() + GROUP_LEAVE_MS;
}

static void leave_the_rest(struct group *group)
{
	for (int i = 0; i < group->started; i++) {
		struct rank *rank = &group->ranks[i];

		if (rank->ended)
			continue;
		console_print(group->console,
			"rank %d (pid %d) does not end %d s after SIGKILL: leaving it",
			rank->number, (int)rank->pid, GROUP_LEAVE_MS / 1000);
		rank_leave(rank);
		group->left = rank->pid;
		group->alive--;
	}
	group->leave_at = 0;
}

static void kill_the_slow(struct group *group)
{
	for (int i = 0; i < group->started; i++) {
		const struct rank *rank = &group->ranks[i];

		if (!rank->ended)
			console_print(group->console,
				"rank %d (pid %d) is still there %d s later: killing it",
				rank->number, (int)rank->pid, group->options->grace_s);
	}
	group_kill(group);
}

/*
 * The end of a killed rank may come after those of its peers, which notice it at once: the kernel
 * still frees its memory. So a death by signal outranks an exit.
 */
static void blame(struct group *group, const struct rank *rank)
{
	struct failure failure;
	struct timespec now;
	char end[192];

	clock_gettime(CLOCK_REALTIME, &now);
	rank_failure(rank, group->logs, &failure);
	failure.node = group->world->node;
	failure.at_ms = now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
	failure.after_ms = rd_clock_ms() - group->job_start_ms;
	rd_host_name(failure.host);
	failure_describe(&failure, end, sizeof(end));
	console_print(group->console, "%s", end);
	if (!group->failed && !group->options->keep_going)
		group->term_at = rd_clock_ms() + LAST_WORDS_MS;
	if (!group->failed || failure_outranks(&failure, &group->failure))
		group->failure = failure;
	group->failed = true;
}

static void on_end(struct group *group, struct rank *rank)
{
	bool ours = group->ending;

	if (!rank_reap(rank))
		return;
	group->alive--;
	group->succeeded |= rank->status == 0;
	if (rank->status != 0 && !ours)
		blame(group, rank);
}

bool group_has_failed(const struct group *group)
{
	if (!group->options->keep_going)
		return group->failed;
	return group->failed && !group->succeeded && group->alive == 0;
}

int64_t group_deadline(const struct group *group)
{
	int64_t at = group->term_at ? group->term_at : group->kill_at;

	return deadline_earlier(at, group->ranks ? group->leave_at : 0);
}

void group_on_clock(struct group *group, int64_t now_ms)
{
	if (group->term_at && now_ms >= group->term_at)
		group_end(group, SIGTERM);
	if (group->kill_at && now_ms >= group->kill_at)
		kill_the_slow(group);
	if (group->leave_at && now_ms >= group->leave_at)
		leave_the_rest(group);
}

/* ---- Polling -------------------------------------------------------------------------------- */

void group_add_polls(struct group *group, struct polls *polls)
{
	group->first_poll = polls->count;
	for (int i = 0; i < group->started; i++) {
		const struct rank *rank = &group->ranks[i];

		polls_add(polls, rank->held ? -1 : rank->pidfd, POLLIN);
		polls_add(polls, lines_readable_fd(&rank->out), POLLIN);
		polls_add(polls, lines_readable_fd(&rank->err), POLLIN);
	}
}

static void report_log(
	struct group *group, const struct rank *rank, struct lines *lines, const char *file)
{
	char path[LOG_PATH_SIZE];

	if (!lines->log_error)
		return;
	logs_path(group->logs, rank->local_rank, file, path);
	console_print(group->console,
		"cannot write %s: %s: it misses lines of rank %d from here on", path,
		strerror(lines->log_error), rank->number);
	lines->log_error = 0;
}

void group_take_polls(struct group *group, const struct polls *polls)
{
	for (int i = 0; i < group->started; i++) {
		const struct pollfd *own = &polls->fds[group->first_poll + RANK_WATCHES * i];
		struct rank *rank = &group->ranks[i];

		if (own[WATCH_OUT].revents)
			lines_read(&rank->out);
		if (own[WATCH_ERR].revents)
			lines_read(&rank->err);
		if (own[WATCH_END].revents)
			on_end(group, rank);
		report_log(group, rank, &rank->out, "stdout.log");
		report_log(group, rank, &rank->err, "stderr.log");
	}
}

void group_abandon(struct group *group)
{
	group_kill(group);
	for (int i = 0; i < group->started; i++) {
		struct rank *rank = &group->ranks[i];
		struct pollfd end = { .fd = rank->pidfd, .events = POLLIN };
		int64_t left = group->leave_at - rd_clock_ms();

		if (!rank->ended && poll(&end, 1, left > 0 ? (int)left : 0) > 0)
			on_end(group, rank);
	}
	leave_the_rest(group);
}

static bool is_rank(const void *group, pid_t pid)
{
	const struct group *own = group;

	for (int i = 0; i < own->started; i++)
		if (own->ranks[i].pid == pid && !own->ranks[i].ended)
			return true;
	return false;
}

static bool is_left(const void *group, pid_t pid)
{
	const struct group *own = group;

	for (int i = 0; i < own->started; i++)
		if (own->ranks[i].pid == pid && own->ranks[i].left)
			return true;
	return false;
}

void group_reap_orphans(struct group *group)
{
	for (int i = 0; i < group->started; i++)
		if (group->ranks[i].held && !group->ranks[i].ended)
			on_end(group, &group->ranks[i]);
	orphans_reap(is_rank, group);
}

void group_finish(struct group *group)
{
	pid_t left = group->ranks ? orphans_kill(group->orphans, is_left, group) : 0;

	if (left)
		console_print(
			group->console, "process %d does not end: a rank started it", (int)left);
	for (int i = 0; i < group->started; i++) {
		rank_finish(&group->ranks[i]);
	}
	free(group->ranks);
	group->ranks = NULL;
	group->started = 0;
}
