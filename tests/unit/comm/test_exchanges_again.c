/* ctest label: threads */
/* Repeated calls for which a buffer exchange pays: ranks move their buffers in, out of and between
   mapped memory, each at its own calls. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "comm/buffer_exchange.h"
#include "comm/comm.h"
#include "comm/plan_cache.h"
#include "tuner/thresholds.h"
#include "world.h"

#define COUNT 1024
#define CALLS 1500
#define EQUAL_CALLS 100

/* In plain memory, at two places of a region, in another, and in one that is new each time. */
enum place { PLAIN, FIRST, SECOND, OTHER, NEW, PLACES };

struct memory {
	float plain[2 * COUNT], *region, *other, *new;
};

static float *at_place(struct rank_env *env, struct memory *memory, enum place place)
{
	void *made;

	switch (place) {
	case FIRST:
		return memory->region;
	case SECOND:
		return memory->region + 2 * COUNT;
	case OTHER:
		return memory->other;
	case NEW:
		if ((memory->new &&rondo_mem_free(memory->new)) ||
			rondo_mem_alloc(&made, 2 * COUNT * sizeof(float))) {
			world_report(env, "new memory: %s", rondo_last_error());
			return NULL;
		}
		memory->new = made;
		return memory->new;
	default:
		return memory->plain;
	}
}

/* The input lies before the output. */
static int sum_at(struct rank_env *env, float *at, int call)
{
	float size = (float)env->size, all = size * (size - 1) / 2;

	for (int i = 0; i < COUNT; i++)
		at[i] = (float)(env->rank + call + i);
	TRY(rondo_all_reduce(env->comm, at, at + COUNT, COUNT, RONDO_F32, RONDO_SUM, NULL));
	for (int i = 0; i < COUNT; i++)
		if (at[COUNT + i] != all + size * (float)(call + i))
			return world_report(
				env, "all_reduce %d: element %d is %g", call, i, at[COUNT + i]);
	return 0;
}

static int broadcast_at(struct rank_env *env, float *at, int call)
{
	for (int i = 0; i < COUNT; i++)
		at[i] = (float)(env->rank + call + i);
	TRY(rondo_broadcast(env->comm, at, at, COUNT, RONDO_F32, 0, NULL));
	for (int i = 0; i < COUNT; i++)
		if (at[i] != (float)(call + i))
			return world_report(env, "broadcast %d: element %d is %g", call, i, at[i]);
	return 0;
}

static int get_memory(struct rank_env *env, struct memory *memory)
{
	TRY(rondo_mem_alloc((void **)&memory->region, 4 * COUNT * sizeof(float)));
	TRY(rondo_mem_alloc((void **)&memory->other, 2 * COUNT * sizeof(float)));
	return 0;
}

static int put_memory(struct rank_env *env, const struct memory *memory)
{
	TRY(rondo_mem_free(memory->region));
	TRY(rondo_mem_free(memory->other));
	TRY(rondo_mem_free(memory->new));
	return 0;
}

static int move_about(struct rank_env *env)
{
	static _Thread_local struct memory memory;
	unsigned own = 17 + (unsigned)env->rank, shared = 5;
	float *at = NULL;

	if (get_memory(env, &memory))
		return 1;
	for (int call = 0; call < CALLS; call++) {
		int one = rand_r(&shared);

		/* Now and then all have mapped memory, so that they agree on direct access. */
		if (!at || one % 64 == 0)
			at = at_place(env, &memory, FIRST);
		else if (rand_r(&own) % 64 == 0)
			at = at_place(env, &memory, (enum place)(rand_r(&own) % PLACES));
		if (!at || (one % 7 == 0 ? broadcast_at(env, at, call) : sum_at(env, at, call)))
			return 1;
	}
	return put_memory(env, &memory);
}

Test(exchanges_again, find_the_buffers_wherever_ranks_move_them, .timeout = 120)
{
	setenv("RONDO_ALGO", "two_shot", 1);
	for (int size = 2; size <= 4; size++)
		world_try(size, "shm", move_about);
}

