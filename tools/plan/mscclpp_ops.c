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

static int add(
	const struct mscclpp *reading, const struct rd_json_value *op, struct msccl_step step)
{
	step.line = op->line;
	step.op = reading->op;
	step.op_name = reading->op_name;
	step.after_block = step.after_step = -1;
	if (step.type >= MSCCL_NOP)
		step.count = 1;
	return msccl_add_step(reading->msccl, step);
}

/* ---- Channels and buffers ------------------------------------------------------------------- */

/* Finds the id at a place of the thread block's lists of the operation's type. */
static int find_id(const struct mscclpp *reading, const struct mscclpp_ids *ids, const char *member,
	const struct rd_json_value *place, int most, int *id)
{
	int64_t at, wide;

	if (reading->type == MSCCLPP_OTHER)
		return mscclpp_refuse(reading, place, SWITCH);
	if (!rd_json_whole(place, 0, MSCCL_CHUNKS_MAX, &at))
		return mscclpp_refuse(reading, place, "this is a place in the tb's \"%s\"", member);
	for (int i = 0; i < ids->count; i++) {
		const struct rd_json_value *list = ids->lists[i].ids;

		if (ids->lists[i].type != reading->type || !list)
			continue;
		if (at >= list->count) {
			at -= list->count;
			continue;
		}
		/* Each number takes one place. */
		if (!rd_json_whole(list + 1 + at, 0, most - 1, &wide))
			return mscclpp_refuse(reading, list + 1 + at,
				"an id in \"%s\" is below %d, the number that gpu %d has", member,
				most, reading->rank);
		*id = (int)wide;
		return 0;
	}
	return mscclpp_refuse(
		reading, place, "its tb has no such place in \"%s\" of this type", member);
}

/* The counter of one end: that which it raises, or waits for. -1: nobody waits for it. */
static int counter_of(const struct mscclpp *reading, int channel, bool raises)
{
	const struct mscclpp_gpu *gpu = &reading->gpus[reading->rank];
	const struct mscclpp_channel *it =
		&reading->channels[gpu->channels[reading->type] + channel];
	int size = reading->msccl->problem.size;
	int rank = raises ? it->peer : reading->rank, peer = raises ? reading->rank : it->peer;
	const struct mscclpp_pair *pair =
		&reading->pairs[(rank * size + peer) * MSCCLPP_TYPES + reading->type];

	return it->pair < pair->count ? pair->first + it->pair : -1;
}

static int use_channels(struct mscclpp *reading, const struct rd_json_value *op, bool raises)
{
	const struct mscclpp_gpu *gpu = &reading->gpus[reading->rank];
	const struct rd_json_value *ids;
	int err = mscclpp_array(reading, op, "channel_ids", &ids), most = 0, id;

	if (!err && !ids)
		err = mscclpp_refuse(reading, op, "\"channel_ids\" is missing");
	if (reading->type != MSCCLPP_OTHER)
		most = gpu->channels[reading->type + 1] - gpu->channels[reading->type];
	for (int i = 0; !err && i < ids->count; i++) {
		err = find_id(
			reading, &reading->block_channels, "channel_ids", ids + 1 + i, most, &id);
		if (err)
			break;
		int counter = counter_of(reading, id, raises);

		if (!raises && counter < 0)
			return mscclpp_refuse(reading, op, "its peer has no such channel");
		if (counter >= 0)
			err = add(reading, op,
				(struct msccl_step){ .type = raises ? MSCCL_SIGNAL : MSCCL_WAIT,
					.counter = counter });
	}
	return err;
}

