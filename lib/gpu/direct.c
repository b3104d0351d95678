#include "gpu/direct.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "base/error.h"
#include "comm/plan_cache.h"
#include "base/futex.h"
#include "gpu/compile_direct.h"
#include "gpu/compile_messages.h"
#include "gpu/peers.h"
#include "gpu/watch.h"
#include "tuner/eligible.h"

/* ---- Work ---------------------------------------------------------------------------------- */

static bool runs_on_devices(const struct rd_algorithm *algorithm)
{
	return algorithm->on_devices;
}

/* *plan: NULL where no algorithm runs on devices. */
static int plan_for(struct rd_gpu *gpu, const struct rd_problem *given, const struct rd_plan **plan)
{
	struct rd_plan **kept = &gpu->plans[given->collective][given->root];
	struct rd_problem problem = *given;
	int err = 0;

	problem.layout = NULL;
	if (!*kept) {
		const struct rd_algorithm *algorithm = rd_algorithm_with(&problem, runs_on_devices);

		err = algorithm ? rd_plan_create(kept, algorithm, &problem) : 0;
		if (algorithm && !err)
			rd_warn_of_replacement(gpu->comm, given->collective, algorithm->name,
				"kernels run by direct access (RONDO_KERNEL)");
	}
	*plan = *kept;
	return err;
}

/* Decides by facts that all ranks share, so that all do the same. */
int rd_direct_work(
	struct rd_gpu *gpu, const struct rd_call *call, struct rd_work *work, bool *direct)
{
	bool meets = call->problem.collective == RD_BARRIER;
	bool empty = call->count == 0 && !call->vcounts && !meets;

	*direct = false;
	/* A function of the program's runs on no device. */
	if (gpu->kernel == RD_KERNEL_STAGED || gpu->messages || empty ||
		(call->user_op && call->user_op->combine))
		return 0;

	const struct rd_plan *plan = NULL;
	int err = meets ? 0 : plan_for(gpu, &call->problem, &plan);

	if (err || (!plan && !meets))
		return err;
	memset(work, 0, sizeof(*work));
	work->abort_flag = &gpu->host_flags->abort_flag;
	/* The same on all ranks: algorithms with `on_devices` write plans that devices run. */
	*direct = rd_compile_direct(work, plan, call);
	assert(*direct);
	return 0;
}

/* Bytes for each block of a kernel, up to the number of blocks. */
#define BYTES_A_BLOCK (32 << 10)

/* Pairwise calls: only two ranks have the lengths of their blocks, so their hash covers these. */
static uint32_t sign_pair(const struct rd_call *call, uint32_t hash, int peer)
{
	int rank = call->problem.rank, first = rank < peer ? rank : peer;
	uint64_t there = rd_compile_pair_size(call, first, rank + peer - first);
	uint64_t back = rd_compile_pair_size(call, rank + peer - first, first);

	for (int shift = 0; shift < 64; shift += 8) {
		hash = (hash ^ (there >> shift & 0xff)) * 16777619u;
		hash = (hash ^ (back >> shift & 0xff)) * 16777619u;
	}
	return hash;
}

static void sign(struct rd_work *work, const struct rd_call *call)
{
	bool pairwise = call->vcounts && call->vcounts->pairwise;
	uint32_t hash = rd_call_hash(call);

	for (int peer = 0; peer < work->size; peer++)
		work->signatures[peer] =
			pairwise && peer != work->rank ? sign_pair(call, hash, peer) : hash;
}

void rd_direct_fuse(struct rd_gpu *gpu, const struct rd_call *call, struct rd_work *work)
{
	bool pairwise = call->vcounts && call->vcounts->pairwise;
	size_t size = rd_blocks(&call->problem) * call->count * rondo_type_size(call->type);
	size_t blocks = size / BYTES_A_BLOCK + 1;

	work->fused = 1;
	if (size <= RD_LL_BUFFER_SIZE - 8 && !call->vcounts)
		rd_compile_small(work, call);
	/* Pairwise, no rank has the lengths of all others: it takes all blocks. */
	work->blocks = blocks < (size_t)gpu->blocks && !pairwise ? (int)blocks : gpu->blocks;
	sign(work, call);
	work->timeout_ns = gpu->comm->settings.timeout_ms * UINT64_C(1000000);
	memcpy(work->peer_device_flags, gpu->peer_device_flags, sizeof(work->peer_device_flags));
}

/* ---- Announcements ------------------------------------------------------------------------- */

