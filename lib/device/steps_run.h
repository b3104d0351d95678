/*
 * How a device runs steps (steps.h): what one block of the kernel does for its channel, but for the
 * elements. nvcc compiles it for each element type (cuda/plans.cu), and a C++
 * compiler, for the tests' driver. The includer defines, besides the names that flags_run.h
 * lists:
 *
 *	THREAD, THREADS_HERE	the calling thread's number in the block, and the block's threads
 *	SYNC_BLOCK()	waits for all threads of the block
 *	TYPED, ELEMENTS	a template's head, and its type that stands for the element type
 *	KEEP_LOOP	before a loop: the compiler does not unroll it
 *
 * and defines operate(), which is declared here.
 */
#ifndef RD_STEPS_RUN_H
#define RD_STEPS_RUN_H

#include "device/flags_run.h"
#include "device/steps.h"

/* An operation on elements: a, combined with b unless that is NULL, goes into both of `into` and
   `out` that are not NULL. */
struct operands {
	const char *a, *b;
	char *into, *out;
	size_t count; /* elements */
	/* An addition of a mean, as exec/mean.h describes it. */
	bool is_mean, a_is_sum, b_is_sum, last;
};

/* A block's threads share it. */
struct channel {
	int failed;
	bool message_is_sum; /* of the move that is under way: it came with a partial sum's mark */
	uint32_t sent[RD_WORK_RANKS], received[RD_WORK_RANKS]; /* messages, by peer */
	struct operands operands; /* the move that is under way */
};

/* The thread's share of an operation on elements. */
TYPED static ON_DEVICE void operate(
	const struct rd_steps *steps, const struct operands *operands, ELEMENTS elements);

/* ---- Slices: as slice.h cuts ----------------------------------------------------------------- */

/* Elements of a chunk's slice in this piece. */
static ON_DEVICE size_t slice_count(const struct rd_steps *steps, int chunk, size_t piece)
{
	size_t begin = (size_t)(chunk % steps->parts) * steps->chunk_count;
	size_t left = begin < steps->count ? steps->count - begin : 0;
	size_t most = left < steps->chunk_count ? left : steps->chunk_count;
	size_t at = piece * steps->piece_count;

	if (at >= most)
		return 0;
	return most - at < steps->piece_count ? most - at : steps->piece_count;
}

/* Bytes from the start of a buffer to a slice of one of its chunks. */
static ON_DEVICE size_t slice_at(const struct rd_steps *steps, int chunk, size_t piece)
{
	size_t block = (size_t)(chunk / steps->parts), part = (size_t)(chunk % steps->parts);

	return (block * steps->count + part * steps->chunk_count + piece * steps->piece_count) *
	       steps->element;
}

/* Where in its slot a slice of this chunk begins. */
static ON_DEVICE size_t skew(const struct rd_steps *steps, int chunk, size_t piece)
{
	return slice_at(steps, chunk, piece) % RD_FIFO_ALIGNMENT;
}

static ON_DEVICE char *slot_of(const struct rd_steps *steps, int owner, int sender, int channel,
	uint32_t number, const struct rd_move *move, size_t piece)
{
	size_t line = (size_t)sender * steps->fifo_channels + channel;
	size_t slot = line * RD_FIFO_SLOTS + number % RD_FIFO_SLOTS;

	return (char *)(steps->peer_fifos[owner] + 1) +
	       slot * (steps->slot_size + RD_FIFO_ALIGNMENT) + skew(steps, move->chunk, piece);
}

static ON_DEVICE char *locate(const struct rd_steps *steps, const struct rd_spot *spot, int channel,
	const struct rd_move *move, size_t piece)
{
	size_t chunk = (size_t)channel * steps->scratch_chunks + spot->chunk;

	switch (spot->memory) {
	case RD_SPOT_IN:
		return (char *)steps->in + slice_at(steps, spot->chunk, piece);
	case RD_SPOT_OUT:
		return steps->out + slice_at(steps, spot->chunk, piece);
	case RD_SPOT_SCRATCH:
		return steps->scratch + chunk * (steps->slot_size + RD_FIFO_ALIGNMENT) +
		       skew(steps, move->chunk, piece);
	}
	return NULL;
}

/* ---- Messages -------------------------------------------------------------------------------- */

/* The mark of a mean's partial sum, in a signature. */
#define RD_SIGN_SUM 1u

/* A message's signature without a mark: the receiver compares it with its own. */
static ON_DEVICE uint32_t sign(
	const struct rd_steps *steps, const struct rd_move *move, size_t piece)
{
	return (((steps->signature ^ (uint32_t)move->chunk) * 16777619u ^ (uint32_t)piece) *
		       16777619u) &
	       ~RD_SIGN_SUM;
}

/* No rank passes on another's contribution: the checker proves that. */
static ON_DEVICE uint32_t sum_mark(const struct rd_steps *steps, const struct rd_move *move)
{
	bool sends_own = move->peer < 0 && move->from.memory == RD_SPOT_IN;

	return steps->op == RONDO_AVG && !sends_own ? RD_SIGN_SUM : 0;
}

/* The first thread's, while the others wait. */
static ON_DEVICE bool has_message(const struct rd_steps *steps, struct channel *shared, int channel,
	const struct rd_move *move, size_t piece)
{
	const struct rd_fifo_line *line =
		&steps->peer_fifos[steps->rank]->lines[move->peer][channel];
	uint32_t number = shared->received[move->peer] + 1;

	if (!await_flag(steps->abort_flag, steps->timeout_ns,
		    &line->messages[number % RD_FIFO_SLOTS].number, number, move->peer))
		return false;

	uint32_t signature = load_flag(&line->messages[number % RD_FIFO_SLOTS].signature);

	shared->message_is_sum = signature & RD_SIGN_SUM;
	if ((signature & ~RD_SIGN_SUM) == sign(steps, move, piece))
		return true;
	report(steps->abort_flag, move->peer, RD_ABORT_MISMATCH);
	return false;
}

