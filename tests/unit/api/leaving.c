/*
 * A rank that leaves, or whose process ends, takes nothing from the others that they could have
 * had: they finish the call that it had finished, however late they come to it. Their next call is
 * an error that names it. A rank that calls exit() with a call under way has died, not left.
 *
 * Not in Criterion, whose processes have handlers of their own for exit().
 */
#include <poll.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "rondo.h"

#include "call_collective.h"

#define RANKS 4
#define MOST 65536

enum way { DESTROYS, RETURNS, EXITS, DIES, WAYS, EXITS_CALLING = WAYS };

static const char *const way_texts[] = { "destroys", "returns", "exits", "dies",
	"exits with a request under way" };

/* In memory that the ranks share. */
static struct job {
	enum way way;
	enum rd_collective collective;
	int leaver, root;
	int late; /* comes to the call only once the leaver has gone; -1: none */
	size_t count;
	bool in_duplicate; /* of a comm that lives as long */
	sem_t gone;
	pid_t leaver_pid;
} * job;

static int rank_of(const rondo_comm *comm)
{
	return rondo_comm_rank(comm);
}

static int complain(const rondo_comm *comm, const char *what)
{
	fprintf(stderr, "rank %d: %s: %s\n", rank_of(comm), what, rondo_last_error());
	return 1;
}

static int call(rondo_comm *comm)
{
	static int32_t in[RANKS * RANKS * MOST], out[RANKS * RANKS * MOST];

	for (size_t i = 0; i < RANKS * RANKS * job->count; i++)
		in[i] = 1;
	return call_collective(
		comm, job->collective, in, out, job->count, RONDO_I32, RONDO_SUM, job->root, NULL);
}

/* More than a rank sends before the others call. */
#define LONG (RANKS * RANKS * MOST)

static int call_long(rondo_comm *comm)
{
	static int32_t in[LONG], out[LONG];

	return rondo_all_reduce(comm, in, out, LONG, RONDO_I32, RONDO_SUM, NULL);
}

static int exit_calling(rondo_comm *comm)
{
	rondo_request *request;

	if (rondo_group_start() || call_long(comm) || rondo_group_prepare(&request) ||
		rondo_request_start(request, NULL, NULL))
		return complain(comm, "the request");
	exit(0);
}

static int leave(rondo_comm *first, rondo_comm *comm)
{
	if (job->way == DESTROYS &&
		(rondo_comm_destroy(comm) || (job->in_duplicate && rondo_comm_destroy(first))))
		return complain(NULL, "destroy");
	if (job->way == DESTROYS)
		sem_post(&job->gone);
	if (job->way == EXITS)
		exit(0);
	if (job->way == EXITS_CALLING)
		return exit_calling(comm);
	if (job->way == DIES)
		_exit(0);
	return 0;
}

static void await_leaver(void)
{
	struct pollfd end = { .events = POLLIN };

	if (job->way == DESTROYS) {
		sem_wait(&job->gone);
		return;
	}
	/* Where it has gone already, there may be none. */
	end.fd = (int)syscall(SYS_pidfd_open, job->leaver_pid, 0);
	if (end.fd >= 0)
		poll(&end, 1, -1);
	close(end.fd);
}

static int expect_error(rondo_comm *comm)
{
	int wanted = job->way >= DIES ? RONDO_DIED : RONDO_LEFT, err;
	char name[32];

	if (job->way == EXITS_CALLING)
		await_leaver();
	err = job->way == EXITS_CALLING ? call_long(comm) : rondo_barrier(comm, NULL);
	snprintf(name, sizeof(name), "rank %d ", job->leaver);
	if (err != wanted || !strstr(rondo_last_error(), name))
		return complain(comm, "the next call");
	return 0;
}

static int run_rank(void *argument)
{
	rondo_comm *first, *comm;
	int rank, status;

	(void)argument;
	if (rondo_comm_create(&first, NULL))
		return complain(NULL, "create");
	comm = first;
	if (job->in_duplicate && rondo_comm_duplicate(first, &comm))
		return complain(first, "duplicate");
	rank = rank_of(comm);
	if (rank == job->leaver)
		job->leaver_pid = getpid();
	/* The links are open, then. */
	if (call(comm) || rondo_barrier(comm, NULL))
		return complain(comm, "the first calls");
	if (rank == job->late)
		await_leaver();
	if (call(comm))
		return complain(comm, "the call that the leaver finished");
	if (rank == job->leaver)
		return leave(first, comm);
	status = expect_error(comm);
	rondo_comm_destroy(comm);
	if (job->in_duplicate)
		rondo_comm_destroy(first);
	return status;
}

/* Returns whether it failed. */
static int try(struct job wanted)
{
	static int jobs;

	*job = wanted;
	job->in_duplicate = jobs++ % 2;
	sem_init(&job->gone, 1, 0);

	int status = rondo_spawn(RANKS, run_rank, NULL);

	if (status)
		fprintf(stderr, "over %s%s: rank %d %s after collective %d of %zu, rank %d late\n",
			getenv("RONDO_TRANSPORT"), job->in_duplicate ? ", in a duplicate" : "",
			wanted.leaver, way_texts[wanted.way], wanted.collective, wanted.count,
			wanted.late);
	return status != 0;
}

/* The root has sent all, and need not wait for its receivers. */
static int try_late(enum way way)
{
	int failed = 0;

	for (int late = 1; late < RANKS; late++)
		failed += try((struct job){
			.way = way, .collective = RD_BROADCAST, .late = late, .count = 2 });
	failed += try((struct job){
		.way = way, .collective = RD_GATHER, .leaver = 2, .late = 0, .count = 2 });
	return failed;
}

static int try_each(enum way way, size_t count)
{
	int failed = 0;

	for (int collective = 0; collective < RD_COLLECTIVE_COUNT; collective++)
		for (int leaver = 0; leaver < RANKS && collective != RD_TRANSFER; leaver++)
			failed += try((struct job){ .way = way,
				.collective = collective,
				.leaver = leaver,
				.root = 1,
				.late = -1,
				.count = count });
	return failed;
}

int main(void)
{
	static const char *const transports[] = { "shm", "tcp" };
	int failed = 0;

	job = mmap(NULL, sizeof(*job), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (job == MAP_FAILED)
		return 1;
	setenv("RONDO_REPRODUCIBLE", "1", 1); /* no time is spent on measuring links */
	for (int t = 0; t < 2; t++) {
		setenv("RONDO_TRANSPORT", transports[t], 1);
		failed += try(
			(struct job){ .way = EXITS_CALLING, .leaver = 1, .late = -1, .count = 2 });
		for (enum way way = DESTROYS; way < WAYS; way++) {
			failed += try_late(way);
			failed += try_each(way, 2);
			failed += try_each(way, MOST);
		}
	}
	return failed > 0;
}
