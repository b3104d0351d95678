/*
 * A program's own use of CUDA beside calls, on the tests' driver: memory that is not pinned, frees,
 * kernels that need much of the device, more calls than its queues hold. None of it may keep a call
 * from going on, whatever the driver holds meanwhile. A world that hangs fails at its limit.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cuda_calls.h"
#include "device/work.h"
#include "gpus.h"

TestSuite(gpu_hangs, .init = gpu_die_with_parent);

#define COUNT 40000 /* elements of a buffer */
/* Bounds: a rank that waits in vain, and its world. */
#define TIMEOUT_MS 30000
#define LIMIT_MS 120000

/* ---- A rank -------------------------------------------------------------------------------- */

struct rank {
	struct cuda_calls cuda;
	int device;
	float *in, *out; /* on the device */
	float *host;
	bool pinned; /* `host` is */
	void *stream;
	rondo_stream *wrapped;
};

#define CUDA(call) \
	do { \
		int err_ = (call); \
		if (err_) \
			return world_report(env, "%s: CUDA error %d", #call, err_); \
	} while (0)

static int open_rank(struct rank_env *env, struct rank *rank, bool pinned)
{
	const char *gpu = getenv("RONDO_GPU");

	memset(rank, 0, sizeof(*rank));
	if (env->create_error)
		return world_report(env, "create: %s", rondo_last_error());
	rank->device = gpu ? atoi(gpu) : env->rank % rondo_device_count();
	rank->host = calloc(COUNT, sizeof(float));
	if (!rank->host || !cuda_calls_find(&rank->cuda))
		return world_report(env, "no memory, or no driver");
	CUDA(cuda_calls_open(&rank->cuda, rank->device));
	/* 1: not after the null stream. */
	CUDA(rank->cuda.stream_create(&rank->stream, 1));
	TRY(rondo_mem_alloc_on((void **)&rank->in, COUNT * sizeof(float), rank->device));
	TRY(rondo_mem_alloc_on((void **)&rank->out, COUNT * sizeof(float), rank->device));
	TRY(rondo_stream_wrap(&rank->wrapped, rank->stream, rank->device));
	/* 1: by all devices. */
	if (pinned)
		CUDA(rank->cuda.pin(rank->host, COUNT * sizeof(float), 1));
	rank->pinned = pinned;
	return 0;
}

static void close_rank(struct rank *rank)
{
	rondo_stream_destroy(rank->wrapped);
	rank->cuda.stream_destroy(rank->stream);
	rondo_mem_free(rank->in);
	rondo_mem_free(rank->out);
	if (rank->pinned)
		rank->cuda.unpin(rank->host);
	free(rank->host);
}

/* Small, long, and in between, in turn. */
static size_t count_of(int call)
{
	static const size_t counts[] = { 2, COUNT, 1000, 5000 };

	return counts[call % 4];
}

static int sum_of_ranks(const struct rank_env *env)
{
	return env->size * (env->size + 1) / 2;
}

static int fill(struct rank_env *env, struct rank *rank, float with)
{
	for (int i = 0; i < COUNT; i++)
		rank->host[i] = with;
	CUDA(rank->cuda.copy(rank->in, rank->host, COUNT * sizeof(float), rank->stream));
	return 0;
}

static int expect(
	struct rank_env *env, struct rank *rank, const float *at, size_t count, float right)
{
	CUDA(rank->cuda.copy(rank->host, at, count * sizeof(float), rank->stream));
	TRY(rondo_stream_synchronize(rank->wrapped));
	for (size_t i = 0; i < count; i++)
		if (rank->host[i] != right)
			return world_report(env, "element %zu of %zu is %g, not %g", i, count,
				rank->host[i], right);
	return 0;
}

static int sum_up(struct rank_env *env, rondo_comm *comm, struct rank *rank, int call)
{
	TRY(rondo_all_reduce(
		comm, rank->in, rank->out, count_of(call), RONDO_F32, RONDO_SUM, rank->wrapped));
	return 0;
}

/* ---- Copies to memory that is not pinned --------------------------------------------------- */

static int copy_after_each_call(struct rank_env *env)
{
	struct rank rank;
	int wrong = open_rank(env, &rank, false);

	if (!wrong)
		wrong = fill(env, &rank, (float)(env->rank + 1));
	for (int call = 0; call < 40 && !wrong; call++) {
		wrong = sum_up(env, env->comm, &rank, call);
		if (!wrong)
			wrong = expect(
				env, &rank, rank.out, count_of(call), (float)sum_of_ranks(env));
	}
	close_rank(&rank);
	return wrong;
}

/* ---- Kernels that compute ------------------------------------------------------------------ */

#define STEPS 40

/* Elements that a step's kernel makes, and the call that sums them up. */
struct bucket {
	float *in, *out;
	void *ready, *summed; /* events */
};

/* As a training does: a step's gradients are summed up while the next step's are computed. */
static int step(
	struct rank_env *env, struct rank *rank, struct bucket *bucket, void *compute, int number)
{
	struct cuda_calls *cuda = &rank->cuda;

	CUDA(cuda->wait_event(compute, bucket->summed, 0));
	CUDA(cuda_add(cuda, compute, 16, bucket->in, COUNT, (float)(env->rank + 1)));
	CUDA(cuda->event_record(bucket->ready, compute));
	CUDA(cuda->wait_event(rank->stream, bucket->ready, 0));
	TRY(rondo_all_reduce(env->comm, bucket->in, bucket->out, count_of(number / 2), RONDO_F32,
		RONDO_SUM, rank->wrapped));
	CUDA(cuda->event_record(bucket->summed, rank->stream));
	/* It does not wait for the call. */
	CUDA(cuda_add(cuda, compute, 16, rank->in, COUNT, 1));
	return 0;
}

static int train(struct rank_env *env, struct rank *rank, void *compute)
{
	struct bucket buckets[2];

	for (int i = 0; i < 2; i++) {
		TRY(rondo_mem_alloc_on(
			(void **)&buckets[i].in, COUNT * sizeof(float), rank->device));
		TRY(rondo_mem_alloc_on(
			(void **)&buckets[i].out, COUNT * sizeof(float), rank->device));
		CUDA(rank->cuda.event_create(&buckets[i].ready, 2));
		CUDA(rank->cuda.event_create(&buckets[i].summed, 2));
	}
	for (int number = 0; number < STEPS; number++)
		if (step(env, rank, &buckets[number % 2], compute, number))
			return 1;
	for (int i = 0; i < 2; i++) {
		/* A bucket's own steps, added up on each rank. */
		if (expect(env, rank, buckets[i].out, 2, (float)(STEPS / 2 * sum_of_ranks(env))))
			return 1;
		rank->cuda.event_destroy(buckets[i].ready);
		rank->cuda.event_destroy(buckets[i].summed);
		rondo_mem_free(buckets[i].in);
		rondo_mem_free(buckets[i].out);
	}
	CUDA(rank->cuda.stream_synchronize(compute));
	return expect(env, rank, rank->in, COUNT, STEPS);
}

static int compute_beside(struct rank_env *env)
{
	struct rank rank;
	void *compute = NULL;
	int wrong = open_rank(env, &rank, true);

	if (wrong)
		return wrong;
	CUDA(rank.cuda.stream_create(&compute, 1));
	wrong = train(env, &rank, compute);
	rank.cuda.stream_destroy(compute);
	close_rank(&rank);
	return wrong;
}

/* ---- Two comms at once --------------------------------------------------------------------- */

struct half {
	struct rank_env env;
	char text[WORLD_TEXT];
	struct rank rank;
	int wrong;
};

static int call_many(struct rank_env *env, struct rank *rank)
{
	void *context;
	int wrong = 0;

	CUDA(rank->cuda.retain(&context, rank->device));
	CUDA(rank->cuda.set(context));
	for (int call = 0; call < 60 && !wrong; call++)
		wrong = sum_up(env, env->comm, rank, call);
	return wrong ? wrong : expect(env, rank, rank->out, 2, (float)sum_of_ranks(env));
}

static void *call_half(void *argument)
{
	struct half *half = argument;

	half->wrong = call_many(&half->env, &half->rank);
	return NULL;
}

/* Memory is made before the calls: to make it may take until the device is idle. */
static int open_halves(struct rank_env *env, struct half halves[2], rondo_comm *second)
{
	for (int i = 0; i < 2; i++) {
		halves[i].env = *env;
		halves[i].env.text = halves[i].text;
		if (open_rank(env, &halves[i].rank, true) ||
			fill(env, &halves[i].rank, (float)(env->rank + 1)))
			return 1;
	}
	halves[1].env.comm = second;
	TRY(rondo_barrier(env->comm, NULL));
	return 0;
}

static int call_on_two_comms(struct rank_env *env)
{
	struct half halves[2] = { 0 };
	pthread_t thread;
	rondo_comm *second;

	if (env->create_error)
		return world_report(env, "create: %s", rondo_last_error());
	TRY(rondo_comm_duplicate(env->comm, &second));
	if (open_halves(env, halves, second))
		return 1;
	if (pthread_create(&thread, NULL, call_half, &halves[1]))
		return world_report(env, "no thread");
	call_half(&halves[0]);
	pthread_join(thread, NULL);
	TRY(rondo_barrier(env->comm, NULL));
	rondo_comm_destroy(second);
	for (int i = 0; i < 2; i++)
		close_rank(&halves[i].rank);
	for (int i = 0; i < 2; i++)
		if (halves[i].wrong)
			return world_report(env, "comm %d: %s", i, halves[i].text);
	return 0;
}

/* ---- Many calls ---------------------------------------------------------------------------- */

static int queue_many(struct rank_env *env)
{
	struct rank rank;
	int wrong = open_rank(env, &rank, true);

	if (!wrong)
		wrong = fill(env, &rank, (float)(env->rank + 1));
	/* Every 50th is a long one. */
	for (int call = 0; call < 2000 && !wrong; call++)
		wrong = sum_up(env, env->comm, &rank, call % 50 == 1 ? 1 : 0);
	if (!wrong)
		wrong = expect(env, &rank, rank.out, COUNT, (float)sum_of_ranks(env));
	close_rank(&rank);
	return wrong;
}

/* ---- Frees --------------------------------------------------------------------------------- */

/* Each rank in turn frees memory of its own, when it has called and others may not have. */
static int free_between(struct rank_env *env)
{
	struct rank rank;
	void *other;
	int wrong = open_rank(env, &rank, true);

	if (!wrong)
		wrong = fill(env, &rank, (float)(env->rank + 1));
	for (int call = 0; call < 40 && !wrong; call++) {
		CUDA(rank.cuda.alloc(&other, 1000));
		wrong = sum_up(env, env->comm, &rank, call);
		if (call % env->size == env->rank)
			CUDA(rank.cuda.free(other));
	}
	if (!wrong)
		wrong = expect(env, &rank, rank.out, 2, (float)sum_of_ranks(env));
	close_rank(&rank);
	return wrong;
}

/* ---- New allocations ----------------------------------------------------------------------- */

#define ROUNDS 6
/* Posted by each rank whose copy holds the driver's lock; shared by all processes. */
static sem_t *locked;

/* Tells the late rank that the copy of this rank's other thread has locked the driver. */
struct witness {
	const struct rank *rank;
	atomic_bool copied;
};

static void *see_lock(void *argument)
{
	struct witness *witness = argument;
	const struct rank *rank = witness->rank;

	while (!atomic_load(&witness->copied) && !rank->cuda.locked(rank->device))
		sched_yield();
	sem_post(locked);
	return NULL;
}

static int sum_from(struct rank_env *env, struct rank *rank, const float *in)
{
	TRY(rondo_all_reduce(env->comm, in, rank->out, COUNT, RONDO_F32, RONDO_SUM, rank->wrapped));
	return 0;
}

/* When this is over, all peers have mapped the usual buffers. */
static int map_usual(struct rank_env *env, struct rank *rank)
{
	int wrong = sum_from(env, rank, rank->in);

	return wrong ? wrong : expect(env, rank, rank->out, COUNT, (float)sum_of_ranks(env));
}

static int make_buffer(struct rank_env *env, struct rank *rank, float **made)
{
	TRY(rondo_mem_alloc_on((void **)made, COUNT * sizeof(float), rank->device));
	CUDA(rank->cuda.copy(*made, rank->in, COUNT * sizeof(float), rank->stream));
	return 0;
}

/* Two calls with a new buffer, when all other ranks have made theirs, and copy. */
static int come_late(struct rank_env *env, struct rank *rank, float *made)
{
	for (int peer = 1; peer < env->size; peer++)
		if (!world_wait(locked))
			return world_report(env, "no copy has locked the driver");
	return sum_from(env, rank, made) || sum_from(env, rank, made);
}

static int copy_ahead(struct rank_env *env, struct rank *rank)
{
	struct witness witness = { .rank = rank };
	pthread_t thread;
	int wrong;

	if (sum_from(env, rank, rank->in) || sum_from(env, rank, rank->in))
		return 1;
	if (pthread_create(&thread, NULL, see_lock, &witness))
		return world_report(env, "no thread");
	wrong = expect(env, rank, rank->out, COUNT, (float)sum_of_ranks(env));
	atomic_store(&witness.copied, true);
	pthread_join(thread, NULL);
	return wrong;
}

static int expect_imports(struct rank_env *env, const struct rank *rank, unsigned right)
{
	return rank->cuda.imports() == right
		       ? 0
		       : world_report(env, "it has not mapped %u allocations of peers", right);
}

/* The third call finds the late rank's buffer known, and maps it. */
static int late_round(struct rank_env *env, struct rank *rank, int round, float **made)
{
	unsigned before = rank->cuda.imports();
	bool is_late = env->rank == round % env->size;
	int wrong = is_late ? make_buffer(env, rank, made) : 0;

	if (!wrong)
		wrong = is_late ? come_late(env, rank, *made) : copy_ahead(env, rank);
	if (!wrong)
		wrong = sum_from(env, rank, is_late ? *made : rank->in);
	if (!wrong)
		wrong = expect(env, rank, rank->out, COUNT, (float)sum_of_ranks(env));
	return wrong ? wrong : expect_imports(env, rank, before + !is_late);
}

/* The same new buffer in a collective, then in sends of rank 0. */
static int send_round(struct rank_env *env, struct rank *rank, int round, float **made)
{
	unsigned before = rank->cuda.imports();

	(void)round;
	if (env->rank == 0 && make_buffer(env, rank, made))
		return 1;
	if (sum_from(env, rank, env->rank == 0 ? *made : rank->in))
		return 1;
	for (int peer = 1; peer < env->size && env->rank == 0; peer++)
		TRY(rondo_send(env->comm, *made, COUNT, RONDO_F32, peer, rank->wrapped));
	if (env->rank > 0)
		TRY(rondo_recv(env->comm, rank->out, COUNT, RONDO_F32, 0, rank->wrapped));
	if (expect(env, rank, rank->out, COUNT, env->rank > 0 ? 1 : (float)sum_of_ranks(env)))
		return 1;
	return expect_imports(env, rank, before + (env->rank > 0));
}

static int go_rounds(struct rank_env *env, bool pinned,
	int (*go)(struct rank_env *env, struct rank *rank, int round, float **made))
{
	float *made[ROUNDS] = { NULL };
	struct rank rank;
	int wrong = open_rank(env, &rank, pinned) || fill(env, &rank, (float)(env->rank + 1)) ||
		    map_usual(env, &rank);

	for (int i = 0; i < ROUNDS && !wrong; i++)
		wrong = go(env, &rank, i, &made[i]);
	for (int i = 0; i < ROUNDS; i++)
		rondo_mem_free(made[i]);
	close_rank(&rank);
	return wrong;
}

static int copy_before_peers_call(struct rank_env *env)
{
	return go_rounds(env, false, late_round);
}

static int send_what_peers_map(struct rank_env *env)
{
	return go_rounds(env, true, send_round);
}

/* ---- Worlds -------------------------------------------------------------------------------- */

enum { QUEUES_8, QUEUE_1, BLOCKING, VARIANTS };

static const char *const variants[][2] = {
	{ "CUDA_DEVICE_MAX_CONNECTIONS", "8" },
	{ "CUDA_DEVICE_MAX_CONNECTIONS", "1" },
	{ "CUDA_LAUNCH_BLOCKING", "1" },
};

/* CUDA itself, or the test, lets these wait for each other. */
static bool is_hopeless(const struct gpu_trial *trial, int variant)
{
	/* A rank's launch waits for the late rank, which waits for the copy after it. */
	if (variant == BLOCKING && trial->body == copy_before_peers_call)
		return true;
	/* Each process queues the calls of its two comms in an order of its own, and its only queue
	   keeps to it. */
	return variant != QUEUES_8 && !trial->world.threads && trial->body == call_on_two_comms;
}

/* One kind of world under each variant. */
static void try_world(const struct gpu_trial *trial)
{
	for (int i = 0; i < VARIANTS; i++) {
		if (is_hopeless(trial, i))
			continue;
		setenv(variants[i][0], variants[i][1], 1);
		cr_expect_eq(gpu_trial_run(trial), 0, "%d %s, %s, %s=%s", trial->world.size,
			trial->world.threads ? "threads" : "processes", trial->kernel,
			variants[i][0], variants[i][1]);
		unsetenv(variants[i][0]);
	}
}

static void begin(void)
{
	struct cuda_calls cuda;

	if (!cuda_calls_find(&cuda))
		cr_skip_test("the tests' driver is not here");
}

/* On one device. */
static void try_threads(const char *kernel, int (*body)(struct rank_env *env))
{
	struct gpu_trial trial = { kernel,
		{ .threads = true, .timeout_ms = TIMEOUT_MS, .limit_ms = LIMIT_MS }, body };

	begin();
	setenv("RONDO_GPU", "0", 1);
	for (trial.world.size = 2; trial.world.size <= 4; trial.world.size += 2)
		try_world(&trial);
}

/* More ranks than kernels have room for: their calls are staged. */
Test(gpu_hangs, pageable_copies_of_many_threads, .timeout = 600)
{
	struct gpu_trial trial = { "auto",
		{ .size = RD_WORK_RANKS + 1,
			.threads = true,
			.timeout_ms = TIMEOUT_MS,
			.limit_ms = LIMIT_MS },
		copy_after_each_call };

	begin();
	setenv("RONDO_GPU", "0", 1);
	try_world(&trial);
}

/* On a device each; and in turns on one, where nothing may spin. */
static void try_processes(const char *kernel, int (*body)(struct rank_env *env))
{
	struct gpu_trial trial = { kernel,
		{ .size = 2, .timeout_ms = TIMEOUT_MS, .limit_ms = LIMIT_MS }, body };

	begin();
	locked = mmap(
		NULL, sizeof(*locked), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cr_assert(locked != MAP_FAILED && sem_init(locked, 1, 0) == 0);
	try_world(&trial);
	if (!strcmp(kernel, "stepped") || !strcmp(kernel, "staged")) {
		trial.world.size = 4;
		try_world(&trial);
	}
	sem_destroy(locked);
	munmap(locked, sizeof(*locked));
}

#define SCENARIO(name, body) \
	Test(gpu_hangs, name##_threads_fused, .timeout = 600) \
	{ \
		try_threads("fused", body); \
	} \
	Test(gpu_hangs, name##_threads_stepped, .timeout = 600) \
	{ \
		try_threads("stepped", body); \
	} \
	Test(gpu_hangs, name##_threads_messages, .timeout = 600) \
	{ \
		try_threads("messages", body); \
	} \
	Test(gpu_hangs, name##_threads_staged, .timeout = 600) \
	{ \
		try_threads("staged", body); \
	} \
	Test(gpu_hangs, name##_processes_fused, .timeout = 600) \
	{ \
		try_processes("fused", body); \
	} \
	Test(gpu_hangs, name##_processes_stepped, .timeout = 600) \
	{ \
		try_processes("stepped", body); \
	} \
	Test(gpu_hangs, name##_processes_messages, .timeout = 600) \
	{ \
		try_processes("messages", body); \
	} \
	Test(gpu_hangs, name##_processes_staged, .timeout = 600) \
	{ \
		try_processes("staged", body); \
	}

SCENARIO(pageable_copies, copy_after_each_call)
SCENARIO(compute_kernels, compute_beside)
SCENARIO(two_comms, call_on_two_comms)
SCENARIO(many_calls, queue_many)
SCENARIO(frees, free_between)

/* Only processes map allocations, where they access them directly. */
#define SCENARIO_OF_MAPPING(name, body) \
	Test(gpu_hangs, name##_fused, .timeout = 600) \
	{ \
		try_processes("fused", body); \
	} \
	Test(gpu_hangs, name##_stepped, .timeout = 600) \
	{ \
		try_processes("stepped", body); \
	}

SCENARIO_OF_MAPPING(copies_before_peers_call, copy_before_peers_call)
SCENARIO_OF_MAPPING(sends_of_new_buffers, send_what_peers_map)