static int use_semaphores(struct mscclpp *reading, const struct rd_json_value *op, bool raises)
{
	const struct mscclpp_gpu *gpu = &reading->gpus[reading->rank];
	const struct rd_json_value *ids;
	int err = mscclpp_array(reading, op, "semaphore_ids", &ids);
	int64_t id;

	if (!err && !ids)
		err = mscclpp_refuse(reading, op, "\"semaphore_ids\" is missing");
	for (int i = 0; !err && i < ids->count; i++) {
		if (!rd_json_whole(ids + 1 + i, 0, gpu->semaphore_count - 1, &id))
			return mscclpp_refuse(reading, ids + 1 + i, "its gpu has %d semaphores",
				gpu->semaphore_count);
		err = add(reading, op,
			(struct msccl_step){ .type = raises ? MSCCL_SIGNAL : MSCCL_WAIT,
				.counter = gpu->semaphores + (int)id });
	}
	return err;
}

static int read_barrier(struct mscclpp *reading, const struct rd_json_value *op)
{
	int id, blocks, counter;
	int err = mscclpp_whole(reading, op, "barrier_id", 0, MSCCLPP_BARRIERS - 1, &id);

	if (!err)
		err = mscclpp_whole(reading, op, "num_threadblocks", 1, MSCCL_BLOCKS_MAX, &blocks);
	if (err)
		return err;
	counter = reading->gpus[reading->rank].barriers + id;
	err = add(reading, op, (struct msccl_step){ .type = MSCCL_SIGNAL, .counter = counter });
	/* All of its thread blocks arrive each time. */
	if (!err && __builtin_add_overflow(
			    reading->barrier_uses[id], blocks, &reading->barrier_uses[id]))
		err = mscclpp_refuse(reading, op, "there are too many barriers");
	return err ? err
		   : add(reading, op,
			     (struct msccl_step){ .type = MSCCL_WAIT,
				     .counter = counter,
				     .least = reading->barrier_uses[id] });
}

static int read_place(
	const struct mscclpp *reading, const struct rd_json_value *value, struct place *place)
{
	const struct rd_json_value *id = rd_json_member(&reading->json, value, "buffer_id");
	const struct mscclpp_gpu *gpu = &reading->gpus[reading->rank];
	int index, size, buffer, err;

	*place = (struct place){ .rank = reading->rank };
	if (id) {
		err = find_id(reading, &reading->block_buffers, "remote_buffer_ids", id,
			gpu->buffer_count, &buffer);
		if (err)
			return err;
		place->rank = reading->buffers[gpu->buffers + buffer].rank;
		place->slot.buffer = reading->buffers[gpu->buffers + buffer].buffer;
	} else {
		err = mscclpp_buffer(reading, value, &place->slot.buffer);
	}
	if (!err)
		err = mscclpp_whole(reading, value, "index", 0, MSCCL_CHUNKS_MAX, &index);
	if (!err)
		err = mscclpp_whole(reading, value, "size", 1, MSCCL_CHUNKS_MAX, &size);
	if (err)
		return err;
	place->count = size * reading->scale / reading->shares;
	place->slot.offset = index * reading->scale + reading->share * place->count;
	return 0;
}

/* ---- Data ----------------------------------------------------------------------------------- */

static int add_move(const struct mscclpp *reading, const struct rd_json_value *op,
	const struct place *from, const struct place *into, bool packets)
{
	struct msccl_step step = { .type = MSCCL_COPY,
		.from = from->slot,
		.into = into->slot,
		.with = into->slot,
		.count = from->count,
		.packets = packets };

	if (from->count != into->count)
		return mscclpp_refuse(reading, op, "it moves %d chunks to %d",
			from->count / reading->scale, into->count / reading->scale);
	if (from->rank != reading->rank && into->rank != reading->rank)
		return mscclpp_refuse(reading, op,
			"it moves chunks from rank %d to rank %d: one of both is its own",
			from->rank, into->rank);
	if (into->rank != reading->rank) {
		step.type = MSCCL_PUT;
		step.peer = into->rank;
	} else if (from->rank != reading->rank) {
		step.type = MSCCL_GET;
		step.peer = from->rank;
	}
	return add(reading, op, step);
}

