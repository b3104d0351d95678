/* A filter of system calls refuses accept4() to one process: it fails at once, wherever it listens,
   and names why. Every bound of a wait is 30 s or more. */
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "filter.h"
#include "free_port.h"
#include "world.h"

#define SIZE 3
#define NO_FILTERS 77

TestSuite(forbidden_accept, .timeout = 20);

/* ---- While a comm is made -------------------------------------------------------------------- */

/* Ranks of one host make a comm, where `refused` may not accept. texts: its error. */
static void make_comm(int refused, const char *transport, char (*texts)[WORLD_TEXT])
{
	struct rondo_config config = world_config(0, SIZE, free_port());
	rondo_comm *comm;
	pid_t pids[SIZE];
	int status;

	setenv("RONDO_TRANSPORT", transport, 1);
	for (int rank = 0; rank < SIZE; rank++) {
		config.rank = rank;
		pids[rank] = fork();
		if (pids[rank] > 0)
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (rank == refused && !forbid(SYS_accept4, EPERM))
			_exit(NO_FILTERS);
		status = rondo_comm_create(&comm, &config);
		/* On a busy machine that measures nothing, and opens no link. */
		if (status == 0)
			status = rondo_barrier(comm, NULL);
		snprintf(texts[rank], WORLD_TEXT, "%s: %s", rondo_error_name(status),
			rondo_last_error());
		/* The end of another would be a death to that rank, before it has the reason. */
		while (rank != refused)
			pause();
		_exit(status == 0);
	}
	cr_assert_eq(waitpid(pids[refused], &status, 0), pids[refused]);
	/* Others may wait for another rank 0. */
	for (int rank = 0; rank < SIZE; rank++)
		if (rank != refused)
			kill(pids[rank], SIGKILL);
	if (WIFEXITED(status) && WEXITSTATUS(status) == NO_FILTERS)
		cr_skip_test("no filters of system calls here");
	cr_assert_eq(status, 0, "it makes a comm, and a call");
}

static void try_comm(int refused, const char *transport, const char *words, const char *more)
{
	char(*texts)[WORLD_TEXT] = mmap(NULL, SIZE * sizeof(*texts), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	make_comm(refused, transport, texts);
	cr_expect(strstr(texts[refused], words) && strstr(texts[refused], more), "%s",
		texts[refused]);
	munmap(texts, SIZE * sizeof(*texts));
}

Test(forbidden_accept, ends_the_meeting_at_rank_0)
{
	try_comm(0, "", "RONDO_SYSTEM: rank 0 cannot accept a connection: Operation not permitted",
		"");
}

Test(forbidden_accept, fails_links_over_tcp)
{
	try_comm(1, "tcp",
		"over tcp: its connection could not be accepted: Operation not permitted", "");
}

Test(forbidden_accept, fails_links_over_shm)
{
	try_comm(1, "shm",
		"over shm: its connection could not be accepted: Operation not permitted", "");
}

/* Without the silence of 5 s that a link may keep. */
Test(forbidden_accept, fails_one_transport_after_the_other)
{
	try_comm(1, "", "over tcp: its connection could not be accepted: Operation not permitted",
		"nor over shm: its connection could not be accepted: Operation not permitted");
}

/* ---- After a death -------------------------------------------------------------------------- */

static int shrink_alone(struct rank_env *env)
{
	rondo_comm *smaller;

	TRY(env->create_error);
	TRY(rondo_barrier(env->comm, NULL));
	/* Before rank 1 can come there. */
	if (env->rank == 0 && !forbid_in_all_threads(SYS_accept4, EPERM))
		return 0;
	TRY(rondo_barrier(env->comm, NULL));
	if (env->rank == SIZE - 1)
		_exit(0);
	while (!rondo_barrier(env->comm, NULL))
		;
	if (env->rank == 1)
		return rondo_comm_shrink(env->comm, &smaller) || rondo_comm_destroy(smaller);
	EXPECT_ERROR(rondo_comm_shrink(env->comm, &smaller), RONDO_SYSTEM,
		"rank 0 cannot accept a connection: Operation not permitted");
	return 0;
}

/* The other one is waiting there by then, or comes while it is awaited. */
Test(forbidden_accept, ends_a_shrink)
{
	struct world world = { .size = SIZE, .quiet = true };
	struct rank_outcome outcomes[WORLD_MAX];

	world_run(&world, shrink_alone, NULL, outcomes);
	cr_expect_eq(outcomes[0].status, 0, "%s", outcomes[0].text);
}

/* ---- Groups --------------------------------------------------------------------------------- */

static int make_group(struct rank_env *env)
{
	const int ranks[] = { 0, 1 };
	rondo_comm *group;

	TRY(env->create_error);
	if (env->rank == 0 && !forbid_in_all_threads(SYS_accept4, EPERM))
		return 0;
	TRY(rondo_barrier(env->comm, NULL));
	EXPECT_ERROR(rondo_comm_create_group(env->comm, ranks, 2, 0, &group), RONDO_TIMEOUT,
		env->rank == 0 ? "rank 0 cannot accept a connection: Operation not permitted" : "");
	return 0;
}

/* It may pass: where it does not, it is the reason. */
Test(forbidden_accept, is_named_by_a_group_whose_ranks_do_not_come)
{
	struct world world = { .size = 2, .quiet = true };
	struct rank_outcome outcomes[WORLD_MAX];

	setenv("RONDO_INIT_TIMEOUT_MS", "2000", 1);
	world_run(&world, make_group, NULL, outcomes);
	for (int rank = 0; rank < 2; rank++)
		cr_expect_eq(outcomes[rank].status, 0, "%s", outcomes[rank].text);
}
