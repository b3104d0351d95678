#include "exec/exec.h"

#include <string.h>

#include "base/hot_call.h"
#include "base/arith.h"
#include "base/error.h"
#include "exec/block.h"
#include "exec/direct_access.h"
#include "exec/slice.h"
#include "exec/values.h"

#ifdef RD_TRACED
#define TRACE_TRY(exec) rd_trace_try(exec)
#define TRACE_STEP(exec, channel, piece, step) rd_trace_step(exec, channel, piece, step)
#else
#define TRACE_TRY(exec)
#define TRACE_STEP(exec, channel, piece, step)
#endif

static const struct rd_step *step_at(const struct rd_exec *exec, int channel, int index)
{
	return &exec->plans[channel]->steps[index];
}

static int index_of(const struct rd_exec *exec, int channel, const struct rd_step *step)
{
	return (int)(step - exec->plans[channel]->steps);
}

static uint64_t *send_mark_of(const struct rd_exec *exec, int channel, int step)
{
	return &exec->send_marks[(size_t)channel * exec->steps_most + step];
}

/* ---- Signatures ---------------------------------------------------------------------------- */

static int mismatch(struct rd_exec *exec, int peer, const struct rd_signature *theirs,
	const struct rd_signature *ours, size_t sent, size_t wanted)
{
	exec->waiting_for = peer;
	return rd_signature_mismatch(
		&exec->call, exec->plans[0]->parts, peer, theirs, ours, sent, wanted);
}

__attribute__((noinline)) static size_t count_to_sign(const struct rd_exec *exec, int chunk)
{
	const struct rd_call *call = &exec->call;

	return rd_vcounts_block_size(call->vcounts, &call->problem, chunk / exec->plans[0]->parts) /
	       rondo_type_size(call->type);
}

/*
 * The signature of a message with this chunk, until the next one is made. A field is written only
 * where it changes: a processor waits when it reads a whole word right after a part was written.
 */
static const struct rd_signature *sign(struct rd_exec *exec, uint32_t chunk)
{
	if (exec->signature.chunk != chunk)
		exec->signature.chunk = chunk;
	if (exec->call.vcounts)
		exec->signature.count = count_to_sign(exec, (int)(chunk & ~RD_CHUNK_SUM));
	return &exec->signature;
}

/* The tag of a message that this step sends. */
static const struct rd_tag *tag_to_send(struct rd_exec *exec, const struct rd_step *step)
{
	uint32_t chunk = step->chunk;

	if (exec->call.op == RONDO_AVG && rd_step_sends_sum(step))
		chunk |= RD_CHUNK_SUM;
	return (const struct rd_tag *)sign(exec, chunk);
}

/* Takes the mark of a mean's partial sum from a message's signature. */
static void take_mark(struct rd_exec *exec, struct rd_signature *theirs)
{
	exec->message_is_sum = !(theirs->chunk & RD_CHUNK_NONE) && theirs->chunk & RD_CHUNK_SUM;
	if (exec->message_is_sum)
		theirs->chunk &= ~RD_CHUNK_SUM;
}

/* ---- Steps: each returns an rd_progress (RD_DONE never), or a negative error --------------- */

static int wait_for(struct rd_exec *exec, const struct rd_link *link)
{
	exec->waiting_for = link->peer;
	if (!link->error)
		return RD_IDLE;
	return rd_fail(link->error, "rank %d %s during %s #%u", link->peer, link->reason,
		rd_collective_name(exec->call.problem.collective), exec->call.number);
}

static struct rd_link *link_to(const struct rd_exec *exec, int peer, int channel)
{
	return exec->links[peer * exec->stride + channel];
}

/* A message whose signature is not the step's: a mean's partial sum, or another call's. */
static __attribute__((noinline)) int take_other(struct rd_exec *exec, const struct rd_link *link,
	const struct rd_signature *ours, size_t size, const struct rd_message *message)
{
	struct rd_signature theirs;

	memcpy(&theirs, message->tag, sizeof(theirs));
	if (exec->call.op == RONDO_AVG)
		take_mark(exec, &theirs);
	if (rd_signature_is_same(&theirs, ours) && message->size == size)
		return RD_MOVED;
	return mismatch(exec, link->peer, &theirs, ours, message->size, size);
}

