/* A failure of one rank is soon an error on every other, which names it; no rank hangs. */
#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "comm/comm.h"
#include "base/error.h"
#include "text.h"
#include "world.h"

static const char *const transports[] = { "shm", "tcp", "mixed" };

/* On every rank but the victim: this error, and a reason with these words. */
struct expectation {
	int victim;
	int error;
	const char *words;
	bool lives; /* the victim: it has not failed */
};

/* Compares the error and the failed ranks with the expectation. */
static int fails_as_expected(struct rank_env *env, int err)
{
	const struct expectation *expected = env->argument;
	int ranks[2] = { -1, -1 }, late[2] = { -1, -1 }, count, wanted = expected->lives ? 0 : 1;

	if (world_expect(env, "call", err, expected->error, expected->words))
		return 1;
	count = env->comm ? rondo_comm_failed(env->comm, ranks, 2) : wanted;
	if (count != wanted || (env->comm && wanted && ranks[0] != expected->victim))
		return world_report(env, "%d ranks have failed, rank %d the first; wanted: %d, %d",
			count, ranks[0], wanted, expected->victim);
	wanted = expected->lives && expected->error == RONDO_TIMEOUT ? 1 : 0;
	count = env->comm ? rondo_comm_late(env->comm, late, 2) : wanted;
	if (count != wanted || (env->comm && wanted && late[0] != expected->victim))
		return world_report(env, "%d ranks were late, rank %d the first", count, late[0]);
	return 0;
}

/* ---- Deaths -------------------------------------------------------------------------------- */

static float values[100000];

/* The victim dies in the middle of its third call: on another thread's stream it has just begun. */
static int die_in_a_call(struct rank_env *env)
{
	const struct expectation *expected = env->argument;
	int err = env->create_error;

	for (int i = 0; i < 1000 && !err; i++) {
		if (env->rank == expected->victim && i == 3) {
			rondo_stream *stream;

			rondo_stream_create(&stream);
			rondo_all_reduce(
				env->comm, values, values, 100000, RONDO_F32, RONDO_SUM, stream);
			raise(SIGKILL);
		}
		err = rondo_all_reduce(
			env->comm, values, values, 100000, RONDO_F32, RONDO_SUM, NULL);
	}
	return fails_as_expected(env, err);
}

/* The world ends before a missing heartbeat would show a death. */
static void run_deaths(int (*body)(struct rank_env *env), int victim, int error, const char *words)
{
	for (size_t i = 0; i < sizeof(transports) / sizeof(*transports); i++) {
		struct expectation expected = { .victim = victim, .error = error, .words = words };
		struct world world = { .size = 4, .transport = transports[i], .limit_ms = 20000 };
		struct rank_outcome outcomes[WORLD_MAX];

		world_run(&world, body, &expected, outcomes);
		for (int rank = 0; rank < 4; rank++)
			cr_assert_eq(outcomes[rank].status, rank == victim ? 128 + SIGKILL : 0,
				"%s: rank %d: %d: %s", transports[i], rank, outcomes[rank].status,
				outcomes[rank].text);
	}
}

Test(failure, a_rank_killed_in_a_collective_is_named_on_every_other, .timeout = 90)
{
	run_deaths(die_in_a_call, 2, RONDO_DIED, "rank 2");
}

Test(failure, so_is_rank_0, .timeout = 90)
{
	run_deaths(die_in_a_call, 0, RONDO_DIED, "rank 0");
}

/* The others are in a barrier that the victim never joins. */
static int die_between_calls(struct rank_env *env)
{
	const struct expectation *expected = env->argument;
	int err = env->create_error;

	if (env->rank == expected->victim)
		raise(SIGKILL);
	if (!err)
		err = rondo_barrier(env->comm, NULL);
	return fails_as_expected(env, err);
}

Test(failure, a_rank_killed_before_it_joins_a_call_is_named, .timeout = 90)
{
	run_deaths(die_between_calls, 3, RONDO_DIED, "rank 3");
}

