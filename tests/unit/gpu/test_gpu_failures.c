/* ctest label: threads */
/* Calls on device memory that fail: every rank receives the error, in every variant. */
#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "text.h"
#include "api/stream.h"
#include "gpu/peers.h"
#include "gpu/watch.h"
#include "gpus.h"
#include "variants.h"
#include "base/futex.h"

/* Elements: a call of few bytes would end well on rank 1, which has what the others sent. */
#define WITH_BARRIERS 10000

/* Rank 1 makes one call and then does something else. That error may reach other ranks while they
   are still in the first call. */
static int call_until_it_fails(struct rank_env *env, struct memory *memory)
{
	int err = one_call(env, memory, 1000);

	if (err == 0 && env->rank != 1)
		err = one_call(env, memory, 1000);
	return err;
}

WITH_MEMORY(when_a_peer_dies)
{
	int wrong = 0;

	int err = call_until_it_fails(env, memory);

	if (env->rank == 1)
		raise(SIGKILL);
	wrong = expect_error(env, err, RONDO_DIED);
	/* Later calls are refused, or end at once. */
	if (!wrong)
		wrong = expect_error(env, one_call(env, memory, 1000), RONDO_DIED);
	return wrong;
}

Test(gpu_failures, the_death_of_a_peer_frees_the_streams_that_wait_for_it, .timeout = 120)
{
	try_variants(3, when_a_peer_dies, NEVER_MS, false);
}

WITH_MEMORY(when_one_aborts)
{
	int wrong = 0;

	int err = call_until_it_fails(env, memory);

	if (env->rank == 1)
		rondo_comm_revoke(env->comm, "enough");
	wrong = expect_error(env, err, env->rank == 1 ? 0 : RONDO_REVOKED);
	return wrong;
}

Test(gpu_failures, an_abort_frees_the_streams_that_wait, .timeout = 120)
{
	try_variants(3, when_one_aborts, NEVER_MS, true);
}

/* A rank's stream goes on at once after a failure, but for its wait for peers to leave the call:
   one that had entered it may be at work in this rank's buffers. */
static int when_a_peer_may_be_at_work(struct rank_env *env)
{
	const struct rd_gpu *gpu = env->comm->gpu;
	int peer = 1 - env->rank, wrong, left, err;
	struct memory memory;
	int64_t began_ns;

	wrong = open_room(env, &memory, WITH_BARRIERS);
	if (wrong)
		return wrong;
	err = one_call(env, &memory, WITH_BARRIERS);
	if (env->rank == 1) {
		/* The error may reach it while it still waits for its first call. */
		while (err == 0) {
			usleep(1000);
			err = rondo_comm_error(env->comm);
		}
		wrong = expect_error(env, err, RONDO_REVOKED);
		close_memory(&memory);
		return wrong;
	}
	TRY(err);
	TRY(rondo_all_reduce(env->comm, memory.in, memory.out, WITH_BARRIERS, RONDO_F32, RONDO_SUM,
		memory.stream));
	began_ns = rd_clock_ns();
	rondo_comm_revoke(env->comm, "enough");
	/* The last of the waits that end at once. */
	while (!rd_flag_reached(&gpu->own_flags->mapped, gpu->announced))
		usleep(100);
	left = rd_flag_reached(&gpu->host_flags->left[peer], gpu->announced);
	if (left && rd_clock_ns() - began_ns < RD_WATCH_LEAVE_MS * INT64_C(1000000))
		wrong = world_report(env, "rank 0 does not wait for rank 1 to leave");
	if (!wrong)
		wrong = expect_error(env, rondo_stream_synchronize(memory.stream), RONDO_REVOKED);
	close_memory(&memory);
	return wrong;
}

Test(gpu_failures, streams_still_wait_for_peers_that_may_be_at_work, .timeout = 120)
{
	static const struct variant stepped = { "1", "stepped", false, NULL, RD_KERNEL_STEPPED };
	cr_expect_eq(try_body(&stepped, 2, when_a_peer_may_be_at_work, NEVER_MS), 0);
}

/* Rank 1 makes no second call. It waits for the comm to end, and ends it where nobody else does. */
WITH_MEMORY(when_one_is_silent)
{
	int wrong = 0, err;

	err = call_until_it_fails(env, memory);
	for (int i = 0; i < 8000 && err == 0 && env->rank == 1; i++) {
		usleep(1000);
		err = rondo_comm_error(env->comm);
	}
	if (err == 0)
		rondo_comm_revoke(env->comm, "nobody's silence was noticed");
	wrong = expect_error(env, err, RONDO_TIMEOUT);
	return wrong;
}

