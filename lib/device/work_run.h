/*
 * How a device runs work (work.h): what one block of the kernel does. nvcc compiles it for each
 * element type (cuda/kernels.cu), and a C++ compiler, for the tests' driver.
 *
 * A fused kernel has its barriers inside: block b of a rank exchanges flags with block b of every
 * peer. All blocks of all ranks must be resident at once; lib/gpu sees to that.
 *
 * The includer defines, besides the names that flags_run.h lists:
 *
 *	THREAD	the calling thread's number in the block
 *	NEXT_PEER(peer)	the thread's next peer after this one; its first is THREAD
 *	BLOCK, ALL_BLOCKS	the block's number, and how many the kernel has
 *	SYNC_BLOCK()	waits for all threads of the block
 *	TYPED, ELEMENTS	a template's head, and the type that depends on its element type: it has
 *			`size`, bytes of an element
 *	KEEP_LOOP	before a loop: the compiler does not unroll it
 *
 * and defines the functions on elements that are declared here.
 */
#ifndef RD_WORK_RUN_H
#define RD_WORK_RUN_H

#include "device/flags_run.h"

/* A block's threads share it. Filled from struct rd_work, and from what peers send. */
struct block {
	const char *in[RD_WORK_RANKS];
	char *out[RD_WORK_RANKS];
	uint64_t factors[RD_WORK_RANKS];
	uint32_t epoch;
	int failed;
};

/* The thread's share of a COMBINE step. */
TYPED static ON_DEVICE void combine(const struct rd_work *work, const struct block *block,
	const struct rd_work_step *step, ELEMENTS elements);
/* The thread's share of a FETCH or SPREAD step of `size` bytes. */
static ON_DEVICE void spread_bytes(const struct rd_work *work, const struct block *block,
	const struct rd_work_step *step, size_t size);
/* The thread's share of a SWAP step: `theirs` goes to `here`, `ours` to `there`. */
static ON_DEVICE void swap_bytes(
	char *here, const char *theirs, char *there, const char *ours, size_t size);
/* ---- Barriers ------------------------------------------------------------------------------ */

static ON_DEVICE void send_entry(const struct rd_work *work, uint32_t epoch, int peer)
{
	struct rd_device_entry *entry = &work->peer_device_flags[peer]->entered[work->rank][BLOCK];

	store_ll(&entry->in, (uint64_t)work->in[work->rank] + work->in_for[peer], epoch);
	store_ll(&entry->out, (uint64_t)work->out[work->rank] + work->out_for[peer], epoch);
	store_ll(&entry->factor, work->factors[work->rank], epoch);
	store_ll(&entry->signature, work->signatures[peer], epoch);
}

static ON_DEVICE bool receive_entry(const struct rd_work *work, struct block *block, int peer)
{
	const struct rd_device_entry *entry =
		&work->peer_device_flags[work->rank]->entered[peer][BLOCK];
	struct wait wait = { 0, 0 };
	uint4 in, out, factor, signature;

	for (;;) {
		in = load_ll(&entry->in);
		out = load_ll(&entry->out);
		factor = load_ll(&entry->factor);
		signature = load_ll(&entry->signature);
		if (is_complete(in, block->epoch) && is_complete(out, block->epoch) &&
			is_complete(factor, block->epoch) && is_complete(signature, block->epoch))
			break;
		if (gave_up(work->abort_flag, work->timeout_ns, &wait, peer))
			return false;
		REST(wait.polls);
	}
	if (signature.x != work->signatures[peer]) {
		report(work->abort_flag, peer, RD_ABORT_MISMATCH);
		return false;
	}
	if (work->exchanges) {
		block->in[peer] = (const char *)data_of(in);
		block->out[peer] = (char *)data_of(out);
		block->factors[peer] = data_of(factor);
	}
	return true;
}

/* One thread a peer, where there are several. The first fence puts earlier kernels' writes before
   our flags, the second one puts peers' flags before our reads of their data. */
static ON_DEVICE void enter_barrier(const struct rd_work *work, struct block *block)
{
	for (int peer = THREAD; peer < work->size; peer = NEXT_PEER(peer))
		if (peer != work->rank) {
			fence();
			send_entry(work, block->epoch, peer);
		}
	for (int peer = THREAD; peer < work->size; peer = NEXT_PEER(peer))
		if (peer != work->rank) {
			if (!receive_entry(work, block, peer)) {
				block->failed = 1;
				break;
			}
			fence();
		}
	SYNC_BLOCK();
}

