#include "gpu/staging.h"

#include "gpu/progress.h"
#include "gpu/queue.h"
#include "gpu/sharers.h"
#include "gpu/staged.h"

/* ---- Queueing ------------------------------------------------------------------------------ */

/* A batch while the caller queues it. */
struct queueing {
	struct rd_gpu *gpu;
	struct rd_device_stream *device_stream;
	struct rd_stage_flags *flags;
	void *in_stream;
	uint32_t arrived; /* parts whose copy in is queued */
};

static int write_now(const struct queueing *queueing, void *stream, uint32_t *flag, uint32_t value)
{
	return rd_stream_write(queueing->gpu->ops, queueing->gpu->device, stream, flag, value);
}

static int await_now(const struct queueing *queueing, void *stream, uint32_t *flag, size_t value)
{
	return rd_stream_wait(
		queueing->gpu->ops, queueing->gpu->device, stream, flag, (uint32_t)value);
}

static int queue_in(struct queueing *queueing, const struct rd_stage_feed *feed, size_t part)
{
	int err = rd_staged_copy_in(feed, queueing->in_stream, part);

	return err ? err
		   : write_now(queueing, queueing->in_stream, &queueing->flags->arrived,
			     ++queueing->arrived);
}

static int queue_out(const struct queueing *queueing, const struct rd_stage_feed *feed, size_t part)
{
	void *stream = queueing->device_stream->stream;
	int err = 0;

	/* After a failure the host ends the wait for `run`, and the part may yet be copied in. */
	if (queueing->in_stream != stream)
		err = await_now(queueing, stream, &queueing->flags->arrived, part + 1);
	if (!err)
		err = await_now(queueing, stream, &queueing->flags->run[feed->index], part + 1);
	return err ? err : rd_staged_copy_out(feed, stream, part);
}

/* The part that takes the slot of this one. */
static int queue_next_in(struct queueing *queueing, const struct rd_stage_feed *feed, size_t part)
{
	uint32_t *emptied = &queueing->flags->emptied;
	int err;

	if (part + RD_STAGE_SLOTS >= feed->parts)
		return 0;
	err = write_now(queueing, queueing->device_stream->stream, emptied, (uint32_t)part + 1);
	if (!err)
		err = await_now(queueing, queueing->in_stream, emptied, part + 1);
	return err ? err : queue_in(queueing, feed, part + RD_STAGE_SLOTS);
}

static int begin_collective(struct queueing *queueing, const struct rd_stage_feed *feed)
{
	struct rd_gpu *gpu = queueing->gpu;
	void *stream = queueing->device_stream->stream;
	int err = 0;

	/* The gpu's stream copies parts in, while the caller's copies them out. */
	if (feed->parts > 1) {
		queueing->in_stream = gpu->stream;
		err = gpu->ops->stream_follow(gpu->device, queueing->in_stream, stream);
	}
	for (size_t part = 0; part < feed->slot_count && !err; part++)
		err = queue_in(queueing, feed, part);
	return err ? err : rd_sharers_begin(gpu, stream);
}

static int end_collective(struct queueing *queueing, const struct rd_stage_feed *feed)
{
	int err = 0;

	for (size_t part = 0; part < feed->parts && !err; part++) {
		err = queue_out(queueing, feed, part);
		if (!err)
			err = queue_next_in(queueing, feed, part);
		if (!err)
			err = rd_sharers_meet(queueing->gpu);
	}
	/* After a failure parts are still on their way from memory that the program may free. */
	if (!err && feed->parts > 1)
		err = queueing->gpu->ops->stream_follow(queueing->gpu->device,
			queueing->device_stream->stream, queueing->in_stream);
	return err;
}

static int copy_own(const struct queueing *queueing, const struct rd_call *call)
{
	size_t size = call->count * rondo_type_size(call->type);

	return size == 0 || call->in == call->out
		       ? 0
		       : queueing->gpu->ops->copy(queueing->gpu->device,
				 queueing->device_stream->stream, call->out, call->in, size);
}

static int begin_transfers(struct queueing *queueing, const struct rd_stage_feed *feeds, int count)
{
	int err = 0;

	for (int i = 0; i < count && !err; i++) {
		const struct rd_stage_feed *feed = &feeds[i];

		if (rd_is_own_transfer(&feed->call))
			err = copy_own(queueing, &feed->call);
		for (size_t part = 0; part < feed->parts && rd_staged_has_input(feed) && !err;
			part++)
			err = queue_in(queueing, feed, part);
		if (!err && rd_staged_has_input(feed))
			rd_sharers_note_send(queueing->gpu, feed->call.problem.target);
	}
	return err;
}

static int end_transfers(struct queueing *queueing, const struct rd_stage_feed *feeds, int count)
{
	int err = 0;

	for (int i = 0; i < count && !err; i++) {
		const struct rd_stage_feed *feed = &feeds[i];

		if (!rd_staged_has_output(feed) || rd_is_own_transfer(&feed->call))
			continue;
		err = rd_sharers_await_send(queueing->gpu, feed->call.problem.root);
		for (size_t part = 0; part < feed->parts && !err; part++)
			err = queue_out(queueing, feed, part);
	}
	return err;
}

static int queue_staged(
	struct queueing *queueing, struct rd_staged *staged, struct rd_task *tasks, int count)
{
	struct rd_gpu *gpu = queueing->gpu;
	const struct rd_stage_feed *feeds = staged->feeds;
	void *stream = queueing->device_stream->stream;
	bool transfers = rd_is_transfer(&tasks->call);
	int err = write_now(queueing, stream, &gpu->stream_flags->ready, gpu->number), queued_job;

	if (!err)
		err = transfers ? begin_transfers(queueing, feeds, count)
				: begin_collective(queueing, feeds);
	/* Also after a failure: the comm must see the tasks' turns end. */
	if (err && !atomic_load(&gpu->comm->failed))
		rd_comm_fail(gpu->comm, err, gpu->comm->rank);
	queued_job = rd_progress_stage(gpu->progress, tasks, count, staged, gpu->number);
	err = err ? err : queued_job;
	if (!err)
		err = transfers ? end_transfers(queueing, feeds, count)
				: end_collective(queueing, feeds);
	return err ? err : write_now(queueing, stream, &gpu->stream_flags->finished, gpu->number);
}

int rd_stage_queue(struct rd_gpu *gpu, struct rd_device_stream *device_stream,
	struct rd_task *tasks, int count, bool *queued)
{
	struct queueing queueing = {
		.gpu = gpu, .device_stream = device_stream, .in_stream = device_stream->stream
	};
	struct rd_staged *staged = NULL;
	int err = rd_queue_begin(gpu, device_stream, RD_QUEUED_STAGED);

	if (err)
		return rd_comm_fail(gpu->comm, err, gpu->comm->rank);
	err = rd_staged_make(gpu, tasks, count, &staged);
	if (err)
		return rd_queue_fail(gpu, device_stream, err);
	*queued = true;
	queueing.flags = rd_staged_flags(staged);
	rd_tasks_issue(tasks, count);
	for (int i = 0; i < count; i++) {
		tasks[i].queued = true;
		staged->feeds[i].call.number = tasks[i].call.number;
	}
	err = queue_staged(&queueing, staged, tasks, count);
	rd_staged_put(staged);
	return err ? rd_queue_fail(gpu, device_stream, err) : 0;
}
