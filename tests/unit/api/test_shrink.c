/* Ranks that outlive others shrink their comm, and go on; nobody hangs, and no two comms go on. */
#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "world.h"
#include "transports/contract/leaks.h"

static const char *const transports[] = { "shm", "tcp", "mixed" };
#define TRANSPORTS (sizeof(transports) / sizeof(*transports))

/* Ranks that die, as bits; and what they are in. */
struct deaths {
	unsigned victims, second_victims;
	void *shared; /* memory */
	int moment; /* the index of a collective, below */
};

static bool is_in(unsigned ranks, int rank)
{
	return ranks >> rank & 1;
}

static int count_of(unsigned ranks)
{
	return __builtin_popcount(ranks);
}

/* ---- Calls --------------------------------------------------------------------------------- */

#define COUNT 20000
static float in[COUNT * WORLD_MAX], out[COUNT * WORLD_MAX];

#define COLLECTIVES 8

static int call(rondo_comm *comm, int collective, rondo_stream *stream)
{
	switch (collective) {
	case 0:
		return rondo_all_reduce(comm, in, out, COUNT, RONDO_F32, RONDO_SUM, stream);
	case 1:
		return rondo_broadcast(comm, in, out, COUNT, RONDO_F32, 0, stream);
	case 2:
		return rondo_reduce_scatter(comm, in, out, COUNT, RONDO_F32, RONDO_SUM, stream);
	case 3:
		return rondo_all_gather(comm, in, out, COUNT, RONDO_F32, stream);
	case 4:
		return rondo_all_to_all(comm, in, out, COUNT, RONDO_F32, stream);
	case 5:
		return rondo_reduce(comm, in, out, COUNT, RONDO_F32, RONDO_SUM, 0, stream);
	case 6:
		return rondo_barrier(comm, stream);
	default:
		return rondo_gather(comm, in, out, COUNT, RONDO_F32, 0, stream);
	}
}

/* Makes calls until the comm fails. */
static int call_until_it_fails(rondo_comm *comm, int collective)
{
	int err = 0;

	/* Barriers between, for calls with a root let the others run ahead without end. */
	while (!err) {
		err = call(comm, collective, NULL);
		if (!err)
			err = rondo_barrier(comm, NULL);
	}
	return err;
}

/* ---- The shrunk comm ----------------------------------------------------------------------- */

/* All ranks of the comm sum, and their number is what it should be. */
static int check(struct rank_env *env, rondo_comm *comm, int rank, int size)
{
	float value = 1;

	if (rondo_comm_rank(comm) != rank || rondo_comm_size(comm) != size)
		return world_report(env, "rank %d of %d; wanted %d of %d", rondo_comm_rank(comm),
			rondo_comm_size(comm), rank, size);
	TRY(rondo_all_reduce(comm, &value, &value, 1, RONDO_F32, RONDO_SUM, NULL));
	if (value != (float)size)
		return world_report(env, "the sum is %g", (double)value);
	for (int collective = 0; collective < COLLECTIVES; collective++)
		TRY(call(comm, collective, NULL));
	return 0;
}

/* Those ranks alone have failed. */
static int check_failed(struct rank_env *env, unsigned failed)
{
	int ranks[WORLD_MAX], count = rondo_comm_failed(env->comm, ranks, WORLD_MAX);
	unsigned found = 0;

	for (int i = 0; i < count; i++)
		found |= 1u << ranks[i];
	return found == failed ? 0 : world_report(env, "failed: %#x; wanted: %#x", found, failed);
}

/* The number of this rank without those. */
static int rank_without(int rank, unsigned gone)
{
	return rank - count_of(gone & ((1u << rank) - 1));
}

static int shrink_without(struct rank_env *env, unsigned gone)
{
	rondo_comm *shrunk;

	TRY(rondo_comm_shrink(env->comm, &shrunk));

	int failed = check(env, shrunk, rank_without(env->rank, gone), env->size - count_of(gone));

	if (!failed)
		failed = check_failed(env, gone);
	rondo_comm_destroy(shrunk);
	return failed;
}

