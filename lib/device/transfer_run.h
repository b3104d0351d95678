/*
 * How a device runs transfer work (transfer_work.h): what one block of the kernel does. nvcc
 * compiles it (cuda/transfers.cu), and a C++ compiler, for the tests' driver.
 * The includer defines, besides the names that flags_run.h lists:
 *
 *	THREAD, THREADS_HERE	the calling thread's number in the block, and the block's threads
 *	BLOCK, BLOCKS(n)	the block's number; the number of blocks in place of n
 *	SYNC_BLOCK()	waits for all threads of the block
 *	copy_bytes()	the thread's share of a copy by `blocks` blocks
 *
 * All blocks of all ranks must be resident at once; lib/gpu sees to that.
 */
#ifndef RD_TRANSFER_RUN_H
#define RD_TRANSFER_RUN_H

#include "device/flags_run.h"
#include "device/transfer_work.h"

/* The transfers with one peer: the next ones of the list, and the counts of earlier ones. */
struct line {
	int send, receive;
	uint32_t sent, received;
	bool offered; /* the send: not taken yet */
	bool arrived; /* the receive: it can be copied */
	const char *from;
	struct wait sends, receives;
};

/* A block's threads share it. One thread moves a line; then all copy what it received. */
struct transfer_block {
	int failed;
	struct line lines[RD_WORK_RANKS];
};

static ON_DEVICE const struct rd_transfer *transfer_at(
	const struct rd_transfer_work *work, int index)
{
	return work->more ? &work->more[index] : &work->list[index];
}

static ON_DEVICE size_t size_of(const struct rd_transfer *transfer)
{
	return transfer->count * transfer->element;
}

/* Both ranks compute the same. */
static ON_DEVICE int blocks_of(
	const struct rd_transfer_work *work, const struct rd_transfer *transfer)
{
	return BLOCKS(RD_TRANSFER_BLOCKS(size_of(transfer), work->most_blocks));
}

static ON_DEVICE int end_of(const struct rd_transfer_work *work, int kind, int peer)
{
	return work->first[kind][peer + 1];
}

/* The first from this one on that has this block. */
static ON_DEVICE int find_ours(const struct rd_transfer_work *work, int kind, int peer, int index)
{
	int end = end_of(work, kind, peer);

	while (index < end && blocks_of(work, transfer_at(work, index)) <= BLOCK)
		index++;
	return index;
}

/* ---- Lines: each by one thread ------------------------------------------------------------------
 */

static ON_DEVICE void begin_line(const struct rd_transfer_work *work, struct line *line, int peer)
{
	const struct rd_device_flags *device_flags = work->peer_device_flags[work->rank];
	const struct wait no_wait = { 0, 0 };

	line->send = find_ours(work, RD_TRANSFER_SEND, peer, work->first[RD_TRANSFER_SEND][peer]);
	line->receive =
		find_ours(work, RD_TRANSFER_RECEIVE, peer, work->first[RD_TRANSFER_RECEIVE][peer]);
	line->sent = device_flags->sent[peer][BLOCK];
	line->received = device_flags->received[peer][BLOCK];
	line->offered = line->arrived = false;
	line->sends = line->receives = no_wait;
}

static ON_DEVICE void end_line(
	const struct rd_transfer_work *work, const struct line *line, int peer)
{
	struct rd_device_flags *device_flags = work->peer_device_flags[work->rank];

	device_flags->sent[peer][BLOCK] = line->sent;
	device_flags->received[peer][BLOCK] = line->received;
}

/* The fence puts what the sender's stream wrote before the offer. */
static ON_DEVICE void put_offer(
	struct rd_device_offer *offer, uint32_t number, const struct rd_transfer *transfer)
{
	fence();
	store_ll(&offer->address, (uint64_t)transfer->at, number);
	store_ll(&offer->count, transfer->count, number);
	store_ll(&offer->type, transfer->type, number);
}

/* False: there is no such offer yet. The fence puts it before our reads of what is offered. */
static ON_DEVICE bool get_offer(
	const struct rd_device_offer *offer, uint32_t number, struct rd_transfer *transfer)
{
	uint4 address = load_ll(&offer->address), count = load_ll(&offer->count);
	uint4 type = load_ll(&offer->type);

	if (!is_complete(address, number) || !is_complete(count, number) ||
		!is_complete(type, number))
		return false;
	fence();
	transfer->at = (char *)data_of(address);
	transfer->count = data_of(count);
	transfer->type = type.x;
	return true;
}

static ON_DEVICE void report_difference(struct rd_abort_flag *abort_flag, int peer,
	const struct rd_transfer *theirs, const struct rd_transfer *ours)
{
	abort_flag->types[0] = theirs->type;
	abort_flag->types[1] = ours->type;
	abort_flag->counts[0] = theirs->count;
	abort_flag->counts[1] = ours->count;
	report(abort_flag, peer, RD_ABORT_TRANSFER);
}

