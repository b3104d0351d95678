#include "gpu/queue.h"

#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/futex.h"
#include "gpu/exports.h"
#include "gpu/order.h"
#include "gpu/peers.h"
#include "gpu/watch.h"

int rd_batch_post(struct rd_flag_batch *batch)
{
	struct rd_gpu *gpu = batch->gpu;
	int count = batch->count;

	batch->count = 0;
	return count == 0 ? 0 : gpu->ops->post_flags(gpu->device, batch->stream, batch->ops, count);
}

int rd_queue_begin(
	struct rd_gpu *gpu, struct rd_device_stream *device_stream, enum rd_queued_kind kind)
{
	uint32_t number = gpu->number + 1;
	int err;

	rd_gpu_await(gpu, number - RD_RUN_AHEAD);
	rd_imports_map_noted(gpu);
	err = rd_order(gpu, device_stream);
	if (err)
		return err;
	gpu->queued[number % RD_RUN_AHEAD] =
		(struct rd_queued){ .kind = kind, .announced = gpu->announced + 1 };
	gpu->launched = false;
	/* The progress thread reads it. */
	__atomic_store_n(&gpu->number, number, __ATOMIC_RELEASE);
	return 0;
}

/* Whether all that is queued on the stream ends, within a bound: the progress thread ends its waits
   for this comm. */
static bool ends(const struct rd_gpu *gpu, void *stream)
{
	int64_t until = rd_clock_ns() + RD_WATCH_RELEASE_MS * INT64_C(1000000);
	const struct timespec moment = { 0, RD_WATCH_SLEEP_NS };
	bool done = false;

	while (!done && rd_clock_ns() < until) {
		if (gpu->ops->stream_query(gpu->device, stream, &done))
			return false;
		if (!done)
			nanosleep(&moment, NULL);
	}
	return done;
}

int rd_queue_fail(struct rd_gpu *gpu, struct rd_device_stream *device_stream, int err)
{
	if (!atomic_load(&gpu->comm->failed))
		err = rd_comm_fail(gpu->comm, err, gpu->comm->rank);
	/* The caller may free the buffers after the error. */
	rd_gpu_watch(gpu);
	rd_gpu_await_peers(gpu);
	if (!ends(gpu, device_stream->stream) || !ends(gpu, gpu->stream))
		gpu->broken = true;
	rd_flag_write(&gpu->stream_flags->finished, gpu->number);
	return rd_comm_failure(gpu->comm);
}

struct rd_buffer_addresses *rd_queue_resolved(const struct rd_gpu *gpu, const void *stream)
{
	return gpu->device_flags ? &gpu->device_flags->resolved[stream == gpu->stream] : NULL;
}

int rd_queue_copy(struct rd_gpu *gpu, void *stream, void *to, const void *from, size_t size)
{
	struct rd_work work = { .rank = gpu->comm->rank,
		.size = gpu->comm->size,
		.type = RONDO_U8,
		.abort_flag = &gpu->host_flags->abort_flag,
		.resolved = rd_queue_resolved(gpu, stream),
		.step_count = 1 };

	if (size == 0)
		return 0;
	work.in[work.rank] = from;
	work.out[work.rank] = to;
	work.steps[0] = (struct rd_work_step){
		.kind = RD_WORK_FETCH, .peer = (int8_t)work.rank, .count = size
	};
	return gpu->ops->run(gpu->device, stream, &work);
}

/* ---- Poison -------------------------------------------------------------------------------- */

/* A root's own output of a broadcast in place is what it sends. */
static bool writes(const struct rd_call *call)
{
	return call->problem.collective != RD_BROADCAST ||
	       call->problem.rank != call->problem.root || call->in != call->out;
}

static int outputs_of(const struct rd_call *call)
{
	int blocks = writes(call) ? rd_out_blocks(&call->problem) : 0;

	return call->vcounts || blocks == 0 ? blocks : 1;
}

static void add_output(struct rd_poisons *poisons, char *at, size_t size)
{
	struct rd_poison *poison;

	if (size == 0)
		return;
	poison = &poisons->list[poisons->outputs++ / RD_POISON_OUTPUTS];
	poison->outputs[poison->count++] = (struct rd_poison_output){ at, size };
}

static void add_outputs(struct rd_poisons *poisons, const struct rd_call *call)
{
	for (int i = 0; i < outputs_of(call); i++)
		if (call->vcounts)
			add_output(poisons, (char *)call->out + call->vcounts->out[i].offset,
				call->vcounts->out[i].size);
		else
			add_output(poisons, call->out, rd_call_out_size(call));
}

int rd_poisons_make(
	const struct rd_gpu *gpu, const struct rd_task *tasks, int count, struct rd_poisons **made)
{
	struct rd_poisons *poisons;
	size_t most = 0;

	*made = NULL;
	for (int i = 0; i < count && gpu->comm->settings.poison; i++)
		most += (size_t)outputs_of(&tasks[i].call);
	if (most == 0)
		return 0;
	poisons = calloc(
		1, sizeof(*poisons) + (most / RD_POISON_OUTPUTS + 1) * sizeof(poisons->list[0]));
	if (!poisons)
		return rd_fail(RONDO_MEMORY, "no memory for what fills outputs after a failure");
	for (int i = 0; i < count; i++)
		add_outputs(poisons, &tasks[i].call);
	*made = poisons;
	return 0;
}

int rd_poisons_queue(const struct rd_gpu *gpu, void *stream, const struct rd_poisons *poisons)
{
	int err = 0;

	for (int first = 0; first < poisons->outputs && !err; first += RD_POISON_OUTPUTS) {
		struct rd_poison poison = poisons->list[first / RD_POISON_OUTPUTS];

		poison.abort_flag = &gpu->host_flags->abort_flag;
		err = gpu->ops->run_poison(gpu->device, stream, &poison);
	}
	return err;
}
