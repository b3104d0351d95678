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

/* ---- Steps: each returns 1 where it is done, 0 where its turn has not come, or an error. ---- */

static int refuse_step(const struct msccl_run *run, const struct msccl_block *block,
	const struct msccl_step *step, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

static int refuse_step(const struct msccl_run *run, const struct msccl_block *block,
	const struct msccl_step *step, const char *format, ...)
{
	char what[200];
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	if (step->op_name)
		return msccl_refuse(run->msccl, step->line, "gpu %d, tb %d, op %d (%s): %s",
			block->rank, block->id, step->op, step->op_name, what);
	return msccl_refuse(run->msccl, step->line, "%s", what);
}

static int refuse_slot(const struct msccl_run *run, const struct msccl_block *block,
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
static int bring(struct msccl_run *run, const struct msccl_block *block,
	const struct msccl_step *step, int rank, struct msccl_slot slot, struct msccl_value *value)
{
	const int from = value->at ? value->at - 1 : run->messages[value->message - 1].from;
	struct msccl_link *link = msccl_link_of(run, from, rank);
	int err;

	if (!value->at)
		return link->first == value->message - 1;
	if (value->version != run->ranks[from].now[value->chunk - 1].version)
		return refuse_slot(run, block, step, slot,
			"was put, and its rank has a newer value: a link holds two messages");
	if (link->count > 0)
		return 0;
	err = msccl_send_stay(run, from, rank, value);
	return err ? err : 1;
}

/* Whether the value of this rank is the one that a send or a reduction uses. */
static int need_present(struct msccl_run *run, const struct msccl_block *block,
	const struct msccl_step *step, int rank, struct msccl_slot slot, struct msccl_value *value)
{
	if (!value || !value->chunk)
		return refuse_slot(run, block, step, slot,
			value ? "has no value yet" : "is beyond its buffer");
	if (is_elsewhere(value)) {
		int err = bring(run, block, step, rank, slot, value);

		if (err != 1)
			return err;

		const struct msccl_message message = run->messages[value->message - 1];

		msccl_link_of(run, message.from, rank)->held--;
		err = msccl_take(run, rank, &message);
		*value = run->ranks[rank].now[message.chunk];
		return err ? err : 1;
	}
	if (run->reduces && value->version != run->ranks[rank].now[value->chunk - 1].version)
		return refuse_slot(run, block, step, slot,
			"is an older value of its chunk: a plan has the newest alone");
	return 1;
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

static int send(struct msccl_run *run, struct msccl_block *block, const struct msccl_step *step)
{
	struct msccl_value *value = msccl_slot_at(run, block->rank, step->from, block->chunk);
	int err;

	if (!may_send(run, block))
		return 0;
	err = need_present(run, block, step, block->rank, step->from, value);
	if (err != 1)
		return err;
	err = msccl_put(run, block->rank, block->to, block->channel, value);
	return err ? err : 1;
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

static int receive(struct msccl_run *run, struct msccl_block *block, const struct msccl_step *step)
{
	struct msccl_value *into = msccl_slot_at(run, block->rank, step->into, block->chunk);
	struct msccl_link *link = msccl_link_of(run, block->peer, block->rank);
	int at = arrived(run, block), err;

	if (at < 0)
		return 0;
	if (!into)
		return refuse_slot(run, block, step, step->into, "is beyond its buffer");

	const struct msccl_message message = run->messages[at];

	if (step->type == MSCCL_RECV && is_added_later(run, block->rank, &message, into)) {
		*into = (struct msccl_value){ message.chunk + 1, 0, message.count, at + 1, 0 };
		link->held++;
		return 1;
	}
	if (link->held > 0 || (msccl_sends(step->type) && !may_send(run, block)))
		return 0;
	err = msccl_take(run, block->rank, &message);
	*into = run->ranks[block->rank].now[message.chunk];
	if (!err && msccl_sends(step->type))
		err = msccl_put(run, block->rank, block->to, block->channel, into);
	return err ? err : 1;
}

static int check_reduces(
	const struct msccl_run *run, const struct msccl_block *block, const struct msccl_step *step)
{
	return run->reduces ? 0
			    : refuse_step(run, block, step, "%s reduces nothing",
				      rd_collective_name(run->msccl->problem.collective));
}

static int receive_reduce(
	struct msccl_run *run, struct msccl_block *block, const struct msccl_step *step)
{
	struct msccl_value *from = msccl_slot_at(run, block->rank, step->from, block->chunk);
	struct msccl_value *into = msccl_slot_at(run, block->rank, step->into, block->chunk), *now;
	int at = arrived(run, block), err = check_reduces(run, block, step);

	if (err || at < 0 || msccl_link_of(run, block->peer, block->rank)->held > 0 ||
		(msccl_sends(step->type) && !may_send(run, block)))
		return err;

	const struct msccl_message message = run->messages[at];

	err = need_present(run, block, step, block->rank, step->from, from);
	if (err != 1)
		return err;
	if (from->chunk != message.chunk + 1)
		return refuse_slot(
			run, block, step, step->from, "is another chunk than the message");
	if (!into)
		return refuse_slot(run, block, step, step->into, "is beyond its buffer");
	err = msccl_take_reduce(run, block->rank, &message);
	now = &run->ranks[block->rank].now[message.chunk];
	if (step->type != MSCCL_RECV_REDUCE_SEND)
		*into = *now;
	if (!err && msccl_sends(step->type))
		err = msccl_put(run, block->rank, block->to, block->channel, now);
	return err ? err : 1;
}

static int copy(struct msccl_run *run, struct msccl_block *block, const struct msccl_step *step)
{
	struct msccl_value *from = msccl_slot_at(run, block->rank, step->from, block->chunk);
	struct msccl_value *into = msccl_slot_at(run, block->rank, step->into, block->chunk);

	if (!from || !into)
		return refuse_slot(
			run, block, step, from ? step->into : step->from, "is beyond its buffer");
	if (step->packets && !from->chunk)
		return 0;
	if (is_elsewhere(from))
		return refuse_slot(run, block, step, step->from,
			"is copied and may be added: a plan adds as it receives");
	*into = *from;
	return 1;
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
static int reduce(struct msccl_run *run, struct msccl_block *block, const struct msccl_step *step)
{
	struct msccl_value *from = msccl_slot_at(run, block->rank, step->from, block->chunk);
	struct msccl_value *with = msccl_slot_at(run, block->rank, step->with, block->chunk);
	struct msccl_value *into = msccl_slot_at(run, block->rank, step->into, block->chunk);
	struct msccl_value *held, *other;
	bool from_is_held;
	int err = check_reduces(run, block, step);

	if (err)
		return err;
	if (!from || !with || !into)
		return refuse_slot(run, block, step,
			!from   ? step->from
			: !with ? step->with
				: step->into,
			"is beyond its buffer");
	if (!has_packets(run, block, step))
		return 0;
	from_is_held = is_elsewhere(from);
	held = from_is_held ? from : with;
	other = from_is_held ? with : from;
	if (!is_elsewhere(held) || is_elsewhere(other) || !other->chunk ||
		held->chunk != other->chunk)
		return refuse_slot(run, block, step, step->from,
			"is no message to add to a value here: a plan adds as it receives");

	err = bring(run, block, step, block->rank, from_is_held ? step->from : step->with, held);
	if (err == 1)
		err = need_present(run, block, step, block->rank,
			from_is_held ? step->with : step->from, other);
	if (err == 1)
		err = msccl_send_stays(run, block->rank, held->chunk - 1);
	if (err != 1)
		return err;

	const struct msccl_message message = run->messages[held->message - 1];

	msccl_link_of(run, message.from, block->rank)->held--;
	err = msccl_take_reduce(run, block->rank, &message);
	*held = (struct msccl_value){ 0 };
	*into = run->ranks[block->rank].now[message.chunk];
	return err ? err : 1;
}

/* ---- Steps of one side ---------------------------------------------------------------------- */

/* A put or a get: a message from one rank's memory to another's. */
static int move(struct msccl_run *run, struct msccl_block *block, const struct msccl_step *step)
{
	int here = step->type == MSCCL_PUT ? block->rank : step->peer;
	int there = step->type == MSCCL_PUT ? step->peer : block->rank, err;
	struct msccl_value *from = msccl_slot_at(run, here, step->from, block->chunk);
	struct msccl_value *into = msccl_slot_at(run, there, step->into, block->chunk);
	struct msccl_link *link = msccl_link_of(run, here, there);

	if (!into)
		return refuse_slot(run, block, step, step->into, "is beyond its buffer");
	if (step->packets && from && !from->chunk)
		return 0;

	const struct msccl_message coming = { .chunk = from && from->chunk ? from->chunk - 1 : 0,
		.count = from ? from->count : 0 };
	bool stays = is_added_later(run, there, &coming, into);

	if (!stays && (link->held > 0 || link->count >= LINK_MESSAGES))
		return 0;
	err = need_present(run, block, step, here, step->from, from);
	if (err != 1)
		return err;
	if (stays && link->count >= LINK_MESSAGES) {
		*into = *from;
		err = msccl_stay(run, here, there, into);
		return err ? err : 1;
	}
	err = msccl_put(run, here, there, 0, from);
	if (err)
		return err;
	if (stays) {
		*into = (struct msccl_value){ from->chunk, 0, from->count, link->last + 1, 0 };
		link->held++;
		return 1;
	}

	const struct msccl_message message = run->messages[link->last];

	err = msccl_take(run, there, &message);
	*into = run->ranks[there].now[message.chunk];
	return err ? err : 1;
}

/* Adds a value of the peer's memory. */
static int read_reduce(
	struct msccl_run *run, struct msccl_block *block, const struct msccl_step *step)
{
	struct msccl_value *from = msccl_slot_at(run, step->peer, step->from, block->chunk);
	struct msccl_value *with = msccl_slot_at(run, block->rank, step->with, block->chunk);
	struct msccl_value *into = msccl_slot_at(run, block->rank, step->into, block->chunk);
	struct msccl_link *link = msccl_link_of(run, step->peer, block->rank);
	int err = check_reduces(run, block, step);

	if (err || link->count > 0)
		return err;
	if (!into)
		return refuse_slot(run, block, step, step->into, "is beyond its buffer");
	err = need_present(run, block, step, block->rank, step->with, with);
	if (err == 1)
		err = need_present(run, block, step, step->peer, step->from, from);
	if (err != 1)
		return err;
	if (from->chunk != with->chunk)
		return refuse_slot(run, block, step, step->from,
			"of the peer is another chunk than the one to which it is added");
	err = msccl_send_stays(run, block->rank, with->chunk - 1);
	if (err != 1)
		return err;
	err = msccl_put(run, step->peer, block->rank, 0, from);
	if (err)
		return err;

	const struct msccl_message message = run->messages[link->last];

	err = msccl_take_reduce(run, block->rank, &message);
	*into = run->ranks[block->rank].now[message.chunk];
	return err ? err : 1;
}

static int wait_for_counter(struct msccl_run *run, const struct msccl_step *step)
{
	int *counter = &run->msccl->counters[step->counter];

	if (*counter < (step->least ? step->least : 1))
		return 0;
	*counter -= !step->least;
	return 1;
}

static int run_chunk(struct msccl_run *run, struct msccl_block *block)
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
	return 1;
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

/* Runs a block as far as it goes; where ranks are eager, one send. Returns whether it moved, or an
   error. */
static int run_block(struct msccl_run *run, struct msccl_block *block)
{
	int moved = 0, done = 1;

	while (done == 1 && has_turn(run, block) && !(run->eager && moved)) {
		done = run_chunk(run, block);
		if (done != 1)
			break;
		moved = 1;
		go_on(block);
	}
	return done < 0 ? done : moved;
}

static int run_blocks(struct msccl_run *run)
{
	int moved = 0;

	for (int i = 0; i < run->msccl->block_count; i++) {
		int went = run_block(run, &run->msccl->blocks[i]);

		if (went < 0)
			return went;
		moved |= went;
		/* One message may free the others: sends whose receivers wait come first. */
		if (run->eager && moved)
			return 1;
	}
	return moved;
}

#define NO_TURN "never has its turn: it waits in a circle, "

static int refuse_turn(
	const struct msccl_run *run, const struct msccl_block *block, const struct msccl_step *step)
{
	if (step->op_name)
		return refuse_step(run, block, step,
			NO_TURN "for a signal or packets that never come, or for room in a link");
	return refuse_step(run, block, step,
		"this step of gpu %d, tb %d " NO_TURN
		"for a message that nobody sends, or for room in a link",
		block->rank, block->id);
}

static int run_all(struct msccl_run *run)
{
	int moved;

	do {
		run->eager = false;
		moved = run_blocks(run);
		if (moved == 0) {
			run->eager = true;
			moved = run_blocks(run);
		}
	} while (moved > 0);
	if (moved < 0)
		return moved;
	for (int i = 0; i < run->msccl->block_count; i++) {
		const struct msccl_block *block = &run->msccl->blocks[i];

		if (block->at < block->step_count)
			return refuse_turn(run, block, &block->steps[block->at]);
	}
	return 0;
}

/* Results that no later step has used are still in their links. */
static int take_rest(struct msccl_run *run, int rank)
{
	int err = 0;

	for (int from = 0; from < run->size && !err; from++) {
		struct msccl_link *link = msccl_link_of(run, from, rank);

		for (; link->held > 0 && !err; link->held--) {
			const struct msccl_message message = run->messages[link->first];

			err = msccl_take(run, rank, &message);
		}
	}
	return err;
}

static int make_file(struct msccl_run *run, struct rd_plan_file *file)
{
	int err = rd_plan_file_begin(file);

	for (int rank = 0; rank < run->size && !err; rank++) {
		err = take_rest(run, rank);
		for (int i = 0; i < run->ranks[rank].step_count && !err; i++)
			err = rd_plan_file_add(file, run->ranks[rank].steps[i]);
		rd_plan_file_end_rank(file);
	}
	if (!err)
		rd_plan_file_seal(file, false);
	return err;
}

int msccl_to_file(struct msccl *msccl, struct rd_plan_file **file)
{
	struct msccl_run run;
	int err = msccl_run_init(&run, msccl);

	*file = err ? NULL : calloc(1, sizeof(**file));
	if (!err)
		err = *file ? run_all(&run) : msccl_no_memory(&run);
	if (!err) {
		memcpy((*file)->name, msccl->title, sizeof(msccl->title));
		(*file)->problem = msccl->problem;
		(*file)->parts = msccl->parts;
		(*file)->least_bytes = msccl->least_bytes;
		(*file)->most_bytes = msccl->most_bytes;
		err = make_file(&run, *file);
	}
	msccl_run_finish(&run);
	if (err) {
		rd_plan_file_destroy(*file);
		*file = NULL;
	}
	return err;
}
