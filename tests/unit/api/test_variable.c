/* Blocks of different lengths: every collective that has them, against the exact result. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "blocks.h"
#include "comm/comm.h"
#include "world.h"

#define GUARD 0x5a

/* One rank's buffer of blocks: lengths, and places with gaps between them, the last block first. */
struct layout {
	size_t counts[SIZE_MOST], displs[SIZE_MOST];
	size_t total; /* elements, with gaps */
};

static void lay_out(struct layout *layout, int blocks, bool gaps)
{
	size_t next = 0;

	for (int i = 0; i < blocks; i++) {
		int k = gaps ? blocks - 1 - i : i;

		next += gaps ? 3 : 0;
		layout->displs[k] = next;
		next += layout->counts[k];
	}
	layout->total = next;
}

struct trial {
	enum pattern pattern;
	bool in_place, gaps, odd_address;
	struct rank_env *env;
	int rank, size;
	char *in, *out; /* as malloced */
};

static int wrong(const struct trial *t, const char *what)
{
	return world_report(t->env, "%s, pattern %d%s%s%s: wrong, or: %s", what, t->pattern,
		t->in_place ? ", in place" : "", t->gaps ? ", gaps" : "",
		t->odd_address ? ", odd" : "", rondo_last_error());
}

/* Whether the blocks of out hold their values, and all else the guard. */
static bool out_is_right(
	const char *out, const struct layout *layout, int blocks, int rank, bool by_sender)
{
	size_t i = 0;

	for (size_t at = 0; at < layout->total; at++) {
		bool inside = false;

		for (int k = 0; k < blocks && !inside; k++) {
			i = at - layout->displs[k];
			if (at < layout->displs[k] || i >= layout->counts[k])
				continue;
			inside = true;
			if (!i32_is(out, at,
				    by_sender ? block_value(k, rank, i) : block_value(k, 0, i)))
				return false;
		}
		if (!inside && !i32_is(out, at, 0x5a5a5a5a))
			return false;
	}
	return true;
}

static char *fresh(char **whole, size_t count, bool odd)
{
	*whole = malloc(4 * count + 8);
	memset(*whole, GUARD, 4 * count + 8);
	return *whole + (odd ? 1 : 0);
}

static int try_all_gather(struct trial *t)
{
	struct layout out;
	size_t mine = pattern_length(t->pattern, t->size, t->rank, 0);

	for (int k = 0; k < t->size; k++)
		out.counts[k] = pattern_length(t->pattern, t->size, k, 0);
	lay_out(&out, t->size, t->gaps);

	char *recv = fresh(&t->out, out.total, t->odd_address);
	char *send = fresh(&t->in, mine, t->odd_address);

	if (t->in_place)
		send = recv + 4 * out.displs[t->rank];
	for (size_t i = 0; i < mine; i++)
		i32_put(send, i, block_value(t->rank, 0, i));
	if (rondo_all_gather_v(t->env->comm, send, recv, out.counts, t->gaps ? out.displs : NULL,
		    RONDO_I32, NULL) ||
		!out_is_right(recv, &out, t->size, t->rank, false))
		return wrong(t, "all_gather_v");
	return 0;
}

static int try_reduce_scatter(struct trial *t)
{
	struct layout in;

	for (int k = 0; k < t->size; k++)
		in.counts[k] = pattern_length(t->pattern, t->size, k, 0);
	lay_out(&in, t->size, false);

	size_t mine = in.counts[t->rank];
	char *send = fresh(&t->in, in.total, t->odd_address);
	char *recv = fresh(&t->out, mine, t->odd_address);

	if (t->in_place)
		recv = send + 4 * in.displs[t->rank];
	for (int k = 0; k < t->size; k++)
		for (size_t i = 0; i < in.counts[k]; i++)
			i32_put(send, in.displs[k] + i, block_value(t->rank, k, i));
	if (rondo_reduce_scatter_v(t->env->comm, send, recv, in.counts, RONDO_I32, RONDO_SUM, NULL))
		return wrong(t, "reduce_scatter_v");
	for (size_t i = 0; i < mine; i++) {
		uint32_t sum = 0;

		for (int rank = 0; rank < t->size; rank++)
			sum += (uint32_t)block_value(rank, t->rank, i);
		if (!i32_is(recv, i, (int32_t)sum))
			return wrong(t, "reduce_scatter_v");
	}
	return !t->in_place && !i32_is(recv, mine, 0x5a5a5a5a) ? wrong(t, "beside recv") : 0;
}

