/* Short calls that are repeated: with the same buffers, and with others in between. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "comm/comm.h"
#include "comm/plan_cache.h"
#include "world.h"

#define CALLS 60
#define COUNT 3
/* The last two: the largest block of a short call, and the smallest of a long one. */
#define COUNTS 4
#define MOST (RD_SHORT_MOST / 4 + 1)

struct buffers {
	float in[4 * MOST], out[4 * MOST];
};

static const int counts[COUNTS] = { COUNT, 700, MOST - 1, MOST };

static float value(int rank, int call, int i)
{
	return (float)(rank * 1000 + call * 10 + i);
}

static int call_each(struct rank_env *env, struct buffers *at, int count, int call)
{
	int size = env->size, root = call / 10 % size;

	for (int i = 0; i < size * count; i++)
		at->in[i] = value(env->rank, call, i);
	TRY(rondo_all_reduce(env->comm, at->in, at->out, count, RONDO_F32,
		call % 3 ? RONDO_SUM : RONDO_AVG, NULL));
	for (int i = 0; i < count; i++) {
		float mean = value(0, call, i) + 500 * (float)(size - 1);

		if (at->out[i] != (call % 3 ? mean * (float)size : mean))
			return world_report(env, "all_reduce %d: %g", call, at->out[i]);
	}
	TRY(rondo_all_gather(env->comm, at->in, at->out, count, RONDO_F32, NULL));
	for (int i = 0; i < size * count; i++)
		if (at->out[i] != value(i / count, call, i % count))
			return world_report(env, "all_gather %d: %g", call, at->out[i]);
	TRY(rondo_reduce_scatter(env->comm, at->in, at->out, count, RONDO_F32, RONDO_MAX, NULL));
	for (int i = 0; i < count; i++)
		if (at->out[i] != value(size - 1, call, env->rank * count + i))
			return world_report(env, "reduce_scatter %d: %g", call, at->out[i]);
	TRY(rondo_broadcast(env->comm, at->in, at->in, count, RONDO_F32, root, NULL));
	for (int i = 0; i < count; i++)
		if (at->in[i] != value(root, call, i))
			return world_report(env, "broadcast %d: %g", call, at->in[i]);
	return 0;
}

static int repeat(struct rank_env *env)
{
	struct buffers *buffers = calloc(2, sizeof(*buffers));

	for (int call = 0; buffers && call < COUNTS * CALLS; call++) {
		TRY(call_each(env, &buffers[call % 7 < 3], counts[call / CALLS], call));
		if (call % 11 == 0)
			TRY(rondo_barrier(env->comm, NULL));
	}
	if (!buffers)
		return world_report(env, "no memory");
	free(buffers);
	return 0;
}

/* An all-reduce, of the first or second input into the first or second output. */
struct arguments {
	int in, out, count;
	rondo_type type;
	rondo_op op;
	bool in_group; /* it runs at the group's end */
};

#define UNWRITTEN 77

struct values {
	int32_t in[2][COUNT], out[2][COUNT];
};

/* Integers are negative: as floats, the sums of small ones would be right. */
static int32_t bits(rondo_type type, int number)
{
	float f = (float)number;
	int32_t as_float;

	memcpy(&as_float, &f, sizeof(f));
	return type == RONDO_F32 ? as_float : -number;
}

static int make(struct rank_env *env, const struct arguments *call, struct values *at)
{
	for (int i = 0; i < 2 * COUNT; i++) {
		at->in[i / COUNT][i % COUNT] = bits(call->type, (env->rank + 1) * (i + 1));
		at->out[i / COUNT][i % COUNT] = UNWRITTEN;
	}
	if (call->in_group)
		TRY(rondo_group_start());
	TRY(rondo_all_reduce(env->comm, at->in[call->in], at->out[call->out], call->count,
		call->type, call->op, NULL));
	if (call->in_group && at->out[call->out][0] != UNWRITTEN)
		return world_report(env, "a call of a group ran before its end");
	return call->in_group ? rondo_group_end() : 0;
}

static int check(struct rank_env *env, const struct arguments *call, const struct values *at)
{
	for (int i = 0; i < 2 * COUNT; i++) {
		bool written = i / COUNT == call->out && i % COUNT < call->count;
		int number = call->in * COUNT + i % COUNT + 1,
		    found = at->out[i / COUNT][i % COUNT];
		int result = bits(call->type, number * (call->op == RONDO_SUM ? 3 : 2));

		if (found != (written ? result : UNWRITTEN))
			return world_report(
				env, "output %d, element %d: %#x", i / COUNT, i % COUNT, found);
	}
	return 0;
}

static const struct arguments usual = { 0, 0, COUNT, RONDO_F32, RONDO_SUM, false };
static const struct arguments others[] = {
	{ 1, 0, COUNT, RONDO_F32, RONDO_SUM, false },
	{ 0, 1, COUNT, RONDO_F32, RONDO_SUM, false },
	{ 0, 0, COUNT - 1, RONDO_F32, RONDO_SUM, false },
	{ 0, 0, COUNT, RONDO_I32, RONDO_SUM, false },
	{ 0, 0, COUNT, RONDO_F32, RONDO_MAX, false },
	{ 0, 0, COUNT, RONDO_F32, RONDO_SUM, true },
};

static int vary(struct rank_env *env)
{
	static _Thread_local struct values at;

	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
		for (int call = 0; call < 3; call++) {
			TRY(make(env, &usual, &at));
			TRY(check(env, &usual, &at));
		}
		if (!env->comm->shorts[RD_ALL_REDUCE].repeats)
			return world_report(env, "the third call does not start at once");
		TRY(make(env, &others[i], &at));
		TRY(check(env, &others[i], &at));
	}
	return 0;
}

static int count_looks(struct rank_env *env)
{
	float in[COUNT] = { 0 }, out[COUNT];
	const struct rd_short *brief;

	for (int call = 0; call < 2; call++)
		TRY(rondo_all_reduce(env->comm, in, out, COUNT, RONDO_F32, RONDO_SUM, NULL));
	brief = &env->comm->shorts[RD_ALL_REDUCE];
	if (brief->count == 0)
		return world_report(env, "the call counts as long");
	/* A look at a socket is a system call. */
	if (brief->looks && (strcmp(env->world->transport, "tcp") == 0 || getenv("RONDO_SPIN_US")))
		return world_report(env, "the call spins on its own");
	return 0;
}

Test(short_calls, give_the_same_results_when_they_are_repeated, .timeout = 120)
{
	for (int size = 2; size <= 4; size++) {
		world_try(size, "shm", repeat);
		world_try(size, "tcp", repeat);
	}
}

Test(short_calls, are_others_where_one_argument_differs, .timeout = 60)
{
	setenv("RONDO_ALGO", "doubling", 1); /* of one chunk, whatever the costs are */
	world_try(2, "shm", vary);
	world_try(2, "tcp", vary);
}

Test(short_calls, over_tcp_leave_the_looks_to_the_wait, .timeout = 60)
{
	setenv("RONDO_ALGO", "doubling", 1); /* of one chunk, whatever the costs are */
	world_try(2, "shm", count_looks);
	world_try(2, "tcp", count_looks);
}

Test(short_calls, look_once_where_waits_do_not_spin, .timeout = 60)
{
	setenv("RONDO_ALGO", "doubling", 1);
	setenv("RONDO_SPIN_US", "0", 1);
	world_use_two_cores();
	world_try(2, "shm", count_looks);
}
