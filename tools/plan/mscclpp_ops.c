/*
 * Operations of MSCCL++ as steps. A put writes to another rank's memory and a get reads it; signals
 * and waits, semaphores and barriers are counters. Packets have their own flags, so who reads them
 * waits for them. A pipeline runs its operations piece after piece, as Rondo does with each plan:
 * they are read as if they stood alone.
 */
#include <string.h>

#include "base/nearest.h"
#include "mscclpp.h"

#define SWITCH \
	"a plan has memory and port channels alone: compile the program without switch channels"

enum kind { NOTHING, MOVE, REDUCE, SIGNAL, WAIT, RELEASE, ACQUIRE, BARRIER, PIPELINE, NVLS };

static const struct operation {
	const char *name;
	enum kind kind;
	bool packets; /* reads them */
	bool signals; /* behind the data */
} operations[] = {
	{ "nop", NOTHING, false, false },
	{ "flush", NOTHING, false, false },
	{ "copy", MOVE, false, false },
	{ "put", MOVE, false, false },
	{ "pws", MOVE, false, true },
	{ "pwsf", MOVE, false, true },
	{ "get", MOVE, false, false },
	{ "cpkt", MOVE, false, false },
	{ "ppkt", MOVE, false, false },
	{ "upkt", MOVE, true, false },
	{ "rppkt", MOVE, true, false },
	{ "re", REDUCE, false, false },
	{ "res", REDUCE, false, false },
	{ "rre", REDUCE, false, false },
	{ "rres", REDUCE, false, false },
	{ "repkt", REDUCE, true, false },
	{ "respkt", REDUCE, true, false },
	{ "recpkt", REDUCE, true, false },
	{ "recspkt", REDUCE, true, false },
	{ "signal", SIGNAL, false, false },
	{ "rlxsignal", SIGNAL, false, false },
	{ "wait", WAIT, false, false },
	{ "rlxwait", WAIT, false, false },
	{ "sem_release", RELEASE, false, false },
	{ "sem_acquire", ACQUIRE, false, false },
	{ "barrier", BARRIER, false, false },
	{ "pipeline", PIPELINE, false, false },
	{ "glre", NVLS, false, false },
	{ "gstore", NVLS, false, false },
	{ "glres", NVLS, false, false },
};

#define OPERATIONS ((int)(sizeof(operations) / sizeof(*operations)))

/* Chunks of a rank's memory. */
struct place {
	int rank;
	struct msccl_slot slot;
	int count;
};

static void add(struct mscclpp *reading, const struct rd_json_value *op, struct msccl_step step)
{
	step.line = op->line;
	step.op = reading->op;
	step.op_name = reading->op_name;
	step.after_block = step.after_step = -1;
	if (step.type >= MSCCL_NOP)
		step.count = 1;
	if (!reading->err)
		reading->err = msccl_add_step(reading->msccl, step);
}

/* ---- Channels and buffers ------------------------------------------------------------------- */

/* The id at a place of the thread block's lists of the operation's type. */
static int find_id(struct mscclpp *reading, const struct mscclpp_ids *ids,
	const struct rd_json_value *place, int most)
{
	int64_t at, id;

	if (reading->type == MSCCLPP_OTHER)
		mscclpp_refuse(reading, place, SWITCH);
	if (!rd_json_whole(place, 0, MSCCL_CHUNKS_MAX, &at))
		mscclpp_refuse(reading, place, "this is a place in the tb's \"%s\"", ids->member);
	for (int i = 0; i < ids->count && !reading->err; i++) {
		const struct rd_json_value *list = ids->lists[i].ids;

		if (ids->lists[i].type != reading->type)
			continue;
		if (at >= list->count) {
			at -= list->count;
			continue;
		}
		/* Each number takes one place. */
		if (rd_json_whole(list + 1 + at, 0, most - 1, &id))
			return (int)id;
		mscclpp_refuse(reading, list + 1 + at,
			"an id in \"%s\" is below %d, the number that gpu %d has", ids->member,
			most, reading->rank);
	}
	mscclpp_refuse(
		reading, place, "its tb has no such place in \"%s\" of this type", ids->member);
	return 0;
}