static int try_all_to_all(struct trial *t)
{
	struct layout in, out;

	for (int k = 0; k < t->size; k++) {
		/* In place a pair exchanges as much in both directions. */
		int low = k < t->rank ? k : t->rank, high = k < t->rank ? t->rank : k;

		in.counts[k] = pattern_length(
			t->pattern, t->size, t->in_place ? low : t->rank, t->in_place ? high : k);
		out.counts[k] = pattern_length(
			t->pattern, t->size, t->in_place ? low : k, t->in_place ? high : t->rank);
	}
	lay_out(&in, t->size, t->gaps);
	lay_out(&out, t->size, t->gaps);

	char *send = fresh(&t->in, in.total, t->odd_address);
	char *recv = t->in_place ? send : fresh(&t->out, out.total, t->odd_address);

	for (int k = 0; k < t->size; k++)
		for (size_t i = 0; i < in.counts[k]; i++)
			i32_put(send, in.displs[k] + i, block_value(t->rank, k, i));
	if (rondo_all_to_all_v(t->env->comm, send, in.counts, t->gaps ? in.displs : NULL, recv,
		    out.counts, t->gaps ? out.displs : NULL, RONDO_I32, NULL) ||
		!out_is_right(recv, &out, t->size, t->rank, true))
		return wrong(t, "all_to_all_v");
	return 0;
}

/* A block for each rank, all at the root. */
static struct layout rooted_layout(const struct trial *t)
{
	struct layout all;

	for (int k = 0; k < t->size; k++)
		all.counts[k] = pattern_length(t->pattern, t->size, k, 0);
	lay_out(&all, t->size, t->gaps);
	return all;
}

static int try_gather(struct trial *t)
{
	int root = t->pattern % t->size;
	struct layout all = rooted_layout(t);
	size_t mine = all.counts[t->rank];

	char *recv = t->rank == root ? fresh(&t->out, all.total, t->odd_address) : NULL;
	char *send = fresh(&t->in, mine, t->odd_address);

	if (t->in_place && t->rank == root)
		send = recv + 4 * all.displs[root];
	for (size_t i = 0; i < mine; i++)
		i32_put(send, i, block_value(t->rank, 0, i));
	if (rondo_gather_v(t->env->comm, send, mine, recv, t->rank == root ? all.counts : NULL,
		    t->rank == root && t->gaps ? all.displs : NULL, RONDO_I32, root, NULL) ||
		(recv && !out_is_right(recv, &all, t->size, t->rank, false)))
		return wrong(t, "gather_v");
	return 0;
}

static int try_scatter(struct trial *t)
{
	int root = t->pattern % t->size;
	struct layout all = rooted_layout(t);
	size_t mine = all.counts[t->rank];

	char *send = t->rank == root ? fresh(&t->in, all.total, t->odd_address) : NULL;
	char *recv = fresh(&t->out, mine, t->odd_address);

	if (t->in_place && t->rank == root)
		recv = send + 4 * all.displs[root];
	for (int k = 0; k < t->size && send; k++)
		for (size_t i = 0; i < all.counts[k]; i++)
			i32_put(send, all.displs[k] + i, block_value(k, 0, i));
	if (rondo_scatter_v(t->env->comm, send, t->rank == root ? all.counts : NULL,
		    t->rank == root && t->gaps ? all.displs : NULL, recv, mine, RONDO_I32, root,
		    NULL))
		return wrong(t, "scatter_v");
	for (size_t i = 0; i < mine; i++)
		if (!i32_is(recv, i, block_value(t->rank, 0, i)))
			return wrong(t, "scatter_v");
	return 0;
}

