#include "mscclpp.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* ---- Channels, buffers, semaphores ---------------------------------------------------------- */

static int read_peer(const struct mscclpp *reading, const struct rd_json_value *value, int *peer)
{
	int64_t wide;

	*peer = 0;
	if (!rd_json_whole(value, 0, reading->msccl->problem.size - 1, &wide) ||
		wide == reading->rank)
		return mscclpp_refuse(reading, value, "a peer is another rank from 0 to %d",
			reading->msccl->problem.size - 1);
	*peer = (int)wide;
	return 0;
}

/* Adds the channels of an entry of "channels" behind those of all GPUs so far. */
static int add_channels(struct mscclpp *reading, const struct rd_json_value *entry,
	enum mscclpp_type type, int *count)
{
	struct mscclpp_pair *pairs =
		&reading->pairs[reading->rank * reading->msccl->problem.size * MSCCLPP_TYPES];
	const struct rd_json_value *peers;
	int err = mscclpp_array(reading, entry, "connected_to", &peers), peer;

	for (int i = 0; !err && peers && i < peers->count; i++) {
		err = read_peer(reading, peers + 1 + i, &peer);
		if (!err)
			reading->channels[(*count)++] = (struct mscclpp_channel){ peer,
				pairs[peer * MSCCLPP_TYPES + type].count++ };
	}
	return err;
}

static int read_channels(struct mscclpp *reading, enum mscclpp_type type, int *count)
{
	const struct rd_json_value *list, *entry;
	int err = mscclpp_array(reading, reading->gpus[reading->rank].value, "channels", &list);
	enum mscclpp_type its_type;

	entry = list ? list + 1 : NULL;
	for (int i = 0; !err && list && i < list->count; i++) {
		err = mscclpp_channel_type(reading, entry, "channel_type", &its_type);
		if (!err && its_type == type)
			err = add_channels(reading, entry, type, count);
		entry = &reading->json.values[entry->next];
	}
	return err;
}

static int read_buffers(struct mscclpp *reading, int *count)
{
	struct mscclpp_gpu *gpu = &reading->gpus[reading->rank];
	const struct rd_json_value *list, *value, *peer;
	int err = mscclpp_array(reading, gpu->value, "remote_buffers", &list);

	gpu->buffers = *count;
	value = list ? list + 1 : NULL;
	for (int i = 0; !err && list && i < list->count; i++) {
		struct mscclpp_buffer *buffer = &reading->buffers[(*count)++];

		peer = rd_json_member(&reading->json, value, "rank");
		err = read_peer(reading, peer ? peer : value, &buffer->rank);
		if (!err)
			err = mscclpp_buffer(reading, value, &buffer->buffer);
		value = &reading->json.values[value->next];
	}
	gpu->buffer_count = *count - gpu->buffers;
	return err;
}

static int read_semaphores(struct mscclpp *reading, int *count)
{
	struct mscclpp_gpu *gpu = &reading->gpus[reading->rank];
	const struct rd_json_value *list, *value;
	int err = mscclpp_array(reading, gpu->value, "semaphores", &list);

	gpu->semaphores = *count;
	value = list ? list + 1 : NULL;
	for (int i = 0; !err && list && i < list->count; i++) {
		err = mscclpp_whole(reading, value, "init_value", 0, MSCCL_CHUNKS_MAX,
			&reading->msccl->counters[(*count)++]);
		value = &reading->json.values[value->next];
	}
	gpu->semaphore_count = *count - gpu->semaphores;
	return err;
}

