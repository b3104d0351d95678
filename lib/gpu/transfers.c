#include "gpu/transfers.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/futex.h"
#include "gpu/peers.h"
#include "gpu/watch.h"

/* The feed of one transfer (task.h): it runs no plan, unless it is staged. */
struct transfer {
	struct rd_feed base;
	struct rd_gpu *gpu;
	const struct rd_call *call;
	struct rd_stage *stage;
	struct rd_feed *staging;
	int index; /* in the stage */
	bool staged;
	const char **from; /* captured: the address from the offer goes here */
	bool unreachable; /* captured */
	int64_t since_ns; /* it has waited for its peer; 0: it has not */
	int reported_ms; /* of that wait, as slow */
	int rounds;
};

static bool sends(const struct transfer *transfer)
{
	return transfer->call->problem.root == transfer->gpu->comm->rank;
}

static int peer_of(const struct transfer *transfer)
{
	const struct rd_problem *problem = &transfer->call->problem;

	return sends(transfer) ? problem->target : problem->root;
}

static size_t size_of(const struct rd_call *call)
{
	return call->count * rondo_type_size(call->type);
}

int rd_transfers_missing_peer(const struct rd_gpu *gpu)
{
	for (int peer = 0; peer < gpu->comm->size && peer < RD_WORK_RANKS; peer++)
		if (!rd_flag_reached(&gpu->host_flags->taken[peer], gpu->sent[peer]))
			return peer;
	return gpu->comm->rank;
}

/* ---- Waiting ------------------------------------------------------------------------------- */

/* The flag that this rank waits for: its last offer is taken, or the peer makes one. */
static const uint32_t *flag_of(const struct transfer *transfer, uint32_t *number)
{
	const struct rd_gpu *gpu = transfer->gpu;
	int peer = peer_of(transfer);

	*number = sends(transfer) ? gpu->sent[peer] : gpu->received[peer] + 1;
	return sends(transfer) ? &gpu->host_flags->taken[peer]
			       : &gpu->peer_flags[peer]->offers[gpu->comm->rank].number;
}

static int report_silence(const struct transfer *transfer, int64_t waited_ms)
{
	struct rondo_comm *comm = transfer->gpu->comm;
	int peer = peer_of(transfer);

	rd_fail(RONDO_TIMEOUT, "rank %d waited %lld ms for rank %d to %s it on its device",
		comm->rank, (long long)waited_ms, peer,
		sends(transfer) ? "receive from" : "send to");
	return rd_comm_fail(comm, RONDO_TIMEOUT, peer);
}

/* RD_MOVED: the flag is there. */
static int poll_flag(struct transfer *transfer)
{
	uint32_t number;
	const uint32_t *flag = flag_of(transfer, &number);
	int64_t now_ns, waited_ms;

	if (rd_flag_reached(flag, number))
		return RD_MOVED;
	now_ns = rd_clock_ns();
	if (transfer->since_ns == 0)
		transfer->since_ns = now_ns;
	waited_ms = (now_ns - transfer->since_ns) / 1000000;
	if (waited_ms > transfer->gpu->comm->settings.timeout_ms)
		return report_silence(transfer, waited_ms);
	rd_comm_slow(transfer->gpu->comm, &transfer->reported_ms, waited_ms, peer_of(transfer),
		"in a transfer between devices");
	return RD_IDLE;
}

/* ---- Moving -------------------------------------------------------------------------------- */

static int start_staged(struct transfer *transfer, struct rd_call *call)
{
	int err = rd_stage_begin(transfer->stage, transfer->index);

	transfer->staged = true;
	return err ? err : transfer->staging->next(transfer->staging, call);
}

static int copy_to_itself(const struct transfer *transfer)
{
	const struct rd_gpu *gpu = transfer->gpu;
	const struct rd_call *call = transfer->call;
	int err = 0;

	if (call->count > 0 && call->in != call->out)
		err = gpu->ops->copy(gpu->device, gpu->stream, call->out, call->in, size_of(call));
	return err ? err : RD_DONE;
}

static struct rd_signature sign(const struct transfer *transfer)
{
	struct rd_signature signature = rd_signature_of(transfer->call);

	if (transfer->from)
		signature.form |= RD_FORM_CAPTURED;
	return signature;
}

