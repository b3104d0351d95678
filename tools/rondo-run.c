/*
 * rondo-run: starts the ranks of a job on this node, passes on what they print, and sees to it that
 * all end together. docs/rondo-run.md says what it promises.
 *
 * One thread, one loop: poll() over the ranks' ends (pidfd), what they print, our own signals
 * (signalfd) and the place we print to.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <netinet/in.h>

#include "run/lines.h"
#include "run/options.h"
#include "run/rank.h"

/* When one rank has failed, the others have this long to say what they saw of it. */
#define LAST_WORDS_MS 2000
/* Open files while a rank is being started: the rank's ends of its output, and its report's pipe.
 */
#define START_FILES 4

struct job {
	struct options options;
	struct rank *ranks; /* [options.local_size] */
	int started; /* ranks started, from ranks[0] */
	int alive;
	struct sink out, err;
	struct sink *messages; /* where our own lines go: &err, or &out where both are one */
	int signal_fd;
	sigset_t mask; /* signals blocked before ours were */
	int rendezvous_fd; /* listening for rank 0; -1: rank 0 does that itself */
	char run_id[33];
	bool abandoned; /* a rank could not be started, or the ranks not be waited for */
	int signal; /* that ended the job; 0: none */
	const struct rank *culprit; /* whose status is the job's */
	int64_t term_at, kill_at; /* deadlines on the monotonic clock, in ms; 0: none */
	int rank_files; /* open files a rank: its pidfd, and our ends of what it prints */
	struct rlimit files; /* the limit on open files that we were given, and the ranks are */
	struct pollfd *polls; /* [WATCH_RANKS + rank_files * options.local_size] */
};

enum { WATCH_SIGNALS, WATCH_OUT, WATCH_ERR, WATCH_RANKS };

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- The rendezvous socket ------------------------------------------------------------------ */

static int listen_at(const struct addrinfo *at)
{
	int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0)
		return fd;
	int error = errno;

	close(fd);
	errno = error;
	return -1;
}

static int bound_port(int fd)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
		struct sockaddr_storage space;
	} at;
	socklen_t size = sizeof(at);

	if (getsockname(fd, &at.any, &size) < 0)
		return -1;
	return ntohs(at.any.sa_family == AF_INET6 ? at.v6.sin6_port : at.v4.sin_port);
}

static bool is_loopback(const struct sockaddr *at)
{
	if (at->sa_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)at)->sin_addr.s_addr) >> 24 ==
		       IN_LOOPBACKNET;
	return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)at)->sin6_addr);
}

/* Some systems have their own name stand for 127.0.1.1: the others then knock at another door. Who
   writes such an address himself, or localhost, knows. */
static void say_loopback(const struct options *options, const struct addrinfo *at)
{
	char number[INET6_ADDRSTRLEN];

	if (options->nodes == 1 || !is_loopback(at->ai_addr) ||
		strcmp(options->address, "localhost") == 0 ||
		getnameinfo(at->ai_addr, at->ai_addrlen, number, sizeof(number), NULL, 0,
			NI_NUMERICHOST) ||
		strcmp(options->address, number) == 0)
		return;
	fprintf(stderr,
		"rondo-run: %s is %s on this node, where no other node gets: correct /etc/hosts, "
		"or give an address\n",
		options->address, number);
}

/*
 * Listens for rank 0 from now on, so that nobody can take the port first and no rank comes too
 * early. Where the address is not one of this node's own (it is forwarded, say), that is left to
 * rank 0.
 */
static bool open_rendezvous(struct job *job)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found;
	struct options *options = &job->options;
	char port[16];
	int error;

	snprintf(port, sizeof(port), "%d", options->port);
	error = getaddrinfo(options->address, port, &hints, &found);
	if (error) {
		fprintf(stderr, "rondo-run: %s: %s\n", options->address, gai_strerror(error));
		return false;
	}
	job->rendezvous_fd = listen_at(found);
	error = errno;
	say_loopback(options, found);
	freeaddrinfo(found);
	if (job->rendezvous_fd >= 0) {
		options->port = bound_port(job->rendezvous_fd);
		return options->port > 0;
	}
	if (error == EADDRNOTAVAIL && options->port > 0)
		return true;
	fprintf(stderr,
		strchr(options->address, ':') ? "rondo-run: cannot listen at [%s]:%d: %s\n"
					      : "rondo-run: cannot listen at %s:%d: %s\n",
		options->address, options->port, strerror(error));
	return false;
}