/* Bytes of a rank's input that others address in this call. With different lengths, only the blocks
   that a peer and this rank exchange. */
static size_t in_size_of(const struct rd_call *call, int rank)
{
	struct rd_problem there = call->problem;

	if (call->vcounts && rank != there.rank && there.collective != RD_REDUCE_SCATTER)
		return rd_compile_pair_size(call, rank, there.rank);
	if (call->vcounts)
		return rd_call_in_size(call);
	there.rank = rank;
	return rd_in_blocks(&there) * call->count * rondo_type_size(call->type);
}

static size_t out_size_of(const struct rd_call *call, int rank)
{
	struct rd_problem there = call->problem;

	if (!rd_collective_writes_far(there.collective))
		return 0;
	if (call->vcounts)
		return rank == there.rank ? rd_call_out_size(call)
					  : rd_compile_pair_size(call, there.rank, rank);
	there.rank = rank;
	return rd_out_blocks(&there) * call->count * rondo_type_size(call->type);
}

static int mismatch(struct rd_gpu *gpu, int peer, const struct rd_signature *theirs,
	const struct rd_signature *ours)
{
	char there[128], here[128];

	rd_signature_print(theirs, there, sizeof(there));
	rd_signature_print(ours, here, sizeof(here));
	rd_fail(RONDO_MISMATCH, "rank %d is in %s, rank %d in %s", peer, there, gpu->comm->rank,
		here);
	return rd_comm_fail(gpu->comm, RONDO_MISMATCH, peer);
}

static struct rd_announcement *announcement_of(struct rd_gpu *gpu, int rank, uint32_t number)
{
	return &gpu->peer_flags[rank]->announcements[number % 2];
}

static bool is_pairwise(const struct rd_call *call)
{
	return call->vcounts && call->vcounts->pairwise;
}

/* The ranks compare it. */
static struct rd_signature signature_of(const struct rd_call *call, bool captured)
{
	struct rd_signature signature = rd_signature_of(call);

	if (captured)
		signature.form |= RD_FORM_CAPTURED;
	return signature;
}

static void write_announcement(struct rd_gpu *gpu, const struct rd_call *call, bool captured,
	const struct rd_work *work, uint32_t number)
{
	int rank = gpu->comm->rank;
	struct rd_announcement *announcement = announcement_of(gpu, rank, number);

	size_t in_size = in_size_of(call, rank), out_size = out_size_of(call, rank);

	announcement->signature = signature_of(call, captured);
	announcement->factor = work->factors[rank];
	/* A small call leaves peers' buffers alone. */
	if (!work->small) {
		rd_peers_describe(gpu, call->in, in_size, &announcement->in);
		rd_peers_describe(gpu, call->out, out_size, &announcement->out);
	}
	announcement->reachable = work->small || ((in_size == 0 || announcement->in.id) &&
							 (out_size == 0 || announcement->out.id));
	for (int peer = 0; peer < work->size; peer++) {
		announcement->gives[peer].in_at = work->in_for[peer];
		announcement->gives[peer].out_at = work->out_for[peer];
		announcement->gives[peer].size =
			is_pairwise(call) ? rd_compile_pair_size(call, rank, peer) : 0;
	}
	rd_flag_write(&announcement->number, number);
}

static int check_length(struct rd_gpu *gpu, const struct rd_call *call, int peer,
	const struct rd_announcement *announcement)
{
	int rank = gpu->comm->rank;
	size_t wanted = rd_compile_pair_size(call, peer, rank);

	if (announcement->gives[rank].size == wanted)
		return 0;
	rd_fail(RONDO_MISMATCH, "%s: rank %d has %llu bytes for rank %d, which expects %zu",
		rd_collective_name(call->problem.collective), peer,
		(unsigned long long)announcement->gives[rank].size, rank, wanted);
	return rd_comm_fail(gpu->comm, RONDO_MISMATCH, peer);
}

/* Waits until all ranks have announced the call, and checks that it is the same on all. */
static int read_announcements(struct rd_gpu *gpu, const struct rd_call *call, bool captured,
	uint32_t number, struct rd_announcement *announcements)
{
	struct rd_signature ours = signature_of(call, captured);

	for (int peer = 0; peer < gpu->comm->size; peer++) {
		const struct rd_announcement *shared = announcement_of(gpu, peer, number);
		struct rd_announcement *announcement = &announcements[peer];
		int err = rd_gpu_watch_flag(gpu, &shared->number, number, peer);

		if (err)
			return err;
		*announcement = *shared;
		if (memcmp(&announcement->signature, &ours, sizeof(ours)) != 0)
			return mismatch(gpu, peer, &announcement->signature, &ours);
		if (is_pairwise(call) && peer != gpu->comm->rank)
			err = check_length(gpu, call, peer, announcement);
		if (err)
			return err;
	}
	return 0;
}

