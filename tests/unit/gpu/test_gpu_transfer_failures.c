/* ctest label: threads */
/* Sends and receives of device memory that do not match, or whose peer leaves. */
#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "gpu_transfers.h"

/* Both ranks by name, and what the sender has. */
static int expect_reason(struct rank_env *env)
{
	static const char *const words[] = { "rank 0", "rank 1", "1000 f32" };

	for (int i = 0; i < 3; i++)
		if (!strstr(rondo_last_error(), words[i]))
			return world_report(env, "no \"%s\": %s", words[i], rondo_last_error());
	return 0;
}

/* Polls until the comm has failed, as a program does between calls. Returns its error. */
static int wait_for_the_end(struct rank_env *env)
{
	int err = 0;

	for (int i = 0; i < 20000 && err == 0; i++) {
		usleep(1000);
		err = rondo_comm_error(env->comm);
	}
	return err;
}

struct pair {
	size_t sent, received;
	rondo_type sent_type, received_type;
};

/* Rank 0 sends rank 1 what that does not expect; rank 2 does nothing. */
static int send_otherwise(struct rank_env *env, const struct pair *pair)
{
	struct memory memory;
	int wrong = open_memory(env, &memory), err = 0;

	if (wrong)
		return wrong;
	err = rondo_barrier(env->comm, NULL);
	if (!err && env->rank == 0)
		err = rondo_send(
			env->comm, memory.in, pair->sent, pair->sent_type, 1, memory.stream);
	if (!err && env->rank == 1)
		err = rondo_recv(env->comm, memory.out, pair->received, pair->received_type, 0,
			memory.stream);
	if (!err)
		err = rondo_stream_synchronize(memory.stream);
	/* A staged message may leave rank 0 before its peer compares the two calls. */
	if (!err)
		err = wait_for_the_end(env);
	wrong = expect_error(env, err, RONDO_MISMATCH);
	if (!wrong)
		wrong = expect_reason(env);
	close_memory(&memory);
	return wrong;
}

static int fewer_elements(struct rank_env *env)
{
	return send_otherwise(env, &(struct pair){ 1000, 999, RONDO_F32, RONDO_F32 });
}

static int no_elements(struct rank_env *env)
{
	return send_otherwise(env, &(struct pair){ 1000, 0, RONDO_F32, RONDO_F32 });
}

static int another_type(struct rank_env *env)
{
	return send_otherwise(env, &(struct pair){ 1000, 1000, RONDO_F32, RONDO_I32 });
}

Test(gpu_transfer_failures, other_lengths_and_types_than_the_peers_are_a_mismatch, .timeout = 240)
{
	try_transfers(3, fewer_elements, 0);
	try_transfers(3, no_elements, 0);
	try_transfers(3, another_type, 0);
}

/* The first variant that stages; those before it go from device to device. */
#define FIRST_STAGED 5

/* Each names the two ranks. */
static int expect_silence(struct rank_env *env, int err)
{
	int wrong = expect_error(env, err, RONDO_TIMEOUT);

	if (!wrong &&
		(!strstr(rondo_last_error(), "rank 0") || !strstr(rondo_last_error(), "rank 1")))
		wrong = world_report(env, "says: %s", rondo_last_error());
	return wrong;
}

/* Both have device memory in one call, host memory in the next, and then rank 1 alone does. */
static int of_two_kinds(struct rank_env *env,
	int (*one)(struct rank_env *, float *in, float *out, bool host, rondo_stream *stream))
{
	static _Thread_local float host_in[1000], host_out[1000];
	struct memory memory;
	int wrong = open_memory(env, &memory), err;
	bool host = env->rank == 1;

	if (wrong)
		return wrong;
	err = one(env, memory.in, memory.out, false, memory.stream);
	if (!err)
		err = one(env, host_in, host_out, true, NULL);
	if (!err)
		err = rondo_stream_synchronize(memory.stream);
	wrong = expect_error(env, err, 0);
	if (!wrong && host)
		err = one(env, host_in, host_out, true, NULL);
	else if (!wrong)
		err = one(env, memory.in, memory.out, false, memory.stream);
	if (!wrong && !err)
		err = rondo_stream_synchronize(memory.stream);
	/* A message from host memory may leave before its peer waits for it. */
	if (!wrong && !err && goes_directly(env))
		err = wait_for_the_end(env);
	if (!wrong)
		wrong = goes_directly(env) ? expect_silence(env, err) : expect_error(env, err, 0);
	close_memory(&memory);
	return wrong;
}

static int send_on(struct rank_env *env, float *in, float *out, bool host, rondo_stream *stream)
{
	(void)host;
	if (env->rank == 0)
		return rondo_send(env->comm, in, 1000, RONDO_F32, 1, stream);
	return rondo_recv(env->comm, out, 1000, RONDO_F32, 0, stream);
}

static int send_back(struct rank_env *env, float *in, float *out, bool host, rondo_stream *stream)
{
	(void)host;
	if (env->rank == 1)
		return rondo_send(env->comm, in, 1000, RONDO_F32, 0, stream);
	return rondo_recv(env->comm, out, 1000, RONDO_F32, 1, stream);
}

static int reduce_all(struct rank_env *env, float *in, float *out, bool host, rondo_stream *stream)
{
	(void)host;
	return rondo_all_reduce(env->comm, in, out, 1000, RONDO_F32, RONDO_SUM, stream);
}

static int into_host_memory(struct rank_env *env)
{
	return of_two_kinds(env, send_on);
}

static int from_host_memory(struct rank_env *env)
{
	return of_two_kinds(env, send_back);
}

