#include "gpu/submit.h"

#include <stdlib.h>

#include "base/error.h"
#include "gpu/direct.h"
#include "gpu/launch.h"
#include "gpu/messages.h"
#include "gpu/progress.h"
#include "gpu/launch_transfers.h"

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

int rd_gpu_takes(struct rondo_comm *comm, const struct rd_call *call,
	const struct rd_call_stream *stream, bool *takes)
{
	const struct rd_device_stream *device_stream = stream->device_stream;

	*takes = false;
	if (!device_stream && !comm->gpu && !comm->meets_devices)
		return 0;

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

/* Alone, a rank's output is its input. */
static int run_alone(struct rd_device_stream *device_stream, const struct rd_task *task)
{
	const struct rd_call *call = &task->call;
	size_t size = rd_out_blocks(&call->problem) * call->count * rondo_type_size(call->type);

	if (size == 0 || call->in == call->out)
		return 0;
	return device_stream->ops->copy(
		device_stream->device, device_stream->stream, call->out, call->in, size);
}

static int launch(struct rd_gpu *gpu, struct rd_device_stream *device_stream, struct rd_task *task,
	struct rd_work *work)
{
	rd_task_number(task);
	rd_direct_fuse(gpu, &task->call, work);
	work->exchanges = 1;
	work->in[work->rank] = task->call.in;
	work->out[work->rank] = task->call.out;
	return rd_gpu_launch(gpu, device_stream, &(struct rd_launch){ .work = work });
}

static int launch_messages(
	struct rd_gpu *gpu, struct rd_device_stream *device_stream, struct rd_task *task)
{
	struct rd_steps steps;

	rd_task_number(task);
	rd_messages_steps(gpu->messages, &task->call, &steps);
	return rd_gpu_launch(gpu, device_stream, &(struct rd_launch){ .steps = &steps });
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

/* Between processes, fused kernels are captured once the ranks have exchanged their buffers'
   addresses. */
static int capture_transfers(struct rd_gpu *gpu, struct rd_device_stream *device_stream,
	struct rd_task *tasks, int count)
{
	const char *why = why_not_captured(gpu, true);
	const char **from;
	int err;

	if (why)
		return rd_fail(
			RONDO_UNSUPPORTED, "a transfer cannot be captured in a graph: %s", why);
	from = calloc((size_t)count, sizeof(*from));
	if (!from)
		return rd_fail(RONDO_MEMORY, "no memory for %d transfers", count);
	rd_tasks_issue(tasks, count);
	for (int i = 0; i < count; i++)
		tasks[i].queued = true;
	err = rd_progress_capture_transfers(gpu->progress, tasks, count, from);
	if (!err)
		err = rd_transfers_launch(gpu, device_stream, tasks, count, from);
	free(from);
	return err;
}

/* One kernel on the caller's stream, which is recorded. */
static int capture(struct rd_gpu *gpu, struct rd_device_stream *device_stream, struct rd_task *task)
{
	struct rd_work work;
	const char *why;
	bool direct;
	int err = rd_direct_work(gpu, &task->call, &work, &direct);

	if (err)
		return rd_comm_fail(gpu->comm, err, gpu->comm->rank);
	why = why_not_captured(gpu, direct);
	if (why)
		return rd_fail(RONDO_UNSUPPORTED, "%s cannot be captured in a graph: %s",
			rd_collective_name(task->call.problem.collective), why);
	rd_tasks_issue(task, 1);
	task->queued = true;
	err = rd_progress_capture(gpu->progress, task, &work);
	return err ? err : gpu->ops->run(gpu->device, device_stream->stream, &work);
}

/* The stream writes `ready` when it reaches the call; the rest is the progress thread's. */
static int queue_tasks(struct rd_gpu *gpu, struct rd_device_stream *device_stream,
	struct rd_task *tasks, int count)
{
	uint32_t number = gpu->number + 1;
	int err;

	rd_progress_await(gpu->progress, number - RD_READY);
	err = gpu->ops->write_flag(
		gpu->device, device_stream->stream, rd_ready(gpu->stream_flags, number), number);
	if (err)
		return rd_comm_fail(gpu->comm, err, gpu->comm->rank);
	rd_tasks_issue(tasks, count);
	for (int i = 0; i < count; i++)
		tasks[i].queued = true;
	err = rd_progress_queue(gpu->progress, tasks, count, number);
	if (!err)
		gpu->number = number;
	return err;
}

/* The stream goes on when the progress thread has finished. If the stream cannot wait, this thread
   does: the buffers are in use until then, and its comm has failed, which ends that soon. */
static int wait_on(struct rd_gpu *gpu, struct rd_device_stream *device_stream)
{
	int err = gpu->ops->wait_flag(
		gpu->device, device_stream->stream, &gpu->stream_flags->finished, gpu->number);

	if (!err)
		return 0;
	err = rd_comm_fail(gpu->comm, err, gpu->comm->rank);
	rd_progress_await(gpu->progress, gpu->number);
	return err;
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

static int submit(
	struct rd_device_stream *device_stream, struct rd_task *tasks, int count, bool *queued)
{
	struct rd_gpu *gpu = tasks->comm->gpu;
	struct rd_work work;
	bool direct = false;
	int err = rd_device_stream_watch(device_stream, gpu->async_error);

	if (!err && atomic_load(&gpu->comm->failed))
		err = rd_comm_failure(gpu->comm);
	if (err)
		return err;
	if (gpu->comm->size == 1 && !is_transfer(tasks) && rd_call_is_ordinary(&tasks->call))
		return run_alone(device_stream, tasks);
	if (gpu->one_process && is_transfer(tasks))
		return rd_transfers_launch(gpu, device_stream, tasks, count, NULL);
	if (gpu->one_process)
		err = rd_direct_work(gpu, &tasks->call, &work, &direct);
	if (err)
		return rd_comm_fail(gpu->comm, err, gpu->comm->rank);
	if (direct)
		return launch(gpu, device_stream, tasks, &work);
	/* Blocks of different lengths and factors are the host's. */
	if (gpu->messages && !is_transfer(tasks) && rd_call_is_ordinary(&tasks->call) &&
		rd_messages_can(gpu->messages, &tasks->call.problem))
		return launch_messages(gpu, device_stream, tasks);
	if (gpu->ops->stream_captures(device_stream->stream))
		return is_transfer(tasks) ? capture_transfers(gpu, device_stream, tasks, count)
					  : capture(gpu, device_stream, tasks);
	err = queue_tasks(gpu, device_stream, tasks, count);
	*queued = !err;
	return err;
}

/* The host is done with them: a rank that has not issued the latest call is behind. */
static void mark_done(const struct rd_task *tasks, int count)
{
	for (int i = 0; i < count; i++)
		if (!is_transfer(&tasks[i]))
			atomic_store_explicit(&tasks[i].comm->activity.done, tasks[i].call.number,
				memory_order_relaxed);
}

static int submit_all(
	struct rd_device_stream *device_stream, struct rd_task *tasks, int count, bool *queued)
{
	int err = 0;

	for (int i = 0, batch; i < count; i += batch) {
		batch = batch_at(&tasks[i], count - i);
		if (!err)
			err = submit(device_stream, &tasks[i], batch, &queued[i]);
		if (!queued[i]) {
			mark_done(&tasks[i], batch);
			rd_tasks_finish(&tasks[i], batch);
		}
	}
	/* Also when a later one failed: these are at work all the same. */
	for (int i = 0; i < count; i++) {
		int late = queued[i] ? wait_on(tasks[i].comm->gpu, device_stream) : 0;

		err = err ? err : late;
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

/* Calls on several comms proceed together: the stream waits for none before all are under way. The
   progress thread finishes the tasks that are queued for it. */
int rd_gpu_submit(struct rd_device_stream *device_stream, struct rd_task *tasks, int count)
{
	bool several = !one_comm(tasks, count);
	bool *queued = calloc((size_t)count, sizeof(*queued));
	struct rd_task *sorted = several ? calloc((size_t)count, sizeof(*sorted)) : NULL;
	int err;

	if (!queued || (several && !sorted)) {
		rd_tasks_finish(tasks, count);
		err = rd_fail(RONDO_MEMORY, "no memory for a group of %d calls", count);
	} else {
		if (several)
			sort_by_comm(tasks, count, sorted);
		err = submit_all(device_stream, several ? sorted : tasks, count, queued);
	}
	free(queued);
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