/* All ranks see the same announcements, and decide alike. */
static bool can_reach_all(const struct rd_announcement *announcements, int size)
{
	for (int rank = 0; rank < size; rank++)
		if (!announcements[rank].reachable)
			return false;
	return true;
}

/* The part of a peer's buffer that this rank addresses; NULL with the reason. */
static char *reach(struct rd_gpu *gpu, int peer, const struct rd_buffer_location *location,
	uint64_t at, size_t size, bool keep)
{
	char *base = at > SIZE_MAX - size
			     ? NULL
			     : rd_peers_reach(gpu, peer, location, (size_t)at + size, keep);

	if (at > SIZE_MAX - size)
		rd_fail(RONDO_PROTOCOL, "rank %d says its buffer is longer than memory", peer);
	return base ? base + at : NULL;
}

static int fill_in(struct rd_gpu *gpu, const struct rd_call *call, bool captured,
	const struct rd_announcement *announcements, struct rd_work *work)
{
	for (int rank = 0; rank < work->size; rank++) {
		const struct rd_announcement *announcement = &announcements[rank];
		size_t in_size = in_size_of(call, rank);
		size_t out_size = out_size_of(call, rank);

		if (rank == work->rank || work->small)
			continue;
		work->factors[rank] = announcement->factor;
		if (in_size > 0) {
			work->in[rank] = reach(gpu, rank, &announcement->in,
				announcement->gives[work->rank].in_at, in_size, captured);
			if (!work->in[rank])
				return RONDO_SYSTEM;
		}
		if (out_size > 0) {
			work->out[rank] = reach(gpu, rank, &announcement->out,
				announcement->gives[work->rank].out_at, out_size, captured);
			if (!work->out[rank])
				return RONDO_SYSTEM;
		}
	}
	work->in[work->rank] = call->in;
	work->out[work->rank] = call->out;
	return 0;
}

int rd_direct_exchange(struct rd_gpu *gpu, const struct rd_call *call, bool captured,
	struct rd_work *work, bool *direct)
{
	/* Each is read once: a peer may write to its host flags at any time, and the copy that was
	   checked must be the one that is used. */
	struct rd_announcement announcements[RD_WORK_RANKS];
	uint32_t number = ++gpu->announced;
	int err;

	if (gpu->kernel == RD_KERNEL_FUSED)
		rd_direct_fuse(gpu, call, work);
	write_announcement(gpu, call, captured, work, number);
	err = read_announcements(gpu, call, captured, number, announcements);
	if (err)
		return err;
	*direct = can_reach_all(announcements, gpu->comm->size);
	if (!*direct)
		return 0;
	return fill_in(gpu, call, captured, announcements, work);
}

/* ---- Queueing ------------------------------------------------------------------------------ */

/* A barrier on the gpu's stream: flags in the host flags of all, then all flags of our own. */
static int queue_barrier(struct rd_gpu *gpu, size_t flag_at, uint32_t number)
{
	const struct rd_device_ops *ops = gpu->ops;
	int rank = gpu->comm->rank, size = gpu->comm->size, err = 0;

	for (int peer = 0; peer < size && !err; peer++)
		if (peer != rank)
			err = ops->write_flag(gpu->device, gpu->stream,
				(uint32_t *)((char *)gpu->peer_flags[peer] + flag_at) + rank,
				number);
	for (int peer = 0; peer < size && !err; peer++)
		if (peer != rank)
			err = ops->wait_flag(gpu->device, gpu->stream,
				(uint32_t *)((char *)gpu->host_flags + flag_at) + peer, number);
	return err;
}

int rd_direct_queue(struct rd_gpu *gpu, struct rd_work *work)
{
	uint32_t number = gpu->announced;
	int err = 0;

	if (!work->fused)
		err = queue_barrier(gpu, offsetof(struct rd_host_flags, entered), number);
	if (!err)
		err = gpu->ops->run(gpu->device, gpu->stream, work);
	if (!err && !work->fused)
		err = queue_barrier(gpu, offsetof(struct rd_host_flags, left), number);
	return err;
}
