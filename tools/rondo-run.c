/*
 * rondo-run: starts the ranks of a job on this node, passes on their output, and ends them
 * together. docs/rondo-run.md states the contract.
 *
 * The process that the user starts is a guard (run/guard.h). The agent, its child, does the work.
 *
 * One thread, one loop (run/job.h): poll() over the ranks' ends (pidfd), their output, our own
 * signals (signalfd), and our stdout and stderr (run/output/console.h). The ranks of this node are
 * a group (run/group.h), in a world that the nodes agree on (run/world.h).
 */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "run/check/check.h"
#include "run/guard.h"
#include "run/hosts/front.h"
#include "run/hosts/remote.h"
#include "run/job.h"
#include "run/status/print.h"

/* Open files while a rank is being started: the rank's ends of its output, its report's pipe, and
   the job's secret. */
#define START_FILES 5

static bool catch_signals(struct job *job)
{
	sigset_t ours = job->options.signals;

	sigaddset(&ours, SIGTSTP);
	sigaddset(&ours, SIGCHLD);
	sigaddset(&ours, GUARD_DIED);
	sigaddset(&ours, GUARD_REQUEST);
	sigprocmask(SIG_BLOCK, &ours, &job->group.mask);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a log file at the limit of its size is no reason to end */
	/* With SIGCHLD ignored, the kernel would discard the ranks' statuses. */
	signal(SIGCHLD, SIG_DFL);
	job->signal_fd = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
	if (job->signal_fd < 0)
		fprintf(stderr, "rondo-run: cannot watch for signals: %m\n");
	return job->signal_fd >= 0;
}

static int count_open_files(void)
{
	DIR *directory = opendir("/proc/self/fd");
	int count = 0;

	if (!directory)
		return START_FILES;
	while (readdir(directory))
		count++;
	closedir(directory);
	return count - 3; /* ".", "..", and the directory itself */
}

/* Raises the limit for us alone. Ranks get the old one: programs with select() rely on it. */
static bool make_room_for_files(struct job *job)
{
	int size = job->options.local_size;
	int each = group_files_of_rank(&job->options);
	rlim_t needed = (rlim_t)size * (rlim_t)each + START_FILES + (rlim_t)count_open_files();
	/* Any agent may have to host the meeting of all others. */
	rlim_t wanted = needed + (job->options.nodes > 1 ? (rlim_t)job->options.nodes : 0);
	struct rlimit *given = &job->group.files, raised;

	if (getrlimit(RLIMIT_NOFILE, given) < 0) {
		fprintf(stderr, "rondo-run: cannot read the limit on open files: %m\n");
		return false;
	}
	if (wanted <= given->rlim_cur)
		return true;
	raised = (struct rlimit){ wanted < given->rlim_max ? wanted : given->rlim_max,
		given->rlim_max };
	if (needed <= given->rlim_max && setrlimit(RLIMIT_NOFILE, &raised) == 0)
		return true;
	fprintf(stderr,
		"rondo-run: %d rank%s on this node need%s %llu open files, and the hard limit is "
		"%llu: raise it (ulimit -Hn), or start fewer ranks here\n",
		size, size > 1 ? "s" : "", size > 1 ? "" : "s", (unsigned long long)needed,
		(unsigned long long)given->rlim_max);
	return false;
}

static bool job_init(struct job *job)
{
	const struct options *options = &job->options;
	struct rd_cpus allowed;

	orphans_init(&job->orphans);
	console_init(&job->console);
	if (!rd_cpus_allowed(&allowed)) {
		fprintf(stderr, "rondo-run: cannot read which processors it may use: %m\n");
		return false;
	}
	if (!processors_init(&job->processors, "", &allowed))
		return false;
	job->group = (struct group){
		.options = options,
		.processors = &job->processors,
		.console = &job->console,
		.logs = &job->logs,
		.orphans = &job->orphans,
		.job_start_ms = rd_clock_ms(),
	};
	return logs_init(&job->logs, options) && catch_signals(job) && make_room_for_files(job) &&
	       agent_init(&job->agent, options, &job->group, &job->console);
}

static int run(int argc, char **argv)
{
	struct job job = { 0 };
	int status = 1, front_fd = -1;

	if (argc == 2 && strcmp(argv[1], CHECK_OPTION) == 0)
		return check_run();
	if (argc == 2 && strcmp(argv[1], REMOTE_OPTION) == 0 &&
		(front_fd = remote_start(&argc, &argv)) < 0)
		return 1;
	if (!options_read(&job.options, argc, argv))
		return 2;
	if (job.options.status || job.options.prometheus)
		return status_run(job.options.run_id, job.options.prometheus);
	if (job.options.hosts)
		return front_run(&job.options, argv);
	job.options.remote = front_fd >= 0;
	guard_start(&job.options.signals, front_fd);
	if (job_init(&job))
		status = job_run(&job);
	agent_finish(&job.agent);
	polls_finish(&job.polls);
	processors_finish(&job.processors);
	orphans_finish(&job.orphans);
	console_finish(&job.console);
	return status;
}

int main(int argc, char **argv)
{
	int status;

	rd_stderr_fill();
	status = run(argc, argv);
	remote_finish();
	return status;
}
