#include "run/orphans.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/pidfd.h"

/* One that does not end, in state D, must not delay the kill of those that come meanwhile. */
#define ROUND_MS 100

/* Opens the list of our children: numbers and spaces. NULL where the kernel has none. */
static FILE *open_children(void)
{
	char path[64];

	/* The launcher has one thread. */
	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	return fopen(path, "re");
}

static bool next_child(FILE *children, pid_t *pid)
{
	int number;

	if (!children || fscanf(children, "%d", &number) != 1)
		return false;
	*pid = number;
	return true;
}

static void close_children(FILE *children)
{
	if (children)
		fclose(children);
}

void orphans_init(struct orphans *orphans)
{
	FILE *children = open_children();
	pid_t pid;

	*orphans = (struct orphans){ 0 };
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	while (next_child(children, &pid)) {
		size_t size = (size_t)(orphans->other_count + 1) * sizeof(pid);
		pid_t *grown = realloc(orphans->others, size);

		if (!grown)
			break;
		orphans->others = grown;
		orphans->others[orphans->other_count++] = pid;
	}
	close_children(children);
}

void orphans_finish(struct orphans *orphans)
{
	free(orphans->others);
	*orphans = (struct orphans){ 0 };
}

static bool was_there(const struct orphans *orphans, pid_t pid)
{
	for (int i = 0; i < orphans->other_count; i++)
		if (orphans->others[i] == pid)
			return true;
	return false;
}

void orphans_reap(bool (*is_rank)(const void *group, pid_t pid), const void *group)
{
	FILE *children = open_children();
	pid_t pid;

	while (next_child(children, &pid))
		if (!is_rank(group, pid))
			waitpid(pid, NULL, WNOHANG);
	close_children(children);
}

/* Kills those that are there; returns one of them. Their own children become ours as they end. */
static pid_t kill_orphans(const struct orphans *orphans,
	bool (*is_left)(const void *group, pid_t pid), const void *group)
{
	FILE *children = open_children();
	pid_t pid, found = 0;

	while (next_child(children, &pid)) {
		if (was_there(orphans, pid) || (is_left && is_left(group, pid)))
			continue;
		kill(pid, SIGKILL);
		found = pid;
	}
	close_children(children);
	return found;
}

static void await_end(pid_t pid, int64_t until_ms)
{
	struct pollfd end = { .fd = rd_pidfd_open(pid), .events = POLLIN };
	int64_t left = until_ms - rd_clock_ms();

	if (end.fd >= 0) {
		poll(&end, 1, left > ROUND_MS ? ROUND_MS : left > 0 ? (int)left : 0);
		close(end.fd);
	}
	waitpid(pid, NULL, WNOHANG);
}

pid_t orphans_kill(const struct orphans *orphans, bool (*is_left)(const void *group, pid_t pid),
	const void *group)
{
	int64_t until_ms = rd_clock_ms() + ORPHANS_WAIT_MS;
	pid_t pid;

	while ((pid = kill_orphans(orphans, is_left, group)) && rd_clock_ms() < until_ms)
		await_end(pid, until_ms);
	return pid;
}
