/*
 * The kernel of transfers (lib/device/transfer_work.h). What a block does is said in
 * lib/device/transfer_run.h; here is how it learns of what peers offer, and copies, 16 bytes at a
 * time.
 *
 * All blocks of all ranks must find room on their devices at once; the gpu sees to that. An offer
 * is three stores of 16 bytes, each with its number twice, as in kernels.cu; what the sender's
 * stream wrote before goes before it, by a fence. That a block's threads have read all goes before
 * the flag that says so, by the block's barrier and another fence.
 */
#include "device/cuda/copy.cuh"
#include "device/transfer_work.h"
#include "device/cuda/words.cuh"

#define ON_DEVICE __device__
#define THREAD ((int)threadIdx.x)
#define THREADS_HERE ((int)blockDim.x)
#define BLOCK ((int)blockIdx.x)
#define BLOCKS(count) (count)
#define TOGETHER() __syncthreads()
#define REST(rounds) ((void)(rounds))

static __device__ void begin_wait(struct patience *patience)
{
	patience->polls = 0;
	patience->since = 0;
}

static __device__ bool gave_up(
	const struct rd_transfer_work *work, struct patience *patience, int peer)
{
	return is_over(*work, *patience, peer);
}

static __device__ void put_offer(
	struct rd_device_offer *offer, uint32_t number, const struct rd_transfer *transfer)
{
	uint64_t address = (uint64_t)transfer->at, count = transfer->count;

	__threadfence_system();
	store_words(
		&offer->address_low, (uint32_t)address, number, (uint32_t)(address >> 32), number);
	store_words(&offer->count_low, (uint32_t)count, number, (uint32_t)(count >> 32), number);
	store_words(&offer->type, transfer->type, number, 0, number);
}

static __device__ bool get_offer(
	const struct rd_device_offer *offer, uint32_t number, struct rd_transfer *transfer)
{
	uint4 address = load_words(&offer->address_low), count = load_words(&offer->count_low);
	uint4 type = load_words(&offer->type);

	if (!has_come(address, number) || !has_come(count, number) || !has_come(type, number))
		return false;
	__threadfence_system();
	transfer->at = (char *)((uint64_t)address.z << 32 | address.x);
	transfer->count = (uint64_t)count.z << 32 | count.x;
	transfer->type = type.x;
	return true;
}

static __device__ void say_difference(const struct rd_transfer_work *work, int peer,
	const struct rd_transfer *theirs, const struct rd_transfer *ours)
{
	volatile struct rd_abort_flag *abort_flag = work->abort_flag;

	abort_flag->types[0] = theirs->type;
	abort_flag->types[1] = ours->type;
	abort_flag->counts[0] = theirs->count;
	abort_flag->counts[1] = ours->count;
	abort_flag->peer = peer;
	__threadfence_system();
	abort_flag->error = RD_ABORT_TRANSFER;
}

#include "device/transfer_run.h"

extern "C" __global__ void __launch_bounds__(THREADS, 2)
	rondo_transfers(const __grid_constant__ struct rd_transfer_work work)
{
	BLOCK_MEMORY(struct transfer_block, block);

	run_block(&work, &block);
}