/* The counter of a channel's end: that which this one raises, or waits for. -1: nobody waits. */
static int channel_counter(struct mscclpp *reading, const struct rd_json_value *op,
	const struct rd_json_value *place, bool raises)
{
	const int *firsts = &reading->gpus[reading->rank].channels[reading->type];
	int most = reading->type == MSCCLPP_OTHER ? 0 : firsts[1] - firsts[0];
	int id = find_id(reading, &reading->block_channels, place, most);

	if (reading->err)
		return -1;

	const struct mscclpp_channel *it = &reading->channels[firsts[0] + id];
	int rank = raises ? it->peer : reading->rank, peer = raises ? reading->rank : it->peer;
	const struct mscclpp_pair *pair =
		&reading->pairs[(rank * reading->msccl->problem.size + peer) * MSCCLPP_TYPES +
				reading->type];

	if (it->pair < pair->count)
		return pair->first + it->pair;
	if (!raises)
		mscclpp_refuse(reading, op, "its peer has no such channel");
	return -1;
}

static int semaphore_counter(struct mscclpp *reading, const struct rd_json_value *value)
{
	const struct mscclpp_gpu *gpu = &reading->gpus[reading->rank];
	int64_t id = 0;

	if (!rd_json_whole(value, 0, gpu->semaphore_count - 1, &id))
		mscclpp_refuse(reading, value, "its gpu has %d semaphores", gpu->semaphore_count);
	return gpu->semaphores + (int)id;
}

static const struct rd_json_value *needed_array(
	struct mscclpp *reading, const struct rd_json_value *op, const char *member)
{
	if (!rd_json_member(&reading->json, op, member))
		mscclpp_refuse(reading, op, "\"%s\" is missing", member);
	return mscclpp_array(reading, op, member);
}

static void use_counters(
	struct mscclpp *reading, const struct rd_json_value *op, const char *member, bool raises)
{
	const struct rd_json_value *ids = needed_array(reading, op, member);
	bool of_channels = member[0] == 'c';

	MSCCLPP_EACH (value, ids) {
		int counter = of_channels ? channel_counter(reading, op, value, raises)
					  : semaphore_counter(reading, value);

		if (counter >= 0)
			add(reading, op,
				(struct msccl_step){ .type = raises ? MSCCL_SIGNAL : MSCCL_WAIT,
					.counter = counter });
	}
}

static void read_barrier(struct mscclpp *reading, const struct rd_json_value *op)
{
	int id = mscclpp_whole(reading, op, "barrier_id", 0, MSCCLPP_BARRIERS - 1);
	int blocks = mscclpp_whole(reading, op, "num_threadblocks", 1, MSCCL_BLOCKS_MAX);
	int counter = reading->gpus[reading->rank].barriers + id;
	int *uses = &reading->barrier_uses[id];

	add(reading, op, (struct msccl_step){ .type = MSCCL_SIGNAL, .counter = counter });
	/* All of its thread blocks arrive each time. */
	if (__builtin_add_overflow(*uses, blocks, uses))
		mscclpp_refuse(reading, op, "there are too many barriers");
	add(reading, op,
		(struct msccl_step){ .type = MSCCL_WAIT, .counter = counter, .least = *uses });
}

static struct place read_place(struct mscclpp *reading, const struct rd_json_value *value)
{
	const struct rd_json_value *id = rd_json_member(&reading->json, value, "buffer_id");
	const struct mscclpp_gpu *gpu = &reading->gpus[reading->rank];
	struct place place = { .rank = reading->rank };
	int index, size;

	if (id) {
		const struct mscclpp_buffer *buffer =
			&reading->buffers[gpu->buffers + find_id(reading, &reading->block_buffers,
								 id, gpu->buffer_count)];

		place.rank = buffer->rank;
		place.slot.buffer = buffer->buffer;
	} else {
		place.slot.buffer = mscclpp_buffer(reading, value);
	}
	index = mscclpp_whole(reading, value, "index", 0, MSCCL_CHUNKS_MAX);
	size = mscclpp_whole(reading, value, "size", 1, MSCCL_CHUNKS_MAX);
	place.count = size * reading->scale / reading->shares;
	place.slot.offset = index * reading->scale + reading->share * place.count;
	return place;
}

