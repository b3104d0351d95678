/* ctest label: threads */
/*
 * Worlds whose ranks are threads of one process, for ThreadSanitizer. Other tests check results
 * thoroughly; this one does so lightly.
 *
 * ThreadSanitizer finds nothing between the two sides of a FIFO: the threads of a world map a
 * pair's shared memory twice, at two addresses.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "elements.h"
#include "free_port.h"
#include "world.h"

/* ---- Every collective ---------------------------------------------------------------------- */

/* Elements, and bytes of a piece; 0: the default. f32 are two pieces. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define COUNT 5000
#define PIECE 16000
#else
#define COUNT 40000
#define PIECE 0
#endif
#define BLOCK (COUNT * 16) /* bytes of the largest elements */

static double load(const void *at, rondo_type type)
{
	return element_is_float(type) ? element_float(at, type)
				      : (double)(int64_t)element_integer(at, type);
}

/* Element i of rank `rank`'s input: 1 or 2 for a product, small otherwise, for an f8 very small. */
static int input(int rank, size_t i, rondo_type type, rondo_op op)
{
	size_t most = type == RONDO_F8E4M3 || type == RONDO_F8E5M2 ? 2 : 23;

	return op == RONDO_PROD ? 1 + (int)((i / 3 + (size_t)rank) % 2)
				: (int)((i * 7 + (size_t)rank * 5) % most);
}

/* Element i of all ranks' inputs together. */
static double combined(int size, size_t i, rondo_type type, rondo_op op)
{
	rondo_op combines = type == RONDO_BOOL ? element_bool_op(op) : op;
	double total = input(0, i, type, op);

	for (int rank = 1; rank < size; rank++)
		total = element_combine(combines, total, input(rank, i, type, op));
	return op == RONDO_AVG ? total / size : total;
}

struct buffers {
	char *in, *out; /* [size * count] elements */
	size_t count;
	rondo_type type;
	rondo_op op;
};

static void refill(const struct rank_env *env, struct buffers *b, char *at, size_t blocks)
{
	for (size_t i = 0; i < blocks * b->count; i++) {
		int value = input(env->rank, i, b->type, b->op);

		element_store(at + i * rondo_type_size(b->type), b->type, (uint64_t)value, value);
	}
}

/* Block `block` of the output against block `from` of rank `rank`'s input; -1: of all combined. */
static bool right(
	const struct rank_env *env, const struct buffers *b, size_t block, size_t from, int rank)
{
	for (size_t i = 0; i < b->count; i++) {
		size_t at = (block * b->count + i) * rondo_type_size(b->type);
		double got = load(b->out + at, b->type), wanted;

		wanted = rank < 0 ? combined(env->size, from * b->count + i, b->type, b->op)
				  : input(rank, from * b->count + i, b->type, b->op);
		/* An average is cut or rounded. */
		if (rank < 0 && b->op == RONDO_AVG ? got - wanted > 0.2 || wanted - got >= 1
						   : got != wanted)
			return false;
	}
	return true;
}

static int try_reductions(struct rank_env *env, struct buffers *b, rondo_stream *stream)
{
	rondo_comm *comm = env->comm;
	size_t rank = (size_t)env->rank;

	refill(env, b, b->out, 1);
	TRY(rondo_all_reduce(comm, b->out, b->out, b->count, b->type, b->op, stream));
	if (stream)
		TRY(rondo_stream_synchronize(stream));
	if (!right(env, b, 0, 0, -1))
		return world_report(env, "all_reduce");
	refill(env, b, b->in, (size_t)env->size);
	TRY(rondo_reduce_scatter(comm, b->in, b->out, b->count, b->type, b->op, stream));
	if (stream)
		TRY(rondo_stream_synchronize(stream));
	if (!right(env, b, 0, rank, -1))
		return world_report(env, "reduce_scatter");
	TRY(rondo_reduce(comm, b->in, b->out, b->count, b->type, b->op, 1, stream));
	if (stream)
		TRY(rondo_stream_synchronize(stream));
	if (env->rank == 1 && !right(env, b, 0, 0, -1))
		return world_report(env, "reduce");
	return 0;
}