static int with_host_memory(struct rank_env *env)
{
	return of_two_kinds(env, reduce_all);
}

/* Staged messages take the links of messages from host memory, and match them. */
Test(gpu_transfer_failures, memory_of_another_kind_than_the_peers_ends_by_the_timeout,
	.timeout = 240)
{
	static int (*const bodies[])(
		struct rank_env *) = { into_host_memory, from_host_memory, with_host_memory };

	for (int i = 0; i <= FIRST_STAGED; i++)
		for (int k = 0; k < 3 && (variants[i].threads || !ONLY_THREADS); k++) {
			cr_expect_eq(
				try_body(&variants[i], 2, bodies[k], i < FIRST_STAGED ? 1000 : 0),
				0, "way %d, body %d", i, k);
		}
}

/* Rank 1 goes, by a death or an abort, or stays silent, while rank 0 and 2 exchange with it. */
static int leave_in_the_lurch(struct rank_env *env, int wanted, void (*go)(struct rank_env *))
{
	struct memory memory;
	int wrong = open_memory(env, &memory), rank = env->rank, err = 0;

	if (wrong)
		return wrong;
	wrong = shift(env, &memory, 1000, RONDO_F32, 0, 0);
	if (!wrong)
		err = rondo_barrier(env->comm, NULL);
	if (!wrong && rank == 1)
		go(env);
	if (!wrong && !err && rank == 1)
		err = wait_for_the_end(env);
	/* Rank 0 waits for it to receive, rank 2 for it to send. A staged message may leave
	   without a receiver. */
	if (!wrong && !err && rank == 0 && goes_directly(env))
		err = rondo_send(env->comm, memory.in, 1000, RONDO_F32, 1, memory.stream);
	else if (!wrong && !err && rank != 1)
		err = rondo_recv(env->comm, memory.out, 1000, RONDO_F32, 1, memory.stream);
	if (!wrong && !err)
		err = rondo_stream_synchronize(memory.stream);
	if (!wrong)
		wrong = expect_error(env, err, wanted);
	/* A later call is refused, or ends at once. */
	if (!wrong) {
		err = rondo_send(
			env->comm, memory.in, 10, RONDO_F32, next_rank(env), memory.stream);
		if (!err)
			err = rondo_stream_synchronize(memory.stream);
		wrong = expect_error(env, err, wanted);
	}
	close_memory(&memory);
	return wrong;
}

static void die(struct rank_env *env)
{
	(void)env;
	raise(SIGKILL);
}

static int when_one_dies(struct rank_env *env)
{
	return leave_in_the_lurch(env, RONDO_DIED, die);
}

Test(gpu_transfer_failures, the_death_of_a_peer_frees_who_sends_and_who_receives, .timeout = 120)
{
	try_variants(3, when_one_dies, 0, false);
}

static void give_up(struct rank_env *env)
{
	rondo_comm_revoke(env->comm, "enough");
}

static int when_one_aborts(struct rank_env *env)
{
	return leave_in_the_lurch(env, RONDO_REVOKED, give_up);
}

Test(gpu_transfer_failures, an_abort_frees_who_sends_and_who_receives, .timeout = 120)
{
	try_transfers(3, when_one_aborts, 0);
}

static void say_nothing(struct rank_env *env)
{
	(void)env;
}

static int when_one_is_silent(struct rank_env *env)
{
	int wrong = leave_in_the_lurch(env, RONDO_TIMEOUT, say_nothing);

	if (!wrong && !strstr(rondo_last_error(), "rank 1"))
		wrong = world_report(env, "who? %s", rondo_last_error());
	return wrong;
}

Test(gpu_transfer_failures, silence_has_a_bound_and_a_name, .timeout = 120)
{
	try_transfers(3, when_one_is_silent, 1000);
}

/* ---- Long groups --------------------------------------------------------------------------- */

#define LONG_MS 2000 /* the bound, which no single transfer reaches */
#define STEPS 8

/* Rank 0 sends a group. Rank 1 takes a transfer of it at a time, and lets time pass in between. */
WITH_MEMORY(move_slowly)
{
	int wrong = 0;

	fill_floats(memory->in, env->rank, STEPS);
	if (env->rank == 0)
		rondo_group_start();
	for (int i = 0; i < STEPS; i++) {
		if (env->rank == 0) {
			TRY(rondo_send(env->comm, memory->in + i, 1, RONDO_F32, 1, memory->stream));
			continue;
		}
		usleep(1000 * LONG_MS / 4);
		TRY(rondo_recv(env->comm, memory->out + i, 1, RONDO_F32, 0, memory->stream));
	}
	if (env->rank == 0)
		TRY(rondo_group_end());
	TRY(rondo_stream_synchronize(memory->stream));
	for (size_t i = 0; i < STEPS && env->rank == 1 && !wrong; i++)
		if (memory->out[i] != value(0, i))
			wrong = world_report(env, "element %zu is %g", i, memory->out[i]);
	/* Neither has failed meanwhile. */
	if (!wrong)
		TRY(rondo_barrier(env->comm, NULL));
	return wrong;
}

Test(gpu_transfer_failures, a_group_that_goes_on_may_last_longer_than_the_bound, .timeout = 60)
{
	static const struct variant ways[] = {
		{ "1", "auto", false, NULL, RD_KERNEL_STEPPED },
		{ "4", "auto", false, NULL, RD_KERNEL_FUSED },
	};

	for (int i = 0; i < 2; i++) {
		cr_expect_eq(try_body(&ways[i], 2, move_slowly, LONG_MS), 0, "variant %d", i);
	}
}