static char *bytes_to_send(struct trial *t, size_t *size)
{
	*size = pattern_length(t->pattern, t->size, t->rank, 0);
	char *send = fresh(&t->in, *size, t->odd_address);

	for (size_t i = 0; i < *size; i++)
		send[i] = (char)block_value(t->rank, 0, i);
	return send;
}

/* t->out holds the bytes of all ranks. */
static int check_bytes(struct trial *t, const char *name, const size_t sizes[])
{
	size_t at = 0;

	for (int k = 0; k < t->size; k++) {
		if (sizes[k] != pattern_length(t->pattern, t->size, k, 0))
			return world_report(t->env, "%s: size %d is wrong", name, k);
		for (size_t i = 0; i < sizes[k]; i++)
			if (t->out[at++] != (char)block_value(k, 0, i))
				return world_report(
					t->env, "%s: byte %zu of %d is wrong", name, i, k);
	}
	return t->out[at] ? world_report(t->env, "%s: no 0 at the end", name) : 0;
}

static int try_gather_bytes(struct trial *t)
{
	int root = t->pattern % t->size;
	size_t mine, sizes[SIZE_MOST];
	char *send = bytes_to_send(t, &mine);
	void *recv = &mine;

	if (rondo_gather_bytes(t->env->comm, send, mine, &recv, sizes, root))
		return wrong(t, "gather_bytes");
	if (t->rank != root)
		return recv ? wrong(t, "gather_bytes: not the root, and recv is not NULL") : 0;
	t->out = recv;
	return check_bytes(t, "gather_bytes", sizes);
}

static int try_all_gather_bytes(struct trial *t)
{
	size_t mine, sizes[SIZE_MOST];
	char *send = bytes_to_send(t, &mine);
	void *recv = &mine;

	if (rondo_all_gather_bytes(t->env->comm, send, mine, &recv, sizes))
		return wrong(t, "all_gather_bytes");
	t->out = recv;
	return check_bytes(t, "all_gather_bytes", sizes);
}

static int (*const kinds[])(struct trial *trial) = { try_all_gather, try_reduce_scatter,
	try_all_to_all, try_gather, try_scatter, try_gather_bytes, try_all_gather_bytes };

static int try_all(struct rank_env *env)
{
	if (!env->comm)
		return world_report(env, "create: %s", rondo_last_error());
	for (int n = 0; n < PATTERNS * 8; n++) {
		for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++) {
			struct trial trial = { n / 8, n & 1, n & 2, n & 4, env, env->rank,
				env->size, NULL, NULL };
			int bad = kinds[k](&trial);

			free(trial.in);
			free(trial.out);
			if (bad)
				return bad;
		}
	}
	return 0;
}

static void run_all(struct world set)
{
	set.limit_ms = 100000;
	cr_assert_eq(world_run(&set, try_all, NULL, NULL), 0);
}

Test(variable, blocks_of_all_lengths_arrive_over_shared_memory, .timeout = 250)
{
	for (int size = 1; size <= SIZE_MOST; size += size < 5 ? 1 : 3)
		run_all((struct world){ .size = size, .transport = "shm" });
	run_all((struct world){ .size = 3, .transport = "shm", .channels = 3, .piece_size = 1000 });
}

Test(variable, blocks_of_all_lengths_arrive_over_tcp, .timeout = 250)
{
	for (int size = 2; size <= SIZE_MOST; size += size < 4 ? 1 : 4)
		run_all((struct world){ .size = size, .transport = "tcp" });
	run_all((struct world){ .size = 4, .transport = "mixed", .channels = 2 });
}

Test(variable, blocks_of_all_lengths_arrive_between_threads, .timeout = 250)
{
	run_all((struct world){ .size = 4, .transport = "mixed", .threads = true });
}

