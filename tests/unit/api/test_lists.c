/* Lists of blocks that lie anywhere: every collective that has them, against the exact result. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "blocks.h"
#include "world.h"

#define GUARD 0x5a
#define ARENA (16 << 20) /* bytes */

/* The memory of one block. */
struct place {
	char *whole; /* as malloced; NULL: in the arena */
	char *at;
	size_t size;
};

struct trial {
	enum pattern pattern;
	bool in_place, apart, odd; /* apart: each block is malloced by itself */
	struct rank_env *env;
	int rank, size;
	char *arena;
	size_t used;
	struct place places[2 * SIZE_MOST + 1];
	int taken;
};

static int wrong(const struct trial *t, const char *name)
{
	return world_report(t->env, "%s, pattern %d%s%s%s: wrong, or: %s", name, t->pattern,
		t->in_place ? ", in place" : "", t->apart ? ", apart" : "", t->odd ? ", odd" : "",
		rondo_last_error());
}

static size_t guard_size(const struct trial *t)
{
	return t->odd ? 5 : 8;
}

/* Memory of i32 between two guards, behind what was taken before unless `apart`. */
static char *take(struct trial *t, size_t count)
{
	size_t guard = guard_size(t), size = 4 * count;
	struct place *place = &t->places[t->taken++];
	char *begin = t->arena + t->used;

	place->whole = t->apart ? malloc(size + 2 * guard) : NULL;
	if (t->apart)
		begin = place->whole;
	else
		t->used += guard + size;
	memset(begin, GUARD, size + 2 * guard);
	place->at = begin + guard;
	place->size = size;
	return place->at;
}

/* An empty block has an address, or none. */
static void *take_block(struct trial *t, int block, size_t count)
{
	return count > 0 || block % 2 ? take(t, count) : NULL;
}

static bool guards_are_whole(const struct trial *t)
{
	for (int i = 0; i < t->taken; i++)
		for (size_t k = 0; k < guard_size(t); k++)
			if (t->places[i].at[-1 - (ptrdiff_t)k] != GUARD ||
				t->places[i].at[t->places[i].size + k] != GUARD)
				return false;
	return true;
}

static void fill(char *at, int from, int to, size_t count)
{
	for (size_t i = 0; i < count; i++)
		i32_put(at, i, block_value(from, to, i));
}

static bool holds(const char *at, int from, int to, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!i32_is(at, i, block_value(from, to, i)))
			return false;
	return true;
}

/* A block for each rank, the last first, and the other buffer of `own` elements among them. */
static char *take_around(struct trial *t, void *blocks[], size_t counts[], size_t own)
{
	char *other = NULL;

	for (int k = t->size - 1; k >= 0; k--) {
		counts[k] = pattern_length(t->pattern, t->size, k, 0);
		blocks[k] = take_block(t, k, counts[k]);
		if (k == t->size / 2)
			other = take(t, own);
	}
	return t->in_place ? blocks[t->rank] : other;
}

static int try_all_gather(struct trial *t)
{
	size_t counts[SIZE_MOST], own = pattern_length(t->pattern, t->size, t->rank, 0);
	void *recv[SIZE_MOST];
	char *send = take_around(t, recv, counts, own);

	fill(send, t->rank, 0, own);
	if (rondo_all_gather_list(t->env->comm, send, recv, counts, RONDO_I32, NULL))
		return wrong(t, "all_gather_list");
	for (int k = 0; k < t->size; k++)
		if (!holds(recv[k], k, 0, counts[k]))
			return wrong(t, "all_gather_list");
	return 0;
}

static int try_reduce_scatter(struct trial *t)
{
	size_t counts[SIZE_MOST], own = pattern_length(t->pattern, t->size, t->rank, 0);
	void *send[SIZE_MOST];
	char *recv = take_around(t, send, counts, own);

	for (int k = 0; k < t->size; k++)
		fill(send[k], t->rank, k, counts[k]);
	if (rondo_reduce_scatter_list(t->env->comm, (const void *const *)send, recv, counts,
		    RONDO_I32, RONDO_SUM, NULL))
		return wrong(t, "reduce_scatter_list");
	for (size_t i = 0; i < own; i++) {
		uint32_t sum = 0;

		for (int rank = 0; rank < t->size; rank++)
			sum += (uint32_t)block_value(rank, t->rank, i);
		if (!i32_is(recv, i, (int32_t)sum))
			return wrong(t, "reduce_scatter_list");
	}
	return 0;
}

/* In place a pair exchanges as much in both directions. */
static size_t length_between(const struct trial *t, int from, int to)
{
	int low = from < to ? from : to, high = from < to ? to : from;

	return pattern_length(
		t->pattern, t->size, t->in_place ? low : from, t->in_place ? high : to);
}

