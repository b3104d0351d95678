/*
 * The main loop: polls the ranks, the agents of other nodes, our own signals, and our stdout and
 * stderr.
 */
#ifndef RUN_JOB_H
#define RUN_JOB_H

#include <signal.h>
#include <stdbool.h>

#include "run/base/polls.h"
#include "run/group.h"
#include "run/nodes/agent.h"
#include "run/options.h"
#include "run/output/console.h"

struct job {
	struct options options;
	struct processors processors;
	struct console console;
	struct logs logs;
	struct orphans orphans;
	struct group group;
	struct agent agent;
	struct polls polls;
	int signal_fd;
	int signal; /* the signal that ended the job; 0: none */
};

/* Returns when the job is over and the ranks' output is written: the exit status. */
int job_run(struct job *job);

#endif
