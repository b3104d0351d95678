/* ctest label: threads */
/* Sends and receives of device memory, by every way of running them. */
#include <criterion/criterion.h>
#include <string.h>

#include "gpus.h"
#include "gpu_transfers.h"

/* Bytes of a rank's buffers here. */
#define ROOM (128 << 10)

/* ---- Values -------------------------------------------------------------------------------- */

static int shift_everything(struct rank_env *env)
{
	static const size_t counts[] = { 0, 1, 3, 1000, 4097 };
	struct memory memory;
	int wrong = open_room(env, &memory, ROOM / sizeof(float));

	for (int type = 0; type < RONDO_TYPE_COUNT && !wrong; type++)
		for (int i = 0; i < 5 && !wrong; i++)
			wrong = shift(env, &memory, counts[i], type, 0, 0);
	/* Wherever they begin, and not alike. */
	for (size_t at = 0; at < 25 && !wrong; at++)
		wrong = shift(
			env, &memory, 1001, at < 20 ? RONDO_U8 : RONDO_F64, at % 5 * 3, at / 5 * 7);
	close_memory(&memory);
	return wrong;
}

Test(gpu_transfers, every_type_and_length_arrives_wherever_it_lies, .timeout = 120)
{
	try_transfers(3, shift_everything, 0);
}

static int shift_much(struct rank_env *env)
{
	const size_t count = 5000003;
	struct memory memory;
	int wrong = open_room(env, &memory, count / sizeof(float) + 64);

	for (int i = 0; i < 3 && !wrong; i++)
		wrong = shift(env, &memory, count, RONDO_I8, (size_t)i, (size_t)(i * i));
	close_memory(&memory);
	return wrong;
}

Test(gpu_transfers, long_messages_arrive, .timeout = 120)
{
	try_transfers(2, shift_much, 0);
}

/* On no stream, a call at a time: the first rank sends before it receives, the others wait. */
static int pass_on(struct rank_env *env)
{
	struct memory memory;
	int wrong = open_room(env, &memory, ROOM / sizeof(float)), rank = env->rank;
	char *in, *out;

	if (wrong)
		return wrong;
	in = (char *)memory.in;
	out = (char *)memory.out;
	for (int i = 0; i < 20 && !wrong; i++) {
		size_t size = (size_t)i * 111;

		memset(out, 0, size + 1);
		fill_message(in, rank, next_rank(env), i, size);
		if (rank == 0)
			TRY(rondo_send(env->comm, in, size, RONDO_U8, 1, NULL));
		TRY(rondo_recv(env->comm, out, size, RONDO_U8, previous_rank(env), NULL));
		if (rank > 0)
			TRY(rondo_send(env->comm, in, size, RONDO_U8, next_rank(env), NULL));
		wrong = check_message(env, out, previous_rank(env), rank, i, size);
	}
	close_memory(&memory);
	return wrong;
}

Test(gpu_transfers, calls_on_no_stream_wait_for_their_peer, .timeout = 120)
{
	try_transfers(3, pass_on, 0);
}

/* ---- Groups -------------------------------------------------------------------------------- */

#define MESSAGES 3
#define MESSAGE 501

static size_t place_of(const struct rank_env *env, int peer, int number)
{
	return (size_t)(peer + env->size * number) * (MESSAGE + 1);
}

/* Call i of all: each rank makes them in an order of its own, but that each pair's are in theirs.
 */
static void make_call(struct rank_env *env, struct memory *memory, int i)
{
	int calls = 2 * env->size, which = (i * 5 + env->rank * 3) % calls;
	int peer = which / 2, number = i / calls;
	char *in = (char *)memory->in, *out = (char *)memory->out;
	size_t at = place_of(env, peer, number);

	if (which % 2)
		rondo_send(env->comm, in + at, MESSAGE, RONDO_I8, peer, memory->stream);
	else
		rondo_recv(env->comm, out + at, MESSAGE, RONDO_I8, peer, memory->stream);
}

/* All pairs at once, and each rank with itself; several messages each. */
static int exchange_all(struct rank_env *env)
{
	struct memory memory;
	int wrong = open_room(env, &memory, ROOM / sizeof(float));

	if (wrong)
		return wrong;
	for (int round = 0; round < 3 && !wrong; round++) {
		for (int peer = 0; peer < env->size; peer++)
			for (int number = 0; number < MESSAGES; number++)
				fill_message((char *)memory.in + place_of(env, peer, number),
					env->rank, peer, number + round, MESSAGE);
		memset(memory.out, 0, ROOM);
		rondo_group_start();
		for (int i = 0; i < 2 * env->size * MESSAGES; i++)
			make_call(env, &memory, i);
		if (end_group(&memory))
			wrong = world_report(env, "%s", rondo_last_error());
		for (int i = 0; i < env->size * MESSAGES && !wrong; i++)
			wrong = check_message(env,
				(char *)memory.out + place_of(env, i % env->size, i / env->size),
				i % env->size, env->rank, i / env->size + round, MESSAGE);
	}
	close_memory(&memory);
	return wrong;
}