/* All that thread blocks refer to, of all GPUs: a signal goes to a counter of another one. */
static int read_resources(struct mscclpp *reading)
{
	int size = reading->msccl->problem.size, channels = 0, buffers = 0, counters = 0, err = 0;

	for (reading->rank = 0; reading->rank < size && !err; reading->rank++) {
		struct mscclpp_gpu *gpu = &reading->gpus[reading->rank];

		for (int type = 0; type < MSCCLPP_TYPES && !err; type++) {
			gpu->channels[type] = channels;
			err = read_channels(reading, type, &channels);
		}
		gpu->channels[MSCCLPP_TYPES] = channels;
		if (!err)
			err = read_buffers(reading, &buffers);
		if (!err)
			err = read_semaphores(reading, &counters);
		gpu->barriers = counters;
		counters += MSCCLPP_BARRIERS;
	}
	reading->rank = -1;
	for (int i = 0; i < size * size * MSCCLPP_TYPES && !err; i++) {
		reading->pairs[i].first = counters;
		counters += reading->pairs[i].count;
	}
	return err;
}

/* Each of them has a value in the document. */
static int make_resources(struct mscclpp *reading)
{
	size_t size = (size_t)reading->msccl->problem.size;
	size_t values = (size_t)reading->json.count;

	reading->channels = calloc(values, sizeof(*reading->channels));
	reading->buffers = calloc(values, sizeof(*reading->buffers));
	reading->pairs = calloc(size * size * MSCCLPP_TYPES, sizeof(*reading->pairs));
	reading->msccl->counters = calloc(values + size * MSCCLPP_BARRIERS, sizeof(int));
	if (!reading->channels || !reading->buffers || !reading->pairs || !reading->msccl->counters)
		return rd_fail(RONDO_MEMORY, "no memory to read %s", reading->name);
	return read_resources(reading);
}

/* ---- Thread blocks -------------------------------------------------------------------------- */

static int read_ids(const struct mscclpp *reading, const struct rd_json_value *block,
	const char *lists_member, const char *type_member, const char *ids_member,
	struct mscclpp_ids *ids)
{
	const struct rd_json_value *lists, *list;
	int err = mscclpp_array(reading, block, lists_member, &lists);

	ids->count = 0;
	if (err || !lists)
		return err;
	if (lists->count > MSCCLPP_LISTS_MAX)
		return mscclpp_refuse(reading, lists, "\"%s\" has more than %d lists of ids",
			lists_member, MSCCLPP_LISTS_MAX);
	list = lists + 1;
	for (; ids->count < lists->count && !err; ids->count++) {
		err = mscclpp_channel_type(
			reading, list, type_member, &ids->lists[ids->count].type);
		if (!err)
			err = mscclpp_array(reading, list, ids_member, &ids->lists[ids->count].ids);
		list = &reading->json.values[list->next];
	}
	return err;
}

static int read_block(struct mscclpp *reading, const struct rd_json_value *value, int id)
{
	struct msccl_block block = {
		.line = value->line, .rank = reading->rank, .id = id, .to = -1, .peer = -1
	};
	const struct rd_json_value *ops, *op;
	int its_id, err = mscclpp_whole(reading, value, "id", id, id, &its_id);

	reading->block = id;
	memset(reading->barrier_uses, 0, sizeof(reading->barrier_uses));
	if (!err)
		err = read_ids(reading, value, "channels", "channel_type", "channel_ids",
			&reading->block_channels);
	if (!err)
		err = read_ids(reading, value, "remote_buffer_refs", "access_channel_type",
			"remote_buffer_ids", &reading->block_buffers);
	if (!err)
		err = mscclpp_array(reading, value, "ops", &ops);
	if (!err)
		err = msccl_add_block(reading->msccl, block);
	op = err || !ops ? NULL : ops + 1;
	for (int i = 0; !err && ops && i < ops->count; i++) {
		reading->op = i;
		err = mscclpp_read_op(reading, op);
		op = &reading->json.values[op->next];
	}
	reading->op = reading->block = -1;
	return err;
}

static int read_blocks(struct mscclpp *reading)
{
	const struct rd_json_value *gpu = reading->gpus[reading->rank].value, *list, *value;
	int err = mscclpp_array(reading, gpu, "threadblocks", &list), scratch;

	if (!err)
		err = mscclpp_whole(reading, gpu, "scratch_chunks", 0, MSCCL_CHUNKS_MAX, &scratch);
	if (err)
		return err;
	msccl_add_rank(reading->msccl, scratch * reading->scale);
	value = list ? list + 1 : NULL;
	for (int i = 0; list && i < list->count && !err; i++) {
		err = read_block(reading, value, i);
		value = &reading->json.values[value->next];
	}
	return err;
}

