#include "gpu/launch.h"

#include <string.h>

#include "gpu/sharers.h"
#include "base/error.h"
#include "base/futex.h"
#include "device/region.h"
#include "gpu/peers.h"
#include "gpu/watch.h"

static int run_kernel(struct rd_gpu *gpu, void *stream, const struct rd_kernel_launch *launch)
{
	const struct rd_device_ops *ops = gpu->ops;
	int err;

	if (launch->work)
		err = ops->run(gpu->device, stream, launch->work);
	else if (launch->small)
		err = ops->run_small(gpu->device, stream, launch->small);
	else if (launch->steps)
		err = ops->run_steps(gpu->device, stream, launch->steps);
	else
		err = ops->run_transfers(gpu->device, stream, launch->transfers);
	if (!err && launch->done)
		err = rd_stream_write(ops, gpu->device, stream, launch->done, launch->number);
	return err;
}

/* Sharers leave only when all kernels are queued: until then nothing may hold up the device. */
static int launch_now(struct rd_gpu *gpu, struct rd_device_stream *device_stream,
	const struct rd_kernel_launch *launch)
{
	int err = rd_order(gpu, device_stream);

	if (!err)
		err = rd_sharers_begin(gpu, device_stream->stream);
	if (!err)
		err = run_kernel(gpu, device_stream->stream, launch);
	gpu->launched = true;
	return err ? err : rd_sharers_meet(gpu);
}

int rd_gpu_launch(struct rd_gpu *gpu, struct rd_device_stream *device_stream,
	const struct rd_kernel_launch *launch)
{
	int err = gpu->ops->stream_captures(device_stream->stream)
			  ? run_kernel(gpu, device_stream->stream, launch)
			  : launch_now(gpu, device_stream, launch);

	return err && !atomic_load(&gpu->comm->failed)
		       ? rd_comm_fail(gpu->comm, err, gpu->comm->rank)
		       : err;
}

/* ---- Transfers ------------------------------------------------------------------------------- */

/* Long groups that are queued at once, usually: to make a list may take until the process's streams
   have done what is queued. */
#define USUAL_LISTS 2

/* A list too long for a kernel's parameters: host memory that devices address. */
struct rd_transfer_list {
	struct rd_transfer_list *next;
	uint32_t used, done; /* runs; equal: no kernel reads it any more */
	struct rd_transfer list[RONDO_GROUP_MAX];
};

static int make_list(struct rd_gpu *gpu, struct rd_transfer_list **made)
{
	void *memory;
	int err = rd_region_alloc(&memory, sizeof(struct rd_transfer_list));

	if (err)
		return err;
	err = gpu->ops->share(gpu->device, memory, sizeof(struct rd_transfer_list));
	if (err) {
		rd_region_free(memory);
		return err;
	}
	*made = memory;
	(*made)->next = gpu->transfer_lists;
	gpu->transfer_lists = *made;
	return 0;
}

int rd_transfers_make_lists(struct rd_gpu *gpu)
{
	struct rd_transfer_list *made;
	int err = 0;

	for (int i = 0; i < USUAL_LISTS && !err; i++)
		err = make_list(gpu, &made);
	return err;
}

/* NULL: kernels may still read all of them. */
static struct rd_transfer_list *unused_list(const struct rd_gpu *gpu)
{
	struct rd_transfer_list *list = gpu->transfer_lists;

	while (list && !rd_flag_reached(&list->done, list->used))
		list = list->next;
	return list;
}

/* Where all are used, earlier calls are to be over, before one is made: the driver may wait for
   their streams then, while peers wait for this call. */
static int find_list(struct rd_gpu *gpu, struct rd_transfer_list **found)
{
	*found = unused_list(gpu);
	if (*found)
		return 0;
	rd_gpu_await(gpu, gpu->number - 1);
	*found = unused_list(gpu);
	return *found ? 0 : make_list(gpu, found);
}

void rd_transfers_free_lists(struct rd_gpu *gpu)
{
	while (gpu->transfer_lists) {
		struct rd_transfer_list *long_list = gpu->transfer_lists;

		gpu->transfer_lists = long_list->next;
		gpu->ops->unshare(gpu->device, long_list);
		rd_region_free(long_list);
	}
}

static bool is_own(const struct rd_task *task)
{
	return task->call.problem.root == task->call.problem.target;
}

static int copy_own(struct rd_gpu *gpu, struct rd_device_stream *device_stream,
	const struct rd_task *tasks, int count)
{
	int err = 0;

	for (int i = 0; i < count && !err; i++) {
		const struct rd_call *call = &tasks[i].call;

		if (is_own(&tasks[i]) && call->count > 0 && call->in != call->out)
			err = gpu->ops->copy(device_stream->device, device_stream->stream,
				call->out, call->in, call->count * rondo_type_size(call->type));
	}
	return err;
}