static int expect_start(struct rank_env *env, const char *when, enum rd_repetition wanted)
{
	enum rd_repetition found = env->comm->prepared[RD_ALL_REDUCE]->repeats;

	return found == wanted ? 0 : world_report(env, "%s: starts by %d", when, (int)found);
}

static bool began_with_exchange(const struct rondo_comm *comm)
{
	return comm->exchange->last[comm->exchange->power] == comm->calls;
}

/* The number of calls that began with an exchange. */
static int repeat_at(struct rank_env *env, float *at, int *exchanges)
{
	*exchanges = 0;
	for (int call = 0; call < EQUAL_CALLS; call++) {
		if (sum_at(env, at, call))
			return 1;
		*exchanges += began_with_exchange(env->comm);
	}
	return 0;
}

static int change_once(struct rank_env *env)
{
	static _Thread_local struct memory memory;
	int exchanges, most = RD_EXCHANGE_TRIES + EQUAL_CALLS / RD_EXCHANGE_RETRY_EVERY + 1;

	if (get_memory(env, &memory) || repeat_at(env, memory.plain, &exchanges) ||
		expect_start(env, "plain", RD_STARTS_UNTIL_EXCHANGE))
		return 1;
	if (exchanges < RD_EXCHANGE_TRIES + 1 || exchanges > most)
		return world_report(env, "plain memory: %d exchanges", exchanges);
	if (repeat_at(env, memory.region, &exchanges) ||
		expect_start(env, "mapped", RD_STARTS_BY_EXCHANGE))
		return 1;
	if (exchanges < EQUAL_CALLS - RD_EXCHANGE_RETRY_EVERY)
		return world_report(env, "mapped memory: %d exchanges", exchanges);
	TRY(rondo_mem_alloc((void **)&memory.new, 1));
	return put_memory(env, &memory);
}

Test(exchanges_again, are_few_for_plain_memory_and_found_for_mapped, .timeout = 60)
{
	setenv("RONDO_ALGO", "two_shot", 1);
	world_try(2, "shm", change_once);
	world_try(3, "shm", change_once);
}

/* Exchanges of the long calls in plain memory fail. Those of the short ones do not, in between. */
static int alternate(struct rank_env *env)
{
	static _Thread_local struct memory memory;
	int tried = 0, turns = 2 * RD_EXCHANGE_RETRY_EVERY, calls = turns * (RD_EXCHANGE_TRIES + 1);
	int most = RD_EXCHANGE_TRIES + calls / RD_EXCHANGE_RETRY_EVERY + 1;

	if (get_memory(env, &memory))
		return 1;
	for (int turn = 0; turn < turns; turn++) {
		for (int call = 0; call < RD_EXCHANGE_TRIES; call++) {
			if (world_sum(env, memory.plain, 2 * COUNT))
				return 1;
			tried += began_with_exchange(env->comm);
		}
		if (sum_at(env, memory.region, turn))
			return 1;
		if (!began_with_exchange(env->comm))
			return world_report(env, "no exchange in turn %d", turn);
	}
	if (tried <= RD_EXCHANGE_TRIES || tried > most)
		return world_report(env, "plain memory: %d exchanges", tried);
	return put_memory(env, &memory);
}

Test(exchanges_again, go_on_at_one_size_where_those_of_another_fail, .timeout = 60)
{
	setenv("RONDO_ALGO", "two_shot", 1);
	world_try(2, "shm", alternate);
	world_try(3, "shm", alternate);
}

/* So long that trials would decide on single copies, if messages carried the data. */
static int repeat_long(struct rank_env *env)
{
	void *values;

	env->comm->single_copy = RD_SINGLE_COPY_LEARNED;
	TRY(rondo_mem_alloc(&values, RD_SINGLE_COPY_LEAST));
	for (int call = 0; call < 3; call++)
		if (world_sum(env, values, RD_SINGLE_COPY_LEAST / sizeof(float)))
			return 1;
	if (expect_start(env, "long", RD_STARTS_BY_EXCHANGE))
		return 1;
	TRY(rondo_mem_free(values));
	return 0;
}

Test(exchanges_again, come_before_long_calls_too, .timeout = 60)
{
	setenv("RONDO_ALGO", "two_shot", 1);
	world_try(2, "shm", repeat_long);
}