/* Captured calls cannot be staged. */
static int go_unreachable(struct transfer *transfer, struct rd_call *call)
{
	if (!transfer->from)
		return start_staged(transfer, call);
	transfer->unreachable = true;
	return RD_DONE;
}

static int offer(struct transfer *transfer, struct rd_call *call)
{
	struct rd_gpu *gpu = transfer->gpu;
	int peer = peer_of(transfer), moved = poll_flag(transfer);
	struct rd_offer *offer = &gpu->host_flags->offers[peer];
	bool reachable;

	if (moved != RD_MOVED)
		return moved;
	offer->signature = sign(transfer);
	rd_peers_describe(gpu, call->in, size_of(call), &offer->in);
	reachable = call->count == 0 || offer->in.id;
	offer->reachable = reachable;
	rd_flag_write(&offer->number, ++gpu->sent[peer]);
	return reachable ? RD_DONE : go_unreachable(transfer, call);
}

static int mismatch(const struct rd_gpu *gpu, int peer, const struct rd_signature *theirs,
	const struct rd_signature *ours)
{
	char there[128], here[128];

	rd_signature_print(theirs, there, sizeof(there));
	rd_signature_print(ours, here, sizeof(here));
	rd_fail(RONDO_MISMATCH, "rank %d sends %s to rank %d, which receives %s", peer, there,
		gpu->comm->rank, here);
	return rd_comm_fail(gpu->comm, RONDO_MISMATCH, peer);
}

/* By a kernel, which touches nothing once the comm has failed: the sender's memory may be gone
 * then. */
static int queue_copy(struct rd_gpu *gpu, const struct rd_call *call, const char *from)
{
	struct rd_work work = { .rank = gpu->comm->rank,
		.size = gpu->comm->size,
		.type = call->type,
		.count = call->count,
		.abort_flag = &gpu->host_flags->abort_flag,
		.step_count = 1 };
	int peer = call->problem.root;

	work.in[peer] = from;
	work.out[work.rank] = call->out;
	work.steps[0] = (struct rd_work_step){
		.kind = RD_WORK_FETCH, .peer = (int8_t)peer, .count = call->count
	};
	return gpu->ops->run(gpu->device, gpu->stream, &work);
}

/* The copy, or where the graph's kernel is to copy from. */
static int fetch(const struct transfer *transfer, const struct rd_offer *offer)
{
	struct rd_gpu *gpu = transfer->gpu;
	const struct rd_call *call = transfer->call;
	const char *from =
		rd_peers_reach(gpu, peer_of(transfer), &offer->in, size_of(call), transfer->from);

	if (!from)
		return RONDO_SYSTEM;
	if (!transfer->from)
		return queue_copy(gpu, call, from);
	*transfer->from = from;
	return 0;
}

/* When the stream gets there, or now, where it does nothing. */
static int write_taken(const struct transfer *transfer, bool now)
{
	struct rd_gpu *gpu = transfer->gpu;
	int peer = peer_of(transfer);
	uint32_t *taken = &gpu->peer_flags[peer]->taken[gpu->comm->rank];
	uint32_t number = ++gpu->received[peer];

	if (!now)
		return gpu->ops->write_flag(gpu->device, gpu->stream, taken, number);
	rd_flag_write(taken, number);
	return 0;
}

static int take_offer(struct transfer *transfer, struct rd_call *call)
{
	struct rd_gpu *gpu = transfer->gpu;
	int peer = peer_of(transfer), moved = poll_flag(transfer), err = 0;
	struct rd_signature ours = sign(transfer);
	struct rd_offer offer;

	if (moved != RD_MOVED)
		return moved;
	/* Once: what has been checked must be what is used, and the sender may write there. */
	offer = gpu->peer_flags[peer]->offers[gpu->comm->rank];
	if (memcmp(&offer.signature, &ours, sizeof(ours)) != 0)
		return mismatch(gpu, peer, &offer.signature, &ours);
	if (call->count > 0 && offer.reachable)
		err = fetch(transfer, &offer);
	if (!err)
		err = write_taken(transfer, transfer->from || !offer.reachable);
	if (err)
		return err;
	return offer.reachable ? RD_DONE : go_unreachable(transfer, call);
}

/* ---- Feeding ------------------------------------------------------------------------------- */

