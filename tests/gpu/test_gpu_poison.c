/* ctest label: threads */
/*
 * RONDO_POISON: where a call on device memory fails, this rank's output is bytes 0xFF, by every
 * way. On emulated GPUs, and on real ones where there are some.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "api/stream.h"
#include "base/futex.h"
#include "call_collective.h"
#include "device/device_stream.h"
#include "gpu/queue.h"
#include "gpus.h"
#include "variants.h"

/* An output before the call has these bytes. Right results are zeros. */
#define UNTOUCHED 0x11
#define POISON 0xff
/* Elements of a call, for each way that a number of bytes has. */
#define FEW 100
#define MANY 8000
#define GAP 3
#define RANKS_MAX 3
#define ROOM (RANKS_MAX * (MANY + GAP) * sizeof(float))
/* Transfers of a group: more than one kernel fills. */
#define TRANSFERS (RD_POISON_OUTPUTS + 6)
/* The rank that fails, and the root of what it sends. */
#define BAD 1

struct request {
	enum rd_collective collective;
	int root;
	bool of_lengths; /* by the call whose blocks differ in length */
};

/* On every other rank, each output needs something of BAD. */
static const struct request requests[] = {
	{ RD_ALL_REDUCE, 0, false },
	{ RD_REDUCE, 0, false },
	{ RD_BROADCAST, BAD, false },
	{ RD_REDUCE_SCATTER, 0, false },
	{ RD_ALL_GATHER, 0, false },
	{ RD_GATHER, 0, false },
	{ RD_SCATTER, BAD, false },
	{ RD_ALL_TO_ALL, 0, false },
	{ RD_TRANSFER, BAD, false },
	{ RD_ALL_GATHER, 0, true },
};

#define REQUESTS ((int)(sizeof(requests) / sizeof(*requests)))
/* Flags for which ranks wait, in memory that all of them map. */
struct page {
	uint32_t go; /* BAD's streams wait for it */
	uint32_t issued, checked, done; /* ranks, in all rounds */
};

static struct page *page;

struct rank {
	char *in, *out; /* on the device */
	char host[ROOM], wanted[ROOM];
	rondo_stream *stream;
	int device;
	uint32_t rounds;
};

static void share_page(void)
{
	page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(page, MAP_FAILED);
	setenv("RONDO_POISON", "1", 1);
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
}

TestSuite(gpu_poison, .init = share_page);

static int open_rank(struct rank_env *env, struct rank **rank)
{
	const struct variant *variant = env->argument;

	*rank = calloc(1, sizeof(**rank));
	if (env->create_error)
		return world_report(env, "create: %s", rondo_last_error());
	/* The variants' ways are those of three ranks. */
	if (env->size == 3 && env->comm->gpu->kernel != variant->becomes)
		return world_report(env, "runs by kernel %d", env->comm->gpu->kernel);
	(*rank)->device = env->rank % rondo_device_count();
	TRY(rondo_mem_alloc_on((void **)&(*rank)->in, ROOM, (*rank)->device));
	TRY(rondo_mem_alloc_on((void **)&(*rank)->out, ROOM, (*rank)->device));
	/* Before the calls: it may take until the devices are idle. */
	if (env->rank == BAD)
		TRY(rd_device(true)->share(0, page, 4096));
	TRY(rondo_barrier(env->comm, NULL));
	return 0;
}

static void close_rank(struct rank *rank)
{
	rondo_mem_free(rank->in);
	rondo_mem_free(rank->out);
	free(rank);
}

/* A stream of its own: a failure on it sticks. */
static int begin_round(struct rank_env *env, struct rank *rank)
{
	rank->rounds++;
	memset(rank->host, UNTOUCHED, ROOM);
	TRY(rondo_copy(rank->out, rank->host, ROOM, NULL));
	TRY(rondo_stream_create_on(&rank->stream, rank->device));
	return 0;
}

/* ---- Calls --------------------------------------------------------------------------------- */

/* Where block k of a call of different lengths begins. It has count - k elements. */
static size_t place(size_t count, int k)
{
	return (size_t)k * (count + GAP);
}

static int gather_lengths(struct rank_env *env, rondo_comm *comm, struct rank *rank, size_t count)
{
	size_t counts[RANKS_MAX], displs[RANKS_MAX];

	for (int k = 0; k < env->size; k++) {
		counts[k] = count - (size_t)k;
		displs[k] = place(count, k);
	}
	return rondo_all_gather_v(
		comm, rank->in, rank->out, counts, displs, RONDO_F32, rank->stream);
}

