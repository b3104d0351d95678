#include "gpu/queue_direct.h"

#include "gpu/direct.h"
#include "gpu/peers.h"
#include "gpu/progress.h"
#include "gpu/queue.h"
#include "gpu/sharers.h"

/* A call while it is queued. */
struct direct {
	struct rd_gpu *gpu;
	struct rd_device_stream *device_stream;
	struct rd_flag_batch batch;
	struct rd_work *work;
	struct rd_call given; /* with the program's buffers */
	struct rd_buffer_addresses *addresses;
	bool waits;
};

static int copy(struct direct *direct, void *to, const void *from, size_t size)
{
	struct rd_gpu *gpu = direct->gpu;

	return to == from || size == 0
		       ? 0
		       : gpu->ops->copy(gpu->device, direct->device_stream->stream, to, from, size);
}

/* Where peers cannot map the buffers. Blocks of different lengths have gaps, which keep their
   bytes. */
static int copy_in(struct direct *direct, const struct rd_call *call)
{
	int err = copy(direct, (void *)call->in, direct->given.in, rd_call_in_size(call));

	if (!err && call->vcounts)
		err = copy(direct, call->out, direct->given.out, rd_call_out_size(call));
	return err;
}

static int enter(struct direct *direct)
{
	struct rd_gpu *gpu = direct->gpu;
	int rank = gpu->comm->rank, err;

	rd_batch_write(&direct->batch, &gpu->stream_flags->ready, gpu->number);
	for (int peer = 0; peer < gpu->comm->size; peer++)
		if (peer != rank)
			rd_batch_write(&direct->batch, &gpu->peer_flags[peer]->entered[rank],
				gpu->announced);
	if (!gpu->sharers && !direct->waits)
		return 0;
	err = rd_batch_post(&direct->batch);
	return err ? err : rd_sharers_begin(gpu, direct->device_stream->stream);
}

static int await_entries(struct direct *direct)
{
	struct rd_gpu *gpu = direct->gpu;

	for (int peer = 0; peer < gpu->comm->size; peer++)
		if (peer != gpu->comm->rank)
			rd_batch_wait(
				&direct->batch, &gpu->host_flags->entered[peer], gpu->announced);
	if (!direct->waits)
		rd_batch_wait(&direct->batch, &gpu->own_flags->mapped, gpu->announced);
	return rd_batch_post(&direct->batch);
}

static int run_all(struct direct *direct)
{
	struct rd_gpu *gpu = direct->gpu;
	struct rd_work work;
	int err = 0;

	for (int rank = 0; rank < gpu->comm->size && !err; rank++) {
		err = rd_direct_work_of(gpu, &direct->given, rank, &work);
		work.addresses = direct->addresses;
		work.resolved = rd_queue_resolved(gpu, direct->device_stream->stream);
		if (!err)
			err = gpu->ops->run(gpu->device, direct->device_stream->stream, &work);
	}
	return err;
}

static int run(struct direct *direct)
{
	struct rd_gpu *gpu = direct->gpu;

	/* A barrier has no steps. */
	if (direct->work->step_count == 0)
		return 0;
	if (direct->waits && direct->addresses->part == RD_PART_ALL)
		return run_all(direct);
	direct->work->addresses = direct->addresses;
	direct->work->resolved = rd_queue_resolved(gpu, direct->device_stream->stream);
	return gpu->ops->run(gpu->device, direct->device_stream->stream, direct->work);
}

static int leave(struct direct *direct, uint32_t announced)
{
	struct rd_gpu *gpu = direct->gpu;
	int rank = gpu->comm->rank, err = 0;

	for (int peer = 0; peer < gpu->comm->size; peer++)
		if (peer != rank)
			rd_batch_write(
				&direct->batch, &gpu->peer_flags[peer]->left[rank], announced);
	if (gpu->sharers)
		err = rd_batch_post(&direct->batch);
	if (!err)
		err = rd_sharers_meet(gpu);
	for (int peer = 0; peer < gpu->comm->size && !err; peer++)
		if (peer != rank)
			rd_batch_wait(&direct->batch, &gpu->host_flags->left[peer], announced);
	return err;
}

static int finish(struct direct *direct, size_t out_size, void *out)
{
	struct rd_gpu *gpu = direct->gpu;
	int err = 0;

	if (out != direct->given.out) {
		err = rd_batch_post(&direct->batch);
		if (!err)
			err = copy(direct, direct->given.out, out, out_size);
	}
	rd_batch_write(&direct->batch, &gpu->stream_flags->finished, gpu->number);
	return err ? err : rd_batch_post(&direct->batch);
}

static int map(struct direct *direct, struct rd_task *task, bool *queued)
{
	struct rd_gpu *gpu = direct->gpu;
	struct rd_direct_job job = { .call = &task->call,
		.announced = gpu->announced,
		.number = gpu->number,
		.waits = direct->waits };
	int err = rd_progress_map(gpu->progress, task, &job, direct->addresses);

	*queued = !err && !direct->waits;
	return err;
}

int rd_queue_direct(struct rd_gpu *gpu, struct rd_device_stream *device_stream,
	struct rd_task *task, struct rd_work *work, bool *queued)
{
	struct direct direct = { .gpu = gpu,
		.device_stream = device_stream,
		.batch = { .gpu = gpu, .stream = device_stream->stream },
		.work = work,
		.given = task->call };
	size_t out_size = rd_call_out_size(&task->call);
	struct rd_call *call = &task->call;
	void *out;
	int err = rd_queue_begin(gpu, device_stream, RD_QUEUED_DIRECT);

	if (err)
		return rd_comm_fail(gpu->comm, err, gpu->comm->rank);
	rd_task_number(task);
	direct.given.number = call->number;
	err = rd_direct_announce(gpu, call, work, false, gpu->number, &direct.waits);
	direct.addresses = &gpu->own_flags->addresses[gpu->number % RD_RUN_AHEAD];
	out = call->out;
	if (!err)
		err = copy_in(&direct, call);
	if (!err)
		err = enter(&direct);
	if (!err)
		err = map(&direct, task, queued);
	if (!err)
		err = await_entries(&direct);
	if (!err)
		err = run(&direct);
	if (!err)
		err = leave(&direct, gpu->announced);
	if (!err)
		err = finish(&direct, out_size, out);
	return err ? rd_queue_fail(gpu, device_stream, err) : 0;
}
