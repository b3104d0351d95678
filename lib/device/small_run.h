/*
 * How a device runs small work (small_work.h): what the kernel's one block does. nvcc compiles it
 * for each element type (cuda/kernels.cu), and a C++ compiler, for the tests' driver.
 *
 * There is no barrier. Each rank stores its data for a peer in that peer's LL buffer, a flag beside
 * every 8 bytes, and makes its output from its own LL buffers. All ranks exchange signatures, so
 * two LL buffers in turn suffice: a rank in call e + 2 received in call e + 1 from every peer, and
 * these had finished call e. The idea is NCCL's "LL" protocol.
 *
 * The includer defines, besides the names that flags_run.h lists:
 *
 *	THREAD, THREADS_HERE	the calling thread's number in the block, and the block's threads
 *	SYNC_BLOCK()	waits for all threads of the block
 *	TYPED, ELEMENTS, SUMS	a template's head, and the types that depend on its element type:
 *			ELEMENTS has `size`, bytes of an element, and SUMS holds a unit's sums
 *	UNROLL, KEEP_LOOP	before a loop: the compiler unrolls it, or does not
 *
 * and defines the functions on elements that are declared here.
 */
#ifndef RD_SMALL_RUN_H
#define RD_SMALL_RUN_H

#include "device/flags_run.h"
#include "device/small_work.h"

/* 8 bytes of data. */
union unit {
	uint64_t bits;
	unsigned char bytes[8];
};

/* Each element times the factor, rounded to the type at once, as in host memory. */
TYPED static ON_DEVICE union unit scale_unit(
	const struct rd_small_work *work, union unit unit, uint64_t factor, ELEMENTS elements);
/* Starts the sums with rank 0's unit, and combines them with each further one. */
TYPED static ON_DEVICE void add_unit(
	const struct rd_small_work *work, SUMS *sums, int rank, union unit unit, ELEMENTS elements);
/* The sums as elements, divided for an average. */
TYPED static ON_DEVICE union unit finish_unit(
	const struct rd_small_work *work, const SUMS *sums, ELEMENTS elements);

/* ---- Units ---------------------------------------------------------------------------------- */

/* False: it gave up. */
static ON_DEVICE bool receive_unit(const struct rd_small_work *work, const struct rd_ll *ll,
	int peer, uint32_t epoch, union unit *unit)
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
static ON_DEVICE bool has_data(const struct rd_small_work *work, int from, int to)
{
	return (work->from < 0 || work->from == from) && (work->to < 0 || work->to == to);
}

/* Unit `at` for this rank, from our input: unit 0 is the signature, the data follows. */
TYPED static ON_DEVICE union unit load_unit(
	const struct rd_small_work *work, int rank, size_t at, ELEMENTS elements)
{
	size_t size = work->count * elements.size, first = (at - 1) * 8;
	const char *in = work->in;
	union unit unit = { 0 };

	if (at == 0) {
		unit.bits = work->signature;
		return unit;
	}
	in += (size_t)rank * work->in_stride;
	UNROLL
	for (int i = 0; i < 8; i++)
		if (first + i < size)
			unit.bytes[i] = in[first + i];
	return work->scales ? scale_unit(work, unit, work->factor, elements) : unit;
}

/* Into our output, at the place of what this rank sends. */
TYPED static ON_DEVICE void store_unit(const struct rd_small_work *work, int rank, size_t at,
	const union unit *unit, ELEMENTS elements)
{
	char *out = work->out + (size_t)rank * work->out_stride;
	size_t size = work->count * elements.size, first = (at - 1) * 8;

	UNROLL
	for (int i = 0; i < 8; i++)
		if (first + i < size)
			out[first + i] = unit->bytes[i];
}

/* Combines in rank order, which gives all ranks the same bits. In place, no other thread reads
   what this one writes: a thread has the same unit of every block. False: the call fails. */
TYPED static ON_DEVICE bool make_unit(
	const struct rd_small_work *work, uint32_t epoch, size_t at, ELEMENTS elements)
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
		if (at == 0 && unit.bits != work->signature) {
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
	const struct rd_small_work *work, uint32_t epoch, size_t units, ELEMENTS elements)
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
TYPED static ON_DEVICE void exchange_units(
	const struct rd_small_work *work, uint32_t epoch, ELEMENTS elements)
{
	size_t units = (work->count * elements.size + 7) / 8;
	/* A barrier also orders ranks' accesses to each other's memory: a release before thread 0
	   sends, an acquire after it has received. */
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

/* ---- The block ------------------------------------------------------------------------------ */

/* The count of the block's runs goes on when all threads have read it. */
TYPED static ON_DEVICE void run_small(const struct rd_small_work *work, ELEMENTS elements)
{
	uint32_t *epochs = work->peer_device_flags[work->rank]->epochs;
	uint32_t epoch = epochs[0] + 1;

	exchange_units(work, epoch, elements);
	SYNC_BLOCK();
	if (THREAD == 0)
		epochs[0] = epoch;
}

#endif