/* ---- What the ranks find in their environment ----------------------------------------------- */

static void set_number(const char *name, int value)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", value);
	setenv(name, text, 1);
}

static void set_environment(const struct rank *rank, const void *argument)
{
	const struct job *job = argument;
	const struct options *options = &job->options;
	int size = options->nodes * options->local_size;

	set_number("RANK", rank->number);
	set_number("LOCAL_RANK", rank->number - options->node * options->local_size);
	set_number("WORLD_SIZE", size);
	set_number("LOCAL_WORLD_SIZE", options->local_size);
	set_number("GROUP_RANK", options->node);
	set_number("GROUP_WORLD_SIZE", options->nodes);
	set_number("ROLE_RANK", rank->number);
	set_number("ROLE_WORLD_SIZE", size);
	setenv("ROLE_NAME", "default", 1);
	setenv("MASTER_ADDR", options->address, 1);
	set_number("MASTER_PORT", options->port);
	setenv("TORCHELASTIC_RUN_ID", job->run_id, 1);
	set_number("TORCHELASTIC_RESTART_COUNT", 0);
	set_number("TORCHELASTIC_MAX_RESTARTS", 0);
	if (options->local_size > 1)
		setenv("OMP_NUM_THREADS", "1", 0);
	if (rank->number == 0 && job->rendezvous_fd >= 0)
		set_number("RONDO_RENDEZVOUS_FD", job->rendezvous_fd);
	else
		unsetenv("RONDO_RENDEZVOUS_FD");
}

/* All nodes of a job must agree on it: drawn at random only where there is one. */
static void draw_run_id(struct job *job)
{
	unsigned char bits[16];

	snprintf(job->run_id, sizeof(job->run_id), "none");
	if (job->options.nodes > 1 || getrandom(bits, sizeof(bits), 0) != sizeof(bits))
		return;
	for (size_t i = 0; i < sizeof(bits); i++)
		snprintf(job->run_id + 2 * i, 3, "%02x", bits[i]);
}

/* ---- Ending the job ------------------------------------------------------------------------- */

static void signal_all(const struct job *job, int signal)
{
	for (int i = 0; i < job->started; i++)
		rank_signal(&job->ranks[i], signal);
}

static void end_all(struct job *job, int signal)
{
	signal_all(job, signal);
	/* A stopped rank takes no other signal before it goes on. */
	signal_all(job, SIGCONT);
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
	signal_all(job, SIGKILL);
	job->kill_at = 0;
}

static bool ending(const struct job *job)
{
	return job->abandoned || job->signal || (job->culprit && !job->term_at);
}

/*
 * A rank that was killed can be the last whose end we see: its peers notice at once, while the
 * kernel is still taking down its memory. So a death by signal outranks an exit.
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
	signal_all(job, SIGSTOP);
	raise(SIGSTOP);
	signal_all(job, SIGCONT);
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
		signal_all(job, SIGKILL);
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

/* Nothing is read that cannot be passed on: a rank that prints too fast waits, as in any pipe. */
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
		struct pollfd *own = polls + WATCH_RANKS + job->rank_files * i;

		own[0] = (struct pollfd){ .fd = rank->pidfd, .events = POLLIN };
		if (job->rank_files > 1)
			own[1] = lines_poll(&rank->out);
		if (job->rank_files > 2)
			own[2] = lines_poll(&rank->err);
	}
	return WATCH_RANKS + job->rank_files * job->started;
}

