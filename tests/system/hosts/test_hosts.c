/* Ranks on several hosts, which are network namespaces (hosts.h): they meet, use shared memory
   within a host and sockets between, and every collective is right over both. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "call_collective.h"
#include "comm/comm.h"
#include "plan/collective.h"
#include "world.h"

/* ---- Every collective ---------------------------------------------------------------------- */

#define COLLECTIVES RD_TRANSFER /* those before it */
#define ROOT(size) ((size)-1)

/* Element i of a rank's input. */
static int64_t given(int rank, size_t i)
{
	return (int64_t)(rank + 1) * 1000003 + (int64_t)i * 7919;
}

static int64_t total(int size, size_t i)
{
	int64_t sum = 0;

	for (int rank = 0; rank < size; rank++)
		sum += given(rank, i);
	return sum;
}

/* The expected element i of this rank's output. */
static int64_t wanted(enum rd_collective collective, int rank, int size, size_t i, size_t count)
{
	int block = (int)(i / count);
	size_t within = i % count;

	switch (collective) {
	case RD_ALL_REDUCE:
	case RD_REDUCE:
		return total(size, i);
	case RD_REDUCE_SCATTER:
		return total(size, rank * count + i);
	case RD_ALL_GATHER:
	case RD_GATHER:
		return given(block, within);
	case RD_ALL_TO_ALL:
		return given(block, rank * count + within);
	case RD_SCATTER:
		return given(ROOT(size), rank * count + i);
	default:
		return given(ROOT(size), i);
	}
}

static size_t elements_out(enum rd_collective collective, int rank, int size, size_t count)
{
	if (collective == RD_ALL_GATHER || collective == RD_ALL_TO_ALL)
		return size * count;
	if (collective == RD_GATHER)
		return rank == ROOT(size) ? size * count : 0;
	return collective == RD_REDUCE && rank != ROOT(size) ? 0 : count;
}

static int try_one(struct rank_env *env, enum rd_collective collective, const int64_t *in,
	int64_t *out, size_t count)
{
	int err = call_collective(
		env->comm, collective, in, out, count, RONDO_I64, RONDO_SUM, ROOT(env->size), NULL);

	if (err)
		return world_report(env, "%s of %zu: %s", rd_collective_name(collective), count,
			rondo_last_error());
	for (size_t i = 0; i < elements_out(collective, env->rank, env->size, count); i++)
		if (out[i] != wanted(collective, env->rank, env->size, i, count))
			return world_report(env, "%s of %zu: element %zu is wrong",
				rd_collective_name(collective), count, i);
	return 0;
}

#define MOST 40000

static int try_every_collective(struct rank_env *env)
{
	static const size_t counts[] = { 1, 1021, MOST };
	int64_t *in = malloc(env->size * MOST * sizeof(*in));
	int64_t *out = malloc(env->size * MOST * sizeof(*out));
	int wrong = 0;

	for (size_t i = 0; i < (size_t)env->size * MOST; i++)
		in[i] = given(env->rank, i);
	if (!env->comm)
		wrong = world_report(env, "create: %s", rondo_last_error());
	for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++)
		for (int collective = 0; collective < COLLECTIVES && !wrong; collective++)
			wrong = try_one(env, collective, in, out, counts[i]);
	free(in);
	free(out);
	return wrong;
}

/* ---- Where ranks are ----------------------------------------------------------------------- */

struct layout {
	int size, hosts;
	int host_of[WORLD_MAX];
	bool v6_only;
	const char *algo;
};

static const struct layout layouts[] = {
	{ .size = 4, .hosts = 2, .host_of = { 0, 0, 1, 1 } },
	{ .size = 8, .hosts = 2, .host_of = { 0, 0, 0, 0, 1, 1, 1, 1 } },
	{ .size = 3, .hosts = 3, .host_of = { 0, 1, 2 } },
	{ .size = 4, .hosts = 2, .host_of = { 0, 1, 1, 1 } },
	{ .size = 5, .hosts = 2, .host_of = { 1, 0, 1, 0, 1 } },
	{ .size = 4, .hosts = 2, .host_of = { 0, 0, 1, 1 }, .v6_only = true },
	{ .size = 4, .hosts = 2, .host_of = { 0, 0, 1, 1 }, .algo = "hierarchical" },
	{ .size = 6, .hosts = 3, .host_of = { 2, 0, 1, 2, 1, 2 }, .algo = "hierarchical" },
	{ .size = 6, .hosts = 3, .host_of = { 2, 0, 1, 2, 1, 0 }, .algo = "pipelined" },
	{ .size = 5, .hosts = 2, .host_of = { 1, 0, 1, 0, 1 }, .algo = "tree" },
};

static int check_links(struct rank_env *env)
{
	const struct world *world = env->world;

	if (!env->comm)
		return world_report(env, "create: %s", rondo_last_error());
	TRY(rondo_comm_connect(env->comm, "all_to_all", 1 << 20, RONDO_F32));
	for (int peer = 0; peer < env->size; peer++) {
		const struct rd_link *link = env->comm->links[peer * env->comm->channels];
		bool near = world->host_of[peer] == world->host_of[env->rank];

		if (peer == env->rank || !link)
			continue;
		if (strcmp(link->transport->name, near ? "shm" : "tcp") != 0)
			return world_report(env, "%s to rank %d on %s host", link->transport->name,
				peer, near ? "the same" : "another");
	}
	return 0;
}

static int check_links_and_collectives(struct rank_env *env)
{
	int wrong = check_links(env);

	return wrong ? wrong : try_every_collective(env);
}

ParameterizedTestParameters(hosts, share_memory_within_and_sockets_between_and_get_all_right)
{
	static int numbers[sizeof(layouts) / sizeof(*layouts)];
	size_t count = sizeof(layouts) / sizeof(*layouts);

	for (size_t i = 0; i < count; i++)
		numbers[i] = (int)i;
	return cr_make_param_array(int, numbers, count);
}

ParameterizedTest(int *number, hosts, share_memory_within_and_sockets_between_and_get_all_right,
	.timeout = 120)
{
	const struct layout *layout = &layouts[*number];
	struct hosts *hosts = world_hosts(
		&(struct hosts_shape){ .count = layout->hosts, .v6_only = layout->v6_only });
	struct world world = { .size = layout->size, .hosts = hosts };

	memcpy(world.host_of, layout->host_of, sizeof(world.host_of));
	if (layout->algo)
		setenv("RONDO_ALGO", layout->algo, 1);
	cr_assert_eq(world_run(&world, check_links_and_collectives, NULL, NULL), 0);
}
