/* ctest label: threads */
/* Links are opened when a call needs them, whatever the peer's program does. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "comm/comm.h"
#include "text.h"
#include "world.h"

/* Shared by the ranks. */
struct gates {
	sem_t begin, end;
	int (*body)(struct rank_env *env); /* of each rank that has its comm */
};

static int run_body(struct rank_env *env)
{
	struct gates *gates = env->argument;

	return env->create_error ? world_report(env, "%s", rondo_last_error()) : gates->body(env);
}

static struct gates *make_gates(int (*body)(struct rank_env *env))
{
	struct gates *gates = mmap(
		NULL, sizeof(*gates), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(gates, MAP_FAILED);
	gates->body = body;
	sem_init(&gates->begin, 1, 0);
	sem_init(&gates->end, 1, 0);
	/* Costs are not measured: only a broadcast by rank 0 opens links, at the creation. */
	setenv("RONDO_REPRODUCIBLE", "1", 1);
	return gates;
}

static void try_gates(struct world world, int (*body)(struct rank_env *env))
{
	struct gates *gates = make_gates(body);
	struct rank_outcome outcomes[WORLD_MAX];

	cr_expect_eq(world_run(&world, run_body, gates, outcomes), 0, "over %s",
		world.transport ? world.transport : "any");
	munmap(gates, sizeof(*gates));
}

/* ---- A peer that makes no call --------------------------------------------------------------- */

static int send_before_it_receives(struct rank_env *env)
{
	struct gates *gates = env->argument;
	int number = 7;

	if (env->rank == 1) {
		TRY(rondo_send(env->comm, &number, 1, RONDO_I32, 2, NULL));
		sem_post(&gates->end);
	} else if (env->rank == 2) {
		if (!world_wait(&gates->end))
			return world_report(env, "rank 1 waits for a call of this rank");
		number = 0;
		TRY(rondo_recv(env->comm, &number, 1, RONDO_I32, 1, NULL));
		if (number != 7)
			return world_report(env, "%d has come", number);
	}
	return 0;
}

Test(links, open_to_a_rank_that_makes_no_call, .timeout = 60)
{
	static const char *const transports[] = { "shm", "tcp" };

	for (int i = 0; i < 2; i++)
		for (int channels = 1; channels <= 2; channels++)
			for (int threads = 0; threads < 2; threads++)
				try_gates((struct world){ .size = 3,
						  .transport = transports[i],
						  .channels = channels,
						  .threads = threads },
					send_before_it_receives);
}

/* Rank 2 waits in a call of ranks 0 and 2, until rank 1 has sent to it. */
static int send_while_it_waits(struct rank_env *env)
{
	struct gates *gates = env->argument;
	int number = 7;

	if (env->rank == 1) {
		if (!world_wait(&gates->begin))
			return world_report(env, "rank 2 has not come");
		TRY(rondo_send(env->comm, &number, 1, RONDO_I32, 2, NULL));
		sem_post(&gates->end);
	} else if (env->rank == 0) {
		if (!world_wait(&gates->end))
			return world_report(env, "rank 1 waits for a call of rank 2");
		TRY(rondo_send(env->comm, &number, 1, RONDO_I32, 2, NULL));
	} else {
		sem_post(&gates->begin);
		TRY(rondo_recv(env->comm, &number, 1, RONDO_I32, 0, NULL));
		TRY(rondo_recv(env->comm, &number, 1, RONDO_I32, 1, NULL));
	}
	return 0;
}

Test(links, open_to_a_rank_that_waits_in_another_call, .timeout = 60)
{
	try_gates((struct world){ .size = 3, .transport = "shm" }, send_while_it_waits);
	try_gates((struct world){ .size = 3, .transport = "tcp" }, send_while_it_waits);
}

/* ---- Ahead ----------------------------------------------------------------------------------- */

static int count_open(const struct rank_env *env)
{
	int count = 0;

	for (int peer = 0; peer < env->size; peer++)
		count += env->comm->links[peer * env->comm->channels] != NULL;
	return count;
}

static int connect_alone(struct rank_env *env)
{
	struct gates *gates = env->argument;

	if (env->rank == 0) {
		TRY(rondo_comm_connect(env->comm, "AllReduce", 1, RONDO_F32));
		TRY(rondo_comm_connect(env->comm, "alltoall", 1 << 20, RONDO_F32));
		if (count_open(env) != env->size - 1)
			return world_report(env, "%d of its links are open", count_open(env));
		for (int i = 1; i < env->size; i++)
			sem_post(&gates->begin);
	} else if (!world_wait(&gates->begin)) {
		return world_report(env, "rank 0 waits for a call of this rank");
	}
	return world_sum_one(env);
}

Test(links, can_be_opened_ahead_by_one_rank, .timeout = 60)
{
	try_gates((struct world){ .size = 5 }, connect_alone);
	try_gates((struct world){ .size = 5, .transport = "mixed" }, connect_alone);
	try_gates((struct world){ .size = 1 }, connect_alone);
}

static int connect_badly(struct rank_env *env)
{
	EXPECT_ERROR(rondo_comm_connect(NULL, "barrier", 1, RONDO_F32), RONDO_INVALID,
		"rondo_comm_connect: comm is NULL");
	EXPECT_ERROR(rondo_comm_connect(env->comm, NULL, 1, RONDO_F32), RONDO_INVALID,
		"rondo_comm_connect: collective is NULL");
	EXPECT_ERROR(rondo_comm_connect(env->comm, "brodcast", 1, RONDO_F32), RONDO_INVALID,
		"rondo_comm_connect: brodcast is no collective; did you mean broadcast?");
	EXPECT_ERROR(rondo_comm_connect(env->comm, "barrier", 1, (rondo_type)99), RONDO_INVALID,
		"rondo_comm_connect: 99 is no type");
	TRY(rondo_group_start());
	EXPECT_ERROR(rondo_comm_connect(env->comm, "barrier", 1, RONDO_F32), RONDO_INVALID,
		"rondo_comm_connect: end the group first");
	TRY(rondo_group_end());
	return world_sum_one(env);
}

Test(links, of_a_wrong_call_are_refused, .timeout = 60)
{
	try_gates((struct world){ .size = 2 }, connect_badly);
}

/* ---- Their number ---------------------------------------------------------------------------- */

static int just_leave(struct rank_env *env)
{
	(void)env;
	return 0;
}

static int count_links(int size, int (*body)(struct rank_env *env))
{
	struct world world = { .size = size, .transport = "shm" };
	struct gates *gates = make_gates(body);
	int count;

	setenv("RONDO_DEBUG", "INFO", 1);
	count = count_of(world_run_captured(&world, run_body, gates), " via shm");
	unsetenv("RONDO_DEBUG");
	munmap(gates, sizeof(*gates));
	return count;
}

static int add_in_a_ring(struct rank_env *env)
{
	static float values[16384];

	return world_sum(env, values, sizeof(values) / sizeof(*values));
}

/* A line of each end of each link. Making a comm broadcasts, over a link of each other rank. */
Test(links, of_a_comm_are_as_many_as_its_calls_need, .timeout = 60)
{
	int made = count_links(12, just_leave), used;

	cr_expect_leq(made, 2 * (12 - 1), "%d ends", made);
	setenv("RONDO_ALGO", "ring", 1);
	used = count_links(12, add_in_a_ring);
	unsetenv("RONDO_ALGO");
	/* And the ring's neighbours, each with two ends. */
	cr_expect_leq(used, 2 * (12 - 1) + 2 * 12, "%d ends", used);
	cr_expect_geq(used, 2 * 12, "%d ends", used);
}

/* ---- Direct access by more than 16 ranks ----------------------------------------------------- */

static int add_registered(struct rank_env *env)
{
	size_t count = 40000;
	float *values;
	int wrong = 0;

	values = world_get_memory(env, count * sizeof(*values));
	for (int i = 0; i < 4 && !wrong; i++)
		wrong = world_sum(env, values, count >> i);
	world_put_memory(env, values);
	return wrong;
}

Test(links, of_ranks_that_map_each_other_open_after_their_buffers_are_known, .timeout = 60)
{
	struct world world = { .size = WORLD_MAX, .memory = REGISTERED };

	for (int threads = 0; threads < 2; threads++) {
		world.threads = threads;
		try_gates(world, add_registered);
	}
}

/* ---- Ends ------------------------------------------------------------------------------------ */

static int leave_early(struct rank_env *env)
{
	struct gates *gates = env->argument;
	int number = 7;

	if (env->rank == 2) {
		int err = rondo_comm_destroy(env->comm);

		env->comm = NULL;
		sem_post(&gates->end);
		return err ? world_report(env, "%s", rondo_last_error()) : 0;
	}
	if (env->rank == 0)
		return 0;
	if (!world_wait(&gates->end))
		return world_report(env, "rank 2 does not leave");
	EXPECT_ERROR(
		rondo_send(env->comm, &number, 1, RONDO_I32, 2, NULL), RONDO_LEFT, "rank 2 (host ");
	return 0;
}

static void expect_last_two(const char *transport, int (*body)(struct rank_env *env))
{
	struct world world = { .size = 3, .transport = transport, .quiet = true };
	struct gates *gates = make_gates(body);
	struct rank_outcome outcomes[WORLD_MAX];

	world_run(&world, run_body, gates, outcomes);
	cr_expect_eq(outcomes[1].status, 0, "over %s: %s", transport, outcomes[1].text);
	munmap(gates, sizeof(*gates));
}

Test(links, to_a_rank_that_has_left_are_an_error, .timeout = 60)
{
	expect_last_two("shm", leave_early);
	expect_last_two("tcp", leave_early);
}

static int die_early(struct rank_env *env)
{
	int number = 7, err = 0;

	if (env->rank == 2)
		_exit(1);
	if (env->rank == 0)
		return 0;
	/* It may still answer, and its link takes a few messages. */
	while (!err)
		err = rondo_send(env->comm, &number, 1, RONDO_I32, 2, NULL);
	return world_expect(env, "send", err, RONDO_DIED, "rank 2 (host ");
}

Test(links, to_a_rank_that_dies_are_an_error, .timeout = 60)
{
	expect_last_two("shm", die_early);
	expect_last_two("tcp", die_early);
}
