#include "gpu/begun.h"

#include "gpu/gpu.h"
#include "base/error.h"

static void put(uint32_t *entries, uint32_t number, bool on_devices)
{
	__atomic_store_n(
		&entries[number % RD_BEGUN_CALLS], number << 1 | on_devices, __ATOMIC_RELAXED);
}

void rd_begun_note(struct rondo_comm *comm, const struct rd_call *call, bool on_devices)
{
	const struct rd_problem *problem = &call->problem;
	struct rd_gpu *gpu = comm->gpu;

	/* While a gpu is made it has no progress thread: what it calls then is not the user's. */
	if (!gpu || !gpu->progress || !rd_gpu_goes_directly(gpu))
		return;

	struct rd_begun *begun = &gpu->host_flags->begun;

	if (problem->collective != RD_TRANSFER)
		put(begun->collectives, call->number, on_devices);
	else if (problem->root == problem->target)
		return;
	else if (problem->root == comm->rank)
		put(begun->sends[problem->target], call->number, on_devices);
	else
		put(begun->receives[problem->root], call->number, on_devices);
}

/* Ours, where the peer has one of the same number that goes the other way; else 0. */
static uint32_t find_odd(const uint32_t *ours, const uint32_t *theirs)
{
	for (int i = 0; i < RD_BEGUN_CALLS; i++) {
		uint32_t here = __atomic_load_n(&ours[i], __ATOMIC_RELAXED);

		if (here && (here ^ __atomic_load_n(&theirs[i], __ATOMIC_RELAXED)) == 1)
			return here;
	}
	return 0;
}

static const char *memory_of(uint32_t entry)
{
	return entry & 1 ? "device memory" : "host memory";
}

static int transfer_differs(struct rd_gpu *gpu, int from, int to, uint32_t sent)
{
	int rank = gpu->comm->rank, peer = rank == from ? to : from;

	rd_fail(RONDO_MISMATCH,
		"rank %d sends #%u to rank %d from %s, which receives it into %s: give both memory "
		"of one kind",
		from, sent >> 1, to, memory_of(sent), memory_of(sent ^ 1));
	return rd_comm_fail(gpu->comm, RONDO_MISMATCH, peer);
}

static int compare_with(struct rd_gpu *gpu, int peer)
{
	const struct rd_begun *ours = &gpu->host_flags->begun, *theirs = &gpu->peer_flags[peer]->begun;
	int rank = gpu->comm->rank;
	uint32_t odd = find_odd(ours->collectives, theirs->collectives);

	if (odd) {
		rd_fail(RONDO_MISMATCH,
			"rank %d makes call #%u in %s, rank %d in %s: give all ranks memory of one "
			"kind",
			rank, odd >> 1, memory_of(odd), peer, memory_of(odd ^ 1));
		return rd_comm_fail(gpu->comm, RONDO_MISMATCH, peer);
	}
	odd = find_odd(ours->sends[peer], theirs->receives[rank]);
	if (odd)
		return transfer_differs(gpu, rank, peer, odd);
	odd = find_odd(ours->receives[peer], theirs->sends[rank]);
	return odd ? transfer_differs(gpu, peer, rank, odd ^ 1) : 0;
}

int rd_begun_compare(struct rd_gpu *gpu)
{
	int err = 0;

	for (int peer = 0; rd_gpu_goes_directly(gpu) && peer < gpu->comm->size && !err;
		peer++)
		if (peer != gpu->comm->rank)
			err = compare_with(gpu, peer);
	return err;
}
