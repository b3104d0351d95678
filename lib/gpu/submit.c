#include "gpu/submit.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/run.h"
#include "comm/widen.h"
#include "gpu/direct.h"
#include "gpu/element.h"
#include "gpu/launch.h"
#include "gpu/messages.h"
#include "gpu/progress.h"
#include "gpu/queue.h"
#include "gpu/queue_direct.h"
#include "gpu/staging.h"
#include "gpu/transfers.h"

/* ---- Checking calls ------------------------------------------------------------------------ */

/* By its function: a transfer is a send or a receive. */
static const char *name_of(const struct rd_call *call)
{
	if (call->problem.collective != RD_TRANSFER)
		return rd_collective_name(call->problem.collective);
	return call->in ? "send" : "recv";
}

static int refuse(const struct rd_call *call, const char *name, const char *why)
{
	return rd_fail(RONDO_INVALID, "%s: %s %s", name_of(call), name, why);
}

static int check_device_buffer(const struct rd_gpu *gpu, const struct rd_call *call,
	const char *name, const char *at, size_t size, const struct rd_allocation *allocation)
{
	const char *collective = name_of(call);

	if (allocation->device != gpu->device)
		return rd_fail(RONDO_INVALID,
			"%s: %s lies on device %d, but this comm's calls use device %d", collective,
			name, allocation->device, gpu->device);
	if (size > (size_t)(allocation->base + allocation->size - at))
		return rd_fail(RONDO_INVALID, "%s: %s is %zu bytes, but its memory ends after %zu",
			collective, name, size, (size_t)(allocation->base + allocation->size - at));
	return 0;
}

/* Memory that this call can use on this stream? */
static int check_buffer(const struct rondo_comm *comm, const struct rd_call *call,
	const struct rd_call_stream *stream, const char *name, const void *at, size_t size,
	bool *on_device)
{
	struct rd_allocation allocation;

	*on_device = size > 0 && rd_is_device_memory(at, &allocation);
	if (size == 0 || (!*on_device && !stream->device_stream))
		return 0;
	if (!*on_device && comm->gpu->ops->pinned(comm->gpu->device, at, size))
		return 0;
	if (!*on_device)
		return refuse(call, name,
			"is no device memory (or was freed), and no pinned host memory, but the "
			"stream is a device's: give it other host memory on a host stream, or "
			"none");
	if (allocation.device < 0) {
		rd_device(false);
		return rd_fail(RONDO_INVALID, "%s: %s is device memory, but %s", name_of(call),
			name, rondo_last_error());
	}
	if (!comm->gpu)
		return refuse(call, name,
			"is device memory, but not every rank of this comm has a device: set gpu in "
			"struct rondo_config, RONDO_GPU, or the current CUDA device before it is "
			"made");
	if (stream->is_host)
		return refuse(call, name,
			"is device memory, but the stream is a host stream: use "
			"rondo_stream_wrap() or rondo_stream_create_on()");
	return check_device_buffer(comm->gpu, call, name, at, size, &allocation);
}

static int check_device_stream(const struct rondo_comm *comm, const struct rd_call *call,
	const struct rd_device_stream *device_stream)
{
	if (!comm->gpu)
		return rd_fail(RONDO_INVALID,
			"the stream is a device's, but not every rank of this comm has a device: "
			"set gpu in struct rondo_config, RONDO_GPU, or the current CUDA device "
			"before it is made");
	if (device_stream->device != comm->gpu->device)
		return rd_fail(RONDO_INVALID,
			"the stream is of device %d, but this comm's calls use device %d",
			device_stream->device, comm->gpu->device);
	return rd_device_check_capture(device_stream->ops, device_stream->stream, name_of(call));
}

/* Each block could be of another allocation, device or kind of memory. */
static int check_list(const struct rd_call *call, const struct rd_call_stream *stream)
{
	const char *name = name_of(call);
	int ins = rd_in_blocks(&call->problem), blocks = ins + rd_out_blocks(&call->problem);

	if (stream->device_stream)
		return rd_fail(RONDO_UNSUPPORTED,
			"%s_list: the stream is a device's, but lists have host memory: use %s_v, "
			"or a host stream",
			name, name);
	for (int i = 0; i < blocks; i++) {
		const struct rd_extent *extent =
			i < ins ? &call->vcounts->in[i] : &call->vcounts->out[i - ins];
		const char *buffer = i < ins ? call->in : call->out;
		struct rd_allocation allocation;

		if (extent->size > 0 && rd_is_device_memory(buffer + extent->offset, &allocation))
			return rd_fail(RONDO_UNSUPPORTED,
				"%s_list: block %d of %s is device memory, but lists have host "
				"memory: use %s_v",
				name, i < ins ? i : i - ins, i < ins ? "send" : "recv", name);
	}
	return 0;
}

