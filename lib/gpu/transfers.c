#include "gpu/transfers.h"

#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/futex.h"
#include "gpu/exports.h"
#include "gpu/queue.h"
#include "gpu/sharers.h"
#include "gpu/watch.h"

/* Copies in the device's memory begin at multiples of this. */
#define ALIGNMENT 64

/* The transfers of one group while they are queued, or captured (stream is NULL, from is not). */
struct transfers {
	struct rd_gpu *gpu;
	struct rd_task *tasks;
	int count;
	void *stream;
	const char **from;
	bool *done;
	bool refused; /* some, which are captured: the others are exchanged all the same */
	size_t bounced; /* bytes of buffers that peers cannot map, so far */
	char *bounce;
};

static bool is_own(const struct rd_call *call)
{
	return call->problem.root == call->problem.target;
}

static bool sends(const struct transfers *transfers, const struct rd_call *call)
{
	return call->problem.root == transfers->gpu->comm->rank;
}

static int peer_of(const struct transfers *transfers, const struct rd_call *call)
{
	return sends(transfers, call) ? call->problem.target : call->problem.root;
}

static size_t size_of(const struct rd_call *call)
{
	return call->count * rondo_type_size(call->type);
}

int rd_transfers_missing_peer(const struct rd_gpu *gpu)
{
	const struct rd_host_flags *flags = gpu->host_flags;
	uint32_t awaited;

	for (int peer = 0; peer < gpu->comm->size && peer < RD_WORK_RANKS; peer++)
		if (!rd_flag_reached(&flags->taken[peer],
			    __atomic_load_n(&gpu->sent[peer], __ATOMIC_ACQUIRE)) ||
			!rd_flag_reached(&flags->offered[peer],
				__atomic_load_n(&gpu->received[peer], __ATOMIC_ACQUIRE)))
			return peer;
	awaited = __atomic_load_n(&gpu->awaited, __ATOMIC_ACQUIRE);
	return awaited ? (int)awaited - 1 : gpu->comm->rank;
}

uint32_t rd_transfers_moved(const struct rd_gpu *gpu)
{
	const struct rd_host_flags *flags = gpu->host_flags;
	uint32_t moved = 0;

	for (int peer = 0; peer < gpu->comm->size && peer < RD_WORK_RANKS; peer++)
		moved += __atomic_load_n(&gpu->sent[peer], __ATOMIC_ACQUIRE) +
			 __atomic_load_n(&gpu->received[peer], __ATOMIC_ACQUIRE) +
			 __atomic_load_n(&flags->offered[peer], __ATOMIC_ACQUIRE) +
			 __atomic_load_n(&flags->taken[peer], __ATOMIC_ACQUIRE);
	return moved;
}

/* ---- Sending ------------------------------------------------------------------------------- */

static struct rd_signature sign(const struct transfers *transfers, const struct rd_call *call)
{
	struct rd_signature signature = rd_signature_of(call);

	if (transfers->from)
		signature.form |= RD_FORM_CAPTURED;
	return signature;
}

/* Room for all of the group's sends: more is never needed, and memory that is in use stays. */
static int take_bounce(struct transfers *transfers, const struct rd_call *call, void **at)
{
	size_t all = 0;
	void *memory;
	int err = 0;

	for (int i = 0; i < transfers->count; i++)
		if (sends(transfers, &transfers->tasks[i].call))
			all += rd_round_up(size_of(&transfers->tasks[i].call), ALIGNMENT);
	if (!transfers->bounce) {
		err = rd_bounce_get(transfers->gpu, 0, call->in, all, &memory);
		transfers->bounce = memory;
	}
	if (err)
		return err;
	*at = transfers->bounce + transfers->bounced;
	transfers->bounced += rd_round_up(size_of(call), ALIGNMENT);
	return transfers->gpu->ops->copy(
		transfers->gpu->device, transfers->stream, *at, call->in, size_of(call));
}