static int read_buffers(const struct mscclpp *reading, const struct rd_json_value *op,
	const struct rd_json_value **from, const struct rd_json_value **into)
{
	int err = mscclpp_array(reading, op, "src_buff", from);

	if (!err)
		err = mscclpp_array(reading, op, "dst_buff", into);
	if (!err && (!*from || !*into || !(*from)->count || !(*into)->count))
		err = mscclpp_refuse(reading, op, "\"src_buff\" or \"dst_buff\" has no buffer");
	return err;
}

static int read_moves(
	struct mscclpp *reading, const struct rd_json_value *op, const struct operation *kind)
{
	const struct rd_json_value *from, *into;
	struct place source, target;
	int err = read_buffers(reading, op, &from, &into), count;

	if (!err && from->count != into->count)
		err = mscclpp_refuse(reading, op,
			"\"src_buff\" has %d buffers, and \"dst_buff\" %d", from->count,
			into->count);
	if (err)
		return err;
	count = from->count;
	from++;
	into++;
	for (int i = 0; i < count && !err; i++) {
		err = read_place(reading, from, &source);
		if (!err)
			err = read_place(reading, into, &target);
		if (!err)
			err = add_move(reading, op, &source, &target, kind->packets);
		from = &reading->json.values[from->next];
		into = &reading->json.values[into->next];
	}
	return err || !kind->signals ? err : use_channels(reading, op, true);
}

/* Each source behind the first is added to the first target. */
static int add_sources(struct mscclpp *reading, const struct rd_json_value *op,
	const struct rd_json_value *sources, const struct place *sum, bool packets)
{
	const struct rd_json_value *value = sources + 1;
	struct place first, place;
	int err = read_place(reading, value, &first);

	if (!err && (first.rank != reading->rank || sum->rank != reading->rank))
		return mscclpp_refuse(reading, op, "the first buffer of both is of its own rank");
	for (int i = 1; i < sources->count && !err; i++) {
		value = &reading->json.values[value->next];
		err = read_place(reading, value, &place);
		if (!err && (place.count != sum->count || first.count != sum->count))
			return mscclpp_refuse(reading, op, "its buffers have several sizes");
		if (!err)
			err = add(reading, op,
				(struct msccl_step){ .type = place.rank == reading->rank
								     ? MSCCL_REDUCE
								     : MSCCL_READ_REDUCE,
					.from = place.slot,
					.with = i == 1 ? first.slot : sum->slot,
					.into = sum->slot,
					.count = sum->count,
					.peer = place.rank,
					.packets = packets });
	}
	return err;
}

static int check_reduce_op(const struct mscclpp *reading, const struct rd_json_value *op)
{
	const struct rd_json_value *value = rd_json_member(&reading->json, op, "reduce_op");

	if (!value || (value->kind == RD_JSON_STRING && strcmp(value->text, "sum") == 0))
		return 0;
	return mscclpp_refuse(reading, value,
		"\"reduce_op\" is sum: a plan reduces as its call wants, so compile it with that");
}

static int read_reduce(
	struct mscclpp *reading, const struct rd_json_value *op, const struct operation *kind)
{
	const struct rd_json_value *sources, *targets, *value;
	const int block = reading->msccl->block_count - 1;
	const int first = reading->msccl->blocks[block].step_count;
	struct place sum, target;
	int err = check_reduce_op(reading, op);

	if (!err)
		err = read_buffers(reading, op, &sources, &targets);
	if (!err && (sources->count < 2 || sources->count > reading->msccl->problem.size))
		err = mscclpp_refuse(
			reading, op, "a reduction has 2 buffers or more, and at most one a rank");
	if (err)
		return err;
	value = targets + 1;
	err = read_place(reading, value, &sum);
	if (!err)
		err = add_sources(reading, op, sources, &sum, kind->packets);
	for (int i = 1; i < targets->count && !err; i++) {
		value = &reading->json.values[value->next];
		err = read_place(reading, value, &target);
		if (!err)
			err = add_move(reading, op, &sum, &target, false);
	}
	if (err)
		return err;
	/* Chunk after chunk: contributions of all others in a row become a merge. */
	struct msccl_block *it = &reading->msccl->blocks[block];

