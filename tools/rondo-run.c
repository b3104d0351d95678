/*
 * rondo-run: starts the ranks of a job on this node, passes on their output, and ends them
 * together. docs/rondo-run.md states the contract.
 *
 * One thread, one loop (run/job.h): poll() over the ranks' ends (pidfd), their output, our own
 * signals (signalfd), and our stdout and stderr.
 */
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "run/job.h"
#include "run/rendezvous.h"

/* Open files while a rank is being started: the rank's ends of its output, and its report's pipe.
 */
#define START_FILES 4

/* If ours are closed, pipes would get their numbers, and a rank's stdout would be lost. */
static void open_standard_fds(void)
{
	int fd;

	do {
		fd = open("/dev/null", O_RDWR);
	} while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

static bool catch_signals(struct job *job)
{
	static const int caught[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP };
	sigset_t ours;

	sigemptyset(&ours);
	for (size_t i = 0; i < sizeof(caught) / sizeof(caught[0]); i++)
		sigaddset(&ours, caught[i]);
	sigprocmask(SIG_BLOCK, &ours, &job->mask);
	signal(SIGPIPE, SIG_IGN);
	/* With SIGCHLD ignored, the kernel would discard the ranks' statuses. */
	signal(SIGCHLD, SIG_DFL);
	job->signal_fd = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
	if (job->signal_fd < 0)
		fprintf(stderr, "rondo-run: cannot watch for signals: %m\n");
	return job->signal_fd >= 0;
}

/* If stdout and stderr are one file, a rank's output to both must stay in order. */
static bool same_place(int a, int b)
{
	struct stat at, bt;

	return fstat(a, &at) == 0 && fstat(b, &bt) == 0 && at.st_dev == bt.st_dev &&
	       at.st_ino == bt.st_ino;
}

static int count_open_files(void)
{
	DIR *directory = opendir("/proc/self/fd");
	int count = 0;

	if (!directory)
		return START_FILES + JOB_FILES;
	while (readdir(directory))
		count++;
	closedir(directory);
	return count - 3; /* ".", "..", and the directory itself */
}

/* Raises the limit for us alone. Ranks get the old one: programs with select() rely on it. */
static bool make_room_for_files(struct job *job)
{
	int size = job->options.local_size;
	rlim_t needed =
		(rlim_t)size * (rlim_t)job->rank_files + START_FILES + (rlim_t)count_open_files();
	struct rlimit raised;

	if (getrlimit(RLIMIT_NOFILE, &job->files) < 0) {
		fprintf(stderr, "rondo-run: cannot read the limit on open files: %m\n");
		return false;
	}
	if (needed <= job->files.rlim_cur)
		return true;
	raised = (struct rlimit){ needed, job->files.rlim_max };
	if (needed <= job->files.rlim_max && setrlimit(RLIMIT_NOFILE, &raised) == 0)
		return true;
	fprintf(stderr,
		"rondo-run: %d rank%s on this node need%s %llu open files, and the hard limit is "
		"%llu: raise it (ulimit -Hn), or start fewer ranks here\n",
		size, size > 1 ? "s" : "", size > 1 ? "" : "s", (unsigned long long)needed,
		(unsigned long long)job->files.rlim_max);
	return false;
}

/* A single rank inherits our stdout and stderr: there are no lines to keep apart. */
static bool is_alone(const struct options *options)
{
	return options->local_size == 1 && !options->tag;
}

static bool job_init(struct job *job)
{
	size_t size = (size_t)job->options.local_size;

	environment_init(&job->environment, &job->options);
	sink_init(&job->out, STDOUT_FILENO);
	sink_init(&job->err, STDERR_FILENO);
	job->messages = same_place(STDOUT_FILENO, STDERR_FILENO) ? &job->out : &job->err;
	job->rank_files = is_alone(&job->options) ? 1 : job->messages == &job->out ? 2 : 3;
	job->ranks = calloc(size, sizeof(*job->ranks));
	job->polls = calloc(JOB_FILES + (size_t)job->rank_files * size, sizeof(*job->polls));
	if (!job->ranks || !job->polls) {
		fprintf(stderr, "rondo-run: out of memory\n");
		return false;
	}
	return catch_signals(job) && make_room_for_files(job) &&
	       (job->options.node > 0 ||
		       rendezvous_open(&job->options, &job->environment.rendezvous_fd));
}

static void job_finish(struct job *job)
{
	sink_finish(&job->out);
	sink_finish(&job->err);
	free(job->ranks);
	free(job->polls);
}

static bool start_rank(struct job *job, int local_rank, int *status)
{
	const struct options *options = &job->options;
	struct rank *rank = &job->ranks[local_rank];
	int number = options->node * options->local_size + local_rank;
	bool alone = is_alone(options);
	char tag[16] = "";
	struct rank_start start = {
		.command = options->command,
		.environment = &job->environment,
		.mask = &job->mask,
		.files = &job->files,
		.out = alone ? NULL : &job->out,
		.err = alone ? NULL : job->messages,
		.tag = tag,
		/* A terminal serves its foreground group alone, and no rank is in it. */
		.reads_input = local_rank == 0 && !isatty(STDIN_FILENO),
	};

	if (options->tag)
		snprintf(tag, sizeof(tag), "[%d] ", number);
	if (!rank_start(rank, number, &start, status))
		return false;
	job->started++;
	job->alive++;
	return true;
}

/* On one processor a program would have one thread anyway. */
static bool limits_threads(const struct job *job)
{
	cpu_set_t mine;

	return job->options.local_size > 1 && !getenv("OMP_NUM_THREADS") &&
	       (sched_getaffinity(0, sizeof(mine), &mine) < 0 || CPU_COUNT(&mine) > 1);
}

static int start_and_run(struct job *job)
{
	int status = 0;

	for (int i = 0; i < job->options.local_size && status == 0; i++)
		start_rank(job, i, &status);
	if (status == 0 && limits_threads(job))
		sink_print(job->messages,
			"rondo-run: OMP_NUM_THREADS=1 for each of the %d ranks; set it to choose",
			job->options.local_size);
	/* From here on rank 0 alone holds it: when rank 0 dies, connections are refused. */
	if (job->environment.rendezvous_fd >= 0)
		close(job->environment.rendezvous_fd);
	job->abandoned = status != 0;
	if (job->abandoned)
		job_signal(job, SIGKILL);
	job_run(job);
	if (job->abandoned)
		return status ? status : 1;
	if (job->signal)
		return 128 + job->signal;
	return job->culprit ? job->culprit->status : 0;
}

int main(int argc, char **argv)
{
	struct job job = { 0 };
	int status = 1;

	open_standard_fds();
	if (!options_read(&job.options, argc, argv))
		return 2;
	if (job_init(&job))
		status = start_and_run(&job);
	job_finish(&job);
	return status;
}