static int try_moves(struct rank_env *env, struct buffers *b)
{
	rondo_comm *comm = env->comm;
	size_t size = (size_t)env->size, rank = (size_t)env->rank;
	bool fine = true;

	refill(env, b, b->in, size);
	TRY(rondo_all_gather(comm, b->in, b->out, b->count, b->type, NULL));
	for (size_t k = 0; k < size; k++)
		fine &= right(env, b, k, 0, (int)k);
	refill(env, b, b->out, size);
	TRY(rondo_all_to_all(comm, b->out, b->out, b->count, b->type, NULL));
	for (size_t k = 0; k < size; k++)
		fine &= right(env, b, k, rank, (int)k);
	TRY(rondo_gather(comm, b->in, b->out, b->count, b->type, 0, NULL));
	for (size_t k = 0; k < size && rank == 0; k++)
		fine &= right(env, b, k, 0, (int)k);
	TRY(rondo_scatter(comm, b->in, b->out, b->count, b->type, 1, NULL));
	fine &= right(env, b, 0, rank, 1);
	TRY(rondo_broadcast(comm, b->in, b->out, b->count, b->type, 1, NULL));
	fine &= right(env, b, 0, 0, 1);
	TRY(rondo_barrier(comm, NULL));
	return fine ? 0 : world_report(env, "something was moved wrongly");
}

static int get_memory(bool registered, char **memory, size_t size)
{
	if (registered)
		return rondo_mem_alloc((void **)memory, size);
	*memory = calloc(size, 1);
	return *memory ? 0 : RONDO_MEMORY;
}

static void put_memory(bool registered, char *memory)
{
	if (registered)
		rondo_mem_free(memory);
	else
		free(memory);
}

static int with_buffers(struct rank_env *env, rondo_stream *stream,
	int (*run)(struct rank_env *env, struct buffers *b, rondo_stream *stream))
{
	size_t bytes = (size_t)env->size * BLOCK;
	bool registered = env->world->memory == REGISTERED;
	struct buffers b = { 0 };
	int wrong;

	TRY(env->create_error);
	TRY(get_memory(registered, &b.in, bytes));
	TRY(get_memory(registered, &b.out, bytes));
	wrong = run(env, &b, stream);
	put_memory(registered, b.in);
	put_memory(registered, b.out);
	return wrong;
}

/* Types whose threads run the same code as another type's. */
static bool passes_over(rondo_type type)
{
	return ONLY_THREADS && type != RONDO_I32 && type != RONDO_BF16 && type != RONDO_F32;
}

static int run_collectives(struct rank_env *env, struct buffers *b, rondo_stream *stream)
{
	static const size_t counts[] = { 0, 1, 77, COUNT };
	int wrong = 0;

	for (int type = 0; type < RONDO_TYPE_COUNT && !wrong; type++) {
		if (passes_over((rondo_type)type))
			continue;
		b->type = (rondo_type)type;
		b->count = counts[type % 4];
		for (int op = 0; op < RONDO_OP_COUNT && !wrong; op++) {
			b->op = (rondo_op)op;
			if (!rondo_op_applies(b->op, b->type))
				continue;
			b->count = counts[(type + op) % 4];
			wrong = try_reductions(env, b, stream);
		}
		b->op = RONDO_SUM;
		if (!wrong)
			wrong = try_moves(env, b);
	}
	return wrong;
}

static int collectives(struct rank_env *env)
{
	return with_buffers(env, NULL, run_collectives);
}

/* ---- Streams and groups -------------------------------------------------------------------- */

static void count_up(void *argument)
{
	++*(int *)argument;
}