/* The step's message, if it has come and matches. */
static inline __attribute__((always_inline)) int take_message(struct rd_exec *exec,
	struct rd_link *link, const struct rd_step *step, void *into, size_t size,
	struct rd_message *message)
{
	if (!link->ops->recv(link, into, size, message))
		return wait_for(exec, link);

	const struct rd_signature *ours = sign(exec, step->chunk);

	if (!rd_signature_is_same(message->tag, ours) || message->size != size)
		return take_other(exec, link, ours, size, message);
	exec->message_is_sum = false;
	return RD_MOVED;
}

static void commit(
	struct rd_exec *exec, struct rd_link *link, const struct rd_step *step, size_t size)
{
	link->ops->commit(link, tag_to_send(exec, step), size);
	exec->lingers |= link->unsent;
}

/* Sends from memory that no step changes before a FLUSH of this step, or the end of the call. */
static int post(struct rd_exec *exec, int channel, const struct rd_step *step, const char *from,
	size_t size)
{
	struct rd_link *link = link_to(exec, step->to, channel);

	if (!link->ops->send(link, tag_to_send(exec, step), from, size))
		return wait_for(exec, link);
	*send_mark_of(exec, channel, index_of(exec, channel, step)) = link->posted;
	exec->lingers = true;
	exec->copied_once |= link->single_copy;
	return RD_MOVED;
}

/* Whether a message may be sent from its memory, with no copy into the link. Scratch is used again
   by the next piece, so messages from it are copied. */
static bool may_post(
	const struct rd_exec *exec, const struct rd_link *link, struct rd_where from, size_t size)
{
	return size >= link->send_min && link->ops->send &&
	       (!link->single_copy || exec->single_copy) &&
	       (from.memory == RD_IN || from.memory == RD_OUT);
}

/* Whether input and output share no byte; false where that takes longer to find out. */
static bool is_apart(const struct rd_exec *exec)
{
	const struct rd_call *call = &exec->call;
	size_t block = call->count * exec->element;
	uintptr_t in = (uintptr_t)call->in, out = (uintptr_t)call->out;

	return rd_call_is_ordinary(call) &&
	       (in + rd_in_blocks(&call->problem) * block <= out ||
		       out + rd_out_blocks(&call->problem) * block <= in);
}

/* Plans have FLUSHes for calls in place, too. Where input and output are apart, no step writes to
   the input, so that sends from it need no wait. */
static bool may_be_overwritten(const struct rd_exec *exec, const struct rd_step *sender)
{
	return sender->kind != RD_STEP_SEND || sender->from.memory != RD_IN || !is_apart(exec);
}

/* Returns whether the plan waits at once for the end of a single copy. A copy into the link is then
   quicker than the peer, which may be waiting likewise. */
static bool is_flushed_next(
	const struct rd_exec *exec, const struct rd_link *link, const struct rd_step *step)
{
	const struct rd_plan *plan = exec->plans[link->channel];
	const struct rd_step *next = step + 1;
	int index = index_of(exec, link->channel, step);

	return link->single_copy && index + 1 < plan->step_count && next->kind == RD_STEP_FLUSH &&
	       next->sender == index && may_be_overwritten(exec, step);
}

/* Whether the same step posts a message of the next piece at once. Between the two a copy out of
   place may take time, for which the first one does not wait. A v-call's block may end earlier. */
static bool is_row(const struct rd_exec *exec, const struct rd_link *link,
	const struct rd_step *step, size_t piece)
{
	size_t next = piece + exec->channels, size;

	if (!exec->sends_alone || next >= exec->pieces ||
		(piece < (size_t)exec->channels && exec->call.in != exec->call.out))
		return false;
	size = rd_slice_count(exec, step->chunk, next) * exec->element;
	return size > 0 && may_post(exec, link, step->from, size);
}

static int run_send(struct rd_exec *exec, int channel, size_t piece, const struct rd_step *step)
{
	struct rd_link *link = link_to(exec, step->to, channel);
	size_t size = rd_slice_count(exec, step->chunk, piece) * exec->element;
	const char *from = rd_slice_at(exec, step->from, channel, piece);

	if (may_post(exec, link, step->from, size) && !is_flushed_next(exec, link, step)) {
		link->more = is_row(exec, link, step, piece);
		int moved = post(exec, channel, step, from, size);
		link->more = false;
		return moved;
	}

	void *slot = link->ops->reserve(link, size);

	if (!slot)
		return wait_for(exec, link);
	rd_exec_copy_out(exec, link, slot, from, size);
	commit(exec, link, step, size);
	return RD_MOVED;
}

