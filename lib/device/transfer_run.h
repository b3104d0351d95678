/*
 * How a device runs transfer work: what one block of the kernel does. nvcc makes a kernel of it
 * (cuda/transfers.cu), the C compiler what emulated GPUs do (transfers.c), as with
 * steps_run.h. Whoever includes it has said before:
 *
 *	ON_DEVICE	what a function is declared with
 *	THREAD, THREADS_HERE	the calling thread's number in the block, and how many there are
 *	BLOCK, BLOCKS(n)	the block's number; how many blocks there are in place of n
 *	TOGETHER()	waits for all threads of the block
 *	REST(rounds)	nothing has come, so many times in a row
 *	struct patience, begin_wait(), gave_up()	a wait; whether it is over, in vain
 *	put_offer(), get_offer()	of this number; true: it has come, and so has all before it
 *	has_reached(), publish(), set_word()	flags, as in steps_run.h
 *	say_difference()	tells the host that a peer sends something else
 *	copy_bytes()	the thread's share of so many bytes, of so many blocks
 */
#ifndef RD_TRANSFER_RUN_H
#define RD_TRANSFER_RUN_H

/* A peer and this rank. Which of the list's transfers are next, and how many there have been. */
struct line {
	int send, receive;
	uint32_t sent, received;
	bool offered; /* the send, and it is not taken yet */
	bool come; /* the receive: it can be copied */
	const char *from;
	struct patience sends, receives;
};

/* What the threads of a block share: each line is one thread's, but in turn all threads'. */
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

/* By what both ranks know. */
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

	line->send = find_ours(work, RD_TRANSFER_SEND, peer, work->first[RD_TRANSFER_SEND][peer]);
	line->receive =
		find_ours(work, RD_TRANSFER_RECEIVE, peer, work->first[RD_TRANSFER_RECEIVE][peer]);
	line->sent = device_flags->sent[peer][BLOCK];
	line->received = device_flags->received[peer][BLOCK];
	line->offered = line->come = false;
	begin_wait(&line->sends);
	begin_wait(&line->receives);
}

static ON_DEVICE void end_line(
	const struct rd_transfer_work *work, const struct line *line, int peer)
{
	struct rd_device_flags *device_flags = work->peer_device_flags[work->rank];

	device_flags->sent[peer][BLOCK] = line->sent;
	device_flags->received[peer][BLOCK] = line->received;
}

/* Offers what is next, each when the one before has been taken; false: it is over. */
static ON_DEVICE bool send_on(const struct rd_transfer_work *work, struct line *line, int peer)
{
	const uint32_t *taken = &work->peer_device_flags[work->rank]->taken[peer][BLOCK];

	while (line->send < end_of(work, RD_TRANSFER_SEND, peer)) {
		if (!line->offered)
			put_offer(&work->peer_device_flags[peer]->offers[work->rank][BLOCK],
				++line->sent, transfer_at(work, line->send));
		line->offered = true;
		if (!has_reached(taken, line->sent))
			return !gave_up(work, &line->sends, peer);
		line->offered = false;
		begin_wait(&line->sends);
		line->send = find_ours(work, RD_TRANSFER_SEND, peer, line->send + 1);
	}
	return true;
}

/* Whether what is to be received next has been offered; false: it is over. */
static ON_DEVICE bool look_for_offer(
	const struct rd_transfer_work *work, struct line *line, int peer)
{
	const struct rd_device_offer *offer =
		&work->peer_device_flags[work->rank]->offers[peer][BLOCK];
	const struct rd_transfer *ours;
	struct rd_transfer theirs;

	if (line->receive == end_of(work, RD_TRANSFER_RECEIVE, peer))
		return true;
	if (!get_offer(offer, line->received + 1, &theirs))
		return !gave_up(work, &line->receives, peer);
	ours = transfer_at(work, line->receive);
	if (theirs.count != ours->count || theirs.type != ours->type) {
		say_difference(work, peer, &theirs, ours);
		return false;
	}
	line->from = ours->from ? ours->from : theirs.at;
	line->come = true;
	return true;
}

/* All threads have copied it. */
static ON_DEVICE void end_receive(const struct rd_transfer_work *work, struct line *line, int peer)
{
	line->come = false;
	begin_wait(&line->receives);
	line->receive = find_ours(work, RD_TRANSFER_RECEIVE, peer, line->receive + 1);
	publish();
	set_flag(&work->peer_device_flags[peer]->taken[work->rank][BLOCK], ++line->received);
}

/* ---- The block ----------------------------------------------------------------------------------
 */

static ON_DEVICE void move_lines(const struct rd_transfer_work *work, struct transfer_block *block)
{
	for (int peer = THREAD; peer < work->size; peer += THREADS_HERE)
		if (!send_on(work, &block->lines[peer], peer) ||
			!look_for_offer(work, &block->lines[peer], peer))
			block->failed = 1;
	TOGETHER();
}

static ON_DEVICE void copy_what_came(
	const struct rd_transfer_work *work, const struct transfer_block *block)
{
	for (int peer = 0; peer < work->size; peer++) {
		const struct line *line = &block->lines[peer];
		const struct rd_transfer *transfer = transfer_at(work, line->receive);

		if (line->come && size_of(transfer) > 0)
			copy_bytes(transfer->at, line->from, size_of(transfer),
				blocks_of(work, transfer));
	}
}

/* Whether there is more to do, and whether something has come. */
static ON_DEVICE bool is_left(
	const struct rd_transfer_work *work, const struct transfer_block *block, bool *come)
{
	bool left = false;

	*come = false;
	for (int peer = 0; peer < work->size; peer++) {
		const struct line *line = &block->lines[peer];

		*come |= line->come;
		left |= line->send < end_of(work, RD_TRANSFER_SEND, peer) ||
			line->receive < end_of(work, RD_TRANSFER_RECEIVE, peer);
	}
	return left;
}

/* All threads see the same between two meetings, and so go on, or leave, together. */
static ON_DEVICE void run_block(const struct rd_transfer_work *work, struct transfer_block *block)
{
	bool left = true, come;
	int rounds = 0;

	for (int peer = THREAD; peer < work->size; peer += THREADS_HERE)
		begin_line(work, &block->lines[peer], peer);
	if (THREAD == 0)
		block->failed = 0;
	TOGETHER();
	while (left) {
		move_lines(work, block);
		if (block->failed)
			return;
		copy_what_came(work, block);
		left = is_left(work, block, &come);
		rounds = come ? 0 : rounds + 1;
		TOGETHER();
		for (int peer = THREAD; peer < work->size; peer += THREADS_HERE)
			if (block->lines[peer].come)
				end_receive(work, &block->lines[peer], peer);
		if (left && !come)
			REST(rounds);
	}
	for (int peer = THREAD; peer < work->size; peer += THREADS_HERE)
		end_line(work, &block->lines[peer], peer);
}

#endif
