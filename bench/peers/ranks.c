#include "ranks.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

#define PATIENCE_NS INT64_C(30000000000)

bool peers_wait_is_late(struct peers_wait *wait)
{
	int64_t now = rd_clock_ns();

	if (!wait->deadline_ns)
		wait->deadline_ns = now + PATIENCE_NS;
	return now > wait->deadline_ns;
}

struct ranks {
	const char *program;
	int count;
	pid_t pids[PEERS_RANKS_MOST]; /* 0: it has ended */
	bool failed;
};

static void end_all(struct ranks *ranks)
{
	ranks->failed = true;
	for (int rank = 0; rank < ranks->count; rank++)
		if (ranks->pids[rank] > 0)
			kill(ranks->pids[rank], SIGTERM);
}

/* A rank that SIGTERM ended after another's failure was ended here. */
static void note_end(struct ranks *ranks, int rank, int status)
{
	ranks->pids[rank] = 0;
	if (status == 0)
		return;
	if (WIFSIGNALED(status) && !(ranks->failed && WTERMSIG(status) == SIGTERM))
		fprintf(stderr, "%s: rank %d was killed: %s\n", ranks->program, rank,
			strsignal(WTERMSIG(status)));
	else if (WIFEXITED(status))
		fprintf(stderr, "%s: rank %d failed with status %d\n", ranks->program, rank,
			WEXITSTATUS(status));
	if (!ranks->failed)
		end_all(ranks);
}

static void await_all(struct ranks *ranks)
{
	pid_t pid;
	int status;

	while ((pid = wait(&status)) > 0)
		for (int rank = 0; rank < ranks->count; rank++)
			if (ranks->pids[rank] == pid)
				note_end(ranks, rank, status);
}

int peers_ranks_run(const char *program, int count, int (*live)(int rank, void *argument),
	void (*forked)(void *argument), void *argument)
{
	struct ranks ranks = { .program = program };
	pid_t parent = getpid();

	for (int rank = 0; rank < count && !ranks.failed; rank++) {
		pid_t pid = fork();

		if (pid == 0) {
			/* The ranks of a parent that is killed end, too. */
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			_exit(getppid() == parent ? live(rank, argument) : 1);
		}
		if (pid < 0) {
			perror(program);
			end_all(&ranks);
		} else {
			ranks.pids[ranks.count++] = pid;
		}
	}
	if (forked)
		forked(argument);
	await_all(&ranks);
	return ranks.failed;
}
