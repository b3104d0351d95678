/*
 * How a device runs work (work.h): what one block of the kernel does. nvcc compiles it for each
 * element type (cuda/kernels.cu), and the C compiler for emulated GPUs (emulated/work.c).
 *
 * A fused kernel has its barriers inside: block b of a rank exchanges flags with block b of every
 * peer. All blocks of all ranks must be resident at once; lib/gpu sees to that.
 *
 * A small call has no barrier. Each rank stores its data for a peer in that peer's LL buffer, a
 * flag beside every 8 bytes, and makes its output from its own LL buffers. All ranks exchange
 * signatures, so two LL buffers in turn suffice: a rank in call e + 2 received in call e + 1 from
 * every peer, and these had finished call e. The idea is NCCL's "LL" protocol.
 *
 * The includer defines, besides the names that flags_run.h lists:
 *
 *	THREAD, THREADS_HERE	the calling thread's number in the block, and the block's threads
 *	NEXT_PEER(peer)	the thread's next peer after this one; its first is THREAD
 *	BLOCK, ALL_BLOCKS	the block's number, and how many the kernel has
 *	SYNC_BLOCK()	waits for all threads of the block
 *	TYPED, ELEMENTS, SUMS	a template's head, and the types that depend on its element type:
 *			ELEMENTS has `size`, bytes of an element, and SUMS holds a unit's sums
 *	UNROLL, KEEP_LOOP	before a loop: the compiler unrolls it, or does not
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

/* 8 bytes of a small call. */
union unit {
	uint64_t bits;
	unsigned char bytes[8];
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
/* Each element times the factor, rounded to the type at once, as in host memory. */
TYPED static ON_DEVICE union unit scale_unit(
	const struct rd_work *work, union unit unit, uint64_t factor, ELEMENTS elements);
/* Starts the sums with rank 0's unit, and combines them with each further one. */
TYPED static ON_DEVICE void add_unit(
	const struct rd_work *work, SUMS *sums, int rank, union unit unit, ELEMENTS elements);
/* The sums as elements, divided for an average. */
TYPED static ON_DEVICE union unit finish_unit(
	const struct rd_work *work, const SUMS *sums, ELEMENTS elements);

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

/* ---- Small calls ---------------------------------------------------------------------------- */

/* False: it gave up. */
static ON_DEVICE bool receive_unit(const struct rd_work *work, const struct rd_ll *ll, int peer,
	uint32_t epoch, union unit *unit)
{
	struct wait wait = { 0, 0 };
	uint4 words = load_ll(ll);

	while (!is_complete(words, epoch)) {
		if (gave_up(work->abort_flag, work->timeout_ns, &wait, peer))
			return false;
		REST(wait.polls);
		words = load_ll(ll);
	}
	unit->bits = data_of(words);
	return true;
}

/* Whether rank `from` has data for rank `to`; the signature goes to all. */
static ON_DEVICE bool has_data(const struct rd_work *work, int from, int to)
{
	return (work->from < 0 || work->from == from) && (work->to < 0 || work->to == to);
}

/* Unit `at` for this rank, from our input: unit 0 is the signature, the data follows. */
TYPED static ON_DEVICE union unit load_unit(
	const struct rd_work *work, int rank, size_t at, ELEMENTS elements)
{
	size_t size = work->count * elements.size, first = (at - 1) * 8;
	const char *in = work->in[work->rank];
	union unit unit = { 0 };

	if (at == 0) {
		unit.bits = work->signatures[rank];
		return unit;
	}
	in += (size_t)rank * work->in_stride;
	UNROLL
	for (int i = 0; i < 8; i++)
		if (first + i < size)
			unit.bytes[i] = in[first + i];
	return work->scales ? scale_unit(work, unit, work->factors[work->rank], elements) : unit;
}

/* Into our output, at the place of what this rank sends. */
TYPED static ON_DEVICE void store_unit(
	const struct rd_work *work, int rank, size_t at, const union unit *unit, ELEMENTS elements)
{
	char *out = work->out[work->rank] + (size_t)rank * work->out_stride;
	size_t size = work->count * elements.size, first = (at - 1) * 8;

	UNROLL
	for (int i = 0; i < 8; i++)
		if (first + i < size)
			out[first + i] = unit->bytes[i];
}

/* Combines in rank order, which gives all ranks the same bits. In place, no other thread reads
   what this one writes: a thread has the same unit of every block. False: the call fails. */
TYPED static ON_DEVICE bool make_unit(
	const struct rd_work *work, uint32_t epoch, size_t at, ELEMENTS elements)
{
	struct rd_device_flags *flags = work->peer_device_flags[work->rank];
	union unit unit;
	SUMS sums = { 0 };

	KEEP_LOOP
	for (int rank = 0; rank < work->size; rank++) {
		if (at > 0 && !has_data(work, rank, work->rank))
			continue;
		if (rank == work->rank)
			unit = load_unit(work, rank, at, elements);
		else if (!receive_unit(
				 work, &flags->ll_buffer[epoch & 1][rank][at], rank, epoch, &unit))
			return false;
		if (at == 0 && unit.bits != work->signatures[rank]) {
			report(work->abort_flag, rank, RD_ABORT_MISMATCH);
			return false;
		}
		if (at > 0 && !work->combines)
			store_unit(work, rank, at, &unit, elements);
		if (work->combines)
			add_unit(work, &sums, rank, unit, elements);
	}
	if (at > 0 && work->combines && has_data(work, 0, work->rank)) {
		unit = finish_unit(work, &sums, elements);
		store_unit(work, 0, at, &unit, elements);
	}
	return true;
}

/* The thread's units for all peers. */
TYPED static ON_DEVICE void send_units(
	const struct rd_work *work, uint32_t epoch, size_t units, ELEMENTS elements)
{
	struct rd_device_flags *const *flags = work->peer_device_flags;

	KEEP_LOOP
	for (size_t at = THREAD; at <= units; at += THREADS_HERE) {
		KEEP_LOOP
		for (int peer = 0; peer < work->size; peer++)
			if (peer != work->rank && (at == 0 || has_data(work, work->rank, peer)))
				store_ll(&flags[peer]->ll_buffer[epoch & 1][work->rank][at],
					load_unit(work, peer, at, elements).bits, epoch);
	}
}

/* All units are on their way before the thread waits for one. */
TYPED static ON_DEVICE void run_small(const struct rd_work *work, uint32_t epoch, ELEMENTS elements)
{
	size_t units = (work->count * elements.size + 7) / 8;
	/* A barrier also orders ranks' accesses to each other's memory. */
	bool orders = work->count == 0;

	if (orders)
		fence();
	send_units(work, epoch, units, elements);
	KEEP_LOOP
	for (size_t at = THREAD; at <= units; at += THREADS_HERE)
		if (!make_unit(work, epoch, at, elements))
			return;
	if (orders)
		fence();
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
				(load_flag(&work->abort_flag->stop) ||
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
	if (work->small) {
		run_small(work, block->epoch, elements);
	} else {
		if (work->fused)
			enter_barrier(work, block);
		KEEP_LOOP
		for (int i = 0; i < work->step_count && !block->failed; i++)
			run_step(work, block, &work->steps[i], elements);
		if (work->fused && !block->failed)
			leave_barrier(work, block);
	}
	SYNC_BLOCK();
	if (work->fused && THREAD == 0)
		own->epochs[BLOCK] = block->epoch;
}

#endif