/* Blocking calls take their turns between those of two streams. */
static int run_streams(struct rank_env *env, struct buffers *b, rondo_stream *stream)
{
	rondo_stream *other;
	float *values = (float *)b->out, *more = (float *)b->in, mine = 1;
	int counter = 0;

	TRY(rondo_stream_create(&other));
	for (int i = 0; i < 20; i++) {
		float one = 1;

		values[i] = more[i] = (float)(env->rank + i);
		TRY(rondo_all_reduce(
			env->comm, values + i, values + i, 1, RONDO_F32, RONDO_SUM, stream));
		TRY(rondo_stream_call(stream, count_up, &counter));
		TRY(rondo_all_reduce(
			env->comm, more + i, more + i, 1, RONDO_F32, RONDO_MAX, other));
		if (i % 3 == 0)
			TRY(rondo_all_reduce(
				env->comm, &one, &mine, 1, RONDO_F32, RONDO_SUM, NULL));
	}
	TRY(rondo_stream_synchronize(stream));
	TRY(rondo_stream_synchronize(other));
	rondo_stream_destroy(other);
	for (int i = 0; i < 20; i++)
		if (values[i] != (float)(env->size * (env->size - 1) / 2 + i * env->size) ||
			more[i] != (float)(env->size - 1 + i))
			return world_report(env, "%d: %g and %g", i, values[i], more[i]);
	return counter == 20 && mine == (float)env->size
		       ? 0
		       : world_report(env, "%d calls, %g ranks", counter, mine);
}

/* The reductions once more, on a stream. */
static int streams(struct rank_env *env)
{
	rondo_stream *stream;
	int wrong;

	TRY(rondo_stream_create(&stream));
	wrong = with_buffers(env, stream, run_streams);
	if (!wrong)
		wrong = with_buffers(env, stream, run_collectives);
	rondo_stream_destroy(stream);
	return wrong;
}

/* A stream that still has work when its comm is destroyed, and when it is itself. */
static int unfinished_streams(struct rank_env *env)
{
	static int sums[WORLD_MAX][50];
	rondo_stream *stream;

	TRY(env->create_error);
	TRY(rondo_stream_create(&stream));
	for (int i = 0; i < 50; i++) {
		int *sum = &sums[env->rank][i];

		*sum = 1;
		TRY(rondo_all_reduce(env->comm, sum, sum, 1, RONDO_I32, RONDO_SUM, stream));
	}
	if (env->rank % 2) {
		rondo_stream_destroy(stream);
		stream = NULL;
	}
	TRY(world_leave(env));
	rondo_stream_destroy(stream);
	return sums[env->rank][49] == env->size ? 0 : world_report(env, "a wrong sum");
}

/* Each rank sends to each, itself included, beside a collective. */
static int run_groups(struct rank_env *env, struct buffers *b, rondo_stream *stream)
{
	int size = env->size, rank = env->rank, one = 1, sum = 0;

	for (int round = 0; round < 10; round++) {
		memset(b->in, rank + round, (size_t)size * BLOCK);
		TRY(rondo_group_start());
		for (int i = 0; i < size; i++)
			TRY(rondo_send(env->comm, b->in + i * BLOCK, 1000 + 9000 * (size_t)rank,
				RONDO_I8, (rank + i) % size, stream));
		for (int i = size - 1; i >= 0; i--)
			TRY(rondo_recv(env->comm, b->out + i * BLOCK, 1000 + 9000 * (size_t)i,
				RONDO_I8, i, stream));
		TRY(rondo_all_reduce(env->comm, &one, &sum, 1, RONDO_I32, RONDO_SUM, stream));
		TRY(rondo_group_end());
		if (stream)
			TRY(rondo_stream_synchronize(stream));
		for (int i = 0; i < size; i++)
			if (b->out[i * BLOCK + 999 + 9000 * i] != i + round)
				return world_report(env, "the bytes of rank %d", i);
		if (sum != size)
			return world_report(env, "the sum is %d", sum);
	}
	return 0;
}

static int groups(struct rank_env *env)
{
	rondo_stream *stream;
	int wrong = with_buffers(env, NULL, run_groups);

	if (wrong)
		return wrong;
	TRY(rondo_stream_create(&stream));
	wrong = with_buffers(env, stream, run_groups);
	rondo_stream_destroy(stream);
	return wrong;
}

/* ---- Several comms ------------------------------------------------------------------------- */

