/*
 * The kernel of transfers (lib/transfer_work.h). What a block does is said in lib/transfer_run.h; here is
 * how it learns of what peers offer, and copies, 16 bytes at a time.
 *
 * All blocks of all ranks must find room on their devices at once; the board sees to that. An offer is
 * three stores of 16 bytes, each with its number twice, as in kernels.cu; what the sender's stream wrote
 * before goes before it, by a fence. That a block's threads have read all goes before the word that says
 * so, by the block's barrier and another fence.
 */
#include "halt.cuh"
#include "transfer_work.h"

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
	struct rd_desk_offer *offer, uint32_t number, const struct rd_transfer *transfer)
{
	uint64_t address = (uint64_t)transfer->at, count = transfer->count;

	__threadfence_system();
	store_words(&offer->address_low, (uint32_t)address, number, (uint32_t)(address >> 32), number);
	store_words(&offer->count_low, (uint32_t)count, number, (uint32_t)(count >> 32), number);
	store_words(&offer->type, transfer->type, number, 0, number);
}

static __device__ bool has_come(uint4 words, uint32_t number)
{
	return words.y == number && words.w == number;
}

static __device__ bool get_offer(
	const struct rd_desk_offer *offer, uint32_t number, struct rd_transfer *transfer)
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

static __device__ bool has_reached(const uint32_t *word, uint32_t number)
{
	if ((int32_t)(*(const volatile uint32_t *)word - number) < 0)
		return false;
	__threadfence_system();
	return true;
}

static __device__ void publish()
{
	__threadfence_system();
}

static __device__ void set_word(uint32_t *word, uint32_t number)
{
	*(volatile uint32_t *)word = number;
}

static __device__ void say_difference(const struct rd_transfer_work *work, int peer,
	const struct rd_transfer *theirs, const struct rd_transfer *ours)
{
	volatile struct rd_halt *halt = work->halt;

	halt->types[0] = theirs->type;
	halt->types[1] = ours->type;
	halt->counts[0] = theirs->count;
	halt->counts[1] = ours->count;
	halt->peer = peer;
	__threadfence_system();
	halt->error = RD_HALT_TRANSFER;
}

/* Bytes before the first whole vector; all of them where the two do not lie alike. */
static __device__ size_t head_of(const char *to, const char *from, size_t size)
{
	size_t head = (16 - (uint64_t)to % 16) % 16;

	return (uint64_t)to % 16 != (uint64_t)from % 16 || head > size ? size : head;
}

/* Four vectors of a thread are on their way together. */
static __device__ void copy_share(char *to, const char *from, size_t size, int blocks)
{
	size_t thread = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
	size_t stride = (size_t)blocks * blockDim.x, head = head_of(to, from, size);
	size_t vectors = (size - head) / 16, at = thread;
	const uint4 *in = (const uint4 *)(from + head);
	uint4 *out = (uint4 *)(to + head);

	if (to == from)
		return;
	for (; at + 3 * stride < vectors; at += 4 * stride) {
		uint4 got[4];

#pragma unroll
		for (int k = 0; k < 4; k++)
			got[k] = __ldcs(in + at + k * stride);
#pragma unroll
		for (int k = 0; k < 4; k++)
			__stcs(out + at + k * stride, got[k]);
	}
	for (; at < vectors; at += stride)
		__stcs(out + at, __ldcs(in + at));
	for (at = thread; at < head; at += stride)
		to[at] = from[at];
	for (at = head + vectors * 16 + thread; at < size; at += stride)
		to[at] = from[at];
}

#include "transfer_run.h"

extern "C" __global__ void __launch_bounds__(THREADS, 2)
	rondo_transfers(const __grid_constant__ struct rd_transfer_work work)
{
	BLOCK_MEMORY(struct transfer_block, block);

	run_block(&work, &block);
}