int rd_gpu_check_buffers(struct rondo_comm *comm, const struct rd_call *call,
	const struct rd_call_stream *stream, bool *takes)
{
	const struct rd_device_stream *device_stream = stream->device_stream;

	if (call->vcounts && call->vcounts->listed)
		return check_list(call, stream);

	size_t in_size = rd_call_in_size(call), out_size = rd_call_out_size(call);
	bool in = false, out = false;
	int err = 0;

	if (device_stream)
		err = check_device_stream(comm, call, device_stream);
	if (!err)
		err = check_buffer(
			comm, call, stream, "send", call->in, call->in ? in_size : 0, &in);
	if (!err)
		err = check_buffer(
			comm, call, stream, "recv", call->out, call->out ? out_size : 0, &out);
	if (!err && !device_stream && in != out && call->in && call->out && in_size > 0 &&
		out_size > 0)
		err = refuse(call, in ? "send" : "recv",
			"is device memory, and the other buffer is not: give it both of one kind");
	if (!err && !device_stream && (in || out) && stream->in_group)
		err = refuse(call, in ? "send" : "recv",
			"is device memory: in a group, give the call a stream of its device");
	*takes = !err && (device_stream || in || out);
	return err;
}

/* ---- Submitting ---------------------------------------------------------------------------- */

/* Alone, a rank's output is its input. The driver's copy within host memory would wait for the
   stream. */
static int run_alone(
	struct rd_gpu *gpu, struct rd_device_stream *device_stream, const struct rd_task *task)
{
	const struct rd_call *call = &task->call;
	size_t size = rd_out_blocks(&call->problem) * call->count * rondo_type_size(call->type);
	struct rd_allocation allocation;

	if (size == 0 || call->in == call->out)
		return 0;
	if (!gpu->ops->find(call->in, &allocation) && !gpu->ops->find(call->out, &allocation))
		return rd_queue_copy(gpu, device_stream->stream, call->out, call->in, size);
	return gpu->ops->copy(gpu->device, device_stream->stream, call->out, call->in, size);
}

static int launch_small(
	struct rd_gpu *gpu, struct rd_device_stream *device_stream, struct rd_task *task)
{
	struct rd_small_work work;

	rd_task_number(task);
	rd_direct_small_work(gpu, &task->call, &work);
	return rd_gpu_launch(gpu, device_stream, &(struct rd_kernel_launch){ .small = &work });
}

static int launch_messages(
	struct rd_gpu *gpu, struct rd_device_stream *device_stream, struct rd_task *task)
{
	struct rd_steps steps;

	rd_task_number(task);
	rd_messages_steps(gpu->messages, &task->call, &steps);
	return rd_gpu_launch(gpu, device_stream, &(struct rd_kernel_launch){ .steps = &steps });
}

/* Why a call cannot be captured; NULL: it can. */
static const char *why_not_captured(const struct rd_gpu *gpu, bool works)
{
	if (gpu->kernel == RD_KERNEL_STAGED)
		return "calls go through host memory, by the host";
	if (gpu->kernel == RD_KERNEL_STEPPED)
		return "the flags by which processes take turns on a device are counted by the "
		       "host (they need not where MPS runs, or each has a device of its own)";
	return works && gpu->kernel == RD_KERNEL_FUSED
		       ? NULL
		       : "devices have no kernel for it, and the host takes part";
}

/* Between processes, kernels are captured once the ranks have exchanged their buffers' addresses.
   */
static int capture_transfers(struct rd_gpu *gpu, struct rd_device_stream *device_stream,
	struct rd_task *tasks, int count)
{
	const char *why = why_not_captured(gpu, true);
	const char **from;
	int err;

	if (why)
		return rd_fail(
			RONDO_UNSUPPORTED, "a transfer cannot be captured in a graph: %s", why);
	if (gpu->one_process)
		return rd_transfers_launch(gpu, device_stream, tasks, count, NULL);
	from = calloc((size_t)count, sizeof(*from));
	if (!from) {
		rd_fail(RONDO_MEMORY, "no memory for %d transfers", count);
		return rd_comm_fail(gpu->comm, RONDO_MEMORY, gpu->comm->rank);
	}
	for (int i = 0; i < count; i++)
		rd_task_number(&tasks[i]);
	err = rd_progress_capture_transfers(gpu->progress, tasks, count, from);
	if (!err)
		err = rd_transfers_launch(gpu, device_stream, tasks, count, from);
	free(from);
	return err;
}