/* From a link. Beyond the caches the C library does, as in run_copy(). Within them it is slower
   where another core has the lines (reduce.h). */
static void copy_in(const struct rd_exec *exec, char *into, const void *from, size_t size)
{
	if (exec->in_memory && into != from && size > 0)
		memcpy(into, from, size);
	else
		rd_exec_copy(into, from, size);
}

static int run_recv(struct rd_exec *exec, int channel, size_t piece, const struct rd_step *step)
{
	struct rd_link *link = link_to(exec, step->peer, channel);
	size_t size = rd_slice_count(exec, step->chunk, piece) * exec->element;
	char *into = rd_slice_at(exec, step->into, channel, piece);
	struct rd_message message;
	int moved = take_message(exec, link, step, into, size, &message);

	if (moved <= 0)
		return moved;
	copy_in(exec, into, message.data, size);
	link->ops->release(link);
	return RD_MOVED;
}

static inline __attribute__((always_inline)) int run_recv_reduce(
	struct rd_exec *exec, int channel, size_t piece, const struct rd_step *step)
{
	struct rd_link *link = link_to(exec, step->peer, channel);
	size_t count = rd_slice_count(exec, step->chunk, piece);
	struct rd_message message;
	int moved = take_message(exec, link, step, NULL, count * exec->element, &message);

	if (moved <= 0)
		return moved;
	rd_values_combine(exec, step, rd_slice_at(exec, step->into, channel, piece), message.data,
		rd_slice_at(exec, step->from, channel, piece), count);
	link->ops->release(link);
	return RD_MOVED;
}

/*
 * Receives a value, combines it with ours if it is a REDUCE_FORWARD, and sends it on. If the
 * outgoing link sends from memory and the step stores the value, it is sent from there. Otherwise
 * run_forward() writes it straight into a slot of the outgoing link.
 */
static int run_forward_stored(
	struct rd_exec *exec, int channel, struct rd_cursor *cursor, const struct rd_step *step)
{
	size_t size = rd_slice_count(exec, step->chunk, cursor->piece) * exec->element;

	if (!cursor->received) {
		int moved = step->kind == RD_STEP_FORWARD
				    ? run_recv(exec, channel, cursor->piece, step)
				    : run_recv_reduce(exec, channel, cursor->piece, step);

		if (moved <= 0)
			return moved;
		cursor->received = true;
	}

	int moved = post(
		exec, channel, step, rd_slice_at(exec, step->into, channel, cursor->piece), size);

	if (moved > 0)
		cursor->received = false;
	return moved;
}

static int run_forward(
	struct rd_exec *exec, int channel, struct rd_cursor *cursor, const struct rd_step *step)
{
	struct rd_link *from_link = link_to(exec, step->peer, channel);
	struct rd_link *to_link = link_to(exec, step->to, channel);
	size_t count = rd_slice_count(exec, step->chunk, cursor->piece);
	size_t size = count * exec->element;
	struct rd_message message;

	if (may_post(exec, to_link, step->into, size))
		return run_forward_stored(exec, channel, cursor, step);

	char *into = rd_slice_at(exec, step->into, channel, cursor->piece);
	bool reduces = step->kind == RD_STEP_REDUCE_FORWARD;
	int moved = take_message(exec, from_link, step, reduces ? NULL : into, size, &message);

	if (moved <= 0)
		return moved;
	void *slot = to_link->ops->reserve(to_link, size);

	if (!slot)
		return wait_for(exec, to_link);
	if (reduces) {
		rd_values_combine_to_slot(exec, to_link, step, slot, into, message.data,
			rd_slice_at(exec, step->from, channel, cursor->piece), count);
	} else {
		rd_exec_copy_out(exec, to_link, slot, message.data, size);
		if (into)
			rd_exec_copy(into, message.data, size);
	}
	commit(exec, to_link, step, size);
	from_link->ops->release(from_link);
	return RD_MOVED;
}

static int run_flush(struct rd_exec *exec, int channel, const struct rd_step *step)
{
	/* Most short calls copy what they send. */
	if (!exec->lingers)
		return RD_MOVED;

	const struct rd_link *link = link_to(exec, step->to, channel);

	if (link->sent >= *send_mark_of(exec, channel, step->sender) ||
		!may_be_overwritten(exec, step_at(exec, channel, step->sender)))
		return RD_MOVED;
	return wait_for(exec, link);
}