/* All calls are done; the others get the error in destroy, or not at all. */
static int die_at_teardown(struct rank_env *env)
{
	const struct expectation *expected = env->argument;
	int err = env->create_error;

	if (!err)
		err = rondo_barrier(env->comm, NULL);
	if (env->rank == expected->victim)
		raise(SIGKILL);
	if (err)
		return fails_as_expected(env, err);
	err = rondo_comm_destroy(env->comm);
	env->comm = NULL;
	return err ? fails_as_expected(env, err) : 0;
}

Test(failure, a_rank_killed_at_teardown_hangs_nobody, .timeout = 90)
{
	run_deaths(die_at_teardown, 1, RONDO_DIED, "rank 1");
}

Test(failure, nor_does_rank_0, .timeout = 90)
{
	run_deaths(die_at_teardown, 0, RONDO_DIED, "rank 0");
}

/* ---- Deaths that sockets show late --------------------------------------------------------- */

/* The victim leaves a child behind that holds all its sockets, and has memory to be freed. */
struct inheritance {
	struct expectation expected; /* first: fails_as_expected() reads it */
	int pipe[2]; /* the child ends when it is closed */
	size_t memory; /* of the victim, in bytes */
	pid_t (*fork)(void);
};

static void leave_child(const struct inheritance *inheritance)
{
	char byte;

	if (inheritance->fork() != 0)
		return;
	close(inheritance->pipe[1]);
	while (read(inheritance->pipe[0], &byte, 1) > 0)
		;
	_exit(0);
}

