/* ctest label: threads */
/* Comms of some ranks of another one, which those ranks alone make. */
#include <criterion/criterion.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "transports/contract/leaks.h"
#include "world.h"

static void nap(void)
{
	nanosleep(&(struct timespec){ 0, 200000 }, NULL);
}

/* Ranks are numbered as listed, and only they have the comm. */
static int check_group(struct rank_env *env, rondo_comm *group, const int *ranks, int count)
{
	int64_t digits = 0, wanted = 0, own;
	int rank = rondo_comm_rank(group);

	if (rondo_comm_size(group) != count || ranks[rank] != env->rank)
		return world_report(
			env, "rank %d is %d of %d", env->rank, rank, rondo_comm_size(group));
	for (int i = 0; i < count; i++)
		wanted = wanted * 10 + ranks[i];
	own = env->rank;
	for (int i = rank + 1; i < count; i++)
		own *= 10;
	TRY(rondo_all_reduce(group, &own, &digits, 1, RONDO_I64, RONDO_SUM, NULL));
	return digits == wanted
		       ? 0
		       : world_report(env, "%lld, not %lld", (long long)digits, (long long)wanted);
}

static int make_and_use(struct rank_env *env, const int *ranks, int count, int tag)
{
	rondo_comm *group;
	int failed;

	TRY(rondo_comm_create_group(env->comm, ranks, count, tag, &group));
	failed = check_group(env, group, ranks, count);
	TRY(rondo_comm_destroy(group));
	return failed;
}

/* ---- Members -------------------------------------------------------------------------------- */

/* The others go on, and leave the comm, whose ranks 3 and 1 use theirs after it. */
static int two_of_four(struct rank_env *env)
{
	const int ranks[] = { 3, 1 };
	rondo_comm *group = NULL;
	int failed = 0;

	if (env->rank % 2) {
		TRY(rondo_comm_create_group(env->comm, ranks, 2, 0, &group));
		failed = check_group(env, group, ranks, 2);
	}
	TRY(rondo_barrier(env->comm, NULL));
	TRY(world_leave(env));
	if (!group)
		return failed;
	if (!failed)
		failed = check_group(env, group, ranks, 2);
	TRY(rondo_comm_destroy(group));
	return failed;
}

Test(create_group, is_called_by_its_members_alone, .timeout = 60)
{
	world_try(4, "shm", two_of_four);
	world_try(4, "tcp", two_of_four);
	world_try(4, "mixed", two_of_four);
}

/* Some of the same, some overlapping; a rank comes early to one, and late to another. */
static int one_after_another(struct rank_env *env)
{
	int all[WORLD_MAX], count;
	unsigned seed = 7;

	for (int round = 0; round < 60; round++) {
		bool member = false;

		count = 0;
		for (int rank = 0; rank < env->size; rank++) {
			int at = count > 0 ? rand_r(&seed) % count : 0;

			if (rand_r(&seed) / 8 % 2)
				continue;
			member |= rank == env->rank;
			all[count] = all[at];
			all[at] = rank;
			count++;
		}
		if (member && make_and_use(env, all, count, round % 3))
			return 1;
	}
	return 0;
}

Test(create_group, may_overlap_and_be_made_again, .timeout = 120)
{
	world_try(5, "shm", one_after_another);
	world_try(5, "tcp", one_after_another);
}

static int group_of_a_group(struct rank_env *env)
{
	const int ranks[] = { 2, 0, 3 }, inner[] = { 2, 1 }, alone[] = { env->rank };
	rondo_comm *group, *pair;
	int sum = 1;

	if (make_and_use(env, alone, 1, 0))
		return 1;
	if (env->rank == 1)
		return 0;
	TRY(rondo_comm_create_group(env->comm, ranks, 3, -1, &group));
	if (env->rank != 2) {
		TRY(rondo_comm_create_group(group, inner, 2, 0, &pair));
		TRY(rondo_all_reduce(pair, &sum, &sum, 1, RONDO_I32, RONDO_SUM, NULL));
		TRY(rondo_comm_destroy(pair));
	}
	TRY(rondo_comm_destroy(group));
	return env->rank == 2 || sum == 2 ? 0 : world_report(env, "the sum is %d", sum);
}

