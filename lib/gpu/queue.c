#include "gpu/queue.h"

#include <time.h>

#include "base/clock.h"
#include "base/futex.h"
#include "gpu/exports.h"
#include "gpu/launch.h"
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