/* Offers the next sends, each when the previous one has been taken. False: it gave up. */
static ON_DEVICE bool send_on(const struct rd_transfer_work *work, struct line *line, int peer)
{
	const uint32_t *taken = &work->peer_device_flags[work->rank]->taken[peer][BLOCK];

	while (line->send < end_of(work, RD_TRANSFER_SEND, peer)) {
		if (!line->offered)
			put_offer(&work->peer_device_flags[peer]->offers[work->rank][BLOCK],
				++line->sent, transfer_at(work, line->send));
		line->offered = true;
		if (!has_reached(taken, line->sent))
			return !gave_up(work->abort_flag, work->timeout_ns, &line->sends, peer);
		line->offered = false;
		line->sends.since_ns = 0;
		line->send = find_ours(work, RD_TRANSFER_SEND, peer, line->send + 1);
	}
	return true;
}

/* Marks the next receive as arrived once it is offered. False: it gave up, or they differ. */
static ON_DEVICE bool poll_offer(const struct rd_transfer_work *work, struct line *line, int peer)
{
	const struct rd_device_offer *offer =
		&work->peer_device_flags[work->rank]->offers[peer][BLOCK];
	const struct rd_transfer *ours;
	struct rd_transfer theirs;

	if (line->receive == end_of(work, RD_TRANSFER_RECEIVE, peer))
		return true;
	if (!get_offer(offer, line->received + 1, &theirs))
		return !gave_up(work->abort_flag, work->timeout_ns, &line->receives, peer);
	ours = transfer_at(work, line->receive);
	if (theirs.count != ours->count || theirs.type != ours->type) {
		report_difference(work->abort_flag, peer, &theirs, ours);
		return false;
	}
	line->from = ours->from ? ours->from : theirs.at;
	line->arrived = true;
	return true;
}

/* All threads have copied it. The fence puts their reads before the flag, by which the sender may
   write its buffer again. */
static ON_DEVICE void end_receive(const struct rd_transfer_work *work, struct line *line, int peer)
{
	line->arrived = false;
	line->receives.since_ns = 0;
	line->receive = find_ours(work, RD_TRANSFER_RECEIVE, peer, line->receive + 1);
	fence();
	set_flag(&work->peer_device_flags[peer]->taken[work->rank][BLOCK], ++line->received);
}

/* ---- The block ----------------------------------------------------------------------------------
 */

static ON_DEVICE void move_lines(const struct rd_transfer_work *work, struct transfer_block *block)
{
	for (int peer = THREAD; peer < work->size; peer += THREADS_HERE)
		if (!send_on(work, &block->lines[peer], peer) ||
			!poll_offer(work, &block->lines[peer], peer))
			block->failed = 1;
	SYNC_BLOCK();
}

static ON_DEVICE void copy_arrived(
	const struct rd_transfer_work *work, const struct transfer_block *block)
{
	for (int peer = 0; peer < work->size; peer++) {
		const struct line *line = &block->lines[peer];
		const struct rd_transfer *transfer = transfer_at(work, line->receive);

		if (line->arrived && size_of(transfer) > 0)
			copy_bytes(transfer->at, line->from, size_of(transfer),
				blocks_of(work, transfer));
	}
}

/* Whether transfers are left, and whether one can be copied now. */
static ON_DEVICE bool is_left(
	const struct rd_transfer_work *work, const struct transfer_block *block, bool *arrived)
{
	bool left = false;

	*arrived = false;
	for (int peer = 0; peer < work->size; peer++) {
		const struct line *line = &block->lines[peer];

		*arrived |= line->arrived;
		left |= line->send < end_of(work, RD_TRANSFER_SEND, peer) ||
			line->receive < end_of(work, RD_TRANSFER_RECEIVE, peer);
	}
	return left;
}

/* All threads see the same between two meetings, and so go on, or leave, together. */
static ON_DEVICE void run_block(const struct rd_transfer_work *work, struct transfer_block *block)
{
	bool left = true, arrived;
	uint32_t rounds = 0;

	for (int peer = THREAD; peer < work->size; peer += THREADS_HERE)
		begin_line(work, &block->lines[peer], peer);
	if (THREAD == 0)
		block->failed = 0;
	SYNC_BLOCK();
	while (left) {
		move_lines(work, block);
		if (block->failed)
			return;
		copy_arrived(work, block);
		left = is_left(work, block, &arrived);
		rounds = arrived ? 0 : rounds + 1;
		SYNC_BLOCK();
		for (int peer = THREAD; peer < work->size; peer += THREADS_HERE)
			if (block->lines[peer].arrived)
				end_receive(work, &block->lines[peer], peer);
		if (left && !arrived)
			REST(rounds);
	}
	for (int peer = THREAD; peer < work->size; peer += THREADS_HERE)
		end_line(work, &block->lines[peer], peer);
}

#endif