/* ---- The document --------------------------------------------------------------------------- */

/* How many chunks a buffer of this many blocks has; 0: none, or the executor does not use it. */
static int check_chunks(const struct mscclpp *reading, const char *member, int blocks, int parts)
{
	const struct rd_json_value *gpu = reading->gpus[reading->rank].value;
	int chunks, err = mscclpp_whole(reading, gpu, member, 0, MSCCL_CHUNKS_MAX, &chunks);

	if (err || chunks == 0 || blocks == 0 || (int64_t)chunks == (int64_t)blocks * parts)
		return err;
	return mscclpp_refuse(reading, gpu, "\"%s\" is %d, not %d: it has %d blocks", member,
		chunks, blocks * parts, blocks);
}

static int read_chunks(struct mscclpp *reading)
{
	struct msccl *msccl = reading->msccl;
	struct rd_problem problem = msccl->problem;
	int ins = rd_in_blocks(&problem), outs = rd_out_blocks(&problem), in, out, err;

	reading->rank = 0;
	err = mscclpp_whole(
		reading, reading->gpus[0].value, "input_chunks", 0, MSCCL_CHUNKS_MAX, &in);
	if (!err)
		err = mscclpp_whole(reading, reading->gpus[0].value, "output_chunks", 0,
			MSCCL_CHUNKS_MAX, &out);
	if (err)
		return err;
	msccl->parts = in && ins ? in / ins : out / (outs ? outs : 1);
	if (msccl->parts < 1)
		return mscclpp_refuse(reading, reading->gpus[0].value,
			"there are fewer chunks than blocks: %d of the input, %d of the output",
			ins, outs);
	if (!msccl_chunks_fit(msccl, (int64_t)msccl->parts * reading->scale))
		return mscclpp_refuse(reading, reading->gpus[0].value, "there are too many chunks");
	for (; reading->rank < problem.size && !err; reading->rank++) {
		problem.rank = reading->rank;
		err = check_chunks(reading, "input_chunks", rd_in_blocks(&problem), msccl->parts);
		if (!err)
			err = check_chunks(
				reading, "output_chunks", rd_out_blocks(&problem), msccl->parts);
	}
	reading->rank = -1;
	msccl->parts *= reading->scale;
	return err;
}

static int read_gpus(struct mscclpp *reading)
{
	const struct rd_json_value *document = reading->json.values, *gpus, *value;
	int size, id, err = mscclpp_array(reading, document, "gpus", &gpus);

	if (err)
		return err;
	size = gpus ? gpus->count : 0;
	if (size < 1 || size > RD_FILE_RANKS_MAX)
		return mscclpp_refuse(reading, gpus ? gpus : document,
			"\"gpus\" has 1 to %d GPUs, not %d", RD_FILE_RANKS_MAX, size);
	reading->msccl->problem.size = size;
	reading->gpus = calloc((size_t)size, sizeof(*reading->gpus));
	if (!reading->gpus)
		return rd_fail(RONDO_MEMORY, "no memory to read %s", reading->name);
	value = gpus + 1;
	for (int i = 0; i < size && !err; i++) {
		reading->rank = i;
		reading->gpus[i].value = value;
		err = mscclpp_whole(reading, value, "id", i, i, &id);
		value = &reading->json.values[value->next];
	}
	reading->rank = -1;
	return err;
}