Test(create_group, may_have_one_rank_and_groups_of_its_own, .timeout = 60)
{
	world_try(4, "mixed", group_of_a_group);
}

/* ---- Threads -------------------------------------------------------------------------------- */

#define THREADS 3
#define ROUNDS 8

struct maker {
	pthread_t thread;
	struct rank_env *env;
	int tag, failed;
};

static void *make_often(void *argument)
{
	struct maker *maker = argument;
	struct rank_env *env = maker->env;
	int ranks[WORLD_MAX];

	for (int i = 0; i < env->size; i++)
		ranks[i] = (i + maker->tag) % env->size;
	for (int i = 0; i < ROUNDS && !maker->failed; i++)
		maker->failed = make_and_use(env, ranks, env->size, maker->tag);
	return NULL;
}

/* While the comm itself is used. */
static int make_in_threads(struct rank_env *env)
{
	struct maker makers[THREADS];
	int failed = 0;

	for (int i = 0; i < THREADS; i++) {
		makers[i] = (struct maker){ .env = env, .tag = i };
		if (pthread_create(&makers[i].thread, NULL, make_often, &makers[i]))
			return world_report(env, "no thread");
	}
	for (int i = 0; i < 100 && !failed; i++)
		failed = rondo_barrier(env->comm, NULL) != 0;
	for (int i = 0; i < THREADS; i++) {
		pthread_join(makers[i].thread, NULL);
		failed |= makers[i].failed;
	}
	return failed;
}

Test(create_group, may_be_made_by_several_threads_at_once, .timeout = 120)
{
	struct world threads = { .size = 3, .threads = true };

	cr_assert_eq(world_run(&threads, make_in_threads, NULL, NULL), 0);
	world_try(3, "tcp", make_in_threads);
}

/* ---- Without blocking ----------------------------------------------------------------------- */

#define BEGUN 6

/* Tests until the end. */
static int await_end(rondo_creation *creation, rondo_comm **comm)
{
	int64_t until = world_now_ms() + 20000;
	int result;

	while ((result = rondo_comm_create_test(creation, comm)) == RONDO_PENDING &&
		world_now_ms() < until)
		nap();
	return result;
}

/* The others wait for it, in the order of these calls; their lists are gone by then. */
static int begin_many(struct rank_env *env, rondo_creation **creations)
{
	rondo_comm *none;

	for (int i = 0; i < BEGUN; i++) {
		int ranks[] = { 2, 0, 1 };

		TRY(rondo_comm_create_group_begin(env->comm, ranks, 3, 0, &creations[i]));
		memset(ranks, 0, sizeof(ranks));
		if (env->rank == 0 && rondo_comm_create_test(creations[i], &none) != RONDO_PENDING)
			return world_report(env, "it does not wait for the others");
	}
	return 0;
}

static int begun_in_order(struct rank_env *env)
{
	const int ranks[] = { 2, 0, 1 };
	rondo_creation *creations[BEGUN];
	rondo_comm *groups[BEGUN];
	int failed = 0;

	if (env->rank == 0)
		TRY(begin_many(env, creations));
	TRY(rondo_barrier(env->comm, NULL));
	if (env->rank > 0)
		TRY(begin_many(env, creations));
	TRY(rondo_barrier(env->comm, NULL));
	for (int i = 0; i < BEGUN; i++)
		TRY(await_end(creations[i], &groups[i]));
	for (int i = 0; i < BEGUN && !failed; i++) {
		int sum = i;

		failed = check_group(env, groups[i], ranks, 3);
		TRY(rondo_all_reduce(groups[i], &sum, &sum, 1, RONDO_I32, RONDO_SUM, NULL));
		if (sum != 3 * i)
			return world_report(env, "%d, not %d", sum, 3 * i);
		TRY(rondo_comm_destroy(groups[i]));
	}
	return failed;
}