Test(gpu_failures, silence_has_a_bound, .timeout = 120)
{
	try_variants(3, when_one_is_silent, 1000, true);
}

static int shorten_by_one(struct rank_env *env, struct memory *memory)
{
	return one_call(env, memory, env->rank == 1 ? 999 : 1000);
}

/* Rank 1 stays away until a line of the log names it, for longer than it may be silent. */
WITH_MEMORY(when_one_comes_late)
{
	off_t from = lseek(STDERR_FILENO, 0, SEEK_END);
	char text[4096] = "";
	int wrong = 0, err = 0;

	err = one_call(env, memory, 1000);
	for (int i = 0; env->rank == 1 && !strstr(text, "rank 1 of 3 has not joined "); i++) {
		if (i == 2000 || pread(STDERR_FILENO, text, sizeof(text) - 1, from) < 0)
			return world_report(env, "no line, but: %s", text);
		poll(NULL, 0, 10);
	}
	if (!err)
		err = one_call(env, memory, 1000);
	wrong = expect_error(env, err, 0);
	return wrong;
}

Test(gpu_failures, a_rank_that_lives_may_come_late_to_a_call_on_devices, .timeout = 120)
{
	const char *text;

	static const struct variant late_variants[] = {
		{ "4", "auto", true, NULL, RD_KERNEL_FUSED },
		{ "4", "stepped", false, NULL, RD_KERNEL_STEPPED },
		{ "4", "messages", false, "tcp", RD_KERNEL_MESSAGES },
		{ "2", "auto", false, "tcp", RD_KERNEL_STAGED },
	};

	setenv("RONDO_HEARTBEAT_TIMEOUT_MS", "1500", 1);
	for (size_t i = 0; i < sizeof(late_variants) / sizeof(*late_variants); i++) {
		struct trial trial = { &late_variants[i], 3, when_one_comes_late, 0 };
		int failed;

		captured_stderr_begin();
		failed = in_child(run_trial, &trial);
		text = captured_stderr_end();
		cr_expect_eq(failed, 0, "%s %s: %s", late_variants[i].gpus, late_variants[i].kernel,
			text);
	}
}

/* The timeout. A rank is lost after as long a silence, which a busy machine must not cause. */
#define SILENT_MS 4000

/* Later work on the stream waits for the flag. */
static int wait_on(rondo_stream *stream, uint32_t *flag)
{
	const struct rd_device_stream *queue = rd_stream_device_stream(stream);

	return rd_stream_wait(queue->ops, queue->device, queue->stream, flag, 1);
}

/* Shared by the ranks: how many have the error. */
static _Atomic int *failed_ranks;

/*
 * All ranks' progress threads have met in the call, but rank 1's device does not get to it until
 * the others have the error: they would end the call well, if they saw it go on before.
 */
static int when_a_device_is_silent(struct rank_env *env)
{
	uint32_t *go;
	struct memory memory;
	int wrong = open_room(env, &memory, WITH_BARRIERS), err;
	bool stuck = env->rank == 1;

	if (!wrong)
		wrong = open_flag(env, &go);
	if (wrong)
		return wrong;
	err = (stuck && wait_on(memory.stream, go)) ||
	      rondo_all_reduce(env->comm, memory.in, memory.out, WITH_BARRIERS, RONDO_F32,
		      RONDO_SUM, memory.stream);
	for (int i = 0; stuck && i < 20000 && atomic_load(failed_ranks) < 2; i++)
		usleep(1000);
	rd_flag_write(go, 1);
	if (!err)
		err = rondo_stream_synchronize(memory.stream);
	atomic_fetch_add(failed_ranks, err != 0);
	wrong = expect_error(env, err, RONDO_TIMEOUT);
	if (!wrong && !strstr(rondo_last_error(), "for rank 1"))
		wrong = world_report(env, "says: %s", rondo_last_error());
	close_flag(go);
	close_memory(&memory);
	return wrong;
}