/* Every second block is in place, or none. */
static int try_all_to_all(struct trial *t)
{
	size_t in[SIZE_MOST], out[SIZE_MOST];
	void *send[SIZE_MOST], *recv[SIZE_MOST];

	for (int k = t->size - 1; k >= 0; k--) {
		in[k] = length_between(t, t->rank, k);
		out[k] = length_between(t, k, t->rank);
		send[k] = take_block(t, k, in[k]);
		recv[k] = t->in_place && k % 2 ? send[k] : take_block(t, k + 1, out[k]);
		fill(send[k], t->rank, k, in[k]);
	}
	if (rondo_all_to_all_list(
		    t->env->comm, (const void *const *)send, in, recv, out, RONDO_I32, NULL))
		return wrong(t, "all_to_all_list");
	for (int k = 0; k < t->size; k++)
		if (!holds(recv[k], k, t->rank, out[k]))
			return wrong(t, "all_to_all_list");
	return 0;
}

static int try_gather(struct trial *t)
{
	size_t counts[SIZE_MOST], own = pattern_length(t->pattern, t->size, t->rank, 0);
	int root = t->pattern % t->size;
	bool is_root = t->rank == root;
	void *recv[SIZE_MOST];
	char *send = is_root ? take_around(t, recv, counts, own) : take(t, own);

	fill(send, t->rank, 0, own);
	if (rondo_gather_list(t->env->comm, send, own, is_root ? recv : NULL,
		    is_root ? counts : NULL, RONDO_I32, root, NULL))
		return wrong(t, "gather_list");
	for (int k = 0; is_root && k < t->size; k++)
		if (!holds(recv[k], k, 0, counts[k]))
			return wrong(t, "gather_list");
	return 0;
}

static int try_scatter(struct trial *t)
{
	size_t counts[SIZE_MOST], own = pattern_length(t->pattern, t->size, t->rank, 0);
	int root = t->pattern % t->size;
	bool is_root = t->rank == root;
	void *send[SIZE_MOST];
	char *recv = is_root ? take_around(t, send, counts, own) : take(t, own);

	for (int k = 0; is_root && k < t->size; k++)
		fill(send[k], k, 0, counts[k]);
	if (rondo_scatter_list(t->env->comm, is_root ? (const void *const *)send : NULL,
		    is_root ? counts : NULL, recv, own, RONDO_I32, root, NULL) ||
		!holds(recv, t->rank, 0, own))
		return wrong(t, "scatter_list");
	return 0;
}

static int (*const kinds[])(struct trial *trial) = { try_all_gather, try_reduce_scatter,
	try_all_to_all, try_gather, try_scatter };

static int try_one(struct rank_env *env, char *arena, int n, int kind)
{
	struct trial trial = { .pattern = n / 8,
		.in_place = n & 1,
		.apart = n & 2,
		.odd = n & 4,
		.env = env,
		.rank = env->rank,
		.size = env->size,
		.arena = arena };
	int bad = kinds[kind](&trial);

	if (!bad && !guards_are_whole(&trial))
		bad = wrong(&trial, "beside the blocks");
	for (int i = 0; i < trial.taken; i++)
		free(trial.places[i].whole);
	return bad;
}

static int try_all(struct rank_env *env)
{
	char *arena = malloc(ARENA);
	int bad = env->comm ? 0 : world_report(env, "create: %s", rondo_last_error());

	for (int n = 0; n < PATTERNS * 8 && !bad; n++)
		for (int k = 0; k < (int)(sizeof(kinds) / sizeof(*kinds)) && !bad; k++)
			bad = try_one(env, arena, n, k);
	free(arena);
	return bad;
}

static void run_all(struct world set)
{
	set.limit_ms = 100000;
	cr_assert_eq(world_run(&set, try_all, NULL, NULL), 0);
}

Test(lists, blocks_arrive_wherever_they_lie_over_shared_memory, .timeout = 250)
{
	for (int size = 1; size <= SIZE_MOST; size += size < 5 ? 1 : 3)
		run_all((struct world){ .size = size, .transport = "shm" });
	run_all((struct world){ .size = 3, .transport = "shm", .channels = 3, .piece_size = 1000 });
}

Test(lists, blocks_arrive_wherever_they_lie_over_tcp, .timeout = 250)
{
	for (int size = 2; size <= 5; size += size < 3 ? 1 : 2)
		run_all((struct world){ .size = size, .transport = "tcp" });
	run_all((struct world){ .size = 4, .transport = "mixed", .channels = 2 });
}