static int run_two_comms(struct rank_env *env, struct buffers *b, rondo_stream *stream)
{
	float *values = (float *)b->out, *more = (float *)b->in;
	rondo_comm *other = NULL;
	int wrong = world_second_comm(env, &other);

	if (wrong)
		return wrong;
	for (int i = 0; i < COUNT; i++)
		values[i] = more[i] = 1;
	/* One in this thread, the other in the stream's, at the same time. */
	for (int i = 0; i < 5; i++) {
		TRY(rondo_all_reduce(other, more, more, COUNT, RONDO_F32, RONDO_AVG, stream));
		TRY(rondo_all_reduce(env->comm, values, values, COUNT, RONDO_F32, RONDO_AVG, NULL));
	}
	TRY(rondo_stream_synchronize(stream));
	/* Both in one group; the ranks begin with different ones. */
	TRY(rondo_group_start());
	for (int i = 0; i < 2; i++) {
		bool first = i == env->rank % 2;
		float *at = first ? values : more;

		TRY(rondo_all_reduce(
			first ? env->comm : other, at, at, COUNT, RONDO_F32, RONDO_SUM, NULL));
	}
	TRY(rondo_group_end());
	TRY(rondo_comm_destroy(other));
	return values[COUNT - 1] == (float)env->size && more[0] == (float)env->size
		       ? 0
		       : world_report(env, "%g and %g", values[COUNT - 1], more[0]);
}

static int two_comms(struct rank_env *env)
{
	rondo_stream *stream;
	int wrong;

	TRY(rondo_stream_create(&stream));
	wrong = with_buffers(env, stream, run_two_comms);
	rondo_stream_destroy(stream);
	return wrong;
}

static int many_comms(struct rank_env *env)
{
	TRY(env->create_error);
	for (int round = 0; round < 8; round++) {
		rondo_comm *other = NULL;
		int one = 1, sum = 0, wrong = world_second_comm(env, &other);

		if (wrong)
			return wrong;
		if (round % 2)
			TRY(rondo_all_reduce(other, &one, &sum, 1, RONDO_I32, RONDO_SUM, NULL));
		TRY(rondo_comm_destroy(other));
	}
	return 0;
}

/* ---- Ends ---------------------------------------------------------------------------------- */

static void *abort_comm(void *argument)
{
	struct rank_env *env = argument;

	rondo_comm_revoke(env->comm, "enough");
	return NULL;
}

static int check_revoked(struct rank_env *env, int err)
{
	if (err == RONDO_REVOKED && strstr(rondo_last_error(), "rank 1 revoked") &&
		(!env->comm || rondo_comm_error(env->comm) == RONDO_REVOKED))
		return 0;
	return world_report(env, "%s: %s", rondo_error_name(err), rondo_last_error());
}

/* The others may be in their calls, and fail, before a rank has returned from create: here and
   below that rank learns of it there. */

/* Rank 1's comm is revoked by another thread, while all are in calls. */
static int revoked(struct rank_env *env)
{
	pthread_t thread;
	float value = 1;
	int err = env->create_error;

	if (err)
		return check_revoked(env, err);
	if (env->rank == 1)
		pthread_create(&thread, NULL, abort_comm, env);
	while (!err)
		err = rondo_all_reduce(env->comm, &value, &value, 1, RONDO_F32, RONDO_MAX, NULL);
	if (env->rank == 1)
		pthread_join(thread, NULL);
	return check_revoked(env, err);
}

/* The same, while a stream has calls to run. */
static int revoked_on_a_stream(struct rank_env *env)
{
	static float values[WORLD_MAX][500];
	float *mine = values[env->rank];
	rondo_stream *stream;
	pthread_t thread;
	int err = env->create_error;

	if (err)
		return check_revoked(env, err);
	TRY(rondo_stream_create(&stream));
	if (env->rank == 1)
		pthread_create(&thread, NULL, abort_comm, env);
	for (int i = 0; i < 500; i++)
		rondo_all_reduce(env->comm, mine + i, mine + i, 1, RONDO_F32, RONDO_MAX, stream);
	if (env->rank == 1)
		pthread_join(thread, NULL);
	/* A rank that was done before the abort gets it in the next call. */
	err = rondo_stream_synchronize(stream);
	while (!err)
		err = rondo_barrier(env->comm, NULL);
	rondo_stream_destroy(stream);
	return check_revoked(env, err);
}