/* ---- One message from every other rank ------------------------------------------------------- */

/* The message stays in its link until the MERGE. The send mark has its address. */
static int run_hold(struct rd_exec *exec, int channel, size_t piece, const struct rd_step *step)
{
	size_t size = rd_slice_count(exec, step->chunk, piece) * exec->element;
	struct rd_message message;
	int moved =
		take_message(exec, link_to(exec, step->peer, channel), step, NULL, size, &message);

	if (moved > 0)
		*send_mark_of(exec, channel, index_of(exec, channel, step)) =
			(uintptr_t)message.data;
	return moved;
}

/* Finds the address of each rank's value. The HOLDs, and FLUSHes of this rank's sends, come right
   before the MERGE. */
static void find_sources(
	const struct rd_exec *exec, int channel, const struct rd_step *merge, const char **sources)
{
	const struct rd_step *step = merge - 1;

	for (int found = 1; found < exec->call.problem.size; step--) {
		if (step->kind != RD_STEP_HOLD)
			continue;
		sources[step->peer] = (const char *)(uintptr_t)*send_mark_of(
			exec, channel, index_of(exec, channel, step));
		found++;
	}
}

static void run_merge(struct rd_exec *exec, int channel, size_t piece, const struct rd_step *step)
{
	size_t count = rd_slice_count(exec, step->chunk, piece),
	       most = RD_EXEC_BLOCK / exec->element;
	int rank = exec->call.problem.rank, size = exec->call.problem.size;
	char *into = rd_slice_at(exec, step->into, channel, piece);
	const char *sources[RD_MERGE_MOST];

	find_sources(exec, channel, step, sources);
	sources[rank] = rd_slice_at(exec, step->from, channel, piece);
	for (size_t done = 0; done < count; done += most) {
		size_t at = done * exec->element;

		rd_values_combine_all(exec, into + at, sources, at, rd_min(most, count - done));
	}
	for (int peer = 0; peer < size; peer++)
		if (peer != rank)
			link_to(exec, peer, channel)->ops->release(link_to(exec, peer, channel));
}

/* ---- Steps of direct access, but for those in direct_access.c -------------------------------- */

static int run_signal(struct rd_exec *exec, int channel, const struct rd_step *step)
{
	struct rd_link *link = link_to(exec, step->to, channel);

	if (!link->ops->reserve(link, 0))
		return wait_for(exec, link);
	commit(exec, link, step, 0);
	return RD_MOVED;
}

static int run_await(struct rd_exec *exec, int channel, const struct rd_step *step)
{
	struct rd_link *link = link_to(exec, step->peer, channel);
	struct rd_message message;
	int moved = take_message(exec, link, step, NULL, 0, &message);

	if (moved > 0)
		link->ops->release(link);
	return moved;
}

/* Both sides are memory of this rank, in no other core's cache. The C library copies it by
   `rep movsb`, which does not fetch the lines that it writes (1 MiB beyond the second-level cache:
   59 us for 77). */
static void run_copy(
	const struct rd_exec *exec, int channel, size_t piece, const struct rd_step *step)
{
	char *into = rd_slice_at(exec, step->into, channel, piece);
	const char *from = rd_slice_at(exec, step->from, channel, piece);
	size_t size = rd_slice_count(exec, step->chunk, piece) * exec->element;

	if (into != from && size > 0)
		memcpy(into, from, size);
}

/* ---- Stepping ------------------------------------------------------------------------------ */

/* A step with no element in this piece moves nothing. Each step's first message always goes, for
   the signature in it. */
static bool empty(const struct rd_exec *exec, const struct rd_step *step, size_t piece)
{
	return piece > 0 && step->kind != RD_STEP_FLUSH && step->kind != RD_STEP_SIGNAL &&
	       step->kind != RD_STEP_AWAIT && rd_slice_count(exec, step->chunk, piece) == 0;
}