static int die_and_leave_child(struct rank_env *env)
{
	const struct inheritance *inheritance = env->argument;
	int err = env->create_error;

	if (!err)
		err = rondo_barrier(env->comm, NULL);
	if (!err && env->rank == inheritance->expected.victim) {
		if (inheritance->memory > 0)
			mmap(NULL, inheritance->memory, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
		leave_child(inheritance);
		*env->number = (uint64_t)world_now_ms();
		raise(SIGKILL);
	}
	if (!err)
		err = rondo_barrier(env->comm, NULL);
	*env->number = (uint64_t)world_now_ms();
	return fails_as_expected(env, err);
}

/* The world ends before its calls, or a missing heartbeat, would show a death. */
static void run_world_with_child(struct inheritance inheritance, int size, const char *transport)
{
	struct world world = { .size = size, .transport = transport, .limit_ms = 20000 };
	int victim = inheritance.expected.victim;
	struct rank_outcome outcomes[WORLD_MAX];

	cr_assert_eq(pipe(inheritance.pipe), 0);
	world_run(&world, die_and_leave_child, &inheritance, outcomes);
	close(inheritance.pipe[0]);
	close(inheritance.pipe[1]);
	for (int rank = 0; rank < size; rank++) {
		int64_t took = (int64_t)(outcomes[rank].number - outcomes[victim].number);

		cr_assert_eq(outcomes[rank].status, rank == victim ? 128 + SIGKILL : 0,
			"%s: rank %d: %d: %s", transport, rank, outcomes[rank].status,
			outcomes[rank].text);
		if (rank == victim)
			continue;
		fprintf(stderr, "over %s rank %d failed %lld ms after rank %d with %zu MiB died\n",
			transport, rank, (long long)took, victim, inheritance.memory >> 20);
	}
}

/* For ranks of one host. Not fork(): its child would close some sockets. */
static void run_inheritance(const char *transport, int victim, const char *words, size_t memory)
{
	struct inheritance inheritance = {
		.expected = { .victim = victim, .error = RONDO_DIED, .words = words },
		.memory = memory,
		.fork = _Fork,
	};

	run_world_with_child(inheritance, 4, transport);
}

/* Each rank is alone on its host: no local peer watches it. */
Test(failure, nor_does_a_forked_child_hide_the_death_of_a_rank_alone_on_its_host, .timeout = 90)
{
	static const char *const names[] = { "rank 0 (", "rank 1 (" };

	for (int victim = 0; victim < 2; victim++) {
		struct inheritance inheritance = {
			.expected = { .victim = victim,
				.error = RONDO_DIED,
				.words = names[victim] },
			.fork = fork,
		};

		run_world_with_child(inheritance, 2, "mixed");
	}
}

Test(failure, a_dead_rank_whose_child_holds_its_sockets_is_named_at_once, .timeout = 90)
{
	run_inheritance("shm", 2, "rank 2", 0);
	run_inheritance("tcp", 2, "rank 2", 0);
}

Test(failure, so_is_a_dead_rank_0_whose_child_holds_its_sockets, .timeout = 90)
{
	run_inheritance("shm", 0, "rank 0", 0);
	run_inheritance("tcp", 0, "rank 0", 0);
}

Test(failure, and_one_with_much_memory_to_free, .timeout = 90)
{
	run_inheritance("shm", 1, "rank 1", (size_t)1 << 30);
}

/* ---- Silence ------------------------------------------------------------------------------- */

static int stop_in_a_call(struct rank_env *env)
{
	const struct expectation *expected = env->argument;
	int32_t pids[WORLD_MAX], own = getpid();
	int err = env->create_error, wrong;

	if (!err)
		err = rondo_all_gather(env->comm, &own, pids, 1, RONDO_I32, NULL);
	for (int i = 0; i < 1000 && !err; i++) {
		if (env->rank == expected->victim && i == 3)
			raise(SIGSTOP);
		err = rondo_all_reduce(env->comm, values, values, 1000, RONDO_F32, RONDO_SUM, NULL);
	}
	wrong = fails_as_expected(env, err);
	world_meet(env, env->size - 1);
	if (env->rank == 0 && err)
		kill(pids[expected->victim], SIGKILL);
	return wrong;
}

Test(failure, a_stopped_rank_is_named_within_the_bound, .timeout = 90)
{
	for (size_t i = 0; i < sizeof(transports) / sizeof(*transports); i++) {
		struct expectation expected = {
			.victim = 1, .error = RONDO_TIMEOUT, .words = "rank 1"
		};
		struct world world = { .size = 4,
			.transport = transports[i],
			.call_timeout_ms = 2000,
			.limit_ms = 20000 };
		struct rank_outcome outcomes[WORLD_MAX];

		world_run(&world, stop_in_a_call, &expected, outcomes);
		for (int rank = 0; rank < 4; rank++)
			cr_assert_eq(outcomes[rank].status, rank == 1 ? 128 + SIGKILL : 0,
				"%s: rank %d: %d: %s", transports[i], rank, outcomes[rank].status,
				outcomes[rank].text);
	}
}

/* Rank 1 lives, and makes no call. */
static int stay_away(struct rank_env *env)
{
	int err = env->create_error;

	if (!err)
		err = rondo_barrier(env->comm, NULL);
	if (!err && env->rank == 1) {
		/* Until the verdict: it concerns this rank too. */
		while ((err = rondo_comm_error(env->comm)) == 0)
			poll(NULL, 0, 10);
	} else if (!err) {
		err = rondo_barrier(env->comm, NULL);
	}
	return fails_as_expected(env, err);
}

Test(failure, a_rank_that_does_not_join_a_call_is_named, .timeout = 90)
{
	struct expectation expected = {
		.victim = 1,
		.error = RONDO_TIMEOUT,
		.words = "has not joined barrier #2",
		.lives = true,
	};
	struct world world = { .size = 3, .call_timeout_ms = 2000, .limit_ms = 20000 };

	cr_assert_eq(world_run(&world, stay_away, &expected, NULL), 0);
}

/* A comm of all ranks but 0, in reverse: its ranks 0 and 2 make no call. */
static int stay_away_of_four(struct rank_env *env)
{
	int color = env->rank == 0 ? -1 : 1, late[2] = { -1, -1 }, err;
	rondo_comm *part = NULL;

	TRY(rondo_comm_split(env->comm, color, -env->rank, &part));
	if (!part)
		return 0;
	err = rondo_barrier(part, NULL);
	if (!err && rondo_comm_rank(part) == 3)
		TRY(rondo_comm_set_timeout(part, 2000));
	if (!err && rondo_comm_rank(part) % 2 == 1)
		err = rondo_barrier(part, NULL);
	while (!err && (err = rondo_comm_error(part)) == 0)
		poll(NULL, 0, 10);
	if (world_expect(env, "call", err, RONDO_TIMEOUT,
		    "ranks 0 and 2 of 4 have not joined barrier #2; rank "))
		return 1;
	if (rondo_comm_late(part, NULL, 0) != 2 || rondo_comm_late(part, late, 1) != 2 ||
		late[0] != 0 || late[1] != -1 || rondo_comm_late(part, late, 2) != 2 ||
		late[1] != 2 || rondo_comm_failed(part, NULL, 0) != 0)
		return world_report(env, "late: %d, %d", late[0], late[1]);
	if (rondo_comm_late(env->comm, NULL, 0) != 0)
		return world_report(env, "ranks are late in the parent");
	rondo_comm_destroy(part);
	return 0;
}

Test(failure, all_late_ranks_of_a_part_are_listed, .timeout = 90)
{
	WORLD_TRY(stay_away_of_four, .size = 5, .limit_ms = 20000);
}

Test(failure, late_ranks_need_a_comm_and_room)
{
	int ranks[1];

	cr_expect_eq(rondo_comm_late(NULL, ranks, 1), RONDO_INVALID);
	cr_expect_str_eq(
		rondo_last_error(), "rondo_comm_late: comm is NULL, or ranks has no room for 1");
}

/* The bound of the comm is the default, ten minutes. */
static int stay_away_for_less(struct rank_env *env)
{
	static const int refused[] = { -1, 9, 86400001 };
	int64_t begin_ms = world_now_ms();
	rondo_stream *stream;
	int seconds;

	if (env->create_error)
		return fails_as_expected(env, env->create_error);
	for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++)
		EXPECT_ERROR(rondo_comm_set_timeout(env->comm, refused[i]), RONDO_INVALID,
			"10 to 86400000");
	TRY(rondo_comm_set_timeout(env->comm, 10));
	TRY(rondo_comm_set_timeout(env->comm, 0));
	TRY(rondo_barrier(env->comm, NULL));
	if (env->rank == 1)
		return stay_away(env);
	TRY(rondo_stream_create(&stream));
	/* It holds for calls that are issued later. */
	TRY(rondo_comm_set_timeout(env->comm, 2100));
	rondo_barrier(env->comm, stream);
	rondo_comm_set_timeout(env->comm, 0);

	int err = rondo_stream_synchronize(stream);

	if (!err)
		err = rondo_comm_set_timeout(env->comm, 2000);
	if (!err)
		err = rondo_barrier(env->comm, NULL);
	rondo_stream_destroy(stream);

	const char *waited = strstr(rondo_last_error(), " waited ");
	int64_t took_ms = world_now_ms() - begin_ms;

	if (!waited || sscanf(waited, " waited %d s for it in", &seconds) != 1 || seconds < 2 ||
		seconds > took_ms / 1000)
		return world_report(env, "in %d ms: %s", (int)took_ms, rondo_last_error());
	return fails_as_expected(env, err);
}

