#include "gpu/compile_messages.h"

#include <string.h>

#include "base/arith.h"
#include "exec/signature.h"
#include "exec/slice.h"

/* A piece of fewer bytes is not worth a message: better to leave channels idle. */
#define PIECE_MIN (4 << 10)

_Static_assert((int)RD_SPOT_IN == (int)RD_IN && (int)RD_SPOT_OUT == (int)RD_OUT &&
		       (int)RD_SPOT_SCRATCH == (int)RD_SCRATCH &&
		       (int)RD_SPOT_NOWHERE == (int)RD_NOWHERE,
	"spots are places");
_Static_assert(sizeof(struct rd_fifo) % RD_FIFO_ALIGNMENT == 0, "slots are aligned");
_Static_assert(sizeof(struct rd_steps) <= 4096, "steps are passed to a kernel by value");

/* ---- Fifos --------------------------------------------------------------------------------- */

size_t rd_fifo_slot_size(int size, int channels)
{
	size_t slots = (size_t)size * channels * RD_FIFO_SLOTS, slot_size = RD_FIFO_SLOT_MAX;

	while (slot_size > RD_FIFO_SLOT_MIN && slots * slot_size > RD_FIFO_SIZE)
		slot_size /= 2;
	return slot_size;
}

size_t rd_fifo_size(int size, int channels)
{
	size_t slot = rd_fifo_slot_size(size, channels) + RD_FIFO_ALIGNMENT;

	return sizeof(struct rd_fifo) + (size_t)size * channels * RD_FIFO_SLOTS * slot;
}

/* ---- Moves --------------------------------------------------------------------------------- */

static struct rd_spot spot_of(struct rd_where where)
{
	return (struct rd_spot){ .memory = where.memory, .chunk = where.chunk };
}

bool rd_compile_can(const struct rd_plan *plan)
{
	for (int i = 0; i < plan->step_count; i++)
		if (plan->steps[i].kind > RD_STEP_FLUSH)
			return false;
	return true;
}

/* A send copies into the peer's slot, so no FLUSH is needed. */
int rd_compile_moves(const struct rd_plan *plan, struct rd_move *moves)
{
	int count = 0;

	for (int i = 0; i < plan->step_count; i++) {
		const struct rd_step *step = &plan->steps[i];

		if (step->kind == RD_STEP_FLUSH)
			continue;
		moves[count++] = (struct rd_move){
			.peer = (int16_t)(rd_step_receives(step) ? step->peer : -1),
			.to = (int16_t)(rd_step_sends(step) ? step->to : -1),
			.reduces = rd_step_reduces(step),
			.last = step->last,
			.chunk = step->chunk,
			.from = rd_step_reads(step) ? spot_of(step->from) : (struct rd_spot){ 0 },
			.into = rd_step_writes(step) ? spot_of(step->into) : (struct rd_spot){ 0 },
		};
	}
	return count;
}

/* ---- Calls --------------------------------------------------------------------------------- */

/* Cuts a chunk into a piece for each channel, if that leaves pieces of PIECE_MIN; pieces also fit
   a slot. */
static void cut_chunk(struct rd_steps *steps, size_t line)
{
	size_t most = steps->slot_size / steps->element, least = PIECE_MIN / steps->element;
	size_t piece = rd_round_up(
		(steps->chunk_count + steps->fifo_channels - 1) / steps->fifo_channels, line);

	if (piece < least)
		piece = least;
	if (piece > most)
		piece = most;
	steps->piece_count = piece;
	steps->pieces = (steps->chunk_count + piece - 1) / piece;
	/* The first messages always go, for the signatures in them. */
	if (steps->pieces == 0)
		steps->pieces = 1;
	steps->channels = steps->pieces < (size_t)steps->fifo_channels ? (int)steps->pieces
								       : steps->fifo_channels;
}

void rd_compile_cut(struct rd_steps *steps, const struct rd_plan *plan, const struct rd_call *call,
	int fifo_channels, size_t slot_size)
{
	size_t element = rondo_type_size(call->type), line = RD_SLICE_ALIGNMENT / element;

	memset(steps, 0, sizeof(*steps));
	steps->rank = call->problem.rank;
	steps->size = call->problem.size;
	steps->type = call->type;
	steps->op = call->op;
	steps->fifo_channels = fifo_channels;
	steps->parts = plan->parts;
	steps->scratch_chunks = plan->scratch_chunks;
	steps->signature = rd_call_hash(call);
	steps->element = element;
	steps->count = steps->chunk_count = call->count;
	if (plan->parts > 1)
		steps->chunk_count =
			rd_round_up((call->count + plan->parts - 1) / plan->parts, line);
	steps->slot_size = slot_size;
	steps->in = call->in;
	steps->out = call->out;
	cut_chunk(steps, line);
}

size_t rd_compile_scratch_size(const struct rd_plan *plan, int channels, size_t slot_size)
{
	return (size_t)plan->scratch_chunks * channels * (slot_size + RD_FIFO_ALIGNMENT);
}

uint32_t rd_call_hash(const struct rd_call *call)
{
	struct rd_signature signature = rd_signature_of(call);
	unsigned char bytes[sizeof(signature)];
	uint32_t hash = 2166136261u;

	memcpy(bytes, &signature, sizeof(bytes));
	for (size_t i = 0; i < sizeof(bytes); i++)
		hash = (hash ^ bytes[i]) * 16777619u;
	return hash;
}