/* From BAD to all others. */
static int transfer(struct rank_env *env, rondo_comm *comm, struct rank *rank, size_t count)
{
	size_t each = count / TRANSFERS, stride = (each + 1) * sizeof(float);

	rondo_group_start();
	for (size_t i = 0; i < TRANSFERS; i++)
		for (int peer = 0; peer < env->size; peer++)
			if (peer != BAD && env->rank == BAD)
				rondo_send(comm, rank->in + i * stride, each, RONDO_F32, peer,
					rank->stream);
			else if (peer == BAD && env->rank != BAD)
				rondo_recv(comm, rank->out + i * stride, each, RONDO_F32, peer,
					rank->stream);
	return rondo_group_end();
}

static int call(struct rank_env *env, rondo_comm *comm, struct rank *rank,
	const struct request *request, size_t count)
{
	if (request->collective == RD_TRANSFER)
		return transfer(env, comm, rank, count);
	if (request->of_lengths)
		return gather_lengths(env, comm, rank, count);
	return call_collective(comm, request->collective, rank->in, rank->out, count, RONDO_F32,
		RONDO_SUM, request->root, rank->stream);
}

static void want_poison(struct rank *rank, size_t at, size_t count)
{
	memset(rank->wanted + at * sizeof(float), POISON, count * sizeof(float));
}

/* The output, and nothing beside it, is filled. */
static int check(
	struct rank_env *env, struct rank *rank, const struct request *request, size_t count)
{
	struct rd_problem problem = problem_of(env, request->collective, request->root);
	size_t each = count / TRANSFERS, at = 0;

	memset(rank->wanted, UNTOUCHED, ROOM);
	if (request->collective == RD_TRANSFER) {
		for (size_t i = 0; i < TRANSFERS && env->rank != BAD; i++)
			want_poison(rank, i * (each + 1), each);
	} else if (request->of_lengths) {
		for (int k = 0; k < env->size; k++)
			want_poison(rank, place(count, k), count - (size_t)k);
	} else {
		want_poison(rank, 0, (size_t)rd_out_blocks(&problem) * count);
	}
	TRY(rondo_copy(rank->host, rank->out, ROOM, NULL));
	while (at < ROOM && rank->host[at] == rank->wanted[at])
		at++;
	return at == ROOM ? 0
			  : world_report(env, "%s of %zu%s: byte %zu is %02x, not %02x",
				    rd_collective_name(request->collective), count,
				    request->of_lengths ? " and less" : "", at,
				    (unsigned char)rank->host[at], (unsigned char)rank->wanted[at]);
}

/* ---- A rank whose stream does not get to the call ------------------------------------------ */

#define AWAIT_MS 20000

/* Waits until all ranks have come, in this round too. */
static int meet(struct rank_env *env, const struct rank *rank, uint32_t *count)
{
	uint32_t all = rank->rounds * (uint32_t)env->size;

	__atomic_fetch_add(count, 1, __ATOMIC_ACQ_REL);
	for (int ms = 0; ms < AWAIT_MS && !rd_flag_reached(count, all); ms++)
		rd_flag_sleep(count, __atomic_load_n(count, __ATOMIC_ACQUIRE), 1000000);
	return rd_flag_reached(count, all) ? 0 : world_report(env, "the others do not come");
}

static int hold_stream(struct rank_env *env, const struct rank *rank)
{
	const struct rd_device_stream *held = rd_stream_device_stream(rank->stream);

	if (env->rank != BAD)
		return 0;
	TRY(rd_stream_wait(held->ops, held->device, held->stream, &page->go, rank->rounds));
	return 0;
}

/* Lets BAD's stream go, once what it may write into the others' outputs harms no check. */
static int release_stream(struct rank_env *env, struct rank *rank)
{
	int wrong = meet(env, rank, &page->checked);

	if (env->rank == BAD)
		rd_flag_write(&page->go, rank->rounds);
	rondo_stream_synchronize(rank->stream);
	if (!wrong)
		wrong = meet(env, rank, &page->done);
	rondo_stream_destroy(rank->stream);
	return wrong;
}

/* Whether the output of this rank needs something of another one. */
static bool needs_others(const struct rank_env *env, const struct request *request)
{
	struct rd_problem problem = problem_of(env, request->collective, request->root);

	if (request->root == BAD)
		return env->rank != BAD;
	return rd_out_blocks(&problem) > 0;
}

