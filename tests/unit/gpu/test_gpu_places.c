/*
 * Calls on device memory wherever buffers lie: at every place in a 16-byte vector, all of them
 * alike or not, in place and not, beside the same call in host memory.
 */
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "device/work.h"
#include "gpus.h"
#include "plan/collective.h"

TestSuite(gpu_places, .init = gpu_die_with_parent);

/* Too long for LL buffers, and with all that lies before and behind it. */
#define CALL_SIZE (RD_LL_BUFFER_SIZE + 6000)
#define ROOM (CALL_SIZE + 4096)
#define RANKS 4

/* Four turns: all buffers begin at the same place in a vector, in place and not; each rank's two
   buffers at a place of their own; buffers in units of 8, 4 and 2 bytes apart. */
static void place_buffers(const struct rank_env *env, struct gpu_request *request, int turn)
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

static int try_type(struct rank_env *env, struct gpu_buffers *both, rondo_type type)
{
	int wrong = 0, turn = type;

	for (int collective = 0; collective < RD_COLLECTIVE_COUNT; collective++) {
		if (collective == RD_TRANSFER || collective == RD_BARRIER)
			continue;
		for (int i = 0; i < 5 && !wrong; i++, turn++) {
			struct gpu_request request = {
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
			wrong = gpu_beside_the_host(env, both, &request);
		}
	}
	return wrong;
}

static int as_on_the_host(struct rank_env *env)
{
	struct gpu_buffers *both;
	int wrong = gpu_buffers_open(env, &both, ROOM);

	for (int type = 0; type < RONDO_TYPE_COUNT && !wrong; type++)
		wrong = try_type(env, both, type);
	gpu_buffers_close(both);
	return wrong;
}

/* ---- Every place ---------------------------------------------------------------------------- */

/* Bytes, at each place in a vector: alike, differing between ranks, and one rank's input alone. */
static int every_place(struct rank_env *env)
{
	static const enum rd_collective collectives[] = { RD_ALL_REDUCE, RD_ALL_GATHER,
		RD_BROADCAST, RD_ALL_TO_ALL };
	struct gpu_buffers *both;
	int wrong = gpu_buffers_open(env, &both, ROOM);

	for (size_t place = 0; place < 16 && !wrong; place++)
		for (size_t i = 0; i < 12 && !wrong; i++) {
			struct gpu_request request = { .collective = collectives[i % 4],
				.type = RONDO_U8,
				.root = (int)place % env->size,
				.in_place = i < 8 && (place + i / 4) % 2 };
			struct rd_problem problem = { .collective = request.collective,
				.size = env->size };

			request.count = CALL_SIZE / (size_t)rd_blocks(&problem) - place;
			request.in_at = i < 8 ? place : place * (env->rank == 1);
			request.out_at = i < 4 ? place : i < 8 ? place * (size_t)env->rank : 0;
			wrong = gpu_beside_the_host(env, both, &request);
		}
	gpu_buffers_close(both);
	return wrong;
}

/* ---- Odd addresses --------------------------------------------------------------------------- */

/* No element lies at a multiple of its size: all ranks' buffers alike, or each at its own byte. */
static int odd_addresses(struct rank_env *env)
{
	static const rondo_type types[] = { RONDO_F16, RONDO_BF16, RONDO_F32, RONDO_F64 };
	static const enum rd_collective collectives[] = { RD_ALL_REDUCE, RD_REDUCE_SCATTER,
		RD_REDUCE, RD_ALL_GATHER, RD_BROADCAST, RD_ALL_TO_ALL };
	struct gpu_buffers *both;
	int wrong = gpu_buffers_open(env, &both, ROOM);

	for (size_t i = 0; i < 4 * 6 * 4 && !wrong; i++) {
		struct gpu_request request = { .collective = collectives[i / 4 % 6],
			.type = types[i / 24],
			.op = i % 3 ? RONDO_SUM : RONDO_AVG,
			.root = (int)i % env->size,
			.in_place = i % 2,
			.in_at = i % 4 < 2 ? 1 : 2 * (size_t)env->rank + 1,
			.out_at = i % 4 < 2 ? 17 : 15 };
		struct rd_problem problem = { .collective = request.collective, .size = env->size };

		request.count =
			CALL_SIZE / (size_t)rd_blocks(&problem) / rondo_type_size(request.type) - i;
		wrong = gpu_beside_the_host(env, both, &request);
	}
	gpu_buffers_close(both);
	return wrong;
}

/* ---- Blocks of different lengths ------------------------------------------------------------ */

/* Each rank has its own gaps between the blocks. */
static int gather_v(struct rank_env *env, struct gpu_buffers *both, bool in_place)
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
	struct gpu_buffers *both;
	int wrong = gpu_buffers_open(env, &both, ROOM);

	for (int i = 0; i < 2 && !wrong; i++)
		wrong = gather_v(env, both, i);
	gpu_buffers_close(both);
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