Test(failure, one_call_may_have_a_bound_of_its_own, .timeout = 90)
{
	struct expectation expected = {
		.victim = 1,
		.error = RONDO_TIMEOUT,
		.words = "has not joined barrier #3",
		.lives = true,
	};
	struct world world = { .size = 3, .limit_ms = 20000 };

	cr_assert_eq(world_run(&world, stay_away_for_less, &expected, NULL), 0);
}

/* Makes no call until two lines of the log name it. */
static int come_late(struct rank_env *env)
{
	static char text[64 << 10];
	const int *file = env->argument;
	int64_t end = world_now_ms() + 20000;

	TRY(env->create_error);
	if (env->rank == 1)
		rondo_set_call_site("train.py:7");
	TRY(rondo_barrier(env->comm, NULL));
	rondo_set_call_site(NULL);
	while (env->rank == 1 && count_of(text, "slow call: ") < 2) {
		if (world_now_ms() > end)
			return world_report(env, "no two lines, but: %s", text);
		poll(NULL, 0, 10);
		if (pread(*file, text, sizeof(text) - 1, 0) < 0)
			return world_report(env, "the log cannot be read");
	}
	TRY(rondo_barrier(env->comm, NULL));
	return 0;
}

Test(failure, a_rank_that_lives_may_come_late_and_is_named_in_the_log, .timeout = 90)
{
	for (size_t i = 0; i < sizeof(transports) / sizeof(*transports); i++) {
		struct world world = { .size = 3, .transport = transports[i], .limit_ms = 40000 };
		const char *text;
		int failed, file;

		setenv("RONDO_HEARTBEAT_TIMEOUT_MS", "1500", 1);
		captured_stderr_begin();
		file = STDERR_FILENO;
		failed = world_run(&world, come_late, &file, NULL);
		text = captured_stderr_end();
		cr_assert_eq(failed, 0, "%s", text);
		cr_expect(strstr(text, "rank 1 of 3 has not joined barrier #2; rank "), "%s", text);
		cr_expect(strstr(text, "last made barrier #1, at train.py:7"), "%s", text);
		cr_expect(strstr(text, " in barrier #2 at test_failure+0x"), "%s", text);
		cr_expect_eq(count_of(text, "slow call: "), 2, "%s", text);
	}
}