static int run_step(
	struct rd_exec *exec, int channel, struct rd_cursor *cursor, const struct rd_step *step)
{
	if (empty(exec, step, cursor->piece))
		return RD_MOVED;
	switch (step->kind) {
	case RD_STEP_SEND:
		return run_send(exec, channel, cursor->piece, step);
	case RD_STEP_RECV:
		return run_recv(exec, channel, cursor->piece, step);
	case RD_STEP_RECV_REDUCE:
		return run_recv_reduce(exec, channel, cursor->piece, step);
	case RD_STEP_FORWARD:
	case RD_STEP_REDUCE_FORWARD:
		return run_forward(exec, channel, cursor, step);
	case RD_STEP_HOLD:
		return run_hold(exec, channel, cursor->piece, step);
	case RD_STEP_MERGE:
		run_merge(exec, channel, cursor->piece, step);
		return RD_MOVED;
	case RD_STEP_COPY:
		run_copy(exec, channel, cursor->piece, step);
		return RD_MOVED;
	case RD_STEP_FLUSH:
		return run_flush(exec, channel, step);
	case RD_STEP_SIGNAL:
		return run_signal(exec, channel, step);
	case RD_STEP_AWAIT:
		return run_await(exec, channel, step);
	case RD_STEP_FETCH:
		rd_exec_fetch(exec, cursor->piece, step);
		return RD_MOVED;
	case RD_STEP_SWAP:
		rd_exec_swap(exec, cursor->piece, step);
		return RD_MOVED;
	case RD_STEP_SPREAD:
		rd_exec_spread(exec, cursor->piece, step);
		return RD_MOVED;
	case RD_STEP_COMBINE:
		rd_exec_combine(exec, channel, cursor->piece, step);
		return RD_MOVED;
	}
	return RD_MOVED;
}

/* Runs one channel until it must wait. Sets *moved if any step was taken. */
static int run_channel(struct rd_exec *exec, int channel, bool *moved)
{
	struct rd_cursor *cursor = &exec->cursors[channel];
	const struct rd_step *steps = exec->plans[channel]->steps; /* NULL where there is none */
	int count = exec->plans[channel]->step_count;

	TRACE_TRY(exec);
	while (cursor->piece < exec->pieces) {
		for (int i = cursor->step; i < count; i++) {
			int step_moved = run_step(exec, channel, cursor, &steps[i]);

			if (step_moved <= 0) {
				cursor->step = i;
				return step_moved;
			}
			*moved = true;
			TRACE_STEP(exec, channel, cursor->piece, &steps[i]);
		}
		cursor->step = 0;
		cursor->piece += exec->channels;
		if (cursor->piece >= exec->pieces)
			exec->running--;
	}
	return 0;
}

/* The call may end only when no link reads the user's memory, or needs this thread to send what it
   has accepted: the caller may compute for a long time. */
static int drain_channel(struct rd_exec *exec, int channel)
{
	for (int i = 0; i < exec->plans[channel]->step_count; i++) {
		int to = step_at(exec, channel, i)->to;
		const struct rd_link *link = to >= 0 ? link_to(exec, to, channel) : NULL;

		if (link && (link->unsent || link->sent < link->posted))
			return wait_for(exec, link);
	}
	return RD_DONE;
}

static int drain(struct rd_exec *exec)
{
	int drained = RD_DONE;

	for (int channel = 0; exec->lingers && drained == RD_DONE && channel < exec->channels;
		channel++)
		drained = drain_channel(exec, channel);
	return drained;
}

RD_HOT_CALL int rd_exec_step(struct rd_exec *exec)
{
	bool moved = false;

	if (exec->error)
		return exec->error;
	for (int channel = 0; exec->running > 0 && channel < exec->channels; channel++) {
		exec->error = run_channel(exec, channel, &moved);
		if (exec->error)
			return exec->error;
	}
	if (exec->running > 0)
		return moved ? RD_MOVED : RD_IDLE;

	int drained = drain(exec);

	if (drained < 0)
		exec->error = drained;
	return drained == RD_IDLE && moved ? RD_MOVED : drained;
}

#ifndef RD_TRACED
int rd_exec_find_mismatch(struct rd_exec *exec)
{
	const struct rd_signature *ours = sign(exec, 0);
	struct rd_signature theirs;
	struct rd_message message;

	for (int i = 0; i < exec->call.problem.size * exec->stride; i++) {
		struct rd_link *link = exec->links[i];

		if (!link || link->error || !link->ops->recv(link, NULL, 0, &message))
			continue;
		memcpy(&theirs, message.tag, sizeof(theirs));
		if (!rd_signature_mismatches(&theirs, ours))
			continue;
		exec->error = mismatch(exec, link->peer, &theirs, ours, message.size, message.size);
		return exec->error;
	}
	return 0;
}
#endif