/* Replays of the graph need no host: the kernel gets all addresses now. */
static int exchange_captured(struct rd_gpu *gpu, struct rd_task *task, struct rd_work *work)
{
	struct rd_buffer_addresses addresses;
	struct rd_direct_job job = { .captured = true, .waits = true };
	bool waits;
	int err = rd_direct_announce(gpu, &task->call, work, true, gpu->number, &waits);

	if (err)
		return rd_comm_fail(gpu->comm, err, gpu->comm->rank);
	job.announced = gpu->announced;
	err = rd_progress_map(gpu->progress, task, &job, &addresses);
	if (err)
		return err;
	memcpy(work->in, addresses.in, sizeof(work->in));
	memcpy(work->out, addresses.out, sizeof(work->out));
	memcpy(work->factors, addresses.factors, sizeof(work->factors));
	return 0;
}

/* Between threads, whose addresses are the same for all, the kernels exchange them. */
static void give_own(const struct rd_task *task, struct rd_work *work)
{
	work->exchanges = 1;
	work->in[work->rank] = task->call.in;
	work->out[work->rank] = task->call.out;
}

/* One kernel on the caller's stream, which is recorded. */
static int capture(struct rd_gpu *gpu, struct rd_device_stream *device_stream, struct rd_task *task)
{
	const struct rd_plan *plan;
	struct rd_work work;
	const char *why;
	bool direct;
	int err = rd_direct_plan(gpu, &task->call, &plan, &direct);

	if (err)
		return rd_comm_fail(gpu->comm, err, gpu->comm->rank);
	why = why_not_captured(gpu, direct);
	if (why)
		return rd_fail(RONDO_UNSUPPORTED, "%s cannot be captured in a graph: %s",
			rd_collective_name(task->call.problem.collective), why);
	if (rd_direct_is_small(&task->call))
		return launch_small(gpu, device_stream, task);
	rd_direct_work(gpu, &task->call, plan, &work);
	rd_task_number(task);
	rd_direct_fuse(gpu, &task->call, &work);
	if (gpu->one_process)
		give_own(task, &work);
	else
		err = exchange_captured(gpu, task, &work);
	return err ? err
		   : rd_gpu_launch(gpu, device_stream, &(struct rd_kernel_launch){ .work = &work });
}

static bool is_empty(const struct rd_call *call)
{
	return call->count == 0 && !call->vcounts && call->problem.collective != RD_BARRIER;
}

/* Captured on all ranks, a collective of no elements has nothing to record. */
static int skip_empty(struct rd_task *task)
{
	rd_task_number(task);
	return 0;
}

static bool is_transfer(const struct rd_task *task)
{
	return task->call.problem.collective == RD_TRANSFER;
}

/* Transfers that follow each other run side by side: how many of them begin here. */
static int batch_at(const struct rd_task *tasks, int count)
{
	int batch = 1;

	while (is_transfer(tasks) && batch < count && is_transfer(&tasks[batch]) &&
		tasks[batch].comm == tasks->comm)
		batch++;
	return batch;
}

static int submit_transfers(struct rd_gpu *gpu, struct rd_device_stream *device_stream,
	struct rd_task *tasks, int count, bool *queued)
{
	if (gpu->ops->stream_captures(device_stream->stream))
		return capture_transfers(gpu, device_stream, tasks, count);
	if (!rd_gpu_goes_directly(gpu))
		return rd_stage_queue(gpu, device_stream, tasks, count, queued);
	if (gpu->one_process && gpu->spins)
		return rd_transfers_launch(gpu, device_stream, tasks, count, NULL);
	return rd_transfers_queue(gpu, device_stream, tasks, count);
}

static int submit_collective(struct rd_gpu *gpu, struct rd_device_stream *device_stream,
	struct rd_task *task, bool *queued)
{
	/* Blocks of different lengths, factors and partial sums of narrow floats are the host's. */
	bool by_messages = gpu->messages && rd_call_is_ordinary(&task->call) &&
			   !rd_call_needs_widening(&task->call) &&
			   !rd_gpu_lacks_type(&task->call) &&
			   rd_messages_can(gpu->messages, &task->call.problem);
	bool captures = gpu->ops->stream_captures(device_stream->stream);
	bool direct = by_messages || captures;
	const struct rd_plan *plan;
	struct rd_work work;
	int err = 0;

	if (!direct)
		err = rd_direct_plan(gpu, &task->call, &plan, &direct);
	if (err)
		return rd_comm_fail(gpu->comm, err, gpu->comm->rank);
	if (!direct)
		return rd_stage_queue(gpu, device_stream, task, 1, queued);
	/* The host checks a staged call when it runs it. */
	err = rd_check_now(task);
	if (err)
		return err;
	if (by_messages)
		return launch_messages(gpu, device_stream, task);
	if (captures)
		return is_empty(&task->call) ? skip_empty(task) : capture(gpu, device_stream, task);
	if (gpu->spins && rd_direct_is_small(&task->call))
		return launch_small(gpu, device_stream, task);
	rd_direct_work(gpu, &task->call, plan, &work);
	return rd_queue_direct(gpu, device_stream, task, &work, queued);
}

