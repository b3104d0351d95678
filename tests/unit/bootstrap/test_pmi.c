/* ctest label: threads */
/* Meeting over PMI, with a process manager of this test: a thread that serves the wire protocol. */
#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rondo.h"

#define SIZE 3

/* A process manager with one key-value pair. */
struct manager {
	int fd[SIZE]; /* its ends of the sockets; -1: closed */
	int waiting; /* processes in the barrier */
	const char *wrong; /* the answer to every get, in place of the right one; NULL: none */
	char key[64], value[256];
	int gets, finalized;
};

/* In the manager's thread, where no assertion can end the test. */
static void require(bool condition, const char *text)
{
	if (condition)
		return;
	fprintf(stderr, "the manager: %s\n", text);
	abort();
}

/* In two parts: an answer need not arrive at once. */
static void say(int fd, const char *line)
{
	size_t size = strlen(line);

	require(send(fd, line, size / 2, MSG_NOSIGNAL) == (ssize_t)(size / 2), line);
	require(send(fd, line + size / 2, size - size / 2, MSG_NOSIGNAL) ==
			(ssize_t)(size - size / 2),
		line);
}

static void serve_line(struct manager *manager, int from, const char *line)
{
	char space[64], key[64], answer[512];

	if (strcmp(line, "cmd=get_my_kvsname\n") == 0) {
		say(manager->fd[from], "cmd=my_kvsname kvsname=space_1\n");
	} else if (sscanf(line, "cmd=put kvsname=%63s key=%63s value=%255s", space, manager->key,
			   manager->value) == 3) {
		require(strcmp(space, "space_1") == 0, line);
		say(manager->fd[from], "cmd=put_result rc=0 msg=success\n");
	} else if (strcmp(line, "cmd=barrier_in\n") == 0) {
		if (++manager->waiting == SIZE)
			for (int i = 0; i < SIZE; i++)
				say(manager->fd[i], "cmd=barrier_out\n");
	} else if (sscanf(line, "cmd=get kvsname=%63s key=%63s", space, key) == 2) {
		require(manager->waiting == SIZE, "a get before the barrier");
		require(strcmp(key, manager->key) == 0, line);
		manager->gets++;
		snprintf(answer, sizeof(answer), "cmd=get_result rc=0 msg=success value=%s\n",
			manager->value);
		say(manager->fd[from], manager->wrong ? manager->wrong : answer);
	} else if (strcmp(line, "cmd=finalize\n") == 0) {
		manager->finalized++;
		say(manager->fd[from], "cmd=finalize_ack\n");
	} else {
		require(false, line);
	}
}

/* Until all sockets have ended. A process awaits each answer, so at most one line is there. */
static void *serve(void *argument)
{
	struct manager *manager = argument;
	struct pollfd polls[SIZE];
	FILE *from[SIZE];
	char line[512];
	int open = SIZE;

	for (int i = 0; i < SIZE; i++) {
		from[i] = fdopen(dup(manager->fd[i]), "r");
		polls[i] = (struct pollfd){ .fd = manager->fd[i], .events = POLLIN };
	}
	while (open > 0 && poll(polls, SIZE, -1) > 0)
		for (int i = 0; i < SIZE; i++) {
			if (!polls[i].revents)
				continue;
			if (fgets(line, sizeof(line), from[i])) {
				serve_line(manager, i, line);
				continue;
			}
			polls[i].fd = -1;
			open--;
		}
	for (int i = 0; i < SIZE; i++)
		fclose(from[i]);
	return NULL;
}

/* Twice: later comms meet at the first address. */
static int sum_is_right(void)
{
	for (int i = 0; i < 2; i++) {
		int32_t mine, sum = 0;
		rondo_comm *comm;

		if (rondo_comm_create(&comm, NULL)) {
			fprintf(stderr, "%s\n", rondo_last_error());
			return 1;
		}
		mine = rondo_comm_rank(comm) + 1;
		if (rondo_all_reduce(comm, &mine, &sum, 1, RONDO_I32, RONDO_SUM, NULL) ||
			sum != SIZE * (SIZE + 1) / 2 || rondo_comm_destroy(comm))
			return 2;
	}
	return 0;
}

/* In place of a reason: the process runs the example, which exits. */
static const char example[] = "the example";