/* The fence puts our accesses to peers' memory before our flags: after these they write it anew. */
static ON_DEVICE void leave_barrier(const struct rd_work *work, const struct block *block)
{
	struct rd_device_flags *const *flags = work->peer_device_flags;

	SYNC_BLOCK();
	for (int peer = THREAD; peer < work->size; peer = NEXT_PEER(peer))
		if (peer != work->rank) {
			fence();
			set_flag(&flags[peer]->left[work->rank][BLOCK], block->epoch);
		}
	for (int peer = THREAD; peer < work->size; peer = NEXT_PEER(peer))
		if (peer != work->rank &&
			!await_flag(work->abort_flag, work->timeout_ns,
				&flags[work->rank]->left[peer][BLOCK], block->epoch, peer))
			break;
	SYNC_BLOCK();
}

/* ---- Steps --------------------------------------------------------------------------------- */

/* The ranks [first, end) whose outputs a FETCH or SPREAD writes. */
static ON_DEVICE int first_to(const struct rd_work *work, const struct rd_work_step *step)
{
	return step->kind == RD_WORK_SPREAD ? 0 : work->rank;
}

static ON_DEVICE int end_to(const struct rd_work *work, const struct rd_work_step *step)
{
	return step->kind == RD_WORK_SPREAD ? work->size : work->rank + 1;
}

/* Where it writes in a rank's output. */
static ON_DEVICE char *place_at(const struct rd_work *work, const struct block *block,
	const struct rd_work_step *step, int rank)
{
	return block->out[rank] + (rank == work->rank ? step->out_at : step->theirs_at);
}

TYPED static ON_DEVICE void run_step(const struct rd_work *work, const struct block *block,
	const struct rd_work_step *step, ELEMENTS elements)
{
	size_t size = step->count * elements.size;

	/* A rank without elements may have no buffer. */
	if (size == 0)
		return;
	if (step->kind == RD_WORK_FETCH || step->kind == RD_WORK_SPREAD)
		spread_bytes(work, block, step, size);
	else if (step->kind == RD_WORK_SWAP)
		swap_bytes(block->out[work->rank] + step->out_at,
			block->in[step->peer] + step->in_at,
			block->out[step->peer] + step->theirs_at,
			block->in[work->rank] + step->ours_at, size);
	else
		combine(work, block, step, elements);
}

/* ---- Addresses ------------------------------------------------------------------------------- */

/* For the many blocks of the kernel behind this one. */
static ON_DEVICE void resolve(const struct rd_work *work, const struct block *block)
{
	struct rd_buffer_addresses *resolved = work->resolved;

	for (int rank = THREAD; rank < RD_WORK_RANKS; rank = NEXT_PEER(rank)) {
		resolved->in[rank] = block->in[rank];
		resolved->out[rank] = block->out[rank];
		resolved->factors[rank] = block->factors[rank];
	}
	if (THREAD == 0)
		resolved->part = block->failed ? RD_PART_NONE : RD_PART_OWN;
}

/* ---- The block ----------------------------------------------------------------------------- */

/* Where the stream has the barriers, it also passes them once the host stops the work: peers'
   memory may be gone then, so nothing is touched. */
TYPED static ON_DEVICE void run_block(
	const struct rd_work *work, struct block *block, ELEMENTS elements)
{
	struct rd_device_flags *own = work->peer_device_flags[work->rank];

	if (THREAD == 0) {
		block->failed = !work->fused &&
				((work->abort_flag && load_flag(&work->abort_flag->stop)) ||
					(work->addresses && work->addresses->part == RD_PART_NONE));
		block->epoch = work->fused ? own->epochs[BLOCK] + 1 : 0;
	}
	for (int rank = THREAD; rank < RD_WORK_RANKS; rank = NEXT_PEER(rank)) {
		block->in[rank] = work->addresses ? work->addresses->in[rank] : work->in[rank];
		block->out[rank] = work->addresses ? work->addresses->out[rank] : work->out[rank];
		block->factors[rank] =
			work->addresses ? work->addresses->factors[rank] : work->factors[rank];
	}
	SYNC_BLOCK();
	if (work->resolves) {
		resolve(work, block);
		return;
	}
	if (work->fused)
		enter_barrier(work, block);
	KEEP_LOOP
	for (int i = 0; i < work->step_count && !block->failed; i++)
		run_step(work, block, &work->steps[i], elements);
	if (work->fused && !block->failed)
		leave_barrier(work, block);
	SYNC_BLOCK();
	if (work->fused && THREAD == 0)
		own->epochs[BLOCK] = block->epoch;
}

#endif