static int submit_now(struct rd_gpu *gpu, struct rd_device_stream *device_stream,
	struct rd_task *tasks, int count, bool *queued)
{
	if (is_transfer(tasks))
		return submit_transfers(gpu, device_stream, tasks, count, queued);
	if (gpu->comm->size == 1 && rd_call_is_ordinary(&tasks->call))
		return run_alone(gpu, device_stream, tasks);
	return submit_collective(gpu, device_stream, tasks, queued);
}

/* *queued: the progress thread has the tasks, and finishes them. */
static int submit(
	struct rd_device_stream *device_stream, struct rd_task *tasks, int count, bool *queued)
{
	struct rd_gpu *gpu = tasks->comm->gpu;
	int err = rd_device_stream_watch(device_stream, gpu->async_error);

	if (!err && atomic_load(&gpu->comm->failed))
		err = rd_comm_failure(gpu->comm);
	if (!err)
		err = rd_order_check(gpu, device_stream);
	return err ? err : submit_now(gpu, device_stream, tasks, count, queued);
}

/* The host is done with it: a rank that has not issued the latest call is behind. */
static void mark_done(struct rondo_comm *comm)
{
	atomic_store_explicit(&comm->activity.done, comm->calls, memory_order_relaxed);
	atomic_store_explicit(&comm->activity.queues, true, memory_order_relaxed);
}

static int submit_all(struct rd_device_stream *device_stream, struct rd_task *tasks, int count)
{
	int err = 0;

	for (int i = 0; i < count; i++)
		rd_gpu_replace_type(&tasks[i].call);
	for (int i = 0, batch; i < count; i += batch) {
		bool queued = false;

		batch = batch_at(&tasks[i], count - i);
		if (!err)
			err = submit(device_stream, &tasks[i], batch, &queued);
		/* A staged call is done when its turn ends. */
		if (!tasks[i].queued)
			mark_done(tasks[i].comm);
		if (!queued)
			rd_tasks_finish(&tasks[i], batch);
	}
	return err;
}

static bool one_comm(const struct rd_task *tasks, int count)
{
	for (int i = 1; i < count; i++)
		if (tasks[i].comm != tasks[0].comm)
			return false;
	return true;
}

/* Each comm's calls in their order, the comms in one that is the same on all ranks: kernels of
   several comms follow each other on the stream, and must not wait for peers that have them the
   other way round. */
static void sort_by_comm(const struct rd_task *tasks, int count, struct rd_task *sorted)
{
	uint64_t least = 0;

	for (int done = 0; done < count;) {
		uint64_t next = UINT64_MAX;

		for (int i = 0; i < count; i++) {
			uint64_t id = tasks[i].comm->local.comm_id;

			if (id >= least && id < next)
				next = id;
		}
		for (int i = 0; i < count; i++)
			if (tasks[i].comm->local.comm_id == next)
				sorted[done++] = tasks[i];
		least = next + 1;
	}
}

static int refuse_memory(struct rd_task *tasks, int count)
{
	int err = 0;

	for (int i = 0; i < count; i++) {
		rd_fail(RONDO_MEMORY, "no memory for a group of %d calls", count);
		err = rd_comm_fail(tasks[i].comm, RONDO_MEMORY, tasks[i].comm->rank);
	}
	rd_tasks_finish(tasks, count);
	return err;
}

int rd_gpu_submit(struct rd_device_stream *device_stream, struct rd_task *tasks, int count)
{
	struct rd_task *sorted;
	int err;

	if (one_comm(tasks, count))
		return submit_all(device_stream, tasks, count);
	sorted = calloc((size_t)count, sizeof(*sorted));
	if (!sorted)
		return refuse_memory(tasks, count);
	sort_by_comm(tasks, count, sorted);
	err = submit_all(device_stream, sorted, count);
	free(sorted);
	return err;
}

int rd_gpu_run(struct rd_task *task)
{
	struct rd_gpu *gpu = task->comm->gpu;
	int err = 0;

	if (!gpu->device_stream)
		err = rd_device_stream_create(&gpu->device_stream, gpu->device, true, NULL);
	if (err)
		rd_tasks_finish(task, 1);
	else
		err = rd_gpu_submit(gpu->device_stream, task, 1);
	return err ? err : rd_device_stream_synchronize(gpu->device_stream);
}
