/*
 * Calls on device memory wherever buffers lie: at every place in a 16-byte vector, all of them
 * alike or not, in place and not, beside the same call in host memory.
 */
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "call_collective.h"
#include "device/work.h"
#include "gpus.h"
#include "plan/collective.h"

TestSuite(gpu_places, .init = gpu_die_with_parent);

/* Too long for LL buffers, and with all that lies before and behind it. */
#define CALL_SIZE (RD_LL_BUFFER_SIZE + 6000)
#define ROOM (CALL_SIZE + 4096)
#define RANKS 4

struct both {
	char *in, *out; /* on the device */
	char host_in[ROOM], host_out[ROOM], got[ROOM];
	rondo_stream *stream;
};

struct request {
	enum rd_collective collective;
	rondo_type type;
	rondo_op op;
	int root;
	size_t count;
	bool in_place;
	size_t in_at, out_at; /* of this rank's buffers, in bytes */
};

static int open_both(struct rank_env *env, struct both **both)
{
	*both = calloc(1, sizeof(**both));
	if (env->create_error)
		return world_report(env, "create: %s", rondo_last_error());

	int device = env->rank % rondo_device_count();

	TRY(rondo_mem_alloc_on((void **)&(*both)->in, ROOM, device));
	TRY(rondo_mem_alloc_on((void **)&(*both)->out, ROOM, device));
	TRY(rondo_stream_create_on(&(*both)->stream, device));
	return 0;
}

static void close_both(struct both *both)
{
	rondo_stream_destroy(both->stream);
	rondo_mem_free(both->in);
	rondo_mem_free(both->out);
	free(both);
}

static int call_at(
	rondo_comm *comm, const struct request *request, char *in, char *out, rondo_stream *stream)
{
	size_t ours =
		(size_t)rondo_comm_rank(comm) * request->count * rondo_type_size(request->type);

	in += request->in_at;
	out = request->in_place ? in : out + request->out_at;
	if (request->in_place &&
		(request->collective == RD_ALL_GATHER || request->collective == RD_GATHER))
		in += ours;
	if (request->in_place &&
		(request->collective == RD_REDUCE_SCATTER || request->collective == RD_SCATTER))
		out += ours;
	return call_collective(comm, request->collective, in, out, request->count, request->type,
		request->op, request->root, stream);
}

static int compare(struct rank_env *env, const struct both *both, const struct request *request)
{
	const char *right = request->in_place ? both->host_in : both->host_out;

	for (size_t i = 0; i < ROOM; i++)
		if (both->got[i] != right[i])
			return world_report(env,
				"%s of %zu %s %s at %zu and %zu, root %d%s: byte %zu is %d, not %d",
				rd_collective_name(request->collective), request->count,
				rondo_type_name(request->type), rondo_op_name(request->op),
				request->in_at, request->out_at, request->root,
				request->in_place ? ", in place" : "", i, both->got[i], right[i]);
	return 0;
}

/* The whole buffers are compared, with what no call is to touch. All ranks have the same floats
   where a call adds them: sums are then exact. */
static int beside_the_host(struct rank_env *env, struct both *both, const struct request *request)
{
	size_t size = rondo_type_size(request->type);
	size_t shift = rd_collective_reduces(request->collective) ? 0 : (size_t)env->rank;

	memset(both->host_in, 0x33, ROOM);
	memset(both->host_out, 0x55, ROOM);
	for (size_t i = 0; request->in_at + (i + 1) * size <= ROOM; i++)
		gpu_put_element(both->host_in + request->in_at + i * size, request->type, i + shift,
			env->rank);
	TRY(rondo_copy(both->in, both->host_in, ROOM, both->stream));
	TRY(rondo_copy(both->out, both->host_out, ROOM, both->stream));
	TRY(call_at(env->comm, request, both->in, both->out, both->stream));
	TRY(rondo_copy(both->got, request->in_place ? both->in : both->out, ROOM, both->stream));
	TRY(rondo_stream_synchronize(both->stream));
	TRY(call_at(env->comm, request, both->host_in, both->host_out, NULL));
	return compare(env, both, request);
}