/* ---- Data ----------------------------------------------------------------------------------- */

static void add_move(struct mscclpp *reading, const struct rd_json_value *op,
	const struct place *from, const struct place *into, bool packets)
{
	struct msccl_step step = { .type = MSCCL_COPY,
		.from = from->slot,
		.into = into->slot,
		.with = into->slot,
		.count = from->count,
		.packets = packets };

	if (from->count != into->count)
		mscclpp_refuse(reading, op, "it moves %d chunks to %d",
			from->count / reading->scale, into->count / reading->scale);
	if (from->rank != reading->rank && into->rank != reading->rank)
		mscclpp_refuse(reading, op,
			"it moves chunks from rank %d to rank %d: one of both is its own",
			from->rank, into->rank);
	if (into->rank != reading->rank) {
		step.type = MSCCL_PUT;
		step.peer = into->rank;
	} else if (from->rank != reading->rank) {
		step.type = MSCCL_GET;
		step.peer = from->rank;
	}
	add(reading, op, step);
}

static void read_moves(struct mscclpp *reading, const struct rd_json_value *op,
	const struct rd_json_value *from, const struct rd_json_value *into,
	const struct operation *kind)
{
	const struct rd_json_value *at = NULL;

	if (from->count != into->count)
		mscclpp_refuse(reading, op, "\"src_buff\" has %d buffers, and \"dst_buff\" %d",
			from->count, into->count);
	MSCCLPP_EACH (value, from) {
		struct place source = read_place(reading, value), target;

		at = mscclpp_next(reading, into, at);
		if (!at)
			return;
		target = read_place(reading, at);
		add_move(reading, op, &source, &target, kind->packets);
	}
	if (kind->signals)
		use_counters(reading, op, "channel_ids", true);
}

/* Each source behind the first is added to the first target. */
static void add_sources(struct mscclpp *reading, const struct rd_json_value *op,
	const struct rd_json_value *sources, const struct place *sum, bool packets)
{
	struct place first = read_place(reading, sources + 1);

	if (first.rank != reading->rank || sum->rank != reading->rank)
		mscclpp_refuse(reading, op, "the first buffer of both is of its own rank");
	MSCCLPP_EACH (value, sources) {
		struct place place = read_place(reading, value);
		bool is_second = value == &reading->json.values[sources[1].next];

		if (place.count != sum->count || first.count != sum->count)
			mscclpp_refuse(reading, op, "its buffers have several sizes");
		if (value > sources + 1)
			add(reading, op,
				(struct msccl_step){ .type = place.rank == reading->rank
								     ? MSCCL_REDUCE
								     : MSCCL_READ_REDUCE,
					.from = place.slot,
					.with = is_second ? first.slot : sum->slot,
					.into = sum->slot,
					.count = sum->count,
					.peer = place.rank,
					.packets = packets });
	}
}

static void check_reduce_op(struct mscclpp *reading, const struct rd_json_value *op)
{
	const struct rd_json_value *value = rd_json_member(&reading->json, op, "reduce_op");

	if (value && (value->kind != RD_JSON_STRING || strcmp(value->text, "sum") != 0))
		mscclpp_refuse(reading, value,
			"\"reduce_op\" is sum: a plan reduces as its call wants, so compile it with "
			"that");
}