/* Runs it over each transport; the victims alone die. */
static void run(int size, int (*body)(struct rank_env *env), const struct deaths *deaths)
{
	unsigned victims = deaths->victims | deaths->second_victims;

	setenv("RONDO_REPRODUCIBLE", "1", 1); /* no time is spent on measuring links */
	for (size_t i = 0; i < TRANSPORTS; i++) {
		/* Less than any bound of a wait: a lost message is no delay, but an error. */
		struct world world = {
			.size = size, .transport = transports[i], .limit_ms = 25000
		};
		struct rank_outcome outcomes[WORLD_MAX];

		world_run(&world, body, (void *)deaths, outcomes);
		for (int rank = 0; rank < size; rank++)
			cr_assert_eq(outcomes[rank].status,
				is_in(victims, rank) ? 128 + SIGKILL : 0, "%s: rank %d: %d: %s",
				transports[i], rank, outcomes[rank].status, outcomes[rank].text);
	}
}

/* ---- Deaths -------------------------------------------------------------------------------- */

static int die_idle(struct rank_env *env)
{
	const struct deaths *deaths = env->argument;

	TRY(env->create_error);
	if (is_in(deaths->victims, env->rank))
		raise(SIGKILL);
	while (!rondo_comm_error(env->comm))
		poll(NULL, 0, 1);
	return shrink_without(env, deaths->victims);
}

Test(shrink, leaves_out_a_rank_that_died_idle, .timeout = 200)
{
	for (int victim = 0; victim < 4; victim++)
		run(4, die_idle, &(struct deaths){ .victims = 1u << victim });
}

Test(shrink, leaves_out_several_that_died_at_once, .timeout = 300)
{
	static const unsigned victims[] = { 0x3, 0xc, 0x11 };

	for (size_t i = 0; i < sizeof(victims) / sizeof(*victims); i++)
		run(5, die_idle, &(struct deaths){ .victims = victims[i] });
}

static int die_in_a_call(struct rank_env *env)
{
	const struct deaths *deaths = env->argument;
	rondo_stream *stream;

	TRY(env->create_error);
	if (is_in(deaths->victims, env->rank)) {
		for (int i = 0; i < 3; i++) {
			TRY(call(env->comm, deaths->moment, NULL));
			TRY(rondo_barrier(env->comm, NULL));
		}
		rondo_stream_create(&stream);
		call(env->comm, deaths->moment, stream);
		raise(SIGKILL);
	}
	call_until_it_fails(env->comm, deaths->moment);
	return shrink_without(env, deaths->victims);
}

Test(shrink, leaves_out_a_rank_that_died_in_any_collective, .timeout = 300)
{
	for (int moment = 0; moment < COLLECTIVES; moment++)
		run(3, die_in_a_call,
			&(struct deaths){ .victims = moment % 2 ? 1 : 4, .moment = moment });
}

/* ---- Twice --------------------------------------------------------------------------------- */

static int die_twice(struct rank_env *env)
{
	const struct deaths *deaths = env->argument;
	unsigned second = deaths->second_victims;
	rondo_comm *shrunk, *again;
	int failed;

	TRY(env->create_error);
	if (is_in(deaths->victims, env->rank))
		raise(SIGKILL);
	call_until_it_fails(env->comm, 0);
	TRY(rondo_comm_shrink(env->comm, &shrunk));
	/* The old one may go at any time. */
	rondo_comm_destroy(env->comm);
	env->comm = shrunk;
	if (is_in(second, env->rank))
		raise(SIGKILL);
	call_until_it_fails(env->comm, 0);
	TRY(rondo_comm_shrink(env->comm, &again));
	failed = check(env, again, rank_without(env->rank, deaths->victims | second),
		env->size - count_of(deaths->victims | second));
	rondo_comm_destroy(again);
	return failed;
}

Test(shrink, continues_after_a_second_death, .timeout = 200)
{
	run(4, die_twice, &(struct deaths){ .victims = 1, .second_victims = 2 });
	run(4, die_twice, &(struct deaths){ .victims = 8, .second_victims = 1 });
	run(3, die_twice, &(struct deaths){ .victims = 2, .second_victims = 4 });
}

/* ---- Deaths during a shrink ---------------------------------------------------------------- */

