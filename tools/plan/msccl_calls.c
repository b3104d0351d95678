/*
 * A program of MSCCL as calls. Its blocks run here, of all ranks side by side, without data: the
 * order in which their steps come to their turn is the order of each rank's calls. A link of Rondo
 * has one order and holds two messages, whatever channels MSCCL sends over; so it is here.
 *
 * MSCCL++ reads and writes other ranks' memory. Each access is a message here, which its receiver
 * takes at once, or leaves in the link until a later step adds it.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "msccl_run.h"

/* ---- Steps: each returns whether it is done. It is not where its turn has not come, and after an
   error, which is run->err. ---- */

static bool refuse_step(struct msccl_run *run, const struct msccl_block *block,
	const struct msccl_step *step, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

static bool refuse_step(struct msccl_run *run, const struct msccl_block *block,
	const struct msccl_step *step, const char *format, ...)
{
	char what[200], where[80] = "";
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	if (step->op_name)
		snprintf(where, sizeof(where), "gpu %d, tb %d, op %d (%s): ", block->rank,
			block->id, step->op, step->op_name);
	run->err = msccl_refuse(run->msccl, step->line, "%s%s", where, what);
	return false;
}

static bool refuse_slot(struct msccl_run *run, const struct msccl_block *block,
	const struct msccl_step *step, struct msccl_slot slot, const char *why)
{
	return refuse_step(
		run, block, step, "%c[%d] %s", slot.buffer, slot.offset + block->chunk, why);
}

/* Whether the value is in a link, or at another rank. */
static bool is_elsewhere(const struct msccl_value *value)
{
	return value->message || value->at;
}

/* Whether the value's message is the first of its link. One that stayed at its rank is sent now. */
static bool bring(struct msccl_run *run, const struct msccl_block *block,
	const struct msccl_step *step, int rank, struct msccl_slot slot, struct msccl_value *value)
{
	const int from = value->at ? value->at - 1 : run->messages[value->message - 1].from;
	struct msccl_link *link = msccl_link_of(run, from, rank);

	if (!value->at)
		return link->first == value->message - 1;
	if (value->version != run->ranks[from].now[value->chunk - 1].version)
		return refuse_slot(run, block, step, slot,
			"was put, and its rank has a newer value: a link holds two messages");
	return link->count == 0 && msccl_send_stay(run, from, rank, value);
}

/* Takes a message, and leaves its value in the slot. */
static bool take(struct msccl_run *run, int rank, int index, struct msccl_value *into)
{
	const struct msccl_message message = run->messages[index];
	bool taken = msccl_take(run, rank, &message);

	*into = run->ranks[rank].now[message.chunk];
	return taken;
}

/* The same, added to the value that the rank has. */
static bool take_reduce(struct msccl_run *run, int rank, int index, struct msccl_value *into)
{
	const struct msccl_message message = run->messages[index];
	bool taken = msccl_take_reduce(run, rank, &message);

	*into = run->ranks[rank].now[message.chunk];
	return taken;
}

/* Whether the value of this rank is the one that a send or a reduction uses. */
static bool need_present(struct msccl_run *run, const struct msccl_block *block,
	const struct msccl_step *step, int rank, struct msccl_slot slot, struct msccl_value *value)
{
	if (!value || !value->chunk)
		return refuse_slot(run, block, step, slot,
			value ? "has no value yet" : "is beyond its buffer");
	if (is_elsewhere(value)) {
		if (!bring(run, block, step, rank, slot, value))
			return false;
		msccl_link_of(run, run->messages[value->message - 1].from, rank)->held--;
		return take(run, rank, value->message - 1, value);
	}
	if (run->reduces && value->version != run->ranks[rank].now[value->chunk - 1].version)
		return refuse_slot(run, block, step, slot,
			"is an older value of its chunk: a plan has the newest alone");
	return true;
}

static bool has_turn(const struct msccl_run *run, const struct msccl_block *block)
{
	const struct msccl_step *step;

	if (block->at == block->step_count)
		return false;
	step = &block->steps[block->at];
	return step->after_block < 0 ||
	       run->msccl->blocks[run->msccl->firsts[block->rank] + step->after_block].at >
		       step->after_step;
}

/* Whether the receiver of this block's messages waits for one. */
static bool receiver_waits(const struct msccl_run *run, const struct msccl_block *block)
{
	const struct msccl *msccl = run->msccl;

	for (int i = msccl->firsts[block->to]; i < msccl->firsts[block->to + 1]; i++) {
		const struct msccl_block *there = &msccl->blocks[i];

		if (there->peer == block->rank && there->channel == block->channel)
			return has_turn(run, there) && msccl_receives(there->steps[there->at].type);
	}
	return false;
}

static bool may_send(const struct msccl_run *run, const struct msccl_block *block)
{
	const struct msccl_link *link = msccl_link_of(run, block->rank, block->to);

	if (link->count >= LINK_MESSAGES)
		return false;
	return run->eager || (link->count == link->held && receiver_waits(run, block));
}

static bool send(struct msccl_run *run, struct msccl_block *block, const struct msccl_step *step)
{
	struct msccl_value *value = msccl_slot_at(run, block->rank, step->from, block->chunk);

	return may_send(run, block) &&
	       need_present(run, block, step, block->rank, step->from, value) &&
	       msccl_put(run, block->rank, block->to, block->channel, value);
}

/* The message that this block receives next: -1: it is not there. */
static int arrived(const struct msccl_run *run, const struct msccl_block *block)
{
	const struct msccl_link *link = msccl_link_of(run, block->peer, block->rank);
	int at = link->first;

	for (int i = 0; i < link->held; i++)
		at = run->messages[at].next;
	return at >= 0 && run->messages[at].channel == block->channel ? at : -1;
}

/* Whether a later step adds the message to the value that the rank has elsewhere. */
static bool is_added_later(const struct msccl_run *run, int rank,
	const struct msccl_message *message, const struct msccl_value *into)
{
	const struct msccl_value *now = &run->ranks[rank].now[message->chunk];
	bool overwrites =
		into->chunk == now->chunk && into->version == now->version && !is_elsewhere(into);

	return run->reduces && message->count < run->size && now->chunk && !overwrites;
}

static bool receive(struct msccl_run *run, struct msccl_block *block, const struct msccl_step *step)
{
	struct msccl_value *into = msccl_slot_at(run, block->rank, step->into, block->chunk);
	struct msccl_link *link = msccl_link_of(run, block->peer, block->rank);
	int at = arrived(run, block);

	if (at < 0)
		return false;
	if (!into)
		return refuse_slot(run, block, step, step->into, "is beyond its buffer");

	const struct msccl_message *message = &run->messages[at];

	if (step->type == MSCCL_RECV && is_added_later(run, block->rank, message, into)) {
		*into = (struct msccl_value){ message->chunk + 1, 0, message->count, at + 1, 0 };
		link->held++;
		return true;
	}
	if (link->held > 0 || (msccl_sends(step->type) && !may_send(run, block)))
		return false;
	return take(run, block->rank, at, into) &&
	       (!msccl_sends(step->type) ||
		       msccl_put(run, block->rank, block->to, block->channel, into));
}

static bool check_reduces(
	struct msccl_run *run, const struct msccl_block *block, const struct msccl_step *step)
{
	return run->reduces || refuse_step(run, block, step, "%s reduces nothing",
				       rd_collective_name(run->msccl->problem.collective));
}

static bool receive_reduce(
	struct msccl_run *run, struct msccl_block *block, const struct msccl_step *step)
{
	struct msccl_value *from = msccl_slot_at(run, block->rank, step->from, block->chunk);
	struct msccl_value *into = msccl_slot_at(run, block->rank, step->into, block->chunk), sum;
	int at = arrived(run, block);

	if (!check_reduces(run, block, step) || at < 0 ||
		msccl_link_of(run, block->peer, block->rank)->held > 0 ||
		(msccl_sends(step->type) && !may_send(run, block)) ||
		!need_present(run, block, step, block->rank, step->from, from))
		return false;
	if (from->chunk != run->messages[at].chunk + 1)
		return refuse_slot(
			run, block, step, step->from, "is another chunk than the message");
	if (!into)
		return refuse_slot(run, block, step, step->into, "is beyond its buffer");
	if (!take_reduce(run, block->rank, at, &sum))
		return false;
	if (step->type != MSCCL_RECV_REDUCE_SEND)
		*into = sum;
	return !msccl_sends(step->type) ||
	       msccl_put(run, block->rank, block->to, block->channel, &sum);
}

static bool copy(struct msccl_run *run, struct msccl_block *block, const struct msccl_step *step)
{
	struct msccl_value *from = msccl_slot_at(run, block->rank, step->from, block->chunk);
	struct msccl_value *into = msccl_slot_at(run, block->rank, step->into, block->chunk);

	if (!from || !into)
		return refuse_slot(
			run, block, step, from ? step->into : step->from, "is beyond its buffer");
	if (step->packets && !from->chunk)
		return false;
	if (is_elsewhere(from))
		return refuse_slot(run, block, step, step->from,
			"is copied and may be added: a plan adds as it receives");
	*into = *from;
	return true;
}

/* Whether all packets are there that an operation adds: its sums then become one merge. */
static bool has_packets(
	const struct msccl_run *run, const struct msccl_block *block, const struct msccl_step *step)
{
	if (!step->packets || (block->at > 0 && step[-1].goes_on))
		return true;
	for (; step->packets; step++) {
		const struct msccl_value *from =
			msccl_slot_at(run, block->rank, step->from, block->chunk);

		if (from && !from->chunk)
			return false;
		if (!step->goes_on)
			break;
	}
	return true;
}

/* Adds a message that was left in its link. */
static bool reduce(struct msccl_run *run, struct msccl_block *block, const struct msccl_step *step)
{
	struct msccl_value *from = msccl_slot_at(run, block->rank, step->from, block->chunk);
	struct msccl_value *with = msccl_slot_at(run, block->rank, step->with, block->chunk);
	struct msccl_value *into = msccl_slot_at(run, block->rank, step->into, block->chunk);
	struct msccl_value *held, *other;
	bool from_is_held;

	if (!check_reduces(run, block, step))
		return false;
	if (!from || !with || !into)
		return refuse_slot(run, block, step,
			!from   ? step->from
			: !with ? step->with
				: step->into,
			"is beyond its buffer");
	if (!has_packets(run, block, step))
		return false;
	from_is_held = is_elsewhere(from);
	held = from_is_held ? from : with;
	other = from_is_held ? with : from;
	if (!is_elsewhere(held) || is_elsewhere(other) || !other->chunk ||
		held->chunk != other->chunk)
		return refuse_slot(run, block, step, step->from,
			"is no message to add to a value here: a plan adds as it receives");

	if (!bring(run, block, step, block->rank, from_is_held ? step->from : step->with, held) ||
		!need_present(run, block, step, block->rank, from_is_held ? step->with : step->from,
			other) ||
		!msccl_send_stays(run, block->rank, held->chunk - 1))
		return false;

	int message = held->message - 1;

	msccl_link_of(run, run->messages[message].from, block->rank)->held--;
	*held = (struct msccl_value){ 0 };
	return take_reduce(run, block->rank, message, into);
}

/* ---- Steps of one side ---------------------------------------------------------------------- */

/* A put or a get: a message from one rank's memory to another's. */
static bool move(struct msccl_run *run, struct msccl_block *block, const struct msccl_step *step)
{
	int here = step->type == MSCCL_PUT ? block->rank : step->peer;
	int there = step->type == MSCCL_PUT ? step->peer : block->rank;
	struct msccl_value *from = msccl_slot_at(run, here, step->from, block->chunk);
	struct msccl_value *into = msccl_slot_at(run, there, step->into, block->chunk);
	struct msccl_link *link = msccl_link_of(run, here, there);

	if (!into)
		return refuse_slot(run, block, step, step->into, "is beyond its buffer");
	if (step->packets && from && !from->chunk)
		return false;

	const struct msccl_message coming = { .chunk = from && from->chunk ? from->chunk - 1 : 0,
		.count = from ? from->count : 0 };
	bool stays = is_added_later(run, there, &coming, into);

	if ((!stays && (link->held > 0 || link->count >= LINK_MESSAGES)) ||
		!need_present(run, block, step, here, step->from, from))
		return false;
	if (stays && link->count >= LINK_MESSAGES) {
		*into = *from;
		return msccl_stay(run, here, there, into);
	}
	if (!msccl_put(run, here, there, 0, from))
		return false;
	if (!stays)
		return take(run, there, link->last, into);
	*into = (struct msccl_value){ from->chunk, 0, from->count, link->last + 1, 0 };
	link->held++;
	return true;
}

/* Adds a value of the peer's memory. */
static bool read_reduce(
	struct msccl_run *run, struct msccl_block *block, const struct msccl_step *step)
{
	struct msccl_value *from = msccl_slot_at(run, step->peer, step->from, block->chunk);
	struct msccl_value *with = msccl_slot_at(run, block->rank, step->with, block->chunk);
	struct msccl_value *into = msccl_slot_at(run, block->rank, step->into, block->chunk);
	struct msccl_link *link = msccl_link_of(run, step->peer, block->rank);

	if (!check_reduces(run, block, step) || link->count > 0)
		return false;
	if (!into)
		return refuse_slot(run, block, step, step->into, "is beyond its buffer");
	if (!need_present(run, block, step, block->rank, step->with, with) ||
		!need_present(run, block, step, step->peer, step->from, from))
		return false;
	if (from->chunk != with->chunk)
		return refuse_slot(run, block, step, step->from,
			"of the peer is another chunk than the one to which it is added");
	return msccl_send_stays(run, block->rank, with->chunk - 1) &&
	       msccl_put(run, step->peer, block->rank, 0, from) &&
	       take_reduce(run, block->rank, link->last, into);
}

static bool wait_for_counter(struct msccl_run *run, const struct msccl_step *step)
{
	int *counter = &run->msccl->counters[step->counter];

	if (*counter < (step->least ? step->least : 1))
		return false;
	*counter -= !step->least;
	return true;
}

static bool run_chunk(struct msccl_run *run, struct msccl_block *block)
{
	const struct msccl_step *step = &block->steps[block->at];

	switch (step->type) {
	case MSCCL_SEND:
		return send(run, block, step);
	case MSCCL_RECV:
	case MSCCL_RECV_COPY_SEND:
		return receive(run, block, step);
	case MSCCL_RECV_REDUCE_COPY:
	case MSCCL_RECV_REDUCE_SEND:
	case MSCCL_RECV_REDUCE_COPY_SEND:
		return receive_reduce(run, block, step);
	case MSCCL_COPY:
		return copy(run, block, step);
	case MSCCL_REDUCE:
		return reduce(run, block, step);
	case MSCCL_PUT:
	case MSCCL_GET:
		return move(run, block, step);
	case MSCCL_READ_REDUCE:
		return read_reduce(run, block, step);
	case MSCCL_SIGNAL:
		run->msccl->counters[step->counter]++;
		break;
	case MSCCL_WAIT:
		return wait_for_counter(run, step);
	case MSCCL_NOP:
		break;
	}
	return true;
}

/* ---- All blocks ----------------------------------------------------------------------------- */

/* Behind a step that is done for a chunk: to the next step, or the next chunk. */
static void go_on(struct msccl_block *block)
{
	const struct msccl_step *step = &block->steps[block->at];

	if (!step->goes_on && ++block->chunk < step->count) {
		block->at -= step->back;
		return;
	}
	if (!step->goes_on)
		block->chunk = 0;
	block->at++;
}

/* Runs a block as far as it goes; where ranks are eager, one send. Returns whether it moved. */
static bool run_block(struct msccl_run *run, struct msccl_block *block)
{
	bool moved = false;

	while (has_turn(run, block) && !(run->eager && moved) && run_chunk(run, block)) {
		moved = true;
		go_on(block);
	}
	return moved;
}

static bool run_blocks(struct msccl_run *run)
{
	bool moved = false;

	/* One message may free the others: sends whose receivers wait come first. */
	for (int i = 0; i < run->msccl->block_count && !run->err && !(run->eager && moved); i++)
		moved |= run_block(run, &run->msccl->blocks[i]);
	return moved;
}

#define NO_TURN "never has its turn: it waits in a circle, "

static void refuse_turn(
	struct msccl_run *run, const struct msccl_block *block, const struct msccl_step *step)
{
	if (step->op_name)
		refuse_step(run, block, step,
			NO_TURN "for a signal or packets that never come, or for room in a link");
	else
		refuse_step(run, block, step,
			"this step of gpu %d, tb %d " NO_TURN
			"for a message that nobody sends, or for room in a link",
			block->rank, block->id);
}

static void run_all(struct msccl_run *run)
{
	bool moved;

	do {
		run->eager = false;
		moved = run_blocks(run);
		if (!moved) {
			run->eager = true;
			moved = run_blocks(run);
		}
	} while (moved && !run->err);
	for (int i = 0; i < run->msccl->block_count && !run->err; i++) {
		const struct msccl_block *block = &run->msccl->blocks[i];

		if (block->at < block->step_count)
			refuse_turn(run, block, &block->steps[block->at]);
	}
}

/* Results that no later step has used are still in their links. */
static void take_rest(struct msccl_run *run, int rank)
{
	struct msccl_value value;

	for (int from = 0; from < run->size; from++) {
		struct msccl_link *link = msccl_link_of(run, from, rank);

		for (; link->held > 0 && !run->err; link->held--)
			take(run, rank, link->first, &value);
	}
}

static void make_file(struct msccl_run *run, struct rd_plan_file *file)
{
	const struct msccl *msccl = run->msccl;

	memcpy(file->name, msccl->title, sizeof(msccl->title));
	file->problem = msccl->problem;
	file->parts = msccl->parts;
	file->least_bytes = msccl->least_bytes;
	file->most_bytes = msccl->most_bytes;
	run->err = rd_plan_file_begin(file);
	for (int rank = 0; rank < run->size && !run->err; rank++) {
		take_rest(run, rank);
		for (int i = 0; i < run->ranks[rank].step_count && !run->err; i++)
			run->err = rd_plan_file_add(file, run->ranks[rank].steps[i]);
		rd_plan_file_end_rank(file);
	}
	if (!run->err)
		rd_plan_file_seal(file, false);
}

int msccl_to_file(struct msccl *msccl, struct rd_plan_file **file)
{
	struct msccl_run run;

	msccl_run_init(&run, msccl);
	*file = calloc(1, sizeof(**file));
	if (!*file)
		msccl_no_memory(&run);
	if (!run.err)
		run_all(&run);
	if (!run.err)
		make_file(&run, *file);
	msccl_run_finish(&run);
	if (run.err) {
		rd_plan_file_destroy(*file);
		*file = NULL;
	}
	return run.err;
}