/* Four turns: all buffers begin at the same place in a vector, in place and not; each rank's two
   buffers at a place of their own; buffers in units of 8, 4 and 2 bytes apart. */
static void place_buffers(const struct rank_env *env, struct request *request, int turn)
{
	size_t size = rondo_type_size(request->type), place = (size_t)turn * 5 % 16;
	size_t rank = (size_t)env->rank, apart = (size_t)2 << turn % 3;

	request->in_place = turn % 2;
	request->in_at = request->out_at = place * size;
	if (turn % 4 == 2) {
		request->in_at += rank * size;
		request->out_at += (3 * rank + 1) * size;
	} else if (turn % 4 == 3) {
		request->in_at = (place + rank * apart) * size;
	}
	if (turn % 8 == 4)
		request->out_at += apart * size;
}

static int try_type(struct rank_env *env, struct both *both, rondo_type type)
{
	int wrong = 0, turn = type;

	for (int collective = 0; collective < RD_COLLECTIVE_COUNT; collective++) {
		if (collective == RD_TRANSFER || collective == RD_BARRIER)
			continue;
		for (int i = 0; i < 5 && !wrong; i++, turn++) {
			struct request request = {
				.collective = collective, .type = type, .root = turn % env->size
			};
			struct rd_problem problem = { .collective = collective, .size = env->size };
			size_t block = CALL_SIZE / (size_t)rd_blocks(&problem);

			request.count =
				i == 4 ? 0 : block / rondo_type_size(type) - (size_t)(turn % 7);
			do
				request.op = (rondo_op)((request.op + turn) % RONDO_OP_COUNT);
			while (!rondo_op_applies(request.op, type) && ++turn);
			place_buffers(env, &request, turn);
			wrong = beside_the_host(env, both, &request);
		}
	}
	return wrong;
}

static int as_on_the_host(struct rank_env *env)
{
	struct both *both;
	int wrong = open_both(env, &both);

	for (int type = 0; type < RONDO_TYPE_COUNT && !wrong; type++)
		wrong = try_type(env, both, type);
	close_both(both);
	return wrong;
}

/* ---- Every place ---------------------------------------------------------------------------- */

/* Bytes, at each place in a vector: alike, differing between ranks, and one rank's input alone. */
static int every_place(struct rank_env *env)
{
	static const enum rd_collective collectives[] = { RD_ALL_REDUCE, RD_ALL_GATHER,
		RD_BROADCAST, RD_ALL_TO_ALL };
	struct both *both;
	int wrong = open_both(env, &both);

	for (size_t place = 0; place < 16 && !wrong; place++)
		for (size_t i = 0; i < 12 && !wrong; i++) {
			struct request request = { .collective = collectives[i % 4],
				.type = RONDO_U8,
				.root = (int)place % env->size,
				.in_place = i < 8 && (place + i / 4) % 2 };
			struct rd_problem problem = { .collective = request.collective,
				.size = env->size };

			request.count = CALL_SIZE / (size_t)rd_blocks(&problem) - place;
			request.in_at = i < 8 ? place : place * (env->rank == 1);
			request.out_at = i < 4 ? place : i < 8 ? place * (size_t)env->rank : 0;
			wrong = beside_the_host(env, both, &request);
		}
	close_both(both);
	return wrong;
}

/* ---- Odd addresses --------------------------------------------------------------------------- */

