#include "gpu/direct.h"

#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "comm/plan_cache.h"
#include "base/futex.h"
#include "gpu/exports.h"
#include "gpu/compile_direct.h"
#include "gpu/compile_messages.h"
#include "gpu/element.h"
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

void rd_direct_work(struct rd_gpu *gpu, const struct rd_call *call, const struct rd_plan *plan,
	struct rd_work *work)
{
	bool direct;

	memset(work, 0, sizeof(*work));
	work->abort_flag = &gpu->host_flags->abort_flag;
	direct = rd_compile_direct(work, plan, call);
	/* Algorithms with `on_devices` write plans that devices run. */
	assert(direct);
	(void)direct;
}

/* Decides by facts that all ranks share, so that all do the same. */
int rd_direct_plan(
	struct rd_gpu *gpu, const struct rd_call *call, const struct rd_plan **plan, bool *direct)
{
	bool meets = call->problem.collective == RD_BARRIER;
	bool empty = call->count == 0 && !call->vcounts && !meets;

	*plan = NULL;
	*direct = false;
	/* A function of the program's runs on no device. */
	if (gpu->kernel == RD_KERNEL_STAGED || gpu->messages || empty || rd_gpu_lacks_type(call) ||
		(call->user_op && call->user_op->combine))
		return 0;

	int err = meets ? 0 : plan_for(gpu, &call->problem, plan);

	*direct = !err && (*plan || meets);
	return err;
}

int rd_direct_work_of(
	struct rd_gpu *gpu, const struct rd_call *call, int rank, struct rd_work *work)
{
	struct rd_call there = *call;
	const struct rd_algorithm *algorithm;
	struct rd_plan *plan;
	int err;

	there.problem.rank = rank;
	there.problem.layout = NULL;
	algorithm = rd_algorithm_with(&there.problem, runs_on_devices);
	err = rd_plan_create(&plan, algorithm, &there.problem);
	if (err)
		return err;
	rd_direct_work(gpu, &there, plan, work);
	rd_plan_destroy(plan);
	return 0;
}

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

static uint64_t timeout_of(const struct rd_gpu *gpu)
{
	return rd_comm_timeout_ms(gpu->comm) * UINT64_C(1000000);
}

bool rd_direct_is_small(const struct rd_call *call)
{
	size_t size = rd_blocks(&call->problem) * call->count * rondo_type_size(call->type);

	return size <= RD_LL_BUFFER_SIZE - 8 && !call->vcounts;
}

void rd_direct_fuse(struct rd_gpu *gpu, const struct rd_call *call, struct rd_work *work)
{
	bool pairwise = call->vcounts && call->vcounts->pairwise;
	size_t size = rd_blocks(&call->problem) * call->count * rondo_type_size(call->type);
	size_t blocks = size / RD_WORK_BLOCK_SIZE + 1;

	work->fused = 1;
	/* Pairwise, no rank has the lengths of all others: it takes all blocks. */
	work->blocks = blocks < (size_t)gpu->blocks && !pairwise ? (int)blocks : gpu->blocks;
	sign(work, call);
	work->timeout_ns = timeout_of(gpu);
	memcpy(work->peer_device_flags, gpu->peer_device_flags, sizeof(work->peer_device_flags));
}

void rd_direct_small_work(
	struct rd_gpu *gpu, const struct rd_call *call, struct rd_small_work *work)
{
	rd_compile_small(work, call);
	work->signature = rd_call_hash(call);
	work->timeout_ns = timeout_of(gpu);
	work->abort_flag = &gpu->host_flags->abort_flag;
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