Test(gpu_transfers, all_pairs_exchange_in_one_group_in_any_order, .timeout = 120)
{
	/* 2 * size and 5 have no common factor: every call is made. */
	try_transfers(4, exchange_all, 0);
}

/*
 * No transfer of a group waits for another. Rank 0's two receives end in the order that is not
 * theirs: rank 1 sends only when it has what rank 2 sends after rank 0 has taken what it sent
 * first.
 */
static int against_the_order(struct rank_env *env)
{
	rondo_comm *comm = env->comm;
	struct memory memory;
	int wrong = open_memory(env, &memory);
	float *in = memory.in, *out = memory.out;

	if (wrong)
		return wrong;
	fill_floats(in, env->rank, COUNT_MAX);
	rondo_group_start();
	if (env->rank == 0) {
		rondo_recv(comm, out, 1000, RONDO_F32, 1, memory.stream);
		rondo_recv(comm, out + 1000, 1000, RONDO_F32, 2, memory.stream);
	} else if (env->rank == 1) {
		TRY(rondo_recv(comm, out, 1000, RONDO_F32, 2, memory.stream));
		TRY(end_group(&memory));
		rondo_group_start();
		rondo_send(comm, in, 1000, RONDO_F32, 0, memory.stream);
	} else {
		TRY(rondo_send(comm, in, 1000, RONDO_F32, 0, memory.stream));
		TRY(end_group(&memory));
		rondo_group_start();
		rondo_send(comm, in, 1000, RONDO_F32, 1, memory.stream);
	}
	TRY(end_group(&memory));
	for (size_t i = 0; i < 2000 && !wrong && env->rank == 0; i++)
		if (out[i] != (i < 1000 ? value(1, i) : value(2, i - 1000)))
			wrong = world_report(env, "element %zu is %g", i, out[i]);
	close_memory(&memory);
	return wrong;
}

Test(gpu_transfers, receives_of_a_group_end_in_the_order_in_which_they_can, .timeout = 120)
{
	try_transfers(3, against_the_order, 5000);
}

/* ---- Pairs --------------------------------------------------------------------------------- */

/* The first two exchange again and again, while the others make no call at all; then all meet. */
WITH_MEMORY(two_alone)
{
	int wrong = 0;

	for (int i = 0; i < 50 && !wrong && env->rank < 2; i++) {
		float *at = memory->out + i * 10;

		fill_floats(memory->in, env->rank + i, 10);
		rondo_group_start();
		rondo_send(env->comm, memory->in, 10, RONDO_F32, 1 - env->rank, memory->stream);
		rondo_recv(env->comm, at, 10, RONDO_F32, 1 - env->rank, memory->stream);
		if (end_group(memory))
			wrong = world_report(env, "%s", rondo_last_error());
		for (size_t k = 0; k < 10 && !wrong; k++)
			if (at[k] != value(1 - env->rank + i, k))
				wrong = world_report(env, "%d: element %zu is %g", i, k, at[k]);
	}
	for (int i = 0; i < 3 && !wrong; i++)
		wrong = try_call(env, memory, RD_ALL_REDUCE, RONDO_SUM, 1000, false, true);
	return wrong;
}

Test(gpu_transfers, two_ranks_exchange_while_others_do_nothing, .timeout = 120)
{
	try_transfers(4, two_alone, 0);
}

/* ---- With collectives ---------------------------------------------------------------------- */

/* On one stream: each call works on what the one before it left. */
static int in_turn_with_collectives(struct rank_env *env)
{
	enum { ROUNDS = 10, COUNT = 777 };
	struct memory memory;
	int wrong = open_memory(env, &memory), size = env->size;
	float total = 0;

	if (wrong)
		return wrong;
	for (int i = 0; i < COUNT; i++)
		memory.in[i] = (float)env->rank;
	for (int round = 0; round < ROUNDS; round++) {
		rondo_group_start();
		rondo_send(env->comm, memory.in, COUNT, RONDO_F32, next_rank(env), memory.stream);
		rondo_recv(
			env->comm, memory.out, COUNT, RONDO_F32, previous_rank(env), memory.stream);
		TRY(rondo_group_end());
		TRY(rondo_all_reduce(env->comm, memory.out, memory.out, COUNT, RONDO_F32, RONDO_MAX,
			memory.stream));
		TRY(rondo_copy(memory.in, memory.out, COUNT * sizeof(float), memory.stream));
		TRY(rondo_all_gather(
			env->comm, memory.in, memory.out, COUNT / 7, RONDO_F32, memory.stream));
	}
	TRY(rondo_stream_synchronize(memory.stream));
	total = (float)(size - 1);
	wrong = expect_floats(env, memory.out, (size_t)(size * (COUNT / 7)), total);
	close_memory(&memory);
	return wrong;
}