static void read_reduce(struct mscclpp *reading, const struct rd_json_value *op,
	const struct rd_json_value *sources, const struct rd_json_value *targets, bool packets)
{
	struct msccl_block *block = &reading->msccl->blocks[reading->msccl->block_count - 1];
	const int first = block->step_count;
	struct place sum, target;

	check_reduce_op(reading, op);
	if (sources->count < 2 || sources->count > reading->msccl->problem.size)
		mscclpp_refuse(
			reading, op, "a reduction has 2 buffers or more, and at most one a rank");
	if (reading->err)
		return;
	sum = read_place(reading, targets + 1);
	add_sources(reading, op, sources, &sum, packets);
	MSCCLPP_EACH (value, targets) {
		target = read_place(reading, value);
		if (value > targets + 1)
			add_move(reading, op, &sum, &target, false);
	}
	if (reading->err)
		return;
	/* Chunk after chunk: contributions of all others in a row become a merge. */
	for (int i = first; i < block->step_count - 1; i++)
		block->steps[i].goes_on = true;
	block->steps[block->step_count - 1].back = block->step_count - 1 - first;
}

static void read_data(
	struct mscclpp *reading, const struct rd_json_value *op, const struct operation *kind)
{
	const struct rd_json_value *from = mscclpp_array(reading, op, "src_buff");
	const struct rd_json_value *into = mscclpp_array(reading, op, "dst_buff");

	if (!from->count || !into->count)
		mscclpp_refuse(reading, op, "\"src_buff\" or \"dst_buff\" has no buffer");
	else if (kind->kind == MOVE)
		read_moves(reading, op, from, into, kind);
	else
		read_reduce(reading, op, from, into, kind->packets);
}

/* ---- Operations ----------------------------------------------------------------------------- */

/* The first of the table, where it is refused: nothing. */
static const struct operation *find_operation(
	struct mscclpp *reading, const struct rd_json_value *op)
{
	const char *name = mscclpp_text(reading, op, "name");
	struct rd_nearest nearest = RD_NEAREST(name);
	char meant[RD_NEAREST_TEXT];

	for (int i = 0; i < OPERATIONS; i++) {
		if (strcmp(operations[i].name, name) == 0)
			return &operations[i];
		rd_nearest_try(&nearest, operations[i].name);
	}
	mscclpp_refuse(reading, op, "there is no plan of an operation \"%.20s\"%s", name,
		rd_nearest_text(&nearest, meant));
	return &operations[0];
}

/* Members that all of its buffers need. Both may be many, so each member is sought once. */
static void read_shared(struct mscclpp *reading, const struct rd_json_value *op)
{
	const struct rd_json_value *group = rd_json_member(&reading->json, op, "tbg_info");

	reading->type = MSCCLPP_OTHER;
	if (rd_json_member(&reading->json, op, "channel_type"))
		reading->type = mscclpp_channel_type(reading, op, "channel_type");
	reading->share = 0;
	reading->shares = 1;
	if (!group)
		return;
	reading->shares = mscclpp_whole(reading, group, "tbg_size", 1, reading->scale);
	reading->share = mscclpp_whole(reading, group, "tb_id", 0, reading->shares - 1);
}

static void read_op(struct mscclpp *reading, const struct rd_json_value *op, bool in_pipeline)
{
	const struct operation *kind = find_operation(reading, op);
	const struct rd_json_value *ops;

	reading->op_name = kind->name;
	read_shared(reading, op);
	switch (kind->kind) {
	case MOVE:
	case REDUCE:
		read_data(reading, op, kind);
		break;
	case SIGNAL:
	case WAIT:
		use_counters(reading, op, "channel_ids", kind->kind == SIGNAL);
		break;
	case RELEASE:
	case ACQUIRE:
		use_counters(reading, op, "semaphore_ids", kind->kind == RELEASE);
		break;
	case BARRIER:
		read_barrier(reading, op);
		break;
	case NVLS:
		mscclpp_refuse(reading, op, SWITCH);
		break;
	case PIPELINE:
		if (in_pipeline)
			mscclpp_refuse(reading, op, "a pipeline has no pipeline in it");
		ops = needed_array(reading, op, "ops");
		MSCCLPP_EACH (value, ops)
			read_op(reading, value, true);
		break;
	case NOTHING:
		break;
	}
	reading->op_name = NULL;
}

void mscclpp_read_op(struct mscclpp *reading, const struct rd_json_value *value)
{
	read_op(reading, value, false);
}