static int describe(struct transfers *transfers, const struct rd_call *call,
	struct rd_buffer_location *location)
{
	struct rd_gpu *gpu = transfers->gpu;
	bool keep = transfers->from;
	size_t size = size_of(call);
	int err = rd_exports_describe(gpu, call->in, size, gpu->number, keep, location);
	void *at;

	if (err != RONDO_UNSUPPORTED || keep)
		return err;
	err = take_bounce(transfers, call, &at);
	return err ? err : rd_exports_describe(gpu, at, size, gpu->number, keep, location);
}

/* RD_MOVED: it is offered. The stream's write is queued before the receiver knows of the offer. */
static int offer(struct transfers *transfers, const struct rd_call *call)
{
	struct rd_gpu *gpu = transfers->gpu;
	int rank = gpu->comm->rank, peer = call->problem.target, err;
	uint32_t number = gpu->sent[peer] + 1;
	struct rd_offer *offer = &gpu->host_flags->offers[peer][number % RD_OFFERS];

	if (!rd_flag_reached(&gpu->host_flags->accepted[peer], number - RD_OFFERS))
		return RD_IDLE;
	offer->signature = sign(transfers, call);
	err = describe(transfers, call, &offer->in);
	offer->refused = transfers->from && err == RONDO_UNSUPPORTED;
	if (offer->refused)
		err = 0;
	transfers->refused |= offer->refused;
	if (!err && transfers->stream)
		err = rd_stream_write(gpu->ops, gpu->device, transfers->stream,
			&gpu->peer_flags[peer]->offered[rank], number);
	if (err)
		return err;
	__atomic_store_n(&gpu->sent[peer], number, __ATOMIC_RELEASE);
	rd_flag_write(&offer->number, number);
	return RD_MOVED;
}

/* ---- Receiving ----------------------------------------------------------------------------- */

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

static int queue_copy(const struct transfers *transfers, const struct rd_call *call,
	const char *from, uint32_t number)
{
	struct rd_gpu *gpu = transfers->gpu;
	int rank = gpu->comm->rank, peer = call->problem.root;
	int err = rd_stream_wait(
		gpu->ops, gpu->device, transfers->stream, &gpu->host_flags->offered[peer], number);

	if (!err)
		err = rd_queue_copy(gpu, transfers->stream, call->out, from, size_of(call));
	return err ? err
		   : rd_stream_write(gpu->ops, gpu->device, transfers->stream,
			     &gpu->peer_flags[peer]->taken[rank], number);
}

/* The sender's stream wrote nothing, and waits for nothing. */
static void take_captured(const struct transfers *transfers, int index, const char *from)
{
	struct rd_gpu *gpu = transfers->gpu;
	int peer = transfers->tasks[index].call.problem.root;

	transfers->from[index] = from;
	rd_flag_write(&gpu->host_flags->offered[peer], gpu->received[peer]);
	rd_flag_write(&gpu->peer_flags[peer]->taken[gpu->comm->rank], gpu->received[peer]);
}

/* RD_MOVED: the copy is queued. */
static int accept_offer(struct transfers *transfers, int index)
{
	const struct rd_call *call = &transfers->tasks[index].call;
	struct rd_gpu *gpu = transfers->gpu;
	int rank = gpu->comm->rank, peer = call->problem.root, err = 0;
	uint32_t number = gpu->received[peer] + 1;
	const struct rd_offer *there = &gpu->peer_flags[peer]->offers[rank][number % RD_OFFERS];
	struct rd_signature ours = sign(transfers, call);
	const char *from = NULL;
	struct rd_offer offer;

	if (!rd_flag_reached(&there->number, number))
		return RD_IDLE;
	/* Once: what has been checked must be what is used, and the sender may write there. */
	offer = *there;
	if (memcmp(&offer.signature, &ours, sizeof(ours)) != 0)
		return mismatch(gpu, peer, &offer.signature, &ours);
	transfers->refused |= offer.refused;
	if (call->count > 0 && !offer.refused) {
		from = rd_imports_reach(gpu, peer, &offer.in, size_of(call), true);
		if (!from)
			return RONDO_SYSTEM;
	}
	__atomic_store_n(&gpu->received[peer], number, __ATOMIC_RELEASE);
	if (transfers->from)
		take_captured(transfers, index, from);
	else
		err = queue_copy(transfers, call, from, number);
	if (err)
		return err;
	rd_flag_write(&gpu->peer_flags[peer]->accepted[rank], number);
	return RD_MOVED;
}