Test(create_group, is_begun_in_the_order_of_calls_while_the_comm_is_used, .timeout = 120)
{
	struct world threads = { .size = 3, .threads = true, .timeout_ms = 10000 };

	cr_assert_eq(world_run(&threads, begun_in_order, NULL, NULL), 0);
	world_try(3, "tcp", begun_in_order);
}

static bool listens_at(int fd, in_port_t port)
{
	struct sockaddr_in at = { .sin_family = AF_UNSPEC };
	socklen_t size = sizeof(at), on_size = sizeof(int);
	int on;

	return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &on_size) == 0 && on &&
	       getsockname(fd, (struct sockaddr *)&at, &size) == 0 && at.sin_family == AF_INET &&
	       at.sin_port == port;
}

static bool listens_here(in_port_t port)
{
	int fd = 0;

	while (fd < 256 && !listens_at(fd, port))
		fd++;
	return fd < 256;
}

/* How many ranks the first of a group has accepted, at its place: without a secret, that is the
   first that it sends. Ranks are threads. */
static int count_accepted(void)
{
	int count = 0;

	for (int fd = 0; fd < 256; fd++) {
		struct sockaddr_in peer = { .sin_family = AF_UNSPEC };
		struct tcp_info info = { .tcpi_bytes_received = 0 };
		socklen_t size = sizeof(peer), info_size = sizeof(info);

		count += getpeername(fd, (struct sockaddr *)&peer, &size) == 0 &&
			 peer.sin_family == AF_INET && listens_here(peer.sin_port) &&
			 getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &info_size) == 0 &&
			 info.tcpi_bytes_received > 0;
	}
	return count;
}

/* Ranks 2, 0 and 3 wait for rank 1; the argument's rank cancels. */
static int cancelled_by_one(struct rank_env *env)
{
	static const char *const reasons[] = { "the comm of ranks 2, 0, 3, 1: rank 1 cancelled", "",
		"the comm of ranks 2, 0, 3, 1: rank 0 cancelled",
		"the comm of ranks 2, 0, 3, 1: rank 2 cancelled" };
	int canceller = *(const int *)env->argument, ranks[] = { 2, 0, 3, 1 };
	int64_t until = world_now_ms() + 20000;
	rondo_creation *creation;
	rondo_comm *group;

	if (env->rank != 1) {
		TRY(rondo_comm_create_group_begin(env->comm, ranks, 4, 0, &creation));
		while (env->rank == canceller && count_accepted() < 2 && world_now_ms() < until)
			nap();
		if (env->rank == canceller)
			TRY(rondo_comm_create_cancel(creation));
		EXPECT_ERROR(await_end(creation, &group), RONDO_REVOKED, reasons[canceller]);
	}
	TRY(rondo_barrier(env->comm, NULL));
	return make_and_use(env, ranks, 4, 1);
}

Test(create_group, ends_on_all_that_came_where_one_cancels, .timeout = 120)
{
	struct world world = { .size = 4, .threads = true, .has_no_secret = true };
	int before = contract_open_files(), after;
	int64_t until;

	for (int canceller = 0; canceller < 4; canceller++)
		cr_assert(canceller == 1 ||
				  world_run(&world, cancelled_by_one, &canceller, NULL) == 0,
			"%d", canceller);
	until = world_now_ms() + 20000;
	/* A rank that has left alone may still say so to the others, in its control thread. */
	while ((after = contract_open_files()) != before && world_now_ms() < until)
		nap();
	cr_expect_eq(after, before, "%d open files, %d before", after, before);
}

/* The argument's rank alone calls; it is the group's first, or another. */
static int cancelled_alone(struct rank_env *env)
{
	const int ranks[] = { 1, 0 };
	rondo_creation *creation;
	rondo_comm *group;
	int64_t began;

	/* The group's ranks would wait for 30 s. */
	if (env->rank == *(const int *)env->argument) {
		TRY(rondo_comm_create_group_begin(env->comm, ranks, 2, 0, &creation));
		began = world_now_ms();
		TRY(rondo_comm_create_cancel(creation));
		EXPECT_ERROR(rondo_comm_create_test(creation, &group), RONDO_REVOKED, "cancelled");
		if (world_now_ms() - began > 20000)
			return world_report(
				env, "it took %lld ms", (long long)(world_now_ms() - began));
	}
	TRY(rondo_barrier(env->comm, NULL));
	return make_and_use(env, ranks, 2, 1);
}

