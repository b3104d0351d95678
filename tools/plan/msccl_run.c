#include "msccl_run.h"

#include "base/error.h"
#include "base/grow.h"

/* ---- Memory --------------------------------------------------------------------------------- */

bool msccl_no_memory(struct msccl_run *run)
{
	run->err = rd_fail(RONDO_MEMORY, "no memory for the plans of %s", run->msccl->name);
	return false;
}

void msccl_run_finish(struct msccl_run *run)
{
	for (int i = 0; run->ranks && i < run->size; i++) {
		free(run->ranks[i].slots);
		free(run->ranks[i].now);
		free(run->ranks[i].stays);
		free(run->ranks[i].steps);
	}
	free(run->ranks);
	free(run->links);
	free(run->messages);
	free(run->stays);
}

/* In place, the slot by which input and output are one. */
static struct msccl_slot canonical(const struct msccl_run *run, int rank, struct msccl_slot slot)
{
	int parts = run->msccl->parts;

	if (!run->msccl->in_place)
		return slot;
	switch (run->msccl->problem.collective) {
	case RD_ALL_GATHER:
	case RD_GATHER:
		if (slot.buffer == 'i')
			slot = (struct msccl_slot){ 'o', slot.offset + rank * parts };
		return slot;
	case RD_REDUCE_SCATTER:
	case RD_SCATTER:
		if (slot.buffer == 'o')
			slot = (struct msccl_slot){ 'i', slot.offset + rank * parts };
		return slot;
	default:
		if (slot.buffer == 'i')
			slot.buffer = 'o';
		return slot;
	}
}

struct msccl_value *msccl_slot_at(
	const struct msccl_run *run, int rank, struct msccl_slot slot, int more)
{
	int first = 0, count = run->ins;

	slot.offset += more;
	slot = canonical(run, rank, slot);
	if (slot.buffer == 'o') {
		first = run->ins;
		count = run->outs;
	} else if (slot.buffer == 's') {
		first = run->ins + run->outs;
		count = run->msccl->scratch[rank];
	}
	return slot.offset < count ? &run->ranks[rank].slots[first + slot.offset] : NULL;
}

static bool init_rank(struct msccl_run *run, int rank)
{
	struct rd_problem problem = run->msccl->problem;
	struct msccl_rank *it = &run->ranks[rank];
	int parts = run->msccl->parts;

	it->slots =
		calloc((size_t)run->ins + (size_t)run->outs + (size_t)run->msccl->scratch[rank] + 1,
			sizeof(*it->slots));
	it->now = calloc((size_t)run->chunks, sizeof(*it->now));
	it->stays = calloc((size_t)run->chunks, sizeof(*it->stays));
	it->run_chunk = -1;
	if (!it->slots || !it->now || !it->stays)
		return msccl_no_memory(run);
	problem.rank = rank;
	for (int in = 0; in < rd_in_blocks(&problem) * parts; in++) {
		int chunk = rd_block_of_in(&problem, in / parts) * parts + in % parts;
		struct msccl_slot slot = { 'i', in };

		it->now[chunk] = (struct msccl_value){ chunk + 1, 1, 1, 0, 0 };
		*msccl_slot_at(run, rank, slot, 0) = it->now[chunk];
	}
	return true;
}

void msccl_run_init(struct msccl_run *run, struct msccl *msccl)
{
	int64_t slots = 0;
	int most;

	*run = (struct msccl_run){ .msccl = msccl, .size = msccl->problem.size };
	run->reduces = rd_collective_reduces(msccl->problem.collective);
	run->chunks = rd_blocks(&msccl->problem) * msccl->parts;
	/* Roots have the most blocks. Programs use both buffers on the other ranks, too. */
	most = msccl->problem.collective == RD_ALL_TO_ALL ? run->size * msccl->parts : run->chunks;
	run->ins = run->outs = most;
	for (int rank = 0; rank < run->size; rank++)
		slots += 2 * (int64_t)most + msccl->scratch[rank];
	if (slots > 2 * RD_FILE_CHUNKS_MAX) {
		run->err = rd_fail(RONDO_INVALID, "%s: there are too many chunks", msccl->name);
		return;
	}
	run->ranks = calloc((size_t)(unsigned)run->size, sizeof(*run->ranks));
	run->links = calloc((size_t)(unsigned)run->size * (unsigned)run->size, sizeof(*run->links));
	if (!run->ranks || !run->links) {
		msccl_no_memory(run);
		return;
	}
	for (int i = 0; i < run->size * run->size; i++)
		run->links[i].first = run->links[i].last = -1;
	for (int rank = 0; rank < run->size && !run->err; rank++)
		init_rank(run, rank);
}

/* ---- Calls ---------------------------------------------------------------------------------- */