/* ---- Side by side -------------------------------------------------------------------------- */

static int copy_to_itself(const struct transfers *transfers, const struct rd_call *call)
{
	const struct rd_gpu *gpu = transfers->gpu;
	int err = 0;

	if (call->count > 0 && call->in != call->out && transfers->stream)
		err = gpu->ops->copy(
			gpu->device, transfers->stream, call->out, call->in, size_of(call));
	return err ? err : RD_MOVED;
}

static int move(struct transfers *transfers, int index)
{
	const struct rd_call *call = &transfers->tasks[index].call;

	if (is_own(call))
		return copy_to_itself(transfers, call);
	return sends(transfers, call) ? offer(transfers, call) : accept_offer(transfers, index);
}

/* An earlier transfer of the same pair and direction goes first. RD_MOVED: some moved; *left: those
   that did not, *stuck: the first of these. */
static int move_all(struct transfers *transfers, int *left, int *stuck)
{
	uint32_t blocked[2] = { 0, 0 }; /* by direction: a bit for each peer */
	int moved = RD_IDLE;

	*left = 0;
	for (int i = 0; i < transfers->count; i++) {
		const struct rd_call *call = &transfers->tasks[i].call;
		uint32_t line = 1u << peer_of(transfers, call);
		bool out = sends(transfers, call);
		int result = RD_IDLE;

		if (transfers->done[i])
			continue;
		if (is_own(call) || !(blocked[out] & line))
			result = move(transfers, i);
		if (result < 0)
			return result;
		if (result == RD_MOVED) {
			transfers->done[i] = true;
			moved = RD_MOVED;
			continue;
		}
		blocked[out] |= line;
		if ((*left)++ == 0)
			*stuck = i;
	}
	return moved;
}

/* A moment, or until the peer has done its part. */
static void rest(const struct transfers *transfers, int index, int round)
{
	const struct rd_call *call = &transfers->tasks[index].call;
	struct rd_gpu *gpu = transfers->gpu;
	int peer = peer_of(transfers, call);
	uint32_t number = (sends(transfers, call) ? gpu->sent : gpu->received)[peer] + 1;

	__atomic_store_n(&gpu->awaited, (uint32_t)peer + 1, __ATOMIC_RELEASE);
	if (sends(transfers, call))
		rd_gpu_watch_pause(&gpu->host_flags->accepted[peer], number - RD_OFFERS, round);
	else
		rd_gpu_watch_pause(
			&gpu->peer_flags[peer]->offers[gpu->comm->rank][number % RD_OFFERS].number,
			number, round);
}

static int report_silence(const struct transfers *transfers, int index, int64_t waited_ms)
{
	const struct rd_call *call = &transfers->tasks[index].call;
	struct rondo_comm *comm = transfers->gpu->comm;
	int peer = peer_of(transfers, call);

	rd_fail(RONDO_TIMEOUT, "rank %d waited %lld ms for rank %d to %s it on its device",
		comm->rank, (long long)waited_ms, peer,
		sends(transfers, call) ? "receive from" : "send to");
	return rd_comm_fail(comm, RONDO_TIMEOUT, peer);
}