/* The second victim is killed some microseconds after it began to shrink. */
static void kill_soon(int microseconds)
{
	pid_t parent = getpid();

	if (fork() != 0)
		return;
	usleep((useconds_t)microseconds);
	kill(parent, SIGKILL);
	_exit(0);
}

/* Shrinks until a comm works: a rank may be killed just after a comm has been agreed on. */
static int die_in_a_shrink(struct rank_env *env)
{
	const struct deaths *deaths = env->argument;
	unsigned gone = deaths->victims | deaths->second_victims;
	int size = env->size - count_of(gone), rank = rank_without(env->rank, gone);
	rondo_comm *shrunk;

	TRY(env->create_error);
	if (is_in(deaths->victims, env->rank))
		raise(SIGKILL);
	if (is_in(deaths->second_victims, env->rank))
		kill_soon(deaths->moment);
	call_until_it_fails(env->comm, 0);
	for (;;) {
		TRY(rondo_comm_shrink(env->comm, &shrunk));
		rondo_comm_destroy(env->comm);
		env->comm = shrunk;
		if (rondo_comm_size(shrunk) == size)
			break;
		call_until_it_fails(shrunk, 0);
	}
	return check(env, env->comm, rank, size);
}

Test(shrink, continues_when_a_rank_dies_meanwhile, .timeout = 560)
{
	for (int moment = 0; moment < 30000; moment += 2000) {
		/* Rank 1 is the host. */
		run(5, die_in_a_shrink,
			&(struct deaths){ .victims = 1, .second_victims = 2, .moment = moment });
	}
}

Test(shrink, continues_when_a_member_dies_meanwhile, .timeout = 560)
{
	for (int moment = 1000; moment < 30000; moment += 2000)
		run(5, die_in_a_shrink,
			&(struct deaths){ .victims = 1, .second_victims = 8, .moment = moment });
}

/* ---- No deaths ----------------------------------------------------------------------------- */

#define ROUNDS 6

/* The comm is ended by each, or by one of them: all are in. */
static int shrink_again_and_again(struct rank_env *env)
{
	atomic_int *checked = ((struct deaths *)env->argument)->shared;
	int all = ROUNDS * env->size;
	int begun = atomic_load(checked) / all * all; /* of worlds before */

	for (int round = 0; round < ROUNDS; round++) {
		rondo_comm *shrunk, *more;

		if (round % 2 == 1 && env->rank == round)
			rondo_comm_revoke(env->comm, "the loss is NaN");
		TRY(rondo_comm_shrink(env->comm, &shrunk));
		if (rondo_comm_error(env->comm) != RONDO_REVOKED)
			return world_report(env, "the old comm is not revoked");
		if (check_failed(env, 0))
			return 1;
		EXPECT_ERROR(rondo_comm_shrink(env->comm, &more), RONDO_INVALID, "shrunk before");
		rondo_comm_destroy(env->comm);
		env->comm = shrunk;
		if (check(env, shrunk, env->rank, env->size))
			return 1;
		/* The next shrink ends calls that are under way. */
		atomic_fetch_add(checked, 1);
		while (atomic_load(checked) < begun + env->size * (round + 1) &&
			!rondo_comm_error(shrunk))
			poll(NULL, 0, 1);
	}
	return 0;
}

/* Beside a comm that makes no call. */
static int shrink_intact(struct rank_env *env)
{
	rondo_comm *first = env->comm, *second;
	int failed, before;

	TRY(env->create_error);
	if (world_second_comm(env, &second))
		return 1;
	TRY(rondo_barrier(second, NULL));
	TRY(rondo_comm_finalize(first));
	TRY(rondo_comm_destroy(first));
	env->comm = NULL;
	/* The first copy makes the means to meet at the other comm's place, which stay with it. */
	TRY(rondo_comm_duplicate(second, &env->comm));
	TRY(rondo_comm_finalize(env->comm));
	TRY(world_leave(env));
	before = contract_open_files();
	TRY(rondo_comm_duplicate(second, &env->comm));
	failed = shrink_again_and_again(env);
	if (!failed)
		TRY(rondo_comm_finalize(env->comm));
	world_leave(env);
	if (!failed && contract_open_files() != before)
		failed = world_report(
			env, "%d descriptors, after %d", contract_open_files(), before);
	/* The others' sockets are there until here. */
	if (!failed)
		TRY(rondo_barrier(second, NULL));
	rondo_comm_destroy(second);
	return failed;
}

