/* The kernel of lib/device/cuda/transfers.cu, done by a thread: one block, of one thread. */
#include <sched.h>
#include <string.h>

#include "base/clock.h"
#include "device/emulated/emulated.h"
#include "base/futex.h"

#define ON_DEVICE
#define THREAD 0
#define THREADS_HERE 1
#define BLOCK 0
#define BLOCKS(count) ((void)(count), 1)
#define TOGETHER() ((void)0)
#define REST(rounds) rest(rounds)

/* Rounds of yielding before it sleeps between looks: a peer's thread may need this one's core. */
#define YIELDS 20
#define REST_NS 50000

struct patience {
	int64_t since_ns;
};

static void rest(int rounds)
{
	const struct timespec moment = { 0, REST_NS };

	if (rounds < YIELDS)
		sched_yield();
	else
		nanosleep(&moment, NULL);
}

static void begin_wait(struct patience *patience)
{
	patience->since_ns = 0;
}

static bool gave_up(const struct rd_transfer_work *work, struct patience *patience, int peer)
{
	int64_t now_ns = rd_clock_ns();

	if (__atomic_load_n(&work->abort_flag->stop, __ATOMIC_ACQUIRE))
		return true;
	if (patience->since_ns == 0)
		patience->since_ns = now_ns;
	return rd_emulated_waited(work->abort_flag, (uint64_t)(now_ns - patience->since_ns),
		       work->timeout_ns, peer) &&
	       !rd_emulated_give_up(work->abort_flag, RD_ABORT_SILENCE, peer);
}

static void put_offer(
	struct rd_device_offer *offer, uint32_t number, const struct rd_transfer *transfer)
{
	uint64_t address = (uintptr_t)transfer->at;

	offer->address_low = (uint32_t)address;
	offer->address_high = (uint32_t)(address >> 32);
	offer->count_low = (uint32_t)transfer->count;
	offer->count_high = (uint32_t)(transfer->count >> 32);
	offer->type = transfer->type;
	rd_flag_write(&offer->number_a, number);
}

static bool has_reached(const uint32_t *flag, uint32_t number)
{
	return rd_flag_reached(flag, number);
}

static bool get_offer(
	const struct rd_device_offer *offer, uint32_t number, struct rd_transfer *transfer)
{
	if (!rd_flag_reached(&offer->number_a, number))
		return false;
	transfer->at =
		(char *)(uintptr_t)((uint64_t)offer->address_high << 32 | offer->address_low);
	transfer->count = (uint64_t)offer->count_high << 32 | offer->count_low;
	transfer->type = offer->type;
	return true;
}

static void publish(void)
{
	/* set_word() does. */
}

static void set_flag(uint32_t *flag, uint32_t number)
{
	rd_flag_write(flag, number);
}

static void say_difference(const struct rd_transfer_work *work, int peer,
	const struct rd_transfer *theirs, const struct rd_transfer *ours)
{
	rd_emulated_differ(work->abort_flag, peer, theirs, ours);
}

static void copy_bytes(char *to, const char *from, size_t size, int blocks)
{
	(void)blocks;
	if (to != from)
		memmove(to, from, size);
}

#include "device/transfer_run.h"

void rd_emulated_transfers(const struct rd_transfer_work *work)
{
	struct transfer_block block;

	run_block(work, &block);
}