Test(lists, blocks_arrive_wherever_they_lie_when_calls_are_checked, .timeout = 250)
{
	setenv("RONDO_CHECK", "1", 1);
	run_all((struct world){ .size = 3, .transport = "shm" });
}

/* ---- Beside v-calls ------------------------------------------------------------------------- */

#define LENGTH 5 /* elements of each block */

/* Half of the ranks make the v-call. */
static int make_either(struct rank_env *env)
{
	rondo_comm *comm = env->comm;
	int size = env->size, rank = env->rank;
	int32_t in[SIZE_MOST * LENGTH], out[SIZE_MOST * LENGTH], own[LENGTH];
	size_t counts[SIZE_MOST];
	const void *send[SIZE_MOST];
	void *recv[SIZE_MOST];
	bool lists = rank % 2;

	for (int k = 0; k < size; k++) {
		counts[k] = LENGTH;
		send[k] = &in[k * LENGTH];
		recv[k] = &out[k * LENGTH];
		for (int i = 0; i < LENGTH; i++)
			in[k * LENGTH + i] = 100 * rank + k;
	}
	TRY(lists ? rondo_all_gather_list(comm, in, recv, counts, RONDO_I32, NULL)
		  : rondo_all_gather_v(comm, in, out, counts, NULL, RONDO_I32, NULL));
	if (out[(size - 1) * LENGTH] != 100 * (size - 1))
		return world_report(env, "all_gather");
	TRY(lists ? rondo_reduce_scatter_list(comm, send, own, counts, RONDO_I32, RONDO_MAX, NULL)
		  : rondo_reduce_scatter_v(comm, in, own, counts, RONDO_I32, RONDO_MAX, NULL));
	if (own[0] != 100 * (size - 1) + rank)
		return world_report(env, "reduce_scatter");
	TRY(lists ? rondo_all_to_all_list(comm, send, counts, recv, counts, RONDO_I32, NULL)
		  : rondo_all_to_all_v(comm, in, counts, NULL, out, counts, NULL, RONDO_I32, NULL));
	if (out[(size - 1) * LENGTH] != 100 * (size - 1) + rank)
		return world_report(env, "all_to_all");
	TRY(lists ? rondo_gather_list(comm, in, LENGTH, recv, counts, RONDO_I32, 1, NULL)
		  : rondo_gather_v(comm, in, LENGTH, out, counts, NULL, RONDO_I32, 1, NULL));
	if (rank == 1 && out[(size - 1) * LENGTH] != 100 * (size - 1))
		return world_report(env, "gather");
	TRY(lists ? rondo_scatter_list(comm, send, counts, own, LENGTH, RONDO_I32, 1, NULL)
		  : rondo_scatter_v(comm, in, counts, NULL, own, LENGTH, RONDO_I32, 1, NULL));
	return own[0] == 100 + rank ? 0 : world_report(env, "scatter");
}

Test(lists, other_ranks_may_make_v_calls, .timeout = 60)
{
	world_try(3, "shm", make_either);
	setenv("RONDO_CHECK", "1", 1);
	world_try(3, "tcp", make_either);
}

/* ---- Operations that copy the input --------------------------------------------------------- */

#define MANY 3001 /* elements of a block: more than the library scales at once */

static size_t length_of(int block)
{
	return (size_t)(MANY + 16 * block);
}

/* The sum of all ranks' elements, each from a block behind the next one. */
static int sum_reversed(struct rank_env *env, rondo_type type, rondo_op op, char *all, char *got)
{
	const void *send[SIZE_MOST];
	size_t counts[SIZE_MOST], at = 0;

	for (int k = env->size - 1; k >= 0; k--) {
		counts[k] = length_of(k);
		send[k] = all + at + 1;
		for (size_t i = 0; i < counts[k]; i++) {
			float value = (float)(k * 4 + env->rank + (int)(i % 3));
			uint32_t bits;

			memcpy(&bits, &value, 4);
			bits = type == RONDO_BF16 ? bits >> 16 : bits;
			memcpy(all + at + 1 + i * rondo_type_size(type), &bits,
				rondo_type_size(type));
		}
		at += counts[k] * rondo_type_size(type) + 8;
	}
	return rondo_reduce_scatter_list(env->comm, send, got, counts, type, op, NULL);
}