static int next(struct rd_feed *base, struct rd_call *call)
{
	struct transfer *transfer = (struct transfer *)base;

	if (transfer->staged)
		return transfer->staging->next(transfer->staging, call);
	if (call->problem.root == call->problem.target)
		return transfer->from ? RD_DONE : copy_to_itself(transfer);
	if (!rd_gpu_goes_directly(transfer->gpu))
		return start_staged(transfer, call);
	return sends(transfer) ? offer(transfer, call) : take_offer(transfer, call);
}

static int take(struct rd_feed *base)
{
	struct transfer *transfer = (struct transfer *)base;

	return transfer->staging->take(transfer->staging);
}

static void pause_a_moment(struct rd_feed *base)
{
	struct transfer *transfer = (struct transfer *)base;
	uint32_t number;
	const uint32_t *flag;

	if (transfer->staged) {
		transfer->staging->pause(transfer->staging);
		return;
	}
	rd_gpu_watch(transfer->gpu);
	flag = flag_of(transfer, &number);
	rd_gpu_watch_pause(flag, number, transfer->rounds++);
}

static const struct rd_feed feeding = { .next = next, .take = take, .pause = pause_a_moment };

/* ---- Running ------------------------------------------------------------------------------- */

static struct transfer *feed_all(struct rd_stage *stage, struct rd_gpu *gpu, struct rd_task *tasks,
	int count, const char *from[])
{
	struct transfer *transfers = calloc((size_t)count, sizeof(*transfers));

	for (int i = 0; i < count && transfers; i++) {
		transfers[i] = (struct transfer){ .base = feeding,
			.gpu = gpu,
			.call = &tasks[i].call,
			.stage = stage,
			.staging = tasks[i].feed,
			.index = i,
			.from = from ? &from[i] : NULL };
		tasks[i].feed = &transfers[i].base;
	}
	return transfers;
}

/* The stream goes on when all has been taken. */
static int queue_waits(struct rd_gpu *gpu, const struct rd_task *tasks, int count)
{
	int err = 0;

	for (int peer = 0; peer < gpu->comm->size && rd_gpu_goes_directly(gpu) && !err; peer++) {
		bool sent = false;

		for (int i = 0; i < count; i++)
			sent |= rd_task_sends(&tasks[i]) && tasks[i].call.problem.target == peer;
		if (sent && peer != gpu->comm->rank)
			err = gpu->ops->wait_flag(gpu->device, gpu->stream,
				&gpu->host_flags->taken[peer], gpu->sent[peer]);
	}
	return err;
}

/* *unreachable: something that is to be captured cannot be mapped. */
static int run(struct rd_stage **stage, struct rd_gpu *gpu, struct rd_task *tasks, int count,
	const char *from[], bool *unreachable)
{
	int err = rd_stage_prepare(stage, gpu, tasks, count);
	struct transfer *transfers = err ? NULL : feed_all(*stage, gpu, tasks, count, from);

	if (!err && !transfers)
		err = rd_fail(RONDO_MEMORY, "no memory for %d transfers", count);
	if (err)
		rd_comm_fail(gpu->comm, err, gpu->comm->rank);
	/* Also after a failure: the comm must see its turns end. */
	err = rd_run(tasks, count);
	if (*stage)
		rd_stage_end(*stage, err);
	*unreachable = false;
	for (int i = 0; i < count && transfers; i++)
		*unreachable |= transfers[i].unreachable;
	free(transfers);
	return err;
}

int rd_transfers_run(struct rd_stage **stage, struct rd_gpu *gpu, struct rd_task *tasks, int count)
{
	bool unreachable;
	int err = run(stage, gpu, tasks, count, NULL, &unreachable);

	return err ? err : queue_waits(gpu, tasks, count);
}

int rd_transfers_exchange(struct rd_stage **stage, struct rd_gpu *gpu, struct rd_task *tasks,
	int count, const char *from[])
{
	bool unreachable;
	int err = run(stage, gpu, tasks, count, from, &unreachable);

	if (!err && unreachable)
		err = rd_fail(RONDO_UNSUPPORTED,
			"a transfer cannot be captured in a graph: its sender's buffer cannot be "
			"mapped by other processes, and would go through host memory");
	return err;
}