static bool add_call(struct msccl_run *run, int rank, enum rd_file_call call, int first, int second)
{
	struct msccl_rank *it = &run->ranks[rank];

	if (!rd_grow(&it->steps, it->step_count, &it->capacity, sizeof(*it->steps)))
		return msccl_no_memory(run);
	it->steps[it->step_count++] = (struct rd_file_step){ call, { first, second } };
	return true;
}

struct msccl_link *msccl_link_of(const struct msccl_run *run, int from, int to)
{
	return &run->links[from * run->size + to];
}

bool msccl_put(
	struct msccl_run *run, int from, int to, int channel, const struct msccl_value *value)
{
	struct msccl_link *link = msccl_link_of(run, from, to);

	if (!rd_grow(&run->messages, run->message_count, &run->capacity, sizeof(*run->messages)))
		return msccl_no_memory(run);
	run->messages[run->message_count] =
		(struct msccl_message){ -1, from, channel, value->chunk - 1, value->count };
	if (link->last >= 0)
		run->messages[link->last].next = run->message_count;
	else
		link->first = run->message_count;
	link->last = run->message_count++;
	link->count++;
	return add_call(run, from, RD_FILE_send, to, value->chunk - 1);
}

/* Drops the first message of a link. */
static void pop(struct msccl_run *run, int from, int to)
{
	struct msccl_link *link = msccl_link_of(run, from, to);

	link->first = run->messages[link->first].next;
	if (link->first < 0)
		link->last = -1;
	link->count--;
}

bool msccl_take(struct msccl_run *run, int rank, const struct msccl_message *message)
{
	struct msccl_value *now = &run->ranks[rank].now[message->chunk];
	int from = message->from, chunk = message->chunk;

	*now = (struct msccl_value){ chunk + 1, now->version + 1, message->count, 0, 0 };
	pop(run, from, rank);
	return add_call(run, rank, RD_FILE_recv, from, chunk);
}

/* Contributions of all others in a row are one recv_merge(): all ranks add them in one order. */
static bool merge_row(struct msccl_run *run, int rank, int chunk, bool starts, bool goes_on)
{
	struct msccl_rank *it = &run->ranks[rank];
	int last = it->step_count - 1;

	if (starts) {
		it->run_chunk = chunk;
		it->run_first = last;
		it->run_count = 0;
	} else if (!goes_on || it->run_chunk != chunk || it->run_first + it->run_count != last) {
		it->run_chunk = -1;
		return true;
	}
	it->run_count++;
	if (it->run_count < run->size - 1 || run->size == 2 || run->size > RD_MERGE_MOST)
		return true;
	it->step_count = it->run_first;
	return add_call(run, rank, RD_FILE_recv_merge, chunk, 0);
}

bool msccl_take_reduce(struct msccl_run *run, int rank, const struct msccl_message *message)
{
	struct msccl_value *now = &run->ranks[rank].now[message->chunk];
	int from = message->from, chunk = message->chunk;
	bool contribution = message->count == 1, starts = contribution && now->count == 1;

	now->version++;
	now->count += message->count;
	pop(run, from, rank);
	return add_call(run, rank,
		       now->count >= run->size ? RD_FILE_recv_reduce_last : RD_FILE_recv_reduce,
		       from, chunk) &&
	       merge_row(run, rank, chunk, starts, contribution);
}

/* ---- Values that are at their rank, while a link has no room -------------------------------- */

bool msccl_stay(struct msccl_run *run, int from, int to, struct msccl_value *value)
{
	int *first = &run->ranks[from].stays[value->chunk - 1];

	if (!rd_grow(&run->stays, run->stay_count, &run->stay_capacity, sizeof(*run->stays)))
		return msccl_no_memory(run);
	value->at = from + 1;
	run->stays[run->stay_count++] = (struct msccl_stay){ value, to, *first };
	*first = run->stay_count;
	return true;
}

bool msccl_send_stay(struct msccl_run *run, int from, int to, struct msccl_value *value)
{
	struct msccl_link *link = msccl_link_of(run, from, to);

	if (!msccl_put(run, from, to, 0, value))
		return false;
	link->held++;
	value->message = link->last + 1;
	value->at = 0;
	return true;
}

bool msccl_send_stays(struct msccl_run *run, int from, int chunk)
{
	int *first = &run->ranks[from].stays[chunk];

	for (; *first; *first = run->stays[*first - 1].next) {
		const struct msccl_stay *stay = &run->stays[*first - 1];

		/* Others were sent since, or their slot has another value. */
		if (stay->value->at != from + 1 || stay->value->chunk != chunk + 1)
			continue;
		if (msccl_link_of(run, from, stay->to)->count >= LINK_MESSAGES ||
			!msccl_send_stay(run, from, stay->to, stay->value))
			return false;
	}
	return true;
}