Test(create_group, is_cancelled_at_once_where_nobody_comes, .timeout = 60)
{
	struct world world = { .size = 2 };

	for (int rank = 0; rank < 2; rank++)
		cr_assert_eq(world_run(&world, cancelled_alone, &rank, NULL), 0, "%d", rank);
}

/* It was made; the other rank has the comm, and uses it. */
static int cancelled_late(struct rank_env *env)
{
	const int ranks[] = { 1, 0 };
	rondo_creation *creation;
	rondo_comm *group;
	int err = 0;

	TRY(rondo_comm_create_group_begin(env->comm, ranks, 2, 0, &creation));
	if (env->rank == 0) {
		TRY(await_end(creation, &group));
		TRY(rondo_barrier(env->comm, NULL));
		err = rondo_barrier(group, NULL);
		rondo_comm_destroy(group);
		EXPECT_ERROR(err, RONDO_REVOKED, "rank 0 cancelled");
	} else {
		TRY(rondo_barrier(env->comm, NULL));
		TRY(rondo_comm_create_cancel(creation));
		EXPECT_ERROR(rondo_comm_create_test(creation, &group), RONDO_REVOKED,
			"rank 0 cancelled");
	}
	return make_and_use(env, ranks, 2, 0);
}

Test(create_group, cancelled_late_revokes_the_comm_of_the_others, .timeout = 60)
{
	world_try(2, NULL, cancelled_late);
}

/* Rank 1 does not call. */
static int parent_fails(struct rank_env *env)
{
	const int ranks[] = { 0, 1 };
	rondo_creation *creation;
	rondo_comm *group;

	if (env->rank == 0) {
		TRY(rondo_comm_create_group_begin(env->comm, ranks, 2, 0, &creation));
		TRY(rondo_comm_revoke(env->comm, "enough"));
		EXPECT_ERROR(await_end(creation, &group), RONDO_REVOKED, "enough");
	} else {
		EXPECT_ERROR(rondo_barrier(env->comm, NULL), RONDO_REVOKED, "enough");
	}
	return 0;
}

Test(create_group, that_was_begun_ends_with_the_comm, .timeout = 60)
{
	world_try(2, NULL, parent_fails);
}

/* ---- Failures ------------------------------------------------------------------------------- */

static int absent;

/* Ranks 2, 0 and 1 are to make it; one of them does not. */
static int without_one(struct rank_env *env)
{
	static const char *const reasons[] = { "the comm of ranks 2, 0, 1: rank",
		"the comm of ranks 2, 0, 1: rank 1 of 3 has not come",
		"the comm of ranks 2, 0, 1: rank 2 of 3 has not come" };
	const int ranks[] = { 2, 0, 1 };
	rondo_comm *group;

	if (env->rank != 3 && env->rank != ranks[absent])
		EXPECT_ERROR(rondo_comm_create_group(env->comm, ranks, 3, 0, &group), RONDO_TIMEOUT,
			reasons[absent]);
	TRY(rondo_barrier(env->comm, NULL));
	return 0;
}

Test(create_group, that_a_member_never_makes_ends_with_its_name, .timeout = 60)
{
	struct world world = { .size = 4 };

	setenv("RONDO_INIT_TIMEOUT_MS", "4000", 1);
	for (absent = 0; absent < 3; absent++)
		cr_assert_eq(world_run(&world, without_one, NULL, NULL), 0, "%d", absent);
}

/* The first of the group comes later: who gave up has not come. */
static int first_gives_up(struct rank_env *env)
{
	const int ranks[] = { 1, 0 };
	rondo_comm *group;

	if (env->rank == 0)
		EXPECT_ERROR(rondo_comm_create_group(env->comm, ranks, 2, 0, &group), RONDO_TIMEOUT,
			"the comm of ranks 1, 0");
	TRY(rondo_barrier(env->comm, NULL));
	if (env->rank == 1)
		EXPECT_ERROR(rondo_comm_create_group(env->comm, ranks, 2, 0, &group), RONDO_TIMEOUT,
			"the comm of ranks 1, 0: rank 1 of 2 has not come");
	TRY(rondo_barrier(env->comm, NULL));
	return make_and_use(env, ranks, 2, 0);
}