Test(shrink, of_a_comm_without_a_failure_keeps_all_and_leaves_nothing_behind, .timeout = 90)
{
	struct deaths none = { .shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
				       MAP_SHARED | MAP_ANONYMOUS, -1, 0) };

	run(4, shrink_intact, &none);
	munmap(none.shared, 4096);
}

Test(shrink, of_a_rank_alone_gives_another, .timeout = 30)
{
	struct rondo_config config = RONDO_CONFIG_INIT;
	rondo_comm *comm, *shrunk;

	cr_expect_eq(rondo_comm_shrink(NULL, &shrunk), RONDO_INVALID);
	config.rank = 0;
	config.size = 1;
	cr_assert_eq(rondo_comm_create(&comm, &config), 0, "%s", rondo_last_error());
	cr_expect_eq(rondo_comm_shrink(comm, NULL), RONDO_INVALID);
	cr_expect_eq(rondo_comm_failed(comm, NULL, 0), 0);
	cr_assert_eq(rondo_comm_shrink(comm, &shrunk), 0, "%s", rondo_last_error());
	cr_expect_eq(rondo_comm_error(comm), RONDO_REVOKED);
	cr_expect_eq(rondo_barrier(shrunk, NULL), 0);
	rondo_comm_destroy(comm);
	rondo_comm_destroy(shrunk);
}

/* ---- Ranks that are not reached ------------------------------------------------------------ */

struct lateness {
	sem_t gone; /* posted by those that have gone on */
	_Atomic bool refused; /* the last one has come in vain */
	/* They destroy the old comm before, and so its job ends. One alone shrinks once more. */
	bool leaves;
};

/* The other ranks go on in this comm until the last one has come. */
static int outlast_the_late(struct rank_env *env, rondo_comm *shrunk)
{
	const struct lateness *lateness = env->argument;
	int64_t until_ms = world_now_ms() + 20000;
	int32_t ends = 0;

	while (!ends) {
		ends = atomic_load(&lateness->refused) || world_now_ms() > until_ms;
		TRY(rondo_all_reduce(shrunk, &ends, &ends, 1, RONDO_I32, RONDO_MAX, NULL));
		poll(NULL, 0, 10);
	}
	rondo_comm_destroy(shrunk);
	return atomic_load(&lateness->refused) ? 0 : world_report(env, "the late rank waits");
}

static int shrink_alone(struct rank_env *env, rondo_comm **shrunk)
{
	rondo_comm *once = *shrunk;

	TRY(rondo_comm_shrink(once, shrunk));
	rondo_comm_destroy(once);
	return 0;
}

/* The last rank comes only when the others have gone on without it. */
static int come_late(struct rank_env *env)
{
	struct lateness *lateness = env->argument;
	int others = env->size - 1, failed = 0;
	rondo_comm *shrunk;

	TRY(env->create_error);
	TRY(rondo_comm_set_timeout(env->comm, 3000));
	rondo_comm_revoke(env->comm, NULL);
	if (env->rank == others) {
		for (int i = 0; i < others; i++)
			if (!world_wait(&lateness->gone))
				return world_report(env, "the others do not shrink");
		EXPECT_ERROR(rondo_comm_shrink(env->comm, &shrunk), RONDO_TIMEOUT,
			"fewer than half, or half without rank 0, must not go on");
		atomic_store(&lateness->refused, true);
		return 0;
	}
	TRY(rondo_comm_shrink(env->comm, &shrunk));
	failed = check(env, shrunk, env->rank, others);
	if (!failed)
		failed = check_failed(env, 1u << others);
	if (lateness->leaves) {
		world_leave(env);
		if (others == 1 && shrink_alone(env, &shrunk))
			return 1;
	}
	sem_post(&lateness->gone);
	return failed ? failed : outlast_the_late(env, shrunk);
}