/* A process of the job; its status 3: the comm failed with this reason. */
static pid_t start_process(int rank, int fd, const char *reason)
{
	pid_t child = fork();
	char text[16];
	rondo_comm *comm;

	cr_assert_geq(child, 0);
	if (child > 0)
		return child;
	snprintf(text, sizeof(text), "%d", rank);
	setenv("PMI_RANK", text, 1);
	snprintf(text, sizeof(text), "%d", SIZE);
	setenv("PMI_SIZE", text, 1);
	snprintf(text, sizeof(text), "%d", fd);
	setenv("PMI_FD", text, 1);
	if (!reason)
		_exit(sum_is_right());
	if (reason == example) {
		execl(RONDO_EXAMPLE, RONDO_EXAMPLE, NULL);
		_exit(99);
	}
	if (!rondo_comm_create(&comm, NULL))
		_exit(4);
	if (!strstr(rondo_last_error(), reason)) {
		fprintf(stderr, "no \"%s\" in: %s\n", reason, rondo_last_error());
		_exit(5);
	}
	_exit(3);
}

/* Runs the first `count` of the processes; returns the status that all of them have. */
static int run_job(struct manager *manager, int count, const char *reason)
{
	int theirs[SIZE], all = -1;
	pid_t children[SIZE];
	pthread_t thread;

	unsetenv("RANK");
	unsetenv("WORLD_SIZE");
	for (int i = 0; i < SIZE; i++) {
		int ends[2];

		cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
		manager->fd[i] = ends[0];
		theirs[i] = ends[1];
	}
	for (int i = 0; i < count; i++)
		children[i] = start_process(i, theirs[i], reason);
	for (int i = 0; i < count; i++)
		close(theirs[i]);
	cr_assert_eq(pthread_create(&thread, NULL, serve, manager), 0);
	for (int i = 0; i < count; i++) {
		int status;

		cr_assert_eq(waitpid(children[i], &status, 0), children[i]);
		cr_assert(WIFEXITED(status) && (i == 0 || WEXITSTATUS(status) == all),
			"rank %d: status %x", i, status);
		all = WEXITSTATUS(status);
	}
	for (int i = count; i < SIZE; i++)
		close(theirs[i]);
	/* Children hold copies of the other ends until they have ended. */
	for (int i = 0; i < SIZE; i++)
		shutdown(manager->fd[i], SHUT_RDWR);
	pthread_join(thread, NULL);
	for (int i = 0; i < SIZE; i++)
		close(manager->fd[i]);
	return all;
}

Test(pmi, ranks_meet_through_the_key_value_space, .timeout = 60)
{
	struct manager manager = { 0 };

	cr_assert_eq(run_job(&manager, SIZE, NULL), 0);
	cr_assert_eq(manager.gets, SIZE, "one exchange serves both comms");
	cr_assert_eq(manager.finalized, 0, "_exit() is no proper end");
}

/* Without that, MPICH's mpiexec kills the others when the first process ends. */
Test(pmi, a_process_that_exits_finalizes, .timeout = 60)
{
	struct manager manager = { 0 };

	cr_assert_eq(run_job(&manager, SIZE, example), 0);
	cr_assert_eq(manager.finalized, SIZE);
}

Test(pmi, an_answer_that_makes_no_sense_is_an_error, .timeout = 60)
{
	static const char *const cases[][2] = {
		{ "cmd=get_result rc=-1 msg=key_rondo_not_found value=unknown\n",
			"PMI: get failed" },
		{ "cmd=get_result rc=0 value=nowhere\n", "\"nowhere\" is not where ranks meet" },
		{ "cmd=get_result rc=0 value=1.2.3.4/0/0123456789abcdef\n", "is not where ranks" },
		{ "cmd=get_result rc=0 value=host/5/0123456789abcdef\n", "is not where ranks" },
		{ "cmd=get_result rc=0 value=1.2.3.4/5/0123456789abcde\n", "is not where ranks" },
		{ "cmd=get_result rc=0 value=1.2.3.4/5/0123456789abcdefx\n", "is not where ranks" },
		{ "cmd=get_result rc=0 value=refused\n", "rank 0 cannot listen" },
		{ "cmd=get_result rc=0\n", "PMI: no value in the answer to get" },
		{ "cmd=barrier_out\n", "is no answer to get" },
		{ "\n", "is no answer to get" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct manager manager = { .wrong = cases[i][0] };

		cr_assert_eq(run_job(&manager, SIZE, cases[i][1]), 3, "%s", cases[i][0]);
	}
}

Test(pmi, a_process_that_makes_no_comm_is_waited_for_no_longer_than_the_others_may, .timeout = 60)
{
	struct manager manager = { 0 };

	setenv("RONDO_INIT_TIMEOUT_MS", "500", 1);
	cr_assert_eq(
		run_job(&manager, SIZE - 1,
			"PMI: no answer to barrier_in within 500 ms; every process of the job"),
		3);
}
