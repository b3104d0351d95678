/* Connections between hosts that the network resets, again and again: links and control connections
   go on over others, and no byte is lost or comes twice. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "resets.h"
#include "world.h"

#define RANKS 4
#define RESETS 40
#define COUNT_MAX 1000000

static uint32_t values[COUNT_MAX], sums[COUNT_MAX];

static struct {
	_Atomic int calls; /* that this rank has made */
	_Atomic int resets; /* after which a connection was reset */
	_Atomic bool over;
} shared;

/* Strikes while this rank is in its calls, at least once in each. */
static void *reset_again_and_again(void *unused)
{
	int seen = -1;

	(void)unused;
	while (!atomic_load(&shared.over)) {
		int calls = atomic_load(&shared.calls);

		if (calls == seen) {
			sched_yield();
			continue;
		}
		seen = calls;
		if (reset_connections(1) > 0)
			atomic_fetch_add(&shared.resets, 1);
	}
	return NULL;
}

static void stop(const pthread_t *thread)
{
	atomic_store(&shared.over, true);
	pthread_join(*thread, NULL);
}

static uint32_t value_at(int rank, int call, size_t i)
{
	return (uint32_t)(i * 2654435761u + (uint32_t)call * 40503u) ^ (uint32_t)rank << 28;
}

static int sum_once(struct rank_env *env, int call, size_t count)
{
	for (size_t i = 0; i < count; i++)
		values[i] = value_at(env->rank, call, i);
	TRY(rondo_all_reduce(env->comm, values, sums, count, RONDO_U32, RONDO_SUM, NULL));
	for (size_t i = 0; i < count; i++) {
		uint32_t sum = 0;

		for (int rank = 0; rank < env->size; rank++)
			sum += value_at(rank, call, i);
		if (sums[i] != sum)
			return world_report(
				env, "call %d: element %zu is %u, not %u", call, i, sums[i], sum);
	}
	return 0;
}

static int move_once(struct rank_env *env, int call, size_t count)
{
	int root = call % env->size;

	for (size_t i = 0; i < count; i++)
		values[i] = value_at(env->rank, call, i);
	TRY(rondo_broadcast(env->comm, values, values, count, RONDO_U32, root, NULL));
	for (size_t i = 0; i < count; i++)
		if (values[i] != value_at(root, call, i))
			return world_report(env, "call %d: element %zu is %u", call, i, values[i]);
	return 0;
}

/* Rank 0, whose thread resets connections, decides when all end. The thread ends before the last
   calls: after a reset, a rank that has left sends nothing again. */
static int call_until_reset_often(struct rank_env *env, const pthread_t *thread)
{
	static const size_t counts[] = { COUNT_MAX, 1, 30000, 250000, 2 };
	uint32_t over = 0;

	for (int call = 0; !over; call++) {
		size_t count = counts[call % 5];
		int failed = call % 2 ? move_once(env, call, count) : sum_once(env, call, count);

		if (failed)
			return failed;
		atomic_fetch_add(&shared.calls, 1);
		over = atomic_load(&shared.resets) >= RESETS;
		if (over)
			stop(thread);
		TRY(rondo_broadcast(env->comm, &over, &over, 1, RONDO_U32, 0, NULL));
	}
	TRY(rondo_barrier(env->comm, NULL));
	return 0;
}

static int call_beside_resets(struct rank_env *env)
{
	pthread_t thread;
	int failed;

	if (env->create_error)
		return world_report(env, "%s", rondo_last_error());
	if (env->rank == 0 && pthread_create(&thread, NULL, reset_again_and_again, NULL))
		return world_report(env, "no thread");
	failed = call_until_reset_often(env, &thread);
	if (env->rank == 0 && !atomic_load(&shared.over))
		stop(&thread);
	return failed;
}

static void reset_connections_of(struct world *world)
{
	struct hosts *hosts = world_hosts(&(struct hosts_shape){ .count = 2 });
	const char *output;

	if (!can_reset_connections())
		cr_skip_test("no connection can be reset here (ss -K)");
	world->size = RANKS;
	world->hosts = hosts;
	world->limit_ms = 100000;
	for (int rank = 0; rank < RANKS; rank++)
		world->host_of[rank] = rank / 2;
	output = world_run_captured(world, call_beside_resets, NULL);
	cr_expect(strstr(output, "lost its connection with rank"), "%s", output);
	cr_expect(strstr(output, "rank 0 lost the control connection of rank"), "%s", output);
	hosts_destroy(hosts);
}

Test(hosts_reset, encrypted_connections_go_on, .timeout = 120)
{
	reset_connections_of(&(struct world){ 0 });
}

Test(hosts_reset, plain_connections_go_on, .timeout = 120)
{
	setenv("RONDO_ENCRYPT", "0", 1);
	reset_connections_of(&(struct world){ .channels = 2 });
}

Test(hosts_reset, connections_without_a_secret_go_on, .timeout = 120)
{
	reset_connections_of(&(struct world){ .has_no_secret = true });
}