/* A rank that needs nothing of the others may be done before the failure. */
static int expect_end(struct rank_env *env, const struct request *request, int err, int wanted)
{
	return !err && !needs_others(env, request) ? 0 : expect_error(env, err, wanted);
}

/* All have issued the call, and BAD's part is missing: BAD ends it so. */
static int fail_call(struct rank_env *env, rondo_comm *comm, struct rank *rank,
	const struct request *request, size_t count, void (*end)(rondo_comm *comm), int wanted)
{
	int wrong = begin_round(env, rank);

	if (!wrong)
		wrong = hold_stream(env, rank);
	if (wrong)
		return wrong;
	TRY(call(env, comm, rank, request, count));
	wrong = meet(env, rank, &page->issued);
	if (!wrong && env->rank == BAD)
		end(comm);
	if (!wrong && env->rank != BAD)
		wrong = expect_end(env, request, rondo_stream_synchronize(rank->stream), wanted);
	if (!wrong && env->rank != BAD)
		wrong = check(env, rank, request, count);
	return wrong;
}

static void abort_comm(rondo_comm *comm)
{
	rondo_comm_revoke(comm, "enough");
}

static int abort_one(
	struct rank_env *env, struct rank *rank, const struct request *request, size_t count)
{
	rondo_comm *comm;
	int wrong;

	TRY(rondo_comm_duplicate(env->comm, &comm));
	wrong = fail_call(env, comm, rank, request, count, abort_comm, RONDO_REVOKED);
	if (!wrong)
		wrong = release_stream(env, rank);
	rondo_comm_destroy(comm);
	return wrong;
}

static int abort_each(struct rank_env *env)
{
	struct rank *rank;
	int wrong = open_rank(env, &rank);

	for (int i = 0; i < REQUESTS && !wrong; i++) {
		wrong = abort_one(env, rank, &requests[i], FEW);
		if (!wrong)
			wrong = abort_one(env, rank, &requests[i], MANY);
	}
	close_rank(rank);
	return wrong;
}

/* ---- Trials -------------------------------------------------------------------------------- */

/* Ways on real GPUs, or the tests' driver; ranks may share one. */
static const struct variant cuda_variants[] = {
	{ "cuda", "auto", true, NULL, RD_KERNEL_FUSED },
	{ "cuda", "stepped", false, NULL, RD_KERNEL_STEPPED },
	{ "cuda", "messages", true, NULL, RD_KERNEL_MESSAGES },
	{ "cuda", "staged", false, NULL, RD_KERNEL_STAGED },
};

#define CUDA_VARIANTS ((int)(sizeof(cuda_variants) / sizeof(*cuda_variants)))

static const struct request *present_request; /* of the bodies that make one call */
static size_t present_count;

static void try_way(
	const struct variant *variant, int size, int (*body)(struct rank_env *env), int timeout_ms)
{
	struct trial trial = { variant, size, body, timeout_ms };

	if (!variant->threads && ONLY_THREADS)
		return;
	memset(page, 0, sizeof(*page));
	cr_expect_eq(in_child(run_trial, &trial), 0, "%s %s %s %s, request %d, %zu",
		variant->device, variant->kernel, variant->threads ? "threads" : "processes",
		variant->transport ? variant->transport : "",
		present_request ? (int)(present_request - requests) : -1, present_count);
}

static void try_request(const struct variant *variant, int (*body)(struct rank_env *env),
	int timeout_ms, const struct request *request, size_t count)
{
	present_request = request;
	present_count = count;
	try_way(variant, 3, body, timeout_ms);
}

Test(gpu_poison, an_abort_fills_each_output_of_each_call, .timeout = 240)
{
	for (int i = 0; i < VARIANTS; i++)
		try_way(&variants[i], 3, abort_each, 0);
}

Test(gpu_poison, on_cuda_too, .timeout = 240)
{
	if (!has_gpus(1))
		cr_skip_test(NO_GPU);
	for (int i = 0; i < CUDA_VARIANTS; i++)
		try_way(&cuda_variants[i], 3, abort_each, 0);
}

/* ---- Other ends ---------------------------------------------------------------------------- */

static void die(rondo_comm *comm)
{
	(void)comm;
	raise(SIGKILL);
}

static void be_silent(rondo_comm *comm)
{
	(void)comm;
}