Test(gpu_failures, a_kernel_names_the_rank_that_it_waits_for, .timeout = 60)
{
	struct variant variant = { "3", "auto", false, NULL, RD_KERNEL_FUSED };
	struct trial trial = { &variant, 3, when_a_device_is_silent, SILENT_MS };

	failed_ranks = mmap(NULL, sizeof(*failed_ranks), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cr_assert(failed_ranks != MAP_FAILED);
	cr_expect_eq(in_child(run_trial, &trial), 0);
}

static int when_calls_differ(struct rank_env *env)
{
	return expect_mismatch(env, COUNT_MAX, shorten_by_one);
}

Test(gpu_failures, different_calls_are_a_mismatch_on_every_rank, .timeout = 120)
{
	try_variants(3, when_calls_differ, 0, true);
}

/* ---- Groups -------------------------------------------------------------------------------- */

/* A wrong end shows within this time, or hardly ever. */
#define MOMENT_MS 200

/* Polls until the comm has failed. Returns its error. */
static int end_of(rondo_comm *comm)
{
	int err = rondo_comm_error(comm);

	for (int i = 0; i < 20000 && err == 0; i++) {
		usleep(1000);
		err = rondo_comm_error(comm);
	}
	return err;
}

/* On all ranks. */
static int end_comm(struct rank_env *env, rondo_comm *comm)
{
	if (env->rank == 0)
		rondo_comm_revoke(comm, "enough");
	return expect_error(env, end_of(comm), RONDO_REVOKED);
}

/* Rank 1's stream does not get to the calls before `go`: does the caller's stream go on before
   that? */
static bool goes_on(const struct memory *memory, uint32_t *passed)
{
	const struct rd_device_stream *device_stream = rd_stream_device_stream(memory->stream);

	rd_stream_write(
		device_stream->ops, device_stream->device, device_stream->stream, passed, 1);
	for (int i = 0; i < MOMENT_MS && !rd_flag_reached(passed, 1); i++)
		usleep(1000);
	return rd_flag_reached(passed, 1);
}

/*
 * The second of a group's two calls is refused, as its comm has failed. The first is under way by
 * then, with its buffers in use: the stream waits for it all the same.
 */
static int when_a_later_call_is_refused(struct rank_env *env)
{
	uint32_t *go, *passed;
	struct memory memory;
	rondo_comm *first, *second, *swapped;
	int wrong = open_memory(env, &memory), size = env->size;

	if (!wrong)
		wrong = open_flag(env, &go);
	if (!wrong)
		wrong = open_flag(env, &passed);
	if (!wrong)
		wrong = world_second_comm(env, &second);
	if (wrong)
		return wrong;
	/* In the order in which a group's comms are gone through. */
	first = env->comm;
	if (second->local.comm_id < first->local.comm_id) {
		swapped = first;
		first = second;
		second = swapped;
	}
	wrong = end_comm(env, second);
	for (int i = 0; i < 1000; i++)
		memory.in[i] = 1;
	if (env->rank == 1)
		wait_on(memory.stream, go);
	rondo_group_start();
	rondo_all_reduce(first, memory.in, memory.out, 1000, RONDO_F32, RONDO_SUM, memory.stream);
	rondo_all_reduce(second, memory.in, memory.out, 1000, RONDO_F32, RONDO_SUM, memory.stream);
	if (!wrong)
		wrong = expect_error(env, rondo_group_end(), RONDO_REVOKED);
	if (!wrong && goes_on(&memory, passed))
		wrong = world_report(env, "the stream goes on while a call is under way");
	/* On the host: all have seen it. */
	if (!wrong)
		wrong = expect_error(env, rondo_barrier(first, NULL), 0);
	rd_flag_write(go, 1);
	/* Its error may be that of the second comm. */
	rondo_stream_synchronize(memory.stream);
	if (!wrong)
		wrong = expect_floats(env, memory.out, 1000, (float)size);
	close_flag(go);
	close_flag(passed);
	close_memory(&memory);
	rondo_comm_destroy(first == env->comm ? second : first);
	return wrong;
}

Test(gpu_failures, a_stream_waits_for_the_calls_of_a_group_before_the_one_that_is_refused,
	.timeout = 60)
{
	cr_expect_eq(try_body(&variants[2], 2, when_a_later_call_is_refused, 0), 0);
}

/* Batches of flags of this thread that streams may still take before the device fails; -1: any
   number. */
static _Thread_local int batches_left = -1;

static int post_or_fail(int device, void *stream, const struct rd_flag_op *ops, int count)
{
	if (batches_left == 0)
		return rd_fail(RONDO_SYSTEM, "the device is lost");
	if (batches_left > 0)
		batches_left--;
	return rd_device(true)->post_flags(device, stream, ops, count);
}

/* Rank 1's device fails after this many of a group's batches of flags. */
static int when_a_device_is_lost(struct rank_env *env, int batches)
{
	static struct rd_device_ops ops;
	struct memory memory;
	int wrong = open_memory(env, &memory), err;

	if (wrong)
		return wrong;
	/* The progress thread has nothing more to do then, and does not look at the table. */
	TRY(one_call(env, &memory, 1000));
	TRY(rondo_barrier(env->comm, NULL));
	ops = *env->comm->gpu->ops;
	ops.post_flags = post_or_fail;
	rondo_group_start();
	for (int i = 0; i < 2; i++)
		rondo_all_reduce(env->comm, memory.in, memory.out, 1000, RONDO_F32, RONDO_SUM,
			memory.stream);
	if (env->rank == 1) {
		batches_left = batches;
		env->comm->gpu->ops = &ops;
	}
	err = rondo_group_end();
	if (!err)
		err = rondo_stream_synchronize(memory.stream);
	/* On rank 0 both calls may have come to a good end by then. */
	if (!err)
		err = end_of(env->comm);
	wrong = expect_error(env, err, RONDO_SYSTEM);
	if (!wrong && !strstr(rondo_last_error(), "the device is lost"))
		wrong = world_report(env, "says: %s", rondo_last_error());
	/* All that is under way has ended by now: rank 1's stream waits for nothing that never
	   comes. */
	rondo_stream_synchronize(memory.stream);
	close_memory(&memory);
	return wrong;
}

static int lost_at_once(struct rank_env *env)
{
	return when_a_device_is_lost(env, 0);
}

static int lost_within(struct rank_env *env)
{
	return when_a_device_is_lost(env, 1);
}

static int lost_later(struct rank_env *env)
{
	return when_a_device_is_lost(env, 3);
}

Test(gpu_failures, a_device_that_is_lost_amid_a_group_ends_the_comm, .timeout = 60)
{
	struct trial trials[] = { { &variants[5], 2, lost_at_once, NEVER_MS },
		{ &variants[5], 2, lost_within, NEVER_MS },
		{ &variants[5], 2, lost_later, NEVER_MS } };

	for (int i = 0; i < 3; i++)
		cr_expect_eq(in_child(run_trial, &trials[i]), 0, "%d", i);
}

/* The call itself returns the error, though a stream would run it later; but where the call goes
   through host memory. */
WITH_MEMORY(when_checked_roots_differ)
{
	int wrong = 0, err;

	err = rondo_broadcast(
		env->comm, memory->in, memory->out, 100, RONDO_F32, env->rank == 1, memory->stream);
	if (!err && env->comm->gpu->kernel == RD_KERNEL_STAGED)
		err = rondo_stream_synchronize(memory->stream);
	wrong = world_expect(env, "call", err, RONDO_MISMATCH, "of 100 f32 root 1");
	return wrong;
}

static int when_checked_memories_differ(struct rank_env *env)
{
	float host[100] = { 0 };
	struct memory memory;
	int wrong = open_memory(env, &memory), err;
	float *at = env->rank == 1 ? host : memory.out;

	if (wrong)
		return wrong;
	err = rondo_all_reduce(env->comm, at, at, 100, RONDO_F32, RONDO_SUM, NULL);
	wrong = world_expect(
		env, "call", err, RONDO_MISMATCH, "of 100 f32 sum, rank 1 host memory");
	close_memory(&memory);
	return wrong;
}

/* Rank 1 gives no memory, of neither kind. */
WITH_MEMORY(when_a_checked_rank_is_idle)
{
	size_t counts[3] = { 4, 0, 4 }, displs[3] = { 0 }, none[3] = { 0 };
	const size_t *mine = env->rank == 1 ? none : counts;

	displs[2] = 4;
	TRY(rondo_all_to_all_v(
		env->comm, memory->in, mine, displs, memory->out, mine, displs, RONDO_F32, NULL));
	return 0;
}

Test(gpu_failures, an_idle_rank_of_a_checked_call_differs_from_none, .timeout = 120)
{
	setenv("RONDO_CHECK", "1", 1);
	try_variants(3, when_a_checked_rank_is_idle, NEVER_MS, true);
}

Test(gpu_failures, calls_that_differ_are_found_at_the_call_when_calls_are_checked, .timeout = 240)
{
	setenv("RONDO_CHECK", "1", 1);
	try_variants(3, when_checked_roots_differ, NEVER_MS, true);
	try_variants(3, when_checked_memories_differ, NEVER_MS, true);
}