static int check_sums(struct rank_env *env, rondo_type type, const char *got, float by)
{
	size_t element = rondo_type_size(type);

	for (size_t i = 0; i < length_of(env->rank); i++) {
		uint32_t bits = 0;
		float value, wanted = 0;

		for (int rank = 0; rank < env->size; rank++)
			wanted += (float)(env->rank * 4 + rank + (int)(i % 3)) * by;
		memcpy(&bits, got + i * element, element);
		bits <<= type == RONDO_BF16 ? 16 : 0;
		memcpy(&value, &bits, 4);
		if (value != wanted)
			return world_report(env, "%s %zu is %g, not %g", rondo_type_name(type), i,
				value, wanted);
	}
	return 0;
}

static int copy_inputs(struct rank_env *env)
{
	char *all = malloc(SIZE_MOST * (4 * length_of(SIZE_MOST) + 8) + 1);
	char *got = malloc(4 * length_of(SIZE_MOST));
	float two = 2;
	rondo_op twice;
	int bad;

	bad = rondo_op_create_premul(env->comm, &twice, &two, RONDO_F32) ||
	      sum_reversed(env, RONDO_F32, twice, all, got) || check_sums(env, RONDO_F32, got, 2) ||
	      sum_reversed(env, RONDO_BF16, RONDO_AVG, all, got) ||
	      check_sums(env, RONDO_BF16, got, 0.5f);
	free(all);
	free(got);
	return bad && !*env->text ? world_report(env, "%s", rondo_last_error()) : bad;
}

Test(lists, averages_and_scaled_sums_read_each_block, .timeout = 60)
{
	world_try(2, "shm", copy_inputs);
}

/* A request starts again with the blocks that the program gave. */
static int start_twice(struct rank_env *env)
{
	char *all = malloc(SIZE_MOST * (4 * length_of(SIZE_MOST) + 8) + 1);
	char *got = malloc(4 * length_of(SIZE_MOST));
	float two = 2;
	rondo_op twice;
	rondo_request *request = NULL;
	int bad = rondo_op_create_premul(env->comm, &twice, &two, RONDO_F32) ||
		  rondo_group_start() || sum_reversed(env, RONDO_F32, twice, all, got) ||
		  rondo_group_prepare(&request);

	for (int i = 0; i < 2 && !bad; i++) {
		memset(got, 0, 4 * length_of(env->rank));
		bad = rondo_request_start(request, NULL, NULL) ||
		      rondo_request_wait(request, 20000) || check_sums(env, RONDO_F32, got, 2);
	}
	rondo_request_destroy(request);
	free(all);
	free(got);
	return bad && !*env->text ? world_report(env, "%s", rondo_last_error()) : bad;
}

Test(lists, requests_start_again_with_the_same_blocks, .timeout = 60)
{
	world_try(2, "shm", start_twice);
}

/* ---- On streams and in groups --------------------------------------------------------------- */

/* Both arrays are gone before the calls run. */
static int queue_list(struct rank_env *env, const int *in, int out[][2], rondo_stream *stream)
{
	size_t *counts = malloc(env->size * sizeof(*counts));
	void **recv = malloc(env->size * sizeof(*recv));
	int err;

	for (int k = 0; k < env->size; k++) {
		counts[k] = 2;
		recv[k] = out[env->size - 1 - k];
	}
	err = rondo_all_gather_list(env->comm, in, recv, counts, RONDO_I32, stream);
	memset(counts, 0xff, env->size * sizeof(*counts));
	memset(recv, 0xff, env->size * sizeof(*recv));
	free(counts);
	free(recv);
	return err;
}

static int queue_and_group(struct rank_env *env)
{
	int in[2] = { env->rank, 100 }, out[3][SIZE_MOST][2];
	rondo_stream *stream = NULL;

	TRY(rondo_stream_create(&stream));
	TRY(queue_list(env, in, out[0], stream));
	TRY(rondo_group_start());
	TRY(queue_list(env, in, out[1], stream));
	TRY(queue_list(env, in, out[2], stream));
	TRY(rondo_group_end());
	TRY(rondo_stream_synchronize(stream));
	rondo_stream_destroy(stream);
	for (int call = 0; call < 3; call++)
		for (int k = 0; k < env->size; k++)
			if (out[call][env->size - 1 - k][0] != k)
				return world_report(env, "block %d of call %d is wrong", k, call);
	return 0;
}

Test(lists, arrays_need_not_outlive_the_call, .timeout = 60)
{
	world_try(4, NULL, queue_and_group);
}

/* ---- Lists that do not fit ------------------------------------------------------------------- */

/* Lists of blocks that are refused, and lengths that do not fit those of other ranks. */