	for (int i = first; i < it->step_count - 1; i++)
		it->steps[i].goes_on = true;
	it->steps[it->step_count - 1].back = it->step_count - 1 - first;
	return 0;
}

/* ---- Operations ----------------------------------------------------------------------------- */

static int find_operation(const struct mscclpp *reading, const struct rd_json_value *op,
	const struct operation **found)
{
	const char *name;
	int err = mscclpp_text(reading, op, "name", &name);
	struct rd_nearest nearest = RD_NEAREST(err ? "" : name);
	char meant[RD_NEAREST_TEXT];

	for (int i = 0; i < OPERATIONS && !err; i++) {
		*found = &operations[i];
		if (strcmp(operations[i].name, name) == 0)
			return 0;
		rd_nearest_try(&nearest, operations[i].name);
	}
	return err ? err
		   : mscclpp_refuse(reading, op, "there is no plan of an operation \"%.20s\"%s",
			     name, rd_nearest_text(&nearest, meant));
}

/* Members that all of its buffers need. Both may be many, so each member is sought once. */
static int read_shared(struct mscclpp *reading, const struct rd_json_value *op)
{
	const struct rd_json_value *group = rd_json_member(&reading->json, op, "tbg_info");
	int err = mscclpp_channel_type(reading, op, "channel_type", &reading->type);

	reading->share = 0;
	reading->shares = 1;
	if (!err && group)
		err = mscclpp_whole(
			reading, group, "tbg_size", 1, reading->scale, &reading->shares);
	if (!err && group)
		err = mscclpp_whole(
			reading, group, "tb_id", 0, reading->shares - 1, &reading->share);
	return err;
}

static int read_operation(
	struct mscclpp *reading, const struct rd_json_value *op, const struct operation *kind)
{
	int err = read_shared(reading, op);

	if (err)
		return err;
	switch (kind->kind) {
	case MOVE:
		return read_moves(reading, op, kind);
	case REDUCE:
		return read_reduce(reading, op, kind);
	case SIGNAL:
	case WAIT:
		return use_channels(reading, op, kind->kind == SIGNAL);
	case RELEASE:
	case ACQUIRE:
		return use_semaphores(reading, op, kind->kind == RELEASE);
	case BARRIER:
		return read_barrier(reading, op);
	case NVLS:
		return mscclpp_refuse(reading, op, SWITCH);
	case PIPELINE:
		return mscclpp_refuse(reading, op, "a pipeline has no pipeline in it");
	case NOTHING:
		break;
	}
	return 0;
}

static int read_pipeline(struct mscclpp *reading, const struct rd_json_value *pipeline)
{
	const struct rd_json_value *ops, *op;
	const struct operation *kind;
	int err = mscclpp_array(reading, pipeline, "ops", &ops);

	if (!err && !ops)
		err = mscclpp_refuse(reading, pipeline, "\"ops\" is missing");
	if (err)
		return err;
	op = ops + 1;
	for (int i = 0; i < ops->count && !err; i++) {
		err = find_operation(reading, op, &kind);
		reading->op_name = err ? NULL : kind->name;
		if (!err)
			err = read_operation(reading, op, kind);
		op = &reading->json.values[op->next];
	}
	return err;
}

int mscclpp_read_op(struct mscclpp *reading, const struct rd_json_value *value)
{
	const struct operation *kind;
	int err = find_operation(reading, value, &kind);

	if (err)
		return err;
	reading->op_name = kind->name;
	err = kind->kind == PIPELINE ? read_pipeline(reading, value)
				     : read_operation(reading, value, kind);
	reading->op_name = NULL;
	return err;
}