/* Another thread revokes the comm of each rank while it shrinks. */
static int shrunk(struct rank_env *env)
{
	rondo_comm *comm;
	pthread_t thread;
	int failed;

	TRY(env->create_error);
	pthread_create(&thread, NULL, abort_comm, env);
	failed = rondo_comm_shrink(env->comm, &comm);
	pthread_join(thread, NULL);
	if (failed)
		return world_report(env, "%s", rondo_last_error());
	rondo_comm_destroy(env->comm);
	env->comm = comm;
	return world_sum_one(env);
}

static int mismatched(struct rank_env *env)
{
	size_t count = env->rank == 1 ? 65 : 64;
	static float values[WORLD_MAX][65];
	float *mine = values[env->rank];
	int err = env->create_error;

	if (!err)
		err = rondo_all_reduce(env->comm, mine, mine, count, RONDO_F32, RONDO_SUM, NULL);
	if (!err)
		err = rondo_barrier(env->comm, NULL);
	return world_expect(env, "call", err, RONDO_MISMATCH, "");
}

/* Rank 1 leaves by destroy(). */
static int left(struct rank_env *env)
{
	int err;

	TRY(env->create_error);
	err = rondo_barrier(env->comm, NULL);
	if (env->rank == 1)
		return err;
	/* A slow rank may get the error in the first call already: the others return when all have
	   joined it, not when all are done. */
	if (!err)
		err = rondo_barrier(env->comm, NULL);
	return world_expect(env, "call", err, RONDO_LEFT, "");
}

/* Only rank 0 creates a comm; the others' threads end. */
static int nobody_came(struct rank_env *env)
{
	struct rondo_config config;
	rondo_comm *comm = NULL;
	int err;

	TRY(env->create_error);
	if (env->rank > 0)
		return 0;
	config = world_config(0, env->size, free_port());
	config.init_timeout_ms = 100;
	err = rondo_comm_create(&comm, &config);
	return err && !comm ? 0 : world_report(env, "a comm of one of %d", env->size);
}

/* ---- All of it ----------------------------------------------------------------------------- */

static void run(int (*body)(struct rank_env *env), int channels, enum world_memory memory)
{
	static const struct {
		int size;
		const char *transport;
	} shapes[] = { { 2, "shm" }, { 2, "tcp" }, { 3, "tcp" }, { 4, "shm" }, { 4, "mixed" } };

	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
		struct world world = { .size = shapes[i].size,
			.transport = shapes[i].transport,
			.threads = true,
			.channels = channels,
			.piece_size = PIECE,
			.memory = memory };

		cr_assert_eq(world_run(&world, body, NULL, NULL), 0, "%d over %s", shapes[i].size,
			shapes[i].transport);
	}
}

#define THREADS_TEST(name, body, channels, memory) \
	Test(threads, name, .timeout = 120) \
	{ \
		run(body, channels, memory); \
	}

THREADS_TEST(can_be_the_ranks_of_every_collective, collectives, 1, MALLOCED)
THREADS_TEST(can_be_the_ranks_of_every_collective_on_two_channels, collectives, 2, MALLOCED)
THREADS_TEST(can_be_ranks_that_address_each_others_memory, streams, 1, REGISTERED)
THREADS_TEST(may_use_streams_beside_blocking_calls, streams, 1, MALLOCED)
THREADS_TEST(may_destroy_a_comm_whose_stream_has_work, unfinished_streams, 1, MALLOCED)
THREADS_TEST(may_group_calls, groups, 1, MALLOCED)
THREADS_TEST(may_use_two_comms_at_once, two_comms, 1, MALLOCED)
THREADS_TEST(may_make_comms_again_and_again, many_comms, 1, MALLOCED)
THREADS_TEST(shrink_a_comm_while_others_revoke_it, shrunk, 1, MALLOCED)
THREADS_TEST(see_a_revoke_by_another_thread, revoked, 1, MALLOCED)
THREADS_TEST(see_a_revoke_by_another_thread_while_a_stream_works, revoked_on_a_stream, 1, MALLOCED)
THREADS_TEST(see_that_a_call_differs, mismatched, 1, MALLOCED)
THREADS_TEST(see_that_one_has_left, left, 1, MALLOCED)
THREADS_TEST(may_wait_in_vain_for_each_other, nobody_came, 1, MALLOCED)