static int call_wrongly(struct rank_env *env)
{
	rondo_comm *comm = env->comm;
	int data[64] = { 0 }, more[64], other = 1 - env->rank;
	size_t counts[2] = { 4, 4 }, none[2] = { 0, 0 }, huge[2] = { 4, SIZE_MAX / 4 };
	size_t five[2] = { 5, 5 };
	const void *send[2] = { data, data + 8 }, *same[2] = { data, data }, *gone[2] = { NULL };
	void *recv[2] = { more + 8, more }, *close[2] = { more + 3, more }, *part[2] = { more };
	void *around[2] = { data + 32, data + 32 };

	EXPECT_ERROR(rondo_all_gather_list(NULL, data, recv, counts, RONDO_I32, NULL),
		RONDO_INVALID, "all_gather_list: comm is NULL");
	EXPECT_ERROR(rondo_all_gather_list(comm, data, recv, NULL, RONDO_I32, NULL), RONDO_INVALID,
		"all_gather_list: counts is NULL");
	EXPECT_ERROR(rondo_all_gather_list(comm, data, NULL, counts, RONDO_I32, NULL),
		RONDO_INVALID, "all_gather_list: recv is NULL");
	EXPECT_ERROR(rondo_all_gather_list(comm, data, part, counts, RONDO_I32, NULL),
		RONDO_INVALID, "all_gather_list: recv[1] is NULL");
	EXPECT_ERROR(rondo_all_gather_list(comm, NULL, recv, counts, RONDO_I32, NULL),
		RONDO_INVALID, "all_gather_list: send is NULL");
	EXPECT_ERROR(rondo_all_gather_list(comm, data, recv, huge, RONDO_I32, NULL), RONDO_INVALID,
		"all_gather_list: the counts are too large");
	EXPECT_ERROR(rondo_all_gather_list(comm, data, close, counts, RONDO_I32, NULL),
		RONDO_INVALID, "all_gather_list: blocks 1 and 0 of recv overlap");
	EXPECT_ERROR(rondo_all_gather_list(comm, more + 7, recv, counts, RONDO_I32, NULL),
		RONDO_INVALID, "all_gather_list: send and recv overlap");
	/* Another rank's block is no place for this one's. */
	EXPECT_ERROR(rondo_all_gather_list(comm, recv[other], recv, counts, RONDO_I32, NULL),
		RONDO_INVALID, "all_gather_list: send and recv overlap");
	EXPECT_ERROR(rondo_all_gather_list(comm, data, recv, counts, 77, NULL), RONDO_INVALID,
		"all_gather_list: 77 is no type");
	EXPECT_ERROR(
		rondo_reduce_scatter_list(comm, gone, more, counts, RONDO_I32, RONDO_SUM, NULL),
		RONDO_INVALID, "reduce_scatter_list: send[0] is NULL");
	EXPECT_ERROR(
		rondo_reduce_scatter_list(comm, send, data + 6, counts, RONDO_I32, RONDO_SUM, NULL),
		RONDO_INVALID, "reduce_scatter_list: send and recv overlap");
	EXPECT_ERROR(rondo_all_to_all_list(comm, send, counts, around, counts, RONDO_I32, NULL),
		RONDO_INVALID, "all_to_all_list: blocks 0 and 1 of recv overlap");
	EXPECT_ERROR(rondo_all_to_all_list(comm, send, counts, (void *[]){ data + 8, data }, counts,
			     RONDO_I32, NULL),
		RONDO_INVALID, "all_to_all_list: send and recv overlap");
	EXPECT_ERROR(rondo_all_to_all_list(comm, send, NULL, recv, counts, RONDO_I32, NULL),
		RONDO_INVALID, "all_to_all_list: counts is NULL");
	EXPECT_ERROR(rondo_all_to_all_list(comm, send, counts, recv, five, RONDO_I32, NULL),
		RONDO_INVALID, "sends 4 i32 to itself, and expects 5");
	EXPECT_ERROR(rondo_gather_list(comm, data, 4, recv, counts, RONDO_I32, 2, NULL),
		RONDO_INVALID, "gather_list: rank 2 is not in 0..1");
	EXPECT_ERROR(rondo_scatter_list(comm, NULL, counts, data, 4, RONDO_I32, env->rank, NULL),
		RONDO_INVALID, "scatter_list: send is NULL");
	/* The refused calls have harmed nothing, and blocks of send may be one. */
	TRY(rondo_all_gather_list(comm, data, recv, counts, RONDO_I32, NULL));
	TRY(rondo_all_to_all_list(comm, same, counts, recv, counts, RONDO_I32, NULL));
	TRY(rondo_all_to_all_list(
		comm, gone, none, (void *[]){ NULL, NULL }, none, RONDO_I32, NULL));
	return 0;
}

Test(lists, wrong_arguments_are_refused_and_harm_nothing, .timeout = 60)
{
	world_try(2, NULL, call_wrongly);
}