/* No element lies at a multiple of its size: all ranks' buffers alike, or each at its own byte. */
static int odd_addresses(struct rank_env *env)
{
	static const rondo_type types[] = { RONDO_F16, RONDO_BF16, RONDO_F32, RONDO_F64 };
	static const enum rd_collective collectives[] = { RD_ALL_REDUCE, RD_REDUCE_SCATTER,
		RD_REDUCE, RD_ALL_GATHER, RD_BROADCAST, RD_ALL_TO_ALL };
	struct both *both;
	int wrong = open_both(env, &both);

	for (size_t i = 0; i < 4 * 6 * 4 && !wrong; i++) {
		struct request request = { .collective = collectives[i / 4 % 6],
			.type = types[i / 24],
			.op = i % 3 ? RONDO_SUM : RONDO_AVG,
			.root = (int)i % env->size,
			.in_place = i % 2,
			.in_at = i % 4 < 2 ? 1 : 2 * (size_t)env->rank + 1,
			.out_at = i % 4 < 2 ? 17 : 15 };
		struct rd_problem problem = { .collective = request.collective, .size = env->size };

		request.count =
			CALL_SIZE / (size_t)rd_blocks(&problem) / rondo_type_size(request.type) - i;
		wrong = beside_the_host(env, both, &request);
	}
	close_both(both);
	return wrong;
}

/* ---- Blocks of different lengths ------------------------------------------------------------ */

/* Each rank has its own gaps between the blocks. */
static int gather_v(struct rank_env *env, struct both *both, bool in_place)
{
	size_t counts[RANKS] = { 7001, 0, 3, 10007 }, displs[RANKS], at = 5, gap = 3;
	int rank = env->rank;

	for (int k = RANKS - 1; k >= 0; at += counts[k--] + gap * (size_t)rank)
		displs[k] = at;
	for (size_t i = 0; i < ROOM; i++)
		both->host_in[i] = (char)(i * 7 + (size_t)rank * 31);
	memset(both->host_out, 0x55, ROOM);
	if (in_place)
		memcpy(both->host_out + displs[rank], both->host_in + 1, counts[rank]);
	TRY(rondo_copy(both->in, both->host_in, ROOM, both->stream));
	TRY(rondo_copy(both->out, both->host_out, ROOM, both->stream));
	TRY(rondo_all_gather_v(env->comm, in_place ? both->out + displs[rank] : both->in + 1,
		both->out, counts, displs, RONDO_U8, both->stream));
	TRY(rondo_copy(both->got, both->out, ROOM, both->stream));
	TRY(rondo_stream_synchronize(both->stream));
	TRY(rondo_all_gather_v(
		env->comm, both->host_in + 1, both->host_out, counts, displs, RONDO_U8, NULL));
	for (size_t i = 0; i < ROOM; i++)
		if (both->got[i] != both->host_out[i])
			return world_report(env, "all_gather_v: byte %zu is %d, not %d", i,
				both->got[i], both->host_out[i]);
	return 0;
}

static int different_lengths(struct rank_env *env)
{
	struct both *both;
	int wrong = open_both(env, &both);

	for (int i = 0; i < 2 && !wrong; i++)
		wrong = gather_v(env, both, i);
	close_both(both);
	return wrong;
}

/* ---- Worlds ---------------------------------------------------------------------------------- */

static void try_kernels(int (*body)(struct rank_env *env))
{
	static const char *const kernels[] = { "fused", "stepped", "messages" };

	if (!has_gpus(1))
		cr_skip_test(NO_GPU);
	for (size_t i = 0; i < 3; i++) {
		struct gpu_trial trial = { kernels[i], { .size = RANKS, .threads = true }, body };

		cr_expect_eq(gpu_trial_run(&trial), 0, "%s", kernels[i]);
	}
}

#define TEST_PLACES(name, body) \
	Test(gpu_places, name, .timeout = 120) \
	{ \
		try_kernels(body); \
	}

TEST_PLACES(every_type_and_collective_is_right_wherever_buffers_lie, as_on_the_host)
TEST_PLACES(bytes_at_every_place_of_a_vector_are_right, every_place)
TEST_PLACES(blocks_of_different_lengths_lie_anywhere, different_lengths)
TEST_PLACES(elements_at_odd_addresses_are_right, odd_addresses)