/* The bound counts once the caller's stream has come to the transfers. */
static int run(struct transfers *transfers, uint32_t number)
{
	struct rd_gpu *gpu = transfers->gpu;
	const uint32_t *ready = &gpu->stream_flags->ready;
	int left = transfers->count, stuck = 0, reported_ms = 0;
	int64_t since_ns = 0;

	for (int round = 0; left > 0; round++) {
		int moved = move_all(transfers, &left, &stuck), err = rd_gpu_watch(gpu);
		int64_t now_ns = rd_clock_ns(), waited_ms;

		if (moved < 0 || err)
			return moved < 0 ? moved : err;
		if (moved == RD_MOVED ||
			(since_ns == 0 && number && !rd_flag_reached(ready, number)))
			since_ns = 0, round = 0;
		else if (since_ns == 0)
			since_ns = now_ns;
		waited_ms = since_ns ? (now_ns - since_ns) / 1000000 : 0;
		if (waited_ms > rd_comm_timeout_ms(gpu->comm))
			return report_silence(transfers, stuck, waited_ms);
		if (moved == RD_IDLE && left > 0) {
			rd_comm_slow(gpu->comm, &reported_ms, waited_ms,
				peer_of(transfers, &transfers->tasks[stuck].call),
				"in a transfer between devices");
			rest(transfers, stuck, round);
		}
	}
	__atomic_store_n(&gpu->awaited, 0, __ATOMIC_RELEASE);
	return 0;
}

/* A sharer queues its count of what it has taken before it accepts (sharers.h). */
static int await_accepted(struct rd_gpu *gpu, int peer)
{
	if (!rd_sharers_has(gpu, peer))
		return 0;
	return rd_gpu_watch_flag(
		gpu, &gpu->host_flags->accepted[peer], gpu->sent[peer], peer, gpu->number);
}

/* The stream goes on when all has been taken. */
static int end(const struct transfers *transfers)
{
	struct rd_gpu *gpu = transfers->gpu;
	struct rd_flag_batch batch = { .gpu = gpu, .stream = transfers->stream };
	int err = 0;

	for (int peer = 0; peer < gpu->comm->size && !err; peer++) {
		bool sent = false;

		for (int i = 0; i < transfers->count; i++)
			sent |= rd_task_sends(&transfers->tasks[i]) &&
				transfers->tasks[i].call.problem.target == peer;
		if (!sent || peer == gpu->comm->rank)
			continue;
		err = await_accepted(gpu, peer);
		rd_batch_wait(&batch, &gpu->host_flags->taken[peer], gpu->sent[peer]);
	}
	rd_batch_write(&batch, &gpu->stream_flags->finished, gpu->number);
	return err ? err : rd_batch_post(&batch);
}

int rd_transfers_queue(struct rd_gpu *gpu, struct rd_device_stream *device_stream,
	struct rd_task *tasks, int count)
{
	struct transfers transfers = {
		.gpu = gpu, .tasks = tasks, .count = count, .stream = device_stream->stream
	};
	int err = rd_queue_begin(gpu, device_stream, RD_QUEUED_TRANSFERS);

	if (err)
		return rd_comm_fail(gpu->comm, err, gpu->comm->rank);
	transfers.done = calloc((size_t)count, sizeof(*transfers.done));
	if (!transfers.done)
		err = rd_fail(RONDO_MEMORY, "no memory for %d transfers", count);
	for (int i = 0; i < count; i++)
		rd_task_number(&tasks[i]);
	if (!err)
		err = rd_stream_write(gpu->ops, gpu->device, transfers.stream,
			&gpu->stream_flags->ready, gpu->number);
	if (!err)
		err = run(&transfers, gpu->number);
	if (!err)
		err = end(&transfers);
	free(transfers.done);
	return err ? rd_queue_fail(gpu, device_stream, err) : 0;
}

int rd_transfers_exchange(struct rd_gpu *gpu, struct rd_task *tasks, int count, const char *from[])
{
	struct transfers transfers = { .gpu = gpu, .tasks = tasks, .count = count, .from = from };
	int err;

	transfers.done = calloc((size_t)count, sizeof(*transfers.done));
	if (!transfers.done)
		return rd_fail(RONDO_MEMORY, "no memory for %d transfers", count);
	err = run(&transfers, 0);
	free(transfers.done);
	if (err || !transfers.refused)
		return err;
	return rd_fail(RONDO_UNSUPPORTED,
		"rank %d: a transfer cannot be captured in a graph: other processes cannot map its "
		"sender's buffer, or the sender's graphs use %d others",
		gpu->comm->rank, RD_EXPORTS - RD_BOUNCES);
}