	if (call->vcounts && !rd_collective_writes_far(there.collective))
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

static struct rd_announcement *announcement_of(struct rd_gpu *gpu, int rank, uint32_t announced)
{
	return &gpu->peer_flags[rank]->announcements[announced % RD_ANNOUNCEMENTS];
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

/* In place of a buffer that peers cannot map: memory that they can. */
static int describe(struct rd_gpu *gpu, int which, void **at, size_t size, uint32_t number,
	bool captured, struct rd_buffer_location *location)
{
	int err = rd_exports_describe(gpu, *at, size, number, captured, location);

	if (err != RONDO_UNSUPPORTED || captured)
		return err;
	err = rd_bounce_get(gpu, which, *at, size, at);
	return err ? err : rd_exports_describe(gpu, *at, size, number, captured, location);
}

int rd_direct_announce(struct rd_gpu *gpu, struct rd_call *call, const struct rd_work *work,
	bool captured, uint32_t number, bool *waits)
{
	int rank = gpu->comm->rank, err;
	struct rd_announcement *announcement = announcement_of(gpu, rank, gpu->announced + 1);
	size_t in_size = in_size_of(call, rank), out_size = out_size_of(call, rank);
	void *in = (void *)call->in, *out = call->out;

	err = describe(gpu, 0, &in, in_size, number, captured, &announcement->in);
	if (!err)
		err = describe(gpu, 1, &out, out_size, number, captured, &announcement->out);
	/* All ranks hear of it, and refuse the capture. */
	announcement->refused = captured && err == RONDO_UNSUPPORTED;
	if (err && !announcement->refused)
		return err;
	call->in = in;
	call->out = out;
	announcement->signature = signature_of(call, captured);
	announcement->factor = work->factors[rank];
	announcement->fresh = rd_exports_is_fresh(gpu, &announcement->in) ||
			      rd_exports_is_fresh(gpu, &announcement->out);
	for (int peer = 0; peer < work->size; peer++) {
		announcement->gives[peer].in_at = work->in_for[peer];
		announcement->gives[peer].out_at = work->out_for[peer];
		announcement->gives[peer].size =
			is_pairwise(call) ? rd_compile_pair_size(call, rank, peer) : 0;
	}
	*waits = announcement->fresh || call->vcounts;
	/* The progress thread reads it. */
	__atomic_store_n(&gpu->announced, gpu->announced + 1, __ATOMIC_RELEASE);
	rd_flag_write(&announcement->number, gpu->announced);
	return 0;
}

/* ---- Addresses ----------------------------------------------------------------------------- */

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

static int lost(struct rd_gpu *gpu, int peer, uint32_t announced)
{
	rd_fail(RONDO_PROTOCOL, "rank %d overwrote its announcement %u before rank %d had read it",
		peer, announced, gpu->comm->rank);
	return rd_comm_fail(gpu->comm, RONDO_PROTOCOL, peer);
}

/* The same on all ranks: the comm goes on. */
static int refused_by(const struct rd_gpu *gpu, const struct rd_announcement *announcements)
{
	for (int peer = 0; peer < gpu->comm->size; peer++)
		if (announcements[peer].refused)
			return rd_fail(RONDO_UNSUPPORTED,
				"the call cannot be captured in a graph: other processes cannot "
				"map a buffer of rank %d, or its graphs use %d others",
				peer, RD_EXPORTS - RD_BOUNCES);
	return 0;
}

/* Waits until all ranks have announced the call, and checks that it is the same on all. */
static int read_announcements(
	struct rd_gpu *gpu, const struct rd_direct_job *job, struct rd_announcement *announcements)
{
	struct rd_signature ours = signature_of(job->call, job->captured);