static int fail_present(struct rank_env *env, void (*end)(rondo_comm *comm), int wanted)
{
	struct rank *rank;
	int wrong = open_rank(env, &rank);

	if (!wrong)
		wrong = fail_call(
			env, env->comm, rank, present_request, present_count, end, wanted);
	if (!wrong && end == be_silent)
		wrong = release_stream(env, rank);
	else if (!wrong)
		rondo_stream_destroy(rank->stream);
	close_rank(rank);
	return wrong;
}

static int when_one_dies(struct rank_env *env)
{
	return fail_present(env, die, RONDO_DIED);
}

static int when_one_is_silent(struct rank_env *env)
{
	return fail_present(env, be_silent, RONDO_TIMEOUT);
}

#define ALL_REDUCE (&requests[0])
#define RECEIVE (&requests[8])

Test(gpu_poison, the_death_of_a_peer_fills_the_output, .timeout = 120)
{
	for (int i = 0; i < VARIANTS; i++) {
		if (variants[i].threads)
			continue;
		try_request(&variants[i], when_one_dies, NEVER_MS, ALL_REDUCE, FEW);
		try_request(&variants[i], when_one_dies, NEVER_MS, ALL_REDUCE, MANY);
		try_request(&variants[i], when_one_dies, NEVER_MS, RECEIVE, MANY);
	}
}

/* One variant of each way. */
Test(gpu_poison, silence_fills_the_output, .timeout = 120)
{
	static const int ways[] = { 1, 2, 5, 9 };

	for (int i = 0; i < 4; i++) {
		try_request(&variants[ways[i]], when_one_is_silent, 1000, ALL_REDUCE, MANY);
		try_request(&variants[ways[i]], when_one_is_silent, 1000, RECEIVE, MANY);
	}
}

/* BAD's blocks are shorter. Some calls return the error at once. */
static int differ_one(struct rank_env *env, struct rank *rank, const struct request *request)
{
	size_t count = MANY - (env->rank == BAD ? TRANSFERS : 0);
	rondo_comm *comm;
	int wrong, err;

	TRY(rondo_comm_duplicate(env->comm, &comm));
	wrong = begin_round(env, rank);
	if (wrong)
		return wrong;
	err = call(env, comm, rank, request, count);
	if (!err)
		err = rondo_stream_synchronize(rank->stream);
	wrong = expect_end(env, request, err, RONDO_MISMATCH);
	if (!wrong && needs_others(env, request))
		wrong = check(env, rank, request, count);
	if (!wrong)
		wrong = meet(env, rank, &page->checked);
	rondo_stream_destroy(rank->stream);
	rondo_comm_destroy(comm);
	return wrong;
}

static int differ_each(struct rank_env *env)
{
	struct rank *rank;
	int wrong = open_rank(env, &rank);

	for (int i = 0; i < REQUESTS && !wrong; i++)
		if (!requests[i].of_lengths)
			wrong = differ_one(env, rank, &requests[i]);
	close_rank(rank);
	return wrong;
}

Test(gpu_poison, a_mismatch_fills_the_output_of_both_ranks, .timeout = 240)
{
	for (int i = 0; i < VARIANTS; i++)
		try_way(&variants[i], 2, differ_each, 0);
	for (int i = 0; i < CUDA_VARIANTS && has_gpus(1); i++)
		try_way(&cuda_variants[i], 2, differ_each, 0);
}

/* ---- Graphs -------------------------------------------------------------------------------- */

static int replay(struct rank_env *env, struct rank *rank, void *graph)
{
	const struct rd_device_stream *stream = rd_stream_device_stream(rank->stream);

	TRY(stream->ops->graph_launch(stream->device, stream->stream, graph));
	return 0;
}

static int capture(struct rank_env *env, struct rank *rank, void **graph)
{
	const struct rd_device_stream *stream = rd_stream_device_stream(rank->stream);
	int err;

	TRY(stream->ops->graph_begin(stream->device, stream->stream));
	err = call(env, env->comm, rank, present_request, present_count);
	TRY(stream->ops->graph_end(stream->device, stream->stream, graph));
	return err ? world_report(env, "capture: %s", rondo_last_error()) : 0;
}