static void try_late(int size, int (*body)(struct rank_env *env))
{
	struct lateness *lateness = mmap(
		NULL, sizeof(*lateness), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct world world = { .size = size, .transport = "shm" };

	sem_init(&lateness->gone, 1, 0);
	for (int leaves = 0; leaves < 2; leaves++) {
		lateness->leaves = leaves;
		lateness->refused = false;
		cr_assert_eq(world_run(&world, body, lateness, NULL), 0);
	}
	munmap(lateness, sizeof(*lateness));
}

Test(shrink, leaves_out_a_rank_that_lives_and_does_not_come, .timeout = 150)
{
	try_late(3, come_late);
}

Test(shrink, to_rank_0_alone_leaves_out_a_late_rank, .timeout = 150)
{
	try_late(2, come_late);
}

/* Rank 2 lives, and has the first comm, but not its copy any more. */
static int outlive_a_copy(struct rank_env *env)
{
	const int ranks[] = { 1, 0 };
	rondo_comm *copy, *shrunk, *group;

	TRY(env->create_error);
	TRY(rondo_comm_duplicate(env->comm, &copy));
	TRY(rondo_barrier(copy, NULL));
	/* All have had the copy's. */
	TRY(rondo_barrier(env->comm, NULL));
	if (env->rank == 2) {
		rondo_comm_revoke(copy, NULL);
		rondo_comm_destroy(copy);
		return rondo_barrier(env->comm, NULL) ? world_report(env, "it failed") : 0;
	}
	while (!rondo_comm_error(copy))
		poll(NULL, 0, 1);
	TRY(rondo_comm_shrink(copy, &shrunk));
	rondo_comm_destroy(copy);
	/* Rank 0 comes to rank 1, whose listener has two threads now. */
	TRY(rondo_comm_create_group(env->comm, ranks, 2, 0, &group));
	TRY(rondo_barrier(group, NULL));
	if (check(env, shrunk, env->rank, 2))
		return 1;
	TRY(rondo_barrier(env->comm, NULL));
	rondo_comm_destroy(group);
	rondo_comm_destroy(shrunk);
	return 0;
}

Test(shrink, leaves_out_a_rank_that_destroyed_the_comm_and_lives, .timeout = 90)
{
	for (size_t i = 0; i < TRANSPORTS; i++) {
		/* No call's timeout ends it. */
		struct world world = { .size = 3, .transport = transports[i], .limit_ms = 20000 };

		cr_assert_eq(world_run(&world, outlive_a_copy, NULL, NULL), 0, "%s", transports[i]);
	}
}

/* The deaths on the other host are not sure: those ranks may go on without this one. */
static int outlive_the_other_host(struct rank_env *env)
{
	rondo_comm *shrunk;

	TRY(env->create_error);
	if (env->rank > 0)
		raise(SIGKILL);
	while (!rondo_comm_error(env->comm))
		poll(NULL, 0, 1);
	EXPECT_ERROR(rondo_comm_shrink(env->comm, &shrunk), RONDO_TIMEOUT,
		"fewer than half, or half without rank 0, must not go on");
	return shrunk ? world_report(env, "there is a comm") : 0;
}

Test(shrink, of_fewer_than_half_is_an_error, .timeout = 90)
{
	struct world world = { .size = 6, .transport = "mixed" };
	struct rank_outcome outcomes[WORLD_MAX];

	world_run(&world, outlive_the_other_host, NULL, outcomes);
	cr_assert_eq(outcomes[0].status, 0, "%s", outcomes[0].text);
}

/* ---- Hosts --------------------------------------------------------------------------------- */

Test(hosts, are_left_out_with_their_ranks, .timeout = 120)
{
	struct hosts *hosts = world_hosts(&(struct hosts_shape){ .count = 2 });
	struct deaths deaths = { .victims = 1 };
	struct world world = { .size = 4, .hosts = hosts, .host_of = { 0, 0, 1, 1 } };
	struct rank_outcome outcomes[WORLD_MAX];

	for (int i = 0; i < 2; i++) {
		deaths.victims = i ? 4 : 1;
		world_run(&world, die_idle, &deaths, outcomes);
		for (int rank = 0; rank < 4; rank++)
			cr_assert_eq(outcomes[rank].status,
				is_in(deaths.victims, rank) ? 128 + SIGKILL : 0, "rank %d: %s",
				rank, outcomes[rank].text);
	}
}