/* ---- One buffer within the other ------------------------------------------------------------ */

/* send lies behind this rank's block of recv, before the next one. */
static int gather_around_send(struct rank_env *env)
{
	int data[SIZE_MOST * 8] = { 0 };
	size_t counts[SIZE_MOST], displs[SIZE_MOST];

	for (int k = 0; k < env->size; k++) {
		counts[k] = 4;
		displs[k] = 8 * (size_t)k;
	}
	for (int i = 0; i < 4; i++)
		data[8 * env->rank + 4 + i] = 100 * env->rank + i;
	TRY(rondo_all_gather_v(
		env->comm, &data[8 * env->rank + 4], data, counts, displs, RONDO_I32, NULL));
	for (int k = 0; k < env->size; k++)
		for (int i = 0; i < 4; i++)
			if (data[8 * k + i] != 100 * k + i)
				return world_report(env, "element %d of block %d is wrong", i, k);
	return 0;
}

Test(variable, send_may_lie_between_blocks_of_recv, .timeout = 60)
{
	world_try(3, "shm", gather_around_send);
}

/* ---- On streams and in groups --------------------------------------------------------------- */

/* The arrays are gone before the calls run. */
static int queue_and_group(struct rank_env *env)
{
	int size = env->size, rank = env->rank, out[2][SIZE_MOST * SIZE_MOST];
	int in[SIZE_MOST];
	rondo_stream *stream = NULL;

	for (int i = 0; i < SIZE_MOST; i++)
		in[i] = 100 * rank + i;
	TRY(rondo_stream_create(&stream));
	for (int k = 0; k < 2; k++) {
		size_t *counts = malloc(size * sizeof(*counts));

		for (int i = 0; i < size; i++)
			counts[i] = i + 1;
		if (k == 1)
			TRY(rondo_group_start());
		TRY(rondo_all_gather_v(env->comm, in, out[k], counts, NULL, RONDO_I32, stream));
		if (k == 1)
			TRY(rondo_group_end());
		memset(counts, 0xff, size * sizeof(*counts));
		free(counts);
	}
	TRY(rondo_stream_synchronize(stream));
	rondo_stream_destroy(stream);
	for (int k = 0; k < 2; k++)
		for (int from = 0, at = 0; from < size; from++)
			for (int i = 0; i <= from; i++, at++)
				if (out[k][at] != 100 * from + i)
					return world_report(env, "element %d is wrong", at);
	return 0;
}

Test(variable, counts_need_not_outlive_the_call, .timeout = 60)
{
	world_try(4, NULL, queue_and_group);
}

/* The most bytes of the function below, with sanitizers. Those of Rondo are farther away. */
#define FUNCTION_MOST 4096

/* Calls that take two steps inside. */
__attribute__((noinline)) static int gather_both(rondo_comm *comm, uintptr_t at[2])
{
	size_t sizes[SIZE_MOST];
	void *bytes = NULL;
	int err = rondo_gather_bytes(comm, "a", 1, &bytes, sizes, 0);

	at[0] = atomic_load(&comm->activity.called_at);
	free(bytes);
	if (!err)
		err = rondo_all_gather_bytes(comm, "a", 1, &bytes, sizes);
	at[1] = atomic_load(&comm->activity.called_at);
	free(bytes);
	return err;
}

static int look_at_places(struct rank_env *env)
{
	uintptr_t at[2];

	if (env->create_error || gather_both(env->comm, at))
		return world_report(env, "%s", rondo_last_error());
	for (int i = 0; i < 2; i++)
		if (at[i] - (uintptr_t)gather_both >= FUNCTION_MOST)
			return world_report(env, "call %d was not made in this function", i);
	return 0;
}

Test(variable, the_place_of_a_call_is_the_programs, .timeout = 60)
{
	WORLD_TRY(look_at_places, .size = 2, .limit_ms = 20000);
}