/* The first replay goes well, and BAD's part of the second is missing. */
static int replay_twice(struct rank_env *env)
{
	struct rank *rank;
	void *graph;
	int wrong = open_rank(env, &rank);

	if (!wrong)
		wrong = begin_round(env, rank);
	if (!wrong)
		wrong = capture(env, rank, &graph);
	if (wrong)
		return wrong;
	wrong = replay(env, rank, graph);
	TRY(rondo_stream_synchronize(rank->stream));
	TRY(rondo_copy(rank->host, rank->out, ROOM, NULL));
	for (size_t i = 0; i < present_count * sizeof(float); i++)
		if (rank->host[i] != 0)
			return world_report(env, "byte %zu is %d", i, rank->host[i]);
	memset(rank->host, UNTOUCHED, ROOM);
	TRY(rondo_copy(rank->out, rank->host, ROOM, NULL));
	if (!wrong && env->rank != BAD)
		wrong = replay(env, rank, graph);
	if (!wrong)
		wrong = meet(env, rank, &page->issued);
	if (env->rank == BAD)
		rondo_comm_revoke(env->comm, "enough");
	else if (!wrong)
		wrong = expect_error(env, rondo_stream_synchronize(rank->stream), RONDO_REVOKED);
	if (!wrong && env->rank != BAD)
		wrong = check(env, rank, present_request, present_count);
	if (!wrong)
		wrong = meet(env, rank, &page->done);
	rondo_stream_destroy(rank->stream);
	rd_device(true)->graph_destroy(rank->device, graph);
	close_rank(rank);
	return wrong;
}

Test(gpu_poison, a_captured_call_fills_its_output, .timeout = 120)
{
	static const struct variant graph_variants[] = {
		{ "emulated:4", "auto", true, NULL, RD_KERNEL_FUSED },
		{ "emulated:4", "auto", false, NULL, RD_KERNEL_FUSED },
		{ "emulated:4", "messages", true, NULL, RD_KERNEL_MESSAGES },
		{ "cuda", "messages", true, NULL, RD_KERNEL_MESSAGES },
	};

	for (int i = 0; i < 3 + has_gpus(1); i++) {
		try_request(&graph_variants[i], replay_twice, 0, ALL_REDUCE, FEW);
		try_request(&graph_variants[i], replay_twice, 0, ALL_REDUCE, MANY);
	}
}

/* ---- Untouched ----------------------------------------------------------------------------- */

/* Rank 0 broadcasts from where it has its output, too. */
static int broadcast_in_place(struct rank_env *env)
{
	static const struct request nothing = { RD_REDUCE, BAD, false };
	struct rank *rank;
	int wrong = open_rank(env, &rank);

	if (!wrong)
		wrong = begin_round(env, rank);
	if (!wrong)
		wrong = hold_stream(env, rank);
	if (wrong)
		return wrong;
	TRY(rondo_broadcast(env->comm, rank->out, rank->out, MANY, RONDO_F32, 0, rank->stream));
	wrong = meet(env, rank, &page->issued);
	if (env->rank == BAD)
		rondo_comm_revoke(env->comm, "enough");
	rondo_stream_synchronize(env->rank == BAD ? NULL : rank->stream);
	if (!wrong && env->rank == 0)
		wrong = check(env, rank, &nothing, MANY);
	if (!wrong)
		wrong = release_stream(env, rank);
	close_rank(rank);
	return wrong;
}

Test(gpu_poison, a_root_keeps_what_it_broadcasts_in_place, .timeout = 60)
{
	try_way(&variants[1], 3, broadcast_in_place, 0);
	try_way(&variants[2], 3, broadcast_in_place, 0);
}

Test(gpu_poison, calls_that_go_well_have_right_results, .timeout = 240)
{
	for (int i = 0; i < VARIANTS; i++)
		try_way(&variants[i], 3, all_collectives, 0);
}

/* Whether a call has something to queue behind it. */
static int make_poisons(struct rank_env *env)
{
	bool asked = getenv("RONDO_POISON");
	struct rd_task task = { .comm = env->comm };
	struct rd_poisons *made;

	task.call = (struct rd_call){
		.problem = problem_of(env, RD_ALL_REDUCE, 0), .type = RONDO_F32, .count = FEW
	};
	TRY(env->create_error);
	TRY(rd_poisons_make(env->comm->gpu, &task, 1, &made));
	if ((made != NULL) != asked)
		return world_report(env, "it has %s", made ? "something" : "nothing");
	free(made);
	return 0;
}

Test(gpu_poison, without_the_setting_there_is_nothing_to_queue, .timeout = 60)
{
	try_way(&variants[1], 2, make_poisons, 0);
	unsetenv("RONDO_POISON");
	try_way(&variants[1], 2, make_poisons, 0);
}
