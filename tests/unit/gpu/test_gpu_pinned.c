/* ctest label: threads */
/* Calls on device streams whose buffers are pinned host memory, on some ranks or on all: every way
   of running them gives the right numbers. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "api/stream.h"
#include "base/futex.h"
#include "gpus.h"
#include "variants.h"

TestSuite(gpu_pinned, .init = gpu_die_with_parent);

#define RANKS 4
#define BYTES ((size_t)RANKS * (COUNT_MAX + 1) * sizeof(float))

/* Rank 0 has its input in host memory, rank 1 its output, rank 2 both, rank 3 none. */
static bool in_is_pinned(int rank)
{
	return rank == 0 || rank == 2;
}

static bool out_is_pinned(int rank)
{
	return rank == 1 || rank == 2;
}

static int pin(float **at)
{
	int err;

	rondo_mem_free(*at);
	err = rondo_mem_alloc((void **)at, BYTES);
	return err ? err : rd_device(true)->share(0, *at, BYTES);
}

static int open_pinned(struct rank_env *env, struct memory *memory)
{
	int wrong = open_memory(env, memory);

	if (wrong)
		return wrong;
	if (in_is_pinned(env->rank))
		TRY(pin(&memory->in));
	if (out_is_pinned(env->rank))
		TRY(pin(&memory->out));
	/* To pin memory may take until the devices are idle. */
	TRY(rondo_barrier(env->comm, NULL));
	return 0;
}

static void close_pinned(struct rank_env *env, struct memory *memory)
{
	rondo_stream_synchronize(memory->stream);
	if (in_is_pinned(env->rank))
		rd_device(true)->unshare(0, memory->in);
	if (out_is_pinned(env->rank))
		rd_device(true)->unshare(0, memory->out);
	close_memory(memory);
}

/* To the next rank, from the one before; and within this rank. */
static int try_transfers(struct rank_env *env, struct memory *memory)
{
	int rank = env->rank, size = env->size, before = (rank + size - 1) % size;
	size_t half = COUNT_MAX / 2;

	fill_floats(memory->in, rank, COUNT_MAX);
	rondo_group_start();
	rondo_send(env->comm, memory->in, half, RONDO_F32, (rank + 1) % size, memory->stream);
	rondo_recv(env->comm, memory->out, half, RONDO_F32, before, memory->stream);
	rondo_send(env->comm, memory->in + half, half, RONDO_F32, rank, memory->stream);
	rondo_recv(env->comm, memory->out + half, half, RONDO_F32, rank, memory->stream);
	TRY(rondo_group_end());
	TRY(rondo_stream_synchronize(memory->stream));
	for (size_t i = 0; i < 2 * half; i++)
		if (memory->out[i] != value(i < half ? before : rank, i))
			return world_report(env, "received element %zu is %g", i, memory->out[i]);
	return 0;
}

static int try_all(struct rank_env *env)
{
	static const size_t counts[] = { 5, COUNT_MAX };
	struct memory memory;
	int wrong = open_pinned(env, &memory);

	for (int collective = 0; collective < RD_COLLECTIVE_COUNT && !wrong; collective++)
		for (int i = 0; i < 4 && !wrong && collective != RD_TRANSFER; i++)
			wrong = try_call(
				env, &memory, collective, RONDO_SUM, counts[i / 2], i % 2, true);
	if (!wrong)
		wrong = try_transfers(env, &memory);
	if (!wrong)
		TRY(rondo_barrier(env->comm, NULL));
	close_pinned(env, &memory);
	return wrong;
}

Test(gpu_pinned, every_call_takes_pinned_host_memory, .timeout = 240)
{
	try_variants(RANKS, try_all, 0, true);
}

/* The stream waits for this process. */
static int call_ahead(struct rank_env *env, struct memory *memory, uint32_t *go)
{
	const struct rd_device_stream *stream = rd_stream_device_stream(memory->stream);
	int err;

	fill_floats(memory->in, env->rank, COUNT_MAX);
	TRY(rd_stream_wait(stream->ops, stream->device, stream->stream, go, 1));
	err = rondo_all_reduce(env->comm, memory->in, memory->out, COUNT_MAX, RONDO_F32, RONDO_SUM,
		memory->stream);
	rd_flag_write(go, 1);
	if (err)
		return world_report(env, "the call: %s", rondo_last_error());
	TRY(rondo_stream_synchronize(memory->stream));
	for (size_t i = 0; i < COUNT_MAX; i++)
		if (memory->out[i] != value(env->rank, i))
			return world_report(env, "element %zu is %g", i, memory->out[i]);
	return 0;
}

static int call_alone(struct rank_env *env)
{
	struct memory memory;
	float *go = NULL;
	int wrong = open_memory(env, &memory);

	if (wrong)
		return wrong;
	TRY(pin(&memory.in));
	TRY(pin(&memory.out));
	TRY(pin(&go));
	wrong = call_ahead(env, &memory, (uint32_t *)go);
	rondo_stream_synchronize(memory.stream);
	rd_device(true)->unshare(0, memory.in);
	rd_device(true)->unshare(0, memory.out);
	close_memory(&memory);
	rd_device(true)->unshare(0, go);
	rondo_mem_free(go);
	return wrong;
}

/* The driver's copy within host memory waits for the stream. */
Test(gpu_pinned, a_rank_alone_queues_its_call_on_a_stream_that_waits, .timeout = 60)
{
	static const struct variant alone = { "2", "auto", true, NULL, 0 };
	cr_expect_eq(try_body(&alone, 1, call_alone, 0), 0);
}

static int try_wrong_memory(struct rank_env *env)
{
	static const char words[] = "is no device memory (or was freed), and no pinned host memory";
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *pageable = calloc(1, BYTES);
	char *half = mmap(NULL, 2 * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct memory memory;
	int wrong;

	/* Its first page alone is pinned. */
	TRY(rd_device(true)->share(0, half, page));
	wrong = open_pinned(env, &memory);
	if (wrong)
		return wrong;
	EXPECT_ERROR(rondo_all_reduce(env->comm, pageable, memory.out, 8, RONDO_F32, RONDO_SUM,
			     memory.stream),
		RONDO_INVALID, words);
	EXPECT_ERROR(
		rondo_broadcast(env->comm, memory.in, pageable, 8, RONDO_F32, 0, memory.stream),
		RONDO_INVALID, words);
	EXPECT_ERROR(rondo_send(env->comm, half, page + 1, RONDO_U8, 1, memory.stream),
		RONDO_INVALID, words);
	wrong = try_call(env, &memory, RD_ALL_REDUCE, RONDO_SUM, 1000, false, true);
	free(pageable);
	close_pinned(env, &memory);
	rd_device(true)->unshare(0, half);
	munmap(half, 2 * page);
	return wrong;
}

Test(gpu_pinned, other_host_memory_is_refused_and_ends_no_comm, .timeout = 60)
{
	cr_expect_eq(try_body(&variants[1], RANKS, try_wrong_memory, 0), 0);
}