Test(create_group, can_be_made_after_one_that_was_given_up, .timeout = 60)
{
	struct world world = { .size = 2 };

	setenv("RONDO_INIT_TIMEOUT_MS", "4000", 1);
	cr_assert_eq(world_run(&world, first_gives_up, NULL, NULL), 0);
}

static int die_before(struct rank_env *env)
{
	const int ranks[] = { 0, 1, 2 }, victim = *(const int *)env->argument;
	rondo_comm *group;
	char name[16];
	int err;

	snprintf(name, sizeof(name), "rank %d (", victim);
	TRY(rondo_barrier(env->comm, NULL));
	world_meet(env, env->size);
	if (env->rank == victim)
		raise(SIGKILL);
	if (env->rank == 3)
		return 0;
	err = rondo_comm_create_group(env->comm, ranks, 3, 0, &group);
	return err == RONDO_DIED && strstr(rondo_last_error(), name)
		       ? 0
		       : world_report(env, "%d: %s", err, rondo_last_error());
}

Test(create_group, ends_at_once_where_a_member_dies, .timeout = 60)
{
	struct rank_outcome outcomes[WORLD_MAX];
	struct world world = { .size = 4, .limit_ms = 20000 };

	if (ONLY_THREADS)
		cr_skip_test("ranks are processes");
	for (int victim = 0; victim < 3; victim++) {
		world_run(&world, die_before, &victim, outcomes);
		for (int rank = 0; rank < 3; rank++)
			cr_expect_eq(outcomes[rank].status, rank == victim ? 128 + SIGKILL : 0,
				"rank %d of victim %d: %d: %s", rank, victim, outcomes[rank].status,
				outcomes[rank].text);
	}
}

static int bad_arguments(struct rank_env *env)
{
	const int outside[] = { 0, 2 }, twice[] = { 0, 0 }, other[] = { 1 - env->rank };
	rondo_comm *comm = env->comm, *group;
	rondo_creation *creation;

	EXPECT_ERROR(rondo_comm_create_group(comm, other, 1, 0, &group), RONDO_INVALID,
		"calls it, and is not listed");
	EXPECT_ERROR(rondo_comm_create_group(comm, outside, 2, 0, &group), RONDO_INVALID,
		"there is no rank 2 of 2");
	EXPECT_ERROR(rondo_comm_create_group(comm, twice, 2, 0, &group), RONDO_INVALID,
		"rank 0 is listed twice");
	EXPECT_ERROR(rondo_comm_create_group(comm, NULL, 2, 0, &group), RONDO_INVALID, "NULL");
	EXPECT_ERROR(
		rondo_comm_create_group(comm, twice, 3, 0, &group), RONDO_INVALID, "3 ranks of 2");
	EXPECT_ERROR(
		rondo_comm_create_group(comm, twice, 0, 0, &group), RONDO_INVALID, "0 ranks of 2");
	EXPECT_ERROR(
		rondo_comm_create_group(NULL, twice, 1, 0, &group), RONDO_INVALID, "comm is NULL");
	EXPECT_ERROR(rondo_comm_create_group_begin(comm, twice, 2, 0, &creation), RONDO_INVALID,
		"rondo_comm_create_group_begin: rank 0 is listed twice");
	EXPECT_ERROR(rondo_comm_create_group_begin(comm, twice, 1, 0, NULL), RONDO_INVALID,
		"creation is NULL");
	world_meet(env, env->size);
	TRY(rondo_comm_revoke(comm, "enough"));
	EXPECT_ERROR(rondo_comm_create_group(comm, twice, 1, 0, &group), RONDO_REVOKED, "enough");
	return 0;
}

Test(create_group, refuses_lists_that_make_no_sense, .timeout = 60)
{
	world_try(2, NULL, bad_arguments);
}