	for (int peer = 0; peer < gpu->comm->size; peer++) {
		const struct rd_announcement *shared = announcement_of(gpu, peer, job->announced);
		struct rd_announcement *announcement = &announcements[peer];
		int err =
			rd_gpu_watch_flag(gpu, &shared->number, job->announced, peer, job->number);

		if (err)
			return err;
		*announcement = *shared;
		if (announcement->number != job->announced)
			return lost(gpu, peer, job->announced);
		if (memcmp(&announcement->signature, &ours, sizeof(ours)) != 0)
			return mismatch(gpu, peer, &announcement->signature, &ours);
		if (is_pairwise(job->call) && peer != gpu->comm->rank)
			err = check_length(gpu, job->call, peer, announcement);
		if (err)
			return err;
	}
	return refused_by(gpu, announcements);
}

/*
 * Where some ranks' buffers are not mapped by all yet, and others' are, the first of the former
 * does everyone's part: it waits in its call, and can map. The others' streams may be waiting
 * already, behind a thread that has locked the driver.
 */
static uint32_t part_of(const struct rd_gpu *gpu, const struct rd_direct_job *job,
	const struct rd_announcement *announcements)
{
	int size = gpu->comm->size, fresh = 0, first = -1;

	for (int rank = size - 1; rank >= 0; rank--)
		if (announcements[rank].fresh) {
			first = rank;
			fresh++;
		}
	/* Then all ranks wait in the call. */
	if (fresh == 0 || fresh == size || job->captured || job->call->vcounts)
		return RD_PART_OWN;
	return first == gpu->comm->rank ? RD_PART_ALL : RD_PART_NONE;
}

/* The part of a peer's buffer that this rank addresses; NULL with the reason. */
static char *reach(struct rd_gpu *gpu, int peer, const struct rd_buffer_location *location,
	uint64_t at, size_t size, bool maps)
{
	char *base = at > SIZE_MAX - size
			     ? NULL
			     : rd_imports_reach(gpu, peer, location, (size_t)at + size, maps);

	if (at > SIZE_MAX - size)
		rd_fail(RONDO_PROTOCOL, "rank %d says its buffer is longer than memory", peer);
	return base ? base + at : NULL;
}

static int fill_in_peer(struct rd_gpu *gpu, const struct rd_direct_job *job, int peer,
	const struct rd_announcement *announcement, struct rd_buffer_addresses *addresses)
{
	size_t in_size = in_size_of(job->call, peer), out_size = out_size_of(job->call, peer);
	int rank = gpu->comm->rank;

	addresses->factors[peer] = announcement->factor;
	if (in_size > 0) {
		addresses->in[peer] = reach(gpu, peer, &announcement->in,
			announcement->gives[rank].in_at, in_size, job->waits);
		if (!addresses->in[peer])
			return RONDO_SYSTEM;
	}
	if (out_size > 0) {
		addresses->out[peer] = reach(gpu, peer, &announcement->out,
			announcement->gives[rank].out_at, out_size, job->waits);
		if (!addresses->out[peer])
			return RONDO_SYSTEM;
	}
	return 0;
}

static int fill_in(struct rd_gpu *gpu, const struct rd_direct_job *job,
	const struct rd_announcement *announcements, struct rd_buffer_addresses *addresses)
{
	int rank = gpu->comm->rank, err = 0;

	for (int peer = 0; peer < gpu->comm->size && !err; peer++)
		if (peer != rank)
			err = fill_in_peer(gpu, job, peer, &announcements[peer], addresses);
	addresses->in[rank] = job->call->in;
	addresses->out[rank] = job->call->out;
	addresses->factors[rank] = announcements[rank].factor;
	return err;
}

/* Another rank's device moves these in this call; this rank's may in the next ones. */
static void note_buffers(struct rd_gpu *gpu, const struct rd_announcement *announcements)
{
	for (int peer = 0; peer < gpu->comm->size; peer++) {
		if (peer == gpu->comm->rank)
			continue;
		rd_imports_note(gpu, peer, &announcements[peer].in);
		rd_imports_note(gpu, peer, &announcements[peer].out);
	}
}

int rd_direct_map(
	struct rd_gpu *gpu, const struct rd_direct_job *job, struct rd_buffer_addresses *addresses)
{
	/* Each is read once: a peer may write to its host flags at any time, and the copy that was
	   checked must be the one that is used. */
	struct rd_announcement announcements[RD_WORK_RANKS];
	int err = read_announcements(gpu, job, announcements);

	if (err)
		return err;
	addresses->part = part_of(gpu, job, announcements);
	if (addresses->part == RD_PART_NONE)
		note_buffers(gpu, announcements);
	else
		err = fill_in(gpu, job, announcements, addresses);
	if (!err)
		rd_flag_write(&gpu->own_flags->mapped, job->announced);
	return err;
}