static void take_polls(struct job *job)
{
	const struct pollfd *polls = job->polls;

	if (polls[WATCH_OUT].revents)
		sink_flush(&job->out);
	if (polls[WATCH_ERR].revents)
		sink_flush(&job->err);
	for (int i = 0; i < job->started; i++) {
		const struct pollfd *own = polls + WATCH_RANKS + job->rank_files * i;

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
	/* Nobody need be there to read what is left, once we were told to end. */
	return !job->signal && (sink_waiting(&job->out) || sink_waiting(&job->err));
}

static void finish_lines(struct job *job)
{
	for (int i = 0; i < job->started; i++) {
		lines_finish(&job->ranks[i].out);
		lines_finish(&job->ranks[i].err);
	}
}

/* Without poll() nobody could end this job but by SIGKILL. */
static void abandon(struct job *job, int error)
{
	fprintf(stderr, "rondo-run: cannot wait for the ranks: poll: %s: killing them\n",
		strerror(error));
	job->abandoned = true;
	signal_all(job, SIGKILL);
	for (int i = 0; i < job->started; i++)
		if (!job->ranks[i].ended)
			on_end(job, &job->ranks[i]);
	finish_lines(job);
}

static void run(struct job *job)
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

/* ---- Start and end --------------------------------------------------------------------------- */

/* Where ours are closed, pipes would get their numbers, and a rank's stdout would be lost. */
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
	/* An ignored SIGCHLD would have the kernel throw the ranks' statuses away. */
	signal(SIGCHLD, SIG_DFL);
	job->signal_fd = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
	if (job->signal_fd < 0)
		fprintf(stderr, "rondo-run: cannot watch for signals: %m\n");
	return job->signal_fd >= 0;
}

/* Whether stdout and stderr are one: then what a rank prints to both must stay in order. */
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
		return START_FILES + WATCH_RANKS;
	while (readdir(directory))
		count++;
	closedir(directory);
	return count - 3; /* ".", "..", and the directory itself */
}

/* The ranks get back the limit that we were given: programs with select() count on it. */
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

/* One rank's lines mix with nobody's: it has our stdout and stderr to itself. */
static bool is_alone(const struct options *options)
{
	return options->local_size == 1 && !options->tag;
}

static bool job_init(struct job *job)
{
	size_t size = (size_t)job->options.local_size;

	job->rendezvous_fd = -1;
	sink_init(&job->out, STDOUT_FILENO);
	sink_init(&job->err, STDERR_FILENO);
	job->messages = same_place(STDOUT_FILENO, STDERR_FILENO) ? &job->out : &job->err;
	job->rank_files = is_alone(&job->options) ? 1 : job->messages == &job->out ? 2 : 3;
	job->ranks = calloc(size, sizeof(*job->ranks));
	job->polls = calloc(WATCH_RANKS + (size_t)job->rank_files * size, sizeof(*job->polls));
	if (!job->ranks || !job->polls) {
		fprintf(stderr, "rondo-run: out of memory\n");
		return false;
	}
	draw_run_id(job);
	return catch_signals(job) && make_room_for_files(job) &&
	       (job->options.node > 0 || open_rendezvous(job));
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
		.rendezvous_fd = number == 0 ? job->rendezvous_fd : -1,
		.mask = &job->mask,
		.files = &job->files,
		.out = alone ? NULL : &job->out,
		.err = alone ? NULL : job->messages,
		.tag = tag,
		/* A terminal answers none but its foreground group, which no rank is in. */
		.reads_input = local_rank == 0 && !isatty(STDIN_FILENO),
		.set_environment = set_environment,
		.argument = job,
	};

	if (options->tag)
		snprintf(tag, sizeof(tag), "[%d] ", number);
	if (!rank_start(rank, number, &start, status))
		return false;
	job->started++;
	job->alive++;
	return true;
}

/* Where there is one processor, a program would have one thread anyhow. */
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
	/* From now on it is rank 0's alone: when that dies, those who come are refused. */
	if (job->rendezvous_fd >= 0)
		close(job->rendezvous_fd);
	job->abandoned = status != 0;
	if (job->abandoned)
		signal_all(job, SIGKILL);
	run(job);
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