Test(gpu_transfers, transfers_and_collectives_take_turns_on_a_stream, .timeout = 120)
{
	try_transfers(3, in_turn_with_collectives, 0);
}

/* In one group, and on two streams by turns, many under way. */
static int beside_collectives(struct rank_env *env)
{
	enum { CALLS = 40, COUNT = 33 };
	struct memory memory;
	rondo_stream *other;
	int wrong = open_memory(env, &memory), rank = env->rank;
	float *sums;

	if (wrong)
		return wrong;
	TRY(rondo_stream_create_on(&other, rank % rondo_device_count()));
	sums = memory.out + CALLS * COUNT;
	for (int i = 0; i < CALLS * COUNT; i++)
		memory.in[i] = (float)(i + rank);
	for (int i = 0; i < CALLS; i++) {
		rondo_stream *stream = i % 3 ? memory.stream : other;
		size_t at = (size_t)i * COUNT;

		rondo_group_start();
		rondo_send(env->comm, memory.in + at, COUNT, RONDO_F32, next_rank(env), stream);
		rondo_recv(
			env->comm, memory.out + at, COUNT, RONDO_F32, previous_rank(env), stream);
		if (i % 2)
			rondo_all_reduce(env->comm, memory.in + at, sums + at, COUNT, RONDO_F32,
				RONDO_SUM, stream);
		TRY(rondo_group_end());
	}
	TRY(rondo_stream_synchronize(memory.stream));
	TRY(rondo_stream_synchronize(other));
	for (int i = 0; i < CALLS * COUNT && !wrong; i++)
		if (memory.out[i] != (float)(i + previous_rank(env)) ||
			(i / COUNT % 2 && sums[i] != (float)(3 * i + 3)))
			wrong = world_report(
				env, "element %d is %g, the sum %g", i, memory.out[i], sums[i]);
	rondo_stream_destroy(other);
	close_memory(&memory);
	return wrong;
}

Test(gpu_transfers, transfers_run_beside_collectives_and_on_several_streams, .timeout = 120)
{
	try_transfers(3, beside_collectives, 0);
}

/* ---- Several comms, and many transfers ----------------------------------------------------------
 */

/* Odd ranks have the comms the other way round. */
static int on_two_comms(struct rank_env *env)
{
	struct memory memory;
	rondo_comm *other;
	int wrong = open_memory(env, &memory), next = next_rank(env);

	if (!wrong)
		wrong = world_second_comm(env, &other);
	if (wrong)
		return wrong;
	for (int round = 0; round < 20; round++) {
		fill_floats(memory.in, env->rank + round, 1000);
		rondo_group_start();
		for (int i = 0; i < 2; i++) {
			int which = (i + env->rank) % 2;
			rondo_comm *comm = which ? other : env->comm;

			rondo_send(
				comm, memory.in + which * 500, 500, RONDO_F32, next, memory.stream);
			rondo_recv(comm, memory.out + which * 500, 500, RONDO_F32,
				previous_rank(env), memory.stream);
		}
		TRY(end_group(&memory));
		for (size_t i = 0; i < 1000 && !wrong; i++)
			if (memory.out[i] != value(previous_rank(env) + round, i))
				wrong = world_report(env, "element %zu is %g", i, memory.out[i]);
	}
	close_memory(&memory);
	if (!wrong)
		TRY(rondo_comm_destroy(other));
	return wrong;
}

Test(gpu_transfers, a_group_on_several_comms_is_right_in_any_order, .timeout = 120)
{
	try_transfers(2, on_two_comms, 0);
}

/* As many as a group holds, twice: more than a kernel is passed. */
WITH_MEMORY(as_many_as_there_may_be)
{
	enum { CALLS = RONDO_GROUP_MAX / 2 };
	int wrong = 0;

	fill_floats(memory->in, env->rank, CALLS);
	for (int round = 0; round < 2; round++) {
		rondo_group_start();
		for (int i = 0; i < CALLS; i++)
			rondo_recv(env->comm, memory->out + round * CALLS + i, 1, RONDO_F32,
				previous_rank(env), memory->stream);
		for (int i = 0; i < CALLS; i++)
			rondo_send(env->comm, memory->in + i, 1, RONDO_F32, next_rank(env),
				memory->stream);
		TRY(rondo_group_end());
	}
	TRY(rondo_stream_synchronize(memory->stream));
	for (size_t i = 0; i < 2 * CALLS && !wrong; i++)
		if (memory->out[i] != value(previous_rank(env), i % CALLS))
			wrong = world_report(env, "element %zu is %g", i, memory->out[i]);
	return wrong;
}