/* The least number of parts of a chunk which all thread block groups share evenly. */
static int read_scale(struct mscclpp *reading)
{
	int64_t blocks;

	reading->scale = 1;
	for (int i = 0; i + 1 < reading->json.count; i++) {
		const struct rd_json_value *key = &reading->json.values[i];
		int scale = reading->scale;

		if (key->kind != RD_JSON_STRING || strcmp(key->text, "tbg_size") != 0)
			continue;
		if (!rd_json_whole(key + 1, 1, MSCCLPP_SCALE_MAX, &blocks))
			return mscclpp_refuse(reading, key,
				"\"tbg_size\" is a whole number from 1 to %d", MSCCLPP_SCALE_MAX);
		while (scale % blocks)
			scale += reading->scale;
		if (scale > MSCCLPP_SCALE_MAX)
			return mscclpp_refuse(reading, key,
				"thread block groups divide a chunk into more than %d parts",
				MSCCLPP_SCALE_MAX);
		reading->scale = scale;
	}
	return 0;
}

/* 2^64 - 1, which is no bound, has more digits than an int64_t. */
static int read_bound(const struct mscclpp *reading, const char *member, int64_t *bytes)
{
	const struct rd_json_value *value =
		rd_json_member(&reading->json, reading->json.values, member);
	size_t digits =
		value && value->kind == RD_JSON_NUMBER ? strspn(value->text, "0123456789") : 0;

	if (!value || rd_json_whole(value, 0, INT64_MAX, bytes))
		return 0;
	if (digits < 19 || strchr(".eE", value->text[digits]))
		return mscclpp_refuse(reading, value, "\"%s\" is a whole number from 0 on", member);
	*bytes = INT64_MAX;
	return 0;
}

static int read_range(struct mscclpp *reading)
{
	int64_t least = 0, most = INT64_MAX;
	int err = read_bound(reading, "min_message_size", &least);

	if (!err)
		err = read_bound(reading, "max_message_size", &most);
	if (err)
		return err;
	msccl_set_range(reading->msccl, least, most);
	if (reading->msccl->most_bytes < reading->msccl->least_bytes)
		return mscclpp_refuse(reading, reading->json.values,
			"no size is between \"min_message_size\" and \"max_message_size\"");
	return 0;
}

static int read_problem(struct mscclpp *reading)
{
	const struct rd_json_value *document = reading->json.values, *in_place;
	const char *name, *text;
	int err = mscclpp_text(reading, document, "name", &name), collective;

	if (!err)
		err = mscclpp_text(reading, document, "collective", &text);
	if (err)
		return err;
	collective = msccl_collective(text);
	if (collective < 0)
		return mscclpp_refuse(
			reading, document, "there is no plan of collective \"%.40s\"", text);
	reading->msccl->problem.collective = (enum rd_collective)collective;
	in_place = rd_json_member(&reading->json, document, "inplace");
	if (!in_place || (in_place->kind != RD_JSON_TRUE && in_place->kind != RD_JSON_FALSE))
		return mscclpp_refuse(
			reading, in_place ? in_place : document, "\"inplace\" is true or false");
	reading->msccl->in_place = in_place->kind == RD_JSON_TRUE;
	err = read_gpus(reading);
	return err ? err : msccl_begin(reading->msccl, name);
}

static int read_document(struct mscclpp *reading)
{
	int err = read_scale(reading);

	if (!err)
		err = read_problem(reading);
	if (!err)
		err = read_chunks(reading);
	if (!err)
		err = read_range(reading);
	if (!err)
		err = make_resources(reading);
	for (int rank = 0; !err && rank < reading->msccl->problem.size; rank++) {
		reading->rank = rank;
		err = read_blocks(reading);
	}
	return err;
}

int mscclpp_parse(struct msccl *msccl, const char *name, const char *text, size_t size)
{
	struct mscclpp reading = {
		.name = name, .msccl = msccl, .rank = -1, .block = -1, .op = -1
	};
	int err = rd_json_parse(&reading.json, name, text, size);

	*msccl = (struct msccl){ .name = name };
	if (!err)
		err = read_document(&reading);
	if (!err)
		err = msccl_join_chunks(msccl);
	free(reading.gpus);
	free(reading.channels);
	free(reading.buffers);
	free(reading.pairs);
	rd_json_finish(&reading.json);
	return err;
}