static ON_DEVICE bool has_room(
	const struct rd_steps *steps, const struct channel *shared, int channel, int to)
{
	const struct rd_fifo_line *line = &steps->peer_fifos[steps->rank]->lines[to][channel];

	return await_flag(steps->abort_flag, steps->timeout_ns, &line->taken,
		shared->sent[to] + 1 - RD_FIFO_SLOTS, to);
}

/* ---- The block ------------------------------------------------------------------------------- */

static ON_DEVICE void begin_channel(
	const struct rd_steps *steps, struct channel *shared, int channel)
{
	const struct rd_fifo *fifo = steps->peer_fifos[steps->rank];

	for (int peer = THREAD; peer < steps->size; peer += THREADS_HERE) {
		shared->sent[peer] = fifo->lines[peer][channel].sent;
		shared->received[peer] = fifo->lines[peer][channel].received;
	}
	if (THREAD == 0)
		shared->failed = shared->message_is_sum = 0;
	SYNC_BLOCK();
}

/* The call is over when all that was sent has been taken: then no peer writes to our fifo any more,
   which may be gone once the comm is. */
static ON_DEVICE void end_channel(
	const struct rd_steps *steps, const struct channel *shared, int channel)
{
	struct rd_fifo *fifo = steps->peer_fifos[steps->rank];

	SYNC_BLOCK();
	for (int peer = THREAD; peer < steps->size; peer += THREADS_HERE) {
		struct rd_fifo_line *line = &fifo->lines[peer][channel];

		line->sent = shared->sent[peer];
		line->received = shared->received[peer];
		if (!await_flag(steps->abort_flag, steps->timeout_ns, &line->taken,
			    shared->sent[peer], peer))
			return;
	}
}

/* By the first thread, for all. */
static ON_DEVICE void set_operands(const struct rd_steps *steps, struct channel *shared,
	int channel, const struct rd_move *move, size_t piece)
{
	struct operands *operands = &shared->operands;
	const char *from = locate(steps, &move->from, channel, move, piece);
	int peer = move->peer, to = move->to;

	operands->a = peer < 0 ? from
			       : slot_of(steps, steps->rank, peer, channel,
					 shared->received[peer] + 1, move, piece);
	operands->b = move->reduces ? from : NULL;
	operands->into = locate(steps, &move->into, channel, move, piece);
	operands->out = to < 0 ? NULL
			       : slot_of(steps, to, steps->rank, channel, shared->sent[to] + 1,
					 move, piece);
	operands->count = slice_count(steps, move->chunk, piece);
	operands->is_mean = move->reduces && steps->op == RONDO_AVG;
	operands->a_is_sum = shared->message_is_sum;
	operands->b_is_sum = move->from.memory != RD_SPOT_IN;
	operands->last = move->last;
}

/* Waits for the move's message and for a free slot, and sets the operands. False: it gave up. All
   threads meet here, so a move also reads what the one before it wrote. */
static ON_DEVICE bool begin_move(const struct rd_steps *steps, struct channel *shared, int channel,
	const struct rd_move *move, size_t piece)
{
	if (THREAD == 0) {
		shared->failed =
			(move->peer >= 0 && !has_message(steps, shared, channel, move, piece)) ||
			(move->to >= 0 && !has_room(steps, shared, channel, move->to));
		if (!shared->failed)
			set_operands(steps, shared, channel, move, piece);
	}
	SYNC_BLOCK();
	return !shared->failed;
}

/* The fence puts all threads' accesses to slots before both flags: of the message that is sent, and
   of the slot that is free again. */
static ON_DEVICE void end_move(const struct rd_steps *steps, struct channel *shared, int channel,
	const struct rd_move *move, size_t piece)
{
	struct rd_fifo_line *there = NULL;
	uint32_t number = 0;
	int peer = move->peer, to = move->to;

	SYNC_BLOCK();
	if (THREAD != 0 || (peer < 0 && to < 0))
		return;
	if (to >= 0) {
		there = &steps->peer_fifos[to]->lines[steps->rank][channel];
		number = ++shared->sent[to];
		set_flag(&there->messages[number % RD_FIFO_SLOTS].signature,
			sign(steps, move, piece) | sum_mark(steps, move));
	}
	fence();
	if (to >= 0)
		set_flag(&there->messages[number % RD_FIFO_SLOTS].number, number);
	if (peer >= 0)
		set_flag(&steps->peer_fifos[peer]->lines[steps->rank][channel].taken,
			++shared->received[peer]);
}

/* A move without an element in this piece is skipped. The first piece is not: its messages carry
   signatures. */
static ON_DEVICE bool is_empty(
	const struct rd_steps *steps, const struct rd_move *move, size_t piece)
{
	return piece > 0 && slice_count(steps, move->chunk, piece) == 0;
}

/* False: it gave up. */
TYPED static ON_DEVICE bool run_channel(
	const struct rd_steps *steps, struct channel *shared, int channel, ELEMENTS elements)
{
	begin_channel(steps, shared, channel);
	KEEP_LOOP
	for (size_t piece = channel; piece < steps->pieces; piece += steps->channels) {
		KEEP_LOOP
		for (int i = 0; i < steps->move_count; i++) {
			const struct rd_move *move = &steps->moves[i];

			if (is_empty(steps, move, piece))
				continue;
			if (!begin_move(steps, shared, channel, move, piece))
				return false;
			operate(steps, &shared->operands, elements);
			end_move(steps, shared, channel, move, piece);
		}
	}
	end_channel(steps, shared, channel);
	return true;
}

#endif