Test(gpu_transfers, a_group_holds_as_many_as_it_may, .timeout = 300)
{
	try_transfers(2, as_many_as_there_may_be, 0);
}

/* More allocations of one rank than its peer keeps mapped. */
static int send_from_many_allocations(struct rank_env *env)
{
	enum { MANY = RD_EXPORTS + 6, SIZE = 100 };
	int device = env->rank % rondo_device_count();
	char *in[MANY];
	struct memory memory;
	int wrong = open_memory(env, &memory);

	for (int i = 0; i < MANY && !wrong; i++)
		TRY(rondo_mem_alloc_on((void **)&in[i], SIZE, device));
	for (int round = 0; round < 2 && !wrong; round++) {
		char *out = (char *)memory.out;

		memset(out, 0, MANY * (SIZE + 1));
		rondo_group_start();
		for (int i = 0; i < MANY; i++) {
			fill_message(in[i], env->rank, next_rank(env), i + round, SIZE);
			rondo_send(env->comm, in[i], SIZE, RONDO_I8, next_rank(env), memory.stream);
			rondo_recv(env->comm, out + (size_t)i * (SIZE + 1), SIZE, RONDO_I8,
				previous_rank(env), memory.stream);
		}
		TRY(end_group(&memory));
		for (int i = 0; i < MANY && !wrong; i++)
			wrong = check_message(env, out + (size_t)i * (SIZE + 1), previous_rank(env),
				env->rank, i + round, SIZE);
	}
	for (int i = 0; i < MANY && !wrong; i++)
		rondo_mem_free(in[i]);
	close_memory(&memory);
	return wrong;
}

Test(gpu_transfers, a_group_sends_from_any_number_of_allocations, .timeout = 120)
{
	try_transfers(2, send_from_many_allocations, 5000);
}

/* ---- Which way ----------------------------------------------------------------------------- */

/* Whether what was sent to the peer has gone from device to device. */
static bool went_directly(const struct rank_env *env, int peer, uint32_t messages)
{
	const struct rd_gpu *gpu = env->comm->gpu;

	if (gpu->one_process && gpu->spins)
		return gpu->device_flags->sent[peer][0] == messages;
	return gpu->sent[peer] == messages;
}

static int see_the_way(struct rank_env *env)
{
	bool direct = goes_directly(env);
	struct memory memory;
	int wrong = open_memory(env, &memory);

	for (int i = 0; i < 2 && !wrong; i++)
		wrong = shift(env, &memory, 1000, RONDO_F32, 0, 0);
	if (!wrong && went_directly(env, next_rank(env), 2) != direct)
		wrong = world_report(env, "%s", direct ? "staged" : "not staged");
	close_memory(&memory);
	return wrong;
}

Test(gpu_transfers, nothing_is_staged_where_all_ranks_reach_each_other, .timeout = 120)
{
	try_transfers(3, see_the_way, 0);
}

/* Other ranks cannot map rank 1's memory. Its messages are staged, the others are not. */
static int out_of_reach(struct rank_env *env)
{
	struct memory memory;
	int wrong;

	if (env->rank == 1)
		give_handles(false);
	wrong = open_room(env, &memory, ROOM / sizeof(float));
	give_handles(true);
	if (!wrong)
		wrong = exchange_all(env);
	if (!wrong)
		wrong = shift_much(env);
	/* Staged transfers are offered, too: the receiver needs the offer. */
	if (!wrong && env->rank != 2 && !went_directly(env, 2, 3 * MESSAGES + 3 * (env->rank == 1)))
		wrong = world_report(env, "nothing was offered");
	close_memory(&memory);
	return wrong;
}

Test(gpu_transfers, what_peers_cannot_map_is_staged, .timeout = 60)
{
	static const struct variant mapped_variants[] = {
		{ "1", "auto", false, NULL, RD_KERNEL_STEPPED },
		{ "4", "auto", false, NULL, RD_KERNEL_FUSED },
	};

	for (int i = 0; i < 2; i++) {
		cr_expect_eq(
			try_body(&mapped_variants[i], 4, out_of_reach, 10000), 0, "variant %d", i);
	}
}