/* By kinds and peers; those of one kind and peer in their order. Returns how many there are. */
static int sort(struct rd_transfer_work *work, struct rd_transfer *list,
	const struct rd_task *tasks, int count, const char *const from[])
{
	int at = 0;

	for (int kind = 0; kind < 2; kind++)
		for (int peer = 0; peer <= RD_WORK_RANKS; peer++) {
			work->first[kind][peer] = (uint16_t)at;
			for (int i = 0; i < count; i++) {
				const struct rd_call *call = &tasks[i].call;
				bool receives = call->problem.target == work->rank;

				if (is_own(&tasks[i]) ||
					receives != (kind == RD_TRANSFER_RECEIVE) ||
					(receives ? call->problem.root : call->problem.target) !=
						peer)
					continue;
				list[at++] =
					(struct rd_transfer){ .at = receives ? call->out
									     : (char *)call->in,
						.from = from ? from[i] : NULL,
						.count = call->count,
						.type = call->type,
						.element = (uint32_t)rondo_type_size(call->type) };
			}
		}
	return at;
}

static int blocks_for(const struct rd_gpu *gpu, const struct rd_transfer *list, int count)
{
	int most = 1;

	for (int i = 0; i < count; i++) {
		size_t size = list[i].count * list[i].element;
		int blocks = RD_TRANSFER_BLOCKS(size, gpu->blocks);

		most = blocks > most ? blocks : most;
	}
	return most;
}

int rd_transfers_launch(struct rd_gpu *gpu, struct rd_device_stream *device_stream,
	struct rd_task *tasks, int count, const char *const from[])
{
	struct rd_transfer_work work = { .rank = gpu->comm->rank,
		.size = gpu->comm->size,
		.most_blocks = gpu->blocks,
		.timeout_ns = rd_comm_timeout_ms(gpu->comm) * UINT64_C(1000000),
		.abort_flag = &gpu->host_flags->abort_flag };
	struct rd_kernel_launch launch = { .transfers = &work };
	struct rd_transfer_list *long_list = NULL;
	int err = 0, listed;

	if (count > RD_TRANSFERS_INLINE && gpu->ops->stream_captures(device_stream->stream))
		return rd_fail(RONDO_UNSUPPORTED,
			"%d transfers in a group cannot be captured in a graph: at most %d can",
			count, RD_TRANSFERS_INLINE);
	if (count > RD_TRANSFERS_INLINE)
		err = find_list(gpu, &long_list);
	if (!err)
		err = copy_own(gpu, device_stream, tasks, count);
	if (err)
		return rd_comm_fail(gpu->comm, err, gpu->comm->rank);
	for (int i = 0; i < count && !from; i++)
		rd_task_number(&tasks[i]);
	memcpy(work.peer_device_flags, gpu->peer_device_flags, sizeof(work.peer_device_flags));
	listed = sort(&work, long_list ? long_list->list : work.list, tasks, count, from);
	work.blocks = blocks_for(gpu, long_list ? long_list->list : work.list, listed);
	if (listed == 0)
		return 0;
	if (long_list) {
		work.more = long_list->list;
		launch.done = &long_list->done;
		launch.number = ++long_list->used;
	}
	return rd_gpu_launch(gpu, device_stream, &launch);
}

/* ---- Order ----------------------------------------------------------------------------------- */

int rd_order_check(const struct rd_gpu *gpu, const struct rd_device_stream *device_stream)
{
	if (!gpu->last || gpu->last == device_stream || !gpu->launched ||
		!rd_device_stream_captures(gpu->last) ||
		gpu->ops->stream_captures(device_stream->stream))
		return 0;
	return rd_fail(RONDO_UNSUPPORTED,
		"rank %d: the comm's last call is on another stream, which is being captured: end "
		"the capture first",
		gpu->comm->rank);
}

int rd_order(struct rd_gpu *gpu, struct rd_device_stream *device_stream)
{
	int err = 0;

	if (gpu->last == device_stream)
		return 0;
	if (gpu->last)
		err = rd_device_stream_follow(device_stream->stream, gpu->last);
	if (err == RONDO_UNSUPPORTED && !gpu->launched) {
		rd_gpu_await(gpu, gpu->number);
		err = 0;
	}
	if (err)
		return err;
	rd_device_stream_get(device_stream);
	rd_device_stream_put(gpu->last);
	gpu->last = device_stream;
	return 0;
}