/* ---- Leaving early ------------------------------------------------------------------------- */

static int leave_early(struct rank_env *env)
{
	const struct expectation *expected = env->argument;
	int err = env->create_error;

	if (!err)
		err = rondo_barrier(env->comm, NULL);
	if (!err && env->rank != expected->victim)
		err = rondo_barrier(env->comm, NULL);
	if (env->rank == expected->victim) {
		/* It gets the error, if at all, as it leaves. */
		world_leave(env);
		return 0;
	}
	return fails_as_expected(env, err);
}

Test(failure, a_call_after_a_rank_has_left_names_it, .timeout = 90)
{
	for (int victim = 0; victim < 3; victim++) {
		struct expectation expected = {
			.victim = victim,
			.error = RONDO_LEFT,
			.words = "left",
			.lives = true,
		};
		struct world world = { .size = 3, .timeout_ms = 60000, .limit_ms = 50000 };

		cr_assert_eq(world_run(&world, leave_early, &expected, NULL), 0);
	}
}

/* ---- Revoke -------------------------------------------------------------------------------- */

static int revoke_it(struct rank_env *env)
{
	int err = env->create_error;

	if (!err && env->rank == 1)
		rondo_comm_revoke(env->comm, "the loss is NaN");
	if (!err)
		err = rondo_barrier(env->comm, NULL);
	return fails_as_expected(env, err);
}

Test(failure, a_revoke_reaches_every_rank_with_its_reason, .timeout = 90)
{
	struct expectation expected = { .error = RONDO_REVOKED,
		.words = "rank 1 revoked the communicator: the loss is NaN",
		.lives = true };
	struct world world = { .size = 3, .limit_ms = 20000 };

	cr_assert_eq(world_run(&world, revoke_it, &expected, NULL), 0);
}

/* There is no other rank, but threads that wait for the comm's calls must get the error. */
Test(failure, a_rank_alone_stays_failed, .timeout = 30)
{
	struct rondo_config config = RONDO_CONFIG_INIT;
	rondo_comm *comm;

	config.rank = 0;
	config.size = 1;
	cr_assert_eq(rondo_comm_create(&comm, &config), 0, "%s", rondo_last_error());
	cr_assert_eq(rd_comm_failure(comm), 0);
	cr_assert_eq(
		rd_comm_fail(comm, rd_fail(RONDO_SYSTEM, "the device is lost"), 0), RONDO_SYSTEM);
	cr_assert_eq(rd_comm_failure(comm), RONDO_SYSTEM);
	cr_assert_eq(rondo_comm_error(comm), RONDO_SYSTEM);
	rondo_comm_destroy(comm);
}
